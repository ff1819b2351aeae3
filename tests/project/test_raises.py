"""Whether public functions raise the exceptions that their docstrings document."""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.documented_raises import ROWS
from tests.documented_raises.calls import Elsewhere, Row
from tests.public_api import documented_exceptions, public_callables

ROOT = Path(__file__).parents[2]


def exception_named(name: str, function: Callable[..., Any]) -> type[BaseException]:
    """Return the class that a docstring of `function` calls `name`."""
    module_name, _, class_name = name.rpartition(".")
    if module_name:
        cls: Any = getattr(pytest.importorskip(module_name), class_name)
    elif hasattr(builtins, name):
        cls = getattr(builtins, name)
    else:
        cls = next(
            (vars(m)[name] for m in modules_around(function) if name in vars(m)), None
        ) or the_only_class(name)
    assert issubclass(cls, BaseException)
    found: type[BaseException] = cls
    return found


def modules_around(function: Callable[..., Any]) -> Iterator[ModuleType]:
    """Yield the module of `function` and the packages that it is in, innermost first."""
    module_name = function.__module__
    while module_name:
        yield importlib.import_module(module_name)
        module_name = module_name.rpartition(".")[0]


def the_only_class(name: str) -> type[BaseException]:
    # A set, because a class with two bases is a subclass of Exception by both. Other tests may have
    # loaded a module again: of its two classes, the one that the module has now counts.
    classes: set[type[BaseException]] = {
        cls
        for cls in subclasses(Exception)
        if cls.__name__ == name and getattr(sys.modules[cls.__module__], name, None) is cls
    }
    [cls] = classes
    return cls


def subclasses(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    for subclass in cls.__subclasses__():
        if subclass.__module__.startswith("amqp10msg."):
            yield subclass
        yield from subclasses(subclass)


def calls_of(row: Row) -> Sequence[Callable[..., Any]]:
    if isinstance(row, Elsewhere):
        return []
    return [row] if callable(row) else row


CALLS = [
    pytest.param(function, exception, call, id=f"{function}-{exception}-{number}")
    for function, exceptions in ROWS.items()
    for exception, row in exceptions.items()
    for number, call in enumerate(calls_of(row))
]


@pytest.mark.parametrize("function, exception, call", CALLS)
def test_documented_exception(
    function: str, exception: str, call: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    public = public_callables()
    if function not in public:
        pytest.skip("the extra of the module is not installed")
    expected = exception_named(exception, public[function])
    fixtures = {
        name: request.getfixturevalue(name)
        for name, parameter in inspect.signature(call).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
    }

    with pytest.raises(expected) as caught:
        call(**fixtures)

    # A more specific exception needs its own entry. RecursionError is an accident everywhere.
    others = [
        exception_named(name, public[function]) for name in ROWS[function] if name != exception
    ]
    narrower = [cls for cls in others if issubclass(cls, expected)]
    assert not isinstance(caught.value, (*narrower, RecursionError))
    assert str(caught.value)


def test_every_documented_exception_has_a_call() -> None:
    documented = {
        (name, exception)
        for name, function in public_callables().items()
        for exception in documented_exceptions(function)
    }
    called = {(name, exception) for name in ROWS for exception in ROWS[name]}

    assert sorted(documented - called) == []
    assert sorted(pair for pair in called - documented if pair[0] in public_callables()) == []


def test_references_to_tests_name_existing_tests() -> None:
    rows = [row for exceptions in ROWS.values() for row in exceptions.values()]
    for row in rows:
        if isinstance(row, Elsewhere):
            path, _, name = row.test.partition("::")
            text = (ROOT / path).read_text("utf-8")
            assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), row.test
