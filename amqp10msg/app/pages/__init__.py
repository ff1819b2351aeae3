"""HTML pages: the one frame, stylesheet and set of charts of everything shown in a browser.

A page is one file that refers to no other, and its policy forbids it to load one. What stands in a
message can become part of its text alone: every value is escaped. Needs ``amqp10msg[pages]``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from amqp10msg.app.made import line
from amqp10msg.wire.later import of_extra
from amqp10msg.wire.text import plural, printable

__all__ = ["markup", "render"]

# After these, unless a space or the end of the text follows. "&" would part an escaped character.
_BREAKS = re.compile(r"[/@:\]](?=[^\s/])")

#: Pages that tell what was done; they end with a line about when and by what.
_REPORTS = {"validation.html", "job.html", "bridge.html", "migration.html", "scoreboard.html"}
# Embedded in the pages themselves.
_INLINE = tuple(
    f"{name}.{kind}" for name in ("page", "scoreboard", "inspector") for kind in ("css", "js")
)


def render(template: str, **values: Any) -> str:
    """Return the page that a template makes of these values.

    Args:
        template: the name of a file in ``amqp10msg/app/pages/data``.
        values: what the template shows. Text is escaped, except `markupsafe.Markup`.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    if template in _REPORTS:
        values.setdefault("made", line())
    page: str = _environment().get_template(template).render(**values)
    return page


def markup(text: str) -> Any:
    """Return `text` as HTML that a page inserts as it is; the caller has escaped what is foreign.

    Raises:
        ImportError: MarkupSafe is not installed; the message names the extra.
    """
    return _markupsafe().Markup(text)


def _markupsafe() -> Any:
    return of_extra("markupsafe", "pages", "HTML pages need MarkupSafe, which comes with Jinja2")


@cache
def _environment() -> Any:
    jinja2 = of_extra("jinja2", "pages", "HTML pages need Jinja2")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        finalize=_final,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in _INLINE:
        text = _asset(name)
        import base64  # noqa: PLC0415  (texts for a terminal need no more than `printable`)
        import hashlib  # noqa: PLC0415  (see above)

        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
        environment.globals[name.replace(".", "_")] = {
            "text": markup(text),
            "hash": f"sha256-{digest}",
        }
    environment.filters["breaking"] = _breaking
    environment.filters["number"] = "{:,}".format
    environment.filters["plural"] = plural
    return environment


@cache
def _asset(name: str) -> str:
    from importlib import resources  # noqa: PLC0415  (see above)

    return (resources.files("amqp10msg.app.pages") / "data" / name).read_text(encoding="utf-8")


def _final(value: Any) -> Any:
    """Return a value as a page shows it: a text with what cannot be shown escaped."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value) if is_text else value


def _breaking(text: Any) -> Any:
    """Let a line break in a path, after a slash, a colon or an at sign."""
    if hasattr(text, "__html__"):
        return text  # a chart
    shown = str(_markupsafe().escape(_final(text)))
    return markup(_BREAKS.sub(r"\g<0><wbr>", shown))
