"""``python -m bench``: measure the figures and print them."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

import amqp10msg
from bench import (
    decode,
    encode,
    filters,
    large,
    mapping,
    node,
    peers,
    picks,
    pure,
    relay,
    report,
    serve,
    startup,
    templates,
    threads,
    translation,
    uses,
)
from bench.harness import SMOKE, Effort
from bench.report import Figure


def _columns() -> dict[str, Callable[[Effort], Figure]]:
    """Return the figures that need pyarrow, if it is installed."""
    if find_spec("pyarrow") is None:
        return {}
    from bench import columns, jobs  # noqa: PLC0415 - without pyarrow they do not import

    return {
        "columns": columns.run,
        "columns-300": columns.run_short,
        "columns-validate": columns.run_judged,
        "columns-encode": columns.run_encode,
        "template-columns": templates.run_columns,
        "jobs-translate": jobs.run_translate,
        "jobs-translate-rabbitmq": jobs.run_translate_rabbitmq,
        "jobs-validate": jobs.run_validate,
    }


def _pipeline() -> dict[str, Callable[[Effort], Figure]]:
    """Return the figures that need Spark and Java, if they are installed."""
    if find_spec("pyspark") is None or not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        return {}
    from bench import pipeline  # noqa: PLC0415 - without pyspark it does not import

    return {
        "pipeline-decode": pipeline.run_decode,
        "pipeline-parquet": pipeline.run_parquet,
        "pipeline-cores": pipeline.run_cores,
        "pipeline-memory": pipeline.run_memory,
    }


FIGURES: Final[Mapping[str, Callable[[Effort], Figure]]] = MappingProxyType(
    {
        "decode": decode.run,
        "encode": encode.run,
        "relay": relay.run,
        "template": templates.run,
        "pick": picks.run,
        "pure": pure.run,
        "large-decode": large.run_decode,
        "large-encode": large.run_encode,
        "large-linear": large.run_linear,
        "map-decode": mapping.run_decode,
        "map-encode": mapping.run_encode,
        "filter": filters.run,
        "validate": uses.run_validate,
        "notation": uses.run_notation,
        "change": uses.run_change,
        "translate": translation.run,
        "translate-profiles": uses.run_translate,
        **({"proton": uses.run_proton} if peers.PROTON.load() is not None else {}),
        **_columns(),
        **_pipeline(),
        "threads": threads.run,
        "startup": startup.run,
        "node": node.run,
        **({"serve": serve.run} if peers.PROTON.load() is not None else {}),
    }
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "figure",
        nargs="*",
        metavar="FIGURE",
        help=f"the figures to measure, all by default: {', '.join(FIGURES)}",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=Effort().rounds,
        help="interleaved rounds (default %(default)s)",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=Effort().rows,
        help="messages of the pipeline's figures (default %(default)s; the floors: 5000000)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        nargs="+",
        default=Effort().repeats,
        help="how many times as many messages the figure of memory takes, a fifth of --rows",
    )
    parser.add_argument(
        "--smoke", action="store_true", help="run everything briefly; the times mean nothing"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print one Markdown table in place of text"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to FILE")
    parser.add_argument(
        "--check", action="store_true", help="exit with status 1 where a floor is missed"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for key in options.figure:
        if key not in FIGURES:
            parser.error(f"no figure {key!r}; there are {', '.join(FIGURES)}")
    if options.check and not amqp10msg.COMPILED:
        print(
            "--check: the floors hold for the compiled build and this is the pure one;"
            " install with AMQP10MSG_EXT=require and run again",
            file=sys.stderr,
        )
        return 1
    effort = (
        SMOKE
        if options.smoke
        else Effort(rounds=options.rounds, rows=options.rows, repeats=tuple(options.repeats))
    )
    machine = report.machine()
    if not options.markdown:
        print("\n".join(f"{key:20} {value}" for key, value in machine.items()))
    figures = []
    for key in options.figure or FIGURES:
        figures.append(FIGURES[key](effort))
        if not options.markdown:
            print(f"\n{report.text(figures[-1], amqp10msg.COMPILED)}", flush=True)
    if options.markdown:
        print(report.markdown(figures, machine))
    if options.json is not None:
        found = report.as_json(figures, machine)
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    missed = [floor for figure in figures for floor in figure.floors if not floor.met]
    if options.check and missed:
        for floor in missed:
            print(f"--check: {floor.judge(amqp10msg.COMPILED)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
