# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Encodes sections and composites, and registers their declarations."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel.codes import (
    ALLOWED_NEXT_SECTIONS,
    AMQP_SEQUENCE,
    BODY_SECTION_SPECS,
    DATA,
    FIRST_SECTION_CODE,
    FOOTER,
    IS_USUAL_CODE_OF_KIND,
    KIND_BINARY,
    KIND_DESCRIBED,
    KIND_LIST,
    KIND_OF_PYTHON_TYPE,
    KIND_PAIRS,
    KIND_SYMBOL,
    KIND_ULONG,
    NAMES_OF_DESCRIPTOR,
    PLACE_BODY,
    PLACE_OF_SECTION,
    REGISTER_MESSAGE_ARGUMENTS,
    REGISTERED_SCAN_CLASS,
    SECTION_CODE_OF_DESCRIPTOR,
    SECTION_COUNT,
    SECTION_SPECS,
    SHAPE_ANNOTATIONS,
    SHAPE_BINARY,
    SHAPE_COMPOSITE,
    SHAPE_PROPERTIES,
    SHAPE_SEQUENCE,
    SPEC_OF_CLASS,
    TYPE_NAME_OF_KIND,
)
from amqp10msg.wire.kernel.twin import (
    AttributeSlots,
    Entries,
    declare_decode,
    declare_message,
    declare_section,
)
from amqp10msg.wire.kernel.value_writer import ValueWriter, encode_fault
from amqp10msg.wire.primitives import AmqpMap, Array, Char, Described, Symbol, ULong
from amqp10msg.wire.primitives.compounds import register_constructor_function


class Spec:
    """The declaration of a section or composite, for readers and writers.

    `layout` reads and sets the fields of the class; for a body section, the only attribute,
    `attribute`. The classes of map sections are dicts, which need neither.
    """

    def __init__(
        self,
        name: str,
        code: int,
        symbol: str,
        shape: int,
        cls: Any,
        attribute: str = "",
        names: tuple[str, ...] = (),
        kinds: Any = b"",
        defaults: tuple[Any, ...] = (),
        mandatory: tuple[int, ...] = (),
        multiple: Any = b"",
    ) -> None:
        self.name = name
        self.code = code
        self.symbol = symbol
        self.shape = shape
        self.cls = cls
        self.attribute = attribute
        self.names = names
        self.layout = AttributeSlots(
            cls, [attribute] if attribute else [name.replace("-", "_") for name in names]
        )
        self.kinds = kinds
        self.defaults = defaults
        self.mandatory = mandatory
        self.multiple = multiple
        self.blank = [*defaults]
        # For a section, its number, its position in a message, and the sections that may follow.
        index = code - FIRST_SECTION_CODE
        is_section = 0 <= index < SECTION_COUNT
        self.position = PLACE_OF_SECTION[index] if is_section else 0
        self.is_body = self.position == PLACE_BODY
        self.followers = ALLOWED_NEXT_SECTIONS[index + 1] if is_section else b""
        self.usual = b"".join([IS_USUAL_CODE_OF_KIND[kind] for kind in kinds])
        # Whether each field is encoded by its kind alone, and omitted if it equals its default.
        self.is_plain = not mandatory and not any(multiple)
        self.head = b"\x00\x53" + bytes([code]) if code < 256 else b"\x00\x80" + code.to_bytes(8)


def register(cls: type, spec: Spec) -> None:
    """Register the declaration of a composite, so that `encode_value` can encode its class."""
    SPEC_OF_CLASS[cls] = spec


def register_section(cls: type, spec: Spec) -> None:
    """Register the declaration of a section. Must be called in the order of the section codes."""
    SPEC_OF_CLASS[cls] = spec
    declare_section(len(SECTION_SPECS), spec.shape, cls, spec.layout, spec.usual, spec.defaults)
    SECTION_SPECS.append(spec)
    BODY_SECTION_SPECS[:] = SECTION_SPECS[DATA:FOOTER]
    SECTION_CODE_OF_DESCRIPTOR[spec.code] = SECTION_CODE_OF_DESCRIPTOR[spec.symbol.encode()] = (
        spec.code
    )
    NAMES_OF_DESCRIPTOR[spec.code] = NAMES_OF_DESCRIPTOR[spec.symbol] = (spec.name, spec.names)


# The attributes of a message, in the order of `Cursor.read_message`.
_MESSAGE_ATTRIBUTES = [
    "header",
    "delivery_annotations",
    "message_annotations",
    "properties",
    "application_properties",
    "body",
    "footer",
    "message_format",
    "_wire",
    "_lenient",
]


class _Attributes:
    """A class with the attributes of `Message`, for modules that do not import `Message`.

    For example, `amqp10msg.validation` uses the kernel without `Message`.
    """

    __slots__ = tuple(_MESSAGE_ATTRIBUTES)


_MESSAGE_ATTRIBUTE_SLOTS = AttributeSlots(_Attributes, _MESSAGE_ATTRIBUTES)
declare_message(_MESSAGE_ATTRIBUTE_SLOTS)
REGISTER_MESSAGE_ARGUMENTS[:] = _MESSAGE_ATTRIBUTE_SLOTS, None, None


def register_message(
    cls: type, lenient: Callable[..., Any], first_fault: Callable[..., Any]
) -> None:
    """Register the class of messages for `decode_message`.

    Args:
        cls: the class, whose attributes are in the order of `Cursor.read_message`.
        lenient: a function that decodes a message that may violate the specification.
        first_fault: returns the error for the first fault of a message, given the error at which
            decoding stopped and the limits.
    """
    # The kernel does not import attrs, whose function `fields` returns this attribute.
    names = [field.name for field in cls.__attrs_attrs__]  # type: ignore[attr-defined]  # attrs' own
    layout = AttributeSlots(cls, names)
    declare_message(layout)
    REGISTER_MESSAGE_ARGUMENTS[:] = layout, lenient, first_fault
    declare_decode(cls)


def register_scan(cls: type) -> None:
    """Register the class of the results of `scan`."""
    REGISTERED_SCAN_CLASS[:] = (cls,)


# Format codes of values without data.
_NULL, _LIST0 = 0x40, 0x45
# Format code of an array with a size of one byte.
_ARRAY8 = 0xE0
# Sequences of 0 to 31 encoded nulls, by the number of nulls.
_ENCODED_NULLS = [b"\x40" * n for n in range(32)]


class Writer(ValueWriter):
    """Encodes sections and values; `finish` returns the bytes."""

    def inner(self) -> ValueWriter:
        """Return a new, empty writer with the same depth of nesting and the same `lenient`."""
        writer = Writer.__new__(Writer)
        writer.lenient = self.lenient
        writer.depth = self.depth
        return writer

    def composite_or_subclass(self, value: Any) -> None:
        """Write a composite, or a value whose class is not in `KIND_OF_PYTHON_TYPE`.

        The latter is written as its first base class in `KIND_OF_PYTHON_TYPE`.
        """
        spec = SPEC_OF_CLASS.get(type(value))
        if spec is None:
            ValueWriter.composite_or_subclass(self, value)
            return
        # Count a level of nesting for a section that is used as a value, since it may contain
        # itself. A section of a message does not count.
        self.enter()
        self.section(spec, value)
        self.depth -= 1

    def whole(self, spec: Any, section: Any) -> bool:
        """Write a section, or nothing for None; return False if its class is not `spec.cls`."""
        if section is not None:
            if type(section) is not spec.cls:
                return False
            self.section(spec, section)
        return True

    def body(self, body: Any) -> bool:
        """Write a body section or a list of them; return False if a class is not a section's."""
        usual = SECTION_SPECS[DATA]
        if type(body) is usual.cls:
            self.section(usual, body)
            return True
        if type(body) is not list:
            spec = SPEC_OF_CLASS.get(type(body))
            if spec is None or spec not in BODY_SECTION_SPECS:
                return False
            self.section(spec, body)
            return True
        if not body:
            return False
        spec = SPEC_OF_CLASS.get(type(body[0]))
        if spec is not SECTION_SPECS[DATA] and spec is not SECTION_SPECS[AMQP_SEQUENCE]:
            return False
        for part in body:
            if SPEC_OF_CLASS.get(type(part)) is not spec:
                return False
            self.section(spec, part)
        return True

    def section(self, spec: Any, value: Any) -> None:
        """Write a section or composite, including its descriptor."""
        self.add(spec.head)
        shape = spec.shape
        if shape == SHAPE_COMPOSITE:
            self.composite(spec, value)
        elif shape == SHAPE_ANNOTATIONS:
            self.annotations(value)
        elif shape == SHAPE_PROPERTIES:
            self.properties(value)
        elif shape == SHAPE_BINARY:
            octets = spec.layout.first(value)
            if type(octets) is bytes:
                self.text(octets, 0xA0)
            else:
                self.typed(KIND_BINARY, octets)
        elif shape == SHAPE_SEQUENCE:
            self.typed(KIND_LIST, spec.layout.first(value))
        else:
            self.value(spec.layout.first(value))

    def composite(self, spec: Any, value: Any) -> None:
        """Write the list of a composite's fields."""
        items: Any = None
        mark = self.open()
        field_count = len(spec.names)
        count = 0  # number of fields that were written
        i = 0
        try:
            while i < field_count:
                if spec.is_plain and not self.lenient:
                    self.count = count
                    i = self.usual_fields(spec.layout, value, spec.kinds, spec.defaults, i)
                    count = self.count
                    if i == field_count:
                        break
                if items is None:
                    items = spec.layout.values(value)
                item = items[i]
                default = spec.defaults[i]
                if item is not None and (
                    default is None
                    or not is_default(item, default)
                    or (spec.mandatory and i in spec.mandatory)
                ):
                    # Omitted fields are null. They need no bytes at the end of the list.
                    if i > count:
                        self.add(_ENCODED_NULLS[i - count])
                    count = i + 1
                    kind = spec.kinds[i]
                    if self.lenient:
                        self.lenient_field(kind, item)
                    elif spec.multiple and spec.multiple[i]:
                        self.multiple_field(kind, item)
                    else:
                        self.typed(kind, item)
                i += 1
        except (EncodeError, UnicodeEncodeError) as error:
            fault = error if isinstance(error, EncodeError) else encode_fault(error)
            path = f".{fault.path}" if fault.path else ""
            raise EncodeError(fault.reason, f"{spec.name}.{spec.names[i]}{path}") from None
        for i in spec.mandatory:
            if items[i] is None:
                raise EncodeError(f"the mandatory field {spec.names[i]} is None", spec.name)
        if count == 0:
            self.depth -= 1
            self.drop_compound(mark)
            self.octet(_LIST0)
        else:
            self.close(mark, 0xC0, count)

    def lenient_field(self, kind: int, item: Any) -> None:
        """Write a field as its declared type or, if that fails, according to its Python type."""
        field_writer = self.inner()
        try:
            field_writer.typed(kind, item)
        except EncodeError:
            field_writer = self.inner()
            field_writer.value(item)
        self.add(field_writer.finish())

    def multiple_field(self, kind: int, values: Any) -> None:
        """Write a field that is declared multiple, as null, a single value or an array."""
        if isinstance(values, Array):
            self.write_array(values)
        elif not isinstance(values, (list, tuple)):
            self.typed(kind, values)
        elif not values:
            self.octet(_NULL)
        elif len(values) == 1:
            self.typed(kind, values[0])
        else:
            self.write_array(Array(TYPE_NAME_OF_KIND[kind], values))

    def annotations(self, value: Any) -> None:
        """Write the map of an annotations section or footer."""
        mark = self.open()
        entries = Entries.of(value)
        for key, item in entries.items():
            kind = type(key)
            if kind is Symbol or (kind is str and not self.lenient):
                self.symbol(key)
            elif kind is ULong or (kind is int and not self.lenient):
                self.integer(KIND_ULONG, key)
            elif self.lenient:
                self.value(key)
            elif isinstance(key, str) and kind is not Char:
                self.typed(KIND_SYMBOL, str.__str__(key))
            else:
                raise EncodeError(
                    f"an annotation's key must be a symbol (str) or a ulong (int), not {key!r:.80}",
                    f"[{key!r:.80}]",
                )
            if not self.usual(item):
                self.value(item)
        self.close(mark, 0xC1, 2 * len(entries))

    def properties(self, value: Any) -> None:
        """Write the map of application-properties."""
        mark = self.open()
        entries = Entries.of(value)
        for key, item in entries.items():
            if type(key) is str:
                self.string(key)
            elif self.lenient:
                self.value(key)
            else:
                raise EncodeError(
                    f"the key of an application property must be a str, not {key!r:.80}",
                    f"[{key!r:.80}]",
                )
            if self.usual(item):
                continue
            kind = KIND_OF_PYTHON_TYPE.get(type(item), 0)
            if (
                (kind == 0 or KIND_LIST <= kind <= KIND_DESCRIBED or kind == KIND_PAIRS)
                and not self.lenient
                and not_simple(item)
            ):
                raise EncodeError(
                    f"application property {key!r:.80} must have a simple type, not "
                    f"{type(item).__name__}: put lists and maps into the body",
                    f"[{key!r:.80}]",
                )
            self.put(kind, item)
        self.close(mark, 0xC1, 2 * len(entries))


def is_default(item: Any, default: Any) -> bool:
    """Return whether a value equals the default of its field and has the same type."""
    return item is default or (type(item) is type(default) and bool(item == default))


def not_simple(value: Any) -> bool:
    """Return whether a value is a list, map, array, section or composite, possibly described."""
    while True:
        if isinstance(value, Described):
            value = value.value
        elif isinstance(value, enum.Enum):
            value = value.value
        else:
            break
    return isinstance(value, (list, tuple, dict, AmqpMap, Array)) or type(value) in SPEC_OF_CLASS


def encode_key(key: Any) -> bytes:
    """Encode a decoded map key for comparison. Keys are identical if the results are equal."""
    writer = Writer.__new__(Writer)
    writer.lenient = True
    writer.value(key)
    return writer.finish()


def _code_of_array(array: Array) -> int:
    """Return the constructor with which an array without a `code` is encoded.

    Raises:
        EncodeError: the array cannot be encoded.
    """
    octets = encode_value(Array(array.type, array.values))
    # The size and the count before the constructor have 1 byte each, or 4.
    return octets[3 if octets[0] == _ARRAY8 else 9]


register_constructor_function(_code_of_array)


def encode_value(value: Any) -> bytes:
    """Encode a value in the smallest encoding of its type.

    Raises:
        EncodeError: the value has no AMQP type or is out of its range.
    """
    writer = Writer()
    try:
        writer.value(value)
    except (RecursionError, UnicodeEncodeError) as error:
        raise encode_fault(error) from None
    return writer.finish()
