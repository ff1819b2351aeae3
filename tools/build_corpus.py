"""Write the corpus that comes with the library from its sources.

    python tools/build_corpus.py [FOLDER]

The sources are the chapters of ``corpus_source``, written by hand, and what is recorded in
``tests/vectors/recorded.jsonl.gz``. FOLDER is ``amqp10msg/corpus/data`` where it is not given.
"""

from __future__ import annotations

import sys
from pathlib import Path

from corpus_source import (
    arrays,
    compounds,
    delivery,
    limited,
    numbers,
    recorded,
    sections,
    texts,
    wrong_content,
    wrong_sections,
)

from amqp10msg.corpus import Case, dump

ROOT = Path(__file__).parents[1]


def files() -> dict[str, list[Case]]:
    """Return the cases by the name of their file."""
    return {
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


def build(folder: Path) -> int:
    """Write the files and tell the number of cases."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for name, cases in files().items():
        dump(cases, folder / name)
        total += len(cases)
    return total


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "amqp10msg" / "corpus" / "data"
    sys.stdout.write(f"{build(target)} cases in {target}\n")
