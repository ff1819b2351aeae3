"""Translate messages to the other protocol and back in Spark, and compare the bytes.

    python tools/spark_round_trips.py --count 1000000

Half of the messages go 1.0 -> 0-9-1 -> 1.0, the other half 0-9-1 -> 1.0 -> 0-9-1, in the profile
lossless, by two calls of `amqp10msg.spark.translate`: usual messages and odd ones (`odd_messages`).
Each message must return as the same bytes: the encoded message, or content header, payload,
exchange, routing key and redelivered flag. Counted separately are refused messages (undecodable
ones, and texts that are not UTF-8) by reason, and messages whose difference was reported, by the
path of the loss: a header that only RabbitMQ adds, such as `x-stream-offset`, is removed from a
delivered message. Messages that return unchanged count as such, whatever losses were reported.

The exit status is 1 if another message differs.
"""

from __future__ import annotations

import argparse
import random
import reprlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from odd_messages import basic_message, sections, written
from pyspark.sql import functions as F  # noqa: N812  (so everybody calls it)

from amqp10msg import spark
from amqp10msg.basic import BasicMessage, encode_content_header
from amqp10msg.jobs.translating import BASIC

Protocol = Literal["1.0", "0-9-1"]
WIRE = pa.schema([("wire", pa.binary())])
# Messages per file.
_FILE = 25_000
# Differing messages that are printed.
_SHOWN = 5
# Combinations of paths that are printed.
_REASONS = 20
# A refused message has no losses.
_LOST = (
    "coalesce(transform(filter(losses, loss -> not loss.recoverable), loss -> loss.path), array())"
)
# Exchanges and routing keys, some of which a 1.0 address cannot express.
_PLACES = ["", "amq.direct", "orders", "q/ü 1", "a\0b", "k" * 255]


@attrs.frozen
class Found:
    """Counts of messages by result.

    Attributes:
        messages: all messages.
        refused: refused messages, by direction and reason.
        same: messages that returned as the same bytes.
        reported: messages that returned with other bytes and a reported permanent loss, by the
            paths of these losses.
        differing: messages that were lost, or returned with other bytes without such a report.
        samples: some of the differing messages, by column.
    """

    messages: int
    refused: dict[str, int]
    same: int
    reported: dict[str, int]
    differing: int
    samples: tuple[dict[str, Any], ...]


def amqp10_table(chosen: random.Random, count: int) -> pa.Table:
    """Draw encoded messages of 1.0."""
    wires = [b"".join(map(written, sections(chosen))) for _ in range(count)]
    return pa.table({"wire": pa.array(wires, pa.binary())})


def basic_table(messages: Iterable[BasicMessage]) -> pa.Table:
    """Return 0-9-1 messages in the columns of `amqp10msg.spark.translate`."""
    rows = [
        {
            "content_header": encode_content_header(one.properties, len(one.body)),
            "payload": one.body,
            "exchange": one.exchange,
            "routing_key": one.routing_key,
            "redelivered": one.redelivered,
        }
        for one in messages
    ]
    return pa.Table.from_pylist(rows, BASIC)


def basic_messages(chosen: random.Random, count: int) -> Iterator[BasicMessage]:
    """Draw messages of 0-9-1."""
    for _ in range(count):
        yield attrs.evolve(
            basic_message(chosen),
            exchange=chosen.choice(_PLACES),
            routing_key=chosen.choice(_PLACES),
            redelivered=chosen.random() < 0.2,
        )


def _write(seed: int, folder: Path, part: tuple[Protocol, int, int]) -> None:
    protocol, number, count = part
    chosen = random.Random(f"{seed} {protocol} {number}")
    if protocol == "1.0":
        table = amqp10_table(chosen, count)
    else:
        table = basic_table(basic_messages(chosen, count))
    pq.write_table(table, folder / protocol / f"{number:05}.parquet")


def write(folder: Path, count: int, seed: int) -> None:
    """Write `count` messages, half of each protocol, into folders with these names."""
    halves: dict[Protocol, int] = {"1.0": count - count // 2, "0-9-1": count // 2}
    parts = []
    for protocol, half in halves.items():
        (folder / protocol).mkdir(parents=True)
        parts += [
            (protocol, begin // _FILE, min(_FILE, half - begin)) for begin in range(0, half, _FILE)
        ]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(partial(_write, seed, folder), parts))


def there_and_back(df: Any, to: Protocol) -> Found:
    """Translate messages to the other protocol and back in Spark, and compare them.

    Args:
        df: messages in the columns of `amqp10msg.spark.translate` for `to`.
        to: the first target protocol.
    """
    names = WIRE.names if to == "0-9-1" else BASIC.names
    given = df.select(*names, *(F.col(name).alias(f"given_{name}") for name in names))
    kept = [f"given_{name}" for name in names]
    # Permanent losses, the reason of a refusal, and the translated message.
    there = spark.translate(given, to, keep=kept).withColumn("lost", F.expr(_LOST))
    there = there.withColumnRenamed("error_code", "refused")
    there = there.drop("losses", "error_clause", "error_offset", "error_text")
    home: Protocol = "0-9-1" if to == "1.0" else "1.0"
    back = spark.translate(there, home, keep=[*kept, "lost", "refused"])
    same = F.col("error_code").isNull()
    for name in names:
        same &= F.col(name).eqNullSafe(F.col(f"given_{name}"))
    judged = back.withColumn("same", same).withColumn("lost", F.expr(f"concat(lost, {_LOST})"))
    counts = judged.groupBy("refused", "lost", "same").count().collect()
    refused = {
        f"to {to}: {row['refused']}": row["count"] for row in counts if row["refused"] is not None
    }
    others = [row for row in counts if row["refused"] is None and not row["same"]]
    same = sum(row["count"] for row in counts if row["refused"] is None and row["same"])
    differing = sum(row["count"] for row in others if not row["lost"])
    samples: tuple[dict[str, Any], ...] = ()
    if differing:
        shown = judged.where("refused is null and size(lost) = 0 and not same").limit(_SHOWN)
        samples = tuple(row.asDict() for row in shown.collect())
    reported: Counter[str] = Counter()
    for row in others:
        if row["lost"]:
            reported[", ".join(sorted({*row["lost"]}))] += row["count"]
    return Found(
        sum(row["count"] for row in counts), refused, same, dict(reported), differing, samples
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="messages of both protocols")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from")
    parser.add_argument("--master", default="local[2]", help="where Spark runs")
    options = parser.parse_args(arguments)
    differing = 0
    with tempfile.TemporaryDirectory(prefix="amqp10msg-") as name:
        began = time.monotonic()
        write(Path(name), options.count, options.seed)
        print(f"{options.count:,} messages drawn in {time.monotonic() - began:,.0f} s", flush=True)
        session = spark.session(options.master, config={"spark.log.level": "ERROR"})
        try:
            ways: tuple[tuple[Protocol, Protocol], ...] = (("1.0", "0-9-1"), ("0-9-1", "1.0"))
            for source, to in ways:
                began = time.monotonic()
                found = there_and_back(session.read.parquet(f"{name}/{source}"), to)
                seconds = time.monotonic() - began
                print(
                    f"{source} -> {to} -> {source}: {found.messages:,} messages, "
                    f"{found.same:,} the same, {sum(found.refused.values()):,} refused, "
                    f"{sum(found.reported.values()):,} that differ as reported, "
                    f"{found.differing:,} others that differ, {seconds:,.0f} s"
                )
                for reason, count in sorted(found.refused.items()):
                    print(f"  refused {reason}: {count:,}")
                for paths, count in Counter(found.reported).most_common(_REASONS):
                    print(f"  reported {paths}: {count:,}")
                for sample in found.samples:
                    print(f"  {reprlib.repr(sample)}")
                sys.stdout.flush()
                differing += found.differing
        finally:
            session.stop()
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
