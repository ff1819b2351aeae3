"""Commands name the cause of a failure, in the reader's terms, and what to install or use."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("rich")

from rich.progress import Progress  # noqa: E402

from amqp10msg import Message, Properties  # noqa: E402
from amqp10msg.app.cli import _output, main  # noqa: E402
from amqp10msg.interop.corpus.programs import _error_line  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "said, expected",
    [
        (
            (
                "node:internal/modules/cjs/loader:1143\n  throw err;\n  ^\n\n"
                "Error: Cannot find module './nope'\nRequire stack:\n- /x/bad.js\n"
                "    at Module._load (node:internal)\n{\n  code: 'MODULE_NOT_FOUND'\n}\n\n"
                "Node.js v20.20.2"
            ),
            "Error: Cannot find module './nope'",
        ),
        (
            (
                "/x/bad.js:1\nconst x = ;\n          ^\n\nSyntaxError: Unexpected token ';'\n"
                "    at wrapSafe (node:internal)\n\nNode.js v20.20.2"
            ),
            "SyntaxError: Unexpected token ';'",
        ),
        (
            (
                'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n'
                "    import nope\nModuleNotFoundError: No module named 'nope'"
            ),
            "ModuleNotFoundError: No module named 'nope'",
        ),
        (
            'Exception in thread "main" java.lang.IllegalStateException: no\n\tat X.main(X.java:3)',
            'Exception in thread "main" java.lang.IllegalStateException: no',
        ),
        ("panic: no\n\ngoroutine 1 [running]:\nexit status 2", "panic: no"),
        ("usage: x\nno such option", "no such option"),
    ],
)
def test_the_error_of_a_program_is_found_in_its_last_output(said: str, expected: str) -> None:
    assert expected == _error_line(said.splitlines())


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")
def test_a_peer_that_does_not_start_is_reported_with_its_error() -> None:
    Path("bad.js").write_text('require("./nope");\n')
    done = click_testing.CliRunner().invoke(main, ["conformance", "run", "--peer", "./bad.js"])

    assert 1 == done.exit_code
    error, *stderr = done.stderr.splitlines()
    assert "bad does not start: " in error
    assert "Cannot find module './nope'" in error
    assert "Node.js v" not in error
    assert any(line.startswith("Node.js v") for line in stderr), "the whole stderr is shown"


def test_piped_diff_profiles_has_no_trailing_spaces() -> None:
    """Several profiles refuse this message, with a reason each."""
    message = Message(b"x", properties=Properties(to="a" * 300, user_id=b"somebody"))
    Path("m.bin").write_bytes(message.encode())
    done = click_testing.CliRunner().invoke(main, ["diff-profiles", "m.bin"])

    assert "refused: " in done.output
    assert max(map(len, done.output.splitlines())) < 2_000


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="there are no signal masks")
@pytest.mark.parametrize("kind", ["counting", "watch"])
def test_ctrl_c_while_a_bar_starts_removes_the_bar(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    start, stop = Progress.start, Progress.stop

    def starting(self: Progress) -> None:
        signal.raise_signal(signal.SIGINT)
        start(self)
        events.append("started")

    def stopping(self: Progress) -> None:
        stop(self)
        events.append("stopped")

    monkeypatch.setattr(Progress, "start", starting)
    monkeypatch.setattr(Progress, "stop", stopping)
    monkeypatch.setattr(_output, "is_terminal", lambda _: True)
    monkeypatch.setattr(_output, "_BAR_DELAY", -1.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    before = sys.stdout, sys.stderr

    def show() -> None:
        if kind == "counting":
            with _output.progress_counter(False, "messages"):
                events.append("shown")
            return
        watch = _output.DelayedBar(lambda: (1, 2))
        try:
            watch.step(1)
        finally:
            watch.stop()

    with pytest.raises(KeyboardInterrupt):
        show()

    assert ["started", "stopped"] == events
    assert before == (sys.stdout, sys.stderr)


BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
try:
{code}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "package, extra, code",
    [
        ("markupsafe", "pages", "from amqp10msg.notation import render_html\nrender_html(b'')"),
        ("jinja2", "pages", "from amqp10msg.notation import render_html\nrender_html(b'')"),
        ("markupsafe", "pages", "from amqp10msg.pages import markup\nmarkup('')"),
        (
            "pyarrow",
            "arrow",
            "from amqp10msg.files import stores\nstores.StoreLocation.of('s3://bucket/key').read()",
        ),
        (
            "pyarrow",
            "arrow",
            "from amqp10msg.files import stores\nstores.StoreLocation.of('s3://bucket/key').state()",
        ),
        ("pika", "bridge", "import amqp10msg.net.ends.basic"),
    ],
)
def test_a_missing_package_names_its_extra(package: str, extra: str, code: str) -> None:
    program = BLOCKED.format(package=package, code=textwrap.indent(code, "    "))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert f"amqp10msg[{extra}]" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("command", ["validate", "inspect", "filter true", "translate --to 0-9-1"])
@pytest.mark.parametrize("form", ["jsonl", "prefixed", "cborseq"])
@pytest.mark.parametrize("piped", [False, True])
def test_file_without_messages_is_reported(command: str, form: str, piped: bool) -> None:
    Path("empty").touch()
    arguments = [*command.split(), "--format", form, "-" if piped else "empty"]
    done = click_testing.CliRunner().invoke(main, arguments, input=b"")

    assert 1 == done.exit_code
    assert "the input contains no messages" in done.output


def test_validate_and_pipeline_agree_on_empty_input() -> None:
    pytest.importorskip("pyarrow")
    Path("empty.jsonl").touch()
    Path("folder").mkdir()
    for given in ("empty.jsonl", "folder"):
        statuses = [
            click_testing.CliRunner().invoke(main, arguments).exit_code
            for arguments in (
                ["validate", given],
                ["pipeline", "validate", "--engine", "local", given, f"out-{given}"],
            )
        ]
        assert [1, 1] == statuses, given


@pytest.mark.parametrize("name", ["abcd", "deadbeef", "ACAg"])
@pytest.mark.parametrize(
    "command",
    [
        ["validate"],
        ["inspect"],
        ["convert", "--out", "plain"],
        ["filter", "a = 1"],
        ["compare", "005375a00178"],
    ],
)
def test_filter_in_the_place_of_a_message_is_an_error_that_says_what_was_tried(
    command: list[str], name: str
) -> None:
    expression = f"color = '{name}'"
    result = click_testing.CliRunner().invoke(main, [*command, expression])

    assert result.exit_code
    assert re.search(f"{expression}.* was read as \\d bytes? of hex, base64 or a", result.output)


@pytest.mark.parametrize("name", ["abcd", "deadbeef", "ACAg"])
@pytest.mark.parametrize(
    "command",
    [
        ["validate"],
        ["inspect"],
        ["convert", "--out", "plain"],
        ["filter", "a = 1"],
        ["compare", "005375a00178"],
    ],
)
def test_name_that_is_hex_or_base64_may_be_a_missing_file(command: list[str], name: str) -> None:
    result = click_testing.CliRunner().invoke(main, [*command, name])

    assert result.exit_code
    text = (
        f"'{name}' was read as \\d bytes? of hex, base64 or a string literal, because no such file"
    )
    assert re.search(text, result.output)
    Path(name).write_bytes(b"?")
    assert "no such file" not in click_testing.CliRunner().invoke(main, [*command, name]).output


@pytest.mark.parametrize("octets", ["005375a0", "de ad be ef", "de" * 21])
def test_bytes_of_a_message_are_not_taken_for_a_name(octets: str) -> None:
    result = click_testing.CliRunner().invoke(main, ["validate", octets])

    assert 1 == result.exit_code
    assert "no such file" not in result.output
