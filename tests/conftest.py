"""What every test shares: the two builds of the kernel, and how hard hypothesis works.

A test of the kernel alone takes the fixture `wire` and runs on both builds in one process. The
package above the kernel imports one of them, so `make test` runs the suite twice: compiled, then
with ``AMQP10MSG_PURE=1`` and ``-m 'not once'``, which leaves out what says nothing about the
kernel. Each test is in one of three groups:

- ``kills`` (`make kills`) kills processes, and waits for others to take over;
- ``soak`` (`make soak`) takes long, and seldom finds what the others do not;
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

# What a shell starts in the background ignores Ctrl-C, and so would all that is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# NumPy's threads wait busily, and nothing here multiplies matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Not the size of whoever's terminal: workers of xdist have it from readline, which pytest imports.
for _size in ("COLUMNS", "LINES"):
    os.environ.pop(_size, None)

import amqp10msg  # noqa: E402
import amqp10msg.delivery  # noqa: E402  (registers its composites)
from amqp10msg.composite import COMPOSITES  # noqa: E402
from amqp10msg.sections import KINDS, SPECS  # noqa: E402

PURE_PASS = wanted()
REQUIRED = os.environ.get("AMQP10MSG_EXT") == "require"

# A shared machine stalls for longer than any deadline that would still say something.
settings.register_profile(
    "dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
# Reproducible: a red build is a change's fault, never a lucky draw's. Each run draws the same
# examples, so that more of them would find a bug once at most: `thorough` and the fuzzers do that.
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True)
# The pass on the pure build, where the same properties were tried on the compiled one.
settings.register_profile("pure", settings.get_profile("ci"), max_examples=25)
# Where the same properties are tried elsewhere, too: on another machine of the same run of CI.
settings.register_profile("short", settings.get_profile("ci"), max_examples=10)
# For the examples of the documentation, which show how and not whether.
settings.register_profile("docs", settings.get_profile("ci"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=5_000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile("pure" if PURE_PASS and PROFILE not in {"thorough", "short"} else PROFILE)

#: The rooms above the kernel: their tests run once.
ROOMS_THAT_RUN_ONCE = {"files", "jobs", "net", "spark", "testing"}
#: But for what tests a compiled module of theirs.
FILES_THAT_RUN_TWICE = {"test_transport_runs.py"}
#: The same of the other rooms, by the first word after ``test_`` in a file's name. Files elsewhere
#: say so for themselves, with the marker ``once``.
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
    """Skip files in which no test can be selected: importing all files takes seconds."""
    if collection_path.suffix != ".py":
        return None
    if selection.FILES_OF_ONLY is not None:
        path = collection_path.relative_to(config.rootpath).as_posix()
        if path not in selection.FILES_OF_ONLY:
            return True
    expression = config.getoption("markexpr")
    if expression.startswith("not once"):
        return _runs_once(collection_path) or None
    if expression in {"kills", "soak"}:  # a file with such a test names the marker
        return expression not in collection_path.read_text(encoding="utf-8") or None
    return None


@pytest.hookimpl(tryfirst=True)  # before -m is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the rooms above the kernel, and deselect what this run is not to do."""
    for item in items:
        # Processes of xdist wait for each other for ever if they collect different names.
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"the name has an address, and differs by run: {item.nodeid}")
        if _runs_once(item.path):
            item.add_marker("once")
    ids = {item.nodeid for item in items}
    if selection.ONLY is not None:
        ids = {one for one in ids if {one, one.partition("::")[0]} & selection.ONLY}
    if selection.STEP:
        ids &= selection.sample((item.nodeid for item in items), selection.STEP)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ids])
    items[:] = [item for item in items if item.nodeid in ids]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a pass succeed that has none of the tests which AMQP10MSG_ONLY lists."""
    if selection.ONLY is not None and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector away from the objects of imported modules and collected tests.

    They live as long as the run and are hardly ever garbage, and each collection would look at all
    of them: that took a fifth of the run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(3_000, 10, 100)
        gc.enable()
        # Later than pytest's own collections, and before libraries look for leaked objects.
        atexit.register(gc.unfreeze)


@pytest.hookimpl(optionalhook=True)  # there is none with -p no:xdist
def pytest_xdist_auto_num_workers() -> int | None:
    """Take two workers more than cores where tests of servers and pages are: most of them wait."""
    if PURE_PASS or "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity else os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)  # there is none with -p no:xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out files and groups to the workers, not single tests."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.scheduling import ByFile  # noqa: PLC0415  (needs pytest-xdist)

    return ByFile(config, log)


def pytest_report_header() -> str:
    """Name the kernel that this run is about."""
    return f"amqp10msg kernel: {'compiled' if amqp10msg.COMPILED else 'pure'}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out: a line a cause, at the end of this run or of all its passes."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
    lines = left_out.causes(reasons, pure_pass=PURE_PASS)
    if file := os.environ.get("AMQP10MSG_SKIPPED"):
        with Path(file).open("a", encoding="utf-8") as ids:
            # pytest-xdist writes the group behind an id.
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
    places = os.environ.get("NODE_PATH", "").split(os.pathsep)
    return shutil.which("node") is not None and any(
        (Path(place) / "rhea").is_dir() for place in filter(None, places)
    )


def _has_pyodide() -> bool:
    from build_inspector import is_installed  # noqa: PLC0415  (it imports the package)

    return is_installed()


CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: What AMQP10MSG_REQUIRE may name, and whether it is here: without it, its tests are skipped.
HERE: dict[str, Callable[[], bool]] = {
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
    """Fail at once where something was asked for that is not here."""
    for name in os.environ.get("AMQP10MSG_REQUIRE", "").split():
        if not HERE[name]():
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
    """Load the kernel's sources beside the compiled one, for the same classes of values."""
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
    """Tell a kernel of the classes whose declarations registered them with the other one."""
    specs = {entry.cls: entry.spec for entry in COMPOSITES.values()}
    specs |= {kind.cls: spec for kind, spec in zip(KINDS, SPECS, strict=True)}
    parameters = inspect.signature(kernel.Spec).parameters
    for cls, spec in specs.items():
        kernel.register(cls, kernel.Spec(*(getattr(spec, name) for name in parameters)))


# The source runs in the first pass, beside the compiled kernel.
SOURCE = pytest.param("py", marks=pytest.mark.once)


@pytest.fixture(scope="session", params=[SOURCE] if PURE_PASS else [SOURCE, "c"])
def wire(request: pytest.FixtureRequest) -> ModuleType:
    """One build of the kernel: `py` interpreted from its source, `c` compiled."""
    if request.param == "py":
        return load_pure_kernel()
    if not amqp10msg.COMPILED:
        pytest.skip("the kernel is not compiled: it needs a C compiler and make setup")
    return importlib.import_module("amqp10msg.wire.kernel")


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a test, and what it starts, in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A `Browser`, which the tests of a module share."""
    from tests.browser import Browser, find_chromium  # noqa: PLC0415  (few tests need it)

    opened = Browser(find_chromium(), tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def few_examples() -> Iterator[None]:
    """Let hypothesis draw little: for examples of the documentation, which show how."""
    before = settings.get_current_profile_name()
    settings.load_profile("docs")
    yield
    settings.load_profile(before)


@pytest.fixture(scope="session")
def spark_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folder of the SparkSession; the session ends with the run."""
    yield str(tmp_path_factory.mktemp("warehouse"))
    pyspark = sys.modules.get("pyspark.sql")
    running = pyspark.SparkSession.getActiveSession() if pyspark is not None else None
    if running is not None:
        running.stop()


@pytest.fixture
def spark_session(spark_warehouse: str) -> Any:
    """The one small SparkSession of this run, on two cores; anew where something stopped it."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")
    from amqp10msg import spark  # noqa: PLC0415  (an extra)

    os.environ["PYTHONPATH"] = str(Path(amqp10msg.__file__).parents[1])  # for the workers
    # The same of an object store of the tests, which knows nobody and lets all in.
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
