"""The table of normative sentences agrees with the texts, and what it names exists.

The table is tools/specification.toml. The texts are not in this repository: with
AMQP10MSG_SPECIFICATIONS, the folder that holds them, the table is compared with them.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs
import pytest
import specification
from specification import NORMATIVE, Sentence, differences, sentences

from amqp10msg.basic import BasicProperties
from amqp10msg.translate.settlement import REPLY_CODES
from tests.samples import corpus_cases

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
FOLDER = os.environ.get("AMQP10MSG_SPECIFICATIONS")
needs_texts = pytest.mark.skipif(FOLDER is None, reason="AMQP10MSG_SPECIFICATIONS is not set")
pytestmark = pytest.mark.once


@cache
def texts() -> Mapping[str, str]:
    return specification.read_clauses(Path(FOLDER or ""))


@cache
def functions_of(file: str) -> frozenset[str]:
    """The names of the functions and methods of a test file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


# The table.


def test_every_normative_word_of_each_clause_has_a_row() -> None:
    assert specification.recorded_counts() == specification.words_by_clause()


def test_named_tests_exist() -> None:
    named = {test for sentence in sentences() for test in sentence.tests}
    assert len(named) > 30
    missing = []
    for test in sorted(named):
        file, _, function = test.partition("::")
        is_test = function.startswith("test_") and (ROOT / file).is_file()
        if not is_test or function not in functions_of(file):
            missing.append(test)
    assert [] == missing


def test_named_cases_exist() -> None:
    named = {case for sentence in sentences() for case in sentence.cases}
    assert named
    assert set() == named - {case.id for case in corpus_cases()}


def test_named_rules_exist_and_have_cases() -> None:
    named = {rule for sentence in sentences() for rule in sentence.rules}
    assert len(named) > 15
    assert set() == named - specification.rules().keys()
    without_cases = {
        rule
        for sentence in sentences()
        for rule in sentence.rules
        if not sentence.cases and not specification.cases_of_rules([rule])
    }
    assert set() == without_cases


def test_sentence_has_cover_or_a_reason() -> None:
    for sentence in sentences():
        assert sentence.is_covered or sentence.reason.endswith("."), sentence
        assert NORMATIVE.search(sentence.quote), sentence


def test_every_quoted_rule_and_obligation_is_a_row() -> None:
    quotes = {sentence.quote for sentence in sentences()}
    quoted = {rule.quote for rule in specification.rules().values()}
    quoted |= {row.quote for row in specification.obligations()}
    # Part 4, Transactions, is not among the specifications.
    of_part_4 = {specification.rules()["terminus:global-id"].quote}

    assert {quote for quote in quoted if NORMATIVE.search(quote)} - of_part_4 <= quotes


@pytest.mark.parametrize(
    "row, reason",
    [
        ({"clauses": ["Part 3, 3.2"]}, "give one of"),
        ({"clauses": ["Part 3, 3.2"], "quote": "x must", "obligation": "If"}, "give one of"),
        ({"clauses": ["Part 3, 3.2"], "quoted-by": "no-rule"}, "not the name of one quote"),
        ({"clauses": ["Part 3, 3.2"], "obligation": "no text"}, "not the name of one quote"),
    ],
)
def test_malformed_row_is_refused(
    row: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = ["[reasons]", "[[sentence]]", *(f"{key} = {value!r}" for key, value in row.items())]
    (tmp_path / "table.toml").write_text("\n".join(lines))
    monkeypatch.setattr(specification, "TABLE", tmp_path / "table.toml")

    with pytest.raises(ValueError, match=reason):
        sentences.__wrapped__()


# The pages are drawn from the table when the documentation is built, so they are never stale.


def test_pages_have_each_specification_and_the_counts() -> None:
    pages = {"specification": ("counts", "Part 3"), "specification-0-9-1": ("0-9-1", "0-9")}
    index, rules = (
        (REFERENCE / name).read_text(encoding="utf-8") for name in ("index.md", "rules.md")
    )
    for page, arguments in pages.items():
        text = (REFERENCE / f"{page}.md").read_text(encoding="utf-8")
        assert f"\n{page}\n" in index
        for argument in arguments:
            assert f"```{{sentences}} {argument}\n```\n" in text
    assert "(specification.md)" in rules
    clauses = [clause for sentence in sentences() for clause in sentence.clauses]
    assert {"Part 3", "0-9-1", "0-9"} == {clause.partition(", ")[0] for clause in clauses}


# The texts.

TEXT = """\
OASIS AMQP Version 1.0
Part 3 : Messaging
3.2 Message Format
      3.2.1 Header
3.2 Message Format

A section MUST
be first. It must-
be small.

3.2.1 Header

A header MAY be absent.
"""


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, []),
        ({"quote": "A section MUST be first"}, ["0 rows, not 1", "must- be small"]),
        ({"quote": "It must be small. A section MUST be first."}, ["has 0 times, not 1"]),
        ({"clauses": ("Part 3, 3.2", "Part 3, 3.2")}, ["has 1 times, not 2"]),
        ({"clauses": ("Part 3, 3.9",)}, ["Part 3, 3.9: no text has this clause"]),
    ],
)
def test_differences_between_a_text_and_the_table(
    change: dict[str, Any], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Sentence(("Part 3, 3.2",), "A section MUST be first. It mustbe small.")
    rows = (attrs.evolve(first, **change), Sentence(("Part 3, 3.2.1",), "A header MAY be absent."))
    monkeypatch.setattr(specification, "sentences", lambda: rows)

    found = "\n".join(differences(specification.clauses_of(TEXT)))

    assert bool(expected) == bool(found)
    for text in expected:
        assert text in found


def test_sentence_with_two_rows_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Sentence(("Part 3, 3.2.1",), "A header MAY be absent.")
    monkeypatch.setattr(specification, "sentences", lambda: (row, row))

    found = list(differences({"Part 3, 3.2.1": "A header MAY be absent."}))

    assert ["2 rows, not 1" in line for line in found] == [True]


def test_other_text_has_no_clauses(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("no specification")

    with pytest.raises(ValueError, match=r"no text contains the clause Part 3, 3\.2"):
        specification.read_clauses(tmp_path)


@needs_texts
def test_table_equals_the_texts() -> None:
    assert [] == list(differences(texts()))
    words = {clause: len(NORMATIVE.findall(text)) for clause, text in texts().items()}
    assert specification.recorded_counts() == {clause: n for clause, n in words.items() if n}


@cache
def definition_of_0_9_1() -> ElementTree.Element:
    for path in sorted(Path(FOLDER or "").iterdir()):
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if '<amqp major="0" minor="9" revision="1"' in text:
            return ElementTree.fromstring(text)
    raise AssertionError("no text is the definition of 0-9-1")


@needs_texts
def test_reply_codes_are_those_of_0_9_1() -> None:
    ends = {"soft-error": "channel", "hard-error": "connection"}
    expected = {
        int(row.get("value", "")): (row.get("name"), ends[row.get("class", "")])
        for row in definition_of_0_9_1().iter("constant")
        if row.get("class")
    }
    found = {code: (row.name, row.closes) for code, row in REPLY_CODES.items()}

    assert ("no-route", "message") == found.pop(312)  # of 0-9 and RabbitMQ
    assert expected == found


@needs_texts
def test_basic_properties_are_those_of_0_9_1() -> None:
    (basic,) = [row for row in definition_of_0_9_1().iter("class") if row.get("name") == "basic"]
    expected = [row.get("name", "").replace("-", "_") for row in basic.findall("field")]
    expected[expected.index("reserved")] = "cluster_id"  # its name in 0-9

    assert expected == [field.name for field in attrs.fields(BasicProperties)][: len(expected)]
