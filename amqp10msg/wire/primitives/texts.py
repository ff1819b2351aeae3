"""The char and the symbol of Part 1."""

from __future__ import annotations

from typing import Self

from amqp10msg.wire.errors import wrong_type


class Char(str):
    """An AMQP char: one Unicode code point that is not a surrogate."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        """Take one code point; ValueError for more, none or a surrogate, TypeError for no str."""
        if not isinstance(value, str):
            raise wrong_type("Char", "a str", value)
        self = str.__new__(cls, value)
        if len(self) != 1 or "\ud800" <= self <= "\udfff":
            raise ValueError(f"a char must be one Unicode scalar value, not {value!r}")
        return self

    def __repr__(self) -> str:
        return f"Char({str.__repr__(self)})"


class Symbol(str):
    """An AMQP symbol: a name from a constrained domain, in ASCII. Equal to the str of its text."""

    __slots__ = ()

    def __new__(cls, value: str = "") -> Self:
        """Take ASCII text; ValueError for any other, TypeError for what is not a str."""
        if not isinstance(value, str):
            raise wrong_type("Symbol", "a str", value)
        self = str.__new__(cls, value)
        if not self.isascii():
            raise ValueError(f"a symbol must be ASCII, not {value!r}")
        return self

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"
