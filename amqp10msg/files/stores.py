"""Files on this machine and in object stores: listed, opened and written by path or URL.

URLs ``s3://``, ``gs://`` and ``abfss://`` go by `pyarrow.fs`, and what it does not know by fsspec.
Credentials are found as each store's own tools find them: in the environment, in files, from the
machine. They are never part of a URL.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, NoReturn, TypeVar

import attrs

from amqp10msg.files.fetching import MOST, Fetched
from amqp10msg.wire.later import of_extra

_T = TypeVar("_T")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/?]*)(.*)", re.DOTALL)
_QUERY = re.compile(r"\?([A-Za-z_]+=[^&/]*(?:&[A-Za-z_]+=[^&/]*)*)$")
# What a URL may say beside the place; the rest is found elsewhere.
_SAID = frozenset({"region", "scheme", "endpoint_override", "tls_verify_certificates"})
# Schemes of Hadoop, which Spark has the settings for.
_OF_SPARK = frozenset({"s3a", "s3n", "hdfs", "viewfs", "wasb", "wasbs", "dbfs"})
# How many files are asked about at a time.
_ASKED = 16
# Of what is read from its beginning on: what is fetched first, what is read of that at a time, and
# what is kept.
_HEAD, _BUFFER, _KEPT = 64 << 10, 1 << 20, 8 << 20
#: Bytes of a file that is fetched whole, by one request.
AT_ONCE = 2 * _HEAD


class StoreError(OSError):
    """A store cannot be reached, or refuses what is asked of it."""


class ReplacedError(OSError):
    """A file is not the one that was there before under its name."""


class UnknownStoreError(ValueError):
    """A URL of a store that nothing here can open."""


@attrs.frozen
class State:
    """What a store says of a file.

    Attributes:
        size: in bytes.
        changed: when it was written, in ns since the Unix epoch; 0 where that is not known.
        identity: tells it from others that had its name, or get it: in a store by what that says
            of it, such as its ETag; on this machine, where it may grow, by its inode.
    """

    size: int
    changed: int
    identity: str = ""


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether this names a file in a store, and not one of this machine."""
    found = _URL.match(os.fspath(path))
    return found is not None and found[1].lower() != "file"


@attrs.frozen
class Place:
    """A file, or a folder, in an object store.

    Attributes:
        root: the URL of the bucket or container.
        key: the place in it, without a slash at its beginning or end.
        query: what the URL says of the store, as it stands after the key.
    """

    root: str
    key: str
    query: str = ""

    @classmethod
    def of(cls, url: str) -> Place:
        """Read a URL."""
        found = _URL.match(url)
        if found is None:
            raise ValueError(f"{url} is not a URL")
        scheme, authority, rest = found.groups()
        scheme = scheme.lower()
        user, at, _ = authority.rpartition("@")
        # Of Azure the container stands there.
        if at and (":" in user or not scheme.startswith("abfs")):
            raise ValueError(
                f"a URL {scheme}:// holds credentials: leave them out, and give them by the "
                "environment or the files that the store's own tools read"
            )
        query = _QUERY.search(rest)
        if query is not None:
            rest = rest[: query.start()]
            names = [pair.partition("=")[0] for pair in query[1].split("&")]
            if unknown := [name for name in names if name not in _SAID]:
                raise ValueError(
                    f"a URL {scheme}:// says {', '.join(unknown)}, which does not belong there: "
                    f"it may say {', '.join(sorted(_SAID))}"
                )
        return cls(f"{scheme}://{authority}", rest.strip("/"), query[0] if query else "")

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.root}/{self.key}{self.query}"

    def __truediv__(self, name: str) -> Place:
        return attrs.evolve(self, key=f"{self.key}/{name}".strip("/"))

    def _store(self) -> tuple[Any, str]:
        store, base = _store(self.root, self.query)
        return store, f"{base}/{self.key}" if self.key else base

    def state(self) -> State | None:
        """Return the state of a file; None where there is none."""
        store, path = self._store()
        file_type = _pyarrow_fs().FileType
        with _refusals(self):
            info = store.get_file_info(path)
        return State(info.size, info.mtime_ns or 0) if info.type == file_type.File else None

    def identified(self) -> State:
        """Return the state of a file, and what tells it from others."""
        store, path = self._store()
        with _refusals(self):
            if store.type_name.startswith("py::"):
                found = store.handler.fs
                found.invalidate_cache(path)
                info = store.get_file_info(path)
                return State(info.size or 0, info.mtime_ns or 0, found.ukey(path))
            with store.open_input_file(path) as file:
                said = sorted((file.metadata() or {}).items())
                return State(file.size(), 0, hashlib.sha256(repr(said).encode()).hexdigest())

    def files(self) -> list[tuple[Place, State]]:
        """List the files below a folder, by their names; none where it is not there."""
        store, path = self._store()
        fs = _pyarrow_fs()
        with _refusals(self):
            infos = store.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        start = len(path) - len(self.key)
        found = [
            (
                attrs.evolve(self, key=info.path.strip("/")[start:]),
                State(info.size, info.mtime_ns or 0),
            )
            for info in infos
            # Consoles of stores make folders as empty files.
            if info.type == fs.FileType.File and not info.path.endswith("/")
        ]
        return sorted(found, key=lambda pair: pair[0].key)

    def open(self) -> Any:
        """Open a file, to be read from its beginning on: buffered, and with a method ``peek``."""
        file = self.open_in_places(_KEPT)
        if file.size > AT_ONCE:
            # The head may be all that is wanted, to see what the file is.
            file.expect([(_HEAD, file.size)])
        return io.BufferedReader(file, _BUFFER)

    def open_in_places(self, most: int = MOST) -> Fetched:
        """Open a file, to be read here and there; `most` bytes are kept of what is expected."""
        store, path = self._store()
        with _refusals(self):
            file = store.open_input_file(path)
            size = file.size()
        # Of what is written in Python not all can read at two places at a time.
        at_a_time = Lock() if store.type_name.startswith("py::") else nullcontext()

        def fetch(start: int, stop: int) -> bytes:
            with _refusals(self), at_a_time:
                found: bytes = file.read_at(stop - start, start)
            if len(found) < stop - start:
                said = f"ends at byte {start + len(found):,} of {size:,}: it was replaced meanwhile"
                raise StoreError(f"{self.url}: {said}, or the connection broke")
            return found

        return Fetched(fetch, size, file.close, most)

    def read(self) -> bytes | None:
        """Read a small file; None where it is not there."""
        try:
            with self.open() as file:
                found: bytes = file.read()
                return found
        except FileNotFoundError:
            return None

    @contextmanager
    def create(self) -> Iterator[Any]:
        """Open a file for writing, which appears when the block ends."""
        store, path = self._store()
        with _refusals(self), store.open_output_stream(path, compression=None) as file:
            yield file

    def write(self, content: bytes) -> None:
        """Write a file, whole or not at all, instead of what has its name."""

        def put() -> None:
            with self.create() as file:
                file.write(content)

        # Where Ctrl-C ended it midway, what was written by then would take the place of the file;
        # it reaches the main thread alone.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int).result()  # from here on the thread is there, and waited for
            pool.submit(put).result()

    def delete(self) -> None:
        """Delete a file; one that is not there is no error."""
        store, path = self._store()
        try:
            with _refusals(self):
                store.delete_file(path)
        except FileNotFoundError:
            pass


@contextmanager
def _refusals(place: Place) -> Iterator[None]:
    """Raise what a store says with the place, and as what it is."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, "there is no such file", place.url) from None
    except StoreError:
        raise
    except OSError as error:
        # What this machine lacks has a number.
        if error.errno is not None:
            raise
        raise StoreError(f"{place.url}: {' '.join(str(error).split())}") from None


def _pyarrow_fs() -> Any:
    return of_extra("pyarrow.fs", "arrow", "object stores need pyarrow")


@cache  # of each process: what holds credentials goes to no other
def _store(root: str, query: str) -> tuple[Any, str]:
    """Return the file system of a bucket, and its path there."""
    fs = _pyarrow_fs()
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    scheme = root.partition("://")[0]
    if scheme in _OF_SPARK:
        raise UnknownStoreError(f"{scheme}:// is a file system of Spark")
    uri = quick = root + query
    if scheme == "s3":
        # A small file is one request then, not three, and a kill leaves nothing of it.
        quick += f"{'&' if query else '?'}allow_delayed_open=true"
    try:
        try:
            store, base = fs.FileSystem.from_uri(quick)
        except pa.ArrowInvalid:  # as pyarrow 18 does not know that
            store, base = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        try:
            fsspec: Any = import_module("fsspec")  # where it is there
            found, base = fsspec.core.url_to_fs(root)
        except (ImportError, ValueError):
            raise UnknownStoreError(f"{scheme}://: {error}") from None
        store = fs.PyFileSystem(fs.FSSpecHandler(found))
    return store, base.strip("/")


# The same of both: files of this machine, and of stores.


def opened(path: str | os.PathLike[str]) -> Any:
    """Open a file for reading: buffered, and with a method ``peek``."""
    return Place.of(os.fspath(path)).open() if is_url(path) else Path(path).open("rb")


def opened_in_places(path: str | os.PathLike[str]) -> Any:
    """Open a file for reading here and there, as Parquet is; with a method ``peek``."""
    is_stored = is_url(path)
    return Place.of(os.fspath(path)).open_in_places() if is_stored else Path(path).open("rb")


def name_of(path: str | os.PathLike[str]) -> PurePosixPath | Path:
    """Return the path of a file, without what a URL says of the store."""
    return PurePosixPath(Place.of(os.fspath(path)).key) if is_url(path) else Path(path)


def state_of(path: str | os.PathLike[str]) -> State:
    """Return the size of a file, and when it was written."""
    if not is_url(path):
        found = Path(path).stat()
        return State(found.st_size, found.st_mtime_ns, f"inode {found.st_ino}")
    return Place.of(os.fspath(path)).identified()


def states_of(paths: Sequence[str]) -> dict[str, State]:
    """Return the state of each file."""
    return dict(zip(paths, of_each(state_of, paths), strict=True))


def check_same(path: str, identity: str, size: int = 0, changed: int = 0) -> None:
    """Check that a file which was read is the one that it was before; one that is gone passes.

    It was `changed` in ns since the Unix epoch; 0 where it may grow.

    Raises:
        ReplacedError: it is another one, has lost bytes, or was written to.
    """
    try:
        found = state_of(path)
    except FileNotFoundError:
        return  # what was open, and read to its end, was still the same one
    if identity != found.identity:
        said = "another file has replaced it since the job began: run it again"
        raise ReplacedError(f"{path}: {said}")
    if changed and (size, changed) != (found.size, found.changed):
        raise ReplacedError(f"{path}: it was written to since the job began: run it again")
    _check_size(path, size, found)


def check_whole(path: str, state: State) -> None:
    """Check that a file which was opened once was not cut off meanwhile; another one passes.

    Raises:
        ReplacedError: it has lost bytes.
    """
    with suppress(FileNotFoundError):
        found = state_of(path)
        if found.identity == state.identity:
            _check_size(path, state.size, found)


def _check_size(path: str, size: int, found: State) -> None:
    if found.size < size:
        said = f"it had {size:,} bytes when the job began, and has {found.size:,}: run it again"
        raise ReplacedError(f"{path}: {said}")


def of_each(function: Callable[[str], _T], paths: Sequence[str]) -> Iterator[_T]:
    """Yield what a function returns for each path, in order; of stores, many are asked at a time.

    An answer takes tens of milliseconds, and a folder may have thousands of files.
    """
    if not any(map(is_url, paths)):
        yield from map(function, paths)
        return
    with ThreadPoolExecutor(_ASKED) as pool:
        try:
            yield from pool.map(function, paths)
        finally:
            pool.shutdown(cancel_futures=True)


def is_below(path: str, folder: Path | Place) -> bool:
    """Return whether a file, by its path or URL, stands in a folder or below it."""
    if isinstance(folder, Path):
        return not is_url(path) and Path(path).parent.resolve().is_relative_to(folder.resolve())
    if not is_url(path):
        return False
    place = Place.of(path)
    return place.root == folder.root and f"/{place.key}".startswith(
        f"/{folder.key}/".replace("//", "/")
    )


def files_of(source: str) -> list[str]:
    """List files: those below folders, without hidden and unfinished ones, in order.

    Links to files are followed, and those to folders only where they are given.

    Raises:
        OSError: a folder cannot be read, or a link in it leads nowhere.
    """
    if is_url(source):
        return _stored_files(Place.of(source))
    return sorted(found_files(source.removeprefix("file://")))


def found_files(given: str) -> Iterator[str]:
    """Yield files of this machine as `files_of` lists them, as they are found."""
    found = [Path(given)] if Path(given).exists() else map(Path, glob.glob(given))  # noqa: PTH207  (a pattern may be absolute)
    for path in found:
        if path.is_dir():
            yield from _files_below(path)
        else:
            yield str(path)


def _files_below(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if name[0] not in "._"]
        for name in names:
            path = Path(place, name)
            if name[0] in "._":
                continue
            if path.is_file():
                yield str(path)
            elif path.is_symlink() and not path.exists():
                said = f"it is a link to {path.readlink()}, which is not there"
                raise FileNotFoundError(errno.ENOENT, said, str(path))


def _refuse(error: OSError) -> NoReturn:
    # What is in a folder that cannot be read would be missing, and nobody would know.
    raise error


def folder_of(source: str) -> str:
    """Return the folder that a source names before its first pattern, or all of it."""
    if is_url(source):
        place = Place.of(source)
        return attrs.evolve(place, key=_fixed(PurePosixPath(place.key)), query="").url
    given = source.removeprefix("file://")
    return given if Path(given).exists() else _fixed(Path(given))


def _fixed(path: PurePosixPath | Path) -> str:
    parts = path.parts
    count = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return str(type(path)(*parts[:count])) if count < len(parts) else str(path)


def _is_hidden(path: PurePosixPath | Path) -> bool:
    return any(part[0] in "._" for part in path.parts)


def _stored_files(place: Place) -> list[str]:
    if not glob.has_magic(place.key):
        if place.key and place.state() is not None:
            return [place.url]
        below = [place for place, _ in place.files()]
        start = len(place.key) + 1 if place.key else 0
        return [one.url for one in below if not _is_hidden(PurePosixPath(one.key[start:]))]
    # A pattern is of names between slashes, as in a shell.
    wanted = PurePosixPath(place.key).parts
    fixed = attrs.evolve(place, key=_fixed(PurePosixPath(place.key)).removesuffix("."))
    found = []
    for one, _ in fixed.files():
        parts = PurePosixPath(one.key).parts
        fits = len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))
        if fits and not _is_hidden(PurePosixPath(*parts[len(fixed.key.split("/")) :])):
            found.append(one.url)
    return found
