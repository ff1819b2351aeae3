"""Attaching: what a link is joined with, be it a node, an exchange, a service or a topic."""

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
    SessionFilter,
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
from amqp10msg.net.serve.nodes import Published, exchange_of, judged_first, publish_to
from amqp10msg.net.serve.service_bus import split_session_filter
from amqp10msg.wire.errors import (
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    DecodeError,
    EncodeError,
)
from amqp10msg.wire.primitives import Described, Symbol

#: The outcomes that settle a delivery at a node.
OUTCOMES = (Accepted, Rejected, Released, Modified)
#: Publishes the bytes of a message with their message-format.
Publish = Callable[[bytes, int], Published]
# Of sources and targets.
_QUEUE = {"queue", "temporary-queue"}
_TOPIC = "topic"
#: Asks RabbitMQ, from 4.2 on, for a dynamic source of direct reply-to.
_VOLATILE_QUEUE = "rabbitmq:volatile-queue"
_TXN_CAPABILITIES = (TxnCapability.LOCAL_TRANSACTIONS, TxnCapability.MULTI_TXNS_PER_SSN)
#: Steps of about 1 ns that the filters of a link may take, see `FilterLimits.steps`: on a message,
#: in all, and in addition to that for each message.
_MOST_STEPS, _STEPS, _STEPS_A_MESSAGE = 20_000_000, 250_000_000, 100_000
# Responses of services that a peer has not taken yet: of one service, and bytes of all together.
_MAX_RESPONSES, _MAX_RESPONSE_BYTES = 1_000, 64 << 20


def _responses_cost(address: str) -> int:
    """Return how many bytes of memory the node with the responses of a service takes."""
    return NODE_BYTES + name_cost(address)


@attrs.frozen
class Attach:
    """The fields of a peer's attach that a node needs (Part 2, 2.7.3).

    Of the peer's unsettled deliveries it has the states by delivery-tag; there are more where it is
    `incomplete`.
    """

    source: Source | None
    target: Target | Coordinator | None
    unsettled: dict[bytes, Any]
    incomplete: bool = False

    @classmethod
    def of(cls, attach: transport.Attach) -> Attach:
        """Decode the fields of an attach."""
        unsettled = {} if attach.unsettled is None else attach.unsettled
        if not isinstance(unsettled, dict):
            raise _invalid("unsettled", "a map", unsettled)
        return cls(
            _decoded("source", attach.source, Source),
            _decoded("target", attach.target, (Target, Coordinator)),
            {tag: _decoded("unsettled", state, DeliveryState) for tag, state in unsettled.items()},
            bool(attach.incomplete_unsettled),
        )


def _invalid(field: str, expected: str, value: object) -> NodeError:
    """Return the error for a field of an attach that holds a value of another kind."""
    return NodeError(
        f"the {field} of an attach must be {expected}, not {value!r:.80}", INVALID_FIELD
    )


def _decoded(field: str, value: Any, kinds: Any) -> Any:
    """Decode the source, target or delivery state in a field of an attach; None if it is null.

    Raises:
        NodeError: ``amqp:invalid-field``: the value is not one of `kinds`.
        DecodeError: its fields break a rule.
    """
    if value is None:
        return None
    decoded = from_described(value) if isinstance(value, Described) else value
    if not isinstance(decoded, kinds):
        raise _invalid(field, f"a {field.replace('unsettled', 'map of delivery states')}", value)
    return decoded


def filters_of(asked: Any) -> FilterSet:
    """The filters of a source that can be evaluated; they share the steps on a message."""
    steps = _MOST_STEPS // max(len(asked) if asked is not None else 0, 1)
    filters: FilterSet = parse(asked, limits=FilterLimits(steps=max(steps, 1))).supported
    return filters


@attrs.define(eq=False)
class PassingFilter:
    """A filter-set that uses the clock of the server, and ends when the turn of its link is over.

    It is `fresh` where no message was evaluated in this turn: one always is. Up to the next
    message, the filters may take `allowed` steps in all.
    """

    filters: FilterSet
    broker: Broker
    fresh: bool = True
    allowed: int = _STEPS

    def matches(self, message: Any, *, local: bool | None = None) -> bool:
        """Whether a message passes.

        Raises:
            TurnOverError: the time is over; the message is to be asked for again.
            EvaluationError: the filters took more steps than a link may.
        """
        if not self.fresh and self.broker.turns.is_scanned:
            raise TurnOverError
        self.fresh = False
        if self.filters.steps > self.allowed:
            raise EvaluationError(
                f"the filters of this link took {self.filters.steps:,} steps: {_STEPS:,} are "
                f"allowed, and {_STEPS_A_MESSAGE:,} for each message that they were held against"
            )
        self.allowed += _STEPS_A_MESSAGE
        return self.filters.matches(message, now=self.broker.clock(), local=local)


class Attacher:
    """Joins the links that a peer attaches with what they ask for, and answers them.

    The origin identifies the connection in its messages.
    """

    def __init__(self, broker: Broker, origin: object) -> None:
        self._broker = broker
        self._origin = origin
        self._to = Picker("properties.to", limits=broker.limits)
        # By session, too: clients have a pair of links for requests in each, and several pairs.
        self._services: dict[tuple[transport.Session, str], DistributionNode] = {}
        # Apart from the server's: a client must get its answers also when messages take all of it.
        self._response_memory = Memory(_MAX_RESPONSE_BYTES)

    # Receiving.

    def incoming(
        self, container: str, link: transport.Link, attach: Attach
    ) -> tuple[Publish | None, IncomingLink | None, bool]:
        """Join a link that receives messages, and answer its attach.

        Return the publisher of its messages, None for the coordinator; the link of the node, if
        that is a single one; and whether the peer's source supports the outcome rejected.
        """
        target = attach.target
        if target is None:
            raise NodeError("the attach has no target", INVALID_FIELD)
        outcomes = attach.source.outcomes if attach.source is not None else ()
        rejects = not outcomes or "amqp:rejected:list" in outcomes
        link.max_message_size = self._broker.options.max_message_size
        publish: Publish | None = None
        end = None
        answer: Target | Coordinator
        if isinstance(target, Coordinator):
            answer = Coordinator(_TXN_CAPABILITIES)
        else:
            publish, node = self._publisher(container, link, self._local(target))
            if node is not None:
                end = node.attach_incoming(link.name, creates=target.dynamic)
            answer = self._answer(target, node)
        link.attach(source=attach.source, target=answer)
        return publish, end, rejects

    def _publisher(
        self, container: str, link: transport.Link, target: Target
    ) -> tuple[Publish, DistributionNode | None]:
        """What publishes to a target, and its node if it has a single one."""
        address = target.address
        if address is None and not target.dynamic:
            return self._publish_by_address, None
        if isinstance(address, str) and self._broker.service(address) is not None:
            return partial(self._ask, link.session, address), None
        bus = self._broker.service_bus
        exchange = exchange_of(address) if isinstance(address, str) else None
        if exchange is not None and (exchange[0] or not exchange[1]):
            self._broker.exchanges.get(exchange[0])  # raises if there is none
            return self._exchange(exchange), None
        topic = self._topic_of(target)
        if topic is not None:
            return partial(self._publish_to_topic, topic), None
        node = self._node_of(container, link, target)
        if exchange is not None:
            return self._exchange(exchange), node
        if bus is not None:
            return partial(bus.publish, node.name, origin=self._origin), node
        return partial(publish_to, (node,), origin=self._origin), node

    def _exchange(self, exchange: tuple[str, str | None]) -> Publish:
        return partial(self._broker.exchanges.publish, *exchange, origin=self._origin)

    def _publish_to_topic(self, address: str, octets: bytes, message_format: int) -> Published:
        nodes = self._broker.nodes.subscriptions(address)
        if not nodes:
            Message.decode(octets, limits=self._broker.limits)  # also where nobody subscribes
        with judged_first(octets, self._broker.limits):
            return publish_to(nodes, octets, message_format, origin=self._origin)

    def _publish_by_address(self, octets: bytes, message_format: int) -> Published:
        """Publish a message of the anonymous terminus to the address in its ``to``."""
        with judged_first(octets, self._broker.limits):
            (to,) = self._to(octets)
            return self._publish_to_address(to, octets, message_format)

    def _publish_to_address(self, to: str | None, octets: bytes, message_format: int) -> Published:
        nodes = self._broker.nodes
        bus = self._broker.service_bus
        if bus is not None and to:
            return bus.publish(bus.address_of(to), octets, message_format, origin=self._origin)
        exchange = exchange_of(to) if to else None
        if exchange is not None:
            return self._exchange(exchange)(octets, message_format)
        if to and nodes.is_topic(to):
            return self._publish_to_topic(to, octets, message_format)
        node = nodes.find(to) if to else None
        if node is None:
            raise NodeError(f"there is no node {to!r} to send this message to", NOT_FOUND)
        return publish_to((node,), octets, message_format, origin=self._origin)

    # Services.

    def _local(self, terminus: Any) -> Any:
        """A terminus with the address as the nodes have it: Azure's clients send URLs."""
        bus = self._broker.service_bus
        if bus is None or terminus.address is None:
            return terminus
        return attrs.evolve(terminus, address=bus.address_of(terminus.address))

    def _ask(self, session: transport.Session, address: str, octets: bytes, _: int) -> Published:
        """Pass a request to a service, and publish its response to this connection."""
        # Proton writes a body of null before the properties.
        request = Message.decode(octets, strict=False, limits=self._broker.limits)
        service = self._broker.service(address)
        if service is None:
            raise NodeError(f"there is no node {address!r}", NOT_FOUND)
        response = service(request, self._origin)
        # Where the client takes responses in another session, they go there.
        taken = [key for key, node in self._services.items() if key[1] == address and node.links]
        place = (session, address)
        if place not in taken and len(taken) == 1:
            (place,) = taken
        self._responses(*place).publish(response)
        return ()

    def _responses(self, session: transport.Session, address: str) -> DistributionNode:
        """The node with the responses of a service to a session of this connection."""
        node = self._services.get((session, address))
        if node is None:
            for key, unused in list(self._services.items()):
                if key[0].ended or not (unused.links or len(unused)):
                    self._delete_responses(key)
            self._broker.nodes.make_room(_responses_cost(address))
            self._broker.memory.structures += _responses_cost(address)
            made = self._services[session, address] = node = DistributionNode(
                address,
                clock=self._broker.clock,
                capacity=Capacity(messages=_MAX_RESPONSES),
                memory=self._response_memory,
                on_available=lambda: self._broker.turns.available(made),
            )
        return node

    def _delete_responses(self, key: tuple[transport.Session, str]) -> None:
        self._services.pop(key).delete()
        self._broker.memory.structures -= _responses_cost(key[1])

    def close(self) -> None:
        """Delete the responses that the peer has not taken, as its connection has ended."""
        for key in list(self._services):
            self._delete_responses(key)

    # Sending.

    def outgoing(
        self, container: str, link: transport.Link, attach: Attach
    ) -> tuple[OutgoingLink, Source, bool, deque[tuple[Delivery, Step]]]:
        """Join a link that sends messages, and answer its attach.

        Return the link of the node, what the peer asked for, whether one end has more unsettled
        deliveries than it listed, and those of a link that was lost which this one goes on with,
        before new ones.
        """
        termini = self._broker.termini
        key = container, link.name
        source = attach.source or termini.known(key)  # without one, it asks for what was kept
        if source is None:
            raise NodeError("the attach has no source, and none was kept for it", NOT_FOUND)
        if not isinstance(source.default_outcome, (*OUTCOMES, type(None))):
            raise NodeError(
                f"there is no default-outcome {source.default_outcome!r:.80} here", NOT_IMPLEMENTED
            )
        try:
            mode = StdDistMode(source.distribution_mode or StdDistMode.MOVE)
        except ValueError:
            raise NodeError(
                f"there is no distribution-mode {source.distribution_mode!r} here", NOT_IMPLEMENTED
            ) from None
        bus = self._broker.service_bus
        asked = self._local(source)
        in_session, session, others = False, None, asked.filter
        if bus is not None:
            in_session, session, others = split_session_filter(asked.filter)
        filters = filters_of(others)
        out = termini.resume(key, source)
        if out is not None:
            out.origin = self._origin
            out.default_outcome = source.default_outcome or out.node.default_outcome
            try:
                resumed = self._recover(out, attach)
            except NodeError:
                self._broker.release(out)  # nobody else would: the link is refused
                raise
        else:
            topic = self._topic_of(asked)
            if topic is not None:
                node = self._broker.nodes.subscribe(topic, *key)
            else:
                node = self._node_of(container, link, asked)
            chosen: Any = PassingFilter(filters, self._broker) if filters else None
            if bus is not None and in_session:
                chosen = bus.session_filter(node, session)
            out = node.attach(
                link.name,
                mode=mode,
                filter=chosen,
                origin=self._origin,
                default_outcome=source.default_outcome,
                creates=source.dynamic,
            )
            resumed = deque()
        answer = self._answer(source, out.node)
        answer.distribution_mode = mode
        answer.filter = filters.to_map() if filters else None
        kept = {delivery.tag: None for delivery in out.unsettled.values()}
        more: dict[str, Any] = {"unsettled": kept} if kept else {}
        if bus is not None and isinstance(out.filter, SessionFilter):
            answer.filter = {SessionFilter.SYMBOL: out.filter.session_id}
            until = {Symbol("com.microsoft:locked-until-utc"): bus.locked_until_utc()}
            more["properties"] = until
        told = link.attach(source=answer, target=attach.target, **more)
        return out, source, attach.incomplete or not told, resumed

    def _recover(self, out: OutgoingLink, attach: Attach) -> deque[tuple[Delivery, Step]]:
        """Decide on the deliveries that were unsettled when the link was lost (Part 3, 3.4.6).

        They get the receiver's outcome, if its unsettled map has one. Those that it has not are
        released, and delivered again as new ones, if it listed all; else they stay.

        Return those that it has not all of, which the new link goes on with.
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
                    delivery.settle(Released())  # as without an outcome: it is delivered again
            elif step.action is ResumeAction.NEW_DELIVERY:
                delivery.settle(Released())
            elif step.action is ResumeAction.RESUME:
                resumed.append((delivery, step))
        return resumed

    # Termini.

    def _topic_of(self, terminus: Source | Target) -> str | None:
        """The topic of a terminus, made of a new address if it asks for one; None for a queue."""
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
        if _TOPIC in terminus.capabilities:
            nodes.make_topic(address, on_demand=True)
            return address
        return None

    def _node_of(
        self, container: str, link: transport.Link, terminus: Source | Target
    ) -> DistributionNode:
        """The node of a terminus; a dynamic one is created."""
        nodes = self._broker.nodes
        if self._broker.service(terminus.address) is not None:
            return self._responses(link.session, str(terminus.address))
        if terminus.dynamic:
            if _VOLATILE_QUEUE in terminus.capabilities:
                raise NodeError(
                    "this server does not have RabbitMQ's direct reply-to: ask for a dynamic node "
                    f"without the capability {_VOLATILE_QUEUE}",
                    NOT_IMPLEMENTED,
                )
            return nodes.make_dynamic(container, link.name, terminus.dynamic_node_properties)
        node = nodes.find(terminus.address) if terminus.address else None
        if node is None:
            raise NodeError(f"there is no node {terminus.address!r}", NOT_FOUND)
        return node

    def _answer(self, terminus: Any, node: DistributionNode | None) -> Any:
        """Our terminus: as the peer asked for it, with the address of a dynamic node.

        It never claims to be durable: the server forgets termini when it stops (Part 3, 3.5.5).
        """
        topic = isinstance(terminus.address, str) and self._broker.nodes.is_topic(terminus.address)
        known = {_TOPIC} if topic else _QUEUE
        answer = attrs.evolve(
            terminus,
            durable=TerminusDurability.NONE,
            capabilities=tuple(name for name in terminus.capabilities if name in known),
        )
        if terminus.dynamic and node is not None:
            answer.address = node.name
            answer.dynamic_node_properties = {Symbol(LIFETIME_POLICY): node.lifetime}
        return answer
