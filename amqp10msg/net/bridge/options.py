"""Routes: from where, to where, and what a user decides of them, in Python and in a TOML file."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from amqp10msg.basic import BasicMessage
from amqp10msg.delivery.filters import LANGUAGES
from amqp10msg.message import Message
from amqp10msg.net.bridge.terms import Delivery
from amqp10msg.net.bridge.urls import Endpoint, parse_url
from amqp10msg.translate import PROFILES, to_amqp10
from amqp10msg.wire.errors import AmqpError


def matcher(text: str, language: str = "selector") -> Callable[[Any], bool]:
    """Return what says whether a message passes a filter now; one of 0-9-1 by its translation.

    Args:
        text: the filter.
        language: what it is written in, a name of `amqp10msg.delivery.filters.LANGUAGES`.

    Raises:
        ValueError: it is no such filter, or there is no such language.
    """
    if language not in LANGUAGES:
        raise ValueError(f"filter-language is one of {', '.join(LANGUAGES)}, not {language!r}")
    try:
        made = LANGUAGES[language](text)
    except AmqpError as error:
        raise ValueError(f"filter: {error}") from None

    def matches(message: Any) -> bool:
        if isinstance(message, BasicMessage):
            message = to_amqp10(message).message
        return made.matches(message, now=time.time_ns() // 1_000_000)

    return matches


#: What may become of a message that the target does not take.
ACTIONS = ("quarantine", "requeue", "reject")
#: Why a target does not take it, and how often that is tried again.
REASONS: Mapping[str, str] = {
    "untranslatable": "it cannot be translated, or its bytes are not a message; not tried again",
    "too-large": "it is larger than the target takes, or than max_message; not tried again",
    "rejected": "outcome rejected; not tried again where the target says why",
    "modified": "outcome modified; not tried again where it is undeliverable here",
    "released": "outcome released, as RabbitMQ says where no queue is bound",
    "returned": "basic.return: no queue is bound",
    "nacked": "basic.nack, as by a full queue: tried until it is taken",
    "full": "rejected by RabbitMQ without a reason, as by a full queue: tried until it is taken",
    "fatal": "the target ended the connection because of it",
}

#: Seconds that an end is tried for by a route that is to end.
_REACH = 60.0

#: A hook: takes a message in the target's protocol, returns it, another one, or None to drop it.
Change: TypeAlias = Callable[[Any, Delivery], "BasicMessage | Message | None"]


def _on(_instance: Any, _: Any, value: Mapping[str, str]) -> None:
    for reason, action in value.items():
        if reason not in REASONS:
            raise ValueError(f"{reason!r} is not a reason: use one of {', '.join(REASONS)}")
        if action not in ACTIONS:
            raise ValueError(f"{action!r} is not an action: use one of {', '.join(ACTIONS)}")


def _place(given: str | Endpoint) -> Endpoint:
    return given if isinstance(given, Endpoint) else parse_url(given)


def _takes(_instance: Any, _: Any, value: Endpoint | None) -> None:
    if value is None:
        return
    if value.file is not None or value.offset is not None:
        raise ValueError(f"{value}: quarantine_queue is a queue of a broker, to be sent to")
    if not (value.queue or value.exchange or value.address):
        raise ValueError(f"{value}: quarantine_queue names a queue, address or exchange")


def _profile(_instance: Any, _: Any, value: str) -> None:
    if value not in PROFILES:
        raise ValueError(f"there is no profile {value!r}: use one of {', '.join(PROFILES)}")


def _range(low: float, high: float) -> Any:
    def check(_: Any, attribute: Any, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{attribute.name} must be a number, not {value!r}")
        if not low <= value <= high:
            raise ValueError(f"{attribute.name} must be from {low:g} to {high:g}, not {value!r}")

    return check


@attrs.frozen(kw_only=True)
class RouteOptions:
    """How a route works.

    Attributes:
        profile: the translation, a name of `amqp10msg.translate.PROFILES`; between two ends of one
            protocol, nothing is translated.
        keep_names: from 0-9-1 to 1.0, say in annotations which exchange and routing key a message
            was published with, as RabbitMQ does, which overwrites them.
        window: deliveries that are not settled, 1 to 65535: prefetch, credit, and what may come
            twice after a crash.
        max_bytes: of these deliveries; beyond it the source is not read.
        max_message: bytes of a message that is kept in memory; a larger one is not sent, but goes
            to a file as it comes, beside the quarantine.
        max_large: bytes that these files may have together. A larger message that exceeds them is
            not settled while the route runs, and goes back to the source when it ends.
        on: what becomes of a message that is not taken, by reason (`REASONS`): ``quarantine``
            (usual), ``requeue`` or ``reject`` at the source.
        attempts: how often a message is refused until that; full targets do not count.
        patience: seconds until that, also where the target is full; None to wait for it.
        outcome_timeout: seconds until a target without an answer is given up, and reached anew.
        backoff: seconds between attempts at first; it doubles, with jitter.
        max_backoff: seconds that it ends at.
        idle: end when the source is empty, as its broker says: it is asked where nothing came for
            so many seconds and all is settled. None to go on.
        until_length: end when as many were settled as the source had when the route began; of a
            stream or file, all that was in it then. Where the connection to a queue is lost, what
            comes again would count twice: the route then ends when the source is empty.
        stall: seconds without a message after which a route that is to end does so, though the
            source has messages, or does not say.
        management: the URL of the source's management API (RabbitMQ), which knows the messages that
            other consumers hold; user and password are those of the source where it has none.
        sole_consumer: nobody else takes from the source: what its broker does not say of other
            consumers counts as none. Otherwise they may hold messages, and it is not empty.
        connect_timeout: seconds that an end which was never reached is tried for; None for 60 in a
            route that is to end, and for ever in others.
        deadline: seconds after which the route ends, as by `Route.stop`; None for none.
        max_messages: end after so many; None to go on.
        drain: seconds that outcomes are waited for at the end.
        quarantine: the file for the exact bytes of what nobody takes.
        quarantine_queue: a queue, address or exchange for them, as a URL, see `parse_url`; what it
            does not take, and what is too large for memory, goes to the file. None for the file
            alone.
        state: a file that remembers how far a stream or file was read; None for none.
        deduplicate: a file of the message-ids that were accepted; None for none.
        remember: how many of them are kept.
        change: a hook for each message.
        match: passes over messages: returns whether one is bridged; the others are settled as
            `unmatched` says.
        unmatched: ``accept``, ``reject``, or ``requeue``: back to the source after `max_backoff`,
            for others that consume it; a stream has it anyway.
    """

    profile: str = attrs.field(default="lossless", validator=_profile)
    keep_names: bool = False
    window: int = attrs.field(default=500, validator=_range(1, 65_535))
    max_bytes: int = attrs.field(default=32 << 20, validator=_range(1, 1 << 50))
    max_message: int = attrs.field(default=24 << 20, validator=_range(1, 1 << 50))
    max_large: int = attrs.field(default=16 << 30, validator=_range(0, 1 << 60))
    on: Mapping[str, str] = attrs.field(factory=dict, validator=_on)
    attempts: int = attrs.field(default=8, validator=_range(1, 1_000_000))
    patience: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(_range(0, 1e9))
    )
    outcome_timeout: float = attrs.field(default=30.0, validator=_range(0.01, 86_400))
    backoff: float = attrs.field(default=0.1, validator=_range(0.001, 3_600))
    max_backoff: float = attrs.field(default=5.0, validator=_range(0.001, 3_600))
    idle: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(_range(0.01, 1e9))
    )
    until_length: bool = False
    stall: float = attrs.field(default=60.0, validator=_range(0.01, 1e9))
    management: str | None = None
    sole_consumer: bool = False
    connect_timeout: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(_range(0.01, 1e9))
    )
    deadline: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(_range(0.01, 1e9))
    )
    max_messages: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_range(1, 1 << 62))
    )
    drain: float = attrs.field(default=30.0, validator=_range(0, 86_400))
    quarantine: Path = attrs.field(default=Path("quarantine.jsonl"), converter=Path)
    quarantine_queue: Endpoint | None = attrs.field(
        default=None, converter=attrs.converters.optional(_place), validator=_takes
    )
    state: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    deduplicate: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    remember: int = attrs.field(default=1_000_000, validator=_range(1, 1 << 40))
    change: Change | None = None
    match: Callable[[Any], bool] | None = None
    unmatched: str = attrs.field(
        default="requeue", validator=attrs.validators.in_(("accept", "requeue", "reject"))
    )

    @property
    def asks(self) -> bool:
        """Whether the source is asked what it has, and the route ends where it has nothing more."""
        return self.idle is not None or self.until_length

    @property
    def reach(self) -> float | None:
        """Seconds that an end which was never reached is tried for; None for ever."""
        ends = self.asks or self.max_messages is not None
        return _REACH if ends and self.connect_timeout is None else self.connect_timeout


@attrs.frozen
class RouteSpec:
    """A route to be run.

    Attributes:
        source: where from; as a URL, see `parse_url`.
        target: where to.
        options: how.
        name: for logs, reports and metrics; source and target where empty.
    """

    source: Endpoint = attrs.field(converter=_place)
    target: Endpoint = attrs.field(converter=_place)
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
        if target.offset is not None:
            raise ValueError(f"{target}: offset= belongs to a source")


#: What a file can say of a route; hooks are for the API.
_KEYS = {field.name for field in attrs.fields(RouteOptions)} - {"change", "match"}
_KEYS |= {"filter", "filter_language"}


def read_routes(path: Path) -> list[RouteSpec]:
    """Read the routes of a file: tables ``[[route]]`` with ``from``, ``to``, ``name`` and options.

    The options are those of `RouteOptions`, with a hyphen or an underscore in their names; a table
    ``[defaults]`` has those that all routes share. ``filter`` is a text in the ``filter-language``,
    a name of `amqp10msg.delivery.filters.LANGUAGES`. Relative paths start at the file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not valid; the message says which route, and shows no URL.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from None
    defaults, routes = found.pop("defaults", {}), found.pop("route", [])
    if found or not isinstance(routes, list) or not routes or not isinstance(defaults, dict):
        wrong = f"it has {min(found)!r}" if found else "it has none"
        raise ValueError(f"{path}: a file of routes has [[route]] and [defaults], and {wrong}")
    made = []
    for number, route in enumerate(routes, 1):
        name = route.pop("name", "")
        try:
            given = {**defaults, **route}
            source, target = given.pop("from"), given.pop("to")
            options = _options(given, path.parent)
            made.append(RouteSpec(source, target, options, name))
        except KeyError as error:
            raise ValueError(f"{path}: route {name or number} has no {error}") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: route {name or number}: {error}") from None
    return made


def _options(given: dict[str, Any], folder: Path) -> RouteOptions:
    options = {key.replace("-", "_"): value for key, value in given.items()}
    unknown = options.keys() - _KEYS
    if unknown:
        raise ValueError(
            f"{min(unknown)!r} is not an option: use one of {', '.join(sorted(_KEYS))}"
        )
    text, language = options.pop("filter", None), options.pop("filter_language", "selector")
    if text is not None:
        options["match"] = matcher(text, language)
    for key in ("quarantine", "deduplicate", "state"):
        if key in options:
            options[key] = folder / options[key]
    return RouteOptions(**options)
