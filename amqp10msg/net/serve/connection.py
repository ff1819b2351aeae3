"""A connection and its links: moves bytes between a socket and the nodes, by the transport."""

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
from amqp10msg.net.serve.attaching import OUTCOMES, Attach, Attacher, PassingFilter, Publish
from amqp10msg.net.serve.broker import LONGEST_TURN, Broker
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
#: Bytes that wait in a connection for the socket before its links wait, and its peer.
_MAX_WAITING = 1 << 20
#: Begins the hostname of an open frame that names a virtual host of RabbitMQ.
_VHOST = "vhost:"
#: Responses of a service that a link keeps until the client settles them.
_MAX_UNSETTLED_RESPONSES = 10
_ACCEPTED = Accepted()


@attrs.define(eq=False)
class Outgoing:
    """A link that has a node as its source: sends messages as the peer grants credit.

    It is `incomplete` where one end has more unsettled deliveries than it listed; `sent` has the
    unsettled ones of the transport, by number at the node. `cost` is the bytes of memory that the
    source takes.
    """

    connection: Connection
    link: transport.Link
    out: OutgoingLink
    source: Source
    incomplete: bool
    _resuming: deque[tuple[Delivery, Step]]
    cost: int
    sent: dict[int, transport.LinkDelivery] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.out.on_ended = self.on_ended

    @property
    def node(self) -> DistributionNode:
        """The node that is the source."""
        return self.out.node

    @property
    def is_service(self) -> bool:
        """Whether it brings the responses of a service."""
        return self.connection.broker.service(self.node.name) is not None

    def report_counts(self) -> None:
        """Have the link's flows say what is available, and how much other links hold."""
        counts = self.node.counts
        ours = len(self.out.unsettled) if self.out.mode is StdDistMode.MOVE else 0
        self.link.available = counts.available
        self.link.properties = {transport.ACQUIRED_BY_OTHERS: ULong(max(counts.acquired - ours, 0))}

    def pump(self) -> bool:
        """Send a message if there is one and it may be sent; return whether one was sent."""
        link = self.link
        if not link.credit or not link.is_open:
            return False
        connection = self.connection
        if connection.paused or link.session.blocked or connection.engine.pending > _MAX_WAITING:
            connection.waiting.add(self)
            return False
        if self._resuming:
            self._resume(*self._resuming.popleft())
            return True
        if self.incomplete:
            # What is new would be taken for what the map left out (Part 2, 2.7.3).
            if link.drain:
                link.drained()
                connection.touch()
            return False
        settled = link.snd_settle_mode is transport.SenderSettleMode.SETTLED
        if isinstance(self.out.filter, PassingFilter):
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
        theirs = link.send(
            delivery.tag, octets, settled=settled, message_format=delivery.message_format
        )
        if not settled:
            theirs.context = delivery
            self.sent[delivery.number] = theirs
            if self.is_service and len(self.sent) > _MAX_UNSETTLED_RESPONSES:
                self._settle_oldest()
        elif self.out.mode is StdDistMode.MOVE:
            connection.broker.turns.gone.append(delivery)
        self._report_drained()
        connection.touch()
        return True

    def _settle_oldest(self) -> None:
        """Accept the oldest response: many clients never settle, and would fill the node."""
        theirs = self.sent.pop(next(iter(self.sent)))
        theirs.context.settle(_ACCEPTED)
        theirs.update(_ACCEPTED)

    def _report_drained(self) -> None:
        """After the last message of a drain, send the flow that the receiver waits for (2.6.7)."""
        if not self.link.credit:
            self.link.drained()

    def _resume(self, delivery: Delivery, step: Step) -> None:
        # Of what was settled meanwhile, as by a transaction, the outcome is all there is to say.
        done = delivery.settled
        octets = b"" if done or step.start is None else bytes_from(delivery.octets, step.start)
        theirs = self.link.send(
            delivery.tag,
            octets,
            settled=done,
            message_format=delivery.message_format,
            state=delivery.outcome if done else step.state,
            resume=True,
        )
        if not done:
            theirs.context = delivery
            self.sent[delivery.number] = theirs
        self._report_drained()
        self.connection.touch()

    def on_disposition(self, theirs: transport.LinkDelivery) -> None:
        """Apply the peer's disposition."""
        delivery: Delivery = theirs.context
        state = theirs.state
        if isinstance(state, TransactionalState) and not delivery.settled:
            self._retire_in_transaction(delivery, theirs, state)
            return
        terminal = isinstance(state, OUTCOMES)
        bus = self.connection.broker.service_bus
        if terminal and bus is not None and not self.is_service:
            if delivery.settled:  # its lock is over, or a request settled it
                self.sent.pop(delivery.number, None)
                theirs.update(Rejected(bus.lock_lost_error()))
                self.connection.touch()
            else:
                if isinstance(state, Rejected):
                    theirs.state = Rejected()  # with its error it would be the answer of a fault
                self._decide(delivery, theirs, state)
            return
        if terminal or isinstance(state, Received):
            delivery.update(state)
        if theirs.settled or terminal:
            self._settle(delivery, theirs, None)

    def _decide(self, delivery: Delivery, theirs: transport.LinkDelivery, outcome: Outcome) -> None:
        """Settle a delivery with an outcome, which may mean something else to Service Bus."""
        bus = self.connection.broker.service_bus
        if bus is not None and not self.is_service:
            outcome = bus.apply(delivery, outcome)
        self._settle(delivery, theirs, outcome)

    def _retire_in_transaction(
        self, delivery: Delivery, theirs: transport.LinkDelivery, state: TransactionalState
    ) -> None:
        """Keep an outcome until its transaction is discharged (Part 4, 4.4.3)."""
        outcome = state.outcome
        try:
            transaction = self.connection.transactions.get(state.txn_id)
            if not isinstance(outcome, OUTCOMES):
                raise NodeError("a transactional state needs an outcome here", NOT_IMPLEMENTED)
            settle = partial(self._discharged, delivery, theirs)
            transaction.add(Retired(delivery, outcome, theirs.settled, settle))
        except NodeError as error:
            self.connection.end_link(self.link, error.error)

    def _discharged(
        self, delivery: Delivery, theirs: transport.LinkDelivery, outcome: Outcome
    ) -> None:
        """Settle a delivery of a transaction, on the link that has gone on with it since."""
        end = self.connection.broker.links.get(self.connection.identity(self.link))
        if not isinstance(end, Outgoing) or end.out is not self.out:
            end = self
        now = end.sent.get(delivery.number, theirs)
        if now is not theirs and now.state is None:
            now.state = theirs.state
        end._decide(delivery, now, outcome)

    def _settle(
        self, delivery: Delivery, theirs: transport.LinkDelivery, outcome: Outcome | None
    ) -> None:
        state = theirs.state
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
        self.sent.pop(delivery.number, None)
        if theirs.settled and refused is None:
            theirs.update(state)  # there is nothing to say
            return

        def confirm() -> None:
            if theirs.settled and refused is not None:
                # It has settled, so only the link can say that the outcome was refused.
                self.connection.end_link(self.link, refused)
            # Otherwise the receiver settles second, after the sender.
            theirs.update(state)

        self.connection.confirm(confirm)

    def on_ended(self, delivery: Delivery) -> None:
        """Settle a delivery towards the peer that the node settled by itself."""
        theirs = self.sent.pop(delivery.number, None)
        if theirs is not None:
            theirs.update(Accepted())
            self.connection.touch()


class Nowhere:
    """Takes the bytes of a message that is refused, and drops them."""

    def __len__(self) -> int:
        return 0

    def extend(self, octets: bytes | bytearray, /) -> None:
        """Drop bytes."""


@attrs.define(eq=False)
class Incoming:
    """A link that has a node as its target, or the anonymous terminus.

    What publishes is None for the coordinator, and there is a target where it is a single node.
    `window` is the credit that the sender is kept at, `cost` the bytes of memory that the target
    takes, and `held` bytes of a message that is not complete yet; `refused` says why it is refused,
    if it is.
    """

    connection: Connection
    link: transport.Link
    publish: Publish | None
    target: IncomingLink | None
    rejects: bool
    window: int
    cost: int = 0
    held: int = 0
    refused: NodeError | None = None

    def grant(self) -> None:
        """Grant credit, half a window or more at a time."""
        missing = self.window - self.link.credit
        if missing * 2 >= self.window:
            self.link.grant(missing)
            self.connection.touch()

    def on_part(self, size: int) -> None:
        """Count a part of a message; where there is no room for it, drop the message."""
        if self.refused is not None:
            return
        memory = self.connection.broker.memory
        excess = memory.excess(size)
        if excess:
            self.let_go()
            self.refused = NodeError(f"there is no room: {excess}", RESOURCE_LIMIT_EXCEEDED)
            self.link.divert(Nowhere())
            return
        self.held += size
        memory.held += size

    def let_go(self) -> None:
        """Count the parts no more."""
        self.connection.broker.memory.held -= self.held
        self.held = 0

    def on_transfer(self, theirs: transport.LinkDelivery) -> None:
        """Receive a message, or learn that it was aborted."""
        self.let_go()
        refused, self.refused = self.refused, None
        octets = theirs.payload
        if theirs.resumed:
            # This end keeps no deliveries of a link that is lost, so it knows none of them: what it
            # does not know it ignores (Part 2, 2.7.5).
            self.link.session.forget(theirs)
            self.grant()
            return
        if octets is None:
            self.grant()
            return
        state, error = self._publish(octets, theirs, refused)
        if error is not None:
            self.connection.log(
                "refused", link=self.link.name, condition=error.condition, why=error.description
            )
        self.connection.confirm(partial(self._confirm, theirs, state, error))

    def _confirm(
        self, theirs: transport.LinkDelivery, state: DeliveryState, error: Error | None
    ) -> None:
        if isinstance(state, Rejected) and (theirs.settled or not self.rejects):
            # The sender cannot get a rejection (Part 3, 3.2.1, on durable messages).
            self.connection.end_link(self.link, error)
            return
        if isinstance(state, Rejected) and error is not None and error.info is None:
            # Azure's clients read all three fields, and wait without end where one is left out.
            state = Rejected(attrs.evolve(error, info={}))
        first = self.link.rcv_settle_mode is transport.ReceiverSettleMode.FIRST
        theirs.update(state, settled=first or theirs.settled)
        self.grant()

    def _publish(
        self, octets: bytes, theirs: transport.LinkDelivery, refused: NodeError | None
    ) -> tuple[DeliveryState, Error | None]:
        """Publish a message, or keep it for its transaction.

        Return the delivery state, and why the message was refused, if it was.
        """
        transactions = self.connection.transactions
        publish = self.publish
        state = theirs.state
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
                transaction.add(partial(publish, octets, theirs.message_format), len(octets))
                return TransactionalState(state.txn_id, Accepted()), None
            else:
                publish(octets, theirs.message_format)
        except UnroutableError as error:
            return Released(), error.error
        except NodeError as error:
            return Rejected(error.error), error.error
        except EvaluationError as error:  # of the bindings of an exchange
            costly = Error(RESOURCE_LIMIT_EXCEEDED, str(error))
            return Rejected(costly), costly
        except DecodeError as error:
            fault = Error(error.condition, str(error))
            return Rejected(fault), fault
        return _ACCEPTED, None


def _name_in(certificate: Any) -> str | None:
    """The common name in a certificate that was verified, else the whole subject; None if none."""
    if not certificate:
        return None
    parts = [pair for group in certificate.get("subject", ()) for pair in group]
    names = [value for key, value in parts if key == "commonName"]
    return names[-1] if names else ",".join(f"{key}={value}" for key, value in parts)


class Connection(Socket, transport.Handler):
    """A connection of a server."""

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
        # Identifies this connection in its messages, which may outlive it.
        self._origin = object()
        self._attacher = Attacher(broker, self._origin)
        self._peer = ""
        self._host = ""
        #: Event-loop time at which the peer must have opened the connection.
        self.opening_deadline = self.loop.time() + broker.options.waits.opening
        self._linger: asyncio.TimerHandle | None = None
        self._opening: asyncio.TimerHandle | None = None
        # What came while the peer waits for its turn to say who it is; None before and after.
        self._early: bytearray | None = None
        self._took_turn = False
        self._links: dict[transport.Link, Outgoing | Incoming] = {}
        # Bytes of memory by link, also of refused links until the peer detaches them.
        self._costs: dict[transport.Link, int] = {}

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event of this connection."""
        self.broker.log(event, level, peer=self._peer, **fields)

    # Called by asyncio.

    def begin(self) -> None:
        """Register the connection."""
        stream = self._stream
        name = stream.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
        self._host = str(name[0]) if isinstance(name, tuple) else ""
        self._sasl.certificate = _name_in(stream.get_extra_info("peercert"))
        if not self._admits():
            stream.abort()
            return
        self.broker.connections.add(self)
        self._opening = self.loop.call_at(self.opening_deadline, self._too_late)
        self.log("connected", tls=stream.get_extra_info("cipher") is not None)

    def data_received(self, data: bytes) -> None:
        """Process bytes of the peer."""
        if self._early is not None:
            self._early += data
        elif not self._waits(data):
            self.engine.feed(data)
            if self.engine.authenticated:
                self._turn(self.process)
            else:
                super().flush()

    def _waits(self, data: bytes) -> bool:
        """Wait for the turn of the peer's host, where it was refused before; once a connection."""
        if self._took_turn or not self.broker.users:
            return False
        self._took_turn = True
        wait = self.broker.guesses.wait(self._host, self.loop.time())
        if wait > LONGEST_TURN:
            self.log("refused", logging.WARNING, why="too many wrong passwords from this host")
            self._stream.abort()
            return True
        if not wait:
            return False
        self._early = bytearray(data)
        self.read_or_not()
        if self._opening is not None:
            self._opening.cancel()
        self._opening = self.loop.call_later(
            wait + self.broker.options.waits.opening, self._too_late
        )
        self.loop.call_later(wait, self._on_turn)
        return True

    def _on_turn(self) -> None:
        early, self._early = self._early, None
        if early is not None and not self.is_closing:
            self.read_or_not()
            self.data_received(bytes(early))

    def _too_late(self) -> None:
        self.log("refused", logging.WARNING, why="the peer did not open the connection in time")
        self._stream.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the links: unsettled deliveries get their outcome, unless the terminus remains."""
        for timer in (self._timer, self._linger, self._opening):
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

    # DeferredWork.

    def _turn(self, work: Callable[[], object]) -> None:
        """Run some work of this connection; if it fails, only this connection is closed."""

        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  (logged)
                self.fail(error)

        self.broker.turns.run(guarded)

    def fail(self, error: Exception, where: str = "") -> None:
        """Close after an error of the server itself, and release all that the connection held.

        It is released at once, since the peer may never answer the close.
        """
        self.broker.logger.error("fault %s", where, exc_info=error)
        try:
            self.close(Error(INTERNAL_ERROR, str(error)))
        except Exception:  # noqa: BLE001  (what waits cannot be sent either)
            self.abort()
        finally:
            self._end_all()

    def process(self) -> None:
        """Process what the peer sent, one frame at least, and the rest as the turn allows."""
        self.touch()
        super().process()

    def turn_is_over(self) -> bool:
        """Whether others have their turn before the next frame."""
        return self.broker.turns.is_over

    def go_on(self) -> None:
        """Process what came before, in a turn of its own."""
        if self in self.broker.connections:  # otherwise lost meanwhile, and its links ended
            self._turn(self.process)

    def wants_input(self) -> bool:
        """Whether more is to be read from the peer now: not while it leaves much unread itself."""
        full = self.paused and self.engine.pending > _MAX_WAITING
        return not (self._behind or full) and self._early is None

    def touch(self) -> None:
        """Schedule a flush at the end of this turn."""
        self.broker.turns.touched.add(self)

    def confirm(self, send: Callable[[], None]) -> None:
        """Schedule a call after the next commit of the store, to send a confirmation."""
        self.touch()
        self.broker.turns.confirmations.append((self, send))

    def flush(self) -> Iterable[Outgoing]:
        """Write pending bytes to the socket; return the links that waited and may send again."""
        if self._stream is None or not self.engine.authenticated:
            return ()
        self.engine.keep()  # what a socket that is full does not take yet was committed, too
        # The timer is for the frames that keep an idle connection alive.
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
        """Learn who the peer is."""
        self.user = user

    def on_refused(self, error: transport.SaslError) -> None:
        """Close the socket once the peer was told."""
        self._stream.write(self.engine.take())
        self.log("refused", logging.WARNING, why=str(error))
        if self.broker.users:
            self.broker.guesses.refused(self._host, self.loop.time())
        self._abort_later()
        self._stream.close()

    def on_open(self) -> None:
        """Open our end of the connection, and close it if the peer asks for an unknown vhost.

        A client of RabbitMQ names a virtual host with the prefix ``vhost:``. Any other hostname is
        the name that the client connected to (Part 2, 2.7.1).
        """
        if self._opening is not None:
            self._opening.cancel()
        remote = self.engine.remote
        hostname = (remote.hostname if remote is not None else None) or ""
        if hostname.startswith(_VHOST) and hostname != f"{_VHOST}/":
            self._refuse_vhost(hostname.removeprefix(_VHOST))
            return
        self.engine.open()
        self.log("opened", container=self.container, user=self.user)

    def _refuse_vhost(self, name: str) -> None:
        """Close a connection that asks for a virtual host that does not exist.

        RabbitMQ 4 logs the error and closes the socket. Its own clients rely on that: they take a
        close frame for the end of a working connection, and reconnect for ever.
        """
        why = f"virtual host {name!r} does not exist: the server has only '/'"
        self.log("refused", logging.WARNING, why=why)
        if self.broker.options.like == "rabbitmq-4":
            self.engine.abandon()
        else:
            self.close(Error(UNAUTHORIZED_ACCESS, why))

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """End all links."""
        if fault and error is not None:
            why = f"{error.condition}: {error.description}"
            self.log("transport-error", logging.WARNING, why=why)
        self._end_all()

    def on_begin(self, session: transport.Session) -> None:
        """Begin our end of the session."""
        session.begin()

    def on_end(self, session: transport.Session, error: Error | None) -> None:
        """End the links of a session."""
        if error is not None:
            self.log("session-error", condition=error.condition, why=error.description)
        for link in [link for link in self._links if link.session is session]:
            self._end(link, "session")
        self.broker.termini.end_of(session, "session")

    def on_attach(self, link: transport.Link) -> None:
        """Join the link with a node, or refuse it."""
        if link.remote is None:
            return
        if not link.sends and not self.broker.options.receiver_settles_second:
            link.rcv_settle_mode = transport.ReceiverSettleMode.FIRST
        end: Outgoing | Incoming
        remote = link.remote
        # All that is read of the attach is read here; the link need not keep the rest.
        link.remote = attrs.evolve(
            remote, source=None, target=None, unsettled=None, properties=None
        )
        self._add_cost(link, LINK_BYTES + name_cost(link.name))
        cost = terminus_cost(remote.source if link.sends else remote.target)
        try:
            attach = Attach.of(remote)
            self._steal(link)
            self.broker.nodes.make_room(cost)
            if link.sends:
                sender = self._attacher.outgoing(self.container, link, attach)
                end = Outgoing(self, link, *sender, cost)
            else:
                joined = self._attacher.incoming(self.container, link, attach)
                end = Incoming(self, link, *joined, self.broker.options.credit, cost=cost)
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
        """Count the memory of a link no more."""
        self.broker.memory.structures -= self._costs.pop(link, 0)

    def on_detach(self, link: transport.Link, error: Error | None, *, closed: bool) -> None:
        """End the link; the terminus of one that is detached may remain."""
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
        """Publish a message."""
        end = self._links.get(delivery.link)
        if isinstance(end, Incoming):
            end.on_transfer(delivery)

    def on_part(self, link: transport.Link, size: int) -> None:
        """Count a part of a message."""
        end = self._links.get(link)
        if isinstance(end, Incoming):
            end.on_part(size)

    def on_disposition(self, delivery: transport.LinkDelivery) -> None:
        """Apply an outcome; what a sender settles was answered before."""
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
        """What identifies a link (Part 2, 2.6.1)."""
        return self.container, link.name, link.sends

    def _steal(self, link: transport.Link) -> None:
        """Detach the link that a new attach takes over."""
        known = self.broker.links.get(self.identity(link))
        if known is not None and self.container:
            known.connection.steal(known.link)

    def steal(self, link: transport.Link) -> None:
        """Detach a link that was attached again (Part 2, 2.6.1)."""
        self.log("stolen", link=link.name)
        self._end(link, "link")
        self.end_link(link, Error(STOLEN, "the link was attached again"))

    def _refuse(self, link: transport.Link, error: Error) -> None:
        self.log("link-refused", link=link.name, condition=error.condition, why=error.description)
        link.refuse(error)
        if self.broker.memory.is_overdrawn:
            # Until the peer detaches it, a refused link keeps its name; this ends all of them.
            self.on_end(link.session, error)
            link.session.end(error)

    def end_link(self, link: transport.Link, error: Error | None) -> None:
        """Close a link with an error, and end its terminus."""
        link.detach(error)
        self._end(link, None)
        self.touch()

    def _end(self, link: transport.Link, ends: str | None) -> None:
        """End a link, or keep its terminus as its expiry policy says.

        What `ends` is "link", "session" or "connection"; None if the link is closed.
        """
        end = self._links.pop(link, None)
        if end is None:
            return
        if self.broker.links.get(self.identity(link)) is end:
            del self.broker.links[self.identity(link)]
        try:
            if isinstance(end, Incoming):
                end.let_go()
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
                    ends=ends,
                    cost=end.cost + KEPT_BYTES + name_cost(link.name),
                )
        except Exception:  # other links end after this one
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
        """Have what was written up to now sent in any case: it was committed."""
        self.engine.keep()

    def close(self, error: Error, *, discard: bool = False) -> None:
        """Close with an error, which the peer gets if it can.

        Args:
            error: why.
            discard: send nothing of what was written since `keep`.
        """
        if not self.engine.authenticated or self.is_closing:
            self._stream.abort()
        else:
            self.engine.close(error, discard=discard)
            self.touch()
            self._abort_later()

    def _abort_later(self) -> None:
        """Abort the socket after `ServerWaits.closing`: the peer may never read the last bytes."""
        if self._linger is None:
            self._linger = self.loop.call_later(self.broker.options.waits.closing, self.abort)

    def abort(self) -> None:
        """Close the socket at once."""
        self._stream.abort()
