"""Threads that decode, encode, fill templates, pick, filter and translate at once, and compare.

They share messages, templates, pickers and filters as well as what the library keeps between calls:
interned texts, layouts of classes, engines and plans. On an interpreter without the GIL this runs
in parallel, and finds what is torn; with it, what is mixed up.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from amqp10msg import (
    AmqpValue,
    Header,
    Message,
    Picker,
    Properties,
    Symbol,
    UInt,
    scan,
    validate,
)
from amqp10msg.basic import BasicMessage
from amqp10msg.delivery.filters import SqlFilter
from amqp10msg.translate import to_amqp10, to_basic
from bench.messages import GENERAL, REFERENCE
from tests.samples import shortened

#: Rounds of all calls that each thread makes, in the usual test and in the one marked `soak`.
SHORT, LONG = 100, shortened(10_000)
THREADS = 4


def made(number: int) -> Message:
    """A message whose texts are its own: more of them than are kept between calls."""
    return Message(
        AmqpValue({f"key-{number}": [number, UInt(number), None]}) if number % 2 else b"octets",
        header=Header(durable=True, ttl=UInt(number)),
        properties=Properties(message_id=f"id-{number}", subject="subject"),
        message_annotations={Symbol(f"x-opt-{number}"): Symbol(f"symbol-{number}"), "x-opt-a": 1},
        application_properties={f"name-{number}": "text", "tenant": f"t{number % 3}", "n": number},
    )


def workload() -> list[Callable[[], tuple[object, object]]]:
    """What the threads do: each call gives what was found and what is expected."""
    messages = [made(number) for number in range(2000)]
    encoded = [message.encode() for message in messages]
    shared = [Message.decode(octets) for octets in (REFERENCE, GENERAL, *encoded[:20])]
    shared_octets = [message.encode() for message in shared]
    changing = Message.decode(REFERENCE)
    body = changing.body
    picker = Picker("properties.message_id", "application_properties.tenant")
    template = messages[0].template("properties.message_id", "application_properties.n")
    selector = SqlFilter("tenant = 't1' AND n > 5")
    basics = [to_basic(message).message for message in messages[:50]]
    backs = [to_amqp10(basic).message.encode() for basic in basics]
    judged = [[one.rule for one in validate(octets)] for octets in encoded[:50]]
    chance = random.Random(7)

    def any_of(sequence: Any) -> int:
        return chance.randrange(len(sequence))

    def decode() -> tuple[object, object]:
        i = any_of(encoded)
        return Message.decode(encoded[i]), messages[i]

    def encode() -> tuple[object, object]:
        i = any_of(messages)
        return messages[i].encode(), encoded[i]

    def encode_shared() -> tuple[object, object]:
        i = any_of(shared)
        return shared[i].encode(), shared_octets[i]

    def build() -> tuple[object, object]:
        i = any_of(messages)
        return made(i).encode(), encoded[i]

    def change() -> tuple[object, object]:
        # What others set meanwhile is there, or what this thread did: never half of each.
        changing.properties = Properties(message_id=f"id-{any_of(messages)}", subject="s")
        found = Message.decode(changing.encode())
        return (str(found.message_id)[:3], found.subject, found.body), ("id-", "s", body)

    def pick() -> tuple[object, object]:
        i = any_of(encoded)
        return picker(encoded[i]), (f"id-{i}", f"t{i % 3}")

    def fill() -> tuple[object, object]:
        i = any_of(messages)
        found = Message.decode(template.encode(f"id-{i}", i))
        return (found.message_id, found.application_property("n")), (f"id-{i}", i)

    def select() -> tuple[object, object]:
        i = any_of(messages)
        return selector.matches(messages[i]), i % 3 == 1 and i > 5

    def forth() -> tuple[object, object]:
        i = any_of(basics)
        return to_basic(messages[i]).message, basics[i]

    def back() -> tuple[object, object]:
        i = any_of(basics)
        basic = basics[i]
        again = BasicMessage(basic.properties, basic.body) if i % 2 else basic
        return to_amqp10(again).message.encode() if again is basic else backs[i], backs[i]

    def judge() -> tuple[object, object]:
        i = any_of(judged)
        return [one.rule for one in validate(encoded[i])], judged[i]

    def sections() -> tuple[object, object]:
        i = any_of(encoded)
        return scan(encoded[i]).section("properties"), messages[i].properties

    one_by_one = [decode, encode, encode_shared, build, change, pick, fill, select]
    return [*one_by_one, forth, back, judge, sections]


def run(rounds: int) -> None:
    """Have each thread make all calls, in a random order, in each of so many rounds."""
    work = workload()
    start = threading.Barrier(THREADS)
    faults: list[Any] = []
    turns = [0] * THREADS

    def turn(number: int) -> None:
        chance = random.Random(number)
        start.wait()
        try:
            while not faults and turns[number] < rounds:
                for call in chance.sample(work, len(work)):
                    found, expected = call()
                    if found != expected:
                        faults.append((call.__name__, found, expected))
                turns[number] += 1
        except Exception as error:  # noqa: BLE001  (raised in the thread of the test)
            faults.append(error)

    threads = [threading.Thread(target=turn, args=(number,)) for number in range(THREADS)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    for fault in faults:
        if isinstance(fault, Exception):
            raise fault
    assert [] == faults
    assert all(turns)


def test_threads_agree() -> None:
    run(SHORT)


@pytest.mark.soak
def test_threads_agree_in_a_long_run() -> None:
    run(LONG)
