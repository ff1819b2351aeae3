"""The statistics of a route."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import attrs

#: Maximum number of different losses that are counted separately. A sender could cause any number,
#: because the path of a loss can contain names that the sender chose.
_MAX_LOSSES = 1_000
#: The key under which all further losses are counted.
_OTHER_LOSSES = ("…", "")


def count_bounded(counts: Counter[Any], key: Any, count: int = 1) -> Any:
    """Add `count` to the count of `key`. Return the key that was counted.

    If `key` is new and `counts` has `_MAX_LOSSES` keys already, the key ``…`` is counted instead.
    """
    if key not in counts and len(counts) >= _MAX_LOSSES:
        key = ("…", *("" for _ in key[1:])) if isinstance(key, tuple) else "…"
    counts[key] += count
    return key


def _limit_losses(losses: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return the `_MAX_LOSSES` most common losses, and the sum of all other losses."""
    if len(losses) <= _MAX_LOSSES + 1:
        return losses
    other_count = losses.pop(_OTHER_LOSSES, 0)
    limited = Counter(dict(losses.most_common(_MAX_LOSSES)))
    limited[_OTHER_LOSSES] = other_count + losses.total() - limited.total()
    return limited


#: Descriptions of the reasons for which a route ends, by `Statistics.ending`.
ENDINGS: Mapping[str, str] = {
    "empty": "the source is empty",
    "length": "the messages that the source had at the start are settled",
    "count": "max_messages are settled",
    "stalled": "no message came for too long, but the source is not known to be empty",
    "deadline": "the deadline has passed",
    "stopped": "the route was stopped",
    "failed": "the source, the target or the disk cannot be used",
}


#: Upper bounds of the buckets of `Latency`, in seconds.
LATENCY_BUCKET_BOUNDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
)


@attrs.define
class Latency:
    """A histogram of latencies, with buckets as in Prometheus.

    Attributes:
        counts: the number of messages in each bucket. The upper bounds of the buckets are
            `LATENCY_BUCKET_BOUNDS`, then infinity.
        total_seconds: the sum of all latencies.
    """

    counts: list[int] = attrs.Factory(lambda: [0] * (len(LATENCY_BUCKET_BOUNDS) + 1))
    total_seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a message with this latency."""
        self.counts[bisect_left(LATENCY_BUCKET_BOUNDS, seconds)] += 1
        self.total_seconds += seconds

    def cumulated(self) -> list[int]:
        """Return the number of messages up to each bound of a bucket, then of all messages."""
        return list(accumulate(self.counts))

    def __add__(self, other: Latency) -> Latency:
        counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return Latency(counts, self.total_seconds + other.total_seconds)


#: The attributes of `Statistics` that `Statistics.after` adds up.
_SUMMED_ATTRIBUTES = (
    *("received", "redelivered", "accepted", "octets", "duplicates", "dropped", "unmatched"),
    *("quarantined", "requeued", "rejected", "refused", "losses", "missed", "skipped"),
    *("stuck", "source_lost", "target_lost"),
    *("unreachable", "latency", "seconds", "busy"),
)


@attrs.define
class Statistics:
    """The counts and the state of a route since its start.

    Attributes:
        received: number of deliveries from the source.
        redelivered: deliveries that the source marked as possibly delivered before.
        accepted: messages that the target accepted.
        octets: size in bytes of the accepted messages, as the source delivered them.
        duplicates: deliveries not sent because the target had accepted their message-id before.
        dropped: messages that the hook dropped.
        unmatched: messages that did not pass the filter.
        quarantined: messages in the quarantine, by reason.
        requeued: messages released to the source for good, by reason.
        rejected: messages rejected at the source, which may dead-letter them, by reason.
        left: messages released to the source because they are too large for memory and for the
            folder of large messages.
        missed: messages of a stream that its retention removed before they were read.
        skipped: positions of a stream for which the broker delivered no message: the broker's own
            entries, or messages that it delivers only over its stream protocol.
        refused: refusals by the target, by reason. A message counts once per refusal.
        stuck: messages that a full target refused many times and that may be too large for it,
            also if it accepted them later.
        losses: values that the translation changed or dropped, by path and action.
        source_lost: times that the connection to the source ended.
        target_lost: times that the connection to the target ended.
        in_flight: messages sent that have no outcome yet.
        waiting: unsettled deliveries that are not in flight, including retries.
        held: deliveries that wait for a retry, or that will be released because they did not pass
            the filter, are too large, or arrived too late.
        connected: whether each end is connected, by name: ``source``, ``target``, ``quarantine``.
        unreachable: failed attempts to connect, by the same names.
        last_success: time at which the target last accepted a message, in seconds since 1970; None
            before the first.
        latency: time from delivery until settlement at the source. Messages that were released
            when the route ended are not included.
        remaining: ready messages at the source when the route ended, by its broker's count; None if
            it was not queried or did not report it.
        unacknowledged: messages that other consumers held when the route ended; None if unknown.
        others: number of the source's other consumers at that time; None if unknown.
        ending: why the route ended, a key of `ENDINGS`; empty while it runs.
        asked: whether the route has queried the number of remaining messages, or should have.
        uncounted: why the messages at the source or at its other consumers could not be counted.
        unset_names: if no message passed the filter, a sentence for each name in the filter that no
            message set. No message can then pass, or the name is misspelled.
        nothing_new: if the source is a file that delivered nothing, because earlier runs settled
            all of its messages, a sentence that says so; empty otherwise.
        lag: number of messages that the source still holds; None if unknown.
        position: for a stream or file, the position from which the next run continues: all earlier
            messages are settled. None for a queue, or if no message was settled.
        state: the state of the route, such as ``running`` or ``draining``.
        seconds: duration of the run.
        busy: seconds from the opening of the source until the latest settlement.
    """

    received: int = 0
    redelivered: int = 0
    accepted: int = 0
    octets: int = 0
    duplicates: int = 0
    dropped: int = 0
    unmatched: int = 0
    quarantined: Counter[str] = attrs.Factory(Counter)
    requeued: Counter[str] = attrs.Factory(Counter)
    rejected: Counter[str] = attrs.Factory(Counter)
    left: int = 0
    missed: int = 0
    skipped: int = 0
    refused: Counter[str] = attrs.Factory(Counter)
    stuck: int = 0
    losses: Counter[tuple[str, str]] = attrs.Factory(Counter)
    source_lost: int = 0
    target_lost: int = 0
    in_flight: int = 0
    waiting: int = 0
    held: int = 0
    connected: dict[str, bool] = attrs.Factory(dict)
    unreachable: Counter[str] = attrs.Factory(Counter)
    last_success: float | None = None
    latency: Latency = attrs.Factory(Latency)
    remaining: int | None = None
    unacknowledged: int | None = None
    others: int | None = None
    ending: str = ""
    asked: bool = False
    uncounted: str = ""
    unset_names: list[str] = attrs.Factory(list)
    nothing_new: str = ""
    lag: int | None = None
    position: int | None = None
    state: str = "starting"
    seconds: float = 0.0
    busy: float = 0.0

    def lose(self, path: str, action: str, count: int = 1) -> None:
        """Add `count` to the losses: values at `path` that were changed or dropped, as `action`."""
        count_bounded(self.losses, (path, action), count)

    def after(self, earlier: Statistics) -> Statistics:
        """Return a copy that includes the counts of an earlier route of the same name."""
        sums = {name: getattr(earlier, name) + getattr(self, name) for name in _SUMMED_ATTRIBUTES}
        sums["losses"] = _limit_losses(sums["losses"])
        last_success = self.last_success or earlier.last_success
        return attrs.evolve(self, last_success=last_success, **sums)

    @property
    def settled(self) -> int:
        """Number of settled messages, with any outcome."""
        by_reason = (self.quarantined, self.requeued, self.rejected)
        single = self.accepted + self.duplicates + self.dropped + self.unmatched
        return single + sum(counts.total() for counts in by_reason)

    @property
    def returned(self) -> int:
        """Number of deliveries that went back to the source because they could not be settled.

        The route was stopped, or its connection to the source was lost. The source delivers these
        messages again. The number is exact when the route has ended.
        """
        ended = self.settled + self.left + self.in_flight + self.waiting
        return max(self.received - ended, 0)

    @property
    def failed(self) -> bool:
        """Whether the route ended because of an error."""
        return self.state == "failed"

    @property
    def is_ready(self) -> bool:
        """Whether the route is connected and running, or has ended without an error."""
        if self.state == "ended":
            return True
        running = not self.ending and self.state not in {"draining", "failed"}
        return running and bool(self.connected) and all(self.connected.values())

    @property
    def is_empty(self) -> bool:
        """Whether the broker reported that neither the source nor other consumers hold messages."""
        return self.remaining == 0 and not self.is_shared

    @property
    def is_shared(self) -> bool:
        """Whether other consumers of the source hold messages, or may hold messages."""
        return (self.others if self.unacknowledged is None else self.unacknowledged) != 0

    @property
    def rate(self) -> float:
        """Accepted messages per second of `busy`."""
        return self.accepted / self.busy if self.busy > 0 else 0.0

    @property
    def lost(self) -> Counter[str]:
        """Number of values that the reverse translation cannot restore, by `Loss.action`."""
        by_action: Counter[str] = Counter()
        for (_, action), count in self.losses.items():
            if action != "carried":
                by_action[action] += count
        return by_action

    def as_dict(self) -> dict[str, Any]:
        """Return the statistics as an object that can be written as JSON."""
        result: dict[str, Any] = attrs.asdict(self)
        result["losses"] = [
            {"path": path, "action": action, "count": count}
            for (path, action), count in self.losses.most_common()
        ]
        for name in ("quarantined", "requeued", "rejected", "refused", "unreachable"):
            result[name] = dict(result[name])
        bounds = [*map(str, LATENCY_BUCKET_BOUNDS), "more"]
        result["latency"] = {
            "seconds": round(self.latency.total_seconds, 3),
            "at_most": dict(zip(bounds, self.latency.counts, strict=True)),
        }
        result["returned"] = self.returned
        result["rate"] = round(self.rate, 1)
        for name in ("seconds", "busy"):
            result[name] = round(result[name], 3)
        return result
