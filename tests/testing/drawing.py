"""What a strategy draws, and what it does not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from typing import Any

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample


def missing(
    strategy: st.SearchStrategy[Any],
    wanted: Iterable[Any],
    traits_of: Callable[[Any], Collection[Any]],
) -> list[Any]:
    """Return which of the wanted traits nothing has that the strategy draws in 5,000 tries.

    One sample serves all of the traits, and ends as soon as each was seen.
    """
    left = list(wanted)

    def all_seen(value: Any) -> bool:
        traits = traits_of(value)
        left[:] = [trait for trait in left if trait not in traits]
        return not left

    with contextlib.suppress(NoSuchExample):
        find(
            strategy,
            all_seen,
            settings=settings(
                max_examples=5_000,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
    return left


def can_draw(strategy: st.SearchStrategy[Any], wanted: Callable[[Any], bool]) -> bool:
    """Whether the strategy draws such a thing within 5,000 tries."""
    return not missing(strategy, [True], lambda value: [wanted(value)])
