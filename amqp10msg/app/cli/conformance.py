"""``amqp10msg conformance``: test AMQP implementations with the corpus, and write reports."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from amqp10msg.app.cli._options import color_option, number_option
from amqp10msg.app.cli._output import console, print_error, progress_counter, safe, table, use_color
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.interop.conformance import Change, Peer, PeerResults, Result
    from amqp10msg.interop.corpus import Case

# The maximum number of failed cases per peer on the terminal; the report files contain all.
_MAX_FAILURES = 10


@click.group()
def conformance() -> None:
    """Test AMQP implementations with a corpus of test cases."""


@conformance.command()
def peers() -> None:
    """List the implementations that can be tested."""
    from amqp10msg.interop.conformance import PEERS

    rows = table("name", "description", "installed from")
    for peer in PEERS.values():
        registry = {"python": "PyPI", "node": "npm"}[peer.language]
        needs = f"{registry}: {', '.join(peer.requires)}" if peer.requires else "-"
        rows.add_row(peer.name, peer.about, needs)
    console(False).print(rows)


#: The templates of drivers by language and kind of case.
_TEMPLATES = {
    ("python", "value"): "template.py",
    ("python", "message"): "template_message.py",
    ("javascript", "value"): "template.js",
    ("javascript", "message"): "template_message.js",
    ("program", "message"): "template_program.py",
}

_cases_option = click.option(
    "--cases",
    type=click.Path(exists=True, path_type=Path),
    help="Read the cases from this file or folder, instead of the corpus of the library.",
)
_only_option = click.option(
    "--only",
    metavar="CLAUSE|RULE|CASE",
    help="Select the cases of this clause and its subclauses, those that violate this rule, or the "
    "case with this id. Rules and ids may be patterns, such as 'map-*'.",
)
_overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace files that exist already."
)


@conformance.command(
    epilog="""
\b
Examples:
  amqp10msg conformance template > mine.py
  amqp10msg conformance template --language javascript --kind message -o mine.js
  amqp10msg conformance template --language program -o program.py
"""
)
@click.option(
    "--language",
    type=click.Choice(["python", "javascript", "program"]),
    default="python",
    show_default=True,
    help="The language of the driver, or a program that answers JSON lines on standard output, to "
    "translate to any language.",
)
@click.option(
    "--kind",
    type=click.Choice(["value", "message"]),
    help="Test with single values or with messages. By default values, or messages for a program.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the template to this file, by default to standard output.",
)
@_overwrite_option
def template(language: str, kind: str | None, output: Path | None, overwrite: bool) -> None:
    """Print a template of a driver, to test your own implementation."""
    from importlib import resources

    from amqp10msg.atomic_files import write_whole

    chosen = language, kind or ("message" if language == "program" else "value")
    if chosen not in _TEMPLATES:
        raise click.UsageError(
            f"--language {language} has no template for --kind {kind}: use --kind message"
        )
    file = resources.files("amqp10msg.interop.corpus.drivers") / _TEMPLATES[chosen]
    text = file.read_text(encoding="utf-8")
    if output is None:
        click.echo(text, nl=False)
        return
    _require_new([output], overwrite)
    write_whole(output, text)


# Written next to the cases: the folder may be read by people without this library.
_CASES_README = """\
# Cases

`cases.jsonl` has one case per line, a JSON object. If there is a folder `bytes`, its file `ID.bin`
has the bytes of the case with this id.

- `id`: the name of the case
- `clause`: the clause of the specification
- `kind`: what the bytes are (`value`, `message`, `composite`, `field-table`, `basic-properties`),
  or a question about them (`filter`, `terminus`, `resumption`, `translation`)
- `data`: the bytes, hex
- `typed`: the value that a reader must decode; absent if it must refuse the bytes
- `compact`: the smallest encoding of that value, hex
- `error`: the rule for which the bytes are refused, and the offset; if the case has `typed`, too, a
  reader may refuse or read the bytes
- `violations`: the rules of the `profile` that a message breaks: rule, severity, offset
- `given`, `answer`: the circumstances of a question, and the expected answer
- `limits`: limits of decoding; skip the case if your implementation has none
- `preference`: why this result is expected although no clause requires it
- `origin`, `licence`, `note`: the author of the bytes, their licence, and the purpose of the case

A value is a list of its type and its content, such as `["uint", 5]`. A message is a list of
sections, such as `["data", "68656c6c6f"]`. All forms are described on the page "The corpus, for any
language" of the documentation of amqp10msg. Skip keys and kinds that you do not know.
"""


@conformance.command(
    epilog="""
\b
Examples:
  amqp10msg conformance cases -o cases
  amqp10msg conformance cases --only "Part 3, 3.2" --bytes -o cases
"""
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Write the cases to this folder.",
)
@_cases_option
@_only_option
@click.option(
    "--bytes",
    "with_bytes",
    is_flag=True,
    help="Write the bytes of each case to a file of its own, too: bytes/ID.bin.",
)
@_overwrite_option
def cases(
    output: Path, cases: Path | None, only: str | None, with_bytes: bool, overwrite: bool
) -> None:
    """Write the cases for a test program of your own.

    The file cases.jsonl in the folder has a line for each case: its bytes, the expected result, and
    the clause. README.md describes the format. No file is replaced without --overwrite.
    """
    from amqp10msg.atomic_files import write_whole
    from amqp10msg.interop import corpus

    chosen = _select_cases(cases, only)
    folder = output / "bytes"
    # An id has only a-z, 0-9 and -._ between them, so it is the name of a file on every system.
    files = {folder / f"{case.id}.bin": case.data for case in chosen if with_bytes}
    lines, readme = output / "cases.jsonl", output / "README.md"
    _require_new([lines, readme, *files], overwrite)
    output.mkdir(parents=True, exist_ok=True)
    if files:
        folder.mkdir(exist_ok=True)
        for path, octets in files.items():
            path.write_bytes(octets)
        if others := [path for path in folder.glob("*.bin") if path not in files]:
            text = f"{folder} has {plural(len(others), 'file')} of other cases, such as"
            print_error(f"{text} {min(others).name}")
    write_whole(readme, _CASES_README)
    corpus.dump(chosen, lines)
    click.echo(f"{lines}: {plural(len(chosen), 'case')}")


def _require_new(paths: list[Path], overwrite: bool) -> None:
    """Raise ClickException if a file exists and may not be replaced."""
    existing = next((path for path in paths if path.exists()), None)
    if existing is not None and not overwrite:
        raise click.ClickException(
            f"{existing} exists already: add --overwrite, or choose another name"
        )


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
    help="Test this implementation: a name from `conformance peers`, a driver file (.py or .js), "
    "or a command that answers JSON lines. Repeatable. By default all names, or none with "
    "--broker.",
)
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="URL",
    help="Test a live AMQP 1.0 broker: send messages to this queue and receive them again. The "
    "queue must be empty and have no other clients. {n} in the address is replaced by the "
    "number of the job. Repeatable.",
)
@_cases_option
@_only_option
@number_option("--jobs", 2, "The number of parallel processes per peer.")
@number_option("--timeout", 5.0, "Fail a case if the answer takes longer.", 0.1, metavar="SECONDS")
@number_option("--memory", 1024, "The memory limit of each process.", 64, metavar="MIB")
@click.option(
    "--environments",
    type=click.Path(file_okay=False, path_type=Path),
    help="Install the peers into this folder, by default the user's cache.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("conformance"),
    show_default=True,
    help="Write index.html, results.json, junit.xml and report.md to this folder.",
)
@click.option(
    "--diff",
    "before",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="OLD.json",
    help="Compare with these earlier results, and exit with status 1 if a case got worse. Peers "
    "without earlier results are judged as without --diff.",
)
@click.option(
    "--restart",
    is_flag=True,
    help="Discard the results of an interrupted run, for instance if a library that the driver "
    "imports has changed.",
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
    restart: bool,
    color: bool | None,
) -> int:
    """Test peers with the corpus, case by case.

    Each peer runs in its own processes and its own environment, which is created on first use. A
    crash, a timeout or excessive memory use is recorded as a result. An interrupted run continues
    where it stopped, unless the peer's file or a limit has changed, and says so; --restart begins
    anew. Peers that cannot be installed are reported and skipped.

    Brokers are tested only with complete messages, and never continue an interrupted run. Write the
    password in a URL as ${NAME} to read it from an environment variable.

    The exit status is 1 if a case failed (with --diff: if a case got worse), if a peer could not be
    installed, or if every case was skipped.
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
    chosen = _select_cases(cases, only)
    try:
        tested_peers = [find_peer(name) for name in dict.fromkeys(names)]
    except ValueError as error:
        raise click.UsageError(f"--peer: {error}") from None
    tested_peers = tested_peers or ([] if brokers else list(PEERS.values()))
    used_names: set[str] = set()
    tested_peers = [
        attrs.evolve(peer, name=_unique_name(peer.name, used_names)) for peer in tested_peers
    ]
    output.mkdir(parents=True, exist_ok=True)
    if restart:
        for peer in tested_peers:
            _journal_path(output, peer.name).unlink(missing_ok=True)
    results: list[PeerResults] = []
    tests = [
        partial(
            _test_peer,
            peer,
            timeout=timeout,
            memory=memory << 20,
            environments=environments,
            journal=_journal_path(output, peer.name),
        )
        for peer in tested_peers
    ]
    tests += [partial(_test_broker, url, used_names=used_names, timeout=timeout) for url in brokers]
    missing = 0
    for test in tests:
        try:
            results.append(test(chosen, color, jobs=jobs))
        except PeerError as error:
            print_error(str(error))
            for note in getattr(error, "__notes__", ()):
                click.echo("\n".join(map(safe, note.split("\n"))), err=True)
            missing += 1
    if not results:
        raise click.ClickException("no peer could be tested")
    save(results, output / "results.json")
    write_whole(output / "junit.xml", junit(results))
    write_whole(output / "report.md", markdown(results, chosen))
    write_whole(output / "index.html", scoreboard(results, chosen))
    for peer in tested_peers:
        _journal_path(output, peer.name).unlink(missing_ok=True)
    colored = use_color(color)
    _show_results(results, colored)
    changes = difference(old, results) if old is not None else None
    if changes is not None:
        _show_changes(changes, colored)
    click.echo(f"{output}/index.html, results.json, junit.xml, report.md")
    old_names = {peer_results.peer for peer_results in old} if old is not None else set()
    new = [peer_results for peer_results in results if peer_results.peer not in old_names]
    if old is not None:
        for peer_results in new:
            print_error(f"{peer_results.peer}: not compared: {before} has no results of this peer")
    is_worse = any(change.is_worse for change in changes or ())
    untested = [peer_results for peer_results in results if not peer_results.tested]
    if len(untested) == len(results):
        raise click.ClickException("nothing was tested: every case was skipped")
    for peer_results in untested:
        print_error(f"{peer_results.peer}: every case was skipped")
    # A peer of which every case was skipped is a failure only if --peer or --broker names it: by
    # default, all peers run, and --only may exclude every case of some peers.
    untested_by_request = (names or brokers) and untested
    failed = [peer_results for peer_results in new if peer_results.tested and not peer_results.ok]
    click.echo(_summary(results))
    return int(bool(missing or untested_by_request or is_worse or failed))


def _summary(results: list[PeerResults]) -> str:
    """Return the numbers of passed, failed and skipped cases; differences that are allowed pass."""
    from amqp10msg.interop.conformance import SOUND_OUTCOMES

    outcomes = [result.outcome for peer_results in results for result in peer_results.results]
    skipped = outcomes.count("skip")
    failed = sum(outcome not in SOUND_OUTCOMES for outcome in outcomes)
    peers = f" of {len(results):,} peers" if len(results) > 1 else ""
    passed = len(outcomes) - skipped - failed
    counts = f"{passed:,} passed, {failed:,} failed, {skipped:,} skipped"
    return f"{plural(len(outcomes), 'case')}{peers}: {counts}"


def _unique_name(name: str, used: set[str]) -> str:
    """Return `name`, with a number appended if `used` contains it; add the result to `used`.

    Names must be unique because they identify results and files.
    """
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    unique = next(text for text in itertools.chain([name], numbered) if text not in used)
    used.add(unique)
    return unique


def _select_cases(cases: Path | None, only: str | None) -> list[Case]:
    """Return the cases that --cases and --only select."""
    from amqp10msg.interop import corpus

    chosen = corpus.load(cases)
    if not chosen:  # raise an error, because a run without cases would look like a success
        raise click.ClickException(f"{cases}: contains no cases")
    if only is not None:
        chosen = [case for case in chosen if _is_selected(case, only)]
        if not chosen:
            raise click.UsageError(
                f"--only: no case has the clause, rule or id {only!r}; clauses look like "
                "'Part 3, 3.2', rules like 'truncated' or 'map-*'"
            )
    return chosen


def _is_selected(case: Case, only: str) -> bool:
    """Return whether --only selects a case by its clause, by a rule that it violates, or its id."""
    rules = {rule for rule, _, _ in case.violations or ()}
    if case.error is not None:
        rules.add(case.error.rule)
    return _is_in_clause(case.clause, only) or any(
        fnmatchcase(name, only) for name in (case.id, *rules)
    )


def _is_in_clause(clause: str, chosen: str) -> bool:
    """Return whether a clause is the clause `chosen`, or one of its subclauses."""
    return clause == chosen or clause.startswith((f"{chosen}.", f"{chosen},"))


def _journal_path(output: Path, name: str) -> Path:
    """Return the path of the journal of a peer, with which an interrupted run continues."""
    return output / f".{name}.jsonl"


def _test_peer(peer: Peer, chosen: list[Case], color: bool | None, **options: Any) -> PeerResults:
    """Test an implementation with the cases, and show a progress bar."""
    from amqp10msg.interop import conformance

    def report_resumed(count: int) -> None:
        print_error(
            f"{peer.name}: {count:,} of {plural(len(chosen), 'result')} are from the interrupted "
            "run; --restart runs these cases again"
        )

    with _progress(peer.name, len(chosen), color) as step:
        return conformance.run(peer, chosen, on_result=step, on_resumed=report_resumed, **options)


def _test_broker(
    url: str,
    chosen: list[Case],
    color: bool | None,
    *,
    used_names: set[str],
    jobs: int,
    timeout: float,
) -> PeerResults:
    """Test a live broker with those cases that are complete messages, and show a progress bar."""
    from amqp10msg.interop.conformance.brokers import is_broker_case, run_broker

    sent_cases = [case for case in chosen if is_broker_case(case)]
    if not sent_cases:
        raise click.UsageError(
            "--broker: no selected case is a message to send: change --only or --cases"
        )
    connections = jobs if "{n}" in url else 1
    with _progress("a broker", len(sent_cases), color) as step:
        try:
            results = run_broker(url, sent_cases, jobs=connections, timeout=timeout, on_result=step)
        except ValueError as error:
            raise click.UsageError(f"--broker: {error}") from None
    return attrs.evolve(results, peer=_unique_name(results.peer, used_names))


@contextlib.contextmanager
def _progress(name: str, total: int, color: bool | None) -> Iterator[Callable[[Result], None]]:
    """Show a progress bar during the block. Yield a function to call with each result."""
    numbers = itertools.count(1)
    with progress_counter(color, "cases", total, name) as show:
        yield lambda _: show(next(numbers), total) if show else None


def _show_results(results: list[PeerResults], colored: bool) -> None:
    from amqp10msg.interop.conformance import DEATH_OUTCOMES, SOUND_OUTCOMES, facets_of, percent

    counts = [peer.facets(facets_of(results)) for peer in results]
    facet_names = [name for name in counts[0] if any(facets[name][1] for facets in counts)]
    rows = table("peer", *facet_names, "died")
    for peer in results:
        cells = []
        for passed, total in peer.facets(facet_names).values():
            style = "none" if passed == total else "yellow"
            cells.append(f"[{style}]{percent(passed, total)}[/]" if total else "")
        rows.add_row(peer.peer, *cells, f"[{'red' if peer.died else 'none'}]{peer.died}[/]")
    for column in rows.columns[1:]:
        column.justify = "right"
    screen = console(colored)
    screen.print(rows)
    click.echo("Each cell is the percentage of passed cases among those that test the facet.")
    for peer in results:
        failures = [result for result in peer.results if result.outcome not in SOUND_OUTCOMES]
        failures.sort(key=lambda result: result.outcome not in DEATH_OUTCOMES)
        shown_stderr = ""
        for result in failures[:_MAX_FAILURES]:
            text = f"{result.outcome}: {result.case} ({result.broken_clauses}): {result.reason}"
            screen.print(safe(f"{peer.peer}: {text}"), markup=False, soft_wrap=True)
            if result.stderr and result.stderr != shown_stderr:
                shown_stderr = result.stderr
                lines = [f"  {safe(line)}" for line in shown_stderr.rstrip("\n").split("\n")]
                screen.print("\n".join(lines), markup=False, soft_wrap=True)
        if len(failures) > _MAX_FAILURES:
            click.echo(f"{peer.peer}: … and {plural(len(failures) - _MAX_FAILURES, 'more case')}")


def _show_changes(changes: list[Change], colored: bool) -> None:
    worse = sum(change.is_worse for change in changes)
    click.echo(f"{plural(len(changes), 'case')} changed, {worse:,} got worse")
    for change in changes[: 2 * _MAX_FAILURES]:
        lost_facets = f", lost {', '.join(change.lost)}" if change.lost else ""
        text = f"{change.peer}: {change.case}: {change.before} → {change.after}{lost_facets}"
        style = "red" if change.is_worse else ""
        console(colored).print(safe(text), style=style, markup=False, soft_wrap=True)
