"""Adding a type of filter from outside of the package, as CONTRIBUTING describes it."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import attrs
import pytest

from amqp10msg import (
    DecodeError,
    Described,
    Message,
    Symbol,
    ULong,
)
from amqp10msg.composite import decode_composite, encode_composite
from amqp10msg.delivery import Source
from amqp10msg.delivery.filters import Filter, FilterSet, Reason, UnsupportedFilter, parse, register


@register
@attrs.frozen
class SizeFilter(Filter):
    """Passes messages whose body has at most this many bytes."""

    SYMBOL: ClassVar[Symbol] = Symbol("acme:body-size:int")
    CODE: ClassVar[int] = 0xACE_0000_0001
    VALUE_TYPES: ClassVar[tuple[type, ...]] = (int,)
    VALUE_NAME: ClassVar[str] = "a number of bytes"

    max_size: int

    def passes(self, message: Message, _now: int | None, _local: bool | None) -> bool:
        return len(message.body_bytes()) <= self.max_size


def test_source_with_a_new_filter_is_parsed() -> None:
    source = Source(address="q", filter=FilterSet({"small": SizeFilter(3)}).to_map())
    received = decode_composite(encode_composite(source))

    filters = parse(received.filter)
    assert {"small": SizeFilter(3)} == dict(filters)
    assert filters.matches(Message(b"abc"))
    assert not filters.matches(Message(b"abcd"))
    assert [Reason("acme:body-size:int", filter="small")] == [*filters.explain(Message(b"abcd"))]
    assert filters == filters.supported


@pytest.mark.parametrize("descriptor", [SizeFilter.SYMBOL, ULong(SizeFilter.CODE)])
def test_new_filter_is_found_by_both_descriptors(descriptor: Any) -> None:
    found = parse({"f": Described(descriptor, 3)})["f"]

    assert found == SizeFilter(3, descriptor=descriptor)
    assert isinstance(found, SizeFilter)
    assert descriptor == found.to_described().descriptor
    assert found == SizeFilter.decode(found.encode())
    assert found == pickle.loads(pickle.dumps(found))


def test_value_of_another_type_is_invalid() -> None:
    wrong = {"f": Described(SizeFilter.SYMBOL, "3")}
    text = "acme:body-size:int describes a number of bytes, not str"

    with pytest.raises(DecodeError, match=text):
        parse(wrong)
    found = parse(wrong, strict=False)["f"]
    assert isinstance(found, UnsupportedFilter)
    assert found.problem.startswith(text)


@pytest.mark.parametrize(
    "symbol, code", [(SizeFilter.SYMBOL, None), (Symbol("acme:other:int"), SizeFilter.CODE)]
)
def test_descriptor_of_another_class_is_refused(symbol: Symbol, code: int | None) -> None:
    class OtherFilter(SizeFilter):
        SYMBOL = symbol
        CODE = code  # type: ignore[assignment]

    with pytest.raises(ValueError, match="is the descriptor of SizeFilter already"):
        register(OtherFilter)
    assert SizeFilter(3) == parse({"f": SizeFilter(3).to_described()})["f"]


def test_class_may_be_defined_again() -> None:
    """As a notebook does if a cell is run again."""
    again: type[SizeFilter] = type("SizeFilter", (SizeFilter,), {"__module__": __name__})
    register(again)
    try:
        assert isinstance(parse({"f": SizeFilter(3).to_described()})["f"], again)
    finally:
        register(SizeFilter)
