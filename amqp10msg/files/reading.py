"""Reading files of messages, whole or in ranges."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from amqp10msg.files import containers
from amqp10msg.files._packets import PCAP, PCAPNG
from amqp10msg.files._record import FORMS, MAX_SIZE, Range, Record
from amqp10msg.files.capture import read_capture
from amqp10msg.files.streams import GZIP, DamagedGzipError, opened

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
}


def form_of(path: str | PathLike[str]) -> str:
    """Return the form of a file: by its first bytes, else by its suffix.

    Raises:
        ValueError: neither says it.
        OSError: the file cannot be read.
    """
    path = Path(path)
    with opened(path) as stream:
        head = stream.peek(4)[:4]
    if head in {*PCAP, PCAPNG}:
        return "pcap"
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    form = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if form is None and head[:1] == b"{":
        form = "jsonl"
    if form is None or form == "pcap":
        raise ValueError(
            f"{path}: neither its name nor its beginning says what it is: "
            f"name the form: {', '.join(FORMS)}"
        )
    return form


def _known(path: Path, form: str | None) -> str:
    form = form_of(path) if form is None else form
    if form not in FORMS:
        raise ValueError(f"there is no form {form!r}: use {', '.join(FORMS)}")
    return form


def read(
    path: str | PathLike[str],
    form: str | None = None,
    *,
    start: int = 0,
    stop: int | None = None,
    max_size: int = MAX_SIZE,
) -> Iterator[Record]:
    """Read the messages of a file.

    Files that are compressed with gzip are read as what is in them.

    Args:
        path: the file.
        form: one of `FORMS`; found out where None.
        start: where to begin, in octets: the start of a range that `ranges` gave.
        stop: records that begin there or behind are left out; None for the end of the file.
        max_size: bytes that one message may take.

    Raises:
        ValueError: the form is not known or cannot be told.
        OSError: the file cannot be read.
    """
    path = Path(path)
    form = _known(path, form)
    with opened(path) as stream:
        try:
            if start:
                stream.seek(start)
            if form == "pcap":
                yield from read_capture(stream, max_size=max_size)
            else:
                yield from containers.READERS[form](stream, start, stop, max_size)
        except DamagedGzipError as error:
            yield Record(stream.tell(), fault=str(error))


def ranges(
    path: str | PathLike[str], form: str | None = None, *, octets: int = 128 << 20
) -> list[Range]:
    """Divide a file into ranges that can be read side by side, each a message at least.

    A capture and a compressed file are one range each: they can be read from their beginning only.

    Args:
        path: the file.
        form: one of `FORMS`; found out where None.
        octets: how large a range should be.

    Raises:
        ValueError: the form is not known or cannot be told; `octets` is not positive.
        OSError: the file cannot be read.
    """
    if octets < 1:
        raise ValueError(f"a range holds at least 1 byte, not {octets}")
    path = Path(path)
    form = _known(path, form)
    size = path.stat().st_size
    with path.open("rb") as file:
        whole = form == "pcap" or size <= octets or file.read(2) == GZIP
        starts = [0] if whole else containers.STARTS[form](path, size, octets)
    # How long the content of a compressed file is is not known.
    stops = [*starts[1:], 1 << 62]
    return [Range(str(path), form, start, stop) for start, stop in zip(starts, stops, strict=True)]
