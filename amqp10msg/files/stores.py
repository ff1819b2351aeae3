"""List, open and write local files and files of object stores, by path or URL.

`pyarrow.fs` opens ``s3://``, ``gs://`` and ``abfss://``; fsspec opens other URLs. Credentials come
from the environment, configuration files or the machine, as for the store's own tools. URLs never
contain credentials.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import hashlib
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from itertools import chain, count
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, NoReturn, TypeVar

import attrs

from amqp10msg.atomic_files import replacing
from amqp10msg.files.fetching import DEFAULT_CACHE_SIZE, Fetched
from amqp10msg.wire.later import of_extra

_T = TypeVar("_T")
# Matches a URL: scheme, host, and the rest; and the query string at the end of the rest.
_URL_PATTERN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/?]*)(.*)", re.DOTALL)
_URL_QUERY_PATTERN = re.compile(r"\?([A-Za-z_]+=[^&/]*(?:&[A-Za-z_]+=[^&/]*)*)$")
# Matches the suffix of a file name, with the ``.gz`` of a compressed file.
_SUFFIX_PATTERN = re.compile(r"\.[^.]+(\.gz)?\Z", re.IGNORECASE)
# The last second of the year 9999, in seconds since the Unix epoch: the largest time with a name.
_MAX_TIMESTAMP_S = 253_402_300_799
# Query parameters that a URL may have.
_ALLOWED_QUERY_PARAMETERS = frozenset(
    {"region", "scheme", "endpoint_override", "tls_verify_certificates"}
)
# Schemes of Hadoop file systems, whose settings are in Spark's configuration.
_HADOOP_SCHEMES = frozenset({"s3a", "s3n", "hdfs", "viewfs", "wasb", "wasbs", "dbfs"})
# Maximum number of concurrent requests for the states of files.
_MAX_CONCURRENT_STATE_REQUESTS = 16
# For sequential reading, in bytes: the first request, the buffer, and the maximum size of the
# cache.
_FIRST_REQUEST_SIZE, _BUFFER_SIZE, _SEQUENTIAL_CACHE_SIZE = 64 << 10, 1 << 20, 8 << 20
#: Files up to this size, in bytes, are fetched with a single request.
MAX_SINGLE_REQUEST_SIZE = 2 * _FIRST_REQUEST_SIZE


class StoreError(OSError):
    """A store cannot be reached, or refuses a request."""


class ReplacedError(OSError):
    """A file was replaced or changed while it was used."""


class UnknownStoreError(ValueError):
    """No installed library can open the store of a URL."""


@attrs.frozen
class State:
    """The state of a file.

    Attributes:
        size: the size in bytes.
        changed: the modification time, in ns since the Unix epoch; 0 if unknown.
        identity: distinguishes the file from earlier and later files with the same name. In a
            store, it is a hash of the file's metadata, such as the ETag. Locally, it is the inode,
            because a local file may grow.
    """

    size: int
    changed: int
    identity: str = ""


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is the URL of a file in a store."""
    match = _URL_PATTERN.match(os.fspath(path))
    return match is not None and match[1].lower() != "file"


@attrs.frozen
class StoreLocation:
    """The location of a file or folder in an object store.

    Attributes:
        root: the URL of the bucket or container.
        key: the key in the bucket, without slashes at its start and end.
        query: the query string of the URL with its question mark, or empty.
    """

    root: str
    key: str
    query: str = ""

    @classmethod
    def of(cls, url: str) -> StoreLocation:
        """Parse a URL.

        Raises:
            ValueError: `url` is not a URL, contains credentials, or has unknown parameters.
        """
        match = _URL_PATTERN.match(url)
        if match is None:
            raise ValueError(f"{url} is not a URL")
        scheme, authority, path = match.groups()
        scheme = scheme.lower()
        user, at_sign, _ = authority.rpartition("@")
        # In Azure's URLs, the container is before the @.
        if at_sign and (":" in user or not scheme.startswith("abfs")):
            raise ValueError(
                f"a URL {scheme}:// must not contain credentials: set them in the environment or "
                "in the configuration files of the store's own tools"
            )
        query = _URL_QUERY_PATTERN.search(path)
        if query is not None:
            path = path[: query.start()]
            names = [pair.partition("=")[0] for pair in query[1].split("&")]
            if unknown := [name for name in names if name not in _ALLOWED_QUERY_PARAMETERS]:
                raise ValueError(
                    f"a URL {scheme}:// cannot have the parameters {', '.join(unknown)}: "
                    f"use {', '.join(sorted(_ALLOWED_QUERY_PARAMETERS))}"
                )
        return cls(f"{scheme}://{authority}", path.strip("/"), query[0] if query else "")

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.root}/{self.key}{self.query}"

    def __truediv__(self, name: str) -> StoreLocation:
        return attrs.evolve(self, key=f"{self.key}/{name}".strip("/"))

    def _store_and_path(self) -> tuple[Any, str]:
        """The file system of the store, and the path of the file in it."""
        store, base = _open_store(self.root, self.query)
        return store, f"{base}/{self.key}" if self.key else base

    def state(self) -> State | None:
        """Return the state of a file without its identity; None if there is no such file."""
        store, path = self._store_and_path()
        file_type = _pyarrow_fs().FileType
        with _converted_errors(self):
            info = store.get_file_info(path)
        return State(info.size, info.mtime_ns or 0) if info.type == file_type.File else None

    def state_with_identity(self) -> State:
        """Return the state of a file with its identity."""
        store, path = self._store_and_path()
        with _converted_errors(self):
            if store.type_name.startswith("py::"):
                filesystem = store.handler.fs
                filesystem.invalidate_cache(path)
                info = store.get_file_info(path)
                return State(info.size or 0, info.mtime_ns or 0, filesystem.ukey(path))
            with store.open_input_file(path) as file:
                metadata = sorted((file.metadata() or {}).items())
                return State(file.size(), 0, hashlib.sha256(repr(metadata).encode()).hexdigest())

    def files(self) -> list[tuple[StoreLocation, State]]:
        """Return the files below a folder, sorted by key; [] if the folder does not exist."""
        store, path = self._store_and_path()
        fs = _pyarrow_fs()
        with _converted_errors(self):
            infos = store.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        start = len(path) - len(self.key)
        files = [
            (
                attrs.evolve(self, key=info.path.strip("/")[start:]),
                State(info.size, info.mtime_ns or 0),
            )
            for info in infos
            # Skip the empty files that the consoles of stores create for folders.
            if info.type == fs.FileType.File and not info.path.endswith("/")
        ]
        return sorted(files, key=lambda pair: pair[0].key)

    def open(self) -> Any:
        """Open a file for sequential reading, as a buffered stream with a method ``peek``."""
        file = self.open_for_random_access(_SEQUENTIAL_CACHE_SIZE)
        if file.size > MAX_SINGLE_REQUEST_SIZE:
            # The caller may read only the head, to recognise the form of the file.
            file.expect([(_FIRST_REQUEST_SIZE, file.size)])
        return io.BufferedReader(file, _BUFFER_SIZE)

    def open_for_random_access(self, cache_size: int = DEFAULT_CACHE_SIZE) -> Fetched:
        """Open a file for random access; cache at most `cache_size` bytes of the expected reads."""
        store, path = self._store_and_path()
        with _converted_errors(self):
            file = store.open_input_file(path)
            size = file.size()
        # Some file systems that are written in Python do not support concurrent reads.
        lock = Lock() if store.type_name.startswith("py::") else nullcontext()

        def fetch(start: int, stop: int) -> bytes:
            with _converted_errors(self), lock:
                octets: bytes = file.read_at(stop - start, start)
            if len(octets) < stop - start:
                raise StoreError(
                    f"{self.url}: the file ends at byte {start + len(octets):,} of {size:,}: it "
                    "was replaced in the meantime, or the connection was lost"
                )
            return octets

        return Fetched(fetch, size, file.close, cache_size)

    def read(self) -> bytes | None:
        """Read a small file as a whole; return None if there is no such file."""
        try:
            with self.open() as file:
                content: bytes = file.read()
                return content
        except FileNotFoundError:
            return None

    @contextmanager
    def create(self) -> Iterator[Any]:
        """Open a new file for writing. It appears in the store when the ``with`` block ends."""
        store, path = self._store_and_path()
        with _converted_errors(self), store.open_output_stream(path, compression=None) as file:
            yield file

    def write(self, content: bytes) -> None:
        """Write a file atomically; an existing file is replaced."""

        def put() -> None:
            with self.create() as file:
                file.write(content)

        # Another thread writes, because Ctrl-C interrupts only the main thread: interrupted writing
        # would replace the file with a part of the content.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int).result()  # starts the thread before the first write
            pool.submit(put).result()

    def move(self, target: StoreLocation) -> None:
        """Move a file to another key of the same bucket; an existing file is replaced.

        Raises:
            FileNotFoundError: there is no such file.
        """
        store, path = self._store_and_path()
        with _converted_errors(self):
            store.move(path, target._store_and_path()[1])

    def delete(self) -> None:
        """Delete a file if it exists."""
        store, path = self._store_and_path()
        try:
            with _converted_errors(self):
                store.delete_file(path)
        except FileNotFoundError:
            pass


@contextmanager
def _converted_errors(location: StoreLocation) -> Iterator[None]:
    """Convert a store's exceptions to FileNotFoundError or StoreError with the URL."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, "there is no such file", location.url) from None
    except StoreError:
        raise
    except OSError as error:
        # Only errors of the operating system have an errno, not errors of the store.
        if error.errno is not None:
            raise
        raise StoreError(f"{location.url}: {' '.join(str(error).split())}") from None


def _pyarrow_fs() -> Any:
    """Import `pyarrow.fs`, which needs an extra."""
    return of_extra("pyarrow.fs", "arrow", "object stores need pyarrow")


@cache
def _open_store(root: str, query: str) -> tuple[Any, str]:
    """Return the file system of a bucket, and the path of the bucket in that file system.

    Args:
        root: the URL of the bucket.
        query: the query string of the URL with its question mark, or empty.
    """
    fs = _pyarrow_fs()
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    scheme = root.partition("://")[0]
    if scheme in _HADOOP_SCHEMES:
        raise UnknownStoreError(f"{scheme}:// is a file system of Spark")
    uri = quick = root + query
    if scheme == "s3":
        # With this option, a small file is written with one request instead of three, and a killed
        # process leaves no partial file.
        quick += f"{'&' if query else '?'}allow_delayed_open=true"
    try:
        try:
            store, base = fs.FileSystem.from_uri(quick)
        except pa.ArrowInvalid:  # pyarrow 18 does not have the option
            store, base = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        try:
            fsspec: Any = import_module("fsspec")  # optional
            filesystem, base = fsspec.core.url_to_fs(root)
        except (ImportError, ValueError):
            raise UnknownStoreError(f"{scheme}://: {error}") from None
        store = fs.PyFileSystem(fs.FSSpecHandler(filesystem))
    return store, base.strip("/")


# Functions for both local files and files of stores.


def opened(path: str | os.PathLike[str]) -> Any:
    """Open a file for sequential reading, as a buffered stream with a method ``peek``."""
    return StoreLocation.of(os.fspath(path)).open() if is_url(path) else Path(path).open("rb")


def opened_for_random_access(path: str | os.PathLike[str]) -> Any:
    """Open a file for random access, such as Parquet, as a stream with a method ``peek``."""
    is_stored = is_url(path)
    return (
        StoreLocation.of(os.fspath(path)).open_for_random_access()
        if is_stored
        else Path(path).open("rb")
    )


def name_of(path: str | os.PathLike[str]) -> PurePosixPath | Path:
    """Return the path of a file; for a URL, its key without the bucket and the query."""
    return PurePosixPath(StoreLocation.of(os.fspath(path)).key) if is_url(path) else Path(path)


def state_of(path: str | os.PathLike[str]) -> State:
    """Return the state of a file with its identity."""
    if not is_url(path):
        stat = Path(path).stat()
        return State(stat.st_size, stat.st_mtime_ns, f"inode {stat.st_ino}")
    return StoreLocation.of(os.fspath(path)).state_with_identity()


def delete_file(path: str) -> None:
    """Delete a file.

    Raises:
        FileNotFoundError: there is no such local file.
    """
    if is_url(path):
        StoreLocation.of(path).delete()
    else:
        Path(path).unlink()


def move_file(path: str, folder: str, target: str) -> None:
    """Move a file below `folder` to the same relative path below the folder `target`.

    An existing file is never replaced: if there is one, the moved file's name gets the file's
    modification time in UTC before the suffix, such as ``a-20260131T080000Z.jsonl``, and also a
    number if that name exists, too. Both folders are in the same store and bucket, or both are
    local. Local names are reserved, so concurrent moves are safe. Most stores cannot do this: of
    two processes that move files to the same name within milliseconds, one may replace the file
    of the other.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if is_url(path):
        _move_stored_file(StoreLocation.of(path), StoreLocation.of(folder), target)
        return
    source = Path(path)
    relative = source.relative_to(Path(folder).absolute())
    archived = _reserve_name(Path(target, relative if relative.parts else source.name), source)
    reserved = archived.stat()
    try:
        _move_over(source, archived)
    except BaseException:  # including KeyboardInterrupt
        # After a complete move, the name belongs to another inode.
        if os.path.samestat(reserved, archived.lstat()):
            archived.unlink()
        raise


def _move_stored_file(location: StoreLocation, base: StoreLocation, target: str) -> None:
    """Move a file of a store as `move_file` does; `base` is the folder that contains it."""
    key = location.key.removeprefix(base.key).strip("/") or PurePosixPath(location.key).name
    archived = StoreLocation.of(target) / key
    if archived.state() is not None:
        state = location.state()
        folder, _, name = key.rpartition("/")
        for alternative in _alternative_names(name, state.changed if state else 0):
            archived = StoreLocation.of(target) / f"{folder}/{alternative}".strip("/")
            if archived.state() is None:
                break
    location.move(archived)


def _reserve_name(wanted: Path, source: Path) -> Path:
    """Create an empty file with the name that `source` will have, and return its path.

    Raises:
        FileNotFoundError: `source` does not exist.
    """
    changed = source.lstat().st_mtime_ns
    wanted.parent.mkdir(parents=True, exist_ok=True)
    for name in chain([wanted.name], _alternative_names(wanted.name, changed)):
        with suppress(FileExistsError):
            wanted.with_name(name).touch(exist_ok=False)
            return wanted.with_name(name)
    raise AssertionError("the alternative names are infinite")


def _move_over(source: Path, target: Path) -> None:
    """Move a local file to the name of an existing file, also to another file system."""
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with source.open("rb") as original, replacing(target) as copy:
            shutil.copyfileobj(original, copy)
        shutil.copystat(source, target)
        source.unlink()


def _alternative_names(name: str, changed: int) -> Iterator[str]:
    """Yield names for a file whose name exists: with its modification time, then also a number.

    Args:
        name: the existing name. Its suffix is kept, because the format may follow from it.
        changed: the modification time of the file, in ns since the Unix epoch.
    """
    suffix = _SUFFIX_PATTERN.search(name, 1)
    end = suffix.start() if suffix else len(name)
    seconds = min(max(changed // 10**9, 0), _MAX_TIMESTAMP_S)
    time = datetime.fromtimestamp(seconds, UTC)
    base = f"{name[:end]}-{time:%Y%m%dT%H%M%SZ}"
    yield f"{base}{name[end:]}"
    yield from (f"{base}-{number}{name[end:]}" for number in count(1))


def states_of(paths: Sequence[str]) -> dict[str, State]:
    """Return the state of each file."""
    return dict(zip(paths, map_files(state_of, paths), strict=True))


def check_unchanged(path: str, identity: str, size: int = 0, changed: int = 0) -> None:
    """Raise ReplacedError if a file changed while it was read. A deleted file is accepted.

    Args:
        path: the file.
        identity: the identity before reading.
        size: the size before reading, in bytes.
        changed: the modification time before reading, in ns since the Unix epoch; 0 if the file may
            grow.

    Raises:
        ReplacedError: the file was replaced, truncated or, unless it may grow, written to.
    """
    try:
        state = state_of(path)
    except FileNotFoundError:
        return  # an open file can be read to its end after it was deleted
    if identity != state.identity:
        raise ReplacedError(
            f"{path}: another file replaced it since the job started: run the job again"
        )
    if changed and (size, changed) != (state.size, state.changed):
        raise ReplacedError(f"{path}: it was written to since the job started: run the job again")
    _check_size(path, size, state)


def check_not_truncated(path: str, state: State) -> None:
    """Raise ReplacedError if a file was truncated while it was read through one open stream.

    A file that was deleted or replaced by another file is accepted: the stream still had all bytes.

    Args:
        path: the file.
        state: the state before reading.

    Raises:
        ReplacedError: the file is shorter than before.
    """
    with suppress(FileNotFoundError):
        current = state_of(path)
        if current.identity == state.identity:
            _check_size(path, state.size, current)


def _check_size(path: str, size: int, state: State) -> None:
    """Raise ReplacedError if a file is smaller than `size`, its size before reading."""
    if state.size < size:
        raise ReplacedError(
            f"{path}: it had {size:,} bytes when the job started, and now has {state.size:,}: run "
            "the job again"
        )


def map_files(function: Callable[[str], _T], paths: Sequence[str]) -> Iterator[_T]:
    """Yield `function(path)` for each path, in order. Calls are concurrent if a path is a URL.

    Each call for a URL has a latency of tens of milliseconds, and a folder may have thousands of
    files.
    """
    if not any(map(is_url, paths)):
        yield from map(function, paths)
        return
    with ThreadPoolExecutor(_MAX_CONCURRENT_STATE_REQUESTS) as pool:
        try:
            yield from pool.map(function, paths)
        finally:
            pool.shutdown(cancel_futures=True)


def is_below(path: str, folder: Path | StoreLocation) -> bool:
    """Return whether a file is in a folder or in one of its subfolders."""
    if isinstance(folder, Path):
        return not is_url(path) and Path(path).parent.resolve().is_relative_to(folder.resolve())
    if not is_url(path):
        return False
    location = StoreLocation.of(path)
    return location.root == folder.root and f"/{location.key}".startswith(
        f"/{folder.key}/".replace("//", "/")
    )


def files_of(source: str) -> list[str]:
    """Return the files of `source`, sorted: a file, all files below a folder, or of a pattern.

    Names that begin with ``.`` or ``_`` are skipped: they are hidden or temporary. Links to files
    are followed. Links to folders are followed only if `source` names them.

    Raises:
        OSError: a folder cannot be read, or a link in it is broken.
    """
    if is_url(source):
        return [*_stored_files(StoreLocation.of(source))]
    return sorted(iterate_local_files(source.removeprefix("file://")))


def listed_states(source: str) -> dict[str, State]:
    """Return the files of `source` as `files_of` does, with their states, in the order of names.

    In a store, the states are those of the listing, without identities: no request per file.

    Raises:
        OSError: as for `files_of`.
    """
    if is_url(source):
        return _stored_files(StoreLocation.of(source))
    states = {}
    for path in files_of(source):
        with suppress(FileNotFoundError):  # removed since it was listed
            states[path] = state_of(path)
    return states


def iterate_local_files(source: str) -> Iterator[str]:
    """Yield local files like `files_of`, but unsorted."""
    exists = Path(source).exists()
    paths = [Path(source)] if exists else map(Path, glob.glob(source))  # noqa: PTH207  (a pattern may be absolute)
    for path in paths:
        if path.is_dir():
            yield from _files_below(path)
        else:
            yield str(path)


def _files_below(folder: Path) -> Iterator[str]:
    """Yield the files below a local folder, except hidden ones."""
    for parent, folders, names in os.walk(folder, onerror=_raise_walk_error):
        folders[:] = [name for name in folders if name[0] not in "._"]
        for name in names:
            path = Path(parent, name)
            if name[0] in "._":
                continue
            if path.is_file():
                yield str(path)
            elif path.is_symlink() and not path.exists():
                reason = f"it is a link to {path.readlink()}, which does not exist"
                raise FileNotFoundError(errno.ENOENT, reason, str(path))


def _raise_walk_error(error: OSError) -> NoReturn:
    """Raise the error of an unreadable folder; by default, os.walk would skip the folder."""
    raise error


def folder_of(source: str) -> str:
    """Return the folder of `source`: the part before the first pattern, or all without a pattern.

    The query string of a URL is removed.
    """
    if is_url(source):
        location = StoreLocation.of(source)
        return attrs.evolve(
            location, key=_literal_prefix(PurePosixPath(location.key)), query=""
        ).url
    path = source.removeprefix("file://")
    return path if Path(path).exists() else _literal_prefix(Path(path))


def _literal_prefix(path: PurePosixPath | Path) -> str:
    """Return the parts of a path before its first part with a pattern."""
    parts = path.parts
    count = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return str(type(path)(*parts[:count])) if count < len(parts) else str(path)


def _is_hidden(path: PurePosixPath | Path) -> bool:
    """Return whether a part of a path begins with ``.`` or ``_``."""
    return any(part[0] in "._" for part in path.parts)


def _stored_files(location: StoreLocation) -> dict[str, State]:
    """Return the states of files in a store, by URL, in the order of the keys.

    `location` is a file, a folder with all files below it, or a pattern that files match.
    """
    if not glob.has_magic(location.key):
        state = location.state() if location.key else None
        if state is not None:
            return {location.url: state}
        start = len(location.key) + 1 if location.key else 0
        return {
            file.url: state
            for file, state in location.files()
            if not _is_hidden(PurePosixPath(file.key[start:]))
        }
    # As in a shell, a pattern never matches a slash.
    patterns = PurePosixPath(location.key).parts
    base = attrs.evolve(
        location, key=_literal_prefix(PurePosixPath(location.key)).removesuffix(".")
    )
    states = {}
    for file, state in base.files():
        parts = PurePosixPath(file.key).parts
        matches = len(parts) >= len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))
        if matches and not _is_hidden(PurePosixPath(*parts[len(base.key.split("/")) :])):
            states[file.url] = state
    return states
