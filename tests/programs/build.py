"""Build a message with every section that an application writes, and send its bytes."""

import uuid
from datetime import UTC, datetime

from amqp10msg import Header, Message, Properties, UInt

now = datetime(2026, 5, 1, tzinfo=UTC)
message = Message(
    {"order": 66, "items": ["a", "b"]},
    header=Header(durable=True, ttl=60_000),
    properties=Properties(
        message_id=uuid.UUID(int=1),
        to="orders",
        subject="new",
        creation_time=int(now.timestamp() * 1000),
        content_type="application/x-order",
    ),
    application_properties={"tenant": "acme", "attempt": UInt(1)},
    message_annotations={"x-opt-trace": "abc"},
)
data: bytes = message.encode()
assert Message.decode(data) == message
