"""Which messages the target took already, by their message-ids, in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from amqp10msg.basic import decode_content_header
from amqp10msg.net.bridge.sqlite import opened, written
from amqp10msg.net.bridge.terms import Delivery
from amqp10msg.net.identity import id_of_message, id_of_properties
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import AmqpError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS taken (
  number INTEGER PRIMARY KEY, route TEXT NOT NULL, identity BLOB NOT NULL, UNIQUE (route, identity)
) STRICT
"""
_LONGEST = 64


def identity_of(delivery: Delivery) -> str | None:
    """Return the message-id of a delivery with its type; None where it has none, or is unreadable.

    What has no id has no identity: two messages may be the same and meant to be two.
    """
    try:
        if delivery.content_header is not None:
            return id_of_properties(decode_content_header(delivery.content_header).properties)
        return id_of_message(scan(delivery.octets))
    except AmqpError:
        return None


class Ledger:
    """Remembers the messages that a route's target took.

    It outlives ``kill -9``. What the target took and the file does not say yet, at most what is
    under way in one turn of the loop, may come twice after that: no file can know it.

    Args:
        path: of an SQLite file.
        route: routes of other names in the same file are told apart.
        most: how many messages of this route are remembered: the latest.

    Raises:
        OSError: the file cannot be used.
    """

    def __init__(self, path: Path, route: str, most: int) -> None:
        self._path = path
        self._route = route
        self._most = most
        self._base = opened(path, _SCHEMA)
        row = self._base.execute("SELECT count(*) FROM taken WHERE route = ?", (route,))
        self._count: int = row.fetchone()[0]

    def __len__(self) -> int:
        return self._count

    def has(self, identity: str) -> bool:
        """Whether the target took this message."""
        found = self._base.execute(
            "SELECT 1 FROM taken WHERE route = ? AND identity = ?", (self._route, _key(identity))
        )
        return found.fetchone() is not None

    def add(self, identities: Iterable[str]) -> None:
        """Remember messages; it is in the file when this returns.

        Raises:
            OSError: it could not be written.
        """
        with written(self._base, self._path) as base:
            before = base.total_changes
            base.executemany(
                "INSERT OR IGNORE INTO taken (route, identity) VALUES (?, ?)",
                [(self._route, _key(identity)) for identity in identities],
            )
            count = self._count + base.total_changes - before
            if count > self._most:
                base.execute(
                    "DELETE FROM taken WHERE number IN "
                    "(SELECT number FROM taken WHERE route = ? ORDER BY number LIMIT ?)",
                    (self._route, count - self._most),
                )
                count = self._most
        self._count = count

    def close(self) -> None:
        """Close the file."""
        self._base.close()


def _key(identity: str) -> bytes:
    """Return what stands for an id: itself, or a hash of what is long."""
    octets = identity.encode("utf-8", "surrogatepass")
    return octets if len(octets) <= _LONGEST else b"\0" + hashlib.sha256(octets).digest()
