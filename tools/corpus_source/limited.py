"""Limits: what is read within them, and refused for one less.

The specification gives no limits, only the condition to answer with where one is exceeded.
"""

from __future__ import annotations

from typing import Any

from corpus_source._write import Chapter, list8, map8, string

values = Chapter("value")
messages = Chapter("message")
values.at("Part 2, 2.8.15")
messages.at("Part 2, 2.8.15")

_NULL = ["null"]
# Name, limit, the least that admits the value, the value, what it says, where it is refused for
# less. (Those of items are at least four: what only looks for sections counts each as so many.)
_CASES: tuple[tuple[str, str, int, str, list[Any], int], ...] = (
    ("list", "items", 5, list8(5, "40 40 40 40 40"), ["list", [_NULL] * 5], 3),
    # A map of one entry is two values, and the list in it holds three more.
    (
        "map",
        "items",
        5,
        map8(2, string("k") + list8(3, "40 40 40")),
        ["map", [[["string", "k"], ["list", [_NULL] * 3]]]],
        9,
    ),
    ("array", "items", 5, "e0 07 05 50 0707070707", ["array", "50", [["ubyte", 7]] * 5], 0),
    ("lists", "depth", 2, list8(1, list8(1, "40")), ["list", [["list", [_NULL]]]], 3),
    (
        "described",
        "depth",
        2,
        "00 53 05 " + list8(1, "40"),
        ["described", ["ulong", 5], ["list", [_NULL]]],
        3,
    ),
    ("array", "zero_width", 3, "e0 02 03 40", ["array", "40", [_NULL] * 3], 0),
    ("string", "size", 5, string("abc"), ["string", "abc"], 4),
)

for name, limit, least, data, typed, offset in _CASES:
    words = limit.replace("_", "-")
    values.says(f"limit-{words}-{name}-kept", data, typed, limits={limit: least})
    values.refused(
        f"limit-{words}-{name}", data, f"{words}-limit", offset, limits={limit: least - 1}
    )
    # The descriptor of the section is three octets, no value of a compound, and no level.
    enough = least + 3 if limit == "size" else least
    messages.says(
        f"message-limit-{words}-{name}-kept",
        "00 53 77 " + data,
        [["amqp-value", typed]],
        limits={limit: enough},
    )
    messages.refused(
        f"message-limit-{words}-{name}",
        "00 53 77 " + data,
        f"{words}-limit",
        3 + offset,
        breaks=f"{words}-limit",
        limits={limit: enough - 1},
    )
