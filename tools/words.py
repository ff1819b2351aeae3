"""Keep words and turns out that CONTRIBUTING.md's table replaces: part of ``make check``.

    python3 tools/words.py [FILE ...]

Reads documentation outside of code, and the comments, docstrings and messages of the package, and
prints each place with what to write instead. The exit status is 1 where it found any.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
READ: Final = (
    "README.md",
    "docs/*.md",
    "amqp10msg/*.py",
    "amqp10msg/*.py[xd]",
    "amqp10msg/*.pxd",
    "amqp10msg/*.pxi",
)
#: Made by a tool from the corpus, whose cases keep their names.
MADE: Final = ("docs/reference/conformance.md",)

#: A pattern, and what to write instead. Patterns are for plain text, in any case of letters.
WORDS: Final = {
    r"(?<![\w-])octets?(?!, sequence)(?![\w-]|[\"'`]|:)": "byte",
    r"\bbehind (?!a broker|a proxy|it\.|RabbitMQ|each|each of|them the)": "after",
    r"\bin front of\b": "before",
    r"\banew\b": "again",
    r"\bnought\b": "zero",
    r"\bfavourable\b": "best case",
    r"\bhears? of no\b": "removed from",
    r"\bat its word\b": "trusted",
    r"\bto the letter\b": "exactly",
    r"\bas ever\b": "as usual",
    r"(?<!there )\b(?:is|are) no (?!longer|more|less|such|worse|better|matter)\w": "is not a …",
    r"(?-i:\bReturn what\b)": "Return and the name of the thing",
    r"\bhow far it is\b": "progress",
    r"\b(?:is|are) found out\b": "is detected",
    r"\b(?:hold|held) to the corpus\b": "test",
    r"\bby the shell\b": "shell completion",
    r"\bbytes from strangers\b": "untrusted input",
    r"\barrive as other\b": "arrive changed",
    r"\bno valid UTF-8\b": "is not valid UTF-8",
    r"\bread and given back\b": "read and returned",
    r"\bto judge by\b": "to check against",
    r"\b[Jj]udge messages\b": "validate messages",
    r"\ball else that does not\b": "other errors",
    r"\bheld to the rules\b": "checked against the rules",
    r"\bput aside\b": "set aside",
    r"\bin silence\b": "silently",
    r"\bobject a line\b": "one object per line",
    r"\b(?:names|several) with commas between\b": "separated by commas",
    r"\bwithout a word\b": "silently",
    r"\bexit status is \d where\b": "if",
    r"\bwhere none are given\b": "if none are given",
    r"\bmarked as delivered before\b": "marked as redelivered",
    r"\b(?:are|is) kept out of sight\b": "in annotations alone",
    r"\ban byte\b": "a byte",
    r"\bOf several, the first\b": "if several apply, the first",
}
PATTERNS: Final = tuple((re.compile(p, re.IGNORECASE), to) for p, to in WORDS.items())
SQL: Final = re.compile(r"\b(?:SELECT|INSERT INTO|CREATE TABLE)\b")
CODE: Final = re.compile(r"``.*?``|`[^`]*`")
STRING: Final = re.compile(r"[a-zA-Z]*(\"\"\"|'''|\"|')(.*)\1", re.DOTALL)
#: What stands in braces of an f-string, or is one word, is code.
IN_BRACES: Final = re.compile(r"\{[^{}]*\}")


def prose_of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of fences, without code, each with its number."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, CODE.sub("``", line)


def prose_of_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of comments and strings of more than a word, each with its number."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], CODE.sub("``", token.string)
        elif token.type == tokenize.STRING and not SQL.search(token.string):
            found = STRING.fullmatch(token.string)
            lines = found[2].splitlines() if found and " " in found[2] else []
            for number, line in enumerate(lines, token.start[0]):
                if not line.lstrip().startswith((">>>", "...")):
                    yield number, CODE.sub("``", IN_BRACES.sub("", line))


def prose_of_cython(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and docstrings of Cython's sources, each line with its number."""
    quoted = False
    for number, line in enumerate(text.splitlines(), 1):
        quotes = line.count('"""')
        if quoted or quotes:
            yield number, CODE.sub("``", line)
        elif "#" in line:
            yield number, CODE.sub("``", line[line.index("#") :])
        quoted ^= quotes % 2 == 1


def found_in(path: Path) -> Iterator[str]:
    """Yield what stands in a file that should not, and what to write instead."""
    read = {".md": prose_of_markdown, ".py": prose_of_python}.get(path.suffix, prose_of_cython)
    lines = list(read(path.read_text()))
    following = {number: line.lstrip(" #:") for number, line in reversed(lines)}
    for number, line in lines:
        # A turn may be broken by the end of a line: it counts where it begins.
        after = following.get(number + 1, "")
        for pattern, instead in PATTERNS:
            for match in pattern.finditer(f"{line.rstrip()} {after}"):
                if match.start() >= len(line.rstrip()):
                    continue
                where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                yield f'{where}:{number}: "{match[0].strip()}": write "{instead}"'


def main(names: list[str]) -> int:
    """Look through the files, or all that git knows; return the exit status."""
    listed = names or subprocess.check_output(
        ["git", "ls-files", "--", *READ], cwd=ROOT, text=True
    ).split("\n")
    paths = [ROOT / name for name in listed if name and name not in MADE]
    faults = [fault for path in paths for fault in found_in(path)]
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
