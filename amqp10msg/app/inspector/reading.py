"""Messages from a stream in whatever notation it is: JSON, text, containers, captures.

Every notation ends as bytes, in an `Item` that knows where it came from. What cannot be read is an
`Item` too, so that one bad line does not hide the others. Streams are read a message at a time
where their format has lines or lengths.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from typing import IO, Any

import attrs

from amqp10msg import files
from amqp10msg.app.inspector.items import Item, encoded, has_lines, item_of_document
from amqp10msg.app.inspector.text import octets_of_text
from amqp10msg.files.containers import STARTS, read_lines, too_large
from amqp10msg.files.loose import loose
from amqp10msg.files.recognition import CONTENT_HEADER, SECTION, form_of_head
from amqp10msg.files.streams import unpacked
from amqp10msg.files.text import parse_json

#: The protocol of records that hold messages of AMQP 0-9-1.
BASIC = "amqp-0-9-1"
#: The fault of bytes that were to be hex or base64.
NOT_TEXT = "this is not text"


class Reader:
    """Reads messages from streams.

    Args:
        form: ``auto``, one of `files.FORMS`, ``hex``, ``base64``, ``cbor``, ``typed``, ``plain``,
            or ``written``: JSON in the typed or plain notation.
        max_size: bytes that one message may take in its input; `files.MAX_SIZE` if None.
        basic: take messages of AMQP 0-9-1, too.
    """

    def __init__(
        self, form: str = "auto", max_size: int | None = None, *, basic: bool = False
    ) -> None:
        self.form = form
        self.max_size = min(max_size or files.MAX_SIZE, sys.maxsize - 1)
        self._basic = basic

    def read(self, stream: Any, name: str, offset: int = 0) -> Iterator[Item]:
        """Read the messages of a stream of bytes.

        Args:
            stream: buffered, or what `io.BufferedReader` takes.
            name: of what is read, which the items bear.
            offset: where to begin, in bytes, where the form has such places.

        Raises:
            ValueError: it holds no message.
            DamagedGzipError: it is a gzip file that cannot be unpacked.
            ImportError: an extra is missing; the text says which.
            OSError: it cannot be read.
        """
        stream, form = buffered(stream), self.form
        if form not in ("raw", "parquet"):
            stream = unpacked(stream)
        if form == "auto":
            form = _sniff(stream.peek(4096)[:4096])
        start = 0
        if offset and form in {*STARTS, "json"} and stream.seekable():
            start = stream.seek(offset)
        match form:
            case "jsonl" | "json" | "written" | "typed" | "plain":
                yield from self._json(stream, name, form, start=start)
            case "text" | "hex" | "base64":
                yield from self._text(stream, name, None if form == "text" else form)
            case "cbor":
                yield encoded(Item(name, offset=0), form, self._all(stream))
            case _:
                records = files.read_stream(stream, form, start=start, max_size=self.max_size)
                for number, record in enumerate(records, 1):
                    here = name if form == "raw" else f"{name}:{number}"
                    item = self._of_record(here, number, record)
                    yield from self._loose(item) if form == "raw" else (item,)

    def _loose(self, item: Item) -> Iterator[Item]:
        """Yield the messages in the packet or the frames that an item holds; else the item."""
        data = item.data
        found = None
        if self.form == "auto" and not SECTION.match(data) and data[:4] != CONTENT_HEADER:
            found = loose(data, max_size=self.max_size)
        for number, record in enumerate(found or (), 1):
            name = item.source if found and len(found) == 1 else f"{item.source}:{number}"
            yield self._of_record(name, number, record)
        if found is None:
            yield item

    def _text(self, stream: IO[bytes], name: str, form: str | None) -> Iterator[Item]:
        try:
            text = self._all(stream).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(NOT_TEXT) from None
        found = octets_of_text(text, form)
        if not found:
            raise ValueError("it holds no message")
        for index, octets in enumerate(found, 1):
            here = name if len(found) == 1 else f"{name}:{index}"
            yield from self._loose(
                Item(here, octets, number=index, offset=0 if index == 1 else None)
            )

    def _of_record(self, name: str, number: int, record: files.Record) -> Item:
        name = f"{name} ({record.origin})" if record.origin else name
        fault, data = record.fault, record.wire or b""
        if record.protocol == BASIC and record.content_header is not None:
            data = record.content_header + (record.payload or b"")
            if not self._basic and not fault:
                fault = "a message of AMQP 0-9-1: amqp10msg translate --to amqp10 reads it"
        return Item(name, b"" if fault else data, fault, number, record.offset, record)

    def _all(self, stream: IO[bytes]) -> bytes:
        octets = stream.read(self.max_size + 1)
        if len(octets) > self.max_size:
            raise ValueError(too_large(self.max_size))
        return octets

    def _json(
        self, stream: Any, name: str, form: str, *, before: int = 0, start: int = 0
    ) -> Iterator[Item]:
        """Read JSON, a document a line or one document over many lines.

        Args:
            stream: at the beginning of a line.
            name: of the file.
            form: that of the reader, or ``json``.
            before: how many lines were read before.
            start: where the stream stands in the file.
        """
        only = not before
        lines = read_lines(stream, self.max_size, start)
        for number, (offset, line, fault) in enumerate(lines, before + 1):
            if fault:  # what follows may have no end
                raise ValueError(f"line {number}: {fault}")
            if not line.strip():
                continue
            more = not only or bool(stream.peek(1))
            here = Item(f"{name}:{number}" if more else name, number=number, offset=offset)
            try:
                yield item_of_document(here, form, parse_json(line))
            except ValueError as error:
                if not (only and more and form != "jsonl"):
                    yield attrs.evolve(here, fault=str(error))
                    continue
                rest = self._all(stream)
                try:
                    yield item_of_document(Item(name, offset=0), form, parse_json(line + rest))
                except ValueError:
                    if not has_lines(rest):
                        raise
                    yield attrs.evolve(here, fault=str(error))
                    following = buffered(io.BytesIO(rest))
                    after = offset + len(line)
                    yield from self._json(following, name, form, before=number, start=after)
            only = False


def buffered(stream: Any) -> Any:
    """Return a stream that has a method ``peek``: itself, or one around it."""
    return stream if hasattr(stream, "peek") else io.BufferedReader(stream)


def _sniff(head: bytes) -> str:
    """Return the format of a file, guessed from its beginning.

    Every message begins with the byte 00, which text never does.
    """
    if form := form_of_head(head):
        return form
    if not head or head[0] == 0:
        return "raw"
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        return "raw"
    if any(char < " " and char not in "\t\n\r\f\v" for char in text):
        return "raw"
    return "json" if text.lstrip()[:1] in ("{", "[") else "text"
