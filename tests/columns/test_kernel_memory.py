"""The memory of the kernel of `columns`: given back, never shared, and never left."""

from __future__ import annotations

import gc
import sys

import pytest

from amqp10msg import Message
from bench.messages import REFERENCE
from tests.columns.column_rows import a_layout

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")
_decode = pytest.importorskip("amqp10msg.columns._decode")
fuzzing = pytest.importorskip("fuzz.columns")

if _decode.scan_kernel is None:
    pytest.skip(
        "the kernel of columns is not compiled: it needs a C compiler and make setup",
        allow_module_level=True,
    )


def test_memory_is_freed_and_never_shared() -> None:
    first = columns.decode([REFERENCE] * 2000)
    expected = fuzzing.plainly([REFERENCE] * 2000, columns.SCHEMA.names)
    kept = [first["message_id"], first["application_properties"]]
    for _ in range(5):
        columns.decode([Message("other").encode()] * 2000)
        columns.decode([b"\xff" * 500] * 20)
        gc.collect()

    assert expected.equals(first)
    del first
    gc.collect()
    columns.decode([Message(b"other" * 100).encode()] * 2000)
    assert kept[0].equals(expected["message_id"])
    assert kept[1].equals(expected["application_properties"])


@pytest.mark.parametrize("size", [4, 8])
def test_message_offsets_outside_the_data_are_refused(size: int) -> None:
    layout = a_layout()
    data = pa.py_buffer(REFERENCE)
    for offsets in ([0, 501], [-1, 5], [400, 300], [0, 2**31 - 1], [0, 500]):
        ends = pa.py_buffer(b"".join(o.to_bytes(size, sys.byteorder, signed=True) for o in offsets))
        arguments = (data.address, data.size, ends.address, ends.size, size, 0, 0, 0, 1)
        bounds = (5, 5, 4, 500, 5, 5)
        if offsets == [0, 500]:
            found = layout.read(*arguments, *bounds)
            assert (pa.record_batch({"a": pa.nulls(1, pa.string())}), []) == found
        else:
            with pytest.raises(ValueError, match="point outside"):
                layout.read(*arguments, *bounds)


def test_array_shorter_than_declared() -> None:
    layout = a_layout()

    assert (pa.record_batch({"a": pa.nulls(0, pa.string())}), []) == layout.read(
        0, 0, 0, 0, 4, 0, 0, 0, 0, 5, 5, 4, 5, 5, 5
    )
    for arguments in ((0, 0, 0, 0, 4, 0, 0, 0, 1), (0, 0, 0, 8, 4, 1, 0, 0, 1)):
        with pytest.raises(ValueError, match="too small for its rows"):
            layout.read(*arguments, 5, 5, 4, 5, 5, 5)
    for first, rows, width in ((-1, 0, 4), (0, -1, 4), (0, 0, 5)):
        with pytest.raises(ValueError, match="offset width of the array is invalid"):
            layout.read(0, 0, 0, 0, width, 0, 0, first, rows, 5, 5, 4, 5, 5, 5)
