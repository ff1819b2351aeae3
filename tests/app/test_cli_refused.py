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
DECODE = "pipeline decode messages.jsonl"
PIPELINE = f"{DECODE} out"
X = Message("x").encode().hex()
CUT = X[:-2]

# The command line, the exit status, and what standard error must contain.
REFUSED = [
    ("nothing", 2, "amqp10msg: No such command 'nothing' (see amqp10msg --help)\n"),
    ("--nothing", 2, "amqp10msg: No such option"),
    ("inspect --width", 2, "amqp10msg inspect: No such option"),
    ("inspct", 2, "amqp10msg: No such command 'inspct'. Did you mean 'inspect'?"),
    ("inspect --html --json 00", 2, "--json and --html cannot be combined"),
    (f"inspect --json {CUT}", 1, "amqp10msg: the argument: at byte 5 (amqp-value): "),
    ("convert 00", 2, "amqp10msg convert: Missing option '--out'. Choose from: typed, plain,"),
    (f"convert --out typed {CUT}", 1, "amqp10msg: the argument: at byte 5 (amqp-value): "),
    (
        f"convert --out raw {X} {X} -o no.bin",
        1,
        "raw bytes do not delimit messages: use prefixed, jsonl or hex",
    ),
    (f"convert --out hex {X} -o no/file", 1, "amqp10msg: no/file: No such file or directory\n"),
    *(
        (
            f"""convert --out hex '{{"type": "Buffer", "data": [0, {item}]}}'""",
            *(1, "item 1 of the Buffer must be 0 to 255"),
        )
        for item in ("256", "-1", '"a"', "1.5", "true")
    ),
    ("compare", 2, "Missing argument 'A'"),
    (f"compare {X}", 2, "Missing argument 'B'"),
    ("compare - -", 2, "A and B cannot both be standard input"),
    (f"compare {X} {X} {X}", 2, "Got unexpected extra argument"),
    ("diff-profiles ff", 1, "amqp10msg: the argument: at byte 0: 0xFF is not a format code"),
    *(
        (
            f"diff-profiles {options} {X}",
            *(2, "amqp10msg diff-profiles: rabbitmq-4 has no other profile to compare with: name"),
        )
        for options in ("-p rabbitmq-4", "-p rabbitmq-4 --json", "-p rabbitmq-4 -p rabbitmq-4")
    ),
    *(
        (
            f"{command} {name} {X}",
            *(2, f"'{name}' has rules, but no translation: use validate --profile {name}"),
        )
        for command in (
            *("diff-profiles -p lossless -p", "translate --to 0-9-1 --profile"),
            "migrate-check --profile",
        )
        for name in ("azure", "oasis")
    ),
    ("diff-profiles -p no -p lossless 00", 2, "'no' is not one of 'lossless'"),
    (f"filter --dialect oasis 'a = 1' {X}", 2, "--dialect requires --language sql"),
    *(
        (f"{command} empty", 1, "amqp10msg: the input contains no messages\n")
        for command in ("inspect", "validate", "filter 'a = 1'")
    ),
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
    *(
        (f"encode '{text}'", 1, f"amqp10msg: the argument: {error}")
        for text, error in (
            ("{oops", "not JSON: Expecting property name enclosed in double quotes"),
            ('{"boddy": 1}', "$.boddy: there is no such section"),
            ('{"header": {"priority": 256}}', "$.header.priority: "),
            ('[["data", 5]]', "$[0][1]: "),
            ('{"raw": "00"}', "$.raw: there is no such section"),
        )
    ),
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
        2,
        "needs a source that is a queue of RabbitMQ",
    ),
    (
        f"{WATCHED} file:x.jsonl --management http://h:15672",
        2,
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
    (f"{DECODE} empty", 2, "empty exists already: add --overwrite"),
    (f"{DECODE} s3://key:s3cr3t@lake/out", 2, "a URL s3:// must not contain credentials"),
    (f"{DECODE} s3a://lake/out", 2, "s3a:// is a file system of Spark"),
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
    Path("empty").mkdir()
    Path("notes.txt").write_text("neither a key nor a user\n")
    Path("messages.jsonl").write_text(f'{{"raw": "{X}"}}\n')

    result = CliRunner().invoke(
        main, [command, *arguments], env={"COLUMNS": "120", "NO_COLOR": "1"}
    )

    assert (status, "") == (result.exit_code, result.stdout)
    assert text in result.stderr
    assert 1 == result.stderr.count("\n")
    assert "s3cr3t" not in result.stderr
    assert "Traceback" not in result.stderr
    assert {"empty", "notes.txt", "messages.jsonl"} == {path.name for path in tmp_path.iterdir()}
    assert [] == list(Path("empty").iterdir())
