"""JMS over AMQP: convert messages to objects with the fields of JMS, and convert message ids.

Implements the AMQP JMS Mapping as Apache Qpid JMS and ActiveMQ Artemis do.
"""

from amqp10msg.delivery.jms_ids import from_jms_id, to_jms_correlation_id, to_jms_message_id
from amqp10msg.interop.jms.messages import (
    Destination,
    DestinationKind,
    JmsMessage,
    MessageType,
    from_jms,
    message_type,
    to_jms,
)

__all__ = [
    "Destination",
    "DestinationKind",
    "JmsMessage",
    "MessageType",
    "from_jms",
    "from_jms_id",
    "message_type",
    "to_jms",
    "to_jms_correlation_id",
    "to_jms_message_id",
]
