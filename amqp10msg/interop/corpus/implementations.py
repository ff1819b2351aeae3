"""Implementations for `run` in this process: this library, and proton."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from amqp10msg import (
    COMPILED,
    DecodeError,
    Message,
    __version__,
    decode_value,
    encode_value,
)
from amqp10msg.composite import decode_composite, from_described
from amqp10msg.interop.corpus.answers import answer
from amqp10msg.interop.corpus.basic_kinds import BASIC_KINDS, decode_basic, encode_basic
from amqp10msg.interop.corpus.drivers.proton_data import Driver as ProtonDriver
from amqp10msg.interop.corpus.runner import RefusedError, UnsupportedError
from amqp10msg.notation import from_typed, to_typed
from amqp10msg.validation import ProfileName, validate
from amqp10msg.wire.limits import Limits

#: What a value may break that is meant as a composite.
COMPOSITE_RULES = frozenset(
    (
        *("field-type", "mandatory-field-missing", "too-many-fields", "section-value-type"),
        *("field-key-type", "unknown-composite", "not-a-composite"),
    )
)


class Amqp10msg:
    """This library.

    Args:
        strict: as in `Message.decode`.
        limits: what decoding may cost; the defaults of `Limits` if None.
    """

    def __init__(self, *, strict: bool = True, limits: Limits | None = None) -> None:
        self.strict = strict
        self.limits = limits
        kernel = "compiled" if COMPILED else "pure"
        self.name = f"amqp10msg {__version__} ({kernel}, {'strict' if strict else 'lenient'})"

    def limited(self, limits: Mapping[str, int]) -> Amqp10msg:
        """Return an implementation that decodes within these limits."""
        return Amqp10msg(strict=self.strict, limits=Limits(**limits))

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes of this kind to typed JSON."""
        limits = self.limits
        try:
            if kind == "message":
                message = Message.decode(data, strict=self.strict, limits=limits)
                typed = to_typed(message)
                if any(section[0] == "raw" for section in typed):
                    Message.decode(data, limits=limits)  # says why this was kept and not read
                return typed
            if kind == "composite":
                return self._composite(data)
            if kind in BASIC_KINDS:
                return decode_basic(kind, data, limits)
            return to_typed(decode_value(data, limits=limits))
        except DecodeError as error:
            raise RefusedError(str(error), error.rule, error.offset) from error

    def _composite(self, data: bytes) -> Any:
        """Return a composite; leniently, what breaks its declaration as the value that it is."""
        try:
            return to_typed(decode_composite(data, limits=self.limits))
        except DecodeError as error:
            if self.strict or error.rule not in COMPOSITE_RULES:
                raise
            return to_typed(decode_value(data, limits=self.limits))

    def encode(self, kind: str, typed: Any) -> bytes:
        """Encode typed JSON of this kind."""
        if kind in BASIC_KINDS:
            return encode_basic(kind, typed)
        made = from_typed(typed)
        if kind == "message":
            return bytes(made.encode())
        return encode_value(from_described(made) if kind == "composite" else made)

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        """Return the rules that a message violates, with their severities and offsets."""
        found = validate(data, cast("ProfileName", profile), limits=self.limits)
        return {(violation.rule, violation.severity, violation.offset) for violation in found}

    def answer(self, kind: str, data: bytes, given: Any) -> Any:
        """Return what becomes of a message or a delivery."""
        return answer(kind, data, given)


class Proton:
    """python-qpid-proton: its codec (`proton.Data`), and `proton.Message` for what it refuses.

    It does not support composites, as proton has classes for outcomes and termini only in
    connections, nor encoding, as proton chooses other forms than the smallest ones.

    Raises:
        ImportError: python-qpid-proton is not installed.
    """

    def __init__(self) -> None:
        try:
            self._driver = ProtonDriver()
        except ImportError:
            raise ImportError(
                "python-qpid-proton is not installed: pip install 'amqp10msg[proton]'"
            ) from None
        self.name = self._driver.name

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes of this kind to typed JSON."""
        if kind == "composite":
            raise UnsupportedError("proton has no composites outside of connections")
        try:
            if kind == "message":
                self._driver.check(data)
            return self._driver.decode(kind, data)
        except NotImplementedError as error:
            raise UnsupportedError(str(error)) from None
        except self._driver.refusals as error:
            raise RefusedError(str(error)) from error

    def encode(self, kind: str, typed: Any) -> bytes:  # noqa: ARG002
        """Raise `UnsupportedError`."""
        raise UnsupportedError(f"proton does not encode a {kind} in the smallest form")

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        """Raise `UnsupportedError`."""
        raise UnsupportedError(f"proton cannot validate {len(data)} bytes by {profile}")
