"""Sections found without decoding them: `scan`, for forwarders and for a look at one section."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import attrs

from amqp10msg.sections import (
    BARE_CODES,
    KIND_OF,
    KINDS,
    SPEC_OF,
    SPECS,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
    SectionKind,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.limits import UNLIMITED, Limits

__all__ = ["FIELD_NAMES", "Part", "Scan", "octets_of_sections", "scan"]

#: Section and field names by descriptor, for the path in an error.
FIELD_NAMES: dict[int | str, tuple[str, tuple[str, ...]]] = {
    key: (spec.name, spec.names) for spec in SPECS for key in (spec.code, spec.symbol)
}
_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_ATTRIBUTE = {kind.attribute: kind for kind in KINDS if kind.attribute != "body"}


@attrs.frozen
class Part:
    """One section of an encoded message, not decoded.

    Attributes:
        kind: its row in the table of sections, or None where it is not a section of Part 3.
        offset: where it begins (its descriptor), in octets.
        content: where its value begins, after the descriptor.
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
        """Bytes from the descriptor to the end."""
        return self.end - self.offset


class Scan(kernel.Scanned):
    """The sections of one encoded message: where they are, and what can be done without decoding.

    Made by `scan`. Iterating gives the parts in the order of the wire.

    Attributes:
        data: the encoded message.
        limits: what decoding a section on demand may cost.
    """

    __slots__ = ()

    @property
    def _parts(self) -> list[tuple[int, int, int, int]]:
        # Found anew when asked for: that is fast, and the forwarder's way needs no list.
        parts: list[tuple[int, int, int, int]] = kernel.Reader(self.data, 0, self.limits).scan()
        return parts

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Part]:
        for code, start, content, end in self._parts:
            yield Part(KIND_OF[code] if code >= 0 else None, start, content, end)

    def __repr__(self) -> str:
        return f"Scan({', '.join(f'{p.name}[{p.offset}:{p.end}]' for p in self)})"

    @overload
    def section(self, name: Literal["header"]) -> Header | None: ...

    @overload
    def section(
        self, name: Literal["delivery-annotations", "delivery_annotations"]
    ) -> DeliveryAnnotations | None: ...

    @overload
    def section(
        self, name: Literal["message-annotations", "message_annotations"]
    ) -> MessageAnnotations | None: ...

    @overload
    def section(self, name: Literal["properties"]) -> Properties | None: ...

    @overload
    def section(
        self, name: Literal["application-properties", "application_properties"]
    ) -> ApplicationProperties | None: ...

    @overload
    def section(self, name: Literal["data"]) -> Data | None: ...

    @overload
    def section(self, name: Literal["amqp-sequence"]) -> AmqpSequence | None: ...

    @overload
    def section(self, name: Literal["amqp-value"]) -> AmqpValue | None: ...

    @overload
    def section(self, name: Literal["footer"]) -> Footer | None: ...

    def section(self, name: str) -> Any:
        """Decode the first section of this name; None where the message has none.

        Args:
            name: the specification's name or the attribute of Message, such as
                ``message-annotations`` or ``message_annotations``.

        Raises:
            DecodeError: the section's bytes are malformed or of the wrong types.
            ValueError: no section is called so.
        """
        kind = _BY_NAME.get(name) or _BY_ATTRIBUTE.get(name)
        if kind is None:
            raise ValueError(f"no section is called {name!r}: use one of {', '.join(_BY_NAME)}")
        for code, _, content, end in self._parts:
            if code == kind.code:
                return read_section(self.data, kind, content, end, self.limits)
        return None

    if TYPE_CHECKING:

        def replace(  # noqa: D102  (the kernel's function has the docstring)
            self,
            *,
            header: Header | Literal[False] | None = False,
            delivery_annotations: Mapping[Any, Any] | Literal[False] | None = False,
            message_annotations: Mapping[Any, Any] | Literal[False] | None = False,
            footer: Mapping[Any, Any] | Literal[False] | None = False,
        ) -> bytes: ...

    @property
    def bare(self) -> bytes:
        """The bytes of the bare message, properties to body, exactly as they came."""
        start, end = self._bare_range()
        return bytes(self.data[start:end])

    def _bare_range(self) -> tuple[int, int]:
        start = end = -1
        for code, offset, _, stop in self._parts:
            if code in BARE_CODES:
                if start < 0:
                    start = offset
                end = stop
        return (start, end) if start >= 0 else (0, 0)


def read_section(data: bytes, kind: SectionKind, content: int, end: int, limits: Limits) -> Any:
    """Decode the value of one section that stands at data[content:end]."""
    reader = kernel.Reader(data, content, limits)
    reader.end = end
    try:
        return reader.section(SPEC_OF[kind.code])
    except kernel.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None


def octets_of_sections(data: bytes, codes: Container[int], lenient: bool = False) -> bytes:
    """Return the bytes from the first section with one of these codes to the last, as they stand.

    Args:
        data: an encoded message that was decoded without error.
        codes: numeric descriptors, such as `BODY_CODES`.
        lenient: it was decoded so.
    """
    reader = kernel.Reader(data, 0, UNLIMITED)
    reader.lenient = lenient
    parts = [part for part in reader.scan() if part[0] in codes]
    if not parts:
        return b""
    (_, start, _, _), (_, _, _, end) = parts[0], parts[-1]
    return data[start:end]


kernel.register_scan(Scan)

if TYPE_CHECKING:

    def scan(  # noqa: D103  (the kernel's function has the docstring)
        data: bytes | bytearray | memoryview, *, limits: Limits | None = None
    ) -> Scan: ...

else:
    # The kernel's own function, since one around it would cost every message a call.
    scan = kernel.scan
