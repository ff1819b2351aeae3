"""A job of the pipeline on one batch: decoded, judged or translated, and what is counted of it.

The good rows and the quarantined ones, of types that Spark takes, too.
"""

from __future__ import annotations

from array import array as numbers
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, cast

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg import columns as arrow
from amqp10msg import validation
from amqp10msg.files.recognition import advice
from amqp10msg.jobs._stats import MAPS, Stats
from amqp10msg.jobs.inputs import REST_UNREAD, SKIPPED, shared
from amqp10msg.jobs.parquet import FAULT, OFFSET, SOURCE, UNREAD
from amqp10msg.jobs.translating import BASIC, Translator
from amqp10msg.message import Message
from amqp10msg.options import JobOptions, from_spark, names_in_spark, to_spark
from amqp10msg.sections.parts import scan
from amqp10msg.translate import Circumstances
from amqp10msg.validation.rules import MAX_TEXT, RuleCount
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS
from amqp10msg.wire.reprs import encodable

#: What a job can do.
KINDS = ("decode", "validate", "translate", "profile")
UNREADABLE = "unreadable-input"
#: A file ends there for the reader; how many messages are missing is unknown.
DAMAGED = "damaged-file"
OTHER_PROTOCOL = "other-protocol"

#: What the quarantine says of a message, after the columns that say where it came from.
QUARANTINE = pa.schema(
    [
        ("wire", pa.binary()),
        ("content_header", pa.binary()),
        ("payload", pa.binary()),
        ("error_code", pa.string()),
        ("error_clause", pa.string()),
        ("error_offset", pa.int64()),
        ("error_text", pa.string()),
    ]
)
# Where a message came from, where the input has no such columns.
_PLACE = [pa.field("source", pa.string()), pa.field("offset", pa.int64())]
_TIME = pa.timestamp("us", "UTC")
# Good rows, and those for the quarantine.
_Rows = tuple[pa.RecordBatch, pa.RecordBatch]
_MESSAGE = ("wire", "content_header", "payload", "fault")
# What matches the fault of a file of which messages are missing.
_DAMAGE = f"{REST_UNREAD}|{SKIPPED}|{UNREAD}"
#: The columns that say why a message could not be decoded.
ERRORS = ("error_code", "error_clause", "error_offset")

_VIOLATIONS = pa.list_(
    pa.struct(
        [
            ("rule", pa.string()),
            ("clause", pa.string()),
            ("severity", pa.string()),
            ("path", pa.string()),
            ("offset", pa.int64()),
            ("text", pa.string()),
        ]
    )
)
# Types of the columns that are read.
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_TEXTS = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null),
    lambda kind: pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type),
)
#: What `validate` says of a message.
VALIDATED = pa.schema([("valid", pa.bool_()), ("violations", _VIOLATIONS)])


@attrs.frozen
class Job:
    """One job, which goes to the workers as it is.

    Attributes:
        kind: one of `KINDS`.
        column: the column of the encoded messages.
        columns: for ``decode``, the columns wanted, as for `amqp10msg.columns.decode`, with
            ``error``, which is null in good rows; where None all but ``section_offsets``, which say
            nothing without ``wire``.
        profile: the rules for ``validate`` (and for ``decode``, where None judges by none), the
            profile of translation for ``translate``.
        to: for ``translate``, ``1.0`` or ``0-9-1``.
        circumstances: for ``translate``, what a broker's result depends on besides the message.
    """

    #: The names of what `as_options` writes.
    OPTIONS: ClassVar = ("job", *names_in_spark(JobOptions))

    kind: str
    column: str = "wire"
    columns: tuple[str, ...] | None = None
    profile: str | None = None
    to: str = "1.0"
    circumstances: Circumstances = attrs.field(factory=Circumstances)

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Job:
        """Return the job that `as_options` wrote.

        Raises:
            ValueError: an option is not a number.
        """
        return cls.of(options.get("job", "decode"), from_spark(JobOptions, options))

    @property
    def profile_used(self) -> str:
        """The profile that messages are judged or translated by; empty where there is none."""
        return self.profile or {"validate": "oasis", "translate": "lossless"}.get(self.kind, "")

    @classmethod
    def of(cls, kind: str, given: JobOptions) -> Job:
        """Return the job of a kind with these options."""
        return cls(
            kind,
            given.column,
            given.columns,
            given.profile,
            given.to,
            Circumstances(given.user or None, given.stream_offset),
        )

    def as_options(self) -> dict[str, str]:
        """Write the job as options of a data source.

        Raises:
            ValueError: its circumstances are others than options can say.
        """
        given = self.circumstances
        if given != Circumstances(given.user, given.stream_offset):
            raise ValueError(
                "a job on Spark supports only the circumstances user and stream_offset: run a job "
                "with other circumstances on the local engine, or use spark.translate"
            )
        options = JobOptions(
            column=self.column,
            columns=self.columns,
            profile=self.profile,
            to=self.to,
            user=given.user or "",  # an empty one is said, too: it is not the default
            stream_offset=given.stream_offset,
        )
        return {"job": self.kind, **to_spark(options)}

    def check(self, names: list[str]) -> None:
        """Check that the job can run on input with these columns.

        Raises:
            ValueError: it cannot; the message says why.
        """
        if self.kind not in KINDS:
            raise ValueError(f"unknown job {self.kind!r}: use {', '.join(KINDS)}")
        for name in ("content_header", "payload") if self._takes_basic else (self.column,):
            if name not in names:
                how = (
                    "" if self._takes_basic else "; name that of the messages: --column, or column"
                )
                raise ValueError(f"there is no column {name!r}: there are {', '.join(names)}{how}")
        profile = self.profile
        if self.kind == "translate":
            Translator(self.to, self.profile_used)
        elif profile is not None and profile not in validation.PROFILES:
            known = ", ".join(validation.PROFILES.names)
            raise ValueError(f"unknown profile {profile!r}: use {known}")
        if self.kind == "decode":
            made = arrow.schema_of(self._wanted()).names
            if {*made} <= {*ERRORS}:
                raise ValueError("good rows have no columns of errors: name other columns, too")
            self._refuse(names, made, "a decoded one")
        elif self.kind == "validate":
            self._refuse(names, VALIDATED.names, "one of the output")
        self._refuse(names, QUARANTINE.names, "one of the quarantine")

    def check_types(self, schema: pa.Schema) -> None:
        """Check that the columns of the messages have bytes in them, and that of faults has text.

        Args:
            schema: of Parquet, as it is read.

        Raises:
            ValueError: one has none.
        """
        wanted = dict.fromkeys(
            ("content_header", "payload") if self._takes_basic else (self.column,),
            "the bytes of messages",
        )
        if "fault" in schema.names:
            wanted["fault"] = "text that says why a row holds no message; or rename it"
        for name, what in wanted.items():
            kind = schema.field(name).type
            taken = _TEXTS if name == "fault" else _BYTES
            if not any(is_taken(kind) for is_taken in taken):
                raise ValueError(f"the column {name!r} has {kind} in it, and must have {what}")

    def _refuse(self, names: list[str], made: list[str], other: str) -> None:
        """Refuse columns of the input that are to be carried, and have the name of another."""
        carried = self._carried(names, to_quarantine=True)
        both = shared(carried, made)
        if both:
            raise ValueError(f"{', '.join(both)}: a column of the input and {other}: rename it")

    def _wanted(self) -> list[str]:
        """Name the columns to decode; those of errors divide the rows."""
        if self.columns is None:
            return [name for name in arrow.SCHEMA.names if name != "section_offsets"]
        wanted = list(self.columns)
        if len(wanted) == 1 and wanted[0] in arrow.SETS:
            wanted = arrow.schema_of(wanted[0]).names
        return [*wanted, *(name for name in ERRORS if name not in wanted)]

    def _carried(self, names: list[str], *, to_quarantine: bool = False) -> list[str]:
        """Choose the columns that say where a message came from.

        What a job said before is said again: `losses`, `valid` with `violations`, and all columns
        of a quarantine.
        """
        left_out = {self.column, "message_format", *_MESSAGE, SOURCE, OFFSET, FAULT}
        if _is_quarantine(names):
            left_out |= {*QUARANTINE.names}
        if {*VALIDATED.names} <= {*names} and self.kind == "validate":
            left_out |= {*VALIDATED.names}
        if self.kind == "translate":
            left_out |= {"losses"} if to_quarantine else {*BASIC.names, "losses"}
        return [name for name in names if name not in left_out]

    def run(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        """Run the job on a batch: return the good rows and the quarantined ones, and count them.

        Raises:
            ValueError: it decodes to more than columns hold, and nothing of it has been counted:
                run the job on fewer rows at once.
        """
        faults = _faults(batch)
        sound = pc.and_(pc.is_valid(batch.column(self._needed)), pc.equal(faults, ""))
        # Filters copy, and mostly there is nothing to leave out.
        are_all = pc.all(sound, min_count=0).as_py()
        given = batch if are_all else batch.filter(sound)
        good, bad = getattr(self, f"_{self.kind}")(given, stats)
        if not are_all:
            broken = pc.invert(sound)
            unread = self._unreadable(batch.filter(broken), faults.filter(broken))
            if unread.num_rows:
                bad = pa.Table.from_batches([unread, bad]).combine_chunks().to_batches()[0]
        stats.rows += good.num_rows + bad.num_rows
        stats.errors += bad.num_rows
        stats.skipped += batch.num_rows - good.num_rows - bad.num_rows
        self._count_errors(bad, stats)
        return good, bad

    @property
    def _takes_basic(self) -> bool:
        return self.kind == "translate" and self.to == "1.0"

    @property
    def _needed(self) -> str:
        """The column that holds something where there is a message for this job."""
        return "content_header" if self._takes_basic else self.column

    def _unreadable(self, batch: pa.RecordBatch, faults: pa.Array) -> pa.RecordBatch:
        """Quarantine what could not be read, or is of the other protocol; drop empty rows."""
        is_fault = pc.not_equal(faults, "")
        other = "1.0" if self._takes_basic else "0-9-1"
        ends = pc.match_substring_regex(faults, _DAMAGE)
        refused = f"a message of AMQP {other}, which this job does not take"
        rows = batch.num_rows
        errors = [
            pc.if_else(is_fault, pc.if_else(ends, DAMAGED, UNREADABLE), OTHER_PROTOCOL),
            pa.repeat("", rows),
            pa.nulls(rows, pa.int64()),
            pc.if_else(is_fault, faults, refused),
        ]
        made = self._quarantined(batch, errors)
        there = is_fault
        for name in _MESSAGE[:3]:
            there = pc.or_(there, pc.is_valid(made.column(name)))
        return made.filter(there)

    def _quarantined(self, batch: pa.RecordBatch, errors: list[Any]) -> pa.RecordBatch:
        names = self._carried(batch.schema.names, to_quarantine=True)
        octets = [
            _column(batch, self.column if name == "wire" else name, pa.binary())
            for name in _MESSAGE[:3]
        ]
        fields = [batch.schema.field(name) for name in names]
        arrays = [batch.column(name) for name in names]
        if SOURCE in batch.schema.names:
            fields += _PLACE
            arrays += [batch.column(SOURCE).cast(pa.string()), batch.column(OFFSET)]
        schema = pa.schema([*fields, *QUARANTINE])
        return pa.RecordBatch.from_arrays([*arrays, *octets, *errors], schema=schema)

    def _split(
        self, batch: pa.RecordBatch, names: list[str], made: list[Any], new: pa.Schema, errors: Any
    ) -> _Rows:
        """Divide a batch by whether `errors` has a code; carry the columns `names` through."""
        schema = pa.schema([*(batch.schema.field(name) for name in names), *new])
        carried = [batch.column(name) for name in names]
        whole = pa.RecordBatch.from_arrays([*carried, *made], schema=schema)
        bad = pc.is_valid(errors[0])
        if not pc.any(bad).as_py():
            return whole, self._quarantined(batch.slice(0, 0), [e.slice(0, 0) for e in errors])
        return whole.filter(pc.invert(bad)), self._quarantined(batch, errors).filter(bad)

    # The jobs.

    def _decode(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        wire = batch.column(self.column)
        wanted = self._wanted()
        counted = [n for n in ("creation_time", "application_properties") if n in wanted]
        formats = batch.column("message_format") if "message_format" in batch.schema.names else None
        found = decoded(wire, wanted, self.profile, formats)
        stats.add_sizes(wire)
        if not _count_times(batch, stats) and "creation_time" in counted:
            stats.add_times(found.column("creation_time"))
        if "application_properties" in counted:
            stats.add_types("application_properties", found.column("application_properties"))
        fields = _shown(tuple(wanted))
        arrays = [as_type(found.column(field.name), field.type) for field in fields]
        names = self._carried(batch.schema.names)
        return self._split(batch, names, arrays, fields, with_texts(wire, found, self.profile))

    def _validate(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        wire = batch.column(self.column)
        stats.add_sizes(wire)
        _count_times(batch, stats)
        valid, violations = judged(wire, self.profile_used)
        errors = first_errors(valid, violations)
        names = self._carried(batch.schema.names)
        new = pa.schema([("wire", pa.binary()), *VALIDATED])
        return self._split(batch, names, [wire, valid, violations], new, errors)

    def _translate(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        profile = self.profile_used
        translator = Translator(self.to, profile, circumstances=self.circumstances)
        read = (
            ["wire"] if self.to == "0-9-1" else [n for n in BASIC.names if n in batch.schema.names]
        )
        given = [batch.column(self.column if name == "wire" else name) for name in read]
        made = translator.run(dict(zip(read, given, strict=True)))
        stats.add_sizes(given[0] if self.to == "0-9-1" else _column(batch, "payload", pa.binary()))
        _count_times(batch, stats)
        stats.add_losses(made["losses"])
        shown = [field for field in translator.schema if not field.name.startswith("error_")]
        errors = [made[f"error_{name}"] for name in ("code", "clause", "offset", "text")]
        names, arrays = self._carried(batch.schema.names), [made[field.name] for field in shown]
        return self._split(batch, names, arrays, pa.schema(shown), errors)

    def _profile(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        wire = batch.column(self.column)
        found = decoded(wire, [*MAPS, "creation_time", *ERRORS])
        stats.add_sizes(wire)
        if not _count_times(batch, stats):
            stats.add_times(found.column("creation_time"))
        for section in MAPS:
            stats.add_types(section, found.column(section))
        new = pa.schema([("wire", pa.binary())])
        return self._split(batch, [], [wire], new, with_texts(wire, found, self.profile))

    def _count_errors(self, bad: pa.RecordBatch, stats: Stats) -> None:
        names = ["error_code", "error_clause", "error_text"]
        if {"source", "offset"} <= set(bad.schema.names):
            names += ["source", "offset"]
        columns = [column.to_pylist() for column in bad.select(names).columns]
        for code, clause, text, *place in zip(*columns, strict=True):
            first = "{}@{}".format(*place) if place else ""
            found = RuleCount(clause or "", 1, first, text=(text or "")[:MAX_TEXT])
            stats.add_error(code or "", found)


def _is_quarantine(names: list[str]) -> bool:
    """Return whether these are all the columns of a quarantine, not just a user's of one name."""
    return {*QUARANTINE.names} <= {*names}


def _faults(batch: pa.RecordBatch) -> pa.Array:
    """Return why each row could not be read, empty where it could."""
    names = batch.schema.names
    if FAULT in names:
        return batch.column(FAULT)
    if "fault" in names:
        return pc.fill_null(as_type(batch.column("fault"), pa.string()), "")
    if _is_quarantine(names):
        codes = pa.array([UNREADABLE, DAMAGED])
        is_fault = pc.is_in(batch.column("error_code").cast(pa.string()), codes)
        return pc.if_else(is_fault, pc.fill_null(batch.column("error_text"), ""), "")
    return pa.repeat("", batch.num_rows)


def _count_times(batch: pa.RecordBatch, stats: Stats) -> bool:
    """Count when the messages were captured; return whether that is known."""
    if "time" not in batch.schema.names or batch.schema.field("time").type != _TIME:
        return False
    stats.add_times(batch.column("time"))
    return True


def _column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, kind)
    return as_type(batch.column(name), kind)


@lru_cache(32)
def _shown(wanted: tuple[str, ...]) -> pa.Schema:
    """Return the schema of the good rows that are decoded to these columns."""
    fields = [field for field in arrow.schema_of(wanted) if field.name not in ERRORS]
    return pa.schema([(field.name, type_for_spark(field.type)) for field in fields])


# Decoding and judging.


def decoded(
    array: Any,
    columns: str | list[str] | None,
    validate: str | None = None,
    message_format: Any = None,
    maps: arrow.MapsAs = "map",
) -> pa.RecordBatch:
    """Decode an array of messages as `amqp10msg.columns.decode` does; no bytes are an error."""
    made = arrow.decode(
        array, columns, cast("Any", validate), message_format=message_format, maps=maps
    )
    empty = pc.equal(pc.binary_length(array), 0)
    if not pc.any(empty).as_py():
        return made
    rule = validation.RULES["body-missing"]
    values: dict[str, Any] = dict(zip(ERRORS, (rule.id, rule.clause, 0), strict=True))
    values["error"] = {"code": rule.id, "clause": rule.clause, "offset": 0}
    for name, value in values.items():
        place = made.schema.get_field_index(name)
        if place >= 0:
            field = made.schema.field(place)
            said = pa.scalar(value, field.type)
            column = pc.if_else(pc.fill_null(empty, False), said, made.column(place))
            made = made.set_column(place, field, column)
    return made


def judged(array: Any, profile: str) -> tuple[pa.Array, pa.Array]:
    """Judge an array of messages by a profile; return the arrays of `VALIDATED`."""
    chunks = arrow.binary_chunks(array) or [pa.array([], pa.binary())]
    made = [_judged(chunk, profile) for chunk in chunks]
    if len(made) == 1:
        return made[0]
    sound, found = (pa.concat_arrays(arrays) for arrays in zip(*made, strict=True))
    return sound, found


def _judged(chunk: pa.Array, profile: str) -> tuple[pa.Array, pa.Array]:
    """Validate messages: a prefilter clears nearly all of them, many at once."""
    rows = len(chunk)
    broken: dict[int, list[dict[str, Any]]] = {}
    for place in arrow.suspects(chunk, DEFAULT_LIMITS, profile):
        octets = chunk[place].as_py()
        violations = (
            [] if octets is None else validation.validate(octets, validation.PROFILES[profile])
        )
        if violations:
            # A text about damaged bytes may quote what UTF-8 cannot hold.
            broken[place] = [
                {**attrs.asdict(one), "path": encodable(one.path), "text": encodable(one.text)}
                for one in violations
            ]
    is_message = chunk.is_valid()
    refused = bytearray(rows)
    offsets = numbers("i")
    count = 0
    for place, found in broken.items():
        refused[place] = any(row["severity"] == "error" for row in found)
        offsets += numbers("i", [count]) * (place + 1 - len(offsets))
        count += len(found)
    offsets += numbers("i", [count]) * (rows + 1 - len(offsets))
    members = pa.array([row for found in broken.values() for row in found], _VIOLATIONS.value_type)
    is_refused = pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(refused)])
    sound = pc.if_else(is_message, pc.equal(is_refused, 0), pa.scalar(None, pa.bool_()))
    ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(offsets)])
    mask = pc.invert(is_message) if chunk.null_count else None
    return sound, pa.ListArray.from_arrays(ends, members, type=_VIOLATIONS, mask=mask)


def first_errors(valid: pa.Array, violations: pa.Array) -> list[pa.Array]:
    """Return rule, clause, offset and text of the first error of each message; null without one."""
    refused = pc.indices_nonzero(pc.invert(valid))
    firsts: dict[int, dict[str, Any]] = {
        place: next(row for row in found if row["severity"] == "error")
        for place, found in zip(
            refused.to_pylist(), violations.take(refused).to_pylist(), strict=True
        )
    }
    members = _VIOLATIONS.value_type
    columns = []
    for name in ("rule", "clause", "offset", "text"):
        kind = members.field(name).type
        if firsts:
            cells = [firsts.get(row, {}).get(name) for row in range(len(valid))]
            columns.append(pa.array(cells, kind))
        else:
            columns.append(pa.nulls(len(valid), kind))
    return columns


def with_texts(array: Any, made: pa.RecordBatch, profile: str | None) -> list[pa.Array]:
    """Return the columns `ERRORS` of decoded messages, and what is wrong in words."""
    errors = [made.column(name) for name in ERRORS]
    texts: list[str | None] = [None] * len(array)
    if errors[0].null_count < len(array):
        codes, _, offsets = (column.to_pylist() for column in errors)
        for row in pc.indices_nonzero(pc.is_valid(errors[0])).to_pylist():
            texts[row] = _text(array[row].as_py(), profile, (codes[row], offsets[row]))
    return [*errors, pa.array(texts, pa.string())]


def _text(octets: bytes, profile: str | None, given: tuple[str, int]) -> str | None:
    """Explain the code, and the offset, that `columns.decode` gave a message.

    A message may have other faults before, in sections of which no column was wanted.
    """
    text = None
    for read in (Message.decode, scan):
        try:
            read(octets)
        except DecodeError as error:
            hint = advice(octets, "raw")
            said = encodable(f"{error}; {hint}" if hint else str(error))
            if (validation.rule_of(error)[0], error.offset) == given:
                return said
            text = text or said
    found = validation.validate(octets, validation.PROFILES[profile or "oasis"])
    for violation in found:
        if (violation.rule, violation.offset) == given:
            return encodable(violation.text)
    return text or next((encodable(one.text) for one in found if one.severity == "error"), None)


# Types.


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array as one of a type: to cast to the type it has costs more than to ask."""
    return array if array.type == kind else array.cast(kind)


_TAKEN = {
    pa.uint64(): pa.decimal128(20, 0),
    pa.uint32(): pa.int64(),
    pa.uint16(): pa.int32(),
    pa.uint8(): pa.int16(),
    pa.binary_view(): pa.binary(),
    pa.string_view(): pa.string(),
}


def type_for_spark(given: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark takes instead of one that it refuses, without loss."""
    if given in _TAKEN:
        return _TAKEN[given]
    if pa.types.is_timestamp(given):
        return pa.timestamp("us", given.tz)
    if pa.types.is_dictionary(given):
        return type_for_spark(given.value_type)
    if pa.types.is_fixed_size_binary(given):
        return pa.binary()
    if pa.types.is_struct(given):
        return pa.struct([_field_for_spark(field) for field in given])
    if pa.types.is_map(given):
        return pa.map_(type_for_spark(given.key_type), _field_for_spark(given.item_field))
    if pa.types.is_list(given):
        return pa.list_(_field_for_spark(given.value_field))
    return given


def _field_for_spark(field: pa.Field) -> pa.Field:
    return pa.field(field.name, type_for_spark(field.type), field.nullable, field.metadata)


def schema_for_spark(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types that Spark takes."""
    return pa.schema([_field_for_spark(field) for field in schema])
