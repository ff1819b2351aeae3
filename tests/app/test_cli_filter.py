"""``amqp10msg filter``: verdicts, reasons, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amqp10msg import Header, Message, Properties, UInt
from amqp10msg.app.cli import main
from amqp10msg.delivery import filters
from amqp10msg.filter_languages import FILTER_LANGUAGES

pytestmark = pytest.mark.once

RED = Message(
    header=Header(priority=7),
    properties=Properties(subject="a.red", absolute_expiry_time=1_000),
    application_properties={"color": "red", "n": UInt(5), "octets": b"\x01"},
).encode()
BLUE = Message(application_properties={"color": "bl\x1bue"}).encode()
CUT = RED[:-1]
# What breaks a rule is still a message.
TWICE = BLUE + BLUE


def run(*arguments: object, data: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["filter", *map(str, arguments)], input=data)


def lines_of(*messages: bytes) -> bytes:
    return "".join(json.dumps({"raw": octets.hex()}) + "\n" for octets in messages).encode()


def test_all_languages_of_the_library_are_offered() -> None:
    assert list(FILTER_LANGUAGES) == list(filters.LANGUAGES)


def test_one_line_per_message_then_the_counts() -> None:
    result = run("color = 'red' AND n > 4", data=lines_of(RED, BLUE))

    assert 0 == result.exit_code
    assert [
        "standard input:1: passes",
        (
            r"standard input:2: does not pass: color = 'red' is false: color is 'bl\x1bue'; "
            "n > 4 is unknown: n is not set"
        ),
        "2 messages: 1 passed, 1 did not",
    ] == result.stdout.splitlines()
    assert "" == result.stderr


@pytest.mark.parametrize(
    "messages, options, status, count",
    [
        ([RED], [], 0, "1 message: 1 passed, 0 did not"),
        ([BLUE], [], 0, "1 message: 0 passed, 1 did not"),
        ([TWICE], [], 0, "1 message: 0 passed, 1 did not"),
        ([RED, BLUE], ["--require-all"], 1, "2 messages: 1 passed, 1 did not"),
        ([RED, RED], ["--require-all"], 0, "2 messages: 2 passed, 0 did not"),
        ([RED, CUT], [], 1, "2 messages: 1 passed, 0 did not, 1 not readable"),
        ([RED] * 1_000, [], 0, "1,000 messages: 1,000 passed, 0 did not"),
    ],
)
def test_status_is_1_if_a_message_is_unreadable(
    messages: list[bytes], options: list[str], status: int, count: str
) -> None:
    result = run("color = 'red'", "--quiet", *options, data=lines_of(*messages))

    assert status == result.exit_code
    assert f"{count}\n" == result.stdout


@pytest.mark.parametrize(
    "language, expression, expected",
    [
        ("selector", "JMSPriority = 7", True),
        ("selector", "JMSPriority = 8", False),
        ("sql", "p.subject LIKE 'a.%' AND octets = 0x01", True),
        ("sql", "n % 2 = 0", False),
        ("oasis", "UPPER(color) = 'RED'", True),
        ("topic", "*.red", True),
        ("topic", "*.blue", False),
        ("direct", "a.red", True),
        ("direct", "a.*", False),
    ],
)
def test_every_language_is_understood(language: str, expression: str, expected: bool) -> None:
    result = run("--language", language, expression, RED.hex(), "--json")

    line, summary = map(json.loads, result.stdout.splitlines())
    assert expected is line["passes"]
    assert {
        "messages": 1,
        "passed": int(expected),
        "stopped": int(not expected),
        "unreadable": 0,
    } == summary["summary"]


def test_json_has_reasons_and_values() -> None:
    result = run(
        "--json",
        "n = 4 OR octets IS NULL OR x LIKE 'y'",
        data=lines_of(RED, BLUE, CUT) + b'{"raw": "0"}\n',
    )

    first, second, third, fourth, _ = map(json.loads, result.stdout.splitlines())
    assert {
        "source": "standard input:1",
        "passes": False,
        "reasons": [
            {"condition": "n = 4", "result": False, "values": {"n": {"$uint": 5}}},
            {
                "condition": "octets IS NULL",
                "result": False,
                "values": {"octets": {"$base64": "AQ=="}},
            },
            {"condition": "x LIKE 'y'", "result": None, "values": {"x": None}},
        ],
    } == first
    assert {"source": "standard input:2", "passes": True, "reasons": []} == second
    for line in (third, fourth):
        assert {"source", "error"} == line.keys()
        assert line["error"]
    assert 1 == result.exit_code


def test_now_sets_the_time() -> None:
    def passes(*options: Any) -> bool:
        text = "p.absolute_expiry_time > UTC()"
        line = run("--json", "-l", "sql", *options, text, RED.hex()).stdout.splitlines()[0]
        return bool(json.loads(line)["passes"])

    assert passes("--now", 999)
    assert not passes("--now", 1_000)
    assert not passes()  # of this run, which is later than 1970


@pytest.mark.parametrize(
    "arguments, excerpt, error",
    [
        (
            ["a = ? OR b"],
            "amqp10msg filter: a = ? OR b\namqp10msg filter:     ^\n",
            "EXPR, line 1, column 5: unexpected '?' (see amqp10msg filter --help)",
        ),
        (
            ["-l", "sql", ""],
            "amqp10msg filter: \namqp10msg filter: ^\n",
            "EXPR, line 1, column 1: the expression is empty (see",
        ),
        ([""], "", "EXPR is empty: an empty selector would pass every message"),
        (["-l", "topic", " "], "", "EXPR is empty: "),
        (["-l", "direct", "x" * 9_000], "", "EXPR: apache.org:legacy-amqp-direct-binding:string"),
    ],
)
def test_syntax_error_is_shown_with_a_caret(arguments: list[str], excerpt: str, error: str) -> None:
    result = run(*arguments, RED.hex())

    assert 2 == result.exit_code
    assert "" == result.stdout
    assert result.stderr.startswith(f"{excerpt}amqp10msg filter: {error}")


def test_colour_option() -> None:
    assert "\x1b[" not in run("--no-color", "n = 5", RED.hex()).stdout
    assert "\x1b[32m" in run("--color", "n = 5", RED.hex()).stdout
    assert "\x1b[33m" in run("--color", "n = 6", RED.hex()).stdout


def test_dialect_selects_a_broker() -> None:
    # RabbitMQ 4.3 takes _ for a newline, too, and % does not go over one.
    newline = Message(properties=Properties(subject="err\nat")).encode()
    sql = ("-l", "sql", "properties.subject LIKE '%err%at%'")
    found = {
        dialect: run(*sql, "--dialect", dialect, "--require-all", data=newline).exit_code
        for dialect in ("rabbitmq", "rabbitmq-4.3", "oasis")
    }
    assert {"rabbitmq": 0, "rabbitmq-4.3": 1, "oasis": 0} == found


NAMED = Message(application_properties={"colour": "red"}, subject="s", priority=7).encode()


@pytest.mark.parametrize(
    "language, expression, warnings",
    [
        ("selector", "color = 'red' OR colour = 'red' OR JMSPriority = 3", []),
        ("selector", "colours = 'red'", ["colours (did you mean colour?)"]),
        ("selector", "x = 1 OR x = 2 OR amqp.to = 'q'", ["x", "amqp.to"]),
        ("selector", "amqp.annotation.x-opt-trace = 't'", ["amqp.annotation.x-opt-trace"]),
        ("sql", "p.subject = 's' AND a.colour = 'red'", []),
        (
            "sql",
            "p.to = 'q' OR a.colours = 'red'",
            ["p.to", "a.colours (did you mean a.colour?)"],
        ),
        ("topic", "a.#", []),
    ],
)
@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_names_that_no_message_sets_are_warned_of_once(
    language: str, expression: str, warnings: list[str], option: str
) -> None:
    result = run("-l", language, option, expression, data=lines_of(BLUE, NAMED, NAMED))

    assert 0 == result.exit_code
    expected = [f"amqp10msg: warning: no message sets {text}" for text in warnings]
    assert expected == result.stderr.splitlines()


def test_input_without_readable_messages_has_no_warning() -> None:
    result = run("x = 1", data=lines_of(CUT))

    assert (1, "") == (result.exit_code, result.stderr)


@pytest.mark.parametrize("expression", ["color = 'red'", "TRUE", "a.jsonl"])
def test_swapped_arguments_are_named(
    expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("captured").write_bytes(lines_of(RED))

    result = run("captured", expression)

    assert (2, "") == (result.exit_code, result.stdout)
    assert "EXPR is the file or folder 'captured': write the expression first" in result.stderr


def test_expression_that_is_a_file_name_is_evaluated_for_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("color").touch()

    result = run("color", RED.hex())
    assert (0, "1 message: 0 passed, 1 did not") == (result.exit_code, result.stdout.split("\n")[1])


def test_expression_that_is_a_file_name_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sold").write_bytes(lines_of(Message(application_properties={"sold": True}).encode()))

    assert "1 message: 1 passed, 0 did not" in run("sold", "sold").stdout
