"""What ``amqp10msg --version`` says, without an import of the kernel."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

import amqp10msg

# As `platform` names them, whose import takes longer than all of this.
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}


def is_compiled() -> bool:
    """Whether an import of the kernel gives the compiled one, `amqp10msg.wire.kernel.COMPILED`."""
    folder = os.path.join(*amqp10msg.__path__, "wire", "kernel")  # noqa: PTH118  (see above)
    for finder in sys.meta_path:
        spec = finder.find_spec(f"{amqp10msg.__name__}.wire.kernel.twin", [folder])
        if spec is not None:
            return str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES))
    return False


def version() -> str:
    """Return the version of the library, and whether its kernel is compiled."""
    kernel = "compiled kernel" if is_compiled() else "pure Python kernel"
    name = sys.implementation.name
    python = f"{_IMPLEMENTATIONS.get(name, name)} {sys.version.split(maxsplit=1)[0]}"
    return f"amqp10msg {amqp10msg.__version__} ({kernel}, {python})"
