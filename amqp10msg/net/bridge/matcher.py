"""Decides whether a message passes the filter of a route."""

from __future__ import annotations

import time
from typing import Any

import attrs

from amqp10msg.basic import BasicMessage
from amqp10msg.delivery.filters import LANGUAGES
from amqp10msg.delivery.filters.unset_names import UnsetNames
from amqp10msg.message import Message
from amqp10msg.translate import to_amqp10
from amqp10msg.wire.errors import AmqpError


@attrs.frozen
class Matcher:
    """A callable that returns whether a message passes a filter at the current time.

    A message of 0-9-1 passes if its translation to 1.0 passes.

    Attributes:
        text: the filter.
        language: a key of `amqp10msg.delivery.filters.LANGUAGES`.

    Raises:
        ValueError: the language is unknown, or the text is empty or invalid in this language.
    """

    text: str
    language: str = "selector"
    _filter: Any = attrs.field(init=False, eq=False, repr=False)

    @_filter.default
    def _parse(self) -> Any:
        if self.language not in LANGUAGES:
            languages = ", ".join(LANGUAGES)
            raise ValueError(f"filter_language must be one of {languages}, not {self.language!r}")
        if not self.text.strip():
            # An empty selector passes every message (JMS 2.0, 3.8.1.1). On a command line, it is
            # probably a shell variable that was not set.
            raise ValueError("filter: the text is empty; to move all messages, give no filter")
        try:
            return LANGUAGES[self.language](self.text)
        except AmqpError as error:
            raise ValueError(f"filter: {error}") from None

    def __call__(self, message: Any) -> bool:
        """Return whether a message of 0-9-1 or 1.0 passes the filter."""
        now = time.time_ns() // 1_000_000
        return bool(self._filter.matches(as_amqp10(message), now=now))

    def unset_names(self) -> UnsetNames:
        """Return an object that finds the names in the filter that no message sets."""
        return UnsetNames(self._filter)


def as_amqp10(message: BasicMessage | Message) -> Message:
    """Return the message that a filter is evaluated for: the translation of a 0-9-1 message."""
    return to_amqp10(message).message if isinstance(message, BasicMessage) else message
