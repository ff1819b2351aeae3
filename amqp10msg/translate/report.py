"""The result of a translation: the message and a report of losses."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import attrs

from amqp10msg.wire.errors import TranslationError
from amqp10msg.wire.reprs import encodable, html_table, short_repr, shown

M = TypeVar("M")

#: What happened to a value: ``dropped``; ``retyped``, it has another type; ``clamped`` to a bound;
#: ``renamed``; ``truncated``, digits or bytes are cut off; ``wrapped`` modulo the width of a
#: field; ``carried`` in the residual, out of sight; ``sorted`` by brokers on the way, by name.
Action: TypeAlias = Literal[
    "dropped", "retyped", "clamped", "renamed", "truncated", "wrapped", "carried", "sorted"
]


#: Whose data a loss concerns: the ``sender``'s, or a mark that a ``broker`` writes at delivery.
Owner: TypeAlias = Literal["sender", "broker"]

# Why a mark of a broker is not translated. These texts stand here once: `owner_of` knows them, and
# the tables of `losses` use them.
ADDED_AT_DELIVERY = "RabbitMQ added it at delivery"
BROKERS_OWN = "the broker's own annotation"
HEADER_OF_3_10 = "RabbitMQ 3.10 writes first-acquirer and unset defaults at delivery"
SUBJECT_OF_3_10 = "RabbitMQ 3.10 adds the routing key as subject"
BODY_OF_3_10 = "RabbitMQ 3.10 encodes 255 bytes of data in the long form"
REDELIVERED_TO_1_0 = "header.delivery-count says it; a broker on the way back says both again"
REDELIVERED_TO_0_9_1 = "redelivered says it; a broker on the way back says both again"
_MARKS = frozenset(
    {
        *(ADDED_AT_DELIVERY, BROKERS_OWN, HEADER_OF_3_10, SUBJECT_OF_3_10, BODY_OF_3_10),
        *(REDELIVERED_TO_1_0, REDELIVERED_TO_0_9_1),
    }
)


def owner_of(reason: str) -> Owner:
    """Return whose data a loss with this reason concerns."""
    return "broker" if reason in _MARKS else "sender"


@shown
@attrs.frozen(repr=False)
class Loss:
    """One loss in translation.

    Attributes:
        path: where in the original, such as ``properties.priority``, ``headers['k']`` or
            ``application-properties['k']``.
        action: what happened to it, see `Action`.
        before: the value in the original.
        after: the value in the translation, None where it has none.
        reason: why.
        recoverable: translating back gives the original value again.
    """

    path: str
    action: Action
    before: Any
    after: Any
    reason: str
    recoverable: bool

    @property
    def owner(self) -> Owner:
        """The ``sender`` of the data, or the ``broker`` that wrote a mark for one delivery."""
        return owner_of(self.reason)

    @property
    def is_permanent(self) -> bool:
        """Whether data of the sender is lost that no translation back restores."""
        return not self.recoverable and self.owner == "sender"


class _Unread:
    """What a class derives from whose objects find out a part of them when it is asked for."""

    __slots__ = ("_read",)
    _read: Callable[[], Any]


@shown
@attrs.define(repr=False)
class Translation(_Unread, Generic[M]):
    """A translated message with a report of losses.

    Attributes:
        message: the message in the other protocol.
        losses: in the order in which they were found; empty if nothing was lost.
    """

    message: M
    losses: tuple[Loss, ...] = ()

    if not TYPE_CHECKING:  # to which any name would be that of an attribute

        def __getattr__(self, name: str) -> Any:
            """Find the losses of a message that the engine translated, which only counts them."""
            if name != "losses":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.losses = found = self._read()
            return found

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the losses, and below them the message."""
        rows = [
            (loss.path or "message", loss.action, loss.reason, short_repr(loss.before))
            for loss in self.losses
        ]
        lost = sum(loss.is_permanent for loss in self.losses)
        if lost:
            title = f"Lost for good: {lost:,} of {len(rows):,}"
        else:
            title = (
                f"Changed, nothing lost for good: {len(rows):,}" if rows else "Nothing was lost."
            )
        table = html_table(title, ("where", "what", "why", "before"), rows)
        shown = getattr(self.message, "_repr_html_", lambda: None)()
        return table + (shown or f"<pre {_WRAPPED}>{escape(repr(self.message))}</pre>")


_WRAPPED = 'style="white-space: pre-wrap; overflow-wrap: anywhere"'


def path_of_key(section: str, key: Any) -> str:
    """Return the path of a value in a section that is a map: a key of text is in quotes."""
    return f"{section}[{str(key)!r}]" if isinstance(key, str) else f"{section}[{key}]"


# As `json.dumps`, which makes an encoder each time.
_json = json.JSONEncoder(ensure_ascii=False).encode


def as_json(value: Any) -> str | None:
    """Return a value of a loss as JSON; one without a JSON type as its `repr`."""
    if value is None:
        return None
    try:
        told = _json(value)
    except (TypeError, ValueError):
        told = _json(repr(value))
    return encodable(told)


def unread(message: M, losses: Callable[[], tuple[Loss, ...]]) -> Translation[M]:
    """Return a translation whose losses are found when they are asked for."""
    made: Translation[M] = Translation.__new__(Translation)
    made.message = message
    made._read = losses
    return made


class Notes:
    """Losses, collected while a message is translated.

    Attributes:
        losses: those that were found.
        unread: finds all of them, where they are to be looked for when they are asked for.
        enabled: whether to collect losses, or to discard them.
    """

    __slots__ = ("enabled", "losses", "unread")

    def __init__(self, enabled: bool = True) -> None:
        """Collect losses, or discard them."""
        self.losses: list[Loss] = []
        self.unread: Callable[[], tuple[Loss, ...]] | None = None
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
        """Note one loss."""
        if self.enabled:
            self.losses.append(Loss(path, action, before, after, reason, recoverable))

    def tell(
        self, rule: tuple[Action, str, bool], path: str, before: Any, after: Any = None
    ) -> None:
        """Note a loss of which action, reason and whether it is recoverable stand in a table."""
        action, reason, recoverable = rule
        self.add(path, action, before, after, reason, recoverable)

    def dropped(self, path: str, before: Any, reason: str) -> None:
        """Note a value that the translated message does not have at all."""
        self.add(path, "dropped", before, None, reason)

    def carried(self, path: str, before: Any, reason: str) -> None:
        """Note a value that stands in the residual alone, from where it comes back."""
        self.add(path, "carried", before, None, reason, recoverable=True)

    def translation(self, message: M, strict: bool) -> Translation[M]:
        """Return a message with the losses; in strict mode, raise for a permanent one.

        Raises:
            TranslationError: data of the sender would be lost for good.
        """
        if self.unread is not None and not strict:
            return unread(message, self.unread)
        losses = self.unread() if self.unread is not None else tuple(self.losses)
        if strict:
            for loss in losses:
                if loss.is_permanent:
                    raise TranslationError(
                        loss.path, f"would be lost ({loss.action}): {loss.reason}"
                    )
        return Translation(message, losses)
