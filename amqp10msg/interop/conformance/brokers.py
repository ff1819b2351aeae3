"""Test a live broker with the corpus: send messages through a queue and judge what comes back.

Part 3, 3.2: an intermediary may change the header, annotations and footer of a message, and must
not change the encoding of the bare message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from amqp10msg.interop.conformance.judging import apart, differences, is_open, meaning
from amqp10msg.interop.conformance.peers import PeerError
from amqp10msg.interop.conformance.results import PeerResults, Result
from amqp10msg.interop.corpus import Amqp10msg, Case, RefusedError, agreement
from amqp10msg.message import Message
from amqp10msg.net.round_trips import QueueError, RoundTrip, round_trips
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import DecodeError

__all__ = ["VERDICTS", "hold_broker", "is_asked"]

#: The verdicts on a message, and their meanings.
VERDICTS = {
    "identical": "the same bytes come back",
    "bare": "the bare message comes back byte for byte; header, annotations or footer differ",
    "re-encoded": "the bare message says the same, in other bytes",
    "changed": "the bare message says something else",
    "refused": "an outcome that is not accepted, or the end of the link, with what the broker says",
    "died": "the broker ends the session or the connection",
    "lost": "it is accepted, and does not come back",
    "expired": "it is accepted, and does not come back, but it may have expired",
}
# The sections that an intermediary may change.
_TRANSPORT = frozenset(("header", "delivery-annotations", "message-annotations", "footer"))
_PART_3 = "Part 3, 3.2"
# Errors about the user's permissions: they say nothing about the message.
_POLICY = re.compile(r"amqp:unauthorized-access|user_id property set to .* but authenticated")
#: Characters of a broker's error that a result shows.
_MAX_REASON = 300


def is_asked(case: Case) -> bool:
    """Whether a case is a whole message, and not about limits, which a broker may choose."""
    return case.kind == "message" and case.limits is None and bool(case.data)


def hold_broker(
    url: str,
    cases: Iterable[Case],
    *,
    jobs: int = 1,
    timeout: float = 5.0,
    on_result: Callable[[Result], None] | None = None,
) -> PeerResults:
    """Send the messages of cases through a broker, and judge what comes back.

    Args:
        url: an AMQP 1.0 URL, as for `amqp10msg.net.bridge.parse_url`. Its address is an empty queue
            that nobody else uses. ``{n}`` in the address is replaced by a number: each job has a
            queue of its own, and uses the next one if a message stops every receiver of its queue.
        cases: the cases; those that `is_asked` excludes are skipped.
        jobs: messages in flight at the same time; more than one requires ``{n}``.
        timeout: seconds to wait for an answer of the broker.
        on_result: called with each result.

    Raises:
        PeerError: there is no connection, the queue is not empty, or it holds a message that stops
            every receiver.
        ValueError: the URL is not one of AMQP 1.0, or `jobs` needs ``{n}``.
    """
    chosen = [case for case in cases if is_asked(case)]
    results: dict[int, Result] = {}

    def judge(index: int, trip: RoundTrip) -> None:
        results[index] = result = _result(chosen[index], trip)
        if on_result is not None:
            on_result(result)

    try:
        product = round_trips(
            url, [case.data for case in chosen], jobs=jobs, timeout=timeout, on_result=judge
        )
    except QueueError as error:
        raise PeerError(str(error)) from None
    slug = re.sub(r"[^a-z0-9.]+", "-", product.lower()).strip("-") or "broker"
    ordered = [results[index] for index in range(len(chosen))]
    return PeerResults(slug, f"{product or 'a broker'}, live", ordered)


def _result(case: Case, trip: RoundTrip) -> Result:
    """Judge the round trip of a case."""
    verdict, why = _verdict(case, trip)
    arrived = verdict in {"identical", "bare", "re-encoded", "changed"}
    unchanged = verdict in {"identical", "bare"}
    # A message that breaks a clause may be refused, or changed.
    is_free = case.error is not None or is_open(case)
    is_free = is_free or (verdict == "refused" and _has_reserved_keys(case.data))
    facets: dict[str, bool] = {}
    outcome = "pass"
    if arrived and (unchanged or not is_free):
        facets["unchanged"] = unchanged
    if case.error is not None:  # nobody has to refuse what it passes on
        if verdict == "refused" or (verdict == "died" and trip.error_by_broker):
            facets["refused"] = True
    elif verdict != "expired":
        if arrived or not is_free:
            facets["read"] = arrived
        if arrived and (verdict != "changed" or not is_free):
            facets["kept"] = verdict != "changed"
    if _POLICY.search(why):  # whoever may send as whom is not the corpus's business
        facets, outcome = {}, "skip"
    elif verdict == "died" and not facets.get("refused"):
        outcome = "crash"
    elif not all(facets.values()):
        outcome = "fail"
    elif verdict in ("changed", "lost") or (verdict in ("refused", "re-encoded") and not facets):
        outcome = "note"
    received = trip.received
    said = " ".join(why.split())[:_MAX_REASON]
    reason = f"{verdict}: {said}" if said else VERDICTS[verdict]
    faults: list[tuple[str, str, str]] = []
    for facet in [name for name, holds in facets.items() if not holds]:
        if facet == "kept":
            faults += [(facet, clause, text) for clause, text in _changes(case.data, received)]
        else:
            faults.append((facet, _PART_3 if facet == "unchanged" else case.clause, reason))
    notes = [("unchanged", _PART_3, reason)] if outcome == "note" else []
    return Result.of(
        case,
        outcome,
        facets=facets,
        faults=tuple(faults),
        notes=tuple(notes),
        reason="" if verdict == "identical" else reason,
        said=_typed(received) if verdict in {"changed", "re-encoded"} and received else None,
        wrote=received.hex() if received is not None and received != case.data else None,
        verdict=verdict,
    )


def _has_reserved_keys(octets: bytes) -> bool:
    """Whether there are keys of annotations for which a node must detach that knows them not.

    Those are all that do not begin with ``x-opt`` (Part 3, 3.2.10).
    """
    try:
        message = Message.decode(octets)
    except DecodeError:
        return False
    sections = message.delivery_annotations, message.message_annotations, message.footer
    keys = [key for section in sections for key in section or ()]
    return any(not (isinstance(key, str) and key.startswith("x-opt")) for key in keys)


def _verdict(case: Case, trip: RoundTrip) -> tuple[str, str]:
    """Return the verdict, one of `VERDICTS`, and the reason: an error or a difference."""
    if trip.received is None:
        is_expired = trip.end == "lost" and _expires(case.data)
        return "expired" if is_expired else trip.end, trip.reason
    if trip.received == case.data:
        return "identical", trip.reason
    if (bare := _bare(case.data)) is not None and bare == _bare(trip.received):
        return "bare", trip.reason
    sent, received = _typed(case.data), _typed(trip.received)
    is_readable = sent is not None and received is not None
    if is_readable and agreement(_kept(sent), _kept(received)) == "exact":
        return "re-encoded", trip.reason
    return "changed", _difference(sent, received)


def _difference(sent: Any, found: Any) -> str:
    """Describe which sections of the bare message differ."""
    if sent is None or found is None:
        return "" if sent is None else "what comes back cannot be read"
    return apart("message", _kept(sent), _kept(found))


def _changes(sent: bytes, received: bytes | None) -> list[tuple[str, str]]:
    """Return the clauses that a changed bare message breaks, and how."""
    before, after = _typed(sent), _typed(received or b"")
    if before is None or after is None:
        return [(_PART_3, "what comes back cannot be read")]
    return differences(_kept(before), _kept(after))


def _bare(octets: bytes) -> bytes | None:
    """Return the bare message; None where it cannot be found."""
    try:
        return scan(octets).bare
    except DecodeError:
        return None


def _typed(octets: bytes) -> Any:
    try:
        return Amqp10msg(strict=False).decode("message", octets)
    except RefusedError:
        return None


def _kept(typed: Any) -> Any:
    """Return the part that must be kept: the bare message, without what says nothing."""
    said = meaning("message", typed)
    return [section for section in said if section[0] not in _TRANSPORT]


def _expires(octets: bytes) -> bool:
    """Whether a message says when it expires."""
    try:
        message = Message.decode(octets, strict=False)
    except DecodeError:
        return False
    header, properties = message.header, message.properties
    return (header is not None and header.ttl is not None) or (
        properties is not None and properties.absolute_expiry_time is not None
    )
