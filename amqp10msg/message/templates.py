"""The steps that encode messages which differ in a few values, for `Template`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

from amqp10msg.message._encoding import BODY_SPECS, body_sections, encoded, to_body, write
from amqp10msg.message.picks import check_paths
from amqp10msg.sections import (
    BODY_KINDS,
    KINDS,
    SPEC_BY_CODE,
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

Step = kernel.Step
_ANY_TYPE = 0  # in place of the kernel's number of an AMQP type: each value determines its own type
_COMPOUND_TYPES = (codes.KIND_LIST, codes.KIND_MAP, codes.KIND_ARRAY)
# Number of bytes before the entries of a map (constructor, size and count), by constructor.
_MAP_HEAD_SIZES = {0xC1: 3, 0xD1: 9}


class Prototype(Protocol):
    """The part of a `Message` that templates use."""

    body: Any
    _wire: bytes | None
    _lenient: bool

    def encode(self) -> bytes:
        """Return the encoded message."""

    def evolve(self) -> Self:
        """Return a copy that shares all sections."""


_Prototype = TypeVar("_Prototype", bound=Prototype)


class TemplatePlan(Generic[_Prototype]):
    """The prototype of a `Template`, and the path and type of each value that varies.

    Attributes:
        prototype: a copy of the message from which the template was created.
        paths: the paths of the values, in the order of the arguments of `Template.encode`.
        kinds: as `Template.kinds`.
    """

    def __init__(self, message: _Prototype, fields: tuple[str | tuple[str, type], ...]) -> None:
        """Resolve the types of the values; `fields` as in `Message.template`."""
        pairs = [field if isinstance(field, tuple) else (field, None) for field in fields]
        self.paths = [path_of(text) for text, _ in pairs]
        check_paths(self.paths)
        self.prototype = _unshared_copy(message)
        self._types = [
            self._resolve_type(path, declared)
            for path, (_, declared) in zip(self.paths, pairs, strict=True)
        ]
        self.kinds = tuple(
            "binary"
            if cls is Data
            else "list"
            if cls is AmqpSequence
            else codes.FIELD_TYPE_TEXTS.get(kind, "")
            for cls, kind in self._types
        )

    def fill_in(self, values: tuple[Any, ...]) -> _Prototype:
        """Return a copy of the prototype with these values. Encoding it checks their types.

        Raises:
            EncodeError: a value cannot be converted to its type.
            TypeError: there are more or fewer values than paths.
        """
        if len(values) != len(self.paths):
            raise TypeError(f"the template takes {len(self.paths)} values, not {len(values)}")
        message = _unshared_copy(self.prototype)
        for path, (cls, kind), value in zip(self.paths, self._types, values, strict=True):
            _set_value(
                message,
                path,
                cls,
                value if kind == _ANY_TYPE else _convert_to_type(path, kind, value),
            )
        return message

    # Resolve the type of each varying value.

    def _resolve_type(self, path: Path, declared: Any) -> tuple[type | None, int]:
        """Return the type of the value at `path` as a tuple.

        The first element is the class of the body section; None for a path outside of the body. The
        second element is the kernel's number of the value's AMQP type, or `_ANY_TYPE`.
        """
        if path.kind is None:
            return self._resolve_body_type(declared)
        if path.is_whole:
            if not (declared is None or declared is path.kind.cls):
                raise ValueError(
                    f"{path.text} is a section of class {path.kind.cls.__name__}, not "
                    f"{declared!r:.80}: omit the type"
                )
            return None, _ANY_TYPE
        kind = _ANY_TYPE if declared is None else _number_of_class(path, declared)
        if path.index >= 0:
            field_kind = SPEC_BY_CODE[path.kind.code].kinds[path.index]
            if not (
                kind in {_ANY_TYPE, field_kind}
                or (field_kind == codes.KIND_MESSAGE_ID and codes.KIND_IS_MESSAGE_ID[kind])
                or (field_kind == codes.KIND_ADDRESS and kind == codes.KIND_STRING)
            ):
                raise ValueError(
                    f"{path.text} is {codes.FIELD_TYPE_TEXTS[field_kind]}, not {declared!r:.80}"
                )
            return None, kind or field_kind
        if declared is None:
            value = (getattr(self.prototype, path.kind.attribute) or {}).get(path.key)
            kind = _number_of_value(value)
        if SPEC_BY_CODE[path.kind.code].shape == kernel.SHAPE_PROPERTIES:
            if kind in _COMPOUND_TYPES:
                raise ValueError(
                    f"{path.text} must have a simple type, not {codes.FIELD_TYPE_TEXTS[kind]}"
                )
            if kind == codes.KIND_DESCRIBED:
                return None, _ANY_TYPE  # each described value needs a check of its content
        return None, kind

    def _resolve_body_type(self, declared: Any) -> tuple[type | None, int]:
        """Return the class of the body section, and its type's number, as `_resolve_type`."""
        if declared is Data or declared is AmqpSequence:
            return declared, _ANY_TYPE
        if declared is bytes:
            return Data, _ANY_TYPE
        sections = body_sections(self.prototype.body, self.prototype._lenient)
        if declared is AmqpValue or (declared is None and not sections):
            return declared, _ANY_TYPE
        if declared is not None:
            return AmqpValue, _number_of_class(Path("body", None), declared)
        cls = type(sections[0])
        return cls, _number_of_value(sections[0].value) if cls is AmqpValue else _ANY_TYPE

    # Build the steps that the kernel executes to encode a message.

    def steps(self) -> list[Step]:
        """Return the steps for the whole message."""
        steps: list[Step] = []
        for kind in KINDS:
            if kind is BODY_KINDS[0]:
                steps += self._body_steps()
            elif kind.attribute != "body":
                steps += self._section_steps(kind)
        return _merge_copy_steps(steps)

    def _section_steps(self, kind: SectionKind) -> list[Step]:
        """Return the steps for a section outside of the body."""
        spec = SPEC_BY_CODE[kind.code]
        section: Any = getattr(self.prototype, kind.attribute)
        varying = [i for i, path in enumerate(self.paths) if path.kind is kind]
        if not varying:
            return [] if section is None else [Step(codes.STEP_COPY, encoded(kind, section, False))]
        if self.paths[varying[0]].is_whole:
            return [Step(codes.STEP_SECTION, source=varying[0], spec=spec)]
        if kind.source == "list":
            return self._list_section_steps(kind, section, varying)
        return self._map_section_steps(kind, section or {}, varying)

    def _list_section_steps(
        self, kind: SectionKind, section: Any, varying: list[int]
    ) -> list[Step]:
        """Return the steps for a header or properties.

        `varying` contains the indexes in `self.paths` of the paths in this section.
        """
        spec = SPEC_BY_CODE[kind.code]
        section = kind.cls() if section is None else section
        sources = {self.paths[i].index: i for i in varying}
        steps: list[Step] = []
        for index, name in enumerate(spec.names):
            default = spec.defaults[index]
            if index in sources:
                source = sources[index]
                kind_of_value = self._types[source][1]
                steps.append(
                    Step(
                        codes.STEP_FIELD,
                        source=source,
                        kind=kind_of_value,
                        index=index,
                        default=default,
                    )
                )
                continue
            octets = _encode_field(kind, name, getattr(section, name.replace("-", "_")))
            if octets:
                first = index
                if steps and steps[-1].action == codes.STEP_FIELDS:
                    last = steps.pop()
                    octets = (last.octets or b"") + b"\x40" * (index - last.stop) + octets
                    first = last.index
                steps.append(Step(codes.STEP_FIELDS, octets, index=first, stop=index + 1))
        return [
            Step(codes.STEP_COPY, spec.head),
            Step(codes.STEP_OPEN),
            *steps,
            Step(codes.STEP_LIST),
        ]

    def _map_section_steps(
        self, kind: SectionKind, section: Mapping[Any, Any], varying: list[int]
    ) -> list[Step]:
        """Return the steps for a map section; `varying` as in `_list_section_steps`."""
        spec = SPEC_BY_CODE[kind.code]
        sources = {_plain_key(self.paths[i]): i for i in varying}
        entries = {**section, **{key: None for key in sources if key not in section}}
        steps = [Step(codes.STEP_COPY, spec.head), Step(codes.STEP_OPEN)]
        for key, value in entries.items():
            source = sources.get(key, -1)
            octets = _encode_entry(kind, key, None if source >= 0 else value)
            if source < 0:
                steps.append(Step(codes.STEP_COPY, octets))
                continue
            type_ = self._types[source][1]
            is_simple = spec.shape == kernel.SHAPE_PROPERTIES
            action = (
                codes.STEP_TYPED
                if type_
                else codes.STEP_PROPERTY
                if is_simple
                else codes.STEP_VALUE
            )
            steps.append(Step(codes.STEP_COPY, octets[:-1]))
            steps.append(Step(action, source=source, kind=type_))
        return [*steps, Step(codes.STEP_MAP, index=2 * len(entries))]

    def _body_steps(self) -> list[Step]:
        """Return the steps for the body."""
        source = next((i for i, path in enumerate(self.paths) if path.kind is None), -1)
        if source < 0:
            writer = kernel.Writer()
            for section in body_sections(self.prototype.body, self.prototype._lenient):
                write(writer, BODY_SPECS[type(section)], section)
            return [Step(codes.STEP_COPY, writer.finish())]
        cls, kind = self._types[source]
        if cls is None:
            return [Step(codes.STEP_BODY, source=source)]
        action = (
            (codes.STEP_TYPED if kind else codes.STEP_VALUE)
            if cls is AmqpValue
            else (codes.STEP_DATA if cls is Data else codes.STEP_SEQUENCE)
        )
        return [Step(codes.STEP_COPY, BODY_SPECS[cls].head), Step(action, source=source, kind=kind)]


def _merge_copy_steps(steps: list[Step]) -> list[Step]:
    """Return the steps with the bytes of each STEP_COPY merged into the next step."""
    merged: list[Step] = []
    copied = b""
    for step in steps:
        if step.action == codes.STEP_COPY:
            copied += step.octets or b""
        else:
            merged.append(step if not copied else step.after(copied))
            copied = b""
    return [*merged, Step(codes.STEP_COPY, copied)] if copied else merged


def _unshared_copy(message: _Prototype) -> _Prototype:
    """Return a copy of a message that shares no sections and has no original bytes."""
    copied = message.evolve()
    copied._wire = None
    copied._lenient = False
    for kind in KINDS:
        if kind.attribute != "body":
            section = getattr(copied, kind.attribute)
            if type(section) is not AmqpMap:
                section = copy.copy(section)
            setattr(copied, kind.attribute, section)
    return copied


def _encode_field(kind: SectionKind, name: str, value: Any) -> bytes:
    """Return the encoding of one field of a list section; empty if encoding omits the field."""
    section = kind.cls()
    setattr(section, name.replace("-", "_"), value)
    octets = encoded(kind, section, False)[len(SPEC_BY_CODE[kind.code].head) :]
    if octets[0] == 0x45:
        return b""
    index = SPEC_BY_CODE[kind.code].names.index(name)
    return octets[(3 if octets[0] == 0xC0 else 9) + index :]


def _encode_entry(kind: SectionKind, key: Any, value: Any) -> bytes:
    """Return the encoding of one entry of a map section."""
    octets = encoded(kind, kind.cls({key: value}), False)[len(SPEC_BY_CODE[kind.code].head) :]
    return octets[_MAP_HEAD_SIZES[octets[0]] :]


def _number_of_class(path: Path, declared: Any) -> int:
    """Return the kernel's number of the AMQP type with the Python class `declared`."""
    kind = (
        codes.KIND_OF_PYTHON_TYPE.get(declared, _ANY_TYPE)
        if isinstance(declared, type)
        else _ANY_TYPE
    )
    if kind in {_ANY_TYPE, codes.KIND_NULL}:
        raise ValueError(f"{path.text}: {declared!r:.80} is not the class of an AMQP type")
    return _wire_number(kind)


def _number_of_value(value: Any) -> int:
    """Return the kernel's number of a value's AMQP type; `_ANY_TYPE` for None."""
    kind = codes.KIND_OF_PYTHON_TYPE.get(type(value), _ANY_TYPE)
    return _ANY_TYPE if kind == codes.KIND_NULL else _wire_number(kind)


def _wire_number(kind: int) -> int:
    """Return the number of the AMQP type on the wire, for the number of a Python type."""
    return {codes.KIND_DATETIME: codes.KIND_TIMESTAMP, codes.KIND_PAIRS: codes.KIND_MAP}.get(
        kind, kind
    )


def _convert_to_type(path: Path, kind: int, value: Any) -> Any:
    """Convert a value to the Python class of the AMQP type with the number `kind`.

    Raises:
        EncodeError: the value does not fit the type.
    """
    field_kind = (
        -1
        if path.kind is None or path.index < 0
        else SPEC_BY_CODE[path.kind.code].kinds[path.index]
    )
    if value is None or kind == field_kind:
        return value  # the encoder of the field converts the value
    writer = kernel.Writer()
    try:
        writer.typed(kind, value)
    except (EncodeError, RecursionError, UnicodeEncodeError) as error:
        fault = error if isinstance(error, EncodeError) else encode_fault(error)
        raise EncodeError(fault.reason, f"{_error_path(path)}{fault.path}") from None
    return decode_value(writer.finish())


def _error_path(path: Path) -> str:
    """Return a path in the notation of `EncodeError.path`, such as ``properties.to``."""
    if path.kind is None:
        return "amqp-value"
    if path.index >= 0:
        return f"{path.kind.name}.{SPEC_BY_CODE[path.kind.code].names[path.index]}"
    return f"{path.kind.name}[{_plain_key(path)!r:.80}]"


def _set_value(message: Prototype, path: Path, cls: type | None, value: Any) -> None:
    """Set the value at a path. The sections of `message` are changed: they must not be shared."""
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
        name = SPEC_BY_CODE[path.kind.code].names[path.index].replace("-", "_")
        setattr(section, name, value)
    else:
        section[_plain_key(path)] = value


def _plain_key(path: Path) -> str | int:
    """Return the key of an entry as a plain str or int."""
    return int(path.key) if isinstance(path.key, int) else str.__str__(path.key)
