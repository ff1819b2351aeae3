"""The HTML page: self-contained, safe, and tested in Chromium with a real pointer.

Chromium is driven over its debugging pipe. Without it these tests are skipped; with
AMQP10MSG_REQUIRE_CHROMIUM=1 they fail.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10msg import Data, Header, Message, Properties, validate
from amqp10msg.notation import parse_tree, render_html
from amqp10msg.testing import messages, mutated
from tests.browser import Browser

MESSAGE = Message(
    "hello",
    header=Header(durable=True, ttl=60000),
    properties=Properties(message_id="m-1", subject="s"),
    application_properties={"key": 1},
)
HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"'><b onmouseover=alert(1)>",
    "--><!--",
    "&lt;b&gt; &amp; &#60;",
    "\x1b[31mred\x00\x07",
    "right\u202eto left\u2066",
    "line\nends\r\u2028\u2029\x85",
    "]]>{{7*7}}${7*7}",
]


class Parsed(HTMLParser):
    """The elements of a page, and the text of its body."""

    VOID = ("meta", "link", "img", "br", "input")

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def count(self, tag: str, **attributes: str) -> int:
        return sum(
            name == tag
            and all(have.get(key.rstrip("_")) == value for key, value in attributes.items())
            for name, have in self.elements
        )


def bytes_of(page: str) -> bytes:
    """Collect the bytes that a page shows in hex."""
    hexes = re.findall(r'<span class="hex">(.*?)<span class="chars">', page)
    return bytes.fromhex("".join(re.findall(r"<b>([0-9a-f]{2})</b>", "".join(hexes))))


@settings(max_examples=settings().max_examples // 4)  # pages are a hundred times their message
@given(messages())
def test_page_shows_every_byte_and_field(message: Message) -> None:
    octets = message.encode()
    page = render_html(message, max_octets=10**6)
    parsed = Parsed(page)
    assert [] == parsed.open
    if len(octets) < 512:
        assert octets == bytes_of(page)
    text = "".join(parsed.text)
    for name, _ in message.sections():
        assert name in text


@settings(max_examples=settings().max_examples // 4)
@given(messages().map(Message.encode).flatmap(mutated) | st.binary(max_size=80))
def test_broken_messages_have_a_page(octets: bytes) -> None:
    parsed = Parsed(render_html(octets))
    assert [] == parsed.open
    text = "".join(parsed.text)
    for violation in validate(octets)[:100]:
        assert violation.text.split("'")[0][:30] in text


def every_place(text: str) -> Message:
    return Message(
        {text: text, "list": [text.encode("utf-8", "replace")]},
        properties=Properties(subject=text),
        application_properties={text: text},
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    clean = Parsed(render_html(every_place("x"), title="x", labels=["x"]))
    page = render_html(every_place(text), title=text, labels=[text])
    parsed = Parsed(page)
    tags = {tag for tag, _ in clean.elements}
    names = {name for _, attributes in clean.elements for name in attributes}
    assert {tag for tag, _ in parsed.elements} <= tags
    assert {name for _, attributes in parsed.elements for name in attributes} <= names
    assert 1 == parsed.count("script") == parsed.count("style") == parsed.count("title")
    assert not re.search(r"[^\n -~\u00a0-\uffff]|[\u2028-\u202e\u2066-\u2069]", page)


def test_page_is_self_contained() -> None:
    page = render_html(MESSAGE)
    parsed = Parsed(page)
    for _, attributes in parsed.elements:
        assert not attributes.keys() & {"src", "srcset", "action", "style", "onclick", "onload"}
        assert (attributes.get("href") or "#").startswith("#")
    for outside in ("http:", "https:", "//cdn", "@import", "url("):
        assert outside not in page
    policy = next(
        have["content"]
        for _, have in parsed.elements
        if "content-security-policy" in str(have).lower()
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_violations_are_listed_at_the_top_and_in_place() -> None:
    octets = bytes.fromhex("005375a00000537045")
    page = render_html(octets)
    text = "header must precede data"
    assert 2 == page.count(text)
    assert 'href="#message-1-byte-5"' in page
    assert "1 error" in page
    assert text not in render_html(parse_tree(octets))


def test_several_messages_and_their_names() -> None:
    page = render_html([b"", MESSAGE, MESSAGE.encode()], labels=["first", "<2>"], max_messages=3)
    assert 3 == Parsed(page).count("article")
    assert ["first ", "&lt;2&gt; ", "Message 3 "] == re.findall("<h2>(.*?)<small>", page)
    cut = render_html((MESSAGE for _ in range(10)), max_messages=4)
    assert 4 == Parsed(cut).count("article")
    assert "… and 6 messages more" in cut


def test_large_messages_are_cut() -> None:
    many = Message(
        Data(bytes(range(256)) * 4000), application_properties={f"k{i}": i for i in range(9)}
    )
    page = render_html(many)
    assert len(page) < 200_000
    assert "bytes …" in page
    shown = bytes_of(page)
    assert many.encode()[:256] == shown[:256]
    assert many.encode()[-32:] == shown[-32:]
    wide = Message(list(range(100_000)))
    page = render_html(wide, max_octets=1024)
    assert len(page) < 3_000_000
    assert "bytes more" in page
    assert "more values in" in page
    assert wide.encode()[:1024] == bytes_of(page)
    page = render_html(parse_tree(wide), max_octets=1024)
    assert len(page) < 3_000_000
    assert "… and more fields in" in page


# In Chromium.


pytestmark = pytest.mark.once


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.html"
    file.write_text(render_html(MESSAGE), encoding="utf-8")
    return file


def field_of(octet: int) -> tuple[str, list[str]]:
    """Tell from the tree which line a byte belongs to, and the bytes of that line."""
    data = MESSAGE.encode()
    path = parse_tree(data).at(octet)
    section = path[0]
    value = section.children[1]
    if octet < value.content or not value.children:
        return section.name, [f"{one:02x}" for one in data[section.offset : value.content]]
    inner = path[2]
    return inner.name, [f"{one:02x}" for one in data[inner.offset : inner.content]]


@pytest.mark.xdist_group("chromium")
def test_hovering_a_byte_highlights_its_field(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    assert ([], []) == browser.lit()
    for octet in range(len(MESSAGE.encode())):
        browser.point(".hex b", octet)
        name, octets = field_of(octet)
        assert ([name], octets) == browser.lit(), octet
        status = browser.run("document.querySelector('.status').textContent")
        assert status.startswith(f"byte {octet} ")
        assert name in status
    browser.point("h1")
    assert ([], []) == browser.lit()
    assert [] == browser.problems()
    assert [page.as_uri()] == [url for url in browser.requested() if url != "about:blank"]


@pytest.mark.xdist_group("chromium")
def test_hovering_a_field_highlights_its_bytes(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    rows = browser.run("document.querySelectorAll('tr[data-a]').length")
    for index in range(rows):
        browser.point("tr[data-a] > .name", index)
        start, stop = browser.run(
            "(e => [Number(e.dataset.a), Number(e.dataset.b)])"
            f"(document.querySelectorAll('tr[data-a]')[{index}])"
        )
        _, octets = browser.lit()
        assert [f"{one:02x}" for one in MESSAGE.encode()[start:stop]] == octets


@pytest.mark.xdist_group("chromium")
def test_enclosing_fields_are_marked(browser: Browser, page: Path) -> None:
    browser.open(f"{page.as_uri()}#byte-6")
    assert (["durable"], ["41"]) == browser.lit()
    around = "[...document.querySelectorAll('tr.around > .name')].map(e => e.textContent.trim())"
    assert ["header"] == browser.run(around)
    browser.open(f"{page.as_uri()}#byte-1")
    inside = browser.run("document.querySelectorAll('.hex b.in').length")
    header = parse_tree(MESSAGE).nodes[0]
    assert header.end - header.children[1].content == inside


@pytest.mark.xdist_group("chromium")
def test_url_contains_the_pinned_byte(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(render_html([MESSAGE, Message(b"abc")]), encoding="utf-8")
    browser.open(f"{file.as_uri()}#message-2-byte-6")
    assert (["data"], ["00", "53", "75", "a0", "03", "61", "62", "63"]) == browser.lit()
    go_to(browser, "#message-1-byte-6")
    assert (["durable"], ["41"]) == browser.lit()
    for nonsense in ("#byte-99999", "#message-9-byte-0", "#byte--1", "#<img src=x>"):
        browser.open(f"{file.as_uri()}{nonsense}")
        assert ([], []) == browser.lit()
        assert [] == browser.problems()


def go_to(browser: Browser, fragment: str) -> None:
    """Change the fragment of the URL, and wait until the page has followed it."""
    browser.run(
        "new Promise(done => { addEventListener('hashchange', () => done(), {once: true}); "
        f"location.hash = '{fragment}' }})"
    )


@pytest.mark.parametrize("count, folded", [(5, 0), (6, 6), (34, 34)])
def test_page_of_many_messages_folds_them(count: int, folded: int) -> None:
    page = render_html([Message(f"m{number}") for number in range(count)])

    assert folded == page.count("<details")
    assert min(folded, 1) == page.count("<details open")
    assert all(f"m{number}" in page for number in range(count))


@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize("fragment", ["#message-5", "#message-5-byte-3"])
def test_link_to_a_folded_message_opens_it(browser: Browser, tmp_path: Path, fragment: str) -> None:
    file = tmp_path / "page.html"
    file.write_text(render_html([MESSAGE] * 7), encoding="utf-8")
    opened = "[...document.querySelectorAll('details')].map(one => one.open ? 1 : 0).join('')"

    browser.open(file.as_uri())
    assert "1000000" == browser.run(opened)
    go_to(browser, fragment)
    assert "1000100" == browser.run(opened)
    browser.open(f"{file.as_uri()}{fragment}")
    assert "1000100" == browser.run(opened)
    assert [] == browser.problems()


@pytest.mark.xdist_group("chromium")
def test_keyboard_moves_and_unpins(browser: Browser, page: Path) -> None:
    data = MESSAGE.encode()
    browser.open(page.as_uri())
    browser.run("document.querySelector('.octets').focus()")
    for key, octet in [
        ("ArrowRight", 0),
        ("ArrowRight", 1),
        ("ArrowDown", 17),
        ("ArrowUp", 1),
        ("ArrowLeft", 0),
        ("ArrowLeft", 0),
        ("End", len(data) - 1),
        ("ArrowDown", len(data) - 1),
        ("Home", 0),
    ]:
        browser.press(key)
        assert f"#byte-{octet}" == browser.run("location.hash")
        assert [field_of(octet)[0]] == browser.lit()[0]
    browser.press("Escape")
    assert ([], []) == browser.lit()
    assert "" == browser.run("location.hash")
    browser.run("document.querySelector('.tree').focus()")
    for key, name in [
        ("ArrowDown", "header"),
        ("ArrowDown", "durable"),
        ("ArrowUp", "header"),
        ("End", "amqp-value"),
        ("ArrowDown", "amqp-value"),
    ]:
        browser.press(key)
        assert [name] == browser.lit()[0]


@pytest.mark.xdist_group("chromium")
def test_click_pins_a_byte_or_field(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    browser.point(".hex b", 6)
    x, y = browser.run(
        "(r => [r.x + r.width / 2, r.y + r.height / 2])"
        "(document.querySelectorAll('.hex b')[6].getBoundingClientRect())"
    )
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    browser.point("h1")
    assert (["durable"], ["41"]) == browser.lit()
    assert "#byte-6" == browser.run("location.hash")


@pytest.mark.xdist_group("chromium")
def test_status_line_is_not_covered(browser: Browser, page: Path) -> None:
    """The bytes stay at the top of a narrow page, and come from below its lowest line."""
    size: dict[str, Any] = {"width": 400, "deviceScaleFactor": 1, "mobile": True}
    browser.call("Emulation.setDeviceMetricsOverride", height=800, **size)
    try:
        browser.open(page.as_uri())
        top = browser.run("document.querySelector('.octets').getBoundingClientRect().top")
        browser.call("Emulation.setDeviceMetricsOverride", height=int(top) + 30, **size)
        points = "[30, 100, 200].map(x => document.elementFromPoint(x, innerHeight - 12))"
        assert browser.run(f"{points}.every(e => e.closest('.status'))")
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.xdist_group("chromium")
def test_hostile_text_does_nothing_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    several = [every_place(text) for text in HOSTILE]
    file.write_text(render_html(several, title="title", labels=HOSTILE), encoding="utf-8")
    browser.open(file.as_uri())
    assert "title" == browser.run("document.title")
    assert 0 == browser.run("document.querySelectorAll('img, main b b, main script').length")
    shown = browser.run("[...document.querySelectorAll('td.value')].map(e => e.textContent).join()")
    assert "<img src=x onerror=" in html.unescape(shown)
    for index in range(0, browser.run("document.querySelectorAll('tr[data-a]').length"), 3):
        browser.point("tr[data-a] > .name", index)
    assert "title" == browser.run("document.title")
    assert [] == browser.problems()
    assert [file.as_uri()] == [url for url in browser.requested() if url != "about:blank"]


@pytest.mark.xdist_group("chromium")
def test_policy_blocks_foreign_content(browser: Browser, page: Path) -> None:
    injected = page.read_text(encoding="utf-8").replace(
        "<main>", "<main><script>document.title = 'owned'</script><img src='x.png'>"
    )
    page.write_text(injected, encoding="utf-8")
    browser.open(page.as_uri())
    assert "AMQP message" == browser.run("document.title")
    refused = [str(event) for event in browser.problems()]
    assert any("Content Security Policy" in one for one in refused)
