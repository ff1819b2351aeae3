"""Build ``amqp10msg-spark-jvm``: the tables, the classes, the jar, and the wheel that holds it.

    python tools/build_spark_jvm.py [FOLDER]
    python tools/build_spark_jvm.py --pack FOLDER

It takes Java and PySpark, which has the compiler of Scala among its jars. A jar is for the line of
Spark that it was compiled with; with ``--pack``, a wheel is made of those that FOLDER has.
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
    stamp = target.with_suffix(".sha256")
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
    """Return what the wheel requires: its jars are of one version, and decode for no other."""
    return f"""\
# has Spark use it, and decodes odd messages
amqp10msg[spark]=={__version__}
"""


def wheel(jars: Sequence[Path], out: Path = OUT) -> Path:
    """Return the wheel in a folder.

    Args:
        jars: what it holds, one for each line of Spark.
        out: the folder.

    Raises:
        subprocess.CalledProcessError: setuptools refuses.
    """
    with tempfile.TemporaryDirectory(dir=out.resolve()) as work:
        tree = Path(work, "tree")
        shutil.copytree(SOURCES, tree, ignore=shutil.ignore_patterns("scala", "__pycache__"))
        shutil.copy(ROOT / "LICENSE", tree)
        for one in jars:
            shutil.copy(one, tree / PACKAGE)
        (tree / "VERSION").write_text(__version__)
        (tree / "REQUIREMENTS").write_text(requirements())
        # In an interpreter of its own, as setuptools changes the one that it runs in.
        code = "import sys; from setuptools.build_meta import build_wheel as b; b(sys.argv[1])"
        command = [sys.executable, "-c", code, work]
        subprocess.run(command, cwd=tree, capture_output=True, check=True)
        (built,) = Path(work).glob("*.whl")
        return built.replace(out / built.name)


def main(given: Sequence[str]) -> None:
    """Build what the command line asks for, and print where it is."""
    is_packed = "--pack" in given
    folders = [Path(one) for one in given if one != "--pack"]
    out = folders[0] if folders else OUT
    try:
        made = sorted(out.glob(f"*-{__version__}.jar")) if is_packed else [jar(out)]
    except CompilerError as error:
        sys.exit(str(error))
    if not made:
        sys.exit(f"{out}: there is no jar of amqp10msg {__version__}")
    print(wheel(made, out))


if __name__ == "__main__":
    main(sys.argv[1:])
