"""The lossless profile: exactly reversible, valid on both sides, edits win, nothing raises.

What the other profiles promise stands in test_translate_recorded and test_translate_profiles; what
brokers do to messages of this one in test_translate_through_brokers.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import decimal
import json
import os
import pickle
from collections.abc import Callable
from gzip import open as gzip_open
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    EncodeError,
    Header,
    Message,
    Properties,
    Symbol,
    UByte,
    ULong,
    encode_value,
    scan,
    validate,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_content_header,
    decode_properties,
    encode_content_header,
    encode_properties,
)
from amqp10msg.basic.properties import PROPERTIES
from amqp10msg.basic.rules import check_properties
from amqp10msg.testing import basic_messages, encodings, messages, simple_values
from amqp10msg.translate import (
    PROFILES,
    ProfileName,
    Translation,
    TranslationError,
    to_amqp10,
    to_basic,
)
from amqp10msg.translate._to_basic import carry_encodings
from amqp10msg.translate.correspondence import to_amqp10_rows, to_basic_rows
from amqp10msg.translate.residual import RESIDUAL_NAME
from amqp10msg.translate.table import ROWS, Row
from bench.messages import GENERAL, GENERAL_VALUE
from tests.lossless import MESSAGE, ODD, octets_of, sent


@given(basic_messages())
def test_a_0_9_1_message_comes_back_octet_for_octet(basic: BasicMessage) -> None:
    made = to_amqp10(basic)
    received = Message.decode(made.message.encode())

    assert octets_of(basic) == octets_of(to_basic(received).message)
    assert all(loss.recoverable for loss in made.losses)


def outcome(basic: BasicMessage, profile: Any) -> Any:
    try:
        made = to_amqp10(basic, profile)
    except TranslationError as error:
        return str(error)
    return made.message.encode(), repr(made.message), repr(made.losses)


@given(
    basic_messages(),
    st.sampled_from(list(PROFILES)),
    st.sampled_from(["rabbitmq", "spec", "qpid"]),
    st.integers(-1, 1),
    st.sampled_from(["as it was", "body", "property", "header"]),
)
def test_a_decoded_message_becomes_what_it_says(
    basic: BasicMessage, profile: Any, dialect: Any, more: int, change: str
) -> None:
    size = max(len(basic.body) + more, 0)
    try:
        octets = encode_content_header(basic.properties, size, dialect=dialect)
    except EncodeError:  # a letter that the dialect has not
        octets = encode_content_header(basic.properties, size)
        dialect = "rabbitmq"
    decoded, fresh = (decode_content_header(octets, dialect=dialect).properties for _ in "12")
    body = basic.body
    if change == "body":
        body += b"more"
    for properties in (decoded, fresh):
        if change == "property":
            properties.type, properties.priority = "changed", 3
        elif change == "header" and isinstance(properties.headers, FieldTable):
            properties.headers.entries.append(("changed", "I", 1))
    fresh = attrs.evolve(fresh)  # which keeps no bytes

    rest = basic.exchange, basic.routing_key, basic.redelivered
    expected = outcome(BasicMessage(fresh, body, *rest), profile)
    assert expected == outcome(BasicMessage(decoded, body, *rest), profile)


@given(basic_messages())
def test_what_it_becomes_follows_part_3(basic: BasicMessage) -> None:
    assert [] == validate(to_amqp10(basic).message, profile="oasis")


@given(messages())
def test_a_1_0_message_comes_back_octet_for_octet(message: Message) -> None:
    octets = message.encode()
    made = to_basic(message)

    assert octets == to_amqp10(sent(made.message)).message.encode()
    assert all(loss.recoverable for loss in made.losses)


@given(messages())
def test_what_it_becomes_follows_0_9_1(message: Message) -> None:
    found = check_properties(to_basic(message).message.properties)

    assert [] == [finding for finding in found if finding.severity == "error"]


ODD_TEXTS = st.sampled_from(
    ["a", "urn:b", "ID:c", "text/plain", "amqp-1.0", "é", "\0", "", "z" * 256]
)


VALUES: st.SearchStrategy[Any] = st.one_of(simple_values(), ODD_TEXTS)


KEYS = st.sampled_from(
    [
        *("x-opt-a", "x-opt-x-b", "x-b", "x-opt-priority", "x-stream-filter-value", "x-exchange"),
        *("x-death", "x-opt-deaths", "b", "x-amqp-1.0-footer", "x-opt-app-id", "x-routing-key"),
        *(
            "x-opt-type",
            "x-opt-delivery-mode",
            "x-opt-message-id",
            "x-opt-content-type",
            RESIDUAL_NAME,
        ),
    ]
)


ANNOTATIONS = st.none() | st.dictionaries(KEYS | st.integers(0, 3).map(ULong), VALUES, max_size=4)


IDS = ODD_TEXTS | st.uuids() | st.integers(0, 2**64 - 1) | st.binary(max_size=3)


def typical() -> st.SearchStrategy[Message]:
    """Messages of which most is usual, and some is not."""
    headers = st.builds(
        Header,
        durable=st.booleans(),
        priority=st.integers(0, 11),
        ttl=st.none() | st.integers(0, 2**32 - 1),
        first_acquirer=st.booleans(),
        delivery_count=st.integers(0, 2),
    )
    times = st.none() | st.integers(0, 2**40).map(lambda s: 1000 * s) | st.integers(-5, 2**62)
    texts = st.none() | ODD_TEXTS
    properties = st.builds(
        Properties,
        message_id=st.none() | IDS,
        user_id=st.none() | st.binary(max_size=3),
        to=texts,
        subject=texts,
        reply_to=texts,
        correlation_id=st.none() | IDS,
        content_type=texts.filter(lambda text: text is None or text.isascii()),
        content_encoding=texts.filter(lambda text: text is None or text.isascii()),
        absolute_expiry_time=times,
        creation_time=times,
        group_id=texts,
    )
    names = st.sampled_from(
        [*"abcz", "x-a", "x-b", "CC", "é", "x-opt-a", "", "k" * 256, RESIDUAL_NAME]
    )
    bodies = st.binary(max_size=3) | VALUES.map(AmqpValue) | st.just([Data(b"a"), Data(b"b")])
    return st.builds(
        Message,
        bodies | st.none() | st.just([AmqpSequence([1])]),
        header=st.none() | headers,
        delivery_annotations=st.none() | st.just({"x-opt-d": 1}),
        message_annotations=ANNOTATIONS,
        properties=st.none() | properties,
        application_properties=st.none() | st.dictionaries(names, VALUES, max_size=4),
        footer=st.none() | st.just({"x-opt-f": 1}),
        message_format=st.sampled_from([0, 0, 1]),
    ).map(lambda made: Message.decode(made.encode(), message_format=made.message_format))


def by_plain_rules(message: Message, thoroughly: bool = False) -> Translation[BasicMessage]:
    """Translate without the engine; thoroughly, with a second translation as the proof."""

    def carried(made: Any) -> bool:
        return carry_encodings(made) or thoroughly

    with (
        mock.patch("amqp10msg.translate.basic_translation", return_value=None),
        mock.patch("amqp10msg.translate._lossless.carry_encodings", carried),
    ):
        return to_basic(message)


@given(typical() | messages())
def test_the_engine_the_plain_rules_and_a_second_translation_agree(message: Message) -> None:
    expected = by_plain_rules(message, thoroughly=True)

    for found in (by_plain_rules(message), to_basic(message)):
        assert octets_of(expected.message) == octets_of(found.message)
        assert repr(expected.losses) == repr(found.losses)


@pytest.mark.parametrize("profile", ["lossless", "rabbitmq-4.3"])
def test_losses_are_of_the_message_as_it_was_translated(profile: ProfileName) -> None:
    message = Message.decode(GENERAL)
    expected = to_basic(Message.decode(GENERAL), profile).losses
    found = to_basic(message, profile)
    message.properties = message.application_properties = None

    assert expected == found.losses != ()
    assert expected is not found.losses


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, attrs.evolve, lambda made: pickle.loads(pickle.dumps(made))],
)
def test_a_translation_is_copied_with_losses_that_were_not_asked_for(
    copied: Callable[[Any], Any],
) -> None:
    expected = to_basic(Message.decode(GENERAL))

    assert expected == copied(to_basic(Message.decode(GENERAL)))
    with pytest.raises(AttributeError, match="'Translation' object has no attribute 'lost'"):
        expected.lost  # type: ignore[attr-defined]  # noqa: B018


@given(typical())
@example(Message(b"x", message_annotations={"x-stream-filter-value": UByte(0)}))
def test_a_typical_message_comes_back_octet_for_octet(message: Message) -> None:
    made = to_amqp10(sent(to_basic(message).message)).message

    assert (message.encode(), message.message_format) == (made.encode(), made.message_format)


def test_the_general_message_is_certain_to_come_back() -> None:
    with mock.patch("amqp10msg.translate._lossless._round_trips", side_effect=AssertionError):
        for octets in (GENERAL, GENERAL_VALUE):
            by_plain_rules(Message.decode(octets))


@given(messages(), st.data())
def test_a_message_of_any_encoding_comes_back_octet_for_octet(message: Message, data: Any) -> None:
    octets = data.draw(encodings(message))
    made = to_basic(Message.decode(octets))

    assert octets == to_amqp10(sent(made.message)).message.encode()


@given(st.integers(0, 60), st.integers(0, 255), st.booleans())
def test_a_message_with_any_octet_changed_comes_back(place: int, octet: int, cut: bool) -> None:
    octets = to_amqp10(BasicMessage(TYPICAL, b"{}")).message.encode()
    changed = octets[:place] + (b"" if cut else bytes([octet])) + octets[place + 1 :]
    try:
        message = Message.decode(changed)
    except DecodeError:
        return
    assert changed == to_amqp10(sent(to_basic(message).message)).message.encode()


PLAIN_VALUES: dict[str, Any] = {
    "delivery_mode": st.integers(0, 255),
    "priority": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1) | st.integers(0, 2 * 10**12),
    "expiration": st.integers(0, 10**12).map(str) | st.from_regex(r"[+-]?0?[0-9]{0,11}\Z"),
}


TEXTS: Any = st.text(max_size=8) | st.sampled_from(
    ["text/plain", "gzip", "urn:uuid:x", "ID:AMQP_ULONG:7", "urn:", "\0", "utf-8", "é"]
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@given(st.data())
def test_the_usual_form_of_a_value_is_what_its_row_says(row: Row, data: Any) -> None:
    value = data.draw(PLAIN_VALUES.get(row.name, TEXTS))
    for _ in range(2):  # the second time as a text that was met before
        message = to_amqp10(BasicMessage(BasicProperties(**{row.name: value}))).message
        place = row.forward(value, True)
        section = getattr(message, row.section) if row.section else None
        found = {
            "field": getattr(section, row.field, None),
            "annotation": dict(message.message_annotations or {}).get(row.annotation),
            "residual": None,
        }
        assert (place.value, type(place.value)) == (found[place.target], type(found[place.target]))
        mapped, exact = row.backward(place.value) if place.target == "field" else (value, False)
        if exact and place.exact:
            assert value == mapped == getattr(to_basic(message).message.properties, row.name)


@given(messages(), st.data())
def test_a_message_that_breaks_part_3_comes_back(message: Message, data: Any) -> None:
    sections = [encode_value(section) for _, section in message.sections()]
    octets = b"".join(data.draw(st.permutations(sections + sections[:1])))
    try:
        lenient = Message.decode(octets, strict=False)
    except DecodeError:
        return
    assert octets == to_amqp10(sent(to_basic(lenient).message)).message.encode()


TYPICAL = BasicProperties(
    content_type="application/json",
    headers={"tenant": "acme", "retries": 3, "x-delay": 5000},
    delivery_mode=2,
    correlation_id="c-1",
    reply_to="replies",
    expiration="60000",
    message_id="urn:uuid:58b867b0-8151-1f56-1bd4-73229807fd60",
    timestamp=1_700_000_000,
    type="order",
    user_id="guest",
    app_id="shop",
)


@pytest.mark.parametrize("prefix", ["", "x-", "x-opt-", "x-opt-x-", "x-basic-"])
@pytest.mark.parametrize("size", [249, 250, 255])
def test_the_longest_names_of_headers_come_back(prefix: str, size: int) -> None:
    headers = FieldTable.of([(prefix.ljust(size, "n"), "S", "value"), ("a", "I", 1)])
    basic = BasicMessage(BasicProperties(headers=headers), b"body")
    made = Message.decode(to_amqp10(basic).message.encode())

    assert encode_properties(basic.properties) == encode_properties(
        to_basic(made).message.properties
    )


@pytest.mark.parametrize("name", [row.name for row in PROPERTIES if row.domain == "shortstr"])
@pytest.mark.parametrize("character", ["a", "7", "\udcff", "\0"])
@pytest.mark.parametrize("size", [254, 255])
def test_longest_short_strings_of_properties_come_back(
    name: str, character: str, size: int
) -> None:
    fields: dict[str, Any] = {name: character * size}
    basic = BasicMessage(BasicProperties(**fields), b"body")
    made = Message.decode(to_amqp10(basic).message.encode())

    assert encode_properties(basic.properties) == encode_properties(
        to_basic(made).message.properties
    )


@pytest.mark.parametrize(
    "payload",
    [
        "005377004440",  # a described value
        "00537782fff8000000000000",  # not a number
        "005376c0060174225f1a2b",  # a list of a decimal32
        "005377e00200c1",  # an array without elements
        "005375a00161",
        "005375a00161005375a00162",
    ],
)
def test_encoded_sections_come_back_as_what_their_type_says(payload: str) -> None:
    basic = BasicMessage(BasicProperties(type="amqp-1.0"), bytes.fromhex(payload))
    made = Message.decode(to_amqp10(basic).message.encode())

    assert basic == to_basic(made).message
    assert () == to_basic(made).losses


def test_a_typical_message_needs_no_residual() -> None:
    made = to_amqp10(BasicMessage(TYPICAL, b"{}"))

    assert RESIDUAL_NAME not in (made.message.message_annotations or {})
    assert () == made.losses
    back = to_basic(made.message)
    assert RESIDUAL_NAME not in (back.message.properties.headers or {})
    assert ["sorted"] == [loss.action for loss in back.losses]  # by a broker on the way


def test_fields_stand_where_they_are_looked_for() -> None:
    message = to_amqp10(BasicMessage(TYPICAL, b"{}")).message

    assert message.header == Header(durable=True, ttl=60_000)
    assert message.properties is not None
    assert "58b867b0-8151-1f56-1bd4-73229807fd60" == str(message.properties.message_id)
    assert ("c-1", "replies", b"guest", 1_700_000_000_000) == (
        message.properties.correlation_id,
        message.properties.reply_to,
        message.properties.user_id,
        message.properties.creation_time,
    )
    assert {"tenant": "acme", "retries": 3} == message.application_properties
    assert {
        "x-opt-basic-type": "order",
        "x-opt-basic-app-id": "shop",
        "x-opt-x-delay": 5000,
    } == message.message_annotations
    assert Data(b"{}") == message.body


def edited(message: Message) -> Message:
    assert message.properties is not None
    properties = attrs.evolve(message.properties, message_id="edited")
    application = {**(message.application_properties or {}), "b": "new", "added": True}
    return message.evolve(properties=properties, application_properties=application)


def test_an_edit_in_1_0_wins_and_the_rest_is_restored() -> None:
    received = Message.decode(to_amqp10(BasicMessage(ODD, b"{}")).message.encode())
    back = to_basic(Message.decode(edited(received).encode()))

    expected = [("x-a", "L", 5), ("b", "S", "new"), *ODD.headers.entries[2:]]  # type: ignore[union-attr]
    expected.append(("added", "t", True))
    properties = attrs.evolve(ODD, message_id="edited", headers=FieldTable.of(expected))
    assert encode_properties(properties) == encode_properties(back.message.properties)


def test_a_stale_original_is_reported() -> None:
    received = to_amqp10(BasicMessage(ODD)).message
    later = received.evolve(header=Header(ttl=8))
    back = to_basic(later)

    assert ("8", None) == (back.message.properties.expiration, back.message.properties.priority)
    assert {"properties.expiration", "properties.priority"} == {loss.path for loss in back.losses}


def test_an_edit_in_0_9_1_wins_and_the_rest_is_restored() -> None:
    basic = sent(to_basic(MESSAGE).message)
    headers = basic.properties.headers
    assert isinstance(headers, FieldTable)
    entries = [("s", "S", "edited") if e[0] == "s" else e for e in headers.entries]
    properties = attrs.evolve(
        basic.properties, priority=3, timestamp=5, headers=FieldTable.of(entries)
    )
    back = to_amqp10(sent(attrs.evolve(basic, properties=properties))).message

    expected = MESSAGE.evolve(
        header=Header(priority=3, first_acquirer=True),
        properties=Properties(message_id=b"\1", to="q", subject="s", creation_time=5000),
        application_properties={"u": ULong(7), "s": "edited", "x-y": 1},
    )
    assert expected == back


def test_data_sections_keep_their_boundaries_while_the_body_has_its_length() -> None:
    message = Message([Data(b"ab"), Data(b""), Data(b"c")])
    basic = to_basic(message).message

    assert b"abc" == basic.body
    assert message == to_amqp10(basic).message
    assert Data(b"longer") == to_amqp10(attrs.evolve(basic, body=b"longer")).message.body


def test_an_edit_of_a_message_that_breaks_part_3_wins() -> None:
    octets = b"\0\x53\x75\xa0\1a\0\x53\x70\x45"  # the header behind the body
    basic = to_basic(Message.decode(octets, strict=False)).message
    changed = attrs.evolve(basic, properties=attrs.evolve(basic.properties, app_id="new"))
    made = to_amqp10(changed)

    assert made.message.message_annotations is not None
    assert "new" == made.message.message_annotations["x-opt-basic-app-id"]
    assert [""] == [loss.path for loss in made.losses]


# Depth, and the tables of the documentation.


@pytest.mark.parametrize("depth", [64, 65, 254])
@pytest.mark.parametrize("name", ["k", "x-k"])
def test_deep_tables_come_back(depth: int, name: str) -> None:
    table = FieldTable({"a": 1})
    for _ in range(depth - 2):
        table = FieldTable.of([("t", "F", table)])
    basic = sent(BasicMessage(BasicProperties(headers=FieldTable.of([(name, "F", table)]))))
    received = Message.decode(to_amqp10(basic).message.encode())

    assert octets_of(basic) == octets_of(to_basic(received).message)


@pytest.mark.parametrize("depth", [64, 65, 254])
def test_deep_values_come_back(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    for message in (Message(value), Message(b"", message_annotations={"x-opt-k": value})):
        octets = message.encode()
        assert octets == to_amqp10(sent(to_basic(message).message)).message.encode()


def test_the_lossless_tables_lose_and_refuse_nothing() -> None:
    rows = to_amqp10_rows("lossless") + to_basic_rows("lossless")

    assert len(rows) > 60
    assert {"-", "refused"} & {row.becomes for row in rows} == set()


def test_the_tables_say_what_brokers_do() -> None:
    rows = {row.label: row.becomes for row in to_amqp10_rows("rabbitmq-4.3")}

    assert '`properties.group-id` `"a"`' == rows["app-id `a`"]
    assert ("-", "refused") == (rows["cluster-id `c`"], rows["header `D`"])


# Arguments.


def test_strict_refuses_what_is_lost_for_good() -> None:
    basic = BasicMessage(BasicProperties(cluster_id="c"))
    assert to_amqp10(basic, strict=True).message.encode()
    with pytest.raises(TranslationError, match="would be lost"):
        to_amqp10(basic, "rabbitmq-4.3", strict=True)
    with pytest.raises(TranslationError) as caught:
        to_basic(Message(b"", properties=Properties(subject="s")), "rabbitmq-4.3", strict=True)
    assert "properties.subject" == caught.value.path


def test_an_unknown_profile() -> None:
    with pytest.raises(ValueError, match="rabbitmq-9"):
        to_amqp10(BasicMessage(), "rabbitmq-9")  # type: ignore[arg-type]


# What other projects test with.

FOLDER = os.environ.get("AMQP10MSG_VECTORS")


@pytest.mark.skipif(
    FOLDER is None, reason="AMQP10MSG_VECTORS names no folder with cases of other projects"
)
def test_messages_of_other_projects_come_back() -> None:
    seen = 0
    with gzip_open(Path(FOLDER or "") / "cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            octets = bytes.fromhex(case["hex"])
            if case["kind"] in {"message", "fuzz"} or "10-to" in case.get("sub", ""):
                try:
                    scan(octets)  # of what is cut off, no part is translated
                    message = Message.decode(octets, strict=False)
                except DecodeError:
                    continue
                back = to_amqp10(sent(to_basic(message).message)).message.encode()
                assert octets == back, case["id"]
            elif case["kind"] in {"basic-properties", "field-table"}:
                raw = b"\x20\0" + octets if case["kind"] == "field-table" else octets
                try:
                    basic = BasicMessage(decode_properties(raw), b"x")
                except DecodeError:
                    continue
                received = Message.decode(to_amqp10(basic).message.encode())
                assert raw == encode_properties(to_basic(received).message.properties), case["id"]
            else:
                continue
            seen += 1
    assert seen > 300


def test_a_ulong_id_is_reported() -> None:
    """RabbitMQ 3.10 takes it, and the consumer of 0-9-1 dies of it."""
    basic = BasicMessage(BasicProperties(message_id="ID:AMQP_ULONG:5"))
    made = to_amqp10(basic)

    assert [("properties.message-id", "retyped", True)] == [
        (loss.path, loss.action, loss.recoverable) for loss in made.losses
    ]
    assert basic == to_basic(made.message).message


@pytest.mark.parametrize("key", ["x-basic-priority", "x-basic-foo", "x-death", "x-exchange"])
@pytest.mark.parametrize("value", ["v", ["v"]])
def test_annotations_that_rabbitmq_keeps_from_consumers_are_carried(key: str, value: Any) -> None:
    """A header of such a name does not come out of a stream."""
    message = Message(b"", message_annotations={Symbol(key): value})
    basic = to_basic(message).message

    assert basic.properties.headers is not None
    assert [RESIDUAL_NAME] == list(basic.properties.headers)
    assert message.encode() == to_amqp10(basic).message.encode()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("is_header", [False, True])
def test_moments_are_the_same_in_each_profile_and_need_a_time_zone(
    profile: ProfileName, is_header: bool
) -> None:
    """Some took one without a time zone for one of the machine's."""

    def made(moment: Any) -> bytes:
        headers = FieldTable.of([("k", "T", moment)]) if is_header else None
        properties = BasicProperties(headers=headers, timestamp=None if is_header else moment)
        return to_amqp10(BasicMessage(properties), profile).message.encode()

    moment = datetime.datetime(2024, 1, 1, 0, 0, 1, 999_999)  # noqa: DTZ001  (the point)
    aware = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1)))

    assert made(int(aware.timestamp())) == made(aware)
    with pytest.raises(EncodeError, match="time zone"):
        made(moment)


@pytest.mark.parametrize(
    "given",
    [
        {"timestamp": -1},
        {"timestamp": 2**64},
        {"timestamp": decimal.Decimal("NaN")},
        {"delivery_mode": -1},
        {"message_id": "\ud800"},
        {"headers": {"\ud800": 1}},
        {"headers": {"a": "\ud800"}},
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_0_9_1_cannot_hold_is_named_or_passed_by(profile: Any, given: dict[str, Any]) -> None:
    """A broker that drops a value does not look at it."""
    basic = BasicMessage(BasicProperties(**given))
    if profile == "lossless":
        with pytest.raises(EncodeError, match=r"is not valid text|must be an int from 0"):
            to_amqp10(basic, profile)
    else:
        with contextlib.suppress(EncodeError, TranslationError):
            assert to_amqp10(basic, profile).message.encode()
