"""What a bridge says of a port where nothing listens, or where something else does."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

pytest.importorskip("pika")

from amqp10msg.net.bridge import Bridge, LinkError, RouteSpec
from tests.bridging import options, short_waits

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

BASIC, AMQP10 = "amqp091://u:secret@localhost:{}/?queue=q", "amqp://u:secret@localhost:{}/q"
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
ALERT = bytes.fromhex("15030100020228")  # what a server of TLS answers


async def bridge(source: str) -> None:
    spec = RouteSpec(source, "file:out.jsonl?protocol=1.0", options(deadline=0.6), "r")
    async with asyncio.timeout(60), Bridge([spec]) as made:
        with contextlib.suppress(LinkError):
            await made.run()


@pytest.mark.parametrize(
    "source, answer, expected",
    [
        (BASIC, HTTP, "does not use AMQP 0-9-1: its first bytes are b'HTTP/1.1'"),
        (AMQP10, HTTP, "does not speak AMQP 1.0 with SASL: its first bytes are b'HTTP/1.1'"),
        (BASIC, ALERT + b"\0", "this is TLS, for which the URL is amqp091s://"),
        (AMQP10, ALERT + b"\0", "this is TLS, use amqps://"),
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


@pytest.mark.parametrize("source", [BASIC, AMQP10])
def test_closed_port_is_explained(source: str, caplog: pytest.LogCaptureFixture) -> None:
    """On a name with several addresses, too, as localhost may have."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    caplog.set_level("INFO")

    asyncio.run(bridge(source.format(port)))

    assert "why=Connection refused: nothing listens on that port tries=1" in caplog.text
    assert "Errno" not in caplog.text
