"""Directives that draw the reference tables from the package's own tables, so none goes stale.

Each function gives Markdown; each directive of the same name, in dashes, parses it in place.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, ClassVar

import attrs
import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from amqp10msg.app.cli import main
from amqp10msg.brokers import RABBITMQ
from amqp10msg.composite import COMPOSITES, Composite, Field
from amqp10msg.delivery import TERMINUS_NOT_VISIBLE, TERMINUS_RULES
from amqp10msg.delivery.filters import DIALECTS
from amqp10msg.files import FORMATS
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.options import options_of, shown_default
from amqp10msg.sections import KINDS
from amqp10msg.translate import PROFILES as TRANSLATIONS
from amqp10msg.translate.correspondence import Row, to_amqp10_rows, to_basic_rows
from amqp10msg.translate.settlement import REPLY_CODES
from amqp10msg.translate.table import ROWS as TRANSLATION_ROWS
from amqp10msg.validation import NOT_VISIBLE, PROFILES, RULES, Obligation
from amqp10msg.wire.primitives import FORMAT_CODES

# Archetypes that a value of more than one type provides.
OPEN = {"address", "message-id"}


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """Give a Markdown table, pipes in cells escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


def code(text: object) -> str:
    """Set text in code, or give nothing for nothing."""
    return f"`{text}`" if text not in (None, "") else ""


def format_codes() -> str:
    """Every constructor of Part 1, 1.6."""
    return table(
        ("Code", "Type", "Encoding", "Category", "Width"),
        (
            (code(f"0x{row.code:02X}"), row.type, row.encoding, row.category, row.width)
            for row in FORMAT_CODES.values()
        ),
    )


def sections() -> str:
    """The kinds of section, in the order of a message."""
    return table(
        ("Section", "Class", "Descriptor", "Content", "Where", "Clause"),
        (
            (
                kind.name + (" (repeatable)" if kind.repeatable else ""),
                f"{{class}}`{kind.cls.__name__} <{kind.cls.__module__}.{kind.cls.__name__}>`",
                f"{code(f'0x{kind.code:02X}')} {code(kind.symbol)}",
                "any value" if kind.source == "*" else kind.source,
                "bare message" if kind.bare else "around it",
                kind.clause,
            )
            for kind in KINDS
        ),
    ).replace("{class}", "{py:class}")


def default_of(field: Field) -> str:
    """Say what null means in a field."""
    if field.mandatory:
        return "**mandatory**"
    default = field.default
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return code(str(default).lower())
    if isinstance(default, Enum):
        return code(default.value)
    return code(default)


def type_of(field: Field) -> str:
    """Name a field's type, with its archetype and its choices."""
    if field.type == "*":
        name = f"{field.requires} (any type)" if field.requires in OPEN else field.requires or "any"
    elif field.restricted:
        name = f"{field.restricted} ({field.type})"
        if field.size is not None:
            name += f" of up to {field.size} bytes"
    else:
        name = field.type
    if field.enum is not None:
        name += ": " + ", ".join(f"{choice.value}" for choice in field.enum)
    return name + (", multiple" if field.multiple else "")


def fields(entry: Composite) -> str:
    """The rows of one composite."""
    if not entry.fields:
        return "No fields.\n"
    return table(
        ("Field", "Attribute", "Type", "Default"),
        (
            (field.wire_name, code(field.name), type_of(field), default_of(field))
            for field in entry.fields
        ),
    )


def composites() -> str:
    """Every registered composite with its rows, in the order of the descriptors."""
    entries = sorted({id(e): e for e in COMPOSITES.values()}.values(), key=lambda e: e.code)
    return "\n".join(
        f"## {entry.name}\n\n"
        f"{{py:class}}`{entry.cls.__name__} <{entry.cls.__module__}.{entry.cls.__name__}>`, "
        f"{code(f'0x{entry.code:02X}')} {code(entry.symbol)}"
        + (f"; provides {', '.join(entry.provides)}" if entry.provides else "")
        + f"\n\n{fields(entry)}"
        for entry in entries
    )


def rules() -> str:
    """Every rule of the validator, and what each profile makes of it."""
    return table(
        ("Rule", "Clause", "What must be", "Decoding", *PROFILES),
        (
            (
                code(rule.id),
                rule.clause,
                rule.text,
                "refused (encodings)" if rule.about_encoding else "refused" if rule.refused else "",
                *(profile.severities.get(rule.id, "") for profile in PROFILES.values()),
            )
            for rule in RULES.values()
        ),
    )


def profiles() -> str:
    """The profiles and whose view they are."""
    return table(
        ("Profile", "Whose view"),
        ((code(profile.name), profile.description) for profile in PROFILES.values()),
    )


def obligations(rows: Iterable[Obligation] = NOT_VISIBLE) -> str:
    """What the specification demands and no encoded message shows."""
    return table(
        ("Clause", "The specification", "Why there is no rule"),
        ((row.clause, row.quote, row.reason) for row in rows),
    )


def terminus_rules() -> str:
    """Every rule for sources, targets and what belongs to transactions."""
    return table(
        ("Rule", "Clause", "Of", "What must be", "Severity", "Needs", "Decoding"),
        (
            (
                code(rule.id),
                rule.clause,
                ", ".join(rule.types),
                rule.text,
                rule.severity,
                ", ".join(map(code, rule.needs)),
                "refused" if rule.refused else "",
            )
            for rule in TERMINUS_RULES.values()
        ),
    )


def to_amqp10_table() -> str:
    """What each property of class basic becomes, by profile."""
    return _by_profile("Class basic of 0-9-1", to_amqp10_rows)


def to_basic_table() -> str:
    """What each part of a 1.0 message becomes, by profile."""
    return _by_profile("AMQP 1.0", to_basic_rows)


def _by_profile(head: str, rows_of: Callable[[str], list[Row]]) -> str:
    # Streams differ in their offset and in odd cases; the page says so.
    names = [name for name in TRANSLATIONS if not name.endswith("-stream")]
    columns = [rows_of(name) for name in names]
    lines = (
        (cells[0].label, *(cell.becomes.replace("\\|", "|") for cell in cells))
        for cells in zip(*columns, strict=True)
    )
    return table((head, *names), lines)


def correspondence() -> str:
    """The rows of the lossless profile."""
    return table(
        ("Number", "Property", "Field", "Annotation", "How"),
        (
            (
                row.number,
                code(row.name.replace("_", "-")),
                code(f"{row.section}.{row.field.replace('_', '-')}" if row.section else ""),
                code(row.annotation),
                row.note,
            )
            for row in TRANSLATION_ROWS
        ),
    )


def terminus_obligations() -> str:
    """What the specification demands and no source or target shows."""
    return obligations(TERMINUS_NOT_VISIBLE)


def translation_profiles() -> str:
    """The profiles of the translator."""
    return table(
        ("Profile", "Promise"),
        ((code(row.name), row.description) for row in TRANSLATIONS.values()),
    )


def rabbitmq_names() -> str:
    """The series of RabbitMQ, and what each one's name stands for."""
    return table(
        ("Name", "Streams", "Translates as", "Rules", "Dialect of filters", "How that is known"),
        (
            (
                code(name := f"rabbitmq-{one.name}"),
                code(f"{name}-stream" if one.has_streams else ""),
                code(TRANSLATIONS[name].name),
                code(PROFILES[name].name),
                code(DIALECTS[name] if one.has_sql else ""),
                one.basis,
            )
            for one in RABBITMQ.values()
        ),
    )


def reply_codes() -> str:
    """Reply codes of 0-9-1 and conditions of 1.0."""
    return table(
        ("Reply code", "Name", "Condition", "Ends"),
        ((row.code, row.name, code(row.condition), row.closes) for row in REPLY_CODES.values()),
    )


def contexts(
    command: click.Command = main, parent: click.Context | None = None, name: str = "amqp10msg"
) -> Iterator[click.Context]:
    """Every command of the CLI in its context, parents first."""
    # With its settings, such as -h: click keeps the option for help that it made first.
    settings = {**command.context_settings, "max_content_width": 88}
    context = click.Context(command, parent, info_name=name, **settings)
    yield context
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            if child is not None and not child.hidden:
                yield from contexts(child, context, child_name)


def tree() -> Iterator[tuple[str, click.Command]]:
    """Every command with its path, such as ``amqp10msg validate``."""
    return ((context.command_path, context.command) for context in contexts())


def commands() -> Iterator[tuple[str, str]]:
    """Every command's path with the text of its --help."""
    return ((context.command_path, context.get_help()) for context in contexts())


def escaped(text: str) -> str:
    """Plain text as Markdown that shows it unchanged, with the names of options as code."""
    parts = re.split(r"((?<![\w-])--[a-z][\w-]*)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\`*_{}\[\]<>#@|~$:'\"-])", r"\\\1", parts[i])
    parts[1::2] = map(code, parts[1::2])
    return "".join(parts)


def help_paragraphs(text: str) -> str:
    """The text of a click help as Markdown; paragraphs that click does not wrap become blocks."""
    paragraphs = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            paragraphs.append(f"```text\n{paragraph[2:]}\n```")
        else:
            paragraphs.append(escaped(" ".join(paragraph.split())))
    return "\n\n".join(paragraphs)


def examples_of(epilog: str) -> str:
    """The examples of an epilog as a console block."""
    lines = [line.removeprefix("  ") for line in epilog.strip().splitlines() if line != "\b"]
    shown = [
        line if line.startswith(("$", " ", "#")) else f"$ {line}"
        for line in lines
        if line.strip() not in ("", "Examples:", "Example:")
    ]
    return "```console\n" + "\n".join(shown) + "\n```"


def command_page(name: str) -> str:
    """A command, or all commands of a group: usage, help, options with anchors, and examples."""
    parts = []
    for context in contexts():
        path = context.command_path
        if path != f"amqp10msg {name}" and not path.startswith(f"amqp10msg {name} "):
            continue
        if path != f"amqp10msg {name}":
            parts.append(f"## {path.removeprefix('amqp10msg ')}")
        command = context.command
        if isinstance(command, click.Group):
            parts.append("## Usage")  # docutils would put text without a heading after the sections
        usage = command.get_usage(context).removeprefix("Usage: ")
        parts += [f"```text\n{usage}\n```", help_paragraphs(command.help or "")]
        parts.append(f"```{{program}} {path}\n```")
        for parameter in command.get_params(context):
            option, text = parameter.get_help_record(context) or ("", "")
            if text and "--help" not in parameter.opts:
                parts.append(f"```{{option}} {option}\n{escaped(' '.join(text.split()))}\n```")
        if command.epilog:
            parts += ["Examples:", examples_of(command.epilog)]
    return "\n\n".join(parts)


def route_options() -> str:
    """The keys of a route in a file."""
    return table(
        ("Key", "Default", "What it is"),
        (
            (
                code(field.name.replace("_", "-")),
                code(shown_default(field, attrs.evolve(how, default=None))),
                how.help,
            )
            for field, how in options_of(RouteOptions)
        ),
    )


def file_formats() -> str:
    """The formats of files that the library reads."""
    return table(
        ("Format", "Content", "Suffixes", "Ranges are read in parallel"),
        (
            (
                code(name),
                item.description,
                ", ".join(map(code, item.suffixes)),
                "yes" if item.find_ranges or item.needs_random_access else "",
            )
            for name, item in FORMATS.items()
        ),
    )


class Generated(SphinxDirective):
    """Parses what `source` gives as if it stood in the page."""

    source: ClassVar[Callable[[], str]]

    def run(self) -> list[nodes.Node]:
        """Give the nodes of the generated Markdown."""
        return self.parse_text_to_nodes(type(self).source(), allow_section_headings=True)


class CommandPage(SphinxDirective):
    """Describes the command that the argument names, such as ``pipeline``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Give the nodes of the generated Markdown."""
        text = command_page(self.arguments[0])
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def literal_blocks(*event: Any) -> None:
    """Set what is indented in a docstring as code: without ``::`` it would be a quotation."""
    lines: list[str] = event[-1]
    for i in range(len(lines) - 1, 1, -1):
        before = lines[i - 2]
        if (
            lines[i].startswith("    ")
            and not lines[i].lstrip().startswith(">>>")
            and not lines[i - 1].strip()
            and before.strip()
            and not before.startswith(" ")
            and not before.endswith("::")
        ):
            lines[i:i] = ["::", ""]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register a directive for each table."""
    for function in (
        format_codes,
        sections,
        composites,
        rules,
        profiles,
        obligations,
        terminus_rules,
        terminus_obligations,
        correspondence,
        to_amqp10_table,
        to_basic_table,
        translation_profiles,
        rabbitmq_names,
        reply_codes,
        route_options,
        file_formats,
    ):
        name = function.__name__.replace("_", "-")
        app.add_directive(
            name, type(name, (Generated,), {"source": staticmethod(function)}), override=False
        )
    app.add_directive("command-page", CommandPage)
    # Before napoleon, which would indent the code along with a section that it is in.
    app.connect("autodoc-process-docstring", literal_blocks, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
