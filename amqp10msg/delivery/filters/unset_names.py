"""Finds the names in a filter that no message sets, because they may be misspelled."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice

from amqp10msg.delivery.filters._base import Filter
from amqp10msg.message import Message

#: Maximum number of property names that are kept for suggestions.
_MAX_SUGGESTIONS = 1_000


class UnsetNames:
    """Finds the names in a filter that no message sets.

    Args:
        message_filter: the filter.
    """

    def __init__(self, message_filter: Filter) -> None:
        self._filter = message_filter
        # None before the first message.
        self._names: tuple[str, ...] | None = None
        self._properties: set[str] = set()

    def add(self, message: Message) -> None:
        """Remove the names that a message sets."""
        if self._names == ():
            return
        unset = self._filter.unset_names(message)
        self._names = tuple(name for name in self._names or unset if name in unset)
        room = _MAX_SUGGESTIONS - len(self._properties)
        self._properties.update(islice(map(str, message.application_properties or ()), room))

    def texts(self) -> list[str]:
        """Return a sentence for each name that no message sets.

        The sentence has the right name for a name of another language, or a similar name if any.
        """
        texts = []
        for name in self._names or ():
            right = self._filter.right_name(name)
            if right and name not in self._properties:
                texts.append(f"no message sets {name}, which is {right} in this language")
                continue
            prefix, dot, key = name.rpartition(".")
            similar = get_close_matches(key, sorted(self._properties), 1)
            hint = f" (did you mean {prefix}{dot}{similar[0]}?)" if similar else ""
            texts.append(f"no message sets {name}{hint}")
        return texts
