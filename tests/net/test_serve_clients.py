"""The table of clients in docs/reference/serve.md: each cell is what becomes of the client's call.

A program for each client makes its calls, and tells what became of each; the cells are its column.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from amqp10msg.net.serve import Server, tls_context

trustme = pytest.importorskip("trustme")

pytestmark = pytest.mark.once

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "serve.md"
#: By the heading of a column: the module or package that is needed, and the program.
CLIENTS = {
    "proton": ("proton", "calls_of_proton.py"),
    "rhea": ("rhea", "calls_of_rhea.js"),
    "rabbitmq": ("rabbitmq_amqp_python_client", "calls_of_rabbitmq.py"),
    "_pyamqp": ("azure.servicebus", "calls_of_pyamqp.py"),
    "uamqp": ("uamqp", "calls_of_uamqp.py"),
}
TIMEOUT = 120  # seconds; each takes a few
#: A client's calls are made once in a process, so that its tests go to one.
each_client = pytest.mark.parametrize(
    "client", [pytest.param(one, marks=pytest.mark.xdist_group(one)) for one in CLIENTS]
)


def table() -> list[list[str]]:
    """Return the rows of the documentation's table, with the heading first."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| call | `proton` |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [[cell.strip("`") for cell in rows[0]], *rows[2:]]


HEAD, *ROWS = table()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files of the authority, of the server's certificate with its key, and of a client's."""
    folder = tmp_path_factory.mktemp("certificates")
    files = {name: folder / f"{name}.pem" for name in ("ca", "server", "mine")}
    ca = trustme.CA()
    ca.cert_pem.write_to_path(files["ca"])
    of_server = ca.issue_cert("localhost", "127.0.0.1")
    of_server.private_key_and_cert_chain_pem.write_to_path(files["server"])
    mine = ca.issue_cert(common_name="ann")
    mine.private_key_and_cert_chain_pem.write_to_path(files["mine"])
    return {name: str(file) for name, file in files.items()}


@contextmanager
def served(certificates: dict[str, str]) -> Iterator[str]:
    """Start the servers of a program; return its argument with their addresses and certificates."""
    how: dict[str, Any] = {
        "users": {"ann": "secret", "no": "token"},
        "anonymous": True,
        "max_message_size": 2 << 20,
        "dead_letter": "dead",
        "topics": ["news"],
        "on_token": lambda _: True,
        "properties": {"product": "RabbitMQ", "version": "4.1.0"},
    }
    context = tls_context(certificates["server"], None, certificates["ca"])
    # To uamqp, which speaks over TLS alone, a whole URL is an address.
    secure = {"tls": context, "dead_letter": "amqps://localhost/dead"}
    with (
        Server(**how) as plain,
        Server(**how, accept_durable=True) as keeps,
        Server(**{**how, **secure}) as tls,
    ):
        ends = {
            "plain": plain.url,
            "keeps": keeps.url,
            "tls": f"amqps://localhost:{tls.port}",
        }
        yield json.dumps({**ends, **certificates})


def command_of(client: str) -> list[str]:
    needed, program = CLIENTS[client]
    path = Path(__file__).with_name(program)
    if path.suffix == ".js":
        node = shutil.which("node")
        places = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep)]
        if node is None or not any((place / needed).is_dir() for place in places):
            pytest.skip(f"Node and {needed} are not installed: see NODE_PATH")
        return [node, str(path)]
    try:
        there = importlib.util.find_spec(needed) is not None
    except ModuleNotFoundError:  # not even what it is in
        there = False
    if not there:
        pytest.skip(f"{needed} is not installed")
    if needed == "proton" and not importlib.import_module("proton").SSL.present():
        pytest.skip("proton was compiled without TLS: it needs libssl-dev")
    return [sys.executable, str(path)]


@pytest.fixture(scope="module")
def found(certificates: dict[str, str]) -> Callable[[str], dict[str, str]]:
    """Return a function that runs the calls of a client once and returns their results."""
    root = Path(__file__).parents[2]

    @cache
    def calls(client: str) -> dict[str, str] | str:
        command = command_of(client)
        with served(certificates) as ends:
            done = subprocess.run(
                [*command, ends],
                capture_output=True,
                check=False,
                timeout=TIMEOUT,
                text=True,
                cwd=root,
                env={**os.environ, "PYTHONPATH": str(root)},
            )
        if done.returncode:
            return done.stderr  # kept, so that it is not tried again for each cell
        made: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
        return made

    def told(client: str) -> dict[str, str]:
        made = calls(client)
        assert isinstance(made, dict), made
        return made

    return told


@each_client
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_cell_of_the_table(
    client: str, row: list[str], found: Callable[[str], dict[str, str]]
) -> None:
    call, cell = row[0], row[HEAD.index(client)].strip("`")

    assert cell == found(client).get(call, "-")


@each_client
def test_table_lists_every_call(client: str, found: Callable[[str], dict[str, str]]) -> None:
    assert set() == found(client).keys() - {row[0] for row in ROWS}


def test_table_has_a_column_per_client() -> None:
    assert ["call", *CLIENTS] == HEAD


def test_event_hubs_client_ends_at_the_begin() -> None:
    """The client requires trailing fields that a sender may omit (Part 1, 1.4)."""
    eventhub = pytest.importorskip("azure.eventhub")
    with Server(on_token=lambda _: True) as server:
        producer = eventhub.EventHubProducerClient.from_connection_string(
            f"Endpoint=sb://127.0.0.1:{server.port};SharedAccessKeyName=any;"
            "SharedAccessKey=YW55;UseDevelopmentEmulator=true;EntityPath=hub",
            retry_total=0,
        )
        with producer, pytest.raises(eventhub.exceptions.EventHubError, match="out of range"):
            producer.send_batch([eventhub.EventData("a")])
