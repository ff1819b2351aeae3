"""What the tests of the jobs share: sound messages, files of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqp10msg import Message, Properties

pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")

import pyarrow.parquet as pq

SOUND = [
    Message(
        b"body %d" % i,
        properties=Properties(message_id=f"m-{i}"),
        application_properties={"n": i if i % 4 else str(i)},
    ).encode()
    for i in range(1_000)
]


def write(path: Path, wires: list[bytes]) -> Path:
    path.write_bytes(b"".join(len(wire).to_bytes(4, "big") + wire for wire in wires))
    return path


def read(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.parquet")):
        found += pq.ParquetFile(path).read().to_pylist()
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
