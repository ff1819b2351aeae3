"""TLS is verified unless the URL says otherwise, and nobody sees credentials."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

pytest.importorskip("pika")
trustme = pytest.importorskip("trustme")

from amqp10msg import Array, Message, Symbol, UByte  # noqa: E402
from amqp10msg.delivery import Source, Target  # noqa: E402
from amqp10msg.net import transport  # noqa: E402
from amqp10msg.net.bridge import Bridge, LinkError, RouteOptions, parse_url  # noqa: E402
from amqp10msg.net.bridge.management import Management  # noqa: E402
from amqp10msg.net.ends.links import open_target  # noqa: E402
from amqp10msg.net.ends.terms import TargetRequest  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402
from tests.basic_broker import BasicBroker, Stored, running  # noqa: E402
from tests.management_api import management, serving  # noqa: E402
from tests.net.test_bridge_files import line  # noqa: E402
from tests.waiting import wait_until  # noqa: E402

ROOT = Path(__file__).parents[2]
USER, PASSWORD = "us3r", "s3cr3t/w@rd"
QUOTED = "s3cr3t%2Fw%40rd"


@attrs.frozen
class Authority:
    """Certificates on disk: whom to trust, a client's, and contexts of servers."""

    trusted: Path
    other: Path
    client: Path
    server: ssl.SSLContext
    strict: ssl.SSLContext
    elsewhere: ssl.SSLContext


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("tls")
    ours, others = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(folder / "ca.pem")
    others.cert_pem.write_to_path(folder / "other.pem")
    ours.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(
        folder / "client.pem"
    )
    contexts = []
    for name in ("127.0.0.1", "127.0.0.1", "elsewhere.example"):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        ours.issue_cert(name).configure_cert(context)
        contexts.append(context)
    ours.configure_trust(contexts[1])
    contexts[1].verify_mode = ssl.CERT_REQUIRED
    return Authority(folder / "ca.pem", folder / "other.pem", folder / "client.pem", *contexts)


pytestmark = pytest.mark.usefixtures("in_a_folder")


def stored(count: int) -> list[Stored]:
    header = b"\0\x3c\0\0" + (1).to_bytes(8, "big") + b"\0\0"
    return [Stored(header, b"%d" % number) for number in range(count)]


async def bridged(source: str, target: str, **given: Any) -> Any:
    options = RouteOptions(**{"idle": 0.2, "backoff": 0.001, "max_backoff": 0.01, **given})
    async with asyncio.timeout(60), Bridge(source, target, options) as bridge:
        (counts,) = (await bridge.run()).values()
    return counts


@pytest.mark.parametrize("source", ["0-9-1", "1.0"])
@pytest.mark.parametrize("target", ["0-9-1", "1.0"])
def test_all_protocol_pairs_over_tls_with_a_password(
    authority: Authority, source: str, target: str
) -> None:
    users = {USER: PASSWORD}

    async def run() -> Any:
        trusted = f"cacertfile={authority.trusted}"
        broker = BasicBroker("from", "to")
        broker.tls = authority.server
        async with broker:
            broker.queues["from"].extend(stored(9))
            at = server.url.replace("amqps://", f"amqps://{USER}:{QUOTED}@")
            ends = {
                "0-9-1": [f"{broker.url(f'queue={name}')}&{trusted}" for name in ("from", "to")],
                "1.0": [f"{at}/{name}?{trusted}" for name in ("from", "to")],
            }
            counts = await bridged(ends[source][0], ends[target][1], max_messages=9)
            return counts, len(broker.queues["to"])

    with Server(tls=authority.server, users=users, accept_durable=True) as server:
        for number in range(9):
            server.publish("from", Message(b"%d" % number))
        counts, there = asyncio.run(run())
        if target == "1.0":
            there = server.counts("to").available

    assert (9, 9, 0) == (counts.accepted, there, counts.quarantined.total())


def test_tls_to_a_plain_port_is_raised_immediately() -> None:
    with Server(accept_durable=True) as server, running(BasicBroker("q", "other")) as broker:
        plain = [f"{server.url}/q", broker.url("queue=q")]
        for url in plain:
            by_tls = url.replace("://", "s://", 1)
            other = re.sub(r"q$", "other", url)
            for ends in ((by_tls, other), (other, by_tls)):
                with pytest.raises(LinkError, match="the peer does not use TLS"):
                    asyncio.run(bridged(*ends))


def urls(context: ssl.SSLContext, query: str) -> Iterator[str]:
    """Yield a URL of each protocol, of peers that have this context."""
    with Server(tls=context, accept_durable=True) as server:
        yield f"{server.url}/q?{query}"
    broker = BasicBroker("q")
    broker.tls = context
    with running(broker):
        yield broker.url(f"queue=q&{query}")


@pytest.mark.parametrize(
    "context, query, said",
    [
        ("server", "", "is not trusted: (self-signed|unable to get)"),
        ("server", "cacertfile={other}", "is not trusted"),
        ("elsewhere", "cacertfile={trusted}", "is not trusted: IP address mismatch"),
        ("server", "cacertfile=no/such.pem", "cacertfile=no/such.pem: No such file"),
        ("server", "certfile={trusted}", "certfile=.*: no certificate in PEM with its key"),
    ],
)
def test_untrusted_certificate_is_raised_immediately(
    authority: Authority, context: str, query: str, said: str
) -> None:
    query = query.format(trusted=authority.trusted, other=authority.other)
    for url in urls(getattr(authority, context), query):
        with pytest.raises(LinkError, match=said):
            asyncio.run(bridged(url, "file:out.jsonl?protocol=1.0"))


@pytest.mark.parametrize(
    "context, query",
    [
        ("server", "cacertfile={trusted}"),
        ("elsewhere", "cacertfile={trusted}&server_name_indication=elsewhere.example"),
        ("elsewhere", "verify=verify_none"),
        ("strict", "cacertfile={trusted}&certfile={client}"),
    ],
)
def test_trusted_certificates_are_an_option(authority: Authority, context: str, query: str) -> None:
    query = query.format(trusted=authority.trusted, client=authority.client)
    for url in urls(getattr(authority, context), query):
        counts = asyncio.run(bridged(url, "file:out.jsonl?protocol=1.0"))
        assert ("ended", 0) == (counts.state, counts.source_lost)


def test_client_certificate_authenticates_0_9_1(authority: Authority) -> None:
    broker = BasicBroker("q")
    broker.tls = authority.strict
    query = f"queue=q&cacertfile={authority.trusted}&certfile={authority.client}"
    with running(broker):
        url = broker.url(f"{query}&auth_mechanism=external").replace("guest:guest@", "")
        asyncio.run(bridged(url, "file:out.jsonl"))

    assert "EXTERNAL" in broker.mechanisms


class Knowing(asyncio.Protocol, transport.Handler):
    """A server of 1.0 that takes who its client is from the certificate (SASL EXTERNAL)."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen
        self.sasl: transport.SaslFrames | None = transport.SaslFrames()
        self.engine = transport.Connection(self, transport.Open(container_id="knowing"))
        self.stream: Any = None

    def connection_made(self, stream: Any) -> None:
        self.stream = stream
        names = dict(stream.get_extra_info("peercert")["subjectAltName"])
        self.seen.append(names["email"])

    def data_received(self, data: bytes) -> None:
        if self.sasl is not None:
            data = self.authenticate(self.sasl, data)
        self.engine.feed(data)
        while self.engine.step():
            pass
        self.stream.write(self.engine.take())

    def authenticate(self, frames: transport.SaslFrames, data: bytes) -> bytes:
        frames.feed(data)
        if len(self.seen) == 1:
            self.seen.append(frames.header())
            offered = Array("symbol", [Symbol("PLAIN"), Symbol("EXTERNAL")])
            mechanisms = transport.sasl_frame(transport.SaslCode.MECHANISMS, offered)
            self.stream.write(transport.SASL_HEADER + mechanisms)
        found = frames.next()
        if found is None:
            return b""
        self.seen.append(found)
        self.stream.write(transport.sasl_frame(transport.SaslCode.OUTCOME, UByte(0)))
        self.sasl = None
        return frames.rest()

    def on_open(self) -> None:
        self.engine.open()

    def on_begin(self, session: transport.Session) -> None:
        session.begin()

    def on_attach(self, link: transport.Link) -> None:
        link.attach(source=Source(address="q"), target=Target(address="q"))

    def on_flow(self, link: transport.Link) -> None:
        link.drained()


def test_client_certificate_authenticates_1_0(authority: Authority) -> None:
    seen: list[Any] = []

    async def run() -> Any:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Knowing(seen), "127.0.0.1", 0, ssl=authority.strict
        )
        async with server:
            port = server.sockets[0].getsockname()[1]
            query = f"cacertfile={authority.trusted}&certfile={authority.client}"
            url = f"amqps://127.0.0.1:{port}/q?{query}&auth_mechanism=external"
            return await bridged(url, "file:out.jsonl", sole_consumer=True)

    counts = asyncio.run(run())

    assert ("ended", 0) == (counts.state, counts.source_lost)
    init = (transport.SaslCode.INIT, ["EXTERNAL", b"", "127.0.0.1"])
    assert ["client@example.org", transport.SASL_HEADER, init] == seen


@pytest.mark.parametrize("scheme", ["amqp", "amqp091"])
@pytest.mark.parametrize(
    "first, said", [(b"", "sent anything; does it use TLS"), (b"A", "does the virtual host exist")]
)
def test_error_of_a_cut_connection_has_a_hint(scheme: str, first: bytes, said: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(first)
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            at = parse_url(f"{scheme}://127.0.0.1:{port}/?queue=q")
            ignore: Any = lambda *_: None  # noqa: E731
            await open_target(
                TargetRequest(
                    endpoint=at, on_outcomes=ignore, on_room=ignore, on_lost=ignore, window=1
                )
            )

    with pytest.raises(LinkError, match=said):
        asyncio.run(run())


# Credentials are seen by nobody.


def test_repeated_password_is_removed_from_errors() -> None:
    broker = BasicBroker("q")
    broker.refusal = f"no {PASSWORD} here"
    with running(broker):
        url = broker.url("queue=q", f"{USER}:{QUOTED}")
        with pytest.raises(LinkError, match="403 no … here"):
            asyncio.run(bridged(url, "file:out.jsonl"))


def test_credentials_never_appear_in_output(tmp_path: Path) -> None:
    """Whatever the command writes or shows, while it works and where it fails."""
    pytest.importorskip("prometheus_client")
    pytest.importorskip("setproctitle")
    secrets = [PASSWORD, QUOTED, USER]
    seen: dict[str, str] = {}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "amqp10msg"]

    def run(name: str, *arguments: str) -> None:
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        seen[name] = done.stdout + done.stderr

    users = {USER: PASSWORD}
    with Server(users=users, accept_durable=True, max_message_size=500) as server:
        signed = server.url.replace("amqp://", f"amqp://{USER}:{QUOTED}@")
        wrong = signed.replace(QUOTED, f"{QUOTED}x")
        Path("in.jsonl").write_text(line(Message(b"x")) + line(Message(b"x" * 1_000)))
        reports = ["--report", "r.json", "--report", "r.html"]
        run("works", "bridge", "--from", "file:in.jsonl", "--to", f"{signed}/a", "--until-empty",
            "--idle", "0.1", *reports, "--log", "json")  # fmt: skip
        run("fails", "bridge", "--from", f"{wrong}/a", "--to", f"{signed}/b")
        run("no url", "bridge", "--from", f"{signed}/a?no=such", "--to", f"{signed}/b")
        run("dry", "bridge", "--dry-run", "--from", f"{signed}/a", "--to", "amqp091://h/?queue=q",
            "--idle", "0.2", "--report", "d.html", "--report", "d.json")  # fmt: skip
        basic = signed.replace("amqp://", "amqp091://")
        run("check", "migrate-check", basic, "--queue", "q", "--report", "m.html")
        Path("routes.toml").write_text(f"[[route]]\nfrom='{signed}/a#'\nto='{signed}/b'")
        run("toml", "bridge", "--config", "routes.toml")
        ends = ["--from", f"{signed}/a", "--to", f"{signed}/b", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(
            [*command, "bridge", *ends], env=environment, stderr=subprocess.PIPE, text=True
        ) as process:
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            assert process.stderr is not None
            url = process.stderr.readline().strip()
            wait_until(lambda: server.counts("b").available >= 1)
            seen["metrics"] = urllib.request.urlopen(url).read().decode()
            url = url.replace("metrics", "health")
            seen["health"] = urllib.request.urlopen(url).read().decode()
            title = Path(f"/proc/{process.pid}/cmdline")
            if title.exists():
                seen["title"] = title.read_bytes().decode()
            process.send_signal(signal.SIGTERM)
            seen["live"] = process.stderr.read()
            watchdog.cancel()
    Path("routes.toml").unlink()
    seen |= {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}

    assert {"r.json", "r.html", "quarantine.jsonl", "d.html", "d.json", "m.html"} <= seen.keys()
    assert "unauthorized" in seen["fails"]
    assert "not a parameter of a URL" in seen["no url"]
    assert "route 1" in seen["toml"]
    shown = [(name, one) for name, text in seen.items() for one in secrets if one in text]
    assert [] == shown


#: Stands in for a package that is imported late, and says what the world sees by then.
_LATE = """
import os
import signal
import sys

print(open("/proc/self/cmdline").read().rstrip("\\0"), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="Linux shows command lines")
def test_process_title_and_signals_are_set_before_the_imports(tmp_path: Path) -> None:
    """SIGTERM, as soon as the command line is imported, ends the bridge in order."""
    pytest.importorskip("setproctitle")
    late = tmp_path / "late"
    late.mkdir()
    # What is imported first of what the command line needs.
    (late / "click.py").write_text(
        f"{_LATE}\nsys.path.remove({str(late)!r})\ndel sys.modules['click']\nimport click\n"
        "sys.modules['click'] = click\n"
    )
    with Server(users={USER: PASSWORD}, accept_durable=True) as server:
        server.publish("a", Message(b"x"))
        signed = server.url.replace("amqp://", f"amqp://{USER}:{QUOTED}@")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "amqp10msg",
                "bridge",
                "--until-empty",
                "--from",
                f"{signed}/a",
                "--to",
                f"{signed}/b",
            ],
            env={**os.environ, "PYTHONPATH": f"{late}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert 1 == server.counts("a").available

    title = done.stdout.splitlines()[0]
    assert title.startswith("amqp10msg bridge --until-empty --from amqp://")
    assert QUOTED not in title
    assert PASSWORD not in title
    assert 4 == done.returncode  # it was stopped before it asked its source
    assert "could not be counted: the source is not connected" in done.stdout


@contextlib.contextmanager
def redirecting(target: str) -> Iterator[str]:
    """Serve HTTP: redirect each request to `target`. Yield the URL of the server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", target + self.path)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with serving(Handler) as url:
        yield url


def request_version(url: str, certificates: Path) -> tuple[int, ...]:
    """Return the version that the API at `url` reports, trusting `certificates` only."""
    return Management(url, parse_url(f"amqps://guest:guest@h?cacertfile={certificates}")).version()


def test_management_api_over_https_is_verified(authority: Authority) -> None:
    overview = {"overview": {"rabbitmq_version": "4.0.5"}}
    with management([], others=overview, tls=authority.server) as url:
        assert (4, 0, 5) == request_version(url, authority.trusted)
        with pytest.raises(LinkError, match="CERTIFICATE_VERIFY_FAILED"):
            request_version(url, authority.other)


def test_redirect_of_the_management_api_to_https_is_verified(authority: Authority) -> None:
    """Only the redirected request needs certificates. It has no credentials."""
    with management([], tls=authority.server) as https, redirecting(https) as url:
        with pytest.raises(LinkError, match="401 Unauthorized"):
            request_version(url, authority.trusted)
        with pytest.raises(LinkError, match="CERTIFICATE_VERIFY_FAILED"):
            request_version(url, authority.other)


def test_management_api_over_http_loads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the certificates of the system takes longer than the request."""
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: pytest.fail("loaded"))
    with management([], others={"overview": {"rabbitmq_version": "4.0.5"}}) as url:
        assert (4, 0, 5) == request_version(url, Path("missing.pem"))


def test_unverified_certificate_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = parse_url("amqps://127.0.0.1:1/a?verify=verify_none")
    target = parse_url("amqps://127.0.0.1:1/b")

    async def run() -> None:
        with pytest.raises(LinkError, match="not reached"):
            async with Bridge(source, target, RouteOptions(connect_timeout=0.1)) as bridge:
                await bridge.run()

    asyncio.run(run())

    (said,) = (one for one in caplog.messages if one.startswith("certificate-not-verified"))
    assert "at=amqps://127.0.0.1:1/a " in said
