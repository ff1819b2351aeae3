"""Declares the queues of one RabbitMQ on another, with their policies, exchanges and bindings.

Both brokers are accessed by their management APIs. Features that RabbitMQ 4 has replaced are
translated, and features that it has removed are reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from amqp10msg.brokers import EXCHANGE_TYPES
from amqp10msg.net.bridge.counting import basic_endpoint_of
from amqp10msg.net.bridge.management import EXCLUSIVE, Management, Queue, queues_of, table
from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import in_thread
from amqp10msg.net.options import RouteOptions

#: The states of a step, in words.
STATES: Mapping[str, str] = {
    "make": "is missing at the target",
    "made": "was declared",
    "there": "is declared already",
    "differs": "is declared differently, and was not changed",
    "none": "has no counterpart",
    "refused": "was refused",
}
_MIRRORING = (
    *("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"),
    *("ha-promote-on-shutdown", "ha-promote-on-failure"),
)
#: Arguments of classic queues without effect, the first from RabbitMQ 3.12 on, the second from 4.3.
_OBSOLETE = ("queue-mode", "queue-version")
_4, _4_3 = (4,), (4, 3)


@attrs.frozen
class Step:
    """A policy, exchange, queue or binding to declare at the target.

    Attributes:
        kind: ``policy``, ``exchange``, ``queue`` or ``binding``.
        name: its name, for people.
        path: the components of its path in the management API after the virtual host.
        body: its definition for the management API.
        state: a key of `STATES`.
        notes: how it differs from the source, or why it was not declared; a sentence each.
    """

    kind: str
    name: str
    path: tuple[str, ...] = ()
    body: Mapping[str, Any] = attrs.Factory(dict)
    state: str = "make"
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        notes = "".join(f"\n  {note}" for note in self.notes)
        details = ""
        if self.kind == "queue" and self.body:
            kind = self.body["arguments"]["x-queue-type"]
            details = f", {kind}{'' if self.body['durable'] else ', transient'}"
        return f"{self.kind} {self.name}{details}: {STATES[self.state]}{notes}"

    @property
    def is_sound(self) -> bool:
        """Whether the target has the object as defined, or it can be declared."""
        return self.state in {"make", "made", "there"}


def plan(source: Management, target: Management, names: Mapping[str, str]) -> list[Step]:
    """Plan the declarations that the target needs for some queues, in their order.

    This includes the queues, the exchanges that route to them or that they dead-letter to, the
    bindings between these, and the policies that apply to them.

    Args:
        source: the source's management API.
        target: the target's management API.
        names: the queues at the source, with their names at the target.

    Raises:
        LinkError: an API does not answer, or the source does not have a queue.
        ValueError: an answer does not have RabbitMQ's format.
    """
    version = target.version()
    queues = [queue for queue in queues_of(source) if queue.name in names]
    missing = names.keys() - {queue.name for queue in queues}
    if missing:
        raise LinkError(f"{source.url} has no queue {min(missing)!r}", permanent=True)
    bindings = [binding for binding in source.all("bindings") if binding.get("source")]
    exchanges = {exchange["name"]: exchange for exchange in source.all("exchanges")}
    needed = _needed_exchanges(set(names), queues, bindings, exchanges)
    used = {queue.policy for queue in queues}
    used |= {str(exchanges[name].get("policy") or "") for name in needed}
    policies = source.all("policies")
    steps = [_policy_step(policy, version) for policy in policies if policy["name"] in used]
    steps += [
        _exchange_step(exchanges[name])
        for name in sorted(needed)
        if name and not _is_predeclared(name)
    ]
    steps += [_adapted_queue_step(queue, names[queue.name], version) for queue in queues]
    bound = {step.path[0] for step in steps if step.kind == "queue" and step.path}
    for binding in bindings:
        to_queue = binding["destination_type"] == "queue"
        name = names.get(binding["destination"], "") if to_queue else binding["destination"]
        if binding["source"] in needed and (name in bound if to_queue else name in needed):
            steps.append(_binding_step(binding, name))
    present = _list_present(target)
    return [_compare(step, present) for step in steps]


def declare(
    steps: Iterable[Step], target: Management, on_step: Callable[[Step], None] = lambda _: None
) -> list[Step]:
    """Declare the missing objects. Return all steps with their new states.

    Calls `on_step` with each step.
    """
    declared_steps = []
    for step in steps:
        if step.state == "make":
            method, kind = ("POST", "bindings") if step.kind == "binding" else ("PUT", "")
            kind = kind or {"policy": "policies"}.get(step.kind, f"{step.kind}s")
            try:
                target.create(method, kind, step.path, step.body)
                step = attrs.evolve(step, state="made")  # noqa: PLW2901  (the step as it is now)
            except LinkError as error:
                notes = (*step.notes, str(error))
                step = attrs.evolve(step, state="refused", notes=notes)  # noqa: PLW2901  (the step as it is now)
        on_step(step)
        declared_steps.append(step)
    return declared_steps


def _is_predeclared(name: str) -> bool:
    """Whether every RabbitMQ has this exchange."""
    return name.startswith("amq.")


def _needed_exchanges(
    names: set[str],
    queues: Iterable[Queue],
    bindings: Iterable[Mapping[str, Any]],
    exchanges: Mapping[str, Mapping[str, Any]],
) -> set[str]:
    """Return the exchanges that route to queues, directly or not, or that they dead-letter to."""
    needed = {binding["source"] for binding in bindings if binding["destination"] in names}
    for queue in queues:
        dead = queue.arguments.get("x-dead-letter-exchange")
        needed.add(str(dead or queue.effective.get("dead-letter-exchange") or ""))
    while True:
        indirect = {
            binding["source"]
            for binding in bindings
            if binding["destination_type"] == "exchange" and binding["destination"] in needed
        }
        for name in needed:
            arguments = table(exchanges.get(name, {}).get("arguments"))
            indirect.add(str(arguments.get("alternate-exchange") or ""))
        indirect &= exchanges.keys()
        if indirect <= needed:
            return needed & exchanges.keys()
        needed |= indirect


def _policy_step(item: Mapping[str, Any], version: tuple[int, ...]) -> Step:
    """Return the step for a policy, adapted to a RabbitMQ of this version."""
    definition, notes = dict(table(item.get("definition"))), []
    if version >= _4:
        removed = [key for key in (*_MIRRORING, "queue-mode") if definition.pop(key, None)]
        if removed:
            notes.append(f"without {', '.join(removed)}, which RabbitMQ 4 does not have")
    if any(key.startswith("federation") for key in definition):
        notes.append("its federation upstreams are not carried over")
    name = str(item["name"])
    if not definition:
        return Step("policy", name, state="none", notes=tuple(notes))
    body = {key: item[key] for key in ("pattern", "apply-to", "priority") if key in item}
    return Step("policy", name, (name,), {**body, "definition": definition}, notes=tuple(notes))


def _exchange_step(item: Mapping[str, Any]) -> Step:
    name, kind = str(item["name"]), item["type"]
    flags = {key: bool(item.get(key)) for key in ("durable", "auto_delete", "internal")}
    body = {"type": kind, **flags}
    notes: tuple[str, ...] = ()
    if kind not in EXCHANGE_TYPES:
        notes = (f"{kind}: a type of a plugin, which the target needs, too",)
    arguments = table(item.get("arguments"))
    return Step("exchange", name, (name,), {**body, "arguments": arguments}, notes=notes)


def _adapted_queue_step(queue: Queue, name: str, version: tuple[int, ...]) -> Step:
    """Return the step for a queue of the source, adapted to a RabbitMQ of this version."""
    if queue.exclusive:
        return Step("queue", name, state="none", notes=(EXCLUSIVE,))
    if name.startswith("amq."):
        reason = "its name was given by the broker, and nobody may declare it"
        return Step("queue", name, state="none", notes=(reason,))
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
            reason = f"a quorum queue cannot be {stays[0]}"
            notes.append(f"it was mirrored, and has one copy now: {reason}")
        else:
            kind = "quorum"
            notes.append("it was mirrored, and is a quorum queue now")
    if version >= _4:
        removed = [key for key in _OBSOLETE if arguments.pop(f"x-{key}", None) is not None]
        if removed:
            notes.append(f"without {', '.join(removed)}, which has no effect any more")
    if not durable and version >= _4_3:
        durable = True
        notes.append("it was transient, and is durable now, or it would be refused")
    return _queue_step(name, queue, durable, {**arguments, "x-queue-type": kind}, notes)


def _queue_step(
    name: str, queue: Queue, durable: bool, arguments: Mapping[str, Any], notes: Iterable[str] = ()
) -> Step:
    body = {"durable": durable, "auto_delete": queue.auto_delete, "arguments": arguments}
    return Step("queue", name, (name,), body, notes=tuple(notes))


def _binding_step(item: Mapping[str, Any], destination: str) -> Step:
    """Return the step for a binding, with `destination` as the queue or exchange at the target."""
    kind, key = item["destination_type"], item["routing_key"]
    path = ("e", str(item["source"]), "q" if kind == "queue" else "e", destination)
    body = {"routing_key": key, "arguments": table(item.get("arguments"))}
    return Step("binding", f"{item['source']} -> {destination} by {key!r}", path, body)


#: The definitions of the objects at the target, by kind and path.
_Present = Mapping[tuple[str, tuple[str, ...]], list[Mapping[str, Any]]]


def _list_present(target: Management) -> _Present:
    """Return the definitions of all objects in the target's virtual host."""
    steps = [
        _queue_step(
            queue.name,
            queue,
            queue.durable,
            {**queue.arguments, "x-queue-type": queue.kind or "classic"},
        )
        for queue in queues_of(target)
    ]
    steps += map(_exchange_step, target.all("exchanges"))
    steps += [_binding_step(item, item["destination"]) for item in target.all("bindings")]
    steps += [_policy_step(item, ()) for item in target.all("policies")]
    present: dict[tuple[str, tuple[str, ...]], list[Mapping[str, Any]]] = {}
    for step in steps:
        present.setdefault((step.kind, step.path), []).append(step.body)
    return present


def _compare(step: Step, present: _Present) -> Step:
    """Set the state of a step by comparing it with the objects at the target."""
    bodies = present.get((step.kind, step.path))
    if step.state != "make" or bodies is None:
        return step
    if step.body in bodies:
        return attrs.evolve(step, state="there")
    if step.kind == "binding":
        return step  # a different binding: several bindings may have the same path
    (actual, *_), expected = bodies, step.body
    differing = sorted(
        key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key)
    )
    note = "; ".join(f"{key}: {actual.get(key)!r}, not {expected.get(key)!r}" for key in differing)
    return attrs.evolve(step, state="differs", notes=(*step.notes, note))


def plan_of(
    source: Endpoint, target: Endpoint, options: RouteOptions
) -> tuple[list[Step], Management]:
    """Plan the declarations for a route. Return them with the target's management API.

    Raises:
        LinkError: an API does not answer.
        ValueError: an API is missing, or an end of the route is not a queue of RabbitMQ.
    """
    queue = basic_endpoint_of(source)
    if options.management is None or options.target_management is None:
        raise ValueError("declare needs management and target_management, the two APIs")
    if queue is None or not queue.queue or source.file is not None or target.file is not None:
        raise ValueError(
            f"{source} -> {target}: declare needs queues of RabbitMQ as source and target"
        )
    target_queue = basic_endpoint_of(target)
    name = target_queue.queue if target_queue is not None and target_queue.queue else queue.queue
    timeout = options.waits.management_timeout
    target_api = Management(options.target_management, target, timeout=timeout)
    source_api = Management(options.management, source, timeout=timeout)
    return plan(source_api, target_api, {queue.queue: name}), target_api


async def declare_for(
    source: Endpoint, target: Endpoint, options: RouteOptions, log: Callable[..., None]
) -> None:
    """Declare the source's queue at the target of a route, in threads, and log each step."""
    steps, target_api = await in_thread(plan_of, source, target, options)
    for step in await in_thread(declare, steps, target_api):
        level = logging.INFO if step.is_sound else logging.WARNING
        fields = {"why": "; ".join(step.notes)} if step.notes else {}
        log(f"{step.kind}-{step.state}", level, name=step.name, **fields)
