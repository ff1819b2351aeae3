"""Duplicates for ``--deduplicate``: messages with equal message-ids of the same type."""

from __future__ import annotations

import json
import logging
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("pika")

from amqp10msg import Message, Properties  # noqa: E402
from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.basic import BasicProperties, encode_content_header  # noqa: E402
from amqp10msg.net.bridge import RouteOptions, parse_url  # noqa: E402
from amqp10msg.net.bridge.context import RouteContext  # noqa: E402
from amqp10msg.net.ends.contents import id_fields, identity_of  # noqa: E402
from amqp10msg.net.ends.files import line_of  # noqa: E402
from amqp10msg.net.ends.terms import Outcome, Oversized, SourceDelivery  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402
from amqp10msg.wire.primitives import ULong  # noqa: E402
from tests.bridging import Refusing, between, bodies, numbered, quarantined  # noqa: E402

pytestmark = pytest.mark.usefixtures("in_a_folder")

FIVE = uuid.UUID(int=5)


def of_1_0(message_id: Any) -> dict[str, Any]:
    """Return the line of a 1.0 message in a file."""
    return {"raw": Message(b"x", properties=Properties(message_id=message_id)).encode().hex()}


def of_0_9_1(message_id: str | None) -> dict[str, Any]:
    header = encode_content_header(BasicProperties(message_id=message_id), 1)
    raw = (header + b"x").hex()
    return {"protocol": "0-9-1", "content_header": len(header), "raw": raw}


@pytest.mark.parametrize(
    "lines, accepted",
    [
        ([of_1_0("")] * 3, 3),
        ([of_1_0(b"")] * 3, 3),
        ([of_1_0(None)] * 3, 3),
        ([of_0_9_1("")] * 3, 3),
        ([of_0_9_1(None)] * 3, 3),
        ([of_1_0("a")] * 3, 1),
        ([of_0_9_1("a")] * 3, 1),
        ([of_1_0(message_id) for message_id in ("5", b"5", ULong(5), FIVE, f"{FIVE}", b"\5")], 6),
        ([of_1_0(ULong(0))] * 2, 1),
        # The file has a hash of a long one.
        ([of_1_0("a" * 70)] * 2, 1),
        ([of_1_0("a" * 70 + end) for end in ("", "1", "2")], 3),
    ],
)
@pytest.mark.parametrize("window", ["1", "100"], ids=["one by one", "together"])
def test_only_messages_with_the_same_id_are_duplicates(
    lines: list[dict[str, Any]], accepted: int, window: str
) -> None:
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    protocol = lines[0].get("protocol", "1.0")
    with Server(accept_durable=True) as server:
        command = ["bridge", "--from", f"file:in.jsonl?protocol={protocol}"]
        command += ["--to", f"{server.url}/to", "--deduplicate", "seen.db"]
        command += ["--max-messages", f"{len(lines)}", "--report", "report.json"]
        command += ["--window", window]
        done = click_testing.CliRunner().invoke(main, command)

        assert 0 == done.exit_code, done.output
        assert accepted == len(server.messages("to"))
    (counts,) = json.loads(Path("report.json").read_text())["routes"]
    assert len(lines) - accepted == counts["duplicates"]


def test_the_latest_ids_are_remembered() -> None:
    sent = [numbered(3)[number] for number in (0, 1, 2, 2, 0)]
    broker, counts = between(sent, deduplicate=Path("seen.db"), remember=2, window=1)

    assert [b"0", b"1", b"2", b"0"] == bodies(broker.queues["to"])
    assert 1 == counts.duplicates


def test_copy_of_a_quarantined_message_is_not_a_duplicate() -> None:
    """The target did not accept the first copy, so it needs the second."""
    refuses = Refusing("nack", lambda _: True, times=1)
    sent = [*numbered(1), *numbered(1)]
    broker, counts = between(sent, refuses, deduplicate=Path("seen.db"), patience=0)

    assert [b"0"] == quarantined()
    assert [b"0"] == bodies(broker.queues["to"])
    assert (1, 0, {"nacked": 1}) == (counts.accepted, counts.duplicates, counts.quarantined)


IDS = st.one_of(
    st.text(max_size=90),
    st.binary(max_size=90),
    st.uuids(),
    st.integers(0, 2**64 - 1).map(ULong),
)


@given(IDS, IDS)
def test_identities_are_equal_only_for_the_same_type_and_value(first: Any, second: Any) -> None:
    found = [
        identity_of(SourceDelivery(Message(b"", properties=Properties(message_id=one)).encode()))
        for one in (first, second)
    ]
    assert [one in ("", b"") for one in (first, second)] == [one is None for one in found]
    if None not in found:
        assert (found[0] == found[1]) == (type(first) is type(second) and first == second)


@given(IDS, st.integers(0, 60))
def test_id_fields_name_the_id_of_sound_and_damaged_messages(message_id: Any, cut: int) -> None:
    octets = Message(bytes(100), properties=Properties(message_id=message_id)).encode()
    sound, damaged = SourceDelivery(octets), SourceDelivery(octets[: len(octets) - cut])

    identity = identity_of(sound)
    type_name, _, text = (identity or "").partition(":")
    expected = {"message_id": text, "message_id_type": type_name} if identity else {}
    assert expected == id_fields(sound) == id_fields(damaged)


@given(st.binary(max_size=60), st.booleans(), st.text(max_size=5))
def test_id_fields_of_any_bytes(octets: bytes, basic: bool, fault: str) -> None:
    delivery = SourceDelivery(octets, octets if basic else None, fault=fault)

    fields = id_fields(delivery)

    assert [*fields] in ([], ["message_id", "message_id_type"])
    assert not (fault and fields)


def test_id_fields_of_a_large_message(tmp_path: Path) -> None:
    large = Oversized(tmp_path / "large", 1 << 30)
    large.extend(Message(bytes(100_000), properties=Properties(message_id=ULong(7))).encode())
    delivery = SourceDelivery(b"", large=large)
    outcome = Outcome("too-large", "", "", final=True)

    line = json.loads(line_of(delivery, outcome, {"route": "r"}, tmp_path))

    assert ("7", "ulong") == (line["message_id"], line["message_id_type"])
    assert {"message_id": "7", "message_id_type": "ulong"} == id_fields(delivery)
    assert b"" == large.beginning(10)


def test_quarantine_and_log_name_the_message_id(caplog: pytest.LogCaptureFixture) -> None:
    octets = Message(b"x", properties=Properties(message_id="m-1", content_type="text/plain"))
    damaged = octets.encode()[:-1]
    logger = logging.getLogger("amqp10msg.test")
    context = RouteContext(
        "r", parse_url("amqp://h/a"), parse_url("amqp://h/b"), RouteOptions(), logger
    )

    long_id = Message(b"x", properties=Properties(message_id="m" * 1000)).encode()
    for wire in (damaged, long_id):
        context.log_message("message-quarantine", logging.WARNING, SourceDelivery(wire), why="w")

    first, second = (record.__dict__["fields"] for record in caplog.records)
    assert ("m-1", "string") == (first["message_id"], first["message_id_type"])
    assert "message_id=m-1 message_id_type=string" in caplog.messages[0]
    assert 201 == len(second["message_id"])
