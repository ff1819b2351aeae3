"""``python -m fuzz.notations``: what must hold of messages written down, and of what is read back.

Messages and values, spoilt by chance, are written in every notation and read back; what was written
is spoilt, too, and read: in typed and plain JSON a place of the document is changed, in CBOR bytes.
A value or NotationError, whatever comes; what typed JSON and CBOR say is written again as it was.
Every so many inputs the pure build must give the same as the compiled one. What breaks this is kept
in fuzz/findings. Under sanitizers it runs as `fuzz.columns` does.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import amqp10msg
import amqp10msg.notation
from amqp10msg.interop.corpus import load
from fuzz import builds
from fuzz.builds import alike
from fuzz.columns import FINDINGS
from fuzz.findings import Findings
from fuzz.mutate import mutate

#: Of how many inputs one is compared with the pure build, which is slow.
COMPARED = 16
# What a place of a document becomes.
_OTHER: tuple[Any, ...] = (
    *(None, True, 0, -1, 255, 1 << 32, 1 << 64, 0.5, 1e400, "", "a", "\ud800", "0x41", "NaN"),
    *([], [[]], {}, {"": None}, ["int", 1], ["list", []], {"$described": [1, 2]}, "2026-01-31"),
    *(["array", "int", [1]], ["described", ["ulong", 112], ["list", []]], ["header", {}]),
)


def written(package: ModuleType, octets: bytes) -> Iterator[tuple[str, Any, Any]]:
    """Decode bytes as a message, leniently, and as a value, and write down what they are.

    Yields:
        The name of a notation, what was written, and what was decoded.
    """
    notation = package.notation
    made = []
    for read in (lambda: package.Message.decode(octets, strict=False), _value(package, octets)):
        try:
            made.append(read())
        except package.DecodeError:
            continue
    for value in made:
        for name in ("typed", "plain", "cbor"):
            try:
                yield name, getattr(notation, f"to_{name}")(value), value
            except (notation.NotationError, package.EncodeError) as error:
                yield name, error, value


def _value(package: ModuleType, octets: bytes) -> Any:
    return lambda: package.decode_value(octets)


def read_back(package: ModuleType, name: str, document: Any) -> Any:
    """Read what is written in a notation; return the value, or what is said to be wrong."""
    notation = package.notation
    try:
        made = getattr(notation, f"from_{name}")(document)
        # What is read can be written again.
        getattr(notation, f"to_{name}")(made)
    except (notation.NotationError, package.EncodeError, package.DecodeError) as error:
        return type(error).__name__, str(error)
    return made


def check(package: ModuleType, octets: bytes) -> list[Any]:
    """Write down what the bytes are, read it, and hold it to what was written.

    Raises:
        AssertionError: something else comes back.
    """
    found: list[Any] = []
    for name, given, value in written(package, octets):
        if isinstance(given, Exception):
            found.append((name, type(given).__name__, str(given)))
            continue
        document = given if name == "cbor" else json.loads(json.dumps(given))
        made = read_back(package, name, document)
        found += [(name, document), made]
        if name != "plain":
            again = getattr(package.notation, f"to_{name}")(made)
            if again != document or type(made) is not type(value):
                raise AssertionError(f"{name}: {again!r:.200} and {document!r:.200}")
    return found


def spoilt(document: Any, draw: random.Random) -> Any:
    """Change one place of a document of JSON."""
    made = copy.deepcopy(document)
    places: list[tuple[Any, Any]] = []
    left = [made]
    while left:
        one = left.pop()
        keys = one if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        places += [(one, key) for key in keys]
        left += [one[key] for key in keys if isinstance(one[key], dict | list)]
    if not places:
        return draw.choice(_OTHER)
    holder, key = draw.choice(places)
    way = draw.randrange(4)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(draw.choice(places)[0]))
    elif way == 1:
        holder[draw.choice(("", "a", "ttl", "body", "#1", str(key)))] = holder.pop(key)
    else:
        holder[key] = copy.deepcopy(draw.choice(_OTHER))
    return made


def main() -> int:
    """Run until the inputs are used up; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.notations", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=FINDINGS)
    chosen = parser.parse_args()
    other = builds.load(pure=True) if amqp10msg.COMPILED else None
    draw = random.Random(chosen.seed)
    known = [case.data for case in load()]
    begin = time.perf_counter()
    findings = Findings(chosen.findings, "notations")
    done = 0
    while done < chosen.inputs:
        octets = draw.choice(known) if draw.random() < 0.2 else mutate(known, draw)
        beside = other if draw.randrange(COMPARED) == 0 else None
        done += 1
        with findings.kept(octets):
            found = check(amqp10msg, octets)
            if beside is not None and not alike(found, check(beside, octets)):
                raise AssertionError("the builds write, or read, something else")
        for name, document, _ in list(written(amqp10msg, octets)):
            if isinstance(document, Exception):
                continue
            done += 1
            changed = mutate([document], draw) if name == "cbor" else spoilt(document, draw)
            kept = changed if name == "cbor" else json.dumps(changed).encode()
            with findings.kept(kept, name):
                one = read_back(amqp10msg, name, changed)
                if beside is not None and not alike(one, read_back(beside, name, changed)):
                    raise AssertionError("the builds read something else")
    print(f"{done} inputs, {findings.count} findings, {time.perf_counter() - begin:.0f} s")
    return 1 if findings.count else 0


if __name__ == "__main__":
    raise SystemExit(main())
