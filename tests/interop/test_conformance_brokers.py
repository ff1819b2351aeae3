"""Live brokers held to the corpus: our own server, and one that does whatever it is told."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from amqp10msg import Header, Message, Properties, ULong
from amqp10msg.app.cli import main
from amqp10msg.interop.conformance import PeerError, facets_of, load, markdown
from amqp10msg.interop.conformance.brokers import VERDICTS, is_broker_case, run_broker
from amqp10msg.interop.corpus import Case, Fault
from amqp10msg.net.serve import Server
from amqp10msg.notation import to_typed
from tests.net import odd_broker
from tests.rabbitmq import BROKER, channels
from tests.samples import corpus_cases

CASES = [case for case in corpus_cases() if is_broker_case(case)]
BROKEN = Message("x").encode()[:-1]

#: What becomes of a message with such a subject: verdict, outcome, facets.
EXPECTED: dict[str, tuple[str, str, dict[str, bool]]] = {
    "pass": ("identical", "pass", {"unchanged": True, "read": True, "kept": True}),
    "annotate": ("bare", "pass", {"unchanged": True, "read": True, "kept": True}),
    "encode": ("re-encoded", "fail", {"unchanged": False, "read": True, "kept": True}),
    "change": ("changed", "fail", {"unchanged": False, "read": True, "kept": False}),
    "reject": ("refused", "fail", {"read": False}),
    "detach": ("refused", "fail", {"read": False}),
    "session": ("died", "crash", {"read": False}),
    "close": ("died", "crash", {"read": False}),
    "cut": ("died", "crash", {"read": False}),
    "poison": ("died", "crash", {"read": False}),
    "silence": ("died", "crash", {"read": False}),
    "lose": ("lost", "fail", {"read": False}),
}


def case(name: str, data: bytes, **changes: Any) -> Case:
    attributes: dict[str, Any] = {
        "id": name,
        "kind": "message",
        "data": data,
        "typed": None,
        "compact": None,
        "clause": "Part 3, 3.2",
        "origin": "this test",
    }
    return Case(**{**attributes, **changes})


def told(what: str, **changes: Any) -> Case:
    """Return a message that tells the odd broker what to do with it."""
    message = Message("x", properties=Properties(subject=what), **changes)
    return case(what, message.encode(), typed=to_typed(message))


def test_every_verdict_is_found_and_the_run_goes_on() -> None:
    cases = [told(what) for what in EXPECTED]
    after = [told("pass"), *cases[::-1]]
    for timeout in (0.7, 5):  # seconds: the second time, on a machine that does much else
        with odd_broker.running() as (url, _):
            found = run_broker(f"{url}/q{{n}}", [*cases, *after], timeout=timeout)
        results = {one.case: one for one in found.results}
        if {name: one.verdict for name, one in results.items()} == {
            name: verdict for name, (verdict, _, _) in EXPECTED.items()
        }:
            break

    assert ("odd-1.0", "Odd 1.0, live") == (found.peer, found.name)
    assert EXPECTED == {
        name: (one.verdict, one.outcome, dict(one.facets)) for name, one in results.items()
    }
    assert {one for one, _, _ in EXPECTED.values()} == VERDICTS.keys() - {"expired"}
    assert "amqp:not-allowed it says so itself" in results["reject"].reason
    assert "amqp:decode-error" in results["detach"].reason
    assert "amqp-value is " in results["change"].reason
    assert results["poison"].reason.endswith("; later receivers of the queue failed, too")
    assert not any("secret" in one.reason for one in found.results)


def test_invalid_message_may_be_refused_or_passed_on() -> None:
    wrong = {"typed": None, "error": Fault("truncated", 5)}
    cases = [case("broken", BROKEN, **wrong)]
    cases += [
        case(what, told(what).data, **wrong) for what in ("reject", "detach", "cut", "change")
    ]
    with odd_broker.running() as (url, _):
        found = run_broker(f"{url}/q", cases, timeout=2)

    assert {
        "broken": ("identical", "pass", {"unchanged": True}),
        "reject": ("refused", "pass", {"refused": True}),
        "detach": ("refused", "pass", {"refused": True}),
        "cut": ("died", "crash", {}),
        "change": ("changed", "note", {}),
    } == {one.case: (one.verdict, one.outcome, dict(one.facets)) for one in found.results}


@pytest.mark.parametrize("where", ["delivery_annotations", "message_annotations", "footer"])
def test_annotations_with_keys_of_the_specification_may_be_refused(where: str) -> None:
    """Part 3, 3.2.10: who does not know a key detaches, but of keys that begin with x-opt."""
    cases = [told("reject", **{where: {"known": 1}}), told("detach", **{where: {"x-opt-a": 1}})]
    cases.append(told("annotate", **{where: {ULong(1): 1}}))
    with odd_broker.running() as (url, _):
        found = run_broker(f"{url}/q", cases, timeout=2)

    assert {
        "reject": ("refused", "note", {}),
        "detach": ("refused", "fail", {"read": False}),
        "annotate": ("bare", "pass", {"unchanged": True, "read": True, "kept": True}),
    } == {one.case: (one.verdict, one.outcome, dict(one.facets)) for one in found.results}


def test_expired_message_need_not_come_back() -> None:
    with odd_broker.running() as (url, _):
        found = run_broker(f"{url}/q", [told("lose", header=Header(ttl=1))], timeout=2)

    (result,) = found.results
    assert ("expired", "pass") == (result.verdict, result.outcome)


def test_queue_with_messages_is_refused_and_unchanged() -> None:
    with odd_broker.running() as (url, broker):
        broker.queues["q"].append(Message("of somebody else").encode())
        with pytest.raises(PeerError, match="q is not empty"):
            run_broker(f"{url}/q", [told("pass")], timeout=2)


def test_without_a_number_a_poisoned_queue_ends_the_run() -> None:
    with (
        odd_broker.running() as (url, _),
        pytest.raises(PeerError, match=r"purge the queue, and write \{n\} into the address"),
    ):
        run_broker(f"{url}/q", [told("poison")], timeout=0.5)


@pytest.mark.parametrize(
    "url, jobs, reason",
    [
        ("amqp091://localhost/?queue=q", 1, "the URL of the broker must be amqp://"),
        ("amqp://localhost", 1, "the URL of the broker must be amqp://"),
        ("amqp://localhost/q", 2, "the address must contain {n}"),
        ("http://localhost/q", 1, "a URL must begin with"),
    ],
)
def test_invalid_broker_urls(url: str, jobs: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("{", r"\{")):
        run_broker(url, CASES[:1], jobs=jobs)


def test_no_broker_is_a_fault_of_its_own() -> None:
    with pytest.raises(PeerError, match="q: "):
        run_broker("amqp://127.0.0.1:1/q", CASES[:1], timeout=0.5)


def test_our_server_keeps_every_message_and_refuses_every_other() -> None:
    with Server(accept_durable=True) as server:
        found = run_broker(f"{server.url}/held-{{n}}", CASES[::3], jobs=4)

    assert [one.id for one in CASES[::3]] == [one.case for one in found.results]
    assert {"pass"} == {one.outcome for one in found.results}
    assert not Counter(one.verdict for one in found.results).keys() & {"changed", "lost", "died"}


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Server(accept_durable=True) as server:
        url = f"{server.url}/held-{{n}}"
        arguments = ["--broker", url, "--only", "Part 3, 3.2.1", "-o", str(out)]
        done = CliRunner().invoke(main, ["conformance", "run", *arguments])

    assert done.exit_code == 0, done.output
    assert "unchanged" in done.output
    peers = load(out / "results.json")
    (peer,) = peers
    assert {one.id for one in CASES if one.clause == "Part 3, 3.2.1"} == {
        one.case for one in peer.results
    }
    assert "unchanged" in facets_of(peers)
    assert "| broker | " in markdown(peers, CASES)
    for name in ("index.html", "junit.xml"):
        assert "amqp10msg" in (out / name).read_text()
    assert all(json.loads(json.dumps(one.to_object()))["verdict"] for one in peer.results)


def test_command_reports_errors(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        out = ["-o", str(tmp_path / "out")]
        done = CliRunner().invoke(main, ["conformance", "run", *arguments, *out])
        return done.exit_code, done.output

    status, said = run("--broker", "nothing")
    assert status == 2
    assert "--broker: a URL must begin with" in said
    status, said = run("--broker", "amqp://127.0.0.1/q", "--only", "Part 1, 1.6.5")
    assert status == 2
    assert "no selected case is a message to send" in said
    status, said = run("--broker", "amqp://127.0.0.1:1/q", "--timeout", "0.5")
    assert status == 1
    assert "no peer could be tested" in said


def test_rabbitmq() -> None:
    """What RabbitMQ 4 passes on, it passes on byte for byte."""
    name = f"held-{uuid.uuid4()}"
    usual = [one for one in CASES if one.error is None and one.clause == "Part 3, 3.2.4"][:40]
    with channels() as channel:
        channel.queue_declare(name, durable=True)
        try:
            found = run_broker(f"amqp://{BROKER}/?queue={name}", usual)
        except PeerError:  # RabbitMQ 3 has other addresses
            found = run_broker(f"amqp://{BROKER}/?queue={name}&address_version=1", usual)
        channel.queue_delete(name)

    arrived = [one for one in found.results if one.facets.get("read")]
    assert arrived
    if found.name.startswith("RabbitMQ 4"):
        assert {"identical", "bare"} >= {one.verdict for one in arrived}
