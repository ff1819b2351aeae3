"""What a run asks of an implementation, and two of them in this process: this library, and proton.

What becomes of messages and deliveries is asked by these kinds of cases:

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

Messages of AMQP 0-9-1 are in typed JSON the properties of class basic, and field tables:

    ["properties", [["content-type", "text/plain"], ["headers", [["k", ["I", 5]]]]]]
    ["F", [["k", ["I", 5]], ["t", ["T", 1700000000]]]]

A field is its letter and its value: numbers and text as such, ``f`` and ``d`` as the hex of their
bits, ``x`` as hex, ``D`` as [scale, unscaled], ``F`` and ``A`` as what is in them, ``V`` alone.
Text that is not UTF-8 is ``{"hex": …}``.
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

#: What a value may break that is meant as a composite.
COMPOSITE_RULES = frozenset(
    (
        *("field-type", "mandatory-field-missing", "too-many-fields", "section-value-type"),
        *("field-key-type", "unknown-composite", "not-a-composite"),
    )
)


class RefusedError(AmqpError):
    """An implementation refuses the bytes of a case, as some cases expect.

    Attributes:
        reason: the implementation's own words.
        rule: the id of the rule in this library, or None if the implementation has no such ids.
        offset: where, in bytes, or None if the implementation does not say.
    """

    def __init__(self, reason: str, rule: str | None = None, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rule = rule
        self.offset = offset


class UnsupportedError(AmqpError):
    """An implementation lacks a function; the cases that need it are skipped."""


class Implementation(Protocol):
    """What `run` asks of an implementation of AMQP 1.0.

    Values are passed in typed JSON (`amqp10msg.notation`), so an adapter needs no class of this
    library. Where an implementation does not keep the constructor of an array, the adapter names
    the type in its place: ``["array", "uint", […]]``.

    Every method may raise `UnsupportedError`. Any other exception but `RefusedError` counts as an
    error of the implementation.

    One that decides what becomes of messages and deliveries, as the cases of `corpus.QUESTIONS`
    ask, has a method ``answer(kind, data, given)``. One with limits has a method
    ``limited(limits)``, which takes `Case.limits` and returns an implementation that keeps them.

    Attributes:
        name: the implementation and its version, for the report.
    """

    name: str

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes of this kind, as in `Case.kind`, to typed JSON.

        Raises:
            RefusedError: the bytes are invalid.
        """
        ...

    def encode(self, kind: str, typed: Any) -> bytes:
        """Encode typed JSON, in the smallest encoding."""
        ...

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        """Return the rules that a message violates, in any order.

        Each is (rule, severity), or (rule, severity, offset) where the implementation says it.
        """
        ...


class Amqp10msg:
    """This library.

    Args:
        strict: as in `Message.decode`.
        limits: what decoding may cost; the defaults of `Limits` if None.
    """

    def __init__(self, *, strict: bool = True, limits: Limits | None = None) -> None:
        self.strict = strict
        self.limits = limits
        kernel = "compiled" if COMPILED else "pure"
        self.name = f"amqp10msg {__version__} ({kernel}, {'strict' if strict else 'lenient'})"

    def limited(self, limits: Mapping[str, int]) -> Amqp10msg:
        """Return an implementation that decodes within these limits."""
        return Amqp10msg(strict=self.strict, limits=Limits(**limits))

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes of this kind to typed JSON."""
        limits = self.limits
        try:
            if kind == "message":
                message = Message.decode(data, strict=self.strict, limits=limits)
                typed = to_typed(message)
                if any(section[0] == "raw" for section in typed):
                    Message.decode(data, limits=limits)  # says why this was kept and not read
                return typed
            if kind == "composite":
                return self._composite(data)
            if kind in BASIC_KINDS:
                return _decode_basic(kind, data, limits)
            return to_typed(decode_value(data, limits=limits))
        except DecodeError as error:
            raise RefusedError(str(error), error.rule, error.offset) from error

    def _composite(self, data: bytes) -> Any:
        """Return a composite; leniently, what breaks its declaration as the value that it is."""
        try:
            return to_typed(decode_composite(data, limits=self.limits))
        except DecodeError as error:
            if self.strict or error.rule not in COMPOSITE_RULES:
                raise
            return to_typed(decode_value(data, limits=self.limits))

    def encode(self, kind: str, typed: Any) -> bytes:
        """Encode typed JSON of this kind."""
        if kind in BASIC_KINDS:
            return _encode_basic(kind, typed)
        made = from_typed(typed)
        if kind == "message":
            return bytes(made.encode())
        return encode_value(from_described(made) if kind == "composite" else made)

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        """Return the rules that a message violates, with their severities and offsets."""
        found = validate(data, cast("ProfileName", profile), limits=self.limits)
        return sorted({(one.rule, one.severity, one.offset) for one in found}, key=str)

    def answer(self, kind: str, data: bytes, given: Any) -> Any:
        """Decide what becomes of a message or delivery; of a resumption, `data` is the payload.

        Raises:
            UnsupportedError: `kind` is not one of `QUESTIONS`.
        """
        expect(kind, str, "the kind of answer", "a str")
        decide = _ANSWERS.get(kind)
        if decide is None:
            raise UnsupportedError(f"there are no questions of the kind {kind!r:.80}")
        return decide(data, given)


class Proton:
    """python-qpid-proton: its codec (`proton.Data`), and `proton.Message` for what it refuses.

    It does not support composites, as proton has classes for outcomes and termini only in
    connections, nor encoding, as proton chooses other forms than the smallest ones.

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
        """Decode bytes of this kind to typed JSON."""
        if kind == "composite":
            raise UnsupportedError("proton has no composites outside of connections")
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
        raise UnsupportedError(f"proton cannot validate {len(data)} bytes by {profile}")


# Questions.

_TAG = b"tag"
_ABSENT = "none"


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
        made = to_amqp10(published, profile, circumstances=circumstances).message.encode()
    except DecodeError:
        return {"refused": True}
    except TranslationError as error:
        if error.delivered is None:
            return {"refused": True}
        made = error.delivered
    return {"message": made.hex()}


_ANSWERS = {
    "filter": _filter,
    "resumption": _resumption,
    "translation": _translation,
    "terminus": _terminus,
}


# Kinds of AMQP 0-9-1.


def _decode_basic(kind: str, data: bytes, limits: Limits | None = None) -> list[Any]:
    """Decode bytes of one of these kinds to typed JSON."""
    if kind == "field-table":
        return ["F", _table(decode_table(data, limits=limits))]
    return _typed_properties(decode_properties(data, limits=limits))


def _encode_basic(kind: str, typed: Any) -> bytes:
    """Encode typed JSON of one of these kinds."""
    if kind == "field-table":
        return encode_table(_table_of(typed[1]))
    return encode_properties(_properties_of(typed))


def _typed_properties(properties: BasicProperties) -> list[Any]:
    """Return properties in typed JSON."""
    found: list[Any] = []
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if value is not None:
            shown = _table(value) if row.domain == "table" else _text(value)
            found.append([row.wire_name, shown])
    return ["properties", found]


def _properties_of(typed: Any) -> BasicProperties:
    """Return the properties of typed JSON."""
    names = {row.wire_name: row for row in PROPERTIES}
    given: dict[str, Any] = {}
    for name, value in typed[1]:
        row = names[name]
        given[row.name] = _table_of(value) if row.domain == "table" else _str(value)
    return BasicProperties(**given)


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:  # PEP 383
        return {"hex": value.encode("utf-8", "surrogateescape").hex()}
    return value


def _str(value: Any) -> Any:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")
    return value


def _table(table: Any) -> list[Any]:
    return [[_text(name), _field(letter, value)] for name, letter, value in table.entries]


def _field(letter: str, value: Any) -> list[Any]:
    if letter == "V":
        return [letter]
    if letter == "F":
        return [letter, _table(value)]
    if letter == "A":
        return [letter, [_field(*entry) for entry in value.entries]]
    if letter == "t":
        return [letter, value.octet if isinstance(value, OddTrue) else bool(value)]
    if letter in "fd":
        return [letter, struct.pack(f">{letter}", value).hex()]
    if letter == "D":
        return [letter, [value.scale, value.unscaled]]
    if isinstance(value, bytes):
        return [letter, value.hex()]
    return [letter, _text(value) if isinstance(value, str) else int(value)]


def _table_of(entries: Any) -> FieldTable:
    return FieldTable.of([(_str(name), field[0], _value(*field)) for name, field in entries])


def _value(letter: str, value: Any = None) -> Any:
    if letter == "F":
        return _table_of(value)
    if letter == "A":
        return FieldArray.of([(field[0], _value(*field)) for field in value])
    if letter == "t":
        return value if isinstance(value, bool) else OddTrue(value)
    if letter in ("f", "d"):
        return struct.unpack(f">{letter}", bytes.fromhex(value))[0]
    if letter == "D":
        return ScaledDecimal(*value)
    if letter == "x":
        return bytes.fromhex(value)
    return _str(value)
