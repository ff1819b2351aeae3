"""Filters that one text says, by what the text is written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from amqp10msg.delivery.filters._base import Filter
from amqp10msg.delivery.filters.bindings import DirectBinding, TopicBinding
from amqp10msg.delivery.filters.expressions import Selector, SqlFilter


def _oasis(text: str) -> Filter:
    return SqlFilter(text, dialect="oasis")


#: Makes the filter of a text, by its language: a JMS selector, an SQL filter expression as RabbitMQ
#: has it or with more of the OASIS draft, a topic pattern, a subject.
LANGUAGES: Mapping[str, Callable[[str], Filter]] = MappingProxyType(
    {
        "selector": Selector,
        "sql": SqlFilter,
        "oasis": _oasis,
        "topic": TopicBinding,
        "direct": DirectBinding,
    }
)
