"""Sets of filters, and filters from what a peer sent (Part 3, 3.5.8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, overload

import attrs

from amqp10msg._core import decode_value, encode_value
from amqp10msg.delivery.filters._base import (
    DEFAULT_FILTER_LIMITS,
    Dialect,
    EvaluationError,
    Filter,
    FilterLimits,
    Options,
    Reason,
    class_of,
    fault,
    filter_of,
)
from amqp10msg.delivery.filters.vendors import MatchUnfiltered, StreamFilter
from amqp10msg.errors import DecodeError, EncodeError
from amqp10msg.message import Message
from amqp10msg.primitives import AmqpMap, Described, Symbol

__all__ = ["FilterSet", "UnsupportedFilter", "parse"]


@attrs.frozen
class UnsupportedFilter(Filter):
    """A filter that is kept as it came: of an unknown type, or one that says something wrong.

    It encodes as it came and cannot be evaluated. `FilterSet.supported` leaves it out.

    Attributes:
        described: what came.
        problem: why it cannot be evaluated.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("")
    supported: ClassVar[bool] = False

    described: Described
    problem: str

    def _settle_descriptor(self) -> None:
        object.__setattr__(self, "descriptor", self.described.descriptor)

    def _passes(self, _message: Message, _now: int | None, _local: bool | None) -> bool:
        raise EvaluationError(self.problem)

    def _value(self) -> Any:
        return self.described.value

    @classmethod
    def _from_value(cls, value: Any, descriptor: Any, _options: Options) -> Self:
        return cls(Described(descriptor, value), f"there is no filter {descriptor!r} here")


@attrs.frozen(eq=False)
class FilterSet(Mapping[str, Filter | None]):
    """Filters by name: a message passes if it passes every one (Part 3, 3.5.8).

        filters = FilterSet({"jms-selector": Selector("a = 1"), "no-local": NoLocal()})
        source = Source(address="orders", filter=filters.to_map())

    A mapping of names to filters. None passes every message, as if it were not there.

    Attributes:
        filters: the filters; names are ASCII, for they are symbols.
    """

    filters: Mapping[str, Filter | None] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "filters", dict(self.filters))
        given: dict[Any, Any] = dict(self.filters)
        for name, one in given.items():
            if not isinstance(name, str) or not name.isascii():
                raise EncodeError(f"a filter's name is a symbol, and {name!r} is none", "filter")
            if one is not None and not isinstance(one, Filter):
                raise EncodeError(
                    f"this is no Filter, but {type(one).__name__}: use parse", f"filter.{name}"
                )

    def __getitem__(self, name: str) -> Filter | None:
        return self.filters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.filters)

    def __len__(self) -> int:
        return len(self.filters)

    def _in_order(self) -> list[tuple[str, Filter]]:
        return [(name, one) for name, one in self.filters.items() if one is not None]

    def _unfiltered_pass(self) -> bool:
        return any(isinstance(one, MatchUnfiltered) and one.wanted for _, one in self._in_order())

    def matches(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> bool:
        """Tell whether a message passes every filter.

        Args:
            message: the message.
            now: the time in milliseconds since the Unix epoch, for expressions with ``UTC()``.
            local: whether the message came over the connection of the filters' link.

        Raises:
            EvaluationError: a filter cannot be evaluated, or needs what was not given, and no
                filter before it stops the message.
        """
        for one in self.filters.values():
            if (
                one is not None
                and not one.matches(message, now=now, local=local)
                and not self._excused(one, message)
            ):
                return False
        return True

    def _excused(self, one: Filter, message: Message) -> bool:
        """Tell whether what a filter stops passes by another one that widens it."""
        return (
            isinstance(one, StreamFilter) and one.is_unfiltered(message) and self._unfiltered_pass()
        )

    def explain(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> tuple[Reason, ...]:
        """Say why a message does not pass, filter by filter; empty where it does.

        Takes and raises what `matches` does.
        """
        found: list[Reason] = []
        for name, one in self._in_order():
            try:
                reasons = one.explain(message, now=now, local=local)
            except EvaluationError:
                if not found:
                    raise
                continue  # what stands before it stops the message already
            if reasons and not self._excused(one, message):
                found += [attrs.evolve(reason, filter=name) for reason in reasons]
        return tuple(found)

    @property
    def supported(self) -> FilterSet:
        """The filters that can be evaluated, which a source says are in place (Part 3, 3.5.3).

        A receiver compares it with what it asked for, and detaches where it needs more.
        """
        return FilterSet(
            {name: one for name, one in self.filters.items() if one is None or one.supported}
        )

    @property
    def unsupported(self) -> dict[str, Filter]:
        """The filters that cannot be evaluated, by name."""
        return {name: one for name, one in self._in_order() if not one.supported}

    def to_map(self) -> dict[Symbol, Described | None]:
        """Give the filter-set as the field `filter` of a source holds it."""
        return {
            Symbol(name): None if one is None else one.to_described()
            for name, one in self.filters.items()
        }

    def encode(self) -> bytes:
        """Encode the filter-set.

        Raises:
            EncodeError: a filter's value cannot be encoded.
        """
        encoded: bytes = encode_value(self.to_map())
        return encoded


@overload
def parse(
    given: Described | Filter,
    *,
    strict: bool = ...,
    limits: FilterLimits = ...,
    dialect: Dialect = ...,
) -> Filter: ...
@overload
def parse(
    given: Mapping[Any, Any] | AmqpMap | None,
    *,
    strict: bool = ...,
    limits: FilterLimits = ...,
    dialect: Dialect = ...,
) -> FilterSet: ...
@overload
def parse(
    given: bytes | bytearray | memoryview,
    *,
    strict: bool = ...,
    limits: FilterLimits = ...,
    dialect: Dialect = ...,
) -> Filter | FilterSet: ...


def parse(
    given: Any,
    *,
    strict: bool = True,
    limits: FilterLimits = DEFAULT_FILTER_LIMITS,
    dialect: Dialect = "rabbitmq",
) -> Filter | FilterSet:
    """Turn what a peer sent into filters that can be evaluated.

        parse(source.filter)            # the filter-set of a source: a FilterSet
        parse(source.filter["colour"])  # one entry of it: a Filter
        parse(data)                     # either of them, encoded

    None, which is what a source without filters has, gives an empty set. What is parsed already is
    returned as it is. A type that no class stands for is kept as an `UnsupportedFilter`.

    Args:
        given: a described value, a mapping of names to described values or None, or octets.
        strict: refuse a filter that says something wrong. If False, it is kept as an
            `UnsupportedFilter` with the problem, so that a source can leave it out, as RabbitMQ
            does, and the receiver can see that.
        limits: what each filter may cost.
        dialect: what SQL filter expressions may hold; see `SqlFilter`.

    Raises:
        DecodeError: the octets do not parse, a value is no described one, or a filter says
            something wrong. Its cause is the `ExpressionError` where an expression is at fault.
        TypeError: what is given is none of these.
    """
    options = Options(limits, dialect)
    if isinstance(given, (bytes, bytearray, memoryview)):
        given = decode_value(given)
        if isinstance(given, (dict, AmqpMap)):
            _check_names(given)
        elif given is not None and not isinstance(given, Described):
            raise fault(f"a filter is a described value, not {type(given).__name__}")
    if isinstance(given, (Filter, FilterSet)):
        return given
    if isinstance(given, Described):
        return _parsed(given, strict, options)
    if given is None:
        return FilterSet()
    if isinstance(given, (Mapping, AmqpMap)):
        pairs = given.pairs if isinstance(given, AmqpMap) else given.items()
        return FilterSet({str(name): _entry(name, one, strict, options) for name, one in pairs})
    raise TypeError(
        f"parse takes a described value, a mapping or octets, not {type(given).__name__}: make an "
        "expression a Selector or an SqlFilter"
    )


def _check_names(given: Any) -> None:
    """Refuse names that came as another type than symbol (Part 3, 3.5.8)."""
    for name in (pair[0] for pair in given.pairs) if isinstance(given, AmqpMap) else given:
        if not isinstance(name, Symbol):
            raise fault(f"the name of a filter is a symbol, not {type(name).__name__}")


def _entry(name: Any, one: Any, strict: bool, options: Options) -> Filter | None:
    if not isinstance(name, str):
        raise fault(f"the name of a filter is a symbol, not {type(name).__name__}")
    if one is None or isinstance(one, Filter):
        return one
    try:
        if not isinstance(one, Described):
            raise fault(f"a filter is a described value or null, not {type(one).__name__}")
        return _parsed(one, strict, options)
    except DecodeError as error:
        error.path = f"filter.{name}"
        raise


def _parsed(described: Described, strict: bool, options: Options) -> Filter:
    cls = class_of(described.descriptor)
    if cls is None:
        return UnsupportedFilter._from_value(described.value, described.descriptor, options)
    try:
        return filter_of(cls, described, options)
    except DecodeError as error:
        if strict:
            raise
        return UnsupportedFilter(described, error.reason)
