"""``amqp10msg bridge``: messages of brokers moved live, 0-9-1 and 1.0 at either end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._bridging import (
    accept_quarantine_option,
    check_extra,
    check_reports,
    hide_credentials,
    lacking,
    reports_option,
    show_dry,
    told,
    write_dry,
    write_reports,
)
from amqp10msg.app.cli._live import LiveLine, events_logger, log_option, show_counts
from amqp10msg.app.cli._options import declared_options, given_of
from amqp10msg.app.cli._output import complain, is_terminal, safe
from amqp10msg.net.options import RouteOptions

if TYPE_CHECKING:
    from amqp10msg.net.bridge import RouteSpec


def _address(_context: click.Context, _option: click.Parameter, given: str | None) -> Any:
    if given is None:
        return None
    host, colon, port = given.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{given!r} is not HOST:PORT.")
    return host.strip("[]") or "127.0.0.1", int(port)


@click.command(
    short_help="Move messages from one broker to another, and lose none.",
    epilog="""
\b
Examples:
  $ amqp10msg bridge --from 'amqp091://a/?queue=q' --to 'amqp://b/?queue=q'
  $ amqp10msg bridge --from 'amqps://${USER}:${PASSWORD}@ns.example/orders' \\
      --to 'amqp091://localhost/?queue=orders' --until-empty --report r.html
  $ amqp10msg bridge --config routes.toml --listen 127.0.0.1:9419
""",
)
@click.option(
    *("--from", "source"),
    metavar="URL",
    multiple=True,
    help="Where messages come from; repeat it for other nodes of the same cluster, tried if the "
    "first cannot be reached.",
)
@click.option(
    "--to",
    "target",
    metavar="URL",
    multiple=True,
    help="Where they go; repeatable in the same way.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file of routes, instead of --from and --to.",
)
@click.option(
    "--all-queues",
    "pattern",
    metavar="PATTERN",
    help="A route for each queue whose name matches, such as 'orders.*'; --management lists them.",
)
@declared_options(
    RouteOptions,
    before={
        "until_length": [
            click.option(
                "--until-empty", is_flag=True, help="End when the source's broker says it is empty."
            )
        ],
    },
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Read messages, return them, and show what would be lost, with examples; with "
    "--declare, also what would be made.",
)
@click.option(
    "--listen", metavar="HOST:PORT", callback=_address, help="Serve metrics, /live and /ready here."
)
@reports_option
@accept_quarantine_option
@log_option
def bridge(
    source: tuple[str, ...],
    target: tuple[str, ...],
    config: Path | None,
    pattern: str | None,
    until_empty: bool,
    idle: float,
    dry_run: bool,
    listen: tuple[str, int] | None,
    reports: tuple[Path, ...],
    accept_quarantine: bool,
    log_format: str,
    **given: Any,
) -> int:
    """Move messages from one broker to another until stopped, and lose none.

    URLs: amqp091://USER:PASSWORD@HOST/VHOST?queue=NAME is AMQP 0-9-1 (as a target also exchange=
    and routing_key=), amqp://USER:PASSWORD@HOST/ADDRESS is 1.0 (?queue=NAME for RabbitMQ's
    addresses), amqp091s:// and amqps:// are by TLS. USER and PASSWORD may be ${NAME}, a variable of
    the environment, so that no list of processes shows them.

    A message is settled at the source once the target has it. Messages that the target refuses go
    to the quarantine, byte for byte. SIGINT and SIGTERM end it: it waits for messages in flight,
    and returns the rest. SIGHUP makes it read the file of --config again; without --config, it
    ignores SIGHUP. Needs the extra bridge.

    Exit status: 0 if all is well, after --until-empty only if the source's broker counts no
    messages; 1 if an end or the disk cannot be used; 2 if the command line is wrong; 3 if
    messages remain at a source; 4 if its broker could not say, or a signal ended a dry run; 5
    if messages are in the quarantine; 6 if the retention of a stream removed messages before they
    were read. If several apply, the first of 1, 3, 4, 5, 6.
    """
    check_reports(reports)
    if (config is None) == (not source or not target):
        raise click.UsageError("give --from and --to, or --config")
    try:
        from amqp10msg.net.bridge import RouteSpec, report
        from amqp10msg.net.bridge.bridge import (
            Interrupted,
            ask,
            drop_signals,
            run_bridge,
            signals_are_held,
            status_of,
        )
        from amqp10msg.net.bridge.matcher import Matcher
        from amqp10msg.net.bridge.routes import apis_of, read_routes, routes_of_queues
    except ModuleNotFoundError as error:
        raise lacking(error, "bridge") from None
    wanted = given_of(given)
    wanted |= {"idle": idle} if until_empty else {}
    if "filter" in wanted:
        language = wanted.get("filter_language", "selector")
        try:
            Matcher(wanted["filter"], language)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--filter") from None
    held = signals_are_held()
    try:
        with told():
            if config is not None:
                path = config
                specs = ask(lambda: read_routes(path))
            elif pattern is not None:
                name, options = pattern, RouteOptions(**wanted)
                specs = ask(lambda: routes_of_queues(source, target, options, name))
            else:
                specs = [RouteSpec(source, target, RouteOptions(**wanted))]
    except Interrupted:
        complain("it ended before it knew its routes")
        return 4 if config is not None or until_empty or wanted.get("until_length") else 0
    if config is not None and (wanted or pattern):
        raise click.UsageError("with --config, the options of routes stand in the file")
    ends = [
        place
        for spec in specs
        for end in (spec.source, spec.target, spec.options.quarantine_queue)
        if end is not None
        for place in end.places
    ]
    check_extra(ends)
    with told():
        hide_credentials("bridge", ends, [api for spec in specs for api in apis_of(spec)])
    if dry_run:
        try:
            return _dry_run(specs, idle, reports)
        finally:
            if not held:
                drop_signals()
    line = LiveLine() if is_terminal(sys.stderr) and log_format == "text" else None
    try:
        try:
            specs, counts, fault = run_bridge(
                specs,
                logger=events_logger(log_format, live=line is not None, alone=len(specs) == 1),
                show=line.show if line is not None else None,
                listen=listen,
                listening=lambda url: click.echo(f"{url}/metrics", err=True),
                again=None if config is None else lambda: read_routes(config),
                hold=True,
            )
        except (ModuleNotFoundError, ValueError) as error:
            raise click.ClickException(str(error)) from None
        if line is not None:
            line.show(counts)
            click.echo(err=True)
        write_reports(
            reports, lambda: report.as_json(specs, counts), lambda: report.as_html(specs, counts)
        )
    finally:
        if not held:  # in a process that goes on; in its own one they are held back to the end
            drop_signals()
    show_counts(counts)
    if fault is not None:
        complain(str(fault))
        return 1
    return status_of(counts.values(), accept_quarantine=accept_quarantine)


def _dry_run(specs: list[RouteSpec], idle: float, reports: tuple[Path, ...]) -> int:
    """Print what each route would lose, until a signal comes: the rest is not read then."""
    from amqp10msg.net.bridge.bridge import Interrupted, run_dry_or_stop
    from amqp10msg.net.bridge.dry import Checked, DryRun
    from amqp10msg.net.bridge.management import Queue
    from amqp10msg.net.bridge.routes import profile_of

    checked = []
    shown: set[str] = set()
    stopped = False
    for spec in specs:
        most, found = min(spec.options.max_messages or 1_000, 65_535), DryRun(spec)
        try:
            if spec.options.declare and not stopped:
                _show_plan(spec, shown)
            if not stopped:
                found, stopped = run_dry_or_stop(spec, most, idle)
        except Interrupted:
            stopped = True
        except (OSError, ValueError) as error:
            raise click.ClickException(str(error)) from None
        read = found if found.read or not stopped else None
        fault = "" if read else "the command was to end"
        checked.append(Checked(Queue(spec.name), read, fault))
        show_dry(checked[-1])
    if stopped:
        complain("it ended before it had read as many messages as it was to")
    profiles = {profile_of(one.run.spec) for one in checked if one.run is not None}
    ends = {
        "source": ", ".join(sorted({str(spec.source) for spec in specs})),
        "target": ", ".join(sorted({str(spec.target) for spec in specs})),
        "profile": ", ".join(sorted(profiles)),
    }
    write_dry(reports, checked, title="What a bridge would lose", **ends)
    return 4 if stopped else 0


def _show_plan(spec: RouteSpec, shown: set[str]) -> None:
    """Print what --declare would make, unless it was shown."""
    from amqp10msg.net.bridge.bridge import ask
    from amqp10msg.net.bridge.topology import plan_of

    for step in ask(lambda: plan_of(spec.source, spec.target, spec.options))[0]:
        if str(step) not in shown:
            shown.add(str(step))
            for line in str(step).splitlines():
                click.echo(safe(line))
