"""Imports at the start of a command are few, and Ctrl-C during them is handled."""

from __future__ import annotations

import ast
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import amqp10msg
from amqp10msg.app.cli import _app, main
from amqp10msg.app.version import version

ROOT = Path(__file__).parents[2]
PACKAGE = "amqp10msg"
#: What takes long to import: the rest of the library, and what draws tables.
HEAVY = {
    *("rich", "jinja2", "pyarrow", "cbor2", "proton"),
    *("amqp10msg.notation", "amqp10msg.delivery", "amqp10msg.translate"),
    *("amqp10msg.files.containers", "amqp10msg.files.reading", "amqp10msg.files.recognition"),
    *("amqp10msg.jobs", "amqp10msg.basic", "amqp10msg.interop.corpus", "amqp10msg.pages"),
}
REPORT = (
    "import atexit, json, os, sys\n"
    "atexit.register(lambda: open(os.environ['LOADED'], 'w').write(json.dumps([*sys.modules])))\n"
    "from amqp10msg.app.cli import main\n"
    "sys.argv[:] = ['amqp10msg', *sys.argv[1:]]\n"
    "main()\n"
)
#: What messages need: neither ``--help`` nor the names of the commands wait for it.
KERNEL = {"attr", "amqp10msg.wire.kernel", "amqp10msg.message", "amqp10msg.validation"}
BOTH = HEAVY | KERNEL


def loaded(
    folder: Path, *arguments: str, words: str | None = None, of: set[str] = HEAVY
) -> set[str]:
    """Those modules that were imported when a command ended, or when the shell was answered."""
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
    return {name for name in found if any(f"{name}.".startswith(f"{one}.") for one in of)}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_version_and_help_import_neither_kernel_nor_library(
    arguments: list[str], tmp_path: Path
) -> None:
    assert set() == loaded(tmp_path, *arguments, of=BOTH)


#: What ``amqp10msg inspect HEX`` takes of the library, by its packages.
INSPECT = {
    "": {"__main__", "app", "brokers", "provenance"},
    "app": {"cli", "inspector", "version"},
    "app.cli": {"_app", "_input", "_missing", "_options", "_output", "inspect"},
    "app.inspector": {"judging", "reading"},
    "composite": {"_codec", "_declarations"},
    "files": {"_record", "formats", "recognition", "signatures", "text"},
    "message": {"_adapters", "_encoding", "_flat", "picks", "templates"},
    "notation": {"_common", "_rows", "text", "tree"},
    "sections": {"_classes", "parts", "paths"},
    "validation": {"_checks", "_follow_ups", "_table", "prefilter", "rules", "suspicion"},
}


def library(*arguments: str) -> tuple[str, set[str]]:
    """What a command says, and the modules that the process imported in the end."""
    program = (
        "import atexit, sys\n"
        "before = {*sys.modules}\n"
        "atexit.register(lambda: print(*({*sys.modules} - before), file=sys.stderr))\n"
        "from amqp10msg.__main__ import main\n"
        "sys.argv[:] = ['amqp10msg', *sys.argv[1:]]\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT, capture_output=True, check=True, text=True,
    )  # fmt: skip
    return done.stdout, set(done.stderr.split())


def test_version_imports_two_modules() -> None:
    said, found = library("--version")

    assert f"{version()}\n" == said
    assert {"amqp10msg", "amqp10msg.__main__", "amqp10msg.app", "amqp10msg.app.version"} == {
        name for name in found if name.partition(".")[0] == "amqp10msg"
    }
    assert set() == found & {"click", "attr", "attrs", "json", "platform", "signal", "inspect"}
    assert set() == found & {"typing", "re", "functools", "contextlib", "pathlib"}


def test_inspect_imports_only_these_modules() -> None:
    said, found = library("inspect", "00537745")
    own = {name for name in found if name.partition(".")[0] == "amqp10msg"}
    known = {f"amqp10msg.{folder}.{name}" for folder, names in INSPECT.items() for name in names}
    known = {name.replace("..", ".") for name in known}
    known |= {f"amqp10msg.{folder}".rstrip(".") for folder in INSPECT}

    assert "no violations" in said
    # Of the lowest layer, values and the kernel, all is needed.
    assert known == {name for name in own if not f"{name}.".startswith("amqp10msg.wire.")}
    assert set() == found & {"rich", "jinja2", "hashlib", "tempfile", "difflib", "bz2"}
    assert set() == found & {"pathlib", "json", "html", "textwrap", "shlex", "mmap", "zlib"}


@pytest.mark.parametrize("package", ["files", "notation", "delivery"])
def test_lazy_imports_exist(package: str) -> None:
    module = importlib.import_module(f"amqp10msg.{package}")

    assert [] == [name for name in module.__all__ if not hasattr(module, name)]
    with pytest.raises(AttributeError, match="no attribute 'no_such_thing'"):
        module.no_such_thing  # noqa: B018  (the error is the point)


def test_completion_of_commands_does_not_import_the_kernel(tmp_path: Path) -> None:
    assert set() == loaded(tmp_path, words="amqp10msg in", of=BOTH)


@pytest.mark.parametrize(
    "words",
    [*(f"amqp10msg {name} --" for name in _app.COMMANDS if name != "demo"),
     "amqp10msg pipeline decode --"],
)  # fmt: skip
def test_completion_imports_only_light_modules(words: str, tmp_path: Path) -> None:
    assert set() == loaded(tmp_path, words=words)


def test_command_list_matches_the_short_helps() -> None:
    assert {name: about for name, (_, about) in _app.COMMANDS.items()} == {
        name: command.get_short_help_str(61) for name, command in main.commands.items()
    }
    assert not [about for _, about in _app.COMMANDS.values() if about.endswith("...")]


def test_importing_the_package_imports_nothing_until_a_name_is_used() -> None:
    program = (
        "import sys, amqp10msg\n"
        "before = [name for name in sys.modules if name.startswith(('amqp10msg.', 'attr'))]\n"
        "from amqp10msg import *\n"
        "print(before, Message.__name__, amqp10msg.notation.__name__, 'UInt' in dir(amqp10msg))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True
    )

    assert ["[]", "Message", "amqp10msg.notation", "True"] == done.stdout.split()


def imported_for_type_checkers() -> dict[str, str]:
    """Return the names that the root package imports under TYPE_CHECKING, and their modules."""
    tree = ast.parse((ROOT / "amqp10msg" / "__init__.py").read_text(encoding="utf-8"))
    return {
        alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_know_every_module() -> None:
    """By name, so that they report a misspelled module."""
    listed = {name for name, module in imported_for_type_checkers().items() if module == PACKAGE}
    found = {module.name for module in pkgutil.iter_modules([str(ROOT / PACKAGE)])}

    assert {name for name in found if not name.startswith("_")} == listed


def test_every_submodule_is_an_attribute_of_the_root_package() -> None:
    modules = {name for name, module in imported_for_type_checkers().items() if module == PACKAGE}

    assert modules <= {*dir(amqp10msg)}


@pytest.mark.parametrize("name", sorted({*amqp10msg.__all__} - {"__version__"}))
def test_public_names_are_imported_from_the_module_that_type_checkers_read(name: str) -> None:
    module = importlib.import_module(imported_for_type_checkers()[name])

    assert getattr(module, name) is getattr(amqp10msg, name)
    assert name in dir(amqp10msg)


def test_type_checkers_and_the_list_of_public_names_agree() -> None:
    listed = {name for name, module in imported_for_type_checkers().items() if module != PACKAGE}

    assert {*amqp10msg.__all__} == {*listed, "__version__"}
    with pytest.raises(AttributeError, match="module 'amqp10msg' has no attribute 'no_such_name'"):
        amqp10msg.no_such_name  # type: ignore[attr-defined]  # noqa: B018  (the error is the point)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals there")
@pytest.mark.parametrize(
    "module",
    [
        *(
            "amqp10msg.app.cli",
            "click",
            "amqp10msg.app.cli._app",
            "attr",
            "amqp10msg.wire.primitives",
        ),
        *("rich.console", "amqp10msg.notation", "amqp10msg.app.cli.inspect"),
    ],
)
def test_ctrl_c_during_imports_is_one_line(module: str) -> None:
    """The signal comes exactly when a module is looked for."""
    program = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from amqp10msg.__main__ import main\n"
        "sys.argv[1:] = (['validate', '00'] if 'rich' in sys.argv[1] else ['inspect', '00'])\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, module], cwd=ROOT, capture_output=True, check=False
    )

    assert (130, b"amqp10msg: interrupted") == (done.returncode, done.stderr.strip())
