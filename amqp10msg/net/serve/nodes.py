"""The nodes, topics and exchanges of a server, with addresses in RabbitMQ 4's format.

``/queues/:queue`` addresses a node, and ``/exchanges/:exchange/:routing-key`` an exchange with a
routing key. With the address ``/exchanges/:exchange``, the subject of each message is its routing
key. Names and keys in addresses are percent-encoded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote

import attrs

from amqp10msg.brokers import EXCHANGE_TYPES
from amqp10msg.composite import from_described
from amqp10msg.delivery import DeleteOnClose, DeleteOnNoLinks, DistributionNode
from amqp10msg.delivery.filters import (
    DirectBinding,
    EvaluationError,
    Filter,
    HeadersBinding,
    TopicBinding,
)
from amqp10msg.delivery.node import (
    DeadLetter,
    LifetimePolicy,
    MemoryStore,
    NodeError,
    Quarantined,
    Store,
    StoreError,
)
from amqp10msg.delivery.termini import LIFETIME_POLICY
from amqp10msg.message import Message
from amqp10msg.message.picks import Picker
from amqp10msg.net.serve.definitions import EXCHANGES, SUBSCRIPTION, Definitions
from amqp10msg.net.serve.memory import (
    DEFINITION_BYTES,
    NODE_BYTES,
    ServerMemory,
    name_cost,
    value_cost,
)
from amqp10msg.sections import MessageAnnotations, Properties
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import (
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    AmqpError,
    DecodeError,
    EncodeError,
)
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import Described

#: The prefix of a queue's address in RabbitMQ 4's format.
_QUEUE_ADDRESS_PREFIX = "/queues/"
#: RabbitMQ's pseudo-queue for direct reply-to. A volatile queue's name is this name and a suffix.
_DIRECT_REPLY_TO_QUEUE = "amq.rabbitmq.reply-to"
#: In an address of Service Bus, the separator between a topic and its subscription.
SUBSCRIPTION_SEPARATOR = "/Subscriptions/"


class Destination(Protocol):
    """An object to which messages are published, such as a node or `_ScheduledMessages`."""

    def withdraw(self, sequence: int, /) -> object:
        """Remove the message with this sequence number, as if it had not been published."""


#: The destinations to which a message was published, and its sequence number at each destination.
Published = Iterable[tuple[Destination, int]]


def _node_name(address: str) -> str:
    """Return the name of the node with this address, which may be in RabbitMQ's format."""
    if (
        address.startswith(_QUEUE_ADDRESS_PREFIX)
        and "/" not in address[len(_QUEUE_ADDRESS_PREFIX) :]
    ):
        return unquote(address[len(_QUEUE_ADDRESS_PREFIX) :])
    return address


def check_address(address: str) -> None:
    """Check that a queue or topic can have this address.

    Raises:
        NodeError: ``amqp:not-found``: the address belongs to a service that this server does not
            have: a client that sends requests to it would wait forever. ``amqp:not-implemented``:
            the address is RabbitMQ's direct reply-to, or a volatile queue.
    """
    name = _node_name(address)
    if name == "$cbs" or name.lower().endswith("$management"):
        raise NodeError(
            f"this server has no service {name!r}: see on_token and service_bus of "
            "Server, or --cbs and --service-bus of amqp10msg serve",
            NOT_FOUND,
        )
    if name == _DIRECT_REPLY_TO_QUEUE or name.startswith(f"{_DIRECT_REPLY_TO_QUEUE}."):
        raise NodeError(
            f"{name!r} is RabbitMQ's direct reply-to, which this server does not have: "
            "receive replies from a queue or a dynamic node",
            NOT_IMPLEMENTED,
        )


@attrs.define(kw_only=True, eq=False, repr=False, slots=False)
class Nodes:
    """Creates nodes, finds them by address, and deletes nodes whose lifetime has ended.

    Args:
        store: the store of all nodes.
        create: create a node when a peer first uses its address.
        dead_letter: the address of the node for dead letters; None to drop dead letters.
        on_available: called with a node at which a message became available.
        on_quarantined: called with each stored message that its node could not read.
        on_fault: called with a node that could not be deleted or expire its messages, and the
            exception.
        may_delete: returns whether the unused node with the given name may be deleted.
        expires: returns whether the messages of the node with the given name expire.
        on_dead_letter: called with each message that is archived without having been accepted,
            if `dead_letter` is None.
        options: the keyword arguments of every `DistributionNode`.

    Attributes:
        definitions: stores the names of Service Bus subscriptions in the store's file. Without
            them, a restart would forget subscriptions that hold no messages.
    """

    store: Store
    create: bool
    _dead_letter: str | None
    _on_available: Callable[[DistributionNode], None]
    _on_quarantined: Callable[[Quarantined], None]
    _on_fault: Callable[[DistributionNode, Exception], None]
    _may_delete: Callable[[str], bool]
    _expires: Callable[[str], bool]
    _on_dead_letter: Callable[[DeadLetter], None] | None
    _options: dict[str, Any]

    def __attrs_post_init__(self) -> None:
        self.limits: Limits | None = self._options.get("limits")
        self._nodes: dict[str, DistributionNode] = {}
        # Nodes with a lifetime policy.
        self._nodes_with_lifetime: dict[str, DistributionNode] = {}
        self._dynamic_count = 0  # makes the addresses of dynamic nodes unique
        # The nodes of each topic's subscriptions, by their name.
        self._topics: dict[str, dict[str, DistributionNode]] = {}
        self.definitions = Definitions(self.store)
        memory = self._options.get("memory")
        self.memory: ServerMemory = memory if isinstance(memory, ServerMemory) else ServerMemory()
        # Names of nodes that exist only because a peer used the address.
        self._nodes_on_demand: set[str] = set()
        # Names of topics that exist only because a peer used the address.
        self._topics_on_demand: set[str] = set()
        # Names in `_nodes_on_demand` of nodes that may be without links and messages; the node that
        # has been unused for the longest time is first.
        self._unused_nodes: dict[str, None] = {}

    def __iter__(self) -> Iterator[DistributionNode]:
        return iter(list(self._nodes.values()))

    def __contains__(self, address: str) -> bool:
        return _node_name(address) in self._nodes

    def find(self, address: str) -> DistributionNode | None:
        """Return the node with this address; if it does not exist, create it or return None.

        The attribute `create` decides.

        Raises:
            NodeError: `check_address` refuses the address.
        """
        name = _node_name(address)
        node = self._nodes.get(name)
        if node is None:
            check_address(name)
        if node is None and self.create:
            self.make_room(_node_cost(name))
            node = self.make(address)
            if SUBSCRIPTION_SEPARATOR not in name and name != self._dead_letter:
                self._nodes_on_demand.add(name)
                self._unused_nodes[name] = None
        return node

    # Memory.

    def make_room(self, size: int) -> None:
        """Check that the memory limit allows structures of `size` more bytes; see `ServerMemory`.

        If necessary, unused nodes and topics are deleted: they have no messages and links, and
        exist only because a peer used their address. The longest unused nodes are deleted first.

        Raises:
            NodeError: ``amqp:resource-limit-exceeded``: there is not enough memory.
        """
        memory = self.memory
        while memory.lacks_room(size) and self._unused_nodes:
            self._delete_unused(next(iter(self._unused_nodes)))
        while memory.lacks_room(size) and self._topics_on_demand:
            topic = self._topics_on_demand.pop()
            if not self._topics[topic]:
                del self._topics[topic]
                memory.structures -= DEFINITION_BYTES + name_cost(topic)
        if memory.lacks_room(size):
            raise NodeError(
                f"there is no room: {memory.limit} bytes are allowed for messages, addresses and "
                f"links, {memory.used} are in use, and this takes {size}: raise memory "
                "(--memory), or close links and delete queues",
                RESOURCE_LIMIT_EXCEEDED,
            )

    def unused(self, node: DistributionNode) -> None:
        """Note that `node` may be unused now, because a link of it has ended or messages expired.

        An unused node that never had a message is deleted, since it has no state. Other unused
        nodes keep their message counts until their memory is needed.
        """
        name = node.name
        if self._nodes.get(name) is not node or name not in self._nodes_on_demand or node.links:
            return
        self._unused_nodes.pop(name, None)
        self._unused_nodes[name] = None
        if not (len(node) or node.counts.archived):
            self._delete_unused(name)

    def _delete_unused(self, name: str) -> None:
        """Delete a node of `_unused_nodes`, unless it is in use again."""
        del self._unused_nodes[name]
        node = self._nodes.get(name)
        if node is None or name not in self._nodes_on_demand or node.links or node.quarantined:
            return
        if not len(node) and self._may_delete(name):
            self._delete_node(node)

    def declare(self, name: str) -> DistributionNode:
        """Return the node `name`; create it if necessary. It is not deleted when it is unused."""
        self._nodes_on_demand.discard(name)
        if name not in self._nodes:
            self.make_room(_node_cost(name))
        return self.make(name)

    # Topics.

    def is_topic(self, address: str) -> bool:
        """Whether an address is a topic: each of its subscribers gets every message."""
        return address in self._topics

    def make_topic(self, address: str, *, on_demand: bool = False) -> None:
        """Make an address a topic.

        Args:
            address: the address.
            on_demand: whether the topic exists only because a peer used the address.

        Raises:
            NodeError: the address is a queue, or `check_address` refuses it; the topic does not
                exist and the attribute `create` is False; or there is not enough memory.
        """
        check_address(address)
        if address in self:
            raise NodeError(f"{address!r} is a queue, not a topic", NOT_ALLOWED)
        if not self.create:
            raise NodeError(f"there is no topic {address!r}", NOT_FOUND)
        if address not in self._topics:
            cost = DEFINITION_BYTES + name_cost(address)
            if on_demand:
                self.make_room(cost)
                self._topics_on_demand.add(address)
            self.memory.structures += cost
            self._topics[address] = {}

    def subscriptions(self, address: str) -> list[DistributionNode]:
        """Return the nodes of a topic's subscriptions. Each gets a copy of every message."""
        return list(self._topics.get(address, {}).values())

    def subscribe(self, address: str, container: str, link: str) -> DistributionNode:
        """Add a subscription to a topic, and return its node.

        The node is deleted when its link ends and the link's source is not kept. Its messages,
        including durable messages, are in memory only.

        Args:
            address: the address of the topic.
            container: the container-id of the subscriber.
            link: the name of the subscriber's link.
        """
        name = f"topic/{address}/{container}/{link}"
        while name in self._nodes:
            self._dynamic_count += 1
            name = f"topic/{address}/{container}/{link}/{self._dynamic_count}"
        options = {"store": MemoryStore(), "accept_durable": True}
        self.make_room(_node_cost(name))
        self._topics_on_demand.discard(address)
        node = self._topics[address][name] = self.make(name, DeleteOnNoLinks(), options)
        return node

    def make(
        self,
        address: str,
        lifetime: LifetimePolicy | None = None,
        options: dict[str, Any] | None = None,
    ) -> DistributionNode:
        """Return the node with this address; create it if it does not exist.

        Args:
            address: the address of a queue.
            lifetime: the lifetime policy of a new node; None to never delete it automatically.
            options: options of a new node, which override the options of all nodes.

        Raises:
            NodeError: the address is a topic, or `check_address` refuses it.
        """
        address = _node_name(address)
        existing = self._nodes.get(address)
        if existing is not None:
            return existing
        check_address(address)
        if address in self._topics:
            raise NodeError(f"{address!r} is a topic, not a queue", NOT_ALLOWED)
        # The node for dead letters has no node for its own dead letters. It has no capacity limit,
        # because a message that it refused would be lost.
        options = {"store": self.store, **self._options, **(options or {})}
        for_dead_letters = address == self._dead_letter
        if for_dead_letters:
            options = {**options, "capacity": None}
        node = DistributionNode(
            address,
            expires=not for_dead_letters and self._expires(address),
            lifetime=lifetime,
            dead_letter=self._publish_dead_letter
            if self._dead_letter is not None and not for_dead_letters
            else self._on_dead_letter,
            **options,
        )
        node.on_available = partial(self._on_available, node)
        if (
            SUBSCRIPTION_SEPARATOR in address
            and lifetime is None
            and options["store"] is self.store
        ):
            self.definitions.put(SUBSCRIPTION, address, {})
        self._nodes[address] = node
        self.memory.structures += _node_cost(address)
        for quarantined in node.quarantined:
            self._on_quarantined(quarantined)
        if lifetime is not None:
            self._nodes_with_lifetime[address] = node
        if len(node):
            self._on_available(node)
        return node

    def make_dynamic(
        self, container: str, link: str, properties: dict[Any, Any] | None
    ) -> DistributionNode:
        """Create a dynamic node for a link (Part 3, 3.5.3 and 3.5.4).

        Args:
            container: the container-id of the peer, a part of the node's address.
            link: the name of the link, a part of the node's address.
            properties: the dynamic-node-properties, which may have a lifetime policy. By default,
                the node is deleted when the link is closed.
        """
        lifetime: Any = None
        for key, value in (properties or {}).items():
            if key == LIFETIME_POLICY:
                lifetime = from_described(value) if isinstance(value, Described) else value
        while True:
            self._dynamic_count += 1
            address = f"dynamic/{container}/{link}/{self._dynamic_count}"
            if address not in self._nodes:
                self.make_room(_node_cost(address))
                return self.make(address, lifetime or DeleteOnClose())

    def delete(self, address: str) -> DistributionNode | None:
        """Delete the node with this address, and return it; return None if it does not exist."""
        node = self._nodes.get(_node_name(address))
        if node is not None:
            self._delete_node(node)
        return node

    def _delete_node(self, node: DistributionNode) -> None:
        node.delete()
        del self._nodes[node.name]
        self.memory.structures -= _node_cost(node.name)
        self._nodes_on_demand.discard(node.name)
        self._unused_nodes.pop(node.name, None)
        if SUBSCRIPTION_SEPARATOR in node.name:
            self.definitions.remove(SUBSCRIPTION, node.name)
        self._nodes_with_lifetime.pop(node.name, None)
        for subscriptions in self._topics.values():
            subscriptions.pop(node.name, None)

    def sweep(self) -> list[DistributionNode]:
        """Delete the nodes whose lifetime has ended, and return the deleted nodes."""
        deleted = []
        for node in [node for node in self._nodes_with_lifetime.values() if node.due]:
            try:
                self._delete_node(node)
            except Exception as fault:  # noqa: BLE001  (continue with the other nodes)
                self._on_fault(node, fault)
            else:
                deleted.append(node)
        return deleted

    def expire(self) -> None:
        """Archive the expired messages of every node."""
        for node in self:
            try:
                if node.expire():
                    self.unused(node)
            except Exception as fault:  # noqa: BLE001  (continue with the other nodes)
                self._on_fault(node, fault)

    def _publish_dead_letter(self, letter: DeadLetter) -> None:
        """Publish a dead letter to the node for dead letters."""
        if self._dead_letter is not None:
            node = self.make(self._dead_letter)
            options: dict[str, Any] = {"message_format": letter.message_format, "always": True}
            try:
                node.publish(letter.annotated(), **options)
            except (DecodeError, EncodeError):  # adding annotations would exceed a limit
                node.publish(letter.octets, **options)


def _node_cost(name: str) -> int:
    """Return the memory of a node without its messages, in bytes."""
    return NODE_BYTES + name_cost(name)


class UnroutableError(NodeError):
    """No binding of the exchange matches the message, which therefore gets the outcome released."""


@attrs.frozen
class Binding:
    """A binding of an exchange to a queue or to another exchange.

    Attributes:
        source: the name of the exchange that routes messages to `destination`.
        destination: the name of the queue or exchange that gets the messages.
        to_queue: whether `destination` is a queue.
        key: the binding key.
        arguments: the arguments, which exchanges of type headers use.
        filter: the filter that messages must pass; None to pass all messages.
    """

    source: str
    destination: str
    to_queue: bool
    key: str
    arguments: Mapping[str, Any]
    filter: Filter | None = attrs.field(eq=False, repr=False, default=None)

    @property
    def cost(self) -> int:
        """The memory of the binding with its names and arguments, in bytes."""
        names = name_cost(self.source, self.destination, self.key)
        return DEFINITION_BYTES + names + value_cost(dict(self.arguments))


@attrs.define(eq=False)
class Exchange:
    """A declared or predeclared exchange.

    Attributes:
        name: the name of the exchange.
        type: ``direct``, ``fanout``, ``topic`` or ``headers``.
        options: the declared ``durable``, ``auto_delete``, ``internal`` and ``arguments``; empty
            for a predeclared exchange.
        bindings: the bindings from this exchange.
    """

    name: str
    type: str
    options: dict[str, Any]
    bindings: list[Binding] = attrs.field(factory=list)

    @property
    def cost(self) -> int:
        """The memory of the exchange without its bindings, in bytes."""
        return DEFINITION_BYTES + name_cost(self.name) + value_cost(self.options)


def exchange_of(address: str) -> tuple[str, str | None] | None:
    """Return the exchange name and routing key in an address of RabbitMQ; None for another address.

    The key is None if the address of an exchange has none. The address of a queue returns the
    default exchange, "", and the name of the queue as the key.
    """
    parts = address.split("/")
    if parts[:2] == ["", "queues"] and len(parts) == 3:
        return "", unquote(parts[2])
    if parts[:2] != ["", "exchanges"] or not 3 <= len(parts) <= 4:
        return None
    name, key = (*map(unquote, parts[2:]), None)[:2]
    return str(name), key


def annotated(octets: bytes, exchange: str, key: str) -> bytes:
    """Add the annotations x-exchange and x-routing-key to an encoded message, as RabbitMQ does."""
    parts = scan(octets)
    present = parts.section("message-annotations")
    annotations = {**(present or {}), "x-exchange": exchange, "x-routing-key": key}
    return parts.replace(message_annotations=MessageAnnotations(annotations))


def publish_to(
    nodes: Iterable[DistributionNode],
    message: Message | bytes,
    message_format: int | None = None,
    *,
    origin: object = None,
) -> list[tuple[Destination, int]]:
    """Publish a message to all `nodes`, or to none if one of them refuses it.

    Returns:
        The nodes, and the sequence number of the message at each node.

    Raises:
        NodeError: a node refused the message.
    """
    with all_or_none() as published:
        for node in nodes:
            number = node.publish(message, message_format=message_format, origin=origin)
            published.append((node, number))
    return published


@contextmanager
def all_or_none() -> Iterator[list[tuple[Destination, int]]]:
    """Withdraw the messages that the block published, if the block raises.

    The block must append the destination and sequence number of each published message to the list
    that it gets. A message can always be withdrawn, because the server sends messages to receivers
    only after the block.
    """
    published: list[tuple[Destination, int]] = []
    try:
        yield published
    except BaseException:
        for destination, number in published:
            destination.withdraw(number)
        raise


@contextmanager
def decode_errors_first(octets: bytes, limits: Limits | None) -> Iterator[None]:
    """If the block fails to publish a message, check the message: raise its DecodeError instead.

    Without this, the error of a malformed message would depend on its routing: a node decodes the
    whole message, but only when it accepts it.
    """
    try:
        yield
    except (DecodeError, EvaluationError, NodeError):
        Message.decode(octets, limits=limits)
        raise


class Exchanges:
    """The exchanges of a server by name, including predeclared exchanges (``amq.``).

    Exchanges and bindings are stored in the file of the server's store.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._definitions = nodes.definitions
        self._pick_fields = Picker(
            "properties.subject", "application_properties", limits=nodes.limits
        )
        self._exchanges = {
            f"amq.{kind}": Exchange(f"amq.{kind}", kind, {}) for kind in EXCHANGE_TYPES
        }

    def restore(self) -> None:
        """Load the exchanges and bindings from the file of the store.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        for name, definition in [*self._definitions.load(EXCHANGES)]:
            try:
                exchange = self._exchanges.get(name) or self._add_exchange(
                    Exchange(name, definition["type"], definition["options"])
                )
                for row in definition["bindings"]:
                    self._add_binding(exchange, Binding(*row))
            except (AmqpError, LookupError, TypeError, ValueError) as error:
                raise StoreError(
                    f"the definition of the exchange {name!r} in the store is damaged: {error}"
                ) from None

    def _save(self, exchange: Exchange) -> None:
        """Write an exchange with its bindings to the file of the store."""
        rows = [
            [each.source, each.destination, each.to_queue, each.key, dict(each.arguments)]
            for each in exchange.bindings
        ]
        definition = {"type": exchange.type, "options": exchange.options, "bindings": rows}
        self._definitions.put(EXCHANGES, exchange.name, definition)

    def get(self, name: str) -> Exchange:
        """Return the exchange `name`; raise NodeError if it does not exist."""
        exchange = self._exchanges.get(name)
        if exchange is None:
            raise NodeError(f"there is no exchange {name!r}", NOT_FOUND)
        return exchange

    def declare(self, name: str, kind: str, options: dict[str, Any]) -> Exchange:
        """Return the exchange `name`; create it if it does not exist."""
        if name not in self._exchanges:
            exchange = Exchange(name, kind, options)
            self._nodes.make_room(exchange.cost)
            self._save(self._add_exchange(exchange))
        return self._exchanges[name]

    def _add_exchange(self, exchange: Exchange) -> Exchange:
        self._nodes.memory.structures += exchange.cost
        self._exchanges[exchange.name] = exchange
        return exchange

    def delete(self, name: str) -> None:
        """Delete an exchange with its bindings, if it exists."""
        exchange = self._exchanges.pop(name, None)
        if exchange is not None:
            costs = (exchange.cost, *(binding.cost for binding in exchange.bindings))
            self._nodes.memory.structures -= sum(costs)
            self._definitions.remove(EXCHANGES, name)
        self.unbind_all(name, to_queue=False)

    def unbind_all(self, destination: str, *, to_queue: bool) -> None:
        """Remove the bindings to a queue or an exchange."""
        for exchange in self._exchanges.values():
            self._filter_bindings(
                exchange, lambda each: (each.destination, each.to_queue) != (destination, to_queue)
            )

    def _filter_bindings(self, exchange: Exchange, is_kept: Callable[[Binding], bool]) -> None:
        """Keep only those bindings of an exchange for which `is_kept` returns True."""
        remaining = [binding for binding in exchange.bindings if is_kept(binding)]
        if len(remaining) < len(exchange.bindings):
            costs = (
                sum(each.cost for each in bindings) for bindings in (remaining, exchange.bindings)
            )
            self._nodes.memory.structures += next(costs) - next(costs)
            exchange.bindings = remaining
            self._save(exchange)

    def bind(self, binding: Binding) -> None:
        """Add a binding, unless an equal binding exists."""
        exchange = self.get(binding.source)
        if binding not in exchange.bindings:
            self._nodes.make_room(binding.cost)
            self._add_binding(exchange, binding)
            self._save(exchange)

    def _add_binding(self, exchange: Exchange, binding: Binding) -> None:
        """Add a binding to an exchange, with the filter for the exchange's type."""
        filters: dict[str, Any] = {"direct": DirectBinding, "topic": TopicBinding}
        matches = None
        if exchange.type == "headers":
            matches = HeadersBinding(binding.arguments)
        elif exchange.type in filters:
            matches = filters[exchange.type](binding.key)
        self._nodes.memory.structures += binding.cost
        exchange.bindings.append(attrs.evolve(binding, filter=matches))

    def unbind(self, source: str, destination: str, to_queue: bool, key: str) -> None:
        """Remove the bindings with these fields (see `Binding`); a no-op if there are none."""
        exchange = self._exchanges.get(source)
        if exchange is not None:
            removed = destination, to_queue, key
            self._filter_bindings(
                exchange, lambda each: (each.destination, each.to_queue, each.key) != removed
            )

    def bindings(self) -> Iterator[Binding]:
        """Yield all bindings."""
        yield from itertools.chain.from_iterable(
            exchange.bindings for exchange in self._exchanges.values()
        )

    def publish(
        self, name: str, key: str | None, octets: bytes, message_format: int = 0, *, origin: object
    ) -> Published:
        """Publish a message to an exchange, which routes it to each matching queue once.

        Args:
            name: the exchange. A routing key of the default exchange, "", is the name of a queue.
            key: the routing key; None for the subject of the message.
            octets: the encoded message.
            message_format: the message-format of the message.
            origin: identifies the publishing connection, for the no-local filter.

        Returns:
            The nodes of the queues, and the sequence number of the message at each node.

        Raises:
            UnroutableError: no queue matches.
            NodeError: the exchange does not exist, or a node refuses the message.
        """
        with decode_errors_first(octets, self._nodes.limits):
            return self._publish(name, key, octets, message_format, origin)

    def _publish(
        self, name: str, key: str | None, octets: bytes, message_format: int, origin: object
    ) -> Published:
        """Route a message and publish it, see `publish`."""
        subject, application_properties = self._pick_fields(octets)
        if key is None:
            key = subject or ""
        routed: Iterable[DistributionNode] = ()
        if name:
            probe = Message(
                None,
                properties=Properties(subject=key),
                application_properties=application_properties,
            )
            routed = self._route(name, probe)
        elif (queue := self._nodes.find(key)) is not None:
            routed = (queue,)
        if not routed:
            raise UnroutableError(
                f"the exchange {name!r} has no queue for the key {key!r}", NOT_FOUND
            )
        octets = annotated(octets, name, key)
        return publish_to(routed, octets, message_format, origin=origin)

    def _route(self, name: str, probe: Message) -> Iterable[DistributionNode]:
        """Return the queues to which the exchange `name` routes a message, directly or indirectly.

        `probe` is a message with the routing key as its subject.
        """
        routed: dict[DistributionNode, None] = {}
        exchanges, visited = [name], {name}
        for exchange in exchanges:  # the loop appends to the list
            for binding in self.get(exchange).bindings:
                if binding.filter is not None and not binding.filter.matches(probe):
                    continue
                if binding.to_queue:
                    routed[self._nodes.make(binding.destination)] = None
                elif binding.destination not in visited:
                    visited.add(binding.destination)
                    exchanges.append(binding.destination)
        return routed
