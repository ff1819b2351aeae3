"""Send odd and plain messages there and back through the bridge and real brokers, and compare.

    .ci/rabbitmq install 3 && .ci/rabbitmq install 4
    python tools/bridge_round_trips.py --old $(.ci/rabbitmq start 3) --new $(.ci/rabbitmq start 4)

Lanes go 0-9-1 -> 1.0 -> 0-9-1 and 1.0 -> 0-9-1 -> 1.0, in the profile lossless, with a classic
queue, a quorum queue and a stream of either broker in the middle. What the broker at the ends gives
out of a queue that no bridge touched is compared with what comes out of the last queue: content
header and body, or the bare message, are the same bytes, or differ as the broker in the middle is
known to change them: RabbitMQ 3.10 has no 1.0 inside, and its translation is predicted by the
profile of that name. Each such change is counted and named. What a broker does not take ends in the
quarantine, byte for byte, and is counted by what the broker said.

The exit status is 1 where a message is missing, is there twice, or differs in another way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import re
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pika
from broker_clients import Basic, Broker, Ended, Peer, profile_of, queue
from message_differences import (
    Content,
    bare,
    changed_inside,
    compared,
    content_of,
    differences,
    in_order,
    key_of,
    shown,
)
from odd_messages import basic_message, sections, written

from amqp10msg import AmqpError, Header, Message
from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable, decode_properties
from amqp10msg.basic import encode_properties as encoded
from amqp10msg.interop.proton import send
from amqp10msg.net.bridge import Bridge, RouteOptions, Statistics, read_quarantine
from amqp10msg.translate import Circumstances, as_published, to_amqp10, to_basic

_NUMBER = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


@attrs.define
class Found:
    """What became of the messages of a lane.

    Attributes:
        sent: messages that the first queue took.
        refused: those that its broker did not take, by what it said.
        identical: those that came out of the last queue as the same bytes.
        changed: those that the broker in the middle changed, by what it changed.
        aside: those in the quarantine, by reason.
        losses: values that a translation dropped or changed, by path.
        behind: of these, those that the last broker did not take.
        missing: those that did not come.
        twice: those that came twice: they were in flight when a connection ended; `window` may.
        unexplained: those that came, and differ in a way that nothing documents; some of them.
        seconds: that the two bridges took.
    """

    sent: int = 0
    refused: Counter[str] = attrs.Factory(Counter)
    identical: int = 0
    changed: Counter[str] = attrs.Factory(Counter)
    aside: Counter[str] = attrs.Factory(Counter)
    losses: Counter[str] = attrs.Factory(Counter)
    behind: int = 0
    missing: int = 0
    twice: int = 0
    window: int = 0
    differing: int = 0
    unexplained: list[str] = attrs.Factory(list)
    seconds: float = 0.0
    into: dict[Any, Any] = attrs.field(factory=dict, repr=False)
    out: dict[Any, Any] = attrs.field(factory=dict, repr=False)

    def note_sent(self, delivery: Any, message: Any) -> None:
        """Note what was sent to the middle for a delivery."""
        self.into[key_of(delivery)] = content_of(message)

    def note_given(self, delivery: Any, message: Any) -> None:
        """Note what the middle gave out for what was sent to the last queue."""
        self.out[in_order(key_of(message))] = content_of(delivery)

    @property
    def is_right(self) -> bool:
        """Whether nothing is missing, there twice, or different without a reason."""
        return not (self.missing or self.twice > self.window or self.unexplained)


def plain(number: int) -> BasicMessage:
    """Return a usual message."""
    headers = FieldTable.of([("n", "l", number), ("source", "S", "shop"), ("test", "t", True)])
    properties = BasicProperties(
        message_id=f"m-{number}",
        content_type="application/json",
        delivery_mode=2,
        priority=number % 10,
        timestamp=1_700_000_000 + number,
        headers=headers,
    )
    return BasicMessage(properties, b'{"order": %d}' % number)


def basics(seed: int, odd: int, usual: int) -> Iterator[BasicMessage]:
    """Draw messages of 0-9-1; those that would expire meanwhile, or go elsewhere, as others."""
    drawn = random.Random(seed)
    for _ in range(odd):
        yield basic_message(drawn)
    for number in range(usual):
        yield plain(number)


def octets(seed: int, odd: int, usual: int) -> Iterator[bytes]:
    """Draw messages of 1.0 that can be read, and do not expire meanwhile."""
    drawn = random.Random(seed)
    made = 0
    while made < odd:
        message = b"".join(map(written, sections(drawn)))
        try:
            ttl = getattr(Message.decode(message, strict=False).header, "ttl", None)
        except AmqpError:
            ttl = 0
        if isinstance(ttl, int) and ttl < 600_000:
            continue
        made += 1
        yield message
    for number in range(usual):
        yield to_amqp10(plain(number)).message.encode()


# Clients that are not ours.


@attrs.define
class Client:
    """Publishes to and reads a queue of one broker, by pika or proton."""

    broker: Broker
    name: str
    basic: bool
    _open: Any = None

    def put(self, messages: Iterable[Any], odd: int, refused: Callable[[str], None]) -> list[Any]:
        """Publish messages; return those that the broker took.

        Args:
            messages: what to publish.
            odd: so many are published one at a time, as the broker may refuse them.
            refused: called with what the broker said of one that it refused.
        """
        taken: list[Any] = []
        given = iter(messages)
        with ExitStack() as stack:
            for _, message in zip(range(odd), given, strict=False):
                try:
                    self._probe(stack, message)
                except Ended as error:
                    refused(_NUMBER.sub("…", str(error))[:160])
                    stack.close()
                    self._open = None
                else:
                    taken.append(message)
        taken += given
        (self._all_basic if self.basic else self._all)(taken)
        return taken

    def _probe(self, stack: ExitStack, message: Any) -> None:
        """Send a message through another queue: some are refused, others never given out."""
        if self._open is None:
            name = stack.enter_context(queue(self.broker, "classic"))
            client: Any = stack.enter_context((Basic if self.basic else Peer)(self.broker))
            address = name if self.basic else self.broker.address(name)
            if self.basic:
                client.consume(name)
                self._open = client, address, None
            else:
                self._open = client, client.sender(address), client.receiver(address)
        client, target, source = self._open
        if self.basic:
            client.publish(target, message)
            client.channel.basic_ack(client.receive(2.0)[1])
        else:
            client.send(target, message)
            client.settle(source, client.receive(source, 2.0)[1])

    def _all_basic(self, messages: list[BasicMessage]) -> None:
        """Publish without confirms, each of which is a round trip with this client."""
        at = pika.ConnectionParameters(self.broker.host, self.broker.port)
        with pika.BlockingConnection(at) as connection:
            channel = connection.channel()
            for message in messages:
                properties: Any = pika.BasicProperties()
                properties.encode = partial(list, [encoded(message.properties)])
                channel.basic_publish("", self.name, message.body, properties)

    def _all(self, messages: list[bytes]) -> None:
        waiting: deque[Any] = deque()
        with Peer(self.broker) as client:
            link = client.sender(self.broker.address(self.name))
            for number, message in enumerate(messages):
                client._wait(lambda: link.credit > 0)
                waiting.append(send(link, message, tag=str(number)))
                while waiting and waiting[0].remote_state:
                    waiting.popleft().settle()
            client._wait(lambda: all(one.remote_state for one in waiting))

    def take(self) -> list[Content]:
        """Read all that is in the queue."""
        found: list[Content] = []
        client: Any
        if self.basic:
            with Basic(self.broker) as client:
                client.consume(self.name)
                try:
                    while True:
                        made, tag = client.receive(1.5)
                        client.channel.basic_ack(tag)
                        found.append((encoded(made.properties), made.body))
                except Ended:
                    return found
        with Peer(self.broker) as client:
            link = client.receiver(self.broker.address(self.name), credit=200)
            try:
                while True:
                    message, delivery = client.receive(link, 1.5)
                    client.settle(link, delivery)
                    found.append(message)
            except Ended:
                return found


# The bridge.


@attrs.frozen
class Lane:
    """There and back: from a queue of `ends` by a queue of `middle` to a queue of `ends`."""

    ends: Broker
    middle: Broker
    kind: str
    basic: bool

    @property
    def name(self) -> str:
        """What it is called in the table."""
        ways = ["0-9-1", "1.0"] if self.basic else ["1.0", "0-9-1"]
        middle = f"{ways[1]} ({self.middle.version} {self.kind})"
        return f"{ways[0]} ({self.ends.version}) -> {middle} -> {ways[0]}"

    def url(self, name: str, *, middle: bool) -> str:
        """Return the URL of a queue."""
        broker = self.middle if middle else self.ends
        if self.basic != middle:
            return f"amqp091://{broker.host}:{broker.port}/?queue={name}"
        version = 1 if broker.version.startswith("3.") else 2
        given = f"queue={name}&address_version={version}"
        return f"amqp://guest:guest@{broker.host}:{broker.port}/?{given}"


def moved(
    source: str, target: str, folder: Path, seen: Callable[[Any, Any], None]
) -> tuple[Statistics, list[Any]]:
    """Bridge a queue until it is empty; return the counts, and what is in the quarantine.

    Args:
        source: its URL.
        target: the URL of the target.
        folder: for the quarantine.
        seen: called with each delivery and the message that is made of it.
    """
    aside = folder / f"{time.monotonic_ns()}.jsonl"

    def change(message: Any, delivery: Any) -> Any:
        seen(delivery, message)
        return message

    options = RouteOptions(
        idle=1.5, quarantine=aside, max_backoff=0.5, outcome_timeout=2, change=change
    )

    async def run() -> Statistics:
        async with Bridge(source, target, options) as bridge:
            (counts,) = (await bridge.run()).values()
        return counts

    counts = asyncio.run(run())
    return counts, list(read_quarantine(aside)) if aside.exists() else []


def run_lane(lane: Lane, seed: int, odd: int, usual: int, folder: Path) -> Found:
    """Send messages there and back, and compare."""
    found = Found()
    draw: Callable[[int, int, int], Iterator[Any]] = basics if lane.basic else octets
    with ExitStack() as stack:
        first, twin, last = (stack.enter_context(queue(lane.ends, "classic")) for _ in range(3))
        middle = stack.enter_context(queue(lane.middle, lane.kind))
        for name in (first, twin):
            found.refused.clear()
            client = Client(lane.ends, name, lane.basic)
            sent = client.put(draw(seed, odd, usual), odd, lambda why: found.refused.update([why]))
        given = Client(lane.ends, twin, lane.basic).take()
        found.sent = len(given)
        if len(sent) != len(given):
            found.unexplained.append(f"{len(sent)} published, {len(given)} in the queue")
        started = time.monotonic()
        offset = "&offset=first" if lane.kind == "stream" else ""
        begin, between = lane.url(first, middle=False), lane.url(middle, middle=True)
        there, aside = moved(begin, between, folder, found.note_sent)
        end = lane.url(last, middle=False)
        back, behind = moved(between + offset, end, folder, found.note_given)
        found.seconds = time.monotonic() - started
        for counts in (there, back):
            for (path, action), number in counts.losses.items():
                found.losses[f"{path} {action}"] += number
        for entry in (*aside, *behind):
            said = _NUMBER.sub("…", f"{entry.condition} {entry.description}".strip())[:120]
            found.aside[f"{entry.reason}: {said}" if said else entry.reason] += 1
        found.behind = len(behind)
        found.window = 500 * (there.target_lost + there.source_lost)
        found.window += 500 * (back.target_lost + back.source_lost)
        compare(lane, middle, given, aside, Client(lane.ends, last, lane.basic).take(), found)
    return found


def compare(
    lane: Lane, middle: str, given: list[Content], aside: list[Any], came: list[Any], to: Found
) -> None:
    """Compare what came, twice or once, with what was given and not put aside on the way there."""
    put_aside: Counter[Any] = Counter()
    for entry in aside:
        if lane.basic:
            put_aside[entry.content_header[12:], entry.octets] += 1
        else:
            put_aside[bare(entry.octets)] += 1
    expected = []
    for one in given:
        key = compared(one)
        if put_aside[key] > 0:
            put_aside[key] -= 1
        else:
            expected.append(one)
    # Retries change the order: what is the same is found first, then what is predicted.
    left = Counter(map(compared, came))
    rest = []
    for one in expected:
        key = compared(one)
        if left[key] > 0:
            left[key] -= 1
            to.identical += 1
        else:
            rest.append(one)
    unknown = []
    seen = {*map(compared, expected)}
    for one in rest:
        for found in predicted(lane, one, middle):
            wanted = found if lane.ends.version.startswith("3.") else in_order(found)
            seen.add(wanted)
            if left[wanted] > 0:
                left[wanted] -= 1
                to.changed.update([", ".join(differences(one, wanted)) or "bytes"])
                to.differing += 1
                break
        else:
            unknown.append(one)
    others = []
    for other, number in left.items():
        if other in seen:
            to.twice += number  # one that was in flight when a connection ended
        else:
            others += [other] * number
    to.missing = max(0, len(unknown) - len(others) - to.behind)
    if others:
        for one in unknown:
            near = min(others, key=lambda other: len(differences(one, other)))
            if changes := changed_inside(to.into.get(compared(one)), to.out.get(in_order(near))):
                to.changed.update([f"inside: {', '.join(changes)}"])
                to.differing += 1
            else:
                named = f"{differences(one, near)}: {shown(one)} came as {shown(near)}"
                to.unexplained.append(named)
        to.unexplained += [] if unknown else [f"nobody sent {shown(other)}" for other in others[:5]]


def predicted(lane: Lane, one: Content, name: str) -> Iterator[Content]:
    """Yield what a message may become by way of the broker in the middle, as it is documented.

    Args:
        lane: the lane.
        one: the message.
        name: of the queue in the middle.
    """
    old = lane.middle.version.startswith("3.")
    try:
        if isinstance(one, tuple):
            properties = decode_properties(one[0])
            if not old and properties.delivery_mode is None:
                # What has no header is durable to RabbitMQ 4.
                properties.delivery_mode = 2
                yield encoded(properties), one[1]
            if old:  # it has 0-9-1 inside
                message = to_amqp10(BasicMessage(decode_properties(one[0]), one[1])).message
                inside = to_basic(message, "rabbitmq-3.10").message
                inside.exchange, inside.routing_key = "", name
                message = to_amqp10(inside, "rabbitmq-3.10").message
                # The bridge leaves out what is said of one delivery.
                header = attrs.evolve(message.header or Header(), first_acquirer=False)
                made = to_basic(
                    message.evolve(header=None if header == Header() else header)
                ).message
                yield encoded(made.properties), made.body
        else:
            inside = to_basic(Message.decode(one, strict=False)).message
            if lane.kind == "stream":
                inside = from_stream(inside, lane.middle, name)
            inside = as_published(inside, stream=lane.kind == "stream")
            yield bare(to_amqp10(inside).message.encode())
    except AmqpError:
        return


def from_stream(basic: BasicMessage, broker: Broker, name: str) -> BasicMessage:
    """Return what a consumer of 0-9-1 gets of a message in a stream, which holds it as 1.0."""
    profile = profile_of(broker, "stream")
    basic.exchange, basic.routing_key = "", name
    stored = to_amqp10(basic, profile, circumstances=Circumstances(stream_offset=0)).message
    return to_basic(stored, profile).message


def main() -> int:
    """Run the lanes, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", metavar="HOST:PORT", help="RabbitMQ 3.10 with its plugin for 1.0")
    parser.add_argument("--new", metavar="HOST:PORT", required=True, help="RabbitMQ 4")
    parser.add_argument("--odd", type=int, default=2_000, help="odd messages a lane")
    parser.add_argument("--plain", type=int, default=20_000, help="plain messages a lane")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queue", action="append", choices=["classic", "quorum", "stream"])
    parser.add_argument("--only", choices=["0-9-1", "1.0"], help="lanes that begin so")
    parser.add_argument("--json", type=Path, help="write what was found here")
    given = parser.parse_args()
    brokers = [Broker.at(place) for place in (given.old, given.new) if place]
    new, wrong, all_found = brokers[-1], 0, {}
    logging.getLogger("amqp10msg.bridge").setLevel(logging.CRITICAL)  # counted, and shown below
    lanes = [
        Lane(brokers[0] if basic and middle is new else new, middle, kind, basic)
        for basic in (True, False)
        for middle in brokers
        for kind in given.queue or ("classic", "quorum", "stream")
        if given.only in {None, "0-9-1" if basic else "1.0"}
        # The plugin of RabbitMQ 3.10 gives out no streams over 1.0.
        and not (basic and kind == "stream" and middle.version.startswith("3."))
    ]
    with tempfile.TemporaryDirectory() as folder:
        for lane in lanes:
            found = run_lane(lane, given.seed, given.odd, given.plain, Path(folder))
            all_found[lane.name] = attrs.asdict(
                found, filter=lambda field, _: field.name not in {"into", "out"}
            )
            wrong += not found.is_right
            print(
                f"{lane.name}: {found.sent} sent ({found.refused.total()} refused before), "
                f"{found.identical} identical, {found.differing} changed by the broker, "
                f"{found.aside.total()} aside, {found.missing} missing, "
                f"{found.twice} twice ({found.window} may), "
                f"{len(found.unexplained)} unexplained, {found.seconds:.1f} s",
                flush=True,
            )
            for title, counts in (("changed", found.changed), ("aside", found.aside)):
                for name, number in counts.most_common(8):
                    print(f"    {title} {number}: {name}")
            for line in found.unexplained:
                print(f"    {line}"[:1_500], flush=True)
    if given.json:
        given.json.write_text(json.dumps(all_found, indent=2, default=dict) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
