"""The package more than once in one process: pure beside compiled, so that they can be compared.

A whole second package, and not only a second kernel: then a comparison covers every entry point
and depends on none of the package's insides. The copies' classes differ, so what they give is
compared by `described`, which names classes and takes values apart.
"""

from __future__ import annotations

import importlib
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import attrs

from tests.pure_build import PACKAGE, VARIABLE, follow_the_environment


@contextmanager
def _without_package() -> Iterator[None]:
    """Forget the package for a while, so that importing it makes another one."""
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
    """Import the package once more, with the pure kernel or the compiled one.

    Raises:
        RuntimeError: the compiled kernel is wanted and there is none.
    """
    follow_the_environment()
    with _without_package():
        os.environ[VARIABLE] = "1" if pure else ""
        module = importlib.import_module(PACKAGE)
        # Before they are forgotten again: what is imported later would find the other package.
        for name in (
            *("composite", "primitives", "limits", "errors", "sections", "delivery"),
            *("basic.classes", "translate"),
        ):
            importlib.import_module(f"{PACKAGE}.{name}")
    if module.COMPILED is pure:
        raise RuntimeError(
            "the kernel is not compiled: python setup.py build_ext --inplace"
            if not pure
            else "AMQP10MSG_PURE=1 does not choose the pure kernel"
        )
    return module


def described(value: Any) -> Any:
    """Take a value, section or message apart into tuples that compare by type and bit by bit."""
    kind = type(value).__name__
    if value is None or isinstance(value, (bool, str, bytes)):
        return (kind, value)
    if isinstance(value, int):
        return (kind, getattr(value, "octet", int(value)))
    if isinstance(value, float):
        bits = getattr(value, "bits", None)
        return (kind, struct.pack(">d", value) if bits is None else bits)
    if isinstance(value, (list, tuple)):
        return (kind, [described(item) for item in value])
    if isinstance(value, dict):
        return (kind, [(described(key), described(item)) for key, item in value.items()])
    if kind in {"FieldTable", "FieldArray"}:
        return (kind, described(value.entries))
    if kind == "AmqpMap":
        return (kind, [(described(key), described(item)) for key, item in value.pairs])
    if attrs.has(type(value)):
        names = [field.name for field in attrs.fields(type(value)) if field.name[0] != "_"]
        return (kind, [described(getattr(value, name)) for name in names])
    if hasattr(value, "bits"):
        return (kind, value.bits)
    if kind == "DecodeError":
        return (kind, value.rule, value.offset, value.path, value.condition, value.reason)
    return (kind, value)
