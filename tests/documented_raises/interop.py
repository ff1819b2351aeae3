"""Clients, other systems, JMS, the corpus and conformance, and hypothesis strategies."""

from __future__ import annotations

import datetime
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amqp10msg import AmqpMap, AmqpValue, Array, Byte, Char, Message, Properties
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.interop import clients, conformance, corpus, jms
from amqp10msg.interop.jms import typed as jms_typed
from amqp10msg.interop.systems import adapters, azure, cloudevents, rhea, tracing
from amqp10msg.testing import (
    composites,
    encodings,
    malformed,
    messages,
    sections,
    values,
    values_of,
)
from tests.documented_raises.calls import Call, Rows, without

NO_VALUE = object()
TEXT = Message("text")
UNENCODABLE = Message(NO_VALUE)
#: A message with a list as subject, as lenient decoding leaves it.
WRONG_SUBJECT = Message.decode(b"\x00\x53\x73\xc0\x05\x04\x40\x40\x40\x45", strict=False)
#: The attributes of a message of aio-pika and of kombu that the adapters read.
RECEIVED: dict[str, Any] = {
    **dict.fromkeys(("content_type", "content_encoding", "expiration", "timestamp"), None),
    "body": b"",
    "body_size": 0,
    "headers": {},
    "properties": {},
    "delivery_info": {},
}

#: A program that answers a request for its name, and the next one with the line in its argument.
ANSWERS = (
    "import sys\n"
    'sys.stdin.readline(); print(\'{"name": "peer"}\', flush=True)\n'
    "sys.stdin.readline(); print(sys.argv[1], flush=True)\n"
    "sys.stdin.readline()\n"
)


def _ask(answer: str) -> None:
    """Ask a program that answers with the line `answer`."""
    with corpus.Program([sys.executable, "-S", "-c", ANSWERS, answer]) as program:
        program.ask({"do": "encode"})


def _ask_one_that_ends() -> None:
    code = "".join(ANSWERS.splitlines(keepends=True)[:2])
    with corpus.Program([sys.executable, "-S", "-c", code]) as program:
        program.ask({"do": "encode"})


def _client(module: str, call: Callable[[], Any]) -> Call:
    """Return a call that is skipped if the client library is not installed."""

    def run() -> None:
        pytest.importorskip(module)
        call()

    return run


def _event(**attributes: Any) -> Any:
    module = pytest.importorskip("cloudevents.core.v1.event")
    return module.CloudEvent(
        {"id": "1", "source": "/s", "type": "t", "specversion": "1.0", **attributes}, b"data"
    )


def _event_message(**attributes: str) -> Message:
    """Return a message with an event in binary mode."""
    known = {"id": "1", "source": "/s", "type": "t", "specversion": "1.0"}
    named: dict[str, Any] = {f"cloudEvents_{name}": value for name, value in known.items()}
    return Message(b"data", application_properties={**named, **attributes})


def _case(**changes: Any) -> corpus.Case:
    attributes: dict[str, Any] = {
        "id": "case",
        "kind": "value",
        "data": b"\x40",
        "clause": "Part 1, 1.6.1",
        "origin": "test",
        "typed": ["null"],
    }
    return corpus.Case(**{**attributes, **changes})


def _proton() -> Any:
    pytest.importorskip("proton")
    return importlib.import_module("amqp10msg.interop.proton")


def _proton_decoded(data: bytes) -> Any:
    proton = pytest.importorskip("proton")
    message = proton.Message()
    message.decode(data)
    return message


def _sender(**state: Any) -> Any:
    """Return a link of proton that sends, as far as `send` looks at it."""
    proton = pytest.importorskip("proton")
    link = proton.Connection().session().sender("s")
    for name, value in state.items():
        setattr(link, name, value)
    return link


def _received(data: bytes) -> Any:
    return SimpleNamespace(
        readable=True,
        partial=False,
        aborted=False,
        pending=len(data),
        link=SimpleNamespace(recv=lambda _: data, advance=lambda: True),
    )


def _wrong_file(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


JMS: Rows = {
    "interop.jms.from_jms": {
        "EncodeError": [
            lambda: jms.from_jms(jms.JmsMessage(type="text", body=b"bytes")),
            lambda: jms.from_jms(jms.JmsMessage(type="map", body={"k": NO_VALUE})),
        ],
        "ValueError": lambda: jms.from_jms(jms.JmsMessage(message_id="ID:AMQP_ULONG:x")),
    },
    "interop.jms.from_jms_id": {
        "ValueError": [
            lambda: jms.from_jms_id("ID:AMQP_ULONG:x"),
            lambda: jms.from_jms_id("ID:AMQP_UUID:x"),
            lambda: jms.from_jms_id("ID:AMQP_BINARY:x"),
        ]
    },
    "interop.jms.message_type": {
        "ContentError": [
            lambda: jms.message_type(Message("x", message_annotations={"x-opt-jms-msg-type": 9})),
            lambda: jms.message_type(Message("x", message_annotations={"x-opt-jms-msg-type": 3})),
        ]
    },
    "interop.jms.to_jms": {
        "ContentError": [
            lambda: jms.to_jms(Message("x", message_annotations={"x-opt-jms-msg-type": 9})),
            lambda: jms.to_jms(Message(b"\xff", properties=Properties(content_type="text/plain"))),
            lambda: jms.to_jms(
                Message(AmqpValue({7: 1}), message_annotations={"x-opt-jms-msg-type": Byte(2)})
            ),
        ],
        "EncodeError": lambda: jms.to_jms(WRONG_SUBJECT),
    },
    "interop.jms.to_jms_correlation_id": {
        "TypeError": lambda: jms.to_jms_correlation_id(1.5),  # type: ignore[arg-type]
        "ValueError": [
            lambda: jms.to_jms_correlation_id(-1),
            lambda: jms.to_jms_correlation_id(2**64),
        ],
    },
    "interop.jms.to_jms_message_id": {
        "TypeError": lambda: jms.to_jms_message_id(1.5),  # type: ignore[arg-type]
        "ValueError": [
            lambda: jms.to_jms_message_id(-1),
            lambda: jms.to_jms_message_id(2**64),
        ],
    },
    "interop.jms.typed.read_map": {
        "ContentError": [
            lambda: jms_typed.read_map(b"\xff"),
            lambda: jms_typed.read_map(b"\0\0\0\1"),
        ]
    },
    "interop.jms.typed.read_stream": {
        "ContentError": [
            lambda: jms_typed.read_stream(b"\xff"),
            lambda: jms_typed.read_stream(b"\x02"),
        ]
    },
    "interop.jms.typed.write_map": {
        "ContentError": [
            lambda: jms_typed.write_map({7: 1}),
            lambda: jms_typed.write_map({"k": NO_VALUE}),
            lambda: jms_typed.write_map({"k\0": 1}),
        ]
    },
    "interop.jms.typed.write_stream": {
        "ContentError": [
            lambda: jms_typed.write_stream([NO_VALUE]),
            lambda: jms_typed.write_stream(["\0"]),
            lambda: jms_typed.write_stream([2**64]),
        ]
    },
}

PROTON: Rows = {
    "interop.proton.from_proton": {
        "TypeError": lambda: _proton().from_proton(7),
        "EncodeError": lambda: _proton().from_proton(
            pytest.importorskip("proton").Message(body=NO_VALUE)
        ),
        "DecodeError": lambda: _proton().from_proton(
            _proton_decoded(b"\x00\x53\x73\xc0\x07\x04\x40\x40\x40\xa1\x01\xff")
        ),
    },
    "interop.proton.losses": {
        "EncodeError": lambda: _proton().losses(Message(AmqpValue({(1,): 2})))
    },
    "interop.proton.to_proton": {
        "EncodeError": [
            lambda: _proton().to_proton(Message(AmqpValue(AmqpMap([([1], 2)])))),
            lambda: _proton().to_proton(TEXT.evolve(footer={"k": 1})),
            lambda: _proton().to_proton(UNENCODABLE),
        ]
    },
    "interop.proton.receive": {"DecodeError": lambda: _proton().receive(_received(b"\x3f"))},
    "interop.proton.send": {
        "EncodeError": [
            lambda: _proton().send(_sender(), UNENCODABLE),
            lambda: _proton().send(_sender(), Message(b"", message_format=1)),
        ],
        "TypeError": lambda: _proton().send(_sender(), "text"),
        "ValueError": lambda: _proton().send(_sender(snd_settle_mode=0), TEXT, settled=True),
    },
    "interop.proton.install": {"ValueError": lambda: _proton().install(None)},
    "interop.proton.MessagingHandler.on_decode_error": {
        "proton.handlers.Reject": lambda: (
            _proton()
            .MessagingHandler()
            .on_decode_error(SimpleNamespace(link=SimpleNamespace(name="l")), ValueError("cut"))
        )
    },
}

SYSTEMS: Rows = {
    "interop.systems.adapters.from_aio_pika": {
        "TypeError": [
            lambda: adapters.from_aio_pika(7),
            lambda: adapters.from_aio_pika(
                SimpleNamespace(
                    **{**RECEIVED, "properties": SimpleNamespace(headers={"k": NO_VALUE})}
                )
            ),
        ],
        "ValueError": lambda: adapters.from_aio_pika(
            SimpleNamespace(**{**RECEIVED, "properties": SimpleNamespace(headers={"k": 2**63})})
        ),
    },
    "interop.systems.adapters.from_kombu": {
        "TypeError": [
            lambda: adapters.from_kombu(7),
            lambda: adapters.from_kombu(
                SimpleNamespace(**{**RECEIVED, "headers": {"k": NO_VALUE}})
            ),
        ],
        "ValueError": lambda: adapters.from_kombu(
            SimpleNamespace(**{**RECEIVED, "headers": {"k": 2**63}})
        ),
    },
    "interop.systems.adapters.to_aio_pika": {
        "ValueError": [
            _client(
                "aio_pika",
                lambda: adapters.to_aio_pika(BasicMessage(BasicProperties(expiration="soon"))),
            ),
            _client(
                "aio_pika",
                lambda: adapters.to_aio_pika(BasicMessage(BasicProperties(timestamp=2**63))),
            ),
        ],
        "ImportError": without("aio_pika", lambda: adapters.to_aio_pika(BasicMessage())),
    },
    "interop.systems.adapters.to_kombu": {
        "ValueError": lambda: adapters.to_kombu(BasicMessage(BasicProperties(expiration="soon")))
    },
    "interop.systems.azure.from_client": {
        "TypeError": lambda: azure.from_client(7),
        "ValueError": _client("azure.servicebus", lambda: azure.from_client(_annotated())),
    },
    "interop.systems.azure.lost_in_client": {
        "ValueError": _client("azure.servicebus", lambda: azure.lost_in_client(_symbolic())),
        "ImportError": without("azure", lambda: azure.lost_in_client(TEXT)),
    },
    "interop.systems.azure.scheduled": {
        "ValueError": lambda: azure.scheduled(TEXT, datetime.datetime(2026, 1, 1))  # noqa: DTZ001
    },
    "interop.systems.azure.to_annotated": {
        "ValueError": [
            _client("azure.servicebus", lambda: azure.to_annotated(Message(AmqpValue(Char("x"))))),
            _client(
                "azure.servicebus",
                lambda: azure.to_annotated(Message(AmqpValue(Array("int", [1])))),
            ),
            _client("azure.servicebus", lambda: azure.to_annotated(WRONG_SUBJECT)),
        ],
        "ImportError": without("azure", lambda: azure.to_annotated(TEXT)),
    },
    "interop.systems.azure.to_event_data": {
        "ValueError": _client("azure.eventhub", lambda: azure.to_event_data(_symbolic())),
        "ImportError": without("azure", lambda: azure.to_event_data(TEXT)),
    },
    "interop.systems.azure.to_received": {
        "ValueError": _client("azure.servicebus", lambda: azure.to_received(_symbolic())),
        "ImportError": without("azure", lambda: azure.to_received(TEXT)),
    },
    "interop.systems.azure.with_partition_key": {
        "ValueError": lambda: azure.with_partition_key(TEXT, "k" * 129)
    },
    "interop.systems.cloudevents.from_message": {
        "ContentError": _client(
            "cloudevents.core",
            lambda: cloudevents.from_message(
                Message(b"{", properties=Properties(content_type="application/cloudevents+json"))
            ),
        ),
        "ValueError": _client("cloudevents.core", lambda: cloudevents.from_message(TEXT)),
        "cloudevents.core.exceptions.CloudEventValidationError": _client(
            "cloudevents.core",
            lambda: cloudevents.from_message(
                _event_message(cloudEvents_time="2026-01-01T00:00:00")
            ),
        ),
        "ImportError": without("cloudevents", lambda: cloudevents.from_message(_event_message())),
    },
    "interop.systems.cloudevents.to_message": {
        "EncodeError": lambda: cloudevents.to_message(_event(extension=NO_VALUE)),
        "TypeError": lambda: cloudevents.to_message(7),  # type: ignore[arg-type]
        "ValueError": [
            lambda: cloudevents.to_message(_event(), "batched"),  # type: ignore[arg-type]
            lambda: cloudevents.to_message(_event(), separator="-"),  # type: ignore[arg-type]
        ],
        "ImportError": without(
            "cloudevents",
            lambda: cloudevents.to_message(
                SimpleNamespace(get_attributes=dict),
                "structured",
            ),
        ),
    },
    "interop.systems.rhea.from_rhea": {
        "TypeError": [
            lambda: rhea.from_rhea("{}"),  # type: ignore[arg-type]
            lambda: rhea.from_rhea({"body": NO_VALUE}),
        ],
        "ValueError": [
            lambda: rhea.from_rhea({"exchange": "e"}),
            lambda: rhea.from_rhea({"creation_time": "soon"}),
        ],
        "EncodeError": lambda: rhea.from_rhea({"to": 5}),
    },
    "interop.systems.rhea.to_rhea": {
        "EncodeError": [
            lambda: rhea.to_rhea(UNENCODABLE),
            lambda: rhea.to_rhea(Message(AmqpValue(float("inf")))),
            lambda: rhea.to_rhea(Message(b"", properties=Properties(creation_time=2**60))),
        ]
    },
    "interop.systems.tracing.TraceParent": {
        "ValueError": [
            lambda: tracing.TraceParent(b"", b"12345678"),
            lambda: tracing.TraceParent(bytes(16), b"12345678"),
            lambda: tracing.TraceParent(b"1234567890123456", b"12345678", 256),
        ]
    },
    "interop.systems.tracing.TraceParent.from_bytes": {
        "ValueError": [
            lambda: tracing.TraceParent.from_bytes(b""),
            lambda: tracing.TraceParent.from_bytes(b"x" * 29),
        ]
    },
    "interop.systems.tracing.TraceParent.from_text": {
        "ValueError": [
            lambda: tracing.TraceParent.from_text(""),
            lambda: tracing.TraceParent.from_text("ff-" + "1" * 32 + "-" + "1" * 16 + "-00"),
        ]
    },
    "interop.systems.tracing.extract": {
        "ImportError": without("opentelemetry", lambda: tracing.extract(TEXT))
    },
    "interop.systems.tracing.inject": {
        "ImportError": without("opentelemetry", lambda: tracing.inject(TEXT))
    },
    "interop.systems.tracing.with_fields": {
        "ValueError": lambda: tracing.with_fields(TEXT, {"traceparent": "x"}, binary=True)
    },
}


def _pika_delivery(**properties: Any) -> Any:
    """Return the tuple (properties, body) of pika."""
    spec = pytest.importorskip("pika.spec")
    return spec.BasicProperties(**properties), b""


CLIENTS: Rows = {
    "interop.clients.from_client": {
        "TypeError": [
            lambda: clients.from_client(7),
            lambda: clients.from_client(_pika_delivery(headers={"k": NO_VALUE})),
        ],
        "ValueError": [
            lambda: clients.from_client(_pika_delivery(headers={"k": 2**63})),
            lambda: clients.from_client(_pika_delivery(), profile="none"),  # type: ignore[arg-type]
        ],
        "EncodeError": lambda: clients.from_client(
            pytest.importorskip("proton").Message(body=NO_VALUE)
        ),
        "DecodeError": lambda: clients.from_client(
            _proton_decoded(b"\x00\x53\x73\xc0\x07\x04\x40\x40\x40\xa1\x01\xff")
        ),
        "TranslationError": [
            lambda: clients.from_client(_pika_delivery(expiration="soon"), profile="rabbitmq-4.3"),
            lambda: clients.from_client(_pika_delivery(cluster_id="c"), profile="rabbitmq-4.3"),
        ],
    },
    "interop.clients.to_client": {
        "EncodeError": [
            lambda: clients.to_client(Message(b"", message_format=5), "rhea"),
            lambda: clients.to_client(UNENCODABLE, "rhea"),
        ],
        "TranslationError": _client(
            "pika",
            lambda: clients.to_client(
                Message(b"", properties=Properties(subject="s")), "pika", profile="rabbitmq-4.3"
            ),
        ),
        "ValueError": [
            lambda: clients.to_client(TEXT, "stomp"),
            _client(
                "pika",
                lambda: clients.to_client(TEXT, "pika", profile="none"),  # type: ignore[call-overload]
            ),
        ],
        "TypeError": [
            lambda: clients.to_client(b"", "rhea"),  # type: ignore[call-overload]
            lambda: clients.to_client(TEXT, 7),
        ],
        "ImportError": without("pika", lambda: clients.to_client(TEXT, "pika")),
    },
    "interop.clients.lost_in_client": {
        "EncodeError": lambda: clients.lost_in_client(UNENCODABLE, "rhea"),
        "TranslationError": _client(
            "pika",
            lambda: clients.lost_in_client(
                Message(b"", application_properties={"c": Char("x")}),
                "pika",
                profile="rabbitmq-4.3",
            ),
        ),
        "ValueError": lambda: clients.lost_in_client(TEXT, "stomp"),
        "TypeError": [
            lambda: clients.lost_in_client(b"", "rhea"),  # type: ignore[arg-type]
            lambda: clients.lost_in_client(TEXT, 7),
        ],
        "ImportError": without("pika", lambda: clients.lost_in_client(TEXT, "pika")),
    },
}


def _annotated() -> Any:
    module = importlib.import_module("azure.servicebus.amqp")
    return module.AmqpAnnotatedMessage(data_body=b"", annotations=[1])


def _symbolic() -> Message:
    """Return a message with a symbolic section descriptor, which Azure's clients do not read."""
    return Message.decode(b"\x00\xa3\x10amqp:data:binary\xa0\x01x")


CORPUS: Rows = {
    "interop.corpus.Case": {
        "CorpusError": [
            lambda: _case(id="Not an id"),
            lambda: _case(kind="colour"),
            lambda: _case(typed=None),
            lambda: _case(clause="somewhere"),
            lambda: _case(limits={"colour": 1}),
        ]
    },
    "interop.corpus.Case.from_object": {
        "CorpusError": [
            lambda: corpus.Case.from_object(7),
            lambda: corpus.Case.from_object({}),
            lambda: corpus.Case.from_object({**_case().to_object(), "data": 7}),
            lambda: corpus.Case.from_object({**_case().to_object(), "data": "x"}),
        ]
    },
    "interop.corpus.Amqp10msg.answer": {
        "UnsupportedError": lambda: corpus.Amqp10msg().answer("colour", b"", {})
    },
    "interop.corpus.Implementation.decode": {
        "RefusedError": lambda: corpus.Amqp10msg().decode("value", b"\x3f")
    },
    "interop.corpus.Program": {
        "OSError": lambda: corpus.Program(["/no/such/program"]),
        "RuntimeError": lambda: corpus.Program([sys.executable, "-S", "-c", "print('no JSON')"]),
    },
    "interop.corpus.Program.ask": {
        "UnsupportedError": lambda: _ask('{"unsupported": "no rules"}'),
        "RefusedError": lambda: _ask('{"refused": "no value"}'),
        "DiedError": _ask_one_that_ends,
        "RuntimeError": [
            lambda: _ask('{"error": "failed"}'),
            lambda: _ask("not JSON"),
            lambda: _ask("[" * 50_000),
            lambda: _ask("7"),
        ],
    },
    "interop.corpus.Proton": {"ImportError": without("proton", corpus.Proton)},
    "interop.corpus.load": {
        "CorpusError": [
            lambda tmp_path: corpus.load(_wrong_file(tmp_path, "c.jsonl", b"{}")),
            lambda tmp_path: corpus.load(_wrong_file(tmp_path, "c.jsonl", b"[" * 50_000)),
            lambda tmp_path: corpus.load(_wrong_file(tmp_path, "c.jsonl", b"\xff")),
            lambda tmp_path: corpus.load(tmp_path / ""),
        ],
        "ImportError": [
            without("cbor2", lambda: corpus.load("cases.cborseq")),
            without("pyarrow", lambda: corpus.load("cases.parquet")),
        ],
        "OSError": lambda tmp_path: corpus.load(tmp_path / "missing.jsonl"),
    },
    "interop.corpus.dump": {
        "ImportError": [
            without("cbor2", lambda: corpus.dump([], "cases.cborseq")),
            without("pyarrow", lambda: corpus.dump([], "cases.parquet")),
        ],
        "OSError": lambda tmp_path: corpus.dump([], tmp_path / "missing" / "cases.jsonl"),
    },
    "interop.conformance.Result.from_object": {
        "ValueError": [
            lambda: conformance.Result.from_object([]),  # type: ignore[arg-type]
            lambda: conformance.Result.from_object({"digest": 5}),
        ]
    },
    "interop.conformance.find_peer": {
        "ValueError": [
            lambda: conformance.find_peer(""),
            lambda: conformance.find_peer('"'),
            lambda: conformance.find_peer("no-such-program"),
            lambda: conformance.find_peer("no-such-driver.py"),
        ]
    },
    "interop.conformance.load": {
        "CorpusError": [
            lambda tmp_path: conformance.load(_wrong_file(tmp_path, "r.json", b"[]")),
            lambda tmp_path: conformance.load(_wrong_file(tmp_path, "r.json", b"[" * 50_000)),
            lambda tmp_path: conformance.load(_wrong_file(tmp_path, "r.json", b"\xff")),
        ],
        "OSError": lambda tmp_path: conformance.load(tmp_path / "missing.json"),
    },
    "interop.conformance.prepare": {
        "PeerError": lambda: conformance.prepare(conformance.Peer("p", "driver.rb"))
    },
    "interop.conformance.run": {
        "PeerError": lambda: conformance.run(
            conformance.Peer("p", command=("/no/such/program",)), []
        ),
        "OSError": lambda tmp_path: conformance.run(
            conformance.PEERS["this-library"], [], journal=tmp_path
        ),
    },
    "interop.conformance.save": {
        "OSError": lambda tmp_path: conformance.save([], tmp_path / "missing" / "r.json")
    },
    "interop.conformance.scoreboard": {
        "ImportError": without("jinja2", lambda: conformance.scoreboard([], []))
    },
}

TESTING: Rows = {
    "testing.composites": {"TypeError": lambda: composites(int)},
    "testing.encodings": {"EncodeError": lambda: encodings(NO_VALUE).example()},
    "testing.malformed": {"ValueError": lambda: malformed("colour")},
    "testing.messages": {"TypeError": lambda: messages(colour=None)},
    "testing.sections": {"ValueError": lambda: sections("colour")},
    "testing.values": {"ValueError": lambda: values(max_leaves=0)},
    "testing.values_of": {"ValueError": lambda: values_of("colour")},
}

ROWS: Rows = {**JMS, **PROTON, **SYSTEMS, **CLIENTS, **CORPUS, **TESTING}
