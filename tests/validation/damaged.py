"""Messages with values of the right and the wrong types, and with damaged bytes."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from amqp10msg import (
    Described,
    Limits,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    Violation,
    encode_value,
)
from amqp10msg.composite import rows
from amqp10msg.sections import KINDS, SectionKind

hexed = bytes.fromhex


def rules_of(violations: list[Violation]) -> list[str]:
    return [violation.rule for violation in violations]


# What hypothesis draws: values of the right and the wrong types under the right, the wrong and
# unknown descriptors, and messages with damaged bytes.

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**8 - 1).map(UByte),
    st.integers(0, 2**32 - 1).map(UInt),
    st.integers(0, 2**64 - 1).map(ULong),
    st.floats(),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    st.uuids(),
    st.binary(max_size=4),
    st.text(max_size=4),
    st.sampled_from(["x-opt-a", "x-b", "rejected", "iothub-c", "gzip", "identity"]).map(Symbol),
)
KEYS = st.one_of(
    st.sampled_from(["x-opt-a", "x-b", "rejected", "iothub-c", "d"]).map(Symbol),
    st.text(max_size=2),
    st.integers(0, 3).map(ULong),
    st.none() | st.binary(max_size=2) | st.uuids(),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.builds(Described, SCALARS, inner)
    ),
    max_leaves=6,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "ubyte": st.integers(0, 255).map(UByte),
    "uint": st.integers(0, 2**32 - 1).map(UInt),
    "binary": st.binary(max_size=3),
    "string": st.text(max_size=3),
    "symbol": st.sampled_from(["gzip", "identity", "compress", "a/b", ""]).map(Symbol),
    "timestamp": st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    "*": st.text(max_size=3),
}


# Of scalars alone, or of any values, as often.
NAMED, ANNOTATED = (
    st.dictionaries(keys, SCALARS, max_size=3) | st.dictionaries(keys, VALUES, max_size=3)
    for keys in (st.text(max_size=2), KEYS)
)
ONE_IN_TEN = st.integers(0, 9)
EXCESS: st.SearchStrategy[list[Any]] = st.just([]) | st.lists(SCALARS, max_size=9)
LISTS = st.lists(VALUES, max_size=3)
PERHAPS: dict[str, st.SearchStrategy[Any]] = {
    name: st.none() | drawn for name, drawn in FIELDS.items()
}


@st.composite
def section_values(draw: st.DrawFn, kind: SectionKind) -> Any:
    if draw(ONE_IN_TEN) == 0:
        return draw(VALUES)
    if kind.source == "map":
        return draw(NAMED if kind.name == "application-properties" else ANNOTATED)
    if kind.source == "binary":
        return draw(st.binary(max_size=3))
    if kind.name in ("header", "properties"):
        fields = rows(kind.cls)[: draw(st.integers(0, len(rows(kind.cls))))]
        values = [draw(VALUES if draw(ONE_IN_TEN) == 9 else PERHAPS[row.type]) for row in fields]
        return [*values, *draw(EXCESS)]
    return draw(LISTS if kind.source == "list" else VALUES)


@functools.cache
def codes(kind: SectionKind) -> st.SearchStrategy[bytes]:
    return st.sampled_from(
        [
            b"\x53" + bytes([kind.code]),
            b"\x80" + kind.code.to_bytes(8),
            encode_value(Symbol(kind.symbol)),
        ]
    )


@st.composite
def sections(draw: st.DrawFn, kind: SectionKind) -> bytes:
    if draw(st.integers(0, 29)) == 0:
        return encode_value(draw(VALUES))
    head = draw(codes(kind))
    return b"\x00" + head + encode_value(draw(section_values(kind)))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=6))
    if draw(st.integers(0, 3)):
        kinds.sort(key=lambda kind: kind.code)
    return b"".join(draw(sections(kind)) for kind in kinds)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(messages()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        change = draw(st.sampled_from(["set", "insert", "cut", "delete"]))
        octet = draw(st.sampled_from([0, 0x40, 0x45, 0x53, 0xA1, 0xC0, 0xC1, 0xE0, 0xFF]))
        if change == "insert":
            data.insert(at, octet)
        elif change == "cut":
            del data[at:]
        elif change == "delete":
            del data[at : at + draw(st.integers(1, 3))]
        elif at < len(data):
            data[at] = draw(st.just(octet) | st.integers(0, 255))
    return bytes(data)


OCTETS = st.one_of(messages(), damaged(), st.binary(max_size=40))
LIMITS = st.builds(
    Limits,
    depth=st.integers(1, 4),
    items=st.integers(0, 8),
    zero_width=st.integers(0, 4),
    size=st.none() | st.integers(0, 60),
)
