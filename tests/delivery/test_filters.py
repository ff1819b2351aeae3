"""Every type of filter as a peer sends it, and sets of them."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    DecodeError,
    Described,
    EncodeError,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
    decode_value,
    encode_value,
)
from amqp10msg.composite import decode_composite, encode_composite
from amqp10msg.delivery import Source
from amqp10msg.delivery.filters import (
    RABBITMQ,
    ApplicationPropertiesFilter,
    DirectBinding,
    EvaluationError,
    ExpressionError,
    Filter,
    FilterLimits,
    FilterSet,
    HeadersBinding,
    MatchUnfiltered,
    NoLocal,
    PropertiesFilter,
    Selector,
    SessionFilter,
    SqlFilter,
    StreamFilter,
    StreamOffset,
    TopicBinding,
    UnsupportedFilter,
    XQuery,
    parse,
)
from amqp10msg.testing import messages, values
from amqp10msg.wire.primitives import identical

# The registry: symbolic descriptor, numeric one, a filter, and its value on the wire.
TYPES: list[tuple[str, int | None, Filter, Any]] = [
    (
        "apache.org:legacy-amqp-direct-binding:string",
        0x468C << 32,
        DirectBinding("a.b"),
        "a.b",
    ),
    (
        "apache.org:legacy-amqp-topic-binding:string",
        0x468C << 32 | 1,
        TopicBinding("*.b.#"),
        "*.b.#",
    ),
    (
        "apache.org:legacy-amqp-headers-binding:map",
        0x468C << 32 | 2,
        HeadersBinding({"x-match": "any", "a": UInt(1), "b": None}),
        {"x-match": "any", "a": UInt(1), "b": None},
    ),
    ("apache.org:no-local-filter:list", 0x468C << 32 | 3, NoLocal(), []),
    ("apache.org:selector-filter:string", 0x468C << 32 | 4, Selector("a = 1"), "a = 1"),
    ("apache.org:xquery-filter:string", 0x468C << 32 | 5, XQuery("/a"), "/a"),
    ("amqp:sql-filter", 0x120, SqlFilter("a = 1"), "a = 1"),
    (
        "amqp:properties-filter",
        0x173,
        PropertiesFilter({"message-id": 7, "subject": "&p:x", "content_type": "a/b"}),
        {
            Symbol("message-id"): ULong(7),
            Symbol("subject"): "&p:x",
            Symbol("content-type"): Symbol("a/b"),
        },
    ),
    (
        "amqp:application-properties-filter",
        0x174,
        ApplicationPropertiesFilter({"a": UInt(1), "b": "&s:x", "c": None}),
        {"a": UInt(1), "b": "&s:x", "c": None},
    ),
    ("rabbitmq:stream-offset-spec", None, StreamOffset("first"), "first"),
    ("rabbitmq:stream-filter", None, StreamFilter(["a", "b"]), ["a", "b"]),
    ("rabbitmq:stream-match-unfiltered", None, MatchUnfiltered(), True),
    ("com.microsoft:session-filter", 0x137 << 32 | 12, SessionFilter("s"), "s"),
]
each_type = pytest.mark.parametrize(
    "symbol, code, one, value", TYPES, ids=[type(row[2]).__name__ for row in TYPES]
)


# Encoding and decoding.


@each_type
def test_a_filter_encodes_as_the_registry_says_and_comes_back(
    symbol: str, code: int | None, one: Filter, value: Any
) -> None:
    descriptors = [Symbol(symbol)] if code is None else [ULong(code), Symbol(symbol)]

    assert identical(Described(descriptors[0], value), one.to_described())
    for descriptor in descriptors:
        came = encode_value(Described(descriptor, value))
        for again in (parse(came), parse(decode_value(came)), type(one).decode(came)):
            assert type(again) is type(one)
            assert came == again.encode()
            assert identical(descriptor, again.descriptor)
            assert descriptor != one.descriptor or one == again
    assert one == copy.deepcopy(one) == pickle.loads(pickle.dumps(one))


@each_type
def test_a_filter_has_one_of_its_own_descriptors(
    symbol: str, code: int | None, one: Any, value: Any
) -> None:
    given = {} if type(one) is NoLocal else {"_": value}
    cls: Callable[..., Any] = type(one)
    made = cls(*given.values(), descriptor=Symbol(symbol))

    assert Symbol(symbol) == made.descriptor
    for wrong in (ULong(1), Symbol("x"), symbol + "x", 5):
        with pytest.raises(EncodeError, match="is not a descriptor of"):
            cls(*given.values(), descriptor=wrong)
    if code is not None:
        with pytest.raises(EncodeError, match="is not a descriptor of"):
            cls(*given.values(), descriptor=code)  # a long, where only a ulong is one


@each_type
@given(drawn=values(max_leaves=3))
def test_any_value_is_taken_as_it_came_or_refused(
    symbol: str, code: int | None, one: Any, value: Any, drawn: Any
) -> None:
    del value  # another is drawn
    described = Described(Symbol(symbol) if code is None else ULong(code), drawn)
    came = encode_value(described)
    kept = parse(came, strict=False)
    if isinstance(kept, UnsupportedFilter):
        with pytest.raises(DecodeError, match=re.escape(symbol)) as caught:
            parse(came)
        assert "amqp:invalid-field" == caught.value.condition
        assert caught.value.reason == kept.problem
        assert came == kept.encode()
    else:
        made = parse(came)
        assert type(made) is type(one)
        assert came == made.encode()


@given(st.one_of(values(max_leaves=3)), st.one_of(values(max_leaves=3)))
def test_an_unknown_type_is_kept_as_it_came(descriptor: Any, value: Any) -> None:
    came = encode_value(Described(descriptor, value))

    one = parse(came)

    assert isinstance(one, UnsupportedFilter)
    assert came == one.encode()
    with pytest.raises(EvaluationError, match="unknown filter type"):
        one.matches(Message())


def test_a_filter_of_another_type_is_not_decoded() -> None:
    with pytest.raises(DecodeError, match="expected a filter amqp:sql-filter") as caught:
        SqlFilter.decode(Selector("a = 1").encode())
    assert "amqp:not-implemented" == caught.value.condition
    with pytest.raises(DecodeError, match="expected a filter"):
        SqlFilter.decode(encode_value("a = 1"))


def test_an_expression_that_came_wrong_says_where() -> None:
    with pytest.raises(DecodeError, match=r"selector-filter:string: .*column 5") as caught:
        parse(Described(ULong(0x468C << 32 | 4), "a = ?"))
    assert isinstance(caught.value.__cause__, ExpressionError)


def test_a_source_chooses_the_dialect_that_it_takes() -> None:
    came = SqlFilter("EXISTS(a)", dialect="oasis").encode()

    assert SqlFilter("EXISTS(a)", dialect="oasis") == parse(came, dialect="oasis")
    assert FilterSet({"s": SqlFilter("a = 1", dialect="oasis")}) == parse(
        {"s": SqlFilter("a = 1").to_described()}, dialect="oasis"
    )
    with pytest.raises(DecodeError, match="use the dialect oasis"):
        parse(came)
    with pytest.raises(ValueError, match="dialect"):
        parse(came, dialect="sql-92")  # type: ignore[call-overload]


@pytest.mark.parametrize("one", [row[2] for row in TYPES], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    "given, problem",
    [
        (Message("x").encode(), r"a Message, not bytes: decode it with Message\.decode"),
        (bytearray(b"x"), r"not bytearray: decode it"),
        (memoryview(b"x"), r"not memoryview: decode it"),
        ("color = 'red'", r"a Message, not str$"),
        ({"a": 1}, r"a Message, not dict$"),
        (None, r"a Message, not NoneType$"),
    ],
)
def test_a_filter_is_evaluated_on_a_message_alone(one: Filter, given: Any, problem: str) -> None:
    filters = FilterSet({"one": one, "two": None})
    calls: list[Callable[..., Any]] = [one.matches, one.explain, filters.matches, filters.explain]
    calls += [one.result] if isinstance(one, (Selector, SqlFilter)) else []
    for call in (*calls, FilterSet().matches, FilterSet().explain):
        with pytest.raises(TypeError, match=problem):
            call(given)


@pytest.mark.parametrize(
    "given, hint",
    [
        ("color = 'red'", r"""not str: use Selector\("color = 'red'"\) or another"""),
        (b"x", "not bytes: use parse for a peer's filters"),
        (
            Described(Symbol("amqp:sql-filter"), "a = 1"),
            "not Described: use parse for a peer's filters",
        ),
    ],
)
def test_a_set_says_how_to_make_a_filter(given: Any, hint: str) -> None:
    with pytest.raises(EncodeError, match=hint):
        FilterSet({"name": given})


def test_limits_reach_every_filter() -> None:
    tight = FilterLimits(length=3, fields=1)
    for one in (
        DirectBinding("long"),
        TopicBinding("long"),
        Selector("a = 1"),
        SqlFilter("a = 1"),
        HeadersBinding({"a": 1, "b": 2}),
        ApplicationPropertiesFilter({"a": 1, "b": 2}),
        PropertiesFilter({"to": "a", "subject": "b"}),
        StreamFilter(["a", "b"]),
    ):
        assert parse(one.encode()) == one
        with pytest.raises(DecodeError, match=r"allowed|more than"):
            parse(one.encode(), limits=tight)
    for empty in (ApplicationPropertiesFilter({}), PropertiesFilter({})):
        assert empty.matches(Message())
        with pytest.raises(DecodeError, match="1 to 16 are allowed"):
            parse(empty.encode(), limits=RABBITMQ)


# Sets.


def test_source_accepts_a_filter_set_and_its_map() -> None:
    filters = FilterSet({"s": Selector("a = 1"), "none": None})
    by_map = Source(address="q", filter=filters.to_map())
    assigned = Source(address="q")
    assigned.filter = cast("Any", filters)

    for source in (Source(address="q", filter=filters), assigned):
        assert by_map == source
        assert dict is type(source.filter)
        assert encode_composite(by_map) == encode_composite(source)
        assert filters == parse(source.filter)
    with pytest.raises(EncodeError, match="map with symbols as keys"):
        encode_composite(Source(filter=cast("Any", [Selector("a = 1")])))


def test_the_filters_of_a_source() -> None:
    given = FilterSet(
        {"s": Selector("a = 1", descriptor=Selector.SYMBOL), "none": None, "t": TopicBinding("#")}
    )
    data = encode_composite(Source(address="q", filter=given.to_map()))

    source = decode_composite(data)
    filters = parse(source.filter)

    assert given == filters == parse(given) == parse(given.encode())
    assert data == encode_composite(Source(address="q", filter=filters.to_map()))
    assert ["s", "none", "t"] == list(filters)
    assert 3 == len(filters)
    assert parse(source.filter["s"]) == filters["s"]
    assert filters["s"] is parse(filters["s"])


@given(st.dictionaries(st.text("abc-:", max_size=4), st.sampled_from([row[2] for row in TYPES])))
def test_any_set_comes_back(filters: dict[str, Filter]) -> None:
    held = FilterSet(filters)

    again = parse(held.encode())

    assert held == again
    assert list(held) == list(again)
    assert held.encode() == again.encode()


def test_a_message_passes_a_set_if_it_passes_every_filter() -> None:
    message = Message(properties=Properties(subject="x"), application_properties={"a": 1})
    yes, no = Selector("a = 1"), Selector("a = 2")

    cases: list[tuple[dict[str, Filter | None], bool]] = [
        ({}, True),
        ({"n": None}, True),
        ({"y": yes, "n": None}, True),
        ({"y": yes, "d": DirectBinding("x")}, True),
        ({"y": yes, "n": no}, False),
        ({"n": no, "y": yes}, False),
    ]
    for filters, expected in cases:
        held = FilterSet(filters)
        assert expected is held.matches(message)
        assert expected is (held.explain(message) == ())
    assert parse(None).matches(message)
    (reason,) = FilterSet({"y": yes, "jms-selector": no}).explain(message)
    assert "jms-selector: a = 2 is false: a is 1" == str(reason)


def test_a_source_says_which_filters_are_in_place() -> None:
    wanted = {
        Symbol("s"): Described(ULong(0x120), "a = 1"),
        Symbol("x"): Described(Symbol("apache.org:xquery-filter:string"), "/a"),
        Symbol("u"): Described(Symbol("acme:filter"), UInt(1)),
        Symbol("w"): Described(ULong(0x120), "a = "),
        Symbol("n"): None,
    }
    with pytest.raises(DecodeError) as caught:
        parse(wanted)
    assert "filter.w" == caught.value.path

    filters = parse(wanted, strict=False)

    assert wanted == filters.to_map()
    assert ["x", "u", "w"] == list(filters.unsupported)
    assert ["s", "n"] == list(filters.supported)
    assert filters.supported.matches(Message(application_properties={"a": 1}))
    for name in ("x", "u", "w"):
        one = filters[name]
        assert one is not None
        with pytest.raises(EvaluationError):
            one.explain(Message())
    with pytest.raises(EvaluationError):
        filters.matches(Message(application_properties={"a": 1}))
    # A filter before the one that cannot be evaluated stops the message already.
    assert not filters.matches(Message())
    assert ["s: a = 1 is unknown: a is not set"] == [str(r) for r in filters.explain(Message())]


def test_time_and_origin_reach_the_filters_of_a_set() -> None:
    filters = FilterSet({"t": SqlFilter("UTC() > 5"), "l": NoLocal()})

    assert filters.matches(Message(), now=6, local=False)
    assert not filters.matches(Message(), now=6, local=True)
    assert not filters.matches(Message(), now=5)
    with pytest.raises(EvaluationError, match="pass local"):
        filters.matches(Message(), now=6)
    assert ["t: UTC() > 5 is false", "l: the message arrived on another connection is false"] == [
        str(reason) for reason in filters.explain(Message(), now=1, local=True)
    ]


@pytest.mark.parametrize(
    "given, problem",
    [
        (encode_value({"string": Described(ULong(0x120), "a = 1")}), "is a symbol"),
        (
            encode_value(AmqpMap([(Symbol("a"), None), ("a", None)])),
            "is a symbol",
        ),
        (encode_value("a = 1"), "described value, not str"),
        (encode_value([]), "described value, not list"),
        ({1: None}, "is a symbol"),
        (b"\xff", "0xFF"),
    ],
)
def test_parse_refuses_other_types(given: Any, problem: str) -> None:
    for strict in (True, False):
        with pytest.raises(DecodeError, match=problem):
            parse(given, strict=strict)


def test_text_is_not_parsed() -> None:
    """It does not say which language it is in."""
    with pytest.raises(TypeError, match="Selector or an SqlFilter"):
        parse("a = 1")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "filters, problem",
    [
        ({"ä": None}, "is a symbol"),
        ({1: None}, "is a symbol"),
        ({"a": Described(ULong(0x120), "a = 1")}, "use parse"),
        ({"a": "a = 1"}, "use parse"),
    ],
)
def test_a_set_holds_filters(filters: Any, problem: str) -> None:
    with pytest.raises(EncodeError, match=problem):
        FilterSet(filters)


def test_a_set_does_not_change_with_what_it_was_made_from() -> None:
    given: dict[str, Filter | None] = {"a": Selector("a = 1")}
    filters = FilterSet(given)
    given.clear()

    assert ["a"] == list(filters)


FILTER_CLASS_BY_DESCRIPTOR = [row[2] for row in TYPES if row[2].supported] + [
    ApplicationPropertiesFilter({"a": "&p:x"}),
    HeadersBinding({}),
    HeadersBinding({"x-match": "any"}),
    SqlFilter("p.message_id LIKE '%' OR LOWER(a) = 'x'", dialect="oasis"),
    Selector("JMSMessageID LIKE 'ID:%' OR JMSCorrelationID > 'a' OR amqp.creation_time > 5"),
]


@given(messages(), st.sampled_from(FILTER_CLASS_BY_DESCRIPTOR))
def test_any_message_passes_or_has_reasons(message: Message, one: Filter) -> None:
    passes = one.matches(message, now=5, local=False)

    assert passes is (one.explain(message, now=5, local=False) == ())
    assert passes is one.matches(Message.decode(message.encode()), now=5, local=False)
    for reason in one.explain(message, now=5, local=False):
        assert str(reason)


@pytest.mark.parametrize("value", ["s1", 5, [1], {"a": 1}, b"x", True])
def test_lenient_parsing_keeps_a_value_that_is_not_described(value: object) -> None:
    """Clients of Azure send the session filter as a bare string."""
    name = "com.microsoft:session-filter"
    given = {name: value, "jms": Selector("a = 1").to_described()}

    with pytest.raises(DecodeError, match="a filter is a described value or null"):
        parse(given)
    found = parse(given, strict=False)

    assert [name] == list(found.unsupported)
    assert ["jms"] == list(found.supported)
    unsupported = found.unsupported[name]
    assert isinstance(unsupported, UnsupportedFilter)
    assert "a filter is a described value or null" in unsupported.problem
    assert value == found.to_map()[Symbol(name)]
    assert found == parse(found.encode(), strict=False)


@pytest.mark.parametrize(
    "message_filter, names",
    [
        (PropertiesFilter({"subject": "s", "to": "q"}), ("to",)),
        (ApplicationPropertiesFilter({"a": 1, "b": None, "c": 3}), ("b", "c")),
        (TopicBinding("*.b"), ()),
        (Selector("a = 1 OR b > 2 OR JMSType = 's' OR b < 1"), ("b",)),
        (Selector(""), ()),
        (SqlFilter("p.to = 'q' OR a = 1"), ("p.to",)),
        (SqlFilter("NOT p.to IS NULL AND a = 1"), ()),
        (SqlFilter("EXISTS(b) OR f.[x] = 1", dialect="oasis"), ("f.[x]",)),
    ],
)
def test_unset_names(message_filter: Filter, names: tuple[str, ...]) -> None:
    message = Message(subject="s", application_properties={"a": 1, "d": 2})

    assert names == message_filter.unset_names(message)
