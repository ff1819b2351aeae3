"""Wildcards of LIKE and topic patterns, matched without backtracking.

A pattern is a sequence of characters or words, of `ONE`, which matches any one of them, and of
`MANY`, which matches any number. It is split at `MANY` into segments of fixed length, whose
leftmost matches are found one after another: each character is looked at once, and costs a few
operations for every 64 characters of the longest segment. One regular expression for all of it
would backtrack, in exponential time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from amqp10msg.delivery.filters._evaluators import ShiftAnd
from amqp10msg.wire.kernel import COMPILED

#: Characters up to which a regular expression finds a segment faster than Shift-And in Python.
_LONGEST_REGEX: Final = 0 if COMPILED else 32


class _Wildcard:
    __slots__ = ()


ONE: Final = _Wildcard()
MANY: Final = _Wildcard()

#: An element of a pattern: a character or word, `ONE` or `MANY`.
Element: TypeAlias = str | _Wildcard
Matcher: TypeAlias = Callable[[Any], bool]
#: Returns the end of the leftmost match of a segment in ``subject[start:end]``, or -1.
Search: TypeAlias = Callable[[Any, int, int], int]
#: Returns whether a segment stands at a place, where the subject is long enough for it.
Stands: TypeAlias = Callable[[Any, int], bool]


def compile_like(pattern: Sequence[Element]) -> Callable[[str], bool]:
    """Return a function that tests whether a text matches a pattern of characters."""
    segments = _split(pattern)
    if all(ONE not in segment for segment in segments):
        # The usual patterns: string methods are linear and written in C.
        return _plain(["".join(map(str, segment)) for segment in segments])
    return _general(segments, _text_search, _text_stands)


def weight_of(pattern: Sequence[Element]) -> int:
    """Return the steps that a pattern costs per character of a text, at most.

    A step takes about 1 ns where the kernel is compiled.
    """
    return max(map(_weight_of_segment, _split(pattern)))


def _weight_of_segment(segment: list[Element]) -> int:
    if ONE not in segment:
        return 2 + min(len(segment), 100) // 4  # str.find
    # Characters that are not ASCII are looked up in a dict.
    is_ascii = all(one is ONE or str(one).isascii() for one in segment)
    return 2 + 2 * (-(-len(segment) // 64)) + (0 if is_ascii else 30)


def weight_of_words(pattern: Sequence[Element]) -> int:
    """Return the steps that a pattern costs per word of a text, at most."""
    return 100 + max(map(len, _split(pattern))) // 8


def compile_words(pattern: Sequence[Element]) -> Callable[[Sequence[str]], bool]:
    """Return a function that tests whether words match a pattern of words."""
    return _general(_split(pattern), _word_search, _words_stand)


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


def _general(
    segments: list[list[Element]],
    searcher: Callable[[list[Element]], Search],
    standing: Callable[[list[Element]], Stands],
) -> Matcher:
    first, last = segments[0], segments[-1]
    starts, ends = standing(first), standing(last)
    if len(segments) == 1:
        size = len(first)
        return lambda subject: len(subject) == size and starts(subject, 0)
    middle = [searcher(segment) for segment in segments[1:-1] if segment]
    shortest = sum(map(len, segments))

    def match(subject: Sequence[str]) -> bool:
        end = len(subject) - len(last)
        if len(subject) < shortest or not starts(subject, 0) or not ends(subject, end):
            return False
        at = len(first)
        for search in middle:
            # The leftmost match leaves the most room for the next segments.
            at = search(subject, at, end)
            if at < 0:
                return False
        return True

    return match


def _text_stands(segment: list[Element]) -> Stands:
    """Return the test for a segment at a place of a text."""
    if ONE not in segment:
        wanted = "".join(map(str, segment))
        return lambda text, at: bool(text.startswith(wanted, at))
    found = _regex(segment).match
    return lambda text, at: found(text, at) is not None


def _regex(segment: list[Element]) -> re.Pattern[str]:
    return re.compile(
        "".join(re.escape(one) if isinstance(one, str) else "." for one in segment), re.DOTALL
    )


def _text_search(segment: list[Element]) -> Search:
    """Return the search for a segment in a text."""
    lead = next((at for at, wanted in enumerate(segment) if wanted is not ONE), len(segment))
    trail = next((at for at, wanted in enumerate(reversed(segment)) if wanted is not ONE), 0)
    core = segment[lead : len(segment) - trail]
    size = len(core)
    if not core:
        return lambda _, start, end: start + lead if start + lead <= end else -1
    if ONE not in core:
        text_find = "".join(map(str, core))

        def search_plain(text: str, start: int, end: int) -> int:
            found = text.find(text_find, start + lead, max(end - trail, 0))
            return found if found < 0 else found + size + trail

        return search_plain
    if size <= _LONGEST_REGEX:
        find = _regex(core).search

        def search(text: str, start: int, end: int) -> int:
            found = find(text, start + lead, max(end - trail, 0))
            return -1 if found is None else found.end() + trail

        return search
    inner = ShiftAnd([one if isinstance(one, str) else None for one in core]).find

    def search_wild(text: str, start: int, end: int) -> int:
        found = inner(str(text), start + lead, end - trail)
        return found if found < 0 else found + trail

    return search_wild


# Words.


def _words_stand(segment: list[Element]) -> Stands:
    def stands(words: Sequence[str], at: int) -> bool:
        return all(
            wanted is ONE or wanted == words[at + index] for index, wanted in enumerate(segment)
        )

    return stands


def _word_search(segment: list[Element]) -> Search:
    """Return the search for a segment by Shift-And, whose state is one integer here.

    Bit i of it is set while the last i + 1 words match the first i + 1 of the segment.
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
