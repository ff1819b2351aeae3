"""The body of a message: the section or sections it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from amqp10msg.sections import BODY_KINDS, SPEC_OF, AmqpSequence, AmqpValue, Data
from amqp10msg.wire.errors import EncodeError, wrong_type

if TYPE_CHECKING:
    from amqp10msg.message import Message

Body: TypeAlias = Data | AmqpSequence | AmqpValue | list[Data] | list[AmqpSequence]

BODY_SPECS = {kind.cls: SPEC_OF[kind.code] for kind in BODY_KINDS}


def to_body(body: Any) -> Body | None:
    """Take what a user gives as a body to the section or sections it means."""
    if body is None or isinstance(body, (Data, AmqpSequence, AmqpValue)):
        return body
    if isinstance(body, (bytes, bytearray, memoryview)):
        return Data(bytes(body))
    if not (isinstance(body, list) and body and type(body[0]) in BODY_SPECS):
        return AmqpValue(body)
    for item in body:
        if type(item) not in BODY_SPECS:
            how = "a list that is a value is AmqpValue([...])"
            raise wrong_type("a body that is a list of sections", "sections alone", item, how)
    return body  # one kind of section: encode checks that


def body_sections(message: Message) -> list[Any]:
    """Return the sections of the body, whatever the user set; EncodeError for several kinds."""
    body: Any = message.body
    if body is None:
        return []
    if type(body) in BODY_SPECS:
        return [body]
    body = to_body(body)
    if not isinstance(body, list):
        return [body]
    first: type = type(body[0])
    if not message._lenient and (
        any(type(part) is not first for part in body) or (first is AmqpValue and len(body) > 1)
    ):
        raise EncodeError(
            "a body is one or more Data, one or more AmqpSequence, or one AmqpValue", "body"
        )
    return body
