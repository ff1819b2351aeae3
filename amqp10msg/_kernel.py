"""Which build of the kernel runs: the compiled one where it was built, else the source itself.

With AMQP10MSG_PURE=1 in the environment the source runs even where it was compiled; tests use that
to run on both builds. Imported before anything that imports the kernel.
"""

from __future__ import annotations

import os
import sys
from typing import Any

#: The modules that are compiled and run as their source too; setup.py lists them and others.
KERNELS = (
    "amqp10msg._memory",
    "amqp10msg._wire",
    "amqp10msg.sections.mappings",
    "amqp10msg.basic._codec",
    "amqp10msg.translate._canonical",
    "amqp10msg.translate._to_amqp10",
    "amqp10msg.translate._to_basic",
)


class _SourceFinder:
    """Finds the source of a kernel's module before its library."""

    @staticmethod
    def find_spec(name: str, path: Any = None, _target: Any = None) -> Any:
        if name not in KERNELS or not path:
            return None
        # Imported here: every user would pay for them at import, and only tests need them.
        from importlib.machinery import SourceFileLoader  # noqa: PLC0415
        from importlib.util import spec_from_file_location  # noqa: PLC0415

        # pathlib likewise.
        file = os.path.join(path[0], name.rpartition(".")[2] + ".py")  # noqa: PTH118
        return spec_from_file_location(name, file, loader=SourceFileLoader(name, file))


if os.environ.get("AMQP10MSG_PURE") == "1" and "amqp10msg._wire" not in sys.modules:
    sys.meta_path.insert(0, _SourceFinder)

from amqp10msg import _wire  # noqa: E402  (chosen above)

#: Whether the compiled kernel runs.
COMPILED: bool = _wire.COMPILED

__all__ = ["COMPILED"]
