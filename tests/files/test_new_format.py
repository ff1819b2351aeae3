"""Adding a file format, as CONTRIBUTING describes it: a reader, and one entry of one table.

The test copies the package, adds a format to the copy by editing its source, and uses the copy.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import Message
from amqp10msg.files import FORMATS
from tests.package_copy import PACKAGE, copy_package, run_python

pytest.importorskip("click")
pytest.importorskip("rich")

TABLES = PACKAGE.parent / "docs" / "_ext"
#: Netstrings: the size in decimal digits, a colon, the message and a comma.
READER = """
def _read_netstrings(
    stream: Any, start: int, stop: int | None, max_size: int, limits: Limits
) -> Iterator[Record]:
    from amqp10msg.files._record import Record

    offset = start
    while stop is None or offset < stop:
        digits = b""
        while (digit := stream.read(1)).isdigit():
            digits += digit
        if not digits:
            return
        message = stream.read(int(digits))
        stream.read(1)
        yield Record(offset, message)
        offset += len(digits) + len(message) + 2


def _find_netstring_ranges(path: Path, size: int, octets: int) -> list[int]:
    with path.open("rb") as file:
        starts = [record.offset for record in _read_netstrings(file, 0, None, 1 << 20, None)]
    return [start for i, start in enumerate(starts) if i == 0 or start >= octets]


"""
ENTRY = """    FileFormat(
        name="netstring",
        description="each message as a netstring",
        hint="these are netstrings: read them as netstring",
        read=_read_netstrings,
        find_ranges=_find_netstring_ranges,
        suffixes=(".netstring",),
        signature=re.compile(rb"[1-9][0-9]*:\\x00"),
        may_be_empty=True,
    ),
"""
PROGRAM = """
import json, sys
from pathlib import Path
from amqp10msg import files

path, empty = Path("signed"), Path("empty.netstring")
empty.write_bytes(b"")
json.dump(
    {
        "form of content": files.form_of(path),
        "form of name": files.form_of_name("x.netstring.gz"),
        "form of an empty file": files.form_of(empty),
        "messages": [record.wire.hex() for record in files.read(path)],
        "ranges": [item.start for item in files.ranges(path, octets=1)],
        "names": list(files.FORMS),
        "fault": next(files.read(path, "prefixed")).fault,
    },
    sys.stdout,
)
"""
MESSAGES = [Message("hello").encode(), Message(b"x").encode()]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package that reads netstrings, and a file of two messages."""
    folder = tmp_path_factory.mktemp("copy")
    start = "_ALL_FORMATS = (\n"
    copy_package(folder, "files/formats.py", start, READER + start + ENTRY)
    netstrings = [b"%d:%b," % (len(message), message) for message in MESSAGES]
    (folder / "signed").write_bytes(b"".join(netstrings))
    return folder


def test_new_format_is_recognised_read_and_divided(copy: Path) -> None:
    answer: dict[str, Any] = json.loads(run_python(copy, "-c", PROGRAM))

    assert "netstring" == answer["form of content"]
    assert "netstring" == answer["form of name"]
    assert "netstring" == answer["form of an empty file"]
    assert [message.hex() for message in MESSAGES] == answer["messages"]
    assert [0, len(MESSAGES[0]) + len(str(len(MESSAGES[0]))) + 2] == answer["ranges"]
    assert ["netstring", *FORMATS] == answer["names"]
    assert answer["fault"].endswith("; these are netstrings: read them as netstring")


def test_commands_read_a_new_format(copy: Path) -> None:
    helped = " ".join(run_python(copy, "-m", "amqp10msg", "convert", "--help").split())
    converted = run_python(copy, "-m", "amqp10msg", "convert", "--out", "hex", "signed")
    named = run_python(
        copy, "-m", "amqp10msg", "convert", "-f", "netstring", "--out", "hex", "signed"
    )

    assert "netstring each message as a netstring (input only)" in helped
    assert "One of netstring, raw, prefixed" in helped
    assert [message.hex() for message in MESSAGES] == converted.split()
    assert converted == named


def test_jobs_read_a_new_format(copy: Path) -> None:
    pytest.importorskip("pyarrow")

    helped = " ".join(run_python(copy, "-m", "amqp10msg", "pipeline", "decode", "--help").split())
    job = ("pipeline", "validate", "--engine", "local", "--format", "netstring", "signed", "out")
    reported = run_python(copy, "-m", "amqp10msg", *job)

    assert "One of netstring, raw, prefixed" in helped
    assert "2 messages" in reported


@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="sphinx is not installed")
def test_page_lists_a_new_format(copy: Path) -> None:
    program = "import amqp_tables; print(amqp_tables.file_formats())"
    shown = run_python(copy, "-c", f"import sys; sys.path.insert(0, {str(TABLES)!r}); {program}")

    assert "| `netstring` | each message as a netstring | `.netstring` | yes |" in shown


def test_fuzzer_draws_every_format() -> None:
    from fuzz.files import FORMS  # noqa: PLC0415  (needs pyarrow)

    assert FORMS.keys() >= FORMATS.keys() - {"raw"}
