"""Which messages of a batch may break a rule, found from columns: only those are validated.

`validation.prefilter` has the tables, and says the same of one message, which takes ten times as
long. Most messages break nothing, which shows in columns that the kernel fills at once. What is
returned here may be valid after all; what is not returned is valid.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.validation import PROFILES, RULES
from amqp10msg.validation.prefilter import ANNOTATIONS, BODIES, FIELDS, KEYS, PREFILTERED, TYPES

#: What has to be decoded: something of each section, so that all sections are checked.
COLUMNS: tuple[str, ...] = ("durable", *FIELDS, *ANNOTATIONS)
COLUMNS += ("application_properties", "body_kind", "body", "body_json", "error_code")
# No encoded message breaks these two.
_OUTSIDE = ("message-format", "not-encodable")


def knows(profile: str) -> bool:
    """Whether all rules of a profile are looked for here or enforced by decoding."""
    return all(
        RULES[rule].refused or rule in PREFILTERED or rule in _OUTSIDE for rule in PROFILES[profile]
    )


def suspects(batch: pa.RecordBatch, profile: str) -> list[int]:
    """Return the rows of a batch of `COLUMNS` that may break a rule, in order.

    Rows that did not decode are among them.
    """
    wanted = PROFILES[profile]
    found = set(_places(pc.is_valid(batch.column("error_code"))))
    for name, (is_sound, rules) in FIELDS.items():
        if not wanted.severities.keys().isdisjoint(rules):
            found.update(_unlike(batch.column(name), is_sound))
    kind = batch.column("body_kind")
    for kinds, fields, rules in BODIES:
        if not wanted.severities.keys().isdisjoint(rules):
            wrong = pc.invert(pc.is_in(kind, pa.array(kinds, kind.type)))
            if fields:
                given = (pc.is_valid(batch.column(name)) for name in fields)
                wrong = pc.and_(wrong, reduce(pc.or_, given))
            found.update(_places(wrong))
    tests = [test for rule, test in KEYS.items() if rule in wanted]
    for attribute, name in ANNOTATIONS.items() if tests else ():
        maps = batch.column(attribute)
        is_sound = partial(_is_sound_key, tests, wanted.known_keys.get(name, ()))
        found |= _rows_of(maps, _unlike(maps.keys, is_sound))
    for types, sections, rules in TYPES:
        if not wanted.severities.keys().isdisjoint(rules):
            for name in sections:
                found |= _of_types(batch.column(name), pa.array(types))
    return sorted(found)


def _places(mask: Any) -> list[int]:
    """Return where a mask is true."""
    places: list[int] = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    return places


def _unlike(column: Any, is_sound: Callable[[Any], bool]) -> list[int]:
    """Return where a value is that is not sound; each distinct value is checked once."""
    if column.null_count == len(column):
        return []
    texts = pc.unique(column).to_pylist()
    bad = [text for text in texts if text is not None and not is_sound(text)]
    return _places(pc.is_in(column, pa.array(bad, column.type))) if bad else []


def _rows_of(maps: Any, entries: Iterable[int]) -> set[int]:
    """Return the rows that entries of maps are in."""
    offsets = memoryview(maps.offsets.buffers()[1]).cast("i")[maps.offsets.offset :]
    stop = len(maps) + 1
    return {bisect_right(offsets, entry, 0, stop) - 1 for entry in entries}


def _is_sound_key(
    tests: list[Callable[[str, tuple[str, ...]], bool]], known: tuple[str, ...], key: str
) -> bool:
    return all(test(key, known) for test in tests)


def _of_types(maps: Any, types: pa.Array) -> set[int]:
    return _rows_of(maps, _places(pc.is_in(pc.struct_field(maps.items, "type"), types)))
