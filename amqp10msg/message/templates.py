"""Messages that differ in a few values alone: `Template`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amqp10msg.message._encoding import BODY_SPECS, body_sections, encoded, to_body, write
from amqp10msg.message.picks import check_paths
from amqp10msg.sections import (
    BODY_KINDS,
    KINDS,
    SPEC_OF,
    AmqpSequence,
    AmqpValue,
    Data,
    SectionKind,
)
from amqp10msg.sections.paths import Path, path_of
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel import codes, decode_value, encode_fault
from amqp10msg.wire.primitives import AmqpMap

if TYPE_CHECKING:
    from amqp10msg.message import Message

__all__ = ["Template"]

Step = kernel.Step
_ANY = 0  # the number of no type
_COMPOUND = (codes.KIND_LIST, codes.KIND_MAP, codes.KIND_ARRAY)
# The constructors of maps: the bytes before their entries.
_MAP_HEADS = {0xC1: 3, 0xD1: 9}


class Template(kernel.Pattern):
    """Encodes messages that differ in a few values, which are all that is written each time.

        template = Message(
            b"", application_properties={"attempt": Int(0), "tenant": "acme"}
        ).template("properties.message_id", "application_properties.attempt", "body")
        data = template.encode("m-1", 3, b"...")

    Made by `Message.template`. `encode` gives, byte for byte, what `message` with the same values
    gives when it is encoded. Later changes of the prototype's sections have no effect.

    The type of a value is that of its field in Part 3; of an entry or the body, the one that the
    prototype has there, or a declared one; otherwise it is that of the value given, as in a
    message. A plain int, str or float is taken for any type that it fits; None is null in an entry
    and in an amqp-value, and leaves out a field or a section. A body has sections of the
    prototype's kind, and of a declared one where that is ``Data`` or ``AmqpSequence``.

    Attributes:
        paths: the paths of the values, in the order that `encode` takes these in.
        kinds: the names of their AMQP types, in the same order; an empty text where each value has
            its own.
    """

    __slots__ = ("_declared", "_places", "_prototype", "_types", "kinds", "paths")

    def __init__(self, message: Message, fields: tuple[str | tuple[str, type], ...]) -> None:
        """Take a prototype and what varies in it, as `Message.template` does."""
        given = [field if isinstance(field, tuple) else (field, None) for field in fields]
        self._declared = fields
        self._places = [path_of(text) for text, _ in given]
        check_paths(self._places)
        self._prototype = _copied(message)
        self._types = [
            self._type(path, declared)
            for path, (_, declared) in zip(self._places, given, strict=True)
        ]
        self.paths = tuple(path.text for path in self._places)
        self.kinds = tuple(
            "binary"
            if cls is Data
            else "list"
            if cls is AmqpSequence
            else codes.WANTED.get(kind, "")
            for cls, kind in self._types
        )
        super().__init__(self._all_steps(), len(fields), self._encoded)

    def __repr__(self) -> str:
        return f"Template({', '.join(map(repr, self.paths))})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Template, (self._prototype, self._declared))

    def message(self, *values: Any) -> Message:
        """Return the message that `encode` encodes with these values.

        Raises:
            EncodeError: a value cannot be encoded; the error says where, as `Message.encode` does.
            TypeError: there are more or fewer values than paths.
        """
        made = self._filled(values)
        made.encode()  # checks the types of all values in the way that `encode` does
        return made

    def _filled(self, values: tuple[Any, ...]) -> Message:
        """Return the prototype with these values in it; encoding it checks their types."""
        if len(values) != len(self.paths):
            raise TypeError(f"the template takes {len(self.paths)} values, not {len(values)}")
        made = _copied(self._prototype)
        for path, (cls, kind), value in zip(self._places, self._types, values, strict=True):
            _put(made, path, cls, value if kind == _ANY else _typed(path, kind, value))
        return made

    def _encoded(self, values: tuple[Any, ...]) -> bytes:
        return self._filled(values).encode()

    # What is known of the types when the template is made.

    def _type(self, path: Path, declared: Any) -> tuple[type | None, int]:
        """Return the section of a body that is known, and the number of a value's type."""
        if path.kind is None:
            return self._type_of_body(declared)
        if path.is_whole:
            if not (declared is None or declared is path.kind.cls):
                raise ValueError(f"{path.text} is {path.kind.cls.__name__}, not {declared!r:.80}")
            return None, _ANY
        kind = _ANY if declared is None else _number(path, declared)
        if path.index >= 0:
            own = SPEC_OF[path.kind.code].kinds[path.index]
            if not (
                kind in {_ANY, own}
                or (own == codes.KIND_MESSAGE_ID and codes.IS_MESSAGE_ID[kind])
                or (own == codes.KIND_ADDRESS and kind == codes.KIND_STRING)
            ):
                raise ValueError(f"{path.text} is {codes.WANTED[own]}, not {declared!r:.80}")
            return None, kind or own
        if declared is None:
            held = (getattr(self._prototype, path.kind.attribute) or {}).get(path.key)
            kind = _number_of(held)
        if SPEC_OF[path.kind.code].shape == kernel.SHAPE_PROPERTIES:
            if kind in _COMPOUND:
                raise ValueError(f"{path.text} must have a simple type, not {codes.WANTED[kind]}")
            if kind == codes.KIND_DESCRIBED:
                return None, _ANY  # what is described has to be looked at each time
        return None, kind

    def _type_of_body(self, declared: Any) -> tuple[type | None, int]:
        if declared is Data or declared is AmqpSequence:
            return declared, _ANY
        if declared is bytes:
            return Data, _ANY
        sections = body_sections(self._prototype)
        if declared is AmqpValue or (declared is None and not sections):
            return declared, _ANY
        if declared is not None:
            return AmqpValue, _number(Path("body", None), declared)
        cls = type(sections[0])
        return cls, _number_of(sections[0].value) if cls is AmqpValue else _ANY

    # The steps.

    def _all_steps(self) -> list[Step]:
        steps: list[Step] = []
        for kind in KINDS:
            if kind is BODY_KINDS[0]:
                steps += self._body()
            elif kind.attribute != "body":
                steps += self._section(kind)
        return _joined(steps)

    def _section(self, kind: SectionKind) -> list[Step]:
        spec = SPEC_OF[kind.code]
        section: Any = getattr(self._prototype, kind.attribute)
        varying = [i for i, path in enumerate(self._places) if path.kind is kind]
        if not varying:
            return [] if section is None else [Step(codes.STEP_COPY, encoded(kind, section, False))]
        if self._places[varying[0]].is_whole:
            return [Step(codes.STEP_SECTION, source=varying[0], spec=spec)]
        if kind.source == "list":
            return self._fields(kind, section, varying)
        return self._entries(kind, section or {}, varying)

    def _fields(self, kind: SectionKind, section: Any, varying: list[int]) -> list[Step]:
        spec = SPEC_OF[kind.code]
        section = kind.cls() if section is None else section
        sources = {self._places[i].index: i for i in varying}
        made: list[Step] = []
        for index, name in enumerate(spec.names):
            default = spec.defaults[index]
            if index in sources:
                source = sources[index]
                made.append(
                    Step(
                        codes.STEP_FIELD,
                        source=source,
                        kind=self._types[source][1],
                        index=index,
                        default=default,
                    )
                )
                continue
            octets = _field(kind, name, getattr(section, name.replace("-", "_")))
            if octets:
                first = index
                if made and made[-1].way == codes.STEP_FIELDS:
                    last = made.pop()
                    octets = (last.octets or b"") + b"\x40" * (index - last.stop) + octets
                    first = last.index
                made.append(Step(codes.STEP_FIELDS, octets, index=first, stop=index + 1))
        return [
            Step(codes.STEP_COPY, spec.head),
            Step(codes.STEP_OPEN),
            *made,
            Step(codes.STEP_LIST),
        ]

    def _entries(
        self, kind: SectionKind, section: Mapping[Any, Any], varying: list[int]
    ) -> list[Step]:
        spec = SPEC_OF[kind.code]
        sources = {_key(self._places[i]): i for i in varying}
        entries = {**section, **{key: None for key in sources if key not in section}}
        made = [Step(codes.STEP_COPY, spec.head), Step(codes.STEP_OPEN)]
        for key, value in entries.items():
            source = sources.get(key, -1)
            octets = _entry(kind, key, None if source >= 0 else value)
            if source < 0:
                made.append(Step(codes.STEP_COPY, octets))
                continue
            type_ = self._types[source][1]
            is_simple = spec.shape == kernel.SHAPE_PROPERTIES
            way = (
                codes.STEP_TYPED
                if type_
                else codes.STEP_PROPERTY
                if is_simple
                else codes.STEP_VALUE
            )
            made.append(Step(codes.STEP_COPY, octets[:-1]))
            made.append(Step(way, source=source, kind=type_))
        return [*made, Step(codes.STEP_MAP, index=2 * len(entries))]

    def _body(self) -> list[Step]:
        source = next((i for i, path in enumerate(self._places) if path.kind is None), -1)
        if source < 0:
            writer = kernel.Writer()
            for section in body_sections(self._prototype):
                write(writer, BODY_SPECS[type(section)], section)
            return [Step(codes.STEP_COPY, writer.finish())]
        cls, kind = self._types[source]
        if cls is None:
            return [Step(codes.STEP_BODY, source=source)]
        way = (
            (codes.STEP_TYPED if kind else codes.STEP_VALUE)
            if cls is AmqpValue
            else (codes.STEP_DATA if cls is Data else codes.STEP_SEQUENCE)
        )
        return [Step(codes.STEP_COPY, BODY_SPECS[cls].head), Step(way, source=source, kind=kind)]


def _joined(steps: list[Step]) -> list[Step]:
    """Return the same steps, with bytes that are copied as a part of the step after them."""
    made: list[Step] = []
    before = b""
    for step in steps:
        if step.way == codes.STEP_COPY:
            before += step.octets or b""
        else:
            made.append(step if not before else step.after(before))
            before = b""
    return [*made, Step(codes.STEP_COPY, before)] if before else made


def _copied(message: Message) -> Message:
    """Return a message of the same content that does not know what bytes it came from."""
    made = message.evolve()
    made._wire = None
    made._lenient = False
    for kind in KINDS:
        if kind.attribute != "body":
            section = getattr(made, kind.attribute)
            if type(section) is not AmqpMap:
                section = copy.copy(section)
            setattr(made, kind.attribute, section)
    return made


def _field(kind: SectionKind, name: str, value: Any) -> bytes:
    """Encode a field that does not vary; empty where it is left out."""
    section = kind.cls()
    setattr(section, name.replace("-", "_"), value)
    octets = encoded(kind, section, False)[len(SPEC_OF[kind.code].head) :]
    if octets[0] == 0x45:
        return b""
    index = SPEC_OF[kind.code].names.index(name)
    return octets[(3 if octets[0] == 0xC0 else 9) + index :]


def _entry(kind: SectionKind, key: Any, value: Any) -> bytes:
    """Encode an entry of a section that is a map."""
    octets = encoded(kind, kind.cls({key: value}), False)[len(SPEC_OF[kind.code].head) :]
    return octets[_MAP_HEADS[octets[0]] :]


def _number(path: Path, declared: Any) -> int:
    """Return the number of a declared type."""
    kind = codes.KINDS.get(declared, _ANY) if isinstance(declared, type) else _ANY
    if kind in {_ANY, codes.KIND_NULL}:
        raise ValueError(f"{path.text}: {declared!r:.80} is not the class of an AMQP type")
    return _settled(kind)


def _number_of(held: Any) -> int:
    """Return the number of the type that the prototype has; 0 for none."""
    kind = codes.KINDS.get(type(held), _ANY)
    return _ANY if kind == codes.KIND_NULL else _settled(kind)


def _settled(kind: int) -> int:
    return {codes.KIND_DATETIME: codes.KIND_TIMESTAMP, codes.KIND_PAIRS: codes.KIND_MAP}.get(
        kind, kind
    )


def _typed(path: Path, kind: int, value: Any) -> Any:
    """Return a value as one whose Python type says this AMQP type.

    Raises:
        EncodeError: it is of another.
    """
    own = -1 if path.kind is None or path.index < 0 else SPEC_OF[path.kind.code].kinds[path.index]
    if value is None or kind == own:
        return value  # the field says it as well
    writer = kernel.Writer()
    try:
        writer.typed(kind, value)
    except (EncodeError, RecursionError, UnicodeEncodeError) as error:
        fault = error if isinstance(error, EncodeError) else encode_fault(error)
        raise EncodeError(fault.reason, f"{_where(path)}{fault.path}") from None
    return decode_value(writer.finish())


def _where(path: Path) -> str:
    """Return a path as errors of encoding write it."""
    if path.kind is None:
        return "amqp-value"
    if path.index >= 0:
        return f"{path.kind.name}.{SPEC_OF[path.kind.code].names[path.index]}"
    return f"{path.kind.name}[{_key(path)!r:.80}]"


def _put(message: Message, path: Path, cls: type | None, value: Any) -> None:
    """Set what a path says in a message whose sections are its own."""
    if path.kind is None:
        message.body = to_body(value) if cls is None else cls(value)
        return
    if path.is_whole:
        is_map = path.kind.source == "map" and isinstance(value, Mapping)
        setattr(message, path.kind.attribute, path.kind.cls(value) if is_map else value)
        return
    section = getattr(message, path.kind.attribute)
    if section is None:
        section = path.kind.cls()
        setattr(message, path.kind.attribute, section)
    if path.index >= 0:
        name = SPEC_OF[path.kind.code].names[path.index].replace("-", "_")
        setattr(section, name, value)
    else:
        section[_key(path)] = value


def _key(path: Path) -> str | int:
    """Return the key of an entry as a user would write it."""
    return int(path.key) if isinstance(path.key, int) else str.__str__(path.key)
