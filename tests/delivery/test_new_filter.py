"""Adding a type of filter from outside of the package, as CONTRIBUTING describes it."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import attrs
import pytest

from amqp10msg import (
    DecodeError,
    Described,
    EncodeError,
    Message,
    Symbol,
    ULong,
)
from amqp10msg.composite import decode_composite, encode_composite
from amqp10msg.delivery import Source
from amqp10msg.delivery.filters import (
    DirectBinding,
    Filter,
    FilterSet,
    MatchUnfiltered,
    Reason,
    Selector,
    SessionFilter,
    SqlFilter,
    TopicBinding,
    UnsupportedFilter,
    XQuery,
    parse,
    register,
)


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


@pytest.mark.parametrize(
    "cls, value, text",
    [
        (SizeFilter, "5", "acme:body-size:int takes a number of bytes, not str"),
        (SizeFilter, True, "acme:body-size:int takes a number of bytes, not bool"),
        (SizeFilter, None, "acme:body-size:int takes a number of bytes, not NoneType"),
        (DirectBinding, 5, "takes a string, not int"),
        (TopicBinding, b"a.b", "takes a string, not bytes"),
        (XQuery, None, "takes a string, not NoneType"),
        (Selector, ["a = 1"], "takes a string, not list"),
        (SqlFilter, 5, "takes a string, not int"),
        (MatchUnfiltered, 1, "takes a boolean, not int"),
        (SessionFilter, 5, "takes a string or null, not int"),
    ],
)
def test_constructor_refuses_a_value_of_another_type(cls: Any, value: Any, text: str) -> None:
    with pytest.raises(EncodeError, match=text) as caught:
        cls(value)

    assert caught.value.path.startswith("filter.")


def test_boolean_is_no_number_in_a_filter_of_a_peer() -> None:
    with pytest.raises(DecodeError, match="describes a number of bytes, not bool"):
        parse({"f": Described(SizeFilter.SYMBOL, True)})


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
