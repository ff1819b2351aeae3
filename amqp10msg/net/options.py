"""The options of a route, declared once: for Python, for files of routes and for the command line.

What checks them is imported when one is checked, so that ``--help`` need not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

if TYPE_CHECKING:
    from amqp10msg.basic import BasicMessage
    from amqp10msg.message import Message
    from amqp10msg.net.bridge.terms import Delivery
    from amqp10msg.net.bridge.urls import Endpoint

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
_UNMATCHED = ("accept", "requeue", "reject")

#: A hook: takes a message in the target's protocol, returns it, another one, or None to drop it.
Change: TypeAlias = "Callable[[Any, Delivery], BasicMessage | Message | None]"


@attrs.frozen
class OnCommandLine:
    """How an option is given on the command line, under the name of its field.

    Attributes:
        kind: the type of its value: int, float, bool for a flag, str, Path, or dict for pairs that
            are repeated.
        help: what ``--help`` says of it.
        metavar: what stands for the value there.
        low: the least number that the command takes.
        high: the largest.
        choices: the texts that it takes; all where empty.
        default: its value where it is not given, if that is another than the field's.
    """

    kind: type
    help: str
    metavar: str | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    default: Any = None


def on_command_line(options: type) -> Iterator[tuple[str, OnCommandLine]]:
    """Yield the names of options that the command line takes, and how."""
    for field in attrs.fields(options):
        if (how := field.metadata.get("command")) is not None:
            yield field.name, how


def _given(kind: type, text: str, metavar: str | None = None, **how: Any) -> dict[str, Any]:
    """Return the metadata of a field that the command line takes; `how` is of `OnCommandLine`."""
    return {"command": OnCommandLine(kind, text, metavar, **how)}


def _place(given: str | Endpoint) -> Endpoint:
    if not isinstance(given, str):
        return given
    from amqp10msg.net.bridge.urls import parse_url  # noqa: PLC0415  (see above)

    return parse_url(given)


def _api(given: str) -> str:
    """Return the URL of a management API with what its files hold now, so that a change shows."""
    from amqp10msg.net.bridge.urls import with_files  # noqa: PLC0415  (see above)

    return with_files(given)


def _api_shown(given: str | None) -> str:
    """Return it as a route's repr has it: without credentials."""
    from amqp10msg.net.bridge.urls import without_credentials  # noqa: PLC0415  (see above)

    return repr(None if given is None else without_credentials(given))


def _on(_instance: Any, _: Any, value: Mapping[str, str]) -> None:
    for reason, action in value.items():
        if reason not in REASONS:
            raise ValueError(f"{reason!r} is not a reason: use one of {', '.join(REASONS)}")
        if action not in ACTIONS:
            raise ValueError(f"{action!r} is not an action: use one of {', '.join(ACTIONS)}")


def _takes(_instance: Any, _: Any, value: Endpoint | None) -> None:
    if value is None:
        return
    if value.file is not None or value.offset is not None:
        raise ValueError(f"{value}: quarantine_queue is a queue of a broker, to be sent to")
    if not (value.queue or value.exchange or value.address):
        raise ValueError(f"{value}: quarantine_queue names a queue, address or exchange")


def _profile(_instance: Any, _: Any, value: str) -> None:
    from amqp10msg.translate import PROFILES  # noqa: PLC0415  (see above)

    if value not in PROFILES:
        raise ValueError(f"there is no profile {value!r}: use one of {', '.join(PROFILES.names)}")


def _range(low: float, high: float) -> Any:
    def check(_: Any, attribute: Any, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{attribute.name} must be a number, not {value!r}")
        if not low <= value <= high:
            raise ValueError(f"{attribute.name} must be from {low:g} to {high:g}, not {value!r}")

    return check


def _optional(low: float, high: float) -> Any:
    return attrs.validators.optional(_range(low, high))


@attrs.frozen(kw_only=True)
class RouteOptions:
    """How a route works.

    Attributes:
        profile: the translation, a name of `amqp10msg.translate.PROFILES`; between two ends of one
            protocol, nothing is translated.
        window: deliveries that are not settled, 1 to 65535: prefetch, credit, and what may come
            twice after a crash.
        max_bytes: of these deliveries; beyond it the source is not read.
        max_message: bytes of a message that is kept in memory; a larger one is not sent, but goes
            to a file as it comes, beside the quarantine.
        max_large: bytes that these files may have together. A larger message that exceeds them is
            not settled while the route runs, and goes back to the source when it ends.
        max_messages: end after so many; None to go on.
        until_length: end when as many were settled as the source had when the route began; of a
            stream or file, all that was in it then. Where the connection to a queue is lost, what
            comes again would count twice: the route then ends when the source is empty.
        idle: end when the source is empty, as its broker says: it is asked where nothing came for
            so many seconds and all is settled. None to go on.
        stall: seconds without a message after which a route that is to end does so, though the
            source has messages, or does not say.
        management: the URL of the source's management API (RabbitMQ), which knows the messages that
            other consumers hold; user and password are those of the source where it has none.
        declare: make at the target what the source's queue is, before the route starts: the queue,
            what leads to it, and the policies that apply to it, by both management APIs.
        target_management: the URL of the target's management API (RabbitMQ), as `management`.
        sole_consumer: nobody else takes from the source: what its broker does not say of other
            consumers counts as none. Otherwise they may hold messages, and it is not empty.
        connect_timeout: seconds that an end which was never reached is tried for; None for 60 in a
            route that is to end, and for ever in others.
        deadline: seconds after which the route ends, as by `Route.stop`; None for none.
        quarantine: the file for the exact bytes of what nobody takes.
        quarantine_queue: a queue, address or exchange for them, as a URL, see `parse_url`; what it
            does not take, and what is too large for memory, goes to the file. None for the file
            alone.
        deduplicate: a file of the message-ids that were accepted; None for none.
        remember: how many of them are kept.
        state: a file that remembers how far a stream or file was read; None for none.
        on: what becomes of a message that is not taken, by reason (`REASONS`): ``quarantine``
            (usual), ``requeue`` or ``reject`` at the source.
        attempts: how often a message is refused until that; full targets do not count.
        patience: seconds until that, also where the target is full; None to wait for it.
        outcome_timeout: seconds until a target without an answer is given up, and reached again.
        backoff: seconds between attempts at first; it doubles, with jitter.
        max_backoff: seconds that it ends at.
        drain: seconds that outcomes are waited for at the end.
        keep_names: from 0-9-1 to 1.0, say in annotations which exchange and routing key a message
            was published with, as RabbitMQ does, which overwrites them.
        change: a hook for each message.
        match: passes over messages: returns whether one is bridged; the others are settled as
            `unmatched` says.
        unmatched: ``accept``, ``reject``, or ``requeue``: back to the source after `max_backoff`,
            for others that consume it; a stream has it anyway.
    """

    profile: str = attrs.field(
        default="lossless",
        validator=_profile,
        metadata=_given(str, "How to translate.  [default: lossless]", "NAME"),
    )
    window: int = attrs.field(
        default=500,
        validator=_range(1, 65_535),
        metadata=_given(
            *(int, "How many messages may be unsettled at a time.  [default: 500]"),
            low=1,
            high=65_535,
        ),
    )
    max_bytes: int = attrs.field(default=32 << 20, validator=_range(1, 1 << 50))
    max_message: int = attrs.field(
        default=24 << 20,
        validator=_range(1, 1 << 50),
        metadata=_given(
            int,
            "Write larger messages to files beside the quarantine as they come, instead of sending "
            "them; nine times as much may be in memory.  [default: 25165824, 24 MiB]",
            "BYTES",
            low=1,
        ),
    )
    max_large: int = attrs.field(default=16 << 30, validator=_range(0, 1 << 60))
    max_messages: int | None = attrs.field(
        default=None,
        validator=_optional(1, 1 << 62),
        metadata=_given(int, "End after this many messages.", low=1),
    )
    until_length: bool = attrs.field(
        default=False,
        metadata=_given(
            bool, "End when as many messages are settled as the source has at the start."
        ),
    )
    idle: float | None = attrs.field(
        default=None,
        validator=_optional(0.01, 1e9),
        metadata=_given(
            *(
                float,
                "With --until-empty: ask the source after this many seconds without a message.",
            ),
            low=0.01,
            default=2.0,
        ),
    )
    stall: float = attrs.field(
        default=60.0,
        validator=_range(0.01, 1e9),
        metadata=_given(
            float,
            "With --until-empty: give up after so long without a message, though some remain.  "
            "[default: 60]",
            "SECONDS",
            low=0.01,
        ),
    )
    management: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(_api),
        repr=_api_shown,
        metadata=_given(
            str,
            "RabbitMQ's management API of the source, which counts what other consumers hold.",
            "URL",
        ),
    )
    declare: bool = attrs.field(
        default=False,
        metadata=_given(
            bool,
            "Make the source's queue at the target first, with exchanges, bindings and policies; "
            "needs --management and --target-management.",
        ),
    )
    target_management: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(_api),
        repr=_api_shown,
        metadata=_given(str, "RabbitMQ's management API of the target, for --declare.", "URL"),
    )
    sole_consumer: bool = attrs.field(
        default=False,
        metadata=_given(
            bool,
            "Nobody else takes from the source: what its broker does not say of others is none.",
        ),
    )
    connect_timeout: float | None = attrs.field(
        default=None,
        validator=_optional(0.01, 1e9),
        metadata=_given(
            float,
            "Give up an end that is not reached in this time.  [default: 60 in a bridge that is to "
            "end, else none]",
            "SECONDS",
            low=0.01,
        ),
    )
    deadline: float | None = attrs.field(
        default=None,
        validator=_optional(0.01, 1e9),
        metadata=_given(float, "End after this time, as by SIGTERM.", "SECONDS", low=0.01),
    )
    quarantine: Path = attrs.field(
        default=Path("quarantine.jsonl"),
        converter=Path,
        metadata=_given(
            Path, "The file for messages that the target refuses.  [default: quarantine.jsonl]"
        ),
    )
    quarantine_queue: Endpoint | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(_place),
        validator=_takes,
        metadata=_given(
            str, "A queue for them instead; what it does not accept goes to the file.", "URL"
        ),
    )
    deduplicate: Path | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(Path),
        metadata=_given(
            Path,
            "Remember message-ids in this file, and do not send again what the target accepted.",
        ),
    )
    remember: int = attrs.field(default=1_000_000, validator=_range(1, 1 << 40))
    state: Path | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(Path),
        metadata=_given(
            Path, "Remember in this file how far a stream was read, and continue from there."
        ),
    )
    on: Mapping[str, str] = attrs.field(
        factory=dict,
        validator=_on,
        metadata=_given(
            dict,
            "What to do with messages refused for a reason: quarantine (default), requeue or "
            "reject; repeatable.",
            "REASON=ACTION",
        ),
    )
    attempts: int = attrs.field(
        default=8,
        validator=_range(1, 1_000_000),
        metadata=_given(
            int,
            "How often to try a message that is refused; a full target does not count.  "
            "[default: 8]",
            low=1,
        ),
    )
    patience: float | None = attrs.field(
        default=None,
        validator=_optional(0, 1e9),
        metadata=_given(
            float,
            "Give up on a message after this long, also at a full target; by default wait for it.",
            "SECONDS",
            low=0,
        ),
    )
    outcome_timeout: float = attrs.field(
        default=30.0,
        validator=_range(0.01, 86_400),
        metadata=_given(
            *(float, "Reconnect to a target that does not answer for so long.  [default: 30]"),
            "SECONDS",
            low=0.1,
        ),
    )
    backoff: float = attrs.field(default=0.1, validator=_range(0.001, 3_600))
    max_backoff: float = attrs.field(default=5.0, validator=_range(0.001, 3_600))
    drain: float = attrs.field(
        default=30.0,
        validator=_range(0, 86_400),
        metadata=_given(
            *(float, "How long to wait for outcomes at the end.  [default: 30]", "SECONDS"), low=0
        ),
    )
    keep_names: bool = attrs.field(
        default=False,
        metadata=_given(bool, "From 0-9-1 to 1.0: keep exchange and routing key in annotations."),
    )
    change: Change | None = attrs.field(default=None, metadata={"hook": True})
    match: Callable[[Any], bool] | None = attrs.field(default=None, metadata={"hook": True})
    unmatched: str = attrs.field(
        default="requeue",
        validator=attrs.validators.in_(_UNMATCHED),
        metadata=_given(
            *(str, "How to settle messages that do not pass.  [default: requeue]"),
            choices=_UNMATCHED,
        ),
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
