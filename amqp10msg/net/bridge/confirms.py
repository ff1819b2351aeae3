"""What a publisher of AMQP 0-9-1 has sent, until the broker confirms it.

A confirm names what it is about by number (delivery-tag). A basic.return names nothing: it has the
message.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import attrs

from amqp10msg.net.bridge.terms import ACCEPTED, Outcome, Outgoing, SourceDelivery

#: SourceDelivery-tags in the order of their numbers; an ordered dict has its first one at once.
_Tags = OrderedDict[int, None]


@attrs.define
class Unconfirmed:
    """Messages that are published and not confirmed, found by number and by content.

    Work is constant for each message, confirm and return, whatever the window: contents are hashed
    once, and only where the broker returns something.

    The delivery-tag of the last one is `published`.
    """

    published: int = 0
    _sent: OrderedDict[int, tuple[SourceDelivery, Outgoing]] = attrs.Factory(OrderedDict)
    _returned: dict[int, Outcome] = attrs.Factory(dict)
    # Those of `_sent` that did not come back, by content with and without header; up to a number.
    _by_content: dict[Hashable, _Tags] = attrs.Factory(dict)
    _indexed: int = 0

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, delivery: SourceDelivery, outgoing: Outgoing) -> None:
        """Take note of what is published next."""
        self.published += 1
        self._sent[self.published] = (delivery, outgoing)

    def give_back(
        self, exchange: str, key: str, header: bytes, body: bytes, outcome: Outcome
    ) -> None:
        """Take note that a message came back; its confirm follows.

        Messages that are the same are one as good as the other, and the first one is taken. A
        header may have been written again: where none is the same, it is not compared.

        Its confirm means `outcome` then.
        """
        self._index()
        for content in ((exchange, key, body, header), (exchange, key, body)):
            if (tags := self._by_content.get(content)) is not None:
                tag = next(iter(tags))
                self._returned[tag] = outcome
                self._forget(tag, self._sent[tag][1])
                return

    def confirm(
        self, tag: int, *, multiple: bool, accepted: bool
    ) -> list[tuple[SourceDelivery, Outcome]]:
        """Take those that a basic.ack or basic.nack is about, with their outcomes.

        With `multiple`, all before it are meant, too, and all where the tag is 0.
        """
        sent = self._sent
        if not multiple:
            return [self._confirm(tag, accepted)] if tag in sent else []
        last = tag or self.published
        found = []
        while sent and (first := next(iter(sent))) <= last:
            found.append(self._confirm(first, accepted))
        return found

    def _confirm(self, tag: int, accepted: bool) -> tuple[SourceDelivery, Outcome]:
        delivery, outgoing = self._sent.pop(tag)
        returned = self._returned.pop(tag, None)
        if returned is not None:
            return delivery, returned
        if tag <= self._indexed:
            self._forget(tag, outgoing)
        return delivery, ACCEPTED if accepted else Outcome("nacked")

    def _index(self) -> None:
        """Find what was published since the last return by its content."""
        for tag in range(self._indexed + 1, self.published + 1):
            if (found := self._sent.get(tag)) is not None:
                for content in _contents(found[1]):
                    self._by_content.setdefault(content, OrderedDict())[tag] = None
        self._indexed = self.published

    def _forget(self, tag: int, outgoing: Outgoing) -> None:
        for content in _contents(outgoing):
            tags = self._by_content[content]
            del tags[tag]
            if not tags:
                del self._by_content[content]


def _contents(sent: Outgoing) -> tuple[Hashable, Hashable]:
    names = (sent.exchange, sent.routing_key, sent.octets)
    return (*names, sent.content_header or b""), names
