"""The services, nodes that answer requests: ``/management`` and ``$cbs``.

``/management`` implements the part of HTTP over AMQP that clients of RabbitMQ 4 use. A request is a
message with the HTTP method as its subject and the path as its ``to``; the response has the HTTP
status as its subject and the message-id of the request as its correlation-id.

``$cbs`` implements claims-based security, with which clients of Azure authorize their links.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import attrs

from amqp10msg.brokers import EXCHANGE_TYPES, INTERVAL_PATTERN
from amqp10msg.delivery.node import NodeError, StoreError
from amqp10msg.message import Message
from amqp10msg.net.serve.broker import Broker
from amqp10msg.net.serve.definitions import QUEUE, SUBSCRIPTION
from amqp10msg.net.serve.memory import DEFINITION_BYTES, value_cost
from amqp10msg.net.serve.nodes import Binding
from amqp10msg.net.server_options import Token
from amqp10msg.sections import AmqpValue, Properties
from amqp10msg.wire.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from amqp10msg.wire.primitives import Int, Timestamp, UInt, ULong

MANAGEMENT_ADDRESS = "/management"
CBS_ADDRESS = "$cbs"
#: The last part of a binding's path.
_BINDING_PATH = re.compile(r"src=([^;/]*);dst([qe])=([^;/]*);key=([^;/]*);args=([^;/]*)")
_QUEUE_OPTIONS: Final = {"durable": True, "exclusive": False, "auto_delete": False}
_EXCHANGE_OPTIONS: Final = {"durable": True, "auto_delete": False, "internal": False}
_QUEUE_TYPE: Final = "x-queue-type"
#: RabbitMQ's maximum of x-message-ttl and x-expires, in ms.
_MAX_TIMER_MS: Final = 2**32 - 1


class _StatusError(Exception):
    """A request to ``/management`` failed; has the HTTP status of the response."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@attrs.frozen
class _QueueDeclaration:
    """The options of a declared queue.

    Attributes:
        options: the declared ``durable``, ``exclusive``, ``auto_delete`` and ``arguments``.
        owner: the `origin` of the connection that declared an exclusive queue; else None.
    """

    options: dict[str, Any]
    owner: object = None

    @property
    def cost(self) -> int:
        """The memory of the declaration, without the queue's node, in bytes."""
        return DEFINITION_BYTES + value_cost(self.options)


class Management:
    """Answers the requests to ``/management``.

    The options of queues and exchanges are stored and reported. They survive a restart if the
    server has a file. Only the option ``exclusive`` has an effect: an exclusive queue is deleted
    when the connection that declared it ends.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues: dict[str, _QueueDeclaration] = {}

    def restore(self) -> None:
        """Restore the queues, exchanges, bindings and subscriptions in the store's file.

        An exclusive queue is deleted with its messages, since its connection has ended.

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
                declaration = _QueueDeclaration({**_QUEUE_OPTIONS, "arguments": {}, **options})
                self._add_queue(name, declaration)

    def answer(self, request: Message, owner: object) -> Message:
        """Process a request, and return the response; a failed request gets an HTTP error status.

        Args:
            request: the request.
            owner: the `origin` of the request's connection.

        Raises:
            StoreError: the store failed, so that the request must not be confirmed.
        """
        properties = request.properties or Properties()
        try:
            status, value = self._handle(
                str(properties.subject), str(properties.to), request_value(request), owner
            )
        except _StatusError as error:
            status, value = error.status, str(error)
        except StoreError:
            raise
        except NodeError as error:
            is_full = error.condition == RESOURCE_LIMIT_EXCEEDED
            status = HTTPStatus.INSUFFICIENT_STORAGE if is_full else HTTPStatus.NOT_FOUND
            value = str(error)
        except (AmqpError, LookupError, TypeError, AttributeError) as error:
            status, value = HTTPStatus.BAD_REQUEST, str(error)
        return response_to(request, value, {"http:response": "1.1"}, subject=str(int(status)))

    def end_of(self, owner: object) -> None:
        """Delete the exclusive queues of a connection that has ended; `owner` is its `origin`."""
        for name in [name for name, queue in self._queues.items() if queue.owner is owner]:
            self._delete_queue(name)

    def _handle(self, method: str, to: str, body: Any, owner: object) -> tuple[HTTPStatus, Any]:
        """Process a request; return the HTTP status and the value of the response."""
        path, _, query = to.partition("?")
        parts = [unquote(part) for part in path.split("/")[1:]] or [""]
        body = body or {}
        match method, parts:
            case "PUT", ["queues", name]:
                return self._put_queue(name, body, owner)
            case "GET", ["queues", name]:
                return HTTPStatus.OK, self._queue_info(name)
            case "DELETE", ["queues", name]:
                return HTTPStatus.OK, self._delete_queue(name)
            case "DELETE", ["queues", name, "messages"]:
                return HTTPStatus.OK, self._purge(name)
            case "GET", ["bindings"]:
                return HTTPStatus.OK, self._list_bindings(query)
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
                raise _StatusError(HTTPStatus.NOT_FOUND, f"{method} {to} is not implemented")
        return HTTPStatus.NO_CONTENT, None

    # Queues.

    def _queue_info(self, name: str) -> dict[str, Any]:
        """Return the properties of a queue for a response; raise an error if it does not exist."""
        if name not in self._broker.nodes:
            raise _StatusError(HTTPStatus.NOT_FOUND, f"queue {name!r} does not exist")
        node = self._broker.nodes.make(name)
        options = self._options_of(name)
        leader = self._broker.container_id
        return {
            **options,
            "name": name,
            "vhost": "/",
            "type": options["arguments"].get(_QUEUE_TYPE, "classic"),
            "leader": leader,
            "replicas": [leader],
            "message_count": ULong(len(node)),
            "consumer_count": UInt(sum(link.outgoing for link in node.links)),
        }

    def _options_of(self, name: str) -> dict[str, Any]:
        """Return the declared options of a queue, or the defaults."""
        queue = self._queues.get(name)
        return queue.options if queue is not None else {**_QUEUE_OPTIONS, "arguments": {}}

    def _put_queue(self, name: str, body: Any, owner: object) -> tuple[HTTPStatus, Any]:
        """Declare a queue; return the status and the properties of the queue."""
        _check_name("queue", name)
        options = _declared_options(body, _QUEUE_OPTIONS)
        _check_queue(options)
        nodes = self._broker.nodes
        is_new = name not in nodes
        if not is_new and name in self._queues:
            if options != self._options_of(name):
                raise _StatusError(HTTPStatus.CONFLICT, f"queue {name!r} has other options")
        else:
            queue = _QueueDeclaration(options, owner if options["exclusive"] else None)
            nodes.make_room(queue.cost)
            nodes.declare(name)
            nodes.definitions.put(QUEUE, name, options)
            self._add_queue(name, queue)
        return HTTPStatus.CREATED if is_new else HTTPStatus.OK, self._queue_info(name)

    def _add_queue(self, name: str, queue: _QueueDeclaration) -> None:
        """Register the declaration of a queue, and count its memory."""
        self._broker.memory.structures += queue.cost
        self._queues[name] = queue

    def _delete_queue(self, name: str) -> dict[str, Any]:
        """Delete a queue and its bindings; return the number of its messages."""
        queue = self._queues.pop(name, None)
        if queue is not None:
            self._broker.memory.structures -= queue.cost
        self._broker.nodes.definitions.remove(QUEUE, name)
        # Also remove the bindings of a queue whose node no longer exists.
        self._broker.exchanges.unbind_all(name, to_queue=True)
        return {"message_count": ULong(self._broker.delete(name))}

    def _purge(self, name: str) -> dict[str, Any]:
        """Remove the available messages of a queue; return their number."""
        self._queue_info(name)
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
        """Declare an exchange."""
        _check_name("exchange", name)
        options = _declared_options(body, _EXCHANGE_OPTIONS, "type")
        kind = body.get("type", "direct")
        if kind not in EXCHANGE_TYPES:
            raise _StatusError(HTTPStatus.BAD_REQUEST, f"exchange type {kind!r} does not exist")
        exchange = self._broker.exchanges.declare(name, kind, options)
        if (exchange.type, exchange.options) != (kind, options):
            raise _StatusError(HTTPStatus.CONFLICT, f"exchange {name!r} has other options")

    def _bind(self, body: Any) -> None:
        """Add the binding in the body of a request."""
        to_queue = "destination_queue" in body
        destination = body["destination_queue" if to_queue else "destination_exchange"]
        if to_queue:
            self._queue_info(destination)
            # Do not delete the queue when it is unused, since it has bindings.
            self._broker.nodes.declare(destination)
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
        """Remove the bindings that the last part of a path names."""
        match = _BINDING_PATH.fullmatch(path)
        if match is None:
            raise _StatusError(HTTPStatus.BAD_REQUEST, f"{path!r} is not the path of a binding")
        source, kind, destination, key, _ = map(unquote, match.groups())
        self._broker.exchanges.unbind(source, destination, kind == "q", key)

    def _list_bindings(self, query: str) -> list[dict[str, Any]]:
        """Return the bindings that match the query of a path."""
        conditions = {key: values[0] for key, values in parse_qs(query, True).items()}

        def matches(binding: Binding) -> bool:
            destination_key = "dstq" if binding.to_queue else "dste"
            return (
                conditions.get("src", binding.source) == binding.source
                and conditions.get(destination_key, binding.destination) == binding.destination
                and conditions.get("key", binding.key) == binding.key
            )

        return [
            {
                "source": binding.source,
                "destination_queue"
                if binding.to_queue
                else "destination_exchange": binding.destination,
                "binding_key": binding.key,
                "arguments": dict(binding.arguments),
            }
            for binding in self._broker.exchanges.bindings()
            if matches(binding)
        ]


# The checks of declarations follow RabbitMQ 4.0, which accepts every declaration that this server
# accepts. `_ARGUMENTS` has the queue types and the valid values of each argument. Arguments that
# RabbitMQ does not know are stored, as in RabbitMQ.


def _is_int(value: Any, minimum: int, maximum: int | None = None) -> bool:
    """Whether a value is an integer from `minimum` to `maximum`; a boolean is not an integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        return False
    return maximum is None or value <= maximum


@attrs.frozen
class _Argument:
    """An argument of a queue declaration.

    Attributes:
        types: the first letters of the queue types that have the argument, such as ``cq`` for
            classic and quorum queues.
        expected: the valid values, for error messages.
        is_valid: returns whether a value is valid.
        status: the HTTP status of the response to an invalid value.
    """

    types: str
    expected: str
    is_valid: Callable[[Any], bool]
    status: HTTPStatus = HTTPStatus.CONFLICT


def _choice_argument(types: str, *values: str | int) -> _Argument:
    """Return an argument with the valid values `values`; for `types`, see `_Argument`."""
    return _Argument(types, f"one of {', '.join(map(str, values))}", lambda value: value in values)


def _integer_argument(
    types: str, minimum: int, maximum: int | None = None, status: HTTPStatus = HTTPStatus.CONFLICT
) -> _Argument:
    """Return an argument whose valid values are integers; for `types`, see `_Argument`."""
    limits = f"of {minimum} or more" if maximum is None else f"from {minimum} to {maximum}"
    is_valid = partial(_is_int, minimum=minimum, maximum=maximum)
    return _Argument(types, f"an integer {limits}", is_valid, status)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


#: The letters of the queue types in `_Argument.types`.
_TYPE_LETTERS: Final = {"classic": "c", "quorum": "q", "stream": "s"}
#: The arguments of a queue declaration that RabbitMQ checks.
_ARGUMENTS: Final[dict[str, _Argument]] = {
    "x-max-length": _integer_argument("cq", 0),
    "x-max-length-bytes": _integer_argument("cqs", 0),
    "x-message-ttl": _integer_argument("cq", 0, _MAX_TIMER_MS),
    "x-expires": _integer_argument("cq", 1, _MAX_TIMER_MS),
    "x-overflow": _choice_argument("cq", "drop-head", "reject-publish", "reject-publish-dlx"),
    "x-dead-letter-exchange": _Argument("cq", "a string", _is_text, HTTPStatus.BAD_REQUEST),
    "x-dead-letter-routing-key": _Argument("cq", "a string", _is_text),
    "x-dead-letter-strategy": _choice_argument("q", "at-most-once", "at-least-once"),
    "x-single-active-consumer": _Argument("cq", "a boolean", lambda value: isinstance(value, bool)),
    "x-max-priority": _integer_argument("c", 0, 255),
    "x-queue-mode": _choice_argument("c", "default", "lazy"),
    "x-queue-version": _choice_argument("c", 1, 2),
    "x-queue-master-locator": _Argument("c", "a string", _is_text),
    "x-queue-leader-locator": _choice_argument("cqs", "client-local", "balanced"),
    "x-delivery-limit": _Argument("q", "anything", lambda _: True),
    "x-quorum-initial-group-size": _integer_argument("q", 1),
    "x-max-in-memory-length": _integer_argument("q", 0),
    "x-max-in-memory-bytes": _integer_argument("q", 0),
    "x-max-age": _Argument(
        "s",
        "a number and one of Y, M, D, h, m and s",
        lambda value: isinstance(value, str) and INTERVAL_PATTERN.fullmatch(value) is not None,
    ),
    "x-stream-max-segment-size-bytes": _integer_argument("s", 0, 3_000_000_000),
}
_FILTER_SIZE: Final = "x-stream-filter-size-bytes"


def _check_name(kind: str, name: str) -> None:
    """Check the name of a queue or exchange in a request to declare or delete it.

    `kind` is "queue" or "exchange".
    """
    if not name:
        status = HTTPStatus.BAD_REQUEST if kind == "queue" else HTTPStatus.FORBIDDEN
        raise _StatusError(status, f"the name of the {kind} is empty")
    if name.startswith("amq."):
        raise _StatusError(
            HTTPStatus.FORBIDDEN,
            f"the name of the {kind} {name!r} begins with amq., which is reserved",
        )
    if "\n" in name or "\r" in name:
        raise _StatusError(HTTPStatus.BAD_REQUEST, f"the name {name!r} has a line break")


def _declared_options(body: Any, defaults: Mapping[str, bool], *other_keys: str) -> dict[str, Any]:
    """Return the options in the body of a declaration, completed with their defaults.

    Args:
        body: the decoded body of the request.
        defaults: the boolean options and their defaults.
        other_keys: further allowed keys of the body, in addition to ``arguments``.

    Raises:
        _StatusError: the body is not a map, or has an unknown key or a value of the wrong type.
    """
    if not isinstance(body, dict):
        raise _StatusError(HTTPStatus.BAD_REQUEST, "the body of a declaration must be a map")
    arguments = body.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise _StatusError(HTTPStatus.BAD_REQUEST, "arguments must be a map")
    for key, value in body.items():
        if key in defaults and not isinstance(value, bool):
            raise _StatusError(
                HTTPStatus.BAD_REQUEST, f"{key} must be a boolean, got {value!r:.80}"
            )
        if key not in {*defaults, "arguments", *other_keys}:
            raise _StatusError(HTTPStatus.BAD_REQUEST, f"unknown property {key!r:.80}")
    options = {key: body.get(key, default) for key, default in defaults.items()}
    return {**options, "arguments": dict(arguments)}


def _check_queue(options: Mapping[str, Any]) -> None:
    """Check the options of a queue, as `_declared_options` returns them.

    Raises:
        _StatusError: RabbitMQ would refuse the declaration: an argument has an invalid value or
            does not exist for this queue type; or a quorum queue or a stream is declared as
            exclusive, auto-delete or not durable. Or the queue is a stream, which this server does
            not have.
    """
    arguments = options["arguments"]
    kind = arguments.get(_QUEUE_TYPE, "classic")
    letter = _TYPE_LETTERS.get(kind) if isinstance(kind, str) else None
    if letter is None:
        raise _StatusError(HTTPStatus.CONFLICT, f"{_QUEUE_TYPE} {kind!r:.80} does not exist")
    if letter != "c":
        for option, default in _QUEUE_OPTIONS.items():
            if options[option] is not default:
                raise _StatusError(
                    HTTPStatus.BAD_REQUEST,
                    f"a {kind} queue cannot be declared with {option} "
                    f"{str(options[option]).lower()}",
                )
    for name, value in arguments.items():
        argument = _ARGUMENTS.get(name)
        if name == _FILTER_SIZE and letter == "s":
            argument = _integer_argument("s", 16, 255, HTTPStatus.BAD_REQUEST)
        if argument is None:
            continue
        if letter not in argument.types:
            raise _StatusError(HTTPStatus.CONFLICT, f"a {kind} queue has no argument {name}")
        if not argument.is_valid(value):
            raise _StatusError(
                argument.status, f"{name} takes {argument.expected}, got {value!r:.80}"
            )
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
    """Return the response to a put-token request; `accepts` returns whether the token is valid."""
    properties: Mapping[str, Any] = request.application_properties or {}
    value = request_value(request)
    if isinstance(value, bytes | memoryview):
        value = bytes(value).decode("utf-8", "replace")
    if properties.get("operation") != "put-token" or not isinstance(value, str):
        status, text = 400, "send the operation put-token with the token as amqp-value"
    else:
        name, kind = str(properties.get("name")), str(properties.get("type"))
        token = Token(name, kind, value, _expiration(properties.get("expiration")))
        status, text = (200, "OK") if accepts(token) else (401, "the token is not accepted")
    return response_to(request, None, {"status-code": Int(status), "status-description": text})


def _expiration(expiration: Any) -> datetime.datetime | None:
    """Convert a token's expiration to a datetime; None if that is not possible.

    The expiration is a timestamp, or an integer of seconds since the Unix epoch.
    """
    if isinstance(expiration, bool) or not isinstance(expiration, int):
        return None
    seconds = expiration / 1_000 if isinstance(expiration, Timestamp) else expiration
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return None


def request_value(request: Message) -> Any:
    """Return the value of a request's amqp-value section; None for another body."""
    return request.body.value if isinstance(request.body, AmqpValue) else None


def response_to(
    request: Message,
    value: Any,
    application_properties: Mapping[str, Any],
    subject: str | None = None,
) -> Message:
    """Return a response message, addressed and correlated to the request.

    Its ``to`` is the request's reply-to, and its correlation-id the request's message-id.
    """
    properties = request.properties or Properties()
    return Message(
        AmqpValue(value),
        properties=Properties(
            to=properties.reply_to, subject=subject, correlation_id=properties.message_id
        ),
        application_properties=dict(application_properties),
    )
