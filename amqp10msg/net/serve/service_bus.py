"""An emulator of Azure Service Bus: its extensions of AMQP, on the nodes of a server.

An entity is a queue, a subscription of a topic (``TOPIC/Subscriptions/NAME``), or the dead letters
of either (``…/$DeadLetterQueue``). Clients send requests to ``ENTITY/$management``. A request names
a deferred or scheduled message by its sequence number, and a locked message by its lock token.
Deferred messages, scheduled messages and the states of sessions are kept in memory only.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from amqp10msg.composite import composite_of
from amqp10msg.delivery import Accepted, Error, Modified, Rejected, Released
from amqp10msg.delivery.filters import SessionFilter
from amqp10msg.delivery.node import (
    DeadLetter,
    Delivery,
    DistributionNode,
    Memory,
    NodeError,
    OutgoingLink,
    StoreError,
)
from amqp10msg.message import Message
from amqp10msg.message.batch import BATCH_FORMAT
from amqp10msg.message.picks import Picker
from amqp10msg.net.serve.memory import DEFINITION_BYTES, ServerMemory, name_cost
from amqp10msg.net.serve.nodes import (
    DEAD_LETTERS,
    SUBSCRIPTIONS,
    Destination,
    Nodes,
    Published,
    all_or_none,
)
from amqp10msg.sections import (
    AmqpValue,
    Data,
    DeliveryAnnotations,
    Header,
    MessageAnnotations,
    Properties,
)
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import (
    DECODE_ERROR,
    INVALID_FIELD,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    DecodeError,
)
from amqp10msg.wire.kernel import decode_values, encode_value
from amqp10msg.wire.limits import UNLIMITED, Limits
from amqp10msg.wire.primitives import (
    Array,
    Described,
    Int,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
)

MANAGEMENT_SUFFIX = "/$management"
_HEADER = composite_of(Header).code
#: Descriptor codes of the sections, by symbolic descriptor: Azure's clients send the symbols.
_SECTION_CODES: Mapping[Any, int] = {
    f"amqp:{name}": code
    for code, name in enumerate(
        (
            *("header:list", "delivery-annotations:map", "message-annotations:map"),
            *("properties:list", "application-properties:map", "data:binary"),
            *("amqp-sequence:list", "amqp-value:*", "footer:map"),
        ),
        _HEADER,
    )
}
_URL = re.compile(r"(?:amqps?|sb)://[^/]*/(.*)", re.DOTALL)
_SEQUENCE, _ENQUEUED = "x-opt-sequence-number", "x-opt-enqueued-time"
_SCHEDULED, _LOCKED_UNTIL = "x-opt-scheduled-enqueue-time", "x-opt-locked-until"
_LOCK_TOKEN = "x-opt-lock-token"  # noqa: S105  (a name, not a secret)
_STATE, _SOURCE = "x-opt-message-state", "x-opt-deadletter-source"
_REASON, _DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"
#: Values of x-opt-message-state in the response to a peek.
_ACTIVE, _DEFERRED, _SCHEDULED_STATE = 0, 1, 2
#: Milliseconds that a receiver's lock of a message lasts; Azure's default.
_LOCK_MS = 60_000
#: Failed deliveries after which a message becomes a dead letter; Azure's default.
_MAX_DELIVERIES = 10
#: .NET ticks (units of 100 ns since the year 1) at the start of 1970.
_UNIX_EPOCH_TICKS = 621_355_968_000_000_000
#: Maximum number of messages or sessions in one response.
_MAX_RESULTS = 1_000
#: A last-updated-time from the year 10000 on, in ms, requests all sessions that have messages.
_ALL_SESSIONS = 253_402_300_800_000
_LOCK_LOST = "com.microsoft:message-lock-lost"
_ENTITY_NOT_FOUND = "com.microsoft:entity-not-found"
_MESSAGE_NOT_FOUND = "com.microsoft:message-not-found"


class _RequestError(Exception):
    """A request to ``$management`` failed with this status code, condition and description."""

    def __init__(self, status: int, condition: str, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.condition = condition


@attrs.define(eq=False)
class _Lock:
    """A receiver's lock of a message, until the receiver settles the message or the lock expires.

    Attributes:
        entity: the entity of the message.
        sequence: the sequence number of the message.
        annotations: the message-annotations that were added when the message was sent.
        expires: when the lock expires, in ms of the clock.
        delivery: the delivery on a link; None for a deferred message, which a receiver requests by
            its sequence number.
    """

    entity: _Entity
    sequence: int
    annotations: Mapping[str, Any]
    expires: int
    delivery: Delivery | None


@attrs.define(eq=False)
class _Entity:
    """The state of an entity, except for the messages that its node holds.

    Attributes:
        name: the address of its node.
        last_sequence: the last sequence number given to a message.
        deferred: the encoded deferred messages, by sequence number.
        scheduled: the due time in ms and the encoded message, by sequence number.
        session_states: the state that clients stored for a session, by session id.
        state_changes: when the state of a session was last set, in ms, by session id.
        locks: the locks of messages, by token.
    """

    name: str
    last_sequence: int = 0
    deferred: dict[int, bytes] = attrs.field(factory=dict)
    scheduled: dict[int, tuple[int, bytes]] = attrs.field(factory=dict)
    session_states: dict[str, bytes] = attrs.field(factory=dict)
    state_changes: dict[str, int] = attrs.field(factory=dict)
    locks: dict[uuid.UUID, _Lock] = attrs.field(factory=dict)


@attrs.frozen
class _ScheduledMessages:
    """The scheduled messages of an entity, as a `Destination` of published messages."""

    bus: ServiceBus
    entity: _Entity

    def withdraw(self, sequence: int) -> None:
        """Remove the scheduled message with this sequence number."""
        self.bus._unschedule(self.entity, sequence)


class ServiceBus:
    """Unpacks batches, numbers and locks messages, and answers requests to ``$management``.

    Not thread-safe: only the thread of the server may call it.

    Args:
        clock: returns the current time in ms.
        limits: the limits for decoding messages from clients.
        memory: counts deferred and scheduled messages and session states.

    Attributes:
        nodes: the nodes of the server, set when the server starts.
    """

    nodes: Nodes

    def __init__(self, clock: Callable[[], int], limits: Limits, memory: ServerMemory) -> None:
        self._clock = clock
        self._limits = limits
        self._memory = memory
        self._entities: dict[str, _Entity] = {}

    # Addresses.

    @staticmethod
    def address_of(address: Any) -> Any:
        """Return the address of the node that a client means.

        Clients send an address or a URL. The suffixes that Service Bus defines are matched without
        regard to case.
        """
        if not isinstance(address, str):
            return address
        url = _URL.fullmatch(address)
        path = url[1] if url is not None else address
        for suffix in (MANAGEMENT_SUFFIX, DEAD_LETTERS):
            path = re.sub(re.escape(suffix), lambda _, to=suffix: to, path, flags=re.IGNORECASE)
        return re.sub(SUBSCRIPTIONS, SUBSCRIPTIONS, path, flags=re.IGNORECASE)

    def _entity(self, name: str) -> _Entity:
        entity = self._entities.get(name)
        if entity is None:
            entity = self._entities[name] = _Entity(name)
            self._memory.structures += _entity_cost(name)
            node = self.nodes.find(name)
            # Messages that were in the store at the start already have sequence numbers.
            messages = node.messages() if node is not None else ()
            entity.last_sequence = max(
                (_sequence_of(message.octets, message.sequence) for message in messages), default=0
            )
        return entity

    def forget(self, name: str) -> bool:
        """Forget the entity of an unused node, unless it has state that clients could see.

        Return False if the entity is kept.
        """
        entity = self._entities.get(name)
        if entity is None:
            return True
        if (
            entity.last_sequence
            or entity.deferred
            or entity.scheduled
            or entity.session_states
            or entity.locks
        ):
            return False
        del self._entities[name]
        self._memory.structures -= _entity_cost(name)
        return True

    # Publishing.

    def publish(
        self, address: str, octets: bytes, message_format: int = 0, *, origin: object = None
    ) -> Published:
        """Publish a message, or all messages of a batch; if one is refused, publish no message.

        Raises:
            NodeError: the batch has another body than data sections, or a node has no room.
            DecodeError: a message is malformed.
        """
        messages = [octets]
        if message_format == BATCH_FORMAT:
            envelope = Message.decode(octets, limits=self._limits)
            body = envelope.body if isinstance(envelope.body, list) else [envelope.body]
            if not all(isinstance(part, Data) for part in body):
                raise NodeError("the body of a batch must be data sections", DECODE_ERROR)
            messages = [bytes(part.data) for part in body if isinstance(part, Data)]
        messages = [_in_order(message, self._limits) for message in messages]
        entities = [self._entity(name) for name in self._targets(address)]
        _, published = self._accept_all(entities, messages, origin)
        return published

    def _accept_all(
        self, entities: Iterable[_Entity], messages: Iterable[bytes], origin: object = None
    ) -> tuple[list[int], Published]:
        """Accept all messages in all entities; return the sequence numbers and destinations.

        If an entity refuses a message, no message is accepted.
        """
        sequences = []
        with all_or_none() as published:
            for entity in entities:
                for message in messages:
                    sequence, destination = self._accept(entity, message, origin)
                    sequences.append(sequence)
                    published.append(destination)
        return sequences, published

    def _targets(self, address: str) -> list[str]:
        """Return the names of the entities that get a message for `address`.

        These are the subscriptions of a topic; otherwise, the address itself.
        """
        prefix = f"{address}{SUBSCRIPTIONS}"
        names = [node.name for node in self.nodes]
        subscriptions = [
            name for name in names if name.startswith(prefix) and not name.endswith(DEAD_LETTERS)
        ]
        return subscriptions or [address]

    def _accept(
        self, entity: _Entity, octets: bytes, origin: object = None
    ) -> tuple[int, tuple[Destination, int]]:
        """Schedule a message or enqueue it.

        Return its sequence number, and its destination with the number to withdraw it by.
        """
        node = self._node(entity)
        octets = _with_message_id(octets)
        entity.last_sequence += 1
        sequence = entity.last_sequence
        due = _annotations(octets).get(_SCHEDULED)
        if isinstance(due, Timestamp) and due > self._clock():
            self._count(octets)
            entity.scheduled[sequence] = int(due), octets
            return sequence, (_ScheduledMessages(self, entity), sequence)
        return sequence, (node, self._enqueue(node, sequence, octets, origin))

    def _count(self, octets: bytes, *, always: bool = False) -> None:
        """Count the memory of a message or a session state that is kept outside of the nodes.

        Raises:
            NodeError: the limit of memory would be exceeded, and `always` is False.
        """
        excess = self._memory.excess(len(octets)) if not always else ""
        if excess:
            text = f"the server has no room for the message or the session state: {excess}"
            raise NodeError(text, RESOURCE_LIMIT_EXCEEDED)
        self._memory.held += len(octets) + Memory.PER_MESSAGE

    def _discount(self, octets: bytes | None) -> None:
        """Undo `_count` for data that is no longer held; a no-op for None."""
        if octets is not None:
            self._memory.held -= len(octets) + Memory.PER_MESSAGE

    def _defer(self, entity: _Entity, sequence: int, octets: bytes) -> None:
        self._undefer(entity, sequence)
        self._count(octets, always=True)  # the server held the message already
        entity.deferred[sequence] = octets

    def _undefer(self, entity: _Entity, sequence: int) -> None:
        self._discount(entity.deferred.pop(sequence, None))

    def _unschedule(self, entity: _Entity, sequence: int) -> None:
        _, octets = entity.scheduled.pop(sequence, (0, None))
        self._discount(octets)

    def _enqueue(
        self,
        node: DistributionNode,
        sequence: int,
        octets: bytes,
        origin: object = None,
        *,
        always: bool = False,
    ) -> int:
        """Publish a message, annotated with its sequence number and the time.

        Return the number that the node gives to the message.
        """
        annotations = {_SEQUENCE: sequence, _ENQUEUED: Timestamp(self._clock())}
        return node.publish(_annotated(octets, annotations), origin=origin, always=always)

    def _node(self, entity: _Entity) -> DistributionNode:
        node = self.nodes.find(entity.name)
        if node is None:
            raise NodeError(f"entity {entity.name!r} does not exist", NOT_FOUND)
        return node

    # Receiving.

    def session_filter(self, node: DistributionNode, session_id: Any) -> SessionFilter:
        """Return the filter for a receiver that requests a session.

        The link with this filter has the session until the link ends.

        Args:
            node: the node of the entity.
            session_id: the session that the client requests, as decoded; None for the next free
                session that has messages.

        Raises:
            NodeError: another receiver has the session, no free session has messages, or
                `session_id` is of another type than string.
        """
        locked_ids = {
            link.filter.session_id
            for link in node.links
            if isinstance(link, OutgoingLink) and isinstance(link.filter, SessionFilter)
        }
        if not (session_id is None or isinstance(session_id, str)):
            raise NodeError(
                f"the id of a session must be a string, got {session_id!r:.80}", INVALID_FIELD
            )
        if session_id is None:
            session_ids = (_session_id(message.octets) for message in node.messages())
            free = (name for name in session_ids if name is not None and name not in locked_ids)
            session_id = next(free, None)
            if session_id is None:
                raise NodeError("no free session has messages", "com.microsoft:timeout")
        elif session_id in locked_ids:
            raise NodeError(
                f"another receiver has the session {session_id!r}",
                "com.microsoft:session-cannot-be-locked",
            )
        return SessionFilter(session_id)

    def locked_until_utc(self) -> int:
        """Return when a session lock taken now expires, in .NET ticks (100 ns since the year 1)."""
        return _UNIX_EPOCH_TICKS + (self._clock() + _LOCK_MS) * 10_000

    def lock(self, delivery: Delivery, *, settled: bool = False) -> bytes:
        """Lock the message of a delivery and return the encoded message to send.

        The tag of the delivery becomes the lock token, 16 bytes. A message that is sent settled
        gets no lock.
        """
        entity = self._entity(delivery.link.node.name)
        token = _token_of(delivery.tag)
        if token is not None and token in entity.locks:
            return _locked(delivery.octets, entity.locks[token].annotations, token)
        token = uuid.uuid4()
        sequence = _sequence_of(delivery.octets, delivery.sequence)
        expires = self._clock() + _LOCK_MS
        delivery.tag = token.bytes_le
        annotations: dict[str, Any] = {_SEQUENCE: sequence}
        if settled:
            return _with_delivery_count(_annotated(delivery.octets, annotations))
        annotations[_LOCKED_UNTIL] = Timestamp(expires)
        entity.locks[token] = _Lock(entity, sequence, annotations, expires, delivery)
        return _locked(delivery.octets, annotations, token)

    def apply(self, delivery: Delivery, state: Any) -> Any:
        """Carry out a receiver's outcome and return the outcome that the node is to apply.

        A rejected message and a message that failed too often become dead letters. A message that
        is undeliverable here is deferred.
        """
        entity = self._entity(delivery.link.node.name)
        token = _token_of(delivery.tag)
        lock = entity.locks.get(token) if token is not None else None
        sequence = lock.sequence if lock is not None else delivery.sequence
        outcome = self._apply(entity, sequence, delivery, state)
        if token is not None:
            entity.locks.pop(token, None)
        return outcome

    def _apply(self, entity: _Entity, sequence: int, delivery: Delivery, state: Any) -> Any:
        if isinstance(state, Rejected):
            error = state.error
            info: Mapping[Any, Any] = (error.info if error else None) or {}
            reason = str(info.get(_REASON) or (error.condition if error else ""))
            description = str(
                info.get(_DESCRIPTION) or (error.description if error else None) or ""
            )
            self._dead_letter(entity, delivery.octets, reason, description)
            return Accepted()
        if not isinstance(state, Modified):
            return state
        if state.undeliverable_here:
            self._defer(entity, sequence, _with_failed_delivery(delivery.octets))
            return Accepted()
        # Azure counts every delivery that a receiver abandons. Its client for Node leaves
        # delivery-failed out.
        state = attrs.evolve(state, delivery_failed=True)
        if _delivery_count(delivery.octets) + 1 >= _MAX_DELIVERIES:
            description = f"the message was delivered {_MAX_DELIVERIES} times and not completed"
            self._dead_letter(
                entity,
                _with_failed_delivery(delivery.octets),
                "MaxDeliveryCountExceeded",
                description,
            )
            return Accepted()
        return state

    def lock_lost_error(self) -> Error:
        """Return the error for a receiver that settles a message after its lock expired."""
        return Error(_LOCK_LOST, "the lock has expired, or the message was settled before")

    def _dead_letter(self, entity: _Entity, octets: bytes, reason: str, description: str) -> None:
        """Move a message to the dead-letter queue of its entity.

        A message of a dead-letter queue stays in that queue.
        """
        message = _decode_leniently(octets)
        properties = {**(message.application_properties or {})}
        properties |= {_REASON: reason, _DESCRIPTION: description}
        octets = message.evolve(application_properties=properties).encode()
        dead_letters = entity
        if not entity.name.endswith(DEAD_LETTERS):
            dead_letters = self._entity(f"{entity.name}{DEAD_LETTERS}")
            octets = _annotated(octets, {_SOURCE: entity.name})
        node = self.nodes.make(dead_letters.name)
        dead_letters.last_sequence += 1
        # The server held the message already: its limits do not apply.
        self._enqueue(node, dead_letters.last_sequence, octets, always=True)

    def on_expired(self, letter: DeadLetter) -> None:
        """Move an expired message to the dead-letter queue of its entity."""
        if letter.cause == "expired" and not letter.node.endswith(DEAD_LETTERS):
            # Remove the ttl: a receiver of the dead letter would consider the message expired.
            parts = scan(letter.octets, limits=UNLIMITED)
            header = parts.section("header") or Header()
            octets = parts.replace(header=attrs.evolve(header, ttl=None))
            description = "The message expired and was dead lettered."
            entity = self._entity(letter.node)
            self._dead_letter(entity, octets, "TTLExpiredException", description)

    def tick(self) -> None:
        """Enqueue the scheduled messages that are due, and end the locks that have expired."""
        now = self._clock()
        for entity in list(self._entities.values()):
            for sequence, (due, octets) in sorted(entity.scheduled.items()):
                if due <= now and (node := self.nodes.find(entity.name)) is not None:
                    try:
                        self._enqueue(node, sequence, octets)
                    except NodeError:
                        continue  # the node is full: try again at the next tick
                    self._unschedule(entity, sequence)
            for token, lock in list(entity.locks.items()):
                delivery = lock.delivery
                if delivery is not None and delivery.settled:
                    del entity.locks[token]
                elif lock.expires <= now:
                    try:
                        self._end_lock(token, lock, Modified(delivery_failed=True))
                    except StoreError:
                        raise
                    except NodeError:
                        continue  # settling failed: try again at the next tick

    def _end_lock(self, token: uuid.UUID, lock: _Lock, outcome: Any) -> None:
        """Settle a locked message on request, or because its lock has expired."""
        entity, delivery = lock.entity, lock.delivery
        if delivery is not None:
            delivery.settle(self.apply(delivery, outcome))
            return
        entity.locks.pop(token, None)
        octets = entity.deferred.get(lock.sequence)
        if octets is None:
            return
        if isinstance(outcome, (Accepted, Rejected)):
            if isinstance(outcome, Rejected):
                info: Any = (outcome.error.info if outcome.error else None) or {}
                self._dead_letter(entity, octets, str(info[_REASON]), str(info[_DESCRIPTION]))
            self._undefer(entity, lock.sequence)
        elif isinstance(outcome, Modified):
            self._defer(entity, lock.sequence, _with_failed_delivery(octets))

    # Requests.

    def answer(self, address: str, request: Message) -> Message:
        """Carry out a request to ``ENTITY/$management`` and return the response.

        A request that fails gets a response with the error: this method does not raise it.
        """
        properties: Mapping[Any, Any] = request.application_properties or {}
        operation, body = str(properties.get("operation")), request_value(request)
        condition, description, value = "", "OK", None
        try:
            status, value = self._handle(address.removesuffix(MANAGEMENT_SUFFIX), operation, body)
        except _RequestError as error:
            status, condition, description = error.status, error.condition, str(error)
        except NodeError as error:
            is_full = error.condition == RESOURCE_LIMIT_EXCEEDED
            status, condition = (403, error.condition) if is_full else (404, _ENTITY_NOT_FOUND)
            description = str(error)
        except (DecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
            status, condition = 400, "com.microsoft:argument-error"
            description = f"{operation}: {type(error).__name__}: {error}"
        # Some of Azure's clients read the first spelling, some the second.
        properties = {
            "statusCode": Int(status),
            "statusDescription": description,
            "status-code": Int(status),
            "status-description": description,
        }
        if condition:
            properties["errorCondition"] = Symbol(condition)
        return response_to(request, value, properties)

    def _handle(self, name: str, operation: str, body: Any) -> tuple[int, Any]:
        handlers: dict[str, Callable[[_Entity, Any], tuple[int, Any]]] = {
            "peek-message": self._peek,
            "renew-lock": self._renew,
            "schedule-message": self._schedule,
            "cancel-scheduled-message": self._cancel,
            "receive-by-sequence-number": self._receive,
            "update-disposition": self._dispose,
            "get-session-state": self._get_state,
            "set-session-state": self._set_state,
            "renew-session-lock": self._renew_session,
            "get-message-sessions": self._list_sessions,
        }
        handle = handlers.get(operation.removeprefix("com.microsoft:"))
        if handle is None or not operation.startswith("com.microsoft:"):
            raise _RequestError(
                501, NOT_IMPLEMENTED, f"this server does not implement the operation {operation!r}"
            )
        if not isinstance(body, Mapping):
            raise TypeError("the body of a request must be an amqp-value section with a map")
        if self.nodes.find(name) is None:
            raise NodeError(f"entity {name!r} does not exist", NOT_FOUND)
        return handle(self._entity(name), body)

    def _peek(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        first, limit = int(body["from-sequence-number"]), int(body["message-count"])
        session_id = body.get("session-id")
        messages = []
        for sequence, state, octets in sorted(self._messages(entity)):
            if sequence < first or (session_id and _session_id(octets) != session_id):
                continue
            annotations = {_SEQUENCE: sequence, _STATE: Int(state)}
            messages.append({"message": _with_delivery_count(_annotated(octets, annotations))})
            if len(messages) >= min(limit, _MAX_RESULTS):
                break
        return (200, {"messages": messages}) if messages else (204, None)

    def _messages(self, entity: _Entity) -> Iterator[tuple[int, int, bytes]]:
        """Yield the sequence number, state and bytes of every message of an entity."""
        for message in self._node(entity).messages():
            yield _sequence_of(message.octets, message.sequence), _ACTIVE, message.octets
        for sequence, octets in entity.deferred.items():
            yield sequence, _DEFERRED, octets
        for sequence, (_, octets) in entity.scheduled.items():
            yield sequence, _SCHEDULED_STATE, octets

    def _renew(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        expires = self._clock() + _LOCK_MS
        locks = [self._find_lock(entity, token)[1] for token in body["lock-tokens"]]
        for lock in locks:
            lock.expires = expires
        return 200, {"expirations": Array("timestamp", [Timestamp(expires) for _ in locks])}

    def _find_lock(self, entity: _Entity, token: Any) -> tuple[uuid.UUID, _Lock]:
        """Return the token as a UUID, and its lock.

        Raises:
            _RequestError: the lock does not exist, has expired, or its link has ended.
            ValueError: the token is malformed.
        """
        key = token if isinstance(token, uuid.UUID) else uuid.UUID(str(token))
        lock = entity.locks.get(key)
        if lock is None or lock.expires <= self._clock():
            text = f"the lock {key} does not exist or has expired"
            raise _RequestError(410, _LOCK_LOST, text)
        if lock.delivery is not None and lock.delivery.settled:
            raise _RequestError(410, _LOCK_LOST, f"the lock {key} has ended with its link")
        return key, lock

    def _schedule(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        messages = [_in_order(_binary(item["message"]), self._limits) for item in body["messages"]]
        targets = [self._entity(target) for target in self._targets(entity.name)]
        sequences, _ = self._accept_all(targets, messages)
        # For a topic, the response has the sequence numbers of its first subscription.
        return 200, {"sequence-numbers": Array("long", sequences[: len(messages)])}

    def _cancel(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        sequences = [int(sequence) for sequence in body["sequence-numbers"]]
        for sequence in sequences:
            if sequence not in entity.scheduled:
                text = f"message {sequence} is not scheduled"
                raise _RequestError(404, _MESSAGE_NOT_FOUND, text)
        for sequence in sequences:
            self._unschedule(entity, sequence)
        return 200, None

    def _receive(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        sequences = list(dict.fromkeys(int(sequence) for sequence in body["sequence-numbers"]))
        locks_messages = int(body["receiver-settle-mode"]) == 1
        session_id = body.get("session-id")
        locked = {lock.sequence for lock in entity.locks.values() if lock.delivery is None}
        for sequence in sequences:
            octets = entity.deferred.get(sequence)
            if (
                octets is None
                or sequence in locked
                or (session_id and _session_id(octets) != session_id)
            ):
                text = f"message {sequence} is not deferred, is locked, or is of another session"
                raise _RequestError(404, _MESSAGE_NOT_FOUND, text)
        messages = []
        expires = self._clock() + _LOCK_MS
        for sequence in sequences:
            octets = entity.deferred[sequence]
            token = uuid.uuid4()
            annotations: dict[str, Any] = {_SEQUENCE: sequence}
            if locks_messages:
                annotations |= {_STATE: Int(_DEFERRED), _LOCKED_UNTIL: Timestamp(expires)}
                entity.locks[token] = _Lock(entity, sequence, annotations, expires, None)
                encoded = _locked(octets, annotations, token)
            else:
                self._undefer(entity, sequence)
                encoded = _with_delivery_count(_annotated(octets, annotations))
            messages.append({"lock-token": token, "message": encoded})
        return 200, {"messages": messages}

    def _dispose(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        reason = str(body.get("deadletter-reason") or "")
        description = str(body.get("deadletter-description") or "")
        dead = Error(
            "com.microsoft:dead-letter",
            description,
            {_REASON: reason, _DESCRIPTION: description},
        )
        outcomes: dict[str, Any] = {
            "completed": Accepted(),
            "abandoned": Modified(delivery_failed=True),
            "suspended": Rejected(dead),
            # Azure's protocol misspells this status.
            "defered": Modified(delivery_failed=True, undeliverable_here=True),
            "unlocked": Released(),
        }
        status = str(body["disposition-status"])
        if status not in outcomes:
            raise _RequestError(
                501,
                NOT_IMPLEMENTED,
                f"this server does not implement the disposition-status {status!r}",
            )
        locks = dict(self._find_lock(entity, token) for token in body["lock-tokens"])
        for token, lock in locks.items():
            self._end_lock(token, lock, outcomes[status])
        return 200, None

    # Sessions.

    def _get_state(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        return 200, {"session-state": entity.session_states.get(str(body["session-id"]))}

    def _set_state(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        state = body.get("session-state")
        session_id = str(body["session-id"])
        octets = None if state is None else _binary(state)
        previous = entity.session_states.get(session_id)
        self._discount(previous)
        if octets is None:
            entity.session_states.pop(session_id, None)
            entity.state_changes.pop(session_id, None)
            return 200, None
        try:
            self._count(octets)
        except NodeError:
            if previous is not None:
                self._count(previous, always=True)
            raise
        entity.session_states[session_id] = octets
        entity.state_changes[session_id] = self._clock()
        return 200, None

    def _renew_session(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        session_id = str(body["session-id"])
        for link in self._node(entity).links:
            session = link.filter if isinstance(link, OutgoingLink) else None
            if isinstance(session, SessionFilter) and session.session_id == session_id:
                return 200, {"expiration": Timestamp(self._clock() + _LOCK_MS)}
        raise _RequestError(
            410, "com.microsoft:session-lock-lost", f"no receiver has the session {session_id!r}"
        )

    def _list_sessions(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        skip, limit = int(body.get("skip") or 0), int(body.get("top") or _MAX_RESULTS)
        session_ids = dict.fromkeys(
            session_id
            for _, _, octets in sorted(self._messages(entity))
            if (session_id := _session_id(octets)) is not None
        )
        after = body.get("last-updated-time")
        if isinstance(after, int) and after < _ALL_SESSIONS:
            # Azure lists the sessions whose state was set after this time, with or without
            # messages.
            session_ids = {
                session_id: None
                for session_id, changed in entity.state_changes.items()
                if changed > after
            }
        page = list(session_ids)[skip : skip + min(limit, _MAX_RESULTS)]
        if not page:
            return 204, None
        return 200, {"skip": Int(skip + len(page)), "sessions-ids": Array("string", page)}


def _entity_cost(name: str) -> int:
    """Return the memory of an entity without its messages, in bytes."""
    return DEFINITION_BYTES + name_cost(name)


def request_value(request: Message) -> Any:
    """Return the value of a request's amqp-value section; None for another body."""
    return request.body.value if isinstance(request.body, AmqpValue) else None


def response_to(
    request: Message,
    value: Any,
    application_properties: Mapping[str, Any],
    subject: str | None = None,
) -> Message:
    """Return the response to a request: to its reply-to, with its message-id as correlation-id."""
    properties = request.properties or Properties()
    return Message(
        AmqpValue(value),
        properties=Properties(
            to=properties.reply_to, subject=subject, correlation_id=properties.message_id
        ),
        application_properties=dict(application_properties),
    )


def _section_code(section: Any) -> int:
    """Return the descriptor code of a section; the codes of Part 3, 3.2 rise with its position."""
    descriptor = getattr(section, "descriptor", None)
    return int(descriptor) if isinstance(descriptor, int) else _SECTION_CODES.get(descriptor, 0)


def _in_order(octets: bytes, limits: Limits) -> bytes:
    """Return a message with its sections in the order of Part 3, 3.2, after checking it.

    Azure's client writes the delivery-annotations of an AmqpAnnotatedMessage last, and Azure
    accepts that.

    Raises:
        DecodeError: the message breaks another rule.
    """
    try:
        Message.decode(octets, limits=limits)
    except DecodeError as error:
        if error.rule != "section-out-of-order":
            raise
        sections = sorted(decode_values(octets, limits=limits), key=_section_code)
        ordered = b"".join(map(encode_value, sections))
        Message.decode(ordered, limits=limits)
        return ordered
    return octets


def _binary(value: Any) -> bytes:
    """Return `value` as bytes; raise TypeError if the client sent another type than binary."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected a binary, got {type(value).__name__}")
    return bytes(value)


def _annotated(octets: bytes, added: Mapping[str, Any]) -> bytes:
    """Return a message with more message-annotations; the bytes of its bare message are kept."""
    parts = scan(octets, limits=UNLIMITED)
    annotations = MessageAnnotations({**_annotations(octets), **added})
    return parts.replace(message_annotations=annotations)


def _with_message_id(octets: bytes) -> bytes:
    """Return a message with a message-id: Service Bus adds one, and its clients rely on it."""
    properties = scan(octets, limits=UNLIMITED).section("properties") or Properties()
    if properties.message_id is not None:
        return octets
    properties = attrs.evolve(properties, message_id=uuid.uuid4().hex)
    return _decode_leniently(octets).evolve(properties=properties).encode()


def _sequence_of(octets: bytes, default: int) -> int:
    """Return the sequence number in the annotations of a message, or `default`."""
    sequence = _annotations(octets).get(_SEQUENCE)
    return sequence if isinstance(sequence, int) else default


def _annotations(octets: bytes) -> Mapping[Any, Any]:
    """Return the message-annotations of an encoded message."""
    return scan(octets, limits=UNLIMITED).section("message-annotations") or {}


def _with_failed_delivery(octets: bytes) -> bytes:
    """Return a message with its delivery-count raised by one."""
    parts = scan(octets, limits=UNLIMITED)
    header = parts.section("header") or Header()
    return parts.replace(header=attrs.evolve(header, delivery_count=header.delivery_count + 1))


def _with_delivery_count(octets: bytes) -> bytes:
    """Return a message whose header has a delivery-count, even if it is 0, as Azure sends it.

    Azure's clients show None for a delivery-count that is left out.
    """
    parts = scan(octets, limits=UNLIMITED)
    header = parts.section("header") or Header()
    if header.delivery_count:
        return octets
    default = Header()
    fields = [
        header.durable or None,
        None if header.priority == default.priority else UByte(header.priority),
        None if header.ttl is None else UInt(header.ttl),
        header.first_acquirer or None,
        UInt(0),
    ]
    return encode_value(Described(ULong(_HEADER), fields)) + parts.replace(header=None)


def _locked(octets: bytes, annotations: Mapping[str, Any], token: uuid.UUID) -> bytes:
    """Return a locked message as it is sent to its receiver.

    Azure's clients read the lock token from the delivery-annotations.
    """
    parts = scan(_annotated(octets, annotations), limits=UNLIMITED)
    delivery_annotations = DeliveryAnnotations({_LOCK_TOKEN: token})
    return _with_delivery_count(parts.replace(delivery_annotations=delivery_annotations))


def _delivery_count(octets: bytes) -> int:
    header = scan(octets, limits=UNLIMITED).section("header") or Header()
    return int(header.delivery_count)


def _decode_leniently(octets: bytes) -> Message:
    return Message.decode(octets, strict=False, limits=UNLIMITED)


_GROUP_ID = Picker("properties.group_id", limits=UNLIMITED)


def _session_id(octets: bytes) -> str | None:
    """Return the session id of an accepted message, which is its group-id; None without one."""
    session_id: str | None
    (session_id,) = _GROUP_ID(octets)
    return session_id


def _token_of(tag: bytes) -> uuid.UUID | None:
    return uuid.UUID(bytes_le=bytes(tag)) if len(tag) == 16 else None


def split_session_filter(filters: Any) -> tuple[bool, Any, Any]:
    """Separate the session filter from the remaining filters of a source.

    Returns:
        Whether there is a session filter, its value, and the remaining filters or None.
    """
    if not isinstance(filters, Mapping):
        return False, None, None
    other_filters = {key: value for key, value in filters.items() if key != SessionFilter.SYMBOL}
    return SessionFilter.SYMBOL in filters, filters.get(SessionFilter.SYMBOL), other_filters or None
