"""Classes of the simple types of Part 1: integers, float, decimals, char and symbol."""

from __future__ import annotations

import datetime as _datetime
import decimal as _decimal
import math
import struct
from typing import TYPE_CHECKING, Any, ClassVar, Self

from amqp10msg.wire.errors import wrong_type
from amqp10msg.wire.primitives._bounded import Bounded


class _Integer(int, Bounded):
    """Base class of the integer types. The constructor checks the range."""

    __slots__ = ()
    min: ClassVar[int]
    max: ClassVar[int]

    if TYPE_CHECKING:
        # Otherwise type checkers would use the constructor of int instead of that of Bounded.
        def __init__(self, value: Any = 0, /) -> None: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    def __str__(self) -> str:
        return int.__repr__(self)


class UByte(_Integer):
    """An AMQP ubyte, 0 to 255."""

    __slots__ = ()
    min, max = 0, 2**8 - 1


class UShort(_Integer):
    """An AMQP ushort, 0 to 65,535."""

    __slots__ = ()
    min, max = 0, 2**16 - 1


class UInt(_Integer):
    """An AMQP uint, 0 to 2^32 - 1."""

    __slots__ = ()
    min, max = 0, 2**32 - 1


class ULong(_Integer):
    """An AMQP ulong, 0 to 2^64 - 1."""

    __slots__ = ()
    min, max = 0, 2**64 - 1


class Byte(_Integer):
    """An AMQP byte, -128 to 127."""

    __slots__ = ()
    min, max = -(2**7), 2**7 - 1


class Short(_Integer):
    """An AMQP short, -32,768 to 32,767."""

    __slots__ = ()
    min, max = -(2**15), 2**15 - 1


class Int(_Integer):
    """An AMQP int, -2^31 to 2^31 - 1. A plain Python int is an AMQP long."""

    __slots__ = ()
    min, max = -(2**31), 2**31 - 1


_UNIX_EPOCH = _datetime.datetime(1970, 1, 1, tzinfo=_datetime.UTC)
_ONE_MILLISECOND = _datetime.timedelta(milliseconds=1)


# Number of .NET ticks (100 ns) in a millisecond, and from the start of the year 1 to the start of
# 1970.
_TICKS_PER_MILLISECOND = 10_000
_TICKS_AT_UNIX_EPOCH = 621_355_968_000_000_000


class Timestamp(_Integer):
    """An AMQP timestamp: milliseconds since the Unix epoch, -2^63 to 2^63 - 1."""

    __slots__ = ()
    min, max = -(2**63), 2**63 - 1

    @classmethod
    def from_datetime(cls, moment: _datetime.datetime) -> Self:
        """Convert an aware datetime. Fractions of a millisecond are rounded down.

        Raises:
            ValueError: the datetime has no time zone.
            TypeError: `moment` is not a datetime.
        """
        if not isinstance(moment, _datetime.datetime):
            raise TypeError(f"moment must be a datetime, not {type(moment).__name__}")
        if moment.tzinfo is None:
            raise ValueError("a datetime needs a time zone, such as datetime.UTC")
        return cls((moment - _UNIX_EPOCH) // _ONE_MILLISECOND)

    @classmethod
    def from_ticks(cls, ticks: int) -> Self:
        """Convert .NET ticks: units of 100 ns since the start of the year 1 in UTC.

        Azure sends such times as ``com.microsoft:datetime-offset``.

        Args:
            ticks: the number of ticks. Fractions of a millisecond are rounded down.
        """
        return cls((ticks - _TICKS_AT_UNIX_EPOCH) // _TICKS_PER_MILLISECOND)

    def to_datetime(self) -> _datetime.datetime:
        """Return the time as an aware datetime in UTC.

        Raises:
            ValueError: the time is outside the years 1 to 9999, the range of datetime.
        """
        try:
            return _UNIX_EPOCH + _datetime.timedelta(milliseconds=int(self))
        except OverflowError:
            raise ValueError(
                f"{int(self)} ms is outside the years 1 to 9999, the range of datetime: "
                "use the number of milliseconds"
            ) from None


_FLOAT32_STRUCT = struct.Struct(">f")
_UINT32_STRUCT = struct.Struct(">I")


class Float(float):
    """An AMQP float (32-bit); a plain Python float is an AMQP double (64-bit).

    The constructor rounds its argument to the nearest 32-bit value. `from_bits` keeps the payload
    of a NaN.

    Raises:
        OverflowError: the number is too large for 32 bits.
    """

    __slots__ = ("_bits",)
    _bits: int

    def __new__(cls, value: Any = 0.0) -> Self:
        """Round a number to 32 bits; raise OverflowError if it is too large."""
        if isinstance(value, Float):
            return cls.from_bits(value.bits)
        number = float(value)
        if math.isnan(number):
            return float.__new__(cls, number)
        return float.__new__(cls, _FLOAT32_STRUCT.unpack(_FLOAT32_STRUCT.pack(number))[0])

    @classmethod
    def from_bits(cls, bits: int) -> Self:
        """Return the float with these bits in IEEE 754 binary32.

        Args:
            bits: the 32 bits as a number, 0 to 2^32 - 1.

        Raises:
            ValueError: `bits` is out of range.
            TypeError: `bits` is not an int.
        """
        if not isinstance(bits, int):
            raise TypeError(f"bits must be an int, not {type(bits).__name__}")
        if not 0 <= bits < 2**32:
            raise ValueError(f"bits must be 0 to 2^32 - 1, got {bits}")
        self = float.__new__(cls, _FLOAT32_STRUCT.unpack(_UINT32_STRUCT.pack(bits))[0])
        if math.isnan(self):
            # The conversion to a 64-bit float turns a signalling NaN into a quiet NaN.
            self._bits = bits
        return self

    @property
    def bits(self) -> int:
        """The bits in IEEE 754 binary32, as a number from 0 to 2^32 - 1."""
        if not math.isnan(self):
            return int(_UINT32_STRUCT.unpack(_FLOAT32_STRUCT.pack(self))[0])
        try:
            return self._bits
        except AttributeError:
            return int(_UINT32_STRUCT.unpack(_FLOAT32_STRUCT.pack(self))[0])

    def __repr__(self) -> str:
        return f"Float({float.__repr__(self)})"

    def __str__(self) -> str:
        return float.__repr__(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self).from_bits, (self.bits,))


class _Decimal:
    """An IEEE 754-2008 decimal with a binary integer significand; it equals one with equal bits."""

    __slots__ = ("bits",)
    bits: int
    width: ClassVar[int]  # bytes
    precision: ClassVar[int]  # digits
    bias: ClassVar[int]
    _coefficient_bits: ClassVar[int]  # width in the encoding that does not imply the bits 100

    def __init__(self, bits: int) -> None:
        if not isinstance(bits, int):
            raise TypeError(
                f"{type(self).__name__} takes its bits as an int; "
                f"for a number use {type(self).__name__}.from_decimal()"
            )
        if not 0 <= bits < 1 << (8 * self.width):
            raise ValueError(f"{type(self).__name__} holds {8 * self.width} bits, not {bits:#x}")
        self.bits = bits

    @classmethod
    def from_decimal(cls, number: _decimal.Decimal | int | str) -> Self:
        """Convert a number exactly. Its exponent is kept if the format has this exponent.

        Raises:
            ValueError: the number needs more digits or another exponent than the format has, or
                `number` is a str that is not a number.
            TypeError: `number` has another type.
        """
        if isinstance(number, str):
            try:
                number = _decimal.Decimal(number)
            except _decimal.InvalidOperation:
                raise ValueError(f"{number!r:.80} is not a decimal number") from None
        elif isinstance(number, int):
            number = _decimal.Decimal(number)
        elif not isinstance(number, _decimal.Decimal):
            raise TypeError(f"number must be a Decimal, int or str, not {type(number).__name__}")
        sign, digits, power = number.as_tuple()
        top = 8 * cls.width - 1
        bits = sign << top
        if power == "F":
            return cls(bits | 0b11110 << (top - 5))
        coefficient = int("".join(map(str, digits)) or "0")
        if isinstance(power, str):
            if coefficient >= 10 ** (cls.precision - 1):
                raise ValueError(f"{number} has a payload too long for {cls.__name__}")
            return cls(bits | (0b111111 if power == "N" else 0b111110) << (top - 6) | coefficient)
        exponent = power
        limit = 10**cls.precision
        e_min = -cls.bias
        e_max = (3 << (top - 2 - cls._coefficient_bits)) - 1 - cls.bias
        while exponent > e_max and coefficient and coefficient * 10 < limit:
            coefficient, exponent = coefficient * 10, exponent - 1
        while (exponent < e_min or coefficient >= limit) and coefficient and coefficient % 10 == 0:
            coefficient, exponent = coefficient // 10, exponent + 1
        if coefficient == 0:
            exponent = min(max(exponent, e_min), e_max)
        if coefficient >= limit or not e_min <= exponent <= e_max:
            raise ValueError(f"{number} does not fit {cls.__name__} exactly")
        biased = exponent + cls.bias
        if coefficient >> cls._coefficient_bits:
            short = cls._coefficient_bits - 2
            return cls(bits | 0b11 << (top - 2) | biased << short | coefficient & (1 << short) - 1)
        return cls(bits | biased << cls._coefficient_bits | coefficient)

    def to_decimal(self) -> _decimal.Decimal:
        """Return the number with its exponent. A non-canonical coefficient counts as zero."""
        top = 8 * self.width - 1
        bits = self.bits
        sign = bits >> top
        if bits >> (top - 4) & 0b1111 == 0b1111:
            if not bits >> (top - 5) & 1:
                return _decimal.Decimal("-Infinity" if sign else "Infinity")
            payload = bits & (1 << (self._coefficient_bits - 3)) - 1
            if payload >= 10 ** (self.precision - 1):
                payload = 0
            kind = "sNaN" if bits >> (top - 6) & 1 else "NaN"
            return _decimal.Decimal(f"{'-' * sign}{kind}{payload or ''}")
        if bits >> (top - 2) & 0b11 == 0b11:
            short = self._coefficient_bits - 2
            biased = bits >> short & (1 << (top - self._coefficient_bits)) - 1
            coefficient = 0b100 << short | bits & (1 << short) - 1
        else:
            biased = bits >> self._coefficient_bits & (1 << (top - self._coefficient_bits)) - 1
            coefficient = bits & (1 << self._coefficient_bits) - 1
        if coefficient >= 10**self.precision:
            coefficient = 0
        return _decimal.Decimal((sign, tuple(map(int, str(coefficient))), biased - self.bias))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.bits == other.bits

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.bits.to_bytes(self.width, "big")))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bits:#0{2 * self.width + 2}x})"

    def __str__(self) -> str:
        return str(self.to_decimal())

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.bits,))


class Decimal32(_Decimal):
    """An AMQP decimal32: 7 digits, exponents -101 to 90; `bits` holds its 32 bits."""

    __slots__ = ()
    width, precision, bias, _coefficient_bits = 4, 7, 101, 23


class Decimal64(_Decimal):
    """An AMQP decimal64: 16 digits, exponents -398 to 369; `bits` holds its 64 bits."""

    __slots__ = ()
    width, precision, bias, _coefficient_bits = 8, 16, 398, 53


class Decimal128(_Decimal):
    """An AMQP decimal128: 34 digits, exponents -6176 to 6111; `bits` holds its 128 bits."""

    __slots__ = ()
    width, precision, bias, _coefficient_bits = 16, 34, 6176, 113


class Char(str):
    """An AMQP char: one Unicode code point that is not a surrogate."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        """Raise ValueError unless `value` has exactly one code point, which is not a surrogate."""
        if not isinstance(value, str):
            raise wrong_type("Char", "a str", value)
        self = str.__new__(cls, value)
        if len(self) != 1 or "\ud800" <= self <= "\udfff":
            raise ValueError(f"a char must be one Unicode scalar value, not {value!r}")
        return self

    def __repr__(self) -> str:
        return f"Char({str.__repr__(self)})"


class Symbol(str):
    """An AMQP symbol: an ASCII name from a constrained domain. It equals a str with this text."""

    __slots__ = ()

    def __new__(cls, value: str = "") -> Self:
        """Raise ValueError unless `value` is ASCII."""
        if not isinstance(value, str):
            raise wrong_type("Symbol", "a str", value)
        self = str.__new__(cls, value)
        if not self.isascii():
            raise ValueError(f"a symbol must be ASCII, not {value!r}")
        return self

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"


#: The classes of the integer types and of timestamp, by AMQP name. A long is a plain int.
INTEGERS: dict[str, Any] = {
    cls.__name__.lower(): cls for cls in (UByte, UShort, UInt, ULong, Byte, Short, Int, Timestamp)
}
#: The classes of the decimal types, by AMQP name.
DECIMALS: dict[str, Any] = {cls.__name__.lower(): cls for cls in (Decimal32, Decimal64, Decimal128)}
