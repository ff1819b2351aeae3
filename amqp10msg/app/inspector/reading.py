"""Messages from a stream in whatever notation it is: JSON, text, containers, captures.

Every notation ends as bytes, in an `Item` that knows where it came from. What cannot be read is an
`Item` too, so that one bad line does not hide the others. Streams are read a message at a time
where their format has lines or lengths. Text is hex in all its spellings, base64, a dump or a
Python literal.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

import attrs

from amqp10msg import files, notation
from amqp10msg.files.recognition import CONTENT_HEADER, SECTION, advice, form_of_head
from amqp10msg.files.text import (
    OddDigitsError,
    RefusedError,
    octets_of_base64,
    octets_of_hex,
    parse_json,
)
from amqp10msg.message import Message
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.primitives import FORMAT_CODES

#: The protocol of records that hold messages of AMQP 0-9-1.
BASIC = "0-9-1"
#: The fault of bytes that were to be hex or base64.
NOT_TEXT = "this is not text"
_NO_BYTES = "neither hex nor base64"
_DUMP_LINE = r"\s*([0-9a-fA-F]{4,16})(?::\s|\s|$)(.*)"
# A line of hexdump -C with more than eight bytes has a gap in the middle.
_HALVES = r"((?:[0-9a-fA-F]{2} ){8}(?: [0-9a-fA-F]{2})+) +\|.{9,16}\|"
_PAIR = re.compile(r"\s*([0-9a-fA-F]{2})")


@attrs.frozen
class Item:
    """One message, or what kept it from being read.

    Attributes:
        source: where it came from: a file's name, with a line's number where it has lines.
        data: its bytes; of a message of AMQP 0-9-1 the content header and the body after it.
        fault: why there are none; empty where all is well.
        number: of its line, or of the message in its file, from 1.
        offset: where it begins in its file, in bytes; None where that is not known.
        record: what its file says of it besides.
        frames: the bytes of the frames or of the packet that it was in; only its first message has
            these.
    """

    source: str
    data: bytes = b""
    fault: str = ""
    number: int = attrs.field(default=1, eq=False)
    offset: int | None = attrs.field(default=None, eq=False)
    record: files.Record | None = attrs.field(default=None, eq=False)
    frames: bytes = attrs.field(default=b"", eq=False, repr=False)

    def explained(self, fault: str) -> str:
        """Return why it cannot be decoded, and what its bytes are instead where that shows."""
        hint = advice(self.data, "raw")
        return f"{fault}; {hint}" if hint else fault


class InputReader:
    """Reads messages from streams.

    Args:
        form: ``auto``, one of `files.FORMS`, ``hex``, ``base64``, ``cbor``, ``typed``, ``plain``,
            or ``written``: JSON in the typed or plain notation.
        max_size: bytes that one message may take in its input; `files.MAX_SIZE` if None.
        basic: take messages of AMQP 0-9-1, too.
        limits: what a file may cost, as for `files.read_stream`.
    """

    def __init__(
        self,
        form: str = "auto",
        max_size: int | None = None,
        *,
        basic: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.form = form
        self.max_size = min(max_size or files.MAX_SIZE, sys.maxsize - 1)
        self._basic = basic
        self._limits = limits

    def read(self, stream: Any, name: str, offset: int = 0) -> Iterator[Item]:
        """Read the messages of a stream of bytes, from an offset where the form has such places.

        Raises:
            ValueError: it holds no message.
            DamagedGzipError: it is a gzip file that cannot be unpacked.
            ImportError: an extra is missing; the text says which.
        """
        # Text on a command line is read without what files need.
        from amqp10msg.files.containers import STARTS, unpacked  # noqa: PLC0415  (see above)

        stream, form = buffered(stream), self.form
        if form not in ("raw", "parquet"):
            stream = unpacked(stream, self._limits)
        if form == "auto":
            head = stream.peek(4096)[:4096]
            # Without a byte, a file of JSON lines has no message, and a file of no form is one.
            form = _sniff(head) if head else files.form_of_name(name) or "raw"
        start = 0
        if offset and form in {*STARTS, "json"} and stream.seekable():
            start = stream.seek(offset)
        match form:
            case "jsonl" | "json" | "written" | "typed" | "plain":
                yield from self._json(stream, name, form, start=start)
            case "text" | "hex" | "base64":
                yield from self._text(stream, name, None if form == "text" else form)
            case "cbor":
                yield _encoded(Item(name, offset=0), form, self._all(stream))
            case _:
                records = files.read_stream(
                    stream, form, start=start, max_size=self.max_size, limits=self._limits
                )
                for number, record in enumerate(records, 1):
                    here = name if form == "raw" else f"{name}:{number}"
                    item = self._of_record(here, number, record)
                    yield from self.unwrapped(item) if form == "raw" else (item,)

    def unwrapped(self, item: Item) -> Iterator[Item]:
        """Yield the messages in the frames or the packet that an item holds, or else the item.

        Only the form ``auto`` looks for frames.
        """
        data = item.data
        found = None
        if self.form == "auto" and not SECTION.match(data) and data[:4] != CONTENT_HEADER:
            from amqp10msg.files.capture import loose  # noqa: PLC0415  (few give a capture)

            found = loose(data, max_size=self.max_size)
        for number, record in enumerate(found or (), 1):
            name = item.source if found and len(found) == 1 else f"{item.source}:{number}"
            unwrapped = self._of_record(name, number, record)
            yield attrs.evolve(unwrapped, frames=data if number == 1 else b"")
        if found is None:
            yield item

    def _text(self, stream: IO[bytes], name: str, form: str | None) -> Iterator[Item]:
        try:
            text = self._all(stream).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(NOT_TEXT) from None
        try:
            found = octets_of_text(text, form)
        except ValueError as error:
            if str(error) != _NO_BYTES:
                raise
            raise ValueError(f"this is text, and {_NO_BYTES}: {text.strip()[:40]!r}") from None
        if not found:
            raise ValueError("it holds no message")
        for index, octets in enumerate(found, 1):
            here = name if len(found) == 1 else f"{name}:{index}"
            yield from self.unwrapped(
                Item(here, octets, number=index, offset=0 if index == 1 else None)
            )

    def _of_record(self, name: str, number: int, record: files.Record) -> Item:
        name = f"{name} ({record.origin})" if record.origin else name
        fault, data = record.fault, record.wire or b""
        if record.protocol == BASIC and record.content_header is not None:
            data = record.content_header + (record.payload or b"")
            if not self._basic and not fault:
                fault = "a message of AMQP 0-9-1: amqp10msg translate --to 1.0 reads it"
        return Item(name, b"" if fault else data, fault, number, record.offset, record)

    def _all(self, stream: IO[bytes]) -> bytes:
        from amqp10msg.files.containers import read_up_to, too_large  # noqa: PLC0415  (see `read`)

        octets = read_up_to(stream, self.max_size + 1)
        if len(octets) > self.max_size:
            raise ValueError(too_large(self.max_size))
        return octets

    def _json(
        self, stream: Any, name: str, form: str, *, before: int = 0, start: int = 0
    ) -> Iterator[Item]:
        """Read JSON, a document a line or one document over many lines.

        Of the file, `before` lines were read before, and the stream stands at `start`.
        """
        from amqp10msg.files.containers import read_lines  # noqa: PLC0415  (see `read`)

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
                yield _item_of_document(here, form, parse_json(line))
            except ValueError as error:
                if not (only and more and form != "jsonl"):
                    yield attrs.evolve(here, fault=str(error))
                    continue
                rest = self._all(stream)
                try:
                    yield _item_of_document(Item(name, offset=0), form, parse_json(line + rest))
                except ValueError:
                    if not _has_lines(rest):
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
    if text.lstrip()[:1] in ("{", "["):
        from amqp10msg.files.pasted import begins_list  # noqa: PLC0415  (few files hold JSON)

        return "text" if begins_list(text) else "json"
    return "text"


def _has_lines(octets: bytes) -> bool:
    """Return whether a line after a bad first one is a document, so that this is JSON lines."""
    for line in octets.splitlines()[:10]:
        try:
            if isinstance(parse_json(line), (dict, list)):
                return True
        except RefusedError:
            return True
        except ValueError:
            continue
    return False


def _item_of_document(item: Item, form: str, document: Any) -> Item:
    """Return an item with the bytes that a JSON document holds or means, or with its fault."""
    from amqp10msg.files import containers  # noqa: PLC0415  (see `InputReader.read`)

    if form in ("jsonl", "json") and isinstance(document, dict):
        label = document.get("id", document.get("name"))
        if isinstance(label, str) and label:
            item = attrs.evolve(item, source=f"{item.source} ({label})")
        try:
            octets = _octets_of_buffer(document)
            if octets is None:
                octets = containers.octets_of_record(document)
        except ValueError as error:
            return attrs.evolve(item, fault=str(error))
        if octets is not None:
            return attrs.evolve(item, data=octets)
    if form == "jsonl":
        return attrs.evolve(
            item, fault=f"no object with one of the keys {', '.join(containers.RECORD_KEYS)}"
        )
    if form in ("json", "written"):
        form = "typed" if isinstance(document, list) else "plain"
    return _encoded(item, form, document)


def _octets_of_buffer(document: dict[str, Any]) -> bytes | None:
    """Read what JSON.stringify writes of a Node Buffer or a Uint8Array; None for other objects."""
    if document.get("type") == "Buffer" and isinstance(document.get("data"), list):
        numbers = document["data"]
    elif document and all(name == str(place) for place, name in enumerate(document)):
        numbers = list(document.values())
    else:
        return None
    for place, number in enumerate(numbers):
        if type(number) is not int or not 0 <= number <= 255:
            raise ValueError(f"item {place} of the Buffer is {number!r:.40}: not a byte, 0 to 255")
    return bytes(numbers)


def _encoded(item: Item, form: str, document: Any) -> Item:
    """Return an item with the encoding of what a notation says, or with its fault."""
    made: Any
    try:
        match form:
            case "typed":
                made = notation.from_typed(document)
            case "plain":
                is_value = not isinstance(document, dict) or any(key[:1] == "$" for key in document)
                made = (notation.value_from_plain if is_value else notation.from_plain)(document)
            case _:
                made = notation.from_cbor(document)
        octets = made.encode() if isinstance(made, Message) else encode_value(made)
        return attrs.evolve(item, data=octets)
    except (AmqpError, ValueError) as error:
        return attrs.evolve(item, fault=str(error))


def octets_of_text(text: str, form: str | None = None) -> list[bytes]:
    """Read the messages in a text: hex, base64, or a literal as in `files.pasted`.

    Hex may be a dump (of xxd, hexdump -C, od, tshark). If every line begins as a message, each line
    is one message; otherwise the lines together are one.

    Args:
        text: the text.
        form: ``hex`` or ``base64``; guessed if None.

    Raises:
        ValueError: the text is none of these, or is ambiguous.
    """
    text = text.strip()
    if not text:
        return []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if form != "base64" and (dumped := _octets_of_dump(text.splitlines())) is not None:
        return [dumped]
    if len(lines) > 1:
        try:
            each = [_octets(line, form) for line in lines]
        except ValueError:
            pass
        else:
            if all(SECTION.match(octets) for octets in each):
                return each
    return [_octets(text, form)]


def _octets(text: str, form: str | None) -> bytes:
    if form == "hex":
        return octets_of_hex(text)
    if form == "base64":
        return octets_of_base64(text)
    if not text.isalnum():  # plain hex and base64 are the usual case
        from amqp10msg.files.pasted import octets_of_pasted  # noqa: PLC0415  (few paste literals)

        literal = octets_of_pasted(text)
        if literal is not None:
            return literal
    # The base64 of a message begins with AF, AI or AK, never all hex: trying hex first is safe.
    try:
        return octets_of_hex(text)
    except OddDigitsError:
        raise
    except ValueError:
        pass
    try:
        octets = octets_of_base64(text)
    except ValueError:
        octets = b""
    # Many a word is base64; a value begins with a format code.
    if octets and (octets[0] == 0 or octets[0] in FORMAT_CODES):
        return octets
    raise ValueError(_NO_BYTES)


def _octets_of_dump(lines: list[str]) -> bytes | None:
    """Read a dump of offsets, bytes and perhaps characters; None if this is none.

    The offsets say how many bytes each line has, and so tell hex from the characters beside it.
    """
    rows: list[tuple[int, str]] = []
    for line in lines:
        if not line.strip():
            continue
        match = re.fullmatch(_DUMP_LINE, line.rstrip())
        if match is None:
            return None
        rows.append((int(match[1], 16), match[2]))
    if not rows or rows[0][0] != 0 or (len(rows) == 1 and "  " not in rows[0][1].strip()):
        return None
    out = bytearray()
    for index, (offset, rest) in enumerate(rows):
        if offset != len(out):
            return None
        last = index == len(rows) - 1
        wanted = _width(rest) if last else rows[index + 1][0] - offset
        place = 0
        for _ in range(wanted):
            pair = _PAIR.match(rest, place)
            if pair is None:
                return None
            out += bytes.fromhex(pair[1])
            place = pair.end()
    return bytes(out)


def _width(rest: str) -> int:
    """Count the bytes of a dump's last line, which no next offset bounds."""
    rest = rest.strip()
    halves = re.fullmatch(_HALVES, rest)
    digits = halves[1] if halves else re.split(r"\s{2,}", rest, maxsplit=1)[0]
    return len("".join(digits.split())) // 2
