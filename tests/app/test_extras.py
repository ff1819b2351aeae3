"""A command whose extra is missing prints what to install in one line, and fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
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
        (f"bridge --from {URL} --to parquet:out", "bridge,arrow"),
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
#: Without click each of these must fail: otherwise a check in CI passes without having run.
WITHOUT_CLICK = [
    *("", "--help", "no-such-command", f"validate {HELLO}", "validate 0053"),
    *("bridge", "conformance", "convert", "demo", "diff-profiles", "encode", "filter", "inspect"),
    *("migrate", "migrate-check", "pipeline", "rules", "serve", "spool", "translate", "validate"),
]
# Python imports this before the command, and hides one package from it.
_HIDE = "import os, sys\nsys.modules[os.environ['HIDDEN_PACKAGE']] = None\n"


def run_without(package: str, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder` in a process that cannot import `package`."""
    hook = folder / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(_HIDE, encoding="utf-8")
    paths = {"PYTHONPATH": f"{hook}{os.pathsep}{ROOT}", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command,
        cwd=folder,
        env={**paths, "HOME": str(folder), "HIDDEN_PACKAGE": package},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def console_script() -> Path:
    """Return the command that installing the package has put next to Python."""
    script = Path(sysconfig.get_path("scripts")) / "amqp10msg"
    if not script.exists():
        pytest.skip("the package is not installed: its console script is missing")
    return script


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
    for command, extra in MISSING[package]:
        done = run_without(package, [str(console_script()), *command.split()], folder)

        assert done.returncode not in (0, None), (command, done)
        assert f"pip install 'amqp10msg[{extra}]'" in done.stderr, (command, done)
        assert "Traceback" not in done.stderr, (command, done)
        assert {*extra.split(",")} <= {*EXTRAS}, command


@pytest.mark.parametrize("arguments", WITHOUT_CLICK)
def test_every_command_fails_without_click(arguments: str, tmp_path: Path) -> None:
    done = run_without("click", [str(console_script()), *arguments.split()], tmp_path)

    assert (1, "") == (done.returncode, done.stdout)
    assert "amqp10msg: the command line needs the package click: " in done.stderr
    assert "pip install 'amqp10msg[cli]'" in done.stderr


def test_module_fails_without_click_like_the_command(tmp_path: Path) -> None:
    done = run_without("click", [sys.executable, "-m", "amqp10msg", "validate", HELLO], tmp_path)

    assert 1 == done.returncode
    assert "pip install 'amqp10msg[cli]'" in done.stderr


def test_version_is_printed_without_click(tmp_path: Path) -> None:
    done = run_without("click", [str(console_script()), "--version"], tmp_path)

    assert (0, "") == (done.returncode, done.stderr)


def test_extras_named_in_texts_exist() -> None:
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
