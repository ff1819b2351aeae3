"""Filters of brokers: of RabbitMQ for streams, of Azure Service Bus for sessions."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any, ClassVar, Final, Self

import attrs

from amqp10msg.delivery.filters._base import (
    EvaluationError,
    Filter,
    Options,
    Reason,
    register,
    wrong_type,
)
from amqp10msg.message import Message
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import Symbol, Timestamp

_OFFSET: Final = "x-stream-offset"
_FILTER_VALUE: Final = "x-stream-filter-value"
_INTERVAL: Final = re.compile(r"[0-9]+[YMDhms]")
_NAMED: Final = ("first", "last", "next")


def _annotation(message: Message, key: str) -> Any:
    annotations = message.message_annotations
    return None if annotations is None else annotations.get(key)


@register
@attrs.frozen
class StreamOffset(Filter):
    """Where reading a RabbitMQ stream begins: ``rabbitmq:stream-offset-spec``.

    It is a position rather than a condition. For an offset, `matches` compares the annotation
    ``x-stream-offset`` that RabbitMQ adds to a message; every message passes ``first``; the other
    positions depend on the stream, and `matches` raises an error.

    Attributes:
        start: ``first``, ``last`` (chunk), ``next``, an interval such as ``10m`` (Y, M, D, h, m,
            s), an offset from 0, or a moment as a Timestamp or an aware datetime.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("rabbitmq:stream-offset-spec")

    start: str | int | Timestamp

    def _settle(self) -> None:
        start: Any = self.start
        if isinstance(start, datetime.datetime):
            try:
                start = Timestamp.from_datetime(start)
            except ValueError as error:
                raise EncodeError(str(error), "filter.start") from None
            object.__setattr__(self, "start", start)
        if isinstance(start, str):
            if start not in _NAMED and not _INTERVAL.fullmatch(start):
                raise EncodeError(
                    f"a stream is read from {', '.join(_NAMED)}, an interval such as 10m, an "
                    f"offset or a moment, not from {start!r}",
                    "filter.start",
                )
        elif not isinstance(start, int) or isinstance(start, bool):
            raise EncodeError(
                f"an offset is text, int or Timestamp, not {type(start).__name__}", "filter.start"
            )
        elif start < 0 and not isinstance(start, Timestamp):
            raise EncodeError(f"an offset is 0 or more, not {start}", "filter.start")

    def _passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        if self.start == "first":
            return True
        if isinstance(self.start, (str, Timestamp)):
            raise EvaluationError(
                f"{self.SYMBOL} {self.start!s} depends on the stream: it is where reading begins, "
                "not a condition"
            )
        offset = _annotation(message, _OFFSET)
        if not isinstance(offset, int):
            raise EvaluationError(f"the message has no annotation {_OFFSET}")
        return offset >= self.start

    def _reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        seen = ((_OFFSET, _annotation(message, _OFFSET)),)
        return (Reason(f"{_OFFSET} >= {self.start}", False, seen),)

    def _value(self) -> str | int:
        return self.start

    @classmethod
    def _from_value(cls, value: Any, descriptor: Any, _options: Options) -> Self:
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise wrong_type(cls, "text, an integer or a timestamp", value)
        return cls(value, descriptor=descriptor)


def _texts(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


@register
@attrs.frozen
class StreamFilter(Filter):
    """Messages with one of these filter values: ``rabbitmq:stream-filter``.

    The value of a message is its annotation ``x-stream-filter-value``. RabbitMQ looks at whole
    chunks through a Bloom filter and may deliver others too; `matches` looks at the message, as a
    consumer then does. A message without the annotation passes where the set of filters has
    `MatchUnfiltered`.

    Attributes:
        values: the values, one or more.
        is_list: whether they stand in a list, as several always do.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("rabbitmq:stream-filter")

    values: tuple[str, ...] = attrs.field(converter=_texts)
    is_list: bool = attrs.field(default=False, kw_only=True)

    def _settle(self) -> None:
        if not self.values or not all(isinstance(value, str) for value in self.values):
            raise EncodeError(f"{self.SYMBOL} takes one or more strings", "filter.values")
        if len(self.values) > 1:
            object.__setattr__(self, "is_list", True)

    def _passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        return _annotation(message, _FILTER_VALUE) in self.values

    def is_unfiltered(self, message: Message) -> bool:
        """Return whether a message has no filter value; see `MatchUnfiltered`."""
        return _annotation(message, _FILTER_VALUE) is None

    def _reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        values = ", ".join(map(repr, self.values))
        seen = ((_FILTER_VALUE, _annotation(message, _FILTER_VALUE)),)
        return (Reason(f"{_FILTER_VALUE} IN ({values})", False, seen),)

    def _value(self) -> str | list[str]:
        return list(self.values) if self.is_list else self.values[0]

    @classmethod
    def _from_value(cls, value: Any, descriptor: Any, options: Options) -> Self:
        if isinstance(value, str):
            return cls(value, descriptor=descriptor)
        if not isinstance(value, list):
            raise wrong_type(cls, "a string or a list of them", value)
        if len(value) > options.limits.fields:
            raise EncodeError(f"more than {options.limits.fields:,} values", "filter.values")
        return cls(value, is_list=True, descriptor=descriptor)


@register
@attrs.frozen
class MatchUnfiltered(Filter):
    """Whether messages without a filter value pass: ``rabbitmq:stream-match-unfiltered``.

    It applies to the `StreamFilter` of the same set; alone it lets every message pass.

    Attributes:
        wanted: whether they pass.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("rabbitmq:stream-match-unfiltered")

    _VALUE_TYPES: ClassVar[tuple[type, ...]] = (bool,)
    _VALUE_NAME: ClassVar[str] = "a boolean"

    wanted: bool = True

    def _settle(self) -> None:
        if not isinstance(self.wanted, bool):
            raise EncodeError(f"{self.SYMBOL} takes a bool", "filter.wanted")

    def _passes(self, _message: Message, _now: int | None, _local: bool | None) -> bool:
        return True

    def _value(self) -> bool:
        return self.wanted


@register
@attrs.frozen
class SessionFilter(Filter):
    """The messages of one session of Azure Service Bus: ``com.microsoft:session-filter``.

    A message belongs to the session that its group-id names.

    Attributes:
        session_id: the session; None asks the service for the next free one, and `matches` raises
            an error.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("com.microsoft:session-filter")
    CODE: ClassVar[int | None] = 0x0000_0137_0000_000C

    _VALUE_TYPES: ClassVar[tuple[type, ...]] = (str, type(None))
    _VALUE_NAME: ClassVar[str] = "a string or null"

    session_id: str | None = None

    def _settle(self) -> None:
        if self.session_id is not None and not isinstance(self.session_id, str):
            raise EncodeError(f"{self.SYMBOL} takes a str or None", "filter.session_id")

    def _passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        if self.session_id is None:
            raise EvaluationError(
                "the service chooses the free session: make the filter with its id"
            )
        return message.properties is not None and message.properties.group_id == self.session_id

    def _reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        group_id = None if message.properties is None else message.properties.group_id
        return (Reason(f"group-id = {self.session_id!r}", False, (("group-id", group_id),)),)

    def _value(self) -> str | None:
        return self.session_id
