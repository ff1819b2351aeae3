"""Bytes from text: hex in all its spellings, base64, dumps, Python literals."""

from __future__ import annotations

import ast
import re

from amqp10msg.files.recognition import SECTION
from amqp10msg.files.text import octets_of_base64, octets_of_hex
from amqp10msg.wire.primitives import FORMAT_CODES

_DUMP_LINE = re.compile(r"\s*([0-9a-fA-F]{4,16})(?::\s|\s|$)(.*)")
# A line of hexdump -C with more than eight bytes has a gap in the middle.
_HALVES = re.compile(r"((?:[0-9a-fA-F]{2} ){8}(?: [0-9a-fA-F]{2})+) +\|.{9,16}\|")
_PAIR = re.compile(r"\s*([0-9a-fA-F]{2})")


def octets_of_text(text: str, form: str | None = None) -> list[bytes]:
    """Read the messages in a text.

    Several lines are a message each if each begins as one, else one message over several lines.

    Args:
        text: hex, a hex dump (of xxd, hexdump -C, od, tshark), base64, or a Python literal
            ``b"…"``.
        form: ``hex`` or ``base64``; guessed where None.

    Raises:
        ValueError: it is none of these.
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
    if text[:2] in ("b'", 'b"'):
        try:
            literal = ast.literal_eval(text)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise ValueError("the Python literal is broken") from None
        if isinstance(literal, bytes):
            return literal
    # The base64 of a message begins with AF, AI or AK, never all hex: trying hex first is safe.
    try:
        return octets_of_hex(text)
    except ValueError as error:
        if "half a byte" in str(error):
            raise
    try:
        octets = octets_of_base64(text)
    except ValueError:
        octets = b""
    # Many a word is base64; a value begins with a format code.
    if octets and (octets[0] == 0 or octets[0] in FORMAT_CODES):
        return octets
    raise ValueError("neither hex nor base64")


def _octets_of_dump(lines: list[str]) -> bytes | None:
    """Read a dump of offsets, bytes and perhaps characters; None if this is none.

    The offsets say how many bytes each line has, and so tell hex from the characters beside it.
    """
    rows: list[tuple[int, str]] = []
    for line in lines:
        if not line.strip():
            continue
        match = _DUMP_LINE.fullmatch(line.rstrip())
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
    halves = _HALVES.fullmatch(rest)
    digits = halves[1] if halves else re.split(r"\s{2,}", rest, maxsplit=1)[0]
    return len("".join(digits.split())) // 2
