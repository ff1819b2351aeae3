"""Check properties for violations of 0-9-1 that decoding accepts, because clients cause them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from amqp10msg.basic.message import BASIC_CLASS, ContentHeader
from amqp10msg.basic.properties import PROPERTIES, BasicProperties
from amqp10msg.basic.tables import FieldTable, as_array, as_table
from amqp10msg.wire.errors import expect

# Field names (0-9-1, 4.2.5.5): a letter, $ or #, then letters, digits, $, # and underscores; at
# most 128 characters.
_FIELD_NAME_PATTERN = re.compile(r"[A-Za-z$#][A-Za-z0-9$#_]{0,127}")


@attrs.frozen
class Finding:
    """A violation of a rule of 0-9-1.

    Attributes:
        rule: the short stable name of the rule, such as ``priority-range``.
        severity: ``error`` for a MUST or an illegal value; ``warning`` for a rule that nearly all
            clients and brokers ignore.
        path: the property or field, such as ``priority`` or ``headers['k']``.
        text: the reason, and the allowed values.
    """

    rule: str
    severity: str
    path: str
    text: str


def check_properties(properties: BasicProperties) -> list[Finding]:
    """Check properties against the rules of 0-9-1.

    Short strings are UTF-8 of at most 255 bytes without NUL (4.2.5.3), the delivery mode is 1 or 2,
    the priority is 0 to 9, the reserved property (formerly cluster-id) is empty, and field names
    are unique (4.2.5.5).

    Returns:
        The violations, in the order of the properties.

    Raises:
        TypeError: `properties` is not a BasicProperties.
    """
    expect(
        properties,
        BasicProperties,
        "the argument properties of check_properties",
        "BasicProperties",
    )
    return list(_findings_in_properties(properties))


def _findings_in_properties(properties: BasicProperties) -> Iterator[Finding]:
    """Yield the violations in all properties."""
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if value is None:
            continue
        name = row.wire_name
        if row.domain == "shortstr":
            yield from _findings_in_shortstr(value, name)
        elif row.domain == "table":
            table = as_table(value)
            yield from _findings_in_table(table, name)
        if name == "delivery-mode" and value not in {1, 2}:
            yield Finding("delivery-mode-value", "error", name, f"{value} is neither 1 nor 2")
        elif name == "priority" and not 0 <= value <= 9:
            yield Finding("priority-range", "error", name, f"{value} is not within 0 and 9")
        elif name == "cluster-id" and value:
            yield Finding("reserved-not-empty", "error", name, "the last property must be empty")


def _findings_in_shortstr(text: Any, path: str) -> Iterator[Finding]:
    """Yield the violations in a short string (a property or a field name)."""
    octets = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)
    if len(octets) > 255:
        yield Finding(
            "shortstr-length",
            "error",
            path,
            f"a short string has at most 255 bytes, not {len(octets)}",
        )
    if 0 in octets:
        yield Finding("shortstr-nul", "error", path, "a short string has no NUL byte")
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError:
        yield Finding("shortstr-utf8", "error", path, "a short string is UTF-8")


def _findings_in_table(table: FieldTable, path: str) -> Iterator[Finding]:
    """Yield the violations in the names and the values of a table."""
    counts = Counter(name for name, _, _ in table.entries)
    for name, count in counts.items():
        here = f"{path}[{name!r}]"
        if count > 1:
            yield Finding("field-name-twice", "error", here, f"the name occurs {count} times")
        yield from _findings_in_shortstr(name, here)
        if not _FIELD_NAME_PATTERN.fullmatch(name):
            yield Finding(
                "field-name-form",
                "warning",
                here,
                "a name has at most 128 letters, digits, $, # and _, and begins with no digit or _",
            )
    for name, letter, value in table.entries:
        yield from _findings_in_value(letter, value, f"{path}[{name!r}]")


def _findings_in_value(letter: str, value: Any, path: str) -> Iterator[Finding]:
    """Yield the violations in the value of a field."""
    if letter == "F":
        yield from _findings_in_table(as_table(value), path)
    elif letter == "A":
        array = as_array(value)
        for index, (inner, item) in enumerate(array.entries):
            yield from _findings_in_value(inner, item, f"{path}[{index}]")
    elif letter == "t" and not isinstance(value, bool):
        yield Finding(
            "boolean-octet", "warning", path, f"the byte of a boolean is 0 or 1, not {value}"
        )
    elif letter == "x":
        yield Finding("field-letter-x", "warning", path, "bytes (x) are an extension of RabbitMQ")


def check_content_header(header: ContentHeader) -> list[Finding]:
    """Check a content header against the rules of 0-9-1: class, weight and properties."""
    expect(header, ContentHeader, "check_content_header", "a ContentHeader")
    findings = []
    if header.class_id != BASIC_CLASS:
        findings.append(Finding("content-class", "error", "class", f"{header.class_id} is not 60"))
    if header.weight:
        findings.append(Finding("content-weight", "error", "weight", f"{header.weight} is not 0"))
    return findings + check_properties(header.properties)
