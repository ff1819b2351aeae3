"""AMQP 1.0 messages: exact, strict, fast. Bytes in, typed values out, no sockets."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqp10msg import (
        app,
        basic,
        columns,
        composite,
        delivery,
        files,
        interop,
        jobs,
        message,
        net,
        notation,
        sections,
        spark,
        testing,
        translate,
        validation,
        wire,
    )
    from amqp10msg._names import *

__version__ = "0.1.0"


if not TYPE_CHECKING:  # so that type checkers find names that are not there

    def __getattr__(name: str) -> Any:
        """Import the public names when one of them is first used, and so each module or subpackage.

        The command thus says its version, and completes a line, without waiting for the kernel.
        """
        if name == "__all__" or not name.startswith("_"):
            names = importlib.import_module(f"{__name__}._names")
            globals()["__all__"] = sorted([*names.__all__, "__version__"])
            globals().update((one, getattr(names, one)) for one in names.__all__)
            if name in globals():
                return globals()[name]
            try:
                return importlib.import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise  # it is there, and an extra that it needs is not
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of this module and of the modules that can be had from it."""
    import pkgutil  # noqa: PLC0415  (only needed here)

    found = {module.name for module in pkgutil.iter_modules(__path__)}
    return sorted(
        {*globals(), *sys.modules[__name__].__all__, *(name for name in found if name[0] != "_")}
    )
