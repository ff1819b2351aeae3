"""Arguments that must be bytes: an int must not become that many zero bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import amqp10msg
from amqp10msg import Data, Message, notation, translate
from amqp10msg.basic import BasicMessage, decode_properties
from amqp10msg.interop.systems.adapters import from_aio_pika, from_kombu

pytestmark = pytest.mark.once


class Received:
    """A message of aio-pika or of kombu with a body of the wrong type."""

    body_size = 5
    content_type = content_encoding = headers = expiration = None

    def __init__(self, body: object, properties: object) -> None:
        self.body = body
        self.properties = properties
        self.delivery_info: dict[str, Any] = {}


#: Public functions by name, each called with the value in the place of bytes.
CALLS: dict[str, Callable[[Any], object]] = {
    "Message.decode": Message.decode,
    "validate": amqp10msg.validate,
    "BasicMessage": lambda value: BasicMessage(body=value),
    "BasicMessage.from_pika": lambda value: BasicMessage.from_pika(None, value),
    "BasicMessage.from_pamqp": lambda value: BasicMessage.from_pamqp(None, value),
    "decode_properties": decode_properties,
    "encoded_to_basic": translate.encoded_to_basic,
    "from_aio_pika": lambda value: from_aio_pika(Received(value, None)),
    "from_kombu": lambda value: from_kombu(Received(value, {})),
    "parse_tree": notation.parse_tree,
    "render_text": notation.render_text,
    "render_html": notation.render_html,
    "render_svg": notation.render_svg,
    "from_cbor": notation.from_cbor,
    "Message.body_bytes": lambda value: Message(Data(value)).body_bytes(),
    "Message.value": lambda value: Message(Data(value)).value,
}


NEEDED = {"render_html": "jinja2", "from_cbor": "cbor2"}


@pytest.mark.parametrize("value", [5, 0, True, [1, 2, 3], (1,), range(3), 2.5, {1: 2}, object()])
@pytest.mark.parametrize("name", CALLS)
def test_argument_that_is_not_bytes_is_a_type_error(name: str, value: object) -> None:
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])

    # `render_html` takes an iterable of messages, and names the type of the first item.
    with pytest.raises(TypeError, match=f"not ({type(value).__name__}|int)$"):
        CALLS[name](value)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_like_arguments_are_accepted(kind: Callable[[bytes], Any]) -> None:
    octets = Message("hello").encode()

    assert b"body" == BasicMessage.from_pika(None, kind(b"body")).body
    assert "hello" in notation.render_text(kind(octets))
    assert b"body" == Message(Data(kind(b"body"))).body_bytes()
