"""Recorded messages for demonstrations."""

from __future__ import annotations

from functools import cache

from amqp10msg.corpus.case import Case
from amqp10msg.corpus.files import load

#: The ids of their cases.
DEMO = (
    # What a broker makes of one AMQP 0-9-1 message, version by version.
    "rabbitmq-3.10.8-classic-from-091-all-but-user-id",
    "rabbitmq-4.0.5-quorum-from-091-all-but-user-id",
    "rabbitmq-4.3.6-stream-from-091-all-but-user-id",
    "rabbitmq-4.3.6-quorum-from-091-cc",
    # Every section, with the three kinds of body.
    "rabbitmq-4.3.6-quorum-relay-full-data",
    "rabbitmq-4.3.6-quorum-relay-full-seq",
    "proton-0.40.0-again-full-value",
    # The type system at work.
    "proton-0.40.0-built-all",
    "rhea-3.0.5-built-p-all",
    "proton-0.40.0-built-body-described",
    "rabbitmq-4.3.6-quorum-relay-ap-order",
    # Violations of the specification: a string as user-id, string keys in annotations.
    "rabbitmq-3.10.8-classic-from-091-all-but-delivery-mode",
    "rabbitmq-3.10.8-stream-from-091-only-content-type",
    "rhea-3.0.5-built-footer",
)


@cache
def _by_id() -> dict[str, Case]:
    return {case.id: case for case in load()}


def demo_messages() -> list[Case]:
    """Return a selection of the messages that were recorded from RabbitMQ, proton and rhea.

    The last three violate the specification: `Message.decode` takes them with ``strict=False``.
    """
    return [_by_id()[name] for name in DEMO]
