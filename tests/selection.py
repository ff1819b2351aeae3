"""Which of the collected tests a run selects, if it does not run all of them.

``AMQP10MSG_ONLY`` names a file with the ids of tests, or the paths of test files: `make test` then
runs these alone. The file that ``AMQP10MSG_SKIPPED`` names receives the ids of the skipped tests.

``AMQP10MSG_SAMPLE=STEP`` selects a sample, for another machine of a run of CI whose first stage ran
all tests. Every test file is imported, and every STEP-th test function of each file runs, with its
first set of parameters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["FILES_OF_ONLY", "ONLY", "STEP", "sample"]


def _read_ids() -> frozenset[str] | None:
    file = os.environ.get("AMQP10MSG_ONLY")
    return None if file is None else frozenset(Path(file).read_text(encoding="utf-8").splitlines())


#: The ids and paths to run alone, or None.
ONLY = _read_ids()
#: The files with these tests, or None. No other file is imported.
FILES_OF_ONLY = None if ONLY is None else {one.partition("::")[0] for one in ONLY}
#: Select every STEP-th test function of a file; 0 selects all tests.
STEP = int(os.environ.get("AMQP10MSG_SAMPLE", "0"))


def sample(ids: Iterable[str], step: int) -> set[str]:
    """Return the ids of a sample, in which each file has at least its first test function.

    Args:
        ids: the ids of all tests, in the order of collection.
        step: select every `step`-th test function of a file, from 1.
    """
    functions: dict[str, set[str]] = {}
    selected = set()
    for one in ids:
        file, _, name = one.partition("::")
        function = name.partition("[")[0]
        seen = functions.setdefault(file, set())
        if function not in seen:
            if len(seen) % step == 0:
                selected.add(one)
            seen.add(function)
    return selected
