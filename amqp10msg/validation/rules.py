"""What a rule is, of messages and of termini alike, and what is said where one is broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

import attrs

from amqp10msg.sections.parts import LISTED
from amqp10msg.validation.suspicion import Suspicion
from amqp10msg.wire.reprs import shown

#: ``error`` for what must not be, ``warning`` for what should not.
Severity: TypeAlias = Literal["error", "warning"]

#: Characters of a text that are kept as an example.
MAX_TEXT = 300

_ROW = re.compile(r"^[^\s#].*(?:\n .*)+", re.MULTILINE)


class Found(NamedTuple):
    """A place where a rule is broken.

    Attributes:
        offset: where, in bytes.
        path: where, in words.
        text: what is wrong.
        clause: the clause that was broken, where the rule has several.
    """

    offset: int
    path: str
    text: str
    clause: str = ""


@attrs.frozen
class Rule:
    """One rule: a row of the table that `validate` and the documentation read.

    Attributes:
        id: its short stable name; `DecodeError.rule` has the same one where decoding refuses it.
        clause: the clause of the specification. A rule that several clauses share names them all,
            and a violation of it names the one that was broken.
        severity: ``error`` for MUST, MUST NOT and what the definition of a type or of a message
            requires; ``warning`` for SHOULD, SHOULD NOT and sentences that use none of these words
            and say what is valid, reserved or expected. A profile may change it.
        text: what must be.
        quote: the specification's own words, where they are a sentence.
        refused: strict decoding refuses what breaks it.
        structural: it is about the encodings. Lenient decoding keeps a section that breaks it as
            bytes, and refuses a message where it cannot tell where a section ends, or for a limit.
        check: yields the places where a message breaks the rule; None if reading or encoding the
            message finds them.
        sections: the wire names of the sections whose contents decide about the rule; empty if the
            check looks at the message as a whole.
        suspicion: a quick test that clears most messages of the rule. Without one, the check runs
            on every message, which is always correct.
        in_messages: a message can break it. If False, the rule is about a value or a composite that
            is decoded alone: `DecodeError.rule` names it, and no profile has it.
    """

    id: str
    clause: str
    severity: Severity
    text: str
    quote: str = ""
    refused: bool = False
    structural: bool = False
    check: Callable[[Any], Iterator[Found]] | None = attrs.field(default=None, repr=False, eq=False)
    sections: tuple[str, ...] = attrs.field(default=(), repr=False, kw_only=True)
    suspicion: Suspicion | None = attrs.field(default=None, repr=False, eq=False, kw_only=True)
    in_messages: bool = attrs.field(default=True, repr=False, kw_only=True)


@shown
@attrs.frozen(repr=False)
class Violation:
    """One rule that a message breaks, in one place.

    Attributes:
        rule: the rule's short stable name, a key of `RULES`.
        clause: the clause of the specification, such as ``Part 3, 3.2.5``.
        severity: ``error`` or ``warning``, as `Rule.severity` explains; a profile may change it.
        path: where in the message, such as ``properties.content-encoding``,
            ``application-properties['k']`` or the name of a section; empty where there is no name.
        offset: where in the encoded message, in bytes: the constructor of the key or value that
            is wrong, or of the descriptor where a whole section is. What is missing is reported
            where it should be, and what does not parse where reading ended.
        text: what is wrong, and what would be right.
    """

    rule: str
    clause: str
    severity: Severity
    path: str
    offset: int
    text: str


@attrs.frozen
class Obligation:
    """A sentence of Part 3 that no rule holds a message or a terminus to.

    Attributes:
        clause: the clause of the specification.
        quote: the words of the specification.
        reason: why a message does not show it.
    """

    clause: str
    quote: str
    reason: str


@attrs.define
class RuleCount:
    """How often one rule is broken, or messages fail for one reason.

    Attributes:
        clause: where the specification says it; empty where it says nothing.
        messages: in how many messages.
        first: where the first of them came from; empty where that is not known.
        severity: ``error`` or ``warning``.
        violations: in how many places; 0 where only messages are counted.
        text: what is wrong with the first of them, at most `MAX_TEXT` characters.
    """

    clause: str
    messages: int = 0
    first: str = ""
    severity: str = "error"
    violations: int = 0
    text: str = ""


def rows_of(table: str) -> Iterator[tuple[list[str], str, str]]:
    """Yield the cells, the text and the quote of each row of a table of rules.

    A row is a line of cells with ``|`` between them, and indented lines of the text, in which those
    of the quote begin with ``>``. A line that begins with ``#`` is a comment.
    """
    for row in _ROW.findall(table):
        head, *lines = row.split("\n")
        said = [line.strip() for line in lines]
        yield (
            head.split(" | "),
            " ".join(line for line in said if not line.startswith(">")),
            " ".join(line.removeprefix("> ") for line in said if line.startswith(">")),
        )


def obligations_of(table: str, reasons: Mapping[str, str]) -> tuple[Obligation, ...]:
    """The rows of a table whose cells are the clause and a key of the reasons."""
    return tuple(
        Obligation(clause, text, reasons[reason]) for (clause, reason), text, _ in rows_of(table)
    )


def violation_of(rule: Rule, found: Found, severity: Severity) -> Violation:
    """The violation of a rule in one place."""
    clause = found.clause or rule.clause
    return Violation(rule.id, clause, severity, found.path, found.offset, found.text)


def violations_of(
    rules: Iterable[Rule], view: Any, severities: Mapping[str, Severity] | None = None
) -> Iterator[Violation]:
    """Yield where the rules are broken, rule by rule, of each one at most `LISTED` places.

    Args:
        rules: those to check; one without a check is passed over.
        view: what their checks look at.
        severities: of the rules that count; None for all, each with its own.
    """
    for rule in rules:
        severity = rule.severity if severities is None else severities.get(rule.id)
        if rule.check is not None and severity is not None:
            for found in islice(rule.check(view), LISTED):
                yield violation_of(rule, found, severity)
