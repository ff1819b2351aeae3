"""Selection of a part of the collected tests by environment variables.

``AMQP10MSG_ONLY=FILE`` runs only the tests listed in FILE: ids of tests or paths of test files.
``AMQP10MSG_SKIPPED=FILE`` writes the ids of skipped tests to FILE.

``AMQP10MSG_SAMPLE=STEP`` runs a sample, for a second machine of a CI run that has run all tests
elsewhere. Every test file is imported, and every STEP-th test function of each file runs, with its
first set of parameters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["FILES_OF_ONLY", "ONLY", "STEP", "is_named", "sample"]


def _read_ids() -> frozenset[str] | None:
    file = os.environ.get("AMQP10MSG_ONLY")
    return None if file is None else frozenset(Path(file).read_text(encoding="utf-8").splitlines())


#: The ids and paths listed by AMQP10MSG_ONLY, or None to run all tests.
ONLY = _read_ids()
#: The files that contain the tests of `ONLY`, or None. No other test file is imported.
FILES_OF_ONLY = None if ONLY is None else {test_id.partition("::")[0] for test_id in ONLY}
#: Select every STEP-th test function of a file; 0 selects all tests.
STEP = int(os.environ.get("AMQP10MSG_SAMPLE", "0"))


def is_named(test_id: str) -> bool:
    """Whether AMQP10MSG_ONLY lists this test, its file, or is not set."""
    return ONLY is None or test_id in ONLY or test_id.partition("::")[0] in ONLY


def sample(ids: Iterable[str], step: int) -> set[str]:
    """Return the ids of a sample that contains at least the first test function of each file.

    Args:
        ids: the ids of all tests, in the order of collection.
        step: select every `step`-th test function of a file, from 1.
    """
    functions: dict[str, set[str]] = {}
    selected = set()
    for test_id in ids:
        file, _, name = test_id.partition("::")
        function = name.partition("[")[0]
        seen = functions.setdefault(file, set())
        if function not in seen:
            if len(seen) % step == 0:
                selected.add(test_id)
            seen.add(function)
    return selected
