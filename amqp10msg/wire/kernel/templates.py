# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Message templates: the constant parts of a message are encoded once, and values inserted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel.codes import (
    AMQP_VALUE,
    DATA,
    INTEGER_WIDTH_OF_KIND,
    KIND_ACCEPTS_STRING,
    KIND_BINARY,
    KIND_DESCRIBED,
    KIND_LIST,
    KIND_OF_PYTHON_TYPE,
    KIND_PAIRS,
    SECTION_SPECS,
    SPEC_OF_CLASS,
    STEP_BODY,
    STEP_COPY,
    STEP_DATA,
    STEP_FIELD,
    STEP_FIELDS,
    STEP_LIST,
    STEP_MAP,
    STEP_OPEN,
    STEP_PROPERTY,
    STEP_SEQUENCE,
    STEP_TYPED,
    STEP_VALUE,
)
from amqp10msg.wire.kernel.messages import check_section
from amqp10msg.wire.kernel.writer import Writer, is_default, not_simple

_NULL, _LIST0 = 0x40, 0x45
_ENCODED_NULLS = [b"\x40" * n for n in range(32)]


class Step:
    """A step of encoding a message: constant bytes, or the value of an argument."""

    def __init__(
        self,
        action: int,
        octets: bytes | None = None,
        *,
        source: int = -1,
        kind: int = 0,
        index: int = 0,
        stop: int = 0,
        default: Any = None,
        spec: Any = None,
    ) -> None:
        """Set the attributes.

        Args:
            action: what to write, a `STEP_` constant of `codes`.
            octets: for `STEP_FIELDS`, the encoded fields; else the bytes to write before the step.
            source: the index of the value among the arguments of `Pattern.encode`.
            kind: the kind of the value, a `KIND_` constant of `codes`.
            index: for fields of a composite, the index of the first field; for a map, the number of
                keys and values.
            stop: for `STEP_FIELDS`, the index after the last field.
            default: the default of a field.
            spec: the declaration of a section.
        """
        self.action = action
        self.octets = octets
        self.source = source
        self.kind = kind
        self.index = index
        self.stop = stop
        self.default = default
        self.spec = spec

    def after(self, octets: bytes) -> Step:
        """Set the bytes to write before the step, and return the step."""
        self.octets = octets
        return self


class Pattern:
    """Encodes messages in steps; the arguments of `encode` are the variable values."""

    def __init__(
        self, steps: list[Any], width: int, encode_fallback: Callable[[tuple[Any, ...]], bytes]
    ) -> None:
        """Set the attributes.

        Args:
            steps: the steps, in the order of the bytes.
            width: the number of variable values.
            encode_fallback: builds a message from the values and encodes it. It is called if a step
                fails, and raises the errors for invalid values.
        """
        self.steps = steps
        self.width = width
        self.encode_fallback = encode_fallback

    def encode(self, *values: Any) -> bytes:
        """Encode the message with these values, in the order of the paths.

        Raises:
            EncodeError: a value cannot be encoded; the path is the same as in `Message.encode`.
            TypeError: the number of values differs from the number of paths.
        """
        return self.encode_values(values)

    def encode_values(self, values: Any) -> Any:
        """Encode the message with these values."""
        if len(values) != self.width:
            raise TypeError(f"the template takes {self.width} values, not {len(values)}")
        writer = Writer.__new__(Writer)
        try:
            self.write(writer, values)
        except (EncodeError, RecursionError, UnicodeEncodeError):
            return self.encode_fallback(values)
        return writer.finish()

    def write(self, writer: Any, values: Any) -> None:
        """Write the bytes of all steps to `writer`."""
        mark = 0
        count = 0  # number of fields of the composite that were written
        for step in self.steps:
            action = step.action
            if action == STEP_FIELDS:
                if step.index > count:
                    writer.add(_ENCODED_NULLS[step.index - count])
                writer.add(step.octets)
                count = step.stop
                continue
            if step.octets is not None:
                writer.add(step.octets)
            if action == STEP_OPEN:
                mark = writer.open()
                count = 0
            elif action == STEP_MAP:
                writer.close(mark, 0xC1, step.index)
            elif action == STEP_LIST:
                if count == 0:
                    writer.depth -= 1
                    writer.drop_compound(mark)
                    writer.octet(_LIST0)
                else:
                    writer.close(mark, 0xC0, count)
            elif action != STEP_COPY:
                value = values[step.source]
                if action == STEP_FIELD:
                    if value is None or (
                        step.default is not None and is_default(value, step.default)
                    ):
                        continue
                    if step.index > count:
                        writer.add(_ENCODED_NULLS[step.index - count])
                    count = step.index + 1
                    write_typed(writer, step.kind, value)
                elif action == STEP_TYPED:
                    if value is None:
                        writer.octet(_NULL)
                    else:
                        write_typed(writer, step.kind, value)
                elif action == STEP_DATA:
                    write_typed(writer, KIND_BINARY, value)
                elif action == STEP_VALUE:
                    writer.put(KIND_OF_PYTHON_TYPE.get(type(value), 0), value)
                elif action == STEP_PROPERTY:
                    kind = KIND_OF_PYTHON_TYPE.get(type(value), 0)
                    if (
                        kind == 0 or KIND_LIST <= kind <= KIND_DESCRIBED or kind == KIND_PAIRS
                    ) and not_simple(value):
                        raise EncodeError("not simple")
                    writer.put(kind, value)
                elif action == STEP_SEQUENCE:
                    writer.typed(KIND_LIST, value)
                elif action == STEP_BODY:
                    write_body(writer, value)
                elif value is not None:
                    spec = step.spec
                    if type(value) is not spec.cls:
                        check_section(spec, value)
                    writer.section(spec, value)


def write_typed(writer: Any, kind: int, value: Any) -> None:
    """Write a value as an AMQP type, with a fast path for the usual Python types."""
    value_type = type(value)
    if value_type is str and KIND_ACCEPTS_STRING[kind]:
        writer.string(value)
    elif value_type is int and INTEGER_WIDTH_OF_KIND[kind]:
        writer.integer(kind, value)
    elif value_type is bytes and kind == KIND_BINARY:
        writer.text(value, 0xA0)
    else:
        writer.typed(kind, value)


def write_body(writer: Any, body: Any) -> None:
    """Write the body of a message, in any form that `Message` accepts."""
    if body is None:
        return
    kind = KIND_OF_PYTHON_TYPE.get(type(body), 0)
    if kind == KIND_BINARY:
        writer.add(SECTION_SPECS[DATA].head)
        writer.typed(KIND_BINARY, body)
    elif type(body) in SPEC_OF_CLASS or (
        type(body) is list and body and type(body[0]) in SPEC_OF_CLASS
    ):
        if not writer.body(body):
            raise EncodeError("no body")
    else:
        writer.add(SECTION_SPECS[AMQP_VALUE].head)
        writer.put(kind, body)
