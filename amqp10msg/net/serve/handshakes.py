"""TLS handshakes of a server, which count as connections and have a timeout."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any

from amqp10msg.net.serve.broker import Broker
from amqp10msg.net.serve.connection import Connection


class TlsHandshake(asyncio.Protocol):
    """Runs the TLS handshake of an accepted socket, then hands the socket to its `Connection`.

    asyncio's own TLS server does not report a socket before its handshake has ended. Sockets whose
    peers never finish the handshake would use file descriptors without being counted.

    Args:
        broker: the shared state of the server; its `handshakes` has this handshake until its end.
        admits: returns whether the server accepts another connection.
        context: a server-side TLS context.
    """

    def __init__(self, broker: Broker, admits: Callable[[], bool], context: ssl.SSLContext) -> None:
        self._broker = broker
        self._admits = admits
        self._context = context
        # Create the connection now, so that its timeout for opening includes the handshake.
        self._connection = Connection(broker, admits)
        self._early_bytes = bytearray()  # decrypted bytes that arrived before `_connection` started
        self._socket: Any = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the handshake, or close the socket if there are too many connections."""
        self._socket = transport
        if not self._admits():
            transport.abort()
            return
        # Do not read before the TLS layer exists, which must get the first bytes of the peer.
        transport.pause_reading()
        self._broker.handshakes.add(self)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes) -> None:
        """Keep decrypted bytes for the `Connection`, which starts a little later."""
        self._early_bytes += data

    def abort(self) -> None:
        """Close the socket without finishing the handshake."""
        self._socket.abort()

    async def _run(self) -> None:
        """Run the handshake; then pass the socket and the early bytes to the connection."""
        loop = asyncio.get_running_loop()
        stream, reason, level = None, "the peer closed the socket", logging.INFO
        try:
            stream = await loop.start_tls(
                self._socket,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=max(self._connection.opening_deadline - loop.time(), 0.001),
                ssl_shutdown_timeout=self._broker.options.waits.closing,
            )
        except OSError as error:
            reason = str(error)
            if loop.time() >= self._connection.opening_deadline:
                reason, level = "the peer did not finish the TLS handshake in time", logging.WARNING
        finally:
            self._broker.handshakes.discard(self)
            if stream is None:
                self._socket.abort()
        if stream is None:  # the handshake failed, or the peer closed the socket
            name = self._socket.get_extra_info("peername")
            peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
            self._broker.log("refused", level, peer=peer, why=reason)
            return
        stream.set_protocol(self._connection)
        self._connection.connection_made(stream)
        if self._early_bytes and not stream.is_closing():
            self._connection.data_received(bytes(self._early_bytes))
