"""Matching of LIKE and topic patterns without backtracking.

A pattern is a sequence of elements: characters or words, `ONE`, which matches any single character
or word, and `MANY`, which matches any number of characters or words. The pattern is split at `MANY`
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

#: Maximum length of a segment with `ONE` that is searched by a regular expression. Without
#: compilation, this is faster than `ShiftAnd`.
_MAX_REGEX_SEGMENT_LENGTH: Final = 0 if COMPILED else 32


class _Wildcard:
    """The type of the sentinels `ONE` and `MANY`."""

    __slots__ = ()


ONE: Final = _Wildcard()
MANY: Final = _Wildcard()

#: An element of a pattern: a character or word, `ONE` or `MANY`.
Element: TypeAlias = str | _Wildcard
#: A function that returns whether a whole text, or a sequence of words, matches.
Matcher: TypeAlias = Callable[[Any], bool]
#: A function that returns the end of the leftmost match of a segment in ``subject[start:end]``, or
#: -1.
Search: TypeAlias = Callable[[Any, int, int], int]
#: A function that returns whether a segment matches a subject at an index. The subject must be long
#: enough.
MatchAt: TypeAlias = Callable[[Any, int], bool]


def compile_like(pattern: Sequence[Element]) -> Callable[[str], bool]:
    """Return a function that tests whether a text matches a pattern of characters."""
    segments = _split_at_many(pattern)
    if all(ONE not in segment for segment in segments):
        # Most patterns: the methods of str run in linear time and are written in C.
        return _compile_without_one(["".join(map(str, segment)) for segment in segments])
    return _compile_segments(segments, _text_searcher, _text_matcher_at)


def steps_per_character(pattern: Sequence[Element]) -> int:
    """Return the maximum number of steps to match a pattern, per character of the text.

    With the compiled kernel a step takes about 1 ns.
    """
    return max(map(_steps_per_character_of_segment, _split_at_many(pattern)))


def _steps_per_character_of_segment(segment: list[Element]) -> int:
    """Return the maximum number of steps to search for a segment, per character of the text."""
    if ONE not in segment:
        return 2 + min(len(segment), 100) // 4  # the cost of str.find
    # Searching for a segment with other characters than ASCII needs a dict lookup per character.
    is_ascii = all(element is ONE or str(element).isascii() for element in segment)
    return 2 + 2 * (-(-len(segment) // 64)) + (0 if is_ascii else 30)


def steps_per_word(pattern: Sequence[Element]) -> int:
    """Return the maximum number of steps to match a pattern of words, per word of the subject."""
    return 100 + max(map(len, _split_at_many(pattern))) // 8


def compile_words(pattern: Sequence[Element]) -> Callable[[Sequence[str]], bool]:
    """Return a function that tests whether words match a pattern of words."""
    return _compile_segments(_split_at_many(pattern), _word_searcher, _word_matcher_at)


def _split_at_many(pattern: Sequence[Element]) -> list[list[Element]]:
    """Split a pattern into segments, at each `MANY`."""
    segments: list[list[Element]] = [[]]
    for element in pattern:
        if element is MANY:
            segments.append([])
        else:
            segments[-1].append(element)
    return segments


def _compile_without_one(segments: list[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a text matches a pattern that has no `ONE`."""
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
            # Take the leftmost match: it leaves the most text for the next segments.
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
    """Return a function that tests whether a text, or a sequence of words, matches a pattern.

    Args:
        segments: the segments of the pattern.
        searcher: returns the function that searches for a segment.
        matcher_at: returns the function that tests whether a segment matches at an index.
    """
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
            # Take the leftmost match: it leaves the most text for the next segments.
            index = search(subject, index, end)
            if index < 0:
                return False
        return True

    return match


def _text_matcher_at(segment: list[Element]) -> MatchAt:
    """Return a function that tests whether a segment matches at an index of a text."""
    if ONE not in segment:
        prefix = "".join(map(str, segment))
        return lambda text, index: bool(text.startswith(prefix, index))
    match = _segment_regex(segment).match
    return lambda text, index: match(text, index) is not None


def _segment_regex(segment: list[Element]) -> re.Pattern[str]:
    """Return a regular expression for a segment, in which ``.`` stands for `ONE`."""
    return re.compile(
        "".join(re.escape(element) if isinstance(element, str) else "." for element in segment),
        re.DOTALL,
    )


def _text_searcher(segment: list[Element]) -> Search:
    """Return a function that searches a text for a segment, by the fastest method."""
    leading_ones = next(
        (i for i, element in enumerate(segment) if element is not ONE), len(segment)
    )
    trailing_ones = next(
        (i for i, element in enumerate(reversed(segment)) if element is not ONE), 0
    )
    core = segment[leading_ones : len(segment) - trailing_ones]
    size = len(core)
    if not core:
        return lambda _, start, end: start + leading_ones if start + leading_ones <= end else -1
    if ONE not in core:
        plain = "".join(map(str, core))

        def search_by_find(text: str, start: int, end: int) -> int:
            index = text.find(plain, start + leading_ones, max(end - trailing_ones, 0))
            return index if index < 0 else index + size + trailing_ones

        return search_by_find
    if size <= _MAX_REGEX_SEGMENT_LENGTH:
        find = _segment_regex(core).search

        def search_by_regex(text: str, start: int, end: int) -> int:
            match = find(text, start + leading_ones, max(end - trailing_ones, 0))
            return -1 if match is None else match.end() + trailing_ones

        return search_by_regex
    find_by_shift_and = ShiftAnd(
        [element if isinstance(element, str) else None for element in core]
    ).find

    def search_by_shift_and(text: str, start: int, end: int) -> int:
        match_end = find_by_shift_and(str(text), start + leading_ones, end - trailing_ones)
        return match_end if match_end < 0 else match_end + trailing_ones

    return search_by_shift_and


# Patterns of words.


def _word_matcher_at(segment: list[Element]) -> MatchAt:
    """Return a function that tests whether a segment matches words at an index."""

    def matches(words: Sequence[str], start: int) -> bool:
        return all(
            element is ONE or element == words[start + index]
            for index, element in enumerate(segment)
        )

    return matches


def _word_searcher(segment: list[Element]) -> Search:
    """Return a function that searches words for a segment, by Shift-And with one integer as state.

    Bit i of the state is set if the last i + 1 words match the first i + 1 elements of the segment.
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
