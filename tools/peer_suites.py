"""Run the test suites of other AMQP 1.0 projects against `amqp10msg serve`.

    python tools/peer_suites.py FOLDER
    python tools/peer_suites.py FOLDER --suite rhea --record

Each folder in FOLDER that is a checkout of a project of `suite_table` is tested: the server starts
with the options that the suite needs, the suite runs, and its results are compared with the known
differences in tools/suites/known.toml. A suite whose checkout is missing, or which lacks what it
needs to run, is named and left out. What the suites and the server wrote is in build/suites.

Exits with 1 if a test failed that is not in the list, if a test in the list passed or did not
run, if fewer tests ran than tools/suites/counts.json records, if a suite crashed or timed out, if
a suite named with --suite was left out, or if no suite ran. Exits with 2 for wrong arguments.
`--record` writes the counts, and the table in docs/reference/serve.md that shows them.

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
#: Show this many lines of each log of a suite that crashed.
_SHOWN_LINES = 15


class SuiteError(Exception):
    """The server or the suite did not run to its end, or its results could not be read."""


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
        SuiteError: the server did not start, the suite reported nothing, it crashed, or it timed
            out.
    """
    work.mkdir(parents=True, exist_ok=True)
    results = (work / "results").absolute()
    results.unlink(missing_ok=True)
    users = (work / "users.txt").absolute()
    users.write_text(USERS, encoding="utf-8")
    values = {"results": str(results), "users": str(users), "suites": str(records.HERE)}
    with serving(suite, work, values) as url:
        values |= {"url": url, "port": url.rpartition(":")[2]}
        status = _run_command(suite, checkout / suite.folder, work, values)
    try:
        outcomes = suite.read(work / "output.log" if suite.output else results)
    except (OSError, ValueError) as error:
        raise SuiteError(
            f"it exited with status {status} and reported nothing: {error}{_last_lines(work)}"
        ) from None
    if not suite.ran_all(status, outcomes):
        failed = sum(outcome == "failed" for outcome in outcomes.values())
        raise SuiteError(
            f"it exited with status {status} after reporting {len(outcomes):,} tests, {failed:,} "
            f"of them failed: it did not run all of its tests{_last_lines(work)}"
        )
    return outcomes


def _last_lines(work: Path) -> str:
    """Return the last lines that a suite wrote, indented, each after a line break."""
    lines = [
        line
        for name in ("output.log", "errors.log")
        for line in (work / name).read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
    ]
    return "".join(f"\n    {line}" for line in lines)


def _run_command(suite: Suite, folder: Path, work: Path, values: Mapping[str, str]) -> int:
    """Run the command of a suite, and return its exit status.

    Raises:
        SuiteError: it did not exit within `suite.seconds`.
    """
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
            return process.wait(suite.seconds)
        except subprocess.TimeoutExpired:
            raise SuiteError(f"it did not exit within {suite.seconds:,} s") from None
        finally:
            _end_group(process)


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
    """Return the lines that describe a run: its counts, and whatever was not expected."""
    counts = (
        f"{comparison.passed:,} passed, {len(comparison.known):,} failed as known, "
        f"{len(comparison.unexpected):,} failed unexpectedly, {comparison.skipped:,} skipped"
    )
    lines = [
        counts,
        *(f"  failed, and is not in the list: {test}" for test in comparison.unexpected),
        *(f"  passed, and is in the list: {test}" for test in comparison.fixed),
        *(f"  in the list, and did not run: {test}" for test in comparison.absent),
    ]
    if comparison.shortfall and comparison.recorded:
        lines.append(
            f"  {comparison.shortfall:,} of the {comparison.recorded.ran:,} tests recorded for "
            f"version {comparison.recorded.version} neither passed nor failed: the suite was cut "
            "off or skips more; if this version has fewer tests, use --record"
        )
    return lines


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
    parser.add_argument(
        "--counts", type=Path, default=records.COUNTS, help="the recorded counts to compare with"
    )
    parser.add_argument("--work", type=Path, default=Path("build/suites"), help="for logs")
    parser.add_argument("--record", action="store_true", help="write the counts and the page")
    options = parser.parse_args(arguments)
    # Exit by an exception, so that the server and the suite are terminated, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder: give the one that holds the checkouts")
    known = records.load_known(options.known)
    recorded = records.load_counts(options.counts)
    places = checkouts(options.folder)
    counts: dict[str, Counts] = {}
    as_expected = True
    for suite in SUITES:
        if options.suite and suite.name not in options.suite:
            continue
        checkout = places.get(suite.name)
        why = "there is no checkout" if checkout is None else lacks(suite, checkout / suite.folder)
        if checkout is None or why is not None:
            print(f"{suite.name}: left out: {why}", flush=True)
            as_expected &= not options.suite
            continue
        try:
            outcomes = run(suite, checkout, options.work / suite.name)
        except SuiteError as error:
            print(f"{suite.name}: incomplete: {error}", flush=True)
            as_expected = False
            continue
        comparison = records.compare(outcomes, known.get(suite.name, ()), recorded.get(suite.name))
        print(f"{suite.name}:", "\n".join(describe(comparison)), flush=True)
        counts[suite.name] = Counts(
            suite.version_of(checkout), comparison.passed, comparison.failed, comparison.skipped
        )
        as_expected &= comparison.is_as_expected
    if not counts and as_expected:
        print(f"no suite ran: put the checkouts of their projects into {options.folder}")
    if options.record and counts:
        _record(options.counts, {**recorded, **counts}, known)
    return 0 if counts and as_expected else 1


def _record(path: Path, counts: Mapping[str, Counts], known: Mapping[str, list[Known]]) -> None:
    """Write the counts, and the table of the documentation."""
    records.save_counts(counts, path)
    page = records.PAGE.read_text(encoding="utf-8")
    write_whole(records.PAGE, records.page_with(page, records.markdown(counts, known)))


if __name__ == "__main__":
    sys.exit(main())
