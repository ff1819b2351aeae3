"""The harness that measures, what is reported of it, and the command. Nothing here is a time."""

from __future__ import annotations

import gc
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import amqp10msg
from bench import __main__ as command
from bench import harness, ours, peers, report
from bench.harness import Contender, Effort, Timing, Timings

pytestmark = pytest.mark.once


def timing(name: str, *rounds: float) -> Timing:
    return Timing(name, rounds)


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
