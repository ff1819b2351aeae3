"""What `validate` says of what real software was recorded to send, and of foreign vectors."""

from __future__ import annotations

import re

from amqp10msg import Violation, validate
from amqp10msg.validation import RULES
from tests.samples import recorded, vectors

hexed = bytes.fromhex


def errors(violations: list[Violation]) -> set[str]:
    return {violation.rule for violation in violations if violation.severity == "error"}


# Recordings.


# Errors in what software was recorded to send, by software and direction, and whose fault they are.
# All else that it sent validates without errors.
ODD_TEXT = "0-9-1 text is passed on although it is no UTF-8 or ASCII"
BLOBS = "headers called x-amqp-1.0-* are pasted into the message as they are, unchecked"
JUSTIFIED: dict[tuple[str, str], dict[str, str]] = {
    ("RabbitMQ 3.10.8", "091-10"): {
        "field-type": "the user-id becomes a string",
        "message-annotations-key-type": "the stream's offset has a string for its key",
        "invalid-utf8": ODD_TEXT,
        "symbol-not-ascii": ODD_TEXT,
        "unknown-constructor": BLOBS,
    },
    ("RabbitMQ 3.10.8", "10-10"): {
        "message-annotations-key-type": "the stream's offset has a string for its key",
        "compound-trailing-bytes": "a symbol of 300 octets is encoded with one octet of size",
    },
    ("RabbitMQ 4", "091-10"): {
        "invalid-utf8": ODD_TEXT,
        "symbol-not-ascii": ODD_TEXT,
        "map-duplicate-key": "a header that is given twice becomes two annotations",
    },
    ("python-qpid-proton 0.40.0", "proton-emit"): {
        "body-missing": "a message without a body has no body section",
        "content-encoding-without-data": "the user sets it on a string",
    },
    ("python-qpid-proton 0.40.0", "10-proton-10"): {
        "body-missing": "a null body, and one with a symbolic descriptor, is lost",
    },
    ("rhea 3.0.5", "rhea-emit"): {
        "content-encoding-without-data": "the user sets it on a string",
        "footer-key-type": "keys of the footer become strings",
        "section-out-of-order": "the footer is put in front of the body",
    },
    ("rhea 3.0.5", "10-rhea-10"): {
        "content-encoding-without-data": "an absent body becomes a null value",
        "footer-key-type": "keys of the footer become strings",
        "section-out-of-order": "the footer is put in front of the body",
    },
}
# What the inputs of the controls were made to break, so that the outputs do.
MADE_TO_BREAK = {
    *("field-type", "invalid-utf8", "symbol-not-ascii", "truncated"),
    *("application-properties-key-type", "application-properties-value-not-simple"),
    "content-encoding-without-data",
}


def sender(software: str) -> str:
    return "RabbitMQ 4" if software.startswith("RabbitMQ 4") else software


def test_recorded_software_breaks_only_known_rules() -> None:
    seen: dict[tuple[str, str], set[str]] = {}
    for entry in recorded():
        found = errors(validate(hexed(entry["raw"])))
        # One message may have several origins; the first one's reasons do for all.
        software, _, direction, _ = entry["origins"][0]
        reasons = JUSTIFIED.get((sender(software), direction), {})
        allowed = set(reasons) | (MADE_TO_BREAK if direction.startswith("10-") else set())
        assert found <= allowed, (entry["origins"][0], entry["raw"], found)
        seen.setdefault((sender(software), direction), set()).update(found)
    for origin, reasons in JUSTIFIED.items():
        assert set(reasons) <= seen[origin], origin


def test_rabbitmq_profile_raises_no_false_alarm() -> None:
    """What RabbitMQ 4 was recorded to deliver breaks none of the rules that are about RabbitMQ."""
    delivered = [
        entry
        for entry in recorded()
        if any(o[0].startswith("RabbitMQ 4.3") and o[2] == "10-10" for o in entry["origins"])
    ]
    assert len(delivered) > 200
    own = {name for name in RULES if name.startswith("rabbitmq-")}
    for entry in delivered:
        found = validate(hexed(entry["raw"]), "rabbitmq-4")
        alarms = errors(found) & {*own, "annotation-key-reserved", "body-missing"}
        assert set() == alarms, entry["origins"][0]


# Other projects' vectors.


def rule_of_issue(code: str) -> str:
    """The name that a rule has here for one of the vectors' issue codes."""
    if code == "no-body-section":
        return "body-missing"
    if re.fullmatch(r"(header|properties)\.[a-z-]+-wrong-type-[a-z]+", code):
        return "field-type"
    if re.fullmatch(r"unknown-constructor-0x..", code):
        return "unknown-constructor"
    if code.endswith(("-value-not-a-map", "-value-not-a-list", "-value-not-a-binary")):
        return "section-value-type"
    code = code.replace("-key-not-symbol-or-ulong", "-key-type")
    return code.replace("-key-not-string", "-key-type")


def test_vectors_to_accept_have_no_errors() -> None:
    cases = [case for case in vectors() if case["must"] == "accept"]
    assert cases
    for case in cases:
        assert set() == errors(validate(hexed(case["hex"]))), case["id"]


def test_vectors_to_reject_break_a_refused_rule() -> None:
    cases = [case for case in vectors() if case["must"] == "reject"]
    assert cases
    for case in cases:
        found = errors(validate(hexed(case["hex"])))
        assert any(RULES[rule].refused for rule in found), case["id"]


def test_issues_of_vectors_are_found() -> None:
    cases = [case for case in vectors() if case["expect"].get("issues")]
    assert cases
    for case in cases:
        found = errors(validate(hexed(case["hex"])))
        issues = {rule_of_issue(issue["code"]) for issue in case["expect"]["issues"]}
        assert issues <= set(RULES)
        # The vectors know no rules on the content of fields.
        assert issues == {rule for rule in found if not rule.startswith("content-")}, case["id"]
