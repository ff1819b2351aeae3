"""Random conditions, as trees, as text, and evaluated naively, for the tests of expressions.

A tree is a tuple: its kind and its parts. The evaluator is written from the texts of JMS 2.0, 3.8.1
and of RabbitMQ's documentation, not from the library.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from amqp10msg import Byte, Float, Int, Symbol, Timestamp, UInt, ULong

NAMES = ["a", "b", "c", "d", "e_1", "Ünder$cored", "JMSFoo"]
SQL_NAMES = ["a", "b", "c", "d", "e_1", "order-status", "and", "ü [x]"]

WORDS = st.text("ab%_'é☀\n\\", max_size=4)
INTEGERS = st.integers(-3, 12) | st.sampled_from([2**63 - 1, 2**53 + 1, 255])
FLOATS = st.integers(-4000, 4000).map(lambda number: number / 1000)

PROPERTIES: st.SearchStrategy[Any] = st.one_of(
    INTEGERS,
    st.integers(0, 12).map(UInt),
    st.integers(0, 12).map(ULong),
    st.integers(-3, 12).map(Int),
    st.integers(-3, 12).map(Byte),
    st.integers(-3, 12).map(Timestamp),
    FLOATS,
    FLOATS.map(Float),
    st.sampled_from([math.nan, math.inf, 1e308]),
    WORDS,
    st.text("ab", max_size=2).map(Symbol),
    st.booleans(),
    st.none(),
    st.binary(max_size=2),
    WORDS.map(str.encode),
)


def contents(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw application properties of these names."""
    return st.dictionaries(st.sampled_from(names), PROPERTIES)


# Trees.


def numbers(names: list[str], sql: bool) -> st.SearchStrategy[Any]:
    """Draw trees of arithmetic."""
    signs = ["+", "-", "*", "/"] + (["%"] if sql else [])
    leaves = st.one_of(
        INTEGERS.map(lambda value: ("literal", abs(value))),
        FLOATS.map(lambda value: ("literal", abs(value))),
        st.sampled_from(names).map(lambda name: ("name", name)),
    )
    return st.recursive(
        leaves,
        lambda children: st.one_of(
            st.tuples(st.sampled_from(signs), children, children),
            st.tuples(st.sampled_from(["plus", "minus"]), children),
        ),
        max_leaves=4,
    )


def conditions(names: list[str], sql: bool) -> st.SearchStrategy[Any]:
    """Draw trees of conditions, of SQL filters or of selectors."""
    number = numbers(names, sql)
    name = st.sampled_from(names).map(lambda it: ("name", it))
    text = WORDS.map(lambda value: ("literal", value))
    truth = st.booleans().map(lambda value: ("literal", value))
    any_value = number | text | name
    equal = st.sampled_from(["=", "<>"])
    order = st.sampled_from(["<", "<=", ">", ">="])
    items = st.lists(text | INTEGERS.map(lambda value: ("literal", value)), min_size=1, max_size=3)
    leaves = [
        st.tuples(equal, any_value | truth, any_value | truth),
        st.tuples(order, any_value, any_value),
        st.tuples(st.just("in"), name, items.map(tuple), st.booleans()),
        st.tuples(st.just("like"), name, st.text("ab%_é☀", max_size=5), st.booleans()),
        st.tuples(st.just("null"), name, st.booleans()),
        name,
        truth,
    ]
    if not sql:
        leaves.append(st.tuples(st.just("between"), number, number, number, st.booleans()))
    return st.recursive(
        st.one_of(leaves),
        lambda children: st.one_of(
            st.tuples(st.just("not"), children),
            st.tuples(
                st.sampled_from(["and", "or"]),
                st.lists(children, min_size=2, max_size=4).map(tuple),
            ),
        ),
        max_leaves=8,
    )


# Text.

_POWER = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "in", "like", "null", "between"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
    **dict.fromkeys(("plus", "minus"), 7),
    **dict.fromkeys(("literal", "name"), 8),
}


class Writer:
    """Writes a tree as text, with as few parentheses as the precedences allow, or with many.

    Args:
        pick: chooses one of several ways to write something.
        sql: write an SQL filter expression, else a selector.
    """

    def __init__(self, pick: Callable[[list[str]], str], sql: bool) -> None:
        self.pick = pick
        self.sql = sql

    def word(self, word: str) -> str:
        """Write a keyword; selectors have them in any case."""
        return word if self.sql else self.pick([word, word.lower(), word.title()])

    def within(self, tree: Any, power: int) -> str:
        """Write a part where something of at least this power must stand."""
        text = self.text(tree)
        if _POWER[tree[0]] < power:
            return f"({text})"
        # A name alone is what LIKE, IN and IS ask for, which callers write themselves.
        return self.pick([text, text, f"( {text} )"])

    def text(self, tree: Any) -> str:
        """Write a tree."""
        kind = tree[0]
        space = self.pick([" ", "\n", " \t "])
        match kind:
            case "literal":
                return self.literal(tree[1])
            case "name":
                return self.name(tree[1])
            case "and" | "or":
                joint = f"{space}{self.word(kind.upper())} "
                return joint.join(self.within(part, _POWER[kind] + 1) for part in tree[1])
            case "not":
                return f"{self.word('NOT')}{space}{self.within(tree[1], 3)}"
            case "plus" | "minus":
                sign = "+" if kind == "plus" else "-"
                return f"{sign}{self.within(tree[1], 8 if self.sql else 7)}"
            case "in":
                items = ",".join(self.literal(item[1]) for item in tree[2])
                return f"{self.name(tree[1][1])} {self.negation(tree[3])}{self.word('IN')}({items})"
            case "like":
                return (
                    f"{self.name(tree[1][1])} {self.negation(tree[3])}{self.word('LIKE')} "
                    f"{self.literal(tree[2])}"
                )
            case "null":
                negation = self.negation(tree[2])
                return f"{self.name(tree[1][1])} {self.word('IS')} {negation}{self.word('NULL')}"
            case "between":
                return (
                    f"{self.within(tree[1], 5)} {self.negation(tree[4])}{self.word('BETWEEN')} "
                    f"{self.within(tree[2], 5)} {self.word('AND')} {self.within(tree[3], 5)}"
                )
        power = _POWER[kind]
        sign = self.pick(["<>", "!="]) if kind == "<>" and self.sql else kind
        gap = self.pick(["", " "])
        left = self.within(tree[1], 5 if power == 4 else power)
        # What follows a minus must not look like one more sign of the same kind to a reader, and
        # what stands to the right binds more tightly: these operators go from left to right.
        return f"{left}{gap}{sign} {self.within(tree[2], power + 1)}"

    def negation(self, negated: bool) -> str:
        """Write NOT, or nothing."""
        return f"{self.word('NOT')} " if negated else ""

    def name(self, name: str) -> str:
        """Write the name of an application property."""
        if not self.sql:
            return name
        delimited = "[" + name.replace("[", "[[").replace("]", "]]") + "]"
        if not re.fullmatch("[a-z][a-z0-9_]*", name) or name == "and":
            return delimited
        return self.pick([name, f"a.{name}", f"application_properties.{name}", delimited])

    def literal(self, value: Any) -> str:
        """Write a constant."""
        if isinstance(value, bool):
            return self.word(str(value).upper())
        if isinstance(value, str):
            quote = self.pick(["'", '"']) if self.sql else "'"
            return quote + value.replace(quote, quote * 2) + quote
        if isinstance(value, int):
            if value < 0:
                return f"-{self.literal(-value)}"
            ways = [str(value)]
            if not self.sql:
                ways += [
                    f"0x{value:X}",
                    f"0b{value:b}",
                    f"{value}L",
                    f"0{value:o}" if value else "0",
                ]
            return self.pick(ways)
        ways = [f"{value:.3f}"]
        if not self.sql:
            ways += [f"{value:.3e}", f"{value:.3f}d", value.hex()]
        elif value:
            ways.append(
                f"{value * 10:.3f}E-1" if float(f"{value * 10:.3f}E-1") == value else ways[0]
            )
        return self.pick(ways)


# Meaning.


def kind_of(value: Any) -> str:
    """Return which values it may be compared with."""
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "octets"


def evaluate(tree: Any, properties: Mapping[str, Any], sql: bool, broker: bool = False) -> Any:
    """Evaluate naively: None is unknown.

    With `broker`, as RabbitMQ 4.3 does; raises OverflowError where its session ends.
    """

    def of(part: Any) -> Any:
        return evaluate(part, properties, sql, broker)

    def truth_of(part: Any) -> bool | None:
        value = of(part)
        return value if isinstance(value, bool) else None

    def number_of(part: Any) -> Any:
        value = of(part)
        return None if value is None or kind_of(value) != "number" else value

    match tree:
        case ("literal", value):
            return value
        case ("name", name):
            value = properties.get(name)
            return (
                None if broker and isinstance(value, float) and not math.isfinite(value) else value
            )
        case ("not", part):
            value = truth_of(part)
            return None if value is None else not value
        case ("and", parts):
            values = []
            for part in parts:
                values.append(truth_of(part))
                if values[-1] is False:
                    return False
            return None if None in values else True
        case ("or", parts):
            values = []
            for part in parts:
                values.append(truth_of(part))
                if values[-1] is True:
                    return True
            return None if None in values else False
        case ("plus" | "minus", part):
            value = number_of(part)
            return value if value is None or tree[0] == "plus" else -value
        case ("in", operand, items, negated):
            value = of(operand)
            if value is None:
                return None
            if negated and not sql:  # as qpidd has it: false for items of another kind
                return all(compare("<>", value, item[1], sql) for item in items)
            return any(compare("=", value, item[1], sql) for item in items) != negated
        case ("like", operand, pattern, negated):
            value = of(operand)
            if broker:
                return broker_like(value, pattern, negated)
            if isinstance(value, bytes) and sql:
                try:
                    value = value.decode()
                except UnicodeDecodeError:
                    return None
            if not isinstance(value, str):
                return None
            parts = {"%": ".*", "_": "."}
            regex = "".join(parts.get(char, re.escape(char)) for char in pattern)
            return (re.fullmatch(regex, value, re.DOTALL) is not None) != negated
        case ("null", operand, negated):
            return (of(operand) is None) != negated
        case ("between", operand, low, high, False):
            return of(("and", ((">=", operand, low), ("<=", operand, high))))
        case ("between", operand, low, high, True):
            return of(("or", (("<", operand, low), (">", operand, high))))
        case (("=" | "<>" | "<" | "<=" | ">" | ">=") as sign, left, right):
            first, second = of(left), of(right)
            return None if first is None or second is None else compare(sign, first, second, sql)
    sign, left, right = tree
    first, second = number_of(left), number_of(right)
    if first is None or second is None:
        return None
    return calculate(sign, first, second, sql, broker)


def broker_like(value: Any, pattern: str, negated: bool) -> bool | None:
    """Match as RabbitMQ 4.3: bytes, or a regular expression where neither wildcard spans lines."""
    if not isinstance(value, (str, bytes)):
        return None
    octets = value.encode() if isinstance(value, str) else value
    if "_" not in pattern and pattern.count("%") <= 1:
        parts = {"%": b".*"}
        regex = b"".join(parts.get(char, re.escape(char.encode())) for char in pattern)
        return (re.fullmatch(regex, octets, re.DOTALL) is not None) != negated
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return None
    wildcards = {"%": ".*?", "_": "."}
    lines = "^" + "".join(wildcards.get(char, re.escape(char)) for char in pattern) + "$"
    return (re.search(lines, text) is not None) != negated


def compare(sign: str, first: Any, second: Any, sql: bool) -> bool:
    """Return what a comparison comes to."""
    kinds = {kind_of(first), kind_of(second)}
    if sql and kinds <= {"text", "octets"}:
        first, second = (v.encode() if isinstance(v, str) else v for v in (first, second))
    elif len(kinds) > 1:
        return sql and sign == "<>"
    elif kinds & {"truth", "octets"} and sign not in ("=", "<>"):
        return False
    holds: dict[str, Callable[[], bool]] = {
        "=": lambda: bool(first == second),
        "<>": lambda: bool(first != second),
        "<": lambda: bool(first < second),
        "<=": lambda: bool(first <= second),
        ">": lambda: bool(first > second),
        ">=": lambda: bool(first >= second),
    }
    return holds[sign]()


def calculate(sign: str, first: Any, second: Any, sql: bool, broker: bool = False) -> Any:
    """Return what an operation comes to, or None where it has no value."""
    whole = isinstance(first, int) and isinstance(second, int)
    first, second = (int(v) if isinstance(v, int) else float(v) for v in (first, second))
    try:
        if sign == "/" and whole and not sql:
            return math.trunc(Fraction(first, second))
        if sign == "%":
            return first - second * math.trunc(Fraction(first, second)) if whole else None
        result = {
            "+": lambda: first + second,
            "-": lambda: first - second,
            "*": lambda: first * second,
            "/": lambda: first / second,
        }[sign]()
    except ZeroDivisionError:
        return None
    except OverflowError:
        if broker:
            raise
        return None
    if broker and isinstance(result, float) and not math.isfinite(result):
        raise OverflowError
    return result
