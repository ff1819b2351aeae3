"""How sections and composites are read and written: the row tables, and who registered them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp10msg.wire.kernel.codes import (
    DATA,
    FIRST_CODE,
    FOLLOWERS,
    FOOTER,
    PLACE_BODY,
    PLACES,
    SECTION_COUNT,
    USUAL,
)
from amqp10msg.wire.kernel.twin import Layout


class Spec:
    """How a section or composite is read and written: the row table of its declaration.

    `layout` reads and sets the fields of its class, or the one value of a body section, which
    `attribute` names. The map sections are dicts and need neither.
    """

    def __init__(
        self,
        name: str,
        code: int,
        symbol: str,
        shape: int,
        cls: Any,
        attribute: str = "",
        names: tuple[str, ...] = (),
        kinds: Any = b"",
        defaults: tuple[Any, ...] = (),
        mandatory: tuple[int, ...] = (),
        multiple: Any = b"",
    ) -> None:
        self.name = name
        self.code = code
        self.symbol = symbol
        self.shape = shape
        self.cls = cls
        self.attribute = attribute
        self.names = names
        self.layout = Layout(
            cls, [attribute] if attribute else [name.replace("-", "_") for name in names]
        )
        self.kinds = kinds
        self.defaults = defaults
        self.mandatory = mandatory
        self.multiple = multiple
        self.blank = [*defaults]
        # Of a section: its place in a message, and the sections that may follow it.
        index = code - FIRST_CODE
        is_section = 0 <= index < SECTION_COUNT
        self.place = PLACES[index] if is_section else 0
        self.is_body = self.place == PLACE_BODY
        self.followers = FOLLOWERS[index + 1] if is_section else b""
        self.usual = b"".join(USUAL[kind] for kind in kinds)
        self.head = b"\x00\x53" + bytes([code]) if code < 256 else b"\x00\x80" + code.to_bytes(8)


# Filled by the declarations, which stand to the right of the kernel.
#: Specs by class.
SPECS: dict[type, Spec] = {}
#: The nine kinds of section, in the order of their codes; those of bodies also on their own.
SECTIONS: list[Any] = []
BODIES: list[Any] = []
#: The codes of sections by descriptor: its number, or its symbol as bytes.
CODES: dict[Any, int] = {}
#: Names of sections and their fields by descriptor, for the paths in errors.
NAMES: dict[Any, Any] = {}
#: The layout of Message, and what reads one that may break the rules.
MESSAGE: list[Any] = []
#: The class that `scan` returns.
SCAN: list[Any] = []


def register(cls: type, spec: Spec) -> None:
    """Make `encode_value` write instances of this class as this spec says."""
    SPECS[cls] = spec


def register_section(cls: type, spec: Spec) -> None:
    """Make readers and writers of messages know a kind of section; the kinds come in order."""
    SPECS[cls] = spec
    SECTIONS.append(spec)
    BODIES[:] = SECTIONS[DATA:FOOTER]
    CODES[spec.code] = CODES[spec.symbol.encode()] = spec.code
    NAMES[spec.code] = NAMES[spec.symbol] = (spec.name, spec.names)


def register_message(cls: type, lenient: Callable[..., Any]) -> None:
    """Make `decode_message` know how messages are made.

    Args:
        cls: the class of messages, whose attributes are in the order of `Reader.message`.
        lenient: reads a message that may break the rules.
    """
    # What attrs.fields returns: the kernel does without an import of attrs.
    names = [field.name for field in cls.__attrs_attrs__]  # type: ignore[attr-defined]
    MESSAGE[:] = Layout(cls, names), lenient


def register_scan(cls: type) -> None:
    """Make `scan` return instances of this class."""
    SCAN[:] = (cls,)
