"""Run one case against one implementation, and judge the answers.

Values are compared as typed JSON. The expected and the actual value are normalized first, because a
message, an outcome or a terminus has several equivalent encodings.
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
    TYPE_FAMILIES,
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

# Texts for the steps in error messages, by method of `_Trial` or action of a request.
_ACTIVITY_BY_STEP = {
    "decode": "decoding",
    "again": "encoding what it decoded",
    "encode": "encoding",
    "validate": "validating",
    "answer": "answering",
}


def judge(case: Case, program: Program) -> Result:
    """Run one case against a program. If the program dies, repeat the case in a new process.

    Earlier cases may have caused the first crash or hang, so only that of the new process becomes
    the case's result. If the repetition succeeds, the result's reason mentions the first crash.
    """
    trial = _Trial(case, program)
    try:
        return trial.run()
    except DiedError as first_death:
        repeated = _Trial(case, program)
        try:
            note = f"died after other cases, but not on this one alone: {first_death}"
            return repeated.run(note=note)
        except DiedError as second_death:
            reason = f"{_ACTIVITY_BY_STEP[repeated.step]}: {second_death}"
            repeated.keep_stderr()
            repeated.record_failed_step()
            return repeated.build_result(second_death.how, reason)
        finally:
            program.close()


class _Trial:
    """Runs the steps of one case and collects the facets, faults, notes and errors."""

    def __init__(self, case: Case, program: Program) -> None:
        self.case = case
        self.program = program
        self.facets: dict[str, bool] = {}
        self.faults: list[tuple[str, str, str]] = []
        self.notes: list[tuple[str, str, str]] = []
        self.errors: list[str] = []
        self.skip_reason = ""
        self.output: Any = None
        self.encoded: str | None = None
        self.step = ""
        self.is_value_changed = False
        self.is_unread = False
        self.stderr = ""

    def build_result(self, outcome: str, reason: str) -> Result:
        """Return a result with the facets, faults and notes recorded until now."""
        if self.is_unread:
            self.facets.setdefault("read", False)
        return Result.of(
            self.case,
            outcome,
            facets=self.facets,
            reason=reason,
            faults=tuple(self.faults),
            notes=tuple(self.notes),
            said=self.output,
            wrote=self.encoded,
            stderr=self.stderr,
        )

    def keep_stderr(self) -> None:
        """Append what the program wrote to standard error during the failed step."""
        if isinstance(self.program, Program):
            self.stderr += self.program.stderr

    def record_failed_step(self) -> None:
        """Note that valid bytes were not read, if decoding them ended without a valid answer.

        The facet `read` is set at the end, because `encode` skips bytes that were refused.
        """
        if self.step == "decode" and self.case.typed is not None and self.case.error is None:
            self.is_unread = True

    def run(self, note: str = "") -> Result:
        """Run all steps and return the result. `note` is appended to the result's reason."""
        outcome = ""
        for step in (self.decode, self.encode, self.validate, self.answer):
            self.step = step.__name__
            try:
                step()
            except UnsupportedError as error:
                self.skip_reason = self.skip_reason or str(error)
            except DiedError:
                raise
            except RuntimeError as error:
                outcome = "error"
                self.keep_stderr()
                self.record_failed_step()
                self.errors.append(f"{_ACTIVITY_BY_STEP[self.step]}: {error}")
            except Exception as error:  # noqa: BLE001  (a program may answer anything)
                outcome = "error"
                self.keep_stderr()
                self.record_failed_step()
                problem = f"the answer violates the protocol: {type(error).__name__}: {error}"
                self.errors.append(f"{_ACTIVITY_BY_STEP[self.step]}: {problem}")
        if not outcome:
            outcome = "pass" if self.facets else "skip"
            outcome = "fail" if self.faults else "note" if self.notes else outcome
        reported = dict.fromkeys(reason for _, _, reason in (*self.faults, *self.notes))
        reasons = [self.skip_reason] if outcome == "skip" else [*self.errors, *reported]
        return self.build_result(outcome, "; ".join(filter(None, (*reasons, note))))

    def request(self, action: str, **parameters: Any) -> Any:
        """Send the program a request with the bytes of the case; return the answer."""
        case = self.case
        request = {"do": action, "data": case.data.hex(), **parameters}
        if action != "validate":
            request["kind"] = case.kind
        if case.limits is not None:
            request["limits"] = dict(case.limits)
        return self.program.ask(request)

    def record(
        self, facet: str, holds: bool, reason: str | Callable[[], str], clause: str = ""
    ) -> None:
        """Record that a facet holds, or else a fault with `reason` and the broken clause.

        An empty `clause` means the clause of the case.
        """
        if holds:
            self.facets[facet] = True
        else:
            self.record_faults(facet, [(clause, reason if isinstance(reason, str) else reason())])

    def record_faults(
        self, facet: str, faults: Iterable[tuple[str, str]], *, is_noted: bool = False
    ) -> None:
        """Record (clause, reason) pairs as faults of a facet, or as notes.

        They are notes if `is_noted` is true, or if no clause defines the result. A fault marks the
        facet as failed; a note does not count for or against it.
        """
        for clause, reason in faults:
            entry = (facet, clause or self.case.clause, reason)
            if is_noted or (facet in _FACETS_UNSPECIFIED_FOR_INVALID_BYTES and self.is_open):
                self.notes.append(entry)
            else:
                self.facets[facet] = False
                self.faults.append(entry)

    @cached_property
    def is_open(self) -> bool:
        """Whether no clause defines how to process the bytes of the case."""
        return is_open(self.case)

    def decode(self) -> None:
        """Judge decoding: the facets `read`, `kept` and `typed`, or `refused` and `cause`."""
        case = self.case
        if case.typed is None and case.error is None:
            return
        try:
            typed = self.request("decode")["typed"]
        except RefusedError as refused:
            self.output = refused.reason
            self.check_refusal(refused)
            return
        self.output = typed
        if case.typed is None:
            rule = case.error.rule if case.error else ""
            if _has_free_limit(case):
                self.skip_reason = f"read: {rule} is for each implementation to choose"
                self.encode_invalid()
                return
            self.record(
                "refused", False, f"read, and must be refused: {rule}", _refusal_clause(case)
            )
            self.encode_invalid()
            return
        if case.error is None:
            self.facets["read"] = True
        if typed is not None:
            agreement_level = self.compare(typed)
            if agreement_level is not None:
                self.facets["kept"] = True
            else:
                self.is_value_changed = True
                faults = self.describe_differences("read", typed)
                # Sections out of order may be read, into an object without an order of sections.
                is_noted = case.error is not None and faults == [_ORDER_CHANGED_WHEN_READ]
                self.record_faults("kept", faults, is_noted=is_noted)
            if agreement_level is not None:
                self.facets["typed"] = agreement_level == "exact"
            if agreement_level == "exact":
                self.output = None  # omit the value from the result: it equals `case.typed`

    def compare(self, typed: Any) -> Agreement:
        """Compare the decoded and the expected value; if they differ, compare their normal forms.

        Only composites, messages and 0-9-1 values have a normal form. A codec without composite
        types may return the described list instead of the composite.
        """
        case = self.case
        level = agreement(case.typed, typed)
        if level is None and case.kind in ("composite", "message", *BASIC_KINDS):
            with suppress(TypeError, ValueError, LookupError):  # not typed JSON
                for loose in (False, True):
                    expected, actual = (
                        normalize(case.kind, value, loose=loose) for value in (case.typed, typed)
                    )
                    level = level or agreement(expected, actual)
        return level

    def describe_differences(self, verb: str, typed: Any) -> list[tuple[str, str]]:
        """Return a (broken clause, description) pair for each difference from the expected value.

        An empty clause means the clause of the case. `verb` begins the descriptions: "read" or
        "wrote".
        """
        case = self.case
        if case.kind == "message":
            with suppress(TypeError, ValueError, LookupError):  # not typed JSON
                expected, actual = (normalize(case.kind, value) for value in (case.typed, typed))
                if actual != expected:
                    present = {section[0] for section in actual}
                    return [
                        (self.descriptor_clause(text, present) or clause, f"{verb}: {text}")
                        for clause, text in differences(expected, actual)
                    ]
        type_clause = ""
        if case.kind == "composite":  # return the clause of the differing field's type
            with suppress(TypeError, ValueError, LookupError):  # not typed JSON
                type_clause = _type_clause(
                    normalize(case.kind, case.typed), normalize(case.kind, typed)
                )
        return [(type_clause, f"{verb} {describe_difference('value', case.typed, typed)}")]

    def descriptor_clause(self, difference: str, present_sections: set[str]) -> str:
        """Return the clause about descriptors if it explains why a section is missing, or "".

        This is so if the case tests that clause. `difference` begins with the section's name.
        """
        name = re.split(r"[ .]", difference, maxsplit=1)[0]
        is_lost = (
            self.case.clause == _DESCRIPTOR_CLAUSE
            and name in _SECTION_NAMES
            and name not in present_sections
        )
        return _DESCRIPTOR_CLAUSE if is_lost else ""

    def check_refusal(self, refusal: RefusedError) -> None:
        """Judge a refusal: whether the case expects it, with this rule and offset if reported."""
        fault = self.case.error
        if fault is None:
            self.record("read", False, f"refused: {refusal.reason}")
            return
        self.facets["refused"] = True
        if refusal.rule is not None or refusal.offset is not None:
            is_expected_cause = refusal.rule in (None, fault.rule) and refusal.offset in (
                None,
                fault.offset,
            )
            cause = f"refused for {refusal.rule} at {refusal.offset}"
            if not is_expected_cause:
                self.facets["cause"] = False
                difference = f"{cause}, not for {fault.rule} at {fault.offset}"
                self.faults.append(("cause", _refusal_clause(self.case), difference))
            else:
                self.facets["cause"] = True

    def encode_invalid(self) -> None:
        """Decode and re-encode bytes that must be refused: only a crash or a hang is a fault."""
        self.step = "again"
        try:
            self.request("again")
        except DiedError:
            raise
        except (RuntimeError, UnsupportedError, RefusedError):
            pass

    def encode(self) -> None:
        """Judge encoding: the facets `written` and `identical`."""
        case = self.case
        if case.typed is None or case.limits is not None or self.facets.get("read") is False:
            return
        if case.compact is None and case.error is not None:
            return
        try:
            try:
                request = {"do": "encode", "kind": case.kind, "typed": case.typed}
                encoded_hex = self.program.ask(request)["data"]
            except UnsupportedError:
                if case.error is not None:
                    raise
                self.step = "again"
                encoded_hex = self.request("again")["data"]
        except RefusedError as refused:
            self.record("written", False, f"not written: {refused.reason}")
            return
        encoded = bytes.fromhex(encoded_hex)
        self.encoded = encoded_hex
        # `decode` has already reported a changed value: do not report the re-encoded value again.
        is_reported = self.is_value_changed and self.step == "again"
        if encoded == case.compact:
            self.facets |= {"written": True, "identical": True}
            self.encoded = None  # omit the bytes from the result: they equal `case.compact`
            return
        try:
            decoded = Amqp10msg(strict=False).decode(case.kind, encoded)
        except RefusedError as refused:
            if is_reported:
                return
            self.record("written", False, f"the encoded bytes cannot be read: {refused.reason}")
            return
        expected, actual = (normalize(case.kind, typed) for typed in (case.typed, decoded))
        if agreement(expected, actual) is not None:
            self.facets["written"] = True
            if case.compact is not None:
                self.facets["identical"] = False
            return
        if is_reported:
            return
        is_noted = self.case.kind in BASIC_KINDS and _are_equal_except_number_types(
            expected, actual
        )
        for clause, text in self.describe_differences("wrote", decoded):
            is_optional = (
                self.step == "again"
                and clause in _CLAUSES_OF_DROPPABLE_SECTIONS
                and text.endswith(_LEFT_OUT_SUFFIX)
            )
            self.record_faults("written", [(clause, text)], is_noted=is_optional or is_noted)

    def validate(self) -> None:
        """Judge the reported violations of a message: the facet `rules`."""
        case = self.case
        if case.violations is None:
            return
        violations = self.request("validate", profile=case.profile)["violations"]
        difference = other_rules(case.violations, violations)
        self.record("rules", not difference, difference)

    def answer(self) -> None:
        """Judge the answer to the question of a case: the facet `answered`."""
        case = self.case
        if case.answer is None:
            return
        answer = self.request("answer", given=case.given)["answer"]
        self.output = answer if answer != case.answer else None
        self.record(
            "answered",
            json.dumps(answer, sort_keys=True) == json.dumps(case.answer, sort_keys=True),
            lambda: f"answers {describe_difference(case.kind, case.answer, answer)}",
        )


# Comparing typed JSON.

# Maximum length of a value in a description, in characters.
_MAX_VALUE_CHARS = 160
_TYPED_NULL = ["null"]
# Facets for which no clause defines the result if the bytes of the case are invalid.
_FACETS_UNSPECIFIED_FOR_INVALID_BYTES = frozenset(("read", "kept", "written"))
# The 0-9-1 type letters of integers.
_INTEGER_LETTERS = frozenset("bBsuUIilL")
# Ends the description of a difference if a section or field is missing.
_LEFT_OUT_SUFFIX = " is left out"
_OASIS_PROFILE = "oasis"
_DESCRIPTOR_CLAUSE = "Part 1, 1.5"
_SECTIONS_CLAUSE = "Part 3, 3.2"
_ORDER_CHANGED = "the sections are in another order"
_ORDER_CHANGED_WHEN_READ = (_SECTIONS_CLAUSE, f"read: {_ORDER_CHANGED}")
# The bare message is immutable, so no section may be inserted into it.
_INSERTED_SECTION_CLAUSE = "Part 3, 3.2"
# Clauses of the sections that an implementation may drop when it re-encodes a message: the delivery
# annotations are for the next node, and no clause requires a node to pass on the footer.
_CLAUSES_OF_DROPPABLE_SECTIONS = ("Part 3, 3.2.2", "Part 3, 3.2.9")
#: Clauses of the AMQP types, by type. Part 1, 1.6 defines the primitive types in this order.
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
_SECTION_NAMES = frozenset(kind.name for kind in KINDS)
# The sections that can be a body. Every message has a body (Part 3, 3.2).
_BODY_SECTIONS = frozenset(("data", "amqp-sequence", "amqp-value"))
# Types of a descriptor in the results of implementations that do not preserve ulong and symbol.
_DESCRIPTOR_TYPE_NAMES = TYPE_FAMILIES["integer"] | TYPE_FAMILIES["octets"]
# Sections for which empty and absent are equivalent. Part 3, 3.2.2 and 3.2.3 say so for
# annotations; no clause distinguishes an empty from an absent footer or application properties.
_MAP_SECTIONS = {kind.name for kind in KINDS if kind.name.endswith(("annotations", "footer"))}
_MAP_SECTIONS.add("application-properties")
_SECTION_CLAUSES = {kind.name: kind.clause for kind in KINDS}
# Numeric descriptors of the sections that are composites.
_COMPOSITE_CODES = {kind.name: kind.code for kind in KINDS if kind.cls in (Header, Properties)}


def normalize(kind: str, typed: Any, *, loose: bool = False) -> Any:
    """Return typed JSON in a normal form, which is the same for equivalent values.

    - Fields with their default value become null, and trailing nulls are removed (Part 1, 1.4).
    - In a message, sections without fields and empty maps are removed.
    - In a composite, the descriptor becomes numeric, and an array with one item in a field that
      allows multiple values becomes the item.
    - In a 0-9-1 table, fields are sorted by name, because no clause defines their order.

    Args:
        kind: the kind of the case.
        typed: the typed JSON.
        loose: also recognize descriptors and default values of another type of the same family
            (`TYPE_FAMILIES`), for implementations that do not preserve types.
    """
    if kind == "message":
        sections = (_normalize_section(section, loose) for section in typed)
        return [section for section in sections if section is not None]
    if kind in BASIC_KINDS:
        return _sort_tables(typed)
    return _normalize_composite(typed, loose) if kind == "composite" else typed


def _sort_tables(typed: Any) -> Any:
    """Return typed JSON of 0-9-1 with the fields of each table sorted by name."""
    if not isinstance(typed, list):
        return typed
    items = [_sort_tables(item) for item in typed]
    if len(items) == 2 and items[0] in ("F", "headers") and isinstance(items[1], list):
        items[1] = sorted(items[1], key=lambda field: json.dumps(field[0], sort_keys=True))
    return items


def is_open(case: Case) -> bool:
    """Whether no clause defines how to process the bytes of a case, for example invalid bytes.

    If the case does not specify the violations of a message, this library validates the message.
    """
    if case.is_open or case.kind != "message" or case.typed is None:
        return case.is_open
    if case.violations is not None and case.profile == _OASIS_PROFILE:
        return False
    violations = Amqp10msg(strict=False).validate(case.data, _OASIS_PROFILE)
    return any(severity == "error" for _, severity, *_ in violations)


def _has_free_limit(case: Case) -> bool:
    """Whether a case is refused for a limit whose value each implementation may choose."""
    return case.error is not None and case.error.rule.endswith("-limit")


def describe_latitude(case: Case) -> str:
    """Return a sentence if the bytes of a case may be read or refused; empty otherwise."""
    error = case.error
    if case.typed is None:
        if error is None or not _has_free_limit(case):
            return ""
        text = f"each implementation may choose the {error.rule.replace('-', ' ')}"
        return f"it may be read, or refused at byte {error.offset}: {text}"
    if not is_open(case):
        return ""
    if case.preference:
        return "it may be read, also as another value, or refused"
    refusal = "refused" if error is None else f"refused for {error.rule} at byte {error.offset}"
    return f"it may be read or {refusal}: no clause requires either for these invalid bytes"


def _refusal_clause(case: Case) -> str:
    """Return the clause that requires an implementation to refuse the bytes of a case."""
    rule_id = case.error.rule if case.error is not None else ""
    rule = RULES.get(rule_id)
    if rule is None or not rule.in_messages or case.error is None or case.kind in BASIC_KINDS:
        return case.clause
    part, _, numbers = rule.clause.partition(", ")
    clauses = [f"{part}, {number}" for number in numbers.split(", ")]
    if case.clause.startswith(tuple(clauses)):
        return case.clause
    # Some rules have a clause for lists and maps, and one for arrays: choose by the constructor.
    is_array = case.data[case.error.offset : case.error.offset + 1] in (b"\xe0", b"\xf0")
    return clauses[-1 if is_array else 0]


def differences(expected: Any, actual: Any) -> list[tuple[str, str]]:
    """Return a (broken clause, description) pair for each difference of two normalized messages."""
    names = [section[0] for section in expected]
    result: list[tuple[str, str]] = []
    for name, content in actual:
        if name in names:
            continue
        if name == "header":  # an absent header means the defaults
            result += _field_differences(name, [], content)
        else:
            result.append(
                (_INSERTED_SECTION_CLAUSE, f"{name} is inserted: {_format_value(content)}")
            )
    for name in dict.fromkeys(names):
        expected_contents, actual_contents = (
            [content for section_name, content in part if section_name == name]
            for part in (expected, actual)
        )
        if not actual_contents:
            fields = expected_contents[0]
            lacks_body = name in _BODY_SECTIONS and not any(
                section_name in _BODY_SECTIONS for section_name, _ in actual
            )
            is_whole_section = name not in _COMPOSITE_CODES or any(
                not isinstance(field, list) for field in fields
            )
            result += (
                [
                    (
                        _SECTIONS_CLAUSE if lacks_body else _section_clause(name),
                        f"{name}{_LEFT_OUT_SUFFIX}",
                    )
                ]
                if is_whole_section
                else _field_differences(name, fields, [])
            )
        elif agreement(expected_contents, actual_contents) is None:
            result += _content_differences(name, expected_contents, actual_contents)
    return result or [(_SECTIONS_CLAUSE, _ORDER_CHANGED)]


def _content_differences(
    name: str, expected: list[Any], actual: list[Any]
) -> list[tuple[str, str]]:
    """Return the differences, as in `differences`, in the contents of the sections `name`."""
    if len(expected) > 1 and expected == actual[::-1]:
        return [(_section_clause(name), f"{name} is in reverse order")]
    if len(expected) != 1 or len(actual) != 1:
        return [
            (
                _section_clause(name),
                f"{name} is {_format_value(actual)}, not {_format_value(expected)}",
            )
        ]
    ((expected_content,), (actual_content,)) = expected, actual
    are_fields = all(isinstance(item, list) for item in (*expected_content, *actual_content))
    if (
        name in _COMPOSITE_CODES
        and isinstance(expected_content, list)
        and isinstance(actual_content, list)
        and are_fields
    ):
        return _field_differences(name, expected_content, actual_content)
    clause = (
        _section_clause(name)
        if name in _COMPOSITE_CODES
        else _type_clause(expected_content, actual_content) or _section_clause(name)
    )
    return [
        (
            clause,
            f"{name} is {_format_value(actual_content)}, not {_format_value(expected_content)}",
        )
    ]


def _field_differences(name: str, expected: list[Any], actual: list[Any]) -> list[tuple[str, str]]:
    """Return the differences, as in `differences`, in the fields of a header or of properties."""
    declared_fields = COMPOSITES[_COMPOSITE_CODES[name]].fields
    differences = []
    for index in range(max(len(expected), len(actual))):
        expected_value, actual_value = (
            fields[index] if index < len(fields) else _TYPED_NULL for fields in (expected, actual)
        )
        if agreement(expected_value, actual_value) is not None:
            continue
        field = (
            f"{name}.{declared_fields[index].name.replace('_', '-')}"
            if index < len(declared_fields)
            else f"field {index} of {name}"
        )
        if actual_value == _TYPED_NULL:
            text = f"{field}{_LEFT_OUT_SUFFIX}"
        elif expected_value == _TYPED_NULL:
            text = f"{field} is {_format_value(actual_value)}, but the case omits it"
        else:
            text = f"{field} is {_format_value(actual_value)}, not {_format_value(expected_value)}"
        differences.append((_section_clause(name), text))
    return differences


def _type_clause(expected: Any, actual: Any) -> str:
    """Return the clause of the expected type of the first differing value; "" if unknown."""
    if not isinstance(expected, list) or not isinstance(actual, list):
        return ""
    kind = expected[0] if expected and isinstance(expected[0], str) else ""
    if kind not in ("list", "map", "array", "described") and kind in TYPE_CLAUSES:
        return TYPE_CLAUSES[kind]
    if len(expected) != len(actual):
        return TYPE_CLAUSES.get(kind, "")
    pairs = iter(zip(expected, actual, strict=True))
    if kind in TYPE_CLAUSES:
        next(pairs)  # skip the type: `actual` may have the name of the type's family instead
    differing = [pair for pair in pairs if pair[0] != pair[1] and agreement(*pair) is None]
    nested_clause = _type_clause(*differing[0]) if differing else ""
    return nested_clause or TYPE_CLAUSES.get(kind, "")


def describe_difference(kind: str, expected: Any, actual: Any) -> str:
    """Describe how `actual` differs from `expected`, both in typed JSON.

    The caller must normalize messages first.
    """
    if kind != "message":
        return f"{_format_value(actual)}, not {_format_value(expected)}"
    return ", ".join(text for _, text in differences(expected, actual))


def _are_equal_except_number_types(expected: Any, actual: Any) -> bool:
    """Whether two typed JSON values of 0-9-1 are equal if the types of numbers are ignored."""
    return bool(_without_number_types(expected) == _without_number_types(actual))


def _without_number_types(typed: Any) -> Any:
    """Return typed JSON of 0-9-1 in which each number is ``[number]``, without its type."""
    if not isinstance(typed, list):
        return typed
    if len(typed) == 2 and typed[0] in _INTEGER_LETTERS and isinstance(typed[1], int):
        return [typed[1]]
    if len(typed) == 2 and typed[0] in ("f", "d") and isinstance(typed[1], str):
        (number,) = struct.unpack(">f" if typed[0] == "f" else ">d", bytes.fromhex(typed[1]))
        return [number]
    if len(typed) == 2 and typed[0] == "D" and isinstance(typed[1], list):
        scale, unscaled = typed[1]
        return [Fraction(unscaled, 10**scale)]
    return [_without_number_types(item) for item in typed]


def _section_clause(name: str) -> str:
    return _SECTION_CLAUSES.get(name, _SECTIONS_CLAUSE)


def _format_value(typed: Any) -> str:
    return shortened(json.dumps(typed, ensure_ascii=False), _MAX_VALUE_CHARS)


def _normalize_section(section: Any, loose: bool) -> Any:
    name, content = section
    if name in _MAP_SECTIONS and content == []:
        return None
    # The content of a valid composite is a list of fields, each of which is a list in typed JSON.
    # Content of the wrong type is one typed value, such as ["string", "x"], which begins with text.
    if name not in _COMPOSITE_CODES or not all(isinstance(field, list) for field in content):
        return section
    fields = _normalize_fields(COMPOSITES[_COMPOSITE_CODES[name]], content, loose)
    return [name, fields] if fields else None


def _normalize_composite(typed: Any, loose: bool) -> Any:
    if not isinstance(typed, list) or len(typed) != 3 or typed[0] != "described":
        return typed
    _, descriptor, content = typed
    declaration = _find_declaration(descriptor, loose)
    if declaration is None or content[0] not in ("list", "sequence"):
        return typed
    kind = "ulong" if descriptor[0] in ("ulong", "symbol") else "integer"
    return [
        "described",
        [kind, declaration.code],
        [content[0], _normalize_fields(declaration, content[1], loose)],
    ]


def _find_declaration(descriptor: Sequence[Any], loose: bool) -> Composite | None:
    """Return the declaration of the composite with a descriptor; None for an unknown descriptor."""
    kind, key = descriptor[0], descriptor[-1]
    if kind == "octets":
        key = bytes.fromhex(key).decode("ascii", "replace")
    is_descriptor = kind in ("ulong", "symbol", "integer", "octets") or (
        loose and kind in _DESCRIPTOR_TYPE_NAMES
    )
    return find_composite(key) if is_descriptor else None


def _normalize_fields(declaration: Composite, values: Iterable[Any], loose: bool) -> list[Any]:
    items = list(values)
    declared_fields = [*declaration.fields, *[None] * (len(items) - len(declaration.fields))]
    fields = [
        _normalize_field(field, value, loose)
        for field, value in zip(declared_fields, items, strict=False)
    ]
    while fields and fields[-1] == _TYPED_NULL:
        fields.pop()
    return fields


def _normalize_field(field: Field | None, value: Any, loose: bool) -> Any:
    if field is None:  # a field beyond the declared fields
        return value
    if field.multiple:
        items = value[2] if value[0] == "array" and len(value) == 3 else None
        items = value[1] if value[0] == "sequence" else items
        if items is not None and len(items) <= 1:
            value = items[0] if items else _TYPED_NULL
    return _TYPED_NULL if _is_default(field, value, loose) else _normalize_composite(value, loose)


def _is_default(field: Field, value: Any, loose: bool) -> bool:
    """Whether a value in typed JSON is the default value of its field. `loose`: see `normalize`."""
    if field.default is None or field.default == ():
        return False
    default = [field.type, getattr(field.default, "value", field.default)]
    if loose or value[0] in TYPE_FAMILIES:
        return agreement(default, value) is not None
    return bool(value == default)
