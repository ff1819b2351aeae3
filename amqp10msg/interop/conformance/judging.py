"""One case and one implementation: what it reads, writes, refuses and decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from amqp10msg.interop.conformance.meaning import apart, meaning
from amqp10msg.interop.conformance.results import OPTIONAL, Result
from amqp10msg.interop.corpus import (
    Agreement,
    Amqp10msg,
    Case,
    DiedError,
    Program,
    RefusedError,
    UnsupportedError,
    agreement,
    other_rules,
)

# The steps of a case, in a sentence.
_STEPS = {"decode": "decoding", "again": "encoding what it decoded", "encode": "encoding"}
_STEPS |= {"validate": "validating", "answer": "answering"}


def judge(case: Case, program: Program) -> Result:
    """Ask a program about a case, twice where it dies: the second time in a process of its own.

    So a death is a result of this case alone, and not of cases before it; a program that dies once
    is judged by the second time, and the reason says so.
    """
    trial = _Trial(case, program)
    try:
        return trial.result()
    except DiedError as first:
        again = _Trial(case, program)
        try:
            return again.result(note=f"died after other cases, but not on this one alone: {first}")
        except DiedError as died:
            return again.made(died.how, f"{_STEPS[again.step]}: {died}")
        finally:
            program.close()


class _Trial:
    """The steps of a case; what they find is in `facets`."""

    def __init__(self, case: Case, program: Program) -> None:
        self.case = case
        self.program = program
        self.facets: dict[str, bool] = {}
        self.reasons: list[str] = []
        self.missing = ""
        self.said: Any = None
        self.wrote: str | None = None
        self.step = ""

    def made(self, outcome: str, reason: str) -> Result:
        return Result.of(
            self.case,
            outcome,
            facets=self.facets,
            reason=reason,
            said=self.said,
            wrote=self.wrote,
        )

    def result(self, note: str = "") -> Result:
        """Run all steps.

        Raises:
            DiedError: the program died on one.
        """
        outcome = ""
        for step in (self.decode, self.encode, self.validate, self.answer):
            self.step = step.__name__
            try:
                step()
            except UnsupportedError as error:
                self.missing = self.missing or str(error)
            except DiedError:
                raise
            except RuntimeError as error:
                outcome = "error"
                self.reasons.append(f"{_STEPS[self.step]}: {error}")
        if not outcome:
            wrong = [name for name, holds in self.facets.items() if not holds]
            outcome = "fail" if set(wrong) - OPTIONAL else "pass" if self.facets else "skip"
        reasons = [self.missing] if outcome == "skip" else [*self.reasons, note]
        return self.made(outcome, "; ".join(filter(None, reasons)))

    def ask(self, do: str, **more: Any) -> Any:
        case = self.case
        request = {"do": do, "data": case.data.hex(), **more}
        if do != "validate":
            request["kind"] = case.kind
        if case.limits is not None:
            request["limits"] = dict(case.limits)
        return self.program.ask(request)

    def holds(self, facet: str, holds: bool, reason: Callable[[], str]) -> None:
        """Note whether a facet holds, and why not."""
        self.facets[facet] = holds
        if not holds:
            self.reasons.append(reason())

    def decode(self) -> None:
        case = self.case
        if case.typed is None and case.error is None:
            return
        try:
            typed = self.ask("decode").get("typed")
        except RefusedError as refused:
            self.said = refused.reason
            self.refused(refused)
            return
        self.said = typed
        if case.typed is None:
            rule = case.error.rule if case.error else ""
            if rule.endswith("-limit"):
                # The specification has no such bound: each implementation has its own, or none.
                self.missing = f"read: {rule} is for each implementation to choose"
                self.survive()
                return
            self.holds("refused", False, lambda: f"read, and must be refused: {rule}")
            self.survive()
            return
        if case.error is None:
            self.facets["read"] = True
        if typed is not None:
            found = self.agreement(typed)
            self.holds(
                "kept",
                found is not None,
                lambda: self.apart("read", typed),
            )
            if found is not None:
                self.facets["typed"] = found == "exact"
            if found == "exact":
                self.said = None  # as expected: the case has it

    def agreement(self, typed: Any) -> Agreement:
        """Compare what was read. A codec that knows no composites shows the value that one is."""
        case = self.case
        found = agreement(case.typed, typed)
        if found is None and case.kind == "composite":
            with suppress(TypeError, ValueError, LookupError):  # not typed JSON
                for loose in (False, True):
                    one, other = (
                        meaning(case.kind, made, loose=loose) for made in (case.typed, typed)
                    )
                    found = found or agreement(one, other)
        return found

    def apart(self, verb: str, typed: Any) -> str:
        """Describe how what was read or written differs from what is expected."""
        case = self.case
        if case.kind == "message":
            with suppress(TypeError, ValueError, LookupError):  # not typed JSON
                wanted, found = (meaning(case.kind, made) for made in (case.typed, typed))
                if found != wanted:
                    return f"{verb} something else: {apart(case.kind, wanted, found)}"
        return f"{verb} {apart('value', case.typed, typed)}"

    def refused(self, refused: RefusedError) -> None:
        fault = self.case.error
        if fault is None:
            self.holds("read", False, lambda: f"refused: {refused.reason}")
            return
        self.facets["refused"] = True
        if refused.rule is not None or refused.offset is not None:
            right = refused.rule in (None, fault.rule) and refused.offset in (None, fault.offset)
            self.holds(
                "cause",
                right,
                lambda: (
                    f"refused for {refused.rule} at {refused.offset}, "
                    f"not for {fault.rule} at {fault.offset}"
                ),
            )

    def survive(self) -> None:
        """Encode again what should have been refused: whatever comes of it, nothing may die."""
        self.step = "again"
        try:
            self.ask("again")
        except DiedError:
            raise
        except (RuntimeError, UnsupportedError, RefusedError):
            pass

    def encode(self) -> None:
        case = self.case
        if case.typed is None or case.limits is not None or self.facets.get("read") is False:
            return
        if case.compact is None and case.error is not None:
            return
        try:
            try:
                request = {"do": "encode", "kind": case.kind, "typed": case.typed}
                made = self.program.ask(request)["data"]
            except UnsupportedError:
                if case.error is not None:
                    raise
                self.step = "again"
                made = self.ask("again")["data"]
        except RefusedError as refused:
            reason = refused.reason
            self.holds("written", False, lambda: f"not written: {reason}")
            return
        self.wrote = made
        octets = bytes.fromhex(made)
        if octets == case.compact:
            self.facets |= {"written": True, "identical": True}
            self.wrote = None  # as expected: the case has it
            return
        try:
            found = Amqp10msg(strict=False).decode(case.kind, octets)
        except RefusedError as refused:
            reason = refused.reason
            self.holds("written", False, lambda: f"what it wrote cannot be read: {reason}")
            return
        same = agreement(meaning(case.kind, case.typed), meaning(case.kind, found)) is not None
        self.holds(
            "written",
            same,
            lambda: self.apart("wrote", found),
        )
        if same and case.compact is not None:
            self.facets["identical"] = False

    def validate(self) -> None:
        case = self.case
        if case.violations is None:
            return
        found = self.ask("validate", profile=case.profile)["violations"]
        wrong = other_rules(case.violations, found)
        self.holds("rules", not wrong, lambda: wrong)

    def answer(self) -> None:
        case = self.case
        if case.answer is None:
            return
        found = self.ask("answer", given=case.given)["answer"]
        self.said = found if found != case.answer else None
        self.holds(
            "answered",
            json.dumps(found, sort_keys=True) == json.dumps(case.answer, sort_keys=True),
            lambda: f"answers {apart(case.kind, case.answer, found)}",
        )
