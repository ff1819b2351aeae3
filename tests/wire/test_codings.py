"""Content codings, and what `Message` makes of a body: text, JSON and types of applications."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import tracemalloc
import types
import uuid
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import AmqpSequence, ContentError, Data, Message, Properties, Symbol, UInt, validate
from amqp10msg.testing import messages
from amqp10msg.wire.codings import DEFAULT_LIMIT, compress, decompress
from tests.effort import calls

CODINGS: Any = st.sampled_from(["gzip", "deflate", "zstd"])
ALL: list[Any] = ["gzip", "deflate", "zstd"]
BOMB = 40_000_000


@pytest.fixture(autouse=True, scope="module")
def _zstandard() -> None:
    pytest.importorskip("zstandard", reason='needs zstandard: pip install "amqp10msg[zstd]"')


# Codings.


@given(st.binary(), CODINGS, st.none() | st.integers(1, 9))
def test_compressed_bytes_round_trip(octets: bytes, coding: Any, level: int | None) -> None:
    made = compress(octets, coding, level)

    assert octets == decompress(made, coding, limit=len(octets))
    assert made == compress(octets, coding, level)


@given(st.binary(), st.lists(CODINGS, min_size=1, max_size=4))
def test_several_codings_round_trip(octets: bytes, codings: list[Any]) -> None:
    made = octets
    for coding in codings:
        made = compress(made, coding)

    assert octets == decompress(made, ", ".join(codings).upper())


@given(st.binary(min_size=1), CODINGS, st.data())
def test_truncated_compressed_data_is_refused(
    octets: bytes, coding: Any, data: st.DataObject
) -> None:
    made = compress(octets, coding)
    short = made[: data.draw(st.integers(0, len(made) - 1))]

    with pytest.raises(ContentError):
        decompress(short, coding)


@given(st.binary(), CODINGS)
def test_any_bytes_are_restored_or_refused(octets: bytes, coding: Any) -> None:
    with contextlib.suppress(ContentError):
        assert len(decompress(octets, coding, limit=1_000)) <= 1_000


@pytest.mark.parametrize("coding", ALL)
def test_memory_of_a_bomb_stays_below_the_limit(coding: Any) -> None:
    bomb = compress(bytes(BOMB), coding)
    assert len(bomb) < BOMB / 900

    tracemalloc.start()
    try:
        with pytest.raises(ContentError, match="more than 100,000 bytes"):
            decompress(bomb, coding, limit=100_000)
        with pytest.raises(ContentError, match="more than 100,000 bytes"):
            decompress(compress(bomb, coding), f"{coding}, {coding}", limit=100_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000
    assert BOMB == len(decompress(bomb, coding, limit=BOMB))
    with pytest.raises(ContentError, match=f"more than {BOMB - 1:,} bytes"):
        decompress(bomb, coding, limit=BOMB - 1)


def test_many_members_are_read_in_time() -> None:
    members = gzip.compress(b"", mtime=0) * 20_000 + gzip.compress(b"x", mtime=0)

    assert b"x" == decompress(members, "gzip")
    assert calls(lambda: decompress(members, "gzip")) < 200_000
    frames = compress(b"a", "zstd") * 64
    assert b"a" * 64 == decompress(frames, "zstd")
    with pytest.raises(ContentError, match="more than 64 zstd frames"):
        decompress(frames + compress(b"a", "zstd"), "zstd")


def test_codings_as_other_senders_write_them() -> None:
    raw = zlib.compressobj(wbits=-15)
    assert b"x" * 99 == decompress(raw.compress(b"x" * 99) + raw.flush(), "deflate")
    assert b"x" == decompress(gzip.compress(b"x", mtime=0), "X-GZIP")
    for none in ("", "identity", "utf-8", "binary"):
        assert b"x" == decompress(b"x", none)


@pytest.mark.parametrize(
    "octets, coding, match",
    [
        (b"x", "br", "unknown content coding 'br'"),
        (b"x", "gzip, br", "unknown content coding 'br'"),
        (b"xyz", "gzip", "not valid gzip"),
        (zlib.compress(b"x") + b"yz", "deflate", "2 trailing bytes"),
        (gzip.compress(b"x", mtime=0) + b"yz", "gzip", "not valid gzip"),
        (b"", "gzip, gzip, gzip, gzip, gzip", "5 content codings"),
    ],
)
def test_invalid_compressed_data_is_refused(octets: bytes, coding: str, match: str) -> None:
    with pytest.raises(ContentError, match=match):
        decompress(octets, coding)
    with pytest.raises(ContentError, match="unknown content coding"):
        compress(b"", "br")  # type: ignore[arg-type]


# Bodies.


@given(st.lists(st.binary(), min_size=1, max_size=3), CODINGS)
def test_compressed_message_is_valid_and_round_trips(parts: list[bytes], coding: Any) -> None:
    message = Message([Data(part) for part in parts], properties=Properties(subject="s"))
    made = Message.decode(message.compressed(coding).encode())

    assert [] == validate(made)
    assert made.properties == Properties(subject="s", content_encoding=Symbol(coding))
    assert b"".join(parts) == made.content()
    assert Message(b"".join(parts), properties=message.properties) == made.decompressed()
    with pytest.raises(ContentError, match=f"is {coding} already"):
        made.compressed(coding)


@given(messages())
def test_content_equals_body_without_content_encoding(message: Message) -> None:
    if message.properties is None or message.properties.content_encoding is None:
        assert message is message.decompressed()
        with contextlib.suppress(ContentError):
            assert message.body_bytes() == message.content()


def test_only_data_is_compressed() -> None:
    for body in ("text", [1], AmqpSequence([b"x"])):
        with pytest.raises(ContentError, match="make it Data"):
            Message(body).compressed("gzip")


@given(st.text(), st.sampled_from(["utf-8", "utf-16", "iso-8859-1"]), CODINGS)
def test_text_is_of_the_charset_of_its_type(text: str, charset: str, coding: Any) -> None:
    try:
        octets = text.encode(charset)
    except UnicodeEncodeError:
        return
    given_ = Properties(content_type=f'text/plain; Charset="{charset}"; format=flowed')
    message = Message(octets, properties=given_)

    assert text == message.text()
    assert text == message.compressed(coding).text()
    assert octets.decode("iso-8859-1") == message.text("iso-8859-1")


def test_unknown_charset_is_a_content_error() -> None:
    message = Message(b"x", properties=Properties(content_type="text/plain; charset=klingon"))
    with pytest.raises(ContentError, match="unknown charset 'klingon'"):
        message.text()
    assert "x" == message.text("ascii")
    celery = Properties(content_type="application/json", content_encoding="utf-8")
    assert [1] == Message(b"[1]", properties=celery).json()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values, CODINGS)
@example([[1]], "gzip")
def test_json_round_trips(value: Any, coding: Any) -> None:
    document = json.dumps(value)

    assert value == Message(document).json()
    assert value == Message(document.encode()).compressed(coding).json()


@pytest.mark.parametrize("body", [b"{", "{]", b"", b"[" * 100_000])
def test_invalid_json_is_a_content_error(body: Any) -> None:
    with pytest.raises(ContentError, match=r"not valid JSON|nested too deeply"):
        Message(body).json()


# Types of applications.


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


def order_types() -> list[Any]:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    msgspec = pytest.importorskip("msgspec", reason="msgspec is not installed")
    fields = {"id": int, "lines": list[str]}
    return [
        pydantic.create_model("Order", **{name: (kind, ...) for name, kind in fields.items()}),
        msgspec.defstruct("Order", list(fields.items())),
    ]


@given(st.integers(0, 2**31), st.lists(st.text()), CODINGS)
def test_a_body_becomes_a_model_or_struct(number: int, lines: list[str], coding: Any) -> None:
    content = {"id": number, "lines": lines}
    document = json.dumps(content).encode()
    for order in order_types():
        expected = order(**content)
        for message in (
            Message(document),
            Message(document.decode()),
            Message(document).compressed(coding),
            Message({"id": UInt(number), "lines": lines}),
        ):
            received = Message.decode(message.encode())
            assert expected == received.decoded(order)
        many: Any = types.GenericAlias(list, (order,))
        assert [expected] == Message(b"[" + document + b"]").decoded(many)
        assert [expected] == Message(AmqpSequence([content])).decoded(many)


def test_decoded_to_other_types_and_mismatches() -> None:
    model, struct = order_types()
    import msgspec  # noqa: PLC0415
    import pydantic  # noqa: PLC0415

    assert Point(1) == Message(b'{"x": 1}').decoded(Point)
    assert {"a": 1} == Message({"a": 1}).decoded(dict[str, int])
    key = uuid.uuid4()
    assert [key] == Message([key]).decoded(list[uuid.UUID])
    assert 5 == Message(b"5").decoded(pydantic.TypeAdapter(int))
    with pytest.raises(pydantic.ValidationError, match="lines"):
        Message(b'{"id": 1}').decoded(model)
    with pytest.raises(msgspec.ValidationError, match="lines"):
        Message(b'{"id": 1}').decoded(struct)
    with pytest.raises(msgspec.DecodeError):
        Message(b"{").decoded(struct)
    assert 1 == Message(b'{"id": "1", "lines": []}').decoded(struct, strict=False).id
    with pytest.raises(pydantic.ValidationError):
        Message(b'{"id": "1", "lines": []}').decoded(model, strict=True)
    bomb = Message(b'"' + b"x" * 100_000 + b'"').compressed("gzip")
    with pytest.raises(ContentError, match="more than 1,000 bytes"):
        bomb.decoded(str, limit=1_000)


def test_default_limit_is_64_mib() -> None:
    assert 64 * 1024 * 1024 == DEFAULT_LIMIT
