"""``amqp10msg translate`` and ``diff-profiles``: there and back, losses, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amqp10msg import Message, Properties, ULong
from amqp10msg.basic import BasicProperties, encode_content_header
from amqp10msg.cli import main

pytestmark = pytest.mark.once

PROPERTIES = BasicProperties(
    "text/plain", headers={"a": 1, "x-t": [1]}, app_id="app", message_id="m", cluster_id="c"
)
BASIC = encode_content_header(PROPERTIES, 5) + b"hello"
MESSAGE = Message(b"hi", properties=Properties(message_id=ULong(5), subject="s"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_there_and_back(tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    back = tmp_path / "back.jsonl"
    first = run("translate", "--to", "amqp10", BASIC.hex(), "-o", str(there))
    second = run("translate", "--to", "basic", str(there), "-o", str(back))

    assert (0, 0) == (first.exit_code, second.exit_code), first.output + second.output
    assert BASIC.hex() == json.loads(back.read_text())["raw"]


def test_json_has_message_and_losses() -> None:
    result = run("translate", "--to", "basic", "--json", MESSAGE.encode().hex())
    record = json.loads(result.stdout)

    assert 0 == result.exit_code
    assert ["properties.subject"] == [loss["path"] for loss in record["losses"]]
    assert all(loss["recoverable"] for loss in record["losses"])


def test_a_loss_for_good_is_status_1() -> None:
    result = run("translate", "--to", "basic", "--profile", "rabbitmq-4.3", MESSAGE.encode().hex())

    assert 1 == result.exit_code
    assert "properties.subject" in result.output
    assert "2 values lost" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "amqp10", "--profile", "rabbitmq-4.3", "--strict", BASIC.hex()),
        ("--to", "amqp10", "003c0000000000000000000a0000"),
        ("--to", "amqp10", "00"),
        ("--to", "basic", "ff"),
    ],
)
def test_a_refused_message_is_status_1(arguments: tuple[str, ...]) -> None:
    result = run("translate", *arguments)

    assert 1 == result.exit_code
    assert "refused" in result.output


def test_profiles_side_by_side() -> None:
    result = run("diff-profiles", "--json", BASIC.hex())
    found = json.loads(result.stdout)["profiles"]

    assert 0 == result.exit_code
    assert "'app'" == found["rabbitmq-4.3"]["properties.group-id"]
    assert "'app'" == found["lossless"]["message-annotations['x-opt-basic-app-id']"]
    shown = run("diff-profiles", "-p", "rabbitmq-3.10", "-p", "rabbitmq-4.3", BASIC.hex())
    assert "properties.group-id" in shown.output
    assert "content-type" not in shown.output


def test_profiles_of_a_message_that_a_broker_refuses() -> None:
    octets = Message().encode() or b"\0\x53\x70\x45"
    result = run("diff-profiles", "--json", octets.hex())

    assert "refused" in json.loads(result.stdout)["profiles"]["rabbitmq-4.3"]


def test_what_is_no_message_is_status_1() -> None:
    assert 1 == run("diff-profiles", "ff").exit_code
