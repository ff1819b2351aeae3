"""Sections written one by one, to say in which of their values a fault is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp10msg.sections import SPEC_OF, SectionKind
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import AmqpMap, Array, Described, ULong


def encoded(kind: SectionKind, section: Any, lenient: bool) -> bytes:
    """Encode one section."""
    writer = kernel.Writer(lenient)
    write(writer, SPEC_OF[kind.code], section)
    return writer.finish()


def write(writer: Any, spec: Any, section: Any) -> None:
    """Write one section; the path of an EncodeError says where the fault is."""
    try:
        if type(section) is AmqpMap and writer.lenient:
            # What a section that is a map holds, and no dict can.
            writer.value(Described(ULong(spec.code), section))
            return
        kernel.check_section(spec, section)
        writer.section(spec, section)
    except EncodeError as error:
        if error.path.startswith(spec.name):
            raise
        raise _located(spec, section, error) from None
    except (RecursionError, UnicodeEncodeError) as error:
        raise _located(spec, section, kernel.encode_fault(error)) from None


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
            kernel.encode_value(item)
        except EncodeError:
            return f"[{key!r:.80}]" + (_place(item, level + 1) if level < _MOST_PLACES else "")
    return ""
