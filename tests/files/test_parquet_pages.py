"""What the pages of Parquet say that they make, whatever the footer says."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message
from amqp10msg.files import read

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
from amqp10msg.files._pages import Pages  # noqa: E402

WIRE = [Message(b"x" * 50 + bytes([number])).encode() for number in range(200)]


def table_of(**how: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"wire": WIRE}), out, **how)
    return out.getvalue()


def varint(number: int) -> bytes:
    """A positive number of Thrift's compact protocol."""
    number, made = number * 2, b""
    while number > 127:
        made, number = made + bytes([number & 127 | 128]), number >> 7
    return made + bytes([number])


@given(
    st.sampled_from(["none", "snappy", "gzip", "zstd"]),
    st.booleans(),
    st.sampled_from(["1.0", "2.0"]),
    st.integers(1, 300),
    st.integers(1, 1 << 16),
)
def test_page_sizes_add_up_to_the_footer(
    codec: str, dictionary: bool, version: str, rows: int, page: int
) -> None:
    data = table_of(
        compression=codec,
        use_dictionary=dictionary,
        data_page_version=version,
        row_group_size=rows,
        data_page_size=page,
        write_batch_size=8,
    )
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    pages = Pages(io.BytesIO(data))
    for group in range(metadata.num_row_groups):
        said = metadata.row_group(group).total_byte_size  # with the headers of pages
        made = pages.measure(io.BytesIO(data), group, 1 << 40)
        assert made.octets <= said <= made.octets * 8 + 4096
        assert 0 == made.longest


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_page_larger_than_the_footer_size_is_refused(codec: str, tmp_path: Path) -> None:
    data = table_of(compression=codec, use_dictionary=False)
    assert b"\x15\x00\x15" == data[4:7]  # of a page header: it is a data page, and makes
    end = next(at for at in range(7, 20) if data[at] < 128) + 1
    path = tmp_path / "lies.parquet"
    path.write_bytes(data[:7] + varint(2**31 - 1) + data[end:])
    assert pq.ParquetFile(path).metadata.row_group(0).total_byte_size < 1 << 20

    (record,) = read(str(path))
    assert record.fault.startswith(
        "row group 0 has 2,147,483,647 bytes decompressed, more than 100 times"
    )


def test_delta_encoded_value_may_be_as_long_as_its_page() -> None:
    data = table_of(use_dictionary=False, column_encoding={"wire": "DELTA_BYTE_ARRAY"})
    made = Pages(io.BytesIO(data)).measure(io.BytesIO(data), 0, 1 << 40)

    assert made.octets == made.longest > 0


@given(st.binary(max_size=200))
def test_damaged_footer_is_an_error_or_harmless(octets: bytes) -> None:
    data = b"PAR1" + octets + len(octets).to_bytes(4, "little") + b"PAR1"
    made = None
    with contextlib.suppress(ValueError):
        made = Pages(io.BytesIO(data)).measure(io.BytesIO(data), 0, 1 << 20)
    assert made is None or made.octets >= 0
