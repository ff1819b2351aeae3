"""Translation of batches as RabbitMQ does it: what the thorough way gives, row by row.

The translator, which takes messages one by one, is the oracle, as in `test_jobs_batches`.
"""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpError,
    AmqpSequence,
    Data,
    Header,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UByte,
    ULong,
)
from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable, decode_properties
from amqp10msg.testing import basic_messages, encodings, messages, mutated
from amqp10msg.translate import PROFILES as KNOWN
from amqp10msg.translate import Circumstances, Death, TranslationError, to_basic
from bench.messages import GENERAL, GENERAL_VALUE, REFERENCE

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')

from amqp10msg.jobs.translating import BASIC, Translator  # noqa: E402
from amqp10msg.translate.batches import kernel  # noqa: E402

if kernel("0-9-1", "rabbitmq-4.0") is None:
    pytest.skip("this build has no kernel for batches", allow_module_level=True)

from tests.jobs.test_batches import (  # noqa: E402
    SIMPLE,
    TEXTS,
    assert_same,
    buffers,
    cells_of,
    columns_of,
    is_text,
    recorded,
    usual,
    usual_basic,
)
from tests.samples import corpus_cases  # noqa: E402

PROFILES = tuple(name for name in KNOWN if name.startswith("rabbitmq-"))
TO_BASIC = {profile: Translator("0-9-1", profile) for profile in PROFILES}
TO_AMQP10 = {profile: Translator("1.0", profile) for profile in PROFILES}
# Annotations that the broker takes for its own, or nearly.
OWN = st.dictionaries(
    st.sampled_from(
        [
            *("x-exchange", "x-routing-key", "x-basic-type", "x-basic-priority", "x-cc", "x-ccc"),
            *("x-death", "x-opt-deaths", "x-opt-rabbitmq-received-time", "x-opt-a", "x-'", "y"),
            *("x-stream-filter-value", "x-basic-expiration"),
        ]
    ).map(Symbol),
    st.one_of(TEXTS, SIMPLE, st.none()),
    max_size=3,
)
ADDRESSES = st.sampled_from(["/queues/q", "/queues/a%20b", "/queues/", "/queue/q", "é" * 200])

# Headers that version 4 knows, and those that 3.10 does.
NEW_NAMES = (
    *("BCC", "x-exchange", "x-basic-type", "x-stream-filter-value", "é", "x-é", "n'"),
    "x-basic-expiration",
)
OLD_NAMES = (
    *("x-amqp-1.0-message-annotations", "x-amqp-1.0-properties", "x-amqp-1.0-app-properties"),
    *("x-amqp-1.0-footer", "x-stream-offset"),
)


@st.composite
def sent(draw: st.DrawFn) -> bytes:
    """Messages as publishers of 1.0 send them, and some that a broker does not take."""
    message: Any = Message.decode(draw(usual()))
    if message.properties is not None:
        if draw(st.booleans()):
            message.properties.user_id = b"guest"
        if draw(st.booleans()):
            message.properties.reply_to = draw(ADDRESSES)
    if draw(st.booleans()):
        message.message_annotations = {**(message.message_annotations or {}), **draw(OWN)}
    if draw(st.booleans()):
        more = draw(st.dictionaries(TEXTS, st.one_of(SIMPLE, st.none()), max_size=2))
        message.application_properties = {**(message.application_properties or {}), **more}
    octets: bytes = message.encode()
    return octets


@st.composite
def published(draw: st.DrawFn) -> BasicMessage:
    """Messages of 0-9-1 as their publishers send them, and some that a broker does not take."""
    found = draw(usual_basic())
    properties = found.properties
    if draw(st.booleans()):
        properties = attrs.evolve(properties, user_id="guest")
    if draw(st.booleans()):
        type_ = draw(st.sampled_from(["amqp-1.0", "t"]))
        reply = draw(st.sampled_from(["q", "a b", "amq.rabbitmq.reply-to", "é", ""]))
        cluster = draw(st.sampled_from([None, "c"]))
        properties = attrs.evolve(properties, type=type_, reply_to=reply, cluster_id=cluster)
    if draw(st.booleans()):
        names = draw(st.sampled_from([NEW_NAMES, OLD_NAMES]))
        texts = ("v", "\0", "\udcff", "é" * 2049, "x" * 4096, "", "\0Ss\x45", "\0Sr\x45")
        entry: Any = (draw(st.sampled_from(names)), "S", draw(st.sampled_from(texts)))
        if entry[0] == "x-stream-offset":
            numbers = st.sampled_from([0, 1, 255, 256, 2**63 - 1, -1, -256, -(2**63)])
            entry = draw(st.sampled_from([entry, (entry[0], "l", draw(numbers))]))
        entries = properties.headers.entries if isinstance(properties.headers, FieldTable) else []
        properties = attrs.evolve(properties, headers=FieldTable.of([*entries, entry]))
    body = found.body
    if properties.type == "amqp-1.0" and draw(st.booleans()):
        message = Message.decode(draw(usual()))
        body = Message(message.body).encode()
    return attrs.evolve(found, properties=properties, body=body)


def columns(found: list[BasicMessage]) -> dict[str, Any]:
    return columns_of([cells_of(one) for one in found if is_text(one.exchange, one.routing_key)])


def odd_rows(to: str, profile: str, given: dict[str, Any]) -> list[int]:
    """The rows that the kernel leaves to the thorough way."""
    rows = len(next(iter(given.values())))
    odd: list[int] = kernel(to, profile).run(rows, *map(buffers.kernel_buffers, given.values()))[0]
    return odd


@given(st.lists(st.one_of(sent(), messages().map(Message.encode)), max_size=6))
def test_batch_of_1_0_messages_equals_row_by_row(wires: list[bytes]) -> None:
    for translator in TO_BASIC.values():
        assert_same(translator, {"wire": pa.array(wires, pa.binary())})


@given(
    st.lists(
        st.one_of(sent().flatmap(mutated), sent().map(Message.decode).flatmap(encodings)),
        max_size=6,
    )
)
def test_batch_of_damaged_or_non_canonical_messages_equals_row_by_row(wires: list[bytes]) -> None:
    for translator in TO_BASIC.values():
        assert_same(translator, {"wire": pa.array(wires, pa.binary())})


@given(st.lists(st.one_of(published(), basic_messages()), max_size=6))
def test_batch_of_0_9_1_messages_equals_row_by_row(found: list[BasicMessage]) -> None:
    for translator in TO_AMQP10.values():
        assert_same(translator, columns(found))


@given(st.lists(sent(), max_size=5), st.data())
def test_batch_of_returned_messages_equals_row_by_row(
    wires: list[bytes], data: st.DataObject
) -> None:
    for profile in PROFILES:
        found = []
        for wire in wires:
            try:
                found.append(to_basic(Message.decode(wire), KNOWN[profile]).message)
            except TranslationError:
                continue
        rows = [cells_of(one) for one in found]
        rows += [
            row | {"content_header": data.draw(mutated(row["content_header"]))} for row in rows
        ]
        assert_same(TO_AMQP10[profile], columns_of(rows))


USUAL = {
    "reference": REFERENCE,
    "general": GENERAL,
    "a map as body": GENERAL_VALUE,
    "a body alone": Message(b"x").encode(),
    "a list as body": Message(AmqpSequence([1, "a", [], {"k": 2.5}])).encode(),
    "a header that says nothing": Message(b"x", header=Header()).encode(),
    "a priority beyond 9": Message(b"x", header=Header(priority=UByte(200))).encode(),
    "it was 0-9-1 before": Message(
        b"x",
        message_annotations={"x-exchange": "e", "x-routing-key": "k", "x-basic-type": "t"},
    ).encode(),
    "ids that are numbers": Message(
        b"x", properties=Properties(message_id=ULong(2**64 - 1), correlation_id=ULong(0))
    ).encode(),
    "numbers that do not fit": Message(
        b"x", application_properties={"a": ULong(2**63), "b": Timestamp(1), "c": b"\xff\0"}
    ).encode(),
    "a footer": Message(b"x", footer={"x-opt-a": 1, "x-opt-b": [Symbol("c")]}).encode(),
    "a footer after a map": Message({"k": 1}, footer={"x-opt-a": b"1"}).encode(),
    "delivery annotations, and parts": Message(
        [Data(b"a"), Data(b"b")], delivery_annotations={"x-opt-a": 1, "x-opt-b": None}
    ).encode(),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", USUAL)
def test_usual_messages_stay_in_the_kernel(name: str, profile: str) -> None:
    wire = {"wire": pa.array([USUAL[name]], pa.binary())}
    if "3.10" in profile and name in {"ids that are numbers", "delivery annotations, and parts"}:
        pytest.skip("version 3.10 does not deliver it")
    basic = columns_of([cells_of(to_basic(Message.decode(USUAL[name]), KNOWN[profile]).message)])

    assert [] == odd_rows("0-9-1", profile, wire)
    assert_same(TO_BASIC[profile], wire)
    # Of version 4, what stands after a body that is no data belongs to the payload.
    if name != "a footer after a map" or "3.10" in profile:
        assert [] == odd_rows("1.0", profile, basic)
    assert_same(TO_AMQP10[profile], basic)


@pytest.mark.parametrize("profile", PROFILES)
def test_expiration_header_equals_row_by_row(profile: str) -> None:
    """A stream's consumer reads it where no ttl stands in the header, and ends for other texts."""
    for value in ("abc", "5", ""):
        headers = FieldTable.of([("x-basic-expiration", "S", value)])
        basic = columns([BasicMessage(BasicProperties(headers=headers, delivery_mode=2), b"x")])
        assert_same(TO_AMQP10[profile], basic)


@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_batch_to_broker_equals_row_by_row(share: int) -> None:
    wires = [case.data for case in corpus_cases()]
    folder = Path(__file__).parents[1] / "vectors"
    # Those of circumstances differ by little more than names of queues.
    for name, step in (("translations", 1), ("odd_translations", 1), ("circumstances", 14)):
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in islice(lines, 0, None, step * share):
                wires += recorded(json.loads(line))
    wires = sorted(set(wires))
    assert len(wires) > 1000 / share
    for number, profile in enumerate(PROFILES):
        # The short form takes every third message of the sample, other ones for each profile.
        own = pa.array(wires[number % 3 :: 3] if share > 1 else wires, pa.binary())
        there = TO_BASIC[profile].run({"wire": own})
        assert_same(TO_BASIC[profile], {"wire": own})
        assert_same(TO_AMQP10[profile], {name: there[name] for name in BASIC.names})


@pytest.mark.parametrize("user", [None, "", "other", "guest\0", "u" * 256])
def test_user_option_equals_row_by_row(user: str | None) -> None:
    wires = [
        Message(b"x", properties=Properties(user_id=name)).encode()
        for name in (None, b"guest", b"other", b"", b"u" * 256, b"guest\0")
    ]
    rows = [BasicMessage(BasicProperties(user_id=name), b"x") for name in (None, "guest", "other")]
    for profile in PROFILES:
        given = Circumstances(user=user)
        to_basic_ = Translator("0-9-1", profile, circumstances=given)
        assert_same(to_basic_, {"wire": pa.array(wires, pa.binary())})
        assert_same(Translator("1.0", profile, circumstances=given), columns(rows))


@pytest.mark.parametrize(
    "given_",
    [
        Circumstances(given_back=["closed"] * 2),
        Circumstances(stream_offset=7),
        Circumstances(deaths=[Death("q", "expired", 1)]),
    ],
)
def test_messages_that_depend_on_circumstances_use_the_fallback(given_: Circumstances) -> None:
    for profile in PROFILES:
        assert kernel("0-9-1", profile, circumstances=given_) is None
        assert kernel("1.0", profile, circumstances=given_) is None


def test_strict_mode_rejects_losses() -> None:
    translator = Translator("0-9-1", "rabbitmq-4.3", strict=True)
    made = translator.run({"wire": pa.array([REFERENCE, Message(b"x").encode()], pa.binary())})

    assert ["not-translatable", None] == made["error_code"].to_pylist()


def _delivered() -> list[bytes]:
    """The messages of 1.0 that RabbitMQ was recorded to deliver, odd ones on purpose among them."""
    folder = Path(__file__).parents[1] / "vectors"
    found = set()
    for name in ("translations.jsonl.gz", "circumstances.jsonl.gz"):
        with gzip.open(folder / name, "rt", encoding="utf-8") as lines:
            given = [json.loads(line)["gives"] for line in lines]
        found |= {bytes.fromhex(one) for one in given if isinstance(one, str)}
    return sorted(found)


@pytest.mark.parametrize("profile", [*PROFILES, "lossless"])
def test_few_broker_messages_need_the_fallback(profile: str) -> None:
    made = []
    for wire in _delivered():
        try:
            to_basic(Message.decode(wire), KNOWN[profile])
        except AmqpError:
            continue  # it is no message, or the broker refuses it
        made.append(wire)

    odd = odd_rows("0-9-1", profile, {"wire": pa.array(made, pa.binary())})

    assert len(made) > 800
    assert len(odd) <= 0.05 * len(made)


def _delivered_basic() -> list[BasicMessage]:
    """The messages of 0-9-1 that RabbitMQ was recorded to deliver, half of them out of streams."""
    folder = Path(__file__).parents[1] / "vectors"
    with gzip.open(folder / "translations.jsonl.gz", "rt", encoding="utf-8") as lines:
        given = [json.loads(line)["gives"] for line in lines]
    found = sorted({(one[0], one[1]) for one in given if isinstance(one, list)})
    return [
        BasicMessage(decode_properties(bytes.fromhex(head)), bytes.fromhex(body), "", "q")
        for head, body in found
    ]


@pytest.mark.parametrize("profile", ["lossless", "rabbitmq-3.10", "rabbitmq-3.10-stream"])
def test_few_messages_to_0_9_1_consumers_need_the_fallback(profile: str) -> None:
    """Sections among their headers, offsets, and of each ten one that is odd on purpose."""
    made = _delivered_basic()
    given_ = columns(made)

    assert len(made) > 1_300
    assert len(odd_rows("1.0", profile, given_)) <= 0.15 * len(made)
    assert_same(Translator("1.0", profile), given_)
