"""Run the bridge against hostile peers, and see what it takes of memory and when it ends.

    python tools/bridge_hostile.py

Peers of AMQP 1.0 and 0-9-1 open a connection as a broker does, and then send one of sixteen kinds
of what no broker would, for as long as somebody is there; once as the source of a route, once as
its target. The other end is a file. The bridge is the command, with its defaults. After some
seconds it is asked to end (SIGTERM). Its memory (resident, at most) stays below 64 MiB, and it ends
within five seconds; the exit status is 1 where that is not so. A message that is as large as is
kept in memory (24 MiB) is another matter, and has the bound of the documentation: 256 MiB
(`large`).
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
from amqp10msg.net.bridge.basic_frames import FrameReader, decode_method, method
from amqp10msg.net.transport import SaslServer

ROOT = Path(__file__).parents[1]
#: MiB that the bridge may have at a peer, and where its messages are as large as may be in memory.
BOUND, BOUND_OF_LARGE = 64, 256
#: Seconds that it has to end.
END = 5.0
Flood = Callable[[], Iterator[bytes]]


# AMQP 1.0.


def frame(code: int, *fields: Any, payload: bytes = b"", channel: int = 0) -> bytes:
    """Return a frame with a performative."""
    body = encode_value(Described(ULong(code), list(fields))) + payload
    return (len(body) + 8).to_bytes(4, "big") + b"\2\0" + channel.to_bytes(2, "big") + body


def transfer(number: int | None, more: bool, payload: bytes) -> bytes:
    """Return a frame with a transfer; without a number, one that goes on."""
    tag = None if number is None else number.to_bytes(4, "big")
    identity = None if number is None else UInt(number)
    return frame(0x14, UInt(0), identity, tag, UInt(0), False, more, payload=payload)


def error_of(text: str) -> Described:
    """Return an error with this description."""
    return Described(ULong(0x1D), [Symbol("amqp:internal-error"), text])


def randomness() -> Iterator[bytes]:
    """Yield what a peer may send, a piece at a time."""
    drawn = random.Random(5)
    while True:
        yield drawn.randbytes(4_096)


def tiny_transfers() -> Iterator[bytes]:
    """Yield one message for ever, a byte or none at a time."""
    yield transfer(0, True, b"")
    while True:
        yield transfer(None, True, b"") * 50 + transfer(None, True, b"x")


def messages(payload: bytes) -> Iterator[bytes]:
    """Yield messages beyond the credit."""
    for number in range(1 << 30):
        yield transfer(number, False, payload)


def echoes() -> Iterator[bytes]:
    """Yield flows that ask for an answer each, which the peer does not read."""
    fields = [UInt(0), UInt(99), UInt(0), UInt(99), UInt(0), UInt(0), UInt(9), None, False, True]
    while True:
        yield frame(0x13, *fields) * 50


def attaches() -> Iterator[bytes]:
    """Yield links that nobody asked for."""
    for number in range(1 << 30):
        yield frame(0x12, f"l{number}", UInt(1), True) + frame(0x16, UInt(1), True)


def begins() -> Iterator[bytes]:
    """Yield sessions that nobody asked for."""
    for number in itertools.cycle(range(1, 65_535)):
        yield frame(0x11, None, UInt(0), UInt(9), UInt(9), channel=number)


def dispositions() -> Iterator[bytes]:
    """Yield outcomes of what was never sent, in the longest ranges."""
    accepted = Described(ULong(0x24), [])
    while True:
        yield frame(0x15, True, UInt(0), UInt(2**32 - 1), True, accepted) * 50


def drops(head: bytes) -> Iterator[bytes]:
    """Yield a frame that is never complete, a byte at a time."""
    yield head
    while True:
        yield b"x"


def oversize(head: bytes) -> Iterator[bytes]:
    """Yield a frame of 4 GiB."""
    yield head
    while True:
        yield b"x" * 4_096


def again(octets: bytes) -> Iterator[bytes]:
    """Yield the same for ever."""
    while True:
        yield octets


def once(octets: bytes) -> Iterator[bytes]:
    """Yield something, and then nothing."""
    yield octets
    while True:
        yield b""


def never_ending() -> Iterator[bytes]:
    """Yield one message for ever, in large pieces."""
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
    """A peer that sends without an end, as fast as the bridge reads."""

    flood: Iterator[bytes]
    stream: Any
    loop: asyncio.AbstractEventLoop
    paused = False
    sent = 0

    def pause_writing(self) -> None:
        """Wait until the bridge reads."""
        self.paused = True

    def resume_writing(self) -> None:
        """Go on."""
        self.paused = False
        self.go_on()

    def go_on(self) -> None:
        """Send some more."""
        if self.paused or self.stream.is_closing():
            return
        piece = b"".join(itertools.islice(self.flood, 20))
        self.sent += len(piece)
        self.stream.write(piece)
        self.loop.call_later(0.0 if piece else 0.1, self.go_on)


class Hostile(Flooding, transport.Handler):
    """Opens and attaches as a server of 1.0 does, then floods for as long as the bridge stays."""

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
        """Answer until the link is there."""
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
        """Open as well."""
        self.engine.open()

    def on_begin(self, session: transport.Session) -> None:
        """Begin as well."""
        session.begin()

    def on_attach(self, link: transport.Link) -> None:
        """Attach as well, and flood from now on."""
        link.attach(source=Source(address="q"), target=Target(address="q"))
        if not link.sends:
            link.grant(3)
        self.flooding = True


# AMQP 0-9-1.


def basic_frame(kind: int, payload: bytes, channel: int = 1, size: int | None = None) -> bytes:
    """Return a frame; its size may be a lie."""
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
    """Yield one message for ever, a piece at a time."""
    yield deliver(1, 1 << 40)
    while True:
        yield basic_frame(3, piece) * 20


def returns() -> Iterator[bytes]:
    """Yield what nobody sent, as what no queue takes."""
    arguments = b"\0\x3c\0\x32" + (312).to_bytes(2, "big") + b"\x08NO_ROUTE\0\1q"
    header = encode_content_header(BasicProperties(), 1)
    while True:
        yield basic_frame(1, arguments) + basic_frame(2, header) + basic_frame(3, b"x")


def deep_tables() -> Iterator[bytes]:
    """Yield messages whose header has tables in tables."""
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
    """Opens as a broker of 0-9-1 does, then floods for as long as the bridge stays."""

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
        """Answer until the consumer, or the publisher, is there."""
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
    """Run the bridge with a hostile peer at one end; return MiB, seconds to end, status, bytes."""
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
                # A bridge that never came, or died of it, ends soon and needs little memory, too.
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
