"""Messages to and from python-qpid-proton, and their exact bytes through its links.

Needs the extra ``amqp10msg[proton]``.

    send(event.sender, message)        # the bytes of message.encode(), unchanged
    message = receive(event.delivery)  # decoded here, not by proton
    made = to_proton(message)          # a proton.Message; raises if something would be lost
    message = from_proton(made)
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
