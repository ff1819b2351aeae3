"""AMQP 0-9-1: properties, adapters of clients, older classes, translation to and from 1.0."""

from __future__ import annotations

import decimal
import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from amqp10msg import AmqpSequence, Message, basic, translate
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    ContentHeader,
    FieldTable,
    ScaledDecimal,
    adapters,
    classes,
)
from amqp10msg.delivery import Declared
from amqp10msg.translate import Circumstances, Death, EncodedBasic, correspondence, settlement
from tests.documented_raises.calls import Call, Row, Rows, without

NO_FIELD = object()
#: Properties of a client, as the adapters read them.
WIDE = SimpleNamespace(headers={"k": 2**63})
UNKNOWN = SimpleNamespace(headers={"k": NO_FIELD})
WRONG_ID = BasicProperties(message_id=7)  # type: ignore[arg-type]
WRONG_KEY = BasicMessage(BasicProperties(), b"", routing_key="k" * 256)
CUT = b"\x00\x3c\x00\x00" + bytes(8) + b"\x80\x00\x05x"
LONG_BODY = basic.encode_content_header(BasicProperties(), 7)


def _delivery(library: str) -> Any:
    """Return the method that `library` passes to a consumer with a message."""
    if library == "pika":
        pytest.importorskip("pika")
        return importlib.import_module("pika.spec").Basic.Deliver(exchange="e", routing_key="k")
    pytest.importorskip("pamqp")
    return importlib.import_module("pamqp.commands").Basic.Deliver(exchange="e", routing_key="k")


def _from_client(function: Call) -> dict[str, Row]:
    return {
        "TypeError": [lambda: function(7), lambda: function(UNKNOWN)],
        "ValueError": lambda: function(WIDE),
    }


def _message_from(function: Call, library: str) -> dict[str, Row]:
    return {
        "TypeError": [
            lambda: function(None, "text"),
            lambda: function(UNKNOWN, b""),
            lambda: function(None, b"", 7),
            lambda: function(_delivery(library), SimpleNamespace(headers=None), b""),
        ],
        "ValueError": lambda: function(WIDE, b""),
    }


def _circumstances(made: Call) -> dict[str, Row]:
    return {
        "TypeError": lambda: made(given_back="released"),
        "ValueError": [
            lambda: made(given_back=["lost"]),
            lambda: made(queue_type="priority"),
            lambda: made(annotations={"k": 1}),
        ],
    }


def _death(**changes: Any) -> Death:
    return Death("q", "expired", 0, **changes)


BASIC: Rows = {
    "basic.ScaledDecimal.from_decimal": {
        "EncodeError": [
            lambda: ScaledDecimal.from_decimal(decimal.Decimal("1E300")),
            lambda: ScaledDecimal.from_decimal(decimal.Decimal(12345678901)),
            lambda: ScaledDecimal.from_decimal(decimal.Decimal("NaN")),
            lambda: ScaledDecimal.from_decimal(decimal.Decimal("sNaN")),
            lambda: ScaledDecimal.from_decimal(decimal.Decimal("Infinity")),
        ]
    },
    "basic.check_properties": {"TypeError": lambda: basic.check_properties(7)},  # type: ignore[arg-type]
    "basic.decode_content_header": {
        "DecodeError": [
            lambda: basic.decode_content_header(b""),
            lambda: basic.decode_content_header(CUT),
            lambda: basic.decode_content_header(b"\x00\x46" + CUT[2:]),
        ]
    },
    "basic.decode_field": {
        "DecodeError": [
            lambda: basic.decode_field(b""),
            lambda: basic.decode_field(b"I\x00"),
            lambda: basic.decode_field(b"VV"),
            lambda: basic.decode_field(b"?"),
        ]
    },
    "basic.decode_properties": {
        "DecodeError": [
            lambda: basic.decode_properties(b""),
            lambda: basic.decode_properties(b"\0\0\0"),
            lambda: basic.decode_properties(b"\0\x02"),
            lambda: basic.decode_properties(b"\x20\0\0\0\0\x03\x01k?"),
        ]
    },
    "basic.decode_table": {
        "DecodeError": [
            lambda: basic.decode_table(b""),
            lambda: basic.decode_table(b"\0\0\0\0\0"),
            lambda: basic.decode_table(b"\0\0\0\x03\x01k?"),
        ]
    },
    "basic.encode_content_header": {
        "EncodeError": [
            lambda: basic.encode_content_header(WRONG_ID),
            lambda: basic.encode_content_header(BasicProperties(), -1),
            lambda: basic.encode_content_header(ContentHeader(weight=2**16)),
        ]
    },
    "basic.encode_field": {
        "EncodeError": [
            lambda: basic.encode_field("I", "x"),
            lambda: basic.encode_field("k", 1),
            lambda: basic.encode_field("b", 2**7),
        ],
        "ValueError": lambda: basic.encode_field("I", 1, dialect="amqp"),  # type: ignore[arg-type]
    },
    "basic.encode_properties": {
        "EncodeError": lambda: basic.encode_properties(WRONG_ID),
        "TypeError": lambda: basic.encode_properties({}),  # type: ignore[arg-type]
        "ValueError": lambda: basic.encode_properties(BasicProperties(), dialect="amqp"),  # type: ignore[arg-type]
    },
    "basic.encode_table": {
        "EncodeError": [
            lambda: basic.encode_table({"k": NO_FIELD}),
            lambda: basic.encode_table({"k" * 256: 1}),
            lambda: basic.encode_table({7: 1}),  # type: ignore[dict-item]
        ],
        "ValueError": lambda: basic.encode_table({}, dialect="amqp"),  # type: ignore[arg-type]
    },
    "basic.FieldTable.letter": {"KeyError": lambda: FieldTable({}).letter("k")},
    "basic.letter_of": {
        "EncodeError": [lambda: basic.letter_of(NO_FIELD), lambda: basic.letter_of(2**64)]
    },
    "basic.BasicMessage.from_pika": _message_from(BasicMessage.from_pika, "pika"),
    "basic.BasicMessage.from_pamqp": _message_from(BasicMessage.from_pamqp, "pamqp"),
    "basic.adapters.from_pika": _from_client(adapters.from_pika),
    "basic.adapters.from_py_amqp": _from_client(adapters.from_py_amqp),
    "basic.adapters.from_pamqp": _from_client(adapters.from_pamqp),
    "basic.adapters.plain_headers": {
        "TypeError": lambda: adapters.plain_headers(7)  # type: ignore[arg-type]
    },
    "basic.adapters.to_pika": {
        "ModuleNotFoundError": without("pika", lambda: adapters.to_pika(BasicProperties())),
        "TypeError": lambda: adapters.to_pika(7),  # type: ignore[arg-type]
    },
    "basic.adapters.to_pamqp": {
        "ModuleNotFoundError": without("pamqp", lambda: adapters.to_pamqp(BasicProperties())),
        "TypeError": lambda: adapters.to_pamqp(7),  # type: ignore[arg-type]
        "ValueError": [
            lambda: adapters.to_pamqp(BasicProperties(timestamp=2**63)),
            lambda: adapters.to_pamqp(BasicProperties(delivery_mode=3)),
        ],
    },
    "basic.classes.decode_class_header": {
        "DecodeError": [
            lambda: classes.decode_class_header(b""),
            lambda: classes.decode_class_header(LONG_BODY),
            lambda: classes.decode_class_header(b"\x00\x46\x00\x01" + bytes(10)),
        ]
    },
    "basic.classes.decode_transfer": {
        "DecodeError": [
            lambda: classes.decode_transfer(b""),
            lambda: classes.decode_transfer(classes.encode_transfer(classes.Transfer()) + b"\0"),
        ]
    },
    "basic.classes.encode_class_header": {
        "EncodeError": [
            lambda: classes.encode_class_header(BasicProperties()),  # type: ignore[arg-type]
            lambda: classes.encode_class_header(classes.FileProperties(), -1),
            lambda: classes.encode_class_header(classes.FileProperties(priority=256)),
        ]
    },
    "basic.classes.encode_transfer": {
        "EncodeError": [
            lambda: classes.encode_transfer(classes.Transfer(ticket=-1)),
            lambda: classes.encode_transfer(classes.Transfer(ttl=2**64)),
            lambda: classes.encode_transfer(classes.Transfer(destination="d" * 256)),
            lambda: classes.encode_transfer(classes.Transfer(security_token="x")),  # type: ignore[arg-type]
            lambda: classes.encode_transfer(classes.Transfer(body=7)),  # type: ignore[arg-type]
            lambda: classes.encode_transfer(
                classes.Transfer(application_headers=FieldTable.of([("k", "I", "x")]))
            ),
        ],
        "TypeError": lambda: classes.encode_transfer(7),  # type: ignore[arg-type]
    },
    "basic.classes.to_basic_message": {
        "TypeError": [
            lambda: classes.to_basic_message(BasicProperties()),  # type: ignore[arg-type]
            lambda: classes.to_basic_message(classes.FileProperties(), "text"),  # type: ignore[arg-type]
        ]
    },
}


TRANSLATION: Rows = {
    "translate.Circumstances": _circumstances(Circumstances),
    "translate.Death": _circumstances(_death),
    "translate.EncodedBasic.decode": {
        "DecodeError": [EncodedBasic(b"", b"").decode, EncodedBasic(LONG_BODY, b"").decode],
        "TypeError": EncodedBasic(LONG_BODY, "text").decode,  # type: ignore[arg-type]
    },
    "translate.EncodedBasic.of": {
        "EncodeError": [
            lambda: EncodedBasic.of(BasicMessage(WRONG_ID)),
            lambda: EncodedBasic.of(WRONG_KEY),
        ]
    },
    "translate.TranslationProfile.derive": {
        "ValueError": lambda: translate.LOSSLESS.derive("lossless"),
        "TypeError": lambda: translate.LOSSLESS.derive("x", before=5),  # type: ignore[arg-type]
    },
    "translate.encoded_to_amqp10": {
        "DecodeError": [
            lambda: translate.encoded_to_amqp10(EncodedBasic(b"", b"")),
            lambda: translate.encoded_to_amqp10(EncodedBasic(LONG_BODY, b"")),
        ],
        "TranslationError": lambda: translate.encoded_to_amqp10(
            EncodedBasic.of(
                BasicMessage(BasicProperties(headers=FieldTable.of([("k", "I", 1)] * 2)))
            ),
            "rabbitmq-4.0",
            strict=True,
        ),
        "EncodeError": [
            lambda: translate.encoded_to_amqp10(EncodedBasic(LONG_BODY, b"1234567", "e" * 256)),
            lambda: translate.encoded_to_amqp10(EncodedBasic(LONG_BODY, b"1234567", 7)),  # type: ignore[arg-type]
        ],
        "ValueError": lambda: translate.encoded_to_amqp10(
            EncodedBasic(LONG_BODY, b"1234567"),
            "rabbitmq-99",  # type: ignore[arg-type]
        ),
        "TypeError": lambda: translate.encoded_to_amqp10(EncodedBasic(LONG_BODY, "text")),  # type: ignore[arg-type]
    },
    "translate.encoded_to_basic": {
        "DecodeError": lambda: translate.encoded_to_basic(b"\x3f"),
        "TranslationError": lambda: translate.encoded_to_basic(
            Message(AmqpSequence([1]), footer={"x-opt-k": 1}).encode(), "rabbitmq-4.0", strict=True
        ),
        "ValueError": lambda: translate.encoded_to_basic(b"", "rabbitmq-99"),  # type: ignore[arg-type]
        "TypeError": lambda: translate.encoded_to_basic("text"),  # type: ignore[arg-type]
    },
    "translate.explain": {
        "ValueError": lambda: translate.explain(Message(b""), "rabbitmq-99")  # type: ignore[arg-type]
    },
    "translate.to_amqp10": {
        "TranslationError": lambda: translate.to_amqp10(
            BasicMessage(BasicProperties(headers=FieldTable.of([("k", "I", 1)] * 2))),
            "rabbitmq-4.0",
            strict=True,
        ),
        "EncodeError": lambda: translate.to_amqp10(BasicMessage(WRONG_ID)),
        "ValueError": lambda: translate.to_amqp10(BasicMessage(), "rabbitmq-99"),  # type: ignore[arg-type]
        "TypeError": [
            lambda: translate.to_amqp10(Message(b"")),  # type: ignore[arg-type]
            lambda: translate.to_amqp10(b""),  # type: ignore[arg-type]
        ],
    },
    "translate.to_basic": {
        "TranslationError": lambda: translate.to_basic(
            Message(AmqpSequence([1]), footer={"x-opt-k": 1}), "rabbitmq-4.0", strict=True
        ),
        "EncodeError": lambda: translate.to_basic(Message(NO_FIELD)),
        "ValueError": lambda: translate.to_basic(Message(b""), "rabbitmq-99"),  # type: ignore[arg-type]
        "TypeError": [
            lambda: translate.to_basic(BasicMessage()),  # type: ignore[arg-type]
            lambda: translate.to_basic(b""),  # type: ignore[arg-type]
        ],
    },
    "translate.correspondence.to_amqp10_rows": {
        "KeyError": lambda: correspondence.to_amqp10_rows("rabbitmq-99")
    },
    "translate.correspondence.to_basic_rows": {
        "KeyError": lambda: correspondence.to_basic_rows("rabbitmq-99")
    },
    "translate.settlement.outcome_of_return": {
        "ValueError": [
            lambda: settlement.outcome_of_return(999),
            lambda: settlement.outcome_of_return("312"),  # type: ignore[arg-type]
        ]
    },
    "translate.settlement.outcome_of_settlement": {
        "ValueError": lambda: settlement.outcome_of_settlement(settlement.Settlement("basic.get"))
    },
    "translate.settlement.settlement_of_outcome": {
        "TypeError": [
            lambda: settlement.settlement_of_outcome(7),  # type: ignore[arg-type]
            lambda: settlement.settlement_of_outcome(Declared(b"")),  # type: ignore[arg-type]
        ]
    },
}

ROWS: Rows = {**BASIC, **TRANSLATION}
