"""Expressions mean what a naive evaluator makes of their trees, and hostile ones cost little."""

from __future__ import annotations

import copy
import inspect
import operator
import pickle
import sys
from typing import Any

import pytest
from filter_trees import NAMES, SQL_NAMES, Writer, conditions, contents, evaluate
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10msg import (
    Char,
    Decimal64,
    Float,
    Int,
    Message,
    Symbol,
    Timestamp,
    ULong,
)
from amqp10msg.delivery.filters import (
    RABBITMQ,
    EvaluationError,
    ExpressionError,
    FilterLimits,
    Selector,
    SqlFilter,
)
from tests.effort import cost

CLASSES = [Selector, SqlFilter]
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def message_of(properties: dict[str, Any]) -> Message:
    return Message(application_properties=properties)


VALUES = st.one_of(
    st.sampled_from([1, 2, 1.0, True, "x", "y", b"x", None]),
    st.sampled_from([Int(1), ULong(1), Float(1.5), Symbol("x"), Char("x"), Timestamp(1)]),
    st.sampled_from([Decimal64.from_decimal("1"), Decimal64.from_decimal("2")]),
)


@given(
    st.none() | st.dictionaries(st.sampled_from("abcd"), VALUES),
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["1", "1.5", "'x'", "b"])),
        min_size=2,
        max_size=5,
    ),
    st.sampled_from(CLASSES),
)
def test_a_conjunction_of_equalities_is_what_each_of_them_is(
    held: dict[str, Any] | None, equalities: list[tuple[str, str]], cls: type[Selector | SqlFilter]
) -> None:
    message = Message(application_properties=held)
    each = [cls(f"{name} = {text}").result(message) for name, text in equalities]
    expected = False if False in each else None if None in each else True

    whole = cls(" AND ".join(f"{name} = {text}" for name, text in equalities))
    assert whole.result(message) is expected
    assert whole.matches(message) is (expected is True)


@settings(max_examples=200)
@given(conditions(NAMES, False), st.lists(contents(NAMES), min_size=3, max_size=3), st.randoms())
def test_a_selector_means_what_its_tree_means(tree: Any, drawn: list[Any], random: Any) -> None:
    text = Writer(random.choice, sql=False).text(tree)
    selector = Selector(text)

    for properties in drawn:
        expected = evaluate(tree, properties, sql=False)
        assert repr(expected) == repr(selector.result(message_of(properties))), text
        assert (expected is True) == selector.matches(message_of(properties))


@settings(max_examples=200)
@given(
    conditions(SQL_NAMES, True), st.lists(contents(SQL_NAMES), min_size=3, max_size=3), st.randoms()
)
def test_an_sql_filter_means_what_its_tree_means(tree: Any, drawn: list[Any], random: Any) -> None:
    text = Writer(random.choice, sql=True).text(tree)
    expressions = [SqlFilter(text), SqlFilter(text, dialect="oasis")]

    for properties in drawn:
        expected = evaluate(tree, properties, sql=True)
        for sql in expressions:
            assert repr(expected) == repr(sql.result(message_of(properties))), text
            assert (expected is True) == sql.matches(message_of(properties))


@settings(max_examples=200)
@given(
    conditions(SQL_NAMES, True), st.lists(contents(SQL_NAMES), min_size=3, max_size=3), st.randoms()
)
def test_the_broker_dialect_means_what_its_tree_means_there(
    tree: Any, drawn: list[Any], random: Any
) -> None:
    text = Writer(random.choice, sql=True).text(tree)
    sql = SqlFilter(text, dialect="rabbitmq-4.3")

    for properties in drawn:
        message = message_of(properties)
        try:
            expected = evaluate(tree, properties, sql=True, broker=True)
        except OverflowError:
            with pytest.raises(EvaluationError, match="ends the session"):
                sql.matches(message)
        else:
            assert repr(expected) == repr(sql.result(message)), text


@given(conditions(NAMES, False), contents(NAMES), st.randoms())
def test_unset_names_have_no_value(tree: Any, drawn: Any, random: Any) -> None:
    selector = Selector(Writer(random.choice, sql=False).text(tree))
    message = message_of(drawn)
    names = selector.unset_names(message)

    assert len(set(names)) == len(names)
    for name in names:
        assert name in selector.text
        assert None is Selector(name).result(message)
    for reason in selector.explain(message):
        for name, value in reason.values:
            assert value is None or name not in names
            assert value is not None or name in names or "NULL" in reason.condition.upper()


@given(conditions(NAMES, False), contents(NAMES), st.randoms())
def test_rejected_messages_have_correct_reasons(
    tree: Any, properties: dict[str, Any], random: Any
) -> None:
    selector = Selector(Writer(random.choice, sql=False).text(tree))
    message = message_of(properties)

    reasons = selector.explain(message)

    assert selector.matches(message) == (reasons == ())
    for reason in reasons:
        assert reason.result is not True
        # The condition is a selector itself: a part of this one.
        result = Selector(reason.condition).result(message)
        assert (result if result is False else None) is reason.result
        for name, value in reason.values:
            assert repr(properties.get(name)) == repr(value)


_PIECES = [
    "a",
    "b",
    "amqp.priority",
    "p.to",
    "[x y]",
    "1",
    "2.5",
    "'x'",
    '"y"',
    "0x0A",
    "TRUE",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "LIKE",
    "IN",
    "IS",
    "NULL",
    "ESCAPE",
    "UTC",
    "EXISTS",
    "=",
    "<>",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "(",
    ")",
    ",",
    "'",
    "[",
    "]",
    "\n",
    "?",
]


@pytest.mark.parametrize("cls", CLASSES)
@given(st.lists(st.sampled_from(_PIECES), max_size=14).map(" ".join) | st.text(max_size=20))
def test_any_text_parses_or_says_where_it_does_not(cls: Any, text: str) -> None:
    error = None
    try:
        expression = cls(text)
    except ExpressionError as caught:
        error = caught
    if error is None:
        assert expression.matches(Message(application_properties={"a": 1}), now=5) in (True, False)
        assert text == expression.text
        return
    assert 0 <= error.position <= len(text)
    assert text == error.text
    line = text.split("\n")[error.line - 1]
    assert 1 <= error.column <= len(line) + 1
    shown, caret = error.excerpt.split("\n")
    assert "^" == caret.strip()
    if error.position < len(text) and text[error.position].isprintable():
        assert text[error.position] == shown[len(caret) - 1]


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    "text",
    [
        "(" * 5_000 + "a = 1" + ")" * 5_000,
        "NOT " * 2_000 + "a",
        "a = " + "-(" * 2_000 + "1" + ")" * 2_000,
        "a = " + "-" * 8_000 + "1",
        "(a = 1 AND " * 700 + "b" + ")" * 700,
        "a IN (" * 1_000,
        "a = (b = " * 800,
        "'" + "''" * 4_000,
        "[" * 8_000,
        "a = " + "9" * 8_000,
        "a = 1E" + "9" * 8_000,
        "a = 1.0E" + "9" * 5_000,
        "x" * 100_000,
        "a" + "\ud800",
        "a = '\ud800'",
    ],
    ids=lambda text: text[:12].encode("unicode_escape").decode(),
)
def test_hostile_expressions_fail_fast(cls: Any, text: str) -> None:
    def refuse() -> None:
        with pytest.raises(ExpressionError):
            cls(text)

    assert cost(refuse, 1_000) < 1_000


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    "piece, joint", [("a = 1", " AND "), ("a = 1", " OR "), ("a", " + "), ("a", " * ")]
)
def test_long_chains_do_not_count_as_nesting(cls: Any, piece: str, joint: str) -> None:
    text = joint.join([piece] * 600)
    if piece == "a":
        text += " >= 1"
    message = Message(application_properties={"a": 1})

    assert cls(text).matches(message)
    assert cls(text).explain(message) == ()
    assert cls(text).explain(Message()) != ()


@pytest.mark.parametrize("cls", CLASSES)
def test_nesting_up_to_the_bound_works(cls: Any) -> None:
    for text in ("(" * 98 + "a = 1" + ")" * 98, "NOT " * 98 + "a = 1"):
        assert cls(text).matches(Message(application_properties={"a": 1}))


@pytest.mark.parametrize("cls", CLASSES)
def test_chain_of_not_does_not_count_as_nesting(cls: Any) -> None:
    """Brokers accept as many as their tokens allow; RabbitMQ 200."""
    message = Message(application_properties={"a": 1})
    for count in (100, 101, 196):
        expression = cls("NOT " * count + "a = 1", limits=RABBITMQ)
        assert (count % 2 == 0) is expression.result(message)
        assert expression.result(Message()) is None
    with pytest.raises(ExpressionError, match="NOT is repeated more than 200 times"):
        cls("NOT " * 201 + "a = 1")


@pytest.mark.parametrize("cls", CLASSES)
def test_deepest_nesting_within_200_tokens_is_accepted(cls: Any) -> None:
    """RabbitMQ 4.3.6 takes these, and does not know another bound than its tokens."""
    message = Message(application_properties={"a": 1, "b": True})
    signs = cls("-(" * 64 + "a" + ")" * 64 + " > 0", limits=RABBITMQ)
    negations = cls("NOT (" * 66 + "b" + ")" * 66, limits=RABBITMQ)

    assert signs.matches(message)
    assert negations.matches(message)


@given(
    st.integers(2**53 - 3, 2**53 + 3)
    | st.integers(2**24 - 3, 2**24 + 3)
    | st.integers(-(2**63), 2**63 - 1),
    st.floats(2.0**53 - 3, 2.0**53 + 4)
    | st.floats(2.0**24 - 2, 2.0**24 + 2)
    | st.floats(-(2.0**63), 2.0**63),
    st.booleans(),
    st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
)
def test_integers_beside_floats_are_those_of_the_language(
    whole: int, real: float, single: bool, sign: str
) -> None:
    """Java rounds the integer to the type of the other (JLS, 5.6); Erlang does not."""
    other = Float(real) if single else real
    message = Message(application_properties={"a": whole, "b": other})
    rounded = Float(whole) if single else float(whole)
    compared = OPERATORS[sign]

    for text in (f"a {sign} b", f"{whole} {sign} b"):
        assert compared(rounded, other) is Selector(text).result(message)
        assert compared(whole, other) is SqlFilter(text, dialect="rabbitmq-4.3").result(message)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_caller_deep_in_the_stack_gets_no_recursion_error(cls: Any) -> None:
    text = "(" * 90 + "a = 1" + ")" * 90

    def below(frames: int) -> Any:
        return cls(text) if frames == 0 else below(frames - 1)

    room = sys.getrecursionlimit() - len(inspect.stack(0))
    assert below(100) == cls(text)
    with pytest.raises(ExpressionError, match="the remaining stack"):
        below(room - 100)


def test_an_expression_costs_as_much_as_it_is_long() -> None:
    """Numbers that grow by multiplication stay as long as their factors together."""
    text = " * ".join(["a"] * 2_000) + " > 0"

    def evaluate() -> None:
        assert Selector(text).matches(Message(application_properties={"a": 2**63 - 1}))
        assert Selector(text).result(Message(application_properties={"a": 1e300})) is True

    assert cost(evaluate, 2_000) < 2_000


@pytest.mark.parametrize(
    "text, limits, problem",
    [
        ("a = 1", FilterLimits(length=4), "5 characters, and 4 are allowed"),
        ("a = 1", FilterLimits(tokens=2), "more than 2 tokens"),
        ("((a = 1))", FilterLimits(depth=2), "nested more than 2 deep"),
        ("a" * 4_097, RABBITMQ, "4,097 characters, and 4,096 are allowed"),
        ("a+" * 100 + "a = 1", RABBITMQ, "more than 200 tokens"),
    ],
)
def test_bounds_are_kept_and_can_be_chosen(text: str, limits: FilterLimits, problem: str) -> None:
    for cls in CLASSES:
        with pytest.raises(ExpressionError, match=problem):
            cls(text, limits=limits)
    assert (
        SqlFilter("a+" * 98 + "a = 1", limits=RABBITMQ).matches(
            Message(application_properties={"a": 1})
        )
        is False
    )


@pytest.mark.parametrize("field", ["length", "tokens", "depth"])
def test_bounds_are_positive(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        FilterLimits(**{field: 0})


@pytest.mark.parametrize(
    "expression",
    [
        Selector("a = 1"),
        Selector("a = 1", descriptor=Selector.SYMBOL),
        SqlFilter("EXISTS(a)", dialect="oasis"),
    ],
)
def test_expressions_can_be_copied_compared_and_hashed(expression: Any) -> None:
    for again in (
        copy.copy(expression),
        copy.deepcopy(expression),
        *[pickle.loads(pickle.dumps(expression))],
    ):
        assert expression == again
        assert hash(expression) == hash(again)
        assert again.matches(Message(application_properties={"a": 1}))
    assert Selector("a = 1") != Selector("a = 2")
    assert Selector("a = 1") != Selector("a = 1", descriptor=Selector.SYMBOL)
    assert SqlFilter("a = 1") != SqlFilter("a = 1", dialect="oasis")
