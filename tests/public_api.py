"""Lists every public function, class and method of the package, for tests that check each one.

The public modules are those that the pages of docs/reference/python name. Everything in the
`__all__` of a public module is public, and so are the methods and properties of a public class.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = "amqp10msg"
_DIRECTIVE = re.compile(
    r"^\.\. (?:automodule|py:currentmodule|py:module):: (?P<module>[\w.]+)$", re.MULTILINE
)
_RAISES = re.compile(r"^Raises:\n(?P<entries>(?: +.*\n|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^    (?P<name>[A-Za-z_][\w.]*): ", re.MULTILINE)


def public_modules() -> list[str]:
    """Return the names of the modules that docs/reference/python documents, sorted."""
    pages = (ROOT / "docs" / "reference" / "python").glob("*.md")
    return sorted(
        {m["module"] for page in pages for m in _DIRECTIVE.finditer(page.read_text("utf-8"))}
    )


@functools.cache
def public_callables() -> Mapping[str, Callable[..., Any]]:
    """Return the public callables by name, such as ``basic.decode_table`` or ``Message.encode``.

    A name has no ``amqp10msg.`` in front. A function that several modules export, or that several
    classes inherit, appears once: under the module and the class that come first. Modules whose
    extra is not installed are left out.
    """
    found: dict[str, Callable[..., Any]] = {}
    seen: set[int] = set()
    for name, value in _exports():
        for qualified, function in _with_methods(name, value):
            if id(function) not in seen:
                seen.add(id(function))
                found[qualified] = function
    return MappingProxyType(found)


def _exports() -> Iterator[tuple[str, Any]]:
    """Yield what the public modules export, base classes before their subclasses."""
    exports: list[tuple[int, str, Any]] = []
    for module_name in public_modules():
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if (error.name or PACKAGE).split(".")[0] == PACKAGE:
                raise
            continue  # the module's extra is not installed
        prefix = module_name.removeprefix(PACKAGE).removeprefix(".")
        for name in getattr(module, "__all__", None) or _defined_names(module):
            value = getattr(module, name)
            if callable(value) and str(getattr(value, "__module__", "")).startswith(PACKAGE):
                depth = len(value.__mro__) if inspect.isclass(value) else 0
                exports.append((depth, f"{prefix}.{name}".removeprefix("."), value))
    exports.sort(key=lambda export: export[:2])
    for _, name, value in exports:
        yield name, value


def _defined_names(module: ModuleType) -> list[str]:
    """Return the public names that a module without `__all__` defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _with_methods(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if not inspect.isclass(value):
        return
    for attribute in dir(value):
        if attribute.startswith("_"):
            continue
        member = inspect.getattr_static(value, attribute)
        if isinstance(member, property):
            member = member.fget
        elif isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if callable(member) and str(getattr(member, "__module__", "")).startswith(PACKAGE):
            yield f"{name}.{attribute}", member


def documented_exceptions(function: Callable[..., Any]) -> list[str]:
    """Return the names in the ``Raises:`` section of a docstring, in their order."""
    section = _RAISES.search((inspect.getdoc(function) or "") + "\n")
    return [entry["name"] for entry in _ENTRY.finditer(section["entries"])] if section else []
