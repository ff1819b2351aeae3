"""Values read from JSON for people: the part of `from_plain` below messages."""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import math
import re
import uuid
from typing import Any

from amqp10msg.composite import Composite, Field, from_described, named_composite
from amqp10msg.notation._common import shown
from amqp10msg.notation._error import Reader
from amqp10msg.notation.type_names import DECIMALS, INTEGERS, TYPES, WIDTHS, integer_range, of_bits
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.primitives import (
    FORMAT_CODES,
    AmqpMap,
    Array,
    Char,
    Described,
    Float,
    Symbol,
    Timestamp,
    ULong,
)


def is_marker(plain: Any) -> bool:
    """Return whether this names its type: an object with a key that begins with ``$``."""
    if isinstance(plain, dict):
        for key in plain:
            if str(key)[:1] == "$":
                return True
    return False


class PlainReader(Reader):
    """Reads values from JSON for people, as `encode_value` takes them, every map as AmqpMap."""

    def generic(self, plain: Any) -> Any:
        """Read a value of any type."""
        kind = type(plain)
        if plain is None or kind is bool:
            return plain
        if kind in (int, float, str):
            return self.natural(TYPES[kind], plain)
        if kind is not list and kind is not dict:
            raise self.wrong("a value", plain)
        self.deeper()
        if kind is list:
            made: Any = self.items(plain)
        elif is_marker(plain):
            made = self.marker(plain)
        else:
            made = self.entries(plain, "string")
        self.depth -= 1
        return made

    def items(self, plain: Any, name: str | None = None) -> list[Any]:
        """Read a list, of values of this type or of any."""
        if not isinstance(plain, list):
            raise self.wrong("a list", plain)
        made = []
        self.path.append("")
        for index, item in enumerate(plain):
            self.path[-1] = index
            made.append(self.generic(item) if name is None else self.natural(name, item))
        self.path.pop()
        return made

    def entries(self, plain: Any, keys: str) -> AmqpMap:
        """Read an object whose keys are of this type."""
        pairs = []
        self.path.append("")
        for key, item in plain.items():
            self.path[-1] = (key,)
            pairs.append((self.natural(keys, key), self.generic(item)))
        self.path.pop()
        return AmqpMap(pairs)

    def marker(self, plain: dict[str, Any]) -> Any:
        """Read an object that names its type."""
        name = next(key for key in map(str, plain) if key[:1] == "$")
        if name == "$array":
            return self.array(plain)
        if len(plain) > 1:
            raise self.fault(f"{shown(name)} must be the only key: write such a map as $map")
        content = plain[name]
        self.path.append(f".{name}")
        made = self.marked(name[1:], content)
        self.path.pop()
        return made

    def marked(self, name: str, content: Any) -> Any:
        if name in ("base64", "hex"):
            return self.octets(name, content)
        if name == "list":
            return self.items(content)
        if name == "map":
            return self.pairs(content)
        if name == "described":
            if not isinstance(content, list) or len(content) != 2:
                raise self.wrong("a list of the descriptor and the value", content)
            return Described(*self.items(content))
        if name in _NAMES:
            return self.natural(name, content)
        entry = named_composite(name.replace("_", "-"))
        if entry is None:
            raise self.fault(
                f"there is no marker ${name}: use $ and the name of a type or composite, or "
                "write a map with such keys as $map"
            )
        return self.composite(entry, content)

    def pairs(self, content: Any) -> AmqpMap:
        if isinstance(content, dict):
            return self.entries(content, "string")
        if not isinstance(content, list):
            raise self.wrong("a list of [key, value] pairs", content)
        made = []
        self.path.append("")
        for index, pair in enumerate(content):
            self.path[-1] = index
            if not isinstance(pair, list) or len(pair) != 2:
                raise self.wrong("a [key, value] pair", pair)
            made.append(tuple(self.items(pair)))
        self.path.pop()
        return AmqpMap(made)

    def array(self, plain: dict[str, Any]) -> Array:
        strange = plain.keys() - {"$array", "values", "code", "descriptors"}
        if strange:
            raise self.fault(
                f"an array has no {shown(min(strange))}: it has values, code, descriptors"
            )
        name = plain["$array"]
        constructor = name
        if not isinstance(name, str) or name not in _ELEMENTS:
            raise self.wrong("the name of the elements' type", name)
        if "code" in plain:
            code = plain["code"]
            match = _HEX.fullmatch(code) if isinstance(code, str) else None
            row = FORMAT_CODES.get(int(match[1], 16)) if match else None
            if row is None or row.type != name:
                raise self.wrong(f"a format code of {name}, such as 0x71 of int,", code)
            constructor = row.code
        self.path.append(".descriptors")
        descriptors = self.items(plain.get("descriptors", []))
        self.path[-1] = ".values"
        values = self.items(plain.get("values", []), name)
        self.path.pop()
        made = Array(constructor, values, descriptors=descriptors)
        try:
            encode_value(made)
        except EncodeError as error:
            raise self.fault(error.reason) from None
        return made

    def composite(self, entry: Composite, content: Any) -> Described:
        made = Described(ULong(entry.code), self.fields(entry.fields, content))
        try:
            from_described(made)
        except (DecodeError, EncodeError) as error:
            raise self.fault(error.reason) from None
        return made

    def fields(self, rows: tuple[Field, ...], content: Any) -> list[Any]:
        """Read an object of a composite's fields to the list on the wire."""
        if not isinstance(content, dict) or is_marker(content):
            raise self.wrong("an object of fields", content)
        by_name = {row.name: index for index, row in enumerate(rows)}
        made: list[Any] = [None] * len(rows)
        self.path.append("")
        for key, item in content.items():
            self.path[-1] = f".{key}" if str(key).isidentifier() else f"[{shown(key)}]"
            index = by_name.get(str(key).replace("-", "_"))
            if index is None:
                raise self.fault(f"there is no such field: use one of {', '.join(by_name)}")
            made[index] = self.field(rows[index], item)
        self.path.pop()
        while made and made[-1] is None:
            made.pop()
        return made

    def field(self, row: Field, plain: Any) -> Any:
        if plain is None or is_marker(plain):
            return self.generic(plain)
        if row.multiple and isinstance(plain, list):
            return Array(row.type, self.items(plain, row.type))
        if row.requires == "message-id" and type(plain) is int:
            return self.natural("ulong", plain)
        if row.type == "*":
            return self.generic(plain)
        if row.type == "map" and isinstance(plain, dict):
            return self.entries(plain, "symbol")
        return self.natural(row.type, plain)

    def natural(self, name: str, plain: Any) -> Any:
        """Read a value that is known to be of this type."""
        if name in _WHOLE:
            return self.integer(name, plain)
        if name == "string" and type(plain) is str and plain.isascii():
            return plain
        if name == "timestamp":
            return self.timestamp(plain)
        if name in ("float", "double"):
            return self.real(name, plain)
        if name in DECIMALS:
            return self.decimal(name, plain)
        if name in ("list", "map", "array"):
            made = self.generic(plain)
            if TYPES[type(made)] != name:
                raise self.wrong(f"a {name}", plain)
            return made
        if name == "boolean":
            if not isinstance(plain, bool):
                raise self.wrong("true or false", plain)
            return plain
        if name == "null":
            if plain is not None:
                raise self.wrong("null", plain)
            return plain
        if name == "binary" and is_marker(plain):
            made = self.generic(plain)
            if type(made) is not bytes:
                raise self.wrong("text, $base64 or $hex", plain)
            return made
        if not isinstance(plain, str):
            raise self.wrong(
                "text, $base64 or $hex" if name == "binary" else f"text, for a {name}", plain
            )
        try:
            if name == "uuid":
                return uuid.UUID(plain)
            if name == "char":
                return Char(plain)
            if name == "symbol":
                return Symbol(plain)
            octets = plain.encode("utf-8")
        except ValueError as error:
            raise self.fault(f"{shown(plain)} is not a valid {name}: {error}") from None
        return octets if name == "binary" else plain

    def integer(self, name: str, plain: Any) -> Any:
        low, high, cls = integer_range(name)
        number = int(plain) if isinstance(plain, str) and _DIGITS.fullmatch(plain) else plain
        if type(number) is not int:
            raise self.wrong(f"an integer, for {name}", plain)
        if not low <= number <= high:
            raise self.wrong(f"{low} to {high}, for {name}", plain)
        return cls(number)

    def bits(self, name: str, plain: Any) -> Any:
        """Read a number that is written as its bits, ``0x`` and hex; None if it is not."""
        match = _HEX.fullmatch(plain) if isinstance(plain, str) else None
        if match is None:
            return None
        width = WIDTHS[name]
        if len(match[1]) != 2 * width:
            raise self.wrong(f"{2 * width} hex digits, for the bits of a {name}", plain)
        return of_bits(name, bytes.fromhex(match[1]))

    def real(self, name: str, plain: Any) -> Any:
        made = self.bits(name, plain)
        if made is not None:
            return made
        number = _NOT_FINITE.get(plain, plain) if isinstance(plain, str) else plain
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise self.wrong('a number, "NaN", "Infinity" or "-Infinity"', plain)
        try:
            if name == "float":
                return Float.from_bits(0x7FC00000) if math.isnan(number) else Float(number)
            return float(number)
        except OverflowError:
            raise self.fault(f"{shown(plain)} is too large for a {name}") from None

    def decimal(self, name: str, plain: Any) -> Any:
        made = self.bits(name, plain)
        if made is not None:
            return made
        if isinstance(plain, bool) or not isinstance(plain, (str, int)) or len(shown(plain)) > 60:
            raise self.wrong('a number in quotes, such as "1.50"', plain)
        try:
            return DECIMALS[name].from_decimal(decimal.Decimal(plain))
        except (ValueError, decimal.InvalidOperation):
            raise self.wrong(f'a number that a {name} holds, such as "1.50"', plain) from None

    def timestamp(self, plain: Any) -> Timestamp:
        if type(plain) is int:
            if not Timestamp.min <= plain <= Timestamp.max:
                raise self.wrong("milliseconds in 64 bits", plain)
            return Timestamp(plain)
        try:
            return Timestamp.from_datetime(datetime.datetime.fromisoformat(plain))
        except (TypeError, ValueError):
            raise self.wrong(
                "milliseconds, or a time with its zone such as 2024-02-29T12:00:00.000Z,", plain
            ) from None

    def octets(self, name: str, plain: Any) -> bytes:
        try:
            if isinstance(plain, str) and name == "hex":
                return bytes.fromhex(plain)
            if isinstance(plain, str):
                return base64.b64decode(plain, validate=True)
        except (ValueError, binascii.Error):
            pass
        raise self.wrong(f"{name} digits", plain)


_NAMES = frozenset(TYPES.values()) - {"list", "map", "array", "described"}
_ELEMENTS = _NAMES | {"list", "map", "array"}
_WHOLE = frozenset(("long", *INTEGERS)) - {"timestamp"}
_DIGITS = re.compile(r"-?[0-9]{1,20}")
_HEX = re.compile(r"0[xX]([0-9a-fA-F]+)")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
