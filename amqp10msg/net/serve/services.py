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
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import attrs

from amqp10msg.brokers import EXCHANGE_TYPES, INTERVAL
from amqp10msg.delivery.node import NodeError, StoreError
from amqp10msg.message import Message
from amqp10msg.net.serve.broker import Broker
from amqp10msg.net.serve.definitions import QUEUE, SUBSCRIPTION
from amqp10msg.net.serve.memory import DEFINITION_BYTES, value_cost
from amqp10msg.net.serve.nodes import Binding
from amqp10msg.net.serve.service_bus import asked_value, response_to
from amqp10msg.net.server_options import Token
from amqp10msg.sections import Properties
from amqp10msg.wire.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from amqp10msg.wire.primitives import Int, Timestamp, UInt, ULong

MANAGEMENT = "/management"
CBS = "$cbs"
_BINDING = re.compile(r"src=([^;/]*);dst([qe])=([^;/]*);key=([^;/]*);args=([^;/]*)")
_QUEUE_OPTIONS: Final = {"durable": True, "exclusive": False, "auto_delete": False}
_EXCHANGE_OPTIONS: Final = {"durable": True, "auto_delete": False, "internal": False}
_TYPE: Final = "x-queue-type"
_LONGEST_TIMER: Final = 2**32 - 1  # ms


class _StatusError(Exception):
    """A request is refused."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@attrs.frozen
class _Queue:
    options: dict[str, Any]
    owner: object = None  # the connection that declared it exclusively

    @property
    def cost(self) -> int:
        """Bytes of memory that the declaration takes, besides those of its node."""
        return DEFINITION_BYTES + value_cost(self.options)


class Management:
    """Answers the requests to the management node.

    Options of queues and exchanges are kept and reported, also after a restart if the server has a
    file. Exclusive queues end with their connection; otherwise the options have no effect on how a
    node works.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues: dict[str, _Queue] = {}

    def restore(self) -> None:
        """Declare the queues, exchanges, bindings and subscriptions that the store's file has.

        A queue that was exclusive is deleted with its messages, as its connection has ended.

        Raises:
            StoreError: the file cannot be read or written, or is damaged.
        """
        nodes = self._broker.nodes
        for name, _ in nodes.definitions.load(SUBSCRIPTION):
            nodes.make(name)
        self._broker.exchanges.restore()
        for name, options in nodes.definitions.load(QUEUE):
            nodes.make(name)
            if options.get("exclusive"):
                self._delete_queue(name)
            else:
                self._add(name, _Queue({**_QUEUE_OPTIONS, "arguments": {}, **options}))

    def answer(self, request: Message, owner: object) -> Message:
        """Carry out a request, and return the response."""
        properties = request.properties or Properties()
        try:
            status, value = self._handle(
                str(properties.subject), str(properties.to), asked_value(request), owner
            )
        except _StatusError as error:
            status, value = error.status, str(error)
        except StoreError:
            raise  # nothing may be confirmed
        except NodeError as error:
            is_full = error.condition == RESOURCE_LIMIT_EXCEEDED
            status = HTTPStatus.INSUFFICIENT_STORAGE if is_full else HTTPStatus.NOT_FOUND
            value = str(error)
        except (AmqpError, LookupError, TypeError, AttributeError) as error:
            status, value = HTTPStatus.BAD_REQUEST, str(error)
        return response_to(request, value, {"http:response": "1.1"}, subject=str(int(status)))

    def end_of(self, owner: object) -> None:
        """Delete the exclusive queues of a connection that ends."""
        for name in [name for name, one in self._queues.items() if one.owner is owner]:
            self._delete_queue(name)

    def _handle(self, method: str, to: str, body: Any, owner: object) -> tuple[HTTPStatus, Any]:
        path, _, query = to.partition("?")
        parts = [unquote(part) for part in path.split("/")[1:]] or [""]
        body = body or {}
        match method, parts:
            case "PUT", ["queues", name]:
                return self._put_queue(name, body, owner)
            case "GET", ["queues", name]:
                return HTTPStatus.OK, self._info(name)
            case "DELETE", ["queues", name]:
                return HTTPStatus.OK, self._delete_queue(name)
            case "DELETE", ["queues", name, "messages"]:
                return HTTPStatus.OK, self._purge(name)
            case "GET", ["bindings"]:
                return HTTPStatus.OK, self._bindings(query)
            case "PUT", ["exchanges", name]:
                self._put_exchange(name, body)
            case "DELETE", ["exchanges", name]:
                _check_name("exchange", name)
                self._broker.exchanges.delete(name)
            case "POST", ["bindings"]:
                self._bind(body)
            case "DELETE", ["bindings", _]:
                self._unbind(path.split("/")[2])
            case "PUT", ["auth", "tokens"]:
                pass
            case _:
                raise _StatusError(HTTPStatus.NOT_FOUND, f"there is no {method} {to}")
        return HTTPStatus.NO_CONTENT, None

    # Queues.

    def _info(self, name: str) -> dict[str, Any]:
        if name not in self._broker.nodes:
            raise _StatusError(HTTPStatus.NOT_FOUND, f"there is no queue {name!r}")
        node = self._broker.nodes.make(name)
        options = self._options_of(name)
        leader = self._broker.container_id
        return {
            **options,
            "name": name,
            "vhost": "/",
            "type": options["arguments"].get(_TYPE, "classic"),
            "leader": leader,
            "replicas": [leader],
            "message_count": ULong(len(node)),
            "consumer_count": UInt(sum(link.outgoing for link in node.links)),
        }

    def _options_of(self, name: str) -> dict[str, Any]:
        queue = self._queues.get(name)
        return queue.options if queue is not None else {**_QUEUE_OPTIONS, "arguments": {}}

    def _put_queue(self, name: str, body: Any, owner: object) -> tuple[HTTPStatus, Any]:
        _check_name("queue", name)
        options = _declared_options(body, _QUEUE_OPTIONS)
        _check_queue(options)
        nodes = self._broker.nodes
        is_new = name not in nodes
        if not is_new and name in self._queues:
            if options != self._options_of(name):
                raise _StatusError(HTTPStatus.CONFLICT, f"queue {name!r} has other options")
        else:
            queue = _Queue(options, owner if options["exclusive"] else None)
            nodes.make_room(queue.cost)
            nodes.declare(name)
            nodes.definitions.put(QUEUE, name, options)
            self._add(name, queue)
        return HTTPStatus.CREATED if is_new else HTTPStatus.OK, self._info(name)

    def _add(self, name: str, queue: _Queue) -> None:
        self._broker.memory.structures += queue.cost
        self._queues[name] = queue

    def _delete_queue(self, name: str) -> dict[str, Any]:
        queue = self._queues.pop(name, None)
        if queue is not None:
            self._broker.memory.structures -= queue.cost
        self._broker.nodes.definitions.remove(QUEUE, name)
        # Those of a queue that had gone by itself, too.
        self._broker.exchanges.unbind_all(name, to_queue=True)
        return {"message_count": ULong(self._broker.delete(name))}

    def _purge(self, name: str) -> dict[str, Any]:
        self._info(name)
        link = self._broker.nodes.make(name).attach("purge")
        count = 0
        try:
            while link.next(settled=True) is not None:
                count += 1
        finally:
            link.detach()
        return {"message_count": ULong(count)}

    # Exchanges and bindings.

    def _put_exchange(self, name: str, body: Any) -> None:
        _check_name("exchange", name)
        options = _declared_options(body, _EXCHANGE_OPTIONS, "type")
        kind = body.get("type", "direct")
        if kind not in EXCHANGE_TYPES:
            raise _StatusError(HTTPStatus.BAD_REQUEST, f"there is no exchange type {kind!r}")
        exchange = self._broker.exchanges.declare(name, kind, options)
        if (exchange.type, exchange.options) != (kind, options):
            raise _StatusError(HTTPStatus.CONFLICT, f"exchange {name!r} has other options")

    def _bind(self, body: Any) -> None:
        to_queue = "destination_queue" in body
        destination = body["destination_queue" if to_queue else "destination_exchange"]
        if to_queue:
            self._info(destination)
            self._broker.nodes.declare(destination)  # a queue with bindings is kept
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

    def _unbind(self, path: str) -> None:
        found = _BINDING.fullmatch(path)
        if found is None:
            raise _StatusError(HTTPStatus.BAD_REQUEST, f"{path!r} is not the path of a binding")
        source, kind, destination, key, _ = map(unquote, found.groups())
        self._broker.exchanges.unbind(source, destination, kind == "q", key)

    def _bindings(self, query: str) -> list[dict[str, Any]]:
        wanted = {key: values[0] for key, values in parse_qs(query, True).items()}
        return [
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


# Declarations of queues and exchanges, as RabbitMQ 4.0 has them. What a program declares here,
# RabbitMQ takes as well: a table says of each argument which types of queue have it, and what its
# value may be. Arguments that RabbitMQ does not know are kept, as there.


def _is_int(value: Any, least: int, most: int | None = None) -> bool:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= least
    return right and (most is None or value <= most)


@attrs.frozen
class _Argument:
    """An argument of a queue.

    `types` are those of the queues that have it, by their first letters; `wanted` says what it
    takes.
    """

    types: str
    wanted: str
    takes: Callable[[Any], bool]
    status: HTTPStatus = HTTPStatus.CONFLICT


def _one_of(types: str, *values: str | int) -> _Argument:
    return _Argument(types, f"one of {', '.join(map(str, values))}", lambda value: value in values)


def _number(
    types: str, least: int, most: int | None = None, status: HTTPStatus = HTTPStatus.CONFLICT
) -> _Argument:
    up_to = "" if most is None else f" to {most}"
    wanted = f"an integer of {least}{up_to or ' or more'}"
    return _Argument(types, wanted, lambda value: _is_int(value, least, most), status)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_TYPES: Final = {"classic": "c", "quorum": "q", "stream": "s"}
_ARGUMENTS: Final[dict[str, _Argument]] = {
    "x-max-length": _number("cq", 0),
    "x-max-length-bytes": _number("cqs", 0),
    "x-message-ttl": _number("cq", 0, _LONGEST_TIMER),
    "x-expires": _number("cq", 1, _LONGEST_TIMER),
    "x-overflow": _one_of("cq", "drop-head", "reject-publish", "reject-publish-dlx"),
    "x-dead-letter-exchange": _Argument("cq", "a string", _is_text, HTTPStatus.BAD_REQUEST),
    "x-dead-letter-routing-key": _Argument("cq", "a string", _is_text),
    "x-dead-letter-strategy": _one_of("q", "at-most-once", "at-least-once"),
    "x-single-active-consumer": _Argument("cq", "a boolean", lambda value: isinstance(value, bool)),
    "x-max-priority": _number("c", 0, 255),
    "x-queue-mode": _one_of("c", "default", "lazy"),
    "x-queue-version": _one_of("c", 1, 2),
    "x-queue-master-locator": _Argument("c", "a string", _is_text),
    "x-queue-leader-locator": _one_of("cqs", "client-local", "balanced"),
    "x-delivery-limit": _Argument("q", "anything", lambda _: True),
    "x-quorum-initial-group-size": _number("q", 1),
    "x-max-in-memory-length": _number("q", 0),
    "x-max-in-memory-bytes": _number("q", 0),
    "x-max-age": _Argument(
        "s",
        "a number and one of Y, M, D, h, m and s",
        lambda value: isinstance(value, str) and INTERVAL.fullmatch(value) is not None,
    ),
    "x-stream-max-segment-size-bytes": _number("s", 0, 3_000_000_000),
}
_FILTER_SIZE: Final = "x-stream-filter-size-bytes"


def _check_name(kind: str, name: str) -> None:
    """Check the name of what is declared or deleted."""
    if not name:
        status = HTTPStatus.BAD_REQUEST if kind == "queue" else HTTPStatus.FORBIDDEN
        raise _StatusError(status, f"the name of the {kind} is empty")
    if name.startswith("amq."):
        raise _StatusError(
            HTTPStatus.FORBIDDEN, f"the name of the {kind} {name!r} begins with amq., which is kept"
        )
    if "\n" in name or "\r" in name:
        raise _StatusError(HTTPStatus.BAD_REQUEST, f"the name {name!r} has a line break")


def _declared_options(body: Any, defaults: Mapping[str, bool], *others: str) -> dict[str, Any]:
    """Return the options of a declaration, with the defaults of those that it leaves out.

    `defaults` are booleans; besides those and ``arguments``, it may have the keys `others`.
    """
    if not isinstance(body, dict):
        raise _StatusError(HTTPStatus.BAD_REQUEST, "a declaration is a map")
    arguments = body.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise _StatusError(HTTPStatus.BAD_REQUEST, "arguments is a map")
    for key, value in body.items():
        if key in defaults and not isinstance(value, bool):
            raise _StatusError(HTTPStatus.BAD_REQUEST, f"{key} is a boolean, not {value!r:.80}")
        if key not in {*defaults, "arguments", *others}:
            raise _StatusError(HTTPStatus.BAD_REQUEST, f"there is no property {key!r:.80}")
    options = {key: body.get(key, default) for key, default in defaults.items()}
    return {**options, "arguments": dict(arguments)}


def _check_queue(options: Mapping[str, Any]) -> None:
    """Check the options of a queue, as `_declared_options` returns them.

    Raises:
        _StatusError: RabbitMQ refuses them: an argument has a wrong value, or is not one of this
            type of queue; or a quorum queue or a stream is not durable, exclusive or deleted
            automatically.
    """
    arguments = options["arguments"]
    kind = arguments.get(_TYPE, "classic")
    letter = _TYPES.get(kind) if isinstance(kind, str) else None
    if letter is None:
        raise _StatusError(HTTPStatus.CONFLICT, f"there is no {_TYPE} {kind!r:.80}")
    if letter != "c":
        for option, default in _QUEUE_OPTIONS.items():
            if options[option] is not default:
                raise _StatusError(
                    HTTPStatus.BAD_REQUEST,
                    f"a {kind} queue cannot be declared with {option} "
                    f"{str(options[option]).lower()}",
                )
    for name, value in arguments.items():
        known = _ARGUMENTS.get(name)
        if name == _FILTER_SIZE and letter == "s":
            known = _number("s", 16, 255, HTTPStatus.BAD_REQUEST)
        if known is None:
            continue
        if letter not in known.types:
            raise _StatusError(HTTPStatus.CONFLICT, f"a {kind} queue has no argument {name}")
        if not known.takes(value):
            raise _StatusError(known.status, f"{name} takes {known.wanted}, not {value!r:.80}")
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        raise _StatusError(
            HTTPStatus.CONFLICT, "x-dead-letter-routing-key needs x-dead-letter-exchange"
        )
    if letter == "s":
        raise _StatusError(
            HTTPStatus.BAD_REQUEST,
            "this server has no streams: declare a classic or quorum queue, or run RabbitMQ",
        )


# Tokens.


def answer_token(request: Message, accepts: Callable[[Token], bool]) -> Message:
    """Pass the token of a put-token request to a hook, and return the response."""
    asked: Mapping[str, Any] = request.application_properties or {}
    value = asked_value(request)
    if isinstance(value, bytes | memoryview):
        value = bytes(value).decode("utf-8", "replace")
    if asked.get("operation") != "put-token" or not isinstance(value, str):
        status, text = 400, "send a put-token with the token as amqp-value"
    else:
        token = Token(str(asked.get("name")), str(asked.get("type")), value, _time_of(asked))
        status, text = (200, "OK") if accepts(token) else (401, "the token is not accepted")
    return response_to(request, None, {"status-code": Int(status), "status-description": text})


def _time_of(asked: Any) -> datetime.datetime | None:
    expiration = asked.get("expiration")
    if isinstance(expiration, bool) or not isinstance(expiration, int):
        return None
    seconds = expiration / 1_000 if isinstance(expiration, Timestamp) else expiration
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return None
