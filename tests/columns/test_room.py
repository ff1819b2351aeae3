"""Columns of messages that say far more than they hold: refused, or made in pieces."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10msg import Message
from tests.columns.column_rows import decode

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")
_decode = pytest.importorskip("amqp10msg.columns._decode")


#: An array of 290 nulls: 13 bytes, and 2,628 of JSON.
NULLS = bytes.fromhex("005377f0000000050000012240")


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqp10msg.columns._decode._MIN_TEXT_BYTES", 5_400)


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize(
    "made", [decode, lambda octets: columns.decode_values([o[3:] for o in octets])]
)
def test_values_without_content_do_not_exhaust_memory(made: Any) -> None:
    # What is one message alone always fits.
    assert 1 == len(made([NULLS]))
    assert 2 == len(made([NULLS, NULLS]))
    with pytest.raises(ValueError, match="decode fewer messages per call"):
        made([NULLS] * 3)
    with pytest.raises(ValueError, match="decode fewer messages per call"):
        columns.decode(pa.chunked_array([pa.array([NULLS], pa.binary())] * 20))


@pytest.mark.usefixtures("little_room")
def test_oversized_batch_is_halved() -> None:
    sound = Message(b"body").encode()
    batch = pa.record_batch({"wire": pa.array([NULLS] * 5 + [sound] + [NULLS] * 6, pa.binary())})

    done = list(_decode.in_pieces(batch, lambda piece: columns.decode(piece.column("wire"))))

    # Two of these have room: halves of twelve, of six and of three are tried for that.
    assert [1, 2, 3, 1, 2, 1, 2] == [piece.num_rows for piece, _ in done]
    assert batch.column("wire").to_pylist() == [
        wire for piece, _ in done for wire in piece.column("wire").to_pylist()
    ]
    assert [decode([wire])[0] for wire in batch.column("wire").to_pylist()] == [
        row for _, found in done for row in found.to_pylist()
    ]


@pytest.mark.usefixtures("little_room")
def test_chunks_share_the_text_limit() -> None:
    picks = [f"application_properties.k{number}" for number in range(100)]
    sound = Message(b"", application_properties={"k1": "v"}).encode()
    chunks = [pa.array([sound] * 50, pa.binary())] * 20

    # Structs of nulls take far more than the messages.
    batch = columns.decode(pa.chunked_array(chunks), picks)
    assert 1_000 == batch.num_rows
    assert batch.nbytes > 2 * (5_400 + 32 * sum(chunk.nbytes for chunk in chunks))

    mapped = b"\0\x53\x72\xc1\x0e\2\xa3\1k" + NULLS[3:] + b"\0\x53\x77\x40"
    for name in ("message_annotations", "message_annotations.k"):
        with pytest.raises(ValueError, match="decode fewer messages per call"):
            columns.decode(pa.chunked_array([pa.array([mapped], pa.binary())] * 20), [name])


def test_single_message_over_size_limit_is_an_error() -> None:
    def work(piece: Any) -> None:
        raise _decode.TooMuchError(str(piece.num_rows))

    batch = pa.record_batch({"wire": pa.array([b"a", b"b"])})
    with pytest.raises(_decode.TooMuchError, match=r"^1$"):
        list(_decode.in_pieces(batch, work))
