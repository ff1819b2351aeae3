"""Sections found without decoding them: `scan`, for forwarders and for a look at one section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from amqp10msg import _wire
from amqp10msg.errors import DecodeError, EncodeError
from amqp10msg.limits import DEFAULT_LIMITS, Limits
from amqp10msg.sections import CODES, KINDS, SPECS, SectionKind

__all__ = ["FIELD_NAMES", "Part", "Scan", "scan"]

#: Section and field names by descriptor, for the path in an error.
FIELD_NAMES: dict[int | str, tuple[str, tuple[str, ...]]] = {
    key: (spec.name, spec.names) for spec in SPECS for key in (spec.code, spec.symbol)
}
# What a node may replace: all that is not the bare message (Part 3, 3.2).
_REPLACEABLE = ("header", "delivery_annotations", "message_annotations", "footer")
_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_ATTRIBUTE = {kind.attribute: kind for kind in KINDS if kind.attribute != "body"}


@attrs.frozen
class Part:
    """One section of an encoded message, not decoded.

    Attributes:
        kind: its row in the table of sections, or None where it is no section of Part 3.
        offset: where it begins (its descriptor), in octets.
        content: where its value begins, behind the descriptor.
        end: where it ends.
    """

    kind: SectionKind | None
    offset: int
    content: int
    end: int

    @property
    def name(self) -> str:
        """The section's name in the specification, or ``unknown``."""
        return self.kind.name if self.kind else "unknown"

    @property
    def code(self) -> int | None:
        """The section's numeric descriptor, also where it came with the symbolic one."""
        return self.kind.code if self.kind else None

    @property
    def length(self) -> int:
        """Octets from the descriptor to the end."""
        return self.end - self.offset


class Scan:
    """The sections of one encoded message: where they are, and what can be done without decoding.

    Made by `scan`. Iterating gives the parts in the order of the wire.

    Attributes:
        data: the encoded message.
    """

    __slots__ = ("_limits", "_parts", "data")

    def __init__(self, data: bytes, parts: list[tuple[int, int, int, int]], limits: Limits) -> None:
        self.data = data
        self._parts = parts
        self._limits = limits

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Part]:
        for code, start, content, end in self._parts:
            yield Part(KINDS[code - 0x70] if code >= 0 else None, start, content, end)

    def __repr__(self) -> str:
        return f"Scan({', '.join(f'{p.name}[{p.offset}:{p.end}]' for p in self)})"

    def section(self, name: str) -> Any:
        """Decode the first section of this name; None where the message has none.

        Args:
            name: the specification's name or the attribute of Message, such as
                ``message-annotations`` or ``message_annotations``.

        Raises:
            DecodeError: the section's octets are malformed or of the wrong types.
            ValueError: no section is called so.
        """
        kind = _BY_NAME.get(name) or _BY_ATTRIBUTE.get(name)
        if kind is None:
            raise ValueError(f"no section is called {name!r}: use one of {', '.join(_BY_NAME)}")
        for code, _, content, end in self._parts:
            if code == kind.code:
                return read_section(self.data, kind, content, end, self._limits)
        return None

    @property
    def bare(self) -> bytes:
        """The octets of the bare message, properties to body, exactly as they came."""
        start, end = self._bare_range()
        return self.data[start:end]

    def _bare_range(self) -> tuple[int, int]:
        start = end = -1
        for code, offset, _, stop in self._parts:
            if 0x73 <= code <= 0x77:
                if start < 0:
                    start = offset
                end = stop
        return (start, end) if start >= 0 else (0, 0)

    def replace(self, **sections: Any) -> bytes:
        """Give the message with other annotations around the same bare message.

        Args:
            sections: ``header``, ``delivery_annotations``, ``message_annotations`` or ``footer``
                to a section, to a plain dict for the map sections, or to None to leave it out.
                What is not named stays as it is, octet for octet.

        Raises:
            EncodeError: a section holds what cannot be encoded.
            TypeError: a section is named that belongs to the bare message, which is immutable.
            DecodeError: the sections do not stand in the order of Part 3, 3.2, so that there is no
                telling where one belongs.
        """
        replaced = {}
        for name, value in sections.items():
            if name not in _REPLACEABLE:
                raise TypeError(
                    f"{name} cannot be replaced: only {', '.join(_REPLACEABLE)} can, because the "
                    "bare message is immutable in the network (Part 3, 3.2)"
                )
            replaced[_BY_ATTRIBUTE[name].code] = value
        writer = _wire.Writer()
        data = self.data
        last = -1
        waiting = sorted(replaced)
        keep = 0  # where the octets begin that are still to be copied
        try:
            for code, start, _, end in self._parts:
                if code < last or code < 0:
                    raise DecodeError(
                        "the sections are not in the order of Part 3, 3.2",
                        start,
                        rule="section-out-of-order",
                        data=data,
                    )
                last = code
                while waiting and waiting[0] <= code:
                    if keep < start:
                        writer.raw(data[keep:start])
                        keep = start
                    new = waiting.pop(0)
                    if replaced[new] is not None:
                        writer.section(SPECS[new - 0x70], checked(KINDS[new - 0x70], replaced[new]))
                if code in replaced:
                    if keep < start:
                        writer.raw(data[keep:start])
                    keep = end
            if keep < len(data):
                writer.raw(data[keep:])
            for new in waiting:
                if replaced[new] is not None:
                    writer.section(SPECS[new - 0x70], checked(KINDS[new - 0x70], replaced[new]))
        except (RecursionError, UnicodeEncodeError) as error:
            raise _wire.encode_fault(error) from None
        return bytes(writer.finish())


def checked(kind: SectionKind, value: Any) -> Any:
    """Give the value back if it can stand for this kind of section, else raise EncodeError."""
    if isinstance(value, kind.cls) or (kind.source == "map" and isinstance(value, Mapping)):
        return value
    raise EncodeError(
        f"must be {kind.cls.__name__}{' or a dict' if kind.source == 'map' else ''}, "
        f"not {type(value).__name__}",
        kind.name,
    )


def read_section(data: bytes, kind: SectionKind, content: int, end: int, limits: Limits) -> Any:
    """Decode the value of one section that stands at data[content:end]."""
    reader = _wire.Reader(data, content, limits)
    reader.end = end
    try:
        return reader.section(SPECS[kind.code - 0x70])
    except _wire.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None


def scan(data: bytes | bytearray | memoryview, *, limits: Limits | None = None) -> Scan:
    """Find the sections of an encoded message without decoding them.

    Looks at descriptors and sizes only; what is inside a section may still be malformed, and
    order and number of the sections are not judged.

    Args:
        data: the encoded message; anything but bytes is copied once.
        limits: what decoding a section on demand may cost.

    Raises:
        DecodeError: the octets are not a sequence of encoded values.
    """
    limits = limits or DEFAULT_LIMITS
    octets = _wire.octets_of(data, limits)
    reader = _wire.Reader(octets, 0, limits)
    try:
        return Scan(octets, reader.scan(CODES), limits)
    except _wire.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None
