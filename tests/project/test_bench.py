"""The benchmarks run, and all who are measured decode the same content. Nothing here is a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import attrs
import pytest

import amqp10msg
from amqp10msg import Message, validate
from bench import __main__ as command
from bench import filters, messages, ours, peers, picks, report, translation, uses
from bench.harness import SMOKE

pytestmark = pytest.mark.once


def module(peer: peers.Peer) -> ModuleType:
    """The peer's module, or a skip where its library is not installed."""
    loaded = peer.load()
    if loaded is None:
        pytest.skip(f"needs {peer.install}")
    return loaded


def each_peer(*chosen: peers.Peer) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("peer", chosen, ids=lambda peer: peer.key)


# The messages.


def test_reference_message_has_500_bytes() -> None:
    assert len(messages.REFERENCE) == 500
    assert len(messages.BODY) == 256


def test_relayed_message_differs_only_in_delivery_count() -> None:
    differing = [
        (place, before, after)
        for place, (before, after) in enumerate(
            zip(messages.REFERENCE, messages.RELAYED, strict=True)
        )
        if before != after
    ]

    assert differing == [(16, 3, 4)]


@each_peer(peers.PROTON, peers.AZURE)
def test_peers_decode_reference_message(peer: peers.Peer) -> None:
    loaded = module(peer)

    assert loaded.plain(loaded.read_reference(messages.REFERENCE)) == messages.EVERY_FIELD


def test_library_decodes_reference_message() -> None:
    assert ours.plain(ours.read_reference(messages.REFERENCE)) == messages.EVERY_FIELD


def test_msgspec_decodes_same_content() -> None:
    loaded = module(peers.MSGSPEC)

    assert loaded.read_reference(loaded.build_reference()) == messages.EVERY_FIELD


def test_large_message_sections_hold_whole_body() -> None:
    data = messages.large(1)

    assert len(data) == messages.MIB + 8
    assert ours.read_data(data) == b"\xa5" * messages.MIB


# What is built.


def test_library_encodes_reference_message_exactly() -> None:
    assert ours.build_reference() == messages.REFERENCE


@each_peer(peers.PROTON, peers.AZURE)
def test_peers_encode_same_content(peer: peers.Peer) -> None:
    built = bytes(module(peer).build_reference())

    assert ours.plain(ours.read_reference(built)) == messages.EVERY_FIELD


@pytest.mark.parametrize("relay", [ours.relay, ours.relay_counting])
def test_library_relays_other_sections_unchanged(relay: Callable[[bytes], bytes]) -> None:
    assert relay(messages.REFERENCE) == messages.RELAYED


def test_template_and_picks_have_same_content() -> None:
    octets = ours.template().encode(*ours.VALUES)

    assert messages.REFERENCE == octets
    assert ("msg-00417", "acme", 60_000) == ours.THREE(octets) == ours.read_three(octets)
    assert ours.THREE(octets) == ours.THREE(picks.larger())


def test_peers_pick_and_fill_same_fields() -> None:
    *texts, seconds = module(peers.PROTON).read_three(messages.REFERENCE)
    assert ours.THREE(messages.REFERENCE) == (*texts, seconds * 1000)
    msgspec = module(peers.MSGSPEC)
    assert msgspec.build_reference() == msgspec.fill(msgspec.template(), *ours.VALUES)


def test_proton_relays_same_content() -> None:
    relayed = bytes(module(peers.PROTON).relay(messages.REFERENCE))

    assert ours.read_reference(messages.RELAYED) == ours.read_reference(relayed)


@each_peer(peers.PROTON, peers.AZURE)
def test_peers_decode_data_section(peer: peers.Peer) -> None:
    found = module(peer).read_data(messages.large(1))

    assert (found if isinstance(found, bytes) else b"".join(found)) == b"\xa5" * messages.MIB


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_library_encodes_data_section_exactly(size: int) -> None:
    body = b"\x5a" * size

    assert messages.data_section(body) == ours.build_data(body)


def test_proton_encodes_data_section() -> None:
    assert ours.read_data(bytes(module(peers.PROTON).build_data(messages.BODY))) == messages.BODY


@pytest.mark.parametrize("entries", [1, 10, 200, messages.MAP_ENTRIES])
def test_all_peers_decode_and_encode_same_map(entries: int) -> None:
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


def test_all_filters_accept_benchmark_message() -> None:
    assert [] == [name for name, call in filters.contenders() if call() is not True]


def test_ordinary_message_has_510_bytes_and_properties_of_four_types() -> None:
    message = Message.decode(messages.ORDINARY)

    assert len(messages.ORDINARY) == 510
    assert message.application_properties is not None
    assert len(message.application_properties) == 5
    assert len({type(value) for value in message.application_properties.values()}) == 4
    assert messages.ORDINARY == ours.build_ordinary()
    assert messages.ORDINARY == ours.ordinary_template().encode(*ours.ORDINARY_VALUES)
    assert messages.TINY == Message("hello").encode()
    for data in (messages.ORDINARY, messages.TINY):
        assert [] == validate(data) == validate(data, "rabbitmq-4")
    assert len(validate(messages.ORDINARY_BROKEN)) == 2


def test_msgspec_reads_content_of_ordinary_message() -> None:
    loaded = module(peers.MSGSPEC)
    message: Any = Message.decode(messages.ORDINARY)

    content = loaded.decode(loaded.build_ordinary())

    assert loaded.read(loaded.build_ordinary()) == messages.BODY
    assert content[2] == message.message_annotations
    assert content[4] == message.application_properties
    assert content[3] == list(attrs.astuple(message.properties))


def test_general_message_is_valid_and_broken_one_violates_two_rules() -> None:
    message = Message.decode(messages.GENERAL)

    assert message.application_properties is not None
    kinds = {type(value) for value in message.application_properties.values()}
    assert len(kinds) == 12 == len(message.application_properties)
    assert [] == validate(messages.GENERAL) == validate(messages.GENERAL, "rabbitmq-4")
    assert len(validate(uses.BROKEN)) == 2


def test_proton_message_equals_general_message() -> None:
    made = bytes(module(peers.PROTON).build_general().encode())

    assert Message.decode(messages.GENERAL) == Message.decode(made)


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
def test_figure_runs_and_lists_library_first(figures: dict[str, report.Figure], key: str) -> None:
    figure = figures[key]

    assert key == figure.key
    first = figure.timings.entries[0].name
    ours_alone = {"large-linear": "1 MiB", "node": "plain, 1,000 queued"}
    ours_alone["threads"] = "Message.decode, one thread"
    assert first == ours_alone.get(key, ours.NAME)
    assert all(entry.median > 0 for entry in figure.timings.entries)


@MEASURED
@pytest.mark.parametrize("key", ALONE)
def test_figure_has_each_peer_or_its_install_command(
    figures: dict[str, report.Figure], key: str
) -> None:
    who = {
        "relay": {peers.PROTON},
        "pick": {peers.PROTON},
        "template-columns": set(),
        "pure": {peers.PROTON},
        "large-encode": {peers.PROTON, peers.MSGSPEC},
        "large-linear": set(),
        "filter": set(),
        "columns": {peers.PROTON},
        "columns-300": {peers.PROTON},
        "columns-validate": set(),
        "columns-encode": set(),
        "threads": set(),
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
        "translate-profiles": set(),
        "proton": set(),
    }.get(key, set(peers.PEERS))
    named = {entry.name for entry in figures[key].timings.entries}

    for peer in who:
        assert (peer.install in named) != any(
            f"pip install {peer.install}" in line for line in figures[key].left_out
        )


@MEASURED
def test_translation_round_trips_and_has_peer_or_reason(
    figures: dict[str, report.Figure],
) -> None:
    assert translation.HEADER == translation.back(translation.forth())
    figure = figures["translate"]
    named = {entry.name for entry in figure.timings.entries}
    assert (translation.PEER in named) != bool(figure.left_out)


@MEASURED
def test_floors_have_expected_limits(figures: dict[str, report.Figure]) -> None:
    floors = {
        key: [floor.at_least or floor.at_most for floor in figure.floors]
        for key, figure in figures.items()
        if figure.floors
    }

    brokers = 1 + ("AMQP10MSG_RABBITMQ" in os.environ)  # proton's, and RabbitMQ
    if find_spec("pyarrow") is not None:
        assert [100, 3.3, 2] == floors.pop("columns") == floors.pop("columns-300")
        assert [400_000] == floors.pop("columns-validate")
        assert [2, 2.5, 2.5] == floors.pop("columns-encode")
        assert [1.8, 1.8] == floors.pop("threads")[:2]
        assert [3_000_000] == floors.pop("template-columns")
        assert [60_000] * 5 == floors.pop("jobs-translate")
        assert [60_000] * 10 == floors.pop("jobs-translate-rabbitmq")
        assert [400_000] * 2 == floors.pop("jobs-validate")
    cbor, general_cbor = ([18, 18], [9, 9]) if find_spec("cbor2") else ([], [])
    floors.pop("threads", None)  # of an interpreter without the GIL
    assert floors == {
        "decode": [17.5, 7, 2.2, 1.4],
        "encode": [14, 3.4],
        "relay": [60],
        "template": [250, 7, 2, 0.16],
        "pick": [250, 100, 1.2],
        "pure": [1],
        "large-decode": [2, 1.1],
        "large-linear": [2],
        "filter": [3, 2],
        "startup": [60, 1.5, 2.2],
        "node": [1.5] * 4,
        "validate": [1.3, 1.3, 2, 2, 9, 2, 9],
        "change": [1] * 4,
        "notation": [1.85, 2, 4, 4, *cbor, 1.5, 2, 4, 4, *general_cbor],
        "translate": [8],
        "translate-profiles": [
            *[2.5, 3.2, 1.4, 1.9, *[2.6, 2.6, 1.2, 1.2] * 3],
            *[2, 2.5, 0.9, 1.3, *[1.8, 1.8, 0.7, 0.7] * 3] * 2,
        ],
        **({"proton": [1.3]} if "proton" in command.FIGURES else {}),
        **({"serve": [1] * brokers} if "serve" in command.FIGURES else {}),
    }


@pytest.mark.soak
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    "key, limits",
    [
        ("pipeline-decode", [1.2, 1.15, 1.15, 1.15]),
        ("pipeline-parquet", [0.95]),
        ("pipeline-cores", [1.6, 1]),
        ("pipeline-memory", [1.2]),
    ],
)
def test_pipeline_figure_runs(key: str, limits: list[float]) -> None:
    if key not in command.FIGURES:
        pytest.skip("needs pyspark and Java")

    figure = command.FIGURES[key](SMOKE)

    assert key == figure.key
    assert all(entry.median > 0 for entry in figure.timings.entries)
    assert limits == [floor.at_least or floor.at_most for floor in figure.floors]
    assert all(floor.measured is not None for floor in figure.floors)


def test_pure_figure_rejects_compiled_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from bench import pure  # noqa: PLC0415 - beside the other figures it is only a name

    monkeypatch.setattr(amqp10msg, "COMPILED", True)

    with pytest.raises(SystemExit, match="AMQP10MSG_PURE=1 had no effect"):
        pure.main()


def test_missing_peer_is_reported_with_install_command() -> None:
    absent = peers.Peer("absent", "some-distribution")

    assert peers.load(absent) == (
        {},
        ("some-distribution is left out: pip install some-distribution",),
    )
