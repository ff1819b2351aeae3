"""``python -m fuzz``: mutate the corpus and feed it to every entry point, on both builds.

The contract: a value or DecodeError, whatever the octets; what was decoded encodes again, a
message byte for byte. Anything else is a finding: it is printed with its octets, and the exit
status is 1.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from contextlib import suppress

import amqp10msg
from amqp10msg import DecodeError, Header, Message, decode_value, encode_value, scan
from amqp10msg.corpus import load
from amqp10msg.primitives import FORMAT_CODES

_OCTETS = (0x00, 0x01, 0x7F, 0x80, 0xFF)
_WORDS = (b"\0\0\0\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x01")
_CODES = (0x00, *FORMAT_CODES)


def mutate(seeds: list[bytes], draw: random.Random) -> bytes:
    """Change one of the seeds in one to four places."""
    octets = bytearray(draw.choice(seeds))
    for _ in range(draw.randint(1, 4)):
        if not octets:
            break
        at = draw.randrange(len(octets))
        way = draw.randrange(7)
        if way == 0:
            octets[at] = draw.choice(_OCTETS)
        elif way == 1:
            octets[at] = draw.choice(_CODES)
        elif way == 2:
            octets[at : at + 4] = draw.choice(_WORDS)
        elif way == 3:
            del octets[at : at + draw.randint(1, 8)]
        elif way == 4:
            other = draw.choice(seeds)
            begin = draw.randrange(len(other) + 1)
            octets[at:at] = other[begin : begin + draw.randint(1, 40)]
        elif way == 5:
            octets[at] = draw.getrandbits(8)
        else:
            del octets[at:]
    return bytes(octets)


def check(octets: bytes) -> None:
    """Feed the octets to every entry point.

    Raises:
        Exception: anything that the contract does not allow.
    """
    with suppress(DecodeError):
        once = encode_value(decode_value(octets))
        if encode_value(decode_value(once)) != once:
            raise AssertionError("a value encodes differently the second time")
    for strict in (True, False):
        try:
            message = Message.decode(octets, strict=strict)
        except DecodeError:
            continue
        message.sections()
        if message.encode() != octets:
            raise AssertionError("an unchanged message does not encode as it came")
        Message.decode(message.evolve(header=None).encode(), strict=strict)
    with suppress(DecodeError):
        scan(octets).replace(header=Header(priority=1))


def run(runs: int, seconds: float, seed: int) -> int:
    """Fuzz the build that runs; give the number of findings."""
    draw = random.Random(seed)
    seeds = [case.data for case in load()]
    findings = done = 0
    began = time.perf_counter()
    while done < runs and time.perf_counter() - began < seconds and findings < 10:
        octets = mutate(seeds, draw)
        done += 1
        try:
            check(octets)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is a finding)
            findings += 1
            print(f"{type(error).__name__}: {error}\n    {octets.hex()}")
    build = "compiled" if amqp10msg.COMPILED else "pure"
    print(f"{build}: {done} inputs, {findings} findings, seed {seed}", flush=True)
    return findings


def main() -> int:
    """Fuzz this build and then, unless told otherwise, the pure one."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000_000, help="inputs a build, at most")
    parser.add_argument("--seconds", type=float, default=300, help="seconds a build, at most")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (default 1)")
    parser.add_argument("--one", action="store_true", help="only the build that is chosen")
    chosen = parser.parse_args()
    findings = run(chosen.runs, chosen.seconds, chosen.seed)
    if amqp10msg.COMPILED and not chosen.one:
        arguments = [f"--{name}={getattr(chosen, name)}" for name in ("runs", "seconds", "seed")]
        pure = subprocess.run(
            [sys.executable, "-m", "fuzz", "--one", *arguments],
            env={**os.environ, "AMQP10MSG_PURE": "1"},
            check=False,
        )
        findings += pure.returncode
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
