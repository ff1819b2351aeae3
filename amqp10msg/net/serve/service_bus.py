"""Emulates Azure Service Bus: adds its AMQP extensions to the nodes of a server.

An entity is a queue, a topic's subscription (``TOPIC/Subscriptions/NAME``), or the dead-letter
queue of one of them (``…/$DeadLetterQueue``). Clients send requests to ``ENTITY/$management``. A
request identifies a deferred or scheduled message by its sequence number, and a locked message by
its lock token. Deferred messages, scheduled messages and session states are kept in memory only.
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
from amqp10msg.net.serve.extension import ServerExtension, Service
from amqp10msg.net.serve.memory import DEFINITION_BYTES, ServerMemory, name_cost
from amqp10msg.net.serve.nodes import SUBSCRIPTION_SEPARATOR, Destination, Published, all_or_none
from amqp10msg.net.serve.services import request_value, response_to
from amqp10msg.sections import (
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

#: The suffix of the address of a dead-letter queue.
DEAD_LETTERS = "/$DeadLetterQueue"
#: The suffix of the address to which clients send the requests for an entity.
MANAGEMENT_SUFFIX = "/$management"
#: The descriptor code of the header section.
_HEADER_CODE = composite_of(Header).code
#: Descriptor codes of the sections, by symbolic descriptor, which Azure's clients send.
_SECTION_CODES: Mapping[Any, int] = {
    f"amqp:{name}": code
    for code, name in enumerate(
        (
            *("header:list", "delivery-annotations:map", "message-annotations:map"),
            *("properties:list", "application-properties:map", "data:binary"),
            *("amqp-sequence:list", "amqp-value:*", "footer:map"),
        ),
        _HEADER_CODE,
    )
}
_URL_PATTERN = re.compile(r"(?:amqps?|sb)://[^/]*/(.*)", re.DOTALL)
# Names of annotations.
_SEQUENCE, _ENQUEUED = "x-opt-sequence-number", "x-opt-enqueued-time"
_SCHEDULED, _LOCKED_UNTIL = "x-opt-scheduled-enqueue-time", "x-opt-locked-until"
_LOCK_TOKEN = "x-opt-lock-token"  # noqa: S105  (a name, not a secret)
_STATE, _SOURCE = "x-opt-message-state", "x-opt-deadletter-source"
#: Application-properties of a dead letter.
_REASON, _DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"
#: Values of x-opt-message-state in the response to a peek.
_ACTIVE, _DEFERRED, _SCHEDULED_STATE = 0, 1, 2
#: Duration of a receiver's lock on a message or session, in ms (Azure's default).
_LOCK_MS = 60_000
#: A message becomes a dead letter after this many failed deliveries (Azure's default).
_MAX_DELIVERIES = 10
#: The start of 1970 in .NET ticks, which are units of 100 ns since the year 1.
_UNIX_EPOCH_TICKS = 621_355_968_000_000_000
#: Maximum number of messages or sessions in one response.
_MAX_RESULTS = 1_000
#: The start of the year 10000, in ms. A request with a last-updated-time from then on lists all
#: sessions that have messages.
_ALL_SESSIONS = 253_402_300_800_000
_LOCK_LOST = "com.microsoft:message-lock-lost"
_ENTITY_NOT_FOUND = "com.microsoft:entity-not-found"
_MESSAGE_NOT_FOUND = "com.microsoft:message-not-found"


class _RequestError(Exception):
    """A request to ``$management`` failed; has the response's status code and error condition."""

    def __init__(self, status: int, condition: str, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.condition = condition


@attrs.define(eq=False)
class _Lock:
    """A receiver's lock on a message; it ends when the message is settled or the lock expires.

    Attributes:
        entity: the entity of the message.
        sequence: the sequence number of the message.
        annotations: the message-annotations that were added when the message was sent.
        expires: when the lock expires, in ms since the Unix epoch.
        delivery: the delivery on a link; None for a deferred message, which was requested by its
            sequence number.
    """

    entity: _Entity
    sequence: int
    annotations: Mapping[str, Any]
    expires: int
    delivery: Delivery | None


@attrs.define(eq=False)
class _Entity:
    """The state of an entity, without the messages that its node holds.

    Attributes:
        name: the address of the entity's node.
        last_sequence: the last assigned sequence number.
        deferred: the encoded deferred messages, by sequence number.
        scheduled: for each scheduled message, by sequence number, the time at which to enqueue it,
            in ms since the Unix epoch, and its encoding.
        session_states: the state that clients stored for each session, by session id.
        state_changes: when each session state was last set, in ms since the Unix epoch, by session
            id.
        locks: the locks on messages, by lock token.
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
    """The scheduled messages of an entity, as a `Destination` from which they can be withdrawn."""

    bus: ServiceBus
    entity: _Entity

    def withdraw(self, sequence: int) -> None:
        """Remove the scheduled message with this sequence number."""
        self.bus._unschedule(self.entity, sequence)


class ServiceBus(ServerExtension):
    """Unpacks batches, numbers and locks messages, and answers requests to ``$management``.

    Not thread-safe: only the server's thread may call its methods.

    Args:
        clock: returns the time in ms since the Unix epoch.
        limits: the limits on decoding messages from clients.
        memory: counts the memory of deferred and scheduled messages and session states.

    """

    creates_nodes = True
    replaces_outcomes = True

    def __init__(self, clock: Callable[[], int], limits: Limits, memory: ServerMemory) -> None:
        self._clock = clock
        self._limits = limits
        self._memory = memory
        self._entities: dict[str, _Entity] = {}

    # Addresses.

    def address_of(self, address: Any) -> Any:
        """Return the node address for an address or URL that a client sent.

        The parts that Service Bus defines, such as ``/$management``, match in any case (upper or
        lower), and are normalized.
        """
        if not isinstance(address, str):
            return address
        url = _URL_PATTERN.fullmatch(address)
        path = url[1] if url is not None else address
        for suffix in (MANAGEMENT_SUFFIX, DEAD_LETTERS):
            path = re.sub(re.escape(suffix), lambda _, to=suffix: to, path, flags=re.IGNORECASE)
        return re.sub(SUBSCRIPTION_SEPARATOR, SUBSCRIPTION_SEPARATOR, path, flags=re.IGNORECASE)

    def _entity(self, name: str) -> _Entity:
        """Return the entity `name`; create it if it does not exist."""
        entity = self._entities.get(name)
        if entity is None:
            entity = self._entities[name] = _Entity(name)
            self._memory.structures += _entity_cost(name)
            node = self.nodes.find(name)
            # Messages from the file of the store already have sequence numbers.
            messages = node.messages() if node is not None else ()
            entity.last_sequence = max(
                (_sequence_of(message.octets, message.sequence) for message in messages), default=0
            )
        return entity

    def service(self, address: str) -> Service | None:
        """Return the service that answers the requests to ``ENTITY/$management``."""
        if not address.endswith(MANAGEMENT_SUFFIX):
            return None
        return lambda request, _: self.answer(address, request)

    def may_delete(self, name: str) -> bool:
        """Return whether an unused node may be deleted. If so, its entity is deleted.

        An entity with state that clients could see is kept.
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

    def expires(self, name: str) -> bool:
        """Return whether the messages of a node expire: not those of a dead-letter queue."""
        return not name.endswith(DEAD_LETTERS)

    def dead_letter_handler(self) -> Callable[[DeadLetter], None]:
        """Return the function that moves expired messages to their dead-letter queue."""
        return self._on_expired

    # Publishing.

    def publish(
        self, address: str, octets: bytes, message_format: int = 0, *, origin: object = None
    ) -> Published:
        """Publish a message, or the messages of a batch; if one is refused, none is published.

        Raises:
            NodeError: the body of the batch is not data sections, or a node refused a message.
            DecodeError: a message is malformed.
        """
        messages = [octets]
        if message_format == BATCH_FORMAT:
            envelope = Message.decode(octets, limits=self._limits)
            body = envelope.body if isinstance(envelope.body, list) else [envelope.body]
            if not all(isinstance(part, Data) for part in body):
                raise NodeError("the body of a batch must be data sections", DECODE_ERROR)
            messages = [bytes(part.data) for part in body if isinstance(part, Data)]
        messages = [_sort_sections(message, self._limits) for message in messages]
        entities = [self._entity(name) for name in self._target_entities(address)]
        _, published = self._publish_to_entities(entities, messages, origin)
        return published

    def _publish_to_entities(
        self, entities: Iterable[_Entity], messages: Iterable[bytes], origin: object = None
    ) -> tuple[list[int], Published]:
        """Publish all messages to all entities, or none if an entity refuses a message.

        Returns:
            The sequence numbers, by entity and message, and the destinations.
        """
        sequences = []
        with all_or_none() as published:
            for entity in entities:
                for message in messages:
                    sequence, destination = self._schedule_or_enqueue(entity, message, origin)
                    sequences.append(sequence)
                    published.append(destination)
        return sequences, published

    def _target_entities(self, address: str) -> list[str]:
        """Return the names of the entities that get a message for `address`.

        For a topic, these are its subscriptions; otherwise, the entity with this address.
        """
        prefix = f"{address}{SUBSCRIPTION_SEPARATOR}"
        names = [node.name for node in self.nodes]
        subscriptions = [
            name for name in names if name.startswith(prefix) and not name.endswith(DEAD_LETTERS)
        ]
        return subscriptions or [address]

    def _schedule_or_enqueue(
        self, entity: _Entity, octets: bytes, origin: object = None
    ) -> tuple[int, tuple[Destination, int]]:
        """Schedule a message for its scheduled-enqueue-time, or enqueue it if there is none.

        Returns:
            The sequence number of the message; and its destination, with the number for
            `Destination.withdraw`.
        """
        node = self._find_node(entity)
        octets = _with_message_id(octets)
        entity.last_sequence += 1
        sequence = entity.last_sequence
        due = _annotations(octets).get(_SCHEDULED)
        if isinstance(due, Timestamp) and due > self._clock():
            self._count_memory(octets)
            entity.scheduled[sequence] = int(due), octets
            return sequence, (_ScheduledMessages(self, entity), sequence)
        return sequence, (node, self._enqueue(node, sequence, octets, origin))

    def _count_memory(self, octets: bytes, *, always: bool = False) -> None:
        """Count the memory of a message or session state that no node holds.

        Raises:
            NodeError: the memory limit would be exceeded, and `always` is False.
        """
        excess = self._memory.excess(len(octets)) if not always else ""
        if excess:
            text = f"the server has no room for the message or the session state: {excess}"
            raise NodeError(text, RESOURCE_LIMIT_EXCEEDED)
        self._memory.message_bytes += len(octets) + Memory.PER_MESSAGE

    def _uncount_memory(self, octets: bytes | None) -> None:
        """Undo `_count_memory`, because the data is deleted; a no-op for None."""
        if octets is not None:
            self._memory.message_bytes -= len(octets) + Memory.PER_MESSAGE

    def _defer(self, entity: _Entity, sequence: int, octets: bytes) -> None:
        """Add or replace a deferred message."""
        self._undefer(entity, sequence)
        self._count_memory(octets, always=True)  # the server already had the message
        entity.deferred[sequence] = octets

    def _undefer(self, entity: _Entity, sequence: int) -> None:
        """Remove a deferred message; a no-op if there is none."""
        self._uncount_memory(entity.deferred.pop(sequence, None))

    def _unschedule(self, entity: _Entity, sequence: int) -> None:
        """Remove a scheduled message; a no-op if there is none."""
        _, octets = entity.scheduled.pop(sequence, (0, None))
        self._uncount_memory(octets)

    def _enqueue(
        self,
        node: DistributionNode,
        sequence: int,
        octets: bytes,
        origin: object = None,
        *,
        always: bool = False,
    ) -> int:
        """Publish a message to a node, with its sequence number and the time as annotations.

        Returns:
            The node's own number of the message, for `DistributionNode.withdraw`.
        """
        annotations = {_SEQUENCE: sequence, _ENQUEUED: Timestamp(self._clock())}
        return node.publish(_annotated(octets, annotations), origin=origin, always=always)

    def _find_node(self, entity: _Entity) -> DistributionNode:
        """Return the node of an entity; raise NodeError if it does not exist."""
        node = self.nodes.find(entity.name)
        if node is None:
            raise NodeError(f"entity {entity.name!r} does not exist", NOT_FOUND)
        return node

    # Receiving.

    def split_filters(
        self, filters: Any
    ) -> tuple[Callable[[DistributionNode], SessionFilter] | None, Mapping[Any, Any] | None]:
        """Separate the session filter from the other filters of a source."""
        if not isinstance(filters, Mapping) or SessionFilter.SYMBOL not in filters:
            return None, filters
        other = {key: value for key, value in filters.items() if key != SessionFilter.SYMBOL}
        session_id = filters[SessionFilter.SYMBOL]
        return lambda node: self.session_filter(node, session_id), other or None

    def describe_filter(self, link_filter: Any) -> tuple[dict[Any, Any], dict[Symbol, Any]] | None:
        """Return the id of a locked session, and until when it is locked."""
        if not isinstance(link_filter, SessionFilter):
            return None
        # In .NET ticks, which are units of 100 ns since the year 1.
        locked_until = _UNIX_EPOCH_TICKS + (self._clock() + _LOCK_MS) * 10_000
        return (
            {SessionFilter.SYMBOL: link_filter.session_id},
            {Symbol("com.microsoft:locked-until-utc"): locked_until},
        )

    def session_filter(self, node: DistributionNode, session_id: Any) -> SessionFilter:
        """Return the filter for a receiving link that requests a session.

        The link locks the session until the link ends.

        Args:
            node: the node of the entity.
            session_id: the decoded session id that the client requests; None to request the next
                free session that has messages.

        Raises:
            NodeError: another receiver has locked the session, no free session has messages, or
                `session_id` is not a string.
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

    def outgoing_octets(self, delivery: Delivery, *, settled: bool = False) -> bytes:
        """Lock the message of a delivery, and return the encoded message to send.

        The delivery-tag is set to the lock token, 16 bytes. A message that is sent settled is not
        locked.
        """
        entity = self._entity(delivery.link.node.name)
        token = _token_of(delivery.tag)
        if token is not None and token in entity.locks:
            return _encode_locked(delivery.octets, entity.locks[token].annotations, token)
        token = uuid.uuid4()
        sequence = _sequence_of(delivery.octets, delivery.sequence)
        expires = self._clock() + _LOCK_MS
        delivery.tag = token.bytes_le
        annotations: dict[str, Any] = {_SEQUENCE: sequence}
        if settled:
            return _with_delivery_count(_annotated(delivery.octets, annotations))
        annotations[_LOCKED_UNTIL] = Timestamp(expires)
        entity.locks[token] = _Lock(entity, sequence, annotations, expires, delivery)
        return _encode_locked(delivery.octets, annotations, token)

    def replace_outcome(self, delivery: Delivery, outcome: Any) -> Any:
        """Process a receiver's outcome; return the outcome with which to settle at the node.

        A rejected message, and a message whose delivery failed too often, becomes a dead letter. A
        message with the outcome modified and undeliverable-here is deferred.

        Args:
            delivery: the delivery.
            outcome: the outcome of the receiver.
        """
        entity = self._entity(delivery.link.node.name)
        token = _token_of(delivery.tag)
        lock = entity.locks.get(token) if token is not None else None
        sequence = lock.sequence if lock is not None else delivery.sequence
        node_outcome = self._move_message(entity, sequence, delivery, outcome)
        if token is not None:
            entity.locks.pop(token, None)
        return node_outcome

    def _move_message(self, entity: _Entity, sequence: int, delivery: Delivery, state: Any) -> Any:
        """Move the message to the dead letters or deferred messages if `state` requires that.

        Returns the outcome for the node, see `replace_outcome`.
        """
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
        # Azure counts every abandoned delivery as failed. Its Node.js client omits delivery-failed.
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

    def outcome_answer(self, delivery: Delivery, outcome: Any) -> Any:
        """Return the state in the server's answer: an error if the lock has ended.

        The error of a rejected outcome is not echoed: Azure's clients would treat it as a failure.
        """
        if delivery.settled:  # its lock has expired, or a request to the service settled it
            text = "the lock has expired, or the message was settled before"
            return Rejected(Error(_LOCK_LOST, text))
        return Rejected() if isinstance(outcome, Rejected) else outcome

    def _dead_letter(self, entity: _Entity, octets: bytes, reason: str, description: str) -> None:
        """Enqueue a message in the dead-letter queue of its entity.

        If the entity is a dead-letter queue, the message is enqueued there again. The caller must
        remove the original.
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
        # The server already had the message, so that its limits do not apply.
        self._enqueue(node, dead_letters.last_sequence, octets, always=True)

    def _on_expired(self, letter: DeadLetter) -> None:
        """Enqueue an expired message in the dead-letter queue of its entity."""
        if letter.cause == "expired" and not letter.node.endswith(DEAD_LETTERS):
            # Remove the ttl, because a receiver would consider the dead letter expired.
            parts = scan(letter.octets, limits=UNLIMITED)
            header = parts.section("header") or Header()
            octets = parts.replace(header=attrs.evolve(header, ttl=None))
            description = "The message expired and was dead lettered."
            entity = self._entity(letter.node)
            self._dead_letter(entity, octets, "TTLExpiredException", description)

    def tick(self) -> None:
        """Enqueue scheduled messages that are due, and end expired locks. Called periodically."""
        now = self._clock()
        for entity in list(self._entities.values()):
            for sequence, (due, octets) in sorted(entity.scheduled.items()):
                if due <= now and (node := self.nodes.find(entity.name)) is not None:
                    try:
                        self._enqueue(node, sequence, octets)
                    except NodeError:
                        continue  # the node is full: retry at the next `tick`
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
                        continue  # settling failed: retry at the next `tick`

    def _end_lock(self, token: uuid.UUID, lock: _Lock, outcome: Any) -> None:
        """Settle a locked message with `outcome`, which also ends its lock."""
        entity, delivery = lock.entity, lock.delivery
        if delivery is not None:
            delivery.settle(self.replace_outcome(delivery, outcome))
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
        """Process a request to ``ENTITY/$management``, and return the response.

        If the request fails, the response contains the error.
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
        # Azure's clients read either the first spelling or the second.
        properties = {
            "statusCode": Int(status),
            "statusDescription": description,
            "status-code": Int(status),
            "status-description": description,
        }
        if condition:
            properties["errorCondition"] = Symbol(condition)
        return response_to(request, value, properties)

    # Each handler of an operation gets the entity and the request's map, and returns the status
    # code and the value of the response.

    def _handle(self, name: str, operation: str, body: Any) -> tuple[int, Any]:
        """Call the handler of an operation for the entity `name`, and return its result."""
        handlers: dict[str, Callable[[_Entity, Any], tuple[int, Any]]] = {
            "peek-message": self._peek_messages,
            "renew-lock": self._renew_locks,
            "schedule-message": self._schedule_messages,
            "cancel-scheduled-message": self._cancel_scheduled_messages,
            "receive-by-sequence-number": self._receive_deferred_messages,
            "update-disposition": self._settle_messages,
            "get-session-state": self._get_session_state,
            "set-session-state": self._set_session_state,
            "renew-session-lock": self._renew_session_lock,
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

    def _peek_messages(self, entity: _Entity, body: Any) -> tuple[int, Any]:
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
        """Yield the sequence number, x-opt-message-state and bytes of each message of an entity."""
        for message in self._find_node(entity).messages():
            yield _sequence_of(message.octets, message.sequence), _ACTIVE, message.octets
        for sequence, octets in entity.deferred.items():
            yield sequence, _DEFERRED, octets
        for sequence, (_, octets) in entity.scheduled.items():
            yield sequence, _SCHEDULED_STATE, octets

    def _renew_locks(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        expires = self._clock() + _LOCK_MS
        locks = [self._find_lock(entity, token)[1] for token in body["lock-tokens"]]
        for lock in locks:
            lock.expires = expires
        return 200, {"expirations": Array("timestamp", [Timestamp(expires) for _ in locks])}

    def _find_lock(self, entity: _Entity, token: Any) -> tuple[uuid.UUID, _Lock]:
        """Return a lock token as a UUID, and its lock.

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

    def _schedule_messages(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        messages = [
            _sort_sections(_checked_binary(item["message"]), self._limits)
            for item in body["messages"]
        ]
        targets = [self._entity(target) for target in self._target_entities(entity.name)]
        sequences, _ = self._publish_to_entities(targets, messages)
        # For a topic, the response has the sequence numbers in the first subscription.
        return 200, {"sequence-numbers": Array("long", sequences[: len(messages)])}

    def _cancel_scheduled_messages(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        sequences = [int(sequence) for sequence in body["sequence-numbers"]]
        for sequence in sequences:
            if sequence not in entity.scheduled:
                text = f"message {sequence} is not scheduled"
                raise _RequestError(404, _MESSAGE_NOT_FOUND, text)
        for sequence in sequences:
            self._unschedule(entity, sequence)
        return 200, None

    def _receive_deferred_messages(self, entity: _Entity, body: Any) -> tuple[int, Any]:
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
                encoded = _encode_locked(octets, annotations, token)
            else:
                self._undefer(entity, sequence)
                encoded = _with_delivery_count(_annotated(octets, annotations))
            messages.append({"lock-token": token, "message": encoded})
        return 200, {"messages": messages}

    def _settle_messages(self, entity: _Entity, body: Any) -> tuple[int, Any]:
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

    def _get_session_state(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        return 200, {"session-state": entity.session_states.get(str(body["session-id"]))}

    def _set_session_state(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        state = body.get("session-state")
        session_id = str(body["session-id"])
        octets = None if state is None else _checked_binary(state)
        previous = entity.session_states.get(session_id)
        self._uncount_memory(previous)
        if octets is None:
            entity.session_states.pop(session_id, None)
            entity.state_changes.pop(session_id, None)
            return 200, None
        try:
            self._count_memory(octets)
        except NodeError:
            if previous is not None:
                self._count_memory(previous, always=True)
            raise
        entity.session_states[session_id] = octets
        entity.state_changes[session_id] = self._clock()
        return 200, None

    def _renew_session_lock(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        session_id = str(body["session-id"])
        for link in self._find_node(entity).links:
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
            # Like Azure, list the sessions whose state was set after this time, even if they have
            # no messages.
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


def _section_code(section: Any) -> int:
    """Return the descriptor code of a section, by which sections are sorted (Part 3, 3.2)."""
    descriptor = getattr(section, "descriptor", None)
    return int(descriptor) if isinstance(descriptor, int) else _SECTION_CODES.get(descriptor, 0)


def _sort_sections(octets: bytes, limits: Limits) -> bytes:
    """Check a message, and return it with its sections in the order of Part 3, 3.2.

    Azure's client writes the delivery-annotations of an AmqpAnnotatedMessage last, and Azure
    accepts that.

    Raises:
        DecodeError: the message is malformed in another way.
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


def _checked_binary(value: Any) -> bytes:
    """Return `value` as bytes; raise TypeError if the client did not send a binary."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected a binary, got {type(value).__name__}")
    return bytes(value)


def _annotated(octets: bytes, added: Mapping[str, Any]) -> bytes:
    """Return a message with added message-annotations; the bytes of its bare message are kept."""
    parts = scan(octets, limits=UNLIMITED)
    annotations = MessageAnnotations({**_annotations(octets), **added})
    return parts.replace(message_annotations=annotations)


def _with_message_id(octets: bytes) -> bytes:
    """Return a message with a message-id, which is generated if it is missing.

    Like Service Bus, whose clients rely on the message-id.
    """
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
    """Return a message with its delivery-count increased by one."""
    parts = scan(octets, limits=UNLIMITED)
    header = parts.section("header") or Header()
    return parts.replace(header=attrs.evolve(header, delivery_count=header.delivery_count + 1))


def _with_delivery_count(octets: bytes) -> bytes:
    """Return a message whose header has a delivery-count, even if it is 0.

    Azure sends the 0, too: Azure's clients show None for a missing delivery-count.
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
    return encode_value(Described(ULong(_HEADER_CODE), fields)) + parts.replace(header=None)


def _encode_locked(octets: bytes, annotations: Mapping[str, Any], token: uuid.UUID) -> bytes:
    """Return the bytes of a locked message for its receiver.

    `annotations` are added to the message-annotations. Azure's clients read the lock token from
    the delivery-annotations.
    """
    parts = scan(_annotated(octets, annotations), limits=UNLIMITED)
    delivery_annotations = DeliveryAnnotations({_LOCK_TOKEN: token})
    return _with_delivery_count(parts.replace(delivery_annotations=delivery_annotations))


def _delivery_count(octets: bytes) -> int:
    """Return the delivery-count in the header of an encoded message."""
    header = scan(octets, limits=UNLIMITED).section("header") or Header()
    return int(header.delivery_count)


def _decode_leniently(octets: bytes) -> Message:
    return Message.decode(octets, strict=False, limits=UNLIMITED)


_GROUP_ID = Picker("properties.group_id", limits=UNLIMITED)


def _session_id(octets: bytes) -> str | None:
    """Return the session id of a message, which is its group-id; None if there is none."""
    session_id: str | None
    (session_id,) = _GROUP_ID(octets)
    return session_id


def _token_of(tag: bytes) -> uuid.UUID | None:
    """Return the lock token in a delivery-tag; None if the tag is not a token."""
    return uuid.UUID(bytes_le=bytes(tag)) if len(tag) == 16 else None
