"""Priority levels (Part 3, 3.2.1)."""

from __future__ import annotations

__all__ = ["priority_level"]


def priority_level(priority: int, levels: int) -> int:
    """Fold a message's priority into the levels that a node tells apart.

    Part 3, 3.2.1: with n < 10 levels the priorities from 5 - ceiling(n/2) to 4 + floor(n/2) are
    distinct, and what lies outside is equivalent to the nearest of them; with n >= 10 the
    priorities from 0 to n - 1 are distinct, and what lies above is equivalent to n - 1.

    Args:
        priority: of the message, 0 to 255.
        levels: how many distinct priorities there are, 1 to 256.

    Returns:
        The level, 0 (lowest) to levels - 1.

    Raises:
        ValueError: `levels` is out of range.
    """
    if not 1 <= levels <= 256:
        raise ValueError(f"a node tells 1 to 256 priorities apart, not {levels}")
    lowest = 5 - (levels + 1) // 2 if levels < 10 else 0
    return min(max(priority - lowest, 0), levels - 1)
