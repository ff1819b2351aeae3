"""SASL (Part 5, 5.3): its frames, and both ends of it.

The client's end has ANONYMOUS, PLAIN and EXTERNAL, the server's end also SCRAM-SHA-256, whose
messages another module makes.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Protocol

from amqp10msg.net.transport.frames import AMQP_HEADER, HEAD, HEAD_SIZE, HEAD_WORDS, SASL_FRAME
from amqp10msg.wire.errors import UNAUTHORIZED_ACCESS, DecodeError
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import Array, Described, Symbol, UByte, ULong

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


#: Codes of an outcome.
_OK, _AUTH = 0, 1
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
    """Encode a frame of SASL: that of a list with this descriptor and these fields."""
    body = encode_value(Described(ULong(code), list(fields)))
    return HEAD.pack(HEAD_SIZE + len(body), HEAD_WORDS, SASL_FRAME, 0) + body


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

    def put_back(self, header: bytes) -> None:
        """Undo `header`."""
        self._buffer[:0] = header

    def next(self) -> tuple[int | None, list[Any]] | None:
        """Take a frame: code (None for an unknown one) and fields; None until it is here."""
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


class SaslEnd:
    """One end of SASL: what both have in common.

    What follows is AMQP once it is `done`; `failed` says why the connection must be closed after
    the reply.
    """

    def __init__(self) -> None:
        self.done = False
        self.failed = ""
        self.user: str | None = None
        self._frames = SaslFrames()
        self._greeted = False

    def start(self) -> bytes:
        """What a connection begins with: nothing at a server."""
        return b""

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """Process bytes of the peer.

        Return the bytes to send, and those that follow SASL, for the layer above. To a client, a
        `SaslError` says that the peer does not let it in, or speaks something else.
        """
        frames = self._frames
        frames.feed(data)
        reply = b""
        if not self._greeted:
            header = frames.header()
            if header is None:
                return b"", b""
            self._greeted = True
            reply = self._greet(header)
        try:
            while not self.done and not self.failed and (found := frames.next()) is not None:
                reply += self._answer(*found)
        except SaslError as error:
            self._fail(error)
        return reply, frames.rest() if self.done else b""

    def _greet(self, header: bytes) -> bytes:
        """Check the peer's protocol header, and answer it."""
        raise NotImplementedError

    def _answer(self, code: int | None, fields: list[Any]) -> bytes:
        """Answer a frame."""
        raise NotImplementedError

    def _fail(self, error: SaslError) -> None:
        """End where the peer broke a rule."""
        raise error


class SaslClient(SaslEnd):
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
    """

    def __init__(
        self, mechanism: str, *, hostname: str | None = None, user: str = "", password: str = ""
    ) -> None:
        super().__init__()
        self._mechanism = mechanism
        self._hostname = hostname
        self._response = b""  # EXTERNAL: who the certificate says (RFC 4422, appendix A)
        if mechanism == "PLAIN":
            self._response = f"\0{user}\0{password}".encode()
        self._asked = False

    def start(self) -> bytes:
        """The protocol header, with which a connection begins."""
        return SASL_HEADER

    def _greet(self, header: bytes) -> bytes:
        if header != SASL_HEADER:
            # Records of TLS begin so.
            hint = ": this is TLS, amqps:// speaks it" if header.startswith(b"\x15\3") else ""
            raise SaslError(
                f"the peer does not speak AMQP 1.0 with SASL, it begins with {header!r}{hint}"
            )
        return b""

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
            if not isinstance(first, UByte):
                raise SaslError(f"the code of the SASL outcome must be a ubyte, not {first!r:.80}")
            if first != _OK:
                # 1 is wrong credentials; 4 a failure that may pass (Part 5, 5.3.3.6).
                refused = first in {_AUTH, 3}
                why = "wrong user or password" if first == _AUTH else f"the peer says {first!r:.20}"
                raise SaslError(f"{UNAUTHORIZED_ACCESS}: {why}", refused=refused)
            self.done = True
            return b""
        raise SaslError("the peer sent an unexpected SASL frame")


class Exchange(Protocol):
    """A mechanism of several messages, at the server's end."""

    @property
    def user(self) -> str | None:
        """The name of the peer, once it is `done`."""

    @property
    def done(self) -> bool:
        """Whether the peer has proved who it is."""

    def step(self, response: bytes) -> bytes:
        """Take a message of the peer, and return the next one of the server."""


class SaslServer(SaslEnd):
    """Authenticates a peer by the first bytes of its connection.

    Args:
        anonymous: accept connections without a name, also without SASL.
        users: passwords by name, for PLAIN.
        scram: begins an exchange of SCRAM-SHA-256; None to leave it out.

    Attributes:
        certificate: the name in the certificate that the peer has proved to own by TLS, which is
            then its name by EXTERNAL; None if there is none. Set it before the peer says anything.
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
        self._chosen = ""  # the mechanism, while the peer has not said all that it needs
        self._exchange: Exchange | None = None

    @property
    def mechanisms(self) -> list[Symbol]:
        """The mechanisms on offer, the strongest first."""
        offered = {
            "EXTERNAL": self.certificate is not None,
            "SCRAM-SHA-256": self.users and self._scram is not None,
            "PLAIN": self.users,
            "ANONYMOUS": self.anonymous,
        }
        return [Symbol(name) for name, is_offered in offered.items() if is_offered]

    def _greet(self, header: bytes) -> bytes:
        if header == AMQP_HEADER and self.anonymous:
            self.done = True
            self._frames.put_back(header)
            return b""
        if header != SASL_HEADER:
            # Part 2, 2.2: answer with the protocol that is expected, and close.
            self.failed = f"the peer begins with {header!r}"
            return SASL_HEADER
        return SASL_HEADER + sasl_frame(SaslCode.MECHANISMS, Array("symbol", self.mechanisms))

    def _fail(self, error: SaslError) -> None:
        self.failed = str(error)

    def _answer(self, code: int | None, fields: list[Any]) -> bytes:
        if code == SaslCode.INIT:
            mechanism, response = (*fields, None, None)[:2]
            if self._chosen:
                self.failed = "the peer chose a mechanism twice"
                return b""
            if mechanism not in self.mechanisms:
                return self._outcome(_AUTH)
            if mechanism == "ANONYMOUS":
                return self._outcome(_OK)
            self._chosen = str(mechanism)
            if response is None:
                return sasl_frame(SaslCode.CHALLENGE, b"")
            return self._take_response(response)
        if code == SaslCode.RESPONSE and self._chosen:
            return self._take_response((*fields, None)[0])
        self.failed = "the peer sent an unexpected SASL frame"
        return b""

    def _take_response(self, response: Any) -> bytes:
        """Answer what the peer says in the mechanism that it chose."""
        if not isinstance(response, bytes):
            return self._outcome(_AUTH)
        if self._chosen == "PLAIN":
            return self._outcome(self._check(response))
        if self._chosen == "EXTERNAL":
            # RFC 4422, appendix A: nothing, or who it wants to act as.
            name = self.certificate or ""
            if response not in {b"", name.encode()}:
                return self._outcome(_AUTH)
            self.user = name
            return self._outcome(_OK)
        return self._step(response)

    def _step(self, response: bytes) -> bytes:
        if self._exchange is None and self._scram is not None:
            self._exchange = self._scram()
        exchange = self._exchange
        if exchange is None:
            return self._outcome(_AUTH)
        try:
            said = exchange.step(response)
        except SaslError:
            return self._outcome(_AUTH)
        if not exchange.done:
            return sasl_frame(SaslCode.CHALLENGE, said)
        self.user = exchange.user
        return self._outcome(_OK, said)

    def _check(self, response: bytes) -> int:
        """Check a PLAIN response (RFC 4616): authorization identity, name, password."""
        parts = response.split(b"\0")
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

    def _outcome(self, code: int, *data: bytes) -> bytes:
        """End, with what the mechanism says last (Part 5, 5.3.3.6)."""
        if code == _OK:
            self.done = True
        else:
            self.failed = "not authenticated"
        return sasl_frame(SaslCode.OUTCOME, UByte(code), *data)
