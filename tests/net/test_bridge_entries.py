"""Lines of messages as a source: captured messages, and lines that cannot be trusted."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

click_testing = pytest.importorskip("click.testing")

from amqp10msg import Message  # noqa: E402
from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.basic import BasicMessage, BasicProperties, encode_content_header  # noqa: E402
from amqp10msg.net.bridge import read_quarantine  # noqa: E402
from amqp10msg.net.bridge.routes import read_routes  # noqa: E402
from amqp10msg.net.ends.entries import _MAX_SIZE_OF_FIELDS, Entry, Unreadable, entries_in, entry_of  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402
from amqp10msg.testing import basic_messages  # noqa: E402

pytestmark = [pytest.mark.usefixtures("in_a_folder"), pytest.mark.once]


@pytest.fixture
def target() -> Iterator[Server]:
    with Server(accept_durable=True) as server:
        yield server


def whole(message: BasicMessage) -> bytes:
    """Return the content header and the body, as in a capture."""
    return encode_content_header(message.properties, len(message.body)) + message.body


def bridge(target: Server, lines: list[str], protocol: str, status: int, count: int) -> Any:
    Path("in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    command = ["bridge", "--from", f"file:in.jsonl?protocol={protocol}", "--report", "report.json"]
    command += ["--to", f"{target.url}/to", "--max-messages", f"{count}"]
    done = click_testing.CliRunner().invoke(main, command)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert status == done.exit_code, done.output
    return done


SAMPLE = BasicMessage(BasicProperties(message_id="m-1", content_type="text/plain"), b"body")


@pytest.mark.parametrize(
    "line",
    [
        {"raw": whole(SAMPLE).hex()},
        {"hex": whole(SAMPLE).hex().upper()},
        {"raw": whole(SAMPLE).hex(), "protocol": "0-9-1"},
        {"raw": whole(SAMPLE).hex(), "content_header": len(whole(SAMPLE)) - 4},
        {"raw": whole(SAMPLE).hex(), "exchange": "", "extra": [1]},
    ],
)
def test_captured_messages_are_bridged(target: Server, line: dict[str, Any]) -> None:
    bridge(target, [json.dumps(line)] * 2, "0-9-1", 0, 2)

    assert ["m-1", "m-1"] == [message.message_id for message in target.messages("to")]
    assert b"body" == target.messages("to")[0].body.data  # type: ignore[union-attr]


@settings(max_examples=50)
@given(basic_messages())
def test_content_header_of_a_captured_message_is_found(message: BasicMessage) -> None:
    octets = whole(message)
    entry = entry_of({"raw": octets.hex()}, None, protocol="0-9-1")

    assert (octets, message.body) == (entry.raw, entry.octets)


GOOD = json.dumps({"raw": Message("good").encode().hex()})


@pytest.mark.parametrize(
    "bad, said",
    [
        ({"raw_file": "/etc/hostname"}, "is outside of the folder"),
        ({"raw_file": "../secret"}, "is outside of the folder"),
        ({"raw_file": "inside/../../secret"}, "is outside of the folder"),
        ({"raw_file": "link"}, "is outside of the folder"),
        ({"raw_file": "/dev/zero"}, "is outside of the folder"),
        ({"raw_file": "nope"}, "is not a regular file"),
        ({"raw_file": "inside"}, "is not a regular file"),
        ({"raw_file": "pipe"}, "is not a regular file"),
        ({"raw_file": "loop"}, "raw_file 'loop'"),
        ({"raw_file": "a\0b"}, "raw_file"),
        ({"raw_file": "x" * 5_000}, "raw_file"),
        ({"raw_file": 5}, "raw_file must be the name of a file"),
        ({"raw_file": ""}, "raw_file must be the name of a file"),
        ({"raw": 5}, "none of the fields raw"),
        ({"raw": "0"}, "'raw' cannot be decoded: not hex"),
        ({"raw": "00", "protocol": "0-9-1"}, "are not a content header and a body"),
        ({"raw": "00", "protocol": "2.0"}, "protocol must be 0-9-1 or 1.0, not '2.0'"),
        ({"raw": "00", "protocol": ["1.0"]}, "protocol must be 0-9-1 or 1.0"),
        ({"raw": "00" * 20, "protocol": "0-9-1", "content_header": -1}, "from 0 to 20, not -1"),
        ({"raw": "00" * 20, "protocol": "0-9-1", "content_header": 10**10}, "from 0 to 20"),
        ({"raw": "00" * 20, "protocol": "0-9-1", "content_header": True}, "from 0 to 20, not True"),
        ({"raw": "00" * 20, "protocol": "0-9-1", "content_header": 1.0}, "from 0 to 20, not 1.0"),
        ({"raw": "00" * 20, "protocol": "0-9-1", "content_header": None}, "from 0 to 20, not None"),
        ({"raw_file": "small", "protocol": "0-9-1", "content_header": 10**10}, "from 0 to 5"),
        ({"raw": "00", "exchange": 5}, "exchange must be a string"),
        ({"raw": "00", "exchange": "\ud800"}, "exchange has half of a surrogate pair"),
        ({"raw": "00", "message_format": -1}, "a number of 32 bits"),
        ({"raw": "00", "reason": "unreadable", "description": "before"}, "quarantined before"),
        ({"raw": "00", "protocol": "0-9-1", "content_header": 1}, "is of AMQP 0-9-1"),
        ("[" * 200_000, "nested too deeply"),
        ("5", "a line must be a JSON object"),
        ("null", "a line must be a JSON object"),
        ("\xff", "not JSON"),
        ('{"raw": "00', "not JSON"),
        ('{"raw": "00", "raw": "01"}', "occurs twice"),
    ],
)
def test_bad_line_is_quarantined_and_the_rest_is_sent(
    target: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: Any, said: str
) -> None:
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    monkeypatch.chdir(folder)
    (tmp_path / "secret").write_bytes(Message("secret").encode())
    Path("small").write_bytes(b"12345")
    Path("link").symlink_to(tmp_path / "secret")
    Path("loop").symlink_to("loop")
    os.mkfifo("pipe")
    line = bad if isinstance(bad, str) else json.dumps(bad)
    done = bridge(target, [GOOD, line, GOOD], "1.0", 5, 3)

    assert ["good", "good"] == [message.text() for message in target.messages("to")]
    (counts,) = json.loads(Path("report.json").read_text())["routes"]
    assert (3, 2, {"unreadable": 1}) == (
        counts["received"],
        counts["accepted"],
        counts["quarantined"],
    )
    (aside,) = Path("quarantine.jsonl").read_text().splitlines()
    found = json.loads(aside)
    assert "line 2" in found["description"] or "message 2" in found["description"]
    assert said in found["description"]
    assert "1 message in quarantine: unreadable" in done.output
    assert "secret" not in bytes.fromhex(found["raw"]).decode("latin-1").replace(line, "")


def test_raw_file_below_the_folder_is_read(target: Server) -> None:
    folder = Path("q.jsonl.large")
    folder.mkdir()
    (folder / "one.bin").write_bytes(Message("large").encode())
    (folder / "link.bin").symlink_to("one.bin")
    lines = [json.dumps({"raw_file": f"q.jsonl.large/{name}.bin"}) for name in ("one", "link")]
    bridge(target, lines, "1.0", 0, 2)

    assert ["large", "large"] == [message.text() for message in target.messages("to")]


@pytest.mark.parametrize(
    "error, exit_status", [(errno.EIO, 1), (errno.EMFILE, 1), (errno.ENOENT, 5)]
)
def test_local_error_of_a_message_file_does_not_blame_the_message(
    target: Server, monkeypatch: pytest.MonkeyPatch, error: int, exit_status: int
) -> None:
    folder = Path("in.jsonl.large")
    folder.mkdir()
    (folder / "one.bin").write_bytes(Message("large").encode())
    Path("in.jsonl").write_text(f'{GOOD}\n{{"raw_file": "in.jsonl.large/one.bin"}}\n{GOOD}\n')

    def read_bytes(path: Path) -> bytes:
        raise OSError(error, os.strerror(error), str(path))

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    command = ["bridge", "--from", "file:in.jsonl", "--to", f"{target.url}/to"]
    done = click_testing.CliRunner().invoke(main, [*command, "--max-messages", "3"])

    assert exit_status == done.exit_code, done.output
    assert Path("quarantine.jsonl").exists() == (error == errno.ENOENT)
    assert "one.bin" in done.output


@pytest.mark.parametrize(
    "body",
    [
        b'{"raw_file": "/etc/hostname"}',
        b'{"raw_file": "in.jsonl"}',
        b"[" * 200_000,
        b'{"raw": "00", "protocol": "0-9-1", "content_header": -1}',
        b'{"raw": "00", "protocol": "0-9-1", "content_header": 10000000000}',
    ],
)
def test_line_from_a_queue_cannot_name_a_file(body: bytes) -> None:
    Path("in.jsonl").write_text("secret")
    with Server() as server:
        server.publish("lines", Message(body))
        server.publish("lines", Message(GOOD.encode()))
        command = ["bridge", "--from", f"{server.url}/lines", "--max-messages", "2"]
        command += ["--to", "file:out.jsonl?entries=true"]
        done = click_testing.CliRunner().invoke(main, command)

    assert 5 == done.exit_code, done.output
    assert [GOOD] == Path("out.jsonl").read_text().splitlines()


def test_dry_run_shows_a_bad_line_as_example(target: Server) -> None:
    Path("in.jsonl").write_text(f'{GOOD}\n{{"raw_file": "nope"}}\n')
    command = ["bridge", "--from", "file:in.jsonl", "--to", f"{target.url}/to", "--dry-run"]
    done = click_testing.CliRunner().invoke(main, [*command, "--idle", "0.1"])

    assert 0 == done.exit_code, done.output
    assert "1 message cannot be sent: in.jsonl, line 2: not a message: raw_file" in done.output


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    ["raw", "hex", "raw_file", "protocol", "content_header", "message_format", "exchange", "time"]
)
USUAL = st.sampled_from(["00", "0-9-1", "1.0", "../x", "/dev/zero", "003c" + "00" * 12, 14, 0, -1])


@settings(max_examples=200)
@given(st.dictionaries(FIELDS, USUAL | JSON, max_size=5), st.sampled_from(["0-9-1", "1.0"]))
def test_any_line_is_a_message_or_a_value_error(line: dict[str, Any], protocol: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for place in (None, Path(folder)):
            with contextlib.suppress(ValueError):
                entry = entry_of(line, place, protocol=protocol)
                assert entry.file is None
                assert entry.raw == (entry.content_header or b"") + entry.octets


@pytest.mark.parametrize("end", ["", '"}', '"}\n'])
def test_line_that_is_too_long_is_not_an_unfinished_line(tmp_path: Path, end: str) -> None:
    """The message of an unfinished line was not settled; that of a long line may be lost."""
    path = tmp_path / "in.jsonl"
    path.write_text('{"raw": "' + "00" * _MAX_SIZE_OF_FIELDS + end)
    (entry,) = entries_in(path, max_message=10)

    assert isinstance(entry, Unreadable)
    assert not entry.unfinished
    assert "larger than" in entry.fault


@settings(max_examples=200)
@given(st.binary(max_size=60))
@example(b"[" * 200_000)
@example(b"1" * 5_000)
def test_any_file_is_read_or_refused(octets: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "q.jsonl")
        path.write_bytes(octets)
        found = list(entries_in(path))
        assert len(found) <= octets.count(b"\n") + 1
        assert all(isinstance(one, Entry) or "q.jsonl, line" in one.fault for one in found)
        with contextlib.suppress(ValueError):
            list(read_quarantine(path))


@pytest.mark.parametrize(
    "octets",
    [b"a = " + b"[" * 200_000, b"route = " + b"{a=" * 100_000, b"\xff"],
    ids=["lists", "tables", "no UTF-8"],
)
def test_unreadable_routes_file_is_named(octets: bytes) -> None:
    Path("routes.toml").write_bytes(octets)

    with pytest.raises(ValueError, match=r"routes\.toml"):
        read_routes(Path("routes.toml"))
    done = click_testing.CliRunner().invoke(main, ["bridge", "--config", "routes.toml"])
    assert 2 == done.exit_code
    assert "routes.toml" in done.output
