"""What peers that say nothing, or guess passwords, cost the server."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from amqp10msg.net.serve import Server, connection
from amqp10msg.net.serve.broker import Guesses
from amqp10msg.net.transport import SASL_HEADER

pytestmark = pytest.mark.once


@contextlib.contextmanager
def clients(server: Server, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((server.host, server.port), timeout=20))
            for _ in range(count)
        ]


def test_a_connection_that_says_nothing_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "_OPENING", 0.05)
    with caplog.at_level(logging.INFO), Server() as server, clients(server, 3) as silent:
        silent[1].sendall(b"AMQP\0\1\0\0")
        silent[2].sendall(SASL_HEADER)
        for client in silent:
            with contextlib.suppress(ConnectionError):
                while client.recv(1000):
                    pass
        assert 3 == caplog.text.count("did not open the connection in time")


def test_no_more_connections_than_descriptors(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), Server() as server:
        server.call(lambda _: setattr(server, "_most", 5))
        with clients(server, 12) as many:
            closed = 0
            for client in many[5:]:
                with contextlib.suppress(ConnectionError):
                    assert b"" == client.recv(1)
                closed += 1
            assert (7, 1) == (closed, caplog.text.count("are closed at once"))
            assert 5 == len(server.broker.connections)
        deadline = time.monotonic() + 20
        while server.broker.connections and time.monotonic() < deadline:
            time.sleep(0.01)
        with clients(server, 1) as (client,):
            client.sendall(SASL_HEADER)
            assert SASL_HEADER == client.recv(8)


_FLOOD = """
import resource, socket, sys, time
from amqp10msg.net.serve import Server
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
server = Server()
server.start()
print(server.port, flush=True)
sys.stdin.read()
server.stop()
"""


def test_a_flood_of_silent_connections_leaves_few_lines_and_a_server() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _FLOOD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with contextlib.ExitStack() as stack:
            for _ in range(600):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            time.sleep(0.5)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(SASL_HEADER)
            assert SASL_HEADER == client.recv(8)
        _, said = process.communicate("", timeout=30)
    assert len(said.splitlines()) < 10, said[:2_000]
    assert 0 == process.returncode


def test_guesses_wait_their_turn() -> None:
    guesses = Guesses()
    assert [0.0, 0.0] == [guesses.wait("a", 1.0), guesses.wait("a", 1.0)]
    for _ in range(8):
        guesses.refused("a", 2.0)

    # One after the other, however many come at once; other hosts do not wait.
    assert [2.0, 4.0, 6.0] == [guesses.wait("a", 2.0) for _ in range(3)]
    assert 0.0 == guesses.wait("b", 2.0)
    assert 0.0 == guesses.wait("a", 100.0)


def test_passwords_are_checked_in_turns() -> None:
    with Server(users={"ann": "secret"}) as server:
        server.broker.guesses.refused("127.0.0.1", time.monotonic())
        begin = time.monotonic()
        with clients(server, 4) as many:
            for client in many:
                client.sendall(SASL_HEADER)
            for client in many:
                assert SASL_HEADER == client.recv(8)
        assert time.monotonic() - begin > 4 * 0.04
