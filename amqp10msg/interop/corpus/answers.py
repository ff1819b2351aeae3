"""What becomes of messages and deliveries: the kinds that ask for a decision, and this library's.

- ``filter``: whether a message (`Case.data`) passes the filter ``given["filter"]``, a described
  value in hex. The answer is true, false, ``{"refused": true}`` of a filter that
  is wrong, or ``{"stopped": true}`` of one that cannot be evaluated.
- ``resumption``: what the sender does with a delivery of which the ends state ``sender`` and
  ``receiver``: a delivery state in hex, null, or ``"none"`` where an end does not have it. The
  answer has the ``action``; where a transfer is sent, its ``state`` (hex, or section and offset),
  ``settled``, ``resume`` and ``aborted``; and the ``start`` of the payload, likewise.
- ``translation``: what a message becomes in the other protocol by the profile ``given["profile"]``:
  from 1.0, ``basic`` (property flags and list) and ``body``; from 0-9-1 (flags and list in
  ``given["basic"]``), ``message``. All in hex, or ``{"refused": true}``.
- ``terminus``: which rules a source, a target, a coordinator or a declare breaks, where the
  ``role`` of the end that sends it, the ``link_name``, the ``container_id``, the ``modes`` that its
  node supports and the ``coordinator`` (hex) are as given. The answer has ``violations``: lists of
  a rule, ``error`` or ``warning``, and the offset of the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp10msg import DecodeError, Message, decode_value, scan
from amqp10msg.basic import BasicMessage, decode_properties, encode_properties
from amqp10msg.delivery import (
    Declare,
    DeliveryState,
    Received,
    Source,
    check_declare,
    check_source,
    check_target,
    decode,
    encode,
    resume,
)
from amqp10msg.delivery.filters import EvaluationError, parse
from amqp10msg.translate import Circumstances, TranslationError, to_amqp10, to_basic

#: The kinds of cases that ask for a decision.
QUESTIONS = ("filter", "resumption", "translation", "terminus")
_TAG = b"tag"
_ABSENT = "none"


def answer(kind: str, data: bytes, given: Mapping[str, Any]) -> Any:
    """Return this library's answer to a question.

    Args:
        kind: one of `QUESTIONS`.
        data: the message; of a resumption, its payload.
        given: what the question is about.
    """
    answers = {
        "filter": _filter,
        "resumption": _resumption,
        "translation": _translation,
        "terminus": _terminus,
    }
    return answers[kind](data, given)


def _filter(data: bytes, given: Mapping[str, Any]) -> Any:
    try:
        found = parse(bytes.fromhex(given["filter"]), dialect=given.get("dialect", "rabbitmq"))
        return found.matches(Message.decode(data), now=given.get("now"), local=given.get("local"))
    except DecodeError:
        return {"refused": True}
    except EvaluationError:
        return {"stopped": True}


def _resumption(data: bytes, given: Mapping[str, Any]) -> Any:
    def states(end: str) -> dict[bytes, Any]:
        state = given.get(end)
        if state == _ABSENT:
            return {}
        return {_TAG: None if state is None else decode_value(bytes.fromhex(state))}

    plan = resume(
        states("sender"),
        states("receiver"),
        messages={_TAG: data} if data else (),
        sender_incomplete=given.get("sender_incomplete", False),
        receiver_incomplete=given.get("receiver_incomplete", False),
    )
    step = plan[_TAG]
    made: dict[str, Any] = {"action": str(step.action)}
    if step.sends:
        made |= {
            "state": _state(step.state),
            "settled": step.settled,
            "resume": step.resume,
            "aborted": step.aborted,
        }
    if step.start is not None:
        made["start"] = _state(step.start)
    return made


def _state(state: DeliveryState | None) -> Any:
    if isinstance(state, Received):
        return [int(state.section_number), int(state.section_offset)]
    return None if state is None else encode(state).hex()


def _terminus(data: bytes, given: Mapping[str, Any]) -> Any:
    terminus = decode(data)
    known = dict(given)
    if isinstance(terminus, Declare):
        coordinator = decode(bytes.fromhex(known["coordinator"]))
        found = check_declare(data, coordinator)
    elif isinstance(terminus, Source):
        found = check_source(data, **known)
    else:
        found = check_target(data, **known)
    return {"violations": [[one.rule, one.severity, one.offset] for one in found]}


def _translation(data: bytes, given: Mapping[str, Any]) -> Any:
    profile = given["profile"]
    circumstances = Circumstances(stream_offset=given.get("offset"))
    if "basic" not in given:
        try:
            scan(data)  # what is cut off is not taken for a message
            message = Message.decode(data, strict=False)
            basic = to_basic(message, profile, circumstances=circumstances).message
        except (TranslationError, DecodeError):
            return {"refused": True}
        return {"basic": encode_properties(basic.properties).hex(), "body": basic.body.hex()}
    try:
        published = BasicMessage(
            decode_properties(bytes.fromhex(given["basic"])),
            data,
            given.get("exchange", ""),
            given.get("routing_key", ""),
        )
        made = to_amqp10(published, profile, circumstances=circumstances).message.encode()
    except DecodeError:
        return {"refused": True}
    except TranslationError as error:
        if error.delivered is None:
            return {"refused": True}
        made = error.delivered
    return {"message": made.hex()}
