"""Whether the examples in docstrings run.

An example is a block that is indented under a paragraph of a docstring, or a session with ``>>>``.
Every block of every docstring of the package is either executed here, or listed with the reason why
it is not.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import importlib
import inspect
import json
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import amqp10msg
from amqp10msg import Message, delivery, notation
from amqp10msg.delivery import Source, filters
from amqp10msg.net.serve import Server
from amqp10msg.net.transport import sasl as transport_sasl
from tests.basic_broker import BasicBroker

ROOT = Path(__file__).parents[2] / "amqp10msg"
Names = dict[str, Any]


@attrs.frozen
class Block:
    """An indented block of a docstring: the docstring's owner, its line there, and the text."""

    owner: str
    line: int
    text: str

    @property
    def id(self) -> str:
        return f"{self.owner}:{self.line}"


#: A line, blank lines, and a line that is indented deeper: each block begins so.
DEEPER = re.compile(r"^( *)\S.*\n\s*\n\1 {4,}\S", re.MULTILINE)


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the owner, such as ``files:read``, and the text of the docstrings.

    Files that cannot have an example are not parsed: every process that collects tests would spend
    seconds on it.
    """
    for path in sorted([*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi")]):
        source = path.read_text("utf-8")
        if ">>> " not in source and not DEEPER.search(source):
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__")
        tree = ast.parse(source)
        for node, name in owners(tree, ""):
            text = ast.get_docstring(node)
            if text is not None:
                yield f"{module.removesuffix('.')}:{name}", text


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def owners(node: Documented, name: str) -> Iterator[tuple[Documented, str]]:
    yield node, name
    for child in node.body:
        if isinstance(child, Documented):
            yield from owners(child, f"{name}.{child.name}".removeprefix("."))


#: Sections of a docstring, of which the indented lines are prose.
SECTION = re.compile(r"(?:Args|Attributes|Raises|Returns|Yields):$")


def blocks_of(owner: str, text: str) -> Iterator[Block]:
    """Yield the blocks of a docstring that are indented deeper than the paragraph before them."""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        paragraph = next((line for line in reversed(lines[:number]) if line.strip()), "")
        is_block = (
            number > 0
            and not lines[number - 1].strip()
            and indent(lines[number]) >= indent(paragraph) + 4
            and not SECTION.match(paragraph.strip())
        )
        if not is_block:
            number += 1
            continue
        end = number
        while end < len(lines) and (
            not lines[end].strip() or indent(lines[end]) >= indent(lines[number])
        ):
            end += 1
        block = textwrap.dedent("\n".join(lines[number:end])).rstrip() + "\n"
        if not block.startswith(">>>"):
            yield Block(owner, number, block)
        number = end


def indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else 0


DOCSTRINGS = [*docstrings()]
BLOCKS = [block for owner, text in DOCSTRINGS for block in blocks_of(owner, text)]
SESSIONS = sorted({owner for owner, text in DOCSTRINGS if ">>> " in text})

#: Blocks that are not Python, and what they are.
OTHER_LANGUAGES = {
    "interop.corpus.drivers.lines:": "a command; tests/interop/test_conformance.py runs the file",
    "interop.corpus.drivers.template_program:": "requests and answers, a line of JSON each",
    "interop.corpus.programs:Program": "requests and answers, a line of JSON each",
    "net.bridge.route:": "the objects that a message passes, in order",
    "net.bridge.unsettled:": "a table of the states of a delivery",
}
#: Examples that are not run here, and the test that runs the same calls.
NOT_RUN = {
    "spark:": (
        "it takes a JVM",
        "tests/spark/test_functions.py::test_decode_equals_columns_decode",
    ),
}
#: Packages that the examples of a module need.
NEEDS = {
    "interop.proton": "proton",
    "jobs": "pyarrow",
    "testing": "hypothesis",
    "net.bridge": "pika",
}


# What the examples take as given, by the owner of the docstring.


def _nothing(_: Path) -> AbstractContextManager[Names]:
    return nullcontext({})


def _message(_: Path) -> AbstractContextManager[Names]:
    return nullcontext({"data": Message(b"", application_properties={"tenant": "x"}).encode()})


def _time(_: Path) -> AbstractContextManager[Names]:
    return nullcontext({"time": time, "Accepted": delivery.Accepted, "Message": Message})


def _filters(_: Path) -> AbstractContextManager[Names]:
    selector = filters.Selector("a = 1").to_described()
    names: Names = {
        "source": SimpleNamespace(filter={"colour": selector}),
        "NoLocal": filters.NoLocal,
        "Selector": filters.Selector,
    }
    return nullcontext({**names, "data": filters.Selector("a = 1").encode(), "Source": Source})


@contextmanager
def _captured(folder: Path) -> Iterator[Names]:
    capture = Path(__file__).parents[1] / "vectors" / "capture.pcap"
    shutil.copy(capture, folder / "queue.pcap")
    yield {}


@contextmanager
def _lines(folder: Path) -> Iterator[Names]:
    (folder / "captures").mkdir()
    line = json.dumps({"raw": Message(b"x").encode().hex()})
    (folder / "captures" / "a.jsonl").write_text(line + "\n")
    yield {}


def _connect(url: str) -> socket.socket:
    host, _, port = url.removeprefix("amqp://").rpartition(":")
    client = socket.create_connection((host, int(port)))
    client.close()
    return client


def _clients(_: Path) -> AbstractContextManager[Names]:
    return nullcontext({"connect": _connect})


@contextmanager
def _proton(_: Path) -> Iterator[Names]:
    module = importlib.import_module("amqp10msg.interop.proton")
    utils = importlib.import_module("proton.utils")
    with Server() as server:
        connection = utils.BlockingConnection(server.url)
        received = connection.create_receiver("received")
        server.publish("received", Message("x"))
        server.publish("queue", Message("x"))
        delivered: list[Any] = []
        handler = SimpleNamespace(on_delivery=delivered.append)
        sender = connection.create_sender("queue")
        yield {
            **vars(module),
            "connection": connection,
            "event": SimpleNamespace(sender=sender.link, delivery=_Delivery(Message("x").encode())),
            "message": Message("x"),
            "blocking_sender": sender,
            "publisher": SimpleNamespace(publish=sender.send),
            "handler": handler,
        }
        received.close()
        connection.close()


class _Delivery:
    """A delivery of proton that holds a whole message, as far as `receive` looks at it."""

    readable, partial, aborted = True, False, False

    def __init__(self, data: bytes) -> None:
        self.pending = len(data)
        self.link = SimpleNamespace(recv=lambda _: data, advance=lambda: True)


class _EndedError(Exception):
    """The peer of an example closed its socket."""


@contextmanager
def _socket(_: Path) -> Iterator[Names]:
    """A fake socket: the first `recv` returns an AMQP header, the second ends the loop."""
    arriving = iter([b"AMQP\0\1\0\0"])

    def receive(_: int) -> bytes:
        for data in arriving:
            return data
        raise _EndedError

    open_ = importlib.import_module("amqp10msg.net.transport").Open
    names = {"handler": SimpleNamespace(), "Open": open_}
    try:
        yield {**names, "socket": SimpleNamespace(sendall=lambda _: None, recv=receive)}
    except _EndedError:
        pass
    else:
        raise AssertionError("the loop of the example ended by itself")


@contextmanager
def _sasl_peer(_: Path) -> Iterator[Names]:
    """The other end of an exchange of SASL, which answers what the example sends."""
    server = transport_sasl.SaslServer(anonymous=False, users={"me": "secret"})
    answers: list[bytes] = [server.start()]

    def send(data: bytes) -> None:
        answers.append(server.receive(data)[0])

    yield {"send": send, "received": lambda: answers.pop(0)}


@contextmanager
def _translated(_: Path) -> Iterator[Names]:
    basic = amqp10msg.basic
    yield {"basic": basic.BasicMessage(basic.BasicProperties(message_id="m"), b"x")}


SETUPS: dict[str, Callable[[Path], AbstractContextManager[Names]]] = {
    "delivery.filters.sets:FilterSet": _filters,
    "delivery.filters.sets:parse": _filters,
    "delivery.node.node:DistributionNode": _time,
    "files:": _captured,
    "interop.proton:": _proton,
    "interop.proton.links:install": _proton,
    "interop.proton.links:sendable": _proton,
    "jobs:": _lines,
    "message.picks:Picker": _message,
    "net.serve:": _clients,
    "net.serve.server:Server": _clients,
    "net.transport.connection:Connection": _socket,
    "net.transport.sasl:SaslClient": _sasl_peer,
    "translate:": _translated,
}


def module_of(owner: str) -> str:
    return f"amqp10msg.{owner.partition(':')[0]}".removesuffix(".")


def names_of(owner: str) -> Names:
    """Return the names that an example may use: those of the package and of its own module."""
    # By getattr: a public name is missing in vars(amqp10msg) until its first use.
    names = {name: getattr(amqp10msg, name) for name in amqp10msg.__all__}
    names.update(vars(importlib.import_module(module_of(owner))))
    return {**names, "__name__": "__main__"}


def execute(text: str, names: Names) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(text, "<example>", "exec", flags=flags, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def run_json(text: str) -> None:
    """Read the message that is written in plain JSON."""
    assert isinstance(notation.from_plain(json.loads(text)), Message)


def run_bridge(text: str) -> None:
    """Run the example of the bridge between two brokers of this process."""

    async def run() -> None:
        async with BasicBroker("orders") as broker:
            with Server() as server:
                found = text.replace("amqp091://old/?queue=orders", broker.url("queue=orders"))
                found = found.replace("amqp://new/?queue=orders", f"{server.url}/orders")
                found = found.replace(
                    "async with", "options = RouteOptions(idle=0.1)\nasync with"
                ).replace('orders") as', 'orders", options) as')
                names = names_of("net.bridge:")
                code = compile(found, "<example>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                await eval(code, names)

    asyncio.run(run())


def run_alone(text: str) -> None:
    """Run an example in another process, as it changes what the whole process shares."""
    subprocess.run([sys.executable, "-c", text], check=True, cwd=ROOT.parent)


RUNNERS: dict[str, Callable[[str], None]] = {
    "composite:": run_alone,  # it registers a composite
    "notation.plain:": run_json,
    "net.bridge:": run_bridge,
}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.id)
def test_docstring_example_runs(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block.owner in OTHER_LANGUAGES:
        with pytest.raises(SyntaxError):
            ast.parse(block.text)
        return
    if block.owner in NOT_RUN:
        ast.parse(block.text)
        return
    for module, package in NEEDS.items():
        if f"{block.owner.partition(':')[0]}.".startswith(f"{module}."):
            pytest.importorskip(package)
    if block.owner in RUNNERS:
        RUNNERS[block.owner](block.text)
        return
    monkeypatch.chdir(tmp_path)
    setup = SETUPS.get(block.owner, _nothing)
    with setup(tmp_path) as given:
        execute(block.text, {**names_of(block.owner), **given})


@pytest.mark.parametrize("owner", SESSIONS)
@pytest.mark.usefixtures("few_examples")
def test_docstring_session_runs(owner: str) -> None:
    if owner.startswith("testing."):
        pytest.importorskip("hypothesis")
    module = importlib.import_module(module_of(owner))
    target: Any = module
    for name in owner.partition(":")[2].split("."):
        target = getattr(target, name) if name else target
    text = inspect.getdoc(target)
    assert text is not None
    test = doctest.DocTestParser().get_doctest(text, dict(vars(module)), owner, None, 0)
    report: list[str] = []

    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)

    assert (0, True) == (result.failed, result.attempted > 0), "".join(report)


def test_exemptions_are_used() -> None:
    owned = {block.owner for block in BLOCKS}

    assert {*OTHER_LANGUAGES, *NOT_RUN, *SETUPS, *RUNNERS} <= owned
    for _, test in NOT_RUN.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT.parent / path).read_text("utf-8")


def test_example_blocks_after_paragraph_are_collected() -> None:
    text = (
        "Do it.\n\n    a = 1\n\n    b = 2\n\nThen::\n\n    c\n\nArgs:\n    d: prose.\n\n        e\n"
    )

    assert [(2, "a = 1\n\nb = 2\n"), (8, "c\n"), (13, "e\n")] == [
        (block.line, block.text) for block in blocks_of("x", text)
    ]
