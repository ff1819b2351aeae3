"""Filters of single brokers: streams, sessions, and types that nobody evaluates."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from amqp10msg import (
    Described,
    EncodeError,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    encode_value,
)
from amqp10msg.delivery.filters import (
    DirectBinding,
    EvaluationError,
    FilterSet,
    MatchUnfiltered,
    Selector,
    SessionFilter,
    SqlFilter,
    StreamFilter,
    StreamOffset,
    TopicBinding,
    XQuery,
    parse,
)
from amqp10msg.wire.primitives import identical


def at(offset: Any = None, value: Any = None) -> Message:
    found = {"x-stream-offset": offset, "x-stream-filter-value": value}
    return Message(message_annotations={key: one for key, one in found.items() if one is not None})


def test_stream_offset() -> None:
    assert StreamOffset("first").matches(Message())
    assert StreamOffset(5).matches(at(ULong(5)))
    assert not StreamOffset(5).matches(at(ULong(4)))
    assert ["x-stream-offset >= 5 is false: x-stream-offset is 4"] == [
        str(reason) for reason in StreamOffset(5).explain(at(ULong(4)))
    ]
    with pytest.raises(EvaluationError, match="no annotation"):
        StreamOffset(5).matches(Message())
    for start in ("next", "last", "10m", Timestamp(5)):
        with pytest.raises(EvaluationError, match="depends on the stream"):
            StreamOffset(start).matches(at(ULong(5)))
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert identical(Timestamp(0), StreamOffset(moment).to_described().value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [Symbol("next"), "7D", UInt(5), ULong(5), 5, Timestamp(-5)])
def test_a_stream_offset_keeps_its_type(value: Any) -> None:
    came = encode_value(Described(Symbol("rabbitmq:stream-offset-spec"), value))

    assert came == parse(came).encode()


@pytest.mark.parametrize(
    "start",
    ["latest", "10", "10 m", "", -1, True, 1.5, None, datetime.datetime(2000, 1, 1)],  # noqa: DTZ001
)
def test_a_wrong_stream_offset_is_refused(start: Any) -> None:
    with pytest.raises(EncodeError):
        StreamOffset(start)


def test_stream_filter() -> None:
    one = StreamFilter("a")

    assert "a" == one.to_described().value
    assert ["a"] == StreamFilter(["a"], is_list=True).to_described().value
    assert one.matches(at(value="a"))
    assert not one.matches(at(value="b"))
    assert not one.matches(Message())
    assert StreamFilter(["b", "a"]).matches(at(value="a"))
    assert "x-stream-filter-value IN ('a') is false: x-stream-filter-value is 'b'" == str(
        one.explain(at(value="b"))[0]
    )


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_unfiltered_messages_pass_where_the_set_wants_them(wanted: bool, first: bool) -> None:
    pair = [("v", StreamFilter("a")), ("u", MatchUnfiltered(wanted))]
    filters = FilterSet(dict(pair if first else pair[::-1]))

    assert filters.matches(at(value="a"))
    assert not filters.matches(at(value="b"))
    assert wanted is filters.matches(Message())
    assert wanted is (filters.explain(Message()) == ())
    assert MatchUnfiltered(wanted).matches(Message())


@pytest.mark.parametrize("given", [[], [1], ["a", None], 5])
def test_a_wrong_stream_filter_is_refused(given: Any) -> None:
    with pytest.raises((EncodeError, TypeError)):
        StreamFilter(given)


def test_session_filter() -> None:
    one = SessionFilter("s")

    assert one.matches(Message(properties=Properties(group_id="s")))
    assert not one.matches(Message(properties=Properties(group_id="t")))
    assert not one.matches(Message())
    assert "group-id = 's' is false: group-id is not set" == str(one.explain(Message())[0])
    came = encode_value(Described(ULong(0x137 << 32 | 12), None))
    assert came == parse(came).encode() == SessionFilter().encode()
    with pytest.raises(EvaluationError, match="service chooses"):
        SessionFilter().matches(Message())


def test_xquery_is_recognised_and_refused() -> None:
    one = parse(Described(ULong(0x468C << 32 | 5), "/a"))

    assert isinstance(one, XQuery)
    assert not one.supported
    with pytest.raises(EvaluationError, match="XQuery is not evaluated"):
        one.matches(Message())


@pytest.mark.parametrize(
    "make",
    [
        *(lambda cls=cls: cls(5) for cls in (Selector, SqlFilter, DirectBinding, TopicBinding)),
        lambda: SessionFilter(5),  # type: ignore[arg-type]
        lambda: MatchUnfiltered(1),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_another_type_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(EncodeError, match="takes"):
        make()
