"""A client of RabbitMQ's management API: lists and declares the objects of a virtual host."""

from __future__ import annotations

import base64
import http
import http.client
import json
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import attrs

from amqp10msg.files.text import load_json
from amqp10msg.net.bridge.options import WAITS
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import (
    MAX_SHORT_NAME,
    Endpoint,
    is_short_name,
    secret,
    split_url,
    with_files,
)
from amqp10msg.net.ends.wire import explain_protocol

#: Maximum size of an answer, in bytes.
_MAX_ANSWER = 64 << 20
#: Maximum number of bytes that are read of an error answer.
_MAX_ERROR_ANSWER = 4_096
#: The string fields that objects listed by `Management.all` must have, by kind of object.
_REQUIRED_FIELDS = {
    "exchanges": ("name", "type"),
    "bindings": ("source", "destination", "destination_type", "routing_key"),
    "policies": ("name",),
}
#: The hint for a user who may not use the API.
_UNTAGGED_HINT = (
    ": the user has none of the tags management, policymaker, monitoring, administrator; "
    "add one with rabbitmqctl set_user_tags USER management"
)

#: The hint for a wrong user or password.
_WRONG_USER_HINT = (
    ": wrong user or password; by default, those of the broker's URL are sent: write others into "
    "the URL of the API, as in http://USER:PASSWORD@HOST:15672"
)
_USUAL_PORT = "check the port: the management API has 15672 by default, and 15671 with TLS"
_OTHER_SERVER = (
    "no management API of RabbitMQ answers there; check host, port and path, and whether the "
    "plugin rabbitmq_management is enabled"
)
_NO_TLS = "the peer does not use TLS, for which the URL is http://"
#: What to do if a peer speaks another protocol.
_OTHER_PROTOCOL_ADVICE = {
    **dict.fromkeys(("AMQP 0-9-1", "AMQP 1.0"), _USUAL_PORT),
    "TLS": "for which the URL is https://",
}


class Management:
    """A client of RabbitMQ's management API for one virtual host.

    Every request raises `LinkError` if the API does not answer or refuses the request, and
    `ValueError` if the answer does not have RabbitMQ's format.

    Args:
        management: the URL of the API. The user and password in it may be ``${NAME}`` or
            ``${file:PATH}``; by default they are the endpoint's.
        endpoint: the broker; has the virtual host and the certificate files.
        environment: environment variables; None for `os.environ`.
        timeout: seconds for connecting, and for each read of an answer.

    Attributes:
        password: the password that is sent to the API; None for no password.
        url: the URL of the API without credentials.
        is_exposed: whether the password would be sent to another machine without TLS.

    Raises:
        ValueError: the URL is invalid. The message does not repeat it: it may contain a password.
    """

    def __init__(
        self,
        management: str,
        endpoint: Endpoint,
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float = WAITS.management_timeout,
    ) -> None:
        self._timeout = timeout
        text = with_files(management)
        try:
            parts = split_url(text)
        except ValueError:
            parts = split_url("")  # raises the error below
        host = parts.hostname or ""
        # A second @ means that the user or password contains an unencoded slash or @.
        if (
            parts.scheme not in {"http", "https"}
            or not host
            or text.count("@") > ("@" in parts.netloc)
        ):
            raise ValueError(
                "the URL of a management API must be like http://host:15672; in a user and "
                "password, write / as %2F and @ as %40"
            )
        variables = os.environ if environment is None else environment
        user, password = secret(parts.username, variables), secret(parts.password, variables)
        if user is None:
            user, password = endpoint.user, endpoint.password
        self.password = password
        local = host in {"localhost", "::1"} or host.startswith("127.")
        self.is_exposed = password is not None and parts.scheme == "http" and not local
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        credentials = f"{user or ''}:{password or ''}".encode(errors="surrogateescape")
        self._basic_credentials = base64.b64encode(credentials).decode("ascii")
        self._endpoint = endpoint
        self._quoted_virtual_host = quote(endpoint.virtual_host or "/", safe="")

    def queues(self, path_suffix: str) -> Any:
        """Return the answer about queues of the virtual host.

        `path_suffix` is a query for all queues, or a slash and the encoded name of a queue.
        """
        return self.get(f"queues/{self._quoted_virtual_host}{path_suffix}")

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return all ``exchanges``, ``bindings`` or ``policies`` of the virtual host.

        Each object has the fields of `_REQUIRED_FIELDS`, as strings.
        """
        answer = self.get(f"{kind}/{self._quoted_virtual_host}")
        if not isinstance(answer, list) or not all(isinstance(item, dict) for item in answer):
            raise self.unknown_answer(f"a list of objects as {kind}")
        for item in answer:
            for name in _REQUIRED_FIELDS[kind]:
                if not isinstance(item.get(name), str):
                    raise self.unknown_answer(f"a string {name!r} in each of the {kind}")
        return answer

    def unknown_answer(self, expected: str) -> ValueError:
        """Return the error for an answer without the `expected` content, a noun phrase."""
        return ValueError(f"{self.url} is not a management API of RabbitMQ: expected {expected}")

    def version(self) -> tuple[int, ...]:
        """Return the version of the broker, such as (4, 0, 5)."""
        version = table(self.get("overview")).get("rabbitmq_version")
        parts = re.findall(r"\b[0-9]{1,9}\b", version) if isinstance(version, str) else []
        if not parts:
            raise self.unknown_answer("a string 'rabbitmq_version' in the overview")
        return tuple(map(int, parts[:3]))

    def create(
        self, method: str, kind: str, name_parts: Sequence[str], body: Mapping[str, Any]
    ) -> None:
        """Create an object in the virtual host.

        Args:
            method: the HTTP method.
            kind: the kind of object, as in the path: ``queues``, ``bindings`` and so on.
            name_parts: the components of the path after the virtual host, which name the object.
            body: the definition of the object.
        """
        path = "/".join(
            [kind, self._quoted_virtual_host, *(quote(part, safe="") for part in name_parts)]
        )
        self._request(f"{self.url}/api/{path}", method, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        """Return the parsed answer to a GET request of ``/api/`` and `path`."""
        url = f"{self.url}/api/{path}"
        octets = self._request(url)
        try:
            return load_json(octets)
        except ValueError as error:
            raise ValueError(f"{url.partition('?')[0]}: {error}: {_OTHER_SERVER}") from None

    def unacknowledged(self, queue: str) -> int | None:
        """Return the number of unacknowledged messages of a queue; None if RabbitMQ has none yet.

        RabbitMQ updates the number every few seconds: it may be 12 s old.
        """
        answer = self.queues(f"/{quote(queue, safe='')}")
        count = answer.get("messages_unacknowledged") if isinstance(answer, dict) else None
        return count if type(count) is int else None

    def _request(self, url: str, method: str = "GET", body: bytes | None = None) -> bytes:
        """Send a request, and return the body of the answer."""
        # The scheme is http or https: the constructor checks it.
        request = urllib.request.Request(url, body, method=method)  # noqa: S310  (see above)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        request.add_unredirected_header("Authorization", f"Basic {self._basic_credentials}")
        context = self._tls_context() if url.startswith("https:") else None
        # Connect directly, as to the broker: ignore the proxies of the environment.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), _HTTPSHandler(lambda: context or self._tls_context())
        )
        url_without_query = url.partition("?")[0]
        try:
            with opener.open(request, timeout=self._timeout) as answer:
                octets: bytes = answer.read(_MAX_ANSWER)
            return octets
        except urllib.error.HTTPError as error:
            with error:
                answer = error.read(_MAX_ERROR_ANSWER)
            hint = _refusal_reason(answer) if method != "GET" else _error_hint(error.code, answer)
            raise LinkError(
                f"{url_without_query}: {error.code} {error.reason}{hint}", permanent=True
            ) from None
        except urllib.error.URLError as error:
            raise LinkError(f"{url_without_query}: {_connection_problem(error.reason)}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # HTTPException: the answer is not HTTP, or ends early. ValueError: the answer is a
            # redirect to an invalid URL.
            raise LinkError(f"{url_without_query}: {_connection_problem(error)}") from None

    def _tls_context(self) -> ssl.SSLContext:
        return self._endpoint.tls_context() or ssl.create_default_context()


def _error_hint(code: int, answer: bytes) -> str:
    """Return ": " and the likely cause of an error status of a GET request; empty if unknown."""
    if b"Not management user" in answer:
        return _UNTAGGED_HINT
    if code == http.HTTPStatus.UNAUTHORIZED:
        return _WRONG_USER_HINT
    if code == http.HTTPStatus.NOT_FOUND:
        try:
            is_of_api = "error" in table(load_json(answer))
        except ValueError:
            is_of_api = False
        return ": no such virtual host or object" if is_of_api else f": {_OTHER_SERVER}"
    return ""


def _connection_problem(error: Any) -> str:
    """Describe why a request got no answer of HTTP, and what to do.

    Args:
        error: an exception, or the reason of a URLError, which may be a string.
    """
    text = str(error) or type(error).__name__
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, OSError):
        first_bytes = str(error.args[0]).encode("latin-1", "replace")[:8]
        hint = explain_protocol(first_bytes, _OTHER_PROTOCOL_ADVICE)
        return f"the answer is not HTTP: it begins with {first_bytes!r}{hint or f': {_USUAL_PORT}'}"
    if isinstance(error, ssl.SSLError):
        return f"{text}: {_NO_TLS}" if error.reason == "WRONG_VERSION_NUMBER" else text
    if isinstance(error, ConnectionRefusedError):
        return f"{error.strerror}: nothing listens on that port; {_USUAL_PORT}"
    if isinstance(error, ConnectionError):  # closed without an answer, as by a broker's AMQP port
        return f"{text}: {_USUAL_PORT}"
    return text


class _HTTPSHandler(urllib.request.HTTPSHandler):
    """Opens https URLs, and calls `create_context` only then.

    A context loads the system's certificates, which takes 20 ms. A request to an http URL needs
    none, unless the answer is a redirect to an https URL.
    """

    def __init__(self, create_context: Callable[[], ssl.SSLContext]) -> None:
        # The constructor of HTTPSHandler creates a context in Python 3.12 and later.
        urllib.request.AbstractHTTPHandler.__init__(self)
        self._create_context = create_context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(http.client.HTTPSConnection, req, context=self._create_context())


def _refusal_reason(answer: bytes) -> str:
    """Return ": " and the reason in the answer to a refused declaration, or an empty string."""
    try:
        reason = table(load_json(answer)).get("reason")
    except ValueError:
        return ""
    return f": {reason}" if isinstance(reason, str) else ""


#: Number of queues per request.
_PAGE_SIZE = 100
#: Maximum number of pages, for a million queues. It limits the work that a broker can cause.
_MAX_PAGES = 10_000
#: Maximum number of times that the queues are listed until two consecutive lists are equal.
_MAX_LISTINGS = 10
# What changes for a queue in RabbitMQ 4; see `Queue.notes`.
_MIRRORED_NOTE = (
    "mirrored: RabbitMQ 4.0 and later have no mirrored classic queues, and one copy remains; "
    "declare a quorum queue"
)
_TRANSIENT_NOTE = "neither durable nor exclusive: RabbitMQ 4.3 and later refuse to declare it"
_LAZY_NOTE = "lazy: has no effect in RabbitMQ 3.12 and later"
_VERSION_1_NOTE = "storage of version 1: removed in RabbitMQ 4.3"
_NO_LIMIT_NOTE = "no delivery-limit: RabbitMQ 4.0 and later drop a message after 20 redeliveries"
EXCLUSIVE_NOTE = "exclusive: only the connection that declared the queue can read it"


@attrs.frozen
class Queue:
    """A queue of RabbitMQ.

    Attributes:
        name: the name of the queue.
        kind: ``classic``, ``quorum`` or ``stream``; empty if unknown.
        messages: number of messages; None if unknown.
        notes: what changes for this queue in RabbitMQ 4, a sentence each.
        exclusive: whether only the connection that declared the queue can use it.
        durable: whether the queue survives a restart of the broker.
        auto_delete: whether the queue is deleted with its last consumer.
        arguments: the arguments with which the queue was declared.
        policy: the name of the policy of the queue; empty if there is none.
        effective: the combined definition of the policies that apply to the queue.
    """

    name: str
    kind: str = ""
    messages: int | None = None
    notes: tuple[str, ...] = ()
    exclusive: bool = False
    durable: bool = True
    auto_delete: bool = False
    arguments: Mapping[str, Any] = attrs.Factory(dict)
    policy: str = ""
    effective: Mapping[str, Any] = attrs.Factory(dict)

    @classmethod
    def of(cls, item: Any) -> Queue:
        """Return the queue that an object of the management API describes.

        Raises:
            ValueError: the object does not describe a queue.
        """
        if not isinstance(item, dict):
            raise ValueError("the management API lists a queue that is not an object")  # noqa: TRY004  (of an answer)
        name, kind, policy = (item.get(key, "") for key in ("name", "type", "policy"))
        for key, text in (("name", name), ("type", kind), ("policy", policy or "")):
            if not isinstance(text, str) or not is_short_name(text):
                raise ValueError(
                    f"the management API lists a queue whose {key} is {text!r:.80}, and not a "
                    f"string of at most {MAX_SHORT_NAME} bytes"
                )
        if not name or "arguments" not in item:
            raise ValueError("the management API lists a queue without a name or its arguments")
        kind, messages = kind or "classic", item.get("messages")
        effective = table(item.get("effective_policy_definition"))
        arguments = table(item["arguments"])
        settings = {**effective, **{key.removeprefix("x-"): v for key, v in arguments.items()}}
        exclusive, durable = bool(item.get("exclusive")), bool(item.get("durable", True))
        transient = not durable and not exclusive
        notes = [
            note
            for note, holds in (
                (_MIRRORED_NOTE, "ha-mode" in settings),
                (_TRANSIENT_NOTE, transient),
                (_LAZY_NOTE, settings.get("queue-mode") == "lazy"),
                (_VERSION_1_NOTE, settings.get("queue-version") == 1),
                (_NO_LIMIT_NOTE, kind == "quorum" and "delivery-limit" not in settings),
                (EXCLUSIVE_NOTE, exclusive),
            )
            if holds
        ]
        count = messages if type(messages) is int else None
        return cls(
            name,
            kind,
            count,
            tuple(notes),
            exclusive,
            durable,
            auto_delete=bool(item.get("auto_delete")),
            arguments=arguments,
            policy=policy or "",
            effective=effective,
        )


def table(value: Any) -> dict[str, Any]:
    """Return a JSON object of the API, or {} for any other value: the API writes {} as []."""
    return value if isinstance(value, dict) else {}


def queues_of(api: Management) -> list[Queue]:
    """Return the queues of a virtual host, sorted by name.

    Raises:
        LinkError: the API does not answer, or the queues change while they are listed.
        ValueError: an answer does not have RabbitMQ's format.
    """
    previous_names: set[str] | None = None
    for _ in range(_MAX_LISTINGS):
        queues, pages = _list_pages(api)
        # List twice: if a queue is deleted between two requests, another queue moves to the page
        # that was read before, and is missed. Queues that are deleted with their clients are not
        # compared, because clients may create and delete them all the time.
        names = {
            name for name, queue in queues.items() if not (queue.exclusive or queue.auto_delete)
        }
        if pages <= 1 or names == previous_names:
            return [queues[name] for name in sorted(queues)]
        previous_names = names
    raise LinkError(f"{api.url}: its queues change faster than they can be listed")


def _list_pages(api: Management) -> tuple[dict[str, Queue], int]:
    """Return the queues of all pages by name, and the number of pages."""
    queues: dict[str, Queue] = {}
    page, pages = 1, 1
    while page <= pages:
        answer = table(api.queues(f"?page={page}&page_size={_PAGE_SIZE}"))
        items, count = answer.get("items"), answer.get("page_count")
        if type(count) is not int or not isinstance(items, list) or len(items) > _PAGE_SIZE:
            raise api.unknown_answer(f"pages of at most {_PAGE_SIZE} queues")
        pages = count
        if pages > _MAX_PAGES:
            raise ValueError(
                f"{api.url}: {pages:,} pages of queues exceed the limit, {_MAX_PAGES:,}"
            )
        queues |= {queue.name: queue for queue in map(Queue.of, items)}
        page += 1
    return queues, pages
