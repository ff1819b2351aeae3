"""The examples of a page of the documentation: found, run and compared with what it shows.

    python tools/doc_examples.py PAGE [WORD]   runs the examples up to the first with WORD in it

Four kinds of fence are examples, and all of a page's examples share one namespace and one folder:

- ``pycon`` holds ``>>>`` lines and what they print, checked by doctest (``...`` matches anything);
- ``python`` is executed; or, if its first line names a file, ``# rules.py``, written to that file;
- ``toml`` is a file, whose name its first line says: ``# routes.toml``;
- ``console`` holds ``$ command`` lines, run by a shell, and what they print, where it is shown.
  A command that means to fail says so: ``$ amqp10msg validate bad.bin  # exit status 1``.

Standard library only: it also runs where a single extra is installed, beside nothing else.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCES = ("pycon", "python", "console", "toml")
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>[\w{}-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
STATUS = re.compile(r"\s+# exit status (?P<status>\d+)$")

# Commands that are shown and not run here, and why.
NOT_RUN = {
    r"make (demo|setup|test|check|bench|fuzz|docs|coverage|clean|help)\b": "CI runs the verbs",
    r"make inspector\b": "takes npm: tests/app/test_inspector_page.py builds and shows it",
    r"amqp10msg conformance run --peer \./mine\.js": "takes Node: test_conformance_drivers.py",
    r"tcpdump\b": "has to be root, and goes on until it is ended",
    r"pip install\b": "would change the environment of this very run",
    r"pip download\b": "takes an index of packages",
    r"PYSPARK_PYTHON=.* spark-submit": "needs a cluster: tests/spark/test_cluster.py has one",
}


@dataclass(frozen=True)
class Example:
    """One fence: its text and the line on which it begins, counted from 0."""

    kind: str
    text: str
    line: int


def examples_of(text: str) -> list[Example]:
    """Return the examples of a page's text, in their order."""
    return [
        Example(
            match["kind"],
            textwrap.dedent(match["text"]),
            text.count("\n", 0, match.start()) + 1,
        )
        for match in FENCE.finditer(text)
        if match["kind"] in FENCES
    ]


def commands_of(example: Example) -> list[tuple[str, str]]:
    """Return the commands of a console example, each with the output that is shown for it."""
    found: list[tuple[str, str]] = []
    for line in re.sub(r"\\\n", "", example.text).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found:
            command, output = found[-1]
            found[-1] = (command, f"{output}{line}\n")
    return found


def file_name_of(example: Example) -> str:
    """Return the name of the file that the first line of an example names; empty if none."""
    first = re.match(r"# ([\w.-]+\.(?:py|toml))\n", example.text)
    return first[1] if first else ""


def is_run(command: str) -> bool:
    """Return whether a command of a console example is run."""
    return not any(re.match(pattern, command) for pattern in NOT_RUN)


def check_pycon(example: Example, namespace: dict[str, Any], page: Path) -> None:
    """Run a session of the interpreter.

    Raises:
        AssertionError: it prints something else than the page shows.
    """
    test = doctest.DocTestParser().get_doctest(
        example.text, namespace, page.name, str(page), example.line
    )
    test.globs = namespace  # get_doctest copied it, and later examples go on from here
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    results = runner.run(test, out=report.append, clear_globs=False)
    if not results.attempted:
        raise AssertionError(f"{page}:{example.line}: a pycon fence without >>>")
    if results.failed:
        raise AssertionError("".join(report))


def check_console(
    example: Example,
    folder: Path,
    page: Path,
    environment: Mapping[str, str],
    given: Callable[[str], str] = str,
    shown_as: Callable[[str], str] = str,
) -> None:
    """Run the commands of a console example in a folder.

    Args:
        example: the example.
        folder: the current folder of its commands.
        page: where it stands, for errors.
        environment: the variables of its commands.
        given: puts what is here in place of what the page calls it, in a command.
        shown_as: the reverse, in an output.

    Raises:
        AssertionError: an exit status or an output is not the one that the page shows.
    """
    for line, shown in commands_of(example):
        if not is_run(line):
            continue
        status = STATUS.search(line)
        command = given(STATUS.sub("", line))
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,  # for what hangs: a JVM takes long where others compute, too
            check=False,
        )
        output = shown_as(done.stdout)
        place = f"{page}:{example.line}: $ {command}\n{output}"
        expected = int(status["status"]) if status else 0
        if done.returncode != expected:
            raise AssertionError(f"{place}\nexit status {done.returncode}, not {expected}")
        got = "\n".join(row.rstrip() for row in output.splitlines()) + "\n"
        if shown and not doctest.OutputChecker().check_output(shown, got, doctest.ELLIPSIS):
            raise AssertionError(f"{place}\nbut the page shows\n{shown}")


def check_page(page: Path, examples: list[Example], check_commands: Callable[[Example], None],
               given: Callable[[str], str] = str, folder: Path | None = None) -> None:  # fmt: skip
    """Run examples of one page, in one namespace and one folder.

    Raises:
        AssertionError: one does not show what the page says.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for example in examples:
        if example.kind == "pycon":
            check_pycon(example, namespace, page)
        elif example.kind == "python":
            if name := file_name_of(example):
                ((folder or Path.cwd()) / name).write_text(given(example.text))
                continue
            padded = "\n" * example.line + given(example.text)  # a traceback names the page's line
            exec(compile(padded, str(page), "exec"), namespace)
        elif example.kind == "toml":
            name = file_name_of(example)
            if not name:
                raise AssertionError(f"{page}:{example.line}: the first line names the file")
            ((folder or Path.cwd()) / name).write_text(given(example.text))
        else:
            check_commands(example)


def main(page: Path, word: str = "") -> None:
    """Run a page's examples up to the first with a word in it, in the current folder."""
    examples = examples_of(page.read_text(encoding="utf-8"))
    last = next((i for i, one in enumerate(examples) if word in one.text), None)
    if last is None:
        raise SystemExit(f"{page} has no example with {word!r}")
    here = Path.cwd()
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": commands, "COLUMNS": "100", "NO_COLOR": "1"}
    check_page(page, examples[: last + 1], lambda one: check_console(one, here, page, environment))
    print(f"{page.name}: {last + 1} of {len(examples)} examples")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
