"""What the programs that make a client's calls share: each call, and what becomes of it, as JSON.

A program gets one argument, the ends of the servers as JSON: see ``test_serve_clients.py``.
"""

from __future__ import annotations

import faulthandler
import json
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["Calls", "ends", "told"]

#: How a refusal names its cause (Part 2, 2.8.15 to 2.8.18, and those of other specifications).
_CONDITION = re.compile(r"(?:amqp|com\.microsoft):[a-z]+(?:[:-][a-z]+)*|Err[A-Z]\w+")

#: Seconds that a program may take.
_LONGEST = 90


class Calls:
    """The result of each call: ``yes``, the condition of its error, or the error itself."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def call(self, name: str, make: Callable[[], Any]) -> Any:
        try:
            made = make()
        except BaseException as error:  # noqa: BLE001  (told; RabbitMQ's client raises such)
            said = getattr(error, "condition", "")
            said = getattr(said, "value", said)  # of an enumeration
            where = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__}: {said!r} {error!r} {error}, {where.line!r}"
            condition = _CONDITION.search(words)
            self.found[name] = condition[0] if condition else words
            return None
        self.found[name] = "yes"
        return made


def ends() -> dict[str, Any]:
    """Return the addresses of the servers. If the program hangs, print the stack and exit."""
    faulthandler.dump_traceback_later(_LONGEST, exit=True)
    made: dict[str, Any] = json.loads(sys.argv[1])
    return made


def told(calls: Calls) -> None:
    """Print the results on a new line, after any output of the client."""
    sys.stdout.write(f"\n{json.dumps(calls.found)}\n")
    sys.stdout.flush()
