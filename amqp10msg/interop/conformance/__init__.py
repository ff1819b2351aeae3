"""Test any implementation of AMQP with the corpus, in processes that may die, and report it.

    from amqp10msg.interop import conformance, corpus

    peer = conformance.find_peer("this-library")
    results = conformance.run(peer, corpus.load(), jobs=2)
    print(conformance.summary([results]))

An implementation is a `Peer`: a driver that speaks the line protocol of `corpus.Program`, and the
environment that it needs. Crashes, hangs and memory that grows without
bound are results like any other, and the run goes on.
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
    DEATHS,
    FACETS,
    OUTCOMES,
    SOUND,
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
    "DEATHS",
    "FACETS",
    "OUTCOMES",
    "PEERS",
    "SOUND",
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
