"""One process that fuzzes one build: ``python -m fuzz.worker BUILD ENGINE …``, run by `fuzz`."""

from __future__ import annotations

import argparse
import importlib
import inspect
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import FunctionType, ModuleType

import amqp10msg
import amqp10msg.delivery  # registers its composites
from fuzz import builds
from fuzz.check import agreement, contract, core
from fuzz.findings import Findings
from fuzz.kernels import BUILDS, FOLDER
from fuzz.mutate import mutate

# The pure kernel is slow enough that the compiled one beside it costs nothing; the other way round
# every so many inputs are compared, and those that coverage grows are all replayed on both.
COMPARED = {"pure": 1, "compiled": 64, "asan": 256}
# Likewise, how many get the decoders alone for one that gets every entry point.
WHOLE = {"pure": 1, "compiled": 16, "asan": 16}
#: What takes longer than this, in seconds, is a finding of libFuzzer: with tracing and sanitizers.
TIMEOUT = 10


class Target:
    """Checks inputs, and keeps those that break the contract.

    Args:
        build: the name of the build that runs.
        findings: the folder that they are kept in.
    """

    def __init__(self, build: str, findings: Path) -> None:
        self.build = build
        self.findings = Findings(findings, build)
        self.inputs = 0
        self.every = COMPARED[build]
        self.whole = WHOLE[build]
        self.other: ModuleType | None = None
        if build != "pure":
            self.other = builds.load(pure=True)
        else:
            try:
                self.other = builds.load(pure=False)
            except RuntimeError as error:
                print(f"pure: not compared with the compiled kernel: {error}", file=sys.stderr)

    def __call__(self, octets: bytes) -> None:
        """Check one input.

        Raises:
            RuntimeError: there are so many findings that one more says nothing.
        """
        self.inputs += 1
        with self.findings.kept(octets):
            (contract if self.inputs % self.whole == 0 else core)(amqp10msg, octets)
            if self.other is not None and self.inputs % self.every == 0:
                agreement(amqp10msg, self.other, octets)


def functions(package: str) -> Iterator[FunctionType]:
    """List the functions and methods of the package that are Python, each once."""
    seen = set()
    for name, module in list(sys.modules.items()):
        if name != package and not name.startswith(f"{package}."):
            continue
        holders = [module, *(item for item in vars(module).values() if inspect.isclass(item))]
        for holder in holders:
            for item in list(vars(holder).values()):
                found = getattr(item, "__func__", getattr(item, "fget", item))
                if (
                    isinstance(found, FunctionType)
                    and found.__code__.co_filename == module.__file__
                    and found not in seen
                ):
                    seen.add(found)
                    yield found


def guided(target: Target, arguments: list[str]) -> None:
    """Let libFuzzer choose the inputs; never returns."""
    atheris = importlib.import_module("atheris")
    if target.build == "pure":
        # The kernel's source is not imported in the ordinary way, so the hook that atheris has on
        # imports would miss it. Beside a compiled kernel, counting in Python would take most of
        # the time.
        for function in functions("amqp10msg"):
            atheris.instrument_func(function)
    atheris.Setup([sys.argv[0], *arguments], target)
    atheris.Fuzz()


def by_chance(target: Callable[[bytes], None], chosen: argparse.Namespace) -> None:
    """Mutate the corpus, what coverage grew included, until the time or the inputs are used up."""
    draw = random.Random(chosen.seed)
    seeds = [path.read_bytes() for folder in chosen.corpus for path in sorted(folder.iterdir())]
    begin = time.perf_counter()
    done = 0
    inputs = chain(seeds, iter(lambda: mutate(seeds, draw), None))
    with (FOLDER / f"{chosen.build}.last").open("wb", buffering=0) as last:
        for octets in inputs:
            if done >= chosen.inputs or time.perf_counter() - begin >= chosen.seconds:
                break
            # Where it can be found if the process dies of it.
            last.seek(0)
            last.truncate()
            last.write(octets)
            target(octets)
            done += 1
        taken = max(time.perf_counter() - begin, 1e-6)
        print(f"#{done} DONE cov: - corp: {len(seeds)} exec/s: {done / taken:.0f}", file=sys.stderr)


def main() -> None:
    """Fuzz the build that this process was started for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", choices=BUILDS)
    parser.add_argument("engine", choices=("atheris", "mutate"))
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--findings", type=Path, required=True)
    parser.add_argument("corpus", type=Path, nargs="+")
    chosen = parser.parse_args()
    if amqp10msg.COMPILED is (chosen.build == "pure"):
        raise SystemExit(f"{amqp10msg.__file__} does not run the {chosen.build} kernel")
    target = Target(chosen.build, chosen.findings)
    if chosen.engine == "mutate":
        by_chance(target, chosen)
        return
    guided(
        target,
        [
            f"-runs={chosen.inputs}",
            f"-max_total_time={chosen.seconds}",
            f"-seed={chosen.seed}",
            f"-timeout={TIMEOUT}",
            "-max_len=4096",
            "-rss_limit_mb=4096",
            "-print_final_stats=0",
            f"-artifact_prefix={chosen.findings}/{chosen.build}-",
            *map(str, chosen.corpus),
        ],
    )


if __name__ == "__main__":
    main()
