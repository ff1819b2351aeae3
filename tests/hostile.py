"""What the hostile tests share: ways to read, bytes to spoil, ways to nest, what that costs."""

from __future__ import annotations

import struct
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import given, settings

import amqp10msg
from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    Array,
    Char,
    Data,
    Decimal128,
    DecodeError,
    Described,
    Float,
    Header,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    decode_value,
    decode_values,
    scan,
    skip_value,
    validate,
)
from amqp10msg.testing import encodings
from tests.effort import cost, one_unit, processor_time
from tests.samples import corpus_cases

Read = Callable[[bytes], Any]

# What any input of up to a few kilobytes may cost, in units of `tests.effort`; the source more.
UNITS = 50 if amqp10msg.COMPILED else 200
# What one unit takes here: to see at a glance what needs no second look.
UNIT = min(processor_time(one_unit) for _ in range(10))
# A map that is a key is encoded to compare it, once for each map around it: 256 levels of that, the
# most that decoding admits, are 32,000 encodings of a map.
KEYS_UNITS = 200 if amqp10msg.COMPILED else 1_000
# How many times as much the source costs for inputs that are large and all work.
SLOWER = 1 if amqp10msg.COMPILED else 4


def lenient(octets: bytes) -> Message:
    return Message.decode(octets, strict=False)


def every_section(octets: bytes) -> list[Any]:
    found: Any = scan(octets)  # the names are known when it runs
    return [found.section(name) for name in sorted({part.name for part in found} - {"unknown"})]


def one_by_one(octets: bytes) -> list[Any]:
    return list(decode_values(octets))


READS: tuple[Read, ...] = (
    decode_value,
    one_by_one,
    skip_value,
    Message.decode,
    lenient,
    scan,
    every_section,
    validate,
)
# For the tests with very many messages: `validate` takes longer than all others together, and those
# that are missing do what these do.
FAST: tuple[Read, ...] = (Message.decode, lenient, scan)


def outcome(read: Read, octets: bytes) -> Any:
    """The value, or the error; whatever else is raised fails the test."""
    try:
        return read(octets)
    except DecodeError as error:
        fault = error
    assert octets == fault.data
    assert 0 <= fault.offset <= len(octets)
    assert fault.condition.startswith("amqp:")
    assert str(fault)
    return fault


def read_all(octets: bytes, reads: tuple[Read, ...] = READS) -> list[Any]:
    """Read in every way: a value or a DecodeError, soon, and a message gives its bytes again."""
    outcomes = []

    def every() -> None:
        for read in reads:
            found = outcome(read, octets)
            if isinstance(found, Message):
                assert octets == found.encode()
            outcomes.append(found)

    if processor_time(every) > UNITS * UNIT / 2:
        for read in reads:
            assert_quick(read, octets)
    return outcomes


def assert_quick(read: Read, octets: bytes, bound: float = UNITS) -> None:
    """Hold a read to a bound in units of `tests.effort`."""
    taken = cost(lambda: outcome(read, octets), bound)
    assert taken <= bound, f"{read}: {taken:.0f} units for {octets[:60].hex()}…"


def peak(read: Read, octets: bytes) -> int:
    """Bytes of memory that reading takes at its peak."""
    tracemalloc.start()
    try:
        found = outcome(read, octets)
        del found
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Every type, every section, every width.


def by_hand() -> Iterator[Message]:
    every: list[Any] = [
        *(
            None,
            True,
            False,
            0,
            -129,
            UInt(0),
            UInt(5),
            UInt(2**32 - 1),
            ULong(0),
            ULong(2**64 - 1),
        ),
        *(0.5, Float.from_bits(0x7F800001), Decimal128(5), Char("ü"), Timestamp(-1)),
        *(uuid.UUID(int=7), b"octets", "tëxt", Symbol("symbol"), [], {}, [1, [2, [3]]]),
        *(Array("int", [1, 300]), Array("list", [[], [1]]), Array(0x45, [[], []])),
        Array("string", ["a"], descriptors=[Symbol("x")]),
        Described(ULong(0x24), []),
        Described(Symbol("com.example:x"), {"k": 1}),
        AmqpMap([(1, "long"), (UInt(1), "uint"), ([1], "list")]),
        {Symbol("a"): {"b": [None]}},
        "x" * 256,
        b"y" * 300,
        [None] * 300,
        dict.fromkeys(range(130)),
    ]
    for value in every:
        yield Message(AmqpValue(value))
    yield Message(every[:-4])
    yield Message([Data(b"one"), Data(b"two" * 100)])
    yield Message([AmqpSequence([1, "a"]), AmqpSequence([])])
    full = Message(
        {"key": [1, 2.5, "text"]},
        header=Header(durable=True, priority=9, ttl=60_000, first_acquirer=True, delivery_count=3),
        delivery_annotations={"x-opt-hop": UInt(1)},
        message_annotations={"x-opt-to": "there", ULong(5): [1, 2]},
        properties=Properties(
            message_id="m-1",
            user_id=b"guest",
            to="queue",
            subject="subject",
            reply_to="reply",
            correlation_id=uuid.UUID(int=1),
            content_type="text/plain",
            absolute_expiry_time=1_700_000_000_000,
            creation_time=1,
            group_id="group",
            group_sequence=7,
            reply_to_group_id="reply-group",
        ),
        application_properties={"tenant": "x", "n": UInt(5), "t": Timestamp(0)},
        footer={"x-opt-crc": UInt(0xDEADBEEF)},
    )
    yield full
    yield full.evolve(body=Data(b"payload"), footer=None)
    yield full.evolve(body=None)
    yield Message()


def spelled_widely(octets: bytes) -> bytes:
    """The longest of a few spellings that hypothesis finds, with wide forms in it."""
    found = [octets]

    @settings(max_examples=12, derandomize=True, database=None, deadline=None)
    @given(encodings(Message.decode(octets)))
    def spell(drawn: bytes) -> None:
        found.append(drawn)

    spell()
    return max(found, key=len)


HAND = [message.encode() for message in by_hand()]
# In the order of the corpus, each once.
MESSAGES = list(dict.fromkeys(case.data for case in corpus_cases() if case.kind == "message"))
VALUES = list(dict.fromkeys(case.data for case in corpus_cases() if case.kind != "message"))


# Ways to nest.


def list_of(inner: bytes) -> bytes:
    return b"\xd0" + struct.pack(">II", len(inner) + 4, 1) + inner


def map_to(inner: bytes) -> bytes:
    return b"\xd1" + struct.pack(">II", len(inner) + 5, 2) + b"\x40" + inner


def key_of_map(inner: bytes) -> bytes:
    return b"\xd1" + struct.pack(">II", len(inner) + 5, 2) + inner + b"\x40"


def described_by(inner: bytes) -> bytes:
    return b"\x00" + inner + b"\x40"


def describing(inner: bytes) -> bytes:
    return b"\x00\x53\x05" + inner


def array_of(inner: bytes) -> bytes:
    # One element whose constructor is that of what it holds.
    return b"\xf0" + struct.pack(">II", len(inner) + 4, 1) + inner


Wrap = Callable[[bytes], bytes]
WRAPS: list[Wrap] = [list_of, map_to, key_of_map, described_by, describing, array_of]
INNERMOST: dict[Wrap, bytes] = {array_of: b"\x50\x07"}


def nested(wraps: list[Wrap], depth: int, innermost: bytes = b"\x40") -> bytes:
    for level in range(depth):
        innermost = wraps[level % len(wraps)](innermost)
    return innermost
