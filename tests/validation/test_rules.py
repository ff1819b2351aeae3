"""The rules of `validate`: what breaks each one and where, the profiles, what real software sent.

Messages are written in hex, with 'text' for its bytes, 40*3 for a byte three times, and DATA for
a data section.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import Array, Limits, Message, Symbol, validate
from amqp10msg.composite import Error
from amqp10msg.validation import NOT_VISIBLE, PROFILES, RULES, Profile, ProfileName, Rule


def wire(text: str) -> bytes:
    text = text.replace("DATA", "00 53 75 a0 01 78").replace("EMPTY", "")
    text = re.sub(r"'([^']*)'", lambda found: found[1].encode().hex(), text)
    return bytes.fromhex(re.sub(r"(..)\*(\d+)", lambda found: found[1] * int(found[2]), text))


def broken(text: str, profile: ProfileName | Profile = "oasis") -> list[str]:
    return [violation.rule for violation in validate(wire(text), profile)]


OF_MESSAGES = {rule.id for rule in RULES.values() if rule.in_messages}

# Every rule is broken here, and only that one. Rule, clause, offset and path, then the messages.
EXAMPLES = """
truncated | Part 1, 1.2 | 5 | data
    00 53 75 a0 05 aabb
truncated | Part 1, 1.2 | 3 | properties
    00 53 73
truncated | Part 1, 1.2 | 2 |
    00 53
unknown-constructor | Part 1, 1.2 | 9 | footer
    DATA 00 53 78 99
unknown-constructor | Part 1, 1.2 | 0 |
    99
compound-size-too-small | Part 1, 1.2.3 | 4 | delivery-annotations
    00 53 71 c1 00 DATA
compound-size-too-small | Part 1, 1.2.4 | 4 | amqp-value
    00 53 77 e0 01 01
compound-size-too-small | Part 1, 1.2.4 | 7 | amqp-value[0]
    00 53 77 c0 04 01 e0 01 02
count-exceeds-size | Part 1, 1.2.4 | 9 | amqp-value[0]
    00 53 77 c0 06 01 e0 03 05 50 00
count-exceeds-size | Part 1, 1.2.3 | 9 | amqp-value
    00 53 77 e0 04 01 c0 01 05
count-exceeds-size | Part 1, 1.2.3 | 6 | header.durable
    00 53 70 c0 02 05 40 DATA
element-overruns-compound | Part 1, 1.2.3 | 8 | properties.message-id
    00 53 73 c0 04 01 a1 05 41 DATA
element-overruns-compound | Part 1, 1.2.4 | 11 | amqp-sequence[0]
    00 53 76 c0 07 01 e0 04 01 a1 05 00 00 53 76 45
compound-trailing-bytes | Part 1, 1.2.4 | 11 | amqp-value[0]
    00 53 77 c0 07 01 e0 04 01 50 00 00
compound-trailing-bytes | Part 1, 1.2.3 | 9 | amqp-value
    00 53 77 e0 05 01 c0 02 00 40
compound-trailing-bytes | Part 1, 1.2.3 | 7 | header.priority
    00 53 70 c0 03 01 40 40 DATA
boolean-octet-not-0-or-1 | Part 1, 1.6.2 | 7 | header.durable
    00 53 70 c0 03 01 5602 DATA
char-not-a-unicode-scalar | Part 1, 1.6.16 | 4 | amqp-value
    00 53 77 730000d800
invalid-utf8 | Part 1, 1.6.20 | 12 | properties.subject
    00 53 73 c0 08 04 40 40 40 a1 02 41ff DATA
symbol-not-ascii | Part 1, 1.6.21 | 14 | properties.content-type
    00 53 73 c0 0a 07 40*6 a3 01 e9 DATA
map-odd-count | Part 1, 1.6.23 | 3 | message-annotations
    00 53 72 c1 06 01 a3 03 'x-k' DATA
map-duplicate-key | Part 1, 1.6.23 | 10 | application-properties['k']
    00 53 74 c1 09 04 a1 01 'k' 40 a1 01 'k' 41 DATA
array-without-constructor | Part 1, 1.6.24 | 3 | amqp-value
    00 53 77 e0 01 00
depth-limit | Part 2, 2.8.15 | 6 | amqp-value[0]
    00 53 77 c0 04 01 c0 01 00
items-limit | Part 2, 2.8.15 | 6 | amqp-value[0]
    00 53 77 c0 03 02 40 40
zero-width-limit | Part 2, 2.8.15 | 3 | amqp-value
    00 53 77 e0 02 09 40
size-limit | Part 2, 2.8.15 | 5 |
    DATA
not-a-section | Part 3, 3.2 | 6 |
    DATA a1 00
unknown-section | Part 3, 3.2 | 0 |
    00 53 79 c1 01 00 DATA
    00 a1 10 'amqp:data:binary' a0 00 DATA
    00 52 75 a0 00 DATA
section-out-of-order | Part 3, 3.2 | 6 | header
    DATA 00 53 70 45
section-out-of-order | Part 3, 3.2 | 12 | data
    DATA 00 53 78 c1 01 00 DATA
duplicate-section | Part 3, 3.2 | 4 | header
    00 53 70 45 00 53 70 45 DATA
duplicate-section | Part 3, 3.2 | 4 | amqp-value
    00 53 77 40 00 53 77 40
mixed-body-sections | Part 3, 3.2 | 6 | amqp-value
    DATA 00 53 77 40
mixed-body-sections | Part 3, 3.2 | 4 | data
    00 53 76 45 DATA
body-missing | Part 3, 3.2 | 0 | body
    EMPTY
body-missing | Part 3, 3.2 | 4 | body
    00 53 70 45
    00 53 70 45 00 53 78 c1 01 00
section-value-type | Part 3, 3.2.1 | 3 | header
    00 53 70 40 DATA
section-value-type | Part 3, 3.2.2 | 3 | delivery-annotations
    00 53 71 45 DATA
section-value-type | Part 3, 3.2.3 | 3 | message-annotations
    00 53 72 40 DATA
section-value-type | Part 3, 3.2.4 | 3 | properties
    00 53 73 c1 01 00 DATA
section-value-type | Part 3, 3.2.5 | 3 | application-properties
    00 53 74 45 DATA
section-value-type | Part 3, 3.2.6 | 3 | data
    00 53 75 a1 00
section-value-type | Part 3, 3.2.7 | 3 | amqp-sequence
    00 53 76 40
section-value-type | Part 3, 3.2.9 | 9 | footer
    DATA 00 53 78 45
too-many-fields | Part 3, 3.2.1 | 3 | header
    00 53 70 c0 07 06 40*6 DATA
too-many-fields | Part 3, 3.2.4 | 3 | properties
    00 53 73 c0 0f 0e 40*14 DATA
field-type | Part 3, 3.2.1 | 6 | header.durable
    00 53 70 c0 03 01 5001 DATA
field-type | Part 3, 3.2.1 | 7 | header.priority
    00 53 70 c0 04 02 40 5201 DATA
field-type | Part 3, 3.2.1 | 8 | header.ttl
    00 53 70 c0 04 03 40 40 44 DATA
field-type | Part 3, 3.2.11 to 3.2.14 | 6 | properties.message-id
    00 53 73 c0 03 01 5205 DATA
field-type | Part 3, 3.2.11 to 3.2.14 | 11 | properties.correlation-id
    00 53 73 c0 09 06 40*5 a3 01 'a' DATA
field-type | Part 3, 3.2.15 | 8 | properties.to
    00 53 73 c0 06 03 40 40 a3 01 'a' DATA
field-type | Part 3, 3.2.15 | 10 | properties.reply-to
    00 53 73 c0 07 05 40*4 a0 00 DATA
field-type | Part 3, 3.2.4 | 7 | properties.user-id
    00 53 73 c0 04 02 40 a1 00 DATA
field-type | Part 3, 3.2.4 | 12 | properties.content-type
    00 53 73 c0 09 07 40*6 a1 00 DATA
field-type | Part 3, 3.2.4 | 15 | properties.creation-time
    00 53 73 c0 0c 0a 40*9 5500 DATA
field-type | Part 3, 3.2.4 | 17 | properties.group-sequence
    00 53 73 c0 0f 0c 40*11 00 40 43 DATA
delivery-annotations-rejected-type | Part 3, 3.2.2 | 16 | delivery-annotations['rejected']
    00 53 71 c1 0c 02 a3 08 'rejected' 40 DATA
    00 53 71 c1 0d 02 a3 08 'rejected' a1 00 DATA
    00 53 71 c1 0f 02 a3 08 'rejected' 00 53 1d 45 DATA
    00 53 71 c1 13 02 a3 08 'rejected' 00 53 1d c0 03 01 a1 00 DATA
    00 53 71 c1 17 02 a3 08 'rejected' 00 53 1d c0 07 03 a3 01 'x' 40 a1 00 DATA
    00 53 71 c1 1b 02 a3 08 'rejected' 00 53 1d c0 0b 03 a3 01 'x' 40 c1 04 02 a1 00 40 DATA
    00 53 71 c1 0f 02 a3 08 'rejected' 00 53 24 45 DATA
    00 53 71 c1 0f 02 a3 08 'rejected' 00 53 7f 45 DATA
content-type-not-mime | Part 3, 3.2.4 | 12 | properties.content-type
    00 53 73 c0 09 07 40*6 a3 00 DATA
    00 53 73 c0 0d 07 40*6 a3 04 'text' DATA
    00 53 73 c0 0e 07 40*6 a3 05 'text/' DATA
    00 53 73 c0 0f 07 40*6 a3 06 '/plain' DATA
    00 53 73 c0 14 07 40*6 a3 0b 'text/plain;' DATA
    00 53 73 c0 0e 07 40*6 a3 05 'a/b c' DATA
    00 53 73 c0 10 07 40*6 a3 07 'a/b; c=' DATA
    00 53 73 c0 11 07 40*6 a3 08 'a/b; c="' DATA
content-type-without-data | Part 3, 3.2.4 | 12 | properties.content-type
    00 53 73 c0 0c 07 40*6 a3 03 'a/b' 00 53 77 40
    00 53 73 c0 0c 07 40*6 a3 03 'a/b' 00 53 76 45
content-encoding-without-data | Part 3, 3.2.4 | 13 | properties.content-encoding
    00 53 73 c0 0e 08 40*7 a3 04 'gzip' 00 53 77 40
content-encoding-identity | Part 3, 3.2.4 | 13 | properties.content-encoding
    00 53 73 c0 12 08 40*7 a3 08 'identity' DATA
    00 53 73 c0 12 08 40*7 a3 08 'Identity' DATA
content-encoding-compress | Part 3, 3.2.4 | 13 | properties.content-encoding
    00 53 73 c0 12 08 40*7 a3 08 'compress' DATA
    00 53 73 c0 14 08 40*7 a3 0a 'x-compress' DATA
content-encoding-multiple | Part 3, 3.2.4 | 13 | properties.content-encoding
    00 53 73 c0 11 08 40*7 a3 07 'gzip,br' DATA
content-encoding-unregistered | Part 3, 3.2.4 | 13 | properties.content-encoding
    00 53 73 c0 0f 08 40*7 a3 05 'utf-8' DATA
    00 53 73 c0 0a 08 40*7 a3 00 DATA
application-properties-key-type | Part 3, 3.2.5 | 6 | application-properties['k']
    00 53 74 c1 05 02 a3 01 'k' 40 DATA
application-properties-key-type | Part 3, 3.2.5 | 6 | application-properties[0x40]
    00 53 74 c1 03 02 40 40 DATA
application-properties-value-not-simple | Part 3, 3.2.5 | 9 | application-properties['k']
    00 53 74 c1 05 02 a1 01 'k' 45 DATA
    00 53 74 c1 07 02 a1 01 'k' c0 01 00 DATA
    00 53 74 c1 0d 02 a1 01 'k' d1 00000004 00000000 DATA
    00 53 74 c1 08 02 a1 01 'k' e0 02 00 56 DATA
    00 53 74 c1 07 02 a1 01 'k' 00 40 45 DATA
delivery-annotations-key-type | Part 3, 3.2.10 | 6 | delivery-annotations['k']
    00 53 71 c1 05 02 a1 01 'k' 40 DATA
message-annotations-key-type | Part 3, 3.2.10 | 6 | message-annotations['k']
    00 53 72 c1 05 02 a1 01 'k' 40 DATA
footer-key-type | Part 3, 3.2.10 | 12 | footer['k']
    DATA 00 53 78 c1 05 02 a1 01 'k' 40
annotation-key-reserved | Part 3, 3.2.10 | 6 | message-annotations[0x5305]
    00 53 72 c1 04 02 5305 40 DATA
annotation-key-reserved | Part 3, 3.2.10 | 6 | delivery-annotations['k']
    00 53 71 c1 05 02 a3 01 'k' 40 DATA
annotation-key-reserved | Part 3, 3.2.10 | 6 | message-annotations['rejected']
    00 53 72 c1 0c 02 a3 08 'rejected' 40 DATA
annotation-key-reserved | Part 3, 3.2.10 | 12 | footer['X-a']
    DATA 00 53 78 c1 07 02 a3 03 'X-a' 40
rabbitmq-described-value | RabbitMQ 4 | 9 | application-properties['k']
    00 53 74 c1 07 02 a1 01 'k' 00 40 41 DATA
rabbitmq-array-constructor | RabbitMQ 4 | 11 | message-annotations['x-k']
    00 53 72 c1 0f 02 a3 03 'x-k' c0 07 01 e0 04 02 540102 DATA
rabbitmq-annotation-null | RabbitMQ 4 | 11 | message-annotations['x-k']
    00 53 72 c1 07 02 a3 03 'x-k' 40 DATA
rabbitmq-annotation-number | RabbitMQ 4 | 11 | message-annotations['x-k']
    00 53 72 c1 0b 02 a3 03 'x-k' 727f800000 DATA
    00 53 72 c1 0f 02 a3 03 'x-k' 82fff8000000000000 DATA
    00 53 72 c1 0b 02 a3 03 'x-k' 7422500001 DATA
rabbitmq-user-id-empty | RabbitMQ 4 | 7 | properties.user-id
    00 53 73 c0 04 02 40 a0 00 DATA
azure-scheduled-time-type | Azure | 36 | message-annotations['x-opt-scheduled-enqueue-time']
    00 53 72 c1 29 02 a3 1c 'x-opt-scheduled-enqueue-time' a1 08 '12:00:00' DATA
azure-partition-key-type | Azure | 27 | message-annotations['x-opt-partition-key']
    00 53 72 c1 18 02 a3 13 'x-opt-partition-key' 54 05 DATA
    00 53 72 c1 1a 02 a3 13 'x-opt-partition-key' a3 02 'k1' DATA
azure-partition-key-type | Azure | 31 | message-annotations['x-opt-via-partition-key']
    00 53 72 c1 1c 02 a3 17 'x-opt-via-partition-key' 55 07 DATA
"""
LIMITS = {
    "depth-limit": Limits(depth=1),
    "items-limit": Limits(items=1),
    "zero-width-limit": Limits(zero_width=8),
    "size-limit": Limits(size=5),
}


@attrs.frozen
class Example:
    """A message that breaks one rule, and the place of it."""

    rule: str
    clause: str
    offset: int
    path: str
    data: str


def examples() -> list[Any]:
    found: list[Any] = []
    head: list[str] = []
    for line in EXAMPLES.strip().splitlines():
        if not line.startswith(" "):
            head = [part.strip() for part in line.split("|")]
            continue
        rule, clause, offset, path = head
        example = Example(rule, clause, int(offset), path, line.strip())
        found.append(pytest.param(example, id=f"{rule}-{len(found)}"))
    return found


@pytest.mark.parametrize("example", examples())
def test_example_breaks_only_its_rule_at_its_offset(example: Example) -> None:
    profile: ProfileName = "oasis"
    if example.clause == "RabbitMQ 4":
        profile = "rabbitmq-4"
    elif example.clause == "Azure":
        profile = "azure"
    found = validate(wire(example.data), profile, limits=LIMITS.get(example.rule))
    (violation,) = found
    expected = (example.rule, example.clause, example.offset, example.path)
    assert expected == (violation.rule, violation.clause, violation.offset, violation.path)
    assert RULES[example.rule].severity == violation.severity


def test_every_rule_has_an_example() -> None:
    elsewhere = {"message-format", "not-encodable", "keys-limit"}  # in test_validation.py
    assert OF_MESSAGES - elsewhere == {param.values[0].rule for param in examples()}


GOOD = {
    "a MIME type with parameters": (
        """00 53 73 c0 28 07 40*6 a3 1f 'text/plain; charset="utf-8";a=b' DATA"""
    ),
    "an encoding without a body but data": "00 53 73 c0 0e 08 40*7 a3 04 'gzip' DATA DATA",
    "an encoding in capitals": "00 53 73 c0 0e 08 40*7 a3 04 'GZIP' DATA",
    "a null content-type of a value": "00 53 73 c0 08 07 40*7 00 53 77 40",
    "an error": "00 53 71 c1 14 02 a3 08 'rejected' 00 53 1d c0 04 01 a3 01 'x' DATA",
    "an error by its symbol": (
        "00 53 71 c1 29 02 a3 08 'rejected' 00 a3 0f 'amqp:error:list' c0 0a 03 a3 01 'x' a1 01 'y'"
        "c1 01 00 DATA"
    ),
    "several sequences": "00 53 76 45 00 53 76 45",
    "empty maps": "00 53 71 c1 01 00 00 53 72 c1 01 00 00 53 74 c1 01 00 DATA 00 53 78 c1 01 00",
    "a described simple property": "00 53 74 c1 07 02 a1 01 'k' 00 40 41 DATA",
    "wide and symbolic descriptors": (
        "00 80 0000000000000070 45 00 a3 14 'amqp:properties:list' 45 DATA"
    ),
}


@pytest.mark.parametrize("data", GOOD.values(), ids=GOOD)
def test_valid_example_has_no_violations(data: str) -> None:
    assert [] == broken(data)


@pytest.mark.parametrize(
    "value", ["44", "53 05", "80 00*8", "98 00*16", "a0 00", "a1 00", "b1 00*4"]
)
def test_types_of_a_message_id(value: str) -> None:
    size = len(wire(value)) + 1
    assert [] == broken(f"00 53 73 c0 {size:02x} 01 {value} DATA")


def test_each_content_coding_in_a_list_is_checked() -> None:
    found = broken("00 53 73 c0 18 08 40*7 a3 0e 'gzip, identity' DATA")
    assert ["content-encoding-identity", "content-encoding-multiple"] == found


# The table.


def test_ids_and_severities() -> None:
    for name, rule in RULES.items():
        assert name == rule.id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert rule.severity in {"error", "warning"}
        assert re.match(r"Part [123], \d|RabbitMQ 4$|Azure$", rule.clause), name
        assert rule.text.endswith("."), name
        assert rule.refused >= rule.about_encoding, name
        assert not rule.refused or rule.severity == "error", name


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES.values() if rule.quote], ids=lambda r: r.id
)
def test_severity_matches_the_quote(rule: Rule) -> None:
    if "MUST" in rule.quote:
        assert "error" == rule.severity
    if "SHOULD" in rule.quote:
        assert "warning" == rule.severity


def test_warnings_without_should_are_documented() -> None:
    undemanded = {
        rule.id
        for rule in RULES.values()
        if rule.severity == "warning" and rule.clause != "RabbitMQ 4" and "SHOULD" not in rule.quote
    }
    named = {"content-encoding-unregistered", "annotation-key-reserved", "message-format"}
    assert named == undemanded


def test_requirements_that_cannot_be_checked_have_a_reason() -> None:
    assert len({row.quote for row in NOT_VISIBLE}) == len(NOT_VISIBLE)
    for row in NOT_VISIBLE:
        assert re.match(r"Part 3, 3\.2(\.\d+)?$", row.clause)
        assert re.search(r"MUST|SHOULD", row.quote)
        assert row.reason.endswith(".")
        assert row.quote not in {rule.quote for rule in RULES.values()}


def faults_of_the_kernel() -> set[str]:
    """The names in ``rule=`` and in front of the colon in ``exceeded(...)``, from the source."""
    sources = sorted((Path(amqp10msg.__file__).parent / "wire" / "kernel").glob("*.py"))
    nodes = [
        node for file in sources for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    ]
    names = set()
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg == "rule":
            if isinstance(node.value, ast.Constant):
                names.add(str(node.value.value))
            elif isinstance(node.value, ast.JoinedStr):
                words = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "*"
                    for part in node.value.values
                )
                names.add(words)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "self.exceeded_limit_error":
            first = ast.unparse(node.args[0]).lstrip("f").strip("'\"")
            names.add(first.partition(":")[0].replace(" ", "-"))
    return names


def test_every_fault_of_the_kernel_is_a_refused_rule() -> None:
    faults = faults_of_the_kernel()
    assert {"truncated", "depth-limit", "field-type", "*-key-type"} <= faults
    rules = {rule.id for rule in RULES.values() if rule.refused}
    for fault in faults:
        pattern = fault.replace("*", ".+")
        assert any(re.fullmatch(pattern, rule) for rule in rules), fault


# Profiles.


def test_unknown_profile_error_lists_the_profiles() -> None:
    with pytest.raises(ValueError, match=r"'artemis': use one of azure, oasis, rabbitmq-3\.10, "):
        validate(b"", "artemis")  # type: ignore[arg-type]


def test_missing_body_in_each_profile() -> None:
    data = "00 53 70 45"
    assert ["body-missing"] == broken(data) == broken(data, "rabbitmq-4")
    assert [] == broken(data, "azure")
    assert [] == broken("EMPTY", "azure")


def test_reserved_keys_in_each_profile() -> None:
    def severities(section: str, key: str) -> list[str]:
        size = len(wire(key)) + 2
        data = wire(f"00 53 {section} c1 {size:02x} 02 {key} 41 DATA")
        return ["".join(v.severity for v in validate(data, p)) for p in PROFILES.values()]

    assert ["oasis", "rabbitmq-4", "azure"] == list(PROFILES)
    assert ["", "", ""] == severities("72", "a3 07 'x-opt-k'")
    assert ["", "", ""] == severities("72", "a3 03 'x-k'")
    assert ["warning", "error", ""] == severities("72", "a3 13 'iothub-enqueuedtime'")
    assert ["warning", "error", ""] == severities("71", "a3 13 'iothub-enqueuedtime'")
    assert ["warning", "error", "warning"] == severities("72", "a3 06 'iothub'")
    assert ["warning", "error", "warning"] == severities("72", "a3 01 'k'")
    assert ["warning", "error", "warning"] == severities("72", "53 05")


def test_rabbitmq_profile_refuses_all_reserved_keys() -> None:
    data = wire("00 53 71 c1 14 02 a3 08 'rejected' 00 53 1d c0 04 01 a3 01 'x' DATA")
    assert [] == validate(data)
    (violation,) = validate(data, "rabbitmq-4")
    assert ("annotation-key-reserved", "error", 6) == (
        violation.rule,
        violation.severity,
        violation.offset,
    )


def test_the_rules_of_a_broker_are_in_its_profile_alone() -> None:
    rabbitmq = {name for name in RULES if name.startswith("rabbitmq-")}
    azure = {name for name in RULES if name.startswith("azure-")}
    assert OF_MESSAGES - rabbitmq - azure == set(PROFILES["oasis"])
    assert OF_MESSAGES - azure == set(PROFILES["rabbitmq-4"])
    assert OF_MESSAGES - rabbitmq - {"body-missing", "message-format"} == set(PROFILES["azure"])
    assert "truncated" in PROFILES["azure"]
    assert "no-such-rule" not in PROFILES["azure"]
    assert len(OF_MESSAGES) - len(azure) == len(PROFILES["rabbitmq-4"])


def test_custom_profile() -> None:
    strict = PROFILES["oasis"].derive(
        "mine",
        "What we hold ourselves to.",
        severities={"content-type-without-data": "error"},
        without=("body-missing",),
        known_keys={"message-annotations": ("tenant",)},
    )
    data = wire(
        "00 53 72 c1 0a 02 a3 06 'tenant' 41 00 53 73 c0 0c 07 40*6 a3 03 'a/b' 00 53 77 40"
    )
    assert ["warning", "warning"] == [violation.severity for violation in validate(data)]
    (violation,) = validate(data, strict)
    assert ("content-type-without-data", "error") == (violation.rule, violation.severity)
    assert [] == validate(b"", strict)
    with pytest.raises(ValueError, match="there is no rule 'typo'"):
        strict.derive("x", "", severities={"typo": "error"})
    with pytest.raises(ValueError, match="'error' or 'warning', not 'fatal'"):
        strict.derive("x", "", severities={"truncated": "fatal"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="mine has no rule 'body-missing' to leave out"):
        strict.derive("x", "", without=("body-missing",))


def compound(constructor: int, *items: bytes) -> bytes:
    """Return a list32 (0xD0), map32 (0xD1) or array32 (0xF0) of the encoded items."""
    if constructor == 0xF0:  # the items have one constructor, which is written once
        items = (items[0][:1], *(item[1:] for item in items))
    count = len(items) - (constructor == 0xF0)
    content = count.to_bytes(4, "big") + b"".join(items)
    return bytes([constructor]) + len(content).to_bytes(4, "big") + content


#: Functions that put a value into another value.
NESTINGS: dict[str, Callable[[bytes], bytes]] = {
    "item of a list": lambda value: compound(0xD0, b"\x41", value),
    "value of a map": lambda value: compound(0xD1, b"\xa1\1k", value),
    "key of a map": lambda value: compound(0xD1, value, b"\x41"),
    "element of an array": lambda value: compound(0xF0, compound(0xD0, value)),
    "second element of an array": lambda value: compound(
        0xF0, compound(0xF0, b"\x71\0\0\0\1"), compound(0xF0, value)
    ),
    "described": lambda value: b"\0\xa3\1d" + value,
    "descriptor": lambda value: b"\0" + value + b"\x41",
}


@given(st.lists(st.sampled_from(sorted(NESTINGS)), max_size=4), st.booleans())
@example(["element of an array"], True)
@example(["descriptor", "second element of an array"], True)
def test_unsupported_constructor_of_an_array_is_found_at_any_depth(
    nestings: list[str], is_short: bool
) -> None:
    value = compound(0xF0, b"\x54\1" if is_short else b"\x71\0\0\0\1")
    for name in nestings:
        value = NESTINGS[name](value)
    entries = compound(0xD1, b"\xa3\3x-k", value)
    found = validate(b"\0\x53\x72" + entries + wire("DATA"), "rabbitmq-4")

    assert is_short == ("rabbitmq-array-constructor" in {each.rule for each in found})


@given(st.integers(0, 9))
@example(2)
def test_error_with_elements_without_bytes_is_an_error(count: int) -> None:
    """The number of such elements is limited, and may be used up before the error is checked."""
    error = Error("amqp:x", info={Symbol("k"): Array("null", [None] * count)})
    message = Message(b"", delivery_annotations={Symbol("rejected"): error})

    assert [] == validate(message.encode())


# RabbitMQ 4 refused these, or took them and could not deliver them: recorded from 4.0.5 and 4.3.6
# with classic, quorum and stream queues. The message, the rule that foretells it, and its severity.
UNDELIVERED = {
    "nothing": ("EMPTY", "body-missing", "error"),
    "properties alone": ("00 53 73 c0 07 01 a1 04 'id-1'", "body-missing", "error"),
    "a section 0x79": ("00 53 79 c1 01 00 DATA", "unknown-section", "error"),
    "a cut-off section (4.3.6)": ("00 53 75 a0 05 aabb", "truncated", "error"),
    "a string user-id": ("00 53 73 c0 09 02 40 a1 05 'guest' DATA", "field-type", "error"),
    "an empty user-id": ("00 53 73 c0 04 02 40 a0 00 DATA", "rabbitmq-user-id-empty", "error"),
    "a null annotation": (
        "00 53 72 c1 0b 02 a3 07 'x-opt-v' 40 DATA",
        "rabbitmq-annotation-null",
        "error",
    ),
    "a described annotation": (
        "00 53 72 c1 12 02 a3 07 'x-opt-v' 00 53 63 c0 03 01 54 01 DATA",
        "rabbitmq-described-value",
        "error",
    ),
    "an array of smallint": (
        "00 53 74 c1 0a 02 a1 01 'k' e0 04 02 54 01 02 DATA",
        "rabbitmq-array-constructor",
        "error",
    ),
    "an infinite annotation (4.0.5)": (
        "00 53 72 c1 0f 02 a3 07 'x-opt-v' 72 7f800000 DATA",
        "rabbitmq-annotation-number",
        "warning",
    ),
    "a decimal annotation (4.0.5)": (
        "00 53 72 c1 1b 02 a3 07 'x-opt-v' 94 2207ffff 00*11 01 DATA",
        "rabbitmq-annotation-number",
        "warning",
    ),
}


@pytest.mark.parametrize("data, rule, severity", UNDELIVERED.values(), ids=UNDELIVERED)
def test_rabbitmq_profile_predicts_undelivered_messages(
    data: str, rule: str, severity: str
) -> None:
    found = validate(wire(data), "rabbitmq-4")
    assert (rule, severity) in {(violation.rule, violation.severity) for violation in found}


def test_a_rule_names_only_known_sections() -> None:
    with pytest.raises(ValueError, match=r"acme: unknown section 'propertys' \(did you mean 'prop"):
        Rule("acme", "Part 3, 3.2.4", "error", "A test.", sections=("propertys",))
