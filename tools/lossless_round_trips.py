"""Send random messages through a RabbitMQ in the profile lossless: what comes back, what it kills.

    python tools/lossless_round_trips.py --broker 127.0.0.1:5672 --examples 2000 --seed 1
    python tools/lossless_round_trips.py --from basic --queue stream --way requeued

Messages of 1.0 go to 0-9-1, through a queue of a broker, and back; those of 0-9-1 the other way.
Another queue gets the same messages for a consumer of the message's own protocol, which a message
must not kill: RabbitMQ accepts some that end the connections of their consumers, one after the
other, while they stay in the queue.

Of each message one of these is true:

- it comes back byte for byte;
- it differs, and the losses of the two translations name each difference (but that RabbitMQ 4.0 and
  4.1 make durable what does not say whether it is, of which no message of 1.0 can know);
- the broker changed it between two connections of 1.0: 3.10 writes body sections again, in reverse
  order, and says nothing of the time to live that it takes from dead letters;
- it differs in silence: a fault;
- the broker refuses it for what it says, such as a user-id that is not the connection's;
- it is poison: it ends the connection of its publisher or of a consumer: a fault.

The exit status is 1 where there is a fault; some of them are printed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from broker_clients import Basic, Broker, Ended, Outcome, Peer, offset_of, profile_of, queue
from message_differences import changed_parts
from odd_messages import basic_message, sections, written

from amqp10msg import AmqpError, DecodeError, Message
from amqp10msg.basic import BasicMessage, encode_properties
from amqp10msg.translate import Loss, TranslationError, as_published, to_amqp10, to_basic
from amqp10msg.translate.residual import RESIDUAL_NAME
from amqp10msg.translate.table import ENCODED_SECTIONS_TYPE_PROPERTY

#: How a message leaves the queue: at first delivery, when it was given back, or as a dead letter.
#: A stream keeps what is given back, so it is read again; its dead letters are of a classic queue.
WAYS = ("first", "requeued", "dead")
_LEAST_TTL = 600_000  # ms: what expires sooner may be gone


@attrs.define
class Ends:
    """A queue, with a publisher and a consumer; both made anew where the broker ends one of them.

    Attributes:
        broker: the broker.
        kind: of the queue.
        publishes: whether the publisher speaks 0-9-1.
        consumes: whether the consumer does.
        way: one of `WAYS`.
    """

    broker: Broker
    kind: str
    publishes: bool
    consumes: bool
    way: str = "first"
    _open: ExitStack | None = None
    _publish: Any = None
    _receive: Any = None

    def through(self, given: Any, wait: float) -> Any:
        """Send a message through the queue; return it as it was delivered.

        Raises:
            Ended: the broker refused it, or died on it.
        """
        if self._open is None:
            self._start()
        try:
            self._publish(given)
            return self._receive(wait)
        except Ended:
            self.close()
            raise

    def _start(self) -> None:
        self._open = stack = ExitStack()
        is_stream = self.kind == "stream"
        into = "classic" if self.dead and not is_stream else self.kind
        target = name = stack.enter_context(queue(self.broker, into))
        if self.dead:
            route = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
            dies_in = "classic" if is_stream else self.kind
            name = stack.enter_context(queue(self.broker, dies_in, route))
        peers = Basic, Peer
        sending: Any = stack.enter_context(peers[not self.publishes](self.broker))
        taking: Any = stack.enter_context(peers[not self.consumes](self.broker))
        address = self.broker.address
        if self.publishes:
            self._publish = partial(sending.publish, name)
        else:
            self._publish = partial(sending.send, sending.sender(address(name)))
        take = _taken_basic if self.consumes else _taken
        way = "again" if is_stream and self.way == "requeued" else self.way
        self._receive = take(taking, address, name, target, way)

    @property
    def dead(self) -> bool:
        """Whether what comes are dead letters."""
        return self.way == "dead"

    def close(self) -> None:
        """Delete the queue, and hang up."""
        if self._open is not None:
            self._open.close()
            self._open = None


def _taken_basic(
    taking: Basic, _: Any, name: str, target: str, way: str
) -> Callable[[float], BasicMessage]:
    taking.consume(name)
    if target != name:
        taking.consume(target)

    def receive(wait: float) -> BasicMessage:
        made, tag = taking.receive(wait)
        if way != "first":
            taking.channel.basic_nack(tag, requeue=way != "dead")
            again = taking.consume(name, offset_in_stream(made)) if way == "again" else None
            made, tag = taking.receive(wait)
            if again is not None:
                taking.channel.basic_cancel(again)
        taking.channel.basic_ack(tag)
        return made

    return receive


def _taken(
    taking: Peer, address: Callable[[str], str], name: str, target: str, way: str
) -> Callable[[float], bytes]:
    link = taking.receiver(address(name))
    letters = taking.receiver(address(target)) if target != name else link

    def receive(wait: float) -> bytes:
        octets, delivery = taking.receive(link, wait)
        if way == "first":
            taking.settle(link, delivery)
            return octets
        taking.settle(link, delivery, Outcome.REJECTED if way == "dead" else Outcome.RELEASED)
        if way == "again":
            again = taking.receiver(address(name), 1, offset_in_stream(octets))
            octets, delivery = taking.receive(again, wait)
            taking.settle(again, delivery, credit=0)
            taking.detach(again)
            return octets
        octets, delivery = taking.receive(letters, wait)
        taking.settle(letters, delivery)
        return octets

    return receive


def offset_in_stream(came: Any) -> int:
    """Return the offset that a message of a stream states.

    Raises:
        Ended: it states none.
    """
    offset = offset_of(came)
    if offset is None:
        raise Ended("a message of a stream states no offset")
    return offset


@attrs.define
class Found:
    """What became of the messages of a lane.

    Attributes:
        counts: of messages, by what became of them.
        named: differences that losses name, by their path.
        faults: those that no loss names, and poison: what, and the message.
        came: messages, and what was delivered for them.
    """

    counts: Counter[str] = attrs.Factory(Counter)
    named: Counter[str] = attrs.Factory(Counter)
    faults: list[tuple[str, Any]] = attrs.Factory(list)
    came: list[tuple[Any, Any]] = attrs.field(factory=list, repr=False)


@attrs.define
class Lane:
    """Messages of one protocol through one kind of queue of a broker, and back.

    Attributes:
        broker: the broker.
        kind: of the queue.
        basic: whether the messages are of 0-9-1.
        way: one of `WAYS`.
        wait: seconds until a message is missing.
    """

    broker: Broker
    kind: str
    basic: bool
    way: str = "first"
    wait: float = 5
    _there: Any = None
    _other: Any = None

    @property
    def name(self) -> str:
        """What it is called."""
        ways = "0-9-1 -> 1.0" if self.basic else "1.0 -> 0-9-1"
        return f"{ways} -> {self.broker.version} {self.kind} ({self.way}) -> back"

    def run(self, given: Iterator[Any]) -> Found:
        """Send messages, and say what became of them."""
        found = Found()
        ends = partial(Ends, self.broker, self.kind, not self.basic)
        self._there, self._other = ends(not self.basic, self.way), ends(self.basic)
        try:
            for one in given:
                found.counts[self._fate(one, found)] += 1
        finally:
            self._there.close()
            self._other.close()
        return found

    def _fate(self, one: Any, found: Found) -> str:
        made = (to_amqp10 if self.basic else to_basic)(one)
        sent: Any = made.message
        if self.basic:
            sent = sent.encode()
        try:
            came = self._there.through(sent, self.wait)
        except Ended as error:
            if why := self._refusal(made.message, str(error)):
                return why
            found.faults.append((f"poison: {error}", one))
            return "poison"
        found.came.append((one, came))
        if self._is_read_elsewhere:
            try:
                self._other.through(sent, self.wait)
            except Ended as error:
                found.faults.append((f"poison to the others: {error}", one))
                return "poison"
        differing, losses = self._compared(one, came)
        if self._is_made_durable and one.properties.delivery_mode != 2:
            differing = [path for path in differing if path != "properties.delivery-mode"]
        if self.basic:
            differing, changed = self._changed(one, came, differing)
            if changed and not differing:
                return f"changed by the broker: {changed}"
        silent = [path for path in differing if not is_named(path, (*made.losses, *losses))]
        if silent:
            found.faults.append((f"silent: {', '.join(silent)}", one))
            return "silent"
        found.named.update(differing)
        return "named" if differing else "identical"

    def _refusal(self, message: Any, said: str) -> str:
        """Say why a broker refuses a message, nothing where that is not known."""
        if why := refusal(said):
            return why
        if isinstance(message, Message) and self.broker.version.startswith("3."):
            try:
                to_basic(message, profile_of(self.broker, self.kind))
            except TranslationError as error:
                return f"refused: {str(error)[:70]}"
        return ""

    def _changed(self, one: Any, came: bytes, differing: list[str]) -> tuple[list[str], str]:
        """Take out of what differs what the broker changed between two connections of 1.0."""
        changed = []
        if (
            "body" in differing
            and one.properties.type == ENCODED_SECTIONS_TYPE_PROPERTY
            and one.body not in came
        ):
            changed.append("body")
        if self.dead_in_3:
            changed.append("properties.expiration")
        found = [path for path in differing if path in changed]
        return [path for path in differing if path not in changed], ", ".join(found)

    @property
    def is_unknown(self) -> bool:
        """Whether there is no such way: streams of 3.10 take nothing back, and no dead letters."""
        is_old = self.broker.version.startswith("3.")
        return is_old and self.kind == "stream" and self.way != "first"

    @property
    def dead_in_3(self) -> bool:
        """Whether they are dead letters of 3.10, which says nothing of their deaths over 1.0."""
        return self.way == "dead" and self.broker.version.startswith("3.")

    @property
    def _is_made_durable(self) -> bool:
        """Whether the broker makes a message of 1.0 durable that does not say whether it is."""
        return self.basic and self.broker.version.startswith(("4.0.", "4.1."))

    @property
    def _is_read_elsewhere(self) -> bool:
        """Whether consumers of the message's own protocol read it, too: 3.10 gives no streams."""
        return not (self.broker.version.startswith("3.") and self.kind == "stream")

    def _compared(self, one: Any, came: Any) -> tuple[list[str], tuple[Loss, ...]]:
        """Name what differs between a message and what came back, and the losses of that way."""
        if self.basic:
            made = to_basic(decoded(came))
            back = as_published(made.message)
            return changed_parts(one, back), made.losses
        dead = self.way == "dead"
        plain = as_published(came, stream=self.kind == "stream", dead_letter=dead)
        again = to_amqp10(plain)
        return changed_parts(one, again.message), again.losses


def decoded(octets: bytes) -> Message:
    """Read a message; annotations of a stream of 3.10 have names that are no symbols."""
    try:
        return Message.decode(octets)
    except DecodeError:
        return Message.decode(octets, strict=False)


def is_named(path: str, losses: tuple[Loss, ...]) -> bool:
    """Whether a loss names a part that differs, or what it is a part of."""
    if path == f"headers['{RESIDUAL_NAME}']":  # there because of what it carries
        return any(loss.action == "carried" for loss in losses)
    if path == "properties.expiration" and any(loss.path == "header.ttl" for loss in losses):
        return True
    return any(
        path == loss.path or not loss.path or path.startswith((loss.path + ".", loss.path + "["))
        for loss in losses
    )


def refusal(said: str) -> str:
    """Say why a broker refuses a message for what it says, nothing where that is no reason."""
    if "user_id" in said or "user-id" in said:
        return "refused: user-id"
    if "reply" in said:
        return "refused: reply-to"
    return ""


def basics(seed: int, count: int) -> Iterator[BasicMessage]:
    """Draw messages of 0-9-1 that do not expire meanwhile."""
    drawn = random.Random(seed)
    while count:
        message = basic_message(drawn)
        try:
            ttl = int(message.properties.expiration or _LEAST_TTL)
        except ValueError:
            ttl = _LEAST_TTL
        if ttl % 2**32 >= _LEAST_TTL:
            count -= 1
            yield message


def messages(seed: int, count: int) -> Iterator[Message]:
    """Draw messages of 1.0 that can be read, and do not expire meanwhile."""
    drawn = random.Random(seed)
    while count:
        if drawn.random() < 0.2:
            message = to_amqp10(basic_message(drawn)).message
            # With a residual it becomes that message again, whatever a broker thinks of it.
            if RESIDUAL_NAME in (message.message_annotations or {}):
                continue
        else:
            try:
                message = Message.decode(b"".join(map(written, sections(drawn))), strict=False)
            except AmqpError:
                continue
        ttl = getattr(message.header, "ttl", None)
        if not isinstance(ttl, int) or ttl >= _LEAST_TTL:
            count -= 1
            yield message


def recorded(lane: Lane, found: Found) -> Iterator[str]:
    """Yield a line of JSON for each message of 1.0 that came back, as tests read it."""
    suffix = "" if lane.kind == "classic" else f"-{lane.kind}"
    for message, came in found.came:
        given = [encode_properties(came.properties).hex(), came.body.hex(), came.routing_key]
        entry = {
            "broker": f"rabbitmq-{lane.broker.version}{suffix}",
            "way": lane.way,
            "message": message.encode().hex(),
            "delivered": [*given, came.redelivered],
        }
        yield json.dumps(entry, separators=(",", ":")) + "\n"


def shown(message: Any) -> str:
    """Return a message for people to read, and to try again."""
    if isinstance(message, Message):
        return message.encode().hex()
    return f"{encode_properties(message.properties).hex()} {message.body.hex()}"


def main() -> int:
    """Run the lanes, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", action="append", required=True, help="HOST:PORT; knows guest")
    parser.add_argument("--from", dest="only", choices=["amqp10", "basic"], default="amqp10")
    parser.add_argument("--queue", action="append", choices=["classic", "quorum", "stream"])
    parser.add_argument("--way", choices=WAYS, default="first")
    parser.add_argument("--examples", type=int, default=2_000, help="messages for each lane")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=10, help="faults to print for each lane")
    parser.add_argument("--wait", type=float, default=5, help="seconds until a message is missing")
    parser.add_argument("--record", type=Path, help="append what came of 1.0 to this .jsonl.gz")
    given = parser.parse_args()
    draw: Callable[[int, int], Iterator[Any]] = basics if given.only == "basic" else messages
    faults = 0
    for broker in map(Broker.at, given.broker):
        for kind in given.queue or ("classic", "quorum", "stream"):
            lane = Lane(broker, kind, given.only == "basic", given.way, given.wait)
            if lane.is_unknown:
                print(
                    f"{lane.name}: left out, its streams take nothing back and get no dead letters"
                )
                continue
            started = time.monotonic()
            found = lane.run(draw(given.seed, given.examples))
            if given.record and not lane.basic:
                with gzip.open(given.record, "at", encoding="utf-8") as lines:
                    lines.writelines(recorded(lane, found))
            counts = ", ".join(f"{number} {what}" for what, number in sorted(found.counts.items()))
            print(f"{lane.name}: {counts}, {time.monotonic() - started:.0f} s", flush=True)
            named = [f"{number} {path}" for path, number in found.named.most_common(12)]
            if named:
                print(f"    named: {', '.join(named)}")
            for why, message in sorted(found.faults, key=lambda fault: len(shown(fault[1])))[
                : given.most
            ]:
                print(f"    {why[:160]}\n        {shown(message)}", flush=True)
            faults += len(found.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
