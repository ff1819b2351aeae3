"""What Part 3, 3.2 demands and no encoded message shows: what the rules leave out, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs


@attrs.frozen
class Obligation:
    """A sentence of Part 3, 3.2 that no rule holds a message to.

    Attributes:
        clause: the clause of the specification.
        quote: the words of the specification.
        reason: why a message does not show it.
    """

    clause: str
    quote: str
    reason: str


_REASONS = {
    "two messages": "It shows only in the messages before and after the intermediary.",
    "receiver": "It is up to the receiver.",
    "intermediary": "It is up to the intermediary.",
    "target": "It is up to the target.",
    "sender": "What the sender knew of the data is not in the message.",
}
# The clause and the reason, then the words of the specification.
_TABLE = """
Part 3, 3.2 | two messages
    If a section of the bare message is omitted, one MUST NOT be inserted by an intermediary.
Part 3, 3.2 | two messages
    The exact encoding of sections of the bare message MUST NOT be modified.
Part 3, 3.2.1 | receiver
    If the header section is omitted the receiver MUST assume the appropriate default values (or
    the meaning implied by no value being set) for the fields within the header unless other target
    or node specific defaults have otherwise been set.
Part 3, 3.2.1 | intermediary
    Durable messages MUST NOT be lost even if an intermediary is unexpectedly terminated and
    restarted.
Part 3, 3.2.1 | target
    A target which is not capable of fulfilling this guarantee MUST NOT accept messages where the
    durable header is set to true
Part 3, 3.2.1 | intermediary
    An AMQP intermediary implementing distinct priority levels MUST do so in the following manner
Part 3, 3.2.1 | intermediary
    priorities 0 to (5 - ceiling(n/2)) MUST be treated equivalently and MUST be the lowest
    effective priority.
Part 3, 3.2.1 | intermediary
    The priorities (4 + floor(n/2)) and above MUST be treated equivalently and MUST be the highest
    effective priority.
Part 3, 3.2.1 | intermediary
    The priorities (5 - ceiling(n/2)) to (4 + floor(n/2)) inclusive MUST be treated as distinct
    priorities.
Part 3, 3.2.1 | intermediary
    priorities 0 to (n - 1) MUST be distinct, and priorities n and above MUST be equivalent to
    priority (n - 1).
Part 3, 3.2.3 | two messages
    Intermediaries MUST propagate the annotations unless the annotations are explicitly augmented
    or modified (e.g., by the use of the modified outcome).
Part 3, 3.2.4 | two messages
    The properties section is part of the bare message; therefore, if retransmitted by an
    intermediary, it MUST remain unaltered.
Part 3, 3.2.4 | sender
    Where the section is known to be truly opaque binary data, the content-type SHOULD be set to
    application/octet-stream.
Part 3, 3.2.10 | receiver
    Keys beginning with "x-opt-" MUST be ignored if not understood.
Part 3, 3.2.10 | receiver
    On receiving an annotation key which is not understood, and which does not begin with "x-opt",
    the receiving AMQP container MUST detach the link with a not-implemented error.
"""


def _obligations() -> Iterator[Obligation]:
    for row in re.findall(r"^\S.*(?:\n .*)+", _TABLE, re.MULTILINE):
        head, *lines = row.split("\n")
        clause, reason = head.split(" | ")
        yield Obligation(clause, " ".join(line[4:] for line in lines), _REASONS[reason])


#: Every MUST, MUST NOT, SHOULD and SHOULD NOT of Part 3, 3.2 that has no rule.
NOT_VISIBLE: tuple[Obligation, ...] = tuple(_obligations())
