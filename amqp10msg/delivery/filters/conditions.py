"""Filters by properties, legacy AMQP bindings, and filters of RabbitMQ and Azure Service Bus."""

from __future__ import annotations

import datetime
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Self

import attrs

from amqp10msg.brokers import NAMED_STREAM_OFFSETS, STREAM_FILTER_VALUE, STREAM_OFFSET, stream_start
from amqp10msg.composite import Field, rows
from amqp10msg.delivery.filters._base import (
    DEFAULT_FILTER_LIMITS,
    Dialect,
    EvaluationError,
    Filter,
    FilterLimits,
    FilterOptions,
    FilterWarning,
    Reason,
    dialect_of,
    entries_of,
    not_a_message_error,
    register,
    wrong_value_type_error,
)
from amqp10msg.delivery.filters._evaluators import (
    StepCounter,
    matches_reference,
    reference_test,
)
from amqp10msg.delivery.filters._glob import MANY, ONE, compile_words, steps_per_word
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

_PROPERTIES_FIELDS_BY_NAME: Final[dict[str, Field]] = {
    field.wire_name: field for field in rows(Properties)
}
# The relation that the modifier at the start of a reference string requests (filtex 4.1.1).
_RELATION_BY_MODIFIER: Final = {"&p:": BEGINS, "&s:": ENDS}


@attrs.frozen
class _MapFilter(Filter):
    """A filter whose value is a map."""

    VALUE_TYPES: ClassVar[tuple[type, ...]] = (dict, AmqpMap)
    VALUE_NAME: ClassVar[str] = "a map"

    entries: Mapping[str, Any]
    limits: FilterLimits = attrs.field(
        default=DEFAULT_FILTER_LIMITS, kw_only=True, eq=False, repr=False
    )

    def to_value(self) -> dict[Any, Any]:
        return dict(self.entries)


def _check_simple(entries: Mapping[str, Any], expected: str) -> None:
    """Raise EncodeError if the value of an entry is a list, map, array or described value."""
    for key, value in entries.items():
        if isinstance(value, (list, dict, AmqpMap, Array, Described)):
            raise EncodeError(
                f"{expected} a simple type, not {type(value).__name__}", f"filter.{key}"
            )


@attrs.frozen
class _PropertyFilter(_MapFilter):
    """A filter that compares fields or properties with reference values, one for each."""

    dialect: Dialect = attrs.field(
        default="rabbitmq", kw_only=True, repr=False, converter=dialect_of
    )
    _tests_by_key: Any = attrs.field(init=False, eq=False, repr=False, default=())

    def prepare(self) -> None:
        entries = self._checked_entries()
        broker = FilterOptions(dialect=self.dialect).dialect == "rabbitmq-4.3"
        tests = []
        for key, reference in entries.items():
            relation, operand = _parse_reference(reference, key)
            condition = relation if relation == IS_PRESENT else f"{relation} {operand!r}"
            tests.append((key, condition, _make_test(relation, operand, broker)))
        object.__setattr__(self, "entries", entries)
        object.__setattr__(self, "_tests_by_key", tests)

    def _checked_entries(self) -> dict[str, Any]:
        raise NotImplementedError

    def _value_in(self, message: Message, key: str) -> tuple[bool, Any]:
        """Return whether a message has a value for a key, and the value."""
        raise NotImplementedError

    def passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        for key, _, test in self._tests_by_key:
            present, value = self._value_in(message, key)
            if not present or not test(value):
                return False
        return True

    def _unset_names(self, message: Message) -> tuple[str, ...]:
        return tuple(key for key in self.entries if self._value_in(message, key)[1] is None)

    def reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        reasons = []
        for key, condition, test in self._tests_by_key:
            present, value = self._value_in(message, key)
            if not present or not test(value):
                reasons.append(Reason(f"{key} {condition}", False, ((key, value),)))
        return tuple(reasons)


def _parse_reference(reference: Any, key: str) -> tuple[str, Any]:
    """Return the relation and the operand that a reference stands for (filtex 4.1.1).

    Only a string can have a modifier, such as ``&p:``.
    """
    if reference is None:
        return IS_PRESENT, None
    if not isinstance(reference, str) or isinstance(reference, (Symbol, Char)):
        return "=", reference
    if reference[:3] in _RELATION_BY_MODIFIER:
        return _RELATION_BY_MODIFIER[reference[:3]], reference[3:]
    if reference.startswith("&") and not reference.startswith("&&"):
        raise EncodeError(
            f"{reference!r} begins with & and has no modifier: write &p: for a prefix, "
            "&s: for a suffix, && for text that begins with &",
            f"filter.{key}",
        )
    return "=", str(reference.removeprefix("&"))


def _make_test(relation: str, operand: Any, broker: bool) -> Callable[[Any], bool]:
    """Return a function that tests whether a value has the relation to the operand.

    If `broker`, the function tests values as RabbitMQ 4.3 does.
    """
    if broker:
        return rabbitmq_43_test(relation, operand)
    if relation == IS_PRESENT:
        return lambda _: True
    if relation == "=":
        return reference_test(operand)
    test = str.startswith if relation == BEGINS else str.endswith
    return lambda value: isinstance(value, str) and test(value, operand)


@register
@attrs.frozen
class PropertiesFilter(_PropertyFilter):
    """A filter by fields of the properties section: ``amqp:properties-filter`` (filtex 4.2.4).

        PropertiesFilter({"user-id": b"John", "subject": "&p:Order"})

    All entries must match. A string reference with the prefix ``&p:`` matches strings that begin
    with the text after the prefix, ``&s:`` strings that end with it; ``&&`` is an escaped leading
    ``&``. None matches any value and an unset field; an unset field matches no other reference.
    RabbitMQ drops a filter that contains None and delivers every message, so None raises a
    `FilterWarning`.

    Attributes:
        entries: references by field name, with dashes or underscores. Plain Python values are
            converted to the field's type.
        limits: limits on the number of entries.
        dialect: ``rabbitmq-4.3`` matches as that broker does: strings, symbols, binary and UUIDs
            match if their bytes are equal, timestamps compare as numbers, and None raises an error.
            Other dialects match as in the draft.

    Raises:
        EncodeError: the field does not exist, or the reference is not of its type.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("amqp:properties-filter")
    CODE: ClassVar[int | None] = 0x173
    CAPABILITY: ClassVar[str] = "AMQP_FILTEX_PROP_V1_0"

    def _set_descriptor(self) -> None:
        is_new = self.descriptor is None  # filters of peers, and copies, have a descriptor
        super()._set_descriptor()
        entries: Any = self.entries
        if isinstance(entries, Mapping) and any(value is None for value in entries.values()):
            problem = "RabbitMQ drops a properties filter with None and delivers every message"
            if self.dialect == "rabbitmq-4.3":
                raise EncodeError(f"{problem}: leave such entries out", "filter")
            if is_new:
                # Warn about the caller of __init__, above this method and __attrs_post_init__.
                warnings.warn(f"{problem}: leave such entries out", FilterWarning, stacklevel=4)

    def _checked_entries(self) -> dict[str, Any]:
        raw = entries_of(self.SYMBOL, self.entries, Char, self.limits)
        checked: dict[str, Any] = {}
        for key, reference in raw.items():
            name = key.replace("_", "-")
            if name not in _PROPERTIES_FIELDS_BY_NAME:
                raise EncodeError(
                    f"there is no field {key}: use one of {', '.join(_PROPERTIES_FIELDS_BY_NAME)}",
                    "filter",
                )
            if name in checked:
                raise EncodeError(f"duplicate field {name}", "filter")
            checked[name] = _to_field_type(_PROPERTIES_FIELDS_BY_NAME[name], reference)
        return checked

    def _value_in(self, message: Message, key: str) -> tuple[bool, Any]:
        properties = message.properties
        if properties is None:
            return True, None
        field = _PROPERTIES_FIELDS_BY_NAME[key]
        value = getattr(properties, field.name)
        # After lenient decoding, the property may have a wrong type. It then equals no value in the
        # filter, so convert only valid timestamps.
        if field.type == "timestamp" and (
            type(value) is int or isinstance(value, datetime.datetime)
        ):
            value = _to_timestamp(value)
        return True, value

    def to_value(self) -> dict[Symbol, Any]:
        return {Symbol(key): reference for key, reference in self.entries.items()}

    @classmethod
    def from_value(cls, value: Any, descriptor: Any, options: FilterOptions) -> Self:
        for key, reference in _map_entries(value):
            if not isinstance(key, Symbol):
                raise wrong_value_type_error(cls, "a map with symbols as keys", key)
            field = _PROPERTIES_FIELDS_BY_NAME.get(key)
            if field is None or (
                reference is not None and type(reference) not in _python_types_of(field)
            ):
                raise EncodeError(
                    f"there is no field {key}"
                    if field is None
                    else f"{type(reference).__name__} is not the type of the field",
                    f"filter.{key}",
                )
        return super().from_value(value, descriptor, options)


def _map_entries(value: Any) -> Any:
    """Return the entries of a peer's map; no entries if the value is not a map."""
    if isinstance(value, AmqpMap):
        return value.pairs
    return value.items() if isinstance(value, dict) else ()


# The Python types of decoded values, by the name of the AMQP type.
_PYTHON_TYPES_BY_AMQP_TYPE: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "symbol": (Symbol,),
    "binary": (bytes,),
    "timestamp": (Timestamp,),
    "uint": (UInt,),
}
# The Python types of decoded values of fields with an archetype, by the name of the archetype.
_PYTHON_TYPES_BY_ARCHETYPE: Final[dict[str, tuple[type, ...]]] = {
    "message-id": (ULong, uuid.UUID, bytes, str),
    "address": (str,),
}


def _python_types_of(field: Field) -> tuple[type, ...]:
    """Return the Python types that a decoded reference for a field can have."""
    return (
        _PYTHON_TYPES_BY_ARCHETYPE[field.requires]
        if field.requires
        else _PYTHON_TYPES_BY_AMQP_TYPE[field.type]
    )


def _to_timestamp(time: Any) -> Timestamp:
    if isinstance(time, datetime.datetime):
        return Timestamp.from_datetime(time)
    return Timestamp(time)


def _to_field_type(field: Field, reference: Any) -> Any:
    """Convert a reference to the type of its field. Raise EncodeError if it cannot be converted."""
    allowed = _python_types_of(field)
    if reference is None or type(reference) in allowed:
        return reference
    is_number = isinstance(reference, int) and not isinstance(reference, bool)
    try:
        if Timestamp in allowed and (is_number or isinstance(reference, datetime.datetime)):
            return _to_timestamp(reference)
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
    """A filter by application properties: ``amqp:application-properties-filter`` (filtex 4.2.5).

        ApplicationPropertiesFilter({"region": "emea", "order": "&s:-eu", "urgent": None})

    All entries must match. A string reference with the prefix ``&p:`` matches strings that begin
    with the text after the prefix, ``&s:`` strings that end with it; ``&&`` is an escaped leading
    ``&``. None matches any value of a property that is present. Numbers of different types match if
    they are equal; there is no other conversion.

    Attributes:
        entries: references by property name.
        limits: limits on the number of entries.
        dialect: ``rabbitmq-4.3`` matches as that broker does: strings, symbols, binary and UUIDs
            match if their bytes are equal, timestamps and chars compare as numbers, and a decimal,
            NaN or infinity counts as not present; a list, map, array or described value is allowed
            as a reference, but no message passes. Other dialects match as in the draft.

    Raises:
        EncodeError: a key is not a string, or a reference is not of a simple type (with the dialect
            ``rabbitmq-4.3`` any type is allowed).
    """

    SYMBOL: ClassVar[Symbol] = Symbol("amqp:application-properties-filter")
    CODE: ClassVar[int | None] = 0x174
    CAPABILITY: ClassVar[str] = "AMQP_FILTEX_PROP_V1_0"

    def _checked_entries(self) -> dict[str, Any]:
        entries = entries_of(self.SYMBOL, self.entries, (Symbol, Char), self.limits)
        if self.dialect != "rabbitmq-4.3":
            _check_simple(entries, "the reference is of")
        return entries

    def _value_in(self, message: Message, key: str) -> tuple[bool, Any]:
        section = message.application_properties
        return (False, None) if section is None else (key in section, section.get(key))


_EXCHANGE_FILTERS_CAPABILITY: Final = "APACHE.ORG:LEGACY_AMQP_EXCHANGE_FILTERS"


def _subject_of(message: Message) -> str | None:
    """Return the subject; None if it is unset or, after lenient decoding, not a string."""
    subject = None if message.properties is None else message.properties.subject
    return subject if isinstance(subject, str) else None


@attrs.frozen
class _TextFilter(Filter):
    """A filter whose value is a string."""

    text: str
    limits: FilterLimits = attrs.field(
        default=DEFAULT_FILTER_LIMITS, kw_only=True, eq=False, repr=False
    )

    def prepare(self) -> None:
        if len(self.text) > self.limits.length:
            raise EncodeError(
                f"{self.SYMBOL} has {len(self.text):,} characters, and {self.limits.length:,} "
                "are allowed",
                "filter.text",
            )

    def reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        escaped = self.text.replace("'", "''")
        condition = f"subject {'matches' if isinstance(self, TopicBinding) else '='} '{escaped}'"
        subject = _subject_of(message)
        return (Reason(condition, False, (("subject", subject),)),)


@register
@attrs.frozen
class DirectBinding(_TextFilter):
    """A filter by exact subject: ``apache.org:legacy-amqp-direct-binding:string``.

    A message without a subject does not pass.

    Attributes:
        text: the subject.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-direct-binding:string")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0000
    CAPABILITY: ClassVar[str] = _EXCHANGE_FILTERS_CAPABILITY

    def passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        return _subject_of(message) == self.text


@register
@attrs.frozen
class TopicBinding(_TextFilter):
    """A filter by a pattern of the subject: ``apache.org:legacy-amqp-topic-binding:string``.

    Subject and pattern are words separated by dots; in the pattern ``*`` matches one word and ``#``
    zero or more: ``*.stock.#`` matches ``usd.stock`` and ``eur.stock.db``. A message without a
    subject passes only the pattern ``#``.

    Attributes:
        text: the pattern.
        limits: limits on the length of the pattern, and on the steps to match a subject.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-topic-binding:string")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0001
    CAPABILITY: ClassVar[str] = _EXCHANGE_FILTERS_CAPABILITY
    _matches_words: Any = attrs.field(init=False, eq=False, repr=False, default=None)
    _steps_per_word: int = attrs.field(init=False, eq=False, repr=False, default=1)
    _step_counter: StepCounter = attrs.field(init=False, eq=False, repr=False, factory=StepCounter)

    def prepare(self) -> None:
        super().prepare()
        words = [
            MANY if word == "#" else ONE if word == "*" else word
            for word in _split_words(self.text)
        ]
        object.__setattr__(self, "_matches_words", compile_words(words))
        object.__setattr__(self, "_steps_per_word", steps_per_word(words))

    @property
    def steps(self) -> int:
        """The number of steps used so far, at least 100 per word (see `FilterLimits.steps`)."""
        return self._step_counter.steps

    def passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        subject = _subject_of(message)
        if subject is None:
            return self.text == "#"
        words = _split_words(subject)
        steps = len(words) * self._steps_per_word
        if steps > self.limits.steps:
            raise EvaluationError(
                f"a subject of {len(words):,} words is too long for this pattern, which may take "
                f"at most {self.limits.steps // self._steps_per_word:,}: raise FilterLimits.steps"
            )
        self._step_counter.steps += steps
        return bool(self._matches_words(words))


def _split_words(text: str) -> list[str]:
    """Split a subject or pattern at its dots; an empty text gives an empty list."""
    return text.split(".") if text else []


_X_MATCH_KEY: Final = "x-match"
_X_MATCH_ALL_VALUES: Final = ("all", "all-with-x")
_X_MATCH_ANY_VALUES: Final = ("any", "any-with-x")


@register
@attrs.frozen
class HeadersBinding(_MapFilter):
    """A filter by application properties: ``apache.org:legacy-amqp-headers-binding:map``.

        HeadersBinding({"x-match": "any", "region": "emea", "urgent": None})

    The entry ``x-match`` selects whether ``all`` (the default) or ``any`` of the remaining entries
    must match. None matches any value of a property that is present. Numbers of different types
    match if they are equal. Other keys that begin with ``x-`` are ignored, unless ``x-match`` is
    ``all-with-x`` or ``any-with-x`` (an extension of RabbitMQ). With no other entries, every
    message passes ``all`` and no message passes ``any``.

    Attributes:
        entries: the expected values, of simple types, by key.
        limits: limits on the number of entries.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:legacy-amqp-headers-binding:map")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0002
    CAPABILITY: ClassVar[str] = _EXCHANGE_FILTERS_CAPABILITY

    def prepare(self) -> None:
        object.__setattr__(
            self, "entries", entries_of(self.SYMBOL, self.entries, Symbol, self.limits)
        )
        _check_simple(self.entries, "expected")
        if self.x_match not in (*_X_MATCH_ALL_VALUES, *_X_MATCH_ANY_VALUES):
            choices = ", ".join((*_X_MATCH_ALL_VALUES, *_X_MATCH_ANY_VALUES))
            raise EncodeError(
                f"x-match is one of {choices}, not {self.x_match!r}", "filter.x-match"
            )

    @property
    def x_match(self) -> str:
        """Whether ``all`` or ``any`` of the entries must match."""
        return self.entries.get(_X_MATCH_KEY, "all")  # type: ignore[no-any-return]  # the map is of any values

    def _tested_entries(self) -> list[tuple[str, Any]]:
        """Return the entries that a message must match."""
        with_x = self.x_match.endswith("-with-x")
        return [
            (key, value)
            for key, value in self.entries.items()
            if key != _X_MATCH_KEY and (with_x or not key.startswith("x-"))
        ]

    def passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        properties: Mapping[str, Any] = message.application_properties or {}
        combine = all if self.x_match in _X_MATCH_ALL_VALUES else any
        return combine(
            _entry_matches(key, expected, properties) for key, expected in self._tested_entries()
        )

    def reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        properties: Mapping[str, Any] = message.application_properties or {}
        return tuple(
            Reason(
                f"{key} is present" if expected is None else f"{key} = {expected!r}",
                False,
                ((key, properties.get(key)),),
            )
            for key, expected in self._tested_entries()
            if not _entry_matches(key, expected, properties)
        ) or (Reason("any of no entries"),)


def _entry_matches(key: str, expected: Any, properties: Mapping[str, Any]) -> bool:
    """Whether the properties have this key with the expected value; None matches any value."""
    return key in properties and (expected is None or matches_reference(expected, properties[key]))


@register
@attrs.frozen
class NoLocal(Filter):
    """Rejects messages sent over the link's own connection: ``apache.org:no-local-filter:list``.

    A message does not record its connection, so callers pass `local` to `matches`.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:no-local-filter:list")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0003
    CAPABILITY: ClassVar[str] = "APACHE.ORG:NO_LOCAL"

    # The described value as it was received, which is encoded again: usually an empty list, but a
    # string from Qpid JMS.
    _raw: Any = attrs.field(factory=list, kw_only=True, repr=False)

    def passes(self, _message: Message, _now: int | None, local: bool | None) -> bool:
        if local is None:
            raise EvaluationError(
                "no-local depends on the connection that the message arrived on: pass local=True "
                "if it is the connection of the link, else local=False"
            )
        return not local

    def reasons(self, _message: Message, _now: int | None) -> tuple[Reason, ...]:
        return (Reason("the message arrived on another connection"),)

    @classmethod
    def from_value(cls, value: Any, descriptor: Any, _options: FilterOptions) -> Self:
        return cls(raw=value, descriptor=descriptor)


@register
@attrs.frozen
class XQuery(_TextFilter):
    """An XQuery expression, which cannot be evaluated here: ``apache.org:xquery-filter:string``.

    A sender that cannot evaluate the expression omits the filter from the source in its attach
    (Part 3, 3.5.3).

    Attributes:
        text: the query.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:xquery-filter:string")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0005
    supported: ClassVar[bool] = False

    def passes(self, _message: Message, _now: int | None, _local: bool | None) -> bool:
        raise EvaluationError(f"{self.SYMBOL} is not supported: XQuery is not evaluated")


def _annotation_value(message: Message, key: str) -> Any:
    """Return the value of a message annotation; None if it is missing."""
    return message.message_annotation(str(key))


@register
@attrs.frozen
class StreamOffset(Filter):
    """The position at which reading a RabbitMQ stream starts: ``rabbitmq:stream-offset-spec``.

    This is a position rather than a condition. If it is an offset, `matches` compares it with the
    annotation ``x-stream-offset`` that RabbitMQ adds to each message. Every message passes
    ``first``. Other positions depend on the stream, so `matches` raises `EvaluationError`.

    Attributes:
        start: ``first``, ``last`` (chunk), ``next``, an interval such as ``10m`` (Y, M, D, h, m,
            s), an offset from 0, or a time as a Timestamp or an aware datetime.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("rabbitmq:stream-offset-spec")

    start: str | int | Timestamp

    def prepare(self) -> None:
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
                    f"a stream is read from {', '.join(NAMED_STREAM_OFFSETS)}, an interval such "
                    f"as 10m, an offset or a time, not from {start!r}",
                    "filter.start",
                )
        elif not isinstance(start, int) or isinstance(start, bool):
            raise EncodeError(
                f"an offset is text, int or Timestamp, not {type(start).__name__}", "filter.start"
            )
        elif start < 0 and not isinstance(start, Timestamp):
            raise EncodeError(f"an offset is 0 or more, not {start}", "filter.start")

    def passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        if self.start == "first":
            return True
        if isinstance(self.start, (str, Timestamp)):
            raise EvaluationError(
                f"{self.SYMBOL} {self.start!s} depends on the stream: it is a position in it, "
                "not a condition"
            )
        offset = _annotation_value(message, STREAM_OFFSET)
        if not isinstance(offset, int):
            raise EvaluationError(f"the message has no annotation {STREAM_OFFSET}")
        return offset >= self.start

    def reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        values = ((STREAM_OFFSET, _annotation_value(message, STREAM_OFFSET)),)
        return (Reason(f"{STREAM_OFFSET} >= {self.start}", False, values),)

    @classmethod
    def from_value(cls, value: Any, descriptor: Any, _options: FilterOptions) -> Self:
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise wrong_value_type_error(cls, "text, an integer or a timestamp", value)
        return cls(value, descriptor=descriptor)


def _as_tuple(values: str | Iterable[str]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


@register
@attrs.frozen
class StreamFilter(Filter):
    """A filter by the annotation ``x-stream-filter-value``: ``rabbitmq:stream-filter``.

    RabbitMQ filters whole chunks with a Bloom filter and may deliver other messages as well, so a
    consumer tests each message again, as `matches` does. A message without the annotation passes if
    the filter set contains `MatchUnfiltered`.

    Attributes:
        values: the accepted values, one or more.
        is_list: whether to encode a single value as a list. Several values are always a list.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("rabbitmq:stream-filter")

    values: tuple[str, ...] = attrs.field(converter=_as_tuple)
    is_list: bool = attrs.field(default=False, kw_only=True)

    def prepare(self) -> None:
        if not self.values or not all(isinstance(value, str) for value in self.values):
            raise EncodeError(f"{self.SYMBOL} takes one or more strings", "filter.values")
        if len(self.values) > 1:
            object.__setattr__(self, "is_list", True)

    def passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        return _annotation_value(message, STREAM_FILTER_VALUE) in self.values

    def is_unfiltered(self, message: Message) -> bool:
        """Whether a message has no annotation ``x-stream-filter-value`` (see `MatchUnfiltered`)."""
        if not isinstance(message, Message):
            raise not_a_message_error(message)
        return _annotation_value(message, STREAM_FILTER_VALUE) is None

    def reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        accepted = ", ".join(map(repr, self.values))
        values = ((STREAM_FILTER_VALUE, _annotation_value(message, STREAM_FILTER_VALUE)),)
        return (Reason(f"{STREAM_FILTER_VALUE} IN ({accepted})", False, values),)

    def to_value(self) -> str | list[str]:
        return list(self.values) if self.is_list else self.values[0]

    @classmethod
    def from_value(cls, value: Any, descriptor: Any, options: FilterOptions) -> Self:
        if isinstance(value, str):
            return cls(value, descriptor=descriptor)
        if not isinstance(value, list):
            raise wrong_value_type_error(cls, "a string or a list of strings", value)
        if len(value) > options.limits.fields:
            raise EncodeError(f"more than {options.limits.fields:,} values", "filter.values")
        return cls(value, is_list=True, descriptor=descriptor)


@register
@attrs.frozen
class MatchUnfiltered(Filter):
    """Lets messages without a filter value pass: ``rabbitmq:stream-match-unfiltered``.

    This modifies the `StreamFilter` in the same filter set. On its own, every message passes it.

    Attributes:
        wanted: whether messages without the annotation ``x-stream-filter-value`` pass.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("rabbitmq:stream-match-unfiltered")

    VALUE_TYPES: ClassVar[tuple[type, ...]] = (bool,)
    VALUE_NAME: ClassVar[str] = "a boolean"

    wanted: bool = True

    def passes(self, _message: Message, _now: int | None, _local: bool | None) -> bool:
        return True


@register
@attrs.frozen
class SessionFilter(Filter):
    """A filter by session of Azure Service Bus: ``com.microsoft:session-filter``.

    The session of a message is its group-id.

    Attributes:
        session_id: the session; None requests the next free session from the service, and `matches`
            raises `EvaluationError`.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("com.microsoft:session-filter")
    CODE: ClassVar[int | None] = 0x0000_0137_0000_000C

    VALUE_TYPES: ClassVar[tuple[type, ...]] = (str, type(None))
    VALUE_NAME: ClassVar[str] = "a string or null"

    session_id: str | None = None

    def passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        if self.session_id is None:
            raise EvaluationError(
                "the service chooses the session: construct the filter with its session id"
            )
        return message.properties is not None and message.properties.group_id == self.session_id

    def reasons(self, message: Message, _now: int | None) -> tuple[Reason, ...]:
        group_id = None if message.properties is None else message.properties.group_id
        return (Reason(f"group-id = {self.session_id!r}", False, (("group-id", group_id),)),)
