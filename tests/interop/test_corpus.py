"""The corpus that comes with the library: what is in it, and that the library passes it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from amqp10msg import DecodeError, Limits, Message
from amqp10msg.delivery import TERMINUS_RULES, filters
from amqp10msg.interop import corpus
from amqp10msg.interop.corpus import QUESTION_KINDS, Case, RefusedError, UnsupportedError
from amqp10msg.interop.corpus.implementations import COMPOSITE_RULES
from amqp10msg.notation import from_typed, to_typed
from amqp10msg.sections import KINDS as SECTIONS
from amqp10msg.translate import PROFILES as TRANSLATIONS
from amqp10msg.validation import PROFILES, RULES
from amqp10msg.wire.primitives import FORMAT_CODES

ROOT = Path(__file__).parents[2]
DATA = ROOT / "amqp10msg" / "interop" / "corpus" / "data"


@cache
def shipped() -> list[Case]:
    return corpus.load()


def test_corpus_is_large_enough_and_of_known_origin() -> None:
    by_origin = Counter(re.match(r"\w+ \w+", one.origin)[0] for one in shipped())  # type: ignore[index]
    assert {"written by", "generated from", "recorded from", "observed at"} == by_origin.keys()
    assert by_origin["written by"] >= 1_200
    assert by_origin["generated from"] >= 2_700
    assert len(shipped()) >= 5_000
    recorded = [one for one in shipped() if one.origin.startswith("recorded from ")]
    senders = {re.split(r"[,:]", one.origin.removeprefix("recorded from "))[0] for one in recorded}
    assert {
        *("RabbitMQ 3.10.8", "RabbitMQ 4.0.5", "RabbitMQ 4.3.6"),
        *("python-qpid-proton 0.40.0", "rhea 3.0.5"),
    } == senders
    assert {"Apache-2.0"} == {one.licence for one in shipped()}


def test_ids_and_octets_are_unique() -> None:
    assert len(shipped()) == len({one.id for one in shipped()})
    profiled = [
        (one.kind, one.data, one.profile, json.dumps([one.limits, one.given])) for one in shipped()
    ]
    assert len(profiled) == len(set(profiled))


# The clauses that there are: what has no subsections, or has a text of its own.
CLAUSES = {
    *(f"Part 1, {clause}" for clause in ("1.2", "1.2.1", "1.2.2", "1.2.3", "1.2.4", "1.4", "1.5")),
    *(f"Part 1, 1.6.{number}" for number in range(1, 25)),
    *("Part 2, 2.8.14", "Part 2, 2.8.15"),
    *("Part 2, 2.6.13", "Part 3, 3.4.6", "Part 3, 3.5.8"),
    *(f"0-9-1, 4.2.{clause}" for clause in ("5.1", "5.3", "5.4", "5.5", "6.1")),
    # Nothing was recorded from 4.2.
    *(
        f"Translation, {profile}"
        for profile in TRANSLATIONS
        # A derived profile has the rules of its base, and no engine of its own.
        if profile != "rabbitmq-4.2" and TRANSLATIONS[profile].engine == profile
    ),
    *(f"Part 3, 3.{clause}" for clause in ("2", "4.1", "4.2", "4.3", "4.4", "4.5")),
    *(f"Part 3, 3.2.{number}" for number in range(1, 16)),
    *(f"Part 3, 3.5.{number}" for number in (3, 4, 10, 11, 12, 13)),
    *(f"Part 4, 4.5.{number}" for number in (1, 2, 3, 5, 8)),
}


def test_every_clause_is_there_and_no_other() -> None:
    assert CLAUSES == {one.clause for one in shipped()}


def constructors(typed: Any) -> Iterable[int]:
    if isinstance(typed, list):
        if len(typed) > 2 and typed[0] == "array":
            yield int(typed[1], 16)
        for item in typed:
            yield from constructors(item)


def test_every_format_code_constructs_a_value_and_the_elements_of_an_array() -> None:
    read = [one for one in shipped() if one.kind == "value" and one.typed is not None]
    assert {0, *FORMAT_CODES} == {one.data[0] for one in read}
    assert set(FORMAT_CODES) == {code for one in read for code in constructors(one.typed)}


def test_every_format_code_is_also_cut_short() -> None:
    cut = {
        one.data[0]
        for one in shipped()
        if one.kind == "value"
        and one.error is not None
        and one.error.rule == "truncated"
        and one.data
    }
    with_octets = {code for code, row in FORMAT_CODES.items() if row.width}
    assert {0, *with_octets} == cut


def test_unknown_format_codes_cover_every_width() -> None:
    unknown = {
        one.data[0]
        for one in shipped()
        if one.error is not None and one.error.rule == "unknown-constructor" and one.data
    }
    assert set(range(16)) == {code >> 4 for code in unknown if code not in FORMAT_CODES} | {0xD}


def test_every_section_has_numeric_and_symbolic_descriptors() -> None:
    messages = [one for one in shipped() if one.kind == "message" and one.error is None]
    for kind in SECTIONS:
        named = [one for one in messages if any(kind.name == name for name, _ in one.typed)]
        assert any(b"\x00\x53" + bytes([kind.code]) in one.data for one in named), kind.name
        assert any(kind.symbol.encode() in one.data for one in named), kind.name


def test_every_rule_is_broken_by_a_message() -> None:
    broken = {rule for one in shipped() for rule, *_ in one.violations or ()}
    # One takes 4,097 keys, which is too large to ship; two do not show in bytes. The rules of Azure
    # are about its services, and no implementation of the specification is tested with them.
    left_out = {"keys-limit", "message-format", "not-encodable"}
    left_out |= {rule.id for rule in RULES.values() if rule.clause == "Azure"}
    assert {rule.id for rule in RULES.values() if rule.in_messages} - left_out == broken


def test_every_refusal_of_a_message_is_one_of_a_rule() -> None:
    refused = {
        one.error.rule for one in shipped() if one.kind == "message" and one.error is not None
    }
    rules = {rule.id for rule in RULES.values() if rule.refused and rule.in_messages}
    assert rules - {"keys-limit"} == refused


def test_every_rule_of_termini_is_broken_by_one_and_kept_by_others() -> None:
    asked = [one for one in shipped() if one.kind == "terminus"]
    broken = {rule for one in asked for rule, _, _ in one.answer["violations"]}
    # A source with such a default outcome is refused, and what cannot be encoded is no bytes.
    assert set(TERMINUS_RULES) - {"default-outcome", "not-encodable"} == broken
    for rule in TERMINUS_RULES.values():
        assert rule.id not in broken or any(
            set(rule.needs) <= (one.given or {}).keys() and rule.id not in json.dumps(one.answer)
            for one in asked
        )


def test_every_refusal_of_a_composite_is_there() -> None:
    refused = {one.error.rule for one in shipped() if one.kind == "composite" and one.error}
    assert {*COMPOSITE_RULES, "truncated"} == refused


def test_every_filter_has_verdicts_and_a_source() -> None:
    asked = [(one.given or {}, one.answer) for one in shipped() if one.kind == "filter"]
    sources = [one.data for one in shipped() if one.id.startswith("termini-source-filter-")]
    for name in {str(value.SYMBOL) for value in vars(filters).values() if hasattr(value, "SYMBOL")}:
        octets = name.encode()
        about = [answer for given, answer in asked if octets.hex() in given["filter"]]
        assert any(octets in data for data in sources), name
        # What is not evaluated here, and what vendors defined, stands in sources alone.
        if not name.startswith(("rabbitmq:", "com.", "apache.org:xquery")):
            assert {"true", "false"} <= set(map(json.dumps, about)), name


def test_every_limit_is_kept_and_broken_by_one_more() -> None:
    limited = [one for one in shipped() if one.limits is not None]
    # No case is a compressed file, and the limit per byte is a default of this library alone.
    names = {field.name for field in attrs.fields(Limits)} - {
        "expansion_ratio",
        "zero_width_per_byte",
    }
    for kind in ("value", "message"):
        for kept in (True, False):
            chosen = [one for one in limited if one.kind == kind and (one.error is None) is kept]
            assert names == {name for one in chosen for name in one.limits or ()}, (kind, kept)
    # What is refused within limits is refused for them alone.
    for one in limited:
        without = corpus.run([attrs.evolve(one, limits=None)])
        assert (one.error is None) == without.ok, one.id


def test_every_value_that_must_be_read_has_its_smallest_encoding() -> None:
    for one in shipped():
        assert (one.compact is not None) == (one.typed is not None and one.error is None), one.id
        assert one.compact is None or one.limits or len(one.compact) <= len(one.data), one.id


def test_severities_are_those_of_the_profile() -> None:
    for one in shipped():
        for rule, severity, _ in one.violations or ():
            assert PROFILES[one.profile].severities[rule] == severity, one.id


def test_warnings_do_not_cause_refusal() -> None:
    for one in shipped():
        if one.error is None and one.violations:
            assert not any(RULES[rule].refused for rule, *_ in one.violations), one.id


def test_typed_json_of_the_cases_is_typed_json() -> None:
    for one in shipped():
        if one.typed is not None and one.kind in ("value", "composite"):
            assert one.typed == to_typed(from_typed(one.typed)), one.id


@pytest.mark.once
def test_shipped_files_are_what_the_sources_say(tmp_path: Path) -> None:
    builder = ROOT / "tools" / "build_corpus.py"
    if not builder.is_file():
        pytest.skip("the sources of the corpus are not here: it takes a checkout")
    subprocess.run(
        [sys.executable, builder, tmp_path],
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    assert sorted(path.name for path in DATA.glob("*.jsonl")) == sorted(
        path.name for path in tmp_path.iterdir()
    )
    for path in DATA.glob("*.jsonl"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_shipped_cases_survive_a_cbor_sequence(tmp_path: Path) -> None:
    pytest.importorskip("cbor2")
    corpus.dump(shipped(), tmp_path / "all.cborseq")
    assert shipped() == corpus.load(tmp_path / "all.cborseq")
    corpus.dump(corpus.load(tmp_path / "all.cborseq"), tmp_path / "all.jsonl")
    files = b"".join(path.read_bytes() for path in sorted(DATA.glob("*.jsonl")))
    assert files == (tmp_path / "all.jsonl").read_bytes()


# This library.


def test_every_case_passes() -> None:
    report = corpus.run(shipped())
    assert [] == report.of("fail", "error", "skip"), report.text()
    by_id = {one.id: one for one in shipped()}
    for verdict in report.verdicts:
        accepted = None if verdict.kind in QUESTION_KINDS else by_id[verdict.case].error is None
        assert accepted == verdict.accepted, verdict.case


def test_every_case_passes_leniently() -> None:
    report = corpus.run(shipped(), corpus.Amqp10msg(strict=False))
    assert [] == report.of("fail", "error", "skip"), report.text()
    by_id = {one.id: one for one in shipped()}
    for verdict in report.verdicts:
        # Without strictness, all that says something is read.
        one = by_id[verdict.case]
        if one.kind in QUESTION_KINDS:
            continue
        assert (one.typed is not None) == verdict.accepted, verdict.case


class Kernel:
    """One build of the kernel, on values only."""

    name = "kernel"

    def __init__(self, wire: ModuleType, limits: Limits | None = None) -> None:
        self.wire = wire
        self.limits = limits

    def limited(self, limits: Mapping[str, int]) -> Kernel:
        return Kernel(self.wire, Limits(**limits))

    def decode(self, kind: str, data: bytes) -> Any:
        if kind != "value":
            raise UnsupportedError(kind)
        try:
            return to_typed(self.wire.decode_value(data, limits=self.limits))
        except DecodeError as error:
            raise RefusedError(str(error), error.rule, error.offset) from error

    def encode(self, kind: str, typed: Any) -> bytes:
        if kind != "value":
            raise UnsupportedError(kind)
        octets: bytes = self.wire.encode_value(from_typed(typed))
        return octets

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        raise UnsupportedError(f"{len(data)} {profile}")


def test_every_value_passes_on_both_builds(wire: ModuleType) -> None:
    report = corpus.run(shipped(), Kernel(wire))
    assert [] == report.of("fail", "error"), report.text()
    assert sum(one.kind == "value" for one in shipped()) == report.counts()["pass"]


def test_lenient_decoding_keeps_what_strict_decoding_refuses() -> None:
    for one in shipped():
        if one.kind == "message" and one.typed is not None:
            message = Message.decode(one.data, strict=False)
            assert one.data == message.encode(), one.id
            assert (one.error is None) or message.violations, one.id


def test_demo_messages_are_recorded_and_show_something() -> None:
    demo = corpus.demo_messages()
    assert 10 <= len(demo) <= 15
    assert all(one.origin.startswith("recorded from ") and one.note for one in demo)
    assert {"RabbitMQ", "python-qpid-proton", "rhea"} == {one.origin.split()[2] for one in demo}
    assert {kind.name for kind in SECTIONS} == {name for one in demo for name, _ in one.typed}
    broken = [one for one in demo if one.error is not None]
    assert demo[-3:] == broken
