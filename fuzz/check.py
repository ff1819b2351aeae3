"""The contract for arbitrary bytes: checks of one build, and the agreement of two builds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any
from unittest import mock

from fuzz import picks, templates
from fuzz.builds import alike


def core(package: ModuleType, octets: bytes) -> None:
    """Check the decoders of one build, which covers most of the kernel quickly.

    The bytes give a value or a DecodeError; a decoded value encodes again, a message to the same
    bytes; picks return the message's fields, and templates the same bytes as encoding.

    Raises:
        Exception: a violation of the contract.
    """
    decode_error = package.DecodeError
    with suppress(decode_error):
        package.encode_value(package.decode_value(octets))
    with suppress(decode_error):
        package.scan(octets)
    try:
        message = package.Message.decode(octets)
    except decode_error:
        picks.check(package, octets, None)
        return
    if message.encode() != octets:
        raise AssertionError("an unchanged message does not encode as it came")
    picks.check(package, octets, message)
    templates.check(package, message)


def contract(package: ModuleType, octets: bytes) -> None:
    """Check every entry point of one build.

    Raises:
        Exception: a violation of the contract.
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
        # After a truncated section, no readable section may follow.
        with suppress(*(() if strict else (decode_error,))):
            package.Message.decode(message.evolve(header=None).encode(), strict=strict)
    with suppress(decode_error):
        package.scan(octets).replace(header=package.Header(priority=1))
    judgement(package, octets)


def judgement(package: ModuleType, octets: bytes) -> None:
    """Compare the fast validation of a message with the complete one, in every profile.

    Raises:
        AssertionError: they differ.
    """
    validation = package.validation
    for profile in validation.PROFILES:
        quick = package.validate(octets, profile)
        with (
            mock.patch.object(validation, "suspected", return_value=None),
            mock.patch.object(validation, "narrow"),
        ):
            thorough = package.validate(octets, profile)
        if quick != thorough:
            raise AssertionError(f"{profile}: {quick!r:.300} and {thorough!r:.300}")


def agreement(one: ModuleType, other: ModuleType, octets: bytes) -> bool:
    """Compare two builds: equal values, or equal errors at the same offset.

    Returns:
        Whether the bytes are a valid message.

    Raises:
        AssertionError: they differ.
    """
    is_message = False
    for name, outcome in OUTCOMES.items():
        first, second = outcome(one, octets), outcome(other, octets)
        if not alike(first, second):
            raise AssertionError(f"{name}: {first!r:.300} and {second!r:.300}")
        if name == "strict":
            is_message = isinstance(first, tuple)
    return is_message


def _value(package: ModuleType, octets: bytes) -> Any:
    try:
        value = package.decode_value(octets)
        return value, package.encode_value(value)
    except package.DecodeError as error:
        return error


def _skip(package: ModuleType, octets: bytes) -> Any:
    try:
        return package.skip_value(octets)
    except package.DecodeError as error:
        return error


def _scan(package: ModuleType, octets: bytes) -> Any:
    try:
        return [(part.name, part.offset, part.content, part.end) for part in package.scan(octets)]
    except package.DecodeError as error:
        return error


def _strict(package: ModuleType, octets: bytes) -> Any:
    """Decode and encode, and encode again a copy without the original bytes."""
    try:
        message = package.Message.decode(octets)
    except package.DecodeError as error:
        return error
    again = templates.fresh(package, message)
    paths, values = zip(*picks.held(message), strict=True)
    try:
        filled = message.template(*paths).encode(*values[1:], values[0])
    except package.EncodeError as error:
        filled = (error.path, error.reason)
    return message, message.encode(), again.encode(), filled


def _lenient(package: ModuleType, octets: bytes) -> Any:
    """Decode leniently and encode, and read the sections that no attribute contains, too."""
    try:
        message = package.Message.decode(octets, strict=False)
    except package.DecodeError as error:
        return error
    return message, [section for _, section in message.sections()]


def _pick(package: ModuleType, octets: bytes) -> Any:
    try:
        return picks.picker(package, picks.FIXED)(octets)
    except package.DecodeError as error:
        return error


def _verdict(package: ModuleType, octets: bytes) -> Any:
    return package.validate(octets)


#: Operations by name, whose results must agree between two builds.
OUTCOMES: dict[str, Callable[[ModuleType, bytes], Any]] = {
    "decode_value": _value,
    "skip_value": _skip,
    "strict": _strict,
    "lenient": _lenient,
    "scan": _scan,
    "pick": _pick,
    "validate": _verdict,
}
