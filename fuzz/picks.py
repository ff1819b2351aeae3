"""What must hold of picks: they give what decoding gives, and judge the rest as `scan` does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from types import ModuleType
from typing import Any

from fuzz.builds import alike

#: What is picked of bytes that are no message: something in every section.
FIXED = (
    *("header.ttl", "header.priority", "properties.message_id", "properties.creation_time"),
    *("application_properties.tenant", "message_annotations['x-opt-trace']"),
    *("delivery_annotations[5]", "footer.sum", "body"),
)
_WHOLE = ("header", "delivery_annotations", "message_annotations", "properties")
_LAST = ("application_properties", "footer", "body")


def held(message: Any) -> Iterator[tuple[str, Any]]:
    """List the fields and entries of a message that was decoded, each with its path."""
    for name in ("header", "properties"):
        section = getattr(message, name)
        if section is not None:
            for field in type(section).__attrs_attrs__:
                yield f"{name}.{field.name}", getattr(section, field.name)
    for name in (
        *("delivery_annotations", "message_annotations", "application_properties", "footer"),
    ):
        for key, value in (getattr(message, name) or {}).items():
            # `int` for a key that is a ulong, as its repr is a call.
            yield f"{name}[{int(key) if isinstance(key, int) else str(key)!r}]", value
    yield "body", body_of(message)


def body_of(message: Any) -> Any:
    """Return what a pick of the body gives, by what is said of it."""
    body = message.body
    if not isinstance(body, list):
        return message.value
    if hasattr(body[0], "data"):
        return message.body_bytes()
    return [*chain.from_iterable(part.values for part in body)]


@lru_cache(maxsize=256)
def picker(package: ModuleType, paths: tuple[str, ...]) -> Any:
    """Make a picker of one build."""
    return package.Picker(*paths)


def check(package: ModuleType, octets: bytes, message: Any) -> None:
    """Hold picks to a message that these bytes decode to, or to none.

    Raises:
        AssertionError: a pick differs.
    """
    decode_error = package.DecodeError
    try:
        package.scan(octets)
        is_sound = True
    except decode_error as error:
        # That there are too many sections is no fault to those who keep none of them.
        is_sound = error.rule == "items-limit"
    try:
        picker(package, ())(octets)
        is_passed_over = True
    except decode_error:
        is_passed_over = False
    if is_sound is not is_passed_over:
        raise AssertionError("a pick of nothing and scan judge differently")
    if message is None:
        several: tuple[tuple[str, ...], ...] = (FIXED, (*_WHOLE, *_LAST))
        for paths in several:
            try:
                picker(package, paths)(octets)
            except decode_error:
                continue
            if not is_sound:
                raise AssertionError("scan raises, and a pick does not")
        return
    found = dict(held(message))
    for paths in (
        tuple(found),
        tuple(path for i, path in enumerate(found) if i % 3 == 1),
        tuple(path for i, path in enumerate(reversed(found)) if i % 5 == 2),
    ):
        picked = picker(package, paths)(octets)
        for path, value in zip(paths, picked, strict=True):
            if not alike(value, found[path]):
                raise AssertionError(f"{path}: {value!r:.300} and {found[path]!r:.300}")
    whole = picker(package, _WHOLE)(octets)
    for name, section in zip(_WHOLE, whole, strict=True):
        if not alike(section, getattr(message, name)):
            raise AssertionError(f"{name}: {section!r:.300}")
