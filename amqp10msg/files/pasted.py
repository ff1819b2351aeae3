r"""Parse text that people paste: byte literals and lists of numbers of many languages.

============  =====================================================================
C, C++, C#    ``{0x00, 0x53}``, ``"\0Sw\xa1"``, ``new byte[] {0, 83}``, ``00-53-77``
Erlang        ``<<0,83,119,161,2,"hi">>``, ``<<16#00,16#53>>``
Go            ``[]byte{0x0, 0x53}``, ``[0 83 119]``, ``[]byte("\x00Sw")``
Java          ``[0, 83, 119, -95]``, ``{(byte) 0xa1}``
JavaScript    ``<Buffer 00 53>``, ``Uint8Array(2) [0, 83]``, ``Buffer.from("AFM=", "base64")``
Python        ``b'\x00S'``, ``bytearray(b'\x00S')``, ``bytes([0, 83])``, ``bytes.fromhex("0053")``
Rust          ``b"\x00Sw"``, ``[0u8, 83]``, ``vec![0, 83]``, ``&[0x00, 0x53]``
============  =====================================================================

Hex and base64 are in `files.text`.
"""

from __future__ import annotations

import re

from amqp10msg.files.text import octets_of_base64, octets_of_hex

# An assignment before the literal, such as ``let message: &[u8] =`` or ``unsigned char m[] =``.
_ASSIGNMENT = re.compile(r"[A-Za-z_][\w\s\[\]&*<>:;,]*:?=\s*(?=[\[{(<&\"'$]|[A-Za-z.:]+[!\[{(\"'])")
# The prefix before a list in brackets: a type, a constructor or a reference.
_LIST_PREFIX = re.compile(
    r"(?:new\s+)?(?:unsigned\s+char|[A-Za-z_][\w.:]*)?!?\s*(?:\(\s*\d*\s*\))?\s*(?:\[\s*\d*\s*\]\s*[A-Za-z_]\w*\s*(?=[{(]))?"
    r"(?:\[\s*\d*\s*\]\s*(?=\{))?&?\s*"
)
# Calls that decode a string of hex or base64, as in Python, Go, C#, Rust and JavaScript.
_HEX_DECODE_CALL = re.compile(
    r"[\w.:]*(?:fromhex|unhexlify|DecodeString|FromHexString|decode_hex|hex::decode|hex!)\s*"
    r"\(\s*[bB]?([\"'])(?P<text>[^\"']*)\1\s*\)"
    r"|Buffer\.from\(\s*([\"'`])(?P<node>[^\"'`]*)\3\s*,\s*[\"']hex[\"']\s*\)"
)
_BASE64_DECODE_CALL = re.compile(
    r"[\w.:]*(?:b64decode|decodebytes|atob|FromBase64String|base64::decode)\s*"
    r"\(\s*[bB]?([\"'])(?P<text>[^\"']*)\1\s*\)"
    r"|Buffer\.from\(\s*([\"'`])(?P<node>[^\"'`]*)\3\s*,\s*[\"']base64[\"']\s*\)"
)
# Any other call around a literal; a Buffer that Node.js printed; and string literals.
_OTHER_CALL = re.compile(r"(?:new\s+)?(?:\[\]\s*)?[A-Za-z_][\w.:]*\((?P<inside>.*)\)", re.DOTALL)
_NODE_BUFFER = re.compile(r"<(?:Slow)?Buffer\s*(?P<hex>[^>]*)>", re.IGNORECASE)
_STRING_LITERAL_REGEX = r"\$?(?:[bB]|u8|L)?(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
_STRING_LITERALS = re.compile(
    rf"{_STRING_LITERAL_REGEX}(?:\s*\+?\s*{_STRING_LITERAL_REGEX})*", re.DOTALL
)
_STRING_LITERAL = re.compile(_STRING_LITERAL_REGEX, re.DOTALL)
# An item of a list: a number with casts and suffixes, or a character; and the separator of items.
_BYTE_NUMBER = re.compile(
    r"(?:\(\s*(?:byte|sbyte|char|signed char|unsigned char|uint8_t|int8_t|uint8|u8)\s*\)\s*)?"
    r"(?P<sign>-?)(?:(?:0[xX]|16#)(?P<hex>[0-9a-fA-F]{1,2})|0[bB](?P<bits>[01]{1,8})"
    r"|(?P<decimal>0|[1-9][0-9]{0,2}))(?:_?[ui]8|[uU])?"
)
_CHARACTER_LITERAL = re.compile(r"b?'(?P<body>[^'\\]|\\.[0-9a-fA-F]{0,2})'", re.DOTALL)
_ITEM_SEPARATOR = re.compile(r"[\s,;]+")
# Hex with separators between all bytes; and an escape sequence in a string literal.
_HEX_PAIRS = re.compile(r"[0-9a-fA-F]{2}(?:[\s,;:]+[0-9a-fA-F]{2})*")
_ESCAPE_SEQUENCE = re.compile(
    r"\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|(?P<octal>[0-7]{1,3})|u\{(?P<braced>[0-9a-fA-F]{1,6})\}"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<newline>\r?\n[ \t]*)|(?P<other>.))",
    re.DOTALL,
)
#: The byte of each escape with a single letter, such as ``\n``.
_NAMED_ESCAPES = dict(zip("abtnvfres", (7, 8, 9, 10, 11, 12, 13, 27, 32), strict=True))
_NAMED_ESCAPES |= {character: ord(character) for character in "\\\"'`?"}
# Maximum number of nested calls around a literal, as in ``bytes(bytearray(b"..."))``.
_MAX_NESTED_CALLS = 3
# The beginning of a list of numbers in brackets, which JSON in the typed notation does not match.
_LIST_START = re.compile(r"\s*(?:\[\s*\d*\s*\]\s*[A-Za-z]|[\[{(]\s*(?:\(|-?[0-9]|b?'))")


def begins_list(text: str) -> bool:
    """Return whether `text`, which may be truncated, begins like a list of numbers in brackets."""
    return _LIST_START.match(text) is not None


def octets_of_pasted(text: str, *, depth: int = 0) -> bytes | None:
    """Read a literal or a list of numbers.

    Args:
        text: the text.
        depth: the number of calls around the literal that have been removed.

    Returns:
        The bytes, or None if the text is neither a literal nor a list of numbers.

    Raises:
        ValueError: the text begins like a literal or a list, but is invalid or ambiguous. The error
            quotes the invalid part.
    """
    text = text.strip().rstrip(";").rstrip()
    if assignment := _ASSIGNMENT.match(text):
        text = text[assignment.end() :]
    for call, read in ((_HEX_DECODE_CALL, octets_of_hex), (_BASE64_DECODE_CALL, octets_of_base64)):
        if match := call.fullmatch(text):
            return read(match["text"] if match["text"] is not None else match["node"])
    if match := _NODE_BUFFER.fullmatch(text):
        return _octets_of_node_buffer(match["hex"])
    if text.startswith("<<") and text.endswith(">>"):
        return _octets_of_numbers(text[2:-2], "the Erlang binary")
    if _STRING_LITERALS.fullmatch(text):
        return _octets_of_strings(text)
    if text[:2] in ("b'", 'b"') or (text[:1] in "\"'" and text[:1]):
        raise ValueError(
            "the Python literal is broken" if text[0] == "b" else "the literal is broken"
        )
    if text.startswith("\\"):
        return _unescape(text)
    if depth < _MAX_NESTED_CALLS and (match := _OTHER_CALL.fullmatch(text)):
        octets = octets_of_pasted(match["inside"], depth=depth + 1)
        if octets is not None:
            return octets
    start = _LIST_PREFIX.match(text)
    listed = text[start.end() :] if start else text
    for opening, closing in ("[]", "{}", "()"):
        if listed.startswith(opening) and listed.endswith(closing):
            inside = listed[1:-1].strip()
            # ``[00 53 77]`` is hex: numbers have no leading zeros.
            if _HEX_PAIRS.fullmatch(inside) and re.search(r"\b0[0-9a-fA-F]|[a-fA-F]", inside):
                return octets_of_hex(inside)
            return _octets_of_numbers(inside, "the list")
    return _octets_of_bare_numbers(text)


def _octets_of_node_buffer(digits: str) -> bytes:
    """Read the content of a Buffer that Node.js printed: pairs of hex digits."""
    if "more byte" in digits or "..." in digits:
        raise ValueError(
            "Node shortened this Buffer when it printed it: print buffer.toString('hex') instead"
        )
    return octets_of_hex(digits)


def _octets_of_bare_numbers(text: str) -> bytes | None:
    """Read numbers without brackets; None for hex, in which every byte has two digits."""
    items = [item for item in _ITEM_SEPARATOR.split(text) if item]
    if len(items) < 2:
        return None
    prefixed = sum(item[:2] in ("0x", "0X") for item in items)
    if prefixed == len(items):
        # If an item has more than one byte, such as 0x005377, the text is hex and not a list of
        # numbers.
        return _octets_of_numbers(text, "the list") if max(map(len, items)) <= 4 else None
    if prefixed or not all(re.fullmatch(r"-?(?:0|[1-9][0-9]{0,2})", item) for item in items):
        return None
    return None if all(len(item) == 2 for item in items) else _octets_of_numbers(text, "the list")


def _octets_of_numbers(text: str, subject: str) -> bytes:
    """Read numbers from -128 to 255, characters and strings, with commas or spaces between them."""
    octets = bytearray()
    position = 0
    while position < len(text):
        if separator := _ITEM_SEPARATOR.match(text, position):
            position = separator.end()
            continue
        if match := _CHARACTER_LITERAL.match(text, position):
            octets += _unescape(match["body"])
        elif match := _STRING_LITERAL.match(text, position):
            octets += _unescape(match[0].lstrip("$bBuL8")[1:-1])
        elif match := _BYTE_NUMBER.match(text, position):
            octets.append(_octet_of_number(match, subject))
        position = match.end() if match else position
        if match is None or (position < len(text) and not _ITEM_SEPARATOR.match(text, position)):
            item = _ITEM_SEPARATOR.split(text[match.start() if match else position :], maxsplit=1)[
                0
            ]
            raise ValueError(f"{subject} holds {item!r:.40}, which is not a byte from 0 to 255")
    return bytes(octets)


def _octet_of_number(match: re.Match[str], subject: str) -> int:
    """Return the byte for a match of `_BYTE_NUMBER`; ValueError if it is out of range."""
    if match["hex"]:
        value = int(match["hex"], 16)
    elif match["bits"]:
        value = int(match["bits"], 2)
    else:
        value = int(match["decimal"])
    value = -value if match["sign"] else value
    if not -128 <= value <= 255:
        raise ValueError(f"{subject} holds {match[0]!r:.40}, which is not a byte from 0 to 255")
    return value % 256  # a negative number is a signed byte of Java


def _octets_of_strings(text: str) -> bytes:
    """Read string literals, joined as in C and Python."""
    octets = bytearray()
    for match in _STRING_LITERAL.finditer(text):
        quoted = match[0].lstrip("$bBuL8")
        octets += _unescape(quoted[1:-1])
    if "\\" not in text and octets[:1] != b"\0":
        # Every message begins with a NUL byte, so the string contains hex or base64.
        content = octets.decode()
        for read in (octets_of_hex, octets_of_base64):
            try:
                return read(content)
            except ValueError:
                continue
    return bytes(octets)


def _unescape(text: str) -> bytes:
    """Return the bytes of a string literal's content, with its characters in UTF-8."""
    octets = bytearray()
    copied_end = 0
    for match in _ESCAPE_SEQUENCE.finditer(text):
        octets += text[copied_end : match.start()].encode("utf-8", "surrogateescape")
        copied_end = match.end()
        if match["hex"]:
            octets.append(int(match["hex"], 16))
        elif match["octal"]:
            value = int(match["octal"], 8)
            if value > 255:
                raise ValueError(f"the escape {match[0]!r} is larger than a byte")
            octets.append(value)
        elif code := match["braced"] or match["short"] or match["long"]:
            if int(code, 16) > 0x10FFFF or 0xD800 <= int(code, 16) < 0xE000:
                raise ValueError(f"the escape {match[0]!r} is not a Unicode character")
            octets += chr(int(code, 16)).encode()
        elif match["newline"] is None:
            if match["other"] not in _NAMED_ESCAPES:
                raise ValueError(f"the escape {match[0]!r} is not known")
            octets.append(_NAMED_ESCAPES[match["other"]])
    tail = text[copied_end:]
    if tail.endswith("\\"):
        raise ValueError("the literal ends in the middle of an escape")
    return bytes(octets + tail.encode("utf-8", "surrogateescape"))
