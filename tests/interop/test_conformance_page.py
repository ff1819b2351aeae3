"""The scoreboard: what is in the page, and what it does in Chromium."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jinja2")

from amqp10msg.interop import conformance, corpus
from amqp10msg.interop.conformance import PeerResults, Result
from amqp10msg.interop.conformance.results import percent
from amqp10msg.interop.corpus import Case, Fault
from tests.browser import Browser
from tests.pages import Page
from tests.samples import corpus_cases

#: A case that may be read or refused.
EITHER = next(one.id for one in corpus_cases() if one.kind == "message" and one.error and one.typed)
CHOSEN = (
    *("header-full", "uuid-nil", "accepted", "truncated-uint", "properties-full", "data"),
    EITHER,
)


def case(name: str, **changes: Any) -> Case:
    attributes: dict[str, Any] = {
        "id": name,
        "kind": "value",
        "data": b"\x52\x05",
        "typed": ["uint", 5],
        "compact": b"\x52\x05",
        "clause": "Part 1, 1.6.5",
        "origin": "this test",
    }
    return Case(**{**attributes, **changes})


def cases() -> list[Case]:
    """Some of the corpus, one of each kind of bytes, and enough for the list to have an end."""
    shipped = {one.id: one for one in corpus_cases()}
    kinds = {one.kind: one for one in shipped.values()}
    more = [case(f"more-{number}", note=f"number {number}") for number in range(150)]
    named = [shipped[name] for name in CHOSEN if name in shipped]
    found = {one.id: one for one in [*named, *kinds.values()]}
    odd = case("markup", note="</script><b id=x>&amp;\u202e", typed=["string", "<img src=x>"])
    refused = case("refused", typed=None, compact=None, error=Fault("truncated", 1), data=b"\x70")
    return [*found.values(), odd, refused, *more]


def results(peer: str, name: str, outcomes: dict[str, str]) -> PeerResults:
    made = []
    for one in cases():
        outcome = outcomes.get(one.id, "pass")
        made.append(
            Result(
                case=one.id,
                digest=one.id,
                kind=one.kind,
                clause=one.clause,
                outcome=outcome,
                facets={} if outcome == "skip" else {"read": outcome == "pass", "kept": True},
                reason="" if outcome == "pass" else f"why {outcome} <i>",
                said=["string", "</script><img src=x>"] if outcome == "fail" else None,
            )
        )
    return PeerResults(peer, name, made)


PEERS = [
    results("one", "one 1.0", {}),
    results("two", "two <b> 2.0", {"uuid-nil": "crash", "markup": "fail", "refused": "skip"}),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(conformance.scoreboard(PEERS, cases()), encoding="utf-8")
    return path


def data_of(text: str) -> Any:
    (packed,) = re.findall(r'id="data">([^<]*)<', text)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_the_page_is_whole_safe_and_the_same_each_time(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    made = Page(text)

    assert [] == made.open
    assert conformance.scoreboard(PEERS, cases()) == text
    assert "two <b> 2.0" in made.text
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    style, script = r"'sha256-[\w+/]{43}='", r"'sha256-[\w+/]{43}='"
    assert re.fullmatch(
        rf"default-src 'none'; style-src {style} {style}; script-src {script}", policy
    )
    for outside in ("http:", "https:", "//cdn", "@import", "url("):
        assert outside not in text


def test_the_page_holds_every_case_and_result(page: Path) -> None:
    data = data_of(page.read_text(encoding="utf-8"))

    assert [one.id for one in cases()] == [one["id"] for one in data["cases"]]
    assert [len(cases())] * 2 == [len(rows) for rows in data["results"]]
    for one, shown in zip(cases(), data["cases"], strict=True):
        assert one.data.hex() == shown.get("hex", "")
        assert (one.kind in corpus.BASIC_KINDS or not one.data) <= (shown["rows"] == [])


class Refusing:
    """An implementation that refuses all bytes, and can only decode."""

    def ask(self, request: Any) -> Any:
        if request["do"] == "decode":
            raise corpus.RefusedError("no")
        raise corpus.UnsupportedError


@attrs.frozen
class Reading:
    """An implementation that reads any bytes as one value, and can only decode."""

    typed: Any

    def ask(self, request: Any) -> Any:
        if request["do"] == "decode":
            return {"typed": self.typed}
        raise corpus.UnsupportedError


@pytest.mark.parametrize("kind", ["message", "value", "composite", *corpus.BASIC_KINDS])
def test_page_says_of_each_case_whether_reading_and_refusing_are_right(kind: str) -> None:
    """As the cases are judged: neither is a fault."""
    chosen = [one for one in corpus_cases() if one.kind == kind and one.data]
    programs: list[Any] = [Refusing()]
    refused = [conformance.judge(one, *programs) for one in chosen]
    data = data_of(conformance.scoreboard([PeerResults("one", "one", refused)], chosen))

    assert len(chosen) == len(data["cases"])
    for one, result, shown in zip(chosen, refused, data["cases"], strict=True):
        latitude = shown.get("latitude", "")
        reading: Any = Reading(one.typed or ["null"])
        outcomes = {result.outcome, conformance.judge(one, reading).outcome}
        assert bool(latitude) == ("fail" not in outcomes), one.id
        if one.error is not None and not one.preference:
            assert (f"at byte {one.error.offset}" in latitude) == bool(latitude)


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_100_percent_is_all_of_it(held: int, asked: int) -> None:
    held = min(held, asked)

    assert (percent(held, asked) == "100") == (held == asked)
    assert abs(float(percent(held, asked)) - 100 * held / asked) <= 0.1


@pytest.fixture
def shown(browser: Browser, page: Path) -> Iterator[Browser]:
    browser.open(page.as_uri())
    wait(browser)
    yield browser
    assert [] == browser.problems()
    assert {page.as_uri()} >= {url.partition("#")[0] for url in browser.requested()} - {
        "about:blank"
    }


def wait(browser: Browser) -> None:
    """Let the script unpack the cases."""
    ready = "new Promise(done => { const look = () => 'ready' in document.body.dataset ? done(1) : "
    browser.run(ready + "setTimeout(look, 10); look(); })")


def names(browser: Browser) -> list[str]:
    shown = "[...document.querySelectorAll('.case .name')].map(e => e.textContent)"
    found: list[str] = browser.run(shown)
    return found


def choose(browser: Browser, name: str, value: str) -> None:
    browser.run(
        f"(() => {{const e = document.getElementById({json.dumps(name)});"
        f"e.value = {json.dumps(value)};"
        "e.dispatchEvent(new Event('input', {bubbles: true}));"
        "e.dispatchEvent(new Event('change', {bubbles: true}))})()"
    )


@pytest.mark.xdist_group("chromium")
def test_filters_choose_cases(shown: Browser) -> None:
    assert 100 == len(names(shown))
    choose(shown, "outcome", "crash")
    assert ["uuid-nil"] == names(shown)
    choose(shown, "outcome", "wrong")
    assert {"uuid-nil", "markup"} == set(names(shown))
    choose(shown, "peer", "0")
    assert [] == names(shown)
    assert shown.run("document.getElementById('count').textContent").startswith("0 of ")
    shown.run("document.querySelector('.filters').reset()")
    shown.run("new Promise(done => setTimeout(done, 20))")
    assert 100 == len(names(shown))
    choose(shown, "text", "NUMBER 149")
    assert ["more-149"] == names(shown)
    choose(shown, "text", "")
    choose(shown, "clause", "Part 3, 3.2")
    assert "header-full" in names(shown)
    assert not any(name.startswith("more-") for name in names(shown))
    choose(shown, "clause", "")
    shown.run("document.getElementById('more').click()")
    assert len(cases()) == len(names(shown))


@pytest.mark.xdist_group("chromium")
def test_chapters_are_counted_by_what_is_chosen(shown: Browser) -> None:
    row = "[...document.querySelectorAll('.matrix tbody tr')].map(e => e.textContent)"
    first = shown.run(row)
    choose(shown, "facet", "kept")
    second = shown.run(row)

    of_1_6 = [one for one in cases() if one.clause.startswith("Part 1, 1.6")]
    total = len(of_1_6)
    assert f"Part 1, 1.6{total}/{total}{total - 3}/{total - 1}" in first
    assert f"Part 1, 1.6{total}/{total}{total - 1}/{total - 1}" in second


@pytest.mark.xdist_group("chromium")
def test_a_case_opens_to_bytes_fields_and_what_was_said(shown: Browser) -> None:
    choose(shown, "text", "markup")
    shown.run("document.querySelector('.case > button').click()")

    assert "#case=markup" == shown.run("location.hash")
    text = shown.run("document.querySelector('.detail').textContent")
    assert all(
        part in text for part in ("</script><b id=x>", "why fail <i>", "<img src=x>", "smalluint")
    )
    assert 0 == shown.run(
        "document.querySelectorAll('.detail img, #x, .detail i:not(.gap)').length"
    )
    assert ["52", "05"] == shown.run(
        "[...document.querySelectorAll('.hex b')].map(e => e.textContent)"
    )
    shown.point(".detail .hex b")
    assert 3 == shown.run("document.querySelectorAll('.detail .lit').length")
    shown.run("document.querySelector('.case > button').click()")
    assert ("", 0) == (
        shown.run("location.hash"),
        shown.run("document.querySelectorAll('.detail').length"),
    )


@pytest.mark.xdist_group("chromium")
def test_a_case_that_may_be_read_or_refused_says_so(shown: Browser) -> None:
    choose(shown, "text", EITHER)
    row = shown.run("document.querySelector('.case > button').textContent")
    shown.run("document.querySelector('.case > button').click()")
    text = shown.run("document.querySelector('.detail').textContent")

    assert "may be read or refused" in row
    assert "More than one result is right it may be read or refused for " in text
    assert "Expected if it is read" in text
    assert "Must be refused" not in text


@pytest.mark.xdist_group("chromium")
def test_an_address_leads_to_a_case(browser: Browser, page: Path) -> None:
    browser.open(f"{page.as_uri()}#case=more-149")
    wait(browser)

    assert "more-149" == browser.run("document.querySelector('.case[data-open] .name').textContent")
    assert "more-149" in browser.run("document.activeElement.textContent")
    assert [] == browser.problems()


@pytest.mark.xdist_group("chromium")
def test_keys(shown: Browser) -> None:
    shown.press("/")
    assert "text" == shown.run("document.activeElement.id")
    shown.run("document.querySelector('.case > button').focus()")
    first, second = names(shown)[:2]
    shown.press("ArrowDown")
    assert second in shown.run("document.activeElement.textContent")
    shown.press("ArrowUp")
    assert first in shown.run("document.activeElement.textContent")
    shown.run("document.activeElement.click()")
    assert "true" == shown.run("document.activeElement.getAttribute('aria-expanded')")
    shown.press("Escape")
    assert "false" == shown.run("document.activeElement.getAttribute('aria-expanded')")


@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_does_not_scroll_sideways(shown: Browser, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    shown.call("Emulation.setEmulatedMedia", features=features)
    shown.call(
        "Emulation.setDeviceMetricsOverride",
        width=400,
        height=800,
        deviceScaleFactor=1,
        mobile=True,
    )
    try:
        shown.run("document.querySelector('.case > button').click()")
        assert shown.run("document.documentElement.scrollWidth") <= 400
    finally:
        shown.call("Emulation.clearDeviceMetricsOverride")
        shown.call("Emulation.setEmulatedMedia", features=[])


@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize("width", [400, 1000, 1200])
def test_a_page_of_many_implementations_fits(browser: Browser, tmp_path: Path, width: int) -> None:
    """Tables that are wider than the page scroll by themselves, and can be reached with keys."""
    columns = dict.fromkeys(conformance.facets_of(PEERS) | conformance.BROKER_FACETS, False)
    found = [attrs.evolve(one, facets=columns) for one in PEERS[0].results]
    many = [
        PeerResults(
            f"an-implementation-{number}", f"an-implementation 1.0.{number} (a part)", found
        )
        for number in range(13)
    ]
    path = tmp_path / "many.html"
    path.write_text(conformance.scoreboard(many, cases()), encoding="utf-8")
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=800,
        deviceScaleFactor=1,
        mobile=width < 600,
    )
    try:
        browser.open(path.as_uri())
        wait(browser)
        assert browser.run("document.documentElement.scrollWidth") <= width
        wide = "[...document.querySelectorAll('.wide')]"
        assert browser.run(f"{wide}.every(e => e.tabIndex === 0 && e.getAttribute('aria-label'))")
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_signs_differ_in_shape_and_stand_out(shown: Browser, scheme: str) -> None:
    """Whoever sees no colours reads the signs, and all can be read on their ground."""
    shown.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    try:
        signs = shown.run(
            "[...document.querySelectorAll('#signs .sign')].map(e => [e.textContent,"
            "getComputedStyle(e).color, getComputedStyle(e).backgroundColor])"
        )
        ground = shown.run("getComputedStyle(document.body).backgroundColor")
    finally:
        shown.call("Emulation.setEmulatedMedia", features=[])
    assert len(conformance.OUTCOMES) == len({sign for sign, _, _ in signs})
    for sign, ink, paper in signs:
        if sign != "·":
            assert contrast(ink, ground if paper == "rgba(0, 0, 0, 0)" else paper) >= 4.5, sign


def contrast(one: str, other: str) -> float:
    """The ratio of contrast of WCAG 2."""
    lights = []
    for color in (one, other):
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        lights.append(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    return (max(lights) + 0.05) / (min(lights) + 0.05)
