"""Damaged JSON and state files from outside: one documented kind of error, which says where."""

from __future__ import annotations

import contextlib
import http.server
import json
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("pika")

from amqp10msg import Message  # noqa: E402
from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.files.text import load_json  # noqa: E402
from amqp10msg.net.bridge import parse_url  # noqa: E402
from amqp10msg.net.bridge.management import Management, Queue, queues_of  # noqa: E402
from amqp10msg.net.bridge.records import Ledger, Positions  # noqa: E402
from amqp10msg.net.bridge.topology import plan  # noqa: E402
from amqp10msg.net.ends.contents import position_of  # noqa: E402
from amqp10msg.net.ends.terms import SourceDelivery  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402
from amqp10msg.wire.primitives import ULong  # noqa: E402
from tests.damaged_json import damaged_json  # noqa: E402
from tests.management_api import serving  # noqa: E402

pytestmark = [pytest.mark.usefixtures("in_a_folder"), pytest.mark.once]

QUEUE = {
    "name": "q",
    "type": "classic",
    "messages": 1,
    "durable": True,
    "auto_delete": False,
    "exclusive": False,
    "policy": "p",
    "effective_policy_definition": {"ha-mode": "all"},
    "arguments": {"x-dead-letter-exchange": "e"},
}
ANSWERS: dict[str, Any] = {
    "overview": {"rabbitmq_version": "4.0.5"},
    "queues": {"items": [QUEUE], "page_count": 1},
    "exchanges": [
        {"name": "", "type": "direct", "durable": True, "auto_delete": False, "internal": False},
        {"name": "e", "type": "fanout", "arguments": {"alternate-exchange": "f"}},
    ],
    "bindings": [
        {"source": "e", "destination": "q", "destination_type": "queue", "routing_key": "k"}
    ],
    "policies": [{"name": "p", "pattern": ".*", "apply-to": "queues", "definition": {"a": 1}}],
}


class Answers(Management):
    """A management API whose answers are given, by the first word of the path."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        super().__init__("http://localhost", parse_url("amqp091://localhost/?queue=q"))
        self.answers = answers

    def _request(self, url: str, method: str = "GET", body: bytes | None = None) -> bytes:
        assert method == "GET", body
        path = url.removeprefix("http://localhost/api/")
        return self.answers[path.partition("/")[0].partition("?")[0]]


def answers_with(kind: str, octets: bytes) -> Answers:
    return Answers({**{name: json.dumps(v).encode() for name, v in ANSWERS.items()}, kind: octets})


def test_undamaged_answers_are_accepted() -> None:
    """Otherwise the property below would be vacuous."""
    whole = answers_with("overview", json.dumps(ANSWERS["overview"]).encode())

    assert ["q"] == [queue.name for queue in queues_of(whole)]
    assert {"policy", "exchange", "queue", "binding"} == {
        step.kind for step in plan(whole, whole, {"q": "q"})
    }


@settings(max_examples=300)
@given(st.data(), st.sampled_from(sorted(ANSWERS)))
def test_a_damaged_answer_of_the_management_api_is_a_value_error(
    data: st.DataObject, kind: str
) -> None:
    octets = data.draw(damaged_json(ANSWERS[kind]))
    api = answers_with(kind, octets)
    # OSError is a LinkError: a queue that the plan needs is not in the answer.
    for read in (
        lambda: [str(step) for step in plan(api, api, {"q": "q"})],
        lambda: queues_of(api),
        lambda: api.unacknowledged("q"),
        api.version,
    ):
        with contextlib.suppress(ValueError, OSError):
            read()


@settings(max_examples=100)
@given(st.data())
def test_any_object_is_a_queue_or_a_value_error(data: st.DataObject) -> None:
    with contextlib.suppress(ValueError):
        queue = Queue.of(load_json(data.draw(damaged_json(QUEUE))))
        assert queue.name.encode()
        assert isinstance(queue.kind + queue.policy, str)


@contextlib.contextmanager
def answering(octets: bytes) -> Iterator[str]:
    """Answer every HTTP request with these bytes, and yield the URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):  # the client closed the connection
                self.wfile.write(octets)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with serving(Handler) as url:
        yield url


@pytest.mark.parametrize(
    "octets, said",
    [
        (b"[" * 200_000, "nested too deeply"),
        (b"[" * 500 + b"]" * 500, "levels of objects and arrays"),
        (b"1" * 6_000, "not JSON"),
        (b"NaN", "NaN is not a JSON number"),
        (b'{"items": [], "page_count": 1e400}', "too large for a double"),
        (b'{"items": [], "page_count": Infinity}', "Infinity is not a JSON number"),
        (b'{"items": [], "page_count": 1000000000}', "1,000,000,000 pages of queues"),
        (b'{"items": null, "page_count": 1}', "is not a management API of RabbitMQ"),
        (b'{"items": [5], "page_count": 1}', "a queue that is not an object"),
        (b'{"items": [{"name": ["q"], "arguments": {}}], "page_count": 1}', "whose name is ['q']"),
        (b'{"items": [{"name": "\\ud800", "arguments": {}}], "page_count": 1}', "whose name is"),
        (b"\xff", "not JSON"),
        (b"", "not JSON"),
    ],
    ids=range(13),
)
@pytest.mark.parametrize("command", ["migrate-check", "bridge"])
def test_commands_name_the_fault_of_an_answer(command: str, octets: bytes, said: str) -> None:
    with answering(octets) as url:
        arguments = {
            "migrate-check": ["migrate-check", "amqp091://127.0.0.1:1", "--management", url],
            "bridge": [
                *("bridge", "--from", "amqp091://127.0.0.1:1", "--to", "file:x"),
                *("--management", url, "--all-queues", "*"),
            ],
        }[command]
        done = click_testing.CliRunner().invoke(main, arguments)

    assert isinstance(done.exception, SystemExit), done.exception
    assert 2 == done.exit_code
    assert said in done.output


NAME = "in.jsonl -> to"


def table(*statements: str) -> Any:
    def make(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as base:
            for statement in statements:
                base.execute(statement)
            base.commit()

    return make


BYTES = [b"x" * 5_000, b"SQLite format 3\0" + b"\xff" * 5_000]
DAMAGED = [
    *(
        (option, partial(Path.write_bytes, data=octets))
        for option in ("--state", "--deduplicate")
        for octets in BYTES
    ),
    ("--deduplicate", table("CREATE TABLE accepted (x)")),
    ("--state", table("CREATE TABLE position (x)")),
    *(
        (
            "--state",
            table(
                "CREATE TABLE position (route, next)",
                f"INSERT INTO position VALUES ('{NAME}', {value})",
            ),
        )
        for value in ("'x'", "-1", "NULL", "1.5")
    ),
    (
        "--state",
        table(
            "CREATE TABLE fingerprint (route, position, protocol, digest)",
            f"INSERT INTO fingerprint VALUES ('{NAME}', 1, 2, 3)",
        ),
    ),
]


@pytest.mark.parametrize("option, make", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_file_of_a_route_is_named(option: str, make: Any) -> None:
    path = Path("damaged.sqlite")
    make(path)
    Path("in.jsonl").write_text(json.dumps({"raw": Message("x").encode().hex()}) + "\n")
    with Server(accept_durable=True) as broker:
        command = ["bridge", "--from", "file:in.jsonl", "--to", f"{broker.url}/to"]
        command += ["--until-empty", "--idle", "0.1", option, str(path)]
        done = click_testing.CliRunner().invoke(main, command)

    assert isinstance(done.exception, SystemExit), done.exception
    assert 1 == done.exit_code, done.output
    assert "damaged.sqlite: " in done.output.splitlines()[-1]


def test_damaged_schema_is_named() -> None:
    """SQLite's error contains the damaged text, which is not UTF-8."""
    path = Path("state.sqlite")
    Positions(path, "r", active=True).close()
    octets = path.read_bytes()
    name = b"CREATE TABLE fingerprint"
    assert name in octets
    path.write_bytes(octets.replace(name, b"CREATE TABLE fingerpr\xff\xfft"))

    with pytest.raises(OSError, match=r"state\.sqlite"):
        Positions(path, "r", active=True)


@pytest.mark.parametrize("offset", [(1 << 63) - 1, (1 << 64) - 1])
def test_oversized_stream_offset_is_ignored(offset: int) -> None:
    delivery = SourceDelivery(
        Message("x", message_annotations={"x-stream-offset": ULong(offset)}).encode()
    )

    assert position_of(delivery) is None


def test_state_of_a_route_whose_name_is_not_utf_8() -> None:
    delivery = SourceDelivery(b"", position=6)
    for following in (None, 7):
        positions = Positions(Path("state.sqlite"), "\udcff", active=True)
        assert following == positions.next
        positions.receive(delivery)
        positions.finish(delivery)
        positions.save()
        positions.close()
    ledger = Ledger(Path("taken.sqlite"), "\udcff", "amqp://h/\udcff", 10)
    ledger.add(["string:a"])
    assert ledger.has("string:a")
    ledger.close()


@settings(max_examples=200)
@given(st.binary(max_size=80))
@example(b"[" * 200_000)
@example(b'{"a":' * 200_000)
@example(b"9" * 5_000)
@example(b'"\\ud800"')
def test_load_json_returns_a_value_or_raises_value_error(octets: bytes) -> None:
    with contextlib.suppress(ValueError):
        repr(load_json(octets))


def test_damaged_files_and_answers_keep_the_contract(tmp_path: Path) -> None:
    """A short run; `python -m fuzz.stored` tries more."""
    pytest.importorskip("pyarrow")
    from fuzz import stored  # noqa: PLC0415  (needs pyarrow)
    from fuzz.findings import Findings  # noqa: PLC0415  (see above)

    findings = Findings(tmp_path, "stored")
    assert (300, 0) == (stored.run(300, 1, findings), findings.count)
