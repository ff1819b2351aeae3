"""Record what a RabbitMQ makes of redelivered messages and of dead letters between the protocols.

    python tools/take_circumstances.py 127.0.0.1:5672 circumstances.jsonl

Appends to the file, in the form that ``tests/vectors/README.md`` describes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from broker_clients import Basic, Broker, Ended, Outcome, Peer, queue

from amqp10msg import Header, Message, Properties, Symbol, UInt
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    encode_properties,
)

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
REASONS = {
    "expired": {"x-message-ttl": 200},
    "rejected": {},
    "maxlen": {"x-max-length": 1},
    "delivery_limit": {"x-delivery-limit": 1},
}


def publish(broker: Broker, name: str, sent: Any) -> None:
    """Send a message to a queue."""
    if isinstance(sent, BasicMessage):
        with Basic(broker) as basic:
            basic.publish(name, sent)
    else:
        with Peer(broker) as peer:
            peer.send(peer.sender(broker.address(name)), sent.encode())


def take(
    broker: Broker, name: str, to: str, outcome: Any = Outcome.ACCEPTED, offset: str = "next"
) -> Any:
    """Receive a message over a protocol, and settle it; None leaves it unsettled."""
    if to == "basic":
        with Basic(broker) as basic:
            basic.consume(name, offset)
            made, tag = basic.receive(5)
            if outcome == Outcome.ACCEPTED:
                basic.channel.basic_ack(tag)
            elif outcome is not None:
                basic.channel.basic_nack(tag, requeue=False)
        return made
    with Peer(broker) as peer:
        link = peer.receiver(broker.address(name), 1, offset)
        octets, delivery = peer.receive(link, 5)
        if outcome is not None:
            peer.settle(link, delivery, outcome)
    return octets


def redelivered(broker: Broker, kind: str, sent: Any, to: str, times: int) -> dict[str, Any]:
    """Record a message that was delivered so many times before."""
    with queue(broker, kind) as name:
        publish(broker, name, sent)
        for _ in range(times):
            take(broker, name, to, None)
        came = take(broker, name, to)
    return {"key": name, "circumstances": {"delivery_count": times}, "came": came}


def dead(
    broker: Broker, kind: str, sent: Any, to: str, reason: str, into: str = "classic"
) -> dict[str, Any]:
    """Record a message that left a queue for a reason, into a queue of some kind."""
    with queue(broker, into) as letters:
        given = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
        with queue(broker, kind, given | REASONS[reason]) as name:
            publish(broker, name, sent)
            if reason == "maxlen":
                publish(broker, name, sent)
            elif reason == "rejected":
                take(broker, name, to, Outcome.REJECTED)
            elif reason == "delivery_limit":
                for _ in range(2):
                    take(broker, name, to, None)
            came = take(broker, letters, to, offset="first" if into == "stream" else "next")
    keys = [name, "nowhere"] if sent is SENT["basic"][1] else [name]
    death: dict[str, Any] = {"queue": name, "reason": reason, "routing_keys": keys}
    death["time"] = time_of(came)
    if sent is SENT["basic"][1] or sent is SENT["amqp10"][1]:
        death["ttl"] = 200
    circumstances: dict[str, Any] = {"deaths": [death]}
    if kind == "quorum" and reason in ("rejected", "delivery_limit"):
        circumstances["delivery_count"] = 1 if reason == "rejected" else 2
    return {"key": letters, "circumstances": circumstances, "came": came}


def time_of(came: Any) -> int:
    """Return the time of death that a dead letter states, in ms."""
    if isinstance(came, BasicMessage):
        headers: Any = came.properties.headers
        return int(headers["x-death"][0]["time"]) * 1000
    annotations: Any = Message.decode(came, strict=False).message_annotations or {}
    deaths = annotations.get(Symbol("x-opt-deaths"))
    return int(deaths.values[0][Symbol("first-time")]) if deaths else 0


def entries(broker: Broker) -> Iterator[dict[str, Any]]:
    """Yield one entry for each circumstance, of queues and of dead letters that go into streams."""
    for kind in ("classic", "quorum"):
        for way, to in (("basic", "amqp10"), ("amqp10", "basic")):
            for number, sent in enumerate(SENT[way]):
                ways = [(f"redelivered-{times}", redelivered, times) for times in (1, 2)]
                if kind == "classic":
                    ways = ways[:1]
                ways = ways if number == 0 else []
                cases: list[tuple[str, Any, Any]] = [
                    *ways,
                    *(
                        (reason, dead, reason)
                        for reason in REASONS
                        if (kind, reason) != ("classic", "delivery_limit")
                        and not (number and reason in ("maxlen", "delivery_limit"))
                    ),
                ]
                for case, record, what in cases:
                    for into in ("classic", "stream") if record is dead else ("classic",):
                        record_ = partial(record, into=into) if into == "stream" else record
                        name = f"{kind}-{way}-{number}-{case}"
                        name += "-into-stream" if into == "stream" else ""
                        try:
                            made = record_(broker, kind, sent, to, what)
                        except Ended as error:
                            print(f"{name}: {error}")
                            continue
                        yield entry(
                            broker, "stream" if into == "stream" else kind, name, sent, made
                        )


def entry(broker: Broker, kind: str, case: str, sent: Any, made: dict[str, Any]) -> dict[str, Any]:
    """Return an entry in the form of translations.jsonl.gz, with the circumstances."""
    suffix = "" if kind == "classic" else f"-{kind}"
    head = {"broker": f"rabbitmq-{broker.version}{suffix}", "id": f"circumstances-{case}"}
    came = made.pop("came")
    if kind == "classic":
        made["circumstances"].pop("delivery_count", None)
    if isinstance(sent, BasicMessage):
        made |= {"exchange": "", "gives": came.hex(), "again": "redelivered" in case}
        made["basic"] = [encode_properties(sent.properties).hex(), sent.body.hex()]
    else:
        made["gives"] = [encode_properties(came.properties).hex(), came.body.hex()]
        made["message"] = sent.encode().hex()
    return head | made | {"offset": 0 if kind == "stream" else None}


def main() -> None:
    """Record all, and append it to the file."""
    broker = Broker.at(sys.argv[1])
    with Path(sys.argv[2]).open("a", encoding="utf-8") as lines:
        lines.writelines(json.dumps(made, separators=(",", ":")) + "\n" for made in entries(broker))


if __name__ == "__main__":
    main()
