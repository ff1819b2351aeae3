"""Operations on a decoded message, compared with decoding it and reading every field.

Every operation is measured on the ordinary message, which is the subject of each figure, and on the
general and the tiny message (`bench.messages`). A floor is relative to decoding and reading the
same message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from amqp10msg import Header, Message, validate
from amqp10msg.notation import from_cbor, from_plain, from_typed, to_cbor, to_plain, to_typed
from amqp10msg.translate import (
    EncodedBasic,
    encoded_to_amqp10,
    encoded_to_basic,
    to_amqp10,
    to_basic,
)
from bench import ours, peers
from bench.harness import Contender, Effort, measure
from bench.messages import GENERAL, GENERAL_VALUE, ORDINARY, ORDINARY_BROKEN, TINY
from bench.report import Figure, Floor

#: The messages by the name that the rows have; the ordinary one is first.
MESSAGES: Final = {"ordinary": ORDINARY, "general": GENERAL, "tiny": TINY}
#: Has no data body, and a content-type and content-encoding that only data bodies may have.
BROKEN: Final = GENERAL_VALUE
#: Messages with two violations, by the message that they are made from.
WITH_VIOLATIONS: Final = {"ordinary": ORDINARY_BROKEN, "general": BROKEN}
PROFILES: Final = ("lossless", "rabbitmq-3.10", "rabbitmq-4.0", "rabbitmq-4.3")
#: The messages that are translated: also one whose body 0-9-1 has no type for.
TRANSLATED: Final = {**MESSAGES, "map": GENERAL_VALUE}
BY_HAND: Final = "proton.Message, filled by hand"


class Use(NamedTuple):
    """One operation on one message.

    Attributes:
        verb: the operation.
        message: the name of the message, a key of `TRANSLATED`.
        call: performs the operation.
        at_most: the floor, as a multiple of the time of decoding and reading the message; None for
            no floor.
    """

    verb: str
    message: str
    call: Callable[[], object]
    at_most: float | None = None


def _figure(
    key: str,
    title: str,
    uses: list[Use],
    effort: Effort,
    others: Mapping[str, Callable[[], object]] | None = None,
    left_out: tuple[str, ...] = (),
) -> Figure:
    """Measure operations, the first of which is the figure's subject; `others` have no floor."""
    names = [ours.NAME, *(f"{use.verb}, {use.message}" for use in uses[1:])]
    contenders = [Contender(name, use.call) for name, use in zip(names, uses, strict=True)]
    contenders += [Contender(name, call) for name, call in (others or {}).items()]
    for message in dict.fromkeys(use.message for use in uses):
        contenders.append(Contender(_reading(message), partial(ours.read, TRANSLATED[message])))
    timings = measure(contenders, effort)
    floors = tuple(
        Floor(
            f"{use.verb}, {use.message}: at most {use.at_most:g}x decode and read",
            timings.ratio(name, _reading(use.message)),
            at_most=use.at_most,
        )
        for name, use in zip(names, uses, strict=True)
        if use.at_most is not None
    )
    return Figure(key, title, timings, floors, left_out)


def _reading(message: str) -> str:
    """Return the name of the contender that decodes a message and reads every field."""
    return f"decode and read, {message}"


def run_validate(effort: Effort) -> Figure:
    """Measure validation of valid messages, and of messages with two violations."""
    uses = [
        Use("validate", message, partial(validate, MESSAGES[message]), at_most)
        for message, at_most in (("ordinary", 1.3), ("general", 1.3), ("tiny", 2))
    ]
    for message, at_most in (("ordinary", 9), ("general", 9)):
        broken = partial(validate, WITH_VIOLATIONS[message])
        uses.append(Use("validate as rabbitmq-4", message, _as_rabbitmq(message), 2))
        uses.append(Use("validate with two violations", message, broken, at_most))
    return _figure("validate", "Validate the ordinary message", uses, effort)


def _as_rabbitmq(message: str) -> Callable[[], object]:
    """Return a call that validates a message in the profile rabbitmq-4."""
    return partial(validate, MESSAGES[message], "rabbitmq-4")


def run_notation(effort: Effort) -> Figure:
    """Measure writing and reading messages in every notation."""
    uses: list[Use] = []
    others: dict[str, Callable[[], object]] = {}
    cbor2: Any = import_module("cbor2") if find_spec("cbor2") is not None else None
    for name, data in MESSAGES.items():
        message = Message.decode(data)
        typed, plain = to_typed(message), to_plain(message)
        # The tiny message shows the fixed costs, and has no floors.
        floors = {"ordinary": (1.85, 2, 4, 4, 18, 18), "general": (1.5, 2, 4, 4, 9, 9)}
        of_typed, of_from_typed, *of_plain, of_cbor, of_from_cbor = floors.get(name, [None] * 6)
        uses += [
            Use("to_typed", name, partial(to_typed, message), of_typed),
            Use("from_typed", name, partial(from_typed, typed), of_from_typed),
            Use("to_plain", name, partial(to_plain, message), of_plain[0]),
            Use("from_plain", name, partial(from_plain, plain), of_plain[1]),
            Use("repr", name, partial(repr, message)),
        ]
        if cbor2 is not None:
            uses.append(Use("to_cbor", name, partial(to_cbor, message), of_cbor))
            uses.append(Use("from_cbor", name, partial(from_cbor, to_cbor(message)), of_from_cbor))
            others |= {
                f"cbor2 alone, the plain form, {name}": partial(cbor2.dumps, plain),
                f"cbor2 alone, the plain form read, {name}": partial(
                    cbor2.loads, cbor2.dumps(plain)
                ),
            }
        others |= {
            f"json.dumps of the typed form, {name}": partial(json.dumps, typed),
            f"json.loads of the typed form, {name}": partial(json.loads, json.dumps(typed)),
            f"json.dumps of the plain form, {name}": partial(json.dumps, plain),
            f"json.loads of the plain form, {name}": partial(json.loads, json.dumps(plain)),
        }
    left_out = () if cbor2 is not None else ("cbor2 is left out: pip install cbor2",)
    title = "Write the ordinary message as typed JSON"
    return _figure("notation", title, uses, effort, others, left_out)


def run_change(effort: Effort) -> Figure:
    """Measure encoding: of an unchanged message, a changed priority, and all new sections."""
    uses: list[Use] = []
    for name, data in MESSAGES.items():
        message = Message.decode(data)
        prioritize = partial(prioritized, Message.decode(data))
        at_most = None if name == "tiny" else 1
        uses += [
            Use("decode, set the priority, encode", name, partial(changed, data)),
            Use("encode, nothing changed", name, message.encode),
            Use("encode, another priority", name, prioritize, at_most),
            Use("encode, built anew", name, copy(message).encode, at_most),
        ]
    title = "Decode the ordinary message, set its priority, encode it"
    return _figure("change", title, uses, effort)


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
    if message.header is None:
        message.header = Header()
    message.header.priority = 3
    return message.encode()


def changed(data: bytes) -> bytes:
    """Decode, set the priority, encode."""
    return prioritized(Message.decode(data))


def run_translate(effort: Effort) -> Figure:
    """Measure translating messages to 0-9-1 and back in every profile."""
    uses: list[Use] = []
    for name, data in TRANSLATED.items():
        for profile in PROFILES:
            message = Message.decode(data)
            basic = to_basic(message, profile).message
            content = EncodedBasic.of(basic)
            calls: tuple[tuple[str, Callable[[], object]], ...] = (
                ("to_basic", partial(to_basic, message, profile)),
                ("to_amqp10", partial(to_amqp10, basic, profile)),
                ("encoded_to_basic", partial(encoded_to_basic, data, profile)),
                ("encoded_to_amqp10", partial(encoded_to_amqp10, content, profile)),
            )
            floors = _translation_floors(name, profile)
            uses += [
                Use(f"{verb} {profile}", name, call, at_most)
                for (verb, call), at_most in zip(calls, floors, strict=True)
            ]
    title = "Translate the ordinary message to 0-9-1, profile lossless"
    return _figure("translate-profiles", title, uses, effort)


def _translation_floors(name: str, profile: str) -> tuple[float | None, ...]:
    """Return the floors of a message: to 0-9-1 and to 1.0 of objects, then of bytes."""
    if name == "tiny":
        return (None,) * 4
    # A residual is used only if translating its message back gives the same input.
    if name == "ordinary":
        return (2.5, 3.2, 1.4, 1.9) if profile == "lossless" else (2.6, 2.6, 1.2, 1.2)
    return (2, 2.5, 0.9, 1.3) if profile == "lossless" else (1.8, 1.8, 0.7, 0.7)


def run_proton(effort: Effort) -> Figure:
    """Measure conversion to a proton.Message, next to code that fills one."""
    from amqp10msg.interop.proton import from_proton, to_proton  # noqa: PLC0415 - without it no import

    _, left_out = peers.load(peers.PROTON)
    uses: list[Use] = []
    for name, data in MESSAGES.items():
        message = Message.decode(data)
        uses.append(Use("to_proton", name, partial(to_proton, message)))
        uses.append(Use("from_proton", name, partial(from_proton, to_proton(message))))
    proton: Any = import_module("bench.peers.proton")
    others = {BY_HAND: proton.build_general}
    title = "Convert the ordinary message to proton's"
    figure = _figure("proton", title, uses, effort, others, left_out)
    share = figure.timings.ratio("to_proton, general", BY_HAND)
    floor = Floor("general: at most 1.3x the time of filling it by hand", share, at_most=1.3)
    return Figure(figure.key, figure.title, figure.timings, (floor,), left_out)
