"""The file of ``-o`` is complete or absent, even after a failure or Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amqp10msg import Message
from amqp10msg.app.cli import main
from tests.waiting import wait_until

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
OCTETS = Message(b"hello").encode()
COMMANDS = {
    "encode": (("encode", "--out", "jsonl"), '{"body": "hello"}\n'),
    "convert": (("convert", "--out", "jsonl"), json.dumps({"raw": OCTETS.hex()}) + "\n"),
    "translate": (("translate", "--to", "0-9-1"), json.dumps({"raw": OCTETS.hex()}) + "\n"),
    "inspect": (("inspect", "--json"), json.dumps({"raw": OCTETS.hex()}) + "\n"),
}
NAMES = pytest.mark.parametrize("command", COMMANDS)
FORMER = pytest.mark.parametrize("former", [None, b"what was there"], ids=["new", "old"])


def run(*arguments: str, data: str = "") -> Result:
    return CliRunner().invoke(main, arguments, input=data)


def found(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def before(folder: Path, content: bytes | None) -> dict[str, bytes]:
    if content is not None:
        (folder / "out").write_bytes(content)
    return found(folder)


@pytest.mark.parametrize("command", ["encode", "convert"])
@FORMER
def test_failure_keeps_the_existing_output_file(
    tmp_path: Path, command: str, former: bytes | None
) -> None:
    arguments, line = COMMANDS[command]
    expected = before(tmp_path, former)

    result = run(*arguments, "-", "-o", str(tmp_path / "out"), data=f"{line}no JSON\n")

    assert 1 == result.exit_code
    assert expected == found(tmp_path)
    assert "with -o writes no file" in told(command)


def told(command: str) -> str:
    """The help of a command, as one line."""
    return " ".join(run(command, "--help").output.split())


@pytest.mark.parametrize("command", ["translate", "inspect"])
@FORMER
def test_unreadable_message_does_not_prevent_output_of_others(
    tmp_path: Path, command: str, former: bytes | None
) -> None:
    arguments, line = COMMANDS[command]
    before(tmp_path, former)
    out = tmp_path / "out"
    assert 0 == run(*arguments, "-", "-o", str(out), data=line).exit_code
    expected = out.read_bytes()

    result = run(*arguments, "-", "-o", str(out), data=f"no JSON\n{line}")

    assert 1 == result.exit_code
    assert expected == out.read_bytes()
    assert "-o still writes all other messages" in told(command)


@NAMES
@FORMER
def test_interrupt_keeps_the_existing_output_file(
    tmp_path: Path, command: str, former: bytes | None
) -> None:
    """Ctrl-C comes while messages are written and more of them are awaited."""
    arguments, line = COMMANDS[command]
    folder = tmp_path / "folder"
    folder.mkdir()
    expected = before(folder, former)
    with subprocess.Popen(
        [sys.executable, "-m", "amqp10msg", *arguments, "-", "-o", str(folder / "out")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(line.encode() * 3)
        process.stdin.flush()
        # Until the command has begun to write.
        wait_until(lambda: found(folder) != expected or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(60)  # less than a pipe holds is said
        finally:
            process.kill()
        said = process.stderr.read()

    assert (130, b"amqp10msg: interrupted") == (status, said.strip())
    assert expected == found(folder)


@NAMES
def test_replaced_file_keeps_mode_and_links(tmp_path: Path, command: str) -> None:
    arguments, line = COMMANDS[command]
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"what was there")
    file.chmod(0o640)
    link.symlink_to(file)

    result = run(*arguments, "-", "-o", str(link), data=line)

    assert 0 == result.exit_code, result.output
    assert link.is_symlink()
    assert 0o640 == stat.S_IMODE(file.stat().st_mode)
    assert file.read_bytes().endswith(b"\n")
    assert ["file", "link"] == sorted(found(tmp_path))


def test_new_file_has_the_default_mode(tmp_path: Path) -> None:
    (tmp_path / "other").touch()

    assert 0 == run("convert", "--out", "hex", OCTETS.hex(), "-o", str(tmp_path / "out")).exit_code
    assert (tmp_path / "other").stat().st_mode == (tmp_path / "out").stat().st_mode


def test_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"what was there")
    file.chmod(0o400)
    if os.access(file, os.W_OK):
        pytest.skip("this user may write everything")

    result = run("convert", "--out", "hex", OCTETS.hex(), "-o", str(file))

    assert 1 == result.exit_code
    assert f"amqp10msg: {file}: Permission denied\n" == result.stderr


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="there is no such device here")
def test_device_is_written_directly() -> None:
    assert 0 == run("convert", "--out", "hex", OCTETS.hex(), "-o", "/dev/null").exit_code
    assert Path("/dev/null").is_char_device()


def test_named_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert 0 == run("convert", "--out", "hex", OCTETS.hex(), "-o", str(pipe)).exit_code
        assert f"{OCTETS.hex()}\n".encode() == os.read(reader, 1_000)
    finally:
        os.close(reader)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="there is no such device here")
def test_anonymous_pipe_is_written_directly() -> None:
    command = [sys.executable, "-m", "amqp10msg", "convert", "--out", "hex", OCTETS.hex()]
    done = subprocess.run(
        [*command, "-o", "/dev/stdout"], check=False, timeout=60, capture_output=True, cwd=ROOT
    )
    assert (0, f"{OCTETS.hex()}\n".encode()) == (done.returncode, done.stdout), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="this is done by a shell")
def test_file_on_a_full_disk_is_named(tmp_path: Path) -> None:
    source, file = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text(json.dumps({"raw": Message(b"x" * 100_000).encode().hex()}) + "\n")
    command = [sys.executable, "-m", "amqp10msg", "convert", "--out", "hex", str(source)]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *command, "-o", str(file)],
        check=False,
        timeout=60,
        capture_output=True,
        cwd=ROOT,
    )
    assert (1, f"amqp10msg: {file}: File too large\n") == (done.returncode, done.stderr.decode())


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no such device here")
def test_full_device_is_named() -> None:
    result = run("convert", "--out", "hex", OCTETS.hex(), "-o", "/dev/full")

    assert 1 == result.exit_code
    assert result.stderr == "amqp10msg: /dev/full: No space left on device\n"


@pytest.mark.skipif(os.name != "posix", reason="this is done by a shell")
@pytest.mark.parametrize("command", ["convert", "encode", "inspect"])
def test_a_closed_standard_output_is_named(tmp_path: Path, command: str) -> None:
    """It is not a success that writes nothing; a file is written without one."""
    arguments, data = COMMANDS[command]
    script = 'exec "$@" >&-'
    program = ["sh", "-c", script, "sh", sys.executable, "-m", "amqp10msg"]

    def closed(*more: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*program, *arguments, *more],
            input=data.encode(),
            capture_output=True,
            cwd=ROOT,
            check=False,
        )

    done = closed()
    said = "amqp10msg: standard output is closed: use --output FILE\n"
    assert (1, said) == (done.returncode, done.stderr.decode())
    assert 0 == closed("-o", str(tmp_path / "out")).returncode
    assert (tmp_path / "out").stat().st_size


@pytest.mark.skipif(os.name != "posix", reason="this is done by a shell")
def test_version_with_closed_stdout_has_no_traceback() -> None:
    program = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "amqp10msg", "--version"]
    done = subprocess.run(program, capture_output=True, cwd=ROOT, check=False)

    assert b"" == done.stderr
