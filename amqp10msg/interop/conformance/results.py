"""What a run found: one result a case, in sums and in files."""

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

#: What is asked of an implementation, by the name of the column, and what it means.
FACETS = {
    "read": "what must be read is read",
    "kept": "its values are the expected ones",
    "typed": "and so are their types",
    "written": "what is written of it says the same values",
    "identical": "and is the smallest encoding, byte for byte",
    "refused": "what must be refused is refused",
    "cause": "and for the right rule, at the right place",
    "rules": "the rules that a message breaks are found, and no others, where they are broken",
    "answered": "what becomes of a message or a delivery is decided as the specification says",
}
#: What is asked besides, of live brokers alone.
BROKER_FACETS = {"unchanged": "a broker passes the bare message on byte for byte"}
#: Facets that are not required: a longer encoding is as valid, types of one family may serve.
OPTIONAL = frozenset(("typed", "identical"))
#: Outcomes of cases in which no clause was broken.
SOUND = frozenset(("pass", "skip", "note"))
#: How a case ends, worst last: ``hang``, ``memory`` and ``crash`` end the process.
#: ``note``: something is worth knowing, and no clause forbids it.
OUTCOMES = ("pass", "skip", "note", "fail", "error", "hang", "memory", "crash")
DEATHS = frozenset(("hang", "memory", "crash"))

_FORMAT = "amqp10msg conformance 1"


@attrs.frozen(kw_only=True)
class Result:
    """What became of one case.

    Attributes:
        case: the case's id.
        digest: of the whole case, so that a result is not taken for one of another case.
        kind: of the case.
        clause: that the case is about.
        outcome: one of `OUTCOMES`.
        facets: of `FACETS` and `BROKER_FACETS`, those that were asked for, and whether they hold.
        reason: what was wrong or noted, or why the case was skipped.
        faults: for each facet that does not hold and is required, the facet, the clause that is
            broken, and how; a facet may break several.
        notes: likewise what no clause forbids, such as how bytes are read that break a rule.
        said: what was decoded in typed JSON, where it is not what is expected, or the words of a
            refusal.
        wrote: what was encoded, in hex, where it is not what is expected.
        verdict: for a broker, what became of the message: a key of
            `amqp10msg.interop.conformance.brokers.VERDICTS`.
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

    @classmethod
    def of(cls, case: Case, outcome: str, **others: Any) -> Result:
        """Return the result of a case; `others` are further attributes."""
        expect(case, Case, "the case of Result.of", "a Case")
        return cls(
            case=case.id,
            digest=digest_of(case),
            kind=case.kind,
            clause=case.clause,
            outcome=outcome,
            **others,
        )

    def to_object(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        made = attrs.asdict(self, recurse=False)
        made["facets"] = dict(self.facets)
        return {key: value for key, value in made.items() if value not in (None, "", ())}

    @classmethod
    def from_object(cls, made: Mapping[str, Any]) -> Result:
        """Read what `to_object` returns.

        Raises:
            ValueError: it is not the object of a result.
        """
        if not isinstance(made, dict):
            kind = type(made).__name__
            raise ValueError(f"not a result of a case: {kind} instead of an object")  # noqa: TRY004  (documented)
        wrong = _wrong_field(made)
        if wrong:
            raise ValueError(f"not a result of a case: {wrong} is missing or has a wrong value")
        return cls(**made)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, list) and all(isinstance(text, str) for text in row) for row in value
    )


def _wrong_field(made: Mapping[str, Any]) -> str:
    """Return the name of a field that a stored result must not have, or not with its value."""
    for field in attrs.fields(Result):
        if field.name not in made:
            if field.default is attrs.NOTHING:
                return field.name
            continue
        value = made[field.name]
        sound = (
            value in OUTCOMES
            if field.name == "outcome"
            else _are_texts(value)
            if field.name in {"faults", "notes"}
            else isinstance(value, dict) and all(type(one) is bool for one in value.values())
            if field.name == "facets"
            else field.name == "said" or isinstance(value, str)
        )
        if not sound:
            return field.name
    return next((name for name in made if name not in attrs.fields_dict(Result)), "")


def _texts_in(value: Any, *names: str) -> list[str]:
    """Return members of a JSON object that must be strings."""
    if not isinstance(value, dict):
        raise TypeError(f"an object is needed, not {value!r:.40}")
    texts = [value[name] for name in names]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{' and '.join(names)} must be strings")
    return texts


@attrs.frozen
class PeerResults:
    """The results of one implementation.

    Attributes:
        peer: how it is called on the command line.
        name: what it calls itself, with its version.
        results: in the order of the cases.
    """

    peer: str
    name: str
    results: Sequence[Result]

    @property
    def ok(self) -> bool:
        """Whether at least one case was tested, and no case failed.

        A case passes with or without a note; a skipped case was not tested.
        """
        return self.tested and all(result.outcome in SOUND for result in self.results)

    @property
    def tested(self) -> bool:
        """Whether at least one case was tested, that is, not skipped."""
        return any(result.outcome != "skip" for result in self.results)

    @property
    def died(self) -> int:
        """In how many cases the process ended, hung or took too much memory."""
        return sum(result.outcome in DEATHS for result in self.results)

    def counts(self) -> dict[str, int]:
        """Return how many results have each outcome, also if that is none."""
        found = Counter(result.outcome for result in self.results)
        return {outcome: found[outcome] for outcome in OUTCOMES}

    def facets(self, names: Iterable[str] = FACETS) -> dict[str, tuple[int, int]]:
        """Return for each facet in how many cases it holds, and in how many it was asked for."""
        held: Counter[str] = Counter()
        asked: Counter[str] = Counter()
        for result in self.results:
            held.update(name for name, holds in result.facets.items() if holds)
            asked.update(result.facets.keys())
        return {name: (held[name], asked[name]) for name in names}


def facets_of(peers: Iterable[PeerResults]) -> dict[str, str]:
    """Return the facets that a table of these has columns for, and what each means."""
    asked = {name for peer in peers for result in peer.results for name in result.facets}
    return FACETS | {name: text for name, text in BROKER_FACETS.items() if name in asked}


def percent(held: int, asked: int) -> str:
    """Return a share in percent, such as ``99.9``; ``100`` is all of it, and no less."""
    if held == asked:
        return "100"
    return f"{min(100 * held / asked, 99.9):.1f}"


def digest_of(case: Case) -> str:
    """Return a digest of everything in a case."""
    text = json.dumps(case.to_object(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def chapter_of(clause: str) -> str:
    """Return the chapter of a clause: ``Part 1, 1.6`` of ``Part 1, 1.6.5``."""
    return ".".join(clause.split(".")[:2])


def save(peers: Iterable[PeerResults], path: Path) -> None:
    """Write results to a JSON file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    made = {
        "format": _FORMAT,
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
    text = json.dumps(made, ensure_ascii=False, indent=None, separators=(",", ":"))
    write_whole(path, text + "\n")


def load(path: Path) -> list[PeerResults]:
    """Read what `save` wrote.

    Raises:
        CorpusError: the file holds something else.
        OSError: the file cannot be read.
    """
    path = Path(path)
    try:
        made = json.loads(path.read_bytes())  # not `load_json`: values of cases have more levels
        (said,) = _texts_in(made, "format")
        if said != _FORMAT:
            raise CorpusError(f"not of the format {_FORMAT!r}", str(path))
        return [
            PeerResults(name, own_name, [Result.from_object(one) for one in peer["results"]])
            for peer in made["peers"]
            for name, own_name in [_texts_in(peer, "peer", "name")]
        ]
    except CorpusError:
        raise
    except RecursionError:
        raise CorpusError("not results of a run: nested too deeply", str(path)) from None
    except (KeyError, TypeError, ValueError) as error:
        raise CorpusError(f"not results of a run: {error}", str(path)) from None
