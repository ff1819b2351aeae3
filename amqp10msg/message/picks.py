"""Fields of encoded messages, read without making a message: `Picker`."""

from __future__ import annotations

from typing import Any

from amqp10msg.sections import KINDS, SPECS
from amqp10msg.sections.paths import Path, path_of
from amqp10msg.wire import kernel
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.primitives import ULong

__all__ = ["Picker"]


class Picker(kernel.Picks):
    """Reads a few values of encoded messages, without the rest of them.

        pick = Picker("properties.message_id", "application_properties.tenant")
        message_id, tenant = pick(data)

    A call takes an encoded message (bytes, bytearray or memoryview; anything but bytes is copied
    once) and returns a tuple of values, as `Message.decode` gives them, in the order of the paths.
    An absent value is None, or the default of its path; a field of the header that is left out has
    the default of Part 3, 3.2.1 where there is a header. An entry that is null is None.

    A path is written as errors and violations write it, with dashes or underscores:
    ``header.ttl``, ``properties.message_id``, ``application_properties.tenant``,
    ``message_annotations['x-opt-trace']`` (in brackets, a text is quoted and a number is a ulong).
    ``header`` and other names of sections alone give the section. ``body`` gives what
    `Message.value` does, of several data sections the joined bytes and of several sequences all of
    their values.

    Of what was not asked for, as little is checked as by `scan`: the bytes are a sequence of
    encoded values, but what is inside of them may be malformed, and their order and number are not
    judged. What was asked for is checked as decoding does. Of header and properties, fields before
    the last one that was asked for are passed over by their sizes. Of a section that is a map all
    values are passed over so, and types of keys are checked. A section, or an entry, that was asked
    for and stands twice is an error, as are different kinds of body. So a message that decodes
    gives what it holds; one that does not decode may give values, too.

    Args:
        fields: each a path, or a tuple of a path and its default.
        limits: what reading one message may cost; the defaults of `Limits` where None.

    Attributes:
        paths: the paths as they were given, in the order of the result.
        defaults: what stands for absent values, in the same order.

    Raises:
        ValueError: there is no such section or field, a key cannot be one, or a path is named
            twice, or beside its section.
        DecodeError: by a call, as said above.
    """

    __slots__ = ("paths",)

    def __init__(self, *fields: str | tuple[str, Any], limits: Limits | None = None) -> None:
        given = [field if isinstance(field, tuple) else (field, None) for field in fields]
        found = [path_of(text) for text, _ in given]
        check_paths(found)
        body = -1
        wanted: list[kernel.Wanted | None] = [None] * len(KINDS)
        places: dict[int, list[tuple[int, Path]]] = {}
        for place, path in enumerate(found):
            if path.kind is None:
                body = place
            else:
                places.setdefault(KINDS.index(path.kind), []).append((place, path))
        for index, parts in places.items():
            wanted[index] = _wanted(index, parts)
        self.paths = tuple(path.text for path in found)
        super().__init__(
            wanted,
            tuple(default for _, default in given),
            body,
            DEFAULT_LIMITS if limits is None else limits,
        )

    def __repr__(self) -> str:
        shown = (
            repr(path) if default is None else repr((path, default))
            for path, default in zip(self.paths, self.defaults, strict=True)
        )
        return f"Picker({', '.join(shown)})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (tuple(zip(self.paths, self.defaults, strict=True)), self.limits))


def check_paths(paths: list[Path]) -> None:
    """Refuse what is named twice: a field or entry, also beside its whole section.

    Raises:
        ValueError: it is.
    """
    seen: dict[Any, Path] = {}
    for path in paths:
        section = None if path.kind is None else path.kind.code
        others = [known for (code, *_), known in seen.items() if code == section]
        twice = [known for known in others if path.is_whole or known.is_whole]
        same = seen.get((section, path.index, path.key))
        if twice or same:
            raise ValueError(f"{path.text!r} is named twice: {(same or twice[0]).text!r} holds it")
        seen[section, path.index, path.key] = path


def _rebuild(fields: tuple[tuple[str, Any], ...], limits: Limits) -> Picker:
    return Picker(*fields, limits=limits)


def _wanted(index: int, parts: list[tuple[int, Path]]) -> kernel.Wanted:
    """Return the plan of a section for the kernel: paths with their places in the result."""
    fields = [-1] * (1 + max(path.index for _, path in parts))
    keys: dict[bytes, int] = {}
    numbers: dict[int, int] = {}
    whole = -1
    for place, path in parts:
        if path.is_whole:
            whole = place
        elif path.index >= 0:
            fields[path.index] = place
        elif isinstance(path.key, ULong):
            numbers[path.key] = place
        else:
            keys[path.key.encode()] = place
    for field in reversed(range(len(fields) - 1)):
        if fields[field] < 0:
            # As many as are not wanted in a row.
            fields[field] = min(fields[field + 1], 0) - 1
    return kernel.Wanted(SPECS[index], whole, fields, keys, numbers)
