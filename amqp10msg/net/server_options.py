"""The options of a server: for Python and the command line."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from amqp10msg.options import declared

if TYPE_CHECKING:
    import logging
    import ssl

    from amqp10msg.delivery.node import Capacity
    from amqp10msg.wire.limits import Limits

#: Open frame properties of the brokers that `ServerOptions.like` can name.
BROKERS: Mapping[str, Mapping[str, str]] = {
    "rabbitmq-4": {"product": "RabbitMQ", "version": "4.1.0"},
}


@attrs.frozen
class Token:
    """A token that a client sends to ``$cbs`` in a put-token request (claims-based security).

    Attributes:
        name: the address that the token is for.
        type: the type of the token, such as ``jwt`` or ``servicebus.windows.net:sastoken``.
        value: the token.
        expiration: when the token expires, or None if the client does not send it.
    """

    name: str
    type: str
    value: str = attrs.field(repr=False)
    expiration: datetime.datetime | None


def _check_positive(waits: object, attribute: attrs.Attribute[float], seconds: float) -> None:
    if not seconds > 0:
        raise ValueError(
            f"{type(waits).__name__}.{attribute.name} must be more than 0 seconds, got {seconds!r}"
        )


@attrs.frozen(kw_only=True)
class ServerWaits:
    """Timeouts and intervals of a server, in seconds; each is more than 0.

    Attributes:
        opening: a peer must finish the TLS handshake, SASL and the open frame in this time after
            it connects; otherwise the server closes the socket.
        closing: when the server has closed a connection, it aborts the socket after this time if
            the peer has not read the last bytes and closed the socket.
        stopping: when the server stops, it waits this time for the peers' close frames.
        commit: with `ServerOptions.file`, maximum delay of the commit that removes messages from
            the file, if no peer waits for it. After a crash in this time, these messages are
            delivered again.
        expiry: interval of the search for expired messages and locks.

    Raises:
        ValueError: a time is 0 or less.
        TypeError: a time is not a number.
    """

    opening: float = attrs.field(default=10.0, validator=_check_positive)
    closing: float = attrs.field(default=5.0, validator=_check_positive)
    stopping: float = attrs.field(default=0.25, validator=_check_positive)
    commit: float = attrs.field(default=0.05, validator=_check_positive)
    expiry: float = attrs.field(default=0.1, validator=_check_positive)


@attrs.define(kw_only=True, eq=False, repr=False)
class ServerOptions:
    """The configuration of a server of distribution nodes (queues and topics).

    Attributes:
        host: the address to listen on; the default accepts connections from this machine only.
        port: the port to listen on; 0 for a free one.
        nodes: the addresses of nodes to create at the start.
        topics: the addresses of topics: each subscriber gets every message. An unused address also
            becomes a topic if a peer's source or target has the capability ``topic``.
        create: create a node for every address that a peer uses; if False, unknown addresses are
            refused with ``amqp:not-found``.
        users: passwords by user name. The server offers SASL SCRAM-SHA-256 (with the extra ``net``)
            and PLAIN, and requires authentication unless `anonymous` is True.
        anonymous: accept connections without authentication; None accepts them if `users` is empty
            and `tls` does not request client certificates.
        tls: a server-side context, see `tls_context`; the server then accepts TLS only. Clients
            with a verified certificate may use SASL EXTERNAL: the certificate's common name is the
            user name.
        file: an SQLite file for durable messages, see
            `amqp10msg.delivery.node.sqlite.SqliteStore`. Without a file, durable messages are
            rejected with ``amqp:precondition-failed`` (Part 3, 3.2.1).
        accept_durable: accept durable messages without a file; they are lost when the server ends.
        dead_letter: the address of the node for rejected and expired messages.
        priorities: the number of priorities that the nodes distinguish.
        capacity: the capacity of every node.
        memory: the limit on the total memory of messages, nodes, links and declarations, in bytes.
            A message counts as its size and 400 bytes, and twice while a delivery is unsettled; a
            node counts as its name and 7,000 bytes, a link as 2,500 bytes. Beyond the limit,
            messages are rejected and links refused with ``amqp:resource-limit-exceeded``. 0 for no
            limit.
        max_message_size: the largest message in bytes; a larger one ends its link with
            ``amqp:link:message-size-exceeded``. 0 for no limit.
        credit: the maximum link credit of each sending client.
        limits: limits on the cost of decoding a message; None for the defaults of `Limits` with a
            depth of 32, since the time for maps nested in keys grows with the square of the depth.
        receiver_settles_second: accept a sender's request for rcv-settle-mode second (Part 2,
            2.8.3). By default the server answers with the mode first, since some clients request
            second and never settle.
        like: the broker whose product and version the open frame states: ``rabbitmq-4``; None to
            state this library. RabbitMQ's clients reject other products.
        properties: additional properties of the open frame (Part 2, 2.7.1), which may replace
            product, version and platform; text on the command line.
        on_token: called in the server's thread with each token that a client sends to ``$cbs``;
            returns whether to accept it. Without it and `service_bus`, the node ``$cbs`` does not
            exist.
        service_bus: emulate Azure Service Bus: unpack batches, assign sequence numbers and locks,
            and answer requests to ``ENTITY/$management``. Every token is accepted, unless
            `on_token` rejects it.
        container_id: the server's container-id; generated if None.
        waits: the server's timeouts and intervals.
        clock: returns the time in ms since the Unix epoch; None for the machine's clock.
        logger: receives a record for each event, with the attributes ``event`` and ``fields``.
    """

    host: str = declared("127.0.0.1", str, "The address to listen on.")
    port: int = declared(0, int, "The port; 0 for a free one.", high=65_535, default=5672)
    nodes: Iterable[str] = declared(
        (), tuple, "A node to create at the start; repeatable.", "ADDRESS", flag="--node"
    )
    topics: Iterable[str] = declared(
        (),
        tuple,
        "A topic, where every receiver gets every message; repeatable.",
        "ADDRESS",
        flag="--topic",
    )
    create: bool = declared(True, bool, "Refuse addresses other than those of --node and --topic.")
    users: Mapping[str, str] | None = None
    anonymous: bool | None = declared(
        None, bool, "With --users: also accept clients without authentication."
    )
    tls: ssl.SSLContext | None = None
    file: str | PathLike[str] | None = declared(
        None,
        Path,
        "Store durable messages in this file; without it they are rejected.",
        flag="--store",
    )
    accept_durable: bool = declared(False, bool, "Accept durable messages without storing them.")
    dead_letter: str | None = declared(
        None, str, "The node for rejected and expired messages.", "ADDRESS"
    )
    priorities: int = declared(
        10, int, "The number of priorities that the nodes distinguish.", low=1, high=256
    )
    capacity: Capacity | None = None
    memory: int = declared(
        512 << 20,
        int,
        "The limit on bytes of messages, addresses and links; more are refused. 0 for no limit.",
    )
    max_message_size: int = declared(
        16 << 20, int, "The largest message, in bytes; 0 for no limit."
    )
    credit: int = 200
    limits: Limits | None = None
    receiver_settles_second: bool = declared(
        False, bool, "Accept the settle mode second of senders."
    )
    like: str | None = declared(
        None,
        str,
        "Report the product and version of this broker, for clients that check them.",
        choices=tuple(BROKERS),
    )
    properties: Mapping[str, Any] | None = declared(
        None,
        dict,
        "A property of the open frame; repeatable.",
        "NAME=VALUE",
        flag="--property",
    )
    on_token: Callable[[Token], bool] | None = None
    service_bus: bool = declared(
        False, bool, "Emulate Azure Service Bus for its clients, including --cbs."
    )
    container_id: str | None = None
    waits: ServerWaits = ServerWaits()
    clock: Callable[[], int] | None = None
    logger: logging.Logger | None = None
