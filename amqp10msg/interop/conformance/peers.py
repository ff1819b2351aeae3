"""The implementations that there are drivers for, and where each runs.

Each runs in a virtual environment or npm folder of its own, which is made when it is needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import attrs

from amqp10msg.wire.errors import AmqpError, expect


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
        """The language of the driver, ``python`` or ``node``; empty for a command."""
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
        Peer("pika", "python_basic.py", ("pika",), ("pika",), about="pika: AMQP 0-9-1"),
        Peer("pamqp", "python_basic.py", ("pamqp",), ("pamqp",), about="pamqp: AMQP 0-9-1"),
        Peer(
            "aiormq",
            "python_basic.py",
            ("pamqp", "aiormq"),
            ("aiormq",),
            about="aiormq, under aio-pika: AMQP 0-9-1, by pamqp",
        ),
        Peer("amqplib", "amqplib.js", requires=("amqplib",), about="amqplib, for Node: AMQP 0-9-1"),
    )
}


def find_peer(text: str) -> Peer:
    """Return the peer of a name, of a driver's file (``.py``, ``.js``), or of a command.

    Raises:
        ValueError: the text is empty, its quotes are not closed, or it is a single word that is
            neither the name of a peer nor a program of this machine.
    """
    expect(text, str, "find_peer", "a str")
    if text in PEERS:
        return PEERS[text]
    words = shlex.split(text)
    if not words:
        raise ValueError("a peer is a name, a driver's file or a command")
    name = re.sub(r"[^a-z0-9]+", "-", Path(words[0]).stem.lower()).strip("-") or "peer"
    if len(words) == 1 and Path(words[0]).suffix in (".py", ".js"):
        return Peer(name, str(Path(words[0]).absolute()))
    if len(words) == 1 and shutil.which(words[0]) is None:
        raise ValueError(
            f"{words[0][:80]!r} is neither a program of this machine nor the name of a peer: use "
            f"one of {', '.join(PEERS)}, a driver's .py or .js, or a command"
        )
    return Peer(name, command=tuple(words))


class PeerError(AmqpError):
    """A peer cannot be installed or started on this machine."""


@attrs.frozen
class Launch:
    """How a peer is started.

    Attributes:
        command: the program and its arguments.
        environment: variables of the program beside those of this process.
        folder: where it runs, or None for the current one.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = attrs.field(factory=dict)
    folder: Path | None = None


def default_folder() -> Path:
    """Return where environments are kept: in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "amqp10msg" / "peers"


def _drivers() -> Path:
    return Path(str(resources.files("amqp10msg.interop.corpus") / "drivers"))


def driver_of(peer: Peer) -> Path:
    """Return the file of a peer's driver; where it has none, their folder."""
    return _drivers() / peer.driver  # an absolute path stays what it is


def prepare(peer: Peer, folder: Path | None = None) -> Launch:
    """Make the environment of a peer, unless it is there, and say how the peer is started.

    Args:
        peer: which one.
        folder: where environments are kept; `default_folder` if None.

    Raises:
        PeerError: what it needs cannot be installed, or Node is missing.
    """
    if peer.command:
        return Launch(peer.command)
    driver = str(driver_of(peer))
    # A driver runs in the folder of its environment, where a relative path leads elsewhere.
    place = (folder or default_folder()).absolute()
    home = _environment(peer, place) if peer.requires else None
    if peer.language == "node":
        node = _program("node")
        return Launch((node, str(_drivers() / "lines.js"), driver, *peer.arguments), folder=home)
    if peer.language != "python":
        raise PeerError(f"{peer.driver} is neither a .py nor a .js: give a command that runs it")
    environment = {"PYTHONUNBUFFERED": "1"}
    python = sys.executable
    if home is not None:
        python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
        environment["PYTHONPATH"] = ""  # what is installed there, and nothing of ours
    else:
        ours = str(Path(str(resources.files("amqp10msg"))).parent)
        before = os.environ.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (ours, before)))
    return Launch(
        (python, "-P", str(_drivers() / "lines.py"), driver, *peer.arguments), environment
    )


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerError(f"{name} is not on the PATH, and the driver needs it")
    return found


def environment_of(peer: Peer, folder: Path) -> Path:
    """Return where the environment of a peer is kept in a folder."""
    runs = sys.version if peer.language == "python" else ""
    told = "\n".join((peer.language, runs, *peer.requires))
    name = re.sub(r"[^\w.-]+", "-", Path(peer.requires[0]).name)
    return folder / f"{name}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def _environment(peer: Peer, folder: Path) -> Path:
    """Make the folder of an environment with what a peer requires, unless it is there."""
    home = environment_of(peer, folder)
    stamp = home / ".complete"
    if stamp.exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    log = folder / f"{home.name}.log"
    if peer.language == "node":
        (home / "package.json").write_text('{"private": true}\n')
        commands = [[_program("npm"), "install", "--no-audit", "--no-fund", *peer.requires]]
    else:
        python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
        # Our own pip installs there, which is quicker than giving each environment one.
        ours = importlib.util.find_spec("pip") is not None
        pip = [sys.executable, "-m", "pip", "--python", python] if ours else [python, "-m", "pip"]
        commands = [
            [sys.executable, "-m", "venv", *(["--without-pip"] if ours else []), str(home)],
            [*pip, "install", "--quiet", *peer.requires],
        ]
    with log.open("wb") as out:
        for command in commands:
            done = subprocess.run(  # noqa: S603 - pip and npm, of what the table names
                command,
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
                env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            )
            if done.returncode:
                raise PeerError(f"{' '.join(peer.requires)} cannot be installed: see {log}")
    stamp.touch()
    return home
