"""The server's end of SASL (Part 5, 5.3) with ANONYMOUS and PLAIN. No sockets here.

Proton's own server end supports PLAIN only if it was built with Cyrus SASL, which the package on
PyPI is not.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from amqp10msg import Array, Symbol, UByte
from amqp10msg.net.transport import AMQP_HEADER, SASL_HEADER, SaslError, SaslFrames, sasl_frame
from amqp10msg.net.transport import SaslCode as Code

_OK, _AUTH = 0, 1


# Seconds: the first wait after a refusal, which doubles with each, the longest, and after how long
# without one all is forgotten.
_FIRST_WAIT, _LONGEST_WAIT, _FORGOTTEN = 0.05, 2.0, 60.0
_MOST_HOSTS = 10_000


class Guesses:
    """Slows down who guesses passwords: connections of a host that was refused wait their turn.

    Right and wrong passwords wait alike, one connection after the other: more of them at once guess
    no faster.
    """

    def __init__(self) -> None:
        # By host: how often it was refused, when last, and until when its turns are taken.
        self._hosts: dict[str, tuple[int, float, float]] = {}

    def refused(self, host: str, now: float) -> None:
        """Note that a host gave a wrong password.

        Args:
            host: its address.
            now: seconds of a clock that does not go back.
        """
        times, _, until = self._hosts.pop(host, (0, now, now))
        self._hosts[host] = (times + 1, now, until)
        if len(self._hosts) > _MOST_HOSTS:
            del self._hosts[next(iter(self._hosts))]

    def wait(self, host: str, now: float) -> float:
        """Take the next turn of a host; return in how many seconds it comes."""
        times, last, until = self._hosts.get(host, (0, now, now))
        if not times:
            return 0.0
        if now - last > _FORGOTTEN:
            del self._hosts[host]
            return 0.0
        turn = max(now, until) + min(_FIRST_WAIT * 2.0 ** min(times - 1, 10), _LONGEST_WAIT)
        self._hosts[host] = (times, last, turn)
        return turn - now


class SaslServer:
    """Authenticates a peer by the first bytes of its connection.

    Args:
        anonymous: accept connections without a name, also without SASL.
        users: passwords by name, for PLAIN.

    Attributes:
        done: the peer is authenticated, and what follows is AMQP.
        failed: why the connection must be closed after the reply; empty if it need not be.
        user: the name, or None.
    """

    def __init__(self, *, anonymous: bool, users: Mapping[str, str]) -> None:
        self.anonymous = anonymous
        self.users = users
        self.done = False
        self.failed = ""
        self.user: str | None = None
        self._frames = SaslFrames()
        self._started = False
        self._challenged = False  # what comes next is the response of PLAIN

    @property
    def mechanisms(self) -> list[Symbol]:
        """The mechanisms on offer, the strongest first."""
        offered = ["PLAIN"] if self.users else []
        return [Symbol(name) for name in [*offered, *(["ANONYMOUS"] if self.anonymous else [])]]

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """Process bytes of the peer.

        Returns:
            The bytes to send, and those that follow SASL, for the layer above.
        """
        frames = self._frames
        frames.feed(data)
        reply = b""
        if not self._started:
            header = frames.header()
            if header is None:
                return b"", b""
            if header == AMQP_HEADER and self.anonymous:
                self.done = True
                return b"", header + frames.rest()
            if header != SASL_HEADER:
                # Part 2, 2.2: answer with the protocol that is expected, and close.
                self.failed = f"the peer begins with {header!r}"
                return SASL_HEADER, b""
            self._started = True
            offered = sasl_frame(Code.MECHANISMS, Array("symbol", self.mechanisms))
            reply = SASL_HEADER + offered
        try:
            while not self.done and not self.failed and (found := frames.next()) is not None:
                reply += self._answer(*found)
        except SaslError as error:
            self.failed = str(error)
        return reply, frames.rest() if self.done else b""

    def _answer(self, code: int | None, fields: list[Any]) -> bytes:
        if code == Code.INIT:
            mechanism, response = (*fields, None, None)[:2]
            if self._challenged:
                self.failed = "the peer chose a mechanism twice"
                return b""
            if mechanism == "PLAIN" and self.users and response is None:
                self._challenged = True
                return sasl_frame(Code.CHALLENGE, b"")
            if mechanism == "ANONYMOUS" and self.anonymous:
                return self._outcome(_OK)
            return self._outcome(self._check(response) if mechanism == "PLAIN" else _AUTH)
        if code == Code.RESPONSE and self._challenged:
            return self._outcome(self._check((*fields, None)[0]))
        self.failed = "the peer sent an unexpected SASL frame"
        return b""

    def _check(self, response: Any) -> int:
        """Check a PLAIN response (RFC 4616): authorization identity, name, password."""
        parts = response.split(b"\0") if isinstance(response, bytes) else []
        if len(parts) != 3:
            return _AUTH
        name = parts[1].decode("utf-8", "replace")
        known = self.users.get(name)
        # Unknown names are compared too, so that the time does not reveal them.
        right = hmac.compare_digest((known or "").encode(), parts[2])
        if known is None or not right or parts[0] not in {b"", parts[1]}:
            return _AUTH
        self.user = name
        return _OK

    def _outcome(self, code: int) -> bytes:
        if code == _OK:
            self.done = True
        else:
            self.failed = "not authenticated"
        return sasl_frame(Code.OUTCOME, UByte(code))
