"""One case and one implementation: what it reads, writes, refuses and decides.

What it says is compared as typed JSON, in one form for all ways to write a message, an outcome or a
terminus.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from amqp10msg.composite import COMPOSITES, Composite, Field, find_composite
from amqp10msg.interop.conformance.results import OPTIONAL, Result
from amqp10msg.interop.corpus import (
    FAMILIES,
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
from amqp10msg.sections import KINDS, Header, Properties

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

    def holds(self, facet: str, holds: bool, reason: str | Callable[[], str]) -> None:
        """Note whether a facet holds, and why not."""
        self.facets[facet] = holds
        if not holds:
            self.reasons.append(reason if isinstance(reason, str) else reason())

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
            self.holds("refused", False, f"read, and must be refused: {rule}")
            self.survive()
            return
        if case.error is None:
            self.facets["read"] = True
        if typed is not None:
            found = self.agreement(typed)
            self.holds("kept", found is not None, lambda: self.apart("read", typed))
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
            self.holds("read", False, f"refused: {refused.reason}")
            return
        self.facets["refused"] = True
        if refused.rule is not None or refused.offset is not None:
            right = refused.rule in (None, fault.rule) and refused.offset in (None, fault.offset)
            said = f"refused for {refused.rule} at {refused.offset}"
            self.holds("cause", right, f"{said}, not for {fault.rule} at {fault.offset}")

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
            self.holds("written", False, f"not written: {refused.reason}")
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
            self.holds("written", False, f"what it wrote cannot be read: {refused.reason}")
            return
        same = agreement(meaning(case.kind, case.typed), meaning(case.kind, found)) is not None
        self.holds("written", same, lambda: self.apart("wrote", found))
        if same and case.compact is not None:
            self.facets["identical"] = False

    def validate(self) -> None:
        case = self.case
        if case.violations is None:
            return
        found = self.ask("validate", profile=case.profile)["violations"]
        wrong = other_rules(case.violations, found)
        self.holds("rules", not wrong, wrong)

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


# What typed JSON says.

# What is shown of a value in a sentence.
_SHOWN = 160
_NULL = ["null"]
# Types of descriptors that are of the families of ulong and symbol.
_LIKE = FAMILIES["integer"] | FAMILIES["octets"]
# Those of the sections that are composites.
_SECTIONS = {kind.name: kind.code for kind in KINDS if kind.cls in (Header, Properties)}


def meaning(kind: str, typed: Any, *, loose: bool = False) -> Any:
    """Return typed JSON in the one form of all that say the same.

    What is null by default and what is the default are null, and nulls at the end are left out
    (Part 1, 1.4). Of a message, sections without a field are left out, too. Of a composite, the
    descriptor is the numeric one, and an array of one is that value where there may be several.

    Args:
        kind: of a case; what is neither a message nor a composite is returned as it is.
        typed: typed JSON, also with families of types.
        loose: take descriptors and defaults for such whatever their types, as is right where what
            this is compared with has lost them.
    """
    if kind == "message":
        said = (_section(section, loose) for section in typed)
        return [section for section in said if section is not None]
    return _composite(typed, loose) if kind == "composite" else typed


def apart(kind: str, expected: Any, found: Any) -> str:
    """Describe in words how what was found differs from what is expected.

    Args:
        kind: of a case.
        expected: typed JSON; of a message, as `meaning` returns it.
        found: likewise.
    """
    if kind != "message":
        return f"{_shown(found)}, not {_shown(expected)}"
    names, others = ([section[0] for section in one] for one in (expected, found))
    told = [
        f"{name} is inserted: {_shown(content)}" for name, content in found if name not in names
    ]
    told += [f"{name} is left out" for name in dict.fromkeys(names) if name not in others]
    for name in dict.fromkeys(name for name in names if name in others):
        before, after = (
            [content for one, content in part if one == name] for part in (expected, found)
        )
        if before == after:
            continue
        if len(before) > 1 and before == after[::-1]:
            told.append(f"{name} is in reverse order")
        else:
            one_each = len(before) == len(after) == 1
            said, wanted = (before[0], after[0])[::-1] if one_each else (after, before)
            told.append(f"{name} is {_shown(said)}, not {_shown(wanted)}")
    return ", ".join(told) or "the sections are in another order"


def _shown(typed: Any) -> str:
    text = json.dumps(typed, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _section(section: Any, loose: bool) -> Any:
    name, content = section
    # A section of another type than its own holds a value, whose type comes first.
    if name not in _SECTIONS or not all(isinstance(field, list) for field in content):
        return section
    fields = _fields(COMPOSITES[_SECTIONS[name]], content, loose)
    return [name, fields] if fields else None


def _composite(typed: Any, loose: bool) -> Any:
    if not isinstance(typed, list) or len(typed) != 3 or typed[0] != "described":
        return typed
    _, descriptor, content = typed
    entry = _declared(descriptor, loose)
    if entry is None or content[0] not in ("list", "sequence"):
        return typed
    kind = "ulong" if descriptor[0] in ("ulong", "symbol") else "integer"
    return ["described", [kind, entry.code], [content[0], _fields(entry, content[1], loose)]]


def _declared(descriptor: Sequence[Any], loose: bool) -> Composite | None:
    """Return the composite of a descriptor."""
    kind, key = descriptor[0], descriptor[-1]
    if kind == "octets":
        key = bytes.fromhex(key).decode("ascii", "replace")
    known = kind in ("ulong", "symbol", "integer", "octets") or (loose and kind in _LIKE)
    return find_composite(key) if known else None


def _fields(entry: Composite, values: Iterable[Any], loose: bool) -> list[Any]:
    given = list(values)
    rows = [*entry.fields, *[None] * (len(given) - len(entry.fields))]
    found = [_field(row, value, loose) for row, value in zip(rows, given, strict=False)]
    while found and found[-1] == _NULL:
        found.pop()
    return found


def _field(row: Field | None, value: Any, loose: bool) -> Any:
    if row is None:  # a surplus one
        return value
    if row.multiple:
        items = value[2] if value[0] == "array" and len(value) == 3 else None
        items = value[1] if value[0] == "sequence" else items
        if items is not None and len(items) <= 1:
            value = items[0] if items else _NULL
    return _NULL if _is_default(row, value, loose) else _composite(value, loose)


def _is_default(row: Field, value: Any, loose: bool) -> bool:
    if row.default is None or row.default == ():
        return False
    default = [row.type, getattr(row.default, "value", row.default)]
    if loose or value[0] in FAMILIES:
        return agreement(default, value) is not None
    return bool(value == default)
