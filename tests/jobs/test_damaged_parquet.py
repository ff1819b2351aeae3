"""Parquet that is damaged, or none: a row says so, and all else is in the output."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import jobs  # noqa: E402
from amqp10msg.jobs import DAMAGED, Job, output_of  # noqa: E402
from amqp10msg.jobs._report import Run, page  # noqa: E402
from tests.jobs.job_inputs import SOUND, names_in, read  # noqa: E402
from tests.pages import Page  # noqa: E402

pytestmark = pytest.mark.once

WIRES = SOUND[:300]
GROUP = 100


def write(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"wire": WIRES, **columns})
    pq.write_table(table, path, row_group_size=GROUP, use_dictionary=False, compression="none")
    return path


def cut(path: Path) -> None:
    path.write_bytes(write(path).read_bytes()[:-10])


def cut_in_the_middle(path: Path) -> None:
    octets = write(path).read_bytes()
    path.write_bytes(octets[: len(octets) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other(path: Path) -> None:
    path.write_text("no Parquet at all, and longer than a footer could be\n" * 10)


def encrypted(path: Path) -> None:
    from base64 import b64decode, b64encode  # noqa: PLC0415

    import pyarrow.parquet.encryption as pe  # noqa: PLC0415

    class Plain(pe.KmsClient):  # type: ignore[misc]  # pyarrow has no types
        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:  # noqa: ARG002
            return b64encode(key_bytes)

        def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:  # noqa: ARG002
            return b64decode(wrapped_key)

    made = pe.CryptoFactory(lambda _: Plain())
    how = pe.EncryptionConfiguration(footer_key="f", uniform_encryption=True)
    properties = made.file_encryption_properties(pe.KmsConnectionConfig(), how)
    table = pa.table({"wire": WIRES})
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)


def damaged_page(path: Path) -> None:
    """Damage the values of the second of three row groups, behind a sound footer and header."""
    chunk = pq.ParquetFile(write(path)).metadata.row_group(1).column(0)
    octets = bytearray(path.read_bytes())
    end = chunk.data_page_offset + chunk.total_compressed_size
    octets[end - 1000 : end - 900] = b"\xff" * 100
    path.write_bytes(octets)


def damaged_header(path: Path) -> None:
    place = pq.ParquetFile(write(path)).metadata.row_group(1).column(0).data_page_offset
    octets = bytearray(path.read_bytes())
    octets[place : place + 20] = b"\xff" * 20
    path.write_bytes(octets)


#: How a file comes to harm, and how many of its rows can still be read.
DAMAGE: dict[str, tuple[Callable[[Path], None], int]] = {
    "cut": (cut, 0),
    "cut-in-the-middle": (cut_in_the_middle, 0),
    "empty": (empty, 0),
    "other": (other, 0),
    "encrypted": (encrypted, 0),
    "page": (damaged_page, 2 * GROUP),
    "header": (damaged_header, 2 * GROUP),
}


def damaged_input(folder: Path) -> Path:
    """Make a folder with one file of each kind of damage between good ones."""
    for number, (name, (damage, _)) in enumerate(DAMAGE.items()):
        write(folder / f"{number}-good.parquet")
        damage(folder / f"{number}-{name}.parquet")
    return folder


def check(out: Path, folder: Path) -> None:
    """Compare an output with what `damaged_input` made."""
    good, bad = (read(place) for place in output_of(out))
    whole = len(DAMAGE) * len(WIRES) + sum(rows for _, rows in DAMAGE.values())
    assert whole == len(good) == jobs.read_stats(out).good
    expected = {f"m-{i}" for i in range(len(WIRES))}
    assert expected == {row["message_id"] for row in good}
    names = [f"{number}-{name}.parquet" for number, name in enumerate(DAMAGE)]
    assert [str(folder / name) for name in names] == sorted(row["source"] for row in bad)
    assert {DAMAGED} == {row["error_code"] for row in bad}
    for row in bad:
        assert row["error_text"].startswith(f"{row['source']}: ")
        is_one_group = Path(row["source"]).stem.endswith(("page", "header"))
        assert (GROUP if is_one_group else 0) == row["offset"]
        unread = (
            "its rows from 100 to 199 are not read" if is_one_group else "nothing of it is read"
        )
        assert row["error_text"].endswith(unread)


@pytest.mark.parametrize("workers", [1, 2])
def test_each_damaged_file_is_a_row_and_good_ones_are_complete(
    tmp_path: Path, workers: int
) -> None:
    folder = damaged_input(tmp_path / "in")

    jobs.run(folder, tmp_path / "out", Job("decode"), workers=workers)

    check(tmp_path / "out", folder)


@pytest.mark.parametrize("job", [Job("validate"), Job("profile"), Job("translate", to="0-9-1")])
def test_later_jobs_read_the_manifest(tmp_path: Path, job: Job) -> None:
    write(tmp_path / "in" / "a.parquet")
    cut(tmp_path / "in" / "b.parquet")

    stats = jobs.run(tmp_path / "in", tmp_path / "out", job)

    assert (len(WIRES), 1) == (stats.good, stats.rules[DAMAGED].messages)
    assert [str(tmp_path / "in" / "b.parquet")] == [
        row["source"] for row in jobs.quarantined(tmp_path / "out")
    ]


def test_damaged_file_of_quarantine_is_kept(tmp_path: Path) -> None:
    damaged_page(tmp_path / "a.parquet")
    jobs.run(tmp_path / "a.parquet", tmp_path / "out", Job("decode"))

    stats = jobs.run(tmp_path / "out" / "quarantine", tmp_path / "again", Job("decode"))

    (expected,), (found,) = ([*jobs.quarantined(tmp_path / name)] for name in ("out", "again"))
    assert expected == found
    assert [DAMAGED] == list(stats.rules)


@pytest.mark.parametrize("damage", [cut, empty, other, encrypted])
def test_error_names_first_file_if_none_is_intact(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    for name in "ab":
        damage(tmp_path / f"{name}.parquet")

    said = rf"{re.escape(str(tmp_path / 'a.parquet'))}: damaged, or not Parquet: .*; and 1 more"
    with pytest.raises(OSError, match=said):
        jobs.run(tmp_path / "*.parquet", tmp_path / "out", Job("decode"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@given(data=st.data())
def test_damage_affects_only_its_row_group(
    tmp_path_factory: pytest.TempPathFactory, compression: str, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "in.parquet"
    table = pa.table({"wire": WIRES, "n": range(len(WIRES))})
    pq.write_table(table, path, row_group_size=GROUP, compression=compression)
    metadata = pq.ParquetFile(path).metadata
    group = data.draw(st.integers(0, metadata.num_row_groups - 1))
    columns = [metadata.row_group(group).column(i) for i in range(2)]
    starts = [c.dictionary_page_offset or c.data_page_offset for c in columns]
    stop = starts[-1] + columns[-1].total_compressed_size
    octets = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        octets[data.draw(st.integers(starts[0], stop - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(octets)

    stats = jobs.run(path, folder / "out", Job("validate"), workers=1)

    found = [*read(output_of(folder / "out")[0]), *jobs.quarantined(folder / "out")]
    numbers = {row["n"] for row in found}
    others = [n for n in range(len(WIRES)) if not group * GROUP <= n < (group + 1) * GROUP]
    assert set(others) <= numbers
    lost = len(WIRES) - sum(row["n"] is not None for row in found)
    assert (lost > 0) <= (DAMAGED in stats.rules)


def test_plain_parquet_gets_location_columns(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    wires = [*SOUND[:150], SOUND[0][:-1], *SOUND[:7], SOUND[1][:-1]]
    pq.write_table(pa.table({"wire": wires}), path, row_group_size=100)

    stats = jobs.run(path, tmp_path / "out", Job("decode"))

    assert f"{path}@150" == stats.rules["truncated"].first
    assert [(str(path), 150), (str(path), 158)] == [
        (row["source"], row["offset"]) for row in jobs.quarantined(tmp_path / "out")
    ]
    assert {"source", "offset"}.isdisjoint(read(output_of(tmp_path / "out")[0])[0])
    assert f"{path}@150" in Page(page(Run("", "", "", 1.0), stats)).text


def test_input_columns_locate_messages(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a.parquet", source=["q"] * 300, offset=pa.array(range(300)))
    cut(tmp_path / "in" / "b.parquet")

    jobs.run(path.parent, tmp_path / "out", Job("decode"))

    assert [("q", 0), ("q", 299)] == [
        (row["source"], row["offset"]) for row in read(output_of(tmp_path / "out")[0])[::299]
    ]
    assert [(str(tmp_path / "in" / "b.parquet"), 0)] == [
        (row["source"], row["offset"]) for row in jobs.quarantined(tmp_path / "out")
    ]


# Several schemas, and folders that are columns.


def test_hive_partition_folders_are_columns(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    days = ["2026-01-31", "__HIVE_DEFAULT_PARTITION__"]
    for number, day in enumerate(days):
        for name in ("a b", "c"):
            write(
                folder
                / f"day={day}"
                / f"n={number}"
                / f"q={name.replace(' ', '%20')}"
                / "x.parquet"
            )
    cut(folder / f"day={days[0]}" / "n=0" / "q=d" / "y.parquet")

    jobs.run(folder, tmp_path / "out", Job("decode", columns=("message_id",)))

    good, bad = (read(place) for place in output_of(tmp_path / "out"))
    kinds = {(str(row["day"]), row["n"], row["q"]) for row in good}
    assert {
        ("2026-01-31", 0, "a b"),
        ("2026-01-31", 0, "c"),
        ("None", 1, "a b"),
        ("None", 1, "c"),
    } == kinds
    assert 4 * len(WIRES) == len(good)
    assert [("2026-01-31", 0, "d", DAMAGED)] == [
        (str(row["day"]), row["n"], row["q"], row["error_code"]) for row in bad
    ]


def test_files_with_different_schemas_are_one_table(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", a=[1] * 300)
    write(tmp_path / "in" / "b.parquet", b=["x"] * 300)

    jobs.run(tmp_path / "in", tmp_path / "out", Job("decode", columns=("message_id",)))

    good = read(output_of(tmp_path / "out")[0])
    assert {(1, None), (None, "x")} == {(row["a"], row["b"]) for row in good}
    assert 2 * len(WIRES) == len(good)
    assert ["in", "out"] == names_in(tmp_path)


@pytest.mark.parametrize("source", ["in", "in/", "./././in", ".//in", "i*", "in/*", "."])
def test_spellings_of_a_parquet_folder_are_equivalent(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in" / "a.parquet")
    monkeypatch.chdir(tmp_path)

    stats = jobs.run(source, tmp_path.parent / f"{tmp_path.name}-out", Job("validate"))

    assert (300, 0) == (stats.rows, stats.errors)
