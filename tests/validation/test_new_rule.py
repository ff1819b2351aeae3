"""Adding a validation rule, as CONTRIBUTING describes it: one row of one table.

Each test copies the package, adds a rule to the copy by editing its source, and uses the copy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import amqp10msg
from amqp10msg.validation.suspicion import FieldValue

pytestmark = pytest.mark.once

PACKAGE = Path(amqp10msg.__file__).parent
CHECK = '''

def priority_without_ttl(view: MessageMap) -> Iterator[Occurrence]:
    """Find headers with a priority and without a time to live."""
    for section in view.of("header"):
        if section.field("priority") and not section.field("ttl"):
            yield Occurrence(section.content, "header", "a priority needs a ttl")


def subject_in_capitals(text: str) -> str:
    return f"{text!r} is in capitals" if text.isupper() else ""


def subjects_in_capitals(view: MessageMap) -> Iterator[Occurrence]:
    """Find subjects in capitals."""
    for section in view.of("properties"):
        child = section.field("subject")
        if child and (text := subject_in_capitals(text_at(view.data, child.value, child.end))):
            yield Occurrence(child.value, child.path, text)
'''
ALWAYS_CHECKED = """    Rule(
        "priority-without-ttl",
        "Part 3, 3.2.1",
        "error",
        "A message with a priority has a ttl.",
        check=checks.priority_without_ttl,
        sections=("header",),
    ),
"""
SUSPECTED = """    Rule(
        "subject-in-capitals",
        "Part 3, 3.2.4",
        "warning",
        "The subject is not in capitals.",
        check=checks.subjects_in_capitals,
        sections=("properties",),
        suspicion=FieldValue("subject", lambda text: not text.isupper()),
    ),
"""
# Judges each message alone, in a batch of Arrow, and inside of a job.
PROGRAM = """
import json, sys
import amqp10msg
from amqp10msg import validate, validation
octets = [bytes.fromhex(text) for text in json.load(sys.stdin)]
def listed(violations):
    return [[one.rule, one.severity, one.path, one.offset] for one in violations]
answer = {"single": [listed(validate(one)) for one in octets]}
profiles = validation.PROFILES.items()
answer["profiles"] = [name for name, profile in profiles if sys.argv[1] in profile]
try:
    import pyarrow as pa
except ModuleNotFoundError:
    answer["batch"] = None
else:
    from amqp10msg.jobs.job import validate_column
    array = pa.array(octets, pa.binary())
    rows = validate_column(array, validation.PROFILES["oasis"])[1].to_pylist()
    keys = ("rule", "severity", "path", "offset")
    answer["batch"] = [[[violation[key] for key in keys] for violation in row] for row in rows]
json.dump(answer, sys.stdout)
"""


def copy_with_rule(folder: Path, row: str) -> Path:
    """Copy the package into `folder`, add the check and the row, and return `folder`."""
    copied = folder / "amqp10msg"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    checks = copied / "validation" / "_checks.py"
    checks.write_text(checks.read_text(encoding="utf-8") + CHECK, encoding="utf-8")
    table = copied / "validation" / "_table.py"
    text = table.read_text(encoding="utf-8")
    start = "_ALL_RULES = (\n"
    assert text.count(start) == 1
    table.write_text(text.replace(start, start + row), encoding="utf-8")
    return folder


def judged_by_copy(folder: Path, rule: str, messages: list[bytes]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, rule],
        cwd=folder,
        input=json.dumps([message.hex() for message in messages]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def message(sections: str) -> bytes:
    return bytes.fromhex(sections.replace(" ", ""))


DATA = "00 53 75 a0 01 78"


@pytest.fixture(scope="module")
def always_checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_with_rule(tmp_path_factory.mktemp("always"), ALWAYS_CHECKED)


@pytest.fixture(scope="module")
def suspected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_with_rule(tmp_path_factory.mktemp("suspected"), SUSPECTED)


def test_rule_without_suspicion_is_checked_on_every_message(always_checked: Path) -> None:
    breaks = message(f"00 53 70 c0 04 02 40 50 05 {DATA}")
    keeps = message(f"00 53 70 c0 05 03 40 50 05 43 {DATA}")
    # The damage is in the last section: the header before it is intact and breaks the rule.
    damaged = message("00 53 70 c0 04 02 40 50 05 00 53 74 c1 03 02 41 40 00 53 75 a0 01 78")
    found = ["priority-without-ttl", "error", "header", 3]

    answer = judged_by_copy(always_checked, "priority-without-ttl", [breaks, keeps, damaged])

    assert [found] == answer["single"][0]
    assert [] == answer["single"][1]
    assert found in answer["single"][2]
    assert len(answer["single"][2]) > 1
    assert answer["batch"] in (None, answer["single"])
    assert ["oasis", "rabbitmq-4", "azure"] == answer["profiles"]


def test_rule_with_suspicion_is_checked_only_on_suspected_messages(suspected: Path) -> None:
    capitals = message(f"00 53 73 c0 08 04 40 40 40 a1 02 41 42 {DATA}")
    small = message(f"00 53 73 c0 08 04 40 40 40 a1 02 41 62 {DATA}")
    expected = [[["subject-in-capitals", "warning", "properties.subject", 9]], [], []]

    answer = judged_by_copy(suspected, "subject-in-capitals", [capitals, small, message(DATA)])

    assert expected == answer["single"]
    assert answer["batch"] in (None, expected)


def test_command_reports_a_new_rule(always_checked: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "amqp10msg", "validate", f"00 53 70 c0 04 02 40 50 05 {DATA}"],
        cwd=always_checked,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 1 == done.returncode
    assert "priority-without-ttl" in done.stdout


@pytest.mark.parametrize("field", ["message_id", "creation_time", "tenant"])
def test_suspicion_of_an_untestable_field_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"cannot test the field '{field}'"):
        FieldValue(field, bool)


def test_validation_works_without_the_class_of_messages() -> None:
    """`Message` is imported by the package root, not by the validator itself."""
    program = (
        "from amqp10msg.validation import validate\n"
        "assert not validate(bytes.fromhex('005375a00178'))\n"
        "assert validate(bytes.fromhex('005375a0017800'))\n"
        "from amqp10msg import Message\n"
        "assert Message.decode(bytes.fromhex('005375a00178')).body.data == b'x'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=PACKAGE.parent)
