"""Bounds on what decoding may cost, checked before anything is allocated."""

from __future__ import annotations

import attrs

__all__ = ["DEFAULT_LIMITS", "UNLIMITED", "Limits"]

# A level takes some 200 bytes of C stack in the compiled build and two Python frames in the pure
# one; 256 levels stay below both the smallest usual thread stack (128 KiB of musl) and Python's
# recursion limit of 1,000. Real messages nest about ten levels.
_MAX_DEPTH = 256
# The costliest item is list0: one byte of input makes an empty Python list, 56 bytes and a
# pointer. A million items therefore cost at most 64 MB, whatever the input says.
_MAX_ITEMS = 1_000_000
# An array of zero-width elements has a count that nothing in the input pays for (ten bytes may
# ask for 2^32 - 1 values), so all of them in one input share this budget.
_MAX_ZERO_WIDTH = 65_536
# Of what machines write, little packs to less than a fiftieth; zeros pack to a thousandth.
_MAX_EXPANSION = 100
_COUNT = [attrs.validators.ge(0), attrs.validators.le(2**62)]


@attrs.frozen
class Limits:
    """What one call of a decoder may use; exceeding one raises `DecodeError`.

    The condition of that error is ``amqp:resource-limit-exceeded``.

    Attributes:
        depth: nested lists, maps, arrays and described values, at most (1 to 256).
        items: values in lists, maps and arrays, in the whole input. `scan` and lenient decoding
            count a section as four.
        zero_width: elements of arrays whose elements take no bytes, in the whole input. Of a
            file, records without a byte.
        size: bytes of input, or None for no bound of its own.
        expansion: bytes, and rows of Parquet, that a file may make of each of its own, however few
            these are beyond 64 MiB of a gzip file or of Avro, and 256 MiB of a row group and a
            million rows of Parquet.
    """

    depth: int = attrs.field(
        default=_MAX_DEPTH, validator=[attrs.validators.ge(1), attrs.validators.le(_MAX_DEPTH)]
    )
    items: int = attrs.field(default=_MAX_ITEMS, validator=_COUNT)
    zero_width: int = attrs.field(default=_MAX_ZERO_WIDTH, validator=_COUNT)
    size: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(0))
    )
    expansion: int = attrs.field(default=_MAX_EXPANSION, validator=_COUNT)


DEFAULT_LIMITS = Limits()
# For reading again what was already accepted under the caller's own limits.
UNLIMITED = Limits(items=2**62, zero_width=2**62, expansion=2**62)
