"""The diagnostic tree: what every byte of a message means, also where the message is broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from amqp10msg.composite import composite_with
from amqp10msg.message import Message
from amqp10msg.sections.parts import kind_of
from amqp10msg.validation import Violation
from amqp10msg.wire.errors import DecodeError, as_bytes
from amqp10msg.wire.kernel import decode_value
from amqp10msg.wire.kernel.walk import (
    CONSTRUCTOR,
    CUT_OFF,
    LEFT_OVER,
    LEVELS,
    TOO_DEEP,
    TOO_SMALL,
    UNKNOWN,
    VALUE,
    Value,
    walk,
)
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import FORMAT_CODES

# A node takes some 300 bytes of memory, and nobody reads more lines than this.
_MAX_NODES = 100_000
# Elements shown of an array whose elements take no bytes: they are all equal.
_MAX_ZERO_WIDTH = 32
_HOLDING = ("described", "list", "map", "array")


@attrs.define
class Node:
    """One value in the bytes, or a part of one.

    Attributes:
        offset: where it begins, in bytes.
        end: where it ends.
        type: its AMQP type; ``described``; ``constructor`` for that of an array's elements;
            ``error`` for bytes that are not a value; ``elided`` for values beyond the limit.
        name: the section's or field's name in the specification, ``key`` for the key of a map,
            the key itself for its value, ``descriptor``, or the place in a list, such as ``[0]``.
        code: its format code, 0 for a described value; None where it has none of its own.
        encoding: the encoding's name in the specification, such as ``str8-utf8``.
        value: what it holds. For list, map and array the number of values, for a described value
            the symbol of its descriptor if that is known, for ``elided`` how many values.
        content: where its first child begins, after the constructor, the size and the count; in a
            simple value `end`.
        children: the values in it; for a described value the descriptor and the value.
        error: what is wrong with these very bytes; empty where nothing is.
        violations: the rules that are broken here.
    """

    offset: int
    end: int
    type: str
    name: str = ""
    code: int | None = None
    encoding: str = ""
    value: Any = None
    content: int = 0
    children: list[Node] = attrs.Factory(list)
    error: str = ""
    violations: list[Violation] = attrs.Factory(list)

    @property
    def length(self) -> int:
        """The number of bytes from the beginning to the end."""
        return self.end - self.offset

    def walk(self, level: int = 0) -> Iterator[tuple[int, Node]]:
        """Yield this node and all below it, outermost first, each with its level."""
        stack = [(level, self)]
        while stack:
            level, node = stack.pop()
            yield level, node
            stack.extend((level + 1, child) for child in reversed(node.children))


@attrs.define
class Tree:
    """The nodes of some encoded values, usually the sections of a message.

    Attributes:
        data: the bytes.
        nodes: the outermost nodes, in order; together they cover `data`.
        violations: those that belong to no byte, such as a missing body; the others are in the
            `violations` of their nodes.
    """

    data: bytes = attrs.field(repr=False)
    nodes: list[Node]
    violations: list[Violation] = attrs.Factory(list)

    def walk(self) -> Iterator[tuple[int, Node]]:
        """Yield every node, outermost first, each with its level, 0 for a section."""
        for node in self.nodes:
            yield from node.walk()

    def at(self, offset: int) -> list[Node]:
        """Return the nodes that a byte is in, outermost first; none outside of the data."""
        path: list[Node] = []
        below = self.nodes
        while True:
            for node in below:
                if node.offset <= offset < node.end:
                    path.append(node)
                    below = node.children
                    break
            else:
                return path

    @property
    def errors(self) -> list[Node]:
        """The nodes whose bytes are not what they must be, by offset."""
        return [node for _, node in self.walk() if node.error]


def parse_tree(
    data: Message | bytes | bytearray | memoryview,
    *,
    violations: Iterable[Violation] = (),
    limit: int = _MAX_NODES,
) -> Tree:
    """Read bytes to the tree of what they mean.

    Whatever the bytes are, this returns: what does not parse becomes a node of type ``error`` that
    holds the rest of what encloses it, and reading goes on after that.

    Args:
        data: an encoded message, or any sequence of encoded values; a `Message` is
            encoded first.
        violations: what `validate` found in these bytes, to be noted in the nodes.
        limit: nodes to make, about; what is beyond becomes nodes of type ``elided``. So do the
            elements of an array that take no bytes, after the first 32.

    Raises:
        EncodeError: the `Message` cannot be encoded.
        TypeError: `data` is neither a Message nor bytes-like.
    """
    octets = (
        data.encode()
        if isinstance(data, Message)
        else as_bytes(data, "parse_tree", "a Message or bytes")
    )
    tree = Tree(octets, _nodes(octets, limit))
    errors = tree.errors
    for violation in violations:
        meant = _meant(tree, errors, violation)
        (tree if meant is None else meant).violations.append(violation)
    return tree


def _nodes(data: bytes, left: int) -> list[Node]:
    """Make the nodes, and ``elided`` ones where there are too many."""
    nodes: list[Node] = []
    opened: list[tuple[Value, Node]] = []
    for value in walk(data):
        while opened and opened[-1][0] is not value.parent:
            _close(*opened.pop())
        parent = value.parent
        siblings = opened[-1][1].children if opened else nodes
        counted = value.role is not CONSTRUCTOR and value.fault != LEFT_OVER
        if (left <= 0 or _is_beyond_shown(value)) and _may_elide(value):
            if parent is None:
                nodes.append(Node(value.offset, len(data), "elided", content=len(data)))
                break
            more = parent.count - value.index if counted else 1
            end = parent.end
            siblings.append(Node(value.offset, end, "elided", value=more, content=end))
            parent.is_open = False
            continue
        left -= counted
        node = _node(data, value)
        node.name = _name(value, opened)
        siblings.append(node)
        if node.type in _HOLDING:
            opened.append((value, node))
    while opened:
        _close(*opened.pop())
    return nodes


def _is_beyond_shown(value: Value) -> bool:
    """Whether a value is an array's element without bytes, after the first `_MAX_ZERO_WIDTH`."""
    parent = value.parent
    return (
        parent is not None
        and parent.is_array
        and value.role is VALUE
        and value.index >= _MAX_ZERO_WIDTH
        and value.offset == value.end
        and not value.fault
    )


def _may_elide(value: Value) -> bool:
    """Return whether ``elided`` may take its place: not of a part of a described value."""
    if value.parent is None:
        return True
    if value.role is CONSTRUCTOR:
        return value.code == 0 and not value.fault
    return value.parent.code != 0 and value.role is VALUE and value.fault != LEFT_OVER


def _close(value: Value, node: Node) -> None:
    """Complete a node once its value has been walked to its end."""
    if node.type == "described":
        node.end = value.end
        name, node.value, _ = _known(node)
        node.name = node.name if value.level else name


def _known(node: Node) -> tuple[str, str | None, tuple[str, ...]]:
    """Return name, symbol and field names of what a described value is."""
    descriptor = node.children[0].value
    entry = composite_with(descriptor)
    if entry is not None:
        return entry.name, entry.symbol, entry.spec.names
    kind = kind_of(descriptor)
    if kind is not None:
        return kind.name, kind.symbol, ()
    return "unknown", None, ()


def _name(value: Value, opened: list[tuple[Value, Node]]) -> str:
    """Return the name of a value in the value that encloses it."""
    parent = value.parent
    if parent is None or value.fault == LEFT_OVER:
        return ""
    if value.role is not VALUE:
        return value.role
    if parent.code == 0:
        return ""
    if parent.is_map:
        return _key(opened[-1][1].children[-1]) if value.index % 2 else "key"
    if not parent.is_array and len(opened) > 1 and opened[-2][0].code == 0:
        fields = _known(opened[-2][1])[2] if parent.parent is opened[-2][0] else ()
        if value.index < len(fields):
            return fields[value.index]
    return f"[{value.index}]"


def _node(data: bytes, value: Value) -> Node:
    """Make the node of a value, without what is in it."""
    if value.fault and value.fault != TOO_SMALL:
        reason = _reason(value)
        return Node(value.offset, value.end, "error", content=value.end, error=reason)
    node = Node(value.offset, value.end, "described", "", value.code, content=value.content)
    if value.role is CONSTRUCTOR:
        node.type = "constructor"
        node.value = "described"
        if value.code:
            row = FORMAT_CODES[value.code]
            node.value, node.encoding = row.type, row.encoding
        return node
    if value.code == 0:
        return node
    row = FORMAT_CODES[value.code]
    node.type, node.encoding = row.type, row.encoding
    in_array = value.parent is not None and value.parent.is_array and value.role is VALUE
    if in_array:
        node.code = None
    if row.category in {"fixed", "variable"}:
        node.content = value.end
        octets = data[value.offset + (not in_array) : value.end]
        try:
            node.value = decode_value(bytes((row.code,)) + octets, limits=UNLIMITED)
        except DecodeError as error:
            node.value = octets
            node.error = error.reason
        return node
    size_at = value.offset + (not in_array) + row.width
    size = value.stop - size_at
    if value.fault:
        node.error = f"a size of {size} does not cover the count"
        return node
    node.value = value.count
    if value.stop > value.end:
        left = _are(value.end - size_at)
        node.error = f"this {row.type} has a size of {size} bytes, and {left} left"
    elif value.is_map and value.count % 2:
        node.error = f"a map of {value.count} values has a key without a value"
    return node


def _reason(value: Value) -> str:
    """Return why bytes are not a value."""
    if value.fault == TOO_DEEP:
        return f"values are nested more than {LEVELS} deep"
    if value.fault == UNKNOWN:
        return f"0x{value.code:02X} is not a format code of Part 1"
    left = value.end - value.offset
    if value.fault == CUT_OFF:
        kind = FORMAT_CODES[value.code].type
        return f"this {kind} takes {value.stop - value.offset} bytes, and {_are(left)} left"
    if value.fault == LEFT_OVER and value.parent is not None:
        kind = FORMAT_CODES[value.parent.code].type
        return f"{left} trailing byte{'s' * (left > 1)} after the last value of the {kind}"
    if value.role is CONSTRUCTOR:
        return "the constructor of the elements is missing"
    return "a value is missing"


def _meant(tree: Tree, errors: list[Node], violation: Violation) -> Node | None:
    """Find the node that a violation is about."""
    at = violation.offset
    if violation.clause.startswith("Part 1"):
        # What does not parse is a node already. A value that is cut off is reported where it ends.
        cut_off = violation.rule in ("truncated", "element-overruns-compound")
        near = [
            node
            for node in errors
            if (node.offset < at <= node.end or node.offset == at == node.end)
            or (not cut_off and node.offset <= at < node.end)
        ]
        if near:
            return max(near, key=lambda node: node.offset)
    path = tree.at(at)
    if violation.rule == "count-exceeds-size":
        # Reported after the count, where the first value is.
        path = [node for node in path if node.type in ("list", "map", "array")]
    for node in path:
        # What begins there: a section, a field, a key.
        if node.offset == at:
            return node
    return path[-1] if path else None


def _are(count: int) -> str:
    return f"{count} {'is' if count == 1 else 'are'}"


def _key(node: Node) -> str:
    """Name a map's value by its key."""
    if isinstance(node.value, str):
        return str(node.value)
    if node.children or node.error or node.type in ("list", "map", "array"):
        return f"({node.type})"
    return node.value.hex() if isinstance(node.value, bytes) else str(node.value)
