"""Try README's commands on machines that have nothing: ``make fresh``.

    python3 tools/fresh.py [--suite SUITE ...] [--compiler yes|no] [--user root|newcomer] [--short]

Each machine is a bare Debian 12, 13 or testing (`.ci/debian`) with python3, python3-venv, make and
git, with and without a C compiler, and no Java, browser or broker. What is committed is cloned into
it, and the commands that README prints for a clone run there, as root and as a user who may write
at home only, in an environment of PATH and HOME alone. A table says what came of it; the outputs
are in ``build/fresh``. The exit status is 1 where a command or a test failed.

Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "fresh"
SUITES = {"bookworm": "Debian 12", "trixie": "Debian 13", "testing": "Debian testing"}
NEEDED = ("python3", "python3-venv", "make", "git")
COMPILER = ("gcc", "python3-dev")
HOMES = {"root": "/root", "newcomer": "/home/newcomer"}
CLONE = "amqp10msg"
#: The last line of pytest, a pass: "== 3 failed, 7274 passed, 12 skipped in 300.12s (0:05:00) ==".
SUMMARY = re.compile(r"^=+ (.*\d+ (?:passed|failed|errors?|skipped)\b.*) in [\d.]+s", re.MULTILINE)
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
LEFT_OUT = re.compile(r"^Left out: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Machine:
    """A machine to try: what is installed on it, and whose home the clone is in."""

    suite: str
    compiler: bool
    user: str

    @property
    def name(self) -> str:
        """What the table calls it."""
        compiler = "gcc" if self.compiler else "no compiler"
        return f"{SUITES[self.suite]}, {compiler}, {self.user}"

    @property
    def slug(self) -> str:
        """What its files are called."""
        return f"{self.suite}-{'gcc' if self.compiler else 'pure'}-{self.user}"

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages installed on it."""
        return NEEDED + (COMPILER if self.compiler else ())


@dataclass
class Outcome:
    """What came of one command."""

    machine: str
    command: str
    seconds: float
    status: int
    counts: Counter[str] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether the command or one of its tests failed."""
        return bool(self.status or self.counts["failed"] or self.counts["error"])


def commands(readme: str) -> list[str]:
    """Return the commands that README prints for a clone, as they are printed."""
    blocks = re.findall(r"^```console\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    found = [re.findall(r"^\$ (make .*?)(?:\s+#.*)?$", block, re.MULTILINE) for block in blocks]
    if not (lists := [one for one in found if one]):
        raise SystemExit("README.md prints no command of make in a console block")
    return lists[0]


def counted(output: str) -> Counter[str]:
    """Return how many tests passed, failed and were skipped, over all passes of a run."""
    counts: Counter[str] = Counter()
    for summary in SUMMARY.findall(output):
        for number, what in COUNT.findall(summary):
            counts[what.removesuffix("s") if what == "errors" else what] += int(number)
    return counts


def run(machine: Machine, printed: Sequence[str], short: bool, keep: bool) -> Iterator[Outcome]:
    """Yield what came of each command on one machine; the later ones find what the first left."""
    debian = ROOT / ".ci" / "debian"
    made = subprocess.run(
        [debian, "root", machine.suite, *machine.packages],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if made.returncode:
        raise SystemExit(made.returncode)
    folder = OUT / machine.slug
    shutil.rmtree(folder, ignore_errors=True)
    home = HOMES[machine.user]
    changes = folder / "changes"
    (changes / "srv").mkdir(parents=True)
    bundle = changes / "srv" / "amqp10msg.bundle"
    subprocess.run(["git", "bundle", "create", "--quiet", bundle, "HEAD"], cwd=ROOT, check=True)
    bare = ["env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", f"HOME={home}"]
    if machine.user != "root":
        bare = ["setpriv", "--reuid=newcomer", "--regid=newcomer", "--init-groups", *bare]

    def call(script: str, log: Path) -> int:
        with log.open("w") as output:
            return subprocess.run(
                [debian, "run", made.stdout.strip(), folder, *bare, "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode

    log = OUT / f"{machine.slug}-clone.log"
    if call(f"cd && git clone --quiet /srv/amqp10msg.bundle {CLONE}", log):
        raise SystemExit(log.read_text())
    for command in printed:
        word = re.sub(r"\W+", "-", command)
        log = OUT / f"{machine.slug}-{word}.log"
        # Fewer examples; nothing else differs from what README prints.
        prefix = "HYPOTHESIS_PROFILE=short " if short and command == "make test" else ""
        start = time.monotonic()
        status = call(f"cd ~/{CLONE} && {prefix}{command}", log)
        output = log.read_text(errors="replace")
        yield Outcome(
            machine.name,
            command,
            time.monotonic() - start,
            status,
            counted(output),
            sorted(set(LEFT_OUT.findall(output))),
        )
    if not keep:
        shutil.rmtree(folder)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table of all outcomes, and below it what was left out and where."""
    rows = [("machine", "command", "seconds", "status", "passed", "failed", "skipped")]
    for one in outcomes:
        numbers = ["passed", "failed", "skipped"] if one.counts else []
        failed = one.counts["failed"] + one.counts["error"]
        cells = [str(failed if name == "failed" else one.counts[name]) for name in numbers]
        cells = cells or ["", "", ""]
        rows.append(
            (one.machine, one.command, f"{one.seconds:.0f}", str(one.status), *cells)  # type: ignore[arg-type]
        )
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    causes: dict[str, list[str]] = {}
    for one in outcomes:
        for cause in one.left_out:
            causes.setdefault(cause, []).append(one.machine)
    for cause, machines in causes.items():
        places = f"all {len(machines)}" if len(machines) > 1 else machines[0]
        lines.append(f"Left out on {places}: {cause}")
    return "\n".join(lines)


def machines_of(arguments: argparse.Namespace) -> list[Machine]:
    """Return the machines that are asked for; all of them, unless arguments say otherwise."""
    suites = arguments.suite or list(SUITES)
    if arguments.in_turn:
        others = [suite for suite in SUITES if suite != "bookworm"]
        cells = list(product(others, (True, False), HOMES))
        suite, compiler, user = cells[datetime.date.today().toordinal() % len(cells)]  # noqa: DTZ011
        return [Machine(suite, compiler, user)]
    compilers = {"yes": [True], "no": [False], None: [False, True]}[arguments.compiler]
    users = [arguments.user] if arguments.user else list(HOMES)
    return [Machine(*cell) for cell in product(suites, compilers, users)]


def main() -> int:
    """Run what the command line asks for; return 1 where something failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this Debian")
    parser.add_argument("--compiler", choices=("yes", "no"), help="only with, or without")
    parser.add_argument("--user", choices=HOMES, help="only as this user")
    parser.add_argument(
        "--in-turn", action="store_true", help="one machine of 13 or testing, by day"
    )
    parser.add_argument("--short", action="store_true", help="draw few examples")
    parser.add_argument("--keep", action="store_true", help="keep the machines in build/fresh")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    printed = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    outcomes: list[Outcome] = []
    for machine in machines_of(arguments):
        for outcome in run(machine, printed, arguments.short, arguments.keep):
            outcomes.append(outcome)
            print(table([outcome]).splitlines()[1], flush=True)
    print()
    print(table(outcomes))
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
