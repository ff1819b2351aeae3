"""The tables of the documentation: for each profile and property, its translation.

The tables are built by translating samples, so that they cannot differ from the code.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties
from amqp10msg.basic.tables import FieldTable, ScaledDecimal
from amqp10msg.message import Message
from amqp10msg.sections import AmqpSequence, AmqpValue, Data, Header, Properties
from amqp10msg.translate import residual
from amqp10msg.translate.account import format_value, parts_of
from amqp10msg.translate.circumstances import DEFAULT_CIRCUMSTANCES
from amqp10msg.translate.profiles import PROFILES
from amqp10msg.translate.report import Notes
from amqp10msg.wire.errors import TranslationError
from amqp10msg.wire.primitives import Decimal64, Symbol, Timestamp, UInt, ULong

__all__ = ["Row", "to_amqp10_rows", "to_basic_rows"]

_SAMPLE_UUID = uuid.UUID("58b867b0-8151-1f56-1bd4-73229807fd60")


@attrs.frozen
class Row:
    """The translation of a sample message in which a single property is set.

    Attributes:
        label: the property that was set, such as ``delivery-mode 2``.
        becomes: the resulting field and value, such as ``header.durable True``; ``-`` if the value
            is lost, ``residual`` if only the residual has it, ``refused`` if the profile's broker
            rejects the message or crashes on it.
    """

    label: str
    becomes: str


def _with_header(letter: str, value: Any, name: str = "k") -> BasicProperties:
    """Return properties with a single header."""
    return BasicProperties(headers=FieldTable.of([(name, letter, value)]))


_BASIC_SAMPLES: tuple[tuple[str, BasicProperties], ...] = (
    ("content-type `text/plain`", BasicProperties(content_type="text/plain")),
    ("content-encoding `gzip`", BasicProperties(content_encoding="gzip")),
    ("content-encoding `utf-8`", BasicProperties(content_encoding="utf-8")),
    ("delivery-mode 2", BasicProperties(delivery_mode=2)),
    ("delivery-mode 1", BasicProperties(delivery_mode=1)),
    ("priority 7", BasicProperties(priority=7)),
    ("correlation-id `c`", BasicProperties(correlation_id="c")),
    ("reply-to `q`", BasicProperties(reply_to="q")),
    ("expiration `60000`", BasicProperties(expiration="60000")),
    ("expiration `4294967297`", BasicProperties(expiration="4294967297")),
    ("message-id `m`", BasicProperties(message_id="m")),
    ("message-id `urn:uuid:…`", BasicProperties(message_id=f"urn:uuid:{_SAMPLE_UUID}")),
    ("timestamp 7", BasicProperties(timestamp=7)),
    ("type `t`", BasicProperties(type="t")),
    ("user-id `guest`", BasicProperties(user_id="guest")),
    ("app-id `a`", BasicProperties(app_id="a")),
    ("cluster-id `c`", BasicProperties(cluster_id="c")),
    ("header `S`, text", _with_header("S", "v")),
    ("header `S`, not UTF-8", _with_header("S", "\udcff")),
    ("header `I`", _with_header("I", 7)),
    ("header `L`", _with_header("L", 7)),
    ("header `T`", _with_header("T", 7)),
    ("header `D`", _with_header("D", ScaledDecimal(2, 314))),
    ("header `d`, NaN", _with_header("d", float("nan"))),
    ("header `x`", _with_header("x", b"v")),
    ("header `A`", _with_header("A", [7])),
    ("header `x-k`", _with_header("I", 7, "x-k")),
    ("header `x-k`, table", _with_header("F", {"a": 7}, "x-k")),
    ("header `CC`", _with_header("A", ["q"], "CC")),
    ("header `BCC`", _with_header("A", ["q"], "BCC")),
)
_AMQP10_SAMPLES: tuple[tuple[str, Message], ...] = (
    ("durable true", Message(b"", header=Header(durable=True))),
    ("priority 7", Message(b"", header=Header(priority=7))),
    ("priority 100", Message(b"", header=Header(priority=100))),
    ("ttl 60000", Message(b"", header=Header(ttl=60_000))),
    ("first-acquirer true", Message(b"", header=Header(first_acquirer=True))),
    ("message-id `m`", Message(b"", properties=Properties(message_id="m"))),
    ("message-id ulong", Message(b"", properties=Properties(message_id=ULong(7)))),
    ("message-id uuid", Message(b"", properties=Properties(message_id=_SAMPLE_UUID))),
    ("message-id binary", Message(b"", properties=Properties(message_id=b"\xff"))),
    ("user-id `guest`", Message(b"", properties=Properties(user_id=b"guest"))),
    ("to `q`", Message(b"", properties=Properties(to="q"))),
    ("subject `s`", Message(b"", properties=Properties(subject="s"))),
    ("reply-to `/queues/q`", Message(b"", properties=Properties(reply_to="/queues/q"))),
    ("correlation-id `c`", Message(b"", properties=Properties(correlation_id="c"))),
    ("content-type `text/plain`", Message(b"", properties=Properties(content_type="text/plain"))),
    ("content-encoding `gzip`", Message(b"", properties=Properties(content_encoding="gzip"))),
    ("absolute-expiry-time", Message(b"", properties=Properties(absolute_expiry_time=7))),
    ("creation-time 7000", Message(b"", properties=Properties(creation_time=7000))),
    ("creation-time 7001", Message(b"", properties=Properties(creation_time=7001))),
    ("group-id `g`", Message(b"", properties=Properties(group_id="g"))),
    ("group-sequence 7", Message(b"", properties=Properties(group_sequence=7))),
    ("property string", Message(b"", application_properties={"k": "v"})),
    ("property uint", Message(b"", application_properties={"k": UInt(7)})),
    ("property ulong", Message(b"", application_properties={"k": ULong(7)})),
    ("property binary", Message(b"", application_properties={"k": b"v"})),
    ("property symbol", Message(b"", application_properties={"k": Symbol("v")})),
    ("property uuid", Message(b"", application_properties={"k": _SAMPLE_UUID})),
    ("property timestamp", Message(b"", application_properties={"k": Timestamp(7000)})),
    (
        "property decimal64",
        Message(b"", application_properties={"k": Decimal64.from_decimal("3.14")}),
    ),
    ("annotation `x-opt-k`", Message(b"", message_annotations={"x-opt-k": 7})),
    ("annotation `x-opt-k`, map", Message(b"", message_annotations={"x-opt-k": {"a": 7}})),
    ("delivery annotation", Message(b"", delivery_annotations={"x-opt-k": 7})),
    ("footer", Message(b"", footer={"x-opt-k": 7})),
    ("body of one data", Message(Data(b"b"))),
    ("body of two data", Message([Data(b"a"), Data(b"b")])),
    ("body amqp-value", Message(AmqpValue("b"))),
    ("body amqp-sequence", Message(AmqpSequence([7]))),
)


def to_amqp10_rows(profile: str) -> list[Row]:
    """Return the translation of each property of class basic to 1.0.

    Raises:
        KeyError: the profile does not exist.
    """
    samples = [(label, BasicMessage(properties, b"")) for label, properties in _BASIC_SAMPLES]
    return _translate_samples(
        PROFILES[profile].bridge.to_amqp10, BasicMessage(BasicProperties(), b""), samples
    )


def to_basic_rows(profile: str) -> list[Row]:
    """Return the translation of each part of a 1.0 message to class basic.

    Raises:
        KeyError: the profile does not exist.
    """
    return _translate_samples(PROFILES[profile].bridge.to_basic, Message(b""), _AMQP10_SAMPLES)


def _translate_samples(
    translate: Any, empty_message: Any, samples: Iterable[tuple[str, Any]]
) -> list[Row]:
    """Translate samples. Omit parts that the translation of `empty_message` has as well."""

    def translated_parts(message: Any) -> list[tuple[str, Any]] | None:
        try:
            return parts_of(translate(message, Notes(), DEFAULT_CIRCUMSTANCES))
        except TranslationError:
            return None

    defaults = {path: repr(value) for path, value in translated_parts(empty_message) or ()}
    results = [(label, translated_parts(sample)) for label, sample in samples]
    return [
        Row(label, "refused" if result is None else _difference(result, defaults))
        for label, result in results
    ]


def _difference(parts: list[tuple[str, Any]], defaults: dict[str, str]) -> str:
    """Describe the parts of a translated message whose values are not in `defaults`."""
    differing = [
        "residual" if residual.RESIDUAL_NAME in path else f"`{path}` {_format_cell(value)}"
        for path, value in parts
        if defaults.get(path) != repr(value)
    ]
    return ", ".join(differing) or "-"


def _format_cell(value: Any) -> str:
    text = format_value(value, 40).replace("|", "\\|")
    return f"`{text}`"
