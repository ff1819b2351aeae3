"""Build ``amqp10msg-spark-jvm``: the tables, the classes, the jar, and the wheel that holds it.

    python tools/build_spark_jvm.py [FOLDER]

It takes Java and PySpark, which has the compiler of Scala among its jars.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pyspark
from spark_jvm_tables import spark_line, tables

from amqp10msg import __version__
from amqp10msg.spark import java_home

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "spark-jvm"
OUT = ROOT / "build" / "spark-jvm"
PACKAGE = "amqp10msg_spark_jvm"
# The compiler runs once, so the quick compiler of Java is enough for it.
_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss8m")
# No -release: for that a Java newer than it needs files that come with a JDK alone.
_SCALAC = ("-usejavacp", "-deprecation", "-Xlint", "-Werror")


class CompilerError(RuntimeError):
    """There is no compiler, or it refuses the sources; the message is what it said."""


def jars() -> Path:
    """Return the folder of PySpark's jars.

    Raises:
        CompilerError: the compiler of Scala is not among them.
    """
    folder = Path(pyspark.__path__[0]) / "jars"
    if not any(folder.glob("scala-compiler-*.jar")):
        raise CompilerError(f"there is no scala-compiler-*.jar in {folder}")
    return folder


def compiled(sources: Sequence[Path], target: Path) -> None:
    """Compile sources of Scala against PySpark's jars into a jar, the same for the same sources.

    Raises:
        CompilerError: they cannot be compiled.
    """
    library = jars()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Of two that build at once, each has a folder of its own.
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        classes = Path(work, "classes")
        classes.mkdir()
        home = os.environ.get("JAVA_HOME") or java_home()
        java = str(Path(home, "bin", "java")) if home else "java"
        command = [
            *(java, *_JAVA, "-cp", f"{library}/*", "scala.tools.nsc.Main", *_SCALAC),
            *("-d", str(classes), *map(str, sources)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompilerError(f"the compiler of Scala refuses:\n{done.stdout}{done.stderr}")
        packed = Path(work, target.name)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(classes.rglob("*.class")):
                # Without the time, so that the same sources make the same jar.
                entry = zipfile.ZipInfo(path.relative_to(classes).as_posix())
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
        packed.replace(target)


def jar(out: Path = OUT) -> Path:
    """Return the jar in a folder; compile it where its sources are others than it was made of.

    Raises:
        CompilerError: it cannot be compiled.
    """
    made = tables()
    scala = sorted((SOURCES / "scala").glob("*.scala"))
    digest = hashlib.sha256(made.encode())
    for path in (Path(__file__), *scala):
        digest.update(path.read_bytes())
    target = out / f"amqp10msg-spark-jvm_{spark_line()}-{__version__}.jar"
    stamp = out / "sources.sha256"
    if target.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
        return target
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as work:
        generated = Path(work, "Tables.scala")
        generated.write_text(made, encoding="utf-8")
        compiled([generated, *scala], target)
    stamp.write_text(digest.hexdigest())
    return target


def requirements() -> str:
    """Return what the wheel requires: the jar is of one version and for one line of Spark."""
    return f"""\
# has Spark use it, and decodes odd messages
amqp10msg[spark]=={__version__}
# the line that the jar is compiled for
pyspark[sql]=={spark_line()}.*
"""


def wheel(out: Path = OUT) -> Path:
    """Return the wheel in a folder, with the jar in it.

    Raises:
        CompilerError: the jar cannot be compiled.
        subprocess.CalledProcessError: setuptools refuses.
    """
    made = jar(out)
    with tempfile.TemporaryDirectory(dir=out) as work:
        tree = Path(work, "tree")
        shutil.copytree(SOURCES, tree, ignore=shutil.ignore_patterns("scala", "__pycache__"))
        shutil.copy(ROOT / "LICENSE", tree)
        shutil.copy(made, tree / PACKAGE)
        (tree / "VERSION").write_text(__version__)
        (tree / "REQUIREMENTS").write_text(requirements())
        # In an interpreter of its own, as setuptools changes the one that it runs in.
        code = "import sys; from setuptools.build_meta import build_wheel as b; b(sys.argv[1])"
        command = [sys.executable, "-c", code, work]
        subprocess.run(command, cwd=tree, capture_output=True, check=True)
        (built,) = Path(work).glob("*.whl")
        return built.replace(out / built.name)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    try:
        print(wheel(folder))
    except CompilerError as error:
        sys.exit(str(error))
