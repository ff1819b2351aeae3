"""Record what a RabbitMQ makes of redelivered messages and of dead letters between the protocols.

    python tools/take_circumstances.py 127.0.0.1:5672 circumstances.jsonl
    python tools/take_circumstances.py 127.0.0.1:5672 circumstances.jsonl annotated

Appends to the file, in the form that ``tests/vectors/README.md`` describes: what a queue delivers
for the first time, after each way to give a message back, once and twice, and after two different
ones; dead letters for each reason and after each way to give a message up, from classic and quorum
queues into classic and quorum queues and streams, and those given back there. With ``annotated``,
what becomes of the annotations of the outcome modified.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

import attrs
import proton
from broker_clients import Basic, Broker, Ended, Outcome, Peer, queue
from pika.exceptions import AMQPError

from amqp10msg import Header, Message, Properties, Symbol, UInt
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    encode_properties,
)
from amqp10msg.translate.circumstances import GivenBack

BASIC = BasicMessage(
    BasicProperties(
        headers=FieldTable.of([("z", "S", "v"), ("x-a", "I", 5), ("a", "t", True)]),
        delivery_mode=2,
        message_id="m",
    ),
    b"hello",
)
ROUTED = FieldTable.of([("CC", "A", FieldArray.of([("S", "nowhere")])), ("x-death", "S", "v")])
MESSAGE = Message(
    b"hello",
    header=Header(durable=True),
    message_annotations={Symbol("x-b"): "w"},
    properties=Properties(message_id="m"),
    application_properties={"z": "v", "a": UInt(5)},
)
#: Messages of each protocol, the second one with a time to live of 200 ms.
SENT: dict[str, list[Any]] = {
    "basic": [BASIC, BasicMessage(BasicProperties(headers=ROUTED, expiration="200"), b"hello")],
    "amqp10": [MESSAGE, MESSAGE.evolve(header=Header(ttl=UInt(200), priority=7))],
}
REASONS: dict[str, dict[str, Any]] = {
    "expired": {"x-message-ttl": 200},
    "rejected": {},
    "maxlen": {"x-max-length": 1},
    "delivery_limit": {"x-delivery-limit": 1},
}
#: All ways to give a message back; rejected gives it up.
WAYS = [way for way in get_args(GivenBack) if way != "rejected"]
#: Ways to give it up.
DISCARDS = ("rejected", "nack", "reject", "modified", "modified-failed")
#: How often a message was given back, and how.
GIVEN_BACK: list[tuple[Any, ...]] = [
    (),
    *((way,) * times for way in WAYS for times in (1, 2)),
    ("released", "modified-failed"),
    ("modified-failed", "nack"),
    ("reject", "detached", "closed"),
]
_UNDESCRIBED: Any = proton.UNDESCRIBED
#: Message-annotations of the outcome modified, each map for a message of its own.
ANNOTATIONS: list[dict[Any, Any]] = [
    {proton.symbol(name): value for name, value in one.items()}
    for one in (
        {"x-opt-why": "late", "x-b": "again", "x-a": True, "x-z": False},
        {
            "x-uint": proton.uint(5),
            "x-ulong": proton.ulong(2**64 - 1),
            "x-neg": proton.byte(-1),
            "x-char": proton.char("a"),
            "x-time": proton.timestamp(1_234_567),
        },
        {"x-symbol": proton.symbol("s"), "x-binary": b"b", "x-uuid": uuid.UUID(int=1)},
        {"x-list": [1, "a", None], "x-map": {"k": "v"}},
        {"x-array": proton.Array(_UNDESCRIBED, proton.Data.INT, 1, 2)},
        {"x-described": proton.Described(proton.symbol("d"), "v")},
        {"x-null": None},
        {"x-double": 1.5},
        {"x-float": proton.float32(1.5)},
        {"x-decimal": proton.decimal64(5)},
        {"x-delivery-count": 7, "x-acquired-count": "n"},
        {"x-exchange": "e", "x-routing-key": "k", "x-first-death-queue": "q"},
        {"x-cc": ["a"], "x-basic-type": "t", "x-stream-offset": 3},
    )
]


def publish(broker: Broker, name: str, sent: Any) -> None:
    """Send a message to a queue."""
    if isinstance(sent, BasicMessage):
        with Basic(broker) as basic:
            basic.publish(name, sent)
    else:
        with Peer(broker) as peer:
            peer.send(peer.sender(broker.address(name)), sent.encode())


def take(broker: Broker, name: str, to: str, offset: str = "next") -> Any:
    """Receive a message over a protocol, and accept it."""
    if to == "basic":
        with Basic(broker) as basic:
            basic.consume(name, offset)
            made, tag = basic.receive(5)
            basic.channel.basic_ack(tag)
        return made
    with Peer(broker) as peer:
        link = peer.receiver(broker.address(name), 1, offset)
        octets, delivery = peer.receive(link, 5)
        # Or a broker that has not seen yet that this link ends sends it the next message, too.
        peer.settle(link, delivery, credit=0)
    return octets


def give_back(
    broker: Broker,
    name: str,
    way: str,
    *,
    up: bool = False,
    offset: str = "next",
    over: str = "amqp10",
    annotations: Any = None,
) -> None:
    """Receive a message, and give it back in a way, or up; closed ends a connection `over`."""
    if way in ("nack", "reject") or (way == "closed" and over == "basic"):
        with Basic(broker) as basic:
            basic.consume(name, offset)
            _, tag = basic.receive(5)
            if way == "closed":
                return
            # Or it comes back to this consumer, which then ends.
            basic.channel.basic_cancel(basic.channel.consumer_tags[0])
            getattr(basic.channel, f"basic_{way}")(tag, requeue=not up)
        return
    with Peer(broker) as peer:
        link = peer.receiver(broker.address(name), 1, offset)
        _, delivery = peer.receive(link, 5)
        if way == "detached":
            peer.detach(link)
            time.sleep(0.2)  # until the queue has it back
        elif way != "closed":
            kind = "MODIFIED" if way.startswith("modified") else way.upper()
            failed = way == "modified-failed"
            said = annotations if kind == "MODIFIED" else None
            peer.give_back(delivery, getattr(Outcome, kind), failed=failed, up=up, annotations=said)


@attrs.frozen
class Case:
    """What happens to a message.

    Attributes:
        way: of `SENT`; the message is taken over the other protocol.
        number: of the message there.
        kind: of the queue it is sent to.
        before: how it is given back to it.
        reason: why it leaves it for the queue of dead letters; None: it does not.
        into: the kind of that queue.
        after: how it is given back to that one.
        annotations: the place in `ANNOTATIONS` of those of each outcome modified before; None:
            without any.
    """

    way: str
    number: int
    kind: str
    before: Sequence[Any] = ()
    reason: str | None = None
    into: str = "classic"
    after: Sequence[Any] = ()
    annotations: int | None = None

    @property
    def name(self) -> str:
        """Its id."""
        parts = [self.kind, self.way, str(self.number), *self.before]
        if self.reason is not None:
            parts += [self.reason, "into", self.into, *self.after]
        if self.annotations is not None:
            parts += ["annotations", str(self.annotations)]
        return "-".join(parts)

    @property
    def _said(self) -> Any:
        return None if self.annotations is None else ANNOTATIONS[self.annotations]

    @property
    def _told(self) -> dict[str, Any]:
        if self._said is None:
            return {}
        data = proton.Data()
        data.put_object(self._said)
        return {"annotations": data.encode().hex()}

    def record(self, broker: Broker) -> dict[str, Any]:
        """Record it.

        Raises:
            Ended: the message did not come.
        """
        sent = SENT[self.way][self.number]
        to = "amqp10" if self.way == "basic" else "basic"
        if self.reason is None:
            with queue(broker, self.kind) as name:
                publish(broker, name, sent)
                offset = "first" if self.kind == "stream" else "next"
                for way in self.before:
                    give_back(broker, name, way, offset=offset, annotations=self._said)
                came = take(broker, name, to, offset)
            given = self._queue(self.kind, self.before) | self._told
            return self._entry(broker, self.kind, sent, name, given, came)
        with queue(broker, self.into) as letters:
            came, name = self._letter(broker, letters, sent, to)
        is_routed = sent is SENT["basic"][1]
        death: dict[str, Any] = {"queue": name, "reason": self.reason, "time": time_of(came)}
        death["routing_keys"] = [name, "nowhere"] if is_routed else [name]
        death |= self._queue(self.kind, self.before) | self._told
        if self.number == 1:
            death["ttl"] = 200
        given = self._queue(self.into, self.after) | {"deaths": [death]}
        return self._entry(broker, self.into, sent, letters, given, came)

    def _letter(self, broker: Broker, letters: str, sent: Any, to: str) -> tuple[Any, str]:
        """Have the message die; return it as it comes, and the name of the queue that it left."""
        given = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
        with queue(broker, self.kind, given | REASONS[self.reason or ""]) as name:
            publish(broker, name, sent)
            if self.reason == "maxlen":
                publish(broker, name, sent)
            for place, way in enumerate(self.before):
                up = self.reason == "rejected" and place == len(self.before) - 1
                give_back(broker, name, way, up=up, annotations=self._said)
            for way in self.after:
                give_back(broker, letters, way)
            came = take(broker, letters, to, "first" if self.into == "stream" else "next")
        return came, name

    def killed(self, broker: Broker) -> dict[str, Any]:
        """Record that its consumer dies; what would say more of it is not known."""
        given = self._queue(self.kind, self.before) | self._told
        if self.reason is not None:
            death = {"queue": "", "reason": self.reason, "time": 0}
            given = self._queue(self.into, self.after) | {"deaths": [death | given]}
        kind = self.kind if self.reason is None else self.into
        sent = SENT[self.way][self.number]
        return self._entry(broker, kind, sent, "", given, None)

    @staticmethod
    def _queue(kind: str, given_back: Sequence[Any]) -> dict[str, Any]:
        return ({} if kind == "stream" else {"queue_type": kind}) | {"given_back": list(given_back)}

    def _entry(
        self, broker: Broker, kind: str, sent: Any, key: str, given: dict[str, Any], came: Any
    ) -> dict[str, Any]:
        """Return an entry in the form of translations.jsonl.gz, with the circumstances."""
        suffix = "" if kind == "classic" else f"-{kind}"
        made: dict[str, Any] = {"broker": f"rabbitmq-{broker.version}{suffix}"}
        made |= {"id": f"circumstances-{self.name}", "key": key, "circumstances": given}
        if isinstance(sent, BasicMessage):
            made |= {"exchange": "", "gives": came and came.hex()}
            made["basic"] = [encode_properties(sent.properties).hex(), sent.body.hex()]
        else:
            made["message"] = sent.encode().hex()
            made["gives"] = came and [encode_properties(came.properties).hex(), came.body.hex()]
            if came:
                made["redelivered"] = came.redelivered
        return made | {"offset": 0 if kind == "stream" else None}


def time_of(came: Any) -> int:
    """Return the time of death that a dead letter states, in ms."""
    if isinstance(came, BasicMessage):
        headers: Any = came.properties.headers
        return int(headers["x-death"][0]["time"]) * 1000
    annotations: Any = Message.decode(came, strict=False).message_annotations or {}
    deaths = annotations.get(Symbol("x-opt-deaths"))
    return int(deaths.values[0][Symbol("first-time")]) if deaths else 0


def cases(broker: Broker) -> Iterator[Case]:
    """Yield what is recorded of a broker."""
    is_old = broker.version.startswith("3.")
    yield from old_streams() if is_old else ()
    for way in SENT:
        # The plugin of 3.10 cannot read a stream from its beginning.
        for kind in ("classic", "quorum") if is_old else ("classic", "quorum", "stream"):
            yield from (Case(way, 0, kind, before) for before in GIVEN_BACK)
        for kind in ("classic", "quorum"):
            # The plugin of 3.10 takes undeliverable-here for a release.
            discards = [one for one in DISCARDS if not (is_old and one.startswith("modified"))]
            deaths = [
                *(Case(way, number, kind, (), "expired") for number in (0, 1)),
                *(Case(way, 0, kind, (one,), "rejected") for one in discards),
                Case(way, 1, kind, ("rejected",), "rejected"),
                *(Case(way, 0, kind, (one, "rejected"), "rejected") for one in WAYS),
                Case(way, 0, kind, (), "maxlen"),
            ]
            if kind == "quorum":
                deaths.append(Case(way, 0, kind, ("closed",) * 2, "delivery_limit"))
            for death in deaths:
                for into in ("classic", "quorum") if is_old else ("classic", "quorum", "stream"):
                    yield attrs.evolve(death, into=into)
                if death.number == 0 and len(death.before) < 2:
                    for into in ("classic", "quorum"):
                        for after in ("released", "modified-failed"):
                            yield attrs.evolve(death, into=into, after=(after,))


def old_streams() -> Iterator[Case]:
    """Yield what is recorded of streams of 3.10, which consumers of 0-9-1 read again."""
    for before in ((), *((way,) * times for way in ("nack", "reject") for times in (1, 2))):
        yield Case("amqp10", 0, "stream", before)


def annotated(broker: Broker) -> Iterator[Case]:
    """Yield what is recorded of the annotations of modified, which 3.10 does not take."""
    if broker.version.startswith("3."):
        return
    for way, number in product(SENT, range(len(ANNOTATIONS))):
        yield Case(way, 0, "quorum", ("modified",), annotations=number)
        # Of values without a type the consumer dies that would release it.
        if not {"x-null", "x-double", "x-float", "x-decimal"} & {*ANNOTATIONS[number]}:
            before = ("modified-failed", "released")
            yield Case(way, 0, "quorum", before, annotations=number)
        for into in ("classic", "quorum", "stream"):
            yield Case(way, 0, "quorum", ("modified",), "rejected", into, annotations=number)
    for way in SENT:
        yield Case(way, 0, "classic", ("modified",), annotations=0)
        yield Case(way, 0, "classic", ("modified",), "rejected", annotations=0)


def main() -> None:
    """Record all, and append it to the file."""
    broker = Broker.at(sys.argv[1])
    what = annotated(broker) if sys.argv[3:] == ["annotated"] else cases(broker)
    with Path(sys.argv[2]).open("a", encoding="utf-8") as lines:
        for case in what:
            try:
                made = case.record(broker)
            except (Ended, AMQPError) as error:
                if case.annotations is None:
                    print(f"{case.name}: {error}")
                    continue
                made = case.killed(broker)
            lines.write(json.dumps(made, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
