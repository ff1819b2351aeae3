"""The kernel that translates batches: columns of bytes in, columns of bytes out.

It does what `to_basic` and `to_amqp10` do in the profile lossless, for the usual messages; any
other is an odd row, and is left to them. No bytes are copied on the way in, and no object is made
for a message.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from amqp10msg._core import COMPILED
from amqp10msg.translate._delivery import ANNOTATIONS, HEADERS
from amqp10msg.translate._headers import FILTER, INTERNAL, SECTIONS
from amqp10msg.translate.rabbitmq.writing import rewritten
from amqp10msg.translate.residual import NAME
from amqp10msg.translate.table import ROWS, shortstr

__all__ = ["kernel"]

# Names of headers and keys of annotations that mean something to the translator or to brokers.
_ODD_NAMES = [
    name.encode() for name in sorted({NAME, FILTER, *HEADERS, *ANNOTATIONS, *INTERNAL, *SECTIONS})
]
# What `_is_symbol` said: texts repeat themselves. The kernel keeps it small.
_SYMBOLS: dict[Any, bool] = {}


def _is_symbol(row: int, octets: bytes) -> bool:
    """Whether the field of 1.0 holds this text, in front of a body of data.

    Args:
        row: of `ROWS`: 0 for the content-type, 1 for the content-encoding.
        octets: the text.
    """
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        return False
    place = ROWS[row].forward(text, True)
    return place.where == "field" and place.exact and shortstr(text)


def kernel(to: str, profile: str) -> Any:
    """Return what translates batches; None where every row is an odd one.

    Args:
        to: ``amqp10`` or ``basic``.
        profile: a name of `amqp10msg.translate.PROFILES`.
    """
    if profile != "lossless" or not COMPILED or find_spec(f"{__package__}._batch.kernel") is None:
        return None
    from amqp10msg.translate._batch import kernel as made  # noqa: PLC0415  (it runs compiled only)

    translator = made.ToBasic if to == "basic" else made.ToAmqp10
    return translator(_is_symbol, rewritten, _SYMBOLS, _ODD_NAMES)
