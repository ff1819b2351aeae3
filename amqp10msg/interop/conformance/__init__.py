"""Test implementations of AMQP with the corpus, in separate processes, and report the results.

    from amqp10msg.interop import conformance, corpus

    peer = conformance.find_peer("this-library")
    results = conformance.run(peer, corpus.load(), jobs=2)
    print(conformance.summary([results]))

An implementation is a `Peer`: a driver, which implements the line protocol of `corpus.Program`, and
the environment that it needs. A crash, a hang or unbounded memory is recorded as the result of the
case, and the run continues.
"""

from amqp10msg.interop.conformance.judging import judge
from amqp10msg.interop.conformance.peers import PEERS, Launch, Peer, PeerError, find_peer, prepare
from amqp10msg.interop.conformance.reports import (
    Change,
    Finding,
    difference,
    findings,
    junit,
    markdown,
    scoreboard,
    summary,
)
from amqp10msg.interop.conformance.results import (
    BROKER_FACETS,
    DEATH_OUTCOMES,
    FACETS,
    OUTCOMES,
    SOUND_OUTCOMES,
    PeerResults,
    Result,
    facets_of,
    load,
    percent,
    save,
)
from amqp10msg.interop.conformance.running import run

__all__ = [
    "BROKER_FACETS",
    "DEATH_OUTCOMES",
    "FACETS",
    "OUTCOMES",
    "PEERS",
    "SOUND_OUTCOMES",
    "Change",
    "Finding",
    "Launch",
    "Peer",
    "PeerError",
    "PeerResults",
    "Result",
    "difference",
    "facets_of",
    "find_peer",
    "findings",
    "judge",
    "junit",
    "load",
    "markdown",
    "percent",
    "prepare",
    "run",
    "save",
    "scoreboard",
    "summary",
]
