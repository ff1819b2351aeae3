"""Imports the public names of a package, and modules of an extra, when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def later(package: str, modules: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package; it imports a public name when it is first used.

    ``dir(package)`` then lists these names, too.

    Args:
        package: the name of the package.
        modules: for each module, the public names that it defines. Modules are relative to the
            package: ``urls`` is in it, ``.ends.urls`` is in the package beside it.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{module_of[name]}", package), name)
        setattr(module, name, value)
        return value

    module = sys.modules[package]
    vars(module)["__dir__"] = lambda: sorted({*vars(module), *module_of})
    return get


def of_extra(module: str, extra: str, requirement: str, otherwise: str = "") -> Any:
    """Import a module that one of the package's extras installs.

    Args:
        module: the name of the module.
        extra: the name of the extra.
        requirement: the start of the error text, such as ``zstd needs zstandard``.
        otherwise: the end of the error text, such as an alternative to installing the extra.

    Raises:
        ModuleNotFoundError: the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        text = f"{requirement}: pip install 'amqp10msg[{extra}]'{otherwise}"
        raise ModuleNotFoundError(text, name=module) from error
