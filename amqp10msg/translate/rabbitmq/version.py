"""The differences between versions of RabbitMQ: `BrokerVersion`."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from amqp10msg.brokers import ByName, translations
from amqp10msg.translate.circumstances import GivenBack
from amqp10msg.translate.rabbitmq.terms import CODEC_3_10, CODEC_4_0, CODEC_4_3, Codec


@attrs.frozen
class BrokerVersion:
    """The behaviour of a version of RabbitMQ with queues or, if `stream`, with streams.

    Attributes:
        name: the version, such as ``4.0``.
        codec: how the version decodes AMQP 1.0.
        durable_by_default: whether 1.0 messages with an unset durable field are durable (4.0, 4.1).
        queue_addresses: whether a reply-to is an address, ``/queues/`` and the queue's name (from
            4.2).
        broker_annotations_first: whether the broker's own annotations precede the sender's.
        trims_nulls: whether trailing nulls of the properties section are omitted.
        checks_sections: whether the order, number and types of the sections of incoming messages
            are checked.
        drops_undecoded: whether values that the broker did not decode are omitted from headers; if
            False, they crash the consumer's connection.
        requires_canonical_uuids: whether only ids of the form 8-4-4-4-12 become UUIDs; if False,
            any 36 characters do, and some crash the consumer's session.
        is_plugin: whether a plugin converts messages, which stores whole sections as headers
            (3.10).
        failed_returns: for each type of queue, the items of `Circumstances.given_back` that count
            as failed deliveries.
        discards_fail: whether discarding a message with nack or reject counts as a failed delivery
            in a quorum queue (before 4.3).
        reports_acquisitions: whether a quorum queue reports the number of deliveries as
            x-acquired-count, and the number of failed deliveries as x-delivery-count; if False, it
            reports the number of deliveries as x-delivery-count (before 4.3).
        stream: whether the message is in a stream, which stores 1.0 messages, instead of a queue.
    """

    name: str
    codec: Codec
    durable_by_default: bool = False
    queue_addresses: bool = False
    broker_annotations_first: bool = False
    trims_nulls: bool = False
    checks_sections: bool = False
    drops_undecoded: bool = False
    requires_canonical_uuids: bool = False
    is_plugin: bool = False
    failed_returns: Mapping[str, frozenset[GivenBack]] = attrs.field(factory=dict)
    discards_fail: bool = False
    reports_acquisitions: bool = False
    stream: bool = False

    @property
    def profile(self) -> str:
        """The name of the profile, such as ``rabbitmq-4.0-stream``."""
        return f"rabbitmq-{self.name}{'-stream' if self.stream else ''}"


RABBITMQ_3_10 = BrokerVersion("3.10", CODEC_3_10, is_plugin=True)
RABBITMQ_4_0 = BrokerVersion(
    "4.0",
    CODEC_4_0,
    durable_by_default=True,
    failed_returns={"quorum": frozenset({"modified-failed", "rejected", "closed"})},
    discards_fail=True,
)
RABBITMQ_4_3 = BrokerVersion(
    "4.3",
    CODEC_4_3,
    queue_addresses=True,
    broker_annotations_first=True,
    trims_nulls=True,
    checks_sections=True,
    drops_undecoded=True,
    requires_canonical_uuids=True,
    failed_returns={
        "classic": frozenset({"modified-failed", "rejected", "reject", "detached", "closed"}),
        "quorum": frozenset({"modified-failed", "rejected", "reject", "closed"}),
    },
    reports_acquisitions=True,
)
# 4.2 differs from 4.3 only with queues, not with streams.
RABBITMQ_4_2 = attrs.evolve(
    RABBITMQ_4_3,
    name="4.2",
    failed_returns=RABBITMQ_4_0.failed_returns,
    discards_fail=RABBITMQ_4_0.discards_fail,
    reports_acquisitions=False,
)

#: The versions by the name of their profile, each with queues and with streams.
VERSIONS: Mapping[str, BrokerVersion] = ByName(
    {
        variant.profile: variant
        for version in (RABBITMQ_3_10, RABBITMQ_4_0, RABBITMQ_4_2, RABBITMQ_4_3)
        for variant in (version, attrs.evolve(version, stream=True))
        if not (version is RABBITMQ_4_2 and variant.stream)
    },
    translations(),
)
