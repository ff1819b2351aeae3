"""Read files of messages, as a whole or in ranges."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.files import stores
from amqp10msg.files._record import MAX_SIZE, Range, Record, UnusableFileError
from amqp10msg.files.containers import GZIP_MAGIC, DamagedGzipError, opened
from amqp10msg.files.formats import FORMATS
from amqp10msg.files.recognition import HEAD_SIZE, advice, fallback_form, form_of_head
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits

# The `Range.stop` of a range that extends to the end of the file, whatever the size of the file is.
_END_OF_FILE = 1 << 62
#: The name of the format, by suffix of the file name.
_FORM_OF_SUFFIX = {suffix: name for name, item in FORMATS.items() for suffix in item.suffixes}
#: All suffixes that decide the format, see `FileFormat.trusted_suffixes`.
_TRUSTED_SUFFIXES = {suffix for item in FORMATS.values() for suffix in item.trusted_suffixes}


def form_of(path: str | PathLike[str]) -> str:
    """Return the form of a file, recognised by its first bytes or its suffix.

    A form is the name of a format, a key of `FORMATS`.

    Raises:
        UnusableFileError: the form cannot be recognised, or the first bytes contradict the suffix.
        OSError: the file cannot be read.
    """
    with opened(path) as stream:
        head = stream.peek(HEAD_SIZE)[:HEAD_SIZE]
    suffix = _suffix_of(path)
    form = None if suffix in _TRUSTED_SUFFIXES else form_of_head(head)
    form = form or _FORM_OF_SUFFIX.get(suffix) or fallback_form(head)
    if form is None or (FORMATS[form].is_always_signed and form != form_of_head(head)):
        hint = advice(head) or ("" if head else "it is empty")
        raise UnusableFileError(
            f"{path}: the form of the file is unknown: name it, one of "
            f"{', '.join(FORMATS)}{f' ({hint})' if hint else ''}"
        )
    return form


def form_of_name(path: str | PathLike[str]) -> str | None:
    """Return the form for the suffix of a file name, ignoring ``.gz``; None if unknown."""
    return _FORM_OF_SUFFIX.get(_suffix_of(path))


def _suffix_of(path: str | PathLike[str]) -> str:
    """Return the suffix of a file name, ignoring ``.gz``; empty without a suffix."""
    suffixes = [suffix for suffix in stores.name_of(path).suffixes if suffix != ".gz"]
    return suffixes[-1] if suffixes else ""


def _form_or_recognise(path: str | PathLike[str], form: str | None) -> str:
    """Return `form`, or the recognised form of the file if `form` is None."""
    form = form_of(path) if form is None else form
    _check_form(form)
    return form


def _check_form(form: str) -> None:
    """Raise ValueError for an unknown form."""
    if form not in FORMATS:
        raise ValueError(f"unknown form {form!r}: use one of {', '.join(FORMATS)}")


def read(
    path: str | PathLike[str],
    form: str | None = None,
    *,
    start: int = 0,
    stop: int | None = None,
    max_size: int = MAX_SIZE,
    limits: Limits | None = None,
) -> Iterator[Record]:
    """Read the messages of a file.

    Files that are compressed with gzip are decompressed. Parquet files need the extra ``arrow``;
    their column ``wire`` or ``raw`` contains the messages. Avro files of Event Hubs Capture need
    the extra ``avro``.

    Args:
        path: the file, or a URL of an object store (``s3://``, ``gs://`` or ``abfss://``), which
            needs the extra ``arrow``.
        form: a name in `FORMATS`; None to recognise the form.
        start: offset to start at, in bytes: the start of a range of `ranges`.
        stop: offset to stop at: records that begin there or later are not read. None for the end of
            the file.
        max_size: maximum size of a message in bytes.
        limits: as for `read_stream`.

    Raises:
        ValueError: the form is unknown.
        UnusableFileError: the form cannot be recognised, or the file does not have it.
        OSError: the file cannot be read.
    """
    form = _form_or_recognise(path, form)
    limits = DEFAULT_LIMITS if limits is None else limits
    seekable = FORMATS[form].needs_random_access
    file = stores.opened_for_random_access(path) if seekable else opened(path, limits)
    with file as stream:
        if start:
            stream.seek(start)
        try:
            yield from read_stream(
                stream, form, start=start, stop=stop, max_size=max_size, limits=limits
            )
        except ValueError as error:
            raise UnusableFileError(f"{path}: {error}") from None


def read_stream(
    stream: Any,
    form: str,
    *,
    start: int = 0,
    stop: int | None = None,
    max_size: int = MAX_SIZE,
    limits: Limits | None = None,
) -> Iterator[Record]:
    """Read the messages of an open file, as `read` does.

    If the first record has a fault because the file has another format, the fault names the format.

    Args:
        stream: a buffered stream with a method ``peek``, positioned at `start`.
        form: a name in `FORMATS`.
        start: the position of the stream, in bytes.
        stop: offset to stop at: records that begin there or later are not read. None for the end of
            the file.
        max_size: maximum size of a message in bytes.
        limits: `zero_width` limits the number of records that have no bytes. `expansion_ratio`
            limits the content of a gzip or Avro file, and the rows, the size and the row groups of
            a Parquet file. Content beyond a limit is not read, and reported as a fault.

    Raises:
        ValueError: the form is unknown; or the stream is not of the form Parquet or Avro, has no
            column or field for messages, or has too many rows for its size.
        ImportError: the form is Parquet and pyarrow is not installed, or Avro and fastavro.
    """
    _check_form(form)
    hint = advice(stream.peek(HEAD_SIZE)[:HEAD_SIZE], form) if not start else ""
    try:
        records = FORMATS[form].read(stream, start, stop, max_size, limits or DEFAULT_LIMITS)
        for record in records:
            yield (
                attrs.evolve(record, fault=f"{record.fault}; {hint}")
                if (hint and record.fault)
                else record
            )
            hint = ""
    except DamagedGzipError as error:
        yield Record(stream.tell(), fault=str(error), ends=True)


def ranges(
    path: str | PathLike[str],
    form: str | None = None,
    *,
    octets: int = 128 << 20,
    keep_unusable: bool = False,
) -> list[Range]:
    """Divide a file into ranges that can be read in parallel, each with at least one message.

    Captures, Avro files, compressed files and files of an object store are a single range: they can
    only be read from the start.

    Args:
        path: the file.
        form: a name in `FORMATS`; None to recognise the form.
        octets: target size of a range in bytes.
        keep_unusable: if the form cannot be recognised, return a single range with an empty form
            instead of raising. `read` raises UnusableFileError for this range, so that a job can
            report the file and continue with the next file.

    Raises:
        ValueError: the form is unknown, or is Parquet, which has row groups instead; or `octets` is
            not positive.
        UnusableFileError: the form cannot be recognised.
        OSError: the file cannot be read.
    """
    if octets < 1:
        raise ValueError(f"a range has at least 1 byte, not {octets}")
    try:
        form = _form_or_recognise(path, form)
    except UnusableFileError:
        if not keep_unusable:
            raise
        return [Range(str(path), "", 0, _END_OF_FILE)]
    if FORMATS[form].needs_random_access and keep_unusable:
        return [Range(str(path), form, 0, _END_OF_FILE)]
    if FORMATS[form].needs_random_access:
        raise ValueError(f"{path}: {form} files cannot be read in ranges of bytes")
    if stores.is_url(path):
        return [Range(str(path), form, 0, _END_OF_FILE)]
    path = Path(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        find_ranges = FORMATS[form].find_ranges
        is_whole = find_ranges is None or size <= octets or file.read(2) == GZIP_MAGIC
        starts = [0] if find_ranges is None or is_whole else find_ranges(path, size, octets)
    stops = [*starts[1:], _END_OF_FILE]
    return [Range(str(path), form, start, stop) for start, stop in zip(starts, stops, strict=True)]
