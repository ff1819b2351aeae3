"""Filters of the delivery package on the messages of a route, whatever their protocol."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from amqp10msg.basic import BasicMessage
from amqp10msg.delivery.filters import LANGUAGES
from amqp10msg.translate import to_amqp10
from amqp10msg.wire.errors import AmqpError


def matcher(text: str, language: str = "selector") -> Callable[[Any], bool]:
    """Return what says whether a message passes a filter now; one of 0-9-1 by its translation.

    Args:
        text: the filter.
        language: what it is written in, a name of `amqp10msg.delivery.filters.LANGUAGES`.

    Raises:
        ValueError: it is no such filter, or there is no such language.
    """
    if language not in LANGUAGES:
        raise ValueError(f"filter-language is one of {', '.join(LANGUAGES)}, not {language!r}")
    try:
        made = LANGUAGES[language](text)
    except AmqpError as error:
        raise ValueError(f"filter: {error}") from None

    def matches(message: Any) -> bool:
        if isinstance(message, BasicMessage):
            message = to_amqp10(message).message
        return made.matches(message, now=time.time_ns() // 1_000_000)

    return matches
