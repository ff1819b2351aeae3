"""Reading files of messages, whole or in ranges."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.files import FORMS, MAX_SIZE, containers, stores
from amqp10msg.files._record import Range, Record, UnusableFileError
from amqp10msg.files.capture import read_capture
from amqp10msg.files.containers import GZIP, DamagedGzipError, opened
from amqp10msg.files.event_hubs import read_avro
from amqp10msg.files.recognition import HEAD, advice, form_of_head
from amqp10msg.files.tables import read_parquet
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits

_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".cborseq": "cborseq",
    ".cbor": "cborseq",
    ".pcap": "pcap",
    ".pcapng": "pcap",
    ".cap": "pcap",
    ".bin": "prefixed",
    ".prefixed": "prefixed",
    ".parquet": "parquet",
    ".avro": "avro",
}


# Where a file ends of which it is not known, as the content of a compressed one.
_END = 1 << 62
# What a file that ends so is said to be goes before what its content looks like.
_SAID = frozenset({".prefixed", ".cborseq", ".jsonl", ".ndjson"})


def form_of(path: str | PathLike[str]) -> str:
    """Return the form of a file: by its first bytes, else by its suffix.

    Raises:
        UnusableFileError: neither shows it, or the suffix says a form that the file is not of.
        OSError: the file cannot be read.
    """
    with opened(path) as stream:
        head = stream.peek(HEAD)[:HEAD]
    suffix = _suffix_of(path)
    form = None if suffix in _SAID else form_of_head(head)
    form = form or _SUFFIXES.get(suffix) or ("jsonl" if head[:1] == b"{" else None)
    if form is None or (form in {"pcap", "parquet", "avro"} and form != form_of_head(head)):
        hint = advice(head) or ("" if head else "it is empty")
        raise UnusableFileError(
            f"{path}: neither its name nor its beginning says what it is: "
            f"name the form: {', '.join(FORMS)}{f' ({hint})' if hint else ''}"
        )
    return form


def form_of_name(path: str | PathLike[str]) -> str | None:
    """Return the form that the suffix of a file stands for, before ``.gz``; None for others."""
    return _SUFFIXES.get(_suffix_of(path))


def _suffix_of(path: str | PathLike[str]) -> str:
    suffixes = [suffix for suffix in stores.name_of(path).suffixes if suffix != ".gz"]
    return suffixes[-1] if suffixes else ""


def _known(path: str | PathLike[str], form: str | None) -> str:
    form = form_of(path) if form is None else form
    _check_form(form)
    return form


def _check_form(form: str) -> None:
    if form not in FORMS:
        raise ValueError(f"there is no form {form!r}: use {', '.join(FORMS)}")


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

    Files that are compressed with gzip are read as what is in them. Parquet needs the extra
    ``arrow``; of its columns ``wire`` or ``raw`` holds the messages. Avro is of Event Hubs Capture,
    and needs the extra ``avro``.

    Args:
        path: the file, or a URL of an object store: ``s3://``, ``gs://`` or ``abfss://``, which
            needs the extra ``arrow``.
        form: one of `FORMS`; found out where None.
        start: where to begin, in bytes: the start of a range that `ranges` gave.
        stop: records that begin there or after are left out; None for the end of the file.
        max_size: bytes that one message may take.
        limits: as of `read_stream`.

    Raises:
        ValueError: there is no such form.
        UnusableFileError: the form cannot be recognised, or nothing of the file can be read.
        OSError: the file cannot be read.
    """
    form = _known(path, form)
    limits = DEFAULT_LIMITS if limits is None else limits
    with opened(path, limits) if form != "parquet" else stores.opened_in_places(path) as stream:
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
    """Read the messages of an open file; see `read`.

    Where the first of them has a fault because the file is something else, the fault says what.

    Args:
        stream: buffered, with a method ``peek``, and standing at `start`.
        form: one of `FORMS`.
        start: where it stands, in bytes.
        stop: records that begin there or after are left out; None for the end of the file.
        max_size: bytes that one message may take.
        limits: of them, `zero_width` bounds the records without a byte, and `expansion` what a
            gzip file or Avro makes, or Parquet: its rows, their bytes, and those of a row group.
            What is beyond is not read, and a fault says so.

    Raises:
        ValueError: there is no such form; the stream is Parquet without a column for messages, or
            with too many rows for its bytes, or not Parquet; likewise Avro.
        ImportError: it is Parquet, and pyarrow is not installed, or Avro, and fastavro is not.
    """
    _check_form(form)
    hint = advice(stream.peek(HEAD)[:HEAD], form) if not start else ""
    try:
        for record in _records(stream, form, start, stop, max_size, limits or DEFAULT_LIMITS):
            yield (
                attrs.evolve(record, fault=f"{record.fault}; {hint}")
                if (hint and record.fault)
                else record
            )
            hint = ""
    except DamagedGzipError as error:
        yield Record(stream.tell(), fault=str(error), ends=True)


def _records(
    stream: Any, form: str, start: int, stop: int | None, max_size: int, limits: Limits
) -> Iterator[Record]:
    if form == "pcap":
        return read_capture(stream, max_size=max_size)
    if form == "parquet":
        return read_parquet(stream, max_size, limits)
    if form == "avro":
        return read_avro(stream, max_size, limits)
    return containers.READERS[form](stream, start, stop, max_size, limits)


def ranges(
    path: str | PathLike[str],
    form: str | None = None,
    *,
    octets: int = 128 << 20,
    keep_unusable: bool = False,
) -> list[Range]:
    """Divide a file into ranges that can be read side by side, each a message at least.

    A capture, Avro and a compressed file are one range each: they are read from their beginning.
    So is each file of an object store.

    Args:
        path: the file.
        form: one of `FORMS`; found out where None.
        octets: how large a range should be.
        keep_unusable: return a file whose form cannot be recognised as one range without a form,
            which `read` raises UnusableFileError for, so that other files can be read.

    Raises:
        ValueError: there is no such form, or it is Parquet, which has row groups; `octets` is not
            positive.
        UnusableFileError: the form cannot be recognised.
        OSError: the file cannot be read.
    """
    if octets < 1:
        raise ValueError(f"a range holds at least 1 byte, not {octets}")
    try:
        form = _known(path, form)
    except UnusableFileError:
        if not keep_unusable:
            raise
        return [Range(str(path), "", 0, _END)]
    if form == "parquet" and keep_unusable:
        return [Range(str(path), form, 0, _END)]
    if form == "parquet":
        raise ValueError(f"{path}: this is Parquet, which is not read in ranges of bytes")
    if stores.is_url(path):
        return [Range(str(path), form, 0, _END)]
    path = Path(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        whole = form not in containers.STARTS or size <= octets or file.read(2) == GZIP
        starts = [0] if whole else containers.STARTS[form](path, size, octets)
    stops = [*starts[1:], _END]
    return [Range(str(path), form, start, stop) for start, stop in zip(starts, stops, strict=True)]
