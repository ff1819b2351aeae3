"""Compiles the kernel where there is a compiler; everything else stands in pyproject.toml.

The kernel modules are plain Python with a ``.pxd`` beside them that gives Cython their C types.
They run as they are; a ``.pyx``, in Cython's own language, has a plain implementation beside it.
So a failed compilation costs speed and nothing else:

``AMQP10MSG_EXT``
    ``auto`` (default) compiles, and installs the pure build with a warning where that fails;
    ``skip`` does not try; ``require`` fails loudly.
``AMQP10MSG_SANITIZE``
    Sanitizers to compile in, such as ``address,undefined`` (GCC and Clang). Implies ``require``,
    because a pure build has nothing to sanitize.

Cython's own ``Extension(optional=True)`` is lost in ``cythonize``, hence the subclass of build_ext.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
from pathlib import Path
from typing import ClassVar

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext


def kernels() -> dict[str, str]:
    """Return what is compiled, by module: every .pyx, and every .py with a .pxd beside it."""
    found = [*Path("amqp10msg").rglob("*.pyx")]
    found += [
        path.with_suffix(".py")
        for path in Path("amqp10msg").rglob("*.pxd")
        if path.with_suffix(".py").exists() and path.with_suffix(".pyx") not in found
    ]
    return {".".join(path.with_suffix("").parts): str(path) for path in sorted(found)}


DIRECTIVES = {
    "language_level": 3,
    "binding": True,
    "boundscheck": True,  # a wrong index is an IndexError, never a read beyond the buffer
    "wraparound": False,  # so is a negative one
    "embedsignature": False,
    # Nothing that Python hands in ends the process: an argument is of its type, and not None; what
    # is None within is an AttributeError or TypeError; and no class takes a state from a pickle
    # that was not made for it.
    "allow_none_for_extension_args": False,
    "nonecheck": True,
    "auto_pickle": False,
    # Threads share what is kept between calls without the GIL, too: tests/message/test_threads.py.
    "freethreading_compatible": True,
}
#: Whose kernels -O3 makes 2 to 12 % quicker. All others are as quick with -O2, compiled sooner.
HARDER = ("amqp10msg.columns.", "amqp10msg.delivery.", "amqp10msg.translate.")
MODES = ("auto", "skip", "require")


def mode() -> str:
    """What `AMQP10MSG_EXT` asks for."""
    chosen = os.environ.get("AMQP10MSG_EXT") or ("require" if sanitizers() else "auto")
    if chosen not in MODES:
        raise SystemExit(f"AMQP10MSG_EXT={chosen!r} is none of {', '.join(MODES)}")
    if sanitizers() and chosen != "require":
        raise SystemExit("AMQP10MSG_SANITIZE needs AMQP10MSG_EXT=require (or unset)")
    return chosen


def sanitizers() -> str:
    """The comma-separated sanitizers that `AMQP10MSG_SANITIZE` asks for, or an empty string."""
    return os.environ.get("AMQP10MSG_SANITIZE", "").replace(" ", "")


class BuildAfresh(build):
    """build that packs nothing which an earlier one left and the sources have no more."""

    def run(self) -> None:
        """Remove what an earlier build of this package left, and build."""
        shutil.rmtree(Path(self.build_lib) / "amqp10msg", ignore_errors=True)
        super().run()


class BuildKernel(build_ext):
    """build_ext that compiles the kernel whole or not at all, and says which."""

    left_out: ClassVar[list[str]] = []
    translating: ClassVar[threading.Lock] = threading.Lock()

    def finalize_options(self) -> None:
        """Always rebuild: neither flags nor sanitizers leave a trace in a time stamp."""
        super().finalize_options()
        self.force = True
        self.parallel = self.parallel or os.cpu_count() or 1

    def build_extension(self, ext: Extension) -> None:
        """Translate one module to C under build/ and compile it, unless another one failed."""
        if self.left_out:
            ext.optional = True
            return
        try:
            self._compile(ext)
        except Exception as error:
            if mode() == "require":
                raise
            # Whatever went wrong (no Cython, no compiler, no Python.h), the pure build works.
            ext.optional = True
            reason = textwrap.shorten(f"{type(error).__name__}: {error}", 200, placeholder=" ...")
            self.left_out.append(f"{ext.name} ({reason})")

    def run(self) -> None:
        """Build every extension, then say which ones are missing and how to get them."""
        if self.extensions and not self.inplace:
            print(
                "amqp10msg: compiling the kernel, about two minutes of one core; "
                "AMQP10MSG_EXT=skip installs the pure Python build in seconds.",
                file=sys.stderr,
            )
        super().run()
        if self.left_out:
            # The modules call each other in C, so that one alone is of no use; and the library of
            # an earlier build would be imported instead of the source that it no longer matches.
            for ext in self.extensions:
                Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            self.extensions = []
            rule = "*" * 78
            print(
                f"{rule}\namqp10msg: installing the pure Python build, about 7 times slower."
                f"\nWhat failed: {'; '.join(self.left_out)}."
                "\nFor the compiled kernel install a C compiler and the Python headers"
                "\n(Debian, Ubuntu: apt install gcc python3-dev) and install again."
                "\nAMQP10MSG_EXT=require makes this an error, AMQP10MSG_EXT=skip silences it."
                f"\n{rule}",
                file=sys.stderr,
            )

    def _compile(self, ext: Extension) -> None:
        from Cython.Build import cythonize  # noqa: PLC0415 - a missing Cython is one of the failures

        with self.translating:  # Cython has state of its own; the C compilers run side by side
            (module,) = cythonize(
                [Extension(ext.name, list(ext.sources))],
                build_dir="build/cython",  # keeps the generated C out of the tree
                compiler_directives=DIRECTIVES,
                force=True,
            )
        ext.sources = module.sources
        if self.compiler.compiler_type == "unix":
            # What compilers warn of is C that Cython wrote, and nobody mends; -g0, as Python's own
            # flags ask for debug symbols, which are three quarters of a library.
            level = "-O3" if ext.name.startswith(HARDER) else "-O2"
            ext.extra_compile_args = [level, "-w", "-g0"]
            if sanitizers():
                flags = [f"-fsanitize={sanitizers()}", "-fno-omit-frame-pointer", "-g"]
                ext.extra_compile_args = ["-O2", "-fno-sanitize-recover=all", *flags]
                ext.extra_link_args = flags
        super().build_extension(ext)


setup(
    ext_modules=(
        [] if mode() == "skip" else [Extension(name, [file]) for name, file in kernels().items()]
    ),
    cmdclass={"build": BuildAfresh, "build_ext": BuildKernel},
)
