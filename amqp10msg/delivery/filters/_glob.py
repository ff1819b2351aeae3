"""Wildcards of LIKE and topic patterns, matched in time linear in the subject.

A pattern is a sequence of characters or words, of `ONE`, which matches any one of them, and of
`MANY`, which matches any number. Regular expressions would backtrack, in exponential time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

__all__ = ["MANY", "ONE", "compile_like", "compile_words"]


class _Wildcard:
    __slots__ = ()


ONE: Final = _Wildcard()
MANY: Final = _Wildcard()

Matcher = Callable[[Any], bool]


def compile_like(pattern: Sequence[str | _Wildcard]) -> Callable[[str], bool]:
    """Return a function that tests whether a text matches a pattern of characters."""
    segments = _split(pattern)
    if all(ONE not in segment for segment in segments):
        # The usual patterns: string methods are linear and written in C.
        return _plain(["".join(map(str, segment)) for segment in segments])
    return _general(segments)


def compile_words(pattern: Sequence[str | _Wildcard]) -> Callable[[Sequence[str]], bool]:
    """Return a function that tests whether words match a pattern of words."""
    return _general(_split(pattern))


def _split(pattern: Sequence[str | _Wildcard]) -> list[list[str | _Wildcard]]:
    """Split at each `MANY`, into one segment more than there are of those."""
    segments: list[list[str | _Wildcard]] = [[]]
    for element in pattern:
        if element is MANY:
            segments.append([])
        else:
            segments[-1].append(element)
    return segments


def _plain(segments: list[str]) -> Callable[[str], bool]:
    first, *middle, last = segments if len(segments) > 1 else (segments[0], "")
    if len(segments) == 1:
        return first.__eq__
    middle = [segment for segment in middle if segment]
    shortest = sum(map(len, segments))
    if not middle:
        if not last:
            return lambda text: text.startswith(first)
        if not first:
            return lambda text: text.endswith(last)
        return lambda text: len(text) >= shortest and text.startswith(first) and text.endswith(last)

    def match(text: str) -> bool:
        if len(text) < shortest or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for segment in middle:
            # The leftmost match leaves the most room for the next segments.
            at = text.find(segment, at, end)
            if at < 0:
                return False
            at += len(segment)
        return True

    return match


def _general(segments: list[list[str | _Wildcard]]) -> Matcher:
    first, last = segments[0], segments[-1]
    if len(segments) == 1:
        size = len(first)
        return lambda subject: len(subject) == size and _stands_at(first, subject, 0)
    middle = [_Searcher(segment) for segment in segments[1:-1] if segment]
    shortest = sum(map(len, segments))

    def match(subject: Sequence[str]) -> bool:
        end = len(subject) - len(last)
        if (
            len(subject) < shortest
            or not _stands_at(first, subject, 0)
            or not _stands_at(last, subject, end)
        ):
            return False
        at = len(first)
        for searcher in middle:
            at = searcher.end_of_first(subject, at, end)
            if at < 0:
                return False
        return True

    return match


def _stands_at(segment: list[str | _Wildcard], subject: Sequence[str], at: int) -> bool:
    return all(
        wanted is ONE or wanted == subject[at + index] for index, wanted in enumerate(segment)
    )


class _Searcher:
    """Find the leftmost match of a segment: Shift-And, one integer operation per element.

    Bit i of the state is set while the last i + 1 elements match the first i + 1 of the segment.
    """

    __slots__ = ("_any", "_done", "_masks", "size")

    def __init__(self, segment: list[str | _Wildcard]) -> None:
        self.size = len(segment)
        self._done = 1 << (self.size - 1)
        self._any = sum(1 << index for index, wanted in enumerate(segment) if wanted is ONE)
        masks: dict[str, int] = {}
        for index, wanted in enumerate(segment):
            if isinstance(wanted, str):
                masks[wanted] = masks.get(wanted, self._any) | 1 << index
        self._masks = masks

    def end_of_first(self, subject: Sequence[str], start: int, end: int) -> int:
        """Return the end of the leftmost match in ``subject[start:end]``, or -1."""
        state = 0
        masks, wild, done = self._masks, self._any, self._done
        for at in range(start, end):
            state = (state << 1 | 1) & masks.get(subject[at], wild)
            if state & done:
                return at + 1
        return -1
