"""The lint of words: what it finds in documentation and sources, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "words.py"


def found(path: Path) -> list[str]:
    run = subprocess.run(
        [sys.executable, TOOL, str(path)], capture_output=True, text=True, check=False
    )
    assert (1 if run.stdout else 0) == run.returncode
    return [line.rsplit(":", 3)[1] for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    "name, text, lines",
    [
        ("a.md", "Two octets.\n\n```python\noctets = 1\n```\n`octets` is a name.\n", ["1"]),
        ("a.md", "There is no footer.\nThis is no footer.\nIt is no longer there.\n", ["2"]),
        ("a.py", 'octets = b"a"  # the octets\nraise ValueError("no octets here")\n', ["1", "2"]),
        ("a.py", '"""Return what it is.\n\nReturn a list.\n"""\nkey = "octets"\n', ["1"]),
        ("a.py", '"""Say it.\n\n>>> octets\n"""\nx = f"{octets} bytes"\n', []),
        ("a.md", "It is no\nfooter, and so on.\nAll of it\nhears of no end.\n", ["1", "4"]),
        ("a.py", "# It is read and given\n# back.\nx = 1\n", ["1"]),
        ("a.pyx", 'cdef int octets  # behind it, and anew\n"""Nothing."""\n', ["1", "1"]),
    ],
)
def test_it_finds_words_in_prose_alone(
    tmp_path: Path, name: str, text: str, lines: list[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert lines == found(path)


def test_nothing_is_found_here() -> None:
    run = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=False)
    assert "" == run.stdout
