"""``python -m fuzz --agree COUNT``: both builds side by side, on so many inputs made by chance.

No coverage guides it, so that it is quick: thousands of short inputs a second on one core. For
each, both builds of the kernel must come to the same: the value or the error (rule, offset, path,
condition and reason) of decoding, strictly and leniently, what is encoded again, what `scan` finds,
and what `validate` says.
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
#: Longer seeds take the time of many short ones, and are left to the fuzzing of each build.
LONGEST = 96
#: After so many inputs it says how far it is.
TOLD = 100_000


def seeds(grown: Path) -> list[bytes]:
    """Return the short ones of the corpus, of the recorded messages, and of what coverage grew.

    Args:
        grown: the folder of what coverage grew; it need not be there.
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
    """Yield the seeds, then changes of them without end: of their bytes, their values, or both."""
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
    """Whether the bytes are one message, read strictly."""
    try:
        amqp10msg.Message.decode(octets)
    except amqp10msg.DecodeError:
        return False
    return True


class Comparison:
    """Two builds, and how often they agreed.

    Args:
        other: the package with the other build of the kernel.
        findings: the folder for inputs on which they differ, or of which one of them fails.
    """

    def __init__(self, other: ModuleType, findings: Path) -> None:
        self.other = other
        self.findings = Findings(findings, "agree")
        self.inputs = 0
        self.decoded = 0

    def __call__(self, octets: bytes) -> None:
        """Compare the builds on one input.

        Raises:
            RuntimeError: there are so many findings that one more says nothing.
        """
        self.inputs += 1
        with self.findings.kept(octets):
            self.decoded += agreement(amqp10msg, self.other, octets)

    def told(self, spent: float) -> str:
        """Return what there is to say after so many seconds of processor time."""
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
    """Compare both builds on so many inputs; return the number of findings.

    Args:
        count: of inputs.
        seed: of the changes.
        seconds: of processor time that it may take at most; as long as it takes where None.
        grown: as `seeds` takes it.
        findings: as `Comparison` takes it.
        clock: tells the seconds of processor time.

    Raises:
        RuntimeError: the kernel is not compiled.
    """
    if not amqp10msg.COMPILED:
        raise RuntimeError("the kernel is not compiled: make setup, and no AMQP10MSG_PURE")
    comparison = Comparison(builds.load(pure=True), findings)
    known = seeds(grown)
    begin = clock()
    FOLDER.mkdir(parents=True, exist_ok=True)
    was_frozen = gc.get_freeze_count() > 0  # by the caller, who wants it to stay so
    gc.freeze()  # two packages and the seeds: what is there to stay need not be walked
    try:
        with (FOLDER / f"agree-{seed}.last").open("wb", buffering=0) as last:
            for octets in islice(inputs(known, random.Random(seed)), count):
                if comparison.inputs % TOLD == 0 and comparison.inputs:
                    print(comparison.told(clock() - begin), flush=True)
                if seconds and comparison.inputs % 64 == 0 and clock() - begin >= seconds:
                    break
                # Where it can be found if the process dies of it.
                last.seek(0)
                last.truncate()
                last.write(octets)
                comparison(octets)
    finally:
        if not was_frozen:
            gc.unfreeze()
        print(comparison.told(clock() - begin), flush=True)
    return comparison.findings.count
