"""Sign a message, and refuse one that somebody changed on the way."""

from amqp10msg import ChecksumError, Message
from amqp10msg.message.checksums import require, sign, verify

key = b"a secret of both ends"
data = sign(Message(b"pay 10 to Bob"), key).encode()

received = Message.decode(data)
assert verify(received, key)
require(received, key)

forged = Message.decode(data.replace(b"Bob", b"Eve"))
assert not verify(forged, key)
try:
    require(forged, key)
except ChecksumError as error:
    print(error)
else:
    raise AssertionError("a forgery was accepted")
