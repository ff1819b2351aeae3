"""RabbitMQ's management API: what a virtual host has, read once for all who ask, and made."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import attrs

from amqp10msg.files.text import load_json
from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint, secret, split_url, with_files
from amqp10msg.net.options import WAITS

#: Bytes of an answer that are read, at most.
_LARGEST = 64 << 20
#: Bytes of an error answer that are searched for the reason.
_REASON = 4_096
#: Bytes of the name of a queue, an exchange or a routing key, at most (0-9-1, 4.2.5.3).
_MAX_NAME = 255
#: Fields of the objects that `Management.all` lists. They are all strings.
_FIELDS = {
    "exchanges": ("name", "type"),
    "bindings": ("source", "destination", "destination_type", "routing_key"),
    "policies": ("name",),
}
_UNTAGGED = (
    ": the user has none of the tags management, policymaker, monitoring, administrator; "
    "rabbitmqctl set_user_tags USER management gives it one"
)


class Management:
    """A client of RabbitMQ's management API that reads and declares what one virtual host has.

    Every request raises `LinkError` if the API does not answer or refuses, and `ValueError` if the
    answer is not one of RabbitMQ's.

    User and password of the endpoint are used where the URL has none; they may be ``${NAME}`` or
    ``${file:PATH}``. The virtual host and the certificates are the endpoint's. A `ValueError` for a
    wrong URL does not repeat the URL, which may hold a password.

    `timeout` is in seconds: for connecting, and for each piece of an answer.

    Attributes:
        place: the URL of the API without credentials.
        is_exposed: whether a password would cross the network in the clear.
    """

    def __init__(
        self,
        management: str,
        endpoint: Endpoint,
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float = WAITS.management_answer,
    ) -> None:
        self._timeout = timeout
        text = with_files(management)
        try:
            parts = split_url(text)
        except ValueError:
            parts = split_url("")  # the error below says how to write it
        host = parts.hostname or ""
        # An @ elsewhere is after a user or password with a slash in it.
        if (
            parts.scheme not in {"http", "https"}
            or not host
            or text.count("@") > ("@" in parts.netloc)
        ):
            raise ValueError(
                "the management API has a URL such as http://host:15672, in whose user and "
                "password / is written %2F and @ is %40"
            )
        variables = os.environ if environment is None else environment
        user, password = secret(parts.username, variables), secret(parts.password, variables)
        if user is None:
            user, password = endpoint.user, endpoint.password
        self.password = password
        local = host in {"localhost", "::1"} or host.startswith("127.")
        self.is_exposed = password is not None and parts.scheme == "http" and not local
        self.place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        credentials = f"{user or ''}:{password or ''}".encode(errors="surrogateescape")
        self._word = base64.b64encode(credentials).decode("ascii")
        self._endpoint = endpoint
        self._host = quote(endpoint.virtual_host or "/", safe="")

    def queues(self, what: str) -> Any:
        """Return its answer about the queues, or about one.

        `what` follows the virtual host in the path.
        """
        return self.get(f"queues/{self._host}{what}")

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return all ``exchanges``, ``bindings`` or ``policies`` of the virtual host.

        The fields of `_FIELDS` are strings in each of them.
        """
        answer = self.get(f"{kind}/{self._host}")
        if not isinstance(answer, list) or not all(isinstance(item, dict) for item in answer):
            raise self.unknown_answer(f"{kind} are a list of objects")
        for item in answer:
            for name in _FIELDS[kind]:
                if not isinstance(item.get(name), str):
                    raise self.unknown_answer(f"{kind} have a string {name!r}")
        return answer

    def unknown_answer(self, rule: str) -> ValueError:
        """Return the error for an answer that breaks `rule`, which follows "whose"."""
        return ValueError(f"{self.place} is not a management API of RabbitMQ, whose {rule}")

    def version(self) -> tuple[int, ...]:
        """Return the version of the broker, such as (4, 0, 5)."""
        version = table(self.get("overview")).get("rabbitmq_version")
        parts = re.findall(r"\b[0-9]{1,9}\b", version) if isinstance(version, str) else []
        if not parts:
            raise self.unknown_answer("overview has a string 'rabbitmq_version'")
        return tuple(map(int, parts[:3]))

    def make(self, method: str, kind: str, what: Sequence[str], body: Mapping[str, Any]) -> None:
        """Make something in the virtual host.

        `what` has the parts of the path after the virtual host.
        """
        path = "/".join([kind, self._host, *(quote(part, safe="") for part in what)])
        self._ask(f"{self.place}/api/{path}", method, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        """Return the answer to a GET of `path`, which follows ``/api/``."""
        url = f"{self.place}/api/{path}"
        octets = self._ask(url)
        try:
            return load_json(octets)
        except ValueError as error:
            raise ValueError(f"{url.partition('?')[0]}: {error}") from None

    def unacknowledged(self, queue: str) -> int | None:
        """Return how many messages of a queue are delivered and not settled; None if not yet known.

        RabbitMQ counts them every few seconds: the answer may be that of 12 s ago.
        """
        found = self.queues(f"/{quote(queue, safe='')}")
        count = found.get("messages_unacknowledged") if isinstance(found, dict) else None
        return count if type(count) is int else None

    def _ask(self, url: str, method: str = "GET", body: bytes | None = None) -> bytes:
        # http or https: that was looked at.
        request = urllib.request.Request(url, body, method=method)  # noqa: S310  (see above)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        request.add_unredirected_header("Authorization", f"Basic {self._word}")
        context = self._endpoint.tls_context() or ssl.create_default_context()
        # As the broker itself, without the proxies of the environment.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        place = url.partition("?")[0]
        try:
            with opener.open(request, timeout=self._timeout) as answer:
                octets: bytes = answer.read(_LARGEST)
            return octets
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(_REASON)
            hint = _UNTAGGED if b"Not management user" in said else ""
            if method != "GET":
                hint = _reason(said)
            raise LinkError(f"{place}: {error.code} {error.reason}{hint}", permanent=True) from None
        except urllib.error.URLError as error:
            raise LinkError(f"{place}: {error.reason}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # HTTPException: the answer is not HTTP, or ends early. ValueError: it redirects to
            # something that is not a URL.
            raise LinkError(f"{place}: {str(error) or type(error).__name__}") from None


def _reason(said: bytes) -> str:
    """Return the reason in an error answer to a declaration; empty if it gives none."""
    try:
        found = table(load_json(said)).get("reason")
    except ValueError:
        return ""
    return f": {found}" if isinstance(found, str) else ""


#: Queues that one request asks for.
_PAGE = 100
#: Pages of queues, at most: a million queues. A broker cannot name more pages to keep us busy.
_MAX_PAGES = 10_000
#: Times that queues on several pages are listed, at most, until two listings agree.
_LISTINGS = 10
_MIRRORED = (
    "mirrored: RabbitMQ 4.0 and later have no mirrored classic queues, and one copy remains; "
    "declare a quorum queue"
)
_TRANSIENT = "neither durable nor exclusive: RabbitMQ 4.3 and later refuse to declare it"
_LAZY = "lazy: without effect from RabbitMQ 3.12 on"
_VERSION_1 = "storage of version 1: gone from RabbitMQ 4.3 on"
_LIMIT = "no delivery-limit: RabbitMQ 4.0 and later drop what was delivered again 20 times"
EXCLUSIVE = "exclusive: nobody but the connection that declared it can read it"


@attrs.frozen
class Queue:
    """A queue of a RabbitMQ.

    The kind is ``classic``, ``quorum`` or ``stream``, and empty where nobody said, as the name of
    the policy is for none; `notes` are what becomes of it in RabbitMQ 4, `arguments` what it was
    declared with, `effective` what policies say of it.
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
    def of(cls, found: Any) -> Queue:
        """Return the queue that an object of the management API describes.

        Raises:
            ValueError: it does not describe a queue.
        """
        if not isinstance(found, dict):
            raise ValueError("the management API lists a queue that is not an object")  # noqa: TRY004  (of an answer)
        name, kind, policy = (found.get(key, "") for key in ("name", "type", "policy"))
        for key, text in (("name", name), ("type", kind), ("policy", policy or "")):
            if not isinstance(text, str) or not _is_name(text):
                raise ValueError(
                    f"the management API lists a queue whose {key} is {text!r:.80}, and not a "
                    f"string of at most {_MAX_NAME} bytes"
                )
        if not name or "arguments" not in found:
            raise ValueError("the management API lists a queue without a name or its arguments")
        kind, messages = kind or "classic", found.get("messages")
        effective = table(found.get("effective_policy_definition"))
        arguments = table(found["arguments"])
        said = {**effective, **{key.removeprefix("x-"): v for key, v in arguments.items()}}
        exclusive, durable = bool(found.get("exclusive")), bool(found.get("durable", True))
        transient = not durable and not exclusive
        notes = [
            note
            for note, holds in (
                (_MIRRORED, "ha-mode" in said),
                (_TRANSIENT, transient),
                (_LAZY, said.get("queue-mode") == "lazy"),
                (_VERSION_1, said.get("queue-version") == 1),
                (_LIMIT, kind == "quorum" and "delivery-limit" not in said),
                (EXCLUSIVE, exclusive),
            )
            if holds
        ]
        count = messages if type(messages) is int else None
        return cls(
            *(name, kind, count, tuple(notes), exclusive, durable),
            auto_delete=bool(found.get("auto_delete")),
            arguments=arguments,
            policy=policy or "",
            effective=effective,
        )


def _is_name(text: str) -> bool:
    """Whether a string can be a name in AMQP 0-9-1: UTF-8 of at most 255 bytes."""
    try:
        return len(text.encode()) <= _MAX_NAME
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def table(value: Any) -> dict[str, Any]:
    """Return an object of the API, of which an empty one may come as a list."""
    return value if isinstance(value, dict) else {}


def queues_of(api: Management) -> list[Queue]:
    """Return the queues of a virtual host, by name."""
    before: set[str] | None = None
    for _ in range(_LISTINGS):
        found, pages = _listed(api)
        # A queue that goes between two pages moves another one to the page that was read. Those
        # that go with their clients do so all the time.
        names = {name for name, one in found.items() if not (one.exclusive or one.auto_delete)}
        if pages <= 1 or names == before:
            return [found[name] for name in sorted(found)]
        before = names
    raise LinkError(f"{api.place}: its queues come and go faster than they can be listed")


def _listed(api: Management) -> tuple[dict[str, Queue], int]:
    """Return the queues on all pages, by their names, and how many pages there are."""
    found: dict[str, Queue] = {}
    page, pages = 1, 1
    while page <= pages:
        answer = table(api.queues(f"?page={page}&page_size={_PAGE}"))
        items, count = answer.get("items"), answer.get("page_count")
        if type(count) is not int or not isinstance(items, list) or len(items) > _PAGE:
            raise api.unknown_answer(f"queues come in pages of at most {_PAGE}")
        pages = count
        if pages > _MAX_PAGES:
            raise ValueError(f"{api.place}: {pages:,} pages of queues, and {_MAX_PAGES:,} are read")
        found |= {queue.name: queue for queue in map(Queue.of, items)}
        page += 1
    return found, pages
