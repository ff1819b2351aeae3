"""What many tests try: the cases of the corpus, and how much of a long list a pass tries."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import TypeVar

from amqp10msg.interop import corpus
from amqp10msg.interop.corpus import Case
from tests.pure_build import wanted

__all__ = ["corpus_cases", "some"]

Item = TypeVar("Item")


@functools.cache
def corpus_cases() -> tuple[Case, ...]:
    """Return the cases of the corpus that comes with the library, read once in a run."""
    return tuple(corpus.load())


def some(items: Sequence[Item]) -> Sequence[Item]:
    """Return all items; each fourth in the pass on the pure build, as with drawn examples.

    The compiled build was tried with all of them in the pass before, and is made of the same
    sources. ``HYPOTHESIS_PROFILE=thorough`` has the pure build tried with all, too.
    """
    if wanted() and os.environ.get("HYPOTHESIS_PROFILE") != "thorough":
        return items[::4]
    return items
