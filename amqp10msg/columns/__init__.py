"""Messages as Arrow columns: whole batches at a time, in both directions.

`decode` returns a row for each encoded message, with a column for each field of the header and the
properties and for each other section. `SCHEMA` lists them, drawn from the declarations of Part 3:

====================================== ===========================================================
Column                                 Arrow type, and what it holds
====================================== ===========================================================
message_format                         int64, of the transfer frame, where it is given
the fields of the header               bool, int16 (priority), int64; a default where the field is
                                       left out, null where the section is
has_properties                         bool: true where the section is, even one without any field
the fields of the properties           string, binary (user_id), int64 (group_sequence)
message_id, correlation_id             string, with the AMQP type in message_id_type,
                                       correlation_id_type: digits of a ulong, hex of a binary
absolute_expiry_time, creation_time    timestamp in UTC; a moment outside the years 1 to 9999 is
                                       null, and is kept in absolute_expiry_time_ms,
                                       creation_time_ms (int64, ms since the epoch)
delivery_annotations,                  map of string to a struct with the AMQP type (below)
message_annotations,
application_properties, footer
body_kind                              ``data``, ``amqp-sequence``, ``amqp-value``; null for none
body_sections                          int32, how many sections the body has
body                                   binary: the bytes of all data sections
body_lengths                           list of int64: the bytes of each data section, where there
                                       are several; null elsewhere
body_json                              string: typed JSON of the value, or of a list of sequences
section_offsets                        list of struct: code, offset, content, end, in bytes
error_code, error_clause, error_offset string, string, int64: why a message could not be decoded
body_text                              string, only if asked for: data that is UTF-8, or an
                                       amqp-value that is a string
body_value                             `VARIANT`, only if asked for: an amqp-value, or the list of
                                       amqp-sequences
error                                  struct, only if asked for: code, clause and offset in one;
                                       null where there is no error
wire                                   binary, only if asked for: the message itself
====================================== ===========================================================

The struct of a value has the AMQP type in ``type`` and the value in one of the others: ``s`` for
string, symbol, char, uuid, ``l`` for boolean (0, 1), timestamp (ms) and all integers but ulong,
``d`` for float and double, ``b`` for binary, ``u`` for ulong. A decimal has its number in ``s`` and
its IEEE 754 bytes in ``b``; a float that is NaN has its bytes in ``b``, too; list, map,
array and described are typed JSON in ``s``. ``key_type`` is null, or ``ulong`` for a key of
annotations that is one: the key is then its digits, after as many ``#`` as make it unlike symbols.

An entry of a map section can be a column, too: ``application_properties.tenant`` is its struct, and
``application_properties.tenant string`` a plain column ``tenant``. A key that contains spaces is
quoted: ``application_properties.'a key'``. `encode` puts such columns back into their sections.

`LEAN` are the columns that most tables want. ``maps="variant"`` makes the map sections `VARIANT`,
as Spark 4 has it: values of any type, found by their keys, with the types of SQL. The metadata of
each field of `schema_of` has a comment that says what the column holds.

Needs pyarrow: ``pip install "amqp10msg[arrow]"``.
"""

from __future__ import annotations

try:
    import pyarrow as _pyarrow  # noqa: F401  (only to say what is missing)
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        'amqp10msg.columns needs pyarrow: pip install "amqp10msg[arrow]"', name="pyarrow"
    ) from _error

from amqp10msg.columns._decode import TooMuchError, binary_chunks, decode, in_pieces, suspects
from amqp10msg.columns._encode import encode
from amqp10msg.columns._entries import value_structs
from amqp10msg.columns._picks import VALUE, Pick, pick_of
from amqp10msg.columns._schema import LEAN, MAPS, SCHEMA, SETS, VARIANT, MapsAs, schema_of
from amqp10msg.columns._values import DECODED_VALUE, EXPLODED, decode_values, explode_batches

__all__ = [
    "DECODED_VALUE",
    "EXPLODED",
    "LEAN",
    "MAPS",
    "SCHEMA",
    "SETS",
    "VALUE",
    "VARIANT",
    "MapsAs",
    "Pick",
    "TooMuchError",
    "binary_chunks",
    "decode",
    "decode_values",
    "encode",
    "explode_batches",
    "in_pieces",
    "pick_of",
    "schema_of",
    "suspects",
    "value_structs",
]
