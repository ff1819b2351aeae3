"""Batch jobs: read files of messages, write typed Parquet, a quarantine and a report.

    from amqp10msg.jobs import Job, run

    stats = run("captures/", "typed", Job("decode"))

A job decodes, validates, translates or profiles messages. `run` uses this machine, with one process
per core and without a JVM; `amqp10msg.spark` produces the same rows on a cluster. A message that
cannot be processed does not stop the job: it becomes a row in the quarantine, with its bytes and
the code, clause, offset and text of the error. Needs the extra ``amqp10msg[arrow]``.
"""

from __future__ import annotations

try:
    import pyarrow as _pyarrow  # noqa: F401  (only to name the missing package)
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        f"amqp10msg.jobs needs {_error.name}: pip install 'amqp10msg[arrow]'", name=_error.name
    ) from _error

from amqp10msg.jobs._report import EXAMPLES_PER_ERROR_CODE, Run, page
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.inputs import MESSAGE_SCHEMA, OnlySparkError
from amqp10msg.jobs.job import DAMAGED, ERROR_COLUMN_NAMES, KINDS, QUARANTINE_SCHEMA, Job
from amqp10msg.jobs.output import examples_of, made_files, output_of, quarantined, read_stats
from amqp10msg.jobs.running import InterruptedJobError, JobError, read, run
from amqp10msg.validation.rules import RuleCount

__all__ = [
    "DAMAGED",
    "ERROR_COLUMN_NAMES",
    "EXAMPLES_PER_ERROR_CODE",
    "KINDS",
    "MESSAGE_SCHEMA",
    "QUARANTINE_SCHEMA",
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
