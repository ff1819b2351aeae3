"""What the values of Part 1 show of themselves, however deep they nest."""

from __future__ import annotations

import builtins
import datetime
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

import amqp10msg
from amqp10msg import AmqpMap, Array, Described, encode_value
from amqp10msg.testing import values
from amqp10msg.wire.primitives import identical

NAMES = {**vars(builtins), "UUID": uuid.UUID, "datetime": datetime}
NESTED: dict[str, Callable[[Any], Any]] = {
    "map": lambda inner: AmqpMap([(1, inner)]),
    "key": lambda inner: AmqpMap([(inner, 1)]),
    "array": lambda inner: Array("list", [[inner]]),
    "descriptor of an array": lambda inner: Array("int", [], descriptors=[inner]),
    "described": lambda inner: Described(1, [inner]),
    "descriptor": lambda inner: Described({1: inner}, 1),
}


@given(values())
def test_repr_evaluates_to_the_value(value: Any) -> None:
    public = {name: getattr(amqp10msg, name) for name in dir(amqp10msg) if name[0].isupper()}
    names = {**NAMES, **public, "nan": float("nan"), "inf": float("inf")}
    again = eval(repr(value), names)

    if "nan" not in repr(value).lower():
        assert identical(value, again)
    assert repr(value) == repr(again)


@pytest.mark.parametrize("name", NESTED)
def test_a_value_nested_deep_has_a_repr(name: str) -> None:
    value: Any = "innermost"
    for _ in range(10_000):
        value = NESTED[name](value)

    assert 1 == repr(value).count("innermost")


def test_repr_of_recursive_and_repeated_values() -> None:
    endless: list[Any] = [1]
    endless.append(AmqpMap([("k", endless)]))
    assert "[1, AmqpMap([('k', ...)])]" in repr(Described(0, endless))

    twice = AmqpMap([(1, 2)])
    assert f"AmqpMap([({twice}, {twice})])" == repr(AmqpMap([(twice, twice)]))
    assert b"" != encode_value(twice)
