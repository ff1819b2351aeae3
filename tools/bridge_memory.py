"""Have messages go round and round through a bridge, and see whether it grows.

    python tools/bridge_memory.py --new $(.ci/rabbitmq start 4) --messages 5000000

One route takes them from a queue over 0-9-1 to another over 1.0, a second one back. The resident
memory in the last tenth of all is at most 5 % above that in the first, or the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import uuid
from pathlib import Path

import pika

from amqp10msg.net.bridge import Bridge, RouteOptions, RouteSpec

_PAGE = os.sysconf("SC_PAGE_SIZE") // 1024


def resident() -> int:
    """Return the resident memory of this process, in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


async def circulate(place: str, queues: list[str], messages: int) -> list[tuple[int, int]]:
    """Return how much memory there was after how many messages."""
    basic = [f"amqp091://{place}/?queue={queue}" for queue in queues]
    ours = [f"amqp://guest:guest@{place}/?queue={queue}" for queue in queues]
    options = RouteOptions()
    routes = [RouteSpec(basic[0], ours[1], options), RouteSpec(ours[1], basic[0], options)]
    found: list[tuple[int, int]] = []
    async with Bridge(routes) as bridge:
        done = 0
        while done < messages:
            await asyncio.sleep(0.5)
            done = sum(counts.accepted for counts in bridge.statistics.values())
            found.append((done, resident()))
    return found


def main() -> int:
    """Run it, and print what there was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", help="not used: for .ci/bridge")
    parser.add_argument("--new", metavar="HOST:PORT", required=True, help="RabbitMQ 4")
    parser.add_argument("--messages", type=int, default=5_000_000)
    parser.add_argument("--round", type=int, default=2_000, help="so many go round")
    given = parser.parse_args()
    host, _, port = given.new.partition(":")
    queues = [f"memory-{uuid.uuid4()}" for _ in range(2)]
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port), heartbeat=0)) as one:
        channel = one.channel()
        for queue in queues:
            channel.queue_declare(queue, durable=True)
        for number in range(given.round):
            properties = pika.BasicProperties(message_id=f"m-{number}", delivery_mode=2)
            channel.basic_publish("", queues[0], b"%d" % number, properties)
    started = time.monotonic()
    found = asyncio.run(circulate(given.new, queues, given.messages))
    seconds = time.monotonic() - started
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as one:
        channel = one.channel()
        left = sum(channel.queue_declare(q, passive=True).method.message_count for q in queues)
        for queue in queues:
            channel.queue_delete(queue)
    total = found[-1][0]
    first = max(size for done, size in found if done <= max(total / 10, found[0][0]))
    last = max(size for done, size in found if done >= total * 0.9)
    print(
        f"{total:,} messages in {seconds:,.0f} s, {left} of {given.round} still there; "
        f"{first:,} KiB in the first tenth, {last:,} KiB in the last"
    )
    return 1 if last > first * 1.05 or left < given.round else 0


if __name__ == "__main__":
    sys.exit(main())
