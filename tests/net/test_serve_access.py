"""Authentication, and termini that outlive their links."""

# ruff: noqa: F811  (a fixture is imported, and an argument)

from __future__ import annotations

import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import (
    Described,
    Header,
    Limits,
    Message,
    Symbol,
    UByte,
    UInt,
    ULong,
)
from amqp10msg.delivery import (
    Accepted,
    Declared,
    Modified,
    Received,
    Source,
    Target,
    TerminusExpiryPolicy,
)

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import sendable  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402  (needs proton)
from amqp10msg.testing.fixtures import amqp_server, amqp_server_options  # noqa: E402, F401
from tests.net.serve_client import (  # noqa: E402
    TIMEOUT,
    connected,
    frame,
    performatives,
    receiver_of,
    until,
)

pytestmark = pytest.mark.once

# Who may connect.


USERS = {"ann": "secret", "bob": ""}


@pytest.mark.parametrize(
    "user, password, allowed",
    [
        ("ann", "secret", True),
        ("ann", "wrong", False),
        ("eve", "secret", False),
        (None, None, False),
    ],
)
def test_plain(user: Any, password: Any, allowed: bool) -> None:
    with Server(users=USERS) as server:
        options = {"user": user, "password": password, "allow_insecure_mechs": True}
        if allowed:
            with connected(server, **options) as connection:
                connection.create_sender("q").send(sendable(Message("x")))
        else:
            with pytest.raises(proton.ConnectionException, match="unauthorized"):
                utils.BlockingConnection(server.url, timeout=TIMEOUT, **options)


def test_plain_and_anonymous() -> None:
    with Server(users=USERS, anonymous=True) as server:
        for mechanism in ("PLAIN", "ANONYMOUS"):
            options = {"user": "ann", "password": "secret", "allow_insecure_mechs": True}
            with connected(server, allowed_mechs=mechanism, **options):
                pass


def test_without_sasl() -> None:
    for users, allowed in ((None, True), (USERS, False)):
        with Server(users=users) as server:
            if allowed:
                with connected(server, sasl_enabled=False) as connection:
                    connection.create_sender("q")
            else:
                with pytest.raises(proton.ConnectionException):
                    utils.BlockingConnection(server.url, timeout=TIMEOUT, sasl_enabled=False)


@pytest.mark.parametrize(
    "octets", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x03\x01\x00\x00" + b"\xff" * 99]
)
def test_bytes_that_are_not_amqp_are_answered_and_closed(octets: bytes) -> None:
    with Server() as server, socket.create_connection((server.host, server.port)) as client:
        client.settimeout(TIMEOUT)
        client.sendall(octets)
        answer = b""
        try:
            while piece := client.recv(4096):
                answer += piece
        except ConnectionResetError:
            pass
        assert answer.startswith(b"AMQP\x03\x01\x00\x00")
        until(lambda: not server.broker.connections)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "cert.pem", folder / "key.pem"
    try:
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-subj", "/CN=localhost", "-out", str(paths[0]), "-keyout", str(paths[1])),
            ],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("needs the command openssl, to make a certificate")
    return paths


def test_tls(certificate: tuple[Path, Path]) -> None:
    if not proton.SSL.present():
        pytest.skip("proton was compiled without TLS: it needs libssl-dev")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(certificate[0]))
    domain.set_peer_authentication(proton.SSLDomain.ANONYMOUS_PEER)
    with Server(tls=context, users=USERS) as server:
        assert server.url.startswith("amqps://")
        options = {"ssl_domain": domain, "user": "ann", "password": "secret"}
        with connected(server, **options) as connection:
            message = Message(b"x" * 300_000)
            connection.create_sender("q").send(sendable(message))
            assert message.bare == receiver_of(connection, "q").receive().bare


# Termini that outlive their links.


class Lasting(reactor.ReceiverOption):  # type: ignore[misc,name-defined]
    def __init__(self, policy: int, timeout: int) -> None:
        self.policy = policy
        self.timeout = timeout

    def apply(self, link: Any) -> None:
        link.source.expiry_policy = self.policy
        link.source.timeout = self.timeout


def test_durable_source_keeps_its_messages_until_resumed(
    amqp_server: Server,
) -> None:
    for text in "ab":
        amqp_server.publish("q", Message(text))
    never = Lasting(proton.Terminus.EXPIRE_NEVER, 0)
    container = reactor.Container()
    container.container_id = "client"
    connection = utils.BlockingConnection(amqp_server.url, timeout=TIMEOUT, container=container)
    receiver_of(connection, "q", name="link", options=never).receive()
    _lose(amqp_server)
    assert (1, 1) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)

    container = reactor.Container()
    container.container_id = "client"
    connection = utils.BlockingConnection(amqp_server.url, timeout=TIMEOUT, container=container)
    try:
        receiver = receiver_of(connection, "q", name="link", options=never)
        assert ["a", "b"] == [receiver.receive().text() for _ in "ab"]
    finally:
        connection.close()


def _lose(server: Server) -> None:
    """Cut all connections."""

    def cut(_: Any) -> None:
        for connection in list(server.broker.connections):
            connection.abort()

    server.call(cut)
    until(lambda: not server.broker.connections)


@pytest.mark.parametrize(
    "policy, timeout, kept",
    [
        (proton.Terminus.EXPIRE_WITH_SESSION, 0, False),
        (proton.Terminus.EXPIRE_WITH_CONNECTION, 0, False),
        (proton.Terminus.EXPIRE_WITH_LINK, 1_000, True),
        (proton.Terminus.EXPIRE_NEVER, 0, True),
    ],
)
@pytest.mark.parametrize("detach", [False, True])
def test_expiry_policies(
    amqp_server: Server,
    policy: int,
    timeout: int,
    kept: bool,
    detach: bool,
) -> None:
    amqp_server.publish("q", Message("x"))
    connection = utils.BlockingConnection(amqp_server.url, timeout=TIMEOUT)
    receiver = receiver_of(connection, "q", options=Lasting(policy, timeout))
    receiver.receive()
    if detach:
        receiver.link.detach()
        connection.create_sender("elsewhere")  # answered after that
        assert 1 == amqp_server.counts("q").acquired, "the session has not ended"
    _lose(amqp_server)

    assert (int(not kept), int(kept)) == (
        amqp_server.counts("q").available,
        amqp_server.counts("q").acquired,
    )


def test_timeout_of_a_source(amqp_server: Server) -> None:
    amqp_server.publish("q", Message("x"))
    connection = utils.BlockingConnection(amqp_server.url, timeout=TIMEOUT)
    option = Lasting(proton.Terminus.EXPIRE_WITH_CONNECTION, 1)
    receiver_of(connection, "q", options=option).receive()
    _lose(amqp_server)
    assert 1 == amqp_server.counts("q").acquired

    until(lambda: amqp_server.counts("q").available == 1)


def transfers(server: Server, unsettled: dict[bytes, Any] | None) -> dict[bytes, int]:
    """Attach as a receiver with a source that never expires; return two tags without settling."""
    source = Source(address="q", expiry_policy=TerminusExpiryPolicy.NEVER)
    attach = [None, None, source, None, unsettled]
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client")
    octets += frame(0x11, None, UInt(0), UInt(99), UInt(99))
    octets += frame(0x12, "link", UInt(0), True, *attach)
    window = [UInt(0), UInt(99), UInt(0), UInt(99)]
    octets += frame(0x13, *window, UInt(0), UInt(0), UInt(2))
    tags: dict[bytes, int] = {}
    with socket.create_connection((server.host, server.port)) as client:
        client.settimeout(TIMEOUT)
        client.sendall(octets)
        for said in performatives(client):
            if said.descriptor == 0x14:
                tags[said.value[2]] = len(tags)
                if len(tags) == 2:
                    break
    until(lambda: not server.broker.connections)
    return tags


def test_outcomes_in_the_unsettled_map_are_applied(amqp_server: Server) -> None:
    for text in "abc":
        amqp_server.publish("q", Message(text))
    first, _ = transfers(amqp_server, None)
    assert (1, 2) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)
    again = transfers(amqp_server, {first: Accepted(), b"unknown": Accepted()})

    assert first not in again
    assert {"accepted": 1} == amqp_server.counts("q").causes
    assert (0, 2) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)
    assert ["b", "c"] == [message.text() for message in amqp_server.messages("q")]


def said_to(
    server: Server, octets: bytes, last: int, count: int = 1, *, frame_size: int = 65_536
) -> list[Described]:
    """Send frames after the protocol header; return the answers up to `count` of one kind."""
    said: list[Described] = []
    with socket.create_connection((server.host, server.port)) as client:
        client.settimeout(TIMEOUT)
        opens = frame(0x10, "client", None, UInt(frame_size))
        client.sendall(b"AMQP\0\1\0\0" + opens + octets)
        for one in performatives(client):
            said.append(one)
            if sum(found.descriptor == last for found in said) == count:
                break
    until(lambda: not server.broker.connections)
    return said


BEGIN = frame(0x11, None, UInt(0), UInt(999), UInt(999))
ECHO = frame(0x13, UInt(0), UInt(999), UInt(0), UInt(999), *[None] * 5, True)


def attach_again(unsettled: dict[bytes, Any], incomplete: bool, credit: int = 5) -> bytes:
    source = Source(address="q", expiry_policy=TerminusExpiryPolicy.NEVER)
    attach = [None, None, source, None, unsettled, incomplete]
    window = [UInt(0), UInt(999), UInt(0), UInt(999)]
    return (
        BEGIN
        + frame(0x12, "link", UInt(0), True, *attach)
        + frame(0x13, *window, UInt(0), UInt(0), UInt(credit))
        + ECHO
    )


def test_refused_unsettled_map_releases_the_deliveries(amqp_server: Server) -> None:
    for text in "ab":
        amqp_server.publish("q", Message(text))
    transfers(amqp_server, None)
    wrong: Any = {"no tag": None}
    said = said_to(amqp_server, attach_again(wrong, False), 0x16)

    assert "amqp:invalid-field" == said[-1].value[2].value[0]
    assert (2, 0) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)


def test_invalid_outcome_in_the_map_does_not_affect_others() -> None:
    nested: Any = 1
    for _ in range(18):
        nested = [nested]
    deep = Modified(message_annotations={"x-opt-deep": nested})  # a frame may nest deeper
    with Server(limits=Limits(depth=16)) as server:
        for text in "ab":
            server.publish("q", Message(text))
        first, second = transfers(server, None)
        said = said_to(server, attach_again({first: deep, second: Accepted()}, False), 0x14)

        assert first != said[-1].value[2]
        assert {"accepted": 1} == server.counts("q").causes
        assert ["a"] == [message.text() for message in server.messages("q")]


def test_unknown_default_outcome_is_refused(amqp_server: Server) -> None:
    for outcome in (Declared(b"x"), Described(Symbol("of:an:extension"), [])):
        source = Described(ULong(0x28), ["q", *[None] * 7, outcome])
        attach = frame(0x12, "link", UInt(0), True, None, None, source)
        said = said_to(amqp_server, BEGIN + attach + ECHO, 0x13)
        (detach,) = [one.value for one in said if one.descriptor == 0x16]
        assert "amqp:not-implemented" == detach[2].value[0]


def test_last_attach_sets_the_default_outcome(amqp_server: Server) -> None:
    for text in "ab":
        amqp_server.publish("q", Message(text))
    transfers(amqp_server, None)
    failed = Modified(delivery_failed=True)
    source = Source(address="q", expiry_policy=TerminusExpiryPolicy.NEVER, default_outcome=failed)
    attach = frame(0x12, "link", UInt(0), True, None, None, source, None, None, True)
    said_to(amqp_server, BEGIN + attach + frame(0x16, UInt(0), True), 0x16)

    held = amqp_server.call(lambda nodes: list(nodes.make("q").messages()))
    assert [1, 1] == [message.delivery_count for message in held]


def test_uncommitted_changes_are_not_sent(tmp_path: Path) -> None:
    path, removed = tmp_path / "s.db", tmp_path / "removed.db"
    source = Source(address="q", expiry_policy=TerminusExpiryPolicy.NEVER)
    settled = UByte(1)
    attach = BEGIN + frame(0x12, "settled", UInt(0), True, settled, None, source)
    flow = frame(0x13, UInt(0), UInt(9), UInt(0), UInt(9), UInt(0), UInt(0), UInt(9))
    with Server(file=tmp_path / "s.db") as server:
        for text in "abc":
            server.publish("q", Message(text, header=Header(durable=True)))
        first, _ = transfers(server, None)
        path.rename(removed)  # writes fail until it is back
        # Removed before it is sent, or by the outcome that the map has: neither was committed.
        for octets in (attach + flow, attach_again({first: Accepted()}, False)):
            said = said_to(server, octets, 0x18)
            assert {0x14, 0x16}.isdisjoint(one.descriptor for one in said)
            assert [0x10, 0x18] == [said[0].descriptor, said[-1].descriptor]
        assert 0x12 not in [one.descriptor for one in said]
        removed.rename(path)


def test_unsettled_map_is_cut_to_a_frame(amqp_server: Server) -> None:
    source = Source(address="q", expiry_policy=TerminusExpiryPolicy.NEVER)
    for number in range(100):
        amqp_server.publish("q", Message(f"{number}"))
    window = [UInt(0), UInt(999), UInt(0), UInt(999)]
    attach = BEGIN + frame(0x12, "link", UInt(0), True, None, None, source)
    flow = frame(0x13, *window, UInt(0), UInt(0), UInt(100))
    said = said_to(amqp_server, attach + flow, 0x14, 100)
    unsettled = {one.value[2]: None for one in said if one.descriptor == 0x14}
    amqp_server.publish("q", Message("new"))

    # The peer's frames have room for a third of what it may be told.
    again = attach_again(unsettled, False, credit=500)
    said = said_to(amqp_server, again, 0x14, 100, frame_size=512)

    (answer,) = [one.value for one in said if one.descriptor == 0x12]
    assert 20 < len(answer[7]) < 50
    assert answer[8] is True
    assert list(unsettled) == [one.value[2] for one in said if one.descriptor == 0x14]
    assert (1, 100) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)


@pytest.mark.parametrize("incomplete", [False, True])
def test_no_new_delivery_after_an_incomplete_map(amqp_server: Server, incomplete: bool) -> None:
    for text in "abc":
        amqp_server.publish("q", Message(text))
    tags = list(transfers(amqp_server, None))

    # Where something is sent, that comes after the answer to the flow.
    last, count = (0x13, 1) if incomplete else (0x14, 2)
    said = said_to(amqp_server, attach_again({tags[0]: Accepted()}, incomplete), last, count)
    sent = [one.value for one in said if one.descriptor == 0x14]

    # "a" has its outcome. "b" was left out: settled by the peer where its map is whole.
    assert {"accepted": 1} == amqp_server.counts("q").causes
    assert (0 if incomplete else 2) == len(sent)
    (answer,) = [one.value for one in said if one.descriptor == 0x12]
    assert ({tags[1]: None} if incomplete else None) == (answer[7:8] or [None])[0]


def test_partially_received_delivery_is_resumed(amqp_server: Server) -> None:
    amqp_server.publish("q", Message(b"x" * 10, header=Header(durable=True)))
    amqp_server.publish("q", Message("b"))
    first, second = transfers(amqp_server, None)

    said = said_to(amqp_server, attach_again({first: Received(1, 4), second: None}, True), 0x14, 2)
    sent = {one.value[2]: one.value for one in said if one.descriptor == 0x14}

    assert [first, second] == list(sent)
    resume = 8
    assert [True, True] == [value[resume] for value in sent.values()]
    assert (0, 2) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)
    (answer,) = [one.value for one in said if one.descriptor == 0x12]
    assert {first: None, second: None} == answer[7]


def test_resumed_transfer_of_an_unknown_delivery_is_ignored(
    amqp_server: Server,
) -> None:
    target = Target(address="q")
    new, known = ([UInt(0), UInt(number), b"%d" % number, UInt(0)] for number in (1, 0))
    octets = BEGIN + frame(
        0x12, "link", UInt(0), False, None, None, Source(), target, None, None, UInt(0)
    )
    for fields, text in (((*known, False, False, None, None, True), "again"), (new, "new")):
        head, body = frame(0x14, *fields), Message(text).encode()
        octets += (len(head) + len(body)).to_bytes(4) + head[4:] + body

    said = said_to(amqp_server, octets, 0x15)

    assert ["new"] == [message.text() for message in amqp_server.messages("q")]
    (disposition,) = [one.value for one in said if one.descriptor == 0x15]
    assert 1 == disposition[1]
