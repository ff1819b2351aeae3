"""Matching of LIKE and topic patterns without backtracking.

A pattern is a sequence of elements: characters or words, `ONE`, which matches any character or
word, and `MANY`, which matches any number of characters or words. The pattern is split at `MANY`
into segments of fixed length, which are searched from left to right. Each character of the text is
read once, at the cost of a few operations per 64 characters of the longest segment. A single
regular expression for the whole pattern would backtrack, in exponential time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from amqp10msg.delivery.filters._evaluators import ShiftAnd
from amqp10msg.wire.kernel import COMPILED

#: Maximum length of a segment that a regular expression finds faster than Shift-And in Python.
_MAX_REGEX_LENGTH: Final = 0 if COMPILED else 32


class _Wildcard:
    __slots__ = ()


ONE: Final = _Wildcard()
MANY: Final = _Wildcard()

#: An element of a pattern: a character or word, `ONE` or `MANY`.
Element: TypeAlias = str | _Wildcard
Matcher: TypeAlias = Callable[[Any], bool]
#: Returns the end of the leftmost match of a segment in ``subject[start:end]``, or -1.
Search: TypeAlias = Callable[[Any, int, int], int]
#: Returns whether a segment matches at an index of a subject that is long enough.
MatchAt: TypeAlias = Callable[[Any, int], bool]


def compile_like(pattern: Sequence[Element]) -> Callable[[str], bool]:
    """Return a function that tests whether a text matches a pattern of characters."""
    segments = _split(pattern)
    if all(ONE not in segment for segment in segments):
        # The usual patterns: string methods run in linear time and are written in C.
        return _compile_plain(["".join(map(str, segment)) for segment in segments])
    return _compile_segments(segments, _text_search, _text_match_at)


def weight_of(pattern: Sequence[Element]) -> int:
    """Return the maximum steps to match a pattern, per character of the text.

    With the compiled kernel a step lasts about 1 ns.
    """
    return max(map(_weight_of_segment, _split(pattern)))


def _weight_of_segment(segment: list[Element]) -> int:
    if ONE not in segment:
        return 2 + min(len(segment), 100) // 4  # str.find
    # Characters that are not ASCII are looked up in a dict.
    is_ascii = all(element is ONE or str(element).isascii() for element in segment)
    return 2 + 2 * (-(-len(segment) // 64)) + (0 if is_ascii else 30)


def weight_of_words(pattern: Sequence[Element]) -> int:
    """Return the maximum steps to match a pattern of words, per word of the text."""
    return 100 + max(map(len, _split(pattern))) // 8


def compile_words(pattern: Sequence[Element]) -> Callable[[Sequence[str]], bool]:
    """Return a function that tests whether words match a pattern of words."""
    return _compile_segments(_split(pattern), _word_search, _word_match_at)


def _split(pattern: Sequence[Element]) -> list[list[Element]]:
    """Split a pattern at each `MANY`: a pattern with n of these elements has n + 1 segments."""
    segments: list[list[Element]] = [[]]
    for element in pattern:
        if element is MANY:
            segments.append([])
        else:
            segments[-1].append(element)
    return segments


def _compile_plain(segments: list[str]) -> Callable[[str], bool]:
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
        index, end = len(first), len(text) - len(last)
        for segment in middle:
            # The leftmost match leaves the most room for the next segments.
            index = text.find(segment, index, end)
            if index < 0:
                return False
            index += len(segment)
        return True

    return match


def _compile_segments(
    segments: list[list[Element]],
    searcher: Callable[[list[Element]], Search],
    matcher_at: Callable[[list[Element]], MatchAt],
) -> Matcher:
    first, last = segments[0], segments[-1]
    matches_first, matches_last = matcher_at(first), matcher_at(last)
    if len(segments) == 1:
        size = len(first)
        return lambda subject: len(subject) == size and matches_first(subject, 0)
    middle = [searcher(segment) for segment in segments[1:-1] if segment]
    shortest = sum(map(len, segments))

    def match(subject: Sequence[str]) -> bool:
        end = len(subject) - len(last)
        if len(subject) < shortest:
            return False
        if not matches_first(subject, 0) or not matches_last(subject, end):
            return False
        index = len(first)
        for search in middle:
            # The leftmost match leaves the most room for the next segments.
            index = search(subject, index, end)
            if index < 0:
                return False
        return True

    return match


def _text_match_at(segment: list[Element]) -> MatchAt:
    """Return a function that tests whether a segment matches at an index of a text."""
    if ONE not in segment:
        prefix = "".join(map(str, segment))
        return lambda text, index: bool(text.startswith(prefix, index))
    match = _segment_regex(segment).match
    return lambda text, index: match(text, index) is not None


def _segment_regex(segment: list[Element]) -> re.Pattern[str]:
    return re.compile(
        "".join(re.escape(element) if isinstance(element, str) else "." for element in segment),
        re.DOTALL,
    )


def _text_search(segment: list[Element]) -> Search:
    """Return a function that searches a text for a segment."""
    lead = next((i for i, element in enumerate(segment) if element is not ONE), len(segment))
    trail = next((i for i, element in enumerate(reversed(segment)) if element is not ONE), 0)
    core = segment[lead : len(segment) - trail]
    size = len(core)
    if not core:
        return lambda _, start, end: start + lead if start + lead <= end else -1
    if ONE not in core:
        plain = "".join(map(str, core))

        def search_plain(text: str, start: int, end: int) -> int:
            index = text.find(plain, start + lead, max(end - trail, 0))
            return index if index < 0 else index + size + trail

        return search_plain
    if size <= _MAX_REGEX_LENGTH:
        find = _segment_regex(core).search

        def search(text: str, start: int, end: int) -> int:
            match = find(text, start + lead, max(end - trail, 0))
            return -1 if match is None else match.end() + trail

        return search
    find_core = ShiftAnd([element if isinstance(element, str) else None for element in core]).find

    def search_shift_and(text: str, start: int, end: int) -> int:
        match_end = find_core(str(text), start + lead, end - trail)
        return match_end if match_end < 0 else match_end + trail

    return search_shift_and


# Words.


def _word_match_at(segment: list[Element]) -> MatchAt:
    def matches(words: Sequence[str], start: int) -> bool:
        return all(
            element is ONE or element == words[start + index]
            for index, element in enumerate(segment)
        )

    return matches


def _word_search(segment: list[Element]) -> Search:
    """Return a function that searches words for a segment by Shift-And; the state is an integer.

    Bit i of the state is set if the last i + 1 words match the first i + 1 of the segment.
    """
    complete = 1 << (len(segment) - 1)
    wild = sum(1 << index for index, element in enumerate(segment) if element is ONE)
    masks: dict[str, int] = {}
    for index, element in enumerate(segment):
        if isinstance(element, str):
            masks[element] = masks.get(element, wild) | 1 << index

    def search(subject: Sequence[str], start: int, end: int) -> int:
        state = 0
        for index in range(start, end):
            state = (state << 1 | 1) & masks.get(subject[index], wild)
            if state & complete:
                return index + 1
        return -1

    return search
