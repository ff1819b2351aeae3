"""The class `Message`: an annotated message (Part 3, 3.2).

A decoded message keeps its original bytes, and `encode` reuses the bytes of every section that has
not changed. To find out, `encode` encodes each section again. The section is unchanged if the
result equals the original bytes, or equals the result for a section decoded from the original
bytes. This comparison also detects a changed entry of a mapping, and a value of which only the AMQP
type has changed.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    Self,
    TypeVar,
    Unpack,
    overload,
)

import attrs

from amqp10msg.message._adapters import (
    compress_body,
    convert_json,
    convert_value,
    decompress_body,
    parse_json,
)
from amqp10msg.message._encoding import (
    BODY_SPECS,
    SECTION_KINDS,
    Body,
    body_parts,
    body_sections,
    encode_changes,
    parts_of_attributes,
    to_body,
    write,
)
from amqp10msg.message._flat import (
    CHARSET,
    SECTION_OF_FIELD,
    SECTIONS,
    FlatArguments,
    Identifier,
    constructor_call,
    expand,
)
from amqp10msg.message.templates import TemplatePlan
from amqp10msg.sections import (
    BARE_CODES,
    KIND_BY_CODE,
    SPEC_BY_CODE,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
)
from amqp10msg.sections.parts import (
    Malformed,
    entry_of,
    octets_of_sections,
    parts_of,
    read_message,
    value_at,
)
from amqp10msg.validation import Violation, first_fault, validate
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import ContentError, EncodeError, as_bytes, compression_of, expect
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import AmqpMap, Timestamp, plain
from amqp10msg.wire.reprs import Text, html_table, short_repr

if TYPE_CHECKING:
    from amqp10msg.wire.codings import Coding

__all__ = ["Body", "Message", "MessageChanges", "Template"]

_T = TypeVar("_T")


class Shortcut(Generic[_T]):
    """A read-only attribute of a message that reads one field of its header or properties.

    The attribute is None if the section or the field is missing.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        """Find the section that declares the field `name`."""
        self.name = name
        self.section, _ = SECTION_OF_FIELD[name]
        self.__doc__ = f"``{self.section}.{name}``, or None if it is missing."

    @overload
    def __get__(self, message: None, owner: type) -> Self: ...

    @overload
    def __get__(self, message: Message, owner: type) -> _T | None: ...

    def __get__(self, message: Message | None, owner: type) -> Self | _T | None:
        """Return the value of the field."""
        if message is None:
            return self
        # After lenient decoding, the section may be an AmqpMap, which has no attribute for a field.
        value: _T | None = getattr(getattr(message, self.section), self.name, None)
        return value

    if not TYPE_CHECKING:  # type checkers would allow the assignment

        def __set__(self, message: Message, value: Any) -> NoReturn:
            """Raise an AttributeError with the assignment to write instead."""
            call = constructor_call(SECTION_OF_FIELD[self.name][1], {self.name: value})
            raise AttributeError(
                f"message.{self.name} is read-only: set message.{self.section}.{self.name}, or if "
                f"the message has no {self.section}, message.{self.section} = {call}"
            )


class MessageChanges(FlatArguments, total=False):
    """The keyword arguments of `Message.evolve`. `Message` has the same arguments."""

    body: Any
    header: Header | None
    delivery_annotations: Mapping[Any, Any] | None
    message_annotations: Mapping[Any, Any] | None
    properties: Properties | None
    application_properties: Mapping[str, Any] | None
    footer: Mapping[Any, Any] | None
    message_format: int


@attrs.define(eq=False, repr=False, init=False, weakref_slot=False)
class Message(kernel.Record):
    """An annotated message (Part 3, 3.2): up to seven sections, and None for a missing one.

        Message(json={"id": 7}, subject="order.created", durable=True, message_id="m-1")
        Message(body=Data(b"..."), properties=Properties(message_id="m-1"))
        Message(body={"a": 1}, application_properties={"tenant": "x"})

    Each field of the header and the properties is an argument, in place of its section. ``json``,
    ``text`` and ``data`` set a body of bytes. The default content-type is ``application/json`` for
    ``json``, and ``text/plain; charset=utf-8`` for ``text``; ``data`` has none. Passing both a
    section and one of its fields, or two bodies, raises TypeError.

    A body of bytes becomes `Data`, a list of `Data` or of `AmqpSequence` is used unchanged, and any
    other body becomes an `AmqpValue`. Map sections may be plain dicts. Two messages are equal if
    they have the same message-format and the same sections with the same values of the same AMQP
    types, regardless of their encoding.

    Each field of the header and the properties is also a read-only attribute of the message:
    ``message.message_id`` is ``message.properties.message_id``, or None if the message has no
    properties. ``message.application_property("tenant")`` reads an entry of a map in the same way.
    A missing section stays None, because an empty section has a different encoding.

    Attributes:
        body: the body section, or a list of body sections if there are several.
        header: delivery details (3.2.1).
        delivery_annotations: annotations for one hop (3.2.2).
        message_annotations: annotations for the infrastructure (3.2.3).
        properties: the standard properties (3.2.4).
        application_properties: the properties of the application (3.2.5).
        footer: data computed from the bare message, such as checksums (3.2.9).
        message_format: the message-format of the transfer frame, 0 to 2^32 - 1. It is not part of
            the encoded message.
    """

    __match_args__ = SECTIONS

    # The kernel's decode_message sets the attributes in this order.
    header: Header | None
    delivery_annotations: DeliveryAnnotations | None
    message_annotations: MessageAnnotations | None
    properties: Properties | None
    application_properties: ApplicationProperties | None
    body: Body | None
    footer: Footer | None
    message_format: int
    # The original bytes of a decoded message.
    _wire: bytes | None = attrs.field(alias="_wire")
    # Whether the message was decoded with ``strict=False``.
    _lenient: bool = attrs.field(alias="_lenient")

    durable = Shortcut[bool]()
    priority = Shortcut[int]()
    ttl = Shortcut[int]()
    first_acquirer = Shortcut[bool]()
    delivery_count = Shortcut[int]()
    message_id = Shortcut[Identifier]()
    user_id = Shortcut[bytes]()
    to = Shortcut[str]()
    subject = Shortcut[str]()
    reply_to = Shortcut[str]()
    correlation_id = Shortcut[Identifier]()
    content_type = Shortcut[str]()
    content_encoding = Shortcut[str]()
    absolute_expiry_time = Shortcut[int]()
    creation_time = Shortcut[int]()
    group_id = Shortcut[str]()
    group_sequence = Shortcut[int]()
    reply_to_group_id = Shortcut[str]()

    def __init__(
        self,
        body: Any = None,
        *,
        header: Header | None = None,
        delivery_annotations: Mapping[Any, Any] | None = None,
        message_annotations: Mapping[Any, Any] | None = None,
        properties: Properties | None = None,
        application_properties: Mapping[str, Any] | None = None,
        footer: Mapping[Any, Any] | None = None,
        message_format: int = 0,
        _wire: bytes | None = None,  # the original bytes, which attrs.evolve passes on
        _lenient: bool = False,
        **fields: Unpack[FlatArguments],
    ) -> None:
        if fields:
            given = {"body": body, "header": header, "properties": properties}
            passed = {name: value for name, value in given.items() if value is not None}
            expanded = expand(fields, passed, {})
            body = expanded.get("body", body)
            header = expanded.get("header", header)
            properties = expanded.get("properties", properties)
        # The header and properties of a copy may have a wrong type after lenient decoding.
        if not (_lenient or header is None or isinstance(header, Header)):
            raise _wrong_section_error("header", Header, header)
        if not (_lenient or properties is None or isinstance(properties, Properties)):
            raise _wrong_section_error("properties", Properties, properties)
        self.header = header
        self.delivery_annotations = (
            delivery_annotations
            if delivery_annotations is None or type(delivery_annotations) is DeliveryAnnotations
            else DeliveryAnnotations(delivery_annotations)
        )
        self.message_annotations = (
            message_annotations
            if message_annotations is None or type(message_annotations) is MessageAnnotations
            else MessageAnnotations(message_annotations)
        )
        self.properties = properties
        self.application_properties = (
            application_properties
            if application_properties is None
            or type(application_properties) is ApplicationProperties
            else ApplicationProperties(application_properties)
        )
        self.body = body if body is None or type(body) in BODY_SPECS else to_body(body)
        self.footer = footer if footer is None or type(footer) is Footer else Footer(footer)
        self.message_format = message_format
        self._wire = _wire
        self._lenient = _lenient

    # Decoding.

    if TYPE_CHECKING:

        @classmethod
        def decode(  # noqa: D102  (the kernel's function has the docstring)
            cls,
            data: bytes | bytearray | memoryview,
            *,
            limits: Limits | None = None,
            strict: bool = True,
            message_format: int = 0,
        ) -> Self: ...

    else:
        # Not wrapped in a Python function: that would add a call for each message.
        decode = classmethod(kernel.decode_message)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The violations in a message that was decoded with ``strict=False``.

        Empty for messages that were decoded strictly or built: use `validate` for those.
        """
        if not self._lenient or self._wire is None:
            return ()
        return tuple(validate(self._wire))

    # Encoding.

    if TYPE_CHECKING:

        def encode(self) -> bytes: ...  # noqa: D102  (the kernel's function has the docstring)

    else:
        encode = kernel.encode_message

    @property
    def size(self) -> int:
        """The size of the encoded message in bytes, which the max-message-size of a link limits.

        The message is encoded to count them: if you send it, take the length of the result of
        `encode` instead.

        Raises:
            EncodeError: the message cannot be encoded.
        """
        return len(self.encode())

    def _encode_new(self) -> bytes:
        """Encode section by section; the kernel calls this for a message that it cannot encode.

        It accepts every type that a section may have, and adds the path to an EncodeError.
        """
        writer = kernel.Writer(self._lenient)
        for kind in SECTION_KINDS:
            if kind.attribute == "footer":
                for part in body_sections(self.body, self._lenient):
                    write(writer, BODY_SPECS[type(part)], part)
            section = getattr(self, kind.attribute)
            if section is not None:
                write(writer, SPEC_BY_CODE[kind.code], section)
        return writer.finish()

    def _encode_changes(self, wire: bytes) -> bytes:
        """Encode a message that was decoded from `wire`, reusing bytes of unchanged sections."""
        sections = {kind.code: getattr(self, kind.attribute) for kind in SECTION_KINDS}
        return encode_changes(
            sections, body_sections(self.body, self._lenient), wire, self._lenient
        )

    def template(self, *fields: str | tuple[str, type]) -> Template:
        """Return a template, which encodes messages that differ from this one in a few values.

            template = Message(b"").template("properties.message_id", ("body", Data))
            template.encode("m-1", b"...")

        Args:
            fields: the paths of the values that vary, as for `Picker`: a field, an entry, a section
                or ``body``; or tuples of a path and a type, such as
                ``("application_properties.attempt", Int)``. Sections and entries that this message
                lacks are added; new entries come last.

        Raises:
            ValueError: a path is invalid or occurs twice, or the value at a path cannot have the
                type.
            EncodeError: the constant part of the message cannot be encoded.
        """
        return Template(self, fields)

    @property
    def bare(self) -> bytes:
        """The bytes of the bare message, properties to body, for hashes and signatures."""
        return octets_of_sections(self.encode(), BARE_CODES, self._lenient)

    # Inspection.

    def sections(self) -> list[tuple[str, Any]]:
        """Return the sections as (name, section) pairs, in wire order.

        After lenient decoding, the list includes sections that no attribute holds: an unknown
        section (named ``unknown``), a repeated section, or a section whose value has a wrong type.
        Such sections are `Described` values, or `Malformed` if they cannot be decoded.
        """
        encoded = self.encode()
        parts = parts_of(encoded, self._lenient)
        by_code = {kind.code: getattr(self, kind.attribute) for kind in SECTION_KINDS}
        body = iter(body_sections(self.body, self._lenient))
        body_starts = {part[1] for part in body_parts(self._lenient, encoded, parts)}
        attribute_parts = parts_of_attributes(self._lenient, encoded, parts)
        pairs: list[tuple[str, Any]] = []
        for part in parts:
            code, start, _, end = part
            section = None
            if start in body_starts:
                section = next(body, None)
            elif part in attribute_parts:
                section = by_code[code]
            if section is None or type(section) is AmqpMap:
                section = value_at(encoded, start, end)
            pairs.append((KIND_BY_CODE[code].name if code >= 0 else "unknown", section))
        return pairs

    def _canonical(self) -> bytes:
        """Encode the message anew, so that equal messages have equal bytes.

        A `Malformed` section of a leniently decoded message keeps its bytes.
        """
        if not self._lenient or self._wire is None:
            octets: bytes | None = kernel.write_message(self)
            return octets or self._encode_new()
        writer = kernel.Writer(True)
        chunks = []
        for _, section in self.sections():
            if type(section) is Malformed:
                chunks.append(section.data)
            else:
                writer.value(section)
                chunks.append(writer.finish())
        return b"".join(chunks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (
            self.message_format == other.message_format and self._canonical() == other._canonical()
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __rich_repr__(self) -> Iterator[tuple[Any, ...]]:
        yield "body", self.body, None
        for kind in SECTION_KINDS:
            yield kind.attribute, getattr(self, kind.attribute), None
        if self.message_format:
            yield "message_format", Text(f"{self.message_format:#x}")

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        """Return an HTML table of the fields for notebooks; `notation.render_html` adds bytes."""
        rows: list[tuple[str, str, str]] = []
        for kind in SECTION_KINDS:
            if kind.attribute == "footer":
                parts = self.body if isinstance(self.body, list) else [self.body]
                rows += [row for part in parts if part is not None for row in _body_rows(part)]
            section = getattr(self, kind.attribute)
            if section is not None:
                rows += _section_rows(kind.name, section)
        title = type(self).__name__
        if self.message_format:
            title = f"{title}, message-format {self.message_format:#x}"
        return html_table(title, ("section", "field", "value"), rows)

    def evolve(self, **changes: Unpack[MessageChanges]) -> Self:
        """Return a copy with some attributes replaced. The copy shares all other sections.

            Message("x").evolve(subject="order.changed", ttl=60_000)

        A field of the header or the properties keeps the other fields of its section; None resets
        it. ``json`` and ``text`` also set the content-type, and remove the content-encoding.

        The copy keeps the original bytes, so `encode` reuses the bytes of unchanged sections.
        `copy.replace` (Python 3.13) and ``attrs.evolve`` do the same.

        Raises:
            TypeError: there is no attribute with this name; the error suggests an alternative. Or a
                section and one of its fields are both passed.
            EncodeError: a value has a wrong type, or the text cannot be encoded.
        """
        sections = {name: value for name, value in changes.items() if name in self.__match_args__}
        fields = {name: value for name, value in changes.items() if name not in sections}
        if fields:
            base = {"header": self.header, "properties": self.properties}
            sections |= expand(fields, sections, base)
        copy = self.__class__.__new__(self.__class__)
        changed = Message(**sections)  # type: ignore[arg-type]  # the keys are in MessageChanges
        for field in attrs.fields(Message):
            source = changed if field.name in sections else self
            setattr(copy, field.name, getattr(source, field.name))
        return copy

    __replace__ = evolve

    # The body.

    @property
    def value(self) -> Any:
        """The body as a Python value, which is bytes, a list, or the value of an amqp-value.

        None if there is no body or its value is null. Numbers and strings have the classes of their
        AMQP types, such as `UInt`; `decoded` converts to types of the application.

        Raises:
            ContentError: the body has several sections.
        """
        body = to_body(self.body)  # a plain value may have been assigned to `body`
        if isinstance(body, list):
            hint = ", body_bytes() joins them" if type(body[0]) is Data else ""
            raise ContentError(f"the body has {len(body)} sections: message.body lists them{hint}")
        if isinstance(body, AmqpValue):
            return body.value
        if isinstance(body, AmqpSequence):
            return body.values
        return None if body is None else as_bytes(body.data, "Data")

    if not TYPE_CHECKING:  # type checkers would allow the assignment

        @value.setter
        def value(self, _: Any) -> NoReturn:
            raise AttributeError(
                "message.value is read-only: set message.body to Data(bytes), AmqpValue(value) or "
                "AmqpSequence(list)"
            )

    def body_bytes(self) -> bytes:
        """Return the bytes of the body: joined Data sections, a binary value, or a string in UTF-8.

        A content-encoding is not removed; `content` does that.

        Raises:
            ContentError: the body is a sequence, or a value that is neither a string nor binary.
            TypeError: a Data section was built with something other than bytes.
        """
        body = body_sections(self.body, self._lenient)
        if all(type(part) is Data for part in body):
            return b"".join(as_bytes(part.data, "Data") for part in body)
        if len(body) == 1 and type(body[0]) is AmqpValue:
            value = body[0].value
            if isinstance(value, (bytes, bytearray, memoryview)):
                return bytes(value)
            if isinstance(value, str):
                return value.encode("utf-8")
        if len(body) > 1:
            raise ContentError(
                f"the body has {len(body)} sections that are not bytes: message.body lists them"
            )
        raise ContentError(
            f"the body is neither bytes nor text: use message.value for {self.body!r:.80}"
        )

    def content(self, *, limit: int | None = None) -> bytes:
        """Return the bytes of the body, decompressed if it has a content-encoding.

        The content-encoding may be gzip, deflate or zstd.

        Args:
            limit: the maximum size of the result in bytes; None for `codings.DEFAULT_LIMIT`,
                64 MiB. Decompression stops at the limit, so a small body cannot exhaust the memory.

        Raises:
            ContentError: as for `body_bytes`; the content-encoding is unknown; the compressed data
                is invalid or truncated; or the result exceeds the limit.
            ImportError: the content-encoding is zstd and ``amqp10msg[zstd]`` is not installed.
        """
        octets = self.body_bytes()
        coding = self.properties.content_encoding if self.properties is not None else None
        if not coding or self._string_value() is not None:
            return octets
        return decompress_body(octets, coding, limit)

    def text(self, encoding: str | None = None, *, limit: int | None = None) -> str:
        """Return the body as text: a string value unchanged, bytes decoded.

        Args:
            encoding: the encoding of a body of bytes; None for the charset of the content-type, or
                UTF-8 without a charset.
            limit: as for `content`.

        Raises:
            ContentError: as for `content`; the charset is unknown, or the bytes are invalid in it.
                The error says so if they look compressed.
        """
        text = self._string_value()
        if text is not None:
            return text
        octets = self.content(limit=limit)
        if encoding is None:
            content_type = self.properties.content_type if self.properties is not None else None
            match = CHARSET.search(content_type) if isinstance(content_type, str) else None
            encoding = match[1] if match is not None else "utf-8"
        try:
            return octets.decode(encoding)
        except UnicodeError as error:
            # Some codecs do not report the offset.
            offset = f"byte {error.start} of " if isinstance(error, UnicodeDecodeError) else ""
            coding = compression_of(octets)
            advice = (
                f"it looks like {coding}: decompress content(), or if the sender omitted the "
                f"content-encoding, set properties.content_encoding to {coding!r} and call "
                "decompressed()"
                if coding
                else "pass encoding=, or use content() for its bytes"
            )
            raise ContentError(f"{offset}the body is not valid {encoding}: {advice}") from error
        except (LookupError, ValueError):
            raise ContentError(f"unknown charset {encoding!r:.80}: pass encoding=") from None

    def _string_value(self) -> str | None:
        """Return the body if it is an `AmqpValue` with a string or symbol, else None."""
        body = to_body(self.body)
        is_text = isinstance(body, AmqpValue) and isinstance(body.value, str)
        return str(body.value) if is_text else None  # type: ignore[union-attr]

    def json(self, *, limit: int | None = None) -> Any:
        """Parse the body as JSON.

        Args:
            limit: as for `content`.

        Raises:
            ContentError: as for `text`; the text is not JSON (RFC 8259, which has no NaN and no
                Infinity), or is nested too deeply.
        """
        return parse_json(self.text(limit=limit))

    @overload
    def decoded(
        self, wanted: type[_T], *, strict: bool | None = None, limit: int | None = None
    ) -> _T: ...

    @overload
    def decoded(
        self, wanted: Any, *, strict: bool | None = None, limit: int | None = None
    ) -> Any: ...

    def decoded(self, wanted: Any, *, strict: bool | None = None, limit: int | None = None) -> Any:
        """Convert the body to a type of the application with pydantic or msgspec.

        A body of bytes or a string is parsed as JSON. A map, list or other value is converted to
        plain Python values first.

        Args:
            wanted: the type. A pydantic model, a TypeAdapter, or a type that contains a model, such
                as ``list[Order]``, is converted by pydantic. Any other type, such as a Struct, a
                dataclass, an attrs class, a TypedDict or ``dict[str, int]``, by msgspec.
            strict: whether conversions such as from ``"5"`` to 5 are refused; None for the default
                of pydantic or msgspec.
            limit: as for `content`.

        Raises:
            pydantic.ValidationError: pydantic cannot convert the body.
            msgspec.DecodeError: the body is not JSON; its subclass msgspec.ValidationError:
                msgspec cannot convert the body.
            ContentError: as for `text`.
            ImportError: pydantic or msgspec is not installed.
        """
        body = to_body(self.body)
        value: Any = b""
        if isinstance(body, AmqpValue):
            value = body.value
        elif isinstance(body, AmqpSequence):
            value = body.values
        if isinstance(value, (bytes, bytearray, memoryview, str)):
            return convert_json(self.text(limit=limit), wanted, strict)
        return convert_value(value, wanted, strict)

    def compressed(self, coding: Coding, *, level: int | None = None) -> Self:
        """Return a copy with a compressed body and the content-encoding set to `coding`.

        Args:
            coding: ``gzip``, ``deflate`` or ``zstd``.
            level: the compression level, as for `codings.compress`.

        Raises:
            ContentError: the body does not consist of Data sections: no other body may have a
                content-encoding (Part 3, 3.2.4); or the message already has a content-encoding.
            ImportError: `coding` is zstd and ``amqp10msg[zstd]`` is not installed.
            ValueError: `level` is out of range.
        """
        body, properties = compress_body(
            body_sections(self.body, self._lenient), self.properties, coding, level
        )
        return self.evolve(body=body, properties=properties)

    def decompressed(self, *, limit: int | None = None) -> Self:
        """Return a copy with the decompressed body and without a content-encoding.

        Returns the message itself if it has no content-encoding.

        Raises:
            ContentError: as for `content`.
            ImportError: as for `content`.
        """
        if self.properties is None or not self.properties.content_encoding:
            return self
        properties = attrs.evolve(self.properties, content_encoding=None)
        return self.evolve(body=Data(self.content(limit=limit)), properties=properties)

    # Methods that return an entry of a map section.

    def application_property(self, name: str, default: Any = None) -> Any:
        """Return an application property, or `default` if it or the section is missing."""
        return entry_of(self.application_properties, name, default)

    def message_annotation(self, key: str | int, default: Any = None) -> Any:
        """Return a message annotation, or `default` if it or the section is missing."""
        return entry_of(self.message_annotations, key, default)

    def delivery_annotation(self, key: str | int, default: Any = None) -> Any:
        """Return a delivery annotation, or `default` if it or the section is missing."""
        return entry_of(self.delivery_annotations, key, default)

    def footer_entry(self, key: str | int, default: Any = None) -> Any:
        """Return an entry of the footer, or `default` if it or the section is missing."""
        return entry_of(self.footer, key, default)

    def plain_application_properties(self) -> dict[str, Any]:
        """Return the application properties as a dict of plain Python values.

        A uint becomes an int, a symbol a str, a decimal a Decimal, and a timestamp a datetime
        unless it is out of range for datetime. The dict is empty if the section is missing.
        """
        return {
            str(key): plain(value) for key, value in (self.application_properties or {}).items()
        }

    def expires_at(self, arrival: datetime.datetime | int) -> Any:
        """Return the time when the message expires (Part 3, 3.2.1 and 3.2.4).

        Args:
            arrival: when the message arrived at this intermediary, as an aware datetime or in
                milliseconds since the Unix epoch.

        Returns:
            The earlier of ``arrival + ttl`` and absolute-expiry-time, in the form of `arrival`;
            None if the message has neither.

        Raises:
            EncodeError: ttl or absolute-expiry-time is not a number, after lenient decoding.
            ValueError: `arrival` is a datetime, and the message expires after the year 9999.
        """
        expiries = []
        if self.header is not None and self.header.ttl is not None:
            expiries.append(_milliseconds(arrival) + _checked_int(self.header.ttl, "header.ttl"))
        if self.properties is not None and self.properties.absolute_expiry_time is not None:
            expiry: Any = self.properties.absolute_expiry_time
            if not isinstance(expiry, datetime.datetime):
                expiry = _checked_int(expiry, "properties.absolute-expiry-time")
            expiries.append(_milliseconds(expiry))
        if not expiries:
            return None
        earliest = min(expiries)
        is_datetime = isinstance(arrival, datetime.datetime)
        return Timestamp(earliest).to_datetime() if is_datetime else earliest

    def remaining_ttl(
        self, arrival: datetime.datetime | int, now: datetime.datetime | int
    ) -> int | None:
        """Return the ttl for forwarding the message, in milliseconds (Part 3, 3.2.1).

        The result is the ttl minus the time since the arrival, at least 0. If the clock was set
        back since the arrival, the result is the whole ttl; if the message has no ttl, None.

        Args:
            arrival: when the message arrived, as for `expires_at`.
            now: the current time, in the same form.

        Raises:
            EncodeError: the ttl is not a number, after lenient decoding.
        """
        if self.header is None or self.header.ttl is None:
            return None
        ttl = _checked_int(self.header.ttl, "header.ttl")
        return max(ttl - max(_milliseconds(now) - _milliseconds(arrival), 0), 0)

    def for_next_hop(self, arrival: datetime.datetime | int, now: datetime.datetime | int) -> Self:
        """Return a copy to forward: with the remaining ttl and without delivery annotations.

        Delivery annotations are for the receiving peer only (Part 3, 3.2.2). The bytes of the bare
        message stay the same.

        Raises:
            EncodeError: as for `remaining_ttl`.
        """
        ttl = self.remaining_ttl(arrival, now)
        header = self.header
        if header is not None and ttl is not None:
            header = attrs.evolve(header, ttl=ttl)
        return self.evolve(header=header, delivery_annotations=None)


def _wrong_section_error(name: str, cls: type, value: Any) -> TypeError:
    """Return the error for a header or properties of a wrong type, with a suggestion."""
    hint = ""
    if isinstance(value, dict) and value:
        if all(SECTION_OF_FIELD.get(key, ("",))[0] == name for key in value):
            hint = f": write {name}={constructor_call(cls, value)}"
        else:
            hint = f": write application_properties={value!r:.60}"
    return TypeError(f"{name} takes {cls.__name__}, not {type(value).__name__}{hint}")


def _section_rows(name: str, section: Any) -> list[tuple[str, str, str]]:
    """Return the rows of a section in a table for notebooks: section, field, value."""
    if isinstance(section, dict):
        fields = [(short_repr(key), value) for key, value in section.items()]
    elif hasattr(type(section), "__rich_repr__"):
        fields = [
            (field, value)
            for field, value, *default in section.__rich_repr__()
            if default != [value]
        ]
    else:  # lenient decoding may leave a section of a wrong type
        fields = [("", section)]
    return [(name, field, short_repr(value)) for field, value in fields] or [(name, "", "")]


def _body_rows(section: Any) -> list[tuple[str, str, str]]:
    """Return the row of a body section in a table for notebooks."""
    spec = BODY_SPECS.get(type(section))
    if spec is None:  # a plain value may have been assigned to `Message.body`
        return [("body", "", short_repr(section))]
    return [(spec.name, "", short_repr(getattr(section, spec.attribute)))]


def _checked_int(value: Any, path: str) -> int:
    """Return `value` as an int, or raise EncodeError with `path` if it is not an integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise EncodeError(f"must be a number, not {type(value).__name__}", path)
    return int(value)


def _milliseconds(time: datetime.datetime | int) -> int:
    """Return a time in milliseconds since the Unix epoch."""
    if isinstance(time, datetime.datetime):
        return Timestamp.from_datetime(time)
    return int(time)


def _read_leniently(cls: type[Message], data: Any, limits: Limits, message_format: int) -> Any:
    """Decode a message with ``strict=False``; the kernel's decode_message calls this."""
    octets, sections = read_message(data, limits)
    message = cls(message_format=message_format)
    for name, section in sections.items():
        setattr(message, name, section)
    message._wire = octets
    message._lenient = True
    return message


# For the kernel's fast constructor: the types that `__init__` stores without a conversion.
kernel.make_fast(
    Message,
    header=(NoneType, Header),
    properties=(NoneType, Properties),
    delivery_annotations=(NoneType, DeliveryAnnotations),
    message_annotations=(NoneType, MessageAnnotations),
    application_properties=(NoneType, ApplicationProperties),
    body=(NoneType, *BODY_SPECS),
    footer=(NoneType, Footer),
)
kernel.register_message(Message, _read_leniently, first_fault)


def expect_message(message: object, function: str, expected: str = "a Message") -> None:
    """Raise TypeError if an argument of the function `function` is not a `Message`.

    Args:
        message: the argument.
        function: the name of the function, for the error.
        expected: the expected type, for the error.
    """
    encoded = (bytes, bytearray, memoryview)
    expect(message, Message, function, expected, {encoded: "decode it with Message.decode"})


class Template(kernel.Pattern):
    """Encodes messages that differ in a few values, copying the bytes of the constant parts.

        template = Message(
            b"", application_properties={"attempt": Int(0), "tenant": "acme"}
        ).template("properties.message_id", "application_properties.attempt", "body")
        data = template.encode("m-1", 3, b"...")

    `Message.template` creates templates. ``encode(*values)`` returns the same bytes as
    ``message(*values).encode()``. Later changes of the prototype message have no effect.

    A field has its AMQP type of Part 3. An entry or the body has the declared type, or else the
    type of the prototype's value; without both, each value determines its own type, as in a
    message. A plain int, str or float is converted to any type that it fits. None is null in an
    entry and in an amqp-value, and omits a field or a section. The body has sections of the
    declared kind (``Data`` or ``AmqpSequence``), or else of the kind in the prototype.

    Attributes:
        paths: the paths of the values, in the order of the arguments of `encode`.
        kinds: the names of the values' AMQP types, in the same order; empty if each value
            determines its own type.
    """

    __slots__ = ("_declared", "_plan", "kinds", "paths")

    def __init__(self, message: Message, fields: tuple[str | tuple[str, type], ...]) -> None:
        """Create a template from a prototype message; `fields` as in `Message.template`."""
        self._declared = fields
        self._plan = TemplatePlan(message, fields)
        self.paths = tuple(path.text for path in self._plan.paths)
        self.kinds = self._plan.kinds
        super().__init__(self._plan.steps(), len(fields), self._encode_filled)

    def __repr__(self) -> str:
        return f"Template({', '.join(map(repr, self.paths))})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Template, (self._plan.prototype, self._declared))

    def message(self, *values: Any) -> Message:
        """Return the message with these values, as a `Message` instead of its encoding.

        Args:
            values: one value for each path.

        Raises:
            EncodeError: a value cannot be encoded; the error's path names it.
            TypeError: there are more or fewer values than paths.
        """
        message = self._plan.fill_in(values)
        message.encode()  # checks the types of all values
        return message

    def _encode_filled(self, values: tuple[Any, ...]) -> bytes:
        """Encode values that the kernel's fast path refuses.

        Raises the EncodeError with its path, or returns the encoding if the values are valid.
        """
        return self._plan.fill_in(values).encode()
