# cython: language_level=3, boundscheck=True, wraparound=True, annotation_typing=False
"""Header names and annotation keys of the lossless profile."""

from __future__ import annotations

from typing import Any

from amqp10msg.translate._delivery import COUNTS, HEADERS
from amqp10msg.translate._values import NOTHING, to_field, to_value
from amqp10msg.translate._vocabulary import Vocabulary
from amqp10msg.translate.residual import NAME
from amqp10msg.translate.table import ROWS, Row
from amqp10msg.wire.primitives import Symbol

BY_ANNOTATION: dict[str, Row] = {row.annotation: row for row in ROWS}
_TAKEN = {NAME, *BY_ANNOTATION}
#: Headers that RabbitMQ refuses unless they are arrays, as in 1.0 properties no value is.
ROUTES = {"CC", "BCC"}
LONGEST_ROUTE = max(map(len, ROUTES))
#: Headers that RabbitMQ 3.10 and 4 take for encoded sections of a 1.0 message: any other content
#: kills the consumers.
SECTIONS = {
    "x-amqp-1.0-properties",
    "x-amqp-1.0-app-properties",
    "x-amqp-1.0-message-annotations",
    "x-amqp-1.0-footer",
}
#: Kills the publisher's connection where it is not text and the queue is a stream.
FILTER = "x-stream-filter-value"
_MAX_FILTER = 4096  # octets that RabbitMQ takes for text
#: A stream of RabbitMQ 4 stores routes under this name, and properties of 0-9-1 under names that
#: begin so: a consumer does not get headers of these names, and dies of some.
STORED_ROUTES = "x-cc"
_STORED_BASIC = "x-basic-"
#: That, and a history of deaths, which a stream does not give out unless it is an array.
PICKY = {FILTER, "x-death"}
#: What RabbitMQ takes for its own facts, writes over, or does not give to consumers.
OF_BROKER = {*COUNTS, STORED_ROUTES, "x-opt-deaths", "x-exchange", "x-routing-key"}
#: Annotations that RabbitMQ 4 takes for its own as well: no consumer of 0-9-1 gets them as headers.
INTERNAL = {*OF_BROKER, "x-death"}
#: Keys of annotations by the names of headers.
SYMBOLS = Vocabulary()
#: What `header_of` finds for keys.
FOUND = Vocabulary()
_SYMBOLS = SYMBOLS.known
_FOUND = FOUND.known


def _is_of_broker(name: str) -> bool:
    """Whether RabbitMQ takes a header or annotation of this name for its own."""
    return name in OF_BROKER or name.startswith(_STORED_BASIC)


def annotation_of(name: str) -> Symbol | None:
    """Return the key of the annotation that a header ``x-…`` becomes, None where there is none.

    ``x-opt-…`` keeps its name, any other gets the prefix ``x-opt-``.
    """
    known: Symbol | None = _SYMBOLS.get(name)
    if known is not None:
        return known
    if not name.isascii() or "\0" in name or name in SECTIONS or _is_of_broker(name):
        return None
    if not name.startswith("x-opt-"):
        made = Symbol("x-opt-" + name)
    elif name.startswith("x-opt-x-") or name in _TAKEN:
        return None
    else:
        made = Symbol(name)
    SYMBOLS.keep(name, made)
    return made


def header_of(key: Any) -> tuple[str, bool] | None:
    """Return the header's name that an annotation becomes, and whether the way back is the same.

    None where no header can be called so.
    """
    if not isinstance(key, str):
        return None
    known: tuple[str, bool] | None = _FOUND.get(key)
    if known is not None:
        return known
    if not key.startswith("x-") or "\0" in key:
        return None
    if key in _TAKEN or key in INTERNAL or key.startswith(_STORED_BASIC):
        return None
    name = key[6:] if key.startswith("x-opt-x-") else str(key)
    if name in SECTIONS or len(name) > 255 or _is_of_broker(name):
        return None
    found = name, annotation_of(name) == key
    FOUND.keep(key, found)
    return found


def property_name(key: Any) -> tuple[str, bool] | None:
    """Return the name of the header that an application property becomes, as `header_of` does."""
    if type(key) is not str or "\0" in key or key == NAME or key in ROUTES or key in SECTIONS:
        return None
    if key in HEADERS or _is_of_broker(key):  # on the way back they would be the broker's
        return None
    if len(key) > 255 or (not key.isascii() and len(key.encode("utf-8")) > 255):
        return None
    return key, not key.startswith("x-")


def is_name(name: str) -> bool:
    """Whether a header's name can be the key of an application property."""
    if name.isascii():
        return "\0" not in name and name not in ROUTES
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def place_of(name: str) -> tuple[str, str] | None:
    """Return where a header stands, section (``a`` or ``p``) and key; None where nowhere."""
    if name.startswith("x-"):
        key = annotation_of(name)
        return ("a", key) if key is not None else None
    return ("p", name) if is_name(name) else None


def _is_deliverable(name: str, item: Any) -> bool:
    """Whether brokers deliver a header of a name of `PICKY` with this value."""
    if name == FILTER:
        return type(item) is str and "\0" not in item and len(item.encode("utf-8")) <= _MAX_FILTER
    return type(item) is list


def header_value(name: str, letter: str, value: Any) -> tuple[Any, bool]:
    """Return the 1.0 value of a header, NOTHING where there is none, and whether it is exact."""
    item, exact = to_value(letter, value, 0 if name.startswith("x-") else -1)
    if name in PICKY and not _is_deliverable(name, item):
        return NOTHING, False
    return item, exact


def header_field(name: str, item: Any) -> tuple[str, Any, bool]:
    """Return letter and value of the header of this name, "" where there is none, as `to_field`."""
    if (item is None and name.startswith("x-")) or (
        name in PICKY and not _is_deliverable(name, item)
    ):
        return "", None, False
    return to_field(item)
