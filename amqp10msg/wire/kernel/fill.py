"""Generates functions that set the attributes of a bare instance, without converters and checks.

The decoder uses these functions, since its values are valid by construction. Like the methods of
attrs, they are generated as source code: an unpacking assignment needs two thirds of the time of an
__init__ with as many arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def filler(names: Sequence[str]) -> Callable[..., None]:
    """Return a function ``fill(instance, values)`` that sets attributes to a list of values.

    Args:
        names: the names of the attributes, in the order of the values.
    """
    targets = ", ".join(f"made.{name}" for name in names)
    scope: dict[str, Any] = {}
    # S102: the source consists of the names of attributes only.
    exec(f"def fill(made, values):\n    [{targets}] = values\n", scope)  # noqa: S102  (see above)
    fill: Callable[..., None] = scope["fill"]
    return fill
