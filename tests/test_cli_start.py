"""What the command imports before it has to, and Ctrl-C while it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amqp10msg.cli import _app, main

ROOT = Path(__file__).parents[1]
#: What takes long to import: the rest of the library, and what draws tables.
HEAVY = {
    *("rich", "jinja2", "pyarrow", "cbor2", "proton"),
    *("amqp10msg.notation", "amqp10msg.delivery", "amqp10msg.translate", "amqp10msg.files"),
    *("amqp10msg.jobs", "amqp10msg.basic", "amqp10msg.corpus", "amqp10msg.pages"),
}
REPORT = (
    "import atexit, json, os, sys\n"
    "atexit.register(lambda: open(os.environ['LOADED'], 'w').write(json.dumps([*sys.modules])))\n"
    "from amqp10msg.cli import main\n"
    "sys.argv[:] = ['amqp10msg', *sys.argv[1:]]\n"
    "main()\n"
)


def loaded(folder: Path, *arguments: str, words: str | None = None) -> set[str]:
    """The modules that were imported when a command ended, or when the shell was answered."""
    environment = {**os.environ, "LOADED": str(folder / "loaded")}
    if words is not None:
        environment |= {
            "_AMQP10MSG_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *arguments],
        cwd=ROOT, env=environment, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout
    found: list[str] = json.loads((folder / "loaded").read_text())
    return {name for name in found if any(f"{name}.".startswith(f"{one}.") for one in HEAVY)}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_what_says_something_of_the_command_alone_imports_no_more(
    arguments: list[str], tmp_path: Path
) -> None:
    assert set() == loaded(tmp_path, *arguments)


@pytest.mark.parametrize(
    "words",
    ["amqp10msg in", *(f"amqp10msg {name} --" for name in _app.COMMANDS if name != "demo"),
     "amqp10msg pipeline decode --"],
)  # fmt: skip
def test_completion_imports_no_more(words: str, tmp_path: Path) -> None:
    assert set() == loaded(tmp_path, words=words)


def test_the_list_of_commands_says_what_their_help_says() -> None:
    assert {name: about for name, (_, about) in _app.COMMANDS.items()} == {
        name: command.get_short_help_str(61) for name, command in main.commands.items()
    }


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals there")
@pytest.mark.parametrize("module", ["rich.console", "amqp10msg.notation", "amqp10msg.cli.inspect"])
def test_ctrl_c_while_something_is_imported_is_one_line(module: str) -> None:
    """The signal comes exactly when a module is looked for."""
    program = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from amqp10msg.cli import main\n"
        "main(['validate', '00'] if 'rich' in sys.argv[1] else ['inspect', '00'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, module], cwd=ROOT, capture_output=True, check=False
    )

    assert (130, b"amqp10msg: interrupted") == (done.returncode, done.stderr.strip())
