"""What is imported when it is first used: the public names of a package, modules of an extra."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def later(package: str, modules: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package, whose ``dir`` names them from now on.

    Args:
        package: its name.
        modules: by module of the package, the public names that it has.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(module, name, found)
        return found

    module = sys.modules[package]
    vars(module)["__dir__"] = lambda: sorted({*vars(module), *module_of})
    return get


def of_extra(module: str, extra: str, what: str, otherwise: str = "") -> Any:
    """Import a module that an extra of this library brings.

    Args:
        module: its name.
        extra: the extra.
        what: what needs which package, for the error.
        otherwise: what else would help.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        text = f"{what}: pip install 'amqp10msg[{extra}]'{otherwise}"
        raise ModuleNotFoundError(text, name=module) from error
