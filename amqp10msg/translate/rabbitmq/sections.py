"""What the two ways through RabbitMQ 4 share: how it takes described values for sections."""

from __future__ import annotations

from typing import Any

from amqp10msg.translate.rabbitmq.fields import octets, utf8_without_nul
from amqp10msg.translate.rabbitmq.terms import CrashedError, RefusedError, Term, section_name

__all__ = ["MARKER", "check_stored", "check_user", "decoded", "shown"]

#: The type of a 0-9-1 message whose payload is encoded body sections.
MARKER = "amqp-1.0"


def decoded(term: Term) -> tuple[str, Any]:
    """Return the name and the content of the section that a described value is."""
    name = section_name(term[1]) if isinstance(term, tuple) and term[0] == "described" else None
    if name is None:
        raise CrashedError("the 1.0 consumer's session dies: no section")
    value = term[2]
    if name in ("header", "properties"):
        width = 5 if name == "header" else 13
        fields = list(value[1]) if isinstance(value, tuple) and value[0] == "list" else None
        if fields is None or len(fields) > width:
            raise CrashedError(f"the session dies: {name} of the wrong shape", name)
        if any(isinstance(one, tuple) and one[0] == "described" for one in fields):
            raise CrashedError(f"the session dies: a described value in {name}", name)
        return name, fields + [None] * (width - len(fields))
    if name in ("delivery-annotations", "message-annotations", "footer"):
        return name, _decoded_map(name, value, reserved=True)
    if name == "application-properties":
        return name, _decoded_map(name, value, reserved=False)
    wanted = {"data": "binary", "amqp-sequence": "list"}.get(name)
    if wanted and not (isinstance(value, tuple) and value[0] == wanted):
        raise CrashedError(f"the session dies: {name} of the wrong type", name)
    return name, value


def _decoded_map(name: str, value: Term, *, reserved: bool) -> list[Any]:
    if not (isinstance(value, tuple) and value[0] == "map"):
        raise CrashedError(f"the session dies: {name} is no map", name)
    for key, item in value[1]:
        if reserved and not (
            isinstance(key, tuple) and key[0] == "symbol" and key[1].startswith(b"x-")
        ):
            raise RefusedError(
                f"refused: the key {shown(key)} is reserved, only symbols that begin with x- "
                "are not",
                name,
            )
        if isinstance(item, tuple) and item[0] == "described":
            raise RefusedError(f"refused: a described value under {shown(key)}", name)
    return list(value[1])


def check_stored(annotations: list[Any], path: str) -> None:
    """Raise for a null annotation, which a stream cannot write again."""
    if any(value is None for _, value in annotations):
        raise CrashedError("a session dies: a null annotation in a stream", path)


def shown(value: Term) -> Any:
    """Return a term as a report shows it."""
    if not isinstance(value, tuple):
        return value
    if value[0] in ("utf8", "symbol"):
        return value[1].decode("utf-8", "replace")
    if value[0] == "as_is":
        return bytes(value[2])
    return value[1] if len(value) == 2 else value


def check_user(name: bytes, user: str | None) -> None:
    """Raise for a user-id that is not the user's name; without a user, that no user can have."""
    if user is not None:
        if name != octets(user):
            raise RefusedError(
                "refused: the user-id is not the connection's user", "properties.user-id"
            )
    elif not name or not utf8_without_nul(name):
        # Names are not empty, are UTF-8 (tools and the HTTP interface take no other), and SASL
        # PLAIN ends them with a NUL.
        raise RefusedError("refused: no user can have this name", "properties.user-id")
