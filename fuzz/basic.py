"""``python -m fuzz.basic``: fuzz the codec of AMQP 0-9-1 and the translator.

Randomly mutated content headers, tables, classes of AMQP 0-9 and 1.0 messages pass through the
codec in its three dialects and through every profile of the translator. Any bytes must give a
value, a DecodeError or a TranslationError; decoded values must encode to the same bytes; the
lossless profile must translate everything, and back to the same bytes. Now and then the pure build
must agree with the compiled one. Inputs that violate this are stored in fuzz/findings.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import amqp10msg
import amqp10msg.basic.classes
import amqp10msg.translate
from fuzz import builds
from fuzz.builds import alike
from fuzz.findings import Findings
from fuzz.mutate import mutate

FINDINGS = Path(__file__).with_name("findings")
VECTORS = Path(__file__).parents[1] / "tests" / "vectors" / "translations.jsonl.gz"
DIALECTS = ("rabbitmq", "spec", "qpid")
COMPARED = 16
"""Of so many inputs, one goes through the other build too, which is slow."""


def seeds() -> dict[str, list[bytes]]:
    """Return seeds by kind: recorded bytes of clients and brokers, and their translations."""
    found: dict[str, set[bytes]] = {kind: set() for kind in CHECKS}
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if "message" in entry:
                found["message"].add(bytes.fromhex(entry["message"]))
                continue
            raw = bytes.fromhex(entry["basic"][0])
            found["header"].add(b"\0\x3c\0\0" + bytes(8) + raw)
            found["properties"].add(raw)
            try:
                table = amqp10msg.basic.decode_properties(raw).headers
            except amqp10msg.DecodeError:
                continue
            if table is not None:
                octets = amqp10msg.basic.encode_table(table)
                found["table"].add(octets)
                found["older"] |= set(_older(table, octets))
    return {kind: sorted(octets) for kind, octets in found.items()}


def _older(table: Any, octets: bytes) -> Iterator[bytes]:
    """Return content of an AMQP 0-9 class that contains a table."""
    classes = amqp10msg.basic.classes
    yield classes.encode_class_header(classes.FileProperties("text/plain", headers=table), 5)
    yield classes.encode_class_header(classes.StreamProperties(headers=table, priority=3), 5)
    yield classes.encode_class_header(classes.TunnelProperties(table, "p", "d", 2, 1), 5)
    yield classes.encode_transfer(
        classes.Transfer(1, "d", ttl=5, message_id="m", application_headers=table, body=octets)
    )


def _part(package: ModuleType, name: str) -> Any:
    """Return a subpackage of the given copy of the package."""
    part = package
    for step in name.split("."):
        part = getattr(part, step)
    return part


def table(package: ModuleType, octets: bytes) -> Any:
    """Decode a table in every dialect, and check that it encodes to the same bytes."""
    basic = _part(package, "basic")
    return _read_all(package, basic.decode_table, basic.encode_table, octets)


def properties(package: ModuleType, octets: bytes) -> Any:
    """Decode properties in every dialect, and translate them."""
    basic = _part(package, "basic")
    found = _read_all(package, basic.decode_properties, basic.encode_properties, octets)
    return found, _translated(package, found[0], octets)


def header(package: ModuleType, octets: bytes) -> Any:
    """Decode a content header in every dialect, and translate it."""
    basic = _part(package, "basic")
    found = _read_all(package, basic.decode_content_header, basic.encode_content_header, octets)
    return found, _translated(package, getattr(found[0], "properties", None), octets)


def older(package: ModuleType, octets: bytes) -> Any:
    """Decode content of an AMQP 0-9 class, and translate it as class basic."""
    classes = _part(package, "basic.classes")
    made = []
    try:
        content, size = classes.decode_class_header(octets)
        if classes.encode_class_header(content, size) != octets:
            raise AssertionError("a header of older content does not encode as it came")
        made.append(content)
    except package.DecodeError as error:
        made.append(_told(error))
    try:
        transfer = classes.decode_transfer(octets)
        if classes.encode_transfer(transfer) != octets:
            raise AssertionError("a transfer does not encode as it came")
        made.append(transfer)
    except package.DecodeError as error:
        made.append(_told(error))
    for content in made:
        if not isinstance(content, tuple):
            made.append(_both_ways(package, classes.to_basic_message(content, octets)))
            break
    return made


def message(package: ModuleType, octets: bytes) -> Any:
    """Decode a 1.0 message and translate it."""
    translate = _part(package, "translate")
    found: list[Any] = []
    for strict in (True, False):
        try:
            made = package.Message.decode(octets, strict=strict)
        except package.DecodeError as error:
            found.append(_told(error))
            continue
        try:
            basic = translate.to_basic(made).message
        except package.DecodeError as error:
            with suppress(package.DecodeError):
                package.scan(octets)
                raise AssertionError("a message that is whole was refused") from error
            found.append(_told(error))
            continue
        back = translate.to_amqp10(basic).message
        if back.encode() != octets:
            raise AssertionError("a 1.0 message does not come back from class basic")
        lossless = _part(package, "translate._lossless")
        carried = partial(_carried, lossless.carry_encodings)
        # Without the fast engine and the shortcut for reversible values, which must agree.
        with (
            mock.patch.object(translate, "basic_translation", return_value=None),
            mock.patch.object(lossless, "carry_encodings", carried),
        ):
            thorough = translate.to_basic(made)
        if not alike(basic, thorough.message):
            raise AssertionError("the engine and a second look at the plain rules differ")
        found.append(basic)
        # After lenient decoding, the profiles see a message that differs from the bytes.
        found += _each(package, translate.to_basic, made)
    return found


def _carried(carry: Any, made: Any) -> bool:
    """Carry encodings, and return True, so that the translator assumes that some remain."""
    carry(made)
    return True


CHECKS = {
    "header": header,
    "properties": properties,
    "table": table,
    "older": older,
    "message": message,
}


def _read_all(package: ModuleType, read: Any, write: Any, octets: bytes) -> list[Any]:
    found = []
    for dialect in DIALECTS:
        try:
            made = read(octets, dialect=dialect)
        except package.DecodeError as error:
            found.append(_told(error))
            continue
        if write(made, dialect=dialect) != octets:
            raise AssertionError(f"what was read as {dialect} does not encode as it came")
        found.append(made)
    return found


def _told(error: Any) -> tuple[Any, ...]:
    return error.rule, error.offset, error.path, error.condition, error.reason


def _translated(package: ModuleType, given: Any, octets: bytes) -> Any:
    """Translate properties with a payload, an exchange and a key taken from the bytes."""
    if type(given).__name__ != "BasicProperties":
        return None
    where = ("", "", False) if octets[-1:] < b"\x80" else ("amq.topic", "k", True)
    return _both_ways(
        package, _part(package, "basic").BasicMessage(given, octets[: octets[0]], *where)
    )


def _both_ways(package: ModuleType, given: Any) -> Any:
    translate = _part(package, "translate")
    write = _part(package, "basic").encode_properties
    made = translate.to_amqp10(given).message
    wire = made.encode()
    for form in (made, package.Message.decode(wire)):
        back = translate.to_basic(form).message
        if (
            write(back.properties) != write(given.properties)
            or back.body != given.body
            or (back.exchange, back.routing_key, back.redelivered)
            != (given.exchange, given.routing_key, given.redelivered)
        ):
            raise AssertionError("a message of class basic does not come back from 1.0")
    return wire, _each(package, translate.to_amqp10, given)


def _each(package: ModuleType, way: Any, given: Any) -> list[Any]:
    """Translate in every profile; return the results, or the errors."""
    translate = _part(package, "translate")
    found: list[Any] = []
    # The batch engine does not support stream offsets, so the plain rules translate.
    circumstances = translate.Circumstances(stream_offset=0)
    for profile in translate.PROFILES:
        try:
            made = way(given, profile, circumstances=circumstances)
        except package.wire.errors.TranslationError as error:
            found.append((error.path, error.reason))
        else:
            losses = [(loss.path, loss.action, loss.recoverable) for loss in made.losses]
            found.append((made.message, losses))
    return found


def agreement(one: ModuleType, other: ModuleType, kind: str, octets: bytes) -> None:
    """Compare two builds.

    Raises:
        AssertionError: they differ.
    """
    first, second = (CHECKS[kind](package, octets) for package in (one, other))
    if not alike(first, second):
        raise AssertionError(f"{first!r:.300} and {second!r:.300}")


def main() -> int:
    """Run the given number of inputs; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.basic", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=FINDINGS)
    chosen = parser.parse_args()
    other = builds.load(pure=True) if amqp10msg.COMPILED else None
    draw = random.Random(chosen.seed)
    known = seeds()
    kinds = list(CHECKS)
    begin = time.perf_counter()
    findings = Findings(chosen.findings, "basic")
    for number in range(chosen.inputs):
        kind = kinds[number % len(kinds)]
        octets = mutate(known[kind], draw)
        with findings.kept(octets, kind):
            if other is not None and number % COMPARED < 1:
                agreement(amqp10msg, other, kind, octets)
            else:
                CHECKS[kind](amqp10msg, octets)
    seconds = time.perf_counter() - begin
    print(f"{chosen.inputs} inputs, {findings.count} findings, {seconds:.0f} s")
    return 1 if findings.count else 0


if __name__ == "__main__":
    raise SystemExit(main())
