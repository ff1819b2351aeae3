"""Inputs changed as values, not as bytes: sizes and counts stay right, so that more of them decode.

A seed is taken apart into a tree; an element is replaced, repeated, dropped, swapped, wrapped or
given another format code; and the tree is written again. A tree is a list that begins with what it
is: ``[LEAF, bytes]``, ``[SEQUENCE, child, …]`` for the whole input, or ``[format code, child, …]``,
in which 0 is a described value and the codes of lists and maps are written in their short or long
form as their content needs.
"""

from __future__ import annotations

import random
from typing import Any

from amqp10msg.wire.kernel.walk import walk
from amqp10msg.wire.primitives import FORMAT_CODES

Tree = list[Any]
LEAF = -1
SEQUENCE = -2
_SHORT = {0xC0: 0xD0, 0xC1: 0xD1}
_COMPOUNDS = (*_SHORT, *_SHORT.values())

#: Values of every format code, at the edges of what they hold, and some that no code should hold.
EDGES: tuple[bytes, ...] = (
    *(bytes([code]) for code in (0x40, 0x41, 0x42, 0x43, 0x44, 0x45)),
    *(bytes([code, octet]) for code in (0x50, 0x51, 0x52, 0x53, 0x54, 0x55) for octet in (0, 255)),
    *(b"\x56\0", b"\x56\1", b"\x56\2"),
    *(bytes([code]) + pair for code in (0x60, 0x61) for pair in (b"\0\0", b"\x80\0", b"\xff\xff")),
    *(
        bytes([code]) + four
        for code in (0x70, 0x71, 0x72, 0x73, 0x74)
        for four in (bytes(4), b"\0\0\xd8\0", b"\0\x10\xff\xff", b"\x80\0\0\0", b"\x7f\xc0\0\1")
    ),
    *(
        bytes([code]) + eight
        for code in (0x80, 0x81, 0x82, 0x83, 0x84)
        for eight in (bytes(8), b"\x80" + bytes(7), b"\x7f\xf8" + bytes(5) + b"\1", b"\xff" * 8)
    ),
    *(bytes([code]) + bytes(range(16)) for code in (0x94, 0x98)),
    *(bytes([code, 0]) for code in (0xA0, 0xA1, 0xA3)),
    *(bytes([code, 3]) + b"abc" for code in (0xA0, 0xA1, 0xA3)),
    *(bytes([code]) + b"\0\0\0\2\xc3\xa9" for code in (0xB0, 0xB1, 0xB3)),
    *(b"\xa1\2\xc3\x28", b"\xa3\5x-opt", b"\xa1\1\0"),
    *(b"\xe0\4\2\x54\1\2", b"\xe0\2\0\x40", b"\xe0\5\1\0\x53\1\x40", b"\xf0\0\0\0\5\0\0\0\0\x40"),
    *(b"\xe0\6\2\xa3\1a\1b", b"\xc0\1\0", b"\xc1\1\0", b"\xd0\0\0\0\4\0\0\0\0"),
    b"\xd1\0\0\0\4\0\0\0\0",
)

_TYPES = {row.code: row.type for row in FORMAT_CODES.values()}
# The same by AMQP type, to replace a value with another of its type.
_ALIKE = {
    type: [edge for edge in EDGES if _TYPES[edge[0]] == type] for type in set(_TYPES.values())
}


def parse(octets: bytes) -> Tree | None:
    """Return the values as one tree; None where they are not whole.

    Arrays are leaves: their elements have no constructors of their own.
    """
    root: Tree = [SEQUENCE]
    trees: dict[int, Tree] = {}
    for value in walk(octets):
        if value.fault or value.stop > value.end:
            return None
        tree: Tree
        if value.code == 0 or 0xC0 <= value.code < 0xE0:
            tree = [value.code]
            trees[id(value)] = tree
        else:
            # No need to look into an array, and no child may be taken for one of its parent.
            value.should_enter = False
            tree = [LEAF, octets[value.offset : value.end]]
        (root if value.parent is None else trees[id(value.parent)]).append(tree)
    return root


def write(tree: Tree) -> bytes:
    """Encode a tree."""
    code: int = tree[0]
    if code == LEAF:
        octets: bytes = tree[1]
        return octets
    content = b"".join(map(write, tree[1:]))
    if code == SEQUENCE:
        return content
    if code == 0:
        return b"\0" + content
    count = len(tree) - 1
    if code in _SHORT and len(content) < 255 and count < 256:
        return bytes([code, len(content) + 1, count]) + content
    code = _SHORT.get(code, code)
    return bytes([code]) + (len(content) + 4).to_bytes(4) + count.to_bytes(4) + content


def reshape(seeds: list[Tree], draw: random.Random) -> bytes:
    """Change one of the seeds in one or two places, and encode it.

    What is not changed is shared with the seed, which stays as it is.
    """
    root = draw.choice(seeds)
    for _ in range(draw.randint(1, 2)):
        root = _changed(root, seeds, draw)
    return write(root)


def _changed(root: Tree, seeds: list[Tree], draw: random.Random) -> Tree:
    """Return the tree with one place changed, somewhere on a way down that chance takes."""
    root = tree = list(root)
    while len(tree) > 1:
        # A descriptor says what the value is: changing that one tells more.
        at = draw.randrange(1, len(tree)) if tree[0] != 0 or draw.random() < 0.1 else len(tree) - 1
        child = tree[at]
        if child[0] != LEAF and len(child) > 1 and draw.random() < 0.9:
            tree[at] = tree = list(child)
            continue
        _change(tree, at, child, seeds, draw)
        break
    return root


def _change(tree: Tree, at: int, child: Tree, seeds: list[Tree], draw: random.Random) -> None:
    # A described value has two parts, whatever becomes of them.
    way = draw.randrange(12) if tree[0] != 0 else draw.choice((2, 3, *range(5, 12)))
    if way == 0:
        del tree[at]
    elif way == 1:
        tree.insert(at, child)
    elif way == 2:
        other = draw.randrange(1, len(tree))
        tree[at], tree[other] = tree[other], child
    elif way == 3:
        tree[at] = _any_part(draw.choice(seeds), draw)
    elif way == 4:
        tree.insert(at, _any_part(draw.choice(seeds), draw))
    elif way == 5:
        tree[at] = [draw.choice(_COMPOUNDS), child]
    elif way == 6:
        tree[at] = [0, [LEAF, draw.choice(EDGES)], child]
    elif way == 7:
        tree[at] = [LEAF, draw.choice(EDGES)]
    elif child[0] == LEAF:
        tree[at] = [LEAF, draw.choice(_ALIKE[_TYPES[child[1][0]]])]
    elif child[0] > 0:
        tree[at] = [draw.choice(_COMPOUNDS), *child[1:]]


def _any_part(root: Tree, draw: random.Random) -> Tree:
    """Return a value of a seed, on whichever level."""
    part: Tree = root
    while len(part) > 1 and part[0] != LEAF and (part is root or draw.random() < 0.6):
        part = draw.choice(part[1:])
    return [LEAF, b"\x40"] if part is root else part
