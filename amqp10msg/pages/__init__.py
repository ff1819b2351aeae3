"""HTML pages: the templates, styles and charts of all pages. Requires ``amqp10msg[pages]``.

A page is a single file; its content security policy forbids loading other files. All values are
escaped, so the content of a message cannot add markup or scripts to a page.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from amqp10msg.provenance import line
from amqp10msg.wire.later import of_extra
from amqp10msg.wire.text import plural, printable

__all__ = ["markup", "render"]

# Matches the characters after which a line may break, unless a space or the end of the text
# follows. "&" is not among them, because it begins an escaped character.
_BREAK_AFTER = re.compile(r"[/@:\]](?=[^\s/])")

#: Templates of reports, which end with the text that `amqp10msg.provenance.line` returns.
_REPORT_TEMPLATES = {
    "validation.html",
    "job.html",
    "bridge.html",
    "migration.html",
    "scoreboard.html",
}
# Style sheets and scripts that are embedded in the pages.
_EMBEDDED_FILES = tuple(
    f"{name}.{kind}" for name in ("page", "scoreboard", "inspector") for kind in ("css", "js")
)


def render(template: str, **values: Any) -> str:
    """Return the HTML page of a template.

    Args:
        template: the name of a file in ``amqp10msg/pages/data``.
        values: the values of the template. Text is escaped, except `markupsafe.Markup`.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    if template in _REPORT_TEMPLATES:
        values.setdefault("made", line())
    page: str = _environment().get_template(template).render(**values)
    return page


def markup(text: str) -> Any:
    """Mark `text` as HTML that pages do not escape. The caller must escape untrusted text in it.

    Raises:
        ImportError: MarkupSafe is not installed; the message names the extra.
    """
    return _import_markupsafe().Markup(text)


def _import_markupsafe() -> Any:
    return of_extra("markupsafe", "pages", "HTML pages need MarkupSafe, which comes with Jinja2")


@cache
def _environment() -> Any:
    """Return Jinja's environment, with the templates, the filters and the embedded files."""
    jinja2 = of_extra("jinja2", "pages", "HTML pages need Jinja2")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read_data_file),
        autoescape=True,
        finalize=_escape_unprintable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in _EMBEDDED_FILES:
        text = _read_data_file(name)
        import base64  # noqa: PLC0415  (only pages need it)
        import hashlib  # noqa: PLC0415  (only pages need it)

        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
        environment.globals[name.replace(".", "_")] = {
            "text": markup(text),
            "hash": f"sha256-{digest}",
        }
    environment.filters["breaking"] = _with_line_breaks
    environment.filters["number"] = "{:,}".format
    environment.filters["plural"] = plural
    return environment


@cache
def _read_data_file(name: str) -> str:
    from importlib import resources  # noqa: PLC0415  (only pages need it)

    return (resources.files("amqp10msg.pages") / "data" / name).read_text(encoding="utf-8")


def _escape_unprintable(value: Any) -> Any:
    """Escape the unprintable characters in a str; return markup and other values unchanged."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value) if is_text else value


def _with_line_breaks(text: Any) -> Any:
    """Return `text` as HTML in which lines may break after ``/``, ``:``, ``@`` and ``]``."""
    if hasattr(text, "__html__"):
        return text  # a chart
    escaped = str(_import_markupsafe().escape(_escape_unprintable(text)))
    return markup(_BREAK_AFTER.sub(r"\g<0><wbr>", escaped))
