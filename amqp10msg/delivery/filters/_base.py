"""The base class of filters, their errors, their limits, and the entries of those that are maps."""

from __future__ import annotations

import abc
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

#: Dialects of SQL filter expressions: see `SqlFilter`. Those of ``rabbitmq-4`` and ``rabbitmq-4.2``
#: are that of ``rabbitmq-4.3``.
Dialect: TypeAlias = Literal["rabbitmq", "rabbitmq-4", "rabbitmq-4.2", "rabbitmq-4.3", "oasis"]
#: By each name of a dialect: its own.
DIALECTS: ByName[Dialect] = ByName(
    {"rabbitmq": "rabbitmq", "rabbitmq-4.3": "rabbitmq-4.3", "oasis": "oasis"}, dialects()
)


def dialect_of(name: Dialect) -> Dialect:
    """Return the own name of a dialect; a name that is not known as it is."""
    return DIALECTS.get(name, name)


def check_dialect(_: Any, field: Any, value: Any) -> None:
    """Raise ValueError for the name of a dialect that is not known."""
    if value not in DIALECTS:
        known = ", ".join(DIALECTS.names)
        raise ValueError(f"{field.name} is one of {known}, not {value!r}")


@attrs.frozen
class FilterLimits:
    """Limits on the cost of a filter; making a filter that exceeds one raises an error.

    Attributes:
        length: most characters of an expression or a topic pattern, at least 1.
        tokens: most tokens of an expression, at least 1.
        depth: deepest nesting of operands, 1 to 150; a filter of 200 tokens, the most that
            RabbitMQ takes, nests less than 140 deep.
        fields: most entries of a filter that is a map.
        min_fields: fewest entries of such a filter.
        steps: most steps that the ``LIKE`` and the functions of an expression, or a topic pattern,
            may take on a message; one takes about 1 ns where the kernel is compiled. A text that
            may take more raises `EvaluationError`.
    """

    length: int = attrs.field(default=8_192, validator=attrs.validators.ge(1))
    tokens: int = attrs.field(default=10_000, validator=attrs.validators.ge(1))
    # A level takes two Python frames to parse and one to evaluate.
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
class Options:
    """Options of reading a peer's filters: the limits, and the dialect of SQL."""

    limits: FilterLimits = DEFAULT_FILTER_LIMITS
    dialect: Dialect = attrs.field(
        default="rabbitmq", converter=dialect_of, validator=check_dialect
    )


class ExpressionError(EncodeError):
    """An expression with a syntax error, or one that exceeds a limit.

    Attributes:
        text: the expression.
        position: index of the character at fault, 0 to the length of the text.
        problem: what is wrong there, and what was expected.
    """

    __module__ = "amqp10msg.delivery.filters"  # where users import it from: tracebacks show it

    def __init__(self, problem: str, text: str, position: int) -> None:
        self.problem = problem
        self.text = text
        self.position = position
        super().__init__(f"line {self.line}, column {self.column}: {problem}")

    @property
    def line(self) -> int:
        """The number of the line at fault, from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """The number of the character in that line, from 1."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1

    @property
    def excerpt(self) -> str:
        """The line at fault, shortened to 72 characters, and a caret below the position."""
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        end = len(self.text) if end < 0 else end
        first = max(start, self.position - 36)
        last = min(end, first + 72)
        before = "… " if first > start else ""
        after = " …" if last < end else ""
        shown = "".join(char if char.isprintable() else " " for char in self.text[first:last])
        caret = " " * (len(before) + self.position - first) + "^"
        return f"{before}{shown}{after}\n{caret}"

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.problem, self.text, self.position))


class EvaluationError(AmqpError, ValueError):
    """A filter cannot be evaluated on a message.

    It is not supported, lacks `now` or `local`, costs more than its limits allow, or makes RabbitMQ
    end the session.
    """

    __module__ = "amqp10msg.delivery.filters"  # where users import it from: tracebacks show it


class FilterWarning(UserWarning):
    """A filter that a broker does not apply as its definition says."""

    __module__ = "amqp10msg.delivery.filters"  # where users import it from: tracebacks show it


@attrs.frozen
class Reason:
    """A condition that a message fails, and the values it was tested on.

    Attributes:
        condition: the part of the filter; of an expression, its text.
        result: False, or None (unknown) because a value is not set.
        values: the compared values by name; None for a value that is not set.
        filter: the name of the filter in its set; empty for a filter outside a set.
    """

    condition: str
    result: bool | None = False
    values: tuple[tuple[str, Any], ...] = ()
    filter: str = ""

    def __str__(self) -> str:
        verdict = "false" if self.result is False else "unknown" if self.result is None else "true"
        seen = ", ".join(
            f"{name} is {'not set' if value is None else _shown(value)}"
            for name, value in self.values
        )
        where = f"{self.filter}: " if self.filter else ""
        return f"{where}{self.condition} is {verdict}{': ' + seen if seen else ''}"


def _shown(value: Any) -> str:
    """Return a value as text, shortened, in the notation of expressions."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = str(value).replace("'", "''")
        return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"
    if isinstance(value, bytes):
        return f"0x{value[:30].hex().upper()}{'…' if len(value) > 30 else ''}"
    text = str(value)
    return f"{text[:60]}…" if len(text) > 60 else text


F = TypeVar("F", bound="Filter")
#: The classes of filters by numeric (int) and symbolic (str) descriptor.
FILTERS: dict[int | str, type[Filter]] = {}


def register(cls: type[F]) -> type[F]:
    """Register a class for `parse` by its descriptors."""
    FILTERS[cls.SYMBOL] = cls
    if cls.CODE is not None:
        FILTERS[cls.CODE] = cls
    return cls


def class_of(descriptor: Any) -> type[Filter] | None:
    """Return the class of a descriptor, which is a ulong or a symbol (Part 1, 1.5)."""
    return FILTERS.get(descriptor) if isinstance(descriptor, (ULong, Symbol)) else None


@attrs.frozen
class Filter(abc.ABC):
    """A predicate on messages (Part 3, 3.5.8).

    A source leaves the filters that it does not apply out of its answer to the attach (Part 3,
    3.5.3), and RabbitMQ then delivers every message: a receiver compares the filters of the answer
    with those it asked for.

    Attributes:
        SYMBOL: the symbolic descriptor of the filter's type.
        CODE: the numeric descriptor; None if only the symbolic one is defined.
        CAPABILITY: the capability that announces support for the type; empty for none.
        supported: whether `matches` can evaluate it.
        descriptor: the descriptor of this filter, numeric or symbolic.
    """

    SYMBOL: ClassVar[Symbol]
    CODE: ClassVar[int | None] = None
    CAPABILITY: ClassVar[str] = ""
    supported: ClassVar[bool] = True
    # The Python types of the described value, and their name in errors.
    _VALUE_TYPES: ClassVar[tuple[type, ...]] = (str,)
    _VALUE_NAME: ClassVar[str] = "a string"
    # None stands for the class's own, the numeric one if there is one.
    descriptor: Any = attrs.field(default=None, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        limits = getattr(self, "limits", None)
        expect(limits, (FilterLimits, NoneType), "the limits of a filter", "a FilterLimits")
        self._settle_descriptor()
        self._settle()

    def _settle(self) -> None:  # noqa: B027 - most have nothing to do
        """Check the attributes, and prepare what `_passes` needs."""

    def _settle_descriptor(self) -> None:
        """Set the class's own descriptor if none was given, else check the given one."""
        if self.descriptor is None:
            own = Symbol(self.SYMBOL) if self.CODE is None else ULong(self.CODE)
            object.__setattr__(self, "descriptor", own)
        elif class_of(self.descriptor) is not type(self):
            raise EncodeError(
                f"{self.descriptor!r} is not a descriptor of {self.SYMBOL}", "filter.descriptor"
            )

    def matches(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> bool:
        """Return whether a message passes.

        Args:
            message: the message.
            now: the time in ms since the Unix epoch, for expressions with ``UTC()``.
            local: whether the message came over the connection of the filter's link, for `NoLocal`.

        Raises:
            EvaluationError: the filter cannot be evaluated, or needs `now` or `local`.
            TypeError: it is not a `Message`.
        """
        if not isinstance(message, Message):
            raise not_a_message(message)
        return self._passes(message, now, local)

    @property
    def steps(self) -> int:
        """The steps of `FilterLimits.steps` that this filter has taken so far, on all messages."""
        return 0

    @abc.abstractmethod
    def _passes(self, message: Message, now: int | None, local: bool | None, /) -> bool:
        """Return whether a message passes."""

    def _value(self) -> Any:
        """Return the described value as it is encoded: the attribute that is a filter's own."""
        _, own, *_ = attrs.fields(type(self))
        return getattr(self, own.name)

    @classmethod
    def _from_value(cls, value: Any, descriptor: Any, options: Options) -> Self:
        """Make the filter from a described value."""
        # Symbols and characters are strings in Python alone.
        if not isinstance(value, cls._VALUE_TYPES) or isinstance(value, (Symbol, Char)):
            raise wrong_type(cls, cls._VALUE_NAME, value)
        taken = {field.name for field in attrs.fields(cls)} & {"limits", "dialect"}
        settings = {name: getattr(options, name) for name in taken}
        make: Callable[..., Self] = cls
        return make(value, descriptor=descriptor, **settings)

    def explain(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> tuple[Reason, ...]:
        """Return why a message does not pass; empty if it does.

        Takes and raises what `matches` does.
        """
        if self.matches(message, now=now, local=local):
            return ()
        return self._reasons(message, now)

    def _reasons(self, message: Message, now: int | None, /) -> tuple[Reason, ...]:
        """Return why a message that does not pass does not."""
        raise NotImplementedError

    # Some hold compiled expressions, which cannot be copied: a copy is made from the arguments.
    def __reduce__(self) -> tuple[object, ...]:
        fields = [field for field in attrs.fields(type(self)) if field.init]
        return (_rebuild, (type(self), {one.alias: getattr(self, one.name) for one in fields}))

    def to_described(self) -> Described:
        """Return the described value for the filter map of a source."""
        return Described(self.descriptor, self._value())

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
            DecodeError: the bytes are not such a filter, or its value is wrong.
            TypeError: the class is abstract, such as `Filter` itself.
        """
        if not hasattr(cls, "SYMBOL"):
            raise TypeError(f"{cls.__name__} is not one type of filter: decode with its subclass")
        value = decode_value(data)
        if not isinstance(value, Described) or class_of(value.descriptor) is not cls:
            raise fault(
                f"expected a filter {cls.SYMBOL}", rule="unknown-filter", code=NOT_IMPLEMENTED
            )
        return filter_of(cls, value, Options(limits))


def _rebuild(cls: type[F], arguments: dict[str, Any]) -> F:
    return cls(**arguments)


def filter_of(cls: type[F], described: Described, options: Options) -> F:
    """Make a filter from a described value; whatever is wrong with it is a `DecodeError`."""
    try:
        return cls._from_value(described.value, described.descriptor, options)
    except EncodeError as error:
        raise fault(f"{cls.SYMBOL}: {error}") from error


def fault(text: str, *, rule: str = "filter", code: str = INVALID_FIELD) -> DecodeError:
    """Return the error for a filter that a peer sent."""
    return DecodeError(text, 0, rule=rule, condition=code)


def not_a_message(given: object) -> TypeError:
    """Return the error for anything else than a message, and say what to do with bytes."""
    is_encoded = isinstance(given, (bytes, bytearray, memoryview))
    hint = ": decode it with Message.decode" if is_encoded else ""
    return TypeError(f"a filter is evaluated on a Message, not {type(given).__name__}{hint}")


def wrong_type(cls: type[Filter], wanted: str, value: Any) -> DecodeError:
    """Return the error for a filter's value of the wrong type."""
    return fault(f"{cls.SYMBOL} describes {wanted}, not {type(value).__name__}")


def entries_of(
    symbol: str, entries: Any, not_of: type | tuple[type, ...], limits: FilterLimits
) -> dict[Any, Any]:
    """Return the entries of a map whose keys are strings, of none of the classes `not_of`.

    Raises:
        EncodeError: it is not such a map, or has too many or too few entries.
    """
    if isinstance(entries, AmqpMap):
        pairs = list(entries.pairs)
    elif isinstance(entries, Mapping):
        pairs = list(entries.items())
    else:
        raise EncodeError(f"{symbol} takes a map, not {type(entries).__name__}", "filter")
    for key, _ in pairs:
        if not isinstance(key, str) or isinstance(key, not_of):
            raise EncodeError(f"{symbol} has a key of the wrong type: {key!r}", "filter")
    made = dict(pairs)
    if len(made) != len(pairs):
        raise EncodeError(f"{symbol} has a duplicate key", "filter")
    if not limits.min_fields <= len(made) <= limits.fields:
        raise EncodeError(
            f"{symbol} has {len(made):,} entries: {limits.min_fields:,} to {limits.fields:,} "
            "are allowed",
            "filter",
        )
    return made
