"""What a user decides of a route."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from amqp10msg.basic import BasicMessage
from amqp10msg.message import Message
from amqp10msg.net.bridge.terms import Delivery
from amqp10msg.net.bridge.urls import Endpoint, parse_url
from amqp10msg.translate import PROFILES

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
