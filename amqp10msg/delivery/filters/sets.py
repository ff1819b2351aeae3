"""Filter sets (Part 3, 3.5.8), parsing of a peer's filters, and the text filter languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self, overload

import attrs

from amqp10msg.brokers import ByName
from amqp10msg.delivery.filters._base import (
    DEFAULT_FILTER_LIMITS,
    Dialect,
    EvaluationError,
    Filter,
    FilterLimits,
    FilterOptions,
    Reason,
    class_of,
    filter_of,
    invalid_filter_error,
    not_a_message_error,
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
    """A peer's filter of an unknown type or with an error.

    The filter is encoded as it was received, and cannot be evaluated. `FilterSet.supported` omits
    it.

    Attributes:
        described: the value as received, usually a described value.
        problem: the reason why the filter cannot be evaluated.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("")
    supported: ClassVar[bool] = False

    described: Any
    problem: str

    def _set_descriptor(self) -> None:
        if isinstance(self.described, Described):
            object.__setattr__(self, "descriptor", self.described.descriptor)

    def to_described(self) -> Any:
        """Return the value as received, for the filter map of a source."""
        return self.described

    def passes(self, _message: Message, _now: int | None, _local: bool | None) -> bool:
        raise EvaluationError(self.problem)

    def to_value(self) -> Any:
        return self.described.value if isinstance(self.described, Described) else self.described

    @classmethod
    def from_value(cls, value: Any, descriptor: Any, _options: FilterOptions) -> Self:
        return cls(Described(descriptor, value), f"unknown filter type {descriptor!r}")


@attrs.frozen(eq=False)
class FilterSet(Mapping[str, Filter | None]):
    """Filters by name: a message passes if it passes every filter (Part 3, 3.5.8).

        filters = FilterSet({"jms-selector": Selector("a = 1"), "no-local": NoLocal()})
        source = Source(address="orders", filter=filters)

    A mapping of names to filters. Every message passes a filter that is None.

    Attributes:
        filters: the filters by name; names are symbols, that is ASCII text.
    """

    filters: Mapping[str, Filter | None] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "filters", dict(self.filters))
        unchecked: dict[Any, Any] = dict(self.filters)
        for name, entry in unchecked.items():
            if not isinstance(name, str) or not name.isascii():
                raise EncodeError(
                    f"the name of a filter is a symbol, an ASCII str, not {name!r}", "filter"
                )
            if entry is not None and not isinstance(entry, Filter):
                raise EncodeError(
                    f"expected a Filter, not {type(entry).__name__}: {_constructor_hint(entry)}",
                    f"filter.{name}",
                )

    def __getitem__(self, name: str) -> Filter | None:
        return self.filters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.filters)

    def __len__(self) -> int:
        return len(self.filters)

    def _named_filters(self) -> list[tuple[str, Filter]]:
        return [(name, entry) for name, entry in self.filters.items() if entry is not None]

    def _passes_unfiltered(self) -> bool:
        """Whether a `MatchUnfiltered` in this set accepts messages without a filter value."""
        return any(
            isinstance(entry, MatchUnfiltered) and entry.wanted
            for _, entry in self._named_filters()
        )

    def matches(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> bool:
        """Whether a message passes every filter.

        The arguments and exceptions are the same as for `Filter.matches`. Evaluation ends at the
        first filter that the message does not pass.
        """
        if not isinstance(message, Message):
            raise not_a_message_error(message)
        for entry in self.filters.values():
            if (
                entry is not None
                and not entry.matches(message, now=now, local=local)
                and not self._is_overridden(entry, message)
            ):
                return False
        return True

    @property
    def steps(self) -> int:
        """The number of steps that all filters have used so far (see `FilterLimits.steps`)."""
        return sum(entry.steps for _, entry in self._named_filters())

    def _is_overridden(self, entry: Filter, message: Message) -> bool:
        """Whether a `MatchUnfiltered` lets a message pass that a `StreamFilter` rejects."""
        return (
            isinstance(entry, StreamFilter)
            and entry.is_unfiltered(message)
            and self._passes_unfiltered()
        )

    def explain(
        self, message: Message, *, now: int | None = None, local: bool | None = None
    ) -> tuple[Reason, ...]:
        """Return the conditions that a message does not meet, by filter; empty if it passes.

        The arguments and exceptions are the same as for `matches`.
        """
        if not isinstance(message, Message):
            raise not_a_message_error(message)
        reasons: list[Reason] = []
        for name, entry in self._named_filters():
            try:
                failed = entry.explain(message, now=now, local=local)
            except EvaluationError:
                if not reasons:
                    raise
                continue  # ignore the error: another filter rejects the message
            if failed and not self._is_overridden(entry, message):
                reasons += [attrs.evolve(reason, filter=name) for reason in failed]
        return tuple(reasons)

    @property
    def supported(self) -> FilterSet:
        """The filters that can be evaluated, for the source in a sender's attach (Part 3, 3.5.3).

        A receiver compares them with the filters that it requested, and detaches if it needs a
        missing filter.
        """
        return FilterSet(
            {
                name: entry
                for name, entry in self.filters.items()
                if entry is None or entry.supported
            }
        )

    @property
    def unsupported(self) -> dict[str, Filter]:
        """The filters that cannot be evaluated, by name."""
        return {name: entry for name, entry in self._named_filters() if not entry.supported}

    def to_map(self) -> dict[Symbol, Any]:
        """Return the map for the field `filter` of a source: described values by name.

        A `Source` calls it for a filter set.
        """
        return {
            Symbol(name): None if entry is None else entry.to_described()
            for name, entry in self.filters.items()
        }

    def encode(self) -> bytes:
        """Encode the filter-set.

        Raises:
            EncodeError: a filter's value cannot be encoded.
        """
        encoded: bytes = encode_value(self.to_map())
        return encoded


def _constructor_hint(value: object) -> str:
    """Return a hint, for an error text, how to make a filter from a value."""
    if isinstance(value, str):
        return f"use Selector({value[:30]!r}) or another class, or use parse"
    return "use parse for a peer's filters"


@overload
def parse(
    described: Described | Filter,
    *,
    strict: bool = ...,
    limits: FilterLimits = ...,
    dialect: Dialect = ...,
) -> Filter: ...
@overload
def parse(
    described: Mapping[Any, Any] | AmqpMap | None,
    *,
    strict: bool = ...,
    limits: FilterLimits = ...,
    dialect: Dialect = ...,
) -> FilterSet: ...
@overload
def parse(
    described: bytes | bytearray | memoryview,
    *,
    strict: bool = ...,
    limits: FilterLimits = ...,
    dialect: Dialect = ...,
) -> Filter | FilterSet: ...


def parse(
    described: Any,
    *,
    strict: bool = True,
    limits: FilterLimits = DEFAULT_FILTER_LIMITS,
    dialect: Dialect = "rabbitmq",
) -> Filter | FilterSet:
    """Construct filters from a peer's source.

        parse(source.filter)            # the filter set of a source: a FilterSet
        parse(source.filter["colour"])  # a single entry: a Filter
        parse(data)                     # an encoded filter or filter set

    For None, which is a source's value if it has no filters, return an empty set. Return a `Filter`
    or `FilterSet` unchanged. A filter of an unknown type becomes an `UnsupportedFilter`.

    Args:
        described: a described value, a mapping of names to described values or None, or
            bytes.
        strict: raise an error for an invalid filter, or an entry that is not a described value. If
            False, such a filter or entry becomes an `UnsupportedFilter` with the problem, and
            parsing continues.
        limits: limits on the size of each filter.
        dialect: the dialect of SQL filter expressions; see `SqlFilter`.

    Raises:
        DecodeError: the bytes cannot be decoded, a value is not described, or a filter is invalid;
            for an invalid expression its cause is an `ExpressionError`.
        TypeError: `described` is of another type.
    """
    options = FilterOptions(limits, dialect)
    if isinstance(described, (bytes, bytearray, memoryview)):
        described = decode_value(described)
        if isinstance(described, (dict, AmqpMap)):
            _check_names(described)
        elif described is not None and not isinstance(described, Described):
            raise invalid_filter_error(
                f"a filter is a described value, not {type(described).__name__}"
            )
    if isinstance(described, (Filter, FilterSet)):
        return described
    if isinstance(described, Described):
        return _parse_described(described, strict, options)
    if described is None:
        return FilterSet()
    if isinstance(described, (Mapping, AmqpMap)):
        pairs = described.pairs if isinstance(described, AmqpMap) else described.items()
        return FilterSet(
            {str(name): _parse_entry(name, value, strict, options) for name, value in pairs}
        )
    raise TypeError(
        f"parse takes a described value, a mapping or bytes, not {type(described).__name__}: for "
        "an expression, make a Selector or an SqlFilter"
    )


def _check_names(entries: Any) -> None:
    """Raise DecodeError if the name of a filter is not a symbol (Part 3, 3.5.8)."""
    for name in (pair[0] for pair in entries.pairs) if isinstance(entries, AmqpMap) else entries:
        if not isinstance(name, Symbol):
            raise invalid_filter_error(
                f"the name of a filter is a symbol, not {type(name).__name__}"
            )


def _parse_entry(name: Any, value: Any, strict: bool, options: FilterOptions) -> Filter | None:
    """Construct the filter of an entry in a filter set; None for null."""
    if not isinstance(name, str):
        raise invalid_filter_error(f"the name of a filter is a symbol, not {type(name).__name__}")
    if value is None or isinstance(value, Filter):
        return value
    try:
        if not isinstance(value, Described):
            problem = f"a filter is a described value or null, not {type(value).__name__}"
            if strict:
                raise invalid_filter_error(problem)
            return UnsupportedFilter(value, problem)
        return _parse_described(value, strict, options)
    except DecodeError as error:
        error.path = f"filter.{name}"
        raise


def _parse_described(described: Described, strict: bool, options: FilterOptions) -> Filter:
    """Construct a filter from a described value."""
    cls = class_of(described.descriptor)
    if cls is None:
        return UnsupportedFilter.from_value(described.value, described.descriptor, options)
    try:
        return filter_of(cls, described, options)
    except DecodeError as error:
        if strict:
            raise
        return UnsupportedFilter(described, error.reason)


def _oasis_filter(text: str) -> Filter:
    """Construct an SQL filter in the dialect oasis."""
    return SqlFilter(text, dialect="oasis")


#: A function that constructs a filter from text, by language. The languages are JMS selectors, SQL
#: filter expressions of RabbitMQ and of the OASIS draft, topic patterns and subjects.
LANGUAGES: ByName[Callable[[str], Filter]] = ByName(
    dict(
        zip(
            FILTER_LANGUAGES,
            (Selector, SqlFilter, _oasis_filter, TopicBinding, DirectBinding),
            strict=True,
        )
    ),
    kind="filter language",
)
