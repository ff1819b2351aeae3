"""The kernel that translates batches: columns of bytes in, columns of bytes out.

It does what `to_basic` and `to_amqp10` do in the profiles lossless, rabbitmq-4.0 and rabbitmq-4.3,
for the usual messages; any other is an odd row, and is left to them. No bytes are copied on the way
in, and no object is made for a message.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from amqp10msg._core import COMPILED
from amqp10msg.translate._delivery import ANNOTATIONS, HEADERS
from amqp10msg.translate._headers import FILTER, INTERNAL, SECTIONS
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.rabbitmq.fields import octets, utf8_without_nul
from amqp10msg.translate.rabbitmq.version import RABBITMQ_4_0, RABBITMQ_4_3
from amqp10msg.translate.rabbitmq.writing import rewritten
from amqp10msg.translate.residual import NAME
from amqp10msg.translate.table import ROWS, shortstr

__all__ = ["kernel"]

# Names of headers and keys of annotations that mean something to the translator or to brokers.
_ODD_NAMES = [
    name.encode() for name in sorted({NAME, FILTER, *HEADERS, *ANNOTATIONS, *INTERNAL, *SECTIONS})
]
# The versions of RabbitMQ that the kernel knows, by their profile.
_VERSIONS = {f"rabbitmq-{version.name}": version for version in (RABBITMQ_4_0, RABBITMQ_4_3)}
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


def kernel(
    to: str, profile: str, strict: bool = False, circumstances: Circumstances | None = None
) -> Any:
    """Return what translates batches; None where every row is an odd one.

    Args:
        to: ``amqp10`` or ``basic``.
        profile: a name of `amqp10msg.translate.PROFILES`.
        strict: whether messages are refused of which something would be lost for good.
        circumstances: what a broker's result depends on besides the message.
    """
    version = _VERSIONS.get(profile)
    if not COMPILED or find_spec(f"{__package__}._batch.kernel") is None:
        return None
    given = circumstances or Circumstances()
    is_usual = not strict and given == Circumstances(user=given.user)
    if profile != "lossless" and (version is None or not is_usual):
        return None
    from amqp10msg.translate._batch import kernel as made  # noqa: PLC0415  (it runs compiled only)

    if version is None:
        translator = made.ToBasic if to == "basic" else made.ToAmqp10
        return translator(_is_symbol, rewritten, _SYMBOLS, _ODD_NAMES)
    user = None if given.user is None else octets(given.user)
    if user is not None and (len(user) > 255 or not utf8_without_nul(user)):
        user = None
    if to == "basic":
        return made.RabbitMQToBasic(_is_symbol, rewritten, _SYMBOLS, _ODD_NAMES).configured(
            user, version.durable_by_default, version.queue_addresses
        )
    return made.RabbitMQToAmqp10(_is_symbol, rewritten, _SYMBOLS, _ODD_NAMES).configured(
        user, version.queue_addresses, version.metadata_first, version.trims
    )
