"""Connections: what opens sockets. Needs the extra ``amqp10msg[net]``."""
