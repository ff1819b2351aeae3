"""Which build of the kernel runs: the compiled one where it was built, else the source itself.

With AMQP10MSG_PURE=1 in the environment the source runs even where it was compiled; tests use that
to run on both builds. Imported before anything that imports the kernel.
"""

from __future__ import annotations

import os
import sys


def _use_source() -> None:
    # Imported here: every user would pay for them at import, and only tests need them.
    from importlib.machinery import SourceFileLoader  # noqa: PLC0415
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415

    name = "amqp10msg._wire"
    path = __file__.replace("_kernel.py", "_wire.py")
    loader = SourceFileLoader(name, path)
    spec = spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"cannot load {path}")
    sys.modules[name] = module_from_spec(spec)
    loader.exec_module(sys.modules[name])


if os.environ.get("AMQP10MSG_PURE") == "1" and "amqp10msg._wire" not in sys.modules:
    _use_source()

from amqp10msg import _wire  # noqa: E402  (chosen above)

#: Whether the compiled kernel runs.
COMPILED: bool = _wire.COMPILED

__all__ = ["COMPILED"]
