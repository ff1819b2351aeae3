"""Cases of the corpus, and their files: JSON lines, CBOR sequences (RFC 8742) and Parquet."""

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

#: The kinds of cases with AMQP 0-9-1 bytes.
BASIC_KINDS = ("basic-properties", "field-table")
#: The kinds of cases that ask a question about a message or a delivery. Their result is an answer.
QUESTION_KINDS = ("filter", "resumption", "translation", "terminus")
#: All kinds of cases, by their bytes. These are an AMQP 1.0 value, message or composite (such as an
#: outcome), an AMQP 0-9-1 property list or field table, or what a question is about.
KINDS = ("value", "message", "composite", *BASIC_KINDS, *QUESTION_KINDS)
#: Severities of a violation. Errors break a MUST or MUST NOT, warnings a SHOULD or SHOULD NOT.
SEVERITIES = ("error", "warning")

_ID_PATTERN = re.compile(r"[a-z0-9]+(?:[-._][a-z0-9]+)*")
# The names of the limits on decoding, without `expansion_ratio`, which applies to compressed files
# only.
_LIMIT_NAMES = tuple(
    field.name for field in attrs.fields(Limits) if field.name != "expansion_ratio"
)
_CLAUSE_PATTERN = re.compile(
    r"Part [1-5], \d+(?:\.\d+){1,3}"
    r"|0-9-1, \d+(?:\.\d+){1,4}"
    r"|Translation, [a-z0-9]+(?:[.-][a-z0-9]+)*"
)


class CorpusError(AmqpError, ValueError):
    """A case is invalid, or a file of cases or results is malformed.

    Attributes:
        reason: a description of the fault.
        where: the location: the case's id, or the file and the line or item.
    """

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(reason, where)
        self.reason = reason
        self.where = where

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.where else self.reason


@attrs.frozen
class Fault:
    """The reason why bytes must be refused.

    Attributes:
        rule: the id of the broken rule, such as ``truncated``, as in `DecodeError.rule`.
        offset: the position of the invalid encoding in the data, in bytes.
    """

    rule: str
    offset: int


@attrs.frozen(kw_only=True)
class Case:
    """Bytes, and the result that an implementation of AMQP must produce for them.

    - With `typed` only, the bytes must decode to that value.
    - With `error` only, the bytes are an invalid encoding and must be refused.
    - With both, the bytes can be decoded, but break a rule, so that a strict implementation refuses
      them.
    - A case whose kind is in `QUESTION_KINDS` has `answer` instead: the implementation's decision.

    Attributes:
        id: the case's name, unique in a corpus: lower case, with ``-``, ``.`` or ``_`` between
            words.
        kind: one of `KINDS`.
        data: the bytes; for a question, the message or other subject in bytes.
        typed: the decoded value in typed JSON (`amqp10msg.notation`): one value, or a message's
            list of sections. A composite has a numeric descriptor, null for fields with their
            default value, and no trailing nulls; a composite that breaks its declaration is given
            as the described list in its bytes.
        compact: the smallest encoding of `typed`, or None if the case does not specify it. In the
            library's corpus, it is None if a strict implementation must refuse the bytes.
        error: the reason why the bytes must be refused.
        violations: the rules of Part 3 that a message breaks, as sorted tuples (rule, severity,
            offset of the first violation). Empty for a valid message; None if the case does not
            specify them.
        profile: the name of the validation profile for `violations`.
        limits: limits on the cost of decoding, by the names of `Limits`, such as ``{"items": 3}``;
            None for the defaults. Implementations without limits skip the case.
        given: further input of a question, besides the bytes.
        answer: the expected answer to a question.
        clause: the tested clause of the specification: ``Part 1, 1.6.5`` for AMQP 1.0,
            ``0-9-1, 4.2.5.5`` for AMQP 0-9-1, ``Translation, rabbitmq-4.0`` for a translation
            profile.
        origin: the author of the bytes: a person or a program.
        licence: the SPDX identifier of the case's licence.
        note: a description for people.
        preference: why this result is expected although no clause requires it; a different result
            is then a note, not a fault. Empty if a clause requires the result.

    Raises:
        CorpusError: an attribute is invalid, or attributes contradict each other.
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
        """Yield a description of each invalid attribute and each contradiction."""
        locations = [(rule, offset) for rule, _, offset in self.violations or ()]
        locations += [(self.error.rule, self.error.offset)] if self.error is not None else []
        if not all(type(rule) is str and type(offset) is int for rule, offset in locations):
            yield "rules must be str, and offsets int"
        if not _ID_PATTERN.fullmatch(self.id):
            yield f"{self.id!r} is not an id: use words of a-z and 0-9 with -, . or _ between them"
        if self.kind not in KINDS:
            yield f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}"
        if not _CLAUSE_PATTERN.fullmatch(self.clause):
            yield f"{self.clause!r} is not a clause such as 'Part 3, 3.2.4'"
        if not self.origin:
            yield "origin must name who wrote the bytes"
        if not self.licence:
            yield "licence must not be empty"
        if (self.answer is None) is (self.kind in QUESTION_KINDS):
            yield f"an answer must be present for {', '.join(QUESTION_KINDS)}, and absent otherwise"
        if self.kind in QUESTION_KINDS and (self.typed is not None or self.error is not None):
            yield f"{self.kind} cases must have an answer, and neither typed nor error"
        if self.kind not in QUESTION_KINDS and self.typed is None and self.error is None:
            yield "typed, error or both are required: the expected result"
        if self.compact is not None and self.typed is None:
            yield "compact requires typed, the value that it encodes"
        if self.violations is not None and self.kind != "message":
            yield "only a message can have violations"
        if any(severity not in SEVERITIES for _, severity, _ in self.violations or ()):
            yield f"the severity of a violation must be one of {', '.join(SEVERITIES)}"
        if any(not 0 <= offset <= len(self.data) for _, _, offset in self.violations or ()):
            yield "the offset of a violation is outside the data"
        if self.violations is not None and list(self.violations) != sorted(self.violations):
            yield "violations must be sorted"
        if self.limits is not None and not _are_valid_limits(self.limits):
            names = ", ".join(_LIMIT_NAMES)
            yield f"limits must be arguments of `Limits` ({names}), not {self.limits!r}"
        if self.error is not None and not 0 <= self.error.offset <= len(self.data):
            yield "the error's offset is outside the data"

    @property
    def is_open(self) -> bool:
        """Whether no clause defines the decoded value. Then a different value is only a note.

        This is so if `preference` is set, or if invalid bytes can still be decoded. Cases whose
        bytes must be refused are not open. What `violations` lists is never open.
        """
        if self.preference:
            return True
        broken = (
            any(severity == "error" for _, severity, _ in self.violations or ())
            and self.profile == "oasis"
        )
        return self.typed is not None and (self.error is not None or broken)

    def to_object(self, *, binary: bool = False) -> dict[str, Any]:
        """Return the case as a JSON object, or with `binary` as an object for CBOR.

        `data` and `compact` are hex in JSON and bytes in CBOR. Attributes that are None are left
        out, as are a default `profile` and an empty `note` or `preference`.
        """
        fields: dict[str, Any] = {}
        for name in _ATTRIBUTE_TYPES:
            value = getattr(self, name)
            if value is None or value == _ATTRIBUTE_DEFAULTS.get(name):
                continue
            if isinstance(value, bytes):
                value = value if binary else value.hex()
            elif isinstance(value, Fault):
                value = attrs.asdict(value)
            elif name == "violations":
                value = [list(violation) for violation in value]
            elif isinstance(value, Mapping):
                value = dict(value)
            fields[name] = value
        return fields

    @classmethod
    def from_object(cls, json_object: Any) -> Case:
        """Create a case from a JSON or CBOR object that `to_object` returned.

        Raises:
            CorpusError: a key is missing or unknown, or a value is invalid.
        """
        if not isinstance(json_object, Mapping):
            raise CorpusError(f"a case must be an object, not {type(json_object).__name__}")
        where = str(json_object.get("id", ""))
        fields = dict(json_object)
        for key, types in _ATTRIBUTE_TYPES.items():
            if key not in fields:
                if key in _REQUIRED_ATTRIBUTES:
                    raise CorpusError(f"{key} is missing", where)
            elif not isinstance(fields[key], types):
                names = " or ".join(kind.__name__ for kind in types)
                raise CorpusError(f"{key} must be {names}, not {type(fields[key]).__name__}", where)
        if unknown := fields.keys() - _ATTRIBUTE_TYPES.keys():
            raise CorpusError(f"unknown attribute {', '.join(sorted(unknown))}", where)
        try:
            for key in ("data", "compact"):
                if isinstance(fields.get(key), str):
                    fields[key] = bytes.fromhex(fields[key])
            if "error" in fields:
                fields["error"] = Fault(**fields["error"])
            if "violations" in fields:
                fields["violations"] = tuple(
                    (rule, level, offset) for rule, level, offset in fields["violations"]
                )
        except (TypeError, ValueError) as error:
            raise CorpusError(str(error), where) from None
        return cls(**fields)


def _are_valid_limits(limits: Mapping[str, int]) -> bool:
    try:
        Limits(**limits)
    except (TypeError, ValueError):
        return False
    return bool(limits)


# {attribute of a case: the Python types that it may have in JSON and CBOR}.
_ATTRIBUTE_TYPES: dict[str, tuple[type, ...]] = {
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
# Values with which `Case.to_object` leaves an attribute out.
_ATTRIBUTE_DEFAULTS = {"profile": "oasis", "note": "", "preference": ""}
_REQUIRED_ATTRIBUTES = {"id", "kind", "data", "clause", "origin", "licence"}


# Reading and writing files.

#: The suffixes of CBOR sequences.
_CBOR_SUFFIXES = (".cbor", ".cborseq")
_PARQUET_SUFFIX = ".parquet"
# The ids of the cases that `demo_messages` returns.
_DEMO_IDS = (
    # One AMQP 0-9-1 message as translated by different broker versions.
    "rabbitmq-3.10.8-classic-from-091-all-but-user-id",
    "rabbitmq-4.0.5-quorum-from-091-all-but-user-id",
    "rabbitmq-4.3.6-stream-from-091-all-but-user-id",
    "rabbitmq-4.3.6-quorum-from-091-cc",
    # Messages with all sections, with each kind of body.
    "rabbitmq-4.3.6-quorum-relay-full-data",
    "rabbitmq-4.3.6-quorum-relay-full-seq",
    "proton-0.40.0-again-full-value",
    # Messages with values of many AMQP types.
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
            Parquet (``.parquet``), or a folder of JSON lines and CBOR files, which are read in the
            order of their names. None for the corpus that comes with the library.

    A later version of the corpus may contain unknown attributes and kinds of cases. They are
    skipped with a UserWarning that names them; `Case.from_object` raises an error instead.

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
            (file for file in source.iterdir() if file.name.endswith((".jsonl", *_CBOR_SUFFIXES))),
            key=lambda file: file.name,
        )
        if not files:
            raise CorpusError("the folder contains no .jsonl, .cborseq or .cbor file", str(source))
    cases: dict[str, Case] = {}
    skipped: Counter[str] = Counter()
    for file in files:
        read_items = _json_lines
        if file.name.endswith((*_CBOR_SUFFIXES, _PARQUET_SUFFIX)):
            read_items = _cbor_items if file.name.endswith(_CBOR_SUFFIXES) else _parquet_rows
        for location, item in read_items(file):
            try:
                case = _known_case(item, skipped)
            except CorpusError as error:
                raise CorpusError(str(error), location) from None
            if case is None:
                continue
            if case.id in cases:
                raise CorpusError(f"{case.id} is repeated", location)
            cases[case.id] = case
    if skipped:
        summary = ", ".join(f"{name} ({count})" for name, count in sorted(skipped.items()))
        warnings.warn(
            f"skipped parts of {source} that this version of amqp10msg does not support: {summary}",
            stacklevel=2,
        )
    return list(cases.values())


def _known_case(item: Any, skipped: Counter[str]) -> Case | None:
    """Create a case from an item, ignoring unknown attributes; return None for an unknown kind.

    `skipped` counts the unknown attributes and kinds.

    Raises:
        CorpusError: the item is not a valid case.
    """
    if not isinstance(item, Mapping):
        return Case.from_object(item)
    kind = item.get("kind")
    if isinstance(kind, str) and kind not in KINDS:
        skipped[f"kind {kind:.40}"] += 1
        return None
    unknown = [key for key in item if key not in _ATTRIBUTE_TYPES]
    skipped.update(f"attribute {key!s:.40}" for key in unknown)
    return Case.from_object({key: item[key] for key in item if key not in unknown})


@cache
def _recorded_by_id() -> dict[str, Case]:
    """Return {id: case} for the cases that were recorded from other implementations."""
    with resources.as_file(
        resources.files("amqp10msg.interop.corpus") / "data" / "recorded.jsonl"
    ) as file:
        return {case.id: case for case in load(file)}


def demo_messages() -> list[Case]:
    """Return some messages recorded from RabbitMQ, proton and rhea, for demonstrations.

    The last three violate the specification: `Message.decode` accepts them with ``strict=False``.
    """
    return [_recorded_by_id()[name] for name in _DEMO_IDS]


def dump(cases: Iterable[Case], path: str | Path) -> None:
    """Write cases to a file: CBOR for ``.cbor`` and ``.cborseq``, Parquet for ``.parquet``.

    Files with any other suffix are JSON lines.

    Raises:
        ImportError: the format needs cbor2 or pyarrow, which is not installed.
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix == _PARQUET_SUFFIX:
        _write_parquet(cases, path)
        return
    if path.suffix in _CBOR_SUFFIXES:
        cbor2 = of_extra("cbor2", "cbor", "a CBOR sequence needs cbor2", _JSON_ADVICE)
        octets = b"".join(cbor2.dumps(case.to_object(binary=True)) for case in cases)
    else:
        octets = "".join(
            json.dumps(case.to_object(), ensure_ascii=False) + "\n" for case in cases
        ).encode()
    path.write_bytes(octets)


def _json_lines(file: Traversable) -> Iterator[tuple[str, Any]]:
    """Yield the location and the content of each line."""
    # Not splitlines(): it also splits at characters that JSON strings may contain, such as U+2028.
    for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        location = f"{file.name}, line {number}"
        yield location, _parse_json(line, location)


def _parse_json(text: bytes | str, location: str) -> Any:
    """Parse a JSON text; raise CorpusError, with `location`, if it is invalid."""
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise CorpusError(f"not JSON: {error}", location) from None
    except RecursionError:
        raise CorpusError("the JSON is nested too deeply", location) from None


def _cbor_items(file: Traversable) -> Iterator[tuple[str, Any]]:
    """Yield the location and the content of each item of a CBOR sequence."""
    cbor2 = of_extra("cbor2", "cbor", "a CBOR sequence needs cbor2", _JSON_ADVICE)
    # cbor2 reads ahead, so the position in the stream does not show whether items remain. Append
    # `undefined` as an end marker. In a truncated file, the decoder takes the marker for a part of
    # the last item or fails before it.
    decoder = cbor2.CBORDecoder(io.BytesIO(file.read_bytes() + cbor2.dumps(cbor2.undefined)))
    number = 0
    while True:
        number += 1
        location = f"{file.name}, item {number}"
        try:
            item = decoder.decode()
        except (cbor2.CBORDecodeError, EOFError) as error:
            raise CorpusError(f"invalid or truncated CBOR: {error}", location) from None
        if item is cbor2.undefined:
            return
        yield location, item


_JSON_ADVICE = ", or use .jsonl"
_ARROW_EXTRA = ("arrow", "Parquet needs pyarrow", _JSON_ADVICE)
# Attributes of various JSON types, which a Parquet file stores as JSON text.
_JSON_ATTRIBUTES = ("typed", "limits", "given", "answer")


def _write_parquet(cases: Iterable[Case], path: Path) -> None:
    """Write cases as one table. With the same pyarrow version, equal cases give equal bytes."""
    pa, pq = (of_extra(name, *_ARROW_EXTRA) for name in ("pyarrow", "pyarrow.parquet"))
    text, binary, number = pa.string(), pa.binary(), pa.int32()
    violation = pa.struct([("rule", text), ("severity", text), ("offset", number)])
    types = {
        "data": binary,
        "compact": binary,
        "error": pa.struct([("rule", text), ("offset", number)]),
        "violations": pa.list_(violation),
    }
    required = {*_REQUIRED_ATTRIBUTES, "profile"}
    schema = pa.schema(
        [
            pa.field(name, types.get(name, text), nullable=name not in required)
            for name in _ATTRIBUTE_TYPES
        ]
    )
    rows = []
    for case in cases:
        row = {"profile": case.profile, **case.to_object(binary=True)}
        for name in row.keys() & {*_JSON_ATTRIBUTES}:
            row[name] = json.dumps(row[name], ensure_ascii=False)
        if "violations" in row:
            row["violations"] = [
                dict(zip(violation.names, violation_row, strict=True))
                for violation_row in row["violations"]
            ]
        rows.append(row)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")


def _parquet_rows(file: Traversable) -> Iterator[tuple[str, Any]]:
    """Yield the location and the content of each row of a Parquet file."""
    pq = of_extra("pyarrow.parquet", *_ARROW_EXTRA)
    pa = of_extra("pyarrow", *_ARROW_EXTRA)
    with resources.as_file(file) as path:
        try:
            rows = pq.read_table(path).to_pylist()
        except pa.ArrowInvalid as error:
            raise CorpusError(f"invalid Parquet: {error}", file.name) from None
    for number, row in enumerate(rows, start=1):
        location = f"{file.name}, row {number}"
        fields = {name: value for name, value in row.items() if value is not None}
        for name in fields.keys() & {*_JSON_ATTRIBUTES}:
            fields[name] = _parse_json(fields[name], location)
        if isinstance(fields.get("violations"), list):
            fields["violations"] = [
                list(violation.values()) if isinstance(violation, dict) else violation
                for violation in fields["violations"]
            ]
        yield location, fields
