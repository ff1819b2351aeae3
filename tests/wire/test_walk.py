"""The walk over bytes: that it agrees with the kernel's reader, and what it costs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amqp10msg.sections.parts
import amqp10msg.wire.kernel.path
import amqp10msg.wire.kernel.walk
from amqp10msg import (
    AmqpMap,
    Array,
    Described,
    Message,
    decode_value,
    encode_value,
    scan,
    skip_value,
    validate,
)
from amqp10msg.testing import messages, mutated, values
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.path import path_of
from amqp10msg.wire.kernel.walk import (
    FAULT_TOO_DEEP,
    MAX_LEVELS,
    ROLE_CONSTRUCTOR,
    ROLE_VALUE,
    Value,
    end_of,
    walk,
)
from amqp10msg.wire.primitives import FORMAT_CODES

OCTETS = st.binary(max_size=80) | messages().map(Message.encode).flatmap(mutated)


def simple_values(value: Any) -> Iterator[Any]:
    """The values in a value that hold no others, in the order of their bytes."""
    if isinstance(value, Described):
        yield from simple_values(value.descriptor)
        yield from simple_values(value.value)
    elif isinstance(value, (dict, AmqpMap)):
        for pair in value.items():
            for one in pair:
                yield from simple_values(one)
    elif isinstance(value, Array):
        for one in value.descriptors:
            yield from simple_values(one)
        for one in value.values:
            yield from simple_values(one)
    elif isinstance(value, list):
        for one in value:
            yield from simple_values(one)
    else:
        yield value


def is_element(value: Value) -> bool:
    """Whether a value stands in an array, without a constructor of its own."""
    return value.parent is not None and value.parent.code >= 0xE0 and value.role is ROLE_VALUE


def octets_of(data: bytes, value: Value) -> bytes:
    """The bytes of a simple value, with its constructor."""
    start = value.offset if is_element(value) else value.offset + 1
    return bytes((value.code,)) + data[start : value.end]


@given(values())
def test_walk_finds_the_values_that_the_reader_finds(value: Any) -> None:
    data = encode_value(value)
    found = list(walk(data))

    assert [] == [one for one in found if one.fault]
    assert (0, len(data)) == (found[0].offset, found[0].end)
    empty_list = 0x45
    simple = [
        one
        for one in found
        if 0 < one.code < 0xC0 and one.code != empty_list and one.role is not ROLE_CONSTRUCTOR
    ]
    expected = list(simple_values(decode_value(data)))
    assert [encode_value(one) for one in expected] == [
        encode_value(decode_value(octets_of(data, one))) for one in simple
    ]
    for one in found:
        if one.role is not ROLE_CONSTRUCTOR and not is_element(one):
            assert skip_value(data, one.offset) == one.end == end_of(data, one.offset, len(data))


@given(OCTETS)
def test_walk_covers_any_bytes_without_overlap(data: bytes) -> None:
    found = list(walk(data))
    at = 0
    for one in found:
        assert at == one.offset <= one.content <= one.end <= len(data)
        if one.parent is not None:
            assert one.parent.content <= one.offset
            assert one.end <= one.parent.end
            assert one.level > one.parent.level
        holds_more = one.code == 0 or one.code >= 0xC0
        at = one.content if holds_more and not one.fault else one.end
        if one.role is ROLE_CONSTRUCTOR or one.fault:
            at = one.end
    assert len(data) == at


@given(OCTETS, st.integers(0, 80))
def test_end_of_agrees_with_skip(data: bytes, pos: int) -> None:
    try:
        expected = skip_value(data, pos)
    except DecodeError:
        expected = -1
    assert expected == end_of(data, pos, len(data))


@given(values(), values())
def test_walk_skips_closed_values(first: Any, second: Any) -> None:
    data = encode_value([first, second])
    found = []
    for one in walk(data):
        found.append(one)
        one.should_enter = one.parent is None or not one.is_compound
    children = [one for one in found if one.parent is found[0]]
    assert [data[one.offset : one.end] for one in children] == list(
        map(encode_value, (first, second))
    )


def test_walk_leaves_a_closed_parent() -> None:
    data = encode_value([[1, [2], 3], 4])
    found = []
    for one in walk(data):
        found.append(one.code)
        if one.level == 2:
            assert one.parent is not None
            one.parent.should_enter = False
    assert [0xC0, 0xC0, 0x55, 0x55] == found


def test_every_format_code_has_its_width() -> None:
    for code, row in FORMAT_CODES.items():
        if row.category in ("fixed", "variable"):
            data = bytes((code,)) + bytes(row.width) + b"\x40"
            assert [(0, row.width + 1), (row.width + 1, row.width + 2)] == [
                (one.offset, one.end) for one in walk(data)
            ]


# What it costs. The zeros are descriptors of descriptors: strict reading ends at the limit of
# depth, whatever follows.

ZEROS = b"\x00\x53\x77" + bytes(1 << 20)
NESTED = b"\x00\x53\x77" + b"\x00\x44" * (1 << 19)


def source_of(module: ModuleType) -> Any:
    """The Python source of a module, which the compiled one hides: its accesses can be counted."""
    file = Path(amqp10msg.__file__).parents[1] / f"{module.__name__.replace('.', '/')}.py"
    spec = importlib.util.spec_from_file_location(f"source_of_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    source = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = source  # attrs looks up the annotations there
    spec.loader.exec_module(source)
    return source


SOURCE = source_of(amqp10msg.wire.kernel.walk)


class Steps:
    """Counts the values that a walk finds, and bytes that a search for an end looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0

        def counted(data: bytes, pos: int = 0) -> Iterator[Value]:
            for value in walk(data, pos):
                self.steps += 1
                yield value

        def watched(data: bytes, pos: int, limit: int) -> int:
            ends: int = SOURCE.end_of(_Watched(self, data), pos, limit)
            return ends

        def elements(data: bytes, pos: int, limit: int) -> Any:
            return SOURCE.elements_of(_Watched(self, data), pos, limit)

        monkeypatch.setattr(amqp10msg.wire.kernel.path, "walk", counted)
        monkeypatch.setattr(amqp10msg.wire.kernel.path, "end_of", watched)
        monkeypatch.setattr(amqp10msg.sections.parts, "end_of", watched)
        monkeypatch.setattr(amqp10msg.sections.parts, "elements_of", elements)


class _Watched(bytes):
    """Bytes that count how often they are looked at."""

    def __new__(cls, steps: Steps, data: bytes) -> Self:
        made = super().__new__(cls, data)
        made.steps = steps
        return made

    steps: Steps

    def __getitem__(self, index: Any) -> Any:
        self.steps.steps += 1
        return super().__getitem__(index)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


@pytest.mark.parametrize("data", [ZEROS, NESTED], ids=["zeros", "nested"])
@pytest.mark.parametrize("read", [Message.decode, decode_value])
def test_path_costs_at_most_as_much_as_reading(
    data: bytes, read: Callable[[bytes], object], steps: Steps
) -> None:
    with pytest.raises(DecodeError) as caught:
        read(data)
    # The bytes up to the fault in search of where the outermost value ends, and the values that
    # begin there, each of one byte at least. For a message, the section with the fault is read
    # again for the first fault: its end, its errors, and the path of each.
    passes = 2 if read is decode_value else 8
    assert 0 < steps.steps <= passes * (caught.value.offset + 1)


@pytest.mark.parametrize("read", [scan, skip_value])
def test_a_path_to_the_end_is_bounded(read: Callable[[bytes], object], steps: Steps) -> None:
    with pytest.raises(DecodeError):
        read(ZEROS)
    assert 0 < steps.steps <= 1_000 + MAX_LEVELS + 10
    with pytest.raises(DecodeError):
        read(b"\x00\x40" * 50_000)
    assert steps.steps <= 20_000


def test_validation_of_endless_nesting_is_bounded(steps: Steps) -> None:
    for data in (ZEROS, NESTED):
        steps.steps = 0
        found = validate(data)
        assert "depth-limit" in [violation.rule for violation in found]
        # Up to a thousand descriptors in search of the end, and the path of the fault.
        assert 0 < steps.steps <= 4_000


def test_walk_depth_is_limited() -> None:
    deepest = list(walk(ZEROS))[-1]
    assert (FAULT_TOO_DEEP, MAX_LEVELS + 1, len(ZEROS)) == (
        deepest.fault,
        deepest.level,
        deepest.end,
    )


def test_path_after_very_many_values_is_the_parents() -> None:
    data = encode_value([0] * 20_000) + b"\x99"
    assert "[5]" == path_of(data, 9 + 2 * 5, {})
    assert "[…]" == path_of(data, 9 + 2 * 15_000, {})
