"""SASL (Part 5, 5.3): frames, client and server.

The client supports ANONYMOUS, PLAIN and EXTERNAL. The server also supports SCRAM-SHA-256, which the
caller implements as an `Exchange`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Protocol

from amqp10msg.net.transport.frames import AMQP_HEADER, HEAD, HEAD_SIZE, HEAD_WORDS, SASL_FRAME
from amqp10msg.net.transport.greetings import explain_protocol
from amqp10msg.wire.errors import UNAUTHORIZED_ACCESS, DecodeError
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import Array, Described, Symbol, UByte, ULong

#: The protocol header of SASL (Part 5, 5.3.1).
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
#: Maximum size of a SASL frame in bytes; a mechanism, a host name and a password need far less.
_MAX_FRAME_SIZE = 4096
_LIMITS = Limits(size=_MAX_FRAME_SIZE, items=64, depth=4)
#: What to do if a peer speaks another protocol.
_OTHER_PROTOCOL_ADVICE = {
    "AMQP 0-9-1": "use amqp091://, or enable AMQP 1.0 at the peer",
    "AMQP 1.0": "enable SASL at the peer",
    "HTTP": "use the port of AMQP, 5672 by default",
    "TLS": "use amqps://",
}


class SaslCode(IntEnum):
    """Descriptor codes of the SASL frames."""

    MECHANISMS = 0x40
    INIT = 0x41
    CHALLENGE = 0x42
    RESPONSE = 0x43
    OUTCOME = 0x44


#: Codes of a SASL outcome, for success and for wrong credentials (Part 5, 5.3.3.6).
_OK, _AUTH = 0, 1
#: Descriptor codes by symbolic descriptor.
_CODES = {f"amqp:sasl-{code.name.lower()}:list": code for code in SaslCode}


class SaslError(ConnectionError):
    """The authentication failed.

    Attributes:
        refused: whether a retry cannot succeed, because the peer refused the credentials or the
            mechanism, or speaks another protocol.
    """

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


def sasl_frame(code: int, *fields: Any) -> bytes:
    """Return the SASL frame with this descriptor code and these fields."""
    body = encode_value(Described(ULong(code), list(fields)))
    return HEAD.pack(HEAD_SIZE + len(body), HEAD_WORDS, SASL_FRAME, 0) + body


class SaslFrames:
    """Splits received bytes into the protocol header and SASL frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        self._buffer += data

    def header(self) -> bytes | None:
        """Remove and return the protocol header of 8 bytes; None until it is complete."""
        if len(self._buffer) < len(SASL_HEADER):
            return None
        return self._take(len(SASL_HEADER))

    def unread(self, header: bytes) -> None:
        """Put the protocol header back before the received bytes."""
        self._buffer[:0] = header

    def next(self) -> tuple[int | None, list[Any]] | None:
        """Remove the next frame, and return its descriptor code and fields; None if incomplete.

        The code is None if the frame is not a described list.

        Raises:
            SaslError: the frame is malformed.
        """
        if len(self._buffer) < HEAD_SIZE:
            return None
        size, words, kind, _ = HEAD.unpack_from(self._buffer)
        start = 4 * words
        if not HEAD_SIZE <= start <= size <= _MAX_FRAME_SIZE or kind != SASL_FRAME:
            raise SaslError("the peer sent a frame that is not a SASL frame")
        if len(self._buffer) < size:
            return None
        try:
            value = decode_value(self._take(size)[start:], limits=_LIMITS)
        except DecodeError as error:
            raise SaslError(f"the peer sent a malformed SASL frame: {error}") from None
        if not isinstance(value, Described) or not isinstance(value.value, list):
            return None, []
        return _CODES.get(str(value.descriptor), value.descriptor), value.value

    def rest(self) -> bytes:
        """Remove and return the bytes after SASL."""
        return self._take(len(self._buffer))

    def _take(self, size: int) -> bytes:
        """Remove and return the first bytes of the buffer."""
        octets = bytes(self._buffer[:size])
        del self._buffer[:size]
        return octets


class SaslEnd:
    """Base class of `SaslClient` and `SaslServer`.

    Attributes:
        done: whether SASL has succeeded, so that the following bytes are AMQP.
        failed: at the server, the reason to close the connection after its reply; empty if there is
            none.
        user: at the server, the name of the authenticated user.
    """

    def __init__(self) -> None:
        self.done = False
        self.failed = ""
        self.user: str | None = None
        self._frames = SaslFrames()
        self._header_received = False

    def start(self) -> bytes:
        """Return the first bytes to send; empty for a server."""
        return b""

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """Process received bytes; return the bytes to send, and the received bytes after SASL.

        Raises:
            SaslError: only at a client: the peer refused the authentication, or violated the
                protocol.
        """
        frames = self._frames
        frames.feed(data)
        reply = b""
        if not self._header_received:
            header = frames.header()
            if header is None:
                return b"", b""
            self._header_received = True
            reply = self._answer_header(header)
        try:
            while not self.done and not self.failed and (frame := frames.next()) is not None:
                reply += self._answer(*frame)
        except SaslError as error:
            self._fail(error)
        return reply, frames.rest() if self.done else b""

    def _answer_header(self, header: bytes) -> bytes:
        """Check the peer's protocol header, and return the bytes to send."""
        raise NotImplementedError

    def _answer(self, code: int | None, fields: list[Any]) -> bytes:
        """Process a frame, and return the bytes to send."""
        raise NotImplementedError

    def _fail(self, error: SaslError) -> None:
        """Handle a malformed frame: a client raises the error, a server stores it in `failed`."""
        raise error


class SaslClient(SaslEnd):
    """Authenticates a client at the start of a connection.

        sasl = SaslClient("PLAIN", user="me", password="secret")
        send(sasl.start())
        while not sasl.done:
            reply, rest = sasl.receive(received())
            send(reply)

    Args:
        mechanism: ``ANONYMOUS``, ``PLAIN`` or ``EXTERNAL``.
        hostname: the host name of the server, for the init frame; None to omit it.
        user: the user name, for PLAIN.
        password: the password, for PLAIN.
    """

    def __init__(
        self, mechanism: str, *, hostname: str | None = None, user: str = "", password: str = ""
    ) -> None:
        super().__init__()
        self._mechanism = mechanism
        self._hostname = hostname
        # Empty for EXTERNAL, since the certificate names the user (RFC 4422, appendix A).
        self._response = b""
        if mechanism == "PLAIN":
            self._response = f"\0{user}\0{password}".encode()
        self._sent_init = False

    def start(self) -> bytes:
        """Return the protocol header of SASL."""
        return SASL_HEADER

    def _answer_header(self, header: bytes) -> bytes:
        if header != SASL_HEADER:
            hint = explain_protocol(header, _OTHER_PROTOCOL_ADVICE)
            raise SaslError(
                f"the peer does not speak AMQP 1.0 with SASL: its first bytes are {header!r}{hint}",
                refused=bool(hint),
            )
        return b""

    def _answer(self, code: int | None, fields: list[Any]) -> bytes:
        first = fields[0] if fields else None
        if code == SaslCode.MECHANISMS and not self._sent_init:
            offered = list(map(str, first if isinstance(first, Array) else [first]))
            if self._mechanism not in offered:
                offered_names = ", ".join(offered)[:200]
                raise SaslError(
                    f"the peer offers {offered_names}, not {self._mechanism}: choose with "
                    "auth_mechanism=, or with a user and password",
                    refused=True,
                )
            self._sent_init = True
            hostname = self._hostname
            return sasl_frame(SaslCode.INIT, Symbol(self._mechanism), self._response, hostname)
        if code == SaslCode.CHALLENGE and self._sent_init:
            return sasl_frame(SaslCode.RESPONSE, b"")  # the init frame had the whole response
        if code == SaslCode.OUTCOME and self._sent_init:
            if not isinstance(first, UByte):
                raise SaslError(f"the code of the SASL outcome must be a ubyte, got {first!r:.80}")
            if first != _OK:
                # Codes 1 and 3 are permanent failures, 4 a temporary one (Part 5, 5.3.3.6).
                refused = first in {_AUTH, 3}
                reason = (
                    "wrong user or password" if first == _AUTH else f"SASL outcome {first!r:.20}"
                )
                raise SaslError(f"{UNAUTHORIZED_ACCESS}: {reason}", refused=refused)
            self.done = True
            return b""
        raise SaslError("the peer sent an unexpected SASL frame")


class Exchange(Protocol):
    """The server side of a SASL mechanism that exchanges several messages."""

    @property
    def user(self) -> str | None:
        """The name of the authenticated user; None until `done` is True."""

    @property
    def done(self) -> bool:
        """Whether the authentication has succeeded."""

    def step(self, response: bytes) -> bytes:
        """Return the server's message in response to a message of the peer.

        Raises:
            SaslError: the authentication failed.
        """


class SaslServer(SaslEnd):
    """Authenticates a client at the start of its connection.

    Args:
        anonymous: whether to accept the mechanism ANONYMOUS, and connections without SASL.
        users: passwords by user name, for PLAIN.
        scram: returns a new `Exchange` for SCRAM-SHA-256; None to not offer this mechanism.

    Attributes:
        certificate: the name in the client's verified TLS certificate, which is the user name for
            EXTERNAL; None without a certificate. Must be set before bytes are received.
    """

    def __init__(
        self,
        *,
        anonymous: bool,
        users: Mapping[str, str],
        scram: Callable[[], Exchange] | None = None,
    ) -> None:
        super().__init__()
        self.anonymous = anonymous
        self.users = users
        self.certificate: str | None = None
        self._scram = scram
        self._mechanism = ""  # chosen by the peer; empty for ANONYMOUS
        self._exchange: Exchange | None = None

    @property
    def mechanisms(self) -> list[Symbol]:
        """The offered mechanisms; the strongest mechanism is first."""
        offered = {
            "EXTERNAL": self.certificate is not None,
            "SCRAM-SHA-256": self.users and self._scram is not None,
            "PLAIN": self.users,
            "ANONYMOUS": self.anonymous,
        }
        return [Symbol(name) for name, is_offered in offered.items() if is_offered]

    def _answer_header(self, header: bytes) -> bytes:
        if header == AMQP_HEADER and self.anonymous:
            self.done = True
            self._frames.unread(header)
            return b""
        if header != SASL_HEADER:
            # Answer with the supported protocol header, and close (Part 2, 2.2).
            self.failed = f"unsupported protocol header {header!r}"
            return SASL_HEADER
        return SASL_HEADER + sasl_frame(SaslCode.MECHANISMS, Array("symbol", self.mechanisms))

    def _fail(self, error: SaslError) -> None:
        self.failed = str(error)

    def _answer(self, code: int | None, fields: list[Any]) -> bytes:
        if code == SaslCode.INIT:
            mechanism, response = (*fields, None, None)[:2]
            if self._mechanism:
                self.failed = "the peer chose a mechanism twice"
                return b""
            if mechanism not in self.mechanisms:
                return self._outcome(_AUTH)
            if mechanism == "ANONYMOUS":
                return self._outcome(_OK)
            self._mechanism = str(mechanism)
            if response is None:
                return sasl_frame(SaslCode.CHALLENGE, b"")
            return self._answer_response(response)
        if code == SaslCode.RESPONSE and self._mechanism:
            return self._answer_response((*fields, None)[0])
        self.failed = "the peer sent an unexpected SASL frame"
        return b""

    def _answer_response(self, response: Any) -> bytes:
        """Check the client's response for the chosen mechanism, and return the frame to send."""
        if not isinstance(response, bytes):
            return self._outcome(_AUTH)
        if self._mechanism == "PLAIN":
            return self._outcome(self._check_plain(response))
        if self._mechanism == "EXTERNAL":
            # The response is empty, or names the user to act as (RFC 4422, appendix A).
            name = self.certificate or ""
            if response not in {b"", name.encode()}:
                return self._outcome(_AUTH)
            self.user = name
            return self._outcome(_OK)
        return self._step_exchange(response)

    def _step_exchange(self, response: bytes) -> bytes:
        """Pass a response to the `Exchange`, and return the frame to send."""
        if self._exchange is None and self._scram is not None:
            self._exchange = self._scram()
        exchange = self._exchange
        if exchange is None:
            return self._outcome(_AUTH)
        try:
            message = exchange.step(response)
        except SaslError:
            return self._outcome(_AUTH)
        if not exchange.done:
            return sasl_frame(SaslCode.CHALLENGE, message)
        self.user = exchange.user
        return self._outcome(_OK, message)

    def _check_plain(self, response: bytes) -> int:
        """Return the outcome code for a PLAIN response: authzid, name, password (RFC 4616)."""
        parts = response.split(b"\0")
        if len(parts) != 3:
            return _AUTH
        name = parts[1].decode("utf-8", "replace")
        password = self.users.get(name)
        # Compare for unknown names, too, so that the time does not reveal which names exist.
        is_equal = hmac.compare_digest((password or "").encode(), parts[2])
        if password is None or not is_equal or parts[0] not in {b"", parts[1]}:
            return _AUTH
        self.user = name
        return _OK

    def _outcome(self, code: int, *data: bytes) -> bytes:
        """End SASL with this outcome code; return the outcome frame (Part 5, 5.3.3.6).

        `data` is the additional-data of a successful SCRAM exchange.
        """
        if code == _OK:
            self.done = True
        else:
            self.failed = "not authenticated"
        return sasl_frame(SaslCode.OUTCOME, UByte(code), *data)
