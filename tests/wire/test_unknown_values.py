"""Unknown descriptors: values are kept, and the bytes of unchanged sections."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Described, Message, Symbol, decode_value, encode_value
from amqp10msg.testing import encodings, values
from amqp10msg.wire.primitives import identical

_UNKNOWN = st.text("abc", max_size=5).map(lambda name: Symbol(f"example:{name}"))


@given(
    st.builds(Described, _UNKNOWN, values()).flatmap(
        lambda value: st.tuples(st.just(value), encodings(value))
    )
)
def test_unknown_value_is_kept(pair: tuple[Any, bytes]) -> None:
    value, data = pair
    assert identical(value, decode_value(encode_value(decode_value(data))))

    message = b"\x00\x53\x77" + data
    assert message == Message.decode(message).encode()
    changed = Message.decode(message).evolve(message_annotations={"x-opt-hop": 1})
    assert message == changed.bare
