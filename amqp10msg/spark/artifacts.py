"""This library as archives that Spark brings to its workers, with the compiled kernel.

Workers import from the folder into which Spark unpacks archives. They import nothing compiled from
a zip, and Spark Connect takes no wheels, so each package is an archive under its own name.
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
from amqp10msg.spark._workers import pure_place, tell

_LIBRARY = "amqp10msg"
# What workers need: the package, and the one that it requires, which has two names.
_PACKAGES = (_LIBRARY, "attr", "attrs")
# Of compiled modules the sources, and what others are compiled with.
_LEFT_OUT = {".pyc", ".pyx", ".pxd", ".pxi", ".c", ".cc", ".cpp", ".h", ".hpp", ".a"}
_FOLDERS_LEFT_OUT = {"__pycache__", "tests", "include"}
# The same files make the same archive: Spark Connect refuses another one of the same name.
_TIME = (1980, 1, 1, 0, 0, 0)


def archives(folder: str | PathLike[str], *wheels: str | PathLike[str]) -> list[str]:
    """Write the archives that workers need, some 3 MB, for ``spark.archives`` or ``--archives``.

    Workers need pyarrow besides; where they lack it, its wheel can be given, too.

    Args:
        folder: where to; made where it is not there.
        wheels: what comes instead of the packages that are installed here, or besides them: the
            wheel of this library for another Python or system, and those of other packages.

    Returns:
        Each as ``PATH#NAME``, which has Spark unpack it under the name of its package.

    Raises:
        ValueError: a file is not a wheel, is of another version of this library, or has a module
            outside of a package; or this library itself runs from a zip.
        OSError: a wheel cannot be read, or an archive cannot be written.
    """
    target = Path(folder).resolve()
    target.mkdir(parents=True, exist_ok=True)
    made = {}
    for wheel in map(Path, wheels):
        for name, files in _of_wheel(wheel).items():
            with zipfile.ZipFile(wheel) as source:
                pieces = ((path, source.read(whole)) for path, whole in files)
                made[name] = _written(target / f"{name}.zip", pieces)
    if _LIBRARY not in made:
        tell(pure_place())
    for name in _PACKAGES:
        if name not in made:
            made[name] = _written(target / f"{name}.zip", _installed(name))
    return [f"{path}#{name}" for name, path in sorted(made.items())]


def add_artifacts(session: SparkSession, *wheels: str | PathLike[str]) -> None:
    """Bring this library to the workers of a session, with Spark Connect, too.

    It holds for what is started from then on. Python and the system of the workers are those that
    the kernel is compiled for; elsewhere it is several times slower, which a warning says there.

    Args:
        session: whose workers.
        wheels: as for `archives`.

    Raises:
        ValueError: as for `archives`.
        OSError: likewise.
    """
    # Workers may fetch it for as long as the session lives.
    folder = tempfile.mkdtemp(prefix="amqp10msg-archives-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    session.addArtifacts(*archives(folder, *wheels), archive=True)


def _is_needed(path: PurePosixPath) -> bool:
    return path.suffix not in _LEFT_OUT and _FOLDERS_LEFT_OUT.isdisjoint(path.parts)


def _installed(name: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    spec = find_spec(name)
    places = (spec and spec.submodule_search_locations) or []
    root = next((place for one in places if (place := Path(one)).is_dir()), None)
    if root is None:
        raise ValueError(
            f"{name} is not installed as files here, so it cannot be packed: give its wheel"
        )
    for path in sorted(root.rglob("*")):
        inner = PurePosixPath(path.relative_to(root).as_posix())
        if _is_needed(inner) and path.is_file():
            yield inner, path.read_bytes()


def _of_wheel(wheel: Path) -> dict[str, list[tuple[PurePosixPath, str]]]:
    """Return by packages of a wheel their files: the path in the package, and in the wheel."""
    with wheel.open("rb") as file:  # `is_zipfile` answers False for a path that cannot be read
        is_zip = zipfile.is_zipfile(file)
    if wheel.suffix != ".whl" or not is_zip:
        raise ValueError(f"{wheel} is not a wheel")
    distribution, version, *_ = wheel.name.split("-")
    if distribution == _LIBRARY and version != __version__:
        raise ValueError(f"{wheel} is of {_LIBRARY} {version}, and this is {__version__}")
    found: dict[str, list[tuple[PurePosixPath, str]]] = {}
    with zipfile.ZipFile(wheel) as source:
        for name in sorted(source.namelist()):
            top, *rest = PurePosixPath(name).parts
            if top.endswith((".dist-info", ".data")) or name.endswith("/"):
                continue
            if not rest:
                raise ValueError(
                    f"{wheel} has {top} outside of a package: install it where the workers are"
                )
            inner = PurePosixPath(*rest)
            if _is_needed(inner):
                found.setdefault(top, []).append((inner, name))
    return found


def _written(target: Path, pieces: Iterator[tuple[PurePosixPath, bytes]]) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, octets in pieces:
            archive.writestr(zipfile.ZipInfo(path.as_posix(), _TIME), octets, zipfile.ZIP_DEFLATED)
    return target
