"""One message or run of values, and its views: what ``inspect`` shows."""

from __future__ import annotations

import click

from amqp10msg import notation
from amqp10msg.app.cli._output import SEVERITY_COLORS, json_text, plural, safe
from amqp10msg.app.inspector.judging import Judged


class Shown(Judged):
    """One message or run of values, and its views."""

    def title(self, *, first: bool, colored: bool) -> str:
        """Return the heading of a message, where there are several."""
        title = safe(self.item.source)
        return (
            ("" if first else "\n") + (click.style(title, bold=True) if colored else title) + "\n"
        )

    def text(self, colored: bool, width: int | None) -> str:
        """Return the annotated tree and, in a last line, the verdict."""
        text = notation.render_text(self.tree(), color=colored, width=width)
        return f"{text}\n{self.verdict(colored)}\n"

    def verdict(self, colored: bool) -> str:
        """Return one line: the size, and the rules that are broken."""
        size = plural(len(self.item.data), "byte")
        if self.what:
            size = f"{size}: {self.what}"
        elif self.fault or not self.is_message:
            what = "not all of it can be read" if self.fault else plural(len(self.decoded), "value")
            return f"{size}, {what}"
        parts = []
        for severity, color in SEVERITY_COLORS.items():
            found = [violation for violation in self.violations if violation.severity == severity]
            if found:
                text = plural(len(found), severity)
                names = ", ".join(dict.fromkeys(violation.rule for violation in found))
                parts.append(f"{click.style(text, fg=color) if colored else text} ({names})")
        return f"{size}; {', '.join(parts) or 'no violations'}"

    def svg(self) -> str:
        return notation.render_svg(self.tree(), title=safe(self.item.source))

    def json(self, view: str) -> str:
        write = notation.to_plain if view == "json" else notation.to_typed
        return "".join(json_text(write(value), indent=2) + "\n" for value in self.decoded)


def page(pages: list[Shown]) -> str:
    """Return the HTML page of messages."""
    sources = [safe(shown.item.source) for shown in pages]
    title = sources[0] if len(pages) == 1 else plural(len(pages), "message")
    return notation.render_html([shown.tree() for shown in pages], title=title, labels=sources)
