"""The formats of files of messages: how each is recognised, read and divided into ranges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import attrs

from amqp10msg.brokers import ByName, by_attribute
from amqp10msg.files.signatures import (
    AVRO_MAGIC,
    CBORSEQ_FILE_START,
    JSON_START,
    PARQUET_MAGIC,
    PCAP_MAGIC,
    PCAPNG_MAGIC,
    PREFIXED_FILE_START,
    RAW_FILE_START,
)

if TYPE_CHECKING:
    from pathlib import Path

    from amqp10msg.files._record import Record
    from amqp10msg.wire.limits import Limits

#: Reads the messages of an open file. Arguments: a buffered stream; its offset; the offset to stop
#: at, None for the end; the maximum size of a message in bytes; the limits.
RecordReader: TypeAlias = "Callable[[Any, int, int | None, int, Limits], Iterator[Record]]"
#: Returns the offsets where ranges of a file begin. Arguments: the path, the size of the file, and
#: the target size of a range, in bytes.
RangeFinder: TypeAlias = "Callable[[Path, int, int], list[int]]"


@attrs.frozen(kw_only=True)
class FileFormat:
    """One format of files: how to recognise, read and divide a file of this format.

    Attributes:
        name: the name of the format in Python and on the command line.
        description: the content of a file, as the help of ``amqp10msg convert`` shows it.
        hint: says what a file of this format is and how to read it. The hint is added to the first
            fault of a file that was read as another format.
        read: reads the messages of an open file.
        find_ranges: finds the ranges that can be read in parallel. None if a file can only be read
            from its start.
        suffixes: the suffixes of file names, in lower case.
        trusted_suffixes: suffixes that decide the format without a look at the content.
        signature: matches the first bytes of files of this format, and of no other format.
        is_always_signed: whether the first bytes of every file match `signature`.
        fallback_signature: matches the first bytes of files that are read as this format if no
            signature and no suffix decides.
        resembles: matches the first bytes of files for which `hint` is useful, if no signature
            matches.
        is_text: whether a file is text.
        may_be_empty: whether an empty file is valid, as a file without messages.
        needs_random_access: whether a file must be seekable. Such a file cannot be compressed with
            gzip, and is not divided into ranges of bytes.
    """

    name: str
    description: str
    hint: str
    read: RecordReader
    find_ranges: RangeFinder | None = None
    suffixes: tuple[str, ...] = ()
    trusted_suffixes: tuple[str, ...] = ()
    signature: re.Pattern[bytes] | None = None
    is_always_signed: bool = False
    fallback_signature: re.Pattern[bytes] | None = None
    resembles: re.Pattern[bytes] | None = None
    is_text: bool = False
    may_be_empty: bool = False
    needs_random_access: bool = False


# The following functions import the readers only when a file is read, because recognising a format
# does not need the readers.


def _read_raw(*arguments: Any) -> Iterator[Record]:
    from amqp10msg.files.containers import read_raw  # noqa: PLC0415  (see above)

    return read_raw(*arguments)


def _read_prefixed(*arguments: Any) -> Iterator[Record]:
    from amqp10msg.files.containers import read_prefixed  # noqa: PLC0415  (see above)

    return read_prefixed(*arguments)


def _find_prefixed_ranges(*arguments: Any) -> list[int]:
    from amqp10msg.files.containers import prefixed_starts  # noqa: PLC0415  (see above)

    return prefixed_starts(*arguments)


def _read_jsonl(*arguments: Any) -> Iterator[Record]:
    from amqp10msg.files.containers import read_jsonl  # noqa: PLC0415  (see above)

    return read_jsonl(*arguments)


def _find_jsonl_ranges(*arguments: Any) -> list[int]:
    from amqp10msg.files.containers import jsonl_starts  # noqa: PLC0415  (see above)

    return jsonl_starts(*arguments)


def _read_cborseq(*arguments: Any) -> Iterator[Record]:
    from amqp10msg.files.containers import read_cborseq  # noqa: PLC0415  (see above)

    return read_cborseq(*arguments)


def _find_cborseq_ranges(*arguments: Any) -> list[int]:
    from amqp10msg.files.containers import cborseq_starts  # noqa: PLC0415  (see above)

    return cborseq_starts(*arguments)


def _read_capture(
    stream: IO[bytes], _start: int, _stop: int | None, max_size: int, _limits: Limits
) -> Iterator[Record]:
    from amqp10msg.files.capture import read_capture  # noqa: PLC0415  (see above)

    return read_capture(stream, max_size=max_size)


def _read_parquet(
    stream: IO[bytes], _start: int, _stop: int | None, max_size: int, limits: Limits
) -> Iterator[Record]:
    from amqp10msg.files.tables import read_parquet  # noqa: PLC0415  (see above)

    return read_parquet(stream, max_size, limits)


def _read_avro(
    stream: IO[bytes], _start: int, _stop: int | None, max_size: int, limits: Limits
) -> Iterator[Record]:
    from amqp10msg.files.event_hubs import read_avro  # noqa: PLC0415  (see above)

    return read_avro(stream, max_size, limits)


def _any_magic_number(magic_numbers: Iterable[bytes]) -> re.Pattern[bytes]:
    """Return a pattern that matches any of the magic numbers."""
    return re.compile(b"|".join(map(re.escape, magic_numbers)))


_ALL_FORMATS = (
    FileFormat(
        name="raw",
        description="the bytes of one message",
        hint="this is one message without a size before it: read it as raw",
        read=_read_raw,
        signature=RAW_FILE_START,
    ),
    FileFormat(
        name="prefixed",
        description="each message after its length: four bytes, big-endian",
        hint="these are messages with their sizes before them: read them as prefixed",
        read=_read_prefixed,
        find_ranges=_find_prefixed_ranges,
        suffixes=(".bin", ".prefixed"),
        trusted_suffixes=(".prefixed",),
        signature=PREFIXED_FILE_START,
        may_be_empty=True,
    ),
    FileFormat(
        name="jsonl",
        description="JSON lines: objects with the message in hex or base64 under the key raw, hex, "
        "base64 or data_base64",
        hint="this is JSON: read it as jsonl",
        read=_read_jsonl,
        find_ranges=_find_jsonl_ranges,
        suffixes=(".jsonl", ".ndjson"),
        trusted_suffixes=(".jsonl", ".ndjson"),
        fallback_signature=re.compile(rb"\{"),
        resembles=JSON_START,
        is_text=True,
        may_be_empty=True,
    ),
    FileFormat(
        name="cborseq",
        description="a CBOR sequence of byte strings",
        hint="this is a CBOR sequence: read it as cborseq",
        read=_read_cborseq,
        find_ranges=_find_cborseq_ranges,
        suffixes=(".cborseq", ".cbor"),
        trusted_suffixes=(".cborseq",),
        signature=CBORSEQ_FILE_START,
        may_be_empty=True,
    ),
    FileFormat(
        name="pcap",
        description="a network capture, pcap or pcapng",
        hint="this is a network capture: read it as pcap",
        read=_read_capture,
        suffixes=(".pcap", ".pcapng", ".cap"),
        signature=_any_magic_number([*PCAP_MAGIC, PCAPNG_MAGIC]),
        is_always_signed=True,
    ),
    FileFormat(
        name="parquet",
        description="a table with a column wire or raw, such as a quarantine",
        hint="this is Parquet: read it as parquet",
        read=_read_parquet,
        suffixes=(".parquet",),
        signature=_any_magic_number([PARQUET_MAGIC]),
        is_always_signed=True,
        needs_random_access=True,
    ),
    FileFormat(
        name="avro",
        description="the files of Event Hubs Capture",
        hint="this is Avro: read it as avro",
        read=_read_avro,
        suffixes=(".avro",),
        signature=_any_magic_number([AVRO_MAGIC]),
        is_always_signed=True,
    ),
)
#: The formats of files, by name.
FORMATS: ByName[FileFormat] = ByName(by_attribute(_ALL_FORMATS, "name", "format"), kind="format")
#: The names of the formats.
FORMS = tuple(FORMATS)
