"""The kernel that translates batches: columns of bytes in, columns of bytes out.

It does what `to_basic` and `to_amqp10` do in the profiles lossless and of RabbitMQ,
for the usual messages; any other is an odd row, and is left to them. No bytes are copied on the way
in, and no object is made for a message.
"""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

import attrs

from amqp10msg.translate._delivery import ANNOTATIONS, HEADERS
from amqp10msg.translate._headers import FILTER, INTERNAL, SECTIONS
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.rabbitmq.fields import octets, utf8_without_nul
from amqp10msg.translate.rabbitmq.version import RABBITMQ_3_10, RABBITMQ_4_0, RABBITMQ_4_3
from amqp10msg.translate.rabbitmq.writing import rewritten
from amqp10msg.translate.residual import NAME
from amqp10msg.translate.table import ROWS, shortstr
from amqp10msg.wire.kernel import COMPILED

# Names of headers and keys of annotations that mean something to the translator or to brokers.
_ODD_NAMES = [
    name.encode() for name in sorted({NAME, FILTER, *HEADERS, *ANNOTATIONS, *INTERNAL, *SECTIONS})
]
# The versions of RabbitMQ, by their profile.
_VERSIONS = {
    f"rabbitmq-{version.name}{suffix}": attrs.evolve(version, stream=bool(suffix))
    for version in (RABBITMQ_3_10, RABBITMQ_4_0, RABBITMQ_4_3)
    for suffix in ("", "-stream")
}


# Texts repeat themselves. A short string has at most 255 bytes: with what the cache takes for an
# entry of its own some 600 in all, so 0.6 MB.
@functools.lru_cache(maxsize=1024)
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

    given_to_all = (_is_symbol, rewritten, _ODD_NAMES)
    if version is None:
        translator = made.ToBasic if to == "basic" else made.ToAmqp10
        return translator(*given_to_all)
    user = None if given.user is None else octets(given.user)
    if user is not None and (len(user) > 255 or not utf8_without_nul(user)):
        user = None
    is_old = version.name == RABBITMQ_3_10.name
    if to == "basic":
        to_basic = made.RabbitMQ3ToBasic if is_old else made.RabbitMQToBasic
        return to_basic(*given_to_all).configured(
            user, version.durable_by_default, version.queue_addresses, version.stream
        )
    to_amqp10 = made.RabbitMQ3ToAmqp10 if is_old else made.RabbitMQToAmqp10
    return to_amqp10(*given_to_all).configured(
        user, version.queue_addresses, version.metadata_first, version.trims, version.stream
    )
