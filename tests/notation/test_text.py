"""The diagnostic tree as text: one line per field, without control characters."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    Array,
    Char,
    Decimal32,
    Float,
    Header,
    Message,
    Properties,
    Timestamp,
    UInt,
    encode_value,
    validate,
)
from amqp10msg.delivery import Accepted, Error, Rejected
from amqp10msg.notation import parse_tree, render_text
from amqp10msg.testing import messages, mutated

PAINT = re.compile(r"\x1b\[[0-9;]*m")


def columns(line: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in line
    )


def test_one_line_per_field() -> None:
    message = Message(
        "hello",
        header=Header(durable=True, ttl=60000),
        message_annotations={"x-opt-long-name": UInt(300)},
        properties=Properties(message_id="m-1", creation_time=1709208000000),
    )
    assert (
        " 0  00 53 70 c0 08 03        header               list8         3 values\n"
        " 6  41                         durable            boolean true  true\n"
        " 7  40                         priority           null\n"
        " 8  70 00 00 ea 60             ttl                uint          60000\n"
        "13  00 53 72 c1 17 02        message-annotations  map8          1 entry\n"
        '19  a3 0f 78 2d 6f 70 74 2d    key                symbol sym8   "x-opt-long-name"\n'
        "    6c 6f 6e 67 2d 6e 61 6d\n"
        "    65\n"
        "36  70 00 00 01 2c             x-opt-long-name    uint          300\n"
    ) == render_text(parse_tree(message.encode()[:41]))
    assert (
        " 6  83 00 00 01 8d f4 bc 56    message-id  timestamp ms64  "
        "2024-02-29 12:00:00.000 UTC (1709208000000)\n    00\n"
    ) in render_text(bytes.fromhex("005373c00a01830000018df4bc5600"))


def test_problems_are_shown_below_their_field() -> None:
    assert (
        ' 0  00 53 75 a0 01 61  data        binary vbin8  1 byte: "a"\n'
        " 6  00 53 70 c0 03 02  header      list8         2 values\n"
        "                       ! header must precede data (Part 3, 3.2)\n"
        "12  41                   durable   boolean true  true\n"
        "13  50                   priority  error         1 byte\n"
        "                         ! the value needs 1 more byte, but the input has 0 "
        "(Part 1, 1.2)\n"
    ) == render_text(bytes.fromhex("005375a00161005370c003024150"))


def test_warnings_and_errors_have_their_own_marks() -> None:
    message = Message("", properties=Properties(content_encoding="utf-8"))
    text = render_text(message)
    for violation in validate(message):
        mark = "!" if violation.severity == "error" else "?"
        assert f"{mark} {violation.text}" in text
    assert "?" in text
    assert "?" not in render_text(parse_tree(message))
    assert "! the message has no body" in render_text(Message(header=Header()))


@pytest.mark.parametrize(
    "value, shown",
    [
        (None, ["null"]),
        (True, ["boolean true", "true"]),
        (-1, ["long smalllong", "-1"]),
        (1.5, ["double ieee-754", "1.5"]),
        (Float.from_bits(0x7FC00001), ["float ieee-754", "nan (0x7fc00001)"]),
        (Decimal32.from_decimal("1.50"), ["decimal32 ieee-754", "1.50"]),
        (Char("é"), ["char utf32", '"é" U+00E9']),
        (Timestamp(2**63 - 1), ["timestamp ms64", f"{2**63 - 1} ms"]),
        (b"", ["binary vbin8", "0 bytes"]),
        (b"\x00\xff", ["binary vbin8", "2 bytes: 00 ff"]),
        (b"two\nlines", ['9 bytes: "two\\nlines"']),
        ([], ["list0", "0 values"]),
        ({"a": 1}, ["map8", "1 entry"]),
        (Array("int", [1, 2]), ["array8", "2 elements", "of every element: int"]),
        (Accepted(), ["accepted", "list0"]),
        (
            Rejected(error=Error("amqp:not-found")),
            ["rejected", "error", "amqp:error:list list", "condition", '"amqp:not-found"'],
        ),
    ],
)
def test_texts_of_values(value: object, shown: list[str]) -> None:
    text = render_text(parse_tree(encode_value(value)))
    for part in shown:
        assert part in text


def test_a_long_value_is_cut() -> None:
    text = render_text(parse_tree(encode_value("x" * 100_000)))
    assert len(text) < 500
    assert "… 99,981 more" in text
    assert 4 == text.count("\n")
    text = render_text(parse_tree(encode_value(("é" * 100_000).encode())))
    assert '200,000 bytes: "éé' in text
    assert "…" in text


@given(
    st.one_of(
        messages().map(Message.encode),
        messages().map(Message.encode).flatmap(mutated),
        st.binary(max_size=80),
        st.text(max_size=30).map(encode_value),
    ),
    st.integers(20, 200) | st.none(),
)
def test_any_bytes_give_printable_text(octets: bytes, width: int | None) -> None:
    text = render_text(octets, width=width)
    for line in text.splitlines():
        assert line.isprintable()
    # splitlines knows more line ends than a terminal; none of them may stand in a value.
    assert text.splitlines() == text.split("\n")[:-1]
    painted = render_text(octets, width=width, color=True)
    assert [line.rstrip() for line in text.splitlines()] == [
        line.rstrip() for line in PAINT.sub("", painted).splitlines()
    ]
    for line in painted.splitlines():
        assert line.count("\x1b[0m") * 2 == line.count("\x1b")


@given(messages(), st.integers(90, 200))
def test_lines_fit_the_width(message: Message, width: int) -> None:
    text = render_text(message, width=width)
    assert max(map(columns, text.splitlines()), default=0) <= width


def test_wide_characters_keep_the_columns() -> None:
    message = Message("", application_properties={"日本語": "値", "e\u0301": 1, "x": 2})
    lines = [
        line for line in render_text(message).splitlines() if " string" in line or " long" in line
    ]
    starts = {
        columns(line[: line.index(kind)])
        for line in lines
        for kind in ("string str8", "long smalllong")
        if kind in line
    }
    assert 1 == len(starts)


@pytest.mark.once
def test_text_needs_only_the_core() -> None:
    code = (
        "import sys; from amqp10msg.notation import render_text; render_text(b'', color=True);"
        "sys.exit(bool({'rich', 'click', 'cbor2'} & sys.modules.keys()))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
