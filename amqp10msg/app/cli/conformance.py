"""``amqp10msg conformance``: test any implementation with the corpus, and report what it does."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from amqp10msg.app.cli._options import color_option, number_option
from amqp10msg.app.cli._output import complain, console, counting, safe, table, use_color
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.interop.conformance import Change, Peer, PeerResults, Result
    from amqp10msg.interop.corpus import Case

# What is shown on a terminal; the files have all.
_MAX_FAULTS = 10


@click.group()
def conformance() -> None:
    """Test implementations of AMQP with a corpus of cases."""


@conformance.command()
def peers() -> None:
    """List the implementations that there are drivers for."""
    from amqp10msg.interop.conformance import PEERS

    shown = table("name", "what", "installed from")
    for peer in PEERS.values():
        registry = {"python": "PyPI", "node": "npm"}[peer.language]
        needs = f"{registry}: {', '.join(peer.requires)}" if peer.requires else "-"
        shown.add_row(peer.name, peer.about, needs)
    console(False).print(shown)


@conformance.command()
@click.option(
    "--language",
    type=click.Choice(["python", "javascript"]),
    default="python",
    show_default=True,
    help="Of the driver.",
)
def template(language: str) -> None:
    """Print a driver to begin with."""
    from importlib import resources

    name = "template.py" if language == "python" else "template.js"
    text = (resources.files("amqp10msg.interop.corpus.drivers") / name).read_text(encoding="utf-8")
    click.echo(text, nl=False)


@conformance.command(
    epilog="""
\b
Examples:
  amqp10msg conformance run
  amqp10msg conformance run --peer this-library --only "Part 3, 3.2"
  amqp10msg conformance run --peer rhea --peer proton --jobs 4
  amqp10msg conformance run --peer ./my_driver.py
  amqp10msg conformance run --jobs 8 --broker "amqp://localhost//queue/conformance-{n}"
  amqp10msg conformance run --peer "java -jar driver.jar" --diff old.json
"""
)
@click.option(
    "--peer",
    "names",
    multiple=True,
    metavar="NAME|CMD",
    help="A name of `conformance peers`, a driver's .py or .js, or a command that answers JSON "
    "lines; may be given again. All names by default, unless there is a --broker.",
)
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="URL",
    help="A queue of a live broker of AMQP 1.0 that is empty and used by nobody else: messages go "
    "in, and what comes back is judged. {n} in the address numbers queues. May be given again.",
)
@click.option(
    "--cases",
    type=click.Path(exists=True, path_type=Path),
    help="A file or folder of cases; the corpus of the library by default.",
)
@click.option(
    "--only",
    metavar="CLAUSE",
    help="Run only the cases of clauses that begin with this text, or the case of this id.",
)
@number_option("--jobs", 2, "How many processes of a peer run at the same time.")
@number_option("--timeout", 5.0, "How long one answer may take.", 0.1, metavar="SECONDS")
@number_option("--memory", 1024, "How much memory one process may take.", 64, metavar="MIB")
@click.option(
    "--environments",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where peers are installed; the user's cache by default.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("conformance"),
    show_default=True,
    help="The folder for index.html, results.json, junit.xml and report.md.",
)
@click.option(
    "--diff",
    "before",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="OLD.json",
    help="Show what has changed since these results; the exit status is 1 if a case is worse. A "
    "peer that they lack is judged as without them.",
)
@color_option
def run(
    names: tuple[str, ...],
    brokers: tuple[str, ...],
    cases: Path | None,
    only: str | None,
    jobs: int,
    timeout: float,
    memory: int,
    environments: Path | None,
    output: Path,
    before: Path | None,
    color: bool | None,
) -> int:
    """Test peers with the corpus, case by case.

    Each peer runs in processes of its own, in an environment of its own that is made when it is
    first needed. A crash, a hang or too much memory is a result like any other. An interrupted run
    continues where it stopped, unless the peer's file or a bound was changed; peers that cannot be
    installed are named and left out.

    Brokers are only asked about whole messages, from the beginning each time. The password of a
    URL may be ${NAME}, a variable of the environment.

    The exit status is 1 if a case failed (with --diff: if one is worse than before), if a peer is
    left out, or if every case was skipped.
    """
    from amqp10msg.atomic_files import write_whole
    from amqp10msg.interop.conformance import (
        PEERS,
        PeerError,
        difference,
        find_peer,
        junit,
        load,
        markdown,
        save,
        scoreboard,
    )

    old = load(before) if before else None
    chosen = _chosen(cases, only)
    try:
        asked = [find_peer(name) for name in dict.fromkeys(names)]
    except ValueError as error:
        raise click.UsageError(f"--peer: {error}") from None
    asked = asked or ([] if brokers else list(PEERS.values()))
    seen: set[str] = set()
    asked = [attrs.evolve(peer, name=_own_name(peer.name, seen)) for peer in asked]
    output.mkdir(parents=True, exist_ok=True)
    found: list[PeerResults] = []
    ways = [
        partial(
            _of_peer,
            peer,
            timeout=timeout,
            memory=memory << 20,
            environments=environments,
            journal=_journal(output, peer.name),
        )
        for peer in asked
    ]
    ways += [partial(_of_broker, url, seen=seen, timeout=timeout) for url in brokers]
    missing = 0
    for way in ways:
        try:
            found.append(way(chosen, color, jobs=jobs))
        except PeerError as error:
            complain(str(error))
            missing += 1
    if not found:
        raise click.ClickException("no peer ran")
    save(found, output / "results.json")
    write_whole(output / "junit.xml", junit(found))
    write_whole(output / "report.md", markdown(found, chosen))
    write_whole(output / "index.html", scoreboard(found, chosen))
    for peer in asked:
        _journal(output, peer.name).unlink(missing_ok=True)
    colored = use_color(color)
    _show(found, colored)
    changes = difference(old, found) if old is not None else None
    if changes is not None:
        _show_changes(changes, colored)
    click.echo(f"{output}/index.html, results.json, junit.xml, report.md")
    known = {one.peer for one in old} if old is not None else set()
    new = [one for one in found if one.peer not in known]
    if old is not None:
        for one in new:
            complain(f"{one.peer}: {before} has no results of it, so it is judged by itself")
    is_worse = any(change.is_worse for change in changes or ())
    untested = [one for one in found if not one.tested]
    if len(untested) == len(found):
        raise click.ClickException("nothing was tested: every case was skipped")
    for one in untested:
        complain(f"{one.peer}: every case was skipped")
    # Without --peer all known peers run, and the cases of --only may be none for some of them.
    untested_by_request = (names or brokers) and untested
    failed = [one for one in new if one.tested and not one.ok]
    return int(bool(missing or untested_by_request or is_worse or failed))


def _own_name(name: str, seen: set[str]) -> str:
    """Number what has the name of another one: results and their files are told apart by it."""
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    own = next(one for one in itertools.chain([name], numbered) if one not in seen)
    seen.add(own)
    return own


def _chosen(cases: Path | None, only: str | None) -> list[Case]:
    from amqp10msg.interop import corpus

    chosen = corpus.load(cases)
    if not chosen:  # nothing that was tried would look as if all had passed
        raise click.ClickException(f"{cases}: there is no case in it")
    if only is not None:
        chosen = [case for case in chosen if _is_of(case.clause, only) or case.id == only]
        if not chosen:
            raise click.UsageError(
                f"--only: no case is of {only!r}, a clause such as 'Part 3, 3.2'"
            )
    return chosen


def _is_of(clause: str, chosen: str) -> bool:
    return clause == chosen or clause.startswith((f"{chosen}.", f"{chosen},"))


def _journal(output: Path, name: str) -> Path:
    return output / f".{name}.jsonl"


def _of_peer(peer: Peer, chosen: list[Case], color: bool | None, **how: Any) -> PeerResults:
    """Test a peer."""
    from amqp10msg.interop import conformance

    with _bar(peer.name, len(chosen), color) as step:
        return conformance.run(peer, chosen, on_result=step, **how)


def _of_broker(
    url: str,
    chosen: list[Case],
    color: bool | None,
    *,
    seen: set[str],
    jobs: int,
    timeout: float,
) -> PeerResults:
    """Test a live broker with the cases that are messages."""
    from amqp10msg.interop.conformance.brokers import hold_broker, is_asked

    asked = [case for case in chosen if is_asked(case)]
    if not asked:
        raise click.UsageError("--broker: none of the chosen cases is a message")
    ways = jobs if "{n}" in url else 1
    with _bar("a broker", len(asked), color) as step:
        try:
            found = hold_broker(url, asked, jobs=ways, timeout=timeout, on_result=step)
        except ValueError as error:
            raise click.UsageError(f"--broker: {error}") from None
    return attrs.evolve(found, peer=_own_name(found.peer, seen))


@contextlib.contextmanager
def _bar(name: str, total: int, color: bool | None) -> Iterator[Callable[[Result], None]]:
    """Show a bar on a terminal; yield what to call with each result."""
    numbers = itertools.count(1)
    with counting(color, "cases", total, name) as show:
        yield lambda _: show(next(numbers), total) if show else None


def _show(found: list[PeerResults], colored: bool) -> None:
    from amqp10msg.interop.conformance import DEATHS, SOUND, facets_of, percent

    counted = [peer.facets(facets_of(found)) for peer in found]
    asked_for = [name for name in counted[0] if any(facets[name][1] for facets in counted)]
    shown = table("peer", *asked_for, "died")
    for peer in found:
        cells = []
        for held, asked in peer.facets(asked_for).values():
            style = "none" if held == asked else "yellow"
            cells.append(f"[{style}]{percent(held, asked)}[/]" if asked else "")
        shown.add_row(peer.peer, *cells, f"[{'red' if peer.died else 'none'}]{peer.died}[/]")
    for column in shown.columns[1:]:
        column.justify = "right"
    screen = console(colored)
    screen.print(shown)
    click.echo("Percent of the cases in which each was asked for.")
    for peer in found:
        wrong = [one for one in peer.results if one.outcome not in SOUND]
        wrong.sort(key=lambda one: one.outcome not in DEATHS)
        for one in wrong[:_MAX_FAULTS]:
            text = safe(f"{peer.peer}: {one.outcome}: {one.case} ({one.clause}): {one.reason}")
            screen.print(text, markup=False, soft_wrap=True)
        if len(wrong) > _MAX_FAULTS:
            click.echo(f"{peer.peer}: … and {plural(len(wrong) - _MAX_FAULTS, 'more case')}")


def _show_changes(changes: list[Change], colored: bool) -> None:
    worse = sum(change.is_worse for change in changes)
    click.echo(f"{plural(len(changes), 'case')} changed, {worse:,} for the worse")
    for change in changes[: 2 * _MAX_FAULTS]:
        lost = f", lost {', '.join(change.lost)}" if change.lost else ""
        text = f"{change.peer}: {change.case}: {change.before} → {change.after}{lost}"
        style = "red" if change.is_worse else ""
        console(colored).print(safe(text), style=style, markup=False, soft_wrap=True)
