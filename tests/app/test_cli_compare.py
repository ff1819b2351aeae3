"""``amqp10msg compare``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from amqp10msg import Message, UInt, ULong
from amqp10msg.app.cli import main
from amqp10msg.notation import from_typed

DATA, DATA_32 = "005375a00178", "005375b00000000178"
BEFORE = Message("x", subject="s", message_id=5, application_properties={"n": UInt(2)})
AFTER = Message("x", subject="t", durable=True, application_properties={"n": ULong(2)})


def run(*arguments: Any, stdin: str | None = None) -> Any:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)], input=stdin)


def lines(path: Path, *messages: str) -> Path:
    path.write_text("".join(json.dumps({"raw": octets}) + "\n" for octets in messages))
    return path


@pytest.mark.parametrize(
    "first, second, options, status, text",
    [
        (DATA, DATA, (), 0, "A and B: equal content\n1 pair of messages: 1 equal\n"),
        (DATA, DATA_32, (), 0, "A and B: equal content, other bytes from byte 3\n"),
        (DATA, DATA_32, ("--bytes",), 1, "1 pair of messages: 1 equal with other bytes\n"),
        (DATA, "005375a00179", (), 1, "A and B: 1 difference\n  body: b'x' -> b'y'\n"),
        (DATA, "005375a001", (), 1, "the argument: at byte 5 (data): the value needs 1 more byte"),
        (
            BEFORE.encode().hex(),
            AFTER.encode().hex(),
            (),
            1,
            (
                "A and B: 4 differences\n"
                "  header: added Header(durable=True)\n"
                "  properties.message-id: removed ULong(5)\n"
                "  properties.subject: 's' -> 't'\n"
                "  application-properties['n']: UInt(2) -> ULong(2)\n"
                "1 pair of messages: 1 different\n"
            ),
        ),
    ],
)
def test_two_messages(
    first: str, second: str, options: tuple[str, ...], status: int, text: str
) -> None:
    result = run(first, second, *options)

    assert status == result.exit_code, result.output
    assert text in result.stdout


def test_files_are_compared_message_by_message(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", DATA, DATA, BEFORE.encode().hex())
    second = lines(tmp_path / "b.jsonl", DATA, DATA_32)

    result = run(first, second)
    assert 1 == result.exit_code
    assert result.stdout.splitlines() == [
        f"{first}:1 and {second}:1: equal content",
        f"{first}:2 and {second}:2: equal content, other bytes from byte 3",
        f"{first}:3: B has no such message",
        "3 pairs of messages: 1 equal, 1 equal with other bytes, 1 different",
    ]
    assert 0 == run(f"{first}:1", f"{second}:2").exit_code
    assert 0 == run(first, "-", stdin=first.read_text()).exit_code


def test_json(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", BEFORE.encode().hex(), DATA, "00")
    second = lines(tmp_path / "b.jsonl", AFTER.encode().hex(), DATA_32, DATA, DATA)

    result = run("--json", first, second)
    assert 1 == result.exit_code
    changed, other, unreadable, missing, summary = map(json.loads, result.stdout.splitlines())
    assert ["different", "other_bytes", "unreadable", "different"] == [
        one["verdict"] for one in (changed, other, unreadable, missing)
    ]
    assert [str(first) + ":1", str(second) + ":1"] == changed["sources"]
    found = {one["path"]: one for one in changed["differences"]}
    assert {"path": "properties.subject", "kind": "changed", "before": "s", "after": "t"} == {
        **found["properties.subject"],
        **{key: from_typed(found["properties.subject"][key]) for key in ("before", "after")},
    }
    assert {"path", "kind", "after"} == found["header"].keys()
    assert 3 == other["offset"]
    assert "A has no such message" == missing["error"]
    counts = {"equal": 0, "other_bytes": 1, "different": 2, "unreadable": 1}
    assert {"summary": {"pairs": 4, **counts}} == summary


def test_unreadable_message_without_counterpart_is_unreadable(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", DATA)
    second = tmp_path / "b.jsonl"
    second.write_text(first.read_text() + '{"raw": "0053')

    result = run(first, second)
    assert 1 == result.exit_code
    assert f"{second}:2: A has no such message, and not JSON" in result.stdout
    assert "2 pairs of messages: 1 equal, 1 not readable" in result.stdout


@pytest.mark.parametrize("arguments", [(), (DATA,), ("-", "-"), (DATA, DATA, DATA)])
def test_wrong_arguments(arguments: tuple[str, ...]) -> None:
    assert 2 == run(*arguments).exit_code


def test_terminal_gets_colors() -> None:
    result = CliRunner().invoke(main, ["compare", "--color", DATA, "005375a00179"], color=True)

    assert "\x1b[33m  body: b'x' -> b'y'\x1b[0m" in result.stdout
