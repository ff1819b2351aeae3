"""Text for people: how many of something, and characters that nobody could see."""

from __future__ import annotations

__all__ = ["plural", "printable"]


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Count things: ``1 message``, ``2,000 messages``."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def printable(text: str) -> str:
    r"""Return a text with what cannot be shown escaped, such as ``\u202e``."""
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
