"""A corpus of test cases: bytes, the expected value or error, and the tested clause.

    from amqp10msg.interop import corpus

    report = corpus.run(corpus.load())
    print(report.text())

`load` without a path returns the corpus that comes with the library: cases written by hand from the
specification, and messages recorded from RabbitMQ, python-qpid-proton and rhea. `run` runs cases
against this library or any other `Implementation`.
"""

from amqp10msg.interop.corpus.agreement import TYPE_FAMILIES, Agreement, agreement, other_rules
from amqp10msg.interop.corpus.cases import (
    BASIC_KINDS,
    QUESTION_KINDS,
    Case,
    CorpusError,
    Fault,
    demo_messages,
    dump,
    load,
)
from amqp10msg.interop.corpus.implementations import (
    Amqp10msg,
    Implementation,
    Proton,
    RefusedError,
    UnsupportedError,
)
from amqp10msg.interop.corpus.programs import DiedError, Program
from amqp10msg.interop.corpus.runner import Report, Verdict, run

__all__ = [
    "BASIC_KINDS",
    "QUESTION_KINDS",
    "TYPE_FAMILIES",
    "Agreement",
    "Amqp10msg",
    "Case",
    "CorpusError",
    "DiedError",
    "Fault",
    "Implementation",
    "Program",
    "Proton",
    "RefusedError",
    "Report",
    "UnsupportedError",
    "Verdict",
    "agreement",
    "demo_messages",
    "dump",
    "load",
    "other_rules",
    "run",
]
