"""``amqp10msg pipeline``: jobs, their output folders, summaries and reports."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import Message, Properties, ULong
from amqp10msg.basic import BasicMessage, BasicProperties, encode_content_header
from amqp10msg.translate import Circumstances, ProfileName, to_amqp10

click = pytest.importorskip("click")
pytest.importorskip("rich")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402
from click.testing import CliRunner, Result  # noqa: E402

from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.app.cli import pipeline as command  # noqa: E402
from amqp10msg.files import FORMS  # noqa: E402
from amqp10msg.files.stores import StoreLocation  # noqa: E402
from amqp10msg.jobs import output_of  # noqa: E402
from tests.pages import Page  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]

SOUND = Message(
    b"x", properties=Properties(message_id="m"), application_properties={"tenant": "a"}
).encode()
DRIFTED = Message(b"x", application_properties={"tenant": 5, "<b>": True}).encode()
WRONG = Message("x", properties=Properties(content_encoding="gzip")).encode()


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        request.getfixturevalue("spark_session")  # skips where there is none
    return str(request.param)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        main, ["pipeline", *map(str, arguments)], env={"COLUMNS": "120", "NO_COLOR": "1"}
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    wires = [SOUND] * 3 + [DRIFTED, WRONG, SOUND[:-1]]
    path.write_text("".join(f'{{"raw": "{wire.hex()}"}}\n' for wire in wires))
    return path


def read(folder: Path) -> list[dict[str, Any]]:
    found = pq.ParquetDataset(folder).read().to_pylist()
    assert isinstance(found, list)
    return found


def test_expanding_files_are_read_only_if_trusted(
    source: Path, tmp_path: Path, engine: str
) -> None:
    source.write_bytes(b"\n" * 70_000 + source.read_bytes())
    how = ("decode", source, tmp_path / "out", "--engine", engine, "--overwrite")

    refused = run(*how)
    assert 1 == refused.exit_code
    assert "--trust-files" in " ".join(refused.output.split())
    run(*how, "--trust-files")
    assert 5 == len(read(tmp_path / "out" / "messages"))


def test_store_urls_are_accepted(source: Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed: make setup")
    out = f"memory://cli/{uuid.uuid4().hex}"

    result = run("decode", source, out, "--workers", "1")
    again = run("decode", f"{out}/quarantine", f"{out}-again", "--workers", "1")

    assert 1 == result.exit_code
    assert f"6 messages: 5 good, 1 in {out}/quarantine" in result.stdout
    assert f"page: {out}/_report.html" in result.stdout
    page = Page((StoreLocation.of(f"{out}/_report.html").read() or b"").decode())
    assert "truncated" in page.text
    assert f"1 message: 0 good, 1 in {out}-again/quarantine" in again.stdout
    refused = run("decode", source, out, "--workers", "1")
    assert 2 == refused.exit_code
    assert "exists already" in refused.output


def test_decode_prints_a_summary(source: Path, tmp_path: Path, engine: str) -> None:
    out = tmp_path / "out"

    wanted = "message_id, application_properties.tenant"
    result = run("decode", source, out, "--columns", wanted, "--engine", engine)

    assert 1 == result.exit_code
    good, bad = read(out / "messages"), read(out / "quarantine")
    assert ["m", "m", "m", None, None] == [row["message_id"] for row in good]
    assert [SOUND[:-1]] == [row["wire"] for row in bad]
    assert bad[0]["error_text"].startswith("at byte ")
    assert f"6 messages: 5 good, 1 in {out}/quarantine" in result.stdout
    assert f"page: {out}/_report.html" in result.stdout
    ran = "local" if engine == "local" else "Spark "
    assert f"engine: {ran}" in result.stdout
    assert "in.jsonl@" in result.stdout
    text = (out / "_report.html").read_text()
    shown = Page(text)
    assert [] == shown.open
    assert "truncated" in shown.text
    assert f"{source} → {out} · engine: {ran}" in shown.text
    # What runs is the script for the examples alone, by its hash.
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    assert 1 == shown.tags.count("script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"; script-src 'sha256-{digest}'\"" in text


def test_sections_that_were_not_read_are_named(source: Path, tmp_path: Path, engine: str) -> None:
    warning = (
        "Not read: header, delivery-annotations, message-annotations, amqp-sequence, amqp-value, "
        "footer: damage in them is not detected; --profile oasis reads all"
    )
    narrow = ("decode", source, "--columns", "message_id, application_properties, body")

    summary = run(*narrow, tmp_path / "out", "--engine", engine)
    counts = run(*narrow, tmp_path / "json", "--json")
    validated = run(*narrow, tmp_path / "validated", "--profile", "oasis")
    complete = run("decode", source, tmp_path / "all")

    assert warning in " ".join(summary.stdout.split())
    assert warning in Page((tmp_path / "out" / "_report.html").read_text()).text
    assert json.loads(counts.stdout)["not_read"] == warning[10:].partition(": ")[0].split(", ")
    for result, out in ((validated, "validated"), (complete, "all")):
        assert "not read" not in result.stdout.lower()
        assert "Not read" not in Page((tmp_path / out / "_report.html").read_text()).text


def test_a_profile_quarantines_more(source: Path, tmp_path: Path, engine: str) -> None:
    out = tmp_path / "out"
    result = run("decode", source, out, "--profile", "oasis", "--json", "--engine", engine)

    summary = json.loads(result.stdout)
    assert engine in summary["engine"].lower()
    assert (6, 4, 2) == (summary["messages"], summary["good"], summary["quarantined"])
    assert {"truncated", "content-encoding-without-data"} == set(summary["rules"])


@pytest.mark.parametrize(
    "bound, status",
    [("0", 1), ("1", 0), ("16%", 1), ("16.7%", 0), ("100%", 0), ("99.999%", 0), ("0.0%", 1)],
)
def test_status_is_1_beyond_max_quarantine(
    source: Path, tmp_path: Path, bound: str, status: int
) -> None:
    result = run("decode", source, tmp_path / "out", "--max-quarantine", bound)

    assert status == result.exit_code
    assert "6 messages: 5 good, 1 in " in result.stdout


def test_a_share_in_quarantine_is_exact(tmp_path: Path) -> None:
    wires = [SOUND] * 999 + [SOUND[:-1]]
    pq.write_table(pa.table({"wire": wires}), tmp_path / "in.parquet")

    statuses = [
        run("profile", tmp_path / "in.parquet", tmp_path / f"out{i}", *options).exit_code
        for i, options in enumerate(
            [[], ["--max-quarantine", "0.1%"], ["--max-quarantine", "0.09%"]]
        )
    ]

    assert [0, 0, 1] == statuses  # the first by default


def test_one_violation_fails_as_with_the_command_validate(tmp_path: Path) -> None:
    lines = [json.dumps({"raw": wire.hex()}) for wire in [SOUND] * 999 + [SOUND[:-1]]]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))

    job = run("validate", tmp_path / "in.jsonl", tmp_path / "out")
    allowed = run("validate", tmp_path / "in.jsonl", tmp_path / "more", "--max-quarantine", "1")
    command = CliRunner().invoke(main, ["validate", "-q", str(tmp_path / "in.jsonl")])

    assert (1, 1, 0) == (command.exit_code, job.exit_code, allowed.exit_code)


def test_profile_the_sound_output_of_validate(source: Path, tmp_path: Path, engine: str) -> None:
    sound = tmp_path / "sound"
    assert 1 == run("validate", source, sound, "--engine", engine).exit_code

    result = run("profile", sound / "messages", tmp_path / "drift", "--engine", engine)

    assert 0 == result.exit_code
    assert "application-properties['tenant']" in result.stdout
    assert "string 3, long 1" in result.stdout
    assert "4 messages: 4 good" in result.stdout
    shown = Page((tmp_path / "drift" / "_report.html").read_text())
    assert "1 of 2 properties have more than one type." in shown.text
    assert "<b>" in shown.text  # as text


def test_existing_output_is_kept_without_overwrite(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("keep")

    refused = run("decode", source, out)

    assert 2 == refused.exit_code
    assert "exists already: add --overwrite" in refused.stderr
    assert "keep" == (out / "mine").read_text()
    assert 1 == run("decode", source, out, "--overwrite").exit_code
    assert not (out / "mine").exists()


def test_losses_of_a_translation_are_shown(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'{{"raw": "{Message(text).encode().hex()}"}}\n' for text in "ab"))
    how = ("translate", "--to", "0-9-1", "--engine", "local", source)

    lossless = run(*how, tmp_path / "lossless")
    lossy = run(*how, tmp_path / "lossy", "--profile", "rabbitmq-4.0")

    assert "for good" not in lossless.stdout
    assert re.search(r"body +retyped, for good +2 +the encoded sections are", lossy.stdout)
    assert "2 messages: 2 good, 2 values lost for good" in lossy.stdout
    assert (0, 1) == (lossless.exit_code, lossy.exit_code)
    assert "exit status 1: 2 values of senders lost for good" in lossy.stderr


@pytest.mark.parametrize("profile", ["lossless", "rabbitmq-4.3"])
@pytest.mark.parametrize(
    "message",
    [
        Message(b"x"),
        Message("a text"),
        Message(b"x", message_annotations={"x-exchange": "", "x-routing-key": "q"}),
        Message(b"x", properties=Properties(to="/queues/q", subject="s")),
        Message(b"x", application_properties={"u": ULong(2**64 - 1)}),
        Message("a text", message_annotations={"x-exchange": "", "x-routing-key": "q"}),
    ],
)
def test_status_and_owners_are_those_of_the_command_translate(
    tmp_path: Path, message: Message, profile: str
) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"raw": message.encode().hex()}) + "\n")
    source, out = str(tmp_path / "in.jsonl"), tmp_path / "out"
    how = ("--to", "0-9-1", "--profile", profile, "--json")

    single = CliRunner().invoke(main, ["translate", *how, source])
    job = run("translate", *how, "--engine", "local", source, out)

    assert single.exit_code == job.exit_code
    losses = json.loads(single.stdout)["losses"]
    owners = sorted((loss["path"], loss["owner"]) for loss in losses)
    (row,) = read(out / "messages")
    assert owners == sorted((loss["path"], loss["owner"]) for loss in row["losses"])
    reported = json.loads(job.stdout)["losses"]
    assert {*owners} == {(loss["path"], loss["owner"]) for loss in reported}


@pytest.mark.parametrize(
    "profile, heading", [("lossless", "Lost or carried"), ("rabbitmq-4.3", "Lost")]
)
def test_lossless_losses_are_lost_or_carried(tmp_path: Path, profile: str, heading: str) -> None:
    message = Message(b"x", properties=Properties(subject="s", group_id="g"))
    (tmp_path / "in.jsonl").write_text(json.dumps({"raw": message.encode().hex()}) + "\n")
    out = tmp_path / "out"

    result = run("translate", tmp_path / "in.jsonl", out, "--to", "0-9-1", "--profile", profile)

    assert re.search(rf"^\s*{heading} +Action", result.stdout, re.MULTILINE)
    assert f"{heading} in translation" in Page((out / "_report.html").read_text()).text


@pytest.mark.parametrize(
    "command", [["validate", SOUND.hex()], ["pipeline", "validate", "in.jsonl", "out"]]
)
def test_missing_file_of_rules_is_named(
    command: list[str], source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)

    result = CliRunner().invoke(main, [*command, "--rules", "nofile.py"])

    assert 2 == result.exit_code
    assert "--rules: nofile.py: no such file" in " ".join(result.output.split())
    assert "Errno" not in result.output


def test_broker_annotations_are_not_counted_as_lost(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    delivered = Message(b"x", message_annotations={"x-exchange": "", "x-routing-key": "q"})
    source.write_text(f'{{"raw": "{delivered.encode().hex()}"}}\n')
    how = ("translate", "--to", "0-9-1", "--engine", "local", "--profile", "rabbitmq-4.3", source)
    result = run(*how, tmp_path / "out")

    assert 0 == result.exit_code
    assert result.stdout.count("dropped, a mark of the broker") == 2
    assert "for good" not in result.stdout


@pytest.mark.parametrize("key", ["u", "/u"])
def test_property_key_is_shown_unchanged(tmp_path: Path, key: str) -> None:
    message = Message("x", application_properties={key: ULong(2**64 - 1)})
    source = tmp_path / "in.jsonl"
    source.write_text(f'{{"raw": "{message.encode().hex()}"}}\n')

    done = run("translate", "--to", "0-9-1", "--profile", "rabbitmq-4.0", source, tmp_path / "out")

    assert f"application-properties[{key}]" in done.stdout


def test_lenient_keeps_readable_values_and_counts_them(
    source: Path, tmp_path: Path, engine: str
) -> None:
    result = run("decode", "--engine", engine, "--lenient", source, tmp_path / "out")

    assert 0 == result.exit_code
    assert "6 messages: 6 good, 1 of them invalid, decoded leniently" in result.stdout
    (row,) = (row for row in read(tmp_path / "out" / "messages") if row["error_code"])
    assert ("m", None, "truncated") == (row["message_id"], row["body"], row["error_code"])
    assert (
        "invalid, decoded leniently" in Page((tmp_path / "out" / "_report.html").read_text()).text
    )
    refused = run("decode", "--lenient", "--profile", "oasis", source, tmp_path / "no")
    assert 2 == refused.exit_code
    assert "lenient applies to the job decode" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    "options, good",
    [
        (["--selector", "tenant = 'a'"], 3),
        (["--selector", "tenant = 'z'"], 0),
        (["--protocol", "1.0"], 6),
        (["--protocol", "0-9-1"], 0),
        (["--address", "nowhere"], 0),
        (["--since", "2026-01-31T12:00:00Z"], 0),
        (["--until", "2026-01-31T12:00:00Z"], 0),
    ],
)
def test_filters_leave_messages_out_and_count_them(
    source: Path, tmp_path: Path, engine: str, options: list[str], good: int
) -> None:
    damaged = 0 if "--protocol" in options or "--selector" not in options else 1

    result = run("decode", "--engine", engine, "--json", *options, source, tmp_path / "out")

    counts = json.loads(result.stdout.splitlines()[-1])
    # A message that cannot be decoded passes the selector, so that it is in the quarantine.
    assert good + damaged == counts["messages"]
    assert 6 == counts["messages"] + counts["left_out"]
    if not counts["messages"]:
        assert "the filters select no message of the input" == counts["failure"]
    page = Page((tmp_path / "out" / "_report.html").read_text()).text
    assert ("messages left out" in page) == bool(counts["left_out"])


def test_filters_of_a_capture(tmp_path: Path) -> None:
    capture = ROOT / "tests" / "vectors" / "capture.pcap"
    how = ("decode", "--engine", "local", capture)
    whole = run(*how, tmp_path / "whole")
    selected = run(*how, tmp_path / "some", "--protocol", "1.0")
    addressed = run(*how, tmp_path / "two", "--protocol", "1.0", "--address", "/queues/orders")
    invalid = run(*how, tmp_path / "no", "--since", "yesterday")

    assert (1, 0, 0, 2) == tuple(
        result.exit_code for result in (whole, selected, addressed, invalid)
    )
    assert "8 messages: 8 good, 4 left out" in selected.stdout
    assert "left out" in addressed.stdout
    assert "left out" not in whole.stdout
    assert "since must be an ISO 8601 time" in " ".join(invalid.stderr.split())
    assert not (tmp_path / "no").exists()


def test_filters_of_parquet_count_rows(tmp_path: Path) -> None:
    times = pa.array([0, 10**15, 10**15 + 1, None], pa.timestamp("us", "UTC"))
    table = pa.table({"wire": [SOUND] * 4, "time": times})
    pq.write_table(table, tmp_path / "in.parquet")

    result = run(
        *("validate", "--engine", "local", "--json", "--since", "2000-01-01T00:00:00Z"),
        *(tmp_path / "in.parquet", tmp_path / "out"),
    )

    counts = json.loads(result.stdout)
    assert (0, 2, 2) == (result.exit_code, counts["messages"], counts["left_out"])


def test_the_help_names_all_forms_of_files() -> None:
    shown = " ".join(run("decode", "--help").stdout.split())
    _, _, listed = shown.partition("guessed by default. One of ")

    assert [*FORMS] == re.split(r", | or ", listed.partition(".")[0])


@pytest.mark.parametrize(
    "arguments, status, text",
    [
        (["decode", "{in}", "{out}", "--columns", "gone"], 2, "unknown column 'gone'"),
        (["validate", "{in}", "{out}", "--profile", "gone"], 2, "unknown profile 'gone'"),
        (["decode", "{in}-not", "{out}"], 1, "no such file"),
        (
            ["decode", "{in}", "{out}", "--report", "/gone/x.html"],
            2,
            "the folder /gone does not exist",
        ),
        (
            ["decode", "{in}", "{out}", "--report", "{in}"],
            2,
            "is an input file and would be overwritten",
        ),
        (["decode", "", "{out}"], 2, "IN is empty"),
    ],
)
def test_errors_are_one_line(
    source: Path, tmp_path: Path, engine: str, arguments: list[str], status: int, text: str
) -> None:
    out = tmp_path / "out"

    result = run(*(a.format(**{"in": source, "out": out}) for a in arguments), "--engine", engine)

    assert status == result.exit_code
    assert text in result.stderr.splitlines()[-1]
    assert not out.exists()


def test_engine_is_local_unless_spark_is_requested(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = []

    def note(name: str) -> Callable[..., Any]:
        def engine(*_: object) -> Any:
            chosen.append(name)
            raise click.ClickException("only looking")

        return engine

    monkeypatch.setattr(command, "_run_locally", note("local"))
    monkeypatch.setattr(command, "_run_on_spark", note("spark"))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    for options in ([], ["--workers", "2"], ["--master", "local[2]"], ["--memory", "1g"]):
        run("decode", source, tmp_path / "out", *options)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # spark-submit has started a JVM
    for options in ([], ["--engine", "local"]):
        run("decode", source, tmp_path / "out", *options)

    assert ["local", "local", "spark", "spark", "spark", "local"] == chosen


def test_input_for_spark_only_runs_on_spark(tmp_path: Path, spark_session: Any) -> None:
    (tmp_path / "in").mkdir()
    for number, kind in enumerate([pa.int64(), pa.int32()]):
        table = pa.table({"wire": [SOUND], "n": pa.array([1], kind)})
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")

    result = run("decode", tmp_path / "in", tmp_path / "out")

    assert (0, True) == (result.exit_code, "engine: Spark" in result.stdout)
    assert spark_session.version in result.stdout
    refused = run("decode", tmp_path / "in", tmp_path / "not", "--engine", "local")
    assert 2 == refused.exit_code
    assert "only Spark reads them" in refused.stderr


@pytest.mark.parametrize(
    "column, arguments, text",
    [
        ("wire", ["translate", "--to", "1.0"], "no column 'content_header' in the input"),
        ("octets", ["decode"], "no column 'wire' in the input: it has octets"),
    ],
)
def test_invalid_jobs_are_refused_before_spark_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    arguments: list[str],
    text: str,
) -> None:
    spark = pytest.importorskip("amqp10msg.spark", reason="pyspark is not installed: make setup")
    monkeypatch.setattr(spark, "session", lambda *_, **__: pytest.fail("Spark was started"))
    pq.write_table(pa.table({column: [SOUND]}), tmp_path / "in.parquet")

    command, *options = arguments
    result = run(command, tmp_path / "in.parquet", tmp_path / "out", "--master", "local", *options)

    assert 2 == result.exit_code
    assert text in result.stderr


def without_pyspark(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from amqp10msg.app.cli import main\n"
        "if __name__ == '__main__': main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "pipeline", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_local_jobs_work_without_pyspark(source: Path, tmp_path: Path) -> None:
    done = without_pyspark("decode", source, tmp_path / "out", "--workers", 2)

    quarantine = tmp_path / "out" / "quarantine"
    text = f"1 of 6 messages in {quarantine}, more than --max-quarantine 1%"
    assert (1, f"amqp10msg: exit status 1: {text}\n") == (done.returncode, done.stderr)
    assert "6 messages: 5 good, 1 in" in done.stdout
    assert "Spark" not in done.stdout


@pytest.mark.parametrize("options", [["--master", "local[2]"], ["--engine", "spark"]])
def test_spark_without_pyspark_prints_how_to_install_it(
    source: Path, tmp_path: Path, options: list[str]
) -> None:
    done = without_pyspark("decode", source, tmp_path / "out", *options)

    assert (1, "") == (done.returncode, done.stdout)
    assert (
        "amqp10msg: amqp10msg.spark needs pyspark: pip install 'amqp10msg[spark]'\n" == done.stderr
    )
    read_by_spark = without_pyspark("decode", "s3a://x/y.parquet", tmp_path / "out")
    assert "pip install 'amqp10msg[spark]'" in read_by_spark.stderr


def test_summary_shows_errors(tmp_path: Path) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    wires = [bytes.fromhex("00537779"), bytes.fromhex("0053774f"), SIGNED]
    pq.write_table(pa.table({"wire": wires}), source)

    result = run("translate", source, out, "--to", "0-9-1", "--profile", "rabbitmq-4.0")

    stats = json.loads((out / "_amqp10msg.json").read_text())
    reason = "properties.user-id: refused: the user-id is not the connection's user"
    assert {
        "unknown-constructor": (2, "Part 1, 1.2"),
        "not-translatable": (1, ""),
    } == {code: (row["messages"], row["clause"]) for code, row in stats["rules"].items()}
    assert f"not-translatable: {reason}\n" in result.stdout
    assert "unknown-constructor: at byte 3 (amqp-value): " in result.stdout
    assert reason in Page((out / "_report.html").read_text()).text
    assert {"Part 1, 1.2", ""} == {row["error_clause"] for row in read(out / "quarantine")}


def test_0_9_1_fault_names_its_clause(tmp_path: Path) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    header = encode_content_header(BasicProperties(), 2)
    pq.write_table(
        pa.table({"content_header": [header[:-1], header], "payload": [b"", b"x"]}), source
    )

    assert 1 == run("translate", source, out, "--to", "1.0").exit_code

    assert {"0-9-1, 4.2.6.1"} == {row["error_clause"] for row in read(out / "quarantine")}


def test_single_message_instead_of_prefixed_messages_is_read(tmp_path: Path) -> None:
    source = tmp_path / "hi.bin"
    source.write_bytes(SOUND)

    assert 0 == run("decode", source, tmp_path / "out").exit_code
    result = run("decode", "-f", "prefixed", source, tmp_path / "other")

    assert 1 == result.exit_code
    assert "damaged-file: truncated: " in result.stdout
    assert "this is one message without a size before it: read it as raw" in result.stdout


def test_damaged_file_fails_regardless_of_max_quarantine(tmp_path: Path) -> None:
    """Messages after the damage are missing; all 199 before it are read."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    line = json.dumps({"raw": SOUND.hex()}).encode() + b"\n"
    packed = gzip.compress(line * 199, 0)
    (source / "a.jsonl").write_bytes(line * 800 + b"no record\n")
    (source / "b.jsonl.gz").write_bytes(packed)
    whole = run("decode", source, tmp_path / "whole", "--max-quarantine", "1%")
    (source / "b.jsonl.gz").write_bytes(packed[:-4])

    result = run("decode", source, out, "--max-quarantine", "1%")
    again = run("decode", out / "quarantine", tmp_path / "again", "--max-quarantine", "100%")

    assert (0, 1, 1) == (whole.exit_code, result.exit_code, again.exit_code)
    stats = json.loads((out / "_amqp10msg.json").read_text())
    assert (1001, 2) == (stats["messages"], stats["quarantined"])
    assert {"damaged-file": 1, "unreadable-input": 1} == {
        code: row["messages"] for code, row in stats["rules"].items()
    }
    assert "1 damaged file: all messages after the damage are missing" in result.stdout


@pytest.mark.parametrize(
    "name, octets",
    [
        ("a.prefixed", len(SOUND).to_bytes(4, "big") + SOUND[:-1]),
        ("a.cborseq", b"\x58"),
        ("a.pcap", bytes.fromhex("d4c3b2a1") + bytes(30)),
    ],
)
def test_truncated_files_are_damaged(tmp_path: Path, name: str, octets: bytes) -> None:
    (tmp_path / name).write_bytes(octets)

    result = run("decode", tmp_path / name, tmp_path / "out", "--max-quarantine", "100%")

    assert 1 == result.exit_code
    assert "damaged-file" in result.stdout


SIGNED = Message(b"x", properties=Properties(user_id=b"alice")).encode()


@pytest.mark.parametrize(
    "options, status", [([], 1), (["--user", "alice"], 0), (["--user", ""], 0)]
)
def test_user_id_must_match_the_user_option(
    tmp_path: Path, options: list[str], status: int
) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    pq.write_table(pa.table({"wire": [SIGNED]}), source)

    result = run("translate", "--to", "0-9-1", "--profile", "rabbitmq-4.3", source, out, *options)

    assert status == result.exit_code
    good, bad = ([] if not any(f.iterdir()) else read(f) for f in output_of(out))
    assert [b"x"] * (1 - status) == [row["payload"] for row in good]
    assert ["not-translatable"] * status == [row["error_code"] for row in bad]


def test_0_9_1_lines_are_translated_as_by_the_command_translate(
    tmp_path: Path, engine: str
) -> None:
    properties = BasicProperties(message_id="m", content_type="text/plain")
    message = encode_content_header(properties, 1) + b"x"
    route = {"exchange": "orders", "routing_key": "new", "redelivered": True}
    lines = [{"raw": message.hex(), "protocol": "0-9-1", **route}, {"raw": message.hex()}]
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "a.bin").write_bytes(message)

    result = run("translate", source, out, "--to", "1.0", "--engine", engine)
    single = run("translate", tmp_path / "a.bin", tmp_path / "single", "--to", "1.0")
    refused = run("decode", source, tmp_path / "decoded")
    by_command = CliRunner().invoke(main, ["translate", "--to", "1.0", "--json", str(source)])

    assert (0, 0, 0) == (result.exit_code, single.exit_code, by_command.exit_code)
    wires = [row["wire"].hex() for row in read(out / "messages")]
    assert [json.loads(line)["raw"] for line in by_command.stdout.splitlines()] == wires
    assert wires[0] != wires[1]
    assert wires[1:] == [row["wire"].hex() for row in read(tmp_path / "single" / "messages")]
    assert 1 == refused.exit_code
    assert (
        "a message of AMQP 0-9-1, which this job cannot process: the job translate to 1.0 re"
        in (" ".join(refused.stdout.split()))
    )


def test_stream_offset_reaches_the_translator(tmp_path: Path) -> None:
    profile: ProfileName = "rabbitmq-3.10-stream"
    header = encode_content_header(BasicProperties(), 0)
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    pq.write_table(pa.table({"content_header": [header], "payload": [b""]}), source)

    result = run(
        *("translate", "--to", "1.0", "--profile", profile, source, out),
        *("--stream-offset", "7"),
    )

    assert 1 == result.exit_code
    assert "exit status 1: 1 value of senders lost for good" in result.stderr
    (row,) = read(out / "messages")
    empty = BasicMessage(BasicProperties())
    given = Circumstances(stream_offset=7)
    assert row["wire"] == to_amqp10(empty, profile, circumstances=given).message.encode()
    assert row["wire"] != to_amqp10(empty, profile).message.encode()


@pytest.mark.parametrize("width", [80, 76])
def test_clauses_wrap_at_spaces_and_places_do_not(tmp_path: Path, width: int) -> None:
    body = bytes.fromhex("005375a000")
    wrong = [
        bytes.fromhex("005372c10402a1016140"),  # a key that is a string
        bytes.fromhex("005373c0050145454545"),  # a message-id that is a list
    ]
    wires = [Message(b"x" * 1_000).encode(), *(head + body for head in wrong)]
    octets = b"".join(len(wire).to_bytes(4, "big") + wire for wire in wires)
    (tmp_path / "messages.bin").write_bytes(octets)

    done = CliRunner().invoke(
        main,
        ["pipeline", "profile", str(tmp_path / "messages.bin"), str(tmp_path / "out")],
        env={"COLUMNS": str(width), "NO_COLOR": "1"},
    )

    assert "message-annotations-key-type" in done.stdout
    assert "Part 3, 3.2.11 " in done.stdout
    assert "3.2.14" in done.stdout
    for place in (len(octets) - 2 * 19, len(octets) - 19):
        assert f"messages.bin@{place}" in done.stdout


def test_own_rules_reach_every_worker(tmp_path: Path, engine: str) -> None:
    rules = tmp_path / "acme.py"
    rules.write_text(
        "from amqp10msg import rule\n"
        "@rule('names-tenant', clause='Acme guide, 2.1')\n"
        "def names_tenant(message):\n"
        '    "A message names its tenant."\n'
        "    if 'tenant' not in (message.application_properties or {}):\n"
        "        yield 'application-properties', 'no tenant'\n"
    )
    no_tenant = Message(b"x", subject="s").encode()
    source = tmp_path / "in.jsonl"
    lines = [json.dumps({"raw": octets.hex()}) for octets in (SOUND, no_tenant, WRONG)]
    source.write_text("\n".join(lines * 2))
    options = "--rules", rules, "--engine", engine

    for kind, output in (("validate", "v"), ("decode", "d")):
        result = run(kind, source, tmp_path / output, "--profile", "oasis", *options)

        assert 1 == result.exit_code
        assert 2 == len(read(tmp_path / output / "messages"))
        bad = read(tmp_path / output / "quarantine")
        errors = {(row["wire"], row["error_code"], row["error_clause"]) for row in bad}
        assert (no_tenant, "names-tenant", "Acme guide, 2.1") in errors
        assert {no_tenant, WRONG} == {octets for octets, _, _ in errors}
        assert "names-tenant: no tenant" in result.stdout
        page = (tmp_path / output / "_report.html").read_text()
        assert "oasis + acme.py" in page
        assert "no tenant" in page


@pytest.mark.parametrize("kind", ["validate", "decode"])
@pytest.mark.parametrize("text", [None, "x = 1", "x = ("])
def test_invalid_rules_stop_a_job_before_it_begins(
    source: Path, tmp_path: Path, kind: str, text: str | None
) -> None:
    rules = tmp_path / "acme.py"
    if text is not None:
        rules.write_text(text)

    options = "--profile", "oasis", "--rules", rules, "--engine", "local"
    result = run(kind, source, tmp_path / "out", *options)

    assert result.exit_code
    assert "acme.py" in result.output
    assert not (tmp_path / "out").exists()


def test_rules_without_a_profile_are_refused(source: Path, tmp_path: Path) -> None:
    rules = tmp_path / "acme.py"
    rules.write_text("from amqp10msg import rule\nown = rule('own')(lambda _: [])\n")

    result = run("decode", source, tmp_path / "out", "--rules", rules, "--engine", "local")

    assert 2 == result.exit_code
    assert "decode and a profile" in " ".join(result.output.split())


@pytest.mark.parametrize("option", [[], ["--json"]])
@pytest.mark.parametrize(
    "octets, options, reason",
    [
        (b"", [], "the input contains no messages"),
        ([SOUND, SOUND[:-1]], ["--max-quarantine", "0"], "1 of 2 messages in {out}/quarantine, "),
        ([SOUND, SOUND[:-1]], ["--max-quarantine", "1"], ""),
        ([SOUND, None], [], "1 damaged file: all messages after the damage are missing"),
    ],
)
def test_exit_status_1_has_a_reason(
    tmp_path: Path, octets: Any, options: list[str], reason: str, option: list[str]
) -> None:
    source, out = tmp_path / "in.bin", tmp_path / "out"
    # A size without its bytes damages the file.
    parts = [b"\0\0\1\0" if o is None else len(o).to_bytes(4, "big") + o for o in octets]
    source.write_bytes(b"".join(parts))

    result = run("decode", source, out, "--format", "prefixed", *options, *option)

    assert int(bool(reason)) == result.exit_code
    expected = reason.format(out=out)
    if option == ["--json"]:
        # spark-submit writes stderr to stdout, which must be JSON alone.
        assert "" == result.stderr
        assert json.loads(result.stdout).get("failure", "").startswith(expected)
        return
    lines = result.stderr.splitlines()
    said = f"amqp10msg: exit status 1: {expected}"
    assert [line.startswith(said) for line in lines] == [True] * bool(reason)
