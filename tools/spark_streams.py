"""Messages from a RabbitMQ to Delta by Spark, and back, while processes are killed.

    python tools/spark_streams.py --broker 127.0.0.1:26682 --count 2000000 --kills 10

Needs RabbitMQ 4, its user guest, pika and deltalake. ``--ways`` selects from three tests:

- ``stream``: a stream, by ``amqp10-stream`` into a Delta table;
- ``queue``: a quorum queue, by ``amqp10-queue`` with its landing folder, into a Delta table;
- ``back``: a DataFrame to a stream and to a quorum queue, by ``amqp10-broker``.

Meanwhile the driver's JVM and the Python workers are killed ``--kills`` times each in random order;
with ``--restart COMMAND``, a shell command that kills and restarts the broker, the broker once.
Then each message of a stream must be one row with its offset; no message of a queue may be missing,
and there must be as many identities as messages; messages sent back must arrive at least once, with
the same message-id in each copy. All bare messages must have the bytes that were sent.

``--stream HOST:PORT`` makes ``stream`` read by RabbitMQ's stream protocol, at the port of the
plugin rabbitmq_stream.

The exit status is 1 if a message is missing, duplicated or altered.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from amqp10msg import Message, Properties
from amqp10msg.net.deliver import Deliverer, Delivering
from amqp10msg.net.ends.urls import parse_url
from amqp10msg.net.stream_ranges import StreamProbe, StreamRange, read_range

ROOT = Path(__file__).parents[1]
_BATCH = 10_000

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Seconds to finish after the last kill.
_PATIENCE = 3_600


def message(number: int) -> Message:
    """Return the message with this number; its body has 1 to 400 bytes."""
    body = (b"%d " % number) * (1 + number % 40)
    properties = Properties(message_id=f"m-{number}", subject=f"s-{number % 7}")
    return Message(body, properties=properties, application_properties={"n": number})


def number_of(octets: bytes) -> int | None:
    """Return the number of a message, or None if its bytes differ from those sent."""
    found = Message.decode(octets)
    number = int(found.application_property("n", -1))
    return number if found.bare == message(number).bare else None


@attrs.define
class Broker:
    """A RabbitMQ, and the queues created in it.

    Attributes:
        place: HOST:PORT.
        stream: HOST:PORT of the plugin rabbitmq_stream; None to read over AMQP 1.0.
        made: the names of the created queues.
    """

    place: str
    stream: str | None = None
    made: list[str] = attrs.Factory(list)

    @property
    def url(self) -> str:
        """The broker's URL with the user guest."""
        return f"amqp://guest:guest@{self.place}"

    @property
    def source(self) -> str:
        """The URL from which streams are read."""
        return self.url if self.stream is None else f"rabbitmq-stream://guest:guest@{self.stream}"

    def _channel(self) -> Any:
        import pika  # noqa: PLC0415  (only here)

        host, _, port = self.place.partition(":")
        return pika.BlockingConnection(pika.ConnectionParameters(host, int(port))).channel()

    def declare(self, kind: str) -> str:
        """Declare a queue; return its name."""
        name = f"spark-streams-{kind}-{uuid.uuid4()}"
        channel = self._channel()
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
        channel.connection.close()
        self.made.append(name)
        return name

    def count(self, name: str) -> int:
        """Return the broker's message count of a queue."""
        channel = self._channel()
        found: int = channel.queue_declare(name, passive=True).method.message_count
        channel.connection.close()
        return found

    def publish(self, name: str, count: int) -> float:
        """Publish the messages; return the rate per second."""
        begun = time.monotonic()
        how = Delivering(window=5_000)
        with Deliverer(parse_url(f"{self.url}/?queue={name}"), how) as deliverer:
            for first in range(0, count, _BATCH):
                numbers = range(first, min(first + _BATCH, count))
                refused = deliverer.send((n, message(n).encode()) for n in numbers)
                if refused:
                    raise RuntimeError(f"the broker refused {len(refused)}: {refused[0].outcome}")
        return count / (time.monotonic() - begun)

    def in_stream(self, name: str) -> Iterator[bytes]:
        """Yield the messages of a stream."""
        endpoint = parse_url(self.url)
        with StreamProbe(endpoint) as probe:
            bounds = probe.bounds([name])[name]
        for rows in read_range(endpoint, StreamRange(name, 0, bounds.next)):
            if not isinstance(rows, tuple):  # rows about removed offsets count as missing
                yield from rows.octets

    def in_queue(self, name: str, folder: Path) -> Iterator[bytes]:
        """Consume the messages of a queue."""
        from amqp10msg.net.ends.parquet import Landing  # noqa: PLC0415  (of one way)
        from amqp10msg.net.spool import Batches, spool_from  # noqa: PLC0415

        with Landing(folder) as landing:
            endpoint = parse_url(f"{self.url}/?queue={name}")
            spool_from(endpoint, landing, Batches(rows=50_000, idle=5.0))
        for batch in ds.dataset(folder, format="parquet").to_batches(columns=["wire"]):
            yield from batch.column("wire").to_pylist()

    def delete(self) -> None:
        """Delete the created queues."""
        channel = self._channel()
        for name in self.made:
            channel.queue_delete(name)
        channel.connection.close()


# The program to kill: this file, in a separate process.


def consume(way: str, url: str, name: str, folder: Path, *, finish: bool) -> None:
    """Run a query to Delta until it is killed or, when finishing, until it has all messages."""
    session = session_of(folder)
    reader = session.readStream.format(f"amqp10-{way}")
    if way == "stream":
        reader = reader.options(url=url, stream=name, maxOffsetsPerTrigger=2 * _BATCH)
    else:
        reader = reader.options(url=f"{url}/?queue={name}", landing=str(folder / "landing"))
    from amqp10msg import spark  # noqa: PLC0415  (also where nothing is of Spark)

    writer = (
        reader.load()
        .writeStream.foreachBatch(spark.to_delta(folder / "table", "soak"))
        .option("checkpointLocation", str(folder / "state"))
    )
    writer = (
        writer.trigger(availableNow=True) if finish else writer.trigger(processingTime="0 seconds")
    )
    writer.start().awaitTermination()
    session.stop()


def send(url: str, name: str, folder: Path) -> None:
    """Write a DataFrame to a queue or stream."""
    session = session_of(folder)
    rows = session.read.parquet(str(folder / "rows"))
    target = {"url": f"{url}/?queue={name}", "run": "soak"}
    rows.write.format("amqp10-broker").mode("append").options(**target).save()
    session.stop()


def session_of(folder: Path) -> Any:
    """Start Spark; a task may fail three times, as on a cluster."""
    from amqp10msg import spark  # noqa: PLC0415  (also where nothing is of Spark)

    settings = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.log.level": "ERROR"}
    return spark.session("local[2,4]", config=settings)


# The killing.


def below(ancestor: int) -> dict[int, str]:
    """Return the descendants of a process with their command lines."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
    found = {}
    for pid in parents:
        parent = parents.get(pid, 0)
        while parent > 1 and parent != ancestor:
            parent = parents.get(parent, 0)
        if parent == ancestor:
            try:
                found[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return found


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its descendants."""
    for pid in [process.pid, *below(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(30)


@attrs.define
class Run:
    """A program that is killed and restarted.

    Attributes:
        arguments: the arguments of the program.
        folder: the folder of its log.
        chosen: chooses the process to kill, and the time.
        killed: the number of kills by kind of process.
    """

    arguments: list[str]
    folder: Path
    chosen: random.Random
    killed: Counter[str] = attrs.Factory(Counter)
    _process: Any = None

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        """Start the program."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__, *self.arguments, *more],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": _QUICK},
                stdout=log,
                stderr=log,
            )
        return self._process  # type: ignore[no-any-return]  # set just now

    @property
    def running(self) -> bool:
        """Whether the program is running."""
        return self._process is not None and self._process.poll() is None

    def kill(self, victim: str) -> bool:
        """Kill the driver's JVM or a worker; return False if there is none."""
        sign = "org.apache.spark" if victim == "driver" else "pyspark.daemon"
        found = [pid for pid, command in below(self._process.pid).items() if sign in command]
        if not found:
            return False
        try:
            os.kill(self.chosen.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.killed[victim] += 1
        if victim == "driver":
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(20)  # the Python driver exits without its JVM
            end(self._process)
        return True

    def finish(self, *more: str) -> None:
        """Run the program until it exits.

        Raises:
            RuntimeError: the program failed, or took too long.
        """
        if self.start(*more).wait(_PATIENCE):
            raise RuntimeError((self.folder / "log").read_text()[-4_000:])

    def stop(self) -> None:
        """Kill the program and its descendants."""
        if self._process is not None:
            end(self._process)


def kill_all(run: Run, kills: int, restart: str | None, progress: Any) -> None:
    """Kill each kind of process several times, and the broker once, while messages move."""
    victims = [*["driver"] * kills, *["worker"] * kills, *(["broker"] if restart else [])]
    run.chosen.shuffle(victims)
    for victim in victims:
        before = progress()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if not run.running:
                run.start()
            if progress() > before or run.chosen.random() < 0.01:
                break
            time.sleep(0.1)
        time.sleep(run.chosen.uniform(0, 2))
        if victim == "broker":
            subprocess.run(str(restart), shell=True, check=True, cwd=ROOT)
            run.killed["broker"] += 1
            continue
        while not run.kill(victim):
            if not run.running:
                run.start()
            time.sleep(0.2)
    run.stop()


def figures(name: str, octets: Iterable[bytes], count: int, *, once: bool) -> bool:
    """Print the counts of the messages; return whether they are right."""
    found: Counter[int | None] = Counter(map(number_of, octets))
    altered = found.pop(None, 0)
    missing = count - len(found)
    again = sum(found.values()) - len(found)
    print(
        f"{name}: {count} sent, {sum(found.values())} there, {missing} missing, {again} again, "
        f"{altered} altered",
        flush=True,
    )
    return not (missing or altered or (once and again))


def table_of(folder: Path, *columns: str) -> Any:
    """Read the Delta table."""
    from deltalake import DeltaTable  # noqa: PLC0415  (of two ways)

    return DeltaTable(str(folder / "table")).to_pyarrow_table(columns=list(columns))


def to_delta(way: str, broker: Broker, folder: Path, given: argparse.Namespace) -> bool:
    """From a stream or queue to Delta."""
    name = broker.declare("stream" if way == "stream" else "quorum")
    print(f"{way}: published at {broker.publish(name, given.count):,.0f}/s", flush=True)
    url = broker.source if way == "stream" else broker.url
    run = Run(["consume", way, url, name, str(folder)], folder, random.Random(given.seed))

    def batches() -> int:
        return len(list((folder / "table" / "_delta_log").glob("*.json")))

    try:
        kill_all(run, given.kills, given.restart, batches)
        run.finish("finish")
    finally:
        run.stop()
    print(f"{way}: killed {dict(run.killed)}, {batches()} versions of the table", flush=True)
    if way == "stream":
        offsets = table_of(folder, "offset").column("offset").to_pylist()
        table = table_of(folder, "wire").column("wire")
        # RabbitMQ seems to use one offset itself at the beginning of each segment of 500 MB.
        own = max(offsets, default=-1) + 1 - len(offsets)
        right = min(offsets, default=0) == 0 and len(set(offsets)) == len(offsets)
        right = right and own <= table.nbytes // 500_000_000
        print(f"{way}: each offset once: {right}; {own} without a message", flush=True)
        return figures(way, (one.as_py() for one in table), given.count, once=True) and right
    table = table_of(folder, "wire", "identity")
    different = len(set(table.column("identity").to_pylist()))
    print(f"{way}: {table.num_rows} rows, {different} identities", flush=True)
    octets = (one.as_py() for one in table.column("wire"))
    return figures(way, octets, given.count, once=False) and different == given.count


def back(broker: Broker, folder: Path, given: argparse.Namespace) -> bool:
    """From a DataFrame to a stream and to a queue."""
    rows = folder / "rows"
    rows.mkdir()
    for first in range(0, given.count, given.count // 8 + 1):
        numbers = range(first, min(first + given.count // 8 + 1, given.count))
        wires = [message(number).encode() for number in numbers]
        pq.write_table(pa.table({"wire": wires}), rows / f"{first:09d}.parquet")
    right = True
    for kind in ("stream", "quorum"):
        name = broker.declare(kind)
        run = Run(["send", broker.url, name, str(folder)], folder, random.Random(given.seed))
        try:
            run.start()
            while run.killed["worker"] < given.kills and run.running:
                time.sleep(run.chosen.uniform(0.2, 2))
                if broker.count(name):  # only while it is sending
                    run.kill("worker")
            if run.running:
                run._process.wait(_PATIENCE)
            run.finish()  # writes again, as after a killed driver, with the same ids
        finally:
            run.stop()
        print(f"back: killed {dict(run.killed)}", flush=True)
        if kind == "stream":
            octets = broker.in_stream(name)
        else:
            octets = broker.in_queue(name, folder / "there")
        right = figures(f"back to a {kind}", octets, given.count, once=False) and right
    return right


def main() -> int:
    """Run the selected tests."""
    match sys.argv[1:]:
        case ["consume", way, url, name, folder, *rest]:
            consume(way, url, name, Path(folder), finish=bool(rest))
            return 0
        case ["send", url, name, folder]:
            send(url, name, Path(folder))
            return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--count", type=int, default=2_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--ways", default="stream,queue,back")
    parser.add_argument("--restart", metavar="COMMAND")
    parser.add_argument("--stream", metavar="HOST:PORT")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    broker, right = Broker(given.broker, given.stream), True
    try:
        for way in given.ways.split(","):
            place = Path(tempfile.mkdtemp(prefix=f"spark-streams-{way}-"))
            if way == "back":
                found = back(broker, place, given)
            else:
                found = to_delta(way, broker, place, given)
            if found:
                shutil.rmtree(place, ignore_errors=True)
            else:
                print(f"{way}: not right; see {place}", flush=True)
            right = found and right
    finally:
        broker.delete()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
