"""Public names of a package that are imported when one of them is first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def later(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package, whose ``dir`` names them from now on.

    Args:
        package: its name.
        modules: by public name, the module of the package that has it.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(module, name, found)
        return found

    module = sys.modules[package]
    vars(module)["__dir__"] = lambda: sorted({*vars(module), *modules})
    return get
