"""Text for people: counts with their nouns, and escapes for characters that cannot be displayed."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["plural", "printable", "refuse_constant"]


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, such as ``1 message`` and ``2,000 messages``.

    `nouns` is the plural; by default, `noun` with an s.
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def printable(text: str) -> str:
    r"""Return `text` with the characters that are not printable escaped, such as ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable()
        else f"\\x{ord(char):02x}"
        if ord(char) < 0x100
        else f"\\u{ord(char):04x}"
        if ord(char) < 0x10000
        else f"\\U{ord(char):08x}"
        for char in text
    )


def refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN and Infinity, which Python's JSON parser accepts (RFC 8259, 6)."""
    raise ValueError(f"{name} is not a JSON number")
