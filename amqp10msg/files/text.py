"""Bytes from hex and base64, as people and tools write them, and JSON with its faults."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from functools import cache
from typing import Any

# Separators between hex digits: 0x, \x, colons, commas and the like.
_BETWEEN = re.compile(r"\\x|(?<![0-9a-fA-F])0[xX]|[\s:,;_-]+")
# Lines of wrapped hex have at least this many digits; shorter groups of digits are bytes or words.
_MIN_WRAPPED_DIGITS = 8
_HEX = re.compile(r"[0-9a-fA-F]*")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def octets_of_hex(text: str) -> bytes:
    r"""Read hex digits, with spaces, colons, commas, 0x and \x between them.

    Groups of digits have an even number of digits each. After 0x a byte may have one digit, if no
    group has more than two: ``0x0, 0x53``. Text may be wrapped into lines of any length.

    Raises:
        ValueError: there are other characters, half a byte, or groups of one and of more digits.
    """
    try:
        return bytes.fromhex(text)  # the usual case: no separators, and a search is slow
    except ValueError:
        groups = [group for group in _BETWEEN.split(text) if group]
    digits = "".join(groups)
    good = _HEX.match(digits)
    if good is None or good.end() < len(digits):
        raise ValueError(f"not hex: {digits[good.end() if good else 0]!r} is not a hex digit")
    odd = next((group for group in groups if len(group) % 2), None)
    if odd is None or (len(digits) % 2 == 0 and _is_wrapped(groups)):
        return bytes.fromhex(digits)
    if len(groups) == 1 or _is_wrapped(groups):
        raise ValueError(f"not hex: {len(digits)} digits are half a byte too few or too many")
    if max(map(len, groups)) <= 2 and text.lower().count("0x") == len(groups):
        return bytes(int(group, 16) for group in groups)
    raise ValueError(
        f"not hex: {odd!r:.40} between longer groups is not a whole byte: write two digits for "
        "each byte, or 0x before each"
    )


def _is_wrapped(groups: list[str]) -> bool:
    """Whether groups of digits are the lines of one text that was wrapped at a fixed length."""
    longest = len(groups[0])
    return longest >= _MIN_WRAPPED_DIGITS and all(
        len(group) == longest or (group is groups[-1] and len(group) < longest) for group in groups
    )


def octets_of_base64(text: str) -> bytes:
    """Read base64 of either alphabet, with or without its padding."""
    packed = "".join(text.split()).replace("-", "+").replace("_", "/")
    if not _BASE64.fullmatch(packed):
        wrong = re.search(r"[^A-Za-z0-9+/]", packed)
        raise ValueError(f"not base64: {wrong.group() if wrong else '='!r} does not belong there")
    try:
        return base64.b64decode(packed.rstrip("=") + "=" * (-len(packed.rstrip("=")) % 4))
    except binascii.Error:
        raise ValueError(f"not base64: {len(packed)} characters cannot be bytes") from None


class RefusedError(ValueError):
    """Valid JSON has a value that the library does not accept."""


@cache
def _json() -> Any:
    """What `json.loads` calls, without its options."""
    import json  # noqa: PLC0415  (messages are seldom written in it)

    return json.JSONDecoder(parse_float=_double, object_pairs_hook=_object).decode


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):  # of which Python keeps the last one alone
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise RefusedError(f"the name {twice!r:.80} stands twice in one object")
    return made


def _double(text: str) -> float:
    value = float(text)
    if value in (math.inf, -math.inf):  # Python reads 1e400 so
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise RefusedError(f"the number {shown} is larger than a double can be")
    return value


#: Levels of objects and arrays that `load_json` accepts. Python's own limit depends on the caller's
#: stack, and code that walks or prints a value later may need more of it than the parser did.
_MAX_LEVELS = 100


def load_json(octets: bytes | str) -> Any:
    """Parse JSON that another program wrote about itself: an API's answer, a state file.

    Accepts what `parse_json` accepts, and repeated names, of which the last one counts.

    Args:
        octets: the document, in UTF-8 where it is bytes.

    Raises:
        ValueError: it is not JSON, has a number that a double cannot hold, or has more than 100
            levels of objects and arrays.
    """
    import json  # noqa: PLC0415  (few callers need it)

    try:
        value = json.loads(octets, parse_float=_double, parse_constant=_refuse_constant)
    except RefusedError:
        raise
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None
    except ValueError as error:  # also UnicodeDecodeError, and an integer of thousands of digits
        raise ValueError(f"not JSON: {error}") from None
    level = [value]
    for _ in range(_MAX_LEVELS + 1):
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
    raise RefusedError(f"the JSON has more than {_MAX_LEVELS} levels of objects and arrays")


def load_object(octets: bytes | str) -> dict[str, Any]:
    """Parse a JSON object as `load_json` does.

    Raises:
        ValueError: it is not JSON that `load_json` accepts, or not an object.
    """
    value = load_json(octets)
    if not isinstance(value, dict):
        raise RefusedError(f"a JSON object is needed, not {value!r:.40}")
    return value


def _refuse_constant(name: str) -> Any:
    raise RefusedError(f"{name} is not a number of JSON")


def parse_json(octets: bytes) -> Any:
    """Read a JSON document in UTF-8, with or without a byte order mark.

    Raises:
        ValueError: it is not JSON, or has a number that is too large for a double or a name twice
            in one object; the text says where or what, and why.
    """
    decode = _json()
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
        line = getattr(error, "lineno", 0)  # 0 of an integer of thousands of digits
        if line:
            place = f"line {line}, " if line > 1 else ""
            said: Any = error
            raise ValueError(f"not JSON: {said.msg} ({place}column {said.colno})") from None
        raise ValueError(f"not JSON: {error}") from None
