"""The diagnostic tree: what every octet of a message means, also where the message is broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

import amqp10msg.delivery  # noqa: F401  (its composites are named in the tree)
from amqp10msg._core import decode_value
from amqp10msg.composite import COMPOSITES
from amqp10msg.errors import DecodeError
from amqp10msg.limits import UNLIMITED
from amqp10msg.message import Message
from amqp10msg.primitives import FORMAT_CODES, FormatCode, Symbol, ULong
from amqp10msg.sections import CODES, KINDS
from amqp10msg.validation import Violation

__all__ = ["Node", "Tree", "parse_tree"]

_MAX_DEPTH = 256
# A node takes some 300 octets of memory, and nobody reads more lines than this.
_MAX_NODES = 100_000


@attrs.define
class Node:
    """One value in the octets, or a part of one.

    Attributes:
        offset: where it begins, in octets.
        end: where it ends.
        type: its AMQP type; ``described``; ``constructor`` for that of an array's elements;
            ``error`` for octets that are no value; ``elided`` for values beyond the limit.
        name: the section's or field's name in the specification, ``key`` for the key of a map,
            the key itself for its value, ``descriptor``, or the place in a list, such as ``[0]``.
        code: its format code, 0 for a described value; None where it has none of its own.
        encoding: the encoding's name in the specification, such as ``str8-utf8``.
        value: what it says. For list, map and array the number of values, for a described value
            the name or symbol that its descriptor stands for, for ``elided`` how many values.
        content: where its first child begins, behind the constructor, the size and the count; in a
            simple value `end`.
        children: the values in it; for a described value the descriptor and the value.
        error: what is wrong with these very octets; empty where nothing is.
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
        """Octets from the beginning to the end."""
        return self.end - self.offset

    def walk(self, level: int = 0) -> Iterator[tuple[int, Node]]:
        """Give this node and all below it, outermost first, each with its level."""
        stack = [(level, self)]
        while stack:
            level, node = stack.pop()
            yield level, node
            stack.extend((level + 1, child) for child in reversed(node.children))


@attrs.define
class Tree:
    """The nodes of some encoded values, usually the sections of a message.

    Attributes:
        data: the octets.
        nodes: the outermost nodes, in order; together they cover `data`.
        violations: what was held against the octets and belongs to none of them, such as a body
            that is missing; the others stand in the `violations` of their nodes.
    """

    data: bytes = attrs.field(repr=False)
    nodes: list[Node]
    violations: list[Violation] = attrs.Factory(list)

    def walk(self) -> Iterator[tuple[int, Node]]:
        """Give every node, outermost first, each with its level, 0 for a section."""
        for node in self.nodes:
            yield from node.walk()

    def at(self, offset: int) -> list[Node]:
        """Give the nodes that an octet is in, outermost first; none outside of the data."""
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
        """The nodes whose octets are not what they must be, by offset."""
        return [node for _, node in self.walk() if node.error]


def parse_tree(
    data: Message | bytes | bytearray | memoryview,
    *,
    violations: Iterable[Violation] = (),
    limit: int = _MAX_NODES,
) -> Tree:
    """Read octets to the tree of what they mean.

    Whatever the octets are, this returns: what does not parse becomes a node of type ``error`` that
    holds the rest of what encloses it, and reading goes on behind that.

    Args:
        data: an encoded message, or any encoded values one behind the other; a `Message` is
            encoded first.
        violations: what `validate` found in these octets, to be noted in the nodes.
        limit: nodes to make, about; what is beyond becomes nodes of type ``elided``.

    Raises:
        EncodeError: the `Message` cannot be encoded.
    """
    octets = data.encode() if isinstance(data, Message) else bytes(data)
    parser = _Parser(octets, limit)
    nodes = []
    pos = 0
    while pos < len(octets):
        if parser.left <= 0:
            nodes.append(Node(pos, len(octets), "elided", content=len(octets)))
            break
        try:
            node = parser.value(pos, _Place(len(octets)))
        except RecursionError:
            node = parser.lost(pos, len(octets))
        nodes.append(node)
        pos = node.end
    tree = Tree(octets, nodes)
    errors = tree.errors
    for violation in violations:
        meant = _meant(tree, errors, violation)
        (tree if meant is None else meant).violations.append(violation)
    return tree


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
        # Reported behind the count, where the first value stands.
        path = [node for node in path if node.type in ("list", "map", "array")]
    for node in path:
        # What begins there: a section, a field, a key.
        if node.offset == at:
            return node
    return path[-1] if path else None


#: Names of described values and of their fields, by descriptor.
_NAMES: dict[int | str, tuple[str, str, tuple[str, ...]]] = {
    **{
        key: (entry.name, entry.symbol, tuple(field.wire_name for field in entry.fields))
        for key, entry in COMPOSITES.items()
    },
    **{
        key: (KINDS[code - 0x70].name, KINDS[code - 0x70].symbol, ())
        for key, code in CODES.items()
        if key not in COMPOSITES
    },
}


@attrs.frozen
class _Place:
    """Where a value stands: where what encloses it ends, its name, its level, names for fields."""

    end: int
    name: str = ""
    level: int = 0
    fields: tuple[str, ...] = ()


class _Parser:
    """Reads values to nodes.

    Attributes:
        left: how many more nodes it may make.
        cut: where the value that was read ends is unknown, so that nothing can follow it. Whoever
            knows where what encloses it ends clears this.
    """

    def __init__(self, data: bytes, limit: int) -> None:
        self.data = data
        self.left = limit
        self.cut = False

    def broken(self, pos: int, place: _Place, reason: str) -> Node:
        self.cut = True
        return Node(pos, place.end, "error", place.name, content=place.end, error=reason)

    def value(self, pos: int, place: _Place) -> Node:
        """Read the value at `pos`."""
        self.left -= 1
        if pos >= place.end:
            return self.broken(pos, place, "a value is missing")
        code = self.data[pos]
        if place.level > _MAX_DEPTH:
            return self.broken(pos, place, f"values are nested more than {_MAX_DEPTH} deep")
        if code == 0:
            return self.described(pos, place)
        row = FORMAT_CODES.get(code)
        if row is None:
            return self.broken(pos, place, f"0x{code:02X} is no format code of Part 1")
        node = self.body(row, pos, pos + 1, place)
        if node.type != "error":
            node.code = code
        return node

    def described(self, pos: int, place: _Place) -> Node:
        node = Node(pos, place.end, "described", place.name, 0, content=pos + 1)
        level = place.level + 1
        descriptor = self.value(pos + 1, _Place(place.end, "descriptor", level))
        node.children.append(descriptor)
        known = "unknown"
        fields: tuple[str, ...] = ()
        if type(descriptor.value) in (ULong, Symbol) and descriptor.value in _NAMES:
            known, node.value, fields = _NAMES[descriptor.value]
        if not place.level:
            node.name = known
        if not self.cut:
            value = self.value(descriptor.end, _Place(place.end, "", level, fields))
            node.children.append(value)
            node.end = value.end
        return node

    def body(self, row: FormatCode, start: int, pos: int, place: _Place) -> Node:
        """Read what stands at `pos`, behind this format code, as a value that begins at `start`."""
        end = place.end
        stop = pos + row.width
        if row.category != "fixed":
            head = row.width if row.category == "variable" else 2 * row.width
            if pos + head > end:
                return self.short(row, start, place, pos + head)
            stop += int.from_bytes(self.data[pos:stop], "big")
        node = Node(start, min(stop, end), row.type, place.name, encoding=row.encoding)
        if row.category in ("compound", "array"):
            at = self.opened(node, row, pos, stop)
            read = self.compound if row.category == "compound" else self.array
            try:
                read(node, at, place)
            except RecursionError:
                node.children[:] = [self.lost(at, node.end)]
            self.cut = stop > end
            return node
        if stop > end:
            return self.short(row, start, place, stop)
        node.content = node.end
        try:
            node.value = decode_value(bytes((row.code,)) + self.data[pos:stop], limits=UNLIMITED)
        except DecodeError as error:
            node.value = self.data[pos:stop]
            node.error = error.reason
        return node

    def short(self, row: FormatCode, start: int, place: _Place, stop: int) -> Node:
        reason = f"this {row.type} takes {stop - start} octets, and {_are(place.end - start)} left"
        return self.broken(start, place, reason)

    def lost(self, at: int, end: int) -> Node:
        return self.broken(at, _Place(end), "the interpreter has no room for this nesting")

    def opened(self, node: Node, row: FormatCode, pos: int, stop: int) -> int:
        """Read the size and count of a compound or array; tell where its content begins."""
        at = pos + 2 * row.width
        size = stop - pos - row.width
        node.content = min(at, node.end)
        if stop < at:
            node.error = f"a size of {size} does not even cover the count"
            return stop
        node.value = int.from_bytes(self.data[pos + row.width : at], "big")
        if stop > node.end:
            left = _are(node.end - pos - row.width)
            node.error = f"this {row.type} says it has {size} octets, and {left} left"
        elif row.type == "map" and node.value % 2:
            node.error = f"a map of {node.value} values has a key without a value"
        return at

    def compound(self, node: Node, at: int, place: _Place) -> None:
        count = node.value or 0
        is_map = node.type == "map"
        key = ""
        for index in range(count):
            if is_map:
                name = key if index % 2 else "key"
            else:
                name = place.fields[index] if index < len(place.fields) else f"[{index}]"
            if self.enough(node, at, count - index):
                return
            child = self.value(at, _Place(node.end, name, place.level + 1))
            node.children.append(child)
            if self.cut:
                return
            at = child.end
            if is_map and not index % 2:
                key = _key(child)
        self.rest(node, at)

    def array(self, node: Node, at: int, place: _Place) -> None:
        level = place.level + 1
        while at < node.end and self.data[at] == 0 and level <= _MAX_DEPTH:
            if self.enough(node, at, 1):
                return
            made = Node(at, at + 1, "constructor", "constructor", 0, value="described")
            made.content = at + 1
            descriptor = self.value(at + 1, _Place(node.end, "descriptor", level))
            node.children += (made, descriptor)
            if self.cut:
                return
            at = descriptor.end
            level += 1
        row = FORMAT_CODES.get(self.data[at]) if at < node.end else None
        if row is None or level > _MAX_DEPTH:
            reason = "the constructor of the elements is missing"
            if level > _MAX_DEPTH:
                reason = f"values are nested more than {_MAX_DEPTH} deep"
            elif at < node.end:
                reason = f"0x{self.data[at]:02X} is no format code of Part 1"
            node.children.append(self.broken(at, _Place(node.end, "constructor"), reason))
            return
        made = Node(at, at + 1, "constructor", "constructor", row.code, row.encoding)
        made.value, made.content = row.type, at + 1
        node.children.append(made)
        at += 1
        for index in range(node.value or 0):
            if self.enough(node, at, node.value - index):
                return
            self.left -= 1
            child = self.body(row, at, at, _Place(node.end, f"[{index}]", level))
            node.children.append(child)
            if self.cut:
                return
            at = child.end
        self.rest(node, at)

    def enough(self, node: Node, at: int, more: int) -> bool:
        """Tell whether no more nodes may be made, and note what is left out."""
        if self.left > 0:
            return False
        node.children.append(Node(at, node.end, "elided", value=more, content=node.end))
        return True

    def rest(self, node: Node, at: int) -> None:
        """Note octets that are left over behind the last value."""
        if at < node.end:
            reason = f"{_are(node.end - at)} left over behind the last value of the {node.type}"
            node.children.append(self.broken(at, _Place(node.end), reason))


def _are(count: int) -> str:
    return f"{count} {'is' if count == 1 else 'are'}"


def _key(node: Node) -> str:
    """Name a map's value by its key."""
    if isinstance(node.value, str):
        return str(node.value)
    if node.children or node.error or node.type in ("list", "map", "array"):
        return f"({node.type})"
    return node.value.hex() if isinstance(node.value, bytes) else str(node.value)
