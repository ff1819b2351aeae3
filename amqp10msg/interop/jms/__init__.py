"""JMS over AMQP: messages with the fields that JMS gives them, and message ids as JMS shows them.

By the AMQP JMS Mapping, as Apache Qpid JMS and ActiveMQ Artemis follow it.
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
