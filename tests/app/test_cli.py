"""The command line as a whole: its help, its errors, its behaviour as a process."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import Message, Properties
from amqp10msg.app.cli import main
from amqp10msg.notation import from_plain, from_typed

ROOT = Path(__file__).parents[2]
OCTETS = Message("hello").encode()
COMMANDS = (
    *("inspect", "encode", "validate", "filter", "convert", "compare"),
    *("bridge", "conformance", "migrate", "migrate-check", "rules"),
    *("translate", "diff-profiles", "serve", "pipeline", "spool", "demo"),
)


def process(
    *arguments: str | bytes, env: dict[str, str] | None = None, **options: object
) -> subprocess.CompletedProcess[bytes]:
    command: list[str | bytes] = [sys.executable, "-m", "amqp10msg", *arguments]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command,
        **{"cwd": ROOT, "capture_output": True, "timeout": 60, "input": b"", **options},
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error", **(env or {})},
    )


def test_version_shows_which_kernel_runs() -> None:
    kernel = "compiled kernel" if amqp10msg.COMPILED else "pure Python kernel"

    result = CliRunner().invoke(main, ["--version"])

    assert 0 == result.exit_code
    assert result.output.startswith(f"amqp10msg {amqp10msg.__version__} ({kernel}, ")


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_and_option_has_help(self, command: str) -> None:
        chosen = main.commands[command]

        assert chosen.help
        assert chosen.help.strip().splitlines()[0].endswith(".")
        for parameter in chosen.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{command} {parameter.opts}"
            else:
                assert parameter.human_readable_name in chosen.help

    @pytest.mark.parametrize("command", COMMANDS)
    @pytest.mark.parametrize("option", ["-h", "--help"])
    def test_help_fits_a_terminal(self, command: str, option: str) -> None:
        result = CliRunner().invoke(main, [command, option])

        assert 0 == result.exit_code
        assert result.output.startswith(f"Usage: amqp10msg {command}")
        assert max(map(len, result.output.splitlines())) <= 80

    def test_the_group_lists_its_commands_and_completion(self) -> None:
        result = CliRunner().invoke(main, ["--help"])

        assert 0 == result.exit_code
        assert set(COMMANDS) == set(main.commands)
        assert all(
            re.search(rf"^  {command} ", result.output, re.MULTILINE) for command in COMMANDS
        )
        assert "_AMQP10MSG_COMPLETE=bash_source" in result.output

    def test_no_command_prints_help(self) -> None:
        result = CliRunner().invoke(main, [])

        assert 2 == result.exit_code
        assert CliRunner().invoke(main, ["--help"]).output == result.output

    def test_help_examples_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those without a pipe into another program; the files that they name are made up.

        Spark and brokers have tests of their own.
        """
        monkeypatch.chdir(tmp_path)
        Path("message.bin").write_bytes(OCTETS)
        Path("header-and-body.bin").write_bytes(bytes.fromhex("003c") + bytes(12))
        Path("order.json").write_text('{"body": "hello"}')
        Path("acme.py").write_text("from amqp10msg import rule\nown = rule('own')(lambda _: [])\n")
        Path("captured").mkdir()
        Path("captured/one").write_bytes(OCTETS)
        for name in ("recorded.jsonl.gz", "messages.jsonl"):
            Path(name).write_text(f'{{"raw": "{OCTETS.hex()}"}}\n' * 20)
        ran = 0
        for command in set(COMMANDS) - {"pipeline", "spool", "bridge"}:
            for line in (main.commands[command].epilog or "").splitlines():
                if line.startswith("  amqp10msg "):
                    arguments = shlex.split(line.partition("|")[0])[1:]
                    result = CliRunner().invoke(main, arguments)

                    assert (0, line) == (result.exit_code, line), result.output
                    ran += 1

        assert ran >= 12


@given(
    command=st.sampled_from([*COMMANDS[:6], *COMMANDS[7:9]]),
    options=st.lists(
        st.sampled_from(
            ["--json", "--typed", "--html", "--value", "-q", "--out", "typed", "cbor", "--format",
             "--from", "raw", "prefixed", "--out", "--no-color", "--profile", "azure", "-"]
        ),
        max_size=3,
    ),
    arguments=st.lists(
        st.binary(max_size=12).map(bytes.hex)
        | st.binary(max_size=8).map(lambda tail: (OCTETS + tail).hex())
        | st.text(st.characters(exclude_characters="\0/"), max_size=12),
        max_size=3,
    ),
    content=st.binary(max_size=20) | st.text(max_size=20).map(str.encode),
)  # fmt: skip
def test_any_arguments_give_a_status_without_traceback(
    command: str, options: list[str], arguments: list[str], content: bytes
) -> None:
    result = CliRunner().invoke(main, [command, *options, *arguments], input=content)

    assert result.exit_code in (0, 1, 2)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    for line in result.stderr.splitlines():
        assert line.startswith("amqp10msg")


@pytest.mark.once
class TestProcess:
    """What only shows from outside."""

    def test_the_module_runs(self) -> None:
        result = subprocess.run(
            [sys.executable, "-m", "amqp10msg", "--version"],
            cwd=ROOT, capture_output=True, check=True,
        )  # fmt: skip

        assert result.stdout.startswith(f"amqp10msg {amqp10msg.__version__} (".encode())

    def test_a_message_through_a_pipe(self) -> None:
        result = process("inspect", input=OCTETS)

        assert (0, b"") == (result.returncode, result.stderr)
        assert b'"hello"' in result.stdout
        assert b"\x1b" not in result.stdout

    def test_broken_pipe_prints_no_error(self, tmp_path: Path) -> None:
        file = tmp_path / "lines"
        file.write_text(f'{{"raw": "{OCTETS.hex()}"}}\n' * 3_000)
        for command in (["inspect"], ["validate", "--json"], ["convert", "--out", "typed"]):
            with subprocess.Popen(
                [sys.executable, "-m", "amqp10msg", *command, str(file)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as running:
                assert running.stdout is not None
                assert running.stderr is not None
                running.stdout.readline()
                running.stdout.close()
                errors = running.stderr.read()

            assert b"" == errors

    @pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are text there")
    def test_file_name_with_undecodable_bytes(self, tmp_path: Path) -> None:
        name = os.fsencode(tmp_path) + b"/\xff\x1b\n.bin"
        Path(os.fsdecode(name)).write_bytes(OCTETS[:-1])

        result = process("validate", name)

        assert 1 == result.returncode
        assert rb"/\xff\x1b\x0a.bin: byte " in result.stdout
        assert b"" == result.stderr

        result = process("inspect", name)

        assert 1 == result.returncode
        assert result.stderr.startswith(b"amqp10msg: ")
        assert rb"\xff\x1b\x0a.bin: at byte " in result.stderr
        assert 1 == result.stderr.count(b"\n")

    def test_output_encoding_that_lacks_characters(self) -> None:
        octets = Message("\N{SNOWMAN}").encode()

        result = process("inspect", "--json", octets.hex(), env={"PYTHONIOENCODING": "latin-1"})

        assert 0 == result.returncode
        assert rb'"\u2603"' in result.stdout

    def test_closed_standard_input(self) -> None:
        result = subprocess.run(
            f"exec '{sys.executable}' -m amqp10msg inspect - <&-",
            shell=True, cwd=ROOT, capture_output=True, check=False,
        )  # fmt: skip

        assert 1 == result.returncode
        assert result.stderr.startswith(b"amqp10msg: standard input: ")
        assert 1 == result.stderr.count(b"\n")

    @pytest.mark.parametrize("missing", ["click", "rich.console"])
    def test_missing_extra_prints_what_to_install(self, missing: str) -> None:
        program = (
            f"import sys; sys.modules['{missing}'] = None; "
            "from amqp10msg.app.cli import main; sys.exit(main(['validate', '00']))"
        )

        result = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
        )

        assert 1 == result.returncode
        assert (
            f"amqp10msg: the command line needs the package {missing.partition('.')[0]}: "
            "pip install 'amqp10msg[cli]'\n"
        ) == result.stderr

    def test_shell_completion(self) -> None:
        script = process(env={"_AMQP10MSG_COMPLETE": "zsh_source"})
        names = process(
            env={
                "_AMQP10MSG_COMPLETE": "zsh_complete",
                "COMP_WORDS": "amqp10msg con",
                "COMP_CWORD": "1",
            }
        )

        assert b"compdef _amqp10msg_completion amqp10msg" in script.stdout
        assert b"convert" in names.stdout


def shown(
    *arguments: str, env: dict[str, str] | None = None, pieces: list[bytes] | None = None
) -> str:
    """Run a command on a new terminal, and return all that it wrote there.

    Other threads may read the output so far in `pieces`.
    """
    pieces = [] if pieces is None else pieces
    above, below = os.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **(env or {})}
    for name in ("NO_COLOR", "FORCE_COLOR"):
        if not (env or {}).get(name):
            environment.pop(name, None)
    with subprocess.Popen(
        [sys.executable, "-m", "amqp10msg", *arguments],
        cwd=ROOT, stdin=below, stdout=below, stderr=below, env=environment,
    ) as running:  # fmt: skip
        os.close(below)
        while True:
            try:
                piece = os.read(above, 65_536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            pieces.append(piece)
        running.wait(timeout=60)
    os.close(above)
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.mark.once
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals there")
class TestTerminal:
    """What somebody sees who watches."""

    def test_colour_can_be_turned_off(self) -> None:
        assert "\x1b[" in shown("inspect", OCTETS.hex())
        assert "\x1b[" not in shown("inspect", OCTETS.hex(), env={"NO_COLOR": "1"})
        assert "\x1b[" not in shown("inspect", OCTETS.hex(), env={"TERM": "dumb"})
        assert "\x1b[" not in shown("inspect", "--no-color", OCTETS.hex())
        assert "\x1b[" in shown("inspect", "--color", OCTETS.hex(), env={"NO_COLOR": "1"})

    def test_lines_fit_the_terminal(self) -> None:
        octets = Message("x" * 1_000).encode()

        lines = shown("inspect", "--no-color", octets.hex()).splitlines()

        assert max(map(len, lines)) <= 100

    def test_binary_output_to_a_terminal_is_refused(self) -> None:
        text = shown("convert", "--out", "raw", OCTETS.hex())

        assert "the output is binary and is not written to a terminal" in text
        assert "hello" not in text

    def test_no_sources_on_a_terminal_is_a_usage_error(self) -> None:
        assert shown("validate") == (
            "amqp10msg validate: no input: name files, pass hex or base64, or pipe messages in "
            "(see amqp10msg validate --help)\n"
        )

    def test_long_run_shows_a_progress_bar(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        lines = f'{{"raw": "{OCTETS.hex()}"}}\n' * 1_000
        pieces: list[bytes] = []

        written = 0

        def is_shown() -> bool:
            return re.search(rb"\d,\d\d\d messages", b"".join(pieces)) is not None

        def write() -> None:
            nonlocal written
            with pipe.open("w") as file:
                # A test without this bound would not end if nothing was ever shown.
                while not is_shown() and written < 2_000_000:
                    written += file.write(lines) // len(lines) * 1_000
                    file.flush()

        writer = threading.Thread(target=write)
        writer.start()
        text = shown("validate", str(pipe), pieces=pieces)
        writer.join()

        assert text.rstrip().endswith(f"{written:,} messages, no violations (profile oasis)\x1b[0m")
        assert written < 2_000_000, "nothing was shown until then"

    def test_short_run_shows_no_progress_bar(self) -> None:
        assert "\x1b[?25l" not in shown("validate", OCTETS.hex())


READERS = {"typed": from_typed, "plain": from_plain}
ACTED_ON = "a\x7fb\x9bc\u202ed"
TOLD = Message(
    ACTED_ON,
    properties=Properties(message_id=ACTED_ON, subject=ACTED_ON, to=ACTED_ON),
    application_properties={ACTED_ON: ACTED_ON},
    message_annotations={"x-opt-a": ACTED_ON},
)


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["inspect", "--json"],
        ["inspect", "--typed"],
        ["validate"],
        ["validate", "--json"],
        ["convert", "--out", "typed"],
        ["convert", "--out", "plain"],
        ["translate", "--to", "0-9-1"],
        ["translate", "--to", "0-9-1", "--json"],
        ["filter", "--json", "JMSMessageID = 'x'"],
    ],
    ids=" ".join,
)
def test_no_control_character_of_a_message_reaches_a_terminal(arguments: list[str]) -> None:
    """`str.isprintable` is False for DEL, C1 and the marks that change the direction of text."""
    result = CliRunner().invoke(main, [*arguments, TOLD.encode().hex()])

    assert result.exit_code in {0, 1}, result.output
    found = {char for char in result.output if not char.isprintable()} - {"\n"}
    assert set() == found


@pytest.mark.once
@pytest.mark.parametrize("target", ["typed", "plain"])
def test_escaped_json_decodes_to_the_same_value(target: str) -> None:
    result = CliRunner().invoke(main, ["convert", "--out", target, TOLD.encode().hex()])

    assert TOLD == READERS[target](json.loads(result.stdout))
