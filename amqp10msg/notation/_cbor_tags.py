"""The tags of CBOR for types that it has not: `amqp10msg.notation.cbor` has their table."""

from __future__ import annotations

#: That of ubyte; those of the other integers follow.
FIRST = 41216  # 0xA100
UUID = 37
FLOAT, DOUBLE, DECIMAL, CHAR, SYMBOL, MAP, ARRAY, DESCRIBED, MESSAGE = range(FIRST + 8, FIRST + 17)
