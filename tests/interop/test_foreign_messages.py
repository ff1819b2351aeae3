"""Messages of the vectors that another project wrote, read, built anew, and refused."""

from __future__ import annotations

from typing import Any

import pytest

import amqp10msg
import amqp10msg.delivery  # registers the composites
from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    Described,
    Header,
    Malformed,
    Message,
    Properties,
    ULong,
    validate,
)
from amqp10msg.composite import COMPOSITES, rows
from amqp10msg.notation import from_typed, to_typed
from tests.interop.foreign_cases import (
    Case,
    compact_of,
    each_of,
    located,
    observed,
    observed_as,
    pairs_of,
    stated,
)


def sections_stated(nodes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [section_stated(node) for node in nodes]


def section_stated(node: dict[str, Any]) -> tuple[Any, ...]:
    name = node["section"]
    if name is None:
        return ("unknown", stated(node["value"]))
    descriptor = stated(node["descriptor"])
    if "fields" in node:
        fields = {key: stated(value) for key, value in node["fields"].items()}
        return (name, descriptor, fields)
    if "map" in node:
        pairs = [(stated(key), stated(value)) for key, value in node["map"]]
        return (name, descriptor, ("map", pairs))
    if "hex" in node:
        return (name, descriptor, ("binary", bytes.fromhex(node["hex"])))
    if "list" in node:
        return (name, descriptor, ("list", [stated(item) for item in node["list"]]))
    return (name, descriptor, stated(node["value"]))


def sections_observed(message: Message, data: bytes) -> list[tuple[Any, ...]]:
    """The sections of a decoded message, with their descriptors as the wire has them."""
    listed = message.sections()
    scan = amqp10msg.scan(data)
    assert len(scan) == len(listed)
    found: list[tuple[Any, ...]] = []
    for part, (name, section) in zip(scan, listed, strict=True):
        assert name == part.name
        if isinstance(section, Malformed):
            descriptor = next(amqp10msg.decode_values(data[part.offset + 1 : part.end]))
            found.append((name, observed(descriptor), section))
            continue
        generic = amqp10msg.decode_value(data[part.offset : part.end])
        if part.kind is None:
            found.append(("unknown", observed(generic)))
            continue
        found.append((name, observed(generic.descriptor), content_of(section)))
    return found


def content_of(section: Any) -> Any:
    if isinstance(section, Described):
        # A section that a lenient decoding found beside the one that it is held as.
        entry = COMPOSITES.get(section.descriptor)
        if entry is None or not isinstance(section.value, list):
            return observed(section.value)
        return {
            row.wire_name: observed(value)
            for row, value in zip(entry.fields, section.value, strict=False)
            if value is not None
        }
    if isinstance(section, (Header, Properties)):
        return {
            row.wire_name: observed_as(row.type, getattr(section, row.name))
            for row in rows(type(section))
            if getattr(section, row.name) != row.default
        }
    if isinstance(section, Data):
        return ("binary", section.data)
    if isinstance(section, AmqpSequence):
        return ("list", [observed(item) for item in section.values])
    if isinstance(section, AmqpValue):
        return observed(section.value)
    assert isinstance(section, dict), section
    return ("map", pairs_of(section))


def without_defaults(sections: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Leave out fields that say what their absence says: an object does not tell them apart."""
    cleaned = []
    for section in sections:
        if len(section) == 3 and isinstance(section[2], dict):
            name, descriptor, fields = section
            defaults = {
                row.wire_name: observed_as(row.type, row.default)
                for row in rows(Header if name == "header" else Properties)
                if row.default is not None
            }
            kept = {key: value for key, value in fields.items() if defaults.get(key) != value}
            cleaned.append((name, descriptor, kept))
        else:
            cleaned.append(section)
    return cleaned


@each_of("message", must="accept")
def test_message_that_must_be_accepted(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    message = Message.decode(data)
    expected = sections_stated(case["expect"]["sections"])
    assert without_defaults(expected) == sections_observed(message, data)
    assert data == message.encode()
    assert () == message.violations
    lenient = Message.decode(data, strict=False)
    assert message == lenient
    assert data == lenient.encode()
    generic = b"".join(amqp10msg.encode_value(value) for value in amqp10msg.decode_values(data))
    if "compact" in case:
        assert compact_of(case) == generic
    assert message == Message.decode(generic)
    typed = from_typed(to_typed(message))
    assert message == typed
    if all(type(value.descriptor) is ULong for value in amqp10msg.decode_values(data)):
        assert generic == typed.encode()


@each_of("message", must="accept")
def test_rebuilt_message_is_equal(case: Case) -> None:
    message = Message.decode(bytes.fromhex(case["hex"]))
    built = Message(
        message.body,
        header=message.header,
        delivery_annotations=message.delivery_annotations,
        message_annotations=message.message_annotations,
        properties=message.properties,
        application_properties=message.application_properties,
        footer=message.footer,
    )
    encoded = built.encode()
    assert message == Message.decode(encoded)
    expected = [
        (name, content)
        for name, _, content in without_defaults(sections_stated(case["expect"]["sections"]))
    ]
    again = [(name, content) for name, _, content in sections_observed(built, encoded)]
    assert expected == again
    assert len(encoded) <= len(bytes.fromhex(case["hex"]))


def read_over(message: Message, data: bytes) -> set[tuple[str, int]]:
    """The rules that were broken, and where, of what only a lenient decoding accepts.

    Nothing but what stands inside of one section is read over, and nothing without a word.
    """
    assert data == message.encode()
    scan = amqp10msg.scan(data)
    listed = message.sections()
    assert data == b"".join(data[part.offset : part.end] for part in scan)
    errors = [one for one in message.violations if one.severity == "error"]
    assert errors
    assert errors == [one for one in validate(data) if one.severity == "error"]
    broken = {(one.rule, one.offset) for one in errors}
    for part, (name, section) in zip(scan, listed, strict=True):
        octets = data[part.offset : part.end]
        try:
            amqp10msg.decode_value(octets)
        except DecodeError:
            if not isinstance(section, Malformed):
                # Read as what it can only mean, such as a map that has a key twice.
                assert any(part.offset <= offset < part.end for _, offset in broken)
                continue
            assert (name, octets) == (part.name, section.data)
            located(section.error, data)
            assert part.offset <= section.error.offset < part.end
            assert (section.error.rule, section.error.offset) in broken
        else:
            assert not isinstance(section, Malformed)
    return broken


@each_of("message", must="reject")
def test_message_that_must_be_rejected(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    with pytest.raises(DecodeError) as caught:
        Message.decode(data)
    located(caught.value, data)
    if case["expect"].get("level") == "message-model":
        return
    try:
        message = Message.decode(data, strict=False)
    except DecodeError as error:
        located(error, data)
        return
    assert any(isinstance(section, Malformed) for _, section in message.sections())
    try:
        amqp10msg.scan(data)
    except DecodeError as error:
        located(error, data)  # the end of a section is not known
        return
    broken = {rule for rule, _ in read_over(message, data)}
    # The sources report text that is no UTF-8 or ASCII only where nothing worse follows.
    told = case["expect"]["error"].partition("-0x")[0]
    assert not broken.isdisjoint({told, "invalid-utf8", "symbol-not-ascii"})


@each_of("message", must="either")
def test_message_that_may_be_accepted(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    is_refused = False
    for strict in (True, False):
        try:
            message = Message.decode(data, strict=strict)
        except DecodeError as error:
            located(error, data)
            is_refused = True
            continue
        assert data == message.encode()
        try:
            amqp10msg.scan(data)
        except DecodeError:
            assert not strict  # the end of a section is not known
            continue
        if is_refused:
            read_over(message, data)
        nodes = case["expect"].get("lenient", case["expect"]).get("sections")
        if nodes is not None:
            expected = without_defaults(sections_stated(nodes))
            found = without_defaults(sections_observed(message, data))
            for i, section in enumerate(found):
                # Of what is held as its bytes, the kind is known and no value to compare.
                if isinstance(section[-1], Malformed) and i < len(expected):
                    assert not strict
                    expected[i] = (*expected[i][:2], section[-1])
            assert expected == found
