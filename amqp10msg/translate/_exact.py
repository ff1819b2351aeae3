# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The bytes of sections whose encodings are not those that this library chooses."""

from __future__ import annotations

from typing import Any

from amqp10msg.sections import KIND_OF, SPEC_OF
from amqp10msg.translate._contents import (
    SHAPE,
    SPARSE,
)
from amqp10msg.translate._delivery import decorated
from amqp10msg.translate._padding import NULL, nulls_behind
from amqp10msg.translate._reading import Reading
from amqp10msg.translate._to_amqp10 import is_delivered
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import (
    DATA_CODE,
    HEADER_CODE,
    PROPERTIES_CODE,
)
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import HEAD_SIZES


def exact_octets(made: Reading) -> None:
    """Carry the bytes of sections in other encodings than this library's, and the heads."""
    for code, start, content, end in kernel.Reader(made.raw, 0, UNLIMITED).scan():
        octets = made.raw[start:end]
        kind = KIND_OF[code]
        if kind.attribute == "body":
            _heads(made, code, start, content, end)
            continue
        if code == HEADER_CODE and HEADER_CODE not in made.carried and octets == decorated_of(made):
            continue
        section = getattr(made.message, kind.attribute)
        if code in made.carried:
            made.carried[code] = octets
            continue
        canonical = b"" if section is None else _section_octets(code, section)
        if canonical == octets:
            continue
        if code == PROPERTIES_CODE and canonical and (fields := nulls_behind(octets, canonical)):
            made.carried.setdefault(SPARSE + code, {})[fields - 1] = NULL
            continue
        made.carried[code] = octets
        made.carried.pop(SPARSE + code, None)


def decorated_of(made: Reading) -> bytes | None:
    """Return the header section as RabbitMQ 4 writes it, where it is taken for a delivery."""
    header = made.message.header
    delivered = is_delivered(made.basic)
    return decorated(header) if delivered and header is not None else None


def _section_octets(code: int, section: Any) -> bytes:
    writer = kernel.Writer(False)
    writer.section(SPEC_OF[code], section)
    return writer.finish()


def _heads(made: Reading, code: int, start: int, content: int, end: int) -> None:
    """Note what stands in front of a data section's content, where it must be kept."""
    if code != DATA_CODE:
        return
    width = HEAD_SIZES[made.raw[content]]
    several = isinstance(made.body, list)
    head = made.raw[start : content + width]
    usual = b"\x00\x53\x75" + (b"\xa0" if end - content - width < 256 else b"\xb0")
    if several or not head.startswith(usual):
        made.carried.setdefault(SHAPE, []).append(head)
