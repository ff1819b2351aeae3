"""Brokers that stand in for those which the examples of a page name, so that its commands run.

A page says ``old.example``; its commands get the address of the stand-in, and what they print says
``old.example`` again.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

__all__ = ["Peers", "peers_of"]


@attrs.frozen
class Peers:
    """What the examples of a page need.

    Attributes:
        hosts: addresses, by the names on the page.
        environment: variables for its commands.
    """

    hosts: dict[str, str] = attrs.Factory(dict)
    environment: dict[str, str] = attrs.Factory(dict)

    def given(self, text: str) -> str:
        """Return a command as it is run."""
        for name, place in self.hosts.items():
            text = text.replace(name, place)
        return text

    def shown(self, text: str) -> str:
        """Return an output as the page shows it."""
        for name, place in self.hosts.items():
            text = text.replace(place, name)
        return text


@contextlib.contextmanager
def _rabbitmq_3_to_4(_: Path) -> Iterator[Peers]:
    from tests.basic_broker import BasicBroker, running  # noqa: PLC0415  (needs pika)
    from tests.bridging import numbered  # noqa: PLC0415
    from tests.management_api import management  # noqa: PLC0415

    old, new = BasicBroker(*_MESSAGES, "shipments"), BasicBroker(*_MESSAGES, "shipments")
    old.credentials, new.credentials = "shop:old-password", "shop:new-password"
    _fill(old)
    old.queues["shipments"].extend(numbered(20))
    new.refuses = lambda stored: "close" if b"foreign" in stored.header else ""
    usual = {"type": "classic", "durable": True, "arguments": {}, "messages_unacknowledged": 0}
    policy = {"effective_policy_definition": {"ha-mode": "all"}}
    queues = [
        {"name": "bills", **usual, "messages": len(old.queues["bills"])},
        {"name": "orders", **usual, **policy, "messages": len(old.queues["orders"])},
        {"name": "shipments", **usual, "messages": len(old.queues["shipments"])},
    ]
    nothing: dict[str, Any] = {"exchanges": [], "bindings": [], "policies": []}
    others = {**nothing, "overview": {"rabbitmq_version": "4.0.5"}}
    there = [{"name": "others", **usual}]
    with (
        running(old),
        running(new),
        management(queues, old.credentials, others) as api,
        management(there, new.credentials, others) as new_api,
    ):
        places = {
            "http://old.example:15672": api,
            "http://new.example:15672": new_api,
            "old.example": f"127.0.0.1:{old.port}",
            "new.example": f"127.0.0.1:{new.port}",
        }
        yield Peers(places, {"OLD": "old-password", "NEW": "new-password"})


@contextlib.contextmanager
def _rabbitmq_to_azure(folder: Path) -> Iterator[Peers]:
    import trustme  # noqa: PLC0415  (a test's)

    from amqp10msg.net.serve import Server  # noqa: PLC0415
    from tests.basic_broker import BasicBroker, running  # noqa: PLC0415  (needs pika)

    broker = BasicBroker(*_MESSAGES)
    broker.credentials = "shop:rabbit-password"
    _fill(broker)
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusted = folder / ".bin" / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    given: dict[str, Any] = {"users": {"bridge": "a+key/of=Azure"}, "max_message_size": 256 << 10}
    with (
        running(broker),
        Server(tls=context, accept_durable=True, create=False, nodes=["orders"], **given) as bus,
    ):
        places = {
            "rabbit.example": f"127.0.0.1:{broker.port}",
            "shop.servicebus.windows.net": f"127.0.0.1:{bus.port}",
        }
        secrets = {"RABBIT": "rabbit-password", "KEY": "a+key/of=Azure"}
        yield Peers(places, {**secrets, "SSL_CERT_FILE": str(trusted)})


_MESSAGES = ("orders", "bills")


def _fill(broker: Any) -> None:
    """Put messages into the queues: plain ones, one with a table, one too large for a bus."""
    from amqp10msg.basic import (  # noqa: PLC0415
        BasicProperties,
        FieldTable,
        encode_content_header,
    )
    from tests.basic_broker import Stored  # noqa: PLC0415

    def stored(body: bytes, **given: Any) -> Stored:
        return Stored(encode_content_header(BasicProperties(**given), len(body)), body)

    for number in range(1, 41):
        given = {"message_id": f"o-{number}", "delivery_mode": 2}
        broker.queues["orders"].append(stored(b'{"order": %d}' % number, **given))
    customer = FieldTable.of([("name", "S", "Ada"), ("id", "l", 7)])
    headers = FieldTable.of([("region", "S", "north"), ("customer", "F", customer)])
    broker.queues["orders"].append(stored(b"{}", headers=headers, message_id="o-41"))
    broker.queues["orders"].append(stored(b"x" * 300_000, message_id="o-42"))
    broker.queues["bills"].append(stored(b"bill 1", message_id="b-1"))
    broker.queues["bills"].append(stored(b"bill 2", message_id="b-2", user_id="foreign"))


@contextlib.contextmanager
def _live_broker(_: Path) -> Iterator[Peers]:
    from amqp10msg.net.serve import Server  # noqa: PLC0415

    with Server(users={"me": "secret"}, accept_durable=True) as server:
        yield Peers({"broker.example": f"127.0.0.1:{server.port}"}, {"BROKER_PASSWORD": "secret"})


@contextlib.contextmanager
def _archive(_: Path) -> Iterator[Peers]:
    from amqp10msg import Message  # noqa: PLC0415
    from amqp10msg.net.serve import Server  # noqa: PLC0415

    with Server(users={"guest": "guest"}) as server:
        for number, text in enumerate(("first", "second", "third")):
            server.publish("orders", Message(text, message_id=f"o-{number}"))
        yield Peers({"broker.example": f"127.0.0.1:{server.port}"})


@contextlib.contextmanager
def _broker_to_lake(folder: Path) -> Iterator[Peers]:
    from amqp10msg import Message, Properties  # noqa: PLC0415
    from tests.net import odd_broker  # noqa: PLC0415
    from tests.stream_broker import Stream, StreamBroker, running  # noqa: PLC0415

    stream = Stream()
    subjects = ("placed", "paid", "packed", "sent")
    for number in range(1_000):
        stream.publish(Message(b"{}", properties=Properties(subject=subjects[number % 4])))
    secret = folder / ".bin" / "broker"
    secret.write_text("secret\n")
    with running(StreamBroker(orders=stream)) as broker, odd_broker.running() as (queues, odd):
        for number in range(300):
            properties = Properties(message_id=f"o-{number}")
            odd.queues["/queues/orders"].append(Message(b"{}", properties=properties).encode())
        places = {
            "streams.example:5672": f"127.0.0.1:{broker.port}",
            "writer:${file:/run/secrets/broker}@queues.example:5672": queues.removeprefix(
                "amqp://"
            ),
            "/run/secrets/broker": str(secret),
        }
        yield Peers(places)


@contextlib.contextmanager
def _dead_letters(_: Path) -> Iterator[Peers]:
    from amqp10msg.basic import (  # noqa: PLC0415
        BasicProperties,
        FieldTable,
        encode_content_header,
    )
    from tests.basic_broker import BasicBroker, Stored, running  # noqa: PLC0415  (needs pika)

    broker = BasicBroker("orders", "dead")
    broker.credentials = "shop:rabbit-password"
    for number, reason in enumerate(("expired", "rejected", "expired", "maxlen")):
        death = FieldTable.of(
            [("queue", "S", "orders"), ("reason", "S", reason), ("count", "l", 1)]
        )
        headers = FieldTable.of(
            [
                ("x-death", "A", [("F", death)]),
                ("x-first-death-queue", "S", "orders"),
                ("x-first-death-reason", "S", reason),
            ]
        )
        properties = BasicProperties(message_id=f"o-{number}", headers=headers)
        broker.queues["dead"].append(Stored(encode_content_header(properties, 2), b"{}"))
    with running(broker):
        places = {"rabbit.example": f"127.0.0.1:{broker.port}"}
        yield Peers(places, {"PASSWORD": "rabbit-password"})


_PAGES: dict[str, Callable[[Path], contextlib.AbstractContextManager[Peers]]] = {
    "docs/how-to/conformance-brokers.md": _live_broker,
    "docs/how-to/broker-to-lake.md": _broker_to_lake,
    "docs/how-to/archive.md": _archive,
    "docs/how-to/bridge.md": _rabbitmq_3_to_4,
    "docs/how-to/rabbitmq-3-to-4.md": _rabbitmq_3_to_4,
    "docs/how-to/rabbitmq-to-azure.md": _rabbitmq_to_azure,
    "docs/how-to/dead-letters.md": _dead_letters,
}


@contextlib.contextmanager
def peers_of(page: str, folder: Path) -> Iterator[Peers]:
    """Run what the examples of a page need.

    Args:
        page: its path in the repository.
        folder: where its commands run.
    """
    if page not in _PAGES:
        yield Peers()
        return
    with _PAGES[page](folder) as found:
        yield found
