"""The annotated message (Part 3, 3.2).

A message that was decoded keeps the octets it came from. `encode` compares each section with what
its octets decode to, by their canonical encodings, and emits the octets again where nothing
changed: that notices a change inside a mapping, and a change of the wire type alone, at the price
of encoding once more.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import attrs

from amqp10msg import _core
from amqp10msg.errors import EncodeError
from amqp10msg.limits import UNLIMITED, Limits
from amqp10msg.parts import FIELD_NAMES, read_section
from amqp10msg.primitives import Array, Described, Timestamp, plain
from amqp10msg.sections import (
    BODY_KINDS,
    KINDS,
    SPECS,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
    SectionKind,
)
from amqp10msg.validation import Violation, validate

__all__ = ["Body", "Message"]

Body: TypeAlias = Data | AmqpSequence | AmqpValue | list[Data] | list[AmqpSequence]

_BODY_SPECS = {kind.cls: SPECS[kind.code - 0x70] for kind in BODY_KINDS}
_SECTION_KINDS = tuple(kind for kind in KINDS if kind.attribute != "body")


def _to_body(body: Any) -> Body | None:
    """Take what a user gives as a body to the section or sections it means."""
    if body is None or isinstance(body, (Data, AmqpSequence, AmqpValue)):
        return body
    if isinstance(body, (bytes, bytearray, memoryview)):
        return Data(bytes(body))
    if isinstance(body, list) and body and all(type(item) in _BODY_SPECS for item in body):
        return body  # one kind of section: encode checks that
    return AmqpValue(body)


@attrs.define(eq=False, repr=False, init=False, weakref_slot=False)
class Message:
    """One annotated message: up to seven sections, each None where it is absent.

        Message(body="text")
        Message(body=Data(b"..."), properties=Properties(message_id="m-1"))
        Message(body={"a": 1}, application_properties={"tenant": "x"})

    A body of bytes becomes `Data`, a list of Data or of AmqpSequence stays as it is, anything else
    becomes an `AmqpValue`. Plain dicts are taken for the map sections. Two messages are equal if
    they have the same sections with the same values of the same AMQP types and the same
    message-format, however they were encoded.

    Attributes:
        body: the body section, or a list of them where there are several.
        header: transfer details (3.2.1).
        delivery_annotations: for this hop (3.2.2).
        message_annotations: for the infrastructure (3.2.3).
        properties: standard properties (3.2.4).
        application_properties: the application's own (3.2.5).
        footer: checksums and the like (3.2.9).
        message_format: what goes into the message-format field of the transfer frame, 0 to
            2^32 - 1; it is no part of the encoded message.
    """

    # The order in which the kernel's decode_message sets them.
    header: Header | None
    delivery_annotations: DeliveryAnnotations | None
    message_annotations: MessageAnnotations | None
    properties: Properties | None
    application_properties: ApplicationProperties | None
    body: Body | None
    footer: Footer | None
    message_format: int
    _wire: bytes | None
    _lenient: bool

    def __init__(
        self,
        body: Any = None,
        *,
        header: Header | None = None,
        delivery_annotations: Mapping[Any, Any] | None = None,
        message_annotations: Mapping[Any, Any] | None = None,
        properties: Properties | None = None,
        application_properties: Mapping[Any, Any] | None = None,
        footer: Mapping[Any, Any] | None = None,
        message_format: int = 0,
    ) -> None:
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
        self.body = body if body is None or type(body) in _BODY_SPECS else _to_body(body)
        self.footer = footer if footer is None or type(footer) is Footer else Footer(footer)
        self.message_format = message_format
        self._wire = None
        self._lenient = False

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
        decode = classmethod(_core.decode_message)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """What a message that was decoded with ``strict=False`` broke as it came.

        Empty for every other message: `validate` judges those.
        """
        if not self._lenient or self._wire is None:
            return ()
        return tuple(validate(self._wire))

    # Encoding.

    if TYPE_CHECKING:

        def encode(self) -> bytes: ...  # noqa: D102  (the kernel's function has the docstring)

    else:
        encode = _core.encode_message

    def _encode_new(self) -> bytes:
        """Encode one section after the other, to take what a user may have set or say where."""
        writer = _core.Writer(self._lenient)
        for kind in _SECTION_KINDS:
            if kind.code == 0x78:
                for part in self._body_sections():
                    _write(writer, _BODY_SPECS[type(part)], part)
            section = getattr(self, kind.attribute)
            if section is not None:
                _write(writer, SPECS[kind.code - 0x70], section)
        return writer.finish()

    def _body_sections(self) -> list[Any]:
        body: Any = self.body
        if body is None:
            return []
        if type(body) in _BODY_SPECS:
            return [body]
        body = _to_body(body)
        if not isinstance(body, list):
            return [body]
        first: type = type(body[0])
        if not self._lenient and (
            any(type(part) is not first for part in body) or (first is AmqpValue and len(body) > 1)
        ):
            raise EncodeError(
                "a body is one or more Data, one or more AmqpSequence, or one AmqpValue", "body"
            )
        return body

    def _encode_changes(self, wire: bytes) -> bytes:
        parts = _core.Reader(wire, 0, UNLIMITED).scan()
        sections = {kind.code: getattr(self, kind.attribute) for kind in _SECTION_KINDS}
        body = self._body_sections()
        in_body = [part for part in parts if _is_body(wire, part)]
        body_kept = len(in_body) == len(body) and all(
            type(section) is KINDS[part[0] - 0x70].cls
            and self._unchanged(KINDS[part[0] - 0x70], section, wire, part)
            for part, section in zip(in_body, body, strict=True)
        )
        # By order: what is to be written anew, and has no place among the parts yet.
        new = {
            kind.order: [self._encoded(kind, sections[kind.code])]
            for kind in _SECTION_KINDS
            if sections[kind.code] is not None and not any(part[0] == kind.code for part in parts)
        }
        if body and not body_kept:
            new[5] = [
                self._encoded(KINDS[_BODY_SPECS[type(part)].code - 0x70], part) for part in body
            ]
        out: list[bytes] = []
        holders = self._holders(wire, parts)
        changed = bool(new)
        for part in parts:
            code, start, _, end = part
            if code >= 0:
                kind = KINDS[code - 0x70]
                for order in sorted(new):
                    if order < kind.order or (order == 5 == kind.order and _is_body(wire, part)):
                        out.extend(new.pop(order))
                if kind.attribute == "body":
                    if not body_kept and _is_body(wire, part):
                        changed = True
                        continue
                elif part in holders and not self._unchanged(kind, sections[code], wire, part):
                    changed = True
                    if sections[code] is not None:
                        out.append(self._encoded(kind, sections[code]))
                    continue
            out.append(wire[start:end])
        for order in sorted(new):
            out.extend(new[order])
        return b"".join(out) if changed else wire

    def _holders(
        self, wire: bytes, parts: list[tuple[int, int, int, int]]
    ) -> list[tuple[int, int, int, int]]:
        """Find the parts that the attributes stand for, other than the body.

        Of several sections of a kind that is the first one that can be read as what it is; where
        none can, the first, which the attribute (None until it is set) takes the place of.
        """
        found: dict[int, tuple[int, int, int, int]] = {}
        readable: set[int] = set()
        for part in parts:
            code = part[0]
            if code < 0 or code in readable or KINDS[code - 0x70].attribute == "body":
                continue
            if not self._lenient or _reread(KINDS[code - 0x70], wire, part, True) is not None:
                readable.add(code)
                found[code] = part
            else:
                found.setdefault(code, part)
        return list(found.values())

    def _encoded(self, kind: SectionKind, section: Any) -> bytes:
        writer = _core.Writer(self._lenient)
        _write(writer, SPECS[kind.code - 0x70], section)
        return writer.finish()

    def _unchanged(
        self, kind: SectionKind, section: Any, wire: bytes, part: tuple[int, int, int, int]
    ) -> bool:
        """Return whether a section still says what its octets say."""
        _, start, content, end = part
        if type(section) is Data:
            # Comparing the octets in place saves encoding a large body to find it unchanged.
            payload = content + (2 if wire[content] == 0xA0 else 5)
            held = section.data
            if isinstance(held, bytes):
                return len(held) == end - payload and wire.startswith(held, payload)
        if section is None:
            return _reread(kind, wire, part, self._lenient) is None
        now = self._encoded(kind, section)
        if len(now) == end - start and wire.startswith(now, start):
            return True
        before = _reread(kind, wire, part, self._lenient)
        return before is not None and self._encoded(kind, before) == now

    @property
    def bare(self) -> bytes:
        """The exact octets of the bare message, properties to body, for hashes and signatures."""
        encoded = self.encode()
        reader = _core.Reader(encoded, 0, UNLIMITED)
        ends = [part for part in reader.scan() if 0x73 <= part[0] <= 0x77]
        return encoded[ends[0][1] : ends[-1][3]] if ends else b""

    # Looking at it.

    def sections(self) -> list[tuple[str, Any]]:
        """List the sections as (name, section) pairs in the order they are encoded in.

        What a lenient decoding found and no attribute holds (sections that are unknown, repeated
        or not readable as what they are) stands here as `Described`, under ``unknown`` or its name.
        """
        encoded = self.encode()
        parts = _core.Reader(encoded, 0, UNLIMITED).scan()
        held = {kind.code: getattr(self, kind.attribute) for kind in _SECTION_KINDS}
        body = iter(self._body_sections())
        holders = self._holders(encoded, parts)
        listed: list[tuple[str, Any]] = []
        for part in parts:
            code, start, _, end = part
            section = None
            if _is_body(encoded, part):
                section = next(body, None)
            elif part in holders:
                section = held[code]
            if section is None:
                section = _core.decode_value(encoded[start:end], limits=UNLIMITED)
            listed.append((KINDS[code - 0x70].name if code >= 0 else "unknown", section))
        return listed

    def _canonical(self) -> bytes:
        if not self._lenient or self._wire is None:
            octets: bytes | None = _core.write_message(self)
            return octets or self._encode_new()
        writer = _core.Writer(True)
        for _, section in self.sections():
            writer.value(section)
        return writer.finish()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (
            self.message_format == other.message_format and self._canonical() == other._canonical()
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        shown = [f"body={self.body!r}"] if self.body is not None else []
        for kind in _SECTION_KINDS:
            section = getattr(self, kind.attribute)
            if section is not None:
                shown.append(f"{kind.attribute}={section!r}")
        if self.message_format:
            shown.append(f"message_format={self.message_format:#x}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some attributes replaced; sections that are not replaced are shared.

        The copy keeps the octets it came from, so unchanged sections stay byte for byte.

        Raises:
            TypeError: a message has no attribute of this name.
        """
        copy = self.__class__.__new__(self.__class__)
        given = Message(**changes)
        for field in attrs.fields(Message):
            setattr(copy, field.name, getattr(given if field.name in changes else self, field.name))
        return copy

    # What users ask a message for.

    def body_bytes(self) -> bytes:
        """Return the body's octets: Data sections joined, a binary value, or text as UTF-8.

        Raises:
            ValueError: the body is a sequence, or a value that is neither text nor binary.
        """
        body = self._body_sections()
        if all(type(part) is Data for part in body):
            return b"".join(bytes(part.data) for part in body)
        if len(body) == 1 and type(body[0]) is AmqpValue:
            value = body[0].value
            if isinstance(value, (bytes, bytearray, memoryview)):
                return bytes(value)
            if isinstance(value, str):
                return value.encode("utf-8")
        raise ValueError(f"the body is neither bytes nor text: {self.body!r:.80}")

    def text(self, encoding: str = "utf-8") -> str:
        """Return the body's text: a string value as it is, octets decoded.

        Args:
            encoding: of a body of octets.

        Raises:
            ValueError: the body is neither text nor bytes; UnicodeDecodeError, which is one, if
                the bytes are not text of this encoding.
        """
        body = self.body
        if type(body) is AmqpValue and isinstance(body.value, str):
            return str(body.value)
        return self.body_bytes().decode(encoding)

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
        """
        given_datetime = isinstance(arrival, datetime.datetime)
        arrived = _milliseconds(arrival)
        ends = []
        if self.header is not None and self.header.ttl is not None:
            ends.append(arrived + int(self.header.ttl))
        if self.properties is not None and self.properties.absolute_expiry_time is not None:
            ends.append(_milliseconds(self.properties.absolute_expiry_time))
        if not ends:
            return None
        return Timestamp(min(ends)).to_datetime() if given_datetime else min(ends)

    def remaining_ttl(
        self, arrival: datetime.datetime | int, now: datetime.datetime | int
    ) -> int | None:
        """Return the ttl to send on with, in milliseconds: what is left of it, 0 if it is over.

        Part 3, 3.2.1: the difference between the current time and the expiration time that was
        computed from the arrival. None where the message has no ttl.
        """
        if self.header is None or self.header.ttl is None:
            return None
        return max(_milliseconds(arrival) + int(self.header.ttl) - _milliseconds(now), 0)

    def for_next_hop(self, arrival: datetime.datetime | int, now: datetime.datetime | int) -> Self:
        """Return the message to send on: ttl reduced, delivery annotations gone.

        Delivery annotations are for the receiving peer alone (Part 3, 3.2.2). The bare message
        keeps its exact octets.
        """
        ttl = self.remaining_ttl(arrival, now)
        header = self.header
        if header is not None and ttl is not None:
            header = attrs.evolve(header, ttl=ttl)
        return self.evolve(header=header, delivery_annotations=None)


# The constructors of a value that a body section can have; an amqp-value may have any.
_BODY_CONSTRUCTORS = {0x75: b"\xa0\xb0", 0x76: b"\x45\xc0\xd0"}


def _is_body(wire: bytes, part: tuple[int, int, int, int]) -> bool:
    """Return whether a part is a body section that `Message.body` can hold."""
    code, _, content, _ = part
    return code == 0x77 or (
        code in _BODY_CONSTRUCTORS and wire[content] in _BODY_CONSTRUCTORS[code]
    )


def _milliseconds(moment: datetime.datetime | int) -> int:
    if isinstance(moment, datetime.datetime):
        return Timestamp.from_datetime(moment)
    return int(moment)


def _write(writer: Any, spec: Any, section: Any) -> None:
    try:
        _core.check_section(spec, section)
        writer.section(spec, section)
    except EncodeError as error:
        if error.path.startswith(spec.name):
            raise
        raise _located(spec, section, error) from None
    except (RecursionError, UnicodeEncodeError) as error:
        raise _located(spec, section, _core.encode_fault(error)) from None


def _located(spec: Any, section: Any, error: EncodeError) -> EncodeError:
    """Find the value that cannot be encoded, to name it in the error's path."""
    content = (
        section if isinstance(section, Mapping) else getattr(section, spec.attribute or "", None)
    )
    return EncodeError(error.reason, f"{spec.name}{error.path or _place(content)}")


# A value that contains itself has no end, and each level is encoded once more.
_MOST_PLACES = 16


def _place(value: Any, level: int = 0) -> str:
    """Return which of the values in this one cannot be encoded, as the rest of a path."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        entries = list(value.items())
    elif isinstance(value, (list, tuple)):
        entries = list(enumerate(value))
    elif isinstance(value, Array):
        entries = list(enumerate(value.values))
    elif isinstance(value, Described):
        return _place(value.value, level)
    for key, item in entries:
        try:
            _core.encode_value(item)
        except EncodeError:
            return f"[{key!r:.80}]" + (_place(item, level + 1) if level < _MOST_PLACES else "")
    return ""


def _reread(kind: SectionKind, wire: bytes, part: tuple[int, int, int, int], lenient: bool) -> Any:
    """Read a section again as it was decoded; None where it was not readable as what it is."""
    _, _, content, end = part
    if not lenient:
        return read_section(wire, kind, content, end, UNLIMITED)
    section = _readable(wire, kind, content, end)
    if section is not None:
        return section
    return _interpret(kind, _core.decode_value(wire[content:end], limits=UNLIMITED))


def _readable(wire: bytes, kind: SectionKind, content: int, end: int) -> Any:
    """Read a section's value as what it is, or give None; a search for the place would cost more.

    There may be as many unreadable sections as a third of the input has octets.
    """
    reader = _core.Reader(wire, content, UNLIMITED)
    reader.end = end
    try:
        return reader.section(SPECS[kind.code - 0x70])
    except _core.READ_FAULTS:
        return None


def _interpret(kind: SectionKind, value: Any) -> Any:
    """Make a section of a value that breaks the rules of its kind, or None if that cannot be.

    Values keep the types they came with.
    """
    if kind.source == "list" and kind.name != "amqp-sequence":
        fields = attrs.fields(kind.cls)
        if not isinstance(value, list) or len(value) > len(fields):
            return None
        made = kind.cls()
        for field, item in zip(fields, value, strict=False):
            if item is not None:
                setattr(made, field.name, item)
        return made
    if kind.source == "map":
        return kind.cls(value) if isinstance(value, dict) else None
    if kind.source == "binary":
        return Data(value) if isinstance(value, bytes) else None
    if kind.source == "list":
        return AmqpSequence(value) if isinstance(value, list) else None
    return AmqpValue(value)


def _read_leniently(cls: type[Message], data: Any, limits: Limits, message_format: int) -> Any:
    octets = _core.octets_of(data, limits)
    found: dict[str, Any] = {}
    body: list[Any] = []
    reader = _core.Reader(octets, 0, limits)
    try:
        parts = reader.scan()
        # One other reader for all of them, so that the limits hold for the whole input.
        reader = _core.Reader(octets, 0, limits)
        for code, start, content, end in parts:
            # Read everything, so that what does not parse is reported now and not later.
            reader.pos = content if code >= 0 else start
            reader.end = end
            value = reader.value()
            if code < 0:
                continue
            kind = KINDS[code - 0x70]
            section = _readable(octets, kind, content, end)
            if section is None:
                section = _interpret(kind, value)
            if section is None:
                continue
            if kind.attribute == "body":
                body.append(section)
            else:
                found.setdefault(kind.attribute, section)
    except _core.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None
    made = cls(message_format=message_format, **found)
    made.body = None if not body else body[0] if len(body) == 1 else body
    made._wire = octets
    made._lenient = True
    return made


_core.register_message(Message, _read_leniently)
