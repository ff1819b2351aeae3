"""The base class of filters, their errors and limits, and functions that several filters share."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

import attrs

from amqp10msg.brokers import ByName, dialects
from amqp10msg.message import Message
from amqp10msg.wire.errors import (
    INVALID_FIELD,
    NOT_IMPLEMENTED,
    AmqpError,
    DecodeError,
    EncodeError,
    expect,
)
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.primitives import AmqpMap, Char, Described, Symbol, ULong

#: The names of the dialects of SQL filter expressions, see `SqlFilter`. ``rabbitmq-4`` and
#: ``rabbitmq-4.2`` are aliases of ``rabbitmq-4.3``.
Dialect: TypeAlias = Literal["rabbitmq", "rabbitmq-4", "rabbitmq-4.2", "rabbitmq-4.3", "oasis"]
#: The dialects by name, including names of broker versions.
DIALECTS: ByName[Dialect] = ByName(
    {"rabbitmq": "rabbitmq", "rabbitmq-4.3": "rabbitmq-4.3", "oasis": "oasis"},
    dialects(),
    kind="dialect",
)


def dialect_of(name: Dialect) -> Dialect:
    """Return the name of the dialect for a name or alias; return an unknown name unchanged."""
    return DIALECTS.get(name, name)


def check_dialect(_: Any, field: Any, value: Any) -> None:
    """Raise ValueError for the name of an unknown dialect: an attrs validator."""
    if value not in DIALECTS:
        names = ", ".join(DIALECTS.names)
        raise ValueError(f"{field.name} is one of {names}, not {value!r}")


@attrs.frozen
class FilterLimits:
    """Limits on the cost of a filter; constructing a filter that exceeds a limit raises an error.

    Attributes:
        length: the maximum number of characters in an expression or a topic pattern, at least 1.
        tokens: the maximum number of tokens in an expression, at least 1.
        depth: the maximum nesting of operands, 1 to 150. Expressions of 200 tokens, the limit of
            RabbitMQ, nest less than 140 deep.
        fields: the maximum number of entries in a filter that is a map.
        min_fields: the minimum number of entries in a filter that is a map.
        steps: the maximum number of steps of ``LIKE`` and functions, or of a topic pattern, on one
            message; with the compiled kernel a step takes about 1 ns. A text that could need more
            steps raises `EvaluationError`.
    """

    length: int = attrs.field(default=8_192, validator=attrs.validators.ge(1))
    tokens: int = attrs.field(default=10_000, validator=attrs.validators.ge(1))
    # Each level uses two Python frames to parse and one to evaluate.
    depth: int = attrs.field(
        default=150, validator=[attrs.validators.ge(1), attrs.validators.le(150)]
    )
    fields: int = attrs.field(default=1_000, validator=attrs.validators.ge(0))
    min_fields: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    steps: int = attrs.field(default=1_000_000_000, validator=attrs.validators.ge(1))


DEFAULT_FILTER_LIMITS = FilterLimits()
#: The limits of RabbitMQ 4.2: 4,096 characters, 200 tokens, 1 to 16 fields.
RABBITMQ = FilterLimits(length=4_096, tokens=200, fields=16, min_fields=1)


@attrs.frozen
class FilterOptions:
    """Options for parsing a peer's filters: the limits, and the SQL dialect."""

    limits: FilterLimits = DEFAULT_FILTER_LIMITS
    dialect: Dialect = attrs.field(
        default="rabbitmq", converter=dialect_of, validator=check_dialect
    )


class ExpressionError(EncodeError):
    """Raised if an expression has a syntax error or exceeds a limit.

    Attributes:
        text: the expression.
        position: the index of the character at which the error is, 0 to the length of the text.
        problem: what is wrong at that position, and what was expected.
    """

    # Tracebacks then name the module from which users import the class.
    __module__ = "amqp10msg.delivery.filters"

    def __init__(self, problem: str, text: str, position: int) -> None:
        self.problem = problem
        self.text = text
        self.position = position
        super().__init__(f"line {self.line}, column {self.column}: {problem}")

    @property
    def line(self) -> int:
        """The line number of the error, from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """The column of the error in its line, from 1."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1

    @property
    def excerpt(self) -> str:
        """The line with the error, shortened to 72 characters, and a caret below the position."""
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        end = len(self.text) if end < 0 else end
        first = max(start, self.position - 36)
        last = min(end, first + 72)
        prefix = "… " if first > start else ""
        suffix = " …" if last < end else ""
        line = "".join(char if char.isprintable() else " " for char in self.text[first:last])
        caret = " " * (len(prefix) + self.position - first) + "^"
        return f"{prefix}{line}{suffix}\n{caret}"

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.problem, self.text, self.position))


class EvaluationError(AmqpError, ValueError):
    """Raised if a filter cannot be evaluated on a message.

    The filter is not supported, needs the argument `now` or `local`, could exceed its limits on
    this message, or would make RabbitMQ end the session.
    """

    # Tracebacks then name the module from which users import the class.
    __module__ = "amqp10msg.delivery.filters"


class FilterWarning(UserWarning):
    """Warns that a broker does not apply a filter as the filter's definition requires."""

    # Tracebacks then name the module from which users import the class.
    __module__ = "amqp10msg.delivery.filters"


@attrs.frozen
class Reason:
    """A condition that a message does not meet, and the values that were tested.

    Attributes:
        condition: the condition as text; in an expression, the condition's part of the text.
        result: False, or None (unknown) because a value is not set.
        values: the compared values by name; None for a value that is not set.
        filter: the name of the filter in its filter set; "" without a filter set.
    """

    condition: str
    result: bool | None = False
    values: tuple[tuple[str, Any], ...] = ()
    filter: str = ""

    def __str__(self) -> str:
        verdict = "false" if self.result is False else "unknown" if self.result is None else "true"
        values = ", ".join(
            f"{name} is {'not set' if value is None else _format_literal(value)}"
            for name, value in self.values
        )
        prefix = f"{self.filter}: " if self.filter else ""
        return f"{prefix}{self.condition} is {verdict}{': ' + values if values else ''}"


def _format_literal(value: Any) -> str:
    """Format a value like a literal in an expression, shortened to about 60 characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = str(value).replace("'", "''")
        return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"
    if isinstance(value, bytes):
        return f"0x{value[:30].hex().upper()}{'…' if len(value) > 30 else ''}"
    text = str(value)
    return f"{text[:60]}…" if len(text) > 60 else text


FilterT = TypeVar("FilterT", bound="Filter")
# Stands for a class attribute that a filter class does not define.
_MISSING = object()
#: The filter classes by their descriptors, numeric (int) and symbolic (str).
FILTER_CLASS_BY_DESCRIPTOR: dict[int | str, type[Filter]] = {}


def register(cls: type[FilterT]) -> type[FilterT]:
    """Register a filter class, so that `parse` and the server find it by its descriptors.

    A class decorator, applied to each type of filter:

        @register
        @attrs.frozen
        class SizeFilter(Filter):
            SYMBOL = Symbol("acme:max-size")
            VALUE_TYPES = (int,)
            VALUE_NAME = "a number of bytes"

            max_size: int

            def passes(self, message, now, local):
                return len(message.body_bytes()) <= self.max_size

    Raises:
        TypeError: it is not a subclass of `Filter`, does not implement `passes` with its three
            arguments, has no attribute for the value, or a class attribute has a wrong type.
        ValueError: another class has one of its descriptors, `SYMBOL` is empty or not ASCII, `CODE`
            is not a ulong, or `VALUE_TYPES` is empty.
    """
    _check_class(cls)
    descriptors: list[int | str] = [cls.SYMBOL]
    if cls.CODE is not None:
        descriptors.append(cls.CODE)
    for descriptor in descriptors:
        other = FILTER_CLASS_BY_DESCRIPTOR.get(descriptor, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"{descriptor!r} is the descriptor of {other.__name__} already")
    FILTER_CLASS_BY_DESCRIPTOR.update(dict.fromkeys(descriptors, cls))
    return cls


def _check_class(cls: Any) -> None:
    """Raise an error if a class cannot be a type of filter, as `register` documents."""
    if not isinstance(cls, type) or not issubclass(cls, Filter):
        raise TypeError(f"register takes a subclass of Filter, not {cls!r:.80}")
    name = cls.__name__
    if cls.passes is Filter.passes:
        raise TypeError(f"{name} must implement passes(self, message, now, local)")
    try:
        inspect.signature(cls.passes).bind(None, None, None, None)
    except TypeError as error:
        raise TypeError(
            f"{name}.passes is called with a message, now and local, by position: {error}; "
            "define passes(self, message, now, local)"
        ) from None
    for attribute, kinds, kind in (
        ("SYMBOL", str, "a Symbol"),
        ("CODE", (int, NoneType), "an int or None"),
        ("CAPABILITY", str, "a str"),
        ("VALUE_TYPES", tuple, "a tuple of types"),
        ("VALUE_NAME", str, "a str"),
    ):
        value = getattr(cls, attribute, _MISSING)
        if not isinstance(value, kinds) or isinstance(value, bool):
            text = "is missing" if value is _MISSING else f"is {value!r:.80}"
            raise TypeError(f"{name}.{attribute} must be {kind}, but {text}")
    if not all(isinstance(kind, type) for kind in cls.VALUE_TYPES):
        raise TypeError(f"{name}.VALUE_TYPES must be a tuple of types, not {cls.VALUE_TYPES!r:.80}")
    if not cls.VALUE_TYPES:
        raise ValueError(f"{name}.VALUE_TYPES is empty: no value could be in such a filter")
    if not cls.SYMBOL or not cls.SYMBOL.isascii():
        text = f"{name}.SYMBOL must have at least one ASCII character and no others"
        raise ValueError(f"{text}, not {cls.SYMBOL!r:.80}")
    if cls.CODE is not None and not 0 <= cls.CODE < 1 << 64:
        raise ValueError(f"{name}.CODE must be a ulong, 0 to 2**64 - 1, not {cls.CODE}")
    if len(attrs.fields(cls)) < 2 and cls.to_value is Filter.to_value:
        raise TypeError(
            f"{name} has no attribute for its value: decorate it with attrs.frozen and annotate "
            "one, or define to_value and from_value"
        )


def class_of(descriptor: Any) -> type[Filter] | None:
    """Return the filter class for a descriptor, a ulong or symbol (Part 1, 1.5), or None."""
    return (
        FILTER_CLASS_BY_DESCRIPTOR.get(descriptor)
        if isinstance(descriptor, (ULong, Symbol))
        else None
    )


@attrs.frozen
class Filter(abc.ABC):
    """A predicate on messages (Part 3, 3.5.8).

    A sender omits the filters that it does not apply from the source in its attach (Part 3, 3.5.3);
    RabbitMQ then delivers every message. Receivers should compare the filters in that attach with
    the filters they requested.

    A subclass is a type of filter, and its first attribute is the value of a filter. The subclass
    implements `passes` and, if the defaults do not suit it, `prepare`, `reasons`, `to_value` and
    `from_value`; see `register`.

    Attributes:
        SYMBOL: the symbolic descriptor of the filter's type.
        CODE: the numeric descriptor of the filter's type; None if only `SYMBOL` is defined.
        CAPABILITY: the capability that announces support for the type; "" if none is defined.
        supported: whether `matches` can evaluate filters of this type.
        VALUE_TYPES: the Python types that the described value may have. The constructor raises
            `EncodeError` for other types, unless the subclass has its own `to_value` or
            `from_value`.
        VALUE_NAME: a description of the required value, for the error if it has another type.
        descriptor: the descriptor of this filter, numeric or symbolic.
    """

    SYMBOL: ClassVar[Symbol]
    CODE: ClassVar[int | None] = None
    CAPABILITY: ClassVar[str] = ""
    supported: ClassVar[bool] = True
    VALUE_TYPES: ClassVar[tuple[type, ...]] = (str,)
    VALUE_NAME: ClassVar[str] = "a string"
    # None selects the numeric descriptor of the class or, without a `CODE`, the symbolic
    # descriptor.
    descriptor: Any = attrs.field(default=None, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        limits = getattr(self, "limits", None)
        expect(limits, (FilterLimits, NoneType), "the limits of a filter", "a FilterLimits")
        self._check_value_type()
        self._set_descriptor()
        self.prepare()

    def _check_value_type(self) -> None:
        """Raise EncodeError if the value has a type that is not in `VALUE_TYPES`.

        A subclass with its own `to_value` or `from_value` has another value than its first
        attribute, or checks it.
        """
        cls = type(self)
        has_default: Any = cls.from_value.__func__ is Filter.from_value.__func__  # type: ignore[attr-defined]
        if cls.to_value is not Filter.to_value or not has_default:
            return
        for field in attrs.fields(cls)[1:2]:
            value = getattr(self, field.name)
            if not _has_value_type(cls, value):
                raise EncodeError(
                    f"{cls.SYMBOL} takes {cls.VALUE_NAME}, not {type(value).__name__}",
                    f"filter.{field.name}",
                )

    def prepare(self) -> None:  # noqa: B027 - optional: most filters need no preparation
        """Check the attributes, and compile them for `passes`."""

    def _set_descriptor(self) -> None:
        """Set `descriptor` to the default of the class if it is None; otherwise check it."""
        if self.descriptor is None:
            default = Symbol(self.SYMBOL) if self.CODE is None else ULong(self.CODE)
            object.__setattr__(self, "descriptor", default)
        elif class_of(self.descriptor) is not type(self):
            raise EncodeError(
                f"{self.descriptor!r} is not a descriptor of {self.SYMBOL}", "filter.descriptor"
            )

    def matches(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> bool:
        """Whether a message passes the filter.

        Args:
            message: the message.
            now: the time in ms since the Unix epoch, for expressions with ``UTC()``.
            local: whether the message arrived on the connection of the link, for `NoLocal`.

        Raises:
            EvaluationError: the filter cannot be evaluated, or needs `now` or `local`.
            TypeError: `message` is not a `Message`.
        """
        if not isinstance(message, Message):
            raise not_a_message_error(message)
        return self.passes(message, now, local)

    @property
    def steps(self) -> int:
        """The number of steps used so far, on all messages (see `FilterLimits.steps`)."""
        return 0

    @abc.abstractmethod
    def passes(self, message: Message, now: int | None, local: bool | None, /) -> bool:
        """Whether a message passes the filter. Arguments and exceptions are those of `matches`."""

    def to_value(self) -> Any:
        """Return the described value to encode: by default, the first attribute of the subclass."""
        _, field, *_ = attrs.fields(type(self))
        return getattr(self, field.name)

    @classmethod
    def from_value(cls, value: Any, descriptor: Any, options: FilterOptions) -> Self:
        """Construct a filter from the value that a descriptor describes.

        By default, the value is the first argument. A class with attributes ``limits`` or
        ``dialect`` gets those of `options`, too.

        Raises:
            DecodeError: the value has a type that is not in `VALUE_TYPES`.
        """
        # Symbol and Char are subclasses of str, but not strings in AMQP.
        if not _has_value_type(cls, value) or isinstance(value, (Symbol, Char)):
            raise wrong_value_type_error(cls, cls.VALUE_NAME, value)
        names = {field.name for field in attrs.fields(cls)} & {"limits", "dialect"}
        settings = {name: getattr(options, name) for name in names}
        make: Callable[..., Self] = cls
        return make(value, descriptor=descriptor, **settings)

    def explain(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> tuple[Reason, ...]:
        """Return the conditions that a message does not meet; empty if it passes.

        The arguments and exceptions are the same as for `matches`.
        """
        if self.matches(message, now=now, local=local):
            return ()
        return self.reasons(message, now)

    def reasons(self, _message: Message, _now: int | None, /) -> tuple[Reason, ...]:
        """Return the conditions that a message does not meet, for a message that does not pass."""
        return (Reason(str(self.SYMBOL)),)

    def unset_names(self, message: Message) -> tuple[str, ...]:
        """Return the names in the filter that a message does not set, as the filter spells them.

        A name belongs to a field, an application property or an annotation. A name that is only
        tested with ``IS NULL`` or ``EXISTS`` is left out. The exceptions are those of `matches`.
        """
        if not isinstance(message, Message):
            raise not_a_message_error(message)
        return self._unset_names(message)

    def _unset_names(self, _message: Message) -> tuple[str, ...]:
        return ()

    def right_name(self, name: str) -> str:
        """Return the name that this filter's language has for a name of another language.

        Empty if there is none, or the name is not one of another language. In JMS selectors,
        ``header.priority`` is ``amqp.priority``.

        Raises:
            TypeError: the name is not a str.
        """
        expect(name, str, "right_name", "a str")
        return self._right_name(name)

    def _right_name(self, _name: str) -> str:
        return ""

    # Copying and pickling call the constructor again: compiled expressions cannot be copied.
    def __reduce__(self) -> tuple[object, ...]:
        fields = [field for field in attrs.fields(type(self)) if field.init]
        return (
            _rebuild,
            (type(self), {field.alias: getattr(self, field.name) for field in fields}),
        )

    def to_described(self) -> Described:
        """Return the described value for the filter map of a source."""
        return Described(self.descriptor, self.to_value())

    def encode(self) -> bytes:
        """Encode the described value.

        Raises:
            EncodeError: the value cannot be encoded.
        """
        encoded: bytes = encode_value(self.to_described())
        return encoded

    @classmethod
    def decode(cls, data: bytes, *, limits: FilterLimits = DEFAULT_FILTER_LIMITS) -> Self:
        """Decode a described value of this type of filter.

        Raises:
            DecodeError: the bytes are not a filter of this type, or its value is invalid.
            TypeError: the class is abstract, such as `Filter` itself.
        """
        if not hasattr(cls, "SYMBOL"):
            raise TypeError(f"{cls.__name__} is abstract: decode with a subclass, or use parse")
        value = decode_value(data)
        if not isinstance(value, Described) or class_of(value.descriptor) is not cls:
            raise invalid_filter_error(
                f"expected a filter {cls.SYMBOL}", rule="unknown-filter", code=NOT_IMPLEMENTED
            )
        return filter_of(cls, value, FilterOptions(limits))


def _has_value_type(cls: type[Filter], value: Any) -> bool:
    """Return whether a value has one of the types `Filter.VALUE_TYPES`; a bool is not an int."""
    if isinstance(value, bool):
        return bool in cls.VALUE_TYPES
    return isinstance(value, cls.VALUE_TYPES)


def _rebuild(cls: type[FilterT], arguments: dict[str, Any]) -> FilterT:
    """Construct a filter when it is copied or unpickled."""
    return cls(**arguments)


def filter_of(cls: type[FilterT], described: Described, options: FilterOptions) -> FilterT:
    """Construct a filter from a described value. Raise DecodeError if the value is invalid."""
    try:
        return cls.from_value(described.value, described.descriptor, options)
    except EncodeError as error:
        raise invalid_filter_error(f"{cls.SYMBOL}: {error}") from error


def invalid_filter_error(
    text: str, *, rule: str = "filter", code: str = INVALID_FIELD
) -> DecodeError:
    """Return the DecodeError for an invalid filter that a peer sent."""
    return DecodeError(text, 0, rule=rule, condition=code)


def not_a_message_error(value: object) -> TypeError:
    """Return the TypeError for an argument that is not a `Message`, with a hint for bytes."""
    is_encoded = isinstance(value, (bytes, bytearray, memoryview))
    hint = ": decode it with Message.decode" if is_encoded else ""
    return TypeError(f"a filter is evaluated on a Message, not {type(value).__name__}{hint}")


def wrong_value_type_error(cls: type[Filter], expected: str, value: Any) -> DecodeError:
    """Return the DecodeError for a filter's value that has the wrong type."""
    return invalid_filter_error(f"{cls.SYMBOL} describes {expected}, not {type(value).__name__}")


def entries_of(
    symbol: str, entries: Any, excluded_types: type | tuple[type, ...], limits: FilterLimits
) -> dict[Any, Any]:
    """Return the entries of a map, after checking their keys and number.

    Keys must be str, but not of a class in `excluded_types`, such as Symbol.

    Raises:
        EncodeError: `entries` is not a map, a key has the wrong type or occurs twice, or the number
            of entries is outside the limits.
    """
    if isinstance(entries, AmqpMap):
        pairs = list(entries.pairs)
    elif isinstance(entries, Mapping):
        pairs = list(entries.items())
    else:
        raise EncodeError(f"{symbol} takes a map, not {type(entries).__name__}", "filter")
    for key, _ in pairs:
        if not isinstance(key, str) or isinstance(key, excluded_types):
            raise EncodeError(f"{symbol} has a key of the wrong type: {key!r}", "filter")
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise EncodeError(f"{symbol} has a duplicate key", "filter")
    if not limits.min_fields <= len(mapping) <= limits.fields:
        raise EncodeError(
            f"{symbol} has {len(mapping):,} entries: {limits.min_fields:,} to {limits.fields:,} "
            "are allowed",
            "filter",
        )
    return mapping
