"""Classes whose calls are parsed in C where the kernel is compiled: as if Python parsed them."""

from __future__ import annotations

import inspect
import uuid
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Char,
    Data,
    Described,
    EncodeError,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    encode_value,
)
from amqp10msg.basic import BasicMessage, BasicProperties

CLASSES = (Header, Properties, Data, AmqpSequence, AmqpValue, BasicProperties)
by_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def held(made: Any) -> list[Any]:
    return [getattr(made, field.name) for field in attrs.fields(type(made))]


def defaults(cls: Any) -> list[Any]:
    return [
        [] if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]
        for field in attrs.fields(cls)
    ]


NUMBERS = {"absolute_expiry_time", "creation_time", "group_sequence"}


def fitting(cls: Any, name: str, number: int) -> Any:
    """A value that a class takes, which tells its number."""
    if cls is Header:
        return bool(number % 2) if name in {"durable", "first_acquirer"} else number
    if name == "user_id" and cls is Properties:
        return str(number).encode()
    if name == "expiration" or (cls is Properties and name not in NUMBERS):
        return str(number)
    return number


@by_class
@given(data=st.data())
def test_positional_and_keyword_arguments(cls: Any, data: st.DataObject) -> None:
    names = [field.name for field in attrs.fields(cls)]
    by_place = data.draw(st.integers(0, len(names)))
    by_name = data.draw(st.lists(st.sampled_from(names), unique=True))
    by_name = [name for name in by_name if name not in names[:by_place]]
    values = data.draw(st.lists(st.integers(), min_size=len(names), max_size=len(names)))
    known: dict[str, Any] = {
        name: fitting(cls, name, number) for name, number in zip(names, values, strict=True)
    }
    arguments = [known[name] for name in names[:by_place]]

    made = cls(*arguments, **{name: known[name] for name in by_name})

    expected = dict(zip(names, defaults(cls), strict=True))
    expected |= {name: known[name] for name in (*names[:by_place], *by_name)}
    assert list(expected.values()) == held(made)
    # Names that are not the interned texts of the declaration.
    other = cls(*arguments, **{name.encode().decode(): known[name] for name in by_name})
    assert list(expected.values()) == held(other)
    # A second call begins anew.
    made.__init__()
    assert defaults(cls) == held(made)


@by_class
def test_invalid_arguments_are_refused(cls: Any) -> None:
    first = attrs.fields(cls)[0].name
    one = fitting(cls, first, 1)
    made = cls(one)
    before = held(made)

    for arguments, keywords in (
        ([one] * (len(before) + 1), {}),
        ([], {"no_such_thing": 1}),
        ([one], {first: one}),
    ):
        with pytest.raises(TypeError, match=rf"{cls.__name__}.__init__\(\)"):
            cls(*arguments, **keywords)
        with pytest.raises(TypeError):
            made.__init__(*arguments, **keywords)
        assert before == held(made)


@pytest.mark.parametrize(
    "cls", [*CLASSES, Message, BasicMessage], ids=lambda cls: str(cls.__name__)
)
def test_signature_matches_the_declaration(cls: Any) -> None:
    class Own(cls):  # type: ignore[misc]
        __slots__ = ()

        def __init__(self, other: int) -> None:
            super().__init__()
            assert other

    given_ = inspect.signature(cls).parameters
    names = {field.name for field in attrs.fields(cls)}
    if cls is Message:
        names.add("fields")  # in place of the header and the properties

    assert names == set(given_)
    for field in attrs.fields(cls):
        if field.default is not attrs.NOTHING and not isinstance(
            field.default,
            attrs.Factory,  # type: ignore[arg-type]
        ):
            assert field.default == given_[field.name].default
    assert ["other"] == list(inspect.signature(Own).parameters)
    assert type(Own(1)) is Own


def test_arguments_are_converted_or_refused() -> None:
    entries = {"a": 1}
    made = Message(b"x", application_properties=entries, footer=entries)

    assert Data(b"x") == made.body
    assert "ApplicationProperties" == type(made.application_properties).__name__
    assert "Footer" == type(made.footer).__name__
    with pytest.raises(TypeError, match="encode it"):
        BasicMessage(BasicProperties(), "text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="BasicProperties"):
        BasicMessage({}, b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="milliseconds"):
        BasicProperties(expiration=5000)  # type: ignore[arg-type]
    assert BasicMessage().properties is not BasicMessage().properties
    assert AmqpSequence().values is not AmqpSequence().values


@by_class
def test_a_patched_init_is_called(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []

    def other(self: Any, *arguments: Any, **keywords: Any) -> None:
        seen.append((type(self), arguments, keywords))

    monkeypatch.setattr(cls, "__init__", other)
    cls(1, two=2)
    monkeypatch.undo()

    assert [(cls, (1,), {"two": 2})] == seen
    assert defaults(cls) == held(cls())


@by_class
def test_subclass_with_additional_attributes(cls: Any) -> None:
    first = attrs.fields(cls)[0].name

    class Own(cls):  # type: ignore[misc]
        def __init__(self, *, own: int, **keywords: Any) -> None:
            super().__init__(**keywords)
            self.own = own

    given_ = {first: fitting(cls, first, 1), "own": 7}
    made = Own(**given_)

    assert {first: fitting(cls, first, 1), "own": 7} == given_
    assert (7, fitting(cls, first, 1)) == (made.own, getattr(made, first))


#: By field: a value that is written at once, and ones that the writer looks at.
FIELDS: dict[str, tuple[Any, ...]] = {
    "message_id": ("m", "ü", "x" * 300, uuid.UUID(int=5), 7, 2**63, b"id", ULong(0)),
    "user_id": (b"u", b"", b"x" * 300, bytearray(b"b")),
    "to": ("t", "", "é" * 200),
    "subject": ("s", "x" * 255, "x" * 256),
    "correlation_id": ("c", 0, uuid.UUID(int=9)),
    "content_type": ("text/plain", Symbol("a/b"), "x" * 300),
    "creation_time": (0, -1, 2**63 - 1, Timestamp(5)),
    "group_id": ("g", "ß"),
    "group_sequence": (0, 255, 256, 2**32 - 1, UInt(0)),
}


@given(
    values=st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in FIELDS.items()})
)
def test_usual_and_unusual_fields_together(values: dict[str, Any]) -> None:
    names = [field.name for field in attrs.fields(Properties)]
    expected = []
    for name in names:
        value = values.get(name)
        if name in {"message_id", "correlation_id"} and type(value) is int:
            value = ULong(value)
        elif name == "content_type" and value is not None:
            value = Symbol(value)
        elif name == "creation_time" and value is not None:
            value = Timestamp(value)
        elif name == "group_sequence" and value is not None:
            value = UInt(value)
        expected.append(value)
    while expected and expected[-1] is None:
        expected.pop()

    made = encode_value(Properties(**values))

    assert encode_value(Described(ULong(0x73), expected)) == made


@given(
    values=st.dictionaries(
        st.sampled_from(["a", "ü", "k" * 255, "k" * 256]),
        st.sampled_from(
            [
                *("s", "ü", "x" * 256, 5, -(2**63), True, False, None, 1.5, b"b", b"b" * 256),
                *(Int(5), UInt(0), ULong(2**63), Timestamp(-1), Symbol("s"), UByte(255)),
                *(uuid.UUID(int=1), Float(1.5), Char("c")),
            ]
        ),
    )
)
def test_usual_and_unusual_entries_together(values: dict[str, Any]) -> None:
    made = encode_value(ApplicationProperties(values))

    assert encode_value(Described(ULong(0x74), values)) == made


@pytest.mark.parametrize(
    "fields", [{"group_sequence": 2**32}, {"group_sequence": -1}, {"creation_time": 2**63}]
)
def test_out_of_range_field_next_to_usual_fields(fields: dict[str, Any]) -> None:
    (name,) = fields

    with pytest.raises(EncodeError) as caught:
        encode_value(Properties(message_id="m", **fields))

    assert f"properties.{name.replace('_', '-')}" == caught.value.path
