"""The comparison of two builds on inputs made by chance: it sees differences, and keeps them."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amqp10msg
import amqp10msg.basic
from amqp10msg.testing import messages, values
from fuzz import agree, builds, shapes
from tests.samples import corpus_cases

pytestmark = pytest.mark.once

needs_kernel = pytest.mark.skipif(not amqp10msg.COMPILED, reason="the kernel is not compiled")


@pytest.fixture(scope="module")
def other() -> ModuleType:
    return builds.load(pure=True)


@pytest.fixture(scope="module")
def known() -> list[bytes]:
    return agree.seeds(Path("there is no such folder"))


# Values of two copies of the package.


@needs_kernel
@given(one=values(), another=values())
def test_values_are_alike_iff_encodings_are_equal(
    other: ModuleType, one: Any, another: Any
) -> None:
    first, second = amqp10msg.encode_value(one), amqp10msg.encode_value(another)
    made, copy = amqp10msg.decode_value(first), other.decode_value(first)
    assert builds.alike(made, copy)
    assert builds.alike(copy, made)
    assert (first == second) is builds.alike(amqp10msg.decode_value(second), copy)


@pytest.mark.parametrize(
    "one, another",
    [
        (1, True),
        (0.0, -0.0),
        (1, 1.0),
        ("a", b"a"),
        ("a", amqp10msg.Symbol("a")),
        (amqp10msg.UInt(1), amqp10msg.UByte(1)),
        (amqp10msg.Float(0.0), amqp10msg.Float(-0.0)),
        (amqp10msg.Decimal32(1), amqp10msg.Decimal32(2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1, 2], [1]),
        ([1], (1,)),
        (amqp10msg.Described(1, 2), amqp10msg.Described(1, 3)),
        (amqp10msg.Array("int", [1]), amqp10msg.Array("int", [2])),
        (amqp10msg.AmqpMap([(1, 2)]), amqp10msg.AmqpMap([(1, 3)])),
        (amqp10msg.Header(priority=1), amqp10msg.Header(priority=2)),
        (amqp10msg.DecodeError("x", 1), amqp10msg.DecodeError("x", 2)),
        (amqp10msg.DecodeError("x", 1), amqp10msg.DecodeError("x", 1, rule="truncated")),
        (amqp10msg.basic.FieldTable({"a": 1}), amqp10msg.basic.FieldTable({"a": 2})),
    ],
    ids=repr,
)
def test_different_values_are_not_alike(one: Any, another: Any) -> None:
    assert builds.alike(one, one)
    assert builds.alike(another, another)
    assert not builds.alike(one, another)
    assert not builds.alike([one], [another])
    assert not builds.alike({"k": one}, {"k": another})


# Inputs.


@given(st.lists(values().map(amqp10msg.encode_value), max_size=3))
def test_tree_reencodes_to_same_values(encoded: list[bytes]) -> None:
    octets = b"".join(encoded)
    tree = shapes.parse(octets)
    assert tree is not None
    written = shapes.write(tree)
    assert builds.alike([*amqp10msg.decode_values(octets)], [*amqp10msg.decode_values(written)])
    assert len(written) <= len(octets)


@given(messages(), st.randoms(use_true_random=False))
def test_a_changed_message_leaves_its_tree_alone(
    message: amqp10msg.Message, draw: random.Random
) -> None:
    tree = shapes.parse(message.encode())
    assert tree is not None
    before = shapes.write(tree)
    changed = shapes.parse(shapes.reshape([tree], draw))
    assert changed is not None  # its sizes are right
    assert before == shapes.write(tree)


def test_invalid_bytes_have_no_tree() -> None:
    assert shapes.parse(b"\xc0\x05\x01\x40") is None
    assert shapes.parse(b"\x40\x3f") is None


def test_edge_values_are_encodings() -> None:
    for edge in shapes.EDGES:
        assert len(edge) == amqp10msg.skip_value(edge), edge
    codes = {edge[0] for edge in shapes.EDGES}
    assert not [hex(code) for code in amqp10msg.wire.primitives.FORMAT_CODES if code not in codes]


def test_inputs_are_short_varied_and_repeatable(known: list[bytes]) -> None:
    cases = {case.data for case in corpus_cases() if len(case.data) <= agree.LONGEST}
    assert cases < set(known)

    def changes(seed: int) -> list[bytes]:
        drawn = agree.inputs(known, random.Random(seed))
        return list(islice(drawn, len(known), len(known) + 2_000))

    made = changes(1)
    assert made == changes(1)
    assert len(set(made)) > 1_800
    assert not set(made) & set(changes(2)) > set(made[:1_000])
    # Some decode and some do not: both say something.
    assert 200 < sum(map(agree.is_message, made)) < 1_800


# The comparison.


@needs_kernel
def test_both_builds_agree(known: list[bytes], other: ModuleType, tmp_path: Path) -> None:
    comparison = agree.Comparison(other, tmp_path / "findings")
    drawn = agree.inputs(random.Random(3).sample(known, 200), random.Random(3))
    for octets in islice(drawn, 1_000):
        comparison(octets)
    assert (1_000, 0) == (comparison.inputs, comparison.findings.count)
    assert 100 < comparison.decoded < 1_000
    assert "1,000 inputs" in comparison.told(0.5)
    assert "2000 a second" in comparison.told(0.5)
    assert not (tmp_path / "findings").exists()


class Changed(ModuleType):
    """A package, but for one name."""

    def __init__(self, package: ModuleType, **changes: Any) -> None:
        super().__init__("changed")
        self.__dict__.update(vars(package), **changes)


@needs_kernel
@pytest.mark.parametrize("name", ["decode_value", "skip_value", "scan", "validate", "Message"])
def test_difference_is_stored(other: ModuleType, tmp_path: Path, name: str) -> None:
    octets = bytes.fromhex("005370c0020142005377a10161")

    def fails(*_: object, **__: object) -> object:
        raise other.DecodeError("something else", 3)

    changed: Any = fails
    if name == "Message":
        changed = type("Message", (other.Message,), {"encode": lambda _: b"\0" + octets})
    comparison = agree.Comparison(Changed(other, **{name: changed}), tmp_path)
    comparison(octets)
    assert 1 == comparison.findings.count
    assert [octets] == [path.read_bytes() for path in tmp_path.iterdir()]


@needs_kernel
def test_run_ends_after_count_or_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grown, findings = tmp_path / "grown", tmp_path / "findings"
    assert 0 == agree.run(150, 1, seconds=None, grown=grown, findings=findings)
    assert "agree: 150 inputs" in capsys.readouterr().out
    ticks = iter(range(1_000))  # one is taken at the begin, one every 64 inputs
    assert 0 == agree.run(
        10_000, 1, seconds=2, clock=lambda: next(ticks), grown=grown, findings=findings
    )
    assert "agree: 64 inputs" in capsys.readouterr().out
