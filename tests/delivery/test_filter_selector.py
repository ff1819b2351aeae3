"""Selectors: the examples of JMS 2.0, 3.8.1, the names, and what is refused where."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

from amqp10msg import Char, Decimal64, Decimal128, Float, Message, Symbol, Timestamp, UInt, ULong
from amqp10msg.delivery.filters import ExpressionError, Selector

pytestmark = pytest.mark.once


def result(text: str, **properties: Any) -> Any:
    return Selector(text).result(Message(application_properties=properties))


@pytest.mark.parametrize(
    "text, properties, expected",
    [
        ("age BETWEEN 15 AND 19", {"age": 15}, True),
        ("age BETWEEN 15 AND 19", {"age": 20}, False),
        ("age NOT BETWEEN 15 AND 19", {"age": 20}, True),
        ("age NOT BETWEEN 15 AND 19", {"age": 14}, True),
        ("age NOT BETWEEN 15 AND 19", {"age": 15}, False),
        ("age NOT BETWEEN 15 AND 19", {"age": 19}, False),
        ("age NOT BETWEEN 15 AND 19", {}, None),
        ("age NOT BETWEEN 15 AND 19", {"age": "20"}, False),
        ("Country IN ('UK', 'US', 'France')", {"Country": "UK"}, True),
        ("Country IN ('UK', 'US', 'France')", {"Country": "Peru"}, False),
        ("Country NOT IN ('UK', 'US', 'France')", {"Country": "Peru"}, True),
        ("Country NOT IN ('UK', 'US', 'France')", {"Country": "UK"}, False),
        ("Country NOT IN ('UK', 'US', 'France')", {}, None),
        # What qpidd 1.40 and ActiveMQ 5.17 agree on: a list of another kind decides nothing.
        ("Country NOT IN ('UK')", {"Country": 5}, False),
        ("k NOT IN ('car')", {"k": 1.5}, False),
        ("k NOT IN ('car', 7)", {"k": 5}, False),
        ("k NOT IN (6, 7.5)", {"k": 5}, True),
        ("k NOT IN (6, 7.5)", {"k": Decimal64.from_decimal("5")}, True),
        ("k IN ('car')", {"k": 5}, False),
        # What both of them accept.
        ("i = 1AND b", {"i": 1, "b": True}, True),
        ("i = 1.5or b", {"i": 1, "b": True}, True),
        ("i BETWEEN 1.AND 0x2", {"i": 2}, True),
        ("i NOT BETWEEN 1dAND 2fOR b", {"i": 2, "b": True}, True),
        ("'abc' LIKE 'a%'", {}, True),
        ("(s) LIKE 'a%'", {"s": "abc"}, True),
        ("(s) NOT LIKE 'a%'", {}, None),
        ("(x) IN ('a')", {"x": "a"}, True),
        ("'x' IN ('x')", {}, True),
        ("(missing = 1) IS NULL", {}, True),
        ("(missing = 1) IS NULL", {"missing": 1}, False),
        ("(a) IS NULL", {}, True),
        ("a + b IS NOT NULL", {"a": 1, "b": 2}, True),
        ("5 IS NULL", {}, False),
        ("NOT NOT a AND NOT NOT NOT b", {"a": True, "b": False}, True),
        ("NOT NOT a", {"a": 1}, None),
        ("prop_name IS NULL", {}, True),
        ("prop_name IS NULL", {"prop_name": None}, True),
        ("prop_name IS NULL", {"prop_name": ""}, False),
        ("prop_name IS NOT NULL", {"prop_name": False}, True),
        ("JMSType = 'car' AND color = 'blue' AND weight > 2500", {"color": "blue"}, None),
        # A comparison of different kinds is false, whatever the sign.
        ("n = '1'", {"n": 1}, False),
        ("n <> '1'", {"n": 1}, False),
        ("n < 2", {"n": "1"}, False),
        ("b = 1", {"b": True}, False),
        ("b = TRUE", {"b": True}, True),
        ("b <> TRUE", {"b": True}, False),
        ("b < c", {"b": False, "c": True}, False),
        ("x = y", {"x": b"a", "y": b"a"}, True),
        ("x = 'a'", {"x": b"a"}, False),
        # Exact and approximate numbers compare with each other.
        ("n = 1.0", {"n": 1}, True),
        ("n = 1", {"n": 1.0}, True),
        # As Java promotes them: a long beside a double is rounded to one, beside a float to that.
        ("n = 9007199254740993", {"n": 9007199254740992.0}, True),
        ("n = 9007199254740992.0", {"n": 9007199254740993}, True),
        ("n <> 9007199254740992.0", {"n": 9007199254740993}, False),
        ("n > 9007199254740992.0", {"n": 9007199254740993}, False),
        ("n > 9007199254740992.0", {"n": 9007199254740995}, True),
        ("n IN (9007199254740992.0)", {"n": 9007199254740993}, True),
        ("n BETWEEN 1 AND 9007199254740992.0", {"n": 9007199254740993}, True),
        ("n = 16777217", {"n": Float(16777216.0)}, True),
        ("n = 16777217", {"n": 16777216.0}, False),
        ("n = m", {"n": 9007199254740993, "m": 9007199254740992.0}, True),
        ("n = m", {"n": 16777217, "m": Float(16777216.0)}, True),
        ("n = m", {"n": 9007199254740993, "m": 9007199254740992}, False),
        ("n = 9007199254740993", {"n": ULong(9007199254740993)}, True),
        ("n = 18446744073709551615", {"n": ULong(2**64 - 1)}, True),
        ("n > 1.1", {"n": Float(1.1)}, True),
        ("n = 1.1f", {"n": Float(1.1)}, True),
        ("n = 5", {"n": Decimal64.from_decimal("5.00")}, True),
        ("n = 0.5", {"n": Decimal128.from_decimal("0.5")}, True),
        ("n IN (0.1, 5)", {"n": Decimal128.from_decimal("0.1")}, True),
        ("n IN (0.1, 5)", {"n": Decimal128.from_decimal("5.0")}, True),
        ("n IN (0.1, 5)", {"n": Decimal128.from_decimal("6")}, False),
        ("n = 0.1", {"n": Decimal128.from_decimal("0.1")}, True),
        ("n = m", {"n": Decimal128.from_decimal("0.1"), "m": Decimal64.from_decimal("0.10")}, True),
        (
            "n = m",
            {
                "n": Decimal128.from_decimal("0.1"),
                "m": Decimal128.from_decimal("0.1000000000000000000000000000000001"),
            },
            False,
        ),
        ("n / 4 = 0.125", {"n": Decimal128.from_decimal("0.5")}, True),
        ("n < 1", {"n": Decimal128.from_decimal("1E-6000")}, True),
        ("n > 1", {"n": Decimal128.from_decimal("1E+6000")}, True),
        ("n <> n", {"n": Decimal128.from_decimal("NaN")}, True),
        ("n > 1E300", {"n": Decimal128.from_decimal("Infinity")}, True),
        ("n + 1 = 6", {"n": Decimal64.from_decimal("5")}, True),
        ("n = m", {"n": Decimal64.from_decimal("2E-398"), "m": -0.0}, False),
        ("n > m", {"n": Decimal64.from_decimal("2E-398"), "m": -0.0}, True),
        ("n IN (0.0)", {"n": Decimal64.from_decimal("-2E-398")}, False),
        ("n = m", {"n": Decimal64.from_decimal("0E-398"), "m": -0.0}, True),
        ("n < m", {"n": Decimal128.from_decimal("1E+6000"), "m": math.inf}, True),
        ("n = m", {"n": Decimal128.from_decimal("Infinity"), "m": math.inf}, True),
        ("t >= 1000", {"t": Timestamp(1000)}, True),
        # Text is text, whatever its AMQP type.
        ("s = 'x'", {"s": Symbol("x")}, True),
        ("s = 'x'", {"s": Char("x")}, True),
        ("s LIKE 'x%'", {"s": Symbol("xy")}, True),
        ("s < 'b'", {"s": "a"}, True),
        ("s LIKE 'x'", {"s": 5}, None),
        ("s NOT LIKE 'x'", {"s": 5}, None),
        # A literal may stand on either side.
        ("1 < n AND 2 <= n AND 3 > n AND 2 >= n AND 2 = n AND 1 <> n", {"n": 2}, True),
        ("2 < n", {"n": 2}, False),
        ("2 > n", {"n": 2}, False),
        ("3 <= n", {"n": 2}, False),
        ("1 >= n", {"n": 2}, False),
        # Arithmetic.
        ("7 / 2 = 3", {}, True),
        ("-7 / 2 = -3", {}, True),
        ("7 / 2.0 = 3.5", {}, True),
        ("1 / 0 = 1", {}, None),
        ("1.0 / 0 = 1", {}, None),
        ("2 + 3 * 4 = 14", {}, True),
        ("(2 + 3) * 4 = 20", {}, True),
        ("10 - 2 - 3 = 5", {}, True),
        ("100 / 5 / 2 = 10", {}, True),
        ("- n = -5", {"n": UInt(5)}, True),
        ("- - n = 5", {"n": UInt(5)}, True),
        ("-n * 2 = -10", {"n": 5}, True),
        ("n + 1 > 9223372036854775807", {"n": 2**63 - 1}, True),
        ("n + 1 = 2", {"n": True}, None),
        ("n + 1 = 2", {"n": "1"}, None),
        ("n * 1E300 * 1E300 > 1", {"n": 1}, True),
        # NOT binds tighter than AND, AND tighter than OR.
        ("NOT a AND b", {"a": False, "b": False}, False),
        ("NOT (a AND b)", {"a": False, "b": False}, True),
        ("a OR b AND c", {"a": True, "b": False, "c": False}, True),
        ("(a OR b) AND c", {"a": True, "b": False, "c": False}, False),
        ("NOT a = b", {"a": 1, "b": 2}, True),
        # What is no truth value counts as unknown.
        ("a AND b", {"a": 1, "b": True}, None),
        ("a AND b AND c", {"a": 1, "b": True, "c": True}, None),
        ("a AND b AND c", {"a": 1, "b": True, "c": False}, False),
        ("a OR b", {"a": 1, "b": True}, True),
        ("a OR b OR c", {"a": 1, "b": "x", "c": False}, None),
        ("NOT a", {"a": "x"}, None),
        # Words in any case, text with quotes, names with more than letters.
        ("a Is nOt nULl anD NOT (b BeTween 1 aNd 2)", {"a": 1, "b": 3}, True),
        ("s = 'it''s'", {"s": "it's"}, True),
        ("s = ''", {"s": ""}, True),
        ("$x_1 = 1 AND ärger = 2 AND a.b = 3", {"$x_1": 1, "ärger": 2, "a.b": 3}, True),
        ("e\u0301 = 1 AND €uro = 2", {"e\u0301": 1, "€uro": 2}, True),
        ("hyphenated_props:x-opt = 1 AND y = 2", {"x-opt": 1, "y": 2}, True),
        ("Nullable = 1 AND nott = 2", {"Nullable": 1, "nott": 2}, True),
        ("a\t=\r\n1\f", {"a": 1}, True),
        ("TRUE", {}, True),
        ("false", {}, False),
        ("", {}, True),
        (" \n", {}, True),
    ],
)
def test_by_example(text: str, properties: dict[str, Any], expected: bool | None) -> None:
    message = Message(application_properties=properties)

    assert expected is Selector(text).result(message)
    assert (expected is True) is Selector(text).matches(message)
    # What came over the wire has other classes than what a user gives, and means the same.
    assert expected is Selector(text).result(Message.decode(message.encode()))


T, F, U = "t", "f", "u"


@pytest.mark.parametrize(
    "left, right, conjunction, disjunction",
    [
        (T, T, True, True),
        (T, F, False, True),
        (T, U, None, True),
        (F, T, False, True),
        (F, F, False, False),
        (F, U, False, None),
        (U, T, None, True),
        (U, F, False, None),
        (U, U, None, None),
    ],
)
def test_the_truth_tables(
    left: str, right: str, conjunction: bool | None, disjunction: bool | None
) -> None:
    """JMS 2.0, tables 3-4 to 3-6, for two operands and for more."""
    values = {"t": True, "f": False}

    assert conjunction is result(f"{left} AND {right}", **values)
    assert disjunction is result(f"{left} OR {right}", **values)
    assert conjunction is result(f"{left} AND {right} AND t", **values)
    assert disjunction is result(f"{left} OR {right} OR f", **values)
    negated = {True: False, False: True, None: None}
    assert negated[conjunction] is result(f"NOT ({left} AND {right})", **values)


@pytest.mark.parametrize(
    "literal, value",
    [
        ("57", 57),
        ("-957", -957),
        ("+62", 62),
        ("7E3", 7000.0),
        ("-57.9E2", -5790.0),
        ("7.", 7.0),
        ("-95.7", -95.7),
        ("+6.2", 6.2),
        (".5", 0.5),
        ("5L", 5),
        ("5l", 5),
        ("0x1F", 31),
        ("0X1fL", 31),
        ("017", 15),
        ("00", 0),
        ("0b101", 5),
        ("1_000", 1000),
        ("0_7", 7),
        ("1e-2d", 0.01),
        ("5f", 5.0),
        ("5D", 5.0),
        ("09.5", 9.5),
        ("0x1.8p1", 3.0),
        ("0x.8P0f", 0.5),
        ("0x10p-1d", 8.0),
    ],
)
def test_numbers_as_java_writes_them(literal: str, value: float) -> None:
    assert result(f"n = {literal}", n=value) is True
    assert result(f"n = {literal}", n=value + 1) is False


@pytest.mark.parametrize(
    "text, position, problem",
    [
        ("a = 1 AND", 9, "expected a value, a name or (, not the end"),
        ("a = = 1", 4, "not ="),
        ("AND a", 0, "not AND"),
        ("a b", 2, "expected an operator or the end, not b"),
        ("(a = 1", 6, "not the end"),
        ("a = 1)", 5, "expected an operator or the end, not )"),
        ("()", 1, "not )"),
        ("a = 'x", 4, "no closing '"),
        ('a = "x"', 4, "single quotes"),
        ("a != 1", 2, "not equal is <>"),
        ("a % 2 = 1", 2, "no remainder"),
        ("[a] = 1", 0, "without brackets"),
        ("a-b ?", 4, "unexpected"),
        ("a \x00", 2, "U+0000"),
        ("a = 09", 4, "octal"),
        ("a = 1.2.3", 4, "not a Java number"),
        ("a = 5abc", 4, "not a Java number"),
        ("a = 0x", 4, "not a Java number"),
        ("a = 1e", 4, "not a Java number"),
        ("a = 1__", 4, "not a Java number"),
        ("a = ٣", 4, "not a Java number"),
        ("a = 1E400", 4, "too large"),
        ("a = 1E39f", 4, "too large"),
        ("a = 0x1p2000", 4, "too large"),
        ("a = 18446744073709551616", 4, "more than 64 bits"),
        ("a = 1 = 2", 6, "cannot be chained"),
        ("a < b < c", 6, "cannot be chained"),
        ("a IS NULL = TRUE", 10, "cannot be chained"),
        ("a = NOT b", 4, "parentheses"),
        ("a NOT = b", 6, "BETWEEN, IN or LIKE"),
        ("a IS 5", 5, "NULL or NOT NULL"),
        ("a IS NOT 5", 9, "expected NULL"),
        ("a = 1ANDY", 4, "not a Java number"),
        ("a = 1.5nulls", 4, "not a Java number"),
        ("a IN ()", 6, "not )"),
        ("a IN (b)", 6, "literals"),
        ("a IN ('x' 'y')", 10, "a comma or )"),
        ("a IN 'x'", 5, "( and a list"),
        ("a BETWEEN 1", 11, "AND and the upper bound"),
        ("a BETWEEN 1 OR 2", 12, "AND and the upper bound"),
        ("a BETWEEN 'a' AND 'b'", 10, "a number"),
        ("'a' + 1 = 2", 0, "a number"),
        ("a + TRUE = 2", 4, "a number"),
        ("-'a' = 2", 1, "a number"),
        ("1 + (a = 1) = 2", 4, "a number"),
        ("5", 0, "a condition"),
        ("'x'", 0, "a condition"),
        ("a + 1", 0, "a condition"),
        ("-a", 0, "a condition"),
        ("a = 1 AND 5", 10, "a condition"),
        ("NOT 'x'", 4, "a condition"),
        ("a = 1 OR b + 1", 9, "a condition"),
        ("a < TRUE", 4, "= and <> only"),
        ("(a = 1) > b", 0, "= and <> only"),
        ("UTC() > 1", 3, "not ("),
        ("amqp.pirority = 1", 0, "did you mean amqp.priority?"),
        ("amqp. = 1", 0, "there is no amqp."),
        ("amqp.annotation. = 1", 0, "there is no amqp.annotation."),
    ],
)
def test_what_is_wrong_and_where(text: str, position: int, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Selector(text)

    assert problem in caught.value.problem
    assert position == caught.value.position
    assert str(caught.value).startswith(f"line 1, column {position + 1}: ")


def test_the_excerpt_shows_the_line_and_a_caret() -> None:
    with pytest.raises(ExpressionError) as caught:
        Selector("a = 1\nAND b = ?\nAND c = 3")

    assert "AND b = ?\n        ^" == caught.value.excerpt
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(caught.value), caught.value.excerpt) == (str(again), again.excerpt)
    assert (2, 9) == (caught.value.line, caught.value.column)


def test_the_excerpt_of_a_long_line_is_cut() -> None:
    text = "a = 1 AND " * 20 + "? AND " + "b = 2 AND " * 20
    with pytest.raises(ExpressionError) as caught:
        Selector(text)

    shown, caret = caught.value.excerpt.split("\n")
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) <= 76
    assert "?" == shown[caret.index("^")]
