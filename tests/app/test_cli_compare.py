"""``amqp10msg compare``."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message, UInt, ULong, differences
from amqp10msg.app.cli import compare as command
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
        "3 pairs of messages: 1 equal, 1 equal with other bytes, 1 without a counterpart",
        "A has 3 messages, B has 2",
    ]
    assert 0 == run(f"{first}:1", f"{second}:2").exit_code
    assert 0 == run(first, "-", stdin=first.read_text()).exit_code


def test_json(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", BEFORE.encode().hex(), DATA, "00")
    second = lines(tmp_path / "b.jsonl", AFTER.encode().hex(), DATA_32, DATA, DATA)

    result = run("--json", first, second)
    assert 1 == result.exit_code
    changed, other, unreadable, missing, summary = map(json.loads, result.stdout.splitlines())
    assert ["different", "other_bytes", "unreadable", "unpaired"] == [
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
    counts = {"equal": 0, "other_bytes": 1, "different": 1, "unpaired": 1, "unreadable": 1}
    sizes = {"messages": {"A": 3, "B": 4}}
    assert {"summary": {"pairs": 4, **counts, **sizes}} == summary


def test_unreadable_message_without_counterpart_is_unreadable(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", DATA)
    second = tmp_path / "b.jsonl"
    second.write_text(first.read_text() + '{"raw": "0053')

    result = run(first, second)
    assert 1 == result.exit_code
    assert f"{second}:2: A has no such message, and not JSON" in result.stdout
    assert "2 pairs of messages: 1 equal, 1 not readable" in result.stdout


IDS = st.sampled_from(["a", "b", ULong(1), "1", None])


@given(st.lists(IDS, min_size=2, max_size=6), st.lists(IDS, min_size=2, max_size=6))
def test_pairs_by_message_id(old: list[Any], new: list[Any]) -> None:
    before, after = (
        [Message(n, message_id=name).encode().hex() for n, name in enumerate(names)]
        for names in (old, new)
    )
    with TemporaryDirectory() as folder:
        first, second = Path(folder, "a.jsonl"), Path(folder, "b.jsonl")
        options = ("--by", "message-id", "--json")
        result = run(*options, lines(first, *before), lines(second, *after))
    *pairs, summary = map(json.loads, result.stdout.splitlines())

    keys = {(type(name), name) for name in [*old, *new]}
    counts = [[sum((type(x), x) == key for x in names) for names in (old, new)] for key in keys]
    assert sum(min(count) for count in counts) == sum(len(pair["sources"]) == 2 for pair in pairs)
    assert sum(max(count) for count in counts) == len(pairs) == summary["summary"]["pairs"]
    assert {"A": len(old), "B": len(new)} == summary["summary"]["messages"]
    for pair in pairs:
        if len(pair["sources"]) == 2:
            a, b = (int(source.rpartition(":")[2]) - 1 for source in pair["sources"])
            assert (type(old[a]), old[a]) == (type(new[b]), new[b])
    assert int(summary["summary"]["equal"] < len(pairs)) == result.exit_code


def test_moved_messages_are_equal_by_message_id(tmp_path: Path) -> None:
    octets = [Message(n, message_id=f"m-{n}").encode().hex() for n in range(5)]
    first, second = lines(tmp_path / "a.jsonl", *octets), lines(tmp_path / "b", *octets[::-1])

    assert 1 == run(first, second).exit_code
    result = run("--by", "message-id", first, second)
    assert 0 == result.exit_code
    assert f"{first}:1 and {second}:5: equal content\n" in result.stdout
    assert result.stdout.endswith("5 pairs of messages: 5 equal\n")


def test_unreadable_messages_have_no_counterpart(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", "005375a005", DATA)
    second = lines(tmp_path / "b.jsonl", DATA, "005375a005")

    result = run("--by", "message-id", first, second)
    assert 1 == result.exit_code
    summary = "3 pairs of messages: 1 equal, 2 without a counterpart"
    assert summary in result.stdout


BARE = Message("x", subject="s", application_properties={"n": 1})


@pytest.mark.parametrize("is_bytes", [False, True])
@pytest.mark.parametrize(
    "changes, status",
    [
        ({"durable": True}, 0),
        ({"delivery_annotations": {"x": 1}, "message_annotations": {"x-y": 2}}, 0),
        ({"footer": {"x-f": 1}}, 0),
        ({"subject": "t"}, 1),
        ({"application_properties": {"n": 2}}, 1),
        ({"body": "y"}, 1),
    ],
)
def test_bare_message(changes: dict[str, Any], status: int, is_bytes: bool) -> None:
    octets = [BARE.encode().hex(), BARE.evolve(**changes).encode().hex()]
    options = ["--bytes"] if is_bytes else []

    assert 1 == run(*octets).exit_code
    assert status == run("--bare", *options, *octets).exit_code


def test_bytes_of_the_bare_message_are_compared() -> None:
    result = run("--bare", "--bytes", f"00537045{DATA}", DATA_32)

    assert 1 == result.exit_code
    assert "equal content, other bytes from byte 3 of the bare message\n" in result.stdout


def test_equal_differences_are_grouped(tmp_path: Path) -> None:
    messages = [Message(b"x", message_id=f"m-{n}") for n in range(4)]
    moved = [message.evolve(durable=True) for message in messages[:3]]
    moved[1] = moved[1].evolve(subject="s")
    first = lines(tmp_path / "a.jsonl", *(message.encode().hex() for message in messages))
    second = lines(tmp_path / "b.jsonl", *(message.encode().hex() for message in moved))

    result = run("--group", first, second)
    assert 1 == result.exit_code
    assert result.stdout.splitlines() == [
        f"{first}:4: B has no such message",
        f"3 pairs, first {first}:1 and {second}:1",
        "  header: added Header(durable=True)",
        f"1 pair, first {first}:2 and {second}:2",
        "  properties.subject: added 's'",
        "4 pairs of messages: 3 different, 1 without a counterpart",
        "A has 4 messages, B has 3",
    ]
    _, group, *_ = map(json.loads, run("--group", "--json", first, second).stdout.splitlines())
    assert (3, [f"{first}:1", f"{second}:1"]) == (group["pairs"], group["first"])
    (difference,) = differences(messages[0], moved[0])
    assert (difference.path, difference.kind) == tuple(group["difference"].values())[:2]


def test_number_of_groups_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_MAX_GROUPS", 2)
    first = lines(tmp_path / "a.jsonl", *(Message(n).encode().hex() for n in range(5)))
    second = lines(tmp_path / "b.jsonl", *(Message(-n).encode().hex() for n in range(1, 6)))

    result = run("--group", first, second)
    assert "3 other differences left out: compare without --group to see them" in result.stdout
    last = run("--group", "--json", first, second).stdout.splitlines()[-1]
    assert 3 == json.loads(last)["summary"]["differences_left_out"]


def test_terminal_gets_colors() -> None:
    result = CliRunner().invoke(main, ["compare", "--color", DATA, "005375a00179"], color=True)

    assert "\x1b[33m  body: b'x' -> b'y'\x1b[0m" in result.stdout
