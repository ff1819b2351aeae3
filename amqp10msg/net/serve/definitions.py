"""Stores the declarations of queues, exchanges and subscriptions in the file of a server's store.

Without them, a restart would restore the messages of a queue, but lose the queue's type and
arguments, and all exchanges and bindings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from amqp10msg.delivery.node import MemoryStore, StoreError
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.kernel import decode_values, encode_value

#: The kinds of definitions; the argument `kind` of the methods of `Definitions`.
QUEUE, EXCHANGES, SUBSCRIPTION = "queue", "exchanges", "subscription"


class Definitions:
    """Reads and writes definitions, maps of AMQP values, in a store; a no-op for a memory store.

    Args:
        store: the store of the server, a `MemoryStore` or a `SqliteStore`.
    """

    def __init__(self, store: Any) -> None:
        self._store = None if isinstance(store, MemoryStore) else store

    def put(self, kind: str, name: str, definition: Mapping[str, Any]) -> None:
        """Write a definition, which is on disk when this returns.

        Raises:
            StoreError: the file cannot be written.
        """
        if self._store is not None:
            self._store.define(kind, name, encode_value(dict(definition)))

    def remove(self, kind: str, name: str) -> None:
        """Delete a definition with the next commit; a no-op if it does not exist."""
        if self._store is not None:
            self._store.undefine(kind, name)

    def load(self, kind: str) -> Iterable[tuple[str, dict[str, Any]]]:
        """Yield the name and the definition of each definition of a kind.

        Raises:
            StoreError: the file cannot be read, or a definition is damaged.
        """
        if self._store is None:
            return
        for name, octets in self._store.definitions(kind).items():
            try:
                (definition,) = decode_values(octets)
            except (AmqpError, ValueError) as error:
                raise self._damage_error(kind, name, str(error)) from None
            if not isinstance(definition, dict):
                raise self._damage_error(kind, name, "must be a map")
            yield name, {str(key): value for key, value in definition.items()}

    def _damage_error(self, kind: str, name: str, fault: str) -> StoreError:
        """Return the error for a damaged definition."""
        path = getattr(self._store, "path", "the store")
        return StoreError(f"{path} cannot be read: the definition of {kind} {name!r}: {fault}")
