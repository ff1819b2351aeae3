"""The options of a bridge's route: for Python, route files and the command line.

Validators and converters import other modules when they run, to keep ``--help`` fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from amqp10msg.brokers import unknown_name
from amqp10msg.filter_languages import FILTER_LANGUAGES
from amqp10msg.options import check_option, declared, option

if TYPE_CHECKING:
    from amqp10msg.basic import BasicMessage
    from amqp10msg.message import Message
    from amqp10msg.net.ends.terms import SourceDelivery
    from amqp10msg.net.ends.urls import Endpoint

#: The actions for a message that the target does not accept; the values of `RouteOptions.on`.
ACTIONS = ("quarantine", "requeue", "reject")
#: Reasons why a target does not accept a message, each with its meaning and retry policy. They are
#: the keys of `RouteOptions.on`.
REASONS: Mapping[str, str] = {
    "untranslatable": "it cannot be translated, or its bytes are not a message; not retried",
    "unreadable": "a line of a file that is not a message; not retried",
    "too-large": "it is larger than the target accepts, or than max_message; not retried",
    "rejected": "outcome rejected; not retried if the target gives a reason",
    "modified": "outcome modified; not retried if it is undeliverable-here",
    "released": "outcome released, which RabbitMQ sends if no queue is bound",
    "returned": "basic.return: no queue is bound",
    "nacked": "basic.nack, as by a full queue: retried until it is accepted",
    "full": "rejected with amqp:resource-limit-exceeded, or by RabbitMQ without a reason: retried "
    "until it is accepted",
    "fatal": "the target ended the connection because of it",
}

#: Default of `RouteOptions.connect_timeout`, in seconds, for a route that ends by itself.
_CONNECT_TIMEOUT = 60.0
#: The actions for a message that does not pass the filter; the values of `RouteOptions.unmatched`.
_UNMATCHED_ACTIONS = ("accept", "requeue", "reject")

#: A hook that may change each message. The arguments are the message in the target's protocol and
#: the source's delivery; the result is the message to send, or None to drop the message.
Change: TypeAlias = "Callable[[Any, SourceDelivery], BasicMessage | Message | None]"


def _to_endpoint(value: str | Endpoint) -> Endpoint:
    """Parse the option `quarantine_queue`."""
    from amqp10msg.net.ends.urls import Endpoint, parse_url  # noqa: PLC0415  (see above)

    if isinstance(value, Endpoint):
        return value
    if not isinstance(value, str):
        raise TypeError(
            f"quarantine_queue must be a URL or an Endpoint, not {type(value).__name__}"
        )
    return parse_url(value)


def _resolve_api(url: str) -> str:
    """Return the URL of a management API, in which the content of files replaces their names.

    When the content of such a file changes, newly read options differ from the old options.
    """
    from amqp10msg.net.ends.urls import with_files  # noqa: PLC0415  (see above)

    return with_files(url)


def _api_repr(url: str | None) -> str:
    """Return the URL of a management API without credentials, for the repr of the options."""
    from amqp10msg.net.ends.urls import without_credentials  # noqa: PLC0415  (see above)

    return repr(None if url is None else without_credentials(url))


def _check_on(_instance: Any, _: Any, value: Mapping[str, str]) -> None:
    """Check that the keys are reasons and the values are actions."""
    for reason, action in value.items():
        if reason not in REASONS:
            raise ValueError(f"{reason!r} is not a reason: use one of {', '.join(REASONS)}")
        if action not in ACTIONS:
            raise ValueError(f"{action!r} is not an action: use one of {', '.join(ACTIONS)}")


def _check_quarantine_queue(_instance: Any, _: Any, value: Endpoint | None) -> None:
    """Check that the endpoint is a queue, address or exchange of a broker."""
    if value is None:
        return
    if value.file is not None or value.offset is not None:
        raise ValueError(
            f"{value}: quarantine_queue must be a queue, address or exchange of a broker"
        )
    if not (value.queue or value.exchange or value.address):
        raise ValueError(f"{value}: quarantine_queue must name a queue, address or exchange")


def _check_profile(_instance: Any, _: Any, value: str) -> None:
    from amqp10msg.translate import PROFILES  # noqa: PLC0415  (see above)

    if value not in PROFILES:
        raise ValueError(unknown_name("profile", value, PROFILES.names))


@attrs.frozen(kw_only=True)
class Waits:
    """Internal waiting times and timeouts of a bridge, in seconds. Tests make them short.

    Attributes:
        check_interval: interval at which a route checks its idle time, stalls and limits.
        slow_connect: a warning is logged if a peer does not answer a connection attempt for this
            time.
        query_interval: maximum interval between two queries of a source's message count.
        query_timeout: timeout of a query of a source's message count.
        management_lag: delay with which RabbitMQ's management API counts a delivery.
        management_timeout: timeout of a request to a management API.
        recount_delay: time between two counts of an empty queue that the bridge does not consume.
            It must be longer than two round trips to the broker.
        drain_idle: when a route ends, it stops waiting for outcomes if none arrives for this time.
        shutdown_timeout: timeout for closing a route, from its last outcome or its stop.
        close_timeout: part of `shutdown_timeout` for counting the source's remaining messages and
            closing the links.
        min_close_timeout: part of `shutdown_timeout` that is reserved for closing the links.
        rejoin_delay: after a shared connection is lost, a link uses its own connection for this
            time.
        count_lag: how long `migrate` waits until the message count of a target queue equals the
            number of accepted messages.
    """

    check_interval: float = 0.25
    slow_connect: float = 5.0
    query_interval: float = 5.0
    query_timeout: float = 10.0
    management_lag: float = 15.0
    management_timeout: float = 30.0
    recount_delay: float = 0.5
    drain_idle: float = 3.0
    shutdown_timeout: float = 4.0
    close_timeout: float = 2.0
    min_close_timeout: float = 0.5
    rejoin_delay: float = 10.0
    count_lag: float = 5.0


#: The default of `RouteOptions.waits`.
WAITS = Waits()


@attrs.frozen(kw_only=True)
class RouteOptions:
    """The options of a route, which moves messages from a source to a target.

    Attributes:
        profile: the translation profile, a name of `amqp10msg.translate.PROFILES`. Messages are not
            translated if both ends have the same protocol.
        window: maximum number of unsettled deliveries, 1 to 65535. It is the prefetch count or the
            link credit, and limits the number of duplicates after a crash.
        max_bytes: total size of the unsettled deliveries, in bytes, at which the route stops
            reading the source.
        max_message: maximum size, in bytes, of a message that the route holds in memory and sends.
            A larger message is streamed to a file next to the quarantine.
        max_large: maximum total size of the files of large messages, in bytes. A message that would
            exceed this limit stays unsettled while the route runs, and is released to the source
            when the route ends.
        max_messages: end after this number of messages; None for no limit.
        until_length: end when as many messages are settled as the source held when the route
            started; a stream or file is read up to the end that it had at that time. After a lost
            connection to a queue, redelivered messages would count twice: the route then ends when
            the source is empty.
        idle: end when the broker reports that the source is empty. The route queries the broker
            after this many seconds without a message, if all messages are settled. None to never
            query the broker.
        stall: with `idle` or `until_length`: end after this many seconds without a message, even
            if the source holds messages or the broker does not report the source's depth.
        management: the URL of the source's management API (RabbitMQ), which counts the messages
            that other consumers hold. A URL without credentials uses the source's credentials.
        declare: before the route starts, create the source's queue at the target, with its
            bindings, their exchanges and the applicable policies, through `management` and
            `target_management`.
        target_management: the URL of the target's management API, like `management`.
        sole_consumer: the route is the only consumer of the source. If False, and the broker does
            not report the messages that other consumers hold, the route cannot tell whether the
            source is empty.
        connect_timeout: timeout of the first connection to the source or target, in seconds. None
            for 60 s in a route that ends by itself, and no limit in other routes.
        reconnect: whether to connect again if the source or target cannot be reached or is lost. If
            False, the route fails, and its unsettled messages stay at the source.
        deadline: seconds after which the route stops as by `Route.stop`; None for no deadline.
        quarantine: the file for the exact bytes of messages that the target does not accept.
        quarantine_queue: the URL (see `parse_url`) of a queue, address or exchange for messages
            that the target does not accept. The quarantine file then gets only messages that this
            queue does not accept, and messages that are larger than `max_message`. None to use the
            file only.
        deduplicate: a file that records the message-ids of accepted messages: messages with these
            ids are not sent again. None to not deduplicate.
        remember: maximum number of message-ids in the `deduplicate` file.
        state: a file that records the position up to which a stream or file was read; None for no
            file.
        on: the action for a message that is not accepted, by reason (`REASONS`): ``quarantine``
            (default), ``requeue`` at the source after `max_backoff` or at the end, or ``reject`` at
            the source.
        attempts: number of attempts to send a message before the action in `on`. Attempts that a
            full target refuses do not count.
        patience: seconds of attempts before the action in `on`, also for a full target; None to
            wait for a full target without limit.
        outcome_timeout: seconds to wait for an outcome before reconnecting to the target.
        backoff: initial seconds between attempts; they double each time, with jitter.
        max_backoff: maximum seconds between attempts.
        drain: maximum seconds to wait for outcomes when the route ends. The wait ends early
            after 3 s without an outcome.
        keep_names: from 0-9-1 to 1.0, store the exchange and routing key with which a message was
            published in annotations. A RabbitMQ target overwrites these annotations.
        filter: a filter in the language `filter_language`. Only messages that pass the filter are
            moved; `unmatched` is the action for other messages. None to move all messages.
        filter_language: a key of `amqp10msg.delivery.filters.LANGUAGES`.
        change: a hook that is called for each message before it is sent.
        match: a function that returns whether to move a message; an alternative to `filter`.
        predicate: not an argument: `match`, or a function that evaluates `filter`. None to move all
            messages.
        unmatched: ``accept``, ``reject``, or ``requeue``, which releases a message to the source's
            other consumers after `max_backoff`. Streams keep their messages in any case.
        waits: internal waiting times, which tests make short.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: a number is out of range; a text is not a valid choice, or cannot be parsed;
            both `filter` and `match` are given.
    """

    profile: str = declared("lossless", str, "How to translate.", "NAME", validator=_check_profile)
    window: int = declared(
        1_000, int, "How many messages may be unsettled at a time.", low=1, high=65_535
    )
    max_bytes: int = declared(
        32 << 20,
        int,
        "Stop reading the source while the unsettled messages have this many bytes.",
        low=1,
        flag=None,
    )
    max_message: int = declared(
        24 << 20,
        int,
        "Stream larger messages to files next to the quarantine instead of sending them; up to "
        "nine times this size may be in memory.",
        "BYTES",
        low=1,
        help_default="25165824, 24 MiB",
    )
    max_large: int = declared(16 << 30, int, "Total size of these files.", flag=None)
    max_messages: int | None = declared(None, int, "End after this many messages.", low=1)
    until_length: bool = declared(
        False, bool, "End when as many messages are settled as the source had at the start."
    )
    idle: float | None = declared(
        None,
        float,
        "With --until-empty: query the source after this many seconds without a message.",
        low=0.01,
        default=2.0,
    )
    stall: float = declared(
        60.0,
        float,
        "With --until-empty: give up after this long without a message, though some remain.",
        "SECONDS",
        low=0.01,
    )
    management: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(_resolve_api),
        repr=_api_repr,
        metadata=option(
            str,
            "RabbitMQ's management API of the source; it counts messages held by other consumers.",
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
        converter=attrs.converters.optional(_resolve_api),
        repr=_api_repr,
        metadata=option(str, "RabbitMQ's management API of the target, for --declare.", "URL"),
    )
    sole_consumer: bool = declared(
        False,
        bool,
        "This bridge is the only consumer of the source, so no other consumer holds messages.",
    )
    connect_timeout: float | None = declared(
        None,
        float,
        "Give up if the first connection to the source or target takes longer.",
        "SECONDS",
        low=0.01,
        help_default="60 with --until-empty or --max-messages, else none",
    )
    reconnect: bool = declared(
        True, bool, "End with status 1 when the source or target is unreachable or lost."
    )
    deadline: float | None = declared(
        None, float, "Stop after this time, as by SIGTERM.", "SECONDS", low=0.01
    )
    quarantine: Path = attrs.field(
        default=Path("quarantine.jsonl"),
        converter=Path,
        metadata=option(Path, "File for messages that the target refuses."),
    )
    quarantine_queue: Endpoint | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(_to_endpoint),
        validator=_check_quarantine_queue,
        metadata=option(
            str, "Queue for these messages; the file gets those that it does not accept.", "URL"
        ),
    )
    deduplicate: Path | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(Path),
        metadata=option(
            Path,
            "Record accepted message-ids in this file, and do not send these messages again.",
        ),
    )
    remember: int = declared(
        1_000_000, int, "Number of message-ids in that file.", low=1, flag=None
    )
    state: Path | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(Path),
        metadata=option(
            Path, "Record in this file how far a stream was read, and continue from there."
        ),
    )
    on: Mapping[str, str] = attrs.field(
        factory=dict,
        validator=[check_option, _check_on],
        metadata=option(
            dict,
            "Action for a refusal reason: quarantine (default), requeue or reject; repeatable.",
            "REASON=ACTION",
        ),
    )
    attempts: int = declared(
        8, int, "Attempts to send a message that is refused; a full target does not count.", low=1
    )
    patience: float | None = declared(
        None,
        float,
        "Give up on a message after this long; by default wait for a full target without limit.",
        "SECONDS",
    )
    outcome_timeout: float = declared(
        30.0,
        float,
        "Reconnect to a target that does not answer for this long.",
        "SECONDS",
        low=0.01,
    )
    backoff: float = declared(
        0.1, float, "Initial seconds between attempts; they double each time.", low=0.001, flag=None
    )
    max_backoff: float = declared(
        5.0, float, "Maximum seconds between attempts.", low=0.001, flag=None
    )
    drain: float = declared(
        30.0, float, "Maximum wait for outcomes at the end, while some arrive.", "SECONDS"
    )
    keep_names: bool = declared(
        False, bool, "From 0-9-1 to 1.0: keep exchange and routing key in annotations."
    )
    filter: str | None = declared(None, str, "Bridge only messages that pass this filter.", "TEXT")
    filter_language: str = declared(
        "selector",
        str,
        "The language of --filter, as for the command filter.",
        choices=FILTER_LANGUAGES,
    )
    change: Change | None = None
    match: Callable[[Any], bool] | None = None
    unmatched: str = declared(
        "requeue", str, "How to settle messages that do not pass.", choices=_UNMATCHED_ACTIONS
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
        """Whether the route queries the source's message count, to end when the source is empty."""
        return self.idle is not None or self.until_length

    @property
    def ends(self) -> bool:
        """Whether the route ends when its source is empty, or after `max_messages`."""
        return self.asks or self.max_messages is not None

    @property
    def reach(self) -> float | None:
        """The effective `connect_timeout`, in seconds; None for no limit."""
        return (
            _CONNECT_TIMEOUT if self.ends and self.connect_timeout is None else self.connect_timeout
        )
