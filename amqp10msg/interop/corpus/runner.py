"""Run the cases of a corpus against an implementation of AMQP 1.0."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from amqp10msg.interop.corpus.agreement import agreement, other_rules
from amqp10msg.interop.corpus.cases import Case
from amqp10msg.interop.corpus.implementations import (
    Amqp10msg,
    Implementation,
    RefusedError,
    UnsupportedError,
)
from amqp10msg.wire.errors import wrong_type
from amqp10msg.wire.reprs import shortened
from amqp10msg.wire.text import printable

#: The outcomes of a case.
PASS, NOTE, FAIL, ERROR, SKIP = "pass", "note", "fail", "error", "skip"
OUTCOMES = (PASS, NOTE, FAIL, ERROR, SKIP)


@attrs.frozen
class Verdict:
    """The result of one case.

    Attributes:
        case: the case's id.
        kind: the case's kind.
        clause: the clause of the specification that the case tests.
        outcome: ``pass``, ``note`` (not the expected result, but no clause requires it:
            `Case.is_open`), ``fail``, ``error`` (the implementation raised an unexpected exception)
            or ``skip`` (the implementation lacks the function).
        reason: why the case did not pass; empty for ``pass``.
        accepted: whether the bytes were decoded; None if decoding was not tested.
    """

    case: str
    kind: str
    clause: str
    outcome: str
    reason: str = ""
    accepted: bool | None = None


@attrs.frozen
class Report:
    """The results of a run.

    Attributes:
        implementation: the name of the tested implementation.
        verdicts: one verdict per case, in the order of the cases.
    """

    implementation: str
    verdicts: tuple[Verdict, ...]

    @property
    def ok(self) -> bool:
        """Whether at least one case passed or got a note, and no case failed or raised an error."""
        return bool(self.of(PASS, NOTE)) and not self.of(FAIL, ERROR)

    def of(self, *outcomes: str) -> list[Verdict]:
        """Return the verdicts whose outcome is in `outcomes`."""
        return [verdict for verdict in self.verdicts if verdict.outcome in outcomes]

    def counts(self) -> dict[str, int]:
        """Return the number of verdicts with each outcome, including zeros."""
        counter = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: counter[outcome] for outcome in OUTCOMES}

    def text(self) -> str:
        """Return the report as text: a table of counts, then each failure and each error."""
        groups: dict[str, Counter[str]] = {}
        for verdict in self.verdicts:
            section = ".".join(verdict.clause.split(".")[:2])
            groups.setdefault(section, Counter())[verdict.outcome] += 1
        total: Counter[str] = sum(groups.values(), Counter())
        rows = [["clause", *OUTCOMES]]
        rows += [
            [name, *(str(counts[outcome]) for outcome in OUTCOMES)]
            for name, counts in [*sorted(groups.items()), ("all", total)]
        ]
        lines = [printable(self.implementation), "", *table_lines(rows)]
        not_passed = self.of(FAIL, ERROR)
        if not_passed:
            lines.append("")
        lines += [
            printable(f"{verdict.outcome}: {verdict.case} ({verdict.clause}): {verdict.reason}")
            for verdict in not_passed
        ]
        return "\n".join(lines) + "\n"

    def to_object(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "implementation": self.implementation,
            "counts": self.counts(),
            "verdicts": [attrs.asdict(verdict) for verdict in self.verdicts],
        }


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a text table, with numbers aligned to the right from column 2 on."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def run(cases: Iterable[Case], implementation: Implementation | None = None) -> Report:
    """Run every case against an implementation.

    A case passes if all its expectations are met:

    - The bytes decode to `Case.typed`, or are refused with the rule and offset of `Case.error` (if
      the implementation reports them).
    - `Case.typed` is encoded as `Case.compact`.
    - The reported violations are `Case.violations`.
    - The answer is `Case.answer`.

    Steps that the implementation does not support are left out. If it supports none of a case's
    steps, the case is skipped.

    Args:
        cases: the cases, as `load` returns them.
        implementation: the implementation; None for this library in strict mode.
    """
    if implementation is not None and not hasattr(implementation, "decode"):
        raise wrong_type("the parameter implementation of run", "an Implementation", implementation)
    if implementation is None:
        implementation = Amqp10msg()
    return Report(implementation.name, tuple(_judge_case(case, implementation) for case in cases))


def _judge_case(case: Case, implementation: Implementation) -> Verdict:
    if case.limits is not None:
        limited = getattr(implementation, "limited", None)
        if limited is None:
            reason = "the case requires limits, which the implementation does not support"
            return Verdict(case.id, case.kind, case.clause, SKIP, reason, None)
        implementation = limited(case.limits)
    trial = _Trial(case, implementation)
    skip_reason = "the case has no expectations"
    outcome = SKIP
    for step in (trial.decode, trial.encode, trial.validate, trial.answer):
        try:
            fault = step()
        except UnsupportedError as error:
            skip_reason = str(error) or f"{step.__name__} is not supported"
            continue
        except Exception as error:  # noqa: BLE001 - record any exception of an implementation
            outcome = ERROR
            fault = f"{step.__name__} raised {type(error).__name__}: {error}"
        else:
            if fault is None:
                continue
            is_noted = case.is_open and step in (trial.decode, trial.encode)
            outcome = PASS if not fault else NOTE if is_noted else FAIL
        if fault:
            break
    reason = skip_reason if outcome == SKIP else fault or ""
    return Verdict(case.id, case.kind, case.clause, outcome, reason, trial.accepted)


class _Trial:
    """Runs the steps of a case: `decode`, `encode`, `validate` and `answer`.

    Each step returns a description of the fault, "" if it passes, or None if it does not apply.
    """

    def __init__(self, case: Case, implementation: Implementation) -> None:
        self.case = case
        self.implementation = implementation
        self.accepted: bool | None = None

    def decode(self) -> str | None:
        case = self.case
        if case.typed is None and case.error is None:
            return None
        try:
            typed = self.implementation.decode(case.kind, case.data)
        except RefusedError as refused:
            self.accepted = False
            return self.check_refusal(refused)
        self.accepted = True
        if case.typed is None and case.error is not None:
            return f"decoded to {_format_value(typed)}, but must be refused: {case.error.rule}"
        if agreement(case.typed, typed) != "exact":
            return f"decoded to {_format_value(typed)}, not {_format_value(case.typed)}"
        return ""

    def check_refusal(self, refusal: RefusedError) -> str:
        """Describe how a refusal differs from `Case.error`; "" if the case expects it."""
        fault = self.case.error
        if fault is None:
            return f"refused: {refusal.reason}"
        if refusal.rule not in (None, fault.rule):
            return f"refused for {refusal.rule}, not for {fault.rule}: {refusal.reason}"
        if refusal.offset not in (None, fault.offset):
            return f"refused at {refusal.offset}, not at {fault.offset}: {refusal.reason}"
        return ""

    def encode(self) -> str | None:
        case = self.case
        if case.compact is None:
            return None
        encoded = self.implementation.encode(case.kind, case.typed)
        if encoded != case.compact:
            return f"encoded as {encoded.hex()}, not as {case.compact.hex()}"
        return ""

    def validate(self) -> str | None:
        case = self.case
        if case.violations is None:
            return None
        violations = self.implementation.validate(case.data, case.profile)
        return other_rules(case.violations, violations)

    def answer(self) -> str | None:
        case = self.case
        if case.answer is None:
            return None
        decide = getattr(self.implementation, "answer", None)
        if decide is None:
            raise UnsupportedError(f"{self.implementation.name} does not answer questions")
        answer = decide(case.kind, case.data, case.given or {})
        if _sorted_json(answer) != _sorted_json(case.answer):
            return f"answers {_format_value(answer)}, not {_format_value(case.answer)}"
        return ""


def _sorted_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _format_value(typed: Any) -> str:
    return shortened(json.dumps(typed, ensure_ascii=False), 200)
