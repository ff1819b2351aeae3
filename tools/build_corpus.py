"""Write the corpus that comes with the library from its sources.

    python tools/build_corpus.py [FOLDER]

The sources are the chapters of ``corpus_source``, written by hand or generated from the tables of
the specification, and what is recorded in ``tests/vectors``. FOLDER is
``amqp10msg/interop/corpus/data`` where it is not given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import attrs
from corpus_source import (
    arrays,
    bounds,
    compounds,
    decisions,
    delivery,
    fields,
    fields_of_basic,
    filters,
    limited,
    numbers,
    recorded,
    sections,
    termini,
    texts,
    translations,
    wrong_content,
    wrong_sections,
)

from amqp10msg.interop.corpus import Case, dump

ROOT = Path(__file__).parents[1]


def files() -> dict[str, list[Case]]:
    """Return the cases by the name of their file."""
    found = {
        "values.jsonl": [
            *numbers.chapter.cases,
            *texts.chapter.cases,
            *compounds.chapter.cases,
            *arrays.chapter.cases,
            *limited.values.cases,
        ],
        "composites.jsonl": delivery.chapter.cases,
        "messages.jsonl": [
            *sections.chapter.cases,
            *wrong_sections.chapter.cases,
            *wrong_content.chapter.cases,
            *limited.messages.cases,
        ],
        "recorded.jsonl": recorded.cases(),
    }
    questions = [*decisions.cases, *filters.cases, *termini.questions, *translations.cases]
    known = {_content(case) for cases in found.values() for case in cases}
    # What was generated leaves out what was written by hand.
    for name, cases in (
        ("bounds.jsonl", bounds.chapter.cases),
        ("fields.jsonl", [*fields.messages.cases, *fields.composites.cases]),
        ("termini.jsonl", termini.chapter.cases),
        ("basic.jsonl", [*fields_of_basic.tables.cases, *fields_of_basic.properties.cases]),
        ("decisions.jsonl", questions),
    ):
        found[name] = []
        for case in cases:
            if (content := _content(case)) not in known:
                known.add(content)
                found[name].append(attrs.evolve(case, id=f"{Path(name).stem}-{case.id}"))
    return found


def _content(case: Case) -> tuple[str, ...]:
    """Return what tells a case from others: not its name."""
    told = (case.limits, case.given)
    return (case.kind, case.data.hex(), case.profile, json.dumps(told, default=dict))


def build(folder: Path) -> int:
    """Write the files and tell the number of cases."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for name, cases in files().items():
        dump(cases, folder / name)
        total += len(cases)
    return total


if __name__ == "__main__":
    data = ROOT / "amqp10msg" / "interop" / "corpus" / "data"
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else data
    sys.stdout.write(f"{build(target)} cases in {target}\n")
