"""Run the test suites of other AMQP 1.0 projects against `amqp10msg serve`.

    python tools/peer_suites.py FOLDER
    python tools/peer_suites.py FOLDER --suite rhea --record

Each folder in FOLDER that is a checkout of a project of `suite_table` is tested: the server starts
with the options that the suite needs, the suite runs, and its results are compared with the known
differences in tools/suites/known.toml. A suite whose checkout is missing, or which lacks what it
needs to run, is named and left out. What the suites and the server wrote is in build/suites.

Ends with 1 if a test failed that is not in the list, if a test in the list passed, or if a suite
could not be run; with 2 for wrong arguments. `--record` writes the counts that the table in
docs/how-to/serve.md shows, and that table.

Most suites expect a broker on port 5672, which must be free.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import suite_records as records
from suite_records import Comparison, Counts, Known
from suite_results import Outcomes
from suite_table import SUITES, USERS, Suite

from amqp10msg.atomic_files import write_whole

#: Seconds for a probe, and for a server or suite to end after SIGTERM.
_PROBE_SECONDS, _GRACE_SECONDS = 300, 20
#: Lines of a suite's output to show when it reports nothing.
_SHOWN_LINES = 15


class SuiteError(Exception):
    """The server or the suite could not be run, or its results could not be read."""


def checkouts(folder: Path) -> dict[str, Path]:
    """Return the checkouts in a folder, by the name of the suite."""
    found: dict[str, Path] = {}
    for place in sorted(place for place in folder.iterdir() if place.is_dir()):
        for suite in SUITES:
            if suite.name not in found and suite.is_in(place):
                found[suite.name] = place
    return found


def _in_folder(command: tuple[str, ...], folder: Path) -> list[str]:
    """Return a command whose first word is absolute if it is a file in the folder."""
    program = folder / command[0]
    return [str(program.absolute()) if program.exists() else command[0], *command[1:]]


def lacks(suite: Suite, folder: Path) -> str | None:
    """Return why a suite cannot run in a folder, or None if it can."""
    try:
        done = subprocess.run(
            _in_folder(suite.probe, folder),
            cwd=folder,
            capture_output=True,
            check=False,
            timeout=_PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"it needs: {suite.install}"
    return f"it needs: {suite.install}" if done.returncode else None


@contextmanager
def serving(suite: Suite, work: Path, values: dict[str, str]) -> Iterator[str]:
    """Run `amqp10msg serve` as a suite needs it, and yield its URL."""
    options = [option.format_map(values) for option in suite.serve]
    command = [sys.executable, "-m", "amqp10msg", "serve", "--port", str(suite.port), *options]
    with (
        (work / "serve.log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            if not url:
                tail = (work / "serve.log").read_text(errors="replace").strip()
                raise SuiteError(f"the server did not start: {tail.splitlines()[-1:]}")
            yield url
        finally:
            server.terminate()
            try:
                server.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()


def run(suite: Suite, checkout: Path, work: Path) -> Outcomes:
    """Run a suite against a server of its own, and return the outcome of each test.

    Raises:
        SuiteError: the server did not start, or the suite reported nothing.
    """
    work.mkdir(parents=True, exist_ok=True)
    results = (work / "results").absolute()
    results.unlink(missing_ok=True)
    users = (work / "users.txt").absolute()
    users.write_text(USERS, encoding="utf-8")
    values = {"results": str(results), "users": str(users), "suites": str(records.HERE)}
    with serving(suite, work, values) as url:
        values |= {"url": url, "port": url.rpartition(":")[2]}
        ended = _run_command(suite, checkout / suite.folder, work, values)
    try:
        outcomes = suite.read(work / "output.log" if suite.output else results)
    except (OSError, ValueError) as error:
        tail = (work / "output.log").read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
        raise SuiteError("\n    ".join([f"it reported nothing: {error}", *tail])) from None
    if not ended:
        raise SuiteError(f"it did not end within {suite.seconds:,} s")
    return outcomes


def _run_command(suite: Suite, folder: Path, work: Path, values: Mapping[str, str]) -> bool:
    """Run the command of a suite, and return whether it ended in time."""
    command = [word.format_map(values) for word in _in_folder(suite.command, folder)]
    more = {name: value.format_map(values) for name, value in suite.environment.items()}
    programs = (folder / ".venv" / "bin").absolute()  # for examples that begin with env python3
    more["PATH"] = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    with (
        (work / "output.log").open("wb") as output,
        (work / "errors.log").open("wb") as errors,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **more},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        ) as process,
    ):
        try:
            process.wait(suite.seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            _end_group(process)
    return True


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a command and the processes that it left, all of the process group that it leads."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def describe(comparison: Comparison) -> list[str]:
    """Return the lines that say how a suite went: its counts, and the tests to look at."""
    counted = (
        f"{comparison.passed:,} passed, {len(comparison.known):,} failed as known, "
        f"{len(comparison.unexpected):,} failed unexpectedly, {comparison.skipped:,} left out"
    )
    return [
        counted,
        *(f"  failed, and is not in the list: {test}" for test in comparison.unexpected),
        *(f"  passed, and is in the list: {test}" for test in comparison.fixed),
        *(f"  in the list, and did not run: {test}" for test in comparison.absent),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the suites of the command line."""
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [suite.name for suite in SUITES]
    parser.add_argument("folder", type=Path, help="the folder of the checkouts")
    parser.add_argument("--suite", action="append", choices=names, help="repeatable; else all")
    parser.add_argument(
        "--known", type=Path, default=records.KNOWN, help="the list to compare with"
    )
    parser.add_argument("--work", type=Path, default=Path("build/suites"), help="for logs")
    parser.add_argument("--record", action="store_true", help="write the counts and the page")
    given = parser.parse_args(arguments)
    # An exception, so that the server and the suite are ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is not a folder: give the one that holds the checkouts")
    known = records.load_known(given.known)
    found = checkouts(given.folder)
    counts: dict[str, Counts] = {}
    good = True
    for suite in SUITES:
        if given.suite and suite.name not in given.suite:
            continue
        checkout = found.get(suite.name)
        why = "there is no checkout" if checkout is None else lacks(suite, checkout / suite.folder)
        if checkout is None or why is not None:
            print(f"{suite.name}: left out: {why}", flush=True)
            continue
        good &= _report(suite, checkout, given.work / suite.name, known, counts)
    if given.record and counts:
        _record(counts, known)
    return 0 if good else 1


def _report(
    suite: Suite,
    checkout: Path,
    work: Path,
    known: Mapping[str, list[Known]],
    counts: dict[str, Counts],
) -> bool:
    """Run a suite, print how it went, and add its counts; return whether it went as expected."""
    try:
        comparison = compare_run(suite, checkout, work, known)
    except SuiteError as error:
        print(f"{suite.name}: not run: {error}", flush=True)
        return False
    print(f"{suite.name}:", "\n".join(describe(comparison)), flush=True)
    counts[suite.name] = Counts(
        suite.version_of(checkout),
        comparison.passed,
        len(comparison.known) + len(comparison.unexpected),
        comparison.skipped,
    )
    return comparison.is_as_expected


def compare_run(
    suite: Suite, checkout: Path, work: Path, known: Mapping[str, list[Known]]
) -> Comparison:
    """Run a suite, and compare its outcomes with its known differences."""
    return records.compare(run(suite, checkout, work), known.get(suite.name, ()))


def _record(counts: Mapping[str, Counts], known: Mapping[str, list[Known]]) -> None:
    """Write the counts of this run in place of those of the same suites, and the page."""
    merged = {**records.load_counts(), **counts}
    records.save_counts(merged)
    page = records.PAGE.read_text(encoding="utf-8")
    write_whole(records.PAGE, records.page_with(page, records.markdown(merged, known)))


if __name__ == "__main__":
    sys.exit(main())
