"""What typed JSON says: one form for all ways to write a message, an outcome or a terminus."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from amqp10msg.composite import COMPOSITES, Composite, Field, find_composite
from amqp10msg.interop.corpus import FAMILIES, agreement
from amqp10msg.sections import KINDS, Header, Properties

# What is shown of a value in a sentence.
_SHOWN = 160
_NULL = ["null"]
# Types of descriptors that are of the families of ulong and symbol.
_LIKE = FAMILIES["integer"] | FAMILIES["octets"]
# Those of the sections that are composites.
_SECTIONS = {kind.name: kind.code for kind in KINDS if kind.cls in (Header, Properties)}


def meaning(kind: str, typed: Any, *, loose: bool = False) -> Any:
    """Return typed JSON in the one form of all that say the same.

    What is null by default and what is the default are null, and nulls at the end are left out
    (Part 1, 1.4). Of a message, sections without a field are left out, too. Of a composite, the
    descriptor is the numeric one, and an array of one is that value where there may be several.

    Args:
        kind: of a case; what is neither a message nor a composite is returned as it is.
        typed: typed JSON, also with families of types.
        loose: take descriptors and defaults for such whatever their types, as is right where what
            this is compared with has lost them.
    """
    if kind == "message":
        said = (_section(section, loose) for section in typed)
        return [section for section in said if section is not None]
    return _composite(typed, loose) if kind == "composite" else typed


def apart(kind: str, expected: Any, found: Any) -> str:
    """Describe in words how what was found differs from what is expected.

    Args:
        kind: of a case.
        expected: typed JSON; of a message, as `meaning` returns it.
        found: likewise.
    """
    if kind != "message":
        return f"{_shown(found)}, not {_shown(expected)}"
    names, others = ([section[0] for section in one] for one in (expected, found))
    told = [
        f"{name} is inserted: {_shown(content)}" for name, content in found if name not in names
    ]
    told += [f"{name} is left out" for name in dict.fromkeys(names) if name not in others]
    for name in dict.fromkeys(name for name in names if name in others):
        before, after = (
            [content for one, content in part if one == name] for part in (expected, found)
        )
        if before == after:
            continue
        if len(before) > 1 and before == after[::-1]:
            told.append(f"{name} is in reverse order")
        else:
            one_each = len(before) == len(after) == 1
            said, wanted = (before[0], after[0])[::-1] if one_each else (after, before)
            told.append(f"{name} is {_shown(said)}, not {_shown(wanted)}")
    return ", ".join(told) or "the sections are in another order"


def _shown(typed: Any) -> str:
    text = json.dumps(typed, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _section(section: Any, loose: bool) -> Any:
    name, content = section
    # A section of another type than its own holds a value, whose type comes first.
    if name not in _SECTIONS or not all(isinstance(field, list) for field in content):
        return section
    fields = _fields(COMPOSITES[_SECTIONS[name]], content, loose)
    return [name, fields] if fields else None


def _composite(typed: Any, loose: bool) -> Any:
    if not isinstance(typed, list) or len(typed) != 3 or typed[0] != "described":
        return typed
    _, descriptor, content = typed
    entry = _declared(descriptor, loose)
    if entry is None or content[0] not in ("list", "sequence"):
        return typed
    kind = "ulong" if descriptor[0] in ("ulong", "symbol") else "integer"
    return ["described", [kind, entry.code], [content[0], _fields(entry, content[1], loose)]]


def _declared(descriptor: Sequence[Any], loose: bool) -> Composite | None:
    """Return the composite of a descriptor."""
    kind, key = descriptor[0], descriptor[-1]
    if kind == "octets":
        key = bytes.fromhex(key).decode("ascii", "replace")
    known = kind in ("ulong", "symbol", "integer", "octets") or (loose and kind in _LIKE)
    return find_composite(key) if known else None


def _fields(entry: Composite, values: Iterable[Any], loose: bool) -> list[Any]:
    given = list(values)
    rows = [*entry.fields, *[None] * (len(given) - len(entry.fields))]
    found = [_field(row, value, loose) for row, value in zip(rows, given, strict=False)]
    while found and found[-1] == _NULL:
        found.pop()
    return found


def _field(row: Field | None, value: Any, loose: bool) -> Any:
    if row is None:  # a surplus one
        return value
    if row.multiple:
        items = value[2] if value[0] == "array" and len(value) == 3 else None
        items = value[1] if value[0] == "sequence" else items
        if items is not None and len(items) <= 1:
            value = items[0] if items else _NULL
    return _NULL if _is_default(row, value, loose) else _composite(value, loose)


def _is_default(row: Field, value: Any, loose: bool) -> bool:
    if row.default is None or row.default == ():
        return False
    default = [row.type, getattr(row.default, "value", row.default)]
    if loose or value[0] in FAMILIES:
        return agreement(default, value) is not None
    return bool(value == default)
