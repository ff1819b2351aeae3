"""Look-ups by name: a KeyError has the nearest name and the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import translate, validation
from amqp10msg.brokers import RABBITMQ, ByName, Series, series_by_name
from amqp10msg.columns._schema import COMPUTED_COLUMNS
from amqp10msg.delivery import filters
from amqp10msg.delivery.rules import TERMINUS_RULES
from amqp10msg.files.formats import FORMATS
from amqp10msg.interop.clients import CLIENTS

# The table, a misspelled name, what it names, and the nearest name.
TABLES: list[tuple[Mapping[str, Any], str, str, str]] = [
    (validation.PROFILES, "oasiss", "profile", "oasis"),
    (validation.PROFILES, "rabbitmq-4.33", "profile", "rabbitmq-4.3"),
    (validation.RULES, "body-mising", "rule", "body-missing"),
    (TERMINUS_RULES, f"{next(iter(TERMINUS_RULES))}s", "rule", next(iter(TERMINUS_RULES))),
    (translate.PROFILES, "losless", "profile", "lossless"),
    (filters.DIALECTS, "oasiss", "dialect", "oasis"),
    (filters.LANGUAGES, "selektor", "filter language", "selector"),
    (FORMATS, "parket", "format", "parquet"),
    (CLIENTS, "kombo", "client", "kombu"),
    (RABBITMQ, "4.33", "series of RabbitMQ", "4.3"),
    (COMPUTED_COLUMNS, "eror", "computed column", "error"),
]


@pytest.mark.parametrize("table, name, kind, nearest", TABLES)
def test_unknown_name_is_refused_with_the_nearest_and_all_names(
    table: Mapping[str, Any], name: str, kind: str, nearest: str
) -> None:
    with pytest.raises(KeyError) as caught:
        table[name]

    (text,) = caught.value.args
    start = f"unknown {kind} {name!r} (did you mean {nearest!r}?): use one of "
    assert text.startswith(start)
    assert set(table) <= set(text.removeprefix(start).split(", "))
    assert name not in table
    assert table.get(name) is None
    assert table.get(name, 7) == 7


def test_entries_of_a_table_have_different_names() -> None:
    series = [Series("5.0", "5.0", "recorded"), Series("5.0", "5.0", "recorded")]

    with pytest.raises(ValueError, match=r"two entries of the table have the name '5\.0'"):
        series_by_name(series)


NAMES = st.text("ab", max_size=3)


@given(st.dictionaries(NAMES, st.integers()), st.dictionaries(NAMES, NAMES), NAMES)
def test_mapping_by_name_equals_a_dict(
    values: dict[str, int], aliases: dict[str, str], name: str
) -> None:
    aliases = {alias: target for alias, target in aliases.items() if target in values}
    table = ByName(values, aliases)
    expected = {**{alias: values[target] for alias, target in aliases.items()}, **values}

    assert (list(values), len(values)) == (list(table), len(table))
    assert expected.get(name) == table.get(name)
    assert (name in expected) == (name in table)
    assert set(table.names) == set(expected)
    if name in expected:
        assert expected[name] == table[name]
    else:
        with pytest.raises(KeyError, match="unknown profile"):
            table[name]


def test_alias_of_an_unknown_name_is_refused() -> None:
    text = r"^rabbitmq-4\.9 stands for an unknown profile 'rabbitmq-4\.33' \(did you mean '.*4\.3'"

    with pytest.raises(ValueError, match=text):
        ByName({"rabbitmq-4.3": 1}, {"rabbitmq-4.9": "rabbitmq-4.33"})


def test_series_that_follows_an_unknown_series_is_refused() -> None:
    text = r"^the series 4\.9 follows an unknown series of RabbitMQ '4\.33' \(did you mean '4\.3'"

    with pytest.raises(ValueError, match=text):
        series_by_name([*RABBITMQ.values(), Series("4.9", "4.33", "it is unknown")])


def test_unknown_name_that_is_long_is_shortened() -> None:
    with pytest.raises(KeyError) as caught:
        validation.PROFILES["x" * 10_000]

    assert len(str(caught.value)) < 1_000
