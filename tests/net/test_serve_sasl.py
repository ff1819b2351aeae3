"""SCRAM-SHA-256 with a client of these tests, and EXTERNAL with certificates."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Array, Symbol, UByte, decode_value
from amqp10msg.net.serve import Server, scram, tls_context
from amqp10msg.net.transport import AMQP_HEADER, SASL_HEADER, SaslServer
from amqp10msg.net.transport.sasl import sasl_frame

pytest.importorskip("scramp")
trustme = pytest.importorskip("trustme")
proton = pytest.importorskip("proton", reason="needs python-qpid-proton")

from tests.net.serve_client import TIMEOUT, connected, utils  # noqa: E402  (needs proton)

pytestmark = pytest.mark.once

INIT, CHALLENGE, RESPONSE, OUTCOME = 0x41, 0x42, 0x43, 0x44
USERS = {"user": "pencil", "ann,=": "s\u00adecret", "bob": ""}


class Client:
    """The client side of RFC 5802, section 3."""

    def __init__(self, name: str, password: str, nonce: str = "rOprNGfwEbeRWgbNEkqO") -> None:
        self.password = password
        self.nonce = nonce
        self.bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self.first = f"n,,{self.bare}"
        self.expected = ""

    def final(self, server_first: str) -> str:
        fields = dict(part.split("=", 1) for part in server_first.split(","))
        assert fields["r"].startswith(self.nonce)
        assert len(fields["r"]) > len(self.nonce)
        salted = hashlib.pbkdf2_hmac(
            "sha256", self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
        )
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        stored_key = hashlib.sha256(client_key).digest()
        without_proof = f"c=biws,r={fields['r']}"
        text = f"{self.bare},{server_first},{without_proof}".encode()
        signature = hmac.digest(stored_key, text, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", "sha256")
        signed = hmac.digest(server_key, text, "sha256")
        self.expected = f"v={base64.b64encode(signed).decode()}"
        return f"{without_proof},p={base64.b64encode(proof).decode()}"


def test_scram_client_passes_the_example_of_rfc_7677() -> None:
    client = Client("user", "pencil")
    final = client.final(
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )

    assert (
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ) == final
    assert "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" == client.expected


def frames(octets: bytes) -> Iterator[tuple[int, list[Any]]]:
    while octets:
        if octets.startswith(SASL_HEADER):
            octets = octets[8:]
            continue
        size = int.from_bytes(octets[:4], "big")
        value = decode_value(octets[8:size])
        octets = octets[size:]
        yield int(value.descriptor), value.value


def server_of(users: dict[str, str] = USERS) -> SaslServer:
    return SaslServer(anonymous=False, users=users, scram=scram.Scram(users).begin)


def login(server: SaslServer, client: Client, *, separately: bool = False) -> list[Any]:
    """Run a SCRAM exchange, and return the fields of the outcome."""
    first = client.first.encode()
    init = sasl_frame(INIT, Symbol("SCRAM-SHA-256"), None if separately else first, None)
    reply, _ = server.receive(SASL_HEADER + init)
    said = list(frames(reply))
    if separately:
        assert (CHALLENGE, [b""]) == said.pop()
        reply, _ = server.receive(sasl_frame(RESPONSE, first))
        said += frames(reply)
    code, fields = said.pop()
    if code == CHALLENGE:
        reply, rest = server.receive(
            sasl_frame(RESPONSE, client.final(fields[0].decode()).encode()) + AMQP_HEADER
        )
        assert (AMQP_HEADER if server.done else b"") == rest
        ((code, fields),) = frames(reply)
    assert OUTCOME == code
    return fields


@pytest.mark.parametrize("separately", [False, True])
@pytest.mark.parametrize(
    "name, password, allowed",
    [
        ("user", "pencil", True),
        ("ann,=", "secret", True),  # as SASLprep makes it
        ("user", "pencils", False),
        ("eve", "pencil", False),
        ("eve", "", False),
        ("bob", "x", False),
    ],
)
def test_scram(name: str, password: str, allowed: bool, separately: bool) -> None:
    server, client = server_of(), Client(name, password)
    code, *data = login(server, client, separately=separately)

    assert (0 if allowed else 1) == code
    assert (allowed, not allowed) == (server.done, bool(server.failed))
    assert (name if allowed else None) == server.user
    assert ([client.expected.encode()] if allowed else []) == data


def test_unknown_user_gets_a_constant_salt() -> None:
    known = scram.Scram(USERS)

    def server_first(name: str) -> str:
        said: bytes = known.begin().step(Client(name, "").first.encode())
        _, _, rest = said.decode().partition(",")
        return rest

    for name in ("user", "eve"):
        assert server_first(name) == server_first(name)
        assert server_first(name).endswith("i=4096")
    assert server_first("user") != server_first("eve")


@pytest.mark.parametrize(
    "first",
    [
        "",
        "n",
        "n,,",
        "y,,n=user",
        "p=tls-unique,,n=user,r=x",
        "n,a=eve,n=user,r=x",
        "n,,r=x,n=user",
    ],
)
def test_malformed_scram_message_is_refused(first: str) -> None:
    server = server_of()
    init = sasl_frame(INIT, Symbol("SCRAM-SHA-256"), first.encode(), None)
    *_, (code, fields) = frames(server.receive(SASL_HEADER + init)[0])

    assert (OUTCOME, UByte(1)) == (code, *fields)
    assert (False, None) == (server.done, server.user)


@given(
    st.lists(st.binary(max_size=20) | st.text("n,=rybp+/", max_size=9).map(str.encode), max_size=3)
)
def test_random_scram_messages_are_refused(said: list[bytes]) -> None:
    server = server_of()
    server.receive(SASL_HEADER + sasl_frame(INIT, Symbol("SCRAM-SHA-256"), None, None))
    for one in (b"n,,n=user,r=x", *said):
        server.receive(sasl_frame(RESPONSE, one))

    assert not server.done


def test_scram_proof_cannot_be_replayed() -> None:
    known = scram.Scram(USERS)
    client = Client("user", "pencil")
    final = client.final(known.begin().step(client.first.encode()).decode())
    other = known.begin()
    other.step(client.first.encode())
    with pytest.raises(ConnectionError, match="nonce"):
        other.step(final.encode())
    assert not other.done


def test_offered_mechanisms() -> None:
    def offered(server: SaslServer, certificate: str | None = None) -> Array:
        server.certificate = certificate
        ((_, (names,)),) = frames(server.receive(SASL_HEADER)[0])
        assert isinstance(names, Array)
        return names

    both = ["SCRAM-SHA-256", "PLAIN"]
    assert Array("symbol", both) == offered(server_of())
    assert Array("symbol", ["EXTERNAL", *both]) == offered(server_of(), "ann")
    assert Array("symbol", ["PLAIN"]) == offered(SaslServer(anonymous=False, users=USERS))
    anonymous = SaslServer(anonymous=True, users={}, scram=scram.Scram({}).begin)
    assert Array("symbol", ["ANONYMOUS"]) == offered(anonymous)


@pytest.mark.parametrize(
    "certificate, response, allowed",
    [
        ("ann", b"", True),
        ("ann", b"ann", True),
        ("ann", b"bob", False),
        ("ann", b"ann\0", False),
        (None, b"", False),
        (None, b"ann", False),
    ],
)
def test_external(certificate: str | None, response: bytes, allowed: bool) -> None:
    for separately in (False, True):
        server = SaslServer(anonymous=False, users={})
        server.certificate = certificate
        given_at_once = None if separately else response
        init = sasl_frame(INIT, Symbol("EXTERNAL"), given_at_once, None)
        reply, _ = server.receive(SASL_HEADER + init)
        if separately and certificate is not None:
            assert (CHALLENGE, [b""]) == [*frames(reply)][-1]
            reply, _ = server.receive(sasl_frame(RESPONSE, response))
        assert (OUTCOME, [UByte(0 if allowed else 1)]) == [*frames(reply)][-1]
        assert (certificate if allowed else None) == server.user


# By sockets.


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    ours, theirs = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(folder / "ca.pem")
    ours.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        folder / "server.pem"
    )
    for name, authority in (("ann", ours), ("eve", theirs)):
        made = authority.issue_cert(f"{name}.test", common_name=name)
        made.private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.pem")
    return folder


def domain_of(folder: Path, name: str | None) -> Any:
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(folder / "ca.pem"))
    domain.set_peer_authentication(proton.SSLDomain.ANONYMOUS_PEER)
    if name is not None:
        path = str(folder / f"{name}.pem")
        domain.set_credentials(path, path, None)
    return domain


def test_external_with_a_certificate(authorities: Path) -> None:
    if not proton.SSL.present():
        pytest.skip("proton was compiled without TLS: it needs libssl-dev")
    context = tls_context(authorities / "server.pem", None, authorities / "ca.pem")
    with Server(tls=context) as server:
        domain = domain_of(authorities, "ann")
        with connected(server, ssl_domain=domain, allowed_mechs="EXTERNAL") as connection:
            connection.create_sender("q")
            peers: list[Any] = list(server.broker.connections)
            assert ["ann"] == [one.user for one in peers]
        # Nobody gets in without, nor with one of another authority.
        for name in (None, "eve"):
            with pytest.raises((proton.ConnectionException, proton.Timeout)):
                utils.BlockingConnection(
                    server.url, timeout=TIMEOUT, ssl_domain=domain_of(authorities, name)
                )


def test_external_and_passwords_on_one_server(authorities: Path) -> None:
    if not proton.SSL.present():
        pytest.skip("proton was compiled without TLS: it needs libssl-dev")
    context = tls_context(authorities / "server.pem", None, authorities / "ca.pem")
    with Server(tls=context, users=USERS) as server:
        for name, options in (("ann", {}), (None, {"user": "user", "password": "pencil"})):
            domain = domain_of(authorities, name)
            with connected(server, ssl_domain=domain, **options) as connection:
                connection.create_sender("q")


def test_scram_over_a_socket() -> None:
    client = Client("user", "pencil")
    with Server(users=USERS) as server, socket.create_connection((server.host, server.port)) as raw:
        raw.settimeout(TIMEOUT)
        raw.sendall(SASL_HEADER + sasl_frame(INIT, Symbol("SCRAM-SHA-256"), client.first.encode()))
        held = b""
        while not (held.count(b"r=rOpr") and held.endswith(b"i=4096")):
            held += raw.recv(4096)
        (*_, (code, fields)) = frames(held)
        assert CHALLENGE == code
        raw.sendall(sasl_frame(RESPONSE, client.final(fields[0].decode()).encode()))
        ((code, fields),) = frames(raw.recv(4096))
        assert (OUTCOME, 0, client.expected.encode()) == (code, *fields)


def test_optional_client_certificates_require_authentication(authorities: Path) -> None:
    asks = tls_context(authorities / "server.pem", None, authorities / "ca.pem")
    assert ssl.CERT_OPTIONAL is asks.verify_mode
    assert not Server(tls=asks).broker.anonymous
    assert Server(tls=asks, anonymous=True).broker.anonymous
    assert Server(tls=tls_context(authorities / "server.pem", None)).broker.anonymous
