"""A server of distribution nodes that speaks AMQP 1.0 on a socket.

    from amqp10msg.net.serve import Server

    with Server() as server:
        client = connect(server.url)

Needs the extra ``amqp10msg[net]``: python-qpid-proton does frames, sessions and links, this library
messages, filters and nodes.
"""

from __future__ import annotations

try:
    from amqp10msg.net.serve.logs import JsonFormatter
    from amqp10msg.net.serve.nodes import Nodes
    from amqp10msg.net.serve.server import Server, tls_context
    from amqp10msg.net.serve.tokens import Token
except ModuleNotFoundError as error:
    if error.name not in {"proton", "cproton", "cproton_ffi"}:
        raise
    raise ModuleNotFoundError(
        "amqp10msg.net.serve needs python-qpid-proton: pip install 'amqp10msg[net]'",
        name=error.name,
    ) from error

__all__ = ["JsonFormatter", "Nodes", "Server", "Token", "tls_context"]
