"""The specifications of routes, in Python and in TOML files."""

from __future__ import annotations

import fnmatch
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.net.bridge.management import Management, Queue, queues_of
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.ends.counts import basic_endpoint_of
from amqp10msg.net.ends.urls import (
    Endpoint,
    FileLimits,
    parquet_source_error,
    parse_urls,
    queue_address,
)
from amqp10msg.options import Option, options_of


def _to_endpoint(value: str | Sequence[str] | Endpoint) -> Endpoint:
    """Convert a URL or several alternative URLs to an endpoint."""
    if isinstance(value, Endpoint):
        return value
    urls: Any = [value] if isinstance(value, str) else value
    if not isinstance(urls, Sequence) or not all(isinstance(url, str) for url in urls):
        raise TypeError("the source or target of a route must be a URL or a list of URLs")
    return parse_urls(urls)


@attrs.frozen
class RouteSpec:
    """The specification of a route.

    Attributes:
        source: the source: a URL (see `parse_url`) or several URLs (see `parse_urls`).
        target: the target: a URL or several URLs.
        options: the options.
        name: the name in logs, reports and metrics. The default consists of the names of source
            and target.

    Raises:
        TypeError: the source or target is neither a URL nor a list of URLs.
        ValueError: a URL is invalid, or the source, the target and the options do not fit together.
    """

    source: Endpoint = attrs.field(converter=_to_endpoint)
    target: Endpoint = attrs.field(converter=_to_endpoint)
    options: RouteOptions = attrs.Factory(RouteOptions)
    name: str = ""

    def __attrs_post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", f"{self.source.name} -> {self.target.name}")
        if self.target.parquet is not None:  # the messages are not translated
            target = attrs.evolve(self.target, protocol=self.source.protocol)
            object.__setattr__(self, "target", target)
            _check_limits(self.target.parquet, self.options)
        source, target = self.source, self.target
        if source.parquet is not None:
            raise ValueError(parquet_source_error(source))
        if source.file is not None and target.file is not None:
            raise ValueError(f"{source}: source and target are both files; one must be a broker")
        if source.protocol == "0-9-1" and not source.queue and source.file is None:
            raise ValueError(f"{source}: a source of AMQP 0-9-1 needs a queue: ?queue=NAME")
        if source.protocol == "1.0" and source.address is None and source.file is None:
            raise ValueError(f"{source}: a source of AMQP 1.0 needs an address after the host")
        if self.options.state is not None and not source.keeps:
            text = "a state file is for a stream, whose URL has offset=, or for a file"
            raise ValueError(f"{source}: {text}")
        if self.options.declare:
            declaration_of(source, target, self.options)
        if target.offset is not None:
            raise ValueError(f"{target}: offset= is for sources only")
        # Unlike Path.resolve, realpath accepts a symbolic link to itself.
        quarantine = os.path.realpath(self.options.quarantine)
        for file, role in ((source.file, "source"), (target.file, "target")):
            if file is not None and os.path.realpath(file) == quarantine:
                raise ValueError(
                    f"file:{file}: the {role} is also the quarantine, so a message that is refused "
                    "again would be in it twice; give another file as quarantine (--quarantine)"
                )
        source_queues = _queues_of(source)
        for end, role in (
            (target, "the target"),
            (self.options.quarantine_queue, "its quarantine"),
        ):
            if end is not None and source_queues & _queues_of(end):
                text = f"{role} is the queue that the route reads: the queue would never be empty"
                raise ValueError(f"{end}: {text}")


@attrs.frozen
class Declaration:
    """What `RouteOptions.declare` needs.

    Attributes:
        source: the management API of the source.
        target: the management API of the target.
        target_name_by_source_name: the name of the queue at the target, by its name at the source.
    """

    source: Management
    target: Management
    target_name_by_source_name: Mapping[str, str]


def declaration_of(source: Endpoint, target: Endpoint, options: RouteOptions) -> Declaration:
    """Return the management APIs and the queue with which a route declares its source's queue.

    Raises:
        ValueError: an API is missing, or an end of the route is not a queue of RabbitMQ.
    """
    if options.management is None or options.target_management is None:
        raise ValueError("declare needs the management APIs: give management and target-management")
    queue = basic_endpoint_of(source)
    if queue is None or not queue.queue or source.file is not None or target.file is not None:
        raise ValueError(
            f"{source} -> {target}: declare needs queues of RabbitMQ as source and target"
        )
    target_queue = basic_endpoint_of(target)
    name = target_queue.queue if target_queue is not None and target_queue.queue else queue.queue
    timeout = options.waits.management_timeout
    return Declaration(
        Management(options.management, source, timeout=timeout),
        Management(options.target_management, target, timeout=timeout),
        {queue.queue: name},
    )


def _check_limits(limits: FileLimits, options: RouteOptions) -> None:
    """Raise ValueError if a route with these options would wait too long for a Parquet file."""
    if limits.octets > options.max_bytes:
        raise ValueError(
            f"octets={limits.octets} of the Parquet files exceeds max-bytes, {options.max_bytes}: "
            "the route would stop reading before a file is written; lower octets"
        )
    if limits.seconds >= options.outcome_timeout:
        raise ValueError(
            f"seconds={limits.seconds:g} of the Parquet files must be less than outcome-timeout, "
            f"{options.outcome_timeout:g}: raise outcome-timeout, or lower seconds"
        )


def _queues_of(endpoint: Endpoint) -> set[tuple[str, int, str, str]]:
    """Return the RabbitMQ queues of an endpoint as (host, port, virtual host, name)."""
    queues = set()
    for candidate in endpoint.places:
        basic_endpoint = basic_endpoint_of(candidate) if candidate.file is None else None
        if basic_endpoint is None:
            continue
        name = basic_endpoint.queue
        if not name and basic_endpoint.exchange == "":  # the routing key is the name of a queue
            name = basic_endpoint.routing_key
        host = (
            "localhost"
            if basic_endpoint.host in {"127.0.0.1", "::1"}
            else basic_endpoint.host.lower()
        )
        if name:
            queues.add((host, basic_endpoint.port, basic_endpoint.virtual_host or "/", name))
    return queues


def routes_by_name(specs: Iterable[RouteSpec]) -> dict[str, RouteSpec]:
    """Return specifications by name.

    Raises:
        ValueError: two routes have the same name.
    """
    by_name: dict[str, RouteSpec] = {}
    for spec in specs:
        if spec.name in by_name:
            raise ValueError(f"two routes have the name {spec.name!r}: give them different names")
        by_name[spec.name] = spec
    return by_name


def profile_of(spec: RouteSpec) -> str:
    """Return the name of the route's profile, or a note that the route does not translate."""
    translates = spec.source.protocol != spec.target.protocol
    return spec.options.profile if translates else "none, one protocol"


def apis_of(spec: RouteSpec) -> list[Management]:
    """Return the management APIs that a route uses, at most one each for source and target."""
    options = spec.options
    apis = ((options.management, spec.source), (options.target_management, spec.target))
    timeout = options.waits.management_timeout
    return [Management(url, end, timeout=timeout) for url, end in apis if url is not None]


#: The type of the name of a route in a file.
_ROUTE_NAME_OPTION = Option(str)
#: The options that a file of routes can have, by name. Hooks can be given only in Python.
_OPTION_BY_NAME = {field.name: option for field, option in options_of(RouteOptions)}


def read_routes(path: Path) -> list[RouteSpec]:
    """Read the routes of a TOML file: ``[[route]]`` with ``from``, ``to``, ``name`` and options.

    ``from`` and ``to`` are URLs, or lists of alternative URLs. A table with
    ``all_queues = PATTERN`` makes a route for each matching queue of the source; see
    `routes_of_queues`. The options are the fields of `RouteOptions`, with hyphens or underscores
    in their names; a table ``[defaults]`` has the options that all routes share. Relative paths are
    relative to the file.

    Raises:
        OSError: the file cannot be read, or a management API does not answer.
        ValueError: the file is invalid; the error text names the route, and shows no URL.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{path}: its values are nested too deeply") from None
    except ValueError as error:  # invalid TOML or UTF-8
        raise ValueError(f"{path}: {error}") from None
    defaults, routes = tables.pop("defaults", {}), tables.pop("route", [])
    if tables or not isinstance(routes, list) or not routes or not isinstance(defaults, dict):
        problem = f"has {min(tables)!r}" if tables else "has none"
        raise ValueError(
            f"{path}: a file of routes has tables [[route]] and a table [defaults]; this {problem}"
        )
    if not all(isinstance(route, dict) for route in routes):
        raise ValueError(f"{path}: a route must be a table: [[route]]")
    specs = []
    for number, route in enumerate(routes, 1):
        name = route.pop("name", "")
        try:
            _ROUTE_NAME_OPTION.check("name", name)
            values = {**defaults, **route}
            source, target = values.pop("from", None), values.pop("to", None)
            pattern = values.pop("all_queues", values.pop("all-queues", None))
            options = _parse_options(values, path.parent)
            if source is None or target is None:
                raise ValueError(f"it has no {'from' if source is None else 'to'!r}")
            if pattern is None:
                specs.append(RouteSpec(source, target, options, name))
            else:
                specs += routes_of_queues(source, target, options, pattern)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: route {name or number}: {error}") from None
    try:
        routes_by_name(specs)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return specs


def routes_of_queues(
    source: str | Sequence[str] | Endpoint,
    target: str | Sequence[str] | Endpoint,
    options: RouteOptions,
    pattern: str,
    listed: Iterable[Queue] | None = None,
) -> list[RouteSpec]:
    """Return a route for each queue of a RabbitMQ whose name matches a pattern.

    Args:
        source: the broker, without a queue.
        target: a broker without a queue, if each queue is moved to a queue of the same name; or one
            queue, address, exchange or file for all messages.
        options: the options of all routes, with the source's management API. A state file is used
            for streams, which are read from the first message on.
        pattern: a pattern of queue names; wildcards are as for file names: ``*``, ``?``, ``[...]``.
        listed: the queues; None to list them by the management API.

    Raises:
        LinkError: the management API does not answer.
        ValueError: the source is not a broker without a queue, `options` has no management API, or
            no queue matches.
    """
    source, target = _to_endpoint(source), _to_endpoint(target)
    if options.management is None:
        raise ValueError("all-queues needs management, the API of the source, to list the queues")
    if source.file is not None or source.queue is not None or source.address is not None:
        raise ValueError(f"{source}: with all-queues, the source must be a broker without a queue")
    if listed is None:
        timeout = options.waits.management_timeout
        listed = queues_of(Management(options.management, source, timeout=timeout))
    queues = matching(listed, pattern)
    if not queues:
        raise ValueError(f"{source} has no queue {pattern!r} that other connections can read")
    by_name = target.file is None and not (target.queue or target.address or target.exchange)
    return [
        RouteSpec(
            _with_queue(source, queue.name, "first" if queue.kind == "stream" else None),
            _with_queue(target, queue.name) if by_name else target,
            options if queue.kind == "stream" else attrs.evolve(options, state=None),
            queue.name,
        )
        for queue in queues
    ]


def matching(listed: Iterable[Queue], pattern: str) -> list[Queue]:
    """Return the queues that match a pattern, without exclusive queues, which cannot be read."""
    return [
        queue
        for queue in listed
        if fnmatch.fnmatchcase(queue.name, pattern) and not queue.exclusive
    ]


def _with_queue(endpoint: Endpoint, queue: str, offset: str | None = None) -> Endpoint:
    """Return a broker's endpoint with a queue; a 1.0 address is for RabbitMQ 4 and later."""
    alternatives = tuple(_with_queue(alternative, queue, offset) for alternative in endpoint.others)
    if endpoint.protocol == "0-9-1":
        return attrs.evolve(endpoint, queue=queue, offset=offset, others=alternatives)
    return attrs.evolve(endpoint, address=queue_address(queue), offset=offset, others=alternatives)


def _parse_options(values: dict[str, Any], folder: Path) -> RouteOptions:
    """Parse the options of a route. Relative paths are relative to `folder`."""
    options = {key.replace("-", "_"): value for key, value in values.items()}
    unknown = options.keys() - _OPTION_BY_NAME.keys()
    if unknown:
        name = min(unknown)
        similar = get_close_matches(name, [*_OPTION_BY_NAME, "from", "to", "name"], 1)
        hint = f" (did you mean {similar[0]}?)" if similar else ""
        if name == "until_empty":
            hint = " (in a file, idle = SECONDS ends a route when its source is empty)"
        raise ValueError(
            f"{name!r} is not an option{hint}: use one of {', '.join(sorted(_OPTION_BY_NAME))}"
        )
    for key, value in options.items():
        _OPTION_BY_NAME[key].check(key, value)
        if _OPTION_BY_NAME[key].kind is Path:
            options[key] = folder / value
    return RouteOptions(**options)
