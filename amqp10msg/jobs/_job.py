"""A job of the pipeline on one batch: the good rows, the quarantined ones, the counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg import columns as arrow
from amqp10msg import validation
from amqp10msg.jobs._stats import MAPS, Stats
from amqp10msg.jobs.inputs import REST_UNREAD, shared
from amqp10msg.jobs.judging import (
    ERRORS,
    VALIDATED,
    decoded,
    first_errors,
    judged,
    type_for_spark,
    with_texts,
)
from amqp10msg.jobs.parquet import FAULT, OFFSET, SOURCE, UNREAD
from amqp10msg.jobs.translating import BASIC, Translator
from amqp10msg.options import JobOptions, from_spark, names_in_spark, to_spark
from amqp10msg.translate import Circumstances
from amqp10msg.validation.rules import MAX_TEXT, RuleCount

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
_ENDS = f"{REST_UNREAD}|{UNREAD}"


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
            Circumstances(given.user or None, given.stream_offset, given.arrival_time),
        )

    def as_options(self) -> dict[str, str]:
        """Write the job as options of a data source.

        Raises:
            ValueError: its circumstances are others than options can say.
        """
        given = self.circumstances
        if given != Circumstances(given.user, given.stream_offset, given.arrival_time):
            raise ValueError(
                "on Spark the circumstances of a job are user, stream_offset and arrival_time: "
                "run one that has others on the engine local, or use spark.translate"
            )
        options = JobOptions(
            column=self.column,
            columns=self.columns,
            profile=self.profile,
            to=self.to,
            user=given.user or "",  # an empty one is said, too: it is not the default
            stream_offset=given.stream_offset,
            arrival_time=given.arrival_time,
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
                raise ValueError(f"there is no column {name!r}: there are {', '.join(names)}")
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
        ends = pc.match_substring_regex(faults, _ENDS)
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
        shown = [field for field in found.schema if field.name not in ERRORS]
        fields = pa.schema([(field.name, type_for_spark(field.type)) for field in shown])
        arrays = [found.column(field.name).cast(field.type) for field in fields]
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
        return pc.fill_null(batch.column("fault"), "")
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
    return batch.column(name).cast(kind)
