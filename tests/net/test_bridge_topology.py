"""What a RabbitMQ's queues are, made on another one: planned, compared, translated, refused."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pika")
click_testing = pytest.importorskip("click.testing")

from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.net.bridge import Bridge, LinkError, RouteSpec, parse_url  # noqa: E402
from amqp10msg.net.bridge.management import Management  # noqa: E402
from amqp10msg.net.bridge.routes import read_routes, routes_of_queues  # noqa: E402
from amqp10msg.net.bridge.topology import STATES, Step, declare, plan  # noqa: E402
from tests.basic_broker import BasicBroker, running  # noqa: E402
from tests.bridging import numbered, options  # noqa: E402
from tests.management_api import management  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]
#: An answer whose first part does not come to its end.
_CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n90\r\n{"


def queue(name: str, kind: str = "classic", **given: Any) -> dict[str, Any]:
    """A queue as RabbitMQ 3.10 says it."""
    usual = {"arguments": {}, "durable": True, "auto_delete": False, "exclusive": False}
    effective = given.pop("effective", [])
    return {
        "name": name,
        "type": kind,
        "policy": None,
        **usual,
        **given,
        "effective_policy_definition": effective,
    }


def exchange(name: str, kind: str = "direct", **arguments: Any) -> dict[str, Any]:
    usual = {"durable": True, "auto_delete": False, "internal": False}
    return {"name": name, "type": kind, **usual, "arguments": arguments}


def binding(source: str, destination: str, key: str, kind: str = "queue") -> dict[str, Any]:
    return {
        "source": source,
        "destination": destination,
        "destination_type": kind,
        "routing_key": key,
        "arguments": {},
        "properties_key": key,
    }


MIRROR = {
    "vhost": "/",
    "name": "mirror",
    "pattern": "^orders",
    "apply-to": "queues",
    "priority": 1,
    "definition": {"ha-mode": "all", "max-length": 10},
}


class Broker:
    """A management API in memory, which has what it is asked to make."""

    url = "http://here"

    def __init__(self, version: tuple[int, ...] = (4, 0, 5), **has: list[dict[str, Any]]) -> None:
        self._version = version
        self.has: dict[str, list[dict[str, Any]]] = {
            "queues": [],
            "exchanges": [exchange("amq.topic", "topic")],
            "bindings": [],
            "policies": [],
        }
        for kind, found in has.items():
            self.has[kind] += found

    def version(self) -> tuple[int, ...]:
        return self._version

    def queues(self, _: str) -> Any:
        return {"items": self.has["queues"], "page_count": 1}

    def all(self, kind: str) -> list[dict[str, Any]]:
        return self.has[kind]

    def create(self, method: str, kind: str, what: tuple[str, ...], body: Any) -> None:
        assert ("POST" if kind == "bindings" else "PUT") == method
        if "refused" in what:
            raise LinkError("no such")
        if kind == "bindings":
            made = binding(what[1], what[3], "", {"q": "queue", "e": "exchange"}[what[2]])
        else:
            made = {"name": what[0]}
        if kind == "queues":
            body = {**body, "type": body["arguments"]["x-queue-type"]}
        self.has[kind].append({**made, **body})


def planned(source: Broker, target: Broker, *names: str, **renamed: str) -> list[Step]:
    wanted = {**dict.fromkeys(names), **renamed}
    return plan(source, target, {k: v or k for k, v in wanted.items()})  # type: ignore[arg-type]


def of(steps: list[Step], kind: str, name: str = "") -> Step:
    (found,) = (step for step in steps if step.kind == kind and name in {"", step.name})
    return found


FLAGS = st.fixed_dictionaries(
    {"durable": st.booleans(), "auto_delete": st.booleans(), "exclusive": st.booleans()}
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "x-max-priority": st.just(5),
        "x-queue-mode": st.just("lazy"),
        "x-queue-version": st.just(1),
        "x-overflow": st.sampled_from(["reject-publish", "reject-publish-dlx"]),
        "x-message-ttl": st.integers(0, 10),
        "x-dead-letter-exchange": st.sampled_from(["a", "b", "amq.topic", "gone"]),
    },
)
DEFINITIONS = st.dictionaries(
    st.sampled_from(["ha-mode", "ha-params", "max-length", "queue-mode", "federation-upstream"]),
    st.integers(0, 3),
)
BINDINGS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("abcq"), st.sampled_from(["", "k"])),
    unique=True,
)


@given(
    st.sampled_from(["classic", "quorum", "stream"]),
    FLAGS,
    ARGUMENTS,
    DEFINITIONS,
    BINDINGS,
    st.sampled_from([(3, 13, 7), (4, 0, 5), (4, 3, 1)]),
)
def test_declared_objects_exist_in_a_second_plan(
    kind: str,
    flags: dict[str, bool],
    arguments: dict[str, Any],
    definition: dict[str, Any],
    bound: list[tuple[str, str, str]],
    version: tuple[int, ...],
) -> None:
    """And nothing is made of what has no counterpart."""
    one = queue("q", kind, **flags, arguments=arguments, policy="p", effective=definition)
    source = Broker(
        (3, 10, 8),
        queues=[one],
        exchanges=[exchange("a", **{"alternate-exchange": "b"}), exchange("b"), exchange("c")],
        bindings=[
            binding(src, to, key, "queue" if to == "q" else "exchange") for src, to, key in bound
        ],
        policies=[{**MIRROR, "name": "p", "definition": definition}],
    )
    target = Broker(version)

    first = declare(planned(source, target, "q"), target)  # type: ignore[arg-type]
    second = planned(source, target, "q")

    assert {step.state for step in first} <= {"made", "none"}
    assert {step.state for step in second} <= {"there", "none"}
    assert [(s.kind, s.name, s.body) for s in first] == [(s.kind, s.name, s.body) for s in second]
    made = of(second, "queue")
    assert flags["exclusive"] == (made.state == "none")
    assert (
        set(target.has["queues"][0]["arguments"]) - {"x-queue-type"} <= set(arguments)
        if (target.has["queues"])
        else flags["exclusive"]
    )
    if version >= (4,):
        assert not any(
            key.startswith("ha-") for one in target.has["policies"] for key in one["definition"]
        )


def test_queue_with_reject_publish_dlx_stays_classic() -> None:
    """A quorum queue would drop the oldest instead."""
    says = {"ha-mode": "all", "max-length": 5, "overflow": "reject-publish-dlx"}
    made = of(
        planned(Broker((3, 10, 0), queues=[queue("q", effective=says)]), Broker(), "q"), "queue"
    )

    assert "classic" == made.body["arguments"]["x-queue-type"]
    assert "a quorum queue cannot be one with reject-publish-dlx" in str(made)


@pytest.mark.parametrize("said", [b"none\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n[", _CHUNK])
def test_truncated_answer_of_the_management_api(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as peer:
                peer.recv(65_536)
                peer.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        api = Management(f"http://127.0.0.1:{server.getsockname()[1]}", parse_url("amqp091://h"))
        with pytest.raises((LinkError, ValueError)):
            api.unacknowledged("q")
        thread.join(10)


def test_route_that_is_not_a_table() -> None:
    Path("r.toml").write_text("route = [1]")

    with pytest.raises(ValueError, match="a route must be a table"):
        read_routes(Path("r.toml"))


def test_mirrored_queue_becomes_a_quorum_queue_if_possible() -> None:
    lazy = {"x-queue-mode": "lazy", "x-max-length": 5}
    effective = {"ha-mode": "all", "max-length": 10}
    rows = [
        queue("orders.a", arguments=lazy, policy="mirror", effective=effective),
        queue("orders.p", arguments={"x-max-priority": 5}, policy="mirror", effective=effective),
        queue("orders.t", durable=False, policy="mirror", effective=effective),
    ]
    source = Broker((3, 10, 8), queues=rows, policies=[MIRROR])
    names = [row["name"] for row in rows]

    for version, kinds, durable in (
        ((3, 13, 7), ["classic"] * 3, False),
        ((4, 0, 5), ["quorum", "classic", "classic"], False),
        ((4, 3, 1), ["quorum", "classic", "classic"], True),
    ):
        steps = planned(source, Broker(version), *names)
        bodies = [of(steps, "queue", name).body for name in names]
        assert kinds == [body["arguments"]["x-queue-type"] for body in bodies]
        assert durable == bodies[2]["durable"]
        assert (version < (4,)) == ("x-queue-mode" in bodies[0]["arguments"])
        assert (version < (4,)) == ("ha-mode" in of(steps, "policy").body["definition"])

    steps = planned(source, Broker(), *names)
    assert (
        "queue orders.p, classic: is missing at the target\n"
        "  it was mirrored, and has one copy now: a quorum queue cannot be one with priorities"
    ) == str(of(steps, "queue", "orders.p"))
    assert ("without ha-mode, which RabbitMQ 4 does not have",) == of(steps, "policy").notes
    assert {"max-length": 10} == of(steps, "policy").body["definition"]


def test_mirroring_policy_has_no_counterpart() -> None:
    only = {**MIRROR, "definition": {"ha-mode": "all"}}
    source = Broker(queues=[queue("orders", policy="mirror")], policies=[only])

    step = of(planned(source, Broker(), "orders"), "policy")

    assert "none" == step.state
    assert not step.is_sound
    assert "policy mirror: has no counterpart" in str(step)


def test_plan_includes_only_exchanges_that_lead_to_the_queue() -> None:
    source = Broker(
        queues=[queue("q", arguments={"x-dead-letter-exchange": "dead"}), queue("other")],
        exchanges=[
            *(exchange("front"), exchange("shop", **{"alternate-exchange": "lost"})),
            *(exchange("lost", "fanout"), exchange("dead"), exchange("else"), exchange("")),
            exchange("odd", "x-delayed-message"),
        ],
        bindings=[
            *(binding("", "q", "q"), binding("shop", "q", "k"), binding("amq.topic", "q", "#")),
            *(binding("front", "shop", "", "exchange"), binding("else", "other", "k")),
            binding("odd", "front", "", "exchange"),
        ],
    )

    steps = planned(source, Broker(), q="renamed")

    found = [step.name for step in steps if step.kind == "exchange"]
    assert ["dead", "front", "lost", "odd", "shop"] == found
    assert [
        "shop -> renamed by 'k'",
        "amq.topic -> renamed by '#'",
        "front -> shop by ''",
        "odd -> front by ''",
    ] == [step.name for step in steps if step.kind == "binding"]
    assert ("renamed",) == of(steps, "queue").path
    assert "a type of a plugin" in str(of(steps, "exchange", "odd"))


def test_different_objects_are_kept_and_refusals_are_reported() -> None:
    source = Broker(queues=[queue("a"), queue("refused"), queue("amq.gen-x")])
    target = Broker(queues=[queue("a", durable=False)])

    steps = declare(
        planned(source, target, "a", "refused", "amq.gen-x"),
        target,  # type: ignore[arg-type]
    )

    assert {"a": "differs", "refused": "refused", "amq.gen-x": "none"} == {
        step.name: step.state for step in steps
    }
    assert ("durable: False, not True",) == of(steps, "queue", "a").notes
    assert ("no such",) == of(steps, "queue", "refused").notes
    assert [queue("a", durable=False)] == target.has["queues"]
    assert set(STATES) >= {step.state for step in steps}


def test_missing_queue_is_named() -> None:
    with pytest.raises(LinkError, match="http://here has no queue 'x'"):
        planned(Broker(), Broker(), "x")


# Over HTTP, and by the command.

OTHERS = {
    "overview": {"rabbitmq_version": "4.0.5"},
    "exchanges": [exchange("shop/1")],
    "bindings": [binding("shop/1", "from", "k")],
    "policies": [],
}


@contextlib.contextmanager
def both(*names: str) -> Iterator[tuple[str, str, list[Any]]]:
    """Two APIs, of which the second one has nothing and notes what it is to make."""
    made: list[Any] = []
    nothing: dict[str, Any] = {**OTHERS, "exchanges": [], "bindings": []}
    rows = [queue(name) for name in names] + [queue("tmp", exclusive=True)]
    # A list without a queue has a page nevertheless.
    with (
        management(rows, others=OTHERS) as old,
        management([queue("x")], others=nothing, made=made) as new,
    ):
        yield old, new, made


def test_route_declares_its_queue_first() -> None:
    async def run(old: str, new: str) -> int:
        async with BasicBroker("from") as broker:
            broker.queues["from"].extend(numbered(3))
            broker.queues["to"] = type(broker.queues["from"])()
            ends = broker.url("queue=from"), broker.url("queue=to")
            how = options(declare=True, management=old, target_management=new, max_messages=3)
            async with asyncio.timeout(60), Bridge(*ends, how) as bridge:
                (counts,) = (await bridge.run()).values()
            return counts.accepted

    with both("from") as (old, new, made):
        assert 3 == asyncio.run(run(old, new))

    assert [
        ("PUT", "/api/exchanges/%2F/shop%2F1"),
        ("PUT", "/api/queues/%2F/to"),
        ("POST", "/api/bindings/%2F/e/shop%2F1/q/to"),
    ] == [one[:2] for one in made]
    assert {"routing_key": "k", "arguments": {}} == made[2][2]


def test_refusal_of_the_api_has_its_reason() -> None:
    with both("from") as (_, new, _made):
        api = Management(new, parse_url("amqp091://h"))
        with pytest.raises(LinkError, match="400 Bad Request: no such"):
            api.create("PUT", "queues", ["refused"], {})
        assert (4, 0, 5) == api.version()


def test_dry_run_plans_declarations_without_making_them() -> None:
    broker = BasicBroker("a.1", "a.2", "b")
    broker.queues["a.1"].extend(numbered(2))
    with running(broker), both("a.1", "a.2", "b") as (old, new, made):
        command = ["bridge", "--from", broker.url(""), "--to", "amqp091://localhost"]
        command += ["--all-queues", "a.*", "--declare", "--dry-run", "--idle", "0.1"]
        apis = ["--management", old, "--target-management", new]
        done = click_testing.CliRunner().invoke(main, [*command, *apis])
        without = click_testing.CliRunner().invoke(main, [*command, *apis[:2]])

    assert (0, 2) == (done.exit_code, without.exit_code)
    assert [] == made
    assert [
        "queue a.1, classic: is missing at the target",
        "a.1: 2 messages read and returned; none would lose data",
        "queue a.2, classic: is missing at the target",
        "a.2: 0 messages read and returned; none would lose data",
    ] == done.output.splitlines()
    assert "the management APIs" in without.output


def test_pattern_makes_a_route_for_each_queue() -> None:
    with both("orders.a", "orders/b", "bills") as (old, *_):
        made = routes_of_queues(
            "amqp://guest:guest@h/", "amqp091://t/v", options(management=old), "orders?*"
        )
        one = "amqp091://t/?queue=all"
        path = Path("routes.toml")
        path.write_text(
            f"[[route]]\nfrom='amqp091://h'\nto='{one}'\nall-queues='*'\nmanagement='{old}'\n"
        )
        read = read_routes(path)
        with pytest.raises(ValueError, match="no queue 'x'"):
            routes_of_queues("amqp://guest:guest@h/", one, options(management=old), "x")
        with pytest.raises(ValueError, match="without a queue"):
            routes_of_queues("amqp://guest:guest@h/a", one, options(management=old), "*")
        with pytest.raises(ValueError, match="needs management, the API"):
            routes_of_queues("amqp://guest:guest@h/", one, options(), "*")

    assert [
        ("orders.a", "/queues/orders.a", "orders.a"),
        ("orders/b", "/queues/orders%2Fb", "orders/b"),
    ] == [(spec.name, spec.source.address, spec.target.queue) for spec in made]
    assert ["bills", "orders.a", "orders/b"] == [spec.name for spec in read]
    assert {"all"} == {spec.target.queue for spec in read}


def test_declare_needs_both_apis() -> None:
    with pytest.raises(ValueError, match="the management APIs"):
        RouteSpec("amqp091://h/?queue=a", "amqp091://h/?queue=b", options(declare=True))


@pytest.mark.parametrize(
    "source, target",
    [
        ("amqp091://h/?queue=q", "amqp091://h:5672/?queue=q"),
        ("amqp091://h/?queue=q", "amqp091://H/?exchange=&routing_key=q"),
        ("amqp091://h/?queue=q", "amqp://h/?queue=q"),
        ("amqp://localhost/?queue=q%2F1", "amqp091://127.0.0.1/?queue=q/1"),
        ("amqp://h/a", "amqp://h/a"),
        ("amqp091://h/v?queue=q", "amqp://h/?queue=q&vhost=v"),
    ],
)
def test_a_route_from_a_queue_to_itself_is_refused(source: str, target: str) -> None:
    with pytest.raises(ValueError, match="the target is the queue that the route reads"):
        RouteSpec(source, target)
    with pytest.raises(ValueError, match="is the queue that the route reads"):
        RouteSpec(["amqp091://other/?queue=q", "amqp091://h/?queue=q"], "amqp091://h/?queue=q")
    RouteSpec(source, re.sub(r"//[^/]*/", "//other/", target))
    aside = options(quarantine_queue="amqp://h/?queue=q")
    with pytest.raises(ValueError, match="its quarantine is the queue"):
        RouteSpec("amqp091://h/?queue=q", "amqp091://h/?queue=b", aside)
    RouteSpec("amqp091://h/?queue=q", "amqp091://h/v?queue=q")
    RouteSpec("amqp091://h/?queue=q", "amqp091://h:1/?queue=q")
