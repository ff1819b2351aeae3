"""How far a source was read that keeps its messages: a stream of RabbitMQ, or a file."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from amqp10msg.basic import decode_content_header
from amqp10msg.net.bridge.sqlite import opened, written
from amqp10msg.net.bridge.terms import Delivery
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import AmqpError

_OFFSET = "x-stream-offset"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS position (route TEXT PRIMARY KEY, next INTEGER NOT NULL) STRICT
"""


def position_of(delivery: Delivery) -> int | None:
    """Return where a delivery stands in its stream or file; None where neither is known."""
    if delivery.position is not None:
        return delivery.position
    found: Any = None
    with contextlib.suppress(AmqpError, AttributeError):
        if delivery.content_header is None:
            annotations: Any = scan(delivery.octets).section("message_annotations")
            found = annotations.get(_OFFSET)
        else:
            headers = decode_content_header(delivery.content_header).properties.headers or {}
            found = headers.get(_OFFSET)
    return int(found) if isinstance(found, int) and found >= 0 else None


class StateFile:
    """Remembers how far routes have read, in an SQLite file that outlives ``kill -9``.

    Args:
        path: of the file.
        route: routes of other names in the same file are told apart.

    Raises:
        OSError: the file cannot be used.
    """

    def __init__(self, path: Path, route: str) -> None:
        self._path = path
        self._route = route
        self._base = opened(path, _SCHEMA)

    def load(self) -> int | None:
        """Return the position to go on from; None where there is none."""
        row = self._base.execute("SELECT next FROM position WHERE route = ?", (self._route,))
        found = row.fetchone()
        return None if found is None else int(found[0])

    def save(self, position: int) -> None:
        """Remember a position; it is in the file when this returns.

        Raises:
            OSError: it could not be written.
        """
        with written(self._base, self._path) as base:
            base.execute(
                "INSERT INTO position VALUES (?, ?) "
                "ON CONFLICT (route) DO UPDATE SET next = excluded.next",
                (self._route, position),
            )

    def close(self) -> None:
        """Close the file."""
        self._base.close()


class Positions:
    """The positions of deliveries that are not finished, and the one to go on from.

    Args:
        path: the file that remembers it; None for none.
        route: its name.
        active: the source keeps its messages, so that its deliveries have positions. Nothing in a
            message says so: one of a queue may have come out of a stream before.

    Attributes:
        active: see above.
        next: all before it are finished; None where nothing is known.

    Raises:
        OSError: the file cannot be used.
    """

    def __init__(self, path: Path | None, route: str, *, active: bool) -> None:
        self.active = active
        self._file = None if path is None else StateFile(path, route)
        self.next = None if self._file is None else self._file.load()
        self._pending: dict[int, bool] = {}

    def reset(self) -> None:
        """Forget what is not finished: another connection delivers it again."""
        self._pending.clear()

    def receive(self, delivery: Delivery) -> None:
        """Note a delivery."""
        if self.active:
            delivery.position = position_of(delivery)
            if delivery.position is not None:
                self._pending[delivery.position] = False

    def finish(self, delivery: Delivery) -> None:
        """Note that a delivery is finished, whatever its fate."""
        if self.active and delivery.position in self._pending:
            self._pending[delivery.position] = True

    def save(self) -> None:
        """Move on after what is finished without a gap, and remember it.

        Raises:
            OSError: it could not be written.
        """
        if not self.active:
            return
        before, pending = self.next, self._pending
        while pending:
            first = next(iter(pending))
            if not pending[first]:
                break
            del pending[first]
            self.next = first + 1
        if self._file is not None and self.next is not None and self.next != before:
            self._file.save(self.next)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
