"""Declare composite types (Part 1, 1.4) as attrs classes, and encode and decode them.

    import attrs

    from amqp10msg.composite import composite, decode_composite, encode_composite
    from amqp10msg.wire.primitives import boolean, string

    @composite("com.example:order:list", 0x1234_0000_0001)
    @attrs.define
    class Order:
        number: string
        paid: boolean = False

    assert decode_composite(encode_composite(Order("o-1"))) == Order("o-1")

A field with a default is optional, and null means its default; a field without a default is
mandatory. A field's name on the wire is its Python name with dashes. The encoder, the decoder, the
validator, the JSON notations, the documentation and the column schemas all read the same
declaration, which `rows` returns.
"""

from amqp10msg.composite._codec import (
    decode_composite,
    encode_composite,
    from_described,
    offset_of_field,
    read_composite,
)
from amqp10msg.composite._declarations import (
    COMPOSITES,
    Composite,
    Error,
    Field,
    composite,
    composite_of,
    composite_with,
    find_composite,
    named_composite,
    rows,
)

__all__ = [
    "COMPOSITES",
    "Composite",
    "Error",
    "Field",
    "composite",
    "composite_of",
    "composite_with",
    "decode_composite",
    "encode_composite",
    "find_composite",
    "from_described",
    "named_composite",
    "offset_of_field",
    "read_composite",
    "rows",
]
