"""Invalid plain JSON is refused with path and reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import EncodeError, encode_value
from amqp10msg.notation import NotationError, from_plain, to_plain, value_from_plain

TWICE = "used twice, with dashes and with under"


@pytest.mark.parametrize(
    "plain, path, reason",
    [
        (None, "$", "an object such as .*, not null"),
        ([], "$", "not a list of 0"),
        ({"haeder": {}}, "$.haeder", "there is no such section: use one of header"),
        ({"header": []}, "$.header", "an object of fields, not a list"),
        ({"header": {"tll": 5}}, "$.header.tll", "there is no such field: use one of durable"),
        ({"header": {"ttl": "5s"}}, "$.header.ttl", "an integer, for uint, not '5s'"),
        ({"header": {"ttl": -1}}, "$.header.ttl", "0 to 4294967295"),
        ({"header": {"priority": 4.0}}, "$.header.priority", "not 4.0"),
        ({"header": {"durable": 1}}, "$.header.durable", "true or false"),
        ({"header": {"ttl": {"$int": 1}}}, "$.header.ttl", "ttl must be uint, not int"),
        ({"header": {"$list": [1]}}, "$.header.durable", "durable must be boolean, not long"),
        ({"properties": {"message_id": True}}, "$.properties.message_id", "message-id"),
        ({"properties": {"content_type": "é"}}, "$.properties.content_type", "must be ASCII"),
        ({"properties": {"user_id": 5}}, "$.properties.user_id", "text, \\$base64 or \\$hex"),
        ({"properties": {"creation_time": "today"}}, "$.properties.creation_time", "with its zone"),
        (
            {"properties": {"creation_time": "2024-02-29T12:00:00"}},
            "$.properties.creation_time",
            "with its zone",
        ),
        ({"footer": {"é": 1}}, "$.footer['é']", "must be ASCII"),
        ({"footer": []}, "$.footer", "an object"),
        ({"data": 5}, "$.data", "text, \\$base64"),
        ({"data": {"$uint": 5}}, "$.data", "binary"),
        ({"data": {"$base64": "A"}}, "$.data.$base64", "base64 digits"),
        ({"data": {"$hex": "0"}}, "$.data.$hex", "hex digits"),
        ({"amqp_sequence": 5}, "$.amqp_sequence", "a list"),
        ({"data": "", "amqp_value": 1}, "$", "a body has sections of one kind"),
        ({"data": "", "body": 1}, "$", "a body has sections of one kind"),
        ({"application_properties": {"k": [1]}}, "$.application_properties['k']", "simple"),
        ({"sections": {}}, "$.sections", "pairs"),
        ({"sections": [["data"]]}, "$.sections[0]", "pair"),
        ({"sections": [["body", 1]]}, "$.sections[0]", "a section, one of"),
        ({"sections": [["header", {"x": 1}]]}, "$.sections[0][1].x", "no such field"),
        ({"sections": [], "data": ""}, "$", "must be the only key"),
        ({"message_format": -1}, "$.message_format", "0 to 4294967295"),
        (
            {"header": {"delivery-count": 1, "delivery_count": 2, "ttl": 3}},
            *("$.header.delivery_count", TWICE),
        ),
        (
            {"header": {"ttl": 3, "delivery_count": 2, "delivery-count": None}},
            *("$.header['delivery-count']", TWICE),
        ),
        ({"amqp-value": 1, "amqp_value": 1}, "$.amqp_value", TWICE),
        ({"footer": {}, "message_format": 0, "message-format": 1}, "$['message-format']", TWICE),
        ({"body": {"$uint8": 5}}, "$.body.$uint8", "there is no marker \\$uint8"),
        ({"body": {"$uint": 5, "x": 1}}, "$.body", "must be the only key"),
        ({"body": {"$uint": {"$ulong": 5}}}, "$.body.$uint", "an integer"),
        ({"body": [1, {"$ubyte": 256}]}, "$.body[1].$ubyte", "0 to 255"),
        ({"body": {"a": {"$long": 2**63}}}, "$.body['a'].$long", "for long"),
        ({"body": 2**64}, "$.body", "for long"),
        ({"body": "\ud800"}, "$.body", "not a valid string"),
        ({"body": {"$char": "ab"}}, "$.body.$char", "one Unicode scalar value"),
        ({"body": {"$uuid": "1"}}, "$.body.$uuid", "not a valid uuid"),
        ({"body": {"$float": 1e300}}, "$.body.$float", "too large for a float"),
        ({"body": {"$double": 10**400}}, "$.body.$double", "too large for a double"),
        ({"body": {"$float": "0x7fc0"}}, "$.body.$float", "8 hex digits"),
        ({"body": {"$double": "big"}}, "$.body.$double", "a number"),
        (
            {"body": {"$decimal32": "1.23456789"}},
            "$.body.$decimal32",
            "decimal32 can represent",
        ),
        ({"body": {"$decimal32": "x"}}, "$.body.$decimal32", "decimal32 can represent"),
        ({"body": {"$decimal32": 1.5}}, "$.body.$decimal32", "in quotes"),
        ({"body": {"$decimal32": "0x0"}}, "$.body.$decimal32", "8 hex digits"),
        ({"body": {"$decimal64": "9" * 10**6}}, "$.body.$decimal64", "a number"),
        ({"body": {"$timestamp": 2**63}}, "$.body.$timestamp", "in 64 bits"),
        ({"body": {"$null": 0}}, "$.body.$null", "null"),
        ({"body": {"$map": [[1]]}}, "$.body.$map[0]", "pair"),
        ({"body": {"$map": 5}}, "$.body.$map", "pairs"),
        ({"body": {"$map": [[1, 2], [1, 3]]}}, "$.body", "duplicate map key"),
        ({"body": {"$described": [1]}}, "$.body.$described", "descriptor and the value"),
        ({"sections": [["raw", "zz"]]}, "$", "not a sequence of AMQP values: at byte 0: 0x7A"),
        ({"body": {"$array": "int8"}}, "$.body", "the elements' type"),
        ({"body": {"$array": []}}, "$.body", "the elements' type"),
        ({"body": {"$array": "described"}}, "$.body", "the elements' type"),
        ({"body": {5: 1}}, "$.body[5]", "text, for a string"),
        ({"body": {"$array": "int", "value": [1]}}, "$.body", "has no 'value'"),
        ({"body": {"$array": "int", "values": ["x"]}}, "$.body.values[0]", "an integer"),
        ({"body": {"$array": "int", "code": "0x70", "values": []}}, "$.body", "format code of int"),
        ({"body": {"$array": "int", "code": "0x54", "values": [300]}}, "$.body", "does not fit"),
        ({"body": {"$array": "list", "values": [{}]}}, "$.body.values[0]", "a list"),
        ({"body": {"$received": {}}}, "$.body.$received", "mandatory"),
        ({"body": {"$rejected": {"error": 5}}}, "$.body.$rejected", "error"),
        ({"body": {"$source": {"durable": 9}}}, "$.body.$source", "durable"),
        ({"body": (1, 2)}, "$.body", "a value"),
    ],
)
def test_errors_have_path_and_reason(plain: Any, path: str, reason: str) -> None:
    with pytest.raises(NotationError, match=reason) as caught:
        from_plain(plain)
    assert path == caught.value.path
    assert len(str(caught.value)) < 600


def nested(levels: int, wrap: Any) -> Any:
    made = None
    for _ in range(levels):
        made = wrap(made)
    return made


WRAPS = [
    pytest.param(lambda inner: [inner], id="list"),
    pytest.param(lambda inner: {"k": inner}, id="object"),
    pytest.param(lambda inner: {"$map": [[1, inner]]}, id="map"),
    pytest.param(lambda inner: {"$described": [1, inner]}, id="described"),
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_deep_nesting_is_refused(wrap: Any) -> None:
    plain = nested(150, wrap)
    assert encode_value(value_from_plain(plain)) == encode_value(
        value_from_plain(to_plain(value_from_plain(plain)))
    )
    for levels in (300, 100_000):
        with pytest.raises(NotationError, match="nested"):
            value_from_plain(nested(levels, wrap))
        with pytest.raises(NotationError, match="nested"):
            from_plain({"body": nested(levels, wrap)})


def test_unencodable_values_are_refused() -> None:
    with pytest.raises(EncodeError, match="object has no AMQP type"):
        to_plain(object())


NAMES = (
    "$uint $map $array values $described $binary $base64 $list $decimal32 $timestamp $error "
    "condition $source $double $char"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from(NAMES.split()), inner)
    ),
)


@given(JSON)
def test_any_json_is_read_or_refused(plain: Any) -> None:
    try:
        read = value_from_plain(plain)
    except ValueError:
        return
    to_plain(read)


@given(
    st.dictionaries(
        st.sampled_from(
            ["header", "properties", "data", "amqp_value", "footer", "body", "sections"]
        ),
        JSON | st.dictionaries(st.sampled_from(["ttl", "durable", "to", "message_id"]), JSON),
    )
    | JSON
)
def test_any_json_is_a_message_or_refused(plain: Any) -> None:
    try:
        read = from_plain(plain)
    except ValueError:
        return
    assert read == from_plain(to_plain(read))


DUPLICATE: Any = {"$map": [[1, 2], [1, 3]]}


@pytest.mark.parametrize(
    "plain, said",
    [
        # What cannot be encoded is told where there is nothing else, of the whole section, array
        # or composite; the first of that.
        (
            {"body": [DUPLICATE, {"$uint": -1}]},
            "$.body[1].$uint: expected 0 to 4294967295, for uint, not -1",
        ),
        (
            {"body": [DUPLICATE, {"$map": [["a", 1], ["a", 2]]}]},
            "$.body: duplicate map key 1",
        ),
        (
            {"body": [{"$array": "map", "values": [DUPLICATE]}]},
            "$.body[0]: duplicate map key 1",
        ),
        (
            {"body": [{"$array": "map", "values": [DUPLICATE, {"a": {"$uint": -1}}]}]},
            "$.body[0].values[1]['a'].$uint: expected 0 to 4294967295, for uint, not -1",
        ),
        (
            {
                "body": {
                    "$array": "int",
                    "code": "0x54",
                    "values": [300],
                    "descriptors": [DUPLICATE],
                }
            },
            (
                "$.body: Int(300) does not fit an array of constructor 0x54: build the array from "
                "the type's name"
            ),
        ),
        (
            {"body": [{"$error": {"condition": "a", "info": {"k": DUPLICATE}}}]},
            "$.body[0].$error: duplicate map key 1",
        ),
        (
            {"body": {"$map": [[{"$array": "int", "values": [1]}, 1]] * 2}},
            "$.body: duplicate map key Array('int', [Int(1)])",
        ),
        (
            {"body": {"$map": [[{"$array": "int", "code": "0x71", "values": [1]}, 1]] * 2}},
            "$.body: duplicate map key Array(0x71, [Int(1)])",
        ),
        ({"body": {"$map": [[{"a": 1}, 1]] * 2}}, "$.body: duplicate map key AmqpMap([('a', 1)])"),
        (
            {"sections": [["amqp-value", DUPLICATE], ["header", {"x": 1}]]},
            "$.sections[0][1]: duplicate map key 1",
        ),
        # Of several faults, the one that was given first.
        (
            {"header": {"ttl": "x", "durable": 1}},
            "$.header.ttl: expected an integer, for uint, not 'x'",
        ),
        ({"header": {"durable": 1, "ttl": "x"}}, "$.header.durable: expected true or false, not 1"),
        (
            {"header": {"ttl": "x", "other": 1}},
            "$.header.ttl: expected an integer, for uint, not 'x'",
        ),
        (
            {"header": {"delivery-count": "x", "delivery_count": 1}},
            "$.header['delivery-count']: expected an integer, for uint, not 'x'",
        ),
        ({"footer": [], "header": {"ttl": "x"}}, "$.footer: expected an object, not a list of 0"),
        (
            {"data": "", "header": {"ttl": "x"}, "amqp_value": 1},
            "$.header.ttl: expected an integer, for uint, not 'x'",
        ),
        (
            {"message_format": "x", "sections": 5},
            "$.message_format: expected an integer, for uint, not 'x'",
        ),
        (
            {"sections": [], "amqp_value": None},
            "$: sections must be the only key: it lists all sections",
        ),
        # What is of another type than the one that is named.
        (
            {"data": {"$binary": {"$uint": 5}}},
            "$.data.$binary: expected text, $base64 or $hex, not an object with '$uint'",
        ),
        (
            {"data": {"$binary": {"$uint": "x"}}},
            "$.data.$binary.$uint: expected an integer, for uint, not 'x'",
        ),
        (
            {"body": {"$array": "list", "values": [[], 5]}},
            "$.body.values[1]: expected a list, not 5",
        ),
        (
            {"body": {"$array": "list", "values": [2**70]}},
            f"$.body.values[0]: expected {-(2**63)} to {2**63 - 1}, for long, not {2**70}",
        ),
        (
            {"body": {"$array": "uint", "values": [{"$uint": 5}]}},
            "$.body.values[0]: expected an integer, for uint, not an object with '$uint'",
        ),
        (
            {"properties": {"message_id": -1}},
            f"$.properties.message_id: expected 0 to {2**64 - 1}, for ulong, not -1",
        ),
        (
            {"properties": {"to": {"a": 2**70}}},
            f"$.properties.to['a']: expected {-(2**63)} to {2**63 - 1}, for long, not {2**70}",
        ),
        (
            {"sections": [["raw", {"$uint": 5}]]},
            "$.sections[0][1]: expected text, $base64 or $hex, not an object with '$uint'",
        ),
        (
            {"body": {"$source": {"capabilities": ["a", 5]}}},
            "$.body.$source.capabilities[1]: expected text, for a symbol, not 5",
        ),
        (
            {"body": {"$source": {"filter": [1]}}},
            "$.body.$source.filter: expected a map, not a list of 1",
        ),
    ],
)
def test_which_of_several_faults_is_reported(plain: Any, said: str) -> None:
    with pytest.raises(NotationError) as caught:
        from_plain(plain)
    assert said == str(caught.value)


def test_maximum_depth_of_values() -> None:
    deep = "$" + "[0]" * 256
    for inner in (1, None, "x"):
        assert value_from_plain(listed(256, inner)) == listed(256, inner)
    compounds: list[Any] = [[], {}, {"$uint": 1}, {"$null": None}, {"$accepted": {}}]
    for compound in compounds:
        with pytest.raises(NotationError) as caught:
            value_from_plain(listed(256, compound))
        assert (deep, "values are nested more than 256 deep") == caught.value.args[::-1]
    # A composite is a list within a described value.
    with pytest.raises(NotationError) as caught:
        value_from_plain(listed(255, {"$error": {"condition": "a"}}))
    assert "$: values are nested more than 256 deep, or contain themselves" == str(caught.value)


def listed(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


def test_cost_of_faults_in_nested_composites() -> None:
    """Each value is looked at once, however deep the fault is: not twice for each level."""
    plain: Any = {"$uint": -1}
    for _ in range(40):
        info = {"other": {"k": 1}, "k": plain}
        plain = {"$error": {"info": info, "condition": "a"}}
    with pytest.raises(NotationError, match="0 to 4294967295"):
        value_from_plain(plain)
    for _ in range(40):
        plain = {"$modified": {"message-annotations": {"k": plain}, "message_annotations": {}}}
    with pytest.raises(NotationError, match="0 to 4294967295"):
        value_from_plain(plain)
