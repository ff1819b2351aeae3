"""Import the pure Python build of the kernel although the compiled modules are present.

With AMQP10MSG_PURE=1 in the environment, tests, benchmarks and fuzzers import the Python sources.
Python prefers a compiled module to the source in the same folder, so an import finder runs before
Python's own. The package itself has no such switch. Subprocesses with the repository's root on
PYTHONPATH install the finder by its ``sitecustomize.py``.
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
    """Whether AMQP10MSG_PURE selects the Python sources."""
    return os.environ.get(VARIABLE) == "1"


class SourceFinder:
    """Finds a module's Python source before the compiled module in the same folder."""

    @staticmethod
    def find_spec(name: str, path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """Return the spec of the Python source, or None unless AMQP10MSG_PURE is set."""
        if not wanted() or not path or not name.startswith(f"{PACKAGE}."):
            return None
        # os.path, because every process would have to import pathlib.
        file = os.path.join(path[0], name.rpartition(".")[2] + ".py")  # noqa: PTH118
        if not os.path.isfile(file):  # noqa: PTH113
            return None
        return spec_from_file_location(name, file, loader=SourceFileLoader(name, file))


def follow_the_environment() -> None:
    """Make imports of the package depend on AMQP10MSG_PURE, here and in subprocesses."""
    if SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if wanted() and ROOT not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *filter(None, folders)])
