"""Capture what clients of both protocols say to RabbitMQ 4, for tests/vectors/capture.pcap.

    python tools/take_capture.py 127.0.0.1:5672 tests/vectors/capture.pcap

Needs tcpdump and the right to use it, pika, proton, and a broker that knows guest.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Any

import pika
from proton.reactor import Container
from proton.utils import BlockingConnection

from amqp10msg import Message, Properties, Symbol, Timestamp
from amqp10msg.interop.proton import install, sendable

QUEUE = "orders"
#: Bytes of a frame of AMQP 1.0, so that a message takes several transfers.
FRAME = 1_024


def messages() -> list[Message]:
    """Messages of AMQP 1.0, the last of which takes several transfers."""
    return [
        *(
            Message(
                f'{{"order": {number}}}'.encode(),
                properties=Properties(
                    message_id=f"m-{number}",
                    to=f"/queues/{QUEUE}",
                    content_type="application/json",
                    creation_time=1_700_000_000_000 + number,
                ),
                application_properties={"tenant": tenant, "placed": Timestamp(1_700_000_000_000)},
                message_annotations={Symbol("x-opt-source"): "shop"},
            )
            for number, tenant in enumerate(["acme", "umbrella", "acme"])
        ),
        Message(b"0123456789" * 300, properties=Properties(message_id="large")),
    ]


def over_amqp10(broker: str) -> None:
    """Send all to the queue, and take them from there."""
    connection: Any = BlockingConnection(
        f"amqp://guest:guest@{broker}", timeout=20, container=Container(), max_frame_size=FRAME
    )
    sender = connection.create_sender(f"/queues/{QUEUE}")
    receiver = connection.create_receiver(f"/queues/{QUEUE}", credit=0)
    install(receiver.fetcher)
    for message in messages():
        sender.send(sendable(message.encode()))
    for _ in messages():
        receiver.receive(timeout=20)
        receiver.accept()
    connection.close()


def over_basic(channel: Any) -> None:
    """Publish two to the queue, and take them from there."""
    for number in range(2):
        properties = pika.BasicProperties(
            "application/json", headers={"tenant": "acme", "n": number}, message_id=f"b-{number}"
        )
        channel.basic_publish("", QUEUE, f'{{"order": {number}}}'.encode(), properties)
    for _ in range(2):
        method, _, _ = channel.basic_get(QUEUE)
        channel.basic_ack(method.delivery_tag)


def main() -> None:
    """Capture while all of it happens."""
    broker, path = sys.argv[1:]
    host, _, port = broker.partition(":")
    at = pika.ConnectionParameters(host, int(port))
    with pika.BlockingConnection(at) as owner:
        owner.channel().queue_declare(QUEUE)
        command = ["tcpdump", "-i", "lo", "-s", "0", "-U", "-w", path, "tcp", "port", port]
        with subprocess.Popen(command) as capture:
            time.sleep(1)
            over_amqp10(broker)
            with pika.BlockingConnection(at) as connection:
                over_basic(connection.channel())
            time.sleep(1)
            capture.send_signal(signal.SIGTERM)
        owner.channel().queue_delete(QUEUE)


main()
