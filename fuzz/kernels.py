"""The compiled kernel built for fuzzing, and the environment that it runs in."""

from __future__ import annotations

import ast
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "fuzz"
BUILDS = ("pure", "compiled", "asan")
_SOURCES = {".py", ".pyx", ".pxd", ".pxi"}
_SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def compiler() -> list[str]:
    """The C compiler and its options: `CC`, or the one that Python was built with, or cc.

    Raises:
        RuntimeError: there is none.
    """
    for command in (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    raise RuntimeError("there is no C compiler: apt install gcc python3-dev, or --build pure")


def tree(build: str) -> Path:
    """Return the folder to import the package from, with its kernel built as this build asks.

    ``pure`` runs on the sources. ``compiled`` and ``asan`` are copies of the package whose kernel
    reports its coverage; that of ``asan`` also finds what AddressSanitizer and UBSan find. They are
    built anew when a source is newer.

    Raises:
        RuntimeError: there is no C compiler.
        subprocess.CalledProcessError: it failed.
    """
    if build == "pure":
        return ROOT
    target = FOLDER / build
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = _kernels()
    libraries = [target / f"{module.replace('.', '/')}{suffix}" for module in modules]
    newest = max(path.stat().st_mtime for path in _sources(modules))
    # The modules take each other apart in C: they are of one make.
    fresh = all(path.exists() and path.stat().st_mtime > newest for path in libraries)
    made = [path.read_bytes() for path in libraries] if fresh else []
    # The sources around the kernel are copied each time: that costs nothing.
    shutil.rmtree(target, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "amqp10msg", target / "amqp10msg", ignore=ignored)
    if not made:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            flags = _SANITIZERS if build == "asan" else []
            list(pool.map(_compile, modules, libraries, [flags] * len(modules)))
    for path, octets in zip(libraries, made, strict=False):
        path.write_bytes(octets)
    return target


def _sources(modules: list[str]) -> list[Path]:
    """Return the files that libraries are made of: those of modules, and what these include."""
    compiled = {module.rpartition(".")[2] for module in modules}
    return [
        *(
            path
            for path in (ROOT / "amqp10msg").rglob("*.p*")
            if path.suffix in _SOURCES and (path.suffix == ".pxi" or path.stem in compiled)
        ),
        *Path(__file__).parent.glob("*.c"),
        *(Path(__file__), ROOT / "setup.py"),
    ]


def environment(build: str) -> dict[str, str]:
    """Return the environment for a process that fuzzes this build; builds it where necessary."""
    added = {
        "PYTHONPATH": os.pathsep.join(str(path) for path in (tree(build), ROOT)),
        "PYTHONSAFEPATH": "1",  # or the folder it is started in would come first
        "AMQP10MSG_PURE": "1" if build == "pure" else "",
        # Python is not built for a sanitizer, and keeps things to its end.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    if build == "asan":
        added["PYTHONMALLOC"] = "malloc"  # else it would not see the bounds of Python's objects
    preloaded = _runtime(build)
    if preloaded:
        added["LD_PRELOAD"] = preloaded
    return {**os.environ, **added}


def _runtime(build: str) -> str:
    """Name what must be loaded before Python: libFuzzer for all to see, and the sanitizers."""
    if build == "pure":
        return ""
    atheris = find_spec("atheris")
    if atheris is not None and atheris.origin is not None:
        # Atheris brings libFuzzer together with a sanitizer's runtime, to be loaded so. That of
        # UBSan costs a build nothing that was compiled without.
        name = "asan_with_fuzzer.so" if build == "asan" else "ubsan_with_fuzzer.so"
        library = Path(atheris.origin).parents[1] / name
        if library.exists():
            return str(library)
    if build != "asan":
        return ""
    found = [
        subprocess.run(
            [*compiler(), f"-print-file-name={name}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return " ".join(found)


def _compile(module: str, library: Path, flags: list[str]) -> None:
    written = ROOT / module.replace(".", "/")
    twin = written.with_suffix(".pyx")
    source = FOLDER / f"{module}.c"
    directives = ",".join(f"{name}={value}" for name, value in _of_setup("DIRECTIVES").items())
    subprocess.run(
        [
            *(sys.executable, "-m", "cython", "-3", "--directive", directives),
            *("--module-name", module, "--output-file", str(source)),
            str((twin if twin.exists() else written.with_suffix(".py")).relative_to(ROOT)),
        ],
        cwd=ROOT,
        check=True,
    )
    shim = Path(__file__).with_name("coverage.c")
    common = ["-fPIC", "-O1", "-g", "-fno-var-tracking", f"-I{sysconfig.get_path('include')}"]
    objects = [library.with_suffix(".kernel.o"), library.with_suffix(".coverage.o")]
    _cc(
        *common,
        *flags,
        "-fno-omit-frame-pointer",
        "-fsanitize-coverage=trace-pc,trace-cmp",
        "-c",
        str(source),
        "-o",
        str(objects[0]),
    )
    _cc(*common, "-c", str(shim), "-o", str(objects[1]))
    # Without the sanitizers: their runtime is loaded before Python, and not twice.
    _cc("-shared", *map(str, objects), "-o", str(library))


def _cc(*arguments: str) -> None:
    subprocess.run([*compiler(), *arguments], check=True)


def _kernels() -> list[str]:
    """Return the modules that setup.py compiles."""
    with contextlib.chdir(ROOT):
        return sorted(_of_setup("kernels")())


def _of_setup(name: str) -> Any:
    """Return a function or constant of setup.py, which cannot be imported."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if getattr(node, "name", None) == name or (
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
        ):
            names: dict[str, Any] = {"Path": Path}
            exec(compile(ast.Module([node], []), "setup.py", "exec"), names)
            return names[name]
    raise RuntimeError(f"setup.py has no {name}")


if __name__ == "__main__":
    for name in sys.argv[1:] or BUILDS:
        print(tree(name))
