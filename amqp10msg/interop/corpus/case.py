"""One case of the corpus, and its form as an object of JSON or CBOR."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from amqp10msg.interop.corpus.answers import QUESTIONS
from amqp10msg.interop.corpus.basic_kinds import BASIC_KINDS
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.limits import Limits

#: What the bytes are decoded as: a value, a message, or a composite such as an outcome; of AMQP
#: 0-9-1, the properties of class basic, or a field table; or what a question is about.
KINDS = ("value", "message", "composite", *BASIC_KINDS, *QUESTIONS)
#: Of a violation: errors break a MUST or MUST NOT, warnings a SHOULD or SHOULD NOT.
SEVERITIES = ("error", "warning")

_ID = re.compile(r"[a-z0-9]+(?:[-._][a-z0-9]+)*")
# Without that for files.
_LIMITS = tuple(field.name for field in attrs.fields(Limits) if field.name != "expansion")
_CLAUSE = re.compile(
    r"Part [1-5], \d+(?:\.\d+){1,3}"
    r"|0-9-1, \d+(?:\.\d+){1,4}"
    r"|Translation, [a-z0-9]+(?:[.-][a-z0-9]+)*"
)


class CorpusError(AmqpError, ValueError):
    """A case contradicts itself, or a file of cases is malformed.

    Attributes:
        reason: what is wrong.
        where: the case's id, or the file and the line or item.
    """

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(reason, where)
        self.reason = reason
        self.where = where

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.where else self.reason


@attrs.frozen
class Fault:
    """Why bytes are refused.

    Attributes:
        rule: the rule's id, which is `DecodeError.rule`, such as ``truncated``.
        offset: where the offending encoding begins, in bytes from the start of the data.
    """

    rule: str
    offset: int


@attrs.frozen(kw_only=True)
class Case:
    """Bytes, and what an implementation of AMQP 1.0 must make of them.

    Three kinds of cases: with `typed` alone the bytes must decode to that; with `error` alone they
    are not a valid encoding and must be refused; with both they can be decoded, and break a rule
    for which a strict implementation refuses them. A case of one of `QUESTIONS` has `answer`
    instead: what an implementation decides.

    Attributes:
        id: its name, unique in a corpus: lower case, with ``-``, ``.`` or ``_`` between words.
        kind: one of `KINDS`.
        data: the bytes.
        typed: what they decode to, in typed JSON (`amqp10msg.notation`): one value, or a message's
            list of sections. Of a composite the value with the numeric descriptor, fields that
            equal their default null, and without trailing nulls; of one that breaks its
            declaration the value as it stands in the bytes.
        compact: the smallest encoding of `typed`, or None where the case leaves that open, as those
            of the corpus do that a strict implementation refuses.
        error: why they are refused.
        violations: the rules of Part 3 that a message breaks, as (rule, severity, offset of the
            first place), sorted; empty for a sound message, None where the case does not say.
        profile: the set of rules that `violations` is about.
        limits: what decoding may cost, by the names of `Limits`, such as ``{"items": 3}``; None
            for its defaults. An implementation without limits skips the case.
        given: of a question, what it is about besides the bytes.
        answer: of a question, what is decided.
        clause: of the specification, such as ``Part 1, 1.6.5``; ``0-9-1, 4.2.5.5`` is
            of that text, ``Translation, rabbitmq-4.0`` of a profile.
        origin: who wrote the bytes.
        licence: of the case, an SPDX identifier.
        note: what the case is about, for people.

    Raises:
        CorpusError: the attributes contradict each other.
    """

    id: str
    kind: str
    data: bytes
    clause: str
    origin: str
    typed: Any = None
    compact: bytes | None = None
    error: Fault | None = None
    violations: tuple[tuple[str, str, int], ...] | None = None
    profile: str = "oasis"
    limits: Mapping[str, int] | None = None
    given: Mapping[str, Any] | None = None
    answer: Any = None
    licence: str = "Apache-2.0"
    note: str = ""

    def __attrs_post_init__(self) -> None:
        for reason in self._contradictions():
            raise CorpusError(reason, self.id)

    def _contradictions(self) -> Iterator[str]:
        if not _ID.fullmatch(self.id):
            yield f"{self.id!r} is not an id: words of a-z and 0-9, dashes"
        if self.kind not in KINDS:
            yield f"kind is one of {', '.join(KINDS)}, not {self.kind!r}"
        if not _CLAUSE.fullmatch(self.clause):
            yield f"{self.clause!r} is not a clause such as 'Part 3, 3.2.4'"
        if not self.origin:
            yield "origin must say who wrote the bytes"
        if not self.licence:
            yield "licence must not be empty"
        if (self.answer is None) is (self.kind in QUESTIONS):
            yield "an answer is what a question has, and nothing else"
        if self.kind in QUESTIONS and (self.typed is not None or self.error is not None):
            yield "a question has an answer instead of typed and error"
        if self.kind not in QUESTIONS and self.typed is None and self.error is None:
            yield "one of typed and error must say what is expected"
        if self.compact is not None and self.typed is None:
            yield "compact is the encoding of typed, which is missing"
        if self.violations is not None and self.kind != "message":
            yield "only a message can have violations"
        if any(severity not in SEVERITIES for _, severity, _ in self.violations or ()):
            yield f"the severity of a violation is one of {', '.join(SEVERITIES)}"
        if any(not 0 <= offset <= len(self.data) for _, _, offset in self.violations or ()):
            yield "the offset of a violation is outside the data"
        if self.violations is not None and list(self.violations) != sorted(self.violations):
            yield "violations must be sorted"
        if self.limits is not None and not _are_limits(self.limits):
            yield f"limits are {', '.join(_LIMITS)}, as `Limits` takes them, not {self.limits!r}"
        if self.error is not None and not 0 <= self.error.offset <= len(self.data):
            yield "the error's offset is outside the data"

    def to_object(self, *, binary: bool = False) -> dict[str, Any]:
        """Return the case as a JSON object, or as a CBOR one with `binary`.

        They differ in `data` and `compact`: hex in JSON, bytes in CBOR. What is None, empty or the
        default is left out.
        """
        octets = bytes if binary else bytes.hex
        violations = self.violations
        made: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "data": octets(self.data),
            "typed": self.typed,
            "compact": None if self.compact is None else octets(self.compact),
            "error": None if self.error is None else attrs.asdict(self.error),
            "violations": None if violations is None else [list(one) for one in violations],
            "profile": None if self.profile == "oasis" else self.profile,
            "limits": None if self.limits is None else dict(self.limits),
            "given": None if self.given is None else dict(self.given),
            "answer": self.answer,
            "clause": self.clause,
            "origin": self.origin,
            "licence": self.licence,
            "note": self.note or None,
        }
        return {key: value for key, value in made.items() if value is not None}

    @classmethod
    def from_object(cls, made: Any) -> Case:
        """Read what `to_object` returns, of either kind.

        Raises:
            CorpusError: a key is missing, unknown, or of a wrong type.
        """
        if not isinstance(made, Mapping):
            raise CorpusError(f"a case is an object, not {type(made).__name__}")
        where = str(made.get("id", ""))
        given = dict(made)
        for key, wanted in _TYPES.items():
            if key not in given:
                if key in _REQUIRED:
                    raise CorpusError(f"{key} is missing", where)
            elif not isinstance(given[key], wanted):
                names = " or ".join(kind.__name__ for kind in wanted)
                raise CorpusError(f"{key} is {names}, not {type(given[key]).__name__}", where)
        if unknown := given.keys() - _TYPES.keys():
            raise CorpusError(f"a case has no attribute {', '.join(sorted(unknown))}", where)
        try:
            for key in ("data", "compact"):
                if isinstance(given.get(key), str):
                    given[key] = bytes.fromhex(given[key])
            if "error" in given:
                given["error"] = Fault(**given["error"])
            if "violations" in given:
                given["violations"] = tuple(
                    (rule, level, offset) for rule, level, offset in given["violations"]
                )
        except (TypeError, ValueError) as error:
            raise CorpusError(str(error), where) from None
        return cls(**given)


def _are_limits(given: Mapping[str, int]) -> bool:
    try:
        Limits(**given)
    except (TypeError, ValueError):
        return False
    return bool(given)


_TYPES: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "kind": (str,),
    "data": (str, bytes),
    "typed": (list,),
    "compact": (str, bytes),
    "error": (Mapping,),
    "violations": (list,),
    "profile": (str,),
    "limits": (Mapping,),
    "given": (Mapping,),
    "answer": (bool, str, Mapping),
    "clause": (str,),
    "origin": (str,),
    "licence": (str,),
    "note": (str,),
}
_REQUIRED = {"id", "kind", "data", "clause", "origin", "licence"}
