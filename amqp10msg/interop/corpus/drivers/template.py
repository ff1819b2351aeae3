"""A template for a driver: set the name, and call the functions of the implementation.

Run it with ``amqp10msg conformance run --peer ./this_file.py``. Cases that need a missing method
are skipped.
"""

from __future__ import annotations

from typing import Any


class Driver:
    """One implementation of AMQP 1.0."""

    #: The exceptions with which the implementation refuses bytes. Any other exception is reported
    #: as its error.
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def __init__(self) -> None:
        self.name = "my implementation 1.0"

    def decode(self, kind: str, data: bytes) -> Any:
        """Return the decoded value in typed JSON, or None if the value cannot be shown.

        If the implementation does not preserve a type, return the type's family: integer, number,
        octets, sequence or decimal; numeric if all numbers are doubles.
        """
        if kind != "value":
            raise NotImplementedError(f"{kind} is not supported")
        if data == b"\x41":
            return ["boolean", True]
        raise ValueError(f"constructor 0x{data[0]:02x} is not known" if data else "no bytes")

    def encode(self, kind: str, typed: Any) -> bytes:
        """Return the encoding of typed JSON."""
        if typed == ["boolean", True]:
            return b"\x41"
        raise NotImplementedError(f"{kind} {typed} is not supported")
