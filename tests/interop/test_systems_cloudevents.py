"""CloudEvents: both content modes both ways, against the binding of the package cloudevents."""

from __future__ import annotations

import contextlib
import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    ContentError,
    Data,
    EncodeError,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    validate,
)
from amqp10msg.testing import messages

pytest.importorskip("cloudevents.core", reason="the package cloudevents is not installed")

from cloudevents.core.bindings import amqp as theirs
from cloudevents.core.exceptions import CloudEventValidationError
from cloudevents.core.v1.event import CloudEvent

from amqp10msg.interop.systems import cloudevents

NAMES = {
    *{"id", "source", "type", "specversion", "time", "subject", "datacontenttype"},
    *{"dataschema", "data", "datacontentencoding"},
}
texts = st.text(st.characters(codec="utf-8"), min_size=1)
moments = st.datetimes(timezones=st.just(datetime.UTC))
extensions: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20).filter(
        lambda name: name not in NAMES
    ),
    st.text() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.binary(),
    max_size=4,
)


@st.composite
def events(draw: st.DrawFn, of: Any = extensions) -> CloudEvent:
    kind, data = draw(
        st.sampled_from(
            [
                (None, st.none()),
                (None, st.binary(min_size=1)),
                ("application/octet-stream", st.binary()),
                ("text/plain", st.text(st.characters(codec="utf-8"))),
                ("application/json", st.dictionaries(st.text(), st.integers() | st.text())),
                ("application/vnd.x+json; charset=utf-8", st.just({"a": [1.5, None]})),
            ]
        )
    )
    attributes = {
        "specversion": "1.0",
        **{name: draw(texts) for name in ("id", "source", "type")},
        **draw(of),
    }
    if kind is not None:
        attributes["datacontenttype"] = kind
    if draw(st.booleans()):
        attributes["time"] = draw(moments)
    if draw(st.booleans()):
        attributes["subject"] = draw(texts)
    content: Any = draw(data)
    return CloudEvent(attributes, content)


def received(message: Message) -> Message:
    return Message.decode(message.encode())


@given(events(), st.sampled_from(["_", ":"]))
def test_event_round_trips_in_binary_mode(event: CloudEvent, separator: Any) -> None:
    message = received(cloudevents.to_message(event, separator=separator))
    made = cloudevents.from_message(message)

    assert [] == validate(message)
    assert "binary" == cloudevents.mode_of(message)
    assert event.get_attributes() == made.get_attributes()
    assert event.get_data() == made.get_data()
    assert type(made) is CloudEvent


@given(events(st.just({})))
def test_event_round_trips_in_structured_mode(event: CloudEvent) -> None:
    message = received(cloudevents.to_message(event, "structured"))
    made = cloudevents.from_message(message)

    assert [] == validate(message)
    assert "structured" == cloudevents.mode_of(message)
    assert event.get_attributes() == made.get_attributes()
    assert event.get_data() == made.get_data()


def as_theirs(message: Message) -> theirs.AMQPMessage:
    content_type = message.properties.content_type if message.properties else None
    return theirs.AMQPMessage(
        {} if content_type is None else {"content-type": str(content_type)},
        {
            key: int(value) if isinstance(value, Timestamp) else value
            for key, value in (message.application_properties or {}).items()
        },
        message.body_bytes(),
    )


@given(events())
def test_cloudevents_package_reads_our_events(event: CloudEvent) -> None:
    made = theirs.from_amqp_event(as_theirs(cloudevents.to_message(event)))

    expected, found = event.get_attributes(), made.get_attributes()
    if "time" in expected:
        assert abs(expected.pop("time") - found.pop("time")) < datetime.timedelta(milliseconds=1)
    assert expected == found


@given(events(st.just({})), st.sampled_from(["binary", "structured"]))
def test_reads_events_of_the_cloudevents_package(event: CloudEvent, mode: str) -> None:
    write = theirs.to_binary_event if mode == "binary" else theirs.to_structured_event
    given_ = write(event)
    message = Message(
        Data(given_.application_data),
        properties=Properties(content_type=given_.properties.get("content-type")),
        application_properties={
            key: Timestamp(value) if key.endswith("_time") else value
            for key, value in given_.application_properties.items()
        },
    )
    made = cloudevents.from_message(message)

    expected, found = event.get_attributes(), made.get_attributes()
    if "time" in expected:
        assert abs(expected.pop("time") - found.pop("time")) < datetime.timedelta(milliseconds=2)
    assert expected == found
    assert event.get_data() == made.get_data()


@given(messages())
def test_any_message_is_an_event_or_raises_value_error(message: Message) -> None:
    with contextlib.suppress(ValueError, CloudEventValidationError):
        cloudevents.from_message(message)


EXAMPLE = {
    "specversion": "1.0",
    "type": "com.example.someevent",
    "time": "2018-04-05T03:56:24Z",
    "id": "1234-1234-1234",
    "source": "/mycontext/subcontext",
}
TIME = datetime.datetime(2018, 4, 5, 3, 56, 24, tzinfo=datetime.UTC)


@pytest.mark.parametrize("separator", ["_", ":"])
@pytest.mark.parametrize("time", [EXAMPLE["time"], Timestamp.from_datetime(TIME)])
def test_the_example_of_the_binding_in_binary_mode(separator: str, time: Any) -> None:
    """3.1.4, with its time as text and as what 3.1.3.2 makes of a Timestamp."""
    message = Message(
        b'{"a": 1}',
        properties=Properties(to="myqueue", content_type="application/json; charset=utf-8"),
        application_properties={
            f"cloudEvents{separator}{name}": value
            for name, value in {**EXAMPLE, "time": time}.items()
        },
    )
    event = cloudevents.from_message(message)

    assert TIME == event.get_time()
    assert "application/json; charset=utf-8" == event.get_datacontenttype()
    assert {"a": 1} == event.get_data()
    assert {**EXAMPLE, "time": TIME}.items() <= event.get_attributes().items()


def test_the_example_of_the_binding_in_structured_mode() -> None:
    message = Message(
        json.dumps({**EXAMPLE, "data": {"a": 1}}).encode(),
        properties=Properties(content_type="Application/CloudEvents+json; charset=utf-8"),
    )
    event = cloudevents.from_message(message)

    assert (TIME, {"a": 1}) == (event.get_time(), event.get_data())


def test_attributes_have_native_types() -> None:
    event = CloudEvent(
        {
            "id": "1",
            "source": "/s",
            "type": "t",
            "specversion": "1.0",
            "time": TIME,
            "n": 5,
            "b": True,
        }
    )
    made: Any = cloudevents.to_message(event).application_properties

    assert (Timestamp.from_datetime(TIME), 5, True) == tuple(
        made[f"cloudEvents_{name}"] for name in ("time", "n", "b")
    )
    assert type(made["cloudEvents_time"]) is Timestamp
    loose = Message(b"", application_properties={**made, "cloudEvents_n": UInt(7)})
    assert 7 == cloudevents.from_message(loose).get_extension("n")


def test_what_is_no_event() -> None:
    with pytest.raises(ValueError, match="the message contains no event"):
        cloudevents.from_message(Message("x"))
    avro = Properties(content_type=Symbol("application/cloudevents+avro"))
    with pytest.raises(ValueError, match="pass another event_format"):
        cloudevents.from_message(Message(b"x", properties=avro))


WHOLE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@pytest.mark.parametrize(
    "body, why",
    [
        (b"5", "the body must be a JSON object with id, source, specversion, type, not a number"),
        (b"null", "type, not null"),
        (b"true", "type, not true"),
        (b'"x"', "type, not a string"),
        (b"[]", "type, not an array"),
        (b"", "the body is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{", "the body is not JSON: Expecting property name"),
        (b"{}\xff", "the body is not UTF-8 at byte 2; Message.content() returns its bytes"),
        (b"[" * 100_000, "the body's JSON is nested too deeply"),
        (WHOLE | {"time": 5}, "the event's time must be a JSON string, not a number"),
        (WHOLE | {"time": "noon"}, "time must be like 2018-04-05T17:31:00Z, not 'noon'"),
        (WHOLE | {"data_base64": "a"}, "the body is invalid: "),
        (
            WHOLE | {"data_base64": {}},
            "the event's data_base64 must be a JSON string, not an object",
        ),
    ],
)
def test_error_describes_an_invalid_event_body(body: Any, why: str) -> None:
    octets = json.dumps(body).encode() if isinstance(body, dict) else body
    kind = "application/cloudevents+json; charset=utf-8"
    message = Message(Data(octets), properties=Properties(content_type=kind))

    with pytest.raises(ContentError) as caught:
        cloudevents.from_message(message)
    text = str(caught.value)
    assert f"the content-type {kind!r} declares an event, but " in text
    assert why in text


def test_errors_of_a_custom_event_format_are_reported() -> None:
    class Avro:
        def get_content_type(self) -> str:
            return "application/cloudevents+avro"

        def read(self, *_: Any) -> None:
            raise KeyError("id")

    message = Message(b"x", properties=Properties(content_type="application/cloudevents+avro"))
    event_format: Any = Avro()
    with pytest.raises(
        ContentError, match="but the body is invalid: the event cannot be read: KeyError: 'id'"
    ):
        cloudevents.from_message(message, event_format=event_format)


@pytest.mark.parametrize(
    "name, value, match",
    [("x", 2**31, "32 bits"), ("x", 1.5, "not float"), ("time", None, "naive")],
)
def test_invalid_attribute_values(name: str, value: Any, match: str) -> None:
    class Event:
        def get_attributes(self) -> dict[str, Any]:
            return {name: TIME.replace(tzinfo=None) if match == "naive" else value}

        def get_data(self) -> None:
            return None

    event: Any = Event()
    with pytest.raises(EncodeError) as caught:
        cloudevents.to_message(event)
    assert f"attributes[{name!r}]" == caught.value.path
    assert ("time zone" if match == "naive" else match) in caught.value.reason


def test_invalid_event_data() -> None:
    attributes = {"id": "1", "source": "/s", "type": "t", "specversion": "1.0"}
    for data in ({"a": object()}, [float("nan")], "\ud800"):
        event = CloudEvent(attributes, data)  # type: ignore[arg-type]
        with pytest.raises(EncodeError) as caught:
            cloudevents.to_message(event)
        assert "data" == caught.value.path
    with pytest.raises(EncodeError, match="must be bytes or str, not dict"):
        cloudevents.to_message(CloudEvent({**attributes, "datacontenttype": "text/xml"}, {}))
    with pytest.raises(ValueError, match="not 'batch'"):
        cloudevents.to_message(CloudEvent(attributes), "batch")  # type: ignore[arg-type]
