"""Names and content types that were met before, with what they become: `Vocabulary`."""

from __future__ import annotations

from typing import Any


class Vocabulary:
    """What texts of a small vocabulary become, such as the names of headers.

    Holds at most 1,024 texts of at most 64 characters: with what they become and the dict's own
    share some 300 bytes each, so 0.3 MB. A full vocabulary keeps what it has; a peer that invents
    texts gains nothing and costs no more.

    Attributes:
        known: what each text becomes.
    """

    MOST = 1024
    LONGEST = 64

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def keep(self, text: str, made: Any) -> None:
        """Remember what a text becomes, if it is short and there is room."""
        if len(self.known) < self.MOST and len(text) <= self.LONGEST:
            self.known[text] = made
