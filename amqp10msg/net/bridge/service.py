"""Tells systemd how a bridge is: started, reading its file again, ending, alive (sd_notify).

Datagrams of text to the socket that ``NOTIFY_SOCKET`` names: sd_notify(3), sd_watchdog_enabled(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping


class Service:
    """What runs a process and wants to know how it is; nothing where nobody asked.

    `every` is how many seconds are between two signs of life, half of what the service manager
    waits for one; None where it waits for none.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        path = variables.get("NOTIFY_SOCKET", "")
        # One that begins with @ has no place in the file system.
        self._path = f"\0{path[1:]}" if path.startswith("@") else path
        self.every: float | None = None
        self._is_stopping = False
        waits, meant = variables.get("WATCHDOG_USEC", ""), variables.get("WATCHDOG_PID")
        if path and waits.isdecimal() and int(waits) and meant in {None, str(os.getpid())}:
            self.every = int(waits) / 2_000_000

    def started(self) -> None:
        """Say that it runs, also after it has read its file again, unless it ends."""
        if not self._is_stopping:
            self._tell("READY=1")

    def reloading(self) -> None:
        """Say that it reads its file again, unless it ends."""
        if self._is_stopping:
            return
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1_000}")

    def stopping(self) -> None:
        """Say that it ends, once."""
        if not self._is_stopping:
            self._is_stopping = True
            self._tell("STOPPING=1")

    def alive(self, status: str) -> None:
        """Give a sign of life.

        The status is a line, as ``systemctl status`` shows it.
        """
        self._tell(f"WATCHDOG=1\nSTATUS={' '.join(status.split())}")

    def _tell(self, text: str) -> None:
        if not self._path:
            return
        # Nobody there, or no room: not what a bridge ends for.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(text.encode(), self._path)
