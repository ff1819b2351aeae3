"""Filters of sources, evaluated on messages (Part 3, 3.5.1 and 3.5.8).

Each class is a type of filter. `parse` constructs filters from a peer's source. Of a filter,
``matches(message)`` returns whether a message passes, ``explain(message)`` the conditions that it
does not meet, and ``to_described()`` the value for a source. A `FilterSet` holds the filters of a
source.
"""

from amqp10msg.delivery.filters._base import (
    DEFAULT_FILTER_LIMITS,
    DIALECTS,
    RABBITMQ,
    EvaluationError,
    ExpressionError,
    Filter,
    FilterLimits,
    FilterOptions,
    FilterWarning,
    Reason,
    register,
)
from amqp10msg.delivery.filters.conditions import (
    ApplicationPropertiesFilter,
    DirectBinding,
    HeadersBinding,
    MatchUnfiltered,
    NoLocal,
    PropertiesFilter,
    SessionFilter,
    StreamFilter,
    StreamOffset,
    TopicBinding,
    XQuery,
)
from amqp10msg.delivery.filters.expressions import Selector, SqlFilter
from amqp10msg.delivery.filters.sets import LANGUAGES, FilterSet, UnsupportedFilter, parse

__all__ = [
    "DEFAULT_FILTER_LIMITS",
    "DIALECTS",
    "LANGUAGES",
    "RABBITMQ",
    "ApplicationPropertiesFilter",
    "DirectBinding",
    "EvaluationError",
    "ExpressionError",
    "Filter",
    "FilterLimits",
    "FilterOptions",
    "FilterSet",
    "FilterWarning",
    "HeadersBinding",
    "MatchUnfiltered",
    "NoLocal",
    "PropertiesFilter",
    "Reason",
    "Selector",
    "SessionFilter",
    "SqlFilter",
    "StreamFilter",
    "StreamOffset",
    "TopicBinding",
    "UnsupportedFilter",
    "XQuery",
    "parse",
    "register",
]
