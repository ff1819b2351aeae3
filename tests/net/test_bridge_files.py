"""Files as sources and targets of a bridge."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10msg import Message
from amqp10msg.basic import BasicMessage, BasicProperties, encode_content_header
from amqp10msg.net.bridge import (
    Bridge,
    LinkError,
    RouteOptions,
    RouteSpec,
    Statistics,
    parse_url,
    read_quarantine,
)
from amqp10msg.net.bridge.dry import DryRun, dry_run
from amqp10msg.net.ends.files import append_lines, open_source
from amqp10msg.net.ends.terms import Oversized, Settle, SourceDelivery, SourceRequest
from amqp10msg.net.serve import Server
from amqp10msg.testing import basic_messages, messages

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(accept_durable=True, max_message_size=100_000) as made:
        yield made


def line(message: BasicMessage | Message, **more: Any) -> str:
    made: dict[str, Any]
    if isinstance(message, Message):
        made = {"protocol": "1.0", "raw": message.encode().hex()}
    else:
        header = encode_content_header(message.properties, len(message.body))
        raw = (header + message.body).hex()
        made = {"protocol": "0-9-1", "content_header": len(header), "raw": raw}
    return json.dumps({**made, **more}) + "\n"


async def bridged(source: str, target: str, **given: Any) -> Statistics:
    options = RouteOptions(**{"idle": 0.2, "window": 20, "backoff": 0.001, **given})
    async with asyncio.timeout(60), Bridge(source, target, options) as bridge:
        (counts,) = (await bridge.run()).values()
    return counts


@settings(max_examples=10)
@given(st.lists(basic_messages(), min_size=1, max_size=30))
def test_file_to_server_and_back_is_lossless(server: Server, messages: list[BasicMessage]) -> None:
    for basic in messages:
        # What expired does not come, and the server adds a header to what has none.
        basic.properties.expiration = basic.properties.priority = None
        basic.properties.delivery_mode = 2
    there, back = "file:a%20b.jsonl?protocol=0-9-1", "file:back.jsonl?protocol=0-9-1"

    async def run() -> None:
        count = len(messages)
        await bridged(there, f"{server.url}/files", max_messages=count)
        await bridged(f"{server.url}/files", back, max_messages=count)

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        append_lines(Path("a b.jsonl"), [line(message) for message in messages])
        asyncio.run(run())
        sent, came = (list(read_quarantine(Path(name))) for name in ("a b.jsonl", "back.jsonl"))

    assert [one.raw for one in sent] == [one.raw for one in came]


def test_quarantine_can_be_sent_again(server: Server) -> None:
    with Server(accept_durable=True, max_message_size=500) as small:
        for size in (10, 1_000, 20, 2_000):
            server.publish("large", Message(b"x" * size))
        first = asyncio.run(bridged(f"{server.url}/large", f"{small.url}/to", max_messages=4))
    assert {"too-large": 2} == first.quarantined

    options = {"state": Path("state.db"), "quarantine": Path("refused-again.jsonl")}
    again = asyncio.run(bridged("file:quarantine.jsonl", f"{server.url}/again", **options))

    sizes = [len(one.body.data) for one in server.messages("again")]  # type: ignore[union-attr]
    assert (2, [1_000, 2_000]) == (again.accepted, sizes)
    more = asyncio.run(bridged("file:quarantine.jsonl", f"{server.url}/again", **options))
    assert 0 == more.received


@pytest.mark.parametrize(
    "ends", [("file:./quarantine.jsonl", "{}"), ("{}", "file:quarantine.jsonl")]
)
def test_quarantine_must_not_be_the_source_or_target(ends: tuple[str, str]) -> None:
    source, target = (end.format("amqp://localhost/q") for end in ends)

    with pytest.raises(ValueError, match=r"also the quarantine.*give another file as quarantine"):
        RouteSpec(source, target)

    RouteSpec(source, target, RouteOptions(quarantine=Path("other.jsonl")))


def test_route_and_offset_select_lines_of_a_file(server: Server) -> None:
    lines = [
        line(Message(b"%d" % number), route="ab"[number % 2], reason="fatal")
        for number in range(50)
    ]
    append_lines(Path("in.jsonl"), lines)

    counts = asyncio.run(
        bridged("file:in.jsonl?route=b&offset=11", f"{server.url}/b", window=3, idle=0.2)
    )

    assert 20 == counts.accepted
    found = [message.body for message in server.messages("b")]
    assert [Message(b"%d" % n).body for n in range(11, 50, 2)] == found


def test_filter_skips_messages_of_a_file(server: Server) -> None:
    append_lines(Path("in.jsonl"), [line(Message(b"%d" % number)) for number in range(9)])

    counts = asyncio.run(
        bridged("file:in.jsonl", f"{server.url}/odd", match=lambda one: int(one.body.data) % 2 == 1)
    )

    assert (4, 5) == (counts.accepted, counts.unmatched)


def odd_predicate(message: Message | BasicMessage) -> bool:
    """Pass messages with a message-id, remove the id, and fail without properties."""
    if message.properties is None:
        raise KeyError("properties")
    was_set = message.properties.message_id is not None
    message.properties.message_id = None
    return was_set


FILTERS: list[dict[str, Any]] = [
    {"match": odd_predicate},
    {"filter": "JMSPriority > 4"},
    {"filter": "amqp.correlation_id IS NOT NULL OR a = 1"},
    {"filter": "CHAR > -1 OR p.user_id <> 'x'", "filter_language": "oasis"},
]


@settings(max_examples=15)
@given(st.data(), st.sampled_from(["1.0", "0-9-1"]), st.sampled_from(FILTERS))
def test_dry_run_predicts_the_filter_of_the_bridge(
    server: Server, data: st.DataObject, protocol: str, how: dict[str, Any]
) -> None:
    """Messages that fail in the filter are quarantined for the reason that the dry run states."""
    source = basic_messages() if protocol == "0-9-1" else messages()
    sent: list[Any] = data.draw(st.lists(source, min_size=1, max_size=8))
    ends = f"file:in.jsonl?protocol={protocol}", f"{server.url}/dry"

    async def predict() -> DryRun:
        spec = RouteSpec(*ends, RouteOptions(**how))
        return await dry_run(DryRun(spec), len(sent), 0.1)

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        append_lines(Path("in.jsonl"), [line(message) for message in sent])
        predicted = asyncio.run(predict())
        counts = asyncio.run(bridged(*ends, max_messages=len(sent), **how))
        file = Path("quarantine.jsonl")
        lines = file.read_text().splitlines() if file.exists() else []
        reasons = Counter(json.loads(text)["description"] for text in lines)

    def of_filter(failures: Counter[str]) -> dict[str, int]:
        return {text: n for text, n in failures.items() if text.startswith("filter: ")}

    assert (len(sent), counts.unmatched) == (predicted.read, predicted.unmatched)
    assert of_filter(reasons) == of_filter(predicted.failures)


@pytest.mark.parametrize("protocol", ["1.0", "0-9-1"])
def test_name_in_a_filter_that_no_message_sets_is_logged(
    server: Server, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"region": "eu"}
    message = (
        Message("x", application_properties=headers)
        if protocol == "1.0"
        else BasicMessage(BasicProperties(headers=headers), b"x")
    )
    append_lines(Path("in.jsonl"), [line(message)] * 3)
    caplog.set_level("INFO", "amqp10msg.bridge")

    def warnings(expression: str) -> list[str]:
        caplog.clear()
        source = f"file:in.jsonl?protocol={protocol}"
        counts = asyncio.run(bridged(source, f"{server.url}/filtered", filter=expression))
        assert [3] == [one.fields["received"] for one in events("route-ended")]  # type: ignore[attr-defined]
        logged = [one.fields["why"] for one in events("filter-name-unset")]  # type: ignore[attr-defined]
        assert logged == counts.unset_names == counts.as_dict()["unset_names"]
        return logged

    def events(name: str) -> list[logging.LogRecord]:
        return [one for one in caplog.records if getattr(one, "event", "") == name]

    assert ["no message sets regoin (did you mean region?)"] == warnings("regoin = 'eu'")
    assert [] == warnings("region = 'us'")
    assert [] == warnings("region = 'eu' OR regoin = 'eu'")


def test_unmatched_messages_return_to_the_source_after_a_pause(server: Server) -> None:
    for number in range(9):
        server.publish("mixed", Message(b"%d" % number))

    counts = asyncio.run(
        bridged(
            f"{server.url}/mixed",
            "file:odd.jsonl",
            match=lambda one: int(one.body.data) % 2 == 1,
            max_backoff=60.0,
            idle=0.4,
        )
    )

    assert (4, 5) == (counts.accepted, server.counts("mixed").available)
    # Without the pause, they come again as fast as they return.
    assert 5 == counts.unmatched


@pytest.mark.parametrize(
    "lines, url, said",
    [
        (None, "file:in.jsonl", "No such file"),
        ([line(BasicMessage(body=b"x"))], "file:in.jsonl", "message 1 is of AMQP 0-9-1: give"),
        (['{"raw": "xyz"}\n'], "file:in.jsonl", "line 1"),
        (["5\n"], "file:in.jsonl", "line 1"),
        ([line(Message(b"x"), message_format=1 << 32)], "file:in.jsonl", "line 1: .*32 bits"),
        (["00537dc00100\n"], "file:in.jsonl", "line 1: not JSON"),
        ([line(Message(b"x")).replace('": "', '" "', 1)], "file:in.jsonl", "line 1: not JSON"),
        ([line(Message(b"x"), routing_key=5)], "file:in.jsonl", "must be a string"),
    ],
)
def test_file_is_checked_before_the_first_message_is_sent(
    server: Server, lines: list[str] | None, url: str, said: str
) -> None:
    if lines is not None:
        append_lines(Path("in.jsonl"), lines)
    with pytest.raises(LinkError, match=said):
        asyncio.run(bridged(url, f"{server.url}/nothing"))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.data())
def test_unfinished_lines_are_skipped(kinds: list[int], data: st.DataObject) -> None:
    """A kill leaves the beginning of a line; a loss of power leaves zeros."""
    whole = [line(Message(b"%d" % number)) for number in range(len(kinds))]
    written, kept = [], []
    for kind, one in zip(kinds, whole, strict=True):
        end = data.draw(st.integers(0, len(one) - 3))
        written.append([one, one[:end] + "\n", one[:end] + "\0" * (len(one) - end) + "\n"][kind])
        kept += [one] * (kind == 0)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.jsonl")
        path.write_text("".join(written))
        assert [bytes.fromhex(json.loads(one)["raw"]) for one in kept] == [
            entry.octets for entry in read_quarantine(path)
        ]


def test_message_format_is_kept_or_the_message_is_quarantined(server: Server) -> None:
    """With format 0, a batch of Azure would be read as one message."""
    kinds = [0x80013700, 0, 5]
    append_lines(Path("in.jsonl"), [line(Message(b"x"), message_format=kind) for kind in kinds])
    there, change = f"{server.url}/formats", {"change": lambda message, _: message}

    first = asyncio.run(bridged("file:in.jsonl", there))
    second = asyncio.run(bridged(there, "file:out.jsonl"))
    assert (3, 3) == (first.accepted, second.accepted)
    assert kinds == [entry.message_format for entry in read_quarantine(Path("out.jsonl"))]

    third = asyncio.run(bridged("file:out.jsonl", there, **change))
    assert (1, {"untranslatable": 2}) == (third.accepted, third.quarantined)
    found = list(read_quarantine(Path("quarantine.jsonl")))
    assert [0x80013700, 5] == [entry.message_format for entry in found]
    assert all("move it to a target of 1.0, without a hook" in entry.description for entry in found)


def test_rotated_file_is_refused(server: Server) -> None:
    """The state file is that of the file before the rotation."""
    path, target = Path("in.jsonl"), f"{server.url}/rotated"
    append_lines(path, [line(Message(b"%d" % number)) for number in range(9)])
    asyncio.run(bridged(f"file:{path}", target, state=Path("state.db")))
    path.write_text(line(Message(b"new")))

    with pytest.raises(LinkError, match="has 1 messages, and was read up to 9"):
        asyncio.run(bridged(f"file:{path}", target, state=Path("state.db")))
    assert 1 == asyncio.run(bridged(f"file:{path}", target, state=Path("other.db"))).accepted


def test_file_changed_while_it_is_read_ends_the_route(server: Server) -> None:
    path = Path("in.jsonl")

    def damage(message: Any, _: Any) -> Any:
        path.write_text("gone\n")
        return message

    append_lines(path, [line(Message(b"x" * 50_000)) for _ in range(50)])
    # Which one it is depends on how many messages were settled before.
    said = "has 1 messages, and was read up to|not JSON|line 1 is not the one that was read there"
    with pytest.raises(LinkError, match=said):
        asyncio.run(bridged(f"file:{path}", f"{server.url}/s", change=damage, connect_timeout=0.2))


def test_unwritable_target_file_is_raised_immediately(server: Server) -> None:
    with pytest.raises(LinkError, match="No such file"):
        asyncio.run(bridged(f"{server.url}/a", "file:no/such/folder.jsonl"))


@pytest.mark.parametrize(
    "url, said",
    [
        ("file:", "must be file:PATH"),
        ("file://elsewhere/x", "must be file:PATH"),
        ("file:x?protocol=2", "protocol must be 0-9-1 or 1.0"),
        ("file:x?queue=q", "is not a parameter of a file"),
        ("file:x?offset=last", "offset= of a file must be first or a number"),
        ("file:x#y", "%23"),
    ],
)
def test_invalid_file_urls(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_url(url)


def test_file_urls_are_printed_as_parsed() -> None:
    for url in ("file:a%20b.jsonl?protocol=0-9-1", "file:/tmp/x.jsonl?protocol=1.0"):
        assert url == str(parse_url(url))
    assert "a b.jsonl" == parse_url("file:x/a%20b.jsonl").name
    with pytest.raises(ValueError, match="source and target are both files"):
        RouteSpec("file:a", "file:b")


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(1, 4), st.sets(st.integers(0, 5)))
@example(1, 1, {0})
def test_released_messages_of_a_file_are_delivered_again(
    count: int, window: int, released: set[int]
) -> None:
    accepted: list[int | None] = []
    pending = set(released)

    async def read(path: Path) -> int | None:
        def receive(deliveries: Sequence[SourceDelivery]) -> None:
            for delivery in deliveries:
                if delivery.position in pending:
                    pending.discard(delivery.position)
                    source.settle([delivery], Settle.RELEASE)
                else:
                    accepted.append(delivery.position)
                    source.settle([delivery], Settle.ACCEPT)

        source = await open_source(
            SourceRequest(
                endpoint=parse_url(f"file:{path}"),
                receive=receive,
                on_lost=lambda _: None,
                window=window,
                max_message=1_000,
                overflow=lambda: Oversized(Path(), 0),
                pool=None,
            )
        )
        for _ in range(4 * count):
            await asyncio.sleep(0)
        return await source.depth()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.jsonl")
        path.write_text("".join(line(Message(f"{number}")) for number in range(count)))
        remaining = asyncio.run(read(path))

    assert 0 == remaining
    assert list(range(count)) == sorted(position or 0 for position in accepted)
