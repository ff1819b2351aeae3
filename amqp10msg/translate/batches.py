"""The kernel that translates batches: columns of bytes in, columns of bytes out.

It does what `to_basic` and `to_amqp10` do in the profiles lossless and of RabbitMQ,
for the usual messages; any other is an odd row, and is left to them. No bytes are copied on the way
in, and no object is made for a message.
"""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

from amqp10msg.basic.properties import decode_field
from amqp10msg.translate._delivery import ANNOTATIONS, COUNTS, HEADERS
from amqp10msg.translate._headers import FILTER, INTERNAL, SECTIONS
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.rabbitmq.fields import octets, utf8_without_nul
from amqp10msg.translate.rabbitmq.version import VERSIONS
from amqp10msg.translate.rabbitmq.writing import rewritten
from amqp10msg.translate.report import as_json
from amqp10msg.translate.residual import NAME
from amqp10msg.translate.table import ROWS, shortstr
from amqp10msg.translate.to_amqp10_rules import LOSSLESS, rules_of
from amqp10msg.wire.kernel import COMPILED
from amqp10msg.wire.reprs import printable

# Names of headers and keys of annotations that mean something to the translator or to brokers.
_ODD_NAMES = [
    name.encode() for name in sorted({NAME, FILTER, *HEADERS, *ANNOTATIONS, *INTERNAL, *SECTIONS})
]
_OF_DELIVERY = [name.encode() for name in COUNTS]


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


def _told(field: bytes) -> bytes:
    """Return the JSON of a field's value, given its letter and content."""
    return str(as_json(decode_field(field)[1])).encode()


def _told_name(name: bytes) -> bytes:
    """Return the path of a header."""
    return printable(f"headers[{name.decode('utf-8', 'surrogateescape')!r}]").encode()


def tells_of_delivery(content_header: bytes) -> bool:
    """Whether headers may say what RabbitMQ adds for one delivery."""
    return any(name in content_header for name in _OF_DELIVERY)


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
    version = VERSIONS.get(profile)
    if not COMPILED or find_spec(f"{__package__}._batch.kernel") is None:
        return None
    given = circumstances or Circumstances()
    is_usual = given == Circumstances(user=given.user) and (to == "amqp10" or not strict)
    if profile != "lossless" and (version is None or not is_usual):
        return None
    from amqp10msg.translate._batch import kernel as made  # noqa: PLC0415  (it runs compiled only)

    given_to_all = (_is_symbol, rewritten, _ODD_NAMES)
    user = None if given.user is None else octets(given.user)
    if to == "amqp10":
        proofs = made.ToBasic(*given_to_all), made.RabbitMQ3ToBasic(*given_to_all)
        if version is not None and version.is_plugin:
            proofs[1].configured(user, False, False, version.stream)
        rules = LOSSLESS if version is None else rules_of(version)
        return made.ToAmqp10(rules, user, strict, _is_symbol, rewritten, _told, _told_name, proofs)
    if version is None:
        return made.ToBasic(*given_to_all)
    if user is not None and (len(user) > 255 or not utf8_without_nul(user)):
        user = None
    to_basic = made.RabbitMQ3ToBasic if version.is_plugin else made.RabbitMQToBasic
    return to_basic(*given_to_all).configured(
        user, version.durable_by_default, version.queue_addresses, version.stream
    )
