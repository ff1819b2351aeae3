"""The types of the rows, and calls that several tables need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from unittest import mock

import attrs

from amqp10msg import pages
from amqp10msg.delivery import Received

Call: TypeAlias = Callable[..., Any]


@attrs.frozen
class Elsewhere:
    """An exception that needs more than a cheap call to be raised.

    Attributes:
        reason: why the exception has no call here.
        test: the test that raises the exception, as ``path::name``.
    """

    reason: str
    test: str


Row: TypeAlias = Call | Sequence[Call] | Elsewhere
Rows: TypeAlias = Mapping[str, Mapping[str, Row]]


def without(module: str, call: Callable[[], Any]) -> Call:
    """Return a call that runs `call` as if the package `module` was not installed."""

    def run() -> None:
        pages._environment.cache_clear()  # it keeps what it made of Jinja2
        hidden = {name: None for name in sys.modules if f"{name}.".startswith(f"{module}.")}
        with mock.patch.dict(sys.modules, {**hidden, module: None}):
            call()

    return run


def consume(call: Callable[[], Any]) -> Call:
    """Return a call that reads the iterator which `call` returns to its end."""

    def run() -> None:
        for _ in call():
            pass

    return run


def received(section_number: Any) -> Received:
    """Return a state whose constructor did not check the section number."""
    state = Received(0, 0)
    state.section_number = section_number
    return state
