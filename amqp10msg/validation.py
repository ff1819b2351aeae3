"""The rules of Part 3, 3.2 that can be seen in an encoded message, one rule per clause."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["Violation", "validate"]


@attrs.frozen
class Violation:
    """One rule that a message breaks.

    Attributes:
        rule: the rule's short stable name.
        clause: where the specification says it, such as ``Part 3, 3.2.5``.
        severity: ``error`` for MUST and MUST NOT, ``warning`` for SHOULD and SHOULD NOT.
        path: where in the message, such as ``properties.content-encoding``.
        offset: where in the encoded message, in bytes.
        text: what is wrong, and what would be right.
    """

    rule: str
    clause: str
    severity: str
    path: str
    offset: int
    text: str


def validate(message: Any, profile: str = "oasis") -> list[Violation]:
    return []
