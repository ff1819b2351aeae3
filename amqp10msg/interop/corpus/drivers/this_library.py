"""This library, in a process of its own like all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amqp10msg.interop import corpus


class Driver:
    """What `corpus.Amqp10msg` does, over JSON lines."""

    refusals = (corpus.RefusedError,)

    def __init__(self, ours: corpus.Amqp10msg | None = None) -> None:
        self._ours = ours or corpus.Amqp10msg()
        self.name = self._ours.name

    def limited(self, limits: Mapping[str, int]) -> Driver:
        """Return one that decodes within these limits."""
        return Driver(self._ours.limited(limits))

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes of this kind to typed JSON."""
        return self._ours.decode(kind, data)

    def encode(self, kind: str, typed: Any) -> bytes:
        """Encode typed JSON of this kind."""
        return self._ours.encode(kind, typed)

    def validate(self, data: bytes, profile: str) -> list[Sequence[Any]]:
        """Return the rules that a message violates, with their severities and offsets."""
        return sorted(self._ours.validate(data, profile), key=str)

    def answer(self, kind: str, data: bytes, given: Any) -> Any:
        """Return what becomes of a message or a delivery."""
        return self._ours.answer(kind, data, given)
