"""``amqp10msg migrate-check`` and ``bridge --dry-run``: queues, losses, and the HTML report."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("jinja2")
pytest.importorskip("pika")
pytest.importorskip("proton")

from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.basic import (  # noqa: E402
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_content_header,
    encode_content_header,
)
from amqp10msg.translate import to_amqp10  # noqa: E402
from tests.basic_broker import BasicBroker, Stored, running  # noqa: E402
from tests.management_api import management  # noqa: E402
from tests.pages import Page  # noqa: E402

PASSWORD = "guest"  # as the stand-in knows it


pytestmark = pytest.mark.usefixtures("in_a_folder")


def stored(body: bytes = b"", **properties: Any) -> Stored:
    header = encode_content_header(BasicProperties(**properties), len(body))
    return Stored(header, body)


#: Each loses something, or not, on its way through RabbitMQ 4.3.
MESSAGES = {
    "plain": [stored(b"1", delivery_mode=2), stored(b"2", delivery_mode=2)],
    "odd": [
        stored(b"3", headers=FieldTable.of([("x", "F", FieldTable.of([("a", "l", 1)]))])),
        stored(b"4", headers=FieldTable.of([("x", "F", FieldTable.of([("a", "l", 2)]))])),
        stored(b"5", timestamp=2**63),
    ],
    "broken": [Stored(b"\0\x3c" + bytes(12) + b"?", b""), stored(b"6")],
    "empty": [],
}


@pytest.fixture
def broker() -> Iterator[BasicBroker]:
    made = BasicBroker(*MESSAGES)
    for name, messages in MESSAGES.items():
        made.queues[name].extend(messages)
    with running(made):
        yield made


def run(*arguments: str, status: int = 0, env: dict[str, str] | None = None) -> Any:
    done = click_testing.CliRunner().invoke(main, [*arguments], env=env)
    assert status == done.exit_code, done.output
    return done


def expected(profile: Any, name: str) -> dict[str, int]:
    """Return the number of messages with each loss, by path."""
    found: Counter[str] = Counter()
    for one in MESSAGES[name]:
        properties = decode_content_header(one.header).properties
        basic = BasicMessage(properties, one.body, "", name)
        losses = to_amqp10(basic, profile).losses
        found.update({loss.path for loss in losses if not loss.recoverable})
    return dict(found)


def described(name: str, **more: Any) -> dict[str, Any]:
    usual = {"name": name, "type": "classic", "durable": True, "arguments": {}}
    return {**usual, "messages": len(MESSAGES.get(name, [])), **more}


@pytest.mark.parametrize("listed", [True, False])
def test_queue_that_delivers_nothing_is_not_reported_empty(
    broker: BasicBroker, listed: bool
) -> None:
    broker.silent = True
    more = ["--queue", "plain", "--idle", "0.1"]
    with management([described("plain")]) as api:
        more += ["--management", api] * listed
        done = run("migrate-check", broker.url(""), *more, status=1)

    assert "plain: not read: it has 2 messages, but delivered none within 0.1 s" in done.output


def test_queues_of_the_management_api_and_the_report(broker: BasicBroker) -> None:
    before = {name: list(queue) for name, queue in broker.queues.items()}
    listed = [
        described("plain", effective_policy_definition={"ha-mode": "all"}),
        described("odd", type="quorum"),
        described("broken", durable=False),
        described("empty", arguments={"x-queue-mode": "lazy", "x-queue-version": 1}),
        described("own", exclusive=True, messages=1),
    ]
    reports = ["--report", "r.json", "--report", "r.html"]

    with management(listed) as api:
        url = broker.url("")
        done = run("migrate-check", url, "--management", api, *reports, status=1)

    rows = {row["name"]: row for row in json.loads(Path("r.json").read_text())["queues"]}
    assert ["broken", "empty", "odd", "own", "plain"] == list(rows)
    assert (2, 2, []) == (rows["plain"]["read"], rows["plain"]["exact"], rows["plain"]["losses"])
    assert {"mirrored", "lazy", "storage of version 1", "no delivery-limit", "exclusive"} == {
        note.partition(":")[0]
        for name in ("plain", "empty", "odd", "own")
        for note in rows[name]["notes"]
    }
    assert "neither durable" in rows["broken"]["notes"][0]
    assert (1, 1) == (len(rows["broken"]["failures"]), rows["broken"]["exact"])
    lost = {row["property"]: row["messages"] for row in rows["odd"]["losses"]}
    assert expected("rabbitmq-4.3", "odd") == lost
    assert "exclusive" in rows["own"]["fault"]
    assert "5 queues, 7 messages read" in done.output
    page = Page(Path("r.html").read_text())
    for text in ("headers['x']", "In RabbitMQ 4", "What would be lost", "What could not be sent"):
        assert text in page.text
    targets = {found["href"] for tag, found in page.elements if tag == "a" and "href" in found}
    ids = {f"#{found['id']}" for _, found in page.elements if "id" in found}
    assert {one for one in targets if "byte" not in one} <= ids
    assert any(one.startswith("#message-") for one in targets)
    for text in (done.output, page.text, json.dumps(rows)):
        assert f":{PASSWORD}@" not in text
    after = {name: list(queue) for name, queue in broker.queues.items()}
    assert {name: {one.body for one in found} for name, found in before.items()} == {
        name: {one.body for one in found} for name, found in after.items()
    }


def test_queue_is_read_even_if_the_management_api_counts_zero(broker: BasicBroker) -> None:
    """The API updates its counts every few seconds, or never if its metrics are turned off."""
    listed = [described("plain", messages=0), described("odd", type="stream", messages=0)]
    listed.append(described("broken"))
    del listed[-1]["messages"]

    with management(listed) as api:
        done = run("migrate-check", broker.url(""), "--management", api, "--idle", "0.3")

    assert "plain: 2 messages read" in done.output
    assert "odd: 3 messages read" in done.output
    assert "broken: 2 messages read" in done.output


@pytest.mark.parametrize("user, sent", [("guest", 1), ("shop", 0)])
def test_foreign_user_id_is_reported_as_refused(broker: BasicBroker, user: str, sent: int) -> None:
    broker.credentials = f"{user}:word"
    broker.queues["plain"].clear()
    broker.queues["plain"].append(stored(user_id="guest"))

    done = run("migrate-check", broker.url("", broker.credentials), "--queue", "plain")

    losing = "none" if sent else "1 of 1"
    assert f"1 message read and returned; {losing} would lose data" in done.output
    assert ("refused: the user-id" in done.output) == (not sent)


def test_queues_selected_by_name(broker: BasicBroker) -> None:
    names = ["--queue", "odd", "--queue", "empty", "--queue", "nowhere"]

    done = run("migrate-check", broker.url(""), *names, "--idle", "0.3", status=1)

    assert "odd: 3 messages read and returned" in done.output
    assert "empty: empty" in done.output
    assert "nowhere: not read: 404" in done.output


def test_lossless_loses_nothing_and_lists_residual_values(broker: BasicBroker) -> None:
    given = ["--queue", "odd", "--profile", "lossless", "--report", "r.json"]

    run("migrate-check", broker.url(""), *given)

    (row,) = json.loads(Path("r.json").read_text())["queues"]
    assert (3, 3, 0) == (row["read"], row["exact"], row["losing"])
    assert row["carried"]


def test_wrong_credentials_of_the_api_are_not_shown(broker: BasicBroker) -> None:
    with management([]) as api:
        wrong = api.replace("http://", "http://u:h1dd3n@")
        done = run("migrate-check", broker.url(""), "--management", wrong, status=1)
        other = run("migrate-check", broker.url(""), "--management", f"{api}/x", status=1)

    assert "401 Unauthorized" in done.output
    assert "404" in other.output
    assert "h1dd3n" not in done.output


def test_the_page_of_a_dry_run_of_routes(broker: BasicBroker) -> None:
    Path("routes.toml").write_text(
        f"""
        [defaults]
        to = "amqp://nowhere/q"
        profile = "rabbitmq-4.3"
        [[route]]
        name = "first"
        from = "{broker.url("queue=odd")}"
        [[route]]
        name = "second"
        from = "{broker.url("queue=plain")}"
        filter = "properties.subject = 'x' OR p.subject IS NULL"
        filter-language = "sql"
        """
    )
    given = ["--dry-run", "--idle", "0.3", "--report", "r.html", "--report", "r.json"]

    done = run("bridge", "--config", "routes.toml", *given)

    assert "first: 3 messages read and returned" in done.output
    rows = {row["name"]: row for row in json.loads(Path("r.json").read_text())["queues"]}
    assert (3, 2) == (rows["first"]["read"], rows["second"]["read"])
    page = Page(Path("r.html").read_text())
    assert "What a bridge would lose" in page.text
    assert "first, example 1" in page.text


@pytest.mark.parametrize(
    "target, foreign",
    [
        ("amqp://shop:x@nowhere/q", True),
        ("amqp://guest:x@nowhere/q", True),
        ("amqps://nowhere/q?auth_mechanism=external", False),  # the certificate says who
    ],
)
def test_dry_run_compares_user_ids_with_the_target_user(
    broker: BasicBroker, target: str, foreign: bool
) -> None:
    one_of_each = [stored(b"1", user_id="shop"), stored(b"2", user_id="guest")]
    broker.queues["plain"] = deque(one_of_each)
    ends = ["--from", broker.url("queue=plain"), "--to", target]

    done = run("bridge", *ends, "--profile", "rabbitmq-4.0", "--dry-run", "--idle", "0.3")

    assert foreign == ("1 message cannot be sent: properties.user-id" in done.output)


def test_page_states_that_nothing_is_translated(broker: BasicBroker) -> None:
    ends = ["--from", broker.url("queue=odd"), "--to", "amqp091://nowhere/?queue=q"]

    done = run("bridge", *ends, "--dry-run", "--idle", "0.3", "--report", "r.html")

    assert "3 messages read and returned; none would lose data" in done.output
    text = Path("r.html").read_text()
    assert "profile: none, one protocol" in Page(text).text
    # Not the type of the queue, of which a route knows nothing, nor what else no row has.
    assert ["queue", "read", "lose no data", "lose data"] == re.findall("<th[^>]*>([^<]+)", text)


def test_missing_user_tag_is_named(broker: BasicBroker) -> None:
    with management([]) as api:
        at = api.replace("http://", "http://plain:plain@")

        done = run("migrate-check", broker.url(""), "--management", at, status=1)

    (line,) = done.stderr.splitlines()
    assert "401 Unauthorized: the user has none of the tags management, policymaker" in line
    assert "set_user_tags USER management" in line


def test_check_of_an_unreachable_broker_says_nothing_about_losses() -> None:
    result = click_testing.CliRunner().invoke(
        main,
        ["migrate-check", "amqp091://u:s3cr3t@127.0.0.1:1", "--queue", "q"],
        env={"COLUMNS": "120"},
    )

    assert 1 == result.exit_code
    assert "would lose" not in result.output
    assert "1 queue, 0 messages read" in result.output
    assert "1 queue could not be read from amqp091://127.0.0.1:1/" in result.output
    assert "s3cr3t" not in result.output
