"""Options that select records."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import attrs

from amqp10msg.delivery.filters import Selector
from amqp10msg.errors import DecodeError
from amqp10msg.files import Record
from amqp10msg.message import Message

_PROTOCOLS = ("amqp-1.0", "amqp-0-9-1")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@attrs.frozen
class Filters:
    """Which records of a file become rows; what could not be read always does.

    Attributes:
        protocol: ``amqp-1.0`` or ``amqp-0-9-1``; both where None, and likewise below.
        address: of the link.
        since: microseconds since the Unix epoch; captured then or later.
        until: captured before.
        selector: a JMS message selector that messages of 1.0 must pass.
    """

    protocol: str | None = None
    address: str | None = None
    since: int | None = None
    until: int | None = None
    selector: Selector | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Filters:
        """Read the options of a data source.

        Raises:
            ValueError: one of them is wrong.
        """
        protocol = options.get("protocol")
        if protocol is not None and protocol not in _PROTOCOLS:
            raise ValueError(f"no protocol is called {protocol!r}: use {' or '.join(_PROTOCOLS)}")
        selector = options.get("selector")
        return cls(
            protocol,
            options.get("address"),
            _time(options, "since"),
            _time(options, "until"),
            None if selector is None else Selector(selector),
        )

    def admits(self, record: Record) -> bool:
        """Return whether a record is selected."""
        if record.fault:
            return True
        if self.protocol is not None and record.protocol != self.protocol:
            return False
        if self.address is not None and record.address != self.address:
            return False
        if self.since is not None and (record.time is None or record.time < self.since):
            return False
        if self.until is not None and (record.time is None or record.time >= self.until):
            return False
        return self.selector is None or _passes(self.selector, record.wire)


def _passes(selector: Selector, wire: bytes | None) -> bool:
    """Return whether a message passes; one that cannot be read does, and is reported later."""
    if wire is None:
        return True
    try:
        return selector.matches(Message.decode(wire, strict=False))
    except DecodeError:
        return True


def _time(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{name} is {text!r}, and must be a time of ISO 8601, such as 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)
