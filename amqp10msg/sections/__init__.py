"""The sections of a message (Part 3, 3.2), one class each, and their table."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg import _core
from amqp10msg.composite import composite_of
from amqp10msg.sections.body import AmqpSequence, AmqpValue, Data
from amqp10msg.sections.header import Header
from amqp10msg.sections.mappings import (
    ApplicationProperties,
    DeliveryAnnotations,
    Footer,
    MessageAnnotations,
)
from amqp10msg.sections.properties import Properties

__all__ = [
    "BODY_KINDS",
    "CODES",
    "KINDS",
    "SPECS",
    "AmqpSequence",
    "AmqpValue",
    "ApplicationProperties",
    "Data",
    "DeliveryAnnotations",
    "Footer",
    "Header",
    "MessageAnnotations",
    "Properties",
    "SectionKind",
]


@attrs.frozen
class SectionKind:
    """One kind of section: a row of the table that the rest of the library reads.

    Attributes:
        code: the numeric descriptor, 0x70 to 0x78.
        symbol: the symbolic descriptor.
        name: the specification's name, such as ``message-annotations``.
        attribute: the attribute of Message that holds it; ``body`` for the three body kinds.
        cls: its class.
        source: the AMQP type of its value: ``list``, ``map``, ``binary`` or ``*``.
        clause: where the specification defines it.
        order: its place in a message, 0 to 6; the body kinds share one.
        bare: it is part of the bare message.
        repeatable: a message may have several.
    """

    code: int
    symbol: str
    name: str
    attribute: str
    cls: type
    source: str
    clause: str
    order: int
    bare: bool = False
    repeatable: bool = False


# Name, attribute of Message, class, source, and what follows these in SectionKind.
_ROWS: tuple[tuple[str, str, type, str, tuple[Any, ...]], ...] = (
    ("header", "header", Header, "list", ("Part 3, 3.2.1", 0)),
    (
        *("delivery-annotations", "delivery_annotations", DeliveryAnnotations, "map"),
        ("Part 3, 3.2.2", 1),
    ),
    (
        *("message-annotations", "message_annotations", MessageAnnotations, "map"),
        ("Part 3, 3.2.3", 2),
    ),
    ("properties", "properties", Properties, "list", ("Part 3, 3.2.4", 3, True)),
    (
        *("application-properties", "application_properties", ApplicationProperties, "map"),
        ("Part 3, 3.2.5", 4, True),
    ),
    ("data", "body", Data, "binary", ("Part 3, 3.2.6", 5, True, True)),
    ("amqp-sequence", "body", AmqpSequence, "list", ("Part 3, 3.2.7", 5, True, True)),
    ("amqp-value", "body", AmqpValue, "*", ("Part 3, 3.2.8", 5, True)),
    ("footer", "footer", Footer, "map", ("Part 3, 3.2.9", 6)),
)
#: The kinds, in the order of their codes, which is the order in a message.
KINDS: tuple[SectionKind, ...] = tuple(
    SectionKind(0x70 + i, f"amqp:{name}:{source}", name, attribute, cls, source, *more)
    for i, (name, attribute, cls, source, more) in enumerate(_ROWS)
)
BODY_KINDS = KINDS[5:8]
#: Codes of the kinds by descriptor, numeric and symbolic, as the kernel wants them.
CODES: dict[int | str, int] = {key: kind.code for kind in KINDS for key in (kind.code, kind.symbol)}

_SHAPES = {
    "delivery-annotations": _core.SHAPE_ANNOTATIONS,
    "message-annotations": _core.SHAPE_ANNOTATIONS,
    "application-properties": _core.SHAPE_PROPERTIES,
    "data": _core.SHAPE_BINARY,
    "amqp-sequence": _core.SHAPE_SEQUENCE,
    "amqp-value": _core.SHAPE_VALUE,
    "footer": _core.SHAPE_ANNOTATIONS,
}
_CONTENT: dict[type, str] = {Data: "data", AmqpSequence: "values", AmqpValue: "value"}


def _spec_of(kind: SectionKind) -> _core.Spec:
    if kind.source == "list" and kind.name not in _SHAPES:
        known: _core.Spec = composite_of(kind.cls).spec
        _core.register_section(kind.cls, known)
        return known
    spec = _core.Spec(
        *(kind.name, kind.code, kind.symbol, _SHAPES[kind.name], kind.cls),
        _CONTENT.get(kind.cls, ""),
    )
    _core.register_section(kind.cls, spec)
    return spec


#: The kernel's row tables, in the order of the codes.
SPECS: tuple[_core.Spec, ...] = tuple(_spec_of(kind) for kind in KINDS)
