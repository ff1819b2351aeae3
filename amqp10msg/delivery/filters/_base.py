"""What every filter has in common: its descriptor, its answers, its errors and its bounds."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

import attrs

from amqp10msg._core import decode_value, encode_value
from amqp10msg.errors import INVALID_FIELD, NOT_IMPLEMENTED, AmqpError, DecodeError, EncodeError
from amqp10msg.message import Message
from amqp10msg.primitives import Described, Symbol, ULong

__all__ = [
    "DEFAULT_FILTER_LIMITS",
    "FILTERS",
    "RABBITMQ",
    "EvaluationError",
    "ExpressionError",
    "Filter",
    "FilterLimits",
    "Reason",
    "class_of",
    "register",
]


#: What an SQL filter expression may hold: see `SqlFilter`.
Dialect: TypeAlias = Literal["rabbitmq", "oasis"]


@attrs.frozen
class FilterLimits:
    """Bounds on what a filter may cost; exceeding one is an error when the filter is made.

    Attributes:
        length: characters of an expression or a topic pattern.
        tokens: words, signs and literals of an expression.
        depth: how deep operands may nest, 1 to 100.
        fields: entries of a filter that is a map.
        min_fields: entries that such a filter must have.
    """

    length: int = attrs.field(default=8_192, validator=attrs.validators.ge(1))
    tokens: int = attrs.field(default=10_000, validator=attrs.validators.ge(1))
    # A level takes two Python frames to parse and one to evaluate.
    depth: int = attrs.field(
        default=100, validator=[attrs.validators.ge(1), attrs.validators.le(100)]
    )
    fields: int = attrs.field(default=1_000, validator=attrs.validators.ge(0))
    min_fields: int = attrs.field(default=0, validator=attrs.validators.ge(0))


DEFAULT_FILTER_LIMITS = FilterLimits()
#: The bounds of RabbitMQ 4.2: 4,096 characters, 200 tokens, 1 to 16 fields.
RABBITMQ = FilterLimits(length=4_096, tokens=200, fields=16, min_fields=1)


@attrs.frozen
class Options:
    """How to take what a peer sent: the bounds, and the dialect of SQL."""

    limits: FilterLimits = DEFAULT_FILTER_LIMITS
    dialect: Dialect = attrs.field(
        default="rabbitmq", validator=attrs.validators.in_(("rabbitmq", "oasis"))
    )


class ExpressionError(EncodeError):
    """An expression is not what its grammar asks for.

    Attributes:
        text: the expression.
        position: index of the character where it goes wrong, 0 to the length of the text.
        problem: what is wrong there, and what was expected.
    """

    def __init__(self, problem: str, text: str, position: int) -> None:
        self.problem = problem
        self.text = text
        self.position = position
        super().__init__(f"line {self.line}, column {self.column}: {problem}")

    @property
    def line(self) -> int:
        """The line of the position, 1 for the first."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """The character in that line, 1 for the first."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1

    @property
    def excerpt(self) -> str:
        """The line around the position, at most 72 characters of it, and a caret under it."""
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
    """A filter cannot be evaluated on a message: it is not supported, or lacks `now` or `local`."""


@attrs.frozen
class Reason:
    """Why a message does not pass: a condition that does not hold, and what it saw.

    Attributes:
        condition: the part of the filter, as it was written where it is text.
        result: False, or None where it is unknown because something is not set.
        values: what it compared, by name; a value that is not set is None.
        filter: the name of the filter in its set; empty where it stands alone.
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
    """Show a value, shortened, with the quotes that tell text from numbers."""
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
#: Every class of filter, by its numeric descriptor (int) and its symbolic one (str).
FILTERS: dict[int | str, type[Filter]] = {}


def register(cls: type[F]) -> type[F]:
    """Make a class known to `parse` by its descriptors."""
    FILTERS[cls.SYMBOL] = cls
    if cls.CODE is not None:
        FILTERS[cls.CODE] = cls
    return cls


def class_of(descriptor: Any) -> type[Filter] | None:
    """Find the class of a descriptor: a ulong or a symbol, as Part 1, 1.5 has it."""
    return FILTERS.get(descriptor) if isinstance(descriptor, (ULong, Symbol)) else None


@attrs.frozen
class Filter(abc.ABC):
    """A function from a message to whether it may pass (Part 3, 3.5.8).

    Attributes:
        SYMBOL: the symbolic descriptor of the filter's type.
        CODE: the numeric descriptor, or None where only the symbolic one is defined.
        CAPABILITY: what a source or connection announces that supports the type; empty for none.
        supported: whether `matches` gives an answer.
        descriptor: the descriptor that this filter has, numeric or symbolic.
    """

    SYMBOL: ClassVar[Symbol]
    CODE: ClassVar[int | None] = None
    CAPABILITY: ClassVar[str] = ""
    supported: ClassVar[bool] = True
    # None stands for the class's own, the numeric one where there is one.
    descriptor: Any = attrs.field(default=None, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        self._settle_descriptor()
        self._settle()

    def _settle(self) -> None:  # noqa: B027 - most have nothing to do
        """Check the attributes, and prepare what `_passes` needs."""

    def _settle_descriptor(self) -> None:
        """Put the class's own descriptor where none was given, and check one that was."""
        if self.descriptor is None:
            own = Symbol(self.SYMBOL) if self.CODE is None else ULong(self.CODE)
            object.__setattr__(self, "descriptor", own)
        elif class_of(self.descriptor) is not type(self):
            raise EncodeError(
                f"{self.descriptor!r} is no descriptor of {self.SYMBOL}", "filter.descriptor"
            )

    def matches(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> bool:
        """Tell whether a message passes.

        Args:
            message: the message.
            now: the time in milliseconds since the Unix epoch, for expressions with ``UTC()``.
            local: whether the message came over the connection of the filter's link, for `NoLocal`.

        Raises:
            EvaluationError: the filter cannot be evaluated, or needs what was not given.
        """
        return self._passes(message, now, local)

    @abc.abstractmethod
    def _passes(self, message: Message, now: int | None, local: bool | None, /) -> bool:
        """Tell whether a message passes."""

    @abc.abstractmethod
    def _value(self) -> Any:
        """Give what is described: the filter's value as it stands on the wire."""

    @classmethod
    @abc.abstractmethod
    def _from_value(cls, value: Any, descriptor: Any, options: Options) -> Self:
        """Make the filter of a described value.

        Raises:
            DecodeError: the value is not of the type that the filter has.
            EncodeError: the value is, and says something wrong.
        """

    def explain(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> tuple[Reason, ...]:
        """Say why a message does not pass; empty where it does.

        Takes and raises what `matches` does.
        """
        if self.matches(message, now=now, local=local):
            return ()
        return self._reasons(message, now)

    def _reasons(self, message: Message, now: int | None, /) -> tuple[Reason, ...]:
        """Say why a message that does not pass does not."""
        raise NotImplementedError

    def to_described(self) -> Described:
        """Give the described value that a source carries, with the descriptor that it came with."""
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
            DecodeError: the octets are no such filter, or one that says something wrong.
        """
        value = decode_value(data)
        if not isinstance(value, Described) or class_of(value.descriptor) is not cls:
            raise fault(f"this is no {cls.SYMBOL}", rule="unknown-filter", code=NOT_IMPLEMENTED)
        return filter_of(cls, value, Options(limits))


def filter_of(cls: type[F], described: Described, options: Options) -> F:
    """Make a filter of a described value; whatever is wrong is the peer's fault."""
    try:
        return cls._from_value(described.value, described.descriptor, options)
    except EncodeError as error:
        raise fault(f"{cls.SYMBOL}: {error}") from error


def fault(text: str, *, rule: str = "filter", code: str = INVALID_FIELD) -> DecodeError:
    """Make the error of a filter that a peer sent."""
    return DecodeError(text, 0, rule=rule, condition=code)


def wrong_type(cls: type[Filter], wanted: str, value: Any) -> DecodeError:
    """Make the error of a filter's value that is of another type."""
    return fault(f"{cls.SYMBOL} describes {wanted}, not {type(value).__name__}")
