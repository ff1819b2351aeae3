"""Where a node keeps messages that must not be lost: the interface, and the store that does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import attrs

__all__ = ["MemoryStore", "Quarantined", "Store", "Stored"]


@attrs.frozen
class Stored:
    """A message as a store keeps it.

    Attributes:
        sequence: its number at the node, 1 for the first.
        arrival: when it arrived, in milliseconds of the node's clock.
        octets: the encoded message, as it stands at the node.
        message_format: of the transfer that brought it, 0 to 2^32 - 1.
    """

    sequence: int
    arrival: int
    octets: bytes
    message_format: int = 0


@attrs.frozen
class Quarantined:
    """A stored message that its node could not read.

    Attributes:
        node: the node's name.
        stored: the message, its octets as they are.
        reason: why it could not be read.
    """

    node: str
    stored: Stored
    reason: str


class Store(Protocol):
    """What keeps the durable messages of one or more nodes.

    What `put` and `remove` say is done when the `commit` that follows returns, and not before: that
    is when a node confirms it. A store is used by one thread at a time.
    """

    @property
    def durable(self) -> bool:
        """Whether what is committed outlives the process, however that ends."""

    def load(self, node: str) -> Iterable[Stored]:
        """Give the messages that are committed for a node, by sequence."""

    def put(self, node: str, stored: Stored) -> None:
        """Keep a message, in place of the one with the same sequence."""

    def remove(self, node: str, sequence: int) -> None:
        """Keep a message no longer; one that is not there is no fault."""

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Put a message that cannot be read aside: `load` no longer has it, `quarantined` does."""

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:
        """List the messages that were put aside, of one node or of all."""

    def discard(self, node: str, sequence: int) -> None:
        """Delete a message that was put aside; one that is not there is no fault."""

    def commit(self) -> None:
        """Make everything since the last commit last. Does nothing within a `batch`.

        Raises:
            StoreError: that was not possible. Everything is still pending: commit again.
        """

    def batch(self) -> AbstractContextManager[None]:
        """Give a context manager: what happens in it is committed at its end, at once.

        Batches nest; the outermost one commits, also when an exception ends it.
        """


class MemoryStore:
    """Keeps nothing: the messages are in the node's memory, and end with the process."""

    durable = False

    def load(self, node: str) -> Iterable[Stored]:  # noqa: ARG002  (the interface)
        """Give nothing."""
        return ()

    def put(self, node: str, stored: Stored) -> None:
        """Do nothing."""

    def remove(self, node: str, sequence: int) -> None:
        """Do nothing."""

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Do nothing."""

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:  # noqa: ARG002
        """Give nothing."""
        return ()

    def discard(self, node: str, sequence: int) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Do nothing."""

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Do nothing around what happens."""
        yield
