"""The names of ends: which are refused, and the loss of the exchange and routing key."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("pika")

from pika import spec  # noqa: E402
from pika.exceptions import ShortStringTooLong  # noqa: E402

from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.net.bridge import (  # noqa: E402
    Endpoint,
    RouteOptions,
    RouteSpec,
    Statistics,
    parse_url,
)
from amqp10msg.net.bridge.sending import preparer_of  # noqa: E402
from amqp10msg.net.ends.counts import basic_endpoint_of  # noqa: E402
from amqp10msg.net.ends.terms import SourceDelivery  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402
from tests.basic_broker import BasicBroker, running  # noqa: E402
from tests.bridging import numbered  # noqa: E402

pytestmark = [pytest.mark.usefixtures("in_a_folder"), pytest.mark.once]

BOTH = {"exchange": 3, "routing-key": 3}


@pytest.fixture
def brokers() -> Iterator[tuple[BasicBroker, Server]]:
    with (
        running(BasicBroker("from", "to")) as broker,
        Server(accept_durable=True) as server,
    ):
        yield broker, server


@pytest.mark.parametrize("protocol", ["1.0", "0-9-1"])
@pytest.mark.parametrize(
    "published, options, lost",
    [
        ({"exchange": "orders", "routing_key": "eu.new"}, [], BOTH),
        ({"exchange": "orders", "routing_key": ""}, [], {"exchange": 3}),
        ({"exchange": "", "routing_key": "other"}, [], {"routing-key": 3}),
        ({"exchange": "", "routing_key": "from"}, [], {}),
        ({"exchange": "orders", "routing_key": "eu.new"}, ["--profile", "rabbitmq-4"], BOTH),
        ({"exchange": "orders", "routing_key": "eu.new"}, ["--keep-names"], {}),
    ],
)
def test_lost_exchange_and_routing_key_are_counted(
    brokers: tuple[BasicBroker, Server],
    protocol: str,
    published: dict[str, Any],
    options: list[str],
    lost: dict[str, int],
) -> None:
    broker, server = brokers
    if protocol == "0-9-1" and options:
        options, lost = [], BOTH  # no translation, so nothing keeps them
    broker.queues["from"].extend(attrs.evolve(one, **published) for one in numbered(3))
    target = broker.url("queue=to") if protocol == "0-9-1" else f"{server.url}/to"
    command = ["bridge", "--from", broker.url("queue=from"), "--to", target, *options]
    runner = click_testing.CliRunner()
    dry = runner.invoke(main, [*command, "--dry-run", "--idle", "0.1", "--report", "dry.json"])
    done = runner.invoke(main, [*command, "--max-messages", "3", "--report", "report.json"])

    assert (0, 0) == (dry.exit_code, done.exit_code), done.output
    (counts,) = json.loads(Path("report.json").read_text())["routes"]
    found = {row["path"]: row["count"] for row in counts["losses"] if row["action"] == "dropped"}
    assert lost == found
    for path in lost:
        assert f"from -> to: {path}: dropped 3 times" in done.output
        assert f"3 messages: {path}: dropped: " in dry.output
    losing = "3 of 3 would lose data" if lost else "none would lose data"
    assert losing in dry.output
    if lost and "1.0" == protocol:
        assert "--keep-names puts it into an annotation" in dry.output
        key = published["routing_key"]
        exchange = published["exchange"]
        assert f"exchange {exchange!r} with the routing key {key!r}" in dry.output


@pytest.mark.parametrize(
    "query, lost", [("exchange=e", 1), ("exchange=e&routing_key=k", 2), ("", 0)]
)
def test_names_replaced_by_the_target_url_count_as_lost(query: str, lost: int) -> None:
    ends = parse_url("amqp091://h/?queue=q"), parse_url(f"amqp091://i/?{query}")
    statistics = Statistics()
    stored = numbered(1)[0]
    delivery = SourceDelivery(stored.body, stored.header, "orders", "eu.new")
    (made,) = preparer_of(*ends, RouteOptions(), statistics)([delivery])

    assert lost == statistics.losses.total()
    assert ("orders" if not lost else "e") == made.exchange  # type: ignore[union-attr]


@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=9), st.booleans())
def test_batch_and_single_translation_count_equal_losses(names: Any, small: bool) -> None:
    """With a hook, messages are translated singly; without one, in batches."""
    ends = parse_url("amqp091://h/?queue=q"), parse_url("amqp://i/q")
    stored = numbered(1)[0]
    found = []
    for change in (None, lambda message, _: message):
        statistics = Statistics()
        deliveries = [SourceDelivery(stored.body, stored.header, *one) for one in names]
        if not small and deliveries:
            deliveries[0].octets = b"x" * (1 << 17)  # too large for the batch
        preparer_of(*ends, RouteOptions(change=change), statistics)(deliveries)
        found.append(statistics.losses)

    assert found[0] == found[1]
    assert sum(bool(exchange) for exchange, _ in names if (exchange, _) != ("", "q")) == sum(
        count for (path, _), count in found[0].items() if path == "exchange"
    )


#: Names of which some are too long, and some have surrogates for bytes that are not UTF-8.
NAMES = st.text(max_size=8) | st.text(st.sampled_from("aé€\udcff"), max_size=300)


@given(NAMES, st.sampled_from(["queue", "exchange", "virtual_host"]))
def test_endpoint_of_0_9_1_has_only_names_that_can_be_sent(name: str, field: str) -> None:
    can_be_sent = True
    try:
        spec.Queue.Declare(0, name).encode()
    except (UnicodeEncodeError, ShortStringTooLong):
        can_be_sent = False

    expected = f"the {field} of a URL of AMQP 0-9-1 must be UTF-8 of at most 255"
    refuses = contextlib.nullcontext() if can_be_sent else pytest.raises(ValueError, match=expected)
    with refuses:
        Endpoint("0-9-1", "h", 5672, **{field: name})  # type: ignore[arg-type]


@given(NAMES)
def test_source_of_1_0_whose_address_is_no_queue_name_is_not_counted_over_0_9_1(name: str) -> None:
    try:
        source = Endpoint("1.0", "h", 5672, address=name)
    except ValueError:
        assert not name.isascii()
        return
    basic = basic_endpoint_of(source)

    assert basic is None or len((basic.queue or "").encode()) <= 255
    assert RouteSpec(source, "file:out.jsonl").source == source


@pytest.mark.parametrize(
    "url, expected",
    [
        ("amqp091://h/?queue=%ff", r"the queue of .* must be UTF-8 .* not '\\udcff'"),
        ("amqp091://h/?exchange=%ff", "the exchange of .* must be UTF-8"),
        ("amqp091://h/%ff?queue=q", "the virtual_host of .* must be UTF-8"),
        (f"amqp091://h/?queue={'q' * 256}", "the queue of .* of at most 255 bytes"),
        (f"amqp091://h/?exchange=&routing_key={'k' * 256}", "at most 255 bytes, not 256"),
        ("amqp://h/%ff", "the address of a URL must be UTF-8"),
        ("amqp://h/q?vhost=%ff", "the virtual_host of a URL must be UTF-8"),
    ],
)
def test_name_that_cannot_be_sent_is_refused_in_the_url(url: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        parse_url(url)


def test_routing_key_may_have_any_bytes() -> None:
    assert "\udcff" == parse_url("amqp091://h/?exchange=&routing_key=%ff").routing_key
