"""Limits on the cost of silent peers and of peers that guess passwords."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import selectors
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from amqp10msg import Message, Properties, UInt
from amqp10msg.delivery import DistributionNode, Rejected
from amqp10msg.delivery.filters import EvaluationError, Selector, TopicBinding
from amqp10msg.net.serve import Server, ServerWaits, attaching, tls_context
from amqp10msg.net.serve.attaching import LimitedFilter
from amqp10msg.net.serve.broker import MAX_PASSWORD_WAIT, PasswordThrottle, TurnOverError
from amqp10msg.net.serve.connection import Connection, Incoming
from amqp10msg.net.transport import SASL_HEADER
from tests.net.serve_client import TIMEOUT, until
from tests.net.transport_ends import frame

pytestmark = pytest.mark.once


@contextlib.contextmanager
def clients(server: Server, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((server.host, server.port), timeout=20))
            for _ in range(count)
        ]


def test_silent_connection_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    waits = ServerWaits(opening=0.05)
    with caplog.at_level(logging.INFO), Server(waits=waits) as server, clients(server, 3) as silent:
        silent[1].sendall(b"AMQP\0\1\0\0")
        silent[2].sendall(SASL_HEADER)
        for client in silent:
            with contextlib.suppress(ConnectionError):
                while client.recv(1000):
                    pass
        assert 3 == caplog.text.count("did not open the connection in time")


def test_answers_to_a_peer_that_does_not_read_are_bounded() -> None:
    name = "x" * 30_000
    pair = frame(0x12, name, UInt(0), False, None, None, None) + frame(0x16, UInt(0), True)
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client") + frame(0x11, None, UInt(0), UInt(9), UInt(9))
    with Server() as server, clients(server, 1) as (client,):
        client.sendall(octets)
        client.settimeout(2)
        with contextlib.suppress(TimeoutError):
            for _ in range(2_000):  # 60 MB, and more in answers
                client.sendall(pair)
        (made,) = server.broker.connections
        assert isinstance(made, Connection)
        assert made.engine.pending < 4 << 20

        client.settimeout(20)
        while made.engine.pending or not made._reading:
            assert client.recv(1 << 20)  # and it goes on when the peer reads


def test_connection_limit(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), Server() as server:
        server.call(lambda _: setattr(server, "_connection_limit", 5))
        with clients(server, 12) as many:
            closed = 0
            for client in many[5:]:
                with contextlib.suppress(ConnectionError):
                    assert b"" == client.recv(1)
                closed += 1
            assert (7, 1) == (closed, caplog.text.count("are closed immediately"))
            assert 5 == len(server.broker.connections)
        until(lambda: not server.broker.connections)
        with clients(server, 1) as (client,):
            client.sendall(SASL_HEADER)
            assert SASL_HEADER == client.recv(8)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server-side context with a certificate made for this run."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = str(folder / "cert.pem"), str(folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    try:
        subprocess.run(
            [*command, "-subj", "/CN=localhost", "-out", certificate, "-keyout", key],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("needs the command openssl, to make a certificate")
    return tls_context(certificate, key)


def _read_to_end(client: socket.socket) -> bytes:
    """Return all bytes until the server closes the socket."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := client.recv(1 << 16):
            received += data
    return received


# The first bytes of a TLS record, as far as different silent peers get.
_PARTS_OF_A_HANDSHAKE = [b"", b"\x16", b"\x16\x03\x01\x02\x00", b"\x16\x03\x01\x02\x00\x01\x00"]


@pytest.mark.parametrize("sent", _PARTS_OF_A_HANDSHAKE)
def test_unfinished_tls_handshake_is_ended(
    sent: bytes,
    tls: ssl.SSLContext,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    waits = ServerWaits(opening=0.05)
    with Server(tls=tls, waits=waits) as server, clients(server, 3) as silent:
        for client in silent:
            client.sendall(sent)
        for client in silent:
            assert b"" == _read_to_end(client)
        until(lambda: not server.broker.handshakes)
        # The log entry of the last one may follow.
        until(lambda: caplog.text.count("did not finish the TLS handshake in time") == 3)


def test_silence_after_the_tls_handshake_is_ended(
    tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with Server(tls=tls, waits=ServerWaits(opening=0.5)) as server:
        # On a slow machine, the time may be over before the handshake is.
        with (
            clients(server, 1) as (client,),
            contextlib.suppress(OSError),
            _client_tls().wrap_socket(client) as secure,
        ):
            assert b"" == _read_to_end(secure)
        until(lambda: " in time" in caplog.text)
        until(lambda: not server.broker.connections and not server.broker.handshakes)


def _client_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_tls_handshakes_count_as_connections(
    tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), Server(tls=tls) as server:
        server.call(lambda _: setattr(server, "_connection_limit", 5))
        with clients(server, 12) as many:
            for client in many[5:]:
                assert b"" == _read_to_end(client)
            assert 5 == len(server.broker.handshakes)
            assert 1 == caplog.text.count("are closed immediately")
            many[0].close()
            until(lambda: len(server.broker.handshakes) == 4)
            with clients(server, 1) as (client,), _client_tls().wrap_socket(client) as secure:
                secure.sendall(SASL_HEADER)
                assert SASL_HEADER == secure.recv(8)
        until(lambda: not server.broker.handshakes and not server.broker.connections)


def test_server_stops_during_tls_handshakes(tls: ssl.SSLContext) -> None:
    with Server(tls=tls) as server, clients(server, 2) as silent:
        silent[1].sendall(b"\x16\x03\x01")
        until(lambda: len(server.broker.handshakes) == 2)
        server.stop()
        assert b"" == _read_to_end(silent[0])


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", SASL_HEADER])
def test_bytes_that_are_not_tls_end_the_socket(sent: bytes, tls: ssl.SSLContext) -> None:
    with Server(tls=tls) as server, clients(server, 1) as (client,):
        client.sendall(sent)
        _read_to_end(client)
        until(lambda: not server.broker.handshakes)


def test_first_bytes_sent_with_the_end_of_the_tls_handshake_are_read(tls: ssl.SSLContext) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_end = _client_tls().wrap_bio(incoming, outgoing)
    with Server(tls=tls) as server, clients(server, 1) as (client,):
        while True:
            try:
                client_end.do_handshake()
                break
            except ssl.SSLWantReadError:
                client.sendall(outgoing.read())
                incoming.write(client.recv(1 << 16))
        client_end.write(SASL_HEADER)
        client.sendall(outgoing.read())  # the last flight of the handshake and the header together
        received = b""
        while len(received) < len(SASL_HEADER):
            try:
                received += client_end.read(1 << 10)
            except ssl.SSLWantReadError:
                incoming.write(client.recv(1 << 16))
        assert received.startswith(SASL_HEADER)


def test_peer_that_never_reads_its_close_is_aborted(caplog: pytest.LogCaptureFixture) -> None:
    """Regression: the socket stayed open if its last bytes did not fit into the peer's buffers."""
    name = "x" * 30_000
    pair = frame(0x12, name, UInt(0), False, None, None, None) + frame(0x16, UInt(0), True)
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client") + frame(0x11, None, UInt(0), UInt(9), UInt(9))
    caplog.set_level(logging.INFO)
    waits = ServerWaits(closing=0.05)
    with Server(waits=waits) as server, clients(server, 1) as (client,):
        client.sendall(octets)
        until(lambda: bool(server.broker.connections))
        (held,) = server.broker.connections
        assert isinstance(held, Connection)
        refused = 0
        while not held.paused:
            client.sendall(pair)
            refused += 1
            until(lambda: caplog.text.count("link-refused") >= refused)  # noqa: B023
        client.sendall(b"\0\0\0\0\0\0\0\0")  # not a frame: the server closes
        until(lambda: not server.broker.connections)


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


def test_flood_of_silent_connections_is_survived() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _FLOOD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
            for _ in range(600):
                client = socket.create_connection(("127.0.0.1", port), timeout=20)
                selector.register(stack.enter_context(client), selectors.EVENT_READ)
            # The server says nothing to silent peers: those that can be read were closed.
            until(lambda: len(selector.select(0)) >= 600 - 256)

        def answers() -> bool:
            with (
                contextlib.suppress(ConnectionError),
                socket.create_connection(("127.0.0.1", port), timeout=20) as client,
            ):
                client.sendall(SASL_HEADER)
                return client.recv(8) == SASL_HEADER
            return False

        until(answers)  # the server must first notice that the others are closed
        _, said = process.communicate("", timeout=30)
    assert len(said.splitlines()) < 10, said[:2_000]
    assert 0 == process.returncode


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
@pytest.mark.parametrize("name", [field.name for field in attrs.fields(ServerWaits)])
def test_time_that_is_not_positive_is_refused(name: str, seconds: float) -> None:
    text = f"ServerWaits.{name} must be more than 0 seconds, got {seconds!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        ServerWaits(**{name: seconds})


# Filters.

#: 2 kB; took a second of processor time for 2 MB of messages, at each attach.
_COSTLY = " OR ".join(["a LIKE '%a_b%'"] * 100)


def _passing(server: Server, text: str) -> LimitedFilter:
    filters = attaching.supported_filters({"f": Selector(text).to_described()})
    return LimitedFilter(filters, server.broker)


@pytest.mark.parametrize("size", [100, 2_000, 40_000, 60_000])
def test_the_filters_of_a_link_take_a_bounded_number_of_steps(size: int) -> None:
    passing = _passing(Server(), _COSTLY)
    message = Message(application_properties={"a": "a" * size})
    seen, most = 0, 450
    with contextlib.suppress(EvaluationError):
        for _ in range(most):
            passing.fresh = True
            assert not passing.matches(message)
            seen += 1

    assert passing.filters.steps <= 250_000_000 + 100_000 * seen + 20_000_000
    # A filter that costs less than what each message brings with it goes on for ever.
    assert (seen == most) is (size < 250)


@pytest.mark.parametrize("kind", ["selector", "topic"])
def test_filters_of_a_link_share_the_steps_per_message(kind: str) -> None:
    """Hundreds of filters fit into an attach."""
    one = {"selector": Selector("a NOT LIKE '%a_b%'"), "topic": TopicBinding("#.a.*.a.#")}[kind]
    filters = attaching.supported_filters({f"f{n}": one.to_described() for n in range(200)})
    text = ".".join(["a"] * (600 if kind == "topic" else 10_000))
    message = Message(properties=Properties(subject=text), application_properties={"a": text})
    assert filters.matches(message)
    assert 10_000_000 < filters.steps <= 20_000_000
    longer = text * 3
    costly = Message(properties=Properties(subject=longer), application_properties={"a": longer})
    with pytest.raises(EvaluationError, match=r"too long .* raise FilterLimits\.steps"):
        filters.matches(costly)
    assert filters.steps <= 20_000_000, "nothing was added"


def test_message_above_the_exchanges_step_limit_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def costly(*_: Any, **__: Any) -> None:
        raise EvaluationError("too long")

    with Server() as server:
        monkeypatch.setattr(server.broker.exchanges, "publish", costly)
        publish: Any = server.broker.exchanges.publish
        link = Incoming(_Unconnected(), _Unconnected(), publish, None, True, 1)  # type: ignore[arg-type]
        state, error = link._publish(b"", _Unconnected(), None)  # type: ignore[arg-type]

    assert isinstance(state, Rejected)
    assert error is not None
    assert ("amqp:resource-limit-exceeded", "too long") == (error.condition, error.description)


class _Unconnected:
    transactions = state = link = None
    message_format = 0


def test_common_filter_stays_within_its_budget() -> None:
    passing = _passing(Server(), "a LIKE 'order-%' OR a LIKE '%-2_26-%'")
    message = Message(application_properties={"a": "invoice-2025-0001" * 5})
    for _ in range(2_000):
        passing.fresh = True
        assert not passing.matches(message)
    assert passing.filters.steps < 2_000 * 1_000


class _Scanning:
    """A link whose filters reject an endless sequence of messages."""

    def __init__(self, node: DistributionNode) -> None:
        self.node = node
        self.pumped = 0

    def pump(self) -> bool:
        self.pumped += 1
        if self.pumped < 100:
            raise TurnOverError
        return False


def test_long_work_continues_in_further_turns() -> None:
    """Regression: each request of another connection continued the long work, so all waited."""

    async def serve() -> None:
        server = Server()
        server._open_nodes(contextlib.ExitStack())
        turns = server.broker.turns
        node = server.broker.nodes.make("q")
        scanning: Any = _Scanning(node)
        turns.add(scanning)
        turns.run(lambda: turns.available(node))
        assert 1 == scanning.pumped
        for _ in range(50):  # requests of others, also those that bring it more messages
            turns.run(lambda: turns.available(node))
        assert 1 == scanning.pumped
        for _ in range(3):
            await asyncio.sleep(0)
        assert 2 <= scanning.pumped <= 4
        while scanning.pumped < 100:
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        assert 100 == scanning.pumped

    asyncio.run(serve())


def test_wrong_passwords_make_the_host_wait() -> None:
    guesses = PasswordThrottle()
    assert [0.0, 0.0] == [guesses.wait("a", 1.0), guesses.wait("a", 1.0)]
    for _ in range(8):
        guesses.refused("a", 2.0)

    # One after the other, however many come at once; other hosts do not wait.
    assert [2.0, 4.0, 6.0] == [guesses.wait("a", 2.0) for _ in range(3)]
    assert 0.0 == guesses.wait("b", 2.0)
    assert 0.0 == guesses.wait("a", 100.0)


def test_rejected_wait_is_not_assigned() -> None:
    """Otherwise a flood of guesses would lock its host out for hours."""
    guesses = PasswordThrottle()
    for _ in range(8):
        guesses.refused("a", 2.0)
    assert 15 == sum(guesses.wait("a", 2.0) <= MAX_PASSWORD_WAIT for _ in range(10_000))

    assert 2.0 == guesses.wait("a", 32.0)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of loopback")
def test_connections_of_a_throttled_host_wait() -> None:
    with Server(users={"ann": "secret"}) as server:

        def refuse(_: Any) -> None:
            moment = time.monotonic()
            for _ in range(8):
                server.broker.password_throttle.refused("127.0.0.1", moment)
            for _ in range(13):  # each takes a turn of 2 seconds, of 30 at most
                server.broker.password_throttle.wait("127.0.0.1", moment)

        server.call(refuse)
        place = (server.host, server.port)
        with clients(server, 1) as (waiting,):
            waiting.sendall(SASL_HEADER)
            with socket.create_connection(
                place, timeout=TIMEOUT, source_address=("127.0.0.2", 0)
            ) as other:
                other.sendall(SASL_HEADER)
                assert SASL_HEADER == other.recv(8)
            waiting.setblocking(False)
            with pytest.raises(BlockingIOError):
                waiting.recv(8)


def test_connections_are_answered_after_their_wait() -> None:
    with Server(users={"ann": "secret"}) as server:
        throttle = server.broker.password_throttle
        server.call(lambda _: throttle.refused("127.0.0.1", time.monotonic()))
        with clients(server, 4) as many:
            for client in many:
                client.sendall(SASL_HEADER)
            for client in many:
                assert SASL_HEADER == client.recv(8)
