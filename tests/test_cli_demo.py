"""``amqp10msg demo``: it shows every message, says what is true, and notices what is not."""

from __future__ import annotations

import re
import time

import pytest
from click.testing import CliRunner, Result

from amqp10msg import Message
from amqp10msg.cli import main
from amqp10msg.corpus import demo_messages
from amqp10msg.validation import validate

FOOTER = bytes.fromhex("005378c10100")


def demo(*options: str, width: int = 80) -> Result:
    return CliRunner().invoke(main, ["demo", *options], env={"COLUMNS": str(width)})


def test_every_message_is_shown_and_comes_back_as_it_was() -> None:
    cases = demo_messages()
    found = [violation for case in cases for violation in validate(case.data)]
    errors = sum(violation.severity == "error" for violation in found)

    begun = time.monotonic()
    result = demo(width=120)

    assert time.monotonic() - begun < 10
    assert (0, "") == (result.exit_code, result.stderr)
    assert 14 == len(cases)
    assert (
        f"{len(cases)} messages, all encoded again byte for byte; violations found: "
        f"{errors} errors, {len(found) - errors} warnings"
    ) in result.stdout
    for case in cases:
        size = len(case.data)
        assert f"{case.note}: {size} octets in, the same {size} out" in result.stdout
        assert case.origin.removeprefix("recorded from ") in result.stdout
    for name in ("RabbitMQ 3.10.8", "RabbitMQ 4.3.6", "proton", "rhea"):
        assert name in result.stdout


@pytest.mark.parametrize("width", [80, 100, 120])
def test_it_fits_the_screen(width: int) -> None:
    lines = demo(width=width).stdout.splitlines()

    assert max(map(len, lines)) <= width
    assert len(lines) < 200


def test_colour_only_on_request() -> None:
    assert "\x1b" not in demo().stdout
    colored = re.sub(r"\x1b\[[\d;]*m", "", demo("--color").stdout)
    assert demo().stdout.splitlines() == [line.rstrip() for line in colored.splitlines()]


def test_what_it_proposes_works() -> None:
    lines = demo().stdout.partition("Next:\n")[2].splitlines()
    (octets,) = re.findall(r"inspect ([0-9a-f]+) ", lines[0])

    assert Message("hello") == Message.decode(bytes.fromhex(octets))
    assert 'encode \'{"body": "hello"}\'' in lines[1]
    assert 0 == CliRunner().invoke(main, ["inspect", octets]).exit_code


def test_other_octets_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, a demonstration that always says yes would do."""
    honest = Message.encode
    monkeypatch.setattr(Message, "encode", lambda self: honest(self) + FOOTER)

    result = demo()

    assert 1 == result.exit_code
    assert "octets in, others out" in result.stdout
    assert "14 messages, 0 encoded again byte for byte" in result.stdout
