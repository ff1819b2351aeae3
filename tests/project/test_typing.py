"""What a type checker finds in a user's program: mistakes, and nothing where there is none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from doctest import DocTestParser
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

from amqp10msg import translate, validation

pytest.importorskip("mypy", reason="mypy is not installed: make setup")

# One at a time, since they share a cache.
pytestmark = pytest.mark.xdist_group("typing")

ROOT = Path(__file__).parents[2]
#: What users write from the documentation alone, each in its obvious spelling.
PROGRAMS = sorted((ROOT / "tests" / "programs").glob("*.py"))
BEGINNING = """
import attrs
from amqp10msg import *
from amqp10msg import delivery, notation
from amqp10msg.message import batch, checksums
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.interop import to_client
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
Message("x", mesage_id="m")
Message("x", ttl="5")
message.evolve(subjct="s")
message.evolve(durable="yes")
Message(text=b"x")
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
to_basic(message, "rabbitmq-9.9")
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
to_client(message, like="kombu").no_such_method
to_client(message, like="aio-pika").no_such_attribute
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
flat = Message(json={"id": [7]}, subject="s", message_id=uuid.uuid4(), durable=True, ttl=None)
flat = flat.evolve(text="x", correlation_id=7, creation_time=datetime.datetime.now(datetime.UTC))
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
basic: BasicMessage = to_basic(message, "rabbitmq-4.0").message
given = input()
losses = to_amqp10(basic, PROFILES[given]).losses
paths: list[str] = [loss.path for loss in losses if loss.action == "dropped"]
to: str | None = message.to
ttl: int | None = message.ttl
named: int | uuid.UUID | bytes | str | None = message.message_id
document: dict[str, object] = to_client(message, like="rhea")
published = to_client(message, like="pika")[2].decode() + to_client(message, like=given).body
left: int | None = message.remaining_ttl(datetime.datetime.now(datetime.UTC), 0)
match message:
    case Message(AmqpValue(str(text)), Properties(to=str(to))):
        text = text + to
    case Message(Data(data)):
        octets = bytes(data)
"""


def needs(program: str) -> list[str]:
    """The packages that a program imports which need not be there."""
    return re.findall(r"^(?:from|import) (proton|pyarrow)", program, re.MULTILINE)


def mypy(tmp_path: Path, program: str, **others: str) -> list[str]:
    """The errors of mypy --strict in programs, one for each line that has any."""
    programs = {"program": program, **others}
    for name, text in programs.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="),
            *("--no-color-output", "--hide-error-context", "--follow-imports=silent"),
            *("--disable-error-code=import-untyped", "--cache-dir"),
            str(ROOT / ".mypy_cache" / "programs"),
            *(str(tmp_path / f"{name}.py") for name in programs),
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    errors = re.findall(r"(\w+)\.py:(\d+): error: (.*)", done.stdout)
    return [f"{programs[name].splitlines()[int(line) - 1]}: {text}" for name, line, text in errors]


def pyright(tmp_path: Path, program: str, **others: str) -> list[str]:
    """The errors of pyright's strict mode in programs, each with its line."""
    pytest.importorskip("basedpyright", reason="basedpyright is not installed: make setup")
    programs = {"program": program, **others}
    for name, text in programs.items():
        # These packages have no types, so that those of all that they return are unknown.
        untyped = "# pyright: standard, reportUnusedExpression=false\n"
        beginning = untyped if needs(text) else "\n"
        (tmp_path / f"{name}.py").write_text(beginning + text, encoding="utf-8")
    # A page shows values as a console does, without printing them.
    settings = {"typeCheckingMode": "strict", "reportUnusedExpression": "none"}
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps({**settings, "extraPaths": [str(ROOT)]}))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(config)),
            *("--pythonpath", sys.executable),
        ],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return [
        f"{programs[Path(one['file']).stem].splitlines()[one['range']['start']['line'] - 1]}:"
        f" {one['message']}"
        for one in json.loads(done.stdout)["generalDiagnostics"]
    ]


def test_mypy_finds_deliberate_mistakes(tmp_path: Path) -> None:
    mistakes = MISTAKES.strip().splitlines()
    found = mypy(tmp_path, BEGINNING + MISTAKES)

    missed = [mistake for mistake in mistakes if not any(f.startswith(mistake) for f in found)]
    assert len(mistakes) >= 30
    assert missed == []


def test_mypy_accepts_correct_programs(tmp_path: Path) -> None:
    profiles = "from amqp10msg.validation import PROFILES as known\n"
    profiles += "validation_profiles = known.values()\n"

    assert mypy(tmp_path, BEGINNING + profiles + RIGHT) == []


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_type_checkers_accept_documented_examples_and_typical_programs(
    tmp_path: Path, checker: Callable[..., list[str]]
) -> None:
    """In one run: each start of a checker takes longer than the programs."""
    pages = [(ROOT / page).read_text("utf-8") for page in ("README.md", "docs/tutorial.md")]
    documented = [
        "".join(example.source for example in DocTestParser().get_examples(text.replace("```", "")))
        for text in pages
    ]
    typical = {file.stem: file.read_text("utf-8") for file in PROGRAMS}

    assert all("Message.decode(" in program for program in documented)
    assert len(typical) >= 10
    checked = {name: text for name, text in typical.items() if all(map(find_spec, needs(text)))}
    assert "tutorial" not in checked
    assert [] == checker(tmp_path, documented[0], tutorial=documented[1], **checked)


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_type_checkers_know_the_kinds_of_jobs(
    tmp_path: Path, checker: Callable[..., list[str]]
) -> None:
    pytest.importorskip("pyarrow")
    program = 'from amqp10msg.jobs import Job\n\nJob("decode")\nJob("decod")\n'

    (error,) = checker(tmp_path, program)

    assert error.startswith('Job("decod")')


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda file: str(file.stem))
def test_typical_programs_run(tmp_path: Path, file: Path) -> None:
    program = file.read_text("utf-8")
    for package in needs(program):
        pytest.importorskip(package)
    (tmp_path / file.name).write_text(program, encoding="utf-8")
    run = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if "def test_" in program else []
    done = subprocess.run(
        [sys.executable, *run, file.name],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )

    assert 0 == done.returncode, done.stdout + done.stderr


def test_pyright_finds_deliberate_mistakes(tmp_path: Path) -> None:
    found = pyright(tmp_path, BEGINNING + MISTAKES)

    missed = [
        mistake
        for mistake in MISTAKES.strip().splitlines()
        if not mistake.startswith("attrs.evolve(")  # which mypy knows, and pyright does not
        and not any(error.startswith(mistake) for error in found)
    ]
    assert [] == missed


def test_profile_type_lists_every_profile() -> None:
    assert set(validation.PROFILES.names) == set(get_args(validation.ProfileName))
    assert set(translate.PROFILES.names) == set(get_args(translate.ProfileName))
