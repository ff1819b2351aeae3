"""The property filters of AMQP Filter Expressions 1.0 (section 4)."""

from __future__ import annotations

import datetime
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Self

import attrs

from amqp10msg.composite import Field, rows
from amqp10msg.delivery.filters._base import (
    DEFAULT_FILTER_LIMITS,
    Dialect,
    Filter,
    FilterLimits,
    FilterWarning,
    Options,
    Reason,
    register,
    wrong_type,
)
from amqp10msg.delivery.filters._maps import entries_of
from amqp10msg.delivery.filters._rabbitmq import rabbitmq_43_test
from amqp10msg.delivery.filters._values import same_as
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
_PREFIX, _SUFFIX, _ESCAPED = "&p:", "&s:", "&&"


@attrs.frozen
class _PropertyFilter(Filter):
    """A map of reference values."""

    entries: Mapping[str, Any]
    limits: FilterLimits = attrs.field(
        default=DEFAULT_FILTER_LIMITS, kw_only=True, eq=False, repr=False
    )
    dialect: Dialect = attrs.field(default="rabbitmq", kw_only=True, repr=False)
    _VALUE_TYPES: ClassVar[tuple[type, ...]] = (dict, AmqpMap)
    _VALUE_NAME: ClassVar[str] = "a map"
    _tests: Any = attrs.field(init=False, eq=False, repr=False, default=())

    def _settle(self) -> None:
        entries = self._settled_entries()
        broker = Options(dialect=self.dialect).dialect == "rabbitmq-4.3"
        tests = [(key, value, _test_of(value, key, broker)) for key, value in entries.items()]
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
        for key, reference, test in self._tests:
            present, value = self._seen(message, key)
            if not present or not test(value):
                found.append(Reason(f"{key} {_condition(reference)}", False, ((key, value),)))
        return tuple(found)


def _is_string(reference: Any) -> bool:
    """Return whether it is an AMQP string, the only type whose values may have a modifier."""
    return isinstance(reference, str) and not isinstance(reference, (Symbol, Char))


def _test_of(reference: Any, key: str, broker: bool) -> Callable[[Any], bool]:
    """Return a function that tests whether a value matches a reference (filtex 4.1.1).

    With `broker`, as RabbitMQ 4.3 does.

    Raises:
        EncodeError: the text begins with ``&`` and has no modifier.
    """
    if reference is None and not broker:
        return lambda _: True
    if _is_string(reference) and reference.startswith("&"):
        if reference.startswith(_PREFIX):
            prefix = reference.removeprefix(_PREFIX)
            if broker:
                return rabbitmq_43_test(None, prefix, None)
            return lambda value: isinstance(value, str) and value.startswith(prefix)
        if reference.startswith(_SUFFIX):
            suffix = reference.removeprefix(_SUFFIX)
            if broker:
                return rabbitmq_43_test(None, None, suffix)
            return lambda value: isinstance(value, str) and value.endswith(suffix)
        if not reference.startswith(_ESCAPED):
            raise EncodeError(
                f"{reference!r} begins with & and has no modifier: write &p: for a prefix, "
                "&s: for a suffix, && for text that begins with &",
                f"filter.{key}",
            )
        reference = reference[1:]
    return rabbitmq_43_test(reference, None, None) if broker else same_as(reference)


def _condition(reference: Any) -> str:
    if reference is None:
        return "is present"
    if _is_string(reference):
        for modifier, words in ((_PREFIX, "begins with"), (_SUFFIX, "ends with")):
            if reference.startswith(modifier):
                return f"{words} {reference.removeprefix(modifier)!r}"
        return f"= {str(reference.removeprefix('&'))!r}"
    return f"= {reference!r}"


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
        if value is not None and field.type == "timestamp":
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
    """Convert a reference to the field's type.

    Raises:
        EncodeError: it cannot be converted.
    """
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
            with the same bytes are the same, timestamps and chars are numbers, and a null,
            decimal, NaN or infinity is not present. The others match as the draft says.

    Raises:
        EncodeError: a key is not a string, or a reference is not of a simple type.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("amqp:application-properties-filter")
    CODE: ClassVar[int | None] = 0x174
    CAPABILITY: ClassVar[str] = "AMQP_FILTEX_PROP_V1_0"

    def _settled_entries(self) -> dict[str, Any]:
        settled = entries_of(self.SYMBOL, self.entries, (Symbol, Char), self.limits)
        for key, reference in settled.items():
            if isinstance(reference, (list, dict, AmqpMap, Array, Described)):
                raise EncodeError(
                    f"the reference is of a simple type, not {type(reference).__name__}",
                    f"filter.{key}",
                )
        return settled

    def _seen(self, message: Message, key: str) -> tuple[bool, Any]:
        section = message.application_properties
        return (False, None) if section is None else (key in section, section.get(key))

    def _value(self) -> dict[str, Any]:
        return dict(self.entries)
