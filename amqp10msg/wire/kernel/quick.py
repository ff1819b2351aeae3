"""Sections in, the quick way, in Python: `quick.pyx` says the same in C.

The quick readers take the encodings that nearly every message is made of. What they return is what
`Reader` returns; where anything is out of the ordinary they return None and leave the cursor where
it was, so that `Reader` reads instead and says what is wrong.

They are written twice, as the twin is: one source for both builds took 21 % longer than this to
decode a message where it was compiled, and 27 % longer where it was not. Here they look only at the
end whether a section came out even: what they read before is bounded by the input.
"""

from __future__ import annotations

import struct
from typing import Any

from amqp10msg.wire.kernel.codes import OF_OCTET
from amqp10msg.wire.kernel.twin import SYMBOLS
from amqp10msg.wire.kernel.value_reader import ValueReader
from amqp10msg.wire.primitives import Int, Timestamp, UInt

_unpack_u32 = struct.Struct(">I").unpack_from
_unpack_i32 = struct.Struct(">i").unpack_from
_unpack_i64 = struct.Struct(">q").unpack_from
_unpack_f64 = struct.Struct(">d").unpack_from
# Bytes outside the input, and bytes that are not text.
_FAULTS = (IndexError, struct.error, UnicodeDecodeError)


HEADER_CODE = 0x70


class Headers:
    """Headers that were read before, by their bytes: few say more than a durability and a ttl.

    A full table starts anew, so a peer that invents headers makes this useless for itself and no
    larger than 4,096 entries of some 500 bytes, 2 MB.
    """

    most = 4096
    longest = 64

    def __init__(self) -> None:
        self.known: dict[bytes, list[Any]] = {}

    def keep(self, octets: bytes, values: list[Any]) -> None:
        """Remember the fields that an encoding stands for, if it is a short one."""
        if len(octets) <= self.longest:
            if len(self.known) >= self.most:
                self.known.clear()
            self.known[octets] = values


_HEADERS = Headers()


class QuickReader(ValueReader):
    """A cursor that reads usual sections fast."""

    def quick_fields(self, spec: Any) -> Any:
        """Read the list of a composite into its class, or return None."""
        start = pos = self.pos
        buf = self.buf
        values = spec.blank[:]
        try:
            code = buf[pos]
            if code == 0xC0:
                stop = pos + 2 + buf[pos + 1]
                count = buf[pos + 2]
                pos += 3
            elif code == 0xD0:
                stop = pos + 5 + _unpack_u32(buf, pos + 1)[0]
                count = _unpack_u32(buf, pos + 5)[0]
                pos += 9
            else:
                return None
            if stop > self.end or count > len(values) or count > self.items or self.depth < 1:
                return None
            is_header = spec.code == HEADER_CODE
            if is_header:
                known = _HEADERS.known.get(buf[start:stop])
                if known is not None:
                    self.items -= count
                    self.pos = stop
                    return spec.layout.build(known)
            usual = spec.usual
            for i in range(count):
                code = buf[pos]
                if not usual[i << 8 | code]:
                    return None
                if code == 0x40:
                    pos += 1
                elif code == 0xA1:
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    values[i] = buf[at:pos].decode("utf-8")
                elif code == 0xA3:
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    values[i] = buf[at:pos].decode("ascii")
                elif code == 0x41:
                    values[i] = True
                    pos += 1
                elif code == 0x42:
                    values[i] = False
                    pos += 1
                elif 0x50 <= code <= 0x53:
                    values[i] = buf[pos + 1]
                    pos += 2
                elif code == 0x83:
                    values[i] = _unpack_i64(buf, pos + 1)[0]
                    pos += 9
                elif code == 0x70:
                    values[i] = _unpack_u32(buf, pos + 1)[0]
                    pos += 5
                elif code == 0xA0:
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    values[i] = buf[at:pos]
                else:  # uint0, ulong0
                    values[i] = 0
                    pos += 1
        except _FAULTS:
            return None
        if pos != stop:
            return None
        if is_header:
            _HEADERS.keep(buf[start:stop], values)
        self.items -= count
        self.pos = pos
        return spec.layout.build(values)

    def quick_mapping(self, cls: Any, key_code: int) -> Any:
        """Read the map of a section into its class, or return None.

        Args:
            cls: the section's class, a dict.
            key_code: the constructor of its usual keys, sym8 or str8.
        """
        pos = self.pos
        buf = self.buf
        try:
            code = buf[pos]
            if code == 0xC1:
                stop = pos + 2 + buf[pos + 1]
                count = buf[pos + 2]
                pos += 3
            elif code == 0xD1:
                stop = pos + 5 + _unpack_u32(buf, pos + 1)[0]
                count = _unpack_u32(buf, pos + 5)[0]
                pos += 9
            else:
                return None
            # Every value takes a byte at least, so this bounds the count before anything is read.
            if stop > self.end or count > stop - pos or count > self.items or self.depth < 1:
                return None
            made = cls.__new__(cls)
            known = SYMBOLS.known
            for _ in range(count >> 1):
                if buf[pos] != key_code:
                    return None
                at = pos + 2
                pos = at + buf[pos + 1]
                if key_code == 0xA1:
                    key = buf[at:pos].decode("utf-8")
                else:
                    key = known.get(buf[at:pos]) or self.symbol(at, pos)
                code = buf[pos]
                if code == 0xA1:
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    made[key] = buf[at:pos].decode("utf-8")
                elif code == 0x81:
                    made[key] = _unpack_i64(buf, pos + 1)[0]
                    pos += 9
                elif code == 0x55:
                    small = buf[pos + 1]
                    made[key] = small - 256 if small > 127 else small
                    pos += 2
                elif code == 0x41:
                    made[key] = True
                    pos += 1
                elif code == 0x42:
                    made[key] = False
                    pos += 1
                elif code == 0x71:
                    made[key] = Int.__new__(Int, _unpack_i32(buf, pos + 1)[0])
                    pos += 5
                elif code == 0x83:
                    made[key] = Timestamp.__new__(Timestamp, _unpack_i64(buf, pos + 1)[0])
                    pos += 9
                elif code == 0x82:
                    made[key] = _unpack_f64(buf, pos + 1)[0]
                    pos += 9
                elif code == 0xA3:
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    made[key] = self.symbol(at, pos)
                elif code == 0x40:
                    made[key] = None
                    pos += 1
                elif 0x50 <= code <= 0x54:
                    made[key] = OF_OCTET[code - 0x50][buf[pos + 1]]
                    pos += 2
                elif code == 0x70:
                    made[key] = UInt.__new__(UInt, _unpack_u32(buf, pos + 1)[0])
                    pos += 5
                elif code == 0xA0:
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    made[key] = buf[at:pos]
                else:
                    return None
        except _FAULTS:
            return None
        # A count that is odd or a key that stands twice leaves the dict smaller.
        if pos != stop or len(made) << 1 != count:
            return None
        self.items -= count
        self.pos = pos
        return made

    def quick_data(self, layout: Any) -> Any:
        """Read a binary into the class of a data section, or return None."""
        pos = self.pos
        buf = self.buf
        if self.end - pos < 5:
            return None
        if buf[pos] == 0xA0:
            at = pos + 2
            pos = at + buf[pos + 1]
        elif buf[pos] == 0xB0:
            at = pos + 5
            pos = at + _unpack_u32(buf, pos + 1)[0]
        else:
            return None
        if pos > self.end:
            return None
        self.pos = pos
        return layout.build([buf[at:pos]])
