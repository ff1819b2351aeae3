"""The options of a route of the bridge: for Python, files of routes and the command line.

The checks import other modules only when they run, so that ``--help`` need not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from amqp10msg.options import check_option, declared, option

if TYPE_CHECKING:
    from amqp10msg.basic import BasicMessage
    from amqp10msg.message import Message
    from amqp10msg.net.bridge.terms import SourceDelivery
    from amqp10msg.net.bridge.urls import Endpoint

#: What may become of a message that the target does not take.
ACTIONS = ("quarantine", "requeue", "reject")
#: Why a target does not take it, and how often that is tried again.
REASONS: Mapping[str, str] = {
    "untranslatable": "it cannot be translated, or its bytes are not a message; not tried again",
    "unreadable": "a line of a file that is not a message; not tried again",
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
#: The keys of `amqp10msg.delivery.filters.LANGUAGES`, without importing it for ``--help``.
_FILTER_LANGUAGES = ("selector", "sql", "oasis", "topic", "direct")

#: A hook: takes a message in the target's protocol, returns it, another one, or None to drop it.
Change: TypeAlias = "Callable[[Any, SourceDelivery], BasicMessage | Message | None]"


def _place(given: str | Endpoint) -> Endpoint:
    from amqp10msg.net.bridge.urls import Endpoint, parse_url  # noqa: PLC0415  (see above)

    if isinstance(given, Endpoint):
        return given
    if not isinstance(given, str):
        raise TypeError(
            f"quarantine_queue must be a URL or an Endpoint, not {type(given).__name__}"
        )
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


@attrs.frozen(kw_only=True)
class Waits:
    """Internal waiting times and timeouts of a bridge, in seconds. Tests make them short.

    Attributes:
        look: interval of the checks for idle time, stalls and limits.
        silent: a connection attempt is logged if the peer has not answered after this time.
        ask_again: minimum interval between two queries of the depth of a source that is not empty.
        answer: timeout of such a query.
        management_lag: time after which RabbitMQ's management API counts a delivery.
        management_answer: timeout of a request to a management API.
        second_count: time between two counts of an empty queue that the bridge does not consume. It
            must be longer than two round trips to the broker.
        quiet: at the end, the bridge stops waiting for outcomes if none arrived for this time.
        end: timeout from the last outcome, or the stop, to the end of the route.
        close: part of `end`: the timeouts of counting the remaining messages and of closing.
        close_hastily: part of `end` that is reserved for closing.
        share_again: time after the loss of a shared connection until a link shares one again.
        settle: time for the count at a target of `migrate` to match the accepted messages.
    """

    look: float = 0.25
    silent: float = 5.0
    ask_again: float = 5.0
    answer: float = 10.0
    management_lag: float = 15.0
    management_answer: float = 30.0
    second_count: float = 0.5
    quiet: float = 3.0
    end: float = 4.0
    close: float = 2.0
    close_hastily: float = 0.5
    share_again: float = 10.0
    settle: float = 5.0


#: The default of `RouteOptions.waits`.
WAITS = Waits()


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
        drain: seconds that outcomes are waited for at the end, at most; where none comes for 3 s,
            no longer.
        keep_names: from 0-9-1 to 1.0, say in annotations which exchange and routing key a message
            was published with, as RabbitMQ does, which overwrites them.
        filter: the text of a filter in the language `filter_language`; only messages that pass it
            are moved, and the others are settled as `unmatched` says. None to move all messages.
        filter_language: a key of `amqp10msg.delivery.filters.LANGUAGES`.
        change: a hook for each message.
        match: a function in place of `filter`: returns whether a message is moved.
        predicate: the function that decides whether a message is moved: `match`, or one that
            evaluates `filter`; None to move all messages. Not an argument.
        unmatched: ``accept``, ``reject``, or ``requeue``: back to the source after `max_backoff`,
            for others that consume it; a stream has it anyway.
        waits: how long the route waits for what no other option is about; tests make this short.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: a number is out of bounds; a text is not one of the choices, or cannot be
            parsed; both `filter` and `match` are given.
    """

    profile: str = declared("lossless", str, "How to translate.", "NAME", validator=_profile)
    window: int = declared(
        1_000, int, "How many messages may be unsettled at a time.", low=1, high=65_535
    )
    max_bytes: int = declared(
        32 << 20, int, "Bytes of these, beyond which the source is not read.", low=1, flag=None
    )
    max_message: int = declared(
        24 << 20,
        int,
        "Write larger messages to files beside the quarantine as they come, instead of sending "
        "them; nine times as much may be in memory.",
        "BYTES",
        low=1,
        shown="25165824, 24 MiB",
    )
    max_large: int = declared(16 << 30, int, "Bytes that these files may have together.", flag=None)
    max_messages: int | None = declared(None, int, "End after this many messages.", low=1)
    until_length: bool = declared(
        False, bool, "End when as many messages are settled as the source had at the start."
    )
    idle: float | None = declared(
        None,
        float,
        "With --until-empty: ask the source after this many seconds without a message.",
        low=0.01,
        default=2.0,
    )
    stall: float = declared(
        60.0,
        float,
        "With --until-empty: give up after so long without a message, though some remain.",
        "SECONDS",
        low=0.01,
    )
    management: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(_api),
        repr=_api_shown,
        metadata=option(
            str,
            "RabbitMQ's management API of the source, which counts what other consumers hold.",
            "URL",
        ),
    )
    declare: bool = declared(
        False,
        bool,
        "Create the source's queue at the target first, with exchanges, bindings and policies; "
        "needs --management and --target-management.",
    )
    target_management: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(_api),
        repr=_api_shown,
        metadata=option(str, "RabbitMQ's management API of the target, for --declare.", "URL"),
    )
    sole_consumer: bool = declared(
        False,
        bool,
        "Nobody else consumes from the source: if its broker does not say, no other consumer "
        "holds messages.",
    )
    connect_timeout: float | None = declared(
        None,
        float,
        "Give up if an end is not reached in this time.",
        "SECONDS",
        low=0.01,
        shown="60 in a bridge that is to end, else none",
    )
    deadline: float | None = declared(
        None, float, "End after this time, as by SIGTERM.", "SECONDS", low=0.01
    )
    quarantine: Path = attrs.field(
        default=Path("quarantine.jsonl"),
        converter=Path,
        metadata=option(Path, "The file for messages that the target refuses."),
    )
    quarantine_queue: Endpoint | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(_place),
        validator=_takes,
        metadata=option(
            str, "A queue for them instead; what it does not accept goes to the file.", "URL"
        ),
    )
    deduplicate: Path | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(Path),
        metadata=option(
            Path,
            "Remember message-ids in this file, and do not send again what the target accepted.",
        ),
    )
    remember: int = declared(1_000_000, int, "How many of them are remembered.", low=1, flag=None)
    state: Path | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(Path),
        metadata=option(
            Path, "Remember in this file how far a stream was read, and continue from there."
        ),
    )
    on: Mapping[str, str] = attrs.field(
        factory=dict,
        validator=[check_option, _on],
        metadata=option(
            dict,
            "What to do with messages refused for a reason: quarantine (default), requeue or "
            "reject; repeatable.",
            "REASON=ACTION",
        ),
    )
    attempts: int = declared(
        8, int, "How often to try a message that is refused; a full target does not count.", low=1
    )
    patience: float | None = declared(
        None,
        float,
        "Give up on a message after this long, also at a full target; by default wait for it.",
        "SECONDS",
    )
    outcome_timeout: float = declared(
        30.0, float, "Reconnect to a target that does not answer for so long.", "SECONDS", low=0.01
    )
    backoff: float = declared(
        0.1, float, "Seconds between attempts at first, which double.", low=0.001, flag=None
    )
    max_backoff: float = declared(5.0, float, "The most that these become.", low=0.001, flag=None)
    drain: float = declared(
        30.0, float, "How long to wait for outcomes at the end, while some come.", "SECONDS"
    )
    keep_names: bool = declared(
        False, bool, "From 0-9-1 to 1.0: keep exchange and routing key in annotations."
    )
    filter: str | None = declared(None, str, "Bridge only messages that pass this filter.", "TEXT")
    filter_language: str = declared(
        "selector",
        str,
        "The language of --filter, as for the command filter.",
        choices=_FILTER_LANGUAGES,
    )
    change: Change | None = None
    match: Callable[[Any], bool] | None = None
    unmatched: str = declared(
        "requeue", str, "How to settle messages that do not pass.", choices=_UNMATCHED
    )
    waits: Waits = attrs.field(factory=lambda: WAITS, repr=False)
    predicate: Callable[[Any], bool] | None = attrs.field(init=False, eq=False, repr=False)

    @predicate.default
    def _make_predicate(self) -> Callable[[Any], bool] | None:
        if self.filter is None:
            return self.match
        if self.match is not None:
            raise ValueError("filter and match are both given: use one of them")
        from amqp10msg.net.bridge.matcher import Matcher  # noqa: PLC0415  (see above)

        return Matcher(self.filter, self.filter_language)

    @property
    def asks(self) -> bool:
        """Whether the source is asked what it has, and the route ends where it has nothing more."""
        return self.idle is not None or self.until_length

    @property
    def ends(self) -> bool:
        """Whether the route is to end by itself, whatever its deadline."""
        return self.asks or self.max_messages is not None

    @property
    def reach(self) -> float | None:
        """Seconds that an end which was never reached is tried for; None for ever."""
        return _REACH if self.ends and self.connect_timeout is None else self.connect_timeout
