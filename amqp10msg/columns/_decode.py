"""Batches of encoded messages to columns, and what becomes of batches that would be too large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns import _prefilter
from amqp10msg.columns._picks import VALUE
from amqp10msg.columns._plain import judged, row, text_size
from amqp10msg.columns._schema import ERROR, ERRORS, VARIANT, WIRE, MapsAs, Plan, plan_of
from amqp10msg.message.picks import Picker
from amqp10msg.validation import PROFILES, ProfileName
from amqp10msg.wire.kernel import COMPILED
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits

_Made = TypeVar("_Made")

# What makes the kernel's plans, where it is compiled.
_column_plan: Any = None
if COMPILED and find_spec("amqp10msg.columns._kernel.scan") is not None:
    from amqp10msg.columns import _kernel_plan

    _column_plan = _kernel_plan.column_plan
_NO_BOUND = 2**62


def decode(
    array: Any,
    columns: str | Picker | Iterable[str] | None = None,
    validate: ProfileName | None = None,
    limits: Limits | None = None,
    *,
    message_format: Any = None,
    maps: MapsAs = "map",
) -> pa.RecordBatch:
    """Decode encoded messages into columns, a row for each.

    A message that cannot be decoded never raises: its row is null except ``error_code`` (a key of
    `amqp10msg.validation.RULES`), ``error_clause``, ``error_offset`` (in bytes), and ``wire`` if
    that is asked for. A null in the input becomes a row of nulls.

    The compiled kernel runs without the GIL, and keeps up to 32 MiB of freed memory for the next
    batch. A call costs as much as some 200 messages, and batches of a few thousand
    are as fast as larger ones. The columns of a batch share their memory, which is freed with the
    last of them; to keep one alone, name it in `columns`.

    Args:
        array: the encoded messages: a pyarrow Array or ChunkedArray of binary, large_binary,
            binary_view or fixed_size_binary, or of a dictionary of these; a pandas or Polars
            Series or anything else with Arrow's C interface; or a list of bytes. Memory is read
            in place.
        columns: names of columns, in the order wanted: those of `SCHEMA`; ``body_text``,
            ``body_value`` and ``error``, which are made of them; ``wire`` for the bytes of each
            message; and entries of the map sections: ``application_properties.tenant`` as a struct,
            ``application_properties.tenant string`` as a column ``tenant`` of strings, with
            ``as NAME`` after it under another name, likewise ``bigint``, ``double``, ``boolean``,
            ``timestamp`` and ``binary``. A key with spaces is quoted:
            ``application_properties.'a key' string``. ``properties.subject`` is another spelling of
            the column ``subject``. ``all`` or None for `SCHEMA`, ``lean`` for `LEAN`.
            Sections that no column needs are skipped by their size, so an error inside them is not
            found; the outline of the message is always checked. A `Picker` stands for the columns
            of its paths: those of the fields by their names, such as ``message_id``, entries as
            structs, ``body`` and ``body_json`` for the body. Its defaults are not applied, as a
            null may be that of a message that cannot be decoded.
        validate: a profile, such as ``oasis``, to validate the messages against. A message that
            decodes and breaks a rule of severity ``error`` keeps its values, and the three columns
            of errors name the first such rule. With the kernel, most messages that break
            none cost about another decoding.
        limits: what decoding one message may cost; the defaults of `Limits` if None.
        message_format: what the column message_format gets, since no message holds its own: an
            int for all, or a sequence or array with one for each message; null if None.
        maps: ``variant`` for map sections as `VARIANT`, where a value has SQL's type alone; one
            that would take more than 16 MiB breaks the rule ``size-limit``.

    Raises:
        TypeError: `array` does not hold bytes.
        ValueError: a column, a type or a profile is unknown, a path has no column, lengths differ,
            a column would exceed Arrow's 2 GiB, or small messages hold so many values without
            content that their JSON would be more than 64 MiB and 32 times their bytes: pass fewer
            messages at once.
    """
    names = columns if isinstance(columns, str | Picker | None) else tuple(columns)
    plan = plan_of(names, maps)
    if validate is not None and validate not in PROFILES:
        raise ValueError(f"unknown profile {validate!r}: use {', '.join(PROFILES.names)}")
    limits = limits or DEFAULT_LIMITS
    chunks = binary_chunks(array)
    if not len(plan.result):
        # A batch without columns still has rows.
        rows: list[dict[str, Any]] = [{}] * sum(map(len, chunks))
        return pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct([])))
    batches: Iterator[pa.RecordBatch] = (_chunk(chunk, plan, limits, validate) for chunk in chunks)
    if len(chunks) > 1:
        batches = bounded(batches, room_for(*chunks), _text_size)
    made = list(batches)
    batch = made[0] if len(made) == 1 else concatenated(made, plan.schema)
    if message_format is not None and "message_format" in plan.schema.names:
        formats = formats_of(message_format, batch.num_rows)
        index = plan.schema.get_field_index("message_format")
        batch = batch.set_column(index, plan.schema.field(index), formats)
    return batch if plan.result is plan.schema else _as_asked_for(batch, plan)


def _as_asked_for(batch: pa.RecordBatch, plan: Plan) -> pa.RecordBatch:
    """Return the columns that were asked for, of those that were read."""
    arrays = []
    for field in plan.result:
        if field.name in plan.entries:
            pick = plan.entries[field.name]
            structs = batch.column(pick.struct_name)
            arrays.append(structs if pick.type is None else pick.plain(structs))
        elif field.name == ERROR.name:
            members = [batch.column(error.name) for error in ERRORS]
            arrays.append(
                pa.StructArray.from_arrays(
                    members, fields=list(ERROR.type), mask=members[0].is_null()
                )
            )
        else:
            arrays.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(arrays, schema=plan.result)


def _text_size(batch: pa.RecordBatch) -> int:
    """Return how many bytes of JSON and other texts of values a batch has."""
    size = 0
    for field, column in zip(batch.schema, batch.columns, strict=True):
        texts = None
        if field.name == "body_json":
            texts = column
        elif pa.types.is_map(field.type):
            texts = column.items.field("s")
        elif field.type == VALUE:
            texts = column.field("s")
        elif field.type == VARIANT:
            texts = column.field("value")
        if texts is not None:
            size += pc.sum(pc.binary_length(texts)).as_py() or 0
    return size


def _chunk(array: pa.Array, plan: Plan, limits: Limits, profile: str | None) -> pa.RecordBatch:
    if scanned is None:
        rows = (row(octets, plan, limits, profile) for octets in octets_in(array))
        return batch_of(bounded(rows, room_for(array), text_size), plan)
    try:
        batch, odd = scanned(array, plan, limits)
    except OverflowError:
        raise TooMuchError(
            "a column would exceed 2 GiB, or be filled by values without content: decode fewer "
            "messages at once"
        ) from None
    if odd:
        batch = _with_odd(batch, array, odd, plan, limits)
    return batch if profile is None else _judged(array, batch, plan, limits, profile)


def _scanned(array: pa.Array, plan: Plan, limits: Limits) -> tuple[pa.RecordBatch, list[int]]:
    """Read an array of binary or large_binary; return its columns and the rows left null.

    Raises:
        OverflowError: a column would exceed Arrow's 32-bit offsets, or values without content would
            be written out to more than `room_for` the array.
        ValueError: the array is not valid.
    """
    valid, offsets, data = array.buffers()
    batch, odd = _column_plan(plan).read(
        *place_of(data),
        *place_of(offsets),
        8 if pa.types.is_large_binary(array.type) else 4,
        *place_of(valid),
        array.offset,
        len(array),
        min(limits.items, _NO_BOUND),
        min(limits.zero_width, _NO_BOUND),
        limits.zero_width_per_byte,
        _NO_BOUND if limits.size is None else min(limits.size, _NO_BOUND),
        limits.depth,
        room_for(array),
    )
    place = plan.schema.get_field_index("wire")
    if place >= 0:
        batch = batch.add_column(place, WIRE, array.cast(pa.binary()))
    return batch, odd


def place_of(buffer: pa.Buffer | None) -> tuple[int, int]:
    """Return the address and the size of a buffer, which an array may lack."""
    return (buffer.address, buffer.size) if buffer else (0, 0)


#: Reads an array with the kernel, which runs compiled only; None if `_plain` reads them all.
scanned: Callable[[pa.Array, Plan, Limits], tuple[pa.RecordBatch, list[int]]] | None = (
    None if _column_plan is None else _scanned
)


def _with_odd(
    batch: pa.RecordBatch, array: pa.Array, odd: list[int], plan: Plan, limits: Limits
) -> pa.RecordBatch:
    """Read the rows that the kernel left null: errors, and what it does not know."""
    errors: dict[int, dict[str, Any]] = {}
    others: dict[int, dict[str, Any]] = {}
    rows = (row(array[place].as_py(), plan, limits, None) for place in odd)
    for place, cells in zip(odd, bounded(rows, room_for(array), text_size), strict=True):
        (errors if "error_code" in cells else others)[place] = cells
    if others:
        batch = merged(batch, list(others), batch_of(others.values(), plan))
    return _with_errors(batch, errors) if errors else batch


def _with_errors(batch: pa.RecordBatch, errors: dict[int, dict[str, Any]]) -> pa.RecordBatch:
    """Set the columns of errors of some rows, by row and in order; the others stay as they are."""
    places = bytearray(batch.num_rows)
    for place in errors:
        places[place] = 1
    buffer = pa.py_buffer(places)
    has_error = pa.Array.from_buffers(pa.uint8(), len(places), [None, buffer]).cast(pa.bool_())
    for field in ERRORS:
        index = batch.schema.get_field_index(field.name)
        if index >= 0:
            cells = pa.array([cells[field.name] for cells in errors.values()], field.type)
            made = pc.replace_with_mask(batch.column(index), has_error, cells)
            batch = batch.set_column(index, field, made)
    return batch


def merged(batch: pa.RecordBatch, places: list[int], others: pa.RecordBatch) -> pa.RecordBatch:
    """Replace some rows of this batch by those of another one."""
    return concatenated(replaced(batch, places, others), batch.schema)


def replaced(
    batch: pa.RecordBatch, places: list[int], others: pa.RecordBatch
) -> list[pa.RecordBatch]:
    """Return a batch in pieces, with some of its rows replaced by those of another one."""
    pieces: list[pa.RecordBatch] = []
    begin = 0
    run = 0  # where a run of adjacent places begins
    for i, place in enumerate(places):
        if i + 1 < len(places) and places[i + 1] == place + 1:
            continue
        first = place - (i - run)
        pieces += (batch.slice(begin, first - begin), others.slice(run, i + 1 - run))
        begin = place + 1
        run = i + 1
    pieces.append(batch.slice(begin))
    return [piece for piece in pieces if piece.num_rows]


def _judged(
    array: pa.Array, batch: pa.RecordBatch, plan: Plan, limits: Limits, profile: str
) -> pa.RecordBatch:
    """Validate the rows without an error, if a column of errors is asked for."""
    names = [field.name for field in ERRORS if field.name in plan.schema.names]
    if not names:
        return batch
    found: dict[int, dict[str, Any]] = {}
    is_error = pc.is_valid(batch.column(names[0]))
    for place in suspects(array, limits, profile):
        octets = array[place].as_py()
        if octets is not None and not is_error[place].as_py():
            cells = judged(octets, limits, profile)
            if cells:
                found[place] = cells
    return _with_errors(batch, found) if found else batch


def suspects(array: pa.Array, limits: Limits, profile: str) -> Sequence[int]:
    """Return the places of messages that may break a rule of a profile: all that do are among them.

    Without the kernel these are all messages: finding out would take as long as validating.

    Args:
        array: the encoded messages, as one of `binary_chunks`.
        limits: what decoding one message may cost.
        profile: the name of a profile of `amqp10msg.validation`.
    """
    if scanned is None or not _prefilter.can_screen(profile):
        return range(len(array))
    try:
        # What the kernel leaves null is not read by `_plain`, which takes long.
        screen, odd = scanned(array, plan_of(_prefilter.COLUMNS), limits)
    except OverflowError:
        return range(len(array))
    return sorted({*odd, *_prefilter.suspects(screen, profile)})


def octets_in(array: pa.Array) -> Iterator[bytes | None]:
    """Yield the messages one at a time, so that there is never a copy of all of them."""
    for scalar in array:
        yield scalar.as_py()


def batch_of(rows: Iterable[dict[str, Any]], plan: Plan) -> pa.RecordBatch:
    """Make a batch of rows of cells."""
    made = list(rows)
    present = {name for cells in made for name in cells}
    arrays = []
    for field in plan.schema:
        if field.type == VARIANT:
            column = _variants([cells.get(field.name) for cells in made])
        elif field.name not in present:
            column = pa.nulls(len(made), field.type)
        else:
            column = pa.array([cells.get(field.name) for cells in made], field.type)
        if isinstance(column, pa.ChunkedArray):
            raise TooMuchError(
                f"the column {field.name} would exceed 2 GiB: decode fewer messages at once"
            )
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)


def _variants(cells: list[dict[str, bytes] | None]) -> pa.Array | pa.ChunkedArray:
    """Return a column of VARIANT, with empty binaries below the rows that are null.

    pyarrow itself would put nulls there, which the type forbids: no cast takes such an array.
    """
    members = [
        pa.array([b"" if cell is None else cell[member.name] for cell in cells], member.type)
        for member in VARIANT
    ]
    for array in members:
        if isinstance(array, pa.ChunkedArray):
            return array
    absent = pa.array([cell is None for cell in cells], pa.bool_())
    return pa.StructArray.from_arrays(members, fields=list(VARIANT), mask=absent)


def concatenated(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return batches of one schema as one batch."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    try:
        return pa.RecordBatch.from_arrays(
            [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(schema))],
            schema=schema,
        )
    except pa.ArrowInvalid as error:
        raise TooMuchError(
            f"the columns would exceed 2 GiB: decode fewer at once ({error})"
        ) from None


def binary_chunks(array: Any) -> list[pa.Array]:
    """Return the input of `decode` as arrays of binary or large_binary, uncopied if possible.

    Raises:
        TypeError: it does not hold bytes.
        TooMuchError: a dictionary holds few bytes, and many messages are made of them.
    """
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [_array_of(array)]
    if len(chunks) == 1 and isinstance(chunks[0], pa.ChunkedArray):
        chunks = chunks[0].chunks
    return [_binary(chunk) for chunk in chunks]


def _array_of(array: Any) -> Any:
    if isinstance(array, pa.Array):
        return array
    if hasattr(array, "__arrow_c_array__"):
        return pa.array(array)
    if hasattr(array, "__arrow_c_stream__"):
        return pa.chunked_array(array)
    try:
        return pa.array(array)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise TypeError(f"expected encoded messages as binary: {error}") from None


def _binary(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return array
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind):
        return array.cast(pa.binary())
    if kind == pa.binary_view():
        return array.cast(pa.large_binary())
    if pa.types.is_dictionary(kind):
        values = _binary(array.dictionary).cast(pa.large_binary())
        octets = pc.sum(pc.binary_length(values).take(array.indices)).as_py() or 0
        if octets > room_for(array):
            raise TooMuchError(
                f"the messages of this dictionary have {octets:,} bytes: decode fewer at once"
            )
        return values.take(array.indices)
    raise TypeError(f"expected encoded messages as binary, not {kind}")


def formats_of(given: Any, count: int) -> pa.Array:
    """Return the column of message formats.

    Raises:
        ValueError: their number is not that of the messages.
    """
    if given is None or isinstance(given, int):
        return pa.repeat(pa.scalar(given, pa.int64()), count)
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    column = given if isinstance(given, pa.Array) else pa.array(given, pa.int64())
    if len(column) != count:
        raise ValueError(f"there are {count} messages and {len(column)} message formats")
    return column.cast(pa.int64())


# What a batch may hold.

# The text that rows may be written out to: 64 MiB, and 32 times the bytes of the messages. JSON
# takes up to 17 times the bytes of what has content. An array of 65,536 values without content,
# which fits a message of 13 bytes, takes 80,000 times: a batch of them would fill any memory.
_ROOM = 64 << 20
_TIMES = 32


class TooMuchError(ValueError):
    """A batch decodes to more than its columns may hold; decode fewer messages at once."""

    __module__ = "amqp10msg.columns"  # where users import it from: tracebacks show it


def room_for(*arrays: pa.Array) -> int:
    """Return how many bytes of text the messages of arrays may be written out to."""
    return _ROOM + _TIMES * sum(int(array.nbytes) for array in arrays)


def bounded(rows: Iterable[_Made], room: int, size: Callable[[_Made], int]) -> Iterator[_Made]:
    """Yield rows, or batches of them, while the sizes of their texts add up to `room` at most.

    Raises:
        TooMuchError: they add up to more, and there is more than one of them.
    """
    for count, cells in enumerate(rows):
        room -= size(cells)
        if room < 0 and count:
            raise TooMuchError(
                "the messages hold so many values without content that their JSON would fill the "
                "memory: decode fewer messages at once, or set Limits(zero_width=...)"
            )
        yield cells


def in_pieces(
    batch: pa.RecordBatch, work: Callable[[pa.RecordBatch], _Made]
) -> Iterator[tuple[pa.RecordBatch, _Made]]:
    """Run work on a batch, or on halves and so on if it is too large; yield each with its result.

    Raises:
        TooMuchError: a single message is too much.
    """
    try:
        made = work(batch)
    except TooMuchError:
        if batch.num_rows < 2:
            raise
        middle = batch.num_rows // 2
        yield from in_pieces(batch.slice(0, middle), work)
        yield from in_pieces(batch.slice(middle), work)
    else:
        yield batch, made
