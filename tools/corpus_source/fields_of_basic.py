"""AMQP 0-9-1: every property, every letter of a field table, right and wrong (0-9-1, 4.2.5)."""

from __future__ import annotations

from typing import Any

from corpus_source._write import Chapter

_ORIGIN = "generated from the grammar of AMQP 0-9-1, 4.2, with the letters as RabbitMQ reads them"
properties = Chapter("basic-properties", _ORIGIN)
tables = Chapter("field-table", _ORIGIN)

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

tables.at("0-9-1, 4.2.5.5")
tables.says("table-empty", "00000000", ["F", []])
for letter, samples in SAMPLES.items():
    code = f"{ord(letter):02x}"
    case = letter if letter.islower() else f"upper-{letter.lower()}"
    for number, (typed, octets) in enumerate(samples):
        tables.says(f"table-{case}-{number}", table(("k", code + octets)), ["F", [["k", typed]]])
        inner = f"{len(octets) // 2 + 1:08x}{code}{octets}"
        tables.says(
            f"table-array-of-{case}-{number}",
            table(("k", "41" + inner)),
            ["F", [["k", ["A", [typed]]]]],
        )
    typed, octets = samples[0] if samples[0][1] else samples[-1]
    whole = table(("k", code + octets))
    for size in range(4, len(whole) // 2):
        tables.refused(f"table-{case}-cut-{size}", whole[: 2 * size], "truncated", 0)
    tables.refused(f"table-{case}-more", whole + "00", "trailing", len(whole) // 2)
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
    "the grammar allows it",
)
for text in ("", "é", "x" * 127, "x" * 128, "x" * 255, "$", "#a", "a b"):
    tables.says(
        f"table-name-{len(text.encode())}-{text.encode()[:2].hex() or 'none'}",
        table((text, "56")),
        ["F", [[text, ["V"]]]],
    )

properties.at("0-9-1, 4.2.6.1")
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
        properties.says(
            f"properties-{name}-{number}", flags + octets, ["properties", [[name, value]]]
        )
    _EVERY.append((name, values[1][0], values[1][1]))
    if form != "text" or values[1][1]:
        octets = values[1][1]
        for size in range(min(len(octets) // 2, 5)):
            properties.refused(
                f"properties-{name}-cut-{size}", flags + octets[: 2 * size], "truncated", 2
            )
properties.says(
    "properties-all",
    "fffc" + "".join(octets for _, _, octets in _EVERY),
    ["properties", [[name, value] for name, value, _ in _EVERY]],
)
for left, (name, _, _) in enumerate(_EVERY):
    rest = [one for place, one in enumerate(_EVERY) if place != left]
    present = 0xFFFC & ~(1 << 15 - left)
    properties.says(
        f"properties-all-but-{name}",
        f"{present:04x}" + "".join(octets for _, _, octets in rest),
        ["properties", [[one, value] for one, value, _ in rest]],
    )
