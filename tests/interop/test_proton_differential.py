"""python-qpid-proton and this library read the same messages: every field, every AMQP type.

A message that proton decodes and encodes again without loss is the same to both. Generated messages
are made of what proton keeps, so that all of them must agree; recorded ones are asked whether
proton keeps them. The types of proton are compared by a table of `proton_comparison`, not by the
library's own conversion, which is tested here too.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpError,
    AmqpSequence,
    AmqpValue,
    Data,
    EncodeError,
    Header,
    Message,
    Properties,
)
from bench.messages import GENERAL, GENERAL_VALUE, REFERENCE

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")

from amqp10msg.interop.proton import convert, from_proton, losses, to_proton  # noqa: E402  (needs proton)
from tests.interop.proton_comparison import decoded_by_proton, disagreements, same_message  # noqa: E402
from tests.interop.proton_strategies import attributes, messages, odd_messages, widest_message  # noqa: E402


@given(messages)
@example(Message())
@example(Message(b""))
@example(Message(AmqpSequence([])))
@example(Message(AmqpValue([]), properties=Properties(content_type="", user_id=b"", subject="")))
def test_proton_reads_our_encoding_like_we_do(message: Message) -> None:
    octets = message.encode()

    ours, theirs = Message.decode(octets), decoded_by_proton(octets)

    assert [] == disagreements(ours, theirs)
    assert same_message(ours, from_proton(theirs))
    assert same_message(ours, Message.decode(bytes(theirs.encode())))


@given(messages)
def test_wide_encodings_proton_reads_as_we_do(message: Message) -> None:
    octets = widest_message(message)

    ours, theirs = Message.decode(octets), decoded_by_proton(octets)

    assert same_message(message, ours)
    assert [] == disagreements(ours, theirs)
    assert same_message(ours, from_proton(theirs))


@given(messages)
def test_conversion_to_proton_is_lossless(message: Message) -> None:
    message = Message.decode(message.encode())

    assert () == losses(message)
    theirs = to_proton(message)
    assert [] == disagreements(message, theirs)
    assert same_message(message, from_proton(theirs))
    assert same_message(message, Message.decode(bytes(theirs.encode())))


@given(messages | odd_messages)
@example(Message.decode(GENERAL))
@example(Message.decode(GENERAL_VALUE))
def test_fast_conversion_equals_compared_conversion(message: Message) -> None:
    try:
        octets = message.encode()
        decoded = Message.decode(octets, message_format=message.message_format)
    except AmqpError:
        return  # equal keys in a map
    for one in (message, decoded):
        quick = convert._convert_fast(one)
        event(f"{'quick' if quick else 'thorough'}")
        if quick is not None:
            made, lost = convert._convert_and_compare(decoded)
            assert [] == lost
            assert bytes(made.encode()) == bytes(quick.encode())


def test_sections_with_symbolic_descriptors_are_kept() -> None:
    octets = b"\0\xa3\x10amqp:header:list\xc0\x02\x01\x41\0\x53\x77\xa1\x01x"
    message = Message.decode(octets)

    assert Message("x", header=Header(durable=True)) == from_proton(to_proton(message))


def test_map_with_nan_key_is_as_decoded() -> None:
    message = from_proton(proton.Message(body={float("nan"): 1}))

    assert same_message(Message.decode(message.encode()), message)


def test_common_messages_use_the_fast_conversion() -> None:
    for octets in (GENERAL, REFERENCE):
        assert convert._convert_fast(Message.decode(octets)) is not None


@given(odd_messages)
def test_conversion_to_proton_keeps_everything_or_refuses(message: Message) -> None:
    try:
        message = Message.decode(message.encode(), message_format=message.message_format)
    except AmqpError:
        return  # equal keys in a map
    try:
        lost = losses(message)
    except EncodeError:
        event("not expressible")
        with pytest.raises(EncodeError):
            to_proton(message, lossy=True)
        return
    if lost:
        event("lossy")
        with pytest.raises(EncodeError) as caught:
            to_proton(message)
        assert caught.value.path == lost[0].path
        assert to_proton(message, lossy=True) is not None
        return

    event("kept")
    theirs = to_proton(message)
    assert (None, 0) == (message.footer, message.message_format)
    assert [] == disagreements(message, theirs)
    assert same_message(message, from_proton(theirs))
    assert same_message(message, Message.decode(bytes(theirs.encode())))


@given(st.fixed_dictionaries({}, optional=attributes))
@example({})
@example({"body": None, "inferred": True})
@example({"body": [], "inferred": True})
@example({"body": b"", "inferred": True})
@example({"body": "text", "inferred": True})
@example({"body": proton.Described(proton.ulong(1), proton.Described(proton.ulong(2), b"x"))})
def test_we_read_protons_encoding_like_proton(chosen: dict[str, Any]) -> None:
    theirs = proton.Message(**chosen)

    ours = Message.decode(bytes(theirs.encode()))

    theirs.inferred = isinstance(ours.body, (Data, AmqpSequence))  # of text it says nothing
    assert [] == disagreements(ours, theirs)
    assert same_message(ours, from_proton(theirs))
