"""One case of the corpus, and files of cases: JSON lines, a CBOR sequence (RFC 8742), Parquet."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import NoneType
from typing import Any

import attrs

from amqp10msg.wire.errors import AmqpError, expect
from amqp10msg.wire.later import of_extra
from amqp10msg.wire.limits import Limits

#: The kinds whose bytes are of AMQP 0-9-1.
BASIC_KINDS = ("basic-properties", "field-table")
#: The kinds of cases that ask for a decision.
QUESTIONS = ("filter", "resumption", "translation", "terminus")
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
        preference: why no clause requires what is expected; what is found instead is worth a note
            and is not a fault. Empty where a clause requires it.

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
    preference: str = ""

    def __attrs_post_init__(self) -> None:
        expect(self.error, (Fault, NoneType), "the error of a Case", "a Fault or None")
        for reason in self._contradictions():
            raise CorpusError(reason, self.id)

    def _contradictions(self) -> Iterator[str]:
        places = [(rule, offset) for rule, _, offset in self.violations or ()]
        places += [(self.error.rule, self.error.offset)] if self.error is not None else []
        if not all(type(rule) is str and type(offset) is int for rule, offset in places):
            yield "a rule is a str, and an offset an int"
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

    @property
    def is_open(self) -> bool:
        """Whether no clause says what becomes of the bytes, as they break one or by preference.

        What must be refused is not open, and neither is what a message breaks.
        """
        if self.preference:
            return True
        broken = (
            any(severity == "error" for _, severity, _ in self.violations or ())
            and self.profile == "oasis"
        )
        return self.typed is not None and (self.error is not None or broken)

    def to_object(self, *, binary: bool = False) -> dict[str, Any]:
        """Return the case as a JSON object, or as a CBOR one with `binary`.

        They differ in `data` and `compact`: hex in JSON, bytes in CBOR. What is None, empty or the
        default is left out.
        """
        made: dict[str, Any] = {}
        for name in _TYPES:
            value = getattr(self, name)
            if value is None or value == _DEFAULTS.get(name):
                continue
            if isinstance(value, bytes):
                value = value if binary else value.hex()
            elif isinstance(value, Fault):
                value = attrs.asdict(value)
            elif name == "violations":
                value = [list(one) for one in value]
            elif isinstance(value, Mapping):
                value = dict(value)
            made[name] = value
        return made

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
    "preference": (str,),
}
_DEFAULTS = {"profile": "oasis", "note": "", "preference": ""}
_REQUIRED = {"id", "kind", "data", "clause", "origin", "licence"}


# Files.

#: Suffixes of files that hold a CBOR sequence; every other file holds JSON lines.
_CBOR = (".cbor", ".cborseq")
_PARQUET = ".parquet"
# The ids of the messages for demonstrations.
_DEMO = (
    # What a broker makes of one AMQP 0-9-1 message, version by version.
    "rabbitmq-3.10.8-classic-from-091-all-but-user-id",
    "rabbitmq-4.0.5-quorum-from-091-all-but-user-id",
    "rabbitmq-4.3.6-stream-from-091-all-but-user-id",
    "rabbitmq-4.3.6-quorum-from-091-cc",
    # Every section, with the three kinds of body.
    "rabbitmq-4.3.6-quorum-relay-full-data",
    "rabbitmq-4.3.6-quorum-relay-full-seq",
    "proton-0.40.0-again-full-value",
    # The type system at work.
    "proton-0.40.0-built-all",
    "rhea-3.0.5-built-p-all",
    "proton-0.40.0-built-body-described",
    "rabbitmq-4.3.6-quorum-relay-ap-order",
    # Violations of the specification: a string as user-id, string keys in annotations.
    "rabbitmq-3.10.8-classic-from-091-all-but-delivery-mode",
    "rabbitmq-3.10.8-stream-from-091-only-content-type",
    "rhea-3.0.5-built-footer",
)


def load(path: str | Path | None = None) -> list[Case]:
    """Read the cases of a file, or of all files of a folder.

    Args:
        path: a file of JSON lines (``.jsonl``), a CBOR sequence (``.cborseq``, ``.cbor``) or
            Parquet (``.parquet``), or a folder of files of the first two, which are read in the
            order of their names. None for the corpus that comes with the library.

    A later version of the corpus may have attributes and kinds of cases that this version of the
    library does not know. Such attributes, and cases of such kinds, are skipped with a UserWarning
    that names them. `Case.from_object` refuses them.

    Raises:
        CorpusError: a line or an item is not a case, an id is repeated, or a folder is empty.
        ImportError: the file is a CBOR sequence or Parquet, and cbor2 or pyarrow is not installed.
        OSError: the file cannot be read.
    """
    source: Traversable = resources.files("amqp10msg.interop.corpus") / "data"
    if path is not None:
        source = Path(path)
    files = [source]
    if source.is_dir():
        files = sorted(
            (file for file in source.iterdir() if file.name.endswith((".jsonl", *_CBOR))),
            key=lambda file: file.name,
        )
        if not files:
            raise CorpusError("the folder has no .jsonl and no .cborseq", str(source))
    cases: dict[str, Case] = {}
    skipped: Counter[str] = Counter()
    for file in files:
        read = _json_lines
        if file.name.endswith((*_CBOR, _PARQUET)):
            read = _cbor_items if file.name.endswith(_CBOR) else _parquet_rows
        for place, item in read(file):
            try:
                case = _known_case(item, skipped)
            except CorpusError as error:
                raise CorpusError(str(error), place) from None
            if case is None:
                continue
            if case.id in cases:
                raise CorpusError(f"{case.id} is repeated", place)
            cases[case.id] = case
    if skipped:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(skipped.items()))
        warnings.warn(
            f"{source} has parts that this version of amqp10msg does not know, and skips: {listed}",
            stacklevel=2,
        )
    return list(cases.values())


def _known_case(item: Any, skipped: Counter[str]) -> Case | None:
    """Return a case without unknown attributes, or None if its kind is unknown; count both.

    Raises:
        CorpusError: the rest is not a case.
    """
    if not isinstance(item, Mapping):
        return Case.from_object(item)
    kind = item.get("kind")
    if isinstance(kind, str) and kind not in KINDS:
        skipped[f"kind {kind:.40}"] += 1
        return None
    unknown = [key for key in item if key not in _TYPES]
    skipped.update(f"attribute {key!s:.40}" for key in unknown)
    return Case.from_object({key: item[key] for key in item if key not in unknown})


@cache
def _by_id() -> dict[str, Case]:
    with resources.as_file(
        resources.files("amqp10msg.interop.corpus") / "data" / "recorded.jsonl"
    ) as file:
        return {case.id: case for case in load(file)}


def demo_messages() -> list[Case]:
    """Return a selection of the messages that were recorded from RabbitMQ, proton and rhea.

    The last three violate the specification: `Message.decode` takes them with ``strict=False``.
    """
    return [_by_id()[name] for name in _DEMO]


def dump(cases: Iterable[Case], path: str | Path) -> None:
    """Write cases to a file: JSON lines, or a CBOR sequence or Parquet if its suffix says so.

    Raises:
        ImportError: cbor2 or pyarrow is needed and not installed.
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix == _PARQUET:
        _write_parquet(cases, path)
        return
    if path.suffix in _CBOR:
        cbor2 = of_extra("cbor2", "cbor", "a CBOR sequence needs cbor2", _OTHERWISE)
        octets = b"".join(cbor2.dumps(case.to_object(binary=True)) for case in cases)
    else:
        octets = "".join(
            json.dumps(case.to_object(), ensure_ascii=False) + "\n" for case in cases
        ).encode()
    path.write_bytes(octets)


def _json_lines(file: Traversable) -> Iterator[tuple[str, Any]]:
    # Not splitlines(): that splits at U+2028 and others too, which JSON leaves alone in strings.
    for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{file.name}, line {number}"
        yield place, _parsed(line, place)


def _parsed(text: bytes | str, place: str) -> Any:
    """Parse a JSON text; CorpusError, with `place`, if the text is not JSON."""
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise CorpusError(f"not JSON: {error}", place) from None
    except RecursionError:
        raise CorpusError("not JSON that can be read: nested too deeply", place) from None


def _cbor_items(file: Traversable) -> Iterator[tuple[str, Any]]:
    cbor2 = of_extra("cbor2", "cbor", "a CBOR sequence needs cbor2", _OTHERWISE)
    # cbor2 reads ahead, so the stream does not show whether items are left. A last item that cannot
    # be a case does: in a truncated file it becomes part of the item before, or is never reached.
    decoder = cbor2.CBORDecoder(io.BytesIO(file.read_bytes() + cbor2.dumps(cbor2.undefined)))
    number = 0
    while True:
        number += 1
        place = f"{file.name}, item {number}"
        try:
            item = decoder.decode()
        except (cbor2.CBORDecodeError, EOFError) as error:
            raise CorpusError(f"not CBOR, or truncated: {error}", place) from None
        if item is cbor2.undefined:
            return
        yield place, item


_OTHERWISE = ", or use .jsonl"
_ARROW = ("arrow", "Parquet needs pyarrow", _OTHERWISE)
# Attributes that are JSON in a column of text, as they are of any form.
_JSON = ("typed", "limits", "given", "answer")


def _write_parquet(cases: Iterable[Case], path: Path) -> None:
    """Write cases as one table; the same cases give the same bytes with the same pyarrow."""
    pa, pq = (of_extra(name, *_ARROW) for name in ("pyarrow", "pyarrow.parquet"))
    text, octets, number = pa.string(), pa.binary(), pa.int32()
    violation = pa.struct([("rule", text), ("severity", text), ("offset", number)])
    types = {
        "data": octets,
        "compact": octets,
        "error": pa.struct([("rule", text), ("offset", number)]),
        "violations": pa.list_(violation),
    }
    there = {*_REQUIRED, "profile"}
    schema = pa.schema(
        [pa.field(name, types.get(name, text), nullable=name not in there) for name in _TYPES]
    )
    rows = []
    for case in cases:
        made = {"profile": case.profile, **case.to_object(binary=True)}
        for name in made.keys() & {*_JSON}:
            made[name] = json.dumps(made[name], ensure_ascii=False)
        if "violations" in made:
            made["violations"] = [
                dict(zip(violation.names, one, strict=True)) for one in made["violations"]
            ]
        rows.append(made)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")


def _parquet_rows(file: Traversable) -> Iterator[tuple[str, Any]]:
    pq = of_extra("pyarrow.parquet", *_ARROW)
    pa = of_extra("pyarrow", *_ARROW)
    with resources.as_file(file) as path:
        try:
            rows = pq.read_table(path).to_pylist()
        except pa.ArrowInvalid as error:
            raise CorpusError(f"not Parquet: {error}", file.name) from None
    for number, row in enumerate(rows, start=1):
        place = f"{file.name}, row {number}"
        made = {name: value for name, value in row.items() if value is not None}
        for name in made.keys() & {*_JSON}:
            made[name] = _parsed(made[name], place)
        if isinstance(made.get("violations"), list):
            made["violations"] = [
                list(one.values()) if isinstance(one, dict) else one for one in made["violations"]
            ]
        yield place, made
