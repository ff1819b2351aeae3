"""What must hold of templates: they give what building the message and encoding it gives."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from fuzz import picks


def check(package: ModuleType, message: Any) -> None:
    """Hold templates to a message that was decoded, with its own values and with each other's.

    Raises:
        AssertionError: a template gives something else.
    """
    expected = fresh(package, message).encode()
    found = dict(picks.held(message))
    if isinstance(message.body, list):
        del found["body"]  # a template writes one section
    for step, first in ((1, 0), (2, 1), (3, 1)):
        paths = [*found][first::step]
        values = [found[path] for path in paths]
        template = message.template(*paths)
        if template.encode(*values) != expected:
            raise AssertionError(f"{paths}: not what encoding the message gives")
        same(package, template, values[1:] + values[:1])


def same(package: ModuleType, template: Any, values: list[Any]) -> None:
    """Hold a template with any values to its message, which may have no encoding.

    Raises:
        AssertionError: they differ, also in the error.
    """
    outcomes: list[Any] = []
    for encode in (template.encode, lambda *values: template.message(*values).encode()):
        try:
            outcomes.append(encode(*values))
        except package.EncodeError as error:
            outcomes.append((error.path, error.reason))
        except TypeError as error:  # a list of sections and of something else
            outcomes.append(str(error))
    if outcomes[0] != outcomes[1]:
        raise AssertionError(f"{template!r}, {values!r:.300}: {outcomes!r:.600}")


def fresh(package: ModuleType, message: Any) -> Any:
    """Return a message of the same sections that was not decoded."""
    return package.Message(
        message.body,
        header=message.header,
        delivery_annotations=message.delivery_annotations,
        message_annotations=message.message_annotations,
        properties=message.properties,
        application_properties=message.application_properties,
        footer=message.footer,
    )
