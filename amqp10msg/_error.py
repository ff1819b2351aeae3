"""The error type of Part 2, 2.8.14, which rejected outcomes and delivery annotations carry."""

from __future__ import annotations

import attrs

from amqp10msg.composite import composite
from amqp10msg.primitives import fields, string, symbol

__all__ = ["Error"]


@composite("amqp:error:list", 0x1D, provides=("error",))
@attrs.define
class Error:
    """Details of an error (Part 2, 2.8.14).

    Attributes:
        condition: what kind of error, such as ``amqp:not-found``; ASCII.
        description: a text for people.
        info: more about the error, by symbol.
    """

    condition: symbol
    description: string | None = None
    info: fields | None = None
