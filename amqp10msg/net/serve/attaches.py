"""The attach frames of a peer, read before proton takes them.

Proton exposes neither the default-outcome of a source nor the unsettled map, and loses types in
filters and node properties. Other frames are skipped without decoding them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs

from amqp10msg import AmqpMap, DecodeError, Described, Limits, UInt
from amqp10msg._core import decode_value
from amqp10msg.composite import from_described
from amqp10msg.delivery import Coordinator, Source, Target

__all__ = ["Attach", "AttachReader"]

_ATTACH = (0x12, "amqp:attach:list")
_DETACH = (0x16, "amqp:detach:list")
_END = (0x17, "amqp:end:list")
# Of a terminus; filters nest no deeper.
_LIMITS = Limits(depth=32)
_CODES = (_ATTACH[0], _DETACH[0], _END[0])


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
    """Finds the attach frames in what a connection receives, from the protocol header on.

    An attach with the name of a link that is attached on the same session is taken out: proton
    would close the connection.

    Attributes:
        found: the attaches, in their order.
        duplicates: the attaches that were taken out.
    """

    def __init__(self) -> None:
        self._skip = 8  # the protocol header
        self._held = b""
        self.found: deque[Attach] = deque()
        self.duplicates: deque[Attach] = deque()
        # The names and roles of the peer's links, by channel and handle.
        self._attached: dict[int, dict[int, tuple[str, bool]]] = {}
        # Channels with a duplicate: all is taken out until the peer ends the session.
        self._ended: set[int] = set()

    def feed(self, data: bytes) -> bytes:
        """Read the next octets, and append the attaches that are complete to `found`.

        Malformed frames are left to proton to report.

        Returns:
            The octets for proton: without duplicates, and without a frame that is not complete and
            may be one.
        """
        if self._held:
            data = self._held + data
            self._held = b""
        position = self._skip
        end = len(data)
        passed: list[bytes] = []
        start = 0  # of what is to be passed
        while position + 8 <= end:
            size = int.from_bytes(data[position : position + 4], "big")
            if size < 8:
                self._skip = 1 << 62  # no frame: nothing that follows is one
                return b"".join((*passed, data[start:]))
            body = position + 4 * data[position + 4]
            # Three octets identify most frames: described, smallulong, and the code.
            if size >= 11 and data[position + 5] == 0:
                if body + 3 > end:
                    break
                channel = int.from_bytes(data[position + 6 : position + 8], "big")
                ended = channel in self._ended
                if ended or data[body : body + 2] != b"\0\x53" or data[body + 2] in _CODES:
                    if position + size > end:
                        break
                    if not self._read(channel, data[body : position + size]):
                        passed.append(data[start:position])
                        start = position + size
            position += size
        if position >= end:
            self._skip = position - end
            position = end
        else:
            self._skip = 0
            self._held = data[position:]
        return b"".join((*passed, data[start:position])) if start or self._held else data

    def take(self, name: str) -> Attach | None:
        """Return the attach that opened a link; None if it could not be read."""
        while self.found:
            attach = self.found.popleft()
            if attach.name == name:
                return attach
        return None

    def _read(self, channel: int, body: bytes) -> bool:
        """Read a frame; return whether it is for proton."""
        try:
            value = decode_value(body, limits=_LIMITS)
        except DecodeError:
            # A frame with a payload, which an attach has not, or a malformed one.
            return channel not in self._ended
        if not isinstance(value, Described) or not isinstance(value.value, list):
            return channel not in self._ended
        if value.descriptor in _END:
            self._attached.pop(channel, None)
            self._ended.discard(channel)
            return True
        if channel in self._ended:
            return False
        fields = (*value.value, *[None] * 8)
        attached = self._attached.setdefault(channel, {})
        if value.descriptor in _DETACH:
            attached.pop(fields[0], None)
        elif value.descriptor in _ATTACH:
            attach = _attach_of(fields)
            link = (attach.name, attach.receives)
            if link in attached.values():
                self.duplicates.append(attach)
                self._ended.add(channel)
                return False
            if isinstance(fields[1], UInt):
                attached[fields[1]] = link
            self.found.append(attach)
        return True


def _attach_of(fields: tuple[Any, ...]) -> Attach:
    fault = None
    source = target = None
    unsettled: dict[bytes, Any] = {}
    try:
        source, target = _terminus(fields[5]), _terminus(fields[6])
        if isinstance(fields[7], dict):
            unsettled = {tag: _terminus(state) for tag, state in fields[7].items()}
    except DecodeError as error:
        fault = error
    return Attach(
        name=str(fields[0]),
        receives=fields[2] is True,
        source=source if isinstance(source, Source) and not fault else None,
        target=target if isinstance(target, (Target, Coordinator)) and not fault else None,
        unsettled=unsettled,
        fault=fault,
    )


def _terminus(value: Any) -> Any:
    """Return the source, target or delivery state in a field; None for anything else."""
    if isinstance(value, AmqpMap) or not isinstance(value, Described):
        return None
    return from_described(value)
