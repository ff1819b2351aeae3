"""Checks of sources and targets against the rules."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from typing import Any

from amqp10msg.composite import encode_composite, offset_of_field, rows
from amqp10msg.delivery._terminus_checks import View
from amqp10msg.delivery.codec import decode
from amqp10msg.delivery.termini import Source, Target
from amqp10msg.delivery.terminus_rules import BOTH_CLAUSES, TERMINUS_RULES
from amqp10msg.delivery.transactions import Coordinator, Declare
from amqp10msg.validation import Violation
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import FORMAT_CODES

_ROLES = ("sender", "receiver")
_OCTETS = (bytes, bytearray, memoryview)
_MOST_PER_RULE = 100


def check_source(
    source: Source | bytes | bytearray | memoryview,
    *,
    role: str | None = None,
    link_name: str | None = None,
    container_id: str | None = None,
    modes: Collection[str] = (),
) -> list[Violation]:
    """Check a source against the rules of Part 3, 3.5.3, 3.5.8 and 3.5.9.

    A minimal source, with all fields unset, breaks none of them.

    Args:
        source: a `Source`, or an encoded one.
        role: ``sender`` or ``receiver``, the end of the link whose attach frame carries it; None
            skips the rules that depend on it.
        link_name: the name of the link, which a generated address should include.
        container_id: the peer's container-id, which it should include, too.
        modes: the distribution modes that the sender's node supports.

    Returns:
        The violations in the order of their offsets in the encoded source, at most 100 per rule.

    Raises:
        DecodeError: the bytes do not parse.
        TypeError: it is not a source.
        ValueError: the role is wrong.
    """
    return _checked(
        source,
        {Source: "source"},
        partial(
            View, role=role, link_name=link_name, container_id=container_id, modes=tuple(modes)
        ),
    )


def check_target(
    target: Target | Coordinator | bytes | bytearray | memoryview,
    *,
    role: str | None = None,
    link_name: str | None = None,
    container_id: str | None = None,
) -> list[Violation]:
    """Check a target against Part 3, 3.5.4 and 3.5.9, a coordinator against Part 4, 4.5.7.

    A minimal target, with all fields unset, breaks none of them.

    Args:
        target: a `Target` or `Coordinator`, or an encoded one.
        role: ``sender`` or ``receiver``, the end of the link whose attach frame carries it; None
            skips the rules that depend on it.
        link_name: the name of the link, which a generated address should include.
        container_id: the peer's container-id, which it should include, too.

    Returns:
        The violations in the order of their offsets in the encoded target, at most 100 per rule.

    Raises:
        DecodeError: the bytes do not parse.
        TypeError: it is not a target.
        ValueError: the role is wrong.
    """
    return _checked(
        target,
        {Target: "target", Coordinator: "coordinator"},
        partial(View, role=role, link_name=link_name, container_id=container_id),
    )


def check_declare(
    declare: Declare | bytes | bytearray | memoryview, coordinator: Coordinator | None = None
) -> list[Violation]:
    """Check the body of a message to a coordinator against the rule of Part 4, 4.5.2.

    Args:
        declare: a `Declare`, or an encoded one.
        coordinator: the target of the link, as the coordinator's end sent it; None skips the rules
            that depend on its capabilities.

    Raises:
        DecodeError: the bytes do not parse.
        TypeError: it is not a declare.
    """
    return _checked(
        declare, {Declare: "declare"}, partial(View, role=None, coordinator=coordinator)
    )


def _checked(given: Any, names: dict[type, str], view_of: Callable[..., View]) -> list[Violation]:
    octets = bytes(given) if isinstance(given, _OCTETS) else None
    value = given if octets is None else decode(octets)
    name = names.get(type(value))
    if name is None:
        wanted = " or ".join(cls.__name__ for cls in names)
        raise TypeError(f"expected a {wanted}, or an encoded one, not a {type(value).__name__}")
    view = view_of(value, name)
    if view.role is not None and view.role not in _ROLES:
        raise ValueError(f"role is sender or receiver, not {view.role!r}")
    violations: list[Violation] = []
    try:
        octets = octets or encode_composite(value)
    except EncodeError as error:
        octets = b""
        if error.path != "source.default-outcome":  # it has a rule of its own
            rule = TERMINUS_RULES["not-encodable"]
            violations.append(
                Violation(rule.id, rule.clause, rule.severity, error.path, 0, error.reason)
            )
    places = {row.wire_name: index for index, row in enumerate(rows(type(value)))}
    for rule in TERMINUS_RULES.values():
        if rule.check is None or name not in rule.subject:
            continue
        clause = rule.clause
        if clause == BOTH_CLAUSES:
            clause = "Part 3, 3.5.3" if name == "source" else "Part 3, 3.5.4"
        violations += (
            Violation(
                rule.id,
                clause,
                rule.severity,
                f"{name}.{found.field}{found.rest}",
                _offset(octets, places[found.field]),
                found.text,
            )
            for found in islice(rule.check(view), _MOST_PER_RULE)
        )
    violations.sort(key=lambda violation: violation.offset)
    return violations


def _offset(octets: bytes, index: int) -> int:
    """Return the offset of a field; 0 if it is not encoded."""
    if not octets:
        return 0
    start = kernel.skip_value(octets, 1)
    width = FORMAT_CODES[octets[start]].width  # 0 of an empty list
    count = int.from_bytes(octets[start + 1 + width : start + 1 + 2 * width], "big")
    return offset_of_field(octets, start, index) if index < count else 0
