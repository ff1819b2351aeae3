"""The counts of a job: made batch by batch in the workers, added up where the job ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.translate.report import owner_of
from amqp10msg.validation.rules import RuleCount

#: The map sections whose keys and types are counted.
MAPS = ("application_properties", "message_annotations", "delivery_annotations", "footer")
# Distinct keys of a map section that are counted one by one: a bound on memory.
_MAX_KEYS = 10_000
_MAX_HOURS = 100_000
_OTHERS = "(others)"
_HOUR = 3_600_000_000


def _counted(array: Any) -> Iterator[tuple[Any, int]]:
    """Yield the values of an array and how often they are there; nulls are left out."""
    found = pc.value_counts(array.drop_null())
    return zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)


_PERMANENT = 2  # the gravest of what `_gravity` returns


def _gravity(recoverable: bool, reason: str) -> int:
    """Return how bad a loss is: 2 if data of a sender is lost for good, 1 if a broker's mark is."""
    if recoverable:
        return 0
    return _PERMANENT if owner_of(reason) == "sender" else 1


@attrs.define(repr=False)
class Stats:
    """Counts of a job; as text, a table of them.

    Attributes:
        rows: messages, good and bad.
        octets: of their encoded form.
        errors: messages in quarantine.
        skipped: rows without a message.
        rules: why, by the code of the error.
        sizes: messages by the number of bits of their size: 8 for 128 to 255 bytes.
        hours: messages by the hour, counted from the Unix epoch.
        types: by section, key and AMQP type, how many messages have it so.
        losses: by path and action, what translations changed or lost.
        reasons: by path and action, whether all of them can be recovered, and why it is so; if some
            cannot, the reason of the first one that cannot.
    """

    rows: int = 0
    octets: int = 0
    errors: int = 0
    skipped: int = 0
    rules: dict[str, RuleCount] = attrs.field(factory=dict)
    sizes: Counter[int] = attrs.field(factory=Counter)
    hours: Counter[int] = attrs.field(factory=Counter)
    types: dict[str, dict[str, Counter[str]]] = attrs.field(factory=dict)
    losses: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    reasons: dict[tuple[str, str], tuple[bool, str]] = attrs.field(factory=dict)

    @property
    def good(self) -> int:
        """Messages without an error."""
        return self.rows - self.errors

    def rules_by_frequency(self) -> list[tuple[str, RuleCount]]:
        """Return why messages were quarantined, the most frequent first."""
        return sorted(self.rules.items(), key=lambda item: (-item[1].messages, item[0]))

    def __repr__(self) -> str:
        names = ("rows", "octets", "errors", "skipped")
        return f"Stats({', '.join(f'{name}={getattr(self, name)}' for name in names)}, ...)"

    def __str__(self) -> str:
        rows = [
            ("messages", self.rows, f"{self.octets:,} bytes"),
            ("good", self.good, ""),
            ("quarantined", self.errors, ""),
            ("skipped", self.skipped, "rows without a message"),
        ]
        rows += [(f"  {code}", row.messages, row.text) for code, row in self.rules_by_frequency()]
        rows += [(f"  {path} {action}", count, why) for path, action, count, why in self.lost()]
        width = max(len(name) for name, _, _ in rows)
        lines = [f"{name:{width}} {count:>12,}  {told}".rstrip() for name, count, told in rows]
        return "\n".join(lines)

    def add_sizes(self, array: Any) -> None:
        """Count the sizes of an array of messages."""
        lengths = pc.binary_length(array)
        self.octets += pc.sum(lengths).as_py() or 0
        powers = pc.floor(pc.log2(pc.cast(pc.max_element_wise(lengths, 1), "float64")))
        for power, count in _counted(powers):
            self.sizes[int(power) + 1] += count

    def add_times(self, array: Any) -> None:
        """Count the hours of an array of timestamps in microseconds."""
        for hour, count in _counted(pc.divide(pc.cast(array, pa.int64()), _HOUR)):
            self._hour(hour, count)

    def _hour(self, hour: int, count: int) -> None:
        if hour in self.hours or len(self.hours) < _MAX_HOURS:
            self.hours[hour] += count

    def add_types(self, section: str, array: Any) -> None:
        """Count keys and types of an array of map sections."""
        keys, types = array.keys, array.items.field("type")
        start = array.offsets[0].as_py()
        size = array.offsets[len(array)].as_py() - start
        pairs = pa.table({"key": keys.slice(start, size), "type": types.slice(start, size)})
        # In this thread: to hand a batch to others costs more than it gains.
        counted = pairs.group_by(["key", "type"], use_threads=False)
        found = counted.aggregate([([], "count_all")])
        for row in found.to_pylist():
            self._type(section, row["key"], row["type"] or "unknown", row["count_all"])

    def _type(self, section: str, key: str, name: str, count: int) -> None:
        known = self.types.setdefault(section, {})
        if key not in known and len(known) >= _MAX_KEYS:
            key = _OTHERS
        known.setdefault(key, Counter())[name] += count

    def add_error(self, code: str, found: RuleCount) -> None:
        """Count messages that failed; of the first is kept where it is, and what is wrong."""
        row = self.rules.setdefault(code, attrs.evolve(found, messages=0))
        row.messages += found.messages

    def add(self, other: Stats) -> None:
        """Add the counts of another part of the job."""
        self.rows += other.rows
        self.octets += other.octets
        self.errors += other.errors
        self.skipped += other.skipped
        for code, row in other.rules.items():
            self.add_error(code, row)
        self.sizes += other.sizes
        for hour, count in other.hours.items():
            self._hour(hour, count)
        for section, keys in other.types.items():
            for key, types in keys.items():
                for name, count in types.items():
                    self._type(section, key, name, count)
        self.losses += other.losses
        for loss, (recoverable, reason) in other.reasons.items():
            self._explain(loss, recoverable, reason)

    def add_losses(self, array: Any) -> None:
        """Count what translations lost, an array of lists of losses."""
        lost = array.flatten()
        if not len(lost):
            return
        names = ("path", "action", "recoverable", "reason")
        given = pa.table({name: lost.field(name) for name in names})
        places = pa.array(range(len(lost)), pa.int64())
        found = (
            given.append_column("place", places)
            .group_by([*names], use_threads=False)
            .aggregate([("place", "min"), ("place", "count")])
            .sort_by("place_min")
        )
        columns = found.select([*names, "place_count"]).columns
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        for path, action, recoverable, reason, count in rows:
            key = (path, action)
            if key not in self.losses and len(self.losses) >= _MAX_KEYS:
                key = (_OTHERS, action)  # counted together, so that none is missing
            self.losses[key] += count
            self._explain(key, recoverable, reason)

    def _explain(self, key: tuple[str, str], recoverable: bool, reason: str) -> None:
        """Keep the reason of a loss, unless a worse one of the same path and action is known."""
        known = self.reasons.get(key)
        if known is None or _gravity(recoverable, reason) > _gravity(*known):
            self.reasons[key] = recoverable, reason

    def lost(self) -> Iterator[tuple[str, str, int, str]]:
        """Yield what translations lost, the most frequent first: path, action, messages, and why.

        The action says whether it is lost for good, or is only a mark of the broker.
        """
        for (path, action), count in self.losses.most_common():
            recoverable, reason = self.reasons.get((path, action), (True, ""))
            words = action
            if owner_of(reason) == "broker":
                words = f"{action}, a mark of the broker"
            elif not recoverable:
                words = f"{action}, for good"
            yield path or "message", words, count, reason

    @property
    def lost_for_good(self) -> int:
        """How many values of senders translations lost that cannot be recovered."""
        return sum(
            count
            for key, count in self.losses.items()
            if _gravity(*self.reasons.get(key, (True, ""))) == _PERMANENT
        )

    def drifting(self) -> list[tuple[str, str, Counter[str]]]:
        """List the keys that have more than one type: section, key, messages by type."""
        return [
            (section, key, types)
            for section, keys in sorted(self.types.items())
            for key, types in sorted(keys.items())
            if len(types) > 1 and key != _OTHERS
        ]

    @classmethod
    def from_json(cls, given: Any) -> Stats:
        """Return the counts that `as_json` wrote.

        Args:
            given: the parsed JSON.

        Raises:
            ValueError: these are not the counts of a job; the message names the wrong field.
        """
        fields = _Fields("counts of a job", given)
        losses = [_Fields("losses", row) for row in fields.list("losses")]
        pairs = [(row.text("path"), row.text("action")) for row in losses]
        return cls(
            fields.count("messages"),
            fields.count("bytes"),
            fields.count("quarantined"),
            fields.count("skipped"),
            {code: _rule_of(row) for code, row in fields.map("rules").items()},
            fields.numbered("sizes"),
            fields.numbered("hours"),
            {
                section: {key: _Fields(key, types).counts() for key, types in keys.items()}
                for section, keys in fields.maps("types")
            },
            Counter({pair: row.count("messages") for pair, row in zip(pairs, losses, strict=True)}),
            {
                pair: (row.flag("recoverable"), row.text("reason"))
                for pair, row in zip(pairs, losses, strict=True)
                if "reason" in row.content
            },
        )

    def as_json(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return {
            "messages": self.rows,
            "bytes": self.octets,
            "good": self.good,
            "quarantined": self.errors,
            "skipped": self.skipped,
            "rules": {
                code: {
                    "clause": row.clause,
                    "messages": row.messages,
                    "first": row.first,
                    "text": row.text,
                }
                for code, row in sorted(self.rules.items())
            },
            "sizes": {str(bits): n for bits, n in sorted(self.sizes.items())},
            "hours": {str(hour): n for hour, n in sorted(self.hours.items())},
            "types": {s: {k: dict(t) for k, t in keys.items()} for s, keys in self.types.items()},
            "losses": [
                {"path": path, "action": action, "messages": n, **self._reason(path, action)}
                for (path, action), n in self.losses.most_common()
            ],
        }

    def _reason(self, path: str, action: str) -> dict[str, Any]:
        found = self.reasons.get((path, action))
        if found is None:
            return {}
        return {"recoverable": found[0], "reason": found[1], "owner": owner_of(found[1])}


def _rule_of(row: Any) -> RuleCount:
    fields = _Fields("rules", row)
    return RuleCount(
        fields.text("clause"),
        fields.count("messages"),
        fields.text("first"),
        text=fields.text("text"),
    )


class _Fields:
    """Reads the fields of a JSON object and checks their types.

    Args:
        name: what the object is, for errors.
        content: the parsed JSON.

    Raises:
        ValueError: it is not an object, or a field is missing or of another type.
    """

    def __init__(self, name: str, content: Any) -> None:
        self.name = name
        if not isinstance(content, dict):
            raise self._wrong("is not an object")
        self.content: dict[str, Any] = content

    def _wrong(self, problem: str) -> ValueError:
        return ValueError(f"not the counts of a job: {self.name:.80} {problem}")

    def _typed(self, key: str, kind: type, noun: str) -> Any:
        value = self.content.get(key)
        if type(value) is not kind:
            raise self._wrong(f"has {key[:80]!r}: {value!r:.80}, and not {noun}")
        return value

    def text(self, key: str) -> str:
        text: str = self._typed(key, str, "a string")
        return text

    def flag(self, key: str) -> bool:
        flag: bool = self._typed(key, bool, "true or false")
        return flag

    def count(self, key: str) -> int:
        count: int = self._typed(key, int, "a number")
        if count < 0:
            raise self._wrong(f"has {key[:80]!r}: {count}, and not a count")
        return count

    def list(self, key: str) -> list[Any]:
        items: list[Any] = self._typed(key, list, "a list")
        return items

    def map(self, key: str) -> dict[str, Any]:
        return _Fields(key, self.content.get(key)).content

    def maps(self, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the items of a map of maps."""
        outer = _Fields(key, self.content.get(key))
        for name in outer.content:
            yield name, outer.map(name)

    def counts(self) -> Counter[str]:
        """Return the object as counts by name."""
        return Counter({key: self.count(key) for key in self.content})

    def numbered(self, key: str) -> Counter[int]:
        """Return a field as counts by number; JSON has numbers as keys in quotes."""
        counts = _Fields(key, self.content.get(key)).counts()
        try:
            return Counter({int(number): count for number, count in counts.items()})
        except ValueError:
            raise self._wrong(f"has a key in {key!r} that is not a number") from None
