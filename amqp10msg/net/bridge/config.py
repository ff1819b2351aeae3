"""Routes from a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.net.bridge.bridge import RouteSpec
from amqp10msg.net.bridge.matching import matcher
from amqp10msg.net.bridge.options import RouteOptions

#: What a file can say of a route; hooks are for the API.
_KEYS = {field.name for field in attrs.fields(RouteOptions)} - {"change", "match"}
_KEYS |= {"filter", "filter_language"}


def read_routes(path: Path) -> list[RouteSpec]:
    """Read the routes of a file: tables ``[[route]]`` with ``from``, ``to``, ``name`` and options.

    The options are those of `RouteOptions`, with a hyphen or an underscore in their names; a table
    ``[defaults]`` has those that all routes share. ``filter`` is a text in the ``filter-language``,
    a name of `amqp10msg.delivery.filters.LANGUAGES`. Relative paths start at the file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not valid; the message says which route, and shows no URL.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from None
    defaults, routes = found.pop("defaults", {}), found.pop("route", [])
    if found or not isinstance(routes, list) or not routes or not isinstance(defaults, dict):
        wrong = f"it has {min(found)!r}" if found else "it has none"
        raise ValueError(f"{path}: a file of routes has [[route]] and [defaults], and {wrong}")
    made = []
    for number, route in enumerate(routes, 1):
        name = route.pop("name", "")
        try:
            given = {**defaults, **route}
            source, target = given.pop("from"), given.pop("to")
            options = _options(given, path.parent)
            made.append(RouteSpec(source, target, options, name))
        except KeyError as error:
            raise ValueError(f"{path}: route {name or number} has no {error}") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: route {name or number}: {error}") from None
    return made


def _options(given: dict[str, Any], folder: Path) -> RouteOptions:
    options = {key.replace("-", "_"): value for key, value in given.items()}
    unknown = options.keys() - _KEYS
    if unknown:
        raise ValueError(
            f"{min(unknown)!r} is not an option: use one of {', '.join(sorted(_KEYS))}"
        )
    text, language = options.pop("filter", None), options.pop("filter_language", "selector")
    if text is not None:
        options["match"] = matcher(text, language)
    for key in ("quarantine", "deduplicate", "state"):
        if key in options:
            options[key] = folder / options[key]
    return RouteOptions(**options)
