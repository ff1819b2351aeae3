"""``amqp10msg bridge``: move messages live between brokers of AMQP 0-9-1 and 1.0."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._bridging import (
    accept_quarantine_option,
    check_extra,
    check_reports,
    hide_credentials,
    missing_extra,
    report_errors,
    reports_option,
    show_dry_run,
    write_dry_run_reports,
    write_reports,
)
from amqp10msg.app.cli._live import LiveLine, events_logger, log_option, show_counts
from amqp10msg.app.cli._options import declared_options, given_options
from amqp10msg.app.cli._output import is_terminal, print_error, print_event, safe
from amqp10msg.net.bridge.options import RouteOptions

if TYPE_CHECKING:
    from amqp10msg.net.bridge import RouteSpec, Statistics


def _host_and_port(_context: click.Context, _option: click.Parameter, text: str | None) -> Any:
    """Parse HOST:PORT; the host is 127.0.0.1 if it is empty."""
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT.")
    return host.strip("[]") or "127.0.0.1", int(port)


@click.command(
    short_help="Move messages from one broker to another without losing any.",
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
    help="The source of the messages. Repeat it for further nodes of the same cluster, which are "
    "tried if the first is unreachable.",
)
@click.option(
    "--to",
    "target",
    metavar="URL",
    multiple=True,
    help="The target of the messages; repeatable like --from.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the routes from this TOML file, instead of --from and --to.",
)
@click.option(
    "--all-queues",
    "pattern",
    metavar="PATTERN",
    help="Bridge each queue whose name matches this pattern, such as 'orders.*'; needs "
    "--management to list the queues.",
)
@declared_options(
    RouteOptions,
    inserted_before={
        "until_length": [
            click.option(
                "--until-empty", is_flag=True, help="End when the source's broker reports it empty."
            )
        ],
    },
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Read messages, return them to the source, and show what the bridge would lose, with "
    "examples. With --declare, also show what it would declare at the target.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    callback=_host_and_port,
    help="Serve /metrics, /live and /ready over HTTP at this address.",
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
    **route_values: Any,
) -> int:
    """Move messages from one broker to another until stopped, without losing any.

    URLs: amqp091://USER:PASSWORD@HOST/VHOST?queue=NAME for AMQP 0-9-1 (a target may also have
    exchange= and routing_key=), amqp://USER:PASSWORD@HOST/ADDRESS for 1.0 (?queue=NAME for
    RabbitMQ's addresses). amqp091s:// and amqps:// use TLS. Write USER and PASSWORD as ${NAME} to
    read them from an environment variable, so that the process list does not show them. A target
    may also be parquet:FOLDER, for numbered Parquet files; this requires the extra arrow, too.

    A message is acknowledged at the source only after the target has accepted it. Messages that
    the target refuses go to the quarantine, byte for byte. On SIGINT and SIGTERM, the bridge waits
    for messages in flight, returns the others to the source, and ends. On SIGHUP, it reads the
    file of --config again; without --config, it ignores SIGHUP. Requires the extra bridge.

    Exit status: 0 on success, which with --until-empty means that the source's broker counts no
    messages; 1 if the source, the target or the disk cannot be used; 2 if the command line is
    wrong; 3 if messages remain at a source; 4 if the messages at a source could not be counted, or
    a signal ended a dry run; 5 if messages were quarantined; 6 if the retention of a stream removed
    messages before they were read. If several apply, the first of 1, 3, 4, 5, 6 is returned.
    """
    check_reports(reports)
    if (config is None) == (not source or not target):
        raise click.UsageError("give --from and --to, or --config")
    try:
        from amqp10msg.net.bridge import RouteSpec, report
        from amqp10msg.net.bridge.matcher import Matcher
        from amqp10msg.net.bridge.process import (
            Interrupted,
            call_interruptibly,
            drop_signals,
            run_bridge,
            signals_are_held,
            status_of,
        )
        from amqp10msg.net.bridge.routes import apis_of, read_routes, routes_of_queues
    except ModuleNotFoundError as error:
        raise missing_extra(error, "bridge") from None
    options_given = given_options(route_values)
    options_given |= {"idle": idle} if until_empty else {}
    if "filter" in options_given:
        language = options_given.get("filter_language", "selector")
        try:
            Matcher(options_given["filter"], language)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--filter") from None
    were_held = signals_are_held()
    try:
        with report_errors():
            if config is not None:
                path = config
                specs = call_interruptibly(lambda: read_routes(path))
            elif pattern is not None:
                name, options = pattern, RouteOptions(**options_given)
                specs = call_interruptibly(lambda: routes_of_queues(source, target, options, name))
            else:
                specs = [RouteSpec(source, target, RouteOptions(**options_given))]
    except Interrupted:
        print_error("a signal ended the bridge before it had read its routes", event="interrupted")
        return 4 if config is not None or until_empty or options_given.get("until_length") else 0
    if config is not None and (options_given or pattern):
        raise click.UsageError("with --config, write the options of routes into the file")
    endpoints = [
        endpoint
        for spec in specs
        for end in (spec.source, spec.target, spec.options.quarantine_queue)
        if end is not None
        for endpoint in end.places
    ]
    check_extra(endpoints)
    with report_errors():
        hide_credentials("bridge", endpoints, [api for spec in specs for api in apis_of(spec)])
    if dry_run:
        try:
            return _dry_run(specs, idle, reports)
        finally:
            if not were_held:
                drop_signals()
    line = LiveLine() if is_terminal(sys.stderr) and log_format == "text" else None
    try:
        try:
            specs, counts, fault = run_bridge(
                specs,
                logger=events_logger(log_format, live=line is not None, alone=len(specs) == 1),
                show=line.show if line is not None else None,
                listen=listen,
                on_listening=lambda url: print_event(
                    f"{url}/metrics", "listening", url=f"{url}/metrics"
                ),
                reread_routes=None if config is None else lambda: read_routes(config),
                hold_signals=True,
            )
        except ModuleNotFoundError as error:
            raise click.ClickException(str(error)) from None
        except ValueError as error:  # a route is invalid; no connection was opened
            raise click.UsageError(str(error)) from None
        if line is not None:
            line.show(counts)
            click.echo(err=True)
        write_reports(
            reports, lambda: report.as_json(specs, counts), lambda: report.as_html(specs, counts)
        )
    finally:
        # With `hold_signals`, `run_bridge` leaves signals blocked. Unblock them, unless they were
        # blocked before this call: the command line blocks signals until its process exits.
        if not were_held:
            drop_signals()
    # If no message was read, the error alone says why.
    if fault is None or any(route.received for route in counts.values()):
        show_counts(counts)
    _show_quarantines(specs, counts)
    if fault is not None:
        print_error(str(fault))
        return 1
    return status_of(counts.values(), accept_quarantine=accept_quarantine)


def _show_quarantines(specs: list[RouteSpec], counts: Mapping[str, Statistics]) -> None:
    """Print the quarantine files that got messages, and how to send these again."""
    files = {
        (str(spec.options.quarantine), spec.source.protocol): None
        for spec in specs
        if spec.options.quarantine_queue is None and counts[spec.name].quarantined.total()
    }
    for path, protocol in files:
        source = f"'file:{safe(path)}?protocol={protocol}'"
        click.echo(
            f"{safe(path)} has the messages in quarantine; when the cause is fixed, send them with "
            f"--from {source} --until-empty --state FILE --quarantine OTHER"
        )


def _dry_run(specs: list[RouteSpec], idle: float, reports: tuple[Path, ...]) -> int:
    """Print the losses of each route in a dry run, and return the exit status.

    After a signal, no further messages are read: the remaining routes are reported as not read.
    """
    from amqp10msg.net.bridge.dry import Checked, DryRun
    from amqp10msg.net.bridge.management import Queue
    from amqp10msg.net.bridge.process import Interrupted, run_dry_or_stop
    from amqp10msg.net.bridge.routes import profile_of

    checked = []
    shown_steps: set[str] = set()
    stopped = False
    for spec in specs:
        limit, run = min(spec.options.max_messages or 1_000, 65_535), DryRun(spec)
        try:
            if spec.options.declare and not stopped:
                _show_plan(spec, shown_steps)
            if not stopped:
                run, stopped = run_dry_or_stop(spec, limit, idle)
        except Interrupted:
            stopped = True
        except (OSError, ValueError) as error:
            raise click.ClickException(str(error)) from None
        usable = run if run.read or not stopped else None
        fault = "" if usable else "a signal ended the command"
        checked.append(Checked(Queue(spec.name), usable, fault))
        show_dry_run(checked[-1])
        if run.read == limit and not spec.options.max_messages:
            first = f"{limit:,} messages"
            click.echo(f"  only the first {first} were read; --max-messages reads more or fewer")
    if stopped:
        print_error(
            "a signal ended the dry run before it had read all messages", event="interrupted"
        )
    profiles = {profile_of(result.run.spec) for result in checked if result.run is not None}
    endpoints = {
        "source": ", ".join(sorted({str(spec.source) for spec in specs})),
        "target": ", ".join(sorted({str(spec.target) for spec in specs})),
        "profile": ", ".join(sorted(profiles)),
    }
    write_dry_run_reports(reports, checked, title="What a bridge would lose", **endpoints)
    return 4 if stopped else 0


def _show_plan(spec: RouteSpec, shown_steps: set[str]) -> None:
    """Print the steps of --declare that are not in `shown_steps` yet, and add them."""
    from amqp10msg.net.bridge.process import call_interruptibly
    from amqp10msg.net.bridge.topology import plan_of

    for step in call_interruptibly(lambda: plan_of(spec.source, spec.target, spec.options))[0]:
        if str(step) not in shown_steps:
            shown_steps.add(str(step))
            for line in str(step).splitlines():
                click.echo(safe(line))
