"""Pack this library, with its compiled kernel, into archives that Spark sends to its workers.

Spark unpacks archives into a folder from which workers import. Python cannot import compiled
modules from a zip file, and Spark Connect does not accept wheels, so each package is one archive.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from os import PathLike
from pathlib import Path, PurePosixPath

from pyspark.sql import SparkSession

from amqp10msg import __version__
from amqp10msg.spark._workers import missing_kernel_warning, warn_once

_LIBRARY_PACKAGE = "amqp10msg"
# The packages that workers need: this library, and the two packages of attrs.
_SHIPPED_PACKAGES = (_LIBRARY_PACKAGE, "attr", "attrs")
# Files that are not needed at run time: bytecode, and sources of compiled modules.
_EXCLUDED_SUFFIXES = {".pyc", ".pyx", ".pxd", ".pxi", ".c", ".cc", ".cpp", ".h", ".hpp", ".a"}
_EXCLUDED_FOLDERS = {"__pycache__", "tests", "include"}
# A fixed time makes archives reproducible: Spark Connect rejects a changed archive of the same
# name.
_FIXED_FILE_TIME = (1980, 1, 1, 0, 0, 0)


def archives(folder: str | PathLike[str], *wheels: str | PathLike[str]) -> list[str]:
    """Write archives for ``spark.archives`` or ``--archives``, about 3 MB in total.

    Workers also need pyarrow. If they do not have it, pass its wheel.

    Args:
        folder: the folder to write to; created if it does not exist.
        wheels: wheels to pack: this library for another Python version or system, in place of the
            installed package, or additional packages.

    Returns:
        The archives as ``PATH#NAME``: Spark unpacks each into a folder with the package's name.

    Raises:
        ValueError: a file is not a wheel, is another version of amqp10msg, or has a module outside
            of a package; or amqp10msg itself is imported from a zip file.
        OSError: a wheel cannot be read, or an archive cannot be written.
    """
    target = Path(folder).resolve()
    target.mkdir(parents=True, exist_ok=True)
    packed = {}
    for wheel in map(Path, wheels):
        for name, files in _wheel_files(wheel).items():
            with zipfile.ZipFile(wheel) as source:
                pieces = ((path, source.read(name_in_wheel)) for path, name_in_wheel in files)
                packed[name] = _write_archive(target / f"{name}.zip", pieces)
    if _LIBRARY_PACKAGE not in packed:
        warn_once(missing_kernel_warning())
    for name in _SHIPPED_PACKAGES:
        if name not in packed:
            packed[name] = _write_archive(target / f"{name}.zip", _installed_files(name))
    return [f"{path}#{name}" for name, path in sorted(packed.items())]


def add_artifacts(session: SparkSession, *wheels: str | PathLike[str]) -> None:
    """Send this library to the workers of a session, also with Spark Connect.

    Jobs that start afterwards use the library. The kernel works only with the Python version and
    system that it was compiled for; on other workers, the library is several times slower and
    warns.

    Args:
        session: the session.
        wheels: wheels to pack, as in `archives`.

    Raises:
        ValueError: a wheel or the library cannot be packed, for a reason listed in `archives`.
        OSError: a wheel cannot be read, or an archive cannot be written.
    """
    # Delete the archives only at exit: workers may fetch them until the session ends.
    folder = tempfile.mkdtemp(prefix="amqp10msg-archives-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    session.addArtifacts(*archives(folder, *wheels), archive=True)


def _is_needed(path: PurePosixPath) -> bool:
    """Return whether a file of a package is needed at run time."""
    return path.suffix not in _EXCLUDED_SUFFIXES and _EXCLUDED_FOLDERS.isdisjoint(path.parts)


def _installed_files(name: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield the files of an installed package, as (path in the package, content)."""
    spec = find_spec(name)
    locations = (spec and spec.submodule_search_locations) or []
    root = next((folder for location in locations if (folder := Path(location)).is_dir()), None)
    if root is None:
        raise ValueError(
            f"{name} is not installed as files, so it cannot be packed: pass its wheel"
        )
    for path in sorted(root.rglob("*")):
        inner = PurePosixPath(path.relative_to(root).as_posix())
        if _is_needed(inner) and path.is_file():
            yield inner, path.read_bytes()


def _wheel_files(wheel: Path) -> dict[str, list[tuple[PurePosixPath, str]]]:
    """Return the files of a wheel by package, as (path in the package, name in the wheel)."""
    with wheel.open(
        "rb"
    ) as file:  # given a path, `is_zipfile` would return False for an unreadable file
        is_zip = zipfile.is_zipfile(file)
    if wheel.suffix != ".whl" or not is_zip:
        raise ValueError(f"{wheel} is not a wheel")
    distribution, version, *_ = wheel.name.split("-")
    if distribution == _LIBRARY_PACKAGE and version != __version__:
        raise ValueError(
            f"{wheel} must be {_LIBRARY_PACKAGE} {__version__}, the installed version, "
            f"got {version}"
        )
    packages: dict[str, list[tuple[PurePosixPath, str]]] = {}
    with zipfile.ZipFile(wheel) as source:
        for name in sorted(source.namelist()):
            top, *inner_parts = PurePosixPath(name).parts
            if top.endswith((".dist-info", ".data")) or name.endswith("/"):
                continue
            if not inner_parts:
                raise ValueError(
                    f"{wheel} has {top} outside of a package: install this wheel on the workers"
                )
            inner = PurePosixPath(*inner_parts)
            if _is_needed(inner):
                packages.setdefault(top, []).append((inner, name))
    return packages


def _write_archive(target: Path, files: Iterator[tuple[PurePosixPath, bytes]]) -> Path:
    """Write files, as (path in the archive, content), to a zip archive; return its path."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files:
            archive.writestr(
                zipfile.ZipInfo(path.as_posix(), _FIXED_FILE_TIME), content, zipfile.ZIP_DEFLATED
            )
    return target
