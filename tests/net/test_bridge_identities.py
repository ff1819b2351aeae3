"""Duplicates for ``--deduplicate``: messages with equal message-ids of the same type."""

from __future__ import annotations

import json
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
from amqp10msg.net.bridge.records import identity_of  # noqa: E402
from amqp10msg.net.ends.terms import SourceDelivery  # noqa: E402
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
