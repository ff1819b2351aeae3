"""``amqp10msg demo``: decode, explain, validate and re-encode recorded messages."""

from __future__ import annotations

import importlib.util
import itertools
import json
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import attrs
import click
from rich.console import Console
from rich.text import Text

from amqp10msg import notation
from amqp10msg.app.cli._options import color_option
from amqp10msg.app.cli._output import SEVERITY_COLORS, console, safe, use_color
from amqp10msg.app.cli.pipeline import report_page, show_summary
from amqp10msg.atomic_files import write_whole
from amqp10msg.interop.corpus import Case, demo_messages
from amqp10msg.message import Message
from amqp10msg.sections.parts import scan
from amqp10msg.validation import Violation, validate
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.net.bridge import RouteSpec

_INDENT = "    "
# A file with 0-9-1 messages (content headers and bodies) as publishers sent them to RabbitMQ.
_RECORDED_FILE = "data/recorded.jsonl"
_MAX_WIDTH = 120


@attrs.define
class _Screen:
    """Prints text on standard output in lines of at most `width` characters."""

    colored: bool
    width: int

    def line(self, text: str = "", style: str = "") -> None:
        """Print `text`. Long text is wrapped, and its continuation lines are indented."""
        indent = len(text) - len(text.lstrip())
        screen = console(self.colored, self.width)
        first, *wrapped = Text(text.strip(), style).wrap(screen, self.width - indent) or [Text()]
        continuation: Iterable[Text] = (
            Text(" ").join(wrapped).wrap(screen, self.width - indent - 2) if wrapped else []
        )
        for line, margin in ((first, indent), *((line, indent + 2) for line in continuation)):
            line.rstrip()
            screen.print(" " * margin, line, sep="")

    def cut(self, text: str, suffix: str = "", style: str = "") -> None:
        """Print `text` in `style`, then `suffix`, on one line that is cut at the screen's width."""
        line = Text.assemble((text, style), suffix)
        line.truncate(self.width, overflow="ellipsis")
        console(self.colored, self.width).print(line)

    def heading(self, text: str) -> None:
        self.line()
        self.line(text, "bold")
        self.line()

    def show(self, write: Callable[[Console], None]) -> None:
        """Call `write` with a console, and print its output with a margin on the left."""
        inner = console(self.colored, self.width - len(_INDENT))
        with inner.capture() as captured:
            write(inner)
        for line in captured.get().splitlines():
            click.echo(f"{_INDENT}{line}".rstrip(), color=self.colored)


@click.command()
@click.option("--pipeline", is_flag=True, help="Also run pipeline jobs (requires the extra arrow).")
@click.option(
    "--bridge",
    is_flag=True,
    help="Also bridge AMQP 0-9-1 messages to an AMQP 1.0 server and back.",
)
@color_option
def demo(pipeline: bool, bridge: bool, color: bool | None) -> int:
    """Demonstrate the library on recorded messages.

    The messages were recorded from RabbitMQ, python-qpid-proton and rhea, and are part of the
    library. The demo decodes, explains and validates each message, and encodes it again. The exit
    status is 0 if all encoded (and bridged) messages have unchanged bytes.
    """
    screen = _Screen(use_color(color), min(shutil.get_terminal_size().columns, _MAX_WIDTH))
    cases = demo_messages()
    violations = {case.id: validate(case.data) for case in cases}
    screen.heading("Two messages, byte by byte")
    # Show the valid message with the most sections, and the shortest with several violations.
    sound = [case for case in cases if not violations[case.id]] or cases
    for case in (
        min(sound, key=lambda case: (-len(scan(case.data)), len(case.data))),
        min(cases, key=lambda case: (len(violations[case.id]) < 2, len(case.data))),
    ):
        screen.line(_origin(case))
        screen.line(case.note)
        text = notation.render_text(case.data, color=screen.colored, width=screen.width)
        click.echo(f"\n{text}", color=screen.colored)
    screen.heading(f"{plural(len(cases), 'message')}: decoded, validated, encoded again")
    exact = 0
    for number, case in enumerate(cases, 1):
        exact += _show_message(screen, number, case, violations[case.id])
    _show_damage(screen, cases[0])
    if pipeline:
        _run_pipeline(screen, cases)
    bridged = _run_bridge(screen) if bridge else True
    _print_summary(screen, len(cases), exact, list(itertools.chain(*violations.values())))
    return int(exact < len(cases) or not bridged)


def _origin(case: Case) -> str:
    return case.origin.removeprefix("recorded from ")


def _show_message(screen: _Screen, number: int, case: Case, violations: list[Violation]) -> bool:
    """Show a message, one line per section. Return whether it re-encodes to the same bytes."""
    message = Message.decode(case.data, strict=False)
    size = len(case.data)
    # Also check that an added annotation does not change a byte of the bare message.
    annotated = message.evolve(
        message_annotations={**(message.message_annotations or {}), "x-opt-demo": 1}
    )
    is_unchanged = message.encode() == case.data and annotated.bare == message.bare
    screen.line(f"{number:>2}  {_origin(case)}", "bold")
    if is_unchanged:
        screen.line(f"{_INDENT}{case.note}: {size} bytes in, the same {size} out", "green")
    else:
        screen.line(f"{_INDENT}{case.note}: {size} bytes in, different bytes out", "bold red")
    plain = notation.to_plain(message)
    for name, content in plain.get("sections", plain.items()):
        content_text = safe(json.dumps(content, ensure_ascii=False))
        screen.cut(f"{_INDENT}{name:<24}", content_text, style="cyan")
    for violation in violations:
        mark = "!" if violation.severity == "error" else "?"
        text = f"{mark} {violation.clause}: {violation.text}"
        screen.cut(f"{_INDENT}{safe(text)}", style=SEVERITY_COLORS[violation.severity])
    screen.line()
    return is_unchanged


def _show_damage(screen: _Screen, case: Case) -> None:
    """Show the errors for the bytes of a case after damage: cut off, or with a changed byte."""
    cut = case.data[: len(case.data) * 2 // 3]
    changed = bytearray(case.data)
    changed[0] = 0x3F
    screen.heading("The same bytes, damaged")
    for damage, octets in (
        (f"cut off after byte {len(cut)}", cut),
        ("the first byte changed to 3f", bytes(changed)),
    ):
        try:
            Message.decode(octets)
        except DecodeError as error:
            screen.line(f"{_INDENT}{damage}")
            screen.line(f"{_INDENT}  {error}", SEVERITY_COLORS["error"])
            screen.line(f"{_INDENT}  error condition to send to the peer: {error.condition}")


def _run_pipeline(screen: _Screen, cases: list[Case]) -> None:
    """Run pipeline jobs on the messages, every third of them damaged.

    If an extra is missing, print its name instead.
    """
    screen.heading("The same messages through the pipeline, every third cut off")
    try:
        from amqp10msg import jobs  # needs the extra arrow
    except ModuleNotFoundError as error:
        screen.line(f"{_INDENT}Left out: {error}")
        return
    # Do not delete the folder, so that the user can open the reports in it.
    folder = Path(tempfile.mkdtemp(prefix="amqp10msg-demo-"))
    source, typed = folder / "messages.bin", folder / "typed"
    wires = [case.data[: -1 if number % 3 == 0 else None] for number, case in enumerate(cases, 1)]
    source.write_bytes(b"".join(len(w).to_bytes(4, "big") + w for w in wires))
    _run_job(screen, jobs.Job("decode", profile="oasis"), source, typed)
    screen.line(f"{_INDENT}The first row of typed/quarantine:")
    row = next(jobs.quarantined(typed))
    wire = row.pop("wire")
    for name in ("source", "offset", "error_code", "error_clause", "error_offset", "error_text"):
        screen.cut(f"{_INDENT}  {name:<14}", safe(str(row[name])), style="cyan")
    screen.cut(f"{_INDENT}  {'wire':<14}", f"{len(wire)} bytes: {wire.hex()}", style="cyan")
    screen.line()
    _run_job(screen, jobs.Job("profile"), source, folder / "types")
    if importlib.util.find_spec("pyspark") is not None:
        screen.line(f"{_INDENT}The same job on Spark, on any number of machines:")
        arguments = f"--engine spark --profile oasis {source} {folder / 'by-spark'}"
        screen.line(f"{_INDENT}  {_own_command()} pipeline decode {arguments}", "cyan")


def _run_job(screen: _Screen, job: Any, source: Path, output: Path) -> None:
    """Run a job, and print the command for it and the output of that command."""
    from amqp10msg import jobs  # needs the extra arrow

    rules = f"--profile {job.profile} " if job.profile else ""
    title = f"amqp10msg pipeline {job.kind}"
    screen.line(f"{_INDENT}$ {title} {rules}{source} {output}", "cyan")
    start = time.monotonic()
    stats = jobs.run(source, output, job)
    seconds = time.monotonic() - start
    description = (title, str(source), str(output), seconds, "local", job.profile_title)
    run = jobs.Run(*description, job.skipped_sections)
    page = output / "_report.html"
    write_whole(page, report_page(run, stats, page))
    screen.show(lambda inner: show_summary(inner, run, stats, page))
    screen.line()


def _run_bridge(screen: _Screen) -> bool:
    """Bridge recorded 0-9-1 messages to an AMQP 1.0 server and back, and print the results.

    Returns:
        Whether every message came back byte for byte.
    """
    from amqp10msg.atomic_files import write_whole
    from amqp10msg.net.bridge import dry_report, read_quarantine, report
    from amqp10msg.net.bridge.dry import Checked
    from amqp10msg.net.bridge.management import Queue
    from amqp10msg.net.bridge.process import run_dry
    from amqp10msg.net.serve import Server

    # Do not delete the folder, so that the user can open the reports in it.
    folder = Path(tempfile.mkdtemp(prefix="amqp10msg-demo-"))
    with resources.as_file(resources.files("amqp10msg.net.bridge") / _RECORDED_FILE) as recorded:
        published = [entry.raw for entry in read_quarantine(recorded)]
        count = plural(len(published), "message")
        screen.heading(f"{count} of AMQP 0-9-1, as sent to RabbitMQ, bridged to 1.0 and back")
        source = f"file:{quote(str(recorded))}?protocol=0-9-1"
        with Server(accept_durable=True) as server:
            middle, back = f"{server.url}/orders", folder / "back.jsonl"
            specs = [
                _route_spec("to-1.0", source, middle, len(published)),
                _route_spec(
                    "back", middle, f"file:{quote(str(back))}?protocol=0-9-1", len(published)
                ),
            ]
            counts: dict[str, Any] = {}
            for spec in specs:
                screen.line(
                    f"{_INDENT}$ amqp10msg bridge --from {spec.source} --to {spec.target}", "cyan"
                )
                counts |= _run_route(spec)
                route = counts[spec.name]
                screen.line(
                    f"{_INDENT}  {plural(route.accepted, 'message')} moved, {route.rate:,.0f}/s, "
                    f"{route.quarantined.total():,} quarantined"
                )
        received = Counter[bytes]()
        if back.exists():
            received.update(entry.raw for entry in read_quarantine(back))
        missing = (Counter(published) - received).total()
        is_unchanged_by_bridge = not missing and received.total() == len(published)
        result = (
            "each came back byte for byte"
            if is_unchanged_by_bridge
            else f"{missing:,} came back changed, or not"
        )
        screen.line(
            f"{_INDENT}{result}: property flags, property list, body",
            "green" if is_unchanged_by_bridge else "bold red",
        )
        page = folder / "report.html"
        write_whole(page, report.as_html(specs, counts))
        screen.line(f"{_INDENT}page: {page}")
        screen.line()
        dry = _route_spec("recorded", source, "amqp://rabbitmq-4/orders", None, "rabbitmq-4.3")
        run = run_dry(dry, len(published), 2.0)
    migration_page = folder / "migration.html"
    about = {"source": str(dry.source), "target": str(dry.target), "profile": dry.options.profile}
    checked = [Checked(Queue(dry.name, messages=len(published)), run)]
    write_whole(
        migration_page, dry_report.as_html(checked, title="What a migration would lose", **about)
    )
    screen.line(
        f"{_INDENT}The same messages, translated as RabbitMQ 4.3 does for AMQP 1.0 clients:"
    )
    screen.line(
        f"{_INDENT}  {run.losing:,} of {run.read:,} would lose data, in "
        f"{plural(len(run.losses) + len(run.failures), 'way')}"
    )
    screen.line(f"{_INDENT}page: {migration_page}")
    if importlib.util.find_spec("pika") is None:
        screen.line(f"{_INDENT}Left out: bridging from and to 0-9-1 brokers, which needs pika:")
        screen.line(f"{_INDENT}  pip install 'amqp10msg[bridge]'", "cyan")
    return is_unchanged_by_bridge


def _route_spec(
    name: str, source: str, target: str, count: int | None, profile: str = "lossless"
) -> RouteSpec:
    from amqp10msg.net.bridge import RouteOptions, RouteSpec

    options = RouteOptions(
        profile=profile, max_messages=count, keep_names=profile != "lossless", idle=10.0
    )
    return RouteSpec(source, target, options, name)


def _run_route(spec: RouteSpec) -> dict[str, Any]:
    """Run one route to its end; return {name of the route: statistics}."""
    from amqp10msg.net.bridge.process import run_bridge

    quiet = logging.Logger("amqp10msg.demo", logging.ERROR)  # noqa: LOG001  (no global state)
    _, counts, fault = run_bridge([spec], logger=quiet)
    if fault is not None:
        raise fault
    return counts


def _print_summary(
    screen: _Screen, message_count: int, unchanged_count: int, violations: list[Violation]
) -> None:
    """Print the counts, and commands to try next."""
    screen.line()
    is_all_unchanged = unchanged_count == message_count
    errors = sum(violation.severity == "error" for violation in violations)
    result = (
        "all encoded again byte for byte"
        if is_all_unchanged
        else f"{unchanged_count} encoded again byte for byte"
    )
    text = (
        f"{plural(message_count, 'message')}, {result}; violations found: "
        f"{plural(errors, 'error')}, {plural(len(violations) - errors, 'warning')}"
    )
    screen.line(text, f"bold {'green' if is_all_unchanged else 'red'}")
    screen.line()
    screen.line("Next:")
    octets = Message("hello").encode().hex()
    me = _own_command()
    for arguments, purpose in (
        (f"inspect {octets}", "explain a message"),
        ('encode \'{"body": "hello"}\'', "create a message"),
        ("validate FOLDER --report report.html", "validate many messages"),
        ("--help", "list all commands"),
    ):
        screen.line(f"{_INDENT}{f'{me} {arguments}':<{len(me) + 40}}{purpose}")


def _own_command() -> str:
    """Return the shortest command that starts amqp10msg from the current folder."""
    if shutil.which("amqp10msg"):
        return "amqp10msg"
    script = Path(sys.executable).with_name("amqp10msg")
    if not script.exists():
        return "python -m amqp10msg"
    return str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script)
