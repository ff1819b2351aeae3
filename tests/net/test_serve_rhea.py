"""The server, as a client in JavaScript sees it: rhea, where Node and rhea are installed.

``npm install rhea`` in a folder, and ``NODE_PATH=FOLDER/node_modules``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("proton", reason="needs python-qpid-proton")

from amqp10msg.net.serve import Server

pytestmark = pytest.mark.once

CLIENT = Path(__file__).with_name("rhea_client.js")
TIMEOUT = 60  # seconds; it takes one


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("needs Node")
    known = subprocess.run(
        [found, "-e", "require.resolve('rhea')"], capture_output=True, check=False
    )
    if known.returncode:
        pytest.skip("needs rhea: npm install rhea, and NODE_PATH")
    return found


def test_rhea_uses_all_features(node: str) -> None:
    with Server(max_message_size=2 << 20, users={"ann": "secret"}) as server:
        done = subprocess.run(
            [node, str(CLIENT), str(server.port)],
            capture_output=True,
            check=False,
            text=True,
            timeout=TIMEOUT,
        )
        assert 0 == done.returncode, done.stderr
        assert "" == done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        counts = {name: server.counts(name) for name in ("outcomes", "colours", "large")}

    address = found.pop("dynamic")
    assert "/replies/" in address
    assert {
        "sent": "accepted",
        "message": ["x", "m-1", {"n": 1}],
        "first": [True, 0],
        "released": [True, 0],
        "modified": [1, {"x-opt-why": "busy"}],
        "after_rejected": "y",
        "durable": "amqp:precondition-failed",
        "default_outcome": ["d", 1],
        "selected": ["green", "green"],
        "drained": 0,
        "copied": ["red", "blue", "red", "blue"],
        "reply": "reply",
        "topic": ["topic", "topic", "flash", "flash"],
        "unknown_capability": None,
        "large_sent": "accepted",
        "large": True,
        "too_long": "amqp:link:message-size-exceeded",
    } == found
    assert {"rejected": 1, "accepted": 2} == counts["outcomes"].causes
    assert (2, {"accepted": 2}) == (counts["colours"].available, counts["colours"].causes)
    assert {"accepted": 1} == counts["large"].causes
