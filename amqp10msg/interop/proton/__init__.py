"""Convert messages to and from python-qpid-proton, and send and receive exact bytes with it.

Needs the extra ``amqp10msg[proton]``.

    send(event.sender, message)           # sends the bytes of message.encode(), unchanged
    message = receive(event.delivery)     # decoded by this library, not by proton
    proton_message = to_proton(message)   # raises EncodeError if something would be lost
    message = from_proton(proton_message)
"""

from __future__ import annotations

try:
    from amqp10msg.interop.proton.convert import Loss, from_proton, losses, to_proton
    from amqp10msg.interop.proton.links import (
        MessagingHandler,
        install,
        receive,
        receive_octets,
        send,
        sendable,
    )
except ModuleNotFoundError as error:
    if error.name not in {"proton", "cproton", "cproton_ffi"}:
        raise
    raise ModuleNotFoundError(
        "amqp10msg.interop.proton needs python-qpid-proton: pip install 'amqp10msg[proton]'",
        name=error.name,
    ) from error

__all__ = [
    "Loss",
    "MessagingHandler",
    "from_proton",
    "install",
    "losses",
    "receive",
    "receive_octets",
    "send",
    "sendable",
    "to_proton",
]
