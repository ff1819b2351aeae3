"""SQL filter expressions: what RabbitMQ documents, the rest of the draft, and what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from amqp10msg import Header, Message, Properties, Symbol, Timestamp, UInt
from amqp10msg.delivery.filters import EvaluationError, ExpressionError, SqlFilter

pytestmark = pytest.mark.once

MESSAGE = Message(
    header=Header(priority=5),
    delivery_annotations={"x-hop": 1},
    message_annotations={"x-opt-n": 2},
    properties=Properties(
        message_id=uuid.UUID("01234567-89ab-cdef-0123-456789abcdef"),
        user_id=b"Bob",
        to="orders",
        subject="Order 66",
        content_type="application/json",
        absolute_expiry_time=1_000,
        creation_time=500,
        group_id="Group A",
        group_sequence=9,
    ),
    application_properties={
        "country": "UK",
        "weight": UInt(5),
        "price": 10.5,
        "active": True,
        "premium": False,
        "temperature": -5,
        "missing": None,
        "order-status": "pending",
        "and": 1,
        "注文": "x",
        "b[r]": 2,
        "score": 0,
        "octets": b"\x00\x80",
        "symbol": Symbol("sym"),
        "when": Timestamp(77),
    },
    footer={"x-sum": 3},
)


@pytest.mark.parametrize(
    "text, expected",
    [
        # Names.
        ("country = 'UK'", True),
        ("a.country = 'UK' AND application_properties.country = 'UK'", True),
        ("[country] = 'UK' AND [order-status] = 'pending' AND [and] = 1", True),
        ("[注文] = 'x' AND [b[[r]]] = 2 AND [] IS NULL", True),
        ("header.priority = 5 AND h.priority > 4", True),
        ("properties.to = 'orders' AND p.to = \"orders\"", True),
        ("p.subject LIKE 'Order%'", True),
        ("p.correlation_id IS NULL AND p.message_id IS NOT NULL", True),
        ("p.content_type IN ('text/plain', 'application/json')", True),
        ("p.group_id = 'Group A' AND p.group_sequence % 3 = 0", True),
        ("p.creation_time < 1753365622460", True),
        ("p.absolute_expiry_time IS NULL OR p.absolute_expiry_time > UTC()", True),
        ("UTC() = 900", True),
        ("when = 77", True),
        # Text and bytes are alike, and a UUID is its bytes.
        ("properties.user_id = 'Bob' AND p.user_id = 0x426F62", True),
        ("p.user_id LIKE 'B%'", True),
        ("p.user_id IN ('Alice', 'Bob')", True),
        ("p.user_id IN ('Alice', 0x426F62)", True),
        ("p.user_id < 'Boc' AND p.user_id >= 0x42", True),
        ("p.message_id = 0x0123456789ABCDEF0123456789ABCDEF", True),
        ("p.message_id IN ('x', 0x0123456789ABCDEF0123456789ABCDEF)", True),
        ("octets LIKE '%'", None),
        ("octets = 'x'", False),
        ("symbol = 'sym' AND symbol LIKE 's_m'", True),
        # Literals.
        ("'It''s' = \"It's\" AND \"a\"\"b\" = 'a\"b'", True),
        ("price = 1.05E1 AND price = 1.05E+1 AND price = 105.0E-1", True),
        ("country = '😎'", False),
        ("active = TRUE AND premium = FALSE", True),
        # Logic.
        ("NOT premium", True),
        ("NOT absent", None),
        ("absent OR active", True),
        ("active AND absent", None),
        ("weight OR active", True),
        ("country = 'UK' AND (weight > 3 OR price < 20)", True),
        ("NOT (country IN ('v1', 'v2') AND premium)", True),
        # Comparisons.
        ("price = 10.5AND weight = 5AND p.user_id = 0x426F62AND active", True),
        ("weight IN (5)AND weight + 1IN (6)OR premium", True),
        ("country != 'US' AND country <> 'US'", True),
        ("country > 'DE' AND country < 'US'", True),
        ("weight >= 5.0 AND price <= 10.5", True),
        ("weight = '5'", False),
        ("weight <> '5'", True),
        ("weight >= '5'", False),
        ("premium >= FALSE", False),
        ("premium <> 0", True),
        ("missing = 1", None),
        ("missing <> 1", None),
        ("(weight = 5) = TRUE", True),
        # Arithmetic.
        ("weight / 2 = 2.5", True),
        ("price - 0.5 = 10 AND price * 2 = 21", True),
        ("7 % temperature = 2 AND temperature % 3 = -2", True),
        ("101 % 75 % weight = 1 AND 101 % (75 % 30) = 11", True),
        ("weight % score = 0", None),
        ("weight / score = 0", None),
        ("3 % 1.5 = 0", None),
        ("6 - -weight = 11 AND 6 + -weight = 1 AND -(-weight) = 5", True),
        ("+temperature = -5 AND -temperature = 5", True),
        ("+country = 'UK'", None),
        ("country + 'x' = 'UKx'", None),
        ("absent + 4 = 5", None),
        # Lists and patterns.
        ("country NOT IN ('US', 5)", True),
        ("weight IN (1 + 4, 'x')", True),
        ("weight IN (absent, 5)", True),
        ("weight NOT IN (absent, 6)", True),
        ("absent NOT IN ('x')", None),
        ("absent LIKE '%'", None),
        ("weight LIKE '5'", None),
        ("country NOT LIKE '_S'", True),
        ("'UK' LIKE 'U_' AND 'UK' IN (country)", True),
        (r"'_foo' LIKE '\_%' ESCAPE '\'", True),
        # What a selector would refuse is a value, and no truth.
        ("weight", 5),
        ("5", 5),
    ],
)
def test_by_example(text: str, expected: Any) -> None:
    for message in (MESSAGE, Message.decode(MESSAGE.encode())):
        for dialect in ("rabbitmq", "oasis"):
            if dialect == "oasis" and text == "country + 'x' = 'UKx'":
                continue  # where texts can be joined
            sql = SqlFilter(text, dialect=dialect)
            assert expected == sql.result(message, now=900)
            assert (expected is True) is sql.matches(message, now=900)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("EXISTS(country) AND NOT EXISTS(absent) AND EXISTS(p.to)", True),
        ("EXISTS(missing)", False),
        ("LOWER(country) = 'uk' AND UPPER(a.[order-status]) = 'PENDING'", True),
        ("LEFT(p.to, 3) = 'ord' AND RIGHT(p.to, 3) = 'ers'", True),
        ("LEFT(p.to, 99) = 'orders' AND RIGHT(p.to, 0) = ''", True),
        ("SUBSTRING(p.to, 1, 2) = 'or' AND SUBSTRING(p.to, 3, 99) = 'ders'", True),
        ("SUBSTRING(p.to, 0, 2) = 'o'", True),
        ("LEFT(p.to, -1) = ''", None),
        ("LEFT(p.to, 1.5) = ''", None),
        ("LOWER(weight) = '5'", None),
        ("DATE('1970-01-02') = 86400000", True),
        ("DATE('1970-01-01T01:00:00+01:00') = 0", True),
        ("DATE('soon') IS NULL", ExpressionError),
        ("DATE('soon') = 0", None),
        ("DATE(weight) = 0", None),
        ("country + '-' + country = 'UK-UK'", True),
        ("weight < INF AND weight > -INF AND NAN <> NAN AND NOT weight = NAN", True),
        ("d.[x-hop] = 1 AND m.[x-opt-n] = 2 AND f.[x-sum] = 3", True),
        ("delivery_annotations.[x-hop] + message_annotations.[x-opt-n] = footer.[x-sum]", True),
        ("h.durable = FALSE AND header.delivery_count = 0 AND h.ttl IS NULL", True),
    ],
)
def test_oasis_dialect_extensions(text: str, expected: Any) -> None:
    if expected is ExpressionError:
        with pytest.raises(ExpressionError):
            SqlFilter(text, dialect="oasis")
        return
    assert expected is SqlFilter(text, dialect="oasis").result(MESSAGE)
    with pytest.raises(ExpressionError) as caught:
        SqlFilter(text if "+ country" not in text else "LOWER(country) = 'x'")
    assert "oasis" in caught.value.problem


@pytest.mark.parametrize(
    "text, position, problem",
    [
        ("", 0, "empty"),
        (" \n ", 0, "empty"),
        ("a AND", 5, "not the end"),
        ("a and b", 2, "write AND for the keyword, [and] for a property"),
        ("true", 0, "write TRUE"),
        ("lower = 1", 0, "write LOWER"),
        ("EXISTS(a)", 0, "use the dialect oasis"),
        ("UTC = 1", 4, "( after UTC"),
        ("UTC(1) = 1", 4, "): UTC has no arguments"),
        ("a BETWEEN 1 AND 2", 2, "expected an operator or the end"),
        ("a = 1 = 2", 6, "cannot be chained"),
        ("a = NOT b", 4, "parentheses"),
        ("- -a = 1", 2, "a second sign"),
        ("5 IS NULL", 0, "needs a name"),
        ("a = 5x", 4, "not a number"),
        ("a = 1ANDY", 4, "not a number"),
        ("a = 1and b", 5, "write AND for the keyword"),
        ("a = 1.5e3", 4, "upper-case E"),
        ("a = 1E3", 4, "after a fraction"),
        ("a = 1.", 4, "not a number"),
        ("a = .5", 4, "unexpected"),
        ("a = 0xab", 4, "hexadecimal digits"),
        ("a = 0xABC", 4, "hexadecimal digits"),
        ("a = 1.0E999", 4, "too large"),
        ("$a = 1", 0, "unexpected"),
        ("_a = 1", 0, "unexpected"),
        ("ä = 1", 0, "unexpected"),
        ("a ! b", 2, "unexpected"),
        ("[a = 1", 0, "no closing ]"),
        ("[a[b] = 1", 2, "written twice"),
        ("[a\tb] = 1", 2, "control characters"),
        ("x.a = 1", 0, "there is no x."),
        ("propertie.to = 1", 0, "did you mean properties.?"),
        ("p.subjekt = 1", 0, "did you mean p.subject?"),
        ("p. = 1", 2, "expected a name after p."),
        ("h.durable = TRUE", 0, "use the dialect oasis"),
        ("m.x = 1", 0, "use the dialect oasis"),
        ("a IN ('x',)", 10, "expected a value"),
        ("a NOT b", 6, "IN or LIKE"),
    ],
)
def test_what_is_wrong_and_where(text: str, position: int, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        SqlFilter(text)

    assert problem in caught.value.problem
    assert position == caught.value.position


RESERVED = "and or not true false null is in like escape exists lower upper left right substring"


@pytest.mark.parametrize("word", [*RESERVED.split(), "utc", "date", "nan", "inf"])
def test_words_are_reserved_in_any_case(word: str) -> None:
    """As in RabbitMQ; in brackets each of them is a name."""
    message = Message(application_properties={word: True, word.title(): True, word.upper(): True})
    for name in (word, word.title(), word.upper()):
        assert SqlFilter(f"[{name}]").matches(message)
        if name not in ("TRUE", "FALSE"):
            with pytest.raises(ExpressionError):
                SqlFilter(name)


@pytest.mark.parametrize(
    "written, name",
    [
        ("[]", ""),
        ("[ ]", " "),
        ("[-]", "-"),
        ("[p.to]", "p.to"),
        ("[[[ key ]]]", "[ key ]"),
        ("[[[[[key]]]]]", "[[key]]"),
        ("[]]]", "]"),
        ("[]][[]", "]["),
        ("[!@#$%^&*()_+~`|{}?<>]", "!@#$%^&*()_+~`|{}?<>"),
        ("x", "x"),
        ("a.x", "x"),
        ("(x)", "x"),
    ],
)
def test_names_by_example(written: str, name: str) -> None:
    sql = SqlFilter(f"{written} AND {written} = TRUE AND UTC ( )>0")

    assert sql.matches(Message(application_properties={name: True}), now=1)
    assert not sql.matches(Message(application_properties={f"{name}.": True}), now=1)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("LEFT(a) = 'x'", "a comma: LEFT has 2 arguments"),
        ("LOWER(a, b) = 'x'", r"\): LOWER has 1 argument\b"),
        ("LOWER() = 'x'", "expected a value"),
        ("EXISTS('a')", "needs a name"),
        ("EXISTS", "after EXISTS"),
        ("h.nothing = 1", "there is no h.nothing"),
    ],
)
def test_what_is_wrong_in_the_other_dialect(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError, match=problem):
        SqlFilter(text, dialect="oasis")


def test_a_dialect_is_one_of_those_that_are_known() -> None:
    with pytest.raises(
        ValueError, match=r"oasis, rabbitmq, rabbitmq-4, rabbitmq-4\.2, rabbitmq-4\.3"
    ):
        SqlFilter("a = 1", dialect="sql-92")  # type: ignore[arg-type]


def test_the_time_comes_from_outside() -> None:
    sql = SqlFilter("p.absolute_expiry_time > UTC()")

    assert sql.matches(MESSAGE, now=999)
    assert not sql.matches(MESSAGE, now=1_000)
    with pytest.raises(EvaluationError, match="pass now, in ms"):
        sql.matches(MESSAGE)
    assert SqlFilter("FALSE AND UTC() > 1").matches(MESSAGE) is False


def test_why_a_message_does_not_pass() -> None:
    reasons = SqlFilter("p.user_id = 'Eve' AND octets = 0x00 AND UTC() < 5 AND [and] = 1").explain(
        MESSAGE, now=900
    )

    assert [
        "p.user_id = 'Eve' is false: p.user_id is 0x426F62",
        "octets = 0x00 is false: octets is 0x0080",
        "UTC() < 5 is false",
    ] == [str(reason) for reason in reasons]
