"""The way of a message, as the page about the design has it: the files that a tracer counts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import amqp10msg
from amqp10msg import COMPILED, Header, Message, Properties
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_content_header,
    encode_content_header,
)
from amqp10msg.translate import to_amqp10, to_basic

ROOT = Path(amqp10msg.__file__).parent
PAGE = ROOT.parent / "docs/explanation/design.md"
WIRE = Message(
    b"x",
    header=Header(durable=True),
    properties=Properties(message_id="1", content_type="text/plain"),
    application_properties={"a": 1},
).encode()
MESSAGE = Message.decode(WIRE)
GIVEN = BasicProperties(message_id="1", headers=FieldTable.of([("a", "I", 1)]))
# As it comes from a broker, too.
HEADER = decode_content_header(encode_content_header(GIVEN, 1))
BASIC = BasicMessage(HEADER.properties, b"x", "e", "k")
WAYS: dict[str, Callable[[], object]] = {
    "Message.decode": lambda: Message.decode(WIRE),
    "to_basic": lambda: to_basic(MESSAGE),
    "to_amqp10": lambda: to_amqp10(BASIC),
}


def listed() -> dict[tuple[str, bool], set[str]]:
    """The files of each way and build in the table of the page."""
    rows = PAGE.read_text(encoding="utf-8").partition("<!-- ways -->\n\n")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows.splitlines()[2:]]
    return {
        (way.strip("`"), compiled == "yes"): {name.strip("`") for name in files.split()}
        for way, compiled, files in cells
    }


def entered(work: Callable[[], object]) -> set[str]:
    """The files of the package in which a function was called, after what is done once."""
    work()
    found = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(ROOT):
            found.add(file.relative_to(ROOT).as_posix())

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_the_page_lists_the_files_of_a_way(way: str) -> None:
    files = listed().get((way, COMPILED))
    if files is None:
        pytest.skip("the page lists this way compiled")

    assert files == entered(WAYS[way])


def test_the_tracer_sees_a_file() -> None:
    assert {"message/__init__.py"} <= entered(lambda: Message(b"x").encode())
    assert {way for way, _ in listed()} == set(WAYS)
