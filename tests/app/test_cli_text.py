"""Bytes from text as people have it at hand: hex in all spellings, base64, dumps, literals."""

from __future__ import annotations

import base64
import contextlib
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message
from amqp10msg.app.inspector.reading import octets_of_text
from amqp10msg.files.text import octets_of_base64, octets_of_hex

MESSAGES = st.builds(Message, st.text(max_size=60) | st.binary(max_size=60)).map(Message.encode)
SPELLINGS = {
    "plain": lambda octets: octets.hex(),
    "upper": lambda octets: octets.hex().upper(),
    "spaces": lambda octets: octets.hex(" "),
    "colons": lambda octets: octets.hex(":"),
    "words": lambda octets: octets.hex(" ", 2),
    "one 0x": lambda octets: "0x" + octets.hex(),
    "0x and commas": lambda octets: ", ".join(f"0x{octet:02X}" for octet in octets),
    "escapes": lambda octets: "".join(f"\\x{octet:02x}" for octet in octets),
    "wrapped": lambda octets: "\n".join(
        octets.hex()[start : start + 32] for start in range(0, 2 * len(octets), 32)
    ),
    "base64": lambda octets: base64.b64encode(octets).decode(),
    "base64, wrapped": lambda octets: base64.encodebytes(octets).decode(),
    "base64, no padding": lambda octets: base64.b64encode(octets).decode().rstrip("="),
    "base64 for URLs": lambda octets: base64.urlsafe_b64encode(octets).decode(),
    "Python": repr,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(octets=MESSAGES)
def test_every_spelling_of_a_message_is_recognised(spelling: str, octets: bytes) -> None:
    assert [octets] == octets_of_text(SPELLINGS[spelling](octets))


@given(octets=st.binary(min_size=1))
def test_any_octets_come_back_when_the_form_is_named(octets: bytes) -> None:
    assert octets == octets_of_hex(octets.hex())
    assert octets == octets_of_base64(base64.b64encode(octets).decode())


@given(messages=st.lists(MESSAGES, min_size=2, max_size=5))
def test_lines_that_each_begin_as_a_message_are_a_message_each(messages: list[bytes]) -> None:
    assert messages == octets_of_text("\n\n".join(octets.hex() for octets in messages))
    assert messages == octets_of_text(
        "\r\n".join(base64.b64encode(octets).decode() for octets in messages)
    )


def xxd(octets: bytes) -> str:
    rows = []
    for start in range(0, len(octets), 16):
        row = octets[start : start + 16]
        shown = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in row)
        rows.append(f"{start:08x}: {row.hex(' ', 2):<39}  {shown}\n")
    return "".join(rows)


def hexdump(octets: bytes) -> str:
    rows = []
    for start in range(0, len(octets), 16):
        row = octets[start : start + 16]
        shown = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in row)
        halves = f"{row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}"
        rows.append(f"{start:08x}  {halves}  |{shown}|\n")
    return "".join(rows) + f"{len(octets):08x}\n"


def wireshark(octets: bytes) -> str:
    rows = []
    for start in range(0, len(octets), 16):
        row = octets[start : start + 16]
        shown = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in row)
        rows.append(f"{start:04x}  {row.hex(' '):<47}   {shown}\n")
    return "".join(rows)


@pytest.mark.parametrize("dump", [xxd, hexdump, wireshark], ids=lambda dump: dump.__name__)
@given(octets=MESSAGES)
def test_a_dump_is_read_without_its_offsets_and_characters(dump: object, octets: bytes) -> None:
    assert callable(dump)

    assert [octets] == octets_of_text(dump(octets))


@pytest.mark.parametrize("command", [["xxd"], ["hexdump", "-C"], ["od", "-A", "x", "-t", "x1"]])
def test_what_the_real_tools_print_is_read(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not here")
    octets = Message("a body that is longer than two lines of sixteen octets | each").encode()
    printed = subprocess.run(command, input=octets, capture_output=True, check=True).stdout

    assert [octets] == octets_of_text(printed.decode())


@pytest.mark.parametrize(
    "text, reason",
    [
        ("0053700", "not hex: 7 digits are half a byte too few or too many"),
        ("message.bin", "neither hex nor base64"),
        ("message", "neither hex nor base64"),  # base64 of bytes that no message begins with
        ("no such thing", "neither hex nor base64"),
        ("b'\\x00", "the Python literal is broken"),
        ("b'' + b''", "the Python literal is broken"),
        ("AFNw==w=", "neither hex nor base64"),
        ("\u0661\u0662", "neither hex nor base64"),  # digits, but not of hex
    ],
)
def test_what_is_nothing_of_that_says_so(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        octets_of_text(text)


@pytest.mark.parametrize(
    "form, text, reason",
    [
        ("hex", "00 5g", "not hex: 'g' is not a hex digit"),
        ("hex", "AFNwRQ==", "not hex: 'N' is not a hex digit"),
        ("base64", "AFN!", "not base64: '!' does not belong there"),
        ("base64", "A=FN", "not base64: '=' does not belong there"),
        ("base64", "AFNwR", "not base64: 5 characters cannot be bytes"),
    ],
)
def test_a_form_that_was_named_is_insisted_on(form: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        octets_of_text(text, form)


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_no_text_is_no_message(text: str) -> None:
    assert [] == octets_of_text(text)


@given(text=st.text())
def test_whatever_the_text_is_there_are_octets_or_a_value_error(text: str) -> None:
    for form in (None, "hex", "base64"):
        with contextlib.suppress(ValueError):
            assert all(isinstance(octets, bytes) for octets in octets_of_text(text, form))
