"""Hooks and fixtures of the whole suite: kernel builds, hypothesis profiles, test selection.

A test of the kernel alone uses the fixture `wire` and runs on both builds in one process. The rest
of the package imports one build per process, so `make test` runs the suite twice: compiled, then
with ``AMQP10MSG_PURE=1`` and ``-m 'not once'``, which skips tests that do not depend on the build.
Each test is in one of three groups:

- ``kills`` (`make kills`) kills processes and waits for others to take over;
- ``soak`` (`make soak`) is slow and rarely finds more than the other tests do;
- all others (`make test`).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import inspect
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import left_out, selection
from tests.pure_build import VARIABLE, follow_the_environment, wanted

follow_the_environment()  # before the package is imported

# A background job of a shell ignores SIGINT, and subprocesses of the tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# OpenBLAS threads spin while idle, and no test multiplies matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Output must not depend on the terminal's size, which readline (imported by pytest) exports.
for _size in ("COLUMNS", "LINES"):
    os.environ.pop(_size, None)

import amqp10msg  # noqa: E402
import amqp10msg.delivery  # noqa: E402  (registers its composites)
from amqp10msg.composite import COMPOSITES  # noqa: E402
from amqp10msg.sections import KINDS, SPECS  # noqa: E402

PURE_PASS = wanted()
REQUIRED = os.environ.get("AMQP10MSG_EXT") == "require"

# No deadline: a shared machine can stall for longer than any useful one.
settings.register_profile(
    "dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
# Reproducible: each run draws the same examples, so a failure is due to the change under test.
# New examples are drawn by the profile `thorough` and by the fuzzers.
settings.register_profile("ci", settings.get_profile("dev"), max_examples=25, derandomize=True)
# The pure build's pass repeats properties that the compiled build's pass has checked.
settings.register_profile("pure", settings.get_profile("ci"), max_examples=12)
# For runs that repeat the full run, such as CI's second machine, and for work on one room.
settings.register_profile("short", settings.get_profile("ci"), max_examples=10)
# For the documentation's examples, which illustrate properties rather than check them.
settings.register_profile("docs", settings.get_profile("ci"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=5_000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile("pure" if PURE_PASS and PROFILE not in {"thorough", "short"} else PROFILE)

#: Folders of tests that do not depend on the kernel's build.
ROOMS_THAT_RUN_ONCE = {"files", "jobs", "net", "spark", "testing"}
#: Exceptions: these files test a compiled module.
FILES_THAT_RUN_TWICE = {"test_transport_runs.py"}
#: Files of other folders that do not depend on the build, by the first word after ``test_``. Any
#: other file can use the marker ``once``.
SUBJECTS_THAT_RUN_ONCE = {
    *{"bench", "changed", "cli", "conformance", "docs", "fresh", "fuzz", "layers", "left"},
    *{"packaging", "systems", "typing"},
}


@cache
def _runs_once(path: Path) -> bool:
    return (path.suffix == ".py" and path.name not in FILES_THAT_RUN_TWICE) and (
        path.parent.name in ROOMS_THAT_RUN_ONCE
        or path.stem.partition("_")[2].split("_")[0] in SUBJECTS_THAT_RUN_ONCE
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files without selected tests: importing all test files takes seconds."""
    if collection_path.suffix != ".py":
        return None
    if selection.FILES_OF_ONLY is not None:
        path = collection_path.relative_to(config.rootpath).as_posix()
        if path not in selection.FILES_OF_ONLY:
            return True
    expression = config.getoption("markexpr")
    if expression.startswith("not once"):
        return _runs_once(collection_path) or None
    if expression in {"kills", "soak"}:  # the file's text must contain the marker's name
        return expression not in collection_path.read_text(encoding="utf-8") or None
    return None


@pytest.hookimpl(tryfirst=True)  # before pytest applies -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that run once, and deselect those outside of this run's selection."""
    for item in items:
        # Workers of xdist hang if they collect different names.
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"a test's name contains an object's address: {item.nodeid}")
        if _runs_once(item.path):
            item.add_marker("once")
    ids = {item.nodeid for item in items}
    if selection.ONLY is not None:
        ids = {test_id for test_id in ids if selection.is_named(test_id)}
    if selection.STEP:
        ids &= selection.sample((item.nodeid for item in items), selection.STEP)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ids])
    items[:] = [item for item in items if item.nodeid in ids]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Exit with 0 if this pass contains none of the tests listed by AMQP10MSG_ONLY."""
    if selection.ONLY is not None and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exempt imported modules and collected tests from garbage collection.

    They live until the run ends, and scanning them at each collection took a fifth of the run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(3_000, 10, 100)
        gc.enable()
        # At exit, so that libraries can still find leaked objects.
        atexit.register(gc.unfreeze)


@pytest.hookimpl(optionalhook=True)  # undefined with -p no:xdist
def pytest_xdist_auto_num_workers() -> int | None:
    """Use two more workers than cores in the compiled pass: its tests of servers mostly wait."""
    if PURE_PASS or "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity else os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)  # undefined with -p no:xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Assign whole files and groups to workers instead of single tests."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.scheduling import ByFile  # noqa: PLC0415  (needs pytest-xdist)

    return ByFile(config, log)


def pytest_report_header() -> str:
    """Show which kernel build this run tests."""
    return f"amqp10msg kernel: {'compiled' if amqp10msg.COMPILED else 'pure'}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why tests were skipped, or add it to the file that all passes share."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
    lines = left_out.causes(reasons, pure_pass=PURE_PASS)
    if file := os.environ.get("AMQP10MSG_SKIPPED"):
        with Path(file).open("a", encoding="utf-8") as ids:
            # pytest-xdist appends the group's name to an id.
            ids.writelines(re.sub(r"@\w+$", "", report.nodeid) + "\n" for report in skipped)
    if file := os.environ.get(left_out.VARIABLE):
        with Path(file).open("a", encoding="utf-8") as gathered:
            gathered.writelines(f"{line}\n" for line in lines)
    elif lines:
        terminalreporter.write_line(left_out.closing(lines))


def _has_java() -> bool:
    from amqp10msg.spark import java_home  # noqa: PLC0415  (an extra)

    try:
        java_home()
    except RuntimeError:
        return False
    return True


def _has_rhea() -> bool:
    folders = os.environ.get("NODE_PATH", "").split(os.pathsep)
    return shutil.which("node") is not None and any(
        (Path(folder) / "rhea").is_dir() for folder in filter(None, folders)
    )


def _has_pyodide() -> bool:
    from build_inspector import is_installed  # noqa: PLC0415  (it imports the package)

    return is_installed()


CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Optional dependencies that AMQP10MSG_REQUIRE can name, each with its check. Tests of a missing
#: one are skipped unless it is required.
OPTIONAL: dict[str, Callable[[], bool]] = {
    "kernel": lambda: amqp10msg.COMPILED or PURE_PASS,
    "arrow": lambda: find_spec("pyarrow") is not None,
    "proton": lambda: find_spec("proton") is not None,
    "spark": lambda: find_spec("pyspark") is not None and _has_java(),
    "rabbitmq": lambda: "AMQP10MSG_RABBITMQ" in os.environ,
    "chromium": lambda: any(map(shutil.which, CHROMIUM)),
    "rhea": _has_rhea,
    "inspector": _has_pyodide,
}


def pytest_sessionstart() -> None:
    """Stop the run if a dependency named by AMQP10MSG_REQUIRE is missing."""
    for name in os.environ.get("AMQP10MSG_REQUIRE", "").split():
        if not OPTIONAL[name]():
            pytest.exit(
                f"AMQP10MSG_REQUIRE names {name}, which is missing: its tests would be skipped",
                returncode=pytest.ExitCode.USAGE_ERROR,
            )
    if REQUIRED and not PURE_PASS and not amqp10msg.COMPILED:
        pytest.exit(
            "AMQP10MSG_EXT=require, but the kernel is not compiled: run make setup, or "
            "python setup.py build_ext --inplace",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )


def load_pure_kernel() -> ModuleType:
    """Import the kernel's Python sources next to the compiled kernel, with the same composites."""
    if not _PURE:
        core = "amqp10msg.wire.kernel"
        kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith(core)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, "1")
            _PURE.append(importlib.import_module(core))
        for name in [*sys.modules]:
            if name.startswith(core):
                del sys.modules[name]
        sys.modules.update(kept)
        amqp10msg.wire.kernel = kept[core]
        register_classes(_PURE[0])
    return _PURE[0]


_PURE: list[ModuleType] = []


def register_classes(kernel: ModuleType) -> None:
    """Register in `kernel` the composites that were registered in the imported kernel."""
    specs = {entry.cls: entry.spec for entry in COMPOSITES.values()}
    specs |= {kind.cls: spec for kind, spec in zip(KINDS, SPECS, strict=True)}
    parameters = inspect.signature(kernel.Spec).parameters
    for cls, spec in specs.items():
        kernel.register(cls, kernel.Spec(*(getattr(spec, name) for name in parameters)))


# Tests with `wire` run on the sources in the first pass, too; the pure pass skips them.
SOURCE = pytest.param("py", marks=pytest.mark.once)


@pytest.fixture(scope="session", params=[SOURCE] if PURE_PASS else [SOURCE, "c"])
def wire(request: pytest.FixtureRequest) -> ModuleType:
    """A build of the kernel: `py` for the Python sources, `c` for the compiled modules."""
    if request.param == "py":
        return load_pure_kernel()
    if not amqp10msg.COMPILED:
        pytest.skip("the kernel is not compiled: it needs a C compiler and make setup")
    return importlib.import_module("amqp10msg.wire.kernel")


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test, and its subprocesses, in a temporary working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A `Browser` shared by the tests of a module."""
    from tests.browser import Browser, find_chromium  # noqa: PLC0415  (few tests need it)

    opened = Browser(find_chromium(), tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def few_examples() -> Iterator[None]:
    """Load the hypothesis profile `docs`, which draws few examples."""
    profile = settings.get_current_profile_name()
    settings.load_profile("docs")
    yield
    settings.load_profile(profile)


@pytest.fixture(scope="session")
def spark_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The warehouse folder of the SparkSession, which is stopped when the run ends."""
    yield str(tmp_path_factory.mktemp("warehouse"))
    pyspark = sys.modules.get("pyspark.sql")
    running = pyspark.SparkSession.getActiveSession() if pyspark is not None else None
    if running is not None:
        running.stop()


@pytest.fixture
def spark_session(spark_warehouse: str) -> Any:
    """A small SparkSession on two cores, shared by the run; recreated if a test stopped it."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")
    from amqp10msg import spark  # noqa: PLC0415  (an extra)

    os.environ["PYTHONPATH"] = str(Path(amqp10msg.__file__).parents[1])  # for the workers
    # The tests' object store accepts any credentials, but clients must have some.
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(name, "testing")
    try:
        return spark.session(
            "local[2]",
            config={
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": spark_warehouse,
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                "spark.log.level": "ERROR",
            },
        )
    except RuntimeError as error:  # no Java
        pytest.skip(str(error))
