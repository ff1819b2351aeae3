"""The directive ``sentences``, which draws the page of normative sentences from their table.

    ```{sentences} Part 3
    ```

Its argument is a specification, or ``counts`` for the number of sentences by what covers them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amqp_tables import code, table
from docutils import nodes
from specification import Sentence, cases_of_rules, clause_key, rules, sentences
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

#: The specifications, as clauses begin, and their names.
SPECIFICATIONS = {"Part 3": "AMQP 1.0, Part 3", "0-9-1": "AMQP 0-9-1", "0-9": "AMQP 0-9"}
#: The maximum number of cases that a row names for its rules.
_MAX_CASES = 3


def sentences_of(specification: str) -> dict[str, list[Sentence]]:
    """Return the sentences of a specification by clause, in the order of the clauses."""
    found: dict[str, list[Sentence]] = {}
    for sentence in sentences():
        for clause in dict.fromkeys(sentence.clauses):
            if clause.startswith(f"{specification}, "):
                found.setdefault(clause, []).append(sentence)
    return dict(sorted(found.items(), key=lambda row: clause_key(row[0])))


def cover(sentence: Sentence) -> str:
    """Return the Markdown of what covers a sentence."""
    parts = []
    if sentence.rules:
        texts = [code(rules()[name].id) for name in sentence.rules]
        parts.append(f"rule {', '.join(texts)}")
    cases = list(dict.fromkeys([*sentence.cases, *cases_of_rules(sentence.rules)]))
    if cases:
        more = len(cases) - _MAX_CASES
        names = ", ".join(map(code, cases[:_MAX_CASES]))
        parts.append(f"case {names}" + (f" and {more} more" if more > 0 else ""))
    if sentence.tests:
        parts.append(f"test {', '.join(map(code, sentence.tests))}")
    if sentence.reason:
        parts.append(sentence.reason)
    return "; ".join(parts)


def sentence_tables(specification: str) -> str:
    """Return a table of sentences for each clause of a specification."""
    return "\n".join(
        f"### {clause.partition(', ')[2]}\n\n"
        + table(
            ("Sentence", "Covered by"),
            ((sentence.quote, cover(sentence)) for sentence in rows),
        )
        for clause, rows in sentences_of(specification).items()
    )


def counts() -> str:
    """Return a table with the number of sentences of each specification, by what covers them."""
    return table(
        ("Specification", "Sentences", "Rule", "Case or test only", "Not visible"),
        (
            (name, *map(len, _divided(sentences_of(prefix).values())))
            for prefix, name in SPECIFICATIONS.items()
        ),
    )


def _divided(clauses: Iterable[list[Sentence]]) -> tuple[list[Sentence], ...]:
    """Return all sentences, those with a rule, the others that are covered, and the rest."""
    all_rows = [sentence for rows in clauses for sentence in rows]
    with_rule = [sentence for sentence in all_rows if sentence.rules]
    shown = [sentence for sentence in all_rows if sentence.is_covered and not sentence.rules]
    return all_rows, with_rule, shown, [one for one in all_rows if not one.is_covered]


class Sentences(SphinxDirective):
    """Parses the generated Markdown as if it was written in the page."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the generated Markdown."""
        name = self.arguments[0]
        if name != "counts" and name not in SPECIFICATIONS:
            raise self.error(f"{name!r} must be counts or one of {', '.join(SPECIFICATIONS)}")
        text = counts() if name == "counts" else sentence_tables(name)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("sentences", Sentences)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
