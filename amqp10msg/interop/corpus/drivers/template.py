"""A driver to begin with: name the implementation, and hand its functions the bytes.

Run it with ``amqp10msg conformance run --peer ./this_file.py``. What is missing is skipped.
"""

from __future__ import annotations

from typing import Any


class Driver:
    """One implementation of AMQP 1.0."""

    #: The exceptions by which it refuses bytes. Any other is an error of the implementation.
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def __init__(self) -> None:
        self.name = "my implementation 1.0"

    def decode(self, kind: str, data: bytes) -> Any:
        """Return the value of the bytes in typed JSON, or None where that cannot be shown.

        Where a type is not kept, name its family: integer, number, octets, sequence, decimal.
        """
        if kind != "value":
            raise NotImplementedError(f"{kind} is not tried")
        if data == b"\x41":
            return ["boolean", True]
        raise ValueError(f"constructor 0x{data[0]:02x} is not known" if data else "no bytes")

    def encode(self, kind: str, typed: Any) -> bytes:
        """Return the bytes of typed JSON."""
        if typed == ["boolean", True]:
            return b"\x41"
        raise NotImplementedError(f"{kind} {typed} is not written")
