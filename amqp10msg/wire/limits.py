"""Limits on the cost of decoding, which are checked before memory is allocated."""

from __future__ import annotations

import attrs

__all__ = ["DEFAULT_LIMITS", "FREE_ZERO_WIDTH", "UNLIMITED", "Limits"]

# A level of nesting needs some 200 bytes of C stack in the compiled build and two Python frames in
# the pure build; 256 levels fit into the smallest usual thread stack (128 KiB with musl), and stay
# below Python's recursion limit of 1,000. Real messages have about ten levels.
_MAX_DEPTH = 256
# The most expensive item is list0: one byte of input becomes an empty Python list of 56 bytes and
# a pointer. Therefore a million items cost at most 64 MB, whatever counts the input states.
_MAX_ITEMS = 1_000_000
# Zero-width elements of an array cost the sender no bytes: ten bytes can announce 2^32 - 1 values.
# All such arrays of one input share a budget. It grows with the input, so that many small messages
# together get at most as many elements as one message of their total size.
_MAX_ZERO_WIDTH_ELEMENTS = 65_536
# 64 elements per byte allow any number of arrays of the encoding array8, each of which has 4 bytes
# and at most 255 elements.
_MAX_ZERO_WIDTH_ELEMENTS_PER_BYTE = 64
#: Number of zero-width elements that any input may have, which is the maximum count of an array8.
FREE_ZERO_WIDTH = 255
# Maximum ratio of decompressed to compressed size. Real data seldom compresses to less than a
# fiftieth of its size, whereas zeros compress to a thousandth.
_MAX_EXPANSION_RATIO = 100
# The highest value of `Limits.zero_width_per_byte`. Its product with the size of any input fits
# into 64 bits.
_UPPER_BOUND_OF_ZERO_WIDTH_PER_BYTE = 2**20
_COUNT_VALIDATORS = [attrs.validators.ge(0), attrs.validators.le(2**62)]


@attrs.frozen
class Limits:
    """The limits of one call of a decoder.

    A message or value that exceeds `depth`, `items`, `zero_width`, `zero_width_per_byte` or `size`
    raises `DecodeError` with the condition ``amqp:resource-limit-exceeded``. So does a section of
    annotations with more than 4,096 ulong keys, which is a fixed limit. A file that exceeds
    `expansion_ratio` is read up to the limit, and the last record states the error; a Parquet file
    with too many rows raises ValueError.

    Attributes:
        depth: maximum nesting of lists, maps, arrays and described values, 1 to 256.
        items: maximum number of values in lists, maps and arrays, in the whole input. `scan` and
            lenient decoding count a section as four values.
        zero_width: maximum number of array elements without bytes, such as nulls, in the whole
            input. In a file, maximum number of records without bytes.
        zero_width_per_byte: maximum number of elements or records without bytes for each byte of
            the input, 0 to 2^20, in addition to the 255 that any input may have. The lower of both
            limits applies.
        size: maximum size of the input in bytes, or None for no limit.
        expansion_ratio: maximum ratio of a file's decompressed size to its size, and of the rows
            of a Parquet file to its bytes. It applies beyond 64 MiB in a gzip or Avro file, and
            beyond a million rows and 256 MiB per row group in a Parquet file.
    """

    depth: int = attrs.field(
        default=_MAX_DEPTH, validator=[attrs.validators.ge(1), attrs.validators.le(_MAX_DEPTH)]
    )
    items: int = attrs.field(default=_MAX_ITEMS, validator=_COUNT_VALIDATORS)
    zero_width: int = attrs.field(default=_MAX_ZERO_WIDTH_ELEMENTS, validator=_COUNT_VALIDATORS)
    size: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(0))
    )
    expansion_ratio: int = attrs.field(default=_MAX_EXPANSION_RATIO, validator=_COUNT_VALIDATORS)
    zero_width_per_byte: int = attrs.field(
        default=_MAX_ZERO_WIDTH_ELEMENTS_PER_BYTE,
        validator=[
            attrs.validators.ge(0),
            attrs.validators.le(_UPPER_BOUND_OF_ZERO_WIDTH_PER_BYTE),
        ],
    )

    def zero_width_of(self, size: int) -> int:
        """Return how many zero-width elements an input of `size` bytes may have."""
        # ValueReader.begin, and read_message in the package columns, compute the same number in C.
        return min(self.zero_width, FREE_ZERO_WIDTH + self.zero_width_per_byte * size)


DEFAULT_LIMITS = Limits()
# Limits for decoding input again that has already been decoded within the caller's limits.
UNLIMITED = Limits(
    items=2**62,
    zero_width=2**62,
    expansion_ratio=2**62,
    zero_width_per_byte=_UPPER_BOUND_OF_ZERO_WIDTH_PER_BYTE,
)
