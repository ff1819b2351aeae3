"""Interleaved timing: every contender runs once in every round, so drift affects all equally.

A round gives each contender one batch of calls, in an order that is shuffled for every round, so
that the contender before it varies. Batch sizes are chosen once, so that batches of all contenders
take about the same time; an untimed call precedes each batch. The figure is the median over the
rounds of the time per call. The clock is the processor time of the thread, which excludes other
processes. As in `timeit`, garbage collection is disabled while the clock runs; it happens between
the batches.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Sequence
from random import Random
from time import thread_time_ns

import attrs


@attrs.frozen
class Contender:
    """One way to do the job: a name for the table, and the call that is timed."""

    name: str
    call: Callable[[], object]


@attrs.frozen
class Effort:
    """How much to measure: rounds, and the milliseconds one contender gets in a round."""

    rounds: int = 31
    batch_ms: float = 5.0
    starts: int = 15
    """Fresh interpreters started per contender where the figure is about starting one."""
    mebibytes: int = 16
    """Size of the large body."""
    entries: int = 10_000
    """Entries of the large map."""
    queued: int = 1_000_000
    """Messages that wait at a node."""
    transfers: int = 1_000
    """Messages that go through a server in one call."""
    rows: int = 1_000_000
    """Messages in a job of the pipeline."""
    repeats: tuple[int, ...] = (10,)
    """How many times as many messages where the figure is about memory."""
    warm_up: bool = True
    """Whether a call that does not count precedes each batch."""


SMOKE = Effort(
    rounds=2,
    batch_ms=0.05,
    starts=2,
    mebibytes=2,
    entries=100,
    queued=2_000,
    transfers=20,
    rows=1_000,
    repeats=(2,),
)
"""Just enough to see that the figures run; its times mean nothing."""


@attrs.frozen
class Timing:
    """Nanoseconds per call of one contender: one value per round."""

    name: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.rounds)

    @property
    def best(self) -> float:
        """The fastest round."""
        return min(self.rounds)

    @property
    def spread(self) -> float:
        """The interquartile range divided by the median."""
        if len(self.rounds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return (high - low) / self.median


@attrs.frozen
class Timings:
    """The timings of one measurement: first the subject's, then those of its peers."""

    entries: tuple[Timing, ...]

    def relative(self, timing: Timing) -> float:
        """Return the ratio of `timing` to the subject's time."""
        return timing.median / self.entries[0].median

    def times(self, name: str) -> float | None:
        """Return the ratio of the time of `name` to the subject's; None if it did not run."""
        for timing in self.entries:
            if timing.name == name:
                return self.relative(timing)
        return None

    def ratio(self, name: str, other: str) -> float | None:
        """Return the ratio of the time of `name` to that of `other`; None if one did not run."""
        times, against = self.times(name), self.times(other)
        return None if times is None or against is None else times / against

    def share(self, name: str) -> float | None:
        """Return the ratio of the subject's time to that of `name`; None if it did not run."""
        times = self.times(name)
        return None if times is None else 1 / times


def _batch(call: Callable[[], object], count: int, clock: Callable[[], int]) -> int:
    """Return the nanoseconds of `count` calls."""
    turns = range(count)
    start = clock()
    for _ in turns:
        call()
    return clock() - start


def _batch_size(call: Callable[[], object], batch_ms: float, clock: Callable[[], int]) -> int:
    """Return the number of calls that take `batch_ms`; measuring it is the warm-up."""
    wanted = batch_ms * 1e6
    count = 1
    while True:
        spent = _batch(call, count, clock)
        if spent >= wanted / 4:
            return max(1, round(count * wanted / max(spent, 1)))
        count *= 4 if spent < wanted / 16 else 2


def measure(
    contenders: Sequence[Contender], effort: Effort, clock: Callable[[], int] = thread_time_ns
) -> Timings:
    """Time all contenders; return the timings in their order.

    Args:
        contenders: the subject first, then its peers.
        effort: how much to measure.
        clock: returns nanoseconds.
    """
    sizes = [_batch_size(contender.call, effort.batch_ms, clock) for contender in contenders]
    samples: list[list[float]] = [[] for _ in contenders]
    order = list(range(len(contenders)))
    shuffle = Random(len(order))  # the same order in every run
    was_enabled = gc.isenabled()
    was_frozen = gc.get_freeze_count() > 0  # the caller has frozen objects: keep them frozen
    gc.collect()
    gc.freeze()  # exempt imported modules from the collections between batches
    try:
        for _ in range(effort.rounds):
            shuffle.shuffle(order)
            for place in order:
                gc.collect()
                gc.disable()
                if effort.warm_up:
                    contenders[place].call()
                spent = _batch(contenders[place].call, sizes[place], clock)
                gc.enable()
                samples[place].append(spent / sizes[place])
    finally:
        if not was_frozen:
            gc.unfreeze()
        if was_enabled:
            gc.enable()
        else:
            gc.disable()
    return Timings(
        tuple(
            Timing(contender.name, tuple(rounds))
            for contender, rounds in zip(contenders, samples, strict=True)
        )
    )
