"""The text of ``amqp10msg --version``, without importing the kernel, because that is slow."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

import amqp10msg

# The names that `platform.python_implementation` would return; importing `platform` is slow.
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}


def is_compiled() -> bool:
    """Return the value of `amqp10msg.wire.kernel.COMPILED` without importing the kernel."""
    folder = os.path.join(*amqp10msg.__path__, "wire", "kernel")  # noqa: PTH118  (pathlib is slow to import)
    for finder in sys.meta_path:
        spec = finder.find_spec(f"{amqp10msg.__name__}.wire.kernel.twin", [folder])
        if spec is not None:
            return str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES))
    return False


def version() -> str:
    """Return the versions of the library and of Python, and whether the kernel is compiled."""
    kernel = "compiled kernel" if is_compiled() else "pure Python kernel"
    name = sys.implementation.name
    python = f"{_IMPLEMENTATIONS.get(name, name)} {sys.version.split(maxsplit=1)[0]}"
    return f"amqp10msg {amqp10msg.__version__} ({kernel}, {python})"
