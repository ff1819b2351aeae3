"""The memory of all nodes, links and messages of a server is bounded."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from amqp10msg import AmqpValue, Described, Message, Properties, Symbol, UInt
from amqp10msg.delivery import DistributionNode, Source, Target, TerminusExpiryPolicy
from amqp10msg.delivery.node import NodeError
from amqp10msg.net.serve import Server
from amqp10msg.net.serve.memory import NODE_BYTES
from tests.net.serve_client import TIMEOUT, frame, performative, performatives, until

#: The longest address that fits a frame besides the other fields of an attach.
_LONG = 30_000

pytestmark = pytest.mark.once


@contextmanager
def raw(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # no waiting for full segments
        yield client


def _attached(client: socket.socket, names: int) -> Iterator[Described]:
    """Open a connection with links to a queue, and return the server's further performatives."""
    window = UInt(2**31 - 1)
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client") + frame(0x11, None, UInt(0), window, window)
    for handle in range(names):
        target = Target(address="q")
        octets += frame(0x12, f"l{handle}", UInt(handle), False, None, None, None, target)
    client.sendall(octets)
    heard = performatives(client)
    for _ in range(names):
        while next(heard).descriptor != 0x13:
            pass
    return heard


def _transfer(handle: int, number: int, message: bytes, more: bool = False) -> bytes:
    tag = number.to_bytes(4, "big")
    body = performative(0x14, UInt(handle), UInt(number), tag, UInt(0), False, more) + message
    return (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body


def test_messages_above_the_memory_limit_are_rejected() -> None:
    """Regression: 80 messages of 15 MB used 1.3 GB of memory."""
    message = Message(b"x" * 30_000).encode()
    with Server(memory=100_000) as server, raw(server) as client:
        heard = _attached(client, 1)
        client.sendall(b"".join(_transfer(0, n, message) for n in range(5)))
        states: list[Any] = []
        while len(states) < 5:
            said = next(heard)
            if said.descriptor == 0x15:
                first, last = said.value[1], said.value[2] or said.value[1]
                states += [said.value[4]] * (last - first + 1)

        assert [0x24] * 3 + [0x25] * 2 == [state.descriptor for state in states]
        error = states[-1].value[0].value
        assert "amqp:resource-limit-exceeded" == error[0]
        assert "100000 bytes are allowed for all messages" in error[1]
        server.call(lambda nodes: nodes.delete("q"))
        assert 0 == server.broker.memory.message_bytes
        server.publish("q", message)
        assert len(message) + 400 == server.broker.memory.message_bytes


@pytest.mark.parametrize("ends", ["aborted", "detached", "lost"])
def test_incomplete_messages_count_as_memory(ends: str) -> None:
    part = b"x" * 30_000
    with Server(memory=100_000) as server:
        with raw(server) as client:
            heard = _attached(client, 4)
            for handle in range(4):
                client.sendall(_transfer(handle, handle, part, more=True))
            client.sendall(_transfer(3, 3, part, more=True) + _transfer(3, 3, part))
            while (said := next(heard)).descriptor != 0x15:
                pass
            rejected = said.value[4]
            assert (3, 0x25) == (said.value[1], rejected.descriptor)
            assert "amqp:resource-limit-exceeded" == rejected.value[0].value[0]
            assert 90_000 == server.broker.memory.message_bytes
            with pytest.raises(NodeError, match="has no room"):
                server.publish("q", part + part)
            for handle in range(3):
                if ends == "aborted":
                    client.sendall(frame(0x14, UInt(handle), *[None] * 7, True))
                elif ends == "detached":
                    client.sendall(frame(0x16, UInt(handle), True))
            if ends != "lost":
                until(lambda: not server.broker.memory.message_bytes)
        until(lambda: not server.broker.memory.message_bytes)


# Structures: nodes, links, kept sources, and what is declared.


class _Peer:
    """A client that attaches links in sequence, and counts refusals."""

    def __init__(self, client: socket.socket) -> None:
        window = UInt(2**31 - 1)
        begin = frame(0x11, None, UInt(0), window, window)
        client.sendall(b"AMQP\0\1\0\0" + frame(0x10, "client") + begin)
        self._client = client
        self._heard = performatives(client)
        self.refused = 0

    def _next(self, code: int) -> Described:
        while (said := next(self._heard)).descriptor != code:
            pass
        return said

    def attach(self, name: str, handle: int, *, source: Source | None = None, **how: Any) -> bool:
        """Attach a link, and return whether the server accepted it; detach a refused link."""
        target = None if source is not None else Target(**how)
        attach = frame(0x12, name, UInt(handle), source is not None, None, None, source, target)
        self._client.sendall(attach)
        answer = self._next(0x12)
        if (*answer.value, *[None] * 8)[5 if source is not None else 6] is not None:
            return True
        detached = self._next(0x16)
        assert "amqp:resource-limit-exceeded" == detached.value[2].value[0]
        self._client.sendall(frame(0x16, UInt(handle), True))
        self.refused += 1
        return False

    def detach(self, handle: int, *, closed: bool) -> None:
        self._client.sendall(frame(0x16, UInt(handle), closed))
        self._next(0x16)


def _structures(server: Server) -> int:
    return int(server.call(lambda _: server.broker.memory.structures))


@pytest.mark.parametrize("role", ["sender", "receiver", "dynamic", "topic", "kept", "filter"])
def test_attached_links_and_their_addresses_are_bounded(role: str) -> None:
    """Regression: 8,000 attaches used 326 MB, whatever the limit."""
    text = "x" * _LONG
    with Server(memory=2_000_000) as server, raw(server) as client:
        peer, taken = _Peer(client), 0
        before = _structures(server)
        for number in range(100):
            name, address = f"link-{number}", f"{text}-{number}"
            if role == "sender":
                taken += peer.attach(name, number, address=address)
            elif role == "dynamic":
                taken += peer.attach(text + name, number, dynamic=True)
            elif role == "topic":
                taken += peer.attach(name, number, address=address, capabilities=("topic",))
            elif role == "receiver":
                taken += peer.attach(name, number, source=Source(address=address))
            elif role == "filter":
                chosen = {"apache.org:selector-filter:string": f"'{text[:5_000]}' = 'x'"}
                source = Source(address="q", filter=_described(chosen))
                taken += peer.attach(name, number, source=source)
            elif peer.attach(
                text + name,
                number,
                source=Source(address="q", expiry_policy=TerminusExpiryPolicy.NEVER),
            ):
                peer.detach(number, closed=False)
                taken += 1
        assert 1 <= taken < 100
        assert 100 - taken == peer.refused
        memory = server.broker.memory
        assert memory.used <= 2_000_000 + memory.STRUCTURE_ALLOWANCE_BYTES
        assert _structures(server) > before + taken * _LONG
        with pytest.raises(NodeError, match="room"):
            server.publish(
                "messages", b"\0\x53\x75\xb0" + (10**6).to_bytes(4, "big") + bytes(10**6)
            )


def _described(filters: dict[str, str]) -> dict[Any, Any]:
    return {Symbol(name): Described(Symbol(name), value) for name, value in filters.items()}


def test_unused_addresses_are_freed() -> None:
    with Server(memory=1_000_000) as server, raw(server) as client:
        peer, text = _Peer(client), "x" * _LONG
        before = _structures(server)
        for number in range(300):
            assert peer.attach("link", 0, address=f"{text}-{number}")
            peer.detach(0, closed=True)
            assert peer.attach("link", 0, source=Source(address=f"{text}-{number}"))
            peer.detach(0, closed=True)
        assert [] == server.call(list)  # no message ever came
        assert before == _structures(server)


def _take(node: DistributionNode | None) -> None:
    assert node is not None
    link = node.attach("taker")
    assert link.next(settled=True)
    link.detach()


def test_unused_addresses_keep_their_counts_until_memory_is_needed() -> None:
    with Server(memory=1_000_000) as server, raw(server) as client:
        peer, text = _Peer(client), "x" * _LONG
        for number in range(100):
            address = f"{text}-{number}"
            assert peer.attach("link", 0, address=address)
            server.publish(address, Message("x"))
            server.call(lambda nodes: _take(nodes.find(address)))  # noqa: B023
            peer.detach(0, closed=True)
            names = [node.name for node in server.call(list)]
            assert address in names
            assert len(names) < 20
        assert 0 == peer.refused
        assert 1 == server.counts(address).archived


def test_addresses_with_messages_are_never_freed() -> None:
    with Server(memory=1_000_000) as server, raw(server) as client:
        peer, text = _Peer(client), "x" * _LONG
        assert peer.attach("link", 0, address="kept")
        server.publish("kept", Message("a message"))
        peer.detach(0, closed=True)
        number = 0
        while peer.attach(f"link-{number}", number, address=f"{text}-{number}"):
            number += 1
        assert ["a message"] == [message.text() for message in server.messages("kept")]


@pytest.mark.parametrize("ends", ["detached", "ended", "closed", "lost"])
def test_memory_of_links_is_freed(ends: str) -> None:
    with Server(memory=50_000_000) as server:
        before = _structures(server)
        with raw(server) as client:
            peer, text = _Peer(client), "x" * _LONG
            for number in range(20):
                assert peer.attach(f"{text}-{number}", number, address=f"a{number}")
                source = Source(
                    address=f"b{number}", expiry_policy=TerminusExpiryPolicy.CONNECTION_CLOSE
                )
                assert peer.attach(f"{text}-{number}", 100 + number, source=source)
            assert _structures(server) > before + 40 * _LONG
            if ends == "detached":
                for number in range(20):
                    peer.detach(number, closed=True)
                    peer.detach(100 + number, closed=True)
            elif ends == "ended":
                client.sendall(frame(0x17))
            elif ends == "closed":
                client.sendall(frame(0x18))
            if ends == "detached":
                until(lambda: _structures(server) == before)
        until(lambda: _structures(server) == before)


def test_memory_of_responses_is_freed_with_the_connection() -> None:
    with Server() as server:
        before = _structures(server)
        with raw(server) as client:
            assert _Peer(client).attach("in", 0, source=Source(address="/management"))
            assert _structures(server) > before + NODE_BYTES
        until(lambda: _structures(server) == before)


def test_refused_links_that_are_never_detached_end_their_session() -> None:
    window = UInt(2**31 - 1)
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client") + frame(0x11, None, UInt(0), window, window)
    text = "x" * _LONG
    with Server(memory=200_000) as server, raw(server) as client:
        client.sendall(octets)
        heard = performatives(client)
        for number in range(20):
            target = Target(address=f"{text}-{number}")
            client.sendall(
                frame(0x12, text + str(number), UInt(number), False, *[None] * 3, target)
            )
        while (said := next(heard)).descriptor != 0x17:
            pass
        assert "amqp:resource-limit-exceeded" == said.value[0].value[0]
        until(lambda: _structures(server) < 100_000)


def _ask(server: Server, method: str, path: str, body: Any = None) -> str | None:
    """Send a request to the management node, and return the status of the response."""
    request = Message(
        AmqpValue(body), properties=Properties(to=path, subject=method, message_id="1")
    )
    answer = server.call(lambda _: server.broker.services["/management"](request, "owner"))
    assert answer.properties is not None
    return answer.properties.subject


def test_declared_queues_exchanges_and_bindings_are_bounded_and_freed() -> None:
    with Server(memory=1_000_000) as server:
        before = _structures(server)
        for kind in ("queues", "exchanges"):
            statuses = [_ask(server, "PUT", f"/{kind}/{'x' * 5_000}{n}", {}) for n in range(100)]
            assert "507" == statuses[-1]
            assert statuses[0] in {"201", "204"}
            for number in range(100):
                _ask(server, "DELETE", f"/{kind}/{'x' * 5_000}{number}")
            assert before == _structures(server)
        assert "201" == _ask(server, "PUT", "/queues/q", {})
        body = {"source": "amq.topic", "destination_queue": "q"}
        statuses = [
            _ask(server, "POST", "/bindings", {**body, "binding_key": f"{'k' * 5_000}{n}"})
            for n in range(100)
        ]
        assert ("204", "507") == (statuses[0], statuses[-1])
        _ask(server, "DELETE", "/queues/q")
        assert before == _structures(server)


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("PUT", "/queues/{}", {}),
        ("PUT", "/exchanges/{}", {}),
        ("POST", "/bindings", {"source": "amq.topic", "destination_queue": "q"}),
    ],
    ids=["queues", "exchanges", "bindings"],
)
def test_arguments_of_declarations_are_bounded(method: str, path: str, body: Any) -> None:
    with Server(memory=1_000_000) as server:
        assert "201" == _ask(server, "PUT", "/queues/q", {})
        statuses = [
            _ask(
                server,
                method,
                path.format(number),
                {**body, "arguments": {"x-text": "x" * 5_000, "x-number": number}},
            )
            for number in range(20)
        ]
    assert statuses[0] in {"201", "204"}
    assert statuses[-1] == "507"


def test_unused_topics_are_freed() -> None:
    with Server(memory=1_000_000) as server, raw(server) as client:
        peer, text = _Peer(client), "x" * _LONG
        for number in range(100):
            address = f"{text}-{number}"
            assert peer.attach("link", 0, address=address, capabilities=("topic",))
            peer.detach(0, closed=True)
        assert peer.refused == 0
