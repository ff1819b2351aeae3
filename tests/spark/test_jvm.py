"""Usual messages decoded in the JVM: the same rows, and Python's wherever it is asked for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

import build_spark_jvm  # noqa: E402
import spark_jvm_tables  # noqa: E402

from amqp10msg import __version__, spark  # noqa: E402
from amqp10msg.columns import SCHEMA  # noqa: E402
from amqp10msg.sections import KINDS  # noqa: E402
from amqp10msg.spark import _jvm  # noqa: E402
from amqp10msg.wire.primitives import FORMAT_CODES  # noqa: E402
from fuzz.spark_jvm import PROJECTIONS  # noqa: E402

pytestmark = pytest.mark.xdist_group("spark")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def jar() -> Path:
    """The jar of these sources; compiled where it is not yet."""
    try:
        spark.java_home()
        build_spark_jvm.jars()
    except (RuntimeError, build_spark_jvm.CompilerError) as error:
        pytest.skip(str(error))
    return build_spark_jvm.jar()


def run(jar: Path, folder: Path, mode: str) -> dict[str, Any]:
    """Have a process with the jar try what `spark_jvm_session` does in a mode."""
    home = spark.java_home()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.spark_jvm_session", str(jar), str(folder), mode],
        cwd=folder,
        env=environment if home is None else {**environment, "JAVA_HOME": home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def found(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(jar, tmp_path_factory.mktemp("jvm"), "short")


def test_both_engines_read_some_of_the_corpus_and_mutated_messages_alike(
    found: dict[str, Any],
) -> None:
    assert [True, 0, 300, 0, True] == found["projection"]


@pytest.mark.parametrize("case", ["wire kept", "formats"])
def test_kept_columns_and_formats_are_those_of_python(found: dict[str, Any], case: str) -> None:
    assert found[case] is True


def test_the_jvm_is_taken_where_it_can_be(found: dict[str, Any]) -> None:
    assert found["planned"] is True
    assert found["python planned"] is False
    assert found["validated"] is False


def test_the_page_of_a_query_counts_the_rows_of_python(found: dict[str, Any]) -> None:
    # A described value, a cut message, and no bytes.
    assert 3 == found["odd"]


def test_functions_of_sql_are_read_in_the_jvm_and_give_what_python_does(
    found: dict[str, Any],
) -> None:
    planned = {
        "all": ["Structs"],
        "where": ["Fields"],
        "literal": ["Structs"],
        "expression": ["Structs"],
        "two": [],  # of two functions at once, Python evaluates both
        "fields": ["Fields"],
        "renamed": ["Fields"],
        "filtered": ["Fields", "Structs"],  # Spark has the function evaluated for each of the two
        "whole": ["Structs"],
    }
    assert dict.fromkeys(planned, True) == found["sql"]
    assert planned == found["sql planned"]
    assert [3, 3] == [found["sql odd"], found["sql fields odd"]]


def test_more_odd_rows_than_python_gets_at_once(found: dict[str, Any]) -> None:
    assert [["", 100_000], ["truncated", 50_000]] == found["many"]


@pytest.mark.soak
def test_every_projection_and_more_plans(jar: Path, tmp_path: Path) -> None:
    found = run(jar, tmp_path, "whole")

    assert [True] * 3 == [found.pop(case) for case in ("kept", "long formats", "shuffled")]
    assert 3 == found.pop("joined")
    ends = [["", ""], ["", ""], ["", "body-missing"], ["", "truncated"], ["m-1", ""]]
    assert ends == found.pop("streamed")
    assert {f"projection {n}": [True, 0, 300, 0, True] for n in range(len(PROJECTIONS))} == found


@pytest.mark.soak
def test_spark_connect(jar: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect is not installed: make setup")

    found = run(jar, tmp_path, "connect")

    assert found
    assert all(found.values())


def test_the_wheel_holds_a_jar_for_each_line_of_spark(tmp_path: Path) -> None:
    line, made = spark_jvm_tables.spark_line(), tmp_path / "made"
    made.mkdir()
    for one in ("3.9", line):
        (made / f"amqp10msg-spark-jvm_{one}-{__version__}.jar").write_bytes(one.encode())
    (made / f"amqp10msg-spark-jvm_{line}-0.0.9.jar").write_bytes(b"of another version")

    tool = [sys.executable, str(ROOT / "tools" / "build_spark_jvm.py"), "--pack", "made"]
    packed = subprocess.run(tool, cwd=tmp_path, capture_output=True, text=True, check=True)
    wheel = tmp_path / packed.stdout.strip()
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, tmp_path], check=True)
    code = "import amqp10msg_spark_jvm as a; print(a.jar(), a.jar('3.9.1'), a.jar('5.0.0'))"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    here, other, none = shown.stdout.split()
    assert (line, "3.9", "None") == (Path(here).read_text(), Path(other).read_text(), none)
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    assert f"Requires-Dist: amqp10msg[spark]=={__version__}\n" in metadata.read_text()


def test_there_is_nothing_to_pack(tmp_path: Path) -> None:
    tool = [sys.executable, str(ROOT / "tools" / "build_spark_jvm.py"), "--pack", str(tmp_path)]

    done = subprocess.run(tool, capture_output=True, text=True, check=False)

    assert 1 == done.returncode
    assert "there is no jar of amqp10msg" in done.stderr


def test_the_tables_are_the_declarations() -> None:
    text = spark_jvm_tables.tables()

    codes = re.findall(r'new FormatCode\((\d+), (\d+), "([^"]+)"\)', text)
    assert codes == [(str(c.code), str(c.width), c.type) for c in FORMAT_CODES.values()]
    sections = re.findall(r'new Section\("([^"]+)", "([^"]+)", "([^"]+)"\)', text)
    assert sections == [(kind.name, kind.attribute, kind.source) for kind in KINDS]
    columns = set(re.findall(r'^    "([^"]+)" -> ', text, re.MULTILINE))
    unread = {"message_format", "error_code", "error_clause", "error_offset"}
    assert set(SCHEMA.names) - unread <= columns


# Without the jar.


def test_without_the_jar_python_decodes_and_asking_for_it_is_an_error(spark_session: Any) -> None:
    raw = spark_session.createDataFrame([(b"\0\x53\x75\xa0\x01x",)], "wire binary")

    assert "x" == spark.decode(raw, columns="body_text").collect()[0].body_text
    with pytest.raises(ValueError, match="install amqp10msg-spark-jvm"):
        spark.decode(raw, engine="jvm")
    with pytest.raises(ValueError, match="must be python or jvm"):
        spark.decode(raw, engine="scala")  # type: ignore[arg-type]


class Session:
    """A session that says of itself what it is told to."""

    def __init__(self, extensions: str, version: str | None) -> None:
        self.conf = SimpleNamespace(get=lambda _name, _default: extensions)
        self.catalog = SimpleNamespace(functionExists=lambda _: version is not None)
        self.sql = lambda _: SimpleNamespace(collect=lambda: [[version]])


def chosen(session: Session, engine: Any, profile: str | None = None) -> bool:
    return _jvm.is_chosen(session, engine, profile)  # type: ignore[arg-type]


def test_which_engine_decodes() -> None:
    here = Session(f"io.delta.Extension,{_jvm.EXTENSION}", __version__)

    assert chosen(here, None)
    assert chosen(here, "jvm")
    assert not chosen(here, "python")
    assert not chosen(here, None, "oasis")
    with pytest.raises(ValueError, match="validate is done in Python"):
        chosen(here, "jvm", "oasis")


@pytest.mark.parametrize(
    "session, message",
    [
        (Session("", None), "lacks its extension"),
        (Session(_jvm.EXTENSION, None), "lacks its extension"),  # Spark did not find the class
        (Session(_jvm.EXTENSION, "0.0.9"), "its jar is of amqp10msg 0.0.9"),
    ],
    ids=["no setting", "no class", "another version"],
)
def test_why_the_jvm_cannot_decode(session: Session, message: str) -> None:
    assert not chosen(session, None)
    with pytest.raises(ValueError, match=message):
        chosen(session, "jvm")


def test_an_installed_artefact_comes_into_new_sessions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    artefact = SimpleNamespace(jar=lambda: tmp_path / "a.jar")
    monkeypatch.setitem(sys.modules, "amqp10msg_spark_jvm", artefact)
    monkeypatch.setattr(_jvm, "find_spec", lambda _: artefact)

    given = {"spark.jars": "b.jar", "spark.sql.extensions": "io.delta.Extension", "x": "y"}
    assert {
        "spark.jars": f"b.jar,{tmp_path / 'a.jar'}",
        "spark.sql.extensions": f"io.delta.Extension,{_jvm.EXTENSION}",
    } == _jvm.settings(given)
    assert {} == _jvm.settings({"spark.sql.extensions": f"other,{_jvm.EXTENSION}"})
    artefact.jar = lambda: None
    assert {} == _jvm.settings(given)
