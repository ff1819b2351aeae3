"""Jobs on any number of messages: files in; typed Parquet, a quarantine and a page about it out.

    from amqp10msg.jobs import Job, run

    stats = run("captures/", "typed", Job("decode"))

A job decodes, validates, translates or profiles. `run` does it on this machine, with a process a
core and without a JVM; `amqp10msg.spark` does the same on a cluster, row for row. One bad message
is one row in quarantine, with its bytes and with code, clause, offset and text of what is wrong;
it never ends the job. Needs the extra ``amqp10msg[arrow]``.
"""

from __future__ import annotations

try:
    import pyarrow as _pyarrow  # noqa: F401  (only to say what is missing)
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        f"amqp10msg.jobs needs {_error.name}: pip install 'amqp10msg[arrow]'", name=_error.name
    ) from _error

from amqp10msg.jobs._report import EXAMPLES, Run, page
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.inputs import MESSAGES, OnlySparkError
from amqp10msg.jobs.job import DAMAGED, ERRORS, KINDS, QUARANTINE, Job
from amqp10msg.jobs.output import examples_of, made_files, output_of, quarantined, read_stats
from amqp10msg.jobs.running import InterruptedJobError, JobError, read, run
from amqp10msg.validation.rules import RuleCount

__all__ = [
    "DAMAGED",
    "ERRORS",
    "EXAMPLES",
    "KINDS",
    "MESSAGES",
    "QUARANTINE",
    "InterruptedJobError",
    "Job",
    "JobError",
    "OnlySparkError",
    "RuleCount",
    "Run",
    "Stats",
    "examples_of",
    "made_files",
    "output_of",
    "page",
    "quarantined",
    "read",
    "read_stats",
    "run",
]
