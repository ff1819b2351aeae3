"""Take the screenshots of the documentation: ``python tools/screenshots.py [NAME ...]``.

Each page is made as a user would make it, and taken by Chromium in the colours of day and night:
the inspector with the message of the pictures, the report of a dry run of the bridge, and the
scoreboard of ``amqp10msg conformance run``, which installs its peers and takes a few minutes.
"""

from __future__ import annotations

import base64
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path[:1]:
    sys.path.insert(0, str(ROOT))  # this tree, not one that is installed

from build_inspector import build  # noqa: E402
from pictures import FOLDER, MESSAGE  # noqa: E402

from tests.browser import Browser, find_chromium  # noqa: E402

WIDTH, HEIGHT = 1120, 680
PEERS = ("this-library", "proton", "rhea")


def run(*arguments: str, cwd: Path) -> None:
    """Run a command of the library in a folder."""
    # A scoreboard with cases that fail is a result like any other.
    command = [sys.executable, "-m", "amqp10msg", *arguments]
    env = {**os.environ, "TMPDIR": str(cwd), "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=cwd, env=env, check=False)


@contextmanager
def inspector(folder: Path) -> Iterator[str]:
    """Serve the inspector, and give its address with the message."""
    build(folder / "inspector")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder / "inspector"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/#message={MESSAGE.encode().hex()}"
        server.shutdown()


@contextmanager
def bridge(folder: Path) -> Iterator[str]:
    """Give the report of a dry run of the bridge over recorded messages of 0-9-1."""
    shutil.copyfile(ROOT / "amqp10msg/net/bridge/data/recorded.jsonl", folder / "orders.jsonl")
    ends = ("--from", "file:orders.jsonl?protocol=0-9-1", "--to", "amqp://rabbitmq-4/orders")
    given = ("--profile", "rabbitmq-4.3", "--dry-run", "--report", "bridge.html")
    run("bridge", *ends, *given, cwd=folder)
    yield (folder / "bridge.html").as_uri()


@contextmanager
def scoreboard(folder: Path) -> Iterator[str]:
    """Give the scoreboard of this library and two peers."""
    peers = [word for peer in PEERS for word in ("--peer", peer)]
    run("conformance", "run", *peers, "-o", "scoreboard", cwd=folder)
    yield (folder / "scoreboard" / "index.html").as_uri()


PAGES: dict[str, Callable[[Path], Any]] = {
    "inspector": inspector,
    "bridge": bridge,
    "scoreboard": scoreboard,
}


def take(browser: Browser, url: str, mode: str) -> bytes:
    """Return a page as WebP: its upper part, once there is nothing more to wait for."""
    scheme = {"name": "prefers-color-scheme", "value": mode}
    browser.call("Emulation.setEmulatedMedia", media="screen", features=[scheme])
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=WIDTH,
        height=HEIGHT,
        deviceScaleFactor=1,
        mobile=False,
    )
    browser.call("Emulation.setScrollbarsHidden", hidden=True)
    browser.open(url)
    deadline = time.monotonic() + 120
    while not browser.run("!document.querySelector('progress:not([hidden])')"):
        if time.monotonic() > deadline:
            raise SystemExit(f"{url}: nothing was shown for two minutes")
        time.sleep(0.2)
    time.sleep(1)
    taken = browser.call("Page.captureScreenshot", format="webp", quality=60)
    return base64.b64decode(taken["data"])


def main(names: list[str]) -> None:
    """Take those that are named, or all."""
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        browser = Browser(find_chromium(), folder / "profile")
        for name in names or PAGES:
            with PAGES[name](folder) as url:
                for mode in ("light", "dark"):
                    path = FOLDER / f"{name}-{mode}.webp"
                    path.write_bytes(take(browser, url, mode))
                    print(path)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
