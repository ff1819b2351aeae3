"""`move_file` never replaces a file, in local folders and in stores."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.files import stores
from amqp10msg.files.reading import form_of_name
from amqp10msg.files.stores import StoreLocation, move_file

#: A modification time, in s since the Unix epoch, and its text.
TIME, TIME_TEXT = 1_769_846_400, "20260131T080000Z"
NAMES = st.sampled_from(["a.jsonl", "a.jsonl.gz", "day/a.jsonl", "a", "a.b.bin", "a-1.jsonl"])


def put(path: Path, content: bytes, time: int = TIME) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time, time))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def fail_to_rename(error: int) -> Callable[..., None]:
    """Return a replacement of `Path.replace` that fails for files outside of the archive."""
    rename = Path.replace

    def replace(self: Path, target: Path) -> None:
        if "archive" not in self.parts:
            raise OSError(error, os.strerror(error))
        rename(self, target)

    return replace


@pytest.mark.parametrize("is_other_file_system", [False, True])
@given(moves=st.lists(st.tuples(NAMES, st.sampled_from([0, TIME, -1, 1 << 40])), max_size=8))
def test_no_file_is_lost(moves: list[tuple[str, int]], is_other_file_system: bool) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if is_other_file_system:
            patch.setattr(Path, "replace", fail_to_rename(errno.EXDEV))
        landing, archive = Path(folder, "landing"), Path(folder, "archive")
        for number, (name, time) in enumerate(moves):
            path = put(landing / name, str(number).encode(), time)
            move_file(str(path), str(landing), str(archive))

        archived = contents(archive)
        assert {} == contents(landing)
        assert sorted(str(number).encode() for number in range(len(moves))) == sorted(
            archived.values()
        )
        # The names without a number are those of the first files; the suffixes are unchanged.
        assert {name for name, _ in moves} <= {*archived}
        for name, content in archived.items():
            assert form_of_name(moves[int(content)][0]) == form_of_name(name)


@pytest.mark.parametrize(
    "name, later",
    [
        ("a.jsonl", ["a-{}.jsonl", "a-{}-1.jsonl", "a-{}-2.jsonl"]),
        ("day=1/a.jsonl.gz", ["day=1/a-{}.jsonl.gz", "day=1/a-{}-1.jsonl.gz"]),
        ("2026.01.bin", ["2026.01-{}.bin"]),
        ("a", ["a-{}"]),
    ],
)
@pytest.mark.parametrize("is_stored", [False, True])
def test_later_file_gets_its_time_in_its_name(
    tmp_path: Path, name: str, later: list[str], is_stored: bool
) -> None:
    expected = [name, *(text.format(TIME_TEXT) for text in later)]
    base = str(tmp_path)
    if is_stored:
        pytest.importorskip("pyarrow")
        pytest.importorskip("fsspec")
        base = f"memory://lake/{uuid.uuid4().hex}"
    for number in range(len(expected)):
        path = f"{base}/in/{name}"
        if is_stored:
            StoreLocation.of(path).write(str(number).encode())
        else:
            put(Path(path), str(number).encode())
        with pytest.MonkeyPatch.context() as patch:
            if is_stored:  # the store in memory has the current time
                state = StoreLocation.state

                def at_time(location: StoreLocation, state: object = state) -> stores.State | None:
                    found: stores.State | None = state(location)  # type: ignore[operator]
                    return found and stores.State(found.size, TIME * 10**9)

                patch.setattr(StoreLocation, "state", at_time)
            move_file(path, f"{base}/in", f"{base}/archive")

    if is_stored:
        files = [location for location, _ in StoreLocation.of(f"{base}/archive").files()]
        start = len(StoreLocation.of(f"{base}/archive").key) + 1
        found = {location.key[start:]: location.read() for location in files}
        assert [] == StoreLocation.of(f"{base}/in").files()
    else:
        found = dict(contents(tmp_path / "archive"))
    assert {name: str(number).encode() for number, name in enumerate(expected)} == found


def test_concurrent_moves_lose_no_file(tmp_path: Path) -> None:
    count = 64
    for number in range(count):
        put(tmp_path / str(number) / "a.bin", str(number).encode())

    def move(number: int) -> None:
        folder = tmp_path / str(number)
        move_file(str(folder / "a.bin"), str(folder), str(tmp_path / "archive"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(move, range(count)))

    assert {str(number).encode() for number in range(count)} == {
        *contents(tmp_path / "archive").values()
    }


def test_failed_move_leaves_the_file_and_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "in" / "a.bin", b"x")
    monkeypatch.setattr(Path, "replace", fail_to_rename(errno.EACCES))

    with pytest.raises(PermissionError):
        move_file(str(path), str(tmp_path / "in"), str(tmp_path / "archive"))

    assert {"in/a.bin": b"x"} == contents(tmp_path)


def test_missing_file_is_an_error_and_leaves_no_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        move_file(str(tmp_path / "in" / "a.bin"), str(tmp_path / "in"), str(tmp_path / "archive"))

    assert {} == contents(tmp_path)


def test_other_file_system_keeps_time_and_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "in" / "a.bin", b"x")
    path.chmod(0o640)
    before = path.stat()
    monkeypatch.setattr(Path, "replace", fail_to_rename(errno.EXDEV))

    move_file(str(path), str(tmp_path / "in"), str(tmp_path / "archive"))

    after = (tmp_path / "archive" / "a.bin").stat()
    assert (before.st_mtime_ns, before.st_mode) == (after.st_mtime_ns, after.st_mode)
