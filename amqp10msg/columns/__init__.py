"""Convert batches of messages to Arrow columns, and back.

`decode` returns one row per encoded message, with a column for each field of the header and the
properties, and for each other section. `SCHEMA` lists the columns, derived from Part 3:

====================================== ===========================================================
Column                                 Arrow type and content
====================================== ===========================================================
message_format                         int64: from the argument `message_format`
the fields of the header               bool, int16 (priority), int64; the default if the field is
                                       absent, null if the section is absent
has_properties                         bool: true if there is a properties section, even an empty
                                       one
the fields of the properties           string, binary (user_id), int64 (group_sequence)
message_id, correlation_id             string, with the AMQP type in message_id_type,
                                       correlation_id_type: digits of a ulong, hex of a binary
absolute_expiry_time, creation_time    timestamp in UTC; null outside the years 1 to 9999: then the
                                       value is in absolute_expiry_time_ms, creation_time_ms
                                       (int64, ms since the epoch)
delivery_annotations,                  map of string to a struct with the AMQP type (below)
message_annotations,
application_properties, footer
body_kind                              ``data``, ``amqp-sequence``, ``amqp-value``; null without
                                       a body
body_sections                          int32: the number of body sections
body                                   binary: the content of all data sections
body_lengths                           list of int64: the size of each data section in bytes, if
                                       there are several; otherwise null
body_json                              string: typed JSON of the value, or of the list of sequences
section_offsets                        list of struct: code, offset, content, end, in bytes
error_code, error_clause, error_offset string, string, int64: why a message could not be decoded
body_text                              string, only if selected: data that is UTF-8, or an
                                       amqp-value that is a string
body_value                             `VARIANT`, only if selected: an amqp-value, or the list of
                                       amqp-sequences
error                                  struct, only if selected: code, clause and offset; null
                                       without an error
wire                                   binary, only if selected: the message itself
====================================== ===========================================================

The struct of a value has the AMQP type in the member ``type``, and the value in another member:
``s`` for string, symbol, char and uuid; ``l`` for boolean (0, 1), timestamp (ms) and all integers
except ulong; ``d`` for float and double; ``b`` for binary; ``u`` for ulong. A decimal has its
number in ``s`` and its IEEE 754 bytes in ``b``; a float that is NaN also has its bytes in ``b``. A
list, map, array or described value is typed JSON in ``s``. ``key_type`` is ``ulong`` if the key of
an annotation is a ulong, otherwise null; the key is then in decimal digits, prefixed with ``#``
until it differs from all symbols.

An entry of a map section can be a column: ``application_properties.tenant`` is its struct, and
``application_properties.tenant string`` a plain column ``tenant``. A key with spaces is quoted:
``application_properties.'a key'``. `encode` merges such columns back into their sections.

`LEAN` has the columns that most tables need. With ``maps="variant"``, map sections are `VARIANT`,
as in Spark 4: values of any SQL type, accessed by key. The metadata of each field of `schema_of`
has a comment that describes the column.

Needs pyarrow: ``pip install "amqp10msg[arrow]"``.
"""

from __future__ import annotations

try:
    import pyarrow as _pyarrow  # noqa: F401  (only to name the missing package)
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        'amqp10msg.columns needs pyarrow: pip install "amqp10msg[arrow]"', name="pyarrow"
    ) from _error

from amqp10msg.columns._decode import TooMuchError, binary_chunks, decode, in_pieces, suspects
from amqp10msg.columns._encode import encode
from amqp10msg.columns._entries import value_structs
from amqp10msg.columns._picks import VALUE, Pick, pick_of
from amqp10msg.columns._schema import (
    LEAN,
    MAPS,
    SCHEMA,
    SETS,
    VARIANT,
    MapsAs,
    schema_of,
    skipped_sections,
)
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
    "skipped_sections",
    "suspects",
    "value_structs",
]
