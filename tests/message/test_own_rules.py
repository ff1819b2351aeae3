"""Validation rules of one's own: `rule`, `load_rules`, and profiles with such rules."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message, load_rules, rule, validate
from amqp10msg.message.rules import Check, Finding
from amqp10msg.testing import messages
from amqp10msg.validation import MAX_LISTED_VIOLATIONS, PROFILES, Profile, Rule, Violation
from amqp10msg.validation.rules import MAX_EXAMPLE_LENGTH, Occurrence
from tests.validation.damaged import messages as damaged_messages

OASIS = PROFILES["oasis"]
MESSAGE = Message(
    "x",
    subject="Orders",
    message_annotations={"x-opt-a": 1},
    application_properties={"tenant": "acme", "other": 5},
)


@rule("names-tenant", clause="Acme guide, 2.1")
def names_tenant(message: Message) -> Iterator[Finding]:
    """A message names its tenant.

    The tenant is the key of the partition.
    """
    if "tenant" not in (message.application_properties or {}):
        yield "application-properties", "the key 'tenant' is missing"


@rule("subject-in-lower-case", severity="warning")
def subject_in_lower_case(message: Message) -> Finding | None:
    """A subject is in lower case."""
    if message.subject and message.subject != message.subject.lower():
        return "properties.subject", f"{message.subject!r} is not in lower case"
    return None


OWN_RULES = [names_tenant, subject_in_lower_case]
OWN_IDS = {own.id for own in OWN_RULES}
ACME = OASIS.derive("acme", "Acme's messages.", rules=OWN_RULES)


def profile_with(check: Check, **options: Any) -> Profile:
    return OASIS.derive("own", "A rule of this test.", rules=[rule("own", **options)(check)])


@given(messages() | st.just(MESSAGE))
def test_own_rules_add_their_violations_to_those_of_the_profile(message: Message) -> None:
    octets = message.encode()
    subject = message.subject or ""
    expected = OWN_IDS & {
        "names-tenant" if "tenant" not in (message.application_properties or {}) else "",
        "subject-in-lower-case" if subject != subject.lower() else "",
    }

    violations = validate(octets, ACME)
    own = [violation for violation in violations if violation.rule in OWN_IDS]

    assert expected == {violation.rule for violation in own}
    assert validate(octets) == [violation for violation in violations if violation not in own]
    offsets = [violation.offset for violation in violations]
    assert offsets == sorted(offsets)
    assert all(0 <= offset <= len(octets) for offset in offsets)


@given(damaged_messages())
def test_own_rules_are_not_asked_about_messages_that_cannot_be_decoded(octets: bytes) -> None:
    seen: list[Message] = []
    profile = profile_with(lambda message: seen.append(message))  # noqa: PLW0108  (returns None)

    violations = validate(octets, profile)

    assert validate(octets) == violations
    try:
        Message.decode(octets)
    except ValueError:
        assert not seen
        assert any(violation.severity == "error" for violation in violations)
    else:
        assert [Message.decode(octets)] == seen


@pytest.mark.parametrize(
    "path, offset_of",
    [
        ("properties.subject", lambda data: data.index(b"\xa1\x06Orders")),
        ("properties", lambda data: data.index(b"\x00\x53\x73")),
        ("properties.to", lambda data: data.index(b"\x00\x53\x73")),
        ("application-properties['other']", lambda data: data.index(b"other") + len("other")),
        ("application-properties['no']", lambda data: data.index(b"\x00\x53\x74")),
        ("message-annotations['x-opt-a']", lambda data: data.index(b"x-opt-a") + len("x-opt-a")),
        ("header", lambda _: 0),
        ("footer", len),
        ("amqp-value", lambda data: data.index(b"\x00\x53\x77")),
        ("delivery-annotations", lambda _: 0),
        ("data", lambda data: data.index(b"\x00\x53\x77")),
        ("body", lambda data: data.index(b"\x00\x53\x77")),
        ("body['x'][1]", lambda data: data.index(b"\x00\x53\x77")),
        ("message-format", lambda _: 0),
        ("", lambda _: 0),
    ],
)
def test_offset_is_that_of_the_path(path: str, offset_of: Callable[[bytes], int]) -> None:
    data = MESSAGE.encode()

    (violation,) = validate(data, profile_with(lambda _: [(path, "wrong")]))

    assert Violation("own", "", "error", path, offset_of(data), "wrong") == violation


@pytest.mark.parametrize(
    "path, hint",
    [
        ("application_properties['a']", "did you mean application-properties? use one of header, "),
        ("propertis.to", "did you mean properties? use one of header, "),
        ("12", "names no section; use one of header, "),
        (".to", "names no section; use one of header, "),
    ],
)
def test_path_of_no_section_is_an_error_in_the_check(path: str, hint: str) -> None:
    check = lambda _: [(path, "wrong"), ("header", "late")]  # noqa: E731
    profile = profile_with(check, severity="warning")

    first, second = validate(MESSAGE, profile)

    assert (path, 0, "error") == (first.path, first.offset, first.severity)
    assert first.text.startswith(f"wrong; the check is wrong: the path {path!r}")
    assert hint in first.text
    assert ("header", "late", "warning") == (second.path, second.text, second.severity)


@pytest.mark.parametrize(
    "findings, expected",
    [
        (None, []),
        ([], []),
        ("wrong", [("", "wrong")]),
        (("header", "wrong"), [("header", "wrong")]),
        (["a", ("header", "b")], [("", "a"), ("header", "b")]),
        (iter(["a"]), [("", "a")]),
        (["x"] * (MAX_LISTED_VIOLATIONS + 1), [("", "x")] * MAX_LISTED_VIOLATIONS),
    ],
)
def test_check_returns_or_yields_findings(findings: Any, expected: list[tuple[str, str]]) -> None:
    violations = validate(MESSAGE, profile_with(lambda _: findings))

    assert expected == [(violation.path, violation.text) for violation in violations]


@pytest.mark.parametrize(
    "check, text",
    [
        (lambda message: message.properties.no_such_field, "AttributeError: "),
        (lambda _: [5], "TypeError: cannot unpack non-iterable int object"),
        (lambda _: [("a", 5)], "TypeError: a finding is a str or (path, str), not ('a', 5)"),
        (lambda _: [("a", "b", "c")], "ValueError: too many values to unpack"),
        (lambda _: 5, "TypeError: 'int' object is not iterable"),
        (lambda _: True, "TypeError: yield the reason of a violation, or nothing"),
        (lambda _: False, "TypeError: yield the reason of a violation, or nothing"),
    ],
)
def test_failed_check_is_an_error_whatever_the_severity_of_the_rule(
    check: Check, text: str
) -> None:
    (violation,) = validate(MESSAGE, profile_with(check, severity="warning"))

    assert "error" == violation.severity
    assert violation.text.startswith(f"the check failed: {text}")


def test_failed_check_names_the_line_and_keeps_earlier_findings() -> None:
    def check(message: Message) -> Iterator[str]:
        yield "first"
        raise KeyError(message.subject)

    line = check.__code__.co_firstlineno + 2
    texts = [violation.text for violation in validate(MESSAGE, profile_with(check))]

    assert ["first", f"the check failed: KeyError: 'Orders' (test_own_rules.py:{line})"] == texts


def test_rule_has_the_first_paragraph_of_the_docstring_as_its_text() -> None:
    assert Rule("names-tenant", "Acme guide, 2.1", "error", "A message names its tenant.") == (
        names_tenant
    )
    assert "own" == rule("own")(lambda _: None).text


def test_profile_may_change_the_severity_of_a_rule_or_remove_it() -> None:
    wrong = Message("x", subject="A")
    strict = ACME.derive("strict", "", severities={"subject-in-lower-case": "error"})
    mild = strict.derive("mild", "", without=("names-tenant",))

    def judged(profile: Profile) -> list[tuple[str, str]]:
        return [(v.rule, v.severity) for v in validate(wrong, profile)]

    tenant = ("names-tenant", "error")
    assert [("subject-in-lower-case", "warning"), tenant] == judged(ACME)
    assert [("subject-in-lower-case", "error"), tenant] == judged(strict)
    assert [("subject-in-lower-case", "error")] == judged(mild)


def test_profile_with_rules_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(profile_with(_no_findings)))

    assert [] == validate(MESSAGE, copy)
    assert ["own"] == [rule_.id for rule_ in copy.rules]


def _no_findings(_: Message) -> None:
    return None


@pytest.mark.parametrize(
    "rules, error",
    [
        ([_no_findings], "a rule of a profile takes a Rule"),
        ([names_tenant, names_tenant], "two rules have the id 'names-tenant'"),
        ([Rule("truncated", "", "error", "", check=lambda _: iter(()))], "a rule 'truncated'"),
        ([Rule("mine", "", "error", "")], "the rule 'mine' has no check"),
    ],
)
def test_invalid_rules_are_refused(rules: list[Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        OASIS.derive("own", "", rules=rules)


@pytest.mark.parametrize("name", ["", "Upper", "two words", "a--b", "-a", "a\n", "é"])
def test_invalid_ids_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the id of a rule is"):
        rule(name)


def test_decorator_without_brackets_is_refused() -> None:
    with pytest.raises(TypeError, match="write @rule"):
        rule(_no_findings)  # type: ignore[arg-type]


def test_rules_are_read_from_a_file_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "acme.py"
    file.write_text(
        "from amqp10msg import rule as define\n"
        "def helper(message): ...\n"
        "@define('b')\n"
        "def b(message): yield 'b'\n"
        "@define('a')\n"
        "def a(message): yield 'a'\n"
        "alias = b\n",
        encoding="utf-8",
    )

    rules = load_rules(file)

    assert ["b", "a"] == [rule_.id for rule_ in rules]
    profile = OASIS.derive("acme", "", rules=rules)
    assert ["b", "a"] == [violation.text for violation in validate(MESSAGE, profile)]


@pytest.mark.parametrize(
    "text, error",
    [
        ("x = (", r"rules\.py:1: not valid Python"),
        ("import nothing_of_that_name", r"ModuleNotFoundError.*rules\.py:1"),
        ("\n\n1 / 0", r"ZeroDivisionError: division by zero \(rules\.py:3\)"),
        ("x = 1", "defines no rule"),
        ("", "defines no rule"),
        ("\0", "not valid Python"),
    ],
)
def test_invalid_files_of_rules_are_refused(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "rules.py"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=error):
        load_rules(str(file))


def test_columns_and_batches_check_own_rules() -> None:
    pa = pytest.importorskip("pyarrow")
    from amqp10msg import columns  # noqa: PLC0415
    from amqp10msg.jobs.job import validate_column  # noqa: PLC0415

    octets = [MESSAGE.encode(), Message("x", subject="a").encode(), None, b"\0"]
    decoded = columns.decode(octets, ["error_code", "error_clause", "error_offset"], validate=ACME)
    valid, violations = validate_column(pa.array(octets, pa.binary()), ACME)

    expected = [None if one is None else validate(one, ACME) for one in octets]
    assert [True, False, None, False] == valid.to_pylist()
    assert [None, "names-tenant", None, "truncated"] == decoded.column("error_code").to_pylist()
    assert [None, "Acme guide, 2.1", None] == decoded.column("error_clause").to_pylist()[:3]
    assert [None if one is None else [v.rule for v in one] for one in expected] == [
        None if row is None else [item["rule"] for item in row] for row in violations.to_pylist()
    ]


def test_text_of_a_finding_is_kept_whole_in_violations() -> None:
    text = "x" * (MAX_EXAMPLE_LENGTH + 1)

    (violation,) = validate(MESSAGE, profile_with(lambda _: text))

    assert text == violation.text


def test_severity_of_an_occurrence_replaces_that_of_the_profile() -> None:
    own = Rule(
        "own",
        "Part 3",
        "warning",
        "",
        check=lambda _: iter([Occurrence(0, "", "a"), Occurrence(0, "", "b", severity="error")]),
    )

    violations = validate(MESSAGE, OASIS.derive("own", "", rules=[own]))

    assert ["warning", "error"] == [violation.severity for violation in violations]
