"""What a type checker finds in a user's program: mistakes, and nothing where there is none."""

from __future__ import annotations

import re
import subprocess
import sys
from doctest import DocTestParser
from pathlib import Path
from typing import get_args

import pytest

from amqp10msg import translate, validation

pytest.importorskip("mypy", reason="mypy is not installed: make setup")

# One at a time, since they share a cache.
pytestmark = pytest.mark.xdist_group("typing")

ROOT = Path(__file__).parents[2]
BEGINNING = """
import attrs
from amqp10msg import *
from amqp10msg import delivery, notation
from amqp10msg.message import batch, checksums
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.translate import PROFILES, to_amqp10, to_basic
from amqp10msg.validation import RULES

message = Message.decode(b"")
octets = message.encode()
"""
#: One mistake a line.
MISTAKES = """
from amqp10msg import Mesage
message.evolve(propertys=Properties())
message.evolve(header={"durable": True})
message.evolve(message_format="0")
attrs.evolve(message, heeder=None)
Message(header=Properties())
Message("x", Header())
Message(application_properties={1: "x"})
Message(application_properties=["x"])
Message.decode("text")
Message.decode(b"", strikt=False)
Message.decode(b"", limits=10)
message.header.durable
message.properties.subject
message.proprties
message.subject.upper()
message.to = "x"
Message("x", message_id="m")
message.body.data
message.header.ttl + 1
Header(durable="yes")
Header(priorty=4)
Properties(creation_time="now")
Properties(message_id=1.5)
Properties(content_type=b"text/plain")
Limits(deepth=3)
scan(octets).section("propertys")
scan(octets).section("properties").subject
scan(octets).section("header").subject
scan(octets).replace(header={"durable": True})
scan(octets).replace(properties=Properties())
scan("text")
validate(message, "rabbitmq-5")
validate(message, profle="oasis")
[violation.severty for violation in validate(octets)]
[v for v in validate(octets) if v.severity == "warn"]
to_basic(message, "rabbitmq-4.4")
to_basic(octets)
to_amqp10(message)
to_amqp10(BasicMessage()).message.exchange
to_basic(message).losses[0].acton
[loss for loss in to_basic(message).losses if loss.action == "drop"]
BasicProperties(delivery_mod=2)
RULES["truncated"].claus
text: str = message.encode()
size: int = scan(octets).bare
delivery.Modified(delivery_faild=True)
delivery.Rejected(error="no")
batch.wrap(message)
message.expires_at("now")
message.remaining_ttl(arrival=0)
Timestamp.from_datetime("2026-01-01")
Symbol(b"x")
UInt.from_bits(1)
"""
#: What is right, some of it only just.
RIGHT = """
import datetime
import uuid
from collections.abc import Mapping

annotations: dict[str, int] = {"x-opt-a": 1}
Message("x", message_annotations=annotations, application_properties=annotations)
Message(b"x", message_annotations={1: 1, "x-opt-a": None}, footer=Footer())
copy = message.evolve(body={"a": [1]}, header=Header(ttl=1000), message_annotations=annotations)
attrs.evolve(copy, properties=None)
replaced: Message = copy.__replace__(body=[Data(b"a"), Data(b"b")])
Properties(message_id=b"m", creation_time=1, content_type=Symbol("text/plain"))
properties = scan(octets).section("properties")
subject: str | None = properties.subject if properties is not None else None
application: Mapping[str, object] | None = scan(octets).section("application_properties")
scan(bytearray(octets)).replace(header=Header(), message_annotations=None, footer={"x-a": 1})
for profile in validation_profiles:
    validate(message, profile)
validate(memoryview(octets), "rabbitmq-4", limits=Limits(depth=10))
errors: list[Violation] = [v for v in validate(octets) if v.severity == "error"]
basic: BasicMessage = to_basic(message, "qpid-broker-j").message
given = input()
losses = to_amqp10(basic, PROFILES[given]).losses
paths: list[str] = [loss.path for loss in losses if loss.action == "dropped"]
to: str | None = message.to
ttl: int | None = message.ttl
named: int | uuid.UUID | bytes | str | None = message.message_id
left: int | None = message.remaining_ttl(datetime.datetime.now(datetime.UTC), 0)
match message:
    case Message(AmqpValue(str(text)), Properties(to=str(to))):
        text = text + to
    case Message(Data(data)):
        octets = bytes(data)
"""


def mypy(tmp_path: Path, program: str) -> list[str]:
    """The errors of mypy --strict in a program, one for each line that has any."""
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="),
            *("--no-color-output", "--hide-error-context", "--follow-imports=silent"),
            *("--cache-dir", str(ROOT / ".mypy_cache" / "programs"), str(file)),
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    errors = re.findall(r"program\.py:(\d+): error: (.*)", done.stdout)
    return [f"{program.splitlines()[int(line) - 1]}: {text}" for line, text in errors]


def test_mypy_finds_deliberate_mistakes(tmp_path: Path) -> None:
    mistakes = MISTAKES.strip().splitlines()
    found = mypy(tmp_path, BEGINNING + MISTAKES)

    missed = [mistake for mistake in mistakes if not any(f.startswith(mistake) for f in found)]
    assert len(mistakes) >= 30
    assert missed == []


def test_mypy_finds_nothing_in_what_is_right(tmp_path: Path) -> None:
    profiles = "from amqp10msg.validation import PROFILES as known\n"
    profiles += "validation_profiles = known.values()\n"

    assert mypy(tmp_path, BEGINNING + profiles + RIGHT) == []


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_mypy_finds_nothing_in_what_a_page_shows(tmp_path: Path, page: str) -> None:
    text = (ROOT / page).read_text("utf-8").replace("```", "")
    program = "".join(example.source for example in DocTestParser().get_examples(text))

    assert "Message.decode(" in program
    assert [] == mypy(tmp_path, program)


def test_the_types_name_every_profile() -> None:
    assert set(validation.PROFILES.names) == set(get_args(validation.ProfileName))
    assert set(translate.PROFILES.names) == set(get_args(translate.ProfileName))
