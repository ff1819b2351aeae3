"""The diagnostic tree, which explains every byte of a message, even of a malformed message."""

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
    FAULT_CUT_OFF,
    FAULT_LEFT_OVER,
    FAULT_TOO_DEEP,
    FAULT_TOO_SMALL,
    FAULT_UNKNOWN,
    MAX_LEVELS,
    ROLE_CONSTRUCTOR,
    ROLE_VALUE,
    Value,
    walk,
)
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import FORMAT_CODES

# The default limit on the number of nodes. A node needs about 300 bytes of memory.
_MAX_NODES = 100_000
# Maximum number of shown elements of an array whose elements have no bytes, so that all are equal.
_MAX_SHOWN_ZERO_WIDTH_ELEMENTS = 32
# The values of `Node.type` of nodes that have children.
_PARENT_TYPES = ("described", "list", "map", "array")


@attrs.define
class Node:
    """A value in the bytes, or a part of a value.

    Attributes:
        offset: the offset of the node's first byte.
        end: the offset after the node's last byte.
        type: the AMQP type, or ``described``; ``constructor`` for the element constructor of an
            array; ``error`` for bytes that are not a value; ``elided`` for omitted values.
        name: the name of a section or field in the specification; ``key`` for a map key, and the
            key for a map value; ``descriptor``; or the index in a list, such as ``[0]``.
        code: the format code, 0 for a described value; None for an array element.
        encoding: the name of the encoding in the specification, such as ``str8-utf8``.
        value: the decoded value of a primitive type, or its bytes if they are invalid. For a list,
            map or array, the number of values; for a described value, the symbol of the section or
            composite, or None if it is unknown; for ``elided``, the number of omitted values.
        content: the offset of the first child, after constructor, size and count; `end` for a
            primitive value.
        children: the contained values; for a described value, the descriptor and the value.
        error: the error in these bytes; empty if they are well-formed.
        violations: the violations that belong to this node.
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
        """The number of bytes of the node."""
        return self.end - self.offset

    def walk(self, level: int = 0) -> Iterator[tuple[int, Node]]:
        """Yield (level, node) for this node and its descendants, in pre-order."""
        stack = [(level, self)]
        while stack:
            level, node = stack.pop()
            yield level, node
            stack.extend((level + 1, child) for child in reversed(node.children))


@attrs.define
class Tree:
    """The nodes of a sequence of encoded values, usually the sections of a message.

    Attributes:
        data: the encoded values.
        nodes: the outermost nodes, in order; together they cover `data`.
        violations: the violations that no node has, such as a missing body. Other violations are in
            `Node.violations`.
    """

    data: bytes = attrs.field(repr=False)
    nodes: list[Node]
    violations: list[Violation] = attrs.Factory(list)

    def walk(self) -> Iterator[tuple[int, Node]]:
        """Yield (level, node) for every node, in pre-order; sections have level 0."""
        for node in self.nodes:
            yield from node.walk()

    def at(self, offset: int) -> list[Node]:
        """Return the nodes that contain the byte at `offset`, outermost first.

        The list is empty if there is no such byte.
        """
        path: list[Node] = []
        candidates = self.nodes
        while True:
            for node in candidates:
                if node.offset <= offset < node.end:
                    path.append(node)
                    candidates = node.children
                    break
            else:
                return path

    @property
    def errors(self) -> list[Node]:
        """The nodes with malformed bytes, ordered by offset."""
        return [node for _, node in self.walk() if node.error]


def parse_tree(
    data: Message | bytes | bytearray | memoryview,
    *,
    violations: Iterable[Violation] = (),
    limit: int = _MAX_NODES,
) -> Tree:
    """Parse bytes into a tree that explains them.

    Any bytes can be parsed: an unreadable part becomes a node of type ``error`` that extends to the
    end of the enclosing value, and parsing continues after it.

    Args:
        data: an encoded message, or any sequence of encoded values; a `Message` is encoded first.
        violations: the violations that `validate` found in `data`, to add to the nodes.
        limit: the approximate maximum number of nodes; further values are replaced by nodes of type
            ``elided``. So are array elements without bytes, after the first 32.

    Raises:
        EncodeError: the `Message` cannot be encoded.
        TypeError: `data` is neither a Message nor bytes-like.
    """
    octets = (
        data.encode()
        if isinstance(data, Message)
        else as_bytes(data, "parse_tree", "a Message or bytes")
    )
    tree = Tree(octets, _make_nodes(octets, limit))
    errors = tree.errors
    for violation in violations:
        target = _node_of_violation(tree, errors, violation)
        (tree if target is None else target).violations.append(violation)
    return tree


def _make_nodes(data: bytes, remaining: int) -> list[Node]:
    """Return the outermost nodes, with their children.

    After about `remaining` nodes, at all levels together, only ``elided`` nodes are added.
    """
    nodes: list[Node] = []
    opened: list[tuple[Value, Node]] = []
    for value in walk(data):
        while opened and opened[-1][0] is not value.parent:
            _finish_node(*opened.pop())
        parent = value.parent
        siblings = opened[-1][1].children if opened else nodes
        is_counted = value.role is not ROLE_CONSTRUCTOR and value.fault != FAULT_LEFT_OVER
        if (remaining <= 0 or _is_hidden_element(value)) and _may_elide(value):
            if parent is None:
                nodes.append(Node(value.offset, len(data), "elided", content=len(data)))
                break
            count = parent.count - value.index_in_parent if is_counted else 1
            end = parent.end
            siblings.append(Node(value.offset, end, "elided", value=count, content=end))
            parent.should_enter = False
            continue
        remaining -= is_counted
        node = _make_node(data, value)
        node.name = _name_in_parent(value, opened)
        siblings.append(node)
        if node.type in _PARENT_TYPES:
            opened.append((value, node))
    while opened:
        _finish_node(*opened.pop())
    return nodes


def _is_hidden_element(value: Value) -> bool:
    """Return whether a value is an array element without bytes that is not shown.

    The first `_MAX_SHOWN_ZERO_WIDTH_ELEMENTS` elements are shown.
    """
    parent = value.parent
    return (
        parent is not None
        and parent.is_array
        and value.role is ROLE_VALUE
        and value.index_in_parent >= _MAX_SHOWN_ZERO_WIDTH_ELEMENTS
        and value.offset == value.end
        and not value.fault
    )


def _may_elide(value: Value) -> bool:
    """Return whether a node ``elided`` may replace a value and its later siblings.

    False in a described value, whose two parts are always shown.
    """
    if value.parent is None:
        return True
    if value.role is ROLE_CONSTRUCTOR:
        return value.code == 0 and not value.fault
    return value.parent.code != 0 and value.role is ROLE_VALUE and value.fault != FAULT_LEFT_OVER


def _finish_node(value: Value, node: Node) -> None:
    """Complete the node of a compound or described value after its last child."""
    if node.type == "described":
        node.end = value.end
        name, node.value, _ = _identify(node)
        node.name = node.name if value.level else name


def _identify(node: Node) -> tuple[str, str | None, tuple[str, ...]]:
    """Return name, symbolic descriptor and field names of a described value's section or composite.

    They are "unknown", None and () if the descriptor is unknown.
    """
    descriptor = node.children[0].value
    entry = composite_with(descriptor)
    if entry is not None:
        return entry.name, entry.symbol, entry.spec.names
    kind = kind_of(descriptor)
    if kind is not None:
        return kind.name, kind.symbol, ()
    return "unknown", None, ()


def _name_in_parent(value: Value, opened: list[tuple[Value, Node]]) -> str:
    """Return the `Node.name` of a value.

    `opened` has the enclosing values and their nodes, outermost first.
    """
    parent = value.parent
    if parent is None or value.fault == FAULT_LEFT_OVER:
        return ""
    if value.role is not ROLE_VALUE:
        return value.role
    if parent.code == 0:
        return ""
    if parent.is_map:
        return _key_text(opened[-1][1].children[-1]) if value.index_in_parent % 2 else "key"
    if not parent.is_array and len(opened) > 1 and opened[-2][0].code == 0:
        fields = _identify(opened[-2][1])[2] if parent.parent is opened[-2][0] else ()
        if value.index_in_parent < len(fields):
            return fields[value.index_in_parent]
    return f"[{value.index_in_parent}]"


def _make_node(data: bytes, value: Value) -> Node:
    """Return the node of a value, without children."""
    if value.fault and value.fault != FAULT_TOO_SMALL:
        reason = _error_text(value)
        return Node(value.offset, value.end, "error", content=value.end, error=reason)
    node = Node(value.offset, value.end, "described", "", value.code, content=value.content)
    if value.role is ROLE_CONSTRUCTOR:
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
    in_array = value.parent is not None and value.parent.is_array and value.role is ROLE_VALUE
    if in_array:
        node.code = None
    if row.category in {"fixed", "variable"}:
        node.content = value.end
        octets = data[value.offset + (not in_array) : value.end]
        try:
            node.value = decode_value(bytes((row.code,)) + octets, limits=UNLIMITED)
        except DecodeError as error:
            # The bytes without the size, which is not part of the value.
            node.value = octets[row.width :] if row.category == "variable" else octets
            node.error = error.reason
        return node
    size_end = value.offset + (not in_array) + row.width  # the offset after the size
    size = value.stop - size_end
    if value.fault:
        node.error = f"a size of {size} does not cover the count"
        return node
    node.value = value.count
    if value.stop > value.end:
        remaining = _count_are(value.end - size_end)
        node.error = f"this {row.type} has a size of {size} bytes, but only {remaining} left"
    elif value.is_map and value.count % 2:
        node.error = f"a map of {value.count} values has a key without a value"
    return node


def _error_text(value: Value) -> str:
    """Return the error text for bytes that are not a value."""
    if value.fault == FAULT_TOO_DEEP:
        return f"values are nested more than {MAX_LEVELS} deep"
    if value.fault == FAULT_UNKNOWN:
        return f"0x{value.code:02X} is not a format code of Part 1"
    size = value.end - value.offset
    if value.fault == FAULT_CUT_OFF:
        kind = FORMAT_CODES[value.code].type
        return (
            f"this {kind} needs {value.stop - value.offset} bytes, but only {_count_are(size)} left"
        )
    if value.fault == FAULT_LEFT_OVER and value.parent is not None:
        kind = FORMAT_CODES[value.parent.code].type
        return f"{size} trailing byte{'s' * (size > 1)} after the last value of the {kind}"
    if value.role is ROLE_CONSTRUCTOR:
        return "the constructor of the elements is missing"
    return "a value is missing"


def _node_of_violation(tree: Tree, errors: list[Node], violation: Violation) -> Node | None:
    """Return the node to which a violation belongs; None for `Tree.violations`."""
    offset = violation.offset
    if violation.clause.startswith("Part 1"):
        # Prefer a node with an error. The offset of a truncated value's violation is its end.
        is_truncated = violation.rule in ("truncated", "element-overruns-compound")
        candidates = [
            node
            for node in errors
            if (node.offset < offset <= node.end or node.offset == offset == node.end)
            or (not is_truncated and node.offset <= offset < node.end)
        ]
        if candidates:
            return max(candidates, key=lambda node: node.offset)
    path = tree.at(offset)
    if violation.rule == "count-exceeds-size":
        # The offset is after the count, where the first value would be, but the violation belongs
        # to the list, map or array.
        path = [node for node in path if node.type in ("list", "map", "array")]
    for node in path:
        # Prefer the outermost node that starts at the offset: a section, a field or a key.
        if node.offset == offset:
            return node
    return path[-1] if path else None


def _count_are(count: int) -> str:
    """Return "1 is" or, for example, "2 are"."""
    return f"{count} {'is' if count == 1 else 'are'}"


def _key_text(node: Node) -> str:
    """Return a map key as text, for the name of its map value."""
    if isinstance(node.value, str):
        return str(node.value)
    if node.children or node.error or node.type in ("list", "map", "array"):
        return f"({node.type})"
    return node.value.hex() if isinstance(node.value, bytes) else str(node.value)
