# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The entry points to values: decoded one or several, or passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.bounded import READ_FAULTS, octets_of
from amqp10msg.wire.kernel.value_reader import ValueReader
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits


def decode_value(data: Any, *, limits: Limits | None = None) -> Any:
    """Decode one value that fills the input.

    A described value becomes `Described`, whatever its descriptor.

    Args:
        data: bytes, bytearray or memoryview.
        limits: what decoding may cost; the defaults of `Limits` where None.

    Raises:
        DecodeError: the input is not one value.
    """
    limits = limits or DEFAULT_LIMITS
    data = octets_of(data, limits)
    reader = ValueReader(data, 0, limits)
    try:
        value = reader.value()
        if reader.pos != len(data):
            raise reader.trailing()
    except READ_FAULTS as error:
        raise reader.fault(error) from None
    return value


def decode_values(data: Any, *, limits: Limits | None = None) -> Iterator[Any]:
    """Decode the values that follow one another in the input, one at a time.

    The limits hold for all of them together.

    Raises:
        DecodeError: the bytes at some point are not a value; earlier values were returned already.
    """
    limits = limits or DEFAULT_LIMITS
    data = octets_of(data, limits)
    return _values(data, ValueReader(data, 0, limits))


def _values(data: Any, reader: Any) -> Iterator[Any]:
    while reader.pos < len(data):
        try:
            value = reader.value()
        except READ_FAULTS as error:
            raise reader.fault(error) from None
        yield value


def skip_value(data: Any, offset: int = 0) -> int:
    """Return where the value that begins at `offset` ends, without decoding it.

    Looks at constructors and sizes only, not into compounds.

    Raises:
        DecodeError: no whole value begins there.
    """
    data = octets_of(data, DEFAULT_LIMITS)
    if not 0 <= offset <= len(data):
        raise DecodeError(f"offset {offset} is outside the input", 0, rule="truncated", data=data)
    reader = ValueReader(data, offset, DEFAULT_LIMITS)
    try:
        reader.skip()
    except READ_FAULTS as error:
        raise reader.fault(error) from None
    return int(reader.pos)
