"""Parse hex and base64 as people and tools write them, and JSON with precise errors."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from functools import cache
from typing import Any

from amqp10msg.wire.text import refuse_constant

# Separators between hex digits: 0x, \x, colons, commas and so on.
_HEX_SEPARATORS = re.compile(r"\\x|(?<![0-9a-fA-F])0[xX]|[\s:,;_-]+")
# Minimum number of digits in a line of wrapped hex. Shorter groups of digits are bytes or words.
_MIN_DIGITS_PER_HEX_LINE = 8
_HEX_DIGITS = re.compile(r"[0-9a-fA-F]*")
_BASE64_PATTERN = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class OddDigitsError(ValueError):
    """A hex text, or a group of digits in it, has an odd number of digits."""


def octets_of_hex(text: str) -> bytes:
    r"""Parse hex digits with optional separators: spaces, colons, commas, 0x and \x.

    A group of digits has an even number of digits. With 0x before each byte, a byte may have a
    single digit: ``0x0, 0x53``. The text may be wrapped into lines of any length.

    Raises:
        ValueError: the text has other characters, an odd number of digits, or both single digits
            and longer groups.
    """
    try:
        return bytes.fromhex(text)  # fast path: no separators
    except ValueError:
        groups = [group for group in _HEX_SEPARATORS.split(text) if group]
    digits = "".join(groups)
    match = _HEX_DIGITS.match(digits)
    if match is None or match.end() < len(digits):
        raise ValueError(f"not hex: {digits[match.end() if match else 0]!r} is not a hex digit")
    odd = next((group for group in groups if len(group) % 2), None)
    if odd is None or (len(digits) % 2 == 0 and _is_wrapped(groups)):
        return bytes.fromhex(digits)
    if len(groups) == 1 or _is_wrapped(groups):
        raise OddDigitsError(f"not hex: {len(digits)} is an odd number of digits")
    if max(map(len, groups)) <= 2 and text.lower().count("0x") == len(groups):
        return bytes(int(group, 16) for group in groups)
    raise OddDigitsError(
        f"not hex: the group {odd!r:.40} has an odd number of digits: write two digits for each "
        "byte, or 0x before each byte"
    )


def _is_wrapped(groups: list[str]) -> bool:
    """Return whether the groups are lines of a text that was wrapped at a fixed length."""
    longest = len(groups[0])
    return longest >= _MIN_DIGITS_PER_HEX_LINE and all(
        len(group) == longest or (group is groups[-1] and len(group) < longest) for group in groups
    )


def octets_of_base64(text: str) -> bytes:
    """Decode base64 in the standard or the URL-safe alphabet, with or without padding.

    Raises:
        ValueError: the text is not base64.
    """
    encoded = "".join(text.split()).replace("-", "+").replace("_", "/")
    if not _BASE64_PATTERN.fullmatch(encoded):
        invalid = re.search(r"[^A-Za-z0-9+/]", encoded)
        raise ValueError(f"not base64: unexpected {invalid.group() if invalid else '='!r}")
    try:
        return base64.b64decode(encoded.rstrip("=") + "=" * (-len(encoded.rstrip("=")) % 4))
    except binascii.Error:
        raise ValueError(
            f"not base64: {len(encoded)} is not a valid number of characters"
        ) from None


class RefusedError(ValueError):
    """A JSON document is valid, but contains a value that this library refuses."""


@cache
def _json_decode() -> Any:
    """Return the method `decode` of a JSONDecoder, which is created only once."""
    import json  # noqa: PLC0415  (only needed for JSON input)

    return json.JSONDecoder(parse_float=_finite_double, object_pairs_hook=_unique_members).decode


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object; RefusedError if a name occurs twice."""
    members = dict(pairs)
    if len(members) < len(pairs):  # Python would keep the last member with a name
        counts = Counter(name for name, _ in pairs)
        duplicate = next(name for name, count in counts.items() if count > 1)
        raise RefusedError(f"the name {duplicate!r:.80} occurs twice in one object")
    return members


def _finite_double(text: str) -> float:
    """Parse a JSON number; RefusedError if it is too large for a double."""
    value = float(text)
    if value in (math.inf, -math.inf):  # for example, Python parses 1e400 as an infinity
        number = text if len(text) <= 40 else f"{text[:40]}…"
        raise RefusedError(f"the number {number} is too large for a double")
    return value


#: Maximum nesting of objects and arrays for `load_json`. Python's own limit depends on the caller's
#: stack, and code that traverses or prints the value may need more stack than the parser.
_MAX_JSON_LEVELS = 100


def load_json(octets: bytes | str) -> Any:
    """Parse a JSON document of another program, such as the response of an API or a state file.

    Unlike `parse_json`, this function accepts duplicate names in an object; the last one counts.

    Args:
        octets: the document; bytes are UTF-8.

    Raises:
        ValueError: the document is not JSON, has a number that is too large for a double, or has
            more than 100 levels of objects and arrays.
    """
    import json  # noqa: PLC0415  (only needed for JSON input)

    try:
        value = json.loads(octets, parse_float=_finite_double, parse_constant=refuse_constant)
    except RefusedError:
        raise
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None
    except ValueError as error:  # includes UnicodeDecodeError, and integers with too many digits
        raise ValueError(f"not JSON: {error}") from None
    level = [value]
    for _ in range(_MAX_JSON_LEVELS + 1):
        level = [
            child
            for parent in level
            for child in (
                parent.values()
                if isinstance(parent, dict)
                else parent
                if isinstance(parent, list)
                else ()
            )
        ]
        if not level:
            return value
    raise RefusedError(f"the JSON has more than {_MAX_JSON_LEVELS} levels of objects and arrays")


def load_object(octets: bytes | str) -> dict[str, Any]:
    """Parse a JSON object like `load_json`.

    Raises:
        ValueError: `load_json` refuses the document, or it is not an object.
    """
    value = load_json(octets)
    if not isinstance(value, dict):
        raise RefusedError(f"expected a JSON object, not {value!r:.40}")
    return value


def parse_json(octets: bytes) -> Any:
    """Parse a JSON document in UTF-8, with or without a byte order mark.

    Raises:
        ValueError: the document is not JSON, has a number that is too large for a double, or has a
            duplicate name in an object. The error contains the position.
    """
    decode = _json_decode()
    try:
        text = octets.decode()
        return decode(text[1:] if text[:1] == "\ufeff" else text)
    except UnicodeDecodeError:
        raise ValueError("not JSON: this is not UTF-8") from None
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None
    except RefusedError:
        raise
    except ValueError as error:
        line = getattr(error, "lineno", 0)  # 0 for an integer with too many digits
        if line:
            prefix = f"line {line}, " if line > 1 else ""
            fault: Any = error
            raise ValueError(f"not JSON: {fault.msg} ({prefix}column {fault.colno})") from None
        raise ValueError(f"not JSON: {error}") from None
