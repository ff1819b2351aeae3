"""Print the tests that a change touches: ``make quick`` runs them.

    python tools/changed_tests.py [BASE]

What differs from BASE (HEAD where it is not given) or is not yet known to git is looked at. A test
that changed is printed, and for a module the tests in the folder of its room that import it, or its
package if that exports it; all of the folder where none of them does. With these come the tests of
the commands that are named after the room or the module, and the `GUARDS`: tests that break with a
module that they do not import.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = "tests/project/test_layers.py"
MESSAGES = frozenset(
    ["wire", "composite", "sections", "message", "delivery", "validation", "interop"]
)
#: Tests that a change in other rooms can break, and those rooms; None stands for every room.
GUARDS: dict[str, frozenset[str] | None] = {
    "tests/project/test_typing.py": None,
    "tests/interop/test_corpus.py": MESSAGES | {"basic", "translate"},
    "tests/interop/test_comparison.py": MESSAGES,
    "tests/app/test_new_option.py": frozenset(["net"]),
    "tests/net/test_new_queue_argument.py": frozenset(["net"]),
    "tests/project/test_broker_names.py": frozenset(["message", "translate"]),
    "tests/translate/test_new_rabbitmq_series.py": frozenset(["message", "translate"]),
}
SOURCES = frozenset((".py", ".pyx", ".pxd", ".pxi"))
#: The commands whose names are not those of the rooms that do their work.
COMMANDS = {"validation": "validate", "jobs": "pipeline", "notation": "convert"}


def changed(base: str = "HEAD") -> list[str]:
    """Return the files that differ from a commit, and those that git does not know yet."""
    commands = (
        ["git", "diff", "--name-only", base],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    return [
        line
        for command in commands
        for line in subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.splitlines()
    ]


def selected(files: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the tests that these files touch, as arguments of pytest."""
    found = {ALWAYS}
    for name in files:
        file = PurePosixPath(name)
        if file.parts[0] == "tests" and file.name.startswith("test_"):
            found |= {name} if (root / name).exists() else set()
        elif file.parts[0] == "tests" and file.suffix == ".py" and len(file.parts) > 2:
            found.add(str(file.parent))
        elif file.parts[0] == "amqp10msg" and file.suffix in SOURCES:
            found |= _of_module(file, root) | _in_other_rooms(file, root)
        elif file.suffix == ".md":
            found.add("tests/project/test_docs.py")
    folders = {one for one in found if (root / one).is_dir()}
    return sorted(one for one in found if not any(f"{folder}/" in one for folder in folders))


def _of_module(file: PurePosixPath, root: Path) -> set[str]:
    """Return the tests in the folder of a module's room that import it, or a package with it."""
    folder = root / "tests" / file.parts[1]
    if not folder.is_dir():  # the package's own __init__
        return {"tests/message"}
    texts = {test: test.read_text(encoding="utf-8") for test in folder.glob("test_*.py")}
    names = [*file.with_suffix("").parts]
    found: set[Path] = set()
    while len(names) > 2 and (not found or _is_exported(names, root)):
        found |= {test for test, text in texts.items() if _imports(text, names)}
        names.pop()
    if found and len(names) == 2 and _is_exported(file.with_suffix("").parts, root):
        found |= {test for test, text in texts.items() if _imports(text, names)}
    return {test.relative_to(root).as_posix() for test in found or [folder]}


def _imports(text: str, names: Sequence[str]) -> bool:
    """Return whether the source of a test imports the module or package with this dotted name."""
    package, name = re.escape(".".join(names[:-1])), re.escape(names[-1])
    return bool(re.search(rf"{package}(\.| import (\([^)]*?|.*?)\b){name}\b", text))


def _is_exported(names: Sequence[str], root: Path) -> bool:
    """Return whether the package of a module imports it."""
    init = root.joinpath(*names[:-1], "__init__.py")
    return init.exists() and _imports(init.read_text(encoding="utf-8"), names)


def _in_other_rooms(file: PurePosixPath, root: Path) -> set[str]:
    """Return the guards of a module's room, and the tests of the command named after the room."""
    # A module beside the rooms, such as sections.py, is part of the messages.
    room = file.parts[1] if len(file.parts) > 2 else "message"
    guards = {test for test, rooms in GUARDS.items() if rooms is None or room in rooms}
    names = [*file.parts[1:-1], file.stem]
    commands = {f"tests/app/test_cli_{COMMANDS.get(name, name)}.py" for name in names}
    found = guards | commands
    return {test for test in found if (root / test).exists()}


if __name__ == "__main__":
    print(*selected(changed(*sys.argv[1:2])))
