"""This library, tested in a separate process like any other implementation."""

from __future__ import annotations

from amqp10msg.interop import corpus


class Driver(corpus.Amqp10msg):
    """Decodes, encodes, validates and answers the questions of cases with this library."""

    refusals = (corpus.RefusedError,)
