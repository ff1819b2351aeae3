"""What the notations have in common: their error, and the sections of messages that break rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from amqp10msg.message import Message
from amqp10msg.sections import KIND_OF, SectionKind
from amqp10msg.sections.parts import parts_of
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import AmqpError, DecodeError, shortened_path
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import HEAD_SIZES, AmqpMap, Array, Described
from amqp10msg.wire.reprs import shortened


class NotationError(AmqpError, ValueError):
    """Something written in a notation is not what the notation requires there.

    Attributes:
        reason: what is there, and what would be right.
        path: where in the notation, ``$`` being the whole: ``$[2][1][0]``, ``$.header.ttl``.
    """

    __module__ = "amqp10msg.notation"  # where users import it from: tracebacks show it

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{shortened_path(self.path)}: {self.reason}"

    def within(self, step: str) -> NotationError:
        """Put a step before the path, which is made on the way out of what was read."""
        self.path = f"${step}{self.path[1:]}"
        self.args = (self.reason, self.path)
        return self


#: Of values that would exceed the recursion limit of the interpreter.
TOO_DEEP = "values are nested too deeply for the interpreter's stack"
#: How deep values may be nested in what is read, and what is said of deeper ones.
MAX_DEPTH = 256
DEEPER = f"values are nested more than {MAX_DEPTH} deep"


def wrong(wanted: str, found: object, step: str = "") -> NotationError:
    """Make the error of something else than what is wanted."""
    return NotationError(f"expected {wanted}, not {shown(found)}", f"${step}")


def shown(value: object) -> str:
    """Show what was found, briefly and in the words of JSON, however large or deep it is."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], str):
            return f"a list that begins with {shown(value[0])}"
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object with {', '.join(shown(key) for key in list(value)[:3]) or 'no keys'}"
    if isinstance(value, str):
        return repr(shortened(value, 40))
    if isinstance(value, int):
        # An int of millions of digits cannot even be printed.
        return str(value) if value.bit_length() <= 256 else f"an int of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    return f"a {type(value).__name__}"


def misfit(element: bytes, code: int, *, named: bool = False) -> str:
    """Say that an element, by its own encoding, does not fit the constructor of its array."""
    return (
        f"{shown_value(element, named=named)} does not fit an array of constructor 0x{code:02X}: "
        "build the array from the type's name"
    )


def shown_value(octets: bytes, *, named: bool = False) -> str:
    """Show an encoded value briefly, each map as its pairs.

    With `named`, arrays have the name of their type instead of the constructor that this takes.
    """
    return f"{_with_pairs(kernel.decode_value(octets, limits=UNLIMITED), named)!r:.80}"


def _with_pairs(value: Any, named: bool) -> Any:
    def within(inner: Any) -> Any:
        return _with_pairs(inner, named)

    if isinstance(value, (dict, AmqpMap)):
        return AmqpMap((within(key), within(item)) for key, item in value.items())
    if isinstance(value, list):
        return list(map(within, value))
    if isinstance(value, Described):
        return Described(within(value.descriptor), within(value.value))
    if isinstance(value, Array) and value.code is not None:
        shown_as = value.type if named and default_code(value) == value.code else value.code
        inner = map(within, value.values)
        return Array(shown_as, inner, descriptors=map(within, value.descriptors))
    return value


def default_code(value: Array) -> int:
    """Return the constructor that an array would be encoded with if it had none of its own."""
    octets = kernel.encode_value(Array(value.type, value.values))
    code: int = octets[HEAD_SIZES[octets[0]]]
    return code


class Section(NamedTuple):
    """Where a section of a message stands, however it breaks rules.

    Attributes:
        kind: None for what is not a section of Part 3.
        start: where it begins.
        value: where its value begins; where the whole does, if it is not a section of Part 3.
        end: where it ends.
        is_raw: its bytes are not exactly a value.
    """

    kind: SectionKind | None
    start: int
    value: int
    end: int
    is_raw: bool


def sections_of(octets: bytes) -> Iterator[Section]:
    """Find the sections of a message that was read, in the order of the wire."""
    reader = kernel.Reader(octets, 0, UNLIMITED)
    for code, start, content, end in parts_of(octets):
        at = start if code < 0 else content
        is_raw = False
        reader.pos = at
        try:
            reader.value()
        except kernel.READ_FAULTS:
            is_raw = True
            reader.end, reader.depth = len(octets), UNLIMITED.depth
        yield Section(None if code < 0 else KIND_OF[code], start, at, end, is_raw)


def message_of(octets: bytes, *, message_format: int = 0) -> Message:
    """Decode a message strictly where that is possible, else leniently.

    Raises:
        DecodeError: the bytes are not a sequence of encoded values.
    """
    try:
        return Message.decode(octets, limits=UNLIMITED, message_format=message_format)
    except DecodeError:
        return Message.decode(octets, limits=UNLIMITED, strict=False, message_format=message_format)
