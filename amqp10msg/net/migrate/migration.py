"""A migration from one RabbitMQ to another: check, declare, move, compare, and report.

A queue is done if all of its messages are at the target or in the quarantine, according to the
counts of both brokers, and the messages of a sample have arrived unchanged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs

from amqp10msg.net.bridge.counting import Counting
from amqp10msg.net.bridge.dry import DryRun, read_and_release
from amqp10msg.net.bridge.fingerprints import digest_of
from amqp10msg.net.bridge.management import Management, Queue
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.process import ShowStatistics, run_bridge
from amqp10msg.net.bridge.records import Positions
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.topology import STATES, Step, declare, plan
from amqp10msg.net.ends.entries import Entry, entries_in
from amqp10msg.net.ends.terms import Depth, LinkError, SourceDelivery
from amqp10msg.net.ends.urls import Endpoint

#: Seconds between two counts of a target whose count does not match the accepted messages yet.
_RECOUNT_INTERVAL = 0.25
#: Maximum number of messages at the target that are compared with the sample.
_MAX_COMPARED_MESSAGES = 65_535
#: The report on a queue that was declared at the source during the migration.
NEW_QUEUE_REPORT = (
    "was declared at the source while the others were moved, and was not moved: run it again"
)


@attrs.define
class Moved:
    """A queue of a migration, and its results. A count is None if it could not be determined.

    Attributes:
        queue: the queue, from the source's management API.
        spec: the route that moves the queue.
        steps: the declarations at the target, and their results.
        check: the result of the dry run of the sample; None before `Migration.check`.
        source_before: messages at the source before the move; for a stream, from its start offset.
        target_before: messages at the target before the move.
        target_after: messages at the target after the move.
        source_after: messages at the source after the comparison; for a stream, the messages
            after the last message that was moved.
        counts: the statistics of the route.
        target_end_before: for a stream, the position after the target's last message before the
            move.
        sample_digests: the digests of the messages of the sample, and how often each occurs.
        found_before: the digests of the sample that the target had before the move.
        quarantine_size: size of the quarantine file before the move, in bytes.
        compared_count: number of messages of the target in the last comparison with the sample.
        found_count: number of messages of the sample that are at the target or in the quarantine.
        unreadable: the fault of the first invalid line that was added to the quarantine; empty if
            all added lines are messages.
        fault: the error of the route or of a query; empty if there was no error.
    """

    queue: Queue
    spec: RouteSpec
    steps: list[Step] = attrs.Factory(list)
    check: DryRun | None = None
    source_before: int | None = None
    target_before: int | None = None
    target_after: int | None = None
    source_after: int | None = None
    counts: Statistics = attrs.Factory(Statistics)
    target_end_before: int | None = None
    sample_digests: Counter[bytes] = attrs.Factory(Counter)
    found_before: Counter[bytes] = attrs.Factory(Counter)
    quarantine_size: int = 0
    compared_count: int = 0
    found_count: int | None = None
    unreadable: str = ""
    fault: str = ""

    @property
    def set_aside(self) -> int:
        """Number of messages that were quarantined or rejected."""
        return self.counts.quarantined.total() + self.counts.rejected.total()

    @property
    def arrived(self) -> int | None:
        """Number of messages that the target has more than before, by its broker's counts."""
        return (
            None
            if self.target_after is None or self.target_before is None
            else self.target_after - self.target_before
        )

    def open_issues(self) -> list[str]:
        """Return the open issues of the queue, a sentence each; empty if the queue is done."""
        counts = self.counts
        steps = [step for step in self.steps if _has_failed(step)]
        issues = [f"{step.kind} {step.name} {STATES[step.state]}" for step in steps]
        if self.fault:
            issues.append(self.fault)
        if not counts.is_empty:
            issues += _remaining_issues(counts, self.spec.source.keeps)
        if counts.left or counts.requeued:
            released = counts.left + counts.requeued.total()
            issues.append(f"{released:,} messages were released to the source")
        moved = counts.accepted + self.set_aside + counts.duplicates
        if self.source_before is None:
            issues.append("the messages at the source could not be counted before the move")
        elif moved < self.source_before:
            issues.append(
                f"{self.source_before:,} messages were at the source before the move, but "
                f"{moved:,} were moved"
            )
        elif counts.source_lost and counts.accepted + self.set_aside > self.source_before:
            issues.append(
                f"{self.source_before:,} messages were at the source before the move, but "
                f"{moved:,} were moved: the connection to the source was lost, and some messages "
                "may be at the target twice"
            )
        if counts.missed:
            issues.append(
                f"{counts.missed:,} messages were removed by the retention of the stream before "
                "they were read"
            )
        if self.source_after is None:
            issues.append("the messages at the source could not be counted after the move")
        elif self.source_after:
            issues.append(
                f"{self.source_after:,} messages arrived at the source after its route ended"
            )
        if self.arrived is None:
            issues.append("the messages at the target could not be counted")
        elif self.arrived != counts.accepted:
            issues.append(
                f"the target accepted {counts.accepted:,} messages, but has {self.arrived:,} more "
                "than before"
            )
        if self.found_count is None:
            issues.append("no message was compared")
        elif self.found_count < self.sample_digests.total():
            missing = self.sample_digests.total() - self.found_count
            compared = self.sample_digests.total()
            where = "at the target"
            if self.compared_count >= _MAX_COMPARED_MESSAGES:
                first = f"the first {_MAX_COMPARED_MESSAGES:,}"
                where = f"among {first} at the target, the most that are read"
            issues.append(f"{missing:,} of {compared:,} compared messages are not {where}")
            if self.unreadable:
                issues.append(f"these messages may be in the quarantine, but {self.unreadable}")
        return issues


def _has_failed(step: Step) -> bool:
    """Whether a declaration failed, except for a policy that RabbitMQ 4 does not need."""
    return not step.is_sound and not (step.state == "none" and step.kind == "policy")


def _remaining_issues(counts: Statistics, source_keeps_messages: bool) -> list[str]:
    """Return sentences about the messages that remain at the source or with its consumers."""
    if counts.remaining is None:
        reason = counts.uncounted or counts.state
        return [f"the number of messages left at the source is unknown: {reason}"]
    issues = []
    if counts.remaining:
        issues.append(f"{counts.remaining:,} messages are left at the source")
    if counts.unacknowledged and not source_keeps_messages:
        count = counts.unacknowledged
        issues.append(f"{count:,} messages are held by other consumers of the source")
    elif counts.is_shared:
        issues.append("the number of messages held by other consumers of the source is unknown")
    return issues


@attrs.define
class Migration:
    """A migration from one RabbitMQ to another, over AMQP 0-9-1.

    Attributes:
        queues: the queues, as `queues_of` lists them. Exclusive queues cannot be read.
        specs: a route for each queue, in the same order. Its options have both management APIs, and
            `idle`.
        sample: maximum number of messages of each queue to compare, 1 to 30,000.
        on_progress: called with progress messages.
        moved: the results by queue.
        new_queues: queues that were declared at the source during the migration, with a report on
            each.
    """

    queues: list[Queue]
    specs: list[RouteSpec]
    sample: int = 100
    on_progress: Callable[[str], None] = lambda _: None
    moved: list[Moved] = attrs.field(init=False)
    new_queues: dict[str, str] = attrs.field(init=False, factory=dict)

    @moved.default
    def _default_moved(self) -> list[Moved]:
        return [Moved(queue, spec) for queue, spec in zip(self.queues, self.specs, strict=True)]

    def check(self) -> None:
        """Plan the declarations, and do a dry run of a sample of each queue. Changes nothing."""
        self._plan()
        for moved in self.moved:
            self.on_progress(f"{moved.queue.name}: reading a sample")
            try:
                asyncio.run(_read_sample(moved, self.sample))
            except LinkError as error:
                moved.fault = str(error)

    def declare(self) -> None:
        """Declare the missing objects at the target. Store the results in `Moved.steps`."""
        declared: dict[tuple[str, str], Step] = {}
        for moved in self.moved:
            api = _api(moved.spec.options.target_management, moved.spec.target)
            steps = [declared.get((step.kind, step.name), step) for step in moved.steps]
            moved.steps = declare(steps, api)
            declared |= {(step.kind, step.name): step for step in moved.steps}

    def move(self, logger: logging.Logger, show: ShowStatistics | None = None) -> None:
        """Count the messages, and move them. Errors are stored in `Moved.fault`."""
        for moved in self.moved:
            moved.source_before = asyncio.run(_count(moved, source=True))
            moved.target_before = asyncio.run(_count(moved, source=False))
            quarantine = moved.spec.options.quarantine
            moved.quarantine_size = quarantine.stat().st_size if quarantine.exists() else 0
            try:
                moved.found_before = asyncio.run(_read_target(moved))
            except (OSError, ValueError) as error:
                moved.fault = moved.fault or str(error)
        ready = [moved for moved in self.moved if not moved.fault]
        self.on_progress(f"moving {len(ready)} queues")
        _, counts, fault = run_bridge([moved.spec for moved in ready], logger=logger, show=show)
        for moved in ready:
            moved.counts = counts[moved.spec.name]
            if moved.counts.failed:
                moved.fault = str(fault) if len(ready) == 1 else "its route failed: see the log"

    def compare(self) -> None:
        """Count the messages after the move, and search the target for the sampled messages."""
        for moved in self.moved:
            if moved.fault:
                continue
            self.on_progress(f"{moved.queue.name}: comparing")
            try:
                moved.target_after = asyncio.run(depth_after(moved))
                moved.found_count = asyncio.run(_count_found(moved))
            except (OSError, ValueError) as error:
                moved.fault = str(error)
        # Count the sources last: some routes may have ended long before the last route.
        for moved in self.moved:
            if not moved.fault:
                moved.source_after = asyncio.run(_count(moved, source=True))

    def _plan(self) -> None:
        """Plan the declarations for each queue."""
        for moved in self.moved:
            options, name = moved.spec.options, moved.queue.name
            source = _api(options.management, moved.spec.source)
            target = _api(options.target_management, moved.spec.target)
            moved.steps = plan(source, target, {name: moved.spec.target.queue or name})

    def open_issues(self) -> dict[str, list[str]]:
        """Return the open issues by name of the queue; empty if the migration is done."""
        issues = {
            moved.queue.name: issues_of_queue
            for moved in self.moved
            if (issues_of_queue := moved.open_issues())
        }
        return issues | {name: [report] for name, report in self.new_queues.items()}


#: Meanings of the exit statuses of a migration, most serious first.
STATUSES: Mapping[int, str] = {
    1: "a queue could not be read or written",
    3: "messages are left at the source, or could not be counted",
    6: "counts or contents do not agree, or the target is not declared as planned",
    5: "messages are quarantined or rejected",
}


def status_of(
    moved: Iterable[Moved], new_queues: Collection[str] = (), *, accept_quarantine: bool = False
) -> int:
    """Return the exit status of a migration: a key of `STATUSES`, or 0 if it is done.

    Args:
        moved: the results by queue.
        new_queues: queues that were declared at the source during the migration.
        accept_quarantine: whether quarantined messages do not affect the status.
    """
    statuses = {3} if new_queues else set()
    for result in moved:
        counts = result.counts
        if result.fault:
            statuses.add(1)
        elif not counts.is_empty or counts.left or counts.requeued or result.source_after:
            statuses.add(3)
        elif result.open_issues():
            statuses.add(6)
        # Rejected messages are in no quarantine: the source may have dropped them.
        if counts.rejected or (counts.quarantined and not accept_quarantine):
            statuses.add(5)
    return next((status for status in STATUSES if status in statuses), 0)


def _api(management: str | None, endpoint: Any) -> Management:
    """Return a client of a management API. Raises ValueError if `management` is None."""
    if management is None:
        raise ValueError("a migration needs the management APIs of the source and the target")
    return Management(management, endpoint)


def _next_position(moved: Moved) -> int | None:
    """Return the position after the last message read from a stream; None if none was read."""
    if moved.counts.position is not None:
        return moved.counts.position
    source, state = moved.spec.source, moved.spec.options.state
    if not source.keeps or state is None or not state.exists():
        return None
    positions = Positions(state, moved.spec.name, active=False)
    positions.close()
    return positions.next


def _source_of(moved: Moved) -> Endpoint:
    """Return the source; a stream is read from the position after the last message read."""
    source, next_position = moved.spec.source, _next_position(moved)
    return source if next_position is None else source.read_from(str(next_position))


def _route_from_target(moved: Moved) -> RouteSpec:
    """Return a route whose source is the target of the migration. Its own target is not used."""
    target = moved.spec.target
    if moved.queue.kind == "stream":
        target = target.read_from("first")
    # The route has no state file and no hook, because all of its messages are released.
    options = RouteOptions(max_message=moved.spec.options.max_message)
    return RouteSpec(target, attrs.evolve(moved.spec.target, queue="-"), options)


async def _read_sample(moved: Moved, sample: int) -> None:
    """Do a dry run of the first `sample` messages of the source, and store their digests."""
    spec, check = moved.spec, DryRun(moved.spec)

    def count_digest(delivery: SourceDelivery) -> None:
        check.add(delivery)
        digest = digest_of(delivery, stream=spec.source.keeps)
        if digest is not None:
            moved.sample_digests[digest] += 1

    ready = (await _depth(moved, source=True)).ready
    if sample and ready:
        resumed_spec = attrs.evolve(spec, source=_source_of(moved))
        await read_and_release(
            resumed_spec, min(sample, ready), spec.options.idle or 2.0, count_digest
        )
    moved.check = check


async def _depth(moved: Moved, *, source: bool) -> Depth:
    """Count the messages at the source, or at the target."""
    endpoint = _source_of(moved) if source else _route_from_target(moved).source
    counting = Counting(endpoint, None, waits=moved.spec.options.waits)
    next_position = _next_position(moved) if source else None
    depth = await counting.count_before_reading(endpoint, next_position)
    if not source and moved.target_end_before is None:
        # The first count of the target is before the move.
        moved.target_end_before = counting.end
    return depth


async def _count(moved: Moved, *, source: bool) -> int | None:
    """Count the messages at the source, or at the target. On an error, set `Moved.fault`."""
    try:
        return (await _depth(moved, source=source)).ready
    except LinkError as error:
        endpoint = moved.spec.source if source else moved.spec.target
        moved.fault = moved.fault or f"{endpoint}: {error}"
        return None


async def depth_after(moved: Moved) -> int | None:
    """Count the target's messages after the move; None if it does not report them.

    Waits up to `Waits.count_lag` seconds for the count to match the accepted messages.
    """
    expected = (moved.target_before or 0) + moved.counts.accepted
    waited, count = 0.0, (await _depth(moved, source=False)).ready
    max_wait = moved.spec.options.waits.count_lag  # the count of a quorum queue lags
    while waited < max_wait and count != expected:
        await asyncio.sleep(_RECOUNT_INTERVAL)
        waited += _RECOUNT_INTERVAL
        count = (await _depth(moved, source=False)).ready
    return count


async def _count_found(moved: Moved) -> int | None:
    """Return the number of messages of the sample that are at the target or in the quarantine.

    Return None if there is no sample although the source had messages.

    First, the messages that the target had before and those of the sample are searched, plus two
    windows. If messages are missing, up to `_MAX_COMPARED_MESSAGES` messages are searched, because
    priorities change the order, and a quorum queue may requeue released messages at its end. A
    message that the target had before does not count, unless the route skipped duplicates.
    """
    if not moved.sample_digests:
        return 0 if moved.source_before == 0 else None
    expected_range = (
        (moved.target_before or 0) + moved.sample_digests.total() + 2 * moved.spec.options.window
    )
    found_count = 0
    for limit in (expected_range, _MAX_COMPARED_MESSAGES):
        found_count = _count_in(moved, await _read_target(moved, limit))
        if found_count == moved.sample_digests.total() or moved.compared_count < min(
            limit, _MAX_COMPARED_MESSAGES
        ):
            break
    return found_count


def _count_in(moved: Moved, at_target: Counter[bytes]) -> int:
    """Count the messages of the sample among `at_target` and the lines added to the quarantine."""
    stream = moved.queue.kind == "stream"
    quarantine = moved.spec.options.quarantine
    if moved.set_aside and quarantine.exists():
        # Skip the lines of earlier runs.
        for entry in entries_in(quarantine, start=moved.quarantine_size):
            if not isinstance(entry, Entry):
                moved.unreadable = moved.unreadable or entry.fault
            elif entry.route == moved.spec.name and not entry.file:
                digest = digest_of(
                    SourceDelivery(entry.octets, entry.content_header), stream=stream
                )
                if digest is not None:
                    at_target[digest] += 1
    new = moved.sample_digests & (at_target - moved.found_before)
    old = (moved.sample_digests - new) & moved.found_before & at_target
    return new.total() + min(old.total(), moved.counts.duplicates)


async def _read_target(moved: Moved, limit: int = _MAX_COMPARED_MESSAGES) -> Counter[bytes]:
    """Count the messages of the sample at the target, by digest. Read up to `limit` messages.

    Of a stream, only the messages that were added since the migration began are read.
    """
    spec = _route_from_target(moved)
    count = moved.target_after if moved.target_after is not None else moved.target_before
    stream = moved.queue.kind == "stream"
    if stream:
        # The moved messages have positions from `moved.target_end_before` on.
        count = (
            0
            if moved.target_after is None
            else max(moved.target_after - (moved.target_before or 0), 0)
        )
        spec = attrs.evolve(spec, source=spec.source.read_from(str(moved.target_end_before or 0)))
    moved.compared_count = 0
    at_target: Counter[bytes] = Counter()

    def count_digest(delivery: SourceDelivery) -> None:
        moved.compared_count += 1
        digest = digest_of(delivery, stream=stream)
        if digest is not None and digest in moved.sample_digests:
            at_target[digest] += 1

    if count and moved.sample_digests:
        idle = moved.spec.options.idle or 2.0
        await read_and_release(spec, min(limit, count, _MAX_COMPARED_MESSAGES), idle, count_digest)
    return at_target
