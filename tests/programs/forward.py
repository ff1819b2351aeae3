"""Add a hop to a message and forward it: the bare message keeps its bytes."""

from amqp10msg import Header, Message, scan

received = Message("hello", header=Header(priority=4), footer={"x-opt-sum": 1}).encode()

message = Message.decode(received)
hops = message.message_annotation("x-opt-hops", 0)
assert isinstance(hops, int)
forwarded = message.evolve(message_annotations={"x-opt-hops": hops + 1})
assert forwarded.bare == message.bare
assert 1 == Message.decode(forwarded.encode()).message_annotation("x-opt-hops")

found = scan(received)
faster: bytes = found.replace(header=Header(priority=9))
assert 9 == Message.decode(faster).priority
