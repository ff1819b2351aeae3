"""What gets built and shipped: setup.py's three modes, and the contents of wheel and sdist."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from email.message import Message as Metadata
from email.parser import Parser
from pathlib import Path

import pytest

import amqp10msg

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
NO_COMPILER = {"CC": shutil.which("false") or "/bin/false"}

# A kernel small enough to compile in a second.
STAND_IN = {
    "__init__.py": f'__version__ = "{amqp10msg.__version__}"\n',
    "py.typed": "",
    "wire/kernel/__init__.py": "",
    "wire/kernel/reader.py": "def first(data):\n    octet = data[0]\n    return octet\n",
    "wire/kernel/reader.pxd": "cpdef object first(bytes data)\n",
    "wire/kernel/twin.py": "def size(data):\n    return len(data)\n",
    "wire/kernel/twin.pyx": "cpdef Py_ssize_t size(bytes data):\n    return len(data)\n",
    "wire/kernel/twin.pxd": "cpdef Py_ssize_t size(bytes data)\n",
    "columns/__init__.py": "",
    "columns/_kernel/__init__.py": "",
    "columns/_kernel/scan.pyx": "def last(bytes data):\n    return data[len(data) - 1]\n",
}


def build(tree: Path, hook: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call a hook of the build backend in `tree`; what it builds goes to its ``dist``."""
    (tree / "dist").mkdir(exist_ok=True)
    program = f"from setuptools import build_meta; build_meta.{hook}('dist')"
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("AMQP10MSG_")}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=tree,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def names_in(archive: Path) -> set[str]:
    if archive.suffix == ".whl":
        return set(zipfile.ZipFile(archive).namelist())
    with tarfile.open(archive) as tar:
        return {name.partition("/")[2] for name in tar.getnames()}


def only(tree: Path, pattern: str) -> Path:
    (found,) = (tree / "dist").glob(pattern)
    return found


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """The build files around a package with a tiny kernel."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    package = tmp_path / "amqp10msg"
    for name, text in STAND_IN.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return tmp_path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of everything that a source distribution is made from."""
    tree = tmp_path_factory.mktemp("tree")
    for name in (*FILES, "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"):
        shutil.copy(ROOT / name, tree)
    for folder in ("amqp10msg", "tests", "docs", "bench", "fuzz", ".ci"):
        if (ROOT / folder).is_dir():
            shutil.copytree(
                ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__", "_build")
            )
    return tree


def test_wheel_with_compiler_contains_compiled_kernel(stand_in: Path) -> None:
    if not amqp10msg.COMPILED:
        pytest.skip("the kernel is not compiled here: it needs a C compiler")
    done = build(stand_in, "build_wheel", AMQP10MSG_EXT="require")

    assert done.returncode == 0, done.stderr
    names = names_in(only(stand_in, "*.whl"))
    assert any(re.fullmatch(r"amqp10msg/wire/kernel/reader\..*\.(so|pyd)", name) for name in names)
    assert {f"amqp10msg/{name}" for name in STAND_IN} <= names
    assert list((stand_in / "amqp10msg").rglob("*.c")) == []


@pytest.mark.soak
def test_wheel_contains_nothing_of_earlier_builds(stand_in: Path) -> None:
    build(stand_in, "build_wheel", AMQP10MSG_EXT="auto")
    shutil.rmtree(stand_in / "dist")
    shutil.rmtree(stand_in / "amqp10msg" / "columns")
    done = build(stand_in, "build_wheel", AMQP10MSG_EXT="auto")

    assert done.returncode == 0, done.stderr
    names = names_in(only(stand_in, "*.whl"))
    assert "amqp10msg/wire/kernel/reader.py" in names
    assert [name for name in names if name.startswith("amqp10msg/columns")] == []


def test_missing_compiler_builds_pure_wheel_with_warning(stand_in: Path) -> None:
    done = build(stand_in, "build_wheel", AMQP10MSG_EXT="auto", **NO_COMPILER)

    assert done.returncode == 0, done.stderr
    assert "installing the pure Python build" in done.stderr
    assert "amqp10msg.wire.kernel.reader (CompileError" in done.stderr
    names = names_in(only(stand_in, "*.whl"))
    assert "amqp10msg/wire/kernel/reader.py" in names
    assert [name for name in names if name.endswith((".so", ".pyd"))] == []


def test_in_place_build_without_compiler_stops_after_one_module(
    stand_in: Path,
) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = {**os.environ, **NO_COMPILER, "AMQP10MSG_EXT": "auto"}
    for number in range(20):  # more than any number of cores has been tried
        (stand_in / "amqp10msg" / f"x{number}.pyx").write_text("def f():\n    return 1\n")

    done = subprocess.run(
        command, cwd=stand_in, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "amqp10msg.wire.kernel.reader (CompileError" in done.stderr
    assert 0 == len([*stand_in.rglob("*.so")])
    assert done.stdout.count("Cythonizing") <= (os.cpu_count() or 1) + 1


def test_require_mode_fails_without_compiler(stand_in: Path) -> None:
    done = build(stand_in, "build_wheel", AMQP10MSG_EXT="require", **NO_COMPILER)

    assert done.returncode != 0
    assert list((stand_in / "dist").iterdir()) == []


def test_skip_mode_builds_platform_independent_wheel(stand_in: Path) -> None:
    done = build(stand_in, "build_wheel", AMQP10MSG_EXT="skip", **NO_COMPILER)

    assert done.returncode == 0, done.stderr
    assert only(stand_in, "*.whl").name.endswith("-py3-none-any.whl")
    assert "pure Python build" not in done.stderr


@pytest.mark.parametrize(
    "environment, complaint",
    [
        ({"AMQP10MSG_EXT": "yes"}, "AMQP10MSG_EXT='yes' is none of auto, skip, require"),
        (
            {"AMQP10MSG_EXT": "auto", "AMQP10MSG_SANITIZE": "address"},
            "AMQP10MSG_SANITIZE needs AMQP10MSG_EXT=require",
        ),
    ],
)
def test_invalid_mode_is_an_error(
    stand_in: Path, environment: dict[str, str], complaint: str
) -> None:
    done = build(stand_in, "build_wheel", **environment)

    assert done.returncode != 0
    assert complaint in done.stderr


@pytest.mark.soak
def test_failed_in_place_build_removes_stale_library(stand_in: Path) -> None:
    if not amqp10msg.COMPILED:
        pytest.skip("the kernel is not compiled here: it needs a C compiler")
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = {**os.environ, "AMQP10MSG_EXT": "auto"}
    library = stand_in / "amqp10msg" / "wire" / "kernel"

    subprocess.run(command, cwd=stand_in, env=environment, check=True, capture_output=True)
    assert len(list(library.glob("reader.*.so"))) == 1
    environment.update(NO_COMPILER)
    subprocess.run(command, cwd=stand_in, env=environment, check=True, capture_output=True)

    assert list(library.glob("reader.*.so")) == []


def test_wheel_contains_only_the_package(tree: Path) -> None:
    done = build(tree, "build_wheel", AMQP10MSG_EXT="skip")

    assert done.returncode == 0, done.stderr
    wheel = only(tree, "*.whl")
    names = names_in(wheel)
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "amqp10msg").rglob("*")
        if path.is_file() and path.suffix not in {".so", ".pyd", ".pyc", ".c"}
    }
    info = f"amqp10msg-{amqp10msg.__version__}.dist-info/"
    assert {name for name in names if not name.startswith(info)} == sources
    assert f"{info}licenses/LICENSE" in names
    metadata: Metadata = Parser().parsestr(
        zipfile.ZipFile(wheel).read(f"{info}METADATA").decode("utf-8")
    )
    assert metadata["Version"] == amqp10msg.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    core = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert [re.split(r"\W", requirement)[0] for requirement in core] == ["attrs"]


def test_sdist_contains_sources_and_tests(tree: Path) -> None:
    done = build(tree, "build_sdist", AMQP10MSG_EXT="skip")

    assert done.returncode == 0, done.stderr
    names = names_in(only(tree, "*.tar.gz"))
    assert {
        *FILES,
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Makefile",
        "amqp10msg/wire/kernel/__init__.py",
        "amqp10msg/wire/kernel/twin.pxd",
        "amqp10msg/wire/kernel/twin.pyx",
        "amqp10msg/py.typed",
        "tests/conftest.py",
        "docs/index.md",
    } <= names
    # The one C file that is written by hand, and nothing that was generated, compiled or found.
    left_out = (".c", ".so", ".pyd", ".pyc")
    assert [name for name in names if name.endswith(left_out)] == ["fuzz/coverage.c"]
    assert [name for name in names if name.startswith(("fuzz/corpus/", "fuzz/findings/"))] == []


def test_modules_with_pxd_are_compiled() -> None:
    """A name that is mistyped would go uncompiled, and unnoticed."""
    typed = {path.with_suffix("") for path in (ROOT / "amqp10msg").rglob("*.p[xy][dx]")}
    beside = {path.with_suffix("") for path in (ROOT / "amqp10msg").rglob("*.py*")}

    assert typed - beside == set()
    if amqp10msg.COMPILED:
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        assert [path for path in typed if not Path(f"{path}{suffix}").exists()] == []


def test_readme_lists_every_extra() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", readme, re.MULTILINE)

    listed = {extra for row in rows for extra in re.findall(r"`(.+?)`", row)}
    assert set() == set(PYPROJECT["project"]["optional-dependencies"]) - listed


def test_install_instructions_mention_compilation_and_its_time() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    install = readme[readme.index("## Install") : readme.index("From a clone")]

    # pip hides what a build prints, so it is said beforehand, here and on the index's page.
    assert "README.md" == PYPROJECT["project"]["readme"]
    for said in ("pip compiles the kernel", "minutes of CPU time", "`AMQP10MSG_EXT=skip`"):
        assert said in " ".join(install.split())


def test_extra_all_includes_every_extra() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    (every,) = extras["all"]

    # A Java runtime is only for machines without Java.
    left_out = {"all", "spark-jre"}
    assert set(re.findall(r"\w+", every)) - {"amqp10msg"} == set(extras) - left_out


def test_console_script_exists() -> None:
    pytest.importorskip("click")
    pytest.importorskip("rich")
    module, _, function = PYPROJECT["project"]["scripts"]["amqp10msg"].partition(":")

    assert callable(getattr(importlib.import_module(module), function))


@pytest.fixture
def dry_make(tmp_path: Path) -> Callable[..., str]:
    """What make would do, with a .venv that has only these stamps."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make")

    def run(verb: str, *stamps: str) -> str:
        venv = tmp_path / "venv"
        python = venv / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        if not python.exists():
            python.symlink_to(sys.executable)
        for stamp in stamps:
            (venv / stamp).touch()
        command = [make, "--dry-run", "--no-print-directory", verb, f"VENV={venv}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    return run


def test_make_demo_installs_little_and_compiles_nothing(
    dry_make: Callable[..., str],
) -> None:
    planned = dry_make("demo")

    assert ".[cli,cbor,arrow]" in planned
    assert "demo --pipeline" in planned
    for costly in ("build_ext", "--group dev", "--group frames", "proton", "spark"):
        assert costly not in planned


def test_make_test_after_make_demo_installs_everything(dry_make: Callable[..., str]) -> None:
    planned = dry_make("test", ".demo")

    steps = ("build_ext", "--group dev", "--group frames", "[proton]", "--group spark", "-m pytest")
    for step in steps:
        assert step in planned


def test_make_depends_on_all_kernel_sources() -> None:
    """A library older than its source is stale code."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make")
    show = "include Makefile\n$(info watched: $(KERNELS))\n_:;\n"
    command = [make, "--no-print-directory", "-f", "-", "_"]
    done = subprocess.run(
        command, cwd=ROOT, input=show, capture_output=True, text=True, check=False
    )
    watched = set(done.stdout.partition("watched: ")[2].split("\n")[0].split())
    package = ROOT / "amqp10msg"
    sources = {path.relative_to(ROOT).as_posix() for path in package.rglob("*.p[yx][xdi]")}
    sources |= {
        path.with_suffix(".py").relative_to(ROOT).as_posix()
        for path in package.rglob("*.pxd")
        if path.with_suffix(".py").exists()
    }
    sources = {path for path in sources if not path.endswith(".pyi")}

    assert len(sources) > 50
    assert sources == watched


def test_make_demo_after_setup_rebuilds_changed_kernel(
    dry_make: Callable[..., str],
) -> None:
    planned = dry_make("demo", ".demo", ".kernel-auto-no-c", ".kernel-auto-c")

    assert "--group dev" in planned  # there is no stamp of that
    assert "build_ext" in planned  # and the package is newer than the kernel, then
    assert planned.index("build_ext") < planned.index("demo --pipeline")
