"""Cases of other projects: their bytes, the values their sources state, and what must be refused.

They are other people's data and not part of this repository. AMQP10MSG_VECTORS names the folder
that holds ``cases.jsonl.gz``; without it there is nothing to test here.

A case says `must`: ``accept`` (and the value is the one stated), ``reject``, or ``either``, where
implementations disagree or limits decide (nothing but a DecodeError may be raised, and what is
accepted has the stated value). Values are compared in a notation of this file alone, so that the
comparison does not rest on what it checks.
"""

from __future__ import annotations

import decimal
import gzip
import inspect
import json
import os
import struct
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import amqp10msg
import amqp10msg.delivery  # registers the composites
from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Array,
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
from amqp10msg.composite import COMPOSITES, composite_of, decode_composite, rows
from amqp10msg.delivery.filters import parse
from amqp10msg.notation import from_typed, to_typed
from amqp10msg.primitives import AmqpMap

FOLDER = os.environ.get("AMQP10MSG_VECTORS")
if not FOLDER:
    pytest.skip(
        "AMQP10MSG_VECTORS names no folder with cases of other projects (cases.jsonl.gz)",
        allow_module_level=True,
    )

Case = dict[str, Any]

#: Verdicts of the cases that this library does not share: id -> (what it does, clause and reason).
DISPUTED: dict[str, tuple[str, str]] = {}


def load() -> list[Case]:
    with gzip.open(Path(str(FOLDER)) / "cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


CASES = [case for case in load() if case["id"] not in DISPUTED]


def each_of(*kinds: str, must: str | None = None) -> Callable[[Callable[..., None]], Any]:
    """Have a test check each case of some kinds, forty in one run: pytest takes longer than it."""
    cases = [
        case
        for case in CASES
        if case.get("decode_as", case["kind"]) in kinds and must in (None, case["must"])
    ]
    batches = [cases[start : start + 40] for start in range(0, len(cases), 40)]
    names = [f"{batch[0]['id']}+{len(batch) - 1}" for batch in batches]

    def decorate(check: Callable[..., None]) -> Any:
        def test(batch: list[Case], **fixtures: Any) -> None:
            for case in batch:
                try:
                    check(case, **fixtures)
                except BaseException as fault:
                    fault.add_note(f"in the case {case['id']}")
                    raise

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        wanted = inspect.signature(check).parameters
        keyword = inspect.Parameter.KEYWORD_ONLY
        test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("batch", keyword),
                *(inspect.Parameter(name, keyword) for name in wanted if name != "case"),
            ]
        )
        return pytest.mark.parametrize("batch", batches, ids=names)(test)

    return decorate


# Both sides in one form: (type, content ...), with floats and decimals as bits.


def stated(node: dict[str, Any]) -> tuple[Any, ...]:
    """The value that a case states."""
    kind = node["t"]
    if kind == "null":
        return ("null",)
    if kind in {"float", "double"}:
        return (kind, int(node["bits"], 16))
    if kind.startswith("decimal"):
        return (kind, int(node["bits"], 16), number_of(decimal.Decimal(node["bid"])))
    if kind == "binary" or "hex" in node:
        return (kind, bytes.fromhex(node["hex"]))
    if kind == "uuid":
        return (kind, uuid.UUID(node["v"]).bytes)
    if kind == "list":
        return (kind, [stated(item) for item in node["v"]])
    if kind == "map":
        return (kind, [(stated(key), stated(value)) for key, value in node["v"]])
    if kind == "described":
        return (kind, stated(node["d"]), stated(node["v"]))
    if kind == "array":
        items = [node["each"]] * node["count"] if "each" in node else node["v"]
        descriptors = [stated(descriptor) for descriptor in node.get("descriptors", ())]
        values = [stated(item) for item in items]
        return (kind, node["of"], int(node["ctor"], 16), descriptors, values)
    return (kind, node["v"])


_NAMES = {
    "bool": "boolean",
    "UByte": "ubyte",
    "UShort": "ushort",
    "UInt": "uint",
    "ULong": "ulong",
    "Byte": "byte",
    "Short": "short",
    "Int": "int",
    "int": "long",
    "Timestamp": "timestamp",
    "str": "string",
    "Symbol": "symbol",
    "bytes": "binary",
}


def observed(value: Any) -> tuple[Any, ...]:
    """A value that this library decoded."""
    kind = type(value).__name__
    if value is None:
        return ("null",)
    if kind in {"bool", "str", "bytes"}:
        return (_NAMES[kind], value)
    if kind in _NAMES:
        return (_NAMES[kind], str(value) if kind == "Symbol" else int(value))
    if kind == "Float":
        return ("float", value.bits)
    if kind == "float":
        return ("double", int.from_bytes(struct.pack(">d", value)))
    if kind in {"Decimal32", "Decimal64", "Decimal128"}:
        return (kind.lower(), value.bits, number_of(value.to_decimal()))
    if kind == "Char":
        return ("char", ord(value))
    if kind == "UUID":
        return ("uuid", value.bytes)
    if isinstance(value, list):
        return ("list", [observed(item) for item in value])
    if isinstance(value, (dict, AmqpMap)):
        return ("map", pairs_of(value))
    if isinstance(value, Described):
        return ("described", observed(value.descriptor), observed(value.value))
    assert isinstance(value, Array), f"{kind} is no decoded value"
    descriptors = [observed(descriptor) for descriptor in value.descriptors]
    return ("array", value.type, value.code, descriptors, [observed(item) for item in value])


def pairs_of(mapping: Any) -> list[tuple[Any, Any]]:
    pairs = mapping.pairs if isinstance(mapping, AmqpMap) else mapping.items()
    return [(observed(key), observed(value)) for key, value in pairs]


def number_of(number: decimal.Decimal) -> tuple[Any, ...]:
    """A decimal number with its exponent; a NaN without its payload, which `bid` leaves out."""
    return (number.is_signed(), "NaN") if number.is_nan() else number.as_tuple()


def compact_of(case: Case) -> bytes:
    compact = case["compact"]
    return bytes.fromhex(case["hex"] if compact["is_compact"] else compact["hex"])


def values_of(case: Case) -> list[dict[str, Any]] | None:
    expect = case["expect"]
    stated_values: list[dict[str, Any]] | None = expect.get("lenient", expect).get("values")
    return stated_values


# Values, one or several in a row, on both builds of the kernel.


@each_of("value", must="accept")
def test_value_that_must_be_accepted(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    values = list(wire.decode_values(data))
    assert [stated(node) for node in case["expect"]["values"]] == [observed(v) for v in values]
    again = b"".join(wire.encode_value(value) for value in values)
    assert [observed(value) for value in values] == [observed(v) for v in wire.decode_values(again)]
    assert len(again) <= len(data)
    if "compact" in case:
        assert compact_of(case) == again
    if len(values) == 1:
        assert observed(values[0]) == observed(wire.decode_value(data))
    offset = 0
    for _ in values:
        offset = wire.skip_value(data, offset)
    assert len(data) == offset


@each_of("value", must="reject")
def test_value_that_must_be_rejected(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    read: list[Any] = []
    with pytest.raises(DecodeError) as caught:
        read.extend(wire.decode_values(data))
    located(caught.value, data)
    # The sources report text that is no UTF-8 or ASCII only where nothing worse follows.
    if caught.value.rule == case["expect"]["error"]:
        assert case["expect"].get("values_before", 0) == len(list(before_error(wire, data)))


@each_of("value", must="either")
def test_value_that_may_be_accepted(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    try:
        values = list(wire.decode_values(data))
    except DecodeError as error:
        located(error, data)
        return
    expected = values_of(case)
    if expected is not None:
        assert [stated(node) for node in expected] == [observed(value) for value in values]


def before_error(wire: ModuleType, data: bytes) -> Iterator[Any]:
    """The values in front of the one that is refused."""
    values = wire.decode_values(data)
    while True:
        try:
            yield next(values)
        except DecodeError:
            return


def located(error: DecodeError, data: bytes) -> None:
    assert 0 <= error.offset <= len(data)
    assert error.rule
    assert error.rule != "malformed"
    assert error.condition.startswith("amqp:")
    assert data == error.data


# Messages.


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


def observed_as(kind: str, value: Any) -> tuple[Any, ...]:
    """A field's value: a plain one has the type that its declaration says."""
    plain = type(value)
    if plain is int:
        return ("ulong" if kind == "*" else kind, value)
    if plain is str and kind != "*":
        return (kind, value)
    return observed(value)


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
def test_message_built_anew_says_the_same(case: Case) -> None:
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
            assert (section.error.rule.partition("-0x")[0], section.error.offset) in broken
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
    broken = {rule for rule, _ in read_over(message, data)}
    assert any(isinstance(section, Malformed) for _, section in message.sections())
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


# Outcomes, termini and what stands in them.


def composite_stated(case: Case) -> dict[str, Any]:
    expect = case["expect"].get("lenient", case["expect"])
    node: dict[str, Any] = expect.get("outcome") or expect["terminus"]
    return node


@each_of("outcome", "terminus", must="accept")
def test_composite_that_must_be_accepted(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    node = composite_stated(case)
    value = wire.decode_value(data)
    assert isinstance(value, Described)
    assert stated(node["descriptor"]) == observed(value.descriptor)
    assert node["wire_fields"] == len(value.value)
    # The fields stand in the order of the wire, without the null ones.
    expected = [stated(field) for field in node["fields"].values()]
    assert expected == [observed(item) for item in value.value if item is not None]
    if "compact" in case:
        assert compact_of(case) == wire.encode_value(value)


@each_of("outcome", "terminus", must="accept")
def test_composite_as_its_class(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    node = composite_stated(case)
    made = decode_composite(data)
    assert node["composite"] == composite_of(type(made)).name
    encoded = amqp10msg.encode_value(made)
    assert made == decode_composite(encoded)
    again = amqp10msg.decode_value(encoded).value
    written = dict(zip((row.wire_name for row in rows(type(made))), again, strict=False))
    table = {row.wire_name: row for row in rows(type(made))}
    assert set(node["fields"]) <= set(table)
    for name, row in table.items():
        expected = stated(node["fields"][name]) if name in node["fields"] else ("null",)
        found = observed(written.get(name))
        if row.multiple:
            assert several(expected) == several(found)
        elif found == ("null",) and row.default is not None:
            default = row.default.value if hasattr(row.default, "value") else row.default
            assert expected in {("null",), observed_as(row.type, default)}
        else:
            assert expected == found, name


def several(value: tuple[Any, ...]) -> list[Any]:
    """The values of a field that is declared multiple, however they are written."""
    if value == ("null",):
        return []
    return list(value[4]) if value[0] == "array" else [value]


@each_of("outcome", "terminus")
def test_composite_as_what_a_frame_carries(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    if case["must"] == "reject":
        with pytest.raises(DecodeError) as caught:
            amqp10msg.delivery.decode(data)
        located(caught.value, data)
        return
    try:
        made = amqp10msg.delivery.decode(data)
    except DecodeError as error:
        located(error, data)
        assert case["must"] == "either"
        return
    assert made == decode_composite(data)
    encoded = amqp10msg.delivery.encode(made)
    assert made == amqp10msg.delivery.decode(encoded)
    if "compact" in case:
        # The smallest encoding of these very fields; a default that is said need not be.
        assert len(encoded) <= len(compact_of(case))
    if isinstance(made, amqp10msg.delivery.DeliveryState):
        assert ("outcome" in composite_of(type(made)).provides) == made.is_outcome
    for role in ("sender", "receiver"):
        if isinstance(made, amqp10msg.delivery.Source):
            found = amqp10msg.delivery.check_source(data, role=role)
        elif isinstance(made, amqp10msg.delivery.Target):
            found = amqp10msg.delivery.check_target(data, role=role)
        else:
            continue
        assert all(0 <= violation.offset < len(data) for violation in found)


@each_of("outcome", "terminus", must="reject")
def test_composite_that_must_be_rejected(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    with pytest.raises(DecodeError) as caught:
        wire.decode_value(data)
    located(caught.value, data)
    with pytest.raises(DecodeError) as caught:
        decode_composite(data)
    located(caught.value, data)


@each_of("outcome", "terminus", must="either")
def test_composite_that_may_be_accepted(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    try:
        value = wire.decode_value(data)
    except DecodeError as error:
        located(error, data)
        return
    node = composite_stated(case)
    expected = [stated(field) for field in node["fields"].values()]
    assert expected == [observed(item) for item in value.value if item is not None]
    try:
        made = decode_composite(data)
    except DecodeError as error:
        located(error, data)
    else:
        assert node["composite"] == composite_of(type(made)).name


def test_filters_of_termini_are_understood_and_come_back() -> None:
    tried = 0
    for case in CASES:
        if case["kind"] != "terminus" or '"filter"' not in json.dumps(case["expect"]):
            continue
        described = amqp10msg.decode_value(bytes.fromhex(case["hex"]))
        wanted = described.value[7]
        if case["must"] == "accept":
            filters = parse(wanted)
            assert filters.to_map() == wanted
            assert amqp10msg.encode_value(wanted) == filters.encode()
            assert filters.supported == filters
        else:
            with pytest.raises(DecodeError, match="is a symbol"):
                parse(amqp10msg.encode_value(wanted))
        tried += 1
    assert tried > 0


def test_every_case_of_these_kinds_is_tested() -> None:
    tested = {"value", "message", "outcome", "terminus"}
    kinds = {case.get("decode_as", case["kind"]) for case in CASES}
    assert tested <= kinds
    assert {"accept", "reject", "either"} == {
        case["must"] for case in CASES if case.get("decode_as", case["kind"]) in tested
    }
