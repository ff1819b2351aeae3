"""Whole jobs on one core, from Parquet to Parquet: judged, and translated both ways.

Figures are for a message, in processor time of all of the process's threads, files read and written
among it. The best-case messages were born as 0-9-1 and say no more than that can; the general
message has properties of twelve types, six of which only a residual can keep (`bench.messages`).
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
#: What each job does at least, messages a second.
TRANSLATED, JUDGED = 60_000, 400_000
BASIC = Job("translate", to="0-9-1")
AMQP10 = Job("translate")


def general(octets: bytes) -> list[bytes]:
    """The general message, again and again, each with ids and a number of its own."""
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
    """Messages of 0-9-1 as a consumer gets them, with exchange and routing key."""
    made = []
    for number in range(DISTINCT):
        properties = decode_content_header(HEADER).properties
        properties.message_id = f"m-{number:05d}"
        made.append(BasicMessage(properties, BODY, "orders", f"created.{number % 7}"))
    return made


def wires(messages: list[bytes]) -> list[dict[str, Any]]:
    """Rows of messages of 1.0."""
    return [{"wire": octets} for octets in messages]


def contents(messages: list[BasicMessage]) -> list[dict[str, Any]]:
    """Rows of messages of 0-9-1."""
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
    """What is translated, by the name of the figure's row."""
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
    """What is translated as RabbitMQ does it, by the name of the figure's row."""
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
    """What is judged, by the name of the figure's row."""
    rows = wires(general(GENERAL))
    return {
        ours.NAME: (Job("validate"), rows),
        "profile rabbitmq-4": (Job("validate", profile="rabbitmq-4"), rows),
    }


def measure(calls: Mapping[str, Callable[[], object]], rows: int, rounds: int) -> Timings:
    """Run all calls in every round, after one that does not count: nanoseconds for a message."""
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
    """Measure jobs that judge messages which break nothing."""
    title = "A job that validates the general message, profile oasis"
    return figure(effort, "jobs-validate", title, judgements(), JUDGED)
