"""LIKE and topic patterns: against naive matchers, and in linear time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Described, Message, Properties, UInt, ULong, encode_value
from amqp10msg.delivery.filters import (
    DirectBinding,
    EvaluationError,
    ExpressionError,
    FilterLimits,
    FilterSet,
    Selector,
    SqlFilter,
    TopicBinding,
)
from amqp10msg.delivery.filters._evaluators import ShiftAnd
from tests.effort import cost

pytestmark = pytest.mark.once


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def like(subject: str, pattern: str, escape: str | None = None) -> bool:
    tail = "" if escape is None else f" ESCAPE {literal(escape)}"
    message = Message(application_properties={"s": subject})
    answers = {
        cls(f"s LIKE {literal(pattern)}{tail}").matches(message) for cls in (Selector, SqlFilter)
    }
    (answer,) = answers
    assert Selector(f"s NOT LIKE {literal(pattern)}{tail}").matches(message) is not answer
    return answer


def naive(subject: Sequence[str], pattern: Sequence[str], one: str, many: str) -> bool:
    """Try every way; only for short subjects."""
    if not pattern:
        return not subject
    if pattern[0] == many:
        return any(
            naive(subject[skip:], pattern[1:], one, many) for skip in range(len(subject) + 1)
        )
    return (
        bool(subject)
        and pattern[0] in (one, subject[0])
        and naive(subject[1:], pattern[1:], one, many)
    )


SUBJECTS = st.text("ab☀", max_size=8)


@given(SUBJECTS, st.text("ab☀%%_", max_size=8))
def test_like_matches_what_a_naive_matcher_does(subject: str, pattern: str) -> None:
    assert naive(subject, pattern, "_", "%") == like(subject, pattern)


@pytest.mark.parametrize("size", range(6))
def test_like_of_every_short_pattern(size: int) -> None:
    """Random subjects seldom almost match."""
    subjects = ["".join(text) for n in range(5) for text in itertools.product("ab", repeat=n)]
    messages = [(text, Message(application_properties={"s": text})) for text in subjects]
    for characters in itertools.product("ab%_", repeat=size):
        pattern = "".join(characters)
        selector = Selector(f"s LIKE '{pattern}'")
        expected = [text for text in subjects if naive(text, pattern, "_", "%")]
        assert expected == [text for text, message in messages if selector.matches(message)]


@given(st.lists(st.text("ab☀", max_size=2) | st.none(), min_size=1, max_size=6), st.data())
def test_like_matches_what_its_pattern_was_made_from(
    parts: list[str | None], data: st.DataObject
) -> None:
    """Random patterns seldom match; these always do."""
    pattern = "".join("%" if part is None else part for part in parts)
    subject = "".join(data.draw(SUBJECTS) if part is None else part for part in parts)
    holes = data.draw(st.just(set()) | st.sets(st.integers(0, 11)))
    pattern = "".join(
        "_" if index in holes and char != "%" else char for index, char in enumerate(pattern)
    )

    assert like(subject, pattern)


@given(st.text("a%_!", max_size=6), st.text("a%_!", max_size=6))
def test_an_escaped_text_matches_itself_alone(text: str, other: str) -> None:
    pattern = "".join(f"!{char}" for char in text)

    assert like(text, pattern, "!")
    assert (other == text) == like(other, pattern, "!")


@pytest.mark.parametrize(
    "subject, pattern, escape, expected",
    [
        # JMS 2.0, 3.8.1.1.
        ("123", "12%3", None, True),
        ("12993", "12%3", None, True),
        ("1234", "12%3", None, False),
        ("lose", "l_se", None, True),
        ("loose", "l_se", None, False),
        ("_foo", r"\_%", "\\", True),
        ("bar", r"\_%", "\\", False),
        ("", "", None, True),
        ("", "%", None, True),
        ("", "%%", None, True),
        ("", "_", None, False),
        ("a", "a%a", None, False),
        ("aa", "a%a", None, True),
        ("abcab", "ab%ab", None, True),
        ("aba", "ab%ba", None, False),
        ("a test message", "%test%", None, True),
        ("a test message", "a%es%ss%e", None, True),
        ("a test message", "a%ss%es%e", None, False),
        ("a test message", "%t%t%t%", None, False),
        ("aba", "%ab%ba%", None, False),
        ("abba", "%ab%ba%", None, True),
        ("abaxx", "%ab%ba%", None, False),
        ("abaxx", "%a_%_a%", None, False),
        ("aba", "%a_%_a%", None, False),
        ("line\nbreak", "line%k", None, True),
        ("line\nbreak", "line_break", None, True),
        # Characters, not code units.
        ("☀😎", "__", None, True),
        # What regular expressions would take for something else.
        (".*[a](b)\\d^$", ".*[a](b)\\d^$", None, True),
        ("x", ".", None, False),
        ("AB", "ab", None, False),
    ],
)
def test_like_by_example(subject: str, pattern: str, escape: str | None, expected: bool) -> None:
    assert expected is like(subject, pattern, escape)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("a LIKE 'x!' ESCAPE '!'", "ends with its escape character"),
        ("a LIKE 'x' ESCAPE ''", "one character"),
        ("a LIKE 'x' ESCAPE 'ab'", "one character"),
        ("a LIKE 'x' ESCAPE", "one character"),
        ("a LIKE b", "a pattern in quotes"),
    ],
)
def test_a_wrong_pattern_is_refused(text: str, problem: str) -> None:
    for cls in (Selector, SqlFilter):
        with pytest.raises(ExpressionError, match=problem):
            cls(text)


def test_patterns_of_sql_have_no_control_characters() -> None:
    """RabbitMQ refuses them."""
    with pytest.raises(ExpressionError, match="control characters"):
        SqlFilter("a LIKE 'x\x07'")
    assert Selector("a LIKE 'x\x07'").matches(Message(application_properties={"a": "x\x07"}))


@pytest.mark.parametrize("pattern", ["%_" * 1_900 + "x", "%a" * 1_900 + "x", "%a_b" * 900 + "x"])
def test_a_hostile_pattern_costs_little(pattern: str) -> None:
    """Each of these would backtrack for years in a regular expression."""
    selector = Selector(f"s LIKE '{pattern}%'")
    message = Message(application_properties={"s": "a" * 50_000})

    assert not selector.matches(message)
    assert cost(lambda: selector.matches(message), 2_000) < 2_000


def test_a_long_segment_with_wildcards_costs_little() -> None:
    selector = Selector(f"s LIKE '%{'a_' * 3_000}b%'")
    message = Message(application_properties={"s": "a" * 100_000})

    assert not selector.matches(message)
    assert cost(lambda: selector.matches(message), 2_000) < 2_000


def test_many_patterns_on_a_long_text_cost_little() -> None:
    """2 kB of a filter and 1 MiB of a message took 14 s."""
    selector = Selector(" OR ".join(["s LIKE '%a_b%'"] * 100))
    message = Message(application_properties={"s": "a" * 2**20})

    assert not selector.matches(message)
    assert cost(lambda: selector.matches(message), 4_000) < 4_000


@pytest.mark.parametrize("operand", ["s", "b"])
@pytest.mark.parametrize(
    "pattern", ["%a_b%", "%ab%ba%", "a%", "_", "%" + "a_" * 40 + "b%", "%" + "a_" * 400 + "b%"]
)
def test_expression_that_could_exceed_its_steps_is_not_evaluated(
    pattern: str, operand: str
) -> None:
    limits = FilterLimits(length=100_000, steps=1_000_000)
    one = SqlFilter(f"{operand} LIKE '{pattern}'", limits=limits)
    many = SqlFilter(" OR ".join([one.text] * 100), limits=limits)

    def message(size: int) -> Message:
        return Message(application_properties={"s": "a" * size, "b": b"a" * size})

    for expression, size in ((one, 1_000), (many, 10)):
        assert expression.matches(message(size)) is (pattern == "a%")
        for call in (expression.matches, expression.explain, expression.result):
            with pytest.raises(EvaluationError, match=r"too long .* raise FilterLimits\.steps"):
                call(message(size * 1_000))
    assert many.result(Message()) is None


@given(st.lists(st.sampled_from(["a", "b", "☀", None]), min_size=1, max_size=150), st.data())
def test_shift_and_finds_the_leftmost_place(wanted: list[str | None], data: st.DataObject) -> None:
    """Where the state is one word, and where it is several."""
    inside = "".join(data.draw(st.sampled_from("ab")) if one is None else one for one in wanted)
    text = data.draw(st.sampled_from(["", "a", "b☀", "aab"])) + data.draw(
        st.sampled_from([inside, inside[1:], inside[:-1] + "c", inside + inside])
    )
    start = data.draw(st.integers(0, 3))
    end = len(text) - data.draw(st.integers(0, 2))
    ends = [
        at + len(wanted)
        for at in range(start, end - len(wanted) + 1)
        if all(one in (None, text[at + index]) for index, one in enumerate(wanted))
    ]

    for width in (data.draw(st.integers(1, 63)), 64):
        assert (ends or [-1])[0] == ShiftAnd(wanted, width).find(text, start, end)


@pytest.mark.parametrize(
    "pattern, steps",
    [
        ("%a_b%", 4),
        ("a_b", 4),
        ("%" + "a_" * 32 + "%a", 4),
        ("%" + "a_" * 33 + "%", 6),
        ("%" + "a_" * 2_000 + "%", 128),
        ("%☀_b%", 34),
        ("%d", 2),
        ("%abcd%ab%", 3),
        ("%" + "a" * 4_000 + "%", 27),
    ],
)
def test_steps_are_counted_for_each_character(pattern: str, steps: int) -> None:
    """A few for every 64 characters of the longest part of the pattern, not for each of them."""
    for cls in (Selector, SqlFilter):
        expression = cls(f"s LIKE '{pattern}' OR s LIKE '{pattern}'")
        expression.matches(Message(application_properties={"s": "c" * 100}))
        assert 2 * 100 * steps == expression.steps
        expression.matches(Message())
        expression.matches(Message(application_properties={"s": "c" * 50}))
        assert 2 * 150 * steps == expression.steps


def test_the_steps_of_a_set_are_those_of_its_filters() -> None:
    filters = FilterSet(
        {"a": Selector("s LIKE '%a_b%'"), "b": None, "c": SqlFilter("s NOT LIKE '%b_b'")}
    )
    filters.matches(Message(application_properties={"s": "a b" * 10}))

    assert 0 == TopicBinding("a.#").steps
    assert 2 * 30 * 4 == filters.steps


def test_functions_of_texts_are_bounded_too() -> None:
    text = " OR ".join(["LOWER(s) = 'x'"] * 100)
    sql = SqlFilter(text, dialect="oasis", limits=FilterLimits(steps=1_000_000))

    assert not sql.matches(Message(application_properties={"s": "a" * 900}))
    with pytest.raises(EvaluationError, match="too long"):
        sql.matches(Message(application_properties={"s": "a" * 1_100}))


# Segments with wildcards of every length are found where a naive search finds them.


@given(
    st.lists(st.sampled_from(["a", "b", "_"]), min_size=1, max_size=200).map("".join),
    st.integers(0, 3),
    st.data(),
)
def test_a_segment_is_found_at_its_leftmost_place(
    segment: str, before: int, data: st.DataObject
) -> None:
    found = "".join(data.draw(st.sampled_from("ab")) if one == "_" else one for one in segment)
    subject = "b" * before + found + "ab"

    assert like(subject, f"%{segment}%ab")
    assert like(subject, f"%{segment}__")
    assert not like(subject, f"%{segment}c%")
    assert not like(found[1:], f"%{segment}%")


# Topics.


def topic(subject: str | None, pattern: str) -> bool:
    return TopicBinding(pattern).matches(Message(properties=Properties(subject=subject)))


WORDS = st.lists(st.sampled_from(["a", "b", "", "ab"]), max_size=6).map(".".join)


@given(WORDS, st.lists(st.sampled_from(["a", "b", "", "*", "#", "#"]), max_size=6).map(".".join))
def test_a_topic_matches_what_a_naive_matcher_does(subject: str, pattern: str) -> None:
    words = subject.split(".") if subject else []
    wanted = pattern.split(".") if pattern else []

    assert naive(words, wanted, "*", "#") == topic(subject, pattern)


@pytest.mark.parametrize(
    "subject, pattern, expected",
    [
        # The examples of the definition.
        ("usd.stock", "*.stock.#", True),
        ("eur.stock.db", "*.stock.#", True),
        ("stock.nasdaq", "*.stock.#", False),
        ("a", "#", True),
        ("", "#", True),
        ("", "*", False),
        ("", "", True),
        ("a.b", "a.#.b", True),
        ("a.x.y.b", "a.#.b", True),
        ("a.b.b", "#.b", True),
        ("a", "a.#", True),
        ("ab", "a*", False),
        ("a*", "a*", True),
        # Without a subject only a single # passes.
        (None, "#", True),
        (None, "#.#", False),
        (None, "", False),
    ],
)
def test_topics_by_example(subject: str | None, pattern: str, expected: bool) -> None:
    assert expected is topic(subject, pattern)


def test_a_subject_that_is_no_text_is_none() -> None:
    """As it comes from lenient decoding: a string would have stood there."""
    properties = encode_value(Described(ULong(0x73), [None, None, None, UInt(5)]))
    message = Message.decode(properties + Message("x").encode(), strict=False)

    assert not TopicBinding("*").matches(message)
    assert TopicBinding("#").matches(message)
    assert not DirectBinding("5").matches(message)


def test_without_properties_only_a_single_hash_passes() -> None:
    assert TopicBinding("#").matches(Message())
    assert not TopicBinding("*").matches(Message())


@pytest.mark.parametrize("pattern", ["#.*." * 1_000 + "x", "#.a.*." * 1_000 + "x"])
def test_a_hostile_topic_costs_little(pattern: str) -> None:
    subject = ".".join(["a"] * 20_000)

    assert not topic(subject, f"{pattern}.#")
    assert cost(lambda: topic(subject, f"{pattern}.#"), 2_000) < 2_000


def test_why_a_topic_does_not_match() -> None:
    (reason,) = TopicBinding("*.stock").explain(Message(properties=Properties(subject="x.y.z")))

    assert "subject matches '*.stock' is false: subject is 'x.y.z'" == str(reason)
    assert () == TopicBinding("#").explain(Message())
