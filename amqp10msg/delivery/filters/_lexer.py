"""The lexers of JMS selectors and SQL filter expressions."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from amqp10msg.delivery.filters._base import ExpressionError, FilterLimits
from amqp10msg.delivery.filters._syntax import Token
from amqp10msg.wire.primitives import Float

_SPACE: Final = " \t\f\r\n"
_SIGNS: Final = ("<=", ">=", "<>", "=", "<", ">", "+", "-", "*", "/", "(", ")", ",")
SELECTOR_KEYWORDS: Final = frozenset(
    {"AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"}
)
SQL_KEYWORDS: Final = frozenset(
    {"AND", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"}
)
#: Functions and numbers, reserved in every dialect of SQL filter expressions.
SQL_FUNCTIONS: Final = frozenset(
    {"DATE", "EXISTS", "INF", "LEFT", "LOWER", "NAN", "RIGHT", "SUBSTRING", "UPPER", "UTC"}
)
_MAX_EXACT: Final = 2**64 - 1

# Java's numeric literals, the longer forms first. Java SE Language Specification, 3.10.1, 3.10.2.
_D = r"[0-9](?:_*[0-9])*"
_H = r"[0-9a-fA-F](?:_*[0-9a-fA-F])*"
_JAVA_NUMBER: Final = re.compile(
    rf"""(?P<hexfloat> 0[xX] (?: {_H} \.? | (?:{_H})? \.{_H} ) [pP][+-]?{_D} [fFdD]? )
      | (?P<hex> 0[xX]{_H} ) [lL]?
      | (?P<binary> 0[bB][01](?:_*[01])* ) [lL]?
      | (?P<float> (?: {_D} \. (?:{_D})? | \.{_D} ) (?:[eE][+-]?{_D})? [fFdD]?
                 | {_D} [eE][+-]?{_D} [fFdD]?
                 | {_D} [fFdD] )
      | (?P<integer> {_D} ) [lL]?
    """,
    re.VERBOSE,
)
_SQL_NUMBER: Final = re.compile(
    r"(?P<binary>0x(?:[0-9A-F]{2})+)|(?P<float>[0-9]+\.[0-9]+(?:E[+-]?[0-9]+)?)|(?P<integer>[0-9]+)"
)
_SQL_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_SQL_SECTION: Final = re.compile(r"[a-zA-Z][a-zA-Z_-]*\.")
_NAME_PART: Final = re.compile(r"[\w$.]+")
_ANNOTATION: Final = "amqp.annotation."
# Artemis reads a selector with this prefix as one whose names may contain dashes.
_HYPHENATED: Final = "hyphenated_props:"
# Categories of Character.isJavaIdentifierPart that \w lacks: currency, connectors, marks.
_PART_CATEGORIES: Final = frozenset({"Sc", "Pc", "Mn", "Mc", "Nl"})


def _limited(tokens: Iterator[Token], text: str, limits: FilterLimits) -> Iterator[Token]:
    """Yield tokens within the limits."""
    if len(text) > limits.length:
        raise ExpressionError(
            f"the expression has {len(text):,} characters, and {limits.length:,} are allowed",
            text[: limits.length],
            limits.length,
        )
    for number, token in enumerate(tokens):
        if number >= limits.tokens and token.kind != "end":
            raise ExpressionError(
                f"the expression has more than {limits.tokens:,} tokens", text, token.start
            )
        yield token


def selector_tokens(text: str, limits: FilterLimits) -> list[Token]:
    """Return the tokens of a JMS selector; the last is ``end``.

    Raises:
        ExpressionError: a character is not allowed, a literal is malformed, or a limit is exceeded.
    """
    return list(_limited(_selector_tokens(text), text, limits))


def _selector_tokens(text: str) -> Iterator[Token]:
    at = 0
    dashes = text.startswith(_HYPHENATED)
    if dashes:
        at = len(_HYPHENATED)
    size = len(text)
    while at < size:
        char = text[at]
        if char in _SPACE:
            at += 1
            continue
        if char == "'":
            token = _string(text, at, "'")
        elif char.isdecimal() or (char == "." and text[at + 1 : at + 2].isdecimal()):
            token = _java_number(text, at)
        elif _starts_name(char):
            token = _selector_name(text, at, dashes)
        else:
            token = _sign(text, at, _SIGNS)
        yield token
        at = token.end
    yield Token("end", None, size, size)


def _starts_name(char: str) -> bool:
    return char.isidentifier() or char == "$" or unicodedata.category(char) == "Sc"


def _selector_name(text: str, start: int, dashes: bool) -> Token:
    end = start
    dashed = dashes or text.startswith(_ANNOTATION, start)
    while end < len(text):
        found = _NAME_PART.match(text, end)
        if found is not None:
            end = found.end()
        elif (dashed and text[end] == "-") or unicodedata.category(text[end]) in _PART_CATEGORIES:
            end += 1
        else:
            break
    name = text[start:end]
    keyword = name.upper()
    if keyword in SELECTOR_KEYWORDS and name.isascii():
        return _keyword(keyword, start, end)
    return Token("identifier", name, start, end)


def _keyword(keyword: str, start: int, end: int) -> Token:
    if keyword in {"TRUE", "FALSE"}:
        return Token("boolean", keyword == "TRUE", start, end)
    return Token(keyword, keyword, start, end)


def _string(text: str, start: int, quote: str) -> Token:
    """Read a literal in quotes; two quotes inside it stand for one."""
    at = start + 1
    while True:
        end = text.find(quote, at)
        if end < 0:
            raise ExpressionError(f"this literal has no closing {quote}", text, start)
        if text[end + 1 : end + 2] != quote:
            break
        at = end + 2
    value = text[start + 1 : end].replace(quote * 2, quote)
    return Token("string", value, start, end + 1)


def _sign(text: str, at: int, signs: tuple[str, ...]) -> Token:
    for sign in signs:
        if text.startswith(sign, at):
            return Token(sign, sign, at, at + len(sign))
    char = text[at]
    hint = {
        '"': ": text is written in single quotes",
        "!": ": not equal is <>",
        "[": ": names are written without brackets",
        "%": ": there is no remainder in a selector",
    }.get(char, "")
    shown = repr(char) if char.isprintable() else f"U+{ord(char):04X}"
    raise ExpressionError(f"unexpected {shown}{hint}", text, at)


def _java_number(text: str, start: int) -> Token:
    found = _JAVA_NUMBER.match(text, start)
    end = found.end() if found else start + 1
    if found is None or _runs_on(text, end, SELECTOR_KEYWORDS, _NAME_PART):
        raise ExpressionError("not a Java number", text, start)
    kind = found.lastgroup or ""
    digits = found[kind].replace("_", "")
    value: Any
    if kind in {"float", "hexfloat"}:
        value = _java_float(digits, kind == "hexfloat", text, start)
    else:
        octal = kind == "integer" and len(digits) > 1 and digits[0] == "0"
        base = {"hex": 16, "binary": 2}.get(kind, 8 if octal else 10)
        value = _exact(digits, base, text, start)
        if value > _MAX_EXACT:
            raise ExpressionError("this number needs more than 64 bits", text, start)
    return Token("number", value, start, end)


def _runs_on(text: str, end: int, keywords: frozenset[str], word: re.Pattern[str]) -> bool:
    """Return whether a word other than a keyword, as in ``1AND b``, follows a number."""
    found = word.match(text, end)
    return found is not None and found[0].upper() not in keywords


def _exact(digits: str, base: int, text: str, start: int) -> int:
    try:
        return int(digits, base)
    except ValueError:  # a digit that octal does not have, or more of them than Python converts
        what = "8 and 9 are not octal digits" if base == 8 else "this number is too long"
        raise ExpressionError(what, text, start) from None


def _java_float(digits: str, is_hex: bool, text: str, start: int) -> float:
    single = digits[-1] in "fF"
    if digits[-1] in "fFdD":
        digits = digits[:-1]
    try:
        value = float.fromhex(digits) if is_hex else float(digits)
        if single:
            value = float(Float(value))
    except OverflowError:
        value = math.inf
    if value == math.inf:
        raise ExpressionError("this number is too large for a float of Java", text, start)
    return value


def sql_tokens(text: str, limits: FilterLimits) -> list[Token]:
    """Return the tokens of an SQL filter expression; the last is ``end``.

    Raises:
        ExpressionError: a character is not allowed, a literal is malformed, or a limit is exceeded.
    """
    return list(_limited(_sql_tokens(text), text, limits))


def _sql_tokens(text: str) -> Iterator[Token]:
    at, size = 0, len(text)
    while at < size:
        char = text[at]
        if char in _SPACE:
            at += 1
            continue
        if char in "'\"":
            token = _string(text, at, char)
        elif "0" <= char <= "9":
            token = _sql_number(text, at)
        elif char == "[":
            token = _delimited(text, at)
        elif _SQL_NAME.match(char):
            token = _sql_name(text, at)
        elif text.startswith("!=", at):
            token = Token("<>", "<>", at, at + 2)
        else:
            token = _sign(text, at, (*_SIGNS, "%"))
        yield token
        at = token.end
    yield Token("end", None, size, size)


def _sql_number(text: str, start: int) -> Token:
    found = _SQL_NUMBER.match(text, start)
    assert found is not None  # noqa: S101 - it begins with a digit
    end = found.end()
    follower = text[end : end + 1]
    if follower == "." or _runs_on(text, end, SQL_KEYWORDS, _SQL_NAME):
        hint = (
            ": an exponent is an upper-case E after a fraction"
            if follower in "eE"
            else ": hexadecimal digits are in upper case, two per byte"
            if text.startswith("0x", start)
            else ""
        )
        raise ExpressionError(f"not a number{hint}", text, start)
    if found["binary"]:
        return Token("binary", bytes.fromhex(found["binary"][2:]), start, end)
    if found["float"]:
        value = float(found["float"])
        if value == math.inf:
            raise ExpressionError("this number is too large for a double", text, start)
        return Token("number", value, start, end)
    return Token("number", _exact(found["integer"], 10, text, start), start, end)


def _delimited(text: str, start: int) -> Token:
    """Read a name in brackets; two brackets inside it stand for one."""
    at = start + 1
    name: list[str] = []
    while at < len(text):
        char = text[at]
        if char in "[]":
            if text[at + 1 : at + 2] != char:
                if char == "]":
                    return Token("identifier", "".join(name), start, at + 1, quoted=True)
                raise ExpressionError("a bracket in a name is written twice: [[", text, at)
            at += 1
        elif ord(char) < 32 or ord(char) == 127:
            raise ExpressionError("control characters are not allowed in a name", text, at)
        name.append(char)
        at += 1
    raise ExpressionError("this name has no closing ]", text, start)


def _sql_name(text: str, start: int) -> Token:
    section = _SQL_SECTION.match(text, start)
    if section is not None:
        return _qualified(text, start, section.end())
    found = _SQL_NAME.match(text, start)
    assert found is not None  # noqa: S101 - it begins with a letter
    name, end = found[0], found.end()
    upper = name.upper()
    if upper in SQL_KEYWORDS | SQL_FUNCTIONS:
        if name != upper:
            raise ExpressionError(
                f"{name} is reserved: write {upper} for the word, [{name}] for a property",
                text,
                start,
            )
        if upper in SQL_KEYWORDS:
            return _keyword(upper, start, end)
        return Token("function", upper, start, end)
    return Token("identifier", name, start, end)


def _qualified(text: str, start: int, dot: int) -> Token:
    """Read ``section.name``; the parser checks the section."""
    section = text[start : dot - 1]
    if text[dot : dot + 1] == "[":
        delimited = _delimited(text, dot)
        return Token("qualified", (section, delimited.value), start, delimited.end, quoted=True)
    found = _SQL_NAME.match(text, dot)
    if found is None:
        raise ExpressionError(f"expected a name after {section}.", text, dot)
    return Token("qualified", (section, found[0]), start, found.end())
