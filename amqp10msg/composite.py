"""Composites by declaration: one attrs class is the row table that everything else reads.

    @composite("amqp:header:list", 0x70)
    @attrs.define
    class Header:
        durable: boolean = False
        ttl: milliseconds | None = None

A field with a default is optional and null means the default; a field without one is mandatory. The
wire name is the Python name with dashes. Encoder, decoder, validator, JSON, documentation and
column schemas are drawn from `rows` of the class.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import NoneType
from typing import Any, TypeVar

import attrs

from amqp10msg import _core
from amqp10msg.errors import INVALID_FIELD, NOT_IMPLEMENTED, DecodeError, EncodeError
from amqp10msg.limits import DEFAULT_LIMITS, Limits
from amqp10msg.primitives import (
    Array,
    Described,
    Symbol,
    ULong,
    Wire,
    fields,
    string,
    symbol,
)
from amqp10msg.reprs import cut, short_repr

__all__ = [
    "COMPOSITES",
    "Composite",
    "Error",
    "Field",
    "composite",
    "composite_of",
    "decode_composite",
    "encode_composite",
    "from_described",
    "read_composite",
    "rows",
]

T = TypeVar("T")


@attrs.frozen
class Field:
    """One row of a composite's table (Part 1, 1.4).

    Attributes:
        name: the Python attribute, such as ``delivery_count``.
        wire_name: the specification's name, such as ``delivery-count``.
        type: the AMQP type on the wire, ``*`` where the specification leaves it open.
        restricted: the specification's name of a restricted type, such as ``milliseconds``.
        mandatory: the field must be set.
        multiple: null, one value or an array of values.
        default: what null means, or None.
        requires: the archetype of the value, such as ``address``.
        enum: the choices of a restricted type.
        size: bytes that a restricted type has at most, or None for no bound of its own.
    """

    name: str
    wire_name: str
    type: str
    restricted: str = ""
    mandatory: bool = False
    multiple: bool = False
    default: Any = None
    requires: str = ""
    enum: Any = None
    size: int | None = None


@attrs.frozen
class Composite:
    """A registered composite: its class, its descriptor in both forms, and its rows.

    Attributes:
        cls: the attrs class.
        name: the specification's name, such as ``header``.
        code: the numeric descriptor.
        symbol: the symbolic descriptor.
        provides: the archetypes it provides, such as ``outcome``.
        fields: its rows, in the order of the wire.
    """

    cls: type
    name: str
    code: int
    symbol: str
    provides: tuple[str, ...]
    fields: tuple[Field, ...]
    spec: Any = attrs.field(repr=False, eq=False)
    #: The rows whose values the kernel leaves to be looked at, with their places.
    refined: tuple[tuple[int, Field], ...] = attrs.field(repr=False, eq=False)


#: Every composite, by its numeric descriptor (int) and by its symbolic one (str).
COMPOSITES: dict[int | str, Composite] = {}
_BY_CLASS: dict[type, Composite] = {}
_FIELD_NAMES: dict[int | str, tuple[str, tuple[str, ...]]] = {}

# Where the specification's composites are declared that stand to the right of this module. Their
# modules are imported when one of them is met, so that it does not matter what was imported before.
_MODULES: dict[str, dict[int, str]] = {
    "outcomes": {
        0x23: "received",
        0x24: "accepted",
        0x25: "rejected",
        0x26: "released",
        0x27: "modified",
    },
    "termini": {0x28: "source", 0x29: "target"},
    "lifetime": {
        0x2B: "delete-on-close",
        0x2C: "delete-on-no-links",
        0x2D: "delete-on-no-messages",
        0x2E: "delete-on-no-links-or-messages",
    },
    "transactions": {
        0x30: "coordinator",
        0x31: "declare",
        0x32: "discharge",
        0x33: "declared",
        0x34: "transactional-state",
    },
}
_DECLARED_IN: dict[int | str, str] = {
    key: f"amqp10msg.delivery.{module}"
    for module, names in _MODULES.items()
    for code, name in names.items()
    for key in (code, f"amqp:{name}:list")
}

# Archetypes that the kernel knows; the others are read as any value and checked here.
_KERNEL_ARCHETYPES = {"message-id", "address"}


def composite(
    symbol: str, code: int, *, provides: tuple[str, ...] = ()
) -> Callable[[type[T]], type[T]]:
    """Register an attrs class as a composite with this descriptor.

    Args:
        symbol: the symbolic descriptor, such as ``amqp:header:list``.
        code: the numeric descriptor, domain and id in one number.
        provides: the archetypes that the type provides.

    Raises:
        TypeError: a field's annotation does not say its AMQP type, or the descriptor is taken.
    """

    def register(cls: type[T]) -> type[T]:
        reserved = {
            _DECLARED_IN.get(code, cls.__module__),
            _DECLARED_IN.get(symbol, cls.__module__),
        }
        if code in COMPOSITES or symbol in COMPOSITES or reserved != {cls.__module__}:
            raise TypeError(f"{symbol} (0x{code:X}) is registered already")
        fields = tuple(_fields_of(cls))
        spec = _core.Spec(
            symbol.split(":")[-2],
            code,
            symbol,
            _core.SHAPE_COMPOSITE,
            cls,
            "",
            tuple(field.wire_name for field in fields),
            bytes(_kind_of(field) for field in fields),
            tuple(field.default for field in fields),
            tuple(i for i, field in enumerate(fields) if field.mandatory),
            bytes(field.multiple for field in fields) if any(f.multiple for f in fields) else b"",
        )
        refined = tuple((i, field) for i, field in enumerate(fields) if _is_refined(field))
        entry = Composite(cls, spec.name, code, symbol, provides, fields, spec, refined)
        COMPOSITES[code] = COMPOSITES[symbol] = _BY_CLASS[cls] = entry
        _FIELD_NAMES[code] = _FIELD_NAMES[symbol] = (spec.name, spec.names)
        _core.register(cls, spec)
        cls.__rich_repr__ = _rich_repr  # type: ignore[attr-defined]
        cls.__repr__ = short_repr  # type: ignore[method-assign]
        return cls

    return register


def _rich_repr(self: Any) -> Iterator[tuple[Any, ...]]:
    """Show the fields that say something: most composites have many and use few."""
    for field in rows(type(self)):
        default = () if field.mandatory else (field.default,)
        yield (field.name, cut(getattr(self, field.name)), *default)


def _kind_of(field: Field) -> int:
    if field.type == "map":
        # Every map in a composite of the specification has symbols as keys.
        return _core.TYPE_IDS["fields"]
    if field.requires in _KERNEL_ARCHETYPES:
        return _core.TYPE_IDS[field.requires]
    return _core.TYPE_IDS[field.type]


def _fields_of(cls: type) -> Iterator[Field]:
    hints = typing.get_type_hints(cls, include_extras=True)
    for attribute in attrs.fields(cls):
        wire = _wire_of(hints[attribute.name])
        if wire is None:
            raise TypeError(
                f"{cls.__name__}.{attribute.name} does not say its AMQP type: annotate it with "
                "an alias of amqp10msg.primitives"
            )
        mandatory = attribute.default is attrs.NOTHING
        yield Field(
            attribute.name,
            attribute.name.replace("_", "-"),
            wire.type,
            wire.name,
            mandatory,
            wire.multiple,
            None if mandatory else attribute.default,
            wire.requires,
            wire.enum,
            wire.size,
        )


def _wire_of(hint: Any) -> Wire | None:
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Wire):
            return extra
    for part in typing.get_args(hint):
        if part is not NoneType and (found := _wire_of(part)) is not None:
            return found
    return None


def composite_of(cls: type) -> Composite:
    """Look up the registration of a composite's class.

    Raises:
        TypeError: the class is not a registered composite.
    """
    try:
        return _BY_CLASS[cls]
    except KeyError:
        raise TypeError(f"{cls.__name__} is not a composite") from None


def rows(cls: type) -> tuple[Field, ...]:
    """Return the rows of a composite's class, in the order of the wire."""
    return composite_of(cls).fields


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
    octets = _core.octets_of(data, limits)
    reader = _core.Reader(octets, 0, limits)
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
    except _core.READ_FAULTS as error:
        raise reader.fault(error, _FIELD_NAMES) from None


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
    writer = _core.Writer(not strict)
    try:
        writer.value(value)
    except (RecursionError, UnicodeEncodeError) as error:
        raise _core.encode_fault(error) from None
    return decode_composite(writer.finish(), limits=limits, strict=strict)


def _known(descriptor: Any) -> Composite | None:
    """Return the composite with this descriptor, or None; its module is imported where needed."""
    if not _is_code(descriptor):
        return None
    module = _DECLARED_IN.get(descriptor)
    if descriptor not in COMPOSITES and module is not None:
        importlib.import_module(module)
    return COMPOSITES.get(descriptor)


def _registered(descriptor: Any) -> Composite:
    entry = _known(descriptor)
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
    # The composite in the field was read from an encoding of our own: read the octets that came.
    try:
        decode_composite(octets[at : _core.skip_value(octets, at)])
    except DecodeError as inner:
        inner.offset += at
        return inner
    error.offset = at
    return error


def offset_of_field(octets: bytes, start: int, index: int) -> int:
    """Find a field in the list that begins at `start`, which was read without a fault.

    The list has that field: its end is left out only where the rest is null.
    """
    pos = start + (3 if octets[start] == 0xC0 else 9)
    for _ in range(index):
        pos = _core.skip_value(octets, pos)
    return pos


def _refine(field: Field, raw: Any, entry: Composite, *, strict: bool = True) -> Any:
    """Turn enum values, multiple values and nested composites into what the class declares."""
    if field.multiple:
        values = raw.values if isinstance(raw, Array) else [raw]
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
    if _is_open(field):
        if not isinstance(raw, Described):
            raise _wrong(field, entry, f"a described {field.requires}, not {raw!r}")
        if _known(raw.descriptor) is not None:
            nested = from_described(raw, strict=strict)
            if field.requires not in composite_of(type(nested)).provides:
                raise _wrong(field, entry, f"{_a(field)}, which {raw.descriptor!r} is not")
            return nested
    return raw


def _is_refined(field: Field) -> bool:
    """Return whether `_refine` has something to do for a field."""
    return field.multiple or field.enum is not None or field.size is not None or _is_open(field)


def _is_open(field: Field) -> bool:
    """Return whether any described type that provides an archetype fits the field."""
    return field.type == "*" and bool(field.requires) and field.requires not in _KERNEL_ARCHETYPES


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
    octets: bytes = _core.encode_value(value)
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
        if _is_open(field):
            if type(held) in _BY_CLASS:
                provides = composite_of(type(held)).provides
                _check(held)
            elif not isinstance(held, Described):
                raise EncodeError(f"must be {_a(field)}, not {held!r:.80}", path)
            else:
                known = _known(held.descriptor)
                provides = (field.requires,) if known is None else known.provides
            if field.requires not in provides:
                raise EncodeError(f"must be {_a(field)}, which {held!r:.80} is not", path)


def _is_code(descriptor: Any) -> bool:
    return isinstance(descriptor, (ULong, Symbol))


@composite("amqp:error:list", 0x1D, provides=("error",))
@attrs.define
class Error:
    """Details of an error (Part 2, 2.8.14), in rejected outcomes and in delivery annotations.

    Attributes:
        condition: what kind of error, such as ``amqp:not-found``; ASCII.
        description: a text for people.
        info: more about the error, by symbol.
    """

    condition: symbol
    description: string | None = None
    info: fields | None = None
