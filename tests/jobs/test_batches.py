"""Translation of batches by the kernel: what the thorough way gives, row by row.

The translator, which takes messages one by one, is the oracle: the same bytes, losses in the same
order and words, the same errors.
"""

from __future__ import annotations

import gzip
import importlib
import json
import uuid
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpError,
    AmqpSequence,
    AmqpValue,
    Byte,
    Char,
    Data,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    encode_value,
    scan,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    decode_content_header,
    encode_content_header,
    encode_table,
)
from amqp10msg.testing import basic_messages, encodings, messages, mutated
from amqp10msg.translate import _single, residual, to_amqp10, to_basic
from amqp10msg.translate.circumstances import DEFAULT_CIRCUMSTANCES
from bench.messages import GENERAL, GENERAL_VALUE, REFERENCE

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')

from amqp10msg.jobs import Stats  # noqa: E402
from amqp10msg.jobs.translating import BASIC, REPORT_COLUMNS, Translator  # noqa: E402
from amqp10msg.translate.batches import kernel  # noqa: E402
from fuzz.batches import plain_rules  # noqa: E402
from tests.samples import corpus_cases  # noqa: E402

if kernel("0-9-1", "lossless") is None:
    pytest.skip("this build has no kernel for batches", allow_module_level=True)

buffers = importlib.import_module("amqp10msg.jobs.translating")
TO_BASIC, TO_AMQP10 = Translator("0-9-1", "lossless"), Translator("1.0", "lossless")
Rows = list[dict[str, Any]]

NAMES = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=8)
TEXTS = st.one_of(NAMES, st.text(max_size=6), st.sampled_from(["", "urn:a", "ID:b", 'a"b\\\n']))
IDS = st.one_of(
    TEXTS,
    st.uuids(),
    st.integers(0, 2**64 - 1).map(ULong),
    st.uuids().map(lambda found: f"urn:uuid:{found}"),
)
MOMENTS = st.one_of(st.integers(0, 2**40), st.integers(0, 2**31).map(lambda n: 1000 * n))
SIMPLE: st.SearchStrategy[Any] = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-200, 200),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-200, 200).map(Int),
    st.integers(0, 2**32 - 1).map(UInt),
    st.integers(0, 300).map(UInt),
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(0, 255).map(UByte),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(0, 2**16 - 1).map(UShort),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(Float),
    MOMENTS.map(Timestamp),
    st.binary(max_size=6),
    st.uuids(),
    NAMES.map(Symbol),
)
KEYS = NAMES.filter(lambda name: not name.startswith("x-"))
EXTENSIONS = st.one_of(
    NAMES.map("x-opt-{}".format), NAMES.map("x-opt-x-{}".format), NAMES.map("x-{}".format)
).map(Symbol)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "x-opt-basic-delivery-mode": st.just(UByte(1)),
        "x-opt-basic-priority": st.just(UByte(4)),
        "x-opt-basic-type": TEXTS,
        "x-opt-basic-app-id": TEXTS,
    },
)
DELIVERIES: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"x-exchange": TEXTS, "x-routing-key": TEXTS}),
)
VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(NAMES, EXTENSIONS), inner, max_size=3),
    ),
    max_leaves=6,
)


def together(*parts: dict[str, Any]) -> dict[Symbol, Any] | None:
    """Annotations of several kinds in their order."""
    return {Symbol(key): value for part in parts for key, value in part.items()} or None


# The strategies are made once: hypothesis looks through each new one before it draws from it.
HEADERS = st.none() | st.builds(
    Header,
    durable=st.booleans(),
    priority=st.sampled_from([4, 4, 0, 9, 10, 255]),
    ttl=st.sampled_from([None, 0, 255, 256, 60_000, 2**32 - 1]),
    first_acquirer=st.booleans(),
    delivery_count=st.sampled_from([0, 0, 1, 2, 300]),
)
PROPERTIES = st.none() | st.builds(
    Properties,
    message_id=st.one_of(st.none(), IDS),
    user_id=st.sampled_from([None, b"guest", "é".encode(), b"\xff", b"a\0"]),
    to=st.one_of(st.none(), TEXTS),
    reply_to=st.one_of(st.none(), TEXTS),
    correlation_id=st.one_of(st.none(), IDS),
    content_type=st.sampled_from([None, "text/plain", "a/b; c=d", "json", 'a/b;c="\0"']),
    content_encoding=st.sampled_from([None, "gzip", "GZIP", "identity"]),
    creation_time=st.one_of(st.none(), MOMENTS),
    group_id=st.one_of(st.none(), TEXTS),
    group_sequence=st.sampled_from([None, 0, 1, 256]),
)
BODIES = st.one_of(
    st.binary(max_size=300),
    st.just([Data(b"a"), Data(b"b")]),
    VALUES.map(AmqpValue),
    st.lists(VALUES, max_size=3).map(AmqpSequence),
)
ANNOTATIONS = st.builds(together, ROWS, st.dictionaries(EXTENSIONS, SIMPLE, max_size=3), DELIVERIES)
APPLICATION_PROPERTIES = st.none() | st.dictionaries(KEYS, SIMPLE, max_size=4)


@st.composite
def usual(draw: st.DrawFn) -> bytes:
    """Messages such as the kernel translates, and some that are not quite so."""
    message = Message(
        draw(BODIES),
        header=draw(HEADERS),
        properties=draw(PROPERTIES),
        message_annotations=draw(ANNOTATIONS),
        application_properties=draw(APPLICATION_PROPERTIES),
    )
    try:
        return message.encode()
    except AmqpError:
        assume(False)
        raise


@st.composite
def delivered(draw: st.DrawFn) -> bytes:
    """Messages as RabbitMQ 4 gives them out: the header and the properties with all fields."""
    message = Message.decode(draw(usual()))
    annotations = dict(message.message_annotations or {})
    for name, value in (("x-exchange", draw(TEXTS)), ("x-routing-key", draw(TEXTS))):
        annotations.pop(Symbol(name), None)
        annotations[Symbol(name)] = value
    rest = message.evolve(header=None, message_annotations=annotations).encode()
    part = next((one for one in scan(rest) if one.kind and one.kind.code == 0x73), None)
    if part is not None and rest[part.content] == 0xC0 and rest[part.content + 1] < 240:
        size, count = rest[part.content + 1 : part.content + 3]
        fields = bytes((0xC0, size + 13 - count, 13)) + rest[part.content + 3 : part.end]
        rest = rest[: part.content] + fields + b"\x40" * (13 - count) + rest[part.end :]
    header = message.header or Header()
    said = b"\x41" if header.durable else b"\x42"
    said += b"\x40" if header.priority == 4 else bytes((0x50, header.priority))
    said += b"\x40" if header.ttl is None else encode_value(UInt(header.ttl))
    said += b"\x41\x43" if header.first_acquirer else b"\x42\x43"
    return b"\x00\x53\x70\xc0" + bytes((len(said) + 1, 5)) + said + rest


FIELDS = st.one_of(
    st.tuples(st.just("S"), TEXTS),
    st.tuples(st.just("I"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("I"), st.integers(-200, 200)),
    st.tuples(st.just("l"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("t"), st.booleans()),
    st.tuples(st.just("d"), st.floats()),
    st.tuples(st.just("i"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("b"), st.integers(-128, 127)),
    st.tuples(st.just("B"), st.integers(0, 255)),
    st.tuples(st.just("s"), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just("u"), st.integers(0, 2**16 - 1)),
    st.tuples(st.just("x"), st.binary(max_size=4)),
    st.tuples(st.just("T"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("V"), st.none()),
    st.tuples(st.just("L"), st.integers(0, 9)),
)
HEADER_NAMES = st.one_of(
    KEYS, NAMES.map("x-{}".format), st.sampled_from(["CC", "x-opt-a", "x-opt-x-a", "x-a", "a"])
)


@st.composite
def usual_basic(draw: st.DrawFn) -> BasicMessage:
    """Messages of 0-9-1 such as the kernel translates, and some that are not quite so."""
    entries = draw(st.lists(st.tuples(HEADER_NAMES, FIELDS), max_size=5))
    table = FieldTable.of([(name, letter, value) for name, (letter, value) in entries])
    properties = BasicProperties(
        content_type=draw(st.sampled_from([None, "text/plain", "json"])),
        content_encoding=draw(st.sampled_from([None, "gzip", "x"])),
        headers=table if entries else None,
        delivery_mode=draw(st.sampled_from([None, 1, 2, 3])),
        priority=draw(st.sampled_from([None, 0, 4, 9, 10])),
        correlation_id=draw(st.one_of(st.none(), TEXTS, st.uuids().map("urn:uuid:{}".format))),
        reply_to=draw(st.one_of(st.none(), TEXTS)),
        expiration=draw(st.sampled_from([None, "0", "60000", "00", "", "4294967296"])),
        timestamp=draw(st.sampled_from([None, 0, 1_700_000_000, 10**12, 2**63])),
        type=draw(st.one_of(st.none(), TEXTS)),
        app_id=draw(st.one_of(st.none(), TEXTS)),
        user_id=draw(st.one_of(st.none(), TEXTS)),
    )
    exchange, key = draw(st.one_of(st.just(("", "")), st.tuples(TEXTS, TEXTS)))
    return BasicMessage(properties, draw(st.binary(max_size=9)), exchange, key, draw(st.booleans()))


def cells_of(basic: BasicMessage) -> dict[str, Any]:
    """The columns of a message of 0-9-1."""
    header = encode_content_header(basic.properties, len(basic.body))
    cells = {"content_header": header, "payload": basic.body}
    return cells | {name: getattr(basic, name) for name in BASIC.names[2:]}


def is_text(*texts: str) -> bool:
    return all(text == text.encode(errors="replace").decode() for text in texts)


def columns_of(rows: Rows) -> dict[str, Any]:
    batch = pa.RecordBatch.from_pylist(rows, schema=BASIC)
    return dict(zip(BASIC.names, batch.columns, strict=True))


def assert_same(translator: Translator, given: dict[str, Any]) -> None:
    """Whether a batch becomes what its messages become one by one."""
    with plain_rules():
        expected = translator._run_by_row(given)
    actual = translator.run(given)
    for name, column in actual.items():
        column.validate(full=True)
        assert expected[name].type == column.type
        assert expected[name].to_pylist() == column.to_pylist(), name


def odd_rows(to: str, given: dict[str, Any]) -> list[int]:
    """The rows that the kernel leaves to the thorough way."""
    found = kernel(to, "lossless")
    rows = len(next(iter(given.values())))
    odd: list[int] = found.run(rows, *map(buffers.kernel_buffers, given.values()))[0]
    return odd


ORDERED: Any = [
    Message(b"x", application_properties=properties, message_annotations=annotations).encode()
    for properties in ({"a": 1, "z": 2}, {"z": 2, "a": 1}, {"z": 1}, {"a": 1})
    for annotations in ({"x-opt-a": 1, "x-opt-b": 2}, {"x-opt-b": 2, "x-opt-a": 1}, {})
]


#: What RabbitMQ 4.3 puts first, before a value in a longer encoding than need be.
PUT_FIRST = bytes.fromhex(
    "005370c006054240404143005372c13706a30d782d726f7574696e672d6b6579a1096c61622e31302d3130a30a782d"
    "65786368616e6765a100a307782d6f70742d7671ffffffff005375a00568656c6c6f"
)


@given(st.lists(st.one_of(usual(), messages().map(Message.encode)), max_size=6))
@example(ORDERED)
@example([PUT_FIRST])
def test_batch_of_1_0_messages_equals_row_by_row(wires: list[bytes]) -> None:
    assert_same(TO_BASIC, {"wire": pa.array(wires, pa.binary())})


@given(st.lists(usual().flatmap(mutated), max_size=6))
def test_batch_of_damaged_1_0_messages_equals_row_by_row(wires: list[bytes]) -> None:
    assert_same(TO_BASIC, {"wire": pa.array(wires, pa.binary())})


@given(st.lists(delivered(), max_size=6))
def test_batch_of_delivered_messages_equals_row_by_row(wires: list[bytes]) -> None:
    assert_same(TO_BASIC, {"wire": pa.array(wires, pa.binary())})


@given(st.lists(delivered().flatmap(mutated), max_size=6))
def test_batch_of_damaged_delivered_messages_equals_row_by_row(wires: list[bytes]) -> None:
    assert_same(TO_BASIC, {"wire": pa.array(wires, pa.binary())})


@given(st.lists(usual().map(Message.decode).flatmap(encodings), max_size=4))
def test_batch_with_non_canonical_encodings_equals_row_by_row(wires: list[bytes]) -> None:
    assert_same(TO_BASIC, {"wire": pa.array(wires, pa.binary())})


@given(st.lists(st.one_of(usual_basic(), basic_messages()), max_size=6))
def test_batch_of_0_9_1_messages_equals_row_by_row(found: list[BasicMessage]) -> None:
    rows = [cells_of(one) for one in found if is_text(one.exchange, one.routing_key)]

    assert_same(TO_AMQP10, columns_of(rows))


@given(st.lists(usual(), max_size=6), st.data())
def test_translated_1_0_messages_are_restored(wires: list[bytes], data: st.DataObject) -> None:
    found = [to_basic(Message.decode(wire)).message for wire in wires]
    rows = [cells_of(one) for one in found if is_text(one.exchange, one.routing_key)]
    # Some were edited, damaged, delivered or sent again.
    for row in list(rows):
        name, value = data.draw(
            st.sampled_from(
                [("exchange", "e"), ("redelivered", True), ("payload", b""), ("payload", None)]
            )
        )
        rows.append(row | {name: value})
        rows.append(row | {"content_header": data.draw(mutated(row["content_header"]))})

    assert_same(TO_AMQP10, columns_of(rows))


@given(st.lists(usual(), min_size=1, max_size=4), st.data())
def test_batch_of_edited_messages_equals_row_by_row(
    wires: list[bytes], data: st.DataObject
) -> None:
    rows = []
    for wire in wires:
        basic = to_basic(Message.decode(wire)).message
        changes: list[dict[str, Any]] = [
            {"priority": 3},
            {"type": "t"},
            {"message_id": "other"},
            {"timestamp": 5},
        ]
        change = data.draw(st.sampled_from(changes))
        edited = attrs.evolve(basic, properties=attrs.evolve(basic.properties, **change))
        if is_text(basic.exchange, basic.routing_key):
            rows.append(cells_of(edited))

    assert_same(TO_AMQP10, columns_of(rows))


# Each is usual: the kernel translates it itself.
USUAL = {
    "reference": REFERENCE,
    "general": GENERAL,
    "a map as body": GENERAL_VALUE,
    "a body alone": Message(b"x").encode(),
    "a list as body": Message(AmqpSequence([1, "a", [], {"k": 2.5}])).encode(),
    "born as 0-9-1": to_amqp10(
        BasicMessage(BasicProperties(type="t", delivery_mode=1, app_id="a", priority=4), b"x")
    ).message.encode(),
    "delivered": to_amqp10(
        BasicMessage(BasicProperties(headers=FieldTable.of([("a", "I", 1)])), b"x", "e", "k", True)
    ).message.encode(),
    "long forms, empty sections, as proton writes them": bytes.fromhex(
        "00537045005372d10000001200000002a309782d6f70742d666f6fa1017600537345005375a00568656c6c6f"
    ),
    "defaults and nulls that need not be said, as RabbitMQ 3.10 writes them": bytes.fromhex(
        "005370c006054240404140005373c0180d404040a1096c61622e31302d3130404040404040404040005375a0"
        "0568656c6c6f"
    ),
    "of 0-9-1, as RabbitMQ 4 delivers it over 1.0": bytes.fromhex(
        "005370c006054140404143005372c12104a30a782d65786368616e6765a100a30d782d726f7574696e672d6b"
        "6579a10171005373c0250da1036d2d304040404040a30a746578742f706c61696e4040830000018bcfe56800"
        "404040005375a00568656c6c6f"
    ),
    "redelivered": Message(b"x", header=Header(delivery_count=1)).encode(),
    "a footer and delivery annotations": Message(
        b"x", delivery_annotations={"x-opt-a": 1}, footer={"x-opt-b": "c"}
    ).encode(),
    "a footer of a list": Message(AmqpSequence([1]), footer={"x-opt-b": [1, {}]}).encode(),
    "a body in parts": Message([Data(b"a"), Data(b""), Data(b"b" * 300)]).encode(),
    "several sequences": Message([AmqpSequence([1]), AmqpSequence([])]).encode(),
    "data in its long form": bytes.fromhex("005375b00000000178"),
    "no body": bytes.fromhex("00537045"),
    "properties that no header says": Message(
        b"x", application_properties={"a": Char("b"), "c": Timestamp(-5), "d": 1.5}
    ).encode(),
    "ids that are no uuid": Message(
        b"x", properties=Properties(message_id="ID:host-1:5", correlation_id="urn:order:5")
    ).encode(),
    "ids": Message(
        b"x", properties=Properties(message_id=uuid.UUID(int=7), correlation_id=ULong(2**64 - 1))
    ).encode(),
}


def test_plain_rules_are_used_without_the_engine_and_only_then() -> None:
    """Otherwise the comparisons of this file would compare the engine with itself."""
    message = Message("x")
    with plain_rules():
        assert (
            _single.basic_translation(message, "lossless", DEFAULT_CIRCUMSTANCES, no_loss) is None
        )
    assert _single.basic_translation(message, "lossless", DEFAULT_CIRCUMSTANCES, no_loss)


def no_loss(*_: Any) -> tuple[()]:
    return ()


@pytest.mark.parametrize("name", USUAL)
def test_usual_messages_stay_in_the_kernel(name: str) -> None:
    wire = {"wire": pa.array([USUAL[name]], pa.binary())}
    basic = to_basic(Message.decode(USUAL[name])).message

    assert [] == odd_rows("0-9-1", wire)
    assert_same(TO_BASIC, wire)
    # The translator tells of a ulong, and takes out what was delivered: the kernel leaves it both.
    # And several sections, as a payload, are for it alone.
    if name not in {
        "ids",
        "of 0-9-1, as RabbitMQ 4 delivers it over 1.0",
        "several sequences",
        "ids that are no uuid",
    }:
        assert [] == odd_rows("1.0", columns_of([cells_of(basic)]))
    assert_same(TO_AMQP10, columns_of([cells_of(basic)]))


def test_fallback_rows_and_nulls_keep_their_order() -> None:
    odd = Message(b"a", application_properties={str(i): i for i in range(65)}).encode()
    wires = [odd, GENERAL, None, b"", GENERAL[:-1], REFERENCE, odd, None]
    array = pa.array(wires, pa.binary())

    assert [0, 3, 4, 6] == odd_rows("0-9-1", {"wire": array})
    assert_same(TO_BASIC, {"wire": array})
    for start in range(len(wires)):
        assert_same(TO_BASIC, {"wire": array.slice(start, 3)})
    there = TO_BASIC.run({"wire": array})
    for start in range(len(wires)):
        assert_same(TO_AMQP10, {name: there[name].slice(start) for name in BASIC.names})


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_chunked_and_large_columns_are_accepted(kind: Any) -> None:
    wires = [GENERAL, None, REFERENCE]
    expected = TO_BASIC.run({"wire": pa.array(wires, pa.binary())})

    for column in (pa.array(wires, kind), pa.chunked_array([wires[:1], [], wires[1:]], kind)):
        actual = TO_BASIC.run({"wire": column})
        assert {n: c.to_pylist() for n, c in expected.items()} == {
            name: array.to_pylist() for name, array in actual.items()
        }


def test_optional_columns_may_be_absent() -> None:
    given = columns_of([cells_of(BasicMessage(BasicProperties(message_id="m"), b"x"))])
    left = {name: given[name] for name in BASIC.names[:2]}

    assert [] == odd_rows("1.0", {**left, "a": None, "b": None, "c": None})
    assert_same(TO_AMQP10, left)


def test_batch_of_recordings_and_corpus_equals_row_by_row() -> None:
    wires = [case.data for case in corpus_cases()]
    folder = Path(__file__).parents[1] / "vectors"
    # Those of circumstances differ by little more than names of queues.
    for name, step in (("translations", 1), ("odd_translations", 1), ("circumstances", 14)):
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in islice(lines, 0, None, step):
                wires += recorded(json.loads(line))
    wires = sorted(set(wires))
    there = TO_BASIC.run({"wire": pa.array(wires, pa.binary())})

    assert len(wires) > 1000
    assert_same(TO_BASIC, {"wire": pa.array(wires, pa.binary())})
    assert_same(TO_AMQP10, {name: there[name] for name in BASIC.names})


def recorded(entry: Any) -> list[bytes]:
    """What in an entry is hex, and so what a peer sent or received."""
    if isinstance(entry, dict):
        return [octets for value in entry.values() for octets in recorded(value)]
    if isinstance(entry, list):
        return [octets for value in entry for octets in recorded(value)]
    if isinstance(entry, str) and len(entry) > 8:
        try:
            return [bytes.fromhex(entry)]
        except ValueError:
            pass
    return []


NESTED = st.recursive(
    FIELDS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda found: ("A", FieldArray.of(found))),
        st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda found: ("F", FieldTable.of([(name, *field) for name, field in found]))
        ),
    ),
    max_leaves=6,
)
TABLES = st.lists(
    st.tuples(HEADER_NAMES | st.just("x-death"), NESTED), max_size=5, unique_by=lambda one: one[0]
).map(lambda found: FieldTable.of([(name, *field) for name, field in found]))


@st.composite
def with_residual(draw: st.DrawFn) -> bytes:
    """Messages of 1.0 that were of 0-9-1: mostly with a residual, and some edited since."""
    basic = draw(usual_basic())
    basic.properties.headers = draw(TABLES)
    wire = to_amqp10(basic).message.encode()
    change = draw(
        st.sampled_from(["none", "none", "edited", "facts", "another residual", "damaged"])
    )
    message = Message.decode(wire)
    if change == "edited":
        properties = dict(message.application_properties or {})
        properties[draw(KEYS)] = draw(SIMPLE)
        return message.evolve(application_properties=properties).encode()
    if change == "facts":
        facts = {Symbol("x-opt-delivery-count"): 1, Symbol("x-stream-offset"): 5}
        annotations: dict[Any, Any] = facts | (message.message_annotations or {})
        return message.evolve(message_annotations=annotations).encode()
    if change == "another residual":
        annotations = {**(message.message_annotations or {})}
        content: dict[int, Any] = {
            3: encode_table(draw(TABLES)),
            17: draw(st.lists(st.integers(0, 5))),
        }
        key = draw(st.sampled_from([3, 17, 18]))
        annotations[Symbol(residual.RESIDUAL_NAME)] = residual.pack({key: content.get(key, 1)})
        return message.evolve(message_annotations=annotations).encode()
    return draw(mutated(wire)) if change == "damaged" else wire


#: Its residual puts two headers to the same position, so that they change places.
TURNED = bytes.fromhex(
    "005372c14006a308782d6f70742d782d45a309782d6f70742d782d3045a318782d6f70742d616d717031306d73672d"
    "726573696475616ca00c8301a1118200001a8171be2f005375a000"
)


@given(st.lists(with_residual(), min_size=1, max_size=6))
@example([TURNED])
def test_translated_0_9_1_messages_are_restored(wires: list[bytes]) -> None:
    assert_same(TO_BASIC, {"wire": pa.array(wires, pa.binary())})


RESTORED = [
    ("S", "a", [("x-a", "I", 1), ("t", "F", FieldTable.of([("b", "S", "c")])), ("z", "S", "d")]),
    ("A", "b", [("n", "S", "v"), ("a", "A", FieldArray.of([("I", 1), ("t", True)]))]),
    ("order", "", [("b", "I", 1), ("x-c", "I", 2), ("d", "I", 3), ("x-a", "S", "e")]),
    ("CC", "q", [("CC", "A", FieldArray.of([("S", "q")])), ("m", "I", 7)]),
    ("history", "q", [("x-b", "V", None), ("x-death", "A", FieldArray.of([]))]),
    ("none", "", []),
]


@pytest.mark.parametrize("exchange,key,entries", RESTORED)
def test_message_from_0_9_1_stays_in_the_kernel(
    exchange: str, key: str, entries: list[Any]
) -> None:
    for route in (("", ""), (exchange, key)):
        basic = BasicMessage(BasicProperties(headers=FieldTable.of(entries)), b"body", *route)
        wire = to_amqp10(basic).message.encode()
        given_ = {"wire": pa.array([wire], pa.binary())}

        assert Symbol(residual.RESIDUAL_NAME) in (Message.decode(wire).message_annotations or {})
        assert [] == odd_rows("0-9-1", given_)
        assert_same(TO_BASIC, given_)
        assert basic == to_basic(Message.decode(wire)).message


@given(st.lists(usual(), max_size=8))
def test_batch_counts_losses_as_row_by_row(wires: list[bytes]) -> None:
    losses = TO_BASIC.run({"wire": pa.array(wires, pa.binary())})["losses"]
    stats = Stats()
    stats.add_losses(losses)
    found = [loss for row in losses.to_pylist() for loss in row]
    reasons: dict[tuple[str, str], tuple[bool, str]] = {}
    for loss in found:
        key = loss["path"], loss["action"]
        reasons.setdefault(key, (loss["recoverable"], loss["reason"]))

    assert Counter((loss["path"], loss["action"]) for loss in found) == stats.losses
    assert list(reasons.items()) == list(stats.reasons.items())


@pytest.mark.parametrize(
    "column",
    [
        (None, b"", b"", 0),
        (None, b"\0\0\0\0\5\0\0\0", b"abc", 0),
        (None, b"\5\0\0\0\0\0\0\0", b"abcde", 0),
        (None, b"\0\0\0\0\1\0\0\0", b"a", 1),
        (b"", b"\0\0\0\0\1\0\0\0", b"a", 0),
        (None, b"\0\0\0\0\1\0\0\0", b"a", -1),
    ],
)
def test_malformed_buffers_are_rejected(column: Any) -> None:
    with pytest.raises(ValueError, match=r"column|cell"):
        kernel("0-9-1", "lossless").run(1, column)


def test_report_has_columns_of_schema() -> None:
    made = TO_BASIC.run({"wire": pa.array([GENERAL], pa.binary())})

    assert [*BASIC.names, *dict(REPORT_COLUMNS)] == list(made)
    assert decode_content_header(made["content_header"][0].as_py()).body_size == len(
        made["payload"][0].as_py()
    )


@pytest.mark.parametrize("profile", ["lossless", "rabbitmq-3.10", "rabbitmq-4.3"])
def test_losses_of_most_deeply_nested_arrays_are_reported(profile: str) -> None:
    field: Any = ("I", 1)
    for _ in range(255):
        field = ("A", FieldArray.of([field]))
    properties = BasicProperties(headers=FieldTable.of([("a", *field)]))
    columns = {
        "content_header": pa.array([encode_content_header(properties, 0)], pa.binary()),
        "payload": pa.array([b""], pa.binary()),
    }
    made = Translator("1.0", profile).run(columns)

    assert [None] == made["error_code"].to_pylist()
    assert "headers['a']" == made["losses"].to_pylist()[0][0]["path"]
