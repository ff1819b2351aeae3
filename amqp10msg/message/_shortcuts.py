"""Fields of header and properties, read from the message itself: `Shortcut`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, overload

import attrs

from amqp10msg.sections import Header, Properties

if TYPE_CHECKING:
    from amqp10msg.message import Message

T = TypeVar("T")
_SECTIONS = {
    field.name: (section, cls)
    for section, cls in (("header", Header), ("properties", Properties))
    for field in attrs.fields(cls)
}
#: The types of ids.
Identifier = int | uuid.UUID | bytes | str


class Shortcut(Generic[T]):
    """A field of the header or the properties, as a read-only attribute of the message.

    It is None where the section is absent, and where the field is.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        """Find the section that declares a field of this name."""
        self.name = name
        self.section, _ = _SECTIONS[name]
        self.__doc__ = f"``{self.section}.{name}``, None where it is absent."

    @overload
    def __get__(self, message: None, owner: type) -> Self: ...

    @overload
    def __get__(self, message: Message, owner: type) -> T | None: ...

    def __get__(self, message: Message | None, owner: type) -> Self | T | None:
        """Return the value of the field."""
        if message is None:
            return self
        # What a lenient decoding found in its place may have no such field.
        found: T | None = getattr(getattr(message, self.section), self.name, None)
        return found

    if not TYPE_CHECKING:  # to which an attribute that can be set is one that may be

        def __set__(self, message: Message, value: Any) -> NoReturn:
            """Say where to set it."""
            raise AttributeError(
                f"message.{self.name} can only be read: set message.{self.section}.{self.name}, or "
                f"where the message has no {self.section}, "
                f"message.{self.section} = {call_of(_SECTIONS[self.name][1], {self.name: value})}"
            )


def call_of(cls: type, values: dict[str, Any]) -> str:
    """Return how an object is made of these values, for people."""
    return f"{cls.__name__}({', '.join(f'{name}={value!r:.40}' for name, value in values.items())})"


def unknown_arguments(known: Iterable[str], unknown: dict[str, Any]) -> TypeError:
    """Return the error for arguments that `Message` does not take, and what to write instead."""
    name, value = next(iter(unknown.items()))
    if name in _SECTIONS:
        section, cls = _SECTIONS[name]
        how = f"write {section}={call_of(cls, {name: value})}"
    else:
        from difflib import get_close_matches  # noqa: PLC0415  (of this error alone)

        meant = get_close_matches(name, [*known, *_SECTIONS], 1, 0.7)
        how = f"did you mean {meant[0]}?" if meant else f"it takes {', '.join(known)}"
    return TypeError(f"a Message takes no {name}: {how}")


def wrong_section(name: str, cls: type, given: Any) -> TypeError:
    """Return the error for a header or properties that are none, and what to write instead."""
    how = ""
    if isinstance(given, dict) and given:
        fits = all(_SECTIONS.get(key, ("",))[0] == name for key in given)
        how = f"{name}={call_of(cls, given)}" if fits else f"application_properties={given!r:.60}"
        how = f": write {how}"
    return TypeError(f"{name} takes {cls.__name__}, not {type(given).__name__}{how}")
