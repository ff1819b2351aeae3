"""Every example of the documentation runs, and shows what it says it shows.

What an example is, and how it is run, stands in tools/doc_examples.py.
"""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from doc_examples import (
    FENCES,
    NOT_RUN,
    Example,
    check_console,
    check_page,
    check_pycon,
    commands_of,
    examples_of,
)

from amqp10msg.composite import COMPOSITES
from amqp10msg.delivery import TERMINUS_RULES
from amqp10msg.sections import KINDS
from amqp10msg.validation import RULES
from amqp10msg.wire.primitives import FORMAT_CODES
from tests.project.doc_peers import Peers, peers_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md"]
    + [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
)
# Pages whose examples need an extra.
NEEDS = {
    "README.md": ["proton"],
    "docs/how-to/notation.md": ["cbor2"],
    "docs/how-to/columns.md": [
        *("pyarrow", "pandas", "polars", "duckdb", "deltalake", "pyiceberg", "pyspark"),
    ],
    "docs/how-to/proton.md": ["proton"],
    "docs/how-to/serve.md": ["proton", "azure.servicebus"],
    "docs/how-to/bridge.md": ["pika", "click", "jinja2"],
    "docs/reference/bridge.md": ["pika"],
    "docs/how-to/rabbitmq-3-to-4.md": ["pika", "click", "jinja2"],
    "docs/how-to/rabbitmq-to-azure.md": ["pika", "click", "jinja2", "trustme"],
    "docs/how-to/property-tests.md": ["hypothesis"],
    "docs/how-to/pipeline.md": ["pyarrow", "click"],
    "docs/how-to/analyses.md": ["pyspark", "duckdb", "polars"],
    "docs/how-to/spark.md": ["pyspark"],
    "docs/how-to/cluster.md": ["pyspark"],
    "docs/how-to/broker-to-lake.md": ["pyspark"],
    "docs/how-to/archive.md": ["click", "pyarrow"],
    "docs/how-to/conformance.md": ["click", "jinja2"],
    "docs/how-to/conformance-brokers.md": ["click", "jinja2"],
    "docs/reference/conformance-results.md": ["click", "jinja2"],
    "docs/how-to/read-a-body.md": ["pydantic", "msgspec", "zstandard"],
    "docs/how-to/from-any-client.md": ["aio_pika", "azure.servicebus", "pika", "proton"],
    "docs/how-to/azure.md": ["azure.servicebus", "azure.eventhub"],
    "docs/how-to/cloudevents.md": ["cloudevents.core"],
    "docs/how-to/tracing.md": ["opentelemetry.propagate"],
    "docs/how-to/captures.md": ["pyarrow", "click"],
    "docs/how-to/own-rules.md": ["pyarrow", "click"],
    "docs/how-to/dead-letters.md": ["pika", "click"],
    "docs/how-to/pasted-frame.md": ["click"],
    "docs/how-to/refused-message.md": ["click"],
}
# Files that the examples of a page are about.
FILES = {"docs/how-to/captures.md": ["tests/vectors/capture.pcap"]}


def run_console(example: Example, folder: Path, page: Path, peers: Peers = Peers()) -> None:  # noqa: B008  (frozen)
    environment = {
        **os.environ,
        **peers.environment,
        "PATH": os.pathsep.join([str(folder / ".bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        # A Java that runs one small job takes longer to compile itself well than to run it.
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    check_console(example, folder, page, environment, peers.given, peers.shown)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the current one, where `amqp10msg` is the command of this source tree.

    ``python`` is the interpreter that runs the tests, as it is in an environment that is active; a
    link to it would be another one, without what is installed here.
    """
    commands = {"amqp10msg": "-m amqp10msg", "python": ""}
    (tmp_path / ".bin").mkdir()
    for name, arguments in commands.items():
        command = tmp_path / ".bin" / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        command.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_examples() -> list[Any]:
    """The pages that have any; those with a session of Spark go where there is a JVM already."""
    made = []
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        marks = [pytest.mark.xdist_group("spark")] if "pyspark" in NEEDS.get(name, []) else []
        if examples_of(page.read_text(encoding="utf-8")):
            made.append(pytest.param(page, id=name, marks=marks))
    return made


@pytest.mark.parametrize("page", with_examples())
@pytest.mark.usefixtures("few_examples")
def test_page_examples_run(page: Path, folder: Path) -> None:
    name = page.relative_to(ROOT).as_posix()
    for module in NEEDS.get(name, []):
        pytest.importorskip(module)
    for file in FILES.get(name, []):
        shutil.copy(ROOT / file, folder)
    with peers_of(name, folder) as peers:
        run_examples(page, folder, peers)


def run_examples(page: Path, folder: Path, peers: Peers) -> None:
    check_page(
        page,
        examples_of(page.read_text(encoding="utf-8")),
        lambda example: run_console(example, folder, page, peers),
        peers.given,
        folder,
    )


def test_pages_have_examples_of_each_kind() -> None:
    kinds = {e.kind for page in PAGES for e in examples_of(page.read_text(encoding="utf-8"))}

    assert kinds == set(FENCES)


def test_exemptions_are_used() -> None:
    """An exemption that matches nothing would hide the next command that it happens to match."""
    commands = [
        command
        for page in PAGES
        for example in examples_of(page.read_text(encoding="utf-8"))
        if example.kind == "console"
        for command, _ in commands_of(example)
    ]
    unused = [p for p in NOT_RUN if not any(re.match(p, command) for command in commands)]

    assert unused == []


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """The Sphinx extension that draws the generated tables."""
    for name in ("click", "rich", "sphinx"):
        pytest.importorskip(name)
    spec = importlib.util.spec_from_file_location(
        "amqp_tables", ROOT / "docs" / "_ext" / "amqp_tables.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_and_options_have_help(tables: ModuleType) -> None:
    helps = dict(tables.commands())
    silent = [
        f"{path} {parameter.opts[0]}"
        for path, command in tables.tree()
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.help
    ]

    assert {"amqp10msg", "amqp10msg demo", "amqp10msg validate"} <= helps.keys()
    assert [path for path, command in tables.tree() if not command.help] == []
    assert silent == []


def test_every_command_has_a_page_with_all_its_options(tables: ModuleType) -> None:
    folder = ROOT / "docs" / "reference" / "commands"
    pages = {page.stem: tables.command_page(page.stem) for page in folder.glob("*.md")}

    assert {path.split()[1] for path, _ in tables.commands() if " " in path} == pages.keys()
    for path, command in tables.tree():
        if " " not in path:
            continue
        page = pages[path.split()[1]]
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert re.search(rf"{{option}}.* ?{parameter.opts[0]}\b", page), (path, parameter)


def test_pages_name_only_existing_options(tables: ModuleType) -> None:
    options = {
        path: {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        for path, command in tables.tree()
    }
    for path, text in tables.commands():
        # Those of a group name those of its commands, too.
        own = set().union(*(found for name, found in options.items() if name.startswith(path)))
        # "as by --declare of bridge", and a flag of another program in an example
        said = re.sub(r"-\n\s+(?=[a-z])", "-", text)
        said = re.sub(r"--[\w-]+\s+of\s+(\w+)|(jar|jq|less|xxd) .*", "", said)
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+\b", said)) - {"--help", "--version"}

        assert named <= own, path
        assert "RANGE" not in text, path
        assert not re.search(r"^  \w+ .*\.\.\.$", text, re.MULTILINE), f"{path}: cut short"


def test_reference_tables_are_complete(tables: ModuleType) -> None:
    composites = {entry.name for entry in COMPOSITES.values()}

    assert set(re.findall("^## (.*)$", tables.composites(), re.MULTILINE)) == composites
    assert set(re.findall(r"^\| `([a-z0-9-]+)`", tables.rules(), re.MULTILINE)) == set(RULES)
    terminus_rules = re.findall(r"^\| `([a-z0-9-]+)`", tables.terminus_rules(), re.MULTILINE)
    assert set(terminus_rules) == set(TERMINUS_RULES)
    assert len(re.findall("^\\| `0x", tables.format_codes(), re.MULTILINE)) == len(FORMAT_CODES)
    assert all(f"| {kind.name} " in tables.sections() for kind in KINDS)


def reached(page: str) -> set[str]:
    """Return a page and all that its tables of contents lead to, without suffixes."""
    path = ROOT / "docs" / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    found = {page}
    for entries in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for entry in entries.split("\n"):
            if entry and not entry.startswith(":"):
                below = (path.parent / entry).resolve().relative_to(ROOT / "docs").as_posix()
                found |= reached(below)
    return found


def test_pages_are_reachable_from_index() -> None:
    pages = {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for page in PAGES
        if page not in {ROOT / "README.md", ROOT / "docs" / "index.md"}
    }

    assert reached("index") - {"index"} == pages


@pytest.mark.parametrize("path", ["README.md", "docs/index.md"])
def test_index_lists_every_how_to(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs" / "how-to").glob("*.md")}

    assert pages == set(re.findall(r"how-to/([\w-]+\.md)\)", text))


@pytest.mark.parametrize(
    "topic", sorted((ROOT / "docs" / "topics").glob("*.md")), ids=lambda p: p.stem
)
def test_topic_has_a_question_for_each_page(topic: Path) -> None:
    text = topic.read_text(encoding="utf-8")
    questions = re.findall(r"^\| \[\]\((\S+)\.md\) \| .+\? \|$", text, re.MULTILINE)

    assert re.findall(r"^\.\./how-to/.+$", text, re.MULTILINE) == questions


def test_only_console_and_python_fences_are_examples() -> None:
    text = (
        "a\n```python\nx = 1\n```\n1. b\n   ```pycon\n   >>> x\n   1\n   ```\n```{note}\nc\n```\n"
    )

    assert examples_of(text) == [
        Example("python", "x = 1\n", 2),
        Example("pycon", ">>> x\n1\n", 6),
    ]


def test_wrong_example_fails(folder: Path) -> None:
    page = folder / "page.md"

    with pytest.raises(AssertionError, match="Expected"):
        check_pycon(Example("pycon", ">>> 1 + 1\n3\n", 0), {}, page)
    with pytest.raises(AssertionError, match="but the page shows"):
        run_console(Example("console", "$ echo a\nb\n", 0), folder, page)
    with pytest.raises(AssertionError):
        run_console(Example("console", "$ false\n", 0), folder, page)
    run_console(Example("console", "$ exit 3  # exit status 3\n", 0), folder, page)


def test_pictures_are_used_and_small() -> None:
    """``python tools/pictures.py`` and ``python tools/screenshots.py`` make them."""
    text = "".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    text += (ROOT / "docs" / "conf.py").read_text("utf-8")

    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert f"pictures/{picture.name}" in text
        assert picture.stat().st_size < 70_000


def test_signatures_omit_private_parameters() -> None:
    pytest.importorskip("sphinx")
    shorten = runpy.run_path(str(ROOT / "docs" / "_ext" / "overview.py"))["shorten"]
    signature = (
        "(body: Any = None, *, footer: Mapping[Any, Any] | None = None, _wire: bytes | None = None,"
        " _lenient: bool = False, **unknown: ~typing.Never)"
    )

    shown, _ = shorten(None, "class", "amqp10msg.Message", None, None, signature, None)

    assert "(body: Any = None, *, footer: Mapping[Any, Any] | None = None)" == shown
