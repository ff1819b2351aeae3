"""The transport layer (Part 2) without sockets: bytes in, calls to a handler, bytes out.

A `Connection` processes the bytes that a peer sends, and returns the bytes to send. It has
`Session` objects, which have `Link` objects, which have `LinkDelivery` objects. Servers and clients
use the same classes: either end may open, begin and attach. Messages are encoded bytes.
"""

from amqp10msg.net.transport.connection import Connection
from amqp10msg.net.transport.frames import (
    AMQP_HEADER,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    ReceiverSettleMode,
    SenderSettleMode,
    Transfer,
    describe_error,
)
from amqp10msg.net.transport.sasl import (
    SASL_HEADER,
    SaslClient,
    SaslCode,
    SaslError,
    SaslFrames,
    SaslServer,
    sasl_frame,
)
from amqp10msg.net.transport.sessions import (
    ACQUIRED_BY_OTHERS,
    Handler,
    Link,
    LinkDelivery,
    Session,
    Sink,
)

__all__ = [
    "ACQUIRED_BY_OTHERS",
    "AMQP_HEADER",
    "SASL_HEADER",
    "Attach",
    "Begin",
    "Close",
    "Connection",
    "Detach",
    "Disposition",
    "End",
    "Flow",
    "Handler",
    "Link",
    "LinkDelivery",
    "Open",
    "ReceiverSettleMode",
    "SaslClient",
    "SaslCode",
    "SaslError",
    "SaslFrames",
    "SaslServer",
    "SenderSettleMode",
    "Session",
    "Sink",
    "Transfer",
    "describe_error",
    "sasl_frame",
]
