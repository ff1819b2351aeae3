"""What a RabbitMQ's queues are, made on another one: policies, exchanges, queues, bindings.

Both are asked by their management API. What RabbitMQ 4 has no counterpart of is named, and what it
has another one of is translated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from amqp10msg.brokers import EXCHANGE_TYPES
from amqp10msg.net.bridge.counting import over_basic
from amqp10msg.net.bridge.management import EXCLUSIVE, Management, Queue, queues_of, table
from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import in_thread
from amqp10msg.net.options import RouteOptions

#: What becomes of a step.
STATES: Mapping[str, str] = {
    "make": "is to be made",
    "made": "was made",
    "there": "is there as it is to be",
    "differs": "is there, but not as it is to be; it is left as it is",
    "none": "has no counterpart",
    "refused": "was refused",
}
_MIRRORING = (
    *("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"),
    *("ha-promote-on-shutdown", "ha-promote-on-failure"),
)
#: Arguments of classic queues without effect from RabbitMQ 3.12 and 4.3 on.
_GONE = ("queue-mode", "queue-version")
_4, _4_3 = (4,), (4, 3)


@attrs.frozen
class Step:
    """Something that the target is to have.

    The name is for people, `path` has the parts of that in the management API after the virtual
    host, `body` is what it is to be there, `state` a key of `STATES`, and `notes` say what is not
    as it was at the source, or why it is not there.
    """

    kind: str
    name: str
    path: tuple[str, ...] = ()
    body: Mapping[str, Any] = attrs.Factory(dict)
    state: str = "make"
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        notes = "".join(f"\n  {note}" for note in self.notes)
        about = ""
        if self.kind == "queue" and self.body:
            kind = self.body["arguments"]["x-queue-type"]
            about = f", {kind}{'' if self.body['durable'] else ', transient'}"
        return f"{self.kind} {self.name}{about}: {STATES[self.state]}{notes}"

    @property
    def is_sound(self) -> bool:
        """Whether the target has it, or will have, as far as is known."""
        return self.state in {"make", "made", "there"}


def plan(source: Management, target: Management, names: Mapping[str, str]) -> list[Step]:
    """Say what the target is to have for these queues, in the order in which it can be made.

    These are the queues, the exchanges that lead to them or take what they dead-letter, the
    bindings between all of those, and the policies that apply to them.

    `names` has what the queues at the source are called at the target.
    """
    version = target.version()
    queues = [queue for queue in queues_of(source) if queue.name in names]
    missing = names.keys() - {queue.name for queue in queues}
    if missing:
        raise LinkError(f"{source.place} has no queue {min(missing)!r}", permanent=True)
    bindings = [one for one in source.all("bindings") if one.get("source")]
    exchanges = {one["name"]: one for one in source.all("exchanges")}
    wanted = _leading_to(set(names), queues, bindings, exchanges)
    used = {queue.policy for queue in queues}
    used |= {str(exchanges[name].get("policy") or "") for name in wanted}
    steps = [_policy(one, version) for one in source.all("policies") if one["name"] in used]
    steps += [_exchange(exchanges[name]) for name in sorted(wanted) if name and not _is_given(name)]
    steps += [_queue(queue, names[queue.name], version) for queue in queues]
    bound = {step.path[0] for step in steps if step.kind == "queue" and step.path}
    for one in bindings:
        to_queue = one["destination_type"] == "queue"
        name = names.get(one["destination"], "") if to_queue else one["destination"]
        if one["source"] in wanted and (name in bound if to_queue else name in wanted):
            steps.append(_binding(one, name))
    there = _there(target)
    return [_compared(step, there) for step in steps]


def declare(
    steps: Iterable[Step], target: Management, tell: Callable[[Step], None] = lambda _: None
) -> list[Step]:
    """Make what is to be made; return all steps, and what became of them."""
    done = []
    for step in steps:
        if step.state == "make":
            method, kind = ("POST", "bindings") if step.kind == "binding" else ("PUT", "")
            kind = kind or {"policy": "policies"}.get(step.kind, f"{step.kind}s")
            try:
                target.make(method, kind, step.path, step.body)
                step = attrs.evolve(step, state="made")  # noqa: PLW2901  (the step as it is now)
            except LinkError as error:
                notes = (*step.notes, str(error))
                step = attrs.evolve(step, state="refused", notes=notes)  # noqa: PLW2901  (the step as it is now)
        tell(step)
        done.append(step)
    return done


def _is_given(name: str) -> bool:
    """Whether every RabbitMQ has this exchange."""
    return name.startswith("amq.")


def _leading_to(
    names: set[str],
    queues: Iterable[Queue],
    bindings: Iterable[Mapping[str, Any]],
    exchanges: Mapping[str, Mapping[str, Any]],
) -> set[str]:
    """Return the exchanges whose messages come to queues, and those that they come to when dead."""
    found = {one["source"] for one in bindings if one["destination"] in names}
    for queue in queues:
        dead = queue.arguments.get("x-dead-letter-exchange")
        found.add(str(dead or queue.effective.get("dead-letter-exchange") or ""))
    while True:
        more = {
            one["source"]
            for one in bindings
            if one["destination_type"] == "exchange" and one["destination"] in found
        }
        for name in found:
            arguments = table(exchanges.get(name, {}).get("arguments"))
            more.add(str(arguments.get("alternate-exchange") or ""))
        more &= exchanges.keys()
        if more <= found:
            return found & exchanges.keys()
        found |= more


def _policy(found: Mapping[str, Any], version: tuple[int, ...]) -> Step:
    definition, notes = dict(table(found.get("definition"))), []
    if version >= _4:
        gone = [key for key in (*_MIRRORING, "queue-mode") if definition.pop(key, None)]
        if gone:
            notes.append(f"without {', '.join(gone)}, which RabbitMQ 4 does not have")
    if any(key.startswith("federation") for key in definition):
        notes.append("its federation upstreams are not carried over")
    name = str(found["name"])
    if not definition:
        return Step("policy", name, state="none", notes=tuple(notes))
    body = {key: found[key] for key in ("pattern", "apply-to", "priority") if key in found}
    return Step("policy", name, (name,), {**body, "definition": definition}, notes=tuple(notes))


def _exchange(found: Mapping[str, Any]) -> Step:
    name, kind = str(found["name"]), found["type"]
    flags = {key: bool(found.get(key)) for key in ("durable", "auto_delete", "internal")}
    body = {"type": kind, **flags}
    notes: tuple[str, ...] = ()
    if kind not in EXCHANGE_TYPES:
        notes = (f"{kind}: a type of a plugin, which the target needs, too",)
    arguments = table(found.get("arguments"))
    return Step("exchange", name, (name,), {**body, "arguments": arguments}, notes=notes)


def _queue(queue: Queue, name: str, version: tuple[int, ...]) -> Step:
    if queue.exclusive:
        return Step("queue", name, state="none", notes=(EXCLUSIVE,))
    if name.startswith("amq."):
        why = "its name was given by the broker, and nobody may declare it"
        return Step("queue", name, state="none", notes=(why,))
    kind, durable, notes = queue.kind or "classic", queue.durable, []
    arguments = {key: v for key, v in queue.arguments.items() if key != "x-queue-type"}
    mirrored = "ha-mode" in queue.effective and kind == "classic" and version >= _4
    if mirrored:
        overflows = arguments.get("x-overflow"), queue.effective.get("overflow")
        stays = ["one with priorities"] if "x-max-priority" in arguments else []
        stays += [] if durable else ["transient"]
        stays += ["auto-delete"] if queue.auto_delete else []
        stays += ["one with reject-publish-dlx"] if "reject-publish-dlx" in overflows else []
        if stays:
            why = f"a quorum queue cannot be {stays[0]}"
            notes.append(f"it was mirrored, and has one copy now: {why}")
        else:
            kind = "quorum"
            notes.append("it was mirrored, and is a quorum queue now")
    if version >= _4:
        gone = [key for key in _GONE if arguments.pop(f"x-{key}", None) is not None]
        if gone:
            notes.append(f"without {', '.join(gone)}, which has no effect any more")
    if not durable and version >= _4_3:
        durable = True
        notes.append("it was transient, and is durable now, or it would be refused")
    return _queue_as(name, queue, durable, {**arguments, "x-queue-type": kind}, notes)


def _queue_as(
    name: str, queue: Queue, durable: bool, arguments: Mapping[str, Any], notes: Iterable[str] = ()
) -> Step:
    body = {"durable": durable, "auto_delete": queue.auto_delete, "arguments": arguments}
    return Step("queue", name, (name,), body, notes=tuple(notes))


def _binding(found: Mapping[str, Any], destination: str) -> Step:
    kind, key = found["destination_type"], found["routing_key"]
    path = ("e", str(found["source"]), "q" if kind == "queue" else "e", destination)
    body = {"routing_key": key, "arguments": table(found.get("arguments"))}
    return Step("binding", f"{found['source']} -> {destination} by {key!r}", path, body)


#: What there is, by kind and path.
_There = Mapping[tuple[str, tuple[str, ...]], list[Mapping[str, Any]]]


def _there(target: Management) -> _There:
    """Return the things that a virtual host has already, as steps would make them."""
    steps = [
        _queue_as(
            one.name, one, one.durable, {**one.arguments, "x-queue-type": one.kind or "classic"}
        )
        for one in queues_of(target)
    ]
    steps += map(_exchange, target.all("exchanges"))
    steps += [_binding(found, found["destination"]) for found in target.all("bindings")]
    steps += [_policy(found, ()) for found in target.all("policies")]
    there: dict[tuple[str, tuple[str, ...]], list[Mapping[str, Any]]] = {}
    for step in steps:
        there.setdefault((step.kind, step.path), []).append(step.body)
    return there


def _compared(step: Step, there: _There) -> Step:
    """Say whether the target has it already."""
    found = there.get((step.kind, step.path))
    if step.state != "make" or found is None:
        return step
    if step.body in found:
        return attrs.evolve(step, state="there")
    if step.kind == "binding":
        return step  # there may be several
    (has, *_), wanted = found, step.body
    differing = sorted(key for key in wanted.keys() | has.keys() if wanted.get(key) != has.get(key))
    said = "; ".join(f"{key}: {has.get(key)!r}, not {wanted.get(key)!r}" for key in differing)
    return attrs.evolve(step, state="differs", notes=(*step.notes, said))


def plan_of(
    source: Endpoint, target: Endpoint, options: RouteOptions
) -> tuple[list[Step], Management]:
    """Say what the target of a route is to have, and where that is made."""
    queue = over_basic(source)
    if options.management is None or options.target_management is None:
        raise ValueError("declare needs management and target_management, the API of each end")
    if queue is None or not queue.queue or source.file is not None or target.file is not None:
        raise ValueError(
            f"{source} -> {target}: declare is for a queue of RabbitMQ and another one"
        )
    there = over_basic(target)
    name = queue.queue if there is None or not there.queue else there.queue
    timeout = options.waits.management_answer
    made = Management(options.target_management, target, timeout=timeout)
    asked = Management(options.management, source, timeout=timeout)
    return plan(asked, made, {queue.queue: name}), made


async def declare_for(
    source: Endpoint, target: Endpoint, options: RouteOptions, log: Callable[..., None]
) -> None:
    """Make what the target of a route is to have, in threads that end with the process."""
    steps, at = await in_thread(plan_of, source, target, options)
    for step in await in_thread(declare, steps, at):
        level = logging.INFO if step.is_sound else logging.WARNING
        fields = {"why": "; ".join(step.notes)} if step.notes else {}
        log(f"{step.kind}-{step.state}", level, name=step.name, **fields)
