"""A double of an Azure Event Hubs namespace, which does wrong what it is told to.

What it asks for and says is what azure-eventhub sends and reads: the addresses, the selector, and
``READ`` of ``$management``. It is no proof of what the service does.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from amqp10msg import Int, Message, Timestamp
from amqp10msg.composite import Error, from_described
from amqp10msg.net import transport
from amqp10msg.sections import AmqpValue, Properties
from amqp10msg.wire.primitives import Array, Symbol
from tests.stream_broker import Stream, StreamBroker, StreamPeer, StreamReader

__all__ = ["Namespace", "Partition", "enqueued"]

SELECTOR = Symbol("apache.org:selector-filter:string")
ADDRESS = re.compile(
    r"(?:(?:amqps?|sb)://[^/]*/)?(\w+)/ConsumerGroups/(\$Default|\w+)/Partitions/(\d+)"
)
EXPRESSION = re.compile(r"amqp\.annotation\.(x-opt-[a-z-]+) (>=?) '(-?\d+)'")
FIRST = 1_782_907_200_000


def enqueued(number: int) -> int:
    """When an event is said to be enqueued: one each second."""
    return FIRST + 1_000 * number


@attrs.define
class Partition(Stream):
    """Events by their sequence numbers.

    Attributes:
        next: the sequence number of the next event, also where retention removed all.
    """

    next: int = 0

    def publish(self, *messages: Message, at: int | None = None) -> None:
        super().publish(*messages, at=at)
        self.next = max(self.messages) + 1

    def delivered(self, offset: int) -> bytes:
        message = Message.decode(self.messages[offset])
        said = {
            **(message.message_annotations or {}),
            "x-opt-sequence-number": offset,
            "x-opt-offset": str(offset * 64),
            "x-opt-enqueued-time": Timestamp(enqueued(offset)),
        }
        return message.evolve(message_annotations=said).encode()


class Namespace(StreamBroker):
    """One event hub, ``orders``.

    Attributes:
        groups: of consumers.
        most: readers of a partition at a time, in a group.
        refuses: the status of answers to requests; 200 where they are answered.
    """

    def __init__(self, *partitions: Partition) -> None:
        super().__init__(**{str(number): one for number, one in enumerate(partitions)})
        self.peer = _Peer
        self.groups = {"$Default", "lake"}
        self.most = 5
        self.refuses = 200

    def describe(self, request: Message) -> Message:
        asked = {str(key): value for key, value in (request.application_properties or {}).items()}
        status, why, body = self._read(asked)
        assert request.properties is not None
        return Message(
            AmqpValue(body),
            properties=Properties(correlation_id=request.properties.message_id),
            application_properties={"status-code": Int(status), "status-description": why},
        )

    def _read(self, asked: dict[str, Any]) -> tuple[int, str, Any]:
        if self.refuses != 200:
            return self.refuses, "refused", None
        if asked.get("operation") != "READ" or asked.get("name") != "orders":
            return 404, "The messaging entity could not be found.", None
        if asked["type"] == "com.microsoft:eventhub":
            ids = Array("string", list(self.streams))
            said = {"name": "orders", "type": asked["type"], "partition_count": Int(len(ids))}
            return 200, "OK", {**said, "created_at": Timestamp(FIRST), "partition_ids": ids}
        assert asked["type"] == "com.microsoft:partition"
        one = self.streams.get(asked["partition"])
        if one is None:
            return 404, "The messaging entity could not be found.", None
        assert isinstance(one, Partition)
        last = one.next - 1
        return 200, "OK", {
            "name": "orders",
            "type": asked["type"],
            "partition": asked["partition"],
            "begin_sequence_number": min(one.messages, default=one.next),
            "last_enqueued_sequence_number": last,
            "last_enqueued_offset": str(max(last, -1)),
            "last_enqueued_time_utc": Timestamp(enqueued(last)),
            "is_partition_empty": not one.messages,
        }  # fmt: skip


def _ends(link: transport.Link) -> tuple[Any, Any]:
    """Return source and target as the client said them."""
    remote: Any = link.remote
    return from_described(remote.source), from_described(remote.target)


class _Peer(StreamPeer):
    broker: Namespace

    def __init__(self, broker: Namespace) -> None:
        super().__init__(broker)
        self.answers: dict[str, transport.Link] = {}
        self.asks: dict[transport.Link, str] = {}

    def on_attach(self, link: transport.Link) -> None:
        source, target = _ends(link)
        if link.sends is False:
            # A token is taken unseen: with SASL PLAIN there is none.
            assert target.address in {"$management", "$cbs"}
            self.asks[link] = target.address
            link.attach(source=source, target=target)
            link.grant(10)
        elif source.address in {"$management", "$cbs"}:
            self.answers[source.address] = link
            link.attach(source=source, target=target)
        else:
            self._read_from(link, source, target)

    def _read_from(self, link: transport.Link, source: Any, target: Any) -> None:
        found = ADDRESS.fullmatch(source.address)
        hub, group, number = found.groups() if found else ("", "", "")
        partition = self.broker.streams.get(number)
        if hub != "orders" or group not in self.broker.groups or partition is None:
            link.refuse(Error("amqp:not-found", "The messaging entity could not be found."))
            return
        readers = [
            one
            for peer in self.broker.peers
            for at, one in peer.readers.items()
            if one.stream is partition and at.context == group
        ]
        if len(readers) >= self.broker.most:
            text = "Exceeded the maximum number of allowed receivers per partition"
            link.refuse(Error("amqp:resource-limit-exceeded", text))
            return
        ((key, asked),) = (source.filter or {}).items()
        assert SELECTOR == key == asked.descriptor
        read = EXPRESSION.fullmatch(asked.value)
        assert read is not None, asked.value
        name, sign, value = read[1], read[2], int(read[3])
        if name == "x-opt-enqueued-time":
            value = -(-(value - FIRST) // 1_000)
        else:
            assert name == "x-opt-sequence-number"
        link.context = group
        link.attach(source=source, target=target)
        start = max(value + (sign == ">"), 0)
        self.readers[link] = StreamReader(partition, start, (), unfiltered=False)

    def on_transfer(self, delivery: transport.LinkDelivery) -> None:
        request = Message.decode(delivery.payload or b"")
        assert request.properties is not None
        answers = self.answers[self.asks[delivery.link]]
        _, back = _ends(answers)
        # The clients of Azure name no place for the answer.
        assert request.properties.reply_to in {None, back.address}
        if self.asks[delivery.link] == "$cbs":
            answer = Message(
                AmqpValue(None),
                properties=Properties(correlation_id=request.properties.message_id),
                application_properties={"status-code": Int(202), "status-description": "OK"},
            )
        else:
            answer = self.broker.describe(request)
        delivery.link.grant(1)
        self.sent += 1
        answers.send(b"a%d" % self.sent, answer.encode(), settled=True)
