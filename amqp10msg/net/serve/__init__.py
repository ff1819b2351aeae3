"""A server of distribution nodes for AMQP 1.0 clients.

    from amqp10msg.net.serve import Server

    with Server() as server:
        client = connect(server.url)

`amqp10msg.net.transport` implements the protocol: the server needs no other package.
"""

from amqp10msg.net.serve.nodes import Nodes
from amqp10msg.net.serve.server import JsonFormatter, Server, tls_context
from amqp10msg.net.server_options import ServerWaits, Token

__all__ = ["JsonFormatter", "Nodes", "Server", "ServerWaits", "Token", "tls_context"]
