"""Find the messages of a batch that may violate a rule.

The suspicions of the rules are tested on whole columns. `validation.prefilter` tests the same
suspicions message by message, ten times slower. Only suspected rows are then validated in full; all
other rows are valid.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.validation import Profile
from amqp10msg.validation.prefilter import (
    ANNOTATION_KEY_SUSPICIONS,
    ANNOTATION_TYPE_SUSPICIONS,
    BODY_SUSPICIONS,
    FIELD_SUSPICIONS,
    VALUE_SUSPICIONS,
)
from amqp10msg.validation.suspicion import ANNOTATION_SECTION_NAMES

#: The columns to decode: at least one column per section, so that every section is decoded.
PREFILTER_COLUMNS: tuple[str, ...] = tuple(
    dict.fromkeys(
        (
            "durable",
            *("content_type", "content_encoding"),
            *(group.suspicion.field for group in FIELD_SUSPICIONS),
            *(name for group in BODY_SUSPICIONS for name in group.suspicion.fields),
            *ANNOTATION_SECTION_NAMES,
            *("application_properties", "body_kind", "body", "body_json", "error_code"),
        )
    )
)


def suspects(batch: pa.RecordBatch, profile: Profile) -> list[int]:
    """Return the ascending indexes of rows that may violate a rule, or could not be decoded.

    Args:
        batch: the columns `PREFILTER_COLUMNS`.
        profile: the profile, without rules that `has_unscreened_rules` finds.
    """
    severities = profile.severities.keys()
    rows = set(_true_indexes(pc.is_valid(batch.column("error_code"))))
    for suspicion, rules in FIELD_SUSPICIONS:
        if not severities.isdisjoint(rules):
            rows.update(_unusual_indexes(batch.column(suspicion.field), suspicion.is_usual))
    kind = batch.column("body_kind")
    for suspicion, rules in BODY_SUSPICIONS:
        if not severities.isdisjoint(rules):
            unusual = pc.invert(pc.is_in(kind, pa.array(suspicion.usual, kind.type)))
            if suspicion.fields:
                has_field = (pc.is_valid(batch.column(name)) for name in suspicion.fields)
                unusual = pc.and_(unusual, reduce(pc.or_, has_field))
            rows.update(_true_indexes(unusual))
    key_tests = [
        group.suspicion.is_usual
        for group in ANNOTATION_KEY_SUSPICIONS
        if not severities.isdisjoint(group.rules)
    ]
    for attribute, name in ANNOTATION_SECTION_NAMES.items() if key_tests else ():
        maps = batch.column(attribute)
        is_usual = partial(_is_usual_key, key_tests, profile.known_keys.get(name, ()))
        rows |= _rows_of(maps, _unusual_indexes(maps.keys, is_usual))
    for suspicion, rules in VALUE_SUSPICIONS:
        if not severities.isdisjoint(rules):
            for name in suspicion.sections:
                rows |= _rows_with_types(batch.column(name), pa.array(suspicion.types))
    for suspicion, rules in ANNOTATION_TYPE_SUSPICIONS:
        if not severities.isdisjoint(rules):
            maps = batch.column("message_annotations")
            is_named = pc.is_in(maps.keys, pa.array(suspicion.keys))
            is_usual = pc.is_in(pc.struct_field(maps.items, "type"), pa.array(suspicion.usual))
            rows |= _rows_of(maps, _true_indexes(pc.and_not(is_named, is_usual)))
    return sorted(rows)


def _true_indexes(mask: Any) -> list[int]:
    """Return the indexes at which a mask is true."""
    indexes: list[int] = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    return indexes


def _unusual_indexes(column: Any, is_usual: Callable[[Any], bool]) -> list[int]:
    """Return the indexes of values that are not usual; each distinct value is tested once."""
    if column.null_count == len(column):
        return []
    texts = pc.unique(column).to_pylist()
    bad = [text for text in texts if text is not None and not is_usual(text)]
    return _true_indexes(pc.is_in(column, pa.array(bad, column.type))) if bad else []


def _rows_of(maps: Any, entries: Iterable[int]) -> set[int]:
    """Convert indexes of map entries to indexes of rows."""
    offsets = memoryview(maps.offsets.buffers()[1]).cast("i")[maps.offsets.offset :]
    stop = len(maps) + 1
    return {bisect_right(offsets, entry, 0, stop) - 1 for entry in entries}


def _is_usual_key(
    tests: list[Callable[[str, tuple[str, ...]], bool]], reserved_keys: tuple[str, ...], key: str
) -> bool:
    """Return whether all tests accept a key; `reserved_keys` are those that the profile defines."""
    return all(test(key, reserved_keys) for test in tests)


def _rows_with_types(maps: Any, types: pa.Array) -> set[int]:
    """Return the indexes of rows whose map has a value of one of the AMQP `types`."""
    return _rows_of(maps, _true_indexes(pc.is_in(pc.struct_field(maps.items, "type"), types)))
