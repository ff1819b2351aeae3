"""The demonstration's bridge: recorded messages of 0-9-1 into a server of 1.0, and back."""

from __future__ import annotations

import importlib.util
import logging
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from amqp10msg.app.cli._output import plural

if TYPE_CHECKING:
    from amqp10msg.net.bridge import RouteSpec

_INDENT = "    "
#: Recorded from RabbitMQ: what a publisher of 0-9-1 sent, property by property.
_RECORDED = "data/recorded.jsonl"


def show_bridge(line: Callable[..., None], heading: Callable[[str], None]) -> bool:
    """Bridge the recorded messages, and show it.

    Args:
        line: prints a line, in a style.
        heading: prints a heading.

    Returns:
        Whether each message came back byte for byte.
    """
    from amqp10msg.files.atomic import write_whole
    from amqp10msg.net.bridge import dry_report, read_quarantine, report
    from amqp10msg.net.bridge.bridge import run_dry
    from amqp10msg.net.bridge.dry import Checked, Queue
    from amqp10msg.net.serve import Server

    folder = Path(tempfile.mkdtemp(prefix="amqp10msg-demo-"))  # it stays: the pages are in it
    with resources.as_file(resources.files("amqp10msg.net.bridge") / _RECORDED) as recorded:
        sent = [entry.raw for entry in read_quarantine(recorded)]
        count = plural(len(sent), "message")
        heading(f"{count} of AMQP 0-9-1, as they were sent to RabbitMQ, bridged to 1.0 and back")
        source = f"file:{quote(str(recorded))}?protocol=0-9-1"
        with Server(accept_durable=True) as server:
            middle, back = f"{server.url}/orders", folder / "back.jsonl"
            specs = [
                _route("there", source, middle, len(sent)),
                _route("back", middle, f"file:{quote(str(back))}?protocol=0-9-1", len(sent)),
            ]
            counts: dict[str, Any] = {}
            for spec in specs:
                line(f"{_INDENT}$ amqp10msg bridge --from {spec.source} --to {spec.target}", "cyan")
                counts |= _run(spec)
                found = counts[spec.name]
                line(
                    f"{_INDENT}  {found.accepted:,} taken, {found.rate:,.0f}/s, "
                    f"{found.quarantined.total():,} in quarantine"
                )
        came = Counter(entry.raw for entry in read_quarantine(back)) if back.exists() else Counter()
        lost = (Counter(sent) - came).total()
        good = not lost and came.total() == len(sent)
        said = "each came back byte for byte" if good else f"{lost:,} came back otherwise, or not"
        line(
            f"{_INDENT}{said}: property flags, property list, body", "green" if good else "bold red"
        )
        page = folder / "report.html"
        write_whole(page, report.as_html(specs, counts))
        line(f"{_INDENT}page: {page}")
        line()
        dry = _route("recorded", source, "amqp://rabbitmq-4/orders", None, "rabbitmq-4.3")
        run = run_dry(dry, len(sent), 2.0)
    meeting = folder / "migration.html"
    about = {"source": str(dry.source), "target": str(dry.target), "profile": run.profile}
    checked = [Checked(Queue(dry.name, messages=len(sent)), run)]
    write_whole(meeting, dry_report.as_html(checked, title="What a migration would lose", **about))
    line(f"{_INDENT}The same messages as RabbitMQ 4.3 would give them to a client of 1.0:")
    line(
        f"{_INDENT}  {run.exact:,} lose nothing, {run.losing:,} lose something, in "
        f"{plural(len(run.losses) + len(run.failures), 'way')}"
    )
    line(f"{_INDENT}page: {meeting}")
    if importlib.util.find_spec("pika") is None:
        line(f"{_INDENT}Left out: brokers of 0-9-1, for which a bridge needs pika:")
        line(f"{_INDENT}  pip install 'amqp10msg[bridge]'", "cyan")
    return good


def _route(
    name: str, source: str, target: str, count: int | None, profile: str = "lossless"
) -> RouteSpec:
    from amqp10msg.net.bridge import RouteOptions, RouteSpec

    options = RouteOptions(
        profile=profile, max_messages=count, keep_names=profile != "lossless", idle=10.0
    )
    return RouteSpec(source, target, options, name)


def _run(spec: RouteSpec) -> dict[str, Any]:
    from amqp10msg.net.bridge.bridge import run_bridge

    quiet = logging.Logger("amqp10msg.demo", logging.ERROR)  # noqa: LOG001  (no global state)
    counts, fault = run_bridge([spec], logger=quiet)
    if fault is not None:
        raise fault
    return counts
