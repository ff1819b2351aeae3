"""The interface of an implementation under test, and two implementations: this library and proton.

Cases of the following kinds ask a question about a message or a delivery. The input of the question
is `Case.data` and `Case.given`:

- ``filter``: whether a message (`Case.data`) passes the filter ``given["filter"]``, a described
  value in hex. The answer is true, false, ``{"refused": true}`` for an invalid filter, or
  ``{"stopped": true}`` for a filter whose evaluation fails.
- ``resumption``: how the sender resumes a delivery. ``given["sender"]`` and ``given["receiver"]``
  are the delivery states of the two ends: hex, null, or ``"none"`` for an end without the delivery.
  The answer contains the ``action``. If the sender sends a transfer, the answer also contains the
  transfer's ``state`` (hex, or section and offset), ``settled``, ``resume`` and ``aborted``. If the
  transfer has a payload, ``start`` is the position at which it starts, in the form of ``state``.
- ``translation``: a message translated between 1.0 and 0-9-1 with ``given["profile"]``. From 1.0
  to 0-9-1, the answer has ``basic`` (property flags and list) and ``body``. From 0-9-1 (flags and
  list in ``given["basic"]``) to 1.0, it has ``message``. All are in hex; ``{"refused": true}`` if
  the message cannot be translated.
- ``terminus``: the rules that a source, a target, a coordinator or a declare breaks. `Case.given`
  has the ``role`` of the end that sends it, the ``link_name``, the ``container_id``, the ``modes``
  that the node supports, and for a declare the ``coordinator`` (hex). The answer has
  ``violations``: lists of a rule, ``error`` or ``warning``, and the offset of the field.

In AMQP 0-9-1, typed JSON describes the properties of class basic, and field tables:

    ["properties", [["content-type", "text/plain"], ["headers", [["k", ["I", 5]]]]]]
    ["F", [["k", ["I", 5]], ["t", ["T", 1700000000]]]]

A field is a list of its type letter and its value. Integers and text are plain JSON; ``f`` and
``d`` are the hex of their bits, ``x`` is hex, ``D`` is [scale, unscaled], ``F`` and ``A`` are lists
of their fields, and ``V`` has no value. Text that is not UTF-8 is ``{"hex": …}``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from amqp10msg import __version__
from amqp10msg.basic import (
    PROPERTIES,
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    OddTrue,
    ScaledDecimal,
    decode_properties,
    decode_table,
    encode_properties,
    encode_table,
)
from amqp10msg.composite import decode_composite, from_described
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
from amqp10msg.files.recognition import decode_whole
from amqp10msg.interop.corpus.cases import BASIC_KINDS
from amqp10msg.interop.corpus.drivers.proton_data import Driver as ProtonDriver
from amqp10msg.message import Message
from amqp10msg.notation import from_typed, to_typed
from amqp10msg.translate import Circumstances, TranslationError, to_amqp10, to_basic
from amqp10msg.validation import ProfileName, validate
from amqp10msg.wire.errors import AmqpError, DecodeError, expect
from amqp10msg.wire.kernel import COMPILED, decode_value, encode_value
from amqp10msg.wire.limits import Limits

#: The rules of composite types. A value that breaks one can still be decoded as a plain value.
COMPOSITE_RULES = frozenset(
    (
        *("field-type", "mandatory-field-missing", "too-many-fields", "section-value-type"),
        *("field-key-type", "unknown-composite", "not-a-composite"),
    )
)


class RefusedError(AmqpError):
    """An implementation refuses bytes as invalid, which may be the expected result.

    Attributes:
        reason: the implementation's error message.
        rule: the id of the broken rule, as in `DecodeError.rule`; None if unknown.
        offset: the position of the fault in bytes; None if unknown.
    """

    def __init__(self, reason: str, rule: str | None = None, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rule = rule
        self.offset = offset


class UnsupportedError(AmqpError):
    """An implementation lacks a function; steps of cases that need the function are skipped."""


class Implementation(Protocol):
    """The interface that `run` requires of an implementation of AMQP 1.0.

    Values are passed in typed JSON (`amqp10msg.notation`), so that an adapter needs no class of
    this library. If an implementation does not preserve the constructor of an array, the adapter
    writes the element type instead: ``["array", "uint", […]]``.

    Every method may raise `UnsupportedError`, which skips the step of the case. `RefusedError`
    means that the bytes are invalid. Any other exception is recorded as an error of the
    implementation.

    Two methods are optional: ``answer(kind, data, given)`` answers the cases of
    `corpus.QUESTION_KINDS`, and ``limited(limits)`` returns an implementation that enforces
    `Case.limits`.

    Attributes:
        name: the implementation and its version, for the report.
    """

    name: str

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes to typed JSON. `kind` is the kind of the case.

        Raises:
            RefusedError: the bytes are invalid.
        """
        ...

    def encode(self, kind: str, typed: Any) -> bytes:
        """Return the smallest encoding of typed JSON."""
        ...

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        """Return the violations in a message, in any order.

        Each is (rule, severity), or (rule, severity, offset) if the implementation reports offsets.
        """
        ...


class Amqp10msg:
    """This library as an implementation under test.

    Args:
        strict: as in `Message.decode`.
        limits: the limits on the cost of decoding; the defaults of `Limits` if None.
    """

    def __init__(self, *, strict: bool = True, limits: Limits | None = None) -> None:
        self.strict = strict
        self.limits = limits
        kernel = "compiled" if COMPILED else "pure"
        self.name = f"amqp10msg {__version__} ({kernel}, {'strict' if strict else 'lenient'})"

    def limited(self, limits: Mapping[str, int]) -> Amqp10msg:
        """Return an implementation that decodes with these limits."""
        return Amqp10msg(strict=self.strict, limits=Limits(**limits))

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes to typed JSON. `kind` is the kind of the case."""
        limits = self.limits
        try:
            if kind == "message":
                message = Message.decode(data, strict=self.strict, limits=limits)
                typed = to_typed(message)
                if any(section[0] == "raw" for section in typed):
                    Message.decode(data, limits=limits)  # raises the error of the raw section
                return typed
            if kind == "composite":
                return self._decode_composite(data)
            if kind in BASIC_KINDS:
                return _decode_basic(kind, data, limits)
            return to_typed(decode_value(data, limits=limits))
        except DecodeError as error:
            raise RefusedError(str(error), error.rule, error.offset) from error

    def _decode_composite(self, data: bytes) -> Any:
        """Decode a composite. Without `strict`, decode an invalid composite as a plain value."""
        try:
            return to_typed(decode_composite(data, limits=self.limits))
        except DecodeError as error:
            if self.strict or error.rule not in COMPOSITE_RULES:
                raise
            return to_typed(decode_value(data, limits=self.limits))

    def encode(self, kind: str, typed: Any) -> bytes:
        """Encode typed JSON. `kind` is the kind of the case."""
        if kind in BASIC_KINDS:
            return _encode_basic(kind, typed)
        value = from_typed(typed)
        if kind == "message":
            return bytes(value.encode())
        return encode_value(from_described(value) if kind == "composite" else value)

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        """Return the violations in a message as sorted tuples (rule, severity, offset)."""
        violations = validate(data, cast("ProfileName", profile), limits=self.limits)
        return sorted(
            {(violation.rule, violation.severity, violation.offset) for violation in violations},
            key=str,
        )

    def answer(self, kind: str, data: bytes, given: Any) -> Any:
        """Answer a question about a message or a delivery, as the module's documentation describes.

        Raises:
            UnsupportedError: `kind` is not in `QUESTION_KINDS`.
        """
        expect(kind, str, "the kind of answer", "a str")
        decide = _ANSWER_BY_KIND.get(kind)
        if decide is None:
            raise UnsupportedError(f"unknown kind of question {kind!r:.80}")
        return decide(data, given)


class Proton:
    """python-qpid-proton as an implementation under test.

    `proton.Data` decodes values. A message is decoded with `proton.Message`, to find out whether it
    is refused, and then with `proton.Data`, because `proton.Message` does not expose all values.

    Composites are unsupported, because proton has outcomes and termini only in connections.
    Encoding is unsupported, because proton does not choose the smallest encodings.

    Raises:
        ImportError: python-qpid-proton is not installed.
    """

    def __init__(self) -> None:
        try:
            self._driver = ProtonDriver()
        except ImportError:
            raise ImportError(
                "python-qpid-proton is not installed: pip install 'amqp10msg[proton]'"
            ) from None
        self.name = self._driver.name

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes to typed JSON. `kind` is the kind of the case."""
        if kind == "composite":
            raise UnsupportedError("proton decodes composites only within connections")
        try:
            if kind == "message":
                self._driver.check(data)
            return self._driver.decode(kind, data)
        except NotImplementedError as error:
            raise UnsupportedError(str(error)) from None
        except self._driver.refusals as error:
            raise RefusedError(str(error)) from error

    def encode(self, kind: str, typed: Any) -> bytes:  # noqa: ARG002  (one signature for all)
        """Raise `UnsupportedError`."""
        raise UnsupportedError(f"proton does not encode a {kind} in the smallest form")

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        """Raise `UnsupportedError`."""
        raise UnsupportedError(
            f"proton does not validate messages ({len(data)} bytes, profile {profile})"
        )


# Answers to questions. Each function gets `Case.data` and `Case.given`.

# The delivery-tag in a resumption.
_RESUMED_DELIVERY_TAG = b"tag"
# In `Case.given`, the state of an end that does not have the delivery.
_STATE_WITHOUT_DELIVERY = "none"


def _answer_filter(data: bytes, given: Mapping[str, Any]) -> Any:
    try:
        message_filter = parse(
            bytes.fromhex(given["filter"]), dialect=given.get("dialect", "rabbitmq")
        )
        return message_filter.matches(
            Message.decode(data), now=given.get("now"), local=given.get("local")
        )
    except DecodeError:
        return {"refused": True}
    except EvaluationError:
        return {"stopped": True}


def _answer_delivery_resumption(data: bytes, given: Mapping[str, Any]) -> Any:
    """Return as JSON how a sender resumes a delivery (Part 2, 2.6.13)."""

    def states(end: str) -> dict[bytes, Any]:
        state = given.get(end)
        if state == _STATE_WITHOUT_DELIVERY:
            return {}
        return {
            _RESUMED_DELIVERY_TAG: None if state is None else decode_value(bytes.fromhex(state))
        }

    plan = resume(
        states("sender"),
        states("receiver"),
        messages={_RESUMED_DELIVERY_TAG: data} if data else (),
        sender_incomplete=given.get("sender_incomplete", False),
        receiver_incomplete=given.get("receiver_incomplete", False),
    )
    step = plan[_RESUMED_DELIVERY_TAG]
    answer: dict[str, Any] = {"action": str(step.action)}
    if step.sends:
        answer |= {
            "state": _state_to_json(step.state),
            "settled": step.settled,
            "resume": step.resume,
            "aborted": step.aborted,
        }
    if step.start is not None:
        answer["start"] = _state_to_json(step.start)
    return answer


def _state_to_json(state: DeliveryState | None) -> Any:
    if isinstance(state, Received):
        return [int(state.section_number), int(state.section_offset)]
    return None if state is None else encode(state).hex()


def _answer_terminus(data: bytes, given: Mapping[str, Any]) -> Any:
    terminus = decode(data)
    arguments = dict(given)
    if isinstance(terminus, Declare):
        coordinator = decode(bytes.fromhex(arguments["coordinator"]))
        violations = check_declare(data, coordinator)
    elif isinstance(terminus, Source):
        violations = check_source(data, **arguments)
    else:
        violations = check_target(data, **arguments)
    return {
        "violations": [
            [violation.rule, violation.severity, violation.offset] for violation in violations
        ]
    }


def _answer_translation(data: bytes, given: Mapping[str, Any]) -> Any:
    profile = given["profile"]
    circumstances = Circumstances(stream_offset=given.get("offset"))
    if "basic" not in given:
        try:
            basic = to_basic(decode_whole(data), profile, circumstances=circumstances).message
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
        encoded = to_amqp10(published, profile, circumstances=circumstances).message.encode()
    except DecodeError:
        return {"refused": True}
    except TranslationError as error:
        if error.delivered is None:
            return {"refused": True}
        encoded = error.delivered
    return {"message": encoded.hex()}


_ANSWER_BY_KIND = {
    "filter": _answer_filter,
    "resumption": _answer_delivery_resumption,
    "translation": _answer_translation,
    "terminus": _answer_terminus,
}


# Cases of AMQP 0-9-1.


def _decode_basic(kind: str, data: bytes, limits: Limits | None = None) -> list[Any]:
    if kind == "field-table":
        return ["F", _table_to_json(decode_table(data, limits=limits))]
    return _properties_to_json(decode_properties(data, limits=limits))


def _encode_basic(kind: str, typed: Any) -> bytes:
    if kind == "field-table":
        return encode_table(_field_table_from_json(typed[1]))
    return encode_properties(_properties_from_json(typed))


def _properties_to_json(properties: BasicProperties) -> list[Any]:
    entries: list[Any] = []
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if value is not None:
            typed = _table_to_json(value) if row.domain == "table" else _text_to_json(value)
            entries.append([row.wire_name, typed])
    return ["properties", entries]


def _properties_from_json(typed: Any) -> BasicProperties:
    names = {row.wire_name: row for row in PROPERTIES}
    values: dict[str, Any] = {}
    for name, value in typed[1]:
        row = names[name]
        values[row.name] = (
            _field_table_from_json(value) if row.domain == "table" else _text_from_json(value)
        )
    return BasicProperties(**values)


def _text_to_json(value: Any) -> Any:
    """Return text as JSON, or as {"hex": …} if it is not UTF-8. Other values are unchanged."""
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:  # not UTF-8: the str has surrogate escapes (PEP 383)
        return {"hex": value.encode("utf-8", "surrogateescape").hex()}
    return value


def _text_from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")
    return value


def _table_to_json(table: Any) -> list[Any]:
    return [
        [_text_to_json(name), _field_to_json(letter, value)]
        for name, letter, value in table.entries
    ]


def _field_to_json(letter: str, value: Any) -> list[Any]:
    if letter == "V":
        return [letter]
    if letter == "F":
        return [letter, _table_to_json(value)]
    if letter == "A":
        return [letter, [_field_to_json(*entry) for entry in value.entries]]
    if letter == "t":
        return [letter, value.octet if isinstance(value, OddTrue) else bool(value)]
    if letter in "fd":
        return [letter, struct.pack(f">{letter}", value).hex()]
    if letter == "D":
        return [letter, [value.scale, value.unscaled]]
    if isinstance(value, bytes):
        return [letter, value.hex()]
    return [letter, _text_to_json(value) if isinstance(value, str) else int(value)]


def _field_table_from_json(entries: Any) -> FieldTable:
    return FieldTable.of(
        [(_text_from_json(name), field[0], _field_from_json(*field)) for name, field in entries]
    )


def _field_from_json(letter: str, value: Any = None) -> Any:
    if letter == "F":
        return _field_table_from_json(value)
    if letter == "A":
        return FieldArray.of([(field[0], _field_from_json(*field)) for field in value])
    if letter == "t":
        return value if isinstance(value, bool) else OddTrue(value)
    if letter in ("f", "d"):
        return struct.unpack(f">{letter}", bytes.fromhex(value))[0]
    if letter == "D":
        return ScaledDecimal(*value)
    if letter == "x":
        return bytes.fromhex(value)
    return _text_from_json(value)
