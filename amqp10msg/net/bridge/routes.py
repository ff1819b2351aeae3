"""Routes: from where, to where and how, in Python and in a TOML file."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.net.bridge.counting import over_basic
from amqp10msg.net.bridge.management import Management, Queue, queues_of
from amqp10msg.net.bridge.urls import Endpoint, parse_urls, queue_address
from amqp10msg.net.options import RouteOptions
from amqp10msg.options import Option, options_of


def _endpoint(given: str | Sequence[str] | Endpoint) -> Endpoint:
    if isinstance(given, Endpoint):
        return given
    urls: Any = [given] if isinstance(given, str) else given
    if not isinstance(urls, Sequence) or not all(isinstance(url, str) for url in urls):
        raise TypeError("an end of a route must be a URL or a list of URLs")
    return parse_urls(urls)


@attrs.frozen
class RouteSpec:
    """A route to be run.

    Attributes:
        source: where from; as a URL, see `parse_url`, or several, see `parse_urls`.
        target: where to.
        options: how.
        name: for logs, reports and metrics; source and target where empty.
    """

    source: Endpoint = attrs.field(converter=_endpoint)
    target: Endpoint = attrs.field(converter=_endpoint)
    options: RouteOptions = attrs.Factory(RouteOptions)
    name: str = ""

    def __attrs_post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", f"{self.source.name} -> {self.target.name}")
        source, target = self.source, self.target
        if source.file is not None and target.file is not None:
            raise ValueError(f"{source}: one end of a route is a broker")
        if source.protocol == "0-9-1" and not source.queue and source.file is None:
            raise ValueError(f"{source}: a source of AMQP 0-9-1 is a queue: ?queue=NAME")
        if source.protocol == "1.0" and source.address is None and source.file is None:
            raise ValueError(f"{source}: a source of AMQP 1.0 has an address, after the host")
        if self.options.state is not None and not source.keeps:
            text = "a state file is for a stream, whose URL has offset=, or for a file"
            raise ValueError(f"{source}: {text}")
        if self.options.declare and not (
            self.options.management and self.options.target_management
        ):
            raise ValueError("declare needs management and target-management, the API of each end")
        if target.offset is not None:
            raise ValueError(f"{target}: offset= belongs to a source")
        read = _places(source)
        for end, what in (
            (target, "the target"),
            (self.options.quarantine_queue, "its quarantine"),
        ):
            if end is not None and read & _places(end):
                text = f"{what} is the queue that the route reads, which would never be empty"
                raise ValueError(f"{end}: {text}")


def _places(endpoint: Endpoint) -> set[tuple[str, int, str, str]]:
    """Return where a queue or address is: host, port, virtual host, name."""
    found = set()
    for place in endpoint.places:
        at = over_basic(place) if place.file is None else None
        if at is None:
            continue
        name = at.queue
        if not name and at.exchange == "":  # the default exchange has the names of queues as keys
            name = at.routing_key
        host = "localhost" if at.host in {"127.0.0.1", "::1"} else at.host.lower()
        if name:
            found.add((host, at.port, at.virtual_host or "/", name))
    return found


def profile_of(spec: RouteSpec) -> str:
    """Name the translation of a route, for people."""
    translates = spec.source.protocol != spec.target.protocol
    return spec.options.profile if translates else "none, one protocol"


def apis_of(spec: RouteSpec) -> list[Management]:
    """Return the management APIs that a route asks."""
    options = spec.options
    given = ((options.management, spec.source), (options.target_management, spec.target))
    timeout = options.waits.management_answer
    return [Management(at, end, timeout=timeout) for at, end in given if at is not None]


_NAME = Option(str)
#: The options of a route in a file, by name; hooks can be given in Python only.
_OPTIONS = {field.name: how for field, how in options_of(RouteOptions)}


def read_routes(path: Path) -> list[RouteSpec]:
    """Read the routes of a file: tables ``[[route]]`` with ``from``, ``to``, ``name`` and options.

    ``from`` and ``to`` are URLs, or lists of them, which are places of one end.

    With ``all_queues = PATTERN``, a table is a route for each queue of the source that has such a
    name, as `routes_of_queues` makes them.

    The options are those of `RouteOptions`, with a hyphen or an underscore in their names; a table
    ``[defaults]`` has those that all routes share. Relative paths start at the file.

    Raises:
        OSError: the file cannot be read, or a management API does not answer.
        ValueError: the file is not valid; the message says which route, and shows no URL.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{path}: its values are nested too deeply") from None
    except ValueError as error:  # no TOML, or no UTF-8
        raise ValueError(f"{path}: {error}") from None
    defaults, routes = found.pop("defaults", {}), found.pop("route", [])
    if found or not isinstance(routes, list) or not routes or not isinstance(defaults, dict):
        wrong = f"it has {min(found)!r}" if found else "it has none"
        raise ValueError(f"{path}: a file of routes has [[route]] and [defaults], and {wrong}")
    if not all(isinstance(route, dict) for route in routes):
        raise ValueError(f"{path}: a route is a table: [[route]]")
    made = []
    for number, route in enumerate(routes, 1):
        name = route.pop("name", "")
        try:
            _NAME.check("name", name)
            given = {**defaults, **route}
            source, target = given.pop("from"), given.pop("to")
            pattern = given.pop("all_queues", given.pop("all-queues", None))
            options = _options(given, path.parent)
            if pattern is None:
                made.append(RouteSpec(source, target, options, name))
            else:
                made += routes_of_queues(source, target, options, pattern)
        except KeyError as error:
            raise ValueError(f"{path}: route {name or number} has no {error}") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: route {name or number}: {error}") from None
    return made


def routes_of_queues(
    source: str | Sequence[str] | Endpoint,
    target: str | Sequence[str] | Endpoint,
    options: RouteOptions,
    pattern: str,
    listed: Iterable[Queue] | None = None,
) -> list[RouteSpec]:
    """Return a route for each queue of a RabbitMQ with such a name, which it is called by.

    The source is a broker, without a queue, and so is the target, where each queue goes to that of
    its name; or it is one place for all. The pattern is as of files: ``*``, ``?``, ``[...]``. The
    management API of the options lists the queues, unless they were listed before; a stream is read
    from its first message on.
    """
    source, target = _endpoint(source), _endpoint(target)
    if options.management is None:
        raise ValueError("all-queues needs the management API of the source, which lists them")
    if source.file is not None or source.queue is not None or source.address is not None:
        raise ValueError(f"{source}: with all-queues, the source is a broker, without a queue")
    if listed is None:
        timeout = options.waits.management_answer
        listed = queues_of(Management(options.management, source, timeout=timeout))
    found = matching(listed, pattern)
    if not found:
        raise ValueError(f"{source} has no queue {pattern!r} that others can read")
    goes = target.file is None and not (target.queue or target.address or target.exchange)
    return [
        RouteSpec(
            _named(source, queue.name, "first" if queue.kind == "stream" else None),
            _named(target, queue.name) if goes else target,
            options if queue.kind == "stream" else attrs.evolve(options, state=None),
            queue.name,
        )
        for queue in found
    ]


def matching(listed: Iterable[Queue], pattern: str) -> list[Queue]:
    """Return the queues of these names that others than their owner can read."""
    return [
        queue
        for queue in listed
        if fnmatch.fnmatchcase(queue.name, pattern) and not queue.exclusive
    ]


def _named(endpoint: Endpoint, queue: str, offset: str | None = None) -> Endpoint:
    """Return the queue of a RabbitMQ, of version 4 and later over 1.0."""
    others = tuple(_named(one, queue, offset) for one in endpoint.others)
    if endpoint.protocol == "0-9-1":
        return attrs.evolve(endpoint, queue=queue, offset=offset, others=others)
    return attrs.evolve(endpoint, address=queue_address(queue), offset=offset, others=others)


def _options(given: dict[str, Any], folder: Path) -> RouteOptions:
    options = {key.replace("-", "_"): value for key, value in given.items()}
    unknown = options.keys() - _OPTIONS.keys()
    if unknown:
        raise ValueError(
            f"{min(unknown)!r} is not an option: use one of {', '.join(sorted(_OPTIONS))}"
        )
    for key, value in options.items():
        _OPTIONS[key].check(key, value)
        if _OPTIONS[key].kind is Path:
            options[key] = folder / value
    return RouteOptions(**options)
