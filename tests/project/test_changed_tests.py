"""Which tests `make quick` runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from changed_tests import ALWAYS, selected

TYPING = "tests/project/test_typing.py"
CORPUS = ["tests/interop/test_corpus.py", "tests/interop/test_comparison.py"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "net/test_bridge.py": "from amqp10msg.net.bridge import Bridge",
        "net/test_serve.py": "from amqp10msg.net.serve.server import Server",
        "net/test_urls.py": "from amqp10msg.net.ends import links, urls",
        "message/test_message.py": "from amqp10msg import Message",
        "translate/test_translator.py": "from amqp10msg.translate import translator",
        "validation/test_rules.py": "from amqp10msg.validation import check",
        "app/test_cli_serve.py": "",
        "app/test_cli_translate.py": "",
        "app/test_cli_validate.py": "",
        "interop/test_corpus.py": "",
        "interop/test_comparison.py": "",
        "project/test_typing.py": "",
    }.items():
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "file, expected",
    [
        ("amqp10msg/net/ends/urls.py", ["tests/net/test_urls.py", TYPING]),
        ("amqp10msg/net/ends/wire.py", ["tests/net/test_urls.py", TYPING]),
        (
            "amqp10msg/net/serve/server.py",
            ["tests/app/test_cli_serve.py", "tests/net/test_serve.py", TYPING],
        ),
        ("amqp10msg/net/event_hubs.py", ["tests/net", TYPING]),
        ("amqp10msg/__init__.py", ["tests/message", TYPING, *CORPUS]),
        ("amqp10msg/sections/header.py", ["tests/message", TYPING, *CORPUS]),
        (
            "amqp10msg/validation/rules.py",
            ["tests/app/test_cli_validate.py", "tests/validation", TYPING, *CORPUS],
        ),
        (
            "amqp10msg/translate/translator.py",
            [
                "tests/app/test_cli_translate.py",
                "tests/translate/test_translator.py",
                TYPING,
                CORPUS[0],
            ],
        ),
        ("tests/net/test_serve.py", ["tests/net/test_serve.py"]),
        ("tests/net/gone/test_gone.py", []),
        ("tests/net/clients.py", ["tests/net"]),
        ("docs/how-to/bridge.md", ["tests/project/test_docs.py"]),
        ("Makefile", []),
    ],
)
def test_changed_file_selects_its_tests(file: str, expected: list[str], root: Path) -> None:
    assert sorted([*expected, ALWAYS]) == selected([file], root)


def test_selected_folder_replaces_its_files(root: Path) -> None:
    assert ["tests/net", ALWAYS] == selected(["tests/net/test_serve.py", "tests/net/a.py"], root)


def test_tests_of_a_package_that_exports_the_module_are_selected(root: Path) -> None:
    package = root / "amqp10msg" / "columns"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from amqp10msg.columns._decode import decode\n")
    tests = root / "tests" / "columns"
    tests.mkdir()
    (tests / "test_kernel.py").write_text(
        "from amqp10msg.columns import (\n    _decode,\n    _encode,\n)"
    )
    (tests / "test_decode.py").write_text("from amqp10msg.columns import decode")
    (tests / "test_other.py").write_text("import amqp10msg")

    both = ["tests/columns/test_decode.py", "tests/columns/test_kernel.py"]
    assert [*both, ALWAYS, TYPING] == selected(["amqp10msg/columns/_decode.py"], root)
    assert [both[1], ALWAYS, TYPING] == selected(["amqp10msg/columns/_encode.py"], root)
