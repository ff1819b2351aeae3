"""``python -m fuzz``: search for bytes that violate the contract, on every build of the kernel.

The contract: any bytes give a value or a DecodeError; a decoded value encodes again, a message to
the same bytes; the pure and the compiled kernel agree. An input that violates the contract is
stored in ``fuzz/findings`` by build and digest, and printed; the exit status is then 1.

Builds: ``pure``, the kernel's Python source; ``compiled``; and ``asan``, the compiled kernel with
AddressSanitizer and UBSan. Engines: ``atheris``, guided by coverage (of the Python code in the pure
build, of the kernel's C code in the others); and ``mutate``, random mutation, three times as fast,
and used if atheris is not installed. Inputs that reach new code are stored in ``fuzz/corpus``: the
next run starts from them, with any build.

``--agree COUNT`` instead compares the pure and the compiled build on COUNT short inputs, in one
process and without guidance, thousands per second.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from amqp10msg.interop.corpus import load
from fuzz.kernels import BUILDS, FOLDER, ROOT, environment

FINDINGS = ROOT / "fuzz" / "findings"
GROWN = ROOT / "fuzz" / "corpus"
_STATUS = re.compile(
    r"^#(?P<inputs>\d+)\s+\S+(?:.*? cov: (?P<cov>\S+))?(?:.*? corp: (?P<corp>[^/\s]+))?"
    r"(?:.*? exec/s: (?P<rate>\d+))?"
)


def seeds() -> Path:
    """Write each case of the library's corpus to a file; return the folder."""
    folder = FOLDER / "seeds"
    folder.mkdir(parents=True, exist_ok=True)
    for case in load():
        file = folder / hashlib.sha256(case.data).hexdigest()[:16]
        if not file.exists():
            file.write_bytes(case.data)
    return folder


def fuzz(build: str, engine: str, chosen: argparse.Namespace) -> int:
    """Fuzz one build in a subprocess, print a summary, and return the number of findings."""
    GROWN.mkdir(parents=True, exist_ok=True)
    FINDINGS.mkdir(parents=True, exist_ok=True)
    before = set(FINDINGS.iterdir())
    found = 0
    current = FOLDER / f"{build}.last"
    current.unlink(missing_ok=True)
    log = FOLDER / f"{build}-{engine}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    last = re.match(_STATUS, "#0 NONE")
    command = [
        *(sys.executable, "-m", "fuzz.worker", build, engine),
        *(f"--{name}={getattr(chosen, name)}" for name in ("inputs", "seconds", "seed")),
        f"--findings={FINDINGS}",
        *(str(GROWN), str(seeds())),
    ]
    with (
        log.open("w", encoding="utf-8") as written,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(build),
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as worker,
    ):
        assert worker.stderr is not None
        for line in worker.stderr:
            written.write(line)
            if status := _STATUS.match(line):
                last = status
            elif line.startswith("FINDING "):
                found += 1
                print(f"{build}: {line.strip()}", flush=True)
    if worker.returncode and not found and current.exists():
        # The process crashed on its last input. (libFuzzer stores such an input itself.)
        octets = current.read_bytes()
        digest = hashlib.sha256(octets).hexdigest()[:16]
        (FINDINGS / f"{build}-crash-{digest}").write_bytes(octets)
    new = sorted(set(FINDINGS.iterdir()) - before)
    found = max(found, len(new))
    broken = worker.returncode != 0 and not found
    if last is None:
        raise AssertionError("the pattern of a status does not match one")
    print(
        f"{build}, {engine}: {int(last['inputs']):,} inputs, {last['rate'] or '-'} a second, "
        f"coverage {last['cov'] or '-'}, corpus {last['corp'] or '-'}, {found} findings"
        + (f", exit status {worker.returncode} (see {log.relative_to(ROOT)})" if broken else ""),
        flush=True,
    )
    for path in new:
        print(f"    {path.relative_to(ROOT)}: {path.read_bytes()[:100].hex()}", flush=True)
    return found + broken


def agree(chosen: argparse.Namespace) -> int:
    """Compare two builds in this process; return the number of findings."""
    # Imported here, because it loads both builds, and fuzzing one build needs only that.
    compared = importlib.import_module("fuzz.agree")
    found: int = compared.run(
        chosen.agree, chosen.seed, seconds=chosen.seconds, grown=GROWN, findings=FINDINGS
    )
    return found


def main() -> int:
    """Fuzz the selected builds, one after the other."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--build", action="append", choices=BUILDS, help="default: all three")
    parser.add_argument(
        "--engine",
        choices=("atheris", "mutate"),
        default="atheris" if find_spec("atheris") else "mutate",
        help="default: atheris where it is installed",
    )
    parser.add_argument("--inputs", type=int, default=10_000_000, help="a build, at most")
    parser.add_argument(
        "--seconds",
        type=int,
        help="a build, about (default 60); with --agree of processor time (default: no bound)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (default 1)")
    parser.add_argument(
        "--agree", type=int, metavar="COUNT", help="compare two builds on so many inputs instead"
    )
    chosen = parser.parse_args()
    if chosen.agree is not None:
        return 1 if agree(chosen) else 0
    chosen.seconds = 60 if chosen.seconds is None else chosen.seconds
    findings = sum(fuzz(build, chosen.engine, chosen) for build in chosen.build or BUILDS)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
