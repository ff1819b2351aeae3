"""The differences between two messages, by field, entry and value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Literal

import attrs

from amqp10msg.composite import rows
from amqp10msg.message import Message, expect_message
from amqp10msg.sections import BODY_KINDS, KINDS, Header, Properties
from amqp10msg.sections.parts import Malformed
from amqp10msg.wire import kernel
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import AmqpMap


@attrs.frozen
class Difference:
    """A difference between two messages.

    Attributes:
        path: the section, field, entry or item that differs, such as ``properties.subject``,
            ``application-properties['tenant']`` or ``body['items'][2]``.
        kind: ``changed``; ``added`` or ``removed`` if only the second or only the first message has
            it; ``reordered`` if a map has the same entries in another order.
        before: the value in the first message; None if it was added.
        after: the value in the second message; None if it was removed.
    """

    path: str
    kind: Literal["changed", "added", "removed", "reordered"]
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        match self.kind:
            case "added":
                return f"{self.path}: added {self.after!r:.200}"
            case "removed":
                return f"{self.path}: removed {self.before!r:.200}"
            case "reordered":
                return f"{self.path}: the same entries in another order"
        return f"{self.path}: {self.before!r:.200} -> {self.after!r:.200}"


_BODY_SECTION_NAMES = frozenset(kind.name for kind in BODY_KINDS)
# The names of sections in wire order, with one name for the body.
_SECTION_NAMES = tuple(
    dict.fromkeys("body" if kind.name in _BODY_SECTION_NAMES else kind.name for kind in KINDS)
)
_SECTION_NAMES += ("unknown",)


def differences(before: Message, after: Message) -> list[Difference]:
    """Return the differences between two messages, in the order of the sections.

    The result is empty if and only if the messages are equal: they may then still differ in how
    they are encoded. Values of different AMQP types differ, such as ``UInt(5)`` and ``ULong(5)``.

    Raises:
        EncodeError: a value of a message cannot be encoded.
        TypeError: an argument is not a `Message`.
    """
    expect_message(before, "differences")
    expect_message(after, "differences")
    if before == after:
        return []
    found = list(_between_messages(before, after))
    if not found:
        # The order of sections, which only leniently decoded messages can have.
        found.append(Difference("message", "changed", before, after))
    return found


def _between_messages(before: Message, after: Message) -> Iterator[Difference]:
    if before.message_format != after.message_format:
        formats = before.message_format, after.message_format
        yield Difference("message-format", "changed", *formats)
    old, new = _sections_by_name(before), _sections_by_name(after)
    for name in sorted({*old, *new}, key=_SECTION_NAMES.index):
        pairs = list(zip_longest(old.get(name, []), new.get(name, [])))
        for index, (first, second) in enumerate(pairs):
            path = name if len(pairs) == 1 else f"{name}[{index}]"
            yield from _between_sections(path, first, second)


def _sections_by_name(message: Message) -> dict[str, list[Any]]:
    """Return the sections of each name, in the order of the message. All bodies are ``body``.

    They are encoded and decoded, so that all values have the classes of their AMQP types: a str as
    the key of an annotation is a symbol.
    """
    decoded = Message.decode(message.encode(), strict=False, limits=UNLIMITED)
    sections: dict[str, list[Any]] = {}
    for name, section in decoded.sections():
        sections.setdefault("body" if name in _BODY_SECTION_NAMES else name, []).append(section)
    return sections


def _between_sections(path: str, before: Any, after: Any) -> Iterator[Difference]:
    if before is None or after is None:
        if before is not after:
            yield _changed(path, before, after)
    elif type(before) is type(after) and isinstance(before, (Header, Properties)):
        for field in rows(type(before)):
            values = getattr(before, field.name), getattr(after, field.name)
            yield from _between_values(f"{path}.{field.name.replace('_', '-')}", *values)
    elif type(before) is type(after) and len(attributes := _content_of(before)) == 1:
        yield from _between_values(
            path, getattr(before, attributes[0]), getattr(after, attributes[0])
        )
    else:
        yield from _between_values(path, before, after)


def _content_of(section: Any) -> tuple[str, ...]:
    """Return the attribute with the content of a body section; empty for other sections."""
    is_body = attrs.has(type(section)) and not isinstance(section, Malformed)
    return tuple(field.name for field in attrs.fields(type(section))) if is_body else ()


def _between_values(path: str, before: Any, after: Any) -> Iterator[Difference]:
    """Yield the differences of two values; None is a missing field, or the value null."""
    if _is_same(before, after):
        return
    if isinstance(before, (Mapping, AmqpMap)) and isinstance(after, (Mapping, AmqpMap)):
        yield from _between_maps(path, before, after)
    elif type(before) is type(after) is list:
        for index, item in enumerate(before):
            if index < len(after):
                yield from _between_values(f"{path}[{index}]", item, after[index])
            else:
                yield Difference(f"{path}[{index}]", "removed", item)
        for index in range(len(before), len(after)):
            yield Difference(f"{path}[{index}]", "added", None, after[index])
    else:
        yield _changed(path, before, after)


def _between_maps(path: str, before: Any, after: Any) -> Iterator[Difference]:
    """Yield the differences of two maps that are not the same."""
    old, new = _entries_by_key(before), _entries_by_key(after)
    if old is None or new is None:
        yield Difference(path, "changed", before, after)
        return
    is_reordered = True
    for encoded in dict.fromkeys((*old, *new)):
        key, _ = old.get(encoded) or new[encoded]
        entry = f"{path}[{str(key)!r}]" if isinstance(key, str) else f"{path}[{key}]"
        if encoded not in new:
            found = [Difference(entry, "removed", old[encoded][1])]
        elif encoded not in old:
            found = [Difference(entry, "added", None, new[encoded][1])]
        else:
            found = list(_between_values(entry, old[encoded][1], new[encoded][1]))
        is_reordered = is_reordered and not found
        yield from found
    if is_reordered:
        yield Difference(path, "reordered", before, after)


def _entries_by_key(entries: Any) -> dict[bytes, tuple[Any, Any]] | None:
    """Return the entries of a map by their encoded key; None if a key occurs twice."""
    pairs = entries.pairs if isinstance(entries, AmqpMap) else list(entries.items())
    by_key = {_encoded(key): (key, value) for key, value in pairs}
    return by_key if len(by_key) == len(pairs) else None


def _changed(path: str, before: Any, after: Any) -> Difference:
    if before is None:
        return Difference(path, "added", None, after)
    return Difference(path, "removed" if after is None else "changed", before, after)


def _is_same(before: Any, after: Any) -> bool:
    """Whether two values have the same encoding, and so the same AMQP types."""
    if before is None or after is None:
        return before is after
    if isinstance(before, Malformed) or isinstance(after, Malformed):
        return type(before) is type(after) and before.data == after.data
    return _encoded(before) == _encoded(after)


def _encoded(value: Any) -> bytes:
    writer = kernel.Writer(True)
    writer.value(value)
    encoded: bytes = writer.finish()
    return encoded
