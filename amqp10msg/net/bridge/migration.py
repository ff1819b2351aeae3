"""A cut-over from one RabbitMQ to another: check, declare, move, compare, and say what is open.

A queue is done where all that it had is at the target or aside, by the counts of both brokers, and
where the messages of a sample are there as they were.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs

from amqp10msg.net.bridge.bridge import Show, run_bridge
from amqp10msg.net.bridge.counting import Counting
from amqp10msg.net.bridge.dry import DryRun, give_back
from amqp10msg.net.bridge.entries import Entry, entries_in
from amqp10msg.net.bridge.fingerprints import digest_of
from amqp10msg.net.bridge.management import Management, Queue
from amqp10msg.net.bridge.records import Positions
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import Depth, LinkError, SourceDelivery
from amqp10msg.net.bridge.topology import STATES, Step, declare, plan
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import RouteOptions

#: Seconds between two counts of a target whose count does not agree yet.
_AGAIN = 0.25
#: Messages that are read at once, at most.
_MOST = 65_535
#: What is said of a queue that came to the source meanwhile.
CAME = "was declared at the source while the others were moved, and was not moved: run it again"


@attrs.define
class Moved:
    """One queue of a cut-over.

    Attributes:
        queue: as the source's management API says it.
        spec: its route.
        steps: what the target was to have for it, and what became of that.
        check: what its messages would lose, of those that were looked at; None where it was not
            read.
        there: messages at the source before; of a stream, from where it is read on; None where
            they could not be counted.
        before: messages at the target before; None likewise.
        after: messages at the target afterwards; None likewise.
        since: messages at the source when all was compared; of a stream those after the last one
            that was read; None where they could not be counted.
        counts: of its route.
        end: of a stream, the position after the last message of the target before; None where it is
            not known.
        sample: the messages of the source that were looked at, by a digest of header and body.
        already: of these, what the target had before, likewise.
        file: bytes of the file of the quarantine before.
        looked: messages of the target among which they were looked for last.
        found: how many of them are at the target or in the quarantine; None where it was not
            looked at.
        unreadable: what is wrong with the first line that was added to the quarantine meanwhile and
            is not a message; empty if there is no such line.
        fault: why its route, or looking at it, failed; empty where it did not.
    """

    queue: Queue
    spec: RouteSpec
    steps: list[Step] = attrs.Factory(list)
    check: DryRun | None = None
    there: int | None = None
    before: int | None = None
    after: int | None = None
    since: int | None = None
    counts: Statistics = attrs.Factory(Statistics)
    end: int | None = None
    sample: Counter[bytes] = attrs.Factory(Counter)
    already: Counter[bytes] = attrs.Factory(Counter)
    file: int = 0
    looked: int = 0
    found: int | None = None
    unreadable: str = ""
    fault: str = ""

    @property
    def aside(self) -> int:
        """Messages that the target did not take, and that are not at the source any more."""
        counts = self.counts
        return sum(one.total() for one in (counts.quarantined, counts.rejected))

    @property
    def arrived(self) -> int | None:
        """Messages that are at the target and were not before, by its own count."""
        return None if self.after is None or self.before is None else self.after - self.before

    def open(self) -> list[str]:
        """Return the sentences on what is unaccounted for; empty where the queue is done."""
        counts = self.counts
        steps = [step for step in self.steps if _is_open(step)]
        said = [f"{step.kind} {step.name} {STATES[step.state]}" for step in steps]
        if self.fault:
            said.append(self.fault)
        if not counts.is_empty:
            said += _left(counts, self.spec.source.keeps)
        if counts.left or counts.requeued:
            back = counts.left + counts.requeued.total()
            said.append(f"{back:,} messages went back to the source")
        gone = counts.accepted + self.aside + counts.duplicates
        if self.there is None:
            said.append("the source could not be counted before")
        elif gone < self.there:
            said.append(f"{self.there:,} messages were at the source before, and {gone:,} came")
        elif counts.source_lost and counts.accepted + self.aside > self.there:
            said.append(
                f"{self.there:,} messages were at the source before, and {gone:,} came: its "
                "connection was lost, and some may be at the target twice"
            )
        if counts.missed:
            said.append(
                f"{counts.missed:,} messages were removed by the retention of the stream before "
                "they were read"
            )
        if self.since is None:
            said.append("the source could not be counted afterwards")
        elif self.since:
            said.append(f"{self.since:,} messages came to the source after its route had ended")
        if self.arrived is None:
            said.append("the target could not be counted")
        elif self.arrived != counts.accepted:
            said.append(
                f"the target took {counts.accepted:,} messages, and has {self.arrived:,} more than "
                "before"
            )
        if self.found is None:
            said.append("no message was compared")
        elif self.found < self.sample.total():
            rest = self.sample.total() - self.found
            compared = self.sample.total()
            where = "at the target"
            if self.looked >= _MOST:
                where = f"among the first {_MOST:,} at the target, and no more are looked at"
            said.append(f"{rest:,} of {compared:,} messages compared are not {where}")
            if self.unreadable:
                said.append(f"they may be in the quarantine, but {self.unreadable}")
        return said


def _is_open(step: Step) -> bool:
    """Whether a step is not as it is to be; a policy of mirroring alone has nothing to be."""
    return not step.is_sound and not (step.state == "none" and step.kind == "policy")


def _left(counts: Statistics, keeps: bool) -> list[str]:
    if counts.remaining is None:
        return [f"what is left at the source is not known: {counts.uncounted or counts.state}"]
    said = []
    if counts.remaining:
        said.append(f"{counts.remaining:,} messages are left at the source")
    if counts.unacknowledged and not keeps:
        said.append(f"{counts.unacknowledged:,} messages are held by other consumers of the source")
    elif counts.is_shared:
        said.append("what other consumers of the source hold is not known")
    return said


@attrs.define
class Migration:
    """A cut-over from one RabbitMQ to another, over AMQP 0-9-1.

    Each queue, as `queues_of` lists them, has a route, whose options have the management API of
    both ends and `idle`; of an exclusive one, nothing can be read. The contents of 1 to 30000
    messages of each are compared. `came` are queues that the source has at the end, and had not
    when they were listed, and what is said of them.
    """

    queues: list[Queue]
    specs: list[RouteSpec]
    sample: int = 100
    tell: Callable[[str], None] = lambda _: None
    moved: list[Moved] = attrs.field(init=False)
    came: dict[str, str] = attrs.field(init=False, factory=dict)

    @moved.default
    def _moved(self) -> list[Moved]:
        return [Moved(queue, spec) for queue, spec in zip(self.queues, self.specs, strict=True)]

    def check(self) -> None:
        """Look at the messages of a sample, and at what the target is to have; change nothing."""
        self._plan()
        for one in self.moved:
            self.tell(f"{one.queue.name}: looking at its messages")
            try:
                asyncio.run(_look(one, self.sample))
            except LinkError as error:
                one.fault = str(error)

    def declare(self) -> None:
        """Make at the target what is not there."""
        made: dict[tuple[str, str], Step] = {}
        for one in self.moved:
            api = _api(one.spec.options.target_management, one.spec.target)
            steps = [made.get((step.kind, step.name), step) for step in one.steps]
            one.steps = declare(steps, api)
            made |= {(step.kind, step.name): step for step in one.steps}

    def move(self, logger: logging.Logger, show: Show | None = None) -> None:
        """Count, move, and count again; what fails is in `moved`."""
        for one in self.moved:
            one.there = asyncio.run(_counted(one, source=True))
            one.before = asyncio.run(_counted(one, source=False))
            quarantine = one.spec.options.quarantine
            one.file = quarantine.stat().st_size if quarantine.exists() else 0
            try:
                one.already = asyncio.run(_seen(one))
            except (OSError, ValueError) as error:
                one.fault = one.fault or str(error)
        going = [one for one in self.moved if not one.fault]
        self.tell(f"moving {len(going)} queues")
        _, counts, fault = run_bridge([one.spec for one in going], logger=logger, show=show)
        for one in going:
            one.counts = counts[one.spec.name]
            if one.counts.failed:
                one.fault = str(fault) if len(going) == 1 else "its route failed: see the log"

    def compare(self) -> None:
        """Count what both ends have now, and look for the messages of the sample."""
        for one in self.moved:
            if one.fault:
                continue
            self.tell(f"{one.queue.name}: comparing")
            try:
                one.after = asyncio.run(_settled(one))
                one.found = asyncio.run(_found(one))
            except (OSError, ValueError) as error:
                one.fault = str(error)
        # At the very end: the route of a queue may have ended long before those of others.
        for one in self.moved:
            if not one.fault:
                one.since = asyncio.run(_counted(one, source=True))

    def _plan(self) -> None:
        for one in self.moved:
            options, name = one.spec.options, one.queue.name
            source = _api(options.management, one.spec.source)
            target = _api(options.target_management, one.spec.target)
            one.steps = plan(source, target, {name: one.spec.target.queue or name})

    def open(self) -> dict[str, list[str]]:
        """Return the unaccounted differences by queue; empty where the cut-over is done."""
        found = {one.queue.name: said for one in self.moved if (said := one.open())}
        return found | {name: [said] for name, said in self.came.items()}


#: What the exit status of a cut-over means, the gravest first.
STATUSES: Mapping[int, str] = {
    1: "a queue could not be read or written",
    3: "messages are left at the source, or it could not say",
    6: "counts or contents do not agree, or the target is not as it is to be",
    5: "messages are set aside",
}


def status_of(
    moved: Iterable[Moved], came: Collection[str] = (), *, accept_quarantine: bool = False
) -> int:
    """Return the exit status of a cut-over: a key of `STATUSES`, or 0 where all is accounted for.

    With `accept_quarantine`, messages that are set aside are 0, too; `came` are queues that the
    source got meanwhile.
    """
    found = {3} if came else set()
    for one in moved:
        counts = one.counts
        if one.fault:
            found.add(1)
        elif not counts.is_empty or counts.left or counts.requeued or one.since:
            found.add(3)
        elif one.open():
            found.add(6)
        if one.aside and not accept_quarantine:
            found.add(5)
    return next((status for status in STATUSES if status in found), 0)


def _api(management: str | None, endpoint: Any) -> Management:
    if management is None:
        raise ValueError("a cut-over needs the management API of each end")
    return Management(management, endpoint)


def _next_position(one: Moved) -> int | None:
    """Return the position after the last message read from a stream; None if none was read."""
    if one.counts.position is not None:
        return one.counts.position
    source, state = one.spec.source, one.spec.options.state
    if not source.keeps or state is None or not state.exists():
        return None
    positions = Positions(state, one.spec.name, active=False)
    positions.close()
    return positions.next


def _at_source(one: Moved) -> Endpoint:
    """Return the source; a stream is read from the position after the last message read."""
    source, following = one.spec.source, _next_position(one)
    return source if following is None else source.read_from(str(following))


def _at_target(one: Moved) -> RouteSpec:
    """Return a route that reads what the target has; its own target is not used."""
    target = one.spec.target
    if one.queue.kind == "stream":
        target = target.read_from("first")
    # Neither files nor hooks: it gives back what it reads.
    options = RouteOptions(max_message=one.spec.options.max_message)
    return RouteSpec(target, attrs.evolve(one.spec.target, queue="-"), options)


async def _look(one: Moved, sample: int) -> None:
    """Look at the first messages of the source."""
    spec, check = one.spec, DryRun(one.spec)

    def look(delivery: SourceDelivery) -> None:
        check.add(delivery)
        digest = digest_of(delivery, stream=spec.source.keeps)
        if digest is not None:
            one.sample[digest] += 1

    ready = (await _depth(one, source=True)).ready
    if sample and ready:
        at = attrs.evolve(spec, source=_at_source(one))
        await give_back(at, min(sample, ready), spec.options.idle or 2.0, look)
    one.check = check


async def _depth(one: Moved, *, source: bool) -> Depth:
    at = _at_source(one) if source else _at_target(one).source
    counting = Counting(at, None, waits=one.spec.options.waits)
    depth = await counting.begin(at, _next_position(one) if source else None)
    if not source and one.end is None:
        one.end = counting.end  # of the target before, as it is counted then for the first time
    return depth


async def _counted(one: Moved, *, source: bool) -> int | None:
    """Return how many messages an end has; None where it does not say."""
    try:
        return (await _depth(one, source=source)).ready
    except LinkError as error:
        one.fault = one.fault or f"{one.spec.source if source else one.spec.target}: {error}"
        return None


async def _settled(one: Moved) -> int | None:
    """Return how many messages the target has, when that agrees or does not change any more."""
    waited, found = 0.0, (await _depth(one, source=False)).ready
    settle = one.spec.options.waits.settle  # a quorum queue counts a little later
    while waited < settle and found != (one.before or 0) + one.counts.accepted:
        await asyncio.sleep(_AGAIN)
        waited += _AGAIN
        found = (await _depth(one, source=False)).ready
    return found


async def _found(one: Moved) -> int | None:
    """Return how many messages of the sample are at the target, or aside; None where none can be.

    They are looked for from the first message on, as many as were there before and a window more,
    and then among all: priorities change their order, and a quorum queue may put at its end what
    was given back. What the target had before is another message, unless the route left out what
    the target had taken before.
    """
    if not one.sample:
        return 0 if one.there == 0 else None
    near = (one.before or 0) + one.sample.total() + 2 * one.spec.options.window
    found = 0
    for most in (near, _MOST):
        found = _among(one, await _seen(one, most))
        if found == one.sample.total() or one.looked < min(most, _MOST):
            break
    return found


def _among(one: Moved, seen: Counter[bytes]) -> int:
    """Return how many messages of the sample are among these of the target, or aside."""
    stream = one.queue.kind == "stream"
    quarantine = one.spec.options.quarantine
    if one.aside and quarantine.exists():
        # What an earlier run has put there is not what this one did.
        for entry in entries_in(quarantine, start=one.file):
            if not isinstance(entry, Entry):
                one.unreadable = one.unreadable or entry.why
            elif entry.route == one.spec.name and not entry.file:
                digest = digest_of(
                    SourceDelivery(entry.octets, entry.content_header), stream=stream
                )
                if digest is not None:
                    seen[digest] += 1
    new = one.sample & (seen - one.already)
    old = (one.sample - new) & one.already & seen
    return new.total() + min(old.total(), one.counts.duplicates)


async def _seen(one: Moved, most: int = _MOST) -> Counter[bytes]:
    """Return the messages of the sample that the target has now, of a stream those that came."""
    spec, count = _at_target(one), one.after if one.after is not None else one.before
    stream = one.queue.kind == "stream"
    if stream:
        # Before, there is nothing to be seen: what comes has positions from its end on.
        count = 0 if one.after is None else max(one.after - (one.before or 0), 0)
        spec = attrs.evolve(spec, source=spec.source.read_from(str(one.end or 0)))
    one.looked = 0
    seen: Counter[bytes] = Counter()

    def look(delivery: SourceDelivery) -> None:
        one.looked += 1
        digest = digest_of(delivery, stream=stream)
        if digest is not None and digest in one.sample:
            seen[digest] += 1

    if count and one.sample:
        await give_back(spec, min(most, count, _MOST), one.spec.options.idle or 2.0, look)
    return seen
