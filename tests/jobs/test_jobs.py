"""Jobs on one machine: every message in the output once, whatever goes wrong with whom."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10msg import Array, DecodeError, Message, Properties, validate
from amqp10msg.testing import malformed, messages
from amqp10msg.translate import Circumstances

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import columns, jobs  # noqa: E402
from amqp10msg.jobs import KINDS, Job, OnlySparkError, Stats, output_of  # noqa: E402
from amqp10msg.jobs.job import Kind  # noqa: E402
from tests.jobs.job_inputs import SOUND, names_in, read, write  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["decode", "profile"])
def test_batch_over_size_limit_is_processed_in_halves(tmp_path: Path, kind: Kind) -> None:
    # 65,000 nulls in 2 KB, and 585 KB of JSON: 130 of these messages exceed the room of a batch.
    annotations = {f"x-opt-{n}": Array("null", [None] * 650) for n in range(100)}
    nulls = Message(b"", message_annotations=annotations).encode()
    wires = [*SOUND[:20], *[nulls] * 150, b"\1", nulls]
    source = write(tmp_path / "in.bin", wires)

    stats = jobs.run(source, tmp_path / "out", Job(kind), workers=1)

    assert (172, 1) == (stats.rows, stats.errors)
    assert sum(map(len, wires)) == stats.octets  # what is done again is counted once
    good, bad = (read(folder) for folder in output_of(tmp_path / "out"))
    assert [b"\1"] == [row["wire"] for row in bad]
    if kind == "decode":
        wanted = columns.decode([*SOUND[:20], nulls])["message_annotations"].to_pylist()
        wanted += wanted[-1:] * 150
        assert wanted == [row["message_annotations"] for row in good]


@pytest.mark.parametrize("workers", [1, None])
def test_one_bad_message_in_a_thousand_is_a_row_with_reason(
    tmp_path: Path, workers: int | None
) -> None:
    cut = SOUND[500][:-1]
    source = write(tmp_path / "in.bin", [*SOUND[:500], cut, *SOUND[501:]])

    stats = jobs.run(
        source, tmp_path / "out", Job("decode"), workers=workers, options={"rangeBytes": "20000"}
    )

    good, bad = (read(folder) for folder in output_of(tmp_path / "out"))
    assert [f"m-{i}" for i in range(1_000) if i != 500] == [row["message_id"] for row in good]
    (row,) = bad
    assert [row] == list(jobs.quarantined(tmp_path / "out"))
    with pytest.raises(DecodeError) as told:
        Message.decode(cut)
    offset = sum(4 + len(wire) for wire in SOUND[:500])
    assert (str(source), offset, cut) == (row["source"], row["offset"], row["wire"])
    assert ("truncated", "Part 1, 1.2") == (row["error_code"], row["error_clause"])
    assert (told.value.offset, str(told.value)) == (row["error_offset"], row["error_text"])
    assert (1_000, 999, 1) == (stats.rows, stats.good, stats.errors)
    assert f"{source}@{offset}" == stats.rules["truncated"].first
    assert stats == jobs.read_stats(tmp_path / "out")
    assert ["in.bin", "out"] == names_in(tmp_path)


@settings(max_examples=settings().max_examples // 4)  # each is a job with files of its own
@given(st.lists(st.one_of(messages().map(Message.encode), malformed()), max_size=12))
def test_each_message_is_decoded_or_quarantined_with_its_bytes(wires: list[bytes]) -> None:
    found = columns.decode(pa.array(wires, pa.binary())).column("error_code").to_pylist()
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "in.parquet"), Path(folder, "out")
        table = pa.table({"wire": pa.array(wires, pa.binary()), "row": range(len(wires))})
        pq.write_table(table, source)

        jobs.run(source, out, Job("decode"), workers=1)

        good, bad = (read(path) for path in output_of(out))
    assert [row for row, code in enumerate(found) if code is None] == [r["row"] for r in good]
    assert [(row, wires[row], code) for row, code in enumerate(found) if code is not None] == [
        (r["row"], r["wire"], r["error_code"]) for r in bad
    ]
    assert all(row["error_text"] for row in bad)


@pytest.mark.parametrize("kind", KINDS)
def test_quarantine_can_be_job_input(tmp_path: Path, kind: Kind) -> None:
    bad = [SOUND[0][:-1], SOUND[1] + b"\0"]
    source = write(tmp_path / "in.bin", [*SOUND[:5], *bad])
    job = Job(kind, to="0-9-1")
    jobs.run(source, tmp_path / "first", job, workers=1)
    quarantine = tmp_path / "first" / "quarantine"
    before = read(quarantine)
    assert len(bad) == len(before)

    jobs.run(quarantine, tmp_path / "again", job, workers=1)

    assert before == read(tmp_path / "again" / "quarantine")
    assert not read(tmp_path / "again" / "messages")


# Two faults each: a header that is a double, then a key of annotations that is null; a body of
# ubyte, then a byte that begins nothing.
TWICE = ["005370820000000000000000005371c1030240400053754000", "00537550000000"]


@pytest.mark.parametrize(
    "job", [Job("profile"), Job("decode", columns=("message_id",)), Job("decode"), Job("validate")]
)
@pytest.mark.parametrize("octets", [*map(bytes.fromhex, TWICE)])
def test_error_text_matches_its_code(tmp_path: Path, job: Job, octets: bytes) -> None:
    source = write(tmp_path / "in.bin", [octets])

    jobs.run(source, tmp_path / "out", job, workers=1)

    (row,) = jobs.quarantined(tmp_path / "out")
    found = [(one.rule, one.offset, one.text) for one in validate(octets)]
    assert (row["error_code"], row["error_offset"]) in {(rule, at) for rule, at, _ in found}
    texts = {
        text for rule, at, text in found if (rule, at) == (row["error_code"], row["error_offset"])
    }
    assert f"at byte {row['error_offset']}" in row["error_text"] or row["error_text"] in texts


def test_job_recomputes_columns_of_an_earlier_job(tmp_path: Path) -> None:
    """Every output is input: there and back again, and the last judgement counts."""
    source = write(tmp_path / "in.bin", [*SOUND[:3]])
    steps = [
        Job("validate"),
        Job("validate", profile="rabbitmq-4"),
        Job("translate", to="0-9-1"),
        Job("translate", to="1.0"),
        Job("translate", to="0-9-1"),
        Job("translate", to="1.0"),
    ]

    for number, job in enumerate(steps):
        jobs.run(source, tmp_path / str(number), job, workers=1)
        source = tmp_path / str(number) / "messages"
        (path,) = source.iterdir()
        names = pq.read_schema(path).names
        assert sorted(set(names)) == sorted(names)

    rows = read(source)
    assert SOUND[:3] == [row["wire"] for row in rows]
    assert [True] * 3 == [row["valid"] for row in rows]


@pytest.mark.parametrize(
    "kind, name, other",
    [
        ("decode", "subject", "of the decoded message"),
        ("decode", "Subject", "of the decoded message"),
        ("decode", "error_code", "of the decoded message"),
        ("decode", "error_text", "of the quarantine"),
        ("profile", "error_code", "of the quarantine"),
        ("validate", "valid", "of the output"),
        ("translate", "error_offset", "of the quarantine"),
    ],
)
def test_duplicate_output_columns_are_an_error(
    tmp_path: Path, kind: Kind, name: str, other: str
) -> None:
    pq.write_table(pa.table({"wire": SOUND[:2], name: ["x", "y"]}), tmp_path / "in.parquet")

    with pytest.raises(ValueError, match=f"^{name}: a column of the input and {other}: rename it"):
        jobs.run(tmp_path / "in.parquet", tmp_path / "out", Job(kind, to="0-9-1"), workers=1)

    assert ["in.parquet"] == names_in(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_unreadable_message_stays_in_quarantine(tmp_path: Path, kind: Kind) -> None:
    lines = [f'{{"raw": "{SOUND[0].hex()}"}}', "nonsense", f'{{"raw": "{SOUND[1].hex()}"}}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    job = Job(kind, to="0-9-1")
    jobs.run(tmp_path / "in.jsonl", tmp_path / "first", job, workers=1)
    (before,) = read(tmp_path / "first" / "quarantine")

    jobs.run(tmp_path / "first" / "quarantine", tmp_path / "again", job, workers=1)

    assert [before] == read(tmp_path / "again" / "quarantine")
    assert "unreadable-input" == before["error_code"]
    assert before["error_text"]
    assert not read(tmp_path / "again" / "messages")


def test_translation_quarantine_has_exchange_and_routing_key(tmp_path: Path) -> None:
    row = {"content_header": b"?", "payload": b"x", "exchange": "e", "routing_key": "k"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "in.parquet")

    jobs.run(tmp_path / "in.parquet", tmp_path / "out", Job("translate"), workers=1)

    (bad,) = read(tmp_path / "out" / "quarantine")
    assert row == {name: bad[name] for name in row}


@pytest.mark.parametrize(
    "kind, form",
    [
        ("decode", "bin"),
        ("decode", "parquet"),
        ("profile", "bin"),  # writes no messages
        # The same division of the input, and merging of the outputs, as decode.
        *(pytest.param(kind, "bin", marks=pytest.mark.soak) for kind in ("translate", "validate")),
    ],
)
def test_worker_count_does_not_change_output(tmp_path: Path, kind: Kind, form: str) -> None:
    wires = [*SOUND[:40], SOUND[0][:-1], b"", Message("x", properties=Properties()).encode()]
    if form == "bin":
        source, octets = write(tmp_path / "in.bin", wires), 500
    else:
        source, octets = tmp_path / "in.parquet", 1
        pq.write_table(pa.table({"wire": wires}), source, row_group_size=10)
    job = Job(kind, to="0-9-1")

    found: list[tuple[list[dict[str, Any]], list[dict[str, Any]], Stats]] = []
    for workers in (1, 2):
        calls: list[tuple[int, int]] = []
        out = tmp_path / f"out-{workers}"
        jobs.run(
            source,
            out,
            job,
            workers=workers,
            options={"rangeBytes": str(octets)},
            progress=lambda *call: calls.append(call),  # noqa: B023  (called here)
        )
        assert len(calls) > 3
        assert [(number + 1, len(calls)) for number in range(len(calls))] == calls
        good, bad = output_of(out)
        found.append((read(good), read(bad), jobs.read_stats(out)))

    assert found[0] == found[1]
    assert len(wires) == found[0][2].rows


def test_output_files_are_named_by_part_and_compressed(tmp_path: Path) -> None:
    source = write(tmp_path / "in.bin", SOUND[:40])
    options = {"rangeBytes": "1500", "compression": "zstd"}

    jobs.run(source, tmp_path / "out", Job("decode"), options=options)

    made = sorted(output_of(tmp_path / "out")[0].iterdir())
    assert [f"part-{n:05d}-00000000" for n in range(len(made))] == [p.name[:19] for p in made]
    assert {"ZSTD"} == {
        pq.ParquetFile(path).metadata.row_group(0).column(0).compression for path in made
    }


def test_filter_options_select_messages(tmp_path: Path) -> None:
    source = write(tmp_path / "in.bin", SOUND[:20])

    stats = jobs.run(source, tmp_path / "out", Job("validate"), options={"selector": "n IN (1, 3)"})

    assert 2 == stats.rows


@given(
    st.builds(
        Job,
        kind=st.sampled_from(KINDS),
        column=st.text(min_size=1),
        columns=st.none() | st.tuples(st.sampled_from(["subject", "footer"])),
        profile=st.none() | st.sampled_from(["oasis", "lossless"]),
        to=st.sampled_from(["0-9-1", "1.0"]),
        circumstances=st.builds(
            Circumstances,
            user=st.none() | st.text(min_size=1),
            stream_offset=st.none() | st.integers(0, 1 << 63),
        ),
    )
)
def test_job_round_trips_through_options(job: Job) -> None:
    assert job == Job.from_options(job.as_options())


@pytest.mark.parametrize(
    "circumstances", [Circumstances(queue_type="quorum"), Circumstances(given_back=("released",))]
)
def test_circumstances_without_option_are_rejected(circumstances: Circumstances) -> None:
    job = Job("translate", profile="rabbitmq-4.3", to="0-9-1", circumstances=circumstances)
    with pytest.raises(ValueError, match="supports only the circumstances user and stream_offset"):
        job.as_options()


# What is refused before anything is made.


@pytest.mark.parametrize("kind", ["decod", "", None, ["decode"]])
def test_unknown_kind_is_refused_when_the_job_is_created(kind: Any) -> None:
    hint = r" \(did you mean 'decode'\?\)" if kind == "decod" else ""

    with pytest.raises(ValueError, match=f"^unknown job .*{hint}: use one of decode, validate"):
        Job(kind)


@pytest.mark.once
@pytest.mark.parametrize(
    "job, how, text",
    [
        (Job("decode", columns=("nothing",)), {}, "unknown column 'nothing'"),
        (Job("validate", "body"), {}, "no column 'body' in the input"),
        (Job("decode"), {"workers": 0}, "workers must be 1 or more, got 0"),
        (Job("decode"), {"form": "xml"}, "unknown form 'xml'"),
        (Job("decode"), {"options": {"since": "yesterday"}}, "since must be an ISO 8601 time"),
        (Job("decode"), {"options": {"rangeBytes": "0"}}, "rangeBytes must be a number of bytes"),
        (
            Job("decode"),
            {"options": {"maxSize": "1k"}},
            "maxSize must be a number of bytes, 1 or more, got '1k'",
        ),
        (
            Job("decode"),
            {"options": {"max_size": "1"}},
            "unknown option 'max_size' .did you mean maxSize.*: use range",
        ),
        (Job("decode"), {"options": {"compression": "zip"}}, "unknown compression 'zip': use sn"),
    ],
)
def test_invalid_call_is_an_error(tmp_path: Path, job: Job, how: dict[str, Any], text: str) -> None:
    source = write(tmp_path / "in.bin", SOUND[:2])

    with pytest.raises(ValueError, match=text):
        jobs.run(source, tmp_path / "out", job, **how)

    assert ["in.bin"] == names_in(tmp_path)


@pytest.mark.once
@pytest.mark.parametrize(
    "job, column, kind",
    [
        (Job("validate"), {"wire": ["005377a1026869"]}, "string"),
        (Job("decode", "n"), {"n": [1]}, "int64"),
        (Job("profile"), {"wire": pa.nulls(2)}, "null"),
        (Job("translate", to="1.0"), {"content_header": [b"x"], "payload": ["x"]}, "string"),
    ],
)
def test_message_column_must_be_binary(tmp_path: Path, job: Job, column: Any, kind: str) -> None:
    pq.write_table(pa.table(column), tmp_path / "in.parquet")

    text = rf"the column '{[*column][-1]}' has the type {kind}, and must have the bytes of messages"
    with pytest.raises(ValueError, match=text):
        jobs.run(tmp_path / "in.parquet", tmp_path / "out", job)
    with pytest.raises(ValueError, match=text):
        jobs.read(tmp_path / "in.parquet", job)

    assert ["in.parquet"] == names_in(tmp_path)


@pytest.mark.once
@pytest.mark.parametrize("column, kind", [([3], "int64"), ([b"x"], "binary"), ([True], "bool")])
def test_fault_column_must_be_text(tmp_path: Path, column: Any, kind: str) -> None:
    pq.write_table(pa.table({"wire": SOUND[:1], "fault": column}), tmp_path / "in.parquet")

    with pytest.raises(
        ValueError, match=f"the column 'fault' must be text, .*, not {kind}: convert or rename"
    ):
        jobs.run(tmp_path / "in.parquet", tmp_path / "out", Job("validate"))


@pytest.mark.once
@pytest.mark.parametrize("kind", [pa.null(), pa.large_string(), pa.string_view()])
def test_null_fault_means_a_readable_row(tmp_path: Path, kind: Any) -> None:
    table = pa.table({"wire": SOUND[:1], "fault": pa.nulls(1, kind)})
    pq.write_table(table, tmp_path / "in.parquet")

    stats = jobs.run(tmp_path / "in.parquet", tmp_path / "out", Job("validate"))

    assert (1, 0) == (stats.rows, stats.errors)


@pytest.mark.once
def test_duplicate_input_columns_error_names_them(tmp_path: Path) -> None:
    columns = [pa.array(SOUND[:1]), pa.array([1]), pa.array([2])]
    pq.write_table(pa.table(columns, names=["wire", "a", "a"]), tmp_path / "in.parquet")

    with pytest.raises(ValueError, match=r"in.parquet: two columns have the name 'a'"):
        jobs.run(tmp_path / "in.parquet", tmp_path / "out", Job("validate"))


@pytest.mark.once
def test_empty_input_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file, or the folder is empty"):
        jobs.run(tmp_path / "none*", tmp_path / "out", Job("decode"))

    assert [] == names_in(tmp_path)


@pytest.mark.once
@pytest.mark.skipif(sys.platform != "linux", reason="names are text there")
@pytest.mark.parametrize("workers", [1, 2])
def test_non_utf8_file_names_are_read_and_shown(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "day=\udcff"
    folder.mkdir()
    table = pa.table({"wire": SOUND})
    with (folder / "\udcfe.parquet").open("wb") as file:
        pq.write_table(table, file)
    (folder / "\udcfd.parquet").write_bytes(b"PAR1")

    stats = jobs.run(folder, tmp_path / "out", Job("validate"), workers=workers)

    assert (len(SOUND), 1) == (stats.good, stats.errors)
    (row,) = jobs.quarantined(tmp_path / "out")
    assert row["source"] == rf"{tmp_path}/day=\xff/\xfd.parquet"


@pytest.mark.once
def test_input_for_spark_only_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, values in (("x", [1, 2]), ("y", ["1", "2"])):
        pq.write_table(pa.table({"wire": SOUND[:2], "n": values}), folder / f"{name}.parquet")

    with pytest.raises(OnlySparkError, match=r"differ in type: .* n .*: only Spark reads"):
        jobs.run(folder, tmp_path / "out", Job("decode"))
    with pytest.raises(OnlySparkError, match="file systems other than"):
        jobs.run("s3a://archive/x.parquet", tmp_path / "out", Job("decode"))

    assert ["in"] == names_in(tmp_path)


@pytest.mark.once
def test_local_job_does_not_import_spark() -> None:
    program = "import sys, amqp10msg.jobs; print('pyspark' in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "False\n" == done.stdout
