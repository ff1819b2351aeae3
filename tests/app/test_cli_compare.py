"""``amqp10msg compare``."""

from __future__ import annotations

import json
from collections import Counter
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
        f"{first}:3: missing from B",
        "3 pairs of messages: 1 equal, 1 equal with other bytes, 1 missing from B",
        "matched: 1 by bytes, 1 by content",
        "A has 3 messages, B has 2",
    ]
    assert 0 == run(f"{first}:1", f"{second}:2").exit_code
    assert 0 == run(first, "-", stdin=first.read_text()).exit_code


def test_json(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", BEFORE.encode().hex(), DATA, "00")
    second = lines(tmp_path / "b.jsonl", AFTER.encode().hex(), DATA_32, DATA, DATA)

    result = run("--json", "--by", "position", first, second)
    assert 1 == result.exit_code
    changed, other, unreadable, missing, summary = map(json.loads, result.stdout.splitlines())
    assert ["different", "other_bytes", "unreadable", "missing_from_a"] == [
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
    assert "missing from A" == missing["error"]
    counts = {"equal": 0, "other_bytes": 1, "different": 1, "unreadable": 1}
    counts |= {"missing_from_a": 1, "missing_from_b": 0, "duplicate": 0}
    matched = {"message-id": 0, "bytes": 0, "content": 0, "position": 3}
    sizes = {"messages": {"A": 3, "B": 4}, "matched": matched}
    assert {"summary": {"pairs": 4, **counts, **sizes}} == summary


def test_unreadable_message_without_counterpart_is_unreadable(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", DATA)
    second = tmp_path / "b.jsonl"
    second.write_text(first.read_text() + '{"raw": "0053')

    result = run(first, second)
    assert 1 == result.exit_code
    assert f"{second}:2: missing from A, and not JSON" in result.stdout
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

    assert 1 == run("--by", "position", first, second).exit_code
    for options in ((), ("--by", "message-id")):
        result = run(*options, first, second)
        assert 0 == result.exit_code
        assert f"{first}:1 and {second}:5: equal content\n" in result.stdout
        assert result.stdout.endswith("5 pairs of messages: 5 equal\nmatched: 5 by message-id\n")


def test_unreadable_messages_have_no_counterpart(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", "005375a005", DATA)
    second = lines(tmp_path / "b.jsonl", DATA, "005375a005")

    result = run("--by", "message-id", first, second)
    assert 1 == result.exit_code
    summary = "3 pairs of messages: 1 equal, 2 not readable"
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
        f"{first}:4: missing from B",
        f"3 pairs, first {first}:1 and {second}:1",
        "  header: added Header(durable=True)",
        f"1 pair, first {first}:2 and {second}:2",
        "  properties.subject: added 's'",
        "4 pairs of messages: 3 different, 1 missing from B",
        "matched: 3 by message-id",
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


# Duplicates and missing messages.

# Messages of which some are equal, some have equal content, and some have an id.
POOL = [
    *(Message(n).encode() for n in range(3)),
    *(bytes.fromhex(text) for text in (DATA, DATA_32)),
    *(Message(n, message_id=name).encode() for n in range(2) for name in ("a", ULong(1))),
]


def results(old: list[bytes], new: list[bytes], *options: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the objects for the pairs, and the summary."""
    with TemporaryDirectory() as folder:
        first, second = Path(folder, "a.jsonl"), Path(folder, "b.jsonl")
        paths = [
            lines(path, *(octets.hex() for octets in messages))
            for path, messages in ((first, old), (second, new))
        ]
        result = run("--json", *options, *paths)
    *pairs, last = map(json.loads, result.stdout.splitlines())
    assert int(last["summary"]["equal"] + last["summary"]["other_bytes"] < len(pairs)) == (
        result.exit_code
    )
    return pairs, last["summary"]


MANY = st.lists(st.sampled_from(POOL), min_size=2, max_size=6)


@given(MANY, st.data())
def test_only_duplicates_and_missing_messages_are_reported(
    old: list[bytes], data: st.DataObject
) -> None:
    """File B has the messages of file A in another order: some are missing, some repeated."""
    old = list(dict.fromkeys(old))  # no message is in A twice
    kept = data.draw(st.lists(st.booleans(), min_size=len(old), max_size=len(old)))
    new = [octets for octets, is_kept in zip(old, kept, strict=True) if is_kept]
    again = data.draw(st.lists(st.sampled_from(new), max_size=3)) if new else []
    new = data.draw(st.permutations(new + again))
    if len(new) + len(old) < 3 or not new:
        return

    pairs, summary = results(old, new)

    verdicts = Counter(pair["verdict"] for pair in pairs)
    same_content = {bytes.fromhex(DATA), bytes.fromhex(DATA_32)}
    ids = [Message.decode(octets).message_id for octets in old]
    if same_content <= {*old} or len({*ids} - {None}) < len(ids) - ids.count(None):
        return  # messages with one id or one content: the next test
    assert {
        "equal": sum(kept),
        "missing_from_b": len(old) - sum(kept),
        "duplicate": len(again),
    } == {name: verdicts[name] for name in ("equal", "missing_from_b", "duplicate")}
    assert len(pairs) == verdicts["equal"] + verdicts["missing_from_b"] + verdicts["duplicate"]
    assert sum(kept) == sum(summary["matched"].values())


@given(MANY, MANY, st.sampled_from(["auto", "message-id", "position"]))
def test_every_message_is_in_one_pair(old: list[bytes], new: list[bytes], way: str) -> None:
    pairs, summary = results(old, new, "--by", way)

    sources = [source for pair in pairs for source in pair["sources"]]
    assert len(old) + len(new) == len(sources) == len({*sources})
    assert Counter(pair["matched_by"] for pair in pairs if "matched_by" in pair) == Counter(
        summary["matched"]
    )
    assert all(len(pair["sources"]) == 1 + ("matched_by" in pair) for pair in pairs)


def test_duplicates_are_named(tmp_path: Path) -> None:
    other, named = Message("other").encode().hex(), Message(1, message_id="m").encode().hex()
    first = lines(tmp_path / "a.jsonl", DATA, named, other)
    second = lines(tmp_path / "b.jsonl", named, DATA, DATA_32, named)

    result = run(first, second)

    assert 1 == result.exit_code
    assert result.stdout.splitlines() == [
        f"{first}:1 and {second}:2: equal content",
        f"{first}:2 and {second}:1: equal content",
        f"{first}:3: missing from B",
        f"{second}:3: duplicate of {second}:2",
        f"{second}:4: duplicate of {second}:1",
        "5 pairs of messages: 2 equal, 1 missing from B, 2 duplicate",
        "matched: 1 by message-id, 1 by bytes",
        "A has 3 messages, B has 4",
    ]


def test_changed_messages_without_an_id_are_matched_in_order(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.jsonl", *(Message(n).encode().hex() for n in (1, 2, 3)))
    second = lines(tmp_path / "b.jsonl", *(Message(n).encode().hex() for n in (9, 2, 8)))

    result = run(first, second)

    assert f"{first}:1 and {second}:1: 1 difference" in result.stdout
    assert f"{first}:3 and {second}:3: 1 difference" in result.stdout
    assert result.stdout.endswith("matched: 1 by bytes, 2 by position\n")
