"""Text for display: counts with their nouns, and escapes for unprintable characters."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["plural", "printable", "refuse_constant"]


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, such as ``1 message`` and ``2,000 messages``.

    `nouns` is the plural of `noun`; by default, an s is appended.
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def printable(text: str) -> str:
    r"""Return `text` with escapes, such as ``\u202e``, for unprintable characters."""
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
    """Raise ValueError for NaN or Infinity, which Python's JSON parser accepts (RFC 8259, 6).

    This function is the argument `parse_constant` of `json.loads`.
    """
    raise ValueError(f"{name} is not a JSON number")
