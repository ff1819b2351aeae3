"""The inspector page: built, served on the loopback interface, and used in Chromium."""

from __future__ import annotations

import base64
import functools
import gzip
import html
import http.server
import json
import re
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")

from build_inspector import MissingError, build, pyodide

from amqp10msg import Header, Message, Properties, validate
from amqp10msg.app.inspector.session import DEFAULT_TRANSLATION_PROFILE, examples, page
from amqp10msg.translate import to_basic
from amqp10msg.translate.profiles import ProfileName
from tests.browser import Browser, find_chromium
from tests.management_api import serving
from tests.pages import Page
from tests.waiting import wait_until

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("inspector")]

CAPTURE = Path(__file__).parents[1] / "vectors" / "capture.pcap"
MESSAGE = Message("hello", properties=Properties(message_id="m-1", to="greetings")).encode()
# The first look at a wide machine under load: the start of Python takes longest.
PATIENCE = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    find_chromium()  # before npm fetches anything
    made = tmp_path_factory.mktemp("inspector")
    try:
        pyodide()
    except MissingError as error:
        pytest.skip(str(error))
    build(made)
    return made


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server for files.

    Attributes:
        broken: a file that breaks off once it was begun.
        waits: a file that is not answered until this is set; there is none where it is None.
    """

    broken = ""
    waits: tuple[str, threading.Event] | None = None

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        if Quiet.waits is not None and name == Quiet.waits[0]:
            Quiet.waits[1].wait(PATIENCE)
        if name and name == Quiet.broken:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"PK")
            self.close_connection = True
            return
        super().do_GET()


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(folder))
    with serving(handler) as url:
        yield f"{url}/"


@pytest.fixture(scope="module")
def shown(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser with the page open, after Python has started."""
    browser = Browser(find_chromium(), tmp_path_factory.mktemp("profile"))
    # As a tab that is looked at, so that it may copy a link.
    browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
    browser.open(address)
    assert " …" in browser.run("document.getElementById('state').textContent")
    wait(browser, "'ready' in document.body.dataset")
    yield browser
    assert [] == browser.problems()
    assert {"blob:" + address, address, "about:blank"} >= {
        re.sub(r"(?<=\d/).*", "", url) for url in browser.requested()
    }
    browser.close()


def wait(browser: Browser, condition: str) -> None:
    def state() -> str:
        return str(browser.run("document.getElementById('state').textContent"))

    wait_until(lambda: browser.run(condition) or "does not start" in state(), PATIENCE)
    assert browser.run(condition), state()


def after(browser: Browser, script: str) -> None:
    """Run a script, and wait until the page shows the requested result."""
    before = browser.run("document.body.dataset.done || '0'")
    browser.run(script)
    changed = f"(document.body.dataset.done || '0') !== {json.dumps(before)}"
    wait(browser, f"{changed} && !document.querySelector('main.old')")


def paste(browser: Browser, text: str) -> None:
    after(
        browser,
        f"(() => {{const e = document.getElementById('text'); e.value = {json.dumps(text)};"
        "e.dispatchEvent(new Event('input', {bubbles: true}))})()",
    )


def choose(browser: Browser, name: str, value: str) -> None:
    after(
        browser,
        f"(() => {{const e = document.getElementById({json.dumps(name)});"
        f"e.value = {json.dumps(value)};"
        "e.dispatchEvent(new Event('change', {bubbles: true}))})()",
    )


def drop(browser: Browser, name: str, octets: bytes) -> None:
    packed = json.dumps(base64.b64encode(octets).decode())
    after(
        browser,
        f"(() => {{const bytes = Uint8Array.from(atob({packed}), c => c.charCodeAt(0));"
        "const dataTransfer = new DataTransfer();"
        f"dataTransfer.items.add(new File([bytes], {json.dumps(name)}));"
        "document.body.dispatchEvent("
        "new DragEvent('drop', {dataTransfer, bubbles: true, cancelable: true}))})()",
    )


def text_of(browser: Browser, selector: str = "#shown") -> str:
    script = f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"
    return " ".join(" ".join(browser.run(f"{script}.join(' ')").split()).split("\u200b"))


def octets_of(browser: Browser) -> bytes:
    found = "document.querySelector('.message')"
    text: str = browser.run(
        f"[...{found}.querySelectorAll('.hex b:not(.none)')].map(e => e.textContent).join('')"
    )
    return bytes.fromhex(text)


def test_page_policy_allows_no_other_address() -> None:
    text = page()
    made = Page(text)

    assert [] == made.open
    assert page() == text
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    allowed = {
        words[0]: {word for word in words[1:] if "sha256-" not in word}
        for words in (part.split() for part in html.unescape(policy).split(";"))
    }
    assert {
        "default-src": {"'none'"},
        "style-src": set(),
        "script-src": {"'self'", "'wasm-unsafe-eval'"},
        "connect-src": {"'self'"},
        "worker-src": {"blob:", "'self'"},
        "base-uri": {"'none'"},
        "form-action": {"'none'"},
    } == allowed
    for outside in ("https:", "//cdn", "@import", "url("):
        assert outside not in text


def test_build_is_reproducible_and_uses_the_pure_build(folder: Path, tmp_path: Path) -> None:
    build(tmp_path)

    names = sorted(file.name for file in tmp_path.iterdir())
    assert sorted(file.name for file in folder.iterdir()) == names
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()
    inside = zipfile.ZipFile(folder / "amqp10msg.zip").namelist()
    assert {"amqp10msg/wire/kernel/messages.py", "amqp10msg/app/inspector/session.py"} <= set(
        inside
    )
    assert {"licenses/attrs/LICENSE", "licenses/Jinja2/LICENSE.txt"} <= set(inside)
    assert not [name for name in inside if name.endswith((".so", ".pyd", ".pyc", ".pyx"))]


def test_missing_npm_is_reported_with_advice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("build_inspector.NODE", tmp_path)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(MissingError, match=r"npm is not on the PATH.*apt install npm"):
        pyodide()


def test_hanging_npm_times_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\nexec sleep 60\n")
    npm.chmod(0o755)
    monkeypatch.setattr("build_inspector.NODE", tmp_path / "node")
    monkeypatch.setattr("build_inspector.PATIENCE", 0.1)
    monkeypatch.setattr("shutil.which", lambda _: str(npm))

    with pytest.raises(MissingError, match=r"within 0\.1 s"):
        pyodide()


def test_an_example_is_shown_before_anything_is_pasted(shown: Browser) -> None:
    assert examples()[0][1] == octets_of(shown)
    assert re.match(r"amqp10msg \S+ on Python 3\.\d+", text_of(shown, "#state"))
    choose(shown, "example", shown.run("document.getElementById('example').options[2].value"))
    assert examples()[1][1] == octets_of(shown)


def test_pasted_bytes_are_annotated(shown: Browser) -> None:
    dump = "".join(
        f"{at:04x}  {MESSAGE[at : at + 16].hex(' ')}\n" for at in range(0, len(MESSAGE), 16)
    )
    for text in (MESSAGE.hex(), base64.b64encode(MESSAGE).decode(), dump, repr(MESSAGE)):
        paste(shown, text)
        assert MESSAGE == octets_of(shown)
    assert '"greetings"' in text_of(shown, ".tree")
    assert "none broken" in text_of(shown, "#violations")
    shown.point(".octets b", 0)
    assert shown.lit()[0] == ["properties"]


def test_a_violation_has_its_clause_and_leads_to_its_byte(shown: Browser) -> None:
    twice = dict(examples())["a duplicate section"]
    (violation,) = validate(twice)
    paste(shown, twice.hex())

    said = text_of(shown, "#violations")
    assert all(part in said for part in (violation.rule, violation.clause, violation.text))
    shown.run("document.querySelector('#violations td a').click()")
    assert shown.run("location.hash").endswith(f"&byte-{violation.offset}")
    (here,) = shown.run("[...document.querySelectorAll('.hex b.here')].map(e => e.octet)")
    assert violation.offset == here


def test_errors_equal_those_of_the_library(shown: Browser) -> None:
    paste(shown, MESSAGE[:-1].hex())
    said = text_of(shown, ".fault")
    assert "at byte" in said
    assert "(amqp-value)" in said
    paste(shown, "neither this nor that")
    assert "neither hex nor base64" in text_of(shown, ".fault")
    paste(shown, '<img src=x onerror="document.title=1">')
    assert shown.run("document.querySelectorAll('#shown img').length") == 0
    paste(shown, "")
    assert text_of(shown) == ""


def test_rules_of_another_profile(shown: Browser) -> None:
    paste(shown, Message("x", properties=Properties(user_id=b"u" * 300)).encode().hex())
    for name in ("azure", "oasis"):
        choose(shown, "profile", name)
        assert text_of(shown, "#violations li:first-child").endswith(name)


def test_translation_shows_losses(shown: Browser) -> None:
    message = Message({"a": 1}, header=Header(first_acquirer=True), footer={"x-opt-f": 1})
    paste(shown, message.encode().hex())
    assert f"As AMQP 0-9-1, by {DEFAULT_TRANSLATION_PROFILE}" in text_of(shown, "#translated")
    profiles: tuple[ProfileName, ...] = ("lossless", "rabbitmq-3.10", "rabbitmq-4.3")
    for profile in profiles:
        choose(shown, "translation", profile)
        said = text_of(shown, "#translated")
        assert f"by {profile}" in said
        losses = to_basic(message, profile).losses
        assert all(" ".join(loss.reason.split()) in said for loss in losses)
        permanent = sum(loss.is_permanent for loss in losses)
        assert (f"{permanent} value" if permanent else "Nothing is lost") in said


def test_a_content_header_becomes_a_message_of_1_0(shown: Browser) -> None:
    paste(shown, dict(examples())["a message of AMQP 0-9-1"].hex())

    assert "content-type" in text_of(shown, "#properties")
    assert "As AMQP 1.0" in text_of(shown, "#translated")
    message = Message.decode(octets_of(shown))
    assert message.properties is not None
    assert message.properties.message_id == "m-1"


def test_capture_can_be_dropped_on_the_page(shown: Browser) -> None:
    for name, octets in (
        ("capture.pcap", CAPTURE.read_bytes()),
        ("capture.pcap.gz", gzip.compress(CAPTURE.read_bytes())),
    ):
        drop(shown, name, octets)
        count = shown.run("document.querySelectorAll('.found button').length")
        assert f"{count} messages found" in text_of(shown, ".found")
        assert f"{name}:1" in text_of(shown, ".found li:first-child")
    assert count > 1
    shown.run("document.querySelector('.found button').focus()")
    shown.press("ArrowDown")
    after(shown, "document.activeElement.click()")
    assert "2" == shown.run("document.querySelector('.found [aria-current]').dataset.number")
    assert shown.run("document.activeElement.dataset.number") == "2"


def test_link_restores_the_view(shown: Browser) -> None:
    paste(shown, MESSAGE.hex())
    choose(shown, "profile", "azure")
    address = shown.run("location.hash")
    paste(shown, examples()[0][1].hex())
    choose(shown, "profile", "oasis")
    assert shown.run("location.hash") != address
    after(shown, f"location.hash = {json.dumps(address + '&byte-3')}")

    assert MESSAGE == octets_of(shown)
    assert "azure" == shown.run("document.getElementById('profile').value")
    assert address + "&byte-3" == shown.run("location.hash")
    assert 1 == shown.run("document.querySelectorAll('.hex b.here').length")
    choose(shown, "profile", "oasis")
    after(shown, f"location.hash = '#message={MESSAGE.hex()}'")
    assert MESSAGE == octets_of(shown)


def test_keys(shown: Browser) -> None:
    paste(shown, MESSAGE.hex())
    shown.run("document.activeElement.blur()")
    shown.press("/")
    assert "text" == shown.run("document.activeElement.id")
    shown.run("document.querySelector('.octets').focus()")
    shown.press("ArrowRight")
    assert shown.lit()[0] == ["properties"]
    shown.press("Escape")
    assert shown.lit() == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", range(4))
def test_a_narrow_page_does_not_scroll_sideways(shown: Browser, scheme: str, kind: int) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    size: dict[str, Any] = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    shown.call("Emulation.setEmulatedMedia", features=features)
    shown.call("Emulation.setDeviceMetricsOverride", **size)
    try:
        paste(shown, examples()[kind][1].hex())
        assert shown.run("document.documentElement.scrollWidth") <= 400
        # Nor does a column become so narrow that words are broken letter by letter.
        lines = shown.run(
            "[...document.querySelectorAll('.places td:first-child code')]"
            ".map(e => e.getClientRects().length)"
        )
        assert max(lines, default=1) <= 2
    finally:
        shown.call("Emulation.clearDeviceMetricsOverride")
        shown.call("Emulation.setEmulatedMedia", features=[])


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Browser]:
    """A browser of its own: the page is loaded anew, and may fail to."""
    browser = Browser(find_chromium(), tmp_path / "profile")
    browser.call("Network.setCacheDisabled", cacheDisabled=True)
    yield browser
    browser.close()


def test_while_a_linked_message_loads_nothing_else_is_shown(address: str, tab: Browser) -> None:
    Quiet.waits = ("amqp10msg.zip", threading.Event())
    try:
        tab.open(f"{address}#message={MESSAGE.hex()}&byte-3")
        wait(tab, "document.getElementById('state').textContent.includes('amqp10msg')")
        before = (text_of(tab), text_of(tab, ".status"))
        name = tab.run("document.getElementById('example').value")
    finally:
        Quiet.waits[1].set()
        Quiet.waits = None
    wait(tab, "document.body.dataset.done")

    assert "" == before[0]
    assert "byte 3" not in before[1]
    assert "" == name
    assert MESSAGE == octets_of(tab)
    assert 1 == tab.run("document.querySelectorAll('.hex b.here').length")


@pytest.mark.parametrize(
    "file",
    [
        "worker.mjs",
        *(pytest.param(f, marks=pytest.mark.soak) for f in ("amqp10msg.zip", "python_stdlib.zip")),
    ],
)
def test_failed_loading_can_be_retried(address: str, tab: Browser, file: str) -> None:
    Quiet.broken = file
    try:
        tab.open(f"{address}#message={MESSAGE.hex()}")
        wait_until(lambda: not tab.run("document.getElementById('again').hidden"), PATIENCE)
    finally:
        Quiet.broken = ""

    assert "does not start" in text_of(tab, "#state")
    assert "Try again" in text_of(tab, "#state")
    assert "" == text_of(tab)
    tab.run("document.getElementById('again').click()")
    wait(tab, "document.body.dataset.done")
    assert MESSAGE == octets_of(tab)
    assert tab.run("document.getElementById('again').hidden")
