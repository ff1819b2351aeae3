"""Classes for the rules of messages and termini, and for violations of these rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

import attrs

from amqp10msg.brokers import unknown_name
from amqp10msg.sections import KINDS
from amqp10msg.sections.parts import MAX_LISTED_VIOLATIONS
from amqp10msg.validation.suspicion import Suspicion
from amqp10msg.wire.errors import AmqpError, shortened_path
from amqp10msg.wire.reprs import with_bounded_repr

#: The severity of a violation: ``error`` for MUST and MUST NOT, ``warning`` for SHOULD and SHOULD
#: NOT.
Severity: TypeAlias = Literal["error", "warning"]

#: Maximum number of characters of a violation's text that `RuleCount` keeps as an example.
MAX_EXAMPLE_LENGTH = 300

_SECTION_NAMES = tuple(kind.name for kind in KINDS)

#: A row of a table for `rows_of`: a line, and the indented lines after it.
_TABLE_ROW_PATTERN = re.compile(r"^[^\s#].*(?:\n .*)+", re.MULTILINE)


class Occurrence(NamedTuple):
    """One violation of a rule, as a check reports it.

    Attributes:
        offset: the offset in the encoded message, in bytes.
        path: the path of the section, field or entry.
        text: the reason, and what to do.
        clause: the violated clause, if the rule covers several; else empty.
        severity: the severity, if it is not that of the rule: ``error`` if a check failed.
    """

    offset: int
    path: str
    text: str
    clause: str = ""
    severity: Severity | None = None


def _check_sections(rule: Any, _: object, sections: tuple[str, ...]) -> None:
    """Raise ValueError if a rule names an unknown section, whose violations would be missed."""
    for name in sections:
        if name not in _SECTION_NAMES:
            raise ValueError(f"{rule.id}: {unknown_name('section', name, _SECTION_NAMES)}")


@attrs.frozen
class Rule:
    """A validation rule. `validate`, the profiles and the documentation read these declarations.

    Attributes:
        id: the short stable name of the rule. `DecodeError.rule` uses it if decoding refuses a
            violation.
        clause: the clause of the specification. A rule of several clauses lists them all; its
            violations name the violated one.
        severity: ``error`` for MUST, MUST NOT and requirements of the definition of a type or of a
            message; ``warning`` for SHOULD, SHOULD NOT and sentences with other words, such as
            "reserved" or "valid". A profile may change it.
        text: the requirement in one sentence.
        quote: the sentence of the specification, if the requirement is one sentence there.
        refused: whether strict decoding refuses a violation.
        about_encoding: whether the rule is about encodings. Lenient decoding keeps a section that
            violates such a rule as bytes; it refuses the message if the end of the section is
            unknown or a limit is exceeded.
        check: yields the violations in a message; None if decoding or encoding detects them.
        sections: wire names of the sections whose contents the check reads; empty if it looks at
            the message as a whole.
        suspicion: a quick test that most messages pass without a check. If None, the check runs on
            every message, which is always correct.
        in_messages: whether a message can violate the rule. If False, the rule is about a value or
            composite that is decoded alone: `DecodeError.rule` names it, and no profile has it.
        damage: which byte may be damaged if the rule is violated: ``type``, the constructor of a
            value; ``structure``, a size, count or descriptor; or ``content``, the content of a
            value. Empty if a violation is no sign of damage. `Violation.follows` depends on it.
    """

    id: str
    clause: str
    severity: Severity
    text: str
    quote: str = ""
    refused: bool = False
    about_encoding: bool = False
    check: Callable[[Any], Iterator[Occurrence]] | None = attrs.field(
        default=None, repr=False, eq=False
    )
    sections: tuple[str, ...] = attrs.field(
        default=(), validator=_check_sections, repr=False, kw_only=True
    )
    suspicion: Suspicion | None = attrs.field(default=None, repr=False, eq=False, kw_only=True)
    in_messages: bool = attrs.field(default=True, repr=False, kw_only=True)
    damage: Literal["", "type", "structure", "content"] = attrs.field(
        default="", repr=False, kw_only=True
    )


@with_bounded_repr
@attrs.frozen(repr=False)
class Violation:
    """One violation of a rule by a message.

    Attributes:
        rule: the id of the rule, a key of `RULES`.
        clause: the violated clause of the specification, such as ``Part 3, 3.2.5``.
        severity: ``error`` or ``warning``, as the profile defines it.
        path: the section, field or entry, such as ``header``, ``properties.content-encoding`` or
            ``application-properties['k']``; empty if the violation is not in a section.
        offset: the offset in the encoded message, in bytes. It is the constructor of the wrong key
            or value; for a whole section, the constructor of its descriptor; for a missing section,
            the offset where the section belongs; for malformed bytes, the offset where decoding
            failed.
        text: the reason, and what to do.
        follows: the offset of an earlier violation of which this one may be a consequence, because
            the bytes after it may be misread: correct that one first. The text says so, too. None
            for all other violations.
    """

    rule: str
    clause: str
    severity: Severity
    path: str
    offset: int
    text: str
    follows: int | None = None


class ValidationError(AmqpError, ValueError):
    """A message violates rules of the specification, which `violations` lists."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__(violations)
        self.violations = tuple(violations)

    def __str__(self) -> str:
        return "; ".join(
            f"{shortened_path(v.path) or 'message'}: {v.text}" for v in self.violations
        )


@attrs.frozen
class Obligation:
    """A requirement of Part 3 that has no rule, because a message or terminus cannot show it.

    Attributes:
        clause: the clause of the specification.
        quote: the sentence of the specification.
        reason: why there is no rule.
    """

    clause: str
    quote: str
    reason: str


@attrs.define
class RuleCount:
    """Counts of the violations of one rule, or of the messages that failed for one reason.

    Attributes:
        clause: the clause of the specification; may be empty.
        messages: number of messages.
        first: the input of the first such message; empty if unknown.
        severity: ``error`` or ``warning``.
        violations: number of violations; 0 if only messages are counted.
        text: the text of the first violation, at most `MAX_EXAMPLE_LENGTH` characters.
    """

    clause: str
    messages: int = 0
    first: str = ""
    severity: str = "error"
    violations: int = 0
    text: str = ""


def rows_of(table: str) -> Iterator[tuple[list[str], str, str]]:
    """Parse a table of rules; yield the cells, the text and the quote of each row.

    A row begins with a line of cells, separated by ``|``. Indented lines of text follow, in which
    the lines of the quote begin with ``>``. A line that begins with ``#`` is a comment.
    """
    for row in _TABLE_ROW_PATTERN.findall(table):
        head, *lines = row.split("\n")
        stripped = [line.strip() for line in lines]
        yield (
            head.split(" | "),
            " ".join(line for line in stripped if not line.startswith(">")),
            " ".join(line.removeprefix("> ") for line in stripped if line.startswith(">")),
        )


def obligations_of(table: str, reasons: Mapping[str, str]) -> tuple[Obligation, ...]:
    """Parse a table of obligations in the format of `rows_of`.

    The cells of a row are the clause and a key of `reasons`; its text is the quote.
    """
    return tuple(
        Obligation(clause, text, reasons[reason]) for (clause, reason), text, _ in rows_of(table)
    )


def violation_of(rule: Rule, occurrence: Occurrence, severity: Severity) -> Violation:
    """Return the `Violation` for an occurrence of `rule`.

    A clause or severity of the occurrence replaces that of the rule, and `severity`.
    """
    clause = occurrence.clause or rule.clause
    severity = occurrence.severity or severity
    return Violation(rule.id, clause, severity, occurrence.path, occurrence.offset, occurrence.text)


def violations_of(
    rules: Iterable[Rule], view: Any, severities: Mapping[str, Severity] | None = None
) -> Iterator[Violation]:
    """Check the rules; yield at most 100 (`MAX_LISTED_VIOLATIONS`) violations of each rule.

    Args:
        rules: the rules to check; a rule without a check is skipped.
        view: the argument of the checks, such as a `MessageMap`.
        severities: the severities by rule id; rules without an entry are skipped. None to check all
            rules with their own severities.
    """
    for rule in rules:
        severity = rule.severity if severities is None else severities.get(rule.id)
        if rule.check is not None and severity is not None:
            for occurrence in islice(rule.check(view), MAX_LISTED_VIOLATIONS):
                yield violation_of(rule, occurrence, severity)
