"""The exceptions of the library, whose base class is `AmqpError`.

Invalid bytes from a peer raise `DecodeError`. An invalid value of the caller raises `EncodeError`.
These classes are also subclasses of `ValueError`. `ValidationError` and the violations that it
reports are defined in `amqp10msg.validation`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

__all__ = [
    "AmqpError",
    "ChecksumError",
    "ContentError",
    "DecodeError",
    "EncodeError",
    "TranslationError",
]

# Error conditions (Part 2, 2.8.15 to 2.8.18).
INTERNAL_ERROR = "amqp:internal-error"
NOT_FOUND = "amqp:not-found"
UNAUTHORIZED_ACCESS = "amqp:unauthorized-access"
DECODE_ERROR = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
NOT_ALLOWED = "amqp:not-allowed"
INVALID_FIELD = "amqp:invalid-field"
NOT_IMPLEMENTED = "amqp:not-implemented"
RESOURCE_LOCKED = "amqp:resource-locked"
PRECONDITION_FAILED = "amqp:precondition-failed"
RESOURCE_DELETED = "amqp:resource-deleted"
ILLEGAL_STATE = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small"
CONNECTION_FORCED = "amqp:connection:forced"
FRAMING_ERROR = "amqp:connection:framing-error"
WINDOW_VIOLATION = "amqp:session:window-violation"
ERRANT_LINK = "amqp:session:errant-link"
HANDLE_IN_USE = "amqp:session:handle-in-use"
UNATTACHED_HANDLE = "amqp:session:unattached-handle"
DETACH_FORCED = "amqp:link:detach-forced"
TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"
MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
STOLEN = "amqp:link:stolen"


class AmqpError(Exception):
    """The base class of the library's exceptions."""


# Data in another format than AMQP fails to decode at this offset or before.
_MAX_OFFSET_OF_FOREIGN_DATA = 4
_HEX_PATTERN = re.compile(rb"[0-9A-Fa-f\s]{8,}")
_BASE64_PATTERN = re.compile(rb"[0-9A-Za-z+/_-]{8,}={0,2}\s*")
# Bytes 4 and 5 of a frame without an extended header: the data offset 2, and the type AMQP or SASL.
_OCTETS_4_AND_5_OF_FRAMES = (b"\2\0", b"\2\1")
# Number of bytes to examine for a hint.
_MAX_EXAMINED_BYTES = 4096


# First bytes of compressed data, by the content-encoding. A zlib header, which begins deflate, has
# one of these levels of compression with the default window.
_COMPRESSION_MAGIC = {
    "gzip": (b"\x1f\x8b",),
    "zstd": (b"\x28\xb5\x2f\xfd",),
    "deflate": (b"\x78\x01", b"\x78\x9c", b"\x78\xda"),
}


def compression_of(data: bytes) -> str:
    """Return the content-encoding that the first bytes of `data` indicate; empty if none."""
    return next(
        (coding for coding, magic in _COMPRESSION_MAGIC.items() if data.startswith(magic)), ""
    )


def _format_hint(data: bytes) -> str:
    """Return the name of the format, other than AMQP, that `data` seems to have, and what to do.

    The hint is empty if the format is unknown.
    """
    front = data[:_MAX_EXAMINED_BYTES]
    if front.lstrip()[:1] in (b"{", b"["):
        return "JSON: amqp10msg.notation reads its JSON forms, from_typed and from_plain"
    if front.startswith(b"AMQP"):
        return "the protocol header that begins a connection, not a message"
    if coding := compression_of(front):
        return f"{coding}: decompress it first"
    if _HEX_PATTERN.fullmatch(front):
        return "hex text: bytes.fromhex(text) gives the bytes"
    if _BASE64_PATTERN.fullmatch(front):
        return "base64 text: base64.b64decode(text) gives the bytes"
    size = int.from_bytes(front[:4], "big")
    if 8 <= size <= len(data) and front[4:6] in _OCTETS_4_AND_5_OF_FRAMES:
        return "a frame of a 1.0 connection: the message is the payload of its transfer"
    if (
        front[:1] in (b"\1", b"\2", b"\3", b"\10")
        and data[-1:] == b"\xce"
        and int.from_bytes(front[3:7], "big") == len(data) - 8
    ):
        return "a frame of a 0-9-1 connection: see amqp10msg.basic"
    return ""


#: Number of characters that an error text shows of the start and of the end of a longer path.
_PATH_HEAD, _PATH_TAIL = 160, 60


def shortened_path(path: str) -> str:
    """Return `path` for an error text; the middle of a very long path is replaced by ``…``.

    A path may be long, since the keys of tables may have 255 bytes and 256 levels of nesting.
    """
    if len(path) <= _PATH_HEAD + _PATH_TAIL:
        return path
    return f"{path[:_PATH_HEAD]}…{path[-_PATH_TAIL:]}"


class DecodeError(AmqpError, ValueError):
    """The input cannot be decoded.

    Attributes:
        reason: the reason, without the offset and the path.
        offset: the offset of the invalid encoding in the input, in bytes.
        path: the path of the invalid value, such as ``properties.message-id``; empty if the error
            is about the whole input.
        condition: the error condition to send to the peer, such as ``amqp:decode-error``.
        rule: the short stable name of the violated rule, such as ``truncated``. For AMQP 1.0
            values, composites, messages and delivery states, it is a key of
            `amqp10msg.validation.RULES`. Errors of AMQP 0-9-1, of filters, of the properties of a
            node and of resuming a link have other names.
        clause: the violated clause, such as ``Part 3, 3.2.5``; empty if only the rule is known:
            `amqp10msg.validation.rule_of` returns the clause of the rule.
        data: the whole input; None if the function that raised the error did not have it.
    """

    def __init__(
        self,
        reason: str,
        offset: int = 0,
        *,
        rule: str = "malformed",
        condition: str = DECODE_ERROR,
        path: str = "",
        clause: str = "",
        data: bytes | None = None,
    ) -> None:
        super().__init__(reason, offset)
        self.reason = reason
        self.offset = offset
        self.rule = rule
        self.condition = condition
        self.path = path
        self.clause = clause
        self.data = data

    def __str__(self) -> str:
        location = f"at byte {self.offset}"
        if self.path:
            location += f" ({shortened_path(self.path)})"
        hint = ""
        if not self.path and self.offset <= _MAX_OFFSET_OF_FOREIGN_DATA:
            hint = _format_hint(self.data or b"")
        return f"{location}: {self.reason}{f'; this looks like {hint}' if hint else ''}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_decode_error, (self.reason, self.offset, self.__dict__))


def _rebuild_decode_error(reason: str, offset: int, state: dict[str, object]) -> DecodeError:
    error = DecodeError(reason, offset)
    error.__dict__.update(state)
    return error


class EncodeError(AmqpError, ValueError):
    """A value cannot be encoded as its declared type.

    Attributes:
        reason: the reason, and what to do about it.
        path: the path of the value, such as ``header.priority``; may be empty.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{shortened_path(self.path)}: {self.reason}" if self.path else self.reason


class ContentError(AmqpError, ValueError):
    """The body of a message is not the expected text, JSON or compressed data."""


class ChecksumError(AmqpError, ValueError):
    """A checksum or HMAC of a message is missing or wrong; `faults` lists the reasons."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__(faults)
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "; ".join(self.faults)


class TranslationError(AmqpError, ValueError):
    """A message cannot be translated: the broker of the profile would refuse it or fail.

    Also raised if a translation in strict mode would lose data.

    Attributes:
        path: the path of the value, such as ``properties.headers['k']``; empty for the message.
        reason: what the broker would do, or which data would be lost.
        delivered: the invalid bytes that the broker would deliver instead of a message; None if it
            would deliver nothing.
    """

    def __init__(self, path: str, reason: str, *, delivered: bytes | None = None) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason
        self.delivered = delivered

    def __str__(self) -> str:
        return f"{shortened_path(self.path)}: {self.reason}" if self.path else self.reason


class ForeignUserError(TranslationError):
    """The user-id of a message is not the connection's user: RabbitMQ refuses the message.

    Args:
        path: as for `TranslationError`.
        reason: as for `TranslationError`.
        delivered: as for `TranslationError`.
    """

    def __init__(
        self,
        path: str = "properties.user-id",
        reason: str = "refused: the user-id is not the connection's user",
        *,
        delivered: bytes | None = None,
    ) -> None:
        super().__init__(path, reason, delivered=delivered)


def wrong_type(subject: str, expected: str, argument: object, hint: str = "") -> TypeError:
    """Return the TypeError for an argument of a wrong type.

    Args:
        subject: the function, or the name of its parameter.
        expected: the expected type.
        argument: the argument.
        hint: what to do instead.
    """
    cls = type(argument)
    # Add the module if the class of another library may have the same name as the expected class.
    is_foreign = cls.__module__.partition(".")[0] not in ("builtins", "amqp10msg")
    is_ambiguous = is_foreign or expected.endswith(cls.__name__)
    name = f"{cls.__module__}.{cls.__name__}" if is_ambiguous else cls.__name__
    return TypeError(f"{subject} takes {expected}, not {name}{f': {hint}' if hint else ''}")


def as_bytes(value: object, subject: str, expected: str = "bytes") -> bytes:
    """Return a bytes-like argument as bytes.

    Unlike ``bytes(value)``, this function rejects an int, which would become that many zero bytes,
    and a list of ints.

    Args:
        value: the argument.
        subject: the function, or the name of its parameter, for the error.
        expected: the expected types, for the error.

    Raises:
        TypeError: `value` is neither bytes, bytearray nor memoryview.
    """
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise wrong_type(
        subject, expected, value, "encode the str first" if isinstance(value, str) else ""
    )


def expect(
    argument: object,
    types: type | tuple[type, ...],
    subject: str,
    expected: str,
    hints: dict[Any, str] | None = None,
) -> None:
    """Raise TypeError if an argument has a wrong type.

    Args:
        argument: the argument.
        types: the types that the function accepts.
        subject: the function, or the name of its parameter, for the error.
        expected: the accepted types, for the error.
        hints: what to do instead, by the type of the argument.

    Raises:
        TypeError: `argument` is not an instance of `types`.
    """
    if not isinstance(argument, types):
        hint = next((text for cls, text in (hints or {}).items() if isinstance(argument, cls)), "")
        raise wrong_type(subject, expected, argument, hint)
