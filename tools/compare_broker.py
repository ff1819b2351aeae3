"""Compare the translator's profile of a RabbitMQ with that RabbitMQ, by random generation.

    python tools/compare_broker.py --to amqp10 --examples 3000
    python tools/compare_broker.py --to basic --queue stream --broker localhost:5672
    python tools/compare_broker.py --queue quorum --given-back released --given-back closed
    python tools/compare_broker.py --examples 200 --record odd.jsonl

Messages are published over one protocol and consumed over the other, one at a time, from a queue
that is deleted at the end. A message agrees if the profile gives the bytes that the consumer
receives, or refuses it where the broker does, or where the consumer's connection dies. The profile
is that of the broker's version and the queue.

Messages that are known to be odd come first. With ``--record``, what the broker made of each is
appended to a file, in the form of tests/vectors/translations.jsonl.gz. With ``--given-back``, each
message is given back to its queue before.

What differs is cut down to the smallest message that still differs, and printed; the exit status
is 1. Messages that the library cannot read are counted, and not compared.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from broker_clients import Basic, Broker, Ended, Peer, profile_of, queue
from known_messages import KNOWN_BASICS, KNOWN_SECTIONS
from odd_messages import Sections, basic_message, sections, written
from pika.exceptions import AMQPError
from smaller_messages import least
from take_circumstances import WAYS, give_back, take

from amqp10msg import DecodeError, Message, decode_value
from amqp10msg.basic import BasicMessage, decode_properties, encode_properties
from amqp10msg.translate import (
    Circumstances,
    TranslationError,
    TranslationProfile,
    to_amqp10,
    to_basic,
)
from amqp10msg.wire.kernel import skip_value

#: What there is of a message: its bytes, for 0-9-1 those of properties and body; None where none.
Seen = bytes | tuple[bytes, bytes] | None


OFFSET = "x-stream-offset"


@attrs.define
class Lane:
    """A queue with a publisher and a consumer, made anew where the broker ends one of them."""

    broker: Broker
    kind: str
    to_amqp10: bool
    wait: float
    given_back: Sequence[Any] = ()
    _open: ExitStack | None = None
    _name: str = ""
    _publish: Any = None
    _receive: Any = None

    def observe(self, given: Any) -> tuple[str, Any, str]:
        """Send a message through the queue.

        Returns:
            The queue's name, and what came, or None and why.
        """
        if self._open is None:
            self._start()
        name = self._name
        doing = "refused"
        try:
            self._publish(given)
            doing = "not delivered"
            return name, self._receive(), ""
        except Ended as error:
            self.close()
            return name, None, f"{doing}: {error}".splitlines()[0]

    def _start(self) -> None:
        self._open = stack = ExitStack()
        self._name = name = stack.enter_context(queue(self.broker, self.kind))
        basic = stack.enter_context(Basic(self.broker))
        peer = stack.enter_context(Peer(self.broker))
        address = self.broker.address(name)
        if self.given_back:
            # No consumer waits here, which would take the message before it is given back.
            to = "amqp10" if self.to_amqp10 else "basic"
            if self.to_amqp10:
                self._publish = partial(basic.publish, name)
            else:
                self._publish = partial(peer.send, peer.sender(address))

            def received() -> bytes | BasicMessage:
                try:
                    for way in self.given_back:
                        give_back(self.broker, name, way, over=to)
                    came: bytes | BasicMessage = take(self.broker, name, to)
                except AMQPError as error:
                    raise Ended(repr(error)) from None
                return came
        elif self.to_amqp10:
            link = peer.receiver(address)
            self._publish = partial(basic.publish, name)

            def received() -> bytes | BasicMessage:
                octets, delivery = peer.receive(link, self.wait)
                peer.settle(link, delivery)
                return octets
        else:
            basic.consume(name)
            self._publish = partial(peer.send, peer.sender(address))

            def received() -> bytes | BasicMessage:
                made, tag = basic.receive(self.wait)
                basic.channel.basic_ack(tag)
                return made

        self._receive = received

    def close(self) -> None:
        """Delete the queue, and hang up."""
        if self._open is not None:
            self._open.close()
            self._open = None


def offset_of(seen: bytes | BasicMessage) -> int | None:
    """Return the offset in a stream that a delivered message states."""
    if isinstance(seen, BasicMessage):
        headers: Any = seen.properties.headers
        found = headers.get(OFFSET) if headers is not None else None
        return int(found) if isinstance(found, int) else None
    # Not every message can be read: find the last annotation of the name, if none of the sender's.
    place, found = 0, None
    with suppress(DecodeError):
        while place < len(seen):
            end = skip_value(seen, place)
            _, name, rest = seen[place:end].rpartition(b"\x0f" + OFFSET.encode())
            if name and seen.startswith(b"\0\x53\x72", place):
                found = decode_value(rest[: skip_value(rest, 0)])
                break  # a section behind it is the sender's
            place = end
    return int(found) if isinstance(found, int) else None


def predicted(
    given: Any, profile: TranslationProfile, circumstances: Circumstances, name: str
) -> tuple[Seen, str]:
    """Return what the profile gives, or None and why."""
    try:
        if isinstance(given, BasicMessage):
            sent = attrs.evolve(given, routing_key=name)
            return to_amqp10(sent, profile, circumstances=circumstances).message.encode(), ""
        made = to_basic(Message.decode(given, strict=False), profile, circumstances=circumstances)
        return (encode_properties(made.message.properties), made.message.body), ""
    except TranslationError as error:
        return error.delivered, str(error)


@attrs.define
class Comparison:
    """One direction through one queue of a broker.

    Attributes:
        lane: the queue.
        profile: what is held to it.
        counts: of messages, by what became of them.
        entry: what became of the last one, in the form of a recording.
    """

    lane: Lane
    profile: TranslationProfile
    counts: Counter[str] = attrs.Factory(Counter)
    entry: dict[str, Any] = attrs.Factory(dict)

    def difference(self, given: Any) -> str:
        """Say how profile and broker differ on a message; nothing where they agree."""
        self.entry = {}
        sent = octets_of(given)
        if isinstance(sent, bytes):
            try:
                Message.decode(sent, strict=False)
            except DecodeError:
                self.counts["unreadable"] += 1
                return ""
        else:
            self.entry["basic"] = [encode_properties(sent.properties).hex(), sent.body.hex()]
        name, delivered, why = self.lane.observe(sent)
        seen = delivered
        gives: Any = delivered.hex() if isinstance(delivered, bytes) else None
        if isinstance(delivered, BasicMessage):
            seen = encode_properties(delivered.properties), delivered.body
            gives = [seen[0].hex(), seen[1].hex()]
        offset = offset_of(delivered) if delivered and self.lane.kind == "stream" else None
        if isinstance(sent, bytes):
            self.entry |= {"message": sent.hex(), "gives": gives, "offset": offset}
        else:
            self.entry |= {"gives": gives, "exchange": "", "key": name, "offset": offset}
        kind: Any = "quorum" if self.lane.kind == "quorum" else "classic"
        given_ = Circumstances(
            stream_offset=offset, queue_type=kind, given_back=self.lane.given_back
        )
        wanted, reason = predicted(sent, self.profile, given_, name)
        self.counts["delivered" if seen is not None else "not delivered"] += 1
        if seen == wanted:
            return ""
        return f"  broker:    {shown(seen) or why}\n  predicted: {shown(wanted) or reason}"


def octets_of(given: Sections | BasicMessage) -> Any:
    """Return the bytes of a 1.0 message, and a 0-9-1 message as it is."""
    return b"".join(map(written, given)) if isinstance(given, tuple) else given


def shown(seen: Seen) -> str:
    """Return bytes as hex."""
    if seen is None:
        return ""
    if isinstance(seen, bytes):
        return seen.hex()
    return f"{seen[0].hex()} {seen[1].hex()} {decode_properties(seen[0])!r}"


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", default="127.0.0.1:5672", help="HOST:PORT; it knows guest")
    parser.add_argument("--to", choices=["amqp10", "basic"], default="amqp10")
    parser.add_argument("--queue", choices=["classic", "quorum", "stream"], default="classic")
    parser.add_argument("--examples", type=int, default=300, help="messages to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wait", type=float, default=5, help="seconds until a message is missing")
    parser.add_argument("--tries", type=int, default=300, help="to cut one message down")
    parser.add_argument("--most", type=int, default=20, help="differences to cut down")
    parser.add_argument("--record", type=Path, help="append what the broker did to this file")
    parser.add_argument(
        "--given-back",
        action="append",
        choices=WAYS,
        default=[],
        help="give each message back so before it is taken; may be repeated",
    )
    given = parser.parse_args()
    if given.given_back and given.queue == "stream":
        parser.error("nothing is given back to a stream")
    broker = Broker.at(given.broker)
    profile = profile_of(broker, given.queue)
    compared = Comparison(
        Lane(broker, given.queue, given.to == "amqp10", given.wait, given.given_back), profile
    )
    to_amqp10 = given.to == "amqp10"
    chosen = random.Random(given.seed)
    draw = basic_message if to_amqp10 else sections
    known: list[Any] = list(KNOWN_BASICS if to_amqp10 else KNOWN_SECTIONS)
    different = 0
    printed: set[str] = set()
    recorded = []
    try:
        for number in range(len(known) + given.examples):
            drawn = known[number] if number < len(known) else draw(chosen)
            text = compared.difference(drawn)
            if given.record and compared.entry:
                suffix = "" if given.queue == "classic" else f"-{given.queue}"
                case = f"odd-{given.to}-{given.seed}-{number}"
                head = {"broker": f"rabbitmq-{broker.version}{suffix}", "id": case}
                recorded.append(json.dumps(head | compared.entry, separators=(",", ":")))
            if not text:
                continue
            different += 1
            if len(printed) < given.most:
                small, text = least(drawn, compared.difference, given.tries)
                told = repr(small) if to_amqp10 else octets_of(small).hex()
                if told not in printed:
                    printed.add(told)
                    print(f"{told}\n{text}", flush=True)
    finally:
        compared.lane.close()
        if recorded:
            with given.record.open("a", encoding="utf-8") as lines:
                lines.write("\n".join(recorded) + "\n")
    counts = ", ".join(f"{number} {what}" for what, number in sorted(compared.counts.items()))
    print(f"{profile.name}, to {given.to}: {number + 1} messages, {different} differ ({counts})")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
