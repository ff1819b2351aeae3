"""Reloading the routes of a running bridge, and two bridges on the same queues."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pika")

from amqp10msg import Message
from amqp10msg.net.bridge import Bridge, LinkError, RouteSpec, Statistics
from amqp10msg.net.bridge import bridge as bridge_module
from amqp10msg.net.bridge.bridge import Changes
from amqp10msg.net.bridge.matcher import Matcher
from amqp10msg.net.bridge.process import status_of
from amqp10msg.net.bridge.records import Lease, Ledger
from amqp10msg.net.bridge.report import as_html, as_json
from amqp10msg.net.bridge.routes import apis_of, read_routes
from amqp10msg.net.bridge.statistics import Latency
from amqp10msg.net.ends.urls import parse_url
from amqp10msg.net.serve import Server
from tests.basic_broker import BasicBroker, running
from tests.bridging import Refusing, bodies, numbered, options
from tests.waiting import until, wait_until

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]
ROOT = Path(__file__).parents[2]


def spec(broker: BasicBroker, name: str, **given: Any) -> RouteSpec:
    """A route that is named after its queue."""
    how = options(**{"idle": None, **given})
    return RouteSpec(broker.url(f"queue={name}"), broker.url(f"queue=to-{name}"), how, name)


def run(made: Callable[[BasicBroker], Awaitable[Any]], names: str = "abc") -> tuple[Any, Any]:
    async def run() -> tuple[Any, Any]:
        async with BasicBroker(*names, *(f"to-{name}" for name in names)) as broker:
            return broker, await made(broker)

    return asyncio.run(run())


def test_reload_starts_new_routes_and_drains_removed_routes() -> None:
    async def made(broker: BasicBroker) -> Changes:
        for name in "ab":
            broker.queues[name].extend(numbered(10))
        async with Bridge([spec(broker, "a"), spec(broker, "b")]) as bridge:
            first, second = bridge.routes
            await until(lambda: len(broker.queues["to-b"]) == len(broker.queues["to-a"]) == 10)

            changes = bridge.reload([spec(broker, "b"), spec(broker, "c")])

            broker.queues["c"].extend(numbered(7))
            broker.serve()
            await until(lambda: len(broker.queues["to-c"]) == 7)
            await until(lambda: first.statistics.state == "ended")
            for name in "ab":
                broker.queues[name].extend(numbered(5))
            broker.serve()
            await until(lambda: len(broker.queues["to-b"]) == 15)
            assert second is bridge.routes[1]
            assert ["a", "b", "c"] == [one.name for one in bridge.specs]
        return changes

    broker, changes = run(made)

    assert Changes(started=("c",), stopped=("a",), kept=("b",)) == changes
    assert (5, 10) == (len(broker.queues["a"]), len(broker.queues["to-a"]))


def test_changed_route_is_replaced_after_draining() -> None:
    async def made(broker: BasicBroker) -> tuple[Changes, Statistics, str, str]:
        broker.queues["a"].extend(numbered(30))
        broker.refuses = Refusing("nack", lambda number: number >= 25)
        async with Bridge([spec(broker, "a", backoff=30, max_backoff=30)]) as bridge:
            (old,) = bridge.routes
            await until(lambda: old.statistics.accepted == 25 and old.statistics.held == 5)
            broker.refuses = lambda _: ""
            changed = spec(broker, "a", match=lambda basic: basic.body != b"29", unmatched="accept")

            changes = bridge.reload([changed])
            assert [old] == bridge.routes  # until it has drained

            await until(lambda: bridge.routes != [old])
            assert "ended" == old.statistics.state
            await until(lambda: not broker.queues["a"] and bridge.routes[0].statistics.settled == 5)
        counts = bridge.statistics
        page, text = (make(bridge.specs, counts) for make in (as_html, as_json))
        return changes, counts["a"], page, text

    broker, (changes, counts, page, text) = run(made)

    assert Changes(replaced=("a",)) == changes
    assert {b"%d" % number for number in range(29)} == set(bodies(broker.queues["to-a"]))
    assert (29, 1, 30) == (counts.accepted, counts.unmatched, counts.latency.cumulated()[-1])
    assert ">29<" in page
    assert '"accepted": 29' in text


def test_equal_filters_compare_equal() -> None:
    assert Matcher("a = 1") == Matcher("a = 1")
    assert Matcher("a = 1") != Matcher("a = 2")
    assert Matcher("a = 1") != Matcher("a = 1", "sql")


def test_reload_restarts_a_failed_route() -> None:
    async def made(broker: BasicBroker) -> tuple[Changes, Changes]:
        del broker.queues["to-a"]
        async with Bridge([spec(broker, "a"), spec(broker, "b")]) as bridge:
            await until(lambda: bridge.statistics["a"].state == "failed")
            old = bridge.routes[0]
            still = bridge.reload([spec(broker, "a"), spec(broker, "b")])
            await until(lambda: bridge.routes[0] is not old)
            await until(lambda: bridge.routes[0].statistics.state == "failed")
            broker.queues |= {"to-a": type(broker.queues["a"])(), "a": broker.queues["a"]}
            broker.queues["a"].extend(numbered(3))
            changes = bridge.reload([spec(broker, "a"), spec(broker, "b")])
            await until(lambda: len(broker.queues["to-a"]) == 3)
        return still, changes

    _, found = run(made)

    assert (Changes(started=("a",), kept=("b",)),) * 2 == found


def test_invalid_reload_changes_nothing() -> None:
    async def made(broker: BasicBroker) -> None:
        async with Bridge([spec(broker, "a")]) as bridge:
            with pytest.raises(ValueError, match="two routes have the name 'b'"):
                bridge.reload([spec(broker, "b"), spec(broker, "b", window=1)])
            with pytest.raises(ValueError, match="the URL of a management API must be like"):
                bridge.reload([spec(broker, "b", management="h:15672")])
            broker.queues["a"].extend(numbered(3))
            await until(lambda: len(broker.queues["to-a"]) == 3)
        with pytest.raises(RuntimeError, match="is not running"):
            bridge.reload([spec(broker, "b")])

    run(made)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from("abc"), st.integers(5, 6)), st.booleans()),
        max_size=5,
    )
)
def test_any_reloads_move_each_message_once(
    given: list[tuple[dict[str, int], bool]],
) -> None:
    """With and without waiting for the routes of the previous reload."""

    async def made(broker: BasicBroker) -> None:
        for name in "abc":
            broker.queues[name].extend(numbered(40))
        keeps = RouteSpec(broker.url("queue=d"), broker.url("queue=to-d"), options(idle=None), "d")
        async with Bridge([keeps]) as bridge:

            def windows() -> dict[str, int]:
                """Return the windows of the routes that run, by name."""
                return {
                    one.name: one.options.window
                    for one in bridge.routes
                    if one.name != "d" and one.statistics.state == "running"
                }

            for wanted, waits in [*given, (dict.fromkeys("abc", 7), False)]:
                specs = [spec(broker, name, window=window) for name, window in wanted.items()]
                bridge.reload([keeps, *specs])
                if waits:
                    await until(lambda: windows() == wanted)  # noqa: B023  (called here)
            await until(lambda: all(len(broker.queues[f"to-{name}"]) == 40 for name in "abc"))
            await until(lambda: windows() == dict.fromkeys("abc", 7))
        assert [40] * 3 == [bridge.statistics[name].accepted for name in "abc"]

    run(made, "abcd")


def test_sum_of_latencies() -> None:
    one, two = Latency(), Latency()
    one.add(0.002)
    two.add(70.0)

    assert [1, 1, 2] == [(one + two).cumulated()[at] for at in (1, -2, -1)]


@pytest.mark.parametrize("earlier", [None, 1.0])
@pytest.mark.parametrize("later", [None, 2.0])
def test_last_success_of_merged_statistics_is_the_latest(
    earlier: float | None, later: float | None
) -> None:
    merged = Statistics(last_success=later).after(Statistics(last_success=earlier))
    times = [time for time in (earlier, later) if time is not None]

    assert max(times, default=None) == merged.last_success


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_sighup_reloads_the_routes_file() -> None:
    broker = BasicBroker("a", "b", "to-a", "to-b")
    broker.queues["a"].extend(numbered(4))
    broker.queues["b"].extend(numbered(2))
    path = Path("routes.toml")

    def lines(*names: str) -> str:
        ends = (
            (name, broker.url(f"queue={name}"), broker.url(f"queue=to-{name}")) for name in names
        )
        return "".join(
            f"[[route]]\nname='{name}'\nfrom='{one}'\nto='{to}'\n" for name, one, to in ends
        )

    command = [sys.executable, "-m", "amqp10msg", "bridge", "--config", "routes.toml"]
    command += ["--report", "r.json"]
    with running(broker):
        path.write_text(lines("a"))
        with subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            assert process.stderr is not None
            wait_until(lambda: len(broker.queues["to-a"]) >= 4 or process.poll() is not None)

            path.write_text(lines("a") + "[[route]]\nfrom='amqp091://h/?queue=q'\n")
            process.send_signal(signal.SIGHUP)
            refused = next((line for line in process.stderr if "routes-" in line), "")
            path.write_text(lines("a", "b"))
            process.send_signal(signal.SIGHUP)
            read = next((line for line in process.stderr if "routes-" in line), "")
            wait_until(lambda: len(broker.queues["to-b"]) >= 2 or process.poll() is not None)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate()
            watchdog.cancel()

    assert "routes-refused why=routes.toml: route 2: it has no 'to'" in refused
    assert "ERROR" in refused
    assert "routes-read started=['b'] replaced=[] stopped=[] kept=['a']" in read
    assert 0 == process.returncode
    assert ["a", "b"] == [line.split()[0] for line in output.splitlines()[-2:]]


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="there are no signal masks")
@pytest.mark.parametrize("config", [False, True])
def test_sighup_during_the_imports_does_not_end_the_process(config: bool) -> None:
    """The new process inherits the blocked signal, which the command blocks first as well."""
    broker = BasicBroker("a", "to-a")
    broker.queues["a"].extend(numbered(3))
    expected = "routes-read" if config else "hangup-ignored"
    with running(broker):
        source, target = broker.url("queue=a"), broker.url("queue=to-a")
        # The deadline ends a process that loses the signal; the test fails then.
        Path("routes.toml").write_text(
            f"[[route]]\nname='a'\nfrom='{source}'\nto='{target}'\ndeadline=30\n"
        )
        ends = ["--from", source, "--to", target, "--deadline", "30"]
        command = [sys.executable, "-m", "amqp10msg", "bridge"]
        command += ["--config", "routes.toml"] if config else ends
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        try:
            process = subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stderr=subprocess.PIPE,
                text=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        with process:
            process.send_signal(signal.SIGHUP)
            assert process.stderr is not None
            logged = next((line for line in process.stderr if expected in line), "")
            wait_until(lambda: len(broker.queues["to-a"]) >= 3 or process.poll() is not None)
            process.send_signal(signal.SIGTERM)
            process.communicate()

    assert expected in logged
    assert 0 == process.returncode
    assert 3 == len(broker.queues["to-a"])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux shows blocked signals")
def test_signals_are_blocked_before_the_imports() -> None:
    code = (
        "import sys; sys.argv = ['amqp10msg', 'bridge']\n"
        "from amqp10msg.__main__ import _prepare_process; _prepare_process()\n"
        "print(open('/proc/self/status').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    blocked = next(line.split()[1] for line in done.stdout.splitlines() if "SigBlk" in line)

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        assert int(blocked, 16) >> (number - 1) & 1, number


def test_reload_reads_password_files_again() -> None:
    Path("r.toml").write_text(
        "[[route]]\nfrom='amqp091://h/?queue=a'\nto='amqp091://h/?queue=b'\nname='r'\n"
        "management='http://u:${file:word}@h:15672'\n"
    )
    Path("word").write_text("0ld\n")
    (before,) = read_routes(Path("r.toml"))
    (same,) = read_routes(Path("r.toml"))
    Path("word").write_text("n3w\n")
    (after,) = read_routes(Path("r.toml"))

    assert before == same
    assert before != after
    (api,) = apis_of(after)
    assert ("n3w", True) == (api.password, api.is_exposed)
    for one in (before, after):
        assert "0ld" not in repr(one)
        assert "n3w" not in repr(one)
        assert "http://h:15672" in repr(one.options)


def test_renamed_route_keeps_its_state() -> None:
    """Its files have the position in a stream, and message-ids, under its name."""

    async def made(broker: BasicBroker) -> tuple[Changes, Any]:
        broker.streams["stream"] = numbered(20)

        def named(name: str) -> RouteSpec:
            how = options(idle=None, state="s.db", deduplicate="seen.db")
            return RouteSpec(
                broker.url("queue=stream&offset=first"), broker.url("queue=to-a"), how, name
            )

        async with asyncio.timeout(60), Bridge([named("old")]) as bridge:
            await until(lambda: len(broker.queues["to-a"]) == 20)
            changes = bridge.reload([named("new")])
            bridge.reload([named("new")])
            await until(lambda: len(bridge.routes) == 2)
            broker.streams["stream"] += numbered(30)[20:]
            broker.serve()
            await until(lambda: bridge.statistics["new"].accepted >= 10)
        return changes, bridge.statistics["new"]

    broker, (changes, counts) = run(made)

    assert Changes(started=("new",), stopped=("old",)) == changes
    assert [b"%d" % number for number in range(30)] == bodies(broker.queues["to-a"])
    assert (10, 0) == (counts.received, counts.duplicates)
    assert 30 == count_accepted(broker, "new", "to-a")


def count_accepted(broker: BasicBroker, route: str, queue: str) -> int:
    """Return the number of message-ids that the queue has accepted from the route."""
    target = str(parse_url(broker.url(f"queue={queue}")))
    with contextlib.closing(Ledger(Path("seen.db"), route, target, 1_000)) as ledger:
        return len(ledger)


def test_renamed_route_that_never_began_leaves_its_state_to_the_old_name() -> None:
    """A later route of that name would otherwise continue at the position of another stream."""

    async def made(broker: BasicBroker) -> Any:
        broker.streams["stream"] = numbered(20)
        broker.streams["other"] = numbered(30)

        def named(name: str, stream: str) -> RouteSpec:
            how = options(idle=None, state="s.db", deduplicate="seen.db")
            source = broker.url(f"queue={stream}&offset=first")
            return RouteSpec(source, broker.url(f"queue=to-{stream[0]}"), how, name)

        async with asyncio.timeout(60), Bridge([named("old", "stream")]) as bridge:
            await until(lambda: len(broker.queues["to-s"]) == 20)
            bridge.reload([named("new", "stream")])
            bridge.reload([])
            bridge.reload([named("new", "other")])
            await until(lambda: len(broker.queues["to-o"]) == 30)

    broker, _ = run(made, "so")

    assert [b"%d" % number for number in range(30)] == bodies(broker.queues["to-o"])
    assert 20 == count_accepted(broker, "old", "to-s")
    assert 30 == count_accepted(broker, "new", "to-o")


def test_name_given_to_another_route_before_it_began_takes_the_state_of_the_last() -> None:
    async def made(broker: BasicBroker) -> Any:
        broker.streams["stream"] = numbered(20)
        broker.streams["other"] = numbered(30)

        def named(name: str, stream: str) -> RouteSpec:
            how = options(idle=None, state="s.db", deduplicate="seen.db")
            source = broker.url(f"queue={stream}&offset=first")
            return RouteSpec(source, broker.url(f"queue=to-{stream[0]}"), how, name)

        first, second = named("first", "stream"), named("second", "other")
        async with asyncio.timeout(60), Bridge([first, second]) as bridge:
            await until(lambda: len(broker.queues["to-s"]) == 20)
            await until(lambda: len(broker.queues["to-o"]) == 30)
            bridge.reload([named("new", "stream"), second])
            await asyncio.sleep(0)  # the task that waits for the end of the first route begins
            bridge.reload([second])
            bridge.reload([named("new", "other")])
            await until(lambda: "new" in bridge.statistics)

    broker, _ = run(made, "so")

    assert 20 == count_accepted(broker, "first", "to-s")
    assert 0 == count_accepted(broker, "second", "to-o")
    assert 30 == count_accepted(broker, "new", "to-o")


def test_statistics_of_old_removed_routes_are_merged() -> None:
    async def made(broker: BasicBroker) -> Any:
        first = spec(broker, "b")
        async with asyncio.timeout(30), Bridge([first]) as bridge:
            for number in range(8):
                name = f"n{number}"
                broker.queues["a"].append(numbered(1)[0])
                one = RouteSpec(
                    broker.url("queue=a"), broker.url("queue=to-a"), first.options, name
                )
                bridge.reload([first, one])
                await until(lambda: len(broker.queues["to-a"]) == number + 1)  # noqa: B023
                bridge.reload([first])
                await until(lambda: bridge.statistics[name].state == "ended")  # noqa: B023
            bridge.reload([first])
            return bridge.statistics, bridge.specs

    with mock.patch.object(bridge_module, "_MAX_REMOVED_ROUTES", 3):
        _, (counts, specs) = run(made)

    assert ["b", "n5", "n6", "n7", "…"] == sorted(counts)
    assert 5 == counts["…"].accepted
    assert 8 == sum(one.accepted for one in counts.values())
    page, text = (make(specs, counts) for make in (as_html, as_json))
    assert '"name": "\\u2026"' in text
    assert ">…<" in page


@given(st.integers(0, 2_500), st.integers(0, 2_500), st.integers(0, 1_200))
def test_merged_losses_are_bounded_and_complete(one: int, other: int, shared: int) -> None:
    before, after = Statistics(), Statistics()
    for number in range(one):
        before.lose(f"headers['{number}']", "dropped")
    for number in range(other):
        after.lose(f"headers['{number + shared}']", "dropped")

    found = after.after(before).losses

    assert one + other == found.total()
    assert len(found) <= 1_001


# Two bridges.


def test_two_bridges_move_each_message_of_a_queue_once() -> None:
    async def made(broker: BasicBroker) -> list[int]:
        bridges = [Bridge([spec(broker, "a", idle=0.3, window=5)]) for _ in range(2)]
        async with bridges[0], bridges[1]:
            for bridge in bridges:
                await until(lambda: bridge.statistics["a"].state == "running")  # noqa: B023
            broker.queues["a"].extend(numbered(200))
            broker.serve()
            await until(lambda: len(broker.queues["to-a"]) == 200)
        return [bridge.statistics["a"].accepted for bridge in bridges]

    broker, taken = run(made)

    assert 200 == sum(taken)
    assert min(taken) >= 5
    assert sorted(bodies(broker.queues["to-a"])) == sorted(b"%d" % one for one in range(200))


def test_remaining_bridge_empties_a_shared_1_0_address() -> None:
    with Server(accept_durable=True) as server:

        async def made() -> list[int]:
            how = options(idle=None, window=5)
            ends = (f"{server.url}/a", f"{server.url}/b")
            bridges = [Bridge(*ends, how) for _ in range(2)]
            (one,), (other,) = (bridge._specs for bridge in bridges)
            assert one == other
            async with bridges[0]:
                async with bridges[1]:
                    for bridge in bridges:
                        (counts,) = bridge.statistics.values()
                        await until(lambda: counts.state == "running")  # noqa: B023
                    for number in range(100):
                        server.publish("a", Message(b"%d" % number))
                    await until(lambda: server.counts("b").available >= 20)
                # The second one is gone, and has given back what it had not sent.
                for number in range(100, 150):
                    server.publish("a", Message(b"%d" % number))
                await until(lambda: server.counts("b").available == 150)
            return [counts.accepted for one in bridges for counts in one.statistics.values()]

        taken = asyncio.run(made())
        found = {message.body_bytes() for message in server.messages("b")}

    assert 150 == sum(taken)
    assert min(taken) >= 5
    assert {b"%d" % number for number in range(150)} == found


# A stream has one reader: the lease.


def _stream(broker: BasicBroker, logger: Any = None, **given: Any) -> Bridge:
    how = options(**{"state": "s.db", "idle": None, **given})
    source = broker.url("queue=stream&offset=first")
    return Bridge([RouteSpec(source, broker.url("queue=to-a"), how, "r")], logger=logger)


def test_standby_bridge_takes_over_a_stream() -> None:
    async def made(broker: BasicBroker) -> tuple[int, int]:
        broker.streams["stream"] = numbered(20)
        first, second = _stream(broker), _stream(broker, idle=0.1, connect_timeout=10)
        async with first:
            await until(lambda: len(broker.queues["to-a"]) == 20)
            async with second:
                (counts,) = second.statistics.values()
                await until(lambda: counts.state == "another bridge runs it")
                assert not counts.is_ready
                first.stop()
                await first.run()
                broker.streams["stream"] += numbered(25)[20:]
                await second.run()
        return first.statistics["r"].accepted, second.statistics["r"].accepted

    broker, taken = run(made)

    assert (20, 5) == taken
    assert [b"%d" % number for number in range(25)] == bodies(broker.queues["to-a"])


@pytest.mark.parametrize("stopped", [False, True])
def test_standby_bridge_can_be_stopped_or_times_out(stopped: bool) -> None:
    async def made(broker: BasicBroker) -> str:
        broker.streams["stream"] = numbered(2)
        lease = Lease(Path("s.db"), "r")
        assert lease.acquire()
        given: dict[str, Any] = {} if stopped else {"idle": 0.1, "connect_timeout": 0.2}
        bridge = _stream(broker, **given)
        with contextlib.nullcontext() if stopped else pytest.raises(LinkError, match="another"):
            async with asyncio.timeout(60), bridge:
                (counts,) = bridge.statistics.values()
                await until(lambda: counts.state == "another bridge runs it")
                if stopped:
                    bridge.stop()
                await bridge.run()
        lease.release()
        assert lease.acquire()
        lease.release()
        return bridge.statistics["r"].state

    _, state = run(made)

    assert ("ended" if stopped else "failed") == state


@pytest.mark.parametrize("late", [False, True])
def test_standby_bridge_does_not_report_an_empty_source(late: bool) -> None:
    async def made(broker: BasicBroker) -> Any:
        broker.streams["stream"] = numbered(2)
        lease = Lease(Path("s.db"), "r")
        assert lease.acquire()
        given: dict[str, Any] = {"deadline": 0.2} if late else {}
        async with asyncio.timeout(60), _stream(broker, idle=0.1, **given) as bridge:
            (counts,) = bridge.statistics.values()
            await until(lambda: counts.state == "another bridge runs it")
            if not late:
                bridge.stop()
            await bridge.run()
        lease.release()
        return counts

    _, counts = run(made)

    assert ("deadline" if late else "stopped") == counts.ending
    assert 4 == status_of([counts])


def test_route_with_unusable_files_fails_and_can_be_reloaded() -> None:
    async def made(broker: BasicBroker) -> tuple[bool, tuple[str, ...]]:
        broken, other = spec(broker, "a", deduplicate="none/x.db"), spec(broker, "b")
        async with asyncio.timeout(60), Bridge([broken, other]) as bridge:
            counts = bridge.statistics["a"]
            await until(lambda: counts.failed)
            changes = bridge.reload([spec(broker, "a"), other])
            await until(lambda: bridge.statistics["a"].state == "running")
            bridge.stop()
            await bridge.run()
        return counts.failed, changes.started

    _, found = run(made)

    assert (True, ("a",)) == found


def test_unusable_state_file_is_named() -> None:
    async def made(broker: BasicBroker) -> tuple[Any, tuple[str, ...]]:
        broker.streams["stream"] = numbered(2)
        bridge = _stream(broker, state="none/s.db")
        await bridge.__aenter__()
        (counts,) = bridge.statistics.values()
        await until(lambda: counts.failed)
        with pytest.raises(OSError, match=r"^none/s\.db: "):
            await bridge.run()
        return counts, (counts.state, counts.ending)

    _, (counts, found) = run(made)

    assert ("failed", "failed") == found
    assert not counts.is_ready


def test_killed_bridge_releases_its_lease() -> None:
    program = (
        "import time; from pathlib import Path; from amqp10msg.net.bridge.records import Lease\n"
        "print(Lease(Path('s.db'), 'r').acquire(), flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        # The file is closed with the process, whatever the garbage collector does there.
        assert "True" == process.stdout.readline().strip()
        mine, other = Lease(Path("s.db"), "r"), Lease(Path("s.db"), "another route")
        assert not mine.acquire()
        assert other.acquire()
        process.kill()
        process.wait()
        assert mine.acquire()
        mine.release()
        other.release()
