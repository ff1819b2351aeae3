"""URLs of the ends of a bridge: where, as whom, and which queue, exchange or address."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import attrs

from amqp10msg.brokers import stream_start

#: Protocol, whether by TLS, and the usual port, by scheme.
_SCHEMES = {
    "amqp091": ("0-9-1", False, 5672),
    "amqp091s": ("0-9-1", True, 5671),
    "amqp": ("1.0", False, 5672),
    "amqps": ("1.0", True, 5671),
}
#: Those of RabbitMQ's stream protocol, which only few take.
STREAM_SCHEMES = {
    "rabbitmq-stream": ("stream", False, 5552),
    "rabbitmq-stream+tls": ("stream", True, 5551),
}
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_FILE = re.compile(r"\$\{file:([^}]*)\}")
_SURROGATES: Any = {"encoding": "utf-8", "errors": "surrogateescape"}


@attrs.frozen
class Endpoint:
    """One end of a bridge; its text has no credentials.

    Attributes:
        protocol: ``0-9-1`` or ``1.0``; ``stream`` for RabbitMQ's stream protocol.
        host: its name or address.
        port: 1 to 65535.
        tls: by TLS, with the certificate verified unless `verify` says otherwise.
        user: for SASL PLAIN; None for ANONYMOUS (1.0) or guest (0-9-1).
        password: for SASL PLAIN.
        mechanism: of SASL: ``PLAIN``, ``EXTERNAL`` or ``ANONYMOUS``; None to choose by `user`.
        virtual_host: of RabbitMQ.
        address: of 1.0; None for the anonymous relay, where each message says where it goes.
        queue: of 0-9-1: the queue to consume, or to publish to by the default exchange.
        exchange: of 0-9-1; None for that of each message.
        routing_key: of 0-9-1; None for that of each message.
        file: the path of a file of messages, instead of a broker.
        route: of such a file, the name of the route that alone is meant; None for all.
        entries: of such a file as a target: the messages are those of a quarantine's queue, each
            with a line of the file in it.
        offset: where reading a stream begins: ``first``, ``last``, ``next``, an interval such as
            ``10m``, or an offset.
        heartbeat: seconds between signs of life, 1 to 65535.
        timeout: seconds that connecting and opening may take.
        cacertfile: certificates to trust, PEM; the system's where None.
        certfile: our own certificate, PEM.
        keyfile: its key, PEM.
        verify: whether the certificate of the peer is verified.
        server_name: the name that the certificate is for; the host where None.
        others: other places of the same, such as the other nodes of a cluster, which are tried in
            this order where this one cannot be reached.
    """

    protocol: str
    host: str
    port: int
    tls: bool = False
    user: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    mechanism: str | None = None
    virtual_host: str | None = None
    address: str | None = None
    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    file: str | None = None
    route: str | None = None
    entries: bool = False
    offset: str | None = None
    heartbeat: int = 30
    timeout: float = 30.0
    cacertfile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: bool = True
    server_name: str | None = None
    others: tuple[Endpoint, ...] = ()

    def __str__(self) -> str:
        """Return it as a URL without credentials, for people to read."""
        if self.file is not None:
            return f"file:{quote(self.file, **_SURROGATES)}?protocol={self.protocol}"
        scheme = next(
            name
            for name, row in (_SCHEMES | STREAM_SCHEMES).items()
            if row[:2] == (self.protocol, self.tls)
        )
        host = f"[{self.host}]" if ":" in self.host else self.host
        path = self.address if self.protocol == "1.0" else self.virtual_host
        shown = f"{scheme}://{host}:{self.port}/"
        if path is not None and path != "/":
            shown += quote(path, safe="/", **_SURROGATES)
        given = [
            f"{name}={quote(value, safe='', **_SURROGATES)}"
            for name in ("queue", "exchange", "routing_key")
            if self.protocol == "0-9-1" and (value := getattr(self, name)) is not None
        ]
        return shown + ("?" + "&".join(given) if given else "")

    @property
    def name(self) -> str:
        """The queue, exchange or address, or the name of the file."""
        if self.file is not None:
            return PurePath(self.file).name
        if self.protocol == "1.0":
            return self.address if self.address is not None else "(each message's own)"
        if self.queue is not None:
            return self.queue
        return self.exchange if self.exchange is not None else "(each message's own)"

    @property
    def places(self) -> tuple[Endpoint, ...]:
        """Return this one and the others, in the order in which they are tried."""
        return (self, *self.others)

    @property
    def start(self) -> str | int | None:
        """`offset` as a filter or an argument has it: an int where it is a number."""
        return None if self.offset is None else stream_start(self.offset)

    def read_from(self, offset: str) -> Endpoint:
        """Return it with another offset to read from, at each place."""
        others = tuple(attrs.evolve(one, offset=offset) for one in self.others)
        return attrs.evolve(self, offset=offset, others=others)

    @property
    def keeps(self) -> bool:
        """Whether this source keeps what was read, as streams and files do."""
        return self.offset is not None or self.file is not None

    @property
    def is_exposed(self) -> bool:
        """Whether a password would go to another machine in the clear."""
        local = self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"
        return self.password is not None and not self.tls and not local

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the settings of TLS, None where the connection has none.

        Raises:
            OSError: a file cannot be read.
        """
        if not self.tls:
            return None
        with _reading(f"cacertfile={self.cacertfile}", "no certificates in PEM"):
            context = ssl.create_default_context(cafile=self.cacertfile)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certfile is not None:
            wanted = "no certificate in PEM with its key, which keyfile= may name"
            with _reading(f"certfile={self.certfile}", wanted):
                context.load_cert_chain(self.certfile, self.keyfile)
        return context


@contextlib.contextmanager
def _reading(file: str, otherwise: str) -> Iterator[None]:
    """Say which file cannot be read, and what it is not: OpenSSL does not."""
    try:
        yield
    except ssl.SSLError:
        raise OSError(f"{file}: {otherwise}") from None
    except OSError as error:
        raise OSError(f"{file}: {error.strerror or error}") from None


#: What may be another at each place of one end.
_PLACE = (
    *("host", "port", "tls", "user", "password", "mechanism", "heartbeat", "timeout"),
    *("cacertfile", "certfile", "keyfile", "verify", "server_name", "others"),
)


def parse_urls(
    texts: Sequence[str],
    environment: Mapping[str, str] | None = None,
    also: Mapping[str, tuple[str, bool, int]] = MappingProxyType({}),
) -> Endpoint:
    """Read the URLs of one end, which is reached at any of them, in this order of preference.

    Args:
        texts: the URLs, as `parse_url` takes them.
        environment: variables; those of the process where None.
        also: other schemes, such as ``STREAM_SCHEMES``.

    Raises:
        ValueError: one is no such URL, there is none, or they name different things.
    """
    found = [parse_url(text, environment, also) for text in texts]
    if not found:
        raise ValueError("an end has a URL")
    first, *others = found
    for one in others:
        if attrs.evolve(one, **{name: getattr(first, name) for name in _PLACE}) != first:
            raise ValueError(f"{one} is not another place of {first}: they differ in more")
        if one.file is not None:
            raise ValueError(f"{one}: a file is in one place")
    return attrs.evolve(first, others=tuple(others))


def split_url(text: str) -> SplitResult:
    """Split a URL into its parts, whose host and port can be read without another error.

    Raises:
        ValueError: the URL cannot be split, its port is wrong, or there is an ``@`` after the host,
            as if the user or password had a ``/`` or ``?``. Unlike the errors of urllib, the
            message repeats no part of the URL, which may be a password.
    """
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        raise ValueError(
            "a URL cannot be split into user, password and host: write the characters []/?#@: in a "
            "user or password as %5B, %5D, %2F, %3F, %23, %40 and %3A, and others in UTF-8 likewise"
        ) from None
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("the port of a URL is a number from 1 to 65535") from None
    try:
        host.encode("idna")  # as the resolver does, whose error says nothing of a URL
    except UnicodeError:
        raise ValueError(
            "the host of a URL has an empty part between dots, or one of more than 63 characters"
        ) from None
    if parts.scheme != "file" and "@" in parts.path + parts.query + parts.fragment:
        raise ValueError(
            "an @ after the host of a URL is written %40; in a user or password, / is written %2F "
            "and ? is %3F"
        )
    return parts


def parse_url(
    text: str,
    environment: Mapping[str, str] | None = None,
    also: Mapping[str, tuple[str, bool, int]] = MappingProxyType({}),
) -> Endpoint:
    """Read the URL of one end.

    ``amqp091://user:password@host:port/vhost?queue=NAME`` is AMQP 0-9-1, also with ``exchange=``
    and ``routing_key=``; ``amqp://user:password@host:port/ADDRESS`` is 1.0, with ``?queue=`` or
    ``?exchange=`` for RabbitMQ's addresses (``address_version=1`` for those before 4.0). With an
    ``s`` after it, ``amqp091s`` and ``amqps``, by TLS. User and password may be ``${NAME}``, a
    variable of the environment, or ``${file:PATH}``, what a file holds. The other parameters are
    those of RabbitMQ's URIs: heartbeat, connection_timeout (ms), auth_mechanism, cacertfile,
    certfile, keyfile, verify, server_name_indication; and vhost (1.0), offset.

    ``file:PATH?protocol=0-9-1`` is a file of messages, a line each, as a quarantine has them;
    ``protocol`` is 1.0 where it is not given. A source may have ``route=`` and ``offset=``; a
    target that takes the messages of a quarantine's queue has ``entries=true``.

    Args:
        text: the URL.
        environment: variables; those of the process where None.
        also: other schemes, such as ``STREAM_SCHEMES``: a URL of RabbitMQ's stream protocol is
            ``rabbitmq-stream://user:password@host:port/vhost``.

    Raises:
        ValueError: it is not such a URL. The message does not repeat it: it may hold a password.
    """
    text = with_files(text)
    if "#" in text:
        raise ValueError("a # in a URL is written %23")
    parts = split_url(text.strip())
    if parts.scheme == "file":
        return _file(parts)
    schemes = {**_SCHEMES, **also}
    if parts.scheme not in schemes:
        raise ValueError(
            f"a URL begins with one of {', '.join(f'{name}://' for name in schemes)}, file:, not "
            f"{parts.scheme[:20]!r}"
        )
    if not text.strip()[len(parts.scheme) :].startswith("://"):
        # The host would be part of the path, which logs and errors show, with any password.
        raise ValueError(f"a URL continues after its scheme with ://, as in {parts.scheme}://HOST")
    protocol, tls, port = schemes[parts.scheme]
    variables = os.environ if environment is None else environment
    port = parts.port or port
    query = _query(parts.query)
    made: dict[str, Any] = {
        "protocol": protocol,
        "host": parts.hostname or "localhost",
        "port": port,
        "tls": tls,
        "user": secret(parts.username, variables),
        "password": secret(parts.password, variables),
    }
    path = parts.path[1:]
    named = {name: query.pop(name, None) for name in ("queue", "exchange", "routing_key")}
    if protocol == "stream" and any(one is not None for one in named.values()):
        raise ValueError("a URL of the stream protocol names no queue and no exchange")
    if protocol != "1.0":
        made["virtual_host"] = unquote(path) if path else "/"
        made |= named
        if named["queue"] is not None and named["exchange"] is not None:
            raise ValueError("queue= and exchange= exclude each other")
        if made["user"] is None and query.get("auth_mechanism", "").upper() != "EXTERNAL":
            made["user"], made["password"] = "guest", "guest"
    else:
        made["virtual_host"] = query.pop("vhost", None)
        made["address"] = _address(unquote(path, **_SURROGATES), query, named)
    made |= _options(query)
    return Endpoint(**made)


def _file(parts: SplitResult) -> Endpoint:
    query = _query(parts.query)
    path = unquote(parts.path, **_SURROGATES)
    if parts.netloc not in {"", "localhost"} or not path:
        raise ValueError("a file is file:PATH, or file:///PATH from the root on")
    protocol = query.pop("protocol", "1.0")
    if protocol not in {"0-9-1", "1.0"}:
        raise ValueError(f"protocol is 0-9-1 or 1.0, not {protocol[:20]!r}")
    route, offset = query.pop("route", None), query.pop("offset", None)
    entries = query.pop("entries", "false")
    if entries not in {"true", "false"}:
        raise ValueError(f"entries is true or false, not {entries[:20]!r}")
    if query:
        name, known = min(query), "protocol, route, offset, entries"
        raise ValueError(f"{name[:40]!r} is not a parameter of a file: use {known}")
    whole: Any = {"route": route, "offset": offset, "entries": entries == "true"}
    return Endpoint(protocol, "", 0, file=path, **whole)


def _query(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, **_SURROGATES):
        if name in found:
            raise ValueError(f"the parameter {name!r} stands twice in a URL")
        found[name] = value
    return found


def with_files(text: str) -> str:
    """Return a URL in which ``${file:PATH}`` is what the file holds, without a newline at its end.

    Raises:
        ValueError: a file cannot be read; the message says which, and nothing of what it holds.
    """

    def read(match: re.Match[str]) -> str:
        try:
            held = Path(match[1]).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise ValueError(f"{match[1]}, which a URL names: {error.strerror}") from None
        return quote(held.removesuffix("\n").removesuffix("\r"), safe="", **_SURROGATES)

    return _FILE.sub(read, text)


def without_credentials(text: str) -> str:
    """Return the URL of a management API without user and password, for people to read."""
    scheme, colon, rest = text.partition("://")
    return f"{scheme}{colon}{rest.rpartition('@')[2]}"


def secret(text: str | None, environment: Mapping[str, str]) -> str | None:
    """Return a user or password of a URL, which may be ``${NAME}``, a variable."""
    if text is None:
        return None
    match = _VARIABLE.fullmatch(text)
    if match is None:
        return unquote(text)
    if match[1] not in environment:
        raise ValueError(f"the environment has no variable {match[1]}, which a URL names")
    return environment[match[1]]


def _address(path: str, query: dict[str, str], named: dict[str, str | None]) -> str | None:
    """Return the address of a 1.0 terminus: as it stands, or RabbitMQ's for a queue or exchange."""
    version = query.pop("address_version", "2")
    if version not in {"1", "2"}:
        raise ValueError(f"address_version is 1 or 2, not {version!r}")
    stated = query.pop("address", None)
    queue, exchange, key = named["queue"], named["exchange"], named["routing_key"]
    given = [path or None, stated, queue, exchange]
    if sum(one is not None for one in given) > 1:
        raise ValueError("give the address once: as the path, address=, queue= or exchange=")
    quoted = _quoted if version == "2" else _quoted_before_4
    if queue is not None:
        return queue_address(queue, version)
    if exchange is not None:
        made = f"{'/exchanges' if version == '2' else '/exchange'}/{quoted(exchange)}"
        return made if key is None else f"{made}/{quoted(key)}"
    if key is not None:
        raise ValueError("routing_key= needs exchange= in a URL of AMQP 1.0")
    return stated if stated is not None else path or None


def queue_address(queue: str, version: str = "2") -> str:
    """Return the address that a queue has in RabbitMQ 4.0, or in version 1 that of older ones."""
    if version == "2":
        return f"/queues/{_quoted(queue)}"
    return f"/amq/queue/{_quoted_before_4(queue)}"


def _quoted(text: str) -> str:
    return quote(text, safe="", **_SURROGATES)


def _quoted_before_4(text: str) -> str:
    """Return a name as RabbitMQ 3 reads it: a slash alone is percent-encoded."""
    if not text.isascii() or "%2F" in text:
        raise ValueError(
            "address_version=1 has no address for a name that is not ASCII, or has %2F in it: "
            "RabbitMQ 3 has it over amqp091"
        )
    return text.replace("/", "%2F")


def _options(query: dict[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in query.items():
        if name in {"cacertfile", "certfile", "keyfile"}:
            made[name] = value
        elif name == "offset":
            if stream_start(value) is None:
                raise ValueError(
                    "offset is first, last, next, a number, or an interval such as 10m (of Y, M, "
                    f"D, h, m, s), not {value[:20]!r}"
                )
            made[name] = value
        elif name == "server_name_indication":
            made["server_name"] = value
        elif name == "heartbeat":
            made[name] = parameter_number(name, value, 1, 65_535)
        elif name == "connection_timeout":
            made["timeout"] = parameter_number(name, value, 1, 86_400_000) / 1000
        elif name == "auth_mechanism":
            made["mechanism"] = value.upper()
            if made["mechanism"] not in {"PLAIN", "EXTERNAL", "ANONYMOUS"}:
                raise ValueError("auth_mechanism is plain, external or anonymous")
        elif name == "verify":
            if value not in {"verify_peer", "verify_none"}:
                raise ValueError("verify is verify_peer (usual) or verify_none")
            made[name] = value == "verify_peer"
        else:
            raise ValueError(
                f"{name[:40]!r} is not a parameter of a URL: use queue, exchange, routing_key, "
                "address, address_version, vhost, offset, heartbeat, connection_timeout, "
                "auth_mechanism, cacertfile, certfile, keyfile, verify, server_name_indication"
            )
    return made


def parameter_number(name: str, value: str, low: int, high: int) -> int:
    """Return the number that a parameter of a URL has as its value.

    Raises:
        ValueError: it is not a number from `low` to `high`.
    """
    digits = value.isascii() and value.isdecimal() and len(value) <= 20
    if not digits or not low <= int(value) <= high:
        raise ValueError(f"{name} is a number from {low} to {high}, not {value[:20]!r}")
    return int(value)
