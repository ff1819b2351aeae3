# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Finds a text with wildcards in another one by Shift-And (Baeza-Yates and Gonnet, 1992).

Bit i of the state is set while the last i + 1 characters match the first i + 1 wanted ones, so a
character costs a few operations for every word of the state, whatever stands there.

Runs as it is, where a word has as many bits as are wanted, and compiled with the C types of
`_shift_and.pxd`, where it has 64.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

from amqp10msg.wire.kernel import COMPILED

#: Bits of a word of the state.
WORD: Final = 64 if COMPILED else 1 << 20


class ShiftAnd:
    """The search for characters, of which None stands for any one.

    Args:
        wanted: the characters, one at least.
        width: bits of a word, at most `WORD`.
    """

    def __init__(self, wanted: Sequence[str | None], width: int = WORD) -> None:
        self.size = size = len(wanted)
        self.width = width = min(width, size)
        self.words = words = -(-size // width)
        self.last = 1 << (size - 1) % width
        # A row of words for each character that is wanted somewhere, the first for all others.
        numbers: dict[str, int] = {}
        for char in wanted:
            if char is not None:
                numbers.setdefault(char, len(numbers) + 1)
        rows: Any = [0] * ((len(numbers) + 1) * words)
        for at, char in enumerate(wanted):
            bit = 1 << at % width
            if char is not None:
                rows[numbers[char] * words + at // width] |= bit
                continue
            for number in range(len(numbers) + 1):
                rows[number * words + at // width] |= bit
        self.rows = array("Q", rows) if width <= 64 else rows
        self.plain = array("l", [numbers.get(chr(code), 0) for code in range(128)])
        self.others = {char: number for char, number in numbers.items() if not char.isascii()}

    def find(self, text: str, start: int, end: int) -> int:
        """Return the end of the leftmost match in ``text[start:end]``, or -1."""
        words, rows, plain, last = self.words, self.rows, self.plain, self.last
        if words > 1:
            return self.find_long(text, start, end)
        state = 0
        for at in range(start, end):
            char = text[at]
            if char < "\x80":
                row = plain[ord(char)]
            else:
                row = self.others.get(char, 0) if self.others else 0
            state = (state << 1 | 1) & rows[row]
            if state & last:
                return at + 1
        return -1

    def find_long(self, text: str, start: int, end: int) -> int:
        """`find` where the state is several words."""
        words, rows, plain, last = self.words, self.rows, self.plain, self.last
        top = self.width - 1
        states = array("Q", [0] * words)
        for at in range(start, end):
            char = text[at]
            if char < "\x80":
                row = plain[ord(char)]
            else:
                row = self.others.get(char, 0) if self.others else 0
            row *= words
            carry = 1
            for word in range(words):
                state = states[word]
                states[word] = (state << 1 | carry) & rows[row + word]
                carry = state >> top
            if states[words - 1] & last:
                return at + 1
        return -1
