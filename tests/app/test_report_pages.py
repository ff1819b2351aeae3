"""Reports that commands write: their origin line, and their display in a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("jinja2")
pytest.importorskip("pika")
pytest.importorskip("pyarrow")

from amqp10msg import Message, __version__  # noqa: E402
from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.interop.corpus import load  # noqa: E402
from amqp10msg.net.bridge import RouteOptions, RouteSpec  # noqa: E402
from amqp10msg.net.bridge.management import Queue  # noqa: E402
from amqp10msg.net.bridge.report import as_html, as_json  # noqa: E402
from amqp10msg.net.bridge.statistics import Statistics  # noqa: E402
from amqp10msg.net.migrate.migration import Migration  # noqa: E402
from amqp10msg.net.migrate.report import as_html as migration_html  # noqa: E402
from amqp10msg.provenance import command  # noqa: E402
from tests.browser import Browser  # noqa: E402
from tests.pages import Page  # noqa: E402

pytestmark = pytest.mark.once

BASIC = Path(__file__).parents[2] / "amqp10msg/net/bridge/data/recorded.jsonl"
#: How a report names the profile.
_PROFILE = re.compile(r"profile:? (oasis|lossless|rabbitmq-4\.3|none, one protocol)\b")


def run(*arguments: str) -> None:
    done = click_testing.CliRunner().invoke(main, arguments)
    assert done.exit_code in (0, 1), done.output


def of_validate(folder: Path) -> None:
    run("validate", str(folder / "in"), "--report", str(folder / "r.html"))


def of_nothing_wrong(folder: Path) -> None:
    run("validate", Message("x").encode().hex(), "--report", str(folder / "r.html"))


def of_pipeline(kind: str, *more: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        places = (str(folder / "in"), str(folder / "out"))
        run("pipeline", kind, *more, "--report", str(folder / "r.html"), *places)

    return make


def of_dry_run(folder: Path) -> None:
    shutil.copyfile(BASIC, folder / "orders.jsonl")
    ends = ("--from", f"file:{folder}/orders.jsonl?protocol=0-9-1", "--to", "amqp://h/q")
    run(
        "bridge",
        *ends,
        "--profile",
        "rabbitmq-4.3",
        "--dry-run",
        "--idle",
        "0.1",
        "--report",
        f"{folder}/r.html",
    )


def of_dry_run_without_a_loss(folder: Path) -> None:
    (folder / "empty.jsonl").write_text("")
    ends = ("--from", f"file:{folder}/empty.jsonl?protocol=1.0", "--to", "amqp://h/q")
    run("bridge", *ends, "--dry-run", "--idle", "0.1", "--report", f"{folder}/r.html")


def bridged() -> tuple[list[RouteSpec], dict[str, Statistics]]:
    counts = Statistics(received=3, accepted=2)
    counts.quarantined["too-large"] += 1
    counts.losses["headers['k']", "dropped"] += 2
    options = RouteOptions(profile="rabbitmq-4.3")
    return [RouteSpec("amqp091://h/?queue=a", "amqp://h/b", options, name="r")], {"r": counts}


def of_bridge(folder: Path) -> None:
    with command(["bridge", "--config", "routes.toml"]):
        (folder / "r.html").write_text(as_html(*bridged()), encoding="utf-8")


def of_migration(folder: Path) -> None:
    spec = RouteSpec("amqp091://a/?queue=q", "amqp091://b/?queue=q", name="q")
    made = Migration([Queue("q")], [spec], 10)
    with command(["migrate", "amqp091://me:secret@a", "amqp091://b"]):
        (folder / "r.html").write_text(migration_html(made), encoding="utf-8")


REPORTS: dict[str, Callable[[Path], None]] = {
    "validate": of_validate,
    "nothing-wrong": of_nothing_wrong,
    "validate-many": of_pipeline("validate"),
    "translate-many": of_pipeline("translate", "--to", "0-9-1"),
    "decode-many": of_pipeline("decode", "--profile", "oasis"),
    "dry-run": of_dry_run,
    "dry-run-without-a-loss": of_dry_run_without_a_loss,
    "bridge": of_bridge,
    "migrate": of_migration,
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, make in REPORTS.items():
        folder = tmp_path_factory.mktemp(name)
        (folder / "in").mkdir()
        for case in [case for case in load() if case.kind == "message"][::40]:
            (folder / "in" / f"{case.id}.bin").write_bytes(case.data)
        make(folder)
        made[name] = folder / "r.html"
    return made


@pytest.mark.parametrize("name", REPORTS)
def test_html_report_has_date_command_duration_and_profile(
    reports: dict[str, Path], name: str
) -> None:
    text = reports[name].read_text(encoding="utf-8")
    body = re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)
    said = " ".join(Page(body).text.split())

    version = re.escape(__version__)
    assert re.search(rf"amqp10msg {version}, [\d-]+ [\d:]+ UTC, after [\d.,]+ s: amqp10msg ", said)
    assert _PROFILE.search(said), said[:400]
    assert "secret" not in said
    # Values stand there as AMQP has them, not as Python writes its own.
    assert not re.search(r"\bb'|\bb\"|<class |\bNone\b|\bTrue\b|Decimal\(", said)
    assert ('<div class="octets"' in text) == ("Point at a byte" in said) == ("<script>" in text)


def test_json_report_has_date_command_duration_and_profile() -> None:
    with command(["bridge", "--report", "r.json"]):
        made = json.loads(as_json(*bridged()))["made"]

    assert (__version__, "amqp10msg bridge --report r.json") == (made["version"], made["command"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["date"])
    assert 0 <= made["seconds"]


@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize("name", REPORTS)
def test_browser_shows_the_complete_report(
    browser: Browser, reports: dict[str, Path], name: str
) -> None:
    for width in (400, 1200):
        size: dict[str, Any] = {"width": width, "height": 800, "deviceScaleFactor": 1}
        browser.call("Emulation.setDeviceMetricsOverride", **size, mobile=width == 400)
        browser.open(reports[name].as_uri())
        assert [] == browser.problems()
        assert browser.run("document.documentElement.scrollWidth") <= width
        # What stands below and beside a chart, such as sizes, is inside of its frame.
        cut = browser.run(
            "[...document.querySelectorAll('.chart svg')].flatMap(svg => {"
            "const frame = svg.getBoundingClientRect();"
            "return [...svg.querySelectorAll('text')].filter(t => {"
            "const r = t.getBoundingClientRect();"
            "return r.width && (r.left < frame.left - 1 || r.right > frame.right + 1"
            " || r.bottom > frame.bottom + 1)}).map(t => t.textContent)})"
        )
        assert [] == cut
        # Bars of shares are all as long as each other: only so can they be compared.
        widths = browser.run(
            "[...new Set([...document.querySelectorAll('.rules .share svg')]"
            ".map(e => Math.round(e.getBoundingClientRect().width)))]"
        )
        assert len(widths) <= 1


@pytest.mark.xdist_group("chromium")
def test_pointing_at_bytes_next_to_text_examples(
    browser: Browser, reports: dict[str, Path]
) -> None:
    browser.open(f"{reports['dry-run'].as_uri()}#message-2-byte-0")

    assert browser.run("document.querySelectorAll('article:not(:has(.octets))').length")
    names, octets = browser.lit()
    assert (["header"], "00") == (names, octets[0])
    assert browser.run("!!document.querySelector('#message-2 .hex .lit')")
