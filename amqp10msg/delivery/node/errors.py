"""Errors raised when a node refuses an operation, or its store fails."""

from __future__ import annotations

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
