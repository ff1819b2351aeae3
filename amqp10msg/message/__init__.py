"""The annotated message (Part 3, 3.2).

A message that was decoded keeps the bytes it came from. `encode` compares each section with what
its bytes decode to, by their canonical encodings, and emits the bytes again where nothing
changed: that notices a change inside a mapping, and a change of the wire type alone, at the price
of encoding once more.
"""

from __future__ import annotations

import datetime
import importlib
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Never,
    NoReturn,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    overload,
)

import attrs

from amqp10msg.message._encoding import (
    BODY_SPECS,
    SECTION_KINDS,
    Body,
    body_parts,
    body_sections,
    encode_changes,
    holders,
    to_body,
    write,
)
from amqp10msg.message.templates import Template
from amqp10msg.sections import (
    BARE_CODES,
    KIND_OF,
    SPEC_OF,
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
from amqp10msg.validation import Violation, validate
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import ContentError, EncodeError, as_bytes, expect
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import AmqpMap, Symbol, Timestamp, plain
from amqp10msg.wire.reprs import Text, short_repr

if TYPE_CHECKING:
    from amqp10msg.wire.codings import Coding

__all__ = ["Body", "Message", "MessageChanges"]

_T = TypeVar("_T")
#: The types of ids.
Identifier = int | uuid.UUID | bytes | str
# By field of the header or the properties, the section and its class.
_SECTIONS = {
    field.name: (section, cls)
    for section, cls in (("header", Header), ("properties", Properties))
    for field in attrs.fields(cls)
}
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]+)', re.IGNORECASE)


def _not_json(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


class Shortcut(Generic[_T]):
    """A field of the header or the properties, as a read-only attribute of the message.

    It is None where the section is absent, and where the field is.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        """Find the section that declares a field of this name."""
        self.name = name
        self.section, _ = _SECTIONS[name]
        self.__doc__ = f"``{self.section}.{name}``, None where it is absent."

    @overload
    def __get__(self, message: None, owner: type) -> Self: ...

    @overload
    def __get__(self, message: Message, owner: type) -> _T | None: ...

    def __get__(self, message: Message | None, owner: type) -> Self | _T | None:
        """Return the value of the field."""
        if message is None:
            return self
        # What a lenient decoding found in its place may have no such field.
        found: _T | None = getattr(getattr(message, self.section), self.name, None)
        return found

    if not TYPE_CHECKING:  # to which an attribute that can be set is one that may be

        def __set__(self, message: Message, value: Any) -> NoReturn:
            """Say where to set it."""
            raise AttributeError(
                f"message.{self.name} can only be read: set message.{self.section}.{self.name}, or "
                f"where the message has no {self.section}, "
                f"message.{self.section} = {_call_of(_SECTIONS[self.name][1], {self.name: value})}"
            )


class MessageChanges(TypedDict, total=False):
    """What `Message.evolve` takes: the attributes of a message, as its constructor takes them."""

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
    """One annotated message: up to seven sections, each None where it is absent.

        Message(body="text")
        Message(body=Data(b"..."), properties=Properties(message_id="m-1"))
        Message(body={"a": 1}, application_properties={"tenant": "x"})

    A body of bytes becomes `Data`, a list of Data or of AmqpSequence stays as it is, anything else
    becomes an `AmqpValue`. Plain dicts are taken for the map sections. Two messages are equal if
    they have the same sections with the same values of the same AMQP types and the same
    message-format, however they were encoded.

    Each field of header and properties is a read-only attribute of the message, too, which is None
    where the section is absent: ``message.message_id`` for ``message.properties.message_id``.
    Likewise ``message.application_property("tenant")`` reads an entry of a map, whether the section
    is there or not. An absent section stays None, since an empty one is other bytes on the wire.

    Attributes:
        body: the body section, or a list of them where there are several.
        header: transfer details (3.2.1).
        delivery_annotations: for this hop (3.2.2).
        message_annotations: for the infrastructure (3.2.3).
        properties: standard properties (3.2.4).
        application_properties: the application's own (3.2.5).
        footer: checksums and the like (3.2.9).
        message_format: what goes into the message-format field of the transfer frame, 0 to
            2^32 - 1; it is not part of the encoded message.
    """

    __match_args__ = (
        "body",
        "properties",
        "application_properties",
        "message_annotations",
        "header",
        "delivery_annotations",
        "footer",
        "message_format",
    )

    # The order in which the kernel's decode_message sets them.
    header: Header | None
    delivery_annotations: DeliveryAnnotations | None
    message_annotations: MessageAnnotations | None
    properties: Properties | None
    application_properties: ApplicationProperties | None
    body: Body | None
    footer: Footer | None
    message_format: int
    _wire: bytes | None = attrs.field(alias="_wire")
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
        _wire: bytes | None = None,  # what attrs.evolve hands on: the bytes that it came from
        _lenient: bool = False,
        **unknown: Never,
    ) -> None:
        if unknown:
            raise _unknown_arguments(self.__match_args__, unknown)
        # What a lenient decoding keeps in their places, a copy of the message may have as well.
        if not (_lenient or header is None or isinstance(header, Header)):
            raise _wrong_section("header", Header, header)
        if not (_lenient or properties is None or isinstance(properties, Properties)):
            raise _wrong_section("properties", Properties, properties)
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
        # The kernel's own function, since one around it would cost every message a call.
        decode = classmethod(kernel.decode_message)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The rules that a message broke when it was decoded with ``strict=False``.

        Empty for every other message: `validate` judges those.
        """
        if not self._lenient or self._wire is None:
            return ()
        return tuple(validate(self._wire))

    # Encoding.

    if TYPE_CHECKING:

        def encode(self) -> bytes: ...  # noqa: D102  (the kernel's function has the docstring)

    else:
        encode = kernel.encode_message

    def _encode_new(self) -> bytes:
        """Encode one section after the other, to take what a user may have set or say where."""
        writer = kernel.Writer(self._lenient)
        for kind in SECTION_KINDS:
            if kind.attribute == "footer":
                for part in body_sections(self):
                    write(writer, BODY_SPECS[type(part)], part)
            section = getattr(self, kind.attribute)
            if section is not None:
                write(writer, SPEC_OF[kind.code], section)
        return writer.finish()

    def _encode_changes(self, wire: bytes) -> bytes:
        return encode_changes(self, wire)

    def template(self, *fields: str | tuple[str, type]) -> Template:
        """Return a template: it encodes messages that differ from this one in some values alone.

            template = Message(b"").template("properties.message_id", ("body", Data))
            template.encode("m-1", b"...")

        Args:
            fields: the paths of what varies, as `Picker` takes them: a field, an entry, a section
                or ``body``; or tuples of a path and a type, such as
                ``("application_properties.attempt", Int)``. A section or entry that this message
                lacks is added, entries after the others.

        Raises:
            ValueError: a path is wrong or named twice, or a type cannot stand there.
            EncodeError: what does not vary cannot be encoded.
        """
        return Template(self, fields)

    @property
    def bare(self) -> bytes:
        """The exact bytes of the bare message, properties to body, for hashes and signatures."""
        return octets_of_sections(self.encode(), BARE_CODES, self._lenient)

    # Looking at it.

    def sections(self) -> list[tuple[str, Any]]:
        """List the sections as (name, section) pairs in the order they are encoded in.

        What a lenient decoding found and no attribute holds in its class (a section that is
        unknown, repeated or not readable as what it is) stands here as `Described`, under
        ``unknown`` or its name, and as `Malformed` where it is not a value.
        """
        encoded = self.encode()
        parts = parts_of(encoded, self._lenient)
        held = {kind.code: getattr(self, kind.attribute) for kind in SECTION_KINDS}
        body = iter(body_sections(self))
        in_body = {part[1] for part in body_parts(self._lenient, encoded, parts)}
        held_by = holders(self._lenient, encoded, parts)
        listed: list[tuple[str, Any]] = []
        for part in parts:
            code, start, _, end = part
            section = None
            if start in in_body:
                section = next(body, None)
            elif part in held_by:
                section = held[code]
            if section is None or type(section) is AmqpMap:
                section = value_at(encoded, start, end)
            listed.append((KIND_OF[code].name if code >= 0 else "unknown", section))
        return listed

    def _canonical(self) -> bytes:
        if not self._lenient or self._wire is None:
            octets: bytes | None = kernel.write_message(self)
            return octets or self._encode_new()
        writer = kernel.Writer(True)
        written = []
        for _, section in self.sections():
            if type(section) is Malformed:
                written.append(section.data)
            else:
                writer.value(section)
                written.append(writer.finish())
        return b"".join(written)

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

    def _repr_html_(self) -> str | None:
        """Return HTML for a notebook: the page of `notation.render_html`, in a frame of its own.

        None, and so the repr, where the extra ``pages`` is not installed, and for a message that
        cannot be encoded. What is in a message can reach no other part of the notebook.
        """
        from html import escape  # noqa: PLC0415  (its table of characters is for notebooks alone)

        try:
            # It stands to the right of this module, and is imported where a notebook asks for it.
            page = importlib.import_module("amqp10msg.notation").render_html(self)
        except (ImportError, EncodeError):
            return None
        style = f"width: 100%; height: {_height(page)}px; border: 0; resize: vertical"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(page)}"></iframe>'

    def evolve(self, **changes: Unpack[MessageChanges]) -> Self:
        """Return a copy with some attributes replaced; sections that are not replaced are shared.

        The copy keeps the bytes it came from, so unchanged sections stay byte for byte.
        `copy.replace` (Python 3.13) and ``attrs.evolve`` do the same.

        Raises:
            TypeError: a message has no attribute of this name; the error says what to write.
        """
        for name, value in changes.items():
            if name not in self.__match_args__:
                raise _unknown_arguments(self.__match_args__, {name: value})
        copy = self.__class__.__new__(self.__class__)
        given = Message(**changes)
        for field in attrs.fields(Message):
            setattr(copy, field.name, getattr(given if field.name in changes else self, field.name))
        return copy

    __replace__ = evolve

    # What users ask a message for.

    @property
    def value(self) -> Any:
        """The body as a Python value, which is the bytes of data, a list of a sequence, or a value.

        None where there is no body, as where it is the value null. Numbers and texts have the
        classes of their AMQP types, as in `AmqpValue`; `decoded` gives types of the application.

        Raises:
            ContentError: the body is several sections.
        """
        body = to_body(self.body)  # which a user may have set to any value
        if isinstance(body, list):
            joined = ", body_bytes() joins them" if type(body[0]) is Data else ""
            raise ContentError(f"the body is {len(body)} sections: message.body lists them{joined}")
        if isinstance(body, AmqpValue):
            return body.value
        if isinstance(body, AmqpSequence):
            return body.values
        return None if body is None else as_bytes(body.data, "Data")

    if not TYPE_CHECKING:  # to which a property with a setter may be set

        @value.setter
        def value(self, _: Any) -> NoReturn:
            raise AttributeError(
                "message.value can only be read: set message.body, to Data of bytes, to AmqpValue "
                "of a value or to AmqpSequence of a list"
            )

    def body_bytes(self) -> bytes:
        """Return the bytes of the body: Data sections joined, a binary value, or text as UTF-8.

        They are as they came: `content` undoes the content-encoding.

        Raises:
            ContentError: the body is a sequence, or a value that is neither text nor binary.
            TypeError: the caller built a Data section of something else than bytes.
        """
        body = body_sections(self)
        if all(type(part) is Data for part in body):
            return b"".join(as_bytes(part.data, "Data") for part in body)
        if len(body) == 1 and type(body[0]) is AmqpValue:
            value = body[0].value
            if isinstance(value, (bytes, bytearray, memoryview)):
                return bytes(value)
            if isinstance(value, str):
                return value.encode("utf-8")
        raise ContentError(
            f"the body is neither bytes nor text, message.value reads it: {self.body!r:.80}"
        )

    def content(self, *, limit: int | None = None) -> bytes:
        """Return the bytes of the body without their content-encoding: gzip, deflate or zstd.

        Args:
            limit: the bytes that undoing it may make; `codings.DEFAULT_LIMIT`, 64 MiB, where None.
                A small body can be a bomb: no more than the limit is ever made.

        Raises:
            ContentError: as `body_bytes`; the content-encoding is unknown, or the bytes are not
                what it makes, are cut off, or make more than the limit.
            ImportError: it is zstd, and ``amqp10msg[zstd]`` is not installed.
        """
        octets = self.body_bytes()
        coding = self.properties.content_encoding if self.properties is not None else None
        if not coding or self._own_text() is not None:
            return octets
        if not isinstance(coding, str):
            raise ContentError(f"the content-encoding is {coding!r:.80}, and must be a symbol")
        codings = _codings()
        made: bytes = codings.decompress(
            octets, coding, limit=codings.DEFAULT_LIMIT if limit is None else limit
        )
        return made

    def text(self, encoding: str | None = None, *, limit: int | None = None) -> str:
        """Return the text of the body: a string value as it is, bytes decoded.

        Args:
            encoding: of a body of bytes; where None, the charset of the content-type, or UTF-8.
            limit: as of `content`.

        Raises:
            ContentError: as `content`; the charset is unknown, or the bytes are not text of it.
        """
        own = self._own_text()
        if own is not None:
            return own
        octets = self.content(limit=limit)
        if encoding is None:
            given = self.properties.content_type if self.properties is not None else None
            found = _CHARSET.search(given) if isinstance(given, str) else None
            encoding = found[1] if found is not None else "utf-8"
        try:
            return octets.decode(encoding)
        except UnicodeDecodeError as error:
            raise ContentError(
                f"byte {error.start} of the body is not {encoding}: pass encoding=, or take its "
                "bytes, content()"
            ) from error
        except UnicodeError as error:  # of codecs that do not say where
            raise ContentError(
                f"the body is not {encoding}: pass encoding=, or take its bytes, content()"
            ) from error
        except (LookupError, ValueError):
            raise ContentError(f"unknown charset {encoding!r:.80}: pass encoding=") from None

    def _own_text(self) -> str | None:
        """Return the body if it is a value that is text."""
        body = to_body(self.body)
        is_text = isinstance(body, AmqpValue) and isinstance(body.value, str)
        return str(body.value) if is_text else None  # type: ignore[union-attr]  # looked at before

    def json(self, *, limit: int | None = None) -> Any:
        """Return the JSON in the body as dicts, lists and so on.

        Args:
            limit: as of `content`.

        Raises:
            ContentError: as `text`; the text is not JSON (RFC 8259, which has no NaN and no
                Infinity), or is nested too deeply.
        """
        import json  # noqa: PLC0415  (few bodies are read so)

        text = self.text(limit=limit)
        try:
            return json.loads(text, parse_constant=_not_json)
        except ValueError as error:  # also of an integer with more digits than Python converts
            raise ContentError(f"the body is not JSON that can be read: {error}") from None
        except RecursionError:
            raise ContentError("the JSON of the body is nested too deeply") from None

    @overload
    def decoded(
        self, wanted: type[_T], *, strict: bool | None = None, limit: int | None = None
    ) -> _T: ...

    @overload
    def decoded(
        self, wanted: Any, *, strict: bool | None = None, limit: int | None = None
    ) -> Any: ...

    def decoded(self, wanted: Any, *, strict: bool | None = None, limit: int | None = None) -> Any:
        """Return the body as a type of the application, checked by pydantic or msgspec.

        Bytes and text are JSON; a map, list or other value is taken as plain Python values.

        Args:
            wanted: a model of pydantic, a TypeAdapter, or a type that has one in it, such as
                ``list[Order]``: pydantic checks these. Everything else is msgspec's: a Struct, a
                dataclass, an attrs class, a TypedDict, ``dict[str, int]``.
            strict: whether values may be converted, as from a number in text; the library's own
                rule where None.
            limit: as of `content`.

        Raises:
            pydantic.ValidationError: pydantic refuses the body.
            msgspec.DecodeError: the body is not JSON for msgspec; its subclass
                msgspec.ValidationError: msgspec refuses the body.
            ContentError: as `text`.
            ImportError: the library is not installed.
        """
        body = to_body(self.body)
        value: Any = b""
        if isinstance(body, AmqpValue):
            value = body.value
        elif isinstance(body, AmqpSequence):
            value = body.values
        if isinstance(value, (bytes, bytearray, memoryview, str)):
            document = self.text(limit=limit)
            if _is_of_pydantic(wanted):
                return _adapter(wanted).validate_json(document, strict=strict)
            return _module("msgspec").json.decode(document, type=wanted, strict=strict is not False)
        if _is_of_pydantic(wanted):
            return _adapter(wanted).validate_python(plain(value), strict=strict)
        return _module("msgspec").convert(plain(value), type=wanted, strict=strict is not False)

    def compressed(self, coding: Coding, *, level: int | None = None) -> Self:
        """Return a copy with the body compressed, and that said in content-encoding.

        Args:
            coding: ``gzip``, ``deflate`` or ``zstd``.
            level: for speed or size, as of `codings.compress`.

        Raises:
            ContentError: the body is not of Data sections, which alone may have a
                content-encoding (Part 3, 3.2.4); or has one already.
            ImportError: it is zstd, and ``amqp10msg[zstd]`` is not installed.
            ValueError: `level` is out of range.
        """
        if not all(type(part) is Data for part in body_sections(self)):
            raise ContentError(
                "only a body of bytes has a content-encoding (Part 3, 3.2.4): make it Data"
            )
        own = self.properties or Properties()
        if own.content_encoding:
            raise ContentError(f"the body is {own.content_encoding} already")
        octets = _codings().compress(self.body_bytes(), coding, level)
        properties = attrs.evolve(own, content_encoding=Symbol(coding))
        return self.evolve(body=Data(octets), properties=properties)

    def decompressed(self, *, limit: int | None = None) -> Self:
        """Return a copy whose body is its `content`, without content-encoding.

        Raises:
            ContentError: as `content`.
            ImportError: as `content`.
        """
        if self.properties is None or not self.properties.content_encoding:
            return self
        properties = attrs.evolve(self.properties, content_encoding=None)
        return self.evolve(body=Data(self.content(limit=limit)), properties=properties)

    # Entries of the maps. An absent section has none of them, and reading one adds no section.

    def application_property(self, name: str, default: Any = None) -> Any:
        """Return an application property; the default where it, or the section, is absent."""
        return entry_of(self.application_properties, name, default)

    def message_annotation(self, key: str | int, default: Any = None) -> Any:
        """Return a message annotation; the default where it, or the section, is absent."""
        return entry_of(self.message_annotations, key, default)

    def delivery_annotation(self, key: str | int, default: Any = None) -> Any:
        """Return a delivery annotation; the default where it, or the section, is absent."""
        return entry_of(self.delivery_annotations, key, default)

    def footer_entry(self, key: str | int, default: Any = None) -> Any:
        """Return an entry of the footer; the default where it, or the section, is absent."""
        return entry_of(self.footer, key, default)

    def plain_application_properties(self) -> dict[str, Any]:
        """Return the application properties as a plain dict of plain Python values.

        Wire types are dropped: a uint becomes an int, a symbol a str, a decimal a Decimal, a
        timestamp a datetime where datetime can hold it. Empty where the section is absent.
        """
        return {
            str(key): plain(value) for key, value in (self.application_properties or {}).items()
        }

    def expires_at(self, arrival: datetime.datetime | int) -> Any:
        """Return when the message expires, given when it arrived here (Part 3, 3.2.1 and 3.2.4).

        Args:
            arrival: an aware datetime, or milliseconds since the Unix epoch.

        Returns:
            The earlier of arrival plus ttl and absolute-expiry-time, in the kind of `arrival`;
            None where neither is set.

        Raises:
            EncodeError: one of them is not a number, as a lenient decoding leaves it.
            ValueError: a datetime was given, and it expires after the year 9999.
        """
        given_datetime = isinstance(arrival, datetime.datetime)
        arrived = _milliseconds(arrival)
        ends = []
        if self.header is not None and self.header.ttl is not None:
            ends.append(arrived + _number(self.header.ttl, "header.ttl"))
        if self.properties is not None and self.properties.absolute_expiry_time is not None:
            moment: Any = self.properties.absolute_expiry_time
            if not isinstance(moment, datetime.datetime):
                moment = _number(moment, "properties.absolute-expiry-time")
            ends.append(_milliseconds(moment))
        if not ends:
            return None
        return Timestamp(min(ends)).to_datetime() if given_datetime else min(ends)

    def remaining_ttl(
        self, arrival: datetime.datetime | int, now: datetime.datetime | int
    ) -> int | None:
        """Return the ttl to send on with, in milliseconds: what is left of it, 0 if it is over.

        Part 3, 3.2.1: the difference between the current time and the expiration time that was
        computed from the arrival; all of it by a clock that was set back since. None where the
        message has no ttl.

        Raises:
            EncodeError: the ttl is not a number, as a lenient decoding leaves it.
        """
        if self.header is None or self.header.ttl is None:
            return None
        ttl = _number(self.header.ttl, "header.ttl")
        return max(ttl - max(_milliseconds(now) - _milliseconds(arrival), 0), 0)

    def for_next_hop(self, arrival: datetime.datetime | int, now: datetime.datetime | int) -> Self:
        """Return the message to send on: ttl reduced, delivery annotations gone.

        Delivery annotations are for the receiving peer alone (Part 3, 3.2.2). The bare message
        keeps its exact bytes.

        Raises:
            EncodeError: as of `remaining_ttl`.
        """
        ttl = self.remaining_ttl(arrival, now)
        header = self.header
        if header is not None and ttl is not None:
            header = attrs.evolve(header, ttl=ttl)
        return self.evolve(header=header, delivery_annotations=None)


def _call_of(cls: type, values: dict[str, Any]) -> str:
    """Return how an object is made of these values, for people."""
    return f"{cls.__name__}({', '.join(f'{name}={value!r:.40}' for name, value in values.items())})"


def _unknown_arguments(known: Iterable[str], unknown: dict[str, Any]) -> TypeError:
    """Return the error for arguments that `Message` does not take, and what to write instead."""
    name, value = next(iter(unknown.items()))
    if name in _SECTIONS:
        section, cls = _SECTIONS[name]
        how = f"write {section}={_call_of(cls, {name: value})}"
    else:
        from difflib import get_close_matches  # noqa: PLC0415  (of this error alone)

        meant = get_close_matches(name, [*known, *_SECTIONS], 1, 0.7)
        how = f"did you mean {meant[0]}?" if meant else f"it takes {', '.join(known)}"
    return TypeError(f"a Message takes no {name}: {how}")


def _wrong_section(name: str, cls: type, given: Any) -> TypeError:
    """Return the error for a header or properties that are none, and what to write instead."""
    how = ""
    if isinstance(given, dict) and given:
        fits = all(_SECTIONS.get(key, ("",))[0] == name for key in given)
        how = f"{name}={_call_of(cls, given)}" if fits else f"application_properties={given!r:.60}"
        how = f": write {how}"
    return TypeError(f"{name} takes {cls.__name__}, not {type(given).__name__}{how}")


# Of the page of a message, in pixels: what is always there, a line of each kind, and the most of
# the bytes and of the whole, which scroll from there on.
_PAGE, _ROW, _OCTETS, _FAULT, _CHIPS, _MOST_OCTETS, _MOST = 214, 25, 21, 38, 32, 240, 640


def _height(page: str) -> int:
    """Return a height for the page of a message: a frame cannot ask for that of its content."""
    _, _, body = page.partition("<body")
    octets = min(body.count('class="line"') * _OCTETS, _MOST_OCTETS)
    faults = body.count('<li class="error"') + body.count('<li class="warning"')
    # Three names of sections fit into a line.
    chips = -(-(body.count("<li class=") - faults) // 3)
    height = _PAGE + octets + body.count("<tr") * _ROW + faults * _FAULT + chips * _CHIPS
    return min(height, _MOST)


def _number(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise EncodeError(f"is {type(value).__name__}, and must be a number", path)
    return int(value)


def _milliseconds(moment: datetime.datetime | int) -> int:
    if isinstance(moment, datetime.datetime):
        return Timestamp.from_datetime(moment)
    return int(moment)


def _codings() -> Any:
    # Loaded when a body has one: few have.
    return importlib.import_module("amqp10msg.wire.codings")


def _is_of_pydantic(wanted: Any) -> bool:
    """Return whether a type is pydantic's: a model, an adapter, or made of one."""
    return (
        hasattr(wanted, "__pydantic_validator__")
        or hasattr(wanted, "validate_json")
        or any(map(_is_of_pydantic, get_args(wanted)))
    )


def _adapter(wanted: Any) -> Any:
    return wanted if hasattr(wanted, "validate_json") else _module("pydantic").TypeAdapter(wanted)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"decoded() needs {name}: pip install {name}") from error


def _read_leniently(cls: type[Message], data: Any, limits: Limits, message_format: int) -> Any:
    octets, found = read_message(data, limits)
    made = cls(message_format=message_format)
    for name, section in found.items():
        setattr(made, name, section)
    made._wire = octets
    made._lenient = True
    return made


# What `__init__` takes as it is.
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
kernel.register_message(Message, _read_leniently)


def expect_message(message: object, where: str, wanted: str = "a Message") -> None:
    """Raise TypeError if an argument of the function `where` is not a `Message`.

    Args:
        message: the argument.
        where: the name of the function, for the error.
        wanted: what the function takes, for the error.
    """
    encoded = (bytes, bytearray, memoryview)
    expect(message, Message, where, wanted, {encoded: "decode it with Message.decode"})
