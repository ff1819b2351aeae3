"""Attaches links to nodes, exchanges, topics and services."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from amqp10msg.composite import from_described
from amqp10msg.delivery import (
    Accepted,
    Coordinator,
    DeliveryState,
    Modified,
    Rejected,
    Released,
    ResumeAction,
    Source,
    StdDistMode,
    Step,
    Target,
    TerminusDurability,
    TxnCapability,
    resume,
)
from amqp10msg.delivery.filters import (
    EvaluationError,
    FilterLimits,
    FilterSet,
    parse,
)
from amqp10msg.delivery.node import (
    Capacity,
    Delivery,
    DistributionNode,
    IncomingLink,
    Memory,
    NodeError,
    OutcomeError,
    OutgoingLink,
)
from amqp10msg.delivery.termini import LIFETIME_POLICY
from amqp10msg.message import Message
from amqp10msg.message.picks import Picker
from amqp10msg.net import transport
from amqp10msg.net.serve.broker import Broker, TurnOverError
from amqp10msg.net.serve.memory import NODE_BYTES, name_cost
from amqp10msg.net.serve.nodes import Published, decode_errors_first, exchange_of, publish_to
from amqp10msg.wire.errors import (
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    DecodeError,
    EncodeError,
)
from amqp10msg.wire.primitives import Described, Symbol

#: The classes of delivery states that settle a delivery at a node.
OUTCOMES = (Accepted, Rejected, Released, Modified)
#: A function that publishes a message. The arguments are the encoded message and its
#: message-format.
Publish = Callable[[bytes, int], Published]
# Capabilities of sources and targets.
_QUEUE_CAPABILITIES = {"queue", "temporary-queue"}
_TOPIC_CAPABILITY = "topic"
#: The capability with which clients of RabbitMQ 4.2 and later request direct reply-to.
_DIRECT_REPLY_TO_CAPABILITY = "rabbitmq:volatile-queue"
_TXN_CAPABILITIES = (TxnCapability.LOCAL_TRANSACTIONS, TxnCapability.MULTI_TXNS_PER_SSN)
# Limits on evaluating the filters of a link, in steps of about 1 ns (`FilterLimits.steps`).
#: Maximum steps of all filters of a link for one message.
_MAX_STEPS_PER_MESSAGE = 20_000_000
#: The step budget of a link at first, and its increase with each evaluated message.
_STEP_BUDGET, _STEPS_PER_MESSAGE = 250_000_000, 100_000
#: Maximum number of responses of a service that a session has not received.
_MAX_RESPONSES = 1_000
#: Maximum size of all responses that a connection has not received, in bytes.
_MAX_RESPONSE_BYTES = 64 << 20


def _response_node_cost(address: str) -> int:
    """Return the memory of a node for responses of the service at `address`, in bytes."""
    return NODE_BYTES + name_cost(address)


@attrs.frozen
class Attach:
    """The decoded fields of a peer's attach that a node needs (Part 2, 2.7.3).

    Attributes:
        source: the source.
        target: the target or the coordinator.
        unsettled: the states of the peer's unsettled deliveries, by delivery-tag.
        incomplete: whether `unsettled` lacks some of the peer's unsettled deliveries
            (incomplete-unsettled).
    """

    source: Source | None
    target: Target | Coordinator | None
    unsettled: dict[bytes, Any]
    incomplete: bool = False

    @classmethod
    def of(cls, attach: transport.Attach) -> Attach:
        """Decode the fields of an attach.

        Raises:
            NodeError: a field has a value of the wrong type.
            DecodeError: a field is invalid.
        """
        unsettled = {} if attach.unsettled is None else attach.unsettled
        if not isinstance(unsettled, dict):
            raise _invalid_field_error("unsettled", "a map", unsettled)
        return cls(
            _decode_field("source", attach.source, Source),
            _decode_field("target", attach.target, (Target, Coordinator)),
            {
                tag: _decode_field("unsettled", state, DeliveryState)
                for tag, state in unsettled.items()
            },
            bool(attach.incomplete_unsettled),
        )


def _invalid_field_error(field: str, expected: str, value: object) -> NodeError:
    """Return the error for an attach field with a value of the wrong type."""
    return NodeError(
        f"the {field} of an attach must be {expected}, got {value!r:.80}", INVALID_FIELD
    )


def _decode_field(field: str, value: Any, kinds: Any) -> Any:
    """Decode the source, target or delivery state in an attach field; None for null.

    Args:
        field: the name of the field.
        value: the value, as a described value.
        kinds: the allowed class, or a tuple of them.

    Raises:
        NodeError: ``amqp:invalid-field``: the value is not an instance of `kinds`.
        DecodeError: a field inside the value is invalid.
    """
    if value is None:
        return None
    decoded = from_described(value) if isinstance(value, Described) else value
    if not isinstance(decoded, kinds):
        raise _invalid_field_error(
            field, f"a {field.replace('unsettled', 'map of delivery states')}", value
        )
    return decoded


def supported_filters(requested: Any) -> FilterSet:
    """Return the supported filters of a source's filter map.

    The filters share `_MAX_STEPS_PER_MESSAGE` equally.
    """
    steps = _MAX_STEPS_PER_MESSAGE // max(len(requested) if requested is not None else 0, 1)
    filters: FilterSet = parse(requested, limits=FilterLimits(steps=max(steps, 1))).supported
    return filters


@attrs.define(eq=False)
class LimitedFilter:
    """A filter set with limits: a step budget for the link, and a time limit for each turn.

    Attributes:
        filters: the filters.
        broker: the broker, whose clock the filters use, and which measures the time of a turn.
        fresh: whether no message was evaluated since the link's turn to send began. At least one
            message is evaluated in each turn.
        budget: the maximum total of steps before the next message, including all steps used so far.
    """

    filters: FilterSet
    broker: Broker
    fresh: bool = True
    budget: int = _STEP_BUDGET

    def matches(self, message: Any, *, local: bool | None = None) -> bool:
        """Whether a message passes the filters.

        Raises:
            TurnOverError: the turn has reached its time limit; evaluate the message in the next
                turn.
            EvaluationError: the filters exceeded the step budget of the link.
        """
        if not self.fresh and self.broker.turns.is_filter_time_over:
            raise TurnOverError
        self.fresh = False
        if self.filters.steps > self.budget:
            raise EvaluationError(
                f"the filters of this link took {self.filters.steps:,} steps: the limit is "
                f"{_STEP_BUDGET:,}, and {_STEPS_PER_MESSAGE:,} more for each evaluated message"
            )
        self.budget += _STEPS_PER_MESSAGE
        return self.filters.matches(message, now=self.broker.clock(), local=local)


class Attacher:
    """Attaches the links of one connection to nodes, exchanges, topics and services.

    Args:
        broker: the shared state of the server.
        origin: identifies the connection as the publisher of its messages, for the no-local filter.
    """

    def __init__(self, broker: Broker, origin: object) -> None:
        self._broker = broker
        self._origin = origin
        self._to = Picker("properties.to", limits=broker.limits)
        # Nodes that hold the responses of services, by session and the service's address. A client
        # may have pairs of links for requests and responses in several sessions.
        self._response_nodes: dict[tuple[transport.Session, str], DistributionNode] = {}
        # Responses have a separate memory limit, so that clients get their responses even if
        # messages fill the server's memory.
        self._response_memory = Memory(_MAX_RESPONSE_BYTES)

    # Receiving.

    def incoming(
        self, container: str, link: transport.Link, attach: Attach
    ) -> tuple[Publish | None, IncomingLink | None, bool]:
        """Attach a link that receives messages from the peer, and answer the attach.

        Returns:
            The function that publishes received messages, None for a coordinator link; the link at
            the node, None unless the target is a single node; and whether the peer's source
            supports the outcome rejected.

        Raises:
            NodeError: the link must be refused.
        """
        target = attach.target
        if target is None:
            raise NodeError("the attach has no target", INVALID_FIELD)
        outcomes = attach.source.outcomes if attach.source is not None else ()
        rejects = not outcomes or "amqp:rejected:list" in outcomes
        link.max_message_size = self._broker.options.max_message_size
        publish: Publish | None = None
        incoming = None
        answer: Target | Coordinator
        if isinstance(target, Coordinator):
            answer = Coordinator(_TXN_CAPABILITIES)
        else:
            publish, node = self._publish_function(container, link, self._with_node_address(target))
            if node is not None:
                incoming = node.attach_incoming(link.name, creates=target.dynamic)
            answer = self._answer_terminus(target, node)
        link.attach(source=attach.source, target=answer)
        return publish, incoming, rejects

    def _publish_function(
        self, container: str, link: transport.Link, target: Target
    ) -> tuple[Publish, DistributionNode | None]:
        """Return the function that publishes to a target, and the target's node.

        The node is None unless the target is a single node.
        """
        address = target.address
        if address is None and not target.dynamic:
            return self._publish_by_address, None
        if isinstance(address, str) and self._broker.service(address) is not None:
            return partial(self._request, link.session, address), None
        exchange = exchange_of(address) if isinstance(address, str) else None
        if exchange is not None and (exchange[0] or not exchange[1]):
            self._broker.exchanges.get(exchange[0])  # raises if the exchange does not exist
            return self._exchange_publish_function(exchange), None
        topic = self._resolve_topic(target)
        if topic is not None:
            return partial(self._publish_to_topic, topic), None
        node = self._resolve_node(container, link, target)
        if exchange is not None:
            return self._exchange_publish_function(exchange), node
        return partial(self._publish_to_node, node), node

    def _exchange_publish_function(self, exchange: tuple[str, str | None]) -> Publish:
        """Return the function that publishes to an exchange.

        `exchange` is the name of the exchange, and the routing key or None.
        """
        return partial(self._broker.exchanges.publish, *exchange, origin=self._origin)

    def _publish_to_node(
        self, node: DistributionNode, octets: bytes, message_format: int
    ) -> Published:
        extension, origin = self._broker.extension, self._origin
        published = extension.publish(node.name, octets, message_format, origin=origin)
        if published is None:
            published = publish_to((node,), octets, message_format, origin=origin)
        return published

    def _publish_to_topic(self, address: str, octets: bytes, message_format: int) -> Published:
        """Publish a message to all subscriptions of a topic."""
        nodes = self._broker.nodes.subscriptions(address)
        if not nodes:
            # Refuse malformed messages even if the topic has no subscription.
            Message.decode(octets, limits=self._broker.limits)
        with decode_errors_first(octets, self._broker.limits):
            return publish_to(nodes, octets, message_format, origin=self._origin)

    def _publish_by_address(self, octets: bytes, message_format: int) -> Published:
        """Publish a message, sent to the anonymous terminus, to the address in its ``to``."""
        with decode_errors_first(octets, self._broker.limits):
            (to,) = self._to(octets)
            return self._publish_to_address(to, octets, message_format)

    def _publish_to_address(self, to: str | None, octets: bytes, message_format: int) -> Published:
        """Publish a message to the entity, exchange, topic or node with the address `to`."""
        nodes, extension = self._broker.nodes, self._broker.extension
        if to:
            to = extension.address_of(to)
            published = extension.publish(to, octets, message_format, origin=self._origin)
            if published is not None:
                return published
        exchange = exchange_of(to) if to else None
        if exchange is not None:
            return self._exchange_publish_function(exchange)(octets, message_format)
        if to and nodes.is_topic(to):
            return self._publish_to_topic(to, octets, message_format)
        node = nodes.find(to) if to else None
        if node is None:
            raise NodeError(f"the node {to!r} in the message's to field does not exist", NOT_FOUND)
        return publish_to((node,), octets, message_format, origin=self._origin)

    # Services.

    def _with_node_address(self, terminus: Any) -> Any:
        """Return a terminus with a plain node address. Azure's clients may send it as a URL."""
        address = self._broker.extension.address_of(terminus.address)
        return terminus if address == terminus.address else attrs.evolve(terminus, address=address)

    def _request(
        self, session: transport.Session, address: str, octets: bytes, _: int
    ) -> Published:
        """Pass a request to the service at `address`, and publish the response to this connection.

        The last argument is the message-format, which is ignored.
        """
        # Decoding is not strict, because Proton writes a null body before the properties.
        request = Message.decode(octets, strict=False, limits=self._broker.limits)
        service = self._broker.service(address)
        if service is None:
            raise NodeError(f"node {address!r} does not exist", NOT_FOUND)
        response = service(request, self._origin)
        # Some clients send requests in one session, and receive the responses in another.
        receiving = [
            key for key, node in self._response_nodes.items() if key[1] == address and node.links
        ]
        key = (session, address)
        if key not in receiving and len(receiving) == 1:
            (key,) = receiving
        self._response_node(*key).publish(response)
        return ()

    def _response_node(self, session: transport.Session, address: str) -> DistributionNode:
        """Return the node that holds a service's responses to a session; created on first use."""
        node = self._response_nodes.get((session, address))
        if node is None:
            for key, unused in list(self._response_nodes.items()):
                if key[0].ended or not (unused.links or len(unused)):
                    self._delete_response_node(key)
            self._broker.nodes.make_room(_response_node_cost(address))
            self._broker.memory.structures += _response_node_cost(address)
            new_node = self._response_nodes[session, address] = node = DistributionNode(
                address,
                clock=self._broker.clock,
                capacity=Capacity(messages=_MAX_RESPONSES),
                memory=self._response_memory,
                on_available=lambda: self._broker.turns.available(new_node),
            )
        return node

    def _delete_response_node(self, key: tuple[transport.Session, str]) -> None:
        """Delete the node for the responses of a service to a session."""
        self._response_nodes.pop(key).delete()
        self._broker.memory.structures -= _response_node_cost(key[1])

    def close(self) -> None:
        """Delete the responses that the peer has not received, at the end of its connection."""
        for key in list(self._response_nodes):
            self._delete_response_node(key)

    # Sending.

    def outgoing(
        self, container: str, link: transport.Link, attach: Attach
    ) -> tuple[OutgoingLink, Source, bool, deque[tuple[Delivery, Step]]]:
        """Attach a link that sends messages to the peer, and answer the attach.

        Returns:
            The link at the node, the source that the peer requested, whether the attach of either
            end omitted some of its unsettled deliveries, and the deliveries to resume before new
            deliveries.

        Raises:
            NodeError: the link must be refused.
        """
        termini = self._broker.termini
        key = container, link.name
        # An attach without a source resumes the kept source.
        source = attach.source or termini.source_of(key)
        if source is None:
            raise NodeError("the attach has no source, and none was kept for it", NOT_FOUND)
        if not isinstance(source.default_outcome, (*OUTCOMES, type(None))):
            raise NodeError(
                f"unsupported default-outcome {source.default_outcome!r:.80}", NOT_IMPLEMENTED
            )
        try:
            mode = StdDistMode(source.distribution_mode or StdDistMode.MOVE)
        except ValueError:
            raise NodeError(
                f"unknown distribution-mode {source.distribution_mode!r}", NOT_IMPLEMENTED
            ) from None
        extension = self._broker.extension
        requested = self._with_node_address(source)
        make_filter, other_filters = extension.split_filters(requested.filter)
        filters = supported_filters(other_filters)
        out = termini.resume(key, source)
        if out is not None:
            out.origin = self._origin
            out.default_outcome = source.default_outcome or out.node.default_outcome
            try:
                resumed = self._recover_deliveries(out, attach)
            except NodeError:
                self._broker.release(out)  # the link is refused
                raise
        else:
            topic = self._resolve_topic(requested)
            if topic is not None:
                node = self._broker.nodes.subscribe(topic, *key)
            else:
                node = self._resolve_node(container, link, requested)
            link_filter: Any = LimitedFilter(filters, self._broker) if filters else None
            if make_filter is not None:
                link_filter = make_filter(node)
            out = node.attach(
                link.name,
                mode=mode,
                filter=link_filter,
                origin=self._origin,
                default_outcome=source.default_outcome,
                creates=source.dynamic,
            )
            resumed = deque()
        answer = self._answer_terminus(source, out.node)
        answer.distribution_mode = mode
        answer.filter = filters.to_map() if filters else None
        unsettled = {delivery.tag: None for delivery in out.unsettled.values()}
        fields: dict[str, Any] = {"unsettled": unsettled} if unsettled else {}
        description = extension.describe_filter(out.filter)
        if description is not None:
            answer.filter, fields["properties"] = description
        is_complete = link.attach(source=answer, target=attach.target, **fields)
        return out, source, attach.incomplete or not is_complete, resumed

    def _recover_deliveries(
        self, out: OutgoingLink, attach: Attach
    ) -> deque[tuple[Delivery, Step]]:
        """Settle, release or resume the deliveries of a lost link (Part 2, 2.6.13; Part 3, 3.4.6).

        A delivery gets the outcome in the receiver's unsettled map. A delivery that is missing in a
        complete map is released, so that it is delivered again as a new delivery.

        Returns:
            The deliveries to resume, and from which byte: the receiver has a part of each.
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
        resumed: deque[tuple[Delivery, Step]] = deque()
        for tag, delivery in deliveries.items():
            step = plan[tag]
            if step.action is ResumeAction.SETTLE and isinstance(step.outcome, OUTCOMES):
                try:
                    delivery.settle(step.outcome)
                except (OutcomeError, EncodeError):
                    delivery.settle(Released())  # treat an invalid outcome as no outcome
            elif step.action is ResumeAction.NEW_DELIVERY:
                delivery.settle(Released())
            elif step.action is ResumeAction.RESUME:
                resumed.append((delivery, step))
        return resumed

    # Termini.

    def _resolve_topic(self, terminus: Source | Target) -> str | None:
        """Return the address of a source's or target's topic; None if it is not a topic.

        A terminus with the capability ``topic`` creates the topic.

        Raises:
            NodeError: the terminus requests a queue, but the address is a topic.
        """
        address = terminus.address
        if terminus.dynamic or not isinstance(address, str):
            return None
        if self._broker.service(address) is not None:
            return None
        nodes = self._broker.nodes
        if nodes.is_topic(address):
            if "queue" in terminus.capabilities:
                raise NodeError(f"{address!r} is a topic, not a queue", NOT_ALLOWED)
            return address
        if _TOPIC_CAPABILITY in terminus.capabilities:
            nodes.make_topic(address, on_demand=True)
            return address
        return None

    def _resolve_node(
        self, container: str, link: transport.Link, terminus: Source | Target
    ) -> DistributionNode:
        """Return the node of a source or target; a dynamic node is created.

        Raises:
            NodeError: the node does not exist, or is not supported.
        """
        nodes = self._broker.nodes
        if self._broker.service(terminus.address) is not None:
            return self._response_node(link.session, str(terminus.address))
        if terminus.dynamic:
            if _DIRECT_REPLY_TO_CAPABILITY in terminus.capabilities:
                raise NodeError(
                    "this server does not have RabbitMQ's direct reply-to: request a dynamic node "
                    f"without the capability {_DIRECT_REPLY_TO_CAPABILITY}",
                    NOT_IMPLEMENTED,
                )
            return nodes.make_dynamic(container, link.name, terminus.dynamic_node_properties)
        node = nodes.find(terminus.address) if terminus.address else None
        if node is None:
            raise NodeError(f"node {terminus.address!r} does not exist", NOT_FOUND)
        return node

    def _answer_terminus(self, terminus: Any, node: DistributionNode | None) -> Any:
        """Return the source or target for the server's attach, for the peer's `terminus`.

        It has the address of a dynamic node, and is never durable, since the server forgets termini
        when it stops (Part 3, 3.5.5).
        """
        topic = isinstance(terminus.address, str) and self._broker.nodes.is_topic(terminus.address)
        capabilities = {_TOPIC_CAPABILITY} if topic else _QUEUE_CAPABILITIES
        answer = attrs.evolve(
            terminus,
            durable=TerminusDurability.NONE,
            capabilities=tuple(name for name in terminus.capabilities if name in capabilities),
        )
        if terminus.dynamic and node is not None:
            answer.address = node.name
            answer.dynamic_node_properties = {Symbol(LIFETIME_POLICY): node.lifetime}
        return answer
