"""Lifetime policies of dynamic nodes (Part 3, 3.5.10 to 3.5.13)."""

from __future__ import annotations

import attrs

from amqp10msg.composite import composite
from amqp10msg.delivery.states import Shared

_POLICY = ("lifetime-policy",)


@composite("amqp:delete-on-close:list", 0x2B, provides=_POLICY)
@attrs.frozen
class DeleteOnClose(Shared):
    """The node is deleted when the link that created it ceases to exist (Part 3, 3.5.10)."""


@composite("amqp:delete-on-no-links:list", 0x2C, provides=_POLICY)
@attrs.frozen
class DeleteOnNoLinks(Shared):
    """The node is deleted when no link has it as source or target (Part 3, 3.5.11)."""


@composite("amqp:delete-on-no-messages:list", 0x2D, provides=_POLICY)
@attrs.frozen
class DeleteOnNoMessages(Shared):
    """The node is deleted when its creating link is gone and it is empty (Part 3, 3.5.12)."""


@composite("amqp:delete-on-no-links-or-messages:list", 0x2E, provides=_POLICY)
@attrs.frozen
class DeleteOnNoLinksOrMessages(Shared):
    """The node is deleted when it has neither links nor messages (Part 3, 3.5.13)."""


# Made now, before two threads could make two.
for _policy in (DeleteOnClose, DeleteOnNoLinks, DeleteOnNoMessages, DeleteOnNoLinksOrMessages):
    _policy()
