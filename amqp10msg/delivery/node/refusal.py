"""What a node says no with: an error condition for the peer, and a reason for people."""

from __future__ import annotations

from amqp10msg.composite import Error
from amqp10msg.errors import AmqpError

__all__ = ["NodeError", "OutcomeError", "StoreError"]

INTERNAL_ERROR = "amqp:internal-error"
PRECONDITION_FAILED = "amqp:precondition-failed"
RESOURCE_DELETED = "amqp:resource-deleted"


class NodeError(AmqpError):
    """A node refuses: it does not take a message, or is no more.

    Attributes:
        reason: why, and what would help.
        condition: the error condition to tell the peer, such as ``amqp:precondition-failed``.
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
    """An outcome is refused, because of what it would make of the message.

    The message stays as it was, and the delivery unsettled: settle it with another outcome.
    """


class StoreError(NodeError):
    """A store could not read or write; what it was asked for is not confirmed.

    A message that was being published is not at the node. Everything else stays pending:
    `DistributionNode.commit` tries again.
    """

    def __init__(self, reason: str, condition: str = INTERNAL_ERROR) -> None:
        super().__init__(reason, condition)
