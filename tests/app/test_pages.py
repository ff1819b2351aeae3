"""The basis of all HTML pages: escaping, the content security policy, and charts."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jinja2")

from markupsafe import Markup

from amqp10msg import Message, __version__, pages
from amqp10msg.notation import render_html
from amqp10msg.pages.reports import NARROW, WIDE, Bar, columns, proportions
from amqp10msg.provenance import command, facts, line
from amqp10msg.wire.text import printable
from tests.pages import Page

pytestmark = pytest.mark.once

TEXTS = st.text(max_size=60)
COUNTS = st.integers(0, 10**12)


def about(text: str) -> str:
    """Return a page that shows `text` in every place that can show text."""
    counts = [(text, text, text)]
    return pages.render(
        "job.html",
        **dict.fromkeys(
            ("title", "source", "output", "engine", "profile", "warning", "inspected"), text
        ),
        counts=counts,
        rules=[],
        quarantine="",
        parts=[],
        messages=[],
        more=0,
    )


@given(TEXTS)
def test_unprintable_characters_are_escaped(text: str) -> None:
    shown = printable(text)

    assert shown.isprintable()
    if text.isprintable():
        assert text == shown
    assert shown == printable(shown)


@given(st.text(min_size=1, max_size=60))
def test_any_text_is_text_in_a_page(text: str) -> None:
    page = about(text)
    made = Page(page)

    assert [] == made.open
    assert Page(about("x")).tags == [tag for tag in made.tags if tag != "wbr"]
    assert printable(text) in made.text
    assert not re.search(r"[^\n -~\u00a0-\U0010ffff]", page)


@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_line_break_hints_do_not_change_cell_text(texts: list[str]) -> None:
    head = [f"column {number}" for number in range(len(texts))]
    part = {"title": "t", "note": "", "legend": [], "charts": [], "head": head, "more": 0}
    drawn = Markup('<svg viewBox="0 0 1 1"></svg>')
    part |= {"kinds": [""] * (len(head) + 1), "rows": [[*texts, ("mix", drawn)]]}
    part["head"] = [*head, "share"]
    page = pages.render(
        "job.html",
        **dict.fromkeys(
            ("title", "source", "output", "engine", "profile", "warning", "inspected"), "x"
        ),
        counts=[],
        rules=[],
        quarantine="",
        messages=[],
        more=0,
        parts=[part],
    )

    assert str(drawn) in page
    made = Page(page)
    assert [] == made.open
    for text in texts:
        assert printable(text) in made.text


def test_path_may_wrap_after_slashes() -> None:
    environment = pages._environment()
    shown = environment.filters["breaking"]("/a/b&c.jsonl:12 x@3 http://h")

    assert "/<wbr>a/<wbr>b&amp;c.jsonl:<wbr>12 x@<wbr>3 http:/" in shown


def test_page_policy_allows_only_its_own_style() -> None:
    page = about("x")

    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert re.fullmatch(r"default-src 'none'; style-src 'sha256-[\w+/]{43}='", policy)
    for outside in ("http:", "https:", "//cdn", "@import", "url(", "<script"):
        assert outside not in page


@given(st.lists(st.tuples(TEXTS, COUNTS), max_size=30), st.sampled_from([WIDE, NARROW]))
def test_charts_stay_within_the_view_box(bars: list[tuple[str, int]], wide: int) -> None:
    for drawn in (
        columns([Bar(count, text, text) for text, count in bars], "x", wide),
        proportions(bars),
        proportions(bars, least=2),
    ):
        made = Page(drawn)
        assert [] == made.open
        (box,) = [attributes["viewbox"] for tag, attributes in made.elements if tag == "svg"]
        left, top, width, height = map(float, box.split())
        for tag, at in made.elements:
            if tag == "rect":
                assert left <= float(at["x"])
                assert float(at["x"]) + float(at["width"]) <= left + width + 0.01
                assert top <= float(at["y"])
                assert float(at["y"]) + float(at["height"]) <= top + height + 0.01


@given(st.lists(st.text("0123456789-: ", max_size=20), max_size=130))
def test_chart_labels_do_not_overlap(ticks: list[str]) -> None:
    made = Page(columns([Bar(1, "x", tick) for tick in ticks], "x", NARROW))

    found = [at for tag, at in made.elements if tag == "text" and at["text-anchor"] == "start"]
    places = [float(at["x"]) for at in found]
    assert sorted(places) == places
    assert all(after - before >= 6 for before, after in itertools.pairwise(places))


@given(st.lists(st.tuples(st.just("error"), COUNTS), min_size=1, max_size=5))
def test_proportions_divide_the_whole_width(parts: list[tuple[str, int]]) -> None:
    made = Page(proportions(parts))

    widths = [float(at["width"]) for tag, at in made.elements if tag == "rect"]
    expected = 100 if sum(count for _, count in parts) else 0
    assert expected == pytest.approx(sum(widths), abs=0.01)


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_only_pages_need_jinja2() -> None:
    program = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from amqp10msg.notation import render_html, render_text\n"
        "assert 'hello' in render_text(b'\\0\\x53\\x77\\xa1\\5hello')\n"
        "try:\n    render_html(b'\\0\\x53\\x77\\x40')\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = run(program)

    assert "HTML pages need Jinja2: pip install 'amqp10msg[pages]'\n" == done.stdout, done.stderr


def test_notation_imports_jinja2_only_for_pages() -> None:
    program = (
        "import sys; from amqp10msg.notation import render_html\n"
        "print('jinja2' in sys.modules)\nrender_html(b'')\nprint('jinja2' in sys.modules)"
    )
    done = run(program)

    assert "False\nTrue\n" == done.stdout, done.stderr


def test_all_pages_share_one_base_template() -> None:
    page = render_html(b"")

    for once in ("<!DOCTYPE html>", "<style>", "<script>", "<title>", "<h1>", "Security-Policy"):
        assert 1 == page.count(once)


def test_report_has_date_and_command(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(Message("x").encode())
    page = tmp_path / "page.html"
    arguments = ["validate", str(tmp_path / "in.bin"), "--report", str(page)]
    subprocess.run([sys.executable, "-m", "amqp10msg", *arguments], check=True)

    (said,) = re.findall(r'<footer class="hint made">(.*)</footer>', page.read_text("utf-8"))
    found = re.fullmatch(r"amqp10msg (\S+), (\S+ \S+ UTC), after [\d.]+ s: (.*)", said)
    assert found
    assert (__version__, shlex.join(["amqp10msg", *arguments])) == found.group(1, 3)
    made = datetime.strptime(found[2], "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    assert timedelta(-1) < made - datetime.now(UTC) < timedelta(1)


def test_a_report_hides_the_credentials_of_urls() -> None:
    with command(["migrate", "amqp://me:se@cret@a/v,amqp://me:other@c", "amqp://b/q"]):
        said = line()

    assert said.endswith("amqp10msg migrate amqp://***@a/v,amqp://***@c amqp://b/q")


def test_report_of_a_program_has_only_version_and_date() -> None:
    assert re.fullmatch(rf"amqp10msg {__version__}, \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC", line())
    found = facts()

    assert (__version__, None, None) == (found["version"], found["command"], found["seconds"])
    with command(["validate", "x"]):
        found = facts()
    assert "amqp10msg validate x" == found["command"]
    assert 0 <= found["seconds"]
