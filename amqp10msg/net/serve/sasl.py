"""The server's end of SASL (Part 5, 5.3) with ANONYMOUS and PLAIN. No sockets here.

Proton's own server end supports PLAIN only if it was built with Cyrus SASL, which the package on
PyPI is not.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from amqp10msg import Array, DecodeError, Described, Limits, Symbol, UByte, ULong
from amqp10msg._core import decode_value, encode_value

__all__ = ["AMQP_HEADER", "SaslServer"]

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
_MECHANISMS, _INIT, _CHALLENGE, _RESPONSE, _OUTCOME = range(0x40, 0x45)
_SYMBOLS = {"amqp:sasl-init:list": _INIT, "amqp:sasl-response:list": _RESPONSE}
_OK, _AUTH = 0, 1
# Far more than a mechanism, a host name and a password need.
_MAX_FRAME = 4096
_LIMITS = Limits(size=_MAX_FRAME, items=64, depth=4)


def _frame(code: int, *fields: Any) -> bytes:
    body = encode_value(Described(ULong(code), list(fields)))
    return (len(body) + 8).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


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
        self._buffer = bytearray()
        self._started = False

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
        self._buffer += data
        reply = b""
        if not self._started:
            if len(self._buffer) < 8:
                return b"", b""
            header = bytes(self._buffer[:8])
            if header == AMQP_HEADER and self.anonymous:
                self.done = True
                return b"", self._rest()
            if header != SASL_HEADER:
                # Part 2, 2.2: answer with the protocol that is expected, and close.
                self.failed = f"the peer begins with {header!r}"
                return SASL_HEADER, b""
            del self._buffer[:8]
            self._started = True
            reply = SASL_HEADER + _frame(_MECHANISMS, Array("symbol", self.mechanisms))
        while not self.done and not self.failed and len(self._buffer) >= 8:
            size = int.from_bytes(self._buffer[:4], "big")
            start = 4 * self._buffer[4]
            if not 8 <= start <= size <= _MAX_FRAME or self._buffer[5] != 1:
                self.failed = "the peer sent no SASL frame"
                break
            if len(self._buffer) < size:
                break
            body = bytes(self._buffer[start:size])
            del self._buffer[:size]
            reply += self._answer(body)
        return reply, self._rest() if self.done else b""

    def _rest(self) -> bytes:
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def _answer(self, body: bytes) -> bytes:
        try:
            value = decode_value(body, limits=_LIMITS)
        except DecodeError as error:
            self.failed = f"a SASL frame does not decode: {error}"
            return b""
        code = None
        if isinstance(value, Described) and isinstance(value.value, list):
            code = _SYMBOLS.get(str(value.descriptor), value.descriptor)
        if code == _INIT:
            mechanism, response = (*value.value, None, None)[:2]
            if mechanism == "PLAIN" and self.users and response is None:
                return _frame(_CHALLENGE, b"")
            if mechanism == "ANONYMOUS" and self.anonymous:
                return self._outcome(_OK)
            return self._outcome(self._check(response) if mechanism == "PLAIN" else _AUTH)
        if code == _RESPONSE and self.users:
            return self._outcome(self._check((*value.value, None)[0]))
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
        return _frame(_OUTCOME, UByte(code))
