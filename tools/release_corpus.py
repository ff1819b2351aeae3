"""Write the corpus as it is released: JSON lines, CBOR sequence, Parquet, and for npm and Go.

    python tools/release_corpus.py FOLDER

The same sources give the same bytes, Parquet with the same version of pyarrow. SHA256SUMS has the
digests.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

from build_corpus import ROOT, build

from amqp10msg.interop import corpus

VERSION = "1.0.0"
_ABOUT = "Encoded AMQP messages and values, what they say, and why they must be refused"

_INDEX = """\
// All cases, in the order of the files: require("amqp-corpus"). Integers beyond 2^53 are BigInt
// where JSON.parse of this version of Node hands out their source; elsewhere they are rounded.
"use strict";

const fs = require("fs");
const path = require("path");

const data = path.join(__dirname, "data");
const isLarge = (value) => typeof value === "number" && !Number.isSafeInteger(value);
const exact = (_, value, context) =>
  context && isLarge(value) && /^-?\\d+$/.test(context.source) ? BigInt(context.source) : value;

module.exports = fs
  .readdirSync(data)
  .filter((name) => name.endsWith(".jsonl"))
  .sort()
  .flatMap((name) => fs.readFileSync(path.join(data, name), "utf8").split("\\n"))
  .filter(Boolean)
  .map((line) => JSON.parse(line, exact));
"""
_GO = """\
// Package corpus embeds encoded AMQP messages and values, what they say, and why they must be
// refused.
package corpus

import "embed"

// Data has the files of cases, a JSON object a line: data/*.jsonl. Decode them with json.Number,
// since integers may have 64 bits.
//
//go:embed data/*.jsonl
var Data embed.FS
"""


def release(folder: Path) -> int:
    """Write the folder anew and return the number of cases."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    total = build(folder / "data")
    cases = corpus.load(folder / "data")
    corpus.dump(cases, folder / "corpus.cborseq")
    corpus.dump(cases, folder / "corpus.parquet")
    shutil.copy(ROOT / "amqp10msg" / "interop" / "corpus" / "data" / "README.md", folder)
    shutil.copy(ROOT / "docs" / "reference" / "corpus.md", folder / "FORMAT.md")
    shutil.copy(ROOT / "LICENSE", folder)
    package = {
        "name": "amqp-corpus",
        "version": VERSION,
        "description": _ABOUT,
        "license": "Apache-2.0",
        "main": "index.js",
        "files": ["data", "index.js", "FORMAT.md"],
    }
    texts = {
        "package.json": json.dumps(package, indent=2) + "\n",
        "index.js": _INDEX,
        "go.mod": "module amqp-corpus\n\ngo 1.16\n",
        "corpus.go": _GO,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    )
    (folder / "SHA256SUMS").write_text(sums)
    return total


if __name__ == "__main__":
    target = Path(sys.argv[1])
    sys.stdout.write(f"{release(target)} cases in {target}\n")
