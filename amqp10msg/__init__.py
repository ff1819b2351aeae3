"""AMQP 1.0 messages: exact, strict, fast. Bytes in, typed values out."""

import importlib as _importlib
from importlib.machinery import PathFinder as _PathFinder

TYPE_CHECKING = False  # `typing`, which says so, takes half the time of ``--version``
if TYPE_CHECKING:
    from amqp10msg import (
        app,
        atomic_files,
        basic,
        brokers,
        columns,
        composite,
        delivery,
        files,
        interop,
        jobs,
        message,
        net,
        notation,
        options,
        private_files,
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

    def __getattr__(name: str) -> object:
        """Import the public names when one of them is first used, and so each module or subpackage.

        The command thus says its version, and completes a line, without waiting for the kernel.
        """
        module = f"{__name__}.{name}"
        if name[0].islower() and _PathFinder.find_spec(module, __path__):
            return _importlib.import_module(module)  # which takes none of the public names
        if name == "__all__" or not name.startswith("_"):
            names = _importlib.import_module(f"{__name__}._names")
            globals()["__all__"] = sorted([*names.__all__, "__version__"])
            globals().update((one, getattr(names, one)) for one in names.__all__)
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names of this module, and the modules that can be had from it."""
    import pkgutil  # noqa: PLC0415  (only needed here)

    found = {module.name for module in pkgutil.iter_modules(__path__)}
    public = _importlib.import_module(f"{__name__}._names").__all__
    own = {name for name in globals() if name.startswith("__")}
    return sorted(own.union(public, (name for name in found if name[0] != "_")))
