"""Messages of rhea, the client for Node, as JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    Array,
    Data,
    Decimal32,
    EncodeError,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from amqp10msg.interop.systems.rhea import from_rhea, is_rhea, to_rhea
from amqp10msg.testing import messages

#: JSON that rhea 3.0.5 wrote of a decoded message, without the body.
RECORDED = (
    '{"durable":true,"priority":4,"ttl":1000,"first_acquirer":false,"delivery_count":2,'
    '"delivery_annotations":{"x":1},"message_annotations":{"x-opt-a":5,'
    '"t":"2023-11-14T22:13:20.000Z","s":"z"},"message_id":"m-1",'
    '"user_id":{"type":"Buffer","data":[117]},"to":"q","subject":"s",'
    '"creation_time":"2023-11-14T22:13:20.000Z","group_sequence":3,'
    '"application_properties":{"a":1,"b":"x","c":true,"l":1099511627776,"f":1.5,"n":-1},'
    '"footer":{"f":1},"body":%s}'
)


@pytest.mark.parametrize(
    "body, expected",
    [
        ('"text"', AmqpValue("text")),
        ('{"type":"Buffer","data":[98,105,110]}', AmqpValue(b"bin")),
        ('{"typecode":117,"content":{"type":"Buffer","data":[104,105]}}', Data(b"hi")),
        ('{"typecode":118,"content":[1,2]}', AmqpSequence([UInt(1), UInt(2)])),
        (
            '{"typecode":117,"multiple":true,"content":[{"type":"Buffer","data":[97]}]}',
            [Data(b"a")],
        ),
        ('{"a":[1,2]}', AmqpValue({"a": [UInt(1), UInt(2)]})),
        ('{"typecode":1,"content":2}', AmqpValue({"typecode": UInt(1), "content": UInt(2)})),
        ("null", AmqpValue(None)),
    ],
)
def test_message_that_rhea_wrote(body: str, expected: object) -> None:
    document = json.loads(RECORDED % body)

    assert is_rhea(document)
    message = from_rhea(document)
    assert message == Message(
        expected,
        header=Header(durable=True, priority=4, ttl=1000, first_acquirer=False, delivery_count=2),
        delivery_annotations={"x": UInt(1)},
        message_annotations={"x-opt-a": UInt(5), "t": "2023-11-14T22:13:20.000Z", "s": "z"},
        properties=Properties(
            message_id="m-1",
            user_id=b"u",
            to="q",
            subject="s",
            creation_time=Timestamp(1_700_000_000_000),
            group_sequence=3,
        ),
        application_properties={
            "a": UInt(1),
            "b": "x",
            "c": True,
            "l": ULong(2**40),
            "f": 1.5,
            "n": Int(-1),
        },
        footer={"f": UInt(1)},
    )
    assert message == from_rhea(json.loads(json.dumps(to_rhea(message))))


@pytest.mark.parametrize(
    "number, expected",
    [
        (0, Int(0)),
        (1, UInt(1)),
        (2**32 - 1, UInt(2**32 - 1)),
        (2**32, ULong(2**32)),
        (-(2**31) + 2, Int(-(2**31) + 2)),
        (-(2**31) + 1, -(2**31) + 1),
        (5.0, UInt(5)),
        (0.5, 0.5),
    ],
)
def test_number_gets_the_type_with_which_rhea_sends_it(number: float, expected: object) -> None:
    body: Any = from_rhea({"body": number}).body

    assert (expected, type(expected)) == (body.value, type(body.value))


ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize("message_id", ["m-1", ULong(0), ULong(5), ID, b"octets"])
def test_identifiers_keep_their_types(message_id: Any) -> None:
    sent = Message(b"x", properties=Properties(message_id=message_id, correlation_id=message_id))

    assert sent == from_rhea(to_rhea(sent))


def json_values() -> st.SearchStrategy[Any]:
    simple = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    return st.recursive(
        simple,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "data", "typecode", "content", "x"]), inner, max_size=3
            )
            | st.builds(lambda octets: {"type": "Buffer", "data": octets}, st.lists(inner))
        ),
        max_leaves=5,
    )


NAMES = [
    *("durable", "ttl", "message_id", "user_id", "creation_time", "group_sequence", "to"),
    *("application_properties", "message_annotations", "footer", "body", "other"),
]


@given(st.dictionaries(st.sampled_from(NAMES), json_values(), max_size=4))
def test_any_json_is_converted_or_refused(document: dict[str, Any]) -> None:
    try:
        message = from_rhea(document)
        message.encode()
    except (TypeError, ValueError):
        return
    assert is_rhea(document) or not document


@given(messages())
def test_converted_message_is_json(message: Message) -> None:
    try:
        document = to_rhea(message)
    except EncodeError:
        return
    assert from_rhea(document) == from_rhea(json.loads(json.dumps(document, allow_nan=False)))


@pytest.mark.parametrize(
    "document, error, text",
    [
        ({"exchange": "e"}, ValueError, "a message of rhea has no 'exchange'"),
        ({"creation_time": "soon"}, ValueError, "creation_time is not a time: 'soon'"),
        ({"creation_time": True}, ValueError, "creation_time is not a time: True"),
        ({"message_id": -1}, EncodeError, "properties.message-id: ulong holds"),
        ({"priority": "x"}, EncodeError, "header.priority: must be ubyte, not 'x'"),
        ({"footer": []}, TypeError, "footer takes an object, not list"),
        ({"body": {"typecode": 117, "content": "x"}}, ValueError, "body: the section is invalid"),
        ({"body": {"typecode": 118, "content": 5}}, ValueError, "body: the section is invalid"),
        ({"body": object()}, TypeError, "JSON of rhea has no object"),
        ('{"body": 1}', TypeError, "parse it first, json.loads"),
    ],
)
def test_invalid_json_is_refused(document: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        from_rhea(document).encode()
    assert text in str(caught.value)


def test_deeply_nested_json_is_refused() -> None:
    body: list[Any] = []
    for _ in range(100_000):
        body = [body]

    with pytest.raises(ValueError, match="nested too deeply"):
        from_rhea({"body": body})


@pytest.mark.parametrize(
    "value", [Decimal32(5), float("inf"), 1e300, AmqpMap([([1], 2)]), {True: 1}]
)
def test_values_that_rhea_cannot_represent(value: object) -> None:
    with pytest.raises(EncodeError, match="rhea"):
        to_rhea(Message(AmqpValue(value)))


@pytest.mark.parametrize("time", [8_640_000_000_000_001, -8_640_000_000_000_001, 2**62])
def test_time_outside_the_range_of_javascript(time: int) -> None:
    with pytest.raises(EncodeError, match=r"properties\.creation-time: .* exceeds"):
        to_rhea(Message(b"x", properties=Properties(creation_time=time)))


# rhea itself.

_PROGRAM = """
const rhea = require('rhea');
const is_buffer = (value) => value && value.type === 'Buffer' && Array.isArray(value.data);
const revive = (key, value) => is_buffer(value) ? Buffer.from(value.data) : value;
const lines = require('fs').readFileSync(0, 'utf8').split('\\n').filter(Boolean);
for (const line of lines) {
  const message = JSON.parse(line, revive);
  const body = message.body;
  if (body && body.typecode === 0x75) {
    message.body = body.multiple
      ? rhea.message.data_sections(body.content) : rhea.message.data_section(body.content);
  } else if (body && body.typecode === 0x76) {
    message.body = body.multiple
      ? rhea.message.sequence_sections(body.content) : rhea.message.sequence_section(body.content);
  }
  const encoded = rhea.message.encode(message);
  console.log(JSON.stringify([encoded.toString('hex'), rhea.message.decode(encoded)]));
}
"""

MESSAGES = [
    Message("text"),
    Message(b"octets"),
    Message([Data(b"a"), Data(b"b")]),
    Message(AmqpSequence([1, "a", None, [True, 1.5]])),
    Message([AmqpSequence([1]), AmqpSequence([2])]),
    Message(AmqpValue({"a": [0, -5, 2**40, 2**53, -(2**40)], "b": b"octets"})),
    Message(AmqpValue([UInt(5), Int(-(2**31) + 1), Array("int", [1]), Symbol("s"), ID])),
    Message(
        b"x",
        header=Header(durable=True, priority=7, ttl=1000, delivery_count=2),
        delivery_annotations={"x-opt-a": "x"},
        message_annotations={"x-opt-b": 5},
        properties=Properties(
            message_id=ID,
            user_id=b"me",
            to="q",
            subject="s",
            correlation_id=ULong(7),
            content_type="text/plain",
            absolute_expiry_time=1_700_000_000_001,
            creation_time=1_700_000_000_000,
            group_id="g",
            group_sequence=3,
        ),
        application_properties={"n": 5, "f": 1.5, "t": "x", "no": None},
    ),
]


@pytest.mark.once
def test_rhea_sends_the_message_that_is_read_from_its_json() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    lines = "\n".join(json.dumps(to_rhea(message)) for message in MESSAGES)
    done = subprocess.run(
        [node, "-e", _PROGRAM], input=lines, capture_output=True, check=False, text=True, timeout=60
    )
    if "Cannot find module 'rhea'" in done.stderr:
        pytest.skip("needs rhea: npm install rhea, and NODE_PATH")

    assert "" == done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(MESSAGES) == len(results)
    for message, (octets, document) in zip(MESSAGES, results, strict=True):
        sent = Message.decode(bytes.fromhex(octets))
        read = from_rhea(to_rhea(message))
        assert read.evolve(header=None, properties=None) == sent.evolve(
            header=None, properties=None
        )
        # rhea sends an empty header and empty properties, too.
        assert (read.header or Header()) == sent.header
        assert (read.properties or Properties()) == sent.properties
        assert read == from_rhea(document)
