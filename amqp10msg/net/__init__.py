"""Clients, servers and the bridge: everything that opens a socket.

`amqp10msg.net.serve` is a server of nodes, and `amqp10msg.net.transport` the protocol below it,
without sockets. `amqp10msg.net.spool` consumes queues and writes the messages to disk before it
settles them: it needs the extra ``amqp10msg[net]``, and ``amqp10msg[arrow]`` for the files.
"""
