"""The exceptions of the library: one base, one class per kind of fault.

Bad bytes from a peer raise `DecodeError`; a value that the user built wrong raises `EncodeError`
or `ValidationError`. Each is also a `ValueError`, so that plain handlers keep working.
"""

from __future__ import annotations

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

DECODE_ERROR = "amqp:decode-error"
INVALID_FIELD = "amqp:invalid-field"
NOT_IMPLEMENTED = "amqp:not-implemented"
RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"


class AmqpError(Exception):
    """Base class of every exception that this library raises on purpose."""


class DecodeError(AmqpError, ValueError):
    """The bytes are not what they must be.

    Attributes:
        reason: what is wrong, without the place.
        offset: where in the input the offending encoding begins, in bytes.
        path: what stands there, such as ``properties.message-id``; empty at the top.
        condition: the error condition to answer a peer with, such as ``amqp:decode-error``.
        rule: a short stable name of the fault, such as ``truncated``.
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
            where += f" ({self.path})"
        return f"{where}: {self.reason}"

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
        return f"{self.path}: {self.reason}" if self.path else self.reason


class ValidationError(AmqpError, ValueError):
    """A message breaks rules of the specification; `violations` lists them."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__(violations)
        self.violations = tuple(violations)

    def __str__(self) -> str:
        return "; ".join(f"{v.path or 'message'}: {v.text}" for v in self.violations)


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
        delivered: the bytes that the bridge delivers instead, where it delivers some that are no
            message, so that no receiver can read them.
    """

    def __init__(self, path: str, reason: str, *, delivered: bytes | None = None) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason
        self.delivered = delivered

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


def wrong_type(where: str, wanted: str, given: object, how: str = "") -> TypeError:
    """Return the error for an argument of a wrong type: what is wanted, what was given, and how."""
    return TypeError(
        f"{where} takes {wanted}, not {type(given).__name__}{f': {how}' if how else ''}"
    )


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
