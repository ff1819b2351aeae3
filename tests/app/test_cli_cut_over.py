"""``amqp10msg migrate``: it reports "done" only if every message is accounted for."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("jinja2")
pytest.importorskip("pika")

from amqp10msg.basic import (  # noqa: E402
    BasicProperties,
    FieldTable,
    encode_content_header,
)
from amqp10msg.net.bridge import (  # noqa: E402
    RouteSpec,
    SourceDelivery,
    Statistics,
)
from amqp10msg.net.bridge.fingerprints import digest_of  # noqa: E402
from amqp10msg.net.bridge.management import Management, Queue, queues_of  # noqa: E402
from amqp10msg.net.bridge.topology import Step  # noqa: E402
from amqp10msg.net.ends.urls import parse_url  # noqa: E402
from amqp10msg.net.migrate import migration  # noqa: E402
from amqp10msg.net.migrate.migration import Moved, status_of  # noqa: E402
from tests.basic_broker import BasicBroker, Stored, running  # noqa: E402
from tests.bridging import numbered, short_waits  # noqa: E402
from tests.cut_over import OTHERS, Cut, cut, cut_of_a_stream  # noqa: E402
from tests.management_api import management  # noqa: E402

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    short_waits(monkeypatch, management_lag=0.05, query_interval=0.1, count_lag=0.3)


def test_complete_move_is_done_and_report_has_a_signature_field() -> None:
    with cut() as found:
        done = found.run()

    assert "done: 2 queues" == done.output.splitlines()[-1]
    assert ["/api/queues/%2F/a", "/api/queues/%2F/b"] == [path for _, path, _ in found.made]
    assert [10, 10] == [len(found.new.queues[name]) for name in "ab"]
    for one in found.queues():
        assert (10, 10, 0, 0, []) == tuple(
            one[key] for key in ("received", "accepted", "aside", "left", "losses")
        )
        assert (0, 10, 10, 10, []) == tuple(
            one[key] for key in ("at_target_before", "at_target_after", "compared", "found", "open")
        )
        assert [{"kind": "queue", "name": one["name"], "state": "made", "notes": []}] == one[
            "declared"
        ]
    page = Path("r.html").read_text()
    assert "Not accounted for" not in page
    assert all(word in page for word in ("Signed", "signature", ">10 of 10<"))
    assert "guest" not in page


def test_dry_run_changes_nothing_and_shows_the_plan() -> None:
    with cut() as found:
        done = found.run("--all-queues", "a", "--dry-run")

        assert ([], 10, 0) == (found.made, len(found.old.queues["a"]), len(found.new.queues["a"]))
    assert [
        "queue a, classic: is missing at the target",
        "a: 10 messages read and returned; none would lose data",
    ] == done.output.splitlines()
    assert not Path("r.json").exists()


def test_a_dry_run_that_cannot_read_a_queue_has_status_1() -> None:
    with cut() as found:
        del found.old.queues["b"]
        done = found.run("--dry-run", status=1)

    assert "a: 10 messages read and returned; none would lose data" in done.output.splitlines()
    assert any(line.startswith("b: not read: ") for line in done.output.splitlines())


def _loses(new: BasicBroker, stored: Stored) -> str:
    """Drop the first seven messages, although they were confirmed."""
    if stored.body == b"7":
        new.queues["a"].pop()
    return ""


def _changes(new: BasicBroker, stored: Stored) -> str:
    if stored.body == b"7":
        new.queues["a"].append(attrs.evolve(new.queues["a"].pop(), body=b"x"))
    return ""


def _adds(new: BasicBroker, stored: Stored) -> str:
    if stored.body == b"7":
        new.queues["a"].append(stored)
    return ""


@pytest.mark.parametrize(
    "does, said",
    [
        (_loses, ["a: the target accepted 10 messages, but has 9 more than before",
                  "a: 1 of 10 compared messages are not at the target"]),
        (_changes, ["a: 1 of 10 compared messages are not at the target"]),
        (_adds, ["a: the target accepted 10 messages, but has 11 more than before"]),
    ],
)  # fmt: skip
def test_messages_missing_at_the_target_are_detected(
    does: Callable[[BasicBroker, Stored], str], said: list[str]
) -> None:
    with cut(names=("a",)) as found:
        found.new.refuses = lambda stored: does(found.new, stored)
        done = found.run(status=6)

    assert [*said, "not done: 1 of 1 queue open"] == done.output.splitlines()[-len(said) - 1 :]
    assert "Not accounted for" in Path("r.html").read_text()
    assert not json.loads(Path("r.json").read_text())["done"]


def test_messages_held_by_other_consumers_are_not_done() -> None:
    with cut(held=2, names=("a",)) as found:
        done = found.run("--stall", "0.5", status=3)

    assert "a: 2 messages are held by other consumers of the source" in done.output.splitlines()
    assert 2 == found.queues()[0]["held_by_others"]


def test_quarantined_messages_are_counted_and_reported() -> None:
    with cut(names=("a",)) as found:
        found.new.refuses = lambda stored: "nack" if stored.body == b"3" else ""
        done = found.run("--patience", "0", status=5)
        again = found.run("--patience", "0", "--accept-quarantine")

    assert ["a: 1 message in quarantine: nacked", "done: 1 queue"] == done.output.splitlines()[-2:]
    assert "done: 1 queue" in again.output  # of nothing, as it is there already


def test_stream_migration_can_be_repeated_with_and_without_new_messages() -> None:
    with cut_of_a_stream() as found:
        first = found.run()
        again = found.run()
        nothing = found.queues()[0]
        found.old.streams["s"] += numbered(13)[10:]
        later = found.run()
        some = found.queues()[0]

        assert [b"%d" % one for one in range(13)] == [one.body for one in found.new.streams["s"]]
    for one in (first, again, later):
        assert "done: 1 queue" == one.output.splitlines()[-1]
    keys = ("at_source_before", "accepted", "at_target_before", "at_target_after", "found")
    assert [0, 0, 10, 10, 0] == [nothing[key] for key in keys]
    assert [3, 3, 10, 13, 3] == [some[key] for key in keys]


def test_stream_that_loses_later_messages_is_not_done() -> None:
    with cut_of_a_stream() as found:
        found.run()
        found.old.streams["s"] += numbered(13)[10:]
        new = found.new

        def changes(stored: Stored) -> str:
            if stored.body == b"12":
                new.streams["s"][-1] = attrs.evolve(new.streams["s"][-1], body=b"0")
            return ""

        new.refuses = changes
        done = found.run(status=6)

    assert "s: 1 of 3 compared messages are not at the target" in done.output.splitlines()


@pytest.mark.parametrize("what", ["aside", "there", "apart"])
def test_older_copies_at_the_target_do_not_count(what: str) -> None:
    """One in the file of the quarantine, or at the target, since an earlier run."""
    with cut(names=("a",)) as found:
        if what == "aside":
            found.new.refuses = lambda stored: "nack" if stored.body == b"3" else ""
            found.run("--patience", "0", status=5)
        elif what == "there":
            found.run()
        for queue in (found.old.queues["a"], *([found.new.queues["a"]] if what == "aside" else [])):
            queue.clear()
        found.old.queues["a"].extend(numbered(10))
        new = found.new

        def changes(stored: Stored) -> str:
            if stored.body == b"0":  # the last one; what came as 3 is another message afterwards
                place = max(at for at, one in enumerate(new.queues["a"]) if one.body == b"3")
                new.queues["a"][place] = attrs.evolve(new.queues["a"][place], body=b"x")
            return "nack" if what == "aside" and stored.body == b"7" else ""

        new.refuses = changes
        done = found.run("--patience", "0", "--accept-quarantine", status=6)

    assert "a: 1 of 10 compared messages are not at the target" in done.output.splitlines()


def test_deduplicated_messages_of_an_earlier_run_are_found_at_the_target() -> None:
    with cut(names=("a",)) as found:
        found.run("--deduplicate", "seen.db")
        found.old.queues["a"].extend(numbered(12))
        done = found.run("--deduplicate", "seen.db")

    assert "done: 1 queue" == done.output.splitlines()[-1]
    assert (2, 12) == (found.queues()[0]["accepted"], found.queues()[0]["found"])


def test_reordered_queue_is_compared_completely() -> None:
    """Priorities change the order, as do quorum queues that requeue messages at the end."""
    with cut(names=("a",)) as found:
        found.old.queues["a"].extend(numbered(2_000)[10:])
        new = found.new

        def sorts(stored: Stored) -> str:
            if stored.body == b"1999":
                new.queues["a"].reverse()
            return ""

        new.refuses = sorts
        done = found.run("--sample", "10")

    assert "done: 1 queue" == done.output.splitlines()[-1]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once the routes have ended, before the brokers are compared."""
    depth_after = migration.depth_after

    async def later(one: Moved) -> int | None:
        act()
        return await depth_after(one)

    monkeypatch.setattr(migration, "depth_after", later)


def test_messages_published_after_the_route_ended_are_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with cut(names=("a",)) as found:
        meanwhile(monkeypatch, lambda: found.old.queues["a"].extend(numbered(3)))
        done = found.run(status=3)

    assert "a: 3 messages arrived at the source after its route ended" in done.output.splitlines()
    assert 3 == found.queues()[0]["at_source_after"]


@pytest.mark.parametrize("earlier_runs", [0, 1])
def test_stream_messages_published_after_the_route_ended_are_not_done(
    earlier_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cut_of_a_stream() as found:
        for _ in range(earlier_runs):
            found.run()
        with monkeypatch.context() as patch:
            meanwhile(patch, lambda: found.old.streams["s"].extend(numbered(13)[10:]))
            done = found.run(status=3)
        first = found.queues()[0]
        again = found.run()

        assert [b"%d" % one for one in range(13)] == [one.body for one in found.new.streams["s"]]
    assert "s: 3 messages arrived at the source after its route ended" in done.output.splitlines()
    assert (3, 10) == (first["at_source_after"], first["route"]["position"])
    assert "done: 1 queue" == again.output.splitlines()[-1]


def test_a_stream_redeclared_after_its_route_ended_is_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with cut_of_a_stream() as found:
        meanwhile(monkeypatch, lambda: found.old.streams["s"].__setitem__(slice(5, None), []))
        done = found.run(status=1)

    assert "the stream ends at position 5, and was read up to 10" in done.output


@pytest.mark.parametrize(
    "auto_delete, messages, status", [(False, 0, 3), (True, 2, 3), (True, 0, 0)]
)
def test_queue_declared_during_the_move_is_reported(
    auto_delete: bool, messages: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cut(names=("a",)) as found:
        row = {**found.rows[0], "name": "new", "auto_delete": auto_delete}
        meanwhile(monkeypatch, lambda: found.rows.append({**row, "messages": messages}))
        done = found.run(status=status)

    said = f"new: {migration.NEW_QUEUE_REPORT}"
    last = "not done: 1 of 2 queues open" if status else "done: 1 queue"
    assert (bool(status), last) == (said in done.output, done.output.splitlines()[-1])
    assert (["new"] if status else []) == json.loads(Path("r.json").read_text())["came"]
    assert (said.partition(": ")[2] in Path("r.html").read_text()) == bool(status)


def test_a_source_that_cannot_be_listed_at_the_end_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone(*_: Any) -> Any:
        raise OSError("no answer")

    with cut(names=("a",)) as found:
        meanwhile(monkeypatch, lambda: monkeypatch.setattr(Management, "queues", gone))
        done = found.run(status=3)

    assert "other queues: could not be listed at the end: no answer" in done.output
    assert 10 == found.queues()[0]["accepted"]


def test_duplicates_after_a_lost_connection_are_reported() -> None:
    with cut(names=("a",)) as found:
        loop, lost = found.old._server.get_loop(), threading.Event()

        def loses(stored: Stored) -> str:
            if stored.body == b"5" and not lost.is_set():
                loop.call_soon_threadsafe(found.old.cut)
                loop.call_soon_threadsafe(lost.set)
                assert lost.wait(10)
            return ""

        found.new.refuses = loses
        done = found.run(status=6)
        taken = len(found.new.queues["a"])

    assert 10 < taken
    assert (
        f"a: 10 messages were at the source before the move, but {taken} were moved: the "
        "connection to the source was lost, and some messages may be at the target twice"
    ) in done.output.splitlines()


def test_disappearing_queues_do_not_hide_others_in_the_list() -> None:
    usual = {"type": "classic", "durable": True, "arguments": {}}

    class Churning(list[dict[str, Any]]):
        listings = 0

        def __getitem__(self, place: Any) -> Any:
            if place.start == 0:
                self.listings += 1
                self[0] = {**usual, "name": f"amq.gen-{self.listings}", "auto_delete": True}
            return list.__getitem__(self, place)

    rows = Churning({**usual, "name": name} for name in ("amq.gen-0", "a", "b"))
    with management(rows) as api:
        listed = queues_of(Management(api, parse_url("amqp091://guest:guest@localhost/")))

    assert ["a", "amq.gen-2", "b"] == [queue.name for queue in listed]


def test_exclusive_queue_is_reported_as_not_moved() -> None:
    old, new = BasicBroker("a"), BasicBroker("a")
    usual = {"type": "classic", "durable": True, "arguments": {}, "messages_unacknowledged": 0}
    rows = [{"name": "a", **usual}, {"name": "mine", **usual, "exclusive": True}]
    with (
        running(old),
        running(new),
        management(rows, others=OTHERS) as one,
        management(rows[:1], others=OTHERS) as other,
    ):
        done = Cut(old, new, (one, other)).run()

    assert "mine: not moved: exclusive" in done.output


@pytest.mark.parametrize("page", [0, 1])
def test_queue_deleted_during_listing_hides_no_other(page: int) -> None:
    """It is on a page that was read, and moves the first queue of the next page to that one."""

    class Going(list[dict[str, Any]]):
        def __getitem__(self, place: Any) -> Any:
            found = list.__getitem__(self, place)
            if place.start == page and next(iter(self))["name"] == "0":
                del self[0]
            return found

    old, new = BasicBroker("a", "b"), BasicBroker("a", "b")
    for name in "ab":
        old.queues[name].extend(numbered(10))
    usual = {"type": "classic", "durable": True, "arguments": {}, "messages_unacknowledged": 0}
    rows = Going({"name": name, **usual} for name in "0ab")
    with (
        running(old),
        running(new),
        management(rows, others=OTHERS) as one,
        management(rows[1:], others=OTHERS) as other,
    ):
        done = Cut(old, new, (one, other)).run()

    assert "done: 2 queues" == done.output.splitlines()[-1]
    assert [10, 10] == [len(new.queues[name]) for name in "ab"]


def test_failed_declaration_is_not_done() -> None:
    with cut(names=("refused",)) as found:
        done = found.run(status=6)

    assert "refused: queue refused was refused" in done.output.splitlines()
    assert "no such" in Path("r.html").read_text()


def test_unusable_target_is_not_done() -> None:
    with cut() as found:
        del found.new.queues["a"]
        done = found.run(status=1)

    assert "not done: 1 of 2 queues open" == done.output.splitlines()[-1]
    assert any("no queue 'a'" in line for line in done.output.splitlines())
    assert 10 == len(found.new.queues["b"])


# What is open.


def moved(**given: Any) -> Moved:
    """A completely moved queue of three messages, except for the given attributes."""
    counts = {"asked": True, "remaining": 0, "unacknowledged": 0, "received": 3, "accepted": 3}
    made = Moved(
        Queue("q"),
        RouteSpec("amqp091://h/?queue=q", "amqp091://i/?queue=q", name="q"),
        *([Step("queue", "q", state="made")], None, 3, 4, 7, 0),
    )
    made.sample_digests.update([b"1", b"2"])
    made.found_count = 2
    for name in set(given) & {one.name for one in attrs.fields(Moved)}:
        setattr(made, name, given.pop(name))
    made.counts = Statistics(**{**counts, **given})
    return made


def test_complete_queue_has_no_open_points() -> None:
    assert ([], 0) == (moved().open_issues(), status_of([moved()]))


@pytest.mark.parametrize(
    "given, status",
    [
        ({"remaining": 1}, 3),
        ({"remaining": None}, 3),
        ({"unacknowledged": 2}, 3),
        ({"unacknowledged": None}, 3),
        ({"asked": False, "remaining": None}, 3),
        ({"left": 1}, 3),
        ({"missed": 1}, 6),
        ({"fault": "away"}, 1),
        ({"source_before": None}, 6),
        ({"source_before": 4}, 6),
        ({"target_before": None}, 6),
        ({"target_after": None}, 6),
        ({"target_after": 8}, 6),
        ({"source_after": 1}, 3),
        ({"source_after": None}, 6),
        ({"source_before": 2, "source_lost": 1}, 6),
        ({"found_count": None}, 6),
        ({"found_count": 1}, 6),
        ({"steps": [Step("queue", "q", state="differs")]}, 6),
        ({"steps": [Step("exchange", "e", state="refused")]}, 6),
        ({"steps": [Step("queue", "q", state="none")]}, 6),
    ],
)
def test_unknown_counts_are_open_points(given: dict[str, Any], status: int) -> None:
    one = moved(**given)

    assert one.open_issues()
    assert status == status_of([moved(), one])


@pytest.mark.parametrize(
    "name, status, status_if_accepted", [("quarantined", 5, 0), ("rejected", 5, 5)]
)
def test_only_quarantined_messages_can_be_accepted(
    name: str, status: int, status_if_accepted: int
) -> None:
    one = moved(**{name: Counter(fatal=1), "accepted": 2, "target_after": 6})

    assert status == status_of([one])
    assert status_if_accepted == status_of([one], accept_quarantine=True)


@given(st.binary(max_size=20), st.integers(1, 30), st.booleans())
def test_digest_ignores_delivery_annotations(body: bytes, count: int, offset: bool) -> None:
    headers = [("x", "S", "y"), ("a", "I", 1)]
    added = [*headers, ("x-delivery-count", "l", count)]
    added += [("x-stream-offset", "l", count)] if offset else []

    def digest(rows: list[Any], body: bytes = body) -> bytes | None:
        properties = BasicProperties(headers=FieldTable.of(rows), delivery_mode=2)
        header = encode_content_header(properties, len(body))
        return digest_of(SourceDelivery(body, header), stream=offset)

    assert digest(headers) == digest(added)
    assert digest(headers) == digest(headers[::-1])  # RabbitMQ 4 sorts them
    assert digest(headers) != digest([("x", "S", "z")])
    assert digest(headers) != digest(headers, body + b"\0")
