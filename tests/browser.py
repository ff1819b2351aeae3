"""A headless Chromium for the tests of pages, driven over its debugging pipe."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until

__all__ = ["Browser", "find_chromium"]


def find_chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        path = shutil.which(name)
        if path:
            return path
    pytest.skip("no Chromium on the PATH: install chromium to test the page in a browser")


class Browser:
    """One page in a headless Chromium, spoken to in the DevTools protocol over its pipe."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self.out = os.pipe()
        self.back, from_browser = os.pipe()
        # It takes commands from descriptor 3 and answers on 4.
        launch = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
            "os.execv(sys.argv[3], sys.argv[3:])"
        )
        command = [
            *(sys.executable, "-c", launch, str(to_browser), str(from_browser), program),
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--disable-dev-shm-usage", "--remote-debugging-pipe", "--window-size=1300,900"),
            *(f"--user-data-dir={profile}", "about:blank"),
        ]
        self.process = subprocess.Popen(
            command,
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.pending = b""
        self.events: list[dict[str, Any]] = []
        self.number = 0
        self.session = ""
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self.pending:
            more = os.read(self.back, 65536)
            assert more, "Chromium ended"
            self.pending += more
        message, _, self.pending = self.pending.partition(b"\0")
        return json.loads(message)  # type: ignore[no-any-return]

    def call(self, method: str, **parameters: Any) -> Any:
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.out, json.dumps(command).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def open(self, url: str) -> None:
        self.events.clear()
        # Twice the same file with another fragment would not load it again.
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        wait_until(lambda: self.run("document.readyState === 'complete'"))
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, expression: str) -> Any:
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def point(self, selector: str, index: int = 0) -> None:
        """Move the pointer to the middle of an element."""
        x, y = self.run(
            f"(() => {{const e = document.querySelectorAll({json.dumps(selector)})[{index}];"
            "e.scrollIntoView({block: 'nearest'});"
            "const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]})()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def lit(self) -> tuple[list[str], list[str]]:
        """Give the names of the fields that are lit, and the bytes in hex."""
        names = self.run(
            "[...document.querySelectorAll('tr.lit > .name')].map(e => e.textContent.trim())"
        )
        octets = self.run("[...document.querySelectorAll('.hex b.lit')].map(e => e.textContent)")
        return names, octets

    def problems(self) -> list[Any]:
        """Give what went wrong in the page: exceptions, refusals of its policy, failed requests."""
        return [
            event
            for event in self.events
            if event["method"]
            in ("Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
        ]

    def requested(self) -> list[str]:
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        self.session = ""
        self.call("Browser.close")
        self.process.wait(20)
        os.close(self.out)
        os.close(self.back)
