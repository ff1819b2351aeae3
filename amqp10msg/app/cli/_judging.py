"""Messages judged for ``validate``: many at once where all of them are there already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec

import click

from amqp10msg.app.cli._report import judge
from amqp10msg.app.inspector.items import Item
from amqp10msg.validation import Violation
from amqp10msg.wire.limits import DEFAULT_LIMITS

# Messages that are judged at once, and how many bytes they have at most before.
_AT_ONCE = 1_000
_OCTETS = 1 << 20
_Judged = tuple[Item, list[Violation]]


def judged(items: Iterable[Item], profile: str, *, at_once: bool) -> Iterator[_Judged]:
    """Yield messages with what is wrong with them, in their order.

    Nearly all messages break nothing, and finding that out in batches costs a tenth.

    Args:
        items: the messages.
        profile: the name of the set of rules.
        at_once: wait for more messages before one is judged; not for those that arrive slowly.
    """
    suspects = _suspects() if at_once else None
    if suspects is None:
        yield from ((item, judge(item, profile)) for item in items)
        return
    gathered: list[Item] = []
    octets = 0
    try:
        for item in items:
            gathered.append(item)
            octets += len(item.data)
            if len(gathered) == _AT_ONCE or octets > _OCTETS:
                yield from _together(gathered, profile, suspects)
                gathered, octets = [], 0
    except click.ClickException:
        # What was read before is judged before it is said what cannot be read.
        yield from ((item, judge(item, profile)) for item in gathered)
        raise
    yield from ((item, judge(item, profile)) for item in gathered)


def _together(
    items: list[Item], profile: str, suspects: Callable[[list[bytes], str], Sequence[int]]
) -> Iterator[_Judged]:
    messages = [item.data for item in items]
    doubtful = set(suspects(messages, profile))
    for place, item in enumerate(items):
        if item.fault or place in doubtful:
            yield item, judge(item, profile)
        else:
            yield item, []


def _suspects() -> Callable[[list[bytes], str], Sequence[int]] | None:
    """Return what finds the messages that may break a rule; None without pyarrow."""
    if find_spec("pyarrow") is None:
        return None

    def found(messages: list[bytes], profile: str) -> Sequence[int]:
        # Imported for many messages alone, as it takes as long as judging thousands.
        from amqp10msg.columns import binary_chunks, suspects

        (array,) = binary_chunks(messages)
        return suspects(array, DEFAULT_LIMITS, profile)

    return found
