"""Messages of 1.0 through 0-9-1 and brokers, and back: the same bytes, or losses say what differs.

What brokers did is recorded in vectors/round_trips.jsonl.gz; a short form of the run that recorded
it, tools/lossless_round_trips.py, asks the broker that AMQP10MSG_RABBITMQ names.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any

import attrs
import pytest

pytest.importorskip("pika")
pytest.importorskip("proton")

from broker_clients import Broker
from lossless_round_trips import Lane, is_named, messages
from message_differences import changed_parts

from amqp10msg import (
    Array,
    Data,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
    encode_value,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_properties,
    encode_properties,
)
from amqp10msg.translate import (
    Circumstances,
    TranslationError,
    as_published,
    to_amqp10,
    to_basic,
)
from amqp10msg.translate._delivery import encode_full_header
from amqp10msg.translate.residual import RESIDUAL_NAME
from tests.lossless import carries, octets_of, with_added
from tests.samples import some

ROOT = Path(__file__).parents[2]
BROKER = os.environ.get("AMQP10MSG_RABBITMQ")
#: Annotations of which a broker writes over the headers where the message becomes a dead letter.
DYING = [
    Message("x", message_annotations={f"x-opt-x-{which}-death-{what}": value})
    for which, what, value in (("first", "queue", "q"), ("last", "reason", -1))
]


@cache
def recorded() -> dict[tuple[str, str], list[Any]]:
    """Return what was recorded, by broker and way."""
    found: dict[tuple[str, str], list[Any]] = {}
    path = ROOT / "tests" / "vectors" / "round_trips.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            found.setdefault((entry["broker"], entry["way"]), []).append(entry)
    return found


def silent(message: Message, delivered: BasicMessage, **how: bool) -> list[str]:
    """Name what differs between a message and what came back, and no loss names."""
    back = to_amqp10(as_published(delivered, **how))
    losses = (*to_basic(message).losses, *back.losses)
    differing = changed_parts(message, back.message)
    return [path for path in differing if not is_named(path, losses)]


@pytest.mark.parametrize("broker, way", sorted(recorded()))
def test_delivered_messages_are_restored_or_reported(broker: str, way: str) -> None:
    how = {"stream": broker.endswith("-stream"), "dead_letter": way == "dead"}
    identical = 0
    for entry in some(recorded()[broker, way]):
        properties, body, key, redelivered = entry["delivered"]
        delivered = BasicMessage(
            decode_properties(bytes.fromhex(properties)), bytes.fromhex(body), "", key, redelivered
        )
        message = Message.decode(bytes.fromhex(entry["message"]), strict=False)

        assert [] == silent(message, delivered, **how), entry["message"]
        back = to_amqp10(as_published(delivered, **how)).message
        identical += message.encode() == back.encode()
    assert identical > 0.85 * len(some(recorded()[broker, way]))


def test_messages_were_recorded_of_all_brokers() -> None:
    kinds = ("", "-quorum", "-stream")
    brokers = {
        f"rabbitmq-{version}{kind}" for version in ("3.10.8", "4.0.5", "4.3.6") for kind in kinds
    }

    assert {(name, "first") for name in brokers} <= recorded().keys()
    assert min(map(len, recorded().values())) > 80


VERSIONS = ["rabbitmq-4.0", "rabbitmq-4.3"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "profile", ["rabbitmq-3.10", *VERSIONS, *(f"{v}-stream" for v in VERSIONS)]
)
def test_no_broker_fails_on_what_1_0_becomes(profile: Any, seed: int) -> None:
    """As far as the profiles know them: what they refuse is a user-id or a direct reply-to."""
    given = Circumstances(user=None, stream_offset=0 if "stream" in profile else None)
    for message in messages(seed, 150):
        made = to_basic(message).message
        if (made.properties.reply_to or "").startswith("amq.rabbitmq.reply-to"):
            continue  # that of direct replies, which a connection must have asked for
        to_amqp10(made, profile, circumstances=given)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("profile", [f"{v}-stream" for v in VERSIONS])
def test_stream_changes_are_restored_or_reported(profile: Any, seed: int) -> None:
    """As the profiles predict it, where they do: messages of any seed, without a broker."""
    given = Circumstances(user=None, stream_offset=7)
    for message in messages(seed + 100, 150):
        made = attrs.evolve(to_basic(message).message, routing_key="q", redelivered=False)
        try:
            stored = to_amqp10(made, profile, circumstances=given).message
            came = to_basic(stored, profile, circumstances=given).message
        except TranslationError:
            continue  # it is refused

        assert [] == silent(message, came, stream=True), message.encode().hex()


UUID = "urn:uuid:58b867b0-8151-1f56-1bd4-73229807fd60"
POISON_IDS = [
    *(
        "urn:uuid:" + "0" * 35 + "g",
        "urn:uuid:" + "a" * 36,
        "urn:uuid:" + "-" * 36,
        UUID[:-1] + "-",
    ),
    *("urn:uuid:58B867B0-8151-1F56-1BD4-73229807FD60", "urn:uuid:" + "ü" * 18),
]


@pytest.mark.parametrize("text", POISON_IDS)
def test_id_mistaken_for_a_uuid_is_carried(text: str) -> None:
    message = Message(b"x", properties=Properties(message_id=text, correlation_id=text))
    made = to_basic(message)

    assert (None, None) == (
        made.message.properties.message_id,
        made.message.properties.correlation_id,
    )
    assert {"carried"} == {loss.action for loss in made.losses}
    assert message == to_amqp10(made.message).message
    basic = BasicMessage(BasicProperties(message_id=text, correlation_id=text))
    assert octets_of(basic) == octets_of(to_basic(to_amqp10(basic).message).message)


@pytest.mark.parametrize("text", [UUID, UUID + "0", UUID[:-1], UUID.upper(), "urn:uuid:", "urn:x"])
def test_harmless_ids_become_properties(text: str) -> None:
    message = Message(b"x", properties=Properties(message_id=text))
    made = to_basic(message).message

    assert text == made.properties.message_id
    assert message == to_amqp10(made).message


def test_a_type_that_promises_sections_is_not_said_of_other_bytes() -> None:
    message = Message(b"\0\x53", message_annotations={"x-opt-basic-type": "amqp-1.0"})
    made = to_basic(message).message

    assert made.properties.type is None
    assert message == to_amqp10(made).message
    basic = BasicMessage(BasicProperties(type="amqp-1.0"), b"\0\x53")
    there = to_amqp10(basic)
    assert ["properties.type"] == [loss.path for loss in there.losses]
    assert octets_of(basic) == octets_of(to_basic(there.message).message)


@pytest.mark.parametrize("name", ["content_type", "content_encoding"])
def test_non_ascii_symbols_are_carried(name: str) -> None:
    given: Any = {name: "text/ü"}
    basic = BasicMessage(BasicProperties(**given))
    there = to_amqp10(basic)

    assert {RESIDUAL_NAME} == set(there.message.message_annotations or ())
    assert octets_of(basic) == octets_of(to_basic(there.message).message)
    annotations: Any = {f"x-opt-basic-{name.replace('_', '-')}": "text/ü"}
    message = Message(b"x", message_annotations=annotations)
    made = to_basic(message).message
    assert getattr(made.properties, name) is None
    assert message == to_amqp10(made).message


@pytest.mark.parametrize("user, stays", [("ü" * 64, True), ("ü" * 65, False), ("u" * 255, True)])
def test_a_user_id_of_which_a_broker_could_die_is_carried(user: str, stays: bool) -> None:
    message = Message(b"x", properties=Properties(user_id=user.encode()))
    made = to_basic(message).message

    assert (user if stays else None) == made.properties.user_id
    assert message == to_amqp10(made).message
    basic = BasicMessage(BasicProperties(user_id=user))
    assert octets_of(basic) == octets_of(to_basic(to_amqp10(basic).message).message)


@pytest.mark.parametrize("count", [2, 7, 2**32 - 1])
@pytest.mark.parametrize("redelivered", [False, True])
def test_one_call_gives_the_delivery_count_back(count: int, redelivered: bool) -> None:
    message = Message(b"x", header=Header(durable=True, delivery_count=count))
    made = to_basic(message).message
    came = attrs.evolve(made, exchange="e", routing_key="q", redelivered=redelivered)

    assert made.redelivered
    assert message == to_amqp10(as_published(came)).message
    assert () == to_amqp10(as_published(came)).losses


UNSORTED: dict[Any, Any] = {"b": 1, "a": 2}


def test_the_losses_name_the_order_that_brokers_sort() -> None:
    message = Message(
        b"x", application_properties=UNSORTED, message_annotations={"x-opt-a": 1, "x-opt-b": 2}
    )
    made = to_basic(message, strict=True)

    assert [("application-properties", "sorted", True)] == [
        (loss.path, loss.action, loss.recoverable) for loss in made.losses
    ]
    assert message == to_amqp10(made.message).message
    assert [] == silent(message, attrs.evolve(with_added(made.message), routing_key="q"))


@pytest.mark.parametrize("last", ["z", "\xfc", "x.y"])
def test_names_that_sort_after_those_of_annotations_are_a_loss(last: str) -> None:
    """A broker puts them behind the annotations, and a residual comes back that says so."""
    annotations = {"x-opt-a": 1, "x-opt-b": 2}
    message = Message(
        b"x", application_properties={"b": 1, last: 2}, message_annotations=annotations
    )
    made = to_basic(message)
    back = to_amqp10(as_published(with_added(made.message))).message

    assert ["message-annotations"] == [loss.path for loss in made.losses]
    assert {RESIDUAL_NAME, *annotations} == set(back.message_annotations or {})
    assert [] == silent(message, attrs.evolve(with_added(made.message), routing_key="q"))


def test_a_residual_keeps_the_order_so_that_no_loss_names_it() -> None:
    message = Message(b"x", application_properties={**UNSORTED, "u": ULong(1)})
    made = to_basic(message)

    assert carries(made.message)
    assert ["application-properties['u']"] == [loss.path for loss in made.losses]
    assert message == to_amqp10(with_added(made.message)).message


def test_a_dead_letter_comes_back_without_its_history_and_with_its_ttl() -> None:
    message = Message(b"x", header=Header(ttl=600_000), application_properties=UNSORTED)
    made = to_basic(message).message
    death = FieldTable.of([("count", "l", 1), ("original-expiration", "S", "600000")])
    letter = with_added(made, [("x-death", "A", [death]), ("x-first-death-queue", "S", "work")])
    came = attrs.evolve(
        letter, properties=attrs.evolve(letter.properties, expiration=None), routing_key="q"
    )
    plain = as_published(came, dead_letter=True)

    assert "600000" == plain.properties.expiration
    expected = message.evolve(application_properties={"a": 2, "b": 1})
    assert expected == to_amqp10(plain).message
    assert came.properties.expiration is None


ROUTE: dict[Any, Any] = {"x-routing-key": "q", "x-exchange": "e"}
WITH_RESIDUAL = BasicProperties(priority=200, headers={"b": 1, "a": [1]})


@pytest.mark.parametrize(
    "properties",
    [
        BasicProperties(),
        BasicProperties(headers={"b": 1, "x-a": 2}),
        BasicProperties(headers={"a": 1, "x-last-death-queue": "orders"}),
        BasicProperties(headers={"x-first-death-reason": "mine", "x-last-death-foo": 5}),
        BasicProperties(headers={"x-death": ["mine"]}, message_id="m"),
        WITH_RESIDUAL,
    ],
)
def test_a_message_comes_back_from_rabbitmq_4_3_which_puts_its_annotations_first(
    properties: BasicProperties,
) -> None:
    sent = BasicMessage(properties, b"x")
    there = to_amqp10(sent).message
    front = Header(priority=(there.header or Header()).priority, first_acquirer=True)
    annotations = {**ROUTE, **(there.message_annotations or {})}
    rest = there.evolve(header=None, message_annotations=annotations)
    delivered = Message.decode(encode_full_header(front) + rest.encode())
    made = to_basic(delivered).message

    assert octets_of(sent) == octets_of(as_published(made))
    assert octets_of(attrs.evolve(sent, exchange="e", routing_key="q")) == octets_of(made)


@pytest.mark.parametrize("first", [0x41, 0x42])
@pytest.mark.parametrize(
    "properties",
    [
        BasicProperties(),
        BasicProperties(correlation_id="", type=""),
        BasicProperties(delivery_mode=2, priority=9, expiration="600000"),
        BasicProperties(priority=0, expiration="5", headers={"x-death": ["mine"], "a": 1}),
        WITH_RESIDUAL,
    ],
)
def test_a_message_comes_back_from_rabbitmq_3_10_which_writes_the_header_anew(
    properties: BasicProperties, first: int
) -> None:
    """As recorded of 3.10.8: 005370c006054240404140 at first delivery, …4240 when requeued."""
    sent = BasicMessage(properties, b"x")
    there = to_amqp10(sent).message
    header = there.header or Header()
    fields = [
        b"\x41" if header.durable else b"\x42",
        b"\x40" if header.priority == 4 else bytes([0x50, header.priority]),
        b"\x40" if header.ttl is None else encode_value(UInt(header.ttl)),
        bytes([first, 0x40]),
    ]
    front = b"\0\x53\x70\xc0" + bytes([len(b"".join(fields)) + 1, 5]) + b"".join(fields)
    delivered = Message.decode(front + there.evolve(header=None).encode())
    made = to_basic(delivered)

    assert octets_of(sent) == octets_of(made.message)
    assert [("header", "dropped", False)] == [
        (loss.path, loss.action, loss.recoverable)
        for loss in made.losses
        if loss.path.startswith("header")
    ]


def test_header_with_more_than_3_10_fields_is_kept() -> None:
    message = Message(b"x", header=Header(priority=200, first_acquirer=True))
    made = to_basic(message).message

    assert message == to_amqp10(as_published(made)).message


def test_a_residual_loses_nothing_but_the_form_of_the_delivery() -> None:
    message = Message(b"x", message_annotations=ROUTE, properties=Properties(to="there"))
    message = Message.decode(encode_full_header(Header(first_acquirer=True)) + message.encode())
    made = to_basic(message).message
    expected = to_basic(Message(b"x", properties=Properties(to="there"))).message

    assert message.encode() == to_amqp10(made).message.encode()
    assert octets_of(expected) == octets_of(as_published(made))


BIG = {f"x-opt-{number}": "v" * 100 for number in range(2000)}
LARGE = {
    "footer": Message(b"x", footer=BIG),
    "annotations": Message([Data(b"a"), Data(b"b")], message_annotations=BIG),
    "properties": Message(b"x", application_properties={f"k{n}": "v" * 100 for n in range(2000)}),
    "array": Message(b"x", message_annotations={"x-opt-a": Array(0x56, [True] * 131_072)}),
    "symbols": Message(
        b"x",
        application_properties={f"k{n}": Symbol("s") for n in range(9000)},
        properties=Properties(message_id="m", content_type="text/plain"),
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_oversized_headers_are_stored_in_the_payload(name: str) -> None:
    message = attrs.evolve(LARGE[name], message_format=5)
    made = to_basic(message)
    basic = made.message

    assert len(encode_properties(basic.properties)) < 200
    assert "" == made.losses[-1].path
    assert message.encode() == basic.body
    for came in (basic, attrs.evolve(basic, routing_key="q"), as_published(basic)):
        back = to_amqp10(came).message
        assert (message.encode(), 5) == (back.encode(), back.message_format)


@pytest.mark.parametrize("name", LARGE)
def test_edit_of_a_message_stored_in_the_payload_has_precedence(name: str) -> None:
    basic = to_basic(LARGE[name]).message
    headers = FieldTable.of(
        [*FieldTable(basic.properties.headers or ()).entries, ("own", "S", "new")]
    )
    edited = attrs.evolve(basic.properties, message_id="n", priority=7, headers=headers)
    back = to_amqp10(attrs.evolve(basic, properties=edited)).message

    assert ("n", 7) == (
        back.properties and back.properties.message_id,
        back.header and back.header.priority,
    )
    application = {**(LARGE[name].application_properties or {}), "own": "new"}
    assert application == back.application_properties
    kept: dict[str, Any] = {"header": None, "properties": None, "application_properties": None}
    assert LARGE[name].evolve(**kept) == back.evolve(**kept)


@pytest.mark.parametrize("first_acquirer", ["41", "42"])
@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"x-opt-a": Symbol("q")},
        {"x-opt-a": [1, Symbol("q")]},
        {"x-opt-a": Int(5)},
        {"x-opt-b": 1, "x-opt-a": 2},
        {"x-opt-x-last-death-reason": "q"},
    ],
)
def test_annotations_beside_a_header_of_rabbitmq_3_stay(
    annotations: dict[str, Any], first_acquirer: str
) -> None:
    """That header goes, and all that the residual says beside it comes back."""
    plain = Message("x", message_annotations=annotations, application_properties={"a": Int(5)})
    header = bytes.fromhex(f"005370c00605424040{first_acquirer}40")

    made = to_basic(Message.decode(header + plain.encode())).message
    delivered = attrs.evolve(made, routing_key="q")

    assert plain.encode() == to_amqp10(as_published(delivered)).message.encode()


def test_headers_that_fit_stay_headers() -> None:
    """Frames of RabbitMQ have 128 KiB; the body has as many as it takes."""
    message = Message(b"x" * 300_000, application_properties={"k": "v" * 130_900})
    made = to_basic(message)

    assert 130_900 < len(encode_properties(made.message.properties)) < 131_052
    assert () == made.losses


@pytest.mark.parametrize("message", DYING)
def test_a_loss_names_headers_that_a_broker_writes_into_dead_letters(message: Message) -> None:
    made = to_basic(message)
    ((key, value),) = (message.message_annotations or {}).items()
    died = attrs.evolve(
        made.message.properties,
        headers=FieldTable.of([(key.removeprefix("x-opt-"), "S", "rejected")]),
    )
    (loss,) = made.losses

    assert (f"message-annotations[{str(key)!r}]", "dropped", value) == (
        loss.path,
        loss.action,
        loss.before,
    )
    assert message.encode() == to_amqp10(made.message).message.encode()
    back = to_amqp10(BasicMessage(died, made.message.body)).message
    assert is_named(loss.path, made.losses)
    assert message.encode() != back.encode()


@pytest.mark.skipif(BROKER is None, reason="AMQP10MSG_RABBITMQ names no RabbitMQ")
@pytest.mark.once
@pytest.mark.parametrize(
    "kind, way", list(product(["classic", "quorum", "stream"], ["first", "requeued", "dead"]))
)
def test_a_broker_gives_back_what_went_in_or_the_losses_name_it(kind: str, way: str) -> None:
    seed = random.randrange(10**9)
    lane = Lane(Broker.at(BROKER or ""), kind, basic=False, way=way)
    if lane.is_unknown:
        pytest.skip("AMQP10MSG_RABBITMQ names a RabbitMQ whose streams take nothing back")
    found = lane.run(chain(DYING, messages(seed, 200)))

    assert [] == found.faults, seed
    assert found.counts["identical"] > 150


@pytest.mark.skipif(BROKER is None, reason="AMQP10MSG_RABBITMQ names no RabbitMQ")
@pytest.mark.once
@pytest.mark.parametrize("name", LARGE)
def test_broker_accepts_a_message_with_oversized_headers(name: str) -> None:
    found = Lane(Broker.at(BROKER or ""), "classic", basic=False).run(iter([LARGE[name]]))

    assert {"identical": 1} == dict(found.counts)
