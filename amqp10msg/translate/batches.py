"""The compiled engine that translates batches: columns of bytes to columns of bytes.

It returns the results of `to_basic` and `to_amqp10` for common messages, in the lossless and the
RabbitMQ profiles. It returns the row numbers of uncommon messages, which the caller must translate
with these functions. It neither copies input bytes nor creates message objects.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from amqp10msg.basic.properties import decode_field
from amqp10msg.translate._delivery import PER_DELIVERY_HEADER_NAMES
from amqp10msg.translate.circumstances import DEFAULT_CIRCUMSTANCES, Circumstances
from amqp10msg.translate.rabbitmq.fields import octets, utf8_without_nul
from amqp10msg.translate.rabbitmq.version import VERSIONS
from amqp10msg.translate.report import as_json
from amqp10msg.translate.to_amqp10_rules import LOSSLESS
from amqp10msg.translate.to_amqp10_rules import rules_of as amqp10_rules
from amqp10msg.translate.to_basic_rules import PlainValues
from amqp10msg.translate.to_basic_rules import rules_of as basic_rules
from amqp10msg.wire.kernel import COMPILED
from amqp10msg.wire.reprs import encodable

_PER_DELIVERY_HEADER_OCTETS = [name.encode() for name in PER_DELIVERY_HEADER_NAMES]


def _field_json(field: bytes) -> bytes:
    """Decode a field (type letter and value), and return its value as JSON."""
    return str(as_json(decode_field(field)[1])).encode()


def _header_path(name: bytes) -> bytes:
    """Return the path of a header, such as ``headers['k']``, for a `Loss`."""
    return encodable(f"headers[{name.decode('utf-8', 'surrogateescape')!r}]").encode()


def may_have_delivery_headers(content_header: bytes) -> bool:
    """Whether a content header may contain headers that RabbitMQ adds for a single delivery."""
    return any(name in content_header for name in _PER_DELIVERY_HEADER_OCTETS)


def kernel(
    to: str, profile: str, strict: bool = False, circumstances: Circumstances | None = None
) -> Any:
    """Return a compiled engine, or None if it was not built or does not support the arguments.

    Args:
        to: the target protocol: ``1.0`` or ``0-9-1``.
        profile: a name of `amqp10msg.translate.PROFILES`.
        strict: refuse messages with permanent losses.
        circumstances: further inputs of a broker's translation.
    """
    version = VERSIONS.get(profile)
    if not COMPILED or find_spec(f"{__package__}._batch.kernel") is None:
        return None
    circumstances = circumstances or DEFAULT_CIRCUMSTANCES
    is_common = circumstances.is_first_delivery and (to == "1.0" or not strict)
    if profile != "lossless" and (version is None or not is_common):
        return None
    from amqp10msg.translate._batch import kernel as engine  # noqa: PLC0415  (compiled only)

    user = None if circumstances.user is None else octets(circumstances.user)
    plain = PlainValues(version)
    if to == "1.0":
        lossless = engine.ToBasic(basic_rules(None), PlainValues(None), None)
        is_plugin = version is not None and version.is_plugin
        plugin = engine.ToBasic(basic_rules(version), plain, user) if is_plugin else lossless
        rules = LOSSLESS if version is None else amqp10_rules(version)
        functions = plain.is_symbol, _field_json, _header_path
        return engine.ToAmqp10(rules, user, strict, *functions, (lossless, plugin))
    if user is not None and (len(user) > 255 or not utf8_without_nul(user)):
        user = None
    return engine.ToBasic(basic_rules(version), plain, user, strict)
