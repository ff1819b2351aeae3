"""The result of a translation: the message and a report of losses."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import attrs

from amqp10msg.wire.errors import TranslationError
from amqp10msg.wire.reprs import encodable, html_table, short_repr, with_bounded_repr

M = TypeVar("M")

#: What a translation does to a value that it does not translate exactly.
#:
#: - ``dropped``: the translated message does not have the value.
#: - ``retyped``: the value gets another type.
#: - ``clamped``: the value becomes the limit that it exceeds.
#: - ``renamed``: the value gets another name.
#: - ``truncated``: digits or bytes are cut off.
#: - ``wrapped``: the number is reduced modulo the width of its field.
#: - ``carried``: only the residual, which consumers ignore, contains the value.
#: - ``sorted``: brokers sort the entries by name.
Action: TypeAlias = Literal[
    "dropped", "retyped", "clamped", "renamed", "truncated", "wrapped", "carried", "sorted"
]


#: Whose data is lost, the sender's or (for a value that a broker added at delivery) the broker's.
Owner: TypeAlias = Literal["sender", "broker"]

# Reasons for the loss of values that a broker added, for `owner_of` and the tables in `losses`.
ADDED_AT_DELIVERY_REASON = "RabbitMQ added it at delivery"
BROKER_ANNOTATION_REASON = "the broker's own annotation"
RABBITMQ_3_10_HEADER_REASON = "RabbitMQ 3.10 writes first-acquirer and unset defaults at delivery"
RABBITMQ_3_10_SUBJECT_REASON = "RabbitMQ 3.10 adds the routing key as subject"
RABBITMQ_3_10_BODY_REASON = "RabbitMQ 3.10 encodes 255 bytes of data in the long form"
REDELIVERED_TO_1_0_REASON = (
    "it becomes header.delivery-count; a broker on the way back sets both again"
)
REDELIVERED_TO_0_9_1_REASON = "it becomes redelivered; a broker on the way back sets both again"
#: The reasons of losses whose owner is the broker.
BROKER_REASONS = frozenset(
    {
        *(
            ADDED_AT_DELIVERY_REASON,
            BROKER_ANNOTATION_REASON,
            RABBITMQ_3_10_HEADER_REASON,
            RABBITMQ_3_10_SUBJECT_REASON,
            RABBITMQ_3_10_BODY_REASON,
        ),
        *(REDELIVERED_TO_1_0_REASON, REDELIVERED_TO_0_9_1_REASON),
    }
)


def owner_of(reason: str) -> Owner:
    """Return the owner of the data that is lost for this reason."""
    return "broker" if reason in BROKER_REASONS else "sender"


def is_permanent_loss(recoverable: bool, reason: str) -> bool:
    """Return whether data of the sender is lost, which the reverse translation does not restore.

    Such a loss makes commands that translate end with the exit status 1.
    """
    return not recoverable and owner_of(reason) == "sender"


@with_bounded_repr
@attrs.frozen(repr=False)
class Loss:
    """A value that a translation does not translate exactly.

    Attributes:
        path: the path of the value in the original, such as ``properties.priority``,
            ``headers['k']`` or ``application-properties['k']``; "" for the whole message.
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
        return is_permanent_loss(self.recoverable, self.reason)


#: A function that returns all losses of a translation, followed by its arguments: creating a tuple
#: is faster than creating a closure or a partial, and few callers read the losses.
LazyLosses: TypeAlias = tuple[Any, ...]


def losses_of(lazy: LazyLosses) -> tuple[Loss, ...]:
    """Compute the losses of a translation."""
    find_losses, *arguments = lazy
    losses: tuple[Loss, ...] = find_losses(*arguments)
    return losses


class _LazyLosses:
    """Base class of `Translation`, with a slot for the computation of its losses."""

    __slots__ = ("_lazy_losses",)
    _lazy_losses: LazyLosses


@with_bounded_repr
@attrs.define(repr=False)
class Translation(_LazyLosses, Generic[M]):
    """A translated message with a report of its losses.

    Attributes:
        message: the translated message.
        losses: the losses; empty if the translation is exact.
    """

    message: M
    losses: tuple[Loss, ...] = ()

    if not TYPE_CHECKING:  # otherwise type checkers would accept any attribute name

        def __getattr__(self, name: str) -> Any:
            """Compute `losses` when it is first read: the compiled engine has only counted them."""
            if name != "losses":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.losses = losses = losses_of(self._lazy_losses)
            return losses

    def _repr_html_(self) -> str:
        """Return HTML for notebooks, with the losses before the message."""
        rows = [
            (loss.path or "message", loss.action, loss.reason, short_repr(loss.before))
            for loss in self.losses
        ]
        permanent = sum(loss.is_permanent for loss in self.losses)
        if permanent:
            title = f"Permanently lost: {permanent:,} of {len(rows):,}"
        else:
            title = (
                f"Changed, nothing permanently lost: {len(rows):,}" if rows else "Nothing was lost."
            )
        table = html_table(title, ("where", "what", "why", "before"), rows)
        message_html = getattr(self.message, "_repr_html_", lambda: None)()
        return table + (
            message_html or f"<pre {_WRAPPED_PRE_STYLE}>{escape(repr(self.message))}</pre>"
        )


_WRAPPED_PRE_STYLE = 'style="white-space: pre-wrap; overflow-wrap: anywhere"'


def path_of_key(section: str, key: Any) -> str:
    """Return the path of an entry of a map section, such as ``footer['k']`` or ``footer[1]``."""
    return f"{section}[{str(key)!r}]" if isinstance(key, str) else f"{section}[{key}]"


# `json.dumps` would create an encoder for each call.
_encode_json = json.JSONEncoder(ensure_ascii=False).encode


def as_json(value: Any) -> str | None:
    """Return a value of a `Loss` as JSON: if JSON has no such type, as a string with its `repr`."""
    if value is None:
        return None
    try:
        text = _encode_json(value)
    except (TypeError, ValueError):
        text = _encode_json(repr(value))
    return encodable(text)


def lazy_translation(message: M, lazy_losses: LazyLosses) -> Translation[M]:
    """Return a translation that computes its losses when they are first read."""
    translation: Translation[M] = Translation.__new__(Translation)
    translation.message = message
    translation._lazy_losses = lazy_losses  # type: ignore[misc]  # a slot of the base class
    return translation


class Notes:
    """Collects losses while a message is translated.

    Attributes:
        losses: the losses so far.
        find_losses: computes all losses when they are first read; None if `losses` has them. A
            tuple of a function and its arguments.
        enabled: True to collect losses, False to discard them.
    """

    __slots__ = ("enabled", "find_losses", "losses")

    def __init__(self, enabled: bool = True) -> None:
        """Collect losses if `enabled`; otherwise discard them."""
        self.losses: list[Loss] = []
        self.find_losses: LazyLosses | None = None
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
        """Add a `Loss` with these attributes, if `enabled`."""
        if self.enabled:
            self.losses.append(Loss(path, action, before, after, reason, recoverable))

    def add_defined(
        self, rule: tuple[Action, str, bool], path: str, before: Any, after: Any = None
    ) -> None:
        """Add a loss whose action, reason and recoverability are those of a `losses.LossRule`."""
        action, reason, recoverable = rule
        self.add(path, action, before, after, reason, recoverable)

    def add_dropped(self, path: str, before: Any, reason: str) -> None:
        """Add the permanent loss of a value that the translated message does not have."""
        self.add(path, "dropped", before, None, reason)

    def add_carried(self, path: str, before: Any, reason: str) -> None:
        """Add the recoverable loss of a value that only the residual contains."""
        self.add(path, "carried", before, None, reason, recoverable=True)

    def translation(self, message: M, strict: bool) -> Translation[M]:
        """Return a `Translation` of the message, with the collected losses.

        Raises:
            TranslationError: `strict` is True, and a loss is permanent.
        """
        if self.find_losses is not None and not strict:
            return lazy_translation(message, self.find_losses)
        losses = tuple(self.losses) if self.find_losses is None else losses_of(self.find_losses)
        if strict:
            for loss in losses:
                if loss.is_permanent:
                    raise TranslationError(
                        loss.path, f"would be lost ({loss.action}): {loss.reason}"
                    )
        return Translation(message, losses)
