"""Try README's commands on machines that have nothing: ``make fresh``.

    python3 tools/fresh.py [--suite SUITE ...] [--compiler yes|no] [--user root|newcomer] [--short]
    python3 tools/fresh.py --packages [--python PATH ...] ...

Each machine is a bare Debian 12, 13 or testing (`.ci/debian`) with python3, python3-venv, make and
git, with and without a C compiler, and no Java, browser or broker. What is committed is cloned into
it, and the commands that README prints for a clone run there, as root and as a user who may write
at home only, in an environment of PATH and HOME alone. A table says what came of it; the outputs
are in ``build/fresh``. The exit status is 1 where a command or a test failed.

With ``--packages`` a source distribution and a wheel are built there instead, and each is installed
alone into an empty environment, the wheel also once with each extra. The table says how long pip
took, how many megabytes it added, and whether the corpus passes; what the extra is for must then
work: the first example of its page. ``--python PATH`` does this with an interpreter of the machine
that it runs on, and with pip's cache, instead.

Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import reasons

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "fresh"
SUITES = {"bookworm": "Debian 12", "trixie": "Debian 13", "testing": "Debian testing"}
NEEDED = ("python3", "python3-venv", "make", "git")
COMPILER = ("gcc", "python3-dev")
HOMES = {"root": "/root", "newcomer": "/home/newcomer"}
#: The machine that ``.ci/run`` tries each time: a compiler is what it has itself.
ALWAYS = ("bookworm", False, "newcomer")
CLONE = "amqp10msg"
#: The environment of ``make test`` with ``--short``: a sample of the tests (`tests/selection.py`),
#: few drawn examples, and one worker a core, as each worker imports all test files.
SHORT = "AMQP10MSG_SAMPLE=10 HYPOTHESIS_PROFILE=short PYTEST_XDIST_AUTO_NUM_WORKERS=$(nproc)"
#: The last line of pytest, a pass: "== 3 failed, 7274 passed, 12 skipped in 300.12s (0:05:00) ==".
SUMMARY = re.compile(r"^=+ (.*\d+ (?:passed|failed|errors?|skipped)\b.*) in [\d.]+s", re.MULTILINE)
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
#: What a step of ``--packages`` writes: "Installed in 12.3 s, 45.6 MB; corpus passed".
INSTALLED = re.compile(r"^Installed in ([\d.]+) s, ([\d.]+) MB; corpus (\w+)$", re.MULTILINE)
LEFT_OUT = re.compile(r"^Left out: ((?:the )?tests.+)$", re.MULTILINE)


#: By extra: the page, and a word of the example up to which the page's examples must run.
EXTRAS = {
    "": ("README.md", ">>>"),
    "cli": ("docs/how-to/command-line.md", "$ amqp10msg encode"),
    "cbor": ("docs/how-to/notation.md", "to_cbor"),
    "arrow": ("docs/how-to/columns.md", "encode(batch)"),
    "cli,arrow": ("docs/how-to/pipeline.md", "$ amqp10msg pipeline"),
    "spark-jre": ("docs/how-to/spark.md", "spark.session"),
    "delta,spark-jre": ("docs/how-to/spark.md", "spark.session"),
    "proton": ("docs/how-to/proton.md", "MessagingHandler"),
    "net,proton": ("docs/how-to/serve.md", "BlockingConnection"),
    "bridge": ("docs/reference/bridge.md", "asyncio.run(move())"),
    "cloudevents": ("docs/how-to/cloudevents.md", ">>>"),
    "azure": ("docs/how-to/azure.md", ">>>"),
    "tracing": ("docs/how-to/tracing.md", ">>>"),
    "testing": ("docs/how-to/property-tests.md", "@given"),
    "all": ("docs/tutorial.md", ">>>"),
}
#: Installs in an environment what its arguments say, and tells how that went. It runs in the
#: interpreter of the environment.
_INSTALL = """
import os, subprocess, sys, sysconfig, time
def size():
    return sum(
        os.lstat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(sysconfig.get_path("purelib"))
        for name in names
    )
before, start = size(), time.monotonic()
subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *sys.argv[1:]], check=True)
seconds, added = time.monotonic() - start, (size() - before) / 1e6
corpus = "from amqp10msg.interop import corpus; sys.exit(not corpus.run(corpus.load()).ok)"
status = subprocess.run([sys.executable, "-c", "import sys; " + corpus], cwd="empty").returncode
said = "failed" if status else "passed"
print(f"Installed in {seconds:.1f} s, {added:.1f} MB; corpus {said}", flush=True)
sys.exit(status)
"""
_COMMAND = (
    "import runpy, sys; sys.argv[1:] = ['{}', '--help']; "
    "runpy.run_module('amqp10msg', run_name='__main__')"
)
#: By extra: a program, where no page has one for it alone.
PROGRAMS = {
    "pages": "assert 'hello' in Message('hello')._repr_html_()",
    "avro": "import fastavro; from amqp10msg.files import event_hubs; event_hubs.read_avro",
    "zstd": "assert 'hello' == Message(b'hello').compressed('zstd').text()",
    "spark": "from amqp10msg import spark; spark.decode",
    "net": _COMMAND.format("serve"),
    "bridge": _COMMAND.format("bridge"),
}


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
    installed: tuple[str, ...] = ()
    reasons: str = ""

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


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs away from a machine's folder.

    Raises:
        SystemExit: another run uses the folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{folder} is in use by another run: wait until that ends") from None
        yield


@contextmanager
def started(machine: Machine, keep: bool) -> Iterator[Callable[[str, Path], int]]:
    """Make a machine with a clone of what is committed; what is yielded runs a script there."""
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
    source = folder / "changes" / "srv"
    source.mkdir(parents=True)
    create: list[str | Path] = [
        "git",
        "bundle",
        "create",
        "--quiet",
        source / "amqp10msg.bundle",
        "HEAD",
    ]
    subprocess.run(create, cwd=ROOT, check=True)
    bare = ["env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", f"HOME={HOMES[machine.user]}"]
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
    yield call
    if not keep:
        shutil.rmtree(folder)


@contextmanager
def here(python: str) -> Iterator[Callable[[str, Path], int]]:
    """Clone what is committed for an interpreter of this machine; yield as `started` does."""
    with tempfile.TemporaryDirectory() as home:
        subprocess.run(["git", "clone", "--quiet", ROOT, Path(home, CLONE)], check=True)
        cache = os.environ.get("PIP_CACHE_DIR", str(Path("~/.cache/pip").expanduser()))
        bare = ["env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", f"HOME={home}"]
        bare += [f"PIP_CACHE_DIR={cache}", "PIP_DISABLE_PIP_VERSION_CHECK=1"]

        def call(script: str, log: Path) -> int:
            with log.open("w") as output:
                return subprocess.run(
                    [*bare, "sh", "-c", script.replace("python3 -m venv", f"{python} -m venv")],
                    cwd=home,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                ).returncode

        yield call


def of_a_clone(short: bool) -> Iterator[tuple[str, str]]:
    """Yield each command that README prints, and the script that runs it."""
    for command in commands((ROOT / "README.md").read_text(encoding="utf-8")):
        prefix = f"{SHORT} " if short and command == "make test" else ""
        yield command, f"cd ~/{CLONE} && {prefix}{command}"


def of_packages() -> Iterator[tuple[str, str]]:
    """Yield what is installed alone, and the script that installs and tries it."""
    python = "~/build/bin/python"
    made = f"{python} -m build --outdir ~/dist ~/{CLONE} && ls ~/dist/*.whl"
    yield "build", f"python3 -m venv ~/build && {python} -m pip install --quiet build && {made}"
    kinds = [("sdist", "", "*.tar.gz")]
    kinds += [(f"wheel[{extra}]", extra, "*.whl") for extra in dict.fromkeys([*EXTRAS, *PROGRAMS])]
    for name, extra, pattern in kinds:
        brackets = f"[{extra}]" if extra else ""
        install = f'"amqp10msg{brackets} @ file://$(ls ~/dist/{pattern})"'
        tries = []
        if extra in EXTRAS:
            page, word = EXTRAS[extra]
            clone = f"~/{CLONE}"
            page_run = f"{clone}/tools/doc_examples.py {clone}/{page} {shlex.quote(word)}"
            tries.append(f"../one/bin/python {page_run}")
        if extra in PROGRAMS:
            program = f"from amqp10msg import Message; {PROGRAMS[extra]}"
            tries.append(f"../one/bin/python -c {shlex.quote(program)}")
        yield (
            name,
            "cd && rm -rf one empty && mkdir empty && python3 -m venv one && "
            f"one/bin/python -c {shlex.quote(_INSTALL)} {install} && cd empty && "
            + " && ".join(tries),
        )


def run(
    machine: Machine | str, steps: Iterable[tuple[str, str]], keep: bool = False
) -> Iterator[Outcome]:
    """Yield what came of each step on one machine; the later ones find what the first left.

    Args:
        machine: a machine, or an interpreter of this one.
        steps: names, and scripts.
        keep: do not remove the machine.
    """
    if isinstance(machine, Machine):
        called, slug, place = machine.name, machine.slug, started(machine, keep)
        locks: AbstractContextManager[None] = locked(OUT / slug)
    else:
        called = slug = version_of(machine)
        place, locks = here(machine), nullcontext()
    with locks, place as call:
        for name, script in steps:
            log = OUT / f"{slug}-{re.sub(r'[^a-z0-9]+', '-', name).strip('-')}.log"
            start = time.monotonic()
            status = call(script, log)
            output = log.read_text(errors="replace")
            outcome = Outcome(
                called,
                name,
                time.monotonic() - start,
                status,
                counted(output),
                sorted(set(LEFT_OUT.findall(output))),
                next(iter(INSTALLED.findall(output)), ()),
            )
            if outcome.failed:
                outcome.reasons = reasons.reasons(output)
            yield outcome


def version_of(python: str) -> str:
    """Return an interpreter's name and version."""
    asked = [
        python,
        "-c",
        "import platform as p; print(p.python_implementation(), p.python_version())",
    ]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def table_of_packages(outcomes: Sequence[Outcome]) -> str:
    """Return a table in Markdown of what pip installed: seconds, megabytes, and what passed."""
    lines = [
        "| machine | installed | pip, s | MB added | corpus | first example |",
        "|---|---|--:|--:|---|---|",
    ]
    for one in outcomes:
        seconds, added, corpus = one.installed or ("", "", "")
        works = "failed" if one.status else "works"
        cells = (one.machine, f"`{one.command}`", seconds, added, corpus, works)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


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


def machines_of(arguments: argparse.Namespace, day: int | None = None) -> list[Machine]:
    """Return the machines that are asked for; all of them, unless arguments say otherwise.

    Args:
        arguments: of the command line.
        day: whose turn is asked for, as an ordinal; today's if there is none.
    """
    suites = arguments.suite or list(SUITES)
    if arguments.in_turn:
        cells = [cell for cell in product(SUITES, (True, False), HOMES) if cell != ALWAYS]
        now = datetime.datetime.now(datetime.UTC).toordinal() if day is None else day
        suite, compiler, user = cells[now % len(cells)]
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
        "--in-turn",
        action="store_true",
        help="one of the machines that .ci/run does not try each time",
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="run a sample of the tests, with few examples: what another machine has run in full",
    )
    parser.add_argument("--packages", action="store_true", help="try what is released instead")
    parser.add_argument(
        "--python", action="append", help="with --packages: this interpreter, and no machine"
    )
    parser.add_argument("--keep", action="store_true", help="keep the machines in build/fresh")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for machine in arguments.python or machines_of(arguments):
        steps = of_packages() if arguments.packages else of_a_clone(arguments.short)
        for outcome in run(machine, steps, arguments.keep):
            outcomes.append(outcome)
            print(table([outcome]).splitlines()[1], flush=True)
            if outcome.reasons:
                print(outcome.reasons, flush=True)
    print()
    print(table_of_packages(outcomes) if arguments.packages else table(outcomes))
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
