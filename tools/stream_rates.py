"""Compare the rate from a stream to Parquet by ``amqp10-stream`` with that of another client.

    python tools/stream_rates.py --broker 127.0.0.1:26762 --stream 127.0.0.1:26772 \
      --beside 'python tools/rstream_to_parquet.py {stream} {count} {out} {place}'

Needs RabbitMQ 4 with its plugin rabbitmq_stream, its user guest, and pika. The same messages are
published twice: by the stream protocol, 1,000 to a frame, as stream clients do, and over AMQP 1.0.
The tool prints the sizes of their chunks, which determine the broker's cost per message.

In each round, the client of ``--beside`` and the source read both streams, one after the other. The
source runs in a separate Spark with ``--cores`` concurrent tasks and reads the stream ``--reads``
times. The client prints ``seconds`` and the duration of its work without its start. The tool prints
four ratios, each as the median of the rounds with the minimum and the maximum:

- whole: from the start of a process to the end of the first read, Java and Spark included;
- first: the first read of a session, its workers and the compiling of the JVM included;
- later: the last read of the session;
- processor: processor time, without the broker's, of the whole client and of the last read.

On a busy machine, processor time is the most reliable one. The exit status is 1 if a message is
missing, duplicated or altered, or if a ratio of ``later`` is below ``--least``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import attrs
import pyarrow.dataset as ds
from spark_streams import Broker, below, figures, message

from amqp10msg.net.ends.stream_chunks import parse_chunk
from amqp10msg.net.ends.stream_protocol import StreamConnection
from amqp10msg.net.ends.urls import STREAM_SCHEMES, parse_urls

ROOT = Path(__file__).parents[1]
#: Commands of the stream protocol for publishers.
_DECLARE_PUBLISHER, _PUBLISH, _CONFIRM = 1, 2, 3
#: Messages per frame; unconfirmed frames in flight.
_FRAME, _WINDOW = 1_000, 10
#: Chunks that are inspected, and credit for chunks.
_LOOKED_AT, _CREDIT = 2_000, 50
_TICKS = os.sysconf("SC_CLK_TCK")


class Publisher(StreamConnection):
    """Publishes by the stream protocol."""

    def publish(self, stream: str, count: int) -> float:
        """Publish messages, and wait for their confirmations; return the rate per second."""
        begun = time.monotonic()
        name = stream.encode()
        sized = len(name).to_bytes(2, "big") + name
        self._request(f"the stream {stream}", _DECLARE_PUBLISHER, b"\0\0\0" + sized)
        confirmed = 0
        for first in range(0, count, _FRAME):
            numbers = range(first, min(first + _FRAME, count))
            body = [b"\0", len(numbers).to_bytes(4, "big")]
            for number in numbers:
                octets = message(number).encode()
                body += (number.to_bytes(8, "big"), len(octets).to_bytes(4, "big"), octets)
            self._send(_PUBLISH, b"".join(body))
            confirmed = self._wait(confirmed, numbers.stop - _WINDOW * _FRAME)
        self._wait(confirmed, count)
        return count / (time.monotonic() - begun)

    def _wait(self, confirmed: int, wanted: int) -> int:
        while confirmed < wanted:
            fields = self._step(time.monotonic() + 60, _CONFIRM)
            if fields is not None:
                confirmed += int.from_bytes(fields._octets[1:5], "big")
        return confirmed

    def chunks(self, stream: str) -> str:
        """Return a text with the sizes of a stream's chunks."""
        self.subscribe(0, stream, "first", _CREDIT)
        counts: list[int] = []
        size, until = 0, time.monotonic() + 60
        while len(counts) < _LOOKED_AT:
            try:
                delivery = self.delivery(min(until, time.monotonic() + 2))
            except TimeoutError:
                break  # end of the stream
            chunk = parse_chunk(delivery.octets)
            counts.append(chunk.count)
            size += len(delivery.octets)
            self.credit(0, 1)
        self.unsubscribe(0)
        whole = sum(counts)
        return (
            f"chunks of {whole / len(counts):,.0f} messages ({min(counts)} to {max(counts)}), "
            f"{size / whole:.0f} bytes a message"
        )


def spent(pids: list[int]) -> float:
    """Return the processor time of processes and of their finished children, in s."""
    found = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found += sum(map(int, fields[11:15]))
    return found / _TICKS


def memory(pids: list[int]) -> int:
    """Return the peak memory of the largest of these processes, in MiB."""
    found = [0]
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        found += [int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")]
    return max(found)


def read(url: str, name: str, out: str, given: dict[str, Any]) -> None:
    """Read a stream several times, and print the times as JSON; runs as a separate program."""
    from amqp10msg import spark  # noqa: PLC0415  (what is measured)

    session = spark.session(f"local[{given['cores']}]", config={"spark.log.level": "ERROR"})
    made: dict[str, Any] = {"reads": [], "processor": [], "whole": None}
    for _ in range(given["reads"]):
        pids = [os.getpid(), *below(os.getpid())]
        before, since = spent(pids), time.monotonic()
        reader = session.read.format("amqp10-stream").options(url=url, stream=name)
        reader.options(**given["options"]).load().write.mode("overwrite").parquet(out)
        made["reads"].append(time.monotonic() - since)
        made["whole"] = made["whole"] or time.monotonic() - given["since"]
        # Processes that started meanwhile count from their start.
        workers = below(os.getpid())
        made["processor"].append(spent([os.getpid(), *workers]) - before)
        made["memory"] = memory([pid for pid, said in workers.items() if "pyspark.daemon" in said])
    print(json.dumps(made), flush=True)
    session.stop()


@attrs.frozen
class Measured:
    """Measurements of one reader, in s.

    Attributes:
        whole: from the start of its process to the end of the first read.
        reads: the duration of each read.
        processor: the processor time of each read.
        memory: the peak memory of a Python worker, in MiB.
        broker: the broker's processor time of each read, if known.
    """

    whole: float
    reads: list[float]
    processor: list[float]
    memory: int = 0
    broker: float | None = None


def ours(broker: Broker, name: str, out: Path, given: Any) -> Measured:
    """Read by the source."""
    before = _of_broker(given)
    asked = {"cores": given.cores, "reads": given.reads, "options": given.options}
    asked["since"] = time.monotonic()  # comparable between processes
    arguments = [sys.executable, __file__, "read", broker.source, name, str(out), json.dumps(asked)]
    made = subprocess.run(
        arguments,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=None if given.verbose else subprocess.DEVNULL,
        text=True,
        check=True,
    )
    took = None if before is None else ((_of_broker(given) or 0) - before) / given.reads
    return Measured(**json.loads(made.stdout.splitlines()[-1]), broker=took)


def beside(broker: Broker, name: str, out: Path, given: Any) -> Measured:
    """Read by the other client."""
    command = given.beside.format(stream=name, count=given.count, out=out, place=broker.stream)
    begun, before, used = time.monotonic(), _of_broker(given), _of_children()
    made = subprocess.run(
        command, shell=True, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    whole = time.monotonic() - begun
    took = None if before is None else (_of_broker(given) or 0) - before
    seconds = float(made.stdout.split("seconds ")[1].split()[0])
    return Measured(whole, [seconds], [_of_children() - used], broker=took)


def _of_broker(given: Any) -> float | None:
    return None if given.broker_pid is None else spent([given.broker_pid])


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def told(what: str, measured: Measured, count: int) -> None:
    """Print the measurements of a reader."""
    rates = ", ".join(f"{count / seconds:,.0f}" for seconds in measured.reads)
    cost = " ".join(f"{seconds / count * 1e6:.2f}" for seconds in measured.processor)
    broker = "" if measured.broker is None else f", broker {measured.broker / count * 1e6:.2f} us"
    used = f"; {measured.memory} MiB a worker" if measured.memory else ""
    print(
        f"{what}: {rates} a second; whole {measured.whole:.2f} s; processor time {cost} us a "
        f"message{broker}{used}",
        flush=True,
    )


def ratios(theirs: Measured, mine: Measured) -> dict[str, float]:
    """Return each ratio of the client's time to the source's."""
    return {
        "whole": theirs.whole / mine.whole,
        "first": theirs.reads[0] / mine.reads[0],
        "later": theirs.reads[0] / mine.reads[-1],
        "processor": theirs.processor[0] / mine.processor[-1],
    }


def main() -> int:
    """Publish, measure and compare."""
    if sys.argv[1:2] == ["read"]:
        url, name, out, asked = sys.argv[2:]
        read(url, name, out, json.loads(asked))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--stream", required=True, metavar="HOST:PORT")
    parser.add_argument("--beside", metavar="COMMAND")
    parser.add_argument("--broker-pid", type=int, metavar="PID")
    parser.add_argument("--published", default="stream,amqp", help="how: stream, amqp or both")
    parser.add_argument("--count", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reads", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--options", type=json.loads, default={}, help="of the source, as JSON")
    parser.add_argument("--least", type=float, default=0.0)
    parser.add_argument("--verbose", action="store_true", help="with what Spark prints")
    given = parser.parse_args()
    broker, right = Broker(given.broker, given.stream), True
    folder = Path(tempfile.mkdtemp(prefix="stream-rates-"))
    endpoint = parse_urls([broker.source], also=STREAM_SCHEMES)
    try:
        streams = {}
        for way in given.published.split(","):
            name = streams[way] = broker.declare("stream")
            publisher = Publisher(endpoint)
            if way == "stream":
                rate = publisher.publish(name, given.count)
            else:
                rate = broker.publish(name, given.count)
            print(f"{way}: published at {rate:,.0f} a second, {publisher.chunks(name)}", flush=True)
            publisher.close()
        found: dict[str, dict[str, list[float]]] = {way: defaultdict(list) for way in streams}
        for turn in range(given.rounds):
            for way, name in streams.items():
                theirs = None
                if given.beside:
                    theirs = beside(broker, name, folder / "beside.parquet", given)
                    told(f"{way} {turn}: beside", theirs, given.count)
                mine = ours(broker, name, folder / way, given)
                told(f"{way} {turn}: amqp10-stream", mine, given.count)
                for what, ratio in (ratios(theirs, mine) if theirs else {}).items():
                    found[way][what].append(ratio)
        for way, by_what in found.items():
            for what, each in by_what.items():
                usual = statistics.median(each)
                print(f"{way}: ratio {what} {usual:.2f} ({min(each):.2f} to {max(each):.2f})")
                right = right and not (what == "later" and usual < given.least)
        for way in streams:
            parts = ds.dataset(folder / way, format="parquet").to_batches(columns=["wire"])
            octets = (one for part in parts for one in part[0].to_pylist())
            right = figures(way, octets, given.count, once=True) and right
    finally:
        broker.delete()
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
