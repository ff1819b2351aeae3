"""Files of Event Hubs Capture: what is read from them, and how they are recognised."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Data, EncodeError, Limits, Message, Properties, Symbol, Timestamp, UInt, files
from amqp10msg.files.event_hubs import message_of, time_of
from amqp10msg.files.recognition import form_of_head

fastavro = pytest.importorskip("fastavro", reason="needs fastavro: pip install 'amqp10msg[avro]'")

VALUES = ["long", "double", "string", "bytes"]


def schema_of(*more: str) -> dict[str, Any]:
    """The schema of Capture's files, with more types in the union of the properties."""
    return {
        "type": "record",
        "name": "EventData",
        "namespace": "Microsoft.ServiceBus.Messaging",
        "fields": [
            {"name": "SequenceNumber", "type": "long"},
            {"name": "Offset", "type": "string"},
            {"name": "EnqueuedTimeUtc", "type": "string"},
            {"name": "SystemProperties", "type": {"type": "map", "values": VALUES}},
            {"name": "Properties", "type": {"type": "map", "values": [*VALUES, *more]}},
            {"name": "Body", "type": ["null", "bytes"]},
        ],
    }


#: As Microsoft's page "Capture streaming events" (azure-docs, event-hubs-capture-overview) has it.
DOCUMENTED = schema_of()
#: As the heads of files have it that people published in 2018 to 2023: with null, not documented.
SCHEMA = schema_of("null")
EVENT: dict[str, Any] = {
    "SequenceNumber": 7,
    "Offset": "1024",
    "EnqueuedTimeUtc": "7/25/2017 5:22:18 PM",
    "SystemProperties": {
        "message-id": "m-1",
        "content-type": "application/json",
        "creation-time": 1_500_000_000_000,
        "group-sequence": 5,
        "user-id": "alice",
        "x-opt-partition-key": "customer-1",
        "absolute-expiry-time": "never",
    },
    "Properties": {"tenant": "acme", "n": 5, "half": 0.5, "octets": b"\x00", "none": None},
    "Body": b"hello",
}
ENQUEUED = 1_501_003_338_000


def written(*events: dict[str, Any], codec: str = "null", schema: Any = SCHEMA) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, events, codec=codec, sync_interval=100)
    return stream.getvalue()


simple = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()


FIELD_NAMES = st.sampled_from([field.name.replace("_", "-") for field in attrs.fields(Properties)])


@given(
    st.dictionaries(st.text(), simple | st.none()),
    st.dictionaries(FIELD_NAMES | st.text(st.characters(codec="ascii"), min_size=1), simple),
    st.none() | st.binary(),
    st.integers(0, 2**63 - 1),
)
def test_all_data_of_an_event_is_kept(
    properties: dict[str, Any], system: dict[str, Any], body: bytes | None, number: int
) -> None:
    event = {**EVENT, "Properties": properties, "SystemProperties": system, "Body": body}
    event["SequenceNumber"] = number
    stream = io.BufferedReader(io.BytesIO(written(event)))

    (record,) = files.read_stream(stream, "avro")

    assert ("", ENQUEUED * 1000) == (record.fault, record.time)
    message = Message.decode(record.wire or b"")
    assert message_of(event) == message
    assert properties == dict(message.application_properties or {})
    said = dict(message.message_annotations or {})
    for field in attrs.fields(Properties):
        name = field.name.replace("_", "-")
        if name in system and getattr(message.properties, field.name, None) is not None:
            said[name] = system[name]
    own = {"x-opt-sequence-number", "x-opt-offset", "x-opt-enqueued-time"}
    assert {k: v for k, v in system.items() if k not in own} == {
        str(k): v for k, v in said.items() if k not in own
    }
    assert (number, body or b"") == (said["x-opt-sequence-number"], message.body_bytes())


def test_event_becomes_the_message_that_the_service_delivers() -> None:
    expected = Message(
        Data(b"hello"),
        message_annotations={
            Symbol("x-opt-partition-key"): "customer-1",
            # Not a time: it stays what it was.
            Symbol("absolute-expiry-time"): "never",
            Symbol("x-opt-sequence-number"): 7,
            Symbol("x-opt-offset"): "1024",
            Symbol("x-opt-enqueued-time"): Timestamp(ENQUEUED),
        },
        properties=Properties(
            message_id="m-1",
            user_id=b"alice",
            content_type=Symbol("application/json"),
            creation_time=1_500_000_000_000,
            group_sequence=UInt(5),
        ),
        application_properties=EVENT["Properties"],
    )

    assert expected == message_of(EVENT)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_files_are_recognised_and_read(tmp_path: Path, codec: str) -> None:
    events = [{**EVENT, "SequenceNumber": number} for number in range(50)]
    for name, content in {
        "capture.avro": written(*events, codec=codec),
        "no-suffix": written(*events, codec=codec),
        "packed.gz": gzip.compress(written(*events, codec=codec)),
    }.items():
        path = tmp_path / name
        path.write_bytes(content)

        assert "avro" == files.form_of(path)
        assert [message_of(event).encode() for event in events] == [
            record.wire for record in files.read(path)
        ]
        assert 1 == len(files.ranges(path, octets=100))


# Of 2016, as DXFrance/BlueFrogHackfest shows it: MessageCollection/EventHub/SampleData/README.md.
PUBLISHED = {
    "SequenceNumber": 0,
    "Offset": "0",
    "EnqueuedTimeUtc": "11/16/2016 4:44:11 PM",
    "SystemProperties": {"x-opt-publisher": "buddy1234"},
    "Properties": {},
    "Body": b'{"field1": "value1", "field2": "value2"}',
}
# A route of IoT Hub to storage writes Avro alike, of fewer fields; from Microsoft's page on the
# export of data from IoT Central (azure-docs, howto-export-data).
ROUTED = {
    "EnqueuedTimeUtc": "2019-06-11T00:00:08.2250000Z",
    "Properties": {},
    "SystemProperties": {
        "connectionDeviceId": "<deviceId>",
        "enqueuedTime": "2019-06-11T00:00:08.2250000Z",
    },
    "Body": b'{"humidity":80.59100954598546}',
}


@pytest.mark.parametrize(
    "event, time, names",
    [
        (
            PUBLISHED,
            1_479_314_651_000,
            {"x-opt-publisher", "x-opt-sequence-number", "x-opt-offset", "x-opt-enqueued-time"},
        ),
        (
            ROUTED,
            1_560_211_208_225,
            {"connectionDeviceId", "enqueuedTime", "x-opt-enqueued-time"},
        ),
    ],
    ids=["published", "routed"],
)
def test_published_examples_of_events(event: dict[str, Any], time: int, names: set[str]) -> None:
    fields = [field for field in DOCUMENTED["fields"] if field["name"] in event]
    content = written(event, schema={**DOCUMENTED, "fields": fields})

    (record,) = files.read_stream(io.BufferedReader(io.BytesIO(content)), "avro")

    assert ("", time * 1000) == (record.fault, record.time)
    message = Message.decode(record.wire or b"")
    said = dict(message.message_annotations or {})
    assert names == {str(name) for name in said}
    assert (Timestamp(time), event["Body"]) == (said["x-opt-enqueued-time"], message.body_bytes())


def test_damaged_avro_file_is_a_fault_after_the_valid_events() -> None:
    content = written(*[EVENT] * 50)
    whole = written(EVENT)

    for octets in (content[:-20], content[: len(content) // 2] + b"\xff" * 50):
        records = list(files.read_stream(io.BufferedReader(io.BytesIO(octets)), "avro"))

        assert 1 < len(records)
        assert "damaged" in records[-1].fault
        assert [message_of(EVENT).encode()] * (len(records) - 1) == [
            record.wire for record in records[:-1]
        ]
    with pytest.raises(ValueError, match="not Avro, or damaged"):
        list(files.read_stream(io.BufferedReader(io.BytesIO(whole[:30])), "avro"))


def test_avro_without_events_is_refused() -> None:
    stream = io.BytesIO()
    schema = {"type": "record", "name": "A", "fields": [{"name": "city", "type": "string"}]}
    fastavro.writer(stream, schema, [{"city": "Graz"}])

    assert "avro" == form_of_head(stream.getvalue())
    with pytest.raises(ValueError, match=r"not of Event Hubs Capture.*city"):
        list(files.read_stream(io.BufferedReader(io.BytesIO(stream.getvalue())), "avro"))


def block_of(schema: Any, count: int, content: bytes, codec: str = "null") -> bytes:
    """An Avro file of one block that says what it likes of itself."""
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [], codec=codec, sync_marker=b"S" * 16)
    packed = content
    if codec == "deflate":
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = deflate.compress(content) + deflate.flush()
    for number in (count, len(packed)):
        fastavro.schemaless_writer(stream, "long", number)
    return stream.getvalue() + packed + b"S" * 16


def nothing_of(kind: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name in ("Body", "SystemProperties")]
    return {"type": "record", "name": "E", "fields": fields}


def faults_of(octets: bytes, **limits: int) -> list[str]:
    stream = io.BufferedReader(io.BytesIO(octets))
    return [one.fault for one in files.read_stream(stream, "avro", limits=Limits(**limits))]


def test_records_without_a_byte_are_bounded_by_the_bytes_of_the_file() -> None:
    blocks = [block_of(nothing_of("null"), 10**15, b""), block_of(nothing_of("null"), 300, b"")]

    counts = []
    for octets in blocks:
        *read, fault = faults_of(octets, zero_width_per_byte=1)
        assert not any(read)
        assert "raise Limits.zero_width_per_byte," in fault
        counts.append(len(read))

    # 255 for any file, and one for each byte of the block: its sync marker alone.
    assert [255 + 16] * 2 == counts
    assert 300 == len(faults_of(blocks[1], zero_width_per_byte=3))


def test_small_file_does_not_expand_endlessly() -> None:
    endless = block_of(nothing_of("null"), 10**15, b"")

    *read, fault = faults_of(endless, zero_width=20)

    assert [""] * 20 == read
    assert "more than 20 records without a byte" in fault
    assert "raise Limits.zero_width," in fault
    items = {"type": "array", "items": "null"}
    with pytest.raises(ValueError, match="Body is neither a value nor a map of values"):
        faults_of(block_of(nothing_of(items), 1, b""))
    # Each names the next one twice.
    kind: Any = "null"
    for level in range(60):
        twice = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{level - 1}"}]
        kind = {"type": "record", "name": f"R{level}", "fields": twice if level else twice[:1]}
    with pytest.raises(ValueError, match="Body is neither a value nor a map of values"):
        faults_of(
            block_of(
                nothing_of(kind)
                | {
                    "fields": [
                        {"name": "Body", "type": kind},
                        {"name": "SystemProperties", "type": "null"},
                    ]
                },
                1,
                b"",
            )
        )


def test_unknown_avro_fields_are_skipped_within_limits() -> None:
    more = {
        "Level": {"type": "enum", "name": "Level", "symbols": ["low", "high"]},
        "Digest": {"type": "fixed", "name": "Digest", "size": 2},
    }
    fields = [*SCHEMA["fields"], *({"name": name, "type": kind} for name, kind in more.items())]
    event = {**EVENT, "Level": "high", "Digest": b"ab"}

    assert [""] == faults_of(written(event, schema={**SCHEMA, "fields": fields}))
    many = [*SCHEMA["fields"], *({"name": f"n{n}", "type": "null"} for n in range(100))]
    with pytest.raises(ValueError, match="it has 106 fields"):
        faults_of(written(EVENT, schema={**SCHEMA, "fields": many}))
    none = {"type": "fixed", "name": "None", "size": 0}
    empty = [*SCHEMA["fields"], {"name": "none", "type": none}]
    with pytest.raises(ValueError, match="none is neither a value nor a map"):
        faults_of(block_of({**SCHEMA, "fields": empty}, 1, b""))


def test_small_file_does_not_expand_to_a_large_block() -> None:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, "bytes", bytes(80 << 20))
    schema = {
        "type": "record",
        "name": "E",
        "fields": [{"name": "Body", "type": "bytes"}, {"name": "SystemProperties", "type": "null"}],
    }
    octets = block_of(schema, 1, body.getvalue(), "deflate")

    (fault,) = faults_of(octets, expansion_ratio=1)

    assert "a block expands beyond the limit: raise Limits.expansion_ratio" in fault
    assert (
        [""]
        == faults_of(octets, expansion_ratio=2000)
        == faults_of(octets, expansion_ratio=1 << 62)
    )


def test_uncounted_records_of_a_block_are_a_fault() -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, SCHEMA, [EVENT, EVENT])
    octets = stream.getvalue()
    count = octets.index(octets[-16:]) + 16
    once = octets[:count] + b"\x02" + octets[count + 1 :]

    assert ["", ""] == faults_of(octets)
    *read, fault = faults_of(once)
    assert [""] == read
    assert "a block has more bytes than its records" in fault


def test_block_without_sync_marker_is_read() -> None:
    octets = written(EVENT)

    for cut in (octets[:-1], octets[:-16], octets[:-1] + bytes([octets[-1] ^ 1])):
        *read, fault = faults_of(cut)
        assert [""] == read
        assert "a block does not end with the sync marker" in fault


def test_unsupported_codec_is_named() -> None:
    octets = written(EVENT).replace(b"\x08null", b"\x08lz4x", 1)

    with pytest.raises(
        ValueError, match="unsupported codec 'lz4x': rewrite the file with one of null"
    ):
        faults_of(octets)


def test_a_message_that_is_too_large_is_a_fault() -> None:
    stream = io.BufferedReader(io.BytesIO(written({**EVENT, "Body": b"x" * 5000}, EVENT)))

    first, second = files.read_stream(stream, "avro", max_size=4000)

    assert ("larger than 4,000 bytes", "") == (first.fault, second.fault)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("7/25/2017 5:22:18 PM", ENQUEUED),
        ("07/25/2017 17:22:18", ENQUEUED),
        ("2017-07-25T17:22:18Z", ENQUEUED),
        ("2017-07-25T19:22:18.000+02:00", ENQUEUED),
        ("yesterday", None),
        (None, None),
    ],
)
def test_times(text: str | None, expected: int | None) -> None:
    assert expected == time_of(text)


@pytest.mark.parametrize(
    "event, text",
    [
        ({"Body": "text"}, "Body must be bytes, not str"),
        ({"Properties": 5}, "Properties must be a map, not int"),
    ],
)
def test_invalid_event_is_an_encode_error(event: dict[str, Any], text: str) -> None:
    with pytest.raises(EncodeError, match=text):
        message_of(event)


def test_invalid_time_is_kept_as_text() -> None:
    message = message_of({**EVENT, "EnqueuedTimeUtc": "yesterday"})

    annotations: Any = message.message_annotations
    assert "yesterday" == annotations[Symbol("x-opt-enqueued-time")]
