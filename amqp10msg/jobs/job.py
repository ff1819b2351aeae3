"""Run a job on one Arrow batch: decode, validate, translate or profile the messages in it.

The result is a batch of good rows, a batch of quarantined rows, and counts. All columns have types
that Spark supports.
"""

from __future__ import annotations

from array import array as numbers
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, get_args

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg import columns as arrow
from amqp10msg import validation
from amqp10msg.brokers import unknown_name
from amqp10msg.files.recognition import advice
from amqp10msg.files.tables import capture_times
from amqp10msg.jobs._stats import COUNTED_MAP_SECTIONS, Stats
from amqp10msg.jobs.inputs import (
    BASIC_COLUMNS,
    REST_UNREAD_SUFFIX,
    SKIPPED_SUFFIX,
    common_names,
    is_binary,
)
from amqp10msg.jobs.parquet import FAULT_COLUMN, OFFSET, SOURCE, UNREAD_PATTERN
from amqp10msg.jobs.translating import BASIC, Translator, replace_rows
from amqp10msg.message import Message
from amqp10msg.message.rules import profile_with_rules
from amqp10msg.options import JobOptions, from_spark, names_in_spark, to_spark
from amqp10msg.translate import Circumstances
from amqp10msg.validation.rules import MAX_EXAMPLE_LENGTH, RuleCount
from amqp10msg.wire.errors import DecodeError, wrong_type
from amqp10msg.wire.limits import DEFAULT_LIMITS
from amqp10msg.wire.reprs import encodable

#: The type of `Job.kind`.
Kind = Literal["decode", "validate", "translate", "profile"]
#: The kinds of jobs.
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Error code of an input record from which the reader could not get a message.
UNREADABLE_CODE = "unreadable-input"
#: Error code of a damaged file, from which an unknown number of messages is missing.
DAMAGED = "damaged-file"
#: Error code of a 0-9-1 message in a job for AMQP 1.0, and of a 1.0 message in a job for 0-9-1.
OTHER_PROTOCOL_CODE = "other-protocol"

#: Columns of the quarantine. Before them are the columns with the message's location in the input.
QUARANTINE_SCHEMA = pa.schema(
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
# The location of a message, if the input has no columns for it: the file and the row number.
_LOCATION_FIELDS = [pa.field("source", pa.string()), pa.field("offset", pa.int64())]
# (good rows, quarantined rows)
_Rows = tuple[pa.RecordBatch, pa.RecordBatch]
# Columns with the message, or with the fault that replaces it.
_MESSAGE_COLUMNS = ("wire", "content_header", "payload", "fault")
# Matches faults after which messages are missing.
_DAMAGE_PATTERN = f"{REST_UNREAD_SUFFIX}|{SKIPPED_SUFFIX}|{UNREAD_PATTERN}"
#: The columns that explain why a message could not be decoded.
ERROR_COLUMN_NAMES = ("error_code", "error_clause", "error_offset")

_VIOLATIONS_TYPE = pa.list_(
    pa.struct(
        [
            ("rule", pa.string()),
            ("clause", pa.string()),
            ("severity", pa.string()),
            ("path", pa.string()),
            ("offset", pa.int64()),
            ("text", pa.string()),
            ("follows", pa.int64()),
        ]
    )
)
# Predicates for the Arrow types that text columns of the input may have.
_IS_TEXT = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null),
    lambda kind: pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type),
)
#: Columns that a validate job adds.
VALIDATION_SCHEMA = pa.schema([("valid", pa.bool_()), ("violations", _VIOLATIONS_TYPE)])


def _check_kind(_job: Job, _field: Any, kind: object) -> None:
    """Raise ValueError if `kind` is not in `KINDS`; an attrs validator."""
    if kind not in KINDS:
        raise ValueError(unknown_name("job", kind, KINDS))


def _read_rules(job: Job) -> str | None:
    return None if job.rules is None else Path(job.rules).read_text(encoding="utf-8")


def _column_names(columns: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Return a selection of columns as a tuple, or None for None; an attrs converter.

    A str is the name of one column or of a set of columns, not an iterable of letters.
    """
    if columns is None:
        return None
    if isinstance(columns, str):
        return (columns,)
    if not isinstance(columns, Iterable):
        raise wrong_type("columns", "names of columns", columns)
    return tuple(columns)


@attrs.frozen
class Job:
    """The description of a job, which is sent to every worker.

    Attributes:
        kind: one of `KINDS`.
        column: the column of the encoded messages.
        columns: for ``decode``, the output columns, as in `amqp10msg.columns.decode`: one name or
            several, which become a tuple. None means all columns except ``section_offsets``, which
            are useless without ``wire``. The column ``error`` is null in good rows.
        profile: for ``validate``, the validation profile; for ``decode``, the validation profile,
            or None to skip validation; for ``translate``, the translation profile.
        rules: for ``validate``, and for ``decode`` with a profile, the path of a Python file with
            validation rules to add to the profile, see `amqp10msg.rule`.
        rules_text: the text of that file, which is sent to every worker; by default, it is read
            when the job is created.
        to: for ``translate``, the target protocol: ``1.0`` or ``0-9-1``.
        circumstances: for ``translate``, the data, besides the message, on which the translation of
            a broker depends.
        lenient: for ``decode``, whether invalid messages are decoded as far as possible, as by
            `amqp10msg.columns.decode` with ``strict=False``. The good rows then have the columns
            `ERROR_COLUMN_NAMES`, and only messages without any readable value in `columns` are
            quarantined.

    Raises:
        OSError: the file of `rules` cannot be read.
        TypeError: `columns` is neither a str nor an iterable.
        ValueError: `kind` is not one of `KINDS`.
    """

    #: Names of the options that `as_options` writes.
    OPTIONS: ClassVar = ("job", *names_in_spark(JobOptions))

    kind: Kind = attrs.field(validator=_check_kind)
    column: str = "wire"
    columns: tuple[str, ...] | None = attrs.field(default=None, converter=_column_names)
    profile: str | None = None
    to: str = "1.0"
    circumstances: Circumstances = attrs.field(factory=Circumstances)
    rules: str | None = None
    rules_text: str | None = attrs.field(
        default=attrs.Factory(_read_rules, takes_self=True), repr=False
    )
    lenient: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Job:
        """Create a job from the options that `as_options` returns.

        Raises:
            OSError: the file of `rules` cannot be read.
            ValueError: an option must be a number, and is not; or there is no such job.
        """
        kind = cast("Kind", options.get("job", "decode"))
        return cls.of(kind, from_spark(JobOptions, options))

    @property
    def profile_used(self) -> str:
        """`profile`, or the default of the job if it is None; empty if the job needs no profile."""
        return self.profile or {"validate": "oasis", "translate": "lossless"}.get(self.kind, "")

    @property
    def validation_profile(self) -> validation.Profile | None:
        """The validation profile with `rules`; None if the job does not validate.

        Raises:
            ValueError: there is no such profile, or the file of rules is invalid.
        """
        if self.kind not in ("decode", "validate") or not self.profile_used:
            return None
        if self.rules is None:
            return validation.profile_of(self.profile_used)
        return profile_with_rules(self.profile_used, self.rules_text or "", self.rules)

    @property
    def profile_title(self) -> str:
        """The name of the profile for reports, with the file of rules; may be empty."""
        profile = self.validation_profile
        return self.profile_used if profile is None else profile.name

    @property
    def skipped_sections(self) -> list[str]:
        """The sections that a ``decode`` job skips, so that damage in them is not detected.

        The names are those of `amqp10msg.columns.skipped_sections`. With a profile, a job reads
        every section.

        Raises:
            ValueError: a column is unknown, or named twice.
        """
        if self.kind != "decode" or self.profile_used:
            return []
        return arrow.skipped_sections(self._decoded_columns())

    @classmethod
    def of(cls, kind: Kind, options: JobOptions) -> Job:
        """Create a job of a kind with options.

        Raises:
            OSError: the file of `rules` cannot be read.
            ValueError: there is no such kind of jobs.
        """
        text = {} if options.rules_text is None else {"rules_text": options.rules_text}
        return cls(
            kind,
            options.column,
            options.columns,
            options.profile,
            options.to,
            Circumstances(options.user or None, options.stream_offset),
            options.rules,
            lenient=options.lenient,
            **text,
        )

    def as_options(self) -> dict[str, str]:
        """Return the job as options of a Spark data source.

        Raises:
            ValueError: `circumstances` sets a field for which there is no option.
        """
        circumstances = self.circumstances
        if circumstances != Circumstances(circumstances.user, circumstances.stream_offset):
            raise ValueError(
                "a job on Spark supports only the circumstances user and stream_offset: run a job "
                "with other circumstances on the local engine, or use spark.translate"
            )
        options = JobOptions(
            column=self.column,
            columns=self.columns,
            profile=self.profile,
            rules=self.rules,
            rules_text=self.rules_text,
            to=self.to,
            user=circumstances.user or "",  # empty: no user; without the option: the default user
            stream_offset=circumstances.stream_offset,
            lenient=self.lenient,
        )
        return {"job": self.kind, **to_spark(options)}

    def check(self, names: list[str]) -> None:
        """Check that the job can run on input with the columns `names`.

        Raises:
            ValueError: the job is invalid, or cannot run on input with these columns.
        """
        for name in BASIC_COLUMNS if self._has_basic_input else (self.column,):
            if name not in names:
                hint = (
                    ""
                    if self._has_basic_input
                    else "; select the message column with --column or column"
                )
                raise ValueError(
                    f"no column {name!r} in the input: it has {', '.join(names)}{hint}"
                )
        if self.kind == "translate":
            Translator(self.to, self.profile_used)
        elif self.profile is not None:
            validation.profile_of(self.profile)
        if self.rules is not None and self.validation_profile is None:
            raise ValueError(
                "rules are added to a validation profile: use them with the job validate, or with "
                "decode and a profile"
            )
        if self.lenient and (self.kind != "decode" or self.profile is not None):
            raise ValueError(
                "lenient applies to the job decode without a profile: validation reports all "
                "violations of a message"
            )
        if self.kind == "decode":
            decoded = arrow.schema_of(self._decoded_columns()).names
            if {*decoded} <= {*ERROR_COLUMN_NAMES}:
                raise ValueError(
                    "good rows have no error columns, so they would have no columns at all: select "
                    "other columns, too"
                )
            self._reject_clash(names, decoded, "of the decoded message")
        elif self.kind == "validate":
            self._reject_clash(names, VALIDATION_SCHEMA.names, "of the output")
        self._reject_clash(names, QUARANTINE_SCHEMA.names, "of the quarantine")

    def check_types(self, schema: pa.Schema) -> None:
        """Check that the columns with messages are binary, and that a column ``fault`` is text.

        Args:
            schema: the schema of the input.

        Raises:
            ValueError: a column has the wrong type.
        """
        for name in BASIC_COLUMNS if self._has_basic_input else (self.column,):
            if not is_binary(schema.field(name).type):
                raise ValueError(
                    f"the column {name!r} has the type {schema.field(name).type}, and must have "
                    "the bytes of messages"
                )
        if "fault" in schema.names:
            _check_fault_type(schema.field("fault").type)

    def _reject_clash(self, names: list[str], produced: list[str], origin: str) -> None:
        """Raise ValueError if a copied input column has the name of a column in `produced`."""
        passed = self._passed_through(names, to_quarantine=True)
        clashes = common_names(passed, produced)
        if clashes:
            raise ValueError(
                f"{', '.join(clashes)}: a column of the input and {origin}: rename it in the input"
            )

    def _decoded_columns(self) -> list[str]:
        """Return the columns to decode.

        They include `ERROR_COLUMN_NAMES`, to separate good and bad rows.
        """
        if self.columns is None:
            return [name for name in arrow.SCHEMA.names if name != "section_offsets"]
        names = list(self.columns)
        if len(names) == 1 and names[0] in arrow.SETS:
            names = arrow.schema_of(names[0]).names
        return [*names, *(name for name in ERROR_COLUMN_NAMES if name not in names)]

    def _passed_through(self, names: list[str], *, to_quarantine: bool = False) -> list[str]:
        """Return the input columns that are copied to the output, such as ``source``.

        Columns that an earlier job added are left out if this job computes them again: ``losses``,
        ``valid`` with ``violations``, and the columns of a quarantine.
        """
        excluded = {self.column, "message_format", *_MESSAGE_COLUMNS, SOURCE, OFFSET, FAULT_COLUMN}
        if _is_quarantine(names):
            excluded |= {*QUARANTINE_SCHEMA.names}
        if {*VALIDATION_SCHEMA.names} <= {*names} and self.kind == "validate":
            excluded |= {*VALIDATION_SCHEMA.names}
        if self.kind == "translate":
            excluded |= {"losses"} if to_quarantine else {*BASIC.names, "losses"}
        return [name for name in names if name not in excluded]

    def run(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        """Run the job on a batch. Return (good rows, quarantined rows), and count them in `stats`.

        Raises:
            ValueError: the column ``fault`` does not have text; or the result exceeds the size of
                an Arrow column. Nothing has been counted: split the batch, and run the job on each
                piece.
        """
        faults = _row_faults(batch)
        is_readable = pc.and_(pc.is_valid(batch.column(self._main_column)), pc.equal(faults, ""))
        # Filtering copies the batch, so skip it if all rows are readable, as they usually are.
        all_readable = pc.all(is_readable, min_count=0).as_py()
        readable = batch if all_readable else batch.filter(is_readable)
        good, bad = getattr(self, f"_{self.kind}")(readable, stats)
        if not all_readable:
            is_broken = pc.invert(is_readable)
            unread = self._quarantine_unprocessable(
                batch.filter(is_broken), faults.filter(is_broken)
            )
            if unread.num_rows:
                bad = pa.Table.from_batches([unread, bad]).combine_chunks().to_batches()[0]
        stats.rows += good.num_rows + bad.num_rows
        stats.errors += bad.num_rows
        stats.skipped += batch.num_rows - good.num_rows - bad.num_rows
        self._count_errors(bad, stats)
        return good, bad

    @property
    def _has_basic_input(self) -> bool:
        """Whether the input of the job is 0-9-1 messages."""
        return self.kind == "translate" and self.to == "1.0"

    @property
    def _main_column(self) -> str:
        """The input column that is not null if the row has a message that this job can process."""
        return "content_header" if self._has_basic_input else self.column

    def _quarantine_unprocessable(self, batch: pa.RecordBatch, faults: pa.Array) -> pa.RecordBatch:
        """Return quarantine rows for unreadable rows and messages of the wrong protocol.

        Rows without a message and without a fault are dropped.
        """
        is_fault = pc.not_equal(faults, "")
        protocol = "1.0" if self._has_basic_input else "0-9-1"
        advice_text = (
            "the job translate to 0-9-1 and all other jobs read it"
            if self._has_basic_input
            else "the job translate to 1.0 reads it"
        )
        refusal = f"a message of AMQP {protocol}, which this job cannot process: {advice_text}"
        rows = batch.num_rows
        errors = [
            pc.if_else(is_fault, _fault_codes(faults), OTHER_PROTOCOL_CODE),
            pa.repeat("", rows),
            pa.nulls(rows, pa.int64()),
            pc.if_else(is_fault, faults, refusal),
        ]
        result = self._quarantine_rows(batch, errors)
        has_content = is_fault
        for name in _MESSAGE_COLUMNS[:3]:
            has_content = pc.or_(has_content, pc.is_valid(result.column(name)))
        return result.filter(has_content)

    def _quarantine_rows(self, batch: pa.RecordBatch, errors: list[Any]) -> pa.RecordBatch:
        """Return the quarantine rows for a batch: location, message, and the columns `errors`."""
        names = self._passed_through(batch.schema.names, to_quarantine=True)
        contents = [
            _column_or_nulls(batch, self.column if name == "wire" else name, pa.binary())
            for name in _MESSAGE_COLUMNS[:3]
        ]
        fields = [batch.schema.field(name) for name in names]
        arrays = [batch.column(name) for name in names]
        if SOURCE in batch.schema.names:
            fields += _LOCATION_FIELDS
            arrays += [batch.column(SOURCE).cast(pa.string()), batch.column(OFFSET)]
        schema = pa.schema([*fields, *QUARANTINE_SCHEMA])
        return pa.RecordBatch.from_arrays([*arrays, *contents, *errors], schema=schema)

    def _split_good_and_bad(
        self,
        batch: pa.RecordBatch,
        names: list[str],
        arrays: list[Any],
        new: pa.Schema,
        errors: Any,
    ) -> _Rows:
        """Split a batch into good rows, and quarantine rows for rows with an error code.

        Good rows have the input columns `names`, and the columns `arrays` with the schema `new`.
        `errors` are the columns with code, clause, offset and text.
        """
        schema = pa.schema([*(batch.schema.field(name) for name in names), *new])
        carried = [batch.column(name) for name in names]
        result = pa.RecordBatch.from_arrays([*carried, *arrays], schema=schema)
        is_bad = pc.is_valid(errors[0])
        if not pc.any(is_bad).as_py():
            return result, self._quarantine_rows(
                batch.slice(0, 0), [error.slice(0, 0) for error in errors]
            )
        return result.filter(pc.invert(is_bad)), self._quarantine_rows(batch, errors).filter(is_bad)

    # One method for each kind of job. Each processes readable rows and counts them in `stats`.

    def _decode(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        wire = batch.column(self.column)
        names_wanted = self._decoded_columns()
        counted = [n for n in ("creation_time", "application_properties") if n in names_wanted]
        formats = batch.column("message_format") if "message_format" in batch.schema.names else None
        profile = self.validation_profile
        decoded_rows = decode_column(wire, names_wanted, profile, formats, strict=not self.lenient)
        stats.add_sizes(wire)
        created = decoded_rows.column("creation_time") if "creation_time" in counted else None
        _count_times(batch, stats, created)
        if "application_properties" in counted:
            stats.add_types("application_properties", decoded_rows.column("application_properties"))
        fields = _good_schema(tuple(names_wanted), with_errors=self.lenient)
        arrays = [cast_array(decoded_rows.column(field.name), field.type) for field in fields]
        names = self._passed_through(batch.schema.names)
        errors = error_columns(wire, decoded_rows, profile)
        if self.lenient:
            is_repaired = pc.and_(pc.is_valid(errors[0]), _has_values(decoded_rows))
            stats.repaired += pc.sum(is_repaired).as_py() or 0
            nulls = [pa.scalar(None, error.type) for error in errors]
            errors = [
                pc.if_else(is_repaired, null, error)
                for null, error in zip(nulls, errors, strict=True)
            ]
        return self._split_good_and_bad(batch, names, arrays, fields, errors)

    def _validate(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        wire = batch.column(self.column)
        stats.add_sizes(wire)
        _count_times(batch, stats)
        profile = validation.profile_of(self.validation_profile or self.profile_used)
        valid, violations = validate_column(wire, profile)
        errors = first_errors(valid, violations)
        names = self._passed_through(batch.schema.names)
        added = pa.schema([("wire", pa.binary()), *VALIDATION_SCHEMA])
        return self._split_good_and_bad(batch, names, [wire, valid, violations], added, errors)

    def _translate(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        profile = self.profile_used
        translator = Translator(self.to, profile, circumstances=self.circumstances)
        inputs = (
            ["wire"] if self.to == "0-9-1" else [n for n in BASIC.names if n in batch.schema.names]
        )
        arrays_in = [batch.column(self.column if name == "wire" else name) for name in inputs]
        results = translator.run(dict(zip(inputs, arrays_in, strict=True)))
        if self.to == "0-9-1":
            stats.add_sizes(arrays_in[0])
        else:
            message_parts = ("content_header", "payload")
            stats.add_sizes(*(_column_or_nulls(batch, n, pa.binary()) for n in message_parts))
        _count_times(batch, stats)
        stats.add_losses(results["losses"])
        message_fields = [
            field for field in translator.schema if not field.name.startswith("error_")
        ]
        errors = [results[f"error_{name}"] for name in ("code", "clause", "offset", "text")]
        names, arrays = (
            self._passed_through(batch.schema.names),
            [results[field.name] for field in message_fields],
        )
        good, bad = self._split_good_and_bad(
            batch, names, arrays, pa.schema(message_fields), errors
        )
        return _with_protocol(good, self.to), bad

    def _profile(self, batch: pa.RecordBatch, stats: Stats) -> _Rows:
        wire = batch.column(self.column)
        decoded_rows = decode_column(
            wire, [*COUNTED_MAP_SECTIONS, "creation_time", *ERROR_COLUMN_NAMES]
        )
        stats.add_sizes(wire)
        _count_times(batch, stats, decoded_rows.column("creation_time"))
        for section in COUNTED_MAP_SECTIONS:
            stats.add_types(section, decoded_rows.column(section))
        added = pa.schema([("wire", pa.binary())])
        return self._split_good_and_bad(
            batch, [], [wire], added, error_columns(wire, decoded_rows, None)
        )

    def _count_errors(self, bad: pa.RecordBatch, stats: Stats) -> None:
        """Count the error codes of quarantined rows."""
        names = ["error_code", "error_clause", "error_text"]
        if {"source", "offset"} <= set(bad.schema.names):
            names += ["source", "offset"]
        columns = [column.to_pylist() for column in bad.select(names).columns]
        for code, clause, text, *location in zip(*columns, strict=True):
            first = "{}@{}".format(*location) if location else ""
            rule_count = RuleCount(clause or "", 1, first, text=(text or "")[:MAX_EXAMPLE_LENGTH])
            stats.add_error(code or "", rule_count)


def _with_protocol(translated: pa.RecordBatch, protocol: str) -> pa.RecordBatch:
    """Return translated rows whose column ``protocol``, if it is text, names their new protocol."""
    index = translated.schema.get_field_index("protocol")
    if index < 0:
        return translated
    field = translated.schema.field(index)
    if not any(accepts(field.type) for accepts in _IS_TEXT) or pa.types.is_null(field.type):
        return translated
    names = pa.repeat(protocol, translated.num_rows)
    if pa.types.is_dictionary(field.type):
        names = names.dictionary_encode()
    return translated.set_column(index, field, names.cast(field.type))


def _is_quarantine(names: list[str]) -> bool:
    """Return True if `names` contains all columns of a quarantine.

    A single column with such a name may be a column of the user.
    """
    return {*QUARANTINE_SCHEMA.names} <= {*names}


def _check_fault_type(arrow_type: pa.DataType) -> None:
    """Raise ValueError if a column ``fault`` of this type does not have text."""
    if not any(accepts(arrow_type) for accepts in _IS_TEXT):
        raise ValueError(
            "the column 'fault' must be text, the reason why a row has no message, not "
            f"{arrow_type}: convert or rename the column"
        )


def _row_faults(batch: pa.RecordBatch) -> pa.Array:
    """Return the fault of each row; an empty text for rows that could be read.

    Raises:
        ValueError: the column ``fault`` does not have text.
    """
    names = batch.schema.names
    if FAULT_COLUMN in names:
        return batch.column(FAULT_COLUMN)
    if "fault" in names:
        _check_fault_type(batch.schema.field("fault").type)
        return pc.fill_null(cast_array(batch.column("fault"), pa.string()), "")
    if _is_quarantine(names):
        codes = pa.array([UNREADABLE_CODE, DAMAGED])
        is_fault = pc.is_in(batch.column("error_code").cast(pa.string()), codes)
        return pc.if_else(is_fault, pc.fill_null(batch.column("error_text"), ""), "")
    return pa.repeat("", batch.num_rows)


def _fault_codes(faults: pa.Array) -> pa.Array:
    """Return the error code of each fault."""
    return pc.if_else(pc.match_substring_regex(faults, _DAMAGE_PATTERN), DAMAGED, UNREADABLE_CODE)


def _count_times(batch: pa.RecordBatch, stats: Stats, created: pa.Array | None = None) -> None:
    """Count messages by capture time, or by their creation-time if they have none.

    Args:
        batch: the input rows.
        stats: receives the counts.
        created: the column ``creation_time`` of the decoded messages; None if it is not decoded.
    """
    times = [] if created is None else [created.cast(pa.int64())]
    captured = capture_times(batch)
    if captured is not None:
        times.insert(0, captured)
    if times:
        stats.add_times(pc.coalesce(*times))


def _column_or_nulls(batch: pa.RecordBatch, name: str, arrow_type: pa.DataType) -> pa.Array:
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, arrow_type)
    return cast_array(batch.column(name), arrow_type)


# Decoded columns that are not null even if nothing in the message is readable.
_NAMES_WITHOUT_CONTENT = {"wire", "message_format", "error", *ERROR_COLUMN_NAMES}


def _has_values(decoded_rows: pa.RecordBatch) -> pa.Array:
    """Return whether each row has a value that was read from the message."""
    result = pa.repeat(False, decoded_rows.num_rows)
    for field, column in zip(decoded_rows.schema, decoded_rows.columns, strict=True):
        if field.name not in _NAMES_WITHOUT_CONTENT:
            result = pc.or_(result, pc.is_valid(column))
    return result


@lru_cache(32)
def _good_schema(names: tuple[str, ...], *, with_errors: bool) -> pa.Schema:
    """Return the schema of good rows of a decode job: the decoded columns.

    Without `with_errors`, these are all except `ERROR_COLUMN_NAMES`.
    """
    fields = [
        field
        for field in arrow.schema_of(names)
        if with_errors or field.name not in ERROR_COLUMN_NAMES
    ]
    return pa.schema([(field.name, type_for_spark(field.type)) for field in fields])


# Decoding and validation of whole columns.


def decode_column(
    array: Any,
    columns: str | list[str] | None,
    validate: validation.ProfileName | validation.Profile | None = None,
    message_format: Any = None,
    maps: arrow.MapsAs = "map",
    *,
    strict: bool = True,
) -> pa.RecordBatch:
    """Decode messages like `amqp10msg.columns.decode`, but treat an empty message as an error."""
    result = arrow.decode(
        array, columns, validate, message_format=message_format, maps=maps, strict=strict
    )
    is_empty = pc.equal(pc.binary_length(array), 0)
    if not pc.any(is_empty).as_py():
        return result
    rule = validation.RULES["body-missing"]
    errors = [pa.repeat(value, len(array)) for value in (rule.id, rule.clause, 0)]
    return _replace_errors(result, pc.fill_null(is_empty, False), errors)


def decode_with_faults(
    array: Any,
    faults: pa.Array,
    columns: str | list[str] | None,
    validate: validation.ProfileName | validation.Profile | None = None,
    message_format: Any = None,
    maps: arrow.MapsAs = "map",
    *,
    strict: bool = True,
) -> pa.RecordBatch:
    """Decode messages like `decode_column`, but treat each row with a fault as an error.

    The bytes of such a row are not a message: they are not decoded, only returned as ``wire``. The
    error codes are those of jobs: `DAMAGED` and `UNREADABLE_CODE`.

    Args:
        array: the encoded messages.
        faults: why the reader could not get a message, in text; null or empty for messages.
        columns: the columns, as for `decode_column`; the others, too.
        validate: a profile to check the messages against.
        message_format: the message-format of each message.
        maps: how map sections are returned.
        strict: whether invalid messages have no values, see `amqp10msg.columns.decode`.
    """
    faults, is_fault = _find_faults(faults)
    if not pc.any(is_fault).as_py():
        return decode_column(array, columns, validate, message_format, maps, strict=strict)
    messages = _without_faults(array, is_fault)
    result = decode_column(messages, columns, validate, message_format, maps, strict=strict)
    index = result.schema.get_field_index("wire")
    if index >= 0:
        field = result.schema.field(index)
        result = result.set_column(index, field, cast_array(array, field.type))
    rows = len(array)
    errors = [_fault_codes(faults), pa.repeat("", rows), pa.nulls(rows, pa.int64())]
    return _replace_errors(result, is_fault, errors)


def validate_with_faults(
    array: pa.Array, faults: pa.Array, profile: validation.Profile
) -> tuple[pa.Array, pa.Array]:
    """Validate messages like `validate_column`, but treat each row with a fault as invalid.

    The bytes of such a row are not a message, so they are not checked. Its only violation is an
    error with the fault as text. The rule of this error is the error code of jobs: `DAMAGED` or
    `UNREADABLE_CODE`.

    Args:
        array: the encoded messages.
        faults: why the reader could not get a message, in text; null or empty for messages.
        profile: the profile to check the messages against.
    """
    faults, is_fault = _find_faults(faults)
    valid, violations = validate_column(_without_faults(array, is_fault), profile)
    rows = pc.indices_nonzero(is_fault).to_pylist()
    if not rows:
        return valid, violations
    texts = faults.filter(is_fault)
    errors = [
        [{"rule": code, "clause": "", "severity": "error", "path": "", "text": text}]
        for code, text in zip(_fault_codes(texts).to_pylist(), texts.to_pylist(), strict=True)
    ]
    names = VALIDATION_SCHEMA.names
    replacements = (pa.repeat(False, len(rows)), pa.array(errors, _VIOLATIONS_TYPE))
    replaced = replace_rows(
        dict(zip(names, (valid, violations), strict=True)),
        rows,
        dict(zip(names, replacements, strict=True)),
    )
    return replaced["valid"], replaced["violations"]


def translate_with_faults(
    translator: Translator, columns: dict[str, pa.Array], faults: pa.Array
) -> dict[str, pa.Array]:
    """Translate messages like `Translator.run`, but treat each row with a fault as an error.

    The bytes of such a row are not a message, so they are not translated. The error codes are
    those of jobs: `DAMAGED` and `UNREADABLE_CODE`.

    Args:
        translator: translates the other rows.
        columns: {name: input column}, as for `Translator.run`.
        faults: why the reader could not get a message, in text; null or empty for messages.
    """
    faults, is_fault = _find_faults(faults)
    translated = translator.run(
        {name: _without_faults(array, is_fault) for name, array in columns.items()}
    )
    rows = pc.indices_nonzero(is_fault).to_pylist()
    if not rows:
        return translated
    texts = faults.filter(is_fault)
    errors = {
        "error_code": _fault_codes(texts),
        "error_clause": pa.repeat("", len(rows)),
        "error_text": texts,
    }
    replacements = {
        field.name: errors.get(field.name, pa.nulls(len(rows), field.type))
        for field in translator.schema
    }
    return replace_rows(translated, rows, replacements)


def _find_faults(faults: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the faults as text, empty for messages; and whether each row has a fault."""
    texts = pc.fill_null(cast_array(faults, pa.string()), "")
    return texts, pc.not_equal(texts, "")


def _without_faults(array: pa.Array, is_fault: pa.Array) -> pa.Array:
    """Return `array` with nulls in the rows that `is_fault` selects."""
    if not pc.any(is_fault).as_py():
        return array
    return pc.if_else(is_fault, pa.scalar(None, array.type), array)


def _replace_errors(
    decoded_rows: pa.RecordBatch, is_error: pa.Array, errors: Sequence[pa.Array]
) -> pa.RecordBatch:
    """Return decoded rows with other errors in the rows that `is_error` selects.

    Args:
        decoded_rows: the rows, with the columns `ERROR_COLUMN_NAMES`, a column ``error``, both or
            neither.
        is_error: whether a row gets the other error.
        errors: the columns `ERROR_COLUMN_NAMES` of the other errors.
    """
    for index, field in enumerate(decoded_rows.schema):
        if field.name == "error":
            arrays = [cast_array(e, f.type) for e, f in zip(errors, field.type, strict=True)]
            column = pa.StructArray.from_arrays(arrays, fields=list(field.type))
        elif field.name in ERROR_COLUMN_NAMES:
            column = cast_array(errors[ERROR_COLUMN_NAMES.index(field.name)], field.type)
        else:
            continue
        column = pc.if_else(is_error, column, decoded_rows.column(index))
        decoded_rows = decoded_rows.set_column(index, field, column)
    return decoded_rows


def validate_column(array: Any, profile: validation.Profile) -> tuple[pa.Array, pa.Array]:
    """Validate an array of messages; return the columns of `VALIDATION_SCHEMA`."""
    chunks = arrow.binary_chunks(array) or [pa.array([], pa.binary())]
    results = [_validate_chunk(chunk, profile) for chunk in chunks]
    if len(results) == 1:
        return results[0]
    valid, violations = (pa.concat_arrays(arrays) for arrays in zip(*results, strict=True))
    return valid, violations


def _validate_chunk(chunk: pa.Array, profile: validation.Profile) -> tuple[pa.Array, pa.Array]:
    """Validate a chunk of messages: in full only those that the prefilter suspects."""
    rows = len(chunk)
    violations_by_row: dict[int, list[dict[str, Any]]] = {}
    for row in arrow.suspects(chunk, DEFAULT_LIMITS, profile):
        message = chunk[row].as_py()
        violations = [] if message is None else validation.validate(message, profile)
        if violations:
            # Make texts encodable as UTF-8: they may quote damaged bytes that are not UTF-8.
            violations_by_row[row] = [
                {
                    **attrs.asdict(violation),
                    "path": encodable(violation.path),
                    "text": encodable(violation.text),
                }
                for violation in violations
            ]
    is_message = chunk.is_valid()
    has_error = bytearray(rows)
    offsets = numbers("i")
    total = 0
    for row, row_violations in violations_by_row.items():
        has_error[row] = any(item["severity"] == "error" for item in row_violations)
        offsets += numbers("i", [total]) * (row + 1 - len(offsets))
        total += len(row_violations)
    offsets += numbers("i", [total]) * (rows + 1 - len(offsets))
    members = pa.array(
        list(chain.from_iterable(violations_by_row.values())), _VIOLATIONS_TYPE.value_type
    )
    is_refused = pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(has_error)])
    valid = pc.if_else(is_message, pc.equal(is_refused, 0), pa.scalar(None, pa.bool_()))
    list_offsets = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(offsets)])
    mask = pc.invert(is_message) if chunk.null_count else None
    return valid, pa.ListArray.from_arrays(list_offsets, members, type=_VIOLATIONS_TYPE, mask=mask)


def first_errors(valid: pa.Array, violations: pa.Array) -> list[pa.Array]:
    """Return columns with the rule, clause, offset and text of each message's first error.

    They are null for messages without errors.
    """
    invalid = pc.indices_nonzero(pc.invert(valid))
    firsts: dict[int, dict[str, Any]] = {
        row: next(item for item in row_violations if item["severity"] == "error")
        for row, row_violations in zip(
            invalid.to_pylist(), violations.take(invalid).to_pylist(), strict=True
        )
    }
    members = _VIOLATIONS_TYPE.value_type
    columns = []
    for name in ("rule", "clause", "offset", "text"):
        arrow_type = members.field(name).type
        if firsts:
            cells = [firsts.get(row, {}).get(name) for row in range(len(valid))]
            columns.append(pa.array(cells, arrow_type))
        else:
            columns.append(pa.nulls(len(valid), arrow_type))
    return columns


def error_columns(
    array: Any, decoded_rows: pa.RecordBatch, profile: validation.Profile | None
) -> list[pa.Array]:
    """Return the columns `ERROR_COLUMN_NAMES` of decoded messages, and one with the error texts."""
    errors = [decoded_rows.column(name) for name in ERROR_COLUMN_NAMES]
    texts: list[str | None] = [None] * len(array)
    if errors[0].null_count < len(array):
        codes, _, offsets = (column.to_pylist() for column in errors)
        for row in pc.indices_nonzero(pc.is_valid(errors[0])).to_pylist():
            texts[row] = _explain_error(array[row].as_py(), profile, (codes[row], offsets[row]))
    return [*errors, pa.array(texts, pa.string())]


def _explain_error(
    message: bytes, profile: validation.Profile | None, expected: tuple[str, int]
) -> str | None:
    """Return the text of the error that `columns.decode` reported as `expected`: (code, offset).

    The message is decoded again to find the text. An error that only the columns have, such as that
    of a VARIANT of more than 16 MiB, has the text of the first violation.
    """
    text = None
    try:
        Message.decode(message)
    except DecodeError as error:
        hint = advice(message, "raw")
        text = encodable(f"{error}; {hint}" if hint else str(error))
        if (error.rule, error.offset) == expected:
            return text
    violations = validation.validate(message, profile or "oasis")
    for violation in violations:
        if (violation.rule, violation.offset) == expected:
            return encodable(violation.text)
    return text or next(
        (encodable(violation.text) for violation in violations if violation.severity == "error"),
        None,
    )


# Conversion of Arrow types.


def cast_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to a type. Skip a cast to the same type, because it would be slow, too."""
    return array if array.type == kind else array.cast(kind)


# {type that Spark does not support: a supported type that can hold its values}.
_SPARK_TYPES = {
    pa.uint64(): pa.decimal128(20, 0),
    pa.uint32(): pa.int64(),
    pa.uint16(): pa.int32(),
    pa.uint8(): pa.int16(),
    pa.binary_view(): pa.binary(),
    pa.string_view(): pa.string(),
}


def type_for_spark(arrow_type: pa.DataType) -> pa.DataType:
    """Return a type that Spark supports, and that can hold all values of `arrow_type`."""
    if arrow_type in _SPARK_TYPES:
        return _SPARK_TYPES[arrow_type]
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("us", arrow_type.tz)
    if pa.types.is_dictionary(arrow_type):
        return type_for_spark(arrow_type.value_type)
    if pa.types.is_fixed_size_binary(arrow_type):
        return pa.binary()
    if pa.types.is_struct(arrow_type):
        return pa.struct([_field_for_spark(field) for field in arrow_type])
    if pa.types.is_map(arrow_type):
        return pa.map_(type_for_spark(arrow_type.key_type), _field_for_spark(arrow_type.item_field))
    if pa.types.is_list(arrow_type):
        return pa.list_(_field_for_spark(arrow_type.value_field))
    return arrow_type


def _field_for_spark(field: pa.Field) -> pa.Field:
    return pa.field(field.name, type_for_spark(field.type), field.nullable, field.metadata)


def schema_for_spark(schema: pa.Schema) -> pa.Schema:
    """Return the schema with each type replaced by a type that Spark supports."""
    return pa.schema([_field_for_spark(field) for field in schema])
