"""Import public names of a package, and modules of an extra, when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def later(package: str, modules: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package that imports public names when they are first used.

    Also makes ``dir(package)`` list these names.

    Args:
        package: the package's name.
        modules: the public names by module of the package.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(module, name, value)
        return value

    module = sys.modules[package]
    vars(module)["__dir__"] = lambda: sorted({*vars(module), *module_of})
    return get


def of_extra(module: str, extra: str, requirement: str, otherwise: str = "") -> Any:
    """Import a module that one of the package's extras installs.

    Args:
        module: the module's name.
        extra: the name of the extra.
        requirement: the beginning of the error, such as ``zstd needs zstandard``.
        otherwise: an alternative to installing the extra, which ends the error.

    Raises:
        ModuleNotFoundError: the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        text = f"{requirement}: pip install 'amqp10msg[{extra}]'{otherwise}"
        raise ModuleNotFoundError(text, name=module) from error
