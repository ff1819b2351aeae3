"""Classes whose calls are parsed in C where the kernel is compiled: as if Python parsed them."""

from __future__ import annotations

import inspect
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import AmqpSequence, AmqpValue, Data, Header, Message, Properties
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
def test_arguments_by_place_and_by_name(cls: Any, data: st.DataObject) -> None:
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
def test_arguments_that_are_none(cls: Any) -> None:
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
def test_the_signature_is_that_of_the_declaration(cls: Any) -> None:
    class Own(cls):  # type: ignore[misc]
        __slots__ = ()

        def __init__(self, other: int) -> None:
            super().__init__()
            assert other

    given_ = inspect.signature(cls).parameters
    names = {field.name for field in attrs.fields(cls)}
    if cls is Message:
        names.add("unknown")  # what its errors are about

    assert names == set(given_)
    for field in attrs.fields(cls):
        if field.default is not attrs.NOTHING and not isinstance(
            field.default,
            attrs.Factory,  # type: ignore[arg-type]
        ):
            assert field.default == given_[field.name].default
    assert ["other"] == list(inspect.signature(Own).parameters)
    assert type(Own(1)) is Own


def test_what_is_to_be_converted_or_refused_is() -> None:
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
