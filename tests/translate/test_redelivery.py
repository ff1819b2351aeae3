"""What the profiles of RabbitMQ say of messages that were given back: the rules behind recordings.

What was recorded is compared in test_recorded.py; here is what it has to cover, and its rules.
"""

from __future__ import annotations

import gzip
import json
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Header, Message, Symbol
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    Death,
    TranslationError,
    to_amqp10,
    to_basic,
)
from amqp10msg.translate.circumstances import GivenBack, QueueType

pytestmark = pytest.mark.once

QUEUES = ("rabbitmq-3.10", "rabbitmq-4.0", "rabbitmq-4.2", "rabbitmq-4.3")
COUNTS = ("x-delivery-count", "x-acquired-count")
WAYS = [way for way in get_args(GivenBack) if way != "rejected"]
ways = st.lists(st.sampled_from(WAYS), max_size=5)
queue_types = st.sampled_from(get_args(QueueType))
BASIC = BasicMessage(BasicProperties(message_id="m"), b"x", "", "q")


def told(profile: Any, circumstances: Circumstances) -> tuple[Header | None, dict[str, Any]]:
    """The header and the counts that a consumer of 1.0 receives."""
    made = to_amqp10(BASIC, profile, circumstances=circumstances).message
    annotations: Any = made.message_annotations or {}
    return made.header, {name: annotations[Symbol(name)] for name in COUNTS if name in annotations}


def headers(profile: Any, circumstances: Circumstances) -> tuple[bool, dict[str, Any]]:
    """What a consumer of 0-9-1 receives."""
    made = to_basic(Message(b"x"), profile, circumstances=circumstances).message
    found = made.properties.headers or {}
    return made.redelivered, {name: found[name] for name in COUNTS if name in found}


@given(st.sampled_from(QUEUES), queue_types, ways, st.randoms())
def test_the_order_of_the_ways_is_of_no_matter(
    profile: str, queue_type: Any, given_back: list[Any], random: Any
) -> None:
    shuffled = list(given_back)
    random.shuffle(shuffled)
    one, other = (
        Circumstances(queue_type=queue_type, given_back=w) for w in (given_back, shuffled)
    )

    assert told(profile, one) == told(profile, other)
    assert headers(profile, one) == headers(profile, other)


@given(st.sampled_from(QUEUES), queue_types, ways)
def test_both_protocols_get_the_same_delivery_counts(
    profile: str, queue_type: Any, given_back: list[Any]
) -> None:
    circumstances = Circumstances(queue_type=queue_type, given_back=given_back)
    header, annotations = told(profile, circumstances)
    redelivered, counts = headers(profile, circumstances)

    assert header is not None
    assert bool(given_back) == redelivered
    assert header.first_acquirer is not redelivered
    if profile == "rabbitmq-3.10":
        assert (0, {}) == (header.delivery_count, annotations)
    else:
        assert counts == annotations
        assert header.delivery_count <= len(given_back)


@given(st.sampled_from(sorted({*PROFILES} - {*QUEUES})), queue_types, ways)
def test_streams_and_lossless_ignore_redeliveries(
    profile: Any, queue_type: Any, given_back: list[Any]
) -> None:
    given_ = Circumstances(queue_type=queue_type, given_back=given_back)
    usual = Circumstances()

    made = to_amqp10(BASIC, profile, circumstances=given_).message
    assert to_amqp10(BASIC, profile, circumstances=usual).message == made
    assert to_basic(Message(b"x"), profile, circumstances=usual).message == (
        to_basic(Message(b"x"), profile, circumstances=given_).message
    )


@given(st.sampled_from(QUEUES[1:]), queue_types, queue_types, ways, ways)
def test_failures_are_kept_by_a_dead_letter(
    profile: str, before: Any, after: Any, first: list[Any], second: list[Any]
) -> None:
    death = Death("q", "delivery_limit", 0, queue_type=before, given_back=first)
    letter, _ = told(profile, Circumstances(queue_type=after, given_back=second, deaths=[death]))
    one, _ = told(profile, Circumstances(queue_type=before, given_back=first))
    other, _ = told(profile, Circumstances(queue_type=after, given_back=second))

    assert letter
    assert one
    assert other
    assert one.delivery_count + other.delivery_count == letter.delivery_count


def test_a_released_message_of_a_quorum_queue_of_4_0() -> None:
    given_ = Circumstances(queue_type="quorum", given_back=["released"])
    assert (Header(), {"x-delivery-count": 1}) == told("rabbitmq-4.0", given_)


def test_a_classic_queue_of_4_3_counts_without_an_annotation() -> None:
    given_ = Circumstances(given_back=["modified-failed"])
    assert (Header(delivery_count=1), {}) == told("rabbitmq-4.3", given_)


def test_a_quorum_queue_of_4_3_counts_both() -> None:
    given_ = Circumstances(queue_type="quorum", given_back=["reject", "nack"])
    expected = {"x-delivery-count": 1, "x-acquired-count": 2}
    assert (Header(delivery_count=1), expected) == told("rabbitmq-4.3", given_)
    assert (True, expected) == headers("rabbitmq-4.3", given_)


def test_giving_up_with_nack_counts_before_4_3_alone() -> None:
    death = Death("q", "rejected", 0, queue_type="quorum", given_back=["nack"])
    found = [told(profile, Circumstances(deaths=[death]))[0] for profile in QUEUES[1:]]
    assert [1, 1, 0] == [header and header.delivery_count for header in found]


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"queue_type": "stream"}, "queue_type must be one of classic, quorum, not 'stream'"),
        ({"given_back": ["acked"]}, "given_back[0] must be one of released, modified, "),
    ],
)
def test_unknown_circumstances_are_errors(wrong: dict[str, Any], error: str) -> None:
    for make in (Circumstances, lambda **how: Death("q", "maxlen", 0, **how)):
        with pytest.raises(ValueError, match=error.replace("[", r"\[").replace("]", r"\]")):
            make(**wrong)


def test_given_back_must_not_be_a_string() -> None:
    way: Any = "nack"
    with pytest.raises(
        TypeError, match="given_back must be a sequence with one item per delivery, not 'nack'"
    ):
        Circumstances(given_back=way)


def test_recordings_have_every_way_once_and_twice() -> None:
    path = Path(__file__).parents[1] / "vectors" / "circumstances.jsonl.gz"
    found = set()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for entry in map(json.loads, lines):
            given_ = entry["circumstances"]
            if "deaths" not in given_:
                way = "basic" if "basic" in entry else "amqp10"
                found.add((entry["broker"], way, tuple(given_["given_back"])))
    brokers = [
        f"rabbitmq-{version}{queue}"
        for version in ("3.10.8", "4.0.5", "4.3.6")
        for queue in ("", "-quorum", "-stream")
        if (version, queue) != ("3.10.8", "-stream")
    ]
    back = [(), *((way,) * times for way in WAYS for times in (1, 2))]
    assert set(product(brokers, ("basic", "amqp10"), back)) <= found


@given(st.sampled_from(QUEUES), queue_types, st.dictionaries(st.just("x-opt-why"), st.text()))
def test_only_quorum_queues_of_4_keep_annotations_of_modified(
    profile: Any, queue_type: Any, said: dict[str, Any]
) -> None:
    given_ = Circumstances(queue_type=queue_type, given_back=["modified"], annotations=said)
    made = to_amqp10(BASIC, profile, circumstances=given_).message
    basic = to_basic(Message(b"x"), profile, circumstances=given_).message
    kept = said if queue_type == "quorum" and profile != "rabbitmq-3.10" else {}

    assert kept.get("x-opt-why") == made.message_annotation("x-opt-why")
    assert kept.get("x-opt-why") == (basic.properties.headers or {}).get("x-opt-why")


@pytest.mark.parametrize("make", [Circumstances, lambda **how: Death("q", "maxlen", 0, **how)])
def test_annotations_of_modified_must_begin_with_x(make: Any) -> None:
    with pytest.raises(ValueError, match=r"annotations\['why'\]: names must begin with 'x-'"):
        make(annotations={"why": "late"})


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_rabbitmq_3_10_loses_dead_letters_for_a_stream(kind: Any) -> None:
    """The stream stays empty: what is published to it next has the offset 0."""
    letter = Circumstances(deaths=[Death("q", "rejected", 0, queue_type=kind)])
    with pytest.raises(TranslationError, match="streams do not accept dead letters"):
        to_amqp10(BASIC, "rabbitmq-3.10-stream", circumstances=letter)
    with pytest.raises(TranslationError, match="streams do not accept dead letters"):
        to_basic(Message(b"x"), "rabbitmq-3.10-stream", circumstances=letter)


def test_recordings_have_annotations_of_modified() -> None:
    path = Path(__file__).parents[1] / "vectors" / "circumstances.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = [entry for entry in map(json.loads, lines) if "annotations" in str(entry)]
    assert 252 == len(found)
    assert {"rabbitmq-4.0.5", "rabbitmq-4.3.6"} < {entry["broker"] for entry in found}
