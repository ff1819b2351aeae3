"""What the links of a connection are joined with: a node, an exchange, a service or a topic."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from amqp10msg import DecodeError, Message, Symbol
from amqp10msg.delivery import (
    Coordinator,
    Released,
    ResumeAction,
    Source,
    StdDistMode,
    Step,
    Target,
    TxnCapability,
    resume,
)
from amqp10msg.delivery.filters import parse
from amqp10msg.delivery.node import Capacity, Delivery, DistributionNode, NodeError, OutgoingLink
from amqp10msg.net import transport
from amqp10msg.net.serve.attaches import Attach
from amqp10msg.net.serve.exchanges import exchange_of, publish_to
from amqp10msg.net.serve.links import OUTCOMES, Incoming, Outgoing, PassingFilter, Publish
from amqp10msg.net.serve.nodes import LIFETIME, NOT_FOUND
from amqp10msg.net.serve.transactions import Published

if TYPE_CHECKING:
    from amqp10msg.net.serve.connection import Connection

# Of sources and targets.
_QUEUE = {"queue", "temporary-queue"}
_TOPIC = "topic"
_TXN_CAPABILITIES = (TxnCapability.LOCAL_TRANSACTIONS, TxnCapability.MULTI_TXNS_PER_SSN)
# Responses of a service that a peer has not taken yet.
_MAX_RESPONSES = 1_000


class Opener:
    """Joins the links that a peer attaches, and answers them.

    Args:
        connection: the connection of the links.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._server = connection.server
        self._services: dict[str, DistributionNode] = {}

    def open(self, link: transport.Link, attach: Attach) -> Outgoing | Incoming:
        """Join a link with what its attach asks for, and answer the attach.

        Raises:
            NodeError: it is refused.
            DecodeError: a filter is malformed.
        """
        return self._outgoing(link, attach) if link.sends else self._incoming(link, attach)

    # Receiving.

    def _incoming(self, link: transport.Link, attach: Attach) -> Incoming:
        target = attach.target
        if target is None:
            raise NodeError("the attach has no target", "amqp:invalid-field")
        outcomes = attach.source.outcomes if attach.source is not None else ()
        rejects = not outcomes or "amqp:rejected:list" in outcomes
        link.max_message_size = self._server.max_message_size
        publish: Publish | None = None
        end = None
        answer: Target | Coordinator
        if isinstance(target, Coordinator):
            answer = Coordinator(_TXN_CAPABILITIES)
        else:
            publish, node = self._publisher(link, target)
            if node is not None:
                end = node.attach_incoming(link.name, creates=target.dynamic)
            answer = self._answer(target, node)
        link.attach(source=attach.source, target=answer)
        return Incoming(self._connection, link, publish, end, rejects, self._server.credit)

    def _publisher(
        self, link: transport.Link, target: Target
    ) -> tuple[Publish, DistributionNode | None]:
        """Return what publishes to a target, and its node if it has a single one."""
        address = target.address
        if address is None and not target.dynamic:
            return self._publish_by_address, None
        if address in self._server.services:
            return partial(self._ask, address), None
        exchange = exchange_of(address) if isinstance(address, str) else None
        if exchange is not None and (exchange[0] or not exchange[1]):
            self._server.exchanges.get(exchange[0])  # raises if there is none
            return self._exchange(exchange), None
        topic = self._topic_of(target)
        if topic is not None:
            return partial(self._publish_to_topic, topic), None
        node = self._node_of(link, target)
        if exchange is not None:
            return self._exchange(exchange), node
        return partial(publish_to, (node,), origin=self._connection.origin), node

    def _exchange(self, exchange: tuple[str, str | None]) -> Publish:
        return partial(self._server.exchanges.publish, *exchange, origin=self._connection.origin)

    def _publish_to_topic(self, address: str, octets: bytes, message_format: int) -> Published:
        Message.decode(octets, limits=self._server.limits)  # also where nobody subscribes
        nodes = self._server.nodes.subscriptions(address)
        return publish_to(nodes, octets, message_format, origin=self._connection.origin)

    def _publish_by_address(self, octets: bytes, message_format: int) -> Published:
        """Publish a message of the anonymous terminus to the address in its ``to``."""
        properties = Message.decode(octets, limits=self._server.limits).properties
        to = properties.to if properties is not None else None
        nodes = self._server.nodes
        exchange = exchange_of(to) if to else None
        if exchange is not None:
            return self._exchange(exchange)(octets, message_format)
        if to and nodes.is_topic(to):
            return self._publish_to_topic(to, octets, message_format)
        node = nodes.find(to) if to else None
        if node is None:
            raise NodeError(f"there is no node {to!r} to send this message to", NOT_FOUND)
        return publish_to((node,), octets, message_format, origin=self._connection.origin)

    # Services.

    def _ask(self, address: str, octets: bytes, _: int) -> Published:
        """Pass a request to a service, and publish its response to this connection."""
        # Proton writes a body of null before the properties.
        request = Message.decode(octets, strict=False, limits=self._server.limits)
        response = self._server.services[address](request, self._connection)
        self._responses(address).publish(response)
        return ()

    def _responses(self, address: str) -> DistributionNode:
        """Return the node with the responses of a service to this connection."""
        node = self._services.get(address)
        if node is None:
            made = self._services[address] = node = DistributionNode(
                address,
                clock=self._server.clock,
                capacity=Capacity(messages=_MAX_RESPONSES),
                on_available=lambda: self._server.turns.available(made),
            )
        return node

    # Sending.

    def _outgoing(self, link: transport.Link, attach: Attach) -> Outgoing:
        termini = self._server.termini
        key = self._connection.key(link)
        source = attach.source or termini.known(key)  # without one, it asks for what was kept
        if source is None:
            raise NodeError("the attach has no source, and none was kept for it", NOT_FOUND)
        attach = attrs.evolve(attach, source=source)
        try:
            mode = StdDistMode(source.distribution_mode or StdDistMode.MOVE)
        except ValueError:
            raise NodeError(
                f"there is no distribution-mode {source.distribution_mode!r} here",
                "amqp:not-implemented",
            ) from None
        filters = parse(source.filter).supported
        out = termini.resume(key, source)
        if out is None:
            topic = self._topic_of(source)
            if topic is not None:
                node = self._server.nodes.subscribe(topic, *key)
            else:
                node = self._node_of(link, source)
            out = node.attach(
                link.name,
                mode=mode,
                filter=PassingFilter(filters, self._server) if filters else None,
                origin=self._connection.origin,
                default_outcome=source.default_outcome,
                creates=source.dynamic,
            )
            resumed: list[tuple[Delivery, Step]] = []
        else:
            resumed = self._recover(out, attach)
        end = Outgoing(self._connection, link, out, attach)
        end.resuming.extend(resumed)
        out.on_ended = end.ended
        answer = self._answer(source, out.node)
        answer.distribution_mode = mode
        answer.filter = filters.to_map() if filters else None
        kept = {delivery.tag: None for delivery in out.unsettled.values()}
        link.attach(source=answer, target=attach.target, **({"unsettled": kept} if kept else {}))
        return end

    def _recover(self, out: OutgoingLink, attach: Attach) -> list[tuple[Delivery, Step]]:
        """Decide on the deliveries that were unsettled when the link was lost (Part 3, 3.4.6).

        They get the receiver's outcome, if its unsettled map has one. Those that it has not are
        released, and delivered again as new ones, if it listed all; else they stay.

        Returns:
            Those that it has not all of, which the new link goes on with.

        Raises:
            NodeError: the map has what is no delivery-tag, or a place that is not in a message.
        """
        deliveries = {delivery.tag: delivery for delivery in out.unsettled.values()}
        try:
            plan = resume(
                dict.fromkeys(deliveries),
                attach.unsettled,
                messages={tag: delivery.octets for tag, delivery in deliveries.items()},
                receiver_incomplete=attach.incomplete,
            )
        except DecodeError as error:
            raise NodeError(str(error), error.condition) from None
        resumed = []
        for tag, delivery in deliveries.items():
            step = plan[tag]
            if step.action is ResumeAction.SETTLE and isinstance(step.outcome, OUTCOMES):
                delivery.settle(step.outcome)
            elif step.action is ResumeAction.NEW_DELIVERY:
                delivery.settle(Released())
            elif step.action is ResumeAction.RESUME:
                resumed.append((delivery, step))
        return resumed

    # Termini.

    def _topic_of(self, terminus: Source | Target) -> str | None:
        """Return the topic of a terminus, which makes one of a new address if it asks for one.

        Raises:
            NodeError: it asks for a topic where there is a queue, or the other way round.
        """
        address = terminus.address
        if terminus.dynamic or not isinstance(address, str) or address in self._server.services:
            return None
        nodes = self._server.nodes
        if nodes.is_topic(address):
            if "queue" in terminus.capabilities:
                raise NodeError(f"{address!r} is a topic, not a queue", "amqp:not-allowed")
            return address
        if _TOPIC in terminus.capabilities:
            nodes.make_topic(address)
            return address
        return None

    def _node_of(self, link: transport.Link, terminus: Source | Target) -> DistributionNode:
        """Return the node of a terminus; a dynamic one is created."""
        nodes = self._server.nodes
        if terminus.address in self._server.services:
            return self._responses(terminus.address)
        if terminus.dynamic:
            return nodes.make_dynamic(
                self._connection.container, link.name, terminus.dynamic_node_properties
            )
        node = nodes.find(terminus.address) if terminus.address else None
        if node is None:
            raise NodeError(f"there is no node {terminus.address!r}", NOT_FOUND)
        return node

    def _answer(self, terminus: Any, node: DistributionNode | None) -> Any:
        """Return our terminus: as the peer asked for it, with the address of a dynamic node."""
        topic = isinstance(terminus.address, str) and self._server.nodes.is_topic(terminus.address)
        known = {_TOPIC} if topic else _QUEUE
        answer = attrs.evolve(
            terminus,
            capabilities=tuple(name for name in terminus.capabilities if name in known),
        )
        if terminus.dynamic and node is not None:
            answer.address = node.name
            answer.dynamic_node_properties = {Symbol(LIFETIME): node.lifetime}
        return answer
