"""The figures with which README and documentation compare this library with others."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from amqp10msg import DecodeError, Message, scan
from amqp10msg.interop import corpus
from amqp10msg.validation import RULES
from tests.samples import corpus_cases

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
COMPARISON = (ROOT / "docs/explanation/comparison.md").read_text(encoding="utf-8")


@cache
def recorded() -> list[bytes]:
    """Return the recorded messages of the corpus."""
    cases = corpus_cases()
    return [
        one.data for one in cases if one.origin.startswith("recorded") and one.kind == "message"
    ]


def is_kept(octets: bytes) -> bool:
    """Whether a message is the same bytes when encoded again, the bare one when annotated."""
    message = Message.decode(octets, strict=False)
    annotations = {**(message.message_annotations or {}), "x-opt-hop": 1}
    changed = message.evolve(message_annotations=annotations)
    return message.encode() == octets and changed.bare == message.bare


def is_decoded_strictly(octets: bytes) -> bool:
    try:
        Message.decode(octets)
    except DecodeError:
        return False
    return True


def row(name: str) -> list[str]:
    """The cells of a row of the comparison, behind its name."""
    (line,) = [line for line in COMPARISON.splitlines() if line.startswith(f"| {name}")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def shown_of(counts: dict[str, int]) -> str:
    wrong = counts["fail"] + counts["error"]
    return f"{counts['pass']}, {counts['note']}, {wrong}, {counts['skip']}"


def test_our_figures() -> None:
    kept = sum(map(is_kept, recorded()))
    counts = corpus.run(corpus_cases(), corpus.Amqp10msg()).counts()

    assert len(recorded()) == kept
    assert f"all {kept} messages recorded from RabbitMQ, proton and rhea survive" in README
    lenient = sum(not is_decoded_strictly(octets) for octets in recorded())
    assert f"{lenient} of them only with `strict=False`" in README
    assert f"{sum(rule.in_messages for rule in RULES.values())} rules" in README
    assert str(kept) == row("Messages of the corpus")[0]
    assert f"of {len(recorded())} |" in COMPARISON
    shown = shown_of(counts)
    assert shown == row("Cases of the corpus")[0]
    assert f"of {len(corpus_cases())} |" in COMPARISON


def test_measured_figures_of_proton() -> None:
    proton = pytest.importorskip("proton")
    if proton.VERSION < (0, 40):
        pytest.skip("measured with a later version")
    kept = bare = 0
    for octets in recorded():
        message = proton.Message()
        try:
            message.decode(octets)
            encoded = message.encode()
        except Exception:  # noqa: BLE001  (whatever it raises, it is not kept)
            continue
        kept += encoded == octets
        bare += scan(encoded).bare == scan(octets).bare
    counts = corpus.run(corpus_cases(), corpus.Proton()).counts()

    assert f"python-qpid-proton preserves {kept} messages, and {bare} bare messages" in README
    assert str(kept) == row("Messages of the corpus")[1]
    shown = shown_of(counts)
    assert shown == row("Cases of the corpus")[1]


def test_measured_figures_of_azure() -> None:
    decode = pytest.importorskip("azure.servicebus._pyamqp._decode").decode_payload
    encode = pytest.importorskip("azure.servicebus._pyamqp._encode").encode_payload
    kept = 0
    for octets in recorded():
        try:
            kept += bytes(encode(bytearray(), decode(memoryview(octets)))) == octets
        except Exception:  # noqa: BLE001
            continue

    assert str(kept) == row("Messages of the corpus")[2]
