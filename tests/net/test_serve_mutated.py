"""Performatives with fields of wrong types, to the server and to the client's end.

Whatever a field holds: nothing raises outside of the connection, and other connections go on.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
from typing import Any

import pytest

from amqp10msg import Array, Described, Message, Symbol, UByte, UInt, ULong
from amqp10msg.composite import Error
from amqp10msg.delivery import Source, Target
from amqp10msg.net.serve import Server
from amqp10msg.net.transport import ReceiverSettleMode
from tests.net.serve_client import TIMEOUT, performatives, until
from tests.net.transport_ends import End, frame

pytestmark = pytest.mark.once

_WINDOW = UInt(2**31 - 1)
_Frame = tuple[int, list[Any]]
_OPEN: _Frame = (0x10, ["client", None, UInt(65_536), None, None, None, None, None, None, {}])
_BEGIN: _Frame = (0x11, [None, UInt(0), _WINDOW, _WINDOW, UInt(9), None, None, {}])
_SEND: _Frame = (
    0x12,
    [
        *("s", UInt(0), False, UByte(2), UByte(0), Source(), Target(address="bad"), {}),
        *(False, UInt(0), ULong(0), None, None, {}),
    ],
)
_RECEIVE: _Frame = (
    0x12,
    [
        *("r", UInt(1), True, UByte(2), UByte(1), Source(address="bad"), Target(), {}),
        *(False, None, ULong(0), None, None, {}),
    ],
)
_FLOW: _Frame = (
    0x13,
    [UInt(0), _WINDOW, UInt(0), _WINDOW, UInt(1), UInt(0), UInt(5), None, False, True, {}],
)
_TRANSFER: _Frame = (
    0x14,
    [UInt(0), UInt(0), b"t", UInt(0), False, False, None, None, False, False, False],
)
_DISPOSITION: _Frame = (0x15, [True, UInt(0), UInt(0), True, Described(ULong(0x24), []), False])
_DETACH: _Frame = (0x16, [UInt(1), True, Error(Symbol("amqp:not-found"), "text", {})])
_END: _Frame = (0x17, [Error(Symbol("amqp:not-found"), "text", {})])
_CLOSE: _Frame = (0x18, [Error(Symbol("amqp:not-found"), "text", {})])
_CONVERSATION = [
    _OPEN, _BEGIN, _SEND, _RECEIVE, _FLOW, _TRANSFER, _DISPOSITION, _DETACH, _END, _CLOSE,
]  # fmt: skip

#: Values that are wrong in most fields.
_VALUES: list[Any] = [
    None,
    True,
    UInt(2**32 - 1),
    -1,
    1.5,
    "text",
    b"binary",
    [],
    [[[]], {}],
    {},
    {"key": [1]},
    {Symbol("key"): {}},
    Array("symbol", [Symbol("a")]),
    Array("uint", []),
    Described(ULong(0x28), []),
    Described(ULong(0x28), {}),
    Described(ULong(0x28), [[], {}, 5]),
    Described(ULong(0x29), [Described(ULong(0x29), [])]),
    Described(ULong(0x30), []),
    Described(ULong(0x34), [b"x", None]),
    Described(ULong(0x24), [5]),
    Described(ULong(0x25), [Described(ULong(0x1D), [5, {}, []])]),
    Described(Symbol("x:unknown"), "value"),
    Described([], []),
]


@functools.cache
def _mutated() -> list[tuple[str, bytes]]:
    """Return conversations in which one field of one frame is replaced, by their description."""
    conversations = []
    for place, (code, fields) in enumerate(_CONVERSATION):
        for number in range(len(fields)):
            for value in _VALUES:
                changed = [*fields[:number], value, *fields[number + 1 :]]
                frames = list(_CONVERSATION)
                frames[place] = (code, changed)
                conversations.append((f"{code:#x}[{number}] = {value!r:.60}", _written(frames)))
    return conversations


def _written(frames: list[tuple[int, list[Any]]]) -> bytes:
    payload = Message("x").encode()
    return b"".join(
        frame(code, *fields, payload=payload if code == 0x14 else b"") for code, fields in frames
    )


@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("service_bus", [False, True])
def test_server_survives_every_field_of_a_wrong_type(
    part: int, service_bus: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.ERROR),
        Server(service_bus=service_bus, receiver_settles_second=True) as server,
        socket.create_connection((server.host, server.port), timeout=TIMEOUT) as good,
    ):
        good.sendall(b"AMQP\0\1\0\0" + _written([_OPEN, _BEGIN]))
        attach = frame(0x12, "g", UInt(7), True, None, None, Source(address="good"))
        credit = UInt(7), UInt(0), UInt(1_000)
        good.sendall(attach + frame(0x13, UInt(0), _WINDOW, UInt(0), _WINDOW, *credit))
        heard = performatives(good)
        for name, octets in _mutated()[part::8]:
            with socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client:
                client.sendall(b"AMQP\0\1\0\0" + octets)
                client.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    while client.recv(1 << 16):
                        pass
            assert "Traceback" not in caplog.text, name
            assert "fault" not in caplog.text, name
        server.publish("good", Message("still served"))
        while next(heard).descriptor != 0x14:
            pass
        until(lambda: len(server.broker.connections) == 1)


@pytest.mark.parametrize("part", range(4))
def test_client_survives_every_field_of_a_wrong_type(part: int) -> None:
    for name, octets in _mutated()[part::4]:
        end = End("client")
        end.engine.open()
        session = end.engine.begin()
        session.link("s", sends=False).attach(source=Source(), target=Target())
        session.link("r", sends=True).attach(source=Source(), target=Target())
        end.engine.feed(b"AMQP\0\1\0\0" + octets)
        while end.engine.step():
            pass
        assert end.engine.take().startswith(b"AMQP"), name
        assert end.ends or end.engine.remote, name


@pytest.mark.parametrize("mode", list(ReceiverSettleMode))
@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize(
    "terminus", [5, "q", [], {}, Described(ULong(0x24), []), Described(Symbol("x"), [])]
)
def test_terminus_of_the_wrong_type_is_an_invalid_field(
    terminus: Any, sends: bool, mode: ReceiverSettleMode
) -> None:
    """Regression: it was refused with amqp:not-found, as if the address were unknown."""
    with (
        Server() as server,
        socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client,
    ):
        ends = (terminus, None) if sends else (None, terminus)
        attach = frame(0x12, "l", UInt(0), sends, None, UByte(mode), *ends)
        client.sendall(b"AMQP\0\1\0\0" + _written([_OPEN, _BEGIN]) + attach)
        heard = performatives(client)
        while (said := next(heard)).descriptor != 0x16:
            pass
        condition = said.value[2].value[0]
        assert condition in {"amqp:invalid-field", "amqp:decode-error", "amqp:not-implemented"}


@pytest.mark.parametrize("channel", [1, 7, 255, 65_535])
def test_an_open_must_be_sent_on_channel_0(channel: int) -> None:
    with (
        Server() as server,
        socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client,
    ):
        client.sendall(b"AMQP\0\1\0\0" + frame(0x10, "client", channel=channel))
        heard = performatives(client)
        opened, closed = next(heard), next(heard)
        assert (0x10, 0x18) == (opened.descriptor, closed.descriptor)
        error = closed.value[0].value
        assert "amqp:not-allowed" == error[0]
        assert f"channel 0, not {channel}" in error[1]


def _error_of_close(described: Described) -> tuple[str, str] | None:
    """Return condition and description of a close, or None for a close without an error."""
    assert described.descriptor == 0x18
    error = described.value[0] if described.value else None
    return None if error is None else (str(error.value[0]), error.value[1])


@pytest.mark.parametrize("channel", [1, 7, 255, 256, 65_535])
def test_a_close_sent_together_with_the_open_must_be_on_channel_0(channel: int) -> None:
    """Part 2, 2.4.3: the peer cannot have read the channel-max yet."""
    with (
        Server() as server,
        socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client,
    ):
        opening = frame(0x10, "client") + frame(0x11, *_BEGIN[1])
        client.sendall(b"AMQP\0\1\0\0" + opening + frame(0x18, channel=channel))
        heard = performatives(client)
        assert [next(heard).descriptor, next(heard).descriptor] == [0x10, 0x11]
        error = _error_of_close(next(heard))
    assert error is not None
    assert error[0] in {"amqp:not-allowed", "amqp:connection:framing-error"}
    assert str(channel) in error[1]


@pytest.mark.parametrize("channel", [0, 1, 255])
def test_a_later_close_may_be_on_any_channel_up_to_channel_max(channel: int) -> None:
    with (
        Server() as server,
        socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client,
    ):
        client.sendall(b"AMQP\0\1\0\0" + frame(0x10, "client"))
        heard = performatives(client)
        opened = next(heard)
        assert opened.value[3] == 255  # channel-max
        client.sendall(frame(0x18, channel=channel))
        assert _error_of_close(next(heard)) is None


_BODIES = {
    "open": frame(0x10, "client", channel=256),
    "begin": frame(0x11, *_BEGIN[1], channel=256),
    "attach": frame(0x12, *_SEND[1], channel=256),
    "flow": frame(0x13, *_FLOW[1], channel=256),
    "transfer": frame(0x14, *_TRANSFER[1], payload=Message("x").encode(), channel=256),
    "disposition": frame(0x15, *_DISPOSITION[1], channel=65_535),
    "detach": frame(0x16, *_DETACH[1], channel=256),
    "end": frame(0x17, channel=256),
    "close": frame(0x18, channel=65_535),
    "close-256": frame(0x18, channel=256),
}


@pytest.mark.parametrize("name", _BODIES)
def test_a_channel_above_channel_max_is_a_framing_error(name: str) -> None:
    """A peer must not use channels above the channel-max of our open frame (Part 2, 2.7.1)."""
    with (
        Server() as server,
        socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client,
    ):
        client.sendall(b"AMQP\0\1\0\0" + frame(0x10, "client"))
        heard = performatives(client)
        next(heard)
        client.sendall(_BODIES[name])
        error = _error_of_close(next(heard))
    assert error is not None
    assert error[0] == "amqp:connection:framing-error"
    assert "the channel-max is 255" in error[1]


def test_a_detach_after_the_end_of_its_session_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO),
        Server() as server,
        socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client,
    ):
        end, detach = frame(0x17), frame(0x16, UInt(0), True)
        client.sendall(b"AMQP\0\1\0\0" + _written([_OPEN, _BEGIN, _SEND]) + end + detach * 3)
        client.sendall(_written([_BEGIN]) + end + frame(0x18))
        heard = performatives(client)
        seen: list[Any] = []
        while not seen or seen[-1] != 0x18:
            seen.append(next(heard).descriptor)
        assert [0x10, 0x11, 0x12, 0x17, 0x11, 0x17, 0x18] == [one for one in seen if one != 0x13]
        assert "transport-error" not in caplog.text
