"""Read single fields of encoded messages without decoding the whole message: `Picker`."""

from __future__ import annotations

from typing import Any

from amqp10msg.sections import KINDS, SPECS
from amqp10msg.sections.paths import Path, path_of
from amqp10msg.wire import kernel
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.primitives import ULong

__all__ = ["Picker"]


class Picker(kernel.Picks):
    """Reads a few values of encoded messages without decoding whole messages.

        pick = Picker("properties.message_id", "application_properties.tenant")
        message_id, tenant = pick(data)

    Call a picker with an encoded message: bytes, or a bytearray or memoryview, which is copied. It
    returns a tuple of the values that `Message.decode` would return, in the order of the paths. A
    missing value is None, or the default of its path. A field that a present header omits has the
    default of Part 3, 3.2.1. An entry with the value null is None.

    Paths have the notation of errors and violations, with dashes or underscores: ``header.ttl``,
    ``properties.message_id``, ``application_properties.tenant``,
    ``message_annotations['x-opt-trace']`` (in brackets, a string is quoted and a number is a
    ulong). The name of a section, such as ``header``, is the path of the whole section. ``body`` is
    `Message.value`; for several data sections it is their joined bytes, for several sequences all
    of their values.

    The picked values are checked as in decoding. The rest of the message is checked as little as in
    `scan`: it must be a sequence of encoded values, but malformed contents and a wrong order or
    number of sections are not detected. In the header and the properties, the fields before a
    picked field are skipped by their sizes. In a map, all values that are not picked are skipped,
    and the types of all keys are checked. A duplicate of a picked section or entry is an error, and
    so are body sections of different kinds. So a valid message always returns its values, and an
    invalid message may return values or raise DecodeError.

    Args:
        fields: paths, or tuples of a path and its default.
        limits: the limits of reading one message; None for the defaults of `Limits`.

    Attributes:
        paths: the paths, in the order of the result.
        defaults: the results for missing values, in the same order.

    Raises:
        ValueError: a path names an unknown section or field, or a key that the section cannot have;
            a path occurs twice; or both a section and a value inside it are picked.
        DecodeError: raised by a call of the picker, for the errors explained above.
    """

    __slots__ = ("paths",)

    def __init__(self, *fields: str | tuple[str, Any], limits: Limits | None = None) -> None:
        pairs = [field if isinstance(field, tuple) else (field, None) for field in fields]
        paths = [path_of(text) for text, _ in pairs]
        check_paths(paths)
        body_position = -1
        plans: list[kernel.SectionPlan | None] = [None] * len(KINDS)
        by_section: dict[int, list[tuple[int, Path]]] = {}
        for position, path in enumerate(paths):
            if path.kind is None:
                body_position = position
            else:
                by_section.setdefault(KINDS.index(path.kind), []).append((position, path))
        for index, positions in by_section.items():
            plans[index] = _section_plan(index, positions)
        self.paths = tuple(path.text for path in paths)
        super().__init__(
            plans,
            tuple(default for _, default in pairs),
            body_position,
            DEFAULT_LIMITS if limits is None else limits,
        )

    def __repr__(self) -> str:
        fields = (
            repr(path) if default is None else repr((path, default))
            for path, default in zip(self.paths, self.defaults, strict=True)
        )
        return f"Picker({', '.join(fields)})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_unpickle, (tuple(zip(self.paths, self.defaults, strict=True)), self.limits))


def check_paths(paths: list[Path]) -> None:
    """Raise ValueError if two paths overlap.

    Raises:
        ValueError: a path occurs twice, or both a section and a value inside it occur.
    """
    earlier_paths: dict[Any, Path] = {}
    for path in paths:
        section = None if path.kind is None else path.kind.code
        in_section = [earlier for (code, *_), earlier in earlier_paths.items() if code == section]
        overlaps = [earlier for earlier in in_section if path.is_whole or earlier.is_whole]
        same = earlier_paths.get((section, path.index, path.key))
        if overlaps or same:
            earlier = same or overlaps[0]
            raise ValueError(f"{path.text!r} and {earlier.text!r} overlap: use one of them")
        earlier_paths[section, path.index, path.key] = path


def _unpickle(fields: tuple[tuple[str, Any], ...], limits: Limits) -> Picker:
    """Create a picker for pickle, which cannot pass the keyword argument `limits` to the class."""
    return Picker(*fields, limits=limits)


def _section_plan(index: int, parts: list[tuple[int, Path]]) -> kernel.SectionPlan:
    """Return the kernel's plan for reading a section.

    Args:
        index: the index of the section in `KINDS`.
        parts: the paths in the section, each with its position in the result.
    """
    fields = [-1] * (1 + max(path.index for _, path in parts))
    keys: dict[bytes, int] = {}
    numbers: dict[int, int] = {}
    whole = -1
    for position, path in parts:
        if path.is_whole:
            whole = position
        elif path.index >= 0:
            fields[path.index] = position
        elif isinstance(path.key, ULong):
            numbers[path.key] = position
        else:
            keys[path.key.encode()] = position
    for field in reversed(range(len(fields) - 1)):
        if fields[field] < 0:
            # A negative number means fields to skip: -n is n consecutive fields.
            fields[field] = min(fields[field + 1], 0) - 1
    return kernel.SectionPlan(SPECS[index], whole, fields, keys, numbers)
