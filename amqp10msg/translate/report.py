"""The result of a translation: the message and a report of losses."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import attrs

from amqp10msg.wire.errors import TranslationError
from amqp10msg.wire.reprs import encodable, html_table, short_repr, with_bounded_repr

M = TypeVar("M")

#: The change to a value: ``dropped``; ``retyped``: it gets another type; ``clamped`` to a limit;
#: ``renamed``; ``truncated``: digits or bytes are cut off; ``wrapped`` modulo the width of a field;
#: ``carried`` in the residual, hidden from consumers; ``sorted`` by name, by brokers.
Action: TypeAlias = Literal[
    "dropped", "retyped", "clamped", "renamed", "truncated", "wrapped", "carried", "sorted"
]


#: The owner of the lost data: the ``sender``, or the ``broker`` for values added at delivery.
Owner: TypeAlias = Literal["sender", "broker"]

# Loss reasons for values that a broker added. Used by `owner_of` and by the tables in `losses`.
ADDED_AT_DELIVERY = "RabbitMQ added it at delivery"
BROKERS_OWN = "the broker's own annotation"
HEADER_OF_3_10 = "RabbitMQ 3.10 writes first-acquirer and unset defaults at delivery"
SUBJECT_OF_3_10 = "RabbitMQ 3.10 adds the routing key as subject"
BODY_OF_3_10 = "RabbitMQ 3.10 encodes 255 bytes of data in the long form"
REDELIVERED_TO_1_0 = "it becomes header.delivery-count; a broker on the way back sets both again"
REDELIVERED_TO_0_9_1 = "it becomes redelivered; a broker on the way back sets both again"
_BROKER_REASONS = frozenset(
    {
        *(ADDED_AT_DELIVERY, BROKERS_OWN, HEADER_OF_3_10, SUBJECT_OF_3_10, BODY_OF_3_10),
        *(REDELIVERED_TO_1_0, REDELIVERED_TO_0_9_1),
    }
)


def owner_of(reason: str) -> Owner:
    """Return the owner of the data that is lost for this reason."""
    return "broker" if reason in _BROKER_REASONS else "sender"


@with_bounded_repr
@attrs.frozen(repr=False)
class Loss:
    """A loss in a translation.

    Attributes:
        path: the path of the value in the original, such as ``properties.priority``,
            ``headers['k']`` or ``application-properties['k']``.
        action: what happened to the value; see `Action`.
        before: the value in the original.
        after: the value in the translation; None if the translation has no value.
        reason: the reason for the change.
        recoverable: whether the reverse translation restores the original value.
    """

    path: str
    action: Action
    before: Any
    after: Any
    reason: str
    recoverable: bool

    @property
    def owner(self) -> Owner:
        """Either ``sender``, or ``broker`` for a value that the broker added at delivery."""
        return owner_of(self.reason)

    @property
    def is_permanent(self) -> bool:
        """Whether data of the sender is lost that the reverse translation does not restore."""
        return not self.recoverable and self.owner == "sender"


class _LazyLosses:
    """Base class of objects that compute an attribute when it is first read."""

    __slots__ = ("_find_losses",)
    _find_losses: Callable[[], Any]


@with_bounded_repr
@attrs.define(repr=False)
class Translation(_LazyLosses, Generic[M]):
    """A translated message with a report of its losses.

    Attributes:
        message: the translated message.
        losses: the losses; empty for an exact translation.
    """

    message: M
    losses: tuple[Loss, ...] = ()

    if not TYPE_CHECKING:  # otherwise type checkers would accept any attribute name

        def __getattr__(self, name: str) -> Any:
            """Compute the losses when they are first read: the engine has only counted them."""
            if name != "losses":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.losses = losses = self._find_losses()
            return losses

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the losses, then the message."""
        rows = [
            (loss.path or "message", loss.action, loss.reason, short_repr(loss.before))
            for loss in self.losses
        ]
        permanent = sum(loss.is_permanent for loss in self.losses)
        if permanent:
            title = f"Lost for good: {permanent:,} of {len(rows):,}"
        else:
            title = (
                f"Changed, nothing lost for good: {len(rows):,}" if rows else "Nothing was lost."
            )
        table = html_table(title, ("where", "what", "why", "before"), rows)
        message_html = getattr(self.message, "_repr_html_", lambda: None)()
        return table + (message_html or f"<pre {_WRAPPED}>{escape(repr(self.message))}</pre>")


_WRAPPED = 'style="white-space: pre-wrap; overflow-wrap: anywhere"'


def path_of_key(section: str, key: Any) -> str:
    """Return the path of an entry of a map section. A string key is quoted."""
    return f"{section}[{str(key)!r}]" if isinstance(key, str) else f"{section}[{key}]"


# `json.dumps` would create an encoder for each call.
_json = json.JSONEncoder(ensure_ascii=False).encode


def as_json(value: Any) -> str | None:
    """Return a value of a loss as JSON. A value without a JSON type is the string of its `repr`."""
    if value is None:
        return None
    try:
        text = _json(value)
    except (TypeError, ValueError):
        text = _json(repr(value))
    return encodable(text)


def lazy_translation(message: M, losses: Callable[[], tuple[Loss, ...]]) -> Translation[M]:
    """Return a translation that calls `losses` when its losses are first read."""
    translation: Translation[M] = Translation.__new__(Translation)
    translation.message = message
    translation._find_losses = losses
    return translation


class Notes:
    """Collects losses while a message is translated.

    Attributes:
        losses: the losses so far.
        find_losses: a function that computes all losses when they are read; None to use `losses`.
        enabled: whether to collect losses, or to discard them.
    """

    __slots__ = ("enabled", "find_losses", "losses")

    def __init__(self, enabled: bool = True) -> None:
        """Collect losses, or discard them."""
        self.losses: list[Loss] = []
        self.find_losses: Callable[[], tuple[Loss, ...]] | None = None
        self.enabled = enabled

    def add(
        self,
        path: str,
        action: Action,
        before: Any,
        after: Any,
        reason: str,
        recoverable: bool = False,
    ) -> None:
        """Add a loss."""
        if self.enabled:
            self.losses.append(Loss(path, action, before, after, reason, recoverable))

    def add_defined(
        self, rule: tuple[Action, str, bool], path: str, before: Any, after: Any = None
    ) -> None:
        """Add a loss whose action, reason and recoverability are a `LossRule` of `losses`."""
        action, reason, recoverable = rule
        self.add(path, action, before, after, reason, recoverable)

    def add_dropped(self, path: str, before: Any, reason: str) -> None:
        """Add the loss of a value that is missing in the translated message."""
        self.add(path, "dropped", before, None, reason)

    def add_carried(self, path: str, before: Any, reason: str) -> None:
        """Add the recoverable loss of a value that only the residual contains."""
        self.add(path, "carried", before, None, reason, recoverable=True)

    def translation(self, message: M, strict: bool) -> Translation[M]:
        """Return a translated message with its losses.

        Raises:
            TranslationError: `strict` is set and there is a permanent loss.
        """
        if self.find_losses is not None and not strict:
            return lazy_translation(message, self.find_losses)
        losses = self.find_losses() if self.find_losses is not None else tuple(self.losses)
        if strict:
            for loss in losses:
                if loss.is_permanent:
                    raise TranslationError(
                        loss.path, f"would be lost ({loss.action}): {loss.reason}"
                    )
        return Translation(message, losses)
