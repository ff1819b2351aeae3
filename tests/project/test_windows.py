"""What Windows lacks, taken away: everything can be imported, and files are locked and written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.once

# Modules and functions that Windows does not have, and one of its own made of what is at hand here.
# Other packages get what they import.
WITHOUT = """
import asyncio, builtins, importlib, os, signal, sys, types
import fcntl as real

MISSING = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "readline", "syslog"}
importing, module_of = builtins.__import__, importlib.import_module

def hidden(name, asking):
    if name in MISSING and asking.startswith("amqp10msg"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def __import__(name, globals=None, *rest, **more):
    hidden(name, (globals or {}).get("__name__", ""))
    return importing(name, globals, *rest, **more)

def import_module(name, package=None):
    hidden(name, sys._getframe(1).f_globals["__name__"])
    return module_of(name, package)

msvcrt = sys.modules["msvcrt"] = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK = 2

def locking(handle, mode, count):
    # It takes a byte far behind what is written, from where the handle stands.
    assert 2**31 - 2 == os.lseek(handle, 0, os.SEEK_CUR) and (mode, count) == (2, 1)
    real.flock(handle, real.LOCK_EX | real.LOCK_NB)

msvcrt.locking = locking
builtins.__import__, importlib.import_module = __import__, import_module
import pathlib, multiprocessing, concurrent.futures, subprocess, tempfile, shutil, uuid  # as posix
for module, names in {
    os: ("fork", "fchmod", "sched_getaffinity", "O_DIRECTORY", "O_CLOEXEC", "getuid", "geteuid"),
    signal: ("pthread_sigmask", "SIGHUP", "SIGUSR1", "SIGALRM", "sigwait"),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""


def run(program: str, *arguments: str) -> str:
    """What a program prints where Windows would run it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT + program, *arguments],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_all_modules_import_without_posix_modules() -> None:
    program = """
import pkgutil, amqp10msg
count = 0
for found in pkgutil.walk_packages(amqp10msg.__path__, "amqp10msg."):
    if found.name.endswith(("__main__", "amqp10msg_pipeline")):
        continue
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        if error.name in MISSING:
            raise
    count += 1
print(count)
"""
    assert int(run(program)) > 200


def test_files_and_folders_are_replaced_without_posix_modules(tmp_path: Path) -> None:
    program = """
from pathlib import Path
from amqp10msg import atomic_files
class System(types.SimpleNamespace):
    def __getattr__(self, name):
        return getattr(os, name)
atomic_files.os = System(name="nt")
opened = os.open
def no_folders(path, *rest, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, *rest, **more)
os.open = no_folders
folder = Path(sys.argv[1])
for text in ("one", "two"):
    atomic_files.write_whole(folder / "file", text)
(folder / "made").mkdir()
atomic_files.publish(folder / "made", folder / "target", folder / "aside")
print((folder / "file").read_text(), *sorted(path.name for path in folder.iterdir()))
for _ in range(2):
    with atomic_files.locked_folder(folder / "held"):
        try:
            with atomic_files.locked_folder(folder / "held"):
                print("twice")
        except BlockingIOError as error:
            print("once", error.filename == str(folder / "held"))
"""
    assert ["two", "file", "target", "once", "True", "once", "True"] == run(
        program, str(tmp_path)
    ).split()


def test_landing_and_quarantine_work_without_posix_modules(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    program = """
from pathlib import Path
from amqp10msg import Message
from amqp10msg.net.ends.parquet import Landing, Spooled
from amqp10msg.net.ends.files import Quarantine
folder = Path(sys.argv[1])
with Landing(folder) as landing:
    try:
        Landing(folder)
    except BlockingIOError as error:
        print("another" in str(error))
    print(landing.write([Spooled("q", 0, b"1", False, wire=Message("x").encode())]).name)
Landing(folder)
Quarantine(folder / "quarantine.jsonl").add([], route="r", source="s", target="t")
print((folder / "quarantine.jsonl").exists())
"""
    assert ["True", "000000000000.parquet", "True"] == run(program, str(tmp_path)).split()


def test_bridge_and_job_stop_without_posix_signals(tmp_path: Path) -> None:
    """Loops of Windows take no handlers of signals."""
    program = """
from amqp10msg.net.bridge.process import _on_signals
from amqp10msg.jobs.running import _block_interrupts

async def main():
    loop = asyncio.get_running_loop()
    def refuse(*_): raise NotImplementedError
    loop.add_signal_handler = refuse
    stopped = asyncio.Event()
    _on_signals(loop, stopped.set)
    signal.raise_signal(signal.SIGINT)
    await stopped.wait()
    print("stopped")

asyncio.run(main())
with _block_interrupts():
    print("started")
"""
    pytest.importorskip("proton", reason="the extra net is not installed")
    assert ["stopped", "started"] == run(program, str(tmp_path)).split()
