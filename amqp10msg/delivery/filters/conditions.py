"""Filters that are conditions on fields: by properties, of legacy AMQP, of brokers."""

from __future__ import annotations

import datetime
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Self

import attrs

from amqp10msg.brokers import STREAM_FILTER_VALUE, STREAM_OFFSET, STREAM_PLACES, stream_start
from amqp10msg.composite import Field, rows
from amqp10msg.delivery.filters._base import (
    DEFAULT_FILTER_LIMITS,
    Dialect,
    EvaluationError,
    Filter,
    FilterLimits,
    FilterWarning,
    Options,
    Reason,
    dialect_of,
    entries_of,
    not_a_message,
    register,
    wrong_type,
)
from amqp10msg.delivery.filters._evaluators import Work, same, same_as
from amqp10msg.delivery.filters._glob import MANY, ONE, compile_words, weight_of_words
from amqp10msg.delivery.filters._names import BEGINS, ENDS, IS_PRESENT, rabbitmq_43_test
from amqp10msg.message import Message
from amqp10msg.sections import Properties
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import (
    AmqpMap,
    Array,
    Char,
    Described,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)

_FIELDS: Final[dict[str, Field]] = {field.wire_name: field for field in rows(Properties)}
# How values are compared with a reference: its modifiers, and how it is otherwise.
_MODIFIERS: Final = {"&p:": BEGINS, "&s:": ENDS}


@attrs.frozen
class _Map(Filter):
    """A filter whose value is a map."""

    _VALUE_TYPES: ClassVar[tuple[type, ...]] = (dict, AmqpMap)
    _VALUE_NAME: ClassVar[str] = "a map"

    entries: Mapping[str, Any]
    limits: FilterLimits = attrs.field(
        default=DEFAULT_FILTER_LIMITS, kw_only=True, eq=False, repr=False
    )

    def _value(self) -> dict[Any, Any]:
        return dict(self.entries)


def _check_simple(entries: Mapping[str, Any], expected: str) -> None:
    """Refuse values that are not of simple types."""
    for key, value in entries.items():
        if isinstance(value, (list, dict, AmqpMap, Array, Described)):
            raise EncodeError(
                f"{expected} a simple type, not {type(value).__name__}", f"filter.{key}"
            )


@attrs.frozen
class _PropertyFilter(_Map):
    """A map of reference values."""

    dialect: Dialect = attrs.field(
        default="rabbitmq", kw_only=True, repr=False, converter=dialect_of
    )
    _tests: Any = attrs.field(init=False, eq=False, repr=False, default=())

    def _settle(self) -> None:
        entries = self._settled_entries()
        broker = Options(dialect=self.dialect).dialect == "rabbitmq-4.3"
        tests = []
        for key, reference in entries.items():
            relation, wanted = _relation_of(reference, key)
            condition = relation if relation == IS_PRESENT else f"{relation} {wanted!r}"
            tests.append((key, condition, _test_of(relation, wanted, broker)))
        object.__setattr__(self, "entries", entries)
        object.__setattr__(self, "_tests", tests)

    def _settled_entries(self) -> dict[str, Any]:
        raise NotImplementedError

    def _seen(self, message: Message, key: str) -> tuple[bool, Any]:
        """Return whether a message has the value that an entry refers to, and the value."""
        raise NotImplementedError

    def _passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        for key, _, test in self._tests:
            present, value = self._seen(message, key)
            if not present or not test(value):
                return False
        return True

    def _reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        found = []
        for key, condition, test in self._tests:
            present, value = self._seen(message, key)
            if not present or not test(value):
                found.append(Reason(f"{key} {condition}", False, ((key, value),)))
        return tuple(found)


def _relation_of(reference: Any, key: str) -> tuple[str, Any]:
    """Return how values are compared with a reference, and with what (filtex 4.1.1).

    Only an AMQP string may have a modifier.
    """
    if reference is None:
        return IS_PRESENT, None
    if not isinstance(reference, str) or isinstance(reference, (Symbol, Char)):
        return "=", reference
    if reference[:3] in _MODIFIERS:
        return _MODIFIERS[reference[:3]], reference[3:]
    if reference.startswith("&") and not reference.startswith("&&"):
        raise EncodeError(
            f"{reference!r} begins with & and has no modifier: write &p: for a prefix, "
            "&s: for a suffix, && for text that begins with &",
            f"filter.{key}",
        )
    return "=", str(reference.removeprefix("&"))


def _test_of(relation: str, wanted: Any, broker: bool) -> Callable[[Any], bool]:
    """Return the function that tests a value; with `broker`, as RabbitMQ 4.3 does."""
    if broker:
        return rabbitmq_43_test(relation, wanted)
    if relation == IS_PRESENT:
        return lambda _: True
    if relation == "=":
        return same_as(wanted)
    holds = str.startswith if relation == BEGINS else str.endswith
    return lambda value: isinstance(value, str) and holds(value, wanted)


@register
@attrs.frozen
class PropertiesFilter(_PropertyFilter):
    """Fields of the properties section match: ``amqp:properties-filter`` (filtex 4.2.4).

        PropertiesFilter({"user-id": b"John", "subject": "&p:Order"})

    All entries must match. A string reference that begins with ``&p:`` matches a prefix, with
    ``&s:`` a suffix; ``&&`` stands for a leading ``&``. None matches any value and a field that is
    not set, which matches nothing else; RabbitMQ drops a filter with None and delivers every
    message, so making one warns (`FilterWarning`).

    Attributes:
        entries: references by the name of the field, with dashes or underscores. Plain Python
            values are converted to the field's type.
        limits: how many entries there may be.
        dialect: ``rabbitmq-4.3`` to match as that broker does: strings, symbols, binary and UUIDs
            with the same bytes are the same, timestamps are numbers, None is refused. The others
            match as the draft says.

    Raises:
        EncodeError: there is no such field, or the reference is not of its type.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("amqp:properties-filter")
    CODE: ClassVar[int | None] = 0x173
    CAPABILITY: ClassVar[str] = "AMQP_FILTEX_PROP_V1_0"

    def _settle_descriptor(self) -> None:
        made_here = self.descriptor is None  # and not by a peer, or as a copy
        super()._settle_descriptor()
        given: Any = self.entries
        if isinstance(given, Mapping) and any(one is None for one in given.values()):
            problem = "RabbitMQ drops a properties filter with None and delivers every message"
            if self.dialect == "rabbitmq-4.3":
                raise EncodeError(f"{problem}: leave such entries out", "filter")
            if made_here:
                # Above: __attrs_post_init__ and __init__.
                warnings.warn(f"{problem}: leave such entries out", FilterWarning, stacklevel=4)

    def _settled_entries(self) -> dict[str, Any]:
        raw = entries_of(self.SYMBOL, self.entries, Char, self.limits)
        settled: dict[str, Any] = {}
        for key, reference in raw.items():
            name = key.replace("_", "-")
            if name not in _FIELDS:
                raise EncodeError(
                    f"there is no field {key}: use one of {', '.join(_FIELDS)}", "filter"
                )
            if name in settled:
                raise EncodeError(f"duplicate field {name}", "filter")
            settled[name] = _typed(_FIELDS[name], reference)
        return settled

    def _seen(self, message: Message, key: str) -> tuple[bool, Any]:
        properties = message.properties
        if properties is None:
            return True, None
        field = _FIELDS[key]
        value = getattr(properties, field.name)
        # A lenient decoding leaves values of other types, which match none.
        if field.type == "timestamp" and (
            type(value) is int or isinstance(value, datetime.datetime)
        ):
            value = _timestamp(value)
        return True, value

    def _value(self) -> dict[Symbol, Any]:
        return {Symbol(key): reference for key, reference in self.entries.items()}

    @classmethod
    def _from_value(cls, value: Any, descriptor: Any, options: Options) -> Self:
        for key, reference in _pairs(value):
            if not isinstance(key, Symbol):
                raise wrong_type(cls, "a map with symbols as keys", key)
            field = _FIELDS.get(key)
            if field is None or (reference is not None and type(reference) not in _wire(field)):
                raise EncodeError(
                    f"there is no field {key}"
                    if field is None
                    else f"{type(reference).__name__} is not the type of the field",
                    f"filter.{key}",
                )
        return super()._from_value(value, descriptor, options)


def _pairs(value: Any) -> Any:
    """Return the entries of a peer's map; none if it is not a map."""
    if isinstance(value, AmqpMap):
        return value.pairs
    return value.items() if isinstance(value, dict) else ()


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "symbol": (Symbol,),
    "binary": (bytes,),
    "timestamp": (Timestamp,),
    "uint": (UInt,),
}
# Types of the archetypes that fields require.
_ARCHETYPES: Final[dict[str, tuple[type, ...]]] = {
    "message-id": (ULong, uuid.UUID, bytes, str),
    "address": (str,),
}


def _wire(field: Field) -> tuple[type, ...]:
    """Return the types that a reference of a field has on the wire."""
    return _ARCHETYPES[field.requires] if field.requires else _TYPES[field.type]


def _timestamp(moment: Any) -> Timestamp:
    if isinstance(moment, datetime.datetime):
        return Timestamp.from_datetime(moment)
    return Timestamp(moment)


def _typed(field: Field, reference: Any) -> Any:
    """Convert a reference to the field's type."""
    allowed = _wire(field)
    if reference is None or type(reference) in allowed:
        return reference
    is_number = isinstance(reference, int) and not isinstance(reference, bool)
    try:
        if Timestamp in allowed and (is_number or isinstance(reference, datetime.datetime)):
            return _timestamp(reference)
        if UInt in allowed and is_number:
            return UInt(reference)
        if ULong in allowed and is_number:
            return ULong(reference)
        if Symbol in allowed and isinstance(reference, str):
            return Symbol(reference)
    except ValueError as error:
        raise EncodeError(str(error), f"filter.{field.wire_name}") from None
    names = " or ".join(cls.__name__ for cls in allowed)
    raise EncodeError(
        f"the reference is {names}, not {type(reference).__name__}", f"filter.{field.wire_name}"
    )


@register
@attrs.frozen
class ApplicationPropertiesFilter(_PropertyFilter):
    """Application properties match: ``amqp:application-properties-filter`` (filtex 4.2.5).

        ApplicationPropertiesFilter({"region": "emea", "order": "&s:-eu", "urgent": None})

    All entries must match. A string reference that begins with ``&p:`` matches a prefix, with
    ``&s:`` a suffix; ``&&`` stands for a leading ``&``. None matches any value of a property that
    is present. Numbers of different types match if they are equal; there is no other conversion.

    Attributes:
        entries: references by the name of the property.
        limits: how many entries there may be.
        dialect: ``rabbitmq-4.3`` to match as that broker does: strings, symbols, binary and UUIDs
            with the same bytes are the same, timestamps and chars are numbers, and a decimal, NaN
            or infinity is not present; a reference may be a list, map, array or described value,
            and no message passes. The others match as the draft says.

    Raises:
        EncodeError: a key is not a string, or (but for the dialect ``rabbitmq-4.3``) a reference is
            not of a simple type.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("amqp:application-properties-filter")
    CODE: ClassVar[int | None] = 0x174
    CAPABILITY: ClassVar[str] = "AMQP_FILTEX_PROP_V1_0"

    def _settled_entries(self) -> dict[str, Any]:
        settled = entries_of(self.SYMBOL, self.entries, (Symbol, Char), self.limits)
        if self.dialect != "rabbitmq-4.3":
            _check_simple(settled, "the reference is of")
        return settled

    def _seen(self, message: Message, key: str) -> tuple[bool, Any]:
        section = message.application_properties
        return (False, None) if section is None else (key in section, section.get(key))


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
    _weight: int = attrs.field(init=False, eq=False, repr=False, default=1)
    _work: Work = attrs.field(init=False, eq=False, repr=False, factory=Work)

    def _settle(self) -> None:
        super()._settle()
        words = [
            MANY if word == "#" else ONE if word == "*" else word for word in _words(self.text)
        ]
        object.__setattr__(self, "_match", compile_words(words))
        object.__setattr__(self, "_weight", weight_of_words(words))

    @property
    def steps(self) -> int:
        """The steps that it has taken so far, a hundred or more for each word."""
        return self._work.steps

    def _passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        subject = _subject_of(message)
        if subject is None:
            return self.text == "#"
        words = _words(subject)
        steps = len(words) * self._weight
        if steps > self.limits.steps:
            raise EvaluationError(
                f"a subject of {len(words):,} words is too long for this pattern, which may take "
                f"at most {self.limits.steps // self._weight:,}: raise FilterLimits.steps"
            )
        self._work.steps += steps
        return bool(self._match(words))


def _words(text: str) -> list[str]:
    """Split at the dots; an empty text has no words."""
    return text.split(".") if text else []


_X_MATCH: Final = "x-match"
_ALL: Final = ("all", "all-with-x")
_ANY: Final = ("any", "any-with-x")


@register
@attrs.frozen
class HeadersBinding(_Map):
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

    def _settle(self) -> None:
        object.__setattr__(
            self, "entries", entries_of(self.SYMBOL, self.entries, Symbol, self.limits)
        )
        _check_simple(self.entries, "expected")
        if self.x_match not in (*_ALL, *_ANY):
            raise EncodeError(
                f"x-match is one of {', '.join((*_ALL, *_ANY))}, not {self.x_match!r}",
                "filter.x-match",
            )

    @property
    def x_match(self) -> str:
        """Whether ``all`` or ``any`` of the entries must match."""
        return self.entries.get(_X_MATCH, "all")  # type: ignore[no-any-return]  # the map is of any values

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


def _annotation(message: Message, key: str) -> Any:
    return message.message_annotation(str(key))


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
            if not isinstance(stream_start(start), str):
                raise EncodeError(
                    f"a stream is read from {', '.join(STREAM_PLACES)}, an interval such as 10m, "
                    f"an offset or a moment, not from {start!r}",
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
        offset = _annotation(message, STREAM_OFFSET)
        if not isinstance(offset, int):
            raise EvaluationError(f"the message has no annotation {STREAM_OFFSET}")
        return offset >= self.start

    def _reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        seen = ((STREAM_OFFSET, _annotation(message, STREAM_OFFSET)),)
        return (Reason(f"{STREAM_OFFSET} >= {self.start}", False, seen),)

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
        return _annotation(message, STREAM_FILTER_VALUE) in self.values

    def is_unfiltered(self, message: Message) -> bool:
        """Return whether a message has no filter value; see `MatchUnfiltered`."""
        if not isinstance(message, Message):
            raise not_a_message(message)
        return _annotation(message, STREAM_FILTER_VALUE) is None

    def _reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        values = ", ".join(map(repr, self.values))
        seen = ((STREAM_FILTER_VALUE, _annotation(message, STREAM_FILTER_VALUE)),)
        return (Reason(f"{STREAM_FILTER_VALUE} IN ({values})", False, seen),)

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
