"""The benchmarks run, and all who are measured decode the same content. Nothing here is a time."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import amqp10msg
from amqp10msg import Message, validate
from bench import __main__ as command
from bench import filters, harness, messages, ours, peers, report, translation, uses
from bench.harness import SMOKE, Contender, Effort, Timing, Timings

pytestmark = pytest.mark.once


def module(peer: peers.Peer) -> ModuleType:
    """The peer's module, or a skip where its library is not installed."""
    loaded = peer.load()
    if loaded is None:
        pytest.skip(f"needs {peer.install}")
    return loaded


def each_peer(*chosen: peers.Peer) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("peer", chosen, ids=lambda peer: peer.key)


def timing(name: str, *rounds: float) -> Timing:
    return Timing(name, rounds)


# The messages.


def test_the_reference_message_has_500_octets() -> None:
    assert len(messages.REFERENCE) == 500
    assert len(messages.BODY) == 256


def test_the_relayed_message_differs_in_the_delivery_count_alone() -> None:
    differing = [
        (place, before, after)
        for place, (before, after) in enumerate(
            zip(messages.REFERENCE, messages.RELAYED, strict=True)
        )
        if before != after
    ]

    assert differing == [(16, 3, 4)]


@each_peer(peers.PROTON, peers.AZURE)
def test_a_peer_reads_the_reference_message_as_it_was_meant(peer: peers.Peer) -> None:
    loaded = module(peer)

    assert loaded.plain(loaded.read_reference(messages.REFERENCE)) == messages.EVERY_FIELD


def test_we_read_the_reference_message_as_it_was_meant() -> None:
    assert ours.plain(ours.read_reference(messages.REFERENCE)) == messages.EVERY_FIELD


def test_msgspec_reads_the_same_content() -> None:
    loaded = module(peers.MSGSPEC)

    assert loaded.read_reference(loaded.build_reference()) == messages.EVERY_FIELD


def test_the_sections_of_the_large_message_hold_the_whole_body() -> None:
    data = messages.large(1)

    assert len(data) == messages.MIB + 8
    assert ours.read_data(data) == b"\xa5" * messages.MIB


# What is built.


def test_we_build_the_reference_message_octet_for_octet() -> None:
    assert ours.build_reference() == messages.REFERENCE


@each_peer(peers.PROTON, peers.AZURE)
def test_a_peer_builds_the_same_content(peer: peers.Peer) -> None:
    built = bytes(module(peer).build_reference())

    assert ours.plain(ours.read_reference(built)) == messages.EVERY_FIELD


@pytest.mark.parametrize("relay", [ours.relay, ours.relay_counting])
def test_we_relay_the_rest_as_it_came(relay: Callable[[bytes], bytes]) -> None:
    assert relay(messages.REFERENCE) == messages.RELAYED


def test_proton_relays_the_same_content() -> None:
    relayed = bytes(module(peers.PROTON).relay(messages.REFERENCE))

    assert ours.read_reference(messages.RELAYED) == ours.read_reference(relayed)


@each_peer(peers.PROTON, peers.AZURE)
def test_a_peer_reads_the_data_section(peer: peers.Peer) -> None:
    found = module(peer).read_data(messages.large(1))

    assert (found if isinstance(found, bytes) else b"".join(found)) == b"\xa5" * messages.MIB


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_we_build_the_data_section_octet_for_octet(size: int) -> None:
    body = b"\x5a" * size

    assert messages.data_section(body) == ours.build_data(body)


def test_proton_builds_the_data_section() -> None:
    assert ours.read_data(bytes(module(peers.PROTON).build_data(messages.BODY))) == messages.BODY


@pytest.mark.parametrize("entries", [1, 10, 200, messages.MAP_ENTRIES])
def test_everybody_reads_and_builds_the_same_map(entries: int) -> None:
    content = messages.map_content(entries)
    data = messages.map_message(content)
    assert len(content) == entries

    assert content == ours.read_value(data)
    assert content == ours.read_value(ours.build_value(content))
    modules, _ = peers.load(*peers.PEERS)
    for peer, loaded in modules.items():
        if peer is peers.MSGSPEC:
            assert content == loaded.read_map(loaded.encode(content))
        else:
            keys: Callable[[Any], Any] = bytes.decode if peer is peers.AZURE else str
            read = {keys(key): value for key, value in loaded.read_value(data).items()}
            assert content == read
            assert content == ours.read_value(bytes(loaded.build_value(content)))


def test_every_filter_lets_the_message_pass() -> None:
    assert [] == [name for name, call in filters.contenders() if call() is not True]


def test_the_general_message_breaks_nothing_and_the_broken_one_two_rules() -> None:
    message = Message.decode(messages.GENERAL)

    assert message.application_properties is not None
    kinds = {type(value) for value in message.application_properties.values()}
    assert len(kinds) == 12 == len(message.application_properties)
    assert [] == validate(messages.GENERAL) == validate(messages.GENERAL, "rabbitmq-4")
    assert len(validate(uses.BROKEN)) == 2


def test_proton_is_filled_with_the_general_message() -> None:
    made = bytes(module(peers.PROTON).build_general().encode())

    assert Message.decode(messages.GENERAL) == Message.decode(made)


# The harness.


def test_every_round_calls_everybody_in_an_order_that_changes() -> None:
    order: list[str] = []
    contenders = [Contender(name, partial(order.append, name)) for name in "abc"]

    timings = harness.measure(contenders, Effort(rounds=20, batch_ms=0))

    assert order[:3] == ["a", "b", "c"]  # the calls that size the batches
    assert order[3::2] == order[4::2]  # the call that warms up, and the one that is timed
    rounds = [order[start : start + 6 : 2] for start in range(3, len(order), 6)]
    assert len(rounds) == 20
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len({tuple(one) for one in rounds}) > 3
    assert [entry.name for entry in timings.entries] == ["a", "b", "c"]
    assert {20} == {len(entry.rounds) for entry in timings.entries}


def test_a_measurement_of_starts_warms_nothing_up() -> None:
    calls: list[None] = []

    harness.measure(
        [Contender("only", lambda: calls.append(None))],
        Effort(rounds=4, batch_ms=0, warm_up=False),
    )

    assert len(calls) == 1 + 4


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_off_while_the_clock_runs_and_then_as_before(enabled: bool) -> None:
    seen: list[bool] = []
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        harness.measure(
            [Contender("only", lambda: seen.append(gc.isenabled()))], Effort(rounds=2, batch_ms=0)
        )
        after = gc.isenabled()
    finally:
        (gc.enable if before else gc.disable)()

    assert seen[1:] == [False] * 4  # a warm-up and a timed call in each round
    assert enabled == after


@pytest.mark.parametrize("frozen", [True, False])
def test_what_the_collector_leaves_out_stays_so(frozen: bool) -> None:
    before = gc.get_freeze_count() > 0
    (gc.freeze if frozen else gc.unfreeze)()
    try:
        harness.measure([Contender("only", int)], Effort(rounds=1, batch_ms=0))
        after = gc.get_freeze_count() > 0
    finally:
        (gc.freeze if before else gc.unfreeze)()

    assert frozen == after


def test_a_batch_lasts_as_long_as_asked_by_the_clock_and_gives_the_time_of_one_call() -> None:
    calls: list[None] = []
    microsecond = Contender("a microsecond", lambda: calls.append(None))

    timings = harness.measure(
        [microsecond], Effort(rounds=3, batch_ms=1), lambda: 1000 * len(calls)
    )

    assert list(timings.entries[0].rounds) == [1000.0] * 3
    # 1, 4, 16, 64, 128 and 256 calls to size the batch, then a warm-up and a batch, three times.
    assert len(calls) == 469 + 3 * (1 + 1000)


def test_the_figure_is_the_median_and_ratios_are_relative_to_the_first() -> None:
    timings = Timings((timing("us", 10, 30, 20), timing("peer", 100, 50, 40)))

    assert timings.entries[0].median == 20
    assert timings.entries[0].best == 10
    assert timings.times("peer") == 2.5
    assert timings.share("peer") == 0.4
    assert timings.times("absent") is None
    assert timings.share("absent") is None


def test_the_spread_is_the_distance_between_the_quartiles() -> None:
    assert timing("five", 1, 2, 3, 4, 5).spread == pytest.approx(2 / 3)
    assert timing("one", 7).spread == 0


# The figures.


#: Those that take a SparkSession are below.
ALONE = {key: run for key, run in command.FIGURES.items() if not key.startswith("pipeline-")}


#: The tests of these figures go to one worker, which runs each of them once.
MEASURED = pytest.mark.xdist_group("figures")


@pytest.fixture(scope="module")
def figures() -> dict[str, report.Figure]:
    """Every figure, run as briefly as can be."""
    return {key: run(SMOKE) for key, run in ALONE.items()}


@MEASURED
@pytest.mark.parametrize("key", ALONE)
def test_a_figure_runs_and_puts_us_first(figures: dict[str, report.Figure], key: str) -> None:
    figure = figures[key]

    assert key == figure.key
    first = figure.timings.entries[0].name
    ours_alone = {"large-linear": "1 MiB", "node": "plain, 1,000 queued"}
    assert first == ours_alone.get(key, ours.NAME)
    assert all(entry.median > 0 for entry in figure.timings.entries)


@MEASURED
@pytest.mark.parametrize("key", ALONE)
def test_a_figure_has_every_peer_or_a_line_on_how_to_install_it(
    figures: dict[str, report.Figure], key: str
) -> None:
    who = {
        "relay": {peers.PROTON},
        "pure": {peers.PROTON},
        "large-encode": {peers.PROTON, peers.MSGSPEC},
        "large-linear": set(),
        "filter": set(),
        "columns": {peers.PROTON},
        "columns-300": {peers.PROTON},
        "columns-validate": set(),
        "columns-encode": set(),
        "jobs-translate": set(),
        "jobs-translate-rabbitmq": set(),
        "jobs-validate": set(),
        "startup": set(),
        "node": set(),
        "serve": {peers.PROTON},
        "translate": set(),  # its peer is made of two, see below
        "validate": set(),
        "notation": set(),
        "change": set(),
        "translate-general": set(),
        "proton": set(),
    }.get(key, set(peers.PEERS))
    named = {entry.name for entry in figures[key].timings.entries}

    for peer in who:
        assert (peer.install in named) != any(
            f"pip install {peer.install}" in line for line in figures[key].left_out
        )


@MEASURED
def test_translation_comes_back_and_has_its_peer_or_says_what_is_missing(
    figures: dict[str, report.Figure],
) -> None:
    assert translation.HEADER == translation.back(translation.forth())
    figure = figures["translate"]
    named = {entry.name for entry in figure.timings.entries}
    assert (translation.PEER in named) != bool(figure.left_out)


@MEASURED
def test_the_floors_are_those_that_were_promised(figures: dict[str, report.Figure]) -> None:
    floors = {
        key: [floor.at_least or floor.at_most for floor in figure.floors]
        for key, figure in figures.items()
        if figure.floors
    }

    brokers = 1 + ("AMQP10MSG_RABBITMQ" in os.environ)  # proton's, and RabbitMQ
    if find_spec("pyarrow") is not None:
        assert [100, 6, 2.5] == floors.pop("columns") == floors.pop("columns-300")
        assert [400_000] == floors.pop("columns-validate")
        assert [2, 2.5, 2.5] == floors.pop("columns-encode")
        assert [60_000] * 5 == floors.pop("jobs-translate")
        assert [60_000] * 10 == floors.pop("jobs-translate-rabbitmq")
        assert [400_000] * 2 == floors.pop("jobs-validate")
    assert floors == {
        "decode": [20, 7, 2.2],
        "encode": [9],
        "relay": [60],
        "pure": [3],
        "large-decode": [2, 1.1],
        "large-linear": [2],
        "filter": [3, 2],
        "startup": [60],
        "node": [1.5] * 4,
        "validate": [4, 4, 20],
        "change": [1, 1],
        "notation": [5, 10, 5, 5, *([2, 3] if find_spec("cbor2") else [])],
        "translate": [8],
        "translate-general": [8, 8, *[10] * 6] * 2,
        **({"proton": [1.3]} if "proton" in command.FIGURES else {}),
        **({"serve": [1] * brokers} if "serve" in command.FIGURES else {}),
    }


@pytest.mark.soak
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    "key, limits",
    [
        ("pipeline-decode", [1.6, 1.75, 1.0]),
        ("pipeline-parquet", [0.9]),
        ("pipeline-cores", [1.8]),
        ("pipeline-memory", [1.2]),
    ],
)
def test_a_figure_of_the_pipeline_runs(key: str, limits: list[float]) -> None:
    if key not in command.FIGURES:
        pytest.skip("needs pyspark and Java")

    figure = command.FIGURES[key](SMOKE)

    assert key == figure.key
    if key == "pipeline-decode":
        from bench.pipeline import built_jar  # noqa: PLC0415 - without pyspark it does not import

        limits = limits if built_jar() is None else [*limits, 1.0, 0.7]
    assert all(entry.median > 0 for entry in figure.timings.entries)
    assert limits == [floor.at_least or floor.at_most for floor in figure.floors]
    assert all(floor.measured is not None for floor in figure.floors)


def test_the_pure_figure_runs_in_an_interpreter_without_the_compiled_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from bench import pure  # noqa: PLC0415 - beside the other figures it is only a name

    monkeypatch.setattr(amqp10msg, "COMPILED", True)

    with pytest.raises(SystemExit, match="AMQP10MSG_PURE=1 had no effect"):
        pure.main()


def test_a_peer_that_is_not_installed_is_left_out() -> None:
    absent = peers.Peer("absent", "some-distribution")

    assert peers.load(absent) == (
        {},
        ("some-distribution is left out: pip install some-distribution",),
    )


# The report.


def floor(measured: float | None, **limits: Any) -> report.Floor:
    return report.Floor("promise", measured, **limits)


@pytest.mark.parametrize(
    "promise, met",
    [
        (floor(20.0, at_least=20), True),
        (floor(19.9, at_least=20), False),
        (floor(2.2, at_most=2.2), True),
        (floor(2.3, at_most=2.2), False),
        (floor(None, at_least=20), False),
        (floor(None, at_most=2.2), False),
    ],
)
def test_a_floor_is_met_where_it_was_measured_and_holds(promise: report.Floor, met: bool) -> None:
    assert met is promise.met


def test_a_floor_says_its_verdict() -> None:
    assert floor(25.04, at_least=20).judge(compiled=True) == "[met] promise: 25x"
    assert floor(8.0, at_least=20).judge(compiled=True) == "[MISSED] promise: 8x"
    assert floor(8.0, at_least=20).judge(compiled=False) == ("[for the compiled build] promise: 8x")
    assert floor(8.0, at_least=20, compiled_only=False).judge(compiled=False) == (
        "[MISSED] promise: 8x"
    )
    assert floor(None, at_least=20).judge(compiled=True) == "[not measured] promise"


@pytest.mark.parametrize(
    "nanoseconds, shown",
    [(850.4, "850 ns"), (2_345.0, "2.35 µs"), (16_000_000.0, "16 ms"), (2.5e9, "2.5 s")],
)
def test_a_duration_is_shown_in_a_unit_that_fits(nanoseconds: float, shown: str) -> None:
    assert shown == report.duration(nanoseconds)


@pytest.fixture
def missed() -> report.Figure:
    return report.Figure(
        key="example",
        title="An example",
        timings=Timings((timing(ours.NAME, 2000), timing("a peer", 30_000))),
        floors=(floor(15.0, at_least=20), floor(15.0, at_least=10)),
        left_out=("another is left out: pip install another",),
        remarks=("A remark.",),
    )


def test_the_text_shows_everybody_side_by_side(missed: report.Figure) -> None:
    lines = report.text(missed, compiled=True).splitlines()

    assert lines == [
        "An example",
        "               median      best   spread   takes",
        "  amqp10msg      2 µs      2 µs      0%       1x",
        "  a peer        30 µs     30 µs      0%      15x",
        "  [MISSED] promise: 15x",
        "  [met] promise: 15x",
        "  A remark.",
        "  another is left out: pip install another",
    ]


def test_the_markdown_is_one_table(missed: report.Figure) -> None:
    assert report.markdown([missed], {"CPython": "3.11"}).splitlines() == [
        "| | median | takes |",
        "|---|---:|---:|",
        "| **An example** | | |",
        "| amqp10msg | 2 µs | 1x |",
        "| a peer | 30 µs | 15x |",
        "",
        "CPython 3.11.",
    ]


def test_the_json_has_every_round_and_the_verdicts(missed: report.Figure) -> None:
    found = json.loads(json.dumps(report.as_json([missed], {})))["figures"]["example"]

    assert found["timings"]["a peer"] == {
        "median_ns": 30_000,
        "best_ns": 30_000,
        "spread": 0,
        "times_amqp10msg": 15,
        "rounds_ns": [30_000],
    }
    assert [verdict["met"] for verdict in found["floors"]] == [False, True]


def test_the_machine_names_the_build_and_the_versions() -> None:
    machine = report.machine()

    build = "compiled" if amqp10msg.COMPILED else "pure Python"
    assert f"{amqp10msg.__version__} ({build})" == machine["amqp10msg"]
    for peer in peers.PEERS:
        assert (peer.load() is not None) == (peer.install in machine)


# The command.


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch, missed: report.Figure) -> None:
    """The command with one figure, whose outcome is known."""
    monkeypatch.setattr(command, "FIGURES", {"example": lambda effort: missed})  # noqa: ARG005


@pytest.mark.usefixtures("one_figure")
def test_the_command_prints_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missed: report.Figure
) -> None:
    path = tmp_path / "found.json"

    status = command.main(["example", "--smoke", "--json", str(path)])

    printed = capsys.readouterr().out
    assert status == 0
    assert report.text(missed, amqp10msg.COMPILED) in printed
    assert list(json.loads(path.read_text())["figures"]) == ["example"]


@pytest.mark.usefixtures("one_figure")
def test_the_command_prints_markdown_and_nothing_else(
    capsys: pytest.CaptureFixture[str], missed: report.Figure
) -> None:
    assert command.main(["--markdown"]) == 0
    assert capsys.readouterr().out == report.markdown([missed], report.machine()) + "\n"


@pytest.mark.usefixtures("one_figure")
def test_check_fails_where_a_floor_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(amqp10msg, "COMPILED", True)

    assert command.main(["--check", "--smoke"]) == 1
    assert capsys.readouterr().err == "--check: [MISSED] promise: 15x\n"


def test_check_passes_where_every_floor_is_met(
    monkeypatch: pytest.MonkeyPatch, missed: report.Figure
) -> None:
    monkeypatch.setattr(amqp10msg, "COMPILED", True)
    met = report.Figure("example", "An example", missed.timings, floors=missed.floors[1:])
    monkeypatch.setattr(command, "FIGURES", {"example": lambda effort: met})  # noqa: ARG005

    assert command.main(["--check", "--smoke"]) == 0


@pytest.mark.usefixtures("one_figure")
def test_check_refuses_the_pure_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(amqp10msg, "COMPILED", False)

    assert command.main(["--check"]) == 1
    assert "AMQP10MSG_EXT=require" in capsys.readouterr().err


def test_an_unknown_figure_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["decoed"])

    assert caught.value.code == 2
    assert "no figure 'decoed'; there are decode, encode" in capsys.readouterr().err
