"""Run bridges that are to end where they cannot, and see what they say, and with which status.

    .ci/rabbitmq install 3 && .ci/rabbitmq install 4
    python tools/bridge_endings.py --old $(.ci/rabbitmq start 3) --new $(.ci/rabbitmq start 4) \
        --other $(RABBITMQ_PORT=26902 .ci/rabbitmq start 4)

Numbered messages wait in a queue of one broker; ``amqp10msg bridge --until-empty`` is to move them
to one of another. When a quarter of them is there:

- ``pause``: the source says nothing for four seconds, and then goes on.
- ``silent``: it says nothing any more.
- ``crashed``: RabbitMQ 4 ends the session over 1.0 instead of giving out a message in the middle.
- ``deleted``: the target's queue is deleted.
- ``sent back``: it is deleted, and what it refuses goes back to the source.
- ``disk``: the target is full, what it refuses is set aside, and so the disk is full (as root).
- ``no source``, ``no target``: nothing listens there, from the start.

Afterwards the exit status is that of the documentation, and each message is at the target, in the
quarantine or at the source, unaltered, but for those that went with a queue, and a window. What
is left is counted by the source's broker, and the bridge said as many, or that it could not count.
The exit status is 1 where that is not so.
"""

from __future__ import annotations

import decimal
import json
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
from bridge_faults import (
    ROOT,
    WINDOW,
    Place,
    Proxy,
    is_altered,
    message,
    messages_of,
    number_of,
    parser_of,
    places_of,
    set_aside,
)

from amqp10msg.net.bridge import read_quarantine

#: What becomes of a run, and its exit status.
ENDINGS = {
    "pause": 0,
    "silent": 3,
    "crashed": 1,
    "deleted": 5,
    "sent back": 1,
    "disk": 1,
    "no source": 1,
    "no target": 1,
}
#: What the command is told besides.
_OPTIONS = {
    "silent": ["--stall", "15"],
    "sent back": ["--on", "returned=requeue", "--on", "released=requeue"],
    "disk": ["--patience", "0"],
    "no source": ["--connect-timeout", "3"],
    "no target": ["--connect-timeout", "3"],
}
_PATIENCE = 180.0
#: Bytes of a disk that is soon full.
_DISK = 256 << 10


@attrs.define
class Ended:
    """What became of the messages, and of the run.

    Attributes:
        status: the exit status.
        wanted: what that is to be.
        sent: how many messages there were.
        there: those at the target.
        aside: those in the quarantine.
        left: those at the source, by its broker.
        said: those that the bridge said are left; None where it could not count them.
        deleted: how many went with the target's queue.
        missing: those that are nowhere.
        twice: how many more there are, in all places, than there are numbers.
        altered: those that are not what was sent.
        seconds: that it took.
        text: the last line of what it said.
    """

    status: int
    wanted: int
    sent: int
    there: int = 0
    aside: int = 0
    left: int = 0
    said: int | None = None
    deleted: int = 0
    missing: int = 0
    twice: int = 0
    altered: int = 0
    seconds: float = 0.0
    text: str = ""

    @property
    def is_right(self) -> bool:
        """Whether that is what a bridge promises."""
        lost = self.deleted + WINDOW if self.deleted else 0
        # A window may be on its way from a source that says nothing any more.
        counted = self.said is None or self.said <= self.left <= self.said + WINDOW
        # A source that ends its session over a message does so twice with a window on its way.
        may = self.missing <= lost and self.twice <= 2 * WINDOW
        return self.status == self.wanted and may and counted and not self.altered


class Run:
    """One ending between two queues.

    Args:
        ending: one of `ENDINGS`.
        source: the broker of the first queue.
        target: the broker of the second.
        way: one of `bridge_faults.WAYS`.
        folder: for the quarantine.
    """

    def __init__(self, ending: str, source: Place, target: Place, way: str, folder: Path) -> None:
        self.ending = ending
        self.ends = source, target
        self.protocols = way.split(" -> ")
        self.folder = folder
        self.queues = [f"endings-{uuid.uuid4()}" for _ in range(2)]
        self.took: Counter[int] = Counter()
        self.altered: set[int] = set()

    def run(self, count: int) -> Ended:
        """Send so many messages, and break what is to break."""
        with ExitStack() as stack:
            if self.ending == "disk":
                size = f"size={_DISK}"
                mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.folder)]
                subprocess.run(mount, check=True)
                stack.callback(subprocess.run, ["umount", str(self.folder)], check=True)
            proxies = [stack.enter_context(Proxy(end)) for end in self.ends]
            full = {"x-max-length": count // 4, "x-overflow": "reject-publish"}
            for end, queue in zip(self.ends, self.queues, strict=True):
                limited = self.ending == "disk" and queue == self.queues[1]
                with end.channel() as channel:
                    channel.queue_declare(queue, durable=True, arguments=full if limited else None)
                stack.callback(self._delete, end, queue)
            self._publish(count)
            started = time.monotonic()
            command = self._command([proxy.port for proxy in proxies])
            process = subprocess.Popen(command, cwd=ROOT, stdout=-1, stderr=subprocess.STDOUT)
            stack.callback(process.kill)
            deleted = 0
            if not self.ending.startswith("no "):
                deleted = self._break(proxies[0], count, process)
            said = process.communicate(timeout=_PATIENCE)[0].decode().splitlines()
            made = Ended(process.returncode, ENDINGS[self.ending], count, deleted=deleted)
            made.seconds = time.monotonic() - started
            made.text = next((line for line in reversed(said) if line.startswith("amqp10msg")), "")
            proxies[0].cut()
            time.sleep(0.5)  # until what nobody acknowledged is back
            self._count(made)
        return made

    def _delete(self, end: Place, queue: str) -> int:
        """Delete a queue; return how many messages it had."""
        with end.channel() as channel:
            return int(channel.queue_delete(queue).method.message_count)

    def _publish(self, count: int) -> None:
        with self.ends[0].channel() as channel:
            channel.tx_select()
            for number in range(count):
                body, properties = message(self.queues[0], number)
                if self.ending == "crashed" and number == count // 2:
                    properties.headers["price"] = decimal.Decimal("1.5")
                channel.basic_publish("", self.queues[0], body, properties)
            channel.tx_commit()

    def _command(self, ports: list[int]) -> list[str]:
        if self.ending.startswith("no "):
            with socket.create_server(("127.0.0.1", 0)) as closed:
                ports[self.ending == "no target"] = closed.getsockname()[1]
        # So that a source which says nothing is not taken for one that is gone.
        urls = [
            end.url(queue, protocol, port, heartbeat=60)
            for end, queue, protocol, port in zip(
                self.ends, self.queues, self.protocols, ports, strict=True
            )
        ]
        command = [sys.executable, "-m", "amqp10msg", "bridge", "--from", urls[0], "--to", urls[1]]
        command += ["--window", str(WINDOW), "--until-empty", "--idle", "0.5", "--log", "none"]
        command += ["--quarantine", str(self.folder / "quarantine.jsonl")]
        command += ["--report", str(self.folder.parent / f"{self.queues[0]}.json")]
        return command + _OPTIONS.get(self.ending, [])

    def _break(self, proxy: Proxy, count: int, process: subprocess.Popen[bytes]) -> int:
        """Break what is to break when a quarter has come; return how many that deleted."""
        patience = time.monotonic() + _PATIENCE
        with self.ends[1].channel() as channel:
            while process.poll() is None:
                declared = channel.queue_declare(self.queues[1], passive=True)
                if declared.method.message_count >= count // 4:
                    break
                if time.monotonic() > patience:
                    raise TimeoutError(f"{self.ending}: a quarter is not moved")
                time.sleep(0.01)
        if self.ending in {"pause", "silent"}:
            proxy.hush(quiet=True)
        if self.ending == "pause":
            time.sleep(4)
            proxy.hush(quiet=False)
        return self._delete(self.ends[1], self.queues[1]) if self.ending in _DELETES else 0

    def _note(self, properties: Any, body: bytes) -> int:
        number = number_of(properties)
        if properties.headers.pop("price", None) is not None:
            assert self.ending == "crashed"
        self.took[number] += 1
        if is_altered(properties, body):
            self.altered.add(number)
        return number

    def _count(self, made: Ended) -> None:
        path = self.folder / "quarantine.jsonl"
        for entry in read_quarantine(path) if path.exists() else ():
            self._note(*set_aside(entry))
            made.aside += 1
        for end, queue in zip(self.ends, self.queues, strict=True):
            if end is self.ends[1] and self.ending in _DELETES:
                continue
            with end.channel() as channel:
                counted = channel.queue_declare(queue, passive=True).method.message_count
                if queue == self.queues[0]:
                    made.left = counted
                else:
                    made.there = counted
                for found in messages_of(channel, queue):
                    self._note(*found)
        made.missing = made.sent - len(self.took)
        made.twice = self.took.total() - len(self.took)
        made.altered = len(self.altered)
        report = self.folder.parent / f"{self.queues[0]}.json"
        (counts,) = json.loads(report.read_text())["routes"]
        made.said = counts["remaining"]
        report.unlink()


_DELETES = {"deleted", "sent back"}


def main() -> int:
    """Run the endings, and print a line for each."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("--messages", type=int, default=2_000, help="by ending and way")
    parser.add_argument("--ending", action="append", choices=ENDINGS)
    given = parser.parse_args()
    ends, wrong, found = places_of(given), 0, {}
    for ending in given.ending or ENDINGS:
        for way in given.way or ends:
            source, target = ends[way]
            if ending == "crashed" and (source.version, way[:3]) != ("4", "1.0"):
                continue
            with tempfile.TemporaryDirectory() as folder:
                quarantine = Path(folder) / "aside"
                quarantine.mkdir()
                made = Run(ending, source, target, way, quarantine).run(given.messages)
            found[f"{ending}, {way}"] = attrs.asdict(made)
            wrong += not made.is_right
            print(
                f"{ending}, {way}: status {made.status}, {made.sent} sent, {made.there} there, "
                f"{made.aside} aside, {made.left} left ({made.said} said), {made.deleted} deleted, "
                f"{made.missing} missing, {made.twice} twice, {made.altered} altered, "
                f"{made.seconds:.0f} s: {'right' if made.is_right else 'WRONG'} {made.text}",
                flush=True,
            )
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
