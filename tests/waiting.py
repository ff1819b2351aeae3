"""How tests wait for what another task, thread or process does: never for a fixed time.

Only a test that nothing happens takes a period: `holds`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["TIMEOUT", "holds", "until", "until_answered", "wait_until"]

_T = TypeVar("_T")
#: Timeout for a condition, in seconds: longer than a busy machine needs, so that only a bug reaches
#: it.
TIMEOUT = 120.0
#: Seconds between two looks at a condition.
_INTERVAL = 0.005


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until a condition holds.

    Raises:
        TimeoutError: the condition did not hold within `TIMEOUT`.
    """
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(_INTERVAL)


async def until_answered(ask: Callable[[], Awaitable[_T | None]]) -> _T:
    """Call `ask` until its awaited result is not None, and return that result.

    Raises:
        TimeoutError: every result was None for `TIMEOUT`.
    """
    async with asyncio.timeout(TIMEOUT):
        while (answer := await ask()) is None:
            await asyncio.sleep(_INTERVAL)
        return answer


async def holds(condition: Callable[[], object], seconds: float) -> None:
    """Check that a condition keeps holding while other tasks run for a number of seconds.

    A slow machine may let a bug pass in that time; it never lets correct code fail.

    Raises:
        AssertionError: the condition stopped holding.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), "the condition stopped holding"
        await asyncio.sleep(_INTERVAL)


def wait_until(condition: Callable[[], object], seconds: float = TIMEOUT) -> None:
    """Wait until a condition holds that depends on another thread or process.

    Raises:
        TimeoutError: the condition did not hold within so many seconds.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"the condition did not hold within {seconds:.0f} s")
        time.sleep(_INTERVAL)
