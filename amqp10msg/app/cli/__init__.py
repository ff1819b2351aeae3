"""The command ``amqp10msg``: look at, build, judge and convert messages.

It needs the extra ``cli``. Without it, importing this still works, and `main` says what is missing.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["main"]

NEEDED = {"click"}


def without(missing: str) -> Any:
    """Make a `main` that says in one line what to install."""

    def main(*_: Any, **__: Any) -> int:
        sys.stderr.write(
            f"amqp10msg: the command line needs the package {missing}: "
            "pip install 'amqp10msg[cli]'\n"
        )
        return 1

    return main


try:
    from amqp10msg.app.cli._app import main
except ModuleNotFoundError as error:
    name = (error.name or "").partition(".")[0]
    if name not in NEEDED:
        raise
    main = without(name)
