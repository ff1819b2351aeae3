"""Public names of a package that are imported when one of them is first used."""

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
