# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""What is left to be read: a cursor with bounds and limits, and the errors that they raise.

- A reader is a cursor over one immutable bytes object. `end` is the end of the value that encloses
  the cursor; a child narrows it, must consume it exactly, and widens it again.
- Every size and count is compared with what is left before anything is sliced or allocated.
- Bytes that are not text raise UnicodeDecodeError from the codec; the one boundary, `fault`, turns
  that into a DecodeError with its offset, so that the hot path pays nothing for it.
- No C integer that comes from the wire is returned through a type with an error sentinel.
"""

from __future__ import annotations

from typing import Any

from amqp10msg.wire.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError
from amqp10msg.wire.kernel.codes import KIND_OF, LEAST
from amqp10msg.wire.kernel.path import path_of
from amqp10msg.wire.kernel.twin import Cursor
from amqp10msg.wire.limits import DEFAULT_LIMITS

_DEPTH = DEFAULT_LIMITS.depth
_ITEMS = DEFAULT_LIMITS.items
_ZERO_WIDTH = DEFAULT_LIMITS.zero_width

#: What reading may raise on bad input: `Bounded.fault` makes one DecodeError of them.
READ_FAULTS = (DecodeError, UnicodeDecodeError, RecursionError, MemoryError)
_NO_NAMES: dict[Any, Any] = {}


def is_local(error: BaseException) -> bool:
    """Return whether a fault of `READ_FAULTS` concerns the one section that it was found in."""
    if isinstance(error, DecodeError):
        return error.condition != RESOURCE_LIMIT_EXCEEDED
    return isinstance(error, UnicodeDecodeError)


def octets_of(data: Any, limits: Any) -> bytes:
    """Return the input as bytes, copied only if it could change under the reader."""
    if type(data) is bytes:
        if limits is DEFAULT_LIMITS:
            return data
    else:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"expected bytes, bytearray or memoryview, not {type(data).__name__}")
        data = bytes(data)
    if limits.size is not None and len(data) > limits.size:
        raise DecodeError(
            f"the input has {len(data)} bytes, more than the limit of {limits.size}",
            limits.size,
            rule="size-limit",
            condition=RESOURCE_LIMIT_EXCEEDED,
            data=data,
        )
    return data


def number_of_bytes(count: int, which: str) -> str:
    """Return how a text says so many bytes."""
    return f"{count} {which}byte{'' if count == 1 else 's'}"


class Bounded(Cursor):
    """A cursor over encoded values that stays within what encloses them.

    With `lenient` set, what can be told in spite of a fault is read: a map with a key that stands
    twice, an empty array without constructor, and fields that are not as they were declared.
    """

    def __init__(self, data: Any, pos: int, limits: Any) -> None:
        self.begin(data, pos, limits)

    def begin(self, data: Any, pos: int, limits: Any) -> None:
        """Set up a bare instance, which costs less than a call of the class."""
        self.buf = data
        self.pos = pos
        self.end = len(data)
        self.count = 0
        self.first = 0
        if limits is DEFAULT_LIMITS:
            # Three attribute look-ups saved, on the way that nearly every message goes.
            self.depth = _DEPTH
            self.items = _ITEMS
            self.zero_width = _ZERO_WIDTH
        else:
            self.depth = limits.depth
            self.items = limits.items
            self.zero_width = limits.zero_width

    # Faults. These only build the error, so that the raise stands where a reader looks for it.

    def truncated(self, pos: int, needed: int) -> DecodeError:
        if self.end < len(self.buf):
            return DecodeError(
                f"the value needs {number_of_bytes(needed, 'more ')}, but its enclosing value has "
                f"{max(self.end - pos, 0)} left",
                pos,
                rule="element-overruns-compound",
            )
        return DecodeError(
            f"the value needs {number_of_bytes(needed, 'more ')}, but the input has "
            f"{max(self.end - pos, 0)}",
            pos,
            rule="truncated",
        )

    def unknown(self, code: int, pos: int) -> DecodeError:
        return DecodeError(
            f"0x{code:02X} is not a format code of Part 1",
            pos,
            rule=f"unknown-constructor-0x{code:02x}",
        )

    def exceeded(self, what: str, pos: int) -> DecodeError:
        return DecodeError(
            f"{what}: pass wider Limits if the sender is trusted",
            pos,
            rule=what.split(":", maxsplit=1)[0].replace(" ", "-"),
            condition=RESOURCE_LIMIT_EXCEEDED,
        )

    def too_small(self, pos: int, size: int, least: int) -> DecodeError:
        return DecodeError(
            f"a size of {size} is less than the {least} bytes that it must cover",
            pos,
            rule="compound-size-too-small",
        )

    def trailing(self) -> DecodeError:
        return DecodeError(
            f"{number_of_bytes(len(self.buf) - self.pos, 'trailing ')} after the value",
            self.pos,
            rule="trailing-bytes",
        )

    def fault(self, error: BaseException, names: Any = _NO_NAMES) -> DecodeError:
        """Return a DecodeError with place and input for what was raised while reading."""
        fault = error if isinstance(error, DecodeError) else self.translated(error)
        fault.data = self.buf
        fault.path = path_of(self.buf, fault.offset, names)
        return fault

    def translated(self, error: BaseException) -> DecodeError:
        """Turn what a codec or the interpreter raised into a DecodeError."""
        if isinstance(error, UnicodeDecodeError):
            start = self.pos - len(error.object)
            if error.encoding == "ascii":
                return DecodeError(
                    f"a symbol holds byte 0x{error.object[error.start]:02X}, which is not ASCII",
                    start + error.start,
                    rule="symbol-not-ascii",
                )
            return DecodeError(
                f"a string is not UTF-8: {error.reason}", start + error.start, rule="invalid-utf8"
            )
        return self.exceeded(
            "depth limit: values are nested deeper than the interpreter allows", self.pos
        )

    # The depth gate: every value that holds values passes here.

    def enter(self, pos: int) -> None:
        self.depth -= 1
        if self.depth < 0:
            raise self.exceeded("depth limit: values are nested too deeply", pos)

    # Passing over.

    def take(self, n: int) -> int:
        """Pass over n bytes and return where they begin."""
        pos = self.pos
        if n > self.end - pos:
            raise self.truncated(pos, n)
        self.pos = pos + n
        return pos

    def span(self, code: int) -> int:
        """Pass over a variable-width value and return where its content begins."""
        if code & 0x10:
            return self.take(self.u32(self.take(4)))
        pos = self.pos
        if pos >= self.end:
            raise self.truncated(pos, 1)
        stop = pos + 1 + self.buf[pos]
        if stop > self.end:
            raise self.truncated(pos + 1, stop - pos - 1)
        self.pos = stop
        return pos + 1

    def skip(self) -> None:
        """Pass over one value without looking into compounds; nesting costs no stack."""
        pending = 1
        while pending:
            pending -= 1
            pos = self.take(1)
            code = self.buf[pos]
            if code == 0:
                # A descriptor and a value. Every round consumes an octet, so this is bounded.
                pending += 2
                continue
            if KIND_OF[code] == 0:
                raise self.unknown(code, pos)
            if code < 0xA0:
                self.take(LEAST[code])
            else:
                self.span(code)
