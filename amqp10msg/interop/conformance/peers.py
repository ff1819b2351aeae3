"""The implementations that there are drivers for, and how others are named."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import attrs


@attrs.frozen
class Peer:
    """An implementation, and what starts it.

    Attributes:
        name: on the command line and in reports.
        driver: a file of `amqp10msg.interop.corpus.drivers`, a file of the user's, or empty where
            `command` speaks the line protocol by itself.
        arguments: of the driver.
        requires: what pip or npm installs into the peer's own environment; nothing for a driver
            that runs in this one.
        command: of a program that needs no driver.
        about: what it is, in a line.
    """

    name: str
    driver: str = ""
    arguments: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    about: str = ""

    @property
    def language(self) -> str:
        """Return what runs the driver, ``python`` or ``node``, or nothing of a command."""
        return {".py": "python", ".js": "node"}.get(Path(self.driver).suffix, "")


_RABBITMQ = "rabbitmq_amqp_python_client.qpid.proton"

#: By name.
PEERS = {
    peer.name: peer
    for peer in (
        Peer("this-library", "this_library.py", about="amqp10msg itself, strict"),
        Peer(
            "proton",
            "proton_data.py",
            requires=("python-qpid-proton",),
            about="python-qpid-proton: its codec, Data",
        ),
        Peer(
            "proton-message",
            "proton_data.py",
            ("message",),
            ("python-qpid-proton",),
            about="python-qpid-proton: its class Message",
        ),
        Peer(
            "rabbitmq-client",
            "proton_data.py",
            ("message", _RABBITMQ, "rabbitmq-amqp-python-client"),
            ("rabbitmq-amqp-python-client",),
            about="rabbitmq-amqp-python-client: its class Message, on python-qpid-proton",
        ),
        Peer(
            "pyamqp",
            "azure_pyamqp.py",
            requires=("azure-servicebus",),
            about="azure-servicebus: _pyamqp, its codec in Python",
        ),
        Peer("rhea", "rhea.js", requires=("rhea",), about="rhea, for Node"),
        Peer("pika", "pika_properties.py", requires=("pika",), about="pika: AMQP 0-9-1"),
        Peer("pamqp", "pamqp_properties.py", requires=("pamqp",), about="pamqp: AMQP 0-9-1"),
        Peer(
            "aiormq",
            "pamqp_properties.py",
            ("aiormq",),
            ("aiormq",),
            about="aiormq, under aio-pika: AMQP 0-9-1, by pamqp",
        ),
        Peer("amqplib", "amqplib.js", requires=("amqplib",), about="amqplib, for Node: AMQP 0-9-1"),
    )
}


def find_peer(text: str) -> Peer:
    """Return the peer of a name, of a driver's file (``.py``, ``.js``), or of a command.

    Raises:
        ValueError: the text is empty, or its quotes are not closed.
    """
    if text in PEERS:
        return PEERS[text]
    words = shlex.split(text)
    if not words:
        raise ValueError("a peer is a name, a driver's file or a command")
    name = re.sub(r"[^a-z0-9]+", "-", Path(words[0]).stem.lower()).strip("-") or "peer"
    if len(words) == 1 and Path(words[0]).suffix in (".py", ".js"):
        return Peer(name, str(Path(words[0]).absolute()))
    return Peer(name, command=tuple(words))
