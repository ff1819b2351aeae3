"""``amqp10msg rules``: rules and sentences by name, clause and words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from amqp10msg.app.cli import main
from amqp10msg.delivery import TERMINUS_NOT_VISIBLE, TERMINUS_RULES
from amqp10msg.validation import NOT_VISIBLE, RULES


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["rules", *arguments])
    assert 0 == result.exit_code, result.output
    return result.stdout


def entries(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("--json", *arguments).splitlines()]


def test_without_names_every_rule_is_a_line() -> None:
    rules = [*RULES, *TERMINUS_RULES]

    assert rules == [line.split(" ")[0] for line in run().splitlines()]
    assert rules == [entry["rule"] for entry in entries()]


@pytest.mark.parametrize("rule", sorted({*RULES, *TERMINUS_RULES}))
def test_a_rule_is_shown_with_its_words(rule: str) -> None:
    shown = " ".join(run(rule).split())

    for table in (RULES, TERMINUS_RULES):
        if rule in table:
            assert f"{rule} {table[rule].severity} {table[rule].clause}" in shown
            assert table[rule].text in shown
            assert " ".join(table[rule].quote.split()) in shown


@pytest.mark.parametrize(
    "clause, expected",
    [
        ("3.2.9", {"section-value-type"}),
        ("Part 1, 1.6.20", {"invalid-utf8"}),
        ("part 1 1.2.4", {rule.id for rule in RULES.values() if "1.2.4" in rule.clause}),
        ("3.2.13", {"field-type"}),
    ],
)
def test_a_clause_shows_its_rules(clause: str, expected: set[str]) -> None:
    assert expected == {entry["rule"] for entry in entries(clause) if "rule" in entry}


def test_clauses_include_those_below_and_sentences_without_a_rule() -> None:
    shown = [entry for part in ("3.2", "3.4", "3.5") for entry in entries(part)]

    of_part_3 = {rule.id for rule in RULES.values() if rule.clause.startswith("Part 3")}
    assert of_part_3 <= {entry["rule"] for entry in shown if "rule" in entry}
    without_rule = {(entry["clause"], entry["quote"]) for entry in shown if "rule" not in entry}
    assert without_rule == {(o.clause, o.quote) for o in (*NOT_VISIBLE, *TERMINUS_NOT_VISIBLE)}


def test_words_find_rules_and_sentences() -> None:
    shown = entries("Durable")

    assert shown
    assert all("durable" in f"{entry.get('text')} {entry['quote']}".lower() for entry in shown)
    assert "It concerns the behaviour of the target." in run("durable header")


@pytest.mark.parametrize(
    "name, hint",
    [("body-mising", "did you mean 'body-missing'?"), ("3.9", "no rule or sentence matches '3.9'")],
)
def test_unknown_names_are_refused(name: str, hint: str) -> None:
    result = CliRunner().invoke(main, ["rules", name])

    assert 2 == result.exit_code
    assert hint in result.output
