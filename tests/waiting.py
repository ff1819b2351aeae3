"""How tests wait for what another task, thread or process does: never for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

#: Seconds: more than anything takes on a slow machine that does much else. Only a bug uses it up.
TIMEOUT = 120.0


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until a condition holds.

    Raises:
        TimeoutError: it did not hold within `TIMEOUT`.
    """
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.005)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds that another thread or process brings about.

    Raises:
        TimeoutError: it did not hold within `TIMEOUT`.
    """
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"what the test waits for did not happen within {TIMEOUT:.0f} s")
        time.sleep(0.005)
