"""`from_client` and `to_client`: one function for the messages of all clients."""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpValue,
    Char,
    Data,
    EncodeError,
    Float,
    Header,
    Message,
    Properties,
    UInt,
    UShort,
    differences,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_properties,
    decode_table,
    encode_properties,
)
from amqp10msg.interop import from_client, lost_in_client, to_client
from amqp10msg.interop.clients import CLIENTS, ClientName
from amqp10msg.interop.systems import adapters, azure
from amqp10msg.testing import messages
from amqp10msg.translate import TranslationError, to_amqp10, to_basic
from amqp10msg.wire.primitives import identical
from tests.documented_raises.calls import without
from tests.interop.azure_clients import sent

BASIC = [name for name, client in CLIENTS.items() if client.is_basic]
#: The clients whose objects for sending `from_client` reads, as well.
READABLE = [name for name in CLIENTS if name not in {"rabbitmq", "kombu"}]

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.once


def needs(name: ClientName) -> None:
    """Skip the test if the client is not installed."""
    if CLIENTS[name].module:
        pytest.importorskip(CLIENTS[name].module)


def lacking(original: Message, converted: Message) -> list[str]:
    """Return the differences, except for what a client adds.

    proton omits an empty header and empty properties, and chooses the encoding of the elements of
    an empty array; it reports neither as a loss.
    """
    if original.header == Header():
        original = original.evolve(header=None)
    if original.properties == Properties():
        original = original.evolve(properties=None)
    return [
        str(found)
        for found in differences(original, converted)
        if found.kind != "added" and not identical(found.before, found.after)
    ]


# What all clients carry.

texts = st.text("abcxyz", min_size=1, max_size=5)
#: Messages whose values every client carries, with their types.
carried = st.builds(
    Message,
    st.binary(min_size=1).map(Data),
    # A priority of 4 is the default: it becomes no priority in 0-9-1, and 0 in aio-pika.
    header=st.none()
    | st.builds(Header, durable=st.just(True), priority=st.sampled_from([0, 1, 5, 9])),
    properties=st.none()
    | st.builds(
        Properties,
        message_id=texts,
        to=st.none() | texts,
        subject=st.none() | texts,
        correlation_id=st.none() | texts,
        content_type=st.none() | texts,
        creation_time=st.none() | st.integers(1, 2**40),
        user_id=st.none() | texts.map(str.encode),
    ),
    application_properties=st.none()
    # pamqp sorts the headers by their names.
    | st.dictionaries(texts, texts | st.booleans(), min_size=1, max_size=3).map(
        lambda entries: dict(sorted(entries.items()))
    ),
)


@pytest.mark.parametrize("name", list(CLIENTS))
@given(message=carried)
def test_all_clients_carry_common_values(name: ClientName, message: Message) -> None:
    needs(name)

    assert [] == lost_in_client(message, name)
    converted = to_client(message, like=name)
    if name in READABLE:
        assert [] == lacking(message, from_client(converted))


@pytest.mark.parametrize("name", list(CLIENTS))
@given(message=messages())
def test_what_a_client_loses_is_refused(name: ClientName, message: Message) -> None:
    needs(name)
    try:
        lost = lost_in_client(message, name)
    except ValueError:  # the client cannot represent it
        with pytest.raises(ValueError) as refused:  # noqa: PT011  (each client has its own text)
            to_client(message, name)
        assert str(refused.value)
        return
    if lost:
        with pytest.raises((EncodeError, TranslationError)) as caught:
            to_client(message, name)
        error: Any = caught.value
        assert lost[0].startswith(f"{error.path}: ")
        to_client(message, name, lossy=True)
        return
    converted = to_client(message, name)
    if name in READABLE:
        back = from_client(converted)
        # aio-pika adds a priority of 0, which differs from the default of 1.0.
        if name != "aio-pika" or to_basic(message).message.properties.priority is not None:
            assert [] == lacking(message, back)


@pytest.mark.parametrize(
    "name, message, path",
    [
        ("proton", Message("x", footer={"x-opt-a": "b"}), "footer"),
        ("proton", Message("x", message_format=5), "message-format"),
        ("rabbitmq", Message("x", message_format=5), "message-format"),
        ("servicebus", Message(b"x", delivery_annotations={"x-opt-a": 1}), "delivery-annotations"),
        ("eventhub", Message(b"x", message_format=5), "message-format"),
        (
            "servicebus",
            Message(b"x", header=Header(ttl=5), properties=Properties(creation_time=5)),
            "properties.creation-time",
        ),
        (
            "eventhub",
            Message(b"x", properties=Properties(absolute_expiry_time=0)),
            "properties.absolute-expiry-time",
        ),
        (
            "servicebus-received",
            Message(b"x", application_properties={"n": UInt(5)}),
            "application-properties['n']",
        ),
        (
            "eventhub-received",
            Message(b"x", application_properties={"n": UInt(5)}),
            "application-properties['n']",
        ),
        (
            "pika",
            Message(b"x", application_properties={"n": UShort(5)}),
            "application-properties['n']",
        ),
        ("pika", Message(b"x", application_properties={"f": 1.5}), "headers['f']"),
        ("pika", Message(b"x", application_properties={"a: b": 1.5}), "headers['a: b']"),
        (
            "pamqp",
            Message(b"x", application_properties={"n": 5}),
            "application-properties['n']",
        ),
        (
            "aio-pika",
            Message(b"x", application_properties={"n": 5}),
            "application-properties['n']",
        ),
        (
            "aio-pika",
            Message(b"x", message_annotations={"x-exchange": "e", "x-routing-key": "k"}),
            "message-annotations",
        ),
        (
            "kombu",
            Message(b"x", application_properties={"b": b"octets"}),
            "application-properties['b']",
        ),
        ("rhea", Message(b"x", application_properties={"n": 5}), "application-properties['n']"),
        ("rhea", Message(AmqpValue(Char("a"))), "body"),
    ],
)
def test_lost_value_is_named(name: ClientName, message: Message, path: str) -> None:
    needs(name)

    with pytest.raises(EncodeError, match="lossy=True converts anyway") as caught:
        to_client(message, name)
    assert path == caught.value.path
    assert lost_in_client(message, name)[0].startswith(f"{path}: ")
    assert to_client(message, name, lossy=True) is not None


def test_properties_that_the_client_fails_to_write_are_lost() -> None:
    needs("kombu")
    basic = BasicMessage(BasicProperties(headers={"k" * 300: 1}))  # 0-9-1 allows 255 bytes
    kombu = CLIENTS["kombu"]

    [(path, text)] = kombu.lost(basic, kombu.write(basic))
    assert "properties" == path
    assert text.startswith("the client cannot write them: error: ubyte format requires")


def test_error_counts_further_losses() -> None:
    message = Message(b"x", application_properties={"a": 1, "b": 2})

    assert 2 == len(lost_in_client(message, "rhea"))
    with pytest.raises(EncodeError, match=r"and 1 more, see lost_in_client\(\)"):
        to_client(message, "rhea")


@pytest.mark.parametrize("name", list(CLIENTS))
@given(message=messages())
def test_each_loss_is_listed_once(name: ClientName, message: Message) -> None:
    needs(name)
    try:
        lost = lost_in_client(message, name)
    except ValueError:
        return

    assert len(set(lost)) == len(lost)
    fields = [text.partition(": ")[0] for text in lost if text.startswith(("header.", "prop"))]
    assert len(set(fields)) == len(fields)


def test_float_in_pika_is_one_loss() -> None:
    needs("pika")
    message = Message(b"x", application_properties={"f": Float(1.5), "d": 2.5})

    assert ["headers['f']: ", "headers['d']: "] == [
        text.removesuffix("pika cannot write floating-point numbers")
        for text in lost_in_client(message, "pika")
    ]


# What the clients write.


@pytest.mark.parametrize("service", ["servicebus", "eventhub"])
@given(message=messages())
def test_azure_sends_what_is_not_reported_as_lost(service: Any, message: Message) -> None:
    needs(service)
    try:
        annotated = to_client(message, like=service)
    except ValueError:
        return
    assert [] == lacking(message, Message.decode(sent(annotated, service)))


class Link:
    """A link of proton, as far as a sender uses it."""

    remote_max_message_size = 0
    current = None
    snd_settle_mode = 0

    def __init__(self) -> None:
        self.octets = b""

    def delivery_tag(self) -> str:
        return "1"

    def delivery(self, _: str) -> object:
        return object()

    def stream(self, octets: bytes) -> None:
        self.octets += octets

    def advance(self) -> None:
        pass


@given(message=carried)
def test_client_of_rabbitmq_sends_the_bytes(message: Message) -> None:
    needs("rabbitmq")
    link = Link()

    to_client(message, like="rabbitmq").send(link)

    assert message.encode() == link.octets


@given(message=carried)
def test_client_of_rabbitmq_receives_the_message(message: Message) -> None:
    client = pytest.importorskip("rabbitmq_amqp_python_client")
    received = client.Message()
    received.decode(message.encode())

    # The class of the client sets durable if the message has no header.
    assert [] == lacking(message, from_client(received))


@given(message=carried)
def test_message_goes_through_kombu(message: Message) -> None:
    kombu = pytest.importorskip("kombu", reason="kombu is not installed")
    with kombu.Connection("memory://") as connection:
        queue = connection.SimpleQueue("q")
        queue.clear()
        arguments = to_client(message, like="kombu")
        kombu.Producer(connection).publish(**{**arguments, "exchange": "", "routing_key": "q"})
        received = from_client(queue.get(block=False))
        queue.close()

    # The transport in memory adds the exchange and the routing key, as a broker does.
    properties, expected = received.properties or Properties(), message.properties or Properties()
    assert message.body == received.body
    assert message.application_properties == received.application_properties
    assert (expected.message_id, expected.to, expected.subject, expected.creation_time) == (
        *(properties.message_id, properties.to, properties.subject),
        properties.creation_time,
    )


_HEADERS = st.recursive(
    st.one_of(
        *(st.text(), st.binary(), st.booleans(), st.none(), st.floats(allow_nan=False)),
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from([2**31, 2**31 - 1, -(2**31), 1 - 2**31]),
        st.integers(0, 2**32).map(lambda s: datetime.datetime.fromtimestamp(s, datetime.UTC)),
    ),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text(max_size=5), items),
    max_leaves=5,
)


@given(st.dictionaries(st.text(max_size=5), _HEADERS))
def test_headers_of_kombu_have_the_types_that_kombu_writes(headers: dict[str, Any]) -> None:
    kombu = pytest.importorskip("kombu", reason="kombu is not installed")
    serialization = pytest.importorskip("amqp.serialization")
    message = kombu.Message(body=b"x", headers=headers, delivery_info={}, properties={})

    octets = serialization.dumps("F", [headers])

    assert adapters.from_kombu(message).properties.headers == (decode_table(octets) or None)


def test_kombu_does_not_need_pika() -> None:
    needs("kombu")

    without("pika", lambda: to_client(Message(b"x"), like="kombu"))()


# Deliveries of pika and pamqp.

OCTETS = encode_properties(
    BasicProperties(
        message_id="m",
        headers=FieldTable.of([("n", "l", 5), ("t", "S", "x")]),
        delivery_mode=2,
    )
)


def pika_parts() -> tuple[Any, Any, bytes]:
    spec = pytest.importorskip("pika.spec", reason="pika is not installed")
    properties = spec.BasicProperties()
    properties.decode(OCTETS)
    method = spec.Basic.Deliver("c", 1, True, "exchange", "key")
    return method, properties, b"body"


def pamqp_parts() -> tuple[Any, Any, bytes]:
    commands = pytest.importorskip("pamqp.commands", reason="pamqp is not installed")
    properties = commands.Basic.Properties(message_id="m", headers={"t": "x"}, delivery_mode=2)
    return commands.Basic.Deliver("c", 1, True, "exchange", "key"), properties, b"body"


@pytest.mark.parametrize("parts", [pika_parts, pamqp_parts])
def test_delivery_is_a_tuple_of_two_to_four(parts: Callable[[], tuple[Any, Any, bytes]]) -> None:
    method, properties, body = parts()
    message = from_client((method, properties, body))

    assert message == from_client((object(), method, properties, body))
    assert ("exchange", "key") == (
        message.message_annotation("x-exchange"),
        message.message_annotation("x-routing-key"),
    )
    assert (b"body", "x") == (message.body_bytes(), message.application_property("t"))
    assert message.header is not None
    assert (True, True) == (message.header.durable, to_basic(message).message.redelivered)
    assert "m" == from_client((properties, body)).properties.message_id  # type: ignore[union-attr]
    for value in (properties, (properties,), (1, 2, method, properties, body)):
        with pytest.raises(TypeError, match=r"\(method, properties, body\)"):
            from_client(value)


def test_types_of_a_pika_delivery() -> None:
    message = from_client(pika_parts())

    expected = BasicMessage(decode_properties(OCTETS), b"body", "exchange", "key", True)
    assert to_amqp10(expected).message == message


@pytest.mark.parametrize("name", ["pika", "pamqp"])
def test_exchange_and_routing_key_are_in_the_publish_method(name: ClientName) -> None:
    needs(name)
    annotations = {"x-exchange": "orders", "x-routing-key": "new"}
    message = Message(b"x", message_annotations=annotations)

    converted: Any = to_client(message, like=name)
    method, properties, body = converted

    assert ("orders", "new", b"x") == (method.exchange, method.routing_key, body)
    assert message == from_client((method, properties, body))


def test_message_of_aiormq() -> None:
    aiormq = pytest.importorskip("aiormq.abc", reason="aiormq is not installed")
    header = pytest.importorskip("pamqp.header")
    method, properties, body = pamqp_parts()
    content = header.ContentHeader(0, len(body), properties)
    delivered = aiormq.DeliveredMessage(delivery=method, header=content, body=body, channel=None)

    assert from_client((method, properties, body)) == from_client(delivered)


def test_message_of_faststream() -> None:
    rabbit = pytest.importorskip("faststream.rabbit", reason="faststream[rabbit] is not installed")
    raw = to_client(Message(b"x"), like="aio-pika")
    message = rabbit.RabbitMessage(raw_message=raw, body=raw.body)

    assert from_client(raw) == from_client(message)
    assert type(raw) is type(to_client(Message(b"x"), like=message))


def test_queue_without_a_message() -> None:
    with pytest.raises(TypeError, match="a tuple of None if the queue is empty"):
        from_client((None, None, None))


# Profiles of the translation.


@pytest.mark.parametrize("name", BASIC)
def test_profile_translates(name: ClientName) -> None:
    needs(name)
    message = Message(b"x", properties=Properties(message_id="m"))

    converted = to_client(message, like=name, profile="rabbitmq-4.3")
    assert to_client(message, like=name) is not None
    if name in READABLE:
        back = from_client(converted, profile="rabbitmq-4.3")
        assert back.message_annotation("x-routing-key") is not None
    with pytest.raises(ValueError, match="unknown profile 'none'"):
        to_client(message, like=name, profile="none")  # type: ignore[call-overload]


@pytest.mark.parametrize("name", BASIC)
def test_permanent_loss_of_translation_is_refused(name: ClientName) -> None:
    needs(name)
    message = Message(b"x", properties=Properties(subject="s"))

    with pytest.raises(TranslationError, match=r"properties\.subject: would be lost"):
        to_client(message, like=name, profile="rabbitmq-4.3")
    assert to_client(message, like=name, profile="rabbitmq-4.3", lossy=True) is not None
    lost = lost_in_client(message, name, profile="rabbitmq-4.3")
    assert ["properties.subject: 0-9-1 has no such property"] == lost


def test_permanent_loss_of_received_message_is_refused() -> None:
    method, properties, body = pika_parts()
    properties.cluster_id = "c"

    with pytest.raises(TranslationError, match=r"properties\.cluster-id: would be lost"):
        from_client((method, properties, body), profile="rabbitmq-4.3")
    lossy = from_client((method, properties, body), profile="rabbitmq-4.3", lossy=True)
    assert "x" == lossy.application_property("t")


# Recognising clients.


def like_class(identifier: str) -> type:
    """Return a class with the name and module of a client's class."""
    module, _, name = identifier.partition(":")
    return type(name.rpartition(".")[2], (), {"__module__": f"{module}.x", "__qualname__": name})


IDENTIFIERS = [
    pytest.param(name, identifier, id=identifier)
    for name, client in CLIENTS.items()
    for identifier in client.classes
]


@pytest.mark.parametrize("name, identifier", IDENTIFIERS)
def test_class_is_recognised_by_name_and_module(name: ClientName, identifier: str) -> None:
    needs(name)
    cls = like_class(identifier)
    expected = type(to_client(Message(b"x"), like=name))

    for like in (cls, cls(), type("Subclass", (cls,), {}), type("Subclass", (cls,), {})()):
        assert expected is type(to_client(Message(b"x"), like=like))
    other = type(cls.__name__, (), {"__module__": f"another.{cls.__module__}"})
    with pytest.raises(TypeError, match="a client's name, class or message as like"):
        to_client(Message(b"x"), like=other)


@pytest.mark.parametrize(
    "identifier, module",
    [
        ("proton:Message", "proton"),
        ("rabbitmq_amqp_python_client:Message", "rabbitmq_amqp_python_client"),
        ("azure.servicebus:ServiceBusMessage", "azure.servicebus"),
        ("azure.servicebus:ServiceBusReceivedMessage", "azure.servicebus"),
        ("azure.servicebus:AmqpAnnotatedMessage", "azure.servicebus.amqp"),
        ("azure.eventhub:EventData", "azure.eventhub"),
        ("azure.eventhub:AmqpAnnotatedMessage", "azure.eventhub.amqp"),
        ("pika.spec:BasicProperties", "pika"),
        ("pamqp.commands:Basic.Properties", "pamqp.commands"),
        ("aiormq:DeliveredMessage", "aiormq.abc"),
        ("aio_pika:Message", "aio_pika"),
        ("faststream.rabbit:RabbitMessage", "faststream.rabbit.message"),
        ("kombu:Message", "kombu"),
    ],
)
def test_installed_class_has_the_expected_name(identifier: str, module: str) -> None:
    assert identifier in {param.values[1] for param in IDENTIFIERS}
    cls: Any = pytest.importorskip(module)
    expected_module, _, name = identifier.partition(":")
    for part in name.split("."):
        cls = getattr(cls, part)

    assert name == cls.__qualname__
    assert f"{cls.__module__}.".startswith(f"{expected_module}.")


#: The attributes of messages of clients that are not installed, as far as they are read.
FAKES: dict[str, dict[str, Any]] = {
    "pika.spec:BasicProperties": {"headers": {"t": "x"}, "message_id": "m"},
    "kombu:Message": {
        "body": b"body",
        "headers": {"t": "x"},
        "properties": {"message_id": "m"},
        "delivery_info": {},
        "content_type": None,
        "content_encoding": None,
    },
    "aio_pika:Message": {
        "body": b"body",
        "body_size": 4,
        "expiration": None,
        "properties": SimpleNamespace(headers={"t": "x"}, message_id="m"),
    },
}


@pytest.mark.parametrize("identifier", FAKES)
def test_client_need_not_be_installed_to_read_its_message(identifier: str) -> None:
    fake = like_class(identifier)()
    for name, value in FAKES[identifier].items():
        setattr(fake, name, value)
    value = (fake, b"body") if identifier.startswith("pika") else fake

    def convert() -> None:
        message = from_client(value)
        assert (b"body", "x") == (message.body_bytes(), message.application_property("t"))
        assert message.properties == Properties(message_id="m")

    without(identifier.partition(":")[0].partition(".")[0], convert)()


def test_most_derived_class_decides() -> None:
    servicebus = pytest.importorskip("azure.servicebus", reason="azure-servicebus is not installed")
    amqp = pytest.importorskip("azure.servicebus.amqp")
    eventhub = pytest.importorskip("azure.eventhub", reason="azure-eventhub is not installed")
    expected = {
        servicebus.ServiceBusReceivedMessage: servicebus.ServiceBusReceivedMessage,
        servicebus.ServiceBusMessage: amqp.AmqpAnnotatedMessage,
        amqp.AmqpAnnotatedMessage: amqp.AmqpAnnotatedMessage,
        eventhub.EventData: eventhub.EventData,
    }

    for like, cls in expected.items():
        assert cls is type(to_client(Message(b"x"), like=like))


def test_objects_that_applications_build() -> None:
    servicebus = pytest.importorskip("azure.servicebus", reason="azure-servicebus is not installed")
    eventhub = pytest.importorskip("azure.eventhub", reason="azure-eventhub is not installed")
    proton = pytest.importorskip("proton", reason="proton is not installed")
    kombu = pytest.importorskip("kombu", reason="kombu is not installed")

    order_class: Any = type("Order", (proton.Message,), {})
    for built in (
        servicebus.ServiceBusMessage("hello", message_id="m"),
        servicebus.amqp.AmqpAnnotatedMessage(data_body=b"hello"),
        eventhub.EventData("hello"),
        proton.Message("hello"),
        order_class("hello"),
        kombu.Message(body=b"hello"),
    ):
        assert b"hello" == from_client(built).body_bytes() or "hello" == from_client(built).text()


def test_message_of_this_library_is_unchanged() -> None:
    class Own(Message):
        pass

    for message in (Message(b"x"), Own(b"x")):
        assert message is from_client(message)


def test_rhea_is_recognised_by_the_keys() -> None:
    document = json.loads(json.dumps(to_client(Message("x"), like="rhea")))

    assert Message("x") == from_client(document)
    assert document == to_client(Message("x"), like=document)
    for other in ({}, {"exchange": "", "body": b""}, {5: 5}, {"body": 1, "more": 2}):
        with pytest.raises(TypeError, match=r"a message of rhea in JSON, not dict"):
            from_client(other)


@pytest.mark.parametrize(
    "value, text",
    [
        (5, "not int"),
        (None, "not NoneType"),
        ("x", "not str"),
        (b"\x00\x53\x75\xa0\x00", "Message.decode decodes the bytes of a message"),
        (bytearray(), "Message.decode"),
        (BasicMessage(), "translate.to_amqp10 translates it"),
        ((), "not tuple"),
        (Message, "not type"),
        (object, "not type"),
    ],
)
def test_unknown_object_is_refused(value: object, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        from_client(value)
    assert text in str(caught.value)
    for client in ("proton", "azure-servicebus", "pika", "aio-pika", "kombu", "rhea"):
        assert client in str(caught.value)


def test_class_of_a_client_is_not_a_message() -> None:
    with pytest.raises(TypeError, match=r"not type"):
        from_client(like_class("proton:Message"))


def test_unknown_client_has_a_suggestion() -> None:
    for like, nearest in {
        "kombo": "kombu",
        "aiopika": "aio-pika",
        "service-bus": "servicebus",
    }.items():
        text = rf"unknown client '{like}' \(did you mean '{nearest}'\?\): use one of proton, "
        for function in (to_client, lost_in_client):
            with pytest.raises(ValueError, match=text):
                function(Message(b"x"), like)
        with pytest.raises(KeyError, match=text):
            CLIENTS[like]


def test_unknown_client_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown client 'stomp': use one of proton, rabbitmq"):
        to_client(Message(b"x"), like="stomp")
    for like in (None, 5, b"pika", object, ()):
        with pytest.raises(TypeError, match="the names are proton, rabbitmq, servicebus"):
            to_client(Message(b"x"), like=like)
        with pytest.raises(TypeError, match="the names are proton"):
            lost_in_client(Message(b"x"), like)
    for function in (to_client, lost_in_client):
        with pytest.raises(TypeError, match=f"{function.__name__} takes a Message, not bytes"):
            function(cast("Any", b"x"), "rhea")


@pytest.mark.parametrize("name", [name for name in CLIENTS if CLIENTS[name].module])
def test_missing_client_is_named_with_its_installation(name: ClientName) -> None:
    client = CLIENTS[name]

    def convert() -> None:
        with pytest.raises(ImportError) as caught:
            to_client(Message(b"x"), like=name)
        text = f"{client.module} is not installed: pip install {client.install}"
        assert text == str(caught.value)
        with pytest.raises(ImportError, match="is not installed"):
            lost_in_client(Message(b"x"), name)

    without(client.module.partition(".")[0], convert)()


# The table.


def test_table_has_all_names() -> None:
    assert list(get_args(ClientName)) == list(CLIENTS)


def test_documentation_has_a_row_for_each_client() -> None:
    page = ROOT / "docs" / "how-to" / "from-any-client.md"
    rows = re.findall(r"^\| [^|]*, `([\w-]+)` \|", page.read_text("utf-8"), re.MULTILINE)

    assert list(CLIENTS) == rows


def test_installation_names_existing_extras() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
    for client in CLIENTS.values():
        if client.install.startswith("'"):
            extra = client.install.partition("[")[2].partition("]")[0]
            assert f"\n{extra} = [\n" in pyproject


def test_import_loads_no_client() -> None:
    code = (
        "import sys, amqp10msg.interop.clients\n"
        "clients = 'proton azure pika pamqp aio_pika aiormq kombu amqp faststream'.split()\n"
        "print(*sorted(set(clients) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=60
    )

    assert "" == done.stdout.strip()


def test_functions_are_those_of_the_adapters() -> None:
    needs("servicebus")
    needs("aio-pika")
    message = Message(b"x", properties=Properties(message_id="m"))

    annotated = azure.to_annotated(message)
    assert azure.from_client(annotated) == from_client(annotated)
    made = adapters.to_aio_pika(to_basic(message).message)
    assert to_amqp10(adapters.from_aio_pika(made)).message == from_client(made)
