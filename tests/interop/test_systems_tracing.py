"""The trace context of W3C in messages, and OpenTelemetry's propagators on it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import AmqpMap, Described, Message, Symbol, ULong, validate
from amqp10msg.interop.systems import tracing
from amqp10msg.interop.systems.tracing import TraceParent
from amqp10msg.testing import maps, messages, values
from amqp10msg.wire import kernel

TEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
# The example of the binary format.
BINARY = bytes(
    (
        *(0, 0, 75, 249, 47, 53, 119, 179, 77, 166, 163, 206, 146, 157, 0, 14, 71, 54),
        *(1, 52, 240, 103, 170, 11, 169, 2, 183, 2, 1),
    )
)
parents = st.builds(
    TraceParent,
    st.binary(min_size=16, max_size=16).filter(any),
    st.binary(min_size=8, max_size=8).filter(any),
    st.integers(0, 255),
)
places: Any = st.sampled_from(["application-properties", "message-annotations"])


@given(parents, st.binary())
def test_traceparent_round_trips_as_text_and_bytes(parent: TraceParent, padding: bytes) -> None:
    assert parent == TraceParent.from_text(str(parent))
    assert parent == TraceParent.from_bytes(bytes(parent) + padding)


def test_the_examples_of_w3c() -> None:
    parent = TraceParent.from_bytes(BINARY)

    assert "00-4bf92f3577b34da6a3ce929d000e4736-34f067aa0ba902b7-01" == str(parent)
    assert BINARY == bytes(parent)
    later = TraceParent.from_text("cc" + TEXT[2:] + "-what-the-future-will-be-like")
    assert TEXT == str(later)


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT.upper(),
        "ff" + TEXT[2:],
        TEXT + "-x",
        TEXT[:-1],
        TEXT.replace("b7ad6b7169203331", "0" * 16),
    ],
)
def test_invalid_traceparent(text: str) -> None:
    with pytest.raises(ValueError, match=r"traceparent|parent_id"):
        TraceParent.from_text(text)


@pytest.mark.parametrize("octets", [b"", BINARY[:-1], b"\1" + BINARY[1:], bytes(29), TEXT.encode()])
def test_invalid_binary_traceparent(octets: bytes) -> None:
    with pytest.raises(ValueError, match=r"traceparent|trace_id"):
        TraceParent.from_bytes(octets)


@given(messages(), parents, places, st.booleans())
def test_trace_fields_round_trip(
    message: Message, parent: TraceParent, place: Any, binary: bool
) -> None:
    given_ = {"traceparent": str(parent), "tracestate": "a=1,b=2"}
    made = tracing.with_fields(message, given_, place, binary=binary)
    received = Message.decode(made.encode())

    found = tracing.fields(received)
    if place == "message-annotations":
        assert given_ == {name: found[name] for name in given_}
        assert message.bare == received.bare
    elif not tracing.fields(Message(message_annotations=message.message_annotations)):
        assert given_ == {name: found[name] for name in given_}
    attribute = place.replace("-", "_")
    again = tracing.with_fields(received, {}, place)
    before, after = (dict(getattr(m, attribute) or {}) for m in (message, again))
    kept = {key: value for key, value in before.items() if key not in tracing.TRACE_FIELDS}
    assert Message(kept) == Message(after)


@given(maps(values(max_leaves=3), values(max_leaves=3)), places, st.booleans())
def test_lenient_sections_keep_their_entries(entries: Any, place: Any, twice: bool) -> None:
    code = 0x74 if place == "application-properties" else 0x72
    pairs = [*entries.items(), *list(entries.items())[: int(twice)]]
    section = kernel.Writer(True)
    section.value(Described(ULong(code), AmqpMap(pairs)))
    came = Message.decode(section.finish() + Message("x").encode(), strict=False)

    made = tracing.with_fields(came, {"traceparent": TEXT}, place)
    received = Message.decode(made.encode(), strict=False)
    assert TEXT == tracing.fields(received)["traceparent"]
    back = tracing.with_fields(received, {}, place)
    if pairs:
        assert came == back


@given(messages())
def test_any_message_has_fields_or_none(message: Message) -> None:
    assert {*tracing.fields(message)} <= {*tracing.TRACE_FIELDS}


def test_an_intermediary_comes_before_the_sender() -> None:
    sent = tracing.with_fields(Message("x"), {"traceparent": TEXT, "tracestate": "a=1"})
    passed = tracing.with_fields(sent, {"traceparent": OTHER}, "message-annotations")

    assert {"traceparent": TEXT, "tracestate": "a=1"} == tracing.fields(sent)
    assert {"traceparent": OTHER} == tracing.fields(passed)  # not with another one's tracestate
    assert sent.bare == passed.bare


def test_readers_take_text_in_bytes_and_symbols() -> None:
    for value in (TEXT.encode(), Symbol(TEXT), bytes(TraceParent.from_text(TEXT))):
        message = Message("x", application_properties={"traceparent": value})
        assert {"traceparent": TEXT} == tracing.fields(message)
    assert {} == tracing.fields(Message("x", application_properties={"traceparent": 1}))
    assert {} == tracing.fields(Message("x", application_properties={"traceparent": b"\xff"}))


def test_the_fields_are_no_violation_in_annotations() -> None:
    fields = {"traceparent": TEXT, "tracestate": "a=1"}
    for binary in (False, True):
        message = tracing.with_fields(Message("x"), fields, "message-annotations", binary=binary)
        assert [] == validate(message)
        assert [] == validate(message, "azure")
        # RabbitMQ 4 refuses what does not begin with x-.
        assert {"annotation-key-reserved"} == {v.rule for v in validate(message, "rabbitmq-4")}
    other = Message("x", message_annotations={"traceparents": TEXT})
    assert ["annotation-key-reserved"] == [v.rule for v in validate(other)]


class TestOpenTelemetry:
    @pytest.fixture
    def trace(self) -> Any:
        pytest.importorskip("opentelemetry.propagate", reason="opentelemetry-api is not installed")
        from opentelemetry import trace  # noqa: PLC0415  (an extra)

        return trace

    @given(message=messages(), parent=parents, place=places, binary=st.booleans())
    def test_span_context_round_trips(
        self, message: Message, parent: TraceParent, place: Any, binary: bool
    ) -> None:
        pytest.importorskip("opentelemetry.propagate", reason="opentelemetry-api is not installed")
        from opentelemetry import baggage, trace  # noqa: PLC0415  (an extra)

        state = trace.TraceState([("a", "1"), ("b", "2")])
        span = trace.SpanContext(
            int.from_bytes(parent.trace_id),
            int.from_bytes(parent.parent_id),
            is_remote=False,
            trace_flags=trace.TraceFlags(parent.flags & 1),
            trace_state=state,
        )
        context = trace.set_span_in_context(trace.NonRecordingSpan(span))
        context = baggage.set_baggage("tenant", "x", context)
        bare = message.evolve(message_annotations=None)

        made = tracing.inject(bare, context, place=place, binary=binary)
        found = tracing.extract(Message.decode(made.encode()))

        other = trace.get_current_span(found).get_span_context()
        assert (span.trace_id, span.span_id) == (other.trace_id, other.span_id)
        assert span.trace_flags == other.trace_flags
        assert state == other.trace_state
        assert other.is_remote
        assert "x" == baggage.get_baggage("tenant", found)

    def test_a_message_without_fields_keeps_the_context(self, trace: Any) -> None:
        empty: Any = {}
        assert {} == dict(tracing.extract(Message("x"), empty))
        message = Message("x", application_properties={"traceparent": "nonsense"})
        span = trace.get_current_span(tracing.extract(message, empty))
        assert not span.get_span_context().is_valid

    def test_propagators_of_other_formats_find_their_fields(self, trace: Any) -> None:
        from opentelemetry.propagators.textmap import TextMapPropagator  # noqa: PLC0415

        class Own(TextMapPropagator):
            fields = {"x-own"}  # noqa: RUF012

            def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:  # noqa: ARG002
                carrier["x-own"] = context["own"]

            def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:  # noqa: ARG002
                return {**(context or {}), "own": carrier.get("x-own")}

        assert trace
        context: Any = {"own": "1"}
        made = tracing.inject(Message("x"), context, propagator=Own())
        assert "1" == tracing.extract(made, propagator=Own())["own"]
