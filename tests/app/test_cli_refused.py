"""Command lines that are refused: the exit status, the text, and no file written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from amqp10msg import Message
from amqp10msg.app.cli import main

pytestmark = pytest.mark.once

#: The package that a command needs before it looks at its arguments.
NEEDS = {
    "bridge": "pika",
    "migrate": "pika",
    "migrate-check": "pika",
    "pipeline": "pyarrow",
}
BRIDGE = "bridge --from amqp://h/q --to amqp://h/q"
WATCHED = "bridge --to amqp://h/q --report r.json --from"
MIGRATE = "migrate amqp091://h amqp091://h"
CHECK = "migrate-check amqp091://u:s3cr3t@127.0.0.1:1"
PIPELINE = "pipeline decode messages.jsonl out"

# The command line, the exit status, and what standard error must contain.
REFUSED = [
    ("nothing", 2, "amqp10msg: No such command 'nothing' (see amqp10msg --help)\n"),
    ("--nothing", 2, "amqp10msg: No such option"),
    ("inspect --width", 2, "amqp10msg inspect: No such option"),
    ("convert 00", 2, "amqp10msg convert: Missing option '--out'"),
    ("convert --out x 00", 2, "amqp10msg convert: Invalid value for '--out': 'x' is"),
    ("validate --max-size 0 00", 2, "amqp10msg validate: Invalid value for '--max-size'"),
    (
        "validate no.bin",
        2,
        "amqp10msg validate: no such file, and neither hex nor base64: 'no.bin'",
    ),
    (
        "inspect 'a\x1b[2J\nb'",
        2,
        r"amqp10msg inspect: no such file, and neither hex nor base64: 'a\x1b[2J'",
    ),
    ("validate --report no/where.html 00", 2, "--report: the folder no does not exist (see"),
    ("encode 0053", 2, "no such file, and not JSON: '0053'"),
    ("translate --to 0-9-1 --profile no 00", 2, "'no' is not one of"),
    ("conformance run --peer no-such-peer", 2, "'no-such-peer'"),
    ("conformance run --peer no-such-peer", 2, "this-library"),
    ("conformance run --peer no-such-peer", 2, "proton"),
    ("conformance run --peer no-such-peer", 2, "rhea"),
    *(
        (f"validate --select '{text}' 005377a10178", 2, "Invalid value for '--select'")
        for text in ("", "x", "1,", "3-2", "0", "-4", "1-2-3", "²")
    ),
    ("serve --key notes.txt", 2, "--key needs --cert"),
    ("serve --client-ca notes.txt", 2, "--client-ca needs --cert"),
    ("serve --users notes.txt", 2, "line 1 of"),
    ("serve --port 70000", 2, "70000 is not in the range"),
    ("bridge", 2, "give --from and --to"),
    ("bridge --from amqp://h/q", 2, "give --from and --to"),
    ("bridge --from x://h/q --to amqp://h/q", 2, "must begin with one of"),
    (f"{BRIDGE} --on full", 2, "REASON=ACTION"),
    (f"{BRIDGE} --on full=x", 2, "is not an action"),
    (f"{BRIDGE} --report r.txt", 2, "must end in .json"),
    (f"{BRIDGE} --listen 9419", 2, "HOST:PORT"),
    (f"{BRIDGE} --filter 'a ='", 2, "--filter"),
    (f"{BRIDGE} --filter ''", 2, "the text is empty"),
    (f"{BRIDGE} --filter ' '", 2, "the text is empty"),
    (
        f"{WATCHED} amqp://h/orders --management h:15672",
        2,
        "the URL of a management API must be like",
    ),
    (
        f"{WATCHED} amqp://h/orders --management http://u:s3cr3t/x@h:15672",
        2,
        "the URL of a management API must be like",
    ),
    (
        f"{WATCHED} amqp://h/orders --management http://u/s3cr3t@h:15672",
        2,
        "the URL of a management API must be like",
    ),
    (
        f"{WATCHED} amqp://h//exchanges/e --management http://h:15672",
        1,
        "needs a source that is a queue of RabbitMQ",
    ),
    (
        f"{WATCHED} file:x.jsonl --management http://h:15672",
        1,
        "needs a source that is a queue of RabbitMQ",
    ),
    (MIGRATE, 2, "add --management"),
    (
        "migrate amqp://h amqp091://h --management x --target-management x",
        2,
        "must begin with",
    ),
    (
        "migrate amqp091://u@h amqp091://h --management x --target-management x",
        2,
        "source and target are the same",
    ),
    (CHECK, 2, "name queues"),
    (f"{CHECK} --queue q --report x.txt", 2, "must end in .json or .html"),
    (f"{CHECK} --management ftp://h", 2, "the URL of a management API must be like"),
    (f"{CHECK} --management http://127.0.0.1:1", 1, "http://127.0.0.1:1/api/queues/%2F:"),
    *(
        (f"{PIPELINE} --max-quarantine '{bound}'", 2, "must be a share such as 0.5%")
        for bound in ("101%", "-1", "half", "0.5", "", "%")
    ),
    *(
        (f"{PIPELINE} {options}", 2, text)
        for options, text in (
            ("--engine local --master local[1]", "--master and --memory apply to Spark"),
            ("--engine local --memory 2g", "--master and --memory apply to Spark"),
            ("--engine spark --workers 2", "--workers applies to local processes"),
            ("--master local[1] --workers 2", "--workers applies to local processes"),
            ("--workers 0", "0 is not in the range"),
            ("--engine hadoop", "'hadoop' is not one of"),
        )
    ),
]


@pytest.mark.parametrize("line, status, text", REFUSED)
def test_command_line_is_refused(
    line: str, status: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, *arguments = shlex.split(line)
    if command in NEEDS:
        pytest.importorskip(NEEDS[command])
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("neither a key nor a user\n")
    Path("messages.jsonl").write_text(f'{{"raw": "{Message("x").encode().hex()}"}}\n')

    result = CliRunner().invoke(
        main, [command, *arguments], env={"COLUMNS": "120", "NO_COLOR": "1"}
    )

    assert (status, "") == (result.exit_code, result.stdout)
    assert text in result.stderr
    assert 1 == result.stderr.count("\n")
    assert "s3cr3t" not in result.stderr
    assert "Traceback" not in result.stderr
    assert {"notes.txt", "messages.jsonl"} == {path.name for path in tmp_path.iterdir()}
