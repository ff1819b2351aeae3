"""Composites read and written: as the kernel does it, and what it cannot see."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from amqp10msg.composite._declarations import (
    BY_CLASS,
    FIELD_NAMES,
    Composite,
    Field,
    composite_of,
    composite_with,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import INVALID_FIELD, NOT_IMPLEMENTED, DecodeError, EncodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.primitives import HEAD_SIZES, Array, Described, Symbol


def decode_composite(data: Any, *, limits: Limits | None = None, strict: bool = True) -> Any:
    """Decode one composite that fills the input into its class.

    Args:
        data: bytes, bytearray or memoryview.
        limits: what decoding may cost; the defaults of `Limits` where None.
        strict: refuse what breaks the declaration. If False, fields of wrong types hold what came,
            missing ones are None, and surplus ones are passed over.

    Raises:
        DecodeError: the input is not a registered composite, or breaks its declaration.
    """
    return _read(data, limits, whole=True, strict=strict)[0]


def read_composite(data: bytes, *, limits: Limits | None = None) -> tuple[Any, int]:
    """Decode the composite that the input begins with, such as the performative of a frame.

    Returns:
        The composite, and the offset of what follows it.

    Raises:
        DecodeError: as `decode_composite`, but for what follows.
    """
    return _read(data, limits, whole=False, strict=True)


def _read(data: Any, limits: Limits | None, *, whole: bool, strict: bool) -> tuple[Any, int]:
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
        made = reader.composite(entry.spec)
        end = reader.pos
        if whole and end != len(octets):
            raise reader.trailing()
        refined = _refined(made, entry, octets, start) if strict else _loosely_refined(made, entry)
        return refined, end
    except kernel.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None


def from_described(value: Described, *, limits: Limits | None = None, strict: bool = True) -> Any:
    """Turn a described value into the object of its composite's class.

    Args:
        value: the composite as it came.
        limits: as in `decode_composite`.
        strict: likewise.

    Raises:
        DecodeError: no composite has this descriptor, or the fields break its declaration. Its
            offset counts in the value's own encoding, since there is no input.
    """
    writer = kernel.Writer(not strict)
    try:
        writer.value(value)
    except (RecursionError, UnicodeEncodeError) as error:
        raise kernel.encode_fault(error) from None
    return decode_composite(writer.finish(), limits=limits, strict=strict)


def _registered(descriptor: Any) -> Composite:
    entry = composite_with(descriptor)
    if entry is None:
        raise DecodeError(
            f"no composite has the descriptor {descriptor!r}",
            0,
            rule="unknown-composite",
            condition=NOT_IMPLEMENTED,
        )
    return entry


def _refined(made: Any, entry: Composite, octets: bytes, start: int) -> Any:
    for index, field in entry.refined:
        raw = getattr(made, field.name)
        if raw is not None and raw is not field.default:
            try:
                better = _refine(field, raw, entry)
            except DecodeError as error:
                raise _placed(error, octets, offset_of_field(octets, start, index)) from None
            if better is not raw:
                setattr(made, field.name, better)
    return made


def _loosely_refined(made: Any, entry: Composite) -> Any:
    for field in entry.fields:
        raw = getattr(made, field.name)
        if raw is None or raw is field.default:
            continue
        with suppress(DecodeError, EncodeError, TypeError):  # what came stays
            setattr(made, field.name, _refine(field, raw, entry, strict=False))
    return made


def _placed(error: DecodeError, octets: bytes, at: int) -> DecodeError:
    """Place a fault that was found in the value of a field, or in a composite in it."""
    if octets[at] != 0:
        error.offset = at
        return error
    # The composite in the field was read from an encoding of our own: read the bytes that came.
    try:
        decode_composite(octets[at : kernel.skip_value(octets, at)])
    except DecodeError as inner:
        inner.offset += at
        return inner
    error.offset = at
    return error


def offset_of_field(octets: bytes, start: int, index: int) -> int:
    """Find a field in the list that begins at `start`, which was read without a fault.

    The list has that field: its end is left out only where the rest is null.
    """
    pos = start + HEAD_SIZES[octets[start]]
    for _ in range(index):
        pos = kernel.skip_value(octets, pos)
    return pos


def _refine(field: Field, raw: Any, entry: Composite, *, strict: bool = True) -> Any:
    """Turn enum values, multiple values and nested composites into what the class declares."""
    if field.multiple:
        # A class may make a tuple of its field when it is constructed.
        values = list(raw) if isinstance(raw, (Array, tuple)) else [raw]
        if isinstance(raw, Array) and raw.values and field.type not in {raw.type, "*"}:
            raise _wrong(field, entry, f"an array of {field.type}, not of {raw.type}")
        return tuple(str(v) if isinstance(v, Symbol) else v for v in values)
    if field.enum is not None:
        try:
            return field.enum(raw)
        except ValueError:
            choices = ", ".join(str(choice.value) for choice in field.enum)
            raise _wrong(field, entry, f"one of {choices}, not {raw!r}") from None
    if field.size is not None and len(raw) > field.size:
        raise _wrong(field, entry, f"at most {field.size} bytes, not {len(raw)}")
    if field.is_open:
        if not isinstance(raw, Described):
            raise _wrong(field, entry, f"a described {field.requires}, not {raw!r}")
        if composite_with(raw.descriptor) is not None:
            nested = from_described(raw, strict=strict)
            if field.requires not in composite_of(type(nested)).provides:
                raise _wrong(field, entry, f"{_a(field)}, which {raw.descriptor!r} is not")
            return nested
    return raw


def _a(field: Field) -> str:
    return f"{'an' if field.requires[0] in 'aeiou' else 'a'} {field.requires}"


def _wrong(field: Field, entry: Composite, what: str) -> DecodeError:
    return DecodeError(
        f"{field.wire_name} of {entry.name} must be {what}",
        0,
        rule="field-type",
        condition=INVALID_FIELD,
        path=f"{entry.name}.{field.wire_name}",
    )


def encode_composite(value: Any) -> bytes:
    """Encode a composite with its numeric descriptor, trailing nulls left out.

    Raises:
        EncodeError: a field's value is not of its declared type, or a mandatory one is missing.
        TypeError: the class of the value is not registered.
    """
    composite_of(type(value))
    octets: bytes = kernel.encode_value(value)
    _check(value)
    return octets


def _check(value: Any) -> None:
    """Refuse what the kernel cannot see: what a restricted type or an archetype rules out.

    Comes after encoding, which refuses what is not even of the wire's type.
    """
    entry = composite_of(type(value))
    for field in entry.fields:
        held = getattr(value, field.name)
        if held is None:
            continue
        path = f"{entry.name}.{field.wire_name}"
        if field.size is not None and len(held) > field.size:
            raise EncodeError(f"must be at most {field.size} bytes, not {len(held)}", path)
        if field.enum is not None:
            try:
                field.enum(held)
            except ValueError:
                choices = ", ".join(str(choice.value) for choice in field.enum)
                raise EncodeError(f"must be one of {choices}, not {held!r}", path) from None
        if field.is_open:
            if type(held) in BY_CLASS:
                provides = composite_of(type(held)).provides
                _check(held)
            elif not isinstance(held, Described):
                raise EncodeError(f"must be {_a(field)}, not {held!r:.80}", path)
            else:
                known = composite_with(held.descriptor)
                provides = (field.requires,) if known is None else known.provides
            if field.requires not in provides:
                raise EncodeError(f"must be {_a(field)}, which {held!r:.80} is not", path)
