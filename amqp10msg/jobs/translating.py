"""Arrays of AMQP 0-9-1 messages as 1.0 messages and back."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from amqp10msg.files.recognition import decode_whole
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    EncodedBasic,
    Translation,
    encoded_to_amqp10,
    encoded_to_basic,
    to_basic,
)
from amqp10msg.translate.batches import kernel
from amqp10msg.translate.report import as_json
from amqp10msg.validation import rule_of
from amqp10msg.wire.errors import AmqpError, DecodeError, EncodeError
from amqp10msg.wire.reprs import encodable

_LOSSES = pa.list_(
    pa.struct(
        [
            ("path", pa.string()),
            ("action", pa.string()),
            ("before", pa.string()),
            ("after", pa.string()),
            ("reason", pa.string()),
            ("recoverable", pa.bool_()),
        ]
    )
)
#: What is said of a translation, after the message.
REPORT = [
    ("losses", _LOSSES),
    ("error_code", pa.string()),
    ("error_clause", pa.string()),
    ("error_offset", pa.int64()),
    ("error_text", pa.string()),
]
#: The columns of a message of 0-9-1: all that a `BasicMessage` says. The last three may be absent.
BASIC = pa.schema(
    [
        ("content_header", pa.binary()),
        ("payload", pa.binary()),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("redelivered", pa.bool_()),
    ]
)
TO_BASIC = pa.schema([*BASIC, *REPORT])
TO_AMQP10 = pa.schema([("wire", pa.binary()), *REPORT])
# Without one of these, a row has no message.
_OCTETS = ("wire", "content_header", "payload")

# Where AMQP 0-9-1 defines what cannot be decoded of a message.
_CONTENT_HEADER = "0-9-1, 4.2.6.1"


class Translator:
    """Translates arrays of messages to ``1.0`` or ``0-9-1``.

    Raises:
        ValueError: there is no such direction or profile.
    """

    def __init__(
        self,
        to: str,
        profile: str,
        strict: bool = False,
        circumstances: Circumstances | None = None,
    ) -> None:
        if to not in {"1.0", "0-9-1"}:
            raise ValueError(f"translate to '1.0' or to '0-9-1', not to {to!r}")
        if profile not in PROFILES:
            raise ValueError(f"unknown profile {profile!r}: use {', '.join(PROFILES.names)}")
        self.schema = TO_BASIC if to == "0-9-1" else TO_AMQP10
        self._to = to
        self._kernel = partial(kernel, to, profile, strict, circumstances)
        how = {"profile": profile, "strict": strict, "circumstances": circumstances}
        self._one = partial(_to_basic if to == "0-9-1" else _to_amqp10, how)
        self._decode_clause = "" if to == "0-9-1" else _CONTENT_HEADER

    def run(self, given: dict[str, Any]) -> dict[str, pa.Array]:
        """Translate: arrays by the name of their column, in and out."""
        made = self._by_kernel(given)
        return self._one_by_one(given) if made is None else made

    def _by_kernel(self, given: dict[str, Any]) -> dict[str, pa.Array] | None:
        """Translate the usual messages at once, and the odd rows one by one; None if all are."""
        translate = self._kernel()  # one for each batch: threads share none
        if translate is None:
            return None
        wanted = BASIC if self._to == "1.0" else pa.schema([("wire", pa.binary())])
        try:
            arrays = {name: whole(given[name], wanted.field(name).type) for name in given}
            rows = len(next(iter(arrays.values())))
            odd, found = translate.run(rows, *(column_of(arrays.get(n)) for n in wanted.names))
        except (OverflowError, pa.ArrowException):
            return None  # more than columns hold, or none of these: the other way says what it is
        if len(odd) == rows:
            return None
        made = arrays_of(self.schema, rows, found)
        if not odd:
            return made
        others = {name: array.take(pa.array(odd, pa.int64())) for name, array in arrays.items()}
        return mended(made, odd, self._one_by_one(others))

    def _one_by_one(self, given: dict[str, Any]) -> dict[str, pa.Array]:
        values = [array.to_pylist() for array in given.values()]
        rows = (dict(zip(given, row, strict=True)) for row in zip(*values, strict=True))
        made = [self._translated(row) for row in rows]
        return {
            field.name: pa.array([row.get(field.name) for row in made], field.type)
            for field in self.schema
        }

    def _translated(self, given: dict[str, Any]) -> dict[str, Any]:
        """Translate one message; what goes wrong with it is part of the row."""
        if all(given.get(name) is None for name in _OCTETS):
            return {}
        try:
            return self._one(**given)
        except DecodeError as error:
            code, clause = rule_of(error)
            return _fault(code, self._decode_clause or clause, error.offset, str(error))
        except AmqpError as error:
            return _fault("not-translatable", "", None, str(error))


def _fault(code: str, clause: str, offset: int | None, text: str) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_clause": clause,
        "error_offset": offset,
        "error_text": encodable(text),
    }


def _to_basic(how: dict[str, Any], wire: bytes) -> dict[str, Any]:
    try:
        made: Any = encoded_to_basic(wire, **how)
        found = made.message
    except DecodeError:
        made = to_basic(decode_whole(wire), **how)  # a broker may take what breaks rules
        found = EncodedBasic.of(made.message)
    return {
        "content_header": found.content_header,
        "payload": found.body,
        "exchange": _text("exchange", found.exchange),
        "routing_key": _text("routing key", found.routing_key),
        "redelivered": found.redelivered,
        "losses": _losses(made),
    }


def _to_amqp10(
    how: dict[str, Any],
    content_header: bytes | None,
    payload: bytes | None,
    exchange: str | None = None,
    routing_key: str | None = None,
    redelivered: bool | None = None,
) -> dict[str, Any]:
    content = EncodedBasic(
        content_header or b"", payload or b"", exchange or "", routing_key or "", bool(redelivered)
    )
    made = encoded_to_amqp10(content, **how)
    return {"wire": made.message, "losses": _losses(made)}


def _text(name: str, found: str) -> str:
    """Return a text for a column, which holds UTF-8 alone."""
    if encodable(found) != found:
        octets = found.encode("utf-8", "surrogateescape")
        raise EncodeError(f"not UTF-8, as a column of text must be: {octets!r}", name)
    return found


def _losses(made: Translation[Any]) -> list[dict[str, Any]]:
    return [
        {
            "path": encodable(loss.path),
            "action": loss.action,
            "before": as_json(loss.before),
            "after": as_json(loss.after),
            "reason": encodable(loss.reason),
            "recoverable": loss.recoverable,
        }
        for loss in made.losses
    ]


# Buffers of Arrow, as the kernel of `translate.batches` takes and gives them.

# Validity, None where all cells are there, and what is after it.
_Texts = tuple[bytes | None, bytes, bytes]
_LOSS = ("path", "action", "before", "after", "reason")


def whole(array: Any, kind: pa.DataType) -> Any:
    """Return a column as one array of this type, uncopied where it is one."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
    return array if array.type == kind else array.cast(kind)


def column_of(array: Any) -> tuple[Any, ...] | None:
    """Return the validity and the other buffers of an array, and its first cell; None for none."""
    return None if array is None else (*array.buffers(), array.offset)


def _texts(kind: pa.DataType, rows: int, buffers: _Texts, valid: Any = None) -> Any:
    there, offsets, data = (None if one is None else pa.py_buffer(one) for one in buffers)
    return pa.Array.from_buffers(kind, rows, [valid if there is None else there, offsets, data])


def _list_of_losses(field: pa.Field, rows: int, found: Any, valid: Any) -> Any:
    offsets, *texts, recoverable = found
    count = len(texts[0][1]) // 4 - 1
    members = field.type.value_type
    children = [
        _texts(members.field(name).type, count, buffers)
        for name, buffers in zip(_LOSS, texts, strict=True)
    ]
    children.append(pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(recoverable)]))
    losses = pa.StructArray.from_arrays(children, fields=list(members))
    buffers = [valid, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(field.type, rows, buffers, children=[losses])


def arrays_of(schema: pa.Schema, rows: int, found: Any) -> dict[str, Any]:
    """Return the columns that the kernel filled, by name; what it did not is null.

    What it found is the validity of the rows, None where there are all, and the columns' buffers.
    """
    there, *columns = found
    valid = None if there is None else pa.py_buffer(there)
    made = {}
    for field, buffers in zip(schema, columns, strict=False):
        if field.name == "losses":
            made[field.name] = _list_of_losses(field, rows, buffers, valid)
        elif pa.types.is_boolean(field.type):
            made[field.name] = pa.Array.from_buffers(
                field.type, rows, [valid, pa.py_buffer(buffers)]
            )
        else:
            made[field.name] = _texts(field.type, rows, buffers, valid)
    for field in schema:
        if field.name not in made:
            made[field.name] = pa.nulls(rows, field.type)
    return made


def mended(made: dict[str, Any], places: list[int], others: dict[str, Any]) -> dict[str, Any]:
    """Return columns with the rows at these places, in order, replaced by others."""
    rows = len(next(iter(made.values())))
    order = list(range(rows))
    for number, place in enumerate(places):
        order[place] = rows + number
    taken = pa.array(order, pa.int64())
    return {
        name: pa.concat_arrays([array, others[name]]).take(taken) for name, array in made.items()
    }
