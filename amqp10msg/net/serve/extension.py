"""The interface by which an emulator of a broker extends a server.

`service_bus` implements it. The server calls these methods, and knows nothing of the emulator.
"""

# ruff: noqa: ARG002  (methods that do nothing until they are overridden)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from amqp10msg.delivery.node import DeadLetter, Delivery, DistributionNode, Outcome
from amqp10msg.message import Message
from amqp10msg.net.serve.nodes import Nodes, Published
from amqp10msg.wire.primitives import Symbol

#: Answers a request to a service. The second argument is the `origin` of the request's connection.
Service = Callable[[Message, object], Message]


class ServerExtension:
    """Extends a server with what one kind of broker adds to AMQP 1.0. This class adds nothing.

    Only the server's thread calls the methods.

    Attributes:
        nodes: the nodes of the server, set when the server starts.
        creates_nodes: whether a message can be published from this process to an address that does
            not exist yet, even if the server does not create nodes.
        replaces_outcomes: whether `replace_outcome` and `outcome_answer` must be called.
    """

    nodes: Nodes
    creates_nodes = False
    replaces_outcomes = False

    # Addresses and nodes.

    def address_of(self, address: Any) -> Any:
        """Return the node address for the address in a peer's source, target or message."""
        return address

    def service(self, address: str) -> Service | None:
        """Return the service with this address; None if the extension has no such service."""
        return None

    def may_delete(self, name: str) -> bool:
        """Return whether the unused node `name`, which has no messages, may be deleted."""
        return True

    def expires(self, name: str) -> bool:
        """Return whether the messages of the node `name` expire."""
        return True

    def dead_letter_handler(self) -> Callable[[DeadLetter], None] | None:
        """Return the function for dead letters if the server has no node for dead letters.

        It is called with each message before it is archived without having been accepted.
        """
        return None

    def tick(self) -> None:
        """Do what is due at a time, such as ending expired locks. Called periodically."""

    # Publishing.

    def publish(
        self, address: str, octets: bytes, message_format: int = 0, *, origin: object = None
    ) -> Published | None:
        """Publish a message to an address; return None if the server must do it.

        Raises:
            NodeError: the message or its batch was refused.
            DecodeError: the message is malformed.
        """
        return None

    # Links that send messages to the peer.

    def split_filters(
        self, filters: Any
    ) -> tuple[Callable[[DistributionNode], Any] | None, Mapping[Any, Any] | None]:
        """Separate the filters that only the extension knows from the other filters of a source.

        Returns:
            A function that returns the filter of a link to a node, or None if there are only other
            filters; and the other filters. The function raises NodeError to refuse the link.
        """
        return None, filters

    def describe_filter(self, link_filter: Any) -> tuple[dict[Any, Any], dict[Symbol, Any]] | None:
        """Return how the server's attach shows a filter that `split_filters` made.

        Returns:
            The filter-set of the source and the properties of the attach; None for another filter.
        """
        return None

    def outgoing_octets(self, delivery: Delivery, *, settled: bool = False) -> bytes:
        """Return the encoded message to send for a delivery. May replace the delivery's tag."""
        return delivery.octets

    def replace_outcome(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """Process a receiver's outcome; return the outcome with which to settle at the node."""
        return outcome

    def outcome_answer(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """Return the state in the server's answer to a receiver's outcome."""
        return outcome
