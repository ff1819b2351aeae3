"""The runner of the corpus: with implementations that go wrong on purpose, and with other ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from amqp10msg.interop import corpus
from amqp10msg.interop.corpus import Case, Fault, RefusedError, UnsupportedError
from tests.samples import case

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


@cache
def shipped() -> list[Case]:
    return corpus.load()


class Scripted:
    """An implementation that does what it is told."""

    name = "scripted"

    def __init__(self, typed: Any = None, octets: Any = None, broken: Any = None) -> None:
        self.answers = {"decode": typed, "encode": octets, "validate": broken}

    def _answer(self, step: str) -> Any:
        answer = self.answers[step]
        if answer is None:
            raise UnsupportedError(f"no {step}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def decode(self, kind: str, data: bytes) -> Any:  # noqa: ARG002
        return self._answer("decode")

    def encode(self, kind: str, typed: Any) -> bytes:  # noqa: ARG002
        octets: bytes = self._answer("encode")
        return octets

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:  # noqa: ARG002
        found: list[Sequence[Any]] = self._answer("validate")
        return found


READ = case(typed=["boolean", True], compact=b"\x41")
REFUSED = case(typed=None, error=Fault("truncated", 1))
BOTH = case(error=Fault("truncated", 1))
ARRAY = case(typed=["array", "a3", [["symbol", "a"]]])
BREAKS = case(kind="message", typed=[], violations=(("a", "error", 0), ("b", "warning", 1)))


@pytest.mark.parametrize(
    "one, implementation, outcome, reason",
    [
        (READ, Scripted(["boolean", True]), "pass", ""),
        (READ, Scripted(["boolean", 1]), "fail", 'decoded to ["boolean", 1], not'),
        (READ, Scripted(["boolean", True], b"\x41"), "pass", ""),
        (READ, Scripted(["boolean", True], b"\x56\x01"), "fail", "encoded as 5601, not as 41"),
        (READ, Scripted(RefusedError("why")), "fail", "refused: why"),
        (READ, Scripted(), "skip", "no "),
        (READ, Scripted(octets=b"\x41"), "pass", ""),
        (READ, Scripted(KeyError("oops")), "error", "decode raised KeyError: 'oops'"),
        (READ, Scripted(["boolean", True], OSError("no")), "error", "encode raised OSError: no"),
        (
            REFUSED,
            Scripted(["null"]),
            "fail",
            'decoded to ["null"], but must be refused: truncated',
        ),
        (REFUSED, Scripted(RefusedError("why")), "pass", ""),
        (REFUSED, Scripted(RefusedError("why", "truncated", 1)), "pass", ""),
        (REFUSED, Scripted(RefusedError("why", "late")), "fail", "refused for late, not for"),
        (REFUSED, Scripted(RefusedError("why", None, 2)), "fail", "refused at 2, not at 1"),
        (BOTH, Scripted(RefusedError("why")), "pass", ""),
        (BOTH, Scripted(["uint", 0]), "pass", ""),
        (BOTH, Scripted(["ulong", 0]), "note", ", not ["),
        (ARRAY, Scripted(["array", "a3", [["symbol", "a"]]]), "pass", ""),
        (ARRAY, Scripted(["array", "symbol", [["symbol", "a"]]]), "pass", ""),
        (ARRAY, Scripted(["array", "b3", [["symbol", "a"]]]), "fail", ", not ["),
        (ARRAY, Scripted(["array", "string", [["symbol", "a"]]]), "fail", ", not ["),
        (BREAKS, Scripted([], None, [("b", "warning"), ("a", "error")]), "pass", ""),
        (BREAKS, Scripted([], None, [("b", "warning")]), "fail", "does not report a (error)"),
        (
            BREAKS,
            Scripted([], None, [("a", "error"), ("b", "error")]),
            "fail",
            "does not report b (warning); reports b (error)",
        ),
        (BREAKS, Scripted([], None, [("a", "error", 0), ("b", "warning", 1)]), "pass", ""),
        # Of several places the first one counts.
        (
            BREAKS,
            Scripted([], None, [("a", "error", 1), ("a", "error", 0), ("b", "warning")]),
            "pass",
            "",
        ),
        (
            BREAKS,
            Scripted([], None, [("a", "error", 1), ("b", "warning", 1)]),
            "fail",
            "reports a at 1, not at 0",
        ),
    ],
)
def test_verdict(one: Case, implementation: Scripted, outcome: str, reason: str) -> None:
    (verdict,) = corpus.run([one], implementation).verdicts
    assert outcome == verdict.outcome
    assert reason in verdict.reason
    assert bool(reason) == bool(verdict.reason)


def test_report_for_people_and_for_programs() -> None:
    report = corpus.run(
        [READ, case(id="c", clause="Part 3, 3.2.1"), case(id="b", clause="Part 1, 1.2")],
        Scripted(["boolean", True]),
    )
    assert not report.ok
    assert {"pass": 1, "note": 0, "fail": 2, "error": 0, "skip": 0} == report.counts()
    expected = """\
scripted

clause       pass  note  fail  error  skip
Part 1, 1.2     0     0     1      0     0
Part 1, 1.6     1     0     0      0     0
Part 3, 3.2     0     0     1      0     0
all             1     0     2      0     0

fail: c (Part 3, 3.2.1): decoded to ["boolean", true], not ["uint", 0]
fail: b (Part 1, 1.2): decoded to ["boolean", true], not ["uint", 0]
"""
    assert expected == report.text()
    made = json.loads(json.dumps(report.to_object()))
    assert ("scripted", report.counts()) == (made["implementation"], made["counts"])
    assert {
        "case": "c",
        "kind": "value",
        "clause": "Part 3, 3.2.1",
        "outcome": "fail",
        "reason": 'decoded to ["boolean", true], not ["uint", 0]',
        "accepted": True,
    } == made["verdicts"][1]


@pytest.mark.parametrize("cases", [[], [case(id="d", limits={"depth": 3})]])
def test_report_without_executed_cases_is_not_ok(cases: list[Case]) -> None:
    report = corpus.run(cases, Scripted([]))
    assert not report.ok
    assert f"all 0 0 0 0 {len(cases)}".split() == report.text().splitlines()[-1].split()


# Other implementations.


def test_proton_reads_what_was_recorded() -> None:
    pytest.importorskip("proton")
    proton = corpus.Proton()
    assert proton.name.startswith("python-qpid-proton 0.")
    recorded = [
        one
        for one in shipped()
        if one.origin.startswith("recorded from ") and one.kind == "message"
    ]
    report = corpus.run(recorded, proton)
    assert [] == report.of("fail", "error", "skip"), report.text()


def test_proton_agrees_on_values() -> None:
    pytest.importorskip("proton")
    values = [one for one in shipped() if one.kind == "value"]
    report = corpus.run(values, corpus.Proton())
    # Where proton is laxer: it does not look into booleans, chars and keys, nor at inner sizes.
    assert report.counts()["pass"] > 0.9 * len(values), report.text()
    read = {one.id for one in values if one.error is None}
    wrong = {verdict.case for verdict in report.of("fail", "error")} & read
    assert wrong <= {
        *("float-nan-signalling", "described-list-descriptor", "described-descriptor"),
        "array-of-described-twice",
    }


def test_missing_proton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "proton", None)
    with pytest.raises(ImportError, match=r"pip install 'amqp10msg\[proton\]'"):
        corpus.Proton()


PROGRAM = """
import json, sys, time
from amqp10msg.interop import corpus
ours = corpus.Amqp10msg()
for line in sys.stdin:
    asked = json.loads(line)
    do = asked.pop("do")
    data = bytes.fromhex(asked.pop("data", ""))
    answer = {}
    try:
        if do == "name":
            answer = {"name": "a program"}
        elif do == "decode":
            if data == b"\\x41": sys.exit(1)
            if data == b"\\x42": time.sleep(60)
            if data == b"\\x50\\x00": print("no JSON", flush=True); continue
            if data == b"\\x50\\x01": print("[1]", flush=True); continue
            if data == b"\\x50\\x02": print('{"error": "lost"}', flush=True); continue
            answer = {"typed": ours.decode(asked["kind"], data)}
        elif do == "encode":
            answer = {"data": ours.encode(**asked).hex()}
        else:
            answer = {"violations": sorted(ours.validate(data, asked["profile"]))}
    except corpus.RefusedError as error:
        answer = {"refused": error.reason, "rule": error.rule, "offset": error.offset}
    if asked.get("kind") == "composite":
        answer = {"unsupported": "no composites"}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.once
def test_program_answers_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    names = {
        *("uint0", "ubyte-127", "header-full", "accepted", "truncated-uint", "no-body"),
        *("boolean-true", "ubyte-0", "ubyte-1"),
    }
    chosen = [one for one in shipped() if one.id in names]
    chosen.append(case(id="ubyte-2", data=b"\x50\x02", typed=["ubyte", 2]))
    with corpus.Program([sys.executable, str(script)], timeout=60) as program:
        report = corpus.run(chosen, program)
        program.timeout = 0.5
        late = corpus.run([one for one in shipped() if one.id == "boolean-false"], program)
    assert "a program" == report.implementation
    assert ["decode raised DiedError: no answer from the program in 0.5 s"] == [
        verdict.reason for verdict in late.verdicts
    ]
    outcomes = {verdict.case: (verdict.outcome, verdict.reason) for verdict in report.verdicts}
    assert {
        "uint0": ("pass", ""),
        "ubyte-127": ("pass", ""),
        "truncated-uint": ("pass", ""),
        "header-full": ("pass", ""),
        "no-body": ("pass", ""),
        "accepted": ("skip", "no composites"),
        "boolean-true": (
            "error",
            "decode raised DiedError: the program ended without an answer, status 1",
        ),
        "ubyte-0": (
            "error",
            "decode raised RuntimeError: the answer is not a JSON object: b'no JSON\\n'",
        ),
        "ubyte-1": (
            "error",
            "decode raised RuntimeError: the answer is not a JSON object: b'[1]\\n'",
        ),
        "ubyte-2": ("error", "decode raised RuntimeError: lost"),
    } == outcomes


def test_missing_program() -> None:
    with pytest.raises(OSError, match="no-such-program"):
        corpus.Program(["./no-such-program"])


class Limited(Scripted):
    """One that keeps limits: it refuses a case that sets any."""

    def limited(self, limits: Mapping[str, int]) -> Limited:
        (name,) = limits
        return Limited(RefusedError("too much", f"{name}-limit", 0))


def test_cases_with_limits_need_an_implementation_with_limits() -> None:
    limited = case(typed=None, error=Fault("items-limit", 0), limits={"items": 3})

    (skipped,) = corpus.run([limited], Scripted(["uint", 0])).verdicts
    assert ("skip", None) == (skipped.outcome, skipped.accepted)
    assert "does not support" in skipped.reason
    report = corpus.run([limited, case()], Limited(["uint", 0]))
    assert ["pass", "pass"] == [verdict.outcome for verdict in report.verdicts]
