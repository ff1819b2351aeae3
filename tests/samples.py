"""How much of a long list a pass of the tests tries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from tests.pure_build import wanted

__all__ = ["some"]

Item = TypeVar("Item")


def some(items: Sequence[Item]) -> Sequence[Item]:
    """Return all items; each fourth in the pass on the pure build, as with drawn examples.

    The compiled build was tried with all of them in the pass before, and is made of the same
    sources. ``HYPOTHESIS_PROFILE=thorough`` has the pure build tried with all, too.
    """
    if wanted() and os.environ.get("HYPOTHESIS_PROFILE") != "thorough":
        return items[::4]
    return items
