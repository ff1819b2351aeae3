"""Tokenizer and parser of JMS selectors and SQL filter expressions, which become evaluators.

A `Language` holds the differences between the languages: tokens, names, functions and the
restrictions of JMS.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, groupby
from typing import Any, Final

import attrs

from amqp10msg.delivery.filters._base import ExpressionError, FilterLimits
from amqp10msg.delivery.filters._evaluators import (
    NUMBER,
    TEXT,
    AndOr,
    Calculation,
    Comparison,
    Constant,
    Converted,
    CurrentTime,
    Evaluator,
    InList,
    IsNull,
    LengthLimited,
    Like,
    LiteralComparison,
    Not,
    PropertiesEqual,
    PropertyEquals,
    Signed,
    StepCounter,
    TextFunction,
    compares_as_java,
    kind_of,
)
from amqp10msg.delivery.filters._glob import MANY, ONE, Element, compile_like, steps_per_character
from amqp10msg.sections import moment_of, to_milliseconds
from amqp10msg.wire.primitives import Float


@attrs.frozen
class Token:
    """A lexical token.

    Attributes:
        kind: ``identifier``, ``qualified`` (name), ``function``, ``number``, ``string``,
            ``binary``, ``boolean`` or ``end``; for a keyword, the keyword in upper case; for a
            sign, the sign.
        value: the name of an identifier or function; (section, name) of a qualified name; the value
            of a literal.
        start: the index of the first character.
        end: the index after the last character.
        quoted: whether a name is in brackets.
    """

    kind: str
    value: Any
    start: int
    end: int
    quoted: bool = False


#: The kinds of parts. `JOINED` means conditions that are joined by ``AND`` or ``OR``.
LITERAL, NAME, VALUE, CONDITION, JOINED = "literal", "name", "value", "condition", "joined"


@attrs.frozen
class Part:
    """A parsed part of an expression, the text ``text[start:end]``, with its evaluator.

    Attributes:
        start: the index of the first character.
        end: the index after the last character.
        kind: ``literal``, ``name``, ``value`` (calculated), ``condition`` or ``joined``.
        evaluate: the evaluator of the part.
        parts: the operands, in the order of the text.
        value: the value of a literal, or the spelling of a name.
        key: the application property that a name refers to; None for other names.
    """

    start: int
    end: int
    kind: str
    evaluate: Evaluator
    parts: tuple[Part, ...] = ()
    value: Any = None
    key: str | None = None

    @property
    def names(self) -> Iterator[Part]:
        """The names in this part, in the order of the text."""
        if self.kind == NAME:
            yield self
        for part in self.parts:
            yield from part.names


_WHITESPACE: Final = " \t\f\r\n"
_SIGNS: Final = ("<=", ">=", "<>", "=", "<", ">", "+", "-", "*", "/", "(", ")", ",")
SELECTOR_KEYWORDS: Final = frozenset(
    {"AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"}
)
SQL_KEYWORDS: Final = frozenset(
    {"AND", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"}
)
#: Words that every dialect of SQL filter expressions reserves in addition to the keywords. They are
#: the names of functions and of the numbers INF and NAN.
SQL_FUNCTIONS: Final = frozenset(
    {"DATE", "EXISTS", "INF", "LEFT", "LOWER", "NAN", "RIGHT", "SUBSTRING", "UPPER", "UTC"}
)
_MAX_INTEGER_LITERAL: Final = 2**64 - 1

# Java's numeric literals, the longer forms first (Java SE Language Specification, 3.10.1, 3.10.2).
# `_DEC` and `_HEX` are digits, with optional underscores between them.
_DEC = r"[0-9](?:_*[0-9])*"
_HEX = r"[0-9a-fA-F](?:_*[0-9a-fA-F])*"
_JAVA_NUMBER_PATTERN: Final = re.compile(
    rf"""(?P<hexfloat> 0[xX] (?: {_HEX} \.? | (?:{_HEX})? \.{_HEX} ) [pP][+-]?{_DEC} [fFdD]? )
      | (?P<hex> 0[xX]{_HEX} ) [lL]?
      | (?P<binary> 0[bB][01](?:_*[01])* ) [lL]?
      | (?P<float> (?: {_DEC} \. (?:{_DEC})? | \.{_DEC} ) (?:[eE][+-]?{_DEC})? [fFdD]?
                 | {_DEC} [eE][+-]?{_DEC} [fFdD]?
                 | {_DEC} [fFdD] )
      | (?P<integer> {_DEC} ) [lL]?
    """,
    re.VERBOSE,
)
_SQL_NUMBER_PATTERN: Final = re.compile(
    r"(?P<binary>0x(?:[0-9A-F]{2})+)|(?P<float>[0-9]+\.[0-9]+(?:E[+-]?[0-9]+)?)|(?P<integer>[0-9]+)"
)
_SQL_NAME_PATTERN: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_SQL_SECTION_PREFIX_PATTERN: Final = re.compile(r"[a-zA-Z][a-zA-Z_-]*\.")
_SELECTOR_NAME_PART_PATTERN: Final = re.compile(r"[\w$.]+")
_ANNOTATION_PREFIX: Final = "amqp.annotation."
# ActiveMQ Artemis allows dashes in the names of a selector that begins with this prefix.
_HYPHENATED_PREFIX: Final = "hyphenated_props:"
# Unicode categories that Java allows in identifiers (Character.isJavaIdentifierPart), but that \w
# does not match (currency signs, connectors, marks, letter numbers).
_EXTRA_NAME_CATEGORIES: Final = frozenset({"Sc", "Pc", "Mn", "Mc", "Nl"})


def _tokenize(text: str, language: Language, limits: FilterLimits) -> list[Token]:
    """Split a text into tokens, with an ``end`` token at the end. Raise an error above a limit."""
    if len(text) > limits.length:
        raise ExpressionError(
            f"the expression has {len(text):,} characters, and {limits.length:,} are allowed",
            text[: limits.length],
            limits.length,
        )
    tokens: list[Token] = []
    position, size = 0, len(text)
    if language.has_jms_restrictions and text.startswith(_HYPHENATED_PREFIX):
        position = len(_HYPHENATED_PREFIX)
    while position < size:
        if text[position] in _WHITESPACE:
            position += 1
            continue
        token = language.read_token(text, position)
        if len(tokens) >= limits.tokens:
            raise ExpressionError(
                f"the expression has more than {limits.tokens:,} tokens", text, token.start
            )
        tokens.append(token)
        position = token.end
    tokens.append(Token("end", None, size, size))
    return tokens


def selector_token(text: str, start: int) -> Token:
    """Return the token of a JMS selector that begins at index `start`."""
    char = text[start]
    if char == "'":
        return _string_token(text, start, "'")
    if char.isdecimal() or (char == "." and text[start + 1 : start + 2].isdecimal()):
        return _java_number(text, start)
    if _starts_name(char):
        return _selector_name(text, start)
    return _sign_token(text, start, _SIGNS)


def _starts_name(char: str) -> bool:
    """Whether a name in a selector can begin with a character."""
    return char.isidentifier() or char == "$" or unicodedata.category(char) == "Sc"


def _selector_name(text: str, start: int) -> Token:
    """Read a name or keyword of a selector."""
    end = start
    dashed = text.startswith(_HYPHENATED_PREFIX) or text.startswith(_ANNOTATION_PREFIX, start)
    while end < len(text):
        match = _SELECTOR_NAME_PART_PATTERN.match(text, end)
        if match is not None:
            end = match.end()
        elif (dashed and text[end] == "-") or unicodedata.category(
            text[end]
        ) in _EXTRA_NAME_CATEGORIES:
            end += 1
        else:
            break
    name = text[start:end]
    keyword = name.upper()
    if keyword in SELECTOR_KEYWORDS and name.isascii():
        return _keyword_token(keyword, start, end)
    return Token("identifier", name, start, end)


def _keyword_token(keyword: str, start: int, end: int) -> Token:
    """Return the token of a keyword, including TRUE and FALSE."""
    if keyword in {"TRUE", "FALSE"}:
        return Token("boolean", keyword == "TRUE", start, end)
    return Token(keyword, keyword, start, end)


def _string_token(text: str, start: int, quote: str) -> Token:
    """Read a text literal, in which a doubled quote stands for a quote."""
    position = start + 1
    while True:
        end = text.find(quote, position)
        if end < 0:
            raise ExpressionError(f"this literal has no closing {quote}", text, start)
        if text[end + 1 : end + 2] != quote:
            break
        position = end + 2
    value = text[start + 1 : end].replace(quote * 2, quote)
    return Token("string", value, start, end + 1)


def _sign_token(text: str, start: int, signs: tuple[str, ...]) -> Token:
    """Read one of these signs; raise an error for other characters."""
    for sign in signs:
        if text.startswith(sign, start):
            return Token(sign, sign, start, start + len(sign))
    char = text[start]
    hint = {
        '"': ": text is written in single quotes",
        "!": ": not equal is <>",
        "[": ": names are written without brackets",
        "%": ": selectors have no remainder operator",
    }.get(char, "")
    printable = repr(char) if char.isprintable() else f"U+{ord(char):04X}"
    raise ExpressionError(f"unexpected {printable}{hint}", text, start)


def _java_number(text: str, start: int) -> Token:
    """Read a numeric literal of Java."""
    match = _JAVA_NUMBER_PATTERN.match(text, start)
    end = match.end() if match else start + 1
    if match is None or _is_followed_by_word(
        text, end, SELECTOR_KEYWORDS, _SELECTOR_NAME_PART_PATTERN
    ):
        raise ExpressionError("not a Java number", text, start)
    kind = match.lastgroup or ""
    digits = match[kind].replace("_", "")
    value: Any
    if kind in {"float", "hexfloat"}:
        value = _java_float(digits, kind == "hexfloat", text, start)
    else:
        octal = kind == "integer" and len(digits) > 1 and digits[0] == "0"
        base = {"hex": 16, "binary": 2}.get(kind, 8 if octal else 10)
        value = _parse_integer(digits, base, text, start)
        if value > _MAX_INTEGER_LITERAL:
            raise ExpressionError("this number needs more than 64 bits", text, start)
    return Token("number", value, start, end)


def _is_followed_by_word(
    text: str, end: int, keywords: frozenset[str], word: re.Pattern[str]
) -> bool:
    """Whether a word follows a number directly, without a space; the number ends at `end`.

    A keyword may follow a number directly, and does not count: ``1AND b`` is valid.
    """
    match = word.match(text, end)
    return match is not None and match[0].upper() not in keywords


def _parse_integer(digits: str, base: int, text: str, start: int) -> int:
    """Convert digits to an integer; raise an error if they are invalid."""
    try:
        return int(digits, base)
    except ValueError:  # an invalid octal digit, or more digits than int() allows
        problem = "8 and 9 are not octal digits" if base == 8 else "this number is too long"
        raise ExpressionError(problem, text, start) from None


def _java_float(digits: str, is_hex: bool, text: str, start: int) -> float:
    """Convert the digits of a floating-point literal of Java, with its suffix, to a float."""
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
        raise ExpressionError("this number is too large for a Java float", text, start)
    return value


def sql_token(text: str, start: int) -> Token:
    """Return the token of an SQL filter expression that begins at index `start`."""
    char = text[start]
    if char in "'\"":
        return _string_token(text, start, char)
    if "0" <= char <= "9":
        return _sql_number(text, start)
    if char == "[":
        return _bracketed_name(text, start)
    if _SQL_NAME_PATTERN.match(char):
        return _sql_name(text, start)
    if text.startswith("!=", start):
        return Token("<>", "<>", start, start + 2)
    return _sign_token(text, start, (*_SIGNS, "%"))


def _sql_number(text: str, start: int) -> Token:
    """Read a number or binary literal of an SQL filter expression."""
    match = _SQL_NUMBER_PATTERN.match(text, start)
    assert match is not None  # noqa: S101 - the caller has checked the first digit
    end = match.end()
    next_char = text[end : end + 1]
    if next_char == "." or _is_followed_by_word(text, end, SQL_KEYWORDS, _SQL_NAME_PATTERN):
        hint = (
            ": an exponent is an upper-case E after a fraction"
            if next_char in "eE"
            else ": hexadecimal digits are in upper case, two per byte"
            if text.startswith("0x", start)
            else ""
        )
        raise ExpressionError(f"not a number{hint}", text, start)
    if match["binary"]:
        return Token("binary", bytes.fromhex(match["binary"][2:]), start, end)
    if match["float"]:
        value = float(match["float"])
        if value == math.inf:
            raise ExpressionError("this number is too large for a double", text, start)
        return Token("number", value, start, end)
    return Token("number", _parse_integer(match["integer"], 10, text, start), start, end)


def _bracketed_name(text: str, start: int) -> Token:
    """Read a name in brackets, in which a doubled bracket stands for a bracket."""
    position = start + 1
    name: list[str] = []
    while position < len(text):
        char = text[position]
        if char in "[]":
            if text[position + 1 : position + 2] != char:
                if char == "]":
                    return Token("identifier", "".join(name), start, position + 1, quoted=True)
                raise ExpressionError("a bracket in a name is written twice: [[", text, position)
            position += 1
        elif ord(char) < 32 or ord(char) == 127:
            raise ExpressionError("control characters are not allowed in a name", text, position)
        name.append(char)
        position += 1
    raise ExpressionError("this name has no closing ]", text, start)


def _sql_name(text: str, start: int) -> Token:
    """Read a name, keyword or function of an SQL filter expression."""
    section = _SQL_SECTION_PREFIX_PATTERN.match(text, start)
    if section is not None:
        return _qualified_name(text, start, section.end())
    match = _SQL_NAME_PATTERN.match(text, start)
    assert match is not None  # noqa: S101 - the caller has checked the first letter
    name, end = match[0], match.end()
    upper = name.upper()
    if upper in SQL_KEYWORDS | SQL_FUNCTIONS:
        if name != upper:
            raise ExpressionError(
                f"{name} is reserved: write {upper} for the keyword, [{name}] for a property",
                text,
                start,
            )
        if upper in SQL_KEYWORDS:
            return _keyword_token(upper, start, end)
        return Token("function", upper, start, end)
    return Token("identifier", name, start, end)


def _qualified_name(text: str, start: int, dot: int) -> Token:
    """Read ``section.name``. The parser checks the name of the section later."""
    section = text[start : dot - 1]
    if text[dot : dot + 1] == "[":
        delimited = _bracketed_name(text, dot)
        return Token("qualified", (section, delimited.value), start, delimited.end, quoted=True)
    match = _SQL_NAME_PATTERN.match(text, dot)
    if match is None:
        raise ExpressionError(f"expected a name after {section}.", text, dot)
    return Token("qualified", (section, match[0]), start, match.end())


_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT = 10, 20, 30, 40, 50, 60
# The precedence of each binary operator.
_PRECEDENCES: Final = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _COMPARISON),
    **dict.fromkeys(("BETWEEN", "IN", "LIKE", "IS", "NOT"), _COMPARISON),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
#: Maximum number of consecutive NOT. An expression for RabbitMQ has at most 200 tokens.
_MAX_CONSECUTIVE_NOT: Final = 200
#: Number of steps that a function counts for each character of its argument. It is an upper bound
#: of the cost of LOWER, the most expensive function.
STEPS_PER_ARGUMENT_CHARACTER: Final = 10
_NUMBER_CONSTANTS: Final = {"INF": math.inf, "NAN": math.nan}
_COMPARISONS_WITH_SWAPPED_OPERANDS: Final = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


def _date_to_ms(text: str) -> int | None:
    """Convert an ISO 8601 date, in UTC by default, to ms since the Unix epoch; None if invalid."""
    try:
        return to_milliseconds(moment_of(text))
    except ValueError:
        return None


def _substring(text: str, start: int, count: int) -> str:
    """Return a substring as SQL-92 defines it, with 1 as the index of the first character."""
    return text[max(start - 1, 0) : max(start - 1 + count, 0)]


#: The implementation and the number of arguments of each function in SQL filter expressions.
_FUNCTIONS_WITH_ARGUMENT_COUNTS: Final[dict[str, tuple[Callable[..., Any], int]]] = {
    "LOWER": (str.lower, 1),
    "UPPER": (str.upper, 1),
    "DATE": (_date_to_ms, 1),
    "LEFT": (lambda text, count: text[:count], 2),
    "RIGHT": (lambda text, count: text[-count:] if count else "", 2),
    "SUBSTRING": (_substring, 3),
}


class UnknownNameError(Exception):
    """Raised for a name that the language does not define; the text suggests similar names."""


@attrs.frozen
class Language:
    """A language of expressions, by its differences from other languages.

    Attributes:
        read_token: returns the token that begins at an index of a text.
        resolve_name: returns the evaluator of a name, and the key of an application property or
            None, given the value of the token. Raises `UnknownNameError`.
        functions: the names of functions, and of numbers such as ``INF``.
        has_jms_restrictions: whether the restrictions of JMS apply: ``IN`` accepts literals only,
            and operands must have the type that the operator requires. Like in qpidd and ActiveMQ,
            any operand may precede ``IS NULL``. If False, evaluate like RabbitMQ (text equals a
            binary with its UTF-8 encoding, the quotient of integers is a float), and reject control
            characters in patterns.
        has_oasis_extensions: whether names such as ``m.[x-opt-hop]``, and ``+`` between texts, are
            allowed.
        number_converters: for each name whose values are compared with quoted integers as numbers,
            the function that converts a value or a literal to a number.
        is_rabbitmq_43: whether to evaluate exactly like RabbitMQ 4.3.
        compile_pattern: returns a function that tests whether a text matches a pattern of ``LIKE``.
    """

    read_token: Callable[[str, int], Token]
    resolve_name: Callable[[Any], tuple[Evaluator, str | None]]
    functions: frozenset[str] = frozenset()
    has_jms_restrictions: bool = False
    number_converters: Mapping[str, Callable[[Any], Any]] = attrs.field(factory=dict)
    has_oasis_extensions: bool = False
    is_rabbitmq_43: bool = False
    compile_pattern: Callable[[Sequence[Element]], Callable[[str], bool | None]] = compile_like


def parse_expression(
    text: str, language: Language, limits: FilterLimits, work: StepCounter
) -> Part:
    """Parse a whole expression, and set the maximum length of texts in `work`."""
    parser = _Parser(text, language, limits, work)
    part = parser.expression(0)
    token = parser.token
    if token.kind != "end":
        raise parser.error(f"expected an operator or the end, not {parser.spelling(token)}")
    parser.check_condition(part)
    work.max_text_length = limits.steps // parser.weight
    return part


class _Parser:
    """A parser by precedence climbing; the methods consume tokens and return parts."""

    def __init__(
        self, text: str, language: Language, limits: FilterLimits, work: StepCounter
    ) -> None:
        self.text = text
        self.language = language
        self.limits = limits
        self.work = work
        self.as_rabbitmq = not language.has_jms_restrictions
        self.tokens = _tokenize(text, language, limits)
        self.position = 0
        self.depth = 0
        self.weight = 1  # steps that the whole expression may need per character of a text

    # Tokens.

    @property
    def token(self) -> Token:
        """The next token, which was not consumed yet."""
        return self.tokens[self.position]

    def next_token(self) -> Token:
        """Consume the next token and return it."""
        token = self.tokens[self.position]
        self.position += 1
        return token

    def expect(self, kind: str, description: str) -> Token:
        """Consume a token of this kind; raise an error if the next token is of another kind."""
        if self.token.kind != kind:
            raise self.error(f"expected {description}, not {self.spelling(self.token)}")
        return self.next_token()

    def spelling(self, token: Token) -> str:
        """Return a token as it is spelled in the text, for error texts."""
        if token.kind == "end":
            return "the end"
        text = self.text[token.start : token.end]
        return text if len(text) <= 30 else f"{text[:30]}…"

    def error(self, problem: str, token: Token | Part | None = None) -> ExpressionError:
        """Return an error at the start of `token` or, by default, of the next token."""
        return ExpressionError(problem, self.text, (token or self.token).start)

    # Expressions.

    def expression(self, outer_precedence: int) -> Part:
        """Parse an expression whose operators bind more tightly than `outer_precedence`."""
        self.depth += 1
        if self.depth > self.limits.depth:
            raise self.error(f"nested more than {self.limits.depth} deep")
        left = self.prefix(outer_precedence)
        compared = False
        while (precedence := _PRECEDENCES.get(self.token.kind, 0)) > outer_precedence:
            if precedence == _COMPARISON:
                if compared:
                    raise self.error("comparisons cannot be chained: use AND or parentheses")
                left, compared = self.comparison(left), True
            elif precedence in (_OR, _AND):
                left, compared = self.logical(left, precedence), False
            else:
                left = self.arithmetic(left, precedence)
        self.depth -= 1
        return left

    def prefix(self, outer_precedence: int) -> Part:
        """Parse an operand: a literal, a name, or an operand after NOT, a sign or a parenthesis."""
        token = self.next_token()
        match token.kind:
            case "NOT":
                if outer_precedence >= _COMPARISON:
                    raise self.error("NOT needs parentheses here: write (NOT ...)", token)
                count = 1  # consecutive NOT count as one level of nesting
                while self.token.kind == "NOT":
                    self.next_token()
                    count += 1
                if count > _MAX_CONSECUTIVE_NOT:
                    raise self.error(
                        f"NOT is repeated more than {_MAX_CONSECUTIVE_NOT} times", token
                    )
                operand = self.expression(_NOT)
                self.check_condition(operand)
                evaluate = Not(operand.evaluate, count % 2 == 1)
                return Part(token.start, operand.end, CONDITION, evaluate, (operand,))
            case "+" | "-":
                return self.sign(token)
            case "(":
                part = self.expression(0)
                closing = self.expect(")", "an operator or )")
                return attrs.evolve(part, start=token.start, end=closing.end)
            case "number" | "string" | "binary" | "boolean":
                return _literal_part(token.start, token.end, token.value)
            case "identifier" | "qualified":
                return self.identifier(token)
            case "function":
                return self.function_call(token)
        raise self.error(f"expected a value, a name or (, not {self.spelling(token)}", token)

    def sign(self, token: Token) -> Part:
        """Parse an operand after the sign `token`."""
        if not self.language.has_jms_restrictions and self.token.kind in ("+", "-"):
            raise self.error("a second sign needs parentheses")
        operand = self.expression(_PRODUCT)
        self.check_number(operand)
        minus = token.kind == "-"
        if operand.kind == LITERAL and type(operand.value) in (int, float):
            return _literal_part(
                token.start, operand.end, -operand.value if minus else operand.value
            )
        evaluate = Signed(operand.evaluate, minus)
        return Part(token.start, operand.end, VALUE, evaluate, (operand,))

    def identifier(self, token: Token) -> Part:
        """Return the part for a name."""
        name = self.text[token.start : token.end]
        if token.kind == "qualified" and token.quoted and not self.language.has_oasis_extensions:
            raise self.error(
                "RabbitMQ has no names in brackets after a section: write [name] for an "
                "application property, or use the dialect oasis",
                token,
            )
        try:
            read, key = self.language.resolve_name(token.value)
        except UnknownNameError as error:
            raise self.error(str(error), token) from None
        return Part(token.start, token.end, NAME, read, value=name, key=key)

    def logical(self, left: Part, precedence: int) -> Part:
        """Parse operands joined by AND, or by OR; they do not count as nesting."""
        self.check_condition(left)
        operator = self.token.kind
        operands = [left]
        while self.token.kind == operator:
            self.next_token()
            operand = self.expression(precedence)
            self.check_condition(operand)
            operands.append(operand)
        conditions = [part.evaluate for part in operands]
        if operator == "AND":
            conditions = _join_equalities(conditions)
        evaluate = (
            conditions[0] if len(conditions) == 1 else AndOr(conditions, decisive=operator == "OR")
        )
        return Part(left.start, operands[-1].end, JOINED, evaluate, tuple(operands))

    def arithmetic(self, left: Part, precedence: int) -> Part:
        """Parse arithmetic operators of one precedence that follow the operand `left`."""
        operations = []
        self.check_number(left)
        while _PRECEDENCES.get(self.token.kind) == precedence:
            operator = self.next_token().kind
            operand = self.expression(precedence)
            self.check_number(operand)
            operations.append((operator, operand))
        evaluate = Calculation(
            left.evaluate,
            [(operator, operand.evaluate) for operator, operand in operations],
            truncates=self.language.has_jms_restrictions,
            concatenate=self.language.has_oasis_extensions,
            raises_overflow=self.language.is_rabbitmq_43,
        )
        parts = (left, *(operand for _, operand in operations))
        return Part(left.start, parts[-1].end, VALUE, evaluate, parts)

    def comparison(self, left: Part) -> Part:
        """Parse a comparison operator and its operands, after the left operand."""
        token = self.next_token()
        if token.kind == "IS":
            return self.is_null(left)
        if token.kind in _PRECEDENCES and token.kind not in ("NOT", "BETWEEN", "IN", "LIKE"):
            right = self.expression(_COMPARISON)
            if token.kind not in ("=", "<>"):
                self.check_ordered(left)
                self.check_ordered(right)
            evaluate = self.comparison_evaluator(token.kind, left, right)
            return Part(left.start, right.end, CONDITION, evaluate, (left, right))
        negated = token.kind == "NOT"
        if negated:
            token = self.next_token()
        match token.kind:
            case "BETWEEN":
                return self.between(left, negated)
            case "IN":
                return self.in_list(left, negated)
            case "LIKE":
                return self.like(left, negated)
        operators = "BETWEEN, IN or LIKE" if self.language.has_jms_restrictions else "IN or LIKE"
        raise self.error(f"expected {operators} after NOT, not {self.spelling(token)}", token)

    def comparison_evaluator(self, sign: str, left: Part, right: Part) -> Evaluator:
        """Return the fastest evaluator for a comparison of two operands."""
        if left.kind == LITERAL != right.kind:
            left, right, sign = right, left, _COMPARISONS_WITH_SWAPPED_OPERANDS[sign]
        left, right = self.convert_to_numbers(left, right)
        if not _is_number_or_text(right):
            return Comparison(sign, left.evaluate, right.evaluate, self.as_rabbitmq)
        if sign == "=" and left.key is not None:
            return PropertyEquals(left.key, right.value, self.as_rabbitmq)
        return LiteralComparison(sign, left.evaluate, right.value, self.as_rabbitmq)

    def convert_to_numbers(self, name: Part, *literals: Part) -> tuple[Part, ...]:
        """Return the operands of a comparison, converted to numbers if the language requires it.

        The language requires it if `name` is in `Language.number_converters`, and each literal can
        be converted to an integer.
        """
        number_of = self.language.number_converters.get(name.value) if name.kind == NAME else None
        if number_of is None:
            return (name, *literals)
        numbers = [number_of(part.value) if part.kind == LITERAL else None for part in literals]
        if not all(isinstance(number, int) and type(number) is not bool for number in numbers):
            return (name, *literals)
        evaluate = Converted(name.evaluate, number_of)
        return (
            Part(name.start, name.end, NAME, evaluate, value=name.value),
            *(
                _literal_part(part.start, part.end, number)
                for part, number in zip(literals, numbers, strict=True)
            ),
        )

    def is_null(self, left: Part) -> Part:
        """Parse the rest of ``IS [NOT] NULL``, after ``IS``."""
        is_name = left.kind == NAME and self.text[left.start] != "("
        if not is_name and not self.language.has_jms_restrictions:
            raise self.error("IS NULL needs a name before it", left)
        negated = self.token.kind == "NOT"
        if negated:
            self.next_token()
        last = self.expect("NULL", "NULL" if negated else "NULL or NOT NULL")
        return Part(left.start, last.end, CONDITION, IsNull(left.evaluate, negated), (left,))

    def between(self, left: Part, negated: bool) -> Part:
        """Parse the two bounds of ``[NOT] BETWEEN``."""
        self.check_number(left)
        low = self.expression(_COMPARISON)
        self.check_number(low)
        self.expect("AND", "AND and the upper bound of BETWEEN")
        high = self.expression(_COMPARISON)
        self.check_number(high)
        # JMS 2.0, 3.8.1: a >= low AND a <= high; negated, a < low OR a > high.
        signs = ("<", ">") if negated else (">=", "<=")
        sides = [
            self.comparison_evaluator(signs[0], left, low),
            self.comparison_evaluator(signs[1], left, high),
        ]
        evaluate = AndOr(sides, decisive=negated)
        return Part(left.start, high.end, CONDITION, evaluate, (left, low, high))

    def in_list(self, left: Part, negated: bool) -> Part:
        """Parse the list of ``[NOT] IN``."""
        self.expect("(", "( and a list of values")
        items = []
        while True:
            item = self.expression(_COMPARISON)
            if self.language.has_jms_restrictions and item.kind != LITERAL:
                raise self.error("the list of IN may only contain literals", item)
            items.append(item)
            if self.token.kind != ",":
                break
            self.next_token()
        last = self.expect(")", "a comma or )")
        left, *items = self.convert_to_numbers(left, *items)
        # For each item, whether Python's operators compare it as the language requires.
        simple = [
            _is_number_or_text(item) and (self.as_rabbitmq or compares_as_java(item.value))
            for item in items
        ]
        evaluate = InList(
            left.evaluate,
            [item.evaluate for item in items],
            [item.value for item in compress(items, simple)],
            [item.evaluate for item, is_simple in zip(items, simple, strict=True) if not is_simple],
            {kind_of(item.value) for item in items}
            if self.language.has_jms_restrictions
            else set(),
            negated,
            self.as_rabbitmq,
        )
        return Part(left.start, last.end, CONDITION, evaluate, (left, *items))

    def like(self, left: Part, negated: bool) -> Part:
        """Parse the pattern of ``[NOT] LIKE``, and its escape character."""
        token = self.expect("string", "a pattern in quotes")
        last, escape = token, None
        if self.token.kind == "ESCAPE":
            self.next_token()
            last = self.expect("string", "one character in quotes")
            escape = last.value
            if len(escape) != 1:
                raise self.error("ESCAPE needs one character in quotes", last)
        match, weight = self.pattern(token, escape)
        errors = "surrogateescape" if self.language.is_rabbitmq_43 else "strict"
        text = LengthLimited(left.evaluate, weight, self.work)
        evaluate = Like(text, match, negated, self.as_rabbitmq, errors)
        return Part(left.start, last.end, CONDITION, evaluate, (left,))

    def pattern(self, token: Token, escape: str | None) -> tuple[Callable[[str], bool | None], int]:
        """Return the function that matches the pattern of ``LIKE``, and its steps per character."""
        elements: list[Any] = []
        chars = iter(token.value)
        for char in chars:
            if char == escape:
                following = next(chars, None)
                if following is None:
                    raise self.error("the pattern ends with its escape character", token)
                elements.append(following)
            else:
                elements.append(MANY if char == "%" else ONE if char == "_" else char)
        if not self.language.has_jms_restrictions and any(
            type(element) is str and (element < " " or element == "\x7f") for element in elements
        ):
            raise self.error("control characters are not allowed in a pattern", token)
        weight = steps_per_character(elements)
        self.weight += weight
        return self.language.compile_pattern(elements), weight

    def function_call(self, token: Token) -> Part:
        """Parse the arguments of the function `token`; INF and NAN have none."""
        name = token.value
        if name not in self.language.functions:
            raise self.error(
                f"{name} is a reserved word that this dialect does not support: use the dialect "
                f"oasis, or [{self.text[token.start : token.end]}] for a property of that name",
                token,
            )
        if name in _NUMBER_CONSTANTS:
            return _literal_part(token.start, token.end, _NUMBER_CONSTANTS[name])
        self.expect("(", f"( after {name}")
        self.weight += STEPS_PER_ARGUMENT_CHARACTER
        if name == "EXISTS":
            name_token = self.next_token()
            if name_token.kind not in ("identifier", "qualified"):
                raise self.error("EXISTS needs a name", name_token)
            operand = self.identifier(name_token)
            end = self.expect(")", ")").end
            evaluate: Evaluator = IsNull(operand.evaluate, negated=True)
            return Part(token.start, end, CONDITION, evaluate, (operand,))
        arguments: list[Part] = []
        function, arity = _FUNCTIONS_WITH_ARGUMENT_COUNTS.get(name, (None, 0))
        while len(arguments) < arity:
            if arguments:
                self.expect(",", f"a comma: {name} has {arity} arguments")
            arguments.append(self.expression(_COMPARISON))
        last = self.expect(")", f"): {name} has {arity or 'no'} argument{'s' * (arity != 1)}")
        if function is None:
            evaluate = CurrentTime()
        else:
            text, *counts = (argument.evaluate for argument in arguments)
            evaluate = TextFunction(
                function, LengthLimited(text, STEPS_PER_ARGUMENT_CHARACTER, self.work), counts
            )
        return Part(token.start, last.end, VALUE, evaluate, tuple(arguments))

    # Restrictions of JMS. Some brokers accept violations, and evaluate them as unknown.

    def check_condition(self, part: Part) -> None:
        """In JMS, raise an error if a part that must be a condition is a number or text."""
        is_literal = part.kind == LITERAL and type(part.value) is not bool
        if self.language.has_jms_restrictions and (part.kind == VALUE or is_literal):
            raise self.error("expected a condition, not a value", part)

    def check_number(self, part: Part) -> None:
        """In JMS, raise an error if a part that must be a number is no number."""
        if self.language.has_jms_restrictions and _is_condition_or_literal_of(part, (bool, str)):
            raise self.error("expected a number", part)

    def check_ordered(self, part: Part) -> None:
        """In JMS, raise an error if an operand of ``<``, ``<=``, ``>`` or ``>=`` is a boolean."""
        if self.language.has_jms_restrictions and _is_condition_or_literal_of(part, (bool,)):
            raise self.error("booleans are compared with = and <> only", part)


def _literal_part(start: int, end: int, value: Any) -> Part:
    """Return the part for a literal."""
    return Part(start, end, LITERAL, Constant(value), value=value)


def _is_number_or_text(part: Part) -> bool:
    """Whether a part is a literal that is a number or text."""
    return part.kind == LITERAL and kind_of(part.value) in (NUMBER, TEXT)


def _join_equalities(conditions: list[Evaluator]) -> list[Evaluator]:
    """Replace adjacent `PropertyEquals` conditions of an AND by one `PropertiesEqual`."""
    parts: list[Evaluator] = []
    for is_equality, group in groupby(
        conditions, lambda condition: isinstance(condition, PropertyEquals)
    ):
        adjacent: list[Any] = list(group)
        parts += [PropertiesEqual(adjacent)] if is_equality and len(adjacent) > 1 else adjacent
    return parts


def _is_condition_or_literal_of(part: Part, literals: tuple[type, ...]) -> bool:
    """Whether a part is a condition, or a literal of one of these types."""
    if part.kind == LITERAL:
        return type(part.value) in literals
    return part.kind in (CONDITION, JOINED)
