"""Move the queues of a RabbitMQ 3.10 to a 4.0 by ``amqp10msg migrate``, and kill everything once.

    .ci/rabbitmq install 3 && .ci/rabbitmq install 4
    python tools/bridge_migration.py

The tool starts two brokers on the ports of `OLD` and `NEW`, and stops them at the end. Thirty
queues are of different kinds: classic, quorum, streams, with dead letters, with a time to live,
with priorities, and an exclusive queue, which cannot be moved. Each contains messages, and
publishers continue while ``migrate`` runs. In the middle, ``migrate`` and both brokers are killed
simultaneously (SIGKILL) and restarted, ``migrate`` with the same files. Later the publishers stop.

Then the tool reads each message of the new broker, and compares it by queue and number with the
messages that the old broker confirmed. It also compares the report with both brokers:

- No message is missing, altered or unknown. Messages in flight at the kill may be duplicated, at
  most one window per queue.
- ``migrate`` reports that it has finished, and its counts of each queue (left at the source, at the
  target before and afterwards, moved, quarantined) equal those of the brokers.

The exit status is 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import attrs
import pika
from bridge_faults import Place
from pika.exceptions import AMQPError

from amqp10msg.net.bridge import read_quarantine

ROOT = Path(__file__).parents[1]
OLD = Place("127.0.0.1", 26_742, "3")
NEW = Place("127.0.0.1", 26_762, "4")
#: Offset of the management API's port from the AMQP port.
_API = 9
WINDOW = 100
#: The number of queues of each kind, and their arguments.
KINDS: dict[str, tuple[int, dict[str, Any]]] = {
    "classic": (8, {}),
    "quorum": (6, {"x-queue-type": "quorum"}),
    "stream": (4, {"x-queue-type": "stream"}),
    "lettered": (3, {"x-dead-letter-exchange": ""}),
    "dead": (3, {}),
    "ttl": (3, {"x-message-ttl": 3_600_000}),
    "priority": (2, {"x-max-priority": 5}),
}
#: Messages of each queue with dead letters that are rejected before the migration.
_DEAD = 20
_PATIENCE = 120.0


@attrs.frozen
class Name:
    """The name of a queue: its kind and a number."""

    run: str
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.run}.{self.kind}.{self.number}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of its declaration."""
        given = dict(KINDS[self.kind][1])
        if self.kind == "lettered":
            given["x-dead-letter-routing-key"] = str(Name(self.run, "dead", self.number))
        return given


def message(queue: str, number: int) -> tuple[bytes, pika.BasicProperties]:
    """Return the message with this number of a queue: always the same content."""
    order = random.Random(f"{queue} {number}")
    properties = pika.BasicProperties(
        delivery_mode=2,
        message_id=f"{queue}/{number}",
        priority=order.randrange(6),
        content_type=order.choice([None, "text/plain", "application/json"]),
        # A stream stores messages as AMQP 1.0, which has no lists in headers.
        headers={
            "queue": queue,
            "n": number,
            "odd": order.choice([-1, True, "ü", "ü" if ".stream." in queue else [1, "a"]]),
        },
    )
    return b"%d " % number + order.randbytes(order.randrange(2_000)), properties


@attrs.define
class Sent:
    """The messages published to one queue.

    Attributes:
        confirmed: ids of messages that the broker confirmed.
        perhaps: ids of messages that were unconfirmed when the broker was killed.
    """

    confirmed: set[str] = attrs.Factory(set)
    perhaps: set[str] = attrs.Factory(set)


class Publisher(threading.Thread):
    """Publishes to all queues in turn until `end` is called, and reconnects if necessary."""

    def __init__(self, names: list[Name], first: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.sent = {str(name): Sent() for name in names}
        self.lost = 0
        self._names = [str(name) for name in names]
        self._first = first
        self._pause = pause
        self._ends = threading.Event()

    def run(self) -> None:
        """Publish each message once."""
        number, at = self._first, 0
        while not self._ends.is_set():
            try:
                with OLD.channel() as channel:
                    channel.confirm_delivery()
                    while not self._ends.is_set():
                        queue = self._names[at]
                        body, properties = message(queue, number)
                        # Unknown until it is confirmed.
                        self.sent[queue].perhaps.add(str(properties.message_id))
                        here, at = at, (at + 1) % len(self._names)
                        number += at < here
                        channel.basic_publish("", queue, body, properties, mandatory=True)
                        self.sent[queue].perhaps.discard(str(properties.message_id))
                        self.sent[queue].confirmed.add(str(properties.message_id))
                        time.sleep(self._pause)
            except (AMQPError, OSError):
                self.lost += 1
                time.sleep(0.2)

    def end(self) -> None:
        """Stop publishing, and wait for the thread to end."""
        self._ends.set()
        self.join(_PATIENCE)


def fill(names: list[Name], count: int) -> dict[str, Sent]:
    """Declare the queues, publish to each, and dead-letter some of the messages."""
    sent = {str(name): Sent() for name in names}
    with OLD.channel() as channel:
        for name in names:
            channel.queue_declare(str(name), durable=True, arguments=name.arguments)
    for name in names:
        with OLD.channel() as channel:
            # Streams and quorum queues have no transactions; for others these are faster.
            confirms = name.kind in {"quorum", "stream"}
            if confirms:
                channel.confirm_delivery()
            else:
                channel.tx_select()
            for number in range(count):
                body, properties = message(str(name), number)
                channel.basic_publish("", str(name), body, properties)
                sent[str(name)].confirmed.add(str(properties.message_id))
            if not confirms:
                channel.tx_commit()
            if name.kind == "lettered":
                dead = str(Name(name.run, "dead", name.number))
                for _ in range(_DEAD):
                    method, properties, _ = channel.basic_get(str(name))
                    channel.basic_reject(method.delivery_tag, requeue=False)
                    sent[str(name)].confirmed.discard(properties.message_id)
                    sent[dead].confirmed.add(properties.message_id)
                channel.tx_commit()
    return sent


def depth(place: Place, queue: str) -> int:
    """Return the broker's message count of a queue."""
    with place.channel() as channel:
        declared = channel.queue_declare(queue, durable=True, passive=True)
        return int(declared.method.message_count)


def taken(name: Name, kind: str) -> Iterator[tuple[Any, bytes]]:
    """Yield all messages of a queue of the new broker, with their properties."""
    with NEW.channel() as channel:
        if kind != "stream":
            while True:
                method, properties, body = channel.basic_get(str(name), auto_ack=True)
                if method is None:
                    return
                yield properties, body
        channel.basic_qos(prefetch_count=500)
        given = {"x-stream-offset": "first"}
        for method, properties, body in channel.consume(
            str(name), arguments=given, inactivity_timeout=3
        ):
            if method is None:
                return
            channel.basic_ack(method.delivery_tag)
            yield properties, body


def is_altered(properties: Any, body: bytes) -> bool:
    """Whether a message differs from the one published with its id."""
    queue, _, number = properties.message_id.rpartition("/")
    wanted, expected = message(queue, int(number))
    headers = {name: properties.headers.get(name) for name in ("queue", "n", "odd")}
    fields = ("delivery_mode", "priority", "content_type")
    return (wanted, expected.headers) != (body, headers) or any(
        getattr(properties, name) != getattr(expected, name) for name in fields
    )


class Migrate:
    """The ``migrate`` command, started with the same files each time."""

    def __init__(self, run: str, folder: Path) -> None:
        self.folder = folder
        self._run = run
        self.said = folder / "said"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command."""
        apis = [f"http://{end.host}:{end.port + _API}" for end in (OLD, NEW)]
        ends = [f"amqp091://{end.host}:{end.port}/" for end in (OLD, NEW)]
        command = [sys.executable, "-m", "amqp10msg", "migrate", *ends]
        command += ["--management", apis[0], "--target-management", apis[1]]
        command += ["--all-queues", f"{self._run}.*", "--window", str(WINDOW), "--log", "json"]
        command += ["--deduplicate", "seen.db", "--state", "state.db", "--idle", "1"]
        command += ["--report", "cut-over.json", "--report", "cut-over.html"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self.said.open("ab") as said:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=said, stderr=said
            )

    def report(self) -> dict[str, Any]:
        """Return the latest report."""
        found: dict[str, Any] = json.loads((self.folder / "cut-over.json").read_text())
        return found


def moving(names: list[Name], share: float) -> None:
    """Wait until this share of the queues has messages at the new broker."""
    patience = time.monotonic() + _PATIENCE
    while time.monotonic() < patience:
        some = 0
        for name in names:
            with suppress(AMQPError, OSError):
                some += depth(NEW, str(name)) > 0
        if some >= share * len(names):
            return
        time.sleep(0.2)
    raise TimeoutError(f"migrate does not move within {_PATIENCE:g} s")


def open_again(place: Place, names: list[Name]) -> None:
    """Wait until all queues of a broker are available, including those that elect a leader."""
    patience = time.monotonic() + _PATIENCE
    waits = list(names)
    while waits and time.monotonic() < patience:
        with suppress(AMQPError, OSError):
            depth(place, str(waits[-1]))
            waits.pop()
            continue
        time.sleep(0.2)


def kill_all(process: subprocess.Popen[bytes], order: random.Random) -> None:
    """Kill the command and both brokers simultaneously, and restart the brokers."""
    brokers = [threading.Thread(target=end.control, args=("kill",)) for end in (OLD, NEW)]
    acts = [process.kill, *(one.start for one in brokers)]
    order.shuffle(acts)
    for act in acts:
        act()
    process.wait()
    for one in brokers:
        one.join()
    for end in (OLD, NEW):
        end.control("start")


@attrs.define
class Row:
    """The result of one queue, and differences from the report."""

    sent: int = 0
    perhaps: int = 0
    there: int = 0
    missing: int = 0
    unknown: int = 0
    altered: int = 0
    twice: int = 0
    aside: int = 0
    left: int = 0
    wrong: list[str] = attrs.Factory(list)


def compare(name: Name, sent: Sent, said: dict[str, Any], folder: Path) -> Row:
    """Compare the queue at the new broker with the published messages and with the report."""
    row = Row(sent=len(sent.confirmed), perhaps=len(sent.perhaps))
    before = depth(NEW, str(name))
    found: Counter[str] = Counter()
    for properties, body in taken(name, name.kind):
        found[properties.message_id] += 1
        row.altered += is_altered(properties, body)
    row.there = found.total()
    path = folder / "quarantine.jsonl"
    entries = read_quarantine(path) if path.exists() else iter(())
    row.aside = sum(entry.route == str(name) for entry in entries)
    row.missing = len(sent.confirmed - found.keys())
    row.unknown = len(found.keys() - sent.confirmed - sent.perhaps)
    row.twice = found.total() - len(found)
    row.left = 0 if name.kind == "stream" else depth(OLD, str(name))
    held = {
        "at_target_after": (said["at_target_after"], row.there),
        "at the target, by its broker": (before, row.there),
        "left": (said["left"], row.left),
        "at_source_after": (said["at_source_after"], row.left),
        "aside": (said["aside"], row.aside),
        "taken": (said["at_target_before"] + said["accepted"], row.there),
        "received": (
            said["received"],
            said["accepted"] + said["aside"] + said["route"]["duplicates"],
        ),
        "open": (said["open"], []),
        "compared": (said["compared"], said["found"]),
    }
    row.wrong = [
        f"{what}: {one} and {other}" for what, (one, other) in held.items() if one != other
    ]
    bad = {"missing": row.missing, "unknown": row.unknown, "altered": row.altered}
    row.wrong += [f"{count} {what}" for what, count in bad.items() if count]
    if row.twice > WINDOW:
        row.wrong.append(f"{row.twice} twice")
    return row


def run(count: int, seconds: float, pause: float, seed: int) -> tuple[dict[str, Row], list[str]]:
    """Fill the queues, migrate, kill everything, resume the migration, and compare."""
    order = random.Random(seed)
    label = f"cut-{seed}-{time.time_ns() // 1_000_000}"
    names = [Name(label, kind, number) for kind, (how, _) in KINDS.items() for number in range(how)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sent = fill(names, count)
        mine = stack.enter_context(OLD.channel())
        mine.queue_declare(f"{label}.exclusive", exclusive=True)
        mine.basic_publish("", f"{label}.exclusive", b"mine")
        publisher = Publisher(names, count, pause)
        publisher.start()
        stack.callback(publisher.end)
        command = Migrate(label, folder)
        process = command.start()
        stack.callback(process.kill)
        moving(names, 0.6)
        time.sleep(order.uniform(0.0, 1.0))  # while most queues are being moved
        kill_all(process, order)
        for end, of in ((OLD, names), (NEW, names)):
            open_again(end, of)
        process = command.start()
        stack.callback(process.kill)
        time.sleep(seconds)
        going = process.poll() is None
        publisher.end()
        status = process.wait(600)
        said = command.said.read_text()
        report = command.report()
        rows = {one["name"]: one for one in report["queues"]}
        for queue, one in publisher.sent.items():
            sent[queue].confirmed |= one.confirmed
            sent[queue].perhaps |= one.perhaps
        found = {
            str(name): compare(name, sent[str(name)], rows[str(name)], folder) for name in names
        }
        wrong = [f"exit status {status}"] if status else []
        wrong += [] if report["done"] else ["the report does not say done"]
        wrong += [] if going else ["migrate ended while publishers went on"]
        wrong += [] if publisher.lost else ["the publisher was not cut"]
        if f"{label}.exclusive: not moved: exclusive" not in said:
            wrong.append("the exclusive queue was passed over in silence")
        if wrong:
            print("\n".join(said.splitlines()[-40:]), file=sys.stderr)
        for place in (OLD, NEW):
            with place.channel() as channel:
                for name in names:
                    channel.queue_delete(str(name))
    return found, wrong


def main() -> int:
    """Run the migration, and print a line for each queue."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000, help="of each queue, before")
    parser.add_argument("--seconds", type=float, default=15.0, help="that publishers go on after")
    parser.add_argument("--pause", type=float, default=0.002, help="seconds between two messages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write what was found here")
    given = parser.parse_args()
    os.environ["RABBITMQ_PLUGINS"] = "rabbitmq_management"
    with ExitStack() as stack:
        for end in (OLD, NEW):
            stack.callback(suppressed_stop, end)
            end.control("start")
        found, wrong = run(given.messages, given.seconds, given.pause, given.seed)
    for queue, row in found.items():
        numbers = attrs.asdict(row)
        said = "; ".join(numbers.pop("wrong")) or "right"
        print(f"{queue}: {', '.join(f'{n} {what}' for what, n in numbers.items())}: {said}")
    total = {
        name: sum(getattr(row, name) for row in found.values())
        for name in ("sent", "there", "missing", "unknown", "altered", "twice", "aside", "left")
    }
    bad = [*wrong, *(queue for queue, row in found.items() if row.wrong)]
    print(f"{len(found)} queues, {total}: {'; '.join(bad) or 'right'}")
    if given.json:
        rows = {queue: attrs.asdict(row) for queue, row in found.items()}
        given.json.write_text(json.dumps({"queues": rows, "wrong": wrong}, indent=2) + "\n")
    return 1 if bad else 0


def suppressed_stop(place: Place) -> None:
    """Stop a broker, even if it is not running."""
    with suppress(subprocess.CalledProcessError):
        place.control("stop")


if __name__ == "__main__":
    sys.exit(main())
