"""Build the distributions of a release, and test them as a user would: ``make release-check``.

    python tools/release_check.py [--tag v1.2.3] [--python PYTHON ...] [--out dist]

The tool builds the source distribution from the committed files, and from that the pure wheel and,
with a C compiler, the compiled wheel for this Python. Each is built twice in different folders: the
bytes must be equal, so that anybody can compare a build of the tag. Each wheel is installed into
empty environments, on every installed Python from 3.11 to 3.14: with only its dependencies it must
pass the corpus, and with the extra ``cli`` run the demonstration. The folder also gets a bill of
materials of the core's environment (CycloneDX). The tool prints a checklist, and exits with 1 if an
entry failed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
CORPUS = """
import amqp10msg
from amqp10msg.interop import corpus

report = corpus.run(corpus.load())
print(", ".join(f"{count} {outcome}" for outcome, count in report.counts().items() if count))
raise SystemExit(not report.ok)
"""


class CheckError(Exception):
    """An entry of the checklist failed; the text is the reason."""


def call(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Run a command and return its output.

    Raises:
        CheckError: the exit status is not 0.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AMQP10MSG_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**inherited, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        shown = " ".join(str(word) for word in command[:4])
        raise CheckError(
            f"{shown} …: status {done.returncode}\n{done.stdout}{done.stderr}".rstrip()
        )
    return done.stdout


def version_of(root: Path) -> str:
    """Return the version that the package declares."""
    text = (root / "amqp10msg" / "__init__.py").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("__version__"):
            return str(ast.literal_eval(line.partition("=")[2].strip()))
    raise CheckError("amqp10msg/__init__.py declares no __version__")


def check_names(root: Path, tag: str | None) -> str:
    """Check that the tag, the package and the changelog name one version, and return it."""
    version = version_of(root)
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(rf"^## \[{re.escape(version)}\] - (.+)$", changelog, re.MULTILINE)
    if heading is None:
        raise CheckError(f"CHANGELOG.md has no section for {version}")
    if tag is not None and tag != f"v{version}":
        raise CheckError(f"the tag is {tag}, and the package is {version}: tag it v{version}")
    if tag is not None and not re.fullmatch(r"\d{4}-\d\d-\d\d", heading[1]):
        raise CheckError(f"CHANGELOG.md dates {version} {heading[1]!r}: write the day of release")
    return version


def unpack(archive: Path, into: Path) -> Path:
    """Unpack a tar file and return the one folder in it."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(into, filter="data")
        else:  # before Python 3.11.4; the file was built by this tool
            tar.extractall(into)
    (folder,) = into.iterdir()
    return folder


def build(kind: str, source: Path, out: Path, mode: str, epoch: int) -> Path:
    """Build an sdist or a wheel of a source tree, twice, and return it.

    Args:
        kind: ``sdist`` or ``wheel``.
        source: the tree.
        out: the target folder.
        mode: ``skip`` for the pure build, ``require`` for the compiled one.
        epoch: the time of all files in it, in s since 1970.

    Raises:
        CheckError: the build fails, or the second build has other bytes.
    """
    made = []
    with tempfile.TemporaryDirectory(prefix="amqp10msg-twice-") as folder:
        for number in ("1", "second-time"):  # a path of different length
            tree, into = Path(folder, number, source.name), Path(folder, f"{number}-out")
            shutil.copytree(source, tree)
            command = ("-m", "build", "--no-isolation", f"--{kind}", "--outdir", into, tree)
            call(sys.executable, *command, AMQP10MSG_EXT=mode, SOURCE_DATE_EPOCH=str(epoch))
            (found,) = into.iterdir()
            if kind == "sdist":
                pack_again(found, epoch)
            made.append(found)
        first, second = made
        if first.read_bytes() != second.read_bytes():
            raise CheckError(f"{first.name}: built twice, its bytes differ")
        return Path(shutil.copy(first, out))


def pack_again(sdist: Path, epoch: int) -> None:
    """Rewrite an sdist without variable metadata: times, owners and order."""
    packed = io.BytesIO()
    with (
        tarfile.open(sdist) as old,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            plain = copy.copy(member)
            plain.mtime, plain.uid, plain.gid, plain.uname, plain.gname = epoch, 0, 0, "", ""
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            plain.pax_headers = {}
            new.addfile(plain, old.extractfile(member) if member.isreg() else None)
    sdist.write_bytes(packed.getvalue())


def environment(python: str, folder: Path) -> Path:
    """Create an empty virtual environment and return its interpreter."""
    call(python, "-m", "venv", folder)
    names = ("bin/python", "Scripts/python.exe")
    return next(path for path in map(folder.joinpath, names) if path.exists())


def try_core(python: Path, wheel: Path, compiled: bool) -> str:
    """Install a wheel with only its dependencies and run the corpus; return its output."""
    call(python, "-m", "pip", "install", "--quiet", wheel)
    listed = call(python, "-m", "pip", "list", "--format", "freeze")
    names = {line.partition("==")[0].partition(" ")[0] for line in listed.splitlines()}
    if extra := names - {"amqp10msg", "attrs", "pip", "setuptools"}:
        raise CheckError(f"the core brings more than attrs: {', '.join(sorted(extra))}")
    build = "import amqp10msg; print(amqp10msg.COMPILED)"
    if call(python, "-I", "-c", build, cwd=python.parent).strip() != str(compiled):
        raise CheckError(f"{wheel.name} is {'not ' if compiled else ''}compiled")
    return call(python, "-I", "-c", CORPUS, cwd=python.parent).strip()


def try_command(python: Path, wheel: Path) -> str:
    """Install the command and run the demonstration; return the printed version."""
    call(python, "-m", "pip", "install", "--quiet", f"amqp10msg[cli,cbor] @ {wheel.as_uri()}")
    call(python, "-I", "-m", "amqp10msg", "demo", cwd=python.parent)
    return call(python, "-I", "-m", "amqp10msg", "--version", cwd=python.parent).strip()


def interpreters(named: list[str]) -> Iterator[tuple[str, str]]:
    """Yield version and path of every requested Python that is installed."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    seen = set()
    for name in named:
        for path in [shutil.which(name), *map(str, sorted(versions.glob(f"*/bin/{name}")))]:
            try:
                found = path and call(path, "-c", "import ensurepip, sys; print(sys.version[:4])")
            except CheckError:
                continue  # a shim of an inactive version
            if path and found and found not in seen:
                seen.add(found)
                yield found.strip(), path
                break


def has_compiler() -> bool:
    """Whether a C compiler is available."""
    return shutil.which(os.environ.get("CC", "cc")) is not None


def check(tag: str | None, named: list[str], out: Path, work: Path) -> Iterator[str]:
    """Run all checks, and yield a line for each that passed."""
    archive = work / "committed.tar"
    call("git", "archive", "--prefix=committed/", "--output", archive, "HEAD", cwd=ROOT)
    source = unpack(archive, work / "source")
    version = check_names(source, tag)
    yield f"version {version}: package and changelog{' and tag' if tag else ''} agree"
    epoch = int(call("git", "log", "-1", "--format=%ct", cwd=ROOT))
    sdist = build("sdist", source, out, "skip", epoch)
    unpacked = unpack(sdist, work / "sdist")
    wheels = [(build("wheel", unpacked, out, "skip", epoch), False)]
    if has_compiler():
        wheels.append((build("wheel", unpacked, out, "require", epoch), True))
    else:
        yield "left out: the compiled wheel, for want of a C compiler"
    call(sys.executable, "-m", "twine", "check", "--strict", sdist, *(w for w, _ in wheels))
    names = ", ".join([sdist.name, *(wheel.name for wheel, _ in wheels)])
    yield f"built twice, with the same bytes, and fit for an index: {names}"
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    first = None
    for number, (found, path) in enumerate(interpreters(named)):
        for wheel, compiled in wheels:
            if compiled and found != own:
                continue  # a compiled wheel works only with the Python that built it
            python = environment(path, work / f"venv-{number}-{compiled}")
            verdict = try_core(python, wheel, compiled)
            kind = "compiled" if compiled else "pure"
            yield f"Python {found}, {kind} wheel with attrs alone: the corpus, {verdict}"
            if first is None:
                first = python
                bill = out / "sbom.cdx.json"
                call(
                    sys.executable,
                    "-m",
                    "cyclonedx_py",
                    "environment",
                    python,
                    "--output-reproducible",
                    "--output-file",
                    bill,
                )
                yield f"a bill of materials: {bill.name}"
            if found == own:
                yield f"Python {found}, {kind} wheel: {try_command(python, wheel)}, demonstration"
    if first is None:
        raise CheckError(f"none of these is here: {', '.join(named)}")


def main(arguments: list[str] | None = None) -> int:
    """Print the checklist; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tag", help="the tag of the release, such as v1.2.3")
    parser.add_argument("--python", nargs="+", default=[*PYTHONS], help="interpreters to try")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder, emptied first")
    given = parser.parse_args(arguments)
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="amqp10msg-release-") as work:
        try:
            for line in check(given.tag, given.python, given.out.resolve(), Path(work)):
                print(f"[x] {line}", flush=True)
        except CheckError as error:
            print(f"[ ] {error}")
            return 1
    print(f"All of it holds; the distributions are in {given.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
