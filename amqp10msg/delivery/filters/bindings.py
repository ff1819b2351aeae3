"""The filters that Apache Qpid registered: bindings of legacy AMQP, no-local, XQuery.

They are defined in Qpid's ``apache-filters.xml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import attrs

from amqp10msg.delivery.filters._base import (
    DEFAULT_FILTER_LIMITS,
    EvaluationError,
    Filter,
    FilterLimits,
    Options,
    Reason,
    register,
)
from amqp10msg.delivery.filters._glob import MANY, ONE, compile_words
from amqp10msg.delivery.filters._maps import entries_of
from amqp10msg.delivery.filters._values import same
from amqp10msg.message import Message
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import AmqpMap, Array, Described, Symbol

_EXCHANGES: Final = "APACHE.ORG:LEGACY_AMQP_EXCHANGE_FILTERS"


def _subject_of(message: Message) -> str | None:
    """Return the subject; None where there is none, or none of text in what was read leniently."""
    subject = None if message.properties is None else message.properties.subject
    return subject if isinstance(subject, str) else None


@attrs.frozen
class _Text(Filter):
    """A filter whose value is a string."""

    text: str
    limits: FilterLimits = attrs.field(
        default=DEFAULT_FILTER_LIMITS, kw_only=True, eq=False, repr=False
    )

    def _settle(self) -> None:
        if not isinstance(self.text, str):
            raise EncodeError(
                f"{self.SYMBOL} takes text, not {type(self.text).__name__}", "filter.text"
            )
        if len(self.text) > self.limits.length:
            raise EncodeError(
                f"{self.SYMBOL} has {len(self.text):,} characters, and {self.limits.length:,} "
                "are allowed",
                "filter.text",
            )

    def _value(self) -> str:
        return self.text

    def _reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        shown = self.text.replace("'", "''")
        condition = f"subject {'matches' if isinstance(self, TopicBinding) else '='} '{shown}'"
        subject = _subject_of(message)
        return (Reason(condition, False, (("subject", subject),)),)


@register
@attrs.frozen
class DirectBinding(_Text):
    """The subject is exactly this: ``apache.org:legacy-amqp-direct-binding:string``.

    A message without a subject does not pass.

    Attributes:
        text: the subject.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-direct-binding:string")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0000
    CAPABILITY: ClassVar[str] = _EXCHANGES

    def _passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        return _subject_of(message) == self.text


@register
@attrs.frozen
class TopicBinding(_Text):
    """The subject matches this pattern: ``apache.org:legacy-amqp-topic-binding:string``.

    Subject and pattern are words separated by dots; in the pattern ``*`` matches one word and ``#``
    zero or more: ``*.stock.#`` matches ``usd.stock`` and ``eur.stock.db``. A message without a
    subject only passes ``#``.

    Attributes:
        text: the pattern.
        limits: how long it may be.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-topic-binding:string")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0001
    CAPABILITY: ClassVar[str] = _EXCHANGES
    _match: Any = attrs.field(init=False, eq=False, repr=False, default=None)

    def _settle(self) -> None:
        super()._settle()
        words = [
            MANY if word == "#" else ONE if word == "*" else word for word in _words(self.text)
        ]
        object.__setattr__(self, "_match", compile_words(words))

    def _passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        subject = _subject_of(message)
        if subject is None:
            return self.text == "#"
        return bool(self._match(_words(subject)))


def _words(text: str) -> list[str]:
    """Split at the dots; an empty text has no words."""
    return text.split(".") if text else []


_X_MATCH: Final = "x-match"
_ALL: Final = ("all", "all-with-x")
_ANY: Final = ("any", "any-with-x")


@register
@attrs.frozen
class HeadersBinding(Filter):
    """Application properties are these: ``apache.org:legacy-amqp-headers-binding:map``.

        HeadersBinding({"x-match": "any", "region": "emea", "urgent": None})

    The entry ``x-match`` is ``all``, the default, or ``any``: how many of the others must match;
    None matches any value of a property that is present. Numbers of different types match if they
    are equal. Other keys that begin with ``x-`` are ignored, unless ``x-match`` is ``all-with-x``
    or ``any-with-x`` (an extension of RabbitMQ). Without entries every message passes ``all``, and
    none ``any``.

    Attributes:
        entries: the expected values, of simple types, by key.
        limits: how many entries there may be.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-headers-binding:map")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0002
    CAPABILITY: ClassVar[str] = _EXCHANGES

    _VALUE_TYPES: ClassVar[tuple[type, ...]] = (dict, AmqpMap)
    _VALUE_NAME: ClassVar[str] = "a map"

    entries: Mapping[str, Any]
    limits: FilterLimits = attrs.field(
        default=DEFAULT_FILTER_LIMITS, kw_only=True, eq=False, repr=False
    )

    def _settle(self) -> None:
        object.__setattr__(
            self, "entries", entries_of(self.SYMBOL, self.entries, Symbol, self.limits)
        )
        for key, value in self.entries.items():
            if isinstance(value, (list, dict, AmqpMap, Array, Described)):
                raise EncodeError(
                    f"expected a simple type, not {type(value).__name__}",
                    f"filter.{key}",
                )
        if self.x_match not in (*_ALL, *_ANY):
            raise EncodeError(
                f"x-match is one of {', '.join((*_ALL, *_ANY))}, not {self.x_match!r}",
                "filter.x-match",
            )

    @property
    def x_match(self) -> str:
        """Whether ``all`` or ``any`` of the entries must match."""
        return self.entries.get(_X_MATCH, "all")  # type: ignore[no-any-return]

    def _compared(self) -> list[tuple[str, Any]]:
        with_x = self.x_match.endswith("-with-x")
        return [
            (key, value)
            for key, value in self.entries.items()
            if key != _X_MATCH and (with_x or not key.startswith("x-"))
        ]

    def _passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        present: Mapping[str, Any] = message.application_properties or {}
        holds = all if self.x_match in _ALL else any
        return holds(_holds(key, wanted, present) for key, wanted in self._compared())

    def _reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        present: Mapping[str, Any] = message.application_properties or {}
        return tuple(
            Reason(
                f"{key} is present" if wanted is None else f"{key} = {wanted!r}",
                False,
                ((key, present.get(key)),),
            )
            for key, wanted in self._compared()
            if not _holds(key, wanted, present)
        ) or (Reason("any of no entries"),)

    def _value(self) -> dict[str, Any]:
        return dict(self.entries)


def _holds(key: str, wanted: Any, present: Mapping[str, Any]) -> bool:
    return key in present and (wanted is None or same(wanted, present[key]))


@register
@attrs.frozen
class NoLocal(Filter):
    """Messages of the same connection do not pass: ``apache.org:no-local-filter:list``.

    A message does not say where it came from: `matches` takes `local`.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:no-local-filter:list")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0003
    CAPABILITY: ClassVar[str] = "APACHE.ORG:NO_LOCAL"

    # Defined as an empty list; Qpid JMS sends text. Kept as received.
    _raw: Any = attrs.field(factory=list, kw_only=True, repr=False)

    def _passes(self, _message: Message, _now: int | None, local: bool | None) -> bool:
        if local is None:
            raise EvaluationError(
                "no-local needs to know whether the message came over the connection of the link: "
                "pass local"
            )
        return not local

    def _reasons(self, _message: Message, _now: int | None) -> tuple[Reason, ...]:
        return (Reason("the message came over another connection"),)

    def _value(self) -> Any:
        return self._raw

    @classmethod
    def _from_value(cls, value: Any, descriptor: Any, _options: Options) -> Self:
        return cls(raw=value, descriptor=descriptor)


@register
@attrs.frozen
class XQuery(_Text):
    """An XQuery expression, which is not evaluated: ``apache.org:xquery-filter:string``.

    A source that cannot evaluate it leaves it out of its answer (Part 3, 3.5.3).

    Attributes:
        text: the query.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:xquery-filter:string")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0005
    supported: ClassVar[bool] = False

    def _passes(self, _message: Message, _now: int | None, _local: bool | None) -> bool:
        raise EvaluationError(f"{self.SYMBOL} is not supported: XQuery is not evaluated")
