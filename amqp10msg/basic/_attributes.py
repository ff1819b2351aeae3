# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The attributes of a class with slots, all at once: `Slots`.

Runs as it is, and compiled with the C types of `_attributes.pxd`, where an attribute is taken from
its place in the object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

__all__ = ["Slots"]

_COMPILED = not __file__.endswith(".py")
_MOST = 32


class Slots:
    """Sets and takes attributes of bare instances, without converters and checks.

    Args:
        cls: a class of attrs with slots.
        names: the attributes, in the order of the values; all of them where None.
    """

    names: tuple[str, ...]

    def __init__(self, cls: Any, names: Sequence[str] | None = None) -> None:
        known = tuple(names or [field.name for field in attrs.fields(cls)])
        self.cls = cls
        self.names = known
        self.count = len(known)
        self.get, self.set = _functions(known, frozen=cls.__setattr__ is not object.__setattr__)
        self.direct = False
        if _COMPILED and self.count <= _MOST and cls.__new__ is object.__new__:
            self.place()

    def place(self) -> None:
        """Find out where the attributes are, if they all are in slots of the class itself."""
        for i in range(self.count):
            offset = slot_offset(getattr(self.cls, self.names[i]), self.cls)  # type: ignore[name-defined]  # noqa: F821
            if offset < 0:
                return
            self.offsets[i] = offset  # type: ignore[attr-defined]
        self.direct = True

    def values(self, made: Any) -> Any:
        """Give the values of an instance."""
        if not self.direct or type(made) is not self.cls:
            return self.get(made)
        found = [None] * self.count
        for i in range(self.count):
            found[i] = slot_value(made, self.offsets[i])  # type: ignore[name-defined, attr-defined]  # noqa: F821
        return found

    def fill(self, made: Any, values: Any) -> None:
        """Set the attributes of an instance to as many values."""
        if not self.direct or type(made) is not self.cls or len(values) != self.count:
            self.set(made, values)
            return
        for i in range(self.count):
            set_slot(made, self.offsets[i], values[i])  # type: ignore[name-defined, attr-defined]  # noqa: F821

    def build(self, values: Any) -> Any:
        """Make an instance of its values."""
        cls = self.cls
        made = cls.__new__(cls)
        self.fill(made, values)
        return made


def _functions(names: Sequence[str], *, frozen: bool) -> tuple[Any, Any]:
    """Give what takes the attributes as a list, and what sets them.

    The interpreter remembers where the attributes of a class are, which makes this the quickest way
    in Python.
    """
    listed = ", ".join(f"made.{name}" for name in names)
    filled = f"[{listed}] = values"
    if frozen:
        filled = f"[set_one(made, name, value) for name, value in zip({tuple(names)}, values)]"
    source = f"def get(made):\n    return [{listed}]\ndef fill(made, values):\n    {filled}\n"
    found: dict[str, Any] = {"set_one": object.__setattr__}
    exec(source, found)  # noqa: S102  (nothing in it but the names of attributes)
    return found["get"], found["fill"]
