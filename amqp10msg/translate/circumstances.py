"""What a bridge's result depends on besides the message: `Circumstances`."""

from __future__ import annotations

import attrs

__all__ = ["Circumstances"]


@attrs.frozen
class Circumstances:
    """What a bridge's result depends on besides the message.

    Attributes:
        user: whom the broker knows the publisher as, for its check of the user-id; None to leave
            out the check.
        stream_offset: of the message in the stream; None to leave out what states it.
        arrival_time: when the message arrived at the broker, in ms since the Unix epoch.
    """

    user: str | None = "guest"
    stream_offset: int | None = None
    arrival_time: int | None = None
