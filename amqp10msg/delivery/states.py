"""The states of a message at a distribution node (Part 3, 3.3)."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["MessageState"]


class MessageState(StrEnum):
    """Where a message at a node stands (Part 3, 3.3, figure 3.1)."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ARCHIVED = "archived"
