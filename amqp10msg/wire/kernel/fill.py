"""What sets the attributes of a bare instance, without converters and checks.

For the decoder, whose values are right by construction. Written as source, as attrs writes its own
methods: a statement that unpacks costs two thirds of an __init__ with as many arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def filler(names: Sequence[str]) -> Callable[..., None]:
    """Return a function that takes an instance and the list of its values.

    Args:
        names: of the attributes, in the order of the values.
    """
    targets = ", ".join(f"made.{name}" for name in names)
    scope: dict[str, Any] = {}
    # S102: there is nothing in the source but the names of attributes.
    exec(f"def fill(made, values):\n    [{targets}] = values\n", scope)  # noqa: S102  (see above)
    fill: Callable[..., None] = scope["fill"]
    return fill
