"""The interface of a store of durable messages, the one that keeps nothing, and a node's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import attrs

from amqp10msg.composite import Error
from amqp10msg.wire.errors import AmqpError

INTERNAL_ERROR = "amqp:internal-error"
PRECONDITION_FAILED = "amqp:precondition-failed"
RESOURCE_DELETED = "amqp:resource-deleted"


class NodeError(AmqpError):
    """A node refuses an operation.

    Attributes:
        reason: why, and what would help.
        condition: the error condition for the peer, such as ``amqp:precondition-failed``.
    """

    def __init__(self, reason: str, condition: str) -> None:
        super().__init__(reason, condition)
        self.reason = reason
        self.condition = condition

    def __str__(self) -> str:
        return f"{self.reason} ({self.condition})"

    @property
    def error(self) -> Error:
        """The error for a rejected outcome, or for the detach of a link (Part 2, 2.8.14)."""
        return Error(self.condition, description=self.reason)


class OutcomeError(NodeError):
    """An outcome is refused because the changed message could not be read any more.

    The message is left as it was and the delivery unsettled: settle it with another outcome.
    """


class StoreError(NodeError):
    """A store could not read or write: nothing since the last commit is confirmed.

    A message that was being published is not at the node. Everything else stays pending, and
    `DistributionNode.commit` tries again.
    """

    def __init__(self, reason: str, condition: str = INTERNAL_ERROR) -> None:
        super().__init__(reason, condition)


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
        stored: the message, its bytes as they are.
        reason: why it could not be read.
    """

    node: str
    stored: Stored
    reason: str


class Store(Protocol):
    """Keeps the durable messages of one or more nodes.

    `put` and `remove` take effect when the following `commit` returns, and not before: then a node
    confirms them. A store is used by one thread at a time.
    """

    @property
    def durable(self) -> bool:
        """Whether what is committed outlives the process, however that ends."""

    def load(self, node: str) -> Iterable[Stored]:
        """Return the committed messages of a node, by sequence."""

    def put(self, node: str, stored: Stored) -> None:
        """Keep a message; it replaces the one with the same sequence."""

    def remove(self, node: str, sequence: int) -> None:
        """Remove a message; a missing one is not an error."""

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Move a committed message that cannot be read from `load` to `quarantined`, at once."""

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:
        """Return the quarantined messages of one node, or of all nodes."""

    def discard(self, node: str, sequence: int) -> None:
        """Delete a quarantined message, at once; a missing one is not an error."""

    def commit(self) -> None:
        """Write everything since the last commit. Does nothing within a `batch`.

        Raises:
            StoreError: nothing was written, and everything is still pending: commit again.
        """

    def batch(self) -> AbstractContextManager[None]:
        """Return a context manager that commits once, at its end, also after an exception.

        Batches nest, and the outermost one commits.
        """


class MemoryStore:
    """Keeps nothing: the messages live in the node's memory and end with the process."""

    durable = False

    def load(self, node: str) -> Iterable[Stored]:  # noqa: ARG002  (the interface)
        """Return nothing."""
        return ()

    def put(self, node: str, stored: Stored) -> None:
        """Do nothing."""

    def remove(self, node: str, sequence: int) -> None:
        """Do nothing."""

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Do nothing."""

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:  # noqa: ARG002  (one signature for all)
        """Return nothing."""
        return ()

    def discard(self, node: str, sequence: int) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Do nothing."""

    @property
    def pending(self) -> int:
        """How many changes wait for a commit, which is none."""
        return 0

    @contextmanager
    def batch(self, wanted: Callable[[], bool] | None = None) -> Iterator[None]:  # noqa: ARG002  (one signature for all)
        """Do nothing around what happens."""
        yield
