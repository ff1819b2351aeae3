"""One case and one implementation: what it reads, writes, refuses and decides.

What it says is compared as typed JSON, in one form for all ways to write a message, an outcome or a
terminus.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from typing import Any

from amqp10msg.composite import COMPOSITES, Composite, Field, find_composite
from amqp10msg.interop.conformance.results import Result
from amqp10msg.interop.corpus import (
    BASIC_KINDS,
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
from amqp10msg.validation import RULES
from amqp10msg.wire.reprs import shortened

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
        self.faults: list[tuple[str, str, str]] = []
        self.notes: list[tuple[str, str, str]] = []
        self.errors: list[str] = []
        self.missing = ""
        self.said: Any = None
        self.wrote: str | None = None
        self.step = ""
        self.is_changed = False

    def made(self, outcome: str, reason: str) -> Result:
        return Result.of(
            self.case,
            outcome,
            facets=self.facets,
            reason=reason,
            faults=tuple(self.faults),
            notes=tuple(self.notes),
            said=self.said,
            wrote=self.wrote,
        )

    def result(self, note: str = "") -> Result:
        """Run all steps."""
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
                self.errors.append(f"{_STEPS[self.step]}: {error}")
            except Exception as error:  # noqa: BLE001  (an answer may be anything)
                outcome = "error"
                said = f"the answer is not of the protocol: {type(error).__name__}: {error}"
                self.errors.append(f"{_STEPS[self.step]}: {said}")
        if not outcome:
            outcome = "pass" if self.facets else "skip"
            outcome = "fail" if self.faults else "note" if self.notes else outcome
        told = dict.fromkeys(reason for _, _, reason in (*self.faults, *self.notes))
        reasons = [self.missing] if outcome == "skip" else [*self.errors, *told, note]
        return self.made(outcome, "; ".join(filter(None, reasons)))

    def ask(self, do: str, **more: Any) -> Any:
        case = self.case
        request = {"do": do, "data": case.data.hex(), **more}
        if do != "validate":
            request["kind"] = case.kind
        if case.limits is not None:
            request["limits"] = dict(case.limits)
        return self.program.ask(request)

    def holds(
        self, facet: str, holds: bool, reason: str | Callable[[], str], clause: str = ""
    ) -> None:
        """Write down whether a facet holds, and if not, which clause is broken."""
        if holds:
            self.facets[facet] = True
        else:
            self.broken(facet, [(clause, reason if isinstance(reason, str) else reason())])

    def broken(
        self, facet: str, found: Iterable[tuple[str, str]], *, is_noted: bool = False
    ) -> None:
        """Write down clauses that are broken, and how; as notes where no clause says what is right.

        A facet of which there are only notes counts neither as one that holds nor as one that does
        not.
        """
        for clause, reason in found:
            told = (facet, clause or self.case.clause, reason)
            if is_noted or (facet in _OF_BYTES and self.is_open):
                self.notes.append(told)
            else:
                self.facets[facet] = False
                self.faults.append(told)

    @cached_property
    def is_open(self) -> bool:
        """Whether no clause says what becomes of the bytes of this case."""
        return is_open(self.case)

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
            self.holds("refused", False, f"read, and must be refused: {rule}", _clause_of(case))
            self.survive()
            return
        if case.error is None:
            self.facets["read"] = True
        if typed is not None:
            found = self.agreement(typed)
            if found is not None:
                self.facets["kept"] = True
            else:
                self.is_changed = True
                self.broken("kept", self.apart("read", typed))
            if found is not None:
                self.facets["typed"] = found == "exact"
            if found == "exact":
                self.said = None  # as expected: the case has it

    def agreement(self, typed: Any) -> Agreement:
        """Compare what was read. A codec that knows no composites shows the value that one is."""
        case = self.case
        found = agreement(case.typed, typed)
        if found is None and case.kind in ("composite", "message", *BASIC_KINDS):
            with suppress(TypeError, ValueError, LookupError):  # not typed JSON
                for loose in (False, True):
                    one, other = (
                        meaning(case.kind, made, loose=loose) for made in (case.typed, typed)
                    )
                    found = found or agreement(one, other)
        return found

    def apart(self, verb: str, typed: Any) -> list[tuple[str, str]]:
        """Return how what was read or written differs, each with the clause that it breaks."""
        case = self.case
        if case.kind == "message":
            with suppress(TypeError, ValueError, LookupError):  # not typed JSON
                wanted, found = (meaning(case.kind, made) for made in (case.typed, typed))
                if found != wanted:
                    read = {section[0] for section in found}
                    return [
                        (self.of_descriptor(text, read) or clause, f"{verb}: {text}")
                        for clause, text in differences(wanted, found)
                    ]
        inner = ""
        if case.kind == "composite":  # a fault in a value is not one of the composite
            with suppress(TypeError, ValueError, LookupError):  # not typed JSON
                inner = _leaf(meaning(case.kind, case.typed), meaning(case.kind, typed))
        return [(inner, f"{verb} {apart('value', case.typed, typed)}")]

    def of_descriptor(self, text: str, read: set[str]) -> str:
        """Return the clause of descriptors where the case is about one, and its section is lost."""
        name = re.split(r"[ .]", text, maxsplit=1)[0]
        lost = self.case.clause == _DESCRIPTORS and name in _NAMES and name not in read
        return _DESCRIPTORS if lost else ""

    def refused(self, refused: RefusedError) -> None:
        fault = self.case.error
        if fault is None:
            self.holds("read", False, f"refused: {refused.reason}")
            return
        self.facets["refused"] = True
        if refused.rule is not None or refused.offset is not None:
            right = refused.rule in (None, fault.rule) and refused.offset in (None, fault.offset)
            said = f"refused for {refused.rule} at {refused.offset}"
            if not right:
                self.facets["cause"] = False
                words = f"{said}, not for {fault.rule} at {fault.offset}"
                self.faults.append(("cause", _clause_of(self.case), words))
            else:
                self.facets["cause"] = True

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
        octets = bytes.fromhex(made)
        self.wrote = made
        is_told = self.is_changed and self.step == "again"  # what it read is what it writes
        if octets == case.compact:
            self.facets |= {"written": True, "identical": True}
            self.wrote = None  # as expected: the case has it
            return
        try:
            found = Amqp10msg(strict=False).decode(case.kind, octets)
        except RefusedError as refused:
            if is_told:
                return
            self.holds("written", False, f"what it wrote cannot be read: {refused.reason}")
            return
        wanted, had = (meaning(case.kind, one) for one in (case.typed, found))
        if agreement(wanted, had) is not None:
            self.facets["written"] = True
            if case.compact is not None:
                self.facets["identical"] = False
            return
        if is_told:
            return
        is_noted = self.case.kind in BASIC_KINDS and _same_numbers(wanted, had)
        for clause, text in self.apart("wrote", found):
            free = self.step == "again" and clause in _FREE and text.endswith(_LEFT_OUT)
            self.broken("written", [(clause, text)], is_noted=free or is_noted)

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
# What is asked of the bytes: where those break a clause, none says what is right.
_OF_BYTES = frozenset(("read", "kept", "written"))
_INTEGERS = frozenset("bBsuUIilL")
_LEFT_OUT = " is left out"
_OASIS = "oasis"
_DESCRIPTORS = "Part 1, 1.5"
_ORDER = "Part 3, 3.2"
# Part 3, 3.2: no section of the bare message is inserted where there was none.
_INSERTED = "Part 3, 3.2"
# Nothing requires that these are passed on: delivery annotations are for the next node, and of the
# footer no clause says so.
_FREE = ("Part 3, 3.2.2", "Part 3, 3.2.9")
#: The clause of each type of Part 1: those of 1.6 in this order.
TYPE_CLAUSES = {
    name: f"Part 1, 1.6.{number}"
    for number, name in enumerate(
        (
            *("null", "boolean", "ubyte", "ushort", "uint", "ulong", "byte", "short", "int"),
            *("long", "float", "double", "decimal32", "decimal64", "decimal128", "char"),
            *("timestamp", "uuid", "binary", "string", "symbol", "list", "map", "array"),
        ),
        start=1,
    )
} | {"described": "Part 1, 1.2"}
_NAMES = frozenset(kind.name for kind in KINDS)
# A message has one of these (Part 3, 3.2).
_BODIES = frozenset(("data", "amqp-sequence", "amqp-value"))
# Types of descriptors that are of the families of ulong and symbol.
_LIKE = FAMILIES["integer"] | FAMILIES["octets"]
# Sections of which an empty one says what an absent one says (Part 3, 3.2.2 and 3.2.3; of the
# others no clause says otherwise).
_MAPS = {kind.name for kind in KINDS if kind.name.endswith(("annotations", "footer"))}
_MAPS.add("application-properties")
# Those of the sections that are composites.
_CLAUSES = {kind.name: kind.clause for kind in KINDS}
_SECTIONS = {kind.name: kind.code for kind in KINDS if kind.cls in (Header, Properties)}


def meaning(kind: str, typed: Any, *, loose: bool = False) -> Any:
    """Return typed JSON in the one form of all that say the same.

    What is null by default and what is the default are null, and nulls at the end are left out
    (Part 1, 1.4). Of a message, sections without a field and empty maps are left out, too. Of a
    composite, the descriptor is the numeric one, and an array of one is that value where there may
    be several. The fields of a table of 0-9-1 are in the order of their names: no clause has one.
    `loose` takes descriptors and defaults for such whatever their types, which what this is
    compared with has lost.
    """
    if kind == "message":
        said = (_section(section, loose) for section in typed)
        return [section for section in said if section is not None]
    if kind in BASIC_KINDS:
        return _in_order(typed)
    return _composite(typed, loose) if kind == "composite" else typed


def _in_order(typed: Any) -> Any:
    """Return typed JSON of 0-9-1 with the fields of each table in the order of their names."""
    if not isinstance(typed, list):
        return typed
    made = [_in_order(item) for item in typed]
    if len(made) == 2 and made[0] in ("F", "headers") and isinstance(made[1], list):
        made[1] = sorted(made[1], key=lambda field: json.dumps(field[0], sort_keys=True))
    return made


def is_open(case: Case) -> bool:
    """Whether no clause says what becomes of the bytes of a case, such as those that break one.

    A case that does not say whether its message breaks a clause of Part 3 is validated.
    """
    if case.is_open or case.kind != "message" or case.typed is None:
        return case.is_open
    if case.violations is not None and case.profile == _OASIS:
        return False
    found = Amqp10msg(strict=False).validate(case.data, _OASIS)
    return any(severity == "error" for _, severity, *_ in found)


def _clause_of(case: Case) -> str:
    """Return the clause that the bytes of a case break for which they must be refused."""
    name = case.error.rule if case.error is not None else ""
    rule = RULES.get(name)
    if rule is None or not rule.in_messages or case.error is None or case.kind in BASIC_KINDS:
        return case.clause
    part, _, numbers = rule.clause.partition(", ")
    clauses = [f"{part}, {number}" for number in numbers.split(", ")]
    if case.clause.startswith(tuple(clauses)):
        return case.clause
    # Where lists and maps have a clause and arrays another, the constructor says which.
    is_array = case.data[case.error.offset : case.error.offset + 1] in (b"\xe0", b"\xf0")
    return clauses[-1 if is_array else 0]


def differences(expected: Any, found: Any) -> list[tuple[str, str]]:
    """Return how two messages, in the form of `meaning`, differ: clauses, and how in words."""
    names = [section[0] for section in expected]
    told: list[tuple[str, str]] = []
    for name, content in found:
        if name in names:
            continue
        if name == "header":  # what is omitted has its default, which the receiver must assume
            told += _fields_apart(name, [], content)
        else:
            told.append((_INSERTED, f"{name} is inserted: {_shown(content)}"))
    for name in dict.fromkeys(names):
        before, after = (
            [content for one, content in part if one == name] for part in (expected, found)
        )
        if not after:
            fields = before[0]
            bodiless = name in _BODIES and not any(one in _BODIES for one, _ in found)
            whole = name not in _SECTIONS or any(not isinstance(one, list) for one in fields)
            told += (
                [(_ORDER if bodiless else _clause(name), f"{name}{_LEFT_OUT}")]
                if whole
                else _fields_apart(name, fields, [])
            )
        elif agreement(before, after) is None:
            told += _contents_apart(name, before, after)
    return told or [(_ORDER, "the sections are in another order")]


def _contents_apart(name: str, before: list[Any], after: list[Any]) -> list[tuple[str, str]]:
    """Return how the sections of one name differ."""
    if len(before) > 1 and before == after[::-1]:
        return [(_clause(name), f"{name} is in reverse order")]
    if len(before) != 1 or len(after) != 1:
        return [(_clause(name), f"{name} is {_shown(after)}, not {_shown(before)}")]
    ((wanted,), (had,)) = before, after
    listed = all(isinstance(item, list) for item in (*wanted, *had))
    if name in _SECTIONS and isinstance(wanted, list) and isinstance(had, list) and listed:
        return _fields_apart(name, wanted, had)
    clause = _clause(name) if name in _SECTIONS else _leaf(wanted, had) or _clause(name)
    return [(clause, f"{name} is {_shown(had)}, not {_shown(wanted)}")]


def _fields_apart(name: str, expected: list[Any], found: list[Any]) -> list[tuple[str, str]]:
    """Return how the fields of a header or of properties differ."""
    rows = COMPOSITES[_SECTIONS[name]].fields
    told = []
    for place in range(max(len(expected), len(found))):
        want, have = (one[place] if place < len(one) else _NULL for one in (expected, found))
        if agreement(want, have) is not None:
            continue
        field = (
            f"{name}.{rows[place].name.replace('_', '-')}"
            if place < len(rows)
            else f"field {place} of {name}"
        )
        if have == _NULL:
            text = f"{field}{_LEFT_OUT}"
        elif want == _NULL:
            text = f"{field} is {_shown(have)}, where it is absent"
        else:
            text = f"{field} is {_shown(have)}, not {_shown(want)}"
        told.append((_clause(name), text))
    return told


def _leaf(expected: Any, found: Any) -> str:
    """Return the clause of the type of the first value that differs; empty where none is alone."""
    if not isinstance(expected, list) or not isinstance(found, list):
        return ""
    kind = expected[0] if expected and isinstance(expected[0], str) else ""
    if kind not in ("list", "map", "array", "described") and kind in TYPE_CLAUSES:
        return TYPE_CLAUSES[kind]
    if len(expected) != len(found):
        return TYPE_CLAUSES.get(kind, "")
    pairs = iter(zip(expected, found, strict=True))
    if kind in TYPE_CLAUSES:
        next(pairs)  # a family may stand for the type
    apart = [pair for pair in pairs if pair[0] != pair[1] and agreement(*pair) is None]
    inner = _leaf(*apart[0]) if apart else ""
    return inner or TYPE_CLAUSES.get(kind, "")


def apart(kind: str, expected: Any, found: Any) -> str:
    """Describe in words how what was found differs, of messages in the form of `meaning`."""
    if kind != "message":
        return f"{_shown(found)}, not {_shown(expected)}"
    return ", ".join(text for _, text in differences(expected, found))


def _same_numbers(expected: Any, found: Any) -> bool:
    """Whether typed JSON of 0-9-1 has the same numbers, some of them as other types."""
    return bool(_numbers(expected) == _numbers(found))


def _numbers(typed: Any) -> Any:
    if not isinstance(typed, list):
        return typed
    if len(typed) == 2 and typed[0] in _INTEGERS and isinstance(typed[1], int):
        return [typed[1]]
    if len(typed) == 2 and typed[0] in ("f", "d") and isinstance(typed[1], str):
        (number,) = struct.unpack(">f" if typed[0] == "f" else ">d", bytes.fromhex(typed[1]))
        return [number]
    if len(typed) == 2 and typed[0] == "D" and isinstance(typed[1], list):
        scale, unscaled = typed[1]
        return [Fraction(unscaled, 10**scale)]
    return [_numbers(item) for item in typed]


def _clause(name: str) -> str:
    """Return the clause of a section."""
    return _CLAUSES.get(name, _ORDER)


def _shown(typed: Any) -> str:
    return shortened(json.dumps(typed, ensure_ascii=False), _SHOWN)


def _section(section: Any, loose: bool) -> Any:
    name, content = section
    if name in _MAPS and content == []:
        return None
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
