"""URLs of a bridge's sources and targets: host, credentials, and queue, exchange or address."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import attrs

from amqp10msg.brokers import stream_start
from amqp10msg.options import declared, options_of

#: Protocol, whether TLS is used, and the default port, by scheme.
_SCHEMES = {
    "amqp091": ("0-9-1", False, 5672),
    "amqp091s": ("0-9-1", True, 5671),
    "amqp": ("1.0", False, 5672),
    "amqps": ("1.0", True, 5671),
}
#: The same for RabbitMQ's stream protocol, which a bridge does not use.
STREAM_SCHEMES = {
    "rabbitmq-stream": ("stream", False, 5552),
    "rabbitmq-stream+tls": ("stream", True, 5551),
}
#: The schemes whose URLs have a path instead of a host.
_PATH_SCHEMES = ("file", "parquet")
#: A user or password that is the value of an environment variable.
_ENVIRONMENT_VARIABLE_PATTERN = re.compile(r"\$\{(\w+)\}")
#: A part of a URL that is replaced by the content of a file.
_FILE_REFERENCE_PATTERN = re.compile(r"\$\{file:([^}]*)\}")
#: Maximum size in bytes of a short string of AMQP 0-9-1 (4.2.5.3).
MAX_SHORT_NAME = 255
#: Arguments of `quote`, `unquote` and `parse_qsl` for bytes that are not UTF-8.
_SURROGATEESCAPE_ARGUMENTS: Any = {"encoding": "utf-8", "errors": "surrogateescape"}


@attrs.frozen
class FileLimits:
    """When a target writes the pending messages to a Parquet file: at the first limit reached.

    Attributes:
        rows: maximum number of messages in a file.
        octets: total size of the messages, in bytes, at which a file is written.
        seconds: maximum time from a file's first message to the write, 0.01 to 86,400 seconds.

    Raises:
        TypeError: a limit is not a number.
        ValueError: a limit is out of range.
    """

    rows: int = declared(10_000, int, low=1)
    octets: int = declared(16 << 20, int, low=1)
    seconds: float = declared(1.0, float, low=0.01, high=86_400)


def is_short_name(text: str) -> bool:
    """Whether a name is a short string of AMQP 0-9-1: UTF-8 of at most 255 bytes (4.2.5.3)."""
    return _is_utf8(text) and len(text.encode()) <= MAX_SHORT_NAME


def _is_utf8(text: str) -> bool:
    """Whether a text can be encoded: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@attrs.frozen
class Endpoint:
    """A source or target of a bridge. Its `str` and `repr` contain no credentials.

    Attributes:
        protocol: ``0-9-1`` or ``1.0``; ``stream`` for RabbitMQ's stream protocol.
        host: host name or IP address.
        port: 1 to 65535.
        tls: whether to use TLS. The peer's certificate is verified unless `verify` is False.
        user: user name for SASL PLAIN; None for ANONYMOUS (1.0) or guest (0-9-1).
        password: password for SASL PLAIN.
        mechanism: SASL mechanism: ``PLAIN``, ``EXTERNAL`` or ``ANONYMOUS``; None to choose by
            `user`.
        virtual_host: RabbitMQ's virtual host.
        address: the address of a 1.0 terminus; None for the anonymous terminus, to which each
            message names its own address.
        queue: for 0-9-1, the queue to consume, or to publish to by the default exchange.
        exchange: for 0-9-1, the exchange; None for the exchange of each message.
        routing_key: for 0-9-1, the routing key; None for the routing key of each message.
        file: the path of a file of messages, or of a folder of Parquet files, instead of a broker.
        parquet: for a folder of Parquet files, a target, when to write a file; None otherwise.
        route: for a file as a source, the route whose messages are read; None for all messages.
        entries: for a file as a target, the messages come from a quarantine queue: each body is a
            line of the file.
        offset: the position at which to start reading a stream: ``first``, ``last``, ``next``,
            an interval such as ``10m``, or an offset.
        heartbeat: heartbeat interval in seconds, 1 to 65535.
        timeout: timeout of connecting and opening, in seconds.
        cacertfile: PEM file of the trusted certificates; None for the system's.
        certfile: PEM file of the client's certificate.
        keyfile: PEM file of the client's private key; None if `certfile` contains the key.
        verify: whether to verify the peer's certificate.
        server_name: host name that the peer's certificate must have; None for `host`.
        others: alternative endpoints, such as further nodes of a cluster. They are tried in this
            order if this endpoint cannot be reached.

    Raises:
        ValueError: a name cannot be sent: over 0-9-1, a queue, exchange or virtual host that is not
            UTF-8 or has more than 255 bytes, or a longer routing key; over 1.0, an address or
            virtual host that is not UTF-8.
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
    parquet: FileLimits | None = None
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

    def __attrs_post_init__(self) -> None:
        if self.protocol == "1.0":
            for name in ("address", "virtual_host"):
                if not _is_utf8(text := getattr(self, name) or ""):
                    raise ValueError(f"the {name} of a URL must be UTF-8, not {text[:40]!r}")
        elif self.protocol == "0-9-1":
            for name in ("queue", "exchange", "virtual_host"):
                if not is_short_name(text := getattr(self, name) or ""):
                    raise ValueError(
                        f"the {name} of a URL of AMQP 0-9-1 must be UTF-8 of at most "
                        f"{MAX_SHORT_NAME} bytes, not {text[:40]!r}"
                    )
            # The bridge sends a routing key as bytes, in which any byte is valid.
            key = (self.routing_key or "").encode("utf-8", "surrogateescape")
            if len(key) > MAX_SHORT_NAME:
                raise ValueError(
                    f"the routing_key of a URL must have at most {MAX_SHORT_NAME} bytes, not "
                    f"{len(key)}"
                )

    def __str__(self) -> str:
        """Return the URL without credentials, for people to read."""
        if self.file is not None:
            file = quote(self.file, **_SURROGATEESCAPE_ARGUMENTS)
            is_parquet = self.parquet is not None
            return f"parquet:{file}" if is_parquet else f"file:{file}?protocol={self.protocol}"
        scheme = next(
            name
            for name, row in (_SCHEMES | STREAM_SCHEMES).items()
            if row[:2] == (self.protocol, self.tls)
        )
        host = f"[{self.host}]" if ":" in self.host else self.host
        path = self.address if self.protocol == "1.0" else self.virtual_host
        url = f"{scheme}://{host}:{self.port}/"
        if path is not None and path != "/":
            url += quote(path, safe="/", **_SURROGATEESCAPE_ARGUMENTS)
        parameters = [
            f"{name}={quote(value, safe='', **_SURROGATEESCAPE_ARGUMENTS)}"
            for name in ("queue", "exchange", "routing_key")
            if self.protocol == "0-9-1" and (value := getattr(self, name)) is not None
        ]
        return url + ("?" + "&".join(parameters) if parameters else "")

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
        """This endpoint and its alternatives, in the order in which they are tried."""
        return (self, *self.others)

    @property
    def start(self) -> str | int | None:
        """`offset` as the stream filter or argument expects it: a number as an int."""
        return None if self.offset is None else stream_start(self.offset)

    def read_from(self, offset: str) -> Endpoint:
        """Return a copy that is read from `offset` on, also at its alternative addresses."""
        alternatives = tuple(
            attrs.evolve(alternative, offset=offset) for alternative in self.others
        )
        return attrs.evolve(self, offset=offset, others=alternatives)

    @property
    def keeps(self) -> bool:
        """Whether messages stay at this source after reading, as in streams and files."""
        return self.offset is not None or self.file is not None

    @property
    def is_exposed(self) -> bool:
        """Whether a password would be sent to another machine without TLS."""
        local = self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"
        return self.password is not None and not self.tls and not local

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings, or None for a connection without TLS.

        Raises:
            OSError: a certificate or key file cannot be read.
        """
        if not self.tls:
            return None
        with _name_file_in_errors(f"cacertfile={self.cacertfile}", "no certificates in PEM"):
            context = ssl.create_default_context(cafile=self.cacertfile)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certfile is not None:
            content_error = "no certificate in PEM with its key, which keyfile= may name"
            with _name_file_in_errors(f"certfile={self.certfile}", content_error):
                context.load_cert_chain(self.certfile, self.keyfile)
        return context


@contextlib.contextmanager
def _name_file_in_errors(file: str, content_error: str) -> Iterator[None]:
    """Convert errors of the ``with`` block to an OSError whose text begins with `file`.

    `content_error` replaces the text of OpenSSL for an invalid content of the file.
    """
    try:
        yield
    except ssl.SSLError:
        raise OSError(f"{file}: {content_error}") from None
    except OSError as error:
        raise OSError(f"{file}: {error.strerror or error}") from None


#: Attributes in which the alternative addresses of an endpoint may differ.
_ADDRESS_FIELDS = (
    *("host", "port", "tls", "user", "password", "mechanism", "heartbeat", "timeout"),
    *("cacertfile", "certfile", "keyfile", "verify", "server_name", "others"),
)


def parse_urls(
    texts: Sequence[str],
    environment: Mapping[str, str] | None = None,
    also: Mapping[str, tuple[str, bool, int]] = MappingProxyType({}),
) -> Endpoint:
    """Parse alternative URLs of a source or target, such as cluster nodes, in order of preference.

    Args:
        texts: the URLs, as for `parse_url`.
        environment: environment variables; None for `os.environ`.
        also: additional schemes, such as `STREAM_SCHEMES`.

    Raises:
        ValueError: a URL is invalid, `texts` is empty, or the URLs differ in more than the address.
    """
    endpoints = [parse_url(text, environment, also) for text in texts]
    if not endpoints:
        raise ValueError("no URL: a source or target needs at least one")
    first, *alternatives = endpoints
    for alternative in alternatives:
        if (
            attrs.evolve(alternative, **{name: getattr(first, name) for name in _ADDRESS_FIELDS})
            != first
        ):
            raise ValueError(
                f"{alternative} is not an alternative address of {first}: they differ in more than "
                "host, port, credentials and TLS"
            )
        if alternative.file is not None:
            raise ValueError(f"{alternative}: a file has no alternative addresses")
    return attrs.evolve(first, others=tuple(alternatives))


def split_url(text: str) -> SplitResult:
    """Split a URL into its parts. Reading `hostname` and `port` of the result does not raise.

    Raises:
        ValueError: the URL cannot be split, its host or port is invalid, or an ``@`` follows the
            host, probably because the user or password contains ``/`` or ``?``. Unlike urllib's
            errors, the message repeats no part of the URL, because it may be a password.
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
        raise ValueError("the port of a URL must be a number from 1 to 65535") from None
    try:
        host.encode("idna")  # the resolver's error for such a host would not mention the URL
    except UnicodeError:
        raise ValueError(
            "the host of a URL has an empty part between dots, or a part of more than 63 characters"
        ) from None
    if parts.scheme not in _PATH_SCHEMES and "@" in parts.path + parts.query + parts.fragment:
        raise ValueError(
            "write an @ after the host of a URL as %40; in a user or password, write / as %2F and "
            "? as %3F"
        )
    return parts


def parse_url(
    text: str,
    environment: Mapping[str, str] | None = None,
    also: Mapping[str, tuple[str, bool, int]] = MappingProxyType({}),
) -> Endpoint:
    """Parse the URL of a source or target.

    ``amqp091://user:password@host:port/vhost?queue=NAME`` is AMQP 0-9-1; ``exchange=`` and
    ``routing_key=`` may replace ``queue=``. ``amqp://user:password@host:port/ADDRESS`` is
    AMQP 1.0; ``?queue=`` or ``?exchange=`` are converted to RabbitMQ's addresses (with
    ``address_version=1``, to the addresses of RabbitMQ 3). ``amqp091s`` and ``amqps`` use TLS. User
    and password may be ``${NAME}``, an environment variable, or ``${file:PATH}``, the content of a
    file. The other parameters are RabbitMQ's: heartbeat (s), connection_timeout (ms),
    auth_mechanism, cacertfile, certfile, keyfile, verify, server_name_indication; and vhost (1.0)
    and offset.

    ``file:PATH?protocol=0-9-1`` is a file of messages, one per line, in the format of a quarantine;
    the default of ``protocol`` is 1.0. A source may have ``route=`` and ``offset=``. A target for
    the messages of a quarantine queue has ``entries=true``.

    ``parquet:PATH?rows=10000&octets=16777216&seconds=1`` is a folder of Parquet files, a target.
    The parameters are those of `FileLimits`.

    Args:
        text: the URL.
        environment: environment variables; None for `os.environ`.
        also: additional schemes, such as ``STREAM_SCHEMES``: a URL of RabbitMQ's stream protocol is
            ``rabbitmq-stream://user:password@host:port/vhost``.

    Raises:
        ValueError: the URL is invalid. The message does not repeat it: it may contain a password.
    """
    text = with_files(text)
    if "#" in text:
        raise ValueError("write a # in a URL as %23")
    parts = split_url(text.strip())
    if parts.scheme == "file":
        return _parse_file(parts)
    if parts.scheme == "parquet":
        return _parse_parquet(parts)
    schemes = {**_SCHEMES, **also}
    if parts.scheme not in schemes:
        raise ValueError(
            f"a URL must begin with one of {', '.join(f'{name}://' for name in schemes)}, file:, "
            f"parquet:, not {parts.scheme[:20]!r}"
        )
    if not text.strip()[len(parts.scheme) :].startswith("://"):
        # Otherwise user, password and host would be part of the path, which logs and errors show.
        raise ValueError(f"a URL must have :// after its scheme, as in {parts.scheme}://HOST")
    protocol, tls, port = schemes[parts.scheme]
    variables = os.environ if environment is None else environment
    port = parts.port or port
    query = _parse_query(parts.query)
    attributes: dict[str, Any] = {
        "protocol": protocol,
        "host": parts.hostname or "localhost",
        "port": port,
        "tls": tls,
        "user": secret(parts.username, variables),
        "password": secret(parts.password, variables),
    }
    path = parts.path[1:]
    names = {name: query.pop(name, None) for name in ("queue", "exchange", "routing_key")}
    if protocol == "stream" and any(value is not None for value in names.values()):
        raise ValueError("a URL of the stream protocol must not name a queue or exchange")
    if protocol != "1.0":
        attributes["virtual_host"] = unquote(path, **_SURROGATEESCAPE_ARGUMENTS) if path else "/"
        attributes |= names
        if names["queue"] is not None and names["exchange"] is not None:
            raise ValueError("queue= and exchange= are both given in a URL: use one of them")
        if attributes["user"] is None and query.get("auth_mechanism", "").upper() != "EXTERNAL":
            attributes["user"], attributes["password"] = "guest", "guest"
    else:
        attributes["virtual_host"] = query.pop("vhost", None)
        attributes["address"] = _terminus_address(
            unquote(path, **_SURROGATEESCAPE_ARGUMENTS), query, names
        )
    attributes |= _connection_attributes(query)
    return Endpoint(**attributes)


def _parse_file(parts: SplitResult) -> Endpoint:
    """Return the endpoint of a ``file:`` URL."""
    query, path = _parse_query(parts.query), _path_of(parts)
    protocol = query.pop("protocol", "1.0")
    if protocol not in {"0-9-1", "1.0"}:
        raise ValueError(f"protocol must be 0-9-1 or 1.0, not {protocol[:20]!r}")
    route, offset = query.pop("route", None), query.pop("offset", None)
    entries = query.pop("entries", "false")
    if entries not in {"true", "false"}:
        raise ValueError(f"entries must be true or false, not {entries[:20]!r}")
    if query:
        name, allowed = min(query), "protocol, route, offset, entries"
        raise ValueError(f"{name[:40]!r} is not a parameter of a file: use {allowed}")
    file_start(offset)
    return Endpoint(
        protocol, "", 0, file=path, route=route, offset=offset, entries=entries == "true"
    )


def file_start(offset: str | None) -> int:
    """Return the number of messages of a file that precede ``offset=``, which may be None.

    Raises:
        ValueError: the offset is neither ``first`` nor a number.
    """
    start = 0 if offset in {None, "", "first"} else stream_start(offset or "")
    if not isinstance(start, int):
        text = f"offset= of a file must be first or a number of messages, not {offset!r}"
        raise ValueError(text)  # noqa: TRY004  (of a URL)
    return start


def _parse_parquet(parts: SplitResult) -> Endpoint:
    """Return the endpoint of a ``parquet:`` URL. Its protocol is the protocol of the messages."""
    query, path = _parse_query(parts.query), _path_of(parts)
    limits: dict[str, float] = {}
    for field, option in options_of(FileLimits):
        if (text := query.pop(field.name, None)) is not None:
            try:
                limits[field.name] = option.kind(text)
            except ValueError:
                raise ValueError(f"{field.name} must be a number, not {text[:20]!r}") from None
    if query:
        name, allowed = min(query), "rows, octets, seconds"
        raise ValueError(f"{name[:40]!r} is not a parameter of Parquet files: use {allowed}")
    return Endpoint("1.0", "", 0, file=path, parquet=FileLimits(**limits))  # type: ignore[arg-type]


def parquet_source_error(endpoint: Endpoint) -> str:
    """Return why a folder of Parquet files cannot be a source, and which command reads it."""
    return (
        f"{endpoint}: Parquet files can be a target only; to send their messages, write them with "
        f"amqp10msg convert --out jsonl -o FILE.jsonl {shlex.quote(endpoint.file or '')} (for AMQP "
        "0-9-1, with amqp10msg translate --to 1.0), and use file:FILE.jsonl as the source"
    )


def _path_of(parts: SplitResult) -> str:
    """Return the path of a URL of one of `_PATH_SCHEMES`."""
    path = unquote(parts.path, **_SURROGATEESCAPE_ARGUMENTS)
    if parts.netloc not in {"", "localhost"} or not path:
        scheme = parts.scheme
        text = f"a URL of {scheme} must be {scheme}:PATH, or {scheme}:///PATH from the root"
        raise ValueError(text)
    return path


def _parse_query(text: str) -> dict[str, str]:
    """Return the parameters of a URL. Raises ValueError if one occurs twice."""
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, **_SURROGATEESCAPE_ARGUMENTS):
        if name in parameters:
            raise ValueError(f"the parameter {name!r} occurs twice in a URL")
        parameters[name] = value
    return parameters


def with_files(text: str) -> str:
    """Replace each ``${file:PATH}`` of a URL by the file's content without its final newline.

    Raises:
        ValueError: a file cannot be read. The message names the file, and shows no content.
    """

    def read(match: re.Match[str]) -> str:
        try:
            content = Path(match[1]).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise ValueError(f"{match[1]}, which a URL names: {error.strerror}") from None
        return quote(
            content.removesuffix("\n").removesuffix("\r"), safe="", **_SURROGATEESCAPE_ARGUMENTS
        )

    return _FILE_REFERENCE_PATTERN.sub(read, text)


def without_credentials(text: str) -> str:
    """Return the URL of a management API without its user and password."""
    scheme, separator, after_scheme = text.partition("://")
    return f"{scheme}{separator}{after_scheme.rpartition('@')[2]}"


def secret(text: str | None, environment: Mapping[str, str]) -> str | None:
    """Decode a user or password of a URL. ``${NAME}`` is replaced by an environment variable.

    Raises:
        ValueError: the environment does not have the variable.
    """
    if text is None:
        return None
    match = _ENVIRONMENT_VARIABLE_PATTERN.fullmatch(text)
    if match is None:
        return unquote(text)
    if match[1] not in environment:
        raise ValueError(f"the environment has no variable {match[1]}, which a URL names")
    return environment[match[1]]


def _terminus_address(path: str, query: dict[str, str], names: dict[str, str | None]) -> str | None:
    """Return the address of a 1.0 terminus, from the parts of a URL.

    A queue or exchange is converted to RabbitMQ's address. Removes the parameters from `query`.
    """
    version = query.pop("address_version", "2")
    if version not in {"1", "2"}:
        raise ValueError(f"address_version must be 1 or 2, not {version!r}")
    address = query.pop("address", None)
    queue, exchange, key = names["queue"], names["exchange"], names["routing_key"]
    if sum(choice is not None for choice in (path or None, address, queue, exchange)) > 1:
        raise ValueError("give the address once: as the path, address=, queue= or exchange=")
    quoted = _percent_encode if version == "2" else _percent_encode_for_3
    if queue is not None:
        return queue_address(queue, version)
    if exchange is not None:
        prefix = f"{'/exchanges' if version == '2' else '/exchange'}/{quoted(exchange)}"
        return prefix if key is None else f"{prefix}/{quoted(key)}"
    if key is not None:
        raise ValueError("routing_key= needs exchange= in a URL of AMQP 1.0")
    return address if address is not None else path or None


def queue_address(queue: str, version: str = "2") -> str:
    """Return RabbitMQ's 1.0 address of a queue. `version` is "2" for 4.0 and later, "1" for 3.x."""
    if version == "2":
        return f"/queues/{_percent_encode(queue)}"
    return f"/amq/queue/{_percent_encode_for_3(queue)}"


def _percent_encode(text: str) -> str:
    """Encode a name for an address of RabbitMQ 4 and later."""
    return quote(text, safe="", **_SURROGATEESCAPE_ARGUMENTS)


def _percent_encode_for_3(text: str) -> str:
    """Encode a name for RabbitMQ 3, which decodes %2F and no other percent-encoding."""
    if not text.isascii() or "%2F" in text:
        raise ValueError(
            "address_version=1 cannot express a name that is not ASCII or contains %2F: use "
            "amqp091 for RabbitMQ 3"
        )
    return text.replace("/", "%2F")


def _connection_attributes(query: dict[str, str]) -> dict[str, Any]:
    """Convert the remaining parameters of a URL to attributes of `Endpoint`."""
    attributes: dict[str, Any] = {}
    for name, value in query.items():
        if name in {"cacertfile", "certfile", "keyfile"}:
            attributes[name] = value
        elif name == "offset":
            if stream_start(value) is None:
                raise ValueError(
                    "offset must be first, last, next, a number, or an interval such as 10m (units "
                    f"Y, M, D, h, m, s), not {value[:20]!r}"
                )
            attributes[name] = value
        elif name == "server_name_indication":
            attributes["server_name"] = value
        elif name == "heartbeat":
            attributes[name] = parameter_number(name, value, 1, 65_535)
        elif name == "connection_timeout":
            attributes["timeout"] = parameter_number(name, value, 1, 86_400_000) / 1000
        elif name == "auth_mechanism":
            attributes["mechanism"] = value.upper()
            if attributes["mechanism"] not in {"PLAIN", "EXTERNAL", "ANONYMOUS"}:
                raise ValueError(
                    f"auth_mechanism must be plain, external or anonymous, not {value[:20]!r}"
                )
        elif name == "verify":
            if value not in {"verify_peer", "verify_none"}:
                raise ValueError(
                    f"verify must be verify_peer (default) or verify_none, not {value[:20]!r}"
                )
            attributes[name] = value == "verify_peer"
        else:
            raise ValueError(
                f"{name[:40]!r} is not a parameter of a URL: use queue, exchange, routing_key, "
                "address, address_version, vhost, offset, heartbeat, connection_timeout, "
                "auth_mechanism, cacertfile, certfile, keyfile, verify, server_name_indication"
            )
    return attributes


def parameter_number(name: str, value: str, low: int, high: int) -> int:
    """Parse a parameter of a URL as a decimal number.

    Raises:
        ValueError: the value is not a number from `low` to `high`.
    """
    digits = value.isascii() and value.isdecimal() and len(value) <= 20
    if not digits or not low <= int(value) <= high:
        raise ValueError(f"{name} must be a number from {low} to {high}, not {value[:20]!r}")
    return int(value)
