"""AMQP 0-9-1: every property, every letter of a field table, right and wrong (0-9-1, 4.2.5)."""

from __future__ import annotations

import re
from typing import Any

from corpus_source._write import Chapter

_ORIGIN = "generated from the grammar of AMQP 0-9-1, 4.2, with the letters as RabbitMQ reads them"
properties = Chapter("basic-properties", _ORIGIN)
tables = Chapter("field-table", _ORIGIN)

_TABLE = "0-9-1, 4.2.5.5"
#: Letter, width in bytes, whether it is signed.
INTEGERS = (
    ("b", 1, True),
    ("B", 1, False),
    ("s", 2, True),
    ("u", 2, False),
    ("I", 4, True),
    ("i", 4, False),
    ("l", 8, True),
)
# The clauses of native types, by the letter; of the other letters there is that of tables.
_OF_LETTERS = {letter: "0-9-1, 4.2.5.1" for letter, _, _ in INTEGERS}
_OF_LETTERS |= {"S": "0-9-1, 4.2.5.3", "T": "0-9-1, 4.2.5.4"}
#: Name, bit, and the form of its value.
PROPERTIES = (
    ("content-type", "text"),
    ("content-encoding", "text"),
    ("headers", "table"),
    ("delivery-mode", "byte"),
    ("priority", "byte"),
    ("correlation-id", "text"),
    ("reply-to", "text"),
    ("expiration", "text"),
    ("message-id", "text"),
    ("timestamp", "time"),
    ("type", "text"),
    ("user-id", "text"),
    ("app-id", "text"),
    ("cluster-id", "text"),
)


# Why no clause requires what RabbitMQ and its clients agree on, by the letter.
_LETTERS = {
    "s": "RabbitMQ's letter; the grammar of 4.2.1 has a short string here",
    "x": "RabbitMQ's letter; the grammar of 4.2.1 has none such",
}
_SIGNED = "the grammar of 4.2.1 has an unsigned number here, RabbitMQ a signed one"
_DECIMAL = "unsigned by the grammar of 4.2.1, signed by the words of 4.2.5.5"
_MOMENT = "not a time_t (4.2.5.4), which is signed"
_NAME = "4.2.5.5 allows letters, digits, $, # and _ in a name, not a digit first, and 128 octets"
_TWICE = "4.2.5.5: a name is not repeated, and what becomes of a table that does so is undefined"
_RESERVED = "the field is reserved, and must be empty"
_EMPTY = "no clause gives an empty property another meaning than an absent one"


def preference(letter: str, value: Any) -> str:
    """Say why no clause requires that a field is read as `value`; empty where one does."""
    if letter in _LETTERS:
        return _LETTERS[letter]
    if letter == "l" and value < 0:
        return _SIGNED
    if letter == "D" and value[1] < 0:
        return _DECIMAL
    if letter == "T" and value >= 2**63:
        return _MOMENT
    if letter == "A" and any(preference(*item) for item in value if len(item) == 2):
        return next(preference(*item) for item in value if len(item) == 2)
    return ""


def is_name(text: str) -> bool:
    """Whether 4.2.5.5 allows a name of a field."""
    return re.fullmatch(r"[A-Za-z$#][A-Za-z0-9$#_]{0,127}", text) is not None


def short(text: str) -> str:
    """A short string in hex."""
    octets = text.encode()
    return f"{len(octets):02x}{octets.hex()}"


def table(*fields: tuple[str, str]) -> str:
    """A table of names and encoded fields, in hex."""
    octets = "".join(short(name) + field for name, field in fields)
    return f"{len(octets) // 2:08x}{octets}"


def _samples() -> dict[str, list[tuple[Any, str]]]:
    """Values of every letter, each as typed JSON and in hex."""
    found: dict[str, list[tuple[Any, str]]] = {}
    for letter, width, signed in INTEGERS:
        bits = 8 * width - signed
        low, high = (-(1 << bits) if signed else 0), (1 << bits) - 1
        for number in sorted({low, -1 if signed else 1, 0, 5, high - 1, high}):
            octets = number.to_bytes(width, "big", signed=signed).hex()
            found.setdefault(letter, []).append(([letter, number], octets))
    found["t"] = [(["t", True], "01"), (["t", False], "00"), (["t", 2], "02"), (["t", 255], "ff")]
    found["f"] = [(["f", bits], bits) for bits in ("3fc00000", "00000000", "7f7fffff", "ff800000")]
    found["f"].append((["f", "7fc00001"], "7fc00001"))
    found["d"] = [
        (["d", bits], bits)
        for bits in (
            *("3ff8000000000000", "8000000000000000", "7fefffffffffffff"),
            *("3fb999999999999a", "fff0000000000000"),
        )
    ]
    found["D"] = [
        (["D", [scale, unscaled]], f"{scale:02x}{unscaled.to_bytes(4, 'big', signed=True).hex()}")
        for scale, unscaled in ((0, 0), (2, 150), (2, -150), (255, 2**31 - 1), (0, -(2**31)))
    ]
    found["S"] = [
        (["S", text], f"{len(text.encode()):08x}{text.encode().hex()}")
        for text in ("", "text", "é", "\U0001f600", "\u0000", "x" * 255, "x" * 256)
    ]
    found["S"].append((["S", {"hex": "ff41"}], "00000002ff41"))
    found["x"] = [(["x", octets], f"{len(octets) // 2:08x}{octets}") for octets in ("", "00ff")]
    found["T"] = [
        (["T", number], f"{number:016x}")
        for number in (0, 1, 1_700_000_000, 2**31, 2**32 - 1, 253_402_300_799, 2**63)
    ]
    found["V"] = [(["V"], "")]
    found["F"] = [
        (["F", []], "00000000"),
        (["F", [["a", ["V"]]]], "00000003016156"),
        (["F", [["a", ["F", [["b", ["t", True]]]]]]], table(("a", "46" + table(("b", "7401"))))),
    ]
    found["A"] = [
        (["A", []], "00000000"),
        (["A", [["t", True], ["V"]]], "00000003740156"),
        (["A", [["A", [["I", -1]]]]], "0000000a4100000005" + "49ffffffff"),
    ]
    return found


SAMPLES = _samples()

tables.at(_TABLE)
tables.says("table-empty", "00000000", ["F", []])
for letter, samples in SAMPLES.items():
    tables.at(_OF_LETTERS.get(letter, _TABLE))
    code = f"{ord(letter):02x}"
    case = letter if letter.islower() else f"upper-{letter.lower()}"
    for number, (typed, octets) in enumerate(samples):
        open_to = preference(letter, typed[1]) if len(typed) == 2 else ""
        tables.says(
            f"table-{case}-{number}",
            table(("k", code + octets)),
            ["F", [["k", typed]]],
            preference=open_to,
        )
        inner = f"{len(octets) // 2 + 1:08x}{code}{octets}"
        tables.says(
            f"table-array-of-{case}-{number}",
            table(("k", "41" + inner)),
            ["F", [["k", ["A", [typed]]]]],
            preference=open_to,
        )
    typed, octets = samples[0] if samples[0][1] else samples[-1]
    whole = table(("k", code + octets))
    for size in range(4, len(whole) // 2):
        tables.refused(f"table-{case}-cut-{size}", whole[: 2 * size], "truncated", 0)
    tables.refused(f"table-{case}-more", whole + "00", "trailing", len(whole) // 2)
tables.at(_TABLE)
for count in (2, 10, 100):
    many = [(f"k{number}", "49" + f"{number:08x}") for number in range(count)]
    tables.says(
        f"table-of-{count}",
        table(*many),
        ["F", [[f"k{number}", ["I", number]] for number in range(count)]],
    )
tables.says(
    "table-same-name-twice",
    table(("k", "7401"), ("k", "7400")),
    ["F", [["k", ["t", True]], ["k", ["t", False]]]],
    preference=_TWICE,
)
for text in ("", "é", "x" * 127, "x" * 128, "x" * 255, "$", "#a", "a b"):
    tables.says(
        f"table-name-{len(text.encode())}-{text.encode()[:2].hex() or 'none'}",
        table((text, "56")),
        ["F", [[text, ["V"]]]],
        preference="" if is_name(text) else _NAME,
    )

_LIST = "0-9-1, 4.2.6.1"
#: The clause that says how long a value is, by its form.
_FORMS = {
    "text": "0-9-1, 4.2.5.3",
    "time": "0-9-1, 4.2.5.4",
    "byte": "0-9-1, 4.2.5.1",
    "table": _TABLE,
}
properties.at(_LIST)
properties.says("properties-none", "0000", ["properties", []])
_TEXTS = ("", "a", "text/plain", "é", "x" * 127, "x" * 255)
_EVERY: list[tuple[str, Any, str]] = []
for place, (name, form) in enumerate(PROPERTIES):
    flags = f"{1 << 15 - place:04x}"
    values: list[tuple[Any, str]]
    if form == "text":
        values = [(text, short(text)) for text in _TEXTS]
    elif form == "byte":
        values = [(number, f"{number:02x}") for number in (0, 1, 2, 9, 10, 255)]
    elif form == "time":
        values = [(typed[1], octets) for typed, octets in SAMPLES["T"]]
    else:
        values = [([], "00000000")]
        values += [
            ([["k", typed]], table(("k", f"{ord(letter):02x}{octets}")))
            for letter, samples in SAMPLES.items()
            for typed, octets in samples[:1]
        ]
    for number, (value, octets) in enumerate(values):
        if name == "cluster-id":
            open_to = _RESERVED
        elif form == "time":
            open_to = preference("T", value)
        elif form == "table":
            open_to = "".join(preference(*field) for _, field in value if len(field) == 2)
        else:
            open_to = "" if value != "" else _EMPTY
        properties.at(_LIST if form in ("text", "byte") else _FORMS[form])
        properties.says(
            f"properties-{name}-{number}",
            flags + octets,
            ["properties", [[name, value]]],
            preference=open_to,
        )
    _EVERY.append((name, values[1][0], values[1][1]))
    if form != "text" or values[1][1]:
        octets = values[1][1]
        for size in range(min(len(octets) // 2, 5)):
            properties.at(_FORMS[form])
            properties.refused(
                f"properties-{name}-cut-{size}", flags + octets[: 2 * size], "truncated", 2
            )
        properties.at(_LIST)
properties.says(
    "properties-all",
    "fffc" + "".join(octets for _, _, octets in _EVERY),
    ["properties", [[name, value] for name, value, _ in _EVERY]],
    preference=_RESERVED,
)
for left, (name, _, _) in enumerate(_EVERY):
    rest = [one for place, one in enumerate(_EVERY) if place != left]
    present = 0xFFFC & ~(1 << 15 - left)
    properties.says(
        f"properties-all-but-{name}",
        f"{present:04x}" + "".join(octets for _, _, octets in rest),
        ["properties", [[one, value] for one, value, _ in rest]],
        preference="" if name == "cluster-id" else _RESERVED,
    )
