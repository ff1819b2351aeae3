"""At the edge of the network: what opens sockets.

`amqp10msg.net.serve` is a server of nodes, and `amqp10msg.net.transport` the protocol below it,
without sockets. `amqp10msg.net.spool` has consumers that put what they receive on disk before they
settle it: it needs the extra ``amqp10msg[net]``, and ``amqp10msg[arrow]`` for the files.
"""
