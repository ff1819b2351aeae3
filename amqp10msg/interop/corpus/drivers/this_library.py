"""This library, tested in a separate process like any other implementation."""

from __future__ import annotations

from amqp10msg.interop import corpus


class Driver(corpus.Amqp10msg):
    """Runs all steps of cases with this library: decode, encode, validate and answer."""

    refusals = (corpus.RefusedError,)
