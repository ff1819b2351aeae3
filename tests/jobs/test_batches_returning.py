"""Translation of batches of messages on their second hop: through a lossless bridge, and back.

A broker stood in between: it says exchange and routing key, sorts headers, and adds facts of its
own. The translator, which takes messages one by one, is the oracle, as in `test_batches`.
"""

from __future__ import annotations

import gzip
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpError,
    Array,
    Data,
    Described,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    decode_properties,
)
from amqp10msg.translate import PROFILES, Circumstances, Death, to_amqp10, to_basic

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')

from amqp10msg.jobs.translating import Translator  # noqa: E402
from amqp10msg.translate.batches import kernel  # noqa: E402

if kernel("0-9-1", "lossless") is None:
    pytest.skip("this build has no kernel for batches", allow_module_level=True)

from tests.jobs.test_batches import (  # noqa: E402
    TABLES,
    TO_AMQP10,
    TO_BASIC,
    assert_same,
    cells_of,
    columns_of,
    delivered,
    is_text,
    odd_rows,
    usual,
    usual_basic,
)

DEATH = FieldTable.of(
    [
        ("count", "l", 1),
        ("exchange", "S", ""),
        ("queue", "S", "q"),
        ("reason", "S", "expired"),
        ("routing-keys", "A", FieldArray.of([("S", "k")])),
        ("time", "T", 1_700_000_000),
    ]
)
#: What a queue and a dead-letter exchange add.
FACTS: list[Any] = [
    ("x-acquired-count", "l", 1),
    ("x-death", "A", FieldArray.of([("F", DEATH)])),
    ("x-delivery-count", "l", 2),
    ("x-first-death-queue", "S", "q"),
    ("x-last-death-reason", "S", "expired"),
]


def _by_name(entry: Any) -> bytes:
    name: str = entry[0]
    return name.encode("utf-8", "surrogateescape")


def routed(basic: BasicMessage, facts: list[Any], is_sorted: bool, again: bool) -> BasicMessage:
    """The message as RabbitMQ delivers it over 0-9-1."""
    table = basic.properties.headers
    entries = [*facts, *(table.entries if isinstance(table, FieldTable) else [])]
    if is_sorted or facts:
        entries.sort(key=_by_name)
    headers = FieldTable.of(entries) if entries else table
    properties = attrs.evolve(basic.properties, headers=headers)
    return BasicMessage(properties, basic.body, "", "queue", again)


@given(
    st.lists(
        st.tuples(
            st.one_of(usual(), delivered()),
            st.lists(st.sampled_from(FACTS), max_size=2, unique_by=lambda one: one[0]),
            st.booleans(),
            st.booleans(),
        ),
        max_size=5,
    )
)
def test_batch_of_1_0_messages_from_0_9_1_broker_equals_row_by_row(found: list[Any]) -> None:
    rows = []
    for wire, facts, is_sorted, again in found:
        basic = to_basic(Message.decode(wire)).message
        rows += [cells_of(routed(basic, facts, is_sorted, again)), cells_of(basic)]

    assert_same(TO_AMQP10, columns_of(rows))


ROUTE = {Symbol("x-exchange"): "", Symbol("x-routing-key"): "queue"}
ADDED = st.dictionaries(
    st.sampled_from(
        ["x-a", "x-opt-x-death", "x-first-death-queue", "x-opt-basic-content-type"]
    ).map(Symbol),
    st.one_of(st.just("json"), st.none(), st.just([{"count": 1}]), st.just(Array(0x54, [Int(1)]))),
    max_size=2,
)


@given(st.lists(st.tuples(usual_basic(), TABLES, ADDED, st.booleans()), max_size=5))
def test_batch_of_0_9_1_messages_from_1_0_broker_equals_row_by_row(found: list[Any]) -> None:
    wires = []
    for basic, table, added, is_first in found:
        basic.properties.headers = table
        if not is_text(basic.exchange, basic.routing_key):
            continue
        message = to_amqp10(basic).message
        own: dict[Any, Any] = dict(message.message_annotations or {})
        pairs = ROUTE | own | added if is_first else own | ROUTE | added
        wires.append(message.evolve(message_annotations=pairs).encode())

    assert_same(TO_BASIC, {"wire": pa.array(wires, pa.binary())})


DEATHS = Array(0xD1, [{Symbol("ttl"): UInt(60_000), Symbol("queue"): "q"}])
ONE: Any = {"header": Header(delivery_count=UInt(1))}
#: As RabbitMQ 4 gives out messages over 1.0.
DELIVERED: dict[str, Message] = {
    "a dead letter that had a ttl": Message(
        b"x", **ONE, message_annotations={**ROUTE, Symbol("x-opt-deaths"): DEATHS}
    ),
    "a count, and a body in parts": Message(
        [Data(b"a"), Data(b"b")],
        **ONE,
        message_annotations={**ROUTE, Symbol("x-delivery-count"): 1},
    ),
    "annotations after the route": Message(
        b"x", header=Header(), message_annotations={**ROUTE, Symbol("x-a"): 1}
    ),
    "annotations and facts after the route": Message(
        b"x", **ONE, message_annotations={**ROUTE, Symbol("x-delivery-count"): 1, Symbol("x-a"): 1}
    ),
    "without a header": Message(b"x", message_annotations=ROUTE),
    "a priority that need not be said": Message.decode(
        bytes.fromhex("005370c00705415004404243")
        + Message(b"x", message_annotations=ROUTE).encode()
    ),
    "a history that was one of 0-9-1": Message(
        b"x",
        properties=Properties(group_id="g"),
        message_annotations={Symbol("x-opt-x-death"): [{"count": 1}]},
    ),
    "values that no header says": Message(
        b"x",
        message_annotations={
            Symbol("x-opt-a"): None,
            Symbol("x-b"): 0.5,
            Symbol("x-opt-c"): Described(Symbol("d"), 1),
        },
    ),
    "names that are not ASCII, or of routes": Message(
        b"x", application_properties={"CC": "q", "\u00fc": 1, "n" * 256: 2}
    ),
    "properties that 0-9-1 has not": Message(
        b"x",
        properties=Properties(
            message_id=b"\xff", correlation_id="urn:uuid:" + 36 * "x", creation_time=Timestamp(-1)
        ),
    ),
    "an id that is a number, and a body in parts": Message(
        [Data(b"a"), Data(b"b")], properties=Properties(message_id=ULong(5))
    ),
    "a content-type that is no symbol": to_amqp10(
        BasicMessage(BasicProperties(content_type="json", content_encoding="utf-8"), b"x")
    ).message,
}


@pytest.mark.parametrize("name", DELIVERED)
def test_messages_from_1_0_brokers_stay_in_the_kernel(name: str) -> None:
    wire = DELIVERED[name].encode()
    given_ = {"wire": pa.array([wire], pa.binary())}
    basic = to_basic(Message.decode(wire)).message

    assert [] == odd_rows("0-9-1", given_)
    assert_same(TO_BASIC, given_)
    # As it stands, and from a queue of 0-9-1.
    for facts in ([], FACTS[2:3]):
        rows = [cells_of(basic), cells_of(routed(basic, facts, True, False))]
        assert [] == odd_rows("1.0", columns_of(rows))
        assert_same(TO_AMQP10, columns_of(rows))


def test_headers_in_residual_stay_in_the_kernel() -> None:
    entries = [("x-cc", "S", "q"), ("x-opt-x-a", "I", 1), ("t", "T", 5), ("b", "x", b"text")]
    wire = to_amqp10(BasicMessage(BasicProperties(headers=FieldTable.of(entries)))).message.encode()
    given_ = {"wire": pa.array([wire], pa.binary())}

    assert [] == odd_rows("0-9-1", given_)
    assert_same(TO_BASIC, given_)


@cache
def _recorded(name: str) -> tuple[list[bytes], list[BasicMessage]]:
    """Return the messages of 1.0 and of 0-9-1 that brokers were recorded to deliver."""
    wires, basics = set(), []
    folder = Path(__file__).parents[1] / "vectors"
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    found = [entry["raw" if name == "recorded" else "gives"] for entry in entries]
    for one in found:
        if isinstance(one, str):
            wires.add(bytes.fromhex(one))
        elif one is not None:
            basics.append((one[0], one[1]))
    made = []
    for properties, body in sorted(set(basics)):
        try:
            read = decode_properties(bytes.fromhex(properties))
        except AmqpError:
            continue
        made.append(BasicMessage(read, bytes.fromhex(body), "", "queue"))
    return sorted(wires), made


def _drawn(count: int) -> tuple[list[bytes], list[BasicMessage]]:
    """Return as many messages as RabbitMQ delivers them: dead letters, routes, nested headers."""
    draw = random.Random(7)

    def field(level: int = 0) -> tuple[str, Any]:
        inner = range(draw.randrange(4) if level < 3 else 0)
        choices: list[tuple[str, Any]] = [
            ("S", draw.choice(["v", "\u00fc", ""])),
            *(("I", draw.randrange(-500, 2**31)), ("l", draw.randrange(2**60)), ("d", 0.5)),
            *(("t", True), ("T", 1_700_000_000), ("x", draw.choice([b"\xff", b"ab"])), ("V", None)),
            ("A", FieldArray.of([field(level + 1) for _ in inner])),
            ("F", FieldTable.of([(f"k{i}", *field(level + 1)) for i in inner])),
        ]
        return draw.choice(choices)

    wires, basics = [], []
    for number in range(count):
        names = draw.sample(["a", "tenant", "x-a", "x-opt-b", "z", "x-delay"], draw.randrange(6))
        entries: list[Any] = [(name, *field()) for name in names]
        if number % 7 == 0:
            entries.append(("CC", "A", FieldArray.of([("S", "r")])))
        properties = BasicProperties(
            content_type=draw.choice([None, "text/plain", "json"]),
            headers=FieldTable.of(entries),
            delivery_mode=draw.choice([None, 1, 2]),
            priority=draw.choice([None, 0, 4]),
            message_id=draw.choice([None, "m-1", "urn:uuid:58b867b0-8151-1f56-1bd4-73229807fd60"]),
            expiration=draw.choice([None, "60000"]),
            type=draw.choice([None, "t"]),
        )
        basic = BasicMessage(properties, b"x", "", "queue")
        basics.append(routed(basic, FACTS if number % 2 else [], True, number % 3 == 0))
        deaths = [Death("q", "expired", 1_700_000_000_000, "e", ["k"], ttl=60_000)]
        circumstances = Circumstances(deaths=deaths if number % 2 else ())
        profile = PROFILES[draw.choice(["rabbitmq-3.10", "rabbitmq-4.0", "rabbitmq-4.3"])]
        try:
            made = to_amqp10(basic, profile, circumstances=circumstances).message
        except AmqpError:
            continue  # RabbitMQ 4 refuses it
        wires.append(made.encode())
    return wires, basics


SOURCES = {
    "circumstances": lambda: _recorded("circumstances"),
    "translations": lambda: _recorded("translations"),
    "recorded": lambda: _recorded("recorded"),
    "drawn": lambda: _drawn(1_000),
}


@pytest.mark.parametrize("is_routed", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_few_messages_need_the_fallback_on_the_second_hop(source: str, is_routed: bool) -> None:
    wires, basics = SOURCES[source]()
    sent = []
    for wire in wires:
        try:
            made = to_basic(Message.decode(wire)).message
        except AmqpError:
            continue  # it is no message
        sent.append(cells_of(routed(made, [], True, False) if is_routed else made))
    returned = [to_amqp10(one).message.encode() for one in basics]

    assert len(sent) > 500
    assert len(returned) > 500 or source == "recorded"  # which has none of 0-9-1
    assert len(odd_rows("1.0", columns_of(sent))) <= 0.05 * len(sent)
    given_ = {"wire": pa.array(returned, pa.binary())}
    assert len(odd_rows("0-9-1", given_)) <= 0.05 * len(returned)


FACT = Message(b"x", **ONE, message_annotations={**ROUTE, Symbol("x-delivery-count"): 1})
GROUPED = Message(b"x", properties=Properties(group_id="g"))


def test_strict_mode_accepts_loss_of_fields_added_by_broker() -> None:
    given_ = {"wire": pa.array([FACT.encode(), GROUPED.encode(), None], pa.binary())}
    translator = Translator("0-9-1", "lossless", strict=True)

    assert [None, None, None] == translator.run(given_)["error_code"].to_pylist()
    assert_same(translator, given_)


@pytest.mark.parametrize("body", [[Data(b"a"), Data(b"b")], None])
def test_bodies_wrapped_for_0_9_1_equal_row_by_row(body: Any) -> None:
    sent = to_amqp10(BasicMessage(BasicProperties(expiration=""))).message

    assert_same(TO_BASIC, {"wire": pa.array([sent.evolve(body=body).encode()], pa.binary())})


def test_non_canonical_properties_with_residual_equal_row_by_row() -> None:
    sent = to_amqp10(
        BasicMessage(BasicProperties(headers=FieldTable.of([("x-cc", "S", "q")])))
    ).message
    wire = sent.evolve(properties=Properties(creation_time=Timestamp(-1500))).encode()
    short = wire[wire.index(b"\0\x53\x73") + 3 :]
    wide = b"\xd0" + (short[1] + 3).to_bytes(4) + short[2].to_bytes(4)

    assert_same(TO_BASIC, {"wire": pa.array([wire.replace(short[:3], wide)], pa.binary())})
