"""The open frame of the command: its properties, and what they can be set to."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

from amqp10msg import UByte, UInt
from amqp10msg.delivery import Target
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
