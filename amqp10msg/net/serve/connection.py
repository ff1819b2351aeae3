"""A connection of the server, and its links, which move messages between the socket and nodes."""

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

#: The max-frame-size in the server's open frame, in bytes.
_MAX_FRAME_SIZE = 1 << 16
#: The channel-max in the server's open frame.
_CHANNEL_MAX = 255
#: A connection with more unsent bytes than this stops sending messages and reading from its peer.
_HIGH_WATER_MARK = 1 << 20
#: Prefix of a hostname in an open frame that names a virtual host of RabbitMQ.
_VHOST_PREFIX = "vhost:"
#: Maximum number of unsettled responses of a service on a link. Older responses are accepted.
_MAX_UNSETTLED_RESPONSES = 10
_ACCEPTED = Accepted()


@attrs.define(eq=False)
class Outgoing:
    """A link that sends the messages of a node to the peer, as the peer grants credit.

    Attributes:
        connection: the connection of the link.
        link: the link in the transport.
        out: the link at the node.
        source: the source that the peer requested.
        incomplete: whether the attach of either end omitted some of its unsettled deliveries
            (incomplete-unsettled).
        terminus_cost: the memory of the source, in bytes.
        unsettled: the transport's unsettled deliveries, by `Delivery.number` at the node.
    """

    connection: Connection
    link: transport.Link
    out: OutgoingLink
    source: Source
    incomplete: bool
    _resuming: deque[tuple[Delivery, Step]]  # to resume before new deliveries are sent
    terminus_cost: int
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
        """Set the message counts in the link's next flow: available, and acquired by other links.

        The second count is the property `transport.ACQUIRED_BY_OTHERS`.
        """
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
            # Send no new delivery until the link is attached again (Part 2, 2.7.3): the peer could
            # mistake it for one of the unsettled deliveries that an attach omitted.
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
        octets = delivery.octets
        if not self.is_service:
            octets = connection.broker.extension.outgoing_octets(delivery, settled=settled)
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
        """Accept the oldest response, because many clients never settle responses."""
        link_delivery = self.unsettled.pop(next(iter(self.unsettled)))
        link_delivery.context.settle(_ACCEPTED)
        link_delivery.update(_ACCEPTED)

    def _report_drained(self) -> None:
        """Report a complete drain to the transport, if no credit is left (Part 2, 2.6.7)."""
        if not self.link.credit:
            self.link.drained()

    def _resume(self, delivery: Delivery, step: Step) -> None:
        """Resume a delivery of a lost link.

        Sends its message from the byte `step.start` on, with the delivery state `step.state`.
        """
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
        """Apply the delivery state or settlement that the peer has sent for a delivery."""
        delivery: Delivery = link_delivery.context
        state = link_delivery.state
        if isinstance(state, TransactionalState) and not delivery.settled:
            self._retire_in_transaction(delivery, link_delivery, state)
            return
        terminal = isinstance(state, OUTCOMES)
        extension = self.connection.broker.extension
        if terminal and extension.replaces_outcomes and not self.is_service:
            answer = extension.outcome_answer(delivery, state)
            if delivery.settled:
                self.unsettled.pop(delivery.number, None)
                link_delivery.update(answer)
                self.connection.touch()
            else:
                link_delivery.state = answer
                self._apply_outcome(delivery, link_delivery, state)
            return
        if terminal or isinstance(state, Received):
            delivery.update(state)
        if link_delivery.settled or terminal:
            self._settle(delivery, link_delivery, None)

    def _apply_outcome(
        self, delivery: Delivery, link_delivery: transport.LinkDelivery, outcome: Outcome
    ) -> None:
        """Settle a delivery with an outcome, which the server's extension may replace."""
        extension = self.connection.broker.extension
        if extension.replaces_outcomes and not self.is_service:
            outcome = extension.replace_outcome(delivery, outcome)
        self._settle(delivery, link_delivery, outcome)

    def _retire_in_transaction(
        self, delivery: Delivery, link_delivery: transport.LinkDelivery, state: TransactionalState
    ) -> None:
        """Store the peer's outcome until its transaction is discharged (Part 4, 4.4.3)."""
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
        """Settle a delivery when its transaction is discharged.

        The delivery may have been resumed on another link of the same name in the meantime.
        """
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
        """Settle a delivery at its node, and answer the peer after the commit.

        If the node refuses the outcome, the delivery is released instead.

        Args:
            delivery: the delivery at the node.
            link_delivery: the same delivery in the transport.
            outcome: the outcome; None for the state that the delivery has.
        """
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
            # A receiver that has not settled the delivery waits for this disposition.
            link_delivery.update(state)

        self.connection.confirm(send_outcome)

    def on_ended(self, delivery: Delivery) -> None:
        """Settle a delivery for the peer: it expired at the node, or the node was deleted."""
        link_delivery = self.unsettled.pop(delivery.number, None)
        if link_delivery is not None:
            link_delivery.update(Accepted())
            self.connection.touch()


class NullBuffer:
    """A message buffer that discards its bytes, for a message that is refused."""

    def __len__(self) -> int:
        return 0

    def extend(self, octets: bytes | bytearray, /) -> None:
        """Discard bytes."""


@attrs.define(eq=False)
class Incoming:
    """A link that receives messages from the peer, and publishes them.

    Attributes:
        connection: the connection of the link.
        link: the link in the transport.
        publish: publishes a received message; None for a coordinator link.
        target: the link at the node; None unless the target is a single node.
        rejects: whether the peer's source supports the outcome rejected.
        window: the maximum credit of the peer.
        terminus_cost: the memory of the target, in bytes.
        partial_size: received bytes of the incomplete message, which count as server memory.
        refused: the error with which the incomplete message will be refused; None to publish it.
    """

    connection: Connection
    link: transport.Link
    publish: Publish | None
    target: IncomingLink | None
    rejects: bool
    window: int
    terminus_cost: int = 0
    partial_size: int = 0
    refused: NodeError | None = None

    def grant(self) -> None:
        """Top up the peer's credit to `window`, if at least half of it is used up."""
        missing = self.window - self.link.credit
        if missing * 2 >= self.window:
            self.link.grant(missing)
            self.connection.touch()

    def on_part(self, size: int) -> None:
        """Count `size` more bytes of an incomplete message as server memory.

        If the memory limit is exceeded, the message is discarded, and refused when it is complete.
        """
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
        memory.message_bytes += size

    def release_memory(self) -> None:
        """Subtract the incomplete message from the server's memory."""
        self.connection.broker.memory.message_bytes -= self.partial_size
        self.partial_size = 0

    def on_transfer(self, link_delivery: transport.LinkDelivery) -> None:
        """Publish a complete message; its payload is None if the sender aborted it."""
        self.release_memory()
        refused, self.refused = self.refused, None
        octets = link_delivery.payload
        if link_delivery.resumed:
            # Ignore a resumed delivery (Part 2, 2.7.5): it is unknown, since the server keeps no
            # incoming deliveries of a lost link.
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
        self.connection.confirm(partial(self._send_outcome, link_delivery, state, error))

    def _send_outcome(
        self, link_delivery: transport.LinkDelivery, state: DeliveryState, error: Error | None
    ) -> None:
        """Send the outcome of a received delivery, and grant credit; called after the commit."""
        if isinstance(state, Rejected) and (link_delivery.settled or not self.rejects):
            # Close the link with the error, because the peer does not expect the outcome: it has
            # settled the delivery, or its source does not support `rejected` (Part 3, 3.2.1, on
            # durable messages).
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
        """Publish a message, or add it to its transaction.

        Args:
            octets: the encoded message.
            link_delivery: the delivery in the transport.
            refused: an error with which the message must be refused; None to publish it.

        Returns:
            The delivery state to answer with, and the error if the message was refused.
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
    """Return the user name for a verified client certificate; None for no certificate.

    It is the certificate's common name, or all attributes of the subject if that is missing.
    """
    if not certificate:
        return None
    parts = [pair for group in certificate.get("subject", ()) for pair in group]
    names = [value for key, value in parts if key == "commonName"]
    return names[-1] if names else ",".join(f"{key}={value}" for key, value in parts)


class Connection(Socket, transport.Handler):
    """A connection of a server.

    Args:
        broker: the state of the server.
        admits: returns whether the server accepts another connection.

    Attributes:
        waiting: links with messages to send that wait until the socket accepts more bytes.
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
                max_frame_size=_MAX_FRAME_SIZE,
                channel_max=_CHANNEL_MAX,
                offered_capabilities=("ANONYMOUS-RELAY",),
                properties=broker.properties,
            ),
            self._sasl,
        )
        self._admits = admits
        # Identifies this connection as the publisher of its messages, for the no-local filter.
        self._origin = object()
        self._attacher = Attacher(broker, self._origin)
        self._peer = ""  # the peer's host and port, for log records
        self._host = ""
        #: Event-loop time by which the peer must have opened the connection.
        self.opening_deadline = self.loop.time() + broker.options.waits.opening
        self._abort_timer: asyncio.TimerHandle | None = None
        self._opening_timer: asyncio.TimerHandle | None = None
        # Bytes received during the delay after wrong passwords; None when there is no delay.
        self._early_bytes: bytearray | None = None
        self._throttle_checked = False
        self._links: dict[transport.Link, Outgoing | Incoming] = {}
        # Memory of each link in bytes; of a refused link, until the peer detaches it.
        self._costs: dict[transport.Link, int] = {}

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event, with the host and port of the peer."""
        self.broker.log(event, level, peer=self._peer, **fields)

    # Called by asyncio.

    def begin(self) -> None:
        """Register the new connection, or close it if there are too many."""
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
        """Process bytes that were received from the peer."""
        if self._early_bytes is not None:
            self._early_bytes += data
        elif not self._is_throttled(data):
            self.engine.feed(data)
            if self.engine.authenticated:
                self._run_in_turn(self.process)
            else:
                super().flush()

    def _is_throttled(self, data: bytes) -> bool:
        """Check once whether the peer's host must wait, because of earlier wrong passwords.

        If so, returns True, and `data` is processed after the wait. The connection is closed
        instead if the wait would be too long.
        """
        if self._throttle_checked or not self.broker.users:
            return False
        self._throttle_checked = True
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
        self.loop.call_later(wait, self._process_early_bytes)
        return True

    def _process_early_bytes(self) -> None:
        """Process the bytes that were received during the delay after wrong passwords."""
        early, self._early_bytes = self._early_bytes, None
        if early is not None and not self.is_closing:
            self.update_reading()
            self.data_received(bytes(early))

    def _on_opening_timeout(self) -> None:
        """Abort the connection, because the peer has not opened it in time."""
        self.log("refused", logging.WARNING, why="the peer did not open the connection in time")
        self._stream.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the links, because the socket is closed.

        Unsettled deliveries get their default outcome, unless their source outlives the link.
        """
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
        """Resume sending: the peer reads again."""
        self.broker.turns.run(self.touch)

    # Turns, see `broker.DeferredWork`.

    def _run_in_turn(self, work: Callable[[], object]) -> None:
        """Run `work` in a turn. If `work` raises, close only this connection."""

        def work_or_fail() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  (logged)
                self.fail(error)

        self.broker.turns.run(work_or_fail)

    def fail(self, error: Exception, where: str = "") -> None:
        """Log an internal error, close the connection, and end its links.

        The links end immediately, because the peer may never answer the close frame.

        Args:
            error: the error.
            where: the failed activity, such as "sending", for the log.
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
        """Whether the time of this turn is over, so that a later turn processes the next frame."""
        return self.broker.turns.is_turn_over

    def go_on(self) -> None:
        """Process the received frames that the last turn did not process."""
        if self in self.broker.connections:  # it may have been lost since
            self._run_in_turn(self.process)

    def wants_input(self) -> bool:
        """Whether to read from the peer now.

        False while received frames wait for a later turn, while the peer has too many bytes to
        read, and during the delay after wrong passwords.
        """
        full = self.paused and self.engine.pending > _HIGH_WATER_MARK
        return not (self._frames_waiting or full) and self._early_bytes is None

    def touch(self) -> None:
        """Schedule a flush at the end of the turn."""
        self.broker.turns.touched.add(self)

    def confirm(self, send: Callable[[], None]) -> None:
        """Call `send`, which sends a confirmation to the peer, after the next commit."""
        self.touch()
        self.broker.turns.confirmations.append((self, send))

    def flush(self) -> Iterable[Outgoing]:
        """Write the pending bytes to the socket.

        Returns:
            The links of `waiting`, if they can send now.
        """
        if self._stream is None or not self.engine.authenticated:
            return ()
        # The frames are committed: `close` must not discard those that do not fit into the socket.
        self.engine.keep()
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
        """Send the outcome of the failed SASL authentication, then close the socket."""
        self._stream.write(self.engine.take())
        self.log("refused", logging.WARNING, why=str(error))
        if self.broker.users:
            self.broker.password_throttle.refused(self._host, self.loop.time())
        self._abort_later()
        self._stream.close()

    def on_open(self) -> None:
        """Answer the open frame; close the connection if the peer requests an unknown vhost.

        RabbitMQ's clients put the prefix ``vhost:`` before the name of a virtual host. A hostname
        without this prefix is the name of the server's host (Part 2, 2.7.1).
        """
        if self._opening_timer is not None:
            self._opening_timer.cancel()
        remote = self.engine.remote
        hostname = (remote.hostname if remote is not None else None) or ""
        if hostname.startswith(_VHOST_PREFIX) and hostname != f"{_VHOST_PREFIX}/":
            self._refuse_vhost(hostname.removeprefix(_VHOST_PREFIX))
            return
        self.engine.open()
        self.log("opened", container=self.container, user=self.user)

    def _refuse_vhost(self, name: str) -> None:
        """Close the connection: the requested virtual host does not exist.

        RabbitMQ 4 logs the error and closes the socket without a close frame. RabbitMQ's clients
        rely on that: after a close frame, they would reconnect forever.
        """
        reason = f"virtual host {name!r} does not exist: the server has only '/'"
        self.log("refused", logging.WARNING, why=reason)
        if self.broker.options.like == "rabbitmq-4":
            self.engine.abandon()
        else:
            self.close(Error(UNAUTHORIZED_ACCESS, reason))

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """End all links. If the peer violated the protocol (`fault`), log the error."""
        if fault and error is not None:
            reason = transport.describe_error(error)
            self.log("transport-error", logging.WARNING, why=reason)
        self._end_all()

    def on_begin(self, session: transport.Session) -> None:
        """Answer the begin of a session."""
        session.begin()

    def on_end(self, session: transport.Session, error: Error | None) -> None:
        """End the links of a session."""
        if error is not None:
            self.log("session-error", condition=error.condition, why=error.description or "")
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
        # Free the memory of the fields that are not needed after this call.
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
                end = Incoming(
                    self, link, *receiver, self.broker.options.credit, terminus_cost=cost
                )
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
        """Count the memory of a link."""
        self._costs[link] = self._costs.get(link, 0) + cost
        self.broker.memory.structures += cost

    def on_link_gone(self, link: transport.Link) -> None:
        """Stop counting the memory of a link."""
        self.broker.memory.structures -= self._costs.pop(link, 0)

    def on_detach(self, link: transport.Link, error: Error | None, *, closed: bool) -> None:
        """End the link. If it is not closed, its source may outlive it."""
        if error is not None:
            why = error.description or ""
            self.log("link-error", link=link.name, condition=error.condition, why=why)
        self._end(link, None if closed else "link")

    def on_flow(self, link: transport.Link) -> None:
        """Schedule the sending of as many messages as the peer's credit allows."""
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
        """Count `size` more bytes of an incomplete message as server memory."""
        end = self._links.get(link)
        if isinstance(end, Incoming):
            end.on_part(size)

    def on_disposition(self, delivery: transport.LinkDelivery) -> None:
        """Apply the outcome of a receiving peer; ignore the disposition of a sending peer."""
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
        """Return the key of a link in `Broker.links` (Part 2, 2.6.1)."""
        return self.container, link.name, link.sends

    def _detach_existing(self, link: transport.Link) -> None:
        """Detach the existing link with the same identity as the new link, if there is one."""
        existing = self.broker.links.get(self.identity(link))
        if existing is not None and self.container:
            existing.connection.steal(existing.link)

    def steal(self, link: transport.Link) -> None:
        """Detach a link, because the peer attached it again, maybe on another connection.

        See link stealing in Part 2, 2.6.1.
        """
        self.log("stolen", link=link.name)
        self._end(link, "link")
        self.end_link(link, Error(STOLEN, "the link was attached again"))

    def _refuse(self, link: transport.Link, error: Error) -> None:
        """Refuse a link. If the server's memory limit is exceeded, also end the link's session."""
        self.log("link-refused", link=link.name, condition=error.condition, why=error.description)
        link.refuse(error)
        if self.broker.memory.is_overdrawn:
            # Ending the session also frees the refused links that the peer has not detached.
            self.on_end(link.session, error)
            link.session.end(error)

    def end_link(self, link: transport.Link, error: Error | None) -> None:
        """Close a link with an error; its source does not outlive it."""
        link.detach(error)
        self._end(link, None)
        self.touch()

    def _end(self, link: transport.Link, ended_scope: str | None) -> None:
        """End a link at its node; a source may outlive it, according to its expiry policy.

        Args:
            link: the link.
            ended_scope: the scope that ended, for the expiry policy: "link", "session" or
                "connection"; None if the link is closed, which deletes the source.
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
                    cost=end.terminus_cost + KEPT_BYTES + name_cost(link.name),
                )
        except Exception:  # only logged, so that the remaining links are ended
            self.broker.logger.exception("fault at the end of a link")
            if isinstance(end, Outgoing):
                self.broker.release(end.out)
        self.log("detached", link=link.name)

    def _end_all(self) -> None:
        """End all links, because the connection has ended."""
        for link in list(self._links):
            self._end(link, "connection")
        self.broker.termini.end_of(self, "connection")
        self._attacher.close()
        self.broker.on_ended(self._origin)

    def keep(self) -> None:
        """Mark the pending bytes as committed, so that `close` does not discard them."""
        self.engine.keep()

    def close(self, error: Error, *, discard: bool = False) -> None:
        """Close the connection with an error, which is sent to the peer if possible.

        Args:
            error: the error of the close frame.
            discard: discard the pending bytes that were added after the last call of `keep`.
        """
        if not self.engine.authenticated or self.is_closing:
            self._stream.abort()
        else:
            self.engine.close(error, discard=discard)
            self.touch()
            self._abort_later()

    def _abort_later(self) -> None:
        """Abort the socket after `ServerWaits.closing`, in case the peer does not close it."""
        if self._abort_timer is None:
            self._abort_timer = self.loop.call_later(self.broker.options.waits.closing, self.abort)

    def abort(self) -> None:
        """Close the socket immediately."""
        self._stream.abort()
