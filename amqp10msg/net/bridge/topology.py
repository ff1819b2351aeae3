"""Declares the queues of one RabbitMQ on another, with their policies, exchanges and bindings.

Both brokers are accessed through their management APIs. Features that RabbitMQ 4 has replaced are
converted, and features that it has removed are reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from amqp10msg.brokers import EXCHANGE_TYPES
from amqp10msg.net.bridge.management import EXCLUSIVE_NOTE, Management, Queue, queues_of, table
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.routes import declaration_of
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import in_thread

#: Descriptions of the states of a step, by `Step.state`.
STATES: Mapping[str, str] = {
    "make": "is missing at the target",
    "made": "was declared",
    "there": "is declared already",
    "differs": "is declared differently, and was not changed",
    "none": "has no counterpart",
    "refused": "was refused",
}
#: The keys of a policy that mirror queues.
_MIRRORING_KEYS = (
    *("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"),
    *("ha-promote-on-shutdown", "ha-promote-on-failure"),
)
#: The arguments of classic queues that are not declared at RabbitMQ 4, without the prefix x-: it
#: ignores the mode since 3.12, and 4.3 refuses to declare a queue with version 1 (recorded, 4.3.6).
_OBSOLETE_ARGUMENTS = ("queue-mode", "queue-version")
#: Versions of RabbitMQ.
_4, _4_3 = (4,), (4, 3)


@attrs.frozen
class Step:
    """A policy, exchange, queue or binding to declare at the target.

    Attributes:
        kind: ``policy``, ``exchange``, ``queue`` or ``binding``.
        name: the name of the object, for people to read.
        path: the components of the object's path in the management API after the virtual host.
        body: the definition of the object for the management API.
        state: whether the target has the object, as a key of `STATES`.
        notes: how the object differs from the source, or why it was not declared; a sentence each.
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
        """Whether the target has the object with this definition, or the object can be declared."""
        return self.state in {"make", "made", "there"}


def plan(source: Management, target: Management, names: Mapping[str, str]) -> list[Step]:
    """Return the declarations that the target needs for some queues, in the order to declare them.

    They include the queues, the exchanges that route to the queues or that the queues dead-letter
    to, the bindings between these objects, and the policies that apply to them.

    Args:
        source: the source's management API.
        target: the target's management API.
        names: the names of the queues at the target, by name at the source.

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
    policy_names = {queue.policy for queue in queues}
    policy_names |= {str(exchanges[name].get("policy") or "") for name in needed}
    policies = source.all("policies")
    steps = [_policy_step(policy, version) for policy in policies if policy["name"] in policy_names]
    steps += [
        _exchange_step(exchanges[name])
        for name in sorted(needed)
        if name and not _is_predeclared(name)
    ]
    steps += [_adapted_queue_step(queue, names[queue.name], version) for queue in queues]
    declarable_queues = {step.path[0] for step in steps if step.kind == "queue" and step.path}
    for binding in bindings:
        to_queue = binding["destination_type"] == "queue"
        name = names.get(binding["destination"], "") if to_queue else binding["destination"]
        if binding["source"] in needed and (
            name in declarable_queues if to_queue else name in needed
        ):
            steps.append(_binding_step(binding, name))
    existing = _list_existing(target)
    return [_compare(step, existing) for step in steps]


def declare(
    steps: Iterable[Step], target: Management, on_step: Callable[[Step], None] = lambda _: None
) -> list[Step]:
    """Declare the missing objects. Return all steps with their new states.

    `on_step` is called with each of the returned steps.
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
    """Whether every RabbitMQ has the exchange `name`."""
    return name.startswith("amq.")


def _needed_exchanges(
    names: set[str],
    queues: Iterable[Queue],
    bindings: Iterable[Mapping[str, Any]],
    exchanges: Mapping[str, Mapping[str, Any]],
) -> set[str]:
    """Return the names of the exchanges that some queues need.

    These are the exchanges that route to the queues, also indirectly, the exchanges that the queues
    dead-letter to, and the alternate exchanges of all these exchanges.
    """
    needed = {binding["source"] for binding in bindings if binding["destination"] in names}
    for queue in queues:
        dead_letter_exchange = queue.arguments.get("x-dead-letter-exchange")
        needed.add(str(dead_letter_exchange or queue.effective.get("dead-letter-exchange") or ""))
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
    """Return the step for a policy of the source, adapted to the target's version of RabbitMQ."""
    definition, notes = dict(table(item.get("definition"))), []
    if version >= _4:
        removed = [key for key in (*_MIRRORING_KEYS, "queue-mode") if definition.pop(key, None)]
        if removed:
            notes.append(f"without {', '.join(removed)}, which RabbitMQ 4 does not have")
    if any(key.startswith("federation") for key in definition):
        notes.append("its federation upstreams are not declared")
    name = str(item["name"])
    if not definition:
        return Step("policy", name, state="none", notes=tuple(notes))
    body = {key: item[key] for key in ("pattern", "apply-to", "priority") if key in item}
    return Step("policy", name, (name,), {**body, "definition": definition}, notes=tuple(notes))


def _exchange_step(item: Mapping[str, Any]) -> Step:
    """Return the step for an exchange of the management API."""
    name, kind = str(item["name"]), item["type"]
    flags = {key: bool(item.get(key)) for key in ("durable", "auto_delete", "internal")}
    body = {"type": kind, **flags}
    notes: tuple[str, ...] = ()
    if kind not in EXCHANGE_TYPES:
        notes = (f"{kind} is a type of a plugin, which the target needs, too",)
    arguments = table(item.get("arguments"))
    return Step("exchange", name, (name,), {**body, "arguments": arguments}, notes=notes)


def _adapted_queue_step(queue: Queue, name: str, version: tuple[int, ...]) -> Step:
    """Return the step for a queue of the source, adapted to the target's version of RabbitMQ.

    `name` is the name of the queue at the target.
    """
    if queue.exclusive:
        return Step("queue", name, state="none", notes=(EXCLUSIVE_NOTE,))
    if name.startswith("amq."):
        reason = "the broker chose its name, and no client may declare a queue of such a name"
        return Step("queue", name, state="none", notes=(reason,))
    kind, durable, notes = queue.kind or "classic", queue.durable, []
    arguments = {key: v for key, v in queue.arguments.items() if key != "x-queue-type"}
    mirrored = "ha-mode" in queue.effective and kind == "classic" and version >= _4
    if mirrored:
        overflows = arguments.get("x-overflow"), queue.effective.get("overflow")
        obstacles = ["one with priorities"] if "x-max-priority" in arguments else []
        obstacles += [] if durable else ["transient"]
        obstacles += ["auto-delete"] if queue.auto_delete else []
        obstacles += ["one with reject-publish-dlx"] if "reject-publish-dlx" in overflows else []
        if obstacles:
            reason = f"a quorum queue cannot be {obstacles[0]}"
            notes.append(f"it was mirrored, and has one copy now: {reason}")
        else:
            kind = "quorum"
            notes.append("it was mirrored, and is a quorum queue now")
    if version >= _4:
        removed = [
            key for key in _OBSOLETE_ARGUMENTS if arguments.pop(f"x-{key}", None) is not None
        ]
        if removed:
            notes.append(f"without {', '.join(removed)}, which RabbitMQ 4 ignores or refuses")
    if not durable and version >= _4_3:
        durable = True
        notes.append("it was transient, and is durable now: RabbitMQ 4.3 refuses transient queues")
    return _queue_step(name, queue, durable, {**arguments, "x-queue-type": kind}, notes)


def _queue_step(
    name: str, queue: Queue, durable: bool, arguments: Mapping[str, Any], notes: Iterable[str] = ()
) -> Step:
    """Return the step for a queue, with these properties."""
    body = {"durable": durable, "auto_delete": queue.auto_delete, "arguments": arguments}
    return Step("queue", name, (name,), body, notes=tuple(notes))


def _binding_step(item: Mapping[str, Any], destination: str) -> Step:
    """Return the step for a binding, with `destination` as the queue or exchange at the target."""
    kind, key = item["destination_type"], item["routing_key"]
    path = ("e", str(item["source"]), "q" if kind == "queue" else "e", destination)
    body = {"routing_key": key, "arguments": table(item.get("arguments"))}
    return Step("binding", f"{item['source']} -> {destination} by {key!r}", path, body)


#: The definitions of the objects at the target, by `Step.kind` and `Step.path`.
_Existing = Mapping[tuple[str, tuple[str, ...]], list[Mapping[str, Any]]]


def _list_existing(target: Management) -> _Existing:
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
    existing: dict[tuple[str, tuple[str, ...]], list[Mapping[str, Any]]] = {}
    for step in steps:
        existing.setdefault((step.kind, step.path), []).append(step.body)
    return existing


def _compare(step: Step, existing: _Existing) -> Step:
    """Return a step with the state that results from a comparison with the target's objects."""
    bodies = existing.get((step.kind, step.path))
    if step.state != "make" or bodies is None:
        return step
    if step.body in bodies:
        return attrs.evolve(step, state="there")
    if step.kind == "binding":
        return step  # the target has other bindings of this path, which do not conflict
    (actual, *_), expected = bodies, step.body
    differing = sorted(
        key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key)
    )
    note = "; ".join(f"{key}: {actual.get(key)!r}, not {expected.get(key)!r}" for key in differing)
    return attrs.evolve(step, state="differs", notes=(*step.notes, note))


def plan_of(
    source: Endpoint, target: Endpoint, options: RouteOptions
) -> tuple[list[Step], Management]:
    """Return the declarations for a route, and the target's management API.

    Raises:
        LinkError: an API does not answer.
        ValueError: an API is missing, or an end of the route is not a queue of RabbitMQ.
    """
    declaration = declaration_of(source, target, options)
    steps = plan(declaration.source, declaration.target, declaration.target_name_by_source_name)
    return steps, declaration.target


async def declare_for(
    source: Endpoint, target: Endpoint, options: RouteOptions, log: Callable[..., None]
) -> None:
    """Declare the source's queue at the target of a route, and log each step.

    The requests to the management APIs are sent from threads.
    """
    steps, target_api = await in_thread(plan_of, source, target, options)
    for step in await in_thread(declare, steps, target_api):
        level = logging.INFO if step.is_sound else logging.WARNING
        fields = {"why": "; ".join(step.notes)} if step.notes else {}
        log(f"{step.kind}-{step.state}", level, name=step.name, **fields)
