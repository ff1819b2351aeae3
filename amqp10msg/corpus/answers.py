"""What becomes of messages and deliveries: the kinds that ask for a decision, and this library's.

- ``filter``: whether a message (`Case.data`) passes the filter ``given["filter"]``, a described
  value in hex. The answer is true, false, or the rule by which the filter is refused.
- ``resumption``: what the sender does with a delivery of which both ends state ``sender`` and
  ``receiver``: a delivery state in hex, null, or ``"none"`` where an end does not have it.
- ``translation``: what a message becomes in the other protocol by the profile ``given["profile"]``:
  from 1.0, the property list of 0-9-1 and the body; from 0-9-1 (``given["basic"]``), a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp10msg import DecodeError, EncodeError, Message, decode_value
from amqp10msg.basic import BasicMessage, decode_properties, encode_properties
from amqp10msg.delivery import ResumeAction, encode, resume
from amqp10msg.delivery.filters import EvaluationError, parse
from amqp10msg.translate import TranslationError, to_amqp10, to_basic

__all__ = ["QUESTIONS", "answer"]

#: The kinds of cases that ask for a decision.
QUESTIONS = ("filter", "resumption", "translation")
_TAG = b"tag"
_ABSENT = "none"


def answer(kind: str, data: bytes, given: Mapping[str, Any]) -> Any:
    """Return this library's answer to a question.

    Args:
        kind: one of `QUESTIONS`.
        data: the message; of a resumption, its payload.
        given: what the question is about.
    """
    return {"filter": _filter, "resumption": _resumption, "translation": _translation}[kind](
        data, given
    )


def _filter(data: bytes, given: Mapping[str, Any]) -> Any:
    try:
        found = parse(bytes.fromhex(given["filter"]), dialect=given.get("dialect", "rabbitmq"))
        return found.matches(Message.decode(data), now=given.get("now"), local=given.get("local"))
    except DecodeError as error:
        return {"refused": error.rule}
    except EvaluationError:
        return {"refused": "not-evaluable"}


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
    made: dict[str, Any] = {"action": str(step.action), "may_send_new": plan.may_send_new}
    if step.sends and step.action is not ResumeAction.NOTHING:
        state = None if step.state is None else encode(step.state).hex()
        made |= {
            "state": state,
            "settled": step.settled,
            "resume": step.resume,
            "aborted": step.aborted,
        }
        if step.start is not None:
            made["start"] = [int(step.start.section_number), int(step.start.section_offset)]
    if step.then is not ResumeAction.NOTHING:
        made["then"] = str(step.then)
    return made | {"waits": step.waits, "keeps": step.keeps}


def _translation(data: bytes, given: Mapping[str, Any]) -> Any:
    profile = given["profile"]
    try:
        if "basic" not in given:
            basic = to_basic(Message.decode(data), profile).message
            return {"basic": encode_properties(basic.properties).hex(), "body": basic.body.hex()}
        message = BasicMessage(
            decode_properties(bytes.fromhex(given["basic"])),
            data,
            exchange=given.get("exchange", ""),
            routing_key=given.get("routing_key", ""),
        )
        return {"message": to_amqp10(message, profile).message.encode().hex()}
    except (TranslationError, DecodeError, EncodeError):
        return {"refused": True}
