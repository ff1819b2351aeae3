"""What a route counts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import attrs

#: How many different losses are told apart: a path has names that a message chose.
_MOST = 1_000
_REST = ("…", "")


def count_apart(counts: Counter[Any], key: Any, count: int = 1) -> Any:
    """Count a key, as the rest where no more are told apart; return what it counts as."""
    if key not in counts and len(counts) >= _MOST:
        key = ("…", *("" for _ in key[1:])) if isinstance(key, tuple) else "…"
    counts[key] += count
    return key


def _bounded(losses: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return losses of which no more are told apart than of one route, the commonest."""
    if len(losses) <= _MOST + 1:
        return losses
    rest = losses.pop(_REST, 0)
    found = Counter(dict(losses.most_common(_MOST)))
    found[_REST] = rest + losses.total() - found.total()
    return found


#: Why a route ends.
ENDINGS: Mapping[str, str] = {
    "empty": "the source has nothing more",
    "length": "what stood at the source at the start is settled",
    "count": "as many messages as were wanted are settled",
    "stalled": "nothing came for long, though the source has messages or does not say",
    "deadline": "its time was over",
    "stopped": "it was asked to end",
    "failed": "an end cannot be used, or the disk",
}


#: Upper bounds of a histogram of latencies, in seconds.
LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@attrs.define
class Latency:
    """How long messages took, as a histogram of Prometheus.

    A message is counted by the first of `LATENCIES` that is not less; those that took longer come
    last.
    """

    counts: list[int] = attrs.Factory(lambda: [0] * (len(LATENCIES) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a message."""
        self.counts[bisect_left(LATENCIES, seconds)] += 1
        self.seconds += seconds

    def cumulated(self) -> list[int]:
        """Return how many took at most so long, for each bound, and all of them."""
        return list(accumulate(self.counts))

    def __add__(self, other: Latency) -> Latency:
        counts = [one + two for one, two in zip(self.counts, other.counts, strict=True)]
        return Latency(counts, self.seconds + other.seconds)


#: The counts that go on where a route is replaced by another one of its name.
_SUMMED = (
    *("received", "redelivered", "accepted", "octets", "duplicates", "dropped", "unmatched"),
    *("quarantined", "requeued", "rejected", "refused", "losses", "missed", "skipped"),
    *("source_lost", "target_lost"),
    *("unreachable", "latency", "seconds", "busy"),
)


@attrs.define
class Statistics:
    """Counts of a route since its start.

    Attributes:
        received: deliveries of the source.
        redelivered: of these, those that the source says may have come before.
        accepted: messages that the target took.
        octets: their bytes, as they came.
        duplicates: deliveries that the target had taken before, by their message-id.
        dropped: messages that the hook dropped.
        unmatched: messages that the filter passed over.
        quarantined: messages in the quarantine, by reason.
        requeued: messages that went back to the source for good, by reason.
        rejected: messages that the source was told to dead-letter, by reason.
        left: messages too large for memory and for the folder, which go back to the source.
        missed: messages of a stream that its retention removed before they were read.
        skipped: positions of a stream between two messages, for which the broker delivered nothing:
            its own entries, or messages that it delivers only over its stream protocol.
        refused: times that the target did not take a message, by reason; one may count often.
        losses: values that the translation changed or dropped, by path and action.
        source_lost: times that the source's connection ended.
        target_lost: times that the target's did.
        in_flight: messages that wait for an outcome now.
        waiting: deliveries that wait to be sent now, also those that are to be tried again.
        held: messages that are kept back now: they were refused and are tried again later, or the
            filter passed over them, or they are too large, and they go back.
        connected: whether each end is connected now, by its name: ``source``, ``target``,
            ``quarantine``.
        unreachable: times that an end could not be connected to, likewise.
        last_success: when the target took a message last, in seconds since 1970; None for never.
        latency: of messages, from when they came until they were settled at the source; without
            those that went back when the route ended.
        remaining: messages at the source when the route ended, as its broker counted them, without
            those that others hold; None where it was not asked, or could not say.
        unacknowledged: messages that other consumers of it held then; None where that is not known.
        others: how many other consumers it had then; None likewise.
        ending: why the route ended, a key of `ENDINGS`; empty while it runs.
        asked: whether the source was asked at the end how many messages remain.
        uncounted: why the messages at the source, or those that others hold, could not be counted.
        lag: messages in the source's queue, None where that is not known.
        position: of a stream or a file, the position after the last message settled without a gap,
            from which the next run continues; None for a queue, or if no message was settled.
        state: what the route does, in words.
        seconds: that it ran.
        busy: of these, until a message was settled last, from when the source was open.
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
    lag: int | None = None
    position: int | None = None
    state: str = "starting"
    seconds: float = 0.0
    busy: float = 0.0

    def lose(self, path: str, action: str, count: int = 1) -> None:
        """Count losses of a translation."""
        count_apart(self.losses, (path, action), count)

    def after(self, earlier: Statistics) -> Statistics:
        """Return it with what an earlier route of this name counted."""
        sums = {name: getattr(earlier, name) + getattr(self, name) for name in _SUMMED}
        sums["losses"] = _bounded(sums["losses"])
        last = self.last_success or earlier.last_success
        return attrs.evolve(self, last_success=last, **sums)

    @property
    def settled(self) -> int:
        """Messages whose fate is settled, whatever it is."""
        counts = (self.quarantined, self.requeued, self.rejected)
        single = self.accepted + self.duplicates + self.dropped + self.unmatched
        return single + sum(count.total() for count in counts)

    @property
    def failed(self) -> bool:
        """Whether the route ended against its will."""
        return self.state == "failed"

    @property
    def is_ready(self) -> bool:
        """Whether it is connected at each end and goes on, or has ended as it was to."""
        if self.state == "ended":
            return True
        going = not self.ending and self.state not in {"draining", "failed"}
        return going and bool(self.connected) and all(self.connected.values())

    @property
    def is_empty(self) -> bool:
        """Whether the source, as its broker said, and its other consumers have nothing more."""
        return self.remaining == 0 and not self.is_shared

    @property
    def is_shared(self) -> bool:
        """Whether other consumers of the source hold messages, or may hold some for all we know."""
        return (self.others if self.unacknowledged is None else self.unacknowledged) != 0

    @property
    def rate(self) -> float:
        """Messages that the target took in a second, on average while there were some."""
        return self.accepted / self.busy if self.busy > 0 else 0.0

    @property
    def lost(self) -> Counter[str]:
        """What the translation did to values that do not come back, by action."""
        found: Counter[str] = Counter()
        for (_, action), count in self.losses.items():
            if action != "carried":
                found[action] += count
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        made: dict[str, Any] = attrs.asdict(self)
        made["losses"] = [
            {"path": path, "action": action, "count": count}
            for (path, action), count in self.losses.most_common()
        ]
        for name in ("quarantined", "requeued", "rejected", "refused", "unreachable"):
            made[name] = dict(made[name])
        bounds = [*map(str, LATENCIES), "more"]
        made["latency"] = {
            "seconds": round(self.latency.seconds, 3),
            "at_most": dict(zip(bounds, self.latency.counts, strict=True)),
        }
        made["rate"] = round(self.rate, 1)
        for name in ("seconds", "busy"):
            made[name] = round(made[name], 3)
        return made
