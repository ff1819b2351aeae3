"""A connection of the server and its links: moves messages between a socket and the nodes."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import attrs

from amqp10msg.delivery import (
    Accepted,
    Declared,
    DeliveryState,
    Error,
    Received,
    Rejected,
    Released,
    Source,
    StdDistMode,
    Step,
    TransactionalState,
    bytes_from,
)
from amqp10msg.delivery.filters import EvaluationError
from amqp10msg.delivery.node import (
    Delivery,
    DistributionNode,
    IncomingLink,
    NodeError,
    Outcome,
    OutcomeError,
    OutgoingLink,
)
from amqp10msg.message import Message
from amqp10msg.net import transport
from amqp10msg.net.serve.attaching import OUTCOMES, Attach, Attacher, LimitedFilter, Publish
from amqp10msg.net.serve.broker import MAX_PASSWORD_WAIT, Broker
from amqp10msg.net.serve.memory import KEPT_BYTES, LINK_BYTES, name_cost, terminus_cost
from amqp10msg.net.serve.nodes import UnroutableError
from amqp10msg.net.serve.transactions import Retired, Transactions
from amqp10msg.net.sockets import Socket
from amqp10msg.wire.errors import (
    INTERNAL_ERROR,
    INVALID_FIELD,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    STOLEN,
    UNAUTHORIZED_ACCESS,
    DecodeError,
    EncodeError,
)
from amqp10msg.wire.primitives import ULong

_MAX_FRAME = 1 << 16
_CHANNEL_MAX = 255
#: Unsent bytes of a connection above which it neither sends messages nor reads from its peer.
_HIGH_WATER_MARK = 1 << 20
#: Prefix of a hostname in an open frame that names a virtual host of RabbitMQ.
_VHOST = "vhost:"
#: Responses of a service that a link keeps until the client settles them.
_MAX_UNSETTLED_RESPONSES = 10
_ACCEPTED = Accepted()


@attrs.define(eq=False)
class Outgoing:
    """A link whose source is a node: sends messages as the peer grants credit.

    Attributes:
        connection: the connection of the link.
        link: the link of the transport.
        out: the link at the node.
        source: the source that the peer requested.
        incomplete: whether either end has more unsettled deliveries than it listed.
        cost: the memory of the source, in bytes.
        unsettled: the unsettled deliveries of the transport, by their number at the node.
    """

    connection: Connection
    link: transport.Link
    out: OutgoingLink
    source: Source
    incomplete: bool
    _resuming: deque[tuple[Delivery, Step]]
    cost: int
    unsettled: dict[int, transport.LinkDelivery] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.out.on_ended = self.on_ended

    @property
    def node(self) -> DistributionNode:
        """The source node."""
        return self.out.node

    @property
    def is_service(self) -> bool:
        """Whether the link sends the responses of a service."""
        return self.connection.broker.service(self.node.name) is not None

    def report_counts(self) -> None:
        """Set the counts in the link's next flow: available, and acquired by other links."""
        counts = self.node.counts
        own_count = len(self.out.unsettled) if self.out.mode is StdDistMode.MOVE else 0
        self.link.available = counts.available
        self.link.properties = {
            transport.ACQUIRED_BY_OTHERS: ULong(max(counts.acquired - own_count, 0))
        }

    def pump(self) -> bool:
        """Send one message if one is available and credit allows; return whether one was sent."""
        link = self.link
        if not link.credit or not link.is_open:
            return False
        connection = self.connection
        if (
            connection.paused
            or link.session.blocked
            or connection.engine.pending > _HIGH_WATER_MARK
        ):
            connection.waiting.add(self)
            return False
        if self._resuming:
            self._resume(*self._resuming.popleft())
            return True
        if self.incomplete:
            # The peer could mistake a new delivery for an unlisted unsettled delivery: send no new
            # delivery until the link is attached again (Part 2, 2.7.3).
            if link.drain:
                link.drained()
                connection.touch()
            return False
        settled = link.snd_settle_mode is transport.SenderSettleMode.SETTLED
        if isinstance(self.out.filter, LimitedFilter):
            self.out.filter.fresh = True
        delivery = self.out.next(settled=settled)
        if delivery is None:
            if link.drain:
                link.drained()
                connection.touch()
            return False
        bus = connection.broker.service_bus
        octets = delivery.octets
        if bus is not None and not self.is_service:
            octets = bus.lock(delivery, settled=settled)
        link_delivery = link.send(
            delivery.tag, octets, settled=settled, message_format=delivery.message_format
        )
        if not settled:
            link_delivery.context = delivery
            self.unsettled[delivery.number] = link_delivery
            if self.is_service and len(self.unsettled) > _MAX_UNSETTLED_RESPONSES:
                self._settle_oldest()
        elif self.out.mode is StdDistMode.MOVE:
            connection.broker.turns.sent_settled.append(delivery)
        self._report_drained()
        connection.touch()
        return True

    def _settle_oldest(self) -> None:
        """Accept the oldest response: many clients never settle responses, which fill the node."""
        link_delivery = self.unsettled.pop(next(iter(self.unsettled)))
        link_delivery.context.settle(_ACCEPTED)
        link_delivery.update(_ACCEPTED)

    def _report_drained(self) -> None:
        """Send the flow that ends a drain, if the credit is used up (Part 2, 2.6.7)."""
        if not self.link.credit:
            self.link.drained()

    def _resume(self, delivery: Delivery, step: Step) -> None:
        """Resume a delivery of a lost link, from `step.start` on and with `step.state`."""
        # If a transaction has settled the delivery in the meantime, send only its outcome.
        is_settled = delivery.settled
        octets = b""
        if not is_settled and step.start is not None:
            octets = bytes_from(delivery.octets, step.start)
        link_delivery = self.link.send(
            delivery.tag,
            octets,
            settled=is_settled,
            message_format=delivery.message_format,
            state=delivery.outcome if is_settled else step.state,
            resume=True,
        )
        if not is_settled:
            link_delivery.context = delivery
            self.unsettled[delivery.number] = link_delivery
        self._report_drained()
        self.connection.touch()

    def on_disposition(self, link_delivery: transport.LinkDelivery) -> None:
        """Apply the peer's disposition."""
        delivery: Delivery = link_delivery.context
        state = link_delivery.state
        if isinstance(state, TransactionalState) and not delivery.settled:
            self._retire_in_transaction(delivery, link_delivery, state)
            return
        terminal = isinstance(state, OUTCOMES)
        bus = self.connection.broker.service_bus
        if terminal and bus is not None and not self.is_service:
            if delivery.settled:  # its lock expired, or a request settled it
                self.unsettled.pop(delivery.number, None)
                link_delivery.update(Rejected(bus.lock_lost_error()))
                self.connection.touch()
            else:
                if isinstance(state, Rejected):
                    link_delivery.state = Rejected()  # clients read an echoed error as a failure
                self._apply_outcome(delivery, link_delivery, state)
            return
        if terminal or isinstance(state, Received):
            delivery.update(state)
        if link_delivery.settled or terminal:
            self._settle(delivery, link_delivery, None)

    def _apply_outcome(
        self, delivery: Delivery, link_delivery: transport.LinkDelivery, outcome: Outcome
    ) -> None:
        """Settle a delivery with an outcome, which the Service Bus emulator may replace."""
        bus = self.connection.broker.service_bus
        if bus is not None and not self.is_service:
            outcome = bus.apply(delivery, outcome)
        self._settle(delivery, link_delivery, outcome)

    def _retire_in_transaction(
        self, delivery: Delivery, link_delivery: transport.LinkDelivery, state: TransactionalState
    ) -> None:
        """Keep an outcome until its transaction is discharged (Part 4, 4.4.3)."""
        outcome = state.outcome
        try:
            transaction = self.connection.transactions.get(state.txn_id)
            if not isinstance(outcome, OUTCOMES):
                raise NodeError("a transactional state must have an outcome", NOT_IMPLEMENTED)
            settle = partial(self._settle_at_discharge, delivery, link_delivery)
            transaction.add(Retired(delivery, outcome, link_delivery.settled, settle))
        except NodeError as error:
            self.connection.end_link(self.link, error.error)

    def _settle_at_discharge(
        self, delivery: Delivery, link_delivery: transport.LinkDelivery, outcome: Outcome
    ) -> None:
        """Settle a delivery after its transaction: on this link, or on the link that resumed it."""
        end = self.connection.broker.links.get(self.connection.identity(self.link))
        if not isinstance(end, Outgoing) or end.out is not self.out:
            end = self
        current = end.unsettled.get(delivery.number, link_delivery)
        if current is not link_delivery and current.state is None:
            current.state = link_delivery.state
        end._apply_outcome(delivery, current, outcome)

    def _settle(
        self, delivery: Delivery, link_delivery: transport.LinkDelivery, outcome: Outcome | None
    ) -> None:
        state = link_delivery.state
        refused: Error | None = None
        try:
            delivery.settle(outcome)
        except OutcomeError as error:
            refused = error.error
        except EncodeError as error:
            refused = Error(INVALID_FIELD, str(error))
        if refused is not None:
            delivery.settle(Released())
            state = Released()
            self.connection.log(
                "outcome-refused",
                logging.WARNING,
                link=self.link.name,
                condition=refused.condition,
                why=refused.description,
            )
        self.unsettled.pop(delivery.number, None)
        if link_delivery.settled and refused is None:
            link_delivery.update(state)  # the receiver expects no answer
            return

        def send_outcome() -> None:
            if link_delivery.settled and refused is not None:
                # The receiver has settled: only an error of the link can report the refusal.
                self.connection.end_link(self.link, refused)
            # If the receiver has not settled the delivery, it waits for this, and settles then.
            link_delivery.update(state)

        self.connection.confirm(send_outcome)

    def on_ended(self, delivery: Delivery) -> None:
        """Inform the peer that the node has settled a delivery, by expiry or node deletion."""
        link_delivery = self.unsettled.pop(delivery.number, None)
        if link_delivery is not None:
            link_delivery.update(Accepted())
            self.connection.touch()


class NullBuffer:
    """Discards the bytes of a refused message."""

    def __len__(self) -> int:
        return 0

    def extend(self, octets: bytes | bytearray, /) -> None:
        """Discard bytes."""


@attrs.define(eq=False)
class Incoming:
    """A link that receives messages from the peer.

    Attributes:
        connection: the connection of the link.
        link: the link of the transport.
        publish: publishes a message; None for the coordinator.
        target: the link at the node, if the target is a single node.
        rejects: whether the peer's source supports the outcome rejected.
        window: the credit that the sender gets.
        cost: the memory of the target, in bytes.
        partial_size: bytes of the incomplete message, counted in the server's memory.
        refused: why the incomplete message is refused; None if it is not.
    """

    connection: Connection
    link: transport.Link
    publish: Publish | None
    target: IncomingLink | None
    rejects: bool
    window: int
    cost: int = 0
    partial_size: int = 0
    refused: NodeError | None = None

    def grant(self) -> None:
        """Top up the credit to the window, in steps of half a window or more."""
        missing = self.window - self.link.credit
        if missing * 2 >= self.window:
            self.link.grant(missing)
            self.connection.touch()

    def on_part(self, size: int) -> None:
        """Count the memory of a part of a message; discard the message if the limit is exceeded."""
        if self.refused is not None:
            return
        memory = self.connection.broker.memory
        excess = memory.excess(size)
        if excess:
            self.release_memory()
            self.refused = NodeError(
                f"the server has no room for the message: {excess}", RESOURCE_LIMIT_EXCEEDED
            )
            self.link.divert(NullBuffer())
            return
        self.partial_size += size
        memory.held += size

    def release_memory(self) -> None:
        """Stop counting the parts of the current message."""
        self.connection.broker.memory.held -= self.partial_size
        self.partial_size = 0

    def on_transfer(self, link_delivery: transport.LinkDelivery) -> None:
        """Publish a complete message; its payload is None if the sender aborted it."""
        self.release_memory()
        refused, self.refused = self.refused, None
        octets = link_delivery.payload
        if link_delivery.resumed:
            # The server keeps no incoming deliveries of a lost link, so a resumed delivery is
            # unknown, and is ignored (Part 2, 2.7.5).
            self.link.session.forget(link_delivery)
            self.grant()
            return
        if octets is None:
            self.grant()
            return
        state, error = self._publish(octets, link_delivery, refused)
        if error is not None:
            self.connection.log(
                "refused", link=self.link.name, condition=error.condition, why=error.description
            )
        self.connection.confirm(partial(self._confirm, link_delivery, state, error))

    def _confirm(
        self, link_delivery: transport.LinkDelivery, state: DeliveryState, error: Error | None
    ) -> None:
        if isinstance(state, Rejected) and (link_delivery.settled or not self.rejects):
            # The sender has settled the delivery, or its source does not support `rejected`: close
            # the link with the error (Part 3, 3.2.1, on durable messages).
            self.connection.end_link(self.link, error)
            return
        if isinstance(state, Rejected) and error is not None and error.info is None:
            # Azure's clients wait forever if a field of an error is missing.
            state = Rejected(attrs.evolve(error, info={}))
        first = self.link.rcv_settle_mode is transport.ReceiverSettleMode.FIRST
        link_delivery.update(state, settled=first or link_delivery.settled)
        self.grant()

    def _publish(
        self, octets: bytes, link_delivery: transport.LinkDelivery, refused: NodeError | None
    ) -> tuple[DeliveryState, Error | None]:
        """Publish a message, or keep it for its transaction.

        Returns:
            The delivery state, and the error if the message was refused.
        """
        transactions = self.connection.transactions
        publish = self.publish
        state = link_delivery.state
        try:
            if refused is not None:
                raise refused
            if publish is None:
                txn_id = transactions.control(octets, self.link)
                if txn_id is not None:
                    return Declared(txn_id), None
            elif isinstance(state, TransactionalState):
                transaction = transactions.get(state.txn_id)
                Message.decode(octets, limits=self.connection.broker.limits)
                transaction.add(partial(publish, octets, link_delivery.message_format), len(octets))
                return TransactionalState(state.txn_id, Accepted()), None
            else:
                publish(octets, link_delivery.message_format)
        except UnroutableError as error:
            return Released(), error.error
        except NodeError as error:
            return Rejected(error.error), error.error
        except EvaluationError as error:  # raised by the filter of an exchange's binding
            costly = Error(RESOURCE_LIMIT_EXCEEDED, str(error))
            return Rejected(costly), costly
        except DecodeError as error:
            fault = Error(error.condition, str(error))
            return Rejected(fault), fault
        return _ACCEPTED, None


def _certificate_name(certificate: Any) -> str | None:
    """Return the common name of a verified certificate, or its subject; None for no certificate."""
    if not certificate:
        return None
    parts = [pair for group in certificate.get("subject", ()) for pair in group]
    names = [value for key, value in parts if key == "commonName"]
    return names[-1] if names else ",".join(f"{key}={value}" for key, value in parts)


class Connection(Socket, transport.Handler):
    """A connection of a server.

    Args:
        broker: the state of the server.
        admits: returns whether the server may have another connection.

    Attributes:
        waiting: the links that can send again when the socket has room.
        user: the name of the authenticated user; None for ANONYMOUS.
    """

    def __init__(self, broker: Broker, admits: Callable[[], bool]) -> None:
        super().__init__()
        self.broker = broker
        self.waiting: set[Outgoing] = set()
        self.user: str | None = None
        self.transactions = Transactions(broker.limits, broker.memory)
        scram = broker.scram
        self._sasl = transport.SaslServer(
            anonymous=broker.anonymous,
            users=broker.users,
            scram=scram.begin if scram is not None else None,
        )
        self.engine = transport.Connection(
            self,
            transport.Open(
                container_id=broker.container_id,
                max_frame_size=_MAX_FRAME,
                channel_max=_CHANNEL_MAX,
                offered_capabilities=("ANONYMOUS-RELAY",),
                properties=broker.properties,
            ),
            self._sasl,
        )
        self._admits = admits
        # Identifies this connection as the publisher of messages, which may outlive it.
        self._origin = object()
        self._attacher = Attacher(broker, self._origin)
        self._peer = ""
        self._host = ""
        #: Event-loop time at which the peer must have opened the connection.
        self.opening_deadline = self.loop.time() + broker.options.waits.opening
        self._abort_timer: asyncio.TimerHandle | None = None
        self._opening_timer: asyncio.TimerHandle | None = None
        # Bytes received while the peer waits for permission to authenticate; None at other times.
        self._early_bytes: bytearray | None = None
        self._has_waited = False
        self._links: dict[transport.Link, Outgoing | Incoming] = {}
        # Bytes of memory by link, also of refused links until the peer detaches them.
        self._costs: dict[transport.Link, int] = {}

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event with the address of the peer."""
        self.broker.log(event, level, peer=self._peer, **fields)

    # Called by asyncio.

    def begin(self) -> None:
        """Register the connection."""
        stream = self._stream
        name = stream.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
        self._host = str(name[0]) if isinstance(name, tuple) else ""
        self._sasl.certificate = _certificate_name(stream.get_extra_info("peercert"))
        if not self._admits():
            stream.abort()
            return
        self.broker.connections.add(self)
        self._opening_timer = self.loop.call_at(self.opening_deadline, self._on_opening_timeout)
        self.log("connected", tls=stream.get_extra_info("cipher") is not None)

    def data_received(self, data: bytes) -> None:
        """Process bytes of the peer."""
        if self._early_bytes is not None:
            self._early_bytes += data
        elif not self._must_wait(data):
            self.engine.feed(data)
            if self.engine.authenticated:
                self._run_in_turn(self.process)
            else:
                super().flush()

    def _must_wait(self, data: bytes) -> bool:
        """Return True, and delay `data`, if the peer's host must wait after wrong passwords."""
        if self._has_waited or not self.broker.users:
            return False
        self._has_waited = True
        wait = self.broker.password_throttle.wait(self._host, self.loop.time())
        if wait > MAX_PASSWORD_WAIT:
            self.log("refused", logging.WARNING, why="too many wrong passwords from this host")
            self._stream.abort()
            return True
        if not wait:
            return False
        self._early_bytes = bytearray(data)
        self.update_reading()
        if self._opening_timer is not None:
            self._opening_timer.cancel()
        self._opening_timer = self.loop.call_later(
            wait + self.broker.options.waits.opening, self._on_opening_timeout
        )
        self.loop.call_later(wait, self._end_wait)
        return True

    def _end_wait(self) -> None:
        early, self._early_bytes = self._early_bytes, None
        if early is not None and not self.is_closing:
            self.update_reading()
            self.data_received(bytes(early))

    def _on_opening_timeout(self) -> None:
        self.log("refused", logging.WARNING, why="the peer did not open the connection in time")
        self._stream.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the links: unsettled deliveries get their outcome, unless the terminus remains."""
        for timer in (self._timer, self._abort_timer, self._opening_timer):
            if timer is not None:
                timer.cancel()
        self.broker.connections.discard(self)
        try:
            self.broker.turns.run(self._end_all)
        finally:
            self.broker.memory.structures -= sum(self._costs.values())
            self._costs.clear()
            self.broker.turns.touched.discard(self)
            self.log("disconnected", why=str(exc or ""))

    def on_resumed(self) -> None:
        """Resume sending."""
        self.broker.turns.run(self.touch)

    # Turns: see `DeferredWork`.

    def _run_in_turn(self, work: Callable[[], object]) -> None:
        """Run `work` in a turn. If it raises, close this connection; others are not affected."""

        def work_or_fail() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  (logged)
                self.fail(error)

        self.broker.turns.run(work_or_fail)

    def fail(self, error: Exception, where: str = "") -> None:
        """Log an internal error, close the connection, and release its links immediately.

        The peer may never answer the close.
        """
        self.broker.logger.error("fault %s", where, exc_info=error)
        try:
            self.close(Error(INTERNAL_ERROR, str(error)))
        except Exception:  # noqa: BLE001  (the close cannot be sent)
            self.abort()
        finally:
            self._end_all()

    def process(self) -> None:
        """Process received frames: at least one, and more until the turn is over."""
        self.touch()
        super().process()

    def turn_is_over(self) -> bool:
        """Whether to leave the next frame to a later turn."""
        return self.broker.turns.is_turn_over

    def go_on(self) -> None:
        """Process the frames that the last turn left."""
        if self in self.broker.connections:  # it may be lost by now
            self._run_in_turn(self.process)

    def wants_input(self) -> bool:
        """Whether to read from the peer now.

        False while received frames wait for a later turn, the peer leaves too many bytes unread,
        or it must wait before it may authenticate.
        """
        full = self.paused and self.engine.pending > _HIGH_WATER_MARK
        return not (self._frames_waiting or full) and self._early_bytes is None

    def touch(self) -> None:
        """Schedule a flush at the end of the turn."""
        self.broker.turns.touched.add(self)

    def confirm(self, send: Callable[[], None]) -> None:
        """Schedule `send`, which sends a confirmation, for after the next commit of the store."""
        self.touch()
        self.broker.turns.confirmations.append((self, send))

    def flush(self) -> Iterable[Outgoing]:
        """Write pending bytes to the socket; return the links that waited and may send again."""
        if self._stream is None or not self.engine.authenticated:
            return ()
        self.engine.keep()  # committed, including the bytes that do not fit into the socket yet
        # The timer sends the empty frames that keep an idle connection alive.
        deadline = self.engine.tick(self.loop.time())
        self.call_at(deadline, self.broker.turns.run, self.touch)
        super().flush()
        if self.engine.over and not self.is_closing:
            self._abort_later()
            if not self.paused:
                self._stream.close()
        if self.paused or not self.waiting:
            return ()
        waiting, self.waiting = self.waiting, set()
        return waiting

    # Called by the transport.

    def on_authenticated(self, user: str | None) -> None:
        """Store the name of the authenticated user."""
        self.user = user

    def on_refused(self, error: transport.SaslError) -> None:
        """Send the failed outcome of SASL, then close the socket."""
        self._stream.write(self.engine.take())
        self.log("refused", logging.WARNING, why=str(error))
        if self.broker.users:
            self.broker.password_throttle.refused(self._host, self.loop.time())
        self._abort_later()
        self._stream.close()

    def on_open(self) -> None:
        """Answer the open frame; close the connection if the peer requests an unknown vhost.

        A client of RabbitMQ names a virtual host with the prefix ``vhost:``. Any other hostname is
        the name that the client connected to (Part 2, 2.7.1).
        """
        if self._opening_timer is not None:
            self._opening_timer.cancel()
        remote = self.engine.remote
        hostname = (remote.hostname if remote is not None else None) or ""
        if hostname.startswith(_VHOST) and hostname != f"{_VHOST}/":
            self._refuse_vhost(hostname.removeprefix(_VHOST))
            return
        self.engine.open()
        self.log("opened", container=self.container, user=self.user)

    def _refuse_vhost(self, name: str) -> None:
        """Close the connection: the requested virtual host does not exist.

        RabbitMQ 4 logs the error and closes the socket. Its own clients rely on that: they treat a
        close frame as the end of a working connection, and reconnect forever.
        """
        reason = f"virtual host {name!r} does not exist: the server has only '/'"
        self.log("refused", logging.WARNING, why=reason)
        if self.broker.options.like == "rabbitmq-4":
            self.engine.abandon()
        else:
            self.close(Error(UNAUTHORIZED_ACCESS, reason))

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """End all links. If the peer broke a rule (`fault`), log the error."""
        if fault and error is not None:
            reason = f"{error.condition}: {error.description}"
            self.log("transport-error", logging.WARNING, why=reason)
        self._end_all()

    def on_begin(self, session: transport.Session) -> None:
        """Answer the begin of a session."""
        session.begin()

    def on_end(self, session: transport.Session, error: Error | None) -> None:
        """End the links of a session."""
        if error is not None:
            self.log("session-error", condition=error.condition, why=error.description)
        for link in [link for link in self._links if link.session is session]:
            self._end(link, "session")
        self.broker.termini.end_of(session, "session")

    def on_attach(self, link: transport.Link) -> None:
        """Attach the link to its node, or refuse it."""
        if link.remote is None:
            return
        if not link.sends and not self.broker.options.receiver_settles_second:
            link.rcv_settle_mode = transport.ReceiverSettleMode.FIRST
        end: Outgoing | Incoming
        remote = link.remote
        # Drop the fields that are only read here.
        link.remote = attrs.evolve(
            remote, source=None, target=None, unsettled=None, properties=None
        )
        self._add_cost(link, LINK_BYTES + name_cost(link.name))
        cost = terminus_cost(remote.source if link.sends else remote.target)
        try:
            attach = Attach.of(remote)
            self._detach_existing(link)
            self.broker.nodes.make_room(cost)
            if link.sends:
                sender = self._attacher.outgoing(self.container, link, attach)
                end = Outgoing(self, link, *sender, cost)
            else:
                receiver = self._attacher.incoming(self.container, link, attach)
                end = Incoming(self, link, *receiver, self.broker.options.credit, cost=cost)
        except DecodeError as error:
            self._refuse(link, Error(error.condition, str(error)))
            return
        except NodeError as error:
            self._refuse(link, error.error)
            return
        self._add_cost(link, cost)
        self._links[link] = end
        self.broker.links[self.identity(link)] = end
        if isinstance(end, Incoming):
            end.grant()
            target = end.target
            node = target.node.name if target else getattr(attach.target, "address", None)
        else:
            node = end.node.name
            self.broker.turns.add(end)
        self.log("attached", link=link.name, node=node, receiver=link.sends)

    def _add_cost(self, link: transport.Link, cost: int) -> None:
        self._costs[link] = self._costs.get(link, 0) + cost
        self.broker.memory.structures += cost

    def on_link_gone(self, link: transport.Link) -> None:
        """Stop counting the memory of a link."""
        self.broker.memory.structures -= self._costs.pop(link, 0)

    def on_detach(self, link: transport.Link, error: Error | None, *, closed: bool) -> None:
        """End the link; if it is detached without being closed, its terminus may remain."""
        if error is not None:
            self.log("link-error", link=link.name, condition=error.condition, why=error.description)
        self._end(link, None if closed else "link")

    def on_flow(self, link: transport.Link) -> None:
        """Send as many messages as the credit allows."""
        end = self._links.get(link)
        if isinstance(end, Outgoing):
            end.report_counts()
            self.broker.turns.ready[end] = None

    def on_transfer(self, delivery: transport.LinkDelivery) -> None:
        """Publish a received message."""
        end = self._links.get(delivery.link)
        if isinstance(end, Incoming):
            end.on_transfer(delivery)

    def on_part(self, link: transport.Link, size: int) -> None:
        """Count the memory of a part of a message."""
        end = self._links.get(link)
        if isinstance(end, Incoming):
            end.on_part(size)

    def on_disposition(self, delivery: transport.LinkDelivery) -> None:
        """Apply a receiver's outcome; the disposition of a sender needs no answer."""
        end = self._links.get(delivery.link)
        if isinstance(end, Outgoing):
            end.on_disposition(delivery)

    # Links.

    @property
    def container(self) -> str:
        """The peer's container-id."""
        remote = self.engine.remote
        return remote.container_id if remote is not None else ""

    def identity(self, link: transport.Link) -> tuple[str, str, bool]:
        """Return the key that identifies a link (Part 2, 2.6.1)."""
        return self.container, link.name, link.sends

    def _detach_existing(self, link: transport.Link) -> None:
        """Detach the link that has the identity of a new link, if there is one."""
        existing = self.broker.links.get(self.identity(link))
        if existing is not None and self.container:
            existing.connection.steal(existing.link)

    def steal(self, link: transport.Link) -> None:
        """Detach a link of this connection, because its peer attached it again (Part 2, 2.6.1)."""
        self.log("stolen", link=link.name)
        self._end(link, "link")
        self.end_link(link, Error(STOLEN, "the link was attached again"))

    def _refuse(self, link: transport.Link, error: Error) -> None:
        """Refuse a link. If the server's memory is overdrawn, also end the session of the link."""
        self.log("link-refused", link=link.name, condition=error.condition, why=error.description)
        link.refuse(error)
        if self.broker.memory.is_overdrawn:
            # Ending the session also frees the refused links that the peer has not detached.
            self.on_end(link.session, error)
            link.session.end(error)

    def end_link(self, link: transport.Link, error: Error | None) -> None:
        """Close a link with an error, and end its terminus."""
        link.detach(error)
        self._end(link, None)
        self.touch()

    def _end(self, link: transport.Link, ended_scope: str | None) -> None:
        """End a link; its expiry policy may keep its terminus.

        Args:
            link: the link.
            ended_scope: the event of the expiry policy: "link", "session" or "connection"; None if
                the link is closed, which deletes the terminus.
        """
        end = self._links.pop(link, None)
        if end is None:
            return
        if self.broker.links.get(self.identity(link)) is end:
            del self.broker.links[self.identity(link)]
        try:
            if isinstance(end, Incoming):
                end.release_memory()
                self.transactions.end_of(link)
                if end.target is not None:
                    end.target.detach()
                    self.broker.nodes.unused(end.target.node)
            else:
                self.broker.turns.remove(end)
                self.waiting.discard(end)
                scopes = {"session": link.session, "connection": self}
                self.broker.termini.retire(
                    (self.container, link.name),
                    end.out,
                    end.source,
                    scopes=scopes,
                    ended_scope=ended_scope,
                    cost=end.cost + KEPT_BYTES + name_cost(link.name),
                )
        except Exception:  # log it: the remaining links must still be ended
            self.broker.logger.exception("fault at the end of a link")
            if isinstance(end, Outgoing):
                self.broker.release(end.out)
        self.log("detached", link=link.name)

    def _end_all(self) -> None:
        for link in list(self._links):
            self._end(link, "connection")
        self.broker.termini.end_of(self, "connection")
        self._attacher.close()
        self.broker.on_ended(self._origin)

    def keep(self) -> None:
        """Mark the bytes written so far as committed, so that `close` does not discard them."""
        self.engine.keep()

    def close(self, error: Error, *, discard: bool = False) -> None:
        """Close the connection with an error, which is sent to the peer if possible.

        Args:
            error: the error of the close frame.
            discard: discard the unsent bytes written since `keep`.
        """
        if not self.engine.authenticated or self.is_closing:
            self._stream.abort()
        else:
            self.engine.close(error, discard=discard)
            self.touch()
            self._abort_later()

    def _abort_later(self) -> None:
        """Abort the socket after `ServerWaits.closing`: the peer may never read the last bytes."""
        if self._abort_timer is None:
            self._abort_timer = self.loop.call_later(self.broker.options.waits.closing, self.abort)

    def abort(self) -> None:
        """Close the socket immediately."""
        self._stream.abort()
