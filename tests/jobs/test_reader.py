"""The rows of a job as a stream of Arrow: those of `run`, and nothing is left out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from amqp10msg import Message, UInt
from amqp10msg.testing import malformed, messages

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from amqp10msg.files import Record  # noqa: E402
from amqp10msg.jobs import ERROR_COLUMN_NAMES, Job, read, run  # noqa: E402
from amqp10msg.jobs.inputs import Filters  # noqa: E402

ORDERS = [
    Message(b"x", application_properties={"tenant": "acme", "n": UInt(n)}).encode()
    for n in range(5)
]
JOBS = [
    Job("decode"),
    Job("decode", columns=("message_id", "body")),
    Job("validate"),
    Job("translate", to="0-9-1"),
    Job("translate", to="0-9-1", profile="rabbitmq-4.3"),
]


def written(folder: Path, octets: list[bytes]) -> Path:
    """A file of messages that stand after their sizes."""
    folder.mkdir(exist_ok=True)
    file = folder / "a.prefixed"
    file.write_bytes(b"".join(len(one).to_bytes(4, "big") + one for one in octets))
    return file


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder that a job wrote."""
    rows: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return rows


def order(row: dict[str, Any]) -> Any:
    return row["offset"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    octets=st.lists(messages().map(Message.encode) | malformed(), max_size=6),
    job=st.sampled_from(JOBS),
)
def test_reader_yields_rows_that_job_writes(
    tmp_path_factory: pytest.TempPathFactory, octets: list[bytes], job: Job
) -> None:
    folder = tmp_path_factory.mktemp("reader")
    file = written(folder / "in", octets)
    run(file, folder / "out", job, form="prefixed", workers=1)

    found = read(file, job, form="prefixed").read_all().to_pylist()
    good = [row for row in found if row["error_code"] is None]
    bad = [row for row in found if row["error_code"] is not None]

    for expected, given_ in (
        (rows_of(folder / "out/messages") if good else [], good),
        (rows_of(folder / "out/quarantine") if bad else [], bad),
    ):
        names = expected[0].keys() if expected else []
        assert list(map(repr, sorted(expected, key=order))) == [
            repr({name: row[name] for name in names}) for row in sorted(given_, key=order)
        ]
    assert len(octets) == len(found)


def test_bytes_of_invalid_message_are_in_its_row(tmp_path: Path) -> None:
    file = written(tmp_path, [*ORDERS, b"\x00\x53\x99"])

    bad = [row for row in read(file).read_all().to_pylist() if row["error_code"]]

    assert [(b"\x00\x53\x99", "truncated")] == [(row["wire"], row["error_code"]) for row in bad]


def test_reader_reads_parquet(tmp_path: Path) -> None:
    table = pa.table({"wire": [*ORDERS, b"?"], "tenant": ["t"] * 6})
    pq.write_table(table, tmp_path / "a.parquet")

    found = read(tmp_path / "a.parquet", Job("decode", columns=("body",))).read_all()

    assert [b"x"] * 5 + [None] == found["body"].to_pylist()
    assert ["t"] * 6 == found["tenant"].to_pylist()
    assert 1 == found["error_code"].drop_null().length()


@pytest.mark.parametrize(
    "numbers, kind",
    [
        ([-(2**31), 2**31 - 1], pa.int32()),
        ([2**31], pa.int64()),
        ([1, -(2**31) - 1], pa.int64()),
        ([1, 10**18 - 1], pa.int64()),
    ],
)
def test_numbers_in_names_of_folders_fit_their_column(
    tmp_path: Path, numbers: list[int], kind: Any
) -> None:
    for number in numbers:
        (tmp_path / f"n={number}").mkdir()
        pq.write_table(pa.table({"wire": ORDERS[:1]}), tmp_path / f"n={number}" / "a.parquet")

    found = read(tmp_path, Job("decode", columns=("body",))).read_all()

    assert kind == found.schema.field("n").type
    assert sorted(numbers) == sorted(found["n"].to_pylist())


def test_input_without_rows_has_its_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"wire": pa.array([], pa.binary())}), tmp_path / "a.parquet")

    reader = read(tmp_path / "a.parquet")

    assert {"message_id", "body", *ERROR_COLUMN_NAMES} <= set(reader.schema.names)
    assert 0 == reader.read_all().num_rows


def test_reader_is_lazy(tmp_path: Path) -> None:
    file = written(tmp_path, ORDERS * 3_000)

    sizes = [batch.num_rows for batch in read(file, Job("decode", columns=("body",)))]

    assert 15_000 == sum(sizes)
    assert len(sizes) > 1


def test_reader_accepts_only_reading_options(tmp_path: Path) -> None:
    file = written(tmp_path, ORDERS)
    wanted = Job("decode", columns=("body",))

    assert 1 == read(file, wanted, options={"selector": "n = 3"}).read_all().num_rows
    with pytest.raises(ValueError, match="compression"):
        read(file, wanted, options={"compression": "zstd"})
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none", wanted)


# {column: (its type, its values)} of a table of messages that is no output of a job.
ARCHIVE: dict[str, tuple[Any, list[Any]]] = {
    "octets": (pa.binary(), [*ORDERS[:3], b"no message", None]),
    "number": (pa.int64(), [0, 1, 2, 3, 4]),
    "protocol": (pa.string(), ["1.0", None, "0-9-1", "1.0", "1.0"]),
    "address": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None, "a", "a"]),
    "received": (pa.timestamp("ns"), [1_000_000_000, 2_000_000_000, None, 3_000_000_000, 0]),
}


def archive(path: Path, *names: str) -> Path:
    """Write a Parquet file with some columns of `ARCHIVE`."""
    table = {
        name: pa.array(values, kind) for name, (kind, values) in ARCHIVE.items() if name in names
    }
    pq.write_table(pa.table(table), path)
    return path


@pytest.mark.parametrize(
    "options, offsets",
    [
        ({"selector": "n = 1"}, [1, 3]),
        ({"Selector": "tenant = 'zzz'"}, [3]),
        ({"protocol": "1.0"}, [0, 1, 3]),
        ({"protocol": "0-9-1"}, [2]),
        ({"address": "a"}, [0, 3]),
        ({"since": "1970-01-01T00:00:02Z"}, [1, 3]),
        ({"until": "1970-01-01T00:00:02Z"}, [0]),
    ],
)
def test_filters_select_rows_of_parquet(
    tmp_path: Path, options: dict[str, str], offsets: list[int]
) -> None:
    """A row that is not a message passes a selector, so that the job quarantines it."""
    path = archive(tmp_path / "a.parquet", *ARCHIVE)
    wanted = Job("decode", "octets", ("message_id", "error_code"))

    rows = read(path, wanted, options=options).read_all().to_pylist()
    stats = run(path, tmp_path / "out", wanted, options=options, workers=1)

    assert offsets == sorted(row["number"] for row in rows)
    assert len(offsets) == stats.rows


@pytest.mark.parametrize(
    "options, text",
    [
        (
            {"address": "a"},
            "address does not apply to this Parquet input.*no column address of str",
        ),
        ({"since": "2026-01-01"}, "since does not apply.*no column time or received of timestamps"),
        ({"until": "2026-01-01"}, "until does not apply.*remove the option until"),
    ],
)
def test_filter_without_its_column_in_parquet_is_refused(
    tmp_path: Path, options: dict[str, str], text: str
) -> None:
    path = archive(tmp_path / "a.parquet", "octets")
    wanted = Job("decode", "octets")

    with pytest.raises(ValueError, match=text):
        read(path, wanted, options=options)
    with pytest.raises(ValueError, match=text):
        run(path, tmp_path / "out", wanted, options=options, workers=1)
    assert not (tmp_path / "out").exists()


@given(st.none() | st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
@example(5, 5, 7)
@example(5, 1, 5)
def test_adjacent_intervals_admit_each_record_once(
    time: int | None, first: int, second: int
) -> None:
    """An interval includes `since`, and excludes `until`. A record without a time is in none."""
    first, second = sorted((first, second))
    intervals = [
        Filters(until=first),
        Filters(since=first, until=second),
        Filters(since=second),
    ]
    record = Record(0, b"", time=time)

    assert (time is not None) == sum(interval.admits(record) for interval in intervals)
    assert all(interval.admits(Record(0, b"", "damaged")) for interval in intervals)


SIZED = st.lists(st.binary(max_size=12).map(lambda body: Message(body).encode()), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(octets=SIZED, max_size=st.integers(1, 20), kind=st.sampled_from(["decode", "validate"]))
def test_max_size_applies_to_parquet(
    tmp_path_factory: pytest.TempPathFactory, octets: list[bytes], max_size: int, kind: Any
) -> None:
    path = tmp_path_factory.mktemp("sizes") / "a.parquet"
    pq.write_table(pa.table({"wire": pa.array(octets, pa.binary())}), path)
    job = Job(kind)

    rows = read(path, job, options={"maxSize": str(max_size)}).read_all().to_pylist()

    large = [one for one in octets if len(one) > max_size]
    bad = [row for row in rows if row["error_code"] is not None]
    assert len(octets) == len(rows)
    # The quarantine has the whole message: nothing is lost.
    assert large == [row["wire"] for row in bad]
    text = f"larger than {max_size} bytes"
    assert all(("unreadable-input", text) == (r["error_code"], r["error_text"]) for r in bad)


@pytest.mark.parametrize("name", ["content_header", "payload"])
def test_max_size_applies_to_each_part_of_a_0_9_1_message(tmp_path: Path, name: str) -> None:
    header = bytes.fromhex("003c000000000000000000050000")
    columns = {"content_header": [header] * 2, "payload": [b"hello"] * 2}
    columns[name] = [columns[name][0] * 9, columns[name][0]]
    types = {"content_header": pa.large_binary(), "payload": pa.binary()}
    arrays = {key: pa.array(values, types[key]) for key, values in columns.items()}
    pq.write_table(pa.table(arrays), tmp_path / "a.parquet")

    job = Job("translate", to="1.0")
    rows = read(tmp_path / "a.parquet", job, options={"maxSize": "30"}).read_all().to_pylist()

    assert [None, "larger than 30 bytes"] == [row["error_text"] for row in rows]


def test_limit_on_empty_records_is_refused_for_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"wire": ORDERS}), tmp_path / "a.parquet")

    for function in (read, lambda path, **how: run(path, tmp_path / "out", Job("decode"), **how)):
        with pytest.raises(ValueError, match=r"zeroWidth does not apply to Parquet.*remove"):
            function(tmp_path / "a.parquet", options={"ZEROWIDTH": "5"})
    # The highest value is no limit, as --trust-files requests it.
    options = {"zeroWidth": str(1 << 62), "expansionRatio": str(1 << 62)}
    assert 5 == read(tmp_path / "a.parquet", options=options).read_all().num_rows


HOUR = 3_600_000_000
MOMENTS = st.none() | st.integers(-9 * 10**9, 9 * 10**9).map(lambda n: n * 1_000_000)
TIME_TYPES = st.builds(
    pa.timestamp, st.sampled_from(["s", "ms", "us", "ns"]), st.sampled_from([None, "UTC", "+02:00"])
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    rows=st.lists(st.tuples(MOMENTS, MOMENTS, MOMENTS), min_size=1, max_size=5),
    types=st.tuples(TIME_TYPES, TIME_TYPES),
    kind=st.sampled_from(["decode", "validate", "profile", "translate"]),
)
def test_messages_are_counted_by_times_of_any_type(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], types: Any, kind: Any
) -> None:
    """A message without a capture time counts by its creation-time, if the job decodes it."""
    folder = tmp_path_factory.mktemp("times")
    in_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

    def column(index: int) -> Any:
        kind = types[index]
        values = [
            None if row[index] is None else row[index] * in_second[kind.unit] // 10**6
            for row in rows
        ]
        return pa.array(values, pa.int64()).cast(kind)

    wires = [
        Message(b"x", creation_time=None if row[2] is None else row[2] // 1000).encode()
        for row in rows
    ]
    table = {"wire": wires, "time": column(0), "received": column(1)}
    pq.write_table(pa.table(table), folder / "a.parquet")

    job = Job(kind, to="0-9-1") if kind == "translate" else Job(kind)
    stats = run(folder / "a.parquet", folder / "out", job, workers=1)

    is_decoded = kind in {"decode", "profile"}
    times = [
        next((time for time in row[: 2 + is_decoded] if time is not None), None) for row in rows
    ]
    assert Counter(time // HOUR for time in times if time is not None) == stats.hours
