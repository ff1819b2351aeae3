"""``python -m fuzz.batches``: compare the kernel of `translate.batches` with the translator.

Both translate batches of randomly mutated messages to 0-9-1 and to 1.0, losslessly and in every
RabbitMQ profile. Any difference in a byte, a loss or an error is printed, and its input is stored
in fuzz/findings.

Under sanitizers, build a copy of the tree with AMQP10MSG_SANITIZE and run this in it with libasan
preloaded and PYTHONMALLOC=malloc: the messages of a batch end where their memory ends.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from amqp10msg import AmqpError, Message
from amqp10msg.basic import encode_content_header
from amqp10msg.jobs.translating import BASIC, Translator
from amqp10msg.translate import PROFILES as KNOWN
from amqp10msg.translate import _single, to_amqp10, to_basic
from amqp10msg.translate.batches import kernel
from bench.messages import GENERAL, GENERAL_VALUE, REFERENCE
from bench.translation import BODY, HEADER
from fuzz.columns import FINDINGS, exactly, seeds
from fuzz.mutate import mutate

BROKERS = tuple(profile for profile in KNOWN if profile.startswith("rabbitmq-"))
PROFILES = ("lossless", *BROKERS)
TO_BASIC = {profile: Translator("0-9-1", profile) for profile in PROFILES}
TO_AMQP10 = {profile: Translator("1.0", profile) for profile in PROFILES}
# Usual messages, which the kernel translates without fallback.
_USUAL = (GENERAL, GENERAL_VALUE, REFERENCE)


def canonical(known: Sequence[bytes]) -> list[bytes]:
    """Return the decodable messages, re-encoded by this library."""
    found = list(_USUAL)
    for octets in known:
        try:
            message = Message.decode(octets)
            found.append(message.evolve(body=message.body).encode())
            found.append(to_amqp10(to_basic(message).message).message.encode())
        except AmqpError:
            continue
    return found


def contents(known: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the content headers and payloads of translated messages."""
    found = [(HEADER, BODY)]
    for octets in known:
        try:
            message = Message.decode(octets)
        except AmqpError:
            continue
        basics = []
        for profile in ("lossless", "rabbitmq-3.10", "rabbitmq-4.0"):
            with contextlib.suppress(AmqpError):
                basics.append(to_basic(message, KNOWN[profile]).message)
        found += [
            (encode_content_header(made.properties, len(made.body)), made.body) for made in basics
        ]
    return found


@contextlib.contextmanager
def plain_rules() -> Iterator[None]:
    """Make single messages be translated by the plain rules, without the engine."""
    known = _single._engine_for
    vars(_single)["_engine_for"] = lambda *_: None
    try:
        yield
    finally:
        vars(_single)["_engine_for"] = known


def differs(translator: Translator, given: dict[str, Any]) -> bool:
    """Whether the kernel and the translator differ."""
    found = translator.run(given)
    with plain_rules():
        expected = translator._run_by_row(given)
    for column in found.values():
        column.validate(full=True)
    return any(found[name].to_pylist() != expected[name].to_pylist() for name in expected)


def columns_of(rows: Sequence[tuple[bytes, bytes]], draw: random.Random) -> dict[str, Any]:
    """Return the columns of 0-9-1 messages, some with delivery data or redelivered."""
    exchange = [draw.choice(("", "", "", "e", None)) for _ in rows]
    return {
        "content_header": exactly([header for header, _ in rows]),
        "payload": exactly([body for _, body in rows]),
        "exchange": pa.array(exchange, pa.string()),
        "routing_key": pa.array(["k" if name else None for name in exchange], pa.string()),
        "redelivered": pa.array([draw.choice((False, False, True, None)) for _ in rows]),
    }


def main() -> int:
    """Run the given number of batches; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.batches", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", nargs="+", choices=PROFILES, help="all by default")
    chosen = parser.parse_args()
    if kernel("0-9-1", "lossless") is None:
        parser.error("the kernel is not compiled: python setup.py build_ext --inplace")
    draw = random.Random(chosen.seed)
    wires = canonical(seeds())
    basics = contents(wires)
    headers = [header for header, _ in basics]
    begin = time.perf_counter()
    done = differ = 0
    while done < chosen.inputs:
        size = draw.choice((1, 3, 40))
        octets = [
            draw.choice(wires) if draw.random() < 0.3 else mutate(wires, draw) for _ in range(size)
        ]
        rows = [draw.choice(basics) for _ in range(size)]
        rows = [
            one if draw.random() < 0.3 else (mutate([one[0], draw.choice(headers)], draw), one[1])
            for one in rows
        ]
        columns = columns_of(rows, draw)
        if set(columns) != set(BASIC.names):
            raise RuntimeError("a message of 0-9-1 has other columns")
        # Every fourth batch is lossless, the profile with the most rules.
        profile = draw.choice(chosen.profile or ("lossless", "lossless", *BROKERS))
        wire = {"wire": exactly(octets)}
        for translator, given in ((TO_BASIC[profile], wire), (TO_AMQP10[profile], columns)):
            if differs(translator, given):
                differ += 1
                said = {name: [repr(one) for one in c.to_pylist()] for name, c in given.items()}
                joined = json.dumps(said)
                FINDINGS.mkdir(exist_ok=True)
                name = f"batches-{hashlib.sha256(joined.encode()).hexdigest()[:16]}"
                (FINDINGS / name).write_text(joined, encoding="utf-8")
                print(f"FINDING {name}", file=sys.stderr, flush=True)
        done += 2 * size
    print(f"{done} inputs, {differ} differences, {time.perf_counter() - begin:.0f} s")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
