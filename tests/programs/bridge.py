"""Take a message from AMQP 0-9-1 to 1.0 and back, exactly, and as a broker would."""

from amqp10msg import Message
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.translate import to_amqp10, to_basic

basic = BasicMessage(
    BasicProperties(
        content_type="application/json",
        delivery_mode=2,
        message_id="m-1",
        headers={"tenant": "acme", "attempt": 1},
    ),
    b'{"order": 66}',
)
there = to_amqp10(basic)
message: Message = there.message
assert "m-1" == message.message_id
back = to_basic(message)
assert basic == back.message
assert () == there.losses
assert [] == [loss for loss in back.losses if not loss.recoverable]

lossy = to_basic(message, "rabbitmq-4.0")
for loss in lossy.losses:
    print(loss.path, loss.action, loss.reason)
