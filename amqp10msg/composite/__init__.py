"""Composites by declaration: one attrs class is the row table that everything else reads.

    import attrs

    from amqp10msg.composite import composite, decode_composite, encode_composite
    from amqp10msg.wire.primitives import boolean, string

    @composite("com.example:order:list", 0x1234_0000_0001)
    @attrs.define
    class Order:
        number: string
        paid: boolean = False

    assert decode_composite(encode_composite(Order("o-1"))) == Order("o-1")

A field with a default is optional and null means the default; a field without one is mandatory. The
wire name is the Python name with dashes. Encoder, decoder, validator, JSON, documentation and
column schemas are drawn from `rows` of the class.
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
