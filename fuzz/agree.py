"""``python -m fuzz --agree COUNT``: compare both builds on COUNT random inputs.

Without coverage guidance one core compares thousands of short inputs per second. For each input,
both builds of the kernel must have the same results: the value or the error (rule, offset, path,
condition and reason) of strict and lenient decoding, the re-encoded bytes, the sections of `scan`,
and the violations of `validate`.
"""

from __future__ import annotations

import gc
import gzip
import json
import random
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType

import amqp10msg
import amqp10msg.delivery  # registers its composites, as the other copy of the package does
from amqp10msg.interop.corpus import load
from fuzz import builds
from fuzz.check import agreement
from fuzz.findings import Findings
from fuzz.kernels import FOLDER, ROOT
from fuzz.mutate import mutate
from fuzz.shapes import parse, reshape, write

VECTORS = ROOT / "tests" / "vectors"
#: Bytes of the longest seed: longer ones take too long here, and are used when fuzzing one build.
LONGEST = 96
#: Inputs between two progress lines.
TOLD = 100_000


def seeds(grown: Path) -> list[bytes]:
    """Return the short inputs of the corpus, the recordings, and coverage-guided runs.

    Args:
        grown: the folder of inputs from coverage-guided runs; it may be missing.
    """
    found = {case.data for case in load()}
    for name in ("recorded", "translations", "odd_translations"):
        with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            entries = [json.loads(line) for line in lines]
        found.update(
            bytes.fromhex(entry[key])
            for entry in entries
            for key in ("raw", "message")
            if isinstance(entry.get(key), str)
        )
    if grown.is_dir():
        found.update(path.read_bytes() for path in grown.iterdir())
    return sorted(octets for octets in found if len(octets) <= LONGEST)


def inputs(known: list[bytes], draw: random.Random) -> Iterator[bytes]:
    """Yield the seeds, then endless mutations of their bytes, their values, or both."""
    yield from known
    trees = [tree for octets in known if (tree := parse(octets)) is not None and len(tree) > 1]
    messages = [tree for tree in trees if is_message(write(tree))]
    while True:
        way = draw.randrange(8)
        if way == 0:
            yield mutate(known, draw)
        elif way == 1:
            yield mutate([reshape(messages, draw)], draw)
        elif way == 2:
            yield reshape(trees, draw)
        else:
            yield reshape(messages, draw)


def is_message(octets: bytes) -> bool:
    """Whether the bytes are a valid message."""
    try:
        amqp10msg.Message.decode(octets)
    except amqp10msg.DecodeError:
        return False
    return True


class Comparison:
    """Compares two builds, and counts the inputs on which they agree.

    Args:
        other: the package with the other build of the kernel.
        findings: the folder for inputs on which the builds differ or one of them fails.
    """

    def __init__(self, other: ModuleType, findings: Path) -> None:
        self.other = other
        self.findings = Findings(findings, "agree")
        self.inputs = 0
        self.decoded = 0

    def __call__(self, octets: bytes) -> None:
        """Compare the builds on one input.

        Raises:
            RuntimeError: the limit of findings is reached.
        """
        self.inputs += 1
        with self.findings.kept(octets):
            self.decoded += agreement(amqp10msg, self.other, octets)

    def told(self, spent: float) -> str:
        """Return the progress line after this number of seconds of processor time."""
        return (
            f"agree: {self.inputs:,} inputs, {self.decoded:,} of them messages, "
            f"{self.inputs / max(spent, 1e-6):.0f} a second, {self.findings.count} findings"
        )


def run(
    count: int,
    seed: int,
    *,
    seconds: float | None,
    grown: Path,
    findings: Path,
    clock: Callable[[], float] = time.process_time,
) -> int:
    """Compare both builds on `count` inputs; return the number of findings.

    Args:
        count: the number of inputs.
        seed: the seed of the mutations.
        seconds: the limit of processor time in s; None for no limit.
        grown: the argument of `seeds`.
        findings: the argument of `Comparison`.
        clock: returns the processor time in s.

    Raises:
        RuntimeError: the kernel is not compiled.
    """
    if not amqp10msg.COMPILED:
        raise RuntimeError("the kernel is not compiled: make setup, and no AMQP10MSG_PURE")
    comparison = Comparison(builds.load(pure=True), findings)
    known = seeds(grown)
    begin = clock()
    FOLDER.mkdir(parents=True, exist_ok=True)
    was_frozen = gc.get_freeze_count() > 0  # the caller has frozen objects: keep them frozen
    gc.freeze()  # exempt the two packages and the seeds from garbage collection
    try:
        with (FOLDER / f"agree-{seed}.last").open("wb", buffering=0) as last:
            for octets in islice(inputs(known, random.Random(seed)), count):
                if comparison.inputs % TOLD == 0 and comparison.inputs:
                    print(comparison.told(clock() - begin), flush=True)
                if seconds and comparison.inputs % 64 == 0 and clock() - begin >= seconds:
                    break
                # Stored before it runs, in case the process crashes.
                last.seek(0)
                last.truncate()
                last.write(octets)
                comparison(octets)
    finally:
        if not was_frozen:
            gc.unfreeze()
        print(comparison.told(clock() - begin), flush=True)
    return comparison.findings.count
