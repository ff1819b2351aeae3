"""Which tests `make quick` runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from changed_tests import ALWAYS, selected


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "net/test_bridge.py": "from amqp10msg.net.bridge import Bridge",
        "net/test_serve.py": "from amqp10msg.net.serve.server import Server",
        "net/test_urls.py": "from amqp10msg.net.bridge import route, urls",
        "message/test_message.py": "from amqp10msg import Message",
    }.items():
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "file, expected",
    [
        ("amqp10msg/net/bridge/urls.py", ["tests/net/test_urls.py"]),
        ("amqp10msg/net/bridge/wire.py", ["tests/net/test_bridge.py", "tests/net/test_urls.py"]),
        ("amqp10msg/net/serve/server.py", ["tests/net/test_serve.py"]),
        ("amqp10msg/net/landing.py", ["tests/net"]),
        ("amqp10msg/__init__.py", ["tests/message"]),
        ("tests/net/test_serve.py", ["tests/net/test_serve.py"]),
        ("tests/net/gone/test_gone.py", []),
        ("tests/net/clients.py", ["tests/net"]),
        ("docs/how-to/bridge.md", ["tests/project/test_docs.py"]),
        ("Makefile", []),
    ],
)
def test_a_change_touches(file: str, expected: list[str], root: Path) -> None:
    assert sorted([*expected, ALWAYS]) == selected([file], root)


def test_a_folder_takes_in_its_files(root: Path) -> None:
    assert ["tests/net", ALWAYS] == selected(["tests/net/test_serve.py", "tests/net/a.py"], root)
