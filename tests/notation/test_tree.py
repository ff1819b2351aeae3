"""The diagnostic tree: it covers every byte of any input."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import (
    Array,
    DecodeError,
    Described,
    Header,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
    decode_values,
    encode_value,
    validate,
)
from amqp10msg.delivery import Error, Rejected
from amqp10msg.notation import Node, Tree, parse_tree
from amqp10msg.testing import encodings, malformed, messages, mutated, values
from amqp10msg.wire.primitives import identical
from tests.effort import calls


def tiles(tree: Tree) -> None:
    """Check that every byte stands in exactly one place."""
    at = 0
    for node in tree.nodes:
        assert at == node.offset < node.end
        at = node.end
        tiled(node)
    assert len(tree.data) == at


def tiled(node: Node) -> None:
    assert node.offset <= node.content <= node.end
    if node.type == "described" or node.children:
        at = node.content
        for child in node.children:
            assert at == child.offset <= child.end
            at = child.end
            tiled(child)
        assert node.end == at
    else:
        assert node.end == node.content


def value_of(node: Node, data: bytes) -> Any:
    """Put the value together again from the nodes."""
    children = [child for child in node.children if child.type != "constructor"]
    made: list[Any] = []
    for child in children:
        if child.type == "elided":  # equal elements of an array that take no bytes
            made += [made[-1]] * child.value
        else:
            made.append(value_of(child, data))
    if node.type == "described":
        return Described(*made)
    if node.type == "list":
        return made
    if node.type == "map":
        return list(zip(made[::2], made[1::2], strict=True))
    if node.type == "array":
        descriptors = [child for child in children if child.name == "descriptor"]
        return made[: len(descriptors)], made[len(descriptors) :]
    return node.value


def shape(value: Any) -> Any:
    """Give a decoded value in the form that `value_of` makes."""
    if isinstance(value, Described):
        return Described(shape(value.descriptor), shape(value.value))
    if isinstance(value, list):
        return list(map(shape, value))
    if isinstance(value, Array):
        return [shape(one) for one in value.descriptors], [shape(one) for one in value.values]
    if hasattr(value, "items"):
        return [(shape(key), shape(item)) for key, item in value.items()]
    return value


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Described):
        return (
            isinstance(b, Described) and same(a.descriptor, b.descriptor) and same(a.value, b.value)
        )
    return identical(a, b)


@given(st.data())
def test_values_are_read_as_the_kernel_reads_them(data: st.DataObject) -> None:
    octets = data.draw(encodings(data.draw(values())))
    tree = parse_tree(octets)
    tiles(tree)
    assert [] == tree.errors
    (expected,) = decode_values(octets)
    assert same(shape(expected), value_of(tree.nodes[0], octets))


@given(st.data())
def test_the_sections_of_a_message(data: st.DataObject) -> None:
    message = data.draw(messages())
    octets = data.draw(encodings(message))
    tree = parse_tree(octets)
    tiles(tree)
    assert [] == tree.errors
    assert [name for name, _ in message.sections()] == [node.name for node in tree.nodes]


ANYTHING = st.one_of(
    st.binary(max_size=100),
    malformed(),
    malformed("value"),
    messages().map(Message.encode).flatmap(mutated),
    values().map(encode_value).flatmap(mutated),
)
# What only a whole value breaks, or a limit; and what is reported of the size, not of a byte.
NOT_AN_OCTETS_FAULT = {"map-duplicate-key", "zero-width-limit", "depth-limit", "items-limit"}


def fault_of(octets: bytes) -> str:
    try:
        list(decode_values(octets))
    except DecodeError as error:
        return error.rule
    return ""


@given(ANYTHING)
def test_any_octets_have_a_tree(octets: bytes) -> None:
    tree = parse_tree(octets, violations=validate(octets))
    tiles(tree)
    rule = fault_of(octets)
    if rule not in NOT_AN_OCTETS_FAULT:
        assert (rule != "") == (tree.errors != []), rule
    for offset in range(len(octets)):
        path = tree.at(offset)
        assert path
        for outer, inner in pairwise(path):
            assert outer.offset <= inner.offset <= offset < inner.end <= outer.end
    assert [] == tree.at(len(octets))
    assert [] == tree.at(-1)
    placed = [violation for _, node in tree.walk() for violation in node.violations]
    assert sorted(map(repr, validate(octets))) == sorted(map(repr, placed + tree.violations))


def lines(octets: bytes | Message) -> Iterator[tuple[int, str, str, Any]]:
    for level, node in parse_tree(octets).walk():
        yield level, node.name, node.type, node.value


def test_names_are_those_of_the_specification() -> None:
    message = Message(
        [1],
        header=Header(durable=True),
        properties=Properties(to="q"),
        footer={"x-sum": UInt(1)},
    )
    assert [
        (0, "header", "described", "amqp:header:list"),
        (1, "descriptor", "ulong", 0x70),
        (1, "", "list", 1),
        (2, "durable", "boolean", True),
        (0, "properties", "described", "amqp:properties:list"),
        (1, "descriptor", "ulong", 0x73),
        (1, "", "list", 3),
        (2, "message-id", "null", None),
        (2, "user-id", "null", None),
        (2, "to", "string", "q"),
        (0, "amqp-value", "described", "amqp:amqp-value:*"),
        (1, "descriptor", "ulong", 0x77),
        (1, "", "list", 1),
        (2, "[0]", "long", 1),
        (0, "footer", "described", "amqp:footer:map"),
        (1, "descriptor", "ulong", 0x78),
        (1, "", "map", 2),
        (2, "key", "symbol", "x-sum"),
        (2, "x-sum", "uint", 1),
    ] == list(lines(message))


def test_composites_within_values_have_names_too() -> None:
    octets = encode_value(Rejected(error=Error("amqp:not-found", "gone")))
    assert [
        (0, "rejected", "described", "amqp:rejected:list"),
        (1, "descriptor", "ulong", 0x25),
        (1, "", "list", 1),
        (2, "error", "described", "amqp:error:list"),
        (3, "descriptor", "ulong", 0x1D),
        (3, "", "list", 2),
        (4, "condition", "symbol", "amqp:not-found"),
        (4, "description", "string", "gone"),
    ] == list(lines(octets))


def test_arrays_have_one_constructor_and_their_descriptors() -> None:
    octets = encode_value(Array("string", ["a", "b"], descriptors=[Symbol("d"), ULong(9)]))
    tree = parse_tree(octets)
    tiles(tree)
    assert [
        (0, "", "array", 2),
        (1, "constructor", "constructor", "described"),
        (1, "descriptor", "symbol", "d"),
        (1, "constructor", "constructor", "described"),
        (1, "descriptor", "ulong", 9),
        (1, "constructor", "constructor", "string"),
        (1, "[0]", "string", "a"),
        (1, "[1]", "string", "b"),
    ] == list(lines(octets))
    assert [None, None] == [node.code for node in tree.nodes[0].children[-2:]]
    assert "str8-utf8" == tree.nodes[0].children[-1].encoding


@pytest.mark.parametrize(
    "octets, where, reason",
    [
        ("005375a005aabb", (3, 7), "this binary needs 7 bytes, but only 4 are left"),
        ("005375a0", (3, 4), "this binary needs 2 bytes, but only 1 is left"),
        ("00", (1, 1), "a value is missing"),
        ("0053", (1, 2), "this ulong needs 2 bytes, but only 1 is left"),
        ("005370", (3, 3), "a value is missing"),
        ("005370c0030250", (3, 7), "this list has a size of 3 bytes, but only 2 are left"),
        ("005370c0020141 99", (7, 8), "0x99 is not a format code of Part 1"),
        ("005370c0020241 005375a000", (7, 7), "a value is missing"),
        ("005370c003014142 005375a000", (7, 8), "1 trailing byte after the last value of the list"),
        ("005370c00041", (3, 5), "a size of 0 does not cover the count"),
        ("005374c1020140", (3, 7), "a map of 1 values has a key without a value"),
        ("005377a102c328", (3, 7), "a string is not UTF-8: invalid continuation byte"),
        ("005377a301ff", (3, 6), "a symbol holds byte 0xFF, which is not ASCII"),
        ("0053775602", (3, 5), "a boolean byte must be 0 or 1, not 2"),
        ("005377730000d800", (3, 8), "0xD800 is not a Unicode scalar value"),
        ("005377e00201", (6, 6), "the constructor of the elements is missing"),
        ("005377e0020199", (6, 7), "0x99 is not a format code of Part 1"),
        ("005377e004025001", (8, 8), "this ubyte needs 1 bytes, but only 0 are left"),
    ],
)
def test_errors_have_text_and_position(octets: str, where: tuple[int, int], reason: str) -> None:
    tree = parse_tree(bytes.fromhex(octets))
    tiles(tree)
    errors = [(node.offset, node.end) for node in tree.errors]
    assert where in errors
    assert any(reason in node.error for node in tree.errors if (node.offset, node.end) == where)


@given(
    st.sampled_from(["string", "symbol"]),
    st.binary(max_size=300).filter(lambda octets: not octets.isascii()),
    st.booleans(),
    st.booleans(),
)
@example("symbol", "é".encode(), False, False)
@example("string", b"\xc3\xff", True, False)
@example("symbol", "é".encode(), False, True)
def test_invalid_text_shows_its_bytes_without_the_size(
    type_name: str, content: bytes, is_wide: bool, in_array: bool
) -> None:
    if type_name == "string":
        content += b"\xff"
    is_wide |= len(content) > 255
    code = {"string": 0xA1, "symbol": 0xA3}[type_name] + 0x10 * is_wide
    octets = len(content).to_bytes(4 if is_wide else 1, "big") + content
    if in_array:
        array = b"\0\0\0\x01" + bytes((code,)) + octets
        octets = b"\xf0" + len(array).to_bytes(4, "big") + array
    else:
        octets = bytes((code,)) + octets

    (node,) = parse_tree(b"\0\x53\x77" + octets).errors

    assert (type_name, content) == (node.type, node.value)


def test_parsing_continues_after_an_unreadable_part() -> None:
    octets = bytes.fromhex("005374c1060401 61a10162 005375a00161")
    tree = parse_tree(octets)
    assert ["application-properties", "data"] == [node.name for node in tree.nodes]
    assert [(6, 11)] == [(node.offset, node.end) for node in tree.errors]
    assert b"a" == tree.nodes[1].children[1].value


def test_truncated_compound_shows_its_readable_part() -> None:
    whole = Message("x", application_properties={"a": 1, "b": 2}).encode()
    for cut in range(1, len(whole)):
        tree = parse_tree(whole[:cut])
        tiles(tree)
        assert tree.errors or cut in [node.end for node in parse_tree(whole).nodes]
    names = [node.name for _, node in parse_tree(whole[:13]).walk()]
    assert ["application-properties", "descriptor", "", "key", "a", "key"] == names


@pytest.mark.parametrize(
    "octets, rule, where",
    [
        # On what begins there, outermost first.
        ("005375a00000537045", "section-out-of-order", (5, 9)),
        ("005374c103024345", "application-properties-key-type", (6, 7)),
        # A count that does not fit is the list's fault, not that of its first value.
        ("005370c00304 5004", "count-exceeds-size", (3, 8)),
        # Reported where reading ended: on the value that is cut off there.
        ("005375a005aabb", "truncated", (3, 7)),
        ("005370c003024150005375a000", "element-overruns-compound", (7, 8)),
        # On the value that begins there, next to a damaged section which ends there.
        ("005377c00502c00301a105", "unknown-constructor", (10, 11)),
    ],
)
def test_violations_are_attached_to_their_nodes(
    octets: str, rule: str, where: tuple[int, int]
) -> None:
    data = bytes.fromhex(octets)
    tree = parse_tree(data, violations=validate(data))
    found = [
        (node.offset, node.end)
        for _, node in tree.walk()
        if rule in [violation.rule for violation in node.violations]
    ]
    assert [where] == found


def test_missing_body_has_no_position() -> None:
    data = Message(header=Header()).encode()
    tree = parse_tree(data, violations=validate(data))
    assert ["body-missing"] == [violation.rule for violation in tree.violations]


def tree_of(octets: bytes) -> Tree:
    tree = parse_tree(octets)
    tiles(tree)
    return tree


@pytest.mark.parametrize(
    "head", ["00", "c00301", "c1050240", "e0ff01", "d0000000ff00000001", "0045"]
)
def test_deep_nesting(head: str) -> None:
    octets = bytes.fromhex(head) * 20_000
    tree = tree_of(octets)
    # Twice the bytes cost twice the work, and not four times.
    half = octets[: len(octets) // 2]
    once, twice = (calls(partial(tree_of, given)) for given in (half, octets))
    assert twice < 2.1 * once + 1_000
    assert max(level for level, _ in tree.walk()) <= 260
    assert tree.errors


def test_the_number_of_nodes_is_bounded() -> None:
    # Ten bytes that ask for 2^32 - 1 values that take none.
    tree = parse_tree(bytes.fromhex("f000000005ffffffff41"), limit=1000)
    tiles(tree)
    assert sum(1 for _ in tree.walk()) < 1010
    last = tree.nodes[0].children[-1]
    assert ("elided", 2**32 - 1) == (last.type, last.value + len(tree.nodes[0].children) - 2)
    octets = encode_value([[1] * 100] * 100) + b"\x40" * 5000
    tree = parse_tree(octets, limit=150)
    tiles(tree)
    assert sum(1 for _ in tree.walk()) < 300
    assert [] == tree.errors
    assert "elided" == tree.nodes[-1].type


def test_empty_input() -> None:
    tree = parse_tree(b"")
    assert ([], [], []) == (tree.nodes, tree.errors, list(tree.walk()))
