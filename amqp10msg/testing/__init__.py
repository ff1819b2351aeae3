"""Hypothesis strategies for AMQP values, sections and messages.

They test code that handles AMQP messages: `messages` draws valid messages with every section and
type, `encodings` every encoding that a peer may choose, `malformed` bytes that a decoder must
refuse, and `mutated` bytes with random damage. Values are drawn in the Python classes that decoding
returns, so `amqp10msg.wire.primitives.identical` can compare them with decoded values.

    from hypothesis import given
    from amqp10msg import Message
    from amqp10msg.testing import messages

    @given(messages())
    def test_my_handler_keeps_the_subject(message: Message) -> None: ...

Needs hypothesis: ``pip install "amqp10msg[testing]"``.
"""

from __future__ import annotations

try:
    import hypothesis as _hypothesis  # noqa: F401  (only to say what is missing)
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        'amqp10msg.testing needs hypothesis: pip install "amqp10msg[testing]"', name="hypothesis"
    ) from _error

from amqp10msg.testing._basic import basic_messages, basic_properties, field_tables
from amqp10msg.testing._encodings import constructors_for, encodings
from amqp10msg.testing._malformed import malformed, mutated
from amqp10msg.testing._sections import (
    annotation_maps,
    application_property_maps,
    bodies,
    composites,
    delivery_states,
    messages,
    outcomes,
    sections,
    termini,
)
from amqp10msg.testing._values import (
    SIMPLE_TYPES,
    TYPES,
    arrays,
    maps,
    simple_values,
    values,
    values_of,
)

__all__ = [
    "SIMPLE_TYPES",
    "TYPES",
    "annotation_maps",
    "application_property_maps",
    "arrays",
    "basic_messages",
    "basic_properties",
    "bodies",
    "composites",
    "constructors_for",
    "delivery_states",
    "encodings",
    "field_tables",
    "malformed",
    "maps",
    "messages",
    "mutated",
    "outcomes",
    "sections",
    "simple_values",
    "termini",
    "values",
    "values_of",
]
