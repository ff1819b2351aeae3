"""Test other implementations of AMQP with a corpus, and convert messages of other libraries.

`from_client` converts the message of any supported client, and `to_client` converts back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp10msg.wire.later import later

if TYPE_CHECKING:
    from amqp10msg.interop.clients import from_client, lost_in_client, to_client

__all__ = ["from_client", "lost_in_client", "to_client"]

__getattr__ = later(__name__, {"clients": ["from_client", "lost_in_client", "to_client"]})
