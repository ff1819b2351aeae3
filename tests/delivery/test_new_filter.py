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
from amqp10msg.delivery.filters._base import FILTER_CLASS_BY_DESCRIPTOR


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


def test_class_that_is_no_filter_is_refused() -> None:
    wrong: Any
    for wrong in (dict, 5, SizeFilter(3), "SizeFilter", None):
        with pytest.raises(TypeError, match="register takes a subclass of Filter, not"):
            register(wrong)


@pytest.mark.parametrize(
    "members, error, text",
    [
        ({"SYMBOL": 5}, TypeError, "SYMBOL must be a Symbol, but is 5"),
        ({"SYMBOL": Symbol("")}, ValueError, "SYMBOL must have at least one ASCII character"),
        ({"SYMBOL": "acme:größe"}, ValueError, "SYMBOL must have at least one ASCII character"),
        ({"CODE": "5"}, TypeError, "CODE must be an int or None, but is '5'"),
        ({"CODE": True}, TypeError, "CODE must be an int or None, but is True"),
        ({"CODE": -1}, ValueError, "CODE must be a ulong"),
        ({"CODE": 1 << 64}, ValueError, "CODE must be a ulong"),
        ({"VALUE_TYPES": int}, TypeError, "VALUE_TYPES must be a tuple of types"),
        ({"VALUE_TYPES": ("int",)}, TypeError, "VALUE_TYPES must be a tuple of types"),
        ({"VALUE_TYPES": ()}, ValueError, "VALUE_TYPES is empty"),
        ({"VALUE_NAME": None}, TypeError, "VALUE_NAME must be a str"),
        ({"passes": lambda _: True}, TypeError, "passes is called with a message, now and"),
        ({"passes": lambda _, __, *, now: now}, TypeError, "by position"),
        (
            {"passes": lambda _, __, ___, ____, _____: True},
            TypeError,
            "define passes\\(self, message",
        ),
        ({"passes": None}, TypeError, "passes"),
        ({"SYMBOL": SizeFilter.SYMBOL}, ValueError, "is the descriptor of SizeFilter already"),
        ({"CODE": SizeFilter.CODE}, ValueError, "is the descriptor of SizeFilter already"),
    ],
)
def test_wrong_class_is_refused_and_registers_nothing(
    members: dict[str, Any], error: type[Exception], text: str
) -> None:
    before = dict(FILTER_CLASS_BY_DESCRIPTOR)
    usual = {"SYMBOL": Symbol("acme:wrong:int"), "CODE": None, "__module__": __name__}
    wrong = type("WrongFilter", (SizeFilter,), {**usual, **members})

    with pytest.raises(error, match=text):
        register(wrong)

    assert before == FILTER_CLASS_BY_DESCRIPTOR


def test_class_without_passes_or_value_is_refused() -> None:
    members: dict[str, Any] = {"SYMBOL": Symbol("acme:none")}
    with pytest.raises(TypeError, match="must implement passes"):
        register(type("NoPasses", (Filter,), members))
    members["passes"] = lambda _, __, ___, ____: True
    with pytest.raises(TypeError, match="has no attribute for its value"):
        register(type("NoValue", (Filter,), members))
    with pytest.raises(TypeError, match="SYMBOL must be a Symbol, but is missing"):
        register(type("NoSymbol", (Filter,), {"passes": members["passes"]}))


def test_class_may_be_defined_again() -> None:
    """As a notebook does if a cell is run again."""
    again: type[SizeFilter] = type("SizeFilter", (SizeFilter,), {"__module__": __name__})
    register(again)
    try:
        assert isinstance(parse({"f": SizeFilter(3).to_described()})["f"], again)
    finally:
        register(SizeFilter)
