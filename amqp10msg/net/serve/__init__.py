"""A server of distribution nodes that speaks AMQP 1.0 on a socket.

    from amqp10msg.net.serve import Server

    with Server() as server:
        client = connect(server.url)

The library speaks the protocol itself, by `amqp10msg.net.transport`: it needs no other package.
"""

from amqp10msg.net.serve.nodes import Nodes
from amqp10msg.net.serve.server import JsonFormatter, Server, tls_context
from amqp10msg.net.server_options import ServerWaits, Token

__all__ = ["JsonFormatter", "Nodes", "Server", "ServerWaits", "Token", "tls_context"]
