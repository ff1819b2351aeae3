"""Keeping passwords out of the list of processes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from amqp10msg.app.cli._output import complain

if TYPE_CHECKING:
    from amqp10msg.net.bridge import Endpoint


def hide_credentials(command: str, ends: Iterable[Endpoint]) -> None:
    """Take passwords out of the list of processes, and say where they go in the clear.

    Args:
        command: the name of the command.
        ends: what its URLs say.
    """
    ends = list(ends)
    for end in ends:
        if end.is_exposed:
            complain(f"{end}: the password goes there in the clear: amqps and amqp091s are by TLS")
    given = [unquote(argument, errors="surrogateescape") for argument in sys.argv]
    if any(end.password and end.password in argument for end in ends for argument in given):
        with contextlib.suppress(ModuleNotFoundError):
            import setproctitle

            setproctitle.setproctitle(" ".join(["amqp10msg", command, *map(str, ends)]))
            return
        complain(
            "a password on the command line is seen by all users of this machine: write ${NAME}, "
            "a variable of the environment, or install 'amqp10msg[bridge]'"
        )
