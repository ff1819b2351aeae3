"""Which build of the kernel is imported: the compiled modules, or their sources beside them.

With AMQP10MSG_PURE=1 in the environment tests, benchmarks and fuzzing import the sources. Python
prefers a library to the source beside it, so that takes a finder in front of its own; the library
itself has none. Subprocesses with the root of the repository on PYTHONPATH do likewise, by
``sitecustomize.py`` there.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from typing import Any

PACKAGE = "amqp10msg"
VARIABLE = "AMQP10MSG_PURE"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120


def wanted() -> bool:
    """Whether the environment asks for the sources."""
    return os.environ.get(VARIABLE) == "1"


class SourceFinder:
    """Finds the source of a module of the package before a library beside it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """Return the spec of the source while the environment asks for sources."""
        if not wanted() or not path or not name.startswith(f"{PACKAGE}."):
            return None
        # pathlib would cost every process its import.
        file = os.path.join(path[0], name.rpartition(".")[2] + ".py")  # noqa: PTH118
        if not os.path.isfile(file):  # noqa: PTH113
            return None
        return spec_from_file_location(name, file, loader=SourceFileLoader(name, file))


def follow_the_environment() -> None:
    """Make imports of the package follow the environment, here and in subprocesses."""
    if SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if wanted() and ROOT not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *filter(None, folders)])
