"""A cursor over the bytes of a body, which every form of the messages of JMS is read with."""

from __future__ import annotations

from amqp10msg.wire.errors import ContentError


class BodyReader:
    """Reads a body from its beginning.

    Attributes:
        octets: the body.
        at: how much of it was read.
    """

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    def take(self, size: int) -> bytes:
        """Read so many bytes.

        Raises:
            ContentError: there are fewer, or the size is negative.
        """
        end = self.at + size
        if size < 0 or end > len(self.octets):
            raise self.fault(f"{size} bytes expected")
        self.at = end
        return self.octets[end - size : end]

    def fault(self, what: str, at: int | None = None) -> ContentError:
        """Return the error for what is wrong at a byte, by default the next one."""
        return ContentError(f"at byte {self.at if at is None else at} of the body: {what}")
