"""Whether readers of damaged input raise nothing but the exceptions that they document.

The inputs are those that break readers most often: cut off, too deep, too large, of the wrong type,
with text that is not UTF-8. Each public function that reads bytes, text or parsed JSON gets all of
them, and those of its own format with damage at every place.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import amqp10msg
from amqp10msg import Header, Message, Picker, Properties, Symbol, basic, delivery, files, notation
from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable, classes
from amqp10msg.composite import decode_composite, read_composite
from amqp10msg.delivery import filters
from amqp10msg.interop import conformance, corpus, jms
from amqp10msg.interop.jms import typed as jms_typed
from amqp10msg.interop.systems import azure, tracing
from amqp10msg.message import batch
from amqp10msg.translate import EncodedBasic, encoded_to_amqp10, encoded_to_basic
from amqp10msg.wire import codings
from amqp10msg.wire.errors import (
    AmqpError,
    ContentError,
    DecodeError,
    EncodeError,
    TranslationError,
)

#: Exceptions that come from carelessness, and that no reader of hostile input may raise. All but
#: the last four are subclasses of an exception that a reader may document.
ACCIDENTS = (
    *(RecursionError, UnicodeError, json.JSONDecodeError, struct.error, OverflowError, MemoryError),
    *(KeyError, IndexError, AttributeError, ZeroDivisionError, AssertionError, EOFError),
)

MESSAGE = Message(
    {"k": [1, "text"]},
    header=Header(ttl=1),
    properties=Properties(message_id="m", content_type="text/plain"),
    application_properties={"k": "v", "n": 1.5},
    message_annotations={"x-opt-k": 1},
).encode()
PROPERTIES = basic.encode_properties(
    BasicProperties(headers=FieldTable({"k": [1, {"a": "b"}]}), message_id="m", timestamp=1)
)
HEADER = basic.encode_content_header(BasicProperties(headers=FieldTable({"k": 1.5})), 4)
SOURCE = delivery.encode(
    delivery.Source(address="q", filter={Symbol("f"): filters.Selector("a = 1").to_described()})
)
JMS_MAP = jms_typed.write_map({"k": "v", "n": 1})
GZIP = codings.compress(b"text" * 10, "gzip")
FILE = classes.encode_class_header(classes.FileProperties(headers=FieldTable({"k": 1})), 4)
TRANSFER = classes.encode_transfer(classes.Transfer(application_headers=FieldTable({"k": 1})))
CBOR = notation.to_cbor(Message.decode(MESSAGE)) if importlib.util.find_spec("cbor2") else b""

GENERAL = [
    b"",
    *(bytes([octet]) for octet in (0, 1, 0x40, 0x7F, 0x80, 0xC0, 0xF0, 0xFF)),
    b"\xff" * 64,
    b"\0" * 64,
    b"\xd0\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xf0\0\0\0\x05\xff\xff\xff\xff\x40",
    b"\0\x53\x75\xb0\xff\xff\xff\xff",
    b"\0" * 10_000,
    b"\xc0\x03\x01" * 5_000,
    b"[" * 20_000,
    b"\x81" * 20_000,
    b"{}",
    b"null",
    b'"\\ud800"',
    b"9" * 5_000,
    "𐏿".encode("utf-16"),
]


def damaged(data: bytes) -> Iterator[bytes]:
    """Yield `data` cut off at every place, and with each byte replaced by three others."""
    for place in range(len(data)):
        yield data[:place]
        for octet in (0, 0x7F, 0xFF):
            yield data[:place] + bytes([octet]) + data[place + 1 :]
    yield data + b"\0"


def _read_all(call: Callable[[bytes], Any]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        for _ in call(data):
            pass

    return read


def _content(data: bytes) -> None:
    Message(data, properties=Properties(content_encoding="gzip")).content()


#: Readers of bytes: the call, an input of its format, and the exceptions that it documents.
READERS: dict[str, tuple[Callable[[bytes], Any], bytes, tuple[type[Exception], ...]]] = {
    "Message.decode": (Message.decode, MESSAGE, (DecodeError,)),
    "Message.decode, lenient": (
        lambda data: Message.decode(data, strict=False).violations,
        MESSAGE,
        (DecodeError,),
    ),
    "decode_value": (amqp10msg.decode_value, SOURCE, (DecodeError,)),
    "decode_values": (_read_all(amqp10msg.decode_values), MESSAGE, (DecodeError,)),
    "skip_value": (amqp10msg.skip_value, MESSAGE, (DecodeError,)),
    "scan": (lambda data: amqp10msg.scan(data).section("properties"), MESSAGE, (DecodeError,)),
    "validate": (amqp10msg.validate, MESSAGE, ()),
    "Picker": (Picker("properties", "header.ttl", "body"), MESSAGE, (DecodeError,)),
    "render_text": (notation.render_text, MESSAGE, ()),
    "parse_tree": (notation.parse_tree, MESSAGE, ()),
    "decode_composite": (decode_composite, SOURCE, (DecodeError,)),
    "read_composite": (read_composite, SOURCE, (DecodeError,)),
    "delivery.decode": (delivery.decode, SOURCE, (DecodeError,)),
    "delivery.decode, lenient": (
        lambda data: delivery.decode(data, strict=False),
        SOURCE,
        (DecodeError,),
    ),
    "delivery.check_source": (delivery.check_source, SOURCE, (DecodeError, TypeError)),
    "delivery.position": (delivery.position, MESSAGE, (DecodeError,)),
    "delivery.apply": (
        lambda data: delivery.apply(delivery.Rejected(), data),
        MESSAGE,
        (DecodeError,),
    ),
    "filters.parse": (
        filters.parse,
        filters.Selector("a = 1 AND b LIKE 'x%'").encode(),
        (DecodeError, TypeError),
    ),
    "basic.decode_properties": (basic.decode_properties, PROPERTIES, (DecodeError,)),
    "basic.decode_content_header": (basic.decode_content_header, HEADER, (DecodeError,)),
    "basic.decode_table": (
        basic.decode_table,
        basic.encode_table({"k": [1, {"a": "b"}]}),
        (DecodeError,),
    ),
    "basic.decode_field": (basic.decode_field, b"S\0\0\0\x04text", (DecodeError,)),
    "classes.decode_class_header": (classes.decode_class_header, FILE, (DecodeError,)),
    "classes.decode_transfer": (classes.decode_transfer, TRANSFER, (DecodeError,)),
    "EncodedBasic.decode": (
        lambda data: EncodedBasic(data, b"text").decode(),
        HEADER,
        (DecodeError,),
    ),
    "encoded_to_amqp10": (
        lambda data: encoded_to_amqp10(EncodedBasic(data, b"text")),
        HEADER,
        (DecodeError, TranslationError, EncodeError),
    ),
    "encoded_to_amqp10, rabbitmq": (
        lambda data: encoded_to_amqp10(EncodedBasic(data, b"text"), "rabbitmq-4.0"),
        HEADER,
        (DecodeError, TranslationError, EncodeError),
    ),
    "encoded_to_basic": (
        encoded_to_basic,
        MESSAGE,
        (DecodeError, TranslationError, EncodeError),
    ),
    "encoded_to_basic, rabbitmq": (
        lambda data: encoded_to_basic(data, "rabbitmq-4.0"),
        MESSAGE,
        (DecodeError, TranslationError, EncodeError),
    ),
    "codings.decompress, gzip": (
        lambda data: codings.decompress(data, "gzip"),
        GZIP,
        (ContentError,),
    ),
    "codings.decompress, deflate": (
        lambda data: codings.decompress(data, "deflate"),
        codings.compress(b"text" * 10, "deflate"),
        (ContentError,),
    ),
    "Message.content": (_content, GZIP, (ContentError,)),
    "Message.json": (lambda data: Message(data).json(), b'{"k": [1, "\xc3\xa9"]}', (ContentError,)),
    "Message.text": (lambda data: Message(data).text(), "é".encode(), (ContentError,)),
    "unwrap": (_read_all(lambda data: batch.unwrap(Message(data))), MESSAGE, (DecodeError,)),
    "jms.read_map": (jms_typed.read_map, JMS_MAP, (ContentError,)),
    "jms.read_stream": (
        jms_typed.read_stream,
        jms_typed.write_stream(["v", 1, b"x"]),
        (ContentError,),
    ),
    "jms.to_jms": (
        lambda data: jms.to_jms(Message.decode(data, strict=False)),
        MESSAGE,
        (DecodeError, ContentError, EncodeError),
    ),
    "azure.broker_fields": (
        lambda data: azure.broker_fields(Message.decode(data, strict=False)),
        MESSAGE,
        (DecodeError, ValueError),
    ),
    "TraceParent.from_bytes": (
        tracing.TraceParent.from_bytes,
        b"\0\0" + b"1" * 16 + b"\1" + b"1" * 8 + b"\2\1",
        (ValueError,),
    ),
}


def check(call: Callable[[Any], Any], value: Any, documented: tuple[type[Exception], ...]) -> None:
    """Call a reader, and pass on each exception that it does not document."""
    try:
        call(value)
    except documented as error:
        # A documented ValueError does not excuse a UnicodeError, which is one.
        if isinstance(error, ACCIDENTS) and not isinstance(error, AmqpError):
            raise


@pytest.mark.parametrize("name", READERS)
def test_reader_of_damaged_bytes(name: str) -> None:
    call, sound, documented = READERS[name]
    call(sound)

    for data in [*GENERAL, *damaged(sound)]:
        check(call, data, documented)


TEXTS = ["", "\ud800", "\0", "(" * 20_000, "[" * 20_000, "9" * 5_000, "é", "1e999", "-", "%" * 100]
TEXT_READERS: dict[str, tuple[Callable[[str], Any], str, tuple[type[Exception], ...]]] = {
    "Selector": (filters.Selector, "a = 1 AND b LIKE 'x%'", (filters.ExpressionError,)),
    "SqlFilter": (
        filters.SqlFilter,
        "p.subject = 'a' AND b IS NOT NULL",
        (filters.ExpressionError,),
    ),
    "Picker": (Picker, "application_properties['k']", (ValueError,)),
    "from_jms_id": (jms.from_jms_id, "ID:AMQP_ULONG:17", (ValueError,)),
    "TraceParent.from_text": (
        tracing.TraceParent.from_text,
        f"00-{'1' * 32}-{'1' * 16}-01",
        (ValueError,),
    ),
    "moment_of": (
        importlib.import_module("amqp10msg.sections").moment_of,
        "2026-01-02T03:04:05.678Z",
        (ValueError,),
    ),
    "find_peer": (conformance.find_peer, "python3 peer.py", (ValueError,)),
    "Decimal128.from_decimal": (amqp10msg.Decimal128.from_decimal, "12.5E3", (ValueError,)),
}


@pytest.mark.parametrize("name", TEXT_READERS)
def test_reader_of_damaged_text(name: str) -> None:
    call, sound, documented = TEXT_READERS[name]
    call(sound)

    cut = [sound[:place] for place in range(len(sound))]
    replaced = [
        sound[:place] + char + sound[place + 1 :]
        for place in range(len(sound))
        for char in "\0\ud800é'("
    ]
    for text in [*TEXTS, *cut, *replaced]:
        check(call, text, documented)


ODD: list[Any] = [
    *(None, True, False, -1, 0, 1.5, 2**63, 2**64, 10**30, float("inf"), float("nan")),
    *("", "x", "\ud800", "x" * 300, [], {}, [5], [[]], {"": None}, {"x": []}),
]


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of each value in parsed JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from places_in(item)


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


DOCUMENTS: dict[str, tuple[Callable[[Any], Any], Any, tuple[type[Exception], ...]]] = {
    "from_typed": (
        notation.from_typed,
        notation.to_typed(Message.decode(MESSAGE)),
        (notation.NotationError, DecodeError),
    ),
    "from_plain": (
        notation.from_plain,
        notation.to_plain(Message.decode(MESSAGE)),
        (notation.NotationError,),
    ),
    "value_from_plain": (
        notation.value_from_plain,
        notation.to_plain({"k": [1, b"x"]}),
        (notation.NotationError,),
    ),
    "Case.from_object": (
        corpus.Case.from_object,
        json.loads(json.dumps(corpus.demo_messages()[-1].to_object())),
        (corpus.CorpusError,),
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_reader_of_damaged_json(name: str) -> None:
    call, sound, documented = DOCUMENTS[name]
    text = json.dumps(sound)
    call(sound)

    for value in [*ODD, deep(5_000), *({"typed": deep(50)}, {"sections": deep(50)})]:
        check(call, value, documented)
    for number in range(len(list(places_in(sound)))):
        for odd in ODD:
            document = json.loads(text)
            parent, key = list(places_in(document))[number]
            parent[key] = odd
            check(call, document, documented)


def _corpus_file(folder: Path, suffix: str, data: bytes) -> None:
    path = folder / f"cases{suffix}"
    path.write_bytes(data)
    corpus.load(path)


def _results_file(folder: Path, data: bytes) -> None:
    path = folder / "results.json"
    path.write_bytes(data)
    conformance.load(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".cborseq", ".parquet"])
def test_damaged_file_of_cases(tmp_path: Path, suffix: str) -> None:
    if suffix != ".jsonl":
        pytest.importorskip("cbor2" if suffix == ".cborseq" else "pyarrow")
    path = tmp_path / f"sound{suffix}"
    corpus.dump(corpus.demo_messages()[:1], path)
    sound = path.read_bytes()
    steps = max(1, len(sound) // 40)

    for data in [*GENERAL, *[sound[:place] for place in range(0, len(sound), steps)]]:
        check(lambda data: _corpus_file(tmp_path, suffix, data), data, (corpus.CorpusError,))


def test_damaged_file_of_results(tmp_path: Path) -> None:
    path = tmp_path / "sound.json"
    result = conformance.Result.of(corpus.demo_messages()[0], "pass")
    conformance.save([conformance.PeerResults("p", "p 1", [result])], path)
    sound = path.read_bytes()

    for data in [*GENERAL, *[sound[:place] for place in range(0, len(sound), 7)]]:
        check(lambda data: _results_file(tmp_path, data), data, (corpus.CorpusError,))


@pytest.mark.parametrize("form", sorted(files.FORMS))
def test_damaged_stream_of_each_form(form: str) -> None:
    if form in ("parquet", "avro"):
        pytest.importorskip("pyarrow" if form == "parquet" else "fastavro")

    for data in GENERAL:
        stream = io.BufferedReader(io.BytesIO(data))
        check(lambda stream: list(files.read_stream(stream, form)), stream, (ValueError,))


@pytest.mark.skipif(not CBOR, reason="cbor2 is not installed")
def test_damaged_cbor() -> None:
    for data in [*GENERAL, *damaged(CBOR)]:
        check(notation.from_cbor, data, (notation.NotationError,))


def test_message_of_0_9_1_with_a_damaged_header_is_read_as_documented() -> None:
    """Whether `BasicMessage` values that decoding leaves survive a translation."""
    for data in damaged(PROPERTIES):
        try:
            properties = basic.decode_properties(data)
        except DecodeError:
            continue
        check(
            amqp10msg.translate.to_amqp10,
            BasicMessage(properties, b"text"),
            (TranslationError, EncodeError),
        )
