"""The command ``amqp10msg``: look at, build, judge and convert messages.

It needs the extra ``cli``. Without it, importing this still works, and `main` says what is missing.
"""

from __future__ import annotations

from amqp10msg.app.cli._missing import without

__all__ = ["main"]

NEEDED = {"click"}


try:
    from amqp10msg.app.cli._app import main
except ModuleNotFoundError as error:
    name = (error.name or "").partition(".")[0]
    if name not in NEEDED:
        raise
    main = without(name)
