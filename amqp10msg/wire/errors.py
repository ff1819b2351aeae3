"""The exceptions of the library: one base, one class per kind of fault.

Bad bytes from a peer raise `DecodeError`; a value that the user built wrong raises `EncodeError`
or `ValidationError`. Each is also a `ValueError`, so that plain handlers keep working.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqp10msg.validation import Violation

__all__ = [
    "AmqpError",
    "ChecksumError",
    "ContentError",
    "DecodeError",
    "EncodeError",
    "TranslationError",
    "ValidationError",
]

# The conditions of errors that are in use here (Part 2, 2.8.15 to 2.8.18).
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
    """Base class of every exception that this library raises on purpose."""


# What is not an AMQP value fails in its first bytes.
_FRONT = 4
_HEX = re.compile(rb"[0-9A-Fa-f\s]{8,}")
_BASE64 = re.compile(rb"[0-9A-Za-z+/_-]{8,}={0,2}\s*")
# Where a frame's body begins, in words, without an extended header; and its type, AMQP or SASL.
_FRAMES = (b"\2\0", b"\2\1")
_MOST_LOOKED_AT = 4096


def _resembled(data: bytes) -> str:
    """Return a hint on bytes that are not an AMQP value: what they look like; "" if unknown."""
    front = data[:_MOST_LOOKED_AT]
    if front.lstrip()[:1] in (b"{", b"["):
        return "JSON: amqp10msg.notation reads its JSON forms, from_typed and from_plain"
    if front.startswith(b"AMQP"):
        return "the protocol header that begins a connection, not a message"
    if front.startswith(b"\x1f\x8b"):
        return "gzip: decompress it first"
    if front.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd: decompress it first"
    if _HEX.fullmatch(front):
        return "hex text: bytes.fromhex(text) gives the bytes"
    if _BASE64.fullmatch(front):
        return "base64 text: base64.b64decode(text) gives the bytes"
    size = int.from_bytes(front[:4], "big")
    if 8 <= size <= len(data) and front[4:6] in _FRAMES:
        return "a frame of a 1.0 connection: the message is the payload of its transfer"
    if (
        front[:1] in (b"\1", b"\2", b"\3", b"\10")
        and data[-1:] == b"\xce"
        and int.from_bytes(front[3:7], "big") == len(data) - 8
    ):
        return "a frame of a 0-9-1 connection: see amqp10msg.basic"
    return ""


#: Characters that an error's text shows of each end of a longer path.
_PATH_HEAD, _PATH_TAIL = 160, 60


def shortened_path(path: str) -> str:
    """Return `path` for an error's text, with ``…`` for the middle of a very long one.

    The keys of a table may have 255 bytes each and be nested 256 levels deep.
    """
    if len(path) <= _PATH_HEAD + _PATH_TAIL:
        return path
    return f"{path[:_PATH_HEAD]}…{path[-_PATH_TAIL:]}"


class DecodeError(AmqpError, ValueError):
    """The bytes are not what they must be.

    Attributes:
        reason: what is wrong, without the place.
        offset: where in the input the offending encoding begins, in bytes.
        path: what stands there, such as ``properties.message-id``; empty at the top.
        condition: the error condition to answer a peer with, such as ``amqp:decode-error``.
        rule: a short stable name of the fault, such as ``truncated``. For bytes that are read as
            AMQP 1.0 values, composites, messages or delivery states, it is a key of
            `amqp10msg.validation.RULES`. Faults of AMQP 0-9-1, of filters, of the properties of a
            node and of resuming a link have other names.
        data: the whole input, unchanged, where the entry point had it.
    """

    def __init__(
        self,
        reason: str,
        offset: int = 0,
        *,
        rule: str = "malformed",
        condition: str = DECODE_ERROR,
        path: str = "",
        data: bytes | None = None,
    ) -> None:
        super().__init__(reason, offset)
        self.reason = reason
        self.offset = offset
        self.rule = rule
        self.condition = condition
        self.path = path
        self.data = data

    def __str__(self) -> str:
        where = f"at byte {self.offset}"
        if self.path:
            where += f" ({shortened_path(self.path)})"
        likely = "" if self.path or self.offset > _FRONT else _resembled(self.data or b"")
        return f"{where}: {self.reason}{f'; this looks like {likely}' if likely else ''}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_decode_error, (self.reason, self.offset, self.__dict__))


def _rebuild_decode_error(reason: str, offset: int, state: dict[str, object]) -> DecodeError:
    error = DecodeError(reason, offset)
    error.__dict__.update(state)
    return error


class EncodeError(AmqpError, ValueError):
    """A value cannot be encoded as what it was declared to be.

    Attributes:
        reason: what is wrong with the value and what would be right.
        path: where in the message the value stands, such as ``header.priority``.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{shortened_path(self.path)}: {self.reason}" if self.path else self.reason


class ValidationError(AmqpError, ValueError):
    """A message breaks rules of the specification; `violations` lists them."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__(violations)
        self.violations = tuple(violations)

    def __str__(self) -> str:
        return "; ".join(
            f"{shortened_path(v.path) or 'message'}: {v.text}" for v in self.violations
        )


class ContentError(AmqpError, ValueError):
    """The body of a message is not the text, JSON or compressed data that it is asked for as."""


class ChecksumError(AmqpError, ValueError):
    """The footer does not vouch for the bare message; `faults` says why, one sentence each."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__(faults)
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "; ".join(self.faults)


class TranslationError(AmqpError, ValueError):
    """A message has no translation: the bridge of this profile refuses it or fails on it.

    Also raised where a translation in strict mode would lose something.

    Attributes:
        path: where in the message, such as ``properties.headers['k']``; empty for the whole.
        reason: what the bridge does, or what would be lost.
        delivered: the bytes that the bridge delivers instead, where it delivers some that do not
            make a message, so that no receiver can read them.
    """

    def __init__(self, path: str, reason: str, *, delivered: bytes | None = None) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason
        self.delivered = delivered

    def __str__(self) -> str:
        return f"{shortened_path(self.path)}: {self.reason}" if self.path else self.reason


def wrong_type(where: str, wanted: str, given: object, how: str = "") -> TypeError:
    """Return the error for an argument of a wrong type: what is wanted, what was given, and how."""
    cls = type(given)
    # Classes of other libraries have the same names.
    foreign = cls.__module__.partition(".")[0] not in ("builtins", "amqp10msg")
    is_full = foreign or wanted.endswith(cls.__name__)
    named = f"{cls.__module__}.{cls.__name__}" if is_full else cls.__name__
    return TypeError(f"{where} takes {wanted}, not {named}{f': {how}' if how else ''}")


def as_bytes(value: object, where: str, wanted: str = "bytes") -> bytes:
    """Return a bytes-like argument as bytes.

    ``bytes(value)`` would turn an int into that many zero bytes, and a list of ints into bytes.

    Args:
        value: the argument.
        where: what takes the argument, for the error.
        wanted: the types it takes, for the error.

    Raises:
        TypeError: `value` is neither bytes, bytearray nor memoryview.
    """
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise wrong_type(where, wanted, value, "encode it first" if isinstance(value, str) else "")


def expect(
    given: object,
    kinds: type | tuple[type, ...],
    where: str,
    wanted: str,
    hows: dict[Any, str] | None = None,
) -> None:
    """Refuse an argument that is of none of some types.

    Args:
        given: the argument.
        kinds: the types.
        where: what it is an argument of.
        wanted: the types, for people.
        hows: what to do instead, by the type of what is given.

    Raises:
        TypeError: it is of another type.
    """
    if not isinstance(given, kinds):
        how = next((how for kind, how in (hows or {}).items() if isinstance(given, kind)), "")
        raise wrong_type(where, wanted, given, how)
