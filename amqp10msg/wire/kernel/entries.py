"""The entries of a mapping, to pass over them: `entries.pyx` does it without a copy."""

from __future__ import annotations

from typing import Any


class Entries:
    """What a mapping holds."""

    @staticmethod
    def of(mapping: Any) -> dict[Any, Any]:
        """Return a dict of the same entries in their order, which must not be changed."""
        return dict(mapping)
