"""The library as archives for workers: whole, the same each time, and from wheels of others."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import amqp10msg
from amqp10msg.app.cli import main

pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

from amqp10msg import spark

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]


def unpacked(archives: list[str], folder: Path) -> Path:
    """Unpack as Spark does: each under its own name."""
    for one in archives:
        path, _, name = one.partition("#")
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder / name)
    return folder


def wheel(folder: Path, name: str, **files: str) -> Path:
    made = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(path.replace("__of__", "/"), text)
    return made


def test_pipeline_archives_run_in_bare_python(tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["pipeline", "--archives", str(tmp_path / "made")])
    folder = unpacked(shown.stdout.strip().split(","), tmp_path / "unpacked")

    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        "import amqp10msg, json\n"
        "from amqp10msg import Message\n"
        "print(json.dumps([amqp10msg.COMPILED, amqp10msg.__file__,"
        " Message.decode(Message(b'x').encode()).value.decode()]))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )

    place = str(folder / "amqp10msg" / "__init__.py")
    assert [amqp10msg.COMPILED, place, "x"] == json.loads(done.stdout)
    size = sum(path.stat().st_size for path in (tmp_path / "made").iterdir())
    assert size < 8 << 20


def test_archive_is_reproducible(tmp_path: Path) -> None:
    first, second = (
        [Path(one.partition("#")[0]).read_bytes() for one in spark.archives(tmp_path / name)]
        for name in "ab"
    )

    assert first == second


def test_wheel_replaces_installed_package(tmp_path: Path) -> None:
    ours = wheel(
        tmp_path,
        f"amqp10msg-{amqp10msg.__version__}",
        amqp10msg__of____init__="", amqp10msg__of__tests__of__a="", dist__of__b="b",
    )  # fmt: skip
    other = wheel(tmp_path, "other-1", other__of__a="a", other__of__b__of__c="c")
    with zipfile.ZipFile(ours, "a") as archive:
        archive.writestr("amqp10msg-1.dist-info/METADATA", "")

    folder = unpacked(spark.archives(tmp_path / "made", ours, other), tmp_path / "unpacked")

    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    ours_and_other = {name for name in names if not name.startswith(("attr/", "attrs/"))}
    assert {"amqp10msg/__init__", "dist/b", "other/a", "other/b/c"} == ours_and_other
    assert {"attr/__init__.py", "attrs/__init__.py"} <= names


@pytest.mark.parametrize(
    "name, files, said",
    [
        ("amqp10msg-0.0.9", {"amqp10msg__of__a": ""}, "must be amqp10msg .*, got 0.0.9"),
        ("six-1", {"six.py": ""}, "has six.py outside of a package"),
    ],
)
def test_invalid_wheel_is_an_error(
    tmp_path: Path, name: str, files: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        spark.archives(tmp_path / "made", wheel(tmp_path, name, **files))


def test_missing_wheel_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    path.write_bytes(b"no zip")

    with pytest.raises(ValueError, match=r"a\.whl is not a wheel"):
        spark.archives(tmp_path / "made", path)
