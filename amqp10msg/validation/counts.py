"""Counts of the rules that messages break."""

from __future__ import annotations

import attrs

#: Characters of a text that are kept as an example.
MAX_TEXT = 300


@attrs.define
class RuleCount:
    """How often one rule is broken, or messages fail for one reason.

    Attributes:
        clause: where the specification says it; empty where it says nothing.
        messages: in how many messages.
        first: where the first of them came from; empty where that is not known.
        severity: ``error`` or ``warning``.
        violations: in how many places; 0 where only messages are counted.
        text: what is wrong with the first of them, at most `MAX_TEXT` characters.
    """

    clause: str
    messages: int = 0
    first: str = ""
    severity: str = "error"
    violations: int = 0
    text: str = ""
