"""Whether a bridge that is asked to end does so, whatever it waits for, by its own status.

What it waits for takes an hour in these tests: a bridge that goes on waiting runs into a timeout.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pika")

from amqp10msg import Message
from amqp10msg.net.bridge import Bridge, LinkError, Statistics
from amqp10msg.net.bridge.options import Waits
from amqp10msg.net.bridge.process import status_of
from amqp10msg.net.serve import Server
from tests.basic_broker import BasicBroker
from tests.bridging import options
from tests.waiting import TIMEOUT, wait_until

ROOT = Path(__file__).parents[2]
#: Seconds that what a bridge waits for takes.
HOUR = 3600.0
pytestmark = [
    pytest.mark.usefixtures("in_a_folder"),
    pytest.mark.once,
    pytest.mark.skipif(
        sys.platform == "win32", reason="Windows has no SIGTERM that can be held back"
    ),
]


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """An API that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(TIMEOUT)
        yield made


def place_of(silent: socket.socket) -> str:
    return f"http://127.0.0.1:{silent.getsockname()[1]}"


# In this process.


@pytest.mark.parametrize(
    "how, ending, status",
    [
        ({}, "stopped", 4),
        ({"idle": None}, "stopped", 0),
        ({"deadline": 0.3}, "deadline", 4),
    ],
)
def test_route_can_be_stopped_while_it_declares(
    how: dict[str, Any], ending: str, status: int, silent: socket.socket
) -> None:
    """It waited for the API, and had no time of its own."""
    api = place_of(silent)
    taken: list[Any] = []

    async def run() -> Statistics:
        async with BasicBroker("from", "to") as broker:
            urls = broker.url("queue=from"), broker.url("queue=to")
            given = options(
                declare=True,
                management=api,
                target_management=api,
                waits=Waits(management_timeout=HOUR),
                **how,
            )
            async with asyncio.timeout(TIMEOUT), Bridge(*urls, given) as bridge:
                taken.append((await asyncio.to_thread(silent.accept))[0])
                if "deadline" not in how:
                    bridge.stop()
                (counts,) = (await bridge.run()).values()
            return counts

    counts = asyncio.run(run())
    taken.pop().close()

    assert (ending, "ended", status) == (counts.ending, counts.state, status_of([counts]))


def test_host_with_several_ip_addresses(monkeypatch: Any) -> None:
    """The first one that answers is used; where none does, all are named."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    ports: list[int] = []

    def found(*_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]

    async def run() -> int:
        async with BasicBroker("from", "to") as broker:
            ports[:] = [nobody, int(broker.url("").rpartition(":")[2].strip("/?"))]
            monkeypatch.setattr(socket, "getaddrinfo", found)
            one, other = (f"amqp091://broker.example/?queue={name}" for name in ("from", "to"))
            async with asyncio.timeout(60), Bridge(one, other, options(idle=0.1)) as bridge:
                (counts,) = (await bridge.run()).values()
            return status_of([counts])

    assert 0 == asyncio.run(run())

    ports[:] = [nobody, nobody]
    with pytest.raises(LinkError, match="Connection refused: nothing listens on that port"):
        asyncio.run(_reach("amqp091://broker.example/?queue=q"))


async def _reach(url: str) -> None:
    async with Bridge(url, "file:there.jsonl", options(connect_timeout=0.3)) as bridge:
        await bridge.run()


# The command.


#: The command, where the answer of a management API may take an hour.
_PATIENT = f"""
import sys
from amqp10msg.__main__ import main
from amqp10msg.net.bridge import options

options.WAITS = options.Waits(management_timeout={HOUR})
sys.argv[1:] = ["bridge", *sys.argv[1:]]
sys.exit(main())
"""


def ended(command: list[str], begun: Callable[[Any], object]) -> tuple[int, bytes, bytes]:
    """Start a process and ask it to end when it has begun.

    Returns:
        Its status, and what it wrote to stdout and to stderr.

    Raises:
        subprocess.TimeoutExpired: it went on for `TIMEOUT`.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        begun(process)
        process.terminate()
        output, errors = process.communicate(timeout=TIMEOUT)
        return process.returncode, output, errors
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("what", ["--declare", "--all-queues", "--config"])
def test_signal_ends_a_command_that_waits_for_an_api(what: str, silent: socket.socket) -> None:
    """It ended when the API had been given up, after half a minute."""
    api = place_of(silent)
    command = ["-c", _PATIENT, "--until-empty", "--management", api]
    ends = ["--from", "amqp091://127.0.0.1:1/", "--to", "amqp091://127.0.0.1:2/"]
    if what == "--declare":
        ends = [f"{end}?queue=q" if "://" in end else end for end in ends]
        command += [*ends, "--declare", "--target-management", api]
    elif what == "--all-queues":
        command += [*ends, "--all-queues", "*"]
    else:
        Path("r.toml").write_text(
            f'[[route]]\nfrom = "{ends[1]}"\nto = "{ends[3]}"\nall-queues = "*"\n'
            f'management = "{api}"\n'
        )
        command = ["-c", _PATIENT, "--config", "r.toml"]

    taken: list[Any] = []
    status, _, _ = ended(command, lambda _: taken.append(silent.accept()[0]))
    taken.pop().close()

    assert 4 == status


def test_signal_ends_a_dry_run_with_its_report() -> None:
    """It was ended by the signal, and said nothing."""
    with Server(accept_durable=True) as server:
        for number in range(3):
            server.publish("q", Message(b"%d" % number))
        ends = ["--from", f"{server.url}/q", "--to", "amqp091://127.0.0.1:1/?queue=q"]
        command = ["-c", _PATIENT, "--dry-run", "--idle", str(HOUR), *ends]

        def begun(_: Any) -> None:
            wait_until(lambda: not server.counts("q").available)

        status, output, errors = ended(command, begun)

        assert 3 == server.counts("q").available
    assert 4 == status
    assert b"3 messages read and returned" in output
    assert b"a signal ended the dry run before it had read all messages" in errors


@pytest.mark.parametrize("declares", [True, False])
def test_signal_ends_a_dry_run_before_it_reads(declares: bool, silent: socket.socket) -> None:
    """It was ended by the signal while it waited for an API, or for the source to open."""
    at = place_of(silent)
    ends = ["--from", "amqp091://127.0.0.1:1/?queue=q", "--to", "amqp091://127.0.0.1:2/?queue=q"]
    if declares:
        ends += ["--declare", "--management", at, "--target-management", at]
    else:
        ends[1] = f"{at.replace('http', 'amqp')}/q"
    command = ["-c", _PATIENT, "--dry-run", "--connect-timeout", str(HOUR), *ends]
    taken: list[Any] = []

    status, output, _ = ended(command, lambda _: taken.append(silent.accept()[0]))
    taken.pop().close()

    assert 4 == status
    assert b"not read: a signal ended the command" in output


_RESOLVING = """
import socket, sys, time

def getaddrinfo(*given, **named):
    print("looking it up", flush=True)
    time.sleep(3600)

socket.getaddrinfo = getaddrinfo
from amqp10msg.__main__ import main

sys.argv[1:] = ["bridge", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize("scheme", ["amqp091", "amqp"])
def test_signal_ends_a_command_during_a_name_lookup(scheme: str) -> None:
    """asyncio waits for its threads before a process ends."""
    ends = ["--from", f"{scheme}://broker.example/?queue=q", "--to", "file:there.jsonl"]

    def begun(process: Any) -> None:
        assert b"looking it up\n" == process.stdout.readline()

    status, _, _ = ended(["-c", _RESOLVING, "--until-empty", *ends], begun)

    assert 4 == status


_LATE = """
import atexit, os, signal, sys

atexit.register(os.kill, os.getpid(), signal.SIGTERM)
from amqp10msg.__main__ import main

sys.argv[1:] = ["bridge", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize("fails", [True, False])
def test_sigterm_while_the_process_exits_changes_no_status(fails: bool) -> None:
    """It ended by the signal."""
    Path("in.jsonl").touch()
    with Server(accept_durable=True) as server:
        target = "amqp://127.0.0.1:1/q" if fails else f"{server.url}/q"
        ends = ["--from", "file:in.jsonl?protocol=1.0", "--to", target, "--until-empty"]
        done = subprocess.run(
            [sys.executable, "-c", _LATE, *ends, "--connect-timeout", "0.1" if fails else "30"],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert (1 if fails else 0) == done.returncode, done.stderr


def test_sigterm_is_the_default_again_where_the_process_goes_on() -> None:
    """A program that calls the command has its signals afterwards."""
    code = """
import signal
from amqp10msg.app.cli import main
try:
    main(["bridge", "--from", "file:in.jsonl?protocol=1.0", "--to", "amqp://127.0.0.1:1/q",
          "--connect-timeout", "0.1"])
except SystemExit:
    pass
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGTERM).name)
"""
    Path("in.jsonl").touch()

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert "set() SIG_DFL" == done.stdout.splitlines()[-1], done.stderr
