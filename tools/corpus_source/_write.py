"""How a chapter of the corpus is written down."""

from __future__ import annotations

import re
from typing import Any

from amqp10msg.interop.corpus import Case, Fault

ORIGIN = "written by hand from the specification"
#: Why no clause requires that a described value of such a descriptor is read.
UNBOUNDED = "no clause has a limit, so to read them is allowed (Part 2, 2.8.15, names the error)"
RESERVED = "a descriptor that is neither a symbol nor a ulong is valid, but reserved (Part 1, 1.5)"
_TOKEN = re.compile(r"\s*(?:'([^']*)'|((?:[0-9a-f]{2})+))(?=\s|$)")


def octets(text: str) -> bytes:
    """Turn ``"a1 05 'hello'"`` into octets: hex of any grouping, and text in quotes as UTF-8."""
    made = b""
    pos = 0
    text = text.rstrip()
    while pos < len(text):
        token = _TOKEN.match(text, pos)
        if token is None:
            raise ValueError(f"neither hex nor quoted text: {text[pos : pos + 40]!r}")
        quoted, digits = token.groups()
        made += bytes.fromhex(digits) if quoted is None else quoted.encode()
        pos = token.end()
    return made


# Sizes and counts, as Part 1, 1.2.2 and 1.2.3 define them, in front of content.


def _counted(code: str, width: int, count: int, content: str) -> str:
    body = octets(content)
    size = len(body) + width
    return f"{code} {size:0{2 * width}x} {count:0{2 * width}x} {body.hex()} "


def list8(count: int, content: str) -> str:
    """A list of so many values, with sizes of one octet."""
    return _counted("c0", 1, count, content)


def list32(count: int, content: str) -> str:
    """A list of so many values, with sizes of four octets."""
    return _counted("d0", 4, count, content)


def map8(count: int, content: str) -> str:
    """A map of so many keys and values, counted together, with sizes of one octet."""
    return _counted("c1", 1, count, content)


def map32(count: int, content: str) -> str:
    """A map of so many keys and values, counted together, with sizes of four octets."""
    return _counted("d1", 4, count, content)


def sym(text: str) -> str:
    """A symbol of up to 255 octets."""
    return f"a3 {len(text):02x} '{text}' "


def string(text: str) -> str:
    """A string of up to 255 octets."""
    return f"a1 {len(text.encode()):02x} '{text}' "


def nested(levels: int) -> str:
    """Lists in lists with sizes of four octets, and an empty list0 in the innermost."""
    inner = "45"
    for level in range(1, levels):
        inner = f"d0 {5 + (level - 1) * 9:08x} 00000001 {inner}"
    return inner


class Chapter:
    """Cases of one kind, in the order they are written.

    `at` sets the clause that the following cases are about.

    Args:
        kind: of all of them, as in `Case.kind`.
        origin: who wrote the bytes.
    """

    def __init__(self, kind: str, origin: str = ORIGIN) -> None:
        self.kind = kind
        self.origin = origin
        self.clause = ""
        self.cases: list[Case] = []

    def at(self, clause: str) -> None:
        """Go to a clause of the specification."""
        self.clause = clause

    def _add(self, name: str, data: str, note: str, **expected: Any) -> None:
        self.cases.append(
            Case(
                id=name,
                kind=self.kind,
                data=octets(data),
                clause=self.clause,
                origin=self.origin,
                note=note,
                **expected,
            )
        )

    def says(
        self,
        name: str,
        data: str,
        typed: Any,
        note: str = "",
        *,
        compact: str | None = None,
        breaks: str = "",
        profile: str = "oasis",
        limits: dict[str, int] | None = None,
        preference: str = "",
    ) -> None:
        """Add octets that must be read. They are the smallest encoding unless `compact` is given.

        `breaks` lists the rules that a message breaks, and where: ``"rule@6, rule@12 (warning)"``.
        `preference` says why no clause requires that they are read so.
        """
        self._add(
            name,
            data,
            note,
            typed=typed,
            compact=octets(data if compact is None else compact),
            violations=_violations(breaks) if self.kind == "message" else None,
            profile=profile,
            limits=limits,
            preference=preference,
        )

    def irregular(
        self,
        name: str,
        data: str,
        typed: Any,
        rule: str,
        offset: int,
        note: str = "",
        *,
        breaks: str = "",
        profile: str = "oasis",
    ) -> None:
        """Add octets that can be read and that a strict reader refuses, for `rule` at `offset`.

        `breaks` lists the rules that a message breaks, and where, if it is not `rule` alone.
        """
        fault = Fault(rule, offset)
        self._add(
            name,
            data,
            note,
            typed=typed,
            error=fault,
            violations=_violations(breaks or rule, fault) if self.kind == "message" else None,
            profile=profile,
        )

    def refused(
        self,
        name: str,
        data: str,
        rule: str,
        offset: int,
        note: str = "",
        *,
        breaks: str = "",
        limits: dict[str, int] | None = None,
        preference: str = "",
    ) -> None:
        """Add octets that must be refused, for `rule` at `offset`.

        `preference` says why no clause requires that they are.
        """
        fault = Fault(rule, offset)
        self._add(
            name,
            data,
            note,
            error=fault,
            violations=_violations(breaks, fault) if breaks else None,
            limits=limits,
            preference=preference,
        )


def _violations(rules: str, fault: Fault | None = None) -> tuple[tuple[str, str, int], ...]:
    found = []
    for rule in filter(None, rules.split(", ")):
        name, _, severity = rule.partition(" ")
        name, _, place = name.partition("@")
        if not place and fault is not None and fault.rule.startswith(name):
            place = str(fault.offset)
        found.append((name, severity.strip("()") or "error", int(place)))
    return tuple(sorted(found))
