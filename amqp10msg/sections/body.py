"""The three kinds of body section (Part 3, 3.2.6 to 3.2.8)."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.wire import kernel
from amqp10msg.wire.reprs import shown


@shown
@attrs.define(weakref_slot=False, repr=False)
class Data(kernel.Record):
    """Opaque binary data (Part 3, 3.2.6). A body may have several, which belong together.

    What it holds is checked when it is encoded (`EncodeError`).
    """

    data: bytes | bytearray | memoryview = b""


@shown
@attrs.define(weakref_slot=False, repr=False)
class AmqpSequence(kernel.Record):
    """A list of values (Part 3, 3.2.7). A body may have several, which belong together.

    What it holds is checked when it is encoded (`EncodeError`).
    """

    values: list[Any] = attrs.Factory(list)


@shown
@attrs.define(weakref_slot=False, repr=False)
class AmqpValue(kernel.Record):
    """One AMQP value of any type (Part 3, 3.2.8), checked when it is encoded (`EncodeError`)."""

    value: Any = None


kernel.make_fast(Data)
kernel.make_fast(AmqpSequence, values=(list, tuple))
kernel.make_fast(AmqpValue)
