"""Encode and decode composites, and check restricted types and archetypes of their fields."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from amqp10msg.composite._declarations import (
    FIELD_NAMES,
    Composite,
    Field,
    archetype_with_article,
    check_restrictions,
    composite_of,
    composite_with,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import INVALID_FIELD, NOT_IMPLEMENTED, DecodeError, EncodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.primitives import HEAD_SIZES, Array, Described, Symbol


def decode_composite(data: Any, *, limits: Limits | None = None, strict: bool = True) -> Any:
    """Decode one composite to an object of its registered class.

    Args:
        data: the encoded composite: bytes, bytearray or memoryview.
        limits: the limits of decoding; None for the defaults of `Limits`.
        strict: whether to raise `DecodeError` if a field violates its declaration. If False, a
            field of a wrong type holds the decoded value, a missing mandatory field is None, and
            fields after the declared fields are ignored.

    Raises:
        DecodeError: the input is not a registered composite, a field violates its declaration, or
            more bytes follow.
    """
    return _read(data, limits, whole=True, strict=strict)[0]


def read_composite(data: bytes, *, limits: Limits | None = None) -> tuple[Any, int]:
    """Decode a composite at the start of `data`, such as the performative of a frame.

    Returns:
        The composite, and the offset of the first byte after it.

    Raises:
        DecodeError: the input does not begin with a registered composite, or a field violates its
            declaration.
    """
    return _read(data, limits, whole=False, strict=True)


def _read(data: Any, limits: Limits | None, *, whole: bool, strict: bool) -> tuple[Any, int]:
    """Decode a composite at the start of `data`; return it with the offset after it.

    With `whole`, raises DecodeError if bytes follow the composite.
    """
    limits = limits or DEFAULT_LIMITS
    octets = kernel.octets_of(data, limits)
    reader = kernel.Reader(octets, 0, limits)
    reader.lenient = not strict
    try:
        if octets[:1] != b"\x00":
            reader.value()
            raise DecodeError("the value is not described", 0, rule="not-a-composite")
        reader.pos = 1
        entry = _registered(reader.value())
        start = reader.pos
        composite = reader.composite(entry.spec)
        end = reader.pos
        if whole and end != len(octets):
            raise reader.trailing_bytes_error()
        if strict:
            return _refine_strictly(composite, entry, octets, start), end
        return _refine_leniently(composite, entry), end
    except kernel.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None


def from_described(value: Described, *, limits: Limits | None = None, strict: bool = True) -> Any:
    """Convert a described value to an object of the registered class with its descriptor.

    Args:
        value: the described list.
        limits: as in `decode_composite`.
        strict: as in `decode_composite`.

    Raises:
        DecodeError: no registered composite has this descriptor, or a field violates its
            declaration. The offset refers to the encoding of `value`.
    """
    writer = kernel.Writer(not strict)
    try:
        writer.value(value)
    except (RecursionError, UnicodeEncodeError) as error:
        raise kernel.encode_fault(error) from None
    return decode_composite(writer.finish(), limits=limits, strict=strict)


def _registered(descriptor: Any) -> Composite:
    """Return the registered composite with a decoded descriptor, or raise DecodeError."""
    entry = composite_with(descriptor)
    if entry is None:
        raise DecodeError(
            f"no composite has the descriptor {descriptor!r}",
            0,
            rule="unknown-composite",
            condition=NOT_IMPLEMENTED,
        )
    return entry


def _refine_strictly(composite: Any, entry: Composite, octets: bytes, start: int) -> Any:
    """Call `_refine` for the fields of a composite that the kernel has decoded.

    `start` is the offset in `octets` of the composite's list, for the offset of an error.
    """
    for index, field in entry.refined:
        raw = getattr(composite, field.name)
        if raw is not None and raw is not field.default:
            try:
                refined = _refine(field, raw, entry)
            except DecodeError as error:
                raise _with_offset(error, octets, offset_of_field(octets, start, index)) from None
            if refined is not raw:
                setattr(composite, field.name, refined)
    return composite


def _refine_leniently(composite: Any, entry: Composite) -> Any:
    """Call `_refine` for the fields of a leniently decoded composite, ignoring errors."""
    for field in entry.fields:
        raw = getattr(composite, field.name)
        if raw is None or raw is field.default:
            continue
        with suppress(DecodeError, EncodeError, TypeError):  # the field keeps the decoded value
            setattr(composite, field.name, _refine(field, raw, entry, strict=False))
    return composite


def _with_offset(error: DecodeError, octets: bytes, offset: int) -> DecodeError:
    """Return the error of a field, with an offset that refers to `octets`.

    Args:
        error: the error; its offset may refer to another encoding.
        octets: the encoded composite.
        offset: the offset of the field in `octets`.
    """
    if octets[offset] == 0:
        # The offset of `error` refers to a new encoding of the nested composite. Decode the
        # original bytes to get the right offset.
        try:
            decode_composite(octets[offset : kernel.skip_value(octets, offset)])
        except DecodeError as inner:
            inner.offset += offset
            return inner
    error.offset = offset
    return error


def offset_of_field(octets: bytes, start: int, index: int) -> int:
    """Return the offset of the field at `index` in the list that begins at `start`.

    The list must be valid and contain the field.
    """
    pos = start + HEAD_SIZES[octets[start]]
    for _ in range(index):
        pos = kernel.skip_value(octets, pos)
    return pos


def _refine(field: Field, raw: Any, entry: Composite, *, strict: bool = True) -> Any:
    """Check a field's decoded value, and convert it to an enum member, a tuple or a composite."""
    if field.multiple:
        # `raw` is a tuple if the composite's class has already converted it: see
        # `_convert_multiple_fields`.
        values = list(raw) if isinstance(raw, (Array, tuple)) else [raw]
        if isinstance(raw, Array) and raw.values and field.type not in {raw.type, "*"}:
            raise _field_error(field, entry, f"an array of {field.type}, not of {raw.type}")
        return tuple(str(v) if isinstance(v, Symbol) else v for v in values)
    if field.enum is not None:
        try:
            return field.enum(raw)
        except ValueError:
            choices = ", ".join(str(choice.value) for choice in field.enum)
            raise _field_error(field, entry, f"one of {choices}, not {raw!r}") from None
    if field.size is not None and len(raw) > field.size:
        raise _field_error(field, entry, f"at most {field.size} bytes, not {len(raw)}")
    if field.is_open:
        if not isinstance(raw, Described):
            raise _field_error(field, entry, f"a described {field.requires}, not {raw!r}")
        if composite_with(raw.descriptor) is not None:
            nested = from_described(raw, strict=strict)
            if field.requires not in composite_of(type(nested)).provides:
                raise _field_error(
                    field,
                    entry,
                    f"{archetype_with_article(field)}, which {raw.descriptor!r} is not",
                )
            return nested
    return raw


def _field_error(field: Field, entry: Composite, expected: str) -> DecodeError:
    """Return the error for a field; `expected` follows the words "must be"."""
    return DecodeError(
        f"{field.wire_name} of {entry.name} must be {expected}",
        0,
        rule="field-type",
        condition=INVALID_FIELD,
        path=f"{entry.name}.{field.wire_name}",
    )


def encode_composite(value: Any) -> bytes:
    """Encode a composite with its numeric descriptor and without trailing nulls.

    Raises:
        EncodeError: a field's value violates the declaration, or a mandatory field is None.
        TypeError: the class of `value` is not a registered composite.
    """
    composite_of(type(value))
    octets: bytes = kernel.encode_value(value)
    check_restrictions(value)
    return octets
