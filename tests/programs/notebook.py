"""Look at messages as a notebook does: by their repr, and as plain JSON."""

import json

from amqp10msg import Message, Properties
from amqp10msg.notation import to_plain

message = Message({"order": 66}, properties=Properties(subject="new"))
print(repr(message))
plain = to_plain(message)
assert isinstance(plain, dict)
print(json.dumps(plain, indent=2))
