"""Run the bridge against hostile peers, and measure its memory and its time to exit.

    python tools/bridge_hostile.py

Peers of AMQP 1.0 and 0-9-1 open a connection like a broker, and then send one of sixteen kinds of
invalid or excessive data until the bridge disconnects: once as the source of a route, once as its
target. The other end is a file. The bridge is the command with its default options. After some
seconds it gets SIGTERM. Its peak resident memory must stay below 64 MiB, and it must exit within
five seconds; the exit status is 1 otherwise. With messages of the largest size that is held in
memory (24 MiB), the limit is the documented one, 256 MiB (`large`).
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pika import spec

from amqp10msg import (
    ApplicationProperties,
    Described,
    Message,
    MessageAnnotations,
    Symbol,
    UInt,
    ULong,
    encode_value,
)
from amqp10msg.basic import BasicProperties, FieldTable, encode_content_header
from amqp10msg.delivery import Source, Target
from amqp10msg.net import transport
from amqp10msg.net.ends.basic_frames import FrameReader, decode_method, method
from amqp10msg.net.transport import SaslServer

ROOT = Path(__file__).parents[1]
#: Limits of the bridge's memory, in MiB: in general, and with messages of the largest size.
BOUND, BOUND_OF_LARGE = 64, 256
#: Seconds in which the bridge must exit.
END = 5.0
Flood = Callable[[], Iterator[bytes]]


# AMQP 1.0.


def frame(code: int, *fields: Any, payload: bytes = b"", channel: int = 0) -> bytes:
    """Return a frame with a performative."""
    body = encode_value(Described(ULong(code), list(fields))) + payload
    return (len(body) + 8).to_bytes(4, "big") + b"\2\0" + channel.to_bytes(2, "big") + body


def transfer(number: int | None, more: bool, payload: bytes) -> bytes:
    """Return a transfer frame; without a number, a continuation."""
    tag = None if number is None else number.to_bytes(4, "big")
    identity = None if number is None else UInt(number)
    return frame(0x14, UInt(0), identity, tag, UInt(0), False, more, payload=payload)


def error_of(text: str) -> Described:
    """Return an error with this description."""
    return Described(ULong(0x1D), [Symbol("amqp:internal-error"), text])


def randomness() -> Iterator[bytes]:
    """Yield random bytes in pieces."""
    drawn = random.Random(5)
    while True:
        yield drawn.randbytes(4_096)


def tiny_transfers() -> Iterator[bytes]:
    """Yield one endless message, in transfers of at most one byte."""
    yield transfer(0, True, b"")
    while True:
        yield transfer(None, True, b"") * 50 + transfer(None, True, b"x")


def messages(payload: bytes) -> Iterator[bytes]:
    """Yield messages beyond the credit."""
    for number in range(1 << 30):
        yield transfer(number, False, payload)


def echoes() -> Iterator[bytes]:
    """Yield flows with echo=true, whose answers the peer does not read."""
    fields = [UInt(0), UInt(99), UInt(0), UInt(99), UInt(0), UInt(0), UInt(9), None, False, True]
    while True:
        yield frame(0x13, *fields) * 50


def attaches() -> Iterator[bytes]:
    """Yield unsolicited attach frames."""
    for number in range(1 << 30):
        yield frame(0x12, f"l{number}", UInt(1), True) + frame(0x16, UInt(1), True)


def begins() -> Iterator[bytes]:
    """Yield unsolicited begin frames."""
    for number in itertools.cycle(range(1, 65_535)):
        yield frame(0x11, None, UInt(0), UInt(9), UInt(9), channel=number)


def dispositions() -> Iterator[bytes]:
    """Yield outcomes of deliveries that were never sent, with the largest ranges."""
    accepted = Described(ULong(0x24), [])
    while True:
        yield frame(0x15, True, UInt(0), UInt(2**32 - 1), True, accepted) * 50


def drops(head: bytes) -> Iterator[bytes]:
    """Yield an incomplete frame, one byte at a time."""
    yield head
    while True:
        yield b"x"


def oversize(head: bytes) -> Iterator[bytes]:
    """Yield a frame of 4 GiB."""
    yield head
    while True:
        yield b"x" * 4_096


def again(octets: bytes) -> Iterator[bytes]:
    """Yield the same bytes endlessly."""
    while True:
        yield octets


def once(octets: bytes) -> Iterator[bytes]:
    """Yield these bytes once, and then wait."""
    yield octets
    while True:
        yield b""


def never_ending() -> Iterator[bytes]:
    """Yield one endless message in large transfers."""
    yield transfer(0, True, b"\0\x53\x75\xb0\x7f\xff\xff\xff")
    while True:
        yield transfer(None, True, b"x" * 16_000)


def _deep() -> bytes:
    value = b"\x45"
    for _ in range(2_000):
        value = b"\xd0" + (len(value) + 4).to_bytes(4, "big") + b"\0\0\0\1" + value
    return b"\0\x53\x77" + value


def _wide() -> bytes:
    names = {f"name-{number}": number for number in range(1_000)}
    annotations = MessageAnnotations({Symbol(f"x-opt-{name}"): name for name in names})
    return Message(
        b"x", application_properties=ApplicationProperties(names), message_annotations=annotations
    ).encode()


FLOODS: Mapping[str, Flood] = {
    "random": randomness,
    "tiny transfers": tiny_transfers,
    "too many": lambda: messages(b"\0\x53\x75\xa0\1x"),
    "echoes": echoes,
    "attaches": attaches,
    "begins": begins,
    "dispositions": dispositions,
    "drops": lambda: drops(b"\0\0\xff\xff\2\0\0\0"),
    "oversize": lambda: oversize(b"\xff\xff\xff\xff\2\0\0\0"),
    "detaches": lambda: once(frame(0x16, UInt(0), True, error_of("no"))),
    "closes": lambda: once(frame(0x18, error_of("no"))),
    "long errors": lambda: once(frame(0x18, error_of("why " * 15_000))),
    "empty frames": lambda: again(b"\0\0\0\x08\2\0\0\0" * 500),
    "deep": lambda: messages(_deep()),
    "wide": lambda: messages(_wide()),
    "silent": lambda: again(b""),
}
LARGE: Flood = never_ending


class Flooding(asyncio.Protocol):
    """A peer that sends endlessly, as fast as the bridge reads."""

    flood: Iterator[bytes]
    stream: Any
    loop: asyncio.AbstractEventLoop
    paused = False
    sent = 0

    def pause_writing(self) -> None:
        """Wait until the bridge reads."""
        self.paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self.paused = False
        self.go_on()

    def go_on(self) -> None:
        """Send the next pieces."""
        if self.paused or self.stream.is_closing():
            return
        piece = b"".join(itertools.islice(self.flood, 20))
        self.sent += len(piece)
        self.stream.write(piece)
        self.loop.call_later(0.0 if piece else 0.1, self.go_on)


class Hostile(Flooding, transport.Handler):
    """Opens and attaches like a 1.0 server, then floods the bridge until it disconnects."""

    def __init__(self, flood: Iterator[bytes]) -> None:
        self.flood = flood
        self.sasl = SaslServer(anonymous=True, users={})
        self.engine = transport.Connection(self, transport.Open(container_id="hostile"))
        self.stream = None
        self.flooding = False

    def connection_made(self, transport: Any) -> None:
        """Take note of the connection."""
        self.stream = transport
        self.loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        """Answer until the link is attached."""
        if not self.sasl.done:
            reply, data = self.sasl.receive(data)
            self.stream.write(reply)
        self.engine.feed(data)
        while self.engine.step():
            pass
        self.stream.write(self.engine.take())
        if self.flooding:
            self.stream.pause_reading()
            self.go_on()

    def on_open(self) -> None:
        """Answer with open."""
        self.engine.open()

    def on_begin(self, session: transport.Session) -> None:
        """Answer with begin."""
        session.begin()

    def on_attach(self, link: transport.Link) -> None:
        """Answer with attach, and begin to flood."""
        link.attach(source=Source(address="q"), target=Target(address="q"))
        if not link.sends:
            link.grant(3)
        self.flooding = True


# AMQP 0-9-1.


def basic_frame(kind: int, payload: bytes, channel: int = 1, size: int | None = None) -> bytes:
    """Return a frame; its size field may be false."""
    size = len(payload) if size is None else size
    return bytes((kind,)) + channel.to_bytes(2, "big") + size.to_bytes(4, "big") + payload + b"\xce"


def deliver(tag: int, size: int, properties: BasicProperties | None = None) -> bytes:
    """Return the method and the header of a delivery."""
    arguments = b"\0\x3c\0\x3c\x06bridge" + tag.to_bytes(8, "big") + b"\0\0\1q"
    header = encode_content_header(properties or BasicProperties(), size)
    return basic_frame(1, arguments) + basic_frame(2, header)


def deliveries(properties: BasicProperties | None = None) -> Iterator[bytes]:
    """Yield messages beyond the prefetch."""
    for tag in range(1, 1 << 30):
        yield deliver(tag, 1, properties) + basic_frame(3, b"x")


def bodies(piece: bytes) -> Iterator[bytes]:
    """Yield one endless message in body frames."""
    yield deliver(1, 1 << 40)
    while True:
        yield basic_frame(3, piece) * 20


def returns() -> Iterator[bytes]:
    """Yield basic.return of messages that were never sent."""
    arguments = b"\0\x3c\0\x32" + (312).to_bytes(2, "big") + b"\x08NO_ROUTE\0\1q"
    header = encode_content_header(BasicProperties(), 1)
    while True:
        yield basic_frame(1, arguments) + basic_frame(2, header) + basic_frame(3, b"x")


def deep_tables() -> Iterator[bytes]:
    """Yield messages whose headers contain deeply nested tables."""
    table = b"\0\0\0\0"
    for _ in range(2_000):
        table = (len(table) + 3).to_bytes(4, "big") + b"\1xF" + table
    header = b"\0\x3c\0\0" + (1).to_bytes(8, "big") + b"\x20\0" + table
    for tag in range(1, 1 << 30):
        arguments = b"\0\x3c\0\x3c\x06bridge" + tag.to_bytes(8, "big") + b"\0\0\1q"
        yield basic_frame(1, arguments) + basic_frame(2, header) + basic_frame(3, b"x")


def _names() -> BasicProperties:
    return BasicProperties(headers=FieldTable.of([(f"n{n}", "I", n) for n in range(1_000)]))


BASIC_FLOODS: Mapping[str, Flood] = {
    "random": randomness,
    "tiny bodies": lambda: bodies(b"x"),
    "empty bodies": lambda: bodies(b""),
    "too many": deliveries,
    "deep": deep_tables,
    "wide": lambda: deliveries(_names()),
    "confirms": lambda: again(method(1, spec.Basic.Ack(1 << 40, True)) * 50),
    "refusals": lambda: again(method(1, spec.Basic.Nack(1 << 40, True)) * 50),
    "returns": returns,
    "headers": lambda: again(basic_frame(2, encode_content_header(BasicProperties(), 9)) * 50),
    "other channels": lambda: again(method(7, spec.Channel.OpenOk()) * 50),
    "blocked": lambda: again(
        method(0, spec.Connection.Blocked("x" * 200)) + method(0, spec.Connection.Unblocked())
    ),
    "drops": lambda: drops(b"\1\0\1\0\0\xff\xff"),
    "oversize": lambda: oversize(b"\1\0\1\xff\xff\xff\xff"),
    "closes": lambda: once(method(0, spec.Connection.Close(541, "no" * 100, 0, 0))),
    "silent": lambda: again(b""),
}
BASIC_LARGE: Flood = functools.partial(bodies, b"x" * 16_000)


class BasicHostile(Flooding):
    """Opens like a 0-9-1 broker, then floods the bridge until it disconnects."""

    def __init__(self, flood: Iterator[bytes]) -> None:
        self.flood = flood
        self.stream = None
        self.flooding = self.started = False
        self.reader = FrameReader(131_072)

    def connection_made(self, transport: Any) -> None:
        """Take note of the connection."""
        self.stream = transport
        self.loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        """Answer until the bridge consumes or publishes."""
        if not self.started:
            self.started = True
            data = data[8:]
            capable = {"capabilities": {"publisher_confirms": True, "basic.nack": True}}
            start = spec.Connection.Start(0, 9, capable, "PLAIN", "en_US")
            self.stream.write(method(0, start))
        for kind, channel, payload in self.reader.feed(data):
            if kind == 1 and not self.flooding:
                self._answer(channel, decode_method(payload))

    def _answer(self, channel: int, found: Any) -> None:
        answers = {
            spec.Connection.StartOk: spec.Connection.Tune(10, 131_072, 60),
            spec.Connection.Open: spec.Connection.OpenOk(),
            spec.Channel.Open: spec.Channel.OpenOk(),
            spec.Basic.Qos: spec.Basic.QosOk(),
            spec.Queue.Declare: spec.Queue.DeclareOk("q", 0, 0),
            spec.Basic.Consume: spec.Basic.ConsumeOk("bridge"),
            spec.Confirm.Select: spec.Confirm.SelectOk(),
        }
        if (answer := answers.get(type(found))) is not None:
            self.stream.write(method(channel, answer))
        if isinstance(found, (spec.Basic.Consume, spec.Confirm.Select)):
            self.flooding = True
            self.stream.pause_reading()
            self.go_on()


# The bridge.


async def measure(flood: Flood, protocol: str, end: str, seconds: float, folder: Path) -> Any:
    """Run the bridge with a hostile peer; return MiB, seconds to exit, status and sent bytes."""
    loop = asyncio.get_running_loop()
    peers: list[Any] = []

    def peer() -> Any:
        peers.append((Hostile if protocol == "1.0" else BasicHostile)(flood()))
        return peers[-1]

    listener = await loop.create_server(peer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    bad = (
        f"amqp://127.0.0.1:{port}/q"
        if protocol == "1.0"
        else f"amqp091://127.0.0.1:{port}/?queue=q"
    )
    other = "0-9-1" if protocol == "1.0" else "1.0"
    lines = (json.dumps({"raw": Message(b"%d" % n).encode().hex()}) + "\n" for n in range(1_000))
    (folder / "in.jsonl").write_text("".join(lines))
    ends = [bad, f"file:out.jsonl?protocol={other}"]
    if end == "target":
        ends = ["file:in.jsonl", bad]
    command = [sys.executable, "-m", "amqp10msg", "bridge", "--from", ends[0], "--to", ends[1]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=log
        )
    try:
        patience = loop.time() + 60
        while not any(one.flooding for one in peers) and loop.time() < patience:
            await asyncio.sleep(0.02)
        await asyncio.sleep(seconds)
        text = Path(f"/proc/{process.pid}/status").read_text()
        most = int(text.partition("VmHWM:")[2].split()[0]) / 1_024 if "VmHWM" in text else 0.0
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        while process.poll() is None and time.monotonic() - started < 60:
            await asyncio.sleep(0.02)
        took = time.monotonic() - started
    finally:
        process.kill()
        process.wait()
        listener.close()
        for one in peers:
            if one.stream is not None:
                one.stream.abort()
    return most, took, process.returncode, sum(one.sent for one in peers), len(peers)


def main() -> int:
    """Run all kinds, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each flood")
    kinds = sorted({*FLOODS, *BASIC_FLOODS, "large"})
    parser.add_argument(
        "--kind", action="append", choices=kinds, help="of a flood; repeatable; else all"
    )
    given = parser.parse_args()
    wrong = 0
    for protocol, floods, large in (
        ("1.0", FLOODS, LARGE),
        ("0-9-1", BASIC_FLOODS, BASIC_LARGE),
    ):
        for name, flood in {**floods, "large": large}.items():
            if given.kind and name not in given.kind:
                continue
            for end in ("source", "target"):
                with tempfile.TemporaryDirectory() as folder:
                    made = measure(flood, protocol, end, given.seconds, Path(folder))
                    most, took, status, sent, peers = asyncio.run(made)
                bound = BOUND_OF_LARGE if name == "large" else BOUND
                # Otherwise a bridge that never connected, or crashed, would pass.
                sound = most < bound and took < END and peers > 0 and (status or 0) >= 0
                wrong += not sound
                memory = f"{most:.1f} MiB" if most else "ended before its memory was looked at"
                print(
                    f"{protocol} {end}, {name}: {memory}, ended after {took:.2f} s with "
                    f"status {status}, {sent:,} bytes sent over {peers} connections: "
                    f"{'right' if sound else 'WRONG'}",
                    flush=True,
                )
    print(f"{wrong} wrong" if wrong else "right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
