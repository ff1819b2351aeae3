"""What a declaration of a queue or an exchange may say, as RabbitMQ 4.0 has it.

The options have no effect on how a node works. They are checked, so that what a program declares
here RabbitMQ takes as well: a table says of each argument which types of queue have it, and what
its value may be. Arguments that RabbitMQ does not know are kept, as there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import attrs

QUEUE_OPTIONS: Final = {"durable": True, "exclusive": False, "auto_delete": False}
EXCHANGE_OPTIONS: Final = {"durable": True, "auto_delete": False, "internal": False}
_TYPE: Final = "x-queue-type"
_LONGEST_TIMER: Final = 2**32 - 1  # ms
_MAX_AGE: Final = re.compile(r"[0-9]+[YMDhms]")


class StatusError(Exception):
    """A request is refused.

    Attributes:
        status: of the response; the text is its body.
    """

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def _is_int(value: Any, least: int, most: int | None = None) -> bool:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= least
    return right and (most is None or value <= most)


@attrs.frozen
class _Argument:
    """An argument of a queue.

    Attributes:
        types: of the queues that have it, by their first letters.
        wanted: what it takes, for the error.
        takes: whether it takes a value.
        status: of a wrong value.
    """

    types: str
    wanted: str
    takes: Callable[[Any], bool]
    status: HTTPStatus = HTTPStatus.CONFLICT


def _one_of(types: str, *values: str | int) -> _Argument:
    return _Argument(types, f"one of {', '.join(map(str, values))}", lambda value: value in values)


def _number(
    types: str, least: int, most: int | None = None, status: HTTPStatus = HTTPStatus.CONFLICT
) -> _Argument:
    up_to = "" if most is None else f" to {most}"
    wanted = f"an integer of {least}{up_to or ' or more'}"
    return _Argument(types, wanted, lambda value: _is_int(value, least, most), status)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_TYPES: Final = {"classic": "c", "quorum": "q", "stream": "s"}
_ARGUMENTS: Final[dict[str, _Argument]] = {
    "x-max-length": _number("cq", 0),
    "x-max-length-bytes": _number("cqs", 0),
    "x-message-ttl": _number("cq", 0, _LONGEST_TIMER),
    "x-expires": _number("cq", 1, _LONGEST_TIMER),
    "x-overflow": _one_of("cq", "drop-head", "reject-publish", "reject-publish-dlx"),
    "x-dead-letter-exchange": _Argument("cq", "a string", _is_text, HTTPStatus.BAD_REQUEST),
    "x-dead-letter-routing-key": _Argument("cq", "a string", _is_text),
    "x-dead-letter-strategy": _one_of("q", "at-most-once", "at-least-once"),
    "x-single-active-consumer": _Argument("cq", "a boolean", lambda value: isinstance(value, bool)),
    "x-max-priority": _number("c", 0, 255),
    "x-queue-mode": _one_of("c", "default", "lazy"),
    "x-queue-version": _one_of("c", 1, 2),
    "x-queue-master-locator": _Argument("c", "a string", _is_text),
    "x-queue-leader-locator": _one_of("cqs", "client-local", "balanced"),
    "x-delivery-limit": _Argument("q", "anything", lambda _: True),
    "x-quorum-initial-group-size": _number("q", 1),
    "x-max-in-memory-length": _number("q", 0),
    "x-max-in-memory-bytes": _number("q", 0),
    "x-max-age": _Argument(
        "s",
        "a number and one of Y, M, D, h, m and s",
        lambda value: isinstance(value, str) and _MAX_AGE.fullmatch(value) is not None,
    ),
    "x-stream-max-segment-size-bytes": _number("s", 0, 3_000_000_000),
}
_FILTER_SIZE: Final = "x-stream-filter-size-bytes"


def name_of(kind: str, name: str) -> None:
    """Check the name of what is declared or deleted.

    Raises:
        StatusError: it is reserved, empty, or has a line break.
    """
    if not name:
        status = HTTPStatus.BAD_REQUEST if kind == "queue" else HTTPStatus.FORBIDDEN
        raise StatusError(status, f"the name of the {kind} is empty")
    if name.startswith("amq."):
        raise StatusError(
            HTTPStatus.FORBIDDEN, f"the name of the {kind} {name!r} begins with amq., which is kept"
        )
    if "\n" in name or "\r" in name:
        raise StatusError(HTTPStatus.BAD_REQUEST, f"the name {name!r} has a line break")


def options_of(body: Any, defaults: Mapping[str, bool], *others: str) -> dict[str, Any]:
    """Return the options of a declaration, with the defaults of those that it leaves out.

    Args:
        body: the body of the request.
        defaults: the options that are booleans.
        others: the keys that it may have besides those and ``arguments``.

    Raises:
        StatusError: it has other keys, or a value of another type.
    """
    if not isinstance(body, dict):
        raise StatusError(HTTPStatus.BAD_REQUEST, "a declaration is a map")
    arguments = body.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise StatusError(HTTPStatus.BAD_REQUEST, "arguments is a map")
    for key, value in body.items():
        if key in defaults and not isinstance(value, bool):
            raise StatusError(HTTPStatus.BAD_REQUEST, f"{key} is a boolean, not {value!r:.80}")
        if key not in {*defaults, "arguments", *others}:
            raise StatusError(HTTPStatus.BAD_REQUEST, f"there is no property {key!r:.80}")
    options = {key: body.get(key, default) for key, default in defaults.items()}
    return {**options, "arguments": dict(arguments)}


def check_queue(options: Mapping[str, Any]) -> None:
    """Check the options of a queue, as `options_of` returns them.

    Raises:
        StatusError: RabbitMQ refuses them: an argument has a wrong value, or is not one of this
            type of queue; or a quorum queue or a stream is not durable, exclusive or deleted
            automatically.
    """
    arguments = options["arguments"]
    kind = arguments.get(_TYPE, "classic")
    letter = _TYPES.get(kind) if isinstance(kind, str) else None
    if letter is None:
        raise StatusError(HTTPStatus.CONFLICT, f"there is no {_TYPE} {kind!r:.80}")
    if letter != "c":
        for option, default in QUEUE_OPTIONS.items():
            if options[option] is not default:
                raise StatusError(
                    HTTPStatus.BAD_REQUEST,
                    f"a {kind} queue cannot be declared with {option} "
                    f"{str(options[option]).lower()}",
                )
    for name, value in arguments.items():
        known = _ARGUMENTS.get(name)
        if name == _FILTER_SIZE and letter == "s":
            known = _number("s", 16, 255, HTTPStatus.BAD_REQUEST)
        if known is None:
            continue
        if letter not in known.types:
            raise StatusError(HTTPStatus.CONFLICT, f"a {kind} queue has no argument {name}")
        if not known.takes(value):
            raise StatusError(known.status, f"{name} takes {known.wanted}, not {value!r:.80}")
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        raise StatusError(
            HTTPStatus.CONFLICT, "x-dead-letter-routing-key needs x-dead-letter-exchange"
        )
