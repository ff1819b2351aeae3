"""The counts of a job. The workers count each batch; the counts are added at the end of the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.translate.report import is_permanent_loss, owner_of
from amqp10msg.validation.rules import RuleCount

#: The map sections of which a job counts keys and types of values.
COUNTED_MAP_SECTIONS = (
    "application_properties",
    "message_annotations",
    "delivery_annotations",
    "footer",
)
# Limits on the memory of counts: the number of keys per map section, or of losses, that are counted
# separately, and the number of hours. Further keys and hours are counted together, under
# `_KEY_FOR_FURTHER`.
_MAX_KEYS = 10_000
_MAX_HOURS = 100_000
_KEY_FOR_FURTHER = "(others)"
# Microseconds per hour.
_HOUR_MICROSECONDS = 3_600_000_000


def _value_counts(array: Any) -> Iterator[tuple[Any, int]]:
    """Yield (value, count) for each distinct value of an array except null."""
    counts = pc.value_counts(array.drop_null())
    return zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)


def _hours_of(microseconds: Any) -> Any:
    """Convert microseconds to whole hours. Negative times are rounded up, towards zero."""
    return pc.divide(microseconds, _HOUR_MICROSECONDS)


def _severity(recoverable: bool, reason: str) -> int:
    """Return the severity of a loss.

    0: the value is recoverable. 1: an annotation of a broker is lost. 2: data of the sender is
    lost.
    """
    if is_permanent_loss(recoverable, reason):
        return 2
    return 0 if recoverable else 1


@attrs.define(repr=False)
class Stats:
    """The counts of a job. `str()` formats them as a table.

    Attributes:
        rows: the number of messages, including quarantined messages.
        octets: the total size of the encoded messages, in bytes; for 0-9-1, of the payloads of
            content header frames and of the bodies.
        errors: the number of quarantined messages.
        skipped: the number of rows without a message.
        rules: {error code: count, clause and first location of the quarantined messages}.
        sizes: {bit length of a message's size in bytes: number of messages}; for example, the bit
            length of 128 to 255 is 8.
        hours: {hours since the Unix epoch: number of messages}, by capture time. Jobs that decode
            the creation-time count messages without a capture time by it.
        repaired: the number of invalid messages that a lenient job decoded; they are good.
        left_out: the number of messages that the options ``protocol``, ``address``, ``since``,
            ``until`` and ``selector`` left out; they are not in the other counts. A job on a
            DataFrame counts none, because Spark applies these options before the job.
        further_hours: the number of messages in further hours, if there are more than 100,000.
        types: {section: {key: {AMQP type of the value: number of messages}}}.
        losses: {(path, action): number of values that translations changed or lost}.
        permanent_losses: {(path, action): number of values of senders that are lost permanently}.
            They are also counted in `losses`.
        reasons: {(path, action): (recoverable, reason)} of the losses. If their severity differs,
            this is the first loss of the highest severity.
    """

    rows: int = 0
    octets: int = 0
    errors: int = 0
    skipped: int = 0
    rules: dict[str, RuleCount] = attrs.field(factory=dict)
    sizes: Counter[int] = attrs.field(factory=Counter)
    hours: Counter[int] = attrs.field(factory=Counter)
    repaired: int = attrs.field(default=0, kw_only=True)
    left_out: int = attrs.field(default=0, kw_only=True)
    further_hours: int = attrs.field(default=0, kw_only=True)
    types: dict[str, dict[str, Counter[str]]] = attrs.field(factory=dict)
    losses: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    permanent_losses: Counter[tuple[str, str]] = attrs.field(factory=Counter, kw_only=True)
    reasons: dict[tuple[str, str], tuple[bool, str]] = attrs.field(factory=dict)

    @property
    def good(self) -> int:
        """The number of messages that are not quarantined."""
        return self.rows - self.errors

    def rules_by_frequency(self) -> list[tuple[str, RuleCount]]:
        """Return the items of `rules`, the most frequent first."""
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
        if self.repaired:
            rows.append(("repaired", self.repaired, "invalid messages, decoded leniently"))
        if self.left_out:
            rows.append(("left out", self.left_out, "messages that the filters did not select"))
        rows += [(f"  {code}", row.messages, row.text) for code, row in self.rules_by_frequency()]
        rows += [
            (f"  {path} {action}", count, reason) for path, action, count, reason in self.lost()
        ]
        width = max(len(name) for name, _, _ in rows)
        lines = [f"{name:{width}} {count:>12,}  {remark}".rstrip() for name, count, remark in rows]
        return "\n".join(lines)

    def add_sizes(self, *parts: Any) -> None:
        """Count the sizes of encoded messages.

        Args:
            parts: an array of 1.0 messages; or the content headers and the bodies of 0-9-1
                messages, which have equal lengths. A null has the size 0.
        """
        first, *others = (pc.fill_null(pc.binary_length(part), 0) for part in parts)
        lengths = first
        for more in others:
            lengths = pc.add(pc.cast(lengths, "int64"), more)
        self.octets += pc.sum(lengths).as_py() or 0
        powers = pc.floor(pc.log2(pc.cast(pc.max_element_wise(lengths, 1), "float64")))
        for power, count in _value_counts(powers):
            self.sizes[int(power) + 1] += count

    def add_times(self, array: Any) -> None:
        """Count messages by hour, from an array of timestamps, or of integers, in microseconds."""
        array = pc.cast(array, pa.int64())
        # Integer division would round times before 1970 up: count them in the hour they belong to.
        remainders = pc.subtract(array, pc.multiply(_hours_of(array), _HOUR_MICROSECONDS))
        hours = pc.subtract(_hours_of(array), pc.less(remainders, 0).cast(pa.int64()))
        for hour, count in _value_counts(hours):
            self._add_hour(hour, count)

    def _add_hour(self, hour: int, count: int) -> None:
        if hour in self.hours or len(self.hours) < _MAX_HOURS:
            self.hours[hour] += count
        else:
            self.further_hours += count

    def add_types(self, section: str, array: Any) -> None:
        """Count the keys, and the types of values, in an array of map sections."""
        keys, types = array.keys, array.items.field("type")
        start = array.offsets[0].as_py()
        size = array.offsets[len(array)].as_py() - start
        pairs = pa.table({"key": keys.slice(start, size), "type": types.slice(start, size)})
        # Use a single thread: for one batch, the overhead of more threads exceeds their benefit.
        groups = pairs.group_by(["key", "type"], use_threads=False)
        grouped = groups.aggregate([([], "count_all")])
        for row in grouped.to_pylist():
            self._add_type(section, row["key"], row["type"] or "unknown", row["count_all"])

    def _add_type(self, section: str, key: str, name: str, count: int) -> None:
        keys = self.types.setdefault(section, {})
        if key not in keys and len(keys) >= _MAX_KEYS:
            key = _KEY_FOR_FURTHER
        keys.setdefault(key, Counter())[name] += count

    def add_error(self, code: str, added: RuleCount) -> None:
        """Count messages with an error code. Keep location and text of the first message."""
        row = self.rules.setdefault(code, attrs.evolve(added, messages=0))
        row.messages += added.messages

    def add(self, other: Stats) -> None:
        """Add the counts of another part of the job to these counts."""
        self.rows += other.rows
        self.octets += other.octets
        self.errors += other.errors
        self.skipped += other.skipped
        self.repaired += other.repaired
        self.left_out += other.left_out
        for code, row in other.rules.items():
            self.add_error(code, row)
        self.sizes += other.sizes
        for hour, count in other.hours.items():
            self._add_hour(hour, count)
        self.further_hours += other.further_hours
        for section, keys in other.types.items():
            for key, types in keys.items():
                for name, count in types.items():
                    self._add_type(section, key, name, count)
        self.losses += other.losses
        self.permanent_losses += other.permanent_losses
        for loss, (recoverable, reason) in other.reasons.items():
            self._keep_more_severe_reason(loss, recoverable, reason)

    def add_losses(self, array: Any) -> None:
        """Count the losses of translations, from an array with a list of losses per message."""
        loss_structs = array.flatten()
        if not len(loss_structs):
            return
        names = ("path", "action", "recoverable", "reason")
        losses = pa.table({name: loss_structs.field(name) for name in names})
        positions = pa.array(range(len(loss_structs)), pa.int64())
        groups = (
            losses.append_column("place", positions)
            .group_by([*names], use_threads=False)
            .aggregate([("place", "min"), ("place", "count")])
            .sort_by("place_min")
        )
        columns = groups.select([*names, "place_count"]).columns
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        for path, action, recoverable, reason, count in rows:
            key = (path, action)
            if key not in self.losses and len(self.losses) >= _MAX_KEYS:
                key = (_KEY_FOR_FURTHER, action)  # keeps the total right
            self.losses[key] += count
            if is_permanent_loss(recoverable, reason):
                self.permanent_losses[key] += count
            self._keep_more_severe_reason(key, recoverable, reason)

    def _keep_more_severe_reason(
        self, key: tuple[str, str], recoverable: bool, reason: str
    ) -> None:
        """Store the reason for (path, action), unless the stored reason is at least as severe."""
        current = self.reasons.get(key)
        if current is None or _severity(recoverable, reason) > _severity(*current):
            self.reasons[key] = recoverable, reason

    def lost(self) -> Iterator[tuple[str, str, int, str]]:
        """Yield (path, action, count, reason) of the translation losses, the most frequent first.

        The text "a mark of the broker" is appended to the action if only an annotation of the
        broker is lost, otherwise "for good" if the loss is permanent, or "1 of 2 for good".
        """
        for (path, action), count in self.losses.most_common():
            _, reason = self.reasons.get((path, action), (True, ""))
            permanent = self.permanent_losses[path, action]
            description = action
            if permanent:
                share = "" if permanent == count else f"{permanent:,} of {count:,} "
                description = f"{action}, {share}for good"
            elif owner_of(reason) == "broker":
                description = f"{action}, a mark of the broker"
            yield path or "message", description, count, reason

    @property
    def lost_for_good(self) -> int:
        """The number of values of senders that translations lost permanently."""
        return self.permanent_losses.total()

    def drifting(self) -> list[tuple[str, str, Counter[str]]]:
        """Return (section, key, {type: count}) for the keys whose values have several types."""
        return [
            (section, key, types)
            for section, keys in sorted(self.types.items())
            for key, types in sorted(keys.items())
            if len(types) > 1 and key != _KEY_FOR_FURTHER
        ]

    @classmethod
    def from_json(cls, content: Any) -> Stats:
        """Create the counts from the JSON object that `as_json` returns.

        Args:
            content: the parsed JSON.

        Raises:
            ValueError: `content` is not such an object; the error names the invalid field.
        """
        fields = _ObjectReader("counts of a job", content)
        hours = fields.nested("hours")
        further_hours = hours.count(_KEY_FOR_FURTHER) if _KEY_FOR_FURTHER in hours.content else 0
        hours.content = {k: n for k, n in hours.content.items() if k != _KEY_FOR_FURTHER}
        losses = [_ObjectReader("losses", row) for row in fields.list("losses")]
        pairs = [(row.text("path"), row.text("action")) for row in losses]
        reasons = {
            pair: (row.flag("recoverable"), row.text("reason"))
            for pair, row in zip(pairs, losses, strict=True)
            if "reason" in row.content
        }
        return cls(
            fields.count("messages"),
            fields.count("bytes"),
            fields.count("quarantined"),
            fields.count("skipped"),
            {code: _parse_rule(row) for code, row in fields.map("rules").items()},
            fields.nested("sizes").numbered(),
            hours.numbered(),
            {
                section: {key: _ObjectReader(key, types).counts() for key, types in keys.items()}
                for section, keys in fields.maps("types")
            },
            Counter({pair: row.count("messages") for pair, row in zip(pairs, losses, strict=True)}),
            reasons,
            permanent_losses=Counter(
                {
                    pair: _permanent_count(row, *reasons.get(pair, (True, "")))
                    for pair, row in zip(pairs, losses, strict=True)
                }
            ),
            repaired=fields.count("repaired") if "repaired" in fields.content else 0,
            left_out=fields.count("left_out") if "left_out" in fields.content else 0,
            further_hours=further_hours,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return {
            "messages": self.rows,
            "bytes": self.octets,
            "good": self.good,
            "quarantined": self.errors,
            "skipped": self.skipped,
            "repaired": self.repaired,
            "left_out": self.left_out,
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
            "hours": {str(hour): n for hour, n in sorted(self.hours.items())}
            | ({_KEY_FOR_FURTHER: self.further_hours} if self.further_hours else {}),
            "types": {s: {k: dict(t) for k, t in keys.items()} for s, keys in self.types.items()},
            "losses": [
                {
                    "path": path,
                    "action": action,
                    "messages": n,
                    "permanent": self.permanent_losses[path, action],
                    **self._reason_json(path, action),
                }
                for (path, action), n in self.losses.most_common()
            ],
        }

    def _reason_json(self, path: str, action: str) -> dict[str, Any]:
        reason = self.reasons.get((path, action))
        if reason is None:
            return {}
        return {"recoverable": reason[0], "reason": reason[1], "owner": owner_of(reason[1])}


def _permanent_count(row: _ObjectReader, recoverable: bool, reason: str) -> int:
    """Return the number of permanent losses in a row of the JSON object."""
    if "permanent" in row.content:
        return row.count("permanent")
    # Written before this number was: an upper bound.
    return row.count("messages") if is_permanent_loss(recoverable, reason) else 0


def _parse_rule(row: Any) -> RuleCount:
    fields = _ObjectReader("rules", row)
    return RuleCount(
        fields.text("clause"),
        fields.count("messages"),
        fields.text("first"),
        text=fields.text("text"),
    )


class _ObjectReader:
    """Reads the fields of a JSON object and checks their types.

    The methods raise ValueError if a field is missing or has the wrong type.

    Args:
        name: the name of the object, for errors.
        content: the parsed JSON.

    Raises:
        ValueError: `content` is not an object.
    """

    def __init__(self, name: str, content: Any) -> None:
        self.name = name
        if not isinstance(content, dict):
            raise self._error("is not an object")
        self.content: dict[str, Any] = content

    def _error(self, problem: str) -> ValueError:
        return ValueError(f"not the counts of a job: {self.name:.80} {problem}")

    def _typed(self, key: str, kind: type, noun: str) -> Any:
        """Return a field that must have the type `kind`, which errors call `noun`."""
        value = self.content.get(key)
        if type(value) is not kind:
            raise self._error(f"has {key[:80]!r}: {value!r:.80}, which must be {noun}")
        return value

    def text(self, key: str) -> str:
        """Return a field that must be a string."""
        text: str = self._typed(key, str, "a string")
        return text

    def flag(self, key: str) -> bool:
        """Return a field that must be true or false."""
        flag: bool = self._typed(key, bool, "true or false")
        return flag

    def count(self, key: str) -> int:
        """Return a field that must be an integer of 0 or more."""
        count: int = self._typed(key, int, "a number")
        if count < 0:
            raise self._error(f"has {key[:80]!r}: {count}, which must be 0 or more")
        return count

    def list(self, key: str) -> list[Any]:
        """Return a field that must be a list."""
        items: list[Any] = self._typed(key, list, "a list")
        return items

    def map(self, key: str) -> dict[str, Any]:
        """Return a field that must be an object."""
        return self.nested(key).content

    def maps(self, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the keys and values of a field that is an object of objects."""
        outer = self.nested(key)
        for name in outer.content:
            yield name, outer.map(name)

    def counts(self) -> Counter[str]:
        """Return the object itself as {key: count}."""
        return Counter({key: self.count(key) for key in self.content})

    def nested(self, key: str) -> _ObjectReader:
        """Return a reader of a field that must be an object."""
        return _ObjectReader(key, self.content.get(key))

    def numbered(self) -> Counter[int]:
        """Return the object itself as {number: count}. In JSON, the numbers are strings."""
        counts = self.counts()
        try:
            return Counter({int(number): count for number, count in counts.items()})
        except ValueError:
            raise self._error("has a key that is not a number") from None
