"""The path of what a notation's reader reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from amqp10msg.notation._common import MAX_DEPTH, NotationError, shown

#: A step of a path: as it is shown, an index, or a key that is shown only where there is a fault.
Step: TypeAlias = str | int | tuple[Any]


class Reader:
    """Keeps track of the path of what it reads."""

    def __init__(self, path: Iterable[Step] = ()) -> None:
        self.path = list(path)
        self.depth = 0

    def fault(self, reason: str, *steps: Step) -> NotationError:
        return NotationError(reason, "$" + "".join(map(_shown_step, (*self.path, *steps))))

    def wrong(self, wanted: str, found: Any, *steps: Step) -> NotationError:
        return self.fault(f"expected {wanted}, not {shown(found)}", *steps)

    def deeper(self) -> None:
        """Count one more level, to be taken off behind it."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fault(f"values are nested more than {MAX_DEPTH} deep")


def _shown_step(step: Step) -> str:
    if isinstance(step, tuple):
        return f"[{shown(step[0])}]"
    return f"[{step}]" if isinstance(step, int) else step
