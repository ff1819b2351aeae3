"""Functions that set the attributes of bare instances, without converters and checks.

For the decoder, whose values are right by construction. Written as source, as attrs writes its own
methods: a statement that unpacks costs two thirds of an __init__ with as many arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["filler"]


def filler(*classes: Sequence[str]) -> Callable[..., None]:
    """Give what takes an instance, or None, and the list of its values for each class in turn.

    Args:
        classes: the names of each class's attributes, in the order of the values.
    """
    arguments, body = [], []
    for i, names in enumerate(classes):
        targets = ", ".join(f"made{i}.{name}" for name in names)
        arguments.append(f"made{i}, values{i}")
        body.append(f"    if made{i} is not None:\n        [{targets}] = values{i}\n")
    source = f"def fill({', '.join(arguments)}):\n{''.join(body)}"
    scope: dict[str, Any] = {}
    exec(source, scope)  # noqa: S102  (nothing in it but the names of attributes)
    return scope["fill"]  # type: ignore[no-any-return]
