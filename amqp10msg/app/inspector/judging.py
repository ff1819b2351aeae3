"""One message or run of values: what it is, what it says, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg import notation
from amqp10msg.app.inspector.reading import Item
from amqp10msg.composite import composite_of
from amqp10msg.files.recognition import SECTION, advice, decode_whole
from amqp10msg.sections import CODES
from amqp10msg.validation import PROFILES, Violation, validate
from amqp10msg.wire.errors import AmqpError, DecodeError
from amqp10msg.wire.kernel import decode_value, decode_values, skip_value
from amqp10msg.wire.limits import DEFAULT_LIMITS
from amqp10msg.wire.primitives import Symbol, ULong

#: The rule under which an input counts that holds no bytes to judge.
UNREADABLE = "unreadable-input"
# What a composite is, by the first of these archetypes that it provides.
_KINDS = {
    "outcome": "an outcome",
    "delivery-state": "a delivery state",
    "lifetime-policy": "a lifetime policy",
}
# Errors of bytes that are something else, which is not judged here.
_OTHERS = frozenset(("not-a-composite", "unknown-composite", "not-a-delivery-state"))


class Judged:
    """One message or run of values, decoded and checked against the rules.

    With `as_values`, values are read also where the bytes begin as a message. The `role` is the end
    of the link that sends a source or target.

    Attributes:
        decoded: the message, or the values.
        fault: why it does not parse; empty where it does.
        what: the delivery state or terminus that it is; empty where it is something else.
    """

    def __init__(
        self,
        item: Item,
        profile: str = "oasis",
        *,
        as_values: bool = False,
        max_fields: int = 10_000,
        role: str | None = None,
    ) -> None:
        self.item = item
        self.max_fields = max_fields
        self.is_message = not as_values and is_message(item.data)
        self.violations = validate(item.data, PROFILES[profile]) if self.is_message else []
        self.decoded: list[Any] = []
        self.fault = ""
        try:
            self.decoded = read(item.data, as_values=not self.is_message)
        except AmqpError as error:
            self.fault = item.explained(str(error))
        self.what = ""
        if len(self.decoded) == 1 and not self.is_message and not as_values and not self.fault:
            self.what, self.violations = _judge_state(item.data, role)

    @property
    def is_broken(self) -> bool:
        """Whether it does not parse, or has a violation that is an error."""
        return bool(self.fault) or any(found.severity == "error" for found in self.violations)

    def tree(self) -> notation.Tree:
        """Return the map of every byte."""
        return notation.parse_tree(
            self.item.data, violations=self.violations, limit=self.max_fields
        )


def judge(item: Item, profile: str) -> list[Violation]:
    """Return the violations of an item; one where it could not be read at all."""
    if item.fault:
        return [Violation(UNREADABLE, "", "error", "", 0, item.fault)]
    found = validate(item.data, PROFILES[profile])
    if found and not SECTION.match(item.data) and (hint := advice(item.data, "raw")):
        found[0] = attrs.evolve(found[0], text=f"{found[0].text}; {hint}")
    return found


def is_message(data: bytes) -> bool:
    """Return whether bytes are a message: they begin with a section's descriptor, or are empty.

    A descriptor is a ulong or a symbol; an equal number of another type is none. What is too
    damaged to tell counts as a message.
    """
    if data[:1] not in (b"", b"\0"):
        return False
    try:
        descriptor = decode_value(data[1 : skip_value(data, 1)])
    except DecodeError:
        return True
    return isinstance(descriptor, (ULong, Symbol)) and descriptor in CODES


def read(data: bytes, *, as_values: bool = False) -> list[Any]:
    """Decode a message, or a sequence of values.

    A message that breaks rules is read leniently.

    Raises:
        DecodeError: the bytes do not parse.
    """
    if not as_values and is_message(data):
        return [decode_whole(data)]
    return list(decode_values(data, limits=DEFAULT_LIMITS))


def _judge_state(data: bytes, role: str | None) -> tuple[str, list[Violation]]:
    """Name a delivery state, terminus or part of one, and judge it; nothing is said of others."""
    from amqp10msg import delivery  # noqa: PLC0415  (most bytes are a message)

    try:
        state = delivery.decode(data)
    except DecodeError as error:
        if error.rule in _OTHERS:
            return "", []
        # The declaration of a composite is what Part 1, 1.4 is about.
        fault = Violation(
            error.rule, "Part 1, 1.4", "error", error.path, error.offset, error.reason
        )
        return error.path.partition(".")[0] or "a composite", [fault]
    violations: list[Violation] = []
    if isinstance(state, delivery.Source):
        violations = delivery.check_source(data, role=role)
    elif isinstance(state, (delivery.Target, delivery.Coordinator)):
        violations = delivery.check_target(data, role=role)
    entry = composite_of(type(state))
    kinds = [kind for name, kind in _KINDS.items() if name in entry.provides]
    return ", ".join([entry.name, *kinds[:1]]), violations
