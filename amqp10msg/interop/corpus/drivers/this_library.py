"""This library, in a process of its own like all others."""

from __future__ import annotations

from amqp10msg.interop import corpus


class Driver(corpus.Amqp10msg):
    """The functions of this library that the corpus asks for."""

    refusals = (corpus.RefusedError,)
