"""Which messages of a batch may break a rule, found from columns: only those are validated.

`validation.prefilter` says the same of one message, which takes ten times as long. Most messages
break nothing, which shows in columns that the kernel fills at once: they decode, which settles all
rules that strict decoding enforces, and the other rules are about few places. What is returned
here may be valid after all; what is not returned is valid.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.validation import PROFILES, RULES, Profile
from amqp10msg.validation.prefilter import NESTED, UNSENT
from amqp10msg.validation.texts import is_free_key, is_mime_type, is_registered_coding

_ANNOTATIONS = ("delivery_annotations", "message_annotations", "footer")
_ENTRIES = ("delivery_annotations", "message_annotations", "application_properties")
#: What has to be decoded: something of each section, so that all sections are checked.
COLUMNS: tuple[str, ...] = ("durable", "content_type", "content_encoding", "user_id", *_ANNOTATIONS)
COLUMNS += ("application_properties", "body_kind", "body", "body_json", "error_code")
_NESTED = pa.array(NESTED)
_UNSENT = pa.array(UNSENT)


def knows(profile: str) -> bool:
    """Whether all rules of a profile are looked for here or enforced by decoding."""
    return all(RULES[rule].refused or rule in _CHECKS for rule in PROFILES[profile])


def suspects(batch: pa.RecordBatch, profile: str) -> list[int]:
    """Return the rows of a batch of `COLUMNS` that may break a rule, in order.

    Rows that did not decode are among them.
    """
    wanted = PROFILES[profile]
    checks = dict.fromkeys(_CHECKS[rule] for rule in wanted if rule in _CHECKS)
    found = set(_places(pc.is_valid(batch.column("error_code"))))
    for check in checks:
        found.update(check(batch, wanted))
    return sorted(found)


def _places(mask: Any) -> list[int]:
    """Return where a mask is true."""
    places: list[int] = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    return places


def _unlike(column: Any, is_sound: Callable[[str], bool]) -> list[int]:
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


def _without_data(batch: pa.RecordBatch, _: Profile) -> list[int]:
    said = [pc.is_valid(batch.column(name)) for name in ("content_type", "content_encoding")]
    return _places(pc.and_(pc.or_(*said), pc.not_equal(batch.column("body_kind"), "data")))


def _content_encoding(batch: pa.RecordBatch, _: Profile) -> list[int]:
    return _unlike(batch.column("content_encoding"), is_registered_coding)


def _keys(batch: pa.RecordBatch, profile: Profile) -> set[int]:
    found: set[int] = set()
    for name in _ANNOTATIONS:
        maps = batch.column(name)
        known = profile.known_keys.get(name.replace("_", "-"), ())
        found |= _rows_of(maps, _unlike(maps.keys, partial(_is_sound_key, known)))
    return found


def _is_sound_key(known: tuple[str, ...], key: str) -> bool:
    # The value of this key, which profiles know, has a rule of its own.
    return key != "rejected" and is_free_key(key, known)


def _nested(batch: pa.RecordBatch, _: Profile) -> set[int]:
    return set().union(*(_of_types(batch.column(name), _NESTED) for name in _ENTRIES))


def _unsent(batch: pa.RecordBatch, _: Profile) -> set[int]:
    return _of_types(batch.column("message_annotations"), _UNSENT)


def _of_types(maps: Any, types: pa.Array) -> set[int]:
    return _rows_of(maps, _places(pc.is_in(pc.struct_field(maps.items, "type"), types)))


# Rules with the same check share its function, which then runs once.
_CHECKS: dict[str, Callable[[pa.RecordBatch, Profile], Iterable[int]]] = {
    "body-missing": lambda batch, _: _places(pc.is_null(batch.column("body_kind"))),
    "delivery-annotations-rejected-type": _keys,
    "content-type-not-mime": lambda batch, _: _unlike(batch.column("content_type"), is_mime_type),
    "content-type-without-data": _without_data,
    "content-encoding-without-data": _without_data,
    "content-encoding-identity": _content_encoding,
    "content-encoding-compress": _content_encoding,
    "content-encoding-multiple": _content_encoding,
    "content-encoding-unregistered": _content_encoding,
    "annotation-key-reserved": _keys,
    # No encoded message breaks these two.
    "message-format": lambda *_: (),
    "not-encodable": lambda *_: (),
    "rabbitmq-described-value": _nested,
    "rabbitmq-array-constructor": _nested,
    "rabbitmq-annotation-null": _unsent,
    "rabbitmq-annotation-number": _unsent,
    "rabbitmq-user-id-empty": lambda batch, _: _places(
        pc.equal(pc.binary_length(batch.column("user_id")), 0)
    ),
}
