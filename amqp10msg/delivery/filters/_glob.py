"""Wildcards of LIKE and topic patterns, matched without backtracking.

A pattern is a sequence of characters or words, of `ONE`, which matches any one of them, and of
`MANY`, which matches any number. It is split at `MANY` into segments of fixed length, whose
leftmost matches are found one after another: at most subject times longest segment in all. One
regular expression for all of it would backtrack, in exponential time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

#: Characters up to which a regular expression finds a segment faster than Shift-And.
_LONGEST_REGEX: Final = 128


class _Wildcard:
    __slots__ = ()


ONE: Final = _Wildcard()
MANY: Final = _Wildcard()

#: An element of a pattern: a character or word, `ONE` or `MANY`.
Element: TypeAlias = str | _Wildcard
Matcher: TypeAlias = Callable[[Any], bool]
#: Returns the end of the leftmost match of a segment in ``subject[start:end]``, or -1.
Search: TypeAlias = Callable[[Any, int, int], int]


def compile_like(pattern: Sequence[Element]) -> Callable[[str], bool]:
    """Return a function that tests whether a text matches a pattern of characters."""
    segments = _split(pattern)
    if all(ONE not in segment for segment in segments):
        # The usual patterns: string methods are linear and written in C.
        return _plain(["".join(map(str, segment)) for segment in segments])
    return _general(segments, _text_search)


def weight_of(pattern: Sequence[Element]) -> int:
    """Return the steps that a pattern costs per character of a text, at most; a step takes 1 ns."""
    longest = max(len(segment) if ONE in segment else 1 for segment in _split(pattern))
    if longest <= _LONGEST_REGEX:
        return 5 + longest
    return _LONGEST_REGEX + longest // 8


def compile_words(pattern: Sequence[Element]) -> Callable[[Sequence[str]], bool]:
    """Return a function that tests whether words match a pattern of words."""
    return _general(_split(pattern), _shift_and)


def _split(pattern: Sequence[Element]) -> list[list[Element]]:
    """Split at each `MANY`, into one segment more than there are of those."""
    segments: list[list[Element]] = [[]]
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


def _general(segments: list[list[Element]], searcher: Callable[[list[Element]], Search]) -> Matcher:
    first, last = segments[0], segments[-1]
    if len(segments) == 1:
        size = len(first)
        return lambda subject: len(subject) == size and _stands_at(first, subject, 0)
    middle = [searcher(segment) for segment in segments[1:-1] if segment]
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
        for search in middle:
            at = search(subject, at, end)
            if at < 0:
                return False
        return True

    return match


def _stands_at(segment: list[Element], subject: Sequence[str], at: int) -> bool:
    return all(
        wanted is ONE or wanted == subject[at + index] for index, wanted in enumerate(segment)
    )


def _text_search(segment: list[Element]) -> Search:
    """Return the search for a segment in a text."""
    lead = next((at for at, wanted in enumerate(segment) if wanted is not ONE), len(segment))
    trail = next((at for at, wanted in enumerate(reversed(segment)) if wanted is not ONE), 0)
    core = segment[lead : len(segment) - trail]
    if not core:
        return lambda _, start, end: start + lead if start + lead <= end else -1
    if len(core) <= _LONGEST_REGEX:
        find = re.compile(
            "".join(re.escape(one) if isinstance(one, str) else "." for one in core), re.DOTALL
        ).search

        def search(text: str, start: int, end: int) -> int:
            found = find(text, start + lead, max(end - trail, 0))
            return -1 if found is None else found.end() + trail

        return search
    inner = _shift_and(core)

    def search_long(text: str, start: int, end: int) -> int:
        found = inner(text, start + lead, end - trail)
        return -1 if found < 0 else found + trail

    return search_long


def _shift_and(segment: list[Element]) -> Search:
    """Return the search for a segment by Shift-And: one integer operation per element.

    Bit i of the state is set while the last i + 1 elements match the first i + 1 of the segment.
    """
    done = 1 << (len(segment) - 1)
    wild = sum(1 << index for index, wanted in enumerate(segment) if wanted is ONE)
    masks: dict[str, int] = {}
    for index, wanted in enumerate(segment):
        if isinstance(wanted, str):
            masks[wanted] = masks.get(wanted, wild) | 1 << index

    def search(subject: Sequence[str], start: int, end: int) -> int:
        state = 0
        for at in range(start, end):
            state = (state << 1 | 1) & masks.get(subject[at], wild)
            if state & done:
                return at + 1
        return -1

    return search
