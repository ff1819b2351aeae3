"""SASL (Part 5, 5.3): its frames, and the client's end with ANONYMOUS, PLAIN and EXTERNAL."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from amqp10msg.net.transport.frames import HEAD, HEAD_SIZE, SASL_FRAME, frame_head
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import Array, Described, Symbol, ULong

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
# Far more than a mechanism, a host name and a password need.
_MAX_FRAME = 4096
_LIMITS = Limits(size=_MAX_FRAME, items=64, depth=4)


class SaslCode(IntEnum):
    """The descriptors of SASL's frames."""

    MECHANISMS = 0x40
    INIT = 0x41
    CHALLENGE = 0x42
    RESPONSE = 0x43
    OUTCOME = 0x44


_CODES = {f"amqp:sasl-{code.name.lower()}:list": code for code in SaslCode}


class SaslError(ConnectionError):
    """Why the peer did not let this end in.

    Attributes:
        refused: it does not take these credentials, or this mechanism: they will not do later.
    """

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


def sasl_frame(code: int, *fields: Any) -> bytes:
    """Return a frame of SASL: that of a list with this descriptor and these fields."""
    body = encode_value(Described(ULong(code), list(fields)))
    return frame_head(len(body), SASL_FRAME) + body


class SaslFrames:
    """Cuts what a peer sends into frames of SASL, after the protocol header."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take in bytes of the peer."""
        self._buffer += data

    def header(self) -> bytes | None:
        """Take the protocol header, 8 bytes; None until it is here."""
        if len(self._buffer) < len(SASL_HEADER):
            return None
        return self._take(len(SASL_HEADER))

    def next(self) -> tuple[int | None, list[Any]] | None:
        """Take a frame: its code, None for an unknown one, and its fields; None until it is here.

        Raises:
            SaslError: it is not a frame of SASL.
        """
        if len(self._buffer) < HEAD_SIZE:
            return None
        size, words, kind, _ = HEAD.unpack_from(self._buffer)
        start = 4 * words
        if not HEAD_SIZE <= start <= size <= _MAX_FRAME or kind != SASL_FRAME:
            raise SaslError("the peer sent no SASL frame")
        if len(self._buffer) < size:
            return None
        try:
            value = decode_value(self._take(size)[start:], limits=_LIMITS)
        except DecodeError as error:
            raise SaslError(f"a SASL frame does not decode: {error}") from None
        if not isinstance(value, Described) or not isinstance(value.value, list):
            return None, []
        return _CODES.get(str(value.descriptor), value.descriptor), value.value

    def rest(self) -> bytes:
        """Take what follows SASL, for the layer above."""
        return self._take(len(self._buffer))

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


class SaslClient:
    """Authenticates this end with the first bytes of a connection.

        sasl = SaslClient("PLAIN", user="me", password="secret")
        send(sasl.start())
        while not sasl.done:
            reply, rest = sasl.receive(received())
            send(reply)

    Args:
        mechanism: ``ANONYMOUS``, ``PLAIN`` or ``EXTERNAL``.
        hostname: the name of the peer; None to say none.
        user: for PLAIN.
        password: for PLAIN.

    Attributes:
        done: the peer let this end in, and what follows is AMQP.
    """

    def __init__(
        self, mechanism: str, *, hostname: str | None = None, user: str = "", password: str = ""
    ) -> None:
        self.done = False
        self._mechanism = mechanism
        self._hostname = hostname
        self._response = b""  # EXTERNAL: who the certificate says (RFC 4422, appendix A)
        if mechanism == "PLAIN":
            self._response = f"\0{user}\0{password}".encode()
        self._frames = SaslFrames()
        self._greeted = False
        self._asked = False

    def start(self) -> bytes:
        """Return what a connection begins with."""
        return SASL_HEADER

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """Process bytes of the peer.

        Returns:
            The bytes to send, and those that follow SASL, for the layer above.

        Raises:
            SaslError: the peer does not let this end in, or speaks something else.
        """
        frames = self._frames
        frames.feed(data)
        if not self._greeted:
            header = frames.header()
            if header is None:
                return b"", b""
            if header != SASL_HEADER:
                raise SaslError(f"the peer begins with {header!r}, not with SASL")
            self._greeted = True
        reply = b""
        while not self.done and (found := frames.next()) is not None:
            reply += self._answer(*found)
        return reply, frames.rest() if self.done else b""

    def _answer(self, code: int | None, fields: list[Any]) -> bytes:
        first = fields[0] if fields else None
        if code == SaslCode.MECHANISMS and not self._asked:
            offered = [str(one) for one in (first if isinstance(first, Array) else [first])]
            if self._mechanism not in offered:
                shown = ", ".join(offered)[:200]
                raise SaslError(
                    f"the peer offers {shown}, not {self._mechanism}: choose by auth_mechanism=, "
                    "or with a user and password",
                    refused=True,
                )
            self._asked = True
            hostname = self._hostname
            return sasl_frame(SaslCode.INIT, Symbol(self._mechanism), self._response, hostname)
        if code == SaslCode.CHALLENGE and self._asked:
            return sasl_frame(SaslCode.RESPONSE, b"")  # PLAIN and the others have said all
        if code == SaslCode.OUTCOME and self._asked:
            if first != 0:
                # 1 is wrong credentials; 4 a failure that may pass (Part 5, 5.3.3.6).
                refused = first in {1, 3}
                why = "wrong user or password" if first == 1 else f"the peer says {first!r:.20}"
                raise SaslError(f"amqp:unauthorized-access: {why}", refused=refused)
            self.done = True
            return b""
        raise SaslError("the peer sent an unexpected SASL frame")
