"""Exchanges and their bindings, and the addresses that name them and queues, as in RabbitMQ 4.

``/queues/:queue`` is the node of that name, ``/exchanges/:exchange/:routing-key`` is an exchange
with a routing key, and ``/exchanges/:exchange`` is one whose routing key is the subject of each
message. Names and keys are percent-encoded.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import attrs

from amqp10msg import Message, MessageAnnotations, Properties, scan
from amqp10msg.delivery import DistributionNode
from amqp10msg.delivery.filters import DirectBinding, Filter, HeadersBinding, TopicBinding
from amqp10msg.delivery.node import NodeError
from amqp10msg.net.serve.nodes import NOT_FOUND, Nodes
from amqp10msg.net.serve.transactions import Published


class UnroutableError(NodeError):
    """No binding of an exchange matches a message: it is released."""


@attrs.frozen
class Binding:
    """A binding of an exchange to a queue or to another exchange.

    Attributes:
        source: the exchange.
        destination: the name of a queue or an exchange.
        to_queue: whether it is a queue.
        key: the binding key.
        arguments: for exchanges of type headers.
        filter: which messages match; None for all.
    """

    source: str
    destination: str
    to_queue: bool
    key: str
    arguments: Mapping[str, Any]
    filter: Filter | None = attrs.field(eq=False, repr=False, default=None)


@attrs.define(eq=False)
class Exchange:
    """An exchange.

    Attributes:
        name: its name.
        type: ``direct``, ``fanout``, ``topic`` or ``headers``.
        options: how it was declared: durable, auto_delete, internal, arguments.
        bindings: its bindings.
    """

    name: str
    type: str
    options: dict[str, Any]
    bindings: list[Binding] = attrs.field(factory=list)


def exchange_of(address: str) -> tuple[str, str | None] | None:
    """Return the exchange and the routing key of an address; None if it is a node's own.

    The default exchange, with the empty name, routes to the queue that the key names.
    """
    parts = address.split("/")
    if parts[:2] == ["", "queues"] and len(parts) == 3:
        return "", unquote(parts[2])
    if parts[:2] != ["", "exchanges"] or not 3 <= len(parts) <= 4:
        return None
    name, key = (*map(unquote, parts[2:]), None)[:2]
    return str(name), key


def annotated(octets: bytes, exchange: str, key: str) -> bytes:
    """Add the message-annotations with which RabbitMQ says where a message was published."""
    parts = scan(octets)
    held = parts.section("message-annotations")
    annotations = {**(held or {}), "x-exchange": exchange, "x-routing-key": key}
    return parts.replace(message_annotations=MessageAnnotations(annotations))


def publish_to(
    nodes: Iterable[DistributionNode], octets: bytes, message_format: int, *, origin: object
) -> Published:
    """Publish a message to every one of some nodes."""
    return [
        (node, node.publish(octets, message_format=message_format, origin=origin)) for node in nodes
    ]


class Exchanges:
    """The exchanges of a server, by name; those that begin with ``amq.`` are always there."""

    TYPES = ("direct", "fanout", "topic", "headers")

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._exchanges = {f"amq.{kind}": Exchange(f"amq.{kind}", kind, {}) for kind in self.TYPES}

    def get(self, name: str) -> Exchange:
        """Return an exchange.

        Raises:
            NodeError: there is none of that name.
        """
        exchange = self._exchanges.get(name)
        if exchange is None:
            raise NodeError(f"there is no exchange {name!r}", NOT_FOUND)
        return exchange

    def declare(self, name: str, kind: str, options: dict[str, Any]) -> Exchange:
        """Return the exchange of a name, created if there is none."""
        return self._exchanges.setdefault(name, Exchange(name, kind, options))

    def delete(self, name: str) -> None:
        """Delete an exchange, if it exists, with its bindings."""
        self._exchanges.pop(name, None)
        self.unbind_all(name, to_queue=False)

    def unbind_all(self, destination: str, *, to_queue: bool) -> None:
        """Remove the bindings to a queue or an exchange."""
        for exchange in self._exchanges.values():
            exchange.bindings = [
                one
                for one in exchange.bindings
                if (one.destination, one.to_queue) != (destination, to_queue)
            ]

    def bind(self, binding: Binding) -> None:
        """Add a binding; an equal one is not added again.

        Raises:
            NodeError: the source does not exist.
            EncodeError: the arguments cannot be matched.
        """
        exchange = self.get(binding.source)
        if binding in exchange.bindings:
            return
        filters: dict[str, Any] = {"direct": DirectBinding, "topic": TopicBinding}
        matches = None
        if exchange.type == "headers":
            matches = HeadersBinding(binding.arguments)
        elif exchange.type in filters:
            matches = filters[exchange.type](binding.key)
        exchange.bindings.append(attrs.evolve(binding, filter=matches))

    def bindings(self) -> Iterator[Binding]:
        """Yield all bindings."""
        yield from itertools.chain.from_iterable(
            exchange.bindings for exchange in self._exchanges.values()
        )

    def publish(
        self,
        name: str,
        key: str | None,
        octets: bytes,
        message_format: int = 0,
        *,
        origin: object,
    ) -> Published:
        """Publish a message to every queue that it is routed to, once.

        Args:
            name: the exchange; empty for the default one, whose keys are names of queues.
            key: the routing key; the subject of the message if None.
            octets: the message.
            message_format: of its transfer.
            origin: as in `DistributionNode.publish`.

        Returns:
            The nodes, with the message's number at each.

        Raises:
            UnroutableError: there is no such queue.
            NodeError: there is no such exchange, or a node refuses the message.
            DecodeError: the bytes are not a message.
        """
        message = Message.decode(octets, limits=self._nodes.limits)
        if key is None:
            key = (message.properties.subject if message.properties else None) or ""
        routed: dict[DistributionNode, None] = {}
        if name:
            probe = Message(
                None,
                properties=Properties(subject=key),
                application_properties=message.application_properties,
            )
            self._route(self.get(name), probe, routed, set())
        elif (queue := self._nodes.find(key)) is not None:
            routed[queue] = None
        if not routed:
            raise UnroutableError(
                f"the exchange {name!r} has no queue for the key {key!r}", NOT_FOUND
            )
        octets = annotated(octets, name, key)
        return publish_to(routed, octets, message_format, origin=origin)

    def _route(
        self,
        exchange: Exchange,
        probe: Message,
        routed: dict[DistributionNode, None],
        visited: set[str],
    ) -> None:
        visited.add(exchange.name)
        for binding in exchange.bindings:
            if binding.filter is not None and not binding.filter.matches(probe):
                continue
            if binding.to_queue:
                routed[self._nodes.make(binding.destination)] = None
            elif binding.destination not in visited:
                self._route(self.get(binding.destination), probe, routed, visited)
