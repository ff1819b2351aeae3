"""RabbitMQ's management API over HTTP, as far as queues go."""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint, secret

_LARGEST = 64 << 20
_SECONDS = 30.0
#: Bytes of an answer in which a refusal says why.
_REASON = 4_096
_UNTAGGED = (
    ": the user has none of the tags management, policymaker, monitoring, administrator; "
    "rabbitmqctl set_user_tags USER management gives it one"
)


class Management:
    """Asks for the queues of a virtual host.

    Args:
        management: where it is, such as ``http://host:15672``; user and password of the endpoint
            are used where it has none, and may be ``${NAME}``.
        endpoint: a URL of the broker, whose virtual host, certificates and user are meant.
        environment: variables; those of the process where None.

    Attributes:
        place: where it is, without credentials.

    Raises:
        ValueError: that is not its URL.
    """

    def __init__(
        self, management: str, endpoint: Endpoint, environment: Mapping[str, str] | None = None
    ) -> None:
        parts = urlsplit(management)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("the management API has a URL such as http://host:15672")
        variables = os.environ if environment is None else environment
        user, password = secret(parts.username, variables), secret(parts.password, variables)
        if user is None:
            user, password = endpoint.user, endpoint.password
        self.place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._word = base64.b64encode(f"{user or ''}:{password or ''}".encode()).decode("ascii")
        self._endpoint = endpoint
        self._host = quote(endpoint.virtual_host or "/", safe="")

    def queues(self, what: str) -> Any:
        """Return what it says of the queues, or of one.

        Args:
            what: what follows the virtual host in the path.

        Raises:
            LinkError: it does not answer, or refuses.
            ValueError: that is not an answer of it.
        """
        return self._get(f"{self.place}/api/queues/{self._host}{what}")

    def unacknowledged(self, queue: str) -> int | None:
        """Return how many messages of a queue are delivered and not settled; None if not yet known.

        RabbitMQ counts them every few seconds: the answer may be that of 12 s ago.

        Raises:
            LinkError: it does not answer, or refuses.
            ValueError: that is not an answer of it.
        """
        found = self.queues(f"/{quote(queue, safe='')}")
        count = found.get("messages_unacknowledged") if isinstance(found, dict) else None
        return count if isinstance(count, int) else None

    def _get(self, url: str) -> Any:
        request = urllib.request.Request(url)  # noqa: S310  (http or https: that was looked at)
        request.add_unredirected_header("Authorization", f"Basic {self._word}")
        context = self._endpoint.tls_context() or ssl.create_default_context()
        # As the broker itself, without the proxies of the environment.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        place = url.partition("?")[0]
        try:
            with opener.open(request, timeout=_SECONDS) as answer:
                octets = answer.read(_LARGEST)
            return json.loads(octets)
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(_REASON)
            hint = _UNTAGGED if b"Not management user" in said else ""
            raise LinkError(f"{place}: {error.code} {error.reason}{hint}", permanent=True) from None
        except urllib.error.URLError as error:
            raise LinkError(f"{place}: {error.reason}") from None
        except OSError as error:
            raise LinkError(f"{place}: {error}") from None
        except ValueError:
            raise ValueError(f"{place}: no JSON") from None
