"""Operations on a decoded message, compared with decoding it and reading every field.

The best case is the reference message of the other figures; the general one has
application properties of twelve types (`bench.messages`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from amqp10msg import Message, validate
from amqp10msg.notation import from_cbor, from_plain, from_typed, to_cbor, to_plain, to_typed
from amqp10msg.translate import (
    EncodedBasic,
    encoded_to_amqp10,
    encoded_to_basic,
    to_amqp10,
    to_basic,
)
from bench import ours, peers
from bench.harness import Contender, Effort, Timings, measure
from bench.messages import GENERAL, GENERAL_VALUE, REFERENCE
from bench.report import Figure, Floor

READ: Final = "Message.decode, every field read"
#: Has no data body, and a content-type and content-encoding that only data bodies may have.
BROKEN: Final = GENERAL_VALUE
PROFILES: Final = ("lossless", "rabbitmq-3.10", "rabbitmq-4.0", "rabbitmq-4.3")
BY_HAND: Final = "proton.Message, filled by hand"


def _at_most(timings: Timings, floors: Iterable[tuple[str, float]]) -> tuple[Floor, ...]:
    """Return floors relative to the time of decoding and reading."""
    return tuple(
        Floor(f"{name}: at most {most:g}x decode and read", timings.ratio(name, READ), at_most=most)
        for name, most in floors
    )


def _figure(
    key: str,
    title: str,
    calls: Mapping[str, Callable[[], object]],
    data: bytes,
    floors: Mapping[str, float],
    effort: Effort,
    left_out: tuple[str, ...] = (),
) -> Figure:
    contenders = [Contender(name, call) for name, call in calls.items()]
    contenders.append(Contender(READ, partial(ours.read, data)))
    timings = measure(contenders, effort)
    return Figure(key, title, timings, _at_most(timings, floors.items()), left_out)


def run_validate(effort: Effort) -> Figure:
    """Measure validation of valid messages, and of one with two violations."""
    calls = {
        ours.NAME: partial(validate, GENERAL),
        "the best case": partial(validate, REFERENCE),
        "profile rabbitmq-4": partial(validate, GENERAL, "rabbitmq-4"),
        "a message with two violations": partial(validate, BROKEN),
    }
    floors = {ours.NAME: 4, "profile rabbitmq-4": 4, "a message with two violations": 20}
    title = "Validate the general message"
    return _figure("validate", title, calls, GENERAL, floors, effort)


def run_notation(effort: Effort) -> Figure:
    """Measure writing and reading the general message in every notation."""
    message = Message.decode(GENERAL)
    typed, plain = to_typed(message), to_plain(message)
    calls: dict[str, Callable[[], object]] = {
        ours.NAME: partial(to_typed, message),
        "from_typed": partial(from_typed, typed),
        "to_plain": partial(to_plain, message),
        "from_plain": partial(from_plain, plain),
        "repr": partial(repr, message),
        "json.dumps of the typed form": partial(json.dumps, typed),
        "json.loads of the typed form": partial(json.loads, json.dumps(typed)),
        "json.dumps of the plain form": partial(json.dumps, plain),
        "json.loads of the plain form": partial(json.loads, json.dumps(plain)),
    }
    floors = {ours.NAME: 5, "from_typed": 10, "to_plain": 5, "from_plain": 5}
    left_out: tuple[str, ...] = ("cbor2 is left out: pip install cbor2",)
    if find_spec("cbor2") is not None:
        cbor2 = import_module("cbor2")
        calls["to_cbor"] = partial(to_cbor, message)
        calls["from_cbor"] = partial(from_cbor, to_cbor(message))
        calls["cbor2 alone, the plain form"] = partial(cbor2.dumps, plain)
        calls["cbor2 alone, the plain form read"] = partial(cbor2.loads, cbor2.dumps(plain))
        floors |= {"to_cbor": 9, "from_cbor": 9}
        left_out = ()
    title = "Write the general message as typed JSON"
    return _figure("notation", title, calls, GENERAL, floors, effort, left_out)


def run_change(effort: Effort) -> Figure:
    """Measure encoding: of an unchanged message, a changed priority, and all new sections."""
    message, best = Message.decode(GENERAL), Message.decode(REFERENCE)
    calls: dict[str, Callable[[], object]] = {
        ours.NAME: partial(changed, GENERAL),
        "encode, nothing changed": message.encode,
        "encode, another priority": partial(prioritized, Message.decode(GENERAL)),
        "encode, built anew": copy(message).encode,
        "the best case, another priority": partial(prioritized, best),
        "the best case, decoded and read": partial(ours.read, REFERENCE),
    }
    title = "Decode the general message, set its priority, encode it"
    floors = {"encode, another priority": 1, "encode, built anew": 1}
    return _figure("change", title, calls, GENERAL, floors, effort)


def copy(message: Message) -> Message:
    """Return a new message with the same sections."""
    return Message(
        message.body,
        header=message.header,
        message_annotations=message.message_annotations,
        properties=message.properties,
        application_properties=message.application_properties,
    )


def prioritized(message: Message) -> bytes:
    """Set a different priority, and encode the message."""
    header: Any = message.header
    header.priority = 3
    return message.encode()


def changed(data: bytes) -> bytes:
    """Decode, set the priority, encode."""
    message: Any = Message.decode(data)
    message.header.priority = 3
    octets: bytes = message.encode()
    return octets


def run_translate(effort: Effort) -> Figure:
    """Measure translating the general message to 0-9-1 and back in every profile."""
    calls: dict[str, Callable[[], object]] = {}
    floors: dict[str, float] = {}
    for body, data in (("", GENERAL), (", a map as body", GENERAL_VALUE)):
        for profile in PROFILES:
            message = Message.decode(data)
            basic = to_basic(message, profile).message
            content = EncodedBasic.of(basic)
            name = f"to_basic {profile}{body}" if calls else ours.NAME
            calls[name] = partial(to_basic, message, profile)
            calls[f"to_amqp10 {profile}{body}"] = partial(to_amqp10, basic, profile)
            floors |= dict.fromkeys(list(calls)[-2:], 3)
            calls[f"encoded_to_basic {profile}{body}"] = partial(encoded_to_basic, data, profile)
            calls[f"encoded_to_amqp10 {profile}{body}"] = partial(
                encoded_to_amqp10, content, profile
            )
            floors |= dict.fromkeys(list(calls)[-2:], 1.5)
    # A higher floor: a residual is used only if translating its message back gives the same input.
    floors |= {name: 2 for name in floors if name.startswith("encoded_to_amqp10 lossless")}
    title = "Translate the general message to 0-9-1, profile lossless"
    return _figure("translate-general", title, calls, GENERAL, floors, effort)


def run_proton(effort: Effort) -> Figure:
    """Measure conversion to a proton.Message, next to code that fills one."""
    from amqp10msg.interop.proton import from_proton, to_proton  # noqa: PLC0415 - without it no import

    _, left_out = peers.load(peers.PROTON)
    message = Message.decode(GENERAL)
    proton: Any = import_module("bench.peers.proton")
    calls: dict[str, Callable[[], object]] = {
        ours.NAME: partial(to_proton, message),
        "from_proton": partial(from_proton, to_proton(message)),
        BY_HAND: proton.build_general,
    }
    figure = _figure(
        "proton", "Convert the general message to proton's", calls, GENERAL, {}, effort, left_out
    )
    share = figure.timings.share(BY_HAND)
    floor = Floor("at most 1.3x the time of filling it by hand", share, at_most=1.3)
    return Figure(figure.key, figure.title, figure.timings, (floor,), left_out)
