"""The unconfirmed messages of an AMQP 0-9-1 publisher.

A confirm refers to messages by delivery-tag. A basic.return has no delivery-tag: the returned
message must be found by its content.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import attrs

from amqp10msg.net.ends.terms import ACCEPTED, Outcome, Outgoing, SourceDelivery

#: Delivery-tags in ascending order. An ordered dict finds its first key in constant time.
_Tags = OrderedDict[int, None]


@attrs.define
class Unconfirmed:
    """The published messages that are not confirmed, indexed by delivery-tag and by content.

    The time per message, confirm and return does not depend on the window: each message is hashed
    at most once, and only when the broker returns a message.

    Attributes:
        published: the delivery-tag of the latest message, which is the number of messages.
    """

    published: int = 0
    _sent: OrderedDict[int, tuple[SourceDelivery, Outgoing]] = attrs.Factory(OrderedDict)
    _returned: dict[int, Outcome] = attrs.Factory(dict)
    # Tags of messages that are neither confirmed nor returned, by content. Each message has two
    # keys, with and without the content header.
    _by_content: dict[Hashable, _Tags] = attrs.Factory(dict)
    _indexed: int = 0  # the last tag that was added to `_by_content`

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, delivery: SourceDelivery, outgoing: Outgoing) -> None:
        """Record a message that is published now. It gets the next delivery-tag."""
        self.published += 1
        self._sent[self.published] = (delivery, outgoing)

    def add_returned(
        self, exchange: str, key: str, header: bytes, body: bytes, outcome: Outcome
    ) -> None:
        """Record that the broker returned a message. Its confirm, which follows, means `outcome`.

        Of several identical messages, the earliest one is chosen. If no message has an identical
        header, headers are not compared, because the broker may have encoded the header again.
        """
        self._index_new_messages()
        for content in ((exchange, key, body, header), (exchange, key, body)):
            if (tags := self._by_content.get(content)) is not None:
                tag = next(iter(tags))
                self._returned[tag] = outcome
                self._remove_from_index(tag, self._sent[tag][1])
                return

    def confirm(
        self, tag: int, *, multiple: bool, accepted: bool
    ) -> list[tuple[SourceDelivery, Outcome]]:
        """Remove the messages of a basic.ack or basic.nack, and return them with their outcomes.

        With `multiple`, these are all messages up to `tag`; tag 0 means all messages.
        """
        unconfirmed = self._sent
        if not multiple:
            return [self._confirm(tag, accepted)] if tag in unconfirmed else []
        last = tag or self.published
        confirmed = []
        while unconfirmed and (first := next(iter(unconfirmed))) <= last:
            confirmed.append(self._confirm(first, accepted))
        return confirmed

    def _confirm(self, tag: int, accepted: bool) -> tuple[SourceDelivery, Outcome]:
        """Remove the message with this tag, and return it with its outcome."""
        delivery, outgoing = self._sent.pop(tag)
        returned = self._returned.pop(tag, None)
        if returned is not None:
            return delivery, returned
        if tag <= self._indexed:
            self._remove_from_index(tag, outgoing)
        return delivery, ACCEPTED if accepted else Outcome("nacked")

    def _index_new_messages(self) -> None:
        """Index by content the messages that were published since the last call."""
        for tag in range(self._indexed + 1, self.published + 1):
            if (published := self._sent.get(tag)) is not None:
                for content in _content_keys(published[1]):
                    self._by_content.setdefault(content, OrderedDict())[tag] = None
        self._indexed = self.published

    def _remove_from_index(self, tag: int, outgoing: Outgoing) -> None:
        """Remove the message with this tag from `_by_content`."""
        for content in _content_keys(outgoing):
            tags = self._by_content[content]
            del tags[tag]
            if not tags:
                del self._by_content[content]


def _content_keys(outgoing: Outgoing) -> tuple[Hashable, Hashable]:
    """Return the keys of a message in the index: with and without its content header."""
    key_without_header = (outgoing.exchange, outgoing.routing_key, outgoing.octets)
    return (*key_without_header, outgoing.content_header or b""), key_without_header
