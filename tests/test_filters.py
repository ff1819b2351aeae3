"""Every type of filter: what passes, what it encodes as, and what is refused; and sets of them."""

from __future__ import annotations

import copy
import datetime
import math
import pickle
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    Byte,
    DecodeError,
    Described,
    EncodeError,
    Float,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
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
from amqp10msg.primitives import identical
from amqp10msg.testing import messages, simple_values, values

# The registry: symbolic descriptor, numeric one, a filter, and its value on the wire.
TYPES: list[tuple[str, int | None, Filter, Any]] = [
    (
        *("apache.org:legacy-amqp-direct-binding:string", 0x468C << 32),
        *(DirectBinding("a.b"), "a.b"),
    ),
    (
        *("apache.org:legacy-amqp-topic-binding:string", 0x468C << 32 | 1),
        *(TopicBinding("*.b.#"), "*.b.#"),
    ),
    (
        *("apache.org:legacy-amqp-headers-binding:map", 0x468C << 32 | 2),
        HeadersBinding({"x-match": "any", "a": UInt(1), "b": None}),
        {"x-match": "any", "a": UInt(1), "b": None},
    ),
    ("apache.org:no-local-filter:list", 0x468C << 32 | 3, NoLocal(), []),
    ("apache.org:selector-filter:string", 0x468C << 32 | 4, Selector("a = 1"), "a = 1"),
    ("apache.org:xquery-filter:string", 0x468C << 32 | 5, XQuery("/a"), "/a"),
    ("amqp:sql-filter", 0x120, SqlFilter("a = 1"), "a = 1"),
    (
        *("amqp:properties-filter", 0x173),
        PropertiesFilter({"message-id": 7, "subject": "&p:x", "content_type": "a/b"}),
        {
            Symbol("message-id"): ULong(7),
            Symbol("subject"): "&p:x",
            Symbol("content-type"): Symbol("a/b"),
        },
    ),
    (
        *("amqp:application-properties-filter", 0x174),
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
        with pytest.raises(EncodeError, match="is no descriptor of"):
            cls(*given.values(), descriptor=wrong)
    if code is not None:
        with pytest.raises(EncodeError, match="is no descriptor of"):
            cls(*given.values(), descriptor=code)  # a long, where only a ulong is one


@each_type
@given(drawn=values(max_leaves=3))
def test_any_value_is_taken_as_it_came_or_refused(
    symbol: str, code: int | None, one: Any, value: Any, drawn: Any
) -> None:
    assert value is not drawn
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
    with pytest.raises(EvaluationError, match="there is no filter"):
        one.matches(Message())


def test_a_filter_of_another_type_is_not_decoded() -> None:
    with pytest.raises(DecodeError, match="this is no amqp:sql-filter") as caught:
        SqlFilter.decode(Selector("a = 1").encode())
    assert "amqp:not-implemented" == caught.value.condition
    with pytest.raises(DecodeError, match="this is no"):
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


def test_limits_reach_every_filter() -> None:
    tight = FilterLimits(length=3, fields=1)
    for one in (
        *(DirectBinding("long"), TopicBinding("long"), Selector("a = 1"), SqlFilter("a = 1")),
        *(HeadersBinding({"a": 1, "b": 2}), ApplicationPropertiesFilter({"a": 1, "b": 2})),
        *(PropertiesFilter({"to": "a", "subject": "b"}), StreamFilter(["a", "b"])),
    ):
        assert parse(one.encode()) == one
        with pytest.raises(DecodeError, match=r"allowed|more than"):
            parse(one.encode(), limits=tight)
    for empty in (ApplicationPropertiesFilter({}), PropertiesFilter({})):
        assert empty.matches(Message())
        with pytest.raises(DecodeError, match="1 to 16 are allowed"):
            parse(empty.encode(), limits=RABBITMQ)


# Sets.


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
    with pytest.raises(EvaluationError, match="give local"):
        filters.matches(Message(), now=6)
    assert ["t: UTC() > 5 is false", "l: the message came over another connection is false"] == [
        str(reason) for reason in filters.explain(Message(), now=1, local=True)
    ]


@pytest.mark.parametrize(
    "given, problem",
    [
        (encode_value({"string": Described(ULong(0x120), "a = 1")}), "is a symbol"),
        (encode_value({Symbol("a"): "b"}), "described value or null"),
        (
            encode_value(AmqpMap([(Symbol("a"), None), ("a", None)])),
            "is a symbol",
        ),
        (encode_value("a = 1"), "described value, not str"),
        (encode_value([]), "described value, not list"),
        ({1: None}, "is a symbol"),
        ({"a": "b"}, "described value or null"),
        (b"\xff", "0xFF"),
    ],
)
def test_what_is_no_filter_set_is_refused(given: Any, problem: str) -> None:
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


FILTERS = [row[2] for row in TYPES if row[2].supported] + [
    ApplicationPropertiesFilter({"a": "&p:x"}),
    HeadersBinding({}),
    HeadersBinding({"x-match": "any"}),
    SqlFilter("p.message_id LIKE '%' OR LOWER(a) = 'x'", dialect="oasis"),
    Selector("JMSMessageID LIKE 'ID:%' OR JMSCorrelationID > 'a' OR amqp.creation_time > 5"),
]


@given(messages(), st.sampled_from(FILTERS))
def test_any_message_passes_or_has_reasons(message: Message, one: Filter) -> None:
    passes = one.matches(message, now=5, local=False)

    assert passes is (one.explain(message, now=5, local=False) == ())
    assert passes is one.matches(Message.decode(message.encode()), now=5, local=False)
    for reason in one.explain(message, now=5, local=False):
        assert str(reason)


# Bindings.


def test_direct_binding() -> None:
    one = DirectBinding("a.b")

    assert one.matches(Message(properties=Properties(subject="a.b")))
    for subject in ("a", "A.B", "", None):
        assert not one.matches(Message(properties=Properties(subject=subject)))
    assert not one.matches(Message())
    assert ["subject = 'a.b' is false: subject is not set"] == [
        str(reason) for reason in one.explain(Message())
    ]


@pytest.mark.parametrize(
    "entries, properties, expected",
    [
        ({"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 5}, True),
        ({"a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "y"}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "x"}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2}, False),
        ({"a": None}, {"a": "anything"}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": UInt(1)}, {"a": 1.0}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": "x"}, {"a": Symbol("x")}, True),
        ({"a": "x"}, {"a": b"x"}, False),
        ({}, {"a": 1}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "all", "x-other": 1}, {}, True),
        ({"x-match": "all-with-x", "x-other": 1}, {}, False),
        ({"x-match": "all-with-x", "x-other": 1}, {"x-other": 1}, True),
        ({"x-match": "any-with-x", "x-other": 1, "a": 1}, {"x-other": 1}, True),
    ],
)
def test_headers_binding(
    entries: dict[str, Any], properties: dict[str, Any], expected: bool
) -> None:
    one = HeadersBinding(entries)

    assert expected is one.matches(Message(application_properties=properties))
    assert expected is (one.explain(Message(application_properties=properties)) == ())


def test_a_map_that_no_dict_can_hold() -> None:
    """Two keys that Python calls equal come as an AmqpMap; neither is lost in silence."""
    pairs = AmqpMap([("a", 1), (Symbol("a"), 2)])
    for code in (0x468C << 32 | 2, 0x174, 0x173):
        came = encode_value(Described(ULong(code), pairs))
        with pytest.raises(DecodeError, match=r"key|symbols"):
            parse(came)
        assert came == parse(came, strict=False).encode()
    assert HeadersBinding({"a": 1}) == HeadersBinding(AmqpMap([("a", 1)]))
    with pytest.raises(EncodeError, match="twice"):
        HeadersBinding(AmqpMap([("a", 1), ("a", 2)]))


def test_headers_binding_without_application_properties() -> None:
    assert HeadersBinding({}).matches(Message())
    assert not HeadersBinding({"a": None}).matches(Message())
    assert "a is present is false: a is not set" == str(
        HeadersBinding({"a": None}).explain(Message())[0]
    )


@pytest.mark.parametrize(
    "entries, problem",
    [
        ({"x-match": "some"}, "x-match is one of all"),
        ({"x-match": True}, "x-match is one of all"),
        ({1: 2}, "a key"),
        ({Symbol("a"): 2}, "a key"),
        ({"a": [1]}, "simple type"),
        ("a", "takes a map"),
    ],
)
def test_a_wrong_headers_binding_is_refused(entries: Any, problem: str) -> None:
    with pytest.raises(EncodeError, match=problem):
        HeadersBinding(entries)


def test_no_local_keeps_what_clients_send() -> None:
    """By its definition a list; Qpid JMS describes text."""
    came = encode_value(Described(ULong(0x468C << 32 | 3), "NoLocalFilter{}"))

    assert came == parse(came).encode()


# Property filters.


@pytest.mark.parametrize(
    "reference, value, expected",
    [
        ("x", "x", True),
        ("x", "X", False),
        ("x", Symbol("x"), True),
        ("&p:Or", "Order", True),
        ("&p:Or", "or", False),
        ("&p:Or", Symbol("Order"), True),
        ("&p:", "", True),
        ("&p:1", 1, False),
        ("&s:er", "Order", True),
        ("&s:er", "er", True),
        ("&s:er", "e", False),
        ("&s:er", b"er", False),
        ("&&p:x", "&p:x", True),
        ("&&", "&", True),
        ("&&&", "&&", True),
        (Symbol("&p:x"), Symbol("&p:x"), True),
        (Symbol("&p:x"), "xy", False),
        (UInt(10), 10.0, True),
        (UInt(10), Byte(10), True),
        (10.5, Float(10.5), True),
        (10, 10.5, False),
        (10, "10", False),
        (1, True, False),
        (True, True, True),
        (False, 0, False),
        (Timestamp(5), Timestamp(5), True),
        (Timestamp(5), 5, False),
        (5, Timestamp(5), False),
        (b"x", b"x", True),
        (b"x", "x", False),
        (uuid.UUID(int=1), uuid.UUID(int=1), True),
        (uuid.UUID(int=1), uuid.UUID(int=2), False),
        (None, "anything", True),
        (None, None, True),
        ("x", None, False),
        (2**53 + 1, float(2**53), False),
    ],
)
def test_application_properties_filter(reference: Any, value: Any, expected: bool) -> None:
    one = ApplicationPropertiesFilter({"k": reference})

    assert expected is one.matches(Message(application_properties={"k": value, "other": 1}))
    assert not one.matches(Message(application_properties={"other": value}))
    assert not one.matches(Message())


@given(st.dictionaries(st.text(max_size=3), simple_values(), max_size=4))
def test_a_message_matches_a_filter_of_its_own_properties(properties: dict[str, Any]) -> None:
    escaped = {
        key: f"&{value}" if type(value) is str and value.startswith("&") else value
        for key, value in properties.items()
    }
    message = Message(application_properties=properties)

    matching = ApplicationPropertiesFilter(escaped).matches(message)

    # A NaN is not equal to itself.
    assert matching is not any(map(is_nan, properties.values()))


def is_nan(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return hasattr(value, "to_decimal") and value.to_decimal().is_nan()


MESSAGE = Message(
    properties=Properties(
        message_id=ULong(7),
        user_id=b"John",
        to="queue",
        subject="Order 66",
        correlation_id="c",
        content_type="a/b",
        creation_time=5,
        group_sequence=3,
    )
)


@pytest.mark.parametrize(
    "entries, expected",
    [
        ({"user-id": b"John", "subject": "&p:Order"}, True),
        ({"user_id": b"John", "subject": "&s:67"}, False),
        ({"message-id": 7}, True),
        ({"message-id": ULong(7)}, True),
        ({"message-id": "7"}, False),
        ({"correlation-id": "&p:c"}, True),
        ({"correlation-id": b"c"}, False),
        ({"to": "queue", "content-type": "a/b", "group-sequence": 3}, True),
        ({"group_sequence": 4}, False),
        ({"creation-time": 5}, True),
        ({"creation-time": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)}, False),
        ({"reply-to": "x"}, False),
        ({"reply-to": None}, True),
        ({"to": None}, True),
        ({}, True),
    ],
)
def test_properties_filter(entries: dict[str, Any], expected: bool) -> None:
    one = PropertiesFilter(entries)

    assert expected is one.matches(MESSAGE)
    assert expected is one.matches(Message.decode(MESSAGE.encode()))
    assert expected is (one.explain(MESSAGE) == ())
    assert all(value is None for value in entries.values()) is one.matches(Message())


def test_a_moment_that_was_assigned_matches_too() -> None:
    properties = Properties()
    properties.creation_time = datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)  # type: ignore[assignment]

    assert PropertiesFilter({"creation-time": 86_400_000}).matches(Message(properties=properties))


@pytest.mark.parametrize(
    "cls, entries, problem",
    [
        (PropertiesFilter, {"sender": "x"}, "there is no field sender"),
        (PropertiesFilter, {"user-id": "John"}, "bytes, not str"),
        (PropertiesFilter, {"to": 5}, "str, not int"),
        (PropertiesFilter, {"to": Symbol("x")}, "str, not Symbol"),
        (PropertiesFilter, {"message-id": 1.5}, "ULong or UUID or bytes or str, not float"),
        (PropertiesFilter, {"message-id": -1}, "ULong holds"),
        (PropertiesFilter, {"message-id": True}, "not bool"),
        (PropertiesFilter, {"content-type": "ä"}, "ASCII"),
        (PropertiesFilter, {"group-sequence": 2**32}, "UInt holds"),
        (PropertiesFilter, {"creation-time": datetime.datetime(2000, 1, 1)}, "time zone"),  # noqa: DTZ001
        (PropertiesFilter, {"creation-time": "x"}, "Timestamp, not str"),
        (PropertiesFilter, {"group-id": "a", "group_id": "b"}, "twice"),
        (PropertiesFilter, {"subject": "&x"}, "no modifier"),
        (PropertiesFilter, {5: "x"}, "a key"),
        (PropertiesFilter, [], "takes a map"),
        (ApplicationPropertiesFilter, {"a": "&"}, "no modifier"),
        (ApplicationPropertiesFilter, {"a": "&x:y"}, "no modifier"),
        (ApplicationPropertiesFilter, {"a": [1]}, "simple type"),
        (ApplicationPropertiesFilter, {Symbol("a"): 1}, "a key"),
        (ApplicationPropertiesFilter, {5: 1}, "a key"),
        (ApplicationPropertiesFilter, "a", "takes a map"),
    ],
)
def test_a_wrong_property_filter_is_refused(cls: Any, entries: Any, problem: str) -> None:
    with pytest.raises(EncodeError, match=problem):
        cls(entries)


@pytest.mark.parametrize(
    "value, problem",
    [
        ({"subject": "x"}, "symbols as keys"),
        ({Symbol("message-id"): 7}, "int is not what the field has"),
        ({Symbol("message-id"): UInt(7)}, "UInt is not"),
        ({Symbol("subject"): Symbol("x")}, "Symbol is not"),
        ({Symbol("content-type"): "a/b"}, "str is not"),
        ({Symbol("creation-time"): 5}, "int is not"),
        ({Symbol("group-sequence"): Int(5)}, "Int is not"),
        ({Symbol("group_sequence"): UInt(5)}, "there is no field group_sequence"),
        ("x", "describes a map, not str"),
    ],
)
def test_a_peer_has_to_send_the_types_of_the_fields(value: Any, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        parse(encode_value(Described(ULong(0x173), value)))


def test_why_properties_do_not_match() -> None:
    reasons = PropertiesFilter({"subject": "&p:x", "to": "&s:y", "user-id": b"Eve"}).explain(
        MESSAGE
    ) + ApplicationPropertiesFilter({"a": None, "b": "&&c", "c": 1}).explain(MESSAGE)

    assert [
        "subject begins with 'x' is false: subject is 'Order 66'",
        "to ends with 'y' is false: to is 'queue'",
        "user-id = b'Eve' is false: user-id is 0x4A6F686E",
        "a is present is false: a is not set",
        "b = '&c' is false: b is not set",
        "c = 1 is false: c is not set",
    ] == [str(reason) for reason in reasons]


# Brokers.


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
    with pytest.raises(EvaluationError, match="for the service to say"):
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
