"""Jobs on one machine and by Spark: row for row the same, and the same counts."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from amqp10msg import Message, Properties, basic
from amqp10msg.interop import corpus
from amqp10msg.translate import Circumstances

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import jobs, spark  # noqa: E402
from amqp10msg.files.stores import StoreLocation, opened  # noqa: E402
from amqp10msg.jobs import Job, output_of  # noqa: E402
from amqp10msg.spark import running  # noqa: E402
from amqp10msg.spark.sink import raise_short_errors  # noqa: E402
from tests.jobs.test_damaged_parquet import check, damaged_header, damaged_input  # noqa: E402
from tests.samples import corpus_cases  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

WIRES = [
    *(case.data for case in corpus_cases() if case.kind == "message" and not case.limits),
    *(case.data for case in corpus.demo_messages()),
    Message(b"x", properties=Properties(user_id=b"alice")).encode(),
]
BASIC = [
    (basic.BasicProperties(message_id="m", headers={"a": 1, "x-b": "c"}), b"hello", "e", "k"),
    (basic.BasicProperties(delivery_mode=2, user_id="guest"), b"", None, None),
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a file of messages, one of Parquet, and one with what is no message."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"".join(len(w).to_bytes(4, "big") + w for w in WIRES))
    lines = "".join(f'{{"raw": "{wire.hex()}"}}\n' for wire in WIRES[:40])
    (folder / "b.jsonl").write_text(f"{lines}nonsense\n")
    return folder


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "in.parquet"
    pq.write_table(
        pa.table({"wire": [*WIRES, None], "message_format": pa.array([0] * (len(WIRES) + 1))}),
        path,
        row_group_size=50,
    )
    return path


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    """Messages of 0-9-1, one of them with a body of another size."""
    rows = [
        {
            "content_header": basic.encode_content_header(properties, len(body)),
            "payload": body,
            "exchange": exchange,
            "routing_key": key,
        }
        for properties, body, exchange, key in BASIC
    ]
    path = tmp_path / "queue.parquet"
    pq.write_table(pa.Table.from_pylist([*rows, {**rows[0], "payload": b"x"}]), path)
    return path


def both(session: Any, source: Path, folder: Path, job: Job, **options: str) -> int:
    """Do a job both ways, compare the two outputs, and give how many messages there are."""
    jobs.run(source, folder / "local", job, options=options, workers=1)
    spark.run(session, str(source), folder / "spark", job, options=options)

    one, other = (
        [Counter(map(repr, rows(place))) for place in output_of(folder / name)]
        for name in ("local", "spark")
    )
    assert one == other
    schemas = [
        [schema_of(place) for place in output_of(folder / name)] for name in ("local", "spark")
    ]
    assert schemas[0] == schemas[1]
    stats, expected = (jobs.read_stats(folder / name) for name in ("local", "spark"))
    assert attrs.asdict(stats) == attrs.asdict(expected)
    good, bad = (sum(counter.values()) for counter in one)
    assert (good if job.kind != "profile" else stats.good, bad) == (stats.good, stats.errors)
    assert stats.errors
    return stats.rows


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in folder.glob("*.parquet"):
        found += pq.ParquetFile(path).read().to_pylist()
    return found


def schema_of(folder: Path) -> set[str]:
    return {str(pq.read_schema(path)) for path in folder.glob("*.parquet")}


@pytest.mark.parametrize(
    "job",
    [
        Job("decode"),
        Job("decode", columns=("message_id", "application_properties"), profile="oasis"),
        Job("validate", profile="azure"),
        Job("profile"),
        Job("translate", to="0-9-1", profile="rabbitmq-4.3"),
    ],
    ids=lambda job: f"{job.kind}-{job.profile}",
)
def test_spark_job_reads_message_files(
    spark_session: Any, source: Path, tmp_path: Path, job: Job
) -> None:
    count = both(spark_session, source, tmp_path, job, rangeBytes="20000")

    assert len(WIRES) + 40 + 1 == count


@pytest.mark.parametrize("job", [Job("decode"), Job("validate"), Job("profile")])
def test_spark_job_reads_parquet(
    spark_session: Any, parquet: Path, tmp_path: Path, job: Job
) -> None:
    assert len(WIRES) == both(spark_session, parquet, tmp_path, job)
    assert 1 == jobs.read_stats(tmp_path / "local").skipped


@pytest.mark.parametrize("profile", ["lossless", "rabbitmq-4.3"])
def test_spark_job_translates_0_9_1_messages(
    spark_session: Any, queue: Path, tmp_path: Path, profile: str
) -> None:
    given = Circumstances(user=None, stream_offset=7)

    count = both(
        spark_session, queue, tmp_path, Job("translate", profile=profile, circumstances=given)
    )

    assert len(BASIC) + 1 == count


def test_input_for_spark_only_is_read_by_spark(spark_session: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"wire": WIRES[:1]}), tmp_path / "in.parquet")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "find_input", refused)
        stats = spark.run(
            spark_session, str(tmp_path / "in.parquet"), tmp_path / "out", Job("decode")
        )

    assert 1 == stats.rows == jobs.read_stats(tmp_path / "out").rows


def test_filters_select_rows_of_parquet(spark_session: Any, tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"wire": WIRES}), source)
    options = {"selector": "tenant = 'zzz'", "protocol": "1.0"}

    count = both(spark_session, source, tmp_path, Job("decode"), **options)

    assert 0 < count < len(WIRES)


def test_filter_of_parquet_for_spark_only_is_refused(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    pq.write_table(pa.table({"wire": WIRES[:1]}), source)
    monkeypatch.setattr(running, "find_input", refused)
    options = {"Selector": "a = 1", "since": "2026-01-31"}

    with pytest.raises(ValueError, match=r"^since, selector: these options do not apply"):
        spark.run(spark_session, str(source), out, Job("decode"), options=options)
    assert not out.exists()


def refused(*_: object) -> Any:
    raise jobs.OnlySparkError("only Spark reads it")


def test_damaged_parquet_is_listed_and_good_files_are_complete(
    spark_session: Any, tmp_path: Path
) -> None:
    folder = damaged_input(tmp_path / "in")

    spark.run(spark_session, str(folder), tmp_path / "out", Job("decode"))

    check(tmp_path / "out", folder)


def test_spark_job_reads_partition_folders_as_columns(spark_session: Any, tmp_path: Path) -> None:
    for day in ("2026-01-31", "2026-02-01"):
        (tmp_path / "in" / f"day={day}").mkdir(parents=True)
        table = pa.table({"wire": [*WIRES, WIRES[0][:-1]]})
        pq.write_table(table, tmp_path / "in" / f"day={day}" / "x.parquet")

    both(spark_session, tmp_path / "in", tmp_path, Job("decode"))

    (schema,) = schema_of(tmp_path / "spark" / "messages")
    df = spark_session.read.parquet(str(tmp_path / "in"))
    assert "date" == dict(df.dtypes)["day"]
    assert schema.startswith("day: date32[day]")


def test_spark_job_returns_counts_and_reports_progress(spark_session: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, wire in enumerate([*WIRES[::15], WIRES[0][:-1]]):
        pq.write_table(pa.table({"wire": [wire] * 100}), tmp_path / "in" / f"{number}.parquet")
    seen: list[tuple[int, int]] = []

    stats = spark.run(
        spark_session,
        str(tmp_path / "in"),
        tmp_path / "out",
        Job("profile"),
        progress=lambda done, all_: seen.append((done, all_)),
    )

    assert jobs.read_stats(tmp_path / "out") == stats
    assert 100 <= stats.errors < stats.rows
    assert seen
    assert all(0 <= done <= all_ for done, all_ in seen)
    assert seen[-1][0] == seen[-1][1] > 0


def test_message_column_must_be_binary(spark_session: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"wire": ["005377a1026869"]}), tmp_path / "in.parquet")

    with pytest.raises(
        ValueError, match="the column 'wire' has the type string, and must have the"
    ):
        spark.run(spark_session, str(tmp_path / "in.parquet"), tmp_path / "out", Job("decode"))


def test_option_names_are_case_insensitive(spark_session: Any, tmp_path: Path) -> None:
    sound = Message(b"hello").encode()
    (tmp_path / "unnamed").write_bytes(len(sound).to_bytes(4, "big") + sound)
    options = {"FORM": "prefixed", "maxsize": str(len(sound) - 1)}

    spark.run(
        spark_session, str(tmp_path / "unnamed"), tmp_path / "out", Job("decode"), options=options
    )

    # Nothing else is wrong with it than its size.
    assert 1 == jobs.read_stats(tmp_path / "out").errors


def test_killed_worker_is_a_spark_error(spark_session: Any) -> None:
    def die(*_: object) -> None:
        import os  # noqa: PLC0415  (it goes to the worker by value)

        os._exit(9)

    # The first line says it: no more of the stack may be shown.
    with (
        pytest.raises(spark.SparkError, match=r"\AJob aborted.*exited unexpectedly.*\Z"),
        raise_short_errors(),
    ):
        running._run_remaining_parts(spark_session, cast("Any", die), cast("Any", [None]), {})


def test_workers_read_and_write_object_store(spark_session: Any, tmp_path: Path) -> None:
    pytest.importorskip("moto", reason="moto, a local server of S3, is not installed: make setup")
    from tests.jobs import local_store  # noqa: PLC0415  (it needs moto)

    pq.write_table(pa.table({"wire": WIRES}), tmp_path / "in.parquet", row_group_size=50)
    jobs.run(tmp_path / "in.parquet", tmp_path / "local", Job("decode"))
    expected = [Counter(map(repr, rows(place))) for place in output_of(tmp_path / "local")]
    with local_store.s3_server() as server:
        host, port = server.get_host_and_port()
        # Workers have not the environment of this process, but that of their JVM.
        said = f"?scheme=http&region=us-east-1&endpoint_override={host}:{port}"
        place = StoreLocation.of(f"s3://lake/in/a.parquet{said}")
        place.write((tmp_path / "in.parquet").read_bytes())
        urls = {name: f"s3://lake/{name}{said}" for name in ("in", "ran", "written")}

        stats = spark.run(spark_session, urls["in"], urls["ran"], Job("decode"))
        df = spark_session.read.parquet(str(tmp_path / "in.parquet"))
        spark.write(df, urls["written"], Job("decode"))

        raw = b"".join(len(wire).to_bytes(4, "big") + wire for wire in WIRES[:5])
        StoreLocation.of(f"s3://lake/raw/a.bin{said}").write(raw)
        found = spark_session.read.format("amqp10").load(f"s3://lake/raw{said}").collect()
        assert WIRES[:5] == [row.wire for row in found]

        counts = jobs.read_stats(tmp_path / "local")
        assert (counts.rows, counts.errors) == (stats.rows, stats.errors)
        for name in ("ran", "written"):
            good, bad = (jobs.made_files(urls[name], one) for one in ("messages", "quarantine"))
            assert expected[0] == Counter(repr(row) for url in good for row in table(url))
            assert expected[1].total() == sum(len(table(url)) for url in bad)


def table(url: str) -> list[dict[str, Any]]:
    with opened(url) as file:
        found: list[dict[str, Any]] = pq.ParquetFile(file).read().to_pylist()
    return found


def test_damaged_parquet_read_by_spark_is_a_one_line_error(
    spark_session: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    damaged_header(path)

    with pytest.raises(spark.SparkError, match=re.escape(path.name)) as caught:
        spark.write(spark_session.read.parquet(str(path)), tmp_path / "out", Job("decode"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
