"""The libraries that amqp10msg is measured against, one module each.

A peer module does the jobs of the figures with its library in the way its documentation shows.
Every module has ``NAME``, ``VERSION`` and ``read_reference``, and the other operations that the
library supports. ``plain`` converts the result of ``read_reference`` to the values of
``bench.messages.EVERY_FIELD`` for the tests; it is never timed.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

import attrs


@attrs.frozen
class Peer:
    """A library to measure against: how to import its module here and how to install it."""

    key: str
    install: str

    def load(self) -> ModuleType | None:
        """Return the peer's module, or None if the library is not installed."""
        try:
            return import_module(f"bench.peers.{self.key}")
        except ImportError:
            return None


PROTON: Final = Peer("proton", "python-qpid-proton")
AZURE: Final = Peer("azure", "azure-servicebus")
MSGSPEC: Final = Peer("msgspec", "msgspec")
PEERS: Final = (PROTON, AZURE, MSGSPEC)


def load(*peers: Peer) -> tuple[dict[Peer, ModuleType], tuple[str, ...]]:
    """Return the modules of installed peers, and a line for each missing one."""
    modules = {peer: module for peer in peers if (module := peer.load()) is not None}
    left_out = tuple(
        f"{peer.install} is left out: pip install {peer.install}"
        for peer in peers
        if peer not in modules
    )
    return modules, left_out
