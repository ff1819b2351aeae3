"""What must hold of any octets: of one build, and of two builds side by side."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

from fuzz.builds import described


def core(package: ModuleType, octets: bytes) -> None:
    """Feed the octets to the decoders of one build, which is most of the kernel and fast.

    A value or DecodeError; what was decoded encodes again, and a message byte for byte.

    Raises:
        Exception: anything that the contract does not allow.
    """
    decode_error = package.DecodeError
    with suppress(decode_error):
        package.encode_value(package.decode_value(octets))
    with suppress(decode_error):
        package.scan(octets)
    try:
        message = package.Message.decode(octets)
    except decode_error:
        return
    if message.encode() != octets:
        raise AssertionError("an unchanged message does not encode as it came")


def contract(package: ModuleType, octets: bytes) -> None:
    """Feed the octets to every entry point of one build.

    Raises:
        Exception: anything that the contract does not allow.
    """
    decode_error = package.DecodeError
    core(package, octets)
    for read, write in (
        (package.decode_value, package.encode_value),
        (package.delivery.decode, package.delivery.encode),
    ):
        try:
            made = read(octets)
        except decode_error:
            continue
        once = write(made)
        if write(read(once)) != once:
            raise AssertionError("what was decoded encodes differently the second time")
    with suppress(decode_error):
        package.delivery.decode(octets, strict=False)
    with suppress(decode_error):
        for _ in package.decode_values(octets):
            pass
    with suppress(decode_error):
        package.skip_value(octets)
    for strict in (True, False):
        try:
            message = package.Message.decode(octets, strict=strict)
        except decode_error:
            continue
        message.sections()
        if message.encode() != octets:
            raise AssertionError("an unchanged message does not encode as it came")
        package.Message.decode(message.evolve(header=None).encode(), strict=strict)
    with suppress(decode_error):
        package.scan(octets).replace(header=package.Header(priority=1))
    package.validate(octets)


def agreement(one: ModuleType, other: ModuleType, octets: bytes) -> None:
    """Hold two builds against each other: the same values, or the same errors at the same place.

    Raises:
        AssertionError: they differ.
    """
    for name in ("decode_value", "skip_value", "strict", "lenient", "scan", "validate"):
        first, second = _outcome(one, name, octets), _outcome(other, name, octets)
        if first != second:
            raise AssertionError(f"{name}: {first!r:.300} and {second!r:.300}")


def _outcome(package: ModuleType, name: str, octets: bytes) -> Any:
    try:
        if name in {"strict", "lenient"}:
            message = package.Message.decode(octets, strict=name == "strict")
            return described(message), described([part for _, part in message.sections()])
        if name == "scan":
            return [
                (part.name, part.offset, part.content, part.end) for part in package.scan(octets)
            ]
        return described(getattr(package, name)(octets))
    except package.DecodeError as error:
        return (error.rule, error.offset, error.path, error.condition, error.reason)
