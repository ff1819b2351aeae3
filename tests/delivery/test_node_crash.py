"""What the store has confirmed is there after SIGKILL, and what was settled does not come back.

``AMQP10MSG_KILLS=30`` (``make kills``) kills 30 times as often.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import attrs
import pytest

from amqp10msg import Message
from amqp10msg.delivery import DistributionNode
from amqp10msg.delivery.node.sqlite import SqliteStore
from tests.delivery.node_to_kill import message_of, number_of

pytestmark = [pytest.mark.once, pytest.mark.kills]

# A process that is killed here lives for milliseconds.
KILLS = 12 * int(os.environ.get("AMQP10MSG_KILLS", "1"))


@attrs.define
class Known:
    """What a process said before it was killed, over all of them.

    Attributes:
        begun: what was begun and not confirmed, by message.
        published: messages that are confirmed, not accepted and not rejected.
        gone: messages that were accepted.
        dead: messages that were rejected.
        counts: unsuccessful deliveries by message.
        perhaps: how many of the modifications that were begun may be counted, too.
    """

    published: set[int] = attrs.field(factory=set)
    gone: set[int] = attrs.field(factory=set)
    dead: set[int] = attrs.field(factory=set)
    begun: dict[int, str] = attrs.field(factory=dict)
    counts: Counter[int] = attrs.field(factory=Counter)
    perhaps: Counter[int] = attrs.field(factory=Counter)
    said: Counter[str] = attrs.field(factory=Counter)

    def hear(self, line: str) -> None:
        what, text = line.split()
        number = int(text)
        self.said[what] += 1
        match what:
            case "publish" | "accept" | "reject":
                self.begun[number] = what
            case "modify":
                self.perhaps[number] += 1
            case "published":
                # It may have been accepted or rejected in the same batch already.
                if self.begun.get(number) == "publish":
                    del self.begun[number]
                self.published.add(number)
            case "accepted":
                self.begun.pop(number, None)
                self.published.discard(number)
                self.gone.add(number)
            case "rejected":
                self.begun.pop(number, None)
                self.published.discard(number)
                self.dead.add(number)
            case "modified":
                self.counts[number] += 1
                self.perhaps[number] -= 1

    def check(self, queued: dict[int, int], dead: dict[int, int]) -> None:
        """Compare with what is found: delivery-counts by message, queued and dead-lettered."""
        begun = self.begun
        lost = {
            number
            for number in self.published - queued.keys()
            if begun.get(number) != "accept"
            and not (begun.get(number) == "reject" and number in dead)
        }
        assert set() == lost, "confirmed as stored and not there"
        assert set() == self.gone & (queued.keys() | dead.keys()), "accepted and there again"
        assert set() == self.dead - dead.keys(), "rejected and no dead letter"
        assert set() == queued.keys() & dead.keys(), "in two places"
        for number, count in [*queued.items(), *dead.items()]:
            fewest = self.counts[number] + (number in dead)
            assert fewest <= count <= fewest + self.perhaps[number]
        # From here on it is known what became of what was begun.
        self.published = set(queued)
        self.dead = set(dead)
        self.gone |= begun.keys() - queued.keys() - dead.keys()
        self.counts = Counter(queued)
        self.counts.update({number: count - 1 for number, count in dead.items()})
        self.perhaps.clear()
        begun.clear()


def found_in(store: SqliteStore, name: str) -> dict[int, int]:
    node = DistributionNode(name, clock=lambda: 0, store=store)
    found = {}
    for waiting in node.messages():
        number = number_of(waiting.octets)
        assert number not in found, "there twice"
        assert message_of(number).bare == Message.decode(waiting.octets).bare
        found[number] = waiting.delivery_count
    return found


def run_and_kill(path: Path, seed: int, first: int, after: int) -> list[str]:
    """Let a process work, kill it once it has said so many things, and give what it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.delivery.node_to_kill", str(path), str(seed), str(first)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as lines:
        try:
            said = [next(lines) for _ in range(after)]
        finally:
            process.send_signal(signal.SIGKILL)
        said += list(lines)
    assert -signal.SIGKILL == process.wait(), "it ended by itself"
    return said


def test_killed_at_any_instant(tmp_path: Path) -> None:
    path = tmp_path / "messages.db"
    random = Random(KILLS)
    known = Known()
    first = 1
    for kill in range(KILLS):
        # Now and then while it opens the file, which may mean to recover it.
        after = 1 if kill % 8 == 7 else random.randrange(2, 400)
        for line in run_and_kill(path, random.randrange(2**32), first, after):
            known.hear(line)
            if line.startswith("publish "):
                first = int(line.split()[1]) + 1
        with SqliteStore(path) as store:
            known.check(found_in(store, "node"), found_in(store, "dead"))
    print(f"{KILLS} kills: {dict(known.said)}")  # noqa: T201  (the figure, with -s)
    assert known.said["accepted"]
    assert known.said["rejected"]
    assert known.said["modified"]
