"""The bench of attacks, and each bound of the library with the input that it is there for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from amqp10msg import (
    DecodeError,
    Header,
    Limits,
    Message,
    decode_value,
    notation,
    scan,
    validate,
)
from amqp10msg.delivery import filters
from fuzz import attacks
from fuzz.attacks import ATTACKS, ENTRY_POINTS, VALUES, Attack, measure

pytestmark = pytest.mark.once

SECURITY = Path(__file__).parents[2] / "SECURITY.md"


def value(name: str) -> bytes:
    return VALUES[name](10_000)


@pytest.mark.parametrize(
    "name, limits, rule",
    [
        ("nested lists", Limits(depth=249), "depth-limit"),
        ("nested map keys", Limits(depth=249), "depth-limit"),
        ("nulls", Limits(items=9_000), "items-limit"),
        ("zero-width elements", Limits(zero_width=9_000), "zero-width-limit"),
        ("a fault at the end", Limits(size=9_999), "size-limit"),
    ],
)
def test_limits_of_decoding(name: str, limits: Limits, rule: str) -> None:
    octets = value(name)
    for read in (
        lambda: decode_value(octets, limits=limits),
        lambda: Message.decode(b"\x00\x53\x77" + octets, limits=limits),
    ):
        with pytest.raises(DecodeError) as caught:
            read()
        assert (rule, "amqp:resource-limit-exceeded") == (
            caught.value.rule,
            caught.value.condition,
        )


@pytest.mark.parametrize("name", attacks.EXPRESSIONS)
@pytest.mark.parametrize("parse", [filters.Selector, filters.SqlFilter])
def test_limits_of_expressions(name: str, parse: Callable[[str], object]) -> None:
    text = attacks.EXPRESSIONS[name](1_000_000).decode()

    with pytest.raises(filters.ExpressionError):
        parse(text)


def test_work_on_one_message_is_bounded() -> None:
    message = Message.decode(attacks.PATTERNS["a long property"](1_000_000))

    limits = filters.FilterLimits(steps=10_000_000)

    with pytest.raises(filters.EvaluationError, match="steps"):
        filters.Selector(attacks.LIKE, limits=limits).matches(message)


def test_violations_and_fields_are_bounded() -> None:
    octets = attacks.MESSAGES["header sections"](10_000)
    found = [violation.rule for violation in validate(octets)]

    assert max(found.count(rule) for rule in found) <= 100
    assert len(list(notation.parse_tree(octets, limit=50).walk())) < 200


def test_excessive_cost_and_failures_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def memory(data: bytes) -> int:
        return len(bytearray(b"x") * (3_000 * len(data)))

    def failing(_: bytes) -> None:
        raise KeyError("not an error of the library")

    def dying(_: bytes) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def endless(_: bytes) -> None:
        while True:
            pass

    uses = {"memory": memory, "failing": failing, "dying": dying, "endless": endless, "none": len}
    monkeypatch.setitem(ENTRY_POINTS, "x", uses)
    monkeypatch.setattr(attacks, "_KILLED", 1)
    attack = Attack("bytes", "x", bytes)

    found = {name: measure(attack, name, 20_000) for name in uses}

    assert {"memory": True, "failing": True, "dying": True, "endless": True, "none": False} == {
        name: cost.is_too_much for name, cost in found.items()
    }
    assert 55e6 < found["memory"].memory
    assert "KeyError" in found["failing"].failed
    assert found["dying"].failed == "SIGKILL"


def test_attacks_declare_size_and_entry_points() -> None:
    for attack in ATTACKS:
        assert ENTRY_POINTS[attack.kind]
        assert len(attack.make(10_000)) <= 30_000, attack.name
    kinds = {attack.name: attack.kind for attack in ATTACKS}
    for name, *entries in attacks.KNOWN:
        assert set(entries) <= set(ENTRY_POINTS[kinds[name]])


def test_formerly_quadratic_inputs_are_linear() -> None:
    for name, kind, entry in (
        ("data sections", "message", "evolve and encode"),
        ("data sections", "message", "for_next_hop"),
        ("segments backwards", "capture", "read_capture"),
        ("segments with gaps", "capture", "read_capture"),
    ):
        (attack,) = (a for a in ATTACKS if (a.name, a.kind) == (name, kind))
        cost = measure(attack, entry)
        assert not cost.is_too_much, cost
    octets = attacks.MESSAGES["data sections"](1_000)
    assert len(scan(octets).replace(header=Header(priority=1))) > len(octets)


def test_limits_are_documented() -> None:
    text = SECURITY.read_text(encoding="utf-8")
    for field in Limits.__attrs_attrs__:
        assert f"`Limits.{field.name}`" in text
