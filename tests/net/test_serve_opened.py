"""The server's open frame, and its handling of the client's hostname."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from amqp10msg import Described, Message, Properties, Symbol, UByte, UInt
from amqp10msg.delivery import Source, Target
from amqp10msg.net.serve import Server
from tests.net.serve_client import TIMEOUT, performatives
from tests.net.transport_ends import frame

pytestmark = pytest.mark.once


def _attached(port: int) -> tuple[dict[str, Any], int]:
    """Return the properties of the server's open frame, and the rcv-settle-mode of its attach."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as client:
        second = "s", UInt(0), False, None, UByte(1), None, Target(address="q"), None, None, UInt(0)
        client.sendall(
            b"AMQP\0\1\0\0"
            + frame(0x10, "client")
            + frame(0x11, None, UInt(0), UInt(9), UInt(9))
            + frame(0x12, *second)
        )
        heard = performatives(client)
        opened = next(heard)
        while (said := next(heard)).descriptor != 0x12:
            pass
        return {str(key): value for key, value in opened.value[9].items()}, said.value[4] or 0


@pytest.mark.parametrize(
    "arguments, properties, mode",
    [
        ([], {"product": "amqp10msg"}, 0),
        (["--like", "rabbitmq-4"], {"product": "RabbitMQ", "version": "4.1.0"}, 0),
        (["--property", "version=3", "--property", "a=b=c"], {"version": "3", "a": "b=c"}, 0),
        (["--like", "rabbitmq-4", "--property", "version=4.2.0"], {"version": "4.2.0"}, 0),
        (["--receiver-settles-second"], {}, 1),
    ],
)
def test_options_of_the_command(arguments: list[str], properties: Any, mode: int) -> None:
    command = [sys.executable, "-m", "amqp10msg", "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            found, settles = _attached(int(url.rpartition(":")[2]))
        finally:
            process.terminate()
    assert properties.items() <= found.items()
    assert mode == settles


def test_unknown_broker_is_an_error() -> None:
    with pytest.raises(ValueError, match="rabbitmq-4"):
        Server(like="rabbitmq-2")


def _hears(server: Server, *frames: bytes) -> Iterator[Described]:
    """Send frames on a new connection, and yield the server's performatives."""
    with socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client:
        client.sendall(b"AMQP\0\1\0\0" + b"".join(frames))
        yield from performatives(client)


def _next_of(heard: Iterator[Described], code: int) -> Described:
    """Return the next performative with this descriptor code."""
    return next(performative for performative in heard if performative.descriptor == code)


_BEGIN = frame(0x11, None, UInt(0), UInt(9), UInt(9))


_UNKNOWN_VHOSTS = ["x", "", "//", "%2F", "/x", "Vhost:/"]


@pytest.mark.parametrize("options", [{}, {"service_bus": True}])
@pytest.mark.parametrize("name", _UNKNOWN_VHOSTS)
def test_unknown_virtual_host_is_refused(name: str, options: Any) -> None:
    """The condition is taken from the logs of RabbitMQ 4.0 and 4.3."""
    with Server(**options) as server:
        heard = _hears(server, frame(0x10, "client", f"vhost:{name}"), _BEGIN)
        assert next(heard).descriptor == 0x10
        closed = next(heard)
    assert closed.descriptor == 0x18
    condition, description = closed.value[0].value[:2]
    assert condition == "amqp:unauthorized-access"
    assert f"virtual host {name!r} does not exist" in description


@pytest.mark.parametrize("name", _UNKNOWN_VHOSTS)
def test_like_rabbitmq_an_unknown_virtual_host_closes_the_socket(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """So do RabbitMQ 4.0 and 4.3, without an open. RabbitMQ's clients reconnect after a close."""
    frames = frame(0x10, "client", f"vhost:{name}") + _BEGIN + frame(0x18)
    with (
        caplog.at_level(logging.WARNING),
        Server(like="rabbitmq-4") as server,
        socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client,
    ):
        client.sendall(b"AMQP\0\1\0\0" + frames)
        received = b""
        while piece := client.recv(4096):
            received += piece
    assert received == b"AMQP\0\1\0\0"
    assert f"virtual host {name!r} does not exist" in caplog.text


@pytest.mark.parametrize(
    "hostname",
    [None, "", "localhost", "127.0.0.1", "x", "vhost", "VHOST:x", "my-vhost:5672", "vhost:/"],
)
def test_hostname_of_the_server_is_accepted(hostname: str | None) -> None:
    """It is the name that the client connected to, such as the host of a proxy."""
    with Server(like="rabbitmq-4") as server:
        heard = _hears(server, frame(0x10, "client", hostname), _BEGIN)
        assert [next(heard).descriptor, next(heard).descriptor] == [0x10, 0x11]


def _sends_to(address: str) -> list[bytes]:
    return [frame(0x12, "l", UInt(0), False, None, None, Source(), Target(address=address))]


def _receives_from(source: Source) -> list[bytes]:
    return [frame(0x12, "l", UInt(0), True, None, None, source, Target())]


_REPLY_TO = "amq.rabbitmq.reply-to"
_VOLATILE = Source(dynamic=True, capabilities=(Symbol("rabbitmq:volatile-queue"),))
_DIRECT_REPLIES = {
    "receive": _receives_from(Source(address=_REPLY_TO)),
    "receive-from-queue": _receives_from(Source(address=f"/queues/{_REPLY_TO}")),
    "receive-escaped": _receives_from(Source(address="/queues/amq.rabbitmq.reply%2Dto")),
    "receive-volatile": _receives_from(_VOLATILE),
    "receive-topic": _receives_from(Source(address=_REPLY_TO, capabilities=(Symbol("topic"),))),
    "send": _sends_to(_REPLY_TO),
    "send-to-queue": _sends_to(f"/queues/{_REPLY_TO}"),
    "send-to-volatile": _sends_to(f"/queues/{_REPLY_TO}.g1h2AA%3D%3D"),
}


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("name", _DIRECT_REPLIES)
def test_direct_reply_to_is_not_implemented(name: str, create: bool) -> None:
    """Regression: the address became a queue, so a client waited for replies forever."""
    with Server(like="rabbitmq-4", create=create) as server:
        heard = _hears(server, frame(0x10, "client"), _BEGIN, *_DIRECT_REPLIES[name])
        error = _next_of(heard, 0x16).value[2].value
    assert error[0] == "amqp:not-implemented"
    assert "direct reply-to" in error[1]


def test_message_to_direct_reply_to_is_rejected() -> None:
    """Sent to the anonymous terminus."""
    message = Message("x", properties=Properties(to=f"/queues/{_REPLY_TO}.abc")).encode()
    attach = frame(
        0x12, "l", UInt(0), False, UByte(0), None, Source(), Target(), None, None, UInt(0)
    )
    transfer = frame(0x14, UInt(0), UInt(0), b"t", UInt(0), False, payload=message)
    with Server(like="rabbitmq-4") as server:
        heard = _hears(server, frame(0x10, "client"), _BEGIN, attach, transfer)
        rejected = _next_of(heard, 0x15).value[4]
    assert rejected.descriptor == 0x25
    assert rejected.value[0].value[0] == "amqp:not-implemented"
