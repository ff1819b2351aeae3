"""Reading bytes from text: hex in all spellings, base64, dumps, literals of languages."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message
from amqp10msg.app.cli import main
from amqp10msg.app.inspector.reading import messages_in_text
from amqp10msg.files.text import octets_of_base64, octets_of_hex

MESSAGES = st.builds(Message, st.text(max_size=60) | st.binary(max_size=60)).map(Message.encode)
SPELLINGS: dict[str, Callable[[bytes], str]] = {
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
    "Python bytearray": lambda octets: repr(bytearray(octets)),
    "Python list": lambda octets: f"bytes({list(octets)})",
    "Python fromhex": lambda octets: f'bytes.fromhex("{octets.hex()}")',
    "Python assignment": lambda octets: f"payload = {octets!r}",
    "Go": lambda octets: "[]byte{" + ", ".join(map(hex, octets)) + "}",
    "Go, bare": lambda octets: ", ".join(map(hex, octets)),
    "Go, printed": lambda octets: f"[{' '.join(map(str, octets))}]",
    "Go string": lambda octets: f'msg := []byte("{escaped(octets)}")',
    "Rust": lambda octets: f'b"{escaped(octets)}"',
    "Rust list": lambda octets: f"let m: &[u8] = &[{', '.join(f'{n}u8' for n in octets)}];",
    "Rust vec": lambda octets: f"vec!{list(octets)}",
    "C array": lambda octets: (
        "static const unsigned char m[] = {\n  "
        + ",\n  ".join(f"0x{octet:02x}" for octet in octets)
        + ",\n};"
    ),
    "C string": lambda octets: '"' + "".join(f"\\{octet:03o}" for octet in octets) + '"',
    "C strings": lambda octets: "\n".join(f'"\\x{octet:02x}"' for octet in octets),
    "C escapes": lambda octets: "".join(f"\\x{octet:x}" for octet in octets),
    "C# dashes": lambda octets: octets.hex("-").upper(),
    "Java": lambda octets: str([octet - 256 if octet > 127 else octet for octet in octets]),
    "Java array": lambda octets: (
        "new byte[] {" + ", ".join(f"(byte) 0x{octet:02X}" for octet in octets) + "}"
    ),
    "Erlang": lambda octets: f"<<{','.join(map(str, octets))}>>",
    "Erlang, hex": lambda octets: f"<<{','.join(f'16#{octet:x}' for octet in octets)}>>",
    "Node": lambda octets: f"<Buffer {octets.hex(' ')}>",
    "Node from hex": lambda octets: f"Buffer.from('{octets.hex()}', 'hex')",
    "Node from base64": lambda octets: (
        f'Buffer.from("{base64.b64encode(octets).decode()}", "base64")'
    ),
    "Uint8Array": lambda octets: f"Uint8Array({len(octets)}) [ {', '.join(map(str, octets))} ]",
    "quoted base64": lambda octets: f'"{base64.b64encode(octets).decode()}"',
}


def escaped(octets: bytes) -> str:
    """Write bytes as Go and Rust do between double quotes."""
    return "".join(
        chr(octet) if 32 <= octet < 127 and chr(octet) not in '"\\' else f"\\x{octet:02x}"
        for octet in octets
    )


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(octets=MESSAGES)
def test_every_spelling_of_a_message_is_recognised(spelling: str, octets: bytes) -> None:
    assert [octets] == messages_in_text(SPELLINGS[spelling](octets))


@given(octets=st.binary(min_size=1))
def test_any_bytes_round_trip_with_an_explicit_format(octets: bytes) -> None:
    assert octets == octets_of_hex(octets.hex())
    assert octets == octets_of_base64(base64.b64encode(octets).decode())


@given(messages=st.lists(MESSAGES, min_size=2, max_size=5))
def test_lines_that_start_like_messages_are_separate_messages(messages: list[bytes]) -> None:
    assert messages == messages_in_text("\n\n".join(octets.hex() for octets in messages))
    assert messages == messages_in_text(
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
def test_dump_offsets_and_characters_are_ignored(dump: object, octets: bytes) -> None:
    assert callable(dump)

    assert [octets] == messages_in_text(dump(octets))


@pytest.mark.parametrize("command", [["xxd"], ["hexdump", "-C"], ["od", "-A", "x", "-t", "x1"]])
def test_output_of_real_dump_tools_is_read(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not here")
    octets = Message("a body that is longer than two lines of sixteen octets | each").encode()
    printed = subprocess.run(command, input=octets, capture_output=True, check=True).stdout

    assert [octets] == messages_in_text(printed.decode())


_MIXED = "has an odd number of digits: write two digits for each byte, or 0x before each byte"


@pytest.mark.parametrize(
    "text, reason",
    [
        ("0053700", "not hex: 7 is an odd number of digits"),
        ("message.bin", "neither hex nor base64"),
        ("message", "neither hex nor base64"),  # base64 of bytes that no message begins with
        ("no such thing", "neither hex nor base64"),
        ("b'\\x00", "the Python literal is broken"),
        ("b'\\q'", "the escape '\\\\q' is not known"),
        ("00 53 7", f"not hex: the group '7' {_MIXED}"),
        ("0 53 77 a1 2 68", f"not hex: the group '0' {_MIXED}"),
        ("000 123 167 241 002 150", f"not hex: the group '000' {_MIXED}"),
        ("0x0 0x53 0x77a1", f"not hex: the group '0' {_MIXED}"),
        ("0, 83, 256", "the list holds '256', which is not a byte from 0 to 255"),
        ("[0, 83, -129]", "the list holds '-129', which is not a byte from 0 to 255"),
        ("[0, 83, x]", "the list holds 'x', which is not a byte from 0 to 255"),
        ("<<0:16,83>>", "the Erlang binary holds '0:16', which is not a byte from 0 to 255"),
        (
            "<Buffer 00 53 77 ... 12 more bytes>",
            "Node shortened this Buffer when it printed it: print buffer.toString('hex') instead",
        ),
        ('"\\400"', "the escape '\\\\400' is larger than a byte"),
        ('"\\ud800"', "the escape '\\\\ud800' is not a Unicode character"),
        ("\\x00\\", "the literal ends in the middle of an escape"),
        ("AFNw==w=", "neither hex nor base64"),
        ("\u0661\u0662", "neither hex nor base64"),  # digits, but not of hex
    ],
)
def test_unrecognised_text_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        messages_in_text(text)


@pytest.mark.parametrize(
    "form, text, reason",
    [
        ("hex", "00 5g", "not hex: 'g' is not a hex digit"),
        ("hex", "AFNwRQ==", "not hex: 'N' is not a hex digit"),
        ("base64", "AFN!", "not base64: unexpected '!'"),
        ("base64", "A=FN", "not base64: unexpected '='"),
        ("base64", "AFNwR", "not base64: 5 is not a valid number of characters"),
    ],
)
def test_explicit_format_is_enforced(form: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        messages_in_text(text, form)


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_empty_text_has_no_messages(text: str) -> None:
    assert [] == messages_in_text(text)


@given(text=st.text())
def test_any_text_gives_bytes_or_value_error(text: str) -> None:
    for form in (None, "hex", "base64"):
        with contextlib.suppress(ValueError):
            assert all(isinstance(octets, bytes) for octets in messages_in_text(text, form))


@given(text=st.text(alphabet="0123456789abfx\\'\"[]{}()<>,;=:&! \nbu", max_size=40))
def test_text_like_a_literal_gives_bytes_or_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert all(isinstance(octets, bytes) for octets in messages_in_text(text))


@pytest.mark.parametrize("text", ["bytes(" * 10_000 + ")" * 10_000, "(" * 100_000, "[0," * 50_000])
def test_deeply_nested_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither hex nor base64|which is not a byte"):
        messages_in_text(text)


@pytest.mark.parametrize(
    "write",
    [
        lambda octets: {"type": "Buffer", "data": list(octets)},
        lambda octets: {str(n): octet for n, octet in enumerate(octets)},
    ],
)
def test_command_reads_json_of_a_node_buffer(write: Callable[[bytes], object]) -> None:
    octets = Message("hello").encode()

    done = CliRunner().invoke(main, ["convert", "--out", "hex", json.dumps(write(octets))])

    assert (0, f"{octets.hex()}\n") == (done.exit_code, done.stdout)


#: What the command says of bytes that are something else than a message.
OTHER_CONTENT = {
    "UTF-16, big-endian": ("<?xml>".encode("utf-16-be"), "this is text, not an AMQP message"),
    "UTF-16, little-endian": ("<?xml>".encode("utf-16-le"), "this is text, not an AMQP message"),
    "UTF-16 with a mark": ("hello".encode("utf-16"), "this is text, not an AMQP message"),
    "UTF-8": ("grüße an alle".encode(), "this is text, not an AMQP message: 'grüße an alle'"),
    "XML": (b"<order id='1'/>", "this is text, not an AMQP message: \"<order id='1'/>\""),
    "JSON": (b'{"a": 1}', "this is JSON: read it as jsonl"),
}


@pytest.mark.parametrize("content", OTHER_CONTENT)
@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_fault_names_the_actual_kind_of_bytes(command: str, content: str) -> None:
    octets, hint = OTHER_CONTENT[content]

    done = CliRunner().invoke(main, [command, octets.hex()])

    assert 1 == done.exit_code
    assert hint in done.output


HELLO = Message("hello").encode()


def frame(performative: str, payload: bytes = b"", channel: int = 1) -> bytes:
    body = bytes.fromhex(performative) + payload
    return (len(body) + 8).to_bytes(4, "big") + b"\x02\x00" + channel.to_bytes(2, "big") + body


# A transfer with the handle 0, the delivery-id 0, the tag 01 and the message-format 0, settled.
TRANSFER = frame("005314c008054343a001014341", HELLO, channel=7)


def test_inspect_shows_performative_and_payload_of_a_frame() -> None:
    done = CliRunner().invoke(main, ["inspect", TRANSFER.hex()])

    assert 0 == done.exit_code, done.output
    assert f"frame at byte 0: {len(TRANSFER)} bytes, channel 7" in done.stdout
    assert "transfer" in done.stdout
    assert "delivery-tag" in done.stdout
    assert f"then {len(HELLO)} bytes of payload" in done.stdout
    assert '"hello"' in done.stdout


def test_validate_judges_the_payload_of_a_frame() -> None:
    assert 0 == CliRunner().invoke(main, ["validate", TRANSFER.hex()]).exit_code
    assert 1 == CliRunner().invoke(main, ["validate", (TRANSFER[:-1]).hex()]).exit_code


def test_inspect_shows_frames_that_transfer_no_message() -> None:
    done = CliRunner().invoke(main, ["inspect", frame("005310c00401a10161").hex()])

    assert 1 == done.exit_code
    assert "container-id" in done.stdout
    assert "without a whole message" in done.stderr
