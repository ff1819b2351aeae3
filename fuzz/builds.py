"""Load the package twice in one process, pure and compiled, to compare the builds.

The whole package is loaded again, not only the kernel, so that a comparison covers every entry
point and does not depend on internals. The two copies have different classes, so `alike` compares
their results.
"""

from __future__ import annotations

import importlib
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from types import ModuleType
from typing import Any

import attrs

from tests.pure_build import PACKAGE, VARIABLE, follow_the_environment


@contextmanager
def _without_package() -> Iterator[None]:
    """Remove the package from sys.modules temporarily, so that an import creates another copy."""
    kept = {
        name: module
        for name, module in sys.modules.items()
        if name == PACKAGE or name.startswith(f"{PACKAGE}.")
    }
    for name in kept:
        del sys.modules[name]
    pure = os.environ.get(VARIABLE)
    try:
        yield
    finally:
        for name in list(sys.modules):
            if name == PACKAGE or name.startswith(f"{PACKAGE}."):
                del sys.modules[name]
        sys.modules.update(kept)
        if pure is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = pure


def load(*, pure: bool) -> ModuleType:
    """Import another copy of the package, with the pure or the compiled kernel.

    Raises:
        RuntimeError: the compiled kernel is requested and missing.
    """
    follow_the_environment()
    with _without_package():
        os.environ[VARIABLE] = "1" if pure else ""
        module = importlib.import_module(PACKAGE)
        # While this copy is in sys.modules: a later import would find the other copy.
        for name in (
            *("wire.primitives", "wire.limits", "wire.errors", "composite", "sections", "delivery"),
            *("basic.classes", "translate", "notation", "files"),
        ):
            found = importlib.import_module(f"{PACKAGE}.{name}")
            for public in getattr(found, "__all__", ()):
                getattr(found, public)
        for public in module.__all__:
            getattr(module, public)
        compiled = module.COMPILED
    if compiled is pure:
        raise RuntimeError(
            "the kernel is not compiled: python setup.py build_ext --inplace"
            if not pure
            else "AMQP10MSG_PURE=1 does not choose the pure kernel"
        )
    return module


#: Classes whose values are compared by ==; their subclasses belong to the package.
_ATOMS = frozenset({type(None), bool, int, str, bytes})


def alike(one: Any, other: Any) -> bool:
    """Whether values of two copies of the package are equal in type and in every bit.

    The copies have different classes, which are compared by name, and their values by content.
    """
    kind: Any = type(one)
    if kind in _ATOMS:
        return kind is type(other) and bool(one == other)
    return kind.__name__ == type(other).__name__ and _alike[_of(kind)](one, other)


def _sequences(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(map(alike, one, other))


def _pairs(one: Iterable[Any], other: Iterable[Any]) -> bool:
    return _sequences([*chain(*one)], [*chain(*other)])


def _attributes(one: Any, other: Any) -> bool:
    kind: Any = type(one)
    names = _names(kind)
    return all(alike(getattr(one, name), getattr(other, name)) for name in names)


@cache
def _names(kind: Any) -> tuple[str, ...]:
    if issubclass(kind, ValueError):
        return ("rule", "offset", "path", "condition", "reason")
    return tuple(field.name for field in attrs.fields(kind) if field.name[0] != "_")


# Comparison functions by base class.
_alike: dict[str, Callable[[Any, Any], bool]] = {
    "number": lambda one, other: (
        int(one) == int(other) and getattr(one, "octet", 0) == getattr(other, "octet", 0)
    ),
    "bits": lambda one, other: bool(one.bits == other.bits),
    "double": lambda one, other: struct.pack(">d", one) == struct.pack(">d", other),
    "sequence": _sequences,
    "dict": lambda one, other: _pairs(one.items(), other.items()),
    "entries": lambda one, other: _sequences(one.entries, other.entries),
    "pairs": lambda one, other: _pairs(one.pairs, other.pairs),
    "attributes": _attributes,
    "plain": lambda one, other: bool(one == other),
}


@cache
def _of(kind: Any) -> str:
    """Return the comparison function for a class."""
    if issubclass(kind, int):
        return "number"
    if hasattr(kind, "bits"):
        return "bits"
    if issubclass(kind, float):
        return "double"
    if kind.__name__ in {"FieldTable", "FieldArray"}:
        return "entries"
    if issubclass(kind, (list, tuple)):
        return "sequence"
    if issubclass(kind, dict):
        return "dict"
    if kind.__name__ == "AmqpMap":
        return "pairs"
    if attrs.has(kind) or kind.__name__ == "DecodeError":
        return "attributes"
    return "plain"
