"""The nodes that answer requests: ``/management`` and ``$cbs``.

``/management`` is HTTP over AMQP, as far as clients of RabbitMQ 4 use it. A request is a message
with the method as its subject and the path as its ``to``; the response has the status as its
subject and the message-id of the request as its correlation-id.

``$cbs`` is claims-based security, with which clients of Azure authorize their links.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

import attrs

from amqp10msg.brokers import EXCHANGE_TYPES
from amqp10msg.delivery.node import NodeError
from amqp10msg.message import Message
from amqp10msg.net.serve.broker import Broker
from amqp10msg.net.serve.declaring import (
    EXCHANGE_OPTIONS,
    QUEUE_OPTIONS,
    StatusError,
    check_queue,
    name_of,
    options_of,
)
from amqp10msg.net.serve.nodes import Binding
from amqp10msg.sections import AmqpValue, Properties
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.primitives import Int, Timestamp, UInt, ULong

MANAGEMENT = "/management"
CBS = "$cbs"
_BINDING = re.compile(r"src=([^;/]*);dst([qe])=([^;/]*);key=([^;/]*);args=([^;/]*)")


@attrs.frozen
class _Queue:
    options: dict[str, Any]
    owner: object = None  # the connection that declared it exclusively


class Management:
    """Answers the requests to the management node.

    Options of queues and exchanges are kept and reported. Exclusive queues end with their
    connection; otherwise the options have no effect on how a node works.

    Args:
        broker: what is managed.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues: dict[str, _Queue] = {}

    def answer(self, request: Message, owner: object) -> Message:
        """Carry out a request, and return the response.

        Args:
            request: the request.
            owner: the connection that it came from.
        """
        properties = request.properties or Properties()
        body = request.body.value if isinstance(request.body, AmqpValue) else None
        try:
            status, value = self._handle(str(properties.subject), str(properties.to), body, owner)
        except StatusError as error:
            status, value = error.status, str(error)
        except NodeError as error:
            status, value = HTTPStatus.NOT_FOUND, str(error)
        except (AmqpError, LookupError, TypeError, AttributeError) as error:
            status, value = HTTPStatus.BAD_REQUEST, str(error)
        return Message(
            AmqpValue(value),
            properties=Properties(
                to=properties.reply_to,
                subject=str(int(status)),
                correlation_id=properties.message_id,
            ),
            application_properties={"http:response": "1.1"},
        )

    def end_of(self, owner: object) -> None:
        """Delete the exclusive queues of a connection that ends."""
        for name in [name for name, one in self._queues.items() if one.owner is owner]:
            self._delete_queue(name, None, owner)

    def _handle(self, method: str, to: str, body: Any, owner: object) -> tuple[HTTPStatus, Any]:
        path, _, query = to.partition("?")
        parts = [unquote(part) for part in path.split("/")[1:]] or [""]
        handlers: dict[tuple[str, str, int], Callable[[Any, Any, object], Any]] = {
            ("PUT", "queues", 2): self._put_queue,
            ("GET", "queues", 2): self._get_queue,
            ("DELETE", "queues", 2): self._delete_queue,
            ("DELETE", "queues", 3): self._purge,
            ("PUT", "exchanges", 2): self._put_exchange,
            ("DELETE", "exchanges", 2): self._delete_exchange,
            ("POST", "bindings", 1): self._post_binding,
        }
        name = parts[1] if len(parts) > 1 else ""
        if parts[0] == "bindings" and (method, len(parts)) == ("DELETE", 2):
            return self._delete_binding(path.split("/")[2])
        if (method, parts) == ("GET", ["bindings"]):
            return self._get_bindings(query)
        if (method, parts) == ("PUT", ["auth", "tokens"]):
            return HTTPStatus.NO_CONTENT, None
        handle = handlers.get((method, parts[0], len(parts)))
        if handle is None or (len(parts) == 3 and parts[2] != "messages"):
            raise StatusError(HTTPStatus.NOT_FOUND, f"there is no {method} {to}")
        answer: tuple[HTTPStatus, Any] = handle(name, body or {}, owner)
        return answer

    # Queues.

    def _info(self, name: str) -> dict[str, Any]:
        if name not in self._broker.nodes:
            raise StatusError(HTTPStatus.NOT_FOUND, f"there is no queue {name!r}")
        node = self._broker.nodes.make(name)
        options = self._options_of(name)
        leader = self._broker.container_id
        return {
            **options,
            "name": name,
            "vhost": "/",
            "type": options["arguments"].get("x-queue-type", "classic"),
            "leader": leader,
            "replicas": [leader],
            "message_count": ULong(len(node)),
            "consumer_count": UInt(sum(link.outgoing for link in node.links)),
        }

    def _options_of(self, name: str) -> dict[str, Any]:
        queue = self._queues.get(name)
        return queue.options if queue is not None else {**QUEUE_OPTIONS, "arguments": {}}

    def _put_queue(self, name: str, body: Any, owner: object) -> tuple[HTTPStatus, Any]:
        name_of("queue", name)
        options = options_of(body, QUEUE_OPTIONS)
        check_queue(options)
        if name in self._broker.nodes:
            if name in self._queues and options != self._options_of(name):
                raise StatusError(HTTPStatus.CONFLICT, f"queue {name!r} has other options")
            status = HTTPStatus.OK
        else:
            self._broker.nodes.make(name)
            status = HTTPStatus.CREATED
        self._queues.setdefault(name, _Queue(options, owner if options["exclusive"] else None))
        return status, self._info(name)

    def _get_queue(self, name: str, _: Any, __: object) -> tuple[HTTPStatus, Any]:
        return HTTPStatus.OK, self._info(name)

    def _delete_queue(self, name: str, _: Any, __: object) -> tuple[HTTPStatus, Any]:
        self._queues.pop(name, None)
        self._broker.exchanges.unbind_all(name, to_queue=True)
        return HTTPStatus.OK, {"message_count": ULong(self._broker.delete(name))}

    def _purge(self, name: str, _: Any, __: object) -> tuple[HTTPStatus, Any]:
        self._info(name)
        link = self._broker.nodes.make(name).attach("purge")
        count = 0
        try:
            while link.next(settled=True) is not None:
                count += 1
        finally:
            link.detach()
        return HTTPStatus.OK, {"message_count": ULong(count)}

    # Exchanges and bindings.

    def _put_exchange(self, name: str, body: Any, _: object) -> tuple[HTTPStatus, Any]:
        name_of("exchange", name)
        options = options_of(body, EXCHANGE_OPTIONS, "type")
        kind = body.get("type", "direct")
        if kind not in EXCHANGE_TYPES:
            raise StatusError(HTTPStatus.BAD_REQUEST, f"there is no exchange type {kind!r}")
        exchange = self._broker.exchanges.declare(name, kind, options)
        if (exchange.type, exchange.options) != (kind, options):
            raise StatusError(HTTPStatus.CONFLICT, f"exchange {name!r} has other options")
        return HTTPStatus.NO_CONTENT, None

    def _delete_exchange(self, name: str, _: Any, __: object) -> tuple[HTTPStatus, Any]:
        name_of("exchange", name)
        self._broker.exchanges.delete(name)
        return HTTPStatus.NO_CONTENT, None

    def _post_binding(self, _: str, body: Any, __: object) -> tuple[HTTPStatus, Any]:
        to_queue = "destination_queue" in body
        destination = body["destination_queue" if to_queue else "destination_exchange"]
        if to_queue:
            self._info(destination)
        else:
            self._broker.exchanges.get(destination)
        self._broker.exchanges.bind(
            Binding(
                body["source"],
                destination,
                to_queue,
                body.get("binding_key", ""),
                dict(body.get("arguments") or {}),
            )
        )
        return HTTPStatus.NO_CONTENT, None

    def _delete_binding(self, path: str) -> tuple[HTTPStatus, Any]:
        found = _BINDING.fullmatch(path)
        if found is None:
            raise StatusError(HTTPStatus.BAD_REQUEST, f"{path!r} is not the path of a binding")
        source, kind, destination, key, _ = map(unquote, found.groups())
        self._broker.exchanges.unbind(source, destination, kind == "q", key)
        return HTTPStatus.NO_CONTENT, None

    def _get_bindings(self, query: str) -> tuple[HTTPStatus, Any]:
        wanted = {key: values[0] for key, values in parse_qs(query, True).items()}
        found = [
            {
                "source": one.source,
                "destination_queue" if one.to_queue else "destination_exchange": one.destination,
                "binding_key": one.key,
                "arguments": dict(one.arguments),
            }
            for one in self._broker.exchanges.bindings()
            if wanted.get("src", one.source) == one.source
            and wanted.get("dstq" if one.to_queue else "dste", one.destination) == one.destination
            and wanted.get("key", one.key) == one.key
        ]
        return HTTPStatus.OK, found


# Tokens.


@attrs.frozen
class Token:
    """A token that a client puts.

    Attributes:
        name: the address that it is for.
        type: such as ``jwt`` or ``servicebus.windows.net:sastoken``.
        value: the token.
        expiration: when it expires, or None if that is not stated.
    """

    name: str
    type: str
    value: str = attrs.field(repr=False)
    expiration: datetime.datetime | None


def answer_token(request: Message, accepts: Callable[[Token], bool]) -> Message:
    """Pass the token of a put-token request to a hook, and return the response.

    Args:
        request: the request; the response has its message-id as correlation-id.
        accepts: whether a token is accepted.
    """
    asked: Mapping[str, Any] = request.application_properties or {}
    properties = request.properties or Properties()
    value = request.body.value if isinstance(request.body, AmqpValue) else None
    if isinstance(value, bytes | memoryview):
        value = bytes(value).decode("utf-8", "replace")
    if asked.get("operation") != "put-token" or not isinstance(value, str):
        status, text = 400, "send a put-token with the token as amqp-value"
    else:
        token = Token(str(asked.get("name")), str(asked.get("type")), value, _time_of(asked))
        status, text = (200, "OK") if accepts(token) else (401, "the token is not accepted")
    return Message(
        AmqpValue(None),
        properties=Properties(to=properties.reply_to, correlation_id=properties.message_id),
        application_properties={"status-code": Int(status), "status-description": text},
    )


def _time_of(asked: Any) -> datetime.datetime | None:
    expiration = asked.get("expiration")
    if isinstance(expiration, bool) or not isinstance(expiration, int):
        return None
    seconds = expiration / 1_000 if isinstance(expiration, Timestamp) else expiration
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return None
