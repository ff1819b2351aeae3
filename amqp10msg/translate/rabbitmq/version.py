"""What differs between the versions of RabbitMQ: `BrokerVersion`."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from amqp10msg.brokers import ByName, translations
from amqp10msg.translate.circumstances import GivenBack
from amqp10msg.translate.rabbitmq.terms import CODEC_3, CODEC_40, CODEC_43, Codec


@attrs.frozen
class BrokerVersion:
    """One version of RabbitMQ, and what its queue is.

    Attributes:
        name: such as ``4.0``.
        codec: how it reads 1.0.
        durable_by_default: a 1.0 message that does not say so is durable (4.0 and 4.1).
        queue_addresses: a reply-to is an address, ``/queues/`` and the queue's name (from 4.2).
        metadata_first: its own annotations stand before the others.
        trims: trailing nulls of properties are left out.
        validates: order, number and values of the sections are checked when a message comes in.
        drops_unread: values that it carries unread are left out of headers; else they kill the
            consumer.
        canonical_uuids: only an id of the form 8-4-4-4-12 is a uuid; else any 36 characters are
            read as one, and some kill the consumer.
        is_plugin: a plugin converts messages, which carries whole sections as headers (3.10).
        failures: by the type of a queue, the ways to give a message back that it counts as failed
            deliveries.
        discards_fail: a quorum queue counts so, too, when a message is given up with nack or
            reject (4.0).
        acquisitions: a quorum queue says how often it gave the message to a consumer, and how often
            that failed; else the first of these alone, under the name of the second (up to 4.0).
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
        """The name of its profile."""
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
# Of streams it is 4.3.
RABBITMQ_4_2 = attrs.evolve(
    RABBITMQ_4_3,
    name="4.2",
    failures=RABBITMQ_4_0.failures,
    discards_fail=RABBITMQ_4_0.discards_fail,
    acquisitions=False,
)

#: The versions by their profile, with queues and with streams.
VERSIONS: Mapping[str, BrokerVersion] = ByName(
    {
        one.profile: one
        for version in (RABBITMQ_3_10, RABBITMQ_4_0, RABBITMQ_4_2, RABBITMQ_4_3)
        for one in (version, attrs.evolve(version, stream=True))
        if not (version is RABBITMQ_4_2 and one.stream)
    },
    translations(),
)
