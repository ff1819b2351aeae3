"""Compare the translator's profile of a RabbitMQ with that RabbitMQ, by random generation.

    python tools/compare_broker.py --to amqp10 --examples 3000
    python tools/compare_broker.py --to basic --queue stream --broker localhost:5672
    python tools/compare_broker.py --queue quorum --given-back released --given-back closed
    python tools/compare_broker.py --queue stream --dead-lettered
    python tools/compare_broker.py --examples 200 --record odd.jsonl

Messages are published over one protocol and consumed over the other, one at a time in each of
several queues that are deleted at the end. A message agrees if the profile gives the bytes that the
consumer receives, or refuses it where the broker does, or where the consumer's connection dies. The
profile is that of the broker's version and the queue.

Known odd messages are tried first. With ``--record``, the broker's translation of each message is
appended to a file in the format of tests/vectors/translations.jsonl.gz. With ``--given-back``, each
message is returned to its queue before. With ``--dead-lettered``, each message expires in another
queue, a classic one for streams, and is dead-lettered from there.

RabbitMQ 3.10 closes a 1.0 connection with an unreadable message only after 3 s (its reader's
``SILENT_CLOSE_DELAY``), so several messages are processed concurrently.

A message with a difference is reduced to the smallest one that still differs, and printed; the exit
status is 1. Messages that the library cannot read are counted, but not compared.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import attrs
from broker_clients import Basic, Broker, Ended, Peer, offset_of, profile_of, queue
from known_messages import KNOWN_BASICS, KNOWN_SECTIONS
from odd_messages import Sections, basic_message, sections, written
from pika.exceptions import AMQPError
from smaller_messages import least
from take_circumstances import WAYS, give_back, take

from amqp10msg import DecodeError, Message, decode_value
from amqp10msg.basic import BasicMessage, decode_properties, encode_properties
from amqp10msg.translate import (
    Circumstances,
    Death,
    TranslationError,
    TranslationProfile,
    to_amqp10,
    to_basic,
)
from amqp10msg.wire.kernel import skip_value

#: The bytes of a 1.0 message, or of the properties and the body of a 0-9-1 message; or None.
Seen = bytes | tuple[bytes, bytes] | None


class NotGivenBackError(Exception):
    """The consumer that should return a message was disconnected, or the message expired."""


@attrs.define
class Lane:
    """A queue with a publisher and a consumer, which are reopened when the broker closes them."""

    broker: Broker
    kind: str
    to_amqp10: bool
    wait: float
    given_back: Sequence[Any] = ()
    dead_lettered: bool = False
    _open: ExitStack | None = None
    _names: tuple[str, str] = ("", "")
    _publish: Any = None
    _receive: Any = None

    def observe(self, given: Any) -> tuple[tuple[str, str], Any, str]:
        """Send a message through the queue.

        Returns:
            The names of the queues it is sent to and comes from, and the delivered message, or None
            and the reason.
        """
        if self._open is None:
            self._start()
        names = self._names
        doing = "refused"
        try:
            self._publish(given)
            doing = "not delivered"
            return names, self._receive(), ""
        except Ended as error:
            self.close()
            return names, None, f"{doing}: {error}".splitlines()[0]

    def _start(self) -> None:
        self._open = stack = ExitStack()
        name = letters = stack.enter_context(queue(self.broker, self.kind))
        if self.dead_lettered:
            route: dict[str, Any] = {
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": letters,
            }
            route["x-max-length"] = 0
            name = stack.enter_context(queue(self.broker, self.dies_in, route))
        self._names = name, letters
        basic = stack.enter_context(Basic(self.broker))
        peer = stack.enter_context(Peer(self.broker))
        address = self.broker.address(name)
        if self.given_back:
            # Without a waiting consumer, which would get the message before it is returned.
            to = "amqp10" if self.to_amqp10 else "basic"
            if self.to_amqp10:
                self._publish = partial(basic.publish, name)
            else:
                self._publish = partial(peer.send, peer.sender(address))

            def received() -> bytes | BasicMessage:
                try:
                    for way in self.given_back:
                        try:
                            give_back(self.broker, name, way, over=to)
                        except Ended as error:
                            raise NotGivenBackError(str(error)) from None
                    came: bytes | BasicMessage = take(self.broker, name, to)
                except AMQPError as error:
                    raise Ended(repr(error)) from None
                return came
        elif self.to_amqp10:
            link = peer.receiver(self.broker.address(letters))
            self._publish = partial(basic.publish, name)

            def received() -> bytes | BasicMessage:
                octets, delivery = peer.receive(link, self.wait)
                peer.settle(link, delivery)
                return octets
        else:
            basic.consume(letters)
            self._publish = partial(peer.send, peer.sender(address))

            def received() -> bytes | BasicMessage:
                made, tag = basic.receive(self.wait)
                basic.channel.basic_ack(tag)
                return made

        self._receive = received

    @property
    def dies_in(self) -> Any:
        """The kind of the queue in which messages become dead letters."""
        return "quorum" if self.kind == "quorum" else "classic"

    def circumstances(self, given: Any, name: str, delivered: Any) -> Circumstances:
        """Return the circumstances of a delivery from the queue with this name."""
        is_stream = self.kind == "stream"
        offset = offset_of(delivered) if delivered and is_stream else None
        deaths: Sequence[Death] = ()
        if self.dead_lettered:
            death = attrs.evolve(death_of(delivered, name), queue_type=self.dies_in)
            with suppress(AttributeError, TypeError, ValueError):
                # A value published over 0-9-1 may not fit into the type used for it over 1.0.
                death = attrs.evolve(death, ttl=int(given.properties.expiration))
            deaths = [death]
        return Circumstances(
            stream_offset=offset,
            queue_type=self.dies_in,
            given_back=self.given_back,
            deaths=deaths,
        )

    def close(self) -> None:
        """Delete the queue, and close the connections."""
        if self._open is not None:
            self._open.close()
            self._open = None


def death_of(seen: Any, name: str) -> Death:
    """Return the death of a dead letter, with the time, time to live and keys that it states."""
    death = Death(name, "maxlen", 0, "", [name])
    if isinstance(seen, BasicMessage):
        headers: Any = seen.properties.headers
        with suppress(KeyError, TypeError, IndexError, ValueError):
            said = headers["x-death"][0]
            ttl = said.get("original-expiration")
            death = attrs.evolve(
                death,
                time=int(said["time"]) * 1000,
                ttl=None if ttl is None else int(ttl),
                routing_keys=list(said["routing-keys"]),
            )
        return death
    # The message may be unreadable, and the sender's sections may contain the same name.
    octets, name_of = seen or b"", b"\xa3\x0cx-opt-deaths"
    end = octets.find(name_of)
    while end >= 0:
        rest = octets[end + len(name_of) :]
        with suppress(DecodeError, KeyError, TypeError, AttributeError, IndexError, ValueError):
            value = decode_value(rest[: skip_value(rest, 0)]).values[0]
            said = {str(key): item for key, item in value.items()}
            return attrs.evolve(
                death,
                time=int(said["first-time"]),
                ttl=said.get("ttl"),
                routing_keys=[str(key) for key in said["routing-keys"].values],
            )
        end = octets.find(name_of, end + 1)
    return death


def predicted(
    given: Any, profile: TranslationProfile, circumstances: Circumstances, name: str
) -> tuple[Seen, str]:
    """Return the profile's translation, or None and the reason."""
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
        profile: the profile that is compared with the broker.
        counts: numbers of messages by result.
        entry: the result of the last message, in the format of a recording.
    """

    lane: Lane
    profile: TranslationProfile
    counts: Counter[str] = attrs.Factory(Counter)
    entry: dict[str, Any] = attrs.Factory(dict)

    def difference(self, given: Any) -> str:
        """Return how profile and broker differ for a message, or an empty text."""
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
        try:
            (name, letters), delivered, why = self.lane.observe(sent)
        except NotGivenBackError:
            self.lane.close()
            self.counts["not given back"] += 1
            return ""
        seen = delivered
        gives: Any = delivered.hex() if isinstance(delivered, bytes) else None
        if isinstance(delivered, BasicMessage):
            seen = encode_properties(delivered.properties), delivered.body
            gives = [seen[0].hex(), seen[1].hex()]
        given_ = self.lane.circumstances(sent, name, delivered)
        offset = given_.stream_offset
        if isinstance(sent, bytes):
            self.entry |= {"message": sent.hex(), "gives": gives, "offset": offset}
        else:
            self.entry |= {"gives": gives, "exchange": "", "key": letters, "offset": offset}
        wanted, reason = predicted(sent, self.profile, given_, letters)
        if given_.given_back or given_.deaths:
            self.entry["circumstances"] = {"given_back": list(given_.given_back)}
            self.entry["circumstances"] |= {"queue_type": given_.queue_type}
            self.entry["circumstances"]["deaths"] = [
                attrs.asdict(one, filter=lambda field, _: field.name != "annotations")
                for one in given_.deaths
            ]
            if isinstance(delivered, BasicMessage):
                self.entry["redelivered"] = delivered.redelivered
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
    """Compare, and print the differences."""
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
    parser.add_argument("--dead-lettered", action="store_true", help="as dead letters")
    parser.add_argument("--lanes", type=int, default=8, help="messages under way at a time")
    given = parser.parse_args()
    if given.given_back and (given.queue == "stream" or given.dead_lettered):
        parser.error("nothing is given back to a stream, or before it dies")
    broker = Broker.at(given.broker)
    profile = profile_of(broker, given.queue)
    to_amqp10 = given.to == "amqp10"
    ends = broker, given.queue, to_amqp10, given.wait, given.given_back, given.dead_lettered
    lanes = [Comparison(Lane(*ends), profile) for _ in range(given.lanes)]
    free: SimpleQueue[Comparison] = SimpleQueue()
    for one in lanes:
        free.put(one)
    chosen = random.Random(given.seed)
    draw = basic_message if to_amqp10 else sections
    known: list[Any] = list(KNOWN_BASICS if to_amqp10 else KNOWN_SECTIONS)
    drawn = known + [draw(chosen) for _ in range(given.examples)]
    printed: set[str] = set()

    def compared(message: Any) -> tuple[bool, dict[str, Any]]:
        """Return whether profile and broker differ for a message, and the broker's result."""
        comparison = free.get()
        try:
            text, entry = comparison.difference(message), comparison.entry
            if text and len(printed) < given.most:
                small, text = least(message, comparison.difference, given.tries)
                told = repr(small) if to_amqp10 else octets_of(small).hex()
                if told not in printed:
                    printed.add(told)
                    print(f"{told}\n{text}", flush=True)
            return bool(text), entry
        finally:
            free.put(comparison)

    different = 0
    what = "dead" if given.dead_lettered else "odd"
    recorded = []
    try:
        with ThreadPoolExecutor(given.lanes) as pool:
            for number, (differs, entry) in enumerate(pool.map(compared, drawn)):
                different += differs
                if given.record and entry:
                    suffix = "" if given.queue == "classic" else f"-{given.queue}"
                    case = f"{what}-{given.to}-{given.seed}-{number}"
                    head = {"broker": f"rabbitmq-{broker.version}{suffix}", "id": case}
                    recorded.append(json.dumps(head | entry, separators=(",", ":")))
    finally:
        for comparison in lanes:
            comparison.lane.close()
        if recorded:
            with given.record.open("a", encoding="utf-8") as lines:
                lines.write("\n".join(recorded) + "\n")
    total = sum((one.counts for one in lanes), Counter[str]())
    counts = ", ".join(f"{number} {what}" for what, number in sorted(total.items()))
    print(f"{profile.name}, to {given.to}: {len(drawn)} messages, {different} differ ({counts})")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
