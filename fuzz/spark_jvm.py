"""``python -m fuzz.spark_jvm``: the JVM's decoder of `amqp10msg.spark` against that of Python.

Spark draws mutated messages in its workers, has the JVM decode those that it takes for usual, and
compares their rows with what `amqp10msg.columns.decode` makes of them, cell for cell and bit for
bit. The rows that the JVM leaves to Python would be compared with themselves: they are counted. A
difference is printed, and its message kept in fuzz/findings.

It takes PySpark and Java, and compiles the jar where that is not built yet.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

from amqp10msg import DecodeError, Message, spark
from amqp10msg.columns import MapsAs, decode
from amqp10msg.jobs.job import decoded, schema_for_spark
from amqp10msg.spark._frames import mapped
from amqp10msg.spark._jvm import EXTENSION, marks
from fuzz.columns import FINDINGS, same, seeds
from fuzz.mutate import mutate

ROOT = Path(__file__).resolve().parents[1]
# Written in the place of the code of an error where the JVM left a row to Python.
_ODD = "odd"
_SQL_TYPES = ("bigint", "double", "boolean", "timestamp", "binary")
_ENTRIES = ("k", "x", "tenant", "a", "JMSXGroupID")


@attrs.frozen
class Projection:
    """Columns that are asked for."""

    columns: str | tuple[str, ...]
    maps: MapsAs

    @property
    def names(self) -> list[str]:
        """The columns, and that of the code of an error."""
        schema = decode(pa.array([], pa.binary()), self.columns, maps=self.maps).schema
        listed = schema.names if isinstance(self.columns, str) else list(self.columns)
        return [name for name in listed if name != "error"] + ["error_code"] * (
            "error_code" not in listed
        )


PROJECTIONS = (
    Projection("all", "map"),
    Projection("all", "variant"),
    Projection("lean", "variant"),
    Projection("lean", "map"),
    Projection(("message_id", "application_properties.tenant string", "wire"), "map"),
    # Texts of numbers are Python's, so a row of such a column says nothing of the others.
    Projection(tuple(f"application_properties.{key} string" for key in _ENTRIES), "map"),
    Projection(
        tuple(
            f"application_properties.{key} {kind} as {key}_{kind}"
            for key in _ENTRIES
            for kind in _SQL_TYPES
        ),
        "map",
    ),
    Projection(
        (
            *(f"application_properties.{key}" for key in _ENTRIES),
            *("message_annotations.x-opt-to", "application_properties", "footer.k"),
        ),
        "map",
    ),
    Projection(
        (
            *("application_properties", "application_properties.k bigint", "body_value"),
            *("message_annotations", "message_annotations.k string as annotated", "body_text"),
        ),
        "variant",
    ),
    Projection(("body_text", "body_json"), "map"),
    Projection(("body_kind", "body_sections", "section_offsets"), "map"),
    Projection(("body_lengths",), "map"),
    Projection(("has_properties", "body_lengths", "body_json"), "map"),
    Projection(("creation_time_ms", "message_id_type", "to", "footer"), "map"),
)


@attrs.define
class Counts:
    """What came of some messages."""

    inputs: int = 0
    left: int = 0
    differ: int = 0


def known() -> list[bytes]:
    """Return the seeds of `fuzz.columns`, those that decode more often than those that do not."""
    found = seeds()
    sound = [octets for octets in found if _decodes(octets)]
    return sound * 4 + found


def others() -> list[bytes]:
    """Return the messages of other projects, where AMQP10MSG_VECTORS names their folder."""
    folder = os.environ.get("AMQP10MSG_VECTORS")
    if folder is None:
        return []
    with gzip.open(Path(folder, "cases.jsonl.gz"), "rt", encoding="utf-8") as lines:
        cases = map(json.loads, lines)
        return [bytes.fromhex(case["hex"]) for case in cases]


def _decodes(octets: bytes) -> bool:
    try:
        Message.decode(octets)
    except DecodeError:
        return False
    return True


def _drawing(seed: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what makes a message of each number; one of fifty is null."""
    inputs = known()

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            chance = random.Random(f"{seed}-{batch.column(0)[0].as_py() if len(batch) else 0}")
            octets = [
                None
                if chance.random() < 0.02
                else chance.choice(inputs)
                if chance.random() < 0.3
                else mutate(inputs, chance)
                for _ in range(len(batch))
            ]
            yield pa.record_batch({"raw": pa.array(octets, pa.binary())})

    return draw


def _compared(
    projection: Projection,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    names = projection.names
    place = 1 + names.index("error_code")

    def compare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            codes = batch.column(place).to_pylist()
            own = pa.array([row for row, code in enumerate(codes) if code != _ODD], pa.int64())
            taken = batch.take(own)
            expected = decoded(taken.column(0), names, maps=projection.maps)
            arrays = [
                array if array.type == field.type else array.cast(field.type)
                for array, field in zip(taken.columns[1:], expected.schema, strict=True)
            ]
            found = pa.RecordBatch.from_arrays(arrays, schema=expected.schema)
            unlike = []
            if not same(found, expected):
                unlike = [
                    taken.column(0)[row].as_py()
                    for row in range(len(own))
                    if not same(found.slice(row, 1), expected.slice(row, 1))
                ]
            yield pa.record_batch(
                {
                    "inputs": pa.array([len(batch)], pa.int64()),
                    "left": pa.array([len(batch) - len(own)], pa.int64()),
                    "differ": pa.array([unlike], pa.list_(pa.binary())),
                }
            )

    return compare


def _left(batch: pa.RecordBatch, schema: pa.Schema) -> Sequence[pa.Array]:
    """Return what stands for the rows that the JVM leaves to Python."""
    return [
        pa.array([_ODD] * len(batch), pa.string())
        if field.name == "error_code"
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]


def compare(session: Any, projection: Projection, inputs: int, seed: str) -> Counts:
    """Compare the decoders on so many mutated messages."""
    names = projection.names
    empty = decoded(pa.array([], pa.binary()), names, None, maps=projection.maps)
    schema = schema_for_spark(empty.schema)
    raw = session.range(inputs, numPartitions=8).mapInArrow(_drawing(seed), "raw binary")
    read = mapped(
        raw,
        lambda batch: _left(batch, schema),
        empty.schema,
        keep=["raw"],
        read=["raw"],
        marks=marks("raw", None, names, projection.maps),
    )
    return _counted(read, projection)


def compare_whole(session: Any, projection: Projection, messages: Sequence[bytes | None]) -> Counts:
    """Compare the rows of `amqp10msg.spark.decode` on messages, odd ones as well."""
    raw = session.createDataFrame(pa.table({"raw": pa.array(messages, pa.binary())}))
    read = spark.decode(
        raw,
        "raw",
        columns=projection.names,
        maps=projection.maps,
        keep=["raw"],
        engine="jvm",
    )
    return _counted(read, projection)


def _counted(read: Any, projection: Projection) -> Counts:
    """Compare rows, and keep the messages on which they differ."""
    made = "inputs long, left long, differ array<binary>"
    counts = Counts()
    # mapInArrow of PySpark 4.3 takes a dot in a name for the way into a struct.
    plain = read.toDF("raw", *(f"c{place}" for place in range(len(projection.names))))
    for row in plain.mapInArrow(_compared(projection), made).toLocalIterator():
        counts.inputs += row["inputs"]
        counts.left += row["left"]
        counts.differ += len(row["differ"])
        for octets in row["differ"]:
            FINDINGS.mkdir(exist_ok=True)
            name = f"spark-jvm-{hashlib.sha256(octets or b'').hexdigest()[:16]}"
            (FINDINGS / name).write_bytes(octets or b"")
            print(f"FINDING {name}: {projection}", file=sys.stderr, flush=True)
    return counts


def main() -> int:
    """Run until the inputs are used up; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.spark_jvm", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--master", default="local[2]")
    chosen = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tools"))
    from build_spark_jvm import jar  # noqa: PLC0415  (a tool, which is no package)

    config = {
        "spark.jars": str(jar()),
        "spark.sql.extensions": EXTENSION,
        "spark.log.level": "ERROR",
    }
    session = spark.session(chosen.master, config=config)
    total = Counts()
    whole: list[bytes | None] = [*seeds(), *others(), None, b""]
    begin = time.perf_counter()
    try:
        for number, projection in enumerate(PROJECTIONS):
            one = compare_whole(session, projection, whole)
            total.inputs += one.inputs
            total.differ += one.differ
            print(json.dumps({"whole": number, **attrs.asdict(one)}), flush=True)
        for number, projection in enumerate(PROJECTIONS):
            share = chosen.inputs // len(PROJECTIONS) + 1
            one = compare(session, projection, share, f"{chosen.seed}-{number}")
            total.inputs += one.inputs
            total.left += one.left
            total.differ += one.differ
            print(json.dumps({"projection": number, **attrs.asdict(one)}), flush=True)
    finally:
        session.stop()
    seconds = time.perf_counter() - begin
    print(
        f"{total.inputs} inputs, {total.left} left to Python, {total.differ} differences, "
        f"{seconds:.0f} s"
    )
    return 1 if total.differ else 0


if __name__ == "__main__":
    sys.exit(main())
