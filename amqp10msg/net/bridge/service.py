"""Notifies systemd of the state of a bridge: started, reloading, stopping or alive.

Sends text datagrams to the socket in ``NOTIFY_SOCKET``: see sd_notify(3), sd_watchdog_enabled(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping

#: Maximum seconds to wait for room in the socket to notify systemd of a change of state. It is sent
#: only once, and if READY=1 is lost, systemd kills the bridge because it seems not to have started.
_STATE_TIMEOUT = 5.0


class Service:
    """Notifies the service manager. All methods are no-ops without ``NOTIFY_SOCKET``.

    Attributes:
        every: seconds between two calls of `alive`, namely half of the watchdog's timeout; None if
            the service manager has no watchdog for this process.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        path = variables.get("NOTIFY_SOCKET", "")
        # systemd writes the name of an abstract socket with @ instead of the zero byte.
        self._path = f"\0{path[1:]}" if path.startswith("@") else path
        self.every: float | None = None
        self._is_stopping = False
        timeout, pid = variables.get("WATCHDOG_USEC", ""), variables.get("WATCHDOG_PID")
        if path and timeout.isdecimal() and int(timeout) and pid in {None, str(os.getpid())}:
            self.every = int(timeout) / 2_000_000  # half of the timeout; µs to s

    def started(self) -> None:
        """Report that the bridge runs, or has reloaded its routes; a no-op after `stopping`."""
        if not self._is_stopping:
            self._notify("READY=1", _STATE_TIMEOUT)

    def reloading(self) -> None:
        """Report that the bridge is reloading its routes; a no-op after `stopping`."""
        if self._is_stopping:
            return
        state = f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1_000}"
        self._notify(state, _STATE_TIMEOUT)

    def stopping(self) -> None:
        """Report that the bridge is stopping; a no-op after the first call."""
        if not self._is_stopping:
            self._is_stopping = True
            self._notify("STOPPING=1", _STATE_TIMEOUT)

    def alive(self, status: str) -> None:
        """Reset the watchdog, and set the status line that ``systemctl status`` shows."""
        # If the socket is full, skip this report: the next call resets the watchdog.
        self._notify(f"WATCHDOG=1\nSTATUS={' '.join(status.split())}", 0)

    def _notify(self, text: str, timeout: float) -> None:
        """Send a datagram. Wait up to `timeout` seconds if the socket is full."""
        if not self._path:
            return
        # An unreachable service manager must not end the bridge.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.settimeout(timeout)
            to.sendto(text.encode(), self._path)
