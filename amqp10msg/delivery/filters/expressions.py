"""JMS selectors and SQL filter expressions."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import attrs

from amqp10msg.delivery.filters._base import (
    DEFAULT_FILTER_LIMITS,
    Dialect,
    ExpressionError,
    Filter,
    FilterLimits,
    Reason,
    not_a_message,
    register,
)
from amqp10msg.delivery.filters._compile import compile_expression
from amqp10msg.delivery.filters._evaluators import ALWAYS, Evaluator, matches, value_of
from amqp10msg.delivery.filters._explain import reasons_of
from amqp10msg.delivery.filters._lexer import SQL_FUNCTIONS, selector_tokens, sql_tokens
from amqp10msg.delivery.filters._names import oasis_name, rabbitmq_name, selector_name
from amqp10msg.delivery.filters._parser import Language, parse_expression
from amqp10msg.delivery.filters._rabbitmq import rabbitmq_43_like, rabbitmq_43_name
from amqp10msg.delivery.filters._syntax import Node
from amqp10msg.message import Message
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import Symbol

_SELECTOR: Final = Language(selector_tokens, selector_name, frozenset(), True, False)
_DIALECTS: Final = {
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
        """Return what evaluates a part of the tree."""
        raise NotImplementedError

    matches = matches

    def _passes(self, message: Message, now: int | None, _local: bool | None) -> bool:
        return value_of(self._evaluate, message, now) is True

    def result(self, message: Message, *, now: int | None = None) -> Any:
        """Return what the expression evaluates to: True, False, or None for unknown.

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
        return compile_expression(node, self._longest, octets=False)


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
        dialect: ``rabbitmq``, which reads values as the draft says; ``rabbitmq-4.3`` to predict
            that broker where it does not: ``_`` and ``%`` do not match a line feed, a char is a
            number, decimals, NaN and infinity are not set, ``LIKE`` reads any binary and UUID, and
            an overflow, which ends the session there, raises `EvaluationError` here; or
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

    dialect: Dialect = attrs.field(default="rabbitmq", kw_only=True)

    SYMBOL: ClassVar[Symbol] = Symbol("amqp:sql-filter")
    CODE: ClassVar[int | None] = 0x120
    CAPABILITY: ClassVar[str] = "AMQP_FILTEX_SQL_V1_0"

    def _parsed(self, text: str) -> tuple[Node, int]:
        language = _DIALECTS.get(self.dialect)
        if language is None:
            raise EncodeError(
                f"dialect is one of {', '.join(_DIALECTS)}, not {self.dialect!r}", "filter.dialect"
            )
        if not text.strip(" \t\f\r\n"):
            raise ExpressionError("the expression is empty", text, 0)
        return parse_expression(text, language, self.limits)

    def _compiled(self, node: Node) -> Evaluator:
        return compile_expression(
            node,
            self._longest,
            octets=True,
            concatenate=self.dialect == "oasis",
            broker=self.dialect == "rabbitmq-4.3",
        )
