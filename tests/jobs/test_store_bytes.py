"""How many bytes of a store a job asks for: each about once, and none that it does not need."""

from __future__ import annotations

import functools
import gzip
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import Message, files, jobs  # noqa: E402
from amqp10msg.files.stores import StoreLocation  # noqa: E402
from amqp10msg.jobs import Job, made_files  # noqa: E402
from tests.jobs.local_store import s3_server  # noqa: E402
from tests.jobs.test_damaged_parquet import damaged_input  # noqa: E402

pytestmark = pytest.mark.once


@functools.cache
def messages() -> list[bytes]:
    """Return 25 MB of encoded messages, which cannot be compressed.

    They fill row groups of several pieces, and of less than one.
    """
    random = Random(1)
    return [Message(random.randbytes(50_000)).encode() for _ in range(500)]


def size_of_messages() -> int:
    return sum(map(len, messages()))


@attrs.define
class Traffic:
    """What was asked of the server, in bytes, by the key of the file."""

    fetched: dict[str, int] = attrs.field(factory=lambda: defaultdict(int))
    requests: dict[str, int] = attrs.field(factory=lambda: defaultdict(int))
    sent: dict[str, int] = attrs.field(factory=lambda: defaultdict(int))
    uploads: dict[str, int] = attrs.field(factory=lambda: defaultdict(int))


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with s3_server() as running:
        yield running


@pytest.fixture
def lake(server: Any) -> str:  # noqa: ARG001  (it is there)
    return f"s3://lake/{uuid.uuid4().hex}"


@pytest.fixture
def traffic(server: Any, monkeypatch: pytest.MonkeyPatch) -> Traffic:  # noqa: ARG001
    from werkzeug.serving import WSGIRequestHandler  # noqa: PLC0415  (of the server)

    seen = Traffic()

    def log(self: Any, code: Any = "-", size: Any = "-") -> None:  # noqa: ARG001
        key = "s3://" + self.path.partition("?")[0].strip("/")
        if self.command == "PUT":
            sent = self.headers.get("x-amz-decoded-content-length") or self.headers.get(
                "Content-Length", 0
            )
            seen.sent[key] += int(sent)
        elif self.command == "POST":
            seen.uploads[key] += 1
        elif self.command == "GET" and "?" not in self.path:
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
            assert wanted is not None, self.path
            seen.fetched[key] += int(wanted[2]) - int(wanted[1]) + 1
            seen.requests[key] += 1

    monkeypatch.setattr(WSGIRequestHandler, "log_request", log)
    return seen


def put(url: str, content: bytes) -> int:
    StoreLocation.of(url).write(content)
    return len(content)


def parquet(url: str, rows: int, **columns: Any) -> int:
    sink = pa.BufferOutputStream()
    table = pa.table({"wire": messages(), **columns})
    pq.write_table(table, sink, row_group_size=rows, compression="none")
    return put(url, sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    "rows, workers, octets",
    [(500, 1, 1 << 30), (50, 1, 1 << 30), (50, 1, 1 << 20), (250, 2, 1)],
    ids=["one-row-group", "row-groups", "parts", "workers"],
)
def test_parquet_is_fetched_once(
    lake: str, traffic: Traffic, tmp_path: Path, rows: int, workers: int, octets: int
) -> None:
    size = parquet(f"{lake}/in.parquet", rows, note=["a note"] * 500)

    options = {"rangeBytes": str(octets)}
    job = Job("validate")
    stats = jobs.run(f"{lake}/in.parquet", tmp_path / "out", job, workers=workers, options=options)

    assert 500 == stats.good
    footers = 64 << 10
    parts = 500 // rows if octets < 1 << 30 else 1
    assert size <= traffic.fetched[f"{lake}/in.parquet"] <= size + footers * (1 + parts)
    assert traffic.requests[f"{lake}/in.parquet"] <= 1 + parts + 500 // rows + size // (8 << 20)


def test_unread_columns_are_not_fetched(lake: str, traffic: Traffic) -> None:
    random = Random(2)
    note = [random.randbytes(100) for _ in range(500)]
    size = parquet(f"{lake}/in.parquet", 100, huge=messages(), note=note, others=messages())

    assert messages() == [record.wire for record in files.read(f"{lake}/in.parquet", "parquet")]

    assert size > 3 * size_of_messages()
    # Of each of the five row groups as much as pyarrow reads at a time may be read beside it.
    needed = size_of_messages()
    assert needed <= traffic.fetched[f"{lake}/in.parquet"] <= needed + (500 << 10)


@pytest.mark.parametrize("name", ["a.prefixed", "a.prefixed.gz", "a.jsonl", "a.jsonl.gz"])
def test_files_of_messages_are_fetched_once(
    lake: str, traffic: Traffic, tmp_path: Path, name: str
) -> None:
    wires = messages()[:200]
    octets = b"".join(len(wire).to_bytes(4, "big") + wire for wire in wires)
    if "jsonl" in name:
        octets = b"".join(b'{"raw": "%b"}\n' % wire.hex().encode() for wire in wires)
    size = put(f"{lake}/{name}", gzip.compress(octets, 1) if name.endswith("gz") else octets)

    stats = jobs.run(f"{lake}/{name}", tmp_path / "out", Job("validate"), workers=1)

    assert 200 == stats.good
    # What form it has is seen of what it begins with.
    assert size <= traffic.fetched[f"{lake}/{name}"] <= size + (64 << 10)
    assert traffic.requests[f"{lake}/{name}"] <= 3 + size // (8 << 20)


def test_output_is_uploaded_once_and_not_read_back(
    lake: str, traffic: Traffic, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"wire": messages()}), tmp_path / "in.parquet", row_group_size=100)

    options = {"rangeBytes": str(1 << 30)}
    jobs.run(tmp_path / "in.parquet", f"{lake}/out", Job("validate"), workers=1, options=options)

    made = {
        place.url: state.size for place, state in StoreLocation.of(f"{lake}/out/messages").files()
    }
    assert made.keys() == set(made_files(f"{lake}/out"))
    assert sum(made.values()) > size_of_messages()
    assert made == {url: traffic.sent[url] for url in made}
    assert {} == {url: traffic.fetched[url] for url in made if traffic.fetched[url]}
    # What is large begins and ends an upload in parts; what is small is one request.
    knows = int(pa.__version__.partition(".")[0]) > 19
    assert (0 if knows else 2) == traffic.uploads[f"{lake}/out/_amqp10msg.json"]
    assert [2] == [traffic.uploads[url] for url in made]


def test_damage_in_store_is_reported_as_on_disk(lake: str, tmp_path: Path) -> None:
    folder = damaged_input(tmp_path / "in")
    for path in folder.iterdir():
        put(f"{lake}/in/{path.name}", path.read_bytes())

    found: list[tuple[int, list[Any]]] = []
    for source in (str(folder), f"{lake}/in"):
        out = str(tmp_path / f"out-{len(found)}")
        stats = jobs.run(source, out, Job("decode"), workers=1)
        bad = [
            (row["source"].replace(source, ""), row["offset"], row["error_text"])
            for row in jobs.quarantined(out)
        ]
        found.append((stats.good, sorted((a, b, c.replace(source, "")) for a, b, c in bad)))

    assert 7 == len(found[0][1])
    assert found[0] == found[1]
