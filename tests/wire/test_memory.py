"""Code that differs between the builds: fast paths agree with the general readers; output grows."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Array,
    Byte,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    DecodeError,
    DeliveryAnnotations,
    Described,
    Float,
    Footer,
    Header,
    Int,
    Limits,
    Message,
    MessageAnnotations,
    Properties,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_value,
    encode_value,
)
from amqp10msg.composite import COMPOSITES, Error, rows
from amqp10msg.delivery import states
from amqp10msg.notation import to_typed
from amqp10msg.sections import KINDS, SectionKind
from amqp10msg.sections.parts import read_section
from amqp10msg.testing import messages, mutated, sections
from amqp10msg.wire.limits import DEFAULT_LIMITS

# Reading a whole message (which has fast paths when compiled) and reading one section on its own
# must give the same values and the same errors.

QUICK = tuple(kind for kind in KINDS if kind.name not in {"amqp-sequence", "amqp-value"})


def read(kind: SectionKind, encoded: bytes, limits: Limits, *, quick: bool) -> Any:
    """Read the section's value, by way of a message or on its own."""
    octets = bytes((0, 0x53, kind.code)) + encoded
    try:
        if quick:
            section = getattr(Message.decode(octets, limits=limits), kind.attribute)
        else:
            section = read_section(octets, kind, 3, len(octets), limits)
    except DecodeError as error:
        return error.rule, error.offset, error.condition, str(error)
    return type(section), to_typed(section)


def quick_and_thorough_agree(
    kind: SectionKind, encoded: bytes, limits: Limits = DEFAULT_LIMITS
) -> None:
    thorough = read(kind, encoded, limits, quick=False)
    if isinstance(thorough[0], type):
        assert read(kind, encoded, limits, quick=True) == thorough
    else:
        # What follows the first fault is a message's own matter: it may be a section.
        assert read(kind, encoded, limits, quick=True)[:3] == thorough[:3]


@pytest.mark.parametrize("kind", QUICK, ids=lambda kind: kind.name)
@given(data=st.data())
def test_quick_and_thorough_readers_agree(kind: SectionKind, data: st.DataObject) -> None:
    section = data.draw(sections(kind.name))
    encoded = Message(**{kind.attribute: section}).encode()[3:]

    quick_and_thorough_agree(kind, encoded)


@pytest.mark.parametrize("kind", QUICK, ids=lambda kind: kind.name)
@given(data=st.data())
def test_quick_readers_leave_faults_to_the_thorough_readers(
    kind: SectionKind, data: st.DataObject
) -> None:
    section = data.draw(sections(kind.name))
    encoded = data.draw(mutated(Message(**{kind.attribute: section}).encode()[3:]))

    thorough = read(kind, encoded, DEFAULT_LIMITS, quick=False)
    quick = read(kind, encoded, DEFAULT_LIMITS, quick=True)
    # Where the value ends early, a message goes on with what is no section.
    if isinstance(quick[0], type) or not isinstance(thorough[0], type):
        assert quick[:3] == thorough[:3]


@pytest.mark.parametrize(
    "limits",
    [Limits(items=0), Limits(items=1), Limits(items=4), Limits(depth=1), Limits(depth=2)],
    ids=str,
)
@given(message=messages())
def test_quick_readers_respect_the_limits(limits: Limits, message: Message) -> None:
    for kind in QUICK:
        section: Any = getattr(message, kind.attribute)
        if type(section) is kind.cls:
            alone: dict[str, Any] = {kind.attribute: section}
            quick_and_thorough_agree(kind, Message(**alone).encode()[3:], limits)


@pytest.mark.parametrize(
    "kind, encoded",
    [
        pytest.param(KINDS[0], "c0 02 01 41", id="true"),
        pytest.param(KINDS[0], "c0 02 01 56", id="boolean cut off"),
        pytest.param(KINDS[0], "c0 01 01", id="count without octets"),
        pytest.param(KINDS[0], "c0 00 00", id="size too small"),
        pytest.param(KINDS[0], "c0 02", id="header cut off"),
        pytest.param(KINDS[0], "d0 00 00 00 05 00 00 00 01 41", id="long form"),
        pytest.param(KINDS[0], "d0 ff ff ff ff ff ff ff ff 41", id="largest size"),
        pytest.param(KINDS[0], "d0 00 00 00 03 00 00 00 01 41", id="long size too small"),
        pytest.param(KINDS[0], "d0 00 00 00 05 00 00", id="long form cut off"),
        pytest.param(KINDS[0], "c0 03 01 41 41", id="octet left over"),
        pytest.param(KINDS[0], "c0 07 06 40 40 40 40 40 40", id="a field too many"),
        pytest.param(KINDS[0], "c0 06 03 40 40 70 00 00", id="number cut off"),
        pytest.param(KINDS[3], "c0 03 01 a1 01", id="text cut off"),
        pytest.param(KINDS[3], "c0 04 01 a1 01 ff", id="no UTF-8"),
        pytest.param(KINDS[3], "c0 0a 07 40 40 40 40 40 40 a3 01 ff", id="no ASCII"),
        pytest.param(KINDS[3], "c0 05 02 40 a0 01 ff", id="binary"),
        pytest.param(KINDS[4], "c1 07 02 a1 01 61 a1 01 62", id="entry"),
        pytest.param(KINDS[4], "c1 07 03 a1 01 61 a1 01 62", id="odd count"),
        pytest.param(KINDS[4], "c1 09 04 a1 01 61 41 a1 01 61 41", id="key twice"),
        pytest.param(KINDS[4], "c1 05 02 a3 01 61 41", id="key no string"),
        pytest.param(KINDS[4], "c1 05 02 a1 01 61 45", id="value no simple one"),
        pytest.param(KINDS[4], "c1 05 02 a1 01 ff 41", id="key no UTF-8"),
        pytest.param(KINDS[2], "c1 05 02 a3 01 ff 41", id="key no ASCII"),
        pytest.param(KINDS[2], "c1 04 02 53 01 41", id="key a number"),
        pytest.param(KINDS[2], "c1 06 02 a3 01 61 54 80", id="negative"),
        pytest.param(KINDS[2], "c1 05 02 a3 01 61 81", id="long cut off"),
        pytest.param(KINDS[5], "a0 05 01", id="data cut off"),
        pytest.param(KINDS[5], "a0", id="data without length"),
        pytest.param(KINDS[5], "b0 ff ff ff ff 01", id="data of the largest length"),
        pytest.param(KINDS[5], "a1 01 61", id="data no binary"),
    ],
)
def test_quick_readers_at_the_edges(kind: SectionKind, encoded: str) -> None:
    quick_and_thorough_agree(kind, bytes.fromhex(encoded))


# Output: its sizes around those where a header grows or the memory does.


@pytest.mark.parametrize("size", [0, 1, 251, 252, 253, 254, 255, 256, 989, 990, 999, 1000, 70_000])
def test_compounds_take_the_smallest_header(size: int) -> None:
    text = "x" * size
    wide = 2 if size <= 255 else 5

    encoded = encode_value([text])

    content = wide + size
    assert encoded[0] == (0xC0 if content < 255 else 0xD0)
    assert len(encoded) == content + (3 if content < 255 else 9)
    assert decode_value(encoded) == [text]


@given(
    texts=st.lists(st.integers(0, 400), max_size=12),
    depth=st.integers(0, 6),
    after=st.integers(0, 300),
)
@example(texts=[255] * 12, depth=6, after=300)
def test_nested_compounds_of_any_size(texts: list[int], depth: int, after: int) -> None:
    value: Any = ["x" * n for n in texts]
    for _ in range(depth):
        value = [value, {"key": value, "after": "y" * after}]

    assert decode_value(encode_value(value)) == value


def test_composites_without_fields_are_empty_lists() -> None:
    assert Message(header=Header(), properties=Properties()).encode() == bytes.fromhex(
        "00 53 70 45  00 53 73 45"
    )


# Classes.

SECTION_MAPS = (DeliveryAnnotations, MessageAnnotations, ApplicationProperties, Footer)
CLASSES: tuple[Any, ...] = (
    Message,
    Data,
    AmqpSequence,
    AmqpValue,
    # But for those of Part 2, which the transport registers where another test has imported it.
    *{
        entry.cls: None
        for entry in COMPOSITES.values()
        if not entry.cls.__module__.startswith("amqp10msg.net.")
    },
)


# Their constructors check the types of all arguments: tests/delivery/test_delivery_states.py.
CHECKED_CLASSES = (Error, *(cls for cls in CLASSES if cls.__module__ == states.__name__))
ARGUMENT_BY_TYPE = {"binary": b"x", "uint": 1, "ulong": 1}


def _arguments(cls: Any) -> tuple[Any, ...]:
    """Return what the class cannot be called without."""
    if cls is Message:
        return ()
    types = {row.name: row.type for row in rows(cls)} if cls in CHECKED_CLASSES else {}
    needed = [field.name for field in attrs.fields(cls) if field.default is attrs.NOTHING]
    return tuple(ARGUMENT_BY_TYPE.get(types.get(name, ""), "x") for name in needed)


@pytest.mark.parametrize(
    "cls", [cls for cls in CLASSES if cls not in CHECKED_CLASSES], ids=lambda cls: cls.__name__
)
def test_unconverted_arguments_are_stored_as_given(cls: Any) -> None:
    # Those two look at what they are given.
    given_ = None if cls in (Header, Properties) else object()
    taken = [
        field.name
        for field in attrs.fields(cls)
        if field.init and field.converter is None and not field.name.startswith("_")
    ]
    if cls is Message:
        taken = ["message_format"]

    made = cls(**dict.fromkeys(taken, given_))

    assert [getattr(made, name) for name in taken] == [given_] * len(taken)


def test_integer_constructors_with_wrong_argument_counts() -> None:
    assert UInt() == 0
    with pytest.raises(TypeError):
        UInt(1, 2, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        UInt(value=1)  # type: ignore[call-arg]


@given(text=st.one_of(st.text(), st.text(alphabet="abc")))
def test_symbols_are_ascii(text: str) -> None:
    if text.isascii():
        assert (type(Symbol(text)), str(Symbol(text))) == (Symbol, text)
    else:
        with pytest.raises(ValueError, match="ASCII"):
            Symbol(text)


@pytest.mark.parametrize("cls", SECTION_MAPS, ids=lambda cls: cls.__name__)
def test_a_map_section_is_a_copy(cls: Any) -> None:
    entries = {"a": 1, "b": UInt(2)}

    made = cls(entries)
    entries["c"] = 3

    assert (type(made), dict(made)) == (cls, {"a": 1, "b": 2})
    assert (cls(), cls([("a", 1)]), cls(a=1)) == ({}, {"a": 1}, {"a": 1})
    assert cls(made, b=5) == {"a": 1, "b": 5}
    with pytest.raises(TypeError):
        cls(1)
    with pytest.raises(TypeError):
        cls({}, {})


NUMBERS = (UByte, UShort, UInt, ULong, Byte, Short, Int, Timestamp)
PUBLIC: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    *((cls, _arguments(cls)) for cls in CLASSES),
    *((cls, ({"a": 1},)) for cls in SECTION_MAPS),
    *((cls, (5,)) for cls in NUMBERS),
    *((cls, (5,)) for cls in (Float, Decimal32, Decimal64, Decimal128)),
    *((cls, ("s",)) for cls in (Symbol, Char)),
    *((Described, (1, 2)), (Array, ("int", [1])), (AmqpMap, ())),
)


@pytest.mark.parametrize("cls, args", PUBLIC, ids=lambda value: getattr(value, "__name__", ""))
def test_a_patched_init_is_called(
    cls: Any, args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the build, and for a subclass that has no ``__init__`` of its own."""
    subclass = type("Subclass", (cls,), {})
    calls: list[type] = []
    before = cls.__init__

    def traced(self: Any, *args: Any, **keywords: Any) -> None:
        calls.append(type(self))
        if before is not object.__init__:
            before(self, *args, **keywords)

    monkeypatch.setattr(cls, "__init__", traced)
    made = cls(*args)
    subclass(*args)

    assert calls == [cls, subclass]
    assert type(made) is cls


def test_subclasses_use_their_own_init() -> None:
    class Louder(Header):
        def __init__(self, *args: Any, **keywords: Any) -> None:
            super().__init__(*args, **keywords)
            self.priority = 9

    class Even(UInt):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            if number % 2:
                raise ValueError("odd")

    @attrs.define
    class Named(Message):
        __slots__ = ()

    assert Louder(durable=True) == Louder(durable=True, priority=3)
    assert (Louder(durable=True).durable, Louder().priority) == (True, 9)
    assert Even(4) == 4
    with pytest.raises(ValueError, match="odd"):
        Even(3)
    assert type(Named.decode(Message("x").encode())) is Named


def test_subclass_setattr_is_called() -> None:
    class Watched(Message):
        seen: tuple[str, ...] = ()

        def __setattr__(self, name: str, value: Any) -> None:
            if name != "seen":
                object.__setattr__(self, "seen", (*self.seen, name))
            object.__setattr__(self, name, value)

    assert "body" in Watched.decode(Message("x").encode()).seen


@given(message=messages())
def test_objects_created_in_c_can_be_copied_and_pickled(message: Message) -> None:
    header = Header(durable=True, ttl=5)
    for made in (message, header, Timestamp(5), Int(7), UByte(3), ULong(2), Symbol("s")):
        assert copy.copy(made) == made
        assert copy.deepcopy(made) == made
        assert pickle.loads(pickle.dumps(made)) == made


def test_deleted_attribute_raises_when_encoding() -> None:
    header = Header(durable=True)
    del header.ttl

    with pytest.raises(AttributeError):
        Message(header=header).encode()


# AttributeSlots are read and set where they lie, while a class is as attrs made it.


def test_patched_setattr_is_called_when_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = Message("x", header=Header(ttl=5)).encode()
    seen: list[tuple[str, Any]] = []

    def watched(self: Any, name: str, value: Any) -> None:
        seen.append((name, value))
        object.__setattr__(self, name, value)

    assert Message.decode(encoded).header == Header(ttl=5)
    monkeypatch.setattr(Header, "__setattr__", watched)
    assert Message.decode(encoded).header == Header(ttl=5)

    assert ("ttl", 5) in seen
    monkeypatch.undo()
    seen.clear()
    assert Message.decode(encoded).header == Header(ttl=5)
    assert [] == seen


def test_a_patched_attribute_is_read_when_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message("x", header=Header(ttl=5))
    before = message.encode()

    with monkeypatch.context() as patch:
        patch.setattr(Header, "ttl", property(lambda _: 7))
        patched = message.encode()

    assert Message("x", header=Header(ttl=7)).encode() == patched
    assert before == message.encode()


# Entries of maps, which C passes over where they are.


def test_mapping_subclass_is_encoded_by_its_own_iterator() -> None:
    class Upper(ApplicationProperties):
        def __iter__(self) -> Any:
            return iter(self.keys())

        def keys(self) -> Any:
            return list(map(str.upper, dict.keys(self)))

        def __getitem__(self, key: str) -> Any:
            return super().__getitem__(key.lower())

    message = Message("x")
    message.application_properties = Upper(a=1, b=2)

    assert Message("x", application_properties={"A": 1, "B": 2}).encode() == message.encode()
