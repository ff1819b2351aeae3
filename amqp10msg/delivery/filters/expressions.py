"""JMS selectors and SQL filter expressions as filters: compiled, evaluated, explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final, TypeGuard

import attrs

from amqp10msg.delivery.filters._base import (
    DEFAULT_FILTER_LIMITS,
    DIALECTS,
    Dialect,
    ExpressionError,
    Filter,
    FilterLimits,
    Reason,
    dialect_of,
    not_a_message,
    register,
)
from amqp10msg.delivery.filters._evaluators import (
    ALWAYS,
    NUMBER,
    TEXT,
    AllEqual,
    Bounded,
    Calculation,
    Comparison,
    Constant,
    Equal,
    Evaluator,
    InList,
    Joined,
    LikeText,
    Negated,
    Null,
    Signed,
    TextFunction,
    Time,
    WithLiteral,
    Work,
    is_exact,
    kind_of,
    matches,
    value_of,
)
from amqp10msg.delivery.filters._names import (
    oasis_name,
    rabbitmq_43_like,
    rabbitmq_43_name,
    rabbitmq_name,
    selector_name,
)
from amqp10msg.delivery.filters._syntax import (
    CALL_WEIGHT,
    SQL_FUNCTIONS,
    Arithmetic,
    Between,
    Call,
    Compare,
    Identifier,
    In,
    IsNull,
    Language,
    Like,
    Literal,
    Logical,
    Node,
    Not,
    Sign,
    parse_expression,
    selector_tokens,
    sql_tokens,
)
from amqp10msg.message import Message
from amqp10msg.sections import moment_of, to_milliseconds
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import Symbol

_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compile_expression(
    node: Node,
    longest: int,
    work: Work,
    octets: bool,
    concatenate: bool = False,
    broker: bool = False,
) -> Evaluator:
    """Return the evaluator of a tree.

    Args:
        node: the tree.
        longest: characters of a text up to which ``LIKE`` and functions are evaluated.
        work: where their steps are counted.
        octets: evaluate as RabbitMQ does: text is its UTF-8 encoding, the quotient of integers is a
            float. Otherwise as JMS does.
        concatenate: ``+`` joins texts.
        broker: evaluate exactly as RabbitMQ 4.3 does.
    """
    return _Compiler(longest, work, octets, concatenate, broker).compiled(node)


@attrs.frozen
class _Compiler:
    longest: int
    work: Work
    octets: bool
    concatenate: bool
    broker: bool

    def compiled(self, node: Node) -> Evaluator:
        match node:
            case Literal(value=value):
                return Constant(value)
            case Identifier(read=read):
                return read
            case Logical(operator="AND"):
                return self.conjunction(node.operands)
            case Logical():
                return Joined([self.compiled(part) for part in node.operands], decisive=True)
            case Not():
                return Negated(self.compiled(node.operand), node.negated)
            case Compare():
                return self.comparison(node)
            case Between():
                return self.between(node)
            case In():
                return self.in_list(node)
            case Like():
                return self.like(node)
            case IsNull():
                return Null(self.compiled(node.operand), node.negated)
            case Sign():
                return Signed(self.compiled(node.operand), node.operator == "-")
            case Arithmetic():
                rest = [(sign, self.compiled(operand)) for sign, operand in node.rest]
                exact, finite = not self.octets, self.broker
                first = self.compiled(node.first)
                return Calculation(first, rest, exact, self.concatenate, finite)
            case Call(function="UTC"):
                return Time()
            case Call():
                text, *counts = map(self.compiled, node.arguments)
                bounded = Bounded(text, self.longest, CALL_WEIGHT, self.work)
                return TextFunction(_FUNCTIONS[node.function], bounded, counts)
        raise AssertionError(f"no such node: {node!r}")

    def conjunction(self, operands: Sequence[Node]) -> Evaluator:
        """Compile ``a AND b``; what stands side by side and is ``name = literal`` as one."""
        parts: list[Evaluator] = []
        for _, group in groupby(map(self.compiled, operands), _is_equality):
            found = list(group)
            equalities = [part for part in found if isinstance(part, Equal)]
            parts += [AllEqual(equalities)] if len(equalities) > 1 else found
        return parts[0] if len(parts) == 1 else Joined(parts, decisive=False)

    def comparison(self, node: Compare) -> Evaluator:
        left, right, sign = _with_literal_last(node)
        if _is_plain(right):
            if sign == "=" and isinstance(left, Identifier) and left.key is not None:
                return Equal(left.key, right.value, self.octets)
            return WithLiteral(sign, self.compiled(left), right.value, self.octets)
        return Comparison(sign, self.compiled(left), self.compiled(right), self.octets)

    def between(self, node: Between) -> Evaluator:
        """As JMS defines it: ``a >= low AND a <= high``, negated ``a < low OR a > high``."""
        signs = ("<", ">") if node.negated else (">=", "<=")
        sides = [
            self.comparison(Compare(node.start, node.end, sign, node.operand, bound))
            for sign, bound in zip(signs, (node.low, node.high), strict=True)
        ]
        return Joined(sides, decisive=node.negated)

    def is_simple(self, node: Node) -> TypeGuard[Literal]:
        """Whether Python's own operators compare a node's value as the language does."""
        return _is_plain(node) and (self.octets or is_exact(node.value))

    def in_list(self, node: In) -> Evaluator:
        items = [(item, self.compiled(item)) for item in node.items]
        literals = [item.value for item in node.items if isinstance(item, Literal)]
        return InList(
            self.compiled(node.operand),
            [one for _, one in items],
            [item.value for item in node.items if self.is_simple(item)],
            [one for item, one in items if not self.is_simple(item)],
            set() if self.octets else {kind_of(literal) for literal in literals},
            node.negated,
            self.octets,
        )

    def like(self, node: Like) -> Evaluator:
        operand = Bounded(self.compiled(node.operand), self.longest, node.weight, self.work)
        errors = "surrogateescape" if self.broker else "strict"
        return LikeText(operand, node.match, node.negated, self.octets, errors)


def _is_equality(part: Evaluator) -> bool:
    return isinstance(part, Equal)


def _with_literal_last(node: Compare) -> tuple[Node, Node, str]:
    left, right, sign = node.left, node.right, node.operator
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return right, left, _MIRRORED[sign]
    return left, right, sign


def _is_plain(node: Node) -> TypeGuard[Literal]:
    return isinstance(node, Literal) and kind_of(node.value) in (NUMBER, TEXT)


# The functions of SQL filter expressions.


def _milliseconds(text: str) -> int | None:
    """Parse an ISO 8601 date, by default in UTC, to ms since the Unix epoch."""
    try:
        return to_milliseconds(moment_of(text))
    except ValueError:
        return None


def _substring(text: str, start: int, count: int) -> str:
    """Return a substring as SQL-92 defines it: the first character is number 1."""
    return text[max(start - 1, 0) : max(start - 1 + count, 0)]


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "LOWER": str.lower,
    "UPPER": str.upper,
    "DATE": _milliseconds,
    "LEFT": lambda text, count: text[:count],
    "RIGHT": lambda text, count: text[-count:] if count else "",
    "SUBSTRING": _substring,
}


def reasons_of(
    node: Node, compiled: Callable[[Node], Evaluator], text: str, message: Any, now: int | None
) -> Iterator[Reason]:
    """Find the smallest conditions that keep an expression from being true.

    Args:
        node: the syntax tree of the expression, or a part of it.
        compiled: returns what evaluates a part.
        text: the text that was parsed.
        message: the message.
        now: the time in ms since the Unix epoch, or None.
    """
    result = value_of(compiled(node), message, now)
    if result is True:
        return
    if isinstance(node, Logical):
        # In a failed AND the operands that are not true are at fault, in a failed OR all are.
        for operand in node.operands:
            yield from reasons_of(operand, compiled, text, message, now)
        return
    seen = {
        identifier.name: value_of(identifier.read, message, now)
        for identifier in _identifiers(node)
    }
    yield Reason(
        text[node.start : node.end], False if result is False else None, tuple(seen.items())
    )


def _identifiers(part: Any) -> Iterator[Identifier]:
    """Find the identifiers in a part of a tree, in the order of the text."""
    if isinstance(part, Identifier):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from _identifiers(item)
    elif isinstance(part, Node):
        for field in attrs.fields(type(part)):
            yield from _identifiers(getattr(part, field.name))


_SELECTOR: Final = Language(selector_tokens, selector_name, frozenset(), True, False)
_LANGUAGES: Final = {
    "rabbitmq": Language(sql_tokens, rabbitmq_name, frozenset({"UTC"}), False, True),
    "rabbitmq-4.3": Language(
        sql_tokens, rabbitmq_43_name, frozenset({"UTC"}), False, True, like=rabbitmq_43_like
    ),
    "oasis": Language(sql_tokens, oasis_name, SQL_FUNCTIONS, False, True, bracketed_fields=True),
}


@attrs.frozen
class _Expression(Filter):
    """An expression, compiled when the filter is made."""

    text: str
    limits: FilterLimits = attrs.field(
        default=DEFAULT_FILTER_LIMITS, kw_only=True, eq=False, repr=False
    )
    _evaluate: Evaluator = attrs.field(init=False, eq=False, repr=False, default=ALWAYS)
    _tree: Node | None = attrs.field(init=False, eq=False, repr=False, default=None)
    _longest: int = attrs.field(init=False, eq=False, repr=False, default=0)
    _work: Work = attrs.field(init=False, eq=False, repr=False, factory=Work)

    def _settle(self) -> None:
        if not isinstance(self.text, str):
            raise EncodeError(
                f"{self.SYMBOL} takes a str, not {type(self.text).__name__}", "filter.text"
            )
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            raise ExpressionError("a surrogate is not allowed", self.text, error.start) from None
        try:
            parsed = self._parsed(str(self.text))
            if parsed is not None:
                tree, weight = parsed
                object.__setattr__(self, "_tree", tree)
                object.__setattr__(self, "_longest", self.limits.steps // weight)
                object.__setattr__(self, "_evaluate", self._compiled(tree))
        except RecursionError:
            problem = "nested too deep for the stack that is left"
            raise ExpressionError(problem, self.text, 0) from None

    def _parsed(self, text: str) -> tuple[Node, int] | None:
        """Return the tree and its weight; None if every message passes."""
        raise NotImplementedError

    def _compiled(self, node: Node) -> Evaluator:
        """Return the evaluator of a part of the tree."""
        raise NotImplementedError

    matches = matches

    @property
    def steps(self) -> int:  # as the base class has it
        return self._work.steps

    def _passes(self, message: Message, now: int | None, _local: bool | None) -> bool:
        return value_of(self._evaluate, message, now) is True

    def result(self, message: Message, *, now: int | None = None) -> Any:
        """Return the value of the expression: True, False, or None for unknown.

        An expression that is not a condition returns its value.
        """
        if not isinstance(message, Message):
            raise not_a_message(message)
        return value_of(self._evaluate, message, now)

    def _reasons(self, message: Message, now: int | None) -> tuple[Reason, ...]:
        if self._tree is None:
            return ()
        return tuple(reasons_of(self._tree, self._compiled, self.text, message, now))

    def _value(self) -> str:
        return self.text


@register
@attrs.frozen
class Selector(_Expression):
    """A JMS message selector: ``apache.org:selector-filter:string``.

        Selector("color = 'red' AND (weight > 2500 OR JMSPriority >= 7)")

    The grammar is that of JMS 2.0, 3.8.1: a condition that is unknown because a name is not set
    does not pass. A name is an application property, or one of

    - the JMS headers and properties: ``JMSDeliveryMode`` ('PERSISTENT' or 'NON_PERSISTENT'),
      ``JMSPriority``, ``JMSMessageID`` and ``JMSCorrelationID`` (as `amqp10msg.interop.jms` writes
      them), ``JMSTimestamp`` and ``JMSExpiration`` (ms), ``JMSType``, ``JMSDestination``,
      ``JMSReplyTo``, ``JMSRedelivered``, ``JMSDeliveryTime``, ``JMSXGroupID``, ``JMSXGroupSeq``,
      ``JMSXUserID``, ``JMSXDeliveryCount``; - ``amqp.`` and a field of the header or the properties
      with underscores, such as ``amqp.correlation_id`` or ``amqp.priority``, and
      ``amqp.delivery_mode`` and ``amqp.redelivered``, as in Apache Qpid; - ``amqp.annotation.`` and
      the key of a message annotation, which may contain dashes, as in Azure Event Hubs:
      ``amqp.annotation.x-opt-offset > '100'``.

    Values of different kinds compare as false. Integers and timestamps (ms) are exact and never
    overflow; float and double are approximate, and so is a decimal beside one of them, or one with
    a fraction in arithmetic. The quotient of exact numbers is truncated; division by zero is
    unknown. Extensions of JMS: texts are ordered by code points, lists may contain numbers, and
    names may contain dots and, after the prefix ``hyphenated_props:`` of ActiveMQ Artemis, dashes.
    Every message passes an empty selector.

    Attributes:
        text: the selector.
        limits: limits on its size.

    Raises:
        ExpressionError: the text is not a selector.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:selector-filter:string")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0004
    CAPABILITY: ClassVar[str] = "APACHE.ORG:SELECTOR"

    def _parsed(self, text: str) -> tuple[Node, int] | None:
        return parse_expression(text, _SELECTOR, self.limits) if text.strip(" \t\f\r\n") else None

    def _compiled(self, node: Node) -> Evaluator:
        return compile_expression(node, self._longest, self._work, octets=False)


@register
@attrs.frozen
class SqlFilter(_Expression):
    """An SQL filter expression: ``amqp:sql-filter`` (AMQP Filter Expressions 1.0, section 6).

        SqlFilter("properties.subject LIKE 'Order%' AND region IN ('emea', 'apac')")

    The language that RabbitMQ 4.2 documents and parses for streams: keywords are in upper case; a
    name is an application property, in brackets if it is not a plain word (``[order-status]``), or
    ``application_properties.`` or ``a.``, ``properties.`` or ``p.`` and a field with underscores,
    ``header.priority`` or ``h.priority``; text in single or double quotes, binary as ``0x0AFF``;
    ``= <> != < <= > >=``, ``+ - * / %``, ``AND OR NOT``, ``[NOT] LIKE … ESCAPE``, ``[NOT] IN``,
    ``IS [NOT] NULL``, and ``UTC()``, which is the `now` of `matches`, in ms.

    As in RabbitMQ, text compares with binary by its UTF-8 encoding, a UUID is its 16 bytes, ``/``
    returns a fraction, and values of other different kinds are only ``<>``. A message does not pass
    if the result is unknown.

    RabbitMQ reads the filter under the name ``sql-filter``. It leaves a filter that it refuses out
    of its answer to the attach, and delivers every message: compare the filters of the answer with
    those asked for.

    Attributes:
        text: the expression.
        dialect: ``rabbitmq``, which reads values as the draft says; ``rabbitmq-4.3``, also as
            ``rabbitmq-4.2`` and ``rabbitmq-4``, to predict that broker where it does not: ``_`` and
            ``%`` do not match a line feed, a char is a number, decimals, NaN and infinity are not
            set, ``LIKE`` reads any binary and UUID, and an overflow, which ends the session there,
            raises `EvaluationError` here; or
            ``oasis`` for more of the draft: every field of the header, the
            sections ``delivery_annotations`` (``d``), ``message_annotations`` (``m``) and
            ``footer`` (``f``), names such as ``m.[x-opt-hop]``, ``EXISTS(name)``, ``LOWER``,
            ``UPPER``, ``LEFT(text, count)``, ``RIGHT(text, count)``,
            ``SUBSTRING(text, start, count)`` with 1 for the first character, ``DATE('2025-01-31')``
            in ms, ``INF`` and ``NAN``, and ``+`` between texts.
        limits: limits on its size; `RABBITMQ` has those of the broker.

    Raises:
        ExpressionError: the text is not such an expression.
    """

    dialect: Dialect = attrs.field(default="rabbitmq", kw_only=True, converter=dialect_of)

    SYMBOL: ClassVar[Symbol] = Symbol("amqp:sql-filter")
    CODE: ClassVar[int | None] = 0x120
    CAPABILITY: ClassVar[str] = "AMQP_FILTEX_SQL_V1_0"

    def _parsed(self, text: str) -> tuple[Node, int]:
        language = _LANGUAGES.get(self.dialect)
        if language is None:
            known = ", ".join(DIALECTS.names)
            raise EncodeError(f"dialect is one of {known}, not {self.dialect!r}", "filter.dialect")
        if not text.strip(" \t\f\r\n"):
            raise ExpressionError("the expression is empty", text, 0)
        return parse_expression(text, language, self.limits)

    def _compiled(self, node: Node) -> Evaluator:
        return compile_expression(
            node,
            self._longest,
            self._work,
            octets=True,
            concatenate=self.dialect == "oasis",
            broker=self.dialect == "rabbitmq-4.3",
        )
