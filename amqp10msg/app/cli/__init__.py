"""The command ``amqp10msg``: inspect, build, validate and convert messages.

Requires the extra ``cli``. This module can be imported without it; `main` then prints the missing
package and returns 1.
"""

from __future__ import annotations

from amqp10msg.app.cli._missing import main_without

__all__ = ["main"]

#: Top-level packages that the extra ``cli`` installs and this command imports first.
NEEDED = {"click"}


try:
    from amqp10msg.app.cli._app import main
except ModuleNotFoundError as error:
    name = (error.name or "").partition(".")[0]
    if name not in NEEDED:
        raise
    main = main_without(name)
