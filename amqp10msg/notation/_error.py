"""The error of every notation: what was written wrongly, and where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from amqp10msg.wire.errors import AmqpError


class NotationError(AmqpError, ValueError):
    """Something written in a notation is not what the notation requires there.

    Attributes:
        reason: what is there, and what would be right.
        path: where in the notation, ``$`` being the whole: ``$[2][1][0]``, ``$.header.ttl``.
    """

    __module__ = "amqp10msg.notation"  # where users import it from: tracebacks show it

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


#: Of values that would exceed the recursion limit of the interpreter.
TOO_DEEP = "values are nested too deeply for the interpreter's stack"
#: How deep values may be nested in what is read.
MAX_DEPTH = 256


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


def shown(value: object) -> str:
    """Show what was found, briefly and in the words of JSON, however large or deep it is."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], str):
            return f"a list that begins with {shown(value[0])}"
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object with {', '.join(shown(key) for key in list(value)[:3]) or 'no keys'}"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…")
    if isinstance(value, int):
        # An int of millions of digits cannot even be printed.
        return str(value) if value.bit_length() <= 256 else f"an int of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    return f"a {type(value).__name__}"
