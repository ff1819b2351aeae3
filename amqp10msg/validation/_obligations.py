"""What Part 3, 3.2 demands and no encoded message shows: what the rules leave out, and why."""

from __future__ import annotations

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


_TWO_MESSAGES = "It shows only in the messages before and after the intermediary."
_RECEIVER = "It is up to the receiver."
_INTERMEDIARY = "It is up to the intermediary."
_TARGET = "It is up to the target."
_SENDER = "What the sender knew of the data is not in the message."

#: Every MUST, MUST NOT, SHOULD and SHOULD NOT of Part 3, 3.2 that has no rule.
NOT_VISIBLE: tuple[Obligation, ...] = (
    Obligation(
        "Part 3, 3.2",
        "If a section of the bare message is omitted, one MUST NOT be inserted by an intermediary.",
        _TWO_MESSAGES,
    ),
    Obligation(
        "Part 3, 3.2",
        "The exact encoding of sections of the bare message MUST NOT be modified.",
        _TWO_MESSAGES,
    ),
    Obligation(
        "Part 3, 3.2.1",
        "If the header section is omitted the receiver MUST assume the appropriate "
        "default values (or the meaning implied by no value being set) for the fields "
        "within the header unless other target or node specific defaults have otherwise "
        "been set.",
        _RECEIVER,
    ),
    Obligation(
        "Part 3, 3.2.1",
        "Durable messages MUST NOT be lost even if an intermediary is unexpectedly "
        "terminated and restarted.",
        _INTERMEDIARY,
    ),
    Obligation(
        "Part 3, 3.2.1",
        "A target which is not capable of fulfilling this guarantee MUST NOT accept "
        "messages where the durable header is set to true",
        _TARGET,
    ),
    Obligation(
        "Part 3, 3.2.1",
        "An AMQP intermediary implementing distinct priority levels MUST do so in the "
        "following manner",
        _INTERMEDIARY,
    ),
    Obligation(
        "Part 3, 3.2.1",
        "priorities 0 to (5 - ceiling(n/2)) MUST be treated equivalently and MUST be the "
        "lowest effective priority.",
        _INTERMEDIARY,
    ),
    Obligation(
        "Part 3, 3.2.1",
        "The priorities (4 + floor(n/2)) and above MUST be treated equivalently and MUST "
        "be the highest effective priority.",
        _INTERMEDIARY,
    ),
    Obligation(
        "Part 3, 3.2.1",
        "The priorities (5 - ceiling(n/2)) to (4 + floor(n/2)) inclusive MUST be treated "
        "as distinct priorities.",
        _INTERMEDIARY,
    ),
    Obligation(
        "Part 3, 3.2.1",
        "priorities 0 to (n - 1) MUST be distinct, and priorities n and above MUST be "
        "equivalent to priority (n - 1).",
        _INTERMEDIARY,
    ),
    Obligation(
        "Part 3, 3.2.3",
        "Intermediaries MUST propagate the annotations unless the annotations are "
        "explicitly augmented or modified (e.g., by the use of the modified outcome).",
        _TWO_MESSAGES,
    ),
    Obligation(
        "Part 3, 3.2.4",
        "The properties section is part of the bare message; therefore, if retransmitted "
        "by an intermediary, it MUST remain unaltered.",
        _TWO_MESSAGES,
    ),
    Obligation(
        "Part 3, 3.2.4",
        "Where the section is known to be truly opaque binary data, the content-type "
        "SHOULD be set to application/octet-stream.",
        _SENDER,
    ),
    Obligation(
        "Part 3, 3.2.10",
        'Keys beginning with "x-opt-" MUST be ignored if not understood.',
        _RECEIVER,
    ),
    Obligation(
        "Part 3, 3.2.10",
        "On receiving an annotation key which is not understood, and which does not begin "
        'with "x-opt", the receiving AMQP container MUST detach the link with a not-'
        "implemented error.",
        _RECEIVER,
    ),
)
