"""The differences between versions of RabbitMQ: `BrokerVersion`."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from amqp10msg.brokers import ByName, translations
from amqp10msg.translate.circumstances import GivenBack
from amqp10msg.translate.rabbitmq.terms import CODEC_3, CODEC_40, CODEC_43, Codec


@attrs.frozen
class BrokerVersion:
    """The behaviour of a version of RabbitMQ with queues or, if `stream`, with streams.

    Attributes:
        name: the version, such as ``4.0``.
        codec: its decoder of AMQP 1.0.
        durable_by_default: 1.0 messages with an unset durable field are durable (4.0 and 4.1).
        queue_addresses: a reply-to is an address, ``/queues/`` and the queue's name (from 4.2).
        metadata_first: the broker's own annotations precede the sender's.
        trims: it omits trailing nulls of the properties.
        validates: it checks the order, number and types of the sections of incoming messages.
        drops_unread: it omits values that it did not decode from headers; if False, they crash the
            consumer's connection.
        canonical_uuids: only ids of the form 8-4-4-4-12 become UUIDs; if False, any 36 characters
            do, and some crash the consumer's session.
        is_plugin: a plugin converts messages, which stores whole sections as headers (3.10).
        failures: for each type of queue, the ways of returning a message that count as failed
            deliveries.
        discards_fail: discarding a message with nack or reject counts as a failed delivery in a
            quorum queue (4.0).
        acquisitions: a quorum queue reports the number of deliveries and the number of failed
            deliveries; if False, only the former, under the name of the latter (up to 4.0).
        stream: the queue is a stream, which stores 1.0 messages.
    """

    name: str
    codec: Codec
    durable_by_default: bool = False
    queue_addresses: bool = False
    metadata_first: bool = False
    trims: bool = False
    validates: bool = False
    drops_unread: bool = False
    canonical_uuids: bool = False
    is_plugin: bool = False
    failures: Mapping[str, frozenset[GivenBack]] = attrs.field(factory=dict)
    discards_fail: bool = False
    acquisitions: bool = False
    stream: bool = False

    @property
    def profile(self) -> str:
        """The name of the profile, such as ``rabbitmq-4.0-stream``."""
        return f"rabbitmq-{self.name}{'-stream' if self.stream else ''}"


RABBITMQ_3_10 = BrokerVersion("3.10", CODEC_3, is_plugin=True)
RABBITMQ_4_0 = BrokerVersion(
    "4.0",
    CODEC_40,
    durable_by_default=True,
    failures={"quorum": frozenset({"modified-failed", "rejected", "closed"})},
    discards_fail=True,
)
RABBITMQ_4_3 = BrokerVersion(
    "4.3",
    CODEC_43,
    queue_addresses=True,
    metadata_first=True,
    trims=True,
    validates=True,
    drops_unread=True,
    canonical_uuids=True,
    failures={
        "classic": frozenset({"modified-failed", "rejected", "reject", "detached", "closed"}),
        "quorum": frozenset({"modified-failed", "rejected", "reject", "closed"}),
    },
    acquisitions=True,
)
# With streams, 4.2 behaves like 4.3.
RABBITMQ_4_2 = attrs.evolve(
    RABBITMQ_4_3,
    name="4.2",
    failures=RABBITMQ_4_0.failures,
    discards_fail=RABBITMQ_4_0.discards_fail,
    acquisitions=False,
)

#: The versions by profile, with queues and with streams.
VERSIONS: Mapping[str, BrokerVersion] = ByName(
    {
        variant.profile: variant
        for version in (RABBITMQ_3_10, RABBITMQ_4_0, RABBITMQ_4_2, RABBITMQ_4_3)
        for variant in (version, attrs.evolve(version, stream=True))
        if not (version is RABBITMQ_4_2 and variant.stream)
    },
    translations(),
)
