"""`Deliverer`: each message is accepted or refused, whatever the target does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message, Properties
from amqp10msg.net import deliver
from amqp10msg.net.deliver import (
    Deliverer,
    Delivering,
    NotDeliveredError,
    numbered,
    with_message_id,
)
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import parse_url
from tests.basic_broker import BasicBroker
from tests.basic_broker import running as running_basic
from tests.net import odd_broker

pytestmark = pytest.mark.once

#: What the stand-in does with a message of this subject, and the outcome that is told.
KINDS = {
    "": None,
    "reject": "rejected",
    "detach": "fatal",
    "session": "fatal",
    "close": "fatal",
    "cut": "fatal",
}


def message(number: int, subject: str = "") -> bytes:
    properties = Properties(message_id=f"m-{number}", subject=subject)
    return Message(b"%d" % number, properties=properties).encode()


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with mock.patch.object(deliver, "_FIRST_BACKOFF", 0.001):
        yield


@given(st.data())
def test_each_message_is_accepted_or_refused(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from([*KINDS, "", "", ""]), max_size=25))
    sizes = data.draw(st.integers(1, 30))
    rows = [(row, message(row, kind)) for row, kind in enumerate(kinds)]
    how = Delivering(window=data.draw(st.sampled_from([1, 4, 500])), timeout=10)

    refused = []
    with odd_broker.running() as (url, broker), Deliverer(parse_url(f"{url}/q"), how) as to:
        for start in range(0, len(rows), sizes):
            refused += to.send(rows[start : start + sizes])

    wanted = [(row, KINDS[kind]) for row, kind in enumerate(kinds) if KINDS[kind] is not None]
    assert wanted == [(one.row, one.outcome.kind) for one in refused]
    assert [message(row, kinds[row]) for row, _ in wanted] == [one.octets for one in refused]
    there = list(broker.queues["q"])
    sound = [octets for row, octets in rows if KINDS[kinds[row]] is None]
    assert set(sound) == set(there)
    assert len(sound) == to.accepted
    assert len(there) - len(sound) <= to.again


def test_silent_target_raises_not_delivered_error() -> None:
    rows = [(0, message(0)), (1, message(1, "silence")), (2, message(2))]
    with odd_broker.running() as (url, _):
        with (
            Deliverer(parse_url(f"{url}/q"), Delivering(timeout=0.3)) as to,
            pytest.raises(NotDeliveredError) as caught,
        ):
            to.send(rows)
        place = url.replace("me:secret@", "")

    text = "1 of 3 messages have no outcome: none was received for 0.3 s (no outcome was received)"
    assert f"{place}/q: {text}" == str(caught.value)


def test_permanent_error_is_raised_immediately() -> None:
    with odd_broker.running() as (url, _):
        wrong = parse_url(url.replace("secret", "wrong-one") + "/q")
        with Deliverer(wrong) as to, pytest.raises(LinkError) as caught:
            to.send([(0, message(0))])

    assert caught.value.permanent
    assert "wrong-one" not in str(caught.value)


def test_reconnects_after_a_cut_between_batches() -> None:
    with (
        odd_broker.running() as (url, broker),
        Deliverer(parse_url(f"{url}/q"), Delivering(timeout=5)) as to,
    ):
        assert [] == to.send([(0, message(0))])
        for peer in list(broker.peers):
            peer._stream._loop.call_soon_threadsafe(peer.cut)
        assert [] == to.send([(n, message(n)) for n in range(1, 50)])
        assert {message(n) for n in range(50)} == set(broker.queues["q"])


def test_message_to_a_full_queue_is_retried_then_refused() -> None:
    broker = BasicBroker("q")
    left = {"m-1": 2, "m-2": 99}

    def refuses(stored: Any) -> str:
        for name, times in left.items():
            if name.encode() in stored.header and times:
                left[name] -= 1
                return "nack"
        return ""

    broker.refuses = refuses
    with running_basic(broker):
        target = parse_url(broker.url("queue=q"))
        with Deliverer(target, Delivering(attempts=4, timeout=10)) as to:
            refused = to.send([(n, message(n)) for n in range(4)])

    assert [(2, "nacked")] == [(one.row, one.outcome.kind) for one in refused]
    assert sorted([b"0", b"1", b"3"]) == sorted(one.body for one in broker.queues["q"])


def test_untranslatable_message_is_refused() -> None:
    with running_basic(BasicBroker("q")) as broker:
        with Deliverer(parse_url(broker.url("queue=q")), Delivering(timeout=5)) as to:
            refused = to.send([(0, message(0)), (1, message(1)[:-2]), (2, message(2))])
        assert [b"0", b"2"] == [one.body for one in broker.queues["q"]]

    assert [(1, "untranslatable")] == [(one.row, one.outcome.kind) for one in refused]


def test_missing_message_id_is_added() -> None:
    without = Message(b"x", properties=Properties(subject="s")).encode()
    plain = Message(b"x").encode()
    has = Message(b"x", properties=Properties(message_id=7)).encode()

    assert has == with_message_id(has, "id")
    for octets in (without, plain):
        made = Message.decode(with_message_id(octets, "id"))
        assert ("id", b"x") == (made.message_id, made.value)
    assert "s" == Message.decode(with_message_id(without, "id")).subject
    assert "id" == Message.decode(with_message_id(has, "id", replace=True)).message_id
    assert b"\x00bad" == with_message_id(b"\x00bad", "id")


def test_rows_are_numbered_over_all_batches() -> None:
    found = list(numbered([[b"a", None], [b"b"]], lambda row, octets: octets + b"%d" % row))

    assert [([(0, b"a0")], [1]), ([(2, b"b2")], [])] == found
