"""The sections of a message (Part 3, 3.2): one class each, and a table of their properties."""

from __future__ import annotations

import attrs

from amqp10msg.composite import composite_of
from amqp10msg.sections._classes import (
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
    moment_of,
    to_milliseconds,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import FIRST_SECTION_CODE, IS_SECTION_REPEATABLE, PLACE_OF_SECTION

__all__ = [
    "BARE_CODES",
    "BODY_CODES",
    "BODY_KINDS",
    "CODE_BY_DESCRIPTOR",
    "KINDS",
    "KIND_BY_CODE",
    "SPECS",
    "SPEC_BY_CODE",
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
    "moment_of",
    "to_milliseconds",
]


@attrs.frozen
class SectionKind:
    """One kind of section, such as the header. `KINDS` contains a `SectionKind` for each of them.

    Attributes:
        code: the numeric descriptor, 0x70 to 0x78.
        symbol: the symbolic descriptor.
        name: the specification's name, such as ``message-annotations``.
        attribute: the attribute of Message that holds the section; ``body`` for the three body
            kinds.
        cls: the class of the section.
        source: the AMQP type of the section's value: ``list``, ``map``, ``binary`` or ``*``.
        clause: the clause of the specification that defines the section.
        order: the position of the section in a message, 0 to 6; the three body kinds have the same
            position.
        bare: whether the section is part of the bare message.
        repeatable: whether a message may have several sections of this kind.
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


# Name, attribute of Message, class, source, clause, bare (see `SectionKind`).
_SECTION_ROWS: tuple[tuple[str, str, type, str, str, bool], ...] = (
    ("header", "header", Header, "list", "3.2.1", False),
    ("delivery-annotations", "delivery_annotations", DeliveryAnnotations, "map", "3.2.2", False),
    ("message-annotations", "message_annotations", MessageAnnotations, "map", "3.2.3", False),
    ("properties", "properties", Properties, "list", "3.2.4", True),
    (
        "application-properties",
        "application_properties",
        ApplicationProperties,
        "map",
        "3.2.5",
        True,
    ),
    ("data", "body", Data, "binary", "3.2.6", True),
    ("amqp-sequence", "body", AmqpSequence, "list", "3.2.7", True),
    ("amqp-value", "body", AmqpValue, "*", "3.2.8", True),
    ("footer", "footer", Footer, "map", "3.2.9", False),
)
#: All kinds in the order of their numeric descriptors, which is also their order in a message.
KINDS: tuple[SectionKind, ...] = tuple(
    SectionKind(
        FIRST_SECTION_CODE + index,
        f"amqp:{name}:{source}",
        name,
        attribute,
        cls,
        source,
        f"Part 3, {clause}",
        order=PLACE_OF_SECTION[index],
        bare=bare,
        repeatable=bool(IS_SECTION_REPEATABLE[index]),
    )
    for index, (name, attribute, cls, source, clause, bare) in enumerate(_SECTION_ROWS)
)
#: The kinds by numeric descriptor.
KIND_BY_CODE: dict[int, SectionKind] = {kind.code: kind for kind in KINDS}
#: The kinds of body section.
BODY_KINDS = tuple(kind for kind in KINDS if kind.attribute == "body")
#: The numeric descriptors of the body sections.
BODY_CODES = frozenset(kind.code for kind in BODY_KINDS)
#: Numeric descriptors of the sections of the bare message.
BARE_CODES = frozenset(kind.code for kind in KINDS if kind.bare)
#: Maps the numeric and the symbolic descriptor of each section to its numeric descriptor. The
#: kernel reads this table.
CODE_BY_DESCRIPTOR: dict[int | str, int] = {
    key: kind.code for kind in KINDS for key in (kind.code, kind.symbol)
}

#: The kernel's number of the format of a section's value, by name of the section. The header and
#: the properties are composites instead.
_SHAPE_BY_SECTION = {
    "delivery-annotations": kernel.SHAPE_ANNOTATIONS,
    "message-annotations": kernel.SHAPE_ANNOTATIONS,
    "application-properties": kernel.SHAPE_PROPERTIES,
    "data": kernel.SHAPE_BINARY,
    "amqp-sequence": kernel.SHAPE_SEQUENCE,
    "amqp-value": kernel.SHAPE_VALUE,
    "footer": kernel.SHAPE_ANNOTATIONS,
}
#: The attribute that holds the content of a body section.
_CONTENT_ATTRIBUTES: dict[type, str] = {Data: "data", AmqpSequence: "values", AmqpValue: "value"}


def _spec_of(kind: SectionKind) -> kernel.Spec:
    """Create the kernel's description of a section, and register it with the section's class."""
    if kind.source == "list" and kind.name not in _SHAPE_BY_SECTION:
        registered: kernel.Spec = composite_of(kind.cls).spec
        kernel.register_section(kind.cls, registered)
        return registered
    spec = kernel.Spec(
        kind.name,
        kind.code,
        kind.symbol,
        _SHAPE_BY_SECTION[kind.name],
        kind.cls,
        _CONTENT_ATTRIBUTES.get(kind.cls, ""),
    )
    kernel.register_section(kind.cls, spec)
    return spec


#: The kernel's description of each section, in the order of the numeric descriptors.
SPECS: tuple[kernel.Spec, ...] = tuple(_spec_of(kind) for kind in KINDS)
#: `SPECS` by numeric descriptor.
SPEC_BY_CODE: dict[int, kernel.Spec] = {
    kind.code: spec for kind, spec in zip(KINDS, SPECS, strict=True)
}
