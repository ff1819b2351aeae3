"""A command whose extra is missing says in a line which one to install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from amqp10msg import Message

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
pytestmark = pytest.mark.once

HELLO = Message("hello").encode().hex()
URL = "amqp091://127.0.0.1:9/?queue=q"  # where nothing listens
#: By package: commands that need it, and the extra that brings it for them.
MISSING = {
    "click": [("inspect 00", "cli")],
    "rich": [(f"validate {HELLO}", "cli")],
    "jinja2": [
        (f"inspect --html {HELLO}", "pages"),
        (f"validate --report r.html {HELLO}", "pages"),
        ("conformance run --peer this-library --only accepted -o board", "pages"),
    ],
    "cbor2": [(f"convert --out cbor {HELLO}", "cbor"), ("inspect -f cbor a0", "cbor")],
    "pyarrow": [
        ("inspect in.parquet", "arrow"),
        ("pipeline decode in out", "arrow"),
        ("pipeline profile in out", "arrow"),
        ("pipeline translate --to 0-9-1 in out", "arrow"),
        ("pipeline validate in out", "arrow"),
        ("spool amqp://127.0.0.1:9 q landing", "net,arrow"),
    ],
    "pyspark": [("pipeline decode --engine spark in out", "spark")],
    "fastavro": [("inspect in.avro", "avro"), ("validate in.avro", "avro")],
    "pika": [
        (f"bridge --from {URL} --to amqp://127.0.0.1:10/q", "bridge"),
        (f"migrate-check --queue q {URL}", "bridge"),
        (
            "migrate --management http://a --target-management http://b amqp091://a amqp091://b",
            "bridge",
        ),
        ("spool --protocol 0-9-1 amqp://127.0.0.1:9 q landing", "net,arrow"),
    ],
    "prometheus_client": [
        (f"bridge --listen 127.0.0.1:0 --from {URL} --to amqp://127.0.0.1:10/q", "bridge"),
    ],
}
_RUN = """
import contextlib, io, sys
sys.modules[sys.argv[1]] = None
from amqp10msg.__main__ import main
for command in sys.argv[2:]:
    sys.argv[1:] = command.split()
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code
    print(repr((status, said.getvalue())))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    (tmp_path / "in.avro").write_bytes(b"Obj\x01" + bytes(100))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m.bin").write_bytes(Message("hello").encode())
    return tmp_path


@pytest.mark.parametrize("package", MISSING)
def test_without_a_package_a_command_names_its_extra(package: str, folder: Path) -> None:
    for needed in {"click", "rich"} - {package}:
        pytest.importorskip(needed)
    for needed in {"pika"} if package in {"prometheus_client", "pyarrow"} else ():
        pytest.importorskip(needed)
    if package in {"pyspark", "fastavro", "pika"}:
        pytest.importorskip("pyarrow")
    commands = [command for command, _ in MISSING[package]]
    done = subprocess.run(
        [sys.executable, "-c", _RUN, package, *commands],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    for (command, extra), line in zip(MISSING[package], done.stdout.splitlines(), strict=True):
        assert f"pip install 'amqp10msg[{extra}]'" in line, (command, line)
        assert "Traceback" not in line, command
        assert {*extra.split(",")} <= {*EXTRAS}, command


def test_the_extras_that_texts_name_are_there() -> None:
    named: dict[str, list[str]] = {}
    for path in [*(ROOT / "amqp10msg").rglob("*.py"), *(ROOT / "docs").glob("*/*.md")]:
        if "_build" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        for extras in re.findall(r"amqp10msg\[([\w,-]+)\]", text):
            for extra in extras.split(","):
                named.setdefault(extra, []).append(path.name)

    assert {"cli", "arrow", "bridge"} <= named.keys()
    assert {} == {extra: places for extra, places in named.items() if extra not in EXTRAS}
