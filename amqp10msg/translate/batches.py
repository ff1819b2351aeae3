"""The kernel that translates batches: columns of bytes in, columns of bytes out.

It does what `to_basic` and `to_amqp10` do in the profiles lossless and of RabbitMQ,
for the usual messages; any other is an odd row, and is left to them. No bytes are copied on the way
in, and no object is made for a message.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from amqp10msg.basic.properties import decode_field
from amqp10msg.translate._delivery import COUNTS
from amqp10msg.translate.circumstances import USUAL, Circumstances
from amqp10msg.translate.rabbitmq.fields import octets, utf8_without_nul
from amqp10msg.translate.rabbitmq.version import VERSIONS
from amqp10msg.translate.report import as_json
from amqp10msg.translate.to_amqp10_rules import LOSSLESS
from amqp10msg.translate.to_amqp10_rules import rules_of as amqp10_rules
from amqp10msg.translate.to_basic_rules import PlainValues
from amqp10msg.translate.to_basic_rules import rules_of as basic_rules
from amqp10msg.wire.kernel import COMPILED
from amqp10msg.wire.reprs import encodable

_OF_DELIVERY = [name.encode() for name in COUNTS]


def _told(field: bytes) -> bytes:
    """Return the JSON of a field's value, given its letter and content."""
    return str(as_json(decode_field(field)[1])).encode()


def _told_name(name: bytes) -> bytes:
    """Return the path of a header."""
    return encodable(f"headers[{name.decode('utf-8', 'surrogateescape')!r}]").encode()


def tells_of_delivery(content_header: bytes) -> bool:
    """Whether headers may say what RabbitMQ adds for one delivery."""
    return any(name in content_header for name in _OF_DELIVERY)


def kernel(
    to: str, profile: str, strict: bool = False, circumstances: Circumstances | None = None
) -> Any:
    """Return the engine of batches; None where every row is an odd one.

    Args:
        to: ``1.0`` or ``0-9-1``.
        profile: a name of `amqp10msg.translate.PROFILES`.
        strict: whether messages are refused of which something would be lost for good.
        circumstances: what a broker's result depends on besides the message.
    """
    version = VERSIONS.get(profile)
    if not COMPILED or find_spec(f"{__package__}._batch.kernel") is None:
        return None
    given = circumstances or USUAL
    is_usual = given.is_first_delivery and (to == "1.0" or not strict)
    if profile != "lossless" and (version is None or not is_usual):
        return None
    from amqp10msg.translate._batch import kernel as made  # noqa: PLC0415  (it runs compiled only)

    user = None if given.user is None else octets(given.user)
    plain = PlainValues(version)
    if to == "1.0":
        lossless = made.ToBasic(basic_rules(None), PlainValues(None), None)
        is_plugin = version is not None and version.is_plugin
        plugin = made.ToBasic(basic_rules(version), plain, user) if is_plugin else lossless
        rules = LOSSLESS if version is None else amqp10_rules(version)
        own = plain.is_symbol, _told, _told_name
        return made.ToAmqp10(rules, user, strict, *own, (lossless, plugin))
    if user is not None and (len(user) > 255 or not utf8_without_nul(user)):
        user = None
    return made.ToBasic(basic_rules(version), plain, user, strict)
