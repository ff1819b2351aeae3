"""The declarations of composite types, and the registry that finds them by descriptor."""

from __future__ import annotations

import functools
import importlib
import re
import typing
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any, TypeVar

import attrs

from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError, expect, wrong_type
from amqp10msg.wire.primitives import (
    AmqpMap,
    Array,
    Described,
    Symbol,
    ULong,
    WireType,
    fields,
    string,
    symbol,
)
from amqp10msg.wire.reprs import cut, html_table, short_repr

T = TypeVar("T")

#: Types that a multiple field does not accept as a single value.
_COMPOUND_CLASSES = (tuple, dict, AmqpMap)
# Archetypes that the kernel checks. For other archetypes, the kernel accepts any value, and this
# package checks the value.
_KERNEL_ARCHETYPES = {"message-id", "address"}


@attrs.frozen
class Field:
    """The declaration of one field of a composite type (Part 1, 1.4).

    Attributes:
        name: the Python attribute, such as ``delivery_count``.
        wire_name: the specification's name, such as ``delivery-count``.
        type: the AMQP type on the wire, or ``*`` if the specification allows any type.
        restricted: the specification's name of the field's restricted type (Part 1, 1.4), such as
            ``milliseconds``; empty if the field has none.
        mandatory: whether the field must be set.
        multiple: whether the field holds null, a single value or an array of values.
        default: the value that null means, or None.
        requires: the archetype that the value must provide, such as ``address``; empty for none.
        enum: the enum class with the choices of a restricted type, or None.
        size: the maximum length of a restricted type, in bytes, or None.
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
    #: Whether the field accepts any described type that provides the archetype.
    is_open: bool = attrs.field(init=False, repr=False)

    @is_open.default
    def _accepts_any_provider(self) -> bool:
        return self.type == "*" and bool(self.requires) and self.requires not in _KERNEL_ARCHETYPES

    @property
    def is_refined(self) -> bool:
        """Whether decoded values need checks or conversions that the kernel does not do."""
        return self.multiple or self.enum is not None or self.size is not None or self.is_open


@attrs.frozen
class Composite:
    """A registered composite type.

    Attributes:
        cls: the attrs class.
        name: the specification's name, such as ``header``.
        code: the numeric descriptor.
        symbol: the symbolic descriptor.
        provides: the archetypes that the type provides, such as ``outcome``.
        fields: the declarations of its fields, in wire order.
    """

    cls: type
    name: str
    code: int
    symbol: str
    provides: tuple[str, ...]
    fields: tuple[Field, ...]
    spec: Any = attrs.field(repr=False, eq=False)
    #: The fields whose `Field.is_refined` is true, each with its index.
    refined: tuple[tuple[int, Field], ...] = attrs.field(repr=False, eq=False)


#: All registered composites, by numeric descriptor (int) and by symbolic descriptor (str).
COMPOSITES: dict[int | str, Composite] = {}
#: All registered composites, by their Python class.
BY_CLASS: dict[type, Composite] = {}
#: The name and the field names of each composite, by numeric and symbolic descriptor.
FIELD_NAMES: dict[int | str, tuple[str, tuple[str, ...]]] = {}

# The composites that modules of `delivery` declare: by module, their names by numeric descriptor.
# Looking up one of these descriptors imports its module, so decoding depends on no earlier import.
_COMPOSITES_BY_MODULE: dict[str, dict[int, str]] = {
    "states": {
        0x23: "received",
        0x24: "accepted",
        0x25: "rejected",
        0x26: "released",
        0x27: "modified",
        0x30: "coordinator",
        0x31: "declare",
        0x32: "discharge",
        0x33: "declared",
        0x34: "transactional-state",
    },
    "termini": {
        0x28: "source",
        0x29: "target",
        0x2B: "delete-on-close",
        0x2C: "delete-on-no-links",
        0x2D: "delete-on-no-messages",
        0x2E: "delete-on-no-links-or-messages",
    },
}
#: A symbolic descriptor consists of an optional domain, the composite's name and its source type.
_SYMBOLIC_DESCRIPTOR_PATTERN = re.compile(r"(?:[!-~]+:)?[!-9;-~]+:[!-9;-~]+")
#: The module that declares a composite, by numeric and symbolic descriptor.
_DECLARING_MODULE: dict[int | str, str] = {
    key: f"amqp10msg.delivery.{module}"
    for module, names in _COMPOSITES_BY_MODULE.items()
    for code, name in names.items()
    for key in (code, f"amqp:{name}:list")
}


def composite(
    symbol: str, code: int, *, provides: tuple[str, ...] = (), checks_types: bool = False
) -> Callable[[type[T]], type[T]]:
    """Return a decorator that registers an attrs class as a composite type.

    Args:
        symbol: the symbolic descriptor, such as ``amqp:header:list``.
        code: the numeric descriptor, domain and id as one number, 0 to 2^64 - 1.
        provides: the archetypes that the type provides.
        checks_types: whether the constructor raises `EncodeError` for a mandatory field that is
            None, and for values of wrong types, except those inside of a map. Otherwise, only
            encoding does.

    Raises:
        TypeError: the class is not an attrs class or is a frozen one, a field's annotation does not
            name its AMQP type or names an unknown one, the class is registered already, another
            class has registered the descriptor or the name, or an argument has the wrong type.
        ValueError: `symbol` is not of the form ``domain:name:list`` in ASCII, or `code` is out of
            range.
    """
    expect(symbol, str, "the symbol of a composite", "a str")
    expect(code, int, "the code of a composite", "an int")
    expect(provides, tuple, "the argument provides of a composite", "a tuple of str")
    for archetype in provides:
        expect(archetype, str, "the argument provides of a composite", "a tuple of str")
    if not _SYMBOLIC_DESCRIPTOR_PATTERN.fullmatch(symbol):
        raise ValueError(
            f"the symbol of a composite is domain:name:list in ASCII, not {symbol!r:.80}"
        )
    if not 0 <= code < 2**64:
        raise ValueError(f"the code of a composite must be 0 to 2^64 - 1, got {code}")

    def register(cls: type[T]) -> type[T]:
        """Register the class, and return it."""
        if not isinstance(cls, type):
            raise wrong_type("@composite", "a class", cls)
        reserved = {
            _DECLARING_MODULE.get(code, cls.__module__),
            _DECLARING_MODULE.get(symbol, cls.__module__),
        }
        if cls in BY_CLASS:
            raise TypeError(f"{cls.__name__} is registered already, as {BY_CLASS[cls].symbol}")
        other = COMPOSITES.get(code) or COMPOSITES.get(symbol)
        if other is not None or reserved != {cls.__module__}:
            owner = (
                f" by {other.cls.__name__}, as {other.symbol} (0x{other.code:X})" if other else ""
            )
            raise TypeError(
                f"{symbol} (0x{code:X}) is registered already{owner}: choose another descriptor"
            )
        _check_name(symbol, cls.__module__)
        is_attrs: bool = attrs.has(cls)
        if not is_attrs:
            raise TypeError(f"{cls.__name__} is not an attrs class: add @attrs.define to it")
        fields = tuple(_fields_of(cls))
        if fields and _is_frozen(cls, fields[0].name):
            raise TypeError(
                f"{cls.__name__} is frozen, and decoding sets its fields: use @attrs.define"
            )
        spec = kernel.Spec(
            symbol.split(":")[-2],
            code,
            symbol,
            kernel.SHAPE_COMPOSITE,
            cls,
            "",
            tuple(field.wire_name for field in fields),
            bytes(_type_id_of(field) for field in fields),
            tuple(field.default for field in fields),
            tuple(i for i, field in enumerate(fields) if field.mandatory),
            bytes(field.multiple for field in fields) if any(f.multiple for f in fields) else b"",
        )
        refined = tuple((i, field) for i, field in enumerate(fields) if field.is_refined)
        entry = Composite(cls, spec.name, code, symbol, provides, fields, spec, refined)
        COMPOSITES[code] = COMPOSITES[symbol] = BY_CLASS[cls] = entry
        FIELD_NAMES[code] = FIELD_NAMES[symbol] = (spec.name, spec.names)
        kernel.register(cls, spec)
        _convert_multiple_fields(cls, fields)
        if checks_types:
            _check_on_construction(cls)
        cls.__rich_repr__ = _rich_repr  # type: ignore[attr-defined]
        cls.__repr__ = short_repr  # type: ignore[method-assign]
        cls._repr_html_ = _repr_html  # type: ignore[attr-defined]  # for notebooks
        return cls

    return register


def _check_name(symbol: str, module: str) -> None:
    """Raise TypeError if another composite has the name in `symbol`: notations use names.

    Args:
        symbol: the symbolic descriptor.
        module: the module that declares the composite.
    """
    name = symbol.split(":")[-2]
    other = next((entry for entry in COMPOSITES.values() if entry.name == name), None)
    owner = other.symbol if other is not None else f"amqp:{name}:list"
    if other is not None or _DECLARING_MODULE.get(owner, module) != module:
        raise TypeError(
            f"the name {name!r} of {symbol} is registered already, by {owner}: choose another name"
        )


def _is_frozen(cls: type, name: str) -> bool:
    """Return whether an attrs class refuses to set its field `name`."""
    try:
        setattr(object.__new__(cls), name, None)
    except attrs.exceptions.FrozenInstanceError:
        return True
    except Exception:  # noqa: BLE001  (a validator of the class: fields can be set)
        return False
    return False


def _convert_multiple_fields(cls: Any, fields: tuple[Field, ...]) -> None:
    """Make `cls` convert every value of a multiple field to a tuple.

    Decoding returns tuples: without the conversion, an object built with a list would differ from
    the object that its encoding decodes to.
    """
    multiple = {field.name: field for field in fields if field.multiple}
    if not multiple:
        return
    own_init, own_setattr = cls.__init__, cls.__setattr__

    @functools.wraps(own_init)
    def init_with_tuples(self: Any, *args: Any, **kwargs: Any) -> None:
        own_init(self, *args, **kwargs)
        for name, field in multiple.items():
            object.__setattr__(self, name, as_tuple(field, getattr(self, name)))

    @functools.wraps(own_setattr)
    def set_as_tuple(self: Any, name: str, value: Any) -> None:
        own_setattr(self, name, as_tuple(multiple[name], value) if name in multiple else value)

    cls.__init__, cls.__setattr__ = init_with_tuples, set_as_tuple


def _check_on_construction(cls: Any) -> None:
    """Make the constructor of `cls` check the types of the fields; decoding does not call it."""
    own_init = cls.__init__

    @functools.wraps(own_init)
    def init_with_check(self: Any, *args: Any, **kwargs: Any) -> None:
        own_init(self, *args, **kwargs)
        _check_types(self, cls)

    cls.__init__ = init_with_check


def as_tuple(field: Field, value: Any) -> Any:
    """Return the value of a multiple field as a tuple, like decoding.

    None becomes the field's default, and a single value becomes a tuple with one element. A value
    of a wrong type is returned unchanged: encoding and strict decoding refuse it, and lenient
    decoding keeps it.
    """
    if value is None:
        return field.default
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, Array):
        return tuple(value) if field.type in {value.type, "*"} else value
    is_single = (
        isinstance(value, str)
        if field.type == "symbol"
        else not isinstance(value, _COMPOUND_CLASSES)
    )
    return (value,) if is_single else value


def _rich_repr(self: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the fields with their defaults, so that rich omits fields that have their default."""
    for field in rows(type(self)):
        default = () if field.mandatory else (field.default,)
        yield (field.name, cut(getattr(self, field.name)), *default)


def _repr_html(self: Any) -> str:
    """Return an HTML table of the fields that differ from their defaults."""
    cells = [
        (name, repr(value)) for name, value, *default in _rich_repr(self) if default != [value]
    ]
    title = type(self).__name__ + ("" if cells else ": no field is set")
    return html_table(title, ("field", "value"), cells)


def _type_id_of(field: Field) -> int:
    """Return the kernel's number of a field's type or archetype."""
    if field.type == "map":
        # The specification allows only symbols as keys of maps in composites.
        return kernel.KIND_OF_TYPE_NAME["fields"]
    if field.requires in _KERNEL_ARCHETYPES:
        return kernel.KIND_OF_TYPE_NAME[field.requires]
    return kernel.KIND_OF_TYPE_NAME[field.type]


def _fields_of(cls: type) -> Iterator[Field]:
    """Yield the declarations of the fields of an attrs class, read from its annotations."""
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise TypeError(f"an annotation of {cls.__name__} cannot be evaluated: {error}") from error
    for attribute in attrs.fields(cls):
        wire = _find_wire(hints[attribute.name])
        if wire is None:
            raise TypeError(
                f"{cls.__name__}.{attribute.name} has no AMQP type: annotate it with "
                "an alias of amqp10msg.wire.primitives"
            )
        if wire.type not in tuple(kernel.KIND_OF_TYPE_NAME):
            raise TypeError(
                f"{cls.__name__}.{attribute.name} has the unknown AMQP type {wire.type!r:.80}: use "
                f"one of {', '.join(sorted(kernel.KIND_OF_TYPE_NAME))}"
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
            wire.max_size,
        )


def _find_wire(hint: Any) -> WireType | None:
    """Return the first `WireType` in an annotation, or None."""
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, WireType):
            return extra
    for part in typing.get_args(hint):
        if part is not NoneType and (wire_type := _find_wire(part)) is not None:
            return wire_type
    return None


def composite_with(descriptor: Any) -> Composite | None:
    """Return the registered composite with a decoded descriptor, or None."""
    return find_composite(descriptor) if isinstance(descriptor, (ULong, Symbol)) else None


def find_composite(key: int | str) -> Composite | None:
    """Return the registered composite with this numeric or symbolic descriptor, or None.

    Imports the module that declares it, if necessary.
    """
    module = _DECLARING_MODULE.get(key)
    if key not in COMPOSITES and module is not None:
        importlib.import_module(module)
    return COMPOSITES.get(key)


def named_composite(name: str) -> Composite | None:
    """Return the registered composite with this name, such as ``accepted``, or None."""
    for module in {*_DECLARING_MODULE.values()}:
        importlib.import_module(module)
    return next((entry for entry in COMPOSITES.values() if entry.name == name), None)


def composite_of(cls: type) -> Composite:
    """Return the registered composite whose class is `cls`.

    Raises:
        TypeError: `cls` is not a registered composite.
    """
    is_class = isinstance(cls, type)
    entry = BY_CLASS.get(cls) if is_class else None
    if entry is None:
        name = cls.__name__ if is_class else f"{cls!r:.80}"
        raise TypeError(f"{name} is not a composite: register it with @composite")
    return entry


def rows(cls: type) -> tuple[Field, ...]:
    """Return the field declarations of a composite's class, in wire order.

    Raises:
        TypeError: `cls` is not a registered composite.
    """
    return composite_of(cls).fields


def archetype_with_article(field: Field) -> str:
    """Return the archetype that a field requires, for an error text, such as ``an address``."""
    return f"{'an' if field.requires[0] in 'aeiou' else 'a'} {field.requires}"


def _check_types(composite: Any, cls: type) -> None:
    """Raise EncodeError if a field has a value of a wrong type, or a mandatory field is None.

    Encoding checks the ranges of numbers, the characters of symbols, and the contents of maps.

    Args:
        composite: an instance of `cls` or of a subclass.
        cls: the class that declares the fields.

    Raises:
        EncodeError: the path names the field.
    """
    entry = composite_of(cls)
    for field, kind in zip(entry.fields, entry.spec.kinds, strict=True):
        value = getattr(composite, field.name)
        path = f"{entry.name}.{field.wire_name}"
        if value is None:
            if field.mandatory:
                raise EncodeError("must be set: the field is mandatory", path)
            continue
        # The constructor of a nested composite has checked its fields.
        values: Any = () if field.is_open else (value,)
        if field.multiple and isinstance(value, tuple):
            values = value
        accepted = _CHECKED_TYPES.get(field.type, ())
        for single in values:
            if not isinstance(single, accepted) or isinstance(single, bool):
                writer = kernel.Writer()
                try:
                    writer.typed(kind, single)
                except EncodeError as error:
                    raise EncodeError(error.reason, path) from None
                except (RecursionError, UnicodeEncodeError) as error:
                    raise EncodeError(kernel.encode_fault(error).reason, path) from None
        _check_restriction(field, value, path)


# For AMQP types, the Python types whose values may still be out of range, or may have content that
# encoding checks. bool is not an int here.
_CHECKED_TYPES: dict[str, tuple[type, ...]] = {
    "symbol": (str,),
    "string": (str,),
    "map": (dict,),
    "fields": (dict,),
    **dict.fromkeys(("ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long"), (int,)),
}


def check_restrictions(composite: Any) -> None:
    """Raise EncodeError if a field violates its restricted type or its archetype.

    Call it after the kernel has encoded the composite: the kernel checks the wire types.
    """
    entry = composite_of(type(composite))
    for field in entry.fields:
        value = getattr(composite, field.name)
        if value is not None:
            _check_restriction(field, value, f"{entry.name}.{field.wire_name}")


def _check_restriction(field: Field, value: Any, path: str) -> None:
    """Raise EncodeError if a value violates the restricted type or the archetype of its field.

    Args:
        field: the field.
        value: the value, which is not None.
        path: the path of the field, for the error.
    """
    if field.size is not None and len(value) > field.size:
        raise EncodeError(f"must be at most {field.size} bytes, not {len(value)}", path)
    if field.enum is not None:
        try:
            field.enum(value)
        except ValueError:
            choices = ", ".join(str(choice.value) for choice in field.enum)
            raise EncodeError(f"must be one of {choices}, not {value!r}", path) from None
    if field.is_open:
        if type(value) in BY_CLASS:
            provides = composite_of(type(value)).provides
            check_restrictions(value)
        elif not isinstance(value, Described):
            raise EncodeError(f"must be {archetype_with_article(field)}, not {value!r:.80}", path)
        else:
            registered = composite_with(value.descriptor)
            provides = (field.requires,) if registered is None else registered.provides
        if field.requires not in provides:
            raise EncodeError(
                f"must be {archetype_with_article(field)}, which {value!r:.80} is not", path
            )


@composite("amqp:error:list", 0x1D, provides=("error",), checks_types=True)
@attrs.define
class Error:
    """An error (Part 2, 2.8.14), as in rejected outcomes.

    The constructor checks the types of the fields, and raises `EncodeError`.

    Attributes:
        condition: a symbol that names the kind of error, such as ``amqp:not-found``; ASCII.
        description: an explanation for people, or None.
        info: a map with further details of the error; its keys are symbols.
    """

    condition: symbol
    description: string | None = None
    info: fields | None = None
