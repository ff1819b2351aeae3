"""The three kinds of body section (Part 3, 3.2.6 to 3.2.8)."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg import _core
from amqp10msg.reprs import shown


@shown
@attrs.define(weakref_slot=False, repr=False)
class Data(_core.Record):
    """Opaque binary data (Part 3, 3.2.6). A body may have several, which belong together.

    What it holds is checked when it is encoded (`EncodeError`).
    """

    data: bytes | bytearray | memoryview = b""


@shown
@attrs.define(weakref_slot=False, repr=False)
class AmqpSequence(_core.Record):
    """A list of values (Part 3, 3.2.7). A body may have several, which belong together.

    What it holds is checked when it is encoded (`EncodeError`).
    """

    values: list[Any] = attrs.Factory(list)


@shown
@attrs.define(weakref_slot=False, repr=False)
class AmqpValue(_core.Record):
    """One AMQP value of any type (Part 3, 3.2.8), checked when it is encoded (`EncodeError`)."""

    value: Any = None


_core.make_fast(Data)
_core.make_fast(AmqpSequence, values=(list, tuple))
_core.make_fast(AmqpValue)
