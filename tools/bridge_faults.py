"""Kill or disturb a bridge, its connections or its brokers at random times, and count messages.

    .ci/rabbitmq install 3 && .ci/rabbitmq install 4
    python tools/bridge_faults.py --old $(.ci/rabbitmq start 3) --new $(.ci/rabbitmq start 4) \
        --other $(RABBITMQ_PORT=26902 .ci/rabbitmq start 4)

Numbered messages move in batches from a durable queue of one broker to a queue of another. During
each batch one fault happens at a random time:

- ``bridge``: SIGKILL of the bridge; another one is started.
- ``cut``: its connections, which pass a proxy of this tool, are reset.
- ``stop``: the broker at one end is stopped (SIGSTOP) for up to five seconds; the bridge waits two
  seconds for an outcome.
- ``source``, ``target``: SIGKILL of that broker, which is restarted. A source loses its latest
  acknowledgements, which RabbitMQ writes to disk later; with ``--deduplicate`` the bridge
  recognises these messages.
- ``full``: the target accepts 100 messages, rejects all others, and is emptied now and then.
- ``expiry``: a third of the messages expire within 100 ms.
- ``poison``: one message in a hundred makes the target end the session.

Afterwards no message may be missing (except expired ones and the poison) or altered (body and
properties are compared), at most one window per fault may be duplicated, the source must be empty
by its broker's count, the quarantine must contain only the poison, and the bridge's memory must not
have grown. The exit status is 1 otherwise.

RabbitMQ 3.10 delivers messages over 1.0 without their headers, so 1.0 to 1.0 uses two brokers 4.0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import attrs
import pika
from pika.exceptions import AMQPError

from amqp10msg import Data, Message
from amqp10msg.net.bridge import read_quarantine

ROOT = Path(__file__).parents[1]
RABBITMQ = ROOT / ".ci/rabbitmq"
WINDOW = 100
FAULTS = ("bridge", "cut", "stop", "full", "expiry", "poison", "source", "target")
WAYS = ("0-9-1 -> 1.0", "1.0 -> 0-9-1", "0-9-1 -> 0-9-1", "1.0 -> 1.0")
#: Seconds to wait for the bridge to recover from a fault.
_PATIENCE = 120
#: Seconds to wait after a declaration, so that the queue survives a kill of its broker.
_DECLARED = 5
#: Properties that are compared, in addition to body and headers.
_FIELDS = (
    *("content_type", "correlation_id", "delivery_mode", "message_id", "priority"),
    *("reply_to", "timestamp"),
)


def message(
    queue: str, number: int, odd: Sequence[Any] = (-1, True, "ü")
) -> tuple[bytes, pika.BasicProperties]:
    """Return the message with this number of a queue: always the same content.

    Args:
        queue: the name of the queue.
        number: the message's number.
        odd: values, one of which is put into a header.
    """
    order = random.Random(f"{queue} {number}")
    properties = pika.BasicProperties(
        delivery_mode=2,
        message_id=f"{queue}/{number}",
        priority=order.randrange(4),  # not 4: the default of 1.0, which 0-9-1 lacks
        content_type=order.choice([None, "text/plain", "application/json"]),
        correlation_id=order.choice([None, f"order {number}"]),
        reply_to=order.choice([None, "answers"]),
        timestamp=order.choice([None, 1_700_000_000 + number]),
        headers={"queue": queue, "n": number, "odd": order.choice(odd)},
    )
    return b"%d " % number + order.randbytes(order.randrange(2_000)), properties


def number_of(properties: Any) -> int:
    """Return the number of a message in its queue."""
    return int(properties.message_id.rpartition("/")[2])


def is_altered(properties: Any, body: bytes, *odd: Any) -> bool:
    """Whether a message differs from the one published with its id.

    Headers that begin with ``x-`` are ignored: brokers add them.
    """
    queue = properties.message_id.rpartition("/")[0]
    wanted, expected = message(queue, number_of(properties), *odd)
    headers = properties.headers or {}
    headers = {name: value for name, value in headers.items() if not name.startswith("x-")}
    return (wanted, expected.headers) != (body, headers) or any(
        getattr(properties, name) != getattr(expected, name) for name in _FIELDS
    )


@attrs.frozen
class Place:
    """A broker, and its version as an argument of .ci/rabbitmq."""

    host: str
    port: int
    version: str

    @classmethod
    def at(cls, text: str, version: str) -> Place:
        """Parse HOST:PORT."""
        host, _, port = text.partition(":")
        return cls(host, int(port), version)

    def control(self, *arguments: str) -> str:
        """Run .ci/rabbitmq, which finds the broker by its port."""
        environment = {"RABBITMQ_PORT": str(self.port), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        handed = ("RABBITMQ_PLUGINS", "DEBIAN_ROOTS")
        environment |= {name: os.environ[name] for name in handed if name in os.environ}
        verb, *rest = arguments
        done = subprocess.run(
            [RABBITMQ, verb, self.version, *rest], check=True, env=environment, capture_output=True
        )
        return done.stdout.decode()

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """Open a channel; wait until the broker accepts connections."""
        at = pika.ConnectionParameters(
            self.host, self.port, connection_attempts=60, retry_delay=1, heartbeat=0
        )
        connection = pika.BlockingConnection(at)
        try:
            yield connection.channel()
        finally:
            with suppress(AMQPError):
                connection.close()

    def url(self, queue: str, protocol: str, port: int, heartbeat: int = 4) -> str:
        """Return the bridge's URL of a queue, through a port of a proxy."""
        if protocol == "0-9-1":
            return f"amqp091://{self.host}:{port}/?queue={queue}&heartbeat={heartbeat}"
        version = "1" if self.version == "3" else "2"
        given = f"queue={queue}&address_version={version}&heartbeat={heartbeat}"
        return f"amqp://guest:guest@{self.host}:{port}/?{given}"


def messages_of(channel: Any, queue: str) -> Iterator[tuple[Any, bytes]]:
    """Yield the messages of a queue, including those that arrive meanwhile."""
    channel.basic_qos(prefetch_count=1_000)
    while count := channel.queue_declare(queue, passive=True).method.message_count:
        # None if the message has expired meanwhile.
        for method, properties, body in channel.consume(queue, inactivity_timeout=5):
            count -= 1
            if method is not None:
                yield properties, body
                if not count or not count % 500:
                    channel.basic_ack(method.delivery_tag, multiple=True)
            if not count or method is None:
                break
        channel.cancel()  # requeues its prefetched messages


class Proxy:
    """A TCP proxy in front of a broker, which can reset connections or hold back the broker's data.

    Attributes:
        port: its listening port.
        accepted: the number of accepted connections.
    """

    def __init__(self, place: Place) -> None:
        self.accepted = 0
        self._place = place
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        # One per connection; not set while the broker's data is held back.
        self._gates: list[threading.Event] = []
        self._lock = threading.Lock()
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends accept(), which close() does not
        self._accepting.join()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.accepted += 1
                try:
                    far = socket.create_connection((self._place.host, self._place.port), 5)
                except OSError:
                    near.close()
                    continue
                far.settimeout(None)
                gate, wide = threading.Event(), threading.Event()
                gate.set()
                wide.set()
                with self._lock:
                    self._open += [near, far]
                    self._gates.append(gate)
                for ends in ((near, far, wide), (far, near, gate)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket, gate: threading.Event) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                gate.wait()
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def hush(self, *, quiet: bool) -> None:
        """Hold back the broker's data on all current connections, or release it."""
        with self._lock:
            for gate in self._gates:
                (gate.clear if quiet else gate.set)()

    def cut(self) -> None:
        """Reset all connections."""
        self.hush(quiet=False)
        with self._lock:
            taken, self._open = self._open, []
        for end in taken:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@attrs.define
class Found:
    """The results of a run.

    Attributes:
        sent: published messages.
        missing: messages that should have arrived, and did not.
        altered: messages that arrived, or were quarantined, with other content.
        left: messages left in the source, by its broker's count.
        twice: surplus copies of messages.
        may: the allowed number of surplus copies.
        expired: messages that did not arrive, and were allowed to expire.
        aside: quarantined messages.
        astray: quarantine entries that do not belong there, or are missing.
        breaks: faults that happened.
        memory: the bridge's highest resident memory in the first and in the last third, in KiB.
        seconds: duration.
    """

    sent: int = 0
    missing: int = 0
    altered: int = 0
    left: int = 0
    twice: int = 0
    may: int = 0
    expired: int = 0
    aside: int = 0
    astray: int = 0
    breaks: int = 0
    memory: tuple[int, int] = (0, 0)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether the bridge kept its guarantees."""
        grew = self.memory[1] > self.memory[0] * 1.1
        wrong = self.missing or self.altered or self.left or self.astray
        return not (wrong or self.twice > self.may or grew)


class Run:
    """Repeats one fault while messages move between two queues.

    Args:
        fault: one of `FAULTS`.
        source: the broker of the first queue.
        target: the broker of the second.
        way: one of `WAYS`.
        folder: the folder of the quarantine.
        seed: the seed of the random times.
    """

    def __init__(
        self, fault: str, source: Place, target: Place, way: str, folder: Path, seed: int = 1
    ) -> None:
        self.fault = fault
        self.source, self.target = source, target
        self.protocols = way.split(" -> ")
        self.folder = folder
        self.order = random.Random(f"{fault} {way} {seed}")
        self.queues = [f"faults-{uuid.uuid4()}" for _ in range(2)]
        self.found = Found()
        self.bridge: subprocess.Popen[bytes] | None = None
        self.proxies: list[Proxy] = []
        self.took: Counter[int] = Counter()
        self.altered: set[int] = set()
        self._sizes: list[int] = []
        self._ends = 0  # connections that the bridge has lost

    def run(self, count: int, breaks: int) -> Found:
        """Send this number of messages while this number of faults happens."""
        started = time.monotonic()
        with ExitStack() as stack:
            ends = (self.source, self.target)
            self.proxies = [stack.enter_context(Proxy(end)) for end in ends]
            arguments = {"x-max-length": 100, "x-overflow": "reject-publish"}
            for end, queue in zip(ends, self.queues, strict=True):
                limited = self.fault == "full" and end is self.target and queue == self.queues[1]
                with end.channel() as channel:
                    channel.queue_declare(
                        queue, durable=True, arguments=arguments if limited else None
                    )
                stack.callback(self._delete, end, queue)
            if self.fault in {"source", "target"}:
                time.sleep(_DECLARED)
            stack.callback(self._end)
            self._start()
            portion = count // breaks
            for number in range(breaks):
                self._consumed()
                self._publish(number * portion, portion)
                time.sleep(self.order.uniform(0.0, 0.1))
                self._break()
                self.found.breaks += 1
                self._wait(portion // 4)
                self._look()
            self.found.sent = portion * breaks
            while True:
                self._wait(0)
                self._end()
                self._take()
                if not self._depth(self.source, self.queues[0]):
                    break
                self._start()  # the messages rejected last are back in the source
            time.sleep(0.5)  # until unacknowledged messages are requeued
            self.found.left = self._depth(self.source, self.queues[0])
        self._count()
        self.found.seconds = time.monotonic() - started
        return self.found

    # Messages.

    def _is_poison(self, number: int) -> bool:
        return self.fault == "poison" and number % 100 == 50

    def _expires(self, number: int) -> bool:
        return self.fault == "expiry" and number % 3 == 0

    def _publish(self, first: int, count: int) -> None:
        """Publish messages, and wait until the broker has confirmed them."""
        with self.source.channel() as channel:
            channel.tx_select()
            for number in range(first, first + count):
                body, properties = message(self.queues[0], number)
                properties.user_id = "somebody" if self._is_poison(number) else None
                properties.expiration = "100" if self._expires(number) else None
                channel.basic_publish("", self.queues[0], body, properties)
            channel.tx_commit()

    def _take(self) -> None:
        """Consume the second queue, and compare its messages with the published ones."""
        with self.target.channel() as channel:
            for properties, body in messages_of(channel, self.queues[1]):
                number = number_of(properties)
                self.took[number] += 1
                if is_altered(properties, body):
                    self.altered.add(number)

    def _depth(self, end: Place, queue: str) -> int:
        patience = time.monotonic() + _PATIENCE
        while time.monotonic() < patience:
            with suppress(AMQPError, OSError), end.channel() as channel:
                declared = channel.queue_declare(queue, passive=True)
                return int(declared.method.message_count)
            time.sleep(0.2)
        raise TimeoutError(
            f"{self.fault}: {end.host}:{end.port} does not count {queue} in {_PATIENCE} s"
        )

    def _consumed(self) -> None:
        """Wait until the bridge consumes the first queue."""
        patience = time.monotonic() + _PATIENCE
        while time.monotonic() < patience:
            with suppress(AMQPError, OSError), self.source.channel() as channel:
                declared = channel.queue_declare(self.queues[0], passive=True)
                if declared.method.consumer_count:
                    return
            time.sleep(0.1)
        raise TimeoutError(f"{self.fault}: nobody consumes the source within {_PATIENCE} s")

    def _wait(self, most: int) -> None:
        """Wait until the first queue has at most this number of messages."""
        patience = time.monotonic() + _PATIENCE
        quiet = 0
        while quiet < (1 if most else 3):
            if time.monotonic() > patience:
                raise TimeoutError(f"{self.fault}: the source is not emptied in {_PATIENCE} s")
            if self.fault == "full":
                self._take()
            quiet = quiet + 1 if self._depth(self.source, self.queues[0]) <= most else 0
            time.sleep(0.05 if most else 0.3)

    def _delete(self, end: Place, queue: str) -> None:
        with end.channel() as channel:
            channel.queue_delete(queue)

    def _count(self) -> None:
        found = self.found
        poison = {number for number in range(found.sent) if self._is_poison(number)}
        absent = set(range(found.sent)) - set(self.took) - poison
        expired = {number for number in absent if self._expires(number)}
        found.missing, found.expired = len(absent - expired), len(expired)
        found.twice = self.took.total() - len(self.took)
        # Messages in flight when the bridge or one of its connections ended may be duplicated.
        found.may = WINDOW * (found.breaks if self.fault == "bridge" else self._ends)
        path = self.folder / "quarantine.jsonl"
        aside: Counter[int] = Counter()
        for entry in read_quarantine(path) if path.exists() else ():
            properties, body = set_aside(entry)
            aside[number_of(properties)] += 1
            if is_altered(properties, body):
                self.altered.add(number_of(properties))
        found.aside = sum(aside.values())
        found.astray = len(set(aside) ^ poison) + len(set(self.took) & poison)
        found.astray += found.aside - len(aside)
        found.altered = len(self.altered)
        third = max(1, len(self._sizes) // 3)
        if self._sizes:
            found.memory = max(self._sizes[:third]), max(self._sizes[-third:])

    # The bridge, and what breaks.

    def _start(self) -> None:
        urls = [
            end.url(queue, protocol, proxy.port)
            for end, queue, protocol, proxy in zip(
                (self.source, self.target), self.queues, self.protocols, self.proxies, strict=True
            )
        ]
        command = [sys.executable, "-m", "amqp10msg", "bridge", "--window", str(WINDOW)]
        command += ["--from", urls[0], "--to", urls[1], "--outcome-timeout", "2", "--log", "none"]
        command += ["--quarantine", str(self.folder / "quarantine.jsonl")]
        command += ["--report", str(self.folder / "report.json")]
        if self.fault == "source":
            command += ["--deduplicate", str(self.folder / "seen.db")]
        self.bridge = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _end(self) -> None:
        if self.bridge is not None:
            self.bridge.terminate()
            try:
                self.bridge.wait(30)
            except subprocess.TimeoutExpired:
                self.bridge.kill()
                self.bridge.wait()
                raise
            self.bridge = None
            (counts,) = json.loads((self.folder / "report.json").read_text())["routes"]
            self._ends += counts["target_lost"]
            if self.fault != "source":  # whose copies are told by their ids
                self._ends += counts["source_lost"]

    def _look(self) -> None:
        """Note how much memory the bridge has."""
        if self.bridge is not None and self.fault != "bridge":
            with suppress(OSError):
                text = Path(f"/proc/{self.bridge.pid}/status").read_text()
                self._sizes.append(int(text.partition("VmRSS:")[2].split()[0]))

    def _break(self) -> None:
        breaks: dict[str, Callable[[], None]] = {
            "bridge": self._kill_bridge,
            "cut": self._cut,
            "stop": self._stop,
            "source": lambda: self._kill(self.source),
            "target": lambda: self._kill(self.target),
        }
        if self.fault in breaks:
            breaks[self.fault]()

    def _kill_bridge(self) -> None:
        assert self.bridge is not None
        self.bridge.kill()
        self.bridge.wait()
        self._start()

    def _cut(self) -> None:
        for proxy in self.order.choice((self.proxies, self.proxies[:1], self.proxies[1:])):
            proxy.cut()

    def _stop(self) -> None:
        pid = self.order.choice((self.source, self.target)).control("pid").strip()
        subprocess.run(["kill", f"-{signal.SIGSTOP.value}", pid], check=True)
        try:
            time.sleep(self.order.uniform(0.5, 5.0))
        finally:
            subprocess.run(["kill", f"-{signal.SIGCONT.value}", pid], check=True)

    def _kill(self, end: Place) -> None:
        end.control("kill")
        with suppress(subprocess.CalledProcessError):  # on a busy machine it may take longer
            end.control("start")
        with end.channel():
            pass


def set_aside(entry: Any) -> tuple[Any, bytes]:
    """Return a message of the quarantine, and its properties as a client of 0-9-1 has them."""
    if entry.content_header is not None:
        made = pika.BasicProperties()
        made.decode(entry.content_header[12:])  # after class, weight and size
        return made, entry.octets
    found = Message.decode(entry.octets)
    header, properties = found.header, found.properties
    assert header is not None
    assert properties is not None
    assert isinstance(found.body, Data)
    created, reply_to = properties.creation_time, properties.reply_to
    return pika.BasicProperties(
        content_type=properties.content_type and str(properties.content_type),
        correlation_id=properties.correlation_id,
        delivery_mode=2 if header.durable else None,
        headers=dict(found.application_properties or {}),
        message_id=properties.message_id,
        priority=header.priority and int(header.priority),
        reply_to=reply_to and str(reply_to).removeprefix("/queues/"),
        timestamp=created and int(created) // 1_000,
    ), bytes(found.body.data)


def parser_of(about: str) -> argparse.ArgumentParser:
    """Return a parser of the brokers, and of what each such tool has."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    starts = {"--old": "of .ci/rabbitmq start 3", "--new": "of start 4", "--other": "of start 4"}
    for option, text in starts.items():
        parser.add_argument(option, metavar="HOST:PORT", required=True, help=text)
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--json", type=Path, help="write what was found here")
    return parser


def places_of(given: argparse.Namespace) -> dict[str, tuple[Place, Place]]:
    """Return the brokers of source and target, by the way."""
    old, new, other = (
        Place.at(place, version)
        for place, version in ((given.old, "3"), (given.new, "4"), (given.other, "4"))
    )
    return dict(zip(WAYS, ((old, new), (new, old), (old, new), (new, other)), strict=True))


def main() -> int:
    """Run the faults, and print a line for each."""
    parser = parser_of(__doc__)
    parser.add_argument("--messages", type=int, default=7_000, help="by fault and way")
    parser.add_argument("--breaks", type=int, default=20, help="by fault and way")
    parser.add_argument("--fault", action="append", choices=FAULTS)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    ends = places_of(given)
    # So that the source takes a foreign user-id, which the target does not.
    wrong, found = 0, {}
    for fault in given.fault or FAULTS:
        for way in given.way or WAYS:
            source, target = ends[way]
            with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
                if fault == "poison":
                    tags = ("set_user_tags", "guest", "administrator")
                    source.control("ctl", *tags, "impersonator")
                    stack.callback(source.control, "ctl", *tags)
                run = Run(fault, source, target, way, Path(folder), given.seed)
                made = run.run(given.messages, given.breaks)
            found[f"{fault}, {way}"] = attrs.asdict(made)
            wrong += not made.is_right
            print(
                f"{fault}, {way}: {made.sent} sent, {made.breaks} breaks, {made.missing} missing, "
                f"{made.altered} altered, {made.left} left, {made.twice} twice ({made.may} may), "
                f"{made.expired} expired, {made.aside} aside, "
                f"{made.astray} astray, memory {made.memory[0]} to {made.memory[1]} KiB, "
                f"{made.seconds:.0f} s: {'right' if made.is_right else 'WRONG'}",
                flush=True,
            )
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
