"""Messages, sections, values, composites, validation and notations."""

from __future__ import annotations

import datetime
import decimal
import importlib
from typing import Any

import attrs
import pytest

from amqp10msg import (
    AmqpSequence,
    Array,
    Data,
    Decimal128,
    Float,
    Header,
    Int,
    Message,
    Picker,
    Properties,
    Timestamp,
    decode_value,
    decode_values,
    differences,
    encode_value,
    load_rules,
    notation,
    rule,
    scan,
    skip_value,
    validate,
    validation,
)
from amqp10msg.composite import (
    composite,
    composite_of,
    decode_composite,
    encode_composite,
    from_described,
    read_composite,
    rows,
)
from amqp10msg.message import batch, checksums
from amqp10msg.sections import moment_of
from amqp10msg.wire import codings
from amqp10msg.wire.primitives import Described
from tests.documented_raises.calls import Call, Row, Rows, consume, received, without

OPEN_ENDED = object()
UNENCODABLE = Message(OPEN_ENDED)
TEXT = Message("text")
SEQUENCE = Message(AmqpSequence([1]))
#: Messages that only lenient decoding makes: the ttl and the message-id are of the wrong type.
WRONG_TTL = Message.decode(b"\x00\x53\x70\xc0\x06\x03\x40\x40\xa1\x01x", strict=False)
WRONG_ID = Message.decode(b"\x00\x53\x73\xc0\x02\x01\x41", strict=False)
UNKNOWN_CODING = Message(b"x", properties=Properties(content_encoding="br"))
NOT_GZIP = Message(b"x", properties=Properties(content_encoding="gzip"))
CUT_GZIP = Message(codings.compress(b"x" * 100, "gzip")[:-9], properties=NOT_GZIP.properties)
ZSTD = Message(b"x", properties=Properties(content_encoding="zstd"))
NOT_UTF8 = Message(b"\xff")
#: A header of the wrong type, and bytes after it that are not a value.
BAD_HEADER = b"\x00\x53\x70\xa1\x01x\x00\x53\x75\xa0\x00"
#: A body before its properties.
WRONG_ORDER = b"\x00\x53\x75\xa0\x00\x00\x53\x73\x45"
YEAR_10000 = 253_402_300_800_000


class _NotAttrs:
    pass


@attrs.define
class _NoAmqpType:
    field: complex


@attrs.define
class _NoFields:
    pass


def _model() -> Any:
    return importlib.import_module("pydantic").create_model("Order", number=(int, ...))


def _decoded_by(library: str, message: Message, wanted: Any) -> Any:
    pytest.importorskip(library)
    return message.decoded(
        wanted() if callable(wanted) and not isinstance(wanted, type) else wanted
    )


def _set_data() -> None:
    message = Message(b"")
    message.body = Data("text")  # type: ignore[arg-type]
    message.body_bytes()


CHECKSUM_CALLS: list[Call] = [checksums.faults, checksums.sign, checksums.verify]


def _checksum_rows(call: Call) -> dict[str, Row]:
    return {
        "ValueError": lambda: call(TEXT, b""),
        "TypeError": [
            lambda: call(TEXT, None),
            lambda: call(TEXT, "text"),
            lambda: call(b"", b"key"),
        ],
        "EncodeError": lambda: call(UNENCODABLE, b"key"),
    }


CORE: Rows = {
    "decode_value": {
        "DecodeError": [
            lambda: decode_value(b""),
            lambda: decode_value(b"\x40\x40"),
            lambda: decode_value(b"\x3f"),
        ]
    },
    "decode_values": {
        "DecodeError": [
            consume(lambda: decode_values(b"\x40\x3f")),
            consume(lambda: decode_values(b"\xa1\x05x")),
        ]
    },
    "skip_value": {
        "DecodeError": [
            lambda: skip_value(b""),
            lambda: skip_value(b"\x40", 1),
            lambda: skip_value(b"\xa1\x02x"),
        ]
    },
    "scan": {"DecodeError": [lambda: scan(b"\x3f"), lambda: scan(b"\x00\x53\x75\xa0\x05")]},
    "encode_value": {
        "EncodeError": [
            lambda: encode_value(OPEN_ENDED),
            lambda: encode_value(2**64),
            lambda: encode_value("\ud800"),
            lambda: encode_value(Array("int", [2**40])),
        ]
    },
    "Decimal128.from_decimal": {
        "ValueError": [
            lambda: Decimal128.from_decimal(decimal.Decimal("1" * 35)),
            lambda: Decimal128.from_decimal(decimal.Decimal("1E9999")),
            lambda: Decimal128.from_decimal("no number"),
        ],
        "TypeError": lambda: Decimal128.from_decimal(1.5),  # type: ignore[arg-type]
    },
    "Float": {"OverflowError": [lambda: Float(1e39), lambda: Float(10**400)]},
    "Float.from_bits": {
        "ValueError": [lambda: Float.from_bits(-1), lambda: Float.from_bits(2**32)],
        "TypeError": lambda: Float.from_bits(1.5),  # type: ignore[arg-type]
    },
    "Timestamp.from_datetime": {
        "TypeError": lambda: Timestamp.from_datetime(7),  # type: ignore[arg-type]
        "ValueError": lambda: Timestamp.from_datetime(datetime.datetime(2026, 1, 1)),  # noqa: DTZ001
    },
    "Timestamp.to_datetime": {
        "ValueError": [Timestamp(YEAR_10000).to_datetime, Timestamp(-(2**63)).to_datetime]
    },
    "Picker": {
        "ValueError": [
            lambda: Picker("colour"),
            lambda: Picker("header.colour"),
            lambda: Picker("body", "body"),
            lambda: Picker("header", "header.ttl"),
            lambda: Picker("application_properties[5]"),
        ],
        "DecodeError": lambda: Picker("header.ttl")(BAD_HEADER),
    },
    "Scan.replace": {
        "EncodeError": lambda: scan(TEXT.encode()).replace(footer={"x": OPEN_ENDED}),
        "DecodeError": lambda: scan(WRONG_ORDER).replace(header=Header()),
    },
    "Scan.section": {
        "DecodeError": lambda: scan(BAD_HEADER).section("header"),
        "ValueError": lambda: scan(b"").section("colour"),  # type: ignore[call-overload]
    },
    "Template.encode": {
        "EncodeError": lambda: TEXT.template("properties.message_id").encode(1.5),
        "TypeError": [
            lambda: TEXT.template("body").encode(),
            lambda: TEXT.template("body").encode(1, 2),
        ],
    },
    "Template.message": {
        "EncodeError": [
            lambda: TEXT.template(("application_properties.a", Int)).message("x"),
            lambda: TEXT.template("properties.message_id").message(1.5),
            lambda: TEXT.template("header.ttl").message("soon"),
        ],
        "TypeError": lambda: TEXT.template("body").message(),
    },
    "validate": {
        "TypeError": [
            lambda: validate("text"),  # type: ignore[arg-type]
            lambda: validate(b"", 7),  # type: ignore[arg-type]
            lambda: validate(b"", limits=7),  # type: ignore[arg-type]
        ],
        "ValueError": lambda: validate(b"", "rabbitmq-99"),  # type: ignore[arg-type]
    },
    "validation.first_fault": {
        "TypeError": lambda: validation.first_fault(b""),  # type: ignore[arg-type]
    },
    "validation.profile_of": {
        "TypeError": lambda: validation.profile_of(7),  # type: ignore[arg-type]
        "ValueError": lambda: validation.profile_of("rabbitmq-99"),
    },
    "rule": {"ValueError": [lambda: rule("Two words"), lambda: rule("truncated")]},
    "load_rules": {
        "OSError": lambda tmp_path: load_rules(tmp_path / "missing.py"),
        "ValueError": lambda: load_rules("/dev/null"),
    },
    "validation.Profile.derive": {
        "TypeError": lambda: validation.PROFILES["oasis"].derive(
            "x",
            "x",
            rules=[len],  # type: ignore[list-item]
        ),
        "ValueError": [
            lambda: validation.PROFILES["oasis"].derive("x", "x", without=("no-such-rule",)),
            lambda: validation.PROFILES["oasis"].derive(
                "x",
                "x",
                severities={"truncated": "fatal"},  # type: ignore[dict-item]
            ),
            lambda: validation.PROFILES["oasis"].derive(
                "x", "x", severities={"no-such-rule": "error"}
            ),
        ],
    },
    "sections.moment_of": {"ValueError": lambda: moment_of("yesterday")},
    "composite.composite": {
        "TypeError": [
            lambda: composite("test:not-attrs:list", 0x7E57)(_NotAttrs),
            lambda: composite("test:no-type:list", 0x7E57)(_NoAmqpType),
            lambda: composite("amqp:accepted:list", 0x7E57)(_NoFields),
            lambda: composite("test:taken:list", 0x24)(_NoFields),
        ],
        "ValueError": [
            lambda: composite("test", 0x7E57),
            lambda: composite("test:nön-ascii:list", 0x7E57),
            lambda: composite("test:negative:list", -1),
            lambda: composite("test:wide:list", 2**64),
        ],
    },
    "composite.composite_of": {
        "TypeError": [
            lambda: composite_of(int),
            lambda: composite_of([]),  # type: ignore[arg-type]
        ]
    },
    "composite.rows": {"TypeError": lambda: rows(int)},
    "composite.decode_composite": {
        "DecodeError": [
            lambda: decode_composite(b"\x40"),
            lambda: decode_composite(b"\x00\x53\x01\x45"),
            lambda: decode_composite(b"\x00\x53\x23\x45"),
        ]
    },
    "composite.read_composite": {
        "DecodeError": [
            lambda: read_composite(b"\x40"),
            lambda: read_composite(b"\x00\x53\x23\x45"),
        ]
    },
    "composite.from_described": {
        "DecodeError": [
            lambda: from_described(Described(1, [])),
            lambda: from_described(Described(0x23, [])),
        ]
    },
    "composite.encode_composite": {
        "EncodeError": [
            lambda: encode_composite(received("x")),
            lambda: encode_composite(received(None)),
        ],
        "TypeError": lambda: encode_composite(7),
    },
    "wire.codings.compress": {
        "ContentError": lambda: codings.compress(b"", "br"),  # type: ignore[arg-type]
        "ImportError": without("zstandard", lambda: codings.compress(b"", "zstd")),
        "ValueError": [
            lambda: codings.compress(b"", "gzip", 10),
            lambda: codings.compress(b"", "deflate", -1),
            lambda: codings.compress(b"", "zstd", 23),
        ],
        "TypeError": [
            lambda: codings.compress("text", "gzip"),  # type: ignore[arg-type]
            lambda: codings.compress(b"", "gzip", 1.5),  # type: ignore[arg-type]
        ],
    },
    "wire.codings.decompress": {
        "ContentError": [
            lambda: codings.decompress(b"", "br"),
            lambda: codings.decompress(b"x", "gzip"),
            lambda: codings.decompress(codings.compress(b"x", "deflate")[:-1], "deflate"),
            lambda: codings.decompress(codings.compress(b"xx", "gzip"), "gzip", limit=1),
        ],
        "ImportError": without("zstandard", lambda: codings.decompress(b"", "zstd")),
        "TypeError": [
            lambda: codings.decompress("text", "gzip"),  # type: ignore[arg-type]
            lambda: codings.decompress(b"", None),  # type: ignore[arg-type]
            lambda: codings.decompress(b"", "gzip", limit=1.5),  # type: ignore[arg-type]
        ],
    },
}

MESSAGE: Rows = {
    "Message.body_bytes": {
        "ContentError": [SEQUENCE.body_bytes, Message(7).body_bytes],
        "TypeError": _set_data,
    },
    "Message.compressed": {
        "ContentError": [lambda: TEXT.compressed("gzip"), lambda: NOT_GZIP.compressed("gzip")],
        "ImportError": without("zstandard", lambda: Message(b"").compressed("zstd")),
        "ValueError": lambda: Message(b"").compressed("gzip", level=10),
    },
    "Message.content": {
        "ContentError": [
            SEQUENCE.content,
            UNKNOWN_CODING.content,
            NOT_GZIP.content,
            CUT_GZIP.content,
            lambda: Message(b"xx").compressed("gzip").content(limit=1),
        ],
        "ImportError": without("zstandard", ZSTD.content),
    },
    "Message.decode": {
        "DecodeError": [
            lambda: Message.decode(b"\x3f"),
            lambda: Message.decode(WRONG_ORDER),
            lambda: Message.decode(BAD_HEADER),
            lambda: Message.decode(b"\x3f", strict=False),
        ]
    },
    "Message.decoded": {
        "pydantic.ValidationError": lambda: _decoded_by("pydantic", Message(b"{}"), _model()),
        "msgspec.DecodeError": [
            lambda: _decoded_by("msgspec", Message(b"{"), int),
            lambda: _decoded_by("msgspec", Message(b'"x"'), int),
        ],
        "ContentError": lambda: NOT_UTF8.decoded(int),
        "ImportError": without("msgspec", lambda: Message(b"1").decoded(int)),
    },
    "Message.decompressed": {
        "ContentError": [NOT_GZIP.decompressed, UNKNOWN_CODING.decompressed],
        "ImportError": without("zstandard", ZSTD.decompressed),
    },
    "Message.encode": {
        "EncodeError": [
            UNENCODABLE.encode,
            Message(b"", application_properties={"k": [1]}).encode,
        ]
    },
    "differences": {
        "EncodeError": lambda: differences(TEXT, Message(b"", ttl=2**32)),
        "TypeError": lambda: differences(TEXT, b"x"),  # type: ignore[arg-type]
    },
    "Message.evolve": {
        "TypeError": [
            lambda: TEXT.evolve(bodi=b""),  # type: ignore[call-arg]
            lambda: TEXT.evolve(subject="s", properties=Properties()),
        ],
        "EncodeError": [
            lambda: TEXT.evolve(ttl="5"),  # type: ignore[arg-type]
            lambda: TEXT.evolve(text="é", content_type="text/plain; charset=ascii"),
        ],
    },
    "Message.expires_at": {
        "EncodeError": lambda: WRONG_TTL.expires_at(0),
        "ValueError": lambda: Message(b"", header=Header(ttl=2**32 - 1)).expires_at(
            datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
        ),
    },
    "Message.for_next_hop": {"EncodeError": lambda: WRONG_TTL.for_next_hop(0, 0)},
    "Message.json": {
        "ContentError": [
            NOT_UTF8.json,
            Message(b"{").json,
            Message(b"[NaN]").json,
            Message(b"[" * 100_000).json,
            Message(b"9" * 5_000).json,
        ]
    },
    "Message.remaining_ttl": {"EncodeError": lambda: WRONG_TTL.remaining_ttl(0, 0)},
    "Message.template": {
        "ValueError": [
            lambda: TEXT.template("colour"),
            lambda: TEXT.template("body", "body"),
            lambda: TEXT.template(("header.ttl", str)),
        ],
        "EncodeError": lambda: UNENCODABLE.template("header.ttl"),
    },
    "Message.text": {
        "ContentError": [
            SEQUENCE.text,
            NOT_UTF8.text,
            lambda: TEXT.evolve(body=b"x").text("no-such-charset"),
            lambda: Message(b"x").text("base64"),
        ]
    },
    "Message.value": {"ContentError": lambda: Message([Data(b"a"), Data(b"b")]).value},
    "Message.size": {"EncodeError": lambda: UNENCODABLE.size},
    "message.batch.Batch": {
        "TypeError": [
            lambda: batch.Batch("5"),  # type: ignore[arg-type]
            lambda: batch.Batch(5, envelope=b""),  # type: ignore[arg-type]
        ],
        "ValueError": [
            lambda: batch.Batch(500, envelope=TEXT),
            lambda: batch.Batch(5, envelope=Message(subject="subject")),
        ],
    },
    "message.batch.Batch.try_add": {
        "TypeError": lambda: batch.Batch(500).try_add(b""),  # type: ignore[arg-type]
        "EncodeError": lambda: batch.Batch(500).try_add(UNENCODABLE),
    },
    "message.batch.Batch.message": {"ValueError": batch.Batch(500).message},
    "message.batch.pack": {
        "TypeError": [
            consume(lambda: batch.pack(TEXT, 500)),  # type: ignore[arg-type]
            consume(lambda: batch.pack([b""], 500)),  # type: ignore[list-item]
        ],
        "ValueError": consume(lambda: batch.pack([TEXT], 5)),
    },
    "message.batch.wrap": {
        "ValueError": [lambda: batch.wrap([]), lambda: batch.wrap([TEXT], envelope=TEXT)],
        "TypeError": [lambda: batch.wrap(TEXT), lambda: batch.wrap([b""])],  # type: ignore[arg-type,list-item]
    },
    "message.batch.unwrap": {
        "ValueError": consume(lambda: batch.unwrap(TEXT)),
        "TypeError": consume(lambda: batch.unwrap(b"")),  # type: ignore[arg-type]
        "DecodeError": consume(lambda: batch.unwrap(Message(b"\x3f"))),
    },
    **{f"message.checksums.{call.__name__}": _checksum_rows(call) for call in CHECKSUM_CALLS},
    "message.checksums.require": {
        "ChecksumError": lambda: checksums.require(TEXT),
        "ValueError": lambda: checksums.require(TEXT, b""),
        "TypeError": lambda: checksums.require(TEXT, "text"),  # type: ignore[arg-type]
        "EncodeError": lambda: checksums.require(UNENCODABLE),
    },
    "message.checksums.with_checksum": {
        "ValueError": lambda: checksums.with_checksum(TEXT, "md5"),
        "TypeError": lambda: checksums.with_checksum(b""),  # type: ignore[arg-type]
        "EncodeError": lambda: checksums.with_checksum(UNENCODABLE),
    },
}

NOTATIONS: Rows = {
    "notation.from_cbor": {
        "NotationError": [
            lambda: notation.from_cbor(b""),
            lambda: notation.from_cbor(b"\xff"),
            lambda: notation.from_cbor(b"\xf7"),
        ],
        "ImportError": without("cbor2", lambda: notation.from_cbor(b"\x00")),
    },
    "notation.to_cbor": {
        "EncodeError": [lambda: notation.to_cbor(OPEN_ENDED), lambda: notation.to_cbor(2**64)],
        "ImportError": without("cbor2", lambda: notation.to_cbor(None)),
    },
    "notation.from_plain": {
        "NotationError": [
            lambda: notation.from_plain(7),
            lambda: notation.from_plain({"colour": 1}),
            lambda: notation.from_plain({"header": {"ttl": "soon"}}),
        ]
    },
    "notation.value_from_plain": {
        "NotationError": [
            lambda: notation.value_from_plain(OPEN_ENDED),
            lambda: notation.value_from_plain({"$ulong": "x"}),
        ]
    },
    "notation.from_typed": {
        "NotationError": [
            lambda: notation.from_typed(7),
            lambda: notation.from_typed(["int", "x"]),
            lambda: notation.from_typed([["raw", "3f"]]),
        ],
    },
    "notation.to_typed": {
        "EncodeError": [lambda: notation.to_typed(OPEN_ENDED), lambda: notation.to_typed(2**64)]
    },
    "notation.to_plain": {
        "EncodeError": [lambda: notation.to_plain(OPEN_ENDED), lambda: notation.to_plain(2**64)]
    },
    "notation.parse_tree": {
        "EncodeError": lambda: notation.parse_tree(UNENCODABLE),
        "TypeError": lambda: notation.parse_tree("text"),  # type: ignore[arg-type]
    },
    "notation.render_text": {"EncodeError": lambda: notation.render_text(UNENCODABLE)},
    "notation.render_html": {
        "EncodeError": lambda: notation.render_html(UNENCODABLE),
        "ImportError": without("jinja2", lambda: notation.render_html(b"")),
    },
    "notation.render_svg": {
        "EncodeError": lambda: notation.render_svg(UNENCODABLE),
        "ImportError": without("jinja2", lambda: notation.render_svg(b"")),
    },
}

ROWS: Rows = {**CORE, **MESSAGE, **NOTATIONS}
