"""A live broker tested with the corpus: messages go in as they are, what comes back is judged.

Part 3, 3.2: an intermediary may change the header, annotations and footer of a message, and must
not change the encoding of the bare message. One message at a time is on each way. Behind each of
which nothing comes back goes a marker, so that it is known to be lost, and not late.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, Self

import attrs

from amqp10msg.interop.conformance import PeerError, PeerResults, Result
from amqp10msg.interop.conformance.judging import apart, differences, is_open, meaning
from amqp10msg.interop.corpus import Amqp10msg, Case, RefusedError, agreement
from amqp10msg.message import Message
from amqp10msg.net.bridge.amqp10 import Amqp10Source, Amqp10Target, open_source, open_target
from amqp10msg.net.bridge.terms import (
    LinkError,
    Outcome,
    Outgoing,
    Settle,
    SourceDelivery,
    SourceRequest,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint, parse_url
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import DecodeError

#: What becomes of a message, and what that means.
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
# What an intermediary may change.
_TRANSPORT = frozenset(("header", "delivery-annotations", "message-annotations", "footer"))
_PART_3 = "Part 3, 3.2"
_FAULT = "the peer violated the protocol"
# What a broker forbids its user, whatever the message may be.
_POLICY = re.compile(r"amqp:unauthorized-access|user_id property set to .* but authenticated")
# Larger than any case; and so many unsettled deliveries at a time.
_MAX_MESSAGE = 1 << 24
_WINDOW = 10
# How long a message may take before a marker is sent after it, and after the marker, in s.
_PATIENCE, _BEHIND = 0.3, 0.1
# Connections that may be lost one after the other without a message in between.
_ATTEMPTS = 6
# Shown of what the broker says.
_SAID = 300


def is_asked(case: Case) -> bool:
    """Whether a case is about a whole message, and not about limits that anyone may choose."""
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
        url: as `amqp10msg.net.bridge.parse_url` reads it, of AMQP 1.0. The address is of a queue
            that is empty and that nobody else uses. ``{n}`` in it is a number: each way has its
            own, and takes the next one where a message ends whoever receives it and stays.
        cases: those of other kinds are left out, see `is_asked`.
        jobs: ways through the broker at the same time; more than one takes ``{n}``.
        timeout: in seconds, for an answer.
        on_result: called with each result.

    Raises:
        PeerError: there is no connection, the queue is not empty, or it holds a message that ends
            whoever receives it.
        ValueError: it is not a URL of AMQP 1.0.
    """
    endpoint = parse_url(url)
    if endpoint.protocol != "1.0" or endpoint.file is not None or endpoint.address is None:
        raise ValueError("a broker is amqp://HOST:PORT/ADDRESS or amqps://…, of AMQP 1.0")
    if jobs > 1 and "{n}" not in endpoint.address:
        raise ValueError("several jobs take {n} in the address: each has a queue of its own")
    chosen = [case for case in cases if is_asked(case)]
    tell = on_result or (lambda _: None)
    return asyncio.run(_hold(attrs.evolve(endpoint, timeout=timeout), chosen, jobs, timeout, tell))


async def _hold(
    endpoint: Endpoint,
    cases: list[Case],
    jobs: int,
    timeout: float,
    on_result: Callable[[Result], None],
) -> PeerResults:
    """Judge all cases, on several ways at the same time."""
    numbers = itertools.count(1)
    ways = [_Way(endpoint, timeout, numbers) for _ in range(max(1, min(jobs, len(cases))))]
    left = iter(cases)
    results: dict[str, Result] = {}

    async def work(way: _Way) -> None:
        async with way:
            for case in left:
                results[case.id] = result = _result(case, await way.passage(case.data))
                on_result(result)

    try:
        async with asyncio.TaskGroup() as group:
            for way in ways:
                group.create_task(work(way))
    except BaseExceptionGroup as errors:
        # Not except*: before CPython 3.11.4, what is raised in it arrives in a group.
        failed, others = errors.split(PeerError)
        if failed is None or others is not None:
            raise
        raise failed.exceptions[0] from None
    product = ways[0].product
    slug = re.sub(r"[^a-z0-9.]+", "-", product.lower()).strip("-") or "broker"
    found = [results[case.id] for case in cases]
    return PeerResults(slug, f"{product or 'a broker'}, live", found)


@attrs.frozen
class _Passage:
    """What became of the bytes of a case.

    The verdict is one of `VERDICTS`; `said` that the broker gave an error where it ended something.
    """

    verdict: str
    reason: str = ""
    received: bytes | None = None
    said: bool = False


class _Way:
    """A way through a broker, with both of its ends."""

    def __init__(self, endpoint: Endpoint, timeout: float, numbers: Iterator[int]) -> None:
        self.product = ""
        self._template = endpoint
        self._timeout = timeout
        self._numbers = numbers
        self._endpoint = self._addressed()
        self._source: Amqp10Source | None = None
        self._target: Amqp10Target | None = None
        self._news = asyncio.Event()
        self._arrived: list[SourceDelivery] = []
        self._outcomes: dict[int, Outcome] = {}
        self._lost: LinkError | None = None
        self._poison = ""

    def _addressed(self) -> Endpoint:
        address = str(self._template.address)
        return attrs.evolve(
            self._template, address=address.replace("{n}", str(next(self._numbers)))
        )

    async def __aenter__(self) -> Self:
        """Connect."""
        try:
            strays = await self._settle_down()
        except PeerError:
            self._drop()
            raise
        if strays:
            self._drop()
            raise PeerError(
                f"{self._endpoint.address} is not empty: name a queue that nobody else uses"
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        for end in (self._source, self._target):
            if end is not None:
                await end.close(1.0)
        self._drop()

    async def passage(self, octets: bytes) -> _Passage:
        """Send bytes, and wait for what becomes of them."""
        if self._source is None or self._target is None or self._lost is not None:
            await self._settle_down()
        sent = SourceDelivery(octets)
        try:
            await self._send(sent)
            outcome = await self._outcome(sent)
        except LinkError as lost:
            scope = "refused" if lost.scope == "link" else "died"
            strays = await self._settle_down()
            reason = f"{lost}, and it is delivered" if strays else f"{lost}{self._poison}"
            # Where it is the broker that broke a rule, it has said nothing of ours.
            return _Passage(scope, reason, said=lost.said and _FAULT not in reason)
        if outcome.kind != "accepted":
            words = " ".join(filter(None, (outcome.kind, outcome.condition, outcome.description)))
            return _Passage("refused", words, said=True)
        return await self._arrival()

    async def _arrival(self) -> _Passage:
        """Wait for a message that was accepted."""
        try:
            if await self._until(lambda: bool(self._arrived), _PATIENCE):
                return _Passage("identical", received=self._take())
            ended = ""
        except LinkError as lost:
            ended = str(lost)
        strays = await self._settle_down()
        if ended or self._poison:
            why = f"accepted; {ended or 'the receiver hears nothing'}{self._poison}"
            return _Passage("died", why)
        return _Passage("identical", received=strays[0]) if strays else _Passage("lost")

    async def _settle_down(self) -> list[bytes]:
        """Send a marker, and return what comes back besides it; where need be, by another queue."""
        self._poison = ""
        why = ""
        movable = "{n}" in str(self._template.address)
        for attempt in range(_ATTEMPTS):
            found: list[bytes] = []
            try:
                await self._connect()
                if await self._mark(found):
                    return found
                if found:
                    return found
                why = "nothing comes back"
            except LinkError as lost:
                why = str(lost.without(self._template.password))
            self._drop()
            if movable and attempt % 2:
                self._poison = ", and whoever receives from that queue after it"
                self._endpoint = self._addressed()
        hint = (
            ". If the queue holds a message that ends whoever receives it, purge it, and write {n} "
            "into the address: a number that grows"
        )
        raise PeerError(f"{self._endpoint.address}: {why}{'' if movable else hint}")

    async def _mark(self, found: list[bytes]) -> bool:
        """Send a marker, and take what comes; return whether the marker comes back."""
        marker = Message(str(uuid.uuid4()))
        sent = SourceDelivery(marker.encode())
        await self._send(sent)
        outcome = await self._outcome(sent)
        if outcome.kind != "accepted":
            raise LinkError(f"{outcome.kind}: {outcome.condition} {outcome.description}")
        came = False
        # What has a lower priority comes after the marker.
        while await self._until(lambda: bool(self._arrived), _BEHIND if came else self._timeout):
            octets = self._take()
            if _body(octets) == marker.body:
                came = True
            else:
                found.append(octets)
        return came

    # Messages.

    async def _send(self, sent: SourceDelivery) -> None:
        target = self._target
        assert target is not None  # noqa: S101 - connected
        if not await self._until(lambda: target.room > 0, self._timeout):
            raise LinkError("the broker grants no credit")
        target.send([(Outgoing(sent.octets), sent)])

    async def _outcome(self, sent: SourceDelivery) -> Outcome:
        if not await self._until(lambda: id(sent) in self._outcomes, self._timeout):
            self._drop()
            raise LinkError(f"no outcome within {self._timeout:g} s")
        return self._outcomes.pop(id(sent))

    def _take(self) -> bytes:
        """Accept the first message that came, and return it."""
        delivery = self._arrived.pop(0)
        if self._source is not None:
            self._source.settle([delivery], Settle.ACCEPT)
        return delivery.octets

    async def _until(self, holds: Callable[[], bool], wait: float) -> bool:
        """Wait until something holds; return whether it does."""
        deadline = asyncio.get_running_loop().time() + wait
        while not holds():
            if self._lost is not None:
                lost = self._lost
                self._drop()
                raise lost.without(self._template.password)
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            self._news.clear()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                pass
        return True

    # Connections.

    async def _connect(self) -> None:
        """Open what is not open."""
        if self._lost is not None:
            self._drop()
        if self._target is None:
            self._target = await open_target(
                TargetRequest(
                    endpoint=self._endpoint,
                    on_outcomes=self._on_outcomes,
                    on_room=self._news.set,
                    on_lost=self._on_lost,
                    window=_WINDOW,
                )
            )
            self.product = self._target.product.strip() or self.product
        if self._source is None:
            self._source = await open_source(
                SourceRequest(
                    endpoint=self._endpoint,
                    receive=self._on_deliveries,
                    on_lost=self._on_lost,
                    window=_WINDOW,
                    max_message=_MAX_MESSAGE,
                    overflow=_too_large,
                )
            )

    def _drop(self) -> None:
        """Drop both connections."""
        for end in (self._source, self._target):
            if end is not None:
                end.abort()
        self._source = self._target = self._lost = None
        self._arrived.clear()
        self._outcomes.clear()

    def _on_deliveries(self, deliveries: Sequence[SourceDelivery]) -> None:
        self._arrived += deliveries
        self._news.set()

    def _on_outcomes(self, outcomes: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
        for sent, outcome in outcomes:
            self._outcomes[id(sent)] = outcome
        self._news.set()

    def _on_lost(self, lost: LinkError) -> None:
        self._lost = self._lost or lost
        self._news.set()


def _too_large() -> NoReturn:
    raise OSError(f"a message of more than {_MAX_MESSAGE:,} bytes")


def _body(octets: bytes) -> Any:
    try:
        return Message.decode(octets).body
    except DecodeError:
        return None


def _result(case: Case, passage: _Passage) -> Result:
    """Judge what became of a case."""
    passage = _compared(case, passage)
    verdict = passage.verdict
    arrived = verdict in {"identical", "bare", "re-encoded", "changed"}
    unchanged = verdict in {"identical", "bare"}
    # What breaks a clause may be refused, or passed on as something else.
    is_free = case.error is not None or is_open(case)
    is_free = is_free or (verdict == "refused" and _has_reserved_keys(case.data))
    facets: dict[str, bool] = {}
    outcome = "pass"
    if arrived and (unchanged or not is_free):
        facets["unchanged"] = unchanged
    if case.error is not None:  # nobody has to refuse what it passes on
        if verdict == "refused" or (verdict == "died" and passage.said):
            facets["refused"] = True
    elif verdict != "expired":
        if arrived or not is_free:
            facets["read"] = arrived
        if arrived and (verdict != "changed" or not is_free):
            facets["kept"] = verdict != "changed"
    if _POLICY.search(passage.reason):  # whoever may send as whom is not the corpus's business
        facets, outcome = {}, "skip"
    elif verdict == "died" and not facets.get("refused"):
        outcome = "crash"
    elif not all(facets.values()):
        outcome = "fail"
    elif verdict in ("changed", "lost") or (verdict in ("refused", "re-encoded") and not facets):
        outcome = "note"
    received = passage.received
    said = " ".join(passage.reason.split())[:_SAID]
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


def _compared(case: Case, passage: _Passage) -> _Passage:
    """Return the verdict: how what came back differs, or whether what did not may have expired."""
    received = passage.received
    if passage.verdict == "lost" and _expires(case.data):
        return attrs.evolve(passage, verdict="expired")
    if passage.verdict != "identical" or received is None or received == case.data:
        return passage
    if (before := _bare(case.data)) is not None and before == _bare(received):
        return attrs.evolve(passage, verdict="bare")
    sent, found = _typed(case.data), _typed(received)
    if sent is not None and found is not None:
        how = agreement(_kept(sent), _kept(found))
        if how == "exact":
            return attrs.evolve(passage, verdict="re-encoded")
    return attrs.evolve(passage, verdict="changed", reason=_difference(sent, found))


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
