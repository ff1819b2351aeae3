"""Classes of attrs that the compiled kernel makes when they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from amqp10msg._memory import Fresh, quicken

__all__ = ["leaves", "quickened"]

T = TypeVar("T")

_LEFT: dict[Any, tuple[type, ...]] = {}


def leaves(converter: Callable[..., Any], *kinds: type) -> None:
    """Say of a converter whose instances it gives back as they are, so that it need not be called.

    Args:
        converter: of attributes.
        kinds: these very types, not their subclasses.
    """
    _LEFT[converter] = kinds


def quickened(cls: type[T]) -> type[T]:
    """Make a class with slots answer its calls in C, where the kernel is compiled.

    Nothing else changes: what its __init__ would do with other arguments, it still does.

    Args:
        cls: a class of attrs whose __init__ only converts and sets.
    """
    attributes: Any = attrs.fields(cls)  # type: ignore[arg-type]  # of attrs, as promised
    fields = sorted(attributes, key=lambda field: (not field.init, field.kw_only))
    plain = all(
        field.validator is None
        and field.alias == field.name
        and not isinstance(field.converter, attrs.Converter)
        for field in fields
        if field.init
    )
    if plain and not any(hasattr(cls, f"__attrs_{when}_init__") for when in ("pre", "post")):
        quicken(
            cls,
            [field.name for field in fields],
            sum(field.init and not field.kw_only for field in fields),
            sum(field.init for field in fields),
            [_default(field) for field in fields],
            [_LEFT.get(field.converter, ()) for field in fields],
            [field.converter for field in fields],
        )
    return cls


def _default(field: Any) -> Any:
    """Give a field's default, what makes it, or NotImplemented where the call must be complete."""
    default = field.default
    # The ignore: attrs types its Factory as the function that it is called like.
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return NotImplemented if default.takes_self else Fresh(default.factory)
    return NotImplemented if default is attrs.NOTHING else default
