"""Jobs on one core from Parquet to Parquet: validation, and translation in both directions.

Figures are processor time per message of all threads, including reading and writing files. The
best-case messages originate from 0-9-1 and contain nothing that it cannot express; the general
message has properties of twelve types, six of which only a residual preserves (`bench.messages`).
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from amqp10msg import Message, jobs
from amqp10msg.basic import BasicMessage, decode_content_header, encode_content_header
from amqp10msg.jobs import Job
from amqp10msg.translate import PROFILES, to_amqp10, to_basic
from bench import ours
from bench.harness import Effort, Timing, Timings
from bench.messages import GENERAL, GENERAL_VALUE
from bench.report import Figure, Floor
from bench.translation import BODY, HEADER

DISTINCT: Final = 1_000
#: The floor of each job, in messages per second.
TRANSLATED, JUDGED = 60_000, 400_000
BASIC = Job("translate", to="0-9-1")
AMQP10 = Job("translate")


def general(octets: bytes) -> list[bytes]:
    """Return copies of the general message with different ids and numbers."""
    made = []
    for number in range(DISTINCT):
        message: Any = Message.decode(octets)
        message.properties.message_id = f"msg-{number:05d}"
        message.properties.correlation_id = f"c-{number:06d}"
        message.application_properties["attempt"] = type(message.application_properties["attempt"])(
            70_000 + number
        )
        made.append(message.encode())
    return made


def published() -> list[BasicMessage]:
    """Return 0-9-1 messages with exchange and routing key, as a consumer gets them."""
    made = []
    for number in range(DISTINCT):
        properties = decode_content_header(HEADER).properties
        properties.message_id = f"m-{number:05d}"
        made.append(BasicMessage(properties, BODY, "orders", f"created.{number % 7}"))
    return made


def wires(messages: list[bytes]) -> list[dict[str, Any]]:
    """Return rows of 1.0 messages."""
    return [{"wire": octets} for octets in messages]


def contents(messages: list[BasicMessage]) -> list[dict[str, Any]]:
    """Return rows of 0-9-1 messages."""
    return [
        {
            "content_header": encode_content_header(one.properties, len(one.body)),
            "payload": one.body,
            "exchange": one.exchange,
            "routing_key": one.routing_key,
            "redelivered": one.redelivered,
        }
        for one in messages
    ]


def translations() -> dict[str, tuple[Job, list[dict[str, Any]]]]:
    """Return the translated messages by the names of the figure's rows."""
    given, values, born = general(GENERAL), general(GENERAL_VALUE), published()
    there = [to_basic(Message.decode(octets)).message for octets in given]
    return {
        ours.NAME: (BASIC, wires(given)),
        "and back": (AMQP10, contents(there)),
        "with a map as body, to 0-9-1": (BASIC, wires(values)),
        "the best case to 1.0": (AMQP10, contents(born)),
        "and back again": (BASIC, wires([to_amqp10(one).message.encode() for one in born])),
    }


def as_brokers() -> dict[str, tuple[Job, list[dict[str, Any]]]]:
    """Return the messages for RabbitMQ's profile by the names of the figure's rows."""
    given = general(GENERAL)
    made: dict[str, tuple[Job, list[dict[str, Any]]]] = {}
    for version in ("4.3", "4.0", "3.10", "4.0-stream", "3.10-stream"):
        profile = f"rabbitmq-{version}"
        there = [to_basic(Message.decode(octets), PROFILES[profile]).message for octets in given]
        name = f"as RabbitMQ {version}" if made else ours.NAME
        made[name] = Job("translate", to="0-9-1", profile=profile), wires(given)
        back = Job("translate", profile=profile)
        made[f"and back, as RabbitMQ {version}"] = back, contents(there)
    return made


def judgements() -> dict[str, tuple[Job, list[dict[str, Any]]]]:
    """Return the validated messages by the names of the figure's rows."""
    rows = wires(general(GENERAL))
    return {
        ours.NAME: (Job("validate"), rows),
        "profile rabbitmq-4": (Job("validate", profile="rabbitmq-4"), rows),
    }


def measure(calls: Mapping[str, Callable[[], object]], rows: int, rounds: int) -> Timings:
    """Run all calls in every round, after an untimed one; return nanoseconds per message."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            begin = time.process_time_ns()
            call()
            if number:
                found[name].append((time.process_time_ns() - begin) / rows)
    return Timings(tuple(Timing(name, tuple(spent)) for name, spent in found.items()))


def figure(
    effort: Effort,
    key: str,
    title: str,
    given: Mapping[str, tuple[Job, list[dict[str, Any]]]],
    at_least: int,
) -> Figure:
    """Write input for each job, and run them all."""
    count = max(1, effort.rows // 20)
    folder = Path(tempfile.mkdtemp(prefix="amqp10msg-bench-"))
    try:
        calls: dict[str, Callable[[], object]] = {}
        for number, (name, (job, rows)) in enumerate(given.items()):
            source = folder / f"{number}.parquet"
            repeated = pa.concat_tables([pa.Table.from_pylist(rows)] * math.ceil(count / DISTINCT))
            pq.write_table(repeated.slice(0, count), source)
            output = folder / f"out-{number}"
            calls[name] = partial(jobs.run, source, output, job, workers=1, mode="overwrite")
        timings = measure(calls, count, min(effort.rounds, 5))
    finally:
        shutil.rmtree(folder)
    floors = tuple(
        Floor(
            f"{timing.name}: at least {at_least:,} messages a second",
            1e9 / timing.median,
            at_least=at_least,
            unit="/s",
        )
        for timing in timings.entries
    )
    remark = "Processor time for a message, from Parquet to Parquet."
    return Figure(key, title, timings, floors, remarks=(remark,))


def run_translate(effort: Effort) -> Figure:
    """Measure jobs that translate without loss."""
    title = "A job that translates the general message to 0-9-1, without loss"
    return figure(effort, "jobs-translate", title, translations(), TRANSLATED)


def run_translate_rabbitmq(effort: Effort) -> Figure:
    """Measure jobs that translate as RabbitMQ does."""
    title = "A job that translates the general message to 0-9-1, as RabbitMQ 4.3 does"
    return figure(effort, "jobs-translate-rabbitmq", title, as_brokers(), TRANSLATED)


def run_validate(effort: Effort) -> Figure:
    """Measure validation jobs on valid messages."""
    title = "A job that validates the general message, profile oasis"
    return figure(effort, "jobs-validate", title, judgements(), JUDGED)
