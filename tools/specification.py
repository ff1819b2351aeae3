"""The normative sentences of the specifications, and what shows whether the library obeys them.

The table is tools/specification.toml; the reference page "Sentence by sentence" is drawn from it.
To compare it with the texts of the specifications, which are not in this repository:

    python tools/specification.py FOLDER

FOLDER holds the texts, under any names. For each clause, the command prints the number of normative
words, and what differs.
"""

from __future__ import annotations

import re
import sys
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs

from amqp10msg.delivery import TERMINUS_NOT_VISIBLE, TERMINUS_RULES
from amqp10msg.interop import corpus
from amqp10msg.validation import NOT_VISIBLE, RULES, Obligation
from amqp10msg.validation.rules import Rule

TABLE = Path(__file__).with_suffix(".toml")
#: The words that make a sentence normative (RFC 2119). The specifications also write ``must`` in
#: small letters, without another meaning.
NORMATIVE = re.compile(r"\b(?:MUST|SHALL|SHOULD|MAY|REQUIRED|RECOMMENDED|must)\b")


@attrs.frozen
class Sentence:
    """A normative sentence, or a part of one, and what covers it.

    Attributes:
        clauses: the clauses that contain the sentence; a clause that repeats it is listed as often.
        quote: the sentence.
        rules: the rules that a message or terminus breaks if it breaks the sentence. Rules of
            termini have the prefix ``terminus:``.
        cases: ids of corpus cases that an implementation fails if it breaks the sentence.
        tests: tests that fail if the library breaks the sentence, as ``file::function``.
        reason: why there is no rule, case or test, or what they leave open. May be empty otherwise.
    """

    clauses: tuple[str, ...]
    quote: str
    rules: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_covered(self) -> bool:
        """Whether a rule, a case or a test shows a violation."""
        return bool(self.rules or self.cases or self.tests)


@cache
def rules() -> Mapping[str, Rule]:
    """Return the rules by the names that the table uses."""
    return {**RULES, **{f"terminus:{name}": rule for name, rule in TERMINUS_RULES.items()}}


def obligations() -> tuple[Obligation, ...]:
    """Return the sentences without a rule that the package lists."""
    return (*NOT_VISIBLE, *TERMINUS_NOT_VISIBLE)


@cache
def sentences() -> tuple[Sentence, ...]:
    """Return the rows of the table.

    A row has its own ``quote``, the name of the rule that quotes the sentence (``quoted-by``), or
    the beginning of an `Obligation` (``obligation``), whose reason applies unless something covers
    the sentence.

    Raises:
        ValueError: a row is malformed, or names no rule or no obligation.
    """
    table = _table()
    return tuple(_sentence(row, table["reasons"]) for row in table["sentence"])


def _table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def _sentence(row: dict[str, Any], reasons: Mapping[str, str]) -> Sentence:
    fields = dict(row)
    sources = [key for key in ("quote", "quoted-by", "obligation") if key in fields]
    if len(sources) != 1:
        raise ValueError(f"{row}: give one of quote, quoted-by and obligation")
    value = fields.pop(sources[0])
    quote, reason = value, ""
    if "quoted-by" in sources:
        quote = rules()[value].quote if value in rules() else ""
        fields.setdefault("rules", [value])
    elif "obligation" in sources:
        quotes = [row for row in obligations() if row.quote.startswith(value)]
        quote, reason = (quotes[0].quote, quotes[0].reason) if len(quotes) == 1 else ("", "")
    if not quote:
        raise ValueError(f"{value!r} is not the name of one quote")
    clauses = tuple(fields.pop("clauses"))
    fields["reason"] = reasons.get(fields.get("reason", ""), fields.get("reason", ""))
    fields |= {key: tuple(fields.get(key, ())) for key in ("rules", "cases", "tests")}
    sentence = Sentence(clauses, quote, **fields)
    if sentence.is_covered or sentence.reason:
        return sentence
    return attrs.evolve(sentence, reason=reason)


def cases_of_rules(names: Iterable[str]) -> list[str]:
    """Return the ids of the corpus cases that violate one of the rules."""
    return [case for name in names for case in _cases_by_rule().get(name, ())]


@cache
def _cases_by_rule() -> Mapping[str, list[str]]:
    cases: dict[str, list[str]] = {}
    for case in corpus.load():
        of_terminus = case.answer["violations"] if case.kind == "terminus" else ()
        names = [rule for rule, *_ in case.violations or ()]
        names += [f"terminus:{rule}" for rule, *_ in of_terminus]
        for name in dict.fromkeys(names):
            cases.setdefault(name, []).append(case.id)
    return cases


def clause_key(clause: str) -> tuple[tuple[int, str], ...]:
    """Return the key by which clauses are sorted: 3.2.10 follows 3.2.4."""
    parts = re.findall(r"\d+|\D+", clause.partition(", ")[2])
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


def words_by_clause() -> Counter[str]:
    """Return the number of normative words in the rows of each clause."""
    counts: Counter[str] = Counter()
    for sentence in sentences():
        for clause in sentence.clauses:
            counts[clause] += len(NORMATIVE.findall(sentence.quote))
    return +counts


def recorded_counts() -> Counter[str]:
    """Return the number of normative words that the texts have in each clause.

    The table holds these numbers, so that a removed row is noticed without the texts.
    """
    return Counter(_table()["words"])


# The texts.

_PART_3 = "OASIS AMQP Version 1.0\nPart 3 : Messaging"
_AMQP_0_9_1 = '<amqp major="0" minor="9" revision="1"'
_AMQP_0_9 = "AMQP version 09 specification"
# A mark at the ends of pages, which some copies have.
_PAGE_END = re.compile(r"^<\|[^|\n]*\|>", re.MULTILINE)
# The classes and the domains about contents, their delivery and their acknowledgement. Connections,
# channels, exchanges, queues and access tickets are outside of the library's scope.
_CLASSES_OF_0_9_1 = ("basic", "tx")
_CLAUSES_OF_0_9 = re.compile(r"1\.(?:1|2|9|10|11|12|14|15)(?:\.|$)")


def clauses_of(text: str) -> dict[str, str]:
    """Return the text of each clause of a specification; an empty dict for any other text."""
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    if _PART_3 in text:
        return dict(_clauses_of_part_3(text))
    if _AMQP_0_9_1 in text:
        return dict(_clauses_of_0_9_1(text))
    if _AMQP_0_9 in text:
        return dict(_clauses_of_0_9(text))
    return {}


def _clauses_of_part_3(text: str) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^(3\.\d+(?:\.\d+)?) [A-Z][\w ]+$", text, flags=re.MULTILINE)
    for number, body in zip(parts[1::2], parts[2::2], strict=True):
        if body.strip():  # the table of contents has headings without text
            yield f"Part 3, {number}", body


def _clauses_of_0_9_1(text: str) -> Iterator[tuple[str, str]]:
    root = ElementTree.fromstring(text)
    for element in root:
        name = element.get("name", "")
        if element.tag == "class" and name in _CLASSES_OF_0_9_1:
            yield f"0-9-1, {name}", _documentation(element, without="method")
            for method in element.iter("method"):
                yield f"0-9-1, {name}.{method.get('name')}", _documentation(method)
        elif element.tag in {"domain", "constant"}:
            yield f"0-9-1, {element.tag} {name}", _documentation(element)


def _documentation(element: ElementTree.Element, without: str = "") -> str:
    """Return an element's label and documentation, without grammars and test scenarios."""
    texts = [element.get("label", "")]
    if element.tag == "doc" and "type" not in element.attrib:
        texts.append(element.text or "")
    texts += [_documentation(child, without) for child in element if child.tag != without]
    return "\n".join(filter(None, map(str.strip, texts)))


def _clauses_of_0_9(text: str) -> Iterator[tuple[str, str]]:
    parts = re.split(
        r"^(1(?:\.\d+)+)\. ((?:AMQP|Class|Method|Parameter|Property).*)$",
        _PAGE_END.sub("", text),
        flags=re.MULTILINE,
    )
    for number, body in zip(parts[1::3], parts[3::3], strict=True):
        if _CLAUSES_OF_0_9.match(number):
            yield f"0-9, {number}", body


def read_clauses(folder: Path) -> dict[str, str]:
    """Return the text of each clause of the specifications in a folder.

    Raises:
        OSError: a file cannot be read.
        ValueError: a specification is missing.
    """
    clauses: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file():
            clauses |= clauses_of(path.read_text(encoding="utf-8", errors="replace"))
    for name in ("Part 3, 3.2", "0-9-1, basic", "0-9, 1.9"):
        if name not in clauses:
            raise ValueError(f"{folder}: no text contains the clause {name}")
    return clauses


@attrs.frozen
class _Letters:
    """The letters and digits of a text, and their places: one text may break lines elsewhere."""

    letters: str
    places: list[int]

    @classmethod
    def of(cls, text: str) -> _Letters:
        places = [place for place, letter in enumerate(text) if letter.isalnum()]
        return cls("".join(text[place] for place in places), places)

    def spans(self, quote: str) -> list[tuple[int, int]]:
        """Return the spans of letters that equal those of a quote."""
        wanted = _Letters.of(quote).letters
        return [found.span() for found in re.finditer(re.escape(wanted), self.letters)]


def differences(clauses: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each normative word without one row, and each quote missing in its clause.

    Texts are compared by their letters and digits: some have lost hyphens or have other line ends.
    """
    for clause, text in clauses.items():
        yield from _differences_of(clause, text)
    for sentence in sentences():
        for clause in sentence.clauses:
            if clause not in clauses:
                yield f"{clause}: no text has this clause"


def _differences_of(clause: str, text: str) -> Iterator[str]:
    letters = _Letters.of(text)
    words = [bisect_left(letters.places, word.start()) for word in NORMATIVE.finditer(text)]
    covered: Counter[int] = Counter()
    for sentence in sentences():
        times = sentence.clauses.count(clause)
        spans = letters.spans(sentence.quote) if times else []
        if len(spans) != times:
            yield f"{clause}: has {len(spans)} times, not {times}: {sentence.quote}"
        covered.update(word for word in words for start, end in spans if start <= word < end)
    for word in words:
        if covered[word] != 1:
            place = letters.places[word]
            context = " ".join(text[max(0, place - 100) : place + 100].split())
            yield f"{clause}: {covered[word]} rows, not 1, cover the middle of: {context}"


def main(folder: Path) -> int:
    """Print the counts of the texts, and what differs; return the exit status."""
    clauses = read_clauses(folder)
    for clause, text in clauses.items():
        if count := len(NORMATIVE.findall(text)):
            print(f'"{clause}" = {count}')
    lines = list(differences(clauses))
    print("\n".join(lines))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
