"""Each series of RabbitMQ has its name, wherever a profile, rules or a dialect are chosen."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message, validate
from amqp10msg.app.cli import main
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.brokers import RABBITMQ, ByName, SeriesName, translations
from amqp10msg.delivery.filters import ApplicationPropertiesFilter, SqlFilter, parse
from amqp10msg.jobs import Job
from amqp10msg.jobs.translating import Translator
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.testing import messages
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    TranslationError,
    to_amqp10,
    to_basic,
)
from amqp10msg.validation import PROFILES as RULE_SETS

pytestmark = pytest.mark.once

QUEUES = [f"rabbitmq-{name}" for name in RABBITMQ]
NAMES = [*QUEUES, *(f"rabbitmq-{one.name}-stream" for one in RABBITMQ.values() if one.has_streams)]
UNKNOWN: Any = "rabbitmq-5"
BASIC = BasicMessage(BasicProperties(), b"x")
names = pytest.mark.parametrize("name", NAMES)
keys = st.text("ab", max_size=2)


@given(st.dictionaries(keys, st.integers()), st.dictionaries(keys, keys))
def test_aliases_map_to_entries_and_count_once(
    things: dict[str, int], others: dict[str, str]
) -> None:
    others = {name: own for name, own in others.items() if own in things}
    known = ByName(things, others)

    assert things == dict(known)
    assert {*things, *others} == set(known.names)
    for name in known.names:
        assert things.get(name, things[others.get(name, name)]) == known[name]
    assert "c" not in known


@names
def test_broker_name_is_accepted_as_profile_everywhere(name: Any) -> None:
    assert [] == validate(Message(b"x"), name)
    assert b"x" == to_basic(Message(b"x"), name).message.body
    assert Message(b"x").body == to_amqp10(BASIC, name).message.body
    assert name == RouteOptions(profile=name).profile
    Job("translate", profile=name).check(["content_header", "payload"])
    Job("decode", profile=name).check(["wire"])
    Job("validate", profile=name).check(["wire"])
    Translator("0-9-1", name)
    for command in (["validate"], ["translate", "--to", "0-9-1"]):
        run = CliRunner().invoke(main, [*command, "--profile", name, "00537540"])
        assert 2 != run.exit_code, run.output


@given(messages(), st.sampled_from(NAMES))
def test_derived_broker_translates_as_its_base(message: Message, name: Any) -> None:
    def made(profile: Any) -> Any:
        try:
            return to_basic(message, profile).message
        except TranslationError as error:
            return error.path, str(error)

    suffix = "-stream" if name.endswith("-stream") else ""
    series = RABBITMQ[name.removeprefix("rabbitmq-").removesuffix("-stream")]
    assert made(f"rabbitmq-{series.follows}{suffix}") == made(name)


def test_rabbitmq_4_2_converts_as_4_3_and_counts_deliveries_as_4_0() -> None:
    basic = BasicMessage(BasicProperties(reply_to="q"), b"x")
    made = [to_amqp10(basic, name).message.properties for name in ("rabbitmq-4.1", "rabbitmq-4.2")]
    assert ["q", "/queues/q"] == [one and one.reply_to for one in made]
    modes = [
        to_basic(Message(b"x"), name).message.properties.delivery_mode
        for name in ("rabbitmq-4.1", "rabbitmq-4.2")
    ]
    assert [2, None] == modes
    for way in ("released", "reject", "closed"):
        given_ = Circumstances(queue_type="quorum", given_back=[way])
        found = [
            to_amqp10(BASIC, name, circumstances=given_).message
            for name in ("rabbitmq-4.0", "rabbitmq-4.2")
        ]
        assert found[0].header == found[1].header
        assert found[0].message_annotations == found[1].message_annotations


WITH_SQL = [f"rabbitmq-{one.name}" for one in RABBITMQ.values() if one.has_sql]


@pytest.mark.parametrize("name", WITH_SQL)
def test_brokers_have_filter_dialects(name: Any) -> None:
    kinds: Any = ((SqlFilter, "p.subject LIKE 'a_'"), (ApplicationPropertiesFilter, {"a": 1}))
    for kind, value in kinds:
        made: Any = kind(value, dialect=name)
        assert kind(value, dialect="rabbitmq-4.3") == made
        assert "rabbitmq-4.3" == made.dialect
    octets = SqlFilter("a = 1").encode()
    assert parse(octets, dialect="rabbitmq-4.3") == parse(octets, dialect=name)
    run = CliRunner().invoke(main, ["filter", "-l", "sql", "--dialect", name, "a = 1", "00537540"])
    assert 2 != run.exit_code, run.output


def test_unknown_broker_error_lists_known_names() -> None:
    profiles = ", ".join(PROFILES.names)
    rules = ", ".join(RULE_SETS.names)
    dialects = "oasis, rabbitmq, rabbitmq-4, rabbitmq-4.2, rabbitmq-4.3"
    for known, use in (
        (profiles, lambda: to_amqp10(BASIC, UNKNOWN)),
        (profiles, lambda: to_basic(Message(b"x"), UNKNOWN)),
        (profiles, lambda: Translator("0-9-1", UNKNOWN)),
        (profiles, lambda: RouteOptions(profile=UNKNOWN)),
        (rules, lambda: validate(b"", UNKNOWN)),
        (rules, lambda: Job("validate", profile=UNKNOWN).check(["wire"])),
        (dialects, lambda: SqlFilter("a = 1", dialect=UNKNOWN)),
        (dialects, lambda: ApplicationPropertiesFilter({"a": 1}, dialect=UNKNOWN)),
        (dialects, lambda: parse(SqlFilter("a = 1").encode(), dialect=UNKNOWN)),
    ):
        with pytest.raises((ValueError, TypeError)) as raised:
            use()
        assert known in str(raised.value)


def test_broker_table_matches_recordings() -> None:
    assert ["3.10", "4.0", "4.3"] == [one.name for one in RABBITMQ.values() if one.is_recorded]
    assert all(RABBITMQ[one.follows].is_recorded for one in RABBITMQ.values())
    assert set(NAMES) <= set(PROFILES.names)


def test_type_hints_list_all_broker_names() -> None:
    assert set(translations()) == set(get_args(SeriesName))
