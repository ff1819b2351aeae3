"""``amqp10msg validate``: violations, counts, the report, and the exit status."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message, Properties, rule
from amqp10msg.app.cli import main
from amqp10msg.app.cli import validate as command
from amqp10msg.app.inspector.judging import judge
from amqp10msg.app.inspector.reading import Item
from amqp10msg.interop import corpus
from amqp10msg.testing import messages
from amqp10msg.validation import PROFILES, RULES, validate
from tests.samples import corpus_cases

SOUND = Message("hello").encode()
WARNED = Message("x", properties=Properties(content_type="text/plain")).encode()
WRONG = Message("x", properties=Properties(content_encoding="gzip")).encode()
CUT = SOUND[:-1]


def run(*arguments: object, data: bytes = b"") -> Result:
    return CliRunner().invoke(
        main, ["validate", *map(str, arguments)], input=data, env={"COLUMNS": "120"}
    )


def lines_of(*messages: bytes) -> bytes:
    return "".join(json.dumps({"raw": octets.hex()}) + "\n" for octets in messages).encode()


@pytest.mark.parametrize(
    "messages, options, status, sentence",
    [
        ([SOUND], [], 0, "1 message, no violations"),
        ([SOUND] * 1_000, [], 0, "1,000 messages, no violations"),
        ([SOUND, WARNED], [], 0, "2 messages: 1 sound, 1 with only warnings"),
        ([SOUND, WARNED], ["--strict-warnings"], 1, "2 messages: 1 sound, 1 with only warnings"),
        ([SOUND, WRONG], [], 1, "2 messages: 1 sound, 1 with errors"),
        ([CUT, WRONG, WARNED], [], 1, "3 messages: 0 sound, 1 with only warnings, 2 with errors"),
    ],
)
def test_status_is_1_if_there_is_an_error(
    messages: list[bytes], options: list[str], status: int, sentence: str
) -> None:
    result = run(*options, data=lines_of(*messages))

    assert status == result.exit_code
    assert f"{sentence} (profile oasis)" == result.stdout.splitlines()[-1]
    assert "" == result.stderr


def test_violation_lines_have_position_rule_and_clause() -> None:
    (violation,) = validate(WRONG)

    result = run(data=lines_of(SOUND, WRONG))

    assert (
        f"standard input:2: byte {violation.offset} (properties.content-encoding): error: "
        f"{violation.text} [content-encoding-without-data, Part 3, 3.2.4]"
    ) == result.stdout.splitlines()[0]


def test_unreadable_inputs_are_counted_and_fail(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(SOUND)
    (tmp_path / "b").write_text("hello, world")

    result = run(tmp_path)

    assert 1 == result.exit_code
    assert (
        f"{tmp_path}/b: error: this is text, but neither hex nor base64: 'hello, world'"
        == result.stdout.splitlines()[0]
    )
    assert "2 messages: 1 sound, 1 not readable (profile oasis)" == result.stdout.splitlines()[-1]


def test_quiet_prints_only_table_and_sentence() -> None:
    result = run("-q", data=lines_of(SOUND, WRONG, WRONG, CUT))

    assert 1 == result.exit_code
    assert "standard input:2: byte" not in result.stdout
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["content-encoding-without-data", "Part", "3,", "3.2.4", "error", "2", "2"] == rows[2][
        :7
    ]
    assert ["standard", "input:2"] == rows[2][7:]
    assert ["truncated", "Part", "1,", "1.2", "error", "1", "1"] == rows[3][:7]


@pytest.mark.parametrize("folder", [False, True])
def test_report_must_not_overwrite_an_input(tmp_path: Path, folder: bool) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_bytes(lines_of(SOUND))
    (tmp_path / "link.html").symlink_to(file)

    result = run(tmp_path if folder else file, "--report", tmp_path / "link.html")

    assert 2 == result.exit_code
    assert "link.html is an input file and would be overwritten" in result.stderr
    assert lines_of(SOUND) == file.read_bytes()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_table_fits_the_width(width: int) -> None:
    result = CliRunner().invoke(
        main,
        ["validate", "-q", "-"],
        input=lines_of(SOUND, WRONG, CUT, WARNED),
        env={"COLUMNS": str(width)},
    )

    assert max(map(len, result.stdout.splitlines())) <= width
    assert "content-encoding-without-data" in result.stdout
    assert "Places" in result.stdout
    flat = " ".join(result.stdout.split())
    assert "first in standard input:2" in flat if width < 110 else "First in" in flat


@pytest.mark.parametrize("profile", PROFILES)
def test_profile_selects_the_rules(profile: str) -> None:
    octets = Message("x", message_annotations={"x-opt-a": None}).encode()

    result = run("--profile", profile, "--json", data=lines_of(octets))

    first, _ = map(json.loads, result.stdout.splitlines())
    assert [v.rule for v in validate(octets, PROFILES[profile])] == [
        v["rule"] for v in first["violations"]
    ]


MESSAGES = st.sampled_from([SOUND, WARNED, WRONG, CUT, b"", b"\x00\x53"]) | st.binary(max_size=20)


@given(messages=st.lists(MESSAGES, min_size=1, max_size=8))
def test_json_has_every_message_and_consistent_counts(messages: list[bytes]) -> None:
    result = run("--json", data=lines_of(*messages))

    *each, last = map(json.loads, result.stdout.splitlines())
    found = [validate(octets) for octets in messages]
    summary = last["summary"]
    assert len(messages) == len(each) == summary["messages"]
    assert [not violations for violations in found] == [line["ok"] for line in each]
    assert sum(map(len, messages)) == summary["bytes"]
    assert summary["messages"] == summary["sound"] + summary["warned"] + summary["failed"]
    places = Counter(violation.rule for violations in found for violation in violations)
    inside = Counter(rule for violations in found for rule in {v.rule for v in violations})
    assert places == {rule: row["violations"] for rule, row in summary["rules"].items()}
    assert inside == {rule: row["messages"] for rule, row in summary["rules"].items()}
    errors = any(v.severity == "error" for violations in found for v in violations)
    assert int(errors) == result.exit_code


def test_json_of_unreadable_input() -> None:
    result = run("--json", data=b'{"raw": "0"}\n' + lines_of(SOUND))

    first, second, _ = map(json.loads, result.stdout.splitlines())
    assert ["unreadable-input"] == [violation["rule"] for violation in first["violations"]]
    assert {
        "source": "standard input:2",
        "ok": True,
        "bytes": len(SOUND),
        "violations": [],
    } == second


def test_recordings_get_the_verdicts_of_the_corpus(tmp_path: Path) -> None:
    cases = [case for case in corpus_cases() if case.violations is not None]
    corpus.dump(cases, tmp_path / "cases.jsonl")

    result = run("--json", tmp_path / "cases.jsonl")

    *each, last = map(json.loads, result.stdout.splitlines())
    assert len(cases) == last["summary"]["messages"]
    for case, line in zip(cases, each, strict=True):
        assert line["source"].endswith(f"({case.id})")
        if case.profile == "oasis" and case.error is None:
            expected = [list(violation) for violation in case.violations or ()]
            found = [[v["rule"], v["severity"], v["offset"]] for v in line["violations"]]
            assert expected == sorted(found), case.id


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(lines_of(Message(b"x" * 5_000).encode(), WRONG) * 500)
    # Loads the modules that a file needs, which are not counted.
    run("-q", "--report", tmp_path / "report.html", file)
    tracemalloc.start()
    try:
        result = run("-q", "--report", tmp_path / "report.html", file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert "1,000 messages: 500 sound, 500 with errors" in result.stdout
    assert peak < file.stat().st_size / 2


@pytest.mark.parametrize("messages, bars", [([SOUND, SOUND], 0), ([SOUND, WRONG], 1)])
def test_page_has_a_bar_if_there_are_several_verdicts(
    tmp_path: Path, messages: list[bytes], bars: int
) -> None:
    run("--report", tmp_path / "r.html", data=lines_of(*messages))
    page = (tmp_path / "r.html").read_text("utf-8")

    assert bars == page.count('class="proportions"')


class Page(HTMLParser):
    """The text of a page, and the resources it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.text: list[str] = []
        self.targets: set[str] = set()
        self.links: set[str] = set()
        self.stack: list[str] = []
        self.goes_on = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.goes_on = tag == "wbr"
        if tag not in ("meta", "br", "link", "img", "wbr"):
            self.stack.append(tag)
        given = dict(attrs)
        self.loads += [value or "" for name, value in attrs if name in ("src", "data", "srcset")]
        if tag == "link":
            self.loads.append(given.get("href") or "")
        if tag == "a":
            self.links.add((given.get("href") or "").removeprefix("#"))
        self.targets.add(given.get("id") or "")

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.stack.pop()

    def handle_data(self, data: str) -> None:
        if self.goes_on:
            self.text[-1] += data
        elif self.stack and self.stack[-1] not in ("style", "script"):
            self.text.append(data)
        self.goes_on = False


class TestReport:
    def page(self, tmp_path: Path, *arguments: object, data: bytes) -> Page:
        file = tmp_path / "report.html"
        run("-q", "--report", file, *arguments, data=data)
        return Page(file.read_text(encoding="utf-8"))

    def test_report_has_counts_rules_and_examples(self, tmp_path: Path) -> None:
        page = self.page(tmp_path, data=lines_of(SOUND, WRONG, WARNED, WRONG, WRONG, WRONG, CUT))
        text = " ".join(" ".join(page.text).split())

        assert [] == page.stack
        assert "7 messages 1 sound 1 with only warnings 5 with errors" in text
        assert (
            f"content-encoding-without-data {RULES['content-encoding-without-data'].text}" in text
        )
        assert "Below: 5 messages, up to 3 examples of each rule." in text
        for line in (2, 3, 4, 5, 7):
            assert f"standard input:{line} " in text
        assert "standard input:6 " not in text
        # Every example can be reached; links to single bytes are the script's.
        assert {f"message-{number}" for number in range(1, 6)} <= page.links & page.targets

    def test_report_loads_nothing_and_allows_only_its_own_styles(self, tmp_path: Path) -> None:
        page = self.page(tmp_path, data=lines_of(WRONG))
        text = (tmp_path / "report.html").read_text(encoding="utf-8")

        assert [] == page.loads
        assert "default-src 'none'" in text
        assert 1 == text.count("<style>") == text.partition("script-src")[0].count("sha256-")
        assert 'style="' not in text

    def test_message_content_cannot_become_code(self, tmp_path: Path) -> None:
        evil = '"><script>alert(1)</script>'
        octets = Message(evil, properties=Properties(content_encoding=evil)).encode()
        records = json.dumps({"id": evil, "raw": octets.hex()}) + "\n"
        faults = json.dumps({"id": evil, "raw": evil}) + "\n"

        page = self.page(tmp_path, data=(records + faults).encode())
        text = (tmp_path / "report.html").read_text(encoding="utf-8")

        assert 1 == text.count("<script")
        assert any(evil in data for data in page.text)

    def test_report_without_violations(self, tmp_path: Path) -> None:
        text = " ".join(self.page(tmp_path, data=lines_of(SOUND)).text)

        assert "sound" in text
        assert "Below" not in text

    def test_list_of_unreadable_inputs_is_cut(self, tmp_path: Path) -> None:
        text = " ".join(self.page(tmp_path, data=b"{}\n" * 3 + b'{"raw": 1}\n' * 30).text)

        assert "… and 10 more" in text


@rule("body-under-9-bytes")
def body_under_9_bytes(message: Message) -> str | None:
    return "the body is too large" if len(message.body_bytes() or b"") > 8 else None


WITH_OWN_RULE = PROFILES["azure"].derive("own", "", rules=[body_under_9_bytes])

OF_ANY_KIND = st.sampled_from([SOUND, WARNED, WRONG, CUT, b"", b"\0", b"text", bytes(300)])


@given(st.lists(st.one_of(OF_ANY_KIND, messages().map(Message.encode)), max_size=12))
def test_batches_give_the_same_verdicts_as_single_messages(drawn: list[bytes]) -> None:
    given_ = [Item(f"m{i}", octets) for i, octets in enumerate([*drawn, SOUND])]
    given_.insert(len(drawn) // 2, Item("unread", fault="no message"))
    for profile in (PROFILES["oasis"], PROFILES["rabbitmq-4"], WITH_OWN_RULE):
        expected = [(item, judge(item, profile)) for item in given_]

        assert expected == list(command.judged(iter(given_), profile, in_batches=True))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(command, "_BATCH_MESSAGES", 3)
            assert expected == list(command.judged(iter(given_), profile, in_batches=True))


def test_file_of_many_messages_gives_the_same_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.jsonl"
    file.write_bytes(lines_of(*[SOUND, *[WARNED, CUT] * 2, SOUND, WRONG] * 200))
    options: list[tuple[str, ...]] = [(), ("--json",), ("--profile", "azure")]
    found = [run(*one, file) for one in options]
    monkeypatch.setattr(command, "_suspect_finder", lambda: None)
    expected = [run(*one, file) for one in options]

    assert [1] * 3 == [one.exit_code for one in found]
    assert [one.output for one in expected] == [one.output for one in found]


def test_messages_before_an_input_fault_are_judged() -> None:
    def items() -> Iterator[Item]:
        yield Item("a", WRONG)
        raise click.ClickException("gone")

    judged = command.judged(items(), PROFILES["oasis"], in_batches=True)

    assert (Item("a", WRONG), validate(WRONG)) == next(judged)
    with pytest.raises(click.ClickException, match="gone"):
        next(judged)


def test_messages_from_a_pipe_are_judged_immediately() -> None:
    given_ = iter([Item("a", SOUND), Item("b", WRONG)])
    next(command.judged(given_, PROFILES["oasis"], in_batches=False))

    assert "b" == next(given_).source


RULES_FILE = """
from amqp10msg import rule

@rule("names-tenant", clause="Acme guide, 2.1")
def names_tenant(message):
    "A message names its tenant."
    if "tenant" not in (message.application_properties or {}):
        yield "application-properties", "the key 'tenant' is missing"

@rule("short-subject", severity="warning")
def short_subject(message):
    "A subject is short."
    if len(message.subject) > 3:
        yield "properties.subject", "too long"
"""
TENANT = {"tenant": "acme"}
OWN = Message("x", subject="abc", application_properties=TENANT).encode()
NO_TENANT = Message("x", subject="abc").encode()
LONG = Message("x", subject="abcd", application_properties=TENANT).encode()
NO_SUBJECT = Message("x", application_properties=TENANT).encode()


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    file = tmp_path / "acme.py"
    file.write_text(RULES_FILE, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "messages, status, lines",
    [
        ([OWN], 0, ["1 message, no violations (profile oasis + acme.py)"]),
        (
            [NO_TENANT],
            1,
            ["error: the key 'tenant' is missing [names-tenant, Acme guide, 2.1]"],
        ),
        ([LONG], 0, ["(properties.subject): warning: too long [short-subject]"]),
        ([NO_SUBJECT], 1, ["error: the check failed: TypeError: ", "(acme.py:13)"]),
        ([CUT], 1, ["[truncated, "]),
        ([OWN] * 1_500 + [NO_TENANT], 1, ["1,501 messages: 1,500 sound, 1 with errors"]),
    ],
)
def test_own_rules_count_like_built_in_rules(
    rules_file: Path, messages: list[bytes], status: int, lines: list[str]
) -> None:
    result = run("--rules", rules_file, data=lines_of(*messages))

    assert status == result.exit_code
    for line in lines:
        assert line in result.output


def test_failed_check_makes_its_row_an_error(rules_file: Path) -> None:
    result = run("--json", "--rules", rules_file, data=lines_of(LONG, NO_SUBJECT))

    summary = json.loads(result.stdout.splitlines()[-1])["summary"]
    assert ("oasis + acme.py", 1, 1) == tuple(summary[k] for k in ("profile", "warned", "failed"))
    assert "error" == summary["rules"]["short-subject"]["severity"]


def test_report_shows_own_rules(rules_file: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    run("--rules", rules_file, "--report", report, data=lines_of(NO_TENANT))

    text = report.read_text(encoding="utf-8")
    for words in ("names-tenant", "A message names its tenant.", "Acme guide, 2.1"):
        assert words in text


@pytest.mark.parametrize(
    "text, reason",
    [
        (None, "acme.py: no such file"),
        ("x = 1", "defines no rule"),
        ("x = (", ":1: not valid Python"),
        ("1 / 0", "ZeroDivisionError"),
        (
            "from amqp10msg import rule\na = rule('a')(len)\nb = rule('a')(len)\n",
            "two rules have the id 'a'",
        ),
    ],
)
def test_invalid_file_of_rules_is_a_usage_error(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    file = tmp_path / "acme.py"
    if text is not None:
        file.write_text(text, encoding="utf-8")

    result = run("--rules", file, data=lines_of(SOUND))

    assert 2 == result.exit_code
    assert "--rules: " in result.output
    assert reason in " ".join(result.output.split())
