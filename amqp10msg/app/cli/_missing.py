"""The command line of an installation that lacks a package of the extra ``cli``."""

from __future__ import annotations

import sys
from typing import Any


def main_without(missing: str) -> Any:
    """Return a `main` that prints how to install the package `missing`, and returns 1."""

    def main(*_: Any, **__: Any) -> int:
        sys.stderr.write(
            f"amqp10msg: the command line needs the package {missing}: "
            "pip install 'amqp10msg[cli]'\n"
        )
        return 1

    return main
