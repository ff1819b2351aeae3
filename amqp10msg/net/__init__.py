"""At the edge of the network: what opens sockets. Needs the extra ``amqp10msg[net]``.

`amqp10msg.net.serve` is a server of nodes; `amqp10msg.net.spool` has consumers that put what they
receive on disk before they settle it, and needs ``amqp10msg[arrow]`` for the files.
"""
