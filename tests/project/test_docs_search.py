"""Whether the search of the built documentation finds the words of AMQP.

``make check`` builds it; without that, there is nothing to search.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import files, notation
from amqp10msg.net import bridge

BUILT = Path(__file__).parents[2] / "docs" / "_build" / "html" / "searchindex.js"
pytestmark = pytest.mark.once

# Names of the bridge that other pages have, or none.
LEFT_OUT = {"ACTIONS", "Entry", "Outcome", "Quarantine", "REASONS", "Settle", "SourceDelivery"}
LEFT_OUT |= {"Statistics", "read_quarantine"}

if not BUILT.exists():
    pytest.skip("the documentation is not built: make docs", allow_module_level=True)
search = pytest.importorskip("sphinx.search.en", reason="needs Sphinx")


@cache
def index() -> dict[str, Any]:
    text = BUILT.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    return found


def pages_of(query: str) -> set[str]:
    """The pages that have every word of a query, as the page's search looks for them."""
    language = search.SearchEnglish({})
    found: set[str] | None = None
    for word in re.findall(r"\w+", query.lower()):
        if word in language.stopwords:
            continue
        places: set[int] = set()
        for terms in (index()["terms"], index()["titleterms"]):
            known = terms.get(language.stem(word), [])
            places |= {known} if isinstance(known, int) else set(known)
        pages = {index()["docnames"][place] for place in places}
        found = pages if found is None else found & pages
    return found or set()


@pytest.mark.parametrize(
    "query, page",
    [
        ("message-annotations", "reference/sections"),
        ("first-acquirer", "reference/composites"),
        ("first-acquirer", "reference/python/sections"),
        ("delivery-count", "reference/composites"),
        ("delivery-count", "how-to/delivery-states"),
        ("smallulong", "reference/values"),
        ("amqp-sequence", "reference/sections"),
        ("x-opt-jms-msg-type", "how-to/jms"),
        ("section-out-of-order", "reference/rules"),
        ("distribution-mode", "reference/composites"),
        ("residual", "explanation/residual"),
        ("selector", "how-to/filters"),
        ("traceparent", "how-to/tracing"),
    ],
)
def test_search_for_amqp_term_finds_its_page(query: str, page: str) -> None:
    assert page in pages_of(query)


def test_search_for_unknown_word_finds_nothing() -> None:
    assert set() == pages_of("xyzzy")


def test_reference_pages_are_below_size_limit() -> None:
    pages = (BUILT.parent / "reference").rglob("*.html")
    sizes = {page.name: page.stat().st_size for page in pages}

    assert len(sizes) > 30
    assert {} == {name: size for name, size in sizes.items() if size > 150_000}


@pytest.mark.parametrize(
    "package, page", [(files, "files"), (bridge, "bridge"), (notation, "notation")]
)
def test_lazily_imported_names_are_in_reference(package: Any, page: str) -> None:
    text = (BUILT.parent / f"reference/python/{page}.html").read_text(encoding="utf-8")
    names = {name for name in package.__all__ if f'id="{package.__name__}.{name}"' in text}

    assert set(package.__all__) - LEFT_OUT == names
