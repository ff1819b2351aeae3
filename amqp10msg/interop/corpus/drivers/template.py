"""A template for a driver: set the name, and call the functions of the implementation.

Test the driver with ``amqp10msg conformance run --peer ./this_file.py``. Cases that need a method
that the driver lacks are skipped.
"""

from __future__ import annotations

from typing import Any


class Driver:
    """One implementation of AMQP 1.0."""

    #: The exceptions that the implementation raises for invalid bytes. Any other exception is
    #: reported as an error of the implementation.
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def __init__(self) -> None:
        self.name = "my implementation 1.0"

    def decode(self, kind: str, data: bytes) -> Any:
        """Return the decoded value in typed JSON, or None if the value cannot be shown.

        If the implementation does not preserve a type, replace the type by its family: integer,
        number, octets, sequence or decimal. If all its numbers are doubles, use numeric.
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
