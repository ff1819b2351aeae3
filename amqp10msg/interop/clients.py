"""Convert the message of any supported client to a `Message`, and a `Message` to any client.

Clients are recognised by the names of their classes and modules: only the client whose message is
converted has to be installed. Messages of AMQP 0-9-1 clients are translated to 1.0 and back, see
`amqp10msg.translate`. `CLIENTS` describes each client in one record.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

import attrs

from amqp10msg.basic import (
    PROPERTIES,
    BasicMessage,
    BasicProperties,
    decode_properties,
    decode_table,
)
from amqp10msg.basic.adapters import lost_in_pamqp, lost_in_pika
from amqp10msg.brokers import ByName, unknown_name
from amqp10msg.interop.systems import adapters, azure, rhea
from amqp10msg.message import Message, expect_message
from amqp10msg.message.differences import Difference, differences
from amqp10msg.translate import ProfileName, TranslationProfile, to_amqp10, to_basic
from amqp10msg.wire.errors import EncodeError, wrong_type

if TYPE_CHECKING:
    # Of the clients, only the one in use has to be installed; the types of the others are unknown
    # to type checkers.
    import aio_pika
    import pamqp.commands
    import pika
    import pika.spec
    import proton
    from azure import eventhub, servicebus

__all__ = ["CLIENTS", "Client", "ClientName", "from_client", "lost_in_client", "to_client"]

#: The name of a client, for `to_client`.
ClientName: TypeAlias = Literal[
    "proton",
    "rabbitmq",
    "servicebus",
    "servicebus-received",
    "eventhub",
    "eventhub-received",
    "pika",
    "pamqp",
    "aio-pika",
    "kombu",
    "rhea",
]


@attrs.frozen(kw_only=True)
class Client:
    """How the messages of one client are recognised and converted.

    A function that reads or writes uses a `Message`, or a `BasicMessage` if `is_basic` is true.

    Attributes:
        accepts: the objects that `read` converts, for errors, such as ``a message of kombu``.
        classes: the classes that identify the client, as the name of a package or module, a colon
            and the qualified name of the class. Subclasses are recognised, too.
        read: converts an object of the client.
        write: converts to an object of the client.
        lost: returns the path and a description of each value that the client loses or changes
            when it sends a message; called with the argument and the result of `write`.
        module: the module that must be installed for `write`; empty if none.
        install: the argument of ``pip install`` that installs the client.
        is_basic: whether the client uses AMQP 0-9-1.
        matches: whether an object without a class of the client is one of its messages.
    """

    accepts: str
    classes: tuple[str, ...] = ()
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    lost: Callable[[Any, Any], Iterable[tuple[str, str]]]
    module: str = ""
    install: str = ""
    is_basic: bool = False
    matches: Callable[[object], bool] = lambda _: False


# The losses of a client, as `Client.lost` returns them.


def _describe(difference: Difference) -> str:
    match difference.kind:
        case "removed":
            return f"{difference.before!r:.200} is left out"
        case "reordered":
            return "the entries get another order"
    return f"{difference.before!r:.200} becomes {difference.after!r:.200}"


def _list_changes(before: Message, after: Message) -> Iterator[tuple[str, str]]:
    """Yield the values of `before` that `after` lacks, or has with another type or value.

    Values that only `after` has are no losses: they are defaults that the client adds.
    """
    for difference in differences(before, after):
        if difference.kind != "added":
            yield difference.path, _describe(difference)


def _lost_in_azure(message: Message, converted: Any) -> Iterator[tuple[str, str]]:
    return _list_changes(message, azure.from_client(converted))


def _lost_in_azure_sender(message: Message, converted: Any) -> Iterator[tuple[str, str]]:
    """Yield the values that an ``AmqpAnnotatedMessage`` lacks or that the sender replaces."""
    yield from _lost_in_azure(message, converted)
    for name in ("creation_time", "absolute_expiry_time"):
        time = getattr(message.properties, name, None)
        path = f"properties.{name.replace('_', '-')}"
        if time is not None and getattr(message.header, "ttl", None):
            yield path, "the client computes it from the ttl and its own clock"
        elif time == 0:
            yield path, "0 is left out"


def _lost_in_rhea(message: Message, converted: Any) -> Iterator[tuple[str, str]]:
    return _list_changes(message, rhea.from_rhea(converted))


def _lost_in_basic(
    read_sent: Callable[[Any], BasicMessage],
    list_unwritable: Callable[[Any], list[str]] = lambda _: [],
) -> Callable[[BasicMessage, Any], Iterator[tuple[str, str]]]:
    """Return the function `Client.lost` of a client of AMQP 0-9-1.

    Args:
        read_sent: returns the message that the client sends, decoded from the client's encoding.
        list_unwritable: returns the properties that the client cannot write, as sentences.
    """

    def lost(basic: BasicMessage, converted: Any) -> Iterator[tuple[str, str]]:
        try:
            sent = read_sent(converted)
        except Exception as error:  # noqa: BLE001  (each client has exceptions of its own)
            sentences = list_unwritable(basic.properties)
            for sentence in sentences:
                path, _, text = sentence.rpartition(": ")  # a path may contain ": ", in a key
                yield path, text
            if not sentences:
                cause = f"{type(error).__name__}: {error}"
                yield "properties", f"the client cannot write them: {cause:.200}"
            return
        # Properties that the message lacks are defaults that the client adds, and no loss.
        for row in PROPERTIES:
            if getattr(basic.properties, row.name) is None:
                setattr(sent.properties, row.name, None)
        # The lossless translation gives the values the paths that they have in 1.0.
        yield from _list_changes(to_amqp10(basic).message, to_amqp10(sent).message)

    return lost


# proton and RabbitMQ's client. Their module needs proton as soon as it is imported.


def _proton() -> Any:
    return importlib.import_module("amqp10msg.interop.proton")


def _lost_in_proton(message: Message, _: Any) -> Iterator[tuple[str, str]]:
    return ((loss.path, loss.text) for loss in _proton().losses(message))


def _lost_in_sendable(message: Message, _: Any) -> Iterator[tuple[str, str]]:
    if message.message_format:
        yield "message-format", f"proton sends 0 instead of {message.message_format:#x}"


# pika, pamqp and aiormq: a message is a tuple of the method, the properties and the body.


def _split_delivery(value: Any, library: str) -> tuple[Any, bytes, Any]:
    """Return properties, body and method of a tuple that a client of 0-9-1 passes for a message.

    Raises:
        TypeError: `value` is not a tuple of two to four items.
    """
    if not isinstance(value, tuple) or not 2 <= len(value) <= 4:
        raise wrong_type(
            f"from_client for a message of {library}",
            "a tuple (method, properties, body)",
            value,
            "pass the tuple, and not only one of its items",
        )
    *before, properties, body = value
    return properties, body, before[-1] if before else None


def _read_pika(value: Any) -> BasicMessage:
    return BasicMessage.from_pika(*_split_delivery(value, "pika"))


def _write_pika(basic: BasicMessage) -> tuple[Any, Any, bytes]:
    spec = importlib.import_module("pika.spec")
    method = spec.Basic.Publish(exchange=basic.exchange, routing_key=basic.routing_key)
    return method, basic.to_pika(), bytes(basic.body)


def _message_sent_by_pika(converted: tuple[Any, Any, bytes]) -> BasicMessage:
    """Return the message that pika sends, from its method frame, properties and body."""
    method, properties, body = converted
    octets = b"".join(properties.encode())
    return BasicMessage(decode_properties(octets), body, method.exchange, method.routing_key)


def _read_pamqp(value: Any) -> BasicMessage:
    if hasattr(value, "delivery") and hasattr(value, "header"):  # a DeliveredMessage of aiormq
        return BasicMessage.from_pamqp(value.header.properties, value.body, value.delivery)
    return BasicMessage.from_pamqp(*_split_delivery(value, "pamqp"))


def _write_pamqp(basic: BasicMessage) -> tuple[Any, Any, bytes]:
    commands = importlib.import_module("pamqp.commands")
    method = commands.Basic.Publish(exchange=basic.exchange, routing_key=basic.routing_key)
    return method, basic.to_pamqp(), bytes(basic.body)


def _message_sent_by_pamqp(converted: tuple[Any, Any, bytes]) -> BasicMessage:
    """Return the message that pamqp encodes for this tuple."""
    method, properties, body = converted
    octets = properties.marshal()
    return BasicMessage(decode_properties(octets), body, method.exchange, method.routing_key)


def _message_sent_by_aio_pika(converted: Any) -> BasicMessage:
    """Return the message that aio-pika sends for an ``aio_pika.Message``."""
    return BasicMessage(decode_properties(converted.properties.marshal()), converted.body)


def _message_sent_by_kombu(converted: Mapping[str, Any]) -> BasicMessage:
    """Return the message that kombu sends for these arguments of ``Producer.publish``."""
    names = {row.name for row in PROPERTIES}
    values = {name: value for name, value in converted.items() if name in names}
    # py-amqp, which is kombu's transport for AMQP, writes the headers with `dumps`.
    octets = importlib.import_module("amqp.serialization").dumps("F", [converted["headers"]])
    values["headers"] = decode_table(octets)
    if "expiration" in values:
        values["expiration"] = str(int(values["expiration"] * 1000))
    return BasicMessage(
        BasicProperties(**values),
        converted["body"],
        converted["exchange"],
        converted["routing_key"],
    )


#: The clients by name. To support another one, add a record here and its name to `ClientName`.
CLIENTS: ByName[Client] = ByName(
    {
        "proton": Client(
            accepts="a message of proton",
            classes=("proton:Message",),
            read=lambda value: _proton().from_proton(value),
            write=lambda message: _proton().to_proton(message, lossy=True),
            lost=_lost_in_proton,
            module="proton",
            install="'amqp10msg[proton]'",
        ),
        "rabbitmq": Client(
            accepts="a message of RabbitMQ's client for 1.0",
            classes=("rabbitmq_amqp_python_client:Message",),
            read=lambda value: _proton().from_proton(value),
            write=lambda message: _proton().sendable(message),
            lost=_lost_in_sendable,
            module="proton",
            install="rabbitmq-amqp-python-client",
        ),
        "servicebus": Client(
            accepts="a message of azure-servicebus",
            classes=("azure.servicebus:ServiceBusMessage", "azure.servicebus:AmqpAnnotatedMessage"),
            read=azure.from_client,
            write=azure.to_annotated,
            lost=_lost_in_azure_sender,
            module="azure.servicebus",
            install="'amqp10msg[azure]'",
        ),
        "servicebus-received": Client(
            accepts="a message of azure-servicebus",
            classes=("azure.servicebus:ServiceBusReceivedMessage",),
            read=azure.from_client,
            write=azure.to_received,
            lost=_lost_in_azure,
            module="azure.servicebus",
            install="'amqp10msg[azure]'",
        ),
        "eventhub": Client(
            accepts="an event of azure-eventhub",
            classes=("azure.eventhub:AmqpAnnotatedMessage",),
            read=azure.from_client,
            write=lambda message: azure.to_annotated(message, "eventhub"),
            lost=_lost_in_azure_sender,
            module="azure.eventhub",
            install="'amqp10msg[azure]'",
        ),
        "eventhub-received": Client(
            accepts="an event of azure-eventhub",
            classes=("azure.eventhub:EventData",),
            read=azure.from_client,
            write=azure.to_event_data,
            lost=_lost_in_azure,
            module="azure.eventhub",
            install="'amqp10msg[azure]'",
        ),
        "pika": Client(
            accepts="the tuple (method, properties, body) of pika",
            classes=("pika.spec:BasicProperties",),
            read=_read_pika,
            write=_write_pika,
            lost=_lost_in_basic(_message_sent_by_pika, lost_in_pika),
            module="pika",
            install="pika",
            is_basic=True,
        ),
        "pamqp": Client(
            accepts="the tuple (method, properties, body) of pamqp",
            classes=("pamqp.commands:Basic.Properties", "aiormq:DeliveredMessage"),
            read=_read_pamqp,
            write=_write_pamqp,
            lost=_lost_in_basic(_message_sent_by_pamqp, lost_in_pamqp),
            module="pamqp",
            install="pamqp",
            is_basic=True,
        ),
        "aio-pika": Client(
            accepts="a message of aio-pika or FastStream",
            classes=("aio_pika:Message", "faststream.rabbit:RabbitMessage"),
            read=adapters.from_aio_pika,
            write=adapters.to_aio_pika,
            lost=_lost_in_basic(_message_sent_by_aio_pika, lost_in_pamqp),
            module="aio_pika",
            install="aio-pika",
            is_basic=True,
        ),
        "kombu": Client(
            accepts="a message of kombu",
            classes=("kombu:Message",),
            read=adapters.from_kombu,
            write=adapters.to_kombu,
            lost=_lost_in_basic(_message_sent_by_kombu),
            module="kombu",
            install="kombu",
            is_basic=True,
        ),
        "rhea": Client(
            accepts="a message of rhea in JSON",
            read=rhea.from_rhea,
            write=rhea.to_rhea,
            lost=_lost_in_rhea,
            matches=rhea.is_rhea,
        ),
    },
    kind="client",
)


@functools.lru_cache(maxsize=256)
def _find_client_of_class(cls: type) -> Client | None:
    """Return the client of a class, or of the first of its bases that belongs to a client."""
    for base in cls.__mro__:
        for client in CLIENTS.values():
            for identifier in client.classes:
                module, _, name = identifier.partition(":")
                if base.__qualname__ == name and f"{base.__module__}.".startswith(f"{module}."):
                    return client
    return None


def _find_client(value: object) -> Client | None:
    """Return the client of a class, of a message or of the items of a tuple."""
    classes: list[Any] = [value]  # Any, because mypy does not regard all classes as hashable
    if not isinstance(value, type):
        items = value if isinstance(value, tuple) else ()
        classes = [type(value), *map(type, items)]
    for cls in classes:
        client = _find_client_of_class(cls)
        if client is not None:
            return client
    return next((client for client in CLIENTS.values() if client.matches(value)), None)


def _hint_for(value: object) -> str:
    """Return what to do with an object that is not the message of a client."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "Message.decode decodes the bytes of a message"
    if isinstance(value, BasicMessage):
        return "translate.to_amqp10 translates it"
    if isinstance(value, tuple) and value and all(item is None for item in value):
        return "basic_get returns a tuple of None if the queue is empty"
    return ""


def from_client(
    value: object,
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> Message:
    """Convert the message of a client to a `Message`.

    The client is recognised by the name and module of the object's class or of one of its bases.
    Clients do not report the AMQP types of all values: a value gets the type with which the client
    would send it.

    Args:
        value: a message of proton, of RabbitMQ's Python client for 1.0, of azure-servicebus,
            azure-eventhub, aio-pika, FastStream or kombu; the tuple (method, properties, body) that
            pika's ``basic_get`` returns, or the one with the channel in front that its callbacks
            get; the same tuple of pamqp, or a ``DeliveredMessage`` of aiormq; the dict of a message
            that rhea wrote as JSON. A `Message` is returned unchanged.
        profile: how to translate the message of a client of AMQP 0-9-1, see `translate.to_amqp10`.
        lossy: accept a translation that loses data of the sender permanently. The profile
            ``lossless`` does not lose any.

    Raises:
        TypeError: the object is not a message of these clients, or contains a value whose type
            cannot be sent.
        ValueError: the message contains an invalid value, or the profile does not exist.
        EncodeError: a value has no AMQP encoding; the error contains its path.
        DecodeError: header or properties of a message of proton violate the specification.
        TranslationError: the profile's broker rejects the message, or loses data and `lossy` is
            false.
    """
    if isinstance(value, Message):
        return value
    client = None if isinstance(value, type) else _find_client(value)
    if client is None:
        *first, last = dict.fromkeys(client.accepts for client in CLIENTS.values())
        expected = f"{', '.join(first)} or {last}"
        raise wrong_type("from_client", expected, value, _hint_for(value))
    message = client.read(value)
    if client.is_basic:
        message = to_amqp10(message, profile, strict=not lossy).message
    return cast("Message", message)


def _choose_client(like: object) -> Client:
    """Return the client that the argument `like` names.

    Raises:
        TypeError: `like` is neither a name nor a class or message of a client.
        ValueError: no client has this name.
    """
    if isinstance(like, str):
        client = CLIENTS.get(like)
        if client is None:
            raise ValueError(unknown_name("client", like, CLIENTS))
        return client
    client = _find_client(like)
    if client is None:
        expected = "a client's name, class or message as like"
        raise wrong_type("to_client", expected, like, f"the names are {', '.join(CLIENTS)}")
    return client


def _convert(
    message: Message, client: Client, profile: ProfileName | TranslationProfile, lossy: bool
) -> tuple[Any, Any]:
    """Return the object of a client, and the message of AMQP 0-9-1 or 1.0 that it is made of."""
    if client.module:
        try:
            importlib.import_module(client.module)
        except ImportError as error:
            text = f"{client.module} is not installed: pip install {client.install}"
            raise ModuleNotFoundError(text, name=client.module) from error
    source: Any = message
    if client.is_basic:
        source = to_basic(message, profile, strict=not lossy).message
    return client.write(source), source


@overload
def to_client(
    message: Message,
    like: Literal["proton"],
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> proton.Message: ...


@overload
def to_client(
    message: Message,
    like: Literal["servicebus"],
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> servicebus.amqp.AmqpAnnotatedMessage: ...


@overload
def to_client(
    message: Message,
    like: Literal["servicebus-received"],
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> servicebus.ServiceBusReceivedMessage: ...


@overload
def to_client(
    message: Message,
    like: Literal["eventhub"],
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> eventhub.amqp.AmqpAnnotatedMessage: ...


@overload
def to_client(
    message: Message,
    like: Literal["eventhub-received"],
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> eventhub.EventData: ...


@overload
def to_client(
    message: Message,
    like: Literal["pika"],
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> tuple[pika.spec.Basic.Publish, pika.BasicProperties, bytes]: ...


@overload
def to_client(
    message: Message,
    like: Literal["pamqp"],
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> tuple[pamqp.commands.Basic.Publish, pamqp.commands.Basic.Properties, bytes]: ...


@overload
def to_client(
    message: Message,
    like: Literal["aio-pika"],
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> aio_pika.Message: ...


@overload
def to_client(
    message: Message,
    like: Literal["kombu", "rhea"],
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> dict[str, Any]: ...


@overload
def to_client(
    message: Message,
    like: ClientName | object,
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> Any: ...


def to_client(
    message: Message,
    like: ClientName | object,
    *,
    profile: ProfileName | TranslationProfile = "lossless",
    lossy: bool = False,
) -> Any:
    """Convert a message to the object with which a client sends it.

    Args:
        message: the message; it is not modified.
        like: the name of a client, one of its message classes, or one of its messages.
        profile: how to translate the message for a client of AMQP 0-9-1, see `translate.to_basic`.
        lossy: convert the message even if the client, or the translation, loses or changes values;
            `lost_in_client` lists them. Values that the client adds are no losses: aio-pika sets an
            absent delivery-mode and priority to 1 and 0, for example.

    Returns:
        For proton a ``proton.Message``. For rabbitmq an object that its publisher and the blocking
        sender of proton send byte for byte. For servicebus and eventhub an
        ``AmqpAnnotatedMessage``, and for servicebus-received and eventhub-received the object that
        the client creates for a received message. For pika and pamqp a tuple of ``Basic.Publish``,
        the properties and the body. For aio-pika an ``aio_pika.Message``. For kombu the arguments
        of ``Producer.publish``. For rhea a dict for ``json.dumps``.

    Raises:
        EncodeError: values would be lost or changed, and `lossy` is false; or the message cannot be
            encoded, or the client cannot represent it at all.
        TranslationError: the translation to AMQP 0-9-1 loses data of the sender permanently, and
            `lossy` is false; or the profile's broker rejects the message.
        ValueError: no client has this name, the profile does not exist, or the client cannot
            represent a value, such as an expiration that is not a number.
        TypeError: `message` is not a `Message`, or `like` is not of a client.
        ImportError: the client is not installed.
    """
    expect_message(message, "to_client")
    client = _choose_client(like)
    converted, source = _convert(message, client, profile, lossy)
    lost = [] if lossy else list(client.lost(source, converted))
    if lost:
        (path, text), *others = lost
        more = f" and {len(others)} more, see lost_in_client()" if others else ""
        raise EncodeError(f"{text}{more}; lossy=True converts anyway", path)
    return converted


def lost_in_client(
    message: Message,
    like: ClientName | object,
    *,
    profile: ProfileName | TranslationProfile = "lossless",
) -> list[str]:
    """Return the values that are lost or changed if a client sends a message, as sentences.

    An empty list means that `to_client` needs no `lossy`. The permanent losses of the translation
    to AMQP 0-9-1 come first.

    Args:
        message: the message; it is not modified.
        like: the name of a client, one of its message classes, or one of its messages.
        profile: how to translate the message for a client of AMQP 0-9-1.

    Raises:
        EncodeError: the message cannot be encoded, or the client cannot represent it at all.
        TranslationError: the profile's broker rejects the message.
        ValueError: no client has this name, the profile does not exist, or the client cannot
            represent a value.
        TypeError: `message` is not a `Message`, or `like` is not of a client.
        ImportError: the client is not installed.
    """
    expect_message(message, "lost_in_client")
    client = _choose_client(like)
    converted, source = _convert(message, client, profile, True)
    sentences = []
    if client.is_basic:
        losses = to_basic(message, profile).losses
        sentences = [f"{loss.path}: {loss.reason}" for loss in losses if loss.is_permanent]
    return sentences + [f"{path}: {text}" for path, text in client.lost(source, converted)]
