"""The thorough judgement of a message, which the quick ways are held to."""

from __future__ import annotations

from typing import Any
from unittest import mock

from amqp10msg import Violation, validate, validation


def _nothing(*_: Any) -> None:
    """Stand in for what looks ahead; a Mock would take longer to make than all that is judged."""


def judged_thoroughly(message: Any, profile: Any = "oasis", limits: Any = None) -> list[Violation]:
    """Validate as if any rule might be broken, whether the message decodes or not."""
    with (
        mock.patch.object(validation, "suspected", _nothing),
        mock.patch.object(validation, "narrow", _nothing),
    ):
        return validate(message, profile, limits=limits)
