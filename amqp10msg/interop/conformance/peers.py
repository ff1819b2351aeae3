"""The tested implementations, and the environments in which their drivers run.

Each implementation has a separate virtual environment or npm folder, created on first use.
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
    """An implementation to test, and how to start it.

    Attributes:
        name: its name on the command line and in reports.
        driver: the driver: a file in `amqp10msg.interop.corpus.drivers` or the path of the user's
            file. Empty if `command` implements the line protocol itself.
        arguments: command-line arguments of the driver.
        requires: packages that pip or npm installs into the peer's environment. Empty for a driver
            that runs in the current environment.
        command: the command of a program that needs no driver.
        about: a description in one line.
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


# The copy of proton that RabbitMQ's Python client bundles.
_RABBITMQ_PROTON = "rabbitmq_amqp_python_client.qpid.proton"

#: The implementations with a driver in this library, by name.
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
            ("message", _RABBITMQ_PROTON, "rabbitmq-amqp-python-client"),
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
    """Return the peer for a name, a driver's file (``.py``, ``.js``) or a command.

    Raises:
        ValueError: the text is empty, its quotes are not closed, or it is a single word that is
            neither the name of a peer nor a program on the PATH, or a driver's file that does not
            exist.
    """
    expect(text, str, "find_peer", "a str")
    if text in PEERS:
        return PEERS[text]
    words = shlex.split(text)
    if not words:
        raise ValueError("expected a peer's name, a driver's file or a command, got an empty text")
    name = re.sub(r"[^a-z0-9]+", "-", Path(words[0]).stem.lower()).strip("-") or "peer"
    if len(words) == 1 and Path(words[0]).suffix in (".py", ".js"):
        if not Path(words[0]).is_file():
            raise ValueError(f"there is no driver {words[0][:80]!r}")
        return Peer(name, str(Path(words[0]).absolute()))
    if len(words) == 1 and shutil.which(words[0]) is None:
        raise ValueError(
            f"{words[0][:80]!r} is neither a program on the PATH nor the name of a peer: use "
            f"one of {', '.join(PEERS)}, a driver's .py or .js, or a command"
        )
    return Peer(name, command=tuple(words))


class PeerError(AmqpError):
    """A peer cannot be installed or started, or a broker cannot be tested."""


@attrs.frozen
class Launch:
    """How to start a peer.

    Attributes:
        command: the program and its arguments.
        environment: environment variables to add to those of this process.
        folder: the program's working directory; None for the current one.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = attrs.field(factory=dict)
    folder: Path | None = None


def default_folder() -> Path:
    """Return the default folder for the environments of peers, in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "amqp10msg" / "peers"


def _drivers_folder() -> Path:
    return Path(str(resources.files("amqp10msg.interop.corpus") / "drivers"))


def driver_of(peer: Peer) -> Path:
    """Return the path of a peer's driver; for a peer without driver, the folder of all drivers."""
    return _drivers_folder() / peer.driver  # `/` returns an absolute `peer.driver` unchanged


def prepare(peer: Peer, folder: Path | None = None) -> Launch:
    """Create the environment of a peer if it is missing, and return how to start the peer.

    Args:
        peer: the peer.
        folder: the folder for environments; `default_folder()` if None.

    Raises:
        PeerError: a required package cannot be installed, or Node is missing.
    """
    if peer.command:
        return Launch(peer.command)
    driver = str(driver_of(peer))
    # Make the path absolute, because the driver's working directory is its environment.
    environments = (folder or default_folder()).absolute()
    home = _create_environment(peer, environments) if peer.requires else None
    if peer.language == "node":
        node = _find_program("node")
        return Launch(
            (node, str(_drivers_folder() / "lines.js"), driver, *peer.arguments), folder=home
        )
    if peer.language != "python":
        raise PeerError(
            f"{peer.driver} must be a .py or .js file; for others, pass a command that runs it"
        )
    environment = {"PYTHONUNBUFFERED": "1"}
    python = sys.executable
    if home is not None:
        python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
        environment["PYTHONPATH"] = ""  # import only the packages of the environment
    else:
        package_parent = str(Path(str(resources.files("amqp10msg"))).parent)
        inherited = os.environ.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package_parent, inherited)))
    return Launch(
        (python, "-P", str(_drivers_folder() / "lines.py"), driver, *peer.arguments), environment
    )


def _find_program(name: str) -> str:
    """Return the path of a program. Raises PeerError if it is not on the PATH."""
    path = shutil.which(name)
    if path is None:
        raise PeerError(f"the driver needs {name}, which is not on the PATH")
    return path


def environment_of(peer: Peer, folder: Path) -> Path:
    """Return the path of a peer's environment in `folder`."""
    python_version = sys.version if peer.language == "python" else ""
    inputs = "\n".join((peer.language, python_version, *peer.requires))
    name = re.sub(r"[^\w.-]+", "-", Path(peer.requires[0]).name)
    return folder / f"{name}-{hashlib.sha256(inputs.encode()).hexdigest()[:8]}"


def _create_environment(peer: Peer, folder: Path) -> Path:
    """Create the environment of a peer if it is missing, and return its path."""
    home = environment_of(peer, folder)
    stamp = home / ".complete"
    if stamp.exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    log = folder / f"{home.name}.log"
    if peer.language == "node":
        (home / "package.json").write_text('{"private": true}\n')
        commands = [[_find_program("npm"), "install", "--no-audit", "--no-fund", *peer.requires]]
    else:
        python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
        # Use this process's pip if it has one: that is faster than installing pip each time.
        has_pip = importlib.util.find_spec("pip") is not None
        pip = (
            [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
        )
        commands = [
            [sys.executable, "-m", "venv", *(["--without-pip"] if has_pip else []), str(home)],
            [*pip, "install", "--quiet", *peer.requires],
        ]
    with log.open("wb") as log_file:
        for command in commands:
            process = subprocess.run(  # noqa: S603 - pip and npm, with packages of `PEERS`
                command,
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                check=False,
                env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            )
            if process.returncode:
                raise PeerError(f"{' '.join(peer.requires)} cannot be installed: see {log}")
    stamp.touch()
    return home
