"""What annotates the fields of composites: the type of each on the wire."""

from __future__ import annotations

from typing import Annotated, Any

import attrs


@attrs.frozen
class Wire:
    """What a composite's field is on the wire; stands in the metadata of an Annotated alias.

    Attributes:
        type: the AMQP type, or ``*`` for any.
        name: the name in the specification where it is a restricted type, such as milliseconds.
        multiple: null, one value or an array of values (Part 1, 1.4).
        requires: the archetype that the value must provide, such as address.
        enum: the choices of a restricted type.
        size: bytes that a restricted type has at most, or None for no bound of its own.
    """

    type: str
    name: str = ""
    multiple: bool = False
    requires: str = ""
    enum: Any = None
    size: int | None = None


boolean = Annotated[bool, Wire("boolean")]
ubyte = Annotated[int, Wire("ubyte")]
ushort = Annotated[int, Wire("ushort")]
uint = Annotated[int, Wire("uint")]
ulong = Annotated[int, Wire("ulong")]
milliseconds = Annotated[int, Wire("uint", "milliseconds")]
seconds = Annotated[int, Wire("uint", "seconds")]
sequence_no = Annotated[int, Wire("uint", "sequence-no")]
timestamp = Annotated[int, Wire("timestamp")]
string = Annotated[str, Wire("string")]
symbol = Annotated[str, Wire("symbol")]
symbols = Annotated[tuple[str, ...], Wire("symbol", multiple=True)]
binary = Annotated[bytes, Wire("binary")]
fields = Annotated[dict[str, Any], Wire("map", "fields")]
