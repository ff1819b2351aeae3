"""How later versions of RabbitMQ 4 check a message when it comes in, without reading its values."""

from __future__ import annotations

from amqp10msg.translate.rabbitmq.reading import CODEC_43, TermReader
from amqp10msg.translate.rabbitmq.terms import RefusedError, section_name
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel import skip_value
from amqp10msg.wire.kernel.codes import DATA, FOOTER

_SHAPES = {
    "header": b"\x45\xc0\xd0",
    "delivery-annotations": b"\xc1\xd1",
    "message-annotations": b"\xc1\xd1",
    "properties": b"\x45\xc0\xd0",
    "application-properties": b"\xc1\xd1",
    "data": b"\xa0\xb0",
    "amqp-sequence": b"\x45\xc0\xd0",
    "amqp-value": b"",
    "footer": b"\xc1\xd1",
}


_DESCRIPTORS = (b"\x00\x53", b"\x00\x80", b"\x00\xa3", b"\x00\xb3")
_RANKS = {name: rank for rank, name in enumerate(_SHAPES)}


def check(data: bytes) -> None:
    """Raise for sections of another order, number or shape.

    Raises:
        RefusedError: the link is closed.
    """
    last = -1
    pos = 0
    count = 0
    while pos < len(data):
        count += 1
        if count > 10_000:
            raise RefusedError("refused: more than 10,000 sections")
        if not data.startswith(_DESCRIPTORS, pos):
            raise RefusedError("refused: no section of a message")
        reader = TermReader(CODEC_43, data, pos + 1)
        name = section_name(reader.term())
        pos = reader.pos
        if name is None:
            raise RefusedError("refused: an unexpected section")
        rank = _RANKS[name]
        again = name in ("data", "amqp-sequence") and rank == last
        # After one kind of body only the footer may follow, and that only behind a body.
        if (
            (rank <= last and not again)
            or (last >= DATA and rank < FOOTER and not again)
            or (name == "footer" and last < DATA)
        ):
            raise RefusedError("refused: an unexpected section", name)
        last = rank
        shape = _SHAPES[name]
        if pos >= len(data) or (shape and data[pos] not in shape):
            raise RefusedError(f"refused: {name} of the wrong type", name)
        try:
            pos = skip_value(data, pos)
        except DecodeError as error:
            raise RefusedError(f"refused: {name} cannot be read: {error.reason}", name) from None
