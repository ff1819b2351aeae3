# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""The typed JSON notation: lossless; every value is paired with the name of its AMQP type.

A value is a list of the name of its type and its content:

=============================== ==================================================================
``["null"]``
``["boolean", true]``
``["uint", 5]``                 and all other integer types; ``timestamp`` in milliseconds
``["float", "7fc00000"]``       and ``double`` and the decimals: the IEEE 754 bits in hex
``["char", 128512]``            the code point
``["string", "text"]``          and ``symbol``
``["binary", "00ff"]``          and ``uuid``: in hex
``["list", [value, …]]``
``["map", [[key, value], …]]``  in wire order
``["array", "71", [value, …]]`` the format code of the element constructor, in hex; a fourth item,
                                if the elements are described: the list of the descriptors,
                                outermost first
``["described", value, value]`` the descriptor, then the described value
=============================== ==================================================================

A message is a list of its sections in wire order, each ``[name, content]``:

=========================================== ======================================================
header, properties                          a list of values, one for each encoded field
the three annotations, footer,
application-properties                      a list of ``[key, value]`` pairs
data                                        hex
amqp-sequence                               a list of values
amqp-value                                  a value
=========================================== ======================================================

Leniently decoded messages need further forms. The content of a section of Part 3 with a value of
the wrong type is that value with its type: ``["header", ["map", []]]``. This is unambiguous,
because regular content never begins with the name of a type. A value that is not a section of Part
3 is ``["unknown", value]``. A section whose bytes are not exactly one value (invalid UTF-8, a map
with a duplicate key, an empty array without constructor) is ``["raw", hex]`` with its bytes.

The notation keeps values and types. Of the encoding, it keeps only the constructor of an array. It
does not include the message-format.
"""

from __future__ import annotations

from typing import Any

from amqp10msg.message import Message
from amqp10msg.notation._common import (
    DEPTH_EXCEEDED_TEXT,
    STACK_EXCEEDED_TEXT,
    NotationError,
    item_step,
    message_of,
    misfit,
    mismatch,
    sections_of,
)
from amqp10msg.notation.type_names import BIT_PATTERN_WIDTHS, TYPE_NAME_BY_CLASS, integer_range
from amqp10msg.sections import KINDS
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.kernel.codes import (
    KIND_ARRAY,
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_CHAR,
    KIND_DESCRIBED,
    KIND_LIST,
    KIND_LONG,
    KIND_MAP,
    KIND_NULL,
    KIND_OF_FORMAT_CODE,
    KIND_OF_TYPE_NAME,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    TYPE_NAME_OF_KIND,
)
from amqp10msg.wire.kernel.value_reader import ValueReader, decode_value
from amqp10msg.wire.kernel.value_writer import ValueWriter
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import FORMAT_CODES, INTEGERS

#: Names of the AMQP types, by format code.
_TYPE_NAME_BY_CODE = [TYPE_NAME_OF_KIND.get(kind, "") for kind in KIND_OF_FORMAT_CODE]
_TYPE_NAME_BY_CODE[0] = "described"
#: Widths in bytes of the types that are written as bit patterns, by format code; 0 for other types.
_PATTERN_WIDTHS = bytes([BIT_PATTERN_WIDTHS.get(name, 0) for name in _TYPE_NAME_BY_CODE])
#: The kernel's kind numbers, by type name.
_KIND_BY_TYPE_NAME = {name: KIND_OF_TYPE_NAME[name] for name in TYPE_NAME_BY_CLASS.values()}
#: Format codes of the types that are written as bit patterns, by kind number.
_PATTERN_CODE_BY_KIND = {
    KIND_OF_TYPE_NAME[row.type]: row.code
    for row in FORMAT_CODES.values()
    if row.type in BIT_PATTERN_WIDTHS
}

#: The descriptor code of the first section.
_FIRST_SECTION_CODE = KINDS[0].code
# For each section, by descriptor code minus `_FIRST_SECTION_CODE`: its name, the type of its value
# (`*` for any) and its encoded descriptor.
_SECTION_NAMES = [kind.name for kind in KINDS]
_SECTION_VALUE_TYPES = [kind.source for kind in KINDS]
# The kind number of the type of a section's value; KIND_NULL for any type.
_SECTION_VALUE_KINDS = bytes(
    [KIND_OF_TYPE_NAME.get(source, KIND_NULL) for source in _SECTION_VALUE_TYPES]
)
_SECTION_INDEXES = {name: index for index, name in enumerate(_SECTION_NAMES)}
_SECTION_DESCRIPTORS = [b"\x00\x53" + bytes((kind.code,)) for kind in KINDS]


# Writing.


def to_typed(value: Any) -> list[Any]:
    """Return a message or a value as typed JSON.

    Args:
        value: a `Message`, or a value, section or composite that `encode_value` accepts. A
            composite is written as ``["described", ["ulong", code], ["list", […]]]``.

    Raises:
        EncodeError: the value has no AMQP type, or is out of its range.
    """
    try:
        if isinstance(value, Message):
            document: list[Any] = typed_of(value.encode(), True, value._lenient)
        else:
            document = typed_of(encode_value(value), False, False)
    except RecursionError:
        raise EncodeError(STACK_EXCEEDED_TEXT) from None
    return document


def typed_of(octets: bytes, is_message: bool, is_lenient: bool) -> Any:
    """Return the typed JSON of an encoded message or value.

    Args:
        octets: the encoded message or value.
        is_message: whether `octets` is a message.
        is_lenient: whether the message was decoded leniently.
    """
    reader = TypedReader.__new__(TypedReader)
    reader.begin(octets, 0, UNLIMITED)
    if not is_message:
        return reader.typed()
    # Sections of a leniently decoded message may contain bytes that are not exactly one value.
    converted = None if is_lenient else reader.sections()
    return reader.lenient_sections() if converted is None else converted


class TypedReader(ValueReader):
    """Converts encoded AMQP values, which were decoded before, to typed JSON."""

    def typed(self) -> Any:
        """Convert one value."""
        pos = self.pos
        if pos >= self.end:
            raise self.truncated_error(pos, 1)
        self.pos = pos + 1
        return self.content(self.buf[pos])

    def content(self, code: int) -> Any:
        """Convert a value whose format code was read."""
        name = _TYPE_NAME_BY_CODE[code]
        kind = KIND_OF_FORMAT_CODE[code]
        if kind == KIND_STRING:
            return [name, self.read(code)]
        if KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
            return [name, self.number(code)]
        if kind == KIND_SYMBOL:
            pos = self.span(code)
            return [name, self.buf[pos : self.pos].decode("ascii")]
        if kind == KIND_NULL:
            return [name]
        if kind == KIND_BOOLEAN:
            return [name, self.read(code)]
        width = _PATTERN_WIDTHS[code]
        if width:
            pos = self.advance(width)
            return [name, self.buf[pos : self.pos].hex()]
        # Not through `bare`: one frame less per level of nesting.
        if kind == KIND_LIST and code != 0x45:
            return [name, self.typed_list(code)]
        if kind == KIND_MAP:
            return [name, self.typed_map(code)]
        if kind in (KIND_BINARY, KIND_LIST):
            return [name, self.bare(code, kind)]
        if code == 0:
            self.enter(self.pos)
            described = [name, self.typed(), self.typed()]
            self.depth += 1
            return described
        if kind == KIND_CHAR:
            return [name, ord(self.read(code))]
        return self.typed_array(code)

    def bare(self, code: int, kind: int) -> Any:
        """Convert a binary, list or map whose format code was read, without its type's name."""
        if kind == KIND_LIST:
            return [] if code == 0x45 else self.typed_list(code)
        if kind == KIND_MAP:
            return self.typed_map(code)
        pos = self.span(code)
        return self.buf[pos : self.pos].hex()

    def typed_list(self, code: int) -> Any:
        """Convert the values of a list."""
        outer = self.descend(code)
        count = self.count
        values: list[Any] = [None] * count
        for i in range(count):
            values[i] = self.typed()
        self.ascend(outer)
        return values

    def typed_map(self, code: int) -> Any:
        """Convert the pairs of a map."""
        outer = self.descend(code)
        count = self.count >> 1
        pairs: list[Any] = [None] * count
        for i in range(count):
            key = self.typed()
            pairs[i] = [key, self.typed()]
        self.ascend(outer)
        return pairs

    def typed_array(self, code: int) -> Any:
        """Convert an array."""
        self.enter(self.pos)
        pos = self.span(code)
        stop = self.pos
        count = self.buf[pos] if code == 0xE0 else self.u32(pos)
        self.pos = pos + (1 if code == 0xE0 else 4)
        descriptors = []
        code = self.buf[self.advance(1)]
        while code == 0:
            descriptors.append(self.typed())
            code = self.buf[self.advance(1)]
        array = ["array", f"{code:02x}", [self.content(code) for _ in range(count)]]
        if descriptors:
            array.append(descriptors)
        self.pos = stop
        self.depth += 1
        return array

    def sections(self) -> Any:
        """Convert the sections of a message; return None if a descriptor is not a section code."""
        converted = []
        while self.pos < self.end:
            index = self.descriptor() - _FIRST_SECTION_CODE
            if not 0 <= index < len(_SECTION_NAMES):
                return None
            converted.append(self.section(index))
        return converted

    def section(self, index: int) -> Any:
        """Convert the value of the section `_SECTION_NAMES[index]`; return ``[name, content]``."""
        pos = self.pos
        kind = KIND_OF_FORMAT_CODE[self.buf[pos]] if pos < self.end else KIND_NULL
        if kind != _SECTION_VALUE_KINDS[index] or kind == KIND_NULL:
            return [_SECTION_NAMES[index], self.typed()]
        self.pos = pos + 1
        return [_SECTION_NAMES[index], self.bare(self.buf[pos], kind)]

    def lenient_sections(self) -> Any:
        """Convert to typed JSON the sections of a message that may violate the specification."""
        converted = []
        for section in sections_of(self.buf):
            if section.is_raw:
                converted.append(["raw", self.buf[section.start : section.end].hex()])
                continue
            self.pos = section.value_start
            if section.kind is None:
                converted.append(["unknown", self.typed()])
            else:
                converted.append(self.section(section.kind.code - _FIRST_SECTION_CODE))
        return converted


# Reading.


def from_typed(typed: Any) -> Any:
    """Read typed JSON: a list of sections as a `Message`, or a value as `decode_value` returns it.

    A message that `Message.decode` rejects is decoded with ``strict=False``, and has `violations`.
    If the last item of a value is an object, it is a remark that is ignored:
    ``["boolean", false, {"code": "56"}]``.

    Args:
        typed: a document as `to_typed` returns it, or as parsed by ``json.loads``. An empty list is
            a message without sections.

    Raises:
        NotationError: the document is not typed JSON, or the bytes of ``raw`` sections are not a
            sequence of encoded values. The error contains the path.
    """
    if not isinstance(typed, list) or (typed and not isinstance(typed[0], (str, list))):
        raise mismatch(
            'expected a value such as ["uint", 5] or a list of sections such as ["data", "00ff"]',
            typed,
        )
    try:
        if typed and isinstance(typed[0], str):
            return decode_value(bytes_of_value(typed), limits=UNLIMITED)
        octets = bytes_of_sections(typed)
    except RecursionError:
        raise NotationError(STACK_EXCEEDED_TEXT) from None
    return message_of(octets)


def bytes_of_value(typed: Any) -> bytes:
    """Return the AMQP encoding of a value in typed JSON."""
    writer = _writer(0, False)
    try:
        writer.item(typed)
        if writer.has_misfit:
            writer = _writer(0, True)
            writer.item(typed)
    except ValueError as error:
        raise _fault(error, typed, "") from None
    return writer.finish()  # type: ignore[no-any-return]  # the kernel returns Any


def bytes_of_sections(typed: Any) -> bytes:
    """Return the AMQP encoding of a message in typed JSON."""
    writer = _writer(0, False)
    index = 0
    try:
        for index in range(len(typed)):
            writer.section(typed[index])
            if writer.has_misfit:
                _writer(0, True).section(typed[index])
    except ValueError as error:
        raise _fault(error, typed[index], item_step(index)) from None
    return writer.finish()  # type: ignore[no-any-return]  # the kernel returns Any


def _writer(depth: int, names_misfits: bool) -> Any:
    """Return a new `TypedWriter` that starts at this nesting depth."""
    writer = TypedWriter.__new__(TypedWriter)
    writer.depth = depth
    writer.has_misfit = False
    writer.names_misfits = names_misfits
    return writer


class TypedWriter(ValueWriter):
    """Encodes typed JSON.

    An error in the document is raised as a ValueError without text, which `_fault` replaces by a
    `NotationError` that explains it. An array element that does not fit the array's constructor (a
    misfit) is reported only if there is no other error: a first writer sets `has_misfit`; then a
    second writer with `names_misfits` encodes the same value, and raises the error at the array.
    """

    has_misfit: bool
    """Whether an array element did not fit the constructor."""
    names_misfits: bool
    """Whether to raise NotationError for an array element that does not fit the constructor."""

    def item(self, typed: Any) -> None:
        """Encode one value."""
        if not isinstance(typed, list) or not typed or not isinstance(typed[0], str):
            raise ValueError
        kind = _KIND_BY_TYPE_NAME.get(typed[0], 0)
        size = len(typed)
        if size > 1 and isinstance(typed[size - 1], dict):
            size -= 1
        if size == 2:
            content = typed[1]
            if kind == KIND_STRING and isinstance(content, str):
                if type(content) is str:
                    self.string(content)
                else:
                    self.value(content)
                return
            if KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
                if isinstance(content, int) and not isinstance(content, bool):
                    self.integer(kind, content)
                    return
            elif kind == KIND_SYMBOL and isinstance(content, str):
                self.symbol(content)
                return
            elif kind == KIND_BOOLEAN and isinstance(content, bool):
                self.octet(0x41 if content else 0x42)
                return
            elif kind == KIND_BINARY:
                self.text(_from_hex(content), 0xA0)
                return
            elif kind == KIND_LIST:
                self.items(content)
                return
            elif kind == KIND_MAP:
                self.entries(content)
                return
            elif kind == KIND_CHAR and isinstance(content, int) and not isinstance(content, bool):
                if 0 <= content <= 0x10FFFF and not 0xD800 <= content <= 0xDFFF:
                    self.write_rare(KIND_CHAR, chr(content))
                    return
            else:
                code = _PATTERN_CODE_BY_KIND.get(kind, 0)
                octets = _from_hex(content)
                if code and len(octets) == _PATTERN_WIDTHS[code]:
                    self.octet(code)
                    self.add(octets)
                    return
        elif size == 1 and kind == KIND_NULL:
            self.octet(0x40)
            return
        elif size == 3 and kind == KIND_DESCRIBED:
            self.described(typed)
            return
        elif kind == KIND_ARRAY and 3 <= size <= 4:
            self.array(typed, size)
            return
        raise ValueError

    def described(self, typed: Any) -> None:
        """Encode a described value."""
        self.enter()
        self.octet(0)
        index = 1
        try:
            for index in range(1, 3):
                self.item(typed[index])
        except ValueError as error:
            raise _fault(error, typed[index], item_step(index)) from None
        self.depth -= 1

    def items(self, typed: Any) -> None:
        """Encode a list."""
        if isinstance(typed, list) and not typed:
            self.octet(0x45)
            return
        mark = self.open()
        self.values(typed, "[1]", False)
        self.close(mark, 0xC0, len(typed))

    def values(self, typed: Any, step: str, described: bool) -> None:
        """Encode the values of a list one after the other.

        Args:
            typed: the list.
            step: the path of the list, for errors.
            described: whether the values are descriptors, each of which needs 0x00 before it.
        """
        if not isinstance(typed, list):
            raise mismatch("expected a list of values", typed, step)
        index = 0
        try:
            for index in range(len(typed)):
                if described:
                    self.octet(0)
                self.item(typed[index])
        except ValueError as error:
            raise _fault(error, typed[index], step + item_step(index)) from None

    def entries(self, typed: Any) -> None:
        """Encode a map."""
        mark = self.open()
        if not isinstance(typed, list):
            raise mismatch("expected a list of [key, value] pairs", typed, "[1]")
        earlier_keys = set()
        # The type of the first key that is a string or symbol. Keys of this type are compared as
        # text, which is faster than comparing encoded keys.
        text_type = None
        index = side = 0  # side: -1 for the pair, 0 for its key, 1 for its value
        try:
            for index in range(len(typed)):
                pair = typed[index]
                side = -1
                if not isinstance(pair, list) or len(pair) != 2:
                    raise mismatch("expected a [key, value] pair", pair)
                side = 0
                key = pair[0]
                if isinstance(key, list) and len(key) > 1 and isinstance(key[1], str):
                    if text_type is None and (key[0] == "string" or key[0] == "symbol"):
                        text_type = key[0]
                    if key[0] == text_type:
                        self.item(key)
                        earlier_keys.add(key[1])
                    else:
                        self.key(key, earlier_keys)
                else:
                    self.key(key, earlier_keys)
                if len(earlier_keys) <= index:
                    raise NotationError("duplicate map key")
                side = 1
                self.item(pair[1])
        except ValueError as error:
            step = f"[1][{index}]" if side < 0 else f"[1][{index}][{side}]"
            raise _fault(error, typed[index] if side < 0 else typed[index][side], step) from None
        self.close(mark, 0xC1, 2 * len(typed))

    def key(self, typed: Any, earlier_keys: Any) -> None:
        """Encode a map key, and add its encoding to `earlier_keys`."""
        writer = _writer(self.depth, False)
        writer.item(typed)
        if writer.has_misfit:
            writer = _writer(self.depth, True)
            writer.item(typed)
        octets = writer.finish()
        earlier_keys.add(octets)
        self.add(octets)

    def array(self, typed: Any, size: int) -> None:
        """Encode an array."""
        mark = self.open()
        code = _code_of(typed[1])
        elements = self.elements(typed[2], code)
        body = _writer(self.depth, False)
        unfit = -1
        for index in range(len(elements)):
            if not body.element(code, elements[index]):
                unfit = index
                break
        if size == 4:
            self.values(typed[size - 1], "[3]", True)
        if unfit >= 0:
            if self.names_misfits:
                raise NotationError(misfit(elements[unfit], code))
            self.has_misfit = True
        self.octet(code)
        self.add(body.finish())
        self.close(mark, 0xE0, len(elements))

    def elements(self, typed: Any, code: int) -> Any:
        """Return the elements of an array, each encoded with its own constructor."""
        if not isinstance(typed, list):
            raise mismatch("expected a list of values", typed, "[2]")
        encoded_elements = []
        index = 0
        try:
            for index in range(len(typed)):
                writer = _writer(self.depth, self.names_misfits)
                writer.item(typed[index])
                encoded_elements.append(writer.finish())
                if writer.has_misfit:
                    self.has_misfit = True
        except ValueError as error:
            raise _fault(error, typed[index], "[2]" + item_step(index)) from None
        name = _TYPE_NAME_BY_CODE[code]
        for index in range(len(typed)):
            if typed[index][0] != name:
                expectation = f"expected {name}, the type of the array's constructor {code:02x}"
                raise mismatch(expectation, typed[index], "[2]" + item_step(index))
        return encoded_elements

    def section(self, typed: Any) -> None:
        """Encode a section."""
        if not isinstance(typed, list) or not typed or not isinstance(typed[0], str):
            raise mismatch('expected a section such as ["data", "00ff"]', typed)
        name = typed[0]
        if len(typed) != 2 and not (len(typed) == 3 and isinstance(typed[2], dict)):
            raise mismatch("expected a section's name and its content", typed)
        content = typed[1]
        index = _SECTION_INDEXES.get(name, -1)
        source = ""
        if index >= 0:
            source = _SECTION_VALUE_TYPES[index]
            self.add(_SECTION_DESCRIPTORS[index])
        elif name == "raw":
            self.add(_section_from_hex(content))
            return
        elif name != "unknown":
            raise mismatch(
                f"expected a section, one of {', '.join(_SECTION_NAMES)}, unknown, raw", name, "[0]"
            )
        if source == "binary" and isinstance(content, str):
            self.text(_section_from_hex(content), 0xA0)
            return
        # A value begins with the name of its type; regular content never begins with a string.
        is_value = isinstance(content, list) and content and isinstance(content[0], str)
        if source == "list" and not is_value:
            self.items(content)
            return
        if source == "map" and not is_value:
            self.entries(content)
            return
        try:
            self.item(content)
        except ValueError as error:
            raise _fault(error, content, "[1]") from None


def _from_hex(text: Any) -> bytes:
    """Return the bytes of hex digits without spaces; raise ValueError for anything else."""
    if isinstance(text, str):
        octets = bytes.fromhex(text)
        if 2 * len(octets) == len(text):  # fromhex ignores spaces
            return octets
    raise ValueError


def _section_from_hex(content: Any) -> bytes:
    """Return the bytes of a section's content, which must be hex digits."""
    try:
        return _from_hex(content)
    except ValueError:
        raise mismatch("expected hex", content, "[1]") from None


def _code_of(typed: Any) -> int:
    """Parse the constructor of an array, a format code in hex."""
    try:
        (code,) = _from_hex(typed)
    except ValueError:
        raise mismatch("expected a format code in 2 hex digits, such as a3", typed, "[1]") from None
    if KIND_OF_FORMAT_CODE[code] == 0:
        raise mismatch("expected a format code of Part 1, 1.6, such as a3", typed, "[1]")
    return code


def _fault(error: Any, typed: Any, step: str) -> NotationError:
    """Return the NotationError for an error in the value `typed`, whose relative path is `step`.

    An `error` that is another ValueError is replaced by a NotationError that explains it.
    """
    if not isinstance(error, NotationError):
        error = _value_error(typed)
    return error.within(step)  # type: ignore[no-any-return]  # the kernel returns Any


# Number of items in the JSON list of a value, such as ["uint", 5], by type name; 2 for all other
# types.
_JSON_LIST_LENGTH_BY_TYPE = {"null": 1, "array": 3, "described": 3}


def _value_error(typed: Any) -> NotationError:
    """Return the error for a value that is wrong itself, rather than a value inside it."""
    if not isinstance(typed, list) or not typed or not isinstance(typed[0], str):
        return mismatch('expected a value such as ["uint", 5]', typed)
    name = typed[0]
    if name not in _KIND_BY_TYPE_NAME:
        return mismatch(
            f"expected the name of a type, one of {', '.join(_KIND_BY_TYPE_NAME)}", name, "[0]"
        )
    count = len(typed) - (isinstance(typed[len(typed) - 1], dict) and len(typed) > 1)
    expected_count = _JSON_LIST_LENGTH_BY_TYPE.get(name, 2)
    if count != expected_count and not (name == "array" and count == 4):
        if len(typed) != 2 or count == 2:
            return NotationError(f"expected {expected_count} items for {name}, not {count}")
        if name in ("string", "symbol") and "hex" in typed[1]:
            return NotationError(
                f"a {name} cannot hold bytes that are not valid text: use binary", "$[1]"
            )
        return mismatch(f"expected the content of a {name}", typed[1], "[1]")
    if name in ("list", "map", "array", "described"):
        return NotationError(DEPTH_EXCEEDED_TEXT)
    item = typed[1]
    if name == "boolean":
        return mismatch("expected true or false", item, "[1]")
    if name in INTEGERS or name in ("long", "char"):
        if isinstance(item, bool) or not isinstance(item, int):
            return mismatch(f"expected an integer for {name}", item, "[1]")
        if name == "char":
            return mismatch("expected a Unicode code point that is not a surrogate", item, "[1]")
        low, high, _ = integer_range(name)
        return mismatch(f"expected {low} to {high} for {name}", item, "[1]")
    if name in BIT_PATTERN_WIDTHS:
        return mismatch(f"expected {2 * BIT_PATTERN_WIDTHS[name]} hex digits", item, "[1]")
    if name == "binary":
        return mismatch("expected hex", item, "[1]")
    if not isinstance(item, str):
        return mismatch(f"expected the text of a {name}", item, "[1]")
    try:
        item.encode("utf-8" if name == "string" else "ascii")
    except UnicodeEncodeError as error:
        char = f"U+{ord(item[error.start]):04X}"
        reason = "which UTF-8 cannot encode" if name == "string" else "which is not ASCII"
        return NotationError(f"the text of a {name} holds {char}, {reason}", "$[1]")
    return mismatch(f"expected a {name} that AMQP can represent", item, "[1]")
