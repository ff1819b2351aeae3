"""The declarations against the tables of the specification, written out by hand."""

from __future__ import annotations

import datetime
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Annotated, Any

import attrs
import pytest
from hypothesis import given

from amqp10msg import (
    Array,
    DecodeError,
    Described,
    EncodeError,
    Header,
    Properties,
    Symbol,
    UInt,
    ULong,
    composite,
    delivery,
    encode_value,
)
from amqp10msg.composite import (
    COMPOSITES,
    composite_of,
    decode_composite,
    encode_composite,
    from_described,
    rows,
)
from amqp10msg.composite import composite as registered
from amqp10msg.net import transport  # noqa: F401  (registers the composites of frames)
from amqp10msg.sections import KINDS
from amqp10msg.testing import sections
from amqp10msg.wire.primitives import WireType, string, symbols, uint

# Field name, type, mandatory, multiple, default: from the XML of Part 3 (and of Part 2, 2.8.14,
# and Part 4 for error and the transactions), by hand.
TABLES: dict[str, tuple[int, str, list[tuple[str, str, bool, bool, Any]]]] = {
    "header": (
        0x70,
        "amqp:header:list",
        [
            ("durable", "boolean", False, False, False),
            ("priority", "ubyte", False, False, 4),
            ("ttl", "uint", False, False, None),
            ("first-acquirer", "boolean", False, False, False),
            ("delivery-count", "uint", False, False, 0),
        ],
    ),
    "properties": (
        0x73,
        "amqp:properties:list",
        [
            ("message-id", "*", False, False, None),
            ("user-id", "binary", False, False, None),
            ("to", "*", False, False, None),
            ("subject", "string", False, False, None),
            ("reply-to", "*", False, False, None),
            ("correlation-id", "*", False, False, None),
            ("content-type", "symbol", False, False, None),
            ("content-encoding", "symbol", False, False, None),
            ("absolute-expiry-time", "timestamp", False, False, None),
            ("creation-time", "timestamp", False, False, None),
            ("group-id", "string", False, False, None),
            ("group-sequence", "uint", False, False, None),
            ("reply-to-group-id", "string", False, False, None),
        ],
    ),
    "error": (
        0x1D,
        "amqp:error:list",
        [
            ("condition", "symbol", True, False, None),
            ("description", "string", False, False, None),
            ("info", "map", False, False, None),
        ],
    ),
    "received": (
        0x23,
        "amqp:received:list",
        [
            ("section-number", "uint", True, False, None),
            ("section-offset", "ulong", True, False, None),
        ],
    ),
    "accepted": (0x24, "amqp:accepted:list", []),
    "rejected": (0x25, "amqp:rejected:list", [("error", "*", False, False, None)]),
    "released": (0x26, "amqp:released:list", []),
    "modified": (
        0x27,
        "amqp:modified:list",
        [
            ("delivery-failed", "boolean", False, False, False),
            ("undeliverable-here", "boolean", False, False, False),
            ("message-annotations", "map", False, False, None),
        ],
    ),
    "source": (
        0x28,
        "amqp:source:list",
        [
            ("address", "*", False, False, None),
            ("durable", "uint", False, False, 0),
            ("expiry-policy", "symbol", False, False, "session-end"),
            ("timeout", "uint", False, False, 0),
            ("dynamic", "boolean", False, False, False),
            ("dynamic-node-properties", "map", False, False, None),
            ("distribution-mode", "symbol", False, False, None),
            ("filter", "map", False, False, None),
            ("default-outcome", "*", False, False, None),
            ("outcomes", "symbol", False, True, ()),
            ("capabilities", "symbol", False, True, ()),
        ],
    ),
    "target": (
        0x29,
        "amqp:target:list",
        [
            ("address", "*", False, False, None),
            ("durable", "uint", False, False, 0),
            ("expiry-policy", "symbol", False, False, "session-end"),
            ("timeout", "uint", False, False, 0),
            ("dynamic", "boolean", False, False, False),
            ("dynamic-node-properties", "map", False, False, None),
            ("capabilities", "symbol", False, True, ()),
        ],
    ),
    "delete-on-close": (0x2B, "amqp:delete-on-close:list", []),
    "delete-on-no-links": (0x2C, "amqp:delete-on-no-links:list", []),
    "delete-on-no-messages": (0x2D, "amqp:delete-on-no-messages:list", []),
    "delete-on-no-links-or-messages": (0x2E, "amqp:delete-on-no-links-or-messages:list", []),
    "coordinator": (
        0x30,
        "amqp:coordinator:list",
        [("capabilities", "symbol", False, True, ())],
    ),
    "declare": (0x31, "amqp:declare:list", [("global-id", "*", False, False, None)]),
    "discharge": (
        0x32,
        "amqp:discharge:list",
        [("txn-id", "binary", True, False, None), ("fail", "boolean", False, False, False)],
    ),
    "declared": (0x33, "amqp:declared:list", [("txn-id", "binary", True, False, None)]),
    "transactional-state": (
        0x34,
        "amqp:transactional-state:list",
        [("txn-id", "binary", True, False, None), ("outcome", "*", False, False, None)],
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_declaration_is_the_table(name: str) -> None:
    code, symbol, table = TABLES[name]
    entry = COMPOSITES[code]

    assert entry is COMPOSITES[symbol]
    assert (entry.name, entry.code, entry.symbol) == (name, code, symbol)
    assert [
        (f.wire_name, f.type, f.mandatory, f.multiple, f.default) for f in entry.fields
    ] == table


def test_every_composite_has_a_table() -> None:
    # Those of Part 2 are registered with the transport, which another test may have imported.
    declared = {
        entry.name
        for entry in COMPOSITES.values()
        if not entry.cls.__module__.startswith("amqp10msg.net.")
    }
    assert set(TABLES) == declared


def test_sections_are_the_table() -> None:
    assert [(k.name, k.code, k.symbol) for k in KINDS] == [
        ("header", 0x70, "amqp:header:list"),
        ("delivery-annotations", 0x71, "amqp:delivery-annotations:map"),
        ("message-annotations", 0x72, "amqp:message-annotations:map"),
        ("properties", 0x73, "amqp:properties:list"),
        ("application-properties", 0x74, "amqp:application-properties:map"),
        ("data", 0x75, "amqp:data:binary"),
        ("amqp-sequence", 0x76, "amqp:amqp-sequence:list"),
        ("amqp-value", 0x77, "amqp:amqp-value:*"),
        ("footer", 0x78, "amqp:footer:map"),
    ]


EXAMPLES = [
    (delivery.Accepted(), "00532445"),
    (delivery.Released(), "00532645"),
    (delivery.Rejected(), "00532545"),
    (
        delivery.Rejected(error=delivery.Error("amqp:not-found")),
        "005325c0170100531dc01101" + "a30e" + b"amqp:not-found".hex(),
    ),
    (
        delivery.Modified(True, False, {"x-opt-a": 1}),
        "005327c011034140c10c02a307782d6f70742d615501",
    ),
    (delivery.Received(0, 0), "005323c003024344"),
    (delivery.Source(), "00532845"),
    (delivery.Source(address="q", outcomes=("a",)), None),
    (
        delivery.Source(
            address="q",
            durable=delivery.TerminusDurability.UNSETTLED_STATE,
            expiry_policy=delivery.TerminusExpiryPolicy.NEVER,
            timeout=30,
            distribution_mode="copy",
            filter={"f": Described(Symbol("x"), "y"), "n": None},
            default_outcome=delivery.Released(),
            outcomes=("amqp:accepted:list", "amqp:rejected:list"),
            capabilities=("queue",),
        ),
        None,
    ),
    (delivery.Target(address="t", dynamic=True), "005329c00805a10174404040" + "41"),
    (delivery.Coordinator(capabilities=("amqp:local-transactions",)), None),
    (delivery.Declare(), "00533145"),
    (delivery.Discharge(b"t", fail=True), "005332c00502a0017441"),
    (delivery.Declared(b"t"), "005333c00401a00174"),
    (delivery.TransactionalState(b"t", delivery.Accepted()), "005334c00802a0017400532445"),
    (Header(priority=9), "005370c00402405009"),
    (Properties(message_id=7), "005373c003015307"),
]


@pytest.mark.parametrize("value, octets", EXAMPLES, ids=lambda v: type(v).__name__)
def test_encodes_and_decodes(value: Any, octets: str | None) -> None:
    encoded = encode_composite(value)

    if octets is not None:
        assert octets == encoded.hex()
    assert value == decode_composite(encoded)
    assert encoded == encode_value(value)


def test_symbolic_descriptor_decodes() -> None:
    octets = b"\x00\xa3\x12amqp:accepted:list\x45"

    assert delivery.Accepted() == decode_composite(octets)


def test_multiple_accepts_null_one_and_array() -> None:
    one = Described(ULong(0x30), [Symbol("a")])
    many = Described(ULong(0x30), [Array("symbol", [Symbol("a"), Symbol("b")])])
    none = Described(ULong(0x30), [Array("symbol", [])])

    assert from_described(one).capabilities == ("a",)
    assert from_described(many).capabilities == ("a", "b")
    assert from_described(none).capabilities == ()
    assert from_described(Described(ULong(0x30), [None])).capabilities == ()


@pytest.mark.parametrize(
    "octets, rule",
    [
        ("005323c00201" + "43", "mandatory-field-missing"),
        ("005323c00403434444", "too-many-fields"),
        ("005323c0030243" + "80", "truncated"),
        ("005323c0040254" + "0144", "field-type"),
        ("005325c0020145", "field-type"),
        ("005325c00501005324" + "45", "field-type"),
        ("005328c00402405203", "field-type"),
        ("005328c006034040a30178", "field-type"),
        ("00532ac00100", "unknown-composite"),
        ("43", "not-a-composite"),
        ("005327c00a034141c10502a1016b40", "field-key-type"),
        ("005328c0100b40404040404040404040" + "e003015207", "field-type"),
    ],
)
def test_breaking_the_declaration_is_refused(octets: str, rule: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_composite(bytes.fromhex(octets))

    assert rule == caught.value.rule
    assert caught.value.data == bytes.fromhex(octets)


def _assigned(value: Any, name: str, content: Any) -> Any:
    """Assign a field of an object, which does not check it."""
    setattr(value, name, content)
    return value


@pytest.mark.parametrize(
    "make, path",
    [
        (lambda: Header(priority=256), "header.priority"),
        (lambda: Header(ttl=-1), "header.ttl"),
        (lambda: Header(durable=1), "header.durable"),  # type: ignore[arg-type]
        (lambda: Header(priority=UInt(4 + 1)), "header.priority"),
        (lambda: Properties(message_id=-1), "properties.message-id"),
        (lambda: Properties(message_id=1.5), "properties.message-id"),  # type: ignore[arg-type]
        (lambda: Properties(content_type="ü"), "properties.content-type"),
        (lambda: Properties(to=b"q"), "properties.to"),  # type: ignore[arg-type]
        (lambda: Properties(subject="\ud800"), "properties.subject"),
        (lambda: delivery.Received(None, 1), "received.section-number"),  # type: ignore[arg-type]
        (lambda: _assigned(delivery.Received(0, 1), "section_number", None), "received"),
        (
            lambda: delivery.Rejected(
                error=_assigned(delivery.Error("amqp:x"), "description", 1),
            ),
            "rejected.error.error.description",
        ),
        (
            lambda: _assigned(
                delivery.Rejected(),
                *("error", _assigned(delivery.Error("amqp:x"), "description", 1)),
            ),
            "rejected.error.error.description",
        ),
    ],
)
def test_wrong_value_names_its_field(make: Callable[[], Any], path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_composite(make())

    assert path == caught.value.path


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: Header(ttl="5s"), "header.ttl: must be uint, not '5s'"),  # type: ignore[arg-type]
        (
            lambda: Header(ttl=datetime.timedelta(seconds=1)),  # type: ignore[arg-type]
            (
                "header.ttl: must be uint, not datetime.timedelta(seconds=1): "
                "give a number of milliseconds, value // timedelta(milliseconds=1)"
            ),
        ),
        (
            lambda: Properties(user_id="guest"),  # type: ignore[arg-type]
            "properties.user-id: must be binary, not 'guest': encode it, value.encode()",
        ),
        (lambda: Header(True, 4.0), "header.priority: must be ubyte, not 4.0"),  # type: ignore[arg-type]
        (
            lambda: attrs.evolve(Properties(), to=b"q"),  # type: ignore[arg-type]
            "properties.to: must be string, not b'q'",
        ),
    ],
)
def test_wrong_type_is_refused_by_the_constructor(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(EncodeError) as caught:
        make()

    assert text == str(caught.value)


@pytest.mark.parametrize("cls", [Header, Properties])
def test_checking_constructors_keep_their_signature(cls: Any) -> None:
    parameters = inspect.signature(cls).parameters

    assert [field.name for field in attrs.fields(cls)] == list(parameters)
    assert [field.default for field in attrs.fields(cls)] == [
        parameter.default for parameter in parameters.values()
    ]


@given(sections("header") | sections("properties"))
def test_decoded_composite_can_be_built_from_its_fields(section: Any) -> None:
    fields = attrs.asdict(section, recurse=False)

    assert type(section)(**fields) == section


def test_declare_a_custom_composite() -> None:
    @composite.composite("test:thing:list", 0x0000_4242_0000_0001, provides=("thing",))
    @attrs.define
    class Thing:
        name: string
        size: uint = 3
        tags: symbols = ()

    try:
        thing = Thing("a", 3, ("x", "y"))
        encoded = encode_composite(thing)

        assert encoded.startswith(b"\x00\x80\x00\x00\x42\x42\x00\x00\x00\x01\xc0")
        assert thing == decode_composite(encoded)
        assert "Thing(name='a', tags=('x', 'y'))" == repr(thing)
        assert ["name", "size", "tags"] == [row.name for row in rows(Thing)]
        with pytest.raises(TypeError, match="registered already"):
            composite.composite("test:thing:list", 0x1)(Thing)
    finally:
        entry = composite_of(Thing)
        del COMPOSITES[entry.code], COMPOSITES[entry.symbol]


def test_field_must_declare_its_amqp_type() -> None:
    @attrs.define
    class Vague:
        name: str

    with pytest.raises(TypeError, match=r"Vague\.name has no AMQP type"):
        composite.composite("test:vague:list", 0x4242_0002)(Vague)


@pytest.mark.parametrize("wrong", ["integer", "", 5, None, ["string"]])
def test_unknown_type_of_a_field_is_refused(wrong: Any) -> None:
    annotation: Any = Annotated[str, WireType(wrong)]
    odd = attrs.make_class("Odd", {"name": attrs.field(type=annotation)})
    before = dict(COMPOSITES)
    with pytest.raises(TypeError, match=r"Odd\.name has the unknown AMQP type .*: use one of \*, "):
        composite.composite("test:odd:list", 0x4242_0004)(odd)
    assert before == COMPOSITES


@pytest.mark.parametrize("wrong", ["outcome", ["outcome"], (1,), None])
def test_provides_is_a_tuple_of_names(wrong: Any) -> None:
    with pytest.raises(TypeError, match="provides of a composite takes a tuple of str"):
        composite.composite("test:odd:list", 0x4242_0004, provides=wrong)


@pytest.mark.parametrize(
    "symbol, code, text",
    [
        (
            "amqp:error:list",
            0x4242_0005,
            r"by Error, as amqp:error:list \(0x1D\): choose another d",
        ),
        ("test:other:list", 0x1D, r"by Error, as amqp:error:list \(0x1D\): choose"),
        ("test:error:list", 0x4242_0005, "the name 'error' of test:error:list is reg"),
        ("test:accepted:list", 0x4242_0005, "by amqp:accepted:list: choose another name"),
        ("test:header:list", 0x4242_0005, "by amqp:header:list: choose another name"),
    ],
)
def test_second_registration_is_refused(symbol: str, code: int, text: str) -> None:
    @attrs.define
    class Second:
        name: string

    before = dict(COMPOSITES)
    with pytest.raises(TypeError, match=text):
        composite.composite(symbol, code)(Second)
    assert before == COMPOSITES


def test_second_descriptor_of_a_class_is_refused() -> None:
    with pytest.raises(TypeError, match="Error is registered already, as amqp:error:list"):
        composite.composite("test:error2:list", 0x4242_0006)(delivery.Error)


def test_a_frozen_class_is_refused() -> None:
    @attrs.frozen
    class Frozen:
        name: string

    before = set(COMPOSITES)
    with pytest.raises(TypeError, match="Frozen is frozen, and decoding sets its fields: use @at"):
        composite.composite("test:frozen:list", 0x4242_0003)(Frozen)
    assert before == set(COMPOSITES)


def test_rows_requires_a_composite_class() -> None:
    with pytest.raises(TypeError, match="int is not a composite"):
        rows(int)


# What was imported before does not matter.

ON_DEMAND = """
from amqp10msg.composite import decode_composite, from_described
from amqp10msg import Described, ULong
print(decode_composite(bytes.fromhex("00532445")))
print(from_described(Described(ULong(0x34), [b"t"])))
"""
IN_NOTATIONS = """
from amqp10msg.notation import parse_tree, to_plain, value_from_plain
from amqp10msg.wire.kernel import decode_value
octets = bytes.fromhex("00532445")
print(parse_tree(octets).nodes[0].name, to_plain(decode_value(octets)))
print(value_from_plain({"$declare": {}}).descriptor)
"""
BY_ATTRIBUTE = """
import amqp10msg
print(amqp10msg.delivery.Accepted())
names = "delivery", "_names", "TYPE_CHECKING"
print(*(name in dir(amqp10msg) for name in names), hasattr(amqp10msg, "nothing"))
"""


@pytest.mark.parametrize(
    "program, printed",
    [
        (ON_DEMAND, "Accepted()\nTransactionalState(txn_id=b't')\n"),
        (BY_ATTRIBUTE, "Accepted()\nTrue False False False\n"),
        (IN_NOTATIONS, "accepted {'$accepted': {}}\n49\n"),
    ],
)
def test_a_fresh_interpreter_needs_no_import_of_delivery(program: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert printed == done.stdout


def test_descriptors_of_the_specification_are_reserved() -> None:
    with pytest.raises(TypeError, match="registered already"):
        registered("amqp:accepted:list", 0x24)(type("Other", (), {}))
    with pytest.raises(TypeError, match="registered already"):
        registered("amqp:other:list", 0x30)(type("Other", (), {}))


def multiple_fields() -> list[tuple[type, str]]:
    """Return the classes of the package with their multiple fields."""
    entries = {entry.cls: entry for entry in COMPOSITES.values()}
    return sorted(
        (
            (cls, field.name)
            for cls, entry in entries.items()
            if cls.__module__.startswith("amqp10msg.")
            for field in entry.fields
            if field.multiple
        ),
        key=str,
    )


def required(cls: type) -> dict[str, Any]:
    """Return a value for each mandatory field of a composite."""
    values: dict[str, Any] = {"string": "x", "uint": 1, "boolean": False, "binary": b"x"}
    return {f.name: values[f.type] for f in composite_of(cls).fields if f.mandatory}


@pytest.mark.parametrize("given", [None, "a", ["a"], ("a", "b"), Array("symbol", ["a", "b"])])
@pytest.mark.parametrize(
    "cls, field", multiple_fields(), ids=lambda value: getattr(value, "__name__", value)
)
def test_multiple_field_of_a_built_object_is_a_tuple(cls: Any, field: str, given: Any) -> None:
    built = cls(**{**required(cls), field: given})
    assigned = cls(**required(cls))
    setattr(assigned, field, given)

    assert type(getattr(built, field)) is tuple
    assert built == assigned == decode_composite(encode_composite(built))


def test_multiple_fields_of_a_users_class_are_tuples() -> None:
    program = """
        from typing import Annotated

        import attrs
        from amqp10msg import Array
        from amqp10msg.composite import composite, decode_composite, encode_composite
        from amqp10msg.wire.primitives import WireType, symbols

        uints = Annotated[tuple[int, ...], WireType("uint", "number", multiple=True)]

        @composite("test:user:list", 0x4242_0020)
        @attrs.define
        class User:
            names: symbols = attrs.field(default=(), validator=attrs.validators.max_len(9))
            numbers: uints = ()

        for numbers in (1, [1], (1, 2), Array("uint", [1, 2]), None):
            built = User(["a"], numbers)
            assert built.names == ("a",) and type(built.numbers) is tuple
            assert built == decode_composite(encode_composite(built))
            built.numbers = [7]
            assert built.numbers == (7,)
        assert attrs.evolve(built, names=["b"]).names == ("b",)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
