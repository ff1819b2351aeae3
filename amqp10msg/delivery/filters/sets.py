"""Filter-sets, the filters that a peer sends (Part 3, 3.5.8), and those that one text says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self, overload

import attrs

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
    not_a_message,
)
from amqp10msg.delivery.filters.conditions import (
    DirectBinding,
    MatchUnfiltered,
    StreamFilter,
    TopicBinding,
)
from amqp10msg.delivery.filters.expressions import Selector, SqlFilter
from amqp10msg.filter_languages import FILTER_LANGUAGES
from amqp10msg.message import Message
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.primitives import AmqpMap, Described, Symbol


@attrs.frozen
class UnsupportedFilter(Filter):
    """A filter of an unknown type, or one with an error, that a peer sent.

    It encodes as it was received and cannot be evaluated. `FilterSet.supported` leaves it out.

    Attributes:
        described: the described value as received, or another value in the place of one.
        problem: why it cannot be evaluated.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("")
    supported: ClassVar[bool] = False

    described: Any
    problem: str

    def _settle_descriptor(self) -> None:
        if isinstance(self.described, Described):
            object.__setattr__(self, "descriptor", self.described.descriptor)

    def to_described(self) -> Any:
        """Return the value as received, for the filter map of a source."""
        return self.described

    def _passes(self, _message: Message, _now: int | None, _local: bool | None) -> bool:
        raise EvaluationError(self.problem)

    def _value(self) -> Any:
        return self.described.value if isinstance(self.described, Described) else self.described

    @classmethod
    def _from_value(cls, value: Any, descriptor: Any, _options: Options) -> Self:
        return cls(Described(descriptor, value), f"unknown filter type {descriptor!r}")


@attrs.frozen(eq=False)
class FilterSet(Mapping[str, Filter | None]):
    """Filters by name: a message passes if it passes every one (Part 3, 3.5.8).

        filters = FilterSet({"jms-selector": Selector("a = 1"), "no-local": NoLocal()})
        source = Source(address="orders", filter=filters.to_map())

    A mapping of names to filters. Every message passes None.

    Attributes:
        filters: the filters; names are symbols, so ASCII.
    """

    filters: Mapping[str, Filter | None] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "filters", dict(self.filters))
        given: dict[Any, Any] = dict(self.filters)
        for name, one in given.items():
            if not isinstance(name, str) or not name.isascii():
                raise EncodeError(
                    f"the name of a filter is a symbol, an ASCII str, not {name!r}", "filter"
                )
            if one is not None and not isinstance(one, Filter):
                raise EncodeError(
                    f"expected a Filter, not {type(one).__name__}: {_hint(one)}", f"filter.{name}"
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
        """Return whether a message passes every filter.

        Takes and raises what `Filter.matches` does; a filter after one that stops the message is
        not evaluated.
        """
        if not isinstance(message, Message):
            raise not_a_message(message)
        for one in self.filters.values():
            if (
                one is not None
                and not one.matches(message, now=now, local=local)
                and not self._excused(one, message)
            ):
                return False
        return True

    @property
    def steps(self) -> int:
        """The steps of `FilterLimits.steps` that its filters have taken so far."""
        return sum(one.steps for _, one in self._in_order())

    def _excused(self, one: Filter, message: Message) -> bool:
        """Return whether a message that a filter stops passes because of another filter."""
        return (
            isinstance(one, StreamFilter) and one.is_unfiltered(message) and self._unfiltered_pass()
        )

    def explain(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> tuple[Reason, ...]:
        """Return why a message does not pass, filter by filter; empty if it does.

        Takes and raises what `matches` does.
        """
        if not isinstance(message, Message):
            raise not_a_message(message)
        found: list[Reason] = []
        for name, one in self._in_order():
            try:
                reasons = one.explain(message, now=now, local=local)
            except EvaluationError:
                if not found:
                    raise
                continue  # a filter before it stops the message
            if reasons and not self._excused(one, message):
                found += [attrs.evolve(reason, filter=name) for reason in reasons]
        return tuple(found)

    @property
    def supported(self) -> FilterSet:
        """The filters that can be evaluated, for the answer of a source (Part 3, 3.5.3).

        A receiver compares them with the filters it asked for, and detaches if it needs others.
        """
        return FilterSet(
            {name: one for name, one in self.filters.items() if one is None or one.supported}
        )

    @property
    def unsupported(self) -> dict[str, Filter]:
        """The filters that cannot be evaluated, by name."""
        return {name: one for name, one in self._in_order() if not one.supported}

    def to_map(self) -> dict[Symbol, Any]:
        """Return the map for the field `filter` of a source: described values by name."""
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


def _hint(given: object) -> str:
    if isinstance(given, str):
        return f"make it with Selector({given[:30]!r}) or another class, or use parse"
    return "use parse for what a peer sent"


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
    """Make filters from what a peer sent.

        parse(source.filter)            # the filter-set of a source: a FilterSet
        parse(source.filter["colour"])  # one entry of it: a Filter
        parse(data)                     # either of them, encoded

    None, the value of a source without filters, returns an empty set; a `Filter` or `FilterSet` is
    returned unchanged. A filter of an unknown type becomes an `UnsupportedFilter`.

    Args:
        given: a described value, a mapping of names to described values or None, or bytes.
        strict: raise an error for a filter that is wrong. If False, a wrong filter becomes an
            `UnsupportedFilter` with the problem, also a value that is not described, and the other
            filters of the set are parsed.
        limits: limits on the size of each filter.
        dialect: the dialect of SQL filter expressions; see `SqlFilter`.

    Raises:
        DecodeError: the bytes do not parse, a value is not described, or a filter is wrong; its
            cause is an `ExpressionError` if an expression is.
        TypeError: `given` is of another type.
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
        f"parse takes a described value, a mapping or bytes, not {type(given).__name__}: for an "
        "expression, make a Selector or an SqlFilter"
    )


def _check_names(given: Any) -> None:
    """Refuse names that are not symbols (Part 3, 3.5.8)."""
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
            problem = f"a filter is a described value or null, not {type(one).__name__}"
            if strict:
                raise fault(problem)
            return UnsupportedFilter(one, problem)
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


def _oasis(text: str) -> Filter:
    return SqlFilter(text, dialect="oasis")


#: Makes the filter of a text, by its language: a JMS selector, an SQL filter expression as RabbitMQ
#: has it or with more of the OASIS draft, a topic pattern, a subject.
LANGUAGES: Mapping[str, Callable[[str], Filter]] = MappingProxyType(
    dict(
        zip(
            FILTER_LANGUAGES,
            (Selector, SqlFilter, _oasis, TopicBinding, DirectBinding),
            strict=True,
        )
    )
)
