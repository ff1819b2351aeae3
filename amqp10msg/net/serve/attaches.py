"""The attach frames of a peer, read before proton takes them.

Proton exposes neither the default-outcome of a source nor the unsettled map, and loses types in
filters and node properties. Other frames are skipped without decoding them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs

from amqp10msg import AmqpMap, DecodeError, Described
from amqp10msg._core import decode_value
from amqp10msg.composite import from_described
from amqp10msg.delivery import Coordinator, Source, Target

__all__ = ["Attach", "AttachReader"]

_ATTACH = (0x12, "amqp:attach:list")


@attrs.frozen
class Attach:
    """The fields of a peer's attach frame that a node needs (Part 2, 2.7.3).

    Attributes:
        name: the link's name.
        receives: whether the peer is the receiver.
        source: None if it is missing.
        target: None if it is missing.
        unsettled: the states of the peer's unsettled deliveries by delivery-tag, None for null.
        fault: why a terminus cannot be decoded; None if both can.
    """

    name: str
    receives: bool
    source: Source | None
    target: Target | Coordinator | None
    unsettled: dict[bytes, Any]
    fault: DecodeError | None = None


class AttachReader:
    """Finds the attach frames in what a connection receives, from the protocol header on."""

    def __init__(self) -> None:
        self._skip = 8  # the protocol header
        self._held = b""
        self.found: deque[Attach] = deque()

    def feed(self, data: bytes) -> None:
        """Read the next octets, and append the attaches that are complete to `found`.

        Malformed frames are left to proton to report.
        """
        if self._held:
            data = self._held + data
            self._held = b""
        position = self._skip
        end = len(data)
        while position + 8 <= end:
            size = int.from_bytes(data[position : position + 4], "big")
            if size < 8:
                position, end = 0, 0  # no frame: nothing that follows is one
                self._skip = 1 << 62
                return
            body = position + 4 * data[position + 4]
            # Three octets identify most frames: described, smallulong, and the code.
            if size >= 11 and data[position + 5] == 0:
                if body + 3 > end:
                    break
                if data[body : body + 2] != b"\0\x53" or data[body + 2] == _ATTACH[0]:
                    if position + size > end:
                        break
                    self._read(data[body : position + size])
            position += size
        if position >= end:
            self._skip = position - end
        else:
            self._skip = 0
            self._held = data[position:]

    def take(self, name: str) -> Attach | None:
        """Return the attach that opened a link; None if it could not be read."""
        while self.found:
            attach = self.found.popleft()
            if attach.name == name:
                return attach
        return None

    def _read(self, body: bytes) -> None:
        try:
            value = decode_value(body)
        except DecodeError:
            return  # a frame with a payload, which an attach has not, or one that proton refuses
        if not isinstance(value, Described) or not isinstance(value.value, list):
            return
        if value.descriptor not in _ATTACH:
            return
        fields = (*value.value, *[None] * 8)
        fault = None
        source = target = None
        unsettled: dict[bytes, Any] = {}
        try:
            source, target = _terminus(fields[5]), _terminus(fields[6])
            if isinstance(fields[7], dict):
                unsettled = {tag: _terminus(state) for tag, state in fields[7].items()}
        except DecodeError as error:
            fault = error
        made = Attach(str(fields[0]), fields[2] is True, None, None, unsettled, fault)
        self.found.append(
            attrs.evolve(
                made,
                source=source if isinstance(source, Source) else None,
                target=target if isinstance(target, (Target, Coordinator)) else None,
            )
        )


def _terminus(value: Any) -> Any:
    """Return the source, target or delivery state in a field; None for anything else."""
    if isinstance(value, AmqpMap) or not isinstance(value, Described):
        return None
    return from_described(value)
