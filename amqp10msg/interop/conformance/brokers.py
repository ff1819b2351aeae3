"""Test a live broker with the corpus: send messages through a queue and compare what arrives.

Part 3, 3.2: an intermediary may change the header, annotations and footer of a message, and must
not change the encoding of the bare message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from amqp10msg.interop.conformance.judging import (
    describe_difference,
    differences,
    is_open,
    normalize,
)
from amqp10msg.interop.conformance.peers import PeerError
from amqp10msg.interop.conformance.results import PeerResults, Result
from amqp10msg.interop.corpus import Amqp10msg, Case, RefusedError, agreement
from amqp10msg.message import Message
from amqp10msg.net.round_trips import QueueError, RoundTrip, round_trips
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import DecodeError

__all__ = ["VERDICTS", "is_broker_case", "run_broker"]

#: The verdicts on a message that was sent through a broker, with their meanings.
VERDICTS = {
    "identical": "the message comes back with the same bytes",
    "bare": "the bare message comes back byte for byte; header, annotations or footer differ",
    "re-encoded": "the bare message has the same values in different bytes",
    "changed": "the bare message has different values",
    "refused": "the outcome is not accepted, or the link is closed; with the broker's error",
    "died": "the broker closes the session or the connection",
    "lost": "the message is accepted, but does not come back",
    "expired": "the message is accepted, but does not come back; it may have expired",
}
# The sections that an intermediary may change.
_MUTABLE_SECTIONS = frozenset(("header", "delivery-annotations", "message-annotations", "footer"))
_BARE_MESSAGE_CLAUSE = "Part 3, 3.2"
# Matches errors about the user's permissions, which do not depend on the message.
_PERMISSION_ERROR = re.compile(
    r"amqp:unauthorized-access|user_id property set to .* but authenticated"
)
#: Maximum length of a broker's error in a result, in characters.
_MAX_REASON_CHARS = 300


def is_broker_case(case: Case) -> bool:
    """Whether a case suits a broker: its bytes are a whole message, and it sets no limits."""
    return case.kind == "message" and case.limits is None and bool(case.data)


def run_broker(
    url: str,
    cases: Iterable[Case],
    *,
    jobs: int = 1,
    timeout: float = 5.0,
    on_result: Callable[[Result], None] | None = None,
) -> PeerResults:
    """Send the messages of cases through a broker, and judge the messages that come back.

    Args:
        url: an AMQP 1.0 URL, as for `amqp10msg.net.bridge.parse_url`. Its address must be an empty
            queue that nobody else uses. ``{n}`` in the address is replaced by a number: each job
            has its own queue, and switches to the next queue if a message stops every receiver of
            its queue.
        cases: the cases; cases that `is_broker_case` excludes are skipped.
        jobs: messages in flight at the same time; more than one requires ``{n}``.
        timeout: seconds to wait for an answer of the broker.
        on_result: called with each result.

    Raises:
        PeerError: the connection fails, the queue is not empty, or it holds a message that stops
            every receiver.
        ValueError: the URL is not for AMQP 1.0, or `jobs` is above 1 without ``{n}``.
    """
    chosen = [case for case in cases if is_broker_case(case)]
    results: dict[int, Result] = {}

    def record_result(index: int, round_trip: RoundTrip) -> None:
        results[index] = result = _judge_round_trip(chosen[index], round_trip)
        if on_result is not None:
            on_result(result)

    try:
        product = round_trips(
            url, [case.data for case in chosen], jobs=jobs, timeout=timeout, on_result=record_result
        )
    except QueueError as error:
        raise PeerError(str(error)) from None
    slug = re.sub(r"[^a-z0-9.]+", "-", product.lower()).strip("-") or "broker"
    ordered = [results[index] for index in range(len(chosen))]
    return PeerResults(slug, f"{product or 'a broker'}, live", ordered)


def _judge_round_trip(case: Case, round_trip: RoundTrip) -> Result:
    """Judge the round trip of a case."""
    verdict, detail = _verdict(case, round_trip)
    arrived = verdict in {"identical", "bare", "re-encoded", "changed"}
    unchanged = verdict in {"identical", "bare"}
    # A broker may refuse or change a message that breaks a clause.
    may_differ = case.error is not None or is_open(case)
    may_differ = may_differ or (verdict == "refused" and _has_reserved_keys(case.data))
    facets: dict[str, bool] = {}
    outcome = "pass"
    if arrived and (unchanged or not may_differ):
        facets["unchanged"] = unchanged
    if case.error is not None:  # passing on an invalid message is not a fault
        if verdict == "refused" or (verdict == "died" and round_trip.error_by_broker):
            facets["refused"] = True
    elif verdict != "expired":
        if arrived or not may_differ:
            facets["read"] = arrived
        if arrived and (verdict != "changed" or not may_differ):
            facets["kept"] = verdict != "changed"
    if _PERMISSION_ERROR.search(detail):  # skip: the corpus does not test permissions
        facets, outcome = {}, "skip"
    elif verdict == "died" and not facets.get("refused"):
        outcome = "crash"
    elif not all(facets.values()):
        outcome = "fail"
    elif verdict in ("changed", "lost") or (verdict in ("refused", "re-encoded") and not facets):
        outcome = "note"
    received = round_trip.received
    shown_detail = " ".join(detail.split())[:_MAX_REASON_CHARS]
    reason = f"{verdict}: {shown_detail}" if shown_detail else VERDICTS[verdict]
    faults: list[tuple[str, str, str]] = []
    for facet in [name for name, holds in facets.items() if not holds]:
        if facet == "kept":
            faults += [
                (facet, clause, text) for clause, text in _bare_differences(case.data, received)
            ]
        else:
            faults.append(
                (facet, _BARE_MESSAGE_CLAUSE if facet == "unchanged" else case.clause, reason)
            )
    notes = [("unchanged", _BARE_MESSAGE_CLAUSE, reason)] if outcome == "note" else []
    return Result.of(
        case,
        outcome,
        facets=facets,
        faults=tuple(faults),
        notes=tuple(notes),
        reason="" if verdict == "identical" else reason,
        said=_decode_lenient(received)
        if verdict in {"changed", "re-encoded"} and received
        else None,
        wrote=received.hex() if received is not None and received != case.data else None,
        verdict=verdict,
    )


def _has_reserved_keys(octets: bytes) -> bool:
    """Whether a message has annotations that do not begin with ``x-opt``.

    A node must refuse such annotations unless it understands them (Part 3, 3.2.10).
    """
    try:
        message = Message.decode(octets)
    except DecodeError:
        return False
    sections = message.delivery_annotations, message.message_annotations, message.footer
    keys = [key for section in sections for key in section or ()]
    return any(not (isinstance(key, str) and key.startswith("x-opt")) for key in keys)


def _verdict(case: Case, round_trip: RoundTrip) -> tuple[str, str]:
    """Return the verdict (a key of `VERDICTS`) and its reason.

    The reason is the broker's error, or for a changed message a description of the change.
    """
    if round_trip.received is None:
        is_expired = round_trip.end == "lost" and _can_expire(case.data)
        return "expired" if is_expired else round_trip.end, round_trip.reason
    if round_trip.received == case.data:
        return "identical", round_trip.reason
    if (bare := _bare_message(case.data)) is not None and bare == _bare_message(
        round_trip.received
    ):
        return "bare", round_trip.reason
    sent_typed, received_typed = _decode_lenient(case.data), _decode_lenient(round_trip.received)
    is_readable = sent_typed is not None and received_typed is not None
    if (
        is_readable
        and agreement(_bare_sections(sent_typed), _bare_sections(received_typed)) == "exact"
    ):
        return "re-encoded", round_trip.reason
    return "changed", _describe_change(sent_typed, received_typed)


def _describe_change(sent_typed: Any, received_typed: Any) -> str:
    """Describe which sections of the bare message differ."""
    if sent_typed is None or received_typed is None:
        return "" if sent_typed is None else "the message that comes back cannot be read"
    return describe_difference(
        "message", _bare_sections(sent_typed), _bare_sections(received_typed)
    )


def _bare_differences(sent_octets: bytes, received: bytes | None) -> list[tuple[str, str]]:
    """Return a (broken clause, description) pair for each change in the bare message."""
    sent_typed, received_typed = _decode_lenient(sent_octets), _decode_lenient(received or b"")
    if sent_typed is None:
        text = "the message cannot be read, and comes back with other bytes"
        return [(_BARE_MESSAGE_CLAUSE, text)]
    if received_typed is None:
        return [(_BARE_MESSAGE_CLAUSE, "the message that comes back cannot be read")]
    return differences(_bare_sections(sent_typed), _bare_sections(received_typed))


def _bare_message(octets: bytes) -> bytes | None:
    """Return the bytes of the bare message, or None if the sections cannot be parsed."""
    try:
        return scan(octets).bare
    except DecodeError:
        return None


def _decode_lenient(octets: bytes) -> Any:
    """Return a message in typed JSON, decoded leniently; None if it cannot be decoded."""
    try:
        return Amqp10msg(strict=False).decode("message", octets)
    except RefusedError:
        return None


def _bare_sections(typed: Any) -> Any:
    """Return the sections of the bare message from a message in typed JSON, normalized."""
    sections = normalize("message", typed)
    return [section for section in sections if section[0] not in _MUTABLE_SECTIONS]


def _can_expire(octets: bytes) -> bool:
    """Whether a message has a time to live or an expiry time."""
    try:
        message = Message.decode(octets, strict=False)
    except DecodeError:
        return False
    header, properties = message.header, message.properties
    return (header is not None and header.ttl is not None) or (
        properties is not None and properties.absolute_expiry_time is not None
    )
