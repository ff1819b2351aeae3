"""What the workers of Spark do with batches; without Spark."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from amqp10msg.spark._frames import append_columns  # noqa: E402

pytestmark = pytest.mark.once

NEW = pa.schema([("size", pa.int64())])


def test_columns_come_first_and_are_renamed() -> None:
    given = pa.record_batch({"c0": ["a", "b"], "c1": [b"x", b"yz"]})

    def work(batch: Any) -> list[Any]:
        return [pa.array([len(cell) for cell in batch.column("wire").to_pylist()], pa.int32())]

    (made,) = append_columns(iter([given]), work, NEW, ["id", "wire"], 1)

    assert [{"id": "a", "size": 1}, {"id": "b", "size": 2}] == made.to_pylist()
    assert pa.int64() == made.schema.field("size").type


def test_batch_is_released_before_the_next_is_read() -> None:
    known: list[weakref.ref[Any]] = []
    held = []

    def batches() -> Iterator[Any]:
        for _ in range(3):
            held.append(sum(ref() is not None for ref in known))
            batch = pa.record_batch({"c0": [b"x"]})
            known.append(weakref.ref(batch))
            yield batch
            del batch

    def work(batch: Any) -> list[Any]:
        array = pa.array([1], pa.int64())
        known.extend((weakref.ref(batch), weakref.ref(array)))
        return [array]

    for made in append_columns(batches(), work, NEW, ["wire"], 1):
        known.append(weakref.ref(made))
        del made

    assert [0, 0, 0] == held
    assert 12 == len(known)
