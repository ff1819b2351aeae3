"""The results of a conformance run, one for each case and implementation, and their JSON file."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.atomic_files import write_whole
from amqp10msg.interop.corpus import Case, CorpusError
from amqp10msg.wire.errors import expect

#: The facets of a case that are judged, by their names in reports, with their meanings.
FACETS = {
    "read": "valid bytes are decoded",
    "kept": "the decoded values are the expected ones",
    "typed": "the decoded types are the expected ones, too",
    "written": "the re-encoded bytes hold the same values",
    "identical": "the re-encoded bytes are the smallest encoding, byte for byte",
    "refused": "invalid bytes are refused",
    "cause": "invalid bytes are refused for the right rule, at the right offset",
    "rules": "exactly the rules that a message breaks are reported, at the right offsets",
    "answered": "the fate of a message or a delivery is decided as the specification requires",
}
#: Further facets, judged for live brokers only.
BROKER_FACETS = {"unchanged": "a broker passes the bare message on byte for byte"}
#: Facets that no clause requires. Longer encodings are valid, and an API may merge related types.
OPTIONAL_FACETS = frozenset(("typed", "identical"))
#: Outcomes of cases in which the implementation broke no clause.
SOUND_OUTCOMES = frozenset(("pass", "skip", "note"))
#: Outcomes of a case, worst last. ``note`` is a difference that no clause forbids. ``hang`` and
#: ``memory`` mean that the process exceeded the timeout or the memory limit, and was killed.
OUTCOMES = ("pass", "skip", "note", "fail", "error", "hang", "memory", "crash")
#: Outcomes of cases in which the process crashed or was killed.
DEATH_OUTCOMES = frozenset(("hang", "memory", "crash"))

_FILE_FORMAT = "amqp10msg conformance 1"


@attrs.frozen(kw_only=True)
class Result:
    """The result of one case.

    Attributes:
        case: the case's id.
        digest: a hash of the whole case; a result is discarded if the case has changed since.
        kind: the kind of the case.
        clause: the clause that the case tests.
        outcome: an outcome of `OUTCOMES`.
        facets: {facet: whether it holds} for the judged facets of `FACETS` and `BROKER_FACETS`.
        reason: a description of the faults or notes, or why the case was skipped.
        faults: (facet, broken clause, description) for each required facet that does not hold;
            several entries if several clauses are broken.
        notes: like `faults`, for behaviour that no clause forbids, such as how invalid bytes are
            decoded.
        said: the decoded value in typed JSON if it differs from the expected value, or the error
            text of a refusal.
        wrote: the encoded bytes in hex if they differ from the expected bytes.
        verdict: what a broker did with the message: a key of
            `amqp10msg.interop.conformance.brokers.VERDICTS`; empty for other implementations.
        stderr: what the program wrote to standard error during the case, if the outcome is an error
            or a death; see `Program.stderr`.
    """

    case: str
    digest: str
    kind: str
    clause: str
    outcome: str
    facets: Mapping[str, bool] = attrs.field(factory=dict)
    reason: str = ""
    faults: Sequence[Sequence[str]] = ()
    notes: Sequence[Sequence[str]] = ()
    said: Any = None
    wrote: str | None = None
    verdict: str = ""
    stderr: str = ""

    @classmethod
    def of(cls, case: Case, outcome: str, **attributes: Any) -> Result:
        """Create the result of a case; `attributes` are those that follow `outcome`, by name."""
        expect(case, Case, "the case of Result.of", "a Case")
        return cls(
            case=case.id,
            digest=digest_of(case),
            kind=case.kind,
            clause=case.clause,
            outcome=outcome,
            **attributes,
        )

    @property
    def broken_clauses(self) -> str:
        """The clauses that the implementation breaks; the clause of the case if it breaks none."""
        return "; ".join(dict.fromkeys(clause for _, clause, _ in self.faults)) or self.clause

    def to_object(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        fields = attrs.asdict(self, recurse=False)
        fields["facets"] = dict(self.facets)
        return {key: value for key, value in fields.items() if value not in (None, "", ())}

    @classmethod
    def from_object(cls, fields: Mapping[str, Any]) -> Result:
        """Create a result from the JSON object that `to_object` returns.

        Raises:
            ValueError: `fields` is not a valid result.
        """
        if not isinstance(fields, dict):
            kind = type(fields).__name__
            raise ValueError(f"not a result of a case: {kind} instead of an object")  # noqa: TRY004  (documented)
        invalid = _invalid_field(fields)
        if invalid:
            raise ValueError(f"not a result of a case: {invalid} is missing or has a wrong value")
        return cls(**fields)


def _is_list_of_text_lists(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, list) and all(isinstance(text, str) for text in row) for row in value
    )


def _invalid_field(fields: Mapping[str, Any]) -> str:
    """Return the name of a missing, invalid or unknown field of a stored result; "" if valid."""
    for field in attrs.fields(Result):
        if field.name not in fields:
            if field.default is attrs.NOTHING:
                return field.name
            continue
        value = fields[field.name]
        is_valid = (
            value in OUTCOMES
            if field.name == "outcome"
            else _is_list_of_text_lists(value)
            if field.name in {"faults", "notes"}
            else isinstance(value, dict) and all(type(flag) is bool for flag in value.values())
            if field.name == "facets"
            else field.name == "said" or isinstance(value, str)
        )
        if not is_valid:
            return field.name
    return next((name for name in fields if name not in attrs.fields_dict(Result)), "")


def _string_members(value: Any, *names: str) -> list[str]:
    """Return the members `names` of a JSON object.

    Raises:
        KeyError: a member is missing.
        TypeError: `value` is not an object, or a member is not a string.
    """
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {value!r:.40}")
    texts = [value[name] for name in names]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{' and '.join(names)} must be strings")
    return texts


@attrs.frozen
class PeerResults:
    """The results of one implementation.

    Attributes:
        peer: the implementation's name on the command line.
        name: the name and version that the implementation reports.
        results: the results, in the order of the cases.
    """

    peer: str
    name: str
    results: Sequence[Result]

    @property
    def ok(self) -> bool:
        """Whether at least one case was tested, and no case failed.

        A case passes with or without a note; a skipped case was not tested.
        """
        return self.tested and all(result.outcome in SOUND_OUTCOMES for result in self.results)

    @property
    def tested(self) -> bool:
        """Whether at least one case was tested, that is, not skipped."""
        return any(result.outcome != "skip" for result in self.results)

    @property
    def died(self) -> int:
        """The number of cases in which the process crashed or was killed (`DEATH_OUTCOMES`)."""
        return sum(result.outcome in DEATH_OUTCOMES for result in self.results)

    def counts(self) -> dict[str, int]:
        """Return the number of results with each outcome, including zeros."""
        counter = Counter(result.outcome for result in self.results)
        return {outcome: counter[outcome] for outcome in OUTCOMES}

    def facets(self, names: Iterable[str] = FACETS) -> dict[str, tuple[int, int]]:
        """Return {facet: (number of cases in which it holds, number in which it was judged)}."""
        holding: Counter[str] = Counter()
        judged: Counter[str] = Counter()
        for result in self.results:
            holding.update(name for name, holds in result.facets.items() if holds)
            judged.update(result.facets.keys())
        return {name: (holding[name], judged[name]) for name in names}


def facets_of(peers: Iterable[PeerResults]) -> dict[str, str]:
    """Return {facet: meaning} for a table of `peers`: `FACETS`, and the judged `BROKER_FACETS`."""
    judged = {name for peer in peers for result in peer.results for name in result.facets}
    return FACETS | {name: text for name, text in BROKER_FACETS.items() if name in judged}


def percent(holding: int, judged: int) -> str:
    """Return `holding` / `judged` in percent, such as ``99.9``; ``100`` only if all hold."""
    if holding == judged:
        return "100"
    return f"{min(100 * holding / judged, 99.9):.1f}"


def digest_of(case: Case) -> str:
    """Return a hash of all attributes of a case."""
    text = json.dumps(case.to_object(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def chapter_of(clause: str) -> str:
    """Return the chapter of a clause: ``Part 1, 1.6`` of ``Part 1, 1.6.5``."""
    return ".".join(clause.split(".")[:2])


def save(peers: Iterable[PeerResults], path: Path) -> None:
    """Write results to a JSON file atomically.

    Raises:
        OSError: the file cannot be written.
    """
    content = {
        "format": _FILE_FORMAT,
        "peers": [
            {
                "peer": peer.peer,
                "name": peer.name,
                "counts": peer.counts(),
                "facets": peer.facets(facets_of([peer])),
                "results": [result.to_object() for result in peer.results],
            }
            for peer in peers
        ],
    }
    text = json.dumps(content, ensure_ascii=False, indent=None, separators=(",", ":"))
    write_whole(path, text + "\n")


def load(path: Path) -> list[PeerResults]:
    """Read results that `save` wrote.

    Raises:
        CorpusError: the file does not contain results.
        OSError: the file cannot be read.
    """
    path = Path(path)
    try:
        content = json.loads(path.read_bytes())  # `load_json` would refuse deeply nested cases
        (file_format,) = _string_members(content, "format")
        if file_format != _FILE_FORMAT:
            raise CorpusError(f"not of the format {_FILE_FORMAT!r}", str(path))
        return [
            PeerResults(name, own_name, [Result.from_object(result) for result in peer["results"]])
            for peer in content["peers"]
            for name, own_name in [_string_members(peer, "peer", "name")]
        ]
    except CorpusError:
        raise
    except RecursionError:
        raise CorpusError("not results of a run: nested too deeply", str(path)) from None
    except (KeyError, TypeError, ValueError) as error:
        raise CorpusError(f"not results of a run: {error}", str(path)) from None
