"""Read messages from a stream in any supported format: JSON, text, containers, captures.

Each message becomes an `Item` with its encoded bytes and its source. An unreadable message becomes
an `Item` with a fault, and reading continues with the next message. Formats with lines or length
prefixes are streamed, one message at a time. Text may be hex in any common spelling, base64, a hex
dump, or a byte literal of a programming language.
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
from amqp10msg.files.formats import FORMATS
from amqp10msg.files.recognition import advice, form_of_head
from amqp10msg.files.signatures import CONTENT_HEADER_START, SECTION_START
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

#: `files.Record.protocol` of AMQP 0-9-1 messages.
BASIC = "0-9-1"
#: The fault of an AMQP 0-9-1 message that the reader was not to return.
OTHER_PROTOCOL = "a message of AMQP 0-9-1: use amqp10msg translate --to 1.0"
#: The fault of a binary input that should be hex or base64.
NOT_TEXT = "this is not text"
_NOT_HEX_OR_BASE64 = "neither hex nor base64"
# Matches a line of a hex dump: the offset, the bytes, and perhaps the bytes as characters.
_DUMP_LINE_PATTERN = r"\s*([0-9a-fA-F]{4,16})(?::\s|\s|$)(.*)"
# Matches the bytes of a line of `hexdump -C` that has more than eight bytes. Two spaces follow the
# eighth byte.
_HEXDUMP_HALVES = r"((?:[0-9a-fA-F]{2} ){8}(?: [0-9a-fA-F]{2})+) +\|.{9,16}\|"
_HEX_BYTE = re.compile(r"\s*([0-9a-fA-F]{2})")


@attrs.frozen
class Item:
    """One message, or the reason why it could not be read.

    Attributes:
        source: the input, such as a file name, with the message's line number or number if the
            input has several messages.
        data: the encoded message; for AMQP 0-9-1, the content header followed by the body.
        fault: why the message could not be read; empty on success.
        number: the number of the message's line, or of the message in its file, from 1. 0 if the
            whole file cannot be read.
        offset: the offset of the message in its file, in bytes; None if unknown.
        record: what the message's file contains besides the message, such as the routing key.
        frames: the bytes of the frames or the packet that contained the message; only for the first
            message in them.
        hint: what to check if the bytes cannot be decoded; may be empty.
        is_other_protocol: whether `fault` only says that this is a sound message of AMQP 0-9-1,
            which the reader was not to return.
    """

    source: str
    data: bytes = b""
    fault: str = ""
    number: int = attrs.field(default=1, eq=False)
    offset: int | None = attrs.field(default=None, eq=False)
    record: files.Record | None = attrs.field(default=None, eq=False)
    frames: bytes = attrs.field(default=b"", eq=False, repr=False)
    hint: str = attrs.field(default="", eq=False, repr=False)
    is_other_protocol: bool = attrs.field(default=False, eq=False, repr=False)

    @property
    def is_damage(self) -> bool:
        """Whether this is a damaged place in a file, where messages may be missing.

        The rest of an incomplete message is a message, and not only damage.
        """
        record = self.record
        if record is None or not (record.ends or record.skips):
            return False
        return not (record.wire or record.content_header or record.payload)

    def explained(self, fault: str) -> str:
        """Return `fault` with `hint`, and the format as which the bytes are recognised, if any."""
        return "; ".join(filter(None, (fault, advice(self.data, "raw"), self.hint)))


class InputReader:
    """Reads messages from streams.

    Args:
        form: ``auto``, a name in `files.FORMATS`, ``hex``, ``base64``, ``cbor``, ``typed``,
            ``plain``, or ``written``: JSON in the typed or plain notation.
        max_size: the maximum size of one message in the input, in bytes; `files.MAX_SIZE` if None.
        basic: also accept messages of AMQP 0-9-1.
        limits: limits on the cost of reading a file, as in `files.read_stream`.
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
        """Yield the messages of a binary stream.

        Args:
            stream: the stream.
            name: the name of the input, for `Item.source`.
            offset: the position to start at, if the format and the stream support seeking.

        Raises:
            ValueError: the stream contains no message, or has another format.
            DamagedGzipError: the stream is damaged gzip.
            ImportError: an extra is missing; the message names it.
        """
        from amqp10msg.files.containers import unpacked  # noqa: PLC0415  (arguments skip it)

        stream, form = buffered(stream), self.form
        if form != "raw" and not (form in FORMATS and FORMATS[form].needs_random_access):
            stream = unpacked(stream, self._limits)
        if form == "auto":
            head = stream.peek(4096)[:4096]
            # An empty file is one empty message, unless its name has a suffix such as .jsonl.
            form = _guess_format(head) if head else files.form_of_name(name) or "raw"
        start = 0
        has_ranges = form in FORMATS and FORMATS[form].find_ranges is not None
        if offset and (has_ranges or form == "json") and stream.seekable():
            start = stream.seek(offset)
        match form:
            case "jsonl" | "json" | "written" | "typed" | "plain":
                yield from self._read_json(stream, name, form, start=start)
            case "text" | "hex" | "base64":
                yield from self._read_text(stream, name, None if form == "text" else form)
            case "cbor":
                yield _encode_document(Item(name, offset=0), form, self._read_all(stream))
            case _:
                records = files.read_stream(
                    stream, form, start=start, max_size=self.max_size, limits=self._limits
                )
                for number, record in enumerate(records, 1):
                    source = name if form == "raw" else f"{name}:{number}"
                    item = self._item_of_record(source, number, record)
                    yield from self.unwrapped(item) if form == "raw" else (item,)

    def unwrapped(self, item: Item) -> Iterator[Item]:
        """Yield the messages in the frames or packet of an item; without frames, the item itself.

        Frames and packets are recognised only if the form is ``auto``.
        """
        data = item.data
        records = None
        if (
            self.form == "auto"
            and not SECTION_START.match(data)
            and data[:4] != CONTENT_HEADER_START
        ):
            from amqp10msg.files.capture import read_packet_or_frames  # noqa: PLC0415  (rarely needed)

            records = read_packet_or_frames(data, max_size=self.max_size)
        for number, record in enumerate(records or (), 1):
            name = item.source if records and len(records) == 1 else f"{item.source}:{number}"
            unwrapped = self._item_of_record(name, number, record)
            yield attrs.evolve(unwrapped, frames=data if number == 1 else b"")
        if records is None:
            yield item

    def _read_text(self, stream: IO[bytes], name: str, form: str | None) -> Iterator[Item]:
        try:
            text = self._read_all(stream).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(NOT_TEXT) from None
        try:
            messages = messages_in_text(text, form)
        except ValueError as error:
            if str(error) != _NOT_HEX_OR_BASE64:
                raise
            start = text.strip()[:40]
            raise ValueError(f"this is text, but {_NOT_HEX_OR_BASE64}: {start!r}") from None
        if not messages:
            raise ValueError("the text contains no message")
        for index, octets in enumerate(messages, 1):
            source = name if len(messages) == 1 else f"{name}:{index}"
            yield from self.unwrapped(
                Item(source, octets, number=index, offset=0 if index == 1 else None)
            )

    def _item_of_record(self, name: str, number: int, record: files.Record) -> Item:
        name = f"{name} ({record.origin})" if record.origin else name
        fault, data, is_other = record.fault, record.wire or b"", False
        if record.protocol == BASIC and record.content_header is not None:
            data = record.content_header + (record.payload or b"")
            if not self._basic and not fault:
                fault, is_other = OTHER_PROTOCOL, True
        data = b"" if fault else data
        return Item(name, data, fault, number, record.offset, record, is_other_protocol=is_other)

    def _read_all(self, stream: IO[bytes]) -> bytes:
        """Read the rest of a stream. Raises ValueError if it exceeds `max_size`."""
        from amqp10msg.files.containers import read_up_to, too_large  # noqa: PLC0415  (see `read`)

        octets = read_up_to(stream, self.max_size + 1)
        if len(octets) > self.max_size:
            raise ValueError(too_large(self.max_size))
        return octets

    def _read_json(
        self, stream: Any, name: str, form: str, *, lines_read: int = 0, start: int = 0
    ) -> Iterator[Item]:
        """Read JSON: one document per line, or one document over several lines.

        `lines_read` lines of the file have been read already, and the stream is at offset `start`.
        """
        from amqp10msg.files.containers import read_lines  # noqa: PLC0415  (see `read`)

        is_first = not lines_read
        lines = read_lines(stream, self.max_size, start)
        for number, (offset, line, fault) in enumerate(lines, lines_read + 1):
            if fault:  # stop: a line above the maximum size may be endless
                raise ValueError(f"line {number}: {fault}")
            if not line.strip():
                continue
            has_lines = not is_first or bool(stream.peek(1))
            item = Item(f"{name}:{number}" if has_lines else name, number=number, offset=offset)
            try:
                yield _item_of_document(item, form, parse_json(line))
            except ValueError as error:
                if not (is_first and has_lines and form != "jsonl"):
                    yield attrs.evolve(item, fault=str(error))
                    continue
                remainder = self._read_all(stream)
                try:
                    document = parse_json(line + remainder)
                    yield _item_of_document(Item(name, offset=0), form, document)
                except ValueError:
                    if not _has_json_line(remainder):
                        raise
                    yield attrs.evolve(item, fault=str(error))
                    following = buffered(io.BytesIO(remainder))
                    end = offset + len(line)
                    yield from self._read_json(following, name, form, lines_read=number, start=end)
            is_first = False


def buffered(stream: Any) -> Any:
    """Return `stream` if it has the method ``peek``, otherwise a BufferedReader of `stream`."""
    return stream if hasattr(stream, "peek") else io.BufferedReader(stream)


def _guess_format(head: bytes) -> str:
    """Return the format that a file probably has, judging by its first bytes.

    Every encoded message begins with the byte 00, with which no text begins.
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
        from amqp10msg.files.pasted import begins_list  # noqa: PLC0415  (only for JSON)

        return "text" if begins_list(text) else "json"
    return "text"


def _has_json_line(octets: bytes) -> bool:
    """Return whether any of the first ten lines is a JSON object or list: a file of JSON lines."""
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
    """Return `item` with the message that a JSON document contains, or with a fault.

    The document has encoded bytes, or is a message in a notation.
    """
    from amqp10msg.files import containers  # noqa: PLC0415  (see `InputReader.read`)

    if form in ("jsonl", "json") and isinstance(document, dict):
        label = document.get("id", document.get("name"))
        if isinstance(label, str) and label:
            item = attrs.evolve(item, source=f"{item.source} ({label})")
        try:
            octets = _bytes_of_node_buffer(document)
            if octets is None:
                octets = containers.octets_of_record(document)
        except ValueError as error:
            return attrs.evolve(item, fault=str(error))
        if octets is not None:
            try:
                fields = containers.fields_of_record(document, octets)
            except ValueError as error:
                return attrs.evolve(item, fault=str(error))
            record = files.Record(item.offset or 0, octets, **fields) if fields else None
            return attrs.evolve(item, data=octets, record=record)
    if form == "jsonl":
        return attrs.evolve(
            item, fault=f"no object with one of the keys {', '.join(containers.MESSAGE_DECODERS)}"
        )
    if form in ("json", "written"):
        form = "typed" if isinstance(document, list) else "plain"
    return _encode_document(item, form, document)


def _bytes_of_node_buffer(document: dict[str, Any]) -> bytes | None:
    """Return the bytes of a Buffer or Uint8Array of Node, as written by JSON.stringify, or None."""
    if document.get("type") == "Buffer" and isinstance(document.get("data"), list):
        numbers = document["data"]
    elif document and all(name == str(index) for index, name in enumerate(document)):
        numbers = list(document.values())
    else:
        return None
    for index, number in enumerate(numbers):
        if type(number) is not int or not 0 <= number <= 255:
            raise ValueError(f"item {index} of the Buffer must be 0 to 255, got {number!r:.40}")
    return bytes(numbers)


def _encode_document(item: Item, form: str, document: Any) -> Item:
    """Return `item` with the encoded message or value of a document in a notation, or a fault."""
    decoded: Any
    try:
        match form:
            case "typed":
                decoded = notation.from_typed(document)
            case "plain":
                is_value = not isinstance(document, dict) or any(key[:1] == "$" for key in document)
                decoded = (notation.value_from_plain if is_value else notation.from_plain)(document)
            case _:
                decoded = notation.from_cbor(document)
        octets = decoded.encode() if isinstance(decoded, Message) else encode_value(decoded)
        return attrs.evolve(item, data=octets)
    except (AmqpError, ValueError) as error:
        return attrs.evolve(item, fault=str(error))


def messages_in_text(text: str, form: str | None = None) -> list[bytes]:
    """Return the messages in a text: hex, base64, or a byte literal that `files.pasted` supports.

    Hex may be a dump of xxd, hexdump -C, od or tshark. If every line begins like a message, every
    line is a message; otherwise all lines together are one message.

    Args:
        text: the text.
        form: ``hex`` or ``base64``; guessed if None.

    Raises:
        ValueError: the format of the text is unknown or ambiguous.
    """
    text = text.strip()
    if not text:
        return []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if form != "base64" and (dumped := _decode_dump(text.splitlines())) is not None:
        return [dumped]
    if len(lines) > 1:
        try:
            each = [_decode_text(line, form) for line in lines]
        except ValueError:
            pass
        else:
            if all(SECTION_START.match(octets) for octets in each):
                return each
    return [_decode_text(text, form)]


def _decode_text(text: str, form: str | None) -> bytes:
    """Return the bytes that a text represents: in hex, in base64, or in a literal."""
    if form == "hex":
        return octets_of_hex(text)
    if form == "base64":
        return octets_of_base64(text)
    if not text.isalnum():  # skip the import for plain hex and base64
        from amqp10msg.files.pasted import octets_of_pasted  # noqa: PLC0415  (rarely needed)

        literal = octets_of_pasted(text)
        if literal is not None:
            return literal
    # Try hex first: the base64 of a message begins with AF, AI or AK and contains other characters
    # than hex digits.
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
    # Ordinary words can be valid base64, so require that the bytes begin like an AMQP value.
    if octets and (octets[0] == 0 or octets[0] in FORMAT_CODES):
        return octets
    raise ValueError(_NOT_HEX_OR_BASE64)


def _decode_dump(lines: list[str]) -> bytes | None:
    """Return the bytes of a hex dump, whose lines are offset, bytes and perhaps characters.

    For other text, return None. The next line's offset determines the number of bytes of a line, so
    that characters after the bytes are not read as bytes.
    """
    rows: list[tuple[int, str]] = []
    for line in lines:
        if not line.strip():
            continue
        match = re.fullmatch(_DUMP_LINE_PATTERN, line.rstrip())
        if match is None:
            return None
        rows.append((int(match[1], 16), match[2]))
    if not rows or rows[0][0] != 0 or (len(rows) == 1 and "  " not in rows[0][1].strip()):
        return None
    out = bytearray()
    for index, (offset, text) in enumerate(rows):
        if offset != len(out):
            return None
        is_last = index == len(rows) - 1
        count = _count_bytes(text) if is_last else rows[index + 1][0] - offset
        position = 0
        for _ in range(count):
            pair = _HEX_BYTE.match(text, position)
            if pair is None:
                return None
            out += bytes.fromhex(pair[1])
            position = pair.end()
    return bytes(out)


def _count_bytes(text: str) -> int:
    """Count the bytes in the last line of a dump, for which there is no next offset."""
    text = text.strip()
    halves = re.fullmatch(_HEXDUMP_HALVES, text)
    digits = halves[1] if halves else re.split(r"\s{2,}", text, maxsplit=1)[0]
    return len("".join(digits.split())) // 2
