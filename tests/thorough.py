"""The thorough judgement of a message, which the quick ways are held to."""

from __future__ import annotations

from typing import Any
from unittest import mock

from amqp10msg import Violation, validate, validation


def judged_thoroughly(message: Any, profile: Any = "oasis", limits: Any = None) -> list[Violation]:
    """Validate as if any rule might be broken, whether the message decodes or not."""
    with (
        mock.patch.object(validation, "suspected", return_value=None),
        mock.patch.object(validation, "narrow"),
    ):
        return validate(message, profile, limits=limits)
