"""A replacement for commands whose packages are not installed."""

from __future__ import annotations

import sys
from typing import Any


def without(missing: str) -> Any:
    """Return a `main` that prints which package to install and returns 1."""

    def main(*_: Any, **__: Any) -> int:
        sys.stderr.write(
            f"amqp10msg: the command line needs the package {missing}: "
            "pip install 'amqp10msg[cli]'\n"
        )
        return 1

    return main
