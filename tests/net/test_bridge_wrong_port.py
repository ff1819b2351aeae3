"""What a bridge says of a port where nothing listens, or where something else does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("pika")

from amqp10msg.net.bridge import Bridge, LinkError, RouteSpec, Statistics
from amqp10msg.net.bridge.dry import DryRun, dry_run
from amqp10msg.net.bridge.management import Management, queues_of
from amqp10msg.net.ends.basic_frames import PROTOCOL_HEADER
from amqp10msg.net.ends.urls import parse_url
from amqp10msg.net.serve import Server
from amqp10msg.net.transport.frames import AMQP_HEADER
from amqp10msg.net.transport.sasl import SASL_HEADER
from tests.bridging import options, short_waits

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

BASIC, AMQP10 = "amqp091://u:secret@localhost:{}/?queue=q", "amqp://u:secret@localhost:{}/q"
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
ALERT = bytes.fromhex("15030100020228")  # what a server of TLS answers


async def bridge(source: str) -> Statistics:
    spec = RouteSpec(source, "file:out.jsonl?protocol=1.0", options(deadline=0.6), "r")
    async with asyncio.timeout(60), Bridge([spec]) as made:
        with contextlib.suppress(LinkError):
            await made.run()
        return made.statistics["r"]


@pytest.mark.parametrize(
    "source, answer, expected",
    [
        (BASIC, b"?" * 8, "does not use AMQP 0-9-1: its first bytes are b'????????'"),
        (AMQP10, b"?" * 8, "does not speak AMQP 1.0 with SASL: its first bytes are b'????????'"),
        (BASIC, b"", "source-silent"),
        (AMQP10, b"", "source-silent"),
    ],
)
def test_answer_of_another_service_is_explained(
    source: str,
    answer: bytes,
    expected: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short_waits(monkeypatch, slow_connect=0.1)
    caplog.set_level("INFO")

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        if answer:
            writer.write(answer)
        else:
            await reader.read()
        writer.close()

    async def made() -> None:
        async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await bridge(source.format(port).replace("localhost", "127.0.0.1"))

    asyncio.run(made())

    assert expected in caplog.text


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Serve TCP: send `answer` to each client after its first bytes. Yield the port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.request.recv(65536)
                self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join(10)


IS_AMQP10 = "this is AMQP 1.0, for which the URL is amqp://"


@pytest.mark.parametrize(
    "end, answer, expected",
    [
        (BASIC, AMQP_HEADER, IS_AMQP10),
        (BASIC, SASL_HEADER, IS_AMQP10),
        (BASIC, HTTP, "this is HTTP, use the port of AMQP, 5672 by default"),
        (BASIC, ALERT + b"\0", "this is TLS, for which the URL is amqp091s://"),
        (
            AMQP10,
            PROTOCOL_HEADER,
            "this is AMQP 0-9-1, use amqp091://, or enable AMQP 1.0 at the peer",
        ),
        (AMQP10, AMQP_HEADER, "this is AMQP 1.0, enable SASL at the peer"),
        (AMQP10, HTTP, "this is HTTP, use the port of AMQP, 5672 by default"),
        (AMQP10, ALERT + b"\0", "this is TLS, use amqps://"),
    ],
)
@pytest.mark.parametrize("role", ["source", "target"])
def test_url_of_another_protocol_ends_the_route_and_is_named(
    end: str, answer: bytes, expected: str, role: str
) -> None:
    with answering(answer) as port:
        wrong = end.format(port).replace("localhost", "127.0.0.1")
        ends = (wrong, "file:out.jsonl") if role == "source" else ("file:in.jsonl", wrong)
        spec = RouteSpec(*ends, options(deadline=30.0))

        async def run() -> None:
            async with Bridge([spec]) as made:
                await made.run()

        with pytest.raises(LinkError) as caught:
            asyncio.run(run())

    url = wrong.replace("u:secret@", "")
    assert str(caught.value).startswith(f"{url}: ")
    assert str(caught.value).endswith(expected)
    assert caught.value.permanent


@pytest.mark.parametrize("end, expected", [(BASIC, IS_AMQP10)])
def test_server_of_amqp10_is_recognised_by_a_dry_run(end: str, expected: str) -> None:
    with Server() as server:
        url = end.format(server.port).replace("localhost", "127.0.0.1")
        spec = RouteSpec(url, "file:out.jsonl")
        with pytest.raises(LinkError) as caught:
            asyncio.run(dry_run(DryRun(spec), 1, 0.1))

    assert str(caught.value).startswith(f"{url.replace('u:secret@', '')}: ")
    assert str(caught.value).endswith(expected)


USUAL_PORT = "check the port: the management API has 15672 by default, and 15671 with TLS"
NO_API = "no management API of RabbitMQ answers there; check host, port and path"


@pytest.mark.parametrize(
    "scheme, answer, expected",
    [
        ("http", b"HTTP/1.1 404 Not Found\r\n\r\n<html>", f"404 Not Found: {NO_API}"),
        (
            "http",
            b'HTTP/1.1 404 Not Found\r\n\r\n{"error": "Object Not Found"}',
            "404 Not Found: no such virtual host or object",
        ),
        ("http", b"HTTP/1.1 401 Unauthorized\r\n\r\n", "wrong user or password; by default"),
        ("http", b"HTTP/1.1 200 OK\r\n\r\n<html>", f"not JSON: .*: {NO_API}"),
        ("http", b"HTTP/1.1 200 OK\r\n\r\n{}", "is not a management API of RabbitMQ: expected"),
        ("http", PROTOCOL_HEADER, f"this is AMQP 0-9-1, {USUAL_PORT}"),
        ("http", AMQP_HEADER, f"this is AMQP 1.0, {USUAL_PORT}"),
        ("http", ALERT, "this is TLS, for which the URL is https://"),
        ("http", b"hello\r\n", f"it begins with b'hello.*': {USUAL_PORT}"),
        ("http", b"", f": {USUAL_PORT}"),
        ("https", HTTP, "the peer does not use TLS, for which the URL is http://"),
    ],
)
def test_wrong_url_of_a_management_api_is_explained(
    scheme: str, answer: bytes, expected: str
) -> None:
    with answering(answer) as port:
        url = f"{scheme}://127.0.0.1:{port}"
        api = Management(url, parse_url("amqp091://u:secret@broker"), timeout=20.0)
        with pytest.raises((LinkError, ValueError), match=expected) as caught:
            queues_of(api)

    assert str(caught.value).startswith(url)
    assert "secret" not in str(caught.value)


def test_management_url_without_a_server_is_explained() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LinkError, match=f"nothing listens on that port; {USUAL_PORT}"):
            queues_of(Management(url, parse_url("amqp091://broker")))


@pytest.mark.parametrize("source", [BASIC, AMQP10])
def test_closed_port_is_explained(source: str, caplog: pytest.LogCaptureFixture) -> None:
    """On a name with several addresses, too, as localhost may have."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    caplog.set_level("INFO")

    counts = asyncio.run(bridge(source.format(port)))

    assert counts.uncounted.startswith("the source is not connected (")
    assert "Connection refused: nothing listens on that port" in counts.uncounted
    assert "secret" not in counts.uncounted
    assert "why=Connection refused: nothing listens on that port tries=1" in caplog.text
    assert "Errno" not in caplog.text
