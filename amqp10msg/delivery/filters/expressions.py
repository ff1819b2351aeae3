"""JMS selectors and SQL filter expressions as filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

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
    not_a_message_error,
    register,
)
from amqp10msg.delivery.filters._evaluators import (
    ALWAYS_TRUE,
    Evaluator,
    IsNull,
    StepCounter,
    matches,
    value_of,
)
from amqp10msg.delivery.filters._names import (
    NUMBER_CONVERTERS,
    name_in_selector,
    name_in_sql,
    rabbitmq_43_like,
    resolve_oasis_name,
    resolve_rabbitmq_43_name,
    resolve_rabbitmq_name,
    resolve_selector_name,
)
from amqp10msg.delivery.filters._syntax import (
    JOINED,
    NAME,
    SQL_FUNCTIONS,
    Language,
    Part,
    parse_expression,
    selector_token,
    sql_token,
)
from amqp10msg.message import Message
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import Symbol


def reasons_of(part: Part, text: str, message: Any, now: int | None) -> Iterator[Reason]:
    """Yield the innermost conditions that prevent an expression from being true."""
    result = value_of(part.evaluate, message, now)
    if result is True:
        return
    if part.kind == JOINED:
        # Check every operand. A true operand yields no reason, and a failed OR has no true operand.
        for operand in part.parts:
            yield from reasons_of(operand, text, message, now)
        return
    values = {name.value: value_of(name.evaluate, message, now) for name in part.names}
    yield Reason(
        text[part.start : part.end], False if result is False else None, tuple(values.items())
    )


def _read_names(part: Part) -> Iterator[Part]:
    """Yield the names whose values an expression reads, except names that it tests for presence."""
    if isinstance(part.evaluate, IsNull):
        return
    if part.kind == NAME:
        yield part
    for operand in part.parts:
        yield from _read_names(operand)


_SELECTOR_LANGUAGE: Final = Language(
    selector_token,
    resolve_selector_name,
    has_jms_restrictions=True,
    number_converters=NUMBER_CONVERTERS,
)
_RABBITMQ_FUNCTIONS: Final = frozenset({"UTC"})
_LANGUAGE_OF_DIALECT: Final = {
    "rabbitmq": Language(sql_token, resolve_rabbitmq_name, _RABBITMQ_FUNCTIONS),
    "rabbitmq-4.3": Language(
        sql_token,
        resolve_rabbitmq_43_name,
        _RABBITMQ_FUNCTIONS,
        is_rabbitmq_43=True,
        compile_pattern=rabbitmq_43_like,
    ),
    "oasis": Language(sql_token, resolve_oasis_name, SQL_FUNCTIONS, has_oasis_extensions=True),
}


@attrs.frozen
class _Expression(Filter):
    """A filter by an expression, which is compiled when the filter is constructed."""

    text: str
    limits: FilterLimits = attrs.field(
        default=DEFAULT_FILTER_LIMITS, kw_only=True, eq=False, repr=False
    )
    _evaluate: Evaluator = attrs.field(init=False, eq=False, repr=False, default=ALWAYS_TRUE)
    _parsed_expression: Part | None = attrs.field(init=False, eq=False, repr=False, default=None)
    _step_counter: StepCounter = attrs.field(init=False, eq=False, repr=False, factory=StepCounter)

    def prepare(self) -> None:
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            problem = "a surrogate has no UTF-8 encoding: remove it"
            raise ExpressionError(problem, self.text, error.start) from None
        try:
            whole = self._parse(str(self.text))
            if whole is not None:
                object.__setattr__(self, "_parsed_expression", whole)
                object.__setattr__(self, "_evaluate", whole.evaluate)
        except RecursionError:
            problem = "nested too deep for the remaining stack"
            raise ExpressionError(problem, self.text, 0) from None

    def _parse(self, text: str) -> Part | None:
        """Parse and compile the text; return None if every message passes."""
        raise NotImplementedError

    matches = matches

    @property
    def steps(self) -> int:  # `Filter.steps` has the documentation
        return self._step_counter.steps

    def passes(self, message: Message, now: int | None, _local: bool | None) -> bool:
        return value_of(self._evaluate, message, now) is True

    def result(self, message: Message, *, now: int | None = None) -> Any:
        """Return the value of the expression: True, False, or None for unknown.

        An expression that is not a condition returns its value.
        """
        if not isinstance(message, Message):
            raise not_a_message_error(message)
        return value_of(self._evaluate, message, now)

    def _unset_names(self, message: Message) -> tuple[str, ...]:
        names = (
            {}
            if self._parsed_expression is None
            else {part.value: part for part in _read_names(self._parsed_expression)}
        )
        return tuple(
            name for name, part in names.items() if value_of(part.evaluate, message, None) is None
        )

    def reasons(self, message: Message, now: int | None) -> tuple[Reason, ...]:
        if self._parsed_expression is None:
            return ()
        return tuple(reasons_of(self._parsed_expression, self.text, message, now))


@register
@attrs.frozen
class Selector(_Expression):
    """A JMS message selector: ``apache.org:selector-filter:string``.

        Selector("color = 'red' AND (weight > 2500 OR JMSPriority >= 7)")

    The grammar is JMS 2.0, 3.8.1. A message does not pass if the result is unknown because a name
    is not set. A name is an application property, or belongs to

    - the JMS headers and properties: ``JMSDeliveryMode`` ('PERSISTENT' or 'NON_PERSISTENT'),
      ``JMSPriority``, ``JMSMessageID`` and ``JMSCorrelationID`` (as `amqp10msg.interop.jms` writes
      them), ``JMSTimestamp`` and ``JMSExpiration`` (ms), ``JMSType``, ``JMSDestination``,
      ``JMSReplyTo``, ``JMSRedelivered``, ``JMSDeliveryTime``, ``JMSXGroupID``, ``JMSXGroupSeq``,
      ``JMSXUserID``, ``JMSXDeliveryCount``;
    - ``amqp.`` and a field of the header or the properties with underscores, such as
      ``amqp.correlation_id`` or ``amqp.priority``, and ``amqp.delivery_mode`` and
      ``amqp.redelivered``, as in Apache Qpid;
    - ``amqp.annotation.`` and the key of a message annotation, which may contain dashes:
      ``amqp.annotation.x-opt-offset > '100'``. As in Azure Event Hubs, ``x-opt-offset``,
      ``x-opt-sequence-number`` and ``x-opt-enqueued-time`` (ms) compare as numbers with quoted
      integers.

    A comparison of values of different kinds is false. Integers and timestamps (ms) are exact and
    never overflow. Floats and doubles are approximate, and so are decimals that are compared with
    them or have a fraction in arithmetic. The quotient of exact numbers is truncated; division by
    zero is unknown. Extensions of JMS: texts are ordered by code points, lists may contain numbers,
    and names may contain dots and, after the prefix ``hyphenated_props:`` of ActiveMQ Artemis,
    dashes. Every message passes an empty selector.

    Attributes:
        text: the selector.
        limits: limits on its size and on the steps to evaluate it.

    Raises:
        ExpressionError: the text is not a selector, or exceeds a limit.
    """

    SYMBOL: ClassVar[Symbol] = Symbol("apache.org:selector-filter:string")
    CODE: ClassVar[int | None] = 0x0000_468C_0000_0004
    CAPABILITY: ClassVar[str] = "APACHE.ORG:SELECTOR"

    def _right_name(self, name: str) -> str:
        return name_in_selector(name)

    def _parse(self, text: str) -> Part | None:
        is_empty = not text.strip(" \t\f\r\n")
        return (
            None
            if is_empty
            else parse_expression(text, _SELECTOR_LANGUAGE, self.limits, self._step_counter)
        )


@register
@attrs.frozen
class SqlFilter(_Expression):
    """An SQL filter expression: ``amqp:sql-filter`` (AMQP Filter Expressions 1.0, section 6).

        SqlFilter("properties.subject LIKE 'Order%' AND region IN ('emea', 'apac')")

    This is the language that RabbitMQ 4.2 documents for streams:

    - keywords and functions in upper case;
    - names of application properties, in brackets unless they are plain words
      (``[order-status]``), with an optional prefix ``application_properties.`` or ``a.``;
    - ``properties.`` or ``p.`` and a field with underscores; ``header.priority`` or ``h.priority``;
    - text in single or double quotes, binary as ``0x0AFF``;
    - ``= <> != < <= > >=``, ``+ - * / %``, ``AND OR NOT``, ``[NOT] LIKE … ESCAPE``, ``[NOT] IN``,
      ``IS [NOT] NULL``, and ``UTC()``, which is the argument `now` of `matches`, in ms.

    As in RabbitMQ, text compares with binary by its UTF-8 encoding, a UUID compares as its 16
    bytes, ``/`` returns a fraction, and for values of other different kinds only ``<>`` is true. A
    message does not pass if the result is unknown.

    RabbitMQ requires the name ``sql-filter`` for it in the filter set. It omits a filter that it
    rejects from the source in its attach, and delivers every message: compare the filters in that
    attach with the requested filters.

    Attributes:
        text: the expression.
        dialect: ``rabbitmq`` is this language, with the values of the draft. ``rabbitmq-4.3`` (also
            ``rabbitmq-4.2``, ``rabbitmq-4``) predicts the deviations of that broker: ``_`` and
            ``%`` do not match a line feed, a char compares as a number, decimals, NaN and infinity
            count as not set, ``LIKE`` accepts any binary and UUID, and an overflow, which ends the
            session there, raises `EvaluationError`. ``oasis`` supports more of the draft: every
            field of the header, the sections ``delivery_annotations`` (``d``),
            ``message_annotations`` (``m``) and ``footer`` (``f``), names such as
            ``m.[x-opt-hop]``, ``EXISTS(name)``, ``LOWER``, ``UPPER``, ``LEFT(text, count)``,
            ``RIGHT(text, count)``, ``SUBSTRING(text, start, count)`` with 1 for the first
            character, ``DATE('2025-01-31')`` in ms, ``INF`` and ``NAN``, and ``+`` between texts.
        limits: limits on its size and on the steps to evaluate it; `RABBITMQ` has the limits of
            the broker.

    Raises:
        ExpressionError: the text is not an expression of the dialect, or exceeds a limit.
    """

    dialect: Dialect = attrs.field(default="rabbitmq", kw_only=True, converter=dialect_of)

    SYMBOL: ClassVar[Symbol] = Symbol("amqp:sql-filter")
    CODE: ClassVar[int | None] = 0x120
    CAPABILITY: ClassVar[str] = "AMQP_FILTEX_SQL_V1_0"

    def _right_name(self, name: str) -> str:
        return name_in_sql(name)

    def _parse(self, text: str) -> Part:
        language = _LANGUAGE_OF_DIALECT.get(self.dialect)
        if language is None:
            names = ", ".join(DIALECTS.names)
            raise EncodeError(f"dialect is one of {names}, not {self.dialect!r}", "filter.dialect")
        if not text.strip(" \t\f\r\n"):
            raise ExpressionError("the expression is empty", text, 0)
        return parse_expression(text, language, self.limits, self._step_counter)
