"""The fuzzer itself: what it checks holds of the corpus, and what breaks it is found."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import amqp10msg
import amqp10msg.basic
import amqp10msg.delivery  # registers its composites, as the other copy of the package does
import amqp10msg.translate
from fuzz import basic, builds, kernels, notations
from fuzz.check import agreement, contract
from fuzz.mutate import mutate
from fuzz.worker import Target, functions
from tests.samples import corpus_cases, shortened, some

pytestmark = pytest.mark.once

SEEDS = [case.data for case in corpus_cases()]


@pytest.fixture(scope="module")
def other() -> ModuleType:
    return builds.load(pure=amqp10msg.COMPILED)


def test_contract_holds_for_corpus_and_its_mutations(tmp_path: Path) -> None:
    draw = random.Random(1)
    target = Target("compiled" if amqp10msg.COMPILED else "pure", tmp_path)
    inputs = [*some(SEEDS), *(mutate(SEEDS, draw) for _ in range(shortened(300)))]
    for octets in inputs:
        target(octets)
    assert (len(inputs), 0) == (target.inputs, target.findings.count)


@pytest.mark.skipif(not amqp10msg.COMPILED, reason="the kernel is not compiled")
def test_builds_agree_on_corpus(other: ModuleType) -> None:
    for octets in SEEDS[::4]:  # `make fuzz` compares the builds on all
        agreement(amqp10msg, other, octets)


class Broken(ModuleType):
    """The package, but for one function."""

    def __init__(self, **changes: Any) -> None:
        super().__init__("broken")
        self.__dict__.update(vars(amqp10msg), **changes)


def fails(*_: object, **__: object) -> object:
    raise IndexError("beyond the end")


@pytest.mark.parametrize(
    "changes",
    [
        {"decode_value": fails},
        {"skip_value": fails},
        {"scan": fails},
        {"validate": fails},
        {"encode_value": lambda _: b"\x40\x40"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_contract_violation_is_detected(changes: dict[str, Any]) -> None:
    contract(amqp10msg, b"\x40")
    with pytest.raises((IndexError, AssertionError, amqp10msg.DecodeError)):
        contract(Broken(**changes), b"\x40")


def test_different_outcome_is_detected() -> None:
    octets = b"\x00\x53\x77\x52\x01"
    agreement(amqp10msg, Broken(), octets)
    for changes in (
        {"decode_value": lambda octets: amqp10msg.decode_value(octets[:-2] + b"\x55\x01")},
        {"skip_value": lambda octets: len(octets) + 1},
        {"validate": fails},
    ):
        with pytest.raises((AssertionError, IndexError)):
            agreement(amqp10msg, Broken(**changes), octets)


def test_findings_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("compiled" if amqp10msg.COMPILED else "pure", tmp_path / "findings")
    monkeypatch.setattr("fuzz.worker.contract", fails)
    monkeypatch.setattr("fuzz.worker.core", fails)
    for number in range(9):
        target(bytes([number]))
    with pytest.raises(RuntimeError, match="10 findings"):
        target(b"\x09")
    kept = {path.read_bytes() for path in (tmp_path / "findings").iterdir()}
    assert {bytes([number]) for number in range(10)} == kept


def test_mutations_are_reproducible() -> None:
    one, other = ([mutate(SEEDS, random.Random(seed)) for seed in range(50)] for _ in range(2))
    assert one == other
    assert len(set(one)) > 40


def test_package_functions_are_listed() -> None:
    found = {(function.__module__, function.__qualname__) for function in functions("amqp10msg")}
    assert {
        ("amqp10msg.message", "Message.evolve"),
        ("amqp10msg.message", "Message.violations"),
        ("amqp10msg.wire.kernel.path", "path_of"),
    } <= found
    assert (
        ("amqp10msg.wire.kernel.value_reader", "ValueReader.read_map") in found
    ) is not amqp10msg.COMPILED


# AMQP 0-9-1 and the translator.


@pytest.fixture(scope="module")
def basic_seeds() -> dict[str, list[bytes]]:
    return basic.seeds()


@pytest.mark.parametrize("kind", basic.CHECKS)
def test_basic_contract_holds_for_mutated_bytes(
    basic_seeds: dict[str, list[bytes]], kind: str
) -> None:
    draw = random.Random(kind)
    assert len(basic_seeds[kind]) > 50
    for octets in draw.sample(basic_seeds[kind], 30):
        basic.CHECKS[kind](amqp10msg, octets)
    for _ in range(100):
        basic.CHECKS[kind](amqp10msg, mutate(basic_seeds[kind], draw))


@pytest.mark.skipif(not amqp10msg.COMPILED, reason="the kernel is not compiled")
@pytest.mark.parametrize("kind", basic.CHECKS)
def test_builds_agree_on_0_9_1_properties(
    other: ModuleType, basic_seeds: dict[str, list[bytes]], kind: str
) -> None:
    for octets in random.Random(kind).sample(basic_seeds[kind], 20):
        basic.agreement(amqp10msg, other, kind, octets)


@pytest.mark.parametrize("name", ["decode_table", "encode_table"])
def test_basic_contract_violation_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    octets = bytes.fromhex("00000007016b4900000007")
    basic.table(amqp10msg, octets)
    monkeypatch.setattr(amqp10msg.basic, name, fails)
    with pytest.raises(IndexError):
        basic.table(amqp10msg, octets)


def test_lossy_round_trip_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    octets = bytes.fromhex("80000474657874")
    basic.properties(amqp10msg, octets)
    nothing = amqp10msg.translate.to_amqp10(amqp10msg.basic.BasicMessage())
    monkeypatch.setattr(amqp10msg.translate, "to_amqp10", lambda *_, **__: nothing)
    with pytest.raises(AssertionError, match="does not come back"):
        basic.properties(amqp10msg, octets)


def test_library_is_stale_if_an_included_file_is_newer() -> None:
    made_of = set(kernels._sources(kernels._kernels()))

    assert {*(kernels.ROOT / "amqp10msg").rglob("*.pxi")} <= made_of
    assert {path.name for path in made_of} >= {"kernel.pyx", "scan.pyx", "messages.py", "twin.pxd"}


@pytest.mark.skipif(not amqp10msg.COMPILED, reason="the kernel is not compiled")
def test_builds_agree_on_notations(other: ModuleType) -> None:
    for octets in SEEDS[::10]:
        assert builds.alike(notations.check(amqp10msg, octets), notations.check(other, octets))


def test_lossy_notation_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amqp10msg.notation, "from_cbor", lambda _: "another")

    with pytest.raises(AssertionError, match=r"^cbor: "):
        notations.check(amqp10msg, amqp10msg.Message(b"x").encode())


def test_mutated_documents_differ_and_original_is_kept() -> None:
    draw = random.Random(1)
    document = {"header": {"ttl": 1}, "body": ["list", [["int", 1]]]}
    made = [notations.spoilt(document, draw) for _ in range(100)]

    assert {"header": {"ttl": 1}, "body": ["list", [["int", 1]]]} == document
    assert sum(one != document for one in made) > 90
