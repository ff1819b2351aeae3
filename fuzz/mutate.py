"""Inputs made of the corpus by chance: needs nothing but Python, and takes any build."""

from __future__ import annotations

import random

from amqp10msg.wire.primitives import FORMAT_CODES

_OCTETS = (0x00, 0x01, 0x7F, 0x80, 0xFF)
_WORDS = (b"\0\0\0\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x01")
_CODES = (0x00, *FORMAT_CODES)


def mutate(seeds: list[bytes], draw: random.Random) -> bytes:
    """Change one of the seeds in one to four places."""
    octets = bytearray(draw.choice(seeds))
    for _ in range(draw.randint(1, 4)):
        if not octets:
            break
        at = draw.randrange(len(octets))
        way = draw.randrange(7)
        if way == 0:
            octets[at] = draw.choice(_OCTETS)
        elif way == 1:
            octets[at] = draw.choice(_CODES)
        elif way == 2:
            octets[at : at + 4] = draw.choice(_WORDS)
        elif way == 3:
            del octets[at : at + draw.randint(1, 8)]
        elif way == 4:
            other = draw.choice(seeds)
            begin = draw.randrange(len(other) + 1)
            octets[at:at] = other[begin : begin + draw.randint(1, 40)]
        elif way == 5:
            octets[at] = draw.getrandbits(8)
        else:
            del octets[at:]
    return bytes(octets)
