"""What many tests try: the cases of the corpus, and how much of a long list a pass tries."""

from __future__ import annotations

import functools
import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from amqp10msg.interop import corpus
from amqp10msg.interop.corpus import Case
from tests.pure_build import wanted

__all__ = ["case", "corpus_cases", "recorded", "recorded_octets", "shortened", "some", "vectors"]

Item = TypeVar("Item")


@functools.cache
def corpus_cases() -> tuple[Case, ...]:
    """Return the cases of the corpus that comes with the library, read once in a run."""
    return tuple(corpus.load())


@functools.cache
def recorded() -> list[dict[str, Any]]:
    """Return what brokers and peers were recorded to send, read once in a run."""
    path = Path(__file__).parent / "vectors" / "recorded.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def recorded_octets() -> list[bytes]:
    """Return the messages of it."""
    return [bytes.fromhex(one["raw"]) for one in recorded()]


def some(items: Sequence[Item]) -> Sequence[Item]:
    """Return all items; each tenth with ``HYPOTHESIS_PROFILE=short``, each fourth in the pure pass.

    The compiled build was tried with all of them in the pass before, and is made of the same
    sources. ``HYPOTHESIS_PROFILE=thorough`` has the pure build tried with all, too.
    """
    profile = os.environ.get("HYPOTHESIS_PROFILE")
    if profile == "short":
        return items[::10]
    return items[::4] if wanted() and profile != "thorough" else items


def shortened(count: int) -> int:
    """Return `count`; a tenth of it with ``HYPOTHESIS_PROFILE=short``, which also draws a tenth.

    For tests marked `soak` whose count is arbitrary: `.ci/run` runs the short form.
    """
    return count // 10 if os.environ.get("HYPOTHESIS_PROFILE") == "short" else count


@functools.cache
def vectors() -> list[dict[str, Any]]:
    """Return the messages among other projects' cases; without them, the test is left out."""
    folder = os.environ.get("AMQP10MSG_VECTORS")
    if not folder:
        pytest.skip("AMQP10MSG_VECTORS names no folder of other projects' vectors")
    with gzip.open(Path(folder) / "cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    return [case for case in cases if "message" in (case["kind"], case.get("decode_as"))]


def case(**changes: Any) -> Case:
    """A case that is in order, but for the changes."""
    attributes: dict[str, Any] = {
        "id": "a-case",
        "kind": "value",
        "data": b"\x43",
        "typed": ["uint", 0],
        "clause": "Part 1, 1.6.5",
        "origin": "this test",
    }
    return Case(**{**attributes, **changes})
