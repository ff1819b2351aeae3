"""What is given as something else is refused at once, with what is wanted and how to make it."""

# mypy: disable-error-code="arg-type, list-item, dict-item, call-arg"

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from amqp10msg import (
    AmqpValue,
    Char,
    Data,
    EncodeError,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    delivery,
    scan,
    validate,
)
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.delivery import DistributionNode, Modified, Rejected, Source
from amqp10msg.delivery.filters import FilterSet, Selector, SqlFilter
from amqp10msg.message.batch import wrap
from amqp10msg.message.checksums import sign, verify, with_checksum
from amqp10msg.translate import to_amqp10, to_basic

anything: Any = None
MESSAGE = Message("x")
BASIC = BasicMessage(body=b"x")


def node() -> DistributionNode:
    return DistributionNode("q", clock=lambda: 0)


def settled() -> Any:
    made = node()
    made.publish(MESSAGE)
    return made.attach().next()


def sent(**fields: Any) -> Callable[[], Any]:
    """Encode a message with a header or properties; sections are checked when they are encoded."""
    if "ttl" in fields:
        return lambda: Message("x", header=Header(**fields)).encode()
    return lambda: Message("x", properties=Properties(**fields)).encode()


# What is called, the error, and what it must say: what is wanted, what was given, and how.
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "expiration": (
        lambda: BasicProperties(expiration=5000),
        TypeError, ("expiration", "str", "int", "'5000'"),
    ),
    "basic body": (
        lambda: BasicMessage(BasicProperties(), "hello"),
        TypeError, ("bytes", "str", ".encode()"),
    ),
    "basic properties": (
        lambda: BasicMessage({}),
        TypeError, ("BasicProperties", "dict"),
    ),
    "to_basic of basic": (lambda: to_basic(anything or BASIC), TypeError, ("Message", "to_amqp10")),
    "to_basic of bytes": (lambda: to_basic(b"x"), TypeError, ("bytes", "Message.decode")),
    "to_amqp10 of 1.0": (lambda: to_amqp10(MESSAGE), TypeError, ("BasicMessage", "to_basic")),
    "to_amqp10 of bytes": (lambda: to_amqp10(b"x"), TypeError, ("BasicMessage", "bytes")),
    "priority": (
        lambda: to_amqp10(BasicMessage(BasicProperties(priority="9"))),
        EncodeError, ("priority", "0 to 255", "'9'"),
    ),
    "headers": (
        lambda: to_amqp10(BasicMessage(BasicProperties(headers=[1]))),
        EncodeError, ("headers", "dict", "list"),
    ),
    "wrap of bytes": (lambda: wrap([b"x"]), TypeError, ("messages", "bytes", "Message.decode")),
    "wrap of one": (lambda: wrap(MESSAGE), TypeError, ("several", "wrap([message])")),
    "matches bytes": (
        lambda: Selector("a = 1").matches(b"x"), TypeError, ("bytes", "Message.decode")
    ),
    "matches text": (lambda: SqlFilter("a = 1").matches("x"), TypeError, ("Message", "str")),
    "filter set": (lambda: FilterSet({"a": "b = 1"}), EncodeError, ("Filter", "str", "Selector")),
    "publish text": (lambda: node().publish("x"), TypeError, ("Message", "str", "Message('text')")),
    "publish None": (lambda: node().publish(anything), TypeError, ("Message", "NoneType")),
    "mode": (lambda: node().attach(mode="browse"), ValueError, ("'move' or 'copy'", "'browse'")),
    "filter text": (
        lambda: node().attach(filter="color='red'"),
        TypeError, ("matches", "str", "Selector("),
    ),
    "filter map": (lambda: node().attach(filter={}), TypeError, ("matches", "dict", "FilterSet")),
    "link name": (lambda: node().attach(5), TypeError, ("name of a link", "str", "int")),
    "settle": (lambda: settled().settle("accepted"), ValueError, ("outcome", "'accepted'")),
    "sections": (lambda: Message([Data(b"a"), "b"]), TypeError, ("sections", "str", "AmqpValue")),
    "timestamp": (lambda: Timestamp("2020"), TypeError, ("Timestamp", "int", "str")),
    "fraction": (lambda: UInt(2.5), TypeError, ("UInt", "int", "float", "UInt(int(2.5))")),
    "number as text": (lambda: ULong("1"), TypeError, ("ULong", "int", "str")),
    "symbol": (lambda: Symbol(b"x"), TypeError, ("Symbol", "str", "bytes")),
    "char": (lambda: Char(5), TypeError, ("Char", "str", "int")),
    "empty key": (lambda: sign(MESSAGE, b""), ValueError, ("empty", "32 random bytes")),
    "text as key": (lambda: sign(MESSAGE, "key"), TypeError, ("bytes", "str", ".encode()")),
    "empty key of verify": (lambda: verify(MESSAGE, b""), ValueError, ("empty",)),
    "no key of verify": (
        lambda: verify(MESSAGE, None),
        TypeError, ("bytes", "NoneType", "omit it"),
    ),
    "sign bytes": (lambda: sign(b"x", b"key"), TypeError, ("Message", "bytes", "Message.decode")),
    "checksum of text": (lambda: with_checksum("x"), TypeError, ("Message", "str")),
    "ttl": (sent(ttl="5s"), EncodeError, ("header.ttl", "uint", "'5s'")),
    "timedelta": (
        sent(ttl=datetime.timedelta(seconds=5)),
        EncodeError, ("header.ttl", "uint", "milliseconds"),
    ),
    "user_id": (sent(user_id="guest"), EncodeError, ("user-id", "binary", "'guest'", ".encode()")),
    "header": (
        lambda: Message("x", header={"ttl": 5}),
        TypeError, ("Header", "dict", "header=Header(ttl=5)"),
    ),
    "properties": (
        lambda: Message("x", properties={"subject": "s"}),
        TypeError, ("Properties", "dict", "properties=Properties(subject='s')"),
    ),
    "properties of the application": (
        lambda: Message("x", properties={"tenant": "s"}),
        TypeError, ("Properties", "dict", "application_properties={'tenant': 's'}"),
    ),
    "message_id and properties": (
        lambda: Message("x", message_id="m", properties=Properties()),
        TypeError, ("message_id", "write properties=Properties(message_id='m')"),
    ),
    "durable and header": (
        lambda: Message("x", durable=True, header=Header()),
        TypeError, ("durable", "write header=Header(durable=True)"),
    ),
    "misspelt": (lambda: Message("x", heder=None), TypeError, ("heder", "header?")),
    "set message_id": (
        lambda: setattr(Message("x"), "message_id", "m"),
        AttributeError, ("message.properties = Properties(message_id='m')",),
    ),
    "decode": (lambda: Message.decode("x"), TypeError, ("bytes", "str")),
    "scan": (lambda: scan("x"), TypeError, ("bytes", "str")),
    "validate": (lambda: validate("x"), TypeError, ("Message", "bytes", "str")),
    "source": (
        lambda: delivery.encode(Source(filter="a = 1")),
        EncodeError, ("source.filter", "map", "'a = 1'"),
    ),
    "timeout": (
        lambda: delivery.encode(Source(timeout=datetime.timedelta(1))),
        EncodeError, ("source.timeout", "uint", "timedelta"),
    ),
    "annotations": (
        lambda: delivery.encode(Modified(message_annotations=[1])),
        EncodeError, ("message-annotations", "map"),
    ),
    "error": (
        lambda: delivery.encode(Rejected("no")),
        EncodeError, ("rejected.error", "error", "'no'"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_type_error_names_the_expected_type(name: str) -> None:
    call, error, said = REFUSED[name]
    with pytest.raises(error) as refused:
        call()
    assert [] == [part for part in said if part not in str(refused.value)], str(refused.value)


def test_equivalent_arguments_are_accepted() -> None:
    class Index:
        def __index__(self) -> int:
            return 5

    assert (5, 1) == (UInt(Index()), Int(True))
    assert AmqpValue([1, Data(b"a")]) == Message([1, Data(b"a")]).body
    assert b"x" == BasicMessage(body=bytearray(b"x")).body
