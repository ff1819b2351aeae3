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

from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint, secret, split_url, with_files

_LARGEST = 64 << 20
_SECONDS = 30.0
#: Bytes of an answer in which a refusal says why.
_REASON = 4_096
_UNTAGGED = (
    ": the user has none of the tags management, policymaker, monitoring, administrator; "
    "rabbitmqctl set_user_tags USER management gives it one"
)


class Management:
    """Asks for what a virtual host has, and makes it.

    What asks raises a `LinkError` where the API does not answer, or refuses, and a `ValueError`
    where that is not an answer of it.

    User and password of the endpoint are used where the URL has none; they may be ``${NAME}`` or
    ``${file:PATH}``. The virtual host and the certificates are the endpoint's. A `ValueError` for a
    wrong URL does not repeat it: it may hold a password. `place` is without credentials, and
    `is_exposed` says whether they would go to another machine in the clear.
    """

    def __init__(
        self, management: str, endpoint: Endpoint, environment: Mapping[str, str] | None = None
    ) -> None:
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
        self._word = base64.b64encode(f"{user or ''}:{password or ''}".encode()).decode("ascii")
        self._endpoint = endpoint
        self._host = quote(endpoint.virtual_host or "/", safe="")

    def queues(self, what: str) -> Any:
        """Return its answer about the queues, or about one.

        `what` follows the virtual host in the path.
        """
        return self.get(f"queues/{self._host}{what}")

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return all exchanges, bindings or policies of the virtual host."""
        found = self.get(f"{kind}/{self._host}")
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise ValueError(f"{self.place} is not a management API of RabbitMQ")
        return found

    def version(self) -> tuple[int, ...]:
        """Return the version of the broker, such as (4, 0, 5)."""
        said = table(self.get("overview")).get("rabbitmq_version")
        parts = re.findall(r"\d+", str(said))
        if not parts:
            raise ValueError(f"{self.place} is not a management API of RabbitMQ")
        return tuple(map(int, parts[:3]))

    def make(self, method: str, kind: str, what: Sequence[str], body: Mapping[str, Any]) -> None:
        """Make something in the virtual host.

        `what` has the parts of the path after the virtual host.
        """
        path = "/".join([kind, self._host, *(quote(part, safe="") for part in what)])
        self._ask(f"{self.place}/api/{path}", method, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        """Return its answer about what stands after ``/api/``."""
        url = f"{self.place}/api/{path}"
        try:
            return json.loads(self._ask(url))
        except ValueError:
            raise ValueError(f"{url.partition('?')[0]}: no JSON") from None

    def unacknowledged(self, queue: str) -> int | None:
        """Return how many messages of a queue are delivered and not settled; None if not yet known.

        RabbitMQ counts them every few seconds: the answer may be that of 12 s ago.
        """
        found = self.queues(f"/{quote(queue, safe='')}")
        count = found.get("messages_unacknowledged") if isinstance(found, dict) else None
        return count if isinstance(count, int) else None

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
            with opener.open(request, timeout=_SECONDS) as answer:
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
        except (OSError, http.client.HTTPException) as error:
            # The latter is an answer that is none, or stops: no OSError.
            raise LinkError(f"{place}: {str(error) or type(error).__name__}") from None


def _reason(said: bytes) -> str:
    """Return why it refused to make something."""
    try:
        found = table(json.loads(said)).get("reason")
    except ValueError:
        return ""
    return f": {found}" if isinstance(found, str) else ""


_PAGE = 100
# Times that queues on several pages are listed until two times agree, at most.
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
    def of(cls, found: Mapping[str, Any]) -> Queue:
        """Read what the management API says of a queue."""
        try:
            name, messages = found["name"], found.get("messages")
            kind = found.get("type", "classic")
            effective = table(found.get("effective_policy_definition"))
            arguments = table(found["arguments"])
            said = {**effective, **{key.removeprefix("x-"): v for key, v in arguments.items()}}
            exclusive, durable = bool(found.get("exclusive")), bool(found.get("durable", True))
            transient = not durable and not exclusive
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the management API gave no queue: {error!r}") from None
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
        count = messages if isinstance(messages, int) else None
        return cls(
            *(str(name), str(kind), count, tuple(notes), exclusive, durable),
            auto_delete=bool(found.get("auto_delete")),
            arguments=arguments,
            policy=str(found.get("policy") or ""),
            effective=effective,
        )


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
        answer = api.queues(f"?page={page}&page_size={_PAGE}")
        try:
            items, pages = answer["items"], int(answer["page_count"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{api.place} is not a management API of RabbitMQ") from None
        found |= {queue.name: queue for queue in map(Queue.of, items)}
        page += 1
    return found, pages
