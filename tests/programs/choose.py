"""Choose messages by what they say."""

from amqp10msg import Header, Message
from amqp10msg.delivery.filters import ApplicationPropertiesFilter, ExpressionError, Selector

messages = [
    Message(f"m{n}", header=Header(priority=n), application_properties={"tenant": "acme", "n": n})
    for n in range(10)
]
selector = Selector("tenant = 'acme' AND n >= 7")
chosen: list[Message] = [message for message in messages if selector.matches(message)]
assert ["m7", "m8", "m9"] == [message.text() for message in chosen]

exact = ApplicationPropertiesFilter({"n": 3})
assert [messages[3]] == [message for message in messages if exact.matches(message)]

try:
    Selector("n >")
except ExpressionError as error:
    print(error)
