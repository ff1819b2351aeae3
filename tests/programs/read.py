"""Read what a message says, where any of it may be absent."""

from amqp10msg import DecodeError, Message, Properties

data = Message("hello", properties=Properties(message_id="m-1", to="greetings")).encode()

message = Message.decode(data)
assert "m-1" == message.message_id
assert "greetings" == message.to
assert message.correlation_id is None
assert message.priority is None
assert "hello" == message.text()
assert "hello" == message.value
assert message.application_property("tenant") is None
assert "none" == message.application_property("tenant", "none")

if message.properties is not None and message.properties.subject is not None:
    print(message.properties.subject.upper())

try:
    Message.decode(data[:-1])
except DecodeError as error:
    assert "truncated" == error.rule
    print(error.offset, error)
