"""Code that several notations use: `NotationError`, its texts, and the sections of a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from amqp10msg.message import Message
from amqp10msg.sections import KIND_BY_CODE, SectionKind
from amqp10msg.sections.parts import parts_of
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import AmqpError, DecodeError, shortened_path
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import HEAD_SIZES, AmqpMap, Array, Described
from amqp10msg.wire.reprs import shortened


class NotationError(AmqpError, ValueError):
    """A document does not follow the rules of its notation.

    Attributes:
        reason: the error text, with the expected and the actual content.
        path: the position of the error in the document, such as ``$[2][1][0]`` or ``$.header.ttl``;
            ``$`` is the whole document.
    """

    __module__ = "amqp10msg.notation"  # the public location, for tracebacks

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{shortened_path(self.path)}: {self.reason}"

    def within(self, step: str) -> NotationError:
        """Insert a step, such as ``[2]`` or ``.header``, at the start of the path; return self.

        Readers call this method at each level of nesting while the error propagates outwards.
        """
        self.path = f"${step}{self.path[1:]}"
        self.args = (self.reason, self.path)
        return self


#: The error text for nesting that exceeds the interpreter's recursion limit.
STACK_EXCEEDED_TEXT = "values are nested too deeply for the interpreter's stack"
#: The maximum nesting depth of values in a document, and the error text for deeper nesting.
MAX_DEPTH = 256
DEPTH_EXCEEDED_TEXT = f"values are nested more than {MAX_DEPTH} deep"


def item_step(index: int) -> str:
    """Return the path step of the item with this index, such as ``[2]``."""
    return f"[{index}]"


def mismatch(expectation: str, actual: object, step: str = "") -> NotationError:
    """Return an error with the text `expectation`, and then "not" and a description of `actual`.

    Args:
        expectation: the beginning of the text, such as "expected a list".
        actual: the value in the document.
        step: the path of the value, relative to the part of the document that the caller reads.
    """
    return NotationError(f"{expectation}, not {describe(actual)}", f"${step}")


def describe(value: object) -> str:
    """Return a short description of a value in terms of JSON, for an error text.

    The cost is bounded, even for large values.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], str):
            return f"a list that begins with {describe(value[0])}"
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object with {', '.join(describe(key) for key in list(value)[:3]) or 'no keys'}"
    if isinstance(value, str):
        return repr(shortened(value, 40))
    if isinstance(value, int):
        # Python refuses to convert an int of millions of digits to text.
        return str(value) if value.bit_length() <= 256 else f"an int of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    return f"a {type(value).__name__}"


def misfit(element: bytes, code: int, *, with_type_name: bool = False) -> str:
    """Return the error text for an array element that does not fit the array's constructor.

    Args:
        element: the element, encoded with its own constructor.
        code: the format code of the array's constructor.
        with_type_name: see `describe_encoded`.
    """
    description = describe_encoded(element, with_type_name=with_type_name)
    return (
        f"{description} does not fit an array of constructor 0x{code:02X}: "
        "build the array from the type's name"
    )


def describe_encoded(octets: bytes, *, with_type_name: bool = False) -> str:
    """Return the repr of an encoded value for an error text, cut at 80 characters.

    Maps are shown as lists of pairs. With `with_type_name`, an array whose constructor is the
    default for its type is shown with the name of the type instead of the constructor.
    """
    return f"{_maps_as_pairs(kernel.decode_value(octets, limits=UNLIMITED), with_type_name)!r:.80}"


def _maps_as_pairs(value: Any, with_type_name: bool) -> Any:
    """Return a value with all dicts, at any depth, replaced by `AmqpMap`."""

    def convert(elements: Any) -> Any:
        return _maps_as_pairs(elements, with_type_name)

    if isinstance(value, (dict, AmqpMap)):
        return AmqpMap((convert(key), convert(item)) for key, item in value.items())
    if isinstance(value, list):
        return list(map(convert, value))
    if isinstance(value, Described):
        return Described(convert(value.descriptor), convert(value.value))
    if isinstance(value, Array) and value.code is not None:
        constructor = (
            value.type if with_type_name and default_code(value) == value.code else value.code
        )
        elements = map(convert, value.values)
        return Array(constructor, elements, descriptors=map(convert, value.descriptors))
    return value


def default_code(value: Array) -> int:
    """Return the format code that the encoder would choose for the elements of an array."""
    octets = kernel.encode_value(Array(value.type, value.values))
    code: int = octets[HEAD_SIZES[octets[0]]]
    return code


class Section(NamedTuple):
    """The position of a section in an encoded message, which may violate the specification.

    Attributes:
        kind: the kind of section; None for a value that is not a section of Part 3.
        start: the offset of the section.
        value_start: the offset of the section's value, after the descriptor; `start` if `kind` is
            None.
        end: the offset after the section.
        is_raw: whether the bytes from `value_start` to `end` are anything but exactly one encoded
            value.
    """

    kind: SectionKind | None
    start: int
    value_start: int
    end: int
    is_raw: bool


def sections_of(octets: bytes) -> Iterator[Section]:
    """Yield the sections of an encoded message in wire order.

    The bytes must have been decoded before, at least leniently.
    """
    reader = kernel.Reader(octets, 0, UNLIMITED)
    for code, start, content, end in parts_of(octets):
        value_start = start if code < 0 else content
        is_raw = False
        reader.pos = value_start
        try:
            reader.value()
        except kernel.READ_FAULTS:
            is_raw = True
            reader.end, reader.depth = len(octets), UNLIMITED.depth
        yield Section(None if code < 0 else KIND_BY_CODE[code], start, value_start, end, is_raw)


def message_of(octets: bytes, *, message_format: int = 0) -> Message:
    """Decode a message, leniently if strict decoding fails.

    Raises:
        NotationError: the bytes are not a sequence of encoded values, because the document has
            other bytes in place of a section.
    """
    for strict in (True, False):
        try:
            return Message.decode(
                octets, limits=UNLIMITED, strict=strict, message_format=message_format
            )
        except DecodeError as error:
            reason = str(error)
    raise NotationError(f"the sections are not a sequence of AMQP values: {reason}")
