"""Build the inspector: a folder of static files, which any web server can serve.

    python tools/build_inspector.py FOLDER

The page runs this library in the browser, on Pyodide, which npm installs into build/node; attrs,
Jinja2 and MarkupSafe come from this environment. The same sources give the same bytes.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from amqp10msg.app.inspector.session import page, worker
from amqp10msg.atomic_files import write_whole

ROOT = Path(__file__).parents[1]
NODE = ROOT / "build" / "node"
#: The version that the tests run on.
PYODIDE = "314.0.7"
#: Seconds that npm may take for it; it was seen to wait without an end.
PATIENCE = 180
#: Of its package, what a browser loads.
RUNTIME = (
    *("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm"),
    *("python_stdlib.zip", "pyodide-lock.json"),
)
#: What the library needs in the browser, by distribution: its packages.
REQUIRED = {"attrs": ("attr", "attrs"), "Jinja2": ("jinja2",), "MarkupSafe": ("markupsafe",)}
# Of this library, what stands to the right of the inspector, or reads Arrow.
LEFT_OUT = frozenset(
    (
        *("app/cli", "columns", "interop/conformance", "interop/corpus", "interop/proton"),
        *("interop/systems", "jobs", "net", "spark", "testing"),
    )
)
KINDS = frozenset((".py", ".css", ".html", ".js"))
# The earliest time that a ZIP file can say.
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


class MissingError(Exception):
    """Something that the inspector is built from is not here; the text says how to get it."""


def build(folder: Path) -> None:
    """Write the inspector into a folder.

    Raises:
        MissingError: npm or one of its packages is missing.
    """
    runtime = pyodide()
    folder.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME:
        shutil.copyfile(runtime / name, folder / name)
    _zip(folder / "amqp10msg.zip")
    write_whole(folder / "worker.mjs", worker())
    write_whole(folder / "index.html", page())


def pyodide() -> Path:
    """Return the folder of Pyodide's npm package, and install it where it is missing.

    Raises:
        MissingError: npm is missing, or cannot install it.
    """
    home = NODE / "node_modules" / "pyodide"
    if is_installed():
        return home
    npm = shutil.which("npm")
    if npm is None:
        raise MissingError(
            "npm is not on the PATH, and Pyodide comes from it: "
            "install Node 18 or later (apt install npm), then make inspector again"
        )
    NODE.mkdir(parents=True, exist_ok=True)
    wanted = f"pyodide@{PYODIDE}"
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(NODE), wanted]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise MissingError(f"npm has not installed {wanted} within {PATIENCE} s") from None
    if done.returncode or not is_installed():
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it does not say why"]
        raise MissingError(f"npm cannot install {wanted}: {said[-1]}")
    return home


def is_installed() -> bool:
    """Return whether Pyodide is here, in the version that the page takes."""
    try:
        made = json.loads((NODE / "node_modules" / "pyodide" / "package.json").read_bytes())
    except (OSError, ValueError):
        return False
    return bool(made.get("version") == PYODIDE)


def _zip(path: Path) -> None:
    """Write the library and what it needs as a ZIP file, which the page unpacks."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, file in sorted(_contents()):
            about = zipfile.ZipInfo(name, _LONG_AGO)
            about.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(about, file.read_bytes(), compresslevel=9)


def _contents() -> Iterator[tuple[str, Path]]:
    """Yield the files by their names in the ZIP file."""
    library = ROOT / "amqp10msg"
    left_out = [library / name for name in LEFT_OUT]
    for place, path in _files(library, ROOT):
        if not any(map(path.is_relative_to, left_out)):
            yield place, path
    yield "licenses/amqp10msg/LICENSE", ROOT / "LICENSE"
    for name, packages in REQUIRED.items():
        for package in packages:
            found = importlib.util.find_spec(package)
            if found is None or found.origin is None:
                raise MissingError(f"{name} is not installed: pip install {name}")
            home = Path(found.origin).parent
            yield from _files(home, home.parent)
        for file in importlib.metadata.files(name) or ():
            if "LICENSE" in file.name.upper():
                yield f"licenses/{name}/{file.name}", Path(str(file.locate()))


def _files(path: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the source files at or below a path."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.suffix in KINDS and "__pycache__" not in file.parts:
            yield str(file.relative_to(root).as_posix()), file


if __name__ == "__main__":
    target = Path(sys.argv[1])
    try:
        build(target)
    except MissingError as error:
        raise SystemExit(str(error)) from None
    print(f"{target}/index.html: serve the folder, as by python -m http.server -d {target}")
