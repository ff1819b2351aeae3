"""Bridge, server, spool, landing and the SQLite store."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import Message
from amqp10msg.delivery.node import Stored
from amqp10msg.delivery.node.sqlite import SqliteStore
from amqp10msg.net.serve import Server, ServerWaits, tls_context
from tests.documented_raises.calls import Call, Elsewhere, Rows

STORED = Stored(1, 0, b"")
URL = "amqp://127.0.0.1"


def _bridge() -> Any:
    pytest.importorskip("pika")
    return importlib.import_module("amqp10msg.net.bridge")


def _landing() -> Any:
    pytest.importorskip("pyarrow")
    return importlib.import_module("amqp10msg.net.ends.parquet")


def _spool() -> Any:
    pytest.importorskip("pyarrow")
    return importlib.import_module("amqp10msg.net.spool")


# The store.


def _closed_store(call: Call) -> Call:
    """Return a call of a store whose file was closed."""

    def run(tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "s.db")
        store.abandon()
        call(store)

    return run


def _removed_store(call: Call) -> Call:
    """Return a call of a store with a pending message, whose file was removed."""

    def run(tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "s.db")
        store.put("n", STORED)
        (tmp_path / "s.db").unlink()
        try:
            call(store)
        finally:
            store.abandon()

    return run


def _batch(store: SqliteStore) -> None:
    with store.batch():
        store.put("n", STORED)


STORE: Rows = {
    "delivery.node.sqlite.SqliteStore": {
        "StoreError": [
            lambda tmp_path: SqliteStore(tmp_path / ""),
            lambda tmp_path: SqliteStore(tmp_path / "missing" / "s.db"),
            lambda tmp_path: SqliteStore(_text_file(tmp_path)),
        ]
    },
    "delivery.node.sqlite.SqliteStore.batch": {"StoreError": _removed_store(_batch)},
    "delivery.node.sqlite.SqliteStore.close": {"StoreError": _removed_store(SqliteStore.close)},
    "delivery.node.sqlite.SqliteStore.commit": {"StoreError": _removed_store(SqliteStore.commit)},
    "delivery.node.sqlite.SqliteStore.define": {
        "StoreError": _closed_store(lambda store: store.define("queue", "q", b""))
    },
    "delivery.node.sqlite.SqliteStore.definitions": {
        "StoreError": _closed_store(lambda store: store.definitions("queue"))
    },
    "delivery.node.sqlite.SqliteStore.discard": {
        "StoreError": _closed_store(lambda store: store.discard("n", 1))
    },
    "delivery.node.sqlite.SqliteStore.load": {
        "StoreError": _closed_store(lambda store: list(store.load("n")))
    },
    "delivery.node.sqlite.SqliteStore.names": {"StoreError": _closed_store(SqliteStore.names)},
    "delivery.node.sqlite.SqliteStore.quarantine": {
        "StoreError": _closed_store(lambda store: store.quarantine("n", STORED, "damaged"))
    },
    "delivery.node.sqlite.SqliteStore.quarantined": {
        "StoreError": _closed_store(lambda store: list(store.quarantined()))
    },
}


def _text_file(folder: Path) -> Path:
    (folder / "s.db").write_bytes(b"no database at all" * 100)
    return folder / "s.db"


# The server.


def _in_server(call: Call, **options: Any) -> Call:
    """Return a call of a server's nodes, which raises there what `call` raises."""

    def run() -> None:
        with Server(**options) as server:
            server.call(call)

    return run


def _in_strict_server(call: Callable[[Server], object]) -> Call:
    """Return a call that uses a server without nodes, which creates none."""

    def run() -> None:
        with Server(create=False) as server:
            call(server)

    return run


def _start_twice() -> None:
    with Server() as server:
        server.start()


def _start_on_a_port_in_use() -> None:
    with Server() as server:
        Server(port=server.port).start()


def _make_queue_of_topic(nodes: Any) -> None:
    nodes.make_topic("t")
    nodes.make("t")


def _make_topic_of_queue(nodes: Any) -> None:
    nodes.make("q")
    nodes.make_topic("q")


SERVER: Rows = {
    "net.serve.ServerWaits": {
        "TypeError": lambda: ServerWaits(opening="soon"),  # type: ignore[arg-type]
        "ValueError": lambda: ServerWaits(opening=0),
    },
    "net.serve.Nodes.find": {"NodeError": _in_server(lambda nodes: nodes.find("$cbs"))},
    "net.serve.Nodes.make": {
        "NodeError": [
            _in_server(_make_queue_of_topic),
            _in_server(lambda nodes: nodes.make("$cbs")),
        ]
    },
    "net.serve.Nodes.make_room": {
        "NodeError": _in_server(lambda nodes: nodes.make_room(2**40), memory=100_000)
    },
    "net.serve.Nodes.make_topic": {
        "NodeError": [
            _in_server(_make_topic_of_queue),
            _in_server(lambda nodes: nodes.make_topic("t"), create=False),
        ]
    },
    "net.serve.Server.call": {
        "StoreError": Elsewhere(
            "the file is removed while the server runs",
            "tests/net/test_serve_commits.py::test_publish_raises_if_the_file_cannot_be_written",
        ),
        "RuntimeError": lambda: Server().call(len),  # type: ignore[arg-type]
    },
    "net.serve.Server.publish": {
        "ValueError": _in_strict_server(lambda server: server.publish("none", Message("x")))
    },
    "net.serve.Server.messages": {
        "ValueError": _in_strict_server(lambda server: server.messages("none"))
    },
    "net.serve.Server.counts": {
        "ValueError": _in_strict_server(lambda server: server.counts("none"))
    },
    "net.serve.Server.quarantined": {
        "ValueError": _in_strict_server(lambda server: server.quarantined("none"))
    },
    "net.serve.Server.start": {
        "OSError": _start_on_a_port_in_use,
        "StoreError": lambda tmp_path: Server(file=_text_file(tmp_path)).start(),
        "RuntimeError": _start_twice,
    },
    "net.serve.Server.stop": {
        "StoreError": Elsewhere(
            "the file is removed while the server runs",
            "tests/net/test_serve_commits.py::test_stop_raises_if_the_file_was_removed",
        )
    },
    "net.serve.tls_context": {
        "OSError": [
            lambda tmp_path: tls_context(tmp_path / "missing.pem", None),
            lambda tmp_path: tls_context(_text_file(tmp_path), None),
        ]
    },
}


# The bridge.


async def _reload_while_running(specs: list[Any]) -> None:
    async with _bridge().Bridge([]) as bridge:
        bridge.reload(specs)


def _route(name: str) -> Any:
    return _bridge().RouteSpec(f"{URL}/a", f"{URL}/b", _bridge().RouteOptions(), name)


async def _run_twice(folder: Path) -> None:
    """Run a route that was stopped before, and again."""
    bridge = _bridge()
    options = bridge.RouteOptions(quarantine=folder / "quarantine.jsonl")
    ends = bridge.parse_url(f"{URL}/a"), bridge.parse_url(f"{URL}/b")
    route = bridge.Route("r", *ends, options, logging.getLogger("amqp10msg.test"))
    route.stop()
    await route.run()
    assert route.statistics.state == "ended"
    await route.run()


REFUSED_LINK = Elsewhere(
    "it takes a broker that refuses a link",
    "tests/net/test_bridge.py::test_refused_address_is_raised_immediately",
)
FULL_DISK = Elsewhere(
    "the quarantine must fail while messages arrive",
    "tests/net/test_bridge_disk.py::test_full_disk_of_the_quarantine_leaves_messages_at_the_source",
)

BRIDGE: Rows = {
    "net.bridge.Bridge": {
        "ValueError": [
            lambda: _bridge().Bridge(f"{URL}/a"),
            lambda: _bridge().Bridge("nowhere", f"{URL}/b"),
            lambda: _bridge().Bridge([_route("a"), _route("a")]),
        ]
    },
    "net.bridge.Bridge.reload": {
        "ValueError": lambda: asyncio.run(_reload_while_running([_route("a"), _route("a")])),
        "RuntimeError": lambda: _bridge().Bridge([]).reload([]),
    },
    "net.bridge.Bridge.run": {
        "LinkError": REFUSED_LINK,
        "OSError": FULL_DISK,
        "RuntimeError": lambda: asyncio.run(_bridge().Bridge([]).run()),
    },
    "net.bridge.RouteSpec": {
        "TypeError": lambda: _bridge().RouteSpec(5, f"{URL}/b"),
        "ValueError": [
            lambda: _bridge().RouteSpec("nowhere", f"{URL}/b"),
            lambda: _bridge().RouteSpec("file:a.jsonl", "file:b.jsonl"),
        ],
    },
    "net.bridge.Route.run": {
        "LinkError": REFUSED_LINK,
        "OSError": FULL_DISK,
        "RuntimeError": lambda tmp_path: asyncio.run(_run_twice(tmp_path)),
    },
    "net.bridge.RouteOptions": {
        "TypeError": [
            lambda: _bridge().RouteOptions(window="5"),
            lambda: _bridge().RouteOptions(until_length="no"),
            lambda: _bridge().RouteOptions(quarantine_queue=5),
        ],
        "ValueError": [
            lambda: _bridge().RouteOptions(window=0),
            lambda: _bridge().RouteOptions(unmatched="drop"),
            lambda: _bridge().RouteOptions(filter="a ="),
            lambda: _bridge().RouteOptions(filter="a = 1", match=bool),
        ],
    },
    "net.bridge.Endpoint": {
        "ValueError": [
            lambda: _bridge().Endpoint("0-9-1", "h", 5672, queue="\udcff"),
            lambda: _bridge().Endpoint("0-9-1", "h", 5672, routing_key="k" * 256),
            lambda: _bridge().Endpoint("1.0", "h", 5672, address="\udcff"),
        ]
    },
    "net.bridge.Endpoint.tls_context": {
        "OSError": lambda: _bridge().parse_url("amqps://h/q?cacertfile=/missing.pem").tls_context()
    },
    "net.bridge.Entry.raw": {"OSError": lambda tmp_path: _large_entry(tmp_path / "missing").raw},
    "net.bridge.Quarantine.add": {
        "OSError": lambda tmp_path: (
            _bridge()
            .Quarantine(tmp_path)
            .add(
                [(_source_delivery(), _bridge().Outcome("rejected"))],
                route="",
                source="",
                target="",
            )
        )
    },
    "net.bridge.parse_url": {
        "ValueError": [
            lambda: _bridge().parse_url("nowhere"),
            lambda: _bridge().parse_url("amqp://h:port/q"),
            lambda: _bridge().parse_url("amqp://[::1/q"),
            lambda: _bridge().parse_url(f"{URL}/q?colour=red"),
        ]
    },
    "net.bridge.read_quarantine": {
        "OSError": lambda tmp_path: list(_bridge().read_quarantine(tmp_path / "missing")),
        "ValueError": lambda tmp_path: list(_bridge().read_quarantine(_lines(tmp_path, b"[]\n"))),
    },
}


def _lines(folder: Path, data: bytes) -> Path:
    (folder / "q.jsonl").write_bytes(data)
    return folder / "q.jsonl"


def _large_entry(file: Path) -> Any:
    return _bridge().Entry("1.0", b"", None, "", "", False, *[""] * 7, file=file)


def _source_delivery() -> Any:
    return _bridge().SourceDelivery(b"\x00\x53\x75\xa0\x00")


def _removed_landing(folder: Path) -> Any:
    """Return a landing whose folder was removed."""
    landing = _landing().Landing(folder)
    shutil.rmtree(folder)
    return landing


def _land_in_a_removed_folder(tmp_path: Path) -> None:
    with _removed_landing(tmp_path / "l") as landing:
        landing.write([_landing().Spooled("q", 0, b"t", False, wire=b"")])


def _land_no_rows(tmp_path: Path) -> None:
    with _landing().Landing(tmp_path) as landing:
        landing.write([])


def _spool_into_a_removed_folder(tmp_path: Path) -> None:
    with Server() as server, _removed_landing(tmp_path / "l") as landing:
        server.publish("q", Message(b"x"))
        endpoint = _bridge().parse_url(f"{server.url}/q")
        _spool().spool_from(endpoint, landing, _spool().Batches(rows=1, idle=0.1))


def _spool_to_a_removed_folder(tmp_path: Path) -> None:
    with Server() as server, _removed_landing(tmp_path / "l") as landing:
        server.publish("q", Message(b"x"))
        _spool().spool(server.url, "q", landing, _spool().Batches(rows=1, idle=0.1))


@contextlib.contextmanager
def _closed_port() -> Iterator[str]:
    """Yield the URL of a port that is in use, but does not accept connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"amqp://127.0.0.1:{bound.getsockname()[1]}"


def _spool_from_a_closed_port(tmp_path: Path) -> None:
    with _closed_port() as url, _landing().Landing(tmp_path) as landing:
        _spool().spool(url, "q", landing)


def _spool_from_a_closed_endpoint(tmp_path: Path) -> None:
    with _closed_port() as url, _landing().Landing(tmp_path) as landing:
        _spool().spool_from(_bridge().parse_url(f"{url}/q"), landing, _spool().Batches())


def _land_twice(tmp_path: Path) -> None:
    with _landing().Landing(tmp_path):
        _landing().Landing(tmp_path)


def _open_a_locked_folder(tmp_path: Path) -> None:
    terms = importlib.import_module("amqp10msg.net.ends.terms")
    request = terms.TargetRequest(
        endpoint=_bridge().parse_url(f"parquet:{tmp_path}"),
        on_outcomes=lambda _: None,
        on_room=lambda: None,
        on_lost=lambda _: None,
        window=1,
    )
    with _landing().Landing(tmp_path):
        asyncio.run(_landing().open_target(request))


SPOOL: Rows = {
    "net.ends.parquet.open_target": {"LinkError": _open_a_locked_folder},
    "net.spool.Batches": {
        "TypeError": lambda: _spool().Batches(rows="1"),
        "ValueError": lambda: _spool().Batches(rows=0),
    },
    "net.ends.parquet.Landing": {
        "BlockingIOError": _land_twice,
        "OSError": lambda tmp_path: _landing().Landing(_text_file(tmp_path)),
    },
    "net.ends.parquet.Landing.write": {
        "OSError": _land_in_a_removed_folder,
        "ValueError": _land_no_rows,
    },
    "net.spool.endpoint_of": {
        "ValueError": [
            lambda: _spool().endpoint_of("amqp://${NO_SUCH_VARIABLE}@h", "q"),
            lambda: _spool().endpoint_of("http://h", "q"),
        ]
    },
    "net.spool.spool": {
        "ConnectionError": _spool_from_a_closed_port,
        "OSError": _spool_to_a_removed_folder,
        "ValueError": lambda: _spool().spool("amqp://${NO_SUCH_VARIABLE}@h", "q", None),
    },
    "net.spool.spool_from": {
        "LinkError": _spool_from_a_closed_endpoint,
        "OSError": _spool_into_a_removed_folder,
        "ValueError": lambda: _spool().spool_from(
            _bridge().parse_url("file:x"), None, _spool().Batches()
        ),
    },
}

ROWS: Rows = {**STORE, **SERVER, **BRIDGE, **SPOOL}
