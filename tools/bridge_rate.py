"""Compare the rate of the bridge with those of RabbitMQ's shovel and of a script of two clients.

    .ci/rabbitmq install 3 && .ci/rabbitmq install 4
    export RABBITMQ_PLUGINS=rabbitmq_shovel
    python tools/bridge_rate.py --old $(.ci/rabbitmq start 3) --new $(.ci/rabbitmq start 4)

Each contender moves all messages of a durable classic queue to another one, and settles each when
the target has accepted it. The contenders run one after the other in each round, in changing order.
The rate is measured from the first query that finds messages in the target. Processor time per
message is measured from then on, too: that of both brokers and, if it is a separate process, of the
contender. On a busy machine it is more reliable than the rate.

All three use the same window, which is the prefetch or credit of the source: 1000, the default of
shovels. Each acknowledges after the confirmation, and the target stores the messages on disk. The
shovels are dynamic ones in the new broker. From 1.0 to 0-9-1, a shovel forwards the body without
properties, so the messages would not be persistent: the tool gives it fixed properties for all
messages. The script of two clients is bench/peers/bridge.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pika
from bridge_faults import Place

ROOT = Path(__file__).parents[1]
#: The protocols of source and target, with the least rate of the bridge relative to the shovel's.
#: Two of them use the new broker only, which implements 1.0 natively.
WAYS = {
    "0-9-1 -> 1.0": 1.25,
    "1.0 -> 0-9-1": 0.75,
    "1.0 -> 0-9-1 of 4.0": 0.9,
    "0-9-1 -> 0-9-1": 1.0,
    "1.0 -> 1.0": 1.25,
}
_GLUED = 3.0


@attrs.frozen
class Side:
    """A queue of a broker, over one protocol."""

    place: str
    queue: str
    protocol: str
    old: bool

    @property
    def address(self) -> str:
        """The queue's address over 1.0."""
        return f"{'/amq/queue' if self.old else '/queues'}/{self.queue}"

    @property
    def url(self) -> str:
        """The bridge's URL of the queue."""
        if self.protocol == "0-9-1":
            return f"amqp091://{self.place}/?queue={self.queue}"
        return f"amqp://guest:guest@{self.place}/{self.address}"

    def shovel(self, end: str) -> dict[str, Any]:
        """Return the shovel's parameters for this side, ``src`` or ``dest``."""
        uri = f"amqp://guest:guest@{self.place}"
        if self.protocol == "0-9-1":
            return {
                f"{end}-protocol": "amqp091",
                f"{end}-uri": uri,
                f"{end}-queue": self.queue,
            }
        return {
            f"{end}-protocol": "amqp10",
            f"{end}-uri": f"{uri}?sasl=plain",
            f"{end}-address": self.address,
        }


@contextlib.contextmanager
def channel_of(place: str) -> Iterator[Any]:
    """Open a channel of a broker."""
    host, _, port = place.partition(":")
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
        yield connection.channel()


def fill(side: Side, count: int, size: int) -> None:
    """Publish messages to a new queue."""
    with channel_of(side.place) as channel:
        channel.queue_declare(side.queue, durable=True)
        for number in range(count):
            properties = pika.BasicProperties(
                content_type="application/octet-stream",
                delivery_mode=2,
                headers={"n": number, "source": "shop"},
                message_id=f"m-{number}",
                timestamp=1_700_000_000,
            )
            channel.basic_publish("", side.queue, b"x" * size, properties)


def processor(pids: dict[str, int]) -> Counter[str]:
    """Return the processor time of processes by kind, in µs."""
    found: Counter[str] = Counter()
    for name, pid in pids.items():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[name] += (int(fields[11]) + int(fields[12])) * 1_000_000 // os.sysconf("SC_CLK_TCK")
    return found


@contextlib.contextmanager
def bridge(source: Side, target: Side, window: int) -> Iterator[dict[str, int]]:
    """Run the bridge."""
    command = ["-m", "amqp10msg", "bridge", "--from", source.url, "--to", target.url]
    with process([*command, "--log", "none", "--window", str(window)]) as pids:
        yield pids


@contextlib.contextmanager
def glued(source: Side, target: Side, window: int) -> Iterator[dict[str, int]]:
    """Run the script of two clients."""
    way = "to-1.0" if target.protocol == "1.0" else "to-0-9-1"
    ends = [
        one
        for side in (source, target)
        for one in (side.place, side.address if side.protocol == "1.0" else side.queue)
    ]
    with process(["-m", "bench.peers.bridge", way, *ends, str(window)]) as pids:
        yield pids


@contextlib.contextmanager
def process(arguments: list[str]) -> Iterator[dict[str, int]]:
    """Run a Python process until the end of the block."""
    running = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        yield {"contender": running.pid}
    finally:
        running.kill()
        running.wait()


@contextlib.contextmanager
def shovel(source: Side, target: Side, window: int) -> Iterator[dict[str, int]]:
    """Run a dynamic shovel in the new broker."""
    name = f"rate-{uuid.uuid4()}"
    given = {
        **source.shovel("src"),
        **target.shovel("dest"),
        "ack-mode": "on-confirm",
        "src-prefetch-count": window,
    }
    if target.protocol == "0-9-1":
        given["dest-publish-properties"] = {
            "delivery_mode": 2,
            "content_type": "application/octet-stream",
            "message_id": "m-1",
            "timestamp": 1_700_000_000,
        }

    new = Place.at(target.place if source.old else source.place, "4")
    new.control("ctl", "set_parameter", "shovel", name, json.dumps(given))
    try:
        yield {}
    finally:
        new.control("ctl", "clear_parameter", "shovel", name)


CONTENDERS = {"bridge": bridge, "shovel": shovel, "glued": glued}


@attrs.frozen
class Made:
    """The result of one contender.

    Attributes:
        rate: messages per second.
        costs: processor time per message in µs, by kind of process.
    """

    rate: float
    costs: Counter[str]


def measure(contender: Any, ends: list[Side], given: Any, brokers: dict[str, int]) -> Made:
    """Measure a contender, from the first query that finds messages in the target.

    Args:
        contender: one of `CONTENDERS`.
        ends: the source and the target.
        given: the command line's arguments.
        brokers: the process id of each broker, by its HOST:PORT.
    """
    source, target = ends
    count = given.messages
    fill(source, count, given.size)
    with channel_of(target.place) as channel:
        channel.queue_declare(target.queue, durable=True)
        with contender(source, target, given.window) as pids:
            spenders = {f"broker {place}": pid for place, pid in brokers.items()} | pids
            first = at = 0.0
            seen = there = 0
            before = Counter[str]()
            patience = time.monotonic() + 120
            while there < count:
                time.sleep(0.05)
                there = channel.queue_declare(target.queue, passive=True).method.message_count
                at = time.monotonic()
                if not first and there:
                    first, seen, before = at, there, processor(spenders)
                if at > patience:
                    raise TimeoutError(f"{there} of {count} after 120 s")
            took = processor(spenders) - before
    for side in ends:
        with channel_of(side.place) as channel:
            channel.queue_delete(side.queue)
    moved = count - seen
    costs = Counter({name: round(spent / moved) for name, spent in took.items()})
    return Made(moved / (at - first), costs)


def main() -> int:
    """Measure, and print a line for each pair of protocols and contender."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", metavar="HOST:PORT", required=True, help="of .ci/rabbitmq start 3")
    parser.add_argument("--new", metavar="HOST:PORT", required=True, help="of .ci/rabbitmq start 4")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=1_024, help="bytes of a body")
    parser.add_argument("--window", type=int, default=1_000, help="prefetch, credit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--check", action="store_true", help="hold the bridge to the bounds")
    given = parser.parse_args()
    brokers = {
        place: int(Place.at(place, version).control("pid"))
        for place, version in ((given.old, "3"), (given.new, "4"))
    }
    failed = 0
    for way in given.way or WAYS:
        protocols = way.removesuffix(" of 4.0").split(" -> ")
        # 1.0 uses the new broker, which implements it natively.
        places = [given.new, given.old] if protocols[0] == "1.0" else [given.old, given.new]
        if way in {"1.0 -> 1.0", "1.0 -> 0-9-1 of 4.0"}:
            places = [given.new, given.new]
        found: dict[str, list[Made]] = {name: [] for name in CONTENDERS}
        for number in range(given.rounds):
            names = list(CONTENDERS)
            names = names[number % len(names) :] + names[: number % len(names)]
            for name in names:
                if name == "glued" and protocols[0] == protocols[1]:
                    continue
                ends = [
                    Side(place, f"rate-{uuid.uuid4()}", protocol, place == given.old)
                    for place, protocol in zip(places, protocols, strict=True)
                ]
                made = measure(CONTENDERS[name], ends, given, brokers)
                found[name].append(made)
        for name, all_made in found.items():
            if all_made:
                usual = statistics.median(one.rate for one in all_made)
                best = max(one.rate for one in all_made)
                cost = statistics.median(one.costs.total() for one in all_made)
                parts = {
                    spender: statistics.median(one.costs[spender] for one in all_made)
                    for spender in all_made[0].costs
                }
                said = ", ".join(f"{part:,.0f} {spender}" for spender, part in parts.items())
                print(
                    f"{way}: {name}: {usual:,.0f} a second (best {best:,.0f}), "
                    f"{cost:,.0f} us of processor time a message ({said})",
                    flush=True,
                )
        for name, least in (("shovel", WAYS[way]), ("glued", _GLUED)):
            if theirs := found[name]:
                ratio = statistics.median(
                    one.rate / other.rate
                    for one, other in zip(found["bridge"], theirs, strict=True)
                )
                print(f"{way}: the bridge has {ratio:.2f} times the rate of the {name}", flush=True)
                failed += ratio < least
    return 1 if failed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
