"""Messages as properties: whatever a valid message is spelled like, nothing of it is lost."""

from __future__ import annotations

import contextlib
import copy
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    Described,
    Footer,
    Header,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
    scan,
    validate,
)
from amqp10msg.sections import KINDS
from amqp10msg.testing import bodies, encodings, malformed, messages, mutated, sections
from amqp10msg.wire.primitives import identical
from fuzz.builds import alike, load

SECTIONS = tuple(kind.attribute for kind in KINDS if kind.attribute != "body")
ATTRIBUTES = (*SECTIONS, "body")
# A message without a body is read, too.
any_message = messages(body=st.none() | bodies())


def spelled(message: Message) -> st.SearchStrategy[tuple[Message, bytes]]:
    return st.tuples(st.just(message), encodings(message))


pairs = any_message.flatmap(spelled)
octets_of_messages = any_message.flatmap(encodings)


def exact(part: Any) -> Any:
    """A section or body as plain data that `identical` compares type by type and bit by bit."""
    if isinstance(part, dict):
        return [type(part).__name__, dict(part)]
    if isinstance(part, (Header, Properties, Data, AmqpSequence, AmqpValue)):
        fields = attrs.fields(type(part))
        return [type(part).__name__, [getattr(part, field.name) for field in fields]]
    return [exact(item) for item in part] if isinstance(part, list) else part


def same(one: Message, other: Message) -> bool:
    return all(
        identical(exact(getattr(one, name)), exact(getattr(other, name))) for name in ATTRIBUTES
    )


# Reading.


@given(any_message)
def test_round_trip(message: Message) -> None:
    encoded = message.encode()

    decoded = Message.decode(encoded)

    assert same(message, decoded)
    assert message == decoded
    assert encoded == decoded.encode()


@given(pairs)
def test_every_legal_spelling_is_the_same_message(pair: tuple[Message, bytes]) -> None:
    message, octets = pair

    assert same(message, Message.decode(octets))
    assert same(message, Message.decode(octets, strict=False))
    errors = [rule for rule in validate(octets) if rule.severity == "error"]
    assert ["body-missing"] * (message.body is None) == [error.rule for error in errors]


@given(octets_of_messages)
def test_untouched_message_keeps_its_bytes(octets: bytes) -> None:
    for strict in (True, False):
        message = Message.decode(octets, strict=strict)
        assert octets == message.encode()

        look_at(message)

        assert octets == message.encode()
        assert octets == Message.decode(message.encode(), strict=strict).encode()
        assert octets == message.evolve().encode()


def look_at(message: Message) -> None:
    """Read every part of a message, in every way a reader may."""
    repr(message)
    for name in ATTRIBUTES:
        part = getattr(message, name)
        if isinstance(part, dict):
            assert list(part) == [key for key, _ in part.items()]
            for key in part:
                repr(part[key])
        elif isinstance(part, list):
            assert len(list(part)) == len(part)
        else:
            repr(part)
    message.sections()
    message.plain_application_properties()
    assert message.bare in message.encode()
    assert message == message.evolve()
    for convert in (message.body_bytes, message.text):
        with contextlib.suppress(ValueError):
            convert()


@given(octets_of_messages, st.sampled_from([bytearray, memoryview]))
def test_any_buffer(octets: bytes, kind: Any) -> None:
    buffer = kind(bytearray(octets))

    message = Message.decode(buffer)
    for at in range(len(octets)):
        buffer[at] = 0xFF

    assert octets == message.encode()


# Changing.


def ranges(octets: bytes) -> dict[str, bytes]:
    """The bytes of each section, those of the body together."""
    found: dict[str, bytes] = {}
    for part in scan(octets):
        assert part.kind is not None
        name = part.kind.attribute
        found[name] = found.get(name, b"") + octets[part.offset : part.end]
    return found


@given(octets_of_messages, st.sampled_from(ATTRIBUTES), st.data())
def test_change_keeps_the_bytes_of_all_other_sections(
    octets: bytes, name: str, data: st.DataObject
) -> None:
    message = Message.decode(octets)
    new = data.draw(st.none() | (bodies() if name == "body" else sections(name)))
    before = ranges(octets)

    changes: dict[str, Any] = {name: new}
    evolved = message.evolve(**changes)
    setattr(message, name, new)

    after = ranges(message.encode())
    assert message.encode() == evolved.encode()
    assert {k: v for k, v in before.items() if k != name} == {
        k: v for k, v in after.items() if k != name
    }
    assert (new is not None) == (name in after)
    order = [kind.attribute for kind in KINDS]
    assert sorted(after, key=order.index) == list(after)
    read = Message.decode(message.encode())
    assert identical(exact(new), exact(getattr(read, name)))
    assert same(message, read)


@given(octets_of_messages)
def test_unchanged_message_returns_the_same_bytes_object(octets: bytes) -> None:
    message = Message.decode(octets)

    encoded = message.encode()

    assert octets == encoded
    assert encoded is message.encode()


@given(octets_of_messages | any_message.map(Message.encode), st.data())
def test_a_change_is_written_as_section_by_section(octets: bytes, data: st.DataObject) -> None:
    message = Message.decode(octets)
    for name in data.draw(st.sets(st.sampled_from(ATTRIBUTES), max_size=2)):
        setattr(
            message, name, data.draw(st.none() | (bodies() if name == "body" else sections(name)))
        )

    assert message._encode_changes(octets) == message.encode()


@given(octets_of_messages, st.data())
def test_restoring_a_section_restores_the_bytes(octets: bytes, data: st.DataObject) -> None:
    message = Message.decode(octets)
    name = data.draw(st.sampled_from(ATTRIBUTES))
    kept = getattr(message, name)

    setattr(message, name, None)
    message.encode()
    setattr(message, name, copy.deepcopy(kept))

    assert octets == message.encode()


MAPPINGS = ("delivery_annotations", "message_annotations", "application_properties", "footer")


@given(octets_of_messages, st.sampled_from(MAPPINGS), st.data())
def test_a_change_inside_a_mapping_is_noticed(
    octets: bytes, name: str, data: st.DataObject
) -> None:
    message = Message.decode(octets)
    mapping = getattr(message, name)
    assume(mapping is not None)
    before = ranges(octets)
    change = data.draw(st.sampled_from(["add", "delete", "replace", "clear"]))
    if change == "add":
        plain = name == "application_properties"
        mapping["x-added" if plain else Symbol("x-added")] = True
    elif not mapping:
        assume(False)
    elif change == "clear":
        mapping.clear()
    else:
        key = data.draw(st.sampled_from(list(mapping)))
        if change == "delete":
            del mapping[key]
        else:
            mapping[key] = b"another value"

    encoded = message.encode()
    after = ranges(encoded)
    read = getattr(Message.decode(encoded), name)
    assert identical(dict(mapping), dict(read))
    assert {k: v for k, v in before.items() if k != name} == {
        k: v for k, v in after.items() if k != name
    }


@given(octets_of_messages, st.sampled_from(MAPPINGS))
def test_a_change_of_the_wire_type_alone_is_noticed(octets: bytes, name: str) -> None:
    changes: dict[str, Any] = {name: {"k": 1}}
    message = Message.decode(octets).evolve(**changes)
    as_long = message.encode()

    read = Message.decode(as_long)
    getattr(read, name)["k"] = UInt(1)

    assert getattr(read, name) == {"k": 1}
    assert as_long != read.encode()
    assert type(getattr(Message.decode(read.encode()), name)["k"]) is UInt


@given(octets_of_messages)
def test_a_change_inside_a_nested_value_is_noticed(octets: bytes) -> None:
    message = Message.decode(octets).evolve(body=AmqpValue([{"k": [1]}]))
    read = Message.decode(message.encode())

    assert isinstance(read.body, AmqpValue)
    read.body.value[0]["k"].append(Described(ULong(1), None))

    again = Message.decode(read.encode())
    assert AmqpValue([{"k": [1, Described(ULong(1), None)]}]) == again.body
    before, after = ranges(message.encode()), ranges(read.encode())
    assert {name for name in after if before.get(name) != after[name]} == {"body"}


# Copies, equality, the bare message.


@given(octets_of_messages, st.sampled_from([copy.copy, copy.deepcopy, "pickle", "evolve"]))
def test_copies(octets: bytes, way: Any) -> None:
    message = Message.decode(octets, message_format=7)
    if way == "pickle":
        twin = pickle.loads(pickle.dumps(message))
    else:
        twin = message.evolve() if way == "evolve" else way(message)

    assert type(twin) is Message
    assert twin == message
    assert same(twin, message)
    assert octets == twin.encode()
    assert twin.message_format == 7
    twin.footer = Footer({"x-changed": 1})
    assert octets == message.encode()


class Ours(Message):
    """A subclass of the user's own."""


@given(octets_of_messages)
def test_methods_return_the_subclass(octets: bytes) -> None:
    message = Ours.decode(octets)

    assert type(message) is Ours
    assert type(message.evolve(footer=None)) is Ours
    assert type(copy.deepcopy(message)) is Ours
    assert octets == message.encode()


@given(any_message, any_message)
def test_equality_is_of_values(one: Message, other: Message) -> None:
    assert (one == other) is (one.encode() == other.encode())
    assert one == one.evolve()
    assert one != one.evolve(message_format=1)
    assert one != "message"


@given(octets_of_messages)
def test_the_bare_message_survives_the_network(octets: bytes) -> None:
    message = Message.decode(octets)
    bare = [part for part in scan(octets) if part.kind and part.kind.bare]
    expected = octets[bare[0].offset : bare[-1].end] if bare else b""

    assert expected == message.bare == scan(octets).bare
    onward = message.evolve(
        header=Header(delivery_count=5), delivery_annotations=None, footer={"x-sum": b"1"}
    )
    assert expected == onward.bare
    assert expected == Message.decode(onward.encode()).bare
    assert expected == scan(onward.encode()).bare


# scan


@given(pairs)
def test_scan_agrees_with_decode(pair: tuple[Message, bytes]) -> None:
    message, octets = pair
    found: Any = scan(octets)  # its names of sections are known when it runs

    assert len(found) == len(list(found))
    end = 0
    for part in found:
        assert end == part.offset
        assert part.offset < part.content < part.end
        assert part.end - part.offset == part.length
        end = part.end
    assert len(octets) == end
    for name in SECTIONS:
        assert identical(exact(getattr(message, name)), exact(found.section(name)))
    first = message.body[0] if isinstance(message.body, list) else message.body
    for kind in KINDS[5:8]:
        expected = first if type(first) is kind.cls else None
        assert identical(exact(expected), exact(found.section(kind.name)))


REPLACEABLE = ("header", "delivery_annotations", "message_annotations", "footer")


@given(octets_of_messages, st.data())
def test_replacing_is_evolving(octets: bytes, data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from(REPLACEABLE)))
    changes: dict[str, Any] = {name: data.draw(st.none() | sections(name)) for name in names}

    replaced = scan(octets).replace(**changes)

    message = Message.decode(octets)
    for name in changes:  # a section given anew is written anew, even if it says the same
        setattr(message, name, None)
    message = Message.decode(message.encode()).evolve(**changes)
    assert message.encode() == replaced
    assert message.bare == scan(replaced).bare


# Whatever happens to the bytes on the way.

messages_gone_wrong = st.one_of(
    octets_of_messages,
    octets_of_messages.flatmap(mutated),
    malformed(),
    st.lists(
        st.sampled_from([kind.name for kind in KINDS]).flatmap(sections).flatmap(encodings),
        max_size=4,
    ).map(b"".join),
)


@given(messages_gone_wrong)
def test_strict_and_lenient(octets: bytes) -> None:
    try:
        strict = Message.decode(octets)
    except DecodeError as error:
        strict, fault = None, error
        assert octets == fault.data
        assert 0 <= fault.offset <= len(octets)
    try:
        lenient = Message.decode(octets, strict=False)
    except DecodeError:
        assert strict is None
        return

    assert octets == lenient.encode()
    look_at(lenient)
    assert octets == lenient.encode()
    assert octets == pickle.loads(pickle.dumps(lenient)).encode()
    try:
        assert sum(1 for _ in scan(octets)) == len(lenient.sections())
    except DecodeError:  # one is cut
        assert strict is None
    if strict is not None:
        assert octets == strict.encode()
        assert same(strict, lenient)


@given(malformed())
def test_malformed_messages_are_refused(octets: bytes) -> None:
    with pytest.raises(DecodeError):
        Message.decode(octets)


def outcome(build: Any, octets: bytes, strict: bool) -> tuple[Any, ...]:
    """All that decoding gives: the sections, or all that the error says."""
    try:
        message = build.Message.decode(octets, strict=strict)
    except build.DecodeError as error:
        fault = error
    else:
        violations = [str(violation) for violation in message.violations]
        return ("message", message, message.encode(), violations)
    return ("error", fault.rule, fault.offset, fault.condition, fault.path, str(fault))


@pytest.fixture(scope="session", name="builds")
def builds_fixture() -> tuple[Any, Any]:
    if not amqp10msg.COMPILED:
        pytest.skip("only one build runs")
    return load(pure=True), amqp10msg


@given(octets=messages_gone_wrong, strict=st.booleans())
def test_the_builds_agree(builds: tuple[Any, Any], octets: bytes, strict: bool) -> None:
    pure, compiled = (outcome(build, octets, strict) for build in builds)

    assert alike(pure, compiled), (pure, compiled)
    assert located(builds[0], octets) == located(builds[1], octets)


def located(build: Any, octets: bytes) -> list[Any]:
    try:
        return [(part.name, part.offset, part.content, part.end) for part in build.scan(octets)]
    except build.DecodeError as error:
        return [error.rule, error.offset]
