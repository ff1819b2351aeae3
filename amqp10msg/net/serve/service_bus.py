"""A double of Azure Service Bus: what its clients ask for beyond AMQP, on the nodes of a server.

An entity is a queue, a subscription of a topic (``TOPIC/Subscriptions/NAME``), or the dead letters
of either (``…/$DeadLetterQueue``). A message that is deferred or scheduled is known by its sequence
number, one that is locked by its token; requests about them go to ``ENTITY/$management``. What is
deferred, scheduled and kept of sessions is in memory.
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
    Nodes,
    Place,
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
#: The codes of the sections that Azure's clients name by symbols, by name.
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
#: What a message is, as a peek says.
_ACTIVE, _DEFERRED, _WAITING = 0, 1, 2
#: How long a lock lasts, in ms, and how often a message is delivered before it is a dead letter.
_LOCK, _MOST_DELIVERIES = 60_000, 10
#: 100 ns from the year 1 to 1970.
_EPOCH = 621_355_968_000_000_000
#: Messages and sessions in one answer.
_MOST = 1_000
#: A last-updated-time from here on, in ms, asks for all sessions with messages: the year 10000.
_ALL_SESSIONS = 253_402_300_800_000
_LOST = "com.microsoft:message-lock-lost"
_NO_ENTITY = "com.microsoft:entity-not-found"
_MISSING = "com.microsoft:message-not-found"


class _RequestError(Exception):
    """A request is not carried out; the response says why."""

    def __init__(self, status: int, condition: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.condition = condition


@attrs.define(eq=False)
class _Lock:
    """A message that a receiver has, until it settles it or the time is over.

    It ends at `until`, in ms of the clock, and has no delivery where the message was deferred and
    is asked for by its number; `annotations` were sent with it besides its own.
    """

    entity: _Entity
    sequence: int
    annotations: Mapping[str, Any]
    until: int
    delivery: Delivery | None


@attrs.define(eq=False)
class _Entity:
    """What Service Bus keeps of an entity beside its node.

    Messages are known by their sequence numbers, of which `last` is the last, and scheduled ones
    have the time at which they are due, in ms. `states` has what clients keep of a session, by its
    id, `updated` when that was changed, in ms, and `locks` are by token.
    """

    name: str
    last: int = 0
    deferred: dict[int, bytes] = attrs.field(factory=dict)
    scheduled: dict[int, tuple[int, bytes]] = attrs.field(factory=dict)
    states: dict[str, bytes] = attrs.field(factory=dict)
    updated: dict[str, int] = attrs.field(factory=dict)
    locks: dict[uuid.UUID, _Lock] = attrs.field(factory=dict)


@attrs.frozen
class _Schedule:
    """What is scheduled at an entity."""

    bus: ServiceBus
    entity: _Entity

    def withdraw(self, number: int) -> None:
        """Schedule a message no more."""
        self.bus._unschedule(self.entity, number)


class ServiceBus:
    """Unpacks batches, counts and locks messages, and answers requests to ``$management``.

    It is used in the server's thread alone.

    Messages that are not a node's count in `memory`, too. `nodes` are set when the server starts.
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
        """Return the address of a node: clients also send it as a URL, and case means nothing."""
        if not isinstance(address, str):
            return address
        found = _URL.fullmatch(address)
        text = found[1] if found is not None else address
        for suffix in (MANAGEMENT_SUFFIX, DEAD_LETTERS):
            text = re.sub(re.escape(suffix), lambda _, to=suffix: to, text, flags=re.IGNORECASE)
        return re.sub(SUBSCRIPTIONS, SUBSCRIPTIONS, text, flags=re.IGNORECASE)

    def _entity(self, name: str) -> _Entity:
        entity = self._entities.get(name)
        if entity is None:
            entity = self._entities[name] = _Entity(name)
            self._memory.structures += _entity_cost(name)
            node = self.nodes.find(name)
            # What a file held at the start, and what was published before, has its numbers.
            held = node.messages() if node is not None else ()
            entity.last = max((_number_of(one.octets, one.sequence) for one in held), default=0)
        return entity

    def forget(self, name: str) -> bool:
        """Drop what is kept of an entity whose node is unused; return False if that would show."""
        entity = self._entities.get(name)
        if entity is None:
            return True
        if entity.last or entity.deferred or entity.scheduled or entity.states or entity.locks:
            return False
        del self._entities[name]
        self._memory.structures -= _entity_cost(name)
        return True

    # Publishing.

    def publish(
        self, address: str, octets: bytes, message_format: int = 0, *, origin: object = None
    ) -> Published:
        """Publish a message, or all messages of a batch or none."""
        messages = [octets]
        if message_format == BATCH_FORMAT:
            envelope = Message.decode(octets, limits=self._limits)
            body = envelope.body if isinstance(envelope.body, list) else [envelope.body]
            if not all(isinstance(part, Data) for part in body):
                raise NodeError("a batch is made of data sections", DECODE_ERROR)
            messages = [bytes(part.data) for part in body if isinstance(part, Data)]
        messages = [_in_order(one, self._limits) for one in messages]
        return self._accept_all(
            [self._entity(one) for one in self._targets(address)], messages, origin
        )[1]

    def _accept_all(
        self, entities: Iterable[_Entity], messages: Iterable[bytes], origin: object = None
    ) -> tuple[list[int], Published]:
        """Accept messages in all of these entities, or none; return what `_accept` does of each."""
        numbers = []
        with all_or_none() as published:
            for entity in entities:
                for one in messages:
                    number, where = self._accept(entity, one, origin)
                    numbers.append(number)
                    published.append(where)
        return numbers, published

    def _targets(self, address: str) -> list[str]:
        """The entities that get what is sent to an address: the subscriptions of a topic."""
        prefix = f"{address}{SUBSCRIPTIONS}"
        names = [node.name for node in self.nodes]
        found = [
            name for name in names if name.startswith(prefix) and not name.endswith(DEAD_LETTERS)
        ]
        return found or [address]

    def _accept(
        self, entity: _Entity, octets: bytes, origin: object = None
    ) -> tuple[int, tuple[Place, int]]:
        """Schedule a message or put it in its node; return its number, and where it is."""
        node = self._node(entity)
        octets = _named(octets)
        entity.last += 1
        number = entity.last
        due = _annotations(octets).get(_SCHEDULED)
        if isinstance(due, Timestamp) and due > self._clock():
            self._hold(octets)
            entity.scheduled[number] = int(due), octets
            return number, (_Schedule(self, entity), number)
        return number, (node, self._enqueue(node, number, octets, origin))

    def _hold(self, octets: bytes, *, always: bool = False) -> None:
        """Count what is kept beside the nodes."""
        excess = self._memory.excess(len(octets)) if not always else ""
        if excess:
            raise NodeError(f"there is no room: {excess}", RESOURCE_LIMIT_EXCEEDED)
        self._memory.held += len(octets) + Memory.PER_MESSAGE

    def _let_go(self, octets: bytes | None) -> None:
        """Count no more what was kept, if it was."""
        if octets is not None:
            self._memory.held -= len(octets) + Memory.PER_MESSAGE

    def _defer(self, entity: _Entity, number: int, octets: bytes) -> None:
        self._undefer(entity, number)
        self._hold(octets, always=True)  # it was there before
        entity.deferred[number] = octets

    def _undefer(self, entity: _Entity, number: int) -> None:
        self._let_go(entity.deferred.pop(number, None))

    def _unschedule(self, entity: _Entity, number: int) -> None:
        _, octets = entity.scheduled.pop(number, (0, None))
        self._let_go(octets)

    def _enqueue(
        self,
        node: DistributionNode,
        number: int,
        octets: bytes,
        origin: object = None,
        *,
        always: bool = False,
    ) -> int:
        told = {_SEQUENCE: number, _ENQUEUED: Timestamp(self._clock())}
        return node.publish(_annotated(octets, told), origin=origin, always=always)

    def _node(self, entity: _Entity) -> DistributionNode:
        node = self.nodes.find(entity.name)
        if node is None:
            raise NodeError(f"there is no entity {entity.name!r}", NOT_FOUND)
        return node

    # Receiving.

    def session_filter(self, node: DistributionNode, wanted: Any) -> SessionFilter:
        """Lock a session for a receiver.

        None is wanted for the next one that has messages.
        """
        taken = {
            link.filter.session_id
            for link in node.links
            if isinstance(link, OutgoingLink) and isinstance(link.filter, SessionFilter)
        }
        if not (wanted is None or isinstance(wanted, str)):
            raise NodeError(f"the id of a session is a string, not {wanted!r:.80}", INVALID_FIELD)
        if wanted is None:
            waiting = (_session_in(one.octets) for one in node.messages())
            wanted = next((one for one in waiting if one is not None and one not in taken), None)
            if wanted is None:
                raise NodeError("no session has messages", "com.microsoft:timeout")
        elif wanted in taken:
            raise NodeError(
                f"another receiver has the session {wanted!r}",
                "com.microsoft:session-cannot-be-locked",
            )
        return SessionFilter(wanted)

    def locked_until_utc(self) -> int:
        """Return when a session that is locked now is free again, in 100 ns since the year 1."""
        return _EPOCH + (self._clock() + _LOCK) * 10_000

    def dressed(self, delivery: Delivery, *, settled: bool = False) -> bytes:
        """Return the bytes to send of a delivery, and make its tag the lock's token: 16 bytes."""
        entity = self._entity(delivery.link.node.name)
        token = _token_of(delivery.tag)
        if token is not None and token in entity.locks:
            return _locked(delivery.octets, entity.locks[token].annotations, token)
        token = uuid.uuid4()
        number = _number_of(delivery.octets, delivery.sequence)
        until = self._clock() + _LOCK
        delivery.tag = token.bytes_le
        more: dict[str, Any] = {_SEQUENCE: number}
        if settled:
            return _counted(_annotated(delivery.octets, more))
        more[_LOCKED_UNTIL] = Timestamp(until)
        entity.locks[token] = _Lock(entity, number, more, until, delivery)
        return _locked(delivery.octets, more, token)

    def outcome(self, delivery: Delivery, state: Any) -> Any:
        """Return the outcome for the node to apply to a delivery, and do the rest.

        A rejected message becomes a dead letter, as does one that failed too often; one that is
        undeliverable here is deferred.
        """
        entity = self._entity(delivery.link.node.name)
        token = _token_of(delivery.tag)
        lock = entity.locks.get(token) if token is not None else None
        number = lock.sequence if lock is not None else delivery.sequence
        made = self._outcome(entity, number, delivery, state)
        if token is not None:
            entity.locks.pop(token, None)
        return made

    def _outcome(self, entity: _Entity, number: int, delivery: Delivery, state: Any) -> Any:
        if isinstance(state, Rejected):
            info: Mapping[Any, Any] = (state.error.info if state.error else None) or {}
            words = (state.error.description if state.error else None) or ""
            reason = str(info.get(_REASON) or (state.error.condition if state.error else ""))
            text = str(info.get(_DESCRIPTION) or words)
            self._bury(entity, delivery.octets, reason, text)
            return Accepted()
        if not isinstance(state, Modified):
            return state
        if state.undeliverable_here:
            self._defer(entity, number, _failed(delivery.octets))
            return Accepted()
        # Every delivery counts that is given back: the client for Node does not say that it failed.
        state = attrs.evolve(state, delivery_failed=True)
        if _delivery_count(delivery.octets) + 1 >= _MOST_DELIVERIES:
            text = f"the message was delivered {_MOST_DELIVERIES} times and not completed"
            self._bury(entity, _failed(delivery.octets), "MaxDeliveryCountExceeded", text)
            return Accepted()
        return state

    def lost(self) -> Error:
        """Return the error for a receiver whose lock is over."""
        return Error(_LOST, "the lock of the message is over, or it was settled before")

    def _bury(self, entity: _Entity, octets: bytes, reason: str, text: str) -> None:
        """Put a message among the dead letters of its entity; what is there already stays there."""
        message = _decoded(octets)
        told = {_REASON: reason, _DESCRIPTION: text}
        held = dict(message.application_properties or {})
        octets = message.evolve(application_properties={**held, **told}).encode()
        is_letter = entity.name.endswith(DEAD_LETTERS)
        letters = entity if is_letter else self._entity(f"{entity.name}{DEAD_LETTERS}")
        if not is_letter:
            octets = _annotated(octets, {_SOURCE: entity.name})
        node = self.nodes.make(letters.name)
        letters.last += 1
        self._enqueue(node, letters.last, octets, always=True)  # it was there before

    def on_expired(self, letter: DeadLetter) -> None:
        """Put an expired message among the dead letters of its entity."""
        if letter.cause == "expired" and not letter.node.endswith(DEAD_LETTERS):
            # Without its ttl: a receiver of the dead letter must not take it for expired.
            parts = scan(letter.octets, limits=UNLIMITED)
            header = parts.section("header") or Header()
            octets = parts.replace(header=attrs.evolve(header, ttl=None))
            text = "The message expired and was dead lettered."
            self._bury(self._entity(letter.node), octets, "TTLExpiredException", text)

    def tick(self) -> None:
        """Publish what is due, and end the locks whose time is over."""
        now = self._clock()
        for entity in list(self._entities.values()):
            for number, (due, octets) in sorted(entity.scheduled.items()):
                if due <= now and (node := self.nodes.find(entity.name)) is not None:
                    try:
                        self._enqueue(node, number, octets)
                    except NodeError:
                        continue  # there is no room: it stays due
                    self._unschedule(entity, number)
            for token, lock in list(entity.locks.items()):
                delivery = lock.delivery
                if delivery is not None and delivery.settled:
                    del entity.locks[token]
                elif lock.until <= now:
                    try:
                        self._end(token, lock, Modified(delivery_failed=True))
                    except StoreError:
                        raise
                    except NodeError:
                        continue  # it is tried again

    def _end(self, token: uuid.UUID, lock: _Lock, outcome: Any) -> None:
        """Settle what is locked by request or because its time is over."""
        entity, delivery = lock.entity, lock.delivery
        if delivery is not None:
            made = self.outcome(delivery, outcome)
            delivery.settle(made)
            return
        entity.locks.pop(token, None)
        octets = entity.deferred.get(lock.sequence)
        if octets is None:
            return
        if isinstance(outcome, (Accepted, Rejected)):
            if isinstance(outcome, Rejected):
                info: Any = (outcome.error.info if outcome.error else None) or {}
                self._bury(entity, octets, str(info[_REASON]), str(info[_DESCRIPTION]))
            self._undefer(entity, lock.sequence)
        elif isinstance(outcome, Modified):
            self._defer(entity, lock.sequence, _failed(octets))

    # Requests.

    def answer(self, address: str, request: Message) -> Message:
        """Carry out a request to ``ENTITY/$management``, and return the response."""
        asked: Mapping[Any, Any] = request.application_properties or {}
        operation, body = str(asked.get("operation")), asked_value(request)
        condition, text, value = "", "OK", None
        try:
            status, value = self._handle(address.removesuffix(MANAGEMENT_SUFFIX), operation, body)
        except _RequestError as error:
            status, condition, text = error.status, error.condition, str(error)
        except NodeError as error:
            is_full = error.condition == RESOURCE_LIMIT_EXCEEDED
            status, condition = (403, error.condition) if is_full else (404, _NO_ENTITY)
            text = str(error)
        except (DecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
            status, condition = 400, "com.microsoft:argument-error"
            text = f"{operation}: {type(error).__name__}: {error}"
        said: dict[str, Any] = {
            "statusCode": Int(status),
            "statusDescription": text,
            "status-code": Int(status),
            "status-description": text,
        }
        if condition:
            said["errorCondition"] = Symbol(condition)
        return response_to(request, value, said)

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
            "get-message-sessions": self._sessions,
        }
        handle = handlers.get(operation.removeprefix("com.microsoft:"))
        if handle is None or not operation.startswith("com.microsoft:"):
            raise _RequestError(
                501, NOT_IMPLEMENTED, f"this double of Service Bus has no operation {operation!r}"
            )
        if not isinstance(body, Mapping):
            raise TypeError("the body is a map as amqp-value")
        if self.nodes.find(name) is None:
            raise NodeError(f"there is no entity {name!r}", NOT_FOUND)
        return handle(self._entity(name), body)

    def _peek(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        first, most = int(body["from-sequence-number"]), int(body["message-count"])
        session = body.get("session-id")
        found = []
        for number, state, octets in sorted(self._all(entity)):
            if number < first or (session and _session_in(octets) != session):
                continue
            told = {_SEQUENCE: number, _STATE: Int(state)}
            found.append({"message": _counted(_annotated(octets, told))})
            if len(found) >= min(most, _MOST):
                break
        return (200, {"messages": found}) if found else (204, None)

    def _all(self, entity: _Entity) -> Iterator[tuple[int, int, bytes]]:
        """Yield the messages of an entity: number, state, bytes."""
        for one in self._node(entity).messages():
            yield _number_of(one.octets, one.sequence), _ACTIVE, one.octets
        for number, octets in entity.deferred.items():
            yield number, _DEFERRED, octets
        for number, (_, octets) in entity.scheduled.items():
            yield number, _WAITING, octets

    def _renew(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        until = self._clock() + _LOCK
        locks = [self._lock(entity, token)[1] for token in body["lock-tokens"]]
        for lock in locks:
            lock.until = until
        return 200, {"expirations": Array("timestamp", [Timestamp(until) for _ in locks])}

    def _lock(self, entity: _Entity, token: Any) -> tuple[uuid.UUID, _Lock]:
        """Find a lock by its token."""
        key = token if isinstance(token, uuid.UUID) else uuid.UUID(str(token))
        lock = entity.locks.get(key)
        if lock is None or lock.until <= self._clock():
            raise _RequestError(410, _LOST, f"there is no lock {key}: it is over, or was never")
        if lock.delivery is not None and lock.delivery.settled:
            raise _RequestError(410, _LOST, f"the lock {key} is over: its link has ended")
        return key, lock

    def _schedule(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        messages = [_in_order(_binary(one["message"]), self._limits) for one in body["messages"]]
        targets = [self._entity(target) for target in self._targets(entity.name)]
        numbers = self._accept_all(targets, messages)[0][: len(messages)]
        return 200, {"sequence-numbers": Array("long", numbers)}

    def _cancel(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        numbers = [int(number) for number in body["sequence-numbers"]]
        for number in numbers:
            if number not in entity.scheduled:
                raise _RequestError(404, _MISSING, f"no message {number} is scheduled")
        for number in numbers:
            self._unschedule(entity, number)
        return 200, None

    def _receive(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        numbers = list(dict.fromkeys(int(number) for number in body["sequence-numbers"]))
        keeps = int(body["receiver-settle-mode"]) == 1
        session = body.get("session-id")
        held = {lock.sequence for lock in entity.locks.values() if lock.delivery is None}
        for number in numbers:
            octets = entity.deferred.get(number)
            of = _session_in(octets) if octets is not None else None
            if octets is None or number in held or (session and of != session):
                raise _RequestError(404, _MISSING, f"no message {number} is deferred and free")
        found = []
        until = self._clock() + _LOCK
        for number in numbers:
            octets = entity.deferred[number]
            token = uuid.uuid4()
            more: dict[str, Any] = {_SEQUENCE: number}
            if keeps:
                more |= {_STATE: Int(_DEFERRED), _LOCKED_UNTIL: Timestamp(until)}
                entity.locks[token] = _Lock(entity, number, more, until, None)
            else:
                self._undefer(entity, number)
            message = _locked(octets, more, token) if keeps else _counted(_annotated(octets, more))
            found.append({"lock-token": token, "message": message})
        return 200, {"messages": found}

    def _dispose(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        reason = str(body.get("deadletter-reason") or "")
        text = str(body.get("deadletter-description") or "")
        dead = Error("com.microsoft:dead-letter", text, {_REASON: reason, _DESCRIPTION: text})
        outcomes: dict[str, Any] = {
            "completed": Accepted(),
            "abandoned": Modified(delivery_failed=True),
            "suspended": Rejected(dead),
            "defered": Modified(delivery_failed=True, undeliverable_here=True),
            "unlocked": Released(),
        }
        status = str(body["disposition-status"])
        if status not in outcomes:
            raise _RequestError(
                501,
                NOT_IMPLEMENTED,
                f"this double of Service Bus has no disposition-status {status!r}",
            )
        locks = dict(self._lock(entity, token) for token in body["lock-tokens"])
        for token, lock in locks.items():
            self._end(token, lock, outcomes[status])
        return 200, None

    # Sessions.

    def _get_state(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        return 200, {"session-state": entity.states.get(str(body["session-id"]))}

    def _set_state(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        state = body.get("session-state")
        session = str(body["session-id"])
        octets = None if state is None else _binary(state)
        before = entity.states.get(session)
        self._let_go(before)
        if octets is None:
            entity.states.pop(session, None)
            entity.updated.pop(session, None)
            return 200, None
        try:
            self._hold(octets)
        except NodeError:
            if before is not None:
                self._hold(before, always=True)
            raise
        entity.states[session] = octets
        entity.updated[session] = self._clock()
        return 200, None

    def _renew_session(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        session = str(body["session-id"])
        for link in self._node(entity).links:
            found = link.filter if isinstance(link, OutgoingLink) else None
            if isinstance(found, SessionFilter) and found.session_id == session:
                return 200, {"expiration": Timestamp(self._clock() + _LOCK)}
        raise _RequestError(
            410, "com.microsoft:session-lock-lost", f"no receiver has the session {session!r}"
        )

    def _sessions(self, entity: _Entity, body: Any) -> tuple[int, Any]:
        skip, most = int(body.get("skip") or 0), int(body.get("top") or _MOST)
        sessions = dict.fromkeys(
            session
            for _, _, octets in sorted(self._all(entity))
            if (session := _session_in(octets)) is not None
        )
        after = body.get("last-updated-time")
        if isinstance(after, int) and after < _ALL_SESSIONS:
            # Azure lists the sessions whose state was set later, with or without messages.
            sessions = {name: None for name, time in entity.updated.items() if time > after}
        chosen = list(sessions)[skip : skip + min(most, _MOST)]
        if not chosen:
            return 204, None
        told = {"skip": Int(skip + len(chosen)), "sessions-ids": Array("string", chosen)}
        return 200, told


def _entity_cost(name: str) -> int:
    """Return how many bytes of memory an entity takes without its messages."""
    return DEFINITION_BYTES + name_cost(name)


def asked_value(request: Message) -> Any:
    """Return the amqp-value of a request to a service; None where it has none."""
    return request.body.value if isinstance(request.body, AmqpValue) else None


def response_to(
    request: Message, value: Any, told: Mapping[str, Any], subject: str | None = None
) -> Message:
    """Return a response with a value, what is told in application properties, and a subject."""
    asked = request.properties or Properties()
    return Message(
        AmqpValue(value),
        properties=Properties(to=asked.reply_to, subject=subject, correlation_id=asked.message_id),
        application_properties=dict(told),
    )


def _place_of(section: Any) -> int:
    """Return the code of a section: the codes of Part 3, 3.2 are in the order of the sections."""
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
        sections = sorted(decode_values(octets, limits=limits), key=_place_of)
        ordered = b"".join(map(encode_value, sections))
        Message.decode(ordered, limits=limits)
        return ordered
    return octets


def _binary(value: Any) -> bytes:
    """Return a binary that a client sent."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{type(value).__name__} stands where a binary must")
    return bytes(value)


def _annotated(octets: bytes, more: Mapping[str, Any]) -> bytes:
    """Add message-annotations to a message; its bare message stays as it is."""
    parts = scan(octets, limits=UNLIMITED)
    held = _annotations(octets)
    return parts.replace(message_annotations=MessageAnnotations({**held, **more}))


def _named(octets: bytes) -> bytes:
    """Give a message without a message-id one, as Service Bus does: its clients rely on it."""
    properties = scan(octets, limits=UNLIMITED).section("properties") or Properties()
    if properties.message_id is not None:
        return octets
    named = attrs.evolve(properties, message_id=uuid.uuid4().hex)
    return _decoded(octets).evolve(properties=named).encode()


def _number_of(octets: bytes, otherwise: int) -> int:
    """The sequence number of a message."""
    found = _annotations(octets).get(_SEQUENCE)
    return found if isinstance(found, int) else otherwise


def _annotations(octets: bytes) -> Mapping[Any, Any]:
    found: Mapping[Any, Any] | None = scan(octets, limits=UNLIMITED).section("message-annotations")
    return found or {}


def _failed(octets: bytes) -> bytes:
    """Count a delivery of a message that did not succeed."""
    parts = scan(octets, limits=UNLIMITED)
    header = parts.section("header") or Header()
    return parts.replace(header=attrs.evolve(header, delivery_count=header.delivery_count + 1))


def _counted(octets: bytes) -> bytes:
    """Write the delivery-count of a message also where it is 0, as Azure does.

    Its clients show None for a delivery-count that is left out.
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
    """Return the bytes to send of a locked message.

    Azure's clients read the token of the lock from the delivery-annotations.
    """
    parts = scan(_annotated(octets, annotations), limits=UNLIMITED)
    told = DeliveryAnnotations({_LOCK_TOKEN: token})
    return _counted(parts.replace(delivery_annotations=told))


def _delivery_count(octets: bytes) -> int:
    header = scan(octets, limits=UNLIMITED).section("header") or Header()
    return int(header.delivery_count)


def _decoded(octets: bytes) -> Message:
    return Message.decode(octets, strict=False, limits=UNLIMITED)


_GROUP_ID = Picker("properties.group_id", limits=UNLIMITED)


def _session_in(octets: bytes) -> str | None:
    """The id of the session of a message that was accepted; None if it has none."""
    found: str | None
    (found,) = _GROUP_ID(octets)
    return found


def _token_of(tag: bytes) -> uuid.UUID | None:
    return uuid.UUID(bytes_le=bytes(tag)) if len(tag) == 16 else None


def chosen_session(filters: Any) -> tuple[bool, Any, Any]:
    """Take the session filter out of the filters of a source.

    Return whether there is one, its value, and the other filters.
    """
    pairs: Iterable[tuple[Any, Any]] = filters.items() if isinstance(filters, Mapping) else ()
    others = {key: value for key, value in pairs if key != SessionFilter.SYMBOL}
    asked = isinstance(filters, Mapping) and SessionFilter.SYMBOL in filters
    return asked, filters.get(SessionFilter.SYMBOL) if asked else None, others or None
